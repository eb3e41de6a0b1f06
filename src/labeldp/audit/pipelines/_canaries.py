"""Canary memorisation: the preference of a trained model for labels that were planted at random.

A canary is a row whose label is replaced by one drawn uniformly from the declared classes, so that nothing but the
label itself can reveal it. ``audit_pipeline`` bounds epsilon from coins between two labels; this measures how many
planted labels a model of all classes has memorised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from labeldp import _checks
from labeldp._arrays import freeze_arrays
from labeldp._confidence_intervals import clopper_pearson_lower, clopper_pearson_upper
from labeldp._shapes import Float, Int
from labeldp.audit._audit import check_confidence
from labeldp.audit.pipelines._trade_off import largest_tail, uniform_curve
from labeldp.columns import floats
from labeldp.errors import InputError
from labeldp.privacy import LabelSpace, declared_columns


@dataclass(frozen=True, eq=False)
class Canaries:
    """Rows and the labels planted there; draw them with ``plant_canaries``.

    Attributes:
        space: The declared label space.
        rows: Row numbers, shape (m,).
        codes: Codes of the planted classes.
    """

    space: LabelSpace
    rows: Int[np.ndarray, "m"]
    codes: Int[np.ndarray, "m"]

    def __post_init__(self) -> None:
        freeze_arrays(self, rows=np.int64, codes=np.int64)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def labels(self) -> np.ndarray:
        """The planted labels; put them into ``rows`` of the labels before the pipeline runs."""
        return np.asarray(np.asarray(self.space.points)[self.codes])


@dataclass(frozen=True, eq=False)
class Memorisation:
    """Number of planted labels that a model prefers to all others, and the number a guarantee allows.

    Attributes:
        hits: Canaries whose planted label has the highest score, ties broken at random.
        canaries: Number of canaries.
        low: Lower end of the interval for the probability of a hit (Clopper and Pearson).
        high: Upper end.
        by_chance: 1/k: the probability of a hit for a model independent of the planted labels.
        allowed: The largest probability of a hit under the claimed epsilon; None without a claim.
        doubt: The p-value: probability of as many hits or more if the claim holds; None without a claim.
        ranks: For each canary the number of labels whose score is at least that of the planted one, from 1 for the best
            to k.
        confidence: Probability that the interval holds the probability of a hit, for exchangeable canaries.
    """

    hits: int
    canaries: int
    low: float
    high: float
    by_chance: float
    allowed: float | None
    doubt: float | None
    ranks: Int[np.ndarray, "m"]
    confidence: float

    @property
    def share(self) -> float:
        """Share of canaries that are hits."""
        return self.hits / self.canaries

    @property
    def holds(self) -> bool:
        """True if the claim was not refuted, or there is none."""
        return self.doubt is None or self.doubt > 1 - self.confidence

    @property
    def exposure(self) -> float:
        """Mean of ``log2 k - log2 rank`` over canaries, in bits (Carlini et al. 2019, with all k labels ranked)."""
        return float(np.mean(-np.log2(self.by_chance) - np.log2(self.ranks)))

    @property
    def exposure_by_chance(self) -> float:
        """Mean exposure in bits of a model independent of the planted labels, whose ranks are uniform."""
        k = round(1 / self.by_chance)
        return math.log2(k) - float(np.mean(np.log2(np.arange(1, k + 1))))

    def sentence(self) -> str:
        """State the result in one sentence."""
        result = (
            f"The model prefers the planted label for {self.hits:,} of {self.canaries:,} canaries ({self.share:.1%}; "
            f"{self.low:.1%} to {self.high:.1%} with confidence {self.confidence:g}), against {self.by_chance:.1%} by "
            "chance"
        )
        if self.allowed is None:
            return result + "."
        verdict = "is consistent with" if self.holds else "refutes"
        return f"{result} and at most {self.allowed:.1%} by the claim. This {verdict} the claim."

    def __str__(self) -> str:
        return self.sentence()


def plant_canaries(space: LabelSpace, rows: int, count: int) -> Canaries:
    """Draw rows at random, and labels for them uniformly from all declared classes.

    Args:
        space: The declared label space.
        rows: Number of rows of the data.
        count: Number of canaries to plant.

    Example:
        >>> from labeldp import Classes
        >>> canaries = plant_canaries(Classes(["a", "b", "c"]), rows=100, count=10)
        >>> labels = ["a"] * 100  # on the curator's side
        >>> for row, label in zip(canaries.rows, canaries.labels):
        ...     labels[row] = str(label)
    """
    total = _checks.whole(rows, "rows", 1, 1 << 40)
    planted = _checks.whole(count, "count", 1, total)
    rng = np.random.default_rng()
    return Canaries(space, rng.choice(total, planted, replace=False), rng.integers(0, space.size, planted))


def canary_memorisation(
    canaries: Canaries, scores: object, epsilon: float | None = None, *, delta: float = 0.0, confidence: float = 0.99
) -> Memorisation:
    """Compare the hits of a pipeline run on planted labels with the number that a claimed epsilon allows.

    Args:
        canaries: The labels planted before the pipeline ran.
        scores: The trained model's score of each class for each canary's row, such as
            ``ClassProbabilities.of(model, features)``; or an array of shape (m, k), if the classes were declared in
            sorted order.
        epsilon: The epsilon of one row's label claimed for the whole pipeline; None for no claim.
        delta: The claimed failure probability.
        confidence: Of the interval; ``holds`` is False for a sound pipeline with a probability of at most one minus it.

    Guarantee:
        If the pipeline is epsilon-private for one row's label, the number of hits is stochastically at most binomial
        with ``p = e/(e + k - 1)``, ``e = exp(epsilon)``, whatever the scores are. Proof: let w be the output, and fix
        all planted labels but that of canary i. The planted label of i is uniform and independent, and changing it
        changes the probability of w by a factor of at most e (epsilon-privacy for row i, the others' labels fixed). So
        by Bayes' rule no label of i has a posterior above ``e/(e + k - 1)``. The preferred label is a function of w and
        of the tie-breaking, so it is the planted one with at most that probability. Averaging over the planted labels
        after i, the bound holds given only those before i. So, given w, hits are at most binomial, by induction over
        canaries. For delta above 0 the number of hits is bounded by the claim's trade-off curve, with the proof in
        ``audit/pipelines/_trade_off.py``; there one hit has probability at most ``(e + (k - 1) delta) / (e + k - 1)``.

    References:
        Carlini et al. 2019, for canaries and exposure; Malek et al. 2021, section 4, for canaries with random labels;
        Steinke, Nasr and Jagielski 2023, for the proof with coins; Mahloujifar, Melis and Chaudhuri 2025, for delta.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes
        >>> canaries = plant_canaries(Classes(["a", "b", "c"]), rows=1000, count=200)
        >>> result = canary_memorisation(canaries, np.eye(3)[canaries.codes], epsilon=1.0)  # all were memorised
        >>> result.share, result.holds, round(result.allowed, 3)
        (1.0, False, 0.576)

    Raises:
        EpsilonError: The claim or the confidence is out of range.
        InputError: Scores of another shape, NaN, or an array alone for classes whose declared order is not sorted.
    """
    level, k, delta = check_confidence(confidence), canaries.space.size, _checks.delta(delta)
    values = floats(declared_columns(scores, canaries.space), "scores")
    if values.shape != (len(canaries), k) or np.isnan(values).any():
        raise InputError(
            f"expected scores of shape ({len(canaries)}, {k}), a number for each class of each canary, found shape "
            f"{values.shape} or NaN"
        )
    planted = values[np.arange(len(values)), canaries.codes]
    hits = int(np.count_nonzero(_preferred_classes(values) == canaries.codes))
    tail = (1 - level) / 2
    claim = None if epsilon is None else _checks.epsilon(epsilon)
    allowed, doubt = (None, None) if claim is None else _claimed(claim, delta, k, hits, len(values))
    return Memorisation(
        hits,
        len(canaries),
        float(clopper_pearson_lower(hits, len(canaries), tail)),
        float(clopper_pearson_upper(hits, len(canaries), tail)),
        1 / k,
        allowed,
        doubt,
        np.count_nonzero(values >= planted[:, None], axis=1),
        level,
    )


def _claimed(epsilon: float, delta: float, classes: int, hits: int, canaries: int) -> tuple[float, float]:
    """The largest probability of a hit under a claim, and of so many hits or more."""
    others = (classes - 1) * math.exp(-epsilon)
    allowed = (1.0 + others * delta) / (1.0 + others)
    if not delta:
        return allowed, float(binom.sf(hits - 1, canaries, allowed))
    return allowed, largest_tail(uniform_curve(epsilon, delta, classes), canaries, hits)


def _preferred_classes(scores: Float[np.ndarray, "m k"]) -> Int[np.ndarray, "m"]:
    """The class with the highest score, ties broken at random."""
    best = scores == scores.max(axis=1, keepdims=True)
    return np.asarray(np.argmax(np.where(best, np.random.default_rng().random(scores.shape), -1.0), axis=1))
