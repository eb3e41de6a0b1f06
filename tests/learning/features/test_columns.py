"""Kinds of feature columns, and their values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from labeldp.learning.features import columns_of, frame_of


@pytest.mark.parametrize(
    "texts", [["39.9", "39.90", "7"], ["1e3", "+2.50", "-.5"], ["1.0", "", "NA"], ["2.5", None, "3"]]
)
def test_texts_of_numbers_are_numbers(texts):
    """A column of a CSV file in mixed spelling keeps its texts; a model takes them for numbers."""
    table = pa.table({"x": texts})
    columns, _ = columns_of(table, ["x"], None)
    values = frame_of(table, columns)["x"]
    assert columns == {"x": "number"}
    expected = [float(text) if text not in ("", "NA", None) else np.nan for text in texts]
    np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("texts", [["01000", "1.5"], ["1", "2", "30"], ["1.5", "x"], ["", "NA"], ["1,5", "2,5"]])
def test_texts_of_codes_are_categories(texts):
    """Leading zeros mean something, and whole numbers that are kept as text may be codes."""
    columns, _ = columns_of(pa.table({"x": texts}), ["x"], None)
    assert columns == {"x": "category"}


def test_texts_of_a_dictionary_are_numbers_too():
    """The type in which texts are stored does not matter."""
    table = pa.table({"x": pa.array(["1.5", "2", "2.50"]).dictionary_encode()})
    columns, _ = columns_of(table, ["x"], None)
    assert frame_of(table, columns)["x"].tolist() == [1.5, 2.0, 2.5]


def test_identifiers_are_left_out_unless_they_are_named():
    """The size of a patient's number says nothing of the next patient."""
    table = pa.table({"patient_nbr": np.arange(40) * 7 % 31, "age": np.arange(40), "site_id": np.arange(40) % 3})
    columns, left_out = columns_of(table, None, None)
    assert set(columns) == {"age", "site_id"}
    assert "identifier" in left_out["patient_nbr"]
    assert set(columns_of(table, ["patient_nbr"], None)[0]) == {"patient_nbr"}
