"""Accidents by which the same labels could be charged for as if they were others."""

import datetime as dt
import os
import traceback

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import Classes, Curator, Interval, Ledger, RandomizedResponse, release_table
from labeldp.errors import BudgetError, InputError, LabelError, LedgerError
from labeldp.release.jobs import _job as module
from labeldp.release.ledger import _ledger
from labeldp.release.ledger._same_data import _most_of_a_unit

SPACE = Classes(["a", "b"])
TABLE = pa.table({"id": range(100, 220, 3), "age": [i * i % 97 for i in range(40)], "y": ["a", "b"] * 20})


def release(source, output, **options):
    """A release of the table's label at epsilon 1."""
    return release_table(source, "y", SPACE, 1.0, source.parent / output, **{"drop": []} | options)


def test_a_ledger_for_another_label_hides_nothing(tmp_path):
    """A copy that has a ledger of its own, for another label, still meets the one that knows the first label."""
    table = TABLE.append_column("x", pa.array(["a", "b"] * 20))
    for name in ("one.parquet", "two.parquet"):
        pq.write_table(table, tmp_path / name)
    release(tmp_path / "one.parquet", "o1")
    options = {"drop": ["y"], "output": tmp_path / "o2"}
    release_table(tmp_path / "two.parquet", "x", SPACE, 1.0, **options)
    assert sorted(path.name for path in tmp_path.glob("*ledger")) == [
        "one.parquet.labeldp-ledger",
        "two.parquet.labeldp-ledger",
    ]
    with pytest.raises(BudgetError):
        release(tmp_path / "two.parquet", "o3", drop=["x"])
    with pytest.raises(BudgetError):
        release_table(tmp_path / "one.parquet", "x", SPACE, 1.0, tmp_path / "o3", drop=["y"])


def test_ledgers_that_both_know_a_label_add_up(tmp_path):
    """Each beside the table knows a part of what was spent, and both count, whichever is charged."""
    copied = tmp_path / "elsewhere"
    copied.mkdir()
    pq.write_table(TABLE, tmp_path / "one.parquet")
    pq.write_table(TABLE, copied / "two.parquet")
    release(tmp_path / "one.parquet", "o1")
    release(copied / "two.parquet", "o2")
    (copied / "two.parquet.labeldp-ledger").rename(tmp_path / "two.parquet.labeldp-ledger")
    for options in ({}, {"ledger": tmp_path / "third"}, {"ledger": tmp_path / "two.parquet.labeldp-ledger"}):
        with pytest.raises(BudgetError, match="makes 3, above"):
            release(tmp_path / "one.parquet", "o3", budget=2.5, **options)
    assert release(tmp_path / "one.parquet", "o3", budget=3.0).spent == (3.0, 0.0)


def test_rows_of_another_session_may_be_any_rows(tmp_path):
    """Halves of an array count as disjoint within one curator, not across curators, who may have shuffled it."""
    labels = ["a", "b"] * 20
    first = Curator(labels, SPACE, ledger=tmp_path / "l", budget=1.0)
    first.randomize(RandomizedResponse(SPACE, 1.0), slice(0, 20))
    first.randomize(RandomizedResponse(SPACE, 1.0), slice(20, 40))
    assert first.spent == (1.0, 0.0)
    second = Curator(labels[::-1], SPACE, ledger=tmp_path / "l", budget=1.0)
    assert second.spent == (2.0, 0.0)
    with pytest.raises(BudgetError):
        second.randomize(RandomizedResponse(SPACE, 1.0), slice(0, 20))


def test_a_curator_and_a_table_of_one_label_add_up(tmp_path):
    """On a table's ledger, a curator of the same name has spent what the table has."""
    pq.write_table(TABLE, tmp_path / "t.parquet")
    done = release(tmp_path / "t.parquet", "o")
    curator = Curator(TABLE["y"], SPACE, ledger=done.ledger, name="y")
    assert curator.spent == (1.0, 0.0)
    with pytest.raises(BudgetError):
        curator.randomize(RandomizedResponse(SPACE, 1.0))
    assert Curator(TABLE["y"], SPACE, ledger=done.ledger, name="z").spent == (0.0, 0.0)


def test_a_link_to_a_ledger_is_that_ledger(tmp_path):
    """Through a symbolic link, the ledger and its lock are the same."""
    (tmp_path / "link").symlink_to(tmp_path / "l")
    Curator(["a", "b"], SPACE, ledger=tmp_path / "l").randomize(RandomizedResponse(SPACE, 1.0))
    with pytest.raises(BudgetError):
        Curator(["a", "b"], SPACE, ledger=tmp_path / "link").randomize(RandomizedResponse(SPACE, 1.0))


