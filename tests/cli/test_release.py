"""``labeldp release``: what stands after Ctrl-C, the mechanisms that are listed, and the end of a range."""

import re

import pytest

from labeldp.release import table_mechanisms


def test_ctrl_c_after_the_release_does_not_deny_it(release, table, tmp_path, monkeypatch, states):
    """Ctrl-C just after the output was moved to its place: the charge stands, and the message says so."""

    def stopped(_):
        if (tmp_path / "out").exists():
            raise KeyboardInterrupt

    monkeypatch.setattr("labeldp.release.folder._staging.sync", stopped)
    ran = release(table, tmp_path / "out")
    assert ran.code == 130
    assert "stopped" in ran.err
    assert (tmp_path / "out").is_dir()
    assert states(tmp_path / "t.csv.labeldp-ledger") == ["released"]
    assert "nothing was" not in ran.err


def test_the_help_lists_the_mechanisms_that_are_accepted(run, tmp_path):
    """An unknown mechanism is refused with the same names, and ``labeldp mechanisms`` describes each."""
    (tmp_path / "table.csv").write_text("x,y\n1,a\n2,b\n", encoding="utf-8")
    options = ["--label", "y", "--classes", "a,b", "--epsilon", 1, "--keep", "x", "--output", tmp_path / "out"]
    refused = run("release", tmp_path / "table.csv", *options, "--mechanism", "unknown")
    accepted = re.search(r"choose among (.*)", refused.err)[1].split(", ")
    assert accepted == sorted(table_mechanisms())
    page = re.sub(r"[\s│]+", " ", run("mechanisms").out)
    assert [m.name for m in table_mechanisms().values() if f" {m.name} {m.about} " not in page] == ["auto"]


@pytest.mark.parametrize(
    ("level", "answer", "declared"), [(0.25, "1250001", "1250001,9000001,1"), (0.5, "2500001", "")]
)
def test_a_quantile_is_printed_exactly_and_is_the_end_it_is_near(run, tmp_path, level, answer, declared):
    """All digits are shown, a low level begins the range, and the median is no end (odds against: e^50 to 10^7)."""
    rows = "".join(f"{i % 7},{50000 * i + 1}\n" for i in range(101))
    (tmp_path / "t.csv").write_text(f"x,y\n{rows}", encoding="utf-8")
    space = ("--label", "y", "--interval", "1,9000001,1", "--keep", "none", "--unit", "row")
    asked = ("--mechanism", "noisy-quantile", "--level", level, "--epsilon", 100, "--output", tmp_path / "q")
    done = run("release", tmp_path / "t.csv", *space, *asked)
    assert done.code == 0, done.err
    assert re.search(rf"^quantile +{answer} at level ", done.out, re.MULTILINE)
    (found,) = re.findall(r"--interval\s+(\S+)\s+and", done.out) or [""]
    assert found == declared
