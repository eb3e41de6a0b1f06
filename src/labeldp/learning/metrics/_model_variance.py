"""Variance that what rows add to a metric has, if a model is right.

Few rows may by chance show no rare class, or no rare error of a released label. Then the variance between them is too
small, and so is an interval from it. The predictions of a model, and the output distribution of the channel, say how
often rare labels are to be expected; the variance that follows is a lower limit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.privacy.channels import ClassSetChannel, row_arrays
from labeldp.release import Release

#: Most classes, or grid points, of a channel; of sets, whose outcomes are as many as there are sets.
_MOST_CLASSES, _MOST_OF_SETS = 256, 8
#: Most rows times outcomes.
_MOST = 20_000_000


def model_variance(
    release: Release,
    added: Callable[[np.ndarray], Float[np.ndarray, "n m"]],
    predicted: Float[np.ndarray, "n k"] | Int[np.ndarray, "n"],
) -> tuple[float, float]:
    """Variance of a sum over rows, if labels have predicted distributions and are released, and the part of labels.

    The other part is that of the noise. Both are 0 if they are too much work.

    Args:
        release: Released labels of n rows.
        added: What each row adds to the sum, for each of m released labels.
        predicted: Predicted distributions of labels, or codes of predicted labels.
    """
    channel = release.channel
    if row_arrays(channel) or channel.classes > (
        _MOST_OF_SETS if isinstance(channel, ClassSetChannel) else _MOST_CLASSES
    ):
        return 0.0, 0.0
    try:
        table = channel.table()
    except InputError:  # a fine grid
        return 0.0, 0.0
    if table.matrix.shape[1] * len(release) > _MOST:
        return 0.0, 0.0
    values = added(table.outcomes)
    if predicted.ndim == 1:
        return _variance(table.matrix[predicted], values), 0.0
    return _variance(predicted @ table.matrix, values), _variance(predicted, values @ table.matrix.T)


def _variance(chances: Float[np.ndarray, "n m"], values: Float[np.ndarray, "n m"]) -> float:
    """Sum of the variances of rows."""
    mean = (chances * values).sum(axis=1, keepdims=True)
    return float((chances * (values - mean) ** 2).sum())
