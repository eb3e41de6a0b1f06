"""Calibration of class probabilities by released labels, at no privacy cost; class shares stay in doubt."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._arrays import freeze_arrays
from labeldp._documented import documented_in
from labeldp._shapes import Float
from labeldp.errors import InputError
from labeldp.learning.choice import (
    NO_HELP,
    SHARES,
    Fitted,
    Parts,
    Problem,
    fit_in_units,
    folds_of,
    is_clearly_better,
    predict_others,
)
from labeldp.learning.features import indexable_rows, take_rows
from labeldp.learning.heads import INTERCEPT_VARIANCE, SoftmaxProblem, softmax
from labeldp.learning.losses import gain, require_release, row_loss
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn._adapter import for_released_labels
from labeldp.learning.sklearn._soft_labels import MetaEstimator, ProbabilityClassifier, check_released_rows
from labeldp.privacy import columns_in_order, predicted_columns
from labeldp.release import Release

#: Probabilities below this are raised to it, so that a few certain mistakes do not decide the slope.
_LEAST = 1e-6
#: Prior variance of the slope around 1 and of each shift around 0, in nats: little beside a hundred effective rows.
_VARIANCE = 1.0
_STEEPEST, _TOLERANCE = 20.0, 1e-7


class UnguardedFitWarning(UserWarning):
    """A network has more weights than its released labels have effective rows, and none were held out."""


@dataclass(frozen=True, eq=False)
class Calibrator:
    """A map of class probabilities to calibrated ones: ``softmax(slope * log p + shifts)``.

    With slope 0 it predicts the same class shares for every row.

    Attributes:
        slope: Inverse of the temperature, at least 0.
        shifts: Added to the log probability of each class, in declared order, shape (k,).

    References:
        Platt 1999, for two classes; Guo et al. 2017, for the temperature; Alexandari, Kundaje and Shrikumar 2020, for
        one shift for each class beside it.
    """

    slope: float
    shifts: Float[np.ndarray, "k"]

    def __post_init__(self) -> None:
        freeze_arrays(self, shifts=np.float64)
        if not (0.0 <= self.slope < np.inf and self.shifts.ndim == 1 and np.isfinite(self.shifts).all()):
            raise InputError("expected a slope of at least 0 and a finite shift of each class, found others")

    @classmethod
    def fit(cls, release: Release, probabilities: Float[np.ndarray, "n k"], units: Units | None = None) -> Calibrator:
        """The likeliest calibration of predictions for rows that they were not fitted on, given released labels.

        Slope and shifts maximise the likelihood of the released labels under the channel, times a prior by which few
        effective rows change little. In doubt it is that of class shares: unless the likelihood of the calibrated
        predictions exceeds that of the shares by more than the standard error of the difference. As both were fitted
        on these rows, that is where the slope is about two standard errors above zero: without signal, in one case of
        forty.

        Args:
            release: Released labels of n rows.
            probabilities: Predictions for these rows in declared order, shape (n, k), by models fitted on others.
            units: The privacy units of the rows; None if each row is its own.
        """
        shares, calibrated = cls.of_shares(release), _fit(release, probabilities)
        found, constant = (gain(release, each(probabilities)) for each in (calibrated, shares))
        better = is_clearly_better(found, constant, units)
        return calibrated if better else shares

    @classmethod
    def of_shares(cls, release: Release) -> Calibrator:
        """The likeliest class shares of a release, for every row, whatever its prediction."""
        rows, penalty = len(release), 1.0 / (INTERCEPT_VARIANCE * len(release))
        nothing, loss = np.empty((rows, 0)), row_loss(release, "likelihood")
        problem = SoftmaxProblem(nothing, loss, np.ones(rows), release.space.size, 0.0, intercept_l2=penalty)
        return cls(0.0, problem.fit(tolerance=_TOLERANCE).intercepts)

    @property
    def is_constant(self) -> bool:
        """True if every row gets the same class shares."""
        return self.slope == 0.0

    def setting(self) -> str:
        """The calibration in words."""
        if self.is_constant:
            return f"replaced by {SHARES}, {NO_HELP}"
        return f"calibrated on released labels (slope {self.slope:.2g}), {SHARES} being the alternative"

    def __call__(self, probabilities: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
        """Calibrated probabilities, both in declared order."""
        return softmax(self.slope * _logarithms(probabilities) + self.shifts)

    def plain(self) -> dict[str, Any]:
        """The calibration as plain data for a file."""
        return {"slope": self.slope, "shifts": self.shifts.tolist()}

    @classmethod
    def from_plain(cls, body: dict[str, Any] | None, classes: int) -> Calibrator | None:
        """A calibration from plain data; None if there is none, as in files of models that were not calibrated.

        Raises:
            ValueError: It is for another number of classes, or not of finite numbers.
        """
        if body is None:
            return None
        found = cls(float(body["slope"]), np.asarray(body["shifts"], dtype=np.float64))
        if found.shifts.shape != (classes,):
            raise ValueError("a calibration of other classes")
        return found


@documented_in("labeldp.learning.sklearn")
@dataclass(eq=False, repr=False)
class CalibratedClassifier(MetaEstimator, ProbabilityClassifier):
    """A classifier with probabilities calibrated by released labels, or class shares in doubt.

    Many learners rank rows well but are over- or under-confident, above all with few effective rows: boosting, forests,
    networks, expectation maximisation that stops early. Copies of the learner predict rows that they were not fitted
    on. A slope for the log probabilities and a shift for each class then maximise the likelihood of the *released*
    labels of these rows under the channel; no true label is needed. Where these labels do not clearly show that the
    predictions help, every row gets the class shares instead.

    Args:
        estimator: A learner of released labels; or any scikit-learn classifier, which ``ReleasedLabelClassifier`` fits;
            or a pipeline that ends in one; by default ``SoftmaxRegression``.
        folds: Folds for the predictions of rows that a copy was not fitted on.

    Attributes:
        classes_: The declared classes.
        estimator_: The learner, fitted on all rows.
        slope_: Factor of its log probabilities: above 1 where it was under-confident, below 1 where it was
            over-confident, and 0 where class shares are predicted.
        shifts_: What is added to the log probabilities of ``classes_``, shape (k,).

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    References:
        Platt 1999; Guo et al. 2017; Alexandari, Kundaje and Shrikumar 2020 (shifts); Patrini et al. 2017, for the
        likelihood under the channel.

    Example:
        >>> import numpy as np
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> from labeldp.learning.sklearn import CalibratedClassifier
        >>> features, space = np.repeat([[0.0], [1.0]], 500, axis=0), Classes(["no", "yes"])
        >>> curator = Curator(["no"] * 500 + ["yes"] * 500, space)
        >>> release = curator.randomize(RandomizedResponse(space, epsilon=2.0))
        >>> model = CalibratedClassifier(RandomForestClassifier(n_estimators=10, random_state=0))
        >>> bool(model.fit(features, release).predict_proba([[0.0], [1.0]])[:, 1].max() > 0.8)
        True
        >>> noise = np.random.default_rng(0).normal(size=(1000, 5))  # features that say nothing
        >>> model.fit(noise, release).slope_
        0.0
    """

    estimator: Any = None
    _: KW_ONLY
    folds: int = 5

    def fit(self, X: Any, y: Release, groups: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Fit on features of n rows, in any form that the learner takes, and a release of n rows.

        Args:
            X: Features.
            y: A release.
            groups: The privacy unit of each row, shape (n,); ``"rows"`` if each row is its own.

        Raises:
            InputError: There are fewer rows or units than folds.
        """
        release, learner = require_release(y), self._inner()
        features = indexable_rows(X)
        check_released_rows(features, release)
        units = Units.of(groups, release)

        def others(fit: np.ndarray, held: np.ndarray) -> Float[np.ndarray, "m k"]:
            copy, rows = clone(learner, safe=False), take_rows(features, fit)
            fitted = fit_in_units(copy, rows, release[fit], units.take(fit))
            return predicted_columns(fitted, take_rows(features, held), release.space)

        with warnings.catch_warnings():  # held-out rows are the guard
            warnings.simplefilter("ignore", UnguardedFitWarning)
            parts = folds_of(units, _checks.whole(self.folds, "folds", 2))
            predicted = predict_others(parts, len(release), others)
            self.estimator_ = fit_in_units(clone(learner, safe=False), features, release, units)
        self._calibrator = Calibrator.fit(release, predicted, units)
        codes, self.space_ = self._set_classes(release.space), release.space
        self.slope_, self.shifts_ = self._calibrator.slope, self._calibrator.shifts[codes]
        self._count_features()
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        check_is_fitted(self)
        declared = self._calibrator(predicted_columns(self.estimator_, indexable_rows(X), self.space_))
        return columns_in_order(declared, self.space_.points, self.classes_)

    def _inner(self) -> Any:
        return for_released_labels(self.estimator)


