"""The statistics that learners read from answers, with the size of their noise: few forms for many queries."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from labeldp._shapes import Float, Int


class Reading(ABC):
    """A statistic that learners read from an answer.

    Attributes:
        noun: The name of the form, for messages.
    """

    noun: ClassVar[str]


@dataclass(frozen=True, eq=False)
class Counts(Reading):
    """Noisy counts of each class in each cell.

    Attributes:
        values: The counts, shape (cells, k).
        deviation: The standard deviation of the noise on each.
    """

    values: Int[np.ndarray, "cells k"]
    deviation: float
    noun: ClassVar[str] = "counts of classes"


@dataclass(frozen=True, eq=False)
class Choices(Reading):
    """Common classes of each cell, chosen with noise.

    Attributes:
        codes: The chosen classes, the most common first, shape (cells, m).
        rate: The logarithm of the odds against a class for each row by which it is behind.
    """

    codes: Int[np.ndarray, "cells m"]
    rate: float
    noun: ClassVar[str] = "common classes"


@dataclass(frozen=True, eq=False)
class Means(Reading):
    """Noisy mean labels of cells.

    Attributes:
        values: The means, NaN for cells without rows, shape (cells,): unbiased, and beyond the range where noise took
            them; those of older releases were cut to it.
        deviation: The standard deviation of the noise on the sum of a cell's labels.
        low: The lower end that labels and means are clipped to.
        high: The upper end.
    """

    values: Float[np.ndarray, "cells"]
    deviation: float
    low: float
    high: float
    noun: ClassVar[str] = "means of cells"


@dataclass(frozen=True, eq=False)
class FlippedLabels(Reading):
    """Labels that were randomized alone, and then exchanged or shuffled among the rows of each cell.

    Attributes:
        codes: The class of each row, -1 where none is released, shape (n,).
        flip: The probability of each class but the true one.
        resampled: True if the rows of a cell drew labels with replacement, False if they have each label once.
    """

    codes: Int[np.ndarray, "n"]
    flip: Fraction
    resampled: bool
    noun: ClassVar[str] = "flipped labels"


@dataclass(frozen=True, eq=False)
class FeatureSums(Reading):
    """Noisy sums of features, weighted by the labels.

    Attributes:
        values: The sums, shape (p, k).
        deviation: The standard deviation of the noise on each.
        step: The step of the features' grid.
        norm: The length that rows of features are clipped to.
    """

    values: Float[np.ndarray, "p k"]
    deviation: float
    step: float
    norm: float


@dataclass(frozen=True, eq=False)
class ClassSums(FeatureSums):
    """Noisy sums of the features of each class."""

    noun: ClassVar[str] = "sums of features by class"


@dataclass(frozen=True, eq=False)
class EndSums(FeatureSums):
    """Noisy sums of features times the position of labels between the two ends of an interval."""

    noun: ClassVar[str] = "sums of features by the ends of an interval"
