"""Kinds of feature columns, and their values."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import issparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from sklearn.tree import DecisionTreeClassifier

from labeldp import Classes, Curator
from labeldp.errors import InputError
from labeldp.learning.choice import Held
from labeldp.learning.features import (
    Bins,
    NumbersAsTextsWarning,
    OneHotCategories,
    OrdinalCategories,
    OutsideRangeWarning,
    SeenRanges,
    UnknownCategoryWarning,
    columns_of,
    frame_columns,
    frame_of,
    scaling_transformer,
    tree_transformer,
    without_calendar,
)
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn import BoostingClassifier


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


@pytest.mark.parametrize("texts", [["01000", "1.5"], ["1", "2", "30"], ["1.5", "x"], ["", "NA"], ["1,5", "x"]])
def test_texts_of_codes_are_categories(texts):
    """Leading zeros mean something, and whole numbers that are kept as text may be codes."""
    columns, _ = columns_of(pa.table({"x": texts}), ["x"], None)
    assert columns == {"x": "category"}


@pytest.mark.parametrize(
    ("texts", "looks"),
    [
        (["50,31", "7", "-0,5"], "a decimal comma"),
        (["12 %", "3\u202f%"], "a unit behind them"),
        (["1\u202f234,5", "2,0"], "a decimal comma, and blanks between thousands"),
        (["1.234,5", ""], "a decimal comma, and points between thousands"),
        (["1,000", "12,500", None], "commas in them"),
        (["3,5 €", "2 €"], "a decimal comma, and a unit behind them"),
    ],
)
def test_numbers_as_texts_are_categories_with_a_warning(texts, looks):
    """Whoever learns from the folder alone is told, by the name of the column."""
    with pytest.warns(NumbersAsTextsWarning, match=f"texts of 'x' look like numbers with {looks}, and are learned"):
        columns, _ = columns_of(pa.table({"x": texts}), ["x"], None)
    assert columns == {"x": "category"}


def test_texts_of_a_dictionary_are_numbers_too():
    """The type in which texts are stored does not matter."""
    table = pa.table({"x": pa.array(["1.5", "2", "2.50"]).dictionary_encode()})
    columns, _ = columns_of(table, ["x"], None)
    assert frame_of(table, columns)["x"].tolist() == [1.5, 2.0, 2.5]


@pytest.mark.parametrize(
    ("values", "known", "expected"),
    [
        ([True, False, None], ["False", "True"], ["True", "False", None]),
        ([True, False], ["FALSE", "TRUE", "NA"], ["TRUE", "FALSE"]),
        ([1000, 2139, 7], ["01000", "2139"], ["01000", "2139", "7"]),
        ([1000.0, 2139.0, np.nan], ["01000", "2139"], ["01000", "2139", None]),
        ([1000, 7], ["01000", "1000"], [None, "7"]),  # which of the two it was cannot be known
        ([dt.datetime(9999, 12, 31, 23)], ["soon"], ["9999-12-31 23:00:00.000000"]),
        ([dt.date(2026, 1, 31)], ["2026-01-31", "soon"], ["2026-01-31"]),
        (["1000", ""], ["01000"], ["1000", None]),  # a text is what it is
    ],
)
def test_values_that_are_no_text_are_spelled_as_a_model_knows_them(values, known, expected):
    """Other readers of a CSV file make flags and numbers of texts that a release kept."""
    frame = pd.DataFrame({"x": values})
    for form in (frame, frame.astype("category")):
        found = frame_of(pa.table(form), {"x": "category"}, {"x": known})
        assert [None if pd.isna(text) else text for text in found["x"]] == expected


@pytest.mark.parametrize(("rows", "warns"), [(19, False), (20, True)])
def test_a_column_of_unknown_categories_is_named(rows, warns, recwarn):
    """One new category is usual, nothing else in many rows is not; the message says how to read the file."""
    table = pa.table({"smoker": ["yes"] * rows})
    frame_of(table, {"smoker": "category"}, {"smoker": ["False", "True"]})
    assert len(recwarn) == warns
    for known in ({}, {"smoker": ["no", "yes"]}):
        frame_of(table, {"smoker": "category"}, known)
    frame_of(pa.table({"smoker": pa.nulls(rows, pa.string())}), {"smoker": "category"}, {"smoker": ["True"]})
    assert len(recwarn) == warns
    for each in recwarn:
        assert each.category is UnknownCategoryWarning
        assert "'smoker' that the model knows, such as 'False', 'True', found none in 20 rows" in str(each.message)
        assert "dtype=str" in str(each.message)


@pytest.mark.parametrize(("kind", "known"), [("flag", "true"), ("day", "2026-01-31"), ("instant", "2026-01-31 10:30")])
def test_texts_of_other_kinds_have_gaps(kind, known):
    """A frame that was read as text predicts as one with types."""
    found = frame_of(pa.table({"x": [known, ""]}), {"x": kind})["x"]
    assert np.isnan(found.to_numpy()).tolist() == [False, True]


def test_identifiers_are_left_out_unless_they_are_named():
    """The size of a patient's number says nothing of the next patient."""
    table = pa.table({"patient_nbr": np.arange(40) * 7 % 31, "age": np.arange(40) // 2, "site_id": np.arange(40) % 3})
    columns, left_out = columns_of(table, None, None)
    assert set(columns) == {"age", "site_id"}
    assert "identifier" in left_out["patient_nbr"]
    assert set(columns_of(table, ["patient_nbr"], None)[0]) == {"patient_nbr"}


def test_few_values_of_an_identifier_are_categories():
    """26 values in 13,001 rows are codes, each with more than 500 rows, and in 13,000 people; so are three in 40."""
    for rows, used in ((13_001, True), (13_000, False)):
        number = np.arange(rows)
        table = pa.table({"discharge_id": number % 26, "type_id": number % 3, "days": number % 14})
        columns, left_out = columns_of(table, None, None)
        codes = {"discharge_id": "category"} if used else {}
        assert columns == codes | {"type_id": "category", "days": "number"}
        assert ("discharge_id" in left_out) != used
    frame = frame_of(pa.table({"type_id": pa.array([10, 2, None])}), {"type_id": "category"}, {"type_id": ["2", "10"]})
    assert frame["type_id"].fillna("").tolist() == ["10", "2", ""]
    assert columns_of(table, ["type_id"], None)[0] == {"type_id": "number"}


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


def test_dates_and_times_are_days_months_weekdays_and_hours():
    """Of each row alone, missing ones too, in UTC where a time has a zone."""
    days = [dt.date(2024, 2, 29), None, dt.date(1969, 12, 31)]
    times = [dt.datetime(2024, 2, 29, 18, 30), dt.datetime(2024, 3, 1), None]
    zoned = pa.array(times, pa.timestamp("s")).cast(pa.timestamp("s", "UTC"))
    table = pa.table({"day": days, "seen": times, "zoned": zoned.cast(pa.timestamp("s", "Asia/Tokyo"))})
    columns, _ = columns_of(table, ["day", "seen", "zoned"], None)
    assert columns == {"day": "day", "seen": "instant", "zoned": "instant"}
    frame = frame_of(table, columns)
    assert list(frame) == list(frame_columns(columns))
    np.testing.assert_array_equal(frame["day"], [19782.0, np.nan, -1.0])
    assert frame["day month"].fillna("").tolist() == ["2", "", "12"]
    assert frame["day weekday"].fillna("").tolist() == ["3", "", "2"]  # a Thursday and a Wednesday, from Monday on
    np.testing.assert_allclose(frame["seen"], [19782.0 + 18.5 / 24, 19783.0, np.nan])
    np.testing.assert_array_equal(frame["seen hour"], [18.0, 0.0, np.nan])
    for part in ("", " month", " weekday", " hour"):
        assert frame[f"zoned{part}"].equals(frame[f"seen{part}"].rename(f"zoned{part}"))
    assert frame_of(table.slice(0, 1), columns).iloc[0].tolist() == frame.iloc[0].tolist()


def test_a_date_beside_a_column_of_its_months_is_a_number_alone():
    """The features of a date have names, which a column may have already; networks take a number, too."""
    table = pa.table({"day": [dt.date(2024, 2, 29)], "day month": ["February"]})
    columns, _ = columns_of(table, ["day", "day month"], None)
    assert columns == {"day": "date", "day month": "category"}
    assert frame_of(table, columns)["day"].tolist() == [19782.0]
    assert without_calendar({"a": "day", "b": "instant", "c": "flag"}) == {"a": "date", "b": "time", "c": "flag"}


def test_free_text_is_told_from_codes():
    """Codes may be named among the features; networks leave sentences out."""
    notes = [f"was seen on day {i}, came back" for i in range(30)]
    table = pa.table({"note": notes, "code": [f"x{i}" for i in range(30)], "age": [*range(10)] * 3})
    columns, left_out = columns_of(table, None, None)
    assert columns == {"note": "text", "age": "number"}
    assert "name it among the features" in left_out["code"]
    columns, left_out = columns_of(table, None, None, texts=False)
    assert columns == {"age": "number"}
    assert "it is free text, which networks do not read" in left_out["note"]


def test_names_of_images_are_no_features():
    """A column of them says how to learn from the images, and so does a release without columns."""
    table = pa.table({"file": ["1.png", "2.PNG", None, "1.png"], "kind": ["a.png", "b", "b", "b"]})
    columns, left_out = columns_of(table, None, None)
    assert set(columns) == {"kind"}
    assert "it names image files; to learn from these, pass --images FOLDER" in left_out["file"]
    with pytest.raises(InputError, match="the release kept none; for images pass --images"):
        columns_of(pa.table({}), None, None)


def test_models_learn_from_months_and_weekdays():
    """Whatever the family, the pipeline of a table tells summers and Sundays, which the number of days does not."""
    random = np.random.default_rng(0)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(0, 1461, 2000), unit="D")
    table = pa.table({"day": pa.array(days.date)})
    columns, _ = columns_of(table, None, None)
    frame = frame_of(table, columns)
    for labels in (days.month.isin([6, 7, 8]), days.day_of_week == 6):
        linear = make_pipeline(scaling_transformer(columns), LogisticRegression(max_iter=1000))
        trees = make_pipeline(tree_transformer(columns)[0], DecisionTreeClassifier(max_depth=14))
        for model in (linear, trees):
            assert model.fit(frame[:1500], labels[:1500]).score(frame[1500:], labels[1500:]) > 0.95


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([1 << 60, (1 << 60) + 1, 3], pa.int64()), [2.0**60, 2.0**60, 3.0]),
        (pa.array([(1 << 64) - 1, 5, 7], pa.uint64()), [2.0**64, 5.0, 7.0]),
        (pa.array([86_400 * 10**9 + 1, 0, None], pa.timestamp("ns")), [1.0, 0.0, np.nan]),
        (pa.array([253_402_214_400, 0, 86_400], pa.timestamp("s")), [2_932_896.0, 0.0, 1.0]),
        (pa.array(["2.5", "1e3", "7"], pa.string_view()), [2.5, 1000.0, 7.0]),
    ],
)
def test_a_column_that_arrow_cannot_convert_exactly_is_used(values, expected):
    """Whole numbers beyond 2**53, nanoseconds, the year 9999 and views of texts do not stop a fit."""
    table = pa.table({"x": values})
    columns, _ = columns_of(table, None, None)
    np.testing.assert_array_equal(frame_of(table, columns)["x"], expected)


