"""Rows that differ in their law by group."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from jaxtyping import Int, UInt64

from labeldp.privacy._channel import Channel, Levels, Membership, Table


@dataclass(frozen=True, eq=False)
class GroupedChannel(Channel):
    """One law for each group of rows; all laws share the classes and the form.

    Attributes:
        channels: The law of each group.
        groups: The group of each row, a public number.
    """

    channels: tuple[Channel, ...]
    groups: Int[np.ndarray, "n"]

    def __post_init__(self) -> None:
        if len({(channel.form, channel.classes) for channel in self.channels}) != 1:
            raise ValueError("expected groups whose released labels have one form")
        if self.groups.size and not (self.groups.min() >= 0 and self.groups.max() < len(self.channels)):
            raise ValueError("expected group numbers that count the channels from 0")

    @property
    def form(self) -> str:  # type: ignore[override]
        """The form that all groups share."""
        return self.channels[0].form

    @property
    def odds(self) -> Fraction:
        """The largest over the groups in use."""
        return max((self.channels[g].odds for g in np.unique(self.groups).tolist()), default=Fraction(1))

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
        released: np.ndarray | None = None
        for group, channel in enumerate(self.channels):
            rows = np.flatnonzero(self.groups == group)
            used = np.ascontiguousarray(words[rows, : channel.words_per_row])
            part = channel.draw(codes[rows], used)
            if released is None:
                released = np.empty((codes.size, *part.shape[1:]), dtype=part.dtype)
            released[rows] = part
        if released is None:
            raise ValueError("expected at least one group")
        return released

    def levels(self, released: np.ndarray) -> Levels:
        """By row, at the level of its group."""
        high = np.array([float(channel.odds) for channel in self.channels])[self.groups]
        return Levels(self.channels[0].levels(released).mask, high)

    def table(self, row: int = 0) -> Table:
        """The law of the row's group."""
        return self.channels[int(self.groups[row])].table()
