"""Batches of features and released labels, and the outputs of a network for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from torch import Tensor, nn
from torch.utils.data import Dataset

from labeldp._shapes import Float, Int
from labeldp._threads import blocks
from labeldp.errors import InputError
from labeldp.learning.features import row_count, row_weights
from labeldp.learning.losses import OriginalFeatures, require_release
from labeldp.learning.sklearn import check_released_rows
from labeldp.learning.torch._losses import BatchLoss, LabelLoss, NetworkMethod
from labeldp.release import Release, check_same_rows

#: Gray levels of an image in bytes.
_WHITE = 255

#: Rows per batch of predictions.
PREDICTED = 1024


class ReleasedRows(Dataset[tuple[Any, BatchLoss]]):
    """PyTorch data set of features and of the loss of each row's released label.

    It is loaded in whole batches: ``rows[[3, 1, 4]]`` returns features as tensors and a ``BatchLoss``, which is called
    with logits of the classes in declared order, ``release.space.points``. Until then labels stay in their compact
    released form.

    Args:
        features: Rows along the first axis: a tensor, an array (memory-mapped or not), a sparse matrix, a frame of
            numbers, or a tuple of these, such as users and items. Bytes count as images and are divided by 255, real
            numbers become ``dtype``, whole numbers become indices.
        release: A release with a label for each row.
        method: ``"likelihood"``, ``"unbiased"``, ``"posterior"`` or ``"plain"``.
        correction: With ``"unbiased"``: share of the correction, from 0 to 1.
        sample_weight: Weights of rows, which are scaled to a mean of one.
        prior: P(true = j | further knowledge of a row), as for ``TorchClassifier.fit``.
        original: Probabilities that features are original, if some were resampled.
        dtype: Type of real-valued features.

    Guarantee:
        It holds only released labels and draws none: models trained on it, over any number of epochs, are covered by
        the release's guarantee.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> from labeldp.learning.torch import ReleasedRows
        >>> space = Classes(["no", "yes"])
        >>> release = Curator(["no", "yes", "yes"], space).randomize(RandomizedResponse(space, epsilon=1.0))
        >>> rows = ReleasedRows(np.zeros((3, 4)), release)
        >>> features, loss = rows[[0, 2]]
        >>> tuple(features.shape), tuple(loss(features[:, :2]).shape)
        ((2, 4), (2,))
    """

    def __init__(
        self,
        features: Any,
        release: Release,
        method: NetworkMethod = "likelihood",
        *,
        correction: float = 1.0,
        sample_weight: Any = None,
        prior: Any = None,
        original: OriginalFeatures | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.features = as_rows(features)
        check_released_rows(self.features, require_release(release))
        check_same_rows(features, release)  # ``as_rows`` drops an index
        weights = row_weights(sample_weight, len(release))
        self.loss = LabelLoss.of(release, method, correction, weights / weights.mean(), prior, original)
        self.dtype = dtype

    def __len__(self) -> int:
        return len(self.loss)

    def __getitem__(self, rows: Any) -> tuple[Any, BatchLoss]:
        """Features and losses of some rows, by number; one row makes a batch of one."""
        chosen = np.atleast_1d(np.asarray(rows, dtype=np.int64))
        return tensor_rows(self.features, chosen, self.dtype), self.loss.take(chosen)


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
    return predicted


def weight_dtype(module: nn.Module) -> torch.dtype:
    """The type of a network's weights."""
    dtype = next((each.dtype for each in module.parameters() if each.is_floating_point()), None)
    if dtype is None:
        raise InputError(f"expected a network with weights to learn, found {type(module).__name__} without any")
    return dtype
