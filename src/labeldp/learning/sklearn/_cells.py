"""Regression from what a curator answered about cells of rows: a table of means, and how to ask for it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Self

import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp.errors import InputError, LabelError
from labeldp.learning.cells import NUMBER_QUERIES, answered, cell_means, released_cell_means
from labeldp.learning.losses import real_labels
from labeldp.learning.sklearn._answers import cells_of_rows
from labeldp.learning.sklearn._regressor import NumberRegressor
from labeldp.mechanisms.queries import NoisyMean, NoisyQuantile
from labeldp.privacy import Interval, LabelSpace, rest_of
from labeldp.release import Answer, Curator, Release

#: A clipping level may be missed for one beyond all labels with at most this probability.
_MISSED = 1e-4
#: Where more than this share of the rows would lie beyond a clipping level, nothing is clipped.
_MOST_BEYOND = 0.25


class CellRegressor(NumberRegressor):
    """A table: each row has the mean label of its cell, drawn towards the mean of all rows as far as noise hides it.

    Args:
        clusters: What gives rows their cells: those of ``labeldp.learning.cells`` or ``labeldp.learning.cells``, or
            any fitted object whose ``predict`` gives numbers from 0.
        spread: The standard deviation of labels around the mean of their cell, if it is publicly known: then cells are
            drawn in for what chance does to labels, too. By default it is estimated from an answer to
            ``NoisyHistogram``; one to ``NoisyMean`` says nothing of it, and cells are drawn in for noise alone.

    Attributes:
        means_: The mean label of each cell; that of all rows where there is no row.
        standard_errors_: Their standard errors, of noise and, as far as it is known, of chance.
        overall_: The mean of all rows.
        overall_error_: Its standard error.
        between_: The standard deviation by which cells differ, as estimated; 0 where noise could have made all of it.
        range_: What labels were clipped to, as predictions are.
        answers_: The answers that were learned from.

    Guarantee:
        What is learned from answers is covered by their guarantees, at no further cost. Cells are taken from features
        alone, and must have been for the answers too.

    References:
        Zhao et al. 2025, equation (23) and theorem 8; Efron and Morris 1973, for what cells with few rows are given.

    Example:
        >>> import numpy as np
        >>> from labeldp import Curator, Interval, NoisyMean
        >>> from labeldp.learning.cells import tree_cells
        >>> from labeldp.learning.sklearn import CellRegressor
        >>> space, features = Interval(0.0, 10.0, 0.1), np.linspace(0.0, 1.0, 4000)[:, None]
        >>> cells = tree_cells(features, 8)
        >>> answer = Curator(10.0 * features[:, 0], space).answer(NoisyMean(space, 1.0, cells))
        >>> CellRegressor(cells).fit(features, answer).predict([[0.0], [1.0]]).round(0).tolist()
        [1.0, 9.0]
    """

    def __init__(self, clusters: Any, *, spread: float | None = None) -> None:
        self.clusters = clusters
        self.spread = spread

    def fit(self, X: Any, y: Answer | Release, cells: Any = None, overall: Answer | None = None) -> Self:  # noqa: N803
        """Read the table off an answer, or average released labels.

        Args:
            X: Features of the n rows that the answer is about.
            y: The answer to ``NoisyMean``, or to ``NoisyHistogram`` on an ``Interval`` with few points; or a release of
                real labels, each of which was randomized alone.
            cells: The cell of each row that the curator was asked about; by default that of ``clusters``: the numbers
                of its rows if it has them, else what it predicts.
            overall: The answer to the same query without cells, which was paid for beside it: the mean that cells are
                drawn to. By default it is estimated from the cells, which costs nothing.
        """
        spread = self.spread if self.spread is None else _checks.number(self.spread, "spread")
        if spread is not None and not 0.0 <= spread < math.inf:
            raise InputError(f"expected spread to be None or a finite number of at least 0, found {spread!r}")
        if isinstance(y, Release):
            if overall is not None:
                raise InputError("expected no overall answer beside a release, whose numbers give that mean, found one")
            found = released_cell_means(real_labels(y), cells_of_rows(self.clusters, X, y, cells), spread)
        else:
            answer = answered(y, NUMBER_QUERIES)
            found = cell_means(answer, cells_of_rows(self.clusters, X, answer, cells), overall, spread)
        self.means_, self.standard_errors_ = found.means, found.errors
        self.overall_, self.overall_error_, self.between_ = found.overall, found.overall_error, found.between
        self.range_ = (found.low, found.high)
        self.answers_ = tuple(each for each in (y, overall) if isinstance(each, Answer))
        return self

    def predict(self, X: Any) -> Float[np.ndarray, "n"]:  # noqa: N803
        """The mean label of each row's cell."""
        check_is_fitted(self)
        return self._of_rows(X, self.means_, self.overall_)

    def predict_std(self, X: Any) -> Float[np.ndarray, "n"]:  # noqa: N803
        """The standard error of the mean of each row's cell."""
        check_is_fitted(self)
        return self._of_rows(X, self.standard_errors_, math.hypot(self.between_, self.overall_error_))

    def _of_rows(self, X: Any, values: Float[np.ndarray, "cells"], beyond: float) -> Float[np.ndarray, "n"]:  # noqa: N803
        """What each row's cell has; a cell beyond those that the curator was asked about has what all rows have."""
        numbers = np.minimum(np.asarray(self.clusters.predict(X)), len(values))
        return np.asarray(np.append(values, beyond)[numbers])


