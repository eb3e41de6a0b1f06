"""Metrics from released labels alone, with their standard errors and confidence intervals.

Each metric is estimated as it would be on true labels. Standard errors take rows, or declared units of rows, as
independent draws, so they cover both the noise of the labels and the sampling of the rows; a noisy channel gives large
ones. On labels that were declared public, these are the ordinary metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from labeldp import _checks
from labeldp._shapes import Float, Int
from labeldp.columns import floats
from labeldp.errors import InputError, LabelError
from labeldp.learning.losses import gain, require_identified, require_release
from labeldp.learning.metrics._estimates import (
    TOLERANCE,
    Bounds,
    Calibration,
    Estimate,
    Estimates,
    finite_array,
    is_column,
    mean_of_rows,
    positive_row_count,
    quotient_estimates,
    score_covariance,
)
from labeldp.learning.metrics._metric import Metric, OfOutcomes, estimate, of_true_class
from labeldp.learning.metrics._sums import candidates_of, class_weights, code_of, shares_of_groups, weights_with_noise
from labeldp.learning.metrics._units import ROWS, Units
from labeldp.privacy import Classes, ClassProbabilities, declared_columns
from labeldp.privacy.channels import CoarseningChannel
from labeldp.release import Release, check_same_rows


def log_likelihood(release: Release, probabilities: object, *, units: object = None, level: float = 0.95) -> Estimate:
    """Mean log likelihood of released labels, in nats over the uniform model; more is better.

    It is defined for every channel, including rows with candidates, and models are selected by it.

    Args:
        release: Released labels of n rows.
        probabilities: A model's P(true class | features): ``ClassProbabilities.of(model, X)``; or an array of shape
            (n, k), if the classes were declared in sorted order, as those of ``predict_proba`` are.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        level: Coverage of the confidence interval.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    Example:
        >>> from labeldp import Classes, Release
        >>> release = Release.public(["no", "yes"], Classes(["no", "yes"]))
        >>> round(log_likelihood(release, [[1.0, 0.0], [0.0, 1.0]]).value, 3)
        0.693

    Raises:
        InputError: The probabilities have another shape, or a row of them is not a distribution; or they are an array
            alone and the declared order is not sorted.
    """
    return estimate(LOG_LIKELIHOOD, release, probabilities, units, level)


def log_loss(release: Release, probabilities: object, *, units: object = None, level: float = 0.95) -> Estimate:
    """Unbiased estimate of the mean cross entropy on true labels, in nats; less is better.

    Probabilities are clipped at the precision of a float, as in scikit-learn. Of fewer than 15 units of several rows
    the interval has no upper end, unless labels vary less than their noise: such units often hold no large loss.

    Args:
        release: Released labels of n rows.
        probabilities: A model's P(true class | features): ``ClassProbabilities.of(model, X)``; or an array of shape
            (n, k), if the classes were declared in sorted order, as those of ``predict_proba`` are.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        level: Coverage of the confidence interval.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    References:
        Natarajan et al. 2013, Lemma 1, with the entries of the unbiased vector shifted so that they sum to one.

    Example:
        >>> from labeldp import Classes, Release
        >>> release = Release.public(["no", "yes"], Classes(["no", "yes"]))
        >>> round(log_loss(release, [[0.5, 0.5], [0.5, 0.5]]).value, 3)
        0.693

    Raises:
        InputError: The probabilities have another shape, a row of them is not a distribution, or rows have candidates;
            or they are an array alone and the declared order is not sorted.
    """
    return estimate(LOG_LOSS, release, probabilities, units, level)


def accuracy(release: Release, predicted: object, *, units: object = None, level: float = 0.95) -> Estimate:
    """Unbiased estimate of the share of rows whose prediction is the true class.

    Args:
        release: Released labels of n rows.
        predicted: Predicted classes, in any form that the label space reads.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        level: Coverage of the confidence interval, which is exact (Clopper and Pearson) if all rows share one channel,
            and that of a score test otherwise.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    References:
        Clopper and Pearson 1934, for the share of rows whose released label holds the prediction; Korn and Graubard
        1998, for units.

    Example:
        >>> from labeldp import Classes, Release
        >>> release = Release.public(["no", "yes", "yes", "yes"], Classes(["no", "yes"]))
        >>> round(accuracy(release, ["no", "no", "yes", "yes"]).value, 3)
        0.75

    Raises:
        InputError: The predictions are not one for each row, or rows have candidates; use ``accuracy_bounds``.
        LabelError: A prediction is not in the label space.
    """
    require_identified(release)
    codes, sample = encoded(release, predicted), Units.of(units, release)
    return shares_of_groups(release, codes, np.zeros(len(release), dtype=np.int64), 1, sample, level)[0]


def accuracy_bounds(release: Release, predicted: object, *, units: object = None, level: float = 0.95) -> Bounds:
    """Least and largest accuracy that are consistent with released labels, for rows with candidates or groups.

    A true class outside a row's candidates is released as one of them uniformly. So for a prediction f among m
    candidates the unbiased vector has ``E[w_f] = A + B / m``, with ``A = P(y = f)`` and
    ``B = P(y is no candidate) <= 1 - A``: A lies between ``(m E[w_f] - 1) / (m - 1)`` and ``E[w_f]``. The accuracy of a
    prediction that is no candidate, or the only one, may be anything. The bounds are the narrowest for the mean of
    ``w_f`` at each m, if predictions among candidates are right at least as often as a uniform guess among them. If
    all classes are candidates both bounds are the accuracy.

    Of groups of classes the share of true classes in the group of the predicted one is known: the accuracy is at most
    that, and at least the part of it in groups of one class.

    Args:
        release: Released labels of n rows, of any channel.
        predicted: Predicted classes, in any form that the label space reads.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        level: Probability that the accuracy lies between ``low`` and ``high``, by a normal approximation.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    References:
        Ghazi et al. 2021, Algorithm 1, for the output distribution of a label outside the candidates.

    Example:
        >>> from labeldp import Classes, Curator, TopKResponse
        >>> space = Classes(["a", "b", "c"])
        >>> randomizer = TopKResponse(space, 1.0, prior=[[0.5, 0.4, 0.1]] * 4, k=2)
        >>> release = Curator(["a", "b", "a", "c"], space).randomize(randomizer)
        >>> bounds = accuracy_bounds(release, ["c", "c", "c", "c"])
        >>> bounds.lower, bounds.upper
        (0.0, 1.0)

    Raises:
        InputError: The predictions are not one for each row.
        LabelError: A prediction is not in the label space.
    """
    codes, channel = encoded(release, predicted), release.channel
    if isinstance(channel, CoarseningChannel):
        informative = channel.sizes > 1
        most = np.ones(len(codes))
        most[informative] = class_weights(release[informative], codes[informative])
        least = np.where(channel.alone(codes), most, 0.0)
    else:
        least, most = _among_candidates(release, codes)
    sample = Units.of(units, release)
    below, above = (mean_of_rows(each, level, 0.0, 1.0, sample) for each in (least, most))
    return Bounds(float(np.clip(below.value, 0, 1)), float(np.clip(above.value, 0, 1)), below.low, above.high)


def _among_candidates(
    release: Release, codes: Int[np.ndarray, "n"]
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """Each row's part of the least and of the largest accuracy, of candidates."""
    size, informative = candidates_of(release, codes)
    hit = np.where(informative, class_weights(release, codes), 1.0)
    partial = informative & (size < release.space.size)
    return np.where(partial, (size * hit - 1.0) / np.maximum(size - 1, 1), np.where(informative, hit, 0.0)), hit


