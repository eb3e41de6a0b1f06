"""The compiled loop of patches: responses of filters at every place, above a threshold, averaged over cells."""

# Compiled functions take their types from the call, so the type checker has nothing to hold on to here.
# mypy: disallow-untyped-defs=False, disallow-untyped-decorators=False, disallow-untyped-calls=False

from __future__ import annotations

import numpy as np

from labeldp._compile import compiled


@compiled()
def add_cell_means(products, scales, above, below, rows, columns, means):
    """Add the mean responses of each cell: responses above one bound and below another, both from zero on.

    Args:
        products: Product of each filter with the patch at each place, shape (n, height, width, filters).
        scales: One over the contrast of each patch, shape (n, height, width).
        above: A response counts from here on, shape (filters,).
        below: Its opposite counts from here on, shape (filters,).
        rows: Weight of each row of places in each row of cells, shape (cells, height).
        columns: The same of columns, shape (cells, width).
        means: Where to add, shape (n, cells, cells, 2, filters).
    """
    count, height, width, filters = products.shape
    cells = len(rows)
    line = np.zeros((cells, 2, filters), np.float32)
    both = np.zeros((2, filters), np.float32)
    zero = np.float32(0.0)
    for image in range(count):
        for y in range(height):
            line[:] = zero
            for x in range(width):
                for k in range(filters):
                    response = products[image, y, x, k] * scales[image, y, x]
                    both[0, k] = max(response - above[k], zero)
                    both[1, k] = max(below[k] - response, zero)
                for cell in range(cells):
                    weight = columns[cell, x]
                    if weight > zero:
                        for k in range(filters):
                            line[cell, 0, k] += weight * both[0, k]
                            line[cell, 1, k] += weight * both[1, k]
            for cell in range(cells):
                weight = rows[cell, y]
                if weight > zero:
                    for across in range(cells):
                        for k in range(filters):
                            means[image, cell, across, 0, k] += weight * line[across, 0, k]
                            means[image, cell, across, 1, k] += weight * line[across, 1, k]
