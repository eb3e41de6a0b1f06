"""Tables as people have them are learned from as well as the clean ones: real figures of a clinic, in three forms.

At epsilon 40 a label changes once in 4e14 releases of these tables, so both forms have the same released labels.
"""

import datetime as dt
import runpy
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_breast_cancer

from labeldp.cli import main

#: Writes a workbook of Excel.
write_excel = runpy.run_path(str(Path(__file__).parents[1] / "workbooks.py"))["write_excel"]
FIGURES = load_breast_cancer()
NAMES = ["Radius", "Textur", "Umfang", "Fläche", "Glätte"]
CLASSES = ["bösartig", "gutartig"]
LABELS = [CLASSES[code] for code in FIGURES.target]
#: Every twentieth value is missing; areas are whole, so that some months hold no fraction.
VALUES = {
    name: [None if row % 20 == place else float(round(value, 0 if name == "Fläche" else 4)) for row, value in column]
    for place, name in enumerate(NAMES)
    if (column := list(enumerate(FIGURES.data[:, place])))
}
DAYS = [dt.date(2026, 1 + row * 3 // len(LABELS), 1 + row * 7 % 28) for row in range(len(LABELS))]
CLEAN = pa.table({**VALUES, "Aufnahme": DAYS, "Diagnose": LABELS})


def german(value):
    """A number or a day as a German spreadsheet writes it."""
    if value is None:
        return ""
    if isinstance(value, dt.date):
        return value.strftime("%d.%m.%Y")
    return f"{value:,.4f}".translate(str.maketrans(",.", ".,")) if isinstance(value, float) else value


def semicolons(folder):
    """A semicolon file of Windows: decimal commas, points between thousands, German days, gaps."""
    lines = [";".join(CLEAN.column_names), *(";".join(map(german, row.values())) for row in CLEAN.to_pylist())]
    path = folder / "Befunde.csv"
    path.write_text("\r\n".join(lines), "cp1252", newline="")
    return path, ["--encoding", "cp1252", "--decimal", ",", "--thousands", ".", "--dates", "dmy"]


def workbook(folder):
    """An Excel workbook, with the table in its second sheet."""
    pytest.importorskip("python_calamine")
    rows = [CLEAN.column_names, *(list(each.values()) for each in CLEAN.to_pylist())]
    write_excel(folder / "Befunde.xlsx", {"Notizen": [["Notizen"]], "Befunde": rows})
    return folder / "Befunde.xlsx", ["--sheet", "Befunde"]


def months(folder):
    """A folder of months in other orders and types: whole numbers, long texts, times, and columns that nobody uses."""
    (folder / "monate").mkdir()
    for month in (1, 2, 3):
        rows = CLEAN.filter(pa.array([day.month == month for day in DAYS]))
        if month == 1:
            rows = rows.set_column(3, "Fläche", rows["Fläche"].cast(pa.int32()))
        if month == 2:
            rows = rows.select(rows.column_names[::-1]).append_column("Notiz", pa.nulls(rows.num_rows, pa.string()))
            rows = rows.set_column(0, "Diagnose", rows["Diagnose"].cast(pa.large_string()).dictionary_encode())
        if month == 3:
            rows = rows.set_column(0, "Radius", rows["Radius"].cast(pa.float32()).cast(pa.float64()))
        pq.write_table(rows, folder / "monate" / f"2026-0{month}.parquet")
    return folder / "monate", []


def predicted(folder, table, options):
    """The predictions for a table of a model that was learned from its release at a high epsilon."""
    folder.mkdir()
    declared = ["--label", "Diagnose", "--classes", ",".join(CLASSES), "--unit", "row", "--epsilon", 40]
    kept = ["--keep", ",".join([*NAMES, "Aufnahme"]), "--output", folder / "shared"]
    for command in (
        ["release", table, *declared, *kept, *options],
        ["learn", folder / "shared", "--model", "softmax", "--output", folder / "m.safetensors"],
        ["predict", folder / "m.safetensors", table, "--output", folder / "p.csv", *options],
    ):
        assert main(list(map(str, command))) == 0
    return pa.csv.read_csv(folder / "p.csv")


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """The predictions of the model of the clean table."""
    folder = tmp_path_factory.mktemp("clean")
    pq.write_table(CLEAN, folder / "t.parquet")
    return predicted(folder / "learned", folder / "t.parquet", [])


@pytest.mark.parametrize("write", [semicolons, workbook, months])
def test_a_messy_table_gives_the_model_of_the_clean_one(tmp_path, clean, write):
    """Its probabilities are the same, and nine in ten of the true classes are predicted."""
    table, options = write(tmp_path)
    messy = predicted(tmp_path / "learned", table, options)
    name = f"Diagnose_probability_{CLASSES[0]}"
    np.testing.assert_allclose(messy[name], clean[name], rtol=0.0, atol=1e-5)
    assert np.mean(np.array(messy["Diagnose_predicted"]) == np.array(LABELS)) > 0.9
