"""Encoders of rows for networks, and their form in a file."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from labeldp.errors import InputError
from labeldp.learning.features import (
    ColumnEncoder,
    PairEncoder,
    PixelEncoder,
    encoder_from,
    frame_of,
    scaling_transformer,
)

KINDS = {"age": "number", "smokes": "flag", "seen": "date", "town": "category"}


def rows(count, seed=0, gaps=True):
    """A table of numbers, flags, dates and texts, with gaps in the numbers and the texts."""
    random = np.random.default_rng(seed)
    age = random.normal(50, 10, count)
    town = random.choice(np.array(["north", "south", "east"], dtype=object), count, p=[0.5, 0.3, 0.2])
    if gaps:
        age[random.random(count) < 0.2] = np.nan
        town[random.random(count) < 0.2] = None
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 99, count), unit="D")
    frame = {"age": age, "smokes": random.random(count) < 0.3, "seen": days.date, "town": town}
    return frame_of(pa.table(frame), KINDS)


def test_columns_become_what_scikit_learn_makes_of_them():
    """Numbers as an imputer, an indicator of gaps and a scaler give them, and one number for each text."""
    frame = rows(300)
    ours = ColumnEncoder.of(frame, KINDS).features(frame, None)
    theirs = scaling_transformer(KINDS).fit_transform(frame)
    theirs = np.asarray(theirs.todense() if hasattr(theirs, "todense") else theirs)
    numbers = np.stack([ours[:, i] for i in (0, 2, 3)], axis=1)  # theirs has the indicator of gaps at the end
    np.testing.assert_allclose(numbers, theirs[:, :3], atol=1e-5)
    np.testing.assert_array_equal(ours[:, 1] == 1, theirs[:, 3] > 0)
    texts = ["", "east", "north", "south"]
    assert ColumnEncoder.of(frame, KINDS).texts == {"town": tuple(texts)}
    found = ["" if pd.isna(town) else town for town in frame["town"]]
    np.testing.assert_array_equal(ours[:, 4:8], np.array([[town == text for text in texts] for town in found]))
    np.testing.assert_array_equal(ours[:, 8], 0)


def test_rows_that_were_not_seen_are_encoded():
    """New texts share a number of their own, and gaps where there were none become the median."""
    encoder = ColumnEncoder.of(rows(200, gaps=False), KINDS)
    frame = rows(4, seed=1)
    frame["town"] = ["west", None, "north", "far"]
    frame.loc[0, "age"] = np.nan
    found = encoder.features(frame, None)
    assert found.shape[1] == encoder.sizes["features"] == 3 + 3 + 1
    assert found[:, -1].tolist() == [1, 1, 0, 1]
    scale = encoder.scales["age"]
    assert found[0, 0] == pytest.approx((scale.median - scale.mean) / scale.deviation, abs=1e-6)


def test_rare_texts_count_as_one():
    """Only the commonest have a number, and which are common does not depend on the order of rows."""
    texts = [f"t{i:03}" for i in range(250)] + ["often"] * 5
    frames = [pd.DataFrame({"town": np.array(each, dtype=object)}) for each in (texts, texts[::-1])]
    one, two = (ColumnEncoder.of(frame, {"town": "category"}) for frame in frames)
    assert one == two
    assert len(one.texts["town"]) == 199
    assert "often" in one.texts["town"]
    assert one.features(frames[0], None)[:, -1].sum() == 52


def test_constant_columns_are_not_divided_by_nothing():
    """A column of one value, or of none, gives zeros."""
    frame = pd.DataFrame({"one": [3.0, 3.0], "none": [np.nan, np.nan]})
    found = ColumnEncoder.of(frame, {"one": "number", "none": "number"}).features(frame, None)
    np.testing.assert_array_equal(found, [[0, 0, 1], [0, 0, 1]])


def test_users_and_items_have_numbers_from_one():
    """In the order of their values; 0 stands for what was never seen, or is missing."""
    frame = pd.DataFrame({"who": [7.0, 3.0, 7.0], "what": ["b", "a", "c"]})
    encoder = PairEncoder.of(frame, {"who": "number", "what": "category"})
    assert encoder.sizes == {"users": 3, "items": 4}
    np.testing.assert_array_equal(encoder.features(frame, None), [[2, 2], [1, 1], [2, 3]])
    new = pd.DataFrame({"who": [3.0, 4.0, np.nan], "what": ["z", "a", None]})
    np.testing.assert_array_equal(encoder.features(new, None), [[1, 0], [0, 1], [0, 0]])


def test_pairs_are_two_columns():
    """One column, or three, are no pair."""
    with pytest.raises(InputError, match="two columns for ratings"):
        PairEncoder.of(pd.DataFrame({"who": [1.0]}), {"who": "number"})


def test_images_are_described_by_their_channels():
    """Mean and deviation of each channel over all points, whatever pieces they are read in; black alone has none."""
    pixels = np.random.default_rng(0).integers(0, 256, (5000, 2, 3, 4), dtype=np.uint8)
    pixels[:, 1] = 0
    found = PixelEncoder.of(pixels)
    assert found.shape == (2, 3, 4)
    assert found.mean[0] == pytest.approx(pixels[:, 0].mean() / 255)
    assert found.deviation[0] == pytest.approx((pixels[:, 0] / 255).std())
    assert (found.mean[1], found.deviation[1]) == (0.0, 1.0)
    assert found.features(pd.DataFrame(), pixels) is pixels


def test_what_does_not_belong_to_a_model_is_refused():
    """Images for columns, none for images, and images of another size."""
    frame = rows(5)
    with pytest.raises(InputError, match="no images for a model of columns"):
        ColumnEncoder.of(frame, KINDS).features(frame, np.zeros((5, 1, 2, 2), dtype=np.uint8))
    images = PixelEncoder.of(np.ones((1, 1, 2, 2), dtype=np.uint8))
    with pytest.raises(InputError, match="found none; pass what read_images read, on the command line --images"):
        images.features(frame, None)
    with pytest.raises(InputError, match=r"found \(1, 2, 3\)"):
        images.features(frame, np.zeros((5, 1, 2, 3), dtype=np.uint8))


def encoders():
    """One of each kind."""
    frame, pairs = rows(50), pd.DataFrame({"who": [7.0, 3.5], "what": ["b", "a"]})
    return {
        "columns": ColumnEncoder.of(frame, KINDS),
        "pairs": PairEncoder.of(pairs, {"who": "number", "what": "category"}),
        "images": PixelEncoder.of(np.ones((1, 1, 2, 2), dtype=np.uint8)),
    }


@pytest.mark.parametrize("kind", encoders())
def test_plain_data_gives_the_same_encoder(kind):
    """Through JSON and back; it is equal, and says the same."""
    encoder = encoders()[kind]
    plain = json.loads(json.dumps(encoder.plain()))
    assert plain["kind"] == kind
    found = encoder_from(plain)
    assert type(found) is type(encoder)
    assert found.plain() == encoder.plain()
    assert (found.columns, found.sizes, found.inputs) == (encoder.columns, encoder.sizes, encoder.inputs)


def column(**change):
    """A column of numbers as plain data, with something changed."""
    return {"kind": "columns", "columns": [{"name": "a", "kind": "number", "median": 0.0, "mean": 0.0,
                                            "deviation": 1.0, "gaps": False} | change]}  # fmt: skip


def image(**change):
    """Images as plain data, with something changed."""
    return {"kind": "images", "channels": 1, "height": 2, "width": 2, "mean": [0.5], "deviation": [1.0]} | change


def pair(**change):
    """Pairs as plain data, with something changed."""
    columns = [{"name": "who", "kind": "number"}, {"name": "what", "kind": "category"}]
    return {"kind": "pairs", "columns": columns, "users": [1.0], "items": ["a"]} | change


BAD = {
    "no kind": {},
    "another kind": {"kind": "sounds"},
    "no columns": {"kind": "columns", "columns": []},
    "a column of no kind": column(kind="colour"),
    "a column of another kind": column(kind="category"),
    "a deviation of nothing": column(deviation=0.0),
    "a deviation that is none": column(deviation=float("nan")),
    "a mean that is text": column(mean="0"),
    "gaps that are numbers": column(gaps=1),
    "more than a column has": column(more=1),
    "a name that is none": column(name=3),
    "a column twice": {"kind": "columns", "columns": column()["columns"] * 2},
    "texts that are numbers": {"kind": "columns", "columns": [{"name": "a", "kind": "category", "texts": [1]}]},
    "a text twice": {"kind": "columns", "columns": [{"name": "a", "kind": "category", "texts": ["x", "x"]}]},
    "more texts than there can be": {
        "kind": "columns",
        "columns": [{"name": "a", "kind": "category", "texts": [str(i) for i in range(201)]}],
    },
    "no size": image(height=0),
    "a size that is no whole number": image(height=2.0),
    "a size that is true": image(height=True),
    "a mean too many": image(mean=[0.5, 0.5]),
    "an endless mean": image(mean=[float("inf")]),
    "a negative deviation": image(deviation=[-1.0]),
    "more than images have": image(more=1),
    "three columns for a pair": pair(columns=[{"name": name, "kind": "number"} for name in "abc"]),
    "a user twice": pair(users=[1.0, 1.0]),
    "a user that is text": pair(users=["1"]),
    "an item that is a number": pair(items=[1.0]),
    "more than pairs have": pair(more=1),
}


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("case", BAD)
def test_plain_data_that_no_encoder_writes_is_refused(case):
    """By an error that the reader of a file expects, whatever is wrong with it."""
    for good in (column(), image(), pair()):
        encoder_from(good)
    with pytest.raises((ValueError, LookupError, TypeError)):
        encoder_from(BAD[case])
