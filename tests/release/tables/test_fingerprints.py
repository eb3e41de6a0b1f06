"""Hashes of values and rows: equal for what is spelled or stored in another way, different for what is different."""

import datetime
import decimal
import math

import numpy as np
import pyarrow as pa
import pytest

from labeldp.release.tables import FingerprintBuilder, cell_hashes, keyed
from labeldp.release.tables import _fingerprints as module

DAY = datetime.date(2026, 1, 5)
NOON = datetime.datetime(2026, 1, 5, 12, 30, 1)

#: Values that are the same, however they are stored.
SAME = {
    "a whole number": [
        [7],
        [7.0],
        ["7"],
        [" 7 "],
        ["+7"],
        ["007"],
        ["7.0"],
        [7 + 1e-9],
        [decimal.Decimal("7.00")],
        ["7e0"],
    ],
    "a negative number": [[-3], [-3.0], ["-3"], ["-3.000"]],
    "zero": [[0], [0.0], [-0.0], ["0"], ["-0"], ["0.0"]],
    "a fraction": [[0.1], ["0.1"], [".1"], ["1e-1"], [0.1 + 1e-9], [pa.scalar(0.1, pa.float64())]],
    "a text": [["North"], ["north"], ["  NORTH "]],
    "a flag": [[True], ["True"], ["true"], ["TRUE"]],
    "a day": [[DAY], ["2026-01-05"], [datetime.datetime(2026, 1, 5)], ["2026-01-05 00:00:00"], ["2026-01-05T00:00"]],
    "a time": [
        [NOON],
        ["2026-01-05 12:30:01"],
        ["2026-01-05T12:30:01.000"],
        ["2026-01-05T12:30:01.000000000"],
        ["2026-01-05 12:30:01Z"],
        ["2026-01-05 13:30:01+01:00"],
        ["2026-01-05 10:00:01.000000-0230"],
        [pa.scalar(NOON, pa.timestamp("us", "Europe/Berlin"))],
    ],
    "a time of day": [
        [datetime.time(7, 5)],
        ["07:05"],
        ["07:05:00"],
        ["07:05:00.000000"],
        [pa.scalar(25500, pa.time32("s"))],
    ],
    "a duration": [[pa.scalar(90, pa.duration("s"))], [90], ["90"]],
    "nothing": [[None], [""], ["NA"], ["nan"], ["NULL"], [math.nan], [" "]],
    "a list": [[[1, 2, 3]], [[1.0, 2.0, 3.0]], [["1", "2", "3"]]],
    "an empty list": [[[]], [pa.scalar([], pa.list_(pa.float64()))]],
}

#: Storage of the same values.
STORED = {
    "dictionary": lambda column: column.dictionary_encode(),
    "with rows before and after": lambda column: pa.concat_arrays([column, column, column]).slice(1, 1),
    "with a missing row": lambda column: pa.concat_arrays([pa.nulls(1, column.type), column]).slice(1),
}


def fine(values):
    """The hash of one value."""
    return int(cell_hashes(pa.array(values))[0][0])


@pytest.mark.parametrize("name", SAME)
def test_the_same_value_has_one_hash(name):
    """Whatever type and spelling it is stored in."""
    assert len({fine(values) for values in SAME[name]}) == 1


def test_different_values_have_different_hashes():
    """Of all values above, and of neighbours of them."""
    others = [
        [8],
        [0.1001],
        ["northern"],
        [False],
        ["2026-01-06"],
        [[3, 2, 1]],
        [[1, 2]],
        [["1", "23"]],
        ["12"],
        [12_000_000_001],
        ["7 0"],
    ]
    different = [values[0] for values in SAME.values()] + others
    assert len({fine(values) for values in different}) == len(different)


@pytest.mark.parametrize("storage", STORED)
@pytest.mark.parametrize("name", [name for name in SAME if "list" not in name])
def test_storage_changes_no_hash(name, storage):
    """Dictionaries, slices and missing neighbours leave a value's hash as it is."""
    for values in SAME[name]:
        column = pa.array(values)
        if not (pa.types.is_null(column.type) or (pa.types.is_boolean(column.type) and storage == "dictionary")):
            assert int(cell_hashes(STORED[storage](column))[0][0]) == fine(values)


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.int64(), 2)])
def test_lists_between_other_rows_keep_their_hashes(kind):
    """A slice of lists, as a batch may be, has the hashes of these lists."""
    lists = pa.array([[number, number + 1] for number in range(9)], kind)
    assert np.array_equal(cell_hashes(lists.slice(3, 4))[0], cell_hashes(lists)[0][3:7])


