"""Learners under each of their settings, judged on rows that they were not fitted on."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from labeldp._shapes import Float
from labeldp.learning.choice._gains import Gains, Held, chosen
from labeldp.learning.features import take_rows
from labeldp.learning.metrics import ROWS, Units
from labeldp.release import Release

#: Names of the constants: what is predicted where released labels do not show that features help.
SHARES, MEAN = "class shares", "the mean label"
#: Why a constant was chosen.
NO_HELP = "as held-out released labels do not show that features help"


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

    def judged(fit: np.ndarray, held: np.ndarray) -> Gains:
        judges = Held.of(features, release, units, held, of_rows.get("sample_weight"))
        own = {name: values[fit] for name, values in of_rows.items()}
        return cast("Path", learner.path(take_rows(features, fit), release[fit], judges, **own)).gains

    return chosen(units, folds, judged)


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
