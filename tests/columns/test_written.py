"""Kept columns of a CSV leave as they came: as the type that gives back every text, or as text."""

from __future__ import annotations

import csv
import datetime as dt
import shlex
from datetime import date, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp import Classes, Interval, release_table, verify
from labeldp.cli import main
from labeldp.columns import ColumnType, Notation, numbers_as_texts, proposed_notation, read_as
from labeldp.errors import LabelError, TableError
from labeldp.release import check_table
from labeldp.release.tables import TableFile, open_table, typed

MISSING = ("", "NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null", "None")
#: Spellings of a column, the type that it leaves in, and whether its owner is told that it stays text.
SPELLINGS = {
    "whole numbers": (["12", "-3", "0"], "int64", False),
    "the largest number": (["9223372036854775807", "-9223372036854775808", "1"], "int64", False),
    "postcodes": (["01000", "20095", "99999"], "string", True),
    "telephone": (["+5", "7", "8"], "string", True),
    "hexadecimal": (["0x1F", "0x20", "0x21"], "string", True),
    "too large": (["123456789012345678901", "1", "2"], "string", True),
    "thousands": (["1,000", "2,000", "10"], "string", False),
    "spaces": ([" 1", "2", "3"], "string", False),
    "floats": (["2.5", "-0.25", "1e-07"], "double", False),
    "floats of Arrow": (["0.000095", "1e-7", "100000"], "double", False),
    "floats without points": (["2.5", "3", "10000000000"], "double", False),
    "floats with points": (["2.5", "3.0", "10000000000.0"], "double", False),
    "points here and there": (["2.5", "3.0", "3"], "string", True),
    "all digits": (["0.30000000000000004", "1.7976931348623157e+308", "5e-324"], "double", False),
    "too many digits": (["0.10000000000000001", "0.5", "0.5"], "string", True),
    "exponents": (["1e3", "2e3", "5"], "string", True),
    "prices": (["39.90", "0.50", "-1.25"], "double", False),
    "long prices": (["12345678901234567.90", "0.50", "1.25"], "string", True),
    "diagnoses": (["250.00", "250.0", "401.9"], "string", True),
    "bare points": ([".5", "5.", "1.5"], "string", True),
    "minus nothing": (["-0.0", "0.0", "1.0"], "double", False),
    "small letters": (["true", "false", "true"], "bool", False),
    "capitals": (["True", "False", "True"], "string", True),
    "flags": (["1", "0", "true"], "string", True),
    "dates": (["2026-01-31", "1999-12-01", "2026-02-28"], "date32[day]", False),
    "no dates": (["2026-01-31", "1999-12-01", "2026-02-30"], "string", False),
    "German dates": (["31.01.2026", "01.12.1999", "28.02.2026"], "string", False),
    "short dates": (["2026-1-31", "1999-12-1", "2026-2-28"], "string", False),
    "times": (["2026-01-31 10:30:00", "1999-12-01 00:00:01", "2026-02-28 23:59:59"], "timestamp[us]", False),
    "minutes": (["2026-01-31T10:30", "1999-12-01T00:00", "2026-02-28T23:59"], "timestamp[us]", False),
    "milliseconds": (["2026-01-31 10:30:00.125"] * 3, "timestamp[us]", False),
    "times in two forms": (["2026-01-31 10:30", "2026-01-31T10:30", "2026-01-31 10:30"], "string", True),
    "dates and times": (["2026-01-31 10:30", "2026-01-31", "2026-01-31"], "string", True),
    "zones": (["2026-01-31T10:30:00Z"] * 3, "string", False),
    "gaps": (["1", "", "3"], "int64", False),
    "gaps in words": (["1.5", "NA", "3.25"], "double", False),
    "gaps of two kinds": (["1", "", "NA"], "string", True),
    "nothing": (["", "", ""], "string", False),
    "texts": (["a", "NA", ""], "string", False),
}


def written(path, columns):
    """A CSV of some columns, and a label that alternates."""
    rows = len(next(iter(columns.values())))
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow([*columns, "y"])
        lines.writerows(zip(*columns.values(), [("no", "yes")[row % 2] for row in range(rows)], strict=True))
    return path


