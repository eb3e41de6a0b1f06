"""Columns of Arrow as arrays of NumPy and back, beside pyarrow's own conversions."""

import numpy as np
import pyarrow as pa
import pytest

from labeldp._arrow import arrow, as_array, class_array

NUMBERS = [pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64()]


@pytest.mark.parametrize("kind", [*NUMBERS, pa.bool_()])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(("low", "size"), [(0, 40), (3, 30), (9, 0)])
def test_columns_become_the_arrays_of_pyarrow(kind, missing, low, size):
    """Whole or cut, missing floats as NaN, and what is missing of others as 0."""
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
