"""Classifiers of table rows: models, methods, and candidates of a fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OrdinalEncoder

from labeldp import _checks
from labeldp.errors import InputError
from labeldp.learning.convex import BALLS, ConvexClassifier
from labeldp.learning.features import frame_columns, scaling_transformer, tree_transformer
from labeldp.learning.ratings import FactorizationClassifier
from labeldp.learning.sklearn import (
    PENALTIES,
    AutoClassifier,
    AutoRegressor,
    BoostingClassifier,
    Calibrator,
    ReleasedLabelClassifier,
    SoftLabelClassifier,
    SoftmaxRegression,
)
from labeldp.privacy.channels import ClusterChannel
from labeldp.release import Release

#: The methods of each model; the first is the default.
METHODS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "auto": ("likelihood",),
        "softmax": ("likelihood", "unbiased", "plain", "clusters"),
        "boosting": ("likelihood", "em", "plain", "clusters"),
        "convex": ("unbiased",),
        "factorization": ("likelihood",),
    }
)

#: The only method for labels from peer exchange.
EXCHANGED = "exchanged"
#: The method of boosting that maximises the likelihood itself, by LightGBM; the others are by scikit-learn.
LIKELIHOOD = "likelihood"
#: The default method for labels that lean towards the class distributions of their clusters.
CLUSTERS = "clusters"

#: The default model, which combines others or chooses among them.
AUTO = "auto"
#: The model of ratings, whose first two columns are users and items.
RATINGS = "factorization"
#: The linear model of classes.
OF_CLASSES = "softmax"

#: Methods of softmax that maximise a likelihood with class shares as a candidate, quickly; ``plain`` is a baseline.
_QUICK = ("likelihood", "unbiased", "plain")

#: Predictions without features, of classes and of numbers, and why they were chosen.
SHARES, MEAN = "class shares", "the mean label"
_NO_HELP = "as held-out released labels do not show that features help"

#: Least weight of the mean label that is named.
_SHOWN = 0.005

_TREES = 50
_LEAVES = (8, 31)
#: Draws of a factorization in a file: more make it larger, and hardly better.
_KEPT = 200
#: Passes of descent over the rows: more than one helps, at little cost in memory.
_PASSES = 5


def estimators_of(columns: Mapping[str, str], model: str, method: str) -> list[Any]:
    """Candidate pipelines, or the one classifier that combines others, to be chosen among on released labels."""
    if model == AUTO:
        return [AutoClassifier()]
    encoded, learners = _LEARNERS[model](columns, method)
    return [Pipeline([("columns", clone(encoded)), ("model", learner)]) for learner in learners]


def _linear(columns: Mapping[str, str], method: str) -> tuple[Any, list[Any]]:
    linear: Any = SoftmaxRegression(method=method)  # type: ignore[arg-type]
    soft = method in (CLUSTERS, EXCHANGED)
    return scaling_transformer(columns), [
        _on_soft_labels(LogisticRegression(max_iter=1000), method) if soft else linear
    ]


def _boosting(columns: Mapping[str, str], method: str) -> tuple[Any, list[Any]]:
    encoded, places = tree_transformer(columns)
    if method == LIKELIHOOD:
        return encoded, [BoostingClassifier(categorical=places)]
    fixed = {"max_iter": _TREES, "early_stopping": False, "random_state": 0, "categorical_features": places}
    return encoded, [
        _on_soft_labels(HistGradientBoostingClassifier(max_leaf_nodes=n, **fixed), method) for n in _LEAVES
    ]


def _convex(columns: Mapping[str, str], _: str) -> tuple[Any, list[Any]]:
    return scaling_transformer(columns), [ConvexClassifier(passes=_PASSES)]


def _factorization(columns: Mapping[str, str], _: str) -> tuple[Any, list[Any]]:
    """Users and items as numbers, and all other columns as those of either."""
    pair, others = list(columns)[:2], dict(list(columns.items())[2:])
    if len(pair) < 2:
        raise InputError(
            f"expected the columns of users and of items first, then others, with the model {RATINGS}, found "
            f"{len(pair)} columns; name them (--features user,item,...)"
        )
    numbers = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2)
    parts = [("pair", numbers, pair), ("others", scaling_transformer(others, dense=True), list(frame_columns(others)))]
    return ColumnTransformer(parts, sparse_threshold=0.0), [FactorizationClassifier(kept=_KEPT)]


#: The encoding of columns and the candidate learners of each model.
_LEARNERS: Mapping[str, Callable[[Mapping[str, str], str], tuple[Any, list[Any]]]] = MappingProxyType(
    {"softmax": _linear, "boosting": _boosting, "convex": _convex, RATINGS: _factorization}
)


def _on_soft_labels(estimator: Any, method: str) -> Any:
    """Wrap a classifier so that it is fitted on soft labels."""
    if method == EXCHANGED:
        return SoftLabelClassifier(estimator)
    return ReleasedLabelClassifier(estimator, method=method)  # type: ignore[arg-type]


def class_method(release: Release, model: str, method: str | None) -> str:
    """The given method, or the default: clusters if labels lean towards theirs, else the first of the model."""
    leaning = isinstance(release.channel, ClusterChannel) and CLUSTERS in METHODS[model]
    return method or (CLUSTERS if leaning else METHODS[model][0])


def check_class_model(model: str, method: str | None) -> tuple[str, str | None]:
    """Check the names of a model of classes and of its method."""
    _checks.among(model, "a model of classes", METHODS)
    if method is not None:
        _checks.among(method, f"a method of {model}", METHODS[model])
    return model, method


def is_quick(model: str, method: str) -> bool:
    """True for a model that is fitted quickly enough to be fitted without each pair of folds too."""
    return model == OF_CLASSES and method in _QUICK


def needs_calibration(model: str, method: str) -> bool:
    """True for a model without intercepts that maximise a likelihood.

    A baseline that ignores noise is left as it is, and so is a model that learns from the class distributions of
    clusters: at most epsilons they say what labels alone do not show.
    """
    return method not in ("plain", CLUSTERS) and not is_quick(model, method)


def class_setting(fitted: Pipeline, model: str, best: int, calibrator: Calibrator | None) -> str:
    """Description of what was chosen, and among how many."""
    last = fitted.steps[-1][1]
    calibrated = calibration_setting(calibrator)
    if isinstance(last, BoostingClassifier):
        return f"{last.rounds_} trees for a class, of {last.leaves_} leaves, chosen on released labels{calibrated}"
    if model == "boosting":
        chosen = "" if isinstance(last, SoftLabelClassifier) else f", chosen among {len(_LEAVES)} on released labels"
        return f"{_TREES} trees of {_LEAVES[best]} leaves{chosen}{calibrated}"
    if isinstance(last, FactorizationClassifier | ConvexClassifier):
        radius = f"coefficients within {{:.3g}} of zero, chosen among {BALLS} on released labels"
        drawn = "{} factors, the mean of {} draws from the posterior"
        ratings = isinstance(last, FactorizationClassifier)
        chosen = drawn.format(last.factors, len(last.draws_)) if ratings else radius.format(last.region_.radius)
        return f"{chosen}{calibrated}"
    if not hasattr(last, "l2_"):
        return f"scikit-learn's usual penalty{calibrated}"
    if math.isinf(last.l2_):
        return f"{SHARES}, {_NO_HELP}"
    return f"l2 {last.l2_:.3g}, chosen among {PENALTIES} and {SHARES} on released labels"


def auto_setting(fitted: AutoClassifier | AutoRegressor) -> str:
    """Description of the models that were combined, the heaviest first, and of those that were left out."""
    numbers = isinstance(fitted, AutoRegressor)
    constant, weights = MEAN if numbers else SHARES, dict(fitted.weights_)
    missing = "".join(f"; without {name}: {why}" for name, why in fitted.left_out_.items())
    if not any(weights.values()):
        return f"{constant}{f', {_NO_HELP}' if weights else ''}{missing}"
    if numbers and (rest := 1.0 - sum(weights.values())) > _SHOWN:
        weights[constant] = rest
    heaviest = sorted(weights.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {format(weight, '.2f' if numbers else '.0%')}" for name, weight in heaviest)
    return f"{'a combination' if numbers else 'a mean'} of {shown}, weighed on released labels{missing}"


def calibration_setting(calibrator: Calibrator | None) -> str:
    """Description of a calibration, or of the class shares in the place of a model; empty without one."""
    if calibrator is None:
        return ""
    if calibrator.is_constant:
        return f"; replaced by {SHARES}, {_NO_HELP}"
    return f"; calibrated on released labels (slope {calibrator.slope:.2g}), {SHARES} being the alternative"
