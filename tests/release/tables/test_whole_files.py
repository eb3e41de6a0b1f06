"""Feather, JSON lines and Excel: the tables that a CSV of the same rows is."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import runpy
import struct
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import Classes, TableFile, check_table, release_table
from labeldp.cli import main
from labeldp.errors import LabelDPError, TableError
from labeldp.release import public_columns, some_columns

ROWS = {
    "age": [30, 41, None, 52] * 8,
    "dose": [0.5, 1.25, 2.0, None] * 8,
    "town": ["Köln", "Ulm", None, "Bonn"] * 8,
    "seen": [dt.date(2026, 1, 31), None, dt.date(1999, 12, 1), dt.date(2026, 2, 28)] * 8,
    "smokes": [True, False, None, True] * 8,
    "y": ["yes", "no", "no", "yes"] * 8,
}
SPACE = Classes(["no", "yes"])
#: Writes a workbook of Excel.
write_excel = runpy.run_path(str(Path(__file__).parents[2] / "workbooks.py"))["write_excel"]


def written(path):
    """The rows in a file of the kind that its name says."""
    table = pa.table(ROWS)
    if path.suffix in (".feather", ".arrow"):
        packed = "lz4" if path.suffix == ".feather" else None  # as pandas, R and Arrow write them
        with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(compression=packed)) as file:
            file.write_table(table)
    elif path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row, default=str)}\n" for row in table.to_pylist()), "utf-8")
    else:
        pytest.importorskip("python_calamine")
        write_excel(path, {"Tabelle1": [list(ROWS), *zip(*ROWS.values(), strict=True)]})
    return path


@pytest.mark.parametrize("name", ["t.feather", "t.arrow", "t.jsonl", "t.xlsx"])
def test_a_release_has_the_typed_values(tmp_path, name):
    """Numbers, texts, dates and flags with their gaps; labels are encoded as those of a CSV."""
    path = written(tmp_path / name)
    assert dict(check_table(path, "y", unit="row").label.counts) == {"yes": 16, "no": 16}
    release_table(path, "y", SPACE, 1.0, tmp_path / "shared", keep=[*ROWS][:-1], unit="row")
    found = public_columns(tmp_path / "shared")
    if name == "t.jsonl":  # which has no dates
        found = found.set_column(3, "seen", found["seen"].cast(pa.date32()))
    assert found.to_pydict() == {column: values for column, values in ROWS.items() if column != "y"}


def test_a_sheet_is_named_if_there_are_several(tmp_path, capsys):
    """The refusal lists them, and the printed command names the one that was looked at."""
    pytest.importorskip("python_calamine")
    path = tmp_path / "t.xlsx"
    rows = [["age", "y"], *([row, "ab"[row % 2]] for row in range(30))]
    write_excel(path, {"Notes": [["read me"]], "Data 2026": rows})
    with pytest.raises(TableError, match=r"\(--sheet\): Notes, Data 2026; found none"):
        check_table(path, "y")
    assert check_table(TableFile(path, sheet="Data 2026"), "y", unit="row").rows == 30
    assert main(["check", str(path), "--label", "y", "--sheet", "Data 2026"]) == 0
    assert "--sheet 'Data 2026'" in capsys.readouterr().out


@pytest.mark.parametrize("cells", [["a", 1], [1.5, dt.date(2026, 1, 31)], [True, 2]])
def test_cells_of_several_kinds_are_text(tmp_path, cells):
    """As they are shown: whole numbers without a point, dates in ISO, flags in small letters."""
    pytest.importorskip("python_calamine")
    write_excel(tmp_path / "t.xlsx", {"s": [["x", "y"], *([cell, "a"] for cell in cells * 15), [None, "b"]]})
    release_table(tmp_path / "t.xlsx", "y", Classes(["a", "b"]), 1.0, tmp_path / "o", keep=["x"], unit="row")
    shown = [str(each).lower() if isinstance(each, bool) else str(each) for each in cells]
    assert public_columns(tmp_path / "o")["x"].to_pylist() == [*shown * 15, None]


NEIGHBOURS = {
    "a class of text among numbers": ([1, 2, "unknown"], [1, 2, 2], "1,2,unknown"),
    "a number as text": ([0, 1, 1], [0, 1, "1"], "0,1"),
    "a flag as text": ([True, False, False], [True, False, "false"], "true,false"),
    "the only label": ([None, None, 2], [None, None, None], "1,2"),
    "a missing label": (["a", "b", "b"], ["a", None, "b"], "a,b"),
}


@pytest.mark.parametrize("case", NEIGHBOURS)
@pytest.mark.parametrize("alone", [True, False])
def test_no_single_label_of_a_workbook_decides_rows_or_types(tmp_path, capsys, case, alone):
    """Cells have types and columns have none, so labels are texts; a row without any value is a row."""
    pytest.importorskip("python_calamine")
    *tables, classes = NEIGHBOURS[case]
    shown = []
    for number, labels in enumerate(tables):
        path, out = tmp_path / f"{number}" / "t.xlsx", tmp_path / f"{number}" / "o"
        path.parent.mkdir()
        public = [[1.5], [None], [2.5]] if not alone else [[], [], []]
        rows = [[*beside, each] for beside, each in zip(public * 8, labels * 8, strict=True)]
        write_excel(path, {"s": [["x", "y"][alone:], *rows, [*[7.5][alone:], labels[0] or 1]]})
        told = ["--label", "y", "--classes", classes, "--missing", classes.split(",")[0], "--epsilon", "1", "--unit"]
        keep = ["row", "--keep", "none" if alone else "x", "--output", str(out)]
        code = main(["release", str(path), *told, *keep])
        table = pq.read_table(out / "data.parquet", partitioning=None)
        shown.append((code, capsys.readouterr().err.replace(str(path.parent), ""), table.num_rows, table.schema))
    assert shown[0] == shown[1]
    assert shown[0][2] == 25


def test_features_of_a_workbook_keep_their_types(tmp_path):
    """The first column that a model asks for is no label, and stays a number."""
    pytest.importorskip("python_calamine")
    found = next(some_columns(written(tmp_path / "t.xlsx"), {"age": pa.int64(), "dose": pa.float64()}))
    assert found.to_pydict() == {name: ROWS[name] for name in ("age", "dose")}


def excel_with(path, row):
    """A small workbook with one more row, in XML."""
    write_excel(path.with_name("small.xlsx"), {"s": [["x", "y"], [1, "a"], [2, "b"]]})
    with zipfile.ZipFile(path.with_name("small.xlsx")) as small, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as to:
        for name in small.namelist():
            to.writestr(name, small.read(name).replace(b"</sheetData>", row + b"</sheetData>"))


@pytest.mark.parametrize(("column", "row"), [("XFD", 1048576), ("ALL", 60000), ("xfd", 1048576), ("Z" * 99, 10**90)])
def test_a_cell_far_from_all_others_is_refused(tmp_path, column, row):
    """Its reader would hold all cells in between, and end the process where memory does not suffice."""
    pytest.importorskip("python_calamine")
    excel_with(tmp_path / "t.xlsx", f"<row r=\"{row}\"><c\tr = '{column}{row}'><v>1</v></c></row>".encode())
    with pytest.raises(TableError, match=r"a table without gaps in t\.xlsx, found a cell in row [0-9,]+ or column"):
        check_table(tmp_path / "t.xlsx", "y")


@pytest.mark.parametrize("cell", [b"nan", b"inf", b"-1e400"])
def test_numbers_that_are_none_are_no_error(tmp_path, cell):
    """No workbook of Excel has them, and other programs write some."""
    pytest.importorskip("python_calamine")
    excel_with(tmp_path / "t.xlsx", b"<row><c><v>" + cell + b'</v></c><c t="inlineStr"><is><t>a</t></is></c></row>')
    assert check_table(tmp_path / "t.xlsx", "y", unit="row").rows == 3


def test_a_workbook_that_grows_out_of_bounds_is_refused(tmp_path):
    """Parts that are packed thousands of times smaller than they are."""
    pytest.importorskip("python_calamine")
    excel_with(tmp_path / "t.xlsx", b"<row>" + b" " * (80 << 20) + b"</row>")
    with pytest.raises(TableError, match=r"expected parts of at most [0-9,]+ bytes in t\.xlsx"):
        check_table(tmp_path / "t.xlsx", "y")


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (['{"y": "a", "x": ' + "[" * 100_000 + "]" * 100_000 + "}"], "nested more than 64 deep"),
        (['{"y": "a", "x": ' + '{"]]]]":\n' * 100_000 + "1" + "}" * 100_000 + "}"], "nested more than 64 deep"),
        ([f'{{"y": "a", "x{number}" : 1}}' for number in range(4000)], "found 4,001 names in 4,000 rows"),
    ],
)
def test_json_of_few_bytes_takes_little_memory(tmp_path, rows, why):
    """Arrow ends the process over deep nesting, and holds a cell for each name in each row."""
    (tmp_path / "t.jsonl").write_text("\n".join(rows) + "\n")
    with pytest.raises(TableError, match=why):
        check_table(tmp_path / "t.jsonl", "y")


@pytest.mark.parametrize("packed", ["zstd", "lz4"])
def test_feather_of_few_bytes_takes_little_memory(tmp_path, packed):
    """Batches that are packed thousands of times smaller than they are; few or stored ones are read."""
    batch = pa.record_batch({"x": np.zeros(1 << 20), "y": pa.array(["a"] * (1 << 20)).dictionary_encode()})
    for name, packing, times in (("t.feather", packed, 8), ("few.feather", packed, 1), ("stored.arrow", None, 8)):
        options = pa.ipc.IpcWriteOptions(compression=packing)
        with pa.ipc.new_file(tmp_path / name, batch.schema, options=options) as file:
            for _ in range(times):
                file.write_batch(batch)
    with pytest.raises(TableError, match=r"expected far fewer values in t\.feather"):
        check_table(tmp_path / "t.feather", "y")
    assert check_table(tmp_path / "few.feather", "y", unit="row").rows == 1 << 20
    assert check_table(tmp_path / "stored.arrow", "y", unit="row").rows == 8 << 20


@pytest.mark.parametrize("kind", [pa.int8(), pa.null()])
def test_a_batch_that_is_listed_often_counts_each_time(tmp_path, kind):
    """A footer may list a batch without rows any number of times, each of which is an array for each column."""
    schema = pa.schema([pa.field(f"c{number}", kind) for number in range(500)])
    with pa.ipc.new_file(tmp_path / "t.feather", schema) as file:
        file.write_batch(pa.record_batch([pa.nulls(0, kind)] * 500, schema=schema))
    content, times = (tmp_path / "t.feather").read_bytes(), 5000
    (length,) = struct.unpack_from("<i", content, len(content) - 10)
    start = len(content) - 10 - length
    footer = bytearray(content[start : start + length])
    (root,) = struct.unpack_from("<I", footer)
    (offset,) = struct.unpack_from("<H", footer, root - struct.unpack_from("<i", footer, root)[0] + 4 + 2 * 3)
    place = root + offset
    listed = place + struct.unpack_from("<I", footer, place)[0] + 4
    block = bytes(footer[listed : listed + 24])
    footer += bytes(-(len(footer) + 4) % 8)
    struct.pack_into("<I", footer, place, len(footer) - place)
    footer += struct.pack("<I", times) + block * times
    forged = content[:start] + footer + struct.pack("<i", len(footer)) + content[-6:]
    (tmp_path / "t.feather").write_bytes(forged)
    with pytest.raises(TableError, match=r"expected far fewer values in t\.feather"):
        check_table(tmp_path / "t.feather", "c0")


def test_feather_of_version_1_is_refused(tmp_path):
    """Arrow, which no longer writes it, is about to stop reading it."""
    (tmp_path / "t.feather").write_bytes(b"FEA1" + bytes(60) + b"FEA1")
    with pytest.raises(TableError, match=r"expected Feather of version 2 in t\.feather, found version 1; save it as"):
        check_table(tmp_path / "t.feather", "y")


def test_feather_begins_as_arrow_says(tmp_path):
    """A file that only ends as one of Arrow is damaged, or another one."""
    written(tmp_path / "t.feather")
    (tmp_path / "t.feather").write_bytes(b"OTHER1" + (tmp_path / "t.feather").read_bytes()[6:])
    with pytest.raises(TableError, match=r"t\.feather cannot be read: it is cut off, damaged"):
        check_table(tmp_path / "t.feather", "y")


def test_no_damage_of_feather_is_an_error_without_a_sentence(tmp_path):
    """Whatever byte of it differs."""
    path, chance = written(tmp_path / "t.feather"), np.random.default_rng(0)
    content = path.read_bytes()
    for place in [*chance.integers(0, len(content), 150), *range(len(content) - 40, len(content))]:
        damaged = bytearray(content)
        damaged[place] ^= int(chance.integers(1, 256))
        path.write_bytes(damaged)
        with contextlib.suppress(LabelDPError):
            check_table(path, "y", unit="row")


@pytest.mark.parametrize("line", ["null", "[]", "1", '"a"', "true", "{}]"])
def test_lines_without_an_object_are_refused(tmp_path, line):
    """Arrow ends the process over a line of null."""
    for content in (line, f'{{"y": "a"}}\n{line}\n{{"y": "b"}}', f'{{"y": "a"}} {line}'):
        (tmp_path / "t.jsonl").write_text(content)
        with pytest.raises(TableError, match=r"an object in each line of t\.jsonl|t\.jsonl cannot be read"):
            check_table(tmp_path / "t.jsonl", "y")


def test_odd_json_is_read(tmp_path):
    """Quotes, brackets and backslashes in texts, and blanks before colons, are none of its structure."""
    texts = ['"', "\\", '\\"', "[" * 100, '{"a":' * 100, ":", "", "\\\\"] * 4
    lines = [json.dumps({"x": each, "y": "ab"[len(each) % 2]}).replace(": ", " : ") for each in texts]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    assert check_table(tmp_path / "t.jsonl", "y", unit="row").rows == len(texts)


@pytest.mark.parametrize("name", ["t.xlsx", "t.feather", "t.jsonl"])
def test_a_damaged_file_is_refused_without_its_values(tmp_path, name):
    """The message of another reader is not passed on."""
    if name == "t.xlsx":
        pytest.importorskip("python_calamine")
    (tmp_path / name).write_bytes(b'{"y": "SECRET", "age"')
    with pytest.raises(TableError, match=name) as refused:
        check_table(tmp_path / name, "y")
    assert "SECRET" not in str(refused.value)


def patients(rows=600):
    """Rows of a hospital, whose outcome follows from a number and a date."""
    chance = np.random.default_rng(0)
    days = [dt.date(2026, 1, 1) + dt.timedelta(int(chance.integers(180))) for _ in range(rows)]
    bmi = [round(float(chance.uniform(15.0, 45.0)), 1) for _ in range(rows)]
    late = [number + 10 * (day.month > 3) > 35 for number, day in zip(bmi, days, strict=True)]
    return {"bmi": bmi, "admitted": days, "outcome": ["Pflege" if each else "zu Hause" for each in late]}


def as_people_have_it(folder, kind):
    """The rows of patients in one of the forms that people have, and what is typed to read it."""
    table = patients()
    path, rows = folder / f"{kind}.csv", list(zip(*table.values(), strict=True))
    if kind == "workbook":
        pytest.importorskip("python_calamine")
        write_excel(folder / "t.xlsx", {"Tabelle1": [list(table), *rows]})
        return folder / "t.xlsx", []
    if kind == "clean":
        path.write_text("\n".join(",".join(map(str, row)) for row in [list(table), *rows]), "utf-8")
        return path, []
    german = [f"{str(bmi).replace('.', ',')};{day:%d.%m.%Y};{outcome}" for bmi, day, outcome in rows]
    path.write_text("\n".join([";".join(table), *german]), "cp1252")
    return path, ["--decimal", ",", "--dates", "dmy"]


@pytest.mark.parametrize("kind", ["clean", "semicolons", "workbook"])
def test_a_table_as_people_have_it_is_learned_from_as_a_clean_one(kind, tmp_path, capsys):
    """`check` says how it is read, and the model is as accurate: a number in text would be a category."""
    pytest.importorskip("sklearn")
    from labeldp.learning.tables import open_model  # noqa: PLC0415 (the learners are an extra)

    path, options = as_people_have_it(tmp_path, kind)
    main(["check", str(path), "--label", "outcome"])
    shown = capsys.readouterr().out
    assert all(each in shown for each in options)
    told = ["--label", "outcome", "--classes", "zu Hause,Pflege", "--epsilon", "16", "--unit", "row", *options]
    assert not main(["release", str(path), *told, "--keep", "bmi,admitted", "--output", str(tmp_path / "shared")])
    assert not main(["learn", str(tmp_path / "shared"), "--model", "softmax", "--output", str(tmp_path / "m")])
    model = open_model(tmp_path / "m")
    assert model.columns == {"bmi": "number", "admitted": "day"}
    table = patients()
    right = model.predict(pa.table(table)) == table["outcome"]
    assert right.mean() > 0.9
