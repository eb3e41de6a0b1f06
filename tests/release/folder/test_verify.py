"""Verification: whatever is done to the files of a release, its own check fails; a good release holds."""

import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as dp
from labeldp.errors import VerificationError
from labeldp.release.folder._certificate import UNKNOWN
from labeldp.release.folder._limits import Chunk, chunks

CERTIFICATE, WORDS, LAW = "can be read", "test source of randomness", "integers of its mechanism"
FILES, SCHEMA, VALUES = "listed files", "listed columns", "outcome"
_NOT_PRIVATE = "NOT PRIVATE: these labels were drawn with the words of a test, and nothing is promised."


@pytest.fixture
def folder(space, labels, tmp_path):
    """A good release with a public column."""
    release = dp.Curator(labels, space).randomize(dp.RandomizedResponse(space, 1.0))
    return release.save(tmp_path / "out", pa.table({"x": range(60)}), label="colour", keep="all")


def failing(folder):
    """What the last check was about, of a folder that does not verify, and that no text shows a class."""
    verdict = dp.verify(folder)
    assert not verdict.holds
    assert verdict.unknown == UNKNOWN
    bad = verdict.checks[-1]
    assert [check.holds for check in verdict.checks] == [True] * (len(verdict.checks) - 1) + [False]
    text = " ".join(f"{check.what} {check.found}" for check in verdict.checks)
    assert not re.search(r"\b(red|green|blue|grey|pink|gold)\b", text)
    return bad.what