@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.uint16(), pa.int32(), pa.uint64(), pa.float32(), pa.float64(), pa.string(), pa.large_string()],
)
def test_types_of_numbers_have_one_hash(kind):
    """Whole numbers in any type of number or text."""
    numbers = pa.array([0, 1, 5, 100])
    assert np.array_equal(cell_hashes(numbers.cast(kind))[0], cell_hashes(numbers)[0])


@pytest.mark.parametrize("places", [[], [0], [511], [512], [3, 700, 1299], range(1300)])
def test_floats_are_whole_numbers_one_by_one(places):
    """In any place beside others, to all digits and to two; so are missing ones and infinite ones."""
    for value in (7.0, math.nan, math.inf, 2.0**53, 1 + 1e-6, -0.0):
        numbers = np.random.default_rng(0).uniform(0.1, 0.9, 1300)
        numbers[list(places)] = value
        for each, alone in zip(cell_hashes(pa.array(numbers)), cell_hashes(pa.array([value, 0.5])), strict=True):
            assert (each[list(places)] == alone[0]).all()
            assert not (np.delete(each, list(places)) == alone[0]).any()


def test_rounded_floats_have_one_coarse_hash():
    """To two digits most floats are the same after rounding; others are not."""
    numbers = np.random.default_rng(0).normal(50, 9, 1000)
    _, coarse = cell_hashes(pa.array(numbers))
    _, rounded = cell_hashes(pa.array(np.round(numbers, 2)))
    _, others = cell_hashes(pa.array(numbers[::-1].copy()))
    assert np.mean(coarse == rounded) > 0.95
    assert np.mean(coarse == others) < 0.2


def fingerprints(table, rows=7):
    """The fingerprints of a table in batches."""
    builder = FingerprintBuilder(table.column_names)
    builder.add(table.to_batches(rows))
    return builder.result()


def made(rows, seed=0):
    """Columns of several kinds."""
    chance = np.random.default_rng(seed)
    return pa.table(
        {
            "a": chance.integers(0, 1000, rows),
            "b": chance.normal(size=rows),
            "c": [f"x{i}" for i in chance.integers(0, 50, rows)],
        }
    )


@pytest.mark.parametrize("rows", [12, 13, 5000])
def test_blocks_change_nothing(rows, monkeypatch):
    """Hashes of a batch are the same if they are computed, and taken by views, for few rows at a time."""
    columns = made(rows).append_column("d", pa.array(np.round(np.random.default_rng(1).normal(size=rows), 1)))
    whole = fingerprints(columns, rows)
    for name, value in (("_CELLS", 1), ("_FEWEST_AT_A_TIME", 13), ("_COLLECTED", 20), ("_FIRST_ROWS", 4096)):
        monkeypatch.setattr(module, name, value)
    blocks = fingerprints(columns, rows)
    assert np.array_equal(blocks.rows, whole.rows)
    assert blocks.columns == whole.columns
    for one, other in zip(blocks.views, whole.views, strict=True):
        assert np.array_equal(one.hashes, other.hashes)
        assert np.array_equal(one.places, other.places)
        assert (one.distinct, one.alike) == (other.distinct, other.alike)


def test_hashes_that_are_kept_are_those_of_the_values():
    """Of the columns that were named and no others, in arrays of their own that keep no other hashes in memory."""
    table, kept = made(20_000), {"a": [], "c": []}
    builder = FingerprintBuilder(table.column_names, kept=kept)
    builder.add(table.to_batches(9000), lambda cells: [kept[name].append(hashes) for name, hashes in cells.items()])
    for name, parts in kept.items():
        assert np.array_equal(np.concatenate(parts), cell_hashes(table[name].combine_chunks())[0])
        assert all(part.base is None for part in parts)