def confusion_matrix(release: Release, predicted: object, *, units: object = None, level: float = 0.95) -> Estimates:
    """Unbiased estimates of the number of rows by true and predicted class; shape (k, k), [true, predicted].

    Classes are in declared order.

    Args:
        release: Released labels of n rows.
        predicted: Predicted classes, in any form that the label space reads.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        level: Coverage of each entry's confidence interval, given the number of rows predicted as each class: exact
            (Clopper and Pearson) if all rows share one channel, and that of a score test otherwise.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    Example:
        >>> from labeldp import Classes, Release
        >>> release = Release.public(["no", "yes", "yes", "yes"], Classes(["no", "yes"]))
        >>> confusion_matrix(release, ["no", "no", "yes", "yes"]).value.round().astype(int).tolist()
        [[1, 0], [1, 2]]

    Raises:
        InputError: The predictions are not one for each row, or rows have candidates.
        LabelError: A prediction is not in the label space.
    """
    require_identified(release)
    every = np.arange(release.space.size)
    return counts_by_class(release, encoded(release, predicted), every, Units.of(units, release), level)


def counts_by_class(
    release: Release, codes: Int[np.ndarray, "n"], classes: Int[np.ndarray, "c"], units: Units, level: float
) -> Estimates:
    """Number of rows by true and predicted class, for some classes; shape (c, c), [true, predicted].

    Args:
        release: Released labels of n rows, whose channel identifies each class.
        codes: The code of each row's predicted class.
        classes: Codes of the classes, increasing.
        units: The units of the rows.
        level: As for ``confusion_matrix``.
    """
    k, place = len(classes), np.searchsorted(classes, codes)
    place[~np.isin(codes, classes)] = k
    rows = np.bincount(place, minlength=k + 1)
    value, error, low, high = (np.zeros((k, k + 1)) for _ in range(4))
    for i, code in enumerate(classes):
        every = np.full(len(release), code)
        shares = shares_of_groups(release, every, place, k + 1, units, level)
        low[i], high[i] = rows * shares.low, rows * shares.high
        weight = class_weights(release, every)
        value[i] = np.bincount(place, weights=weight, minlength=k + 1)
        # The error is that of the count, whose number of predicted rows varies; the interval is given that number.
        squares = units.count * units.squares(weight, place, k + 1)[0] - value[i] ** 2
        error[i] = np.sqrt(np.maximum(squares, 0.0) / units.free) if units.count > 1 else np.inf
    return Estimates(value[:, :k], error[:, :k], low[:, :k], high[:, :k])