def test_an_output_that_cannot_be_found_stays_charged(tmp_path, monkeypatch):
    """Moved on after it was published, before an error: nobody can say it never left, so the charge stays."""
    pq.write_table(TABLE, tmp_path / "t.parquet")
    finish = module.finish

    def moved(staging, target, certificate):
        finish(staging, target, certificate)
        os.rename(target, tmp_path / "elsewhere")
        raise OSError("the disk is gone")

    monkeypatch.setattr(module, "finish", moved)
    with pytest.raises(OSError, match="gone"):
        release(tmp_path / "t.parquet", "o")
    (entry,) = Ledger(tmp_path / "t.parquet.labeldp-ledger").entries()
    assert entry.state == "charged"
    monkeypatch.undo()
    with pytest.raises(BudgetError):
        release(tmp_path / "t.parquet", "o2")


def test_an_empty_line_of_one_column_is_a_row(tmp_path):
    """In a CSV of labels alone a missing label is a row: it is refused or given its class, never left out."""
    for i, text in enumerate(("y\na\nb\nb\n", "y\na\n\nb\n")):
        (tmp_path / f"{i}.csv").write_text(text)
        options = {"drop": [], "other_people": "each table is a test of its own"}
        done = release_table(tmp_path / f"{i}.csv", "y", Classes(["a", "b"], "a"), 1.0, tmp_path / f"o{i}", **options)
        assert done.certificate.rows == 3
    with pytest.raises(LabelError, match="row 2 "):
        release_table(tmp_path / "1.csv", "y", SPACE, 1.0, tmp_path / "o2", drop=[])


def test_dictionaries_of_labels_do_not_decide_whether_it_works(tmp_path):
    """Row groups whose dictionaries cannot be joined are read as plain values, whatever their labels."""
    space = Classes([f"c{i}" for i in range(200)])
    kind = pa.dictionary(pa.int8(), pa.string())
    for last in ("c0", "c127"):
        path = tmp_path / f"{last}.parquet"
        groups = [[f"c{i}" for i in range(127)], ["c126", last]]
        with pq.ParquetWriter(path, pa.schema([("y", kind)])) as writer:
            for group in groups:
                writer.write_table(pa.table({"y": pa.array(group).dictionary_encode().cast(kind)}))
        options = {"drop": [], "other_people": "each table is a test of its own"}
        assert release_table(path, "y", space, 1.0, tmp_path / f"o{last}", **options).certificate.rows == 129


@pytest.mark.parametrize("labels", [[1, 0, 1], [1, None, 1], [None, None, None]], ids=str)
def test_missing_labels_do_not_decide_whether_a_folder_works(tmp_path, labels):
    """A file whose missing labels made it store another type is read like the others."""
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"x": [1, 2, 3], "y": [0, 1, 0]}), tmp_path / "t" / "0.parquet")
    stored = pa.array([float("nan") if v is None else float(v) for v in labels]) if None in labels else pa.array(labels)
    pq.write_table(pa.table({"x": [1, 2, 3], "y": stored}), tmp_path / "t" / "1.parquet")
    done = release_table(tmp_path / "t", "y", Classes([0, 1], 0), 1.0, tmp_path / "o", drop=[])
    assert done.certificate.rows == 6


def test_an_empty_class_in_csv_is_refused(tmp_path):
    """An empty text is a missing label in CSV and cannot be a class too."""
    (tmp_path / "t.csv").write_text("x,y\n1,a\n2,a\n")
    with pytest.raises(LabelError, match="empty"):
        release_table(tmp_path / "t.csv", "y", Classes(["a", ""]), 1.0, tmp_path / "o", drop=[])


@pytest.mark.parametrize("space", [Interval(0, 1, 0.5), Classes([0, 1]), Classes([True, False])], ids=str)
def test_no_complaint_about_a_label_hangs_on_an_error(tmp_path, space):
    """What a reader said of a text that is no label is not even the context of the error."""
    (tmp_path / "t.csv").write_text("x,y\n1,zq-secret-7\n2,0\n")
    with pytest.raises(LabelError) as found:
        release_table(tmp_path / "t.csv", "y", space, 1.0, tmp_path / "o", drop=[])
    assert found.value.__context__ is None
    assert "zq-secret-7" not in "".join(traceback.format_exception(found.value))


def test_numpy_budgets_are_numbers():
    """A budget may be a NumPy number."""
    curator = Curator(["a", "b"], SPACE, budget=np.float64(2))
    curator.randomize(RandomizedResponse(SPACE, 1.0))
    assert curator.spent == (1.0, 0.0)


@pytest.mark.parametrize("seed", range(20))
def test_the_most_earlier_rows_of_a_unit_are_counted(seed):
    """They are those that a loop over units finds, with equal rows of several units, earlier copies and others."""
    chance = np.random.default_rng(seed)
    rows, known = chance.integers(0, 30, 40).astype(np.uint64), chance.integers(0, 30, chance.integers(0, 60))
    units = chance.integers(0, 7, 40).astype(np.uint64)
    found = [sum(int((known == row).sum()) for row in {*rows[units == unit].tolist()}) for unit in range(7)]
    shared = np.isin(rows, known)
    assert _most_of_a_unit(units[shared], rows[shared], known.astype(np.uint64)) == max(found)


