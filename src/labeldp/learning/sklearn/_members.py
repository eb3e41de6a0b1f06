"""Models of several families on one table, each fitted to the folds of a release: what default learners combine."""

from __future__ import annotations

import functools
import itertools
import math
import operator
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._extras import require_extra
from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.features import row_count
from labeldp.learning.losses import Gains, stack_rows
from labeldp.learning.sklearn._calibrated import group_folds
from labeldp.learning.sklearn._cluster_leaves import ClusterLeaves
from labeldp.learning.sklearn._paths import Held, Path
from labeldp.learning.sklearn._soft_labels import check_released_rows
from labeldp.release import Release

if TYPE_CHECKING:  # pandas is in another extra than the rest of this package
    import pandas as pd

#: From this many rows on, one fold is held out instead of each in turn.
_MANY_ROWS = 100_000

#: Below this many rows settings are chosen by fits that saw neither fold of a pair.
_FEW_ROWS = 1_000

#: Rows to look at at a time, and relative difference of predictions, where a model may predict the same for all.
_BLOCK, _DIFFERENCE = 1 << 12, 1e-6

#: Power of the likelihood by which trees of clusters weigh.
POWER = 0.25

Progress = Callable[[str, int, int], None]
Parts = Sequence[tuple[np.ndarray, Int[np.ndarray, "_"]]]


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


@dataclass(frozen=True)
class Encoders:
    """Encoders of features for members.

    Attributes:
        scaled: Standardised numbers, and categories one-hot.
        coded: Numbers as they are, and codes of categories.
        categorical: Columns of these codes.
        leaves: Leaves of trees of clusters of scaled features.
    """

    scaled: Any
    coded: Any
    categorical: Sequence[int]
    leaves: Pipeline


def encoders_of(columns: Mapping[str, str] | None) -> Encoders:
    """The encoders of columns of some kinds, or of sparse features."""
    from labeldp.learning.features import UnitScaler, scaling_transformer, tree_transformer  # noqa: PLC0415 (pandas)

    if columns is None:
        scaled: Any = MaxAbsScaler()
        coded, categorical = FunctionTransformer(accept_sparse=True), list[int]()
    else:
        scaler = StandardScaler() if "category" in columns.values() else UnitScaler()
        scaled, (coded, categorical) = scaling_transformer(columns, scaler=scaler), tree_transformer(columns)
    leaves = Pipeline([("scaled", clone(scaled)), ("leaves", ClusterLeaves())])
    return Encoders(scaled, coded, categorical, leaves)


@dataclass(eq=False, repr=False)
class MemberFits(ABC):
    """Base of learners that combine models of several families: their fits to folds, and the form of features.

    Attributes:
        members_: The fitted models by name.
        left_out_: Models that were not used, with reasons.
        held_out_rows_: Rows whose predictions by models of other rows decide: all of them or one fold.
        held_out_folds_: The fold of each of these rows.
    """

    _: KW_ONLY
    minutes: float | None = None
    folds: int = 5
    every_row: bool = False

    @abstractmethod
    def _family(self, columns: Mapping[str, str] | None) -> Mapping[str, Member]:
        """The models for columns of some kinds, or for sparse features, by name."""

    def _fit_members(
        self, features: Any, release: Release, groups: Any, unlabelled: Any, report: Progress | None
    ) -> tuple[list[Fitted], Parts]:
        """Fit all members, and predict held-out rows by copies that were fitted on others.

        Returns:
            The members, and folds of the held-out rows: places among them to fit the combination on, and places that
            are held out from it.
        """
        require_extra("learn", "pandas")
        rows = as_frame(features)
        check_released_rows(features, release)
        minutes = math.inf if self.minutes is None else _checks.not_negative(self.minutes, "minutes")
        parts, held, folded = self._parts(len(release), groups)
        self.columns_ = None if issparse(rows) else kinds_of(rows)
        rows = rows if unlabelled is None else stack_rows(rows, self.frame(unlabelled))
        told, deadline = report or (lambda *_: None), time.monotonic() + 60.0 * minutes
        groups_of = np.zeros(len(release), dtype=np.int64)
        for number, (_, fold) in enumerate(folded):
            groups_of[held[fold]] = number
        work = Work(release, rows, parts, groups_of, len(folded), told, deadline)
        found, self.left_out_ = dict[str, Fitted](), {}
        members = self._family(self.columns_)
        for place, (name, member) in enumerate(members.items()):
            work.tell(place, len(members))
            try:
                found[name] = work.fit(member, held)
            except Exception as problem:  # noqa: BLE001 (whatever a model raises, others may do)
                self.left_out_[name] = " ".join(str(problem).split())
        work.tell(len(members), len(members))
        if not found and work.has_time():
            why = "; ".join(f"{name}: {problem}" for name, problem in self.left_out_.items())
            raise InputError(f"expected features that a model can be fitted on, found none that did ({why})")
        self.members_ = {name: each.model for name, each in found.items()}
        self.held_out_rows_, self.held_out_folds_ = held, groups_of[held]
        return list(found.values()), folded

    def _parts(self, rows: int, groups: Any) -> tuple[Parts, Int[np.ndarray, "h"], Parts]:
        """Folds of the rows, the rows that are held out from members, and folds of these rows."""
        folds = _checks.whole(self.folds, "folds", 2)
        parts = group_folds(rows, folds, groups)
        of_one = None if groups is None else np.asarray(groups)[parts[0][1]]
        enough = of_one is None or len(np.unique(of_one)) >= folds
        if rows >= _MANY_ROWS and enough and not self.every_row:
            held = parts[0][1]
            return parts[:1], held, group_folds(len(held), folds, of_one)
        return parts, np.arange(rows), parts

    def __getstate__(self) -> dict[str, Any]:
        """The state that files keep: all but the predictions of released rows."""
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if not name.startswith("held_out_")}

    def _mixed(self: Any, features: Any, how: Literal["predict", "predict_proba"]) -> Any:
        """The mixture of the predictions of all models that have a weight."""
        check_is_fitted(self)
        rows = self.frame(features)
        columns = (len(self.classes_),) if how == "predict_proba" else ()
        some = np.zeros((len(self.members_), row_count(rows), *columns))
        for place, (name, member) in enumerate(self.members_.items()):
            if self.weights_[name] > 0.0:
                some[place] = getattr(member, how)(rows)
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
        if other := [name for name, kind in kinds_of(rows).items() if kind != self.columns_[name]]:
            raise InputError(f"expected the column {other[0]!r} to be a {self.columns_[other[0]]}, found another type")
        return rows


