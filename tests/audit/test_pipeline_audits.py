"""Audits of whole pipelines with one run: leaks are shown, sound ones are not accused."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from labeldp import Budget, Classes, Curator, LabelMoments, NoisyGradients, PeerExchange, RandomizedResponse
from labeldp.audit import ObservedPairs, PlantedPairs, audit_pipeline
from labeldp.audit.pipelines._trade_off import least_epsilon
from labeldp.errors import EpsilonError, InputError
from labeldp.mechanisms.queries import ExchangedLabels

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


#: Rows of the pipelines below, whose labels are sums, vectors or exchanged bits; and peers in a cluster.
MANY, PEERS = 2_000, 4
TWO = Classes(["no", "yes"])


def moments(labels):
    """Sums with Gaussian noise, in which each row has a feature of its own."""
    return Curator(labels, TWO).answer(LabelMoments(TWO, 4.0, 1e-6, np.eye(MANY))).value


def ledger(labels):
    """Three such sums under one budget, which counts by zero-concentrated privacy."""
    curator = Curator(labels, TWO, budget=Budget(4.0, 1e-6, concentrated=True))
    return sum(curator.answer(LabelMoments(TWO, 2.0, 1e-7, np.eye(MANY))).value for _ in range(3))


class Gradients:
    """A client that proposes the two unit vectors for every row."""

    def ask(self, _):
        """The proposal."""
        return np.ones(2)

    def tell(self, row, vector):
        """The reply, which is not used."""


def gradients(labels):
    """A noisy vector for each row."""
    return Curator(labels, TWO).answer(NoisyGradients(TWO, 4.0, 1e-6, client=Gradients(), rows=MANY)).value


EXCHANGE = ExchangedLabels(TWO, PeerExchange(flip=0.02), np.repeat(np.arange(MANY), PEERS), delta=1e-6)


def peers(labels):
    """Labels exchanged in clusters of four, whose other labels are known."""
    return Curator(labels, TWO).answer(EXCHANGE).value.reshape(MANY, PEERS)


def first_minus_second(sums):
    """Scores of rows that have sums of their own."""
    return sums[:, 0] - sums[:, 1]


def only_known(released):
    """Scores of clusters by their released labels: negative if any is of the second class."""
    return 0.5 - (released == 1).sum(axis=1)


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("pipeline", "noise", "claim", "least"),
    [
        (moments, "any", 4.0, 0.25),
        (moments, "gaussian", 4.0, 0.3),
        (moments, "separate gaussian", 4.0, 1.4),
        (gradients, "separate gaussian", 4.0, 1.5),
        (ledger, "separate gaussian", 4.0, 0.5),
        (peers, "any", EXCHANGE.promise(1).epsilon, 0.8),
    ],
)
def test_mechanisms_with_a_delta_are_audited(pipeline, noise, claim, least):
    """Moments, gradients, sums under a concentrated budget and peers hold at their claim, and not at less.

    Claims that are refuted are five standard deviations below the mean of 15 bounds, or more.
    """
    rows, guess = (
        (range(0, MANY * PEERS, PEERS), only_known) if pipeline is peers else (range(MANY), first_minus_second)
    )
    planted = PlantedPairs(["no"] * (MANY * PEERS if pipeline is peers else MANY), TWO, rows)
    sound, small = (
        audit_pipeline(pipeline, planted, guess, each, delta=1e-6, confidence=0.9999, noise=noise)
        for each in (claim, least)
    )
    assert (sound.holds, sound.delta, small.holds) == (True, 1e-6, False)
    assert ("Assuming that" in str(sound)) == (noise != "any")


def true_law(rows):
    """Probabilities of two classes that differ from row to row, and labels drawn from them."""
    shares = RNG.uniform(0.05, 0.95, rows)
    return np.column_stack([shares, 1 - shares]), np.where(RNG.random(rows) < shares, "no", "yes")


def test_observed_labels_stay_as_they_are():
    """Nothing is planted; each canary's own label is in its pair, first about half of the time (false alarm 1e-9)."""
    law, labels = true_law(4_000)
    observed = ObservedPairs(labels, TWO, range(4_000), law)
    given, coins = observed.draw()
    assert given == labels.tolist()
    assert [pair[coin] for pair, coin in zip(observed.pairs, coins, strict=True)] == labels[observed.canaries].tolist()
    assert all(first != second for first, second in observed.pairs)
    assert "yes" not in repr(observed).replace(repr(TWO), "")
    assert abs(coins.mean() - 0.5) < 3.1 / math.sqrt(len(coins))
    assert len(observed.canaries) == pytest.approx((2 * law[:, 0] * law[:, 1]).sum(), abs=6 * math.sqrt(1_000))


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(("epsilon", "least"), [(1.0, 0.3), (3.0, 1.5)])
def test_observed_labels_accuse_no_more_often_than_stated(epsilon, least):
    """Of 300 audits of labels of a known law no more are wrong than 0.1 allows (1e-6), and half show much of epsilon.

    The attacker knows the law, and which of a row's two labels is the more likely one: that must not help.
    """
    keep, shown = math.exp(epsilon) / (1 + math.exp(epsilon)), []
    for _ in range(300):
        law, labels = true_law(600)
        observed = ObservedPairs(labels, TWO, range(600), law)
        first = np.array([TWO.points.index(pair[0]) for pair in observed.pairs])

        def released(given):
            codes = np.array([TWO.points.index(label) for label in given])
            return np.where(RNG.random(600) < keep, codes, 1 - codes)

        def scores(codes, rows=observed.canaries, first=first, law=law):
            seen = np.where(codes[rows] == first, 1.0, -1.0)
            return seen + 0.5 * np.sign(law[rows, first] - 0.5)

        shown.append(audit_pipeline(released, observed, scores, epsilon, confidence=0.9).lower)
    assert sum(each > epsilon for each in shown) <= binom.isf(1e-6, 300, 0.1)
    assert np.median(shown) > least


