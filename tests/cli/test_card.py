"""``labeldp card``: a folder that others load as a data set, and that still verifies."""

import shutil
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden/command"


@pytest.fixture
def shared(tmp_path):
    """A release."""
    shutil.copytree(GOLDEN / "auto", tmp_path / "shared")
    return tmp_path / "shared"


def test_a_card_is_written_and_verifies(run, shared):
    """Two files, which ``verify`` accepts."""
    ran = run("card", shared)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[:2] == [
        f"{shared / name}: follows from the certificate" for name in ("README.md", "croissant.json")
    ]
    assert "pandas.read_parquet of the folder takes README.md for a table" in " ".join(ran.out.split())
    assert run("verify", shared).code == 0
    assert run("card", shared).code == 0
    ran = run("card", shared, "--license", "CC-BY-4.0")
    assert (ran.code, "found one with other contents, license or name" in " ".join(ran.err.split())) == (1, True)


def test_a_license_and_a_name_are_declared(run, shared):
    """By the identifiers of the hub; what is no license is refused before anything is written."""
    ran = run("card", shared, "--license", "see www.mine.example")
    assert (ran.code, "identifier of a license" in ran.err) == (1, True)
    assert not (shared / "README.md").exists()
    assert run("card", shared, "--license", "CC-BY-4.0", "--name", "Levels").code == 0
    assert '\nlicense: "cc-by-4.0"\npretty_name: "Levels"\n' in (shared / "README.md").read_text(encoding="utf-8")
    assert run("verify", shared).code == 0


def test_what_does_not_verify_gets_no_card(run, shared):
    """Nothing is written beside files that are not those of the certificate."""
    (shared / "more.txt").write_text("?", encoding="utf-8")
    ran = run("card", shared)
    assert ran.code == 1
    assert "expected a release that agrees with its certificate" in ran.err
    assert not (shared / "README.md").exists()
    assert run("card", shared / "none").code == 1
