"""Files of a release: their hashes, which are taken while they are written, and which columns are dictionaries."""

import hashlib
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp._threads import FEW_ROWS
from labeldp.release.folder import FileWriter
from labeldp.release.folder import _write as module
from labeldp.release.folder._read import read_batches


@pytest.mark.parametrize("sizes", [[], [0], [5], [FEW_ROWS, FEW_ROWS + 1], [5, FEW_ROWS, 7, 3 * FEW_ROWS, 1]])
@pytest.mark.parametrize("at_a_time", [1 << 20, 1000])
def test_the_hash_is_that_of_the_whole_file(tmp_path, monkeypatch, sizes, at_a_time):
    """Whatever pieces it was written in, few rows and many, and however much was hashed before the end."""
    monkeypatch.setattr(module, "_BYTES", at_a_time)
    schema, rows = pa.schema([("x", pa.float64()), ("y", pa.int64())]), np.random.default_rng(0)
    with FileWriter(tmp_path / "a", schema) as writer:
        for size in sizes:
            writer.write(pa.table({"x": rows.normal(size=size), "y": rows.integers(0, 9, size)}, schema))
        file = writer.close()
    assert file.sha256 == hashlib.sha256((tmp_path / "a").read_bytes()).hexdigest()
    assert (file.rows, pq.read_metadata(tmp_path / "a").num_rows) == (sum(sizes), sum(sizes))


def test_what_is_written_is_hashed_beside_the_next_rows(tmp_path, monkeypatch):
    """By another thread than the one that encodes, before the file is closed."""
    hashed, schema = [], pa.schema([("x", pa.float64())])
    go_on = module._FileHash.go_on
    monkeypatch.setattr(module._FileHash, "go_on", lambda hash_: hashed.append(threading.get_ident()) or go_on(hash_))
    with FileWriter(tmp_path / "a", schema) as writer:
        for _ in range(3):
            writer.write(pa.table({"x": np.zeros(FEW_ROWS)}, schema))
        writer.close()
    assert len(hashed) == 4
    assert len({*hashed[:3]} - {threading.get_ident()}) == 1


def test_lists_are_dictionaries_like_plain_columns(tmp_path):
    """Classes in sets are few: their places take fewer bytes. Floats would not, and texts could not be verified."""
    table = pa.table(
        {
            "set": pa.array([[0, 3], [], [1]], pa.list_(pa.field("element", pa.int64(), nullable=False))),
            "texts": [["a"], ["b", "a"], None],
            "floats": [[0.5], [], [1.5]],
            "pair": [{"a": 1, "b": 0.5}] * 3,
            "float": [0.5, 1.5, 2.5],
            "text": ["a", "b", "a"],
        }
    )
    with FileWriter(tmp_path / "a", table.schema) as writer:
        writer.write(table)
        writer.write(table)
        file = writer.close()
    group = pq.read_metadata(tmp_path / "a").row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    assert {column.path_in_schema for column in columns if column.has_dictionary_page} == {
        "set.list.element",
        "pair.a",
        "text",
    }
    assert pq.read_table(tmp_path / "a").equals(pa.concat_tables([table, table]))
    batches = list(read_batches(tmp_path, file, table.column_names, 6))
    assert pa.Table.from_batches(batches).equals(pa.concat_tables([table, table]))
