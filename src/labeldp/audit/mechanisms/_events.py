"""Events to test: chosen on past counts of tallies, to be tested on fresh ones."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from labeldp._shapes import Float, Int

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
