"""Model selection by released labels, which is post-processing of a release and costs nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from labeldp._shapes import Float, Int
from labeldp.learning.losses._own_features import OriginalFeatures
from labeldp.release import Release

#: Number of rows from which one held-out fold is precise enough, so that cross-validation is not worth its time.
_ENOUGH_ROWS = 20_000

Judge = Callable[[np.ndarray, np.ndarray], Float[np.ndarray, "penalties held"]]


def gain(
    release: Release, probabilities: Float[np.ndarray, "n k"], original: OriginalFeatures | None = None
) -> Float[np.ndarray, "n"]:
    """Log likelihood of each released label, in nats over the uniform model: ``log(sum_j v_j p_j / mean_j v_j)``.

    A constant factor of the likelihoods v cancels.

    Args:
        release: Released labels of n rows.
        probabilities: A model's P(true class | true features) in declared order, shape (n, k).
        original: Probabilities that the features are the original ones, where some were resampled.
    """
    likelihood = release.likelihood() if original is None else original.mixed(release.likelihood())
    hit = (likelihood * probabilities).sum(axis=1)
    return np.asarray(np.log(np.maximum(hit, np.finfo(float).tiny)) - np.log(likelihood.mean(axis=1)))


def posterior(
    release: Release, probabilities: Float[np.ndarray, "n k"], original: OriginalFeatures | None = None
) -> Float[np.ndarray, "n k"]:
    """P(true = j | released, features), for a model's P(true = j | features); both in declared order.

    Where features may have been resampled, it is P(true = j and the features are the original ones | released): a row
    then sums to less than one, and expectation maximisation with it increases the likelihood of the mixture.

    References:
        Malek et al. 2021, section 3.2, for its use in training (ALIBI); by Fisher's identity it gives the gradient of
        the likelihood.
    """
    joint = release.likelihood() * np.maximum(probabilities, np.finfo(float).tiny)
    if original is None:
        return np.asarray(joint / joint.sum(axis=1, keepdims=True))
    resampled = (1.0 - original.shares) * (release.likelihood() @ original.prior)
    joint *= original.shares[:, None]
    return np.asarray(joint / (joint.sum(axis=1) + resampled)[:, None])


def splits(rows: int, folds: int) -> Iterator[tuple[Int[np.ndarray, "a"], Int[np.ndarray, "b"]]]:
    """Rows to fit on and rows to hold out: all folds of few rows, one fold of many. Labels play no part."""
    order = np.random.default_rng(0).permutation(rows)
    parts = np.array_split(order, folds)
    for held in parts if rows < _ENOUGH_ROWS else parts[:1]:
        rest = np.ones(rows, dtype=np.bool_)
        rest[held] = False
        yield np.flatnonzero(rest), np.sort(held)


@dataclass(frozen=True, eq=False)
class Gains:
    """Gains of held-out rows under each setting of a learner, summed in groups of rows.

    Attributes:
        rows: Number of rows of each group, shape (g,).
        sums: Their gains under each of s settings; minus infinity under a setting that was given up.
        squares: Their squared differences to the gains under the usual setting; None where none is usual.
        usual: The setting that stays unless another one is clearly better; None to take the best.
        fallback: A setting that fits no noise, which replaces one that has no larger gain; None for none such.
    """

    rows: Float[np.ndarray, "g"]
    sums: Float[np.ndarray, "s g"]
    squares: Float[np.ndarray, "s g"] | None = None
    usual: int | None = None
    fallback: int | None = None

    @classmethod
    def of(
        cls,
        gains: Float[np.ndarray, "s n"],
        groups: Int[np.ndarray, "n"],
        count: int,
        usual: int | None = None,
        fallback: int | None = None,
    ) -> Gains:
        """The gains of n rows under each setting, in groups with these numbers of a count of groups."""
        sums = _summed(gains, groups, count)
        squares = None if usual is None else _summed((gains - gains[usual]) ** 2, groups, count)
        return cls(np.bincount(groups, minlength=count).astype(np.float64), sums, squares, usual, fallback)

    def __add__(self, other: Gains) -> Gains:
        """The gains of both, of the same settings and groups."""
        squares = None if self.squares is None or other.squares is None else self.squares + other.squares
        return replace(self, rows=self.rows + other.rows, sums=self.sums + other.sums, squares=squares)

    def best(self, without: int | None = None) -> int:
        """The setting with the largest gain, if it is clearly better than the usual one.

        With few effective rows the best of many noisy means is often a bad choice. So the usual setting stays unless
        the gain over it exceeds its standard error. To ask for a clearly larger gain than that of the fallback costs
        more where features help than it saves where they do not.

        Args:
            without: A group whose rows play no part; None if all do.
        """
        groups = np.arange(len(self.rows)) != (-1 if without is None else without)
        rows, sums = self.rows[groups].sum(), self.sums[:, groups].sum(axis=1)
        chosen = int(np.argmax(sums))
        if self.usual is not None and self.squares is not None and chosen != self.usual:
            over, square = sums[chosen] - sums[self.usual], self.squares[chosen, groups].sum()
            chosen = chosen if over > 0.0 and over**2 > square - over**2 / rows else self.usual
        if self.fallback is None or sums[chosen] > sums[self.fallback]:
            return chosen
        return self.fallback


def _summed(values: Float[np.ndarray, "s n"], groups: Int[np.ndarray, "n"], count: int) -> Float[np.ndarray, "s g"]:
    return np.stack([np.bincount(groups, each, minlength=count) for each in values])


def best_penalty(
    penalties: Sequence[float], usual: float, rows: int, folds: int, judge: Judge, fallback: float | None = None
) -> float:
    """The penalty with the best mean gain on held-out rows, if it is clearly better than the default.

    Args:
        penalties: Penalties from the largest to the smallest, the default and the fallback among them.
        usual: The default penalty.
        rows: Number of rows.
        folds: Number of folds.
        judge: Function of the rows to fit on and the rows to hold out; it returns the gain of each held-out row under
            each penalty, shape (penalties, held-out rows), and minus infinity under penalties that were given up.
        fallback: The penalty of class shares, which predicts from no feature; None for no such candidate.
    """
    gains = np.concatenate([judge(fit, held) for fit, held in splits(rows, folds)], axis=1)
    nothing = None if fallback is None else penalties.index(fallback)
    together = np.zeros(gains.shape[1], dtype=np.int64)
    return penalties[Gains.of(gains, together, 1, penalties.index(usual), nothing).best()]


def is_clearly_better(gains: Float[np.ndarray, "n"], others: Float[np.ndarray, "n"]) -> bool:
    """True if the mean gain of rows exceeds that of another model on them by more than the standard error."""
    over = gains - others
    return float(np.mean(over)) > float(np.std(over)) / math.sqrt(len(over))