def as_texts(column):
    """The texts that some writer of the column's type writes: one of a few, the same for all values."""
    values = column.to_pylist()
    if pa.types.is_string(column.type):
        return [values]
    writers = {
        pa.int64(): (str,),
        pa.bool_(): (lambda value: str(value).lower(),),
        pa.date32(): (date.isoformat,),
        pa.float64(): (
            repr,
            lambda value: repr(value).removesuffix(".0"),
            lambda value: pa.scalar(value).cast(pa.string()).as_py(),
            *(lambda value, count=count: f"{value:.{count}f}" for count in range(1, 15)),
        ),
        pa.timestamp("us"): tuple(
            lambda value, between=between, detail=detail: datetime.isoformat(value, between, detail)
            for between in " T"
            for detail in ("minutes", "seconds", "milliseconds", "microseconds")
        ),
    }
    gaps = MISSING if None in values else ("",)
    return [
        [gap if value is None else write(value) for value in values] for write in writers[column.type] for gap in gaps
    ]


@pytest.mark.parametrize("door", ["command", "Python"])
def test_kept_columns_leave_as_they_came(tmp_path, capsys, door):
    """Each spelling leaves in its type or as text, from which a writer of that type restores it; the owner is told."""
    columns = {name: texts for name, (texts, _, _) in SPELLINGS.items()}
    source, output = written(tmp_path / "t.csv", columns), tmp_path / "out"
    if door == "command":
        kept = [part for name in columns for part in ("--keep", name)]
        asked = ["release", source, "--label", "y", "--classes", "no,yes", "--epsilon", 1, "--output", output, *kept]
        assert main(list(map(str, asked))) == 0
        told = capsys.readouterr().out
    else:
        done = release_table(source, "y", Classes(["no", "yes"]), 1.0, output, keep=list(columns))
        told = " ".join(done.remarks)
    released = pq.read_table(output / "data.parquet")
    for name, (texts, kind, _) in SPELLINGS.items():
        assert str(released[name].type) == kind, name
        assert texts in as_texts(released[name]), name
    said = " ".join(told[told.index("kept as text") :].split())
    assert {name: repr(name) in said for name in SPELLINGS} == {name: said for name, (_, _, said) in SPELLINGS.items()}
    assert verify(output).holds


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from([text for texts, _, _ in SPELLINGS.values() for text in texts]),
            st.floats().map(repr),
            st.integers().map(str),
            st.decimals(allow_nan=False, allow_infinity=False, places=2).map(str),
            st.sampled_from(MISSING),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_texts_can_be_restored(texts):
    """Whatever texts a column has, they can be restored from what leaves."""
    column, found = pa.array(texts, pa.string()), ColumnType()
    found.add(column)
    assert texts in as_texts(read_as(column, found.type))


@pytest.mark.parametrize("late", ["0500", "1.0", "NA", "x"])
def test_the_last_value_counts(tmp_path, late):
    """A type is that of all values, not of the first: one late spelling in a later batch keeps all of them text."""
    rows = 70_000
    texts = [*(str(row) for row in range(rows)), *(["", late] if late == "NA" else [late])]
    source = written(tmp_path / "t.csv", {"number": texts})
    table = typed(open_table(source, "y"), ["number"])
    assert table.schema.field("number").type == pa.string()
    assert table.respelled == (() if late == "x" else ("number",))


def test_files_of_types_are_left_alone(tmp_path):
    """Types of Parquet are those of the file: text that looks like a number stays text, and nothing is said of it."""
    table = pa.table({"zip": ["01000", "2"], "price": [39.9, 0.5], "y": ["no", "yes"]})
    pq.write_table(table, tmp_path / "t.parquet")
    done = release_table(
        tmp_path / "t.parquet", "y", Classes(["no", "yes"]), 1.0, tmp_path / "out", keep=["zip", "price"]
    )
    released = pq.read_table(tmp_path / "out/data.parquet").drop_columns(["y_released"])
    assert released.schema.types == table.schema.types[:2]
    assert released.to_pydict() == table.select(["zip", "price"]).to_pydict()
    assert not any("kept as text" in remark for remark in done.remarks)


