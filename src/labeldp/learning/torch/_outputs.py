"""Logits and probabilities of a network for a batch of features."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from labeldp._shapes import Float
from labeldp._threads import blocks
from labeldp.errors import InputError
from labeldp.learning.features import row_count
from labeldp.learning.torch._rows import shape_of, tensor_rows

#: Rows per batch of predictions.
PREDICTED = 1024


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