@pytest.mark.parametrize(
    ("values", "why"),
    [([1.0, np.inf, 2.0], "infinite numbers"), ([1e308, -1e308, 0.0], r"numbers above 1e\+38")],
)
def test_a_column_that_no_model_can_compute_with_is_left_out(values, why):
    """It is left out with its reason beside others, and named where it is asked for."""
    table = pa.table({"x": values, "y": [1.0, 2.0, 3.0]})
    used, left_out = columns_of(table, None, None)
    assert list(used) == ["y"]
    assert why.replace("\\", "") in left_out["x"]
    with pytest.raises(InputError, match=f"in the feature 'x', found .*{why}"):
        columns_of(table, ["x"], None)


@pytest.mark.parametrize("rows", [3, 60, 4_000])
@pytest.mark.parametrize(
    ("kind", "plain", "settings"),
    [
        (OneHotCategories, OneHotEncoder, {"handle_unknown": "infrequent_if_exist", "min_frequency": 2}),
        (OrdinalCategories, OrdinalEncoder, {"handle_unknown": "use_encoded_value", "unknown_value": np.nan}),
    ],
    ids=["one-hot", "codes"],
)
def test_categories_of_few_rows_are_those_of_all(kind, plain, settings, rows):
    """Encoders see few rows of a table, and encode every row, later ones too, as scikit-learn's own encoders do."""
    chance = np.random.default_rng(rows)
    texts = np.array([f"t{place}" for place in range(2_000)] + [None], dtype=object)
    columns = {"many": texts[np.minimum(chance.geometric(0.01, rows) - 1, 2_000)], "few": texts[np.arange(rows) % 3]}
    frame = pd.DataFrame(columns | {"once": texts[-1 - np.arange(rows) % 2_001]})
    later = pd.DataFrame({name: chance.permutation(column) for name, column in frame.items()})
    for most in (3, 10_000):
        encoders = [each(max_categories=most, **settings).fit(frame) for each in (kind, plain)]
        for table in (frame, later):
            one, other = (each.transform(table) for each in encoders)
            np.testing.assert_array_equal(*(each.toarray() if issparse(each) else each for each in (one, other)))


