"""Cross entropy under a channel on a network's logits, dense only per batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from labeldp import _checks
from labeldp._shapes import Float, Float32, Int
from labeldp.errors import InputError
from labeldp.learning.losses import OriginalFeatures, row_loss
from labeldp.privacy import declared_columns
from labeldp.release import Release

NetworkMethod = Literal["likelihood", "unbiased", "posterior", "plain"]
NETWORK_METHODS: tuple[NetworkMethod, ...] = ("likelihood", "unbiased", "posterior", "plain")


def forward_loss(log_probs: Float[Tensor, "b k"], values: Float[Tensor, "b k"]) -> Float[Tensor, "b"]:
    """``-log sum_j v_j p_j``, from ``log p`` and ``log v``."""
    return -torch.logsumexp(log_probs + values, dim=1)


def posterior_loss(log_probs: Float[Tensor, "b k"], values: Float[Tensor, "b k"]) -> Float[Tensor, "b"]:
    """The cross entropy ``-sum_j q_j log p_j`` on the posterior ``q_j = v_j p_j / sum_i v_i p_i``, held fixed.

    With logits z the gradient of ``forward_loss`` is ``p_j - q_j`` (Fisher's identity), and so is this one, since q
    sums to one. Second derivatives differ.
    """
    targets = torch.softmax(log_probs.detach() + values, dim=1)
    return -(targets * log_probs).sum(dim=1)


def linear_loss(log_probs: Float[Tensor, "b k"], values: Float[Tensor, "b k"]) -> Float[Tensor, "b"]:
    """``sum_j t_j (-log p_j)`` for targets t."""
    return -(values * log_probs).sum(dim=1)


_FORMS: MappingProxyType[str, Callable[[Tensor, Tensor], Tensor]] = MappingProxyType(
    {"likelihood": forward_loss, "posterior": posterior_loss, "unbiased": linear_loss, "plain": linear_loss}
)


@dataclass(frozen=True, eq=False)
class BatchLoss:
    """Loss of a batch of released labels; called with logits in declared order, it returns the loss of each row.

    Attributes:
        values: Log likelihood of each class, up to a constant for each row; or targets.
        weights: Weight of each row.
        method: Kind of loss.
    """

    values: Float[Tensor, "b k"]
    weights: Float[Tensor, "b"]
    method: NetworkMethod

    def __call__(self, logits: Float[Tensor, "b k"]) -> Float[Tensor, "b"]:
        """The weighted loss of each row, in single precision at least."""
        if logits.shape != self.values.shape:
            raise InputError(
                f"expected logits of shape {tuple(self.values.shape)}, rows by declared classes, found "
                f"{tuple(logits.shape)}; give the network {self.values.shape[1]} outputs"
            )
        precise = logits if logits.dtype == torch.float64 else logits.float()
        log_probs = torch.log_softmax(precise, dim=1)
        return _FORMS[self.method](log_probs, self.values.to(log_probs)) * self.weights.to(log_probs)

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Int[Tensor, "m"]) -> BatchLoss:
        """The loss of some of the rows."""
        return BatchLoss(self.values[rows], self.weights[rows], self.method)

    def to(self, device: torch.device | str) -> BatchLoss:
        """The same loss on a device."""
        return BatchLoss(self.values.to(device), self.weights.to(device), self.method)


@dataclass(frozen=True, eq=False)
class LabelLoss:
    """Loss of a release, made dense batch by batch: in memory is what was released, and a weight for each row.

    Attributes:
        release: Released labels.
        method: Kind of loss.
        correction: Share of the correction, with ``"unbiased"``.
        weights: Weight of each row.
        prior: Prior of the class of each row, with which the loss is the cross entropy on a fixed posterior.
        original: Probabilities that features are original, if some were resampled.
    """

    release: Release
    method: NetworkMethod
    correction: float
    weights: Float32[np.ndarray, "n"]
    prior: Float32[np.ndarray, "n k"] | None = None
    original: OriginalFeatures | None = None

    @classmethod
    def of(
        cls,
        release: Release,
        method: NetworkMethod = "likelihood",
        correction: float = 1.0,
        weights: Float[np.ndarray, "n"] | None = None,
        prior: object = None,
        original: OriginalFeatures | None = None,
    ) -> LabelLoss:
        """The loss of a release.

        Args:
            release: Released labels; if they were declared public, every method is plain cross entropy.
            method: ``"likelihood"``, ``"unbiased"`` and ``"plain"`` as in ``row_loss``; ``"posterior"``: the cross
                entropy on the posterior of the true class under the model's own prediction and the channel.
            correction: With ``"unbiased"``: share of the correction, from 0 to 1.
            weights: Weight of each row, by default 1.
            prior: P(true = j | further knowledge of the row), up to a factor: ``ClassProbabilities``, or an array of
                shape (n, k) if the classes were declared in sorted order; ignored for labels that were declared public.
            original: Probabilities that features are original, if some were resampled; targets are then computed
                batch by batch.

        References:
            Patrini et al. 2017 (forward), Natarajan et al. 2013 (backward), Malek et al. 2021, section 3.2 (posterior).
        """
        _checks.among(method, "a method", NETWORK_METHODS)
        shares = None if prior is None else _checked_prior(prior, release, method)
        if release.is_public and original is None:
            method, shares = "plain", None
        if shares is not None and original is not None:
            raise InputError("expected a prior or the original features, found both; leave one out")
        if original is not None:
            original.of(release)
        each = np.ones(len(release)) if weights is None else weights
        loss = cls(release, method, correction, np.asarray(each, dtype=np.float32), shares, original)
        loss._dense(np.arange(0))  # the correction is checked before any batch
        return loss

    def __len__(self) -> int:
        return len(self.release)

    def take(self, rows: Int[np.ndarray, "m"]) -> BatchLoss:
        """The loss of some of the rows, in dense form."""
        weights, values = torch.from_numpy(self.weights[rows]), torch.from_numpy(self._dense(rows))
        if self.prior is None:
            return BatchLoss(values, weights, self.method)
        known = torch.from_numpy(self.prior[rows]).double().log() + values
        return BatchLoss(torch.softmax(known, dim=1).float(), weights, "plain")

    def _dense(self, rows: Int[np.ndarray, "m"]) -> Float32[np.ndarray, "m k"]:
        method = "likelihood" if self.method == "posterior" else self.method
        original = None if self.original is None else self.original.take(rows)
        loss = row_loss(rows_of(self.release, rows), method, self.correction, original)
        dense = loss.dense(self.release.channel.classes)
        return (np.log(dense) if method == "likelihood" else dense).astype(np.float32)


def _checked_prior(prior: object, release: Release, method: NetworkMethod) -> Float32[np.ndarray, "n k"]:
    """Check a prior of the classes of each row, and normalise it."""
    shape = (len(release), release.channel.classes)
    if method not in ("likelihood", "posterior"):
        raise InputError(f"expected the method likelihood or posterior with a prior, found {method!r}")
    odds = np.asarray(declared_columns(prior, release.space), dtype=np.float64)
    if odds.shape != shape or not np.isfinite(odds).all() or (odds < 0.0).any() or not (odds.sum(axis=1) > 0).all():
        raise InputError(
            f"expected a prior of shape {shape} whose rows are finite, not negative and not all zero, found one of "
            f"shape {odds.shape} or other rows; use ClassProbabilities.of(model, features) of these rows"
        )
    shares = odds / odds.sum(axis=1, keepdims=True)
    return np.asarray(np.maximum(shares, np.finfo(np.float32).tiny), dtype=np.float32)


def rows_of(release: Release, rows: slice | Int[np.ndarray, "m"]) -> Release:
    """Some rows of a release without a certificate of their own, which would take a hash each time."""
    return dataclasses.replace(release, codes=release.codes[rows], channel=release.channel.take(rows))