@dataclass(frozen=True, eq=False)
class Fitted:
    """A member that was fitted on all rows.

    Attributes:
        model: A pipeline that begins with the encoder.
        held_out: Predictions of h held-out rows by copies that were fitted on others.
        varies: False if it predicts the same for every row.
    """

    model: Pipeline
    held_out: Float[np.ndarray, "h ..."]
    varies: bool


@dataclass(eq=False)
class Work:
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
    parts: Parts
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

    def fit(self, member: Member, rows: Int[np.ndarray, "h"]) -> Fitted:
        """A member fitted on all rows, and predictions of held-out ones by copies fitted on the others.

        The setting of a copy is the best one for held-out rows of the other groups, that of the member itself for all.

        Raises:
            InputError: There is no time left, or predictions are not finite.
        """
        self._begin()
        encoder = clone(member.encoder)
        encoded = encoder.fit_transform(self.rows)[: len(self.release)]
        paths = list[Path]()
        for fit, held in self.parts:
            self._begin()
            judges = Held(encoded[held], self.release[held], self.groups[held], self.count)
            paths.append(member.learner(encoder).path(encoded[fit], self.release[fit], judges))
            self.done += 1
        self._begin()
        gains = _sum([path.gains for path in paths])
        predicted = self._predicted(paths, self._settings(member, encoder, encoded, gains))
        if not np.isfinite(predicted).all():
            raise InputError("it gave predictions that are not finite")
        fitted = member.learner(encoder).fit_setting(gains.best(), encoded, self.release)
        return Fitted(Pipeline([("columns", encoder), ("model", fitted)]), predicted[rows], varies(fitted, encoded))

    def _settings(self, member: Member, encoder: Any, encoded: Any, gains: Gains) -> list[int]:
        """The setting for each group, chosen by others.

        Fits that other groups judge saw the rows of the group, so their choice knows it a little. Of few rows that is
        visible, and each pair of folds has fits of its own that saw neither.
        """
        if len(self.release) >= _FEW_ROWS or len(self.parts) < self.count or len(gains.sums) == 1:
            return [gains.best(without=group) for group in range(self.count)]
        judged: list[list[Gains]] = [[] for _ in range(self.count)]
        for (one, (fit, held)), (other, (fits, others)) in itertools.combinations(enumerate(self.parts), 2):
            self._begin()
            rest, both = np.intersect1d(fit, fits), np.concatenate([held, others])
            rows = Held(encoded[both], self.release[both], self.groups[both], self.count)
            found = member.learner(encoder).path(encoded[rest], self.release[rest], rows).gains
            judged[one].append(found)
            judged[other].append(found)
        return [_sum(each).best(without=group) for group, each in enumerate(judged)]

    def _predicted(self, paths: Sequence[Path], settings: Sequence[int]) -> Float[np.ndarray, "n ..."]:
        """Predictions of held-out rows under the setting of their group, and zeros for others."""
        predicted: Any = None
        for path, (_, held) in zip(paths, self.parts, strict=True):
            own = np.asarray(settings)[self.groups[held]]
            for setting in np.unique(own):
                found = path.predict(int(setting))
                predicted = np.zeros((len(self.release), *found.shape[1:])) if predicted is None else predicted
                predicted[held[own == setting]] = found[own == setting]
        return np.asarray(predicted)

    def _begin(self) -> None:
        """Report where the work is, and refuse to go on after the deadline."""
        self.report("learn", self.done, self.total)
        if not self.has_time():
            raise InputError("there was no time left (minutes)")


def varies(model: Any, rows: Any) -> bool:
    """False if a fitted model predicts the same for all encoded rows."""
    predict = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    first = predict(rows[:1])
    blocks = (predict(rows[start : start + _BLOCK]) for start in range(0, rows.shape[0], _BLOCK))
    return not all(np.allclose(found, first, rtol=_DIFFERENCE, atol=0.0) for found in blocks)


def _sum(gains: Sequence[Gains]) -> Gains:
    return functools.reduce(operator.add, gains)


def as_frame(features: Any) -> Any:
    """Features as a frame of numbers and objects, or as compressed sparse rows.

    Columns of text and of categories become objects, with None for missing values; all others numbers, with NaN.

    Raises:
        InputError: They are not a table, or have no columns.
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
    if not found.shape[1]:
        raise InputError("expected features of at least one column, found none")
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
