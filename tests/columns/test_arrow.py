"""Columns of Arrow as arrays of NumPy and back, beside pyarrow's own conversions."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from labeldp.columns import Columns, arrow, as_array, class_array
from labeldp.errors import InputError

NUMBERS = [pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64()]


@pytest.mark.parametrize("kind", [*NUMBERS, pa.bool_()])
def test_columns_become_the_arrays_of_pyarrow(kind):
    """Whole or cut, missing floats as NaN, and what is missing of others as 0."""
    for missing in (False, True):
        for low, size in ((0, 40), (3, 30), (9, 0)):
            values = pa.array([None if missing and place % 7 == 3 else place % 2 for place in range(40)]).cast(kind)
            column, found = values.slice(low, size), as_array(values.slice(low, size))
            zero = np.nan if pa.types.is_floating(kind) else kind.to_pandas_dtype()(0)
            expected = [zero if value is None else value for value in column.to_pylist()]
            assert found.dtype == kind.to_pandas_dtype()
            np.testing.assert_array_equal(found, np.array(expected, found.dtype))
            if not missing and not pa.types.is_boolean(kind):
                assert arrow(found).equals(column)


@pytest.mark.parametrize("values", [("a", "", "é" * 300), (3, -1, 1 << 62), (False, True), (0.5, -2.0, 1e300)])
def test_classes_become_the_arrays_of_pyarrow(values):
    """Texts, whole numbers, flags, and the points of a range."""
    assert class_array(values, pa.array(values).type).equals(pa.array(values))


NUMBERED = pd.DataFrame({0: [1, 2], "cut": pd.cut([1, 5], [0, 3, 10]), "gap": pd.array([1, None], dtype="Int64")})


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (NUMBERED, {"0": [1, 2], "cut": ["(0, 3]", "(3, 10]"], "gap": [1, None]}),
        (pd.DataFrame({"few": pd.arrays.SparseArray([0, 1])}), {"few": [0, 1]}),
        (pd.Series([1, 2], name="one"), {"one": [1, 2]}),
        (pd.DataFrame({"a": [1, 2]}, index=[7, 9]), {"a": [1, 2]}),
        ({"a": np.array([1, 2], ">i8"), "b": np.array(["x", np.nan], object)}, {"a": [1, 2], "b": ["x", None]}),
        (pa.table({"a": [1, 2]}), {"a": [1, 2]}),
        (pa.record_batch({"a": [1, 2]}), {"a": [1, 2]}),
        ({}, {}),
    ],
)
def test_tables_of_any_container_are_read_by_column(table, expected):
    """Frames, series, mappings and Arrow's own, with sparse, nullable and binned columns, and any names."""
    columns = Columns(table)
    assert columns.table().to_pydict() == expected
    assert columns.names == list(expected)
    assert len(columns) == columns.table([]).num_rows == (2 if expected else 0)


@pytest.mark.parametrize("library", ["polars", "polars lazy", "datasets", "duckdb"])
def test_tables_of_other_libraries_are_read_by_column(library):
    """Frames of polars, lazy ones too, data sets of Hugging Face, and what exports Arrow's stream."""
    made = pytest.importorskip(library.partition(" ")[0])
    make = {
        "polars": lambda: made.DataFrame({"a": [1, 2], "b": ["x", None]}),
        "polars lazy": lambda: made.LazyFrame({"a": [1, 2], "b": ["x", None]}),
        "datasets": lambda: made.Dataset.from_dict({"a": [2, 1], "b": [None, "x"]}).select([1, 0]),
        "duckdb": lambda: made.sql("select * from (values (1, 'x'), (2, null)) t(a, b)"),
    }
    columns = Columns(make[library]())
    assert columns.table().to_pydict() == {"a": [1, 2], "b": ["x", None]}
    assert (columns.names, len(columns), columns.table(["b"]).column_names) == (["a", "b"], 2, ["b"])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "expected one column 'a', found 2; rename them"),
        ({"a": [1, "x"]}, "expected values of one kind in the column 'a', found others (list);"),
        ({"a": [1], "b": [1, 2]}, "expected columns of one length, found several lengths"),
        (np.zeros((2, 2)), "expected a table such as a pandas or polars frame, .*, found ndarray"),
        ("table.csv", "expected a table such as a pandas or polars frame, .*, found str"),
    ],
)
def test_what_is_no_table_is_refused_in_words(table, message):
    """Two columns of one name, several kinds or lengths, and what has no columns."""
    with pytest.raises(InputError, match=message.replace("(", r"\(").replace(")", r"\)")) as caught:
        Columns(table).table()
    assert caught.value.__cause__ is caught.value.__context__ is None
