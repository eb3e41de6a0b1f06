"""Sums over the nearest rows of each of some rows, exactly, and fast enough for many rows and many neighbours.

All distances of a few rows at a time are products of matrices in single precision. Where these do not tell, by a bound
of their rounding, which rows are the nearest, those are ranked in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Float32, Int

from labeldp._threads import over_chunks
from labeldp.errors import InputError

#: How many entries a block of distances has at most: 64 MiB in each thread.
_ENTRIES = 1 << 24
#: One row in so many tells about how near the nearest are; so many standard deviations are added.
_STEP, _DEVIATIONS = 32, 6.0
#: Twice the relative rounding of single precision; the other half is for what double precision adds.
_ROUNDING = 2.0**-23
_LARGEST_POWER = 1000
_LARGEST = 1e100
#: Into how many parts the work is cut to tell how far it is.
_REPORTS = 20


def neighbour_sums(
    features: Float[np.ndarray, "n d"],
    rows: Int[np.ndarray, "m"],
    values: Float[np.ndarray, "n s"],
    neighbours: int,
    progress: Callable[[str, int, int], None] | None = None,
) -> Float[np.ndarray, "m s"]:
    """For each of some rows, the sums of values over its nearest other rows, by Euclidean distance.

    Of rows that are equally far the earlier ones are taken: whoever needs neighbours that depend on features alone must
    put rows into a random order first. Distances are those of the centred features in double precision.

    Args:
        features: Finite features of all rows, shape (n, d), on the scale that distances are meant on.
        rows: The numbers of the rows whose neighbours are wanted, shape (m,).
        values: What is summed, shape (n, s).
        neighbours: How many other rows, between 1 and n - 1.
        progress: Called with the name of the work, the rows done, and the rows in all.

    Returns:
        Sums, shape (m, s).

    Example:
        >>> import numpy as np
        >>> features, labels = np.array([[0.0], [1.0], [3.0], [7.0]]), np.array([[1.0], [0.0], [0.0], [1.0]])
        >>> neighbour_sums(features, np.array([0, 3]), labels, 2).tolist()
        [[0.0], [0.0]]
    """
    search = _Search(features, neighbours)
    found = np.empty((len(rows), values.shape[1]))
    step = max(1, _ENTRIES // len(features))
    for part in np.array_split(np.arange(len(rows)), min(_REPORTS, len(rows))):

        def fill(chunk: slice, part: Int[np.ndarray, "p"] = part) -> None:
            for place, near in zip(part[chunk], search.nearest(rows[part[chunk]]), strict=True):
                found[place] = values[near].sum(axis=0)

        over_chunks(fill, len(part), step)
        if progress is not None:
            progress("neighbours", int(part[-1]) + 1, len(rows))
    return found


def check_features(features: object, rows: int) -> Float[np.ndarray, "n d"]:
    """Finite features in rows and columns, of as many rows as there are labels, which are at least two."""
    found = np.asarray(features)
    if found.ndim != 2 or found.dtype.kind not in "fiub" or not found.size:
        raise InputError(
            f"expected numbers in rows and columns as features, found {found.dtype} of shape {found.shape}; encode "
            "categories as numbers, and bring columns to a common scale"
        )
    if len(found) != rows:
        raise InputError(f"expected features of {rows} rows, as many as there are labels, found {len(found)}")
    if rows < 2:
        raise InputError(f"expected at least two rows, so that one has a neighbour, found {rows}")
    points = found.astype(np.float64)
    if not (np.abs(points) <= _LARGEST).all():
        raise InputError(f"expected finite features of at most {_LARGEST:g}, found NaN, infinity or larger ones")
    return points


class _Search:
    """Rows to search neighbours among.

    A candidate y of x is ranked by ``|y|^2 - 2 x.y`` in single precision. Its rounding is at most
    ``c |y| (|y| + |x|)`` with ``c = (d + 8) 2^-23``: of d products and their sum ``d 2^-24`` times ``2 |x| |y|``, of
    rounding x, y, the square and the difference the rest (Higham 2002, section 3.1).
    """

    def __init__(self, features: Float[np.ndarray, "n d"], neighbours: int) -> None:
        points = np.asarray(features, dtype=np.float64)
        points = points - points.mean(axis=0)
        power = min(-math.frexp(float(np.abs(points).max()))[1], _LARGEST_POWER)
        self.points = points * 2.0**power  # exact, and no square overflows
        self.norms = np.sqrt((self.points**2).sum(axis=1))
        self.single, self.squares = self.points.astype(np.float32), (self.norms**2).astype(np.float32)
        self.doubled = np.ascontiguousarray(-2.0 * self.single.T)
        self.neighbours = neighbours
        self.rounding = (points.shape[1] + 8) * _ROUNDING

    def nearest(self, rows: Int[np.ndarray, "b"]) -> list[Int[np.ndarray, "k"]]:
        """The neighbours of some rows."""
        scores = self.single[rows] @ self.doubled
        scores += self.squares
        scores[np.arange(len(rows)), rows] = np.inf  # no row is its own neighbour
        return [self._of_row(int(row), line) for row, line in zip(rows, scores, strict=True)]

    def _of_row(self, row: int, scores: Float32[np.ndarray, "n"]) -> Int[np.ndarray, "k"]:
        """The nearest, by double precision where scores do not tell.

        Let s be the k-th smallest score. The k rows with scores up to s have distances of at most ``D^2 = |x|^2 + s +
        rounding``, so that the k nearest do, and all these have norms of at most ``|x| + D``. With E the rounding of
        scores at such norms, the k-th smallest squared distance is at most ``|x|^2 + s + E``; it is at least ``|x|^2 +
        s - E``, since otherwise k scores were below s. So a row with a score above ``s + 2E`` is not among the k
        nearest, and one with a score below ``s - 2E`` is.
        """
        norm, first = self.norms[row], self._first(scores)
        last, longest = float(scores[first].max()), float(self.norms[first].max())
        square = norm**2 + last + self.rounding * longest * (longest + norm)
        reach = norm + math.sqrt(max(square, 0.0))
        doubt = 2.0 * self.rounding * reach * (reach + norm)
        near = np.flatnonzero(scores <= np.nextafter(np.float32(last + doubt), np.float32(np.inf)))
        sure = scores[near].astype(np.float64) < last - doubt
        close = near[~sure]
        distances = ((self.points[close] - self.points[row]) ** 2).sum(axis=1)
        chosen = close[np.argsort(distances, kind="stable")[: self.neighbours - int(sure.sum())]]
        return np.concatenate([near[sure], chosen])

    def _first(self, scores: Float32[np.ndarray, "n"]) -> Int[np.ndarray, "k"]:
        """The rows of the k smallest scores, found below a limit that some of the scores tell."""
        some = scores[::_STEP]
        share = self.neighbours / _STEP
        rank = math.ceil(share + _DEVIATIONS * math.sqrt(share) + _DEVIATIONS)
        if rank < len(some):
            low = np.flatnonzero(scores <= np.partition(some, rank)[rank])
            if len(low) >= self.neighbours:
                return np.asarray(low[np.argpartition(scores[low], self.neighbours - 1)[: self.neighbours]])
        return np.asarray(np.argpartition(scores, self.neighbours - 1)[: self.neighbours])