# Numbers and dates as people write them: declared, proposed, and noticed where they stay text.


#: Texts in a notation, and the values that they are.
WRITTEN = {
    "decimal comma": (Notation(","), ["50,31", "7", "-0,5", ""], [50.31, 7.0, -0.5, None]),
    "points between thousands": (Notation(",", "."), ["1.234,56", "999", "1.234.567,8"], [1234.56, 999.0, 1234567.8]),
    "whole thousands": (Notation(thousands=","), ["1,000", "12", "1,234,567"], [1000, 12, 1234567]),
    "thin blanks": (Notation(",", " "), ["1\u202f234,5", "12\u00a0345", "1\u2009000,25"], [1234.5, 12345.0, 1000.25]),
    "apostrophes": (Notation(".", "'"), ["1'234.5", "1\u2019000.25"], [1234.5, 1000.25]),
    "two gaps": (Notation(","), ["1,5", "", "NA"], [1.5, None, None]),
    "points in spite of it": (Notation(","), ["2.5", "1.25"], [2.5, 1.25]),
    "days first": (Notation(dates="dmy"), ["31.01.2026", "1/2/1999"], [dt.date(2026, 1, 31), dt.date(1999, 2, 1)]),
    "months first": (Notation(dates="mdy"), ["1/31/2026", ""], [dt.date(2026, 1, 31), None]),
    "times": (Notation(dates="dmy"), ["31.01.2026 10:30", "1.2.2026"], [dt.datetime(2026, 1, 31, 10, 30), None]),
    "codes": (Notation(","), ["007", "1,5"], ["007", "1,5"]),
    "groups of two": (Notation(thousands=","), ["1,00", "2,000"], ["1,00", "2,000"]),
    "no day": (Notation(dates="dmy"), ["30.02.2026", "1.2.2026"], ["30.02.2026", "1.2.2026"]),
    "as many decimals as a float has": (
        Notation(","),
        ["0,00547945205479452", "0,8473684210526315", "1,0"],
        [0.00547945205479452, 0.8473684210526315, 1.0],
    ),
    "exponents": (Notation(","), ["9,13e-05", "1e+05", "-2,5E-07"], [9.13e-05, 1e5, -2.5e-07]),
    "codes with an E": (Notation(","), ["1E10", "2,5"], ["1E10", "2,5"]),
    "more decimals than a float has": (Notation(","), ["0,1234567890123456789"], ["0,1234567890123456789"]),
    "too many digits": (Notation(","), ["1234567890123456789,5"], ["1234567890123456789,5"]),
    "units": (Notation(","), ["12 %", "3,5 %"], ["12 %", "3,5 %"]),
}


@pytest.mark.parametrize("name", [name for name in WRITTEN if name != "times"])
def test_texts_are_the_values_of_their_notation(name):
    """Or stay as they came, where one of them is no number or date in it."""
    notation, texts, values = WRITTEN[name]
    column = ColumnType(notation)
    column.add(pa.array(texts))
    assert read_as(pa.array(texts), column.type, column.notation).to_pylist() == values


def test_times_of_day_follow_dates():
    """With hours and minutes, also with seconds; without a declared order they are text."""
    texts = pa.array(["31.01.2026 10:30", "01.02.2026 08:00:15"])
    for notation, kind in ((Notation(dates="dmy"), pa.timestamp("us")), (Notation(), pa.string())):
        column = ColumnType(notation)
        column.add(texts)
        assert column.type == kind
    read = read_as(texts, pa.timestamp("us"), Notation(dates="dmy"))
    assert read.to_pylist() == [dt.datetime(2026, 1, 31, 10, 30), dt.datetime(2026, 2, 1, 8, 0, 15)]


@given(st.lists(st.decimals(-(10**7), 10**7, places=2), min_size=1))
def test_any_number_is_read_back(numbers):
    """As Python formats it with commas between thousands, with the marks exchanged."""
    marks = str.maketrans(",.", ".,")
    texts = [f"{number:,}".translate(marks) for number in numbers]
    column = ColumnType(Notation(",", "."))
    column.add(pa.array(texts))
    assert read_as(pa.array(texts), pa.float64(), column.notation).to_pylist() == list(map(float, numbers))


