"""Exact sums over each row's nearest neighbours, for many rows and many neighbours.

Distances of a block of rows to all rows are products of matrices in single precision. Candidates that a bound on the
rounding leaves undecided are ranked in double precision.
"""

from __future__ import annotations

import math

import numpy as np

from labeldp._progress import Progress, silent
from labeldp._shapes import Float, Float32, Int
from labeldp._threads import over_chunks
from labeldp.errors import InputError

#: Maximum number of distances in a block: 64 MiB in each thread.
_ENTRIES = 1 << 24
#: One row in so many estimates the distance of the k-th neighbour; so many standard deviations are added.
_STEP, _DEVIATIONS = 32, 6.0
#: Twice the relative rounding of single precision; the other half is for what double precision adds.
_ROUNDING = 2.0**-23
_LARGEST_POWER = 1000
_LARGEST = 1e100
#: Number of parts into which the work is cut for progress reports.
_REPORTS = 20


def neighbour_sums(
    features: Float[np.ndarray, "n d"],
    rows: Int[np.ndarray, "m"],
    values: Float[np.ndarray, "n s"],
    neighbours: int,
    progress: Progress | None = None,
) -> Float[np.ndarray, "m s"]:
    """Sum values over the nearest other rows of each of some rows, by Euclidean distance.

    Among equally distant rows the earlier ones are taken: if neighbours must depend on features alone, shuffle the rows
    first. Distances are those of the centred features in double precision.

    Args:
        features: Finite features of all rows, shape (n, d), on the scale of the distances.
        rows: Numbers of the rows whose neighbours are summed, shape (m,).
        values: Values to sum, shape (n, s).
        neighbours: Number of neighbours, between 1 and n - 1.
        progress: Called with the name of the work, the rows done, and the total number of rows.

    Returns:
        Sums, shape (m, s).

    Example:
        >>> import numpy as np
        >>> features, labels = np.array([[0.0], [1.0], [3.0], [7.0]]), np.array([[1.0], [0.0], [0.0], [1.0]])
        >>> neighbour_sums(features, np.array([0, 3]), labels, 2).tolist()
        [[0.0], [0.0]]
    """
    search = _Search(features, neighbours)
    sums = np.empty((len(rows), values.shape[1]))
    step = max(1, _ENTRIES // len(features))
    for part in np.array_split(np.arange(len(rows)), min(_REPORTS, len(rows))):

        def fill(chunk: slice, part: Int[np.ndarray, "p"] = part) -> None:
            for place, near in zip(part[chunk], search.nearest(rows[part[chunk]]), strict=True):
                sums[place] = values[near].sum(axis=0)

        over_chunks(fill, len(part), step)
        (progress or silent)("neighbours", int(part[-1]) + 1, len(rows))
    return sums


def check_features(features: object, rows: int) -> Float[np.ndarray, "n d"]:
    """Validate finite features: a matrix with as many rows as there are labels, at least two."""
    array = np.asarray(features)
    if array.ndim != 2 or array.dtype.kind not in "fiub" or not array.size:
        raise InputError(
            f"expected a matrix of numbers as features, found {array.dtype} of shape {array.shape}; encode "
            "categories as numbers, and bring columns to a common scale"
        )
    if len(array) != rows:
        raise InputError(f"expected features of {rows} rows, as many as there are labels, found {len(array)}")
    if rows < 2:
        raise InputError(f"expected at least two rows, for a row to have a neighbour, found {rows}")
    points = array.astype(np.float64)
    if not (np.abs(points) <= _LARGEST).all():
        raise InputError(f"expected finite features of at most {_LARGEST:g}, found NaN, infinity or larger ones")
    return points


class _Search:
    """Index for exact neighbour search.

    A candidate y of x is ranked by ``|y|^2 - 2 x.y`` in single precision. Its rounding error is at most ``c |y| (|y| +
    |x|)`` with ``c = (d + 8) 2^-23``: d products and their sum contribute ``d 2^-24`` times ``2 |x| |y|``, rounding x,
    y, the square and the difference the rest (Higham 2002, section 3.1).
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
        """The nearest rows, in double precision where single precision does not decide.

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
        """Rows of the k smallest scores, below a limit that is estimated from some of the scores."""
        some = scores[::_STEP]
        share = self.neighbours / _STEP
        rank = math.ceil(share + _DEVIATIONS * math.sqrt(share) + _DEVIATIONS)
        if rank < len(some):
            low = np.flatnonzero(scores <= np.partition(some, rank)[rank])
            if len(low) >= self.neighbours:
                return np.asarray(low[np.argpartition(scores[low], self.neighbours - 1)[: self.neighbours]])
        return np.asarray(np.argpartition(scores, self.neighbours - 1)[: self.neighbours])
