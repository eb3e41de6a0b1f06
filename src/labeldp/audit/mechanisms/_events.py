"""Events to test: chosen on past counts of tallies, to be tested on fresh ones.

A tally counts the cells of a call's outputs: of single ones, by their position in the call, or of pairs of them. Its
counts form tables with an axis of inputs, one of groups (a position, a distance between two outputs) and one of
outcomes; each group is a sample of its own, in which outcomes are multinomial if outputs are independent.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from labeldp._shapes import Bool, Float, Int
from labeldp.audit.mechanisms._partition import Partition

Search = Literal["cells", "positions", "pairs"]

#: Events of each tally that are tested at a time, and the most confidence bounds of each, for Bonferroni corrections.
TESTED, BOUNDS = 3, 3
_MOST_PAIRS = 512
#: Positions of fewer outputs are not looked at.
_FEWEST_TRIALS = 32
#: Outcomes of two outputs: neither, the second, the first, or both have an event. Those in which the first has it, the
#: second has it, and the first alone has it; and the same of the contrary event.
_HALVES = (([2, 3], [1, 3], [2]), ([0, 1], [0, 2], [1]))


@dataclass(frozen=True)
class Level:
    """Error probability of a test, what was claimed, how many events it has at most, and whether it is the last."""

    error: float
    claim: float
    delta: float
    events: int
    last: bool = False

    @property
    def each(self) -> float:
        """Level of each bound of each tested event."""
        return self.error / (BOUNDS * self.events)

    @property
    def caution(self) -> float:
        """Approximate number of standard errors of such a bound, for the choice of events."""
        return math.sqrt(-2.0 * math.log(self.each))


@dataclass(frozen=True, eq=False)
class Event:
    """An event of one input in a group of a tally, and what bounds it.

    (epsilon, delta)-privacy implies ``P(cells | a) - P(fewer | b) <= exp(rows epsilon) P(against | b) + delta``.
    """

    a: int
    b: int
    group: int
    cells: Int[np.ndarray, "c"]
    against: Int[np.ndarray, "d"]
    fewer: Int[np.ndarray, "e"] | None = None
    rows: int = 1


def promising_events(
    search: Search, past: Int[np.ndarray, "l g c"], trials: Int[np.ndarray, "g"], level: Level
) -> list[Event]:
    """The events of a tally that promise most.

    Args:
        search: How to look for them.
        past: Counts of the draws that they are chosen on: inputs, groups, outcomes.
        trials: Number of outputs in each group that they will be tested on.
        level: The test.
    """
    groups = np.flatnonzero((past[0].sum(axis=1) > 0) & (trials > 0))
    found = list(_SEARCHES[search](past[:, groups], trials[groups, None], level)) if len(groups) else []
    best = sorted(found, key=lambda item: -item[0])[:TESTED]
    return [dataclasses.replace(event, group=int(groups[event.group])) for _, event in best]


#: What an event promises, and the event.
_Found = tuple[float, Event]


def _prefixes(
    past: Int[np.ndarray, "l g c"], trials: Int[np.ndarray, "g 1"], level: Level, rows: int = 1
) -> Iterator[_Found]:
    """For pairs of inputs, the cells of the largest likelihood ratios, as many as promise the largest bound."""
    drawn = past[0].sum(axis=1)[:, None]
    for a, b in _input_pairs(past, level):
        order = np.argsort(-(past[a] + 0.5) / (past[b] + 0.5), axis=1, kind="stable")
        p, q = (np.cumsum(np.take_along_axis(past[place], order, axis=1), axis=1) / drawn for place in (a, b))
        promise = _expected_bound(p, q + 1.0 / drawn, trials, level) / rows
        for group, place in enumerate(promise.argmax(axis=1)):
            cells = order[group, : place + 1]
            yield float(promise[group, place]), Event(a, b, group, cells, cells, rows=rows)


def _outliers(past: Int[np.ndarray, "2 g 2"], trials: Int[np.ndarray, "g 1"], level: Level) -> Iterator[_Found]:
    """Groups in which one outcome exceeds the claim by most standard errors, as those of all groups together are."""
    enough = np.flatnonzero((trials[:, 0] >= _FEWEST_TRIALS) & (past[0].sum(axis=1) > 0))
    if not len(enough):
        return
    drawn, ratio = past[0, enough].sum(axis=1), math.exp(min(level.claim, 50.0))
    pooled = past[:, enough].sum(axis=1) / drawn.sum()
    for (a, b), cell in itertools.product(((0, 1), (1, 0)), (0, 1)):
        variance = pooled[a, cell] * (1 - pooled[a, cell]) + ratio**2 * pooled[b, cell] * (1 - pooled[b, cell])
        excess = past[a, enough, cell] / drawn - ratio * past[b, enough, cell] / drawn - level.delta
        score = excess * np.sqrt(drawn / max(variance, 1e-12))
        for place in np.argpartition(-score, min(TESTED, len(score)) - 1)[:TESTED]:
            yield float(score[place]), Event(a, b, int(enough[place]), np.array([cell]), np.array([cell]))


def _pairs(past: Int[np.ndarray, "2 g 4"], trials: Int[np.ndarray, "g 1"], level: Level) -> Iterator[_Found]:
    """Outcomes of two outputs that tell two inputs, and outcomes that outputs of their own coins cannot have.

    Two rows of label a have any outcome with at most exp(2 epsilon) times the probability of two rows of label b.

    If the first of two rows has label a and the second b, then the first and not the second has an event E with a
    probability of at least ``P(E | a) - P(E | b)``, however the two depend on each other, if each depends on its own
    label. A neighbour, both rows of label b, has that with at least exp(-epsilon) times this probability. Two rows that
    share a coin never have.
    """
    if not level.delta:
        yield from _prefixes(past, trials, level, rows=2)
    shares = past / past[0].sum(axis=1)[None, :, None]
    for (a, b), (cells, fewer, against) in itertools.product(((0, 1), (1, 0)), _HALVES):
        p = shares[a][:, cells].sum(axis=1) - shares[b][:, fewer].sum(axis=1)
        q = shares[b][:, against].sum(axis=1) + 1.0 / trials[:, 0]
        promise = _expected_bound(np.maximum(p, 0.0), q, trials[:, 0], level)
        for group in range(len(promise)):
            first, rest, other = map(np.array, (cells, against, fewer))
            yield float(promise[group]), Event(a, b, group, first, rest, other)


_SEARCHES: dict[Search, Callable[..., Iterator[_Found]]] = {
    "cells": _prefixes,
    "positions": _outliers,
    "pairs": _pairs,
}


def _expected_bound(
    p: Float[np.ndarray, "..."], q: Float[np.ndarray, "..."], part: Any, level: Level
) -> Float[np.ndarray, "..."]:
    """Approximate bound that events of these probabilities will give."""
    z = level.caution
    low = p - level.delta - z * np.sqrt(p * (1 - np.minimum(p, 1)) / part) - 1.0 / part
    high = q + z * np.sqrt(q / part) + z**2 / (2 * part)
    return np.asarray(np.log(np.maximum(low, 1e-300) / high))


def _input_pairs(past: Int[np.ndarray, "l g c"], level: Level) -> list[tuple[int, int]]:
    """All ordered pairs of inputs; of many inputs, those between which single cells differ most."""
    inputs = len(past)
    if inputs * (inputs - 1) <= _MOST_PAIRS:
        return list(itertools.permutations(range(inputs), 2))
    cells, drawn = past.reshape(inputs, -1), int(past[0].sum())
    most, least = cells.argmax(axis=0), cells.argmin(axis=0)
    columns = np.arange(cells.shape[1])
    promise = _expected_bound(cells[most, columns] / drawn, (cells[least, columns] + 1.0) / drawn, drawn, level)
    order = np.argsort(-promise, kind="stable")[:_MOST_PAIRS]
    return [(a, b) for a, b in dict.fromkeys(zip(most[order].tolist(), least[order].tolist(), strict=True)) if a != b]


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