@pytest.mark.parametrize(
    ("columns", "separator", "options"),
    [
        ([["4,615", "13,732"]], ";", "--decimal ,"),  # a comma in a semicolon file
        ([["4,615", "13,732"]], ",", "--thousands ,"),
        ([["4,61", "13,732"]], ",", "--decimal ,"),
        ([["4,5", ""], ["1.234,5"]], ";", "--decimal , --thousands ."),
        ([["1\u202f234,5"], ["31.12.2026"]], ";", "--decimal , --thousands   --dates dmy"),
        ([["1/31/2026"], ["2/1/2026"]], ",", "--dates mdy"),
        ([["1/2/2026"]], ",", ""),  # it may be either
        ([["1.2.2026"]], ",", "--dates dmy"),
        ([["12"], ["a,b"], ["2.5"], [""]], ";", ""),
    ],
)
def test_the_notation_is_proposed(columns, separator, options):
    """From the texts of public columns and the separator of the file; nothing where it may be another."""
    assert " ".join(proposed_notation(map(pa.array, columns), separator).options) == options


@pytest.mark.parametrize("texts", [["a", "b"], ["1", "2"], ["2.5"], ["1,5", "x"], ["01,5"], ["", None], []])
def test_other_texts_do_not_look_like_numbers(texts):
    """Plain numbers neither, which have a type of their own."""
    assert not numbers_as_texts(pa.array(texts, pa.string()))


@pytest.mark.parametrize("wrong", [{"decimal": ";"}, {"thousands": "."}, {"thousands": "x"}, {"dates": "ydm"}])
def test_no_other_notation_is_declared(wrong):
    """Nor one whose marks are the same."""
    with pytest.raises(TableError, match="expected"):
        Notation(**wrong)


@pytest.fixture
def hospital(tmp_path):
    """A semicolon file of Windows with decimal commas, German dates, gaps and percent signs."""
    rows = [
        f"{20 + row % 60};{'' if row % 9 == 0 else f'{row % 40},5'};1.0{row % 90 + 10},25;"
        f"{row % 28 + 1:02}.{row % 12 + 1:02}.2026;{row % 30} %;{('ja', 'nein')[row % 3 == 0]}"
        for row in range(120)
    ]
    path = tmp_path / "Entlassungen.csv"
    path.write_text("\r\n".join(["Alter;HbA1c;Kosten (€);Aufnahme;Anteil;krank", *rows]), "cp1252", newline="")
    return path


def test_check_proposes_what_a_release_then_reads(hospital, capsys, monkeypatch):
    """The command that it prints runs as it is, and releases numbers and dates."""
    monkeypatch.chdir(hospital.parent)
    assert main(["check", hospital.name, "--label", "krank"]) == 1
    assert "--encoding cp1252" in capsys.readouterr().err
    assert main(["check", hospital.name, "--label", "krank", "--encoding", "latin-1"]) == 0
    assert "control characters in it" in capsys.readouterr().out
    file = TableFile(hospital.name, encoding="cp1252")
    found = check_table(file, "krank", unit="row")
    assert found.table.file.notation == Notation(",", ".", "dmy")
    assert found.table.notated == ("HbA1c", "Kosten (€)", "Aufnahme")
    facts = {column.name: column for column in found.columns}
    assert (facts["HbA1c"].kind, facts["HbA1c"].missing) == ("double", 14)
    assert "text, since numbers have a unit behind them" in facts["Anteil"].remarks
    notation = found.table.file.notation
    release_table(
        TableFile(hospital.name, encoding="cp1252", notation=notation),
        "krank",
        Classes(["ja", "nein"]),
        1.0,
        "shared",
        keep=list(facts),
        unit="row",
    )
    saved = pq.read_table("shared/data.parquet").slice(0, 2).to_pydict()
    assert saved["HbA1c"] == [None, 1.5]
    assert saved["Kosten (€)"] == [1010.25, 1011.25]
    assert saved["Aufnahme"] == [dt.date(2026, 1, 1), dt.date(2026, 2, 2)]
    assert saved["Anteil"] == ["0 %", "1 %"]


