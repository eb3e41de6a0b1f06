"""Losses of released labels on a network's outputs, and the values that they combine, dense only per batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from labeldp import _checks
from labeldp._shapes import Float, Float32, Int, Integer
from labeldp.columns import floats
from labeldp.errors import InputError
from labeldp.learning.losses import Latent, Method, plain_numbers, require_release, row_loss, unbiased_numbers
from labeldp.privacy import Interval
from labeldp.privacy.channels import Channel, NumberChannel, pack, row_arrays
from labeldp.release import Release

NetworkMethod = Literal["likelihood", "unbiased", "posterior", "plain"]
NETWORK_METHODS: tuple[NetworkMethod, ...] = ("likelihood", "unbiased", "posterior", "plain")
#: The methods whose values are likelihoods.
LIKELIHOODS = ("likelihood", "posterior")

#: Most entries of a table of all released classes, and most classes of sets with a table.
_MOST_ENTRIES, _MOST_SET = 1 << 22, 12
#: Larger likelihoods, beside others of 1, are those of labels as good as public; single precision ends at 3e38.
_LARGEST = 1e30


@dataclass(frozen=True, eq=False)
class RowValues:
    """The values of released labels that a loss combines with a network's outputs.

    Attributes:
        method: Kind of loss.
        correction: Share of the correction, with ``"unbiased"``.
        around: True if labels are normal around predictions.
    """

    method: NetworkMethod
    correction: float
    around: bool

    def is_squared(self, release: Release) -> bool:
        """True if the values are numbers, whose squared difference from predictions is the loss."""
        return isinstance(release.space, Interval) and self.method not in LIKELIHOODS

    def __call__(self, release: Release) -> Float32[np.ndarray, "n c"]:
        """Numbers; or the likelihood of each class or cell, up to a factor for each row; or targets."""
        if self.is_squared(release):
            values = (plain_numbers(release) if self.method == "plain" else release.numbers())[:, None]
        elif self.around:
            values = Latent.of(release).likelihood()
        elif self.method in LIKELIHOODS and not release.is_public:
            values = release.likelihood()
        else:
            method: Method = "unbiased" if self.method == "unbiased" else "plain"
            values = row_loss(release, method, self.correction).dense(release.space.size)
        most = _LARGEST if self.method in LIKELIHOODS else np.inf
        return np.asarray(np.minimum(values, most), dtype=np.float32)

    def table(self, release: Release) -> Float32[np.ndarray, "m c"] | None:
        """The values of each possible released label, by the first word of its target.

        None if rows have parameters of their own, or there are too many labels.
        """
        labels = None if row_arrays(release.channel) else _every_label(release.channel)
        return None if labels is None else self(dataclasses.replace(release, codes=labels))


def _every_label(channel: Channel) -> np.ndarray | None:
    """Every released label of a channel that is the same for all rows, in the order of the words of targets."""
    if isinstance(channel, NumberChannel):
        return np.arange(len(channel.steps[0]), dtype=np.int16)
    if channel.form == "class":
        return np.arange(channel.classes, dtype=np.int32) if channel.classes**2 <= _MOST_ENTRIES else None
    if channel.form == "set" and channel.classes <= _MOST_SET:
        return pack((np.arange(1 << channel.classes)[:, None] >> np.arange(channel.classes)) & 1 == 1)
    try:
        return channel.table().outcomes if channel.form == "index" else None
    except ValueError:  # too many to write out
        return None


def rows_of(release: Release, rows: slice | Int[np.ndarray, "m"]) -> Release:
    """Some rows of a release, with the certificate of the whole."""
    return dataclasses.replace(release, codes=release.codes[rows], channel=release.channel.take(rows), identity=None)


#: Batches on another device than the CPU between two that are checked, since a check waits for the device.
_CHECKED_EVERY = 64


def forward_loss(probs: Float[Tensor, "b k"], values: Float[Tensor, "b k"]) -> Float[Tensor, "b"]:
    """``-log sum_j v_j p_j``; the sum is at least the smallest likelihood, so no small probability makes it zero."""
    return -(probs * values).sum(dim=1).log()


def linear_loss(log_probs: Float[Tensor, "b k"], values: Float[Tensor, "b k"]) -> Float[Tensor, "b"]:
    """``sum_j t_j (-log p_j)`` for targets t."""
    return -(values * log_probs).sum(dim=1)


def posterior(probs: Float[Tensor, "b k"], values: Float[Tensor, "b k"]) -> Float[Tensor, "b k"]:
    """``q_j = v_j p_j / sum_i v_i p_i``.

    The cross entropy on it, held fixed, is the loss of ``"posterior"``: with logits z the gradient of ``forward_loss``
    is ``p_j - q_j`` (Fisher's identity), and so is that of the cross entropy, since q sums to one. Second derivatives
    differ.
    """
    joint = probs * values
    return joint / joint.sum(dim=1, keepdim=True)


_REDUCTIONS: MappingProxyType[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {"mean": torch.mean, "sum": torch.sum, "none": lambda losses: losses}
)


class ChannelLoss(nn.Module):
    """The loss of a network's outputs on released labels, in place of ``nn.CrossEntropyLoss`` or ``nn.MSELoss``.

    It is called with outputs and a batch of ``release.targets()``, from any loader, in any order, on any device, of the
    release or a part of it. The outputs of a row are

    * logits of the classes in declared order, ``release.space.points``, shape (b, k); for numeric labels those of the
      grid points, with ``"likelihood"`` or ``"posterior"``;
    * for two classes also the log odds of the second one, shape (b,) or (b, 1), as for ``nn.BCEWithLogitsLoss``: such
      as the difference of two rewards, where the label says which of two answers was preferred;
    * for numeric labels with ``"unbiased"`` or ``"plain"``, a prediction in the label's unit, shape (b,) or (b, 1). The
      loss is the squared difference from the released number; with ``"unbiased"`` its mean, given the true label, is
      the squared error plus the variance of the noise, which no prediction changes;
    * for numeric labels with ``deviation``, a prediction too, around which labels are normal: the likelihood of
      ``ReleasedLabelRegressor``.

    A likelihood is known up to a constant for each row, so the loss of a perfect network is not zero.

    Args:
        release: The release, or a part of it: its channel, label space and mark are kept, and no row.
        method: ``"likelihood"``: minus the log likelihood of the released label (forward correction); ``"posterior"``:
            the cross entropy on the posterior of the true class under the outputs, with the same gradient;
            ``"unbiased"``: an unbiased estimate of the loss on true labels (backward correction); ``"plain"``: released
            labels as if they were true, as a baseline. On labels declared public all are the cross entropy.
        correction: With ``"unbiased"`` for classes: share of the correction, from 0 to 1.
        class_weights: With ``"unbiased"``: a weight for the loss on each class, in declared order, shape (k,).
        deviation: For predictions of numeric labels: standard deviation of labels around them, in their unit.
        reduction: ``"mean"`` or ``"sum"`` over rows, or ``"none"``.

    Guarantee:
        It holds no label and draws none: whatever is trained with it, over any number of epochs, is covered by the
        release's guarantee.

    References:
        Patrini et al. 2017 (forward), Natarajan et al. 2013 (backward), Malek et al. 2021, section 3.2 (posterior).

    Example:
        >>> import torch
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> from labeldp.learning.torch import ChannelLoss
        >>> space = Classes(["no", "yes"])
        >>> release = Curator(["no", "yes"] * 50, space).randomize(RandomizedResponse(space, epsilon=1.0))
        >>> rows = TensorDataset(torch.randn(100, 3), torch.from_numpy(release.targets()))
        >>> loss, network = ChannelLoss(release), torch.nn.Linear(3, space.size)
        >>> for features, targets in DataLoader(rows, batch_size=20, shuffle=True):
        ...     loss(network(features), targets).backward()
    """

    def __init__(
        self,
        release: Release,
        method: NetworkMethod = "likelihood",
        *,
        correction: float = 1.0,
        class_weights: object = None,
        deviation: float | None = None,
        reduction: Literal["mean", "sum", "none"] = "mean",
    ) -> None:
        super().__init__()
        self.release = rows_of(require_release(release), slice(0, 0))
        self.method = _checks.among(method, "a method", NETWORK_METHODS)
        self.reduction = _checks.among(reduction, "a reduction", tuple(_REDUCTIONS))
        self.deviation = None if deviation is None else _checks.positive(deviation, "deviation")
        self.values = RowValues(method, correction, deviation is not None)
        self.squared = self.values.is_squared(release)
        self.binary = self.release.space.size == 2 and not isinstance(self.release.space, Interval)
        self.certain = self.release.is_public and deviation is None
        self._check_arguments(correction)
        table, edges = self.values.table(self.release), None if deviation is None else Latent.of(self.release).edges
        for name, array in (("table", table), ("edges", edges), ("class_weights", self._checked(class_weights))):
            self.register_buffer(name, None if array is None else torch.from_numpy(array), persistent=False)
        self.width, self.batches = self.release.targets().shape[1], 0

    def _check_arguments(self, correction: float) -> None:
        """Refuse arguments that do not fit the channel, before any batch."""
        numeric = isinstance(self.release.space, Interval)
        if self.deviation is not None and not (numeric and self.method in LIKELIHOODS):
            raise InputError(
                "expected a deviation with numeric labels and the method 'likelihood' alone, found one with "
                f"{'numeric labels' if numeric else 'classes'} and {self.method!r}; leave it out"
            )
        if self.squared and self.method == "unbiased":
            unbiased_numbers(self.release)
        if numeric and correction != 1:
            raise InputError(f"expected no correction with numeric labels, found {correction!r}; leave it out")
        if not numeric:
            row_loss(self.release, "likelihood" if self.method == "posterior" else self.method, correction)

    def _checked(self, class_weights: object) -> Float32[np.ndarray, "k"] | None:
        """Weights of the classes, if the method can have some."""
        if class_weights is None:
            return None
        weights = floats(class_weights, "class weights").astype(np.float32)
        if self.squared or self.method != "unbiased":
            raise InputError(
                f"expected class weights for classes with method='unbiased' alone, found method={self.method!r}: the "
                "class of a row is not known, and its likelihood has no weight; to predict for other class shares add "
                "their log ratio to the logits"
            )
        if weights.shape != (self.release.space.size,) or not np.isfinite(weights).all() or (weights < 0).any():
            raise InputError(
                f"expected a weight of at least 0 for each of {self.release.space.size} declared classes, found others "
                f"of shape {weights.shape}"
            )
        return weights

    def forward(
        self,
        outputs: Float[Tensor, "b *k"],
        targets: Integer[Tensor, "b w"],
        weights: Float[Tensor, "b"] | None = None,
        *,
        prior: Float[Tensor, "b k"] | None = None,
        resampled: Float[Tensor, "b k"] | None = None,
    ) -> Float[Tensor, "*b"]:
        """The loss of a batch, in single precision at least.

        Args:
            outputs: Outputs of the network.
            targets: The same rows of ``release.targets()``.
            weights: A weight for the loss of each row; ``"mean"`` still divides by the number of rows.
            prior: P(true = j | further knowledge of the row): the loss is then the cross entropy to the fixed posterior
                ``q_j = prior_j P(released | j) / sum``.
            resampled: Probability that the row's features were resampled and its true class is j, as
                ``OriginalFeatures`` gives it.

        Raises:
            InputError: The outputs have another shape, or overflowed in half precision; or the targets are none, or
                those of another release.
        """
        self._check(outputs, targets)
        if prior is not None and (self.method not in LIKELIHOODS or self.edges is not None):
            raise InputError(f"expected the method likelihood or posterior with a prior, found {self.method!r}")
        precise = outputs if outputs.dtype == torch.float64 else outputs.float()
        if self.binary and outputs.numel() == len(targets):
            precise = nn.functional.pad(precise.reshape(-1, 1), (1, 0))
        values, method = self._values_of(targets, precise), "plain" if self.certain else self.method
        if resampled is not None:
            values, method = self._mixed(values, resampled.to(values)), self.method
        if self.squared:
            losses = (precise.flatten() - values[:, 0]) ** 2
        elif method == "likelihood" and prior is None:
            losses = forward_loss(self._probabilities(precise), values)
        else:
            losses = self._cross_entropy(precise, values, method, prior)
        if weights is not None:
            if weights.shape != losses.shape:
                raise InputError(
                    f"expected a weight for each of {len(losses)} rows, shape ({len(losses)},), found shape "
                    f"{tuple(weights.shape)}"
                )
            losses = losses * weights.to(losses)
        return _REDUCTIONS[self.reduction](losses)

    def _cross_entropy(
        self, outputs: Tensor, values: Tensor, method: NetworkMethod, prior: Tensor | None
    ) -> Float[Tensor, "b"]:
        """The cross entropy on targets: given ones, or the posterior under the outputs or a prior."""
        if self.edges is None:
            log_probs = torch.log_softmax(outputs, dim=1)
        else:
            log_probs = self._probabilities(outputs).clamp_min(torch.finfo(outputs.dtype).tiny).log()
        if prior is not None:
            values = posterior(prior.to(values), values)
        elif method == "posterior":
            values = posterior(log_probs.detach().exp(), values)
        elif self.class_weights is not None:
            values = values * self.class_weights.to(values)
        return linear_loss(log_probs, values)

    def _values_of(self, targets: Tensor, like: Tensor) -> Float[Tensor, "b c"]:
        """The values of a batch: from the table on its device, or from the channel of its rows on the CPU."""
        if self.table is None:
            rows = self.release.of_targets(targets.cpu().numpy().astype(np.int32, copy=False))
            return torch.from_numpy(self.values(rows)).to(like)
        if self.table.device != like.device:
            self.to(like.device)
        return self.table.index_select(0, targets[:, 1].to(like.device)).to(like.dtype)

    def _probabilities(self, outputs: Tensor) -> Float[Tensor, "b c"]:
        """Probabilities of the classes, or of the cells of the range for labels that are normal (``Latent``)."""
        if self.edges is None:
            return torch.softmax(outputs, dim=1)
        ends = (self.edges.to(outputs) - outputs.flatten()[:, None]) / self.deviation
        below = nn.functional.pad(torch.special.ndtr(ends), (1, 0))
        return nn.functional.pad(below, (0, 1), value=1.0).diff(dim=1)

    def _mixed(self, values: Tensor, resampled: Tensor) -> Float[Tensor, "b k"]:
        """The values of rows some of whose features were resampled; see ``OriginalFeatures``."""
        if self.method not in LIKELIHOODS:
            return values - resampled
        original = 1.0 - resampled.sum(dim=1, keepdim=True)
        mixed = original * values + (resampled * values).sum(dim=1, keepdim=True)
        return mixed.clamp_min(torch.finfo(mixed.dtype).tiny)

    # ------------------------------------------------------------------------------------------------------- checks

    def _check(self, outputs: Tensor, targets: Tensor) -> None:
        """Refuse targets and outputs that do not fit the release or each other."""
        if not isinstance(targets, Tensor) or targets.ndim != 2 or targets.shape[1] != self.width:
            found = f"shape {tuple(targets.shape)}" if isinstance(targets, Tensor) else type(targets).__name__
            raise InputError(
                f"expected targets of shape (b, {self.width}), rows of release.targets() as a tensor, found {found}"
            )
        if targets.is_floating_point():
            raise InputError(
                f"expected targets of whole numbers, found {targets.dtype}: a mean of targets is no target, so mix "
                "losses, share * loss(outputs, targets) + (1 - share) * loss(outputs, targets[order])"
            )
        if not len(targets):
            raise InputError("expected a batch of at least one row, found none; leave empty batches out")
        self._check_outputs(outputs, len(targets))
        is_checked = targets.device.type == "cpu" or self.batches % _CHECKED_EVERY == 0
        if is_checked and (targets[:, 0].cpu().numpy() != self.release.mark).any():
            raise InputError(
                "expected targets of the release that the loss was made from, or of a part of it, found others; "
                "make both from one release (Release.concat joins several)"
            )
        self.batches += 1

    def _check_outputs(self, outputs: Tensor, rows: int) -> None:
        one = self.squared or self.deviation is not None
        shapes = [(rows, 1 if one else self.release.space.size), *([(rows,), (rows, 1)] if one or self.binary else [])]
        if not isinstance(outputs, Tensor) or tuple(outputs.shape) not in shapes:
            found = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
            what = "a prediction for each row" if one else "rows by declared classes"
            more = "; or pass deviation= for a single prediction" if isinstance(self.release.space, Interval) else ""
            raise InputError(
                f"expected outputs of shape {shapes[0]}, {what}, found {found}; give the network {shapes[0][1]} "
                f"outputs{'' if one else more}"
            )
        if outputs.dtype == torch.float16 and not bool(torch.isfinite(outputs).all()):
            raise InputError(
                "expected finite outputs, found an overflow of half precision (float16 ends at 65504); compute in "
                "bfloat16, or scale features and numeric labels"
            )

    def extra_repr(self) -> str:
        """The release, the method and the reduction, for printing."""
        return f"{self.release.space!r}, {self.method!r}, reduction={self.reduction!r}"
