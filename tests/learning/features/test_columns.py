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
    table = pa.table({"patient_nbr": np.arange(40) * 7 % 31, "age": np.arange(40) // 2, "site_id": np.arange(40) % 3})
    columns, left_out = columns_of(table, None, None)
    assert set(columns) == {"age", "site_id"}
    assert "identifier" in left_out["patient_nbr"]
    assert set(columns_of(table, ["patient_nbr"], None)[0]) == {"patient_nbr"}


@pytest.mark.parametrize("order", [np.arange(40), np.arange(60)[::-1] * 2 + 1000, np.arange(400) * 13])
def test_numbers_of_rows_are_left_out_unless_they_are_named(order):
    """Whole numbers without a repeat, so near each other that measurements would repeat, are no measurements."""
    table = pa.table({"case": order, "age": order % 37})
    columns, left_out = columns_of(table, None, None)
    assert set(columns) == {"age"}
    assert "all different" in left_out["case"]
    assert set(columns_of(table, ["case"], None)[0]) == {"case"}


def test_measurements_may_all_be_different():
    """Incomes in a wide range, numbers with a repeat, and few rows are features."""
    wide = np.random.default_rng(0).choice(100_000, 60, replace=False)
    table = pa.table({"income": wide, "visits": np.r_[np.arange(59), 3], "weight": np.arange(60) + 0.5})
    assert set(columns_of(table, None, None)[0]) == {"income", "visits", "weight"}
    assert set(columns_of(pa.table({"age": np.arange(18)}), None, None)[0]) == {"age"}
