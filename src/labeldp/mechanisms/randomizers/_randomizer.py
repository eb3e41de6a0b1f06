"""A randomizer: a label space, an epsilon, and the channel that follows from them."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from labeldp import _checks
from labeldp.errors import LabelError
from labeldp.privacy import Interval, LabelSpace
from labeldp.privacy.channels import Channel, ClassChannel, SingleNumberChannel, pair_share

S = TypeVar("S")
T = TypeVar("T")


def kept(method: Callable[[S], T]) -> Callable[[S], T]:
    """A method without arguments that is computed once for each object."""
    name = f"_{method.__name__}"

    @wraps(method)
    def computed_once(self: S) -> T:
        if name not in vars(self):
            vars(self)[name] = method(self)
        result: T = vars(self)[name]
        return result

    return computed_once


@dataclass(frozen=True, eq=False)
class Randomizer(ABC):
    """A mechanism that randomizes each label alone.

    It draws nothing by itself: pass it to a ``Curator``, which charges for the draw.

    Attributes:
        space: The declared label space.
        epsilon: The requested epsilon; the certified one is ``channel().epsilon``, never larger.
        row_names: The index of each public parameter with a value for each row, which a curator compares with that of
            the labels; None without one.
    """

    space: LabelSpace
    epsilon: float
    row_names: Mapping[str, Any] = field(default_factory=dict, init=False, repr=False)

    #: The name on the command line and in certificates, and a description for lists of mechanisms.
    name: ClassVar[str]
    about: ClassVar[str]
    #: The class of its channels, or a base of all.
    draws_from: ClassVar[type[Any]] = Channel

    def __post_init__(self) -> None:
        if not isinstance(self.space, LabelSpace):
            kind = type(self.space).__name__
            raise LabelError(f"expected a declared label space first, such as Classes(['a', 'b']), found {kind}")
        object.__setattr__(self, "epsilon", _checks.epsilon(self.epsilon))
        self.channel()

    @abstractmethod
    def channel(self) -> Channel:
        """The channel from the true label to the released one."""

    @property
    def mass(self) -> np.ndarray:
        """Prior probability that the true class can be released: 1, or one for each row that has candidates."""
        return np.ones(())

    @property
    @abstractmethod
    def detail(self) -> str:
        """The form of a row's output in a few words, for plans."""

    @classmethod
    def needs(cls) -> tuple[str, ...]:
        """The parameters that it requires beyond a label space and an epsilon, such as ``prior``."""
        required = (each.name for each in dataclasses.fields(cls) if each.init and each.default is dataclasses.MISSING)
        return tuple(name for name in required if name not in ("space", "epsilon"))

    @property
    def declared(self) -> tuple[str, ...]:
        """Declared, unverifiable assumptions of the channel, for the certificate."""
        return ()

    def for_rows(self, rows: int) -> Self:
        """The same randomizer for so many rows, where one public parameter was given for all of them."""
        del rows
        return self

    def at(self, epsilon: float) -> Self:
        """The same randomizer at another epsilon."""
        if epsilon == self.epsilon:
            return self
        other = dataclasses.replace(self, epsilon=epsilon)
        object.__setattr__(other, "row_names", self.row_names)
        return other

    @property
    @abstractmethod
    def expectation(self) -> Expectation | NumberExpectation:
        """The expected utility of a released row, averaged over rows."""


class ClassRandomizer(Randomizer):
    """A randomizer that releases a class or a set of classes; on an interval, it ignores the order of grid points."""

    @abstractmethod
    def channel(self) -> ClassChannel:
        """The channel from the true class to the released class or set."""

    @property
    def expectation(self) -> Expectation:
        """The expected utility of a released row, averaged over rows."""
        return class_expectation(self.channel(), self.mass)


class NumberRandomizer(Randomizer):
    """A randomizer that releases a number, for labels on an interval."""

    space: Interval

    #: True if the channel is found by a numerical search, which a plan does on a small grid.
    searched: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.space, LabelSpace) and not isinstance(self.space, Interval):
            raise LabelError(
                f"expected a declared range with a grid for released numbers, such as Interval(0, 10, 0.5), found "
                f"{type(self.space).__name__}; use RandomizedResponse or SubsetResponse for classes"
            )
        super().__post_init__()

    @abstractmethod
    def channel(self) -> SingleNumberChannel:
        """The channel from the true label to the released number."""

    @property
    def detail(self) -> str:
        """A number."""
        return f"one of {len(self.channel().values)} numbers"

    @property
    def expectation(self) -> NumberExpectation:
        """The expected utility of a released row, averaged over rows and grid points."""
        return number_expectation(self.channel())


@dataclass(frozen=True)
class Expectation:
    """Expected utility of released classes, averaged over rows; from parameters alone, never from labels.

    Attributes:
        truth_probability: Probability that the released label or set contains the true class.
        clean_share: Effective rows per released row for distinguishing two classes, between 0 and 1.
    """

    truth_probability: float
    clean_share: float


@dataclass(frozen=True)
class NumberExpectation:
    """Expected utility of released numbers, averaged over rows and grid points; from parameters alone.

    Attributes:
        squared_error: The mean squared error of a released number, in squared grid steps.
        clean_share: Effective rows per released row for the mean of uniform labels on the grid, between 0 and 1: the
            squared correlation of released and true label. It is less if features explain much of the label.
    """

    squared_error: float
    clean_share: float


def expectation(channel: Channel, mass: np.ndarray) -> Expectation | NumberExpectation:
    """The expected utility of rows released through a channel."""
    return class_expectation(channel, mass) if isinstance(channel, ClassChannel) else number_expectation(channel)


def class_expectation(channel: ClassChannel, mass: np.ndarray) -> Expectation:
    """The expected utility of rows, weighted by the prior probability ``mass`` that the true class can be released."""
    chance = channel.membership
    truth, share = chance.true * mass, pair_share(chance) * mass
    return Expectation(float(np.mean(truth)), float(np.mean(share))) if np.size(truth) else Expectation(0.0, 0.0)


def number_expectation(channel: Channel) -> NumberExpectation:
    """The expected utility of released numbers, over rows and grid points."""
    points = np.arange(channel.classes, dtype=np.float64)
    by_law = []
    for law in channel.number_laws():
        error = float(np.mean(law.variance + (law.mean - points) ** 2))
        together = float(np.mean((law.mean - law.mean.mean()) * (points - points.mean())))
        spread = float(np.var(points) * (np.var(law.mean) + np.mean(law.variance)))
        by_law.append((error, together**2 / spread if spread else 0.0))
    of_rows = np.array(by_law)[channel.law_numbers(1)]
    return NumberExpectation(*of_rows.mean(axis=0).tolist()) if len(of_rows) else NumberExpectation(0.0, 0.0)


def mean_expectation(
    parts: Sequence[tuple[int, Expectation | NumberExpectation | None]],
) -> Expectation | NumberExpectation | None:
    """The expected utility of parts with their numbers of rows, averaged over rows; None if no part has one."""
    present = [(rows, utility) for rows, utility in parts if utility is not None]
    if not present:
        return None
    shares = np.array([dataclasses.astuple(utility) for _, utility in present])
    weights = np.array([rows for rows, _ in present], dtype=np.float64)
    return type(present[0][1])(*(weights @ shares / max(weights.sum(), 1.0)).tolist())