def relist(folder, table=None, **options):
    """Replace the file and list it again, as one would who wants the change not to be noticed."""
    path = folder / "data.parquet"
    if table is not None:
        pq.write_table(table, path, **options)
    body = json.loads((folder / "_certificate.json").read_text())
    body["table"]["files"][0]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "_certificate.json").write_text(json.dumps(body, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
    return body


def relist_columns(folder, body):
    """List the columns of the file as they now are."""
    schema = pq.read_schema(folder / "data.parquet")
    body["table"]["columns"] = [{"name": field.name, "type": str(field.type)} for field in schema]
    (folder / "_certificate.json").write_text(json.dumps(body, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def plain(folder):
    """The released table without metadata."""
    return pq.read_table(folder / "data.parquet").replace_schema_metadata(None)


def test_a_good_release_holds(folder):
    """Every check holds, in a fixed order, and what can't be known is said."""
    verdict = dp.verify(folder)
    assert verdict.holds
    assert [check.holds for check in verdict.checks] == [True] * 7
    for check, word in zip(verdict.checks[1:], (WORDS, LAW, FILES, SCHEMA, VALUES, "_README.txt"), strict=True):
        assert word in check.what
    assert verdict.unknown == UNKNOWN


def test_listing_again_changes_nothing(folder):
    """The same table written and listed again holds: the changes below fail for what they change."""
    relist(folder, plain(folder))
    assert dp.verify(folder).holds


@pytest.mark.parametrize("name", ["notes.txt", ".hidden", "_certificate.json.bak", "part-00001.parquet", "sub/file"])
def test_an_extra_file_fails(folder, name):
    """Anything else in the folder fails, hidden files and folders too."""
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("more")
    assert FILES in failing(folder)
    finding = dp.verify(folder).checks[-1].found
    assert finding.startswith("expected only files that the certificate lists, found")
    assert repr(name) in finding
    assert finding.endswith("; move it away")


def test_a_missing_file_fails(folder):
    """A listed file that is gone fails."""
    (folder / "data.parquet").unlink()
    assert FILES in failing(folder)
    assert dp.verify(folder).checks[-1].found == "expected 'data.parquet', found no such file"
    with pytest.raises(VerificationError, match="found no such file; do not rely on it, and get it"):
        dp.Release.load(folder)


def test_a_description_that_is_not_there_is_not_checked(folder):
    """A folder without a description verifies, and no check claims to have compared one."""
    (folder / "_README.txt").unlink()
    verdict = dp.verify(folder)
    assert verdict.holds
    assert not any("_README.txt" in check.what for check in verdict.checks)


@pytest.mark.parametrize("place", [0.0, 0.3, 0.6, 0.999])
def test_a_changed_byte_fails(folder, place):
    """One bit anywhere in the file fails."""
    data = bytearray((folder / "data.parquet").read_bytes())
    data[int(place * len(data))] ^= 1
    (folder / "data.parquet").write_bytes(data)
    assert FILES in failing(folder)


@pytest.mark.parametrize("keep", [0, 4, 100, -8, -1])
def test_a_cut_off_file_fails(folder, keep):
    """A truncated file fails, and where its hash is listed again it is still no table."""
    data = (folder / "data.parquet").read_bytes()
    (folder / "data.parquet").write_bytes(data[:keep])
    assert FILES in failing(folder)
    relist(folder)
    assert SCHEMA in failing(folder)


def with_struct(table):
    """A table with a column that has metadata inside."""
    inner = pa.StructArray.from_arrays([pa.array(range(60))], fields=[pa.field("i", pa.int64(), metadata=MORE)])
    return table.append_column(pa.field("s", inner.type), inner)


def released_as(kind):
    """A table whose released labels have another type."""
    return lambda table: table.set_column(1, "colour_released", table["colour_released"].cast(kind))


MORE = {"raw": "secret"}
#: Tables that are not the listed one, also if their columns are listed again where that is said.
OTHER_TABLES = {
    "a column more": (lambda table: table.append_column("more", pa.array(range(60))), False),
    "a column less": (lambda table: table.drop(["x"]), False),
    "no released labels": (lambda table: table.drop(["colour_released"]), True),
    "long texts": (released_as(pa.large_string()), True),
    "bytes": (released_as(pa.binary()), True),
    "a dictionary that may hold more": (released_as(pa.dictionary(pa.int32(), pa.string())), True),
    "metadata of the file": (lambda table: table.replace_schema_metadata(MORE), False),
    "metadata of a column": (
        lambda table: table.cast(table.schema.set(0, table.schema.field(0).with_metadata(MORE))),
        False,
    ),
    "metadata inside a column": (with_struct, True),
    "fewer rows": (lambda table: table.slice(0, 59), False),
    "no rows": (lambda table: table.slice(0, 0), False),
}


@pytest.mark.parametrize("case", OTHER_TABLES)
def test_another_table_fails(folder, case):
    """Other columns, types, rows and metadata fail, though the file is listed again."""
    change, listed = OTHER_TABLES[case]
    body = relist(folder, change(plain(folder)))
    if listed:
        relist_columns(folder, body)
    assert SCHEMA in failing(folder)


@pytest.mark.parametrize("name", ["colour", "Colour ", "\uff23o\u00adlour"])
def test_the_true_label_column_fails(folder, labels, name):
    """A column with the label's own name in any spelling fails, listed or not, and no label is shown."""
    body = relist(folder, plain(folder).append_column(name, pa.array(labels)))
    assert SCHEMA in failing(folder)
    relist_columns(folder, body)
    assert "integers of its mechanism" in failing(folder)
    assert "the true label" in dp.verify(folder).checks[-1].found


@pytest.mark.parametrize("value", ["gold", "", None, "red ", "Red"])
@pytest.mark.parametrize("row", [0, 30, 59])
def test_a_value_outside_the_space_fails(folder, value, row):
    """A value that is no declared class fails in any row, and so does a missing one."""
    table = plain(folder)
    values = table["colour_released"].to_pylist()
    values[row] = value
    relist(folder, table.set_column(1, "colour_released", pa.array(values, pa.string())))
    assert VALUES in failing(folder)


SETS = {
    "too few": ["red"],
    "too many": ["red", "green", "blue"],
    "empty": [],
    "none": None,
    "another order": ["green", "red"],
    "twice": ["red", "red"],
    "undeclared": ["red", "gold"],
    "missing inside": ["red", None],
}


@pytest.mark.parametrize("value", SETS.values(), ids=SETS)
def test_a_set_of_another_form_fails(space, labels, tmp_path, value):
    """A set of the wrong size, in another order, with repeats or with another value fails."""
    folder = dp.Curator(labels, space).randomize(dp.SubsetResponse(space, 1.0, 2)).save(tmp_path / "out")
    table = plain(folder)
    values = table["label_released"].to_pylist()
    values[59] = value
    kind = pa.list_(pa.field("element", pa.string(), nullable=None in (value or [])))
    body = relist(folder, table.set_column(0, "label_released", pa.array(values, kind)))
    if None in (value or []):
        relist_columns(folder, body)
        assert failing(folder)
    else:
        assert VALUES in failing(folder)


def test_an_order_of_bits_fails(space, labels, tmp_path):
    """In sets of any size, an order that is not the declared one could carry a message, and fails."""
    folder = dp.Curator(labels, space).randomize(dp.BitResponse(space, 1.0)).save(tmp_path / "out")
    table = plain(folder)
    values = [found[::-1] for found in table["label_released"].to_pylist()]
    relist(folder, table.set_column(0, "label_released", pa.array(values, table["label_released"].type)))
    assert VALUES in failing(folder)


def test_a_label_outside_its_candidates_fails(space, labels, tmp_path):
    """A released class that is not among its row's candidates fails, and so does a row without candidates."""
    prior = dp.ClassProbabilities(np.tile([0.4, 0.3, 0.2, 0.06, 0.04], (60, 1)), space.points)
    folder = dp.Curator(labels, space).randomize(dp.TopKResponse(space, 1.0, prior, 2)).save(tmp_path / "out")
    assert dp.verify(folder).holds
    good = plain(folder)
    values = good["label_released"].to_pylist()
    relist(folder, good.set_column(0, "label_released", pa.array([*values[:59], "pink"])))
    assert VALUES in failing(folder)
    sets = [*good["label_candidates"].to_pylist()[:59], []]
    relist(folder, good.set_column(1, "label_candidates", pa.array(sets, good["label_candidates"].type)))
    assert VALUES in failing(folder)


@pytest.mark.parametrize("group", [-1, 1, 2**31 - 1])
def test_a_group_that_does_not_exist_fails(space, labels, tmp_path, group):
    """A row of a group that the law does not have fails."""
    curator = dp.Curator(labels, space, units=np.arange(60) // 2)
    folder = curator.randomize(dp.RandomizedResponse(space, 1.0)).save(tmp_path / "out")
    assert dp.verify(folder).holds
    table = plain(folder)
    groups = table["label_groups"].to_pylist()
    relist(folder, table.set_column(1, "label_groups", pa.array([*groups[:59], group], pa.int32())))
    assert VALUES in failing(folder)


def test_not_private_fails_first(folder):
    """A release by test words fails before its files are looked at, whatever sentence it shows."""
    body = json.loads((folder / "_certificate.json").read_text())
    promise = body["guarantee"]["sentence"]
    body["private"] = False
    (folder / "data.parquet").unlink()
    for sentence, check in ((promise, CERTIFICATE), (_NOT_PRIVATE, WORDS)):
        body["guarantee"]["sentence"] = sentence
        (folder / "_certificate.json").write_text(json.dumps(body, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
        assert check in failing(folder)


def test_links_and_strangers_fail(folder, tmp_path):
    """A file in place of the folder, an empty folder, and a link into nothing give a verdict."""
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", folder / "data.parquet", tmp_path / "nowhere"):
        assert not dp.verify(path).holds
    (folder / "data.parquet").unlink()
    (folder / "data.parquet").symlink_to(tmp_path / "nowhere")
    assert FILES in failing(folder)


# Footers of Parquet files are read as Arrow reads them, and refused where Arrow may read something else, or ends.


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
