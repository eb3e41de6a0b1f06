"""Trees of clusters of rows: small clusters, and larger ones merged from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from labeldp._arrays import freeze_arrays
from labeldp._documented import documented_in
from labeldp._shapes import Float, Int, Shaped


@documented_in("labeldp.learning.cells")
@dataclass(frozen=True, eq=False)
class ClusterTree:
    """Small clusters of rows by public features alone, and the larger ones that they merge to.

    Nodes are numbered: leaves from 0, then the merges in order; the last node holds all rows.

    Attributes:
        leaves: Leaf of each row.
        merges: The two nodes that each merge joins, shape (leaves - 1, 2).
        finder: Function from new rows to their leaves.
    """

    leaves: Int[np.ndarray, "n"]
    merges: Int[np.ndarray, "m 2"]
    finder: Any

    def __post_init__(self) -> None:
        freeze_arrays(self, leaves=np.int64, merges=np.int64)

    @property
    def count(self) -> int:
        """Number of leaves, including those without rows."""
        return len(self.merges) + 1

    def predict(self, features: Any) -> Int[np.ndarray, "m"]:
        """The leaves of new rows.

        Args:
            features: Features like those that the tree was built from, shape (m, d).
        """
        return np.asarray(self.finder(features), dtype=np.int64)

    def __repr__(self) -> str:
        return f"<a tree of {self.count} clusters of {len(self.leaves)} rows>"


def ward(centres: Float[np.ndarray, "m d"], sizes: Shaped[np.ndarray, "m"]) -> Int[np.ndarray, "m-1 2"]:
    """Ward's merges of clusters: each joins the two whose union adds least to the squared distances to centres.

    References:
        Ward 1963.
    """
    count = len(centres)
    centre, size = centres.astype(np.float64), np.maximum(sizes, 1).astype(np.float64)
    node, merges = np.arange(count), np.empty((count - 1, 2), dtype=np.int64)
    added = cdist(centre, centre, "sqeuclidean") * np.outer(size, size) / np.add.outer(size, size)
    np.fill_diagonal(added, np.inf)
    nearest = added.argmin(axis=1)
    least = added[np.arange(count), nearest]
    for step in range(count - 1):
        one = int(least.argmin())
        other = int(nearest[one])
        merges[step] = node[one], node[other]
        share = size[other] / (size[one] + size[other])
        centre[one] += share * (centre[other] - centre[one])
        size[one] += size[other]
        node[one] = count + step
        row = np.where(np.isinf(added[one]), np.inf, _merge_costs(centre, size, one))  # merged clusters stay excluded
        added[one], added[:, one] = row, row
        added[other], added[:, other] = np.inf, np.inf
        least[other] = np.inf
        stale = np.flatnonzero((nearest == one) | (nearest == other) | (row < least))
        nearest[stale] = added[stale].argmin(axis=1)
        least[stale] = added[stale, nearest[stale]]
    return merges


def _merge_costs(centre: Float[np.ndarray, "m d"], size: Float[np.ndarray, "m"], one: int) -> Float[np.ndarray, "m"]:
    """Increase in the sum of squares by merging a cluster with each other one; infinite for itself."""
    offsets = centre - centre[one]
    costs = np.einsum("md,md->m", offsets, offsets) * size * size[one] / (size + size[one])
    costs[one] = np.inf
    return np.asarray(costs)
