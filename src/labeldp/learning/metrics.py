"""Metrics from released labels alone, with their standard errors and confidence intervals.

Each is an estimate of what the metric would be on true labels. Errors are those of rows drawn independently, so they
hold both the noise of the labels and the sampling of the rows; a channel that says little gives large ones. On labels
that were declared public, these are the ordinary metrics.

The module is long because it is a door: most of it says what each metric means, and what was asked is checked here.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array
from scipy.special import betaincinv, ndtri

from labeldp.errors import InputError
from labeldp.learning._selection import gain, released
from labeldp.privacy import CandidateChannel
from labeldp.release import Release

__all__ = [
    "Bounds",
    "Calibration",
    "Estimate",
    "Estimates",
    "accuracy",
    "accuracy_bounds",
    "accuracy_scorer",
    "auc",
    "calibration",
    "confusion_matrix",
    "log_likelihood",
    "log_likelihood_scorer",
    "log_loss",
    "recall",
]

_TOLERANCE = 1e-4
_ENTRIES_PER_BLOCK = 1 << 22


@dataclass(frozen=True)
class Estimate:
    """A number that was estimated.

    Attributes:
        value: The estimate. It is not cut to the range of the metric, so that means of it stay unbiased.
        error: Its standard error; infinite where one row cannot tell.
        low: Lower end of the confidence interval, cut to the range of the metric.
        high: Upper end.
    """

    value: float
    error: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Estimates:
    """Numbers that were estimated, each with its own confidence interval.

    Attributes:
        value: The estimates; NaN where a quotient has no positive divisor.
        error: Their standard errors.
        low: Lower ends of the confidence intervals, cut to the range of the metric.
        high: Upper ends.
    """

    value: Float[np.ndarray, "*shape"]
    error: Float[np.ndarray, "*shape"]
    low: Float[np.ndarray, "*shape"]
    high: Float[np.ndarray, "*shape"]

    def __post_init__(self) -> None:
        for field in fields(self):
            array = np.array(getattr(self, field.name), dtype=np.float64)
            array.flags.writeable = False
            object.__setattr__(self, field.name, array)

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, place: int | tuple[int, ...]) -> Estimate:
        """One of them."""
        return Estimate(*(float(getattr(self, field.name)[place]) for field in fields(self)))


@dataclass(frozen=True)
class Bounds:
    """Where a metric must lie that released labels do not determine.

    Attributes:
        lower: Estimate of the least value that agrees with the law of the released labels.
        upper: Estimate of the largest.
        low: The least value, with the sampling error taken off.
        high: The largest, with the sampling error added.
    """

    lower: float
    upper: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Calibration:
    """Predicted and estimated frequencies of a class in bins of predictions; bins without rows are left out.

    Attributes:
        predicted: Mean predicted probability of each bin.
        frequency: Estimated frequency of the class among true labels in each bin.
        rows: Number of rows in each bin.
    """

    predicted: Float[np.ndarray, "b"]
    frequency: Estimates
    rows: Int[np.ndarray, "b"]


def log_likelihood(release: Release, probabilities: object, *, level: float = 0.95) -> Estimate:
    """Mean log likelihood of released labels, in nats over a model that knows nothing; more is better.

    It exists for every channel, rows with candidates included, and is what models are selected by.

    Args:
        release: Released labels of n rows.
        probabilities: A model's P(true class | features), shape (n, k), classes in declared order.
        level: Chance that the interval holds the expectation.

    Guarantee:
        It is computed from a release, so the release's guarantee covers it at no further cost.

    Example:
        >>> from labeldp import Classes, Release
        >>> release = Release.public(["no", "yes"], Classes(["no", "yes"]))
        >>> round(log_likelihood(release, [[1.0, 0.0], [0.0, 1.0]]).value, 3)
        0.693

    Raises:
        InputError: The probabilities have another shape, or a row that is not a distribution.
    """
    checked = _distributions(probabilities, _rows(release), release.space.size)
    return _mean(gain(release, checked), level)


def log_loss(release: Release, probabilities: object, *, level: float = 0.95) -> Estimate:
    """Unbiased estimate of the mean cross entropy on true labels, in nats; less is better.

    Probabilities are cut at the precision of a float, as scikit-learn does.

    Args:
        release: Released labels of n rows.
        probabilities: A model's P(true class | features), shape (n, k), classes in declared order.
        level: Chance that the interval holds the expectation.

    Guarantee:
        It is computed from a release, so the release's guarantee covers it at no further cost.

    References:
        Natarajan et al. 2013, Lemma 1, with the entries of the unbiased vector shifted so that they sum to one.

    Example:
        >>> from labeldp import Classes, Release
        >>> release = Release.public(["no", "yes"], Classes(["no", "yes"]))
        >>> round(log_loss(release, [[0.5, 0.5], [0.5, 0.5]]).value, 3)
        0.693

    Raises:
        InputError: The probabilities have another shape, or a row that is not a distribution, or rows have candidates.
    """
    _identified(release)
    checked = _distributions(probabilities, _rows(release), release.space.size)
    losses = np.empty(len(release))
    for rows in _blocks(release):
        targets = _unbiased(release, rows)
        targets += (1.0 - targets.sum(axis=1, keepdims=True)) / release.space.size
        losses[rows] = -(targets * np.log(np.clip(checked[rows], np.finfo(float).eps, 1.0))).sum(axis=1)
    return _mean(losses, level)


def accuracy(release: Release, predicted: object, *, level: float = 0.95) -> Estimate:
    """Unbiased estimate of the share of rows whose prediction is the true class.

    Args:
        release: Released labels of n rows.
        predicted: Predicted classes, in any form that the label space reads.
        level: Chance that the interval holds the expectation. Where all rows share one law it is exact, after
            Clopper and Pearson; otherwise it is a normal approximation.

    Guarantee:
        It is computed from a release, so the release's guarantee covers it at no further cost.

    References:
        Clopper and Pearson 1934, for the share of rows whose released label holds the prediction.

    Example:
        >>> from labeldp import Classes, Release
        >>> release = Release.public(["no", "yes", "yes", "yes"], Classes(["no", "yes"]))
        >>> round(accuracy(release, ["no", "no", "yes", "yes"]).value, 3)
        0.75

    Raises:
        InputError: There is not one prediction for each row, or rows have candidates; use ``accuracy_bounds``.
        LabelError: A prediction is not in the label space.
    """
    _identified(release)
    holds = _holds(release, _encoded(release, predicted))
    return _shares(release, holds, np.zeros(len(release), dtype=np.int64), 1, level)[0]


def accuracy_bounds(release: Release, predicted: object, *, level: float = 0.95) -> Bounds:
    """The least and the largest accuracy that agree with released labels, where rows have candidates.

    A true class outside a row's candidates gives one of them uniformly. So for a prediction f among m candidates the
    unbiased vector has ``E[w_f] = A + B / m``, with ``A = P(y = f)`` and ``B = P(y is no candidate) <= 1 - A``: A lies
    between ``(m E[w_f] - 1) / (m - 1)`` and ``E[w_f]``. A prediction that is no candidate, or the only one, may be
    anything. The bounds are the narrowest for the mean of ``w_f`` at each m, if predictions among candidates are right
    at least as often as a guess among them. Where all classes are candidates both are the accuracy.

    Args:
        release: Released labels of n rows, of any channel.
        predicted: Predicted classes, in any form that the label space reads.
        level: Chance that ``low`` and ``high`` hold the expectation between them, by a normal approximation.

    Guarantee:
        It is computed from a release, so the release's guarantee covers it at no further cost.

    References:
        Ghazi et al. 2021, Algorithm 1, for the law of a label outside the candidates.

    Example:
        >>> from labeldp import Classes, Curator, TopKResponse
        >>> space = Classes(["a", "b", "c"])
        >>> randomizer = TopKResponse(space, 1.0, prior=[[0.5, 0.4, 0.1]] * 4, k=2)
        >>> release = Curator(["a", "b", "a", "c"], space).randomize(randomizer)
        >>> bounds = accuracy_bounds(release, ["c", "c", "c", "c"])
        >>> bounds.lower, bounds.upper
        (0.0, 1.0)

    Raises:
        InputError: There is not one prediction for each row.
        LabelError: A prediction is not in the label space.
    """
    codes = _encoded(release, predicted)
    size, told = _candidates(release, codes)
    true, other = _membership(release)
    hit = np.where(told, (_holds(release, codes) - other) / (true - other), 1.0)
    partial = told & (size < release.space.size)
    least = np.where(partial, (size * hit - 1.0) / np.maximum(size - 1, 1), np.where(told, hit, 0.0))
    below, above = _mean(least, level, 0.0, 1.0), _mean(hit, level, 0.0, 1.0)
    return Bounds(float(np.clip(below.value, 0, 1)), float(np.clip(above.value, 0, 1)), below.low, above.high)


def confusion_matrix(release: Release, predicted: object, *, level: float = 0.95) -> Estimates:
    """Unbiased estimates of how many rows have each true class, by predicted class; shape (k, k), [true, predicted].

    Args:
        release: Released labels of n rows.
        predicted: Predicted classes, in any form that the label space reads.
        level: Chance that the interval of one entry holds its expectation, by a normal approximation.

    Guarantee:
        It is computed from a release, so the release's guarantee covers it at no further cost.

    Example:
        >>> from labeldp import Classes, Release
        >>> release = Release.public(["no", "yes", "yes", "yes"], Classes(["no", "yes"]))
        >>> confusion_matrix(release, ["no", "no", "yes", "yes"]).value.round().astype(int).tolist()
        [[1, 0], [1, 2]]

    Raises:
        InputError: There is not one prediction for each row, or rows have candidates.
        LabelError: A prediction is not in the label space.
    """
    _identified(release)
    sums, squares = _moments(release, _encoded(release, predicted))
    n = len(release)
    if n < 2:
        return _estimates(sums, np.full(sums.shape, np.inf), level, 0.0, 1.0)
    return _estimates(sums, np.sqrt(np.maximum(n * squares - sums**2, 0.0) / (n - 1)), level, 0.0, float(n))


def recall(release: Release, predicted: object, *, level: float = 0.95) -> Estimates:
    """Estimate of the share of each true class that is predicted, shape (k,).

    It is a quotient of unbiased estimates, so its bias is of the order of its squared error. Where the released labels
    leave it open whether the class occurs at all, it is NaN.

    Args:
        release: Released labels of n rows.
        predicted: Predicted classes, in any form that the label space reads.
        level: Chance that the interval of one class holds its recall, by the delta method.

    Guarantee:
        It is computed from a release, so the release's guarantee covers it at no further cost.

    Example:
        >>> from labeldp import Classes, Release
        >>> release = Release.public(["no", "yes", "yes", "yes"], Classes(["no", "yes"]))
        >>> recall(release, ["no", "no", "yes", "yes"]).value.round(3).tolist()
        [1.0, 0.667]

    Raises:
        InputError: There is not one prediction for each row, or rows have candidates.
        LabelError: A prediction is not in the label space.
    """
    _identified(release)
    sums, squares = _moments(release, _encoded(release, predicted))
    total, hit, n = sums.sum(axis=1), np.diag(sums), len(release)
    known = (total > _TOLERANCE) & (n > 1)
    value = np.divide(hit, total, out=np.full(len(total), np.nan), where=known)
    # sum_i w_i^2 (1[hit] - value)^2: the delta method for a quotient of sums, whose residuals have mean zero
    rest = (1 - value) ** 2 * np.diag(squares) + value**2 * (squares.sum(axis=1) - np.diag(squares))
    spread = np.sqrt(rest * n / max(n - 1, 1))
    error = np.divide(spread, total, out=np.full(len(total), np.inf), where=known)
    return _estimates(value, error, level, 0.0, 1.0)


def auc(release: Release, scores: object, positive: object, *, level: float = 0.95) -> Estimate:
    """Estimate of the area under the receiver operating characteristic of one class against the rest.

    With unbiased weights ``a`` of the class and ``b = 1 - a`` of the rest it is ``sum a_i b_l h(i, l)`` over
    ``sum a_i b_l``, both over different rows, where h is 1 if i has the larger score and 1/2 if equal: numerator and
    denominator are unbiased. Where the released labels leave it open whether both classes occur, it is NaN.

    Args:
        release: Released labels of n rows.
        scores: A score of each row, shape (n,), larger for the positive class.
        positive: The positive class.
        level: Chance that the interval holds the area, by Hajek's projection and a normal approximation.

    Guarantee:
        It is computed from a release, so the release's guarantee covers it at no further cost.

    References:
        Menon et al. 2015, section 5, for two classes; Hoeffding 1948, for the projection.

    Example:
        >>> from labeldp import Classes, Release
        >>> release = Release.public(["no", "no", "yes", "yes"], Classes(["no", "yes"]))
        >>> round(auc(release, [0.1, 0.4, 0.3, 0.9], "yes").value, 3)
        0.75

    Raises:
        InputError: There is not one finite score for each row, or rows have candidates.
        LabelError: The positive class is not in the label space.
    """
    _identified(release)
    checked = _numbers(scores, "scores", (_rows(release),))
    true, other = _membership(release)
    weight = (_holds(release, np.full(len(release), _code(release, positive))) - other) / (true - other)
    rest = 1.0 - weight
    pairs = float(weight.sum() * rest.sum() - weight @ rest)
    if len(release) < 2 or pairs <= _TOLERANCE:
        return _estimate(np.nan, np.inf, level, 0.0, 1.0)
    below, above = _ranked(checked, rest), weight.sum() - weight - _ranked(checked, weight)
    value = float(weight @ below) / pairs
    residual = weight * (below - value * (rest.sum() - rest)) + rest * (above - value * (weight.sum() - weight))
    return _estimate(value, np.sqrt(len(release)) * float(np.std(residual, ddof=1)) / pairs, level, 0.0, 1.0)


def calibration(
    release: Release, probabilities: object, positive: object, *, bins: int = 10, level: float = 0.95
) -> Calibration:
    """Predicted and estimated frequency of a class, in bins of equal width.

    Args:
        release: Released labels of n rows.
        probabilities: A model's P(true class | features), shape (n, k), classes in declared order.
        positive: The class.
        bins: Number of bins between 0 and 1.
        level: Chance that the interval of one bin holds the frequency, as for ``accuracy``.

    Guarantee:
        It is computed from a release, so the release's guarantee covers it at no further cost.

    Example:
        >>> from labeldp import Classes, Release
        >>> release = Release.public(["no", "yes", "yes", "yes"], Classes(["no", "yes"]))
        >>> found = calibration(release, [[0.8, 0.2], [0.7, 0.3], [0.1, 0.9], [0.1, 0.9]], "yes", bins=2)
        >>> found.predicted.round(3).tolist(), found.frequency.value.round(3).tolist()
        ([0.25, 0.9], [0.5, 1.0])

    Raises:
        InputError: The probabilities have another shape, or a row that is not a distribution, or rows have candidates.
        LabelError: The class is not in the label space.
    """
    _identified(release)
    checked = _distributions(probabilities, _rows(release), release.space.size)
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer) or bins < 1:
        raise InputError(f"expected a whole number of bins of at least 1, found {bins!r}")
    code = _code(release, positive)
    place = np.searchsorted(np.linspace(0.0, 1.0, bins + 1)[1:-1], checked[:, code])
    _, place, rows = np.unique(place, return_inverse=True, return_counts=True)
    holds = _holds(release, np.full(len(release), code))
    predicted = np.bincount(place, weights=checked[:, code]) / rows
    return Calibration(predicted, _shares(release, holds, place, len(rows), level), rows)


def log_likelihood_scorer(estimator: Any, X: Any, release: Release) -> float:  # noqa: N803 (scikit-learn's name)
    """``log_likelihood`` of a fitted classifier, for ``scoring=`` in scikit-learn's model selection.

    Args:
        estimator: A classifier with ``predict_proba``; classes that it does not know have probability zero.
        X: Features of n rows.
        release: Released labels of n rows.

    Guarantee:
        It is computed from a release, so the release's guarantee covers it at no further cost.

    Example:
        >>> from sklearn.model_selection import cross_val_score
        >>> from labeldp import Classes, Release
        >>> from labeldp.learning.sklearn import SoftmaxRegression
        >>> release = Release.public(["no", "yes"] * 6, Classes(["no", "yes"]))
        >>> model = SoftmaxRegression(l2=0.001)
        >>> scores = cross_val_score(model, [[0.0], [1.0]] * 6, release, scoring=log_likelihood_scorer, cv=3)
        >>> bool((scores > 0.5).all())
        True
    """
    found = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    spread = np.zeros((len(found), released(release).space.size))
    spread[:, release.space.encode(estimator.classes_)] = found
    return log_likelihood(release, spread).value


def accuracy_scorer(estimator: Any, X: Any, release: Release) -> float:  # noqa: N803 (scikit-learn's name)
    """``accuracy`` of a fitted classifier, for ``scoring=`` in scikit-learn's model selection.

    Args:
        estimator: A classifier.
        X: Features of n rows.
        release: Released labels of n rows.

    Guarantee:
        It is computed from a release, so the release's guarantee covers it at no further cost.

    Example:
        >>> from sklearn.model_selection import cross_val_score
        >>> from labeldp import Classes, Release
        >>> from labeldp.learning.sklearn import SoftmaxRegression
        >>> release = Release.public(["no", "yes"] * 6, Classes(["no", "yes"]))
        >>> model = SoftmaxRegression(l2=0.001)
        >>> cross_val_score(model, [[0.0], [1.0]] * 6, release, scoring=accuracy_scorer, cv=3).round(3).tolist()
        [1.0, 1.0, 1.0]
    """
    return accuracy(release, estimator.predict(X)).value


def _rows(release: Release) -> int:
    """The number of rows of a release that has some."""
    if len(released(release)) == 0:
        raise InputError("expected at least one row, found none")
    return len(release)


def _identified(release: Release) -> None:
    """Refuse rows whose true class may lie outside their candidates."""
    channel = released(release).channel
    if isinstance(channel, CandidateChannel) and (channel.sizes < channel.classes).any():
        raise InputError(
            "expected a channel that identifies true labels, found rows with candidates; use log_likelihood, or "
            "accuracy_bounds"
        )


def _candidates(release: Release, codes: Int[np.ndarray, "n"]) -> tuple[Int[np.ndarray, "n"], Bool[np.ndarray, "n"]]:
    """How many candidates each row has, and whether a class is one of several."""
    channel = release.channel
    if not isinstance(channel, CandidateChannel):
        return np.full(len(codes), channel.classes), np.ones(len(codes), dtype=np.bool_)
    return channel.sizes, channel.possible(codes) & (channel.sizes > 1)


def _holds(release: Release, codes: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
    """Whether each released label is, or holds, a class."""
    if release.channel.form == "class":
        return np.asarray(release.codes == codes)
    byte = release.codes[np.arange(len(codes)), codes >> 3]
    return np.asarray(byte >> (codes & 7).astype(np.uint8) & 1 == 1)


def _membership(release: Release) -> tuple[Float[np.ndarray, "*rows"], Float[np.ndarray, "*rows"]]:
    """Chances that a released label holds the true class, and another; one entry where all rows share a law."""
    chance = release.channel.membership
    true, other = np.asarray(chance.true), np.asarray(chance.other)
    alike = true.size > 0 and bool((true == true.flat[0]).all() and (other == other.flat[0]).all())
    return (np.array(true.flat[0]), np.array(other.flat[0])) if alike else (true, other)


def _blocks(release: Release) -> list[slice]:
    """Parts of the rows whose dense vectors fit in memory."""
    step = max(1, _ENTRIES_PER_BLOCK // release.space.size)
    return [slice(low, min(low + step, len(release))) for low in range(0, len(release), step)]


def _unbiased(release: Release, rows: slice) -> Float[np.ndarray, "m k"]:
    """The unbiased vectors of some rows."""
    return release.channel.take(rows).unbiased(release.codes[rows])


def _moments(release: Release, predicted: Int[np.ndarray, "n"]) -> tuple[np.ndarray, np.ndarray]:
    """Sums of the unbiased vectors and of their squares, by entry and predicted class; shape (k, k)."""
    k = release.space.size
    sums, squares = np.zeros((k, k)), np.zeros((k, k))
    for rows in _blocks(release):
        vectors, codes = _unbiased(release, rows), predicted[rows]
        choose = csr_array((np.ones(len(codes)), (codes, np.arange(len(codes)))), shape=(k, len(codes)))
        sums += (choose @ vectors).T
        squares += (choose @ vectors**2).T
    return sums, squares


def _ranked(scores: Float[np.ndarray, "n"], weights: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """The weight of other rows with a lower score, and half that of other rows with the same score."""
    _, place = np.unique(scores, return_inverse=True)
    level = np.bincount(place, weights=weights)
    return np.asarray((np.cumsum(level) - level)[place] + 0.5 * (level[place] - weights))


def _shares(
    release: Release, holds: Bool[np.ndarray, "n"], place: Int[np.ndarray, "n"], groups: int, level: float
) -> Estimates:
    """In each group of rows, the share whose true class is the one that ``holds`` was asked for."""
    true, other = _membership(release)
    rows = np.bincount(place, minlength=groups)
    weight = (holds - other) / (true - other)
    value = np.bincount(place, weights=weight, minlength=groups) / rows
    spread = np.bincount(place, weights=(weight - value[place]) ** 2, minlength=groups)
    error = np.sqrt(spread / np.maximum(rows - 1, 1) / rows)
    error[rows < 2] = np.inf
    if true.ndim:
        return _estimates(value, error, level, 0.0, 1.0)
    # the released labels that hold the class are Bernoulli with probability other + (true - other) * share
    ends = _binomial(np.bincount(place, weights=holds, minlength=groups), rows, level)
    low, high = (np.clip((end - other) / (true - other), 0.0, 1.0) for end in ends)
    return Estimates(value, error, low, high)


def _binomial(count: Float[np.ndarray, "g"], rows: Int[np.ndarray, "g"], level: float) -> tuple[np.ndarray, np.ndarray]:
    """The interval of Clopper and Pearson for a probability."""
    tail = (1 - _level(level)) / 2
    low = np.where(count > 0, betaincinv(np.maximum(count, 1), rows - count + 1, tail), 0.0)
    high = np.where(count < rows, betaincinv(count + 1, np.maximum(rows - count, 1), 1 - tail), 1.0)
    return low, high


def _mean(values: Float[np.ndarray, "n"], level: float, least: float = -np.inf, most: float = np.inf) -> Estimate:
    """The mean of independent rows."""
    error = float(np.std(values, ddof=1)) / np.sqrt(len(values)) if len(values) > 1 else np.inf
    return _estimate(float(np.mean(values)), error, level, least, most)


def _estimate(value: float, error: float, level: float, least: float, most: float) -> Estimate:
    """One estimate with a normal interval, cut to the range of the metric."""
    return _estimates(np.array([value]), np.array([error]), level, least, most)[0]


def _estimates(value: np.ndarray, error: np.ndarray, level: float, least: float, most: float) -> Estimates:
    """Estimates with normal intervals, cut to the range of the metric; all of it where nothing is known."""
    half = ndtri((1 + _level(level)) / 2) * error
    low, high = np.clip(value - half, least, most), np.clip(value + half, least, most)
    open_ = np.isnan(value)
    return Estimates(value, error, np.where(open_, least, low), np.where(open_, most, high))


def _level(level: float) -> float:
    """A chance strictly between 0 and 1."""
    if isinstance(level, bool) or not isinstance(level, int | float | np.number) or not 0 < level < 1:
        raise InputError(f"expected a level between 0 and 1, found {level!r}; use for instance 0.95")
    return float(level)


def _numbers(values: object, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Finite numbers of a shape."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"expected {name} as numbers of shape {shape}, found something else") from None
    if array.shape != shape:
        raise InputError(f"expected {name} of shape {shape}, found {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"expected finite {name}, found NaN or infinity")
    return array


def _distributions(values: object, n: int, k: int) -> Float[np.ndarray, "n k"]:
    """A distribution over classes for each row."""
    array = _numbers(values, "probabilities", (n, k))
    bad = (array < -_TOLERANCE).any(axis=1) | (np.abs(array.sum(axis=1) - 1) > _TOLERANCE)
    if bad.any():
        raise InputError(
            "expected probabilities of at least 0 that sum to 1 in every row, found others in row "
            f"{int(np.argmax(bad))}; normalise them"
        )
    return np.asarray(np.maximum(array, 0.0))


def _encoded(release: Release, predicted: object) -> Int[np.ndarray, "n"]:
    """Codes of predictions, one for each row."""
    rows, codes = _rows(release), release.space.encode(predicted)
    if len(codes) != rows:
        raise InputError(f"expected a prediction for each of {rows} released labels, found {len(codes)}")
    return codes


def _code(release: Release, positive: object) -> int:
    """The code of one class."""
    return int(release.space.encode([positive])[0])
