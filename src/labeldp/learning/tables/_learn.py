"""Learn a model from the folder of a release: select columns, fit and evaluate.

Needs the extra ``learn``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp import _checks
from labeldp._notebook import Shown
from labeldp.errors import InputError
from labeldp.learning.features import Images, columns_of, frame_of, points_of, read_images
from labeldp.learning.losses import decoded_numbers, is_decodable
from labeldp.learning.metrics import ROWS, Estimate, Scores
from labeldp.learning.sklearn import AutoClassifier, AutoRegressor, HeldOutNumbers, group_folds, noise_ratio
from labeldp.learning.tables._class_scores import FACTOR, ClassScores, class_scores, in_folds
from labeldp.learning.tables._classifiers import (
    AUTO,
    CLUSTERS,
    EXCHANGED,
    MEAN,
    METHODS,
    OF_CLASSES,
    RATINGS,
    SHARES,
    auto_setting,
    check_class_model,
    class_method,
    class_setting,
    estimators_of,
    is_quick,
    needs_calibration,
)
from labeldp.learning.tables._files import TableModel
from labeldp.learning.tables._folds import (
    FOLDS,
    Progress,
    chosen_rows,
    cross_validated,
    enough_rows,
    units_in,
)
from labeldp.learning.tables._regressors import (
    NUMBER_METHODS,
    OF_NUMBERS,
    UNBIASED,
    NumberScores,
    check_number_model,
    number_estimator,
    number_scores,
    number_setting,
    share_of_model,
)
from labeldp.learning.tables._resampled import accuracy_of_true_rows, check_generator, corrected
from labeldp.mechanisms.queries import FlippedLabels
from labeldp.mechanisms.resampling import Generator
from labeldp.privacy import Classes, Interval, columns_in_order
from labeldp.release import Answer, Release, clusters_in, is_answer, public_columns
from labeldp.release.folder import Certificate, group_column
from labeldp.release.tables import disk_path

__all__ = ["Images", "Scores", "points_of", "read_images"]  # documented here, defined elsewhere

if TYPE_CHECKING:  # PyTorch is an extra of its own
    from labeldp.learning.torch import NetworkModel

_SHOWN_CLASSES = 12
_BY_FOLDS = "five-fold cross-validation on released labels"
_UNFINISHED = "No model was finished in time, so what is predicted is the same for every row: give more --minutes."
_CONSTANT = (
    "The model predicts {} for every row, since released labels of held-out rows do not show that features help. "
    "Scores are those of the models that each fold chose."
)
_MERGED = (
    "No released label tells these classes apart, since they have the same distribution in every row: {}. How the "
    "model divides what they have together follows from its form alone; release with another mechanism, or in stages."
)
#: Factors of the errors of numbers over folds: of those scores in which the noise of fits is not small beside that of
#: labels, as it is in squared errors.
_OF_NUMBERS = MappingProxyType({"gain": FACTOR, "r2": FACTOR})


@dataclass(frozen=True, eq=False)
class ModelChoice:
    """A model, and what it is learned from and with.

    Attributes:
        model: Name of the model: ``"softmax"``, ``"torch:convolutional"`` (images), ``"torch:mlp"`` (columns) ...
        method: How released labels are used; None for the default of the model.
        features: The public columns to predict from; None for all useful ones. For ratings, users and items.
        images: Images of the rows, for a network of images.
        image_column: The public column that names the image of each row; None if they are in the order of the rows.
        training: For a network: arguments of ``TorchClassifier`` that replace the defaults.
        rows: The most rows to learn from, as in ``learn``; None for all.
    """

    model: str
    method: str | None = None
    features: Sequence[str] | None = None
    images: Images | None = None
    image_column: str | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    rows: int | None = None


@dataclass(frozen=True, eq=False)
class Learned(Shown):
    """Result of learning from a release.

    Attributes:
        model: The model, fitted on all rows, or on those that were chosen.
        scores: Scores of such a model by cross-validation on released labels: estimates of the mean expected score of
            the models of the folds, which are fitted on four fifths of the rows, with errors for that (see
            ``class_scores``); the model itself, of all rows, is as good or slightly better. None after peer exchange,
            where labels are not those of their rows.
        left_out: Public columns that were not used, with reasons.
        setting: Hyperparameters chosen on released labels.
        judged_by: Origin of the scores.
        corrected: Whether the model was corrected for resampled features.
        true_accuracy: Approximate accuracy on true rows, if the model was corrected; scores are on released rows, some
            with resampled features.
        rows: Number of rows that were chosen; None if all were used.
        constant: What the model predicts for every row, such as the mean label, where labels do not show that features
            help; empty for any other model.
        merged: Sets of classes that have the same distribution in every row, which no released label tells apart.
    """

    model: TableModel | NetworkModel
    scores: ClassScores | NumberScores | None
    left_out: Mapping[str, str]
    setting: str
    judged_by: str = _BY_FOLDS
    corrected: bool = False
    true_accuracy: Estimate | None = None
    rows: int | None = None
    constant: str = ""
    merged: tuple[tuple[object, ...], ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks to read before the scores: reasons why they may be too good, or that no model was finished."""
        finished = getattr(getattr(self.model, "estimator", None), "members_", True)
        of_units = _of_mixed_units(self.model.certificate) if self.scores else ()
        constant = (_CONSTANT.format(self.constant),) if self.constant else ()
        merged = (_MERGED.format("; ".join(map(_together, self.merged))),) if self.merged else ()
        return (*of_units, *(() if finished else (_UNFINISHED,)), *merged, *constant)


