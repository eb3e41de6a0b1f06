"""Who is one unit with whom: the same answer for a row whatever stands beside it."""

import datetime
import decimal
import os
import threading
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import Classes, Curator, RandomizedResponse, release_table
from labeldp._strict_json import plain
from labeldp.errors import BudgetError, InputError, LabelDPError, LedgerError, TableError
from labeldp.learning.tables import _evaluate as judging
from labeldp.learning.tables import evaluate, learn
from labeldp.release import check_table
from labeldp.release.folder import group_column, verify
from labeldp.release.jobs import _job as module
from labeldp.release.tables import unit_keys
from labeldp.results import Checked, release_command

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


# Made-up numbers of privacy units: random, the same for who returns, under a key that nobody else has.


SPACE = Classes(["no", "yes"])
KEY = "units.labeldp-key"


def stays(folder, month, first, people=120):
    """Stays of patients, of whom each has up to three, sorted by patient; numbers begin at ``first``."""
    random = np.random.default_rng(first)
    who = np.sort(random.integers(first, first + people, 2 * people))
    table = pd.DataFrame(
        {
            "Patienten-Nr.": who,
            "age": 20 + who % 60,
            "ward": random.choice(["a", "b", "c"], who.size),
            "stay": [f"{month}-{i}" for i in range(who.size)],
            "ill": np.where(random.random(who.size) < 0.2 + 0.6 * (who % 60 > 30), "yes", "no"),
        }
    )
    path = folder / f"{month}.csv"
    table.to_csv(path, index=False)
    return path, who


def release(path, output, **given):
    """A release with made-up numbers, and its table."""
    given = {"drop": ["stay"], "unit": "Patienten-Nr.", "renumber": True, **given}
    done = release_table(path, "ill", SPACE, 4.0, output, **given)
    return done, pq.read_table(output).to_pandas()


def numbers_of(table, who):
    """The number of each person, who has one alone."""
    assert (table["Patienten-Nr._number"].groupby(who).nunique() == 1).all()
    return dict(zip(who, table["Patienten-Nr._number"], strict=True))


def test_who_returns_keeps_the_number(tmp_path):
    """In another file, column type and spelling; others get others, and the ledger knows all by the unit itself."""
    (first, january), (second, february) = stays(tmp_path, "january", 1), stays(tmp_path, "february", 61)
    table = pd.read_csv(second, dtype=str)
    table["Patienten-Nr."] = " " + table["Patienten-Nr."].str.zfill(6)
    table.to_csv(second, index=False)
    done, one = release(first, tmp_path / "one")
    assert any(KEY in remark for remark in done.remarks)
    again, two = release(second, tmp_path / "two", ledger=done.ledger, budget=8)
    assert not any(KEY in remark for remark in again.remarks)
    before, after = numbers_of(one, january), numbers_of(two, february)
    assert {who for who in before if after.get(who) == before[who]} == {*before} & {*after} != set()
    both = before | after
    assert len({*both.values()}) == len(both)
    assert min(both.values()) >= 0
    assert again.spent[0] == 8.0


def test_a_number_says_nothing_of_the_identifier(tmp_path):
    """The identifier is in no released file; numbers follow neither it nor the rows; another key gives others."""
    path, who = stays(tmp_path, "january", 1000)
    _, table = release(path, tmp_path / "one")
    assert {*table.columns} == {"age", "ward", "Patienten-Nr._number", "ill_released", "ill_groups"}
    numbers = table["Patienten-Nr._number"].drop_duplicates().to_numpy()
    assert abs(np.corrcoef(np.argsort(np.argsort(numbers)), np.arange(numbers.size))[0, 1]) < 0.5  # fails once in 10^7
    assert not {*numbers} & {*who}
    (tmp_path / KEY).rename(tmp_path / "old")
    _, other = release(path, tmp_path / "two", budget=8)
    assert not {*other["Patienten-Nr._number"]} & {*numbers}
    secret = (tmp_path / "old").read_text(encoding="ascii").split()[1]
    assert secret not in "".join(each.read_bytes().hex() for each in (tmp_path / "one").iterdir())


def test_the_key_is_its_owners_alone(tmp_path, umask):
    """It is 0600 under any umask, and lies beside the ledger that was named."""
    path, _ = stays(tmp_path, "january", 1)
    (tmp_path / "safe").mkdir()
    umask(0)
    release(path, tmp_path / "one", ledger=tmp_path / "safe/people.ledger")
    assert (tmp_path / "safe" / KEY).stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / KEY).exists()


def plant_link(path):
    """A link to somebody's key."""
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.chmod(0o640),
        lambda path: path.with_name("copy").hardlink_to(path),
        lambda path: path.write_bytes(path.read_bytes()[:-2]),
        lambda path: path.write_bytes(b"\0" * (1 << 20)),
        plant_link,
        lambda path: (path.unlink(), os.mkfifo(path, 0o600)),
        lambda path: (path.unlink(), path.mkdir()),
    ],
    ids=["others read it", "two names", "cut off", "large", "link", "fifo", "folder"],
)
def test_a_key_that_is_not_ours_alone_is_refused(tmp_path, change):
    """Nothing is charged, and the message shows nothing of the file."""
    path, _ = stays(tmp_path, "january", 1)
    done, _ = release(path, tmp_path / "one")
    content = (tmp_path / KEY).read_text(encoding="ascii").split()[1]
    change(tmp_path / KEY)
    with pytest.raises(LedgerError, match="not yours alone") as caught:
        release(path, tmp_path / "two", budget=8)
    assert content not in str(caught.value)
    assert not (tmp_path / "two").exists()
    assert done.spent == (4.0, 0.0)


