"""Audits of whole pipelines with one run: leaks are shown, sound ones are not accused."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from labeldp import Classes, Curator, LabelMoments, RandomizedResponse
from labeldp.audit import PlantedPairs, audit_pipeline
from labeldp.audit.pipelines._trade_off import least_epsilon
from labeldp.errors import EpsilonError, InputError

RNG = np.random.default_rng()
SPACE = Classes(["no", "maybe", "yes"])
CANARIES = np.arange(0, 4_000, 2)
LABELS = ["yes"] * 4_000
SURE = 1 - 1e-9


def randomized(epsilon):
    """A pipeline that releases labels by a curator, and a guess that takes them for the truth."""

    def pipeline(labels):
        return Curator(labels, SPACE).randomize(RandomizedResponse(SPACE, epsilon=epsilon)).codes

    return pipeline


def by_released(codes):
    """The first two classes as they were released; nothing is guessed from the third."""
    return np.array([1.0, -1.0, 0.0])[codes[CANARIES]]


def test_a_sound_pipeline_is_not_accused_and_much_of_it_is_shown():
    """Randomized response at its own epsilon holds (false alarm 1e-9), and most of it is shown in one run."""
    found = audit_pipeline(randomized(1.0), PlantedPairs(LABELS, SPACE, CANARIES), by_released, 1.0, confidence=SURE)
    assert found.holds
    assert found.lower > 0.5
    assert (found.method, found.draws, found.upper) == ("one run", 2_000, None)


def test_a_pipeline_that_claims_half_is_caught():
    """A claim of half of the epsilon is refuted."""
    assert not audit_pipeline(
        randomized(2.0), PlantedPairs(LABELS, SPACE, CANARIES), by_released, 1.0, confidence=SURE
    ).holds


def test_training_twice_on_fresh_noise_is_caught():
    """A model of 30 epochs with labels drawn again for each is no release at that epsilon: the mean gives them away."""

    def epochs(labels):
        return np.mean([np.eye(3)[randomized(1.0)(labels)] for _ in range(30)], axis=0)

    found = audit_pipeline(
        epochs,
        PlantedPairs(LABELS, SPACE, CANARIES),
        lambda means: means[CANARIES, 0] - means[CANARIES, 1],
        1.0,
        confidence=SURE,
    )
    assert not found.holds
    assert found.lower > 3


def test_rows_that_stay_raw_are_found_by_the_surest_guesses():
    """One raw row in fifty is found where guesses are surest, and not among all of them."""
    raw = CANARIES[::25]

    def leaking(labels):
        scores = np.random.default_rng().normal(size=len(labels)) * 1e-3
        scores[raw] = [1.0 if labels[row] == "no" else -1.0 for row in raw]
        return scores

    found = audit_pipeline(leaking, PlantedPairs(LABELS, SPACE, CANARIES), lambda s: s[CANARIES], 1.0, confidence=SURE)
    everything = audit_pipeline(
        leaking, PlantedPairs(LABELS, SPACE, CANARIES), lambda s: s[CANARIES], 1.0, confidence=SURE, shares=[1.0]
    )
    assert not audit_pipeline(
        leaking, PlantedPairs(LABELS, SPACE, CANARIES), lambda s: s[CANARIES], 1.0, confidence=SURE, shares=[0.04]
    ).holds
    assert found.lower > everything.lower


@pytest.mark.usefixtures("as_users_call")
def test_sound_pipelines_are_accused_no_more_often_than_stated():
    """Of 1 000 audits at confidence 0.9 with three looks, fewer are wrong than a rate of 0.1 allows (chance 1e-9).

    The claim is the pipeline's own, guesses are the best there are, and a look may choose among them by their scores.
    """
    keep, rows, labels = math.e / (1 + math.e), np.arange(120), ["no"] * 120
    space = Classes(["no", "yes"])

    def pipeline(planted):
        truth = np.array([label == "no" for label in planted])
        return np.where(RNG.random(120) < keep, truth, ~truth)

    def guess(output):
        return np.where(output, 1.0, -1.0) * RNG.random(120)

    accused = sum(
        not audit_pipeline(pipeline, PlantedPairs(labels, space, rows), guess, 1.0, confidence=0.9).holds
        for _ in range(1_000)
    )
    assert accused <= 160  # of 1 000 at 0.1 each, more have a probability of 1e-9


def least_accused(canaries, epsilon, delta, level):
    """The least number of right guesses that shows more than epsilon; one more than all if none does."""
    shown = (least_epsilon("any", canaries, canaries, hits, delta, level) for hits in range(canaries + 1))
    return next((hits for hits, lower in enumerate(shown) if lower > epsilon), canaries + 1)


@pytest.mark.parametrize("canaries", [10, 20, 40])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 0.001), (1.0, 0.003), (2.0, 0.005)])
def test_failures_of_delta_are_paid_for(canaries, epsilon, delta):
    """The chance of an accusation, enumerated for two pipelines that use all of delta, is within the stated one.

    One shows each canary's bit with probability delta, and flips it as epsilon allows otherwise. The other flips bits,
    and spends the last canary's delta where exactly one right guess is missing. Without the correction the first is
    accused too often.
    """
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    hits = next(h for h in range(canaries + 1) if binom.sf(h - 1, canaries, p) < 0.5)
    stated = float(binom.sf(hits - 1, canaries, p)) * (1 + 1e-6)  # where a bound for delta 0 has no slack
    least = least_accused(canaries, epsilon, delta, stated)
    missing = binom.pmf(least - 1, canaries - 1, p)
    assert binom.sf(least - 1, canaries, delta + (1 - delta) * p) <= stated
    assert binom.sf(least - 1, canaries, p) + (1 - p) * min(missing, delta) <= stated
    unpaid = least_accused(canaries, epsilon, 0.0, stated)
    assert binom.sf(unpaid - 1, canaries, delta + (1 - delta) * p) > stated


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(("claim", "holds"), [(8.0, True), (1.0, False)])
def test_noisy_moments_are_audited_with_their_delta(claim, holds):
    """Sums with Gaussian noise at epsilon 8 hold at their own claim, and are refuted at an eighth of it."""
    space, rows = Classes(["no", "yes"]), np.arange(500)

    def moments(labels):
        return Curator(labels, space).answer(LabelMoments(space, 8.0, 1e-6, np.eye(500))).value

    planted = PlantedPairs(["no"] * 500, space, rows)
    found = audit_pipeline(moments, planted, lambda sums: sums[:, 0] - sums[:, 1], claim, delta=1e-6)
    assert (found.holds, found.delta) == (holds, 1e-6)


def test_labels_of_the_canaries_are_one_of_two():
    """Canaries are given their pair's labels by coins, about half each (false alarm 1e-9), and no other row changes."""
    seen = []
    pairs = [("maybe", "yes")] * len(CANARIES)
    nothing = np.zeros(len(CANARIES))
    audit_pipeline(seen.append, PlantedPairs(LABELS, SPACE, CANARIES, pairs=pairs), lambda _: nothing, 1.0)
    planted = np.array(seen[0])
    assert set(planted[CANARIES]) == {"maybe", "yes"}
    assert abs((planted[CANARIES] == "maybe").mean() - 0.5) < 0.07
    assert (np.delete(planted, CANARIES) == "yes").all()
    assert LABELS == ["yes"] * 4_000