def merged_classes(release: Release) -> tuple[tuple[object, ...], ...]:
    """Sets of classes that have the same distribution in every row of a release."""
    return tuple(tuple(release.space.points[code] for code in each) for each in getattr(release.channel, "merged", ()))


def _together(classes: Sequence[object]) -> str:
    """Classes in words, of many the first few."""
    more = len(classes) - _SHOWN_CLASSES
    shown = [str(each) for each in classes[:_SHOWN_CLASSES]]
    return " and ".join([*shown, f"{more:,} more"] if more > 0 else shown)


def _of_mixed_units(certificate: Certificate) -> tuple[str, ...]:
    """A warning if no column tells which rows are of one privacy unit: one may then be on both sides of a fold."""
    unit, names = certificate.guarantee.unit, [name for name, _ in certificate.columns]
    if group_column(certificate) in (None, *names) or max(getattr(certificate.channel, "repeats", ()), default=2) < 2:
        return ()
    return (
        f"These scores may be far too good: no kept column says which rows are of one {_checks.printable(unit)}, so "
        "models may be judged on rows of those that they learned from. Judge the model on others ('labeldp evaluate'), "
        "or release a made-up number of each (--renumber).",
    )


def learn(
    directory: str | Path,
    *,
    model: str | None = None,
    method: str | None = None,
    features: Sequence[str] | None = None,
    generator: Generator | None = None,
    minutes: float | None = None,
    rows: int | None = None,
    progress: Progress | None = None,
) -> Learned:
    """Learn to predict the label of a release from its public columns, and estimate the quality.

    Args:
        directory: The folder of a release.
        model: ``"auto"``, the default: a combination of models of several families
            (``labeldp.learning.sklearn.AutoClassifier``, for numeric labels ``AutoRegressor``). For classes
            ``"softmax"`` (multinomial logistic regression, the default with a method, a generator, or labels that lean
            towards clusters) or ``"boosting"`` (gradient boosting). For numeric labels ``"ridge"`` (linear, the default
            with a method), ``"boosting"`` or ``"neighbours"``. For both ``"convex"``: linear, by descent along unbiased
            gradients (``labeldp.learning.convex``). For classes that are ratings of items by users ``"factorization"``
            (``labeldp.learning.ratings``): the first two features are users and items.
        method: See ``METHODS`` and ``NUMBER_METHODS``; by default the first of the model, or ``"clusters"`` if
            labels lean towards the class distributions of clusters, which at most epsilons are more informative than
            the labels. After peer exchange the only method is soft labels of clusters.
        features: The columns to predict from; by default all useful public ones.
        generator: For classes with resampled features: their generator. The model is then corrected to predict from
            true features (``labeldp.learning.sklearn``); without it, it predicts from features as they were released.
        minutes: With ``"auto"``: no further model is begun after this time.
        rows: The most rows to learn from, for tables that take too long: chosen by chance without a look at labels, in
            whole privacy units if their column was kept, and the same ones at every call for one release.
        progress: Called with the name of the work, the number of fits done, and the number of all fits.

    Returns:
        The model fitted on all rows, and its cross-validated scores. Hyperparameters are chosen, and probabilities
        calibrated, on released labels, and where these do not show that features help the model predicts class shares
        or the mean label, or with ``"auto"`` for classes probabilities near class shares;
        ``"plain"``, a baseline, is neither calibrated nor, but for softmax, replaced, nor is ``"clusters"``. No row is
        scored by a model that was fitted, chosen or calibrated on it, nor, if the unit's column was kept, on its unit.

    Guarantee:
        Whatever is learned from a release is covered by the release's guarantee, at no further cost.

    Raises:
        VerificationError: The folder does not agree with its certificate.
        InputError: There is no such model, method or column.
    """
    report = progress or (lambda *_: None)
    if model is not None:
        _checks.among(model, "a model", dict.fromkeys([*METHODS, *NUMBER_METHODS]))
    report("load", 0, 0)
    directory = disk_path(directory)
    if is_answer(directory):
        if generator is not None or minutes is not None or rows is not None:
            raise InputError(
                "expected released labels with a generator, a time limit or a number of rows, found those of peer "
                "exchange; leave it out"
            )
        model, method = check_class_model(model or OF_CLASSES, method)
        return _learn_from_peers(directory, model, method, features)
    release = Release.load(directory)
    table = public_columns(directory, release.certificate)
    if generator is not None:
        check_generator(generator, release)
    chosen = model or _default_model(release, method, generator)
    if minutes is not None and chosen != AUTO:
        raise InputError(
            f"expected a time limit (minutes) with the model {AUTO} alone, found one with {chosen}; leave it out"
        )
    certificate = enough_rows(release)
    unit = group_column(certificate)
    if rows is not None:
        some = chosen_rows(certificate, units_in(table, unit), rows)
        release, table = release[some], table.take(some)
        enough_rows(release)
    columns, left_out = columns_of(table, features, unit)
    known = _Rows(release, certificate, columns, left_out, frame_of(table, columns), units_in(table, unit), report)
    report("load", len(release), len(release))
    if isinstance(release.space, Interval) and chosen != OF_CLASSES:
        method = check_number_model(chosen, method, release)
        learned = _learn_auto(known, minutes) if chosen == AUTO else _learn_numbers(known, chosen, method)
    elif check_class_model(chosen, method)[0] != AUTO:
        if chosen == RATINGS and (features is None or generator is not None):
            raise InputError(
                f"expected the columns of users and items as the first features, and no generator, with the model "
                f"{RATINGS}, found others; name them (--features user,item,...)"
            )
        if generator is not None and chosen == "boosting" and method is None:
            method = "em"  # the first of its methods that can be corrected
        learned = _learn_classes(known, chosen, class_method(release, chosen, method), generator)
    elif generator is not None:
        raise InputError(f"expected no generator with the model {AUTO}, found one; use softmax or boosting")
    else:
        learned = _learn_auto(known, minutes)
    rows = None if rows is None else len(release)
    return dataclasses.replace(learned, rows=rows, merged=merged_classes(release))


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows that a model is learned from, with all that is known of them.

    Attributes:
        release: Released labels of n rows.
        certificate: Their certificate.
        columns: The kind of each feature column.
        left_out: Columns that are not used, with reasons.
        frame: Features of the rows.
        units: The privacy unit of each row; None if each row is its own.
        report: Called with the name of the work, the number of fits done, and the number of all fits.
    """

    release: Release
    certificate: Certificate
    columns: Mapping[str, str]
    left_out: Mapping[str, str]
    frame: Any
    units: np.ndarray | None
    report: Progress

    @property
    def known_units(self) -> np.ndarray | str:
        """The privacy unit of each row, or the word for rows."""
        return ROWS if self.units is None else self.units

    def parts(self) -> Sequence[tuple[np.ndarray, np.ndarray]]:
        """Rows to fit on and held-out rows of each fold."""
        return group_folds(len(self.release), FOLDS, self.units)

    def model(self, estimator: Any, name: str, method: str, **facts: Any) -> TableModel:
        """The model to save."""
        return TableModel(estimator, MappingProxyType(dict(self.columns)), name, method, self.certificate, **facts)


def _default_model(release: Release, method: str | None, generator: Generator | None) -> str:
    """The combination of models; a linear one where a choice was made, or labels are not all that a release says."""
    if isinstance(release.space, Interval) and is_decodable(release):
        return AUTO if method is None else OF_NUMBERS
    plain = isinstance(release.space, Classes) and method is None and generator is None
    return AUTO if plain and class_method(release, OF_CLASSES, None) != CLUSTERS else OF_CLASSES


def _learn_auto(rows: _Rows, minutes: float | None) -> Learned:
    """Learn the combination of models of several families, scored on rows that it was not fitted on."""
    release, units = rows.release, rows.units
    numbers = isinstance(release.space, Interval)
    learner: Any = (AutoRegressor if numbers else AutoClassifier)(minutes=minutes, folds=FOLDS)
    fitted = learner.fit(rows.frame, release, rows.units, report=rows.report)
    held, every = fitted.held_out_rows_, len(fitted.held_out_rows_) == len(release)
    folds, others = fitted.held_out_folds_ if every else None, ROWS if units is None else units[held]
    if numbers:
        scores: Any = _number_scores(release[held], fitted.held_out_, folds, others)
    else:
        predicted = columns_in_order(fitted.held_out_, fitted.classes_, release.space.points)
        scores = class_scores(release[held], predicted, folds, others)
    some = f"released labels of {len(held):,} rows that it was not fitted on"
    return Learned(
        rows.model(fitted, AUTO, (NUMBER_METHODS if numbers else METHODS)[AUTO][0]),
        scores,
        MappingProxyType(rows.left_out),
        auto_setting(fitted),
        _BY_FOLDS if every else some,
        constant="" if not fitted.weights_ or any(fitted.weights_.values()) else MEAN if numbers else SHARES,
    )


def _learn_numbers(rows: _Rows, name: str, method: str) -> Learned:
    """Learn a model of numeric labels of one family."""
    release, parts = rows.release, rows.parts()
    estimator = number_estimator(rows.columns, name, method, noise_ratio(release, decoded_numbers(release)))
    found = cross_validated([estimator], rows.frame, release, parts, rows.report, numbers=True)
    fitted, predicted, mixture = estimator.fit(rows.frame, release), found.predicted, None
    if name in UNBIASED:
        held = HeldOutNumbers.of(release, predicted[None], np.arange(len(release)), parts, rows.units)
        mixture, predicted = held.best(), held.cross_fitted(parts)
    return Learned(
        rows.model(fitted, name, method, calibrator=mixture),
        _number_scores(release, predicted, found.folds, rows.known_units),
        MappingProxyType(rows.left_out),
        number_setting(fitted, mixture),
        constant="" if share_of_model(fitted, mixture) > 0.0 else MEAN,
    )


def _number_scores(
    release: Release, predicted: np.ndarray, folds: np.ndarray | None, units: np.ndarray | str
) -> NumberScores:
    """Scores of numbers, with errors for fits to folds if there are any."""
    found = number_scores(release, predicted, folds, units)
    return found if folds is None else in_folds(found, _OF_NUMBERS)


def _learn_classes(rows: _Rows, name: str, method: str, generator: Generator | None) -> Learned:
    """Learn a model of classes of one family."""
    release, plain = rows.release, generator is None
    estimators = list[Any](estimators_of(rows.columns, name, method))
    if generator is not None:
        estimators = [corrected(each, method, generator, rows.columns) for each in estimators]
    found = cross_validated(
        estimators,
        rows.frame,
        release,
        rows.parts(),
        rows.report,
        calibrate=plain and needs_calibration(name, method),
        pairs=plain and is_quick(name, method),
    )
    fitted = estimators[found.best].fit(rows.frame, release)
    on_true = None if plain else accuracy_of_true_rows(fitted, release, found.predicted)
    fitted = fitted if plain else fitted.estimator_
    return Learned(
        rows.model(fitted, name, method, corrected=not plain, calibrator=found.calibrator),
        class_scores(release, found.predicted, found.folds, rows.known_units, found.without),
        MappingProxyType(rows.left_out),
        class_setting(fitted, name, found.best, found.calibrator),
        corrected=not plain,
        true_accuracy=on_true,
        constant=SHARES if found.calibrator is not None and found.calibrator.is_constant else "",
    )


def _learn_from_peers(folder: Path, model: str, method: str | None, features: Sequence[str] | None) -> Learned:
    """Learn a model from labels after peer exchange in clusters, which do not allow scores."""
    answer = Answer.load(folder)
    if not isinstance(answer.reading, FlippedLabels):
        raise InputError(
            f"expected released labels, or those of peer exchange, found the answer to {answer.query}; open it with "
            "Answer.load and learn with CellClassifier, SoftLabelClassifier or MomentClassifier"
        )
    if method is not None:
        raise InputError(f"expected no method for labels of peer exchange, found {method!r}; leave it out")
    if CLUSTERS not in METHODS[model]:
        known = ", ".join(name for name, methods in METHODS.items() if CLUSTERS in methods)
        raise InputError(f"expected a model that learns from clusters among {known}, found {model!r}")
    cells, table = clusters_in(folder, answer.certificate), public_columns(folder, answer.certificate)
    columns, left_out = columns_of(table, features, None)
    (estimator, *_) = estimators_of(columns, model, EXCHANGED)
    fitted = estimator.fit(frame_of(table, columns), answer, model__cells=cells)
    learned = TableModel(fitted, MappingProxyType(columns), model, EXCHANGED, answer.certificate)
    return Learned(learned, None, MappingProxyType(left_out), class_setting(fitted, model, 0, None))
