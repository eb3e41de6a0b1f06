"""The default classifier: models of several families, combined by the likelihood of released labels."""

from __future__ import annotations

import functools
import math
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._extras import require_extra
from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.features import row_count
from labeldp.learning.losses import require_release, stack_rows
from labeldp.learning.sklearn._boosting import BoostingClassifier
from labeldp.learning.sklearn._calibrated import group_folds
from labeldp.learning.sklearn._cluster_leaves import ClusterLeaves
from labeldp.learning.sklearn._mixture import Mixture, cross_fitted_mixture
from labeldp.learning.sklearn._paths import Held, Path
from labeldp.learning.sklearn._soft_labels import ProbabilityClassifier, check_released_rows
from labeldp.learning.sklearn._softmax import SoftmaxRegression
from labeldp.learning.sklearn._tree import TreeClassifier
from labeldp.release import Release

if TYPE_CHECKING:  # pandas is in another extra than the rest of this package
    import pandas as pd

#: From this many rows on, one fold is held out instead of each in turn.
_MANY_ROWS = 100_000
#: Power of the likelihood by which trees of clusters weigh.
_POWER = 0.25

Progress = Callable[[str, int, int], None]


@documented_in("labeldp.learning.sklearn")
@dataclass(eq=False, repr=False)
class AutoClassifier(ProbabilityClassifier):
    """Classifier that combines models of several families by released labels, at no privacy cost.

    The models are a linear one (``SoftmaxRegression``), boosted trees (``BoostingClassifier``), and class distributions
    of public clusters, of features and in the graph of their neighbours (``TreeClassifier``). Each is fitted through
    the channel on all folds but one and predicts that one; the released labels of these rows decide how much it is
    sharpened and how much it weighs in the mean.

    A model that fails, or does not give finite probabilities, is left out and named in ``left_out_``.

    Args:
        minutes: No further fit is begun after this time, and an unfinished model is left out; None for no limit.
            Without one, the same release and rows give the same classifier.
        folds: Folds; from 100 000 rows on only one of them is held out, if it has as many units as there are folds.
            every_row: True to hold out every fold in turn however many rows there are.

    Attributes:
        classes_: The declared classes.
        members_: The fitted models by name, each a pipeline that begins with an encoder of features.
        weights_: The weight of each model in the mean.
        left_out_: Models that were not used, with reasons.
        held_out_: Probabilities for ``held_out_rows_`` by models and weights that were fitted on other rows, in the
            order of ``classes_``; not kept in files.
        held_out_rows_: The rows, all of them or one fold.
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
        InputError: There are fewer rows or units than folds, or every model fails.
        MissingExtraError: pandas is not installed.
    """

    _: KW_ONLY
    minutes: float | None = None
    folds: int = 5
    every_row: bool = False

    def fit(
        self,
        X: Any,  # noqa: N803 (scikit-learn's name)
        y: Release,
        groups: Any = None,
        *,
        unlabelled: Any = None,
        report: Progress | None = None,
    ) -> Self:
        """Fit all models, and the weights of their mean.

        Args:
            X: Features of n rows: a frame, whose columns of text are categories, an array or a sparse matrix of
                numbers.
            y: A release of n rows.
            groups: The privacy unit of each row, shape (n,), which is then on one side of every fold; by default each
                row is one.
            unlabelled: Features of further rows without labels, in the form of X: clusters are found among these too.
            report: Called with the name of the work, the number of fits done, and the number of all fits.
        """
        require_extra("learn", "pandas")
        release, features = require_release(y), as_frame(X)
        check_released_rows(X, release)
        minutes = math.inf if self.minutes is None else _checks.not_negative(self.minutes, "minutes")
        folds = _checks.whole(self.folds, "folds", 2)
        parts = group_folds(len(release), folds, groups)
        held, folded = np.arange(len(release)), parts
        of_one = None if groups is None else np.asarray(groups)[parts[0][1]]
        enough = of_one is None or len(np.unique(of_one)) >= folds
        if len(release) >= _MANY_ROWS and enough and not self.every_row:
            parts, held = parts[:1], parts[0][1]
            folded = group_folds(len(held), folds, of_one)
        groups_of = np.zeros(len(release), dtype=np.int64)
        for number, (_, fold) in enumerate(folded):
            groups_of[held[fold]] = number
        self.columns_ = None if issparse(features) else kinds_of(features)
        rows = features if unlabelled is None else stack_rows(features, self.frame(unlabelled))
        deadline = time.monotonic() + 60.0 * minutes
        work = _Work(release, rows, parts, groups_of, len(folded), report or (lambda *_: None), deadline)
        codes = self._set_classes(release.space)
        self.members_, self.left_out_, predicted = {}, {}, []
        members = members_of(self.columns_)
        for place, (name, member) in enumerate(members.items()):
            work.tell(place, len(members))
            try:
                self.members_[name], predictions = work.fit(member)
            except Exception as problem:  # noqa: BLE001 (whatever a model raises, others may do)
                self.left_out_[name] = " ".join(str(problem).split())
            else:
                predicted.append(predictions[held])
        work.tell(len(members), len(members))
        if not predicted and work.has_time():
            why = "; ".join(f"{name}: {problem}" for name, problem in self.left_out_.items())
            raise InputError(f"expected features that a model can be fitted on, found none that did ({why})")
        every, labels = np.reshape(predicted, (len(predicted), len(held), release.space.size)), release[held]
        mixture = Mixture.fit(labels, every)
        self.mixture_ = replace(mixture, shares=mixture.shares[codes])
        self.weights_ = dict(zip(self.members_, mixture.weights.tolist(), strict=True))
        self.held_out_ = cross_fitted_mixture(labels, every, folded)[:, codes]
        self.held_out_rows_, self.held_out_folds_ = held, groups_of[held]
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        check_is_fitted(self)
        rows = self.frame(X)
        some = np.zeros((len(self.members_), row_count(rows), len(self.classes_)))
        for place, (name, member) in enumerate(self.members_.items()):
            if self.weights_[name] > 0.0:
                some[place] = member.predict_proba(rows)
        return np.asarray(self.mixture_(some))

    def __getstate__(self) -> dict[str, Any]:
        """The state that files keep: all but the predictions of released rows."""
        return {name: value for name, value in super().__getstate__().items() if not name.startswith("held_out_")}

    def frame(self, features: Any) -> Any:
        """Features in the form that the models take.

        Raises:
            InputError: A column is missing, or is not of the type that it had.
        """
        rows = as_frame(features)
        if issparse(rows) or self.columns_ is None:
            return rows
        if missing := [name for name in self.columns_ if name not in rows.columns]:
            raise InputError(f"expected the columns {', '.join(self.columns_)}, found no {', '.join(missing)}")
        rows = rows[list(self.columns_)]
        if other := [name for name, kind in kinds_of(rows).items() if kind != self.columns_[name]]:
            raise InputError(f"expected the column {other[0]!r} to be a {self.columns_[other[0]]}, found another type")
        return rows


