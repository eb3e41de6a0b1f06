"""Choice by released labels: folds of privacy units, learners under each of their settings, and gains of held-out rows.

Whatever is chosen, a setting, a weight or a constant, is chosen on released labels of units that it was not fitted on.
That is post-processing of a release, and costs nothing.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import operator
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold
from sklearn.pipeline import Pipeline

from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.features import take_rows
from labeldp.learning.metrics import ROWS, Units
from labeldp.release import Release

#: Names of the constants: what is predicted where released labels do not show that features help.
SHARES, MEAN = "class shares", "the mean label"
#: Why a constant was chosen.
NO_HELP = "as held-out released labels do not show that features help"

#: Number of rows from which one held-out fold is precise enough, so that cross-validation is not worth its time.
_ENOUGH_ROWS = 20_000
#: Below this many rows settings are chosen by fits that saw neither fold of a pair.
_FEW_ROWS = 1_000
#: Rows to look at at a time, and relative difference of predictions, where a model may predict the same for all.
_BLOCK, _DIFFERENCE = 1 << 12, 1e-6

#: Function of the name of the work, the number of fits done, and the number of all fits.
Progress = Callable[[str, int, int], None]
#: Rows to fit on, and held-out rows, of each fold.
Parts = Sequence[tuple[np.ndarray, np.ndarray]]


def folds_of(units: Units, count: int) -> Parts:
    """Rows to fit on and held-out rows of each fold, with each unit on one side. Labels play no part.

    Raises:
        InputError: There are fewer units than folds.
    """
    if units.count < count:
        raise InputError(
            f"expected at least {count} units, one for each fold, found {units.count} in {units.rows} rows"
        )
    if units.numbers is None:
        return list(KFold(count, shuffle=True, random_state=0).split(np.zeros(units.rows)))
    return list(GroupKFold(count, shuffle=True, random_state=0).split(units.numbers, groups=units.numbers))


def in_folds(units: Units, count: int) -> Parts:
    """All folds of few rows and one of many; fewer folds of fewer units, and none of a single one."""
    count = min(count, units.count)
    parts = folds_of(units, count) if count > 1 else []
    return parts if units.rows < _ENOUGH_ROWS else parts[:1]


def some_rows(units: Units, most: int, seed: Sequence[int]) -> Int[np.ndarray, "m"]:
    """Numbers of at most so many rows, in whole units, by public chance: without a look at labels."""
    groups = np.arange(units.rows) if units.numbers is None else units.numbers
    sizes = np.bincount(groups)
    order = np.random.default_rng(seed).permutation(len(sizes))
    taken = np.zeros(len(sizes), dtype=np.bool_)
    taken[order[np.cumsum(sizes[order]) <= most]] = True
    return np.flatnonzero(taken[groups])


def numbers_of(parts: Parts, rows: int) -> Int[np.ndarray, "n"]:
    """The number of the fold in which each row is held out."""
    numbers = np.zeros(rows, dtype=np.int64)
    for number, (_, held) in enumerate(parts):
        numbers[held] = number
    return numbers


def predict_others(
    parts: Parts, rows: int, predict: Callable[[np.ndarray, np.ndarray], Float[np.ndarray, "m ..."]]
) -> Float[np.ndarray, "n ..."]:
    """Predictions of held-out rows by what was fitted to others, for rows in folds.

    Args:
        parts: Rows to fit on and held-out rows of each fold.
        rows: Number of rows.
        predict: Function of the rows to fit on and the held-out rows that predicts these.
    """
    predicted: Any = None
    for fit, held in parts:
        found = predict(fit, held)
        predicted = np.empty((rows, *found.shape[1:])) if predicted is None else predicted
        predicted[held] = found
    return np.asarray(predicted)


@dataclass(frozen=True, eq=False)
class Held:
    """Held-out rows that judge a learner.

    Attributes:
        features: Their features, m rows.
        release: Their released labels.
        groups: The group of each row. Rows of one group may be left out of a choice together.
        count: Number of groups, of which some may have no row here.
        units: The privacy units of the rows, each in one group.
        weights: The weight of each row.
    """

    features: Any
    release: Release
    groups: Int[np.ndarray, "m"]
    count: int
    units: Units
    weights: Float[np.ndarray, "m"] | float = 1.0

    @classmethod
    def of(
        cls, features: Any, release: Release, units: Units, held: Int[np.ndarray, "m"], sample_weight: Any = None
    ) -> Held:
        """Some rows in one group, which say as much as the weights of all rows tell."""
        weights = 1.0 if sample_weight is None else sample_weight[held]
        groups = np.zeros(len(held), np.int64)
        return cls(take_rows(features, held), release[held], groups, 1, units.take(held), weights)

    @property
    def unit_groups(self) -> Int[np.ndarray, "u"]:
        """The group of each unit."""
        return self.groups if self.units.numbers is None else self.groups[self.units.firsts]

    def sums(self, gains: Float[np.ndarray, "m"]) -> Float[np.ndarray, "g"]:
        """Sums of the gains of rows over their groups."""
        return np.bincount(self.groups, self.weights * gains, minlength=self.count)


@dataclass(frozen=True, eq=False)
class Gains:
    """Gains of held-out rows under each setting of a learner, summed in groups of rows.

    Attributes:
        units: Number of units of each group, shape (g,).
        sums: Their gains under each of s settings; minus infinity under a setting that was given up.
        squares: Their squared differences to the gains under the usual setting; None where none is usual.
        usual: The setting that stays unless another one is clearly better; None to take the best.
        constant: The setting that predicts the constant, which replaces one that has no larger gain, but for members of
            a combination, which shrinks by itself; None for none such.
    """

    units: Float[np.ndarray, "g"]
    sums: Float[np.ndarray, "s g"]
    squares: Float[np.ndarray, "s g"] | None = None
    usual: int | None = None
    constant: int | None = None

    @classmethod
    def of(
        cls, gains: Float[np.ndarray, "s m"], held: Held, usual: int | None = None, constant: int | None = None
    ) -> Gains:
        """The gains of held-out rows under each setting, in their groups."""
        squares, found = None, cls.of_sums(np.stack([held.sums(each) for each in gains]), held)
        if usual is not None:
            over = held.units.totals((held.weights * (gains - gains[usual])).T).T
            squares = np.stack([np.bincount(held.unit_groups, each**2, minlength=held.count) for each in over])
        return replace(found, squares=squares, usual=usual, constant=constant)

    @classmethod
    def of_sums(cls, sums: Float[np.ndarray, "s g"], held: Held) -> Gains:
        """Gains that were summed in groups under each setting, of which the best is taken."""
        return cls(np.bincount(held.unit_groups, minlength=held.count).astype(np.float64), sums)

    def __add__(self, other: Gains) -> Gains:
        """The gains of both, of the same settings and groups."""
        squares = None if self.squares is None or other.squares is None else self.squares + other.squares
        return replace(self, units=self.units + other.units, sums=self.sums + other.sums, squares=squares)

    def best(self, without: int | None = None, *, combined: bool = False) -> int:
        """The setting with the largest gain, if it is clearly better than the usual one.

        With few effective rows the best of many noisy means is often a bad choice. So the usual setting stays unless
        the gain over it exceeds its standard error. To ask for a clearly larger gain than that of the constant costs
        more where features help than it saves where they do not.

        Args:
            without: A group whose rows play no part; None if all do.
            combined: True to take no constant, as a combination shrinks by itself.
        """
        groups = np.arange(len(self.units)) != (-1 if without is None else without)
        units, sums = self.units[groups].sum(), self.sums[:, groups].sum(axis=1)
        if combined and self.constant is not None:
            sums[self.constant] = -np.inf
        chosen = int(np.argmax(sums))
        if self.usual is not None and self.squares is not None and chosen != self.usual:
            over, square = sums[chosen] - sums[self.usual], self.squares[chosen, groups].sum()
            chosen = chosen if _exceeds(over, square, units) else self.usual
        if self.constant is None or sums[chosen] > sums[self.constant]:
            return chosen
        return self.constant


def all_gains(gains: Iterable[Gains]) -> Gains:
    """The gains of all held-out rows."""
    return functools.reduce(operator.add, gains)


def _exceeds(over: float, square: float, units: float, errors: float = 1.0) -> bool:
    """True if a sum over units, with a sum of squares, is above zero by more than so many of its standard errors."""
    return over > 0.0 and over**2 > errors**2 * (square - over**2 / units)


def is_clearly_better(
    gains: Float[np.ndarray, "n"], others: Float[np.ndarray, "n"], units: Units, errors: float = 1.0
) -> bool:
    """True if the gain of rows exceeds that of another model on them by more than so many standard errors."""
    totals = units.totals(gains - others)
    return _exceeds(float(totals.sum()), float((totals**2).sum()), units.count, errors)


def clearly_best(gains: Float[np.ndarray, "m n"], units: Units, errors: float = 1.0) -> int:
    """The model with the largest gain, if it exceeds that of the first by so many standard errors; else the first."""
    best = int(np.argmax(gains.sum(axis=1)))
    return best if is_clearly_better(gains[best], gains[0], units, errors) else 0


@dataclass(frozen=True, eq=False)
class Path:
    """A learner that was fitted to some rows under each of its settings, and judged on others.

    Attributes:
        gains: Gains of the held-out rows under each setting.
        predict: Function of a setting: probabilities of the held-out rows, shape (m, k), in declared order; or numbers,
            shape (m,).
    """

    gains: Gains
    predict: Callable[[int], Float[np.ndarray, "m ..."]]


class OneSetting(ABC):
    """A learner of released labels, by default with one setting: it has nothing to choose, and nothing to say of it.

    Its ``fit`` takes ``groups``, the privacy unit of each row, and scikit-learn passes these on where metadata is
    routed.
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}

    @abstractmethod
    def _predict_held(self, held: Held) -> Float[np.ndarray, "m ..."]:
        """Predictions of held-out rows, in declared order."""

    def path(self, X: Any, y: Release, held: Held, groups: Any = ROWS, **of_rows: Any) -> Path:  # noqa: N803
        """Fits to some rows under each setting that the learner chooses among, judged on other rows.

        Further arguments have a value for each row, such as ``sample_weight``.
        """
        predicted = fit_in_units(self, X, y, groups, **of_rows)._predict_held(held)
        return Path(Gains.of(np.zeros((1, len(held.groups))), held), lambda _: predicted)

    def fit_setting(self, setting: int, X: Any, y: Release, groups: Any = ROWS, **of_rows: Any) -> Self:  # noqa: ARG002, N803
        """Fit under one of the settings of a path."""
        return cast("Self", fit_in_units(self, X, y, groups, **of_rows))

    def setting(self) -> str:
        """The choice on released labels, in words; empty if there was none."""
        return ""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Learners among which released labels of held-out rows choose.

    Attributes:
        named: The learners by what they are, in words.
        judge: Function of released labels of rows and predictions for them that gives the gains of these.
    """

    named: Mapping[str, Any]
    judge: Callable[[Release, Any], Float[np.ndarray, "m"]]

    def path(self, X: Any, y: Release, held: Held, groups: Any = ROWS, **of_rows: Any) -> Path:  # noqa: N803
        """Each learner, fitted to some rows and judged on others."""
        found = [fit_in_units(clone(each), X, y, groups, **of_rows)._predict_held(held) for each in self.named.values()]
        gains = np.stack([self.judge(held.release, each) for each in found])
        return Path(Gains.of(gains, held), lambda setting: found[setting])

    def fit_setting(self, setting: int, X: Any, y: Release, groups: Any = ROWS, **of_rows: Any) -> Any:  # noqa: N803
        """The chosen learner, fitted."""
        return fit_in_units(clone(list(self.named.values())[setting]), X, y, groups, **of_rows)


def best_setting(
    learner: Any, features: Any, release: Release, units: Units, folds: int, **of_rows: np.ndarray
) -> int | None:
    """The setting under which fits to the other folds make released labels of held-out units likeliest.

    It is None where there is a single unit, which nothing can judge. Further arguments have a value for each row.
    """
    paths = [
        learner.path(
            take_rows(features, fit),
            release[fit],
            Held.of(features, release, units, held, of_rows.get("sample_weight")),
            **{name: values[fit] for name, values in of_rows.items()},
        )
        for fit, held in in_folds(units, folds)
    ]
    return all_gains(path.gains for path in paths).best() if paths else None


def fit_in_units(learner: Any, features: Any, labels: Any, units: Any, **more: Any) -> Any:
    """A learner, or a pipeline that ends in one, fitted with the privacy unit of each row, if it takes that."""
    name, last = learner.steps[-1] if isinstance(learner, Pipeline) else ("", learner)
    prefix, groups = f"{name}__" if name else "", as_groups(units)
    more = {f"{prefix}{keyword}": value for keyword, value in more.items()}
    if isinstance(last, OneSetting) or (not isinstance(groups, str) and _takes_groups(last)):
        more[f"{prefix}groups"] = groups
    return learner.fit(features, labels, **more)


def as_groups(units: Any) -> Any:
    """Units in a form that ``fit`` takes."""
    if isinstance(units, Units):
        return ROWS if units.numbers is None else units.numbers
    return units


def _takes_groups(learner: Any) -> bool:
    return "groups" in inspect.signature(learner.fit).parameters


@dataclass(frozen=True)
class Member:
    """A family of models: an encoder of features, which sees no label, and a learner for what it returns.

    Attributes:
        encoder: A transformer that is fitted on all rows.
        kind: Type of the learner.
        learner: Function of the fitted encoder that makes a new learner of released labels.
        posterior: True if predictions are means given the released labels, which need no further shrinkage.
        most: Effective rows beyond which it says nothing that others do not.
    """

    encoder: Any
    kind: type
    learner: Callable[[Any], Any]
    posterior: bool = False
    most: float = math.inf


@dataclass(frozen=True, eq=False)
class Fitted:
    """A member that was fitted on all rows.

    Attributes:
        model: A pipeline that begins with the encoder.
        held_out: Predictions of h held-out rows by copies that were fitted on others.
        varies: False if it predicts the same for every row.
        setting: The setting of its path that was chosen.
        posterior: True if predictions are means given the released labels, which need no further shrinkage.
    """

    model: Pipeline
    held_out: Float[np.ndarray, "h ..."]
    varies: bool
    setting: int = 0
    posterior: bool = False


@dataclass(eq=False)
class Work:
    """The fits of members to the folds of a release, with progress and a deadline.

    Attributes:
        release: Released labels of the first n rows.
        rows: Features of these rows, and of those without labels.
        parts: Rows to fit on and held-out rows of each fold.
        units: The privacy units of the first n rows.
        groups: The group of each held-out row: no choice for it depends on the gain of its group.
        count: Number of groups.
        report: Called with the name of the work, the number of fits done, and the number of all fits.
        minutes: Time after which no further fit begins.
        of_rows: Further arguments of fits with a value for each row, such as ``sample_weight``.
        combined: True if members are combined, so that none of them need be the constant.
        done: Number of fits that are done.
        total: Number of all fits.
    """

    release: Release
    rows: Any
    parts: Parts
    units: Units
    groups: Int[np.ndarray, "n"]
    count: int
    report: Progress
    minutes: float = math.inf
    of_rows: Mapping[str, np.ndarray] = field(default_factory=dict)
    combined: bool = False
    done: int = 0
    total: int = 0

    def __post_init__(self) -> None:
        self._deadline = time.monotonic() + 60.0 * self.minutes

    def tell(self, members: int, all_members: int) -> None:
        """Report that a number of members are done, each with a fit for every fold and one to all rows."""
        fits = len(self.parts) + 1
        self.total, self.done = all_members * fits, members * fits
        self.report("learn", self.done, self.total)

    def has_time(self) -> bool:
        """True before the deadline."""
        return time.monotonic() <= self._deadline

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
            paths.append(self._path(member.learner(encoder), encoded, fit, held))
            self.done += 1
        self._begin()
        gains = all_gains(path.gains for path in paths)
        predicted = self._predicted(paths, self._settings(member, encoder, encoded, gains))
        if not np.isfinite(predicted).all():
            raise InputError("it gave predictions that are not finite")
        best = gains.best(combined=self.combined)
        fitted = member.learner(encoder).fit_setting(best, encoded, self.release, as_groups(self.units), **self.of_rows)
        pipeline = Pipeline([("columns", encoder), ("model", fitted)])
        return Fitted(pipeline, predicted[rows], varies(fitted, encoded), best, member.posterior)

    def _settings(self, member: Member, encoder: Any, encoded: Any, gains: Gains) -> list[int]:
        """The setting for each group, chosen by others.

        Fits that other groups judge saw the rows of the group, so their choice knows it a little. Of few rows that is
        visible, and each pair of folds has fits of its own that saw neither.
        """
        if len(self.release) >= _FEW_ROWS or len(self.parts) < self.count or len(gains.sums) == 1:
            return [gains.best(group, combined=self.combined) for group in range(self.count)]
        judged: list[list[Gains]] = [[] for _ in range(self.count)]
        for (one, (fit, held)), (other, (fits, others)) in itertools.combinations(enumerate(self.parts), 2):
            self._begin()
            rest, both = np.intersect1d(fit, fits), np.concatenate([held, others])
            found = self._path(member.learner(encoder), encoded, rest, both).gains
            judged[one].append(found)
            judged[other].append(found)
        return [all_gains(each).best(group, combined=self.combined) for group, each in enumerate(judged)]

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

    def _path(self, learner: Any, rows: Any, fit: Int[np.ndarray, "m"], held: Int[np.ndarray, "h"]) -> Path:
        """A learner under each of its settings, fitted to some encoded rows and judged on others."""
        judges = Held.of(rows, self.release, self.units, held, self.of_rows.get("sample_weight"))
        judges = replace(judges, groups=self.groups[held], count=self.count)
        with warnings.catch_warnings():  # the fit on all rows warns again
            warnings.simplefilter("ignore")
            more = {name: values[fit] for name, values in self.of_rows.items()}
            groups = as_groups(self.units.take(fit))
            found = learner.path(take_rows(rows, fit), self.release[fit], judges, groups, **more)
        return cast("Path", found)

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
