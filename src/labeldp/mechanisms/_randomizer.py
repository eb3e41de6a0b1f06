"""A randomizer: a label space, an epsilon, and the channel that follows from them."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from labeldp import _checks
from labeldp.errors import LabelError
from labeldp.privacy import Channel, LabelSpace, pair_share


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

    def at(self, epsilon: float) -> Self:
        """The same randomizer at another epsilon."""
        return dataclasses.replace(self, epsilon=epsilon)

    @property
    def expectation(self) -> Expectation:
        """What a released row keeps of its label, averaged over rows."""
        return expectation(self.channel(), self.mass)


@dataclass(frozen=True)
class Expectation:
    """What a released row keeps of its label, averaged over rows; from parameters alone, never from labels.

    Attributes:
        truth_probability: Probability that the released label or set contains the true class.
        clean_share: How many clean rows one released row is worth for telling two classes apart, between 0 and 1.
    """

    truth_probability: float
    clean_share: float


def expectation(channel: Channel, mass: np.ndarray) -> Expectation:
    """What rows keep, each counted for the prior probability ``mass`` that its true class can be released."""
    chance = channel.membership
    kept, share = chance.true * mass, pair_share(chance) * mass
    return Expectation(float(np.mean(kept)), float(np.mean(share))) if np.size(kept) else Expectation(0.0, 0.0)