def test_nothing_is_shown_where_nothing_is_guessed():
    """Scores of zero are no guesses, and show nothing."""
    found = audit_pipeline(lambda labels: labels, PlantedPairs(LABELS, SPACE, CANARIES), lambda _: np.zeros(2_000), 1.0)
    assert found.lower == 0.0
    assert found.holds


def boom(_):
    """Fails and says a label."""
    raise KeyError("zq-secret")


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"delta": 0.01}, "delta well below 0.0033"),
        ({"noise": "gaussian"}, "delta above 0"),
        ({"noise": "laplace"}, "found 'laplace'"),
        ({"canaries": [1, 2], "guess": lambda _: [1.0, 1.0]}, "more canaries, found 2: .* give 16,"),
        ({"delta": 1.0}, "delta"),
        ({"claim": 0.0}, "above 0"),
        ({"claim": math.nan}, "found nan"),
        ({"confidence": 1.0}, "below 1"),
        ({"canaries": [0, 0]}, "each once"),
        ({"canaries": [4_000]}, "among 4000 rows"),
        ({"canaries": [-1]}, "among 4000 rows"),
        ({"canaries": []}, "row numbers"),
        ({"canaries": [0.5]}, "row numbers"),
        ({"pairs": [("no", "yes")]}, "two labels for each of 2000"),
        ({"pairs": [("no", "no")] * 2_000}, "two different labels"),
        ({"pairs": [("no", "zq-secret")] * 2_000}, "declared classes"),
        ({"shares": []}, "shares of canaries"),
        ({"shares": [0.0]}, "shares of canaries"),
        ({"guess": lambda _: np.zeros(3)}, "2000 scores"),
        ({"guess": lambda _: np.full(2_000, np.nan)}, "2000 scores"),
        ({"guess": boom}, "raised KeyError"),
        ({"pipeline": boom}, "raised KeyError"),
    ],
)
def test_what_cannot_be_audited_is_refused(change, words):
    """Invalid inputs get a clear error, which contains no label."""
    usual = {
        "pipeline": lambda labels: labels, "labels": LABELS, "space": SPACE, "canaries": CANARIES, "pairs": None,
        "guess": lambda _: np.zeros(2_000), "claim": 1.0,
    } | change  # fmt: skip
    planted = [usual.pop(name) for name in ("labels", "space", "canaries", "pairs")]
    with pytest.raises((InputError, EpsilonError), match=words) as refused:
        audit_pipeline(planted=PlantedPairs(*planted), **usual)
    assert "zq" not in str(refused.value)
