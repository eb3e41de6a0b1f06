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
from labeldp._progress import Progress, silent
from labeldp.errors import InputError
from labeldp.learning.choice import Elsewhere
from labeldp.learning.features import (
    Images,
    SeenRanges,
    columns_of,
    cycle_columns,
    frame_of,
    points_of,
    read_images,
    scaling_transformer,
)
from labeldp.learning.images import ImageEncoder
from labeldp.learning.inference import calibrated_sets
from labeldp.learning.metrics import Estimate, Units
from labeldp.learning.sklearn import Target
from labeldp.learning.tables._families import (
    AUTO,
    CLASSES,
    CLUSTERS,
    EXCHANGED,
    NUMBERS,
    RATINGS,
    Rows,
    accuracy_of_true_rows,
    check_generator,
    checked_method,
    default_model,
    judged_model,
    kind_of,
)
from labeldp.learning.tables._model import (
    FOLDS,
    IN_MEMORY,
    OF_CLASSES,
    chosen_rows,
    enough_rows,
    rows_apart,
    units_in,
    units_of,
)
from labeldp.learning.tables._scores import FACTOR, ClassScores, NumberScores, class_scores, in_folds, number_scores
from labeldp.learning.tables._stored import Limits
from labeldp.learning.tables._table_model import TableModel
from labeldp.mechanisms.queries import FlippedLabels
from labeldp.mechanisms.resampling import Generator
from labeldp.privacy import ClassProbabilities, columns_in_order
from labeldp.release import Answer, Release, clusters_in, is_answer, public_columns
from labeldp.release.engines import Engine, Executor, InProcess, engine_of
from labeldp.release.folder import Certificate, group_column
from labeldp.release.tables import disk_path

__all__ = ["Images", "points_of", "read_images"]  # documented here, defined elsewhere

if TYPE_CHECKING:
    from labeldp.learning.tables._network_model import NetworkModel

