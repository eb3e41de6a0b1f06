"""The default learners: models of several families, combined by released labels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._extras import require_extra
from labeldp._progress import Progress, silent
from labeldp._shapes import Float, Int
from labeldp.columns import result_or_none
from labeldp.errors import InputError
from labeldp.learning.choice import (
    MEAN,
    NO_HELP,
    SHARES,
    Elsewhere,
    Fitted,
    Member,
    Parts,
    Work,
    folds_of,
    numbers_of,
    some_rows,
)
from labeldp.learning.features import row_count, row_weights, take_rows
from labeldp.learning.losses import (
    class_shares,
    decoded_numbers,
    effective_share,
    require_decodable,
    require_release,
    stack_rows,
)
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn._boosting import BoostingClassifier, BoostingRegressor
from labeldp.learning.sklearn._kernel import EvidenceRidge, KernelClassifier
from labeldp.learning.sklearn._members import POWER, as_frame, encoders_of, kinds_of, warn_of_left_out, warn_of_texts
from labeldp.learning.sklearn._mixture import HeldOut, held_out_classes, held_out_numbers
from labeldp.learning.sklearn._regressor import NumberRegressor, ReleasedLabelRegressor, noise_ratio
from labeldp.learning.sklearn._soft_labels import ProbabilityClassifier, check_released_rows
from labeldp.learning.sklearn._softmax import SoftmaxRegression
from labeldp.learning.sklearn._tree import TreeClassifier, TreeRegressor
from labeldp.privacy import Interval
from labeldp.release import Release

if TYPE_CHECKING:  # pandas is in another extra than the rest of this package
    from labeldp.learning.features import SeenRanges

#: Of more rows some are learned from, if they have so many effective rows: more change little, and take minutes.
SOME_ROWS, _ENOUGH_ROWS = 200_000, 20_000
#: Effective rows from which clusters, which are for few, are left out.
_NO_CLUSTERS = 500
#: Effective rows that are enough to judge members by: no more folds are held out than have as many.
ENOUGH_HELD = 1_500
#: Effective rows from which boosting learns faster, and how fast: half the trees, which are no worse.
_MANY_EFFECTIVE, _RATE, _FAST = 20_000, 0.1, 0.2
#: Least weight of the mean label that is named.
_SHOWN = 0.005


@dataclass(frozen=True)
class Target:
    """The target of a prediction, classes or numbers, for learners that combine models.

    Attributes:
        constant: Name of what is predicted without features.
        require: Function that returns a release of such labels, and refuses anything else.
        predict: Name of the method of models that predicts it.
        linear: Function that makes a linear model.
        kernels: Function that makes a model in kernels.
        boosting: Type of boosted trees.
        tree: Type of models of trees of clusters.
        problem: Function of what members predicted for held-out rows that returns the problem of combining them.
        alone: The same of a single model, which is the constant in doubt.
        effective: Function of a release: how many of its rows, in the mean, say as much as one true label.
    """

    constant: str
    require: Callable[[object], Release]
    predict: str
    linear: Callable[[], Any]
    kernels: Callable[[], Any]
    boosting: type[Any]
    tree: type[Any]
    problem: Callable[..., HeldOut]
    alone: Callable[..., HeldOut]
    effective: Callable[[Release], float]

    def enough(self, release: Release) -> int:
        """Rows of a release that say nearly as much as more of them, if some of these are given."""
        return max(SOME_ROWS, math.ceil(_ENOUGH_ROWS / self.effective(release)))

    def boosted(self, categorical: Sequence[int], effective: float) -> Any:
        """Boosted trees for so many effective rows."""
        return self.boosting(categorical=categorical, learning_rate=_RATE if effective < _MANY_EFFECTIVE else _FAST)

    def members(self, columns: Mapping[str, str] | None, effective: float) -> dict[str, Member]:
        """The models for columns of some kinds, or for sparse features, and so many effective rows, by name."""
        encoders = encoders_of(columns)
        linear, kernels, boosting, tree = self.linear, self.kernels, self.boosting, self.tree
        return {
            "linear": Member(encoders.scaled, type(linear()), lambda _: linear(), self is NUMBERS),
            "kernels": Member(encoders.scaled, type(kernels()), lambda _: kernels(), posterior=True),
            "boosting": Member(encoders.coded, boosting, lambda _: self.boosted(encoders.categorical, effective)),
            "clusters": Member(
                encoders.leaves, tree, lambda encoder: tree(encoder[-1].trees_, power=POWER), most=_NO_CLUSTERS
            ),
        }


def _require_classes(y: object) -> Release:
    """The release, if its labels are classes."""
    release = require_release(y)
    if isinstance(release.space, Interval):
        raise InputError("expected released classes, found numeric labels; use AutoRegressor")
    return release


def _share_of_classes(release: Release) -> float:
    """The share of effective rows; of those of the rarest class, over even shares, where a class is rare."""
    share = effective_share(release)
    rarest = result_or_none(lambda: float(class_shares(release).min()))
    return share * (1.0 if rarest is None else min(1.0, max(release.space.size * rarest, 1e-3)))


CLASSES = Target(
    SHARES,
    _require_classes,
    "predict_proba",
    SoftmaxRegression,
    KernelClassifier,
    BoostingClassifier,
    TreeClassifier,
    held_out_classes,
    partial(held_out_classes, doubt=True),
    _share_of_classes,
)
NUMBERS = Target(
    MEAN,
    require_decodable,
    "predict",
    lambda: ReleasedLabelRegressor(EvidenceRidge(()), folds=2, shrink=False),
    lambda: ReleasedLabelRegressor(EvidenceRidge(), method="decoded", folds=2, shrink=False),
    BoostingRegressor,
    TreeRegressor,
    held_out_numbers,
    held_out_numbers,
    lambda release: 1.0 / noise_ratio(release, decoded_numbers(release)),
)


@dataclass(eq=False, repr=False)
class Combination(ABC):
    """Base of learners that combine models of several families.

    Attributes:
        members_: The fitted models by name.
        left_out_: Models that were not used, with reasons.
        n_features_in_: Number of features.
        feature_names_in_: Their names, if they were fitted as a frame.
        fitted_rows_: Rows that were learned from: all, or some of very many, of which more change little.
        held_out_rows_: Rows whose predictions by models of other rows decide: all of them or one fold.
        held_out_folds_: The fold of each of these rows.
    """

    #: What is predicted.
    target: ClassVar[Target]

    _: KW_ONLY
    minutes: float | None = None
    folds: int = 5
    every_row: bool = False

    def fit(
        self,
        X: Any,  # noqa: N803 (scikit-learn's name)
        y: Release,
        groups: Any = None,
        sample_weight: Any = None,
        *,
        unlabelled: Any = None,
        report: Progress | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> Self:
        """Fit all models, and their weights.

        Args:
            X: Features of n rows: a frame, whose texts are categories or words, an array or a sparse matrix of
                numbers.
            y: A release of n rows; bins of numbers are decoded.
            groups: The privacy unit of each row, shape (n,), which is then on one side of every fold; ``"rows"`` if
                each row is its own.
            sample_weight: Public weights of rows.
            unlabelled: Features of further rows without labels, in the form of X: clusters are found among these too.
            report: Called with the name of the work, the number of fits done, and the number of all fits. With one,
                an interrupt (Ctrl-C) leaves out the models that are not finished, if one is; else it is raised.
            elsewhere: Models that were fitted to these rows and others, and take the place of those of their names.
        """
        release = self.target.require(y)
        units = Units.of(groups, release)
        require_extra("learn", "pandas")
        rows = as_frame(X)
        check_released_rows(X, release)
        weights = {} if sample_weight is None else {"sample_weight": row_weights(sample_weight, len(release))}
        some = self._some(release, units, every=self.every_row or elsewhere is not None)
        if len(some) < len(release):
            release, rows, units = release[some], take_rows(rows, some), units.take(some)
            weights = {name: values[some] for name, values in weights.items()}
        parts, held, folded = self._parts(units, None if elsewhere is None else elsewhere.parts(self.folds))
        self.columns_ = None if issparse(rows) else kinds_of(rows)
        warn_of_texts(rows, self.columns_ or {})
        self.n_features_in_ = rows.shape[1]
        if hasattr(X, "columns"):
            warn_of_left_out(X, rows)
            self.feature_names_in_ = np.asarray(list(rows.columns), dtype=object)
        self.seen_ = {} if issparse(rows) else _ranges().of(rows).plain()
        rows = rows if unlabelled is None else stack_rows(rows, self.frame(unlabelled))
        given = {} if elsewhere is None else elsewhere.fitted(release, rows, units, parts, held)
        minutes = math.inf if self.minutes is None else _checks.not_negative(self.minutes, "minutes")
        groups = np.zeros(len(release), dtype=np.int64)
        groups[held] = self.held_out_folds_ = numbers_of(folded, len(held))
        told = report or silent
        work = Work(release, rows, parts, units, groups, len(folded), told, minutes, weights, combined=True)
        fitted = self._fit_members(work, held, given, watched=report is not None)
        self.held_out_rows_ = some[held]
        problem = self.target.problem(release, fitted, held, parts, units, **weights)
        self.mixture_ = problem.best()
        self.weights_ = dict(zip(self.members_, self.mixture_.weights.tolist(), strict=True))
        self.held_out_order_, self.held_out_problem_ = self._finish(release), partial(problem.cross_fitted, folded)
        self.__dict__.pop("held_out_", None)  # of an earlier fit
        return self

    @cached_property
    def held_out_(self) -> Float[np.ndarray, "h ..."]:
        """Predictions for ``held_out_rows_`` by models and weights that were fitted on other rows; in no file."""
        return np.asarray(self.held_out_problem_()[..., self.held_out_order_])

    def _some(self, release: Release, units: Units, *, every: bool | None = None) -> Int[np.ndarray, "m"]:
        """The rows to learn from: all of them, or of very many as many as say nearly all."""
        every = self.every_row if every is None else every
        share, most = self.target.effective(release), len(release) if every else self.target.enough(release)
        some = np.arange(len(release)) if len(release) <= most else some_rows(units, most, [0])
        self.fitted_rows_, self.effective_rows_, self.sampled_ = len(some), share * len(some), len(some) < len(release)
        return some

    @property
    def is_constant(self) -> bool:
        """True if the same is predicted for every row, though models were finished."""
        return bool(self.weights_) and not any(self.weights_.values())

    def setting(self) -> str:
        """The models that were combined, the heaviest first, and those that were left out, in words."""
        weights, numbers = dict(self.weights_), self.target is NUMBERS
        missing = "".join(f"; without {name}: {why}" for name, why in self.left_out_.items())
        if getattr(self, "sampled_", False):  # earlier files do not say
            missing += f"; from {self.fitted_rows_:,} rows, as more change little"
        if not any(weights.values()):
            return f"{self.target.constant}{f', {NO_HELP}' if weights else ''}{missing}"
        if numbers and (rest := 1.0 - sum(weights.values())) > _SHOWN:
            weights[self.target.constant] = rest
        heaviest = sorted(weights.items(), key=lambda item: -item[1])
        shown = ", ".join(f"{name} {format(weight, '.2f' if numbers else '.0%')}" for name, weight in heaviest)
        return f"{'a combination' if numbers else 'a mean'} of {shown}, weighed on released labels{missing}"

    @abstractmethod
    def _finish(self, release: Release) -> Any:
        """Set what depends on the kind of labels, and return the declared classes in the order of predictions."""

    def _fit_members(
        self, work: Work, held: Int[np.ndarray, "h"], given: Mapping[str, Fitted], *, watched: bool
    ) -> list[Fitted]:
        """Fit all members but the given ones, and predict held-out rows by copies that were fitted on others."""
        found, self.left_out_ = dict[str, Fitted](), {}
        members = self._family(self.columns_)
        for place, (name, member) in enumerate(members.items()):
            work.tell(place, len(members))
            if name in given:
                found[name] = replace(given[name], posterior=member.posterior)
                continue
            if member.most < self.effective_rows_:
                self.left_out_[name] = "it is for fewer effective rows"
                continue
            try:
                found[name] = work.fit(member, held)
            except KeyboardInterrupt:
                if not watched or not found:
                    raise
                self.left_out_ |= dict.fromkeys(list(members)[place:], "it was interrupted")
                break
            except Exception as problem:  # noqa: BLE001 (whatever a model raises, others may do)
                self.left_out_[name] = " ".join(str(problem).split())
        work.tell(len(members), len(members))
        if not found and work.has_time():
            why = "; ".join(f"{name}: {problem}" for name, problem in self.left_out_.items())
            raise InputError(f"expected features that a model can be fitted on, found none that did ({why})")
        self.members_ = {name: each.model for name, each in found.items()}
        return list(found.values())

    def _family(self, columns: Mapping[str, str] | None) -> Mapping[str, Member]:
        """The models for columns of some kinds, or for sparse features, by name."""
        return self.target.members(columns, self.effective_rows_)

    def _parts(self, units: Units, given: Parts | None = None) -> tuple[Parts, Int[np.ndarray, "h"], Parts]:
        """Folds of the rows, by default of chance, the rows held out from members, and folds of these rows."""
        folds = _checks.whole(self.folds, "folds", 2)
        parts = folds_of(units, folds) if given is None else given
        some = parts[: folds if self.every_row else math.ceil(folds * ENOUGH_HELD / self.effective_rows_)]
        held = np.sort(np.concatenate([rows for _, rows in some]))
        judges = units.take(held)
        if len(some) < folds and judges.count >= folds:
            return some, held, folds_of(judges, folds)
        return parts, np.arange(units.rows), parts

    def __getstate__(self) -> dict[str, Any]:
        """The state that files keep: all but the predictions of released rows."""
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if not name.startswith("held_out_")}

    def _mixed(self: Any, features: Any) -> Any:
        """The mixture of the predictions of all models that have a weight."""
        check_is_fitted(self)
        rows = self.frame(features)
        columns = (len(self.classes_),) if hasattr(self, "classes_") else ()
        some = np.zeros((len(self.members_), row_count(rows), *columns))
        for place, (name, member) in enumerate(self.members_.items()):
            if self.weights_[name] > 0.0:
                some[place] = getattr(member, self.target.predict)(rows)
        return self.mixture_(some)

    def frame(self, features: Any) -> Any:
        """Features in the form that the models take.

        Raises:
            InputError: There are no rows, or a column is missing or is not of the type that it had.
        """
        rows = as_frame(features)
        if not row_count(rows):
            raise InputError("expected features of at least one row, found none")
        if issparse(rows) or self.columns_ is None:
            return rows
        if missing := [name for name in self.columns_ if name not in rows.columns]:
            named = "" if hasattr(features, "columns") or hasattr(features, "to_pandas") else "; pass a frame"
            raise InputError(f"expected the columns {', '.join(self.columns_)}, found no {', '.join(missing)}{named}")
        rows = rows[list(self.columns_)]
        numbers = rows.dtypes == np.float64
        if other := [name for name, kind in self.columns_.items() if (kind == "number") != numbers[name]]:
            raise InputError(f"expected the column {other[0]!r} to be a {self.columns_[other[0]]}, found another type")
        return _ranges().from_plain(getattr(self, "seen_", {}), self.columns_).within(rows)  # older files have none


def _ranges() -> type[SeenRanges]:
    """The type of the ranges of columns, which needs pandas."""
    from labeldp.learning.features import SeenRanges  # noqa: PLC0415 (an extra)

    return SeenRanges


@documented_in("labeldp.learning.sklearn")
@dataclass(eq=False, repr=False)
class AutoClassifier(Combination, ProbabilityClassifier):
    """Classifier that combines models of several families by released labels, at no privacy cost.

    The models are a linear one (``SoftmaxRegression``), kernels (``KernelClassifier``), boosted trees
    (``BoostingClassifier``), and class distributions of public clusters, of features and in the graph of their
    neighbours (``TreeClassifier``). Each is fitted through the channel on all folds but one and predicts that one; the
    released labels of these rows decide how much it is sharpened and how much it weighs in the mean. A model that
    predicts the same for every row weighs nothing.

    A model that fails, or does not give finite probabilities, is left out and named in ``left_out_``.

    Args:
        minutes: No further fit is begun after this time, and an unfinished model is left out; None for no limit.
            Without one, the same release and rows give the same classifier.
        folds: Folds; of many rows only as many of them are held out as have 1 500 effective rows.
        every_row: True to hold out every fold however many rows there are.

    Attributes:
        classes_: The declared classes.
        members_: The fitted models by name, each a pipeline that begins with an encoder of features.
        weights_: The weight of each model in the mean.
        left_out_: Models that were not used, with reasons.
        held_out_: Probabilities for ``held_out_rows_`` by models and weights that were fitted on other rows, in the
            order of ``classes_``; not kept in files.
        held_out_rows_: The rows, all of them or those of some folds.
        held_out_folds_: The fold of each of these rows.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost, including every choice.
        Features are public, so models may use those of all rows, including rows without labels.

    References:
        Wolpert 1992; van der Laan, Polley and Hubbard 2007, for the combination; see also each model.

    Example:
        >>> import pandas as pd
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.sklearn import AutoClassifier
        >>> features = pd.DataFrame({"age": [30.0, 70.0] * 500, "city": ["Rome", "Oslo"] * 500})
        >>> release = Curator(["no", "yes"] * 500, Classes(["no", "yes"])).randomize(epsilon=2.0)
        >>> model = AutoClassifier().fit(features, release)
        >>> model.predict(features[:2]).tolist()
        ['no', 'yes']

    Raises:
        InputError: Labels are numeric, there are fewer rows or units than folds, or every model fails.
        MissingExtraError: pandas is not installed.
    """

    target = CLASSES

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        return np.asarray(self._mixed(X))

    def _finish(self, release: Release) -> Any:
        codes = self._set_classes(release.space)
        shifts = None if self.mixture_.shifts is None else self.mixture_.shifts[codes]
        self.mixture_ = replace(self.mixture_, constant=self.mixture_.constant[codes], shifts=shifts)
        return codes


@documented_in("labeldp.learning.sklearn")
@dataclass(eq=False, repr=False)
class AutoRegressor(Combination, NumberRegressor):
    """Regressor that combines models of several families by released labels, at no privacy cost.

    The models are ridge regression and kernels (``EvidenceRidge`` in a ``ReleasedLabelRegressor``), boosted trees
    (``BoostingRegressor``), and mean labels of public clusters, of features and in the graph of their neighbours
    (``TreeRegressor``). Each is fitted through the channel on all folds but one and predicts that one; the released
    numbers of these rows decide how much it weighs beside the others and beside the mean label. The less they show that
    features help, the nearer predictions are to the mean label.

    A model that fails, or does not give finite numbers, is left out and named in ``left_out_``.

    Args:
        minutes: No further fit is begun after this time, and an unfinished model is left out; None for no limit.
            Without one, the same release and rows give the same regressor.
        folds: Folds; of many rows only as many of them are held out as have 1 500 effective rows.
        every_row: True to hold out every fold however many rows there are.

    Attributes:
        members_: The fitted models by name, each a pipeline that begins with an encoder of features.
        weights_: The weight of each model; that of the mean label is what they lack to 1. They exceed 1 together where
            models are too cautious.
        mean_: The mean label, expected from the released numbers and the range: near its middle if they say little.
        range_: Ends of the declared range, to which predictions are clipped.
        left_out_: Models that were not used, with reasons.
        held_out_: Predictions for ``held_out_rows_`` by models and weights that were fitted on other rows; not kept in
            files.
        held_out_rows_: The rows, all of them or those of some folds.
        held_out_folds_: The fold of each of these rows.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost, including every choice.
        Features are public, so models may use those of all rows, including rows without labels.

    References:
        Wolpert 1992; Breiman 1995 and 1996; van der Laan, Polley and Hubbard 2007, for the combination; see also each
        model.

    Example:
        >>> import pandas as pd
        >>> from labeldp import Curator, Interval
        >>> from labeldp.learning.sklearn import AutoRegressor
        >>> features = pd.DataFrame({"age": [30.0, 70.0] * 500, "city": ["Rome", "Oslo"] * 500})
        >>> release = Curator([20.0, 80.0] * 500, Interval(0.0, 100.0, 1.0)).randomize(epsilon=4.0)
        >>> model = AutoRegressor().fit(features, release)
        >>> model.predict(features[:2]).round(-1).tolist()
        [20.0, 80.0]

    Raises:
        InputError: There are fewer rows or units than folds, released labels do not identify the mean label, or every
            model fails.
        MissingExtraError: pandas is not installed.
    """

    target = NUMBERS

    def predict(self, X: Any) -> Float[np.ndarray, "n"]:  # noqa: N803
        """The estimated mean label of each row, within the declared range."""
        return np.asarray(self._mixed(X))

    def _finish(self, release: Release) -> Any:  # noqa: ARG002 (of classes)
        self.mean_, self.range_ = float(self.mixture_.constant), self.mixture_.ends
        return slice(None)
