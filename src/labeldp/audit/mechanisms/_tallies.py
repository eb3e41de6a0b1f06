"""Tallies of cells: of single outputs, by their position in a call, and of pairs of outputs of one call.

A tally counts the cells of a call's outputs. Its counts form tables with an axis of inputs, one of groups (a position,
a distance between two outputs) and one of outcomes; each group is a sample of its own, in which outcomes are
multinomial if outputs are independent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from labeldp._shapes import Bool, Int
from labeldp.audit.mechanisms._events import Search
from labeldp.audit.mechanisms._partition import Partition

#: Positions are counted modulo these, and so modulo all their divisors: powers of two and ten, and numbers up to ten.
PERIODS = (8192, 10_000, 5040)
#: Two outputs of a call that are compared: their distance, and the first of them. No output is in two pairs.
PAIRS = ((1, 0), (1, 1), *((period, 0) for period in PERIODS))


@dataclass(frozen=True, eq=False)
class Tally:
    """A way to count the outputs of a call.

    Attributes:
        partition: The partition into whose cells single outputs fall.
        labels: The inputs, by number, that it compares.
        size: Number of counts of a call.
        count: Counts of a call, from the cells of its outputs in order.
        tables: Tables of counts: inputs, groups, and outcomes, which are few or the cells themselves.
        name: Name of an event in a group.
        search: How events are looked for in its tables.
    """

    partition: Partition
    labels: tuple[int, ...]
    size: int
    count: Callable[[Int[np.ndarray, "n"]], Int[np.ndarray, "m"]]
    tables: Callable[[Int[np.ndarray, "l m"]], Int[np.ndarray, "l g c"]]
    name: Callable[[int, Sequence[int]], str]
    search: Search = "cells"


def cell_tally(partition: Partition) -> Tally:
    """The counts of each cell, wherever in a call."""
    return Tally(
        partition,
        partition.labels,
        partition.size,
        lambda codes: np.bincount(codes, minlength=partition.size),
        lambda counts: counts[:, None, :],
        lambda _, cells: partition.name(cells),
    )


def order_tallies(partitions: Sequence[Partition], counts: Sequence[np.ndarray]) -> list[Tally]:
    """Tallies by position and by pairs of outputs, for the event that distinguishes two inputs best on some draws."""
    events = [(partition, *_best_event(table)) for partition, table in zip(partitions, counts, strict=True)]
    partition, _, places, member = max(events, key=lambda event: event[1])
    labels = tuple(partition.labels[place] for place in places)
    return [_position_tally(partition, labels, member), _pair_tally(partition, labels, member)]


def _best_event(counts: Int[np.ndarray, "l m"]) -> tuple[float, tuple[int, int], Bool[np.ndarray, "m"]]:
    """Cells that are more frequent under the first input than under the one that differs most from it."""
    excess = counts[0] - counts
    certain = np.maximum(0, excess - np.sqrt(counts[0] + counts)).sum(axis=1)
    other = int(certain[1:].argmax()) + 1
    member = excess[other] > 0 if excess[other].any() else np.arange(counts.shape[1]) % 2 == 0
    return float(certain[other]), (0, other), member


def _position_tally(partition: Partition, labels: tuple[int, ...], member: Bool[np.ndarray, "m"]) -> Tally:
    """One event by the position of an output in its call, modulo each divisor of some periods."""
    divisors = {m: period for period in PERIODS for m in range(2, period + 1) if period % m == 0}
    starts = dict(zip(PERIODS, np.cumsum([0, *PERIODS]).tolist(), strict=False))
    size = sum(PERIODS)

    def count(codes: Int[np.ndarray, "n"]) -> Int[np.ndarray, "m"]:
        hits = member[codes]
        found = [_folded(hits, period) for period in PERIODS]
        drawn = [_positions(len(codes), period) for period in PERIODS]
        return np.concatenate([*found, *drawn])

    def tables(counts: Int[np.ndarray, "l m"]) -> Int[np.ndarray, "l g 2"]:
        hits, drawn = (
            np.concatenate(
                [
                    part[:, starts[period] : starts[period] + period].reshape(len(part), -1, m).sum(axis=1)
                    for m, period in divisors.items()
                ],
                axis=1,
            )
            for part in (counts[:, :size], counts[:, size:])
        )
        return np.stack([hits, drawn - hits], axis=2)

    def name(group: int, cells: Sequence[int]) -> str:
        ends = np.cumsum(list(divisors))
        place = int(np.searchsorted(ends, group, side="right"))
        period = list(divisors)[place]
        where = f"row {group - int(ends[place]) + period + 1} of every {period}"
        return f"{partition.name(_event_cells(member, cells[0] == 0))}, in {where},"

    return Tally(partition, labels, 2 * size, count, tables, name, "positions")


def _folded(hits: Bool[np.ndarray, "n"], period: int) -> Int[np.ndarray, "p"]:
    """Numbers of hits at each position modulo a period."""
    whole = len(hits) - len(hits) % period
    blocks = hits[:whole].view(np.uint8).reshape(-1, period)
    parts = [np.add.reduce(blocks[low : low + 255], axis=0, dtype=np.uint8) for low in range(0, len(blocks), 255)]
    counts = np.zeros(period, dtype=np.int64)  # bytes are added many at a time, and no 255 of them overflow
    for part in (*parts, hits[whole:]):
        counts[: len(part)] += part
    return counts


def _positions(count: int, period: int) -> Int[np.ndarray, "p"]:
    """Numbers of outputs at each position modulo a period."""
    return count // period + (np.arange(period) < count % period)


def _pair_tally(partition: Partition, labels: tuple[int, ...], member: Bool[np.ndarray, "m"]) -> Tally:
    """One event and its contrary, in two outputs of a call that lie some distance apart."""

    def count(codes: Int[np.ndarray, "n"]) -> Int[np.ndarray, "m"]:
        hits = member[codes]
        return np.concatenate([_pair_counts(hits[start:], distance) for distance, start in PAIRS])

    def name(group: int, cells: Sequence[int]) -> str:
        distance, start = PAIRS[group]
        del cells
        return f"pairs of outputs of one call, {distance} apart from output {start} on, which are not independent,"

    def tables(counts: Int[np.ndarray, "l m"]) -> Int[np.ndarray, "l g 4"]:
        return counts.reshape(len(counts), len(PAIRS), 4)

    return Tally(partition, labels, 4 * len(PAIRS), count, tables, name, "pairs")


def _pair_counts(hits: Bool[np.ndarray, "n"], distance: int) -> Int[np.ndarray, "4"]:
    """Numbers of pairs of which neither, the second, the first, or both are hits; no output is in two pairs."""
    blocks = hits[: len(hits) - len(hits) % (2 * distance)].reshape(-1, 2, distance)
    both, first = (int(np.count_nonzero(part)) for part in (blocks[:, 0] & blocks[:, 1], blocks[:, 0]))
    second = int(np.count_nonzero(blocks)) - first
    return np.array([blocks.size // 2 - first - second + both, second - both, first - both, both])


def _event_cells(member: Bool[np.ndarray, "m"], inside: bool) -> list[int]:
    return [int(cell) for cell in np.flatnonzero(member == inside)]
