"""Cross entropy under a channel on a network's logits: compact beside the features, dense in a batch alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Float32, Int, UInt8
from torch import Tensor

from labeldp.errors import InputError
from labeldp.learning.losses import OriginalFeatures, RowLoss, TargetLoss, row_loss
from labeldp.privacy.channels import pack, unpack
from labeldp.release import Release

NetworkMethod = Literal["likelihood", "unbiased", "posterior", "plain"]
NETWORK_METHODS: tuple[NetworkMethod, ...] = ("likelihood", "unbiased", "posterior", "plain")

#: What is written out at a time while a release is brought into compact form.
_ENTRIES_PER_CHUNK = 1 << 24


def forward_loss(chances: Float[Tensor, "b k"], values: Float[Tensor, "b k"]) -> Float[Tensor, "b"]:
    """``-log sum_j v_j p_j``, from ``log p`` and ``log v``."""
    return -torch.logsumexp(chances + values, dim=1)


def posterior_loss(chances: Float[Tensor, "b k"], values: Float[Tensor, "b k"]) -> Float[Tensor, "b"]:
    """The cross entropy ``-sum_j q_j log p_j`` on the posterior ``q_j = v_j p_j / sum_i v_i p_i``, held fixed.

    With logits z the gradient of ``forward_loss`` is ``p_j - q_j`` (Fisher's identity), and so is this one, since q
    sums to one. Second derivatives differ.
    """
    targets = torch.softmax(chances.detach() + values, dim=1)
    return -(targets * chances).sum(dim=1)


def linear_loss(chances: Float[Tensor, "b k"], values: Float[Tensor, "b k"]) -> Float[Tensor, "b"]:
    """``sum_j t_j (-log p_j)`` for targets t."""
    return -(values * chances).sum(dim=1)


_FORMS: MappingProxyType[str, Callable[[Tensor, Tensor], Tensor]] = MappingProxyType(
    {"likelihood": forward_loss, "posterior": posterior_loss, "unbiased": linear_loss, "plain": linear_loss}
)


@dataclass(frozen=True, eq=False)
class BatchLoss:
    """What a batch of released labels asks of logits: called with logits, it gives the loss of each row.

    Attributes:
        values: The logarithm of the likelihood up to a term for each row, or targets, of each class.
        weights: The weight of each row.
        method: Which loss.
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
        exact = logits if logits.dtype == torch.float64 else logits.float()
        chances = torch.log_softmax(exact, dim=1)
        return _FORMS[self.method](chances, self.values.to(chances)) * self.weights.to(chances)

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Int[Tensor, "m"]) -> BatchLoss:
        """What some of the rows ask."""
        return BatchLoss(self.values[rows], self.weights[rows], self.method)

    def to(self, device: torch.device | str) -> BatchLoss:
        """The same on a device."""
        return BatchLoss(self.values.to(device), self.weights.to(device), self.method)


