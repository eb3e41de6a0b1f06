"""Planted labels: sound pipelines are not accused, leaking ones are, and the allowed chance is reached."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from labeldp import Classes, Curator, RandomizedResponse
from labeldp.audit import canary_memorisation, plant_canaries
from labeldp.audit.pipelines._canaries import Canaries
from labeldp.audit.pipelines._trade_off import largest_tail, uniform_curve
from labeldp.errors import InputError

SPACE = Classes(["a", "b", "c", "d"])


def scores_of(canaries, keep, rng):
    """Scores of a pipeline that keeps a planted label with some chance, and else prefers another one evenly."""
    other = (canaries.codes + rng.integers(1, 4, len(canaries))) % 4
    kept = rng.random(len(canaries)) < keep
    return np.eye(4)[np.where(kept, canaries.codes, other)]


def test_a_released_label_is_the_worst_that_is_allowed():
    """Scores read off labels released at epsilon 1 reach the allowed chance, within 6.2 standard errors (1e-9)."""
    canaries = plant_canaries(SPACE, 4000, 4000)
    labels = np.empty(4000, dtype=object)
    labels[canaries.rows] = canaries.labels
    release = Curator(labels.tolist(), SPACE).randomize(RandomizedResponse(SPACE, 1.0))
    found = canary_memorisation(canaries, release.likelihood()[canaries.rows], 1.0)
    allowed = math.e / (math.e + 3)
    assert found.allowed == pytest.approx(allowed)
    assert found.share == pytest.approx(allowed, abs=6.2 * math.sqrt(allowed * (1 - allowed) / 4000))
    assert found.by_chance == 0.25
    assert found.low < found.share < found.high


def test_sound_pipelines_are_seldom_accused():
    """Of 1000 runs that keep what is allowed, at most 41 are accused at a stated 1 % (a false alarm of 1e-12)."""
    rng = np.random.default_rng()
    accused = 0
    for _ in range(1000):
        canaries = plant_canaries(SPACE, 300, 200)
        accused += not canary_memorisation(canaries, scores_of(canaries, math.e / (math.e + 3), rng), 1.0).holds
    assert accused <= 41
    assert binom.sf(41, 1000, 0.01) < 1e-12


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-3), (1.0, 0.02), (2.0, 0.005)])
def test_hits_at_a_delta_are_bounded_for_those_who_use_it(epsilon, delta):
    """A pipeline that shows each label with probability delta, else as epsilon allows, is within the bound.

    So is one that shows all labels at once. At a delta of nearly 0 the bound is about that of a pure claim.
    """
    allowed = math.exp(epsilon) / (math.exp(epsilon) + 3)
    curve = uniform_curve(epsilon, delta, 4)
    for hits in range(1, 41):
        bound = largest_tail(curve, 40, hits)
        assert binom.sf(hits - 1, 40, delta + (1 - delta) * allowed) <= bound + 1e-12
        assert delta + (1 - delta) * binom.sf(hits - 1, 40, allowed) <= bound + 1e-12
        pure = binom.sf(hits - 1, 40, allowed)
        assert pure <= largest_tail(uniform_curve(epsilon, 1e-12, 4), 40, hits) + 1e-12
    assert largest_tail(uniform_curve(epsilon, 1e-12, 4), 40, 40) == pytest.approx(pure, rel=0.05, abs=1e-9)


def test_a_claim_with_a_delta_is_judged():
    """Labels released at epsilon 1 hold at that epsilon and delta 1e-6, and not at 0.2 (false alarm 1 %)."""
    canaries = plant_canaries(SPACE, 4000, 4000)
    labels = np.empty(4000, dtype=object)
    labels[canaries.rows] = canaries.labels
    scores = Curator(labels.tolist(), SPACE).randomize(RandomizedResponse(SPACE, 1.0)).likelihood()[canaries.rows]
    sound, small = (canary_memorisation(canaries, scores, each, delta=1e-6, confidence=0.9999) for each in (1.0, 0.2))
    assert (sound.holds, small.holds) == (True, False)
    assert sound.allowed == pytest.approx((math.e + 3e-6) / (math.e + 3), rel=1e-12)


def test_a_model_that_knows_nothing():
    """Equal scores are preferred by chance, rank last and expose nothing; even ranks expose what is said."""
    canaries = plant_canaries(SPACE, 5000, 4000)
    found = canary_memorisation(canaries, np.zeros((4000, 4)), 0.1)
    assert found.share == pytest.approx(0.25, abs=6.2 * math.sqrt(0.1875 / 4000))
    assert found.holds
    assert (found.ranks == 4).all()
    assert found.exposure == 0
    even = canary_memorisation(Canaries(SPACE, np.arange(4), np.arange(4)), [[4.0, 3.0, 2.0, 1.0]] * 4)
    assert even.ranks.tolist() == [1, 2, 3, 4]
    assert even.exposure == pytest.approx(even.exposure_by_chance)
    assert even.allowed is None
    assert even.holds
    assert str(even).endswith("by chance.")


def test_canaries_are_drawn_evenly():
    """Rows are different, and each class is planted as often as any other, within 6.2 standard errors (1e-8 in all)."""
    canaries = plant_canaries(SPACE, 10_000, 8000)
    assert len(set(canaries.rows.tolist())) == 8000
    assert canaries.rows.max() < 10_000
    counts = np.bincount(canaries.codes, minlength=4)
    assert np.abs(counts - 2000).max() <= 6.2 * math.sqrt(8000 * 0.1875)
    assert canaries.labels.tolist() == [SPACE.points[code] for code in canaries.codes]


@pytest.mark.parametrize(
    "make",
    [
        lambda canaries: canary_memorisation(canaries, np.ones((3, 4))),
        lambda canaries: canary_memorisation(canaries, np.full((5, 4), np.nan)),
        lambda canaries: canary_memorisation(canaries, np.ones((5, 4)), 0.0),
        lambda canaries: canary_memorisation(canaries, np.ones((5, 4)), math.nan),
        lambda canaries: canary_memorisation(canaries, np.ones((5, 4)), 1.0, delta=1.0),
        lambda canaries: canary_memorisation(canaries, np.ones((5, 4)), 1.0, confidence=1.0),
        lambda canaries: plant_canaries(canaries.space, 5, 6),
        lambda canaries: plant_canaries(canaries.space, 5, 0),
    ],
)
def test_bad_input_is_refused(make):
    """Scores of another shape, claims that are none, and more canaries than rows."""
    with pytest.raises(InputError, match=r"expected .* found"):
        make(plant_canaries(SPACE, 20, 5))
