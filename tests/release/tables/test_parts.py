"""What is found in parts of a table, merged, is what is found in all of it."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp.release.tables._fingerprints as fingerprints_module
import labeldp.release.tables._look as parts_module
import labeldp.release.tables._tables as tables_module
from labeldp import Classes
from labeldp.errors import TableError
from labeldp.release.engines import InProcess
from labeldp.release.tables import FingerprintBuilder, TableFile, Units, look_at, open_table, parts_of, survey

SPACE = Classes(["a", "b", "c"])
ROWS = 900


def columns(seed=0):
    """Columns of several kinds, with a unit and a label."""
    chance = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(ROWS),
            "x": chance.normal(size=ROWS),
            "text": [f"t{i % 311}" for i in range(ROWS)],
            "patient_id": chance.integers(0, 300, ROWS),
            "y": chance.choice(SPACE.points, ROWS),
        }
    )


def same(one, two):
    """True if two values are equal, arrays and dataclasses included."""
    if isinstance(one, np.ndarray):
        return np.array_equal(one, two)
    if isinstance(one, tuple):
        return len(one) == len(two) and all(map(same, one, two))
    return all(map(same, vars(one).values(), vars(two).values())) if hasattr(one, "__dict__") else one == two


def test_each_footer_is_read_once(tmp_path, monkeypatch):
    """To open a table and part it takes one look at each file, which a store or 100 000 files make long."""
    opened = []
    within = tables_module.open_parquet
    monkeypatch.setattr(tables_module, "open_parquet", lambda path, **more: opened.append(path) or within(path, **more))
    monkeypatch.setattr(parts_module, "_ROWS_PER_PART", 100)
    for name, size in (("a", 900), ("b", 100), ("c", 30)):
        pq.write_table(columns(), tmp_path / f"{name}.parquet", row_group_size=size)
    parts = parts_of(open_table(tmp_path, "y"))
    assert [path.name for path in opened] == ["a.parquet", "b.parquet", "c.parquet"]
    assert [part.rows for part in parts] == [900, *[100] * 9, *[120] * 7, 60]
    assert all(not part.table.row_groups for part in parts), "workers need no footers of others"


CUTS = {
    "halves": [450],
    "thirds": [300, 600],
    "the first row alone": [1],
    "an empty part": [450, 450],
    "many": range(9, ROWS, 9),
}


def written(folder, cuts):
    """A folder of files that together have all rows."""
    folder.mkdir()
    ends = [0, *cuts, ROWS]
    for number, (low, high) in enumerate(itertools.pairwise(ends)):
        pq.write_table(columns().slice(low, high - low), folder / f"{number:03d}.parquet")
    return folder


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("most", [100, 1 << 20])
def test_fingerprints_of_parts_are_those_of_the_table(cuts, most, monkeypatch):
    """Merged in order, whatever the parts are, with hashes of all rows and without, and of small sketches too."""
    monkeypatch.setattr(fingerprints_module, "MOST_ROWS", most)
    monkeypatch.setattr(fingerprints_module, "SKETCH", 64)
    table = columns().drop_columns(["y"])
    whole, total = (FingerprintBuilder(table.column_names) for _ in range(2))
    whole.add(table.combine_chunks().to_batches())
    ends = [0, *cuts, ROWS]
    for low, high in itertools.pairwise(ends):
        part = FingerprintBuilder(table.column_names)
        part.add(table.slice(low, high - low).combine_chunks().to_batches())
        total.merge(part)
    assert same(total.result().views, whole.result().views)
    assert same(total.result().rows, whole.result().rows) if most > ROWS else total.result().rows is None
    assert total.result().count == ROWS
    assert [each[0] for each in total.result().columns] == [each[0] for each in whole.result().columns]


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
def test_what_is_found_does_not_depend_on_the_parts(tmp_path, cuts):
    """Rows, units, repeats, notes and places of rows are those of one file."""

    def found(path):
        table = open_table(TableFile(path), "y")
        seen = look_at(table, parts_of(table), "patient_id", lambda *_: None, InProcess())
        checks = (SPACE, ["x"], "patient_id", [], 64, lambda *_: None)
        return seen, survey(table, *checks, seen.parts, InProcess())

    one, all_rows = found(written(tmp_path / "one", []))
    several, survey_of_parts = found(written(tmp_path / "several", cuts))
    assert one.identities == several.identities
    assert same(one.units, several.units)
    assert same(one.fingerprints.rows, several.fingerprints.rows)
    assert same(one.fingerprints.views, several.fingerprints.views)
    assert (all_rows.rows, all_rows.notes) == (survey_of_parts.rows, survey_of_parts.notes)
    assert same(all_rows.units.keys, survey_of_parts.units.keys)
    assert same(all_rows.units.counts, survey_of_parts.units.counts)
    assert [part.first for part in survey_of_parts.parts] == [0, *cuts]
    assert sum(part.rows for part in survey_of_parts.parts) == ROWS


def test_lists_beside_texts_of_several_row_groups_are_looked_at(tmp_path):
    """Arrow cuts lists where the texts of a row group end; their rows are known as those of one row group."""
    lists = pa.array([[number, number + 1] for number in range(ROWS)])
    for name, size in (("one", ROWS), ("several", 200)):
        pq.write_table(columns().append_column("list", lists), tmp_path / f"{name}.parquet", row_group_size=size)
    one, several = (open_table(tmp_path / f"{name}.parquet", "y") for name in ("one", "several"))
    looks = [look_at(table, parts_of(table), None, lambda *_: None, InProcess()) for table in (one, several)]
    assert same(*(look.fingerprints.rows for look in looks))


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("grouped", [True, False])
def test_grouped_labels_are_seen_across_parts(tmp_path, cuts, grouped):
    """That the order discloses labels is noted, wherever the parts begin, and only then."""
    labels = np.repeat(SPACE.points, ROWS // 3)
    if not grouped:
        labels[[0, -1]] = labels[[-1, 0]]
    (tmp_path / "t").mkdir()
    ends = [0, *cuts, ROWS]
    for number, (low, high) in enumerate(itertools.pairwise(ends)):
        pq.write_table(pa.table({"y": labels[low:high]}), tmp_path / "t" / f"{number:03d}.parquet")
    table = open_table(TableFile(tmp_path / "t"), "y")
    seen = look_at(table, parts_of(table), None, lambda *_: None, InProcess())
    found = survey(table, SPACE, [], None, [], 64, lambda *_: None, seen.parts, InProcess())
    assert any("grouped by label" in note for note in found.notes) == grouped


def test_row_groups_are_divided_by_the_table_alone(tmp_path, monkeypatch):
    """Parts have at least so many rows, cover every row group once, and a small file is one part."""
    pq.write_table(columns(), tmp_path / "t.parquet", row_group_size=70)
    table = open_table(TableFile(tmp_path / "t.parquet"), "y")
    (alone,) = parts_of(table)
    assert (alone.table.groups, alone.rows) == (None, ROWS)
    monkeypatch.setattr(parts_module, "_ROWS_PER_PART", 200)
    parts = parts_of(table)
    assert [part.rows for part in parts] == [210, 210, 210, 210, 60]
    assert [group for part in parts for group in part.table.groups] == list(range(13))
    ids = [batch["id"] for part in parts for batch in part.table.batches(["id"], 64)]
    assert pa.concat_arrays(ids).to_pylist() == list(range(ROWS))


def test_a_unit_that_was_not_counted_is_refused():
    """A table with a new unit in the second pass would have no size for it."""
    units = Units(np.array([3, 5]), np.array([1, 2]))
    assert units.rows_per_unit(np.array([5, 3, 5])).tolist() == [2, 1, 2]
    for new in (4, 9):
        with pytest.raises(TableError, match="does not change"):
            units.rows_per_unit(np.array([3, new]))
