"""Audit of a whole pipeline, randomizer and training together, from one run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labeldp import _checks
from labeldp._confidence_intervals import clopper_pearson_lower, log_odds
from labeldp._shapes import Bool, Float, Int
from labeldp.audit._audit import Audit, check_claim, check_confidence
from labeldp.errors import InputError
from labeldp.privacy import LabelSpace


@dataclass(frozen=True, eq=False)
class PlantedPairs:
    """Labels of all rows, and the two labels of which each canary gets one by a coin.

    Attributes:
        labels: A label for each row, made up or declared public: the audit reads labels, and replaces those of
            canaries.
        space: The declared label space, which contains the two labels of each canary.
        canaries: Row numbers, each once; for privacy units of several rows, one row of each.
        pairs: The two labels of each canary; by default the first two classes of the space.

    Raises:
        InputError: Rows do not exist or occur twice, or pairs are outside the space or of equal labels.
    """

    labels: Sequence[Any]
    space: LabelSpace
    canaries: Sequence[int] | Int[np.ndarray, "m"]
    pairs: Sequence[tuple[Any, Any]] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "canaries", _check_canaries(self.canaries, len(self.labels)))
        object.__setattr__(self, "pairs", _canary_pairs(self.pairs, self.space, len(self.canaries)))

    def draw(self) -> tuple[list[Any], Int[np.ndarray, "m"]]:
        """Labels of all rows with those of canaries planted, and the coins."""
        coins, planted = np.random.default_rng().integers(0, 2, len(self.canaries)), list(self.labels)
        for row, pair, coin in zip(self.canaries, self.pairs or (), coins.tolist(), strict=True):
            planted[int(row)] = pair[coin]
        return planted, coins


def audit_pipeline(
    pipeline: Callable[[list[Any]], Any],
    planted: PlantedPairs,
    guess: Callable[[Any], Any],
    claim: float,
    *,
    delta: float = 0.0,
    confidence: float = 0.99,
    shares: Sequence[float] = (1.0, 0.25, 0.05),
) -> Audit:
    """Plant labels by coins, run the pipeline once, and guess the coins from its output.

    Each canary is a row whose label is replaced by one of two, by a fair coin of the audit's own. The pipeline, which
    randomizes the labels and may train on the released ones, then runs once on all labels. Its output yields a score
    for each canary: positive for its first label, negative for its second. The audit guesses where absolute scores are
    largest, abstains elsewhere, and counts the right guesses.

    Args:
        pipeline: A function of a list of labels that returns anything: released labels, a model, its predictions.
        planted: The labels, and the canaries among them.
        guess: A function of the pipeline's output that returns a score for each canary, shape (m,).
        claim: The epsilon claimed for one row's label, in nats.
        delta: The claimed failure probability. Half of it for each canary is taken off the level, so fewer canaries
            show more where it is not small beside ``(1 - confidence) / m``.
        confidence: One minus the probability of failing a sound pipeline.
        shares: Shares of the canaries to guess, those of the largest scores; several shares are tested with a
            Bonferroni correction.

    Returns:
        An audit whose ``lower`` is a lower confidence bound; there is no upper bound, since a better attack may exist.

    Raises:
        EpsilonError: The claim or confidence is out of range.
        InputError: Delta leaves no level for so many canaries, scores are not one number for each canary, or the
            pipeline fails.

    Guarantee:
        If the pipeline is (epsilon, delta)-private for one row's label, ``lower`` exceeds epsilon with a probability of
        at most ``1 - confidence``, whatever the scores are. Proof for delta 0: let w be the output and s the
        coins, independent and fair. For any values of the coins before i, ``P(w | s_<i, s_i = 1) <= e^epsilon
        P(w | s_<i, s_i = 2)``, since it holds for each value of the coins after i, and both sides are averaged
        over these alike. By Bayes' rule the odds of s_i given w and s_<i are at most e^epsilon either way: any
        guess from w is right with a probability of at most ``p = e^epsilon / (1 + e^epsilon)``, given which
        guesses before it were right. So, given w, which determines the canaries guessed, the number of right
        guesses among r is stochastically at most binomial (r, p), by induction over canaries. The exact lower
        bound of p from that count is too large with a probability of at most its level, and epsilon is the log
        odds of p. Several shares of canaries split the level evenly (Bonferroni).

        For delta above 0 let P and Q be the two distributions of w given s_<i; neither exceeds e^epsilon times the
        other by more than delta on any event, since averages over later coins keep this. The probability that a guess
        is right exceeds p by at most ``max(P, Q) / (P + Q) - p``, where that is positive; its mean over w, which is
        drawn from (P + Q) / 2, is ``(1 - p) / 2`` times the integrals of the positive parts of ``P - e^epsilon Q`` and
        ``Q - e^epsilon P``, so at most ``(1 - p) delta <= delta / 2``. Couple each guess with a coin of its own that
        shows heads with probability p: it is right without heads with no more than that mean. So but for a probability
        of ``m delta / 2`` no right guess lacks heads, and the count is at most binomial as before.

    References:
        Steinke, Nasr and Jagielski 2023, for the game; here for labels, and for neighbours that replace one label.
        Their theorem 5.2 for delta above 0 is sharper for many canaries; the term used here has a shorter proof.

    Example:
        >>> from labeldp import Classes
        >>> from labeldp.audit import PlantedPairs, audit_pipeline
        >>> planted = PlantedPairs(["no"] * 500, Classes(["no", "yes"]), range(200))
        >>> audit = audit_pipeline(  # a pipeline that releases true labels
        ...     lambda labels: labels, planted,
        ...     lambda output: [1.0 if label == "no" else -1.0 for label in output[:200]], claim=1.0)
        >>> audit.holds, audit.lower > 3
        (False, True)
    """
    claim, level, delta = check_claim(claim), check_confidence(confidence), _checks.delta(delta)
    count = len(planted.canaries)
    parts = _guess_counts(shares, count)
    error = _level(level, delta, count, len(parts))
    labels, coins = planted.draw()
    scores = _canary_scores(guess, _run_pipeline(pipeline, labels), count)
    correct = (scores > 0) == (coins == 0)
    bounds = [_guess_bound(scores, correct, part, error) for part in parts]
    lower, hits, guesses = max(bounds)
    worst = f"{hits:,} of {guesses:,} guesses correct, among {count:,} canaries with one of two labels each"
    return Audit(claim, delta, max(0.0, lower), None, level, count, "one run", worst)


def _level(confidence: float, delta: float, count: int, looks: int) -> float:
    """The error probability of each look at guesses, once the failures that delta allows are taken off."""
    level = (1.0 - confidence) / looks - count * delta / 2.0
    if level <= 0.0:
        most = math.ceil(2.0 * (1.0 - confidence) / (looks * delta)) - 1
        raise InputError(
            f"expected fewer canaries for a claim with delta {delta:g}, of which each may fail, found {count:,}; plant "
            f"at most {most:,}, and about {max(1, most // 10):,} to see the most, or ask for less confidence"
        )
    return level


def _guess_bound(
    scores: Float[np.ndarray, "m"], correct: Bool[np.ndarray, "m"], part: int, level: float
) -> tuple[float, int, int]:
    """Lower bound on epsilon from the largest scores, with its hits and guesses; a zero score abstains."""
    order = np.argsort(-np.abs(scores), kind="stable")[:part]
    order = order[scores[order] != 0]
    hits = int(correct[order].sum())
    return log_odds(float(clopper_pearson_lower(hits, max(1, len(order)), level))), hits, len(order)


def _check_canaries(canaries: Any, rows: int) -> Int[np.ndarray, "m"]:
    """Distinct row numbers."""
    numbers = np.asarray(list(canaries))
    if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iu":
        raise InputError("expected canaries as a non-empty list of row numbers, found something else")
    if numbers.min() < 0 or numbers.max() >= rows or len(np.unique(numbers)) != len(numbers):
        raise InputError(f"expected canaries among {rows} rows, each once, found others; count rows from 0")
    return numbers.astype(np.int64)


def _canary_pairs(pairs: Any, space: LabelSpace, count: int) -> list[tuple[Any, Any]]:
    """Two different labels of the space for each canary."""
    choices = [tuple(space.points[:2])] * count if pairs is None else [tuple(pair) for pair in pairs]
    if len(choices) != count or any(len(pair) != 2 for pair in choices):
        raise InputError(f"expected two labels for each of {count} canaries, found {len(choices)} pairs or other sizes")
    first, second = (space.encode([pair[place] for pair in choices]) for place in (0, 1))
    if (first == second).any():
        equal = np.argmax(first == second)
        raise InputError(f"expected two different labels for each canary, found equal ones for canary {equal}")
    return choices


def _guess_counts(shares: Sequence[float], count: int) -> list[int]:
    """Numbers of canaries to guess, one for each share."""
    numbers = [_checks.number(share, "a share of canaries") for share in shares]
    if not numbers or not all(0 < share <= 1 for share in numbers):
        raise InputError(f"expected shares of canaries above 0 and at most 1, found {list(shares)!r}")
    return sorted({max(1, round(share * count)) for share in numbers})


def _run_pipeline(pipeline: Callable[[list[Any]], Any], labels: list[Any]) -> Any:
    """Output of the pipeline. The text of its exceptions is dropped, since it may contain a label."""
    try:
        return pipeline(labels)
    except Exception as problem:  # noqa: BLE001 (its text may show a label)
        raise InputError(
            f"expected an output of the pipeline, found that it raised {type(problem).__name__}; run it yourself on "
            "labels of the same space to see why"
        ) from None


def _canary_scores(guess: Callable[[Any], Any], output: Any, count: int) -> Float[np.ndarray, "m"]:
    """A score for each canary."""
    try:
        scores = np.asarray(guess(output), dtype=np.float64)
    except Exception as problem:  # noqa: BLE001 (its text may show a label)
        raise InputError(
            f"expected a score for each canary, found that guess raised {type(problem).__name__}"
        ) from None
    if scores.shape != (count,) or np.isnan(scores).any():
        raise InputError(f"expected {count} scores that are numbers, found shape {scores.shape} or NaN")
    return scores
