"""Orders of the values of columns: they survive monotone maps of both columns, and patterns are nobody's."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from labeldp.release.tables import FingerprintBuilder
from labeldp.release.tables import _orders as module

ROWS = 500


def orders(columns, rows=ROWS):
    """The orders of a table that comes in batches."""
    table = pa.table(columns)
    builder = FingerprintBuilder(table.column_names)
    builder.add(table.to_batches(rows))
    return set(builder.result().orders)


def made(seed=0, rows=ROWS):
    """Whole numbers, floats with gaps, and texts."""
    chance = np.random.default_rng(seed)
    floats = np.round(chance.normal(50, 9, rows), 1)
    return {
        "age": chance.integers(18, 95, rows),
        "weight": np.where(chance.random(rows) < 0.1, np.nan, floats),
        "town": np.array([f"town {i}" for i in chance.integers(0, 30, rows)]),
    }


MAPS = {
    "z-scores": lambda x: (x - np.nanmean(x)) / np.nanstd(x),
    "logarithms": np.log,
    "reciprocals": lambda x: 1 / x,
    "turned": lambda x: -x,
    "cubes": lambda x: x**3.0,
    "same": lambda x: x,
}


@pytest.mark.parametrize("first", MAPS)
@pytest.mark.parametrize("second", MAPS)
def test_monotone_maps_and_other_rows_and_names_change_nothing(first, second):
    """All three pairs are known, in any direction and order, and in batches of any size; other people's are others."""
    known, mix = orders(made()), np.random.default_rng(1).permutation(ROWS)
    table = made()
    mapped = {
        "x": MAPS[second](table["weight"])[mix],
        "y": table["town"][mix],
        "z": MAPS[first](table["age"].astype(float))[mix],
    }
    assert len(known) == 3
    assert orders(mapped, 7) == known
    assert not orders(made(2)) & known


def test_merged_parts_have_the_orders_of_the_whole():
    """Parts that are looked at by other processes, of which one is empty."""
    table = pa.table(made())
    total = FingerprintBuilder(table.column_names)
    for low, high in ((0, 0), (0, 200), (200, 200), (200, ROWS)):
        part = FingerprintBuilder(table.column_names)
        part.add(table.slice(low, high - low).to_batches())
        total.merge(part)
    assert set(total.result().orders) == orders(made())


def test_dates_that_are_shifted_keep_their_order():
    """A shift of all dates by some days is a monotone map."""
    days = np.random.default_rng(3).integers(0, 300, ROWS)
    for kind in (pa.date32(), pa.timestamp("us"), pa.date64()):
        start = [datetime.datetime(2026, month, 1) for month in (1, 4)]
        tables = [
            {"day": pa.array([each + datetime.timedelta(int(day)) for day in days]).cast(kind), "age": made()["age"]}
            for each in start
        ]
        assert orders(tables[0]) == orders(tables[1]) != set()


NUMBER = np.arange(ROWS)
PATTERNS = {
    "columns that rise together": (NUMBER * 1.5 + 3, np.sqrt(NUMBER + 1.0)),
    "one falls as the other rises": (NUMBER + 0.5, 1 / (NUMBER + 1.0)),
    "all combinations": (NUMBER // 25 * 1.5, NUMBER % 25 * 0.5),
    "a flag and another": (NUMBER % 2 * 1.5, NUMBER // 2 % 2 * 0.5),
    "hours of days": (NUMBER // 24 * 0.5, NUMBER % 24 * 0.5),
    "a number and a fold": (NUMBER, np.random.default_rng(0).integers(0, 5, ROWS)),
    "nothing": (np.full(ROWS, np.nan), np.full(ROWS, 2.5)),
    "one row": (np.array([0.5]), np.array([1.5])),
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_know_no_table(pattern):
    """Other people's tables may have them: counters, grids, columns that rise together, and too few rows."""
    one, other = PATTERNS[pattern]
    assert orders({"a": one, "b": other}) == set()


def test_a_column_of_two_types_has_no_order():
    """As in parts of a table that were written otherwise; a null type is one, too."""
    builder = FingerprintBuilder(["a", "b"])
    values = made()
    builder.add([pa.record_batch({"a": values["age"], "b": values["weight"]})])
    builder.add([pa.record_batch({"a": values["town"], "b": values["weight"]})])
    assert builder.result().orders == ()


def test_large_and_wide_tables_keep_no_values(monkeypatch):
    """Of more rows than are sorted nothing is kept, and of many columns six, numbers before texts."""
    table = {f"c{i:02}": made(i)["town" if i < 5 else "weight"] for i in range(20)}
    assert len(orders(table)) == 15
    monkeypatch.setattr(module, "MOST_ORDERED", ROWS - 1)
    builder = FingerprintBuilder([*table])
    builder.add(pa.table(table).to_batches(100))
    assert builder._orders.parts == {}
    assert builder.result().orders == ()
    assert FingerprintBuilder(["c"], rows=1 << 20)._orders.of(pa.table(table).to_batches()[0], table, lambda _: 0) == {}
