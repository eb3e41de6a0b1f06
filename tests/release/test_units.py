"""Who is one unit with whom: the same answer for a row whatever stands beside it."""

import datetime
import decimal
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import Classes, Curator, RandomizedResponse, release_table
from labeldp.errors import BudgetError, InputError, TableError
from labeldp.release.jobs import _job as module
from labeldp.release.tables import unit_keys

COLUMNS = {
    "text": pa.array(["anna", "ben", "anna"]),
    "large text": pa.array(["anna", "ben", "anna"], pa.large_string()),
    "bytes": pa.array([b"anna", b"Jos\xe9", b"anna"], pa.binary()),
    "large bytes": pa.array([b"anna", b"Jos\xe9", b"anna"], pa.large_binary()),
    "fixed bytes": pa.array([b"an", b"\xe9x", b"an"], pa.binary(2)),
    "dictionary of bytes": pa.array([b"anna", b"Jos\xe9", b"anna"], pa.binary()).dictionary_encode(),
    "dictionary": pa.array(["anna", "ben", "anna"]).dictionary_encode(),
    "int8": pa.array([1, -2, 1], pa.int8()),
    "uint64": pa.array([2**64 - 1, 5, 2**64 - 1], pa.uint64()),
    "double": pa.array([0.0, 1.5, -0.0]),
    "date": pa.array([datetime.date(2020, 1, 1), datetime.date(1960, 5, 5), datetime.date(2020, 1, 1)]),
    "far date": pa.array([10**7, 3, 10**7], pa.int32()).view(pa.date32()),
    "time": pa.array([1, 2, 1], pa.time64("ns")),
    "timestamp": pa.array([1, -7, 1], pa.timestamp("ns")),
    "bool": pa.array([True, False, True]),
    "decimal": pa.array([decimal.Decimal("1.10"), decimal.Decimal("2.20"), decimal.Decimal("1.10")]),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_a_unit_has_one_number_whatever_stands_beside_it(column):
    """A row's number is that of its value alone: equal values have one, in any batch, and others another."""
    together = unit_keys(column)
    assert together[0] == together[2] != together[1]
    for i in range(3):
        assert unit_keys(column.slice(i, 1))[0] == together[i]


@pytest.mark.parametrize("column", [pa.array(["a", None]), pa.array([[1], [2]]), pa.nulls(2)], ids=str)
def test_a_unit_that_cannot_be_told_is_refused(column):
    """Missing and nested units raise."""
    with pytest.raises(TableError):
        unit_keys(column)


def test_names_in_another_encoding_do_not_split_a_unit(tmp_path, monkeypatch):
    """A name that is no UTF-8 in one batch leaves the other rows of a unit one unit: together they keep epsilon."""
    monkeypatch.setattr(module, "_ROWS_PER_BATCH", 2)
    names = pa.array([b"anna", b"Jos\xe9", b"ben", b"carl", b"anna"], pa.binary())
    pq.write_table(pa.table({"p": names, "y": ["a", "b", "a", "b", "a"]}), tmp_path / "t.parquet")
    done = release_table(tmp_path / "t.parquet", "y", Classes(["a", "b"]), 1.0, tmp_path / "o", keep=[], unit="p")
    assert done.certificate.draws[0].law["repeats"] == ["1", "2"]
    assert pq.read_table(tmp_path / "o" / "data.parquet")["y_groups"].to_pylist() == [1, 0, 0, 0, 1]


@pytest.mark.parametrize(
    "units",
    [
        np.array([7.0, np.nan, 7.0], dtype=object),
        np.array(["a", None, "a"], dtype=object),
        pd.Series([7.0, None, 7.0]),
        [1, "x", 1],
        [[1], [2], [3]],
    ],
    ids=["object nan", "object none", "series", "mixed", "nested"],
)
def test_missing_units_of_a_curator_are_refused(units):
    """A unit that is missing raises, and does not take others apart."""
    with pytest.raises(InputError):
        Curator(["a", "b", "a"], Classes(["a", "b"]), units=units)


def test_units_of_an_object_array_are_counted():
    """Numbers and texts in an array of objects are told apart by value."""
    space = Classes(["a", "b"])
    for units in (np.array([7.0, 8.0, 7.0], dtype=object), np.array(["x", "y", "x"], dtype=object)):
        release = Curator(["a", "b", "a"], space, units=units).randomize(RandomizedResponse(space, 1.0))
        assert release.channel.repeats == (1, 2)
        assert release.channel.groups.tolist() == [1, 0, 1]


def test_curators_of_different_units_cannot_be_added_up(tmp_path):
    """On one ledger, a charge for each patient and one for each hospital have no common sum."""
    space, labels = Classes(["a", "b"]), ["a", "b"] * 4
    patients = Curator(labels, space, units=np.arange(8), ledger=tmp_path / "l", budget=9.0)
    patients.randomize(RandomizedResponse(space, 1.0))
    with pytest.raises(BudgetError, match="unit"):
        Curator(labels, space, units=[0] * 8, ledger=tmp_path / "l", budget=9.0).randomize(
            RandomizedResponse(space, 1.0)
        )
    again = Curator(labels, space, units=np.arange(8), ledger=tmp_path / "l", budget=9.0)
    again.randomize(RandomizedResponse(space, 1.0))
    assert again.spent == (2.0, 0.0)


@pytest.mark.parametrize("spelled", ["07", "7.0", " 7", "+7", "7.", "00007 "])
def test_numbers_of_units_are_one_in_any_spelling(tmp_path, spelled):
    """A person whose number is written in two ways has the rows of both: doubt gives each label less epsilon."""
    who = ["1", "2", spelled, "3", "7", "4"]
    lines = "".join(f"{name},{row},{('no', 'yes')[row % 2]}\n" for row, name in enumerate(who))
    (tmp_path / "t.csv").write_text(f"who,x,d\n{lines}", encoding="utf-8")
    done = release_table(tmp_path / "t.csv", "d", Classes(["no", "yes"]), 1.0, tmp_path / "o", keep=["x"], unit="who")
    assert done.certificate.law["repeats"] == ["1", "2"]


def test_identifiers_that_differ_in_capitals_are_one_unit():
    """Two sources may write one person's identifier otherwise; other identifiers stay apart, and so do bytes."""
    keys = unit_keys(pa.array(["P7a", "p7A ", "P7b", "MÜLLER", "Müller", "Muller"]))
    assert keys[0] == keys[1]
    assert keys[3] == keys[4]
    assert len(set(keys.tolist())) == 4
    assert len(set(unit_keys(pa.array([b"\xff\xd6", b"\xff\xf6"])).tolist())) == 2


def test_a_hostile_unit_takes_no_time():
    """A hundred thousand zeros and a letter are read in one go: in 2 milliseconds, and in minutes if digit by digit."""
    begun = time.process_time()
    keys = unit_keys(pa.array(["0" * 100_000 + "x", "0" * 100_000, "0", "-0"]))
    assert time.process_time() - begun < 5
    assert keys[0] != keys[1] == keys[2] == keys[3]


def test_a_unit_named_like_a_row_is_no_row(tmp_path):
    """A column whose name is the word for a single row and a space is a unit that holds for each of its rows."""
    table = pa.table({"row ": ["x", "x", "y", "y"], "a": [1, 2, 3, 4], "d": ["no", "yes", "no", "yes"]})
    pq.write_table(table, tmp_path / "t.parquet")
    space = Classes(["no", "yes"])
    release_table(tmp_path / "t.parquet", "d", space, 1.0, tmp_path / "one", keep=["a"], unit="row ", budget=9.0)
    rows = release_table(tmp_path / "t.parquet", "d", space, 1.0, tmp_path / "two", keep=["a"])
    assert 1.9 < rows.spent[0] <= 2.0
    with pytest.raises(BudgetError, match="Another at 7 makes 10, above"):  # a unit has two rows
        release_table(tmp_path / "t.parquet", "d", space, 7.0, tmp_path / "three", keep=["a"], unit="row ")


@pytest.mark.parametrize(("column", "unit"), [("row", "row"), ("row", "Row"), ("row", "row "), ("Row", "row")])
def test_a_unit_that_may_be_rows_or_a_column_is_refused(tmp_path, column, unit):
    """The word for single rows never stands for a column, nor a column for that word, however they are spelled."""
    table = pa.table({column: ["x", "x", "y"], "a": [1, 2, 3], "d": ["no", "yes", "no"]})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(InputError, match=f"expected another name for the column '{column}'"):
        release_table(tmp_path / "t.parquet", "d", Classes(["no", "yes"]), 1.0, tmp_path / "o", keep=["a"], unit=unit)