def test_two_at_once_have_one_key(tmp_path):
    """Two releases that both find no key: whoever is in both tables has one number."""
    tables = [stays(tmp_path, "january", 1), stays(tmp_path, "february", 61)]
    found, failed = {}, []

    def work(place):
        try:
            path, who = tables[place]
            found[place] = numbers_of(release(path, tmp_path / f"out{place}", budget=8)[1], who)
        except LabelDPError as problem:
            failed.append(problem)

    threads = [threading.Thread(target=work, args=[place]) for place in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert failed == []
    common = {*found[0]} & {*found[1]}
    assert common
    assert all(found[0][who] == found[1][who] for who in common)


def test_learners_find_the_numbers(tmp_path, monkeypatch):
    """The certificate names their column: folds keep people together, and intervals of another table count people."""
    (first, _), (second, who) = stays(tmp_path, "january", 1), stays(tmp_path, "february", 1000)
    done, _ = release(first, tmp_path / "one")
    release(second, tmp_path / "two", other_people="another hospital")
    assert verify(tmp_path / "one").holds
    assert group_column(done.certificate) == "Patienten-Nr._number"
    learned = learn(tmp_path / "one", model="softmax")
    assert "Patienten-Nr._number" not in learned.model.columns
    assert not learned.mixed
    units, real = [], judging.class_scores

    def scored(labels, probabilities, **given):
        units.append(given["units"])
        return real(labels, probabilities, **given)

    monkeypatch.setattr(judging, "class_scores", scored)
    evaluate(learned.model, tmp_path / "two", "ill", public=False)
    assert len({*zip(who, units[0], strict=True)}) == len({*who}) == len({*units[0]})


@pytest.mark.parametrize(
    "given",
    [
        {"unit": None},
        {"unit": "row"},
        {"drop": None, "keep": ["age", "Patienten-Nr."]},
        {"drop": None, "keep": ["age", "PATIENTEN-NR. "]},
        {"mechanism": "noisy-histogram", "drop": None, "keep": []},
    ],
    ids=["no unit", "rows", "kept too", "kept in another spelling", "no rows"],
)
def test_numbers_that_cannot_be_made_up_are_refused(tmp_path, given):
    """Before a key is made."""
    path, _ = stays(tmp_path, "january", 1)
    with pytest.raises(InputError, match=r"--renumber|no rows"):
        release(path, tmp_path / "one", **given)
    assert not (tmp_path / KEY).exists()


def test_a_kept_column_of_the_same_name_is_refused(tmp_path):
    """Which of the two is released would be in doubt; dropped, it plays no part."""
    path, who = stays(tmp_path, "january", 1)
    table = pd.read_csv(path).assign(**{"Patienten-Nr._number": 7})
    table.to_csv(path, index=False)
    with pytest.raises(InputError, match="which the release adds"):
        release(path, tmp_path / "one")
    _, released = release(path, tmp_path / "one", drop=["stay", "Patienten-Nr._number"])
    assert len({*numbers_of(released, who).values()}) == len({*who})


def test_a_label_of_the_name_of_the_numbers_is_refused(tmp_path):
    """In any spelling: no verifier would take the release, which would be charged for."""
    path, _ = stays(tmp_path, "january", 1)
    pd.read_csv(path).rename(columns={"ill": "PATIENTEN-NR._number "}).to_csv(path, index=False)
    given = {"drop": ["stay"], "unit": "Patienten-Nr.", "renumber": True}
    with pytest.raises(InputError, match=r"no column named 'Patienten-Nr._number'"):
        release_table(path, "PATIENTEN-NR._number ", SPACE, 4.0, tmp_path / "out", **given)
    assert not list(tmp_path.glob("*.labeldp-ledger"))


def test_numbers_do_not_depend_on_batches(tmp_path, monkeypatch):
    """Small batches of a Parquet file and of a CSV give one number to each person."""
    path, who = stays(tmp_path, "january", 1)
    _, one = release(path, tmp_path / "one")
    pd.read_csv(path).to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(module, "_ROWS_PER_BATCH", 7)
    _, two = release(tmp_path / "t.parquet", tmp_path / "two", budget=8)
    assert numbers_of(one, who) == numbers_of(two, who)


def test_a_check_proposes_numbers(tmp_path):
    """Where it drops the unit; not for rows that were declared to be units."""
    path, _ = stays(tmp_path, "january", 1)
    for unit, proposed in (("Patienten-Nr.", True), ("row", False)):
        found = check_table(path, "ill", unit=unit)
        command = release_command(found)
        assert ("--renumber" in command) == proposed
        assert plain(Checked.of(found))