def test_the_number_of_different_rows_is_estimated():
    """Within a fifth, which is more than three standard deviations of 256 smallest hashes."""
    builder = FingerprintBuilder(["a"])
    numbers = np.random.default_rng(0).integers(0, 20_000, 100_000)
    builder.add([pa.record_batch({"a": pa.array(numbers)})])
    distinct = np.unique(numbers).size
    assert builder._views[0].sketch().distinct == pytest.approx(distinct, rel=0.2)


def test_only_views_that_identify_rows_are_kept():
    """A view in which half of the rows are copies tells nobody apart."""
    chance = np.random.default_rng(0)
    table = pa.table({"sex": chance.integers(0, 2, 400), "age": chance.integers(0, 60, 400)})
    assert fingerprints(table).views == ()
    more = fingerprints(table.append_column("id", pa.array(np.arange(400))))
    assert len(more.views) == 3  # all columns, without sex, without age


def test_a_key_makes_hashes_incomparable():
    """Under another key no hash is the same, and under the same key all are."""
    words = np.random.default_rng(0).integers(0, 1 << 63, 1000).astype(np.uint64)
    assert np.array_equal(keyed(words, 3), keyed(words, 3))
    assert not np.isin(keyed(words, 3), keyed(words, 4)).any()
    assert np.unique(keyed(words, 3)).size == 1000


def test_copies_are_counted():
    """Rows that repeat another, and the most that are alike."""
    assert fingerprints(pa.table({"x": [5, 3, 5, 5, 2, 3], "y": [1, 1, 1, 1, 1, 1]})).copies == (3, 3)
    assert fingerprints(pa.table({"x": [1, 2, 3]})).copies == (0, 1)


def test_copies_are_equal_in_each_column():
    """The pairs (3, 5) and (5, 3) are no copies, though fingerprints take them for the same values."""
    users, items = (part.ravel() for part in np.meshgrid(np.arange(100), np.arange(20)))
    found = fingerprints(pa.table({"user": users, "item": items}))
    assert found.copies == (0, 1)
    assert found.rows.size - np.unique(found.rows).size == 190  # pairs of two of 20


@pytest.mark.parametrize("parts", [1, 4])
def test_copies_are_counted_across_parts(monkeypatch, parts):
    """Of ten times as many different rows as are compared each has all of its copies (four standard deviations)."""
    monkeypatch.setattr("labeldp.release.tables._fingerprints._MOST_COMPARED", 1000)
    builder, rows = FingerprintBuilder(["x"]), np.repeat(np.arange(10_000), 3)
    for some in np.array_split(np.random.default_rng(0).permutation(rows), parts):
        part = FingerprintBuilder(["x"])
        part.add([pa.record_batch({"x": pa.array(some)})])
        builder.merge(part)
    count, most = builder.result().copies
    assert count == pytest.approx(20_000, rel=4 / 1000**0.5)
    assert most == 3


def test_many_rows_may_all_be_equal(monkeypatch):
    """Different rows are limited in number, and equal ones are not."""
    monkeypatch.setattr("labeldp.release.tables._fingerprints._MOST_COMPARED", 1000)
    assert fingerprints(pa.table({"x": np.full(5000, 7)}), 900).copies == (4999, 5000)


def test_copies_among_many_rows_are_estimated():
    """Of three million rows a quarter is looked at, with all copies of each (four standard deviations)."""
    builder = FingerprintBuilder(["x"])
    builder.add([pa.record_batch({"x": pa.array(np.repeat(np.arange(1_000_000), 3))})])
    count, most = builder.result().copies
    assert count == pytest.approx(2_000_000, rel=0.01)
    assert most == 3


def test_texts_are_hashed_anew_where_they_change():
    """Batches that have other texts under the same numbers have the hashes of their own texts."""
    batches = [
        pa.record_batch([pa.DictionaryArray.from_arrays(pa.array([0, 1, 1]), pa.array(texts))], names=["x"])
        for texts in (["a", "b"], ["a", "b"], ["c", "d"])
    ]
    plain = [pa.record_batch([batch["x"].dictionary_decode()], names=["x"]) for batch in batches]
    rows = []
    for each in (batches, plain):
        builder = FingerprintBuilder(["x"])
        builder.add(each)
        rows.append(builder.result().rows.tolist())
    assert rows[0] == rows[1]
    assert len(set(rows[0])) == 4
