"""Rows that differ in their law by group, and units of several rows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Int, UInt64

from labeldp.privacy._channel import Channel, Levels, Membership, Table, row_arrays
from labeldp.privacy._rounding import power_above


@dataclass(frozen=True, eq=False)
class GroupedChannel(Channel):
    """One law for each group of rows; all laws share the classes and the form.

    A group holds the rows of units with equally many rows, ``repeats`` of them. Replacing all labels of such a
    unit changes the probability of what is released by at most the product of its rows' odds.

    Attributes:
        channels: The law of each group.
        repeats: How many rows a unit in each group has.
        groups: The group of each row, a public number.
    """

    channels: tuple[Channel, ...]
    repeats: tuple[int, ...]
    groups: Int[np.ndarray, "n"]

    kind: ClassVar[str] = "grouped"

    def __post_init__(self) -> None:
        if any(row_arrays(channel) for channel in self.channels):
            raise ValueError("expected groups whose laws are the same for all their rows")
        if {(channel.classes, channel.bits) for channel in self.channels} != {(self.classes, self.bits)} or len(
            {c.form for c in self.channels}
        ) != 1:
            raise ValueError("expected groups of the same classes whose released labels have one form")
        if len(self.repeats) != len(self.channels) or min(self.repeats) < 1:
            raise ValueError("expected the number of rows of a unit in each group")
        if self.groups.size and not (self.groups.min() >= 0 and self.groups.max() < len(self.channels)):
            raise ValueError("expected group numbers that count the channels from 0")

    @property
    def form(self) -> str:  # type: ignore[override]
        """The form that all groups share."""
        return self.channels[0].form

    @cached_property
    def odds(self) -> Fraction:
        """The largest product over a unit, over all groups that were declared; rounded up beyond 1024 bits."""
        return max(power_above(channel.odds, m) for channel, m in zip(self.channels, self.repeats, strict=True))

    @cached_property
    def words_per_row(self) -> int:
        """The most that any group needs."""
        return max(channel.words_per_row for channel in self.channels)

    @cached_property
    def membership(self) -> Membership:
        """Of each row, by its group."""
        parts = [channel.membership for channel in self.channels]
        true, other, apart = (
            np.array([float(getattr(part, name)) for part in parts])[self.groups] for name in ("true", "other", "apart")
        )
        return Membership(true, other, apart)

    def draw(self, codes: Int[np.ndarray, "n"], words: UInt64[np.ndarray, "n w"]) -> np.ndarray:
        """Each group drawn by its own law, each row from its own words."""
        members = [np.flatnonzero(self.groups == group) for group in range(len(self.channels))]
        parts = [
            channel.draw(codes[rows], np.ascontiguousarray(words[rows, : channel.words_per_row]))
            for channel, rows in zip(self.channels, members, strict=True)
        ]
        released = np.empty((codes.size, *parts[0].shape[1:]), dtype=parts[0].dtype)
        for rows, part in zip(members, parts, strict=True):
            released[rows] = part
        return released

    def levels(self, released: np.ndarray) -> Levels:
        """By row, at the odds of its group's law."""
        high = np.array([float(channel.odds) for channel in self.channels])[self.groups]
        return Levels(self.channels[0].levels(released).mask, high)

    def possible(self, released: np.ndarray) -> Bool[np.ndarray, "n"]:
        """What the law of the row's group can give."""
        holds = np.zeros(len(released), dtype=np.bool_)
        for group, channel in enumerate(self.channels):
            rows = np.flatnonzero(self.groups == group)
            holds[rows] = channel.possible(released[rows])
        return holds

    def table(self, row: int = 0) -> Table:
        """The law of the row's group."""
        return self.channels[int(self.groups[row])].table()
