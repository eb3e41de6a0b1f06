"""Footers of Parquet files are read as Arrow reads them, and refused where Arrow may read something else, or ends."""

import hashlib
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp.errors import VerificationError
from labeldp.release.folder._limits import Chunk, chunks

HERE = Path(__file__).parents[2]
NUMBERS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "ZSTD": 6}
#: Fields 1 to 5 of a column: its type, a list of two encodings, its path, compression and number of values.
COLUMN = b"\x15\x02\x19\x25\x06\x00\x19\x18\x01y\x15\x02\x16\x0e\x00"


def described(content):
    """Arrow's description of all columns of all row groups of a file that it wrote."""
    about = pq.ParquetFile(io.BytesIO(content)).metadata
    groups = (about.row_group(number) for number in range(about.num_row_groups))
    columns = (group.column(number) for group in groups for number in range(group.num_columns))
    return [Chunk(each.path_in_schema, NUMBERS[each.compression], each.num_values) for each in columns]


def written(table, **options):
    """The bytes of a Parquet file."""
    pq.write_table(table, file := io.BytesIO(), **options)
    return file.getvalue()


def file_of(column):
    """A file of nothing but a footer with one column of one row group."""
    footer = b"\x49\x1c\x19\x1c\x3c" + column + b"\x00\x00\x00"
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


@pytest.mark.parametrize("options", [{}, {"compression": "zstd"}, {"row_group_size": 7, "write_page_index": True}])
def test_a_footer_says_what_arrow_says(options):
    """Of columns of every kind, nested ones too, and in golden files."""
    values = {"number": np.arange(20.0), "text": list("abcdefghijklmnopqrst"), "set": [[1, 2]] * 20, "no": [None] * 20}
    table = pa.table({**values, "inside": [{"x": 1, "y": [2, 3]}] * 20})
    golden = [path.read_bytes() for path in sorted((HERE / "golden").glob("python/*/*.parquet"))]
    for content in (written(table, **options), *golden):
        assert list(chunks(io.BytesIO(content))) == described(content)


def test_a_schema_without_its_histograms_gets_a_verdict(tmp_path):
    """One byte of a schema makes Arrow's description of a column end the process, with the digest as it is then."""
    folder = shutil.copytree(HERE / "golden" / "python" / "noisy-top-k", tmp_path / "shared")
    data, certificate = folder / "data.parquet", folder / "certificate.json"
    content = bytearray(data.read_bytes())
    before, content[228] = hashlib.sha256(content).hexdigest(), 0x39
    data.write_bytes(content)
    text = certificate.read_text(encoding="utf-8").replace(before, hashlib.sha256(content).hexdigest())
    certificate.write_text(text, encoding="utf-8")
    script = [sys.executable, HERE / "forgeries.py", "--as-they-are"]
    ran = subprocess.run(script, input=str(folder), capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout)["found"] == "expected a readable file, found OSError"


def test_a_footer_is_read_field_by_field():
    """A footer that was put together by hand, as a basis of those below."""
    assert list(chunks(io.BytesIO(file_of(COLUMN)))) == [Chunk("y", 1, 7)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\x19\x25\x06\x00", b"\x19\x26\x06\x00"),  # encodings as longer numbers
        (b"\x19\x25\x06\x00", b"\x19\x23\x06\x00"),  # as bytes, which Arrow reads as numbers of any length
        (b"\x19\x25\x06\x00", b"\x1a\x25\x06\x00"),  # as a set
        (b"\x19\x18\x01y", b"\x19\x15\x02"),  # a path of numbers
        (b"\x16\x0e\x00", b"\x16\x0e\x19\x15\x02\x00"),  # another list
        (b"\x16\x0e\x00", b"\x16\x0e\x06\x0a\x0e\x00"),  # the number of values twice
        (b"\x16\x0e\x00", b"\x16\x0d\x00"),  # and below none
        (b"\x16\x0e\x00", b"\x00"),  # and missing
        (b"\x19\x18\x01y", b"\x19\x18\x7fy"),  # a name that is cut off
    ],
)
def test_a_footer_that_arrow_may_read_otherwise_is_refused(old, new):
    """Other kinds of lists, fields that come twice, and numbers that make no sense."""
    assert COLUMN.count(old) == 1
    with pytest.raises(VerificationError, match="a damaged one"):
        list(chunks(io.BytesIO(file_of(COLUMN.replace(old, new)))))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"\xff\xff\xff\x7fPAR1", b"\x00\x00\x00\x00PAR1", b"x" * 100])
def test_what_is_no_parquet_file_is_refused(content):
    """An empty file, one without a footer, and one whose footer is longer than it is."""
    with pytest.raises(VerificationError, match="a damaged one"):
        list(chunks(io.BytesIO(content)))
