"""Cross entropy under a channel, by forward or backward correction, with the values of each row in packed form."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from scipy.sparse import issparse, vstack

from labeldp import _checks
from labeldp._shapes import Float, UInt8
from labeldp._threads import blocks, over_chunks
from labeldp.errors import InputError
from labeldp.learning.features import row_count
from labeldp.learning.losses._kernels import forward, linear
from labeldp.learning.losses._own_features import OriginalFeatures, resampling_probability
from labeldp.privacy.channels import pack, unpack
from labeldp.release import Release

Method = Literal["likelihood", "unbiased", "plain"]
METHODS: tuple[Method, ...] = ("likelihood", "unbiased", "plain")

#: Logits of one chunk of a thread: about a millisecond of work, so that starting threads costs little beside it.
_ENTRIES_PER_CHUNK = 1 << 17


@dataclass(frozen=True, eq=False)
class RowLoss:
    """A loss of logits for each row: one value on a mask of classes, one off the mask, one outside a support.

    With ``likelihood`` (forward correction) it is ``-log sum_j v_j p_j``, where the values are the likelihoods
    ``high``, 1 and ``outside``; it is bounded below and statistically efficient. Otherwise (backward correction) it is
    ``sum_j t_j (-log p_j)``, where the values are targets that sum to one over the classes; it is convex in the logits,
    and unbounded below where a target is negative.

    Attributes:
        mask: Packed classes with the first value.
        support: Packed classes with the first or the second value; no columns if all classes have one of them.
        inside: First value of each row.
        other: Second value.
        outside: Third value.
        likelihood: True for the likelihood, False for linear targets.
    """

    mask: UInt8[np.ndarray, "n b"]
    support: UInt8[np.ndarray, "n c"]
    inside: Float[np.ndarray, "n"]
    other: Float[np.ndarray, "n"]
    outside: Float[np.ndarray, "n"]
    likelihood: bool

    def __call__(self, logits: Float[np.ndarray, "n k"], weights: Float[np.ndarray, "n"]) -> float:
        """Weighted sum over rows; ``logits`` are overwritten with its gradient."""
        kernel = forward if self.likelihood else linear
        step = max(1, _ENTRIES_PER_CHUNK // logits.shape[1])
        sums = np.zeros(len(logits) // step + 1)

        def add(rows: slice) -> None:
            part = self.take(rows)
            sums[rows.start // step] = kernel(
                logits[rows], part.mask, part.inside, part.other, part.support, part.outside, weights[rows]
            )

        over_chunks(add, len(logits), step)
        return float(sums.sum())

    def dense(self, classes: int) -> Float[np.ndarray, "n k"]:
        """The values of all classes as a dense matrix."""
        values = np.where(unpack(self.mask, classes), self.inside[:, None], self.other[:, None])
        if not self.support.shape[1]:
            return values
        return np.where(unpack(self.support, classes), values, self.outside[:, None])

    def take(self, rows: slice) -> RowLoss:
        """The loss of selected rows."""
        arrays = (self.mask, self.support, self.inside, self.other, self.outside)
        mask, support, inside, other, outside = (each[rows] for each in arrays)
        return RowLoss(mask, support, inside, other, outside, self.likelihood)


@dataclass(frozen=True, eq=False)
class _ByClass:
    """A loss whose values differ from class to class."""

    values: Float[np.ndarray, "n k"]

    def dense(self, _classes: int) -> Float[np.ndarray, "n k"]:
        """The values, which are dense already."""
        return self.values

    def take(self, rows: slice) -> Self:
        """The loss of selected rows."""
        return dataclasses.replace(self, values=self.values[rows])


class TargetLoss(_ByClass):
    """Cross entropy on targets that differ from class to class: ``sum_j t_j (-log p_j)``.

    The targets sum to one in each row, or to the row's probability of being an original one.
    """

    def __call__(self, logits: Float[np.ndarray, "n k"], weights: Float[np.ndarray, "n"]) -> float:
        """Weighted sum over rows; ``logits`` are overwritten with its gradient."""
        logits -= logits.max(axis=1, keepdims=True)
        aligned = (self.values * logits).sum(axis=1)
        np.exp(logits, out=logits)
        total, mass = logits.sum(axis=1, keepdims=True), self.values.sum(axis=1)
        logits *= mass[:, None] / total
        logits -= self.values
        logits *= weights[:, None]
        return float(weights @ (mass * np.log(total[:, 0]) - aligned))


class LikelihoodLoss(_ByClass):
    """Minus the log likelihood of released labels that differs from class to class: ``-log sum_j v_j p_j``."""

    def __call__(self, logits: Float[np.ndarray, "n k"], weights: Float[np.ndarray, "n"]) -> float:
        """Weighted sum over rows; ``logits`` are overwritten with its gradient, the prior less the posterior."""
        logits -= logits.max(axis=1, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=1, keepdims=True)
        joint = self.values * logits
        total = joint.sum(axis=1)
        logits -= joint / total[:, None]
        logits *= weights[:, None]
        return -float(weights @ np.log(total))


#: The losses of rows under a channel.
AnyLoss = RowLoss | TargetLoss | LikelihoodLoss


def row_loss(
    release: Release, method: Method, correction: float = 1.0, original: OriginalFeatures | None = None
) -> AnyLoss:
    """The loss of a release.

    Partly corrected targets are ``correction * unbiased + (1 - correction) * plain``. Where a label is resampled with
    probability ``lambda`` from a distribution q (cluster response; randomized response, with q uniform), that is
    ``(one_hot(z) - beta q) / (1 - beta)`` with ``beta / (1 - beta) = correction * lambda / (1 - lambda)``, the loss
    with Esfandiari et al.'s bias correction beta: both are mixtures of ``one_hot(z)`` and ``q`` in shares that sum to
    one, and the shares of q agree.

    Args:
        release: Released labels; for labels that were declared public, every method is plain cross entropy.
        method: ``"likelihood"`` (forward correction, Patrini et al. 2017), ``"unbiased"`` (backward correction,
            Natarajan et al. 2013; unbiased vectors that do not sum to one are projected:
            ``w + (1 - sum_j w_j) / k`` is unbiased too and has ``1 - 1/k`` times the variance), or ``"plain"``, which
            takes released labels for true ones, and a set of classes for equal shares of them.
        correction: With ``"unbiased"``: the share of the correction, from 0 to 1. Less has less variance and more
            bias.
        original: Probabilities that the features are the original ones, where some were resampled.

    References:
        Patrini et al. 2017, forward and backward correction.

        Esfandiari et al. 2022, Algorithm 1, lines 29-30, and Theorem 2 for the choice of beta.
    """
    _checks.among(method, "a method", METHODS)
    is_share = isinstance(correction, int | float) and 0 <= correction <= 1
    if not is_share or (correction != 1 and method != "unbiased"):
        raise InputError(
            f"expected a correction from 0 to 1, and below 1 only with method='unbiased', found {correction!r} with "
            f"{method!r}"
        )
    if original is not None:
        return _resampled_loss(release, method, correction, original.of(release))
    if release.is_public:
        method = "plain"
    return _label_loss(release, method, correction)


def _resampled_loss(release: Release, method: Method, correction: float, original: OriginalFeatures) -> AnyLoss:
    """The loss of rows some of whose features were resampled; see ``OriginalFeatures``."""
    if method == "plain":
        raise InputError("expected the method 'likelihood' or 'unbiased' for resampled features, found 'plain'")
    loss, k = _label_loss(release, method, correction), release.channel.classes
    if isinstance(loss, RowLoss) and loss.likelihood:
        parts = (loss.take(rows).dense(k) @ original.prior for rows in blocks(len(release), k))
        mean = np.concatenate([np.zeros(0), *parts])
        inside, other, outside = (
            original.shares * value + (1.0 - original.shares) * mean
            for value in (loss.inside, loss.other, loss.outside)
        )
        return dataclasses.replace(loss, inside=inside, other=other, outside=outside)
    return TargetLoss(loss.dense(k) - (1.0 - original.shares)[:, None] * original.prior)


def _label_loss(release: Release, method: Method, correction: float) -> AnyLoss:
    """The loss of a release whose features are all original."""
    levels, n, k = release.class_channel.levels(release.codes), len(release), release.channel.classes
    supported = levels.support is not None
    support = pack(levels.support) if levels.support is not None else np.empty((n, 0), dtype=np.uint8)
    size = np.count_nonzero(levels.mask, axis=1)
    if method == "unbiased" and not release.class_channel.even:
        return TargetLoss(correction * release.unbiased() + (1 - correction) * levels.mask / size[:, None])
    zero, one = np.zeros(n), np.ones(n)
    if method == "likelihood" and levels.values is not None:
        return LikelihoodLoss(levels.values)
    if method == "likelihood":
        outside = levels.outside if levels.outside is not None else one
        values = (np.broadcast_to(levels.high, n), one, np.broadcast_to(outside, n))
        return _packed_loss(levels.mask, support, values, likelihood=True)
    values = (1.0 / np.maximum(size, 1), np.where(size == 0, 1.0 / k, 0.0), zero)
    if method == "unbiased":
        chance = release.class_channel.membership
        inside = np.broadcast_to((1 - chance.other) / (chance.true - chance.other), n)
        other = np.broadcast_to(-chance.other / (chance.true - chance.other), n)
        spare = np.zeros(n) if supported else (1.0 - size * inside - (k - size) * other) / k
        corrected = (inside + spare, other + spare, zero)
        partly = (correction * full + (1 - correction) * plain for full, plain in zip(corrected, values, strict=True))
        return _packed_loss(levels.mask, support, tuple(partly), likelihood=False)
    return _packed_loss(levels.mask, support, values, likelihood=False)


def _packed_loss(mask: np.ndarray, support: np.ndarray, values: tuple[np.ndarray, ...], *, likelihood: bool) -> RowLoss:
    """The loss with three values for each row."""
    inside, other, outside = (np.array(value, dtype=np.float64) for value in values)
    return RowLoss(pack(mask), support, inside, other, outside, likelihood)


@dataclass(frozen=True, eq=False)
class SyntheticRows:
    """Features that a generator drew, as many for each class, and the weight of their loss.

    With features x~ that were resampled with probability r, and w the unbiased vector of the released label,

        E_P[l(h(x), y)] = (E[sum_j w_j l(h(x~), j)] - r E_{Qbar x P_Y}[l(h(x), y)]) / (1 - r).

    Proof. The label's noise does not depend on the features, so ``E[w | x~, y] = one_hot(y)``, and the first term is
    ``(1 - r) E_P[l(h(x), y)] + r E_{Qbar x P_Y}[l(h(x), y)]``, since resampled features are independent of y.

    So the m synthetic rows have total weight ``-r / (1-r)``, released rows ``1 / (1-r)``, and the target of a synthetic
    row is pi. In a finite sample the sum is not convex, and only a penalty keeps it bounded below.

    Attributes:
        features: Rows of the generator, as many for each class.
        prior: pi, the shares of the classes in declared order, shape (k,).
        replaced: r, the probability that features were resampled.

    References:
        Busa-Fekete et al. 2023, Lemma G.1, with the sign of the second term reversed, its sum over classes divided by
        their number, and probabilities that may differ for label and features.
    """

    features: Any
    prior: Float[np.ndarray, "k"]
    replaced: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "replaced", resampling_probability(self.replaced))
        if not row_count(self.features):
            raise InputError("expected at least one synthetic row, found none")

    def of(self, release: Release, method: str) -> SyntheticRows:
        """The object itself, if its loss can be subtracted from that of a release under a method."""
        if method != "unbiased":
            raise InputError(f"expected the method 'unbiased' with synthetic rows, found {method!r}")
        if self.prior.shape != (release.space.size,):
            raise InputError(f"expected the shares of {release.space.size} classes, found {self.prior.shape}")
        return self

    def append_to(
        self, features: Any, loss: AnyLoss, weights: Float[np.ndarray, "n"]
    ) -> tuple[Any, TargetLoss, Float[np.ndarray, "rows"]]:
        """Released rows followed by the synthetic ones: features, losses, and weights with the same sum as before."""
        count, keep = row_count(self.features), 1.0 - self.replaced
        targets = np.vstack([loss.dense(len(self.prior)), np.tile(self.prior, (count, 1))])
        less = np.full(count, -self.replaced * weights.sum() / count)
        return stack_rows(features, self.features), TargetLoss(targets), np.concatenate([weights, less]) / keep


def stack_rows(first: Any, second: Any) -> Any:
    """Concatenate rows: of arrays, sparse matrices, or frames of one library."""
    if hasattr(first, "iloc"):
        import pandas  # noqa: PLC0415 (where there is a frame, there is pandas)

        return pandas.concat([first, second], ignore_index=True)
    if issparse(first) or issparse(second):
        return vstack([first, second]).tocsr()
    return np.concatenate([np.asarray(first), np.asarray(second)])