@dataclass(frozen=True, eq=False)
class LabelLoss:
    """The loss of a release in compact form: three values for each row, and where which of them holds.

    A class takes four bytes and a set one bit for each class, whatever the loss, so ten million rows of a thousand
    classes need 40 MB or 1.25 GB beside 120 MB of values, where dense targets would need 80 GB.

    Attributes:
        mask: Where the first value holds: class codes, or sets as packed bits.
        support: Where the third does not hold, as packed bits; no columns where it holds nowhere.
        values: On the mask, off it, outside the support: log likelihoods, or targets; no columns where uneven.
        weights: The weight of each row.
        uneven: The release, where targets differ from class to class and are made batch by batch.
        method: Which loss.
        correction: How much of the correction is made, with ``"unbiased"``.
        classes: Number of classes.
        prior: What else is known of the class of each row, which makes the loss the cross entropy on a fixed posterior.
        original: What is known of whether features are the row's own, where some were redrawn.
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
            release: Released labels; where they were declared public, every method is plain cross entropy.
            method: ``"likelihood"``, ``"unbiased"`` and ``"plain"`` as in ``row_loss``; ``"posterior"``: the cross
                entropy on the posterior of the true class under the model's own prediction and the channel.
            correction: With ``"unbiased"``: how much of the correction is made, from 0 to 1.
            weights: The weight of each row, by default 1.
            prior: P(true = j | what else is known of the row), up to a factor; labels that were declared public go
                before it.
            original: What is known of whether features are original, where some were resampled; targets are then made
                batch by batch.

        References:
            Patrini et al. 2017 (forward), Natarajan et al. 2013 (backward), Malek et al. 2021, section 3.2 (posterior).
        """
        if method not in NETWORK_METHODS:
            raise InputError(f"expected a method among {', '.join(NETWORK_METHODS)}, found {method!r}")
        told = None if prior is None else _checked_prior(prior, release, method)
        if release.is_public and original is None:
            method, told = "plain", None
        if told is not None and original is not None:
            raise InputError(
                "expected a prior, or what is known of whose features these are, found both; leave one out"
            )
        if original is not None:
            original.of(release)
        n, k = len(release), release.channel.classes
        each = np.ones(n, dtype=np.float32) if weights is None else np.asarray(weights, dtype=np.float32)
        if method == "unbiased" and (original is not None or not release.class_channel.even):
            row_loss(rows_of(release, slice(0)), method, correction)  # the correction is checked before any batch
            none, unset = np.empty((n, 0), dtype=np.uint8), np.empty((n, 0), dtype=np.float32)
            return cls(_compact(release.codes), none, unset, each, release, method, correction, k, original=original)
        step = max(1, _ENTRIES_PER_CHUNK // k)
        parts = [_values(release, slice(low, low + step), method, correction, original) for low in range(0, n, step)]
        support, values = (np.concatenate(each) for each in zip(*parts, strict=True))
        return cls(_compact(release.codes), support, values, each, None, method, correction, k, told, original)

    def __len__(self) -> int:
        return len(self.mask)

    def take(self, rows: Int[np.ndarray, "m"]) -> BatchLoss:
        """What some of the rows ask, written out."""
        weights, values = torch.from_numpy(self.weights[rows]), torch.from_numpy(self._dense(rows))
        if self.prior is None:
            return BatchLoss(values, weights, self.method)
        known = torch.from_numpy(self.prior[rows]).double().log() + values
        return BatchLoss(torch.softmax(known, dim=1).float(), weights, "plain")

    def _dense(self, rows: Int[np.ndarray, "m"]) -> Float32[np.ndarray, "m k"]:
        if self.uneven is not None:
            original = None if self.original is None else self.original.take(rows)
            loss = row_loss(rows_of(self.uneven, rows), "unbiased", self.correction, original)
            assert isinstance(loss, TargetLoss)  # noqa: S101 (what it is where classes differ)
            return loss.targets.astype(np.float32)
        inside, other, outside = self.values[rows].T[:, :, None]
        if self.mask.ndim == 1:
            found = np.repeat(other, self.classes, axis=1)
            np.put_along_axis(found, self.mask[rows, None], inside, axis=1)
        else:
            found = np.where(unpack(self.mask[rows], self.classes), inside, other)
        if self.support.shape[1]:
            found = np.where(unpack(self.support[rows], self.classes), found, outside)
        return found


def _checked_prior(prior: object, release: Release, method: NetworkMethod) -> Float32[np.ndarray, "n k"]:
    """A prior with room for each class of each row."""
    shape = (len(release), release.channel.classes)
    if method not in ("likelihood", "posterior"):
        raise InputError(f"expected the method likelihood or posterior with a prior, found {method!r}")
    found = np.asarray(prior, dtype=np.float64)
    if found.shape != shape or not np.isfinite(found).all() or (found < 0.0).any() or not (found.sum(axis=1) > 0).all():
        raise InputError(
            f"expected a prior of shape {shape} whose rows are finite, not negative and not all zero, found one of "
            f"shape {found.shape} or other rows; give what predict_proba of a model says of these rows"
        )
    shares = found / found.sum(axis=1, keepdims=True)
    return np.asarray(np.maximum(shares, np.finfo(np.float32).tiny), dtype=np.float32)


def rows_of(release: Release, rows: slice | Int[np.ndarray, "m"]) -> Release:
    """Some rows, to read their labels from: a slice of a release would be hashed each time."""
    return dataclasses.replace(release, codes=release.codes[rows], channel=release.channel.take(rows))


def _compact(codes: np.ndarray) -> np.ndarray:
    """Class codes and packed sets as they are; sets that are masks, packed."""
    return np.asarray(pack(codes)) if codes.dtype == np.bool_ else codes


def _values(
    release: Release, rows: slice, method: NetworkMethod, correction: float, original: OriginalFeatures | None
) -> tuple[UInt8[np.ndarray, "n c"], Float32[np.ndarray, "n 3"]]:
    """The packed support and the three values of some rows."""
    known = None if original is None else original.take(rows)
    loss = row_loss(rows_of(release, rows), "likelihood" if method == "posterior" else method, correction, known)
    assert isinstance(loss, RowLoss)  # noqa: S101 (what it is where classes are alike)
    values = np.stack([loss.inside, loss.other, loss.outside], axis=1)
    return loss.support, (np.log(values) if loss.likelihood else values).astype(np.float32)