def recall(release: Release, predicted: object, *, units: object = None, level: float = 0.95) -> Estimates:
    """Estimated recall of each class in declared order: the share of its rows that are predicted as it, shape (k,).

    It is a quotient of unbiased estimates, so its bias is of the order of its squared error. It is NaN if the released
    labels do not show that the class occurs at all. The interval is not symmetric, and more reliable than the standard
    error if the class is rare.

    Args:
        release: Released labels of n rows.
        predicted: Predicted classes, in any form that the label space reads.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        level: Coverage of each class's confidence interval: on public labels exact (Clopper and Pearson, given the
            number of its rows), and otherwise that of a score test.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    References:
        Fieller 1954, for the interval of a quotient; Wilson 1927, for the variance of a share given its value.

    Example:
        >>> from labeldp import Classes, Release
        >>> release = Release.public(["no", "yes", "yes", "yes"], Classes(["no", "yes"]))
        >>> recall(release, ["no", "no", "yes", "yes"]).value.round(3).tolist()
        [1.0, 0.667]

    Raises:
        InputError: The predictions are not one for each row, or rows have candidates.
        LabelError: A prediction is not in the label space.
    """
    require_identified(release)
    codes, sample = encoded(release, predicted), Units.of(units, release)
    k = release.space.size
    sizes = tuple(float(each[0]) for each in sample.sizes(np.zeros(len(codes), dtype=np.int64), 1))
    hit, total, covariance, within = np.zeros(k), np.zeros(k), np.zeros((k, 2, 2)), np.zeros((k, 2, 2))
    for code in range(k):
        weight, noise = weights_with_noise(release, np.full(len(release), code))
        rows = np.stack([codes == code, np.ones(len(codes))], axis=1)
        (hit[code], total[code]), covariance[code] = weight @ rows, sample.covariance(weight[:, None] * rows)
        known_noise = rows.T @ (noise[:, None] * rows)
        within[code] = score_covariance(hit[code], total[code], known_noise, covariance[code], *sizes)
    known = (total > TOLERANCE) & (sample.count > 1)
    found = quotient_estimates(hit, total, covariance, known, level, sample.free, within)
    if not release.is_public:
        return found
    exact = shares_of_groups(release, codes, release.codes, k, sample, level)
    return Estimates(found.value, found.error, exact.low, exact.high)


