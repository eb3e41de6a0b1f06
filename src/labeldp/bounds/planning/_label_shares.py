"""The distribution of labels, estimated from what was released of them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from labeldp._shapes import Float
from labeldp.bounds.planning._conventions import UnitSizes
from labeldp.errors import InputError
from labeldp.mechanisms.queries import Counts, NoisyHistogram, NoisyMean, NoisyQuantile
from labeldp.privacy import Interval, LabelSpace
from labeldp.privacy.channels import candidate_sizes, nearest_distributions
from labeldp.release import Answer, Release

#: The most points of a grid on which labels are counted: the noise of each count is drawn anew.
_MOST_POINTS = 33
#: Weight of the squared coefficients, with which noisy means that no distribution has are met as nearly as possible.
_RIDGE = 1e-6
#: Standard errors by which a variance has to exceed 0.
_CLEAR = 2.0

#: A function of labels on [-1, 1], and its mean.
Moment = tuple[Callable[[np.ndarray], np.ndarray], float]


class _HiddenSpreadError(InputError):
    """Noise that hides the spread of numeric labels."""


def label_shares(*sources: Release | Answer, space: LabelSpace | None = None) -> Float[np.ndarray, "k"]:
    """Estimate the probabilities of classes or grid points, for ``Conventions(shares=...)``.

    Counts (``NoisyHistogram``), and releases of classes, are projected onto the simplex. Released numbers, means
    (``NoisyMean``) and quantiles (``NoisyQuantile``) of all rows give moments of the labels; the result is then the
    distribution of most entropy that has them all.

    Args:
        sources: Released labels; one answer to ``NoisyHistogram``; or answers to ``NoisyMean`` and ``NoisyQuantile``
            about the same rows.
        space: The label space of the result; by default that of the first source.

    Returns:
        Probabilities, shape (k,). They are covered by the guarantees of the sources, and cost nothing more.

    Raises:
        InputError: A source tells nothing of the distribution, too little for the noise, or is of other classes.

    Example:
        >>> from labeldp import Curator, Interval, NoisyHistogram
        >>> from labeldp.bounds import label_shares
        >>> space = Interval(0, 100, 25)
        >>> curator = Curator([0.0] * 9_000 + [50.0] * 1_000, space)
        >>> label_shares(curator.answer(NoisyHistogram(space, epsilon=1.0))).round(1).tolist()
        [0.9, 0.0, 0.1, 0.0, 0.0]

    References:
        Held, Wolfe and Crowder 1974, for the projection; Jaynes 1957, for the distribution of most entropy.
    """
    if not sources:
        raise InputError("expected a release or an answer, found none; pass one")
    wanted = sources[0].space if space is None else space
    for source in sources:
        _check_space(source.space, wanted)
    if len(sources) == 1 and (shares := _shares_of(sources[0])) is not None:
        return _on_grid(shares, sources[0].space, wanted)
    moments = [moment for source in sources for moment in _moments_of(source)]
    return _most_even(moments, wanted)


def counting_space(space: LabelSpace) -> LabelSpace:
    """The space on which labels are counted for a forecast: classes, or at most 33 grid points.

    Example:
        >>> from labeldp import Interval
        >>> from labeldp.bounds import counting_space
        >>> counting_space(Interval(0, 20_000, 10)).step
        625.0
    """
    if not isinstance(space, Interval) or space.size <= _MOST_POINTS:
        return space
    return Interval(space.low, space.high, (space.high - space.low) / (_MOST_POINTS - 1), space.missing)


def shares_unless_hidden(*sources: Release | Answer, space: LabelSpace) -> Float[np.ndarray, "k"] | None:
    """The probabilities of ``label_shares``; None where noise hides the spread of numeric labels."""
    try:
        return label_shares(*sources, space=space)
    except _HiddenSpreadError:
        return None


def check_counts(space: LabelSpace, rows: int, epsilon: float, units: UnitSizes | None = None) -> None:
    """Refuse noisy counts of numeric labels before they are bought, if labels may spread evenly and noise hides it.

    Args:
        space: The declared label space.
        rows: Number of rows.
        epsilon: The epsilon of the counts.
        units: The rows by the size of their unit, which the epsilon covers; by default each row is one.

    Raises:
        InputError: Noise would hide the spread; the message names an epsilon at which it would not.
    """
    if not isinstance(space, Interval):
        return
    query = NoisyHistogram(counting_space(space), epsilon)
    squares = np.linspace(-1.0, 1.0, query.space.size) ** 2
    noise = _variance_noise(squares, query.deviation(query.law(1 if units is None else units.most)))
    times = _CLEAR * noise / rows / float(squares.mean())
    if times >= 1.0:
        least = epsilon * times  # noise is at most in proportion to 1 / epsilon
        digit = 10.0 ** (math.floor(math.log10(least)) - 1)
        raise InputError(
            f"at epsilon {epsilon:g} noise hides the spread of {rows:,} labels, even if they spread evenly over the "
            f"range; pass --buy {math.ceil(least / digit) * digit:.2g} or more (much more if most are alike), "
            "a coarser --interval, or --spread instead"
        )


def _check_space(found: LabelSpace, wanted: LabelSpace) -> None:
    both = isinstance(found, Interval), isinstance(wanted, Interval)
    if both[0] != both[1] or (not both[0] and found.size != wanted.size):
        raise InputError(
            f"expected a release or an answer about {wanted.size} {'grid points' if both[1] else 'classes'}, found one "
            f"about {found.size} {'grid points' if both[0] else 'classes'}; declare the label space that it has"
        )


def _shares_of(source: Release | Answer) -> Float[np.ndarray, "k"] | None:
    """Probabilities that need no moments; None where there are none."""
    if isinstance(source, Answer):
        if not isinstance(source.reading, Counts):
            return None
        counts, cells = source.value.sum(axis=0, dtype=np.float64), len(source.value)
        shares = np.asarray(nearest_distributions(counts[None] / max(float(counts.sum()), 1.0))[0])
        if isinstance(source.space, Interval):
            places = np.linspace(-1.0, 1.0, len(shares))
            squares = (places - shares @ places) ** 2
            noise = _variance_noise(squares, source.reading.deviation * math.sqrt(cells))
            _check_clear(float(shares @ squares), noise / source.rows, source.rows)
        return shares
    if isinstance(source.space, Interval):
        return None
    if candidate_sizes(source.channel) is not None:
        raise InputError(
            "expected labels that were released without a prior, found candidates of each row, which tell no class "
            "shares; state --shares"
        )
    return np.asarray(nearest_distributions(source.unbiased().mean(axis=0)[None])[0])


def _moments_of(source: Release | Answer) -> list[Moment]:
    """Means of functions of labels on [-1, 1]."""
    space = source.space
    if not isinstance(space, Interval):
        raise InputError("expected one release, or one answer to NoisyHistogram, about classes, found several")
    middle, half = (space.low + space.high) / 2, (space.high - space.low) / 2
    if isinstance(source, Release):
        numbers, squares = source.numbers(), source.numbers(2)
        first = (numbers - middle) / half
        second = (squares - 2 * middle * numbers + middle**2) / half**2
        mean = first.mean()
        error = float((second - 2 * mean * first).std()) / math.sqrt(max(len(first), 1))
        _check_clear(float(second.mean() - mean**2), error, len(first))
        return [(lambda t: t, float(first.mean())), (np.square, float(second.mean()))]
    value = source.value.ravel()
    if source.query == NoisyMean.name and len(value) == 1:
        return [(lambda t: t, (float(source.means()[0]) - middle) / half)]
    if source.query == NoisyQuantile.name and len(value) == 1 and "around" not in source.law:
        place = (float(value[0]) - middle) / half
        return [(lambda t: (t <= place + 1e-9).astype(np.float64), float(source.law["level"]))]
    raise InputError(
        f"expected released labels, or an answer of one cell to NoisyHistogram, NoisyMean or NoisyQuantile, found one "
        f"to {source.query!r}; state --spread or --shares"
    )


def _variance_noise(squares: Float[np.ndarray, "k"], deviation: float) -> float:
    """The standard deviation of a sum of squared distances by counts with noise."""
    return deviation * math.sqrt(float(squares @ squares))


def _check_clear(variance: float, error: float, rows: int) -> None:
    """Refuse a variance that noise hides."""
    if not variance > _CLEAR * error:
        raise _HiddenSpreadError(
            f"expected enough rows to tell the spread of the labels, found {rows} with noise that hides it; state "
            "--spread, or use a release or counts of the labels at a larger epsilon"
        )


def _most_even(moments: list[Moment], space: LabelSpace) -> Float[np.ndarray, "k"]:
    """The distribution of most entropy with these moments: exp of a sum of their functions, by its convex dual."""
    places = np.linspace(-1.0, 1.0, space.size)
    functions, means = np.array([function(places) for function, _ in moments]), np.array([mean for _, mean in moments])

    def weights(coefficients: np.ndarray) -> tuple[np.ndarray, float]:
        exponents = coefficients @ functions
        top = float(exponents.max())
        raised = np.exp(exponents - top)
        return raised / raised.sum(), top + math.log(float(raised.sum()))

    def dual(coefficients: np.ndarray) -> tuple[float, np.ndarray]:
        shares, log_sum = weights(coefficients)
        value = log_sum - coefficients @ means + _RIDGE / 2 * coefficients @ coefficients
        return float(value), functions @ shares - means + _RIDGE * coefficients

    return weights(minimize(dual, np.zeros(len(means)), jac=True, method="BFGS").x)[0]


def _on_grid(shares: Float[np.ndarray, "k"], found: LabelSpace, wanted: LabelSpace) -> Float[np.ndarray, "points"]:
    """Probabilities on another grid; those of a point are spread evenly over the numbers that are rounded to it."""
    if not (isinstance(found, Interval) and isinstance(wanted, Interval)) or found.points == wanted.points:
        return shares
    cumulative = np.interp(_edges(wanted), _edges(found), [0.0, *np.cumsum(shares)])
    cumulative[0], cumulative[-1] = 0.0, 1.0
    return np.diff(np.minimum(cumulative, 1.0))  # a sum may exceed 1 by rounding


def _edges(space: Interval) -> Float[np.ndarray, "edges"]:
    """The ends of the numbers that are rounded to each grid point."""
    points = np.array(space.points)
    return np.array([points[0], *(points[1:] + points[:-1]) / 2, points[-1]])
