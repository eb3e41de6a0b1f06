"""The families of models of a table, of classes and of numbers: a family is a function and a line of a table.

With resampled features they are corrected by means of the generator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder

from labeldp import _checks
from labeldp._progress import Progress, silent
from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.choice import Candidates, Member, Work, folds_of, numbers_of
from labeldp.learning.convex import ConvexClassifier, ConvexRegressor
from labeldp.learning.features import frame_columns, frame_of, scaling_transformer, tree_transformer
from labeldp.learning.losses import decoded_numbers, gain, is_decodable, is_unbiased, require_decodable
from labeldp.learning.metrics import Estimate, Units
from labeldp.learning.ratings import FactorizationClassifier
from labeldp.learning.sklearn import (
    AutoClassifier,
    AutoRegressor,
    BoostingClassifier,
    EvidenceRidge,
    NeighborsRegressor,
    ReleasedLabelClassifier,
    ReleasedLabelRegressor,
    ResampledClassifier,
    RowMethod,
    SoftLabelClassifier,
    SoftmaxRegression,
    noise_ratio,
    synthetic_rows,
    true_accuracy,
    usual_boosting,
)
from labeldp.learning.tables._model import FOLDS, OF_CLASSES
from labeldp.mechanisms.resampling import Generator
from labeldp.privacy import Classes, Interval
from labeldp.privacy.channels import ClusterChannel
from labeldp.release import Release

#: The only method for labels from peer exchange.
EXCHANGED = "exchanged"
#: The default method for labels that lean towards the class distributions of their clusters.
CLUSTERS = "clusters"
#: The default model, which combines others.
AUTO = "auto"
#: The model of ratings, whose first two columns are users and items.
RATINGS = "factorization"

_TREES = 50
_LEAVES = (8, 31)
#: Draws of a factorization in a file: more make it larger, and hardly better.
_KEPT = 200
#: Passes of descent over the rows: more than one helps, at little cost in memory.
_PASSES = 5
#: Inner folds, for the shrinkage of predictions towards their mean.
_FOLDS = 2

#: An encoder of columns, and learners by what they are; one that says itself what it chose has an empty name.
Learners = tuple[Any, dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Family:
    """A family of models.

    Attributes:
        methods: Methods, the default one first.
        learners: Function of the kinds of columns, a method, and the ratio of the variances of released numbers and of
            labels.
        beside: Methods under which predictions are combined with the constant, on held-out rows. Others fit it
            themselves, or are baselines, or say what labels alone do not show.
        unbiased: True if released numbers must be unbiased.
    """

    methods: tuple[str, ...]
    learners: Callable[[Mapping[str, str], str, float], Learners]
    beside: tuple[str, ...] = ()
    unbiased: bool = False


@dataclass(frozen=True, eq=False)
class Kind:
    """Classes or numbers, as far as models of tables know them.

    Attributes:
        noun: What models predict, in words.
        auto: The learner that combines families.
        linear: The family that is taken by default with a method.
        families: The families by name, besides the combination.
    """

    noun: str
    auto: type[Any]
    linear: str
    families: Mapping[str, Family]

    @property
    def constant(self) -> str:
        """Name of what is predicted without features."""
        return str(self.auto.target.constant)

    @property
    def methods(self) -> dict[str, tuple[str, ...]]:
        """The methods of each model, the default one first."""
        first = "auto" if self is NUMBERS else "likelihood"
        return {AUTO: (first,), **{name: family.methods for name, family in self.families.items()}}

    def check(self, model: str, method: str | None) -> str | None:
        """The method, once a model of this kind is known to have it."""
        known = self.methods[_checks.among(model, f"a model of {self.noun}", self.methods)]
        return method if method is None else _checks.among(method, f"a method of {model}", known)

    def template(self, columns: Mapping[str, str], model: str, method: str) -> Any:
        """The unfitted pipeline of a family."""
        encoder, named = self.families[model].learners(columns, method, 1.0)
        return Pipeline([("columns", clone(encoder)), ("model", next(iter(named.values())))])


def _softmax(columns: Mapping[str, str], method: str, _: float) -> Learners:
    if method in (CLUSTERS, EXCHANGED):
        soft = _on_soft_labels(LogisticRegression(max_iter=1000), method)
        return scaling_transformer(columns), {"scikit-learn's usual penalty": soft}
    return scaling_transformer(columns), {"": SoftmaxRegression(method=method)}  # type: ignore[arg-type]


def _boosting(columns: Mapping[str, str], method: str, _: float) -> Learners:
    encoded, places = tree_transformer(columns)
    if method == "likelihood":
        return encoded, {"": BoostingClassifier(categorical=places)}
    fixed = {"max_iter": _TREES, "early_stopping": False, "random_state": 0, "categorical_features": places}
    return encoded, {
        f"{_TREES} trees of {leaves} leaves": _on_soft_labels(
            HistGradientBoostingClassifier(max_leaf_nodes=leaves, **fixed), method
        )
        for leaves in _LEAVES
    }


def _convex(columns: Mapping[str, str], _: str, __: float, learner: type[Any] = ConvexClassifier) -> Learners:
    return scaling_transformer(columns), {"": learner(passes=_PASSES)}


def _factorization(columns: Mapping[str, str], _: str, __: float) -> Learners:
    """Users and items as numbers, and all other columns as those of either."""
    pair, others = list(columns)[:2], dict(list(columns.items())[2:])
    if len(pair) < 2:
        raise InputError(
            f"expected the columns of users and of items first, then others, with the model {RATINGS}, found "
            f"{len(pair)} columns; name them (--features user,item,...)"
        )
    numbers = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2)
    parts = [("pair", numbers, pair), ("others", scaling_transformer(others, dense=True), list(frame_columns(others)))]
    return ColumnTransformer(parts, sparse_threshold=0.0), {"": FactorizationClassifier(kept=_KEPT)}


def _ridge(columns: Mapping[str, str], method: str, _: float) -> Learners:
    return scaling_transformer(columns), {"": _regressor(EvidenceRidge(()), method)}


def _number_boosting(columns: Mapping[str, str], method: str, ratio: float) -> Learners:
    encoded, places = tree_transformer(columns)
    return encoded, {"": _regressor(usual_boosting(ratio).set_params(categorical_features=places), method)}


def _neighbours(columns: Mapping[str, str], _: str, __: float) -> Learners:
    return scaling_transformer(columns, dense=True), {"": NeighborsRegressor()}


def _on_soft_labels(estimator: Any, method: str) -> Any:
    """Wrap a classifier so that it is fitted on soft labels."""
    if method == EXCHANGED:
        return SoftLabelClassifier(estimator)
    return ReleasedLabelClassifier(estimator, method=method)  # type: ignore[arg-type]


def _regressor(estimator: Any, method: str) -> ReleasedLabelRegressor:
    return ReleasedLabelRegressor(estimator, method=method, folds=_FOLDS)  # type: ignore[arg-type]


_OF_NUMBERS = ("auto", "unbiased", "likelihood", "decoded", "plain")
CLASSES = Kind(
    "classes",
    AutoClassifier,
    OF_CLASSES,
    MappingProxyType(
        {
            OF_CLASSES: Family(("likelihood", "unbiased", "plain", CLUSTERS), _softmax),
            "boosting": Family(("likelihood", "em", "plain", CLUSTERS), _boosting, ("likelihood", "em")),
            "convex": Family(("unbiased",), _convex, ("unbiased",)),
            RATINGS: Family(("likelihood",), _factorization, ("likelihood",)),
        }
    ),
)
NUMBERS = Kind(
    "numeric labels",
    AutoRegressor,
    "ridge",
    MappingProxyType(
        {
            "ridge": Family(_OF_NUMBERS, _ridge),
            "boosting": Family(_OF_NUMBERS, _number_boosting),
            "neighbours": Family(("auto", "unbiased"), _neighbours, ("auto", "unbiased"), unbiased=True),
            "convex": Family(("unbiased",), partial(_convex, learner=ConvexRegressor), ("unbiased",), unbiased=True),
        }
    ),
)


def kind_of(release: Release, model: str | None) -> Kind:
    """The kind of the labels of a release, as a model of this name takes them: softmax takes numbers for classes."""
    numbers = isinstance(release.space, Interval) and (is_decodable(release) if model is None else model != OF_CLASSES)
    return NUMBERS if numbers else CLASSES


def checked_method(kind: Kind, release: Release, model: str, method: str | None) -> str:
    """The method of a model for a release: the given one, or the default.

    Raises:
        InputError: There is no such model or method, or it cannot learn from this channel.
    """
    method = kind.check(model, method)
    methods = kind.methods[model]
    if kind is NUMBERS:
        require_decodable(release)
        if model in kind.families and kind.families[model].unbiased and not is_unbiased(release):
            raise InputError(
                f"expected unbiased released numbers for {model}, found bins, candidates or clusters; use ridge or "
                "boosting"
            )
    leaning = isinstance(release.channel, ClusterChannel) and CLUSTERS in methods
    return method or (CLUSTERS if leaning else methods[0])


def default_model(release: Release, method: str | None, generator: Generator | None) -> str:
    """The combination of models; a linear one where a choice was made, or labels are not all that a release says."""
    kind = kind_of(release, None)
    if kind is NUMBERS:
        return AUTO if method is None else kind.linear
    plain = isinstance(release.space, Classes) and method is None and generator is None
    return AUTO if plain and checked_method(kind, release, kind.linear, None) != CLUSTERS else kind.linear


@dataclass(frozen=True, eq=False)
class Judged:
    """A model of one family that was fitted to all rows, and predictions of rows that it was not fitted on.

    Attributes:
        model: The pipeline; if it was corrected for resampled features, the corrected learner of pipelines.
        beside: Its combination with the constant; None where it needs none.
        folds: The fold of each row.
        held_out: Predictions by models and combinations that were fitted on other folds, in declared order.
        setting: What was chosen, in words.
        is_constant: True if the same is predicted for every row.
    """

    model: Any
    beside: Any
    folds: np.ndarray
    held_out: Any
    setting: str
    is_constant: bool


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows that a model is learned from.

    Attributes:
        kind: The kind of labels.
        release: Released labels of n rows.
        columns: The kind of each feature column.
        frame: Features of the rows.
        units: The privacy units of the rows.
        report: Called with the name of the work, the number of fits done, and the number of all fits.
    """

    kind: Kind
    release: Release
    columns: Mapping[str, str]
    frame: Any
    units: Units
    report: Progress = silent

    def take(self, rows: Int[np.ndarray, "m"]) -> Rows:
        """Some of the rows."""
        frame = self.frame.iloc[rows].reset_index(drop=True)
        return Rows(self.kind, self.release[rows], self.columns, frame, self.units.take(rows), self.report)