def calibration(
    release: Release,
    probabilities: object,
    positive: object = None,
    *,
    bins: int | Sequence[float] = 10,
    units: object = None,
    level: float = 0.95,
) -> Calibration:
    """Mean predicted probability and estimated frequency of a class, or of the predicted classes, in bins.

    Args:
        release: Released labels of n rows.
        probabilities: A model's P(true class | features): ``ClassProbabilities.of(model, X)``; or an array of shape
            (n, k), if the classes were declared in sorted order, as those of ``predict_proba`` are.
            Of one class, its column alone, shape (n,), will do.
        positive: The class; None for the class that each row is predicted to have, whose frequency is the accuracy.
        bins: Number of bins of equal width between 0 and 1; or the limits between bins, in order, which must not be
            chosen by released labels.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        level: Coverage of each bin's confidence interval, as for ``accuracy``.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    Example:
        >>> from labeldp import Classes, Release
        >>> release = Release.public(["no", "yes", "yes", "yes"], Classes(["no", "yes"]))
        >>> curve = calibration(release, [[0.8, 0.2], [0.7, 0.3], [0.1, 0.9], [0.1, 0.9]], "yes", bins=2)
        >>> curve.predicted.round(3).tolist(), curve.frequency.value.round(3).tolist()
        ([0.25, 0.9], [0.5, 1.0])

    References:
        Guo et al. 2017, section 2, for the predicted class.

    Raises:
        InputError: The probabilities have another shape, a row of them is not a distribution, or rows have candidates;
            or they are an array alone and the declared order is not sorted.
        LabelError: The class is not in the label space.
    """
    require_identified(release)
    codes, shown = _shown(release, probabilities, positive)
    place = np.searchsorted(_limits(bins), shown)
    _, place, rows = np.unique(place, return_inverse=True, return_counts=True)
    predicted, sample = np.bincount(place, weights=shown) / rows, Units.of(units, release)
    return Calibration(predicted, shares_of_groups(release, codes, place, len(rows), sample, level), rows)