@pytest.mark.usefixtures("as_users_call")
def test_a_known_law_tells_nothing_of_observed_labels():
    """Of 300 audits without a release, guessed by the law alone, no more fail than 0.1 allows (1e-6)."""
    accused = 0
    for _ in range(300):
        law, labels = true_law(600)
        observed = ObservedPairs(labels, TWO, range(600), law)
        first = np.array([TWO.points.index(pair[0]) for pair in observed.pairs])
        scores = law[observed.canaries, first] - 0.5
        accused += not audit_pipeline(lambda _: None, observed, lambda _, s=scores: s, 1e-6, confidence=0.9).holds
    assert accused <= binom.isf(1e-6, 300, 0.1)


def test_a_verdict_on_observed_labels_begins_with_its_assumption():
    """Labels that do not follow the declared law are told apart without any release, so the assumption comes first."""
    observed = ObservedPairs(["no"] * 1_000, TWO, range(1_000), [0.5, 0.5])
    first = np.array([1.0 if pair[0] == "no" else -1.0 for pair in observed.pairs])
    found = audit_pipeline(lambda _: None, observed, lambda _: first, 1.0)
    assert str(found).startswith("Assuming that labels of audited rows follow the declared distribution: ")
    assert not found.holds


def test_an_undeclared_label_is_not_shown():
    """An observed label outside of the space is refused, and the error does not repeat it."""
    with pytest.raises(InputError) as refused:
        ObservedPairs(["no", "zq-secret"], TWO, [0, 1], [0.5, 0.5])
    assert "zq" not in str(refused.value)


@pytest.mark.parametrize(
    ("rows", "law"),
    [
        ([0, 0], [0.5, 0.5]),
        ([0, 1], [0.5, 0.6]),
        ([0, 1], [1.5, -0.5]),
        ([0, 1], [[0.5, 0.5]]),
        ([0, 1], [0.5, 0.25, 0.25]),
        ([0, 1], [0.5, math.nan]),
        ([0, 1], [1.0, 0.0]),
    ],
)
def test_observed_pairs_of_no_distribution_are_refused(rows, law):
    """Rows that occur twice, numbers that are no probabilities, and labels that could not have been others."""
    with pytest.raises(InputError, match=r"expected .*found"):
        ObservedPairs(["no"] * 4, TWO, rows, law)


@pytest.mark.usefixtures("as_users_call")
def test_shares_of_guesses_split_the_level():
    """Of ten right guesses the bound at three shares is that at a third of the level, of one share at all of it."""
    planted = PlantedPairs(["no"] * 10, TWO, range(10))

    def audited(shares):
        def drawn(labels):
            return np.array([1.0 if label == "no" else -1.0 for label in labels])

        return audit_pipeline(drawn, planted, lambda scores: scores, 1.0, shares=shares).lower

    for shares in ([1.0], [1.0, 0.5, 0.1]):
        alone = least_epsilon("any", 10, 10, 10, 0.0, 0.01 / len(shares))
        assert audited(shares) == pytest.approx(alone, rel=1e-9)


def test_a_pipeline_runs_once():
    """The pipeline is called a single time: one that draws anew in every call is audited in one of its draws."""
    calls = []
    audit_pipeline(calls.append, PlantedPairs(LABELS, SPACE, CANARIES), lambda _: np.zeros(2_000), 1.0)
    assert len(calls) == 1


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
