"""Linear and Gaussian kernels of rows, approximated from landmarks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse

from labeldp import _checks
from labeldp._shapes import Float

#: Rows that serve as landmarks, and most columns of which a linear kernel needs none.
_LANDMARKS, _FEW_COLUMNS = 100, 300
#: Directions of landmarks with less of the largest variance are left out.
_LEAST_VARIANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Kernel:
    """Features of rows in a kernel: products of what is linear or near in a row with the columns of a map.

    Attributes:
        width: Squared width of a Gaussian kernel, of which nearness to landmarks is taken; infinite for a linear one.
        map: Coefficients of the features, shape (c, f), of the c inputs.
        columns: Coefficients of the inputs of a linear kernel of many columns, shape (d, c); None for the columns.
    """

    width: float
    map: Float[np.ndarray, "c f"]
    columns: Float[np.ndarray, "d c"] | None = None

    def inputs(self, rows: Any, distances: Float[np.ndarray, "n l"]) -> Float[np.ndarray, "n c"]:
        """The inputs of rows with some squared distances to the landmarks."""
        if self.columns is not None:
            return np.asarray(rows @ self.columns)
        near = nearness(rows, distances, self.width)
        return near.toarray() if issparse(near) else np.asarray(near)

    def of_columns(self, coefficients: Float[np.ndarray, "f k"]) -> Float[np.ndarray, "d k"]:
        """Coefficients of features as those of columns, or of nearness to landmarks."""
        inner = self.map @ coefficients
        return np.asarray(inner if self.columns is None else self.columns @ inner)


@dataclass(frozen=True, eq=False)
class Kernels:
    """A linear kernel and Gaussian ones, with their landmarks.

    Attributes:
        landmarks: Rows that serve as landmarks, shape (l, d).
        each: The kernels, the linear one first.
    """

    landmarks: Float[np.ndarray, "l d"]
    each: tuple[Kernel, ...]

    @classmethod
    def of(cls, features: Any, widths: Sequence[float]) -> Self:
        """The kernels of rows, with widths over the median squared distance of two landmarks."""
        landmarks = _landmarks(features)
        return cls(landmarks, tuple(_kernels(landmarks, features.shape[1], widths)))

    def likely(self, best: float) -> list[int]:
        """The places of the kernels that more rows may favour: the linear one, the best of few rows, the next narrower.

        More rows show finer structure.

        Args:
            best: The squared width of the kernel that few rows favour.
        """
        narrow = [place for place, each in enumerate(self.each) if place and each.width <= best]
        return [0, *sorted(narrow, key=lambda place: -self.each[place].width)[:2]]


def _kernels(landmarks: Float[np.ndarray, "l d"], columns: int, widths: Sequence[float]) -> Iterator[Kernel]:
    distances = squared_distances(landmarks, landmarks)
    far = distances[distances > 0.0]
    if columns <= _FEW_COLUMNS:
        yield Kernel(np.inf, np.eye(columns))
    else:
        yield Kernel(np.inf, _whitening(landmarks @ landmarks.T), landmarks.T)
    for width in widths if len(far) else ():
        size = _checks.positive(width, "widths") * float(np.median(far))
        yield Kernel(size, _whitening(nearness(landmarks, distances, size)))


def _landmarks(features: Any) -> Float[np.ndarray, "l d"]:
    """Some rows, by public chance."""
    rows = features.shape[0]
    chosen = np.sort(np.random.default_rng(0).permutation(rows)[:_LANDMARKS])  # of public rows
    return np.asarray(features[chosen].toarray() if issparse(features) else features[chosen])


def squared_distances(rows: Any, landmarks: Float[np.ndarray, "l d"]) -> Float[np.ndarray, "n l"]:
    """Squared distances of rows and landmarks."""
    own = rows.multiply(rows).sum(axis=1) if issparse(rows) else np.einsum("nd,nd->n", rows, rows)
    products = np.asarray(rows @ landmarks.T)
    found = np.asarray(own).reshape(-1, 1) + np.einsum("ld,ld->l", landmarks, landmarks) - 2.0 * products
    return np.asarray(np.maximum(found, 0.0))


def nearness(rows: Any, distances: Float[np.ndarray, "n l"], width: float) -> Any:
    """The nearness of rows to landmarks in a Gaussian kernel; in a linear one the rows themselves."""
    return rows if np.isinf(width) else np.exp(-distances / (2.0 * width))


def _whitening(kernel: Float[np.ndarray, "l l"]) -> Float[np.ndarray, "l f"]:
    """The map from nearness to landmarks to features whose products are about those of the kernel."""
    values, vectors = np.linalg.eigh(kernel + 1e-8 * np.eye(len(kernel)))
    some = values > _LEAST_VARIANCE * values.max()
    return np.asarray(vectors[:, some] / np.sqrt(values[some]))
