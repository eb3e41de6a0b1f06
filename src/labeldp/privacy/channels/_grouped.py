"""Channels that differ between groups of rows: for privacy units of several rows, and rows of several releases."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from labeldp._shapes import Bool, Float, Int, UInt64
from labeldp.errors import InputError
from labeldp.privacy._rounding import power_above
from labeldp.privacy.channels._channel import (
    Channel,
    Columns,
    Levels,
    Membership,
    NumberLaw,
    TransitionTable,
    released_labels,
    row_arrays,
)
from labeldp.privacy.channels._class_channel import ClassChannel
from labeldp.privacy.channels._grid import NumberChannel


@dataclass(frozen=True, eq=False)
class _Grouped(Channel):
    """One channel for each group of rows; all share the classes and the form.

    A group holds the rows of units with the same number of rows, ``repeats``. Replacing all labels of such a unit
    changes the probability of any output by at most the product of its rows' odds.

    Attributes:
        channels: The channel of each group.
        repeats: Number of rows of a unit in each group.
        groups: The group of each row, a public number.
    """

    channels: tuple[Channel, ...]
    repeats: tuple[int, ...]
    groups: Int[np.ndarray, "n"]

    def __post_init__(self) -> None:
        if any(row_arrays(channel) for channel in self.channels):
            raise ValueError("expected groups whose laws are the same for all their rows")
        if {(channel.classes, channel.bits) for channel in self.channels} != {(self.classes, self.bits)} or len(
            {c.form for c in self.channels}
        ) != 1:
            raise ValueError("expected groups of the same classes whose released labels have one form")
        if (self.channels[0].form == "number") != isinstance(self, GroupedNumberChannel):
            raise ValueError("expected groups of classes or of numbers, each in a channel of its kind")
        if len(self.repeats) != len(self.channels) or min(self.repeats) < 1:
            raise ValueError("expected the number of rows of a unit in each group")
        if self.groups.size and not (self.groups.min() >= 0 and self.groups.max() < len(self.channels)):
            raise ValueError("expected group numbers that count the channels from 0")

    @cached_property
    def odds(self) -> Fraction:
        """The largest product of odds over a unit, over all declared groups; rounded up beyond 1024 bits."""
        return max(power_above(channel.odds, m) for channel, m in zip(self.channels, self.repeats, strict=True))

    @property
    def detail(self) -> str:
        """The rows of units, or the number of channels of single rows."""
        least, most = min(self.repeats), max(self.repeats)
        if most == 1:
            return f"{len(self.channels)} channels of single rows"
        return f"one epsilon for a unit's {most if least == most else f'{least} to {most}'} rows together"

    @cached_property
    def words_per_row(self) -> int:
        """The largest number over the groups."""
        return max(channel.words_per_row for channel in self.channels)

    @cached_property
    def usual_words(self) -> int:
        """The largest number over the groups."""
        return max(channel.usual_words for channel in self.channels)

    @cached_property
    def whole_words(self) -> int:
        """The largest number over the groups."""
        return max(channel.whole_words for channel in self.channels)

    @property
    def units(self) -> tuple[tuple[Channel, int], ...]:
        """The groups' own channels, which are those of single rows."""
        return tuple(zip(self.channels, self.repeats, strict=True))

    def columns(self) -> Columns:
        """Those of single rows of all groups."""
        return itertools.chain.from_iterable(channel.columns() for channel in self.channels)

    def draw_into(self, out: np.ndarray, codes: Int[np.ndarray, "n"], words: UInt64[np.ndarray, "n w"]) -> None:
        """Draw each group from its channel, each row from its own words."""
        out[:] = self._by_group(
            lambda channel, part, its: channel.draw(part, np.ascontiguousarray(its[:, : channel.words_per_row])),
            codes,
            words,
        )

    def possible(self, released: np.ndarray) -> Bool[np.ndarray, "n"]:
        """Mask of the labels that the channel of the row's group can release."""
        return self._by_group(lambda channel, labels: channel.possible(labels), released)

    def number_laws(self) -> tuple[NumberLaw, ...]:
        """One distribution for each group."""
        return tuple(channel.number_laws()[0] for channel in self.channels)

    def law_numbers(self, rows: int) -> Int[np.ndarray, "n"]:
        """The groups."""
        del rows
        return self.groups

    def table(self, row: int = 0) -> TransitionTable:
        """The transition matrix of the row's group."""
        return self.channels[int(self.groups[row])].table()

    def _by_group(self, apply: Callable[..., np.ndarray], released: object, *others: np.ndarray) -> np.ndarray:
        """A function of each group's channel, its released labels and its parts of other arrays, for all rows."""
        labels = released_labels(released)
        if len(labels) != len(self.groups):
            raise ValueError("expected a channel of as many rows as there are labels")
        members = [np.flatnonzero(self.groups == group) for group in range(len(self.channels))]
        arrays = (labels, *others)
        parts = [apply(c, *(array[rows] for array in arrays)) for c, rows in zip(self.channels, members, strict=True)]
        whole = np.empty((len(labels), *parts[0].shape[1:]), dtype=parts[0].dtype)
        for rows, part in zip(members, parts, strict=True):
            whole[rows] = part
        return whole