@dataclass(frozen=True)
class Member:
    """A family of models: an encoder of features, which sees no label, and a learner for what it returns.

    Attributes:
        encoder: A transformer that is fitted on all rows.
        kind: Type of the learner.
        learner: Function of the fitted encoder that makes a new learner of released labels.
    """

    encoder: Any
    kind: type
    learner: Callable[[Any], Any]


def members_of(columns: Mapping[str, str] | None) -> dict[str, Member]:
    """The models for columns of some kinds, or for sparse features, by name."""
    from labeldp.learning.features import UnitScaler, scaling_transformer, tree_transformer  # noqa: PLC0415 (pandas)

    if columns is None:
        scaled: Any = MaxAbsScaler()
        coded, categorical = FunctionTransformer(accept_sparse=True), list[int]()
    else:
        scaler = StandardScaler() if "category" in columns.values() else UnitScaler()
        scaled, (coded, categorical) = scaling_transformer(columns, scaler=scaler), tree_transformer(columns)
    return {
        "linear": Member(scaled, SoftmaxRegression, lambda _: SoftmaxRegression()),
        "boosting": Member(coded, BoostingClassifier, lambda _: BoostingClassifier(categorical=categorical)),
        "clusters": Member(
            Pipeline([("scaled", clone(scaled)), ("leaves", ClusterLeaves())]),
            TreeClassifier,
            lambda encoder: TreeClassifier(encoder[-1].trees_, power=_POWER),
        ),
    }


