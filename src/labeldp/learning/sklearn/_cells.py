"""Regression by the means of cells of rows, and the requests to a curator that it needs."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._shapes import Float
from labeldp.errors import InputError, LabelError
from labeldp.learning.cells import NUMBER_READINGS, cell_means, released_cell_means, require_answer
from labeldp.learning.losses import require_numeric_labels
from labeldp.learning.sklearn._answers import cells_of_rows
from labeldp.learning.sklearn._regressor import NumberRegressor
from labeldp.mechanisms.queries import NoisyMean, NoisyQuantile
from labeldp.privacy import Interval, LabelSpace, rest_of
from labeldp.release import Answer, Curator, Release, check_same_rows

#: Probability that the quantile fails and the clipping level lies beyond all labels.
_FAILURE_PROBABILITY = 1e-4
#: Largest share of the rows beyond a clipping level; above it nothing is clipped.
_MOST_BEYOND = 0.25


class CellRegressor(NumberRegressor):
    """Regressor by cells: each row has the mean label of its cell, shrunk towards the mean of all rows.

    Args:
        clusters: Model that assigns rows to cells: one of ``labeldp.learning.cells``, or any fitted object whose
            ``predict`` returns numbers from 0.
        spread: Standard deviation of labels within a cell, if it is publicly known; the shrinkage then accounts for
            sampling, too. By default it is estimated from an answer to ``NoisyHistogram``; an answer to ``NoisyMean``
            does not identify it, and the shrinkage accounts for noise alone.

    Attributes:
        means_: Mean label of each cell; that of all rows for cells without rows.
        standard_errors_: Their standard errors, from noise and, if the spread is known, from sampling.
        overall_: Mean of all rows.
        overall_error_: Its standard error.
        between_: Estimated standard deviation between cells; 0 if noise explains all differences.
        range_: Clipping bounds of labels and predictions.
        answers_: The answers that the model was fitted on.

    Guarantee:
        Post-processing of answers: covered by their guarantees at no further cost. Cells depend on features alone, and
        must have done so for the answers too.

    References:
        Zhao et al. 2025, equation (23) and theorem 8; Efron and Morris 1973, for the shrinkage of cells with few rows.

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
        """Estimate the mean of each cell from an answer or from released labels.

        Args:
            X: Features of the n rows that the answer is about.
            y: The answer to ``NoisyMean``, or to ``NoisyHistogram`` on an ``Interval`` with few points; or a release of
                numeric labels, which were randomized one by one.
            cells: The cell of each row in the query; by default the numbers that ``clusters`` stores, else its
                predictions.
            overall: The answer to the same query without cells, charged separately: the mean that cells are shrunk
                towards. By default it is estimated from the cells, which costs nothing.
        """
        spread = None if self.spread is None else _checks.not_negative(self.spread, "spread")
        if isinstance(y, Release):
            check_same_rows(X, y)
            if overall is not None:
                raise InputError("expected no overall= with a release, which gives the overall mean itself, found one")
            result = released_cell_means(require_numeric_labels(y), cells_of_rows(self.clusters, X, y, cells), spread)
        else:
            answer = require_answer(y, NUMBER_READINGS)
            result = cell_means(answer, cells_of_rows(self.clusters, X, answer, cells), overall, spread)
        self.means_, self.standard_errors_ = result.means, result.errors
        self.overall_, self.overall_error_, self.between_ = result.overall, result.overall_error, result.between
        self.range_ = (result.low, result.high)
        self.answers_ = tuple(each for each in (y, overall) if isinstance(each, Answer))
        return self

    def predict(self, X: Any) -> Float[np.ndarray, "n"]:  # noqa: N803
        """The mean label of each row's cell."""
        check_is_fitted(self)
        return self._row_values(X, self.means_, self.overall_)

    def predict_std(self, X: Any) -> Float[np.ndarray, "n"]:  # noqa: N803
        """The standard error of the mean of each row's cell."""
        check_is_fitted(self)
        return self._row_values(X, self.standard_errors_, math.hypot(self.between_, self.overall_error_))

    def _row_values(self, X: Any, values: Float[np.ndarray, "cells"], beyond: float) -> Float[np.ndarray, "n"]:  # noqa: N803
        """The value of each row's cell, and ``beyond`` for cells that were not in the query."""
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
    """Request the means of cells from a curator for labels with heavy tails: first a clipping level, then the means.

    The declared range of labels may be a thousand times that of most labels, and noise is proportional to it. So a
    share of epsilon buys T, a high quantile of the distance of labels from a public point (``NoisyQuantile``); labels
    are clipped to T around it, on both sides, and the rest of epsilon buys the means (``NoisyMean``), with noise for
    that range.

    With m rows in a cell on average, one in m epsilon labels lies beyond T, at which the bias from clipping is about as
    large as the noise. The quantile is lower if it could not be found so far out: the point chosen at its epsilon is
    off by more than ``2 ln(10 000 k) / epsilon`` ranks with probability at most 1e-4, for k points of the grid. If that
    is a quarter of all labels, none is clipped, and the means get all of epsilon.

    Args:
        curator: The curator of the labels, which are on an ``Interval``; each row is a privacy unit of its own.
        clusters: Cells of the curator's rows, with ``numbers``, ``count`` and ``predict``, as in
            ``labeldp.learning.cells``.
        epsilon: Total cost of both requests.
        share: Share of epsilon for the quantile.
        around: A public point of the grid, in the middle of most labels; by default the one nearest to 0.
        spread: See ``CellRegressor``.

    Returns:
        The fitted regressor; its ``answers_`` are the means and the quantile.

    Guarantee:
        epsilon-label-DP, as the sum of two charges. The level of the quantile follows from public numbers alone, and
        the clipping bounds from an answer that was charged.

    References:
        Zhao et al. 2025, equation (28) and theorem 12, with two-sided clipping; Smith 2011, for clipping at a noisy
        quantile.

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
        InputError: Cells without numbers or of other rows, or a share that is not between 0 and 1.
        LabelError: The labels are classes.
    """
    space, rows = curator.space, len(curator)
    _check_cells(curator, clusters)
    total, part = _checks.epsilon(epsilon), _checks.share(share, "the share of epsilon", "()")
    first = total * part
    rest = rest_of(total, first)
    beyond = max(clusters.count / rest, 2.0 / first * math.log(space.size / _FAILURE_PROBABILITY)) / rows
    centre = min(space.points, key=abs) if around is None else around
    clipped = beyond <= _MOST_BEYOND
    queries = [NoisyQuantile(space, first, 1.0 - beyond, around=centre)] if clipped else []
    last = rest if clipped else total
    means = NoisyMean(space, last, clusters.numbers, clusters.count)
    means.check_rows(rows)
    curator.check([*((query.epsilon, None) for query in queries), (last, None)], total)
    quantiles = [curator.answer(query, whole=total) for query in queries]
    if quantiles:
        means = dataclasses.replace(means, clip=_clipping_bounds(space, centre, float(quantiles[0].value[0])))
    answer = curator.answer(means, whole=total)
    model = CellRegressor(clusters, spread=spread).fit(np.empty((rows, 1)), answer)
    model.answers_ = (answer, *quantiles)
    return model


def _check_cells(curator: Curator, clusters: Any) -> None:
    """Refuse class labels, objects that are not cells, and privacy units of several rows."""
    if not isinstance(curator.space, Interval):
        raise LabelError("expected a curator of numeric labels on an Interval, found classes; request NoisyHistogram")
    if not all(hasattr(clusters, name) for name in ("numbers", "count", "predict")):
        raise InputError(
            f"expected cells with numbers, count and predict, found {type(clusters).__name__}; give those of "
            "tree_cells, grid_cells or cluster"
        )
    if curator.has_units:
        raise InputError("expected a curator whose privacy units are single rows, found units of several rows")


def _clipping_bounds(space: LabelSpace, centre: float, distance: float) -> tuple[float, float]:
    """The grid points at a distance on both sides of a centre, at least one step away and within the range."""
    place = space.points.index(centre)
    step = (space.points[-1] - space.points[0]) / (space.size - 1)
    steps = max(1, round(distance / step))
    return space.points[max(0, place - steps)], space.points[min(space.size - 1, place + steps)]
