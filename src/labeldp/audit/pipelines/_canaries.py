"""Canary memorisation: whether a trained model prefers labels that were planted at random.

A canary is a row whose label is replaced by one that was drawn evenly from the declared classes, so that nothing but
the label itself can tell it. ``audit_pipeline`` bounds epsilon from coins between two labels; this tells how much of
planted labels a model of all classes has kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import binom

from labeldp import _checks
from labeldp._intervals import share_above, share_below
from labeldp.audit._audit import check_confidence
from labeldp.errors import InputError
from labeldp.privacy import LabelSpace


@dataclass(frozen=True, eq=False)
class Canaries:
    """Rows and the labels that are planted there; draw them with ``plant_canaries``.

    Attributes:
        space: The declared label space.
        rows: Numbers of the rows, shape (m,).
        codes: The planted classes' codes.
    """

    space: LabelSpace
    rows: Int[np.ndarray, "m"]
    codes: Int[np.ndarray, "m"]

    def __post_init__(self) -> None:
        for name in ("rows", "codes"):
            array = np.array(getattr(self, name), dtype=np.int64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def labels(self) -> np.ndarray:
        """The planted labels: where labels are kept, put them in ``rows`` before the pipeline runs."""
        return np.asarray(np.asarray(self.space.points)[self.codes])


@dataclass(frozen=True, eq=False)
class Memorisation:
    """How many planted labels a model prefers to all others, and how many a guarantee allows.

    Attributes:
        hits: Canaries whose planted label has the highest score, ties shared by chance.
        canaries: How many there are.
        low: Lower end of the interval of the chance to prefer the planted label (Clopper and Pearson).
        high: Upper end.
        by_chance: 1/k: that of a model that knows nothing of planted labels.
        allowed: The most that the claimed epsilon allows; None if nothing was claimed.
        doubt: The chance of as many hits or more, if the claim holds; None if nothing was claimed.
        ranks: For each canary how many labels have at least the score of the planted one, from 1 for the best to k.
        confidence: Chance that the interval holds the chance, for canaries that are alike.
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
        """The share of canaries whose planted label is preferred."""
        return self.hits / self.canaries

    @property
    def holds(self) -> bool:
        """Whether the claim may be true; True if nothing was claimed."""
        return self.doubt is None or self.doubt > 1 - self.confidence

    @property
    def exposure(self) -> float:
        """The mean of ``log2 k - log2 rank`` over canaries, in bits (Carlini et al. 2019, with all k labels ranked)."""
        return float(np.mean(-np.log2(self.by_chance) - np.log2(self.ranks)))

    @property
    def exposure_by_chance(self) -> float:
        """The mean exposure in bits if ranks are even: that of a model that knows nothing of planted labels."""
        k = round(1 / self.by_chance)
        return math.log2(k) - float(np.mean(np.log2(np.arange(1, k + 1))))

    def sentence(self) -> str:
        """What was found, in one sentence."""
        told = (
            f"The model prefers the planted label for {self.hits:,} of {self.canaries:,} canaries ({self.share:.1%}; "
            f"{self.low:.1%} to {self.high:.1%} with confidence {self.confidence:g}), against {self.by_chance:.1%} by "
            "chance"
        )
        if self.allowed is None:
            return told + "."
        verdict = "which it may keep" if self.holds else "which it does not keep"
        return f"{told} and at most {self.allowed:.1%} by the claim, {verdict}."

    def __str__(self) -> str:
        return self.sentence()


def plant_canaries(space: LabelSpace, rows: int, count: int) -> Canaries:
    """Rows at random, and labels for them, drawn evenly from all declared classes.

    Args:
        space: The declared label space.
        rows: How many rows the data have.
        count: How many canaries to plant.

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
    """How often a pipeline that was run once on planted labels prefers them, and what a pure epsilon allows.

    Args:
        canaries: What was planted before the pipeline ran.
        scores: The trained model's score of each class for each canary's row, such as probabilities, shape (m, k).
        epsilon: The pure epsilon of one row's label that is claimed for the whole pipeline; None claims nothing.
        delta: 0. Nothing is shown of claims with a delta above.
        confidence: Of the interval; ``holds`` is False for a sound pipeline with a chance of at most one minus it.

    Guarantee:
        If the pipeline is epsilon-private for one row's label, the number of hits is stochastically at most binomial
        with ``p = e/(e + k - 1)``, ``e = exp(epsilon)``, whatever the scores are. Proof: let w be the output, and let
        all planted labels but that of canary i be given. The planted label of i is even and independent, and the
        probability of w changes by a factor of at most e with it (epsilon-privacy for row i, the others' labels fixed).
        So by Bayes' rule no label of i has a posterior above ``e/(e + k - 1)``, and w and chance, which decide what is
        preferred, prefer the planted one with no more. That holds given the planted labels before i alone too, as a
        mean over those after i. So, given w, hits are at most binomial, by induction over canaries.

    References:
        Carlini et al. 2019, for canaries and exposure; Malek et al. 2021, section 4, for canaries with random labels;
        Steinke, Nasr and Jagielski 2023, for the proof with coins.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes
        >>> canaries = plant_canaries(Classes(["a", "b", "c"]), rows=1000, count=200)
        >>> found = canary_memorisation(canaries, np.eye(3)[canaries.codes], epsilon=1.0)  # all of it was kept
        >>> found.share, found.holds, round(found.allowed, 3)
        (1.0, False, 0.576)

    Raises:
        EpsilonError: The claim is none, or the confidence.
        InputError: Scores of another shape, NaN, or a delta above 0.
    """
    level, k = check_confidence(confidence), canaries.space.size
    if _checks.delta(delta):
        raise InputError(
            f"expected a pure claim (delta 0) for canaries, found delta {delta:g}; nothing is proven of others"
        )
    found = np.asarray(scores, dtype=np.float64)
    if found.shape != (len(canaries), k) or np.isnan(found).any():
        raise InputError(
            f"expected scores of shape ({len(canaries)}, {k}), a number for each class of each canary, found shape "
            f"{found.shape} or NaN"
        )
    planted = found[np.arange(len(found)), canaries.codes]
    hits = int(np.count_nonzero(_preferred(found) == canaries.codes))
    tail = (1 - level) / 2
    allowed = None if epsilon is None else 1 / (1 + (k - 1) * math.exp(-_checks.epsilon(epsilon)))
    return Memorisation(
        hits,
        len(canaries),
        float(share_above(hits, len(canaries), tail)),
        float(share_below(hits, len(canaries), tail)),
        1 / k,
        allowed,
        None if allowed is None else float(binom.sf(hits - 1, len(canaries), allowed)),
        np.count_nonzero(found >= planted[:, None], axis=1),
        level,
    )


def _preferred(scores: Float[np.ndarray, "m k"]) -> Int[np.ndarray, "m"]:
    """The class with the highest score; among equal ones any, with equal chances."""
    best = scores == scores.max(axis=1, keepdims=True)
    return np.asarray(np.argmax(np.where(best, np.random.default_rng().random(scores.shape), -1.0), axis=1))
