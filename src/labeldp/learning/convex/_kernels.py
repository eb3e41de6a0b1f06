"""The compiled loop of descent: a step for each row, dense or sparse, with a running mean of all points."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import TYPE_CHECKING

from labeldp._native import kernel

if TYPE_CHECKING:
    import numpy as np

    from labeldp._shapes import Float64, Int64


@kernel("gradient")
def mean_gradient(
    loss: int,
    scores: Float64[np.ndarray, "s"],
    weights: Float64[np.ndarray, "k"],
    points: Float64[np.ndarray, "k"],
    gradient: Float64[np.ndarray, "s"],
) -> None:
    """Write ``sum_j w_j g_j(z)`` of a row; see ``_losses`` for each loss."""


@kernel("core", "rest", "state", "work")
def descend(
    indptr: Int64[np.ndarray, "e"],
    indices: Int64[np.ndarray, "z"],
    sparse: bool,
    data: Float64[np.ndarray, "v"],
    end: float,
    part: Int64[np.ndarray, "m"],
    loss: int,
    weights: Float64[np.ndarray, "m k"],
    points: Float64[np.ndarray, "k"],
    rates: Float64[np.ndarray, "m"],
    shares: Float64[np.ndarray, "m"],
    pace: float,
    radius: float,
    l2: float,
    core: Float64[np.ndarray, "c s"],
    rest: Float64[np.ndarray, "c s"],
    state: Float64[np.ndarray, "4"],
    work: Float64[np.ndarray, "2 s"],
) -> None:
    """One step for each row of a part of the rows.

    Args:
        indptr: With ``indices``, ``sparse`` and ``data``, a CSR matrix of all rows.
        indices: The columns of the data; unused for dense rows.
        sparse: True unless every row has all columns.
        data: The entries of the rows.
        end: The number appended to each row for the intercept, 0 for none.
        part: Numbers of the rows to visit, in order.
        loss: The number of the loss.
        weights: The unbiased vector of each row of the part.
        points: The possible labels on the scale of the scores, for losses of numeric labels.
        rates: The length of each step, if ``pace`` is 0.
        shares: The weight of each step in the mean of the point before it.
        pace: If above 0, the number that steps are over the root of the sum of squared gradients so far.
        radius: The radius of the ball in which parameters stay.
        l2: This times half the squared length of the parameters is added to the loss.
        core: The parameters over their scale; overwritten.
        rest: What the sum of points has besides the core; overwritten.
        state: Scale, weight of the core in the sum, squared length, and sum of squared gradients; overwritten.
        work: Room for the scores and the gradient of a row.
    """