def _shown(
    release: Release, probabilities: object, positive: object
) -> tuple[Int[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """A class for each row, the given one or the likeliest, and its probability."""
    if positive is not None:
        codes, rows = np.full(len(release), code_of(release, positive)), positive_row_count(release)
        if is_column(probabilities):
            shown = finite_array(probabilities, f"probabilities of {positive!r}", (rows,))
            if ((shown < -TOLERANCE) | (shown > 1.0 + TOLERANCE)).any():
                raise InputError("expected probabilities between 0 and 1, found others; use predict_proba, not scores")
            return codes, shown
    checked = _check_distributions(release, probabilities)
    codes = np.argmax(checked, axis=1) if positive is None else codes
    return codes, np.take_along_axis(checked, codes[:, None], axis=1)[:, 0]


def _limits(bins: int | Sequence[float]) -> Float[np.ndarray, "b"]:
    """The limits between bins."""
    if not isinstance(bins, Sequence):
        return np.linspace(0.0, 1.0, _checks.whole(bins, "bins", 1) + 1)[1:-1]
    limits = floats(bins, "limits of bins")
    if limits.ndim != 1 or not (np.diff(limits) > 0.0).all():
        raise InputError("expected limits of bins that increase, found others; sort them, each once")
    return limits


def log_likelihood_scorer(estimator: Any, X: Any, release: Release) -> float:  # noqa: N803 (scikit-learn's name)
    """``log_likelihood`` of a fitted classifier, for ``scoring=`` in scikit-learn's model selection.

    Args:
        estimator: A classifier with ``predict_proba``; classes that it was not fitted on have probability zero.
        X: Features of n rows.
        release: Released labels of n rows.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

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
    check_same_rows(X, require_release(release))
    return log_likelihood(release, ClassProbabilities.of(estimator, X), units=ROWS).value


def accuracy_scorer(estimator: Any, X: Any, release: Release) -> float:  # noqa: N803 (scikit-learn's name)
    """``accuracy`` of a fitted classifier, for ``scoring=`` in scikit-learn's model selection.

    Args:
        estimator: A classifier.
        X: Features of n rows.
        release: Released labels of n rows.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    Example:
        >>> from sklearn.model_selection import cross_val_score
        >>> from labeldp import Classes, Release
        >>> from labeldp.learning.sklearn import SoftmaxRegression
        >>> release = Release.public(["no", "yes"] * 6, Classes(["no", "yes"]))
        >>> model = SoftmaxRegression(l2=0.001)
        >>> cross_val_score(model, [[0.0], [1.0]] * 6, release, scoring=accuracy_scorer, cv=3).round(3).tolist()
        [1.0, 1.0, 1.0]
    """
    check_same_rows(X, require_release(release))
    return accuracy(release, estimator.predict(X), units=ROWS).value


def _gains_by_outcome(release: Release, checked: Float[np.ndarray, "n k"]) -> OfOutcomes:
    """A function of possible outcomes: the gain in log likelihood of each row if it released each of them."""

    def gains(outcomes: np.ndarray) -> Float[np.ndarray, "n m"]:
        likelihood = release.channel.likelihood(outcomes)
        hit = np.maximum(checked @ likelihood.T, np.finfo(float).tiny)
        return np.asarray(np.log(hit) - np.log(likelihood.mean(axis=1)))

    return gains


def _cross_entropies(_: Release, checked: Float[np.ndarray, "m k"]) -> Float[np.ndarray, "m k"]:
    """The loss of each row for each true class."""
    return np.asarray(-np.log(np.clip(checked, np.finfo(float).eps, 1.0)))


def _check_distributions(release: Release, values: object) -> Float[np.ndarray, "n k"]:
    """A distribution over classes for each row of a release, in declared order."""
    rows = positive_row_count(release)
    array = finite_array(declared_columns(values, release.space), "probabilities", (rows, release.space.size))
    bad = (array < -TOLERANCE).any(axis=1) | (np.abs(array.sum(axis=1) - 1) > TOLERANCE)
    if bad.any():
        raise InputError(
            "expected probabilities of at least 0 that sum to 1 in every row, found others at position "
            f"{int(np.argmax(bad))}; normalize them"
        )
    return np.asarray(np.maximum(array, 0.0))


def encoded(release: Release, predicted: object) -> Int[np.ndarray, "n"]:
    """Codes of predictions, one for each row."""
    rows, space = positive_row_count(release), release.space
    named = isinstance(space, Classes) and isinstance(space.points[0], str)
    if named and np.asarray(predicted).dtype.kind in "iu":
        raise LabelError(
            f"expected predicted classes, such as {space.points[0]!r}, found whole numbers; if these are the "
            "places of classes, as of argmax, pass numpy.array(release.space.points)[numbers]"
        )
    codes = space.encode(predicted)
    if len(codes) != rows:
        raise InputError(f"expected a prediction for each of {rows} released labels, found {len(codes)}")
    return codes


LOG_LIKELIHOOD = Metric("log_likelihood", _check_distributions, gain, _gains_by_outcome)
#: Below, a model that is too sure may seem right in every unit.
LOG_LOSS = of_true_class("log_loss", _check_distributions, _cross_entropies, least=0.0, fewest=15)
