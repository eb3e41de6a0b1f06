"""What is a table by its name, and first lines that name no columns."""

import pytest

from labeldp.errors import TableError
from labeldp.release.tables import open_table


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
