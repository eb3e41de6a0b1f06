"""The curators beside which released outcomes are measured have the noise that their guarantee takes."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

EXPERIMENTS = Path(__file__).parent.parent / "experiments"


@pytest.fixture
def curators(monkeypatch):
    """The module of the experiment."""
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import _effect_curators  # noqa: PLC0415 (it lies beside the experiments)

    return _effect_curators


def table(rows=300):
    """Features, treatments and outcomes."""
    rng = np.random.default_rng(0)
    features = pd.DataFrame({"age": rng.normal(size=rows), "ward": rng.choice(list("abc"), rows)})
    treated = rng.random(rows) < 1 / (1 + np.exp(-features["age"].to_numpy()))
    return features, treated, (rng.random(rows) < 0.4).astype(float)


@pytest.mark.parametrize("row", [0, 7, 250])
def test_an_outcome_moves_the_effect_by_its_slope(curators, row):
    """Folds, models and weights included: the noise is for the largest of all slopes."""
    features, treated, outcomes = table()
    other = outcomes.copy()
    other[row] = 1.0 - other[row]
    one, two = (curators.Scores(features, treated, each, np.random.default_rng(3)) for each in (outcomes, other))
    moved = two.values.mean() - one.values.mean()
    assert moved == pytest.approx((other[row] - outcomes[row]) * one.slopes[row], rel=1e-9)
    assert one.values.mean() == pytest.approx(one.slopes @ outcomes, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_gaussian_noise_has_the_delta_that_was_asked_for(curators, epsilon):
    """By the likelihood ratio of the two answers, integrated on a grid."""
    delta, spread = 1e-5, curators.deviation(epsilon, 1e-5)
    x = np.linspace(-12 * spread, 12 * spread + 1, 2_000_001)
    near, far = (np.exp(-0.5 * ((x - at) / spread) ** 2) / spread / np.sqrt(2 * np.pi) for at in (1.0, 0.0))
    excess = np.maximum(near - np.exp(epsilon) * far, 0.0).sum() * (x[1] - x[0])
    assert excess == pytest.approx(delta, rel=1e-3)


@pytest.mark.parametrize("name", ["curator, outcomes", "curator, rows"])
def test_curators_intervals_hold_the_true_effect_of_nothing(curators, name):
    """Of 60 tables without an effect at least 50: of right intervals fewer hold it once in 5,000 runs."""
    rng, held = np.random.default_rng(1), 0
    for _ in range(60):
        features = pd.DataFrame({"age": rng.normal(size=400)})
        treated, outcomes = rng.random(400) < 0.5, (rng.random(400) < 0.3).astype(float)
        scores = curators.Scores(features, treated, outcomes, rng)
        value, reach = curators.CURATORS[name](scores, 0.0, 1.0, 1.0, rng)
        held += abs(value) <= reach
    assert held >= 50
