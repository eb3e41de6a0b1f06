"""The fits of members to the folds of a release, with progress and a deadline."""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from labeldp._progress import Progress
from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.choice._gains import Gains, Held, Parts, Path, all_gains, as_groups
from labeldp.learning.features import take_rows
from labeldp.learning.metrics import Units
from labeldp.release import Release

#: Below this many rows settings are chosen by fits that saw neither fold of a pair.
_FEW_ROWS = 1_000
#: Rows to look at at a time, and relative difference of predictions, where a model may predict the same for all.
_BLOCK, _DIFFERENCE = 1 << 12, 1e-6


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
        self._last: tuple[Any, Any, Any] = None, None, None

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
        """
        self._begin()
        encoder, encoded = self._encoded(member)
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

    def _encoded(self, member: Member) -> tuple[Any, Any]:
        """The encoder of a member fitted to all rows, and what it makes of those with labels; the last is kept."""
        if self._last[0] is not member.encoder:
            fitted = clone(member.encoder)
            self._last = member.encoder, fitted, fitted.fit_transform(self.rows)[: len(self.release)]
        return self._last[1:]

    def _settings(self, member: Member, encoder: Any, encoded: Any, gains: Gains) -> list[int]:
        """The setting for each group, chosen by others.

        Fits that other groups judge saw the rows of the group, so their choice knows it a little. Of few rows that is
        visible, and each pair of folds has fits of its own that saw neither.
        """
        if len(self.release) >= _FEW_ROWS or len(self.parts) < max(self.count, 3) or len(gains.sums) == 1:
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


@dataclass(frozen=True, eq=False)
class Elsewhere:
    """Models that were fitted to more rows than a combination is, by the same folds of units.

    Attributes:
        folds: The fold of each row of the combination.
        models: Function of a fold that returns models by name, which were fitted to all rows but those of the fold; of
            None those that were fitted to all rows.
    """

    folds: Int[np.ndarray, "n"]
    models: Callable[[int | None], Mapping[str, Any]]

    def parts(self, count: int) -> Parts:
        """Rows to fit on and held-out rows of each fold."""
        return [(np.flatnonzero(self.folds != fold), np.flatnonzero(self.folds == fold)) for fold in range(count)]

    def fitted(
        self, release: Release, rows: Any, units: Units, parts: Parts, held: Int[np.ndarray, "h"]
    ) -> dict[str, Fitted]:
        """The models of all rows, with predictions of held-out rows by those of other folds."""
        predicted, encoded = dict[str, np.ndarray](), dict[str, Any]()
        for _, some in parts:
            labels, own, features = release[some], units.take(some), take_rows(rows, some)
            for name, model in self.models(int(self.folds[some[0]])).items():
                encoded[name] = model[:-1].transform(features)
                found = model[-1]._predict_held(Held.of(encoded[name], labels, own, np.arange(len(some))))
                predicted.setdefault(name, np.zeros((len(release), *found.shape[1:])))[some] = found
        return {
            name: Fitted(model, predicted[name][held], varies(model[-1], encoded[name]))
            for name, model in self.models(None).items()
        }
