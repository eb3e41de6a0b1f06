"""A model of one month on rows of another: days and counters are not extrapolated, and it says so."""

import warnings

import numpy as np
import pandas as pd
import pytest

from labeldp import Classes, release_table
from labeldp.learning.features import OutsideRangeWarning
from labeldp.learning.sklearn import AutoClassifier
from labeldp.learning.tables import learn, open_model
from labeldp.release import Release


def january(rows=3000):
    """Clicks of January, whose rate rises from day to day, and whether they were followed by a sale."""
    chance = np.random.default_rng(0)
    minutes = np.sort(chance.integers(0, 31 * 24 * 60, rows))
    time = pd.Timestamp("2026-01-01") + pd.to_timedelta(minutes, unit="m")
    rate = np.linspace(0.02, 0.3, rows)
    return pd.DataFrame({"click_time": time, "number": np.arange(rows), "price": chance.normal(size=rows)}), np.where(
        chance.random(rows) < rate, "yes", "no"
    )


@pytest.mark.parametrize("model", ["auto", "softmax"])
def test_the_mean_prediction_of_march_is_one_of_january(tmp_path, model):
    """Mean predictions of the same rows 59 days later are at most those of the last days, and rows are counted."""
    features, labels = january()
    features.assign(sale=labels).to_parquet(tmp_path / "clicks.parquet")
    release_table(
        tmp_path / "clicks.parquet", "sale", Classes(["no", "yes"]), 6.0, tmp_path / "shared", keep=list(features),
        unit="row", ledger=tmp_path / "ledger", budget=6.0,
    )  # fmt: skip
    learned = learn(tmp_path / "shared", model=model, features=list(features)).model
    opened = open_model(learned.save(tmp_path / "model.safetensors"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = opened.predict_proba(features)[:, 1]
    later = features.assign(click_time=features["click_time"] + pd.Timedelta(days=59), number=features["number"] + 9000)
    with pytest.warns(OutsideRangeWarning, match=r"3,000 rows .* 'click_time' \(3,000\), 'number' \(3,000\)"):
        after = opened.predict_proba(later)[:, 1]
    assert before[-300:].mean() - 0.1 < after.mean() < before[-300:].mean() + 0.1


def test_an_estimator_does_not_extrapolate_either():
    """Predictions beyond the last day are those of the last day."""
    features, labels = january(1000)
    frame = features.assign(click_time=features["click_time"].astype("int64") // 10**9)
    model = AutoClassifier().fit(frame, Release.public(labels, Classes(["no", "yes"])))
    last = frame.assign(click_time=frame["click_time"].max(), number=frame["number"].max())
    with pytest.warns(OutsideRangeWarning, match="1,000 rows"):
        found = model.predict_proba(last.assign(click_time=last["click_time"] * 2, number=10**9))
    np.testing.assert_array_equal(found, model.predict_proba(last))
