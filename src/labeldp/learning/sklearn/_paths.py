"""Learners under each of their settings, judged on rows that they were not fitted on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np

from labeldp._shapes import Float, Int
from labeldp.learning.losses import Gains
from labeldp.release import Release


@dataclass(frozen=True, eq=False)
class Held:
    """Held-out rows that judge a learner.

    Attributes:
        features: Their features, m rows.
        release: Their released labels.
        groups: The group of each row. Rows of one group may be left out of a choice together.
        count: Number of groups, of which some may have no row here.
    """

    features: Any
    release: Release
    groups: Int[np.ndarray, "m"]
    count: int


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
    """A learner of released labels with one setting: it has nothing to choose."""

    @abstractmethod
    def _predict_held(self, held: Held) -> Float[np.ndarray, "m ..."]:
        """Predictions of held-out rows, in declared order."""

    def path(self, X: Any, y: Release, held: Held) -> Path:  # noqa: N803 (scikit-learn's name)
        """Fits to some rows under each setting that the learner chooses among, judged on other rows."""
        fitted: Any = self
        predicted = fitted.fit(X, y)._predict_held(held)
        return Path(Gains.of(np.zeros((1, len(held.groups))), held.groups, held.count), lambda _: predicted)

    def fit_setting(self, setting: int, X: Any, y: Release) -> Self:  # noqa: ARG002, N803
        """Fit under one of the settings of a path."""
        fitted: Any = self
        return cast("Self", fitted.fit(X, y))
