"""Rows of a table that fits are decoded once, and are the same as those read again from its files."""

import pickle

import pyarrow as pa
import pytest

from labeldp import Classes, release_table
from labeldp.release.tables import _batches, _tables, open_table, typed

ROWS = "".join(f"{i},{i / 8},0{i % 7},{'yes' if i % 3 else 'no'}\n" for i in range(300))


@pytest.fixture
def folder(tmp_path):
    """Two CSV files in folders that name a column."""
    for year in ("2025", "2026"):
        (tmp_path / f"t/year={year}").mkdir(parents=True)
        (tmp_path / f"t/year={year}/part.csv").write_text(f"id,size,code,ill\n{ROWS}", "utf-8")
    return tmp_path / "t"


def rows_of(table):
    """All rows of a table."""
    return pa.Table.from_batches(table.batches(table.schema.names, 100))


@pytest.mark.parametrize("most", [1 << 28, 8_000, 0], ids=["all fits", "one file fits", "nothing fits"])
def test_held_rows_are_those_of_the_files(folder, monkeypatch, most):
    """Types are those of a table whose rows are read again, and so are values, in a worker's copy too."""
    monkeypatch.setattr(_batches, "_MOST", most)
    table = typed(open_table(folder, "ill"), ["id", "size", "code", "year"], hold=True)
    assert table.schema.types == [pa.int64(), pa.float64(), pa.string(), pa.string(), pa.int64()]
    assert all((table.memory.of(file) is not None) == (most > 8_000) for file in table.files)
    again = pickle.loads(pickle.dumps(table))  # noqa: S301 (of this test)
    assert not any(again.memory.of(file) for file in table.files)
    assert rows_of(table).equals(rows_of(again))
    assert rows_of(table)["size"].to_pylist() == [i / 8 for i in range(300)] * 2


@pytest.mark.parametrize("kind", ["csv", "feather"])
def test_a_release_decodes_a_table_once(tmp_path, monkeypatch, kind):
    """The first lines are read besides: for names, and for the marks by which a ledger knows the table."""
    read, path = [], tmp_path / f"t.{kind}"
    columns = {"id": range(300), "ill": ["yes", "no", "no"] * 100}
    if kind == "csv":
        path.write_text("id,ill\n" + "".join(f"{i},{ill}\n" for i, ill in zip(*columns.values(), strict=True)), "utf-8")
        opened = _tables._open_csv
        monkeypatch.setattr(_tables, "_open_csv", lambda *given: (read.append(given[2]), opened(*given))[1])
    else:
        table = pa.table({"id": list(columns["id"]), "ill": columns["ill"]})
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
        whole = _tables.whole_table
        monkeypatch.setattr(
            _tables, "whole_table", lambda *given, **named: (read.append(_tables._CSV_BLOCK), whole(*given, **named))[1]
        )
    release_table(path, "ill", Classes(["no", "yes"]), 1.0, tmp_path / "out", keep=["id"])
    assert read.count(_tables._CSV_BLOCK) == (1 if kind == "csv" else 2)