@dataclass(frozen=True, eq=False)
class GroupedChannel(_Grouped, ClassChannel):
    """One class channel for each group of rows, as for units of several rows."""

    channels: tuple[ClassChannel, ...]

    kind: ClassVar[str] = "grouped"

    @property
    def form(self) -> str:  # type: ignore[override]
        """The common form of all groups."""
        return self.channels[0].form

    @property
    def even(self) -> bool:
        """True if it is true of each group."""
        return all(channel.even for channel in self.channels)

    @property
    def identifies(self) -> bool:
        """True if it is true of each group."""
        return all(channel.identifies for channel in self.channels)

    @cached_property
    def membership(self) -> Membership:
        """For each row, from its group."""
        parts = [(each.true, each.other, each.apart) for each in (channel.membership for channel in self.channels)]
        return Membership(*np.array(parts, dtype=np.float64)[self.groups].T)

    def mask(self, released: np.ndarray) -> Bool[np.ndarray, "n k"]:
        """For each row, from its group."""
        return self._by_group(lambda channel, labels: channel.mask(labels), released)

    def holds(self, released: np.ndarray, classes: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """For each row, from its group."""
        return self._by_group(lambda channel, *arrays: channel.holds(*arrays), released, classes)

    def sums(self, released: np.ndarray, values: Float[np.ndarray, "k"]) -> Float[np.ndarray, "n"]:
        """For each row, from its group."""
        return self._by_group(lambda channel, labels: channel.sums(labels, values), released)

    def levels(self, released: np.ndarray) -> Levels:
        """For each row, at the level of its group."""
        high = self._by_group(
            lambda channel, labels: np.broadcast_to(channel.levels(labels).high, len(labels)), released
        )
        written_out = any(channel.levels(released[:0]).values is not None for channel in self.channels)
        values = self._by_group(lambda channel, labels: channel.likelihood(labels), released) if written_out else None
        return Levels(self.mask(released), high, values=values)

    def holding(self, codes: Int[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """For each row, from its group."""
        true, other = self._by_group(
            lambda channel, part: np.stack([np.broadcast_to(p, len(part)) for p in channel.holding(part)], 1), codes
        ).T
        return true, other

    def unbiased(self, released: object) -> Float[np.ndarray, "n k"]:
        """For each row, from its group."""
        return self._by_group(lambda channel, labels: channel.unbiased(labels), released)

    def traces(self, *, projected: bool) -> Float[np.ndarray, "2 n"]:
        """For each row, from its group."""
        traces = np.array([channel.traces(projected=projected).ravel() for channel in self.channels])
        return np.asarray(traces[self.groups].T)


@dataclass(frozen=True, eq=False)
class GroupedNumberChannel(_Grouped, NumberChannel):
    """One channel of numbers for each group of rows, as for units of several rows."""

    channels: tuple[NumberChannel, ...]

    kind: ClassVar[str] = "grouped-numbers"
    bins: ClassVar[None] = None  # groups have different outcomes

    @property
    def steps(self) -> tuple[Float[np.ndarray, "m"], ...]:
        """The numbers of the outcomes, for each group."""
        return tuple(channel.steps[0] for channel in self.channels)

    def likelihood(self, released: object) -> Float[np.ndarray, "n k"]:
        """For each row, from its group."""
        return self._by_group(lambda channel, labels: channel.likelihood(labels), released)

    def squares(self, released: object) -> Float[np.ndarray, "n"]:
        """For each row, from its group."""
        return self._by_group(lambda channel, labels: channel.squares(labels), released)


def concatenated_channel(parts: Sequence[tuple[Channel, int]]) -> Channel:
    """The channel of the rows of several channels, one after another, each row with its own distribution.

    Args:
        parts: The channels, and the number of rows of each.

    Raises:
        InputError: No channel can hold these rows: their classes or forms differ, or their distributions do and depend
            on more than a group of rows, as those of candidates.
    """
    channels = [channel for channel, _ in parts]
    laws = [_fields(channel) for channel in channels]
    if all(law == laws[0] for law in laws):
        arrays: dict[str, Any] = {
            name: np.concatenate([row_arrays(channel)[name] for channel in channels])
            for name in row_arrays(channels[0])
        }
        return dataclasses.replace(channels[0], **arrays) if arrays else channels[0]
    first = channels[0]
    if any((each.classes, each.bits, each.form) != (first.classes, first.bits, first.form) for each in channels):
        raise InputError(
            "expected released labels of one form, found several, such as classes and sets of classes; release all "
            "parts by one mechanism, or learn from each alone"
        )
    known: dict[object, tuple[int, Channel, int]] = {}
    numbers = []
    for channel, rows in parts:
        units, groups = _groups_of(channel, rows)
        of_part = [known.setdefault((_fields(each), m), (len(known), each, m))[0] for each, m in units]
        numbers.append(np.array(of_part, dtype=np.int32)[groups])
    _, members, repeats = zip(*known.values(), strict=True)
    kind = GroupedNumberChannel if isinstance(first, NumberChannel) else GroupedChannel
    return kind(first.classes, members, repeats, np.concatenate(numbers), bits=first.bits)


def _fields(channel: Channel) -> tuple[object, ...]:
    """The kind and the integers of a channel, without its arrays by row."""
    values = [getattr(channel, field.name) for field in dataclasses.fields(channel)]
    plain = [_nested(value) for value in values if not isinstance(value, np.ndarray)]
    return type(channel), *plain


def _nested(value: Any) -> object:
    """A value of a field, with channels as their fields."""
    if isinstance(value, tuple):
        return tuple(map(_nested, value))
    return _fields(value) if isinstance(value, Channel) else value


def _groups_of(channel: Channel, rows: int) -> tuple[tuple[tuple[Any, int], ...], Int[np.ndarray, "n"]]:
    """The channels of single rows of a channel, with the rows of a unit in each, and the group of each row."""
    if isinstance(channel, _Grouped):
        return channel.units, channel.groups
    if row_arrays(channel) or (isinstance(channel, NumberChannel) and channel.bins is not None):
        raise InputError(
            f"expected releases whose rows have one of a few channels, found several of kind {channel.kind!r}, which "
            "differ by more; learn from each alone"
        )
    return ((channel, 1),), np.zeros(rows, dtype=np.int32)
