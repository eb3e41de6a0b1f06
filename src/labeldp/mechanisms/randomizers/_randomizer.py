"""A randomizer: a label space, an epsilon, and the channel that follows from them."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from labeldp import _checks
from labeldp.errors import LabelError
from labeldp.privacy import Interval, LabelSpace
from labeldp.privacy.channels import Channel, ClassChannel, SingleNumberChannel, pair_share


@dataclass(frozen=True, eq=False)
class Randomizer(ABC):
    """A mechanism that randomizes each label alone.

    It draws nothing by itself: give it to a ``Curator``, which charges for the draw.

    Attributes:
        space: The declared label space.
        epsilon: The epsilon that was asked for; the certified one is ``channel().epsilon``, never larger.
    """

    space: LabelSpace
    epsilon: float

    name: ClassVar[str]

    def __post_init__(self) -> None:
        if not isinstance(self.space, LabelSpace):
            found = type(self.space).__name__
            raise LabelError(f"expected a declared label space first, such as Classes(['a', 'b']), found {found}")
        object.__setattr__(self, "epsilon", _checks.epsilon(self.epsilon))
        self.channel()

    @abstractmethod
    def channel(self) -> Channel:
        """The law of the released label given the true one."""

    @property
    @abstractmethod
    def mass(self) -> np.ndarray:
        """Prior probability that the true class can be released: of each row, or 1 where every class can."""

    @property
    def declared(self) -> tuple[str, ...]:
        """What its law rests on, which was declared and nobody can check: for the certificate."""
        return ()

    def at(self, epsilon: float) -> Self:
        """The same randomizer at another epsilon."""
        return dataclasses.replace(self, epsilon=epsilon)

    @property
    @abstractmethod
    def expectation(self) -> Expectation | NumberExpectation:
        """What a released row keeps of its label, averaged over rows."""


class ClassRandomizer(Randomizer):
    """A randomizer that releases a class or a set of classes; on an interval, grid points without their order."""

    @abstractmethod
    def channel(self) -> ClassChannel:
        """The law of the released class or set given the true class."""

    @property
    def expectation(self) -> Expectation:
        """What a released row keeps of its label, averaged over rows."""
        return class_expectation(self.channel(), self.mass)


class NumberRandomizer(Randomizer):
    """A randomizer that releases a number, for labels on an interval."""

    space: Interval

    def __post_init__(self) -> None:
        if isinstance(self.space, LabelSpace) and not isinstance(self.space, Interval):
            raise LabelError(
                f"expected a declared range with a grid for released numbers, such as Interval(0, 10, 0.5), found "
                f"{type(self.space).__name__}; use RandomizedResponse or SubsetResponse for classes"
            )
        super().__post_init__()

    @abstractmethod
    def channel(self) -> SingleNumberChannel:
        """The law of the released number given the true label."""

    @property
    def mass(self) -> np.ndarray:
        """Every label is told of."""
        return np.ones(())

    @property
    def expectation(self) -> NumberExpectation:
        """What a released row keeps of its label, averaged over rows and grid points."""
        return number_expectation(self.channel())


@dataclass(frozen=True)
class Expectation:
    """What a released row keeps of its label, averaged over rows; from parameters alone, never from labels.

    Attributes:
        truth_probability: Probability that the released label or set contains the true class.
        clean_share: How many clean rows one released row is worth for telling two classes apart, between 0 and 1.
    """

    truth_probability: float
    clean_share: float


@dataclass(frozen=True)
class NumberExpectation:
    """What a released number keeps of its label, averaged over rows and grid points; from parameters alone.

    Attributes:
        squared_error: The mean square of the difference of a released number and the true label, in squared grid steps.
        clean_share: How many clean rows one released row is worth for the mean of labels that are spread evenly over
            the grid, between 0 and 1: the squared correlation of the two. Where features explain much of the label, a
            row is worth less.
    """

    squared_error: float
    clean_share: float


def expectation(channel: Channel, mass: np.ndarray) -> Expectation | NumberExpectation:
    """What rows keep of their labels."""
    return class_expectation(channel, mass) if isinstance(channel, ClassChannel) else number_expectation(channel)


def class_expectation(channel: ClassChannel, mass: np.ndarray) -> Expectation:
    """What rows keep, each counted for the prior probability ``mass`` that its true class can be released."""
    chance = channel.membership
    kept, share = chance.true * mass, pair_share(chance) * mass
    return Expectation(float(np.mean(kept)), float(np.mean(share))) if np.size(kept) else Expectation(0.0, 0.0)


def number_expectation(channel: Channel) -> NumberExpectation:
    """What released numbers keep, over rows and grid points."""
    points = np.arange(channel.classes, dtype=np.float64)
    kept = []
    for law in channel.number_laws():
        error = float(np.mean(law.variance + (law.mean - points) ** 2))
        together = float(np.mean((law.mean - law.mean.mean()) * (points - points.mean())))
        spread = float(np.var(points) * (np.var(law.mean) + np.mean(law.variance)))
        kept.append((error, together**2 / spread if spread else 0.0))
    of_rows = np.array(kept)[channel.law_numbers(1)]
    return NumberExpectation(*of_rows.mean(axis=0).tolist()) if len(of_rows) else NumberExpectation(0.0, 0.0)


def mean_expectation(
    parts: Sequence[tuple[int, Expectation | NumberExpectation | None]],
) -> Expectation | NumberExpectation | None:
    """What parts of so many rows keep, averaged over their rows; None where a channel does not say it."""
    known = [(rows, kept) for rows, kept in parts if kept is not None]
    if not known:
        return None
    shares = np.array([dataclasses.astuple(kept) for _, kept in known])
    weights = np.array([rows for rows, _ in known], dtype=np.float64)
    return type(known[0][1])(*(weights @ shares / max(weights.sum(), 1.0)).tolist())
