"""Verification: whatever is done to the files of a release, its own check fails; a good release holds."""

import hashlib
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as dp
from labeldp.errors import VerificationError
from labeldp.release.folder._certificate import UNKNOWN

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


def test_an_added_column_fails(folder):
    """A column that is not listed fails."""
    relist(folder, plain(folder).append_column("more", pa.array(range(60))))
    assert SCHEMA in failing(folder)


def test_a_removed_column_fails(folder):
    """A listed column that is gone fails."""
    relist(folder, plain(folder).drop(["x"]))
    assert SCHEMA in failing(folder)


@pytest.mark.parametrize("name", ["colour", "Colour ", "\uff23o\u00adlour"])
def test_the_true_label_column_fails(folder, labels, name):
    """A column with the label's own name in any spelling fails, listed or not, and no label is shown."""
    body = relist(folder, plain(folder).append_column(name, pa.array(labels)))
    assert SCHEMA in failing(folder)
    relist_columns(folder, body)
    assert "integers of its mechanism" in failing(folder)
    assert "the true label" in dp.verify(folder).checks[-1].found


def test_no_released_label_fails(folder):
    """A table without its released labels fails, even where that is listed."""
    relist_columns(folder, relist(folder, plain(folder).drop(["colour_released"])))
    assert SCHEMA in failing(folder)


@pytest.mark.parametrize("kind", [pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_another_type_fails(folder, kind):
    """Released labels in another type, such as a dictionary that may hold more, fail."""
    table = plain(folder)
    table = table.set_column(1, "colour_released", table["colour_released"].cast(kind))
    relist_columns(folder, relist(folder, table))
    assert SCHEMA in failing(folder)


@pytest.mark.parametrize("where", ["table", "column", "inner"])
def test_added_metadata_fails(folder, where):
    """Metadata of the file, of a column or of what is inside a column fails."""
    table, more = plain(folder), {"raw": "secret"}
    if where == "table":
        table = table.replace_schema_metadata(more)
    elif where == "column":
        table = table.cast(table.schema.set(0, table.schema.field(0).with_metadata(more)))
    else:
        inner = pa.StructArray.from_arrays([pa.array(range(60))], fields=[pa.field("i", pa.int64(), metadata=more)])
        table = table.append_column(pa.field("s", inner.type), inner)
    body = relist(folder, table)
    if where == "inner":
        relist_columns(folder, body)
    assert SCHEMA in failing(folder)


@pytest.mark.parametrize("rows", [59, 0])
def test_fewer_rows_fail(folder, rows):
    """A table with other rows than listed fails."""
    relist(folder, plain(folder).slice(0, rows))
    assert SCHEMA in failing(folder)


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
