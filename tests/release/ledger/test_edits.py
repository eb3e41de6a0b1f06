"""Edits of a table that was released once: the second release is refused, or added to the first."""

import concurrent.futures
import contextlib
import datetime
import gzip
import os
import shutil
import sqlite3
import stat
import struct
import threading
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from labeldp import Classes, Interval, Release, combined_guarantee, release_table
from labeldp.errors import BudgetError, InputError, LedgerError
from labeldp.release.jobs import _ledgers as ledgers_module
from labeldp.release.ledger import Ledger, spent_by_data
from labeldp.release.ledger import _ledger as ledger_module

SPACE = Classes(["no", "yes"])
ROWS = 400


def people(seed, rows=ROWS):
    """A table of made-up people: whole numbers, floats, texts, dates, missing values and a label."""
    chance = np.random.default_rng(seed)
    days = [datetime.date(2026, 1, 1) + datetime.timedelta(int(day)) for day in chance.integers(0, 300, rows)]
    zips = [
        None if lost else f"{code:05d}"
        for lost, code in zip(chance.random(rows) < 0.05, chance.integers(0, 99_999, rows), strict=True)
    ]
    return pa.table(
        {
            "age": chance.integers(18, 95, rows),
            "weight": np.round(chance.normal(75, 12, rows), 6),
            "height": np.round(chance.normal(170, 9, rows), 6),
            "town": chance.choice(["north", "south", "east", "west"], rows).tolist(),
            "seen": days,
            "zip": pa.array(zips, pa.string()),
            "ill": chance.choice(["no", "yes"], rows).tolist(),
        }
    )


def column(table, name, values):
    """The table with other values in one column."""
    return table.set_column(table.column_names.index(name), name, values)


def texts(table):
    """The table with every column as text."""
    return pa.table({name: table[name].cast(pa.string()) for name in table.column_names})


def rounded(table, digits):
    """The table with rounded floats."""
    for name in ("weight", "height"):
        table = column(table, name, pc.round(table[name], digits))
    return table


def shuffled(table, seed=3):
    """The rows in another order."""
    return table.take(np.random.default_rng(seed).permutation(len(table)))


def nudged(table, by):
    """Floats that were moved a little."""
    return column(table, "weight", pc.add(table["weight"], by))


TABLE = people(0)
NEW = people(1, 100)

