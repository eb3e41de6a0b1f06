"""IDX files: what is read, what is refused, and labels that come in one."""

import gzip
import struct
import tracemalloc

import numpy as np
import pyarrow.parquet as pq
import pytest

from labeldp import Classes, Release, public_columns, release_table, verify
from labeldp.errors import LabelDPError, TableError
from labeldp.release import public_table
from labeldp.release.tables import open_table, read_idx

KINDS = {8: "u1", 9: "i1", 11: "i2", 12: "i4"}


def idx(values, kind=8):
    """The bytes of an IDX file."""
    numbers = np.asarray(values).astype(f">{KINDS[kind]}")
    return struct.pack(f">BBBB{numbers.ndim}I", 0, 0, kind, numbers.ndim, *numbers.shape) + numbers.tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("shape", [(5,), (4, 2, 3)])
def test_numbers_are_read_as_they_were_written(tmp_path, kind, pack, shape):
    """Of every kind and number of dimensions, plain or gzipped, whatever the file is called."""
    low = 0 if kind == 8 else -100
    values = np.random.default_rng(0).integers(low, 100, shape)
    path = tmp_path / "anything"
    path.write_bytes(pack(idx(values, kind)))
    found = read_idx(path, len(shape))
    assert found.dtype == np.dtype(KINDS[kind])
    np.testing.assert_array_equal(found, values)


WHOLE = idx(np.arange(60).reshape(5, 4, 3))
SMALL = gzip.compress(WHOLE)
BAD = {
    "nothing": (b"", "another header"),
    "text": (b"label\n3\n", "another header"),
    "floats": (b"\0\0\x0d\3" + WHOLE[4:], "another header"),
    "a kind that is none": (b"\0\0\x0a\3" + WHOLE[4:], "another header"),
    "three bytes": (WHOLE[:3], "another header"),
    "labels": (idx(np.arange(5)), "expected 3 dimensions in t, found 1"),
    "a header cut off": (WHOLE[:15], "found it cut off"),
    "numbers cut off": (WHOLE[:-1], "expected 60 bytes after the header of t, found fewer"),
    "more than it says": (WHOLE + b"\0", "found more"),
    "no images": (idx(np.zeros((0, 4, 3))), "at least one number"),
    "images of no size": (struct.pack(">BBBBIII", 0, 0, 8, 3, 2**32 - 1, 2**32 - 1, 0), "at least one number"),
    "a hostile header": (
        struct.pack(">BBBBIII", 0, 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1),
        "found a header of more",
    ),
    "a size that lies": (struct.pack(">BBBBIII", 0, 0, 8, 3, 2**20, 28, 28) + bytes(100), "found fewer"),
    "gzip cut off": (SMALL[:-9], "cut off or damaged"),
    "gzip without its end": (SMALL[:-4], "cut off or damaged"),
    "gzip damaged": (SMALL[:12] + b"\xff\xff\xff" + SMALL[15:], "cut off or damaged"),
    "gzip of nothing": (gzip.compress(b""), "another header"),
    "gzip alone": (b"\x1f\x8b", "cut off or damaged"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_idx_file_is_refused(tmp_path, case):
    """With a message that names the file and what is wrong, and no other error."""
    data, message = BAD[case]
    (tmp_path / "t").write_bytes(data)
    with pytest.raises(TableError, match=r"^expected .*, found") as caught:
        read_idx(tmp_path / "t", 3)
    assert message in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    """It is named, and so is a folder."""
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(TableError, match="there is no file"):
            read_idx(path, 1)


def test_any_byte_may_be_wrong(tmp_path):
    """Whatever byte of a small file is changed or cut off, it is read in the same shape or refused in words."""
    random = np.random.default_rng(0)
    for data in (WHOLE, SMALL):
        for place in range(len(data)):
            bad = bytearray(data)
            bad[place] = random.integers(0, 256)
            for each in (bytes(bad), data[:place]):
                (tmp_path / "t").write_bytes(each)
                try:
                    assert read_idx(tmp_path / "t", 3).size == 60
                except TableError as refused:
                    assert "found" in str(refused)  # noqa: PT017 (either of both is right)


def test_memory_is_bounded_by_what_is_there(tmp_path):
    """A header of four gigabytes in a short file, and a gzip bomb behind a small header, take a few megabytes."""
    liar = struct.pack(">BBBBI", 0, 0, 8, 1, 2**32 - 1)
    bomb = gzip.compress(struct.pack(">BBBBI", 0, 0, 8, 1, 1000) + bytes(100_000_000))
    tracemalloc.start()
    try:
        for data, message in ((liar + bytes(10), "fewer"), (gzip.compress(liar), "fewer"), (bomb, "more")):
            (tmp_path / "t").write_bytes(data)
            tracemalloc.reset_peak()
            with pytest.raises(TableError, match=message):
                read_idx(tmp_path / "t", 1)
            assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()
    (tmp_path / "t").write_bytes(idx(np.arange(100)))
    assert read_idx(tmp_path / "t", 1, most_bytes=100).size == 100
    with pytest.raises(TableError, match="at most 99 bytes"):
        read_idx(tmp_path / "t", 1, most_bytes=99)


@pytest.mark.parametrize("name", ["train-labels-idx1-ubyte", "train-labels-idx1-ubyte.gz", "t.idx1-ubyte.gz"])
def test_labels_alone_are_a_table(tmp_path, name):
    """Of one column, 'label', which is released with nothing beside it, in the file's order of rows."""
    labels = np.arange(500) * 7 % 10
    data = idx(labels)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert open_table(tmp_path / name, "label").schema.names == ["label"]
    space = Classes(range(10))
    done = release_table(tmp_path / name, "label", space, 20.0, tmp_path / "shared", keep=[])
    assert verify(done.output).holds
    assert pq.read_schema(done.output / "data.parquet").names == ["label_released"]
    found = Release.load(done.output)
    assert len(found) == 500
    assert np.mean(np.argmax(found.likelihood(), axis=1) == labels) > 0.99
    assert public_columns(done.output).column_names == []
    table, public = public_table(tmp_path / name, "label", space, {})
    assert table.column_names == []
    np.testing.assert_array_equal(public.codes, labels)


def test_labels_are_read_in_batches_like_any_table(tmp_path):
    """However many rows a batch has, the labels come in order and once."""
    labels = np.arange(23) % 4
    (tmp_path / "t-idx1-ubyte").write_bytes(idx(labels))
    table = open_table(tmp_path / "t-idx1-ubyte", "label")
    for rows in (1, 5, 23, 100):
        found = [batch["label"].to_numpy() for batch in table.batches(["label"], rows)]
        assert all(len(part) <= rows for part in found)
        np.testing.assert_array_equal(np.concatenate(found), labels)


@pytest.mark.parametrize("change", [{"label": "y"}, {"space": Classes(range(9))}, {"data": idx(np.zeros((2, 2)))}])
def test_other_labels_are_refused_without_a_word_of_them(tmp_path, change):
    """Another name of the column, a label outside the classes, or images in place of labels: nothing is charged."""
    (tmp_path / "t-idx1-ubyte").write_bytes(change.get("data", idx(np.array([1, 2, 9, 3]))))
    with pytest.raises(LabelDPError, match=r"^(expected|no column|the label in row 3)") as caught:
        release_table(
            tmp_path / "t-idx1-ubyte",
            change.get("label", "label"),
            change.get("space", Classes(range(10))),
            1.0,
            tmp_path / "out",
            keep=[],
        )
    assert " 9" not in str(caught.value).replace("of the 9 declared", "")
    assert not (tmp_path / "out").exists()