# Values that a model has seen, beyond which it does not extrapolate.


def seen():
    """The ranges of a frame with numbers, gaps, months and names."""
    frame = pd.DataFrame(
        {"day": [10.0, np.nan, 30.0], "empty": [np.nan] * 3, "day month": ["1", "1", "2"], "city": ["a", "b", None]}
    )
    return SeenRanges.of(frame.astype({"day month": object}), ["day month"])


def test_values_stay_within_what_was_seen():
    """Numbers are cut to their range, months become the most common one, and gaps and other columns stay."""
    later = pd.DataFrame(
        {"day": [5.0, 20.0, 99.0, np.nan], "empty": [1.0] * 4, "day month": ["3", "2", None, "1"], "city": list("abcd")}
    )
    found = seen().within(later)
    np.testing.assert_array_equal(found["day"], [10.0, 20.0, 30.0, np.nan])
    assert found["day month"].tolist()[:2] == ["1", "2"]
    assert pd.isna(found["day month"][2])
    assert found["city"].tolist() == list("abcd")
    assert found["empty"].tolist() == [1.0] * 4


def test_many_rows_beyond_are_told_with_their_number():
    """A warning names the columns and the rows; a few rows beyond the ends are no reason for one."""
    many = pd.DataFrame({"day": np.arange(100.0), "empty": 0.0, "day month": "1"})
    with pytest.warns(OutsideRangeWarning, match=r"100 rows .* 'day' \(79\)"):
        seen().within(many)
    few = pd.DataFrame({"day": np.where(np.arange(100) < 5, 0.0, 20.0), "empty": 0.0, "day month": "1"})
    assert seen().within(few)["day"].min() == 10.0