_SHOWN_CLASSES = 12
_BY_FOLDS = "five-fold cross-validation on released labels"
_UNFINISHED = "No model was finished in time, so what is predicted is the same for every row: give more --minutes."
_CONSTANT = (
    "The model predicts {} for every row, since released labels of held-out rows do not show that features help. "
    "Scores are those of the models that each fold chose."
)
_MIXED = (
    "Nothing shows how good this model is: no kept column says which rows are of one {}, so it could be judged on rows "
    "of those that it learned from. It was chosen on sets of similar rows. Judge it on others ('labeldp evaluate'), or "
    "release a made-up number of each (--renumber)."
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
        encoder: For the model ``"encoder"``: the encoder of the images, as ``open_encoder`` opens it.
        training: For a network: arguments of ``TorchClassifier`` that replace the defaults.
        rows: The most rows to learn from, as in ``learn``; None for all.
        coverage: The coverage of prediction sets, as in ``learn``; None for no sets.
        coverage_by: ``"class"`` for that coverage in each class.
    """

    model: str
    method: str | None = None
    features: Sequence[str] | None = None
    images: Images | None = None
    image_column: str | None = None
    encoder: ImageEncoder | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    rows: int | None = None
    coverage: float | None = None
    coverage_by: str | None = None


@dataclass(frozen=True, eq=False)
class Learned(Shown):
    """Result of learning from a release.

    Attributes:
        model: The model, fitted on all rows, or on those that were chosen.
        scores: Scores of such a model by cross-validation on released labels: estimates of the mean expected score of
            the models of the folds, which are fitted on four fifths of the rows, with errors for that (see
            ``class_scores``); the model itself, of all rows, is as good or slightly better. None after peer exchange,
            where labels are not those of their rows, and
            where units are mixed.
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
        unfinished: True if no model was finished in time.
        way: How models were learned: with all rows in memory, by sums over all, or from a sample.
        mixed: True if several rows may be of one privacy unit and no kept column says which. Folds are then of similar
            rows, and there are no scores, which could be far too good.
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
    unfinished: bool = False
    mixed: bool = False
    way: str = IN_MEMORY

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks to read first: that nothing shows how good the model is, that none was finished, what it predicts."""
        mixed = (_MIXED.format(_checks.printable(self.model.certificate.guarantee.unit)),) if self.mixed else ()
        constant = (_CONSTANT.format(self.constant),) if self.constant else ()
        merged = (_MERGED.format("; ".join(map(_together, self.merged))),) if self.merged else ()
        return (*mixed, *((_UNFINISHED,) if self.unfinished else ()), *merged, *constant)


def merged_classes(release: Release) -> tuple[tuple[object, ...], ...]:
    """Sets of classes that have the same distribution in every row of a release."""
    return tuple(tuple(release.space.points[code] for code in each) for each in getattr(release.channel, "merged", ()))


def _together(classes: Sequence[object]) -> str:
    """Classes in words, of many the first few."""
    more = len(classes) - _SHOWN_CLASSES
    shown = [str(each) for each in classes[:_SHOWN_CLASSES]]
    return " and ".join([*shown, f"{more:,} more"] if more > 0 else shown)


def learn(
    directory: str | Path,
    *,
    model: str | None = None,
    method: str | None = None,
    features: Sequence[str] | None = None,
    generator: Generator | None = None,
    minutes: float | None = None,
    rows: int | None = None,
    coverage: float | None = None,
    coverage_by: str | None = None,
    memory: int | None = None,
    executor: Engine | Executor | None = None,
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
        method: See ``labeldp learn --help``; by default the first of the model, or ``"clusters"`` if
            labels lean towards the class distributions of clusters, which at most epsilons are more informative than
            the labels. After peer exchange the only method is soft labels of clusters.
        features: The columns to predict from; by default all useful public ones.
        generator: For classes with resampled features: their generator. The model is then corrected to predict from
            true features (``labeldp.learning.sklearn``); without it, it predicts from features as they were released.
        minutes: With ``"auto"``: no further model is begun after this time.
        rows: The most rows to learn from, for tables that take too long: chosen by chance without a look at labels, in
            whole privacy units if their column was kept, and the same ones at every call for one release.
        coverage: Share of rows whose prediction sets shall hold the true label, such as 0.9. A fifth of the rows, in
            whole privacy units, is then kept to calibrate sets on, and the model is fitted on the others alone.
        coverage_by: ``"class"`` for that coverage among the rows of each true class, so also of a rare one; by default
            it is that of all rows together.
        memory: Bytes of memory for rows, by default half of what is free. Of a large release, models are fitted by sums
            over all rows, and others from a sample that fits; ``Learned.way`` says how.
        executor: Workers for the parts of a large release, as for ``release_table``; the model is the same.
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
    report = progress or silent
    if model is not None:
        _checks.among(model, "a model", dict.fromkeys([*CLASSES.methods, *NUMBERS.methods]))
    report("load", 0, 0)
    directory = disk_path(directory)
    if is_answer(directory):
        if any(each is not None for each in (generator, minutes, rows, coverage)):
            raise InputError(
                "expected released labels with a generator, a time limit, a number of rows or a coverage, found those "
                "of peer exchange; leave it out"
            )
        model = model or OF_CLASSES
        CLASSES.check(model, method)
        return _learn_from_peers(directory, model, method, features)
    limits = Limits(lambda head: _target(head, model, method, generator), rows, memory, coverage is not None)
    source = limits.load(directory, engine_of(executor, InProcess()), report)
    certificate, release, table = source.certificate, source.release, source.table
    if generator is not None:
        check_generator(generator, release)
    chosen = model or default_model(release, method, generator)
    if minutes is not None and chosen != AUTO:
        raise InputError(
            f"expected a time limit (minutes) with the model {AUTO} alone, found one with {chosen}; leave it out"
        )
    enough_rows(release)
    unit = group_column(certificate)
    if rows is not None:
        some = chosen_rows(enough_rows(release), units_in(table, unit), rows)
        release, table = release[some], table.take(some)
        enough_rows(release)
    columns, left_out = columns_of(table, features, unit)
    frame, kind = frame_of(table, columns), kind_of(release, chosen)
    method = checked_method(kind, release, chosen, _corrected_method(chosen, method, generator, features))

    def points() -> Any:
        return scaling_transformer(columns).fit_transform(frame)

    units, told = units_of(table, release, points)
    fit, apart = rows_apart(release, units, told, coverage, coverage_by)
    every = Rows(kind, release, columns, frame, units, report)
    data = _Source(every if coverage is None else every.take(fit), certificate, left_out)
    report("load", len(release), len(release))
    if chosen == AUTO:
        learned = _learn_auto(data, minutes, None if source.models is None else source.models(columns))
    else:
        learned = _learn_family(data, chosen, method, generator)
    if coverage is not None:
        predicted = _predictions(learned.model, table.take(apart))
        sets = calibrated_sets(release[apart], predicted, 1.0 - coverage, by=coverage_by, units=units.take(apart))
        learned = dataclasses.replace(learned, model=dataclasses.replace(learned.model, sets=sets))
    return dataclasses.replace(
        learned,
        scores=learned.scores if told else None,
        rows=None if source.models is not None or len(fit) == certificate.rows else len(fit),
        way=source.way,
        merged=merged_classes(release),
        mixed=not told,
    )


def _predictions(model: TableModel | NetworkModel, table: Any) -> ClassProbabilities | np.ndarray:
    """The predictions of a model for the rows of a table."""
    return model.predict(table) if model.of_numbers else ClassProbabilities.of(model, table)


def _corrected_method(
    model: str, method: str | None, generator: Generator | None, features: Sequence[str] | None
) -> str | None:
    """The method that was asked for, or the one of boosting that can be corrected for resampled features.

    Raises:
        InputError: The model cannot be corrected, or ratings have no columns of users and items.
    """
    if model == RATINGS and (features is None or generator is not None):
        raise InputError(
            f"expected the columns of users and items as the first features, and no generator, with the model "
            f"{RATINGS}, found others; name them (--features user,item,...)"
        )
    if generator is not None and model == AUTO:
        raise InputError(f"expected no generator with the model {AUTO}, found one; use softmax or boosting")
    return "em" if generator is not None and model == "boosting" and method is None else method


@dataclass(frozen=True, eq=False)
class _Source:
    """The data that a model is learned from."""

    rows: Rows
    certificate: Certificate
    left_out: Mapping[str, str]

    def learned(self, estimator: Any, model: str, method: str, calibrator: Any = None, **facts: Any) -> Learned:
        """The result of learning, with the model to save."""
        columns, corrected = MappingProxyType(dict(self.rows.columns)), facts.get("corrected", False)
        seen = SeenRanges.of(self.rows.frame, cycle_columns(columns))
        saved = TableModel(estimator, columns, model, method, self.certificate, corrected, calibrator, seen)
        return Learned(saved, left_out=MappingProxyType(self.left_out), **facts)


def _scores(release: Release, predicted: np.ndarray, folds: np.ndarray | None, units: Units) -> Any:
    """Scores of predictions, with errors for fits to folds if there are any."""
    if predicted.ndim > 1:
        return class_scores(release, predicted, folds, units)
    found = number_scores(release, predicted, folds, units)
    return found if folds is None else in_folds(found, _OF_NUMBERS)


def _target(head: Release, model: str | None, method: str | None, generator: Generator | None) -> Target | None:
    """The target of the combination, if that is learned from a release, by its first rows; else None."""
    if (model or default_model(head, method, generator)) != AUTO:
        return None
    target: Target = kind_of(head, AUTO).auto.target
    return target


def _learn_auto(source: _Source, minutes: float | None, elsewhere: Elsewhere | None) -> Learned:
    """Learn the combination of models of several families, scored on rows that it was not fitted on."""
    rows = source.rows
    fitted = rows.kind.auto(minutes=minutes, folds=FOLDS).fit(
        rows.frame, rows.release, rows.units, report=rows.report, elsewhere=elsewhere
    )
    held, predicted = fitted.held_out_rows_, fitted.held_out_
    if rows.kind is CLASSES:
        predicted = columns_in_order(predicted, fitted.classes_, rows.release.space.points)
    every = len(held) == len(rows.release)
    some = f"released labels of {len(held):,} rows that it was not fitted on"
    return source.learned(
        fitted,
        AUTO,
        rows.kind.methods[AUTO][0],
        scores=_scores(rows.release[held], predicted, fitted.held_out_folds_ if every else None, rows.units.take(held)),
        setting=fitted.setting(),
        judged_by=_BY_FOLDS if every else some,
        constant=rows.kind.constant if fitted.is_constant else "",
        unfinished=not fitted.members_,
    )


def _learn_family(source: _Source, name: str, method: str, generator: Generator | None) -> Learned:
    """Learn a model of one family, scored on rows that it was not fitted on."""
    rows, plain = source.rows, generator is None
    found = judged_model(rows, name, method, generator=generator)
    return source.learned(
        found.model if plain else found.model.estimator_,
        name,
        method,
        found.beside,
        scores=_scores(rows.release, found.held_out, found.folds, rows.units),
        setting=found.setting,
        corrected=not plain,
        true_accuracy=None if plain else accuracy_of_true_rows(found.model, rows.release, found.held_out),
        constant=rows.kind.constant if found.is_constant else "",
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
    if CLUSTERS not in CLASSES.methods[model]:
        known = ", ".join(name for name, methods in CLASSES.methods.items() if CLUSTERS in methods)
        raise InputError(f"expected a model that learns from clusters among {known}, found {model!r}")
    cells, table = clusters_in(folder, answer.certificate), public_columns(folder, answer.certificate)
    columns, left_out = columns_of(table, features, None)
    fitted = CLASSES.template(columns, model, EXCHANGED).fit(frame_of(table, columns), answer, model__cells=cells)
    learned = TableModel(fitted, MappingProxyType(columns), model, EXCHANGED, answer.certificate)
    (said, *_) = CLASSES.families[model].learners(columns, EXCHANGED, 1.0)[1]
    return Learned(learned, None, MappingProxyType(left_out), said)
