"""Scores of models of a table: metrics, gains over constant predictions, and errors of cross-validation.

**Gains.** What a model gains over the most common class, or over class shares, is a mean of paired differences: each
row contributes what the model's prediction scores less what the constant scores on the same released label, so noise
that both share cancels. The constant is chosen on other rows.

**Errors of cross-validation.** The target is the expected score of a model that is fitted on as many rows as those of
the folds: the mean over the K fold models of what each would score on fresh rows. Let A_k be the part of the mean score
from the rows of fold k, less its expectation given the model. The A_k are each a sum over independent rows, but
dependent on each other: fold l changes the model that fold k judges, and fold k the one that fold l judges. So the
usual error, of rows as if their predictions had been fixed beforehand, leaves out ``sum_{k != l} E[A_k A_l]``. A score
is a sum of terms in which m rows take part (Hoeffding 1948): the row that is judged and m - 1 that the model was fitted
on. Cross-validation counts a term once for each of its rows in the place of the judged one, and m equal counts have at
most m times the variance of m independent ones (Cauchy and Schwarz). Terms of one row, the score of a fixed model, are
not enlarged; those of two, which decide without signal, by a factor of two at most. ``FACTOR`` is its root.

References:
    Bates, Hastie and Tibshirani 2023, for the target and a factor between 1 and the root of K; Bengio and Grandvalet
    2004, for the covariance of folds; Agresti and Min 2005, for the paired difference of shares on public labels.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning import metrics
from labeldp.learning.choice import predict_others, shares_of_rows, towards_all
from labeldp.learning.losses import (
    class_numbers,
    decoded_numbers,
    label_variance,
    precisions,
    require_identified,
    require_numeric_labels,
)
from labeldp.learning.metrics import Bounds, Calibration, Estimate, Estimates, NumberCalibration, Units
from labeldp.privacy import ClassProbabilities, declared_columns
from labeldp.privacy.channels import ClassChannel
from labeldp.release import Release

#: Scores of classes or of numbers.
S = TypeVar("S", bound=Any)
#: Factor of the errors of cross-validation.
FACTOR = math.sqrt(2.0)
_LEVEL = 0.95
_OPEN = (-math.inf, math.inf)
#: Least number of numeric classes whose mean is scored: with two, it is a probability.
_LEAST_NUMBERS = 3
_GAINS = ("likelihood_gain", "better", "log_loss_gain")
#: Scores that are no means of rows, or bounds of means.
_NO_MEANS = ("accuracy", "auc", "balanced_accuracy", "recall")
#: Classes whose areas are averaged, each of which takes a sort of all rows, and whose predictions are counted.
_MOST_AREAS = 100
_MOST_COUNTED = 20
#: Effective rows of a bin of predictions, the most bins, and a standard error that is no more than rounding.
_ROWS_OF_A_BIN, _MOST_BINS, _LEAST_ERROR = 100, 10, 1e-9
#: Ranges of scores, which intervals are clipped to.
_RANGES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        **dict.fromkeys(_NO_MEANS, (0.0, 1.0)),
        **dict.fromkeys(("log_loss", "squared_error", "baseline", "absolute_error"), (0.0, math.inf)),
        "better": (-1.0, 1.0),
        "r2": (-math.inf, 1.0),
    }
)
#: The sum of the normal quantiles of a level of 95 % and of a chance of 80 % to exceed it.
_REACH = 1.96 + 0.84


@dataclass(frozen=True, eq=False)
class ClassScores:
    """Metrics of a classifier's predictions, those that the channel identifies, and its gains over constant ones.

    Attributes:
        rows: Number of rows.
        log_likelihood: Mean log likelihood of the labels, in nats over the uniform model.
        accuracy: Share of rows predicted correctly; bounds if rows have candidates.
        majority: Accuracy of always predicting the most common class. For the estimate the class is chosen for each
            fold of rows on the others, unless labels are public: on the rows that judge it, the best of several classes
            would look better than it is. The interval is of the largest share of a class, from those of all shares at
            once. None if rows have candidates, as the next four.
        log_loss: Mean cross entropy on true labels.
        auc: Area under the receiver operating characteristic of the second declared class of two; of more classes the
            mean of all areas, each class against the rest; None for more than 100.
        balanced_accuracy: Mean recall of all classes.
        recall: Recall of each class, in declared order.
        unpredicted: Codes of classes that no row is predicted to have.
        likelihood_gain: Log likelihood of the labels less that of the class shares of other rows, in nats.
        squared_error: Mean squared error of the mean class, if the classes are three or more numbers, such as grades.
            None if not, or if rows have candidates.
        baseline: That of the mean class by the class shares of other rows.
        better: Accuracy less that of always predicting the most common class of other rows, paired by row. None if rows
            have candidates, as the next.
        log_loss_gain: Log loss of the class shares of other rows, less that of the model, paired by row, in nats.
        predicted: Number of rows that are predicted to have each class, in declared order.
        confusion: Number of rows by true and predicted class, shape (c, c), of ``counted``.
        counted: Codes of the classes in ``confusion``, increasing: all, or of more than 20 those predicted most often.
        calibration: Mean probability and estimated frequency of predicted classes, in bins of about equally many rows,
            as many as the labels can tell apart.
        coverage: Share of rows whose prediction set holds the true class; None of a model without sets.
        class_coverage: That share of the rows of each class, in declared order; None where labels are not public.
        of_rows: Number of rows that these were chosen from by a public hash; None where all are judged.
    """

    rows: int
    log_likelihood: Estimate
    accuracy: Estimate | Bounds
    majority: Estimate | None = None
    log_loss: Estimate | None = None
    auc: Estimate | None = None
    balanced_accuracy: Estimate | None = None
    recall: Estimates | None = None
    unpredicted: tuple[int, ...] = ()
    _: KW_ONLY
    likelihood_gain: Estimate
    squared_error: Estimate | None = None
    baseline: Estimate | None = None
    better: Estimate | None = None
    log_loss_gain: Estimate | None = None
    predicted: tuple[int, ...] = ()
    confusion: Estimates | None = None
    counted: tuple[int, ...] = ()
    calibration: Calibration | None = None
    coverage: Estimate | None = None
    class_coverage: Estimates | None = None
    of_rows: int | None = None


def class_scores(
    release: Release,
    probabilities: Float[np.ndarray, "n k"],
    folds: Int[np.ndarray, "n"] | None = None,
    units: object = None,
) -> ClassScores:
    """All metrics that the channel identifies, and the gains.

    Args:
        release: Released labels of n rows, or public ones.
        probabilities: P(true class | features) in declared order, shape (n, k).
        folds: The fold of each row, if its probabilities are from a model that was fitted on the other folds; errors
            are then those of cross-validation.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
    """
    sample, classes = Units.of(units, release), release.space.size
    named, codes = ClassProbabilities(probabilities, release.space.points), np.argmax(probabilities, axis=1)
    likelihood = metrics.log_likelihood(release, named, units=sample)
    shares = _shares_of_others(release, metrics.folds_to_choose_on(release, folds, sample), sample)
    values = _row_scores(release, probabilities, shares)
    parts: dict[str, Any] = {
        name: _one_row_more(
            metrics.mean_of_rows(values[name], _LEVEL, units=sample), len(release), *_RANGES.get(name, _OPEN)
        )
        for name in values
        if name in _GAINS
    }
    for name, each in (("squared_error", probabilities), ("baseline", shares)):
        if name in values:
            parts[name] = metrics.estimate_of(_OF_GRADES, release, each, values[name], sample, _LEVEL)
    often = np.bincount(codes, minlength=classes)
    if "accuracy" in values:
        parts |= _of_true_classes(release, named, codes, folds, sample)
        parts |= _by_prediction(release, named, values["accuracy"], codes, often, sample)
        parts["majority"] = _most_common_accuracy(release, np.argmax(shares, axis=1), sample)
        if math.isinf(parts["log_loss"].high):  # few units: no gain is known where no loss is
            gains = {name: parts[name] for name in ("likelihood_gain", "log_loss_gain")}
            parts |= {name: dataclasses.replace(gain, low=-math.inf) for name, gain in gains.items()}
    else:  # rows have candidates
        parts["accuracy"] = metrics.accuracy_bounds(release, np.asarray(release.space.points)[codes], units=sample)
    found = ClassScores(
        rows=len(release),
        log_likelihood=likelihood,
        predicted=tuple(often.tolist()),
        unpredicted=tuple(np.flatnonzero(often == 0).tolist()),
        **parts,
    )
    if folds is None:
        return _within_reach(found, classes)
    widened = _within_reach(in_folds(found, dict.fromkeys(values, FACTOR)), classes)
    return widened if found.likelihood_gain.low > 0.0 else _without_signal(widened, codes, folds)


def _of_true_classes(
    release: Release,
    named: ClassProbabilities,
    codes: Int[np.ndarray, "n"],
    folds: Int[np.ndarray, "n"] | None,
    units: Units,
) -> dict[str, Any]:
    """The metrics of true classes; of two the area of the second, of more the mean area."""
    points = np.asarray(release.space.points)
    found: dict[str, Any] = {"log_loss": metrics.log_loss(release, named, units=units)}
    for metric in (metrics.accuracy, metrics.balanced_accuracy, metrics.recall):
        found[metric.__name__] = metric(release, points[codes], units=units)
    if len(points) == 2:
        found["auc"] = metrics.auc(release, named, release.space.points[1], groups=folds, units=units)
    elif len(points) <= _MOST_AREAS:
        found["auc"] = metrics.mean_auc(release, named, groups=folds, units=units)
    return found


def _most_common_accuracy(release: Release, chosen: Int[np.ndarray, "n"], units: Units) -> Estimate:
    """Accuracy of always predicting the most common class; intervals of all shares hold at once (Bonferroni)."""
    points = np.asarray(release.space.points)
    found = metrics.accuracy(release, points[chosen], units=units, level=_LEVEL)
    each = 1.0 - (1.0 - _LEVEL) / len(points)
    shares = [metrics.accuracy(release, np.repeat(point, len(release)), units=units, level=each) for point in points]
    nearest = min(max(found.value, 0.0), 1.0)
    low, high = max(share.low for share in shares), max(share.high for share in shares)
    return Estimate(found.value, found.error, min(low, nearest), max(high, nearest))


def _without_signal(found: ClassScores, codes: Int[np.ndarray, "n"], folds: Int[np.ndarray, "n"]) -> ClassScores:
    """Scores of models that are not shown to be better than class shares, and so are not shown to order rows either.

    An area counts the order of rows alone, however little predictions differ. Where features say nothing, 6 of 90
    intervals of held-out rows at epsilon 2 were above a half; by this rule 1 of them is. The recall of a class is then
    the share of all rows that are predicted as it, which folds disagree about: their mean is not that of the model of
    all rows, which may predict what any of them does.
    """
    ends: dict[str, Any] = {}
    if found.auc is not None:
        ends["auc"] = dataclasses.replace(found.auc, low=min(found.auc.low, 0.5))
    if found.recall is not None:
        of_folds = [np.bincount(codes[folds == fold], minlength=len(found.recall)) for fold in np.unique(folds)]
        shares = np.array([each / each.sum() for each in of_folds])
        low = np.minimum(found.recall.low, shares.min(axis=0))
        high = np.maximum(found.recall.high, shares.max(axis=0))
        ends["recall"] = dataclasses.replace(found.recall, low=low, high=high)
    return dataclasses.replace(found, **ends)


def _by_prediction(
    release: Release,
    named: ClassProbabilities,
    hits: Float[np.ndarray, "n"],
    codes: Int[np.ndarray, "n"],
    often: Int[np.ndarray, "k"],
    units: Units,
) -> dict[str, Any]:
    """True classes of the rows of each predicted class, and the frequency of predicted classes by their probability."""
    error = metrics.mean_of_rows(hits, _LEVEL, units=units).error
    told = min(0.25 / max(error, _LEAST_ERROR) ** 2, len(release))  # effective rows
    count = int(np.clip(told / _ROWS_OF_A_BIN, 1, _MOST_BINS))
    limits = np.unique(np.quantile(np.asarray(named.values).max(axis=1), np.linspace(0.0, 1.0, count + 1)[1:-1]))
    counted = np.sort(np.argsort(-often, kind="stable")[:_MOST_COUNTED])
    return {
        "calibration": metrics.calibration(release, named, bins=limits.tolist(), units=units),
        "confusion": metrics.counts_by_class(release, codes, counted, units, _LEVEL),
        "counted": tuple(counted.tolist()),
    }


def _within_reach(found: ClassScores, classes: int) -> ClassScores:
    """Scores whose gains over constants are possible.

    The most common of k classes has at least 1 / k of the rows, and the log loss of class shares, their entropy, is at
    most that of even ones, ln k. So is the gain in likelihood: it is at most what features say of released labels in
    nats, which is at most what true labels say of them, and that at most their entropy.
    """
    entropy = math.log(classes)
    most = {"better": 1.0 - 1.0 / classes, "log_loss_gain": entropy, "likelihood_gain": entropy}
    known = {name: gain for name in most if (gain := getattr(found, name)) is not None}
    clipped = {
        name: dataclasses.replace(gain, low=min(gain.low, most[name]), high=min(gain.high, most[name]))
        for name, gain in known.items()
    }
    return dataclasses.replace(found, **clipped)


def _one_row_more(gain: Estimate, rows: int, least: float, most: float) -> Estimate:
    """A gain with one more row in its error, in which the model is better or worse by 1, a prediction or a nat.

    Where model and constant agree in every row, or but for rounding, no gain was seen, but none is not known either
    (Agresti and Min 2005, for shares). A gain in likelihood that this leaves is about half the 95 % quantile of a
    chi-squared variable for all rows together, or more.
    """
    below, above = (math.hypot(end - gain.value, 1.96 / rows) for end in (gain.low, gain.high))
    ends = max(gain.value - below, least), min(gain.value + above, most)
    return Estimate(gain.value, math.hypot(gain.error, 1.0 / rows), *ends)


def in_folds(found: S, factors: Mapping[str, float]) -> S:
    """Scores with errors multiplied by factors; those that are no means of rows by the largest of these."""
    most = max(factors.values())
    factors = dict.fromkeys(_NO_MEANS, most) | dict(factors)
    known = {name: getattr(found, name, None) for name in factors}
    return dataclasses.replace(
        found,
        **_predictions_in_folds(found, most),
        **{
            name: _widened(score, factors[name], *_RANGES.get(name, _OPEN))
            for name, score in known.items()
            if score is not None
        },
    )


def _predictions_in_folds(found: Any, factor: float) -> dict[str, Any]:
    """Confusion and calibration with errors multiplied by a factor, where scores have them."""
    counts, curve = getattr(found, "confusion", None), getattr(found, "calibration", None)
    widened: dict[str, Any] = {}
    if counts is not None:
        most = np.asarray(found.predicted, dtype=np.float64)[list(found.counted)]
        widened["confusion"] = _widened(counts, factor, 0.0, most)
    if isinstance(curve, NumberCalibration):
        widened["calibration"] = dataclasses.replace(curve, mean=_widened(curve.mean, factor, *_OPEN))
    elif curve is not None:
        widened["calibration"] = dataclasses.replace(curve, frequency=_widened(curve.frequency, factor, 0.0, 1.0))
    return widened


def rows_to_show(rows: int, estimate: Estimate, improvement: float) -> float:
    """Number of rows that would show an improvement: its interval is above zero with a probability of 80 %."""
    return rows * (_REACH * estimate.error / improvement) ** 2


def _row_scores(
    release: Release, probabilities: Float[np.ndarray, "n k"], shares: Float[np.ndarray, "n k"]
) -> dict[str, Float[np.ndarray, "n"]]:
    """The contribution of each row to scores that are means, for predictions and for constant ones."""
    likelihood, usual = (metrics.LOG_LIKELIHOOD.rows(release, each) for each in (probabilities, shares))
    found = {"log_likelihood": likelihood, "likelihood_gain": likelihood - usual}
    try:
        require_identified(release)
    except InputError:  # rows have candidates
        return found
    hits, common = (metrics.class_weights(release, np.argmax(each, axis=1)) for each in (probabilities, shares))
    loss, constant = (metrics.LOG_LOSS.rows(release, each) for each in (probabilities, shares))
    if _are_grades(release):
        found["squared_error"], found["baseline"] = (_OF_GRADES.rows(release, each) for each in (probabilities, shares))
    return found | {
        "accuracy": hits,
        "better": hits - common,
        "log_loss": loss,
        "log_loss_gain": constant - loss,
    }


def _are_grades(release: Release) -> bool:
    """True if the classes are enough numbers to be grades."""
    numbers = class_numbers(release.space)
    return numbers is not None and len(numbers) >= _LEAST_NUMBERS


def _distances(release: Release, probabilities: Float[np.ndarray, "m k"]) -> Float[np.ndarray, "m k"]:
    """The squared error of the mean class of rows for each true class."""
    numbers = class_numbers(release.space)
    assert numbers is not None  # noqa: S101 (classes are grades)
    return np.asarray(((probabilities @ numbers)[:, None] - numbers) ** 2)


_OF_GRADES = metrics.of_true_class(
    "squared_error", lambda release, columns: declared_columns(columns, release.space), _distances, least=0.0
)


def _shares_of_others(release: Release, folds: Int[np.ndarray, "n"], units: Units) -> Float[np.ndarray, "n k"]:
    """The class shares of the rows of other folds; of all rows if there is one fold."""
    return constants_of_others(folds, lambda others: shares_of_rows(release[others], units.take(others))[None])


def constants_of_others(
    folds: Int[np.ndarray, "n"], choose: Callable[[Int[np.ndarray, "m"]], Float[np.ndarray, "1 ..."]]
) -> Float[np.ndarray, "n ..."]:
    """A constant prediction for each row, chosen on the rows of other folds; on all rows if there is one fold."""
    every = [np.flatnonzero(folds == fold) for fold in np.unique(folds)]
    parts = [(np.setdiff1d(np.arange(len(folds)), held) if len(every) > 1 else held, held) for held in every]
    return predict_others(parts, len(folds), lambda others, held: np.repeat(choose(others), len(held), axis=0))


def _widened(score: Any, factor: float, least: float, most: Any) -> Any:
    """An estimate, estimates or bounds with error and interval multiplied by a factor, within a range."""
    bounds = isinstance(score, Bounds)
    ends = (score.lower, score.upper) if bounds else (score.value, score.value)
    lower, upper = (np.clip(end, least, most) for end in ends)
    with np.errstate(invalid="ignore"):  # an open interval stays open
        low, high = lower - factor * (lower - score.low), upper + factor * (score.high - upper)
    low, high = np.where(np.isfinite(low), low, score.low), np.where(np.isfinite(high), high, score.high)
    error = {} if bounds else {"error": factor * score.error}
    low, high = np.clip(low, least, most), np.clip(high, least, most)
    plain: Any = float if isinstance(score, Estimate | Bounds) else np.asarray
    return dataclasses.replace(score, low=plain(low), high=plain(high), **error)


#: Fewest units in a bin of predictions on average.
_UNITS_OF_A_BIN = 100


@dataclass(frozen=True, eq=False)
class NumberScores:
    """Metrics of predicted numbers, estimated on released labels.

    Attributes:
        rows: Number of rows.
        squared_error: Mean squared error on true labels; bounds if the channel does not identify squares of labels.
        baseline: Mean squared error of always predicting the mean label, estimated for each fold of rows on the others
            unless labels are public.
        gain: Improvement of the squared error over the baseline; known whenever released numbers are unbiased.
        r2: Explained share of the variance of labels, if the channel identifies squares.
        absolute_error: Mean absolute error, if labels are public or were released as grid points.
        mean: Mean label.
        calibration: Mean prediction and estimated mean label, in bins of about equally many rows, as many as the labels
            can tell apart; None of released bins.
        coverage: Share of rows whose interval holds the true number, of which released numbers show a lower bound; None
            of a model without intervals, or with that of all numbers, or where labels do not tell it.
        of_rows: Number of rows that these were chosen from by a public hash; None where all are judged.
    """

    rows: int
    squared_error: Estimate | Bounds
    baseline: Estimate | Bounds
    gain: Estimate
    r2: Estimate | None
    absolute_error: Estimate | None
    mean: Estimate | Bounds
    calibration: NumberCalibration | None = None
    coverage: Estimate | Bounds | None = None
    of_rows: int | None = None


def number_scores(
    release: Release,
    predicted: Float[np.ndarray, "n"],
    folds: Int[np.ndarray, "n"] | None = None,
    units: object = None,
) -> NumberScores:
    """All metrics of numbers that the channel identifies.

    Args:
        release: Released numeric labels of n rows, or public ones.
        predicted: Predicted labels, shape (n,).
        folds: The fold of each row, if its prediction is from a model that was fitted on the other folds.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.

    Raises:
        InputError: There is no unit for each row.
    """
    sample = Units.of(units, require_numeric_labels(release))
    values, place = decoded_numbers(release), metrics.folds_to_choose_on(release, folds, sample)
    squared = metrics.mean_squared_error(release, predicted, units=sample)
    weights, spread = precisions(release, values), label_variance(release, values)

    def mean_of_rows(others: Int[np.ndarray, "m"]) -> Float[np.ndarray, "1"]:
        precise = np.average(values[others], weights=weights[others])
        return np.array([precise + towards_all(precise, values[others], spread, sample.take(others))])

    constant = constants_of_others(place, mean_of_rows)
    over = metrics.mean_of_rows(
        metrics.gains_of(release, predicted) - metrics.gains_of(release, constant), 0.95, units=sample
    )
    exact = isinstance(squared, Estimate)
    return NumberScores(
        len(release),
        squared,
        metrics.mean_squared_error(release, constant, units=sample),
        over,
        metrics.r2(release, predicted, units=sample) if exact else None,
        metrics.mean_absolute_error(release, predicted, units=sample)
        if isinstance(release.channel, ClassChannel)
        else None,
        metrics.mean_label(release, units=sample),
        _calibration(release, predicted, sample),
    )


def _calibration(release: Release, predicted: Float[np.ndarray, "n"], units: Units) -> NumberCalibration | None:
    """Mean labels in so many bins that the standard error of each is about a quarter of the predictions' deviation."""
    error = metrics.mean_of_rows(decoded_numbers(release), 0.95, units=units).error
    told = (float(predicted.std()) / max(4.0 * error, np.finfo(float).tiny)) ** 2
    count = int(np.clip(min(told, units.count / _UNITS_OF_A_BIN), 1, _MOST_BINS))
    limits = np.unique(np.quantile(predicted, np.linspace(0.0, 1.0, count + 1)[1:-1]))
    return metrics.number_calibration(release, predicted, limits.tolist(), units=units)