def test_numeric_labels_are_read_in_the_notation(tmp_path):
    """Without it the refusal says how to declare it, and shows no label."""
    path = tmp_path / "t.csv"
    path.write_text("age;costs\n" + "".join(f"{row};{row % 7 + 1}.0{row % 10}7,75\n" for row in range(50)), "utf-8")
    space = Interval(0, 10_000, 0.25)
    with pytest.raises(LabelError, match="numbers with commas; pass --decimal ,") as refused:
        release_table(path, "costs", space, 1.0, tmp_path / "no", keep=["age"], unit="row")
    assert "7,75" not in str(refused.value)
    source = TableFile(path, notation=Notation(",", "."))
    release_table(source, "costs", space, 10.0, tmp_path / "shared", keep=["age"], unit="row")
    assert check_table(source, "costs", unit="row").label.is_number


@pytest.mark.parametrize(("rows", "shape"), [(200, "{row}{cents},50"), (6000, "{row},{cents}")])
def test_check_reads_a_label_that_alone_has_decimal_commas(tmp_path, capsys, monkeypatch, rows, shape):
    """As numbers, however many differ: not as classes, nor as texts that are no label."""
    monkeypatch.chdir(tmp_path)
    lines = [f"{20 + row % 7};{shape.format(row=row + 1, cents=row % 10)}\n" for row in range(rows)]
    (tmp_path / "t.csv").write_text("age;price\n" + "".join(lines), "utf-8")
    assert main(["check", "t.csv", "--label", "price", "--unit", "row"]) == 0
    printed = capsys.readouterr().out
    assert "- --decimal , below reads numbers and dates in 'price': they leave as such" in printed
    assert "--label price --interval LOW,HIGH,STEP --epsilon 1 " in printed
    assert printed.rstrip().endswith("--decimal , --output shared")


@pytest.mark.parametrize("declared", [[], ["--decimal", ","]])
def test_check_leaves_classes_with_commas_as_they_are_written(tmp_path, capsys, monkeypatch, declared):
    """Two numbers are two classes: no notation is proposed for them, and the command that is printed runs."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{row};{'1,0' if row % 3 else '2,5'}\n" for row in range(90))
    (tmp_path / "t.csv").write_text(f"x;note\n{rows}", "utf-8")
    assert main(["check", "t.csv", "--label", "note", "--unit", "row", "--keep", "x", *declared]) == 0
    printed = capsys.readouterr().out
    assert "'1,0' 60" in printed
    assert ("--decimal" in printed) == bool(declared)
    assert main(shlex.split(printed.rstrip().splitlines()[-1])[1:]) == 0


def test_predictions_name_the_row_that_is_no_number(tmp_path, capsys, monkeypatch):
    """And the option that reads it; with that option it is predicted."""
    monkeypatch.chdir(tmp_path)
    for name, mark in (("points.csv", "."), ("commas.csv", ",")):
        rows = "".join(f'"{row % 60}{mark}5",{"ab"[row % 2]}\n' for row in range(80))
        (tmp_path / name).write_text(f"age,y\n{rows}", "utf-8")
    release_table("points.csv", "y", Classes(["a", "b"]), 3.0, "shared", keep=["age"], unit="row")
    assert main(["learn", "shared", "--model", "softmax", "--output", "m.safetensors"]) == 0
    capsys.readouterr()
    assert main(["predict", "m.safetensors", "commas.csv", "--output", "p.csv"]) == 1
    message = "a number in every row of the column 'age', found one with a decimal comma in row 1 "
    assert message in (error := capsys.readouterr().err)
    assert "pass --decimal ," in error
    assert main(["predict", "m.safetensors", "commas.csv", "--decimal", ",", "--output", "p.csv"]) == 0
    assert main(["predict", "m.safetensors", "points.csv", "--output", "q.csv"]) == 0
    assert (tmp_path / "p.csv").read_bytes() == (tmp_path / "q.csv").read_bytes()