#: Edits of a table that keep every one of its people, or some: the second release has rows that were released.
EDITS = {
    "a copy": lambda t: t,
    "shuffled": shuffled,
    "sorted by a column": lambda t: t.sort_by("age"),
    "sorted by the label": lambda t: t.sort_by("ill"),
    "turned round": lambda t: t.take(np.arange(len(t))[::-1]),
    "first row gone": lambda t: t.slice(1),
    "last row gone": lambda t: t.slice(0, len(t) - 1),
    "first half": lambda t: t.slice(0, len(t) // 2),
    "second half": lambda t: t.slice(len(t) // 2),
    "every tenth row": lambda t: t.take(np.arange(0, len(t), 10)),
    "one row": lambda t: t.slice(17, 1),
    "rows of one town": lambda t: t.filter(pc.equal(t["town"], "east")),
    "a row before": lambda t: pa.concat_tables([NEW.slice(0, 1), t]),
    "a row after": lambda t: pa.concat_tables([t, NEW.slice(0, 1)]),
    "a hundred new rows": lambda t: shuffled(pa.concat_tables([t, NEW])),
    "half of it and new rows": lambda t: shuffled(pa.concat_tables([t.slice(200), NEW])),
    "every row twice": lambda t: pa.concat_tables([t, t]),
    "columns renamed": lambda t: t.rename_columns([f"{n}_2" for n in t.column_names[:-1]] + ["ill"]),
    "columns in another order": lambda t: t.select(["zip", "seen", "town", "height", "weight", "age", "ill"]),
    "shuffled and renamed": lambda t: shuffled(t.rename_columns([f"{n}_2" for n in t.column_names[:-1]] + ["ill"])),
    "floats plus 1e-9": lambda t: nudged(t, 1e-9),
    "floats in single precision": lambda t: column(t, "weight", t["weight"].cast(pa.float32())),
    "floats of two digits after the point": lambda t: rounded(t, 2),
    "shuffled, floats of one digit after the point": lambda t: shuffled(rounded(t, 1)),
    "whole numbers as floats": lambda t: column(t, "age", t["age"].cast(pa.float64())),
    "small whole numbers": lambda t: column(t, "age", t["age"].cast(pa.int8())),
    "everything as text": texts,
    "texts as dictionaries": lambda t: column(t, "town", t["town"].dictionary_encode()),
    "dates as times": lambda t: column(t, "seen", t["seen"].cast(pa.timestamp("ms"))),
    "dates as text": lambda t: column(t, "seen", t["seen"].cast(pa.string())),
    "texts in capitals, with blanks": lambda t: column(t, "town", pc.utf8_upper(pc.utf8_center(t["town"], 9))),
    "codes without leading zeros": lambda t: column(t, "zip", t["zip"].cast(pa.int64())),
    "missing as NA": lambda t: column(t, "zip", pc.fill_null(t["zip"], "NA")),
    "a column gone": lambda t: t.drop_columns(["weight"]),
    "shuffled, a column gone": lambda t: shuffled(t.drop_columns(["age"])),
    "half of it, a column gone, renamed": lambda t: (
        t.slice(200).drop_columns(["age"]).rename_columns([*"abcde", "ill"])
    ),
    "one column left": lambda t: shuffled(t.select(["weight", "ill"])),
    "the label left": lambda t: t.select(["ill"]),
    "the label left, shuffled": lambda t: shuffled(t.select(["ill"])),
    "a column more": lambda t: t.append_column("number", pa.array(np.random.default_rng(5).normal(size=len(t)))),
    "shuffled, a number for each row": lambda t: shuffled(t.append_column("row_number", pa.array(np.arange(len(t))))),
    "a column replaced": lambda t: column(t, "age", pa.array(np.random.default_rng(6).integers(18, 95, len(t)))),
    "labels edited": lambda t: column(t, "ill", t["ill"].take(np.random.default_rng(7).permutation(len(t)))),
    "another constant column": lambda t: t.append_column("country", pa.array(["here"] * len(t))),
    "some of it, corrected, among others": lambda t: shuffled(
        pa.concat_tables([people(8, 2000), column(t, "age", pc.add(t["age"], 1)).slice(0, 60)])
    ),
    "all of it, a few corrected, among others": lambda t: shuffled(
        pa.concat_tables([people(8, 2000), t.slice(5), column(t, "age", pc.add(t["age"], 1)).slice(0, 5)])
    ),
    "five rows, corrected, among others": lambda t: shuffled(
        pa.concat_tables([people(8, 2000), column(t, "age", pc.add(t["age"], 1)).slice(0, 5)])
    ),
    "a tenth of ages corrected": lambda t: column(
        t, "age", pc.add(t["age"], pa.array(np.arange(len(t)) % 10 == 0).cast(pa.int64()))
    ),
}


def write(table, path):
    """Write a table as Parquet or CSV, by the name of the file."""
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    elif path.suffix == ".gz":
        plain = path.with_suffix("")
        pa.csv.write_csv(table, plain)
        path.write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    else:
        pq.write_table(table, path)
    return path


def release(path, output, **options):
    """A release of the label at epsilon 1."""
    return release_table(path, "ill", SPACE, 1.0, output, **{"drop": [], "unit": "row", **options})


def check_known(first, second, folder, **options):
    """A second release is refused at the first's budget, and adds up where the budget allows it."""
    with pytest.raises(BudgetError, match="Another at 1 makes 2, above"):
        release(second, folder / "second", **options)
    assert not (folder / "second").exists()
    assert release(second, folder / "second", budget=2.0, **options).spent == (2.0, 0.0)
    assert first.certificate.guarantee.epsilon <= 1.0


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_an_edited_table_is_known_beside_the_first(tmp_path, edit, ending):
    """In the folder of the first table, whatever was done to it, its people are charged a second time."""
    first = release(write(TABLE, tmp_path / "first.parquet"), tmp_path / "out")
    check_known(first, write(EDITS[edit](TABLE), tmp_path / f"second{ending}"), tmp_path)


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_table_is_known_to_the_ledger(tmp_path, edit):
    """In another folder, with the ledger of the first table, too."""
    first = release(write(TABLE, tmp_path / "first.csv"), tmp_path / "out")
    second = write(EDITS[edit](TABLE), tmp_path / "elsewhere" / "second.parquet")
    check_known(first, second, tmp_path, ledger=first.ledger)


@pytest.mark.parametrize("edit", ["a copy", "shuffled", "second half", "columns renamed", "the label left"])
def test_another_ledger_is_no_way_out(tmp_path, edit):
    """The ledgers beside a table are read also if another one is named."""
    first = release(write(TABLE, tmp_path / "first.csv"), tmp_path / "out")
    second = write(EDITS[edit](TABLE), tmp_path / "second.parquet")
    check_known(first, second, tmp_path, ledger=tmp_path / "elsewhere.labeldp")


@pytest.mark.parametrize("edit", ["a copy", "shuffled", "second half", "columns renamed", "the label left"])
def test_an_edited_table_is_known_in_the_place_of_the_first(tmp_path, edit):
    """Under the name of the first table."""
    first = release(write(TABLE, tmp_path / "table.csv"), tmp_path / "out")
    check_known(first, write(EDITS[edit](TABLE), tmp_path / "table.csv"), tmp_path)


@pytest.mark.parametrize("link", [shutil.copy, os.link, os.symlink])
def test_copies_and_links_of_labels_alone_are_known(tmp_path, link):
    """Labels without any other column may be any labels, so they are charged with all others in the folder."""
    labels = tmp_path / "a-labels-idx1-ubyte"
    labels.write_bytes(struct.pack(">4B I", 0, 0, 8, 1, 60) + bytes(i % 2 for i in range(60)))
    options = {"drop": [], "space": Classes([0, 1]), "label": "label", "epsilon": 1.0}
    release_table(labels, output=tmp_path / "out", **options)
    link(labels, tmp_path / "b-labels-idx1-ubyte")
    with pytest.raises(BudgetError):
        release_table(tmp_path / "b-labels-idx1-ubyte", output=tmp_path / "again", **options)


def test_new_rows_are_named_and_leave_alone(tmp_path):
    """January and a hundred new rows are refused with the places of the new rows, which may be released alone."""
    release(write(TABLE, tmp_path / "january.csv"), tmp_path / "o1")
    both = write(pa.concat_tables([NEW.slice(0, 40), TABLE, NEW.slice(40)]), tmp_path / "february.csv")
    with pytest.raises(BudgetError) as found:
        release(both, tmp_path / "o2")
    text = str(found.value)
    assert "january.csv" in text
    assert "400 of these 500 rows" in text
    assert "100 rows are new: release them alone with --only-new" in text
    assert release(write(NEW, tmp_path / "new.csv"), tmp_path / "o2").spent == (1.0, 0.0)
    assert release(both, tmp_path / "o3", budget=2.0).spent == (2.0, 0.0)  # no row was in all three


def test_rows_that_are_there_twice_are_called_copies(tmp_path):
    """More rows than an earlier release had may be its rows: they are copies of each other, which is said."""
    release(write(TABLE, tmp_path / "january.csv"), tmp_path / "o1")
    twice = write(pa.concat_tables([TABLE, TABLE.slice(0, 50), NEW]), tmp_path / "twice.csv")
    with pytest.raises(BudgetError, match=r"450 of these 550 rows \(copies of its 400\)"):
        release(twice, tmp_path / "o2")


def test_edited_rows_are_not_called_new(tmp_path):
    """Where an earlier row is missing, a row that was not found may be that one, edited: none is said to be new."""
    release(write(TABLE, tmp_path / "t.csv"), tmp_path / "o1")
    with pytest.raises(BudgetError) as found:
        release(write(EDITS["a tenth of ages corrected"](TABLE), tmp_path / "u.csv"), tmp_path / "o2")
    assert "rows are new" not in str(found.value)


def test_a_table_of_three_rows_that_differ_has_a_way_out(tmp_path):
    """Other people whose public values are the same are declared; certificate and ledger show the reason."""
    table = pa.table({"sex": ["f", "m", "x"] * 20, "ill": ["no", "yes"] * 30})
    first = release(write(table, tmp_path / "one.csv"), tmp_path / "o1")
    second = write(table, tmp_path / "two.csv")
    with pytest.raises(BudgetError, match="--other-people"):
        release(second, tmp_path / "o2")
    done = release(second, tmp_path / "o2", other_people="the ward of another town")
    assert done.spent == (1.0, 0.0)
    assert any("the ward of another town" in each for each in done.certificate.assumptions)
    entries = Ledger(done.ledger).entries()
    assert [each.other_people for each in entries if each.other_people] == ["the ward of another town"]
    with pytest.raises(BudgetError):
        release(second, tmp_path / "o3")
    assert first.ledger.exists()


def wide(table):
    """The table with forty columns, most of whole numbers."""
    chance = np.random.default_rng(9)
    for i in range(34):
        table = table.add_column(0, f"m{i}", pa.array(chance.integers(0, 1 << 20, len(table))))
    return table


#: Two states of a table that have hardly anything in common but their people.
FAR = {
    "a small part of a large table, corrected": (
        people(12, 20_000),
        lambda t: column(t, "age", pc.add(t["age"], 1)).slice(7_000, 200),
    ),
    "of forty columns, one and a row gone": (wide(TABLE), lambda t: shuffled(t.drop_columns(["m1"]).slice(1))),
    "of three columns of few values, one gone": (
        pa.table({"sex": ["f", "m", "x"] * 20, "grade": [1, 2, 2, 3] * 15, "town": ["a"] * 60, "ill": ["no"] * 60}),
        lambda t: shuffled(t.drop_columns(["grade"])),
    ),
    "seven rows, a year older, turned round": (
        TABLE.slice(0, 7),
        lambda t: column(t, "age", pc.add(t["age"], 1)).take(np.arange(7)[::-1]),
    ),
    "labels and a counter": (
        TABLE,
        lambda t: pa.table({"number": np.arange(100, 100 + ROWS), "ill": t["ill"]}),
    ),
    "labels, a counter and a fold": (
        TABLE,
        lambda t: pa.table({"number": np.arange(ROWS), "fold": np.arange(ROWS) ** 2 % 5, "ill": t["ill"]}),
    ),
}


@pytest.mark.parametrize("edit", FAR)
def test_what_hardly_identifies_anybody_may_be_anybody(tmp_path, edit):
    """A column edited and rows dropped, and tables whose values identify nobody."""
    table, change = FAR[edit]
    first = release(write(table, tmp_path / "first.csv"), tmp_path / "out")
    check_known(first, write(change(table), tmp_path / "second.parquet"), tmp_path)


@pytest.mark.parametrize(
    "values",
    [
        np.arange(ROWS) % 4 + 1,
        np.arange(ROWS) % 24,
        np.arange(ROWS) % 2,
        np.arange(ROWS) + 100,
        np.arange(ROWS)[::-1],
        np.repeat(np.arange(10), ROWS // 10),
        np.r_[np.zeros(ROWS // 2), np.ones(ROWS // 2)],
    ],
)
def test_columns_that_any_table_may_have_connect_none(tmp_path, values):
    """Counters, hours, ranks, flags: the same in two tables of different people, in the same order."""
    for seed, name in ((40, "train"), (41, "test")):
        table = people(seed).append_column("visit", pa.array(values))
        assert release(write(table, tmp_path / f"{name}.csv"), tmp_path / name).spent == (1.0, 0.0)


@pytest.mark.parametrize("name", ["one.csv", "own.db", "two.gz", "three.parquet"])
def test_a_ledger_of_any_name_beside_the_table_is_read(tmp_path, name):
    """A ledger that was named like a table is one too."""
    path = write(TABLE, tmp_path / "first.csv")
    release(path, tmp_path / "out", ledger=tmp_path / name)
    with pytest.raises(BudgetError):
        release(path, tmp_path / "again")


def test_other_people_are_not_these_after_another_label(tmp_path):
    """Rows that identify themselves are refused whatever is declared, also if another label came in between."""
    table = TABLE.append_column("costs", pa.array(np.arange(ROWS) % 2))
    path = write(table, tmp_path / "first.csv")
    release(path, tmp_path / "o1", drop=["costs"])
    release_table(path, "costs", Classes([0, 1]), 2.0, tmp_path / "o2", keep=["age"], unit="row")
    with pytest.raises(BudgetError):
        release(path, tmp_path / "o3", drop=["costs"], other_people="another hospital")


@pytest.mark.parametrize(
    "copy",
    {
        "copied": lambda table: table,
        "cut": lambda table: table.slice(1),
        "most of it": lambda table: shuffled(table).slice(0, 240),
        "renamed": lambda table: table.rename_columns([f"c{i}" for i in range(6)] + ["ill"]),
        "with others": lambda table: pa.concat_tables([people(9, 800), table]),
        "numbered anew": lambda table: table.append_column("id", pa.array(np.arange(ROWS))),
    }.items(),
    ids=lambda copy: copy[0],
)
def test_a_copy_is_no_other_peoples(tmp_path, copy):
    """Rows that identify themselves are refused under another path too, in part or whole, whatever is declared."""
    release(write(TABLE, tmp_path / "one.parquet"), tmp_path / "o1")
    path = write(copy[1](TABLE), tmp_path / "copy.parquet")
    with pytest.raises(BudgetError):
        release(path, tmp_path / "o2", other_people="another hospital")
    assert not (tmp_path / "o2").exists()


@pytest.mark.parametrize("rare", [False, True])
def test_other_people_with_common_values_may_be_declared(tmp_path, rare):
    """People of few public values, and people of whom some are as others by chance, are what is declared of them."""
    chance = np.random.default_rng(4)
    for name in ("one", "two"):
        numbers = {f"q{i}": chance.integers(0, 9 if rare else 3, 500) for i in range(4)}
        table = pa.table({"id": np.arange(500), **numbers, "ill": chance.choice(["no", "yes"], 500).tolist()})
        path = write(table, tmp_path / f"{name}.csv")
        assert release(path, tmp_path / name, other_people=f"town {name}").spent == (1.0, 0.0)


def test_tables_that_were_the_same_in_one_ledger_are_so_in_all(tmp_path):
    """The third table is like the second alone, which was charged to a ledger of its own, and is charged with both."""
    path = write(TABLE, tmp_path / "first.csv")
    second = EDITS["a column replaced"](TABLE).append_column(
        "number", pa.array(np.random.default_rng(5).normal(size=ROWS))
    )
    third = second.select(["number", "ill"])
    release(path, tmp_path / "o1")
    options = {"budget": 3.0}
    done = release(write(second, tmp_path / "second.csv"), tmp_path / "o2", ledger=tmp_path / "other.ledger", **options)
    assert done.spent == (2.0, 0.0)
    path.unlink()
    done = release(write(shuffled(third), tmp_path / "third.csv"), tmp_path / "o3", **options)
    assert done.spent == (3.0, 0.0)


@pytest.mark.parametrize("damage", ["cut", "copied in part", "linked"])
def test_a_ledger_beside_the_table_that_cannot_be_read_stops_the_release(tmp_path, damage):
    """It may know the rows."""
    first = release(write(TABLE, tmp_path / "first.csv"), tmp_path / "out")
    if damage == "cut":
        first.ledger.write_bytes(first.ledger.read_bytes()[:5000])
    elif damage == "copied in part":
        (tmp_path / "backup").write_bytes(first.ledger.read_bytes()[:8192])
        first.ledger.unlink()
    else:
        os.link(first.ledger, tmp_path / "backup")
    with pytest.raises(LedgerError, match=r"first.csv.labeldp-ledger|backup"):
        release(write(TABLE, tmp_path / "second.csv"), tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_copy_from_before_the_hashes_of_rows_counts_in_doubt(tmp_path, monkeypatch):
    """Two rows of the first table are in the second; the copy of the ledger cannot tell, so it charges for any rows."""
    first, copy = tmp_path / "first", tmp_path / "copy"
    first.mkdir()
    original = Ledger._append_hashes

    def copied(self, *given):
        shutil.copytree(first, copy)
        original(self, *given)

    monkeypatch.setattr(ledger_module, "_LARGE", 0)
    monkeypatch.setattr(Ledger, "_append_hashes", copied)
    release(write(TABLE, first / "first.csv"), first / "out")
    monkeypatch.setattr(Ledger, "_append_hashes", original)
    others = pa.concat_tables([people(2), TABLE.slice(7, 2)])
    for folder, third in ((first, 1.0), (copy, 3.0)):
        done = release(write(others, folder / "second.csv"), folder / "again", budget=3.0)
        assert done.spent == (2.0, 0.0)
        assert release(write(people(3), folder / "third.csv"), folder / "o3", budget=3.0).spent == (third, 0.0)


def test_databases_of_others_are_left_alone(tmp_path):
    """A database beside the table that is no ledger is neither locked, nor closed to others, nor in the way."""
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as database:
        database.execute("CREATE TABLE people (name TEXT)")
    (tmp_path / "other.db").chmod(0o644)
    before = (tmp_path / "other.db").read_bytes()
    release(write(TABLE, tmp_path / "first.csv"), tmp_path / "out")
    assert (tmp_path / "other.db").read_bytes() == before
    assert stat.S_IMODE((tmp_path / "other.db").stat().st_mode) == 0o644
    assert not (tmp_path / "other.db.lock").exists()


def test_units_in_common_are_charged_and_others_are_not(tmp_path):
    """Of patients, those who come again are known by their number, whatever else changed; others are new."""

    def visits(numbers, seed):
        table = people(seed, 3 * len(numbers))
        return table.append_column("patient", pa.array(np.repeat(numbers, 3)))

    first = release(write(visits(np.arange(100), 20), tmp_path / "one.csv"), tmp_path / "o1", unit="patient")
    others = write(visits(np.arange(100, 200), 21), tmp_path / "two.csv")
    assert release(others, tmp_path / "o2", unit="patient", ledger=first.ledger).spent[0] <= 1.0
    some = write(visits(np.arange(195, 295), 22), tmp_path / "three.csv")
    wanted = "5 returning patient with 15 of these 300 rows.* 285 rows have a new patient: release them alone"
    with pytest.raises(BudgetError, match=wanted):
        release(some, tmp_path / "o3", unit="patient", ledger=first.ledger)


def test_a_forgotten_unit_can_be_declared_later(tmp_path):
    """A release of rows costs a unit epsilon times its most rows, which is what a later release of units adds to."""
    table = TABLE.append_column("patient", pa.array(np.r_[np.zeros(5, int), np.arange(1, ROWS - 4)]))
    path = write(table, tmp_path / "t.csv")
    with pytest.raises(InputError, match=r"'patient' has .* up to 5 rows each"):
        release(path, tmp_path / "o1", unit=None)
    assert release(path, tmp_path / "o1").spent == (1.0, 0.0)
    with pytest.raises(BudgetError, match="makes 6, above"):
        release(path, tmp_path / "o2", unit="patient", budget=5.5)
    assert release(path, tmp_path / "o2", unit="patient", budget=6.0).spent == (6.0, 0.0)
    with pytest.raises(BudgetError, match="makes 3, above"):  # each row has one of both
        release(path, tmp_path / "o3", budget=2.5)
    shuffle = write(shuffled(table), tmp_path / "elsewhere.parquet")
    with pytest.raises(BudgetError, match="makes 7, above"):
        release(shuffle, tmp_path / "o3", unit="patient", budget=6.5)


def test_new_rows_of_a_person_with_released_rows_are_not_new(tmp_path):
    """After a release of rows, a person of whom one row returns is charged with all of them: they would add up."""
    table = TABLE.append_column("patient", pa.array(np.arange(ROWS) // 4))
    release(write(table.take(np.arange(0, 200, 4)), tmp_path / "one.csv"), tmp_path / "o1")
    with pytest.raises(
        BudgetError, match=r"200 of these 400 rows.* 200 rows are new: release them alone with --only-new"
    ):
        release(write(table, tmp_path / "two.csv"), tmp_path / "o2", unit="patient")


def test_a_total_of_units_has_charges_that_the_last_one_did_not_count(tmp_path):
    """A charge of some of the rows in another file counts, though the last one declared others: 1 + 1 + 1."""
    table = TABLE.append_column("patient", pa.array(np.arange(ROWS)))
    path = write(table, tmp_path / "t.csv")
    ledger = release(path, tmp_path / "o1", unit="patient").ledger
    new = people(9).append_column("patient", pa.array(np.arange(ROWS) + ROWS))
    some = write(pa.concat_tables([table.slice(0, 100), new]), tmp_path / "u.csv")
    release(some, tmp_path / "o2", unit="row", budget=3.0, ledger=ledger)
    release(path, tmp_path / "o3", unit="row", budget=3.0, other_people="a test of its own")
    entries = Ledger(ledger).entries()
    assert [each.spent[0] for each in entries] == [1.0, 2.0, 2.0]
    assert [row[:2] for row in spent_by_data(entries)] == [("ill", 3.0)]
    (total,) = combined_guarantee([ledger])
    assert (total.unit, total.composition.epsilon) == ("row", 3.0)


def test_units_are_known_by_another_name(tmp_path):
    """The same patients, whatever their column is called, are not other people: their charges have no sum by name."""
    ids = np.repeat(np.arange(100) + 7000, 4)
    first = people(50).append_column("patient", pa.array(ids))
    other = shuffled(people(51).append_column("patient_id", pa.array(ids)))
    release(write(first, tmp_path / "a.csv"), tmp_path / "o1", unit="patient")
    with pytest.raises(BudgetError):
        release(write(other, tmp_path / "b.csv"), tmp_path / "o2", unit="patient_id")


def test_rows_with_values_exchanged_count_for_both_units(tmp_path):
    """A row's hash leaves out which column a value is in, so two units may have rows of one hash."""
    pairs = [(i, 0) for i in range(1, 50)] + [(0, i) for i in range(1, 50)]
    person, contact = (np.array(column) + 300 for column in zip(*pairs, strict=True))
    table = pa.table({"person": person, "contact": contact, "ill": ["no", "yes"] * 49})
    path = write(table, tmp_path / "t.csv")
    release(path, tmp_path / "o1")
    done = release(path, tmp_path / "o2", unit="person", budget=200.0)
    assert done.spent[0] >= 50  # of the person with 49 rows, and epsilon 1 more


def test_the_ledger_of_a_folder_above_counts(tmp_path):
    """A file deep inside a folder that was released is known."""
    deep = tmp_path / "data" / "year=2026" / "month=01"
    deep.mkdir(parents=True)
    path = write(TABLE, deep / "p.parquet")
    release(tmp_path / "data", tmp_path / "o1")
    with pytest.raises(BudgetError):
        release(path, tmp_path / "o2")


@pytest.mark.parametrize("file", [False, True])
def test_ledgers_of_other_parts_of_a_table_count(tmp_path, file):
    """A month of a table knows what was released of another one, whose ledger lies in another folder."""
    months = [tmp_path / "data" / name for name in ("year=2025/month=12", "year=2026/month=01")]
    paths = []
    for month in months:
        month.mkdir(parents=True)
        paths.append(write(TABLE, month / "p.parquet") if file else write(TABLE, month / "p.parquet").parent)
    release(paths[0], tmp_path / "o1")
    with pytest.raises(BudgetError):
        release(paths[1], tmp_path / "o2")


@pytest.mark.parametrize("file", [False, True])
@pytest.mark.parametrize("other", ["data", "data/year=2026/month=01", "data/year=2026/month=01/p.parquet"])
def test_parts_of_a_table_are_released_one_after_the_other(tmp_path, monkeypatch, file, other):
    """At the same instant, neither would find the ledger of the other; another table has nothing to wait for."""
    monkeypatch.setattr(ledgers_module, "_PATIENCE", 0.1)
    paths = []
    for month in ("year=2025/month=12", "year=2026/month=01"):
        (tmp_path / "data" / month).mkdir(parents=True)
        paths.append(write(TABLE, tmp_path / "data" / month / "p.parquet"))
    mine = paths[0] if file else paths[0].parent
    with ledgers_module.alone_with(tmp_path / other):
        with pytest.raises(LedgerError, match="found one in progress"):
            release(mine, tmp_path / "o1")
        (tmp_path / "far").mkdir()
        release(write(NEW, tmp_path / "far" / "p.parquet"), tmp_path / "o2")
    release(mine, tmp_path / "o1")


def test_copies_of_rows_are_counted(tmp_path):
    """Rows that are exact copies are said, since they may be one person's."""
    path = write(pa.concat_tables([TABLE] * 3), tmp_path / "t.csv")
    (remark,) = (each for each in release(path, tmp_path / "o").remarks if "copies" in each)
    assert "800 rows are copies of others" in remark
    assert "up to 3 alike" in remark
    twice = write(pa.concat_tables([NEW, NEW[:1]]), tmp_path / "once" / "t.csv")
    assert any(each.startswith("1 row is a copy of another in") for each in release(twice, tmp_path / "o3").remarks)
    alone = release(write(NEW, tmp_path / "elsewhere" / "new.parquet"), tmp_path / "o2").remarks
    assert not any("copies" in each for each in alone)


def test_swapped_values_are_no_copies(tmp_path):
    """A row with the values of another one in other columns is no copy of it."""
    users, items = (part.ravel() for part in np.meshgrid(np.arange(100), np.arange(20)))
    ratings = pa.table({"who": users, "what": items, "ill": np.where(users % 2, "yes", "no")})
    assert release(write(ratings, tmp_path / "t.csv"), tmp_path / "o").remarks == ()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_person_with_a_gap_is_asked_about(tmp_path, ending):
    """One row without a person makes a column of floats, whose whole numbers repeat like an identifier."""
    people = pa.array([None, *(row // 2 for row in range(1, ROWS))], pa.float64())
    path = write(TABLE.append_column("patient_nbr", people), tmp_path / f"t.{ending}")
    with pytest.raises(InputError, match="--unit patient_nbr"):
        release(path, tmp_path / "o", unit=None)
    assert not list(tmp_path.glob("*ledger"))


def test_measurements_need_no_unit(tmp_path):
    """A column of floats with a fraction is a measurement, whatever its name and however it repeats."""
    weights = pa.array([70.5, *(float(row // 2) for row in range(1, ROWS))])
    path = write(TABLE.append_column("patient_weight", weights), tmp_path / "t.parquet")
    assert release(path, tmp_path / "o", unit=None).spent == (1.0, 0.0)


def test_declared_rows_are_an_assumption(tmp_path):
    """That epsilon is for each row, though a column repeats, stands in the certificate, and what a person then has.

    What is printed of its meaning is about one row, and then about all rows of a person.
    """
    table = TABLE.append_column("patient_nbr", pa.array(np.arange(ROWS) // 2))
    path = write(table, tmp_path / "t.csv")
    with pytest.raises(InputError, match="--unit patient_nbr"):
        release(path, tmp_path / "o", unit=None)
    assert not list(tmp_path.glob("*ledger"))
    done = release(path, tmp_path / "o").certificate
    several = (
        "epsilon is for one row, though 'patient_nbr' repeats in up to 2 rows: if it is a person, all labels of one "
        "with 2 rows have epsilon 2 together"
    )
    assert (done.of_several_rows, done.assumptions[-1]) == ((several,), several)
    assert done.meaning == f"{done.guarantee.posterior_sentence('one row')} E{several[1:]}."
    assert done.meaning.startswith("For one row: someone whom ")
    assert replace(done, assumptions=()).meaning == done.guarantee.posterior_sentence()
    hidden = release(path, tmp_path / "hidden", drop=["patient_nbr"], budget=9.0).certificate
    assert hidden.repeats == {"'a column that is not published'": 2}
    assert hidden.meaning.startswith("For one row: someone whom ")
    assert "patient_nbr" not in hidden.to_json()


@pytest.mark.parametrize(
    "forged",
    [
        "epsilon is for one row, and for a person it is 0.01",
        "epsilon is for one row, though 'patient_nbr' repeats in up to 2 rows: if it is a person, all labels of one "
        "with 2 rows have epsilon 1 together",
        "epsilon is for one row, though 'p' of nobody's, who has less, repeats in up to 2 rows: if it is a person, all "
        "labels of one with 2 rows have epsilon 2 together",
    ],
)
def test_only_the_declaration_itself_is_a_meaning(tmp_path, forged):
    """Other words, and another number, stay among what was declared and not checked."""
    done = release(write(TABLE, tmp_path / "t.csv"), tmp_path / "o").certificate
    assert replace(done, assumptions=(*done.assumptions, forged)).meaning == done.meaning
    assert done.meaning.startswith("For a person: ")


def test_rows_of_one_person_in_several_releases_add_up(tmp_path):
    """With 2 rows in one and 5 in the other, up to 7 at the sum of epsilons; of other people 5 at the largest."""
    names = np.arange(ROWS)
    parts = []
    for most in (2, 5):
        table = TABLE.append_column("patient_nbr", pa.array(names // most))
        release(write(table, tmp_path / f"{most}.csv"), tmp_path / f"o{most}", budget=2.0)
        parts.append(Release.load(tmp_path / f"o{most}"))
    said = "all labels of one with {} rows have epsilon {} together"
    for reason, rows, epsilon in (("", 7, 14), ("another town", 5, 5)):
        (several,) = Release.concat(parts, other_people=reason).certificate.of_several_rows
        assert said.format(rows, epsilon) in several


def test_a_change_of_interval_or_epsilon_changes_nothing(tmp_path):
    """Numeric labels of the same people are known again, whatever their range."""
    numbers = column(TABLE, "ill", pa.array(np.arange(ROWS) % 7))
    path = write(numbers, tmp_path / "t.parquet")
    release_table(path, "ill", Interval(0, 10, 1), 0.5, tmp_path / "o1", drop=[])
    with pytest.raises(BudgetError):
        release_table(
            write(shuffled(numbers), tmp_path / "u.csv"), "ill", Interval(0, 7, 1), 0.25, tmp_path / "o2", drop=[]
        )


def test_a_float_is_known_by_its_first_digits(tmp_path):
    """Rows are found one by one after a change of the last digits of their floats."""
    release(write(TABLE, tmp_path / "january.csv"), tmp_path / "o1")
    both = write(shuffled(pa.concat_tables([nudged(TABLE, 1e-12), NEW])), tmp_path / "february.parquet")
    with pytest.raises(BudgetError, match="400 of these 500 rows"):
        release(both, tmp_path / "o2")


def test_floats_alone_are_known_when_they_are_rounded(tmp_path):
    """A table of floats that was shuffled, and rounded to two digits after the point."""
    chance = np.random.default_rng(9)
    table = pa.table({**{f"x{i}": chance.normal(50, 9, ROWS) for i in range(4)}, "ill": TABLE["ill"]})
    coarse = pa.table({n: pc.round(table[n], 2) if n != "ill" else table[n] for n in table.column_names})
    first = release(write(table, tmp_path / "first.csv"), tmp_path / "out")
    check_known(first, write(shuffled(coarse), tmp_path / "elsewhere" / "b.csv"), tmp_path, ledger=first.ledger)


def test_copies_released_at_once_do_not_both_leave(tmp_path, monkeypatch):
    """Of two copies in one folder, released at one instant, one leaves: the second looks when the first is done."""
    copies = [write(TABLE, tmp_path / f"{name}.parquet") for name in "ab"]
    meeting, charged = threading.Barrier(2, timeout=2.0), Ledger.charged

    def meet_and_charge(self, entry, *given, **options):
        if entry.output:  # both have chosen their ledgers, if nothing kept the second waiting
            with contextlib.suppress(threading.BrokenBarrierError):
                meeting.wait()
        return charged(self, entry, *given, **options)

    monkeypatch.setattr(Ledger, "charged", meet_and_charge)
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        both = [threads.submit(release, path, path.with_suffix(".out")) for path in copies]
    assert sorted(type(each.exception()).__name__ for each in both) == ["BudgetError", "NoneType"]


def test_a_hard_link_to_a_ledger_is_refused(tmp_path):
    """Another name of the same file would have another lock."""
    first = release(write(TABLE, tmp_path / "t.csv"), tmp_path / "out")
    os.link(first.ledger, tmp_path / "second")
    with pytest.raises(LedgerError, match="2 hard links"):
        release(write(NEW, tmp_path / "new.csv"), tmp_path / "o2", ledger=tmp_path / "second")


def test_a_ledger_that_others_could_read_is_closed_to_them(tmp_path):
    """It is its owner's alone from then on."""
    first = release(write(TABLE, tmp_path / "t.csv"), tmp_path / "out")
    first.ledger.chmod(0o644)
    Ledger(first.ledger).entries()
    assert stat.S_IMODE(first.ledger.stat().st_mode) == 0o600


@pytest.mark.parametrize("numbers", [np.arange(ROWS), np.arange(ROWS) + 1, np.arange(ROWS) // 2, np.arange(ROWS) % 50])
def test_numbers_that_count_up_are_in_any_table(tmp_path, numbers):
    """A column of row numbers, in any order, makes no two tables of as many rows the same."""
    for seed, name in ((40, "train"), (41, "test")):
        mixed = numbers if seed == 40 else np.random.default_rng(seed).permutation(numbers)
        table = people(seed).append_column("number", pa.array(mixed))
        assert release(write(table, tmp_path / f"{name}.csv"), tmp_path / name).spent == (1.0, 0.0)
    alone = write(people(40).append_column("number", pa.array(numbers)).select(["number", "ill"]), tmp_path / "u.csv")
    with pytest.raises(BudgetError):  # which may be any labels
        release(alone, tmp_path / "again", ledger=tmp_path / "train.csv.labeldp-ledger")
