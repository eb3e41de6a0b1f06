"""Tables as other programs write them: separators, encodings, and descriptions of files that are none."""

import gzip

import pyarrow.parquet as pq
import pytest

from labeldp import Classes, TableFile, release_table
from labeldp.errors import LabelDPError, TableError
from labeldp.release.tables import open_table

COLUMNS = ("plz", "farbe", "krank")
CLASSES = ("nein", "ja, sehr")
ROWS = [(f"0{1000 + row}", ("grün", "blau, hell")[row % 2], CLASSES[row % 3 == 0]) for row in range(30)]


def table(separator, encoding):
    """The table as a spreadsheet writes it."""
    quoted = [[f'"{cell}"' if separator in cell else cell for cell in row] for row in ROWS]
    return "".join(separator.join(line) + "\r\n" for line in (COLUMNS, *quoted)).encode(encoding)


def released(source, folder):
    """The released columns of a table."""
    release_table(source, "krank", Classes(CLASSES), 1.0, folder / "out", drop=[])
    return pq.read_table(folder / "out/data.parquet")


@pytest.mark.parametrize(("name", "separator"), [("t.csv", ","), ("t.csv", ";"), ("t.tsv", "\t"), ("t.csv.gz", "|")])
def test_the_first_line_shows_the_separator(tmp_path, name, separator):
    """Commas in values of a table with semicolons split nothing."""
    data = table(separator, "utf-8-sig")
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    found = released(tmp_path / name, tmp_path)
    assert found.column_names == ["plz", "farbe", "krank_released"]
    assert found["plz"].to_pylist() == [row[0] for row in ROWS]
    assert found["farbe"].to_pylist() == [row[1] for row in ROWS]
    assert set(found["krank_released"].to_pylist()) <= set(CLASSES)


@pytest.mark.parametrize("place", [0, 20])
def test_a_row_that_is_longer_than_the_first_block_is_read(tmp_path, place):
    """The first rows are read in small blocks, and in large ones where a row is longer, the first or a later one."""
    long = "x" * 3_000_000
    rows = [(long if row == place else plz, farbe, krank) for row, (plz, farbe, krank) in enumerate(ROWS)]
    lines = [";".join(line) for line in (COLUMNS, *rows)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    assert released(tmp_path / "t.csv", tmp_path)["plz"].to_pylist() == [row[0] for row in rows]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_an_encoding_is_named_and_never_guessed(tmp_path, encoding):
    """A guess would depend on the bytes of labels; the error names the option, and a table file has it."""
    (tmp_path / "t.csv").write_bytes(table("|", encoding))
    with pytest.raises(LabelDPError, match=r"--encoding cp1252|no column 'krank'"):
        released(tmp_path / "t.csv", tmp_path)
    found = released(TableFile(tmp_path / "t.csv", "|", encoding), tmp_path)
    assert found["farbe"].to_pylist() == [row[1] for row in ROWS]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"separator": ""}, "one character"),
        ({"separator": ";;"}, "one character"),
        ({"encoding": "latin1000"}, "such as utf-8, latin-1"),
        ({"encoding": "base64"}, "such as utf-8, latin-1"),
    ],
)
def test_what_describes_no_file_is_refused(options, wanted):
    """Before anything is opened."""
    with pytest.raises(TableError, match=wanted):
        TableFile("t.csv", **options)


# What is a table by its name, and first lines that name no columns.


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("README.md", "README.md beside them, a description; move it away"),
        ("Thumbs.db", "Thumbs.db beside them, a file of Windows; move it away"),
        ("schema.yaml", "schema.yaml beside them, settings or a description; move it away"),
        ("plot.png", "plot.png beside them, an image; move it away"),
        ("t.csv.bak", "t.csv.bak beside them, what a program left behind; move it away"),
        ("other.xyz", "other.xyz beside them, another file; move it away"),
        ("more.pq", "files of one format in .*, found csv and parquet"),
    ],
)
def test_what_lies_beside_tables_is_named(tmp_path, name, what):
    """As what it is, and not as a table that should be saved otherwise."""
    (tmp_path / "t.csv").write_text("age,y\n30,a\n", "utf-8")
    (tmp_path / name).touch()
    with pytest.raises(TableError, match=what):
        open_table(tmp_path, "y")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("sep=;\ny;age\na;30\n", "names a separator; remove that line"),
        (",,y,age\n0,0,a,30\n", "2 columns of .* have no name; name them in the first line"),
        ("30,a\n41,b\n", "found 2 values; add a line of names above it"),
        (",,41,b\n", "found 4 values; add a line of names above it"),
    ],
)
def test_a_first_line_that_names_no_columns_is_refused(tmp_path, text, what):
    """With what to do; values are not shown, since one may be a label."""
    (tmp_path / "t.csv").write_text(text, "utf-8")
    with pytest.raises(TableError, match=what) as refused:
        open_table(tmp_path / "t.csv", "y")
    assert ",41" not in str(refused.value)
