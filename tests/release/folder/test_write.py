"""Files of a release: their hashes, which are taken while they are written, and which columns are dictionaries."""

import hashlib
import mmap
import os
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as dp
from labeldp._threads import FEW_ROWS
from labeldp.errors import VerificationError
from labeldp.release import folder as folders
from labeldp.release.folder import FileWriter, _columns, _verify
from labeldp.release.folder import _write as module
from labeldp.release.folder._columns import answer_in, read_batches
from labeldp.results import _answer


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


# What is read of a release is what was verified, byte for byte: each reader, on files that are exchanged meanwhile.


SPACE, LABELS = dp.Classes(["no", "yes"]), ["no", "yes"] * 20


def of_labels(path):
    """Released labels beside a column."""
    columns = pa.table({"age": list(range(40))})
    return dp.Curator(LABELS, SPACE).randomize(dp.RandomizedResponse(SPACE, 1.0)).save(path, columns, keep="all")


def of_candidates(path):
    """Released labels whose channel is one of each row."""
    prior = dp.ClassProbabilities(np.tile([[0.9, 0.1], [0.5, 0.5]], (20, 1)), SPACE.points)
    return dp.Curator(LABELS, SPACE).randomize(dp.PriorResponse(SPACE, 1.0, prior)).save(path)


def of_answer(path):
    """An answer."""
    return dp.Curator(LABELS, SPACE).answer(dp.NoisyHistogram(SPACE, 1.0, np.arange(40) % 2)).save(path)


def blocks(folder, certificate):
    """The answer on a page."""
    return list(_answer.answer_blocks(folder, certificate))


READERS = {
    "labels": (of_labels, lambda folder, _: dp.Release.load(folder)),
    "batches": (of_labels, lambda folder, _: list(dp.release_batches(folder))),
    "columns": (of_labels, dp.public_columns),
    "columns of whatever is there": (of_labels, lambda folder, _: dp.public_columns(folder)),
    "effective rows": (of_labels, folders.effective_share),
    "candidates": (of_candidates, folders.law_of_rows),
    "total": (
        of_candidates,
        lambda folder, certificate: dp.combined_guarantee([folder], verified={folder: certificate}),
    ),
    "answer": (of_answer, answer_in),
    "page": (of_answer, blocks),
}


def rotated(folder):
    """Put another file of the same form in the place of the one that is there."""
    file = folder / "data.parquet"
    table = pq.read_table(file)
    other = pa.concat_tables([table.slice(1), table.slice(0, 1)])
    pq.write_table(other, folder.parent / "other")
    (folder.parent / "other").replace(file)


@pytest.mark.parametrize("reader", READERS)
def test_what_is_read_was_verified(reader, tmp_path, monkeypatch):
    """A file that takes the place of one between verification and use is refused, by each reader."""
    make, read = READERS[reader]
    folder, check = make(tmp_path / "shared"), _verify.verify
    certificate = folders.certified(folder)
    read(folder, certificate)

    def exchanged(*arguments, **options):
        verdict = check(*arguments, **options)
        rotated(folder)
        return verdict

    monkeypatch.setattr(_verify, "verify", exchanged)
    if reader not in ("labels", "batches"):
        rotated(folder)
    with pytest.raises(VerificationError, match="different bytes"):
        read(folder, certificate)


@pytest.mark.parametrize("when", ["digest", "verify"])
def test_values_are_those_whose_bytes_were_checked(when, tmp_path):
    """A file that is exchanged while a folder is verified does not hold."""
    folder = of_labels(tmp_path / "shared")
    assert not dp.verify(
        folder, progress=lambda name, done, _: rotated(folder) if (name, done) == (when, 0) else None
    ).holds


def test_columns_go_with_the_labels_that_were_loaded(tmp_path):
    """Columns are of the release whose certificate is given, or of none, though another one verifies there by now."""
    folder = of_labels(tmp_path / "shared")
    certificate = dp.Release.load(folder).certificate
    for file in of_labels(tmp_path / "again").iterdir():
        file.replace(folder / file.name)
    assert dp.verify(folder).holds
    assert dp.public_columns(folder).num_rows == 40
    with pytest.raises(VerificationError, match="different bytes"):
        dp.public_columns(folder, certificate)


def test_a_change_in_place_is_noticed(tmp_path, monkeypatch):
    """Other bytes of the same length in the same file are noticed, though its time of modification is set back."""
    monkeypatch.setattr(_columns, "_SETTLED", 0)
    folder = of_labels(tmp_path / "shared")
    file = folder / "data.parquet"
    time.sleep(0.05)
    assert dp.verify(folder).holds
    time.sleep(0.05)
    state = file.stat()
    with file.open("r+b") as opened:
        opened.seek(10)
        opened.write(b"?")
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert not dp.verify(folder).holds


def test_bytes_are_hashed_once_where_a_large_file_is_settled(tmp_path, monkeypatch):
    """And once more whenever the file is closed; twice each time where it was just written."""
    folder, counted = of_labels(tmp_path / "shared"), []
    digest = hashlib.file_digest
    monkeypatch.setattr(_columns, "_IN_MEMORY", 0)
    monkeypatch.setattr(hashlib, "file_digest", lambda *given: counted.append(given) or digest(*given))
    monkeypatch.setattr(_columns, "_SETTLED", 1 << 62)
    dp.Release.load(folder)
    twice = len(counted)
    monkeypatch.setattr(_columns, "_SETTLED", 0)
    time.sleep(0.05)
    counted.clear()
    dp.Release.load(folder)
    assert twice > 3
    assert len(counted) == twice // 2 + 1


@pytest.mark.parametrize("in_memory", [0, 1 << 25])
def test_memory_that_maps_a_file_is_no_way_around_its_digest(tmp_path, monkeypatch, in_memory):
    """Writing to it changes no time of the file."""
    monkeypatch.setattr(_columns, "_IN_MEMORY", in_memory)
    monkeypatch.setattr(_columns, "_SETTLED", 0)
    folder = of_labels(tmp_path / "shared")
    with (folder / "data.parquet").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[8:9] = mapped[8:9]
        time.sleep(0.05)
        dp.Release.load(folder)
        mapped[8] ^= 1
        with pytest.raises(VerificationError):
            dp.Release.load(folder)
        assert not dp.verify(folder).holds