def visits(folder, name, numbers, seed=0):
    """A table of visits of people with these numbers."""
    chance, rows = np.random.default_rng(seed), len(numbers)
    columns = {"crp": chance.lognormal(0.0, 5.0, rows), "number": chance.integers(0, 1 << 40, rows)}
    table = pd.DataFrame({"patient": [f"P{number}" for number in chance.permutation(numbers)], **columns})
    table.assign(y=chance.choice(["no", "yes"], rows)).to_csv(folder / name, index=False)
    return folder / name


@pytest.mark.parametrize(("units_first", "name"), [(True, "patient"), (False, "patient"), (True, "Patient ")])
def test_people_who_return_in_other_rows_have_spent_what_their_rows_cost(tmp_path, units_first, name):
    """Rows that were charged one by one are a person's, as a charge of the same rows for people shows."""
    space, keep = Classes(["no", "yes"]), {"keep": ["crp"], "budget": 99.0}
    january = visits(tmp_path, "january.csv", [*range(100), *range(50)])  # some people have two rows
    january.write_text(january.read_text().replace("patient", name))
    for number, unit in enumerate((name, "row") if units_first else ("row", name)):
        release_table(january, "y", space, 1.0, tmp_path / f"{number}", unit=unit, **keep)
    february = visits(tmp_path, "february.csv", [*range(40, 140)], seed=1)
    found = release_table(february, "y", space, 1.0, tmp_path / "2", unit="patient", **keep)
    assert found.spent[0] == 1.0 + 2.0 + 1.0
    march = visits(tmp_path, "march.csv", [*range(500, 600)], seed=2)
    assert release_table(march, "y", space, 1.0, tmp_path / "3", unit="patient", **keep).spent[0] == 1.0
    april = visits(tmp_path, "april.csv", [*range(60)], seed=3)
    with pytest.raises(InputError, match="no row is new"):
        release_table(april, "y", space, 1.0, tmp_path / "4", unit="patient", only_new=True, **keep)


def test_rows_of_which_there_are_fewer_copies_may_have_been_edited(tmp_path):
    """Where blank rows were filled in, and rows were added, the filled rows are not taken for new ones."""
    full = pd.DataFrame(np.random.default_rng(1).normal(50.0, 9.0, (300, 3)), columns=["age", "bmi", "crp"])
    blank, filled, options = full.copy(), full.copy(), {"drop": [], "budget": 9.0}
    blank.iloc[200:], filled.iloc[299] = np.nan, np.nan  # one row is blank as before
    blank.assign(y="a").to_csv(tmp_path / "t.csv", index=False)
    release_table(tmp_path / "t.csv", "y", SPACE, 1.0, tmp_path / "0", **options)
    pd.concat([filled, full.iloc[:1] + 1.0]).assign(y="a").to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match="it cannot be told which rows are new"):
        release_table(tmp_path / "t.csv", "y", SPACE, 1.0, tmp_path / "1", only_new=True, **options)


def test_a_clock_that_goes_back_brings_no_budget_back(tmp_path, monkeypatch):
    """The budget in force is that of the last charge of a ledger, whatever its time."""
    hours = iter(range(23, 0, -1))

    class Clock(dt.datetime):
        @classmethod
        def now(cls, tz=None):
            return dt.datetime(2026, 11, 29, next(hours), tzinfo=tz)

    monkeypatch.setattr(_ledger, "datetime", Clock)
    table, space = visits(tmp_path, "t.csv", range(50)), Classes(["no", "yes"])
    for number, budget in enumerate((10.0, 2.0)):
        release_table(table, "y", space, 1.0, tmp_path / f"{number}", keep=["crp"], unit="row", budget=budget)
    with pytest.raises(BudgetError, match="above the budget of 2"):
        release_table(table, "y", space, 1.0, tmp_path / "2", keep=["crp"], unit="row")


def test_a_name_that_is_too_long_leaves_no_ledger(tmp_path):
    """A ledger that nobody can open would stop the releases of all tables beside it."""
    long = visits(tmp_path, f"{'t' * 230}.csv", range(50))
    with pytest.raises(LedgerError, match="File name too long"):
        release_table(long, "y", Classes(["no", "yes"]), 1.0, tmp_path / "o", keep=["crp"], unit="row")
    assert [path.name for path in tmp_path.iterdir()] == [long.name]
    short = visits(tmp_path, "t.csv", range(50, 100), seed=1)
    release_table(short, "y", Classes(["no", "yes"]), 1.0, tmp_path / "o", keep=["crp"], unit="row")
