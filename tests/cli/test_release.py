"""``labeldp release``: what stands after Ctrl-C, the mechanisms that are listed, and the end of a range."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import Ledger, verify
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
    ("level", "answer", "declared"), [(0.25, "1250001", "1250001,2000001,1"), (0.5, "1500001", "")]
)
def test_a_quantile_is_printed_exactly_and_is_the_end_it_is_near(run, tmp_path, level, answer, declared):
    """All digits are shown, a low level begins the range, and the median is no end (odds against: e^50 to 10^6)."""
    rows = "".join(f"{i % 7},{10_000 * i + 1_000_001}\n" for i in range(101))
    (tmp_path / "t.csv").write_text(f"x,y\n{rows}", encoding="utf-8")
    space = ("--label", "y", "--interval", "1000001,2000001,1", "--keep", "none", "--unit", "row")
    asked = ("--mechanism", "noisy-quantile", "--level", level, "--epsilon", 100, "--output", tmp_path / "q")
    done = run("release", tmp_path / "t.csv", *space, *asked)
    assert done.code == 0, done.err
    assert re.search(rf"^quantile +{answer} at level ", done.out, re.MULTILINE)
    (found,) = re.findall(r"--interval\s+(\S+)\s+and", done.out) or [""]
    assert found == declared


# ``labeldp release --engine`` and ``labeldp verify --engine``.


@pytest.fixture
def two_files(tmp_path, secrets):
    """A folder of two files."""
    (tmp_path / "t").mkdir()
    for part in range(2):
        rows = np.arange(50 * part, 50 * part + 50)
        pq.write_table(pa.table({"z": rows, "y": [secrets[i % 3] for i in rows]}), tmp_path / "t" / f"{part}.parquet")
    return tmp_path / "t"


def test_a_release_by_processes_is_verified_by_processes(release, run, two_files, tmp_path, secrets):
    """One file for each of the table, one charge, the same verdict, and no label in what is printed."""
    done = release(two_files, tmp_path / "out", engine="processes:1")
    assert done.code == 0, done.err
    assert done.out.startswith("Released 100 rows at epsilon 1 per row.")
    assert not [secret for secret in secrets if secret in done.err]
    assert verify(tmp_path / "out").holds
    assert [file.rows for file in verify(tmp_path / "out").certificate.files] == [50, 50]
    assert [entry.state for entry in Ledger(tmp_path / "t.labeldp-ledger").entries()] == ["released"]
    seen = run("verify", tmp_path / "out", "--engine", "processes:1")
    assert (seen.code, seen.out.splitlines()[0]) == (0, run("verify", tmp_path / "out").out.splitlines()[0])
