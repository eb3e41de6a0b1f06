"""``labeldp release --engine`` and ``labeldp verify --engine``."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import Ledger, verify


@pytest.fixture
def table(tmp_path, secrets):
    """A folder of two files."""
    (tmp_path / "t").mkdir()
    for part in range(2):
        rows = np.arange(50 * part, 50 * part + 50)
        pq.write_table(pa.table({"z": rows, "y": [secrets[i % 3] for i in rows]}), tmp_path / "t" / f"{part}.parquet")
    return tmp_path / "t"


def test_a_release_by_processes_is_verified_by_processes(release, run, table, tmp_path, secrets):
    """One file for each of the table, one charge, the same verdict, and no label in what is printed."""
    done = release(table, tmp_path / "out", engine="processes:1")
    assert done.code == 0, done.err
    assert done.out.startswith("Released 100 rows at epsilon 1 per row.")
    assert not [secret for secret in secrets if secret in done.err]
    assert verify(tmp_path / "out").holds
    assert [file.rows for file in verify(tmp_path / "out").certificate.files] == [50, 50]
    assert [entry.state for entry in Ledger(tmp_path / "t.labeldp-ledger").entries()] == ["released"]
    seen = run("verify", tmp_path / "out", "--engine", "processes:1")
    assert (seen.code, seen.out.splitlines()[0]) == (0, run("verify", tmp_path / "out").out.splitlines()[0])