def mean_in_cells(
    curator: Curator,
    clusters: Any,
    epsilon: float,
    *,
    share: float = 0.1,
    around: float | None = None,
    spread: float | None = None,
) -> CellRegressor:
    """Ask a curator for the means of cells where labels have heavy tails: first what to clip them to, then the means.

    The range of labels that can occur may be a thousand times that of most labels, and noise is in proportion to it. So
    a share of epsilon finds T, a high quantile of how far labels are from a public point (``NoisyQuantile``); labels
    are clipped to T around it, on both sides, and the rest of epsilon gives the means (``NoisyMean``), with noise for
    that range.

    With m rows in a cell on average, one in m epsilon labels lies beyond T: then what clipping does to a mean is about
    as large as its noise. More lie beyond where a quantile could not be found so far out: its choice of a point, at its
    own epsilon, misses by more than ``2 ln(10 000 k) / epsilon`` ranks in at most one of ten thousand cases, for k
    points of the grid. Where that would be a quarter of all labels, none is clipped, and the means have all of epsilon.

    Args:
        curator: Who holds the labels, which are on an ``Interval``; each row is a unit of its own.
        clusters: Cells of the curator's rows, with ``numbers``, ``count`` and ``predict``: those of
            ``labeldp.learning.cells`` or ``labeldp.learning.cells``.
        epsilon: What both requests cost together.
        share: The share of epsilon for the quantile.
        around: A point of the grid, public, in the middle of most labels; by default the one that is nearest to 0.
        spread: See ``CellRegressor``.

    Returns:
        The fitted table; its ``answers_`` are the means and the quantile.

    Guarantee:
        epsilon-label-DP, as the sum of two charges. The level follows from public numbers alone, and the ends of
        clipping from an answer that was charged.

    References:
        Zhao et al. 2025, equation (28) and theorem 12, with two-sided clipping; Smith 2011, for a quantile that says
        what to clip to.

    Example:
        >>> import numpy as np
        >>> from labeldp import Curator, Interval
        >>> from labeldp.learning.cells import tree_cells
        >>> from labeldp.learning.sklearn import mean_in_cells
        >>> features = np.linspace(0.0, 1.0, 20_000)[:, None]
        >>> curator = Curator(10.0 * features[:, 0], Interval(-10_000, 10_000, 1), budget=1.0)
        >>> model = mean_in_cells(curator, tree_cells(features, 8), epsilon=1.0)
        >>> model.predict([[0.0], [1.0]]).round(0).tolist(), round(curator.spent[0], 6)
        ([1.0, 9.0], 1.0)

    Raises:
        BudgetError: The budget does not allow it; nothing was drawn.
        InputError: Cells without numbers, of other rows, or a share that is not between 0 and 1.
        LabelError: Labels that are classes.
    """
    space, rows = curator.space, len(curator)
    _check_cells(curator, clusters)
    whole, part = _checks.epsilon(epsilon), _checks.number(share, "share")
    if not 0.0 < part < 1.0:
        raise InputError(f"expected a share of epsilon between 0 and 1, found {part!r}")
    first = whole * part
    rest = rest_of(whole, first)
    beyond = max(clusters.count / rest, 2.0 / first * math.log(space.size / _MISSED)) / rows
    centre = min(space.points, key=abs) if around is None else around
    clipped = beyond <= _MOST_BEYOND
    queries = [NoisyQuantile(space, first, 1.0 - beyond, around=centre)] if clipped else []
    last = rest if clipped else whole
    means = NoisyMean(space, last, clusters.numbers, clusters.count)
    means.check_rows(rows)
    curator.check([*((query.epsilon, None) for query in queries), (last, None)], whole)
    found = [curator.answer(query, whole=whole) for query in queries]
    if found:
        means = dataclasses.replace(means, clip=_around(space, centre, float(found[0].value[0])))
    answer = curator.answer(means, whole=whole)
    model = CellRegressor(clusters, spread=spread).fit(np.empty((rows, 1)), answer)
    model.answers_ = (answer, *found)
    return model


def _check_cells(curator: Curator, clusters: Any) -> None:
    """Refuse labels that have no mean, cells that are none, and units whose labels a level does not count."""
    if not isinstance(curator.space, Interval):
        raise LabelError("expected a curator of real labels on an Interval, found classes; ask NoisyHistogram")
    if not all(hasattr(clusters, name) for name in ("numbers", "count", "predict")):
        raise InputError(
            f"expected cells with numbers, count and predict, found {type(clusters).__name__}; give those of "
            "tree_cells, grid_cells or cluster"
        )
    if curator.has_units:
        raise InputError("expected a curator whose rows are units of their own, found units of several rows")


def _around(space: LabelSpace, centre: float, distance: float) -> tuple[float, float]:
    """The points at a distance from one, on either side, at least one step away and none beyond the ends."""
    place = space.points.index(centre)
    step = (space.points[-1] - space.points[0]) / (space.size - 1)
    steps = max(1, round(distance / step))
    return space.points[max(0, place - steps)], space.points[min(space.size - 1, place + steps)]
