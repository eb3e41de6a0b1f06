"""The compiled loop of patches: responses of filters at every place, above a threshold, averaged over cells."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import TYPE_CHECKING

from labeldp._native import kernel

if TYPE_CHECKING:
    import numpy as np

    from labeldp._shapes import Float32


@kernel("line", "means")
def add_cell_means(
    products: Float32[np.ndarray, "n h w f"],
    scales: Float32[np.ndarray, "n h w"],
    above: Float32[np.ndarray, "f"],
    below: Float32[np.ndarray, "f"],
    rows: Float32[np.ndarray, "c h"],
    columns: Float32[np.ndarray, "c w"],
    line: Float32[np.ndarray, "l 2 f"],
    means: Float32[np.ndarray, "n c c 2 f"],
) -> None:
    """Add the mean responses of each cell: responses above one bound and below another, both from zero on.

    Args:
        products: Product of each filter with the patch at each place.
        scales: One over the contrast of each patch.
        above: A response counts from here on.
        below: Its opposite counts from here on.
        rows: Weight of each row of places in each row of cells.
        columns: The same of columns.
        line: Room for one more than a row of cells.
        means: Where to add.
    """
