"""Tables as other programs write them: separators, encodings, and descriptions of files that are none."""

import gzip

import pyarrow.parquet as pq
import pytest

from labeldp import Classes, TableFile, release_table
from labeldp.errors import LabelDPError, TableError

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