@dataclass(frozen=True, eq=False)
class HeldOutCalibration(Problem):
    """Class probabilities of rows by a model that was fitted on others, beside the released labels of these rows.

    Attributes:
        release: Released labels of n rows.
        predictions: Probabilities in declared order.
        units: The privacy units of the rows.
    """

    release: Release
    predictions: Float[np.ndarray, "n k"]
    units: Units

    @classmethod
    def of(
        cls, release: Release, fitted: Sequence[Fitted], rows: np.ndarray, _: Parts, units: Units
    ) -> HeldOutCalibration:
        """The problem of rows that were held out from one model."""
        return cls(release[rows], fitted[0].held_out, units.take(rows))

    def take(self, rows: np.ndarray) -> Self:
        """The problem of some of the rows."""
        return type(self)(self.release[rows], self.predictions[rows], self.units.take(rows))

    def best(self) -> Calibrator:
        """The likeliest calibration, or class shares in doubt."""
        return Calibrator.fit(self.release, self.predictions, self.units)

    def mixed(self, combination: Calibrator) -> Float[np.ndarray, "n k"]:
        """Calibrated predictions of the rows."""
        return combination(self.predictions)


def _fit(release: Release, probabilities: Float[np.ndarray, "n k"]) -> Calibrator:
    """Maximum likelihood of slope and shifts, with a normal prior around a slope of 1 and no shifts."""
    logarithms, loss, weights = _logarithms(probabilities), row_loss(release, "likelihood"), np.ones(len(release))

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        gradient = point[0] * logarithms + point[1:]
        offsets = point - start
        value = loss(gradient, weights) + 0.5 * float(offsets @ offsets) / _VARIANCE
        slopes = np.array([float(np.vdot(gradient, logarithms)), *gradient.sum(axis=0)]) + offsets / _VARIANCE
        return value / len(weights), slopes / len(weights)

    start = np.array([1.0, *np.zeros(release.space.size)])
    bounds = [(0.0, _STEEPEST), *[(None, None)] * release.space.size]
    found = minimize(objective, start, method="L-BFGS-B", jac=True, bounds=bounds, options={"gtol": _TOLERANCE})
    return Calibrator(float(found.x[0]), found.x[1:])


def _logarithms(probabilities: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
    return np.asarray(np.log(np.maximum(probabilities, _LEAST)))
