"""From the folder of a release to a model of its label: choose columns, fit, judge, keep and use.

Needs ``pip install 'labeldp[learn]'``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from labeldp.errors import InputError
from labeldp.learning.features import Images, columns_of, frame_of, points_of, read_images
from labeldp.learning.losses import decoded_numbers, is_decodable
from labeldp.learning.metrics import Estimate, Scores, scores
from labeldp.learning.sklearn import noise_ratio
from labeldp.learning.tables._classifiers import (
    CLUSTERS,
    EXCHANGED,
    METHODS,
    OF_CLASSES,
    check_class_model,
    class_method,
    class_setting,
    estimators_of,
)
from labeldp.learning.tables._files import TableModel
from labeldp.learning.tables._folds import Progress, enough_rows, folds_of, judged, unit_of, units_in
from labeldp.learning.tables._regressors import (
    NUMBER_METHODS,
    NumberScores,
    check_number_model,
    number_estimators,
    number_scores,
    number_setting,
)
from labeldp.learning.tables._resampled import accuracy_of_true_rows, check_generator, corrected
from labeldp.mechanisms.features import Generator
from labeldp.mechanisms.queries import ExchangedLabels
from labeldp.privacy import Interval
from labeldp.release import Answer, Release, clusters_in, is_answer, public_columns

__all__ = ["Images", "Scores", "points_of", "read_images"]  # documented here, defined elsewhere

if TYPE_CHECKING:  # PyTorch is an extra of its own
    from labeldp.learning.torch import NetworkModel

#: What chooses a model of numbers, if none is asked for.
_AUTO = "auto"


@dataclass(frozen=True, eq=False)
class Learned:
    """What came of learning from a release.

    Attributes:
        model: The model, fitted on all rows.
        scores: How good such a model is on rows it was not fitted on, by cross-validation on released labels; None
            where labels are not those of their rows, but of peers'.
        left_out: Public columns that were not used, and why.
        setting: What was chosen on released labels.
        judged_by: What the scores are from.
        corrected: Whether it was corrected for features that were redrawn.
        true_accuracy: About how often such a model is right on true rows, if it was corrected; scores are of released
            rows, some of whose features were redrawn.
    """

    model: TableModel | NetworkModel
    scores: Scores | NumberScores | None
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
    """Learn to predict the label of a release from its public columns, and say how well that works.

    Args:
        directory: The folder of a release.
        model: Of classes ``"softmax"`` (multinomial logistic regression, the default) or ``"boosting"`` (histogram
            gradient boosting). Of real labels ``"ridge"`` (linear), ``"boosting"``, ``"neighbours"``, or ``"auto"``,
            the default: ridge, or boosting where held-out released labels clearly prefer it. Of both ``"convex"``:
            linear, by descent along unbiased gradients (``labeldp.learning.convex``).
        method: See ``METHODS`` and ``NUMBER_METHODS``; by default the first of the model, or ``"clusters"`` where
            labels lean towards the class distributions of clusters, which at most epsilons say more than the labels.
            What peers exchanged is learned from in one way: soft labels of their clusters.
        features: The columns to predict from; by default all public ones that can be of use.
        generator: Of classes whose features were redrawn: the generator that drew them. The model is then one of true
            features (``labeldp.learning.sklearn``); without it, of features as they were released.
        progress: Called with the name of the work, the fits done, and the fits in all.

    Returns:
        The model fitted on all rows, and its cross-validated scores. What was tuned was tuned on released labels; no
        row was judged by a model that was fitted on it, nor, where the unit's column was kept, on its unit.

    Guarantee:
        Whatever is learned from a release is covered by the release's guarantee, at no further cost.

    Raises:
        VerificationError: The folder and its certificate do not agree.
        InputError: There is no such model, method or column.
    """
    report = progress or (lambda *_: None)
    if model is not None and model not in METHODS and model not in NUMBER_METHODS:
        known = ", ".join(dict.fromkeys([*METHODS, *NUMBER_METHODS]))
        raise InputError(f"expected a model among {known}, found {model!r}")
    table = public_columns(directory)
    if is_answer(directory):
        if generator is not None:
            raise InputError("expected released rows with a generator, found what peers exchanged; leave it out")
        model, method = check_class_model(model or OF_CLASSES, method)
        return _learned_from_peers(Path(directory), table, model, method, features)
    release = Release.load(directory)
    of_numbers = isinstance(release.space, Interval) and (model is not None or is_decodable(release))
    if generator is not None:
        check_generator(generator, release)
    if of_numbers and model != OF_CLASSES:
        return _learned_numbers(release, table, model or _AUTO, method, features, report)
    model, method = check_class_model(model or OF_CLASSES, method)
    method = class_method(release, model, method)
    certificate = enough_rows(release)
    unit = unit_of(certificate)
    columns, left_out = columns_of(table, features, unit)
    frame = frame_of(table, columns)
    estimators: list[Any] = list(estimators_of(columns, model, method))
    if generator is not None:
        estimators = [corrected(each, method, generator, columns) for each in estimators]
    parts = list(folds_of(len(release), units_in(table, unit)))
    probabilities, best = judged(estimators, frame, release, parts, report)
    fitted = estimators[best].fit(frame, release)
    on_true = None if generator is None else accuracy_of_true_rows(fitted, release, probabilities)
    fitted = fitted if generator is None else fitted.estimator_
    return Learned(
        TableModel(fitted, MappingProxyType(columns), model, method, certificate, generator is not None),
        scores(release, probabilities),
        MappingProxyType(left_out),
        class_setting(fitted, model, best),
        corrected=generator is not None,
        true_accuracy=on_true,
    )


def _learned_numbers(
    release: Release,
    table: pa.Table,
    model: str,
    method: str | None,
    features: Sequence[str] | None,
    report: Progress,
) -> Learned:
    """A regressor of real labels, the one of several that held-out released labels prefer."""
    method = check_number_model(model, method, release)
    certificate = enough_rows(release)
    unit = unit_of(certificate)
    columns, left_out = columns_of(table, features, unit)
    frame = frame_of(table, columns)
    candidates = number_estimators(columns, model, method, noise_ratio(release, decoded_numbers(release)))
    parts = list(folds_of(len(release), units_in(table, unit)))
    predicted, best = judged(list(candidates.values()), frame, release, parts, report, numbers=True)
    name = list(candidates)[best]
    fitted = candidates[name].fit(frame, release)
    return Learned(
        TableModel(fitted, MappingProxyType(columns), name, method, certificate),
        number_scores(release, predicted),
        MappingProxyType(left_out),
        number_setting(fitted),
    )


def _learned_from_peers(
    folder: Path, table: pa.Table, model: str, method: str | None, features: Sequence[str] | None
) -> Learned:
    """A model from labels that peers exchanged inside clusters; how good it is, these labels do not say."""
    answer = Answer.load(folder)
    if answer.query != ExchangedLabels.name:
        raise InputError(
            f"expected released labels, or what peers exchanged, found the answer to {answer.query}; open it with "
            "Answer.load and learn with CellClassifier, SoftLabelClassifier or MomentClassifier"
        )
    if method is not None:
        raise InputError(f"expected no method for labels that peers exchanged, found {method!r}; leave it out")
    if CLUSTERS not in METHODS[model]:
        softly = ", ".join(name for name, methods in METHODS.items() if CLUSTERS in methods)
        raise InputError(f"expected a model that learns from clusters among {softly}, found {model!r}")
    cells = clusters_in(folder)
    columns, left_out = columns_of(table, features, None)
    (estimator, *_) = estimators_of(columns, model, EXCHANGED)
    fitted = estimator.fit(frame_of(table, columns), answer, model__cells=cells)
    made = TableModel(fitted, MappingProxyType(columns), model, EXCHANGED, answer.certificate)
    return Learned(made, None, MappingProxyType(left_out), class_setting(fitted, model, 0))
