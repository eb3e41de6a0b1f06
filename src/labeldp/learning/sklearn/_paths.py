"""Learners under each of their settings, judged on rows that they were not fitted on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
        predict: Function of a setting: probabilities of the held-out rows, shape (m, k), in declared order.
    """

    gains: Gains
    predict: Callable[[int], Float[np.ndarray, "m k"]]
