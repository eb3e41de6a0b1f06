"""The look at a table before its release: what it counts, and what it knows of earlier releases."""

import struct
import subprocess

import numpy as np
import pandas as pd
import pytest

from labeldp import Classes, Interval, Ledger, check_table, release_table
from labeldp.errors import InputError
from labeldp.release import ledger_path
from labeldp.results import Checked, release_command

ILL = Classes(["no", "yes"])


@pytest.fixture
def table(tmp_path):
    """A table of 90 people with up to three rows each, an age, costs and a label."""
    rows, people = np.arange(180), np.repeat(np.arange(90), 1 + np.arange(90) % 3)
    frame = pd.DataFrame({"patient_id": people, "age": 20 + rows % 50, "costs": rows % 17 * 10})
    frame.assign(ill=np.array(["no", "yes"])[rows % 5 % 2]).to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def test_values_are_counted_in_all_rows(tmp_path):
    """Past the rows in which spellings are looked at; empty texts are missing, and very many values are estimated."""
    rows, people = 300_000, 150_000
    columns = {
        "user": [f"u{row % people}" for row in range(rows)],
        "site": ["", "a", "b"] * (rows // 3),
        "click": range(rows),
        "tags": [[1]] * rows,
    }
    pd.DataFrame({**columns, "y": [0, 1] * (rows // 2)}).to_parquet(tmp_path / "t.parquet")
    user, site, click, tags = check_table(tmp_path / "t.parquet", "y").columns
    assert user.different == people
    assert (site.different, site.missing) == (2, rows // 3)
    assert abs(click.different / rows - 1) < 0.02
    assert "the number of different values is an estimate" in click.remarks
    assert tags.different == 0


def test_the_order_of_classes_says_nothing_of_labels(table):
    """The certificate publishes it, so one label more or less must not change it."""
    frame, orders = pd.read_csv(table), set()
    for share in (10, len(frame) - 10):
        frame.assign(ill=np.where(np.arange(len(frame)) < share, "yes", "no")).to_csv(table, index=False)
        orders.add(tuple(check_table(table, "ill").label.classes))
    assert orders == {("no", "yes")}


def test_the_index_of_a_data_frame_is_no_privacy_unit(tmp_path):
    """Its column has an empty name; rows are taken for one person each, and no number is made up for them."""
    pd.DataFrame({"b": np.arange(100) % 7, "y": ["u", "v"] * 50}).to_csv(tmp_path / "t.csv")
    found = check_table(tmp_path / "t.csv", "y")
    assert "each row is taken for one person" in Checked.of(found).decisions[0]
    assert " --classes u,v --epsilon 1 --drop " in release_command(found)
    assert found.left_out is found.left_out  # or a table of many columns takes a time that grows with their cube


def test_a_class_with_a_line_break_is_proposed_as_it_is_read(tmp_path):
    """In quotes of the shell that say so; the same words with a blank would be another class."""
    pd.DataFrame({"a": np.arange(80), "y": ["d\ne", "it's"] * 40}).to_csv(tmp_path / "t.csv", index=False)
    found = check_table(tmp_path / "t.csv", "y", unit="row", keep=[])
    assert found.label.classes == ["d\ne", "it's"]
    command = release_command(found)
    shell = ["bash", "-c", f"printf '%s\\0' {command}"]
    words = subprocess.run(shell, capture_output=True, check=True).stdout.split(b"\0")
    assert words[words.index(b"--classes") + 1].decode() == '"d\ne","it\'s"'


def test_dates_that_do_not_leave_are_not_said_to(tmp_path):
    """The notation is said to hold for columns that the command keeps."""
    days = pd.date_range("2026-01-01", periods=90).strftime("%d.%m.%Y")
    weights = [f"{number % 20},5" for number in range(90)]
    frame = pd.DataFrame({"weight": weights, "day": days, "y": ["u", "v"] * 45})
    frame.to_csv(tmp_path / "t.csv", index=False, sep=";")
    for keep, said in ((["weight"], "in 'weight': they leave"), ([], "in columns that do not leave")):
        decisions = Checked.of(check_table(tmp_path / "t.csv", "y", unit="row", keep=keep)).decisions
        assert any(said in each for each in decisions)


def test_a_label_that_was_released_is_not_kept(table):
    """Its true values would leave beside the next label: check drops it, and a release that keeps it is refused."""
    release_table(table, "ill", ILL, 0.5, table.parent / "first", keep=["age"], unit="patient_id")
    assert "--drop patient_id,ill " in release_command(check_table(table, "costs"))
    asked = (table, "costs", Interval(0, 1000, 10), 0.5, table.parent / "second")
    with pytest.raises(InputError, match="'ill' was already released with noise, and --keep"):
        release_table(*asked, keep=["age", "ill"], unit="patient_id")
    assert [entry.state for entry in Ledger(ledger_path(table)).entries()] == ["released"]
    assert release_table(*asked, keep=["age"], unit="patient_id").spent == (0.5, 0.0)


def test_a_label_that_left_as_a_kept_column_is_named(table):
    """Its true values are in an earlier release: the one of its labels says so."""
    first, given = table.parent / "first", {"unit": "patient_id"}
    release_table(table, "costs", Interval(0, 1000, 10), 0.5, first, keep=["ill"], **given)
    done = release_table(table, "ill", ILL, 0.5, table.parent / "second", keep=["age"], **given)
    said = f"the label 'ill' was a public column of the release in {first}: its true values left with it"
    assert said in done.remarks


def test_a_ledger_elsewhere_is_looked_at(table, tmp_path):
    """The one that is named, which the proposed command names too."""
    release_table(table, "ill", ILL, 0.5, tmp_path / "first", keep=["age"], unit="patient_id")
    ledger = ledger_path(table).rename(tmp_path / "all.ledger")
    (tmp_path / "elsewhere").mkdir()
    moved = table.rename(tmp_path / "elsewhere/t.csv")
    assert check_table(moved, "ill").earlier == ()
    found = check_table(moved, "ill", ledger=ledger)
    assert [each.entry.label for each in found.earlier] == ["ill"]
    assert f"--ledger {ledger}" in release_command(found)


def test_labels_alone_are_not_taken_for_those_of_other_tables(table, tmp_path):
    """Of a release of another label beside them nothing is said; of the same label, that it may be of these rows."""
    digits = tmp_path / "digits-idx1-ubyte"
    digits.write_bytes(struct.pack(">BBBBI", 0, 0, 8, 1, 60) + bytes(number % 2 for number in range(60)))
    release_table(table, "ill", ILL, 1.0, tmp_path / "one", keep=[], unit="row")
    assert check_table(digits, "label").earlier == ()
    release_table(digits, "label", Classes([0, 1]), 1.0, tmp_path / "two", keep=[], unit="row")
    assert [each.entry.label for each in check_table(digits, "label").earlier] == ["label"]


@pytest.mark.parametrize(
    ("exceptions", "rows", "named"), [(0, 300, True), (1, 300, True), (2, 300, False), (0, 99, False)]
)
def test_values_that_tell_a_class_are_named(tmp_path, exceptions, rows, named):
    """From 100 rows on, of which 99.5 % are of one class; not of columns that are left out, and no class is said."""
    ward = np.where(np.arange(1000) < rows, "q", "r")
    ill = np.where(np.arange(1000) % 2 == 0, "yes", "no")
    ill[:rows] = "yes"
    ill[:exceptions] = "no"
    table = pd.DataFrame({"ward": ward, "x": np.arange(1000) % 7, "ill": ill}).sample(frac=1, random_state=0)
    table.to_csv(tmp_path / "t.csv", index=False)
    found = [each for each in check_table(tmp_path / "t.csv", "ill").remarks if "are of one class" in each]
    assert [each.startswith(f"'ward' is 'q' in {rows} rows that were looked at") for each in found] == [True] * named
    assert not any("yes" in each for each in found)
    assert not any("of one class" in each for each in check_table(tmp_path / "t.csv", "ill", drop=["ward"]).remarks)


def test_values_tell_no_class_that_nearly_all_rows_have(tmp_path):
    """By chance, a hundred rows have no exception where one in two hundred does."""
    table = pd.DataFrame({"x": np.arange(2000) % 20, "ill": np.where(np.arange(2000) % 200 == 1, "yes", "no")})
    table.to_csv(tmp_path / "t.csv", index=False)
    assert not any("of one class" in each for each in check_table(tmp_path / "t.csv", "ill").remarks)


def test_values_are_compared_with_all_rows(tmp_path):
    """A remark has both shares; where nearly all rows are of the class, its absence elsewhere tells nobody's label."""
    rows = np.arange(20_000)
    for rare, remarks in ((400, ["100 % of them are of one class, as are 98 % of all rows"]), (80, [])):
        ill = np.where((rows % 2 == 1) & (rows < 2 * rare), "yes", "no")
        pd.DataFrame({"ward": np.where(rows % 2 == 1, "q", "r"), "ill": ill}).sample(frac=1, random_state=0).to_csv(
            tmp_path / "t.csv", index=False
        )
        found = [each for each in check_table(tmp_path / "t.csv", "ill").remarks if "are of one class" in each]
        assert [text in each for each, text in zip(found, remarks, strict=True)] == [True] * len(remarks)
