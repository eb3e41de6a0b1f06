"""Scores of classifiers of a table: metrics, gains over constant predictions, and errors of cross-validation.

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
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.heads import share_logits, softmax
from labeldp.learning.losses import class_numbers, require_identified
from labeldp.learning.metrics import (
    LOG_LIKELIHOOD,
    LOG_LOSS,
    Bounds,
    Calibration,
    Estimate,
    Estimates,
    NumberCalibration,
    Scores,
    Units,
    calibration,
    class_weights,
    counts_by_class,
    estimate_of,
    folds_to_choose_on,
    mean_of_rows,
    of_true_class,
    scores,
)
from labeldp.privacy import ClassProbabilities, declared_columns
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
#: Classes whose predictions are counted by true class.
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


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassScores(Scores):
    """Metrics of a table's classifier, those that the channel identifies, and its gains over constant predictions.

    Attributes:
        squared_error: Mean squared error of the mean class, if the classes are three or more numbers, such as grades.
            None if not, or if rows have candidates.
        baseline: That of the mean class by the class shares of other rows.
        likelihood_gain: Log likelihood of the labels less that of the class shares of other rows, in nats.
        better: Accuracy less that of always predicting the most common class of other rows, paired by row. None if rows
            have candidates, as the next.
        log_loss_gain: Log loss of the class shares of other rows, less that of the model, paired by row, in nats.
        predicted: Number of rows that are predicted to have each class, in declared order.
        confusion: Number of rows by true and predicted class, shape (c, c), of ``counted``.
        counted: Codes of the classes in ``confusion``, increasing: all, or of more than 20 those predicted most often.
        calibration: Mean probability and estimated frequency of predicted classes, in bins of about equally many rows,
            as many as the labels can tell apart.
    """

    likelihood_gain: Estimate
    squared_error: Estimate | None = None
    baseline: Estimate | None = None
    better: Estimate | None = None
    log_loss_gain: Estimate | None = None
    predicted: tuple[int, ...] = ()
    confusion: Estimates | None = None
    counted: tuple[int, ...] = ()
    calibration: Calibration | None = None


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
    sample = Units.of(units, release)
    place = folds_to_choose_on(release, folds, sample)
    shares = _shares_of_others(release, place)
    values = _row_scores(release, probabilities, shares)
    gains = {
        name: _one_row_more(mean_of_rows(values[name], _LEVEL, units=sample), len(release), *_RANGES.get(name, _OPEN))
        for name in values
        if name in _GAINS
    }
    squares = {
        name: estimate_of(_OF_GRADES, release, each, values[name], sample, _LEVEL)
        for name, each in (("squared_error", probabilities), ("baseline", shares))
        if name in values
    }
    named = ClassProbabilities(probabilities, release.space.points)
    known = vars(scores(release, named, folds, sample, np.argmax(shares, axis=1)))
    found = ClassScores(**{**known, **gains, **squares, **_by_prediction(release, named, values, sample)})
    if folds is None:
        return _within_reach(found, release.space.size)
    widened = _within_reach(in_folds(found, dict.fromkeys(values, FACTOR)), release.space.size)
    return widened if gains["likelihood_gain"].low > 0.0 else _without_order(widened)


def _without_order(found: ClassScores) -> ClassScores:
    """Scores of models that are not shown to be better than class shares, and so are not shown to order rows either.

    An area counts the order of rows alone, however little predictions differ. Where features say nothing, 6 of 90
    intervals of held-out rows at epsilon 2 were above a half; by this rule 1 of them is.
    """
    if found.auc is None:
        return found
    return dataclasses.replace(found, auc=dataclasses.replace(found.auc, low=min(found.auc.low, 0.5)))


def _by_prediction(
    release: Release, named: ClassProbabilities, values: Mapping[str, Float[np.ndarray, "n"]], units: Units
) -> dict[str, Any]:
    """Rows of each predicted class, their true classes, and the frequency of predicted classes by their probability."""
    columns = np.asarray(declared_columns(named, release.space))
    codes = np.argmax(columns, axis=1)
    found: dict[str, Any] = {"predicted": tuple(np.bincount(codes, minlength=release.space.size).tolist())}
    if "accuracy" not in values:  # rows have candidates
        return found
    error = mean_of_rows(values["accuracy"], _LEVEL, units=units).error
    told = min(0.25 / max(error, _LEAST_ERROR) ** 2, len(release))  # effective rows
    count = int(np.clip(told / _ROWS_OF_A_BIN, 1, _MOST_BINS))
    limits = np.unique(np.quantile(columns.max(axis=1), np.linspace(0.0, 1.0, count + 1)[1:-1]))
    found["calibration"] = calibration(release, named, bins=limits.tolist(), units=units)
    often = np.argsort(-np.asarray(found["predicted"]), kind="stable")
    counted = np.sort(often[:_MOST_COUNTED])
    found["confusion"] = counts_by_class(release, codes, counted, units, _LEVEL)
    found["counted"] = tuple(counted.tolist())
    return found


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
    likelihood, usual = (LOG_LIKELIHOOD.rows(release, each) for each in (probabilities, shares))
    found = {"log_likelihood": likelihood, "likelihood_gain": likelihood - usual}
    try:
        require_identified(release)
    except InputError:  # rows have candidates
        return found
    hits, common = (class_weights(release, np.argmax(each, axis=1)) for each in (probabilities, shares))
    loss, constant = (LOG_LOSS.rows(release, each) for each in (probabilities, shares))
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


_OF_GRADES = of_true_class(
    "squared_error", lambda release, columns: declared_columns(columns, release.space), _distances, least=0.0
)


def _shares_of_others(release: Release, folds: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n k"]:
    """The likeliest class shares of the rows of other folds; of all rows if there is one fold."""
    shares = np.full((len(release), release.space.size), 1.0 / release.space.size)
    for fold in np.unique(folds):
        held = folds == fold
        others = np.flatnonzero(~held) if not held.all() else np.arange(len(held))
        shares[held] = softmax(share_logits(release[others])[None])
    return shares


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