def test_ranges_are_kept_as_plain_data():
    """What was written is read, and nothing else is."""
    columns = {"day": "day", "empty": "number", "city": "category"}
    assert SeenRanges.from_plain(seen().plain(), columns) == seen()
    assert SeenRanges.from_plain({}, columns) == SeenRanges()


@pytest.mark.parametrize(
    "odd",
    [
        {"day": [2.0, 1.0]},
        {"day": []},
        {"day": [1.0]},
        {"day": [1.0, 2.0, 3.0]},
        {"day": ["1", "2"]},
        {"day": "x"},
        {"day": {"x": 0}},
        {"day": [False, True]},
        {"day month": []},
        {"day month": "12"},
        {"day month": [1.0, 2.0]},
        {"city": ["a"]},
        {"city": [1.0, 2.0]},
        {"another": [1.0, 2.0]},
    ],
)
def test_ranges_are_those_of_their_columns(odd):
    """Texts in place of numbers would fail at the first row beyond them, long after the file was opened."""
    with pytest.raises(ValueError, match="no ranges of columns"):
        SeenRanges.from_plain(odd, {"day": "day", "city": "category"})


# Bins of columns, one byte a value.


def test_few_values_are_their_own_bins():
    """Columns of at most 254 values, and categories, come back as they were, and missing ones as missing."""
    chance = np.random.default_rng(0)
    points = np.column_stack([chance.integers(0, 254, 5000) / 7.0, chance.integers(0, 200, 5000)]).astype(float)
    points[::17, 0] = np.nan
    bins = Bins.of(points, [1])
    assert bins.codes(points).dtype == np.uint8
    np.testing.assert_allclose(bins.points(bins.codes(points)), points, rtol=1e-12)


def test_many_values_are_near_those_of_their_bins():
    """A value is within its bin, and bins hold about equally many rows; values beyond the sample are in the last."""
    points = np.random.default_rng(1).normal(size=(20_000, 1))
    bins = Bins.of(points, [])
    codes = bins.codes(points)
    sizes = np.bincount(codes[:, 0])
    assert len(sizes) == 254
    assert sizes.max() < 2 * 20_000 / 254
    assert np.abs(bins.points(codes) - points).mean() < 0.01
    assert bins.codes(np.array([[99.0], [-99.0]])).tolist() == [[253], [0]]


def test_a_constant_column_is_one_bin():
    """One value, or none, has one bin."""
    points = np.array([[3.0, np.nan]] * 5)
    bins = Bins.of(points, [])
    np.testing.assert_array_equal(bins.points(bins.codes(points)), points)


def test_boosting_on_bins_is_boosting_on_their_values():
    """A fit to bins has the trees of a fit to the values, and both stop where other rows say."""
    pytest.importorskip("lightgbm")
    chance = np.random.default_rng(2)
    points = np.column_stack([chance.integers(0, 50, 6000), chance.integers(0, 5, 6000)]).astype(float)
    labels = np.where((points[:, 0] > 20) ^ (points[:, 1] == 2), "yes", "no")
    release = Curator(labels, Classes(["no", "yes"])).randomize(epsilon=2.0)
    bins, fit, held = Bins.of(points, [1]), np.arange(4500), np.arange(4500, 6000)
    judges = Held.of(points, release, Units.of("rows", 6000), held)
    model = BoostingClassifier(categorical=[1]).fit_bins(bins, bins.codes(points)[fit], release[fit], judges)
    assert 0 < model.rounds_ <= 300
    path = BoostingClassifier(categorical=[1])
    same = path.path(points[fit], release[fit], judges)
    setting = 301 + model.rounds_  # the second number of leaves
    np.testing.assert_allclose(same.predict(setting), model.predict_proba(points[held]), atol=1e-9)
    assert (model.predict(points[held]) == labels[held]).mean() > 0.95