@dataclass(eq=False)
class _Work:
    """The fits of members to the folds of a release, with progress and a deadline.

    Attributes:
        release: Released labels of the first n rows.
        rows: Features of these rows, and of those without labels.
        parts: Rows to fit on and held-out rows of each fold.
        groups: The group of each held-out row: no choice for it depends on the gain of its group.
        count: Number of groups.
        report: Called with the name of the work, the number of fits done, and the number of all fits.
        deadline: Time of the monotonic clock at which no further fit begins.
        done: Number of fits that are done.
        total: Number of all fits.
    """

    release: Release
    rows: Any
    parts: Sequence[tuple[np.ndarray, Int[np.ndarray, "_"]]]
    groups: Int[np.ndarray, "n"]
    count: int
    report: Progress
    deadline: float
    done: int = 0
    total: int = 0

    def tell(self, members: int, all_members: int) -> None:
        """Report that a number of members are done, each with a fit for every fold and one to all rows."""
        fits = len(self.parts) + 1
        self.total, self.done = all_members * fits, members * fits
        self.report("learn", self.done, self.total)

    def has_time(self) -> bool:
        """True before the deadline."""
        return time.monotonic() <= self.deadline

    def fit(self, member: Member) -> tuple[Pipeline, Float[np.ndarray, "n k"]]:
        """A member fitted on all rows, and predictions of held-out rows by copies fitted on the others.

        The setting of a copy is the best one for held-out rows of the other groups, that of the member itself for all.

        Raises:
            InputError: There is no time left, or probabilities are not finite.
        """
        count, space = len(self.release), self.release.space
        self._begin()
        encoder = clone(member.encoder)
        encoded = encoder.fit_transform(self.rows)[:count]
        paths = list[Path]()
        for fit, held in self.parts:
            self._begin()
            rows = Held(encoded[held], self.release[held], self.groups[held], self.count)
            paths.append(member.learner(encoder).path(encoded[fit], self.release[fit], rows))
            self.done += 1
        self._begin()
        gains = functools.reduce(operator.add, [path.gains for path in paths])
        settings = [gains.best(without=group) for group in range(self.count)]
        predicted = np.zeros((count, space.size))
        for path, (_, held) in zip(paths, self.parts, strict=True):
            groups = self.groups[held]
            for setting in {settings[group] for group in groups}:
                chosen = np.isin(groups, np.flatnonzero(np.equal(settings, setting)))
                predicted[held[chosen]] = path.predict(setting)[chosen]
        if not np.isfinite(predicted).all():
            raise InputError("it gave probabilities that are not finite")
        fitted = member.learner(encoder).fit_setting(gains.best(), encoded, self.release)
        return Pipeline([("columns", encoder), ("model", fitted)]), predicted

    def _begin(self) -> None:
        """Report where the work is, and refuse to go on after the deadline."""
        self.report("learn", self.done, self.total)
        if not self.has_time():
            raise InputError("there was no time left (minutes)")


def as_frame(features: Any) -> Any:
    """Features as a frame of numbers and objects, or as compressed sparse rows.

    Columns of text and of categories become objects, with None for missing values; all others numbers, with NaN.

    Raises:
        InputError: They are not a table.
    """
    import pandas as pd  # noqa: PLC0415 (an extra)

    if issparse(features):
        return features.tocsr()
    found = features.to_pandas() if hasattr(features, "to_pandas") else features
    if not isinstance(found, pd.DataFrame):
        array = np.asarray(found)
        if array.ndim != 2:
            raise InputError(f"expected features in rows and columns, found an array of {array.ndim} dimensions")
        found = pd.DataFrame(array, columns=[str(place) for place in range(array.shape[1])])
    return pd.DataFrame({str(name): _column(found.iloc[:, place]) for place, name in enumerate(found.columns)})


def _column(values: pd.Series) -> np.ndarray:
    """The values of a column: numbers, or objects with None for missing values."""
    import pandas.api.types as kinds  # noqa: PLC0415 (an extra)

    if kinds.is_datetime64_any_dtype(values) or kinds.is_timedelta64_dtype(values):
        return np.asarray(values.astype("int64").where(values.notna()).to_numpy(np.float64, na_value=np.nan))
    if kinds.is_numeric_dtype(values):
        return np.asarray(values.to_numpy(np.float64, na_value=np.nan))
    texts = values.astype(object)
    return np.asarray(texts.where(values.notna(), None).map(lambda each: each if each is None else str(each)), object)


def kinds_of(frame: pd.DataFrame) -> dict[str, str]:
    """The kind of each column: ``"number"`` or ``"category"``."""
    from pandas.api.types import is_numeric_dtype  # noqa: PLC0415 (an extra)

    return {str(name): "number" if is_numeric_dtype(frame[name]) else "category" for name in frame.columns}
