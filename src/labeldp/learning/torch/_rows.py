"""Batches of features and released labels, and the outputs of a network for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from torch import Tensor, nn

from labeldp._shapes import Float, Float32, Int
from labeldp._threads import blocks
from labeldp.columns import floats
from labeldp.errors import InputError
from labeldp.learning.features import row_count, row_weights
from labeldp.learning.losses import OriginalFeatures, require_release
from labeldp.learning.sklearn import check_released_rows
from labeldp.learning.torch._losses import LIKELIHOODS, ChannelLoss, NetworkMethod
from labeldp.privacy import declared_columns
from labeldp.release import Release

#: Gray levels of an image in bytes.
_WHITE = 255

#: Rows per batch of predictions.
PREDICTED = 1024


class ReleasedRows:
    """Features and released labels of the rows that a network is trained on, read in whole batches.

    Args:
        features: Rows along the first axis: a tensor, an array (memory-mapped or not), a sparse matrix, a frame of
            numbers, or a tuple of these, such as users and items. Bytes count as images and are divided by 255, real
            numbers become ``dtype``, whole numbers become indices.
        release: A release with a label for each row.
        loss: The loss that reads the labels.
        sample_weight: Weights of rows, which are scaled to a mean of one.
        prior: P(true = j | further knowledge of a row), as for ``TorchClassifier.fit``.
        original: Probabilities that features are original, if some were resampled.
        dtype: Type of real-valued features.
    """

    def __init__(
        self,
        features: Any,
        release: Release,
        loss: ChannelLoss,
        *,
        sample_weight: Any = None,
        prior: Any = None,
        original: OriginalFeatures | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.features, self.dtype = as_rows(features), dtype
        check_released_rows(self.features, require_release(release))
        weights = row_weights(sample_weight, len(release))
        self.labels: dict[str, np.ndarray] = {
            "targets": release.targets(features),  # ``as_rows`` drops an index
            "weights": (weights / weights.mean()).astype(np.float32),
        }
        if prior is not None:
            self.labels["prior"] = _checked_prior(prior, release, loss.method)
        if prior is not None and original is not None:
            raise InputError("expected a prior or the original features, found both; leave one out")
        if original is not None and loss.method == "plain":
            raise InputError("expected a method that knows of resampled features, found 'plain'; use 'likelihood'")
        self.original = None if original is None else original.of(release)

    def __len__(self) -> int:
        return len(self.labels["targets"])

    def __getitem__(self, rows: Int[np.ndarray, "m"]) -> tuple[Any, dict[str, Tensor]]:
        """Features of some rows, by number, and the arguments of the loss but its outputs."""
        labels = {name: torch.from_numpy(each[rows]) for name, each in self.labels.items()}
        if self.original is not None:
            part = self.original.take(rows)
            labels["resampled"] = torch.from_numpy((1.0 - part.shares)[:, None] * part.prior).float()
        return tensor_rows(self.features, rows, self.dtype), labels


def _checked_prior(prior: object, release: Release, method: NetworkMethod) -> Float32[np.ndarray, "n k"]:
    """Check a prior of the classes of each row, and normalise it."""
    shape = (len(release), release.channel.classes)
    if method not in LIKELIHOODS:
        raise InputError(f"expected the method likelihood or posterior with a prior, found {method!r}")
    odds = floats(declared_columns(prior, release.space), "a prior")
    if odds.shape != shape or not np.isfinite(odds).all() or (odds < 0.0).any() or not (odds.sum(axis=1) > 0).all():
        raise InputError(
            f"expected a prior of shape {shape} whose rows are finite, not negative and not all zero, found one of "
            f"shape {odds.shape} or other rows; use ClassProbabilities.of(model, features) of these rows"
        )
    shares = odds / odds.sum(axis=1, keepdims=True)
    return np.asarray(np.maximum(shares, np.finfo(np.float32).tiny), dtype=np.float32)


def as_rows(features: Any) -> Any:
    """Convert features so that rows can be indexed by number."""
    if isinstance(features, tuple):
        return tuple(as_rows(part) for part in features)
    if isinstance(features, Tensor | np.ndarray) and features.ndim:
        return features
    rows = features.tocsr() if issparse(features) else np.asarray(features)
    if not rows.ndim:
        raise InputError(f"expected features with rows, found {type(features).__name__}")
    return rows


def shape_of(features: Any) -> str:
    """The shape of features, for messages."""
    if isinstance(features, tuple):
        return " and ".join(shape_of(part) for part in features)
    return str(tuple(features.shape))


def kinds_of(features: Any) -> tuple[str, ...]:
    """The kind of numbers in each part of features: a network scales bytes and real ones, and looks up whole ones."""
    if isinstance(features, tuple):
        return tuple(kind for part in features for kind in kinds_of(part))
    kind = str(features.dtype).removeprefix("torch.")
    return ("bytes" if kind == "uint8" else "whole numbers" if "int" in kind else "real numbers",)


def tensor_rows(features: Any, rows: Int[np.ndarray, "m"], dtype: torch.dtype) -> Any:
    """Some rows as tensors, of the types that a network takes."""
    if isinstance(features, tuple):
        return tuple(tensor_rows(part, rows, dtype) for part in features)
    if isinstance(features, Tensor):
        return _network_numbers(features[torch.from_numpy(rows).to(features.device)], dtype)
    part = features[rows]
    return _network_numbers(_tensor(part.toarray() if issparse(part) else part), dtype)


def _tensor(part: np.ndarray) -> Tensor:
    """A tensor that shares the memory of an array without other references."""
    if part.dtype.kind not in "biuf":
        raise InputError(f"expected features that are numbers, found an array of {part.dtype}; encode them first")
    wide = part.dtype.kind == "u" and part.dtype.itemsize > 1  # PyTorch cannot compute with these
    return torch.from_numpy(np.asarray(part, dtype=np.int64 if wide else part.dtype.newbyteorder("=")))


def _network_numbers(part: Tensor, dtype: torch.dtype) -> Tensor:
    if part.dtype == torch.uint8:
        return part.to(dtype) / _WHITE
    return part.to(dtype if part.is_floating_point() or part.dtype == torch.bool else torch.int64)


def to_device(features: Any, device: torch.device, *, channels_last: bool = False) -> Any:
    """Move features to a device."""
    if isinstance(features, tuple):
        return tuple(to_device(part, device, channels_last=channels_last) for part in features)
    there = features.to(device, non_blocking=True)
    return there.contiguous(memory_format=torch.channels_last) if channels_last and there.ndim == 4 else there


def outputs(model: nn.Module, features: Any) -> Float[Tensor, "m k"]:
    """Logits of a batch."""
    try:
        logits = model(*features) if isinstance(features, tuple) else model(features)
    except torch.cuda.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise InputError(
            f"expected a network that takes a batch of shape {shape_of(features)}, found one that does not: {error}"
        ) from error
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        found = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise InputError(f"expected a network whose outputs are rows by declared classes, found {found}")
    return logits


def probabilities(model: nn.Module, features: Any) -> Float[np.ndarray, "m k"]:
    """Probabilities of the classes, in double precision."""
    model.eval()
    with torch.inference_mode():
        return torch.softmax(outputs(model, features).double(), dim=1).cpu().numpy()  # type: ignore[no-any-return]


def predicted_rows(
    model: nn.Module, features: Any, classes: int, device: torch.device, *, channels_last: bool = False
) -> Float[np.ndarray, "n k"]:
    """The probabilities of classes for all rows of features, batch by batch."""
    predicted = np.empty((row_count(features), classes))
    dtype = weight_dtype(model)
    for rows in blocks(len(predicted), entries=PREDICTED):
        batch = tensor_rows(features, np.arange(rows.start, rows.stop), dtype)
        predicted[rows] = probabilities(model, to_device(batch, device, channels_last=channels_last))
    if not (known := np.isfinite(predicted).all(axis=1)).all():
        raise InputError(
            f"expected finite predictions, found others at position {int(np.argmin(known))}; are its features, and the "
            "weights of the network, finite and not too large?"
        )
    return predicted


def weight_dtype(module: nn.Module) -> torch.dtype:
    """The type of a network's weights."""
    dtype = next((each.dtype for each in module.parameters() if each.is_floating_point()), None)
    if dtype is None:
        raise InputError(f"expected a network with weights to learn, found {type(module).__name__} without any")
    return dtype
