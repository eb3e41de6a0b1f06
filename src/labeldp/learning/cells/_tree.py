"""A tree of clusters of rows: small clusters, and larger ones that were merged from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped


@dataclass(frozen=True, eq=False)
class ClusterTree:
    """Small clusters of rows that were found in public features alone, and the larger ones that they merge to.

    Nodes are numbered: leaves from 0, then what each merge makes, and the last one holds all rows.

    Attributes:
        leaves: The leaf of each row.
        merges: The two nodes that each merge puts together, shape (leaves - 1, 2).
        finder: What gives new rows their leaves.
    """

    leaves: Int[np.ndarray, "n"]
    merges: Int[np.ndarray, "m 2"]
    finder: Any

    def __post_init__(self) -> None:
        for name in ("leaves", "merges"):
            array = np.array(getattr(self, name), dtype=np.int64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def count(self) -> int:
        """How many leaves there are; some may have no rows."""
        return len(self.merges) + 1

    def predict(self, features: Any) -> Int[np.ndarray, "m"]:
        """The leaves of new rows.

        Args:
            features: Features like those that the tree was found in, shape (m, d).
        """
        return np.asarray(self.finder(features), dtype=np.int64)

    def __repr__(self) -> str:
        return f"<a tree of {self.count} clusters of {len(self.leaves)} rows>"


def ward(centres: Float[np.ndarray, "m d"], sizes: Shaped[np.ndarray, "m"]) -> Int[np.ndarray, "m-1 2"]:
    """Merges of clusters, each that of the two whose union adds least to the squares of distances to centres.

    References:
        Ward 1963.
    """
    count = len(centres)
    centre, size = centres.astype(np.float64), np.maximum(sizes, 1).astype(np.float64)
    node, merges = np.arange(count), np.empty((count - 1, 2), dtype=np.int64)
    added = np.stack([_added(centre, size, i) for i in range(count)])
    for step in range(count - 1):
        one, other = divmod(int(added.argmin()), count)
        merges[step] = node[one], node[other]
        share = size[other] / (size[one] + size[other])
        centre[one] += share * (centre[other] - centre[one])
        size[one] += size[other]
        node[one] = count + step
        row = np.where(np.isinf(added[one]), np.inf, _added(centre, size, one))  # clusters that are gone stay gone
        added[one], added[:, one] = row, row
        added[other], added[:, other] = np.inf, np.inf
    return merges


def _added(centre: Float[np.ndarray, "m d"], size: Float[np.ndarray, "m"], one: int) -> Float[np.ndarray, "m"]:
    """What a union with each other cluster adds to the squares; infinite with itself."""
    found = ((centre - centre[one]) ** 2).sum(axis=1) * size * size[one] / (size + size[one])
    found[one] = np.inf
    return np.asarray(found)
