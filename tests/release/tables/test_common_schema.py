"""Folders whose files differ in the order or the types of their columns."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import Classes, check_table, release_table
from labeldp.errors import InputError
from labeldp.release import public_columns

LABELS = ["a", "b", "a"] * 9
#: The columns of a second file beside ``{"age": [1, 2, 3] * 9, "y": LABELS}``, and the ages of both files.
SECOND = {
    "nothing": ({"age": pa.nulls(27), "y": LABELS}, "int64", [1, None]),
    "floats": ({"age": [1.5, 2.5, 3.5] * 9, "y": LABELS}, "double", [1.0, 1.5]),
    "a smaller type": ({"age": pa.array([7, 2, 3] * 9, pa.int8()), "y": LABELS}, "int64", [1, 7]),
    "another order": ({"y": LABELS, "age": [7, 2, 3] * 9}, "int64", [1, 7]),
    "a dictionary": ({"age": pa.array([7, 2, 3] * 9).dictionary_encode(), "y": LABELS}, "int64", [1, 7]),
    "another label": ({"age": [7, 2, 3] * 9, "y": pa.array(LABELS).dictionary_encode()}, "int64", [1, 7]),
}


@pytest.fixture
def folder(tmp_path):
    """A function that writes a folder of two files, of which one is always the same."""

    def write(second, first=None):
        (tmp_path / "t").mkdir()
        pq.write_table(pa.table(first or {"age": [1, 2, 3] * 9, "y": LABELS}), tmp_path / "t" / "0.parquet")
        pq.write_table(pa.table(second), tmp_path / "t" / "1.parquet")
        return tmp_path / "t"

    return write


def released(path, keep):
    """The public columns of a release of a folder."""
    output = path.with_name("shared")
    release_table(path, "y", Classes(["a", "b"]), 1.0, output, keep=keep, unit="row")
    return public_columns(output)


@pytest.mark.parametrize("name", SECOND)
def test_files_of_one_kind_are_one_table(folder, name):
    """In the least type that holds the values of all; the values are those of the files."""
    second, kind, ages = SECOND[name]
    found = released(folder(second), ["age"])["age"]
    assert str(found.type) == kind
    assert found.take([0, 27]).to_pylist() == ages


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ({"age": ["x", "y", "z"] * 9, "y": LABELS}, "'age' as int64 in 0.parquet, string in 1.parquet"),
        ({"age": [[1], [2], [3]] * 9, "y": LABELS}, "'age' as int64 in 0.parquet, nested values in 1.parquet"),
        ({"old": [1, 2, 3] * 9, "y": LABELS}, "no column 'age' in 1.parquet, which 0.parquet has"),
    ],
)
def test_a_column_that_differs_in_kind_is_named_where_it_is_kept(folder, second, why):
    """With both types and files; a release without the column needs it of no kind, and the look says it too."""
    path = folder(
        second | {"city": ["x", "y", "z"] * 9}, {"age": [1, 2, 3] * 9, "city": ["x", "y", "z"] * 9, "y": LABELS}
    )
    for keep in (["age"], ["city", "age"]):
        with pytest.raises(InputError, match=why):
            released(path, keep)
    remarks = next(each.remarks for each in check_table(path, "y", unit="row").columns if each.name == "age")
    assert any(why in remark for remark in remarks)
    assert released(path, ["city"])["city"].to_pylist() == ["x", "y", "z"] * 18


def test_a_file_without_the_label_is_named(folder):
    """It, and one that has the label: nothing is called damaged."""
    path = folder({"age": [1, 2, 3] * 9}, {"age": [1, 2, 3] * 9, "y": LABELS})
    with pytest.raises(InputError, match=r"no column 'y' in 1\.parquet, which 0\.parquet has"):
        released(path, ["age"])


def test_csv_files_may_differ_in_the_order_of_their_columns(tmp_path):
    """Their columns are known by the names in the first lines."""
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "0.csv").write_text("age,y\n" + "30,a\n41,b\n" * 5, "utf-8")
    (tmp_path / "t" / "1.csv").write_text("y,age\n" + "a,52\nb,\n" * 5, "utf-8")
    assert released(tmp_path / "t", ["age"])["age"].to_pylist() == [30, 41] * 5 + [52, None] * 5