def judged_model(
    given: Rows, model: str, method: str, *, generator: Generator | None = None, beside: bool = True
) -> Judged:
    """Fit a model of one family to all rows, and judge it on folds of them.

    Args:
        given: The rows.
        model: The name of the family.
        method: Its method.
        generator: The generator of resampled features, for a model that is corrected for them.
        beside: False to leave predictions as they are, whatever the method.
    """
    kind, release, units = given.kind, given.release, given.units
    family, parts = kind.families[model], folds_of(units, FOLDS)
    ratio = noise_ratio(release, decoded_numbers(release)) if kind is NUMBERS else 1.0
    encoder, named = family.learners(given.columns, method, ratio)
    if generator is not None:
        of = {name: Pipeline([("columns", clone(encoder)), ("model", each)]) for name, each in named.items()}
        named = {name: corrected(each, method, generator, given.columns) for name, each in of.items()}
        encoder = FunctionTransformer()
    rows, every = np.arange(len(release)), list(named.values())
    member = Member(encoder, type(every[0]), lambda _: Candidates(named, gain) if len(named) > 1 else clone(every[0]))
    folds = numbers_of(parts, len(rows))
    work = Work(release, given.frame, parts, units, folds, len(parts), given.report)
    work.tell(0, 1)
    fitted = work.fit(member, rows)
    work.tell(1, 1)
    last = fitted.model.steps[-1][1]
    words = list(named)[fitted.setting if len(named) > 1 else 0]
    said = [f"{words}, chosen among {len(named)} on released labels" if len(named) > 1 else words or last.setting()]
    combination, held_out, constant = None, fitted.held_out, not fitted.varies
    if beside and generator is None and method in family.beside:
        problem = kind.auto.target.alone(release, [fitted], rows, parts, units)
        combination, held_out = problem.best(), problem.cross_fitted(parts)
        said, constant = [*said, combination.setting()], constant or combination.is_constant
    whole = fitted.model if generator is None else last
    return Judged(whole, combination, folds, held_out, "; ".join(filter(None, said)), constant)


