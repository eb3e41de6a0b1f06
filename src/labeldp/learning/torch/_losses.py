"""Cross entropy under a channel on a network's logits: compact for a whole release, dense only per batch."""

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
from labeldp._shapes import Float, Float32, Int, UInt8
from labeldp._threads import blocks
from labeldp.errors import InputError
from labeldp.learning.losses import OriginalFeatures, RowLoss, TargetLoss, row_loss
from labeldp.privacy.channels import pack, unpack
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
    """Loss of a batch of released labels; called with logits, it returns the loss of each row.

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
    """Loss of a release in compact form: three values for each row, and masks of the classes that have them.

    A class takes four bytes and a set one bit for each class, whatever the loss, so ten million rows of a thousand
    classes need 40 MB or 1.25 GB beside 120 MB of values, where dense targets would need 80 GB.

    Attributes:
        mask: Classes with the first value: class codes, or sets as packed bits.
        support: Classes without the third value, as packed bits; no columns if no class has the third.
        values: Values on the mask, off it, and outside the support: log likelihoods, or targets; no columns if uneven.
        weights: Weight of each row.
        uneven: The release, if targets differ from class to class and are computed batch by batch.
        method: Kind of loss.
        correction: Share of the correction, with ``"unbiased"``.
        classes: Number of classes.
        prior: Prior of the class of each row, with which the loss is the cross entropy on a fixed posterior.
        original: Probabilities that features are original, if some were resampled.
    """

    mask: Int[np.ndarray, "n"] | UInt8[np.ndarray, "n b"]
    support: UInt8[np.ndarray, "n c"]
    values: Float32[np.ndarray, "n v"]
    weights: Float32[np.ndarray, "n"]
    uneven: Release | None
    method: NetworkMethod
    correction: float
    classes: int
    prior: Float32[np.ndarray, "n k"] | None = None
    original: OriginalFeatures | None = None

    @classmethod
    def of(
        cls,
        release: Release,
        method: NetworkMethod = "likelihood",
        correction: float = 1.0,
        weights: Float[np.ndarray, "n"] | None = None,
        prior: Float[np.ndarray, "n k"] | None = None,
        original: OriginalFeatures | None = None,
    ) -> LabelLoss:
        """The loss of a release.

        Args:
            release: Released labels; if they were declared public, every method is plain cross entropy.
            method: ``"likelihood"``, ``"unbiased"`` and ``"plain"`` as in ``row_loss``; ``"posterior"``: the cross
                entropy on the posterior of the true class under the model's own prediction and the channel.
            correction: With ``"unbiased"``: share of the correction, from 0 to 1.
            weights: Weight of each row, by default 1.
            prior: P(true = j | further knowledge of the row), up to a factor; ignored for labels that were declared
                public.
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
        n, k = len(release), release.channel.classes
        each = np.ones(n, dtype=np.float32) if weights is None else np.asarray(weights, dtype=np.float32)
        if method == "unbiased" and (original is not None or not release.class_channel.even):
            row_loss(rows_of(release, slice(0)), method, correction)  # the correction is checked before any batch
            none, unset = np.empty((n, 0), dtype=np.uint8), np.empty((n, 0), dtype=np.float32)
            return cls(_packed_masks(release), none, unset, each, release, method, correction, k, original=original)
        parts = [_compact_values(release, rows, method, correction, original) for rows in blocks(n, k)]
        support, values = (np.concatenate(each) for each in zip(*parts, strict=True))
        return cls(_packed_masks(release), support, values, each, None, method, correction, k, shares, original)

    def __len__(self) -> int:
        return len(self.mask)

    def take(self, rows: Int[np.ndarray, "m"]) -> BatchLoss:
        """The loss of some of the rows, in dense form."""
        weights, values = torch.from_numpy(self.weights[rows]), torch.from_numpy(self._dense(rows))
        if self.prior is None:
            return BatchLoss(values, weights, self.method)
        known = torch.from_numpy(self.prior[rows]).double().log() + values
        return BatchLoss(torch.softmax(known, dim=1).float(), weights, "plain")

    def _dense(self, rows: Int[np.ndarray, "m"]) -> Float32[np.ndarray, "m k"]:
        if self.uneven is not None:
            original = None if self.original is None else self.original.take(rows)
            loss = row_loss(rows_of(self.uneven, rows), "unbiased", self.correction, original)
            assert isinstance(loss, TargetLoss)  # noqa: S101 (the type where classes differ)
            return loss.targets.astype(np.float32)
        inside, other, outside = self.values[rows].T[:, :, None]
        if self.mask.ndim == 1:
            dense = np.repeat(other, self.classes, axis=1)
            np.put_along_axis(dense, self.mask[rows, None], inside, axis=1)
        else:
            dense = np.where(unpack(self.mask[rows], self.classes), inside, other)
        if self.support.shape[1]:
            dense = np.where(unpack(self.support[rows], self.classes), dense, outside)
        return dense


def _checked_prior(prior: object, release: Release, method: NetworkMethod) -> Float32[np.ndarray, "n k"]:
    """Check a prior of the classes of each row, and normalise it."""
    shape = (len(release), release.channel.classes)
    if method not in ("likelihood", "posterior"):
        raise InputError(f"expected the method likelihood or posterior with a prior, found {method!r}")
    odds = np.asarray(prior, dtype=np.float64)
    if odds.shape != shape or not np.isfinite(odds).all() or (odds < 0.0).any() or not (odds.sum(axis=1) > 0).all():
        raise InputError(
            f"expected a prior of shape {shape} whose rows are finite, not negative and not all zero, found one of "
            f"shape {odds.shape} or other rows; use the result of predict_proba of a model for these rows"
        )
    shares = odds / odds.sum(axis=1, keepdims=True)
    return np.asarray(np.maximum(shares, np.finfo(np.float32).tiny), dtype=np.float32)


def rows_of(release: Release, rows: slice | Int[np.ndarray, "m"]) -> Release:
    """Some rows of a release without a certificate of their own, which would take a hash each time."""
    return dataclasses.replace(release, codes=release.codes[rows], channel=release.channel.take(rows))


def _packed_masks(release: Release) -> np.ndarray:
    """Class codes, or sets as packed bits, packed block by block where they have another form."""
    channel, codes = release.class_channel, release.codes
    if channel.form == "class" or codes.dtype == np.uint8:
        return codes
    parts = blocks(max(len(codes), 1), channel.classes)
    return np.concatenate([pack(channel.take(rows).mask(codes[rows])) for rows in parts])


def _compact_values(
    release: Release, rows: slice, method: NetworkMethod, correction: float, original: OriginalFeatures | None
) -> tuple[UInt8[np.ndarray, "n c"], Float32[np.ndarray, "n 3"]]:
    """The packed support and the three values of some rows."""
    known = None if original is None else original.take(rows)
    loss = row_loss(rows_of(release, rows), "likelihood" if method == "posterior" else method, correction, known)
    assert isinstance(loss, RowLoss)  # noqa: S101 (the type where classes are alike)
    values = np.stack([loss.inside, loss.other, loss.outside], axis=1)
    return loss.support, (np.log(values) if loss.likelihood else values).astype(np.float32)
