"""Tables as other programs write them: separators, encodings, spellings of classes, and files that are no tables."""

import gzip

import pyarrow.parquet as pq
import pytest

from labeldp import Classes, TableFile, release_table
from labeldp.errors import TableError

COLUMNS = ("plz", "farbe", "krank")
CLASSES = ("nein", "ja, sehr")
ROWS = [(f"0{1000 + row}", ("grün", "blau, hell")[row % 2], CLASSES[row % 3 == 0]) for row in range(30)]


def table(separator, encoding):
    """The table as a spreadsheet writes it."""
    quoted = [[f'"{cell}"' if separator in cell else cell for cell in row] for row in ROWS]
    return "".join(separator.join(line) + "\r\n" for line in (COLUMNS, *quoted)).encode(encoding)


def released(run, source, *options, classes='nein,"ja, sehr"'):
    """Release a table, and return what the command says and the released columns."""
    output = source.parent / "out"
    done = run(
        *("release", source, "--label", "krank", "--classes", classes, "--epsilon", 1, "--keep", "all"),
        *("--output", output, *options),
    )
    return done, pq.read_table(output / "data.parquet") if done.code == 0 else None


@pytest.mark.parametrize(("name", "separator"), [("t.csv", ","), ("t.csv", ";"), ("t.tsv", "\t"), ("t.csv.gz", "|")])
def test_the_first_line_shows_the_separator(run, tmp_path, name, separator):
    """Commas in values of a table with semicolons split nothing."""
    data = table(separator, "utf-8-sig")
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    _, found = released(run, tmp_path / name)
    assert found.column_names == ["plz", "farbe", "krank_released"]
    assert found["plz"].to_pylist() == [row[0] for row in ROWS]
    assert found["farbe"].to_pylist() == [row[1] for row in ROWS]
    assert set(found["krank_released"].to_pylist()) <= set(CLASSES)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_an_encoding_is_named_and_never_guessed(run, tmp_path, encoding):
    """A guess would depend on the bytes of labels; the error names the option."""
    (tmp_path / "t.csv").write_bytes(table(";", encoding))
    done, _ = released(run, tmp_path / "t.csv")
    assert done.code == 1
    assert "--encoding latin-1" in done.err or "no column 'krank'" in done.err
    _, found = released(run, tmp_path / "t.csv", "--encoding", encoding)
    assert found["farbe"].to_pylist() == [row[1] for row in ROWS]


def test_python_takes_the_same_files(tmp_path):
    """A table file stands wherever a path does."""
    (tmp_path / "t.csv").write_bytes(table("|", "latin-1"))
    file = TableFile(tmp_path / "t.csv", "|", "latin-1")
    release_table(file, "krank", Classes(CLASSES), 1.0, tmp_path / "out", keep=["farbe"])
    assert pq.read_table(tmp_path / "out/data.parquet")["farbe"].to_pylist() == [row[1] for row in ROWS]


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


def test_classes_come_from_a_code_book(run, tmp_path):
    """From a public column of another file, each once; a table, whose labels repeat, is no code book."""
    (tmp_path / "t.csv").write_bytes(table(";", "utf-8"))
    codes = 'code,text\n1,nein\n2,"ja, sehr"\n'
    (tmp_path / "codes.csv").write_text(codes, encoding="utf-8")
    _, found = released(run, tmp_path / "t.csv", classes=f"@{tmp_path}/codes.csv:text")
    assert set(found["krank_released"].to_pylist()) <= set(CLASSES)
    done, _ = released(run, tmp_path / "t.csv", classes=f"@{tmp_path}/codes.csv:texts")
    assert "expected a column 'texts'" in done.err
    (tmp_path / "copy.csv").write_bytes(table(",", "utf-8"))
    done, _ = released(run, tmp_path / "t.csv", classes=f"@{tmp_path}/copy.csv:krank")
    assert "each class once" in done.err


def test_public_tables_are_read_in_their_encoding_too(run, tmp_path):
    """A generator, and the truth of an audit, take a Latin-1 table with semicolons as a release does."""
    (tmp_path / "t.csv").write_bytes(table(";", "latin-1"))
    written = ("--encoding", "latin-1", "--separator", ";")
    labels = ("--label", "krank", "--labels-are-public")
    made = (
        "generator",
        tmp_path / "t.csv",
        *labels,
        "--classes",
        'nein,"ja, sehr"',
        "--keep",
        "farbe",
        "--model",
        "cells",
    )
    made = (*made, "--source", "a town", "--output", tmp_path / "made.generator")
    assert "--encoding latin-1" in run(*made).err
    done = run(*made, *written)
    assert (done.code, done.err) == (0, "")
    assert released(run, tmp_path / "t.csv", *written)[0].code == 0
    audited = ("audit", tmp_path / "out", "--truth", tmp_path / "t.csv", *labels)
    assert "check separators" in run(*audited, "--separator", ",").err
    assert run(*audited, *written).code == 0