#: Method for resampled rows, for each method of released labels that can be corrected.
_ROW_METHODS: Mapping[str, RowMethod] = MappingProxyType(
    {"likelihood": "likelihood", "em": "likelihood", "unbiased": "weighted"}
)


def corrected(
    estimator: Pipeline, method: str, generator: Generator, columns: Mapping[str, str]
) -> ResampledClassifier:
    """Wrap a pipeline to learn with the probabilities that features are original, estimated from generated rows.

    Raises:
        InputError: The method cannot be corrected.
    """
    if method not in _ROW_METHODS:
        raise InputError(f"expected a method among {', '.join(_ROW_METHODS)} with a generator, found {method!r}")

    def drawn(codes: Int[np.ndarray, "m"]) -> pd.DataFrame:
        return frame_of(generator.sample(codes), columns)

    return ResampledClassifier(estimator, method=_ROW_METHODS[method], generator=drawn, original_share="estimated")


#: Fewest synthetic rows to evaluate a model on.
_FEWEST_SYNTHETIC = 10_000


def accuracy_of_true_rows(
    fitted: ResampledClassifier, release: Release, probabilities: Float[np.ndarray, "n k"]
) -> Estimate:
    """Approximate accuracy on true rows, from predictions of held-out released rows.

    The predictions are those of fold models; the correction for resampled rows uses predictions of the full model for
    synthetic rows. The interval does not cover the difference of these models, which vanishes if classes are equally
    common.
    """
    names = np.array(release.space.points)
    rows = synthetic_rows(fitted.generator, max(_FEWEST_SYNTHETIC, len(release)), len(names))
    return true_accuracy(release, names[np.argmax(probabilities, axis=1)], fitted.predict(rows))


def check_generator(generator: Generator, release: Release) -> None:
    """Refuse a generator other than that of a release."""
    law = None if release.certificate is None else release.certificate.features
    if law is None or law.generator is None:
        raise InputError("expected features resampled with a generator, found a release of labels alone")
    if generator.describe() != law.generator:
        raise InputError(
            "expected the generator that the release was made with, found one of another form or source; the "
            "certificate describes the right one"
        )
