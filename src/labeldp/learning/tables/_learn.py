"""Learn a model from the folder of a release: select columns, fit and evaluate.

Needs ``pip install 'labeldp[learn]'``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from labeldp import _checks
from labeldp.errors import InputError
from labeldp.learning.features import Images, columns_of, frame_of, points_of, read_images
from labeldp.learning.losses import decoded_numbers, is_decodable
from labeldp.learning.metrics import Estimate, Scores
from labeldp.learning.sklearn import noise_ratio
from labeldp.learning.tables._class_scores import FACTOR, ClassScores, class_scores, in_folds
from labeldp.learning.tables._classifiers import (
    CLUSTERS,
    EXCHANGED,
    METHODS,
    OF_CLASSES,
    check_class_model,
    class_method,
    class_setting,
    estimators_of,
    is_quick,
    needs_calibration,
)
from labeldp.learning.tables._files import TableModel
from labeldp.learning.tables._folds import (
    Progress,
    cross_validated,
    enough_rows,
    folds_of,
    unit_of,
    units_in,
)
from labeldp.learning.tables._regressors import (
    NUMBER_METHODS,
    NumberScores,
    check_number_model,
    number_estimators,
    number_scores,
    number_setting,
)
from labeldp.learning.tables._resampled import accuracy_of_true_rows, check_generator, corrected
from labeldp.mechanisms.queries import FlippedLabels
from labeldp.mechanisms.resampling import Generator
from labeldp.privacy import Interval
from labeldp.release import Answer, Release, clusters_in, is_answer, public_columns

__all__ = ["Images", "Scores", "points_of", "read_images"]  # documented here, defined elsewhere

if TYPE_CHECKING:  # PyTorch is an extra of its own
    from labeldp.learning.torch import NetworkModel

#: The default model of numeric labels, which chooses among others.
_AUTO = "auto"
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
    """

    model: str
    method: str | None = None
    features: Sequence[str] | None = None
    images: Images | None = None
    image_column: str | None = None
    training: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Learned:
    """Result of learning from a release.

    Attributes:
        model: The model, fitted on all rows.
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
    """

    model: TableModel | NetworkModel
    scores: ClassScores | NumberScores | None
    left_out: Mapping[str, str]
    setting: str
    judged_by: str = "five-fold cross-validation on released labels"
    corrected: bool = False
    true_accuracy: Estimate | None = None


def learn(
    directory: str | Path,
    *,
    model: str | None = None,
    method: str | None = None,
    features: Sequence[str] | None = None,
    generator: Generator | None = None,
    progress: Progress | None = None,
) -> Learned:
    """Learn to predict the label of a release from its public columns, and estimate the quality.

    Args:
        directory: The folder of a release.
        model: For classes ``"softmax"`` (multinomial logistic regression, the default) or ``"boosting"`` (histogram
            gradient boosting). For numeric labels ``"ridge"`` (linear), ``"boosting"``, ``"neighbours"``, or
            ``"auto"``, the default: ridge, or boosting if clearly better on held-out released labels. For both
            ``"convex"``: linear, by descent along unbiased gradients (``labeldp.learning.convex``).
        method: See ``METHODS`` and ``NUMBER_METHODS``; by default the first of the model, or ``"clusters"`` if
            labels lean towards the class distributions of clusters, which at most epsilons are more informative than
            the labels. After peer exchange the only method is soft labels of clusters.
        features: The columns to predict from; by default all useful public ones.
        generator: For classes with resampled features: their generator. The model is then corrected to predict from
            true features (``labeldp.learning.sklearn``); without it, it predicts from features as they were released.
        progress: Called with the name of the work, the number of fits done, and the number of all fits.

    Returns:
        The model fitted on all rows, and its cross-validated scores. Hyperparameters are chosen, and probabilities
        calibrated, on released labels, and where these do not show that features help the model predicts class shares;
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
    table = public_columns(directory)
    if is_answer(directory):
        if generator is not None:
            raise InputError(
                "expected released labels with a generator, found those of peer exchange; leave the generator out"
            )
        model, method = check_class_model(model or OF_CLASSES, method)
        return _learn_from_peers(Path(directory), table, model, method, features)
    release = Release.load(directory)
    of_numbers = isinstance(release.space, Interval) and (model is not None or is_decodable(release))
    if generator is not None:
        check_generator(generator, release)
    if of_numbers and model != OF_CLASSES:
        model = model or _AUTO
        method = check_number_model(model, method, release)
    else:
        of_numbers = False
        model, method = check_class_model(model or OF_CLASSES, method)
        method = class_method(release, model, method)
    certificate = enough_rows(release)
    unit = unit_of(certificate)
    columns, left_out = columns_of(table, features, unit)
    frame = frame_of(table, columns)
    if of_numbers:
        candidates = number_estimators(columns, model, method, noise_ratio(release, decoded_numbers(release)))
        names, estimators = list(candidates), list[Any](candidates.values())
    else:
        estimators = list[Any](estimators_of(columns, model, method))
        names = [model] * len(estimators)
        if generator is not None:
            estimators = [corrected(each, method, generator, columns) for each in estimators]
    units = units_in(table, unit)
    parts = list(folds_of(len(release), units))
    of_classes = not of_numbers and generator is None
    found = cross_validated(
        estimators,
        frame,
        release,
        parts,
        report,
        numbers=of_numbers,
        calibrate=of_classes and needs_calibration(model, method),
        pairs=of_classes and is_quick(model, method),
    )
    best = found.best
    fitted = estimators[best].fit(frame, release)
    on_true = None if generator is None else accuracy_of_true_rows(fitted, release, found.predicted)
    fitted = fitted if generator is None else fitted.estimator_
    learned = TableModel(
        fitted,
        MappingProxyType(columns),
        names[best],
        method,
        certificate,
        corrected=generator is not None,
        calibrator=found.calibrator,
    )
    return Learned(
        learned,
        in_folds(number_scores(release, found.predicted, found.folds, units), _OF_NUMBERS)
        if of_numbers
        else class_scores(release, found.predicted, found.folds, units, found.without),
        MappingProxyType(left_out),
        number_setting(fitted, names) if of_numbers else class_setting(fitted, model, best, found.calibrator),
        corrected=generator is not None,
        true_accuracy=on_true,
    )


def _learn_from_peers(
    folder: Path, table: pa.Table, model: str, method: str | None, features: Sequence[str] | None
) -> Learned:
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
    cells = clusters_in(folder)
    columns, left_out = columns_of(table, features, None)
    (estimator, *_) = estimators_of(columns, model, EXCHANGED)
    fitted = estimator.fit(frame_of(table, columns), answer, model__cells=cells)
    learned = TableModel(fitted, MappingProxyType(columns), model, EXCHANGED, answer.certificate)
    return Learned(learned, None, MappingProxyType(left_out), class_setting(fitted, model, 0, None))
