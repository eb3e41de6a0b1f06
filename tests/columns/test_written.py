"""Kept columns of a CSV leave as they came: as the type that gives back every text, or as text."""

import csv
from datetime import date, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp import Classes, release_table, verify
from labeldp.cli import main
from labeldp.columns import ColumnType, read_as
from labeldp.release.tables import open_table, typed

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
