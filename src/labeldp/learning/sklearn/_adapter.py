"""Adapter of scikit-learn classifiers to released labels, and calibration of class probabilities by these.

Learners of this package stay as they are. Class shares stay in doubt.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Float, Int
from labeldp.errors import InputError, LabelDPError
from labeldp.learning.choice import Fitted, fit_in_units, folds_of, predict_others
from labeldp.learning.features import indexable_rows, missing_values, row_count, take_rows
from labeldp.learning.losses import require_release
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn._mixture import held_out_classes
from labeldp.learning.sklearn._soft_labels import MetaEstimator, ProbabilityClassifier, check_released_rows
from labeldp.learning.sklearn._softmax import ReleasedLabelClassifier, SoftmaxRegression
from labeldp.privacy import LabelSpace, columns_in_order, predicted_columns
from labeldp.release import Release

#: Rows of a trial fit, and how many rows with missing or infinite values are added at most.
TRIAL_ROWS, _NOT_FINITE = 256, 256
#: Parameters of learners that a trial fit overrides, so that it is short and leaves no files.
_TRIAL_PARAMETERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "epochs": lambda epochs: min(epochs, 1),
        "training": lambda training: {**(training or {}), "epochs": 1, "checkpoint": None},
        "checkpoint": lambda _: None,
        "report": lambda _: None,
    }
)


def for_released_labels(learner: Any) -> Any:
    """A learner of released labels: the given one, a wrapped scikit-learn classifier, or softmax regression for None.

    Raises:
        InputError: The learner has no ``fit`` or no ``predict_proba``, or is a class.
    """
    if learner is None:
        return SoftmaxRegression()
    if isinstance(learner, type) or not (hasattr(learner, "fit") and hasattr(learner, "predict_proba")):
        raise InputError(
            f"expected a learner with fit and predict_proba, found {learner!r:.80}; give SoftmaxRegression()"
        )
    last = _last_step(learner)
    foreign = isinstance(last, ClassifierMixin) and not isinstance(last, ProbabilityClassifier)
    return ReleasedLabelClassifier(learner) if foreign else learner


def rehearse(learner: Any, features: Any, space: LabelSpace) -> None:
    """Fit a copy on a few rows with invented labels, so that errors show before a label is drawn.

    The rows include some with missing or infinite values, which some learners refuse.
    """
    rows = _trial_rows(features)
    invented = Release.public([space.points[code] for code in np.arange(len(rows)) % space.size], space)
    model = clone(learner, safe=False)
    last = _last_step(model)
    settings = last.get_params(deep=False) if hasattr(last, "get_params") else {}
    try:
        if trial := {name: value(settings[name]) for name, value in _TRIAL_PARAMETERS.items() if name in settings}:
            last.set_params(**trial)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(take_rows(features, rows), invented)
        return
    except LabelDPError:
        raise
    except Exception as problem:  # noqa: BLE001 (of any learner; its message may quote a value)
        kind = type(problem).__name__
    raise InputError(
        f"expected features that {type(last).__name__} can be fitted on, found {kind} in a trial with invented labels; "
        "fit it on them with invented labels to see why"
    )


def _last_step(learner: Any) -> Any:
    """The last step of a pipeline, or the learner itself."""
    return learner.steps[-1][1] if isinstance(learner, Pipeline) else learner


def _trial_rows(features: Any) -> np.ndarray:
    """Equally spaced rows, and the first row of each column with a missing or an infinite value."""
    count = row_count(features)
    spaced = np.unique(np.linspace(0, count - 1, TRIAL_ROWS).astype(np.int64))
    return np.union1d(spaced, _not_finite(features)[:_NOT_FINITE])


def _not_finite(features: Any) -> Int[np.ndarray, "m"]:
    """The first row of each column with a missing value, and with an infinite one."""
    rows = [np.zeros(0, dtype=np.int64)]
    for part in features if isinstance(features, tuple) else (features,):
        for columns in _columns(part):
            infinite = np.isinf(columns) if columns.dtype.kind == "f" else np.zeros_like(columns, dtype=np.bool_)
            rows.extend(found.argmax(axis=0)[found.any(axis=0)] for found in (missing_values(columns), infinite))
    return np.unique(np.concatenate(rows))


def _columns(features: Any) -> Iterator[np.ndarray]:
    """The columns of an array together, or those of a frame one by one, each of shape (n, m)."""
    if isinstance(features, np.ndarray):
        yield features.reshape(len(features), -1)
    for name in dict.fromkeys(getattr(features, "columns", ())):
        yield np.asarray(features[name]).reshape(len(features), -1)


def set_stage_checkpoint(model: Any, number: int) -> Any:
    """Give a model with a checkpoint folder a sub-folder of its own for a stage, and return it."""
    last = _last_step(model)
    folder = last.get_params(deep=False).get("checkpoint") if hasattr(last, "get_params") else None
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        last.set_params(checkpoint=Path(folder) / f"stage-{number + 1}")
    return model


def warm_start(model: Any, learner: Any) -> Any:
    """A fitted model with the parameters of a learner of its type and ``warm_start`` on.

    Only the last step of a pipeline starts warm; the others start anew. The result is None if the learner has another
    type or no parameter ``warm_start``.
    """
    if type(model) is not type(learner):
        return None
    fresh = clone(learner, safe=False)
    if isinstance(fresh, Pipeline):
        name, step = fresh.steps[-1]
        last = warm_start(model.steps[-1][1], step)
        return None if last is None else fresh.set_params(**{name: last})
    settings = fresh.get_params(deep=False) if hasattr(fresh, "get_params") else {}
    return model.set_params(**{**settings, "warm_start": True}) if "warm_start" in settings else None


class UnguardedFitWarning(UserWarning):
    """A network has more weights than its released labels have effective rows, and none were held out."""


@documented_in("labeldp.learning.sklearn")
@dataclass(eq=False, repr=False)
class CalibratedClassifier(MetaEstimator, ProbabilityClassifier):
    """A classifier with probabilities calibrated by released labels, or class shares in doubt.

    Many learners rank rows well but are over- or under-confident, above all with few effective rows: boosting, forests,
    networks, expectation maximisation that stops early. Copies of the learner predict rows that they were not fitted
    on. A slope for the log probabilities and a shift for each class then maximise the likelihood of the *released*
    labels of these rows under the channel, times a prior; no true label is needed. Where these labels do not clearly
    show that the predictions help, every row gets the class shares instead.

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
        rows, model = np.arange(len(release)), Fitted(self.estimator_, predicted, varies=True)
        self._calibrator = held_out_classes(release, [model], rows, parts, units, doubt=True).best()
        codes, self.space_ = self._set_classes(release.space), release.space
        self.slope_, self.shifts_ = self._calibrator.slope, np.asarray(self._calibrator.shifts)[codes]
        self._count_features()
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        check_is_fitted(self)
        declared = self._calibrator(predicted_columns(self.estimator_, indexable_rows(X), self.space_)[None])
        return columns_in_order(declared, self.space_.points, self.classes_)

    def _inner(self) -> Any:
        return for_released_labels(self.estimator)
