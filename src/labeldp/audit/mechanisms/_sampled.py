"""Lower confidence bound on the epsilon of any callable mechanism, from its outputs alone."""

from __future__ import annotations

import bisect
import inspect
import itertools
import math
import reprlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labeldp import _checks
from labeldp._confidence_intervals import clopper_pearson_lower, clopper_pearson_upper
from labeldp._progress import Progress, silent
from labeldp._shapes import Int
from labeldp.audit._audit import Audit, check_claim, check_confidence
from labeldp.audit.mechanisms._events import TESTED, Event, Level, Tally, cell_tally, order_tallies, promising_events
from labeldp.audit.mechanisms._partition import (
    Partition,
    as_outputs,
    batch_type,
    choose_partitions,
    exact_partitions,
    single_output,
    type_partition,
)
from labeldp.errors import InputError

_FEWEST, _MOST = 100, 1 << 48
_PILOT = 8_000
_CHUNK, _OBJECTS_PER_CHUNK, _NUMBERS_PER_CHUNK = 1 << 18, 1 << 15, 1 << 21
#: Calls of each test for each input, so that noise that is one for a call is seen.
_FEWEST_CALLS = 4
#: Chance that a leak of the stated size is seen.
_SEEN = 0.9
_SINGLE_CALLS, _MOST_SINGLE_CALLS, _DRAWS_PER_CALL = 512, 20_000, 16


def audit_mechanism(
    mechanism: Callable[..., Any],
    labels: Sequence[Any],
    claim: float,
    *,
    delta: float = 0.0,
    draws: int = 1_000_000,
    confidence: float = 0.99,
    progress: Progress | None = None,
) -> Audit:
    """Search for an event that distinguishes two inputs by more than the claimed epsilon.

    Outputs may be numbers, texts, sets, lists or arrays of numbers, or anything with a text. Tests are sequential:
    events are chosen on the draws of all earlier tests, and tested on new ones. Each test doubles the draws, and the
    first that refutes the claim is the last. Numbers and rows of numbers are also compared by their bits, residues and
    parities. A mechanism that returns many outputs per call is searched by row number and for neighbouring rows that
    share noise, and is also called for single outputs, to detect noise that is the same at every call, or a first or
    last output without noise.

    Args:
        mechanism: ``mechanism(label, n)`` returns n independent outputs for one input; or ``mechanism(label)`` returns
            one. The first form is assumed if it requires two arguments.
        labels: At least two inputs, for every pair of which the claim is made: labels of one row, or whole neighbouring
            data sets.
        claim: The claimed epsilon, in nats.
        delta: The claimed failure probability.
        draws: Maximum number of outputs for each input. 100 000 refute a claim of 1 for a true epsilon of 1.2, two
            million for 1.05.
        confidence: One minus the probability of failing a sound mechanism, or of too small an upper bound.
        progress: Called with ("audit", done, total) from time to time.

    Returns:
        An audit with a lower confidence bound. ``visible`` is the size of leak that so many draws can show. ``upper``
        is given if outputs are few: each was seen under every input, and no new one appeared after the first draws;
        outputs that never appeared are assumed not to exist.

    Raises:
        EpsilonError: The claim, delta or confidence is out of range.
        InputError: There are fewer than two inputs, or the mechanism fails or returns another number of outputs.

    Guarantee:
        * Whatever the mechanism, ``lower`` exceeds the epsilon that it has at this delta between two of these inputs
          with a probability of at most ``(1 - confidence) / 2``, if its outputs are independent. Proof: events are
          functions of earlier draws, three for each way to count outputs, m in all. Each of at most T tests spends
          d / T, d = (1 - confidence) / 2, and each event takes up to three exact bounds (Clopper and Pearson) at level
          ``d / (3 m T)``: ``P(E | a) >= p`` and ``P(E | b) <= q``. If both hold, (epsilon, delta)-privacy implies
          ``p <= exp(epsilon) q + delta``, so epsilon is at least ``log((p - delta) / q)``. Over events and tests the
          levels add up to at most d.
        * Two outputs of one call that are not independent refute a claim for rows that each depend on their own label
          alone: ``_events`` has the proof.

    References:
        Ding et al. 2018 and Bichsel et al. 2021 (events from likelihood ratios, exact intervals); Clopper and Pearson
        1934.

    Example:
        >>> import numpy as np
        >>> def response(label, n):  # keeps a bit with probability 3/4, which is an epsilon of log 3
        ...     return np.where(np.random.default_rng().random(n) < 0.75, label, 1 - label)
        >>> audit = audit_mechanism(response, [0, 1], claim=0.9, draws=100_000)
        >>> audit.holds, 0.9 < audit.lower < 1.1
        (False, True)
    """
    claim, delta, error = check_claim(claim), _checks.delta(delta), (1.0 - check_confidence(confidence)) / 2
    total = _checks.whole(draws, "draws", _FEWEST, _MOST)
    sampler = _Sampler.of(mechanism, _check_inputs(labels), total, progress)
    parts = _draws_of_tests(total)
    pilot = [sampler.outputs(label, parts[0]) for label in range(len(sampler.labels))]
    sampler.chunk = _chunk_size(pilot[0])
    partitions = [*choose_partitions(pilot), *(() if sampler.many else (type_partition(pilot),))]
    tallies = [cell_tally(each) for each in partitions]
    past = _counts(tallies, pilot)
    tests = len(parts) - 1 + sampler.many
    best = _test_single_calls(sampler, partitions, error / tests, claim, delta, total) if sampler.many else _Evidence()
    for part in parts[1:]:
        if best.epsilon > claim:
            break
        fresh = sampler.counts(tallies, part)
        level = Level(error / tests, claim, delta, TESTED * len(tallies), part == parts[-1])
        best = max(best, _best_evidence(sampler, tallies, past, fresh, level), key=lambda each: each.epsilon)
        past = [old + new for old, new in zip(past, fresh, strict=True)]
        if sampler.many and len(tallies) == len(partitions):
            tallies += order_tallies(partitions, past)
            past += _no_counts(tallies[len(partitions) :])
    upper = _upper_bound(partitions[0], past[0], error / tests) if sampler.uniform else None
    upper = None if upper is None or upper < best.epsilon else upper
    worst = best.event or "no event that distinguishes two inputs"
    last = Level(error / tests, claim, delta, TESTED * len(tallies))
    visible = _visible_rate(parts[-1], last)
    return Audit(claim, delta, best.epsilon, upper, confidence, sampler.drawn, "sampled", worst, visible)


@dataclass(frozen=True)
class _Evidence:
    """A demonstrated epsilon, and the event that demonstrates it."""

    epsilon: float = 0.0
    event: str = ""


@dataclass(eq=False)
class _Sampler:
    """A mechanism, its inputs, and a counter of the outputs drawn."""

    mechanism: Callable[..., Any]
    labels: Sequence[Any]
    many: bool
    total: int
    progress: Progress | None
    chunk: int = _CHUNK
    drawn: int = 0
    kinds: set[Hashable | None] = field(default_factory=set)

    @classmethod
    def of(
        cls, mechanism: Callable[..., Any], labels: Sequence[Any], total: int, progress: Progress | None
    ) -> _Sampler:
        """Create a sampler; a mechanism that requires two arguments returns many outputs per call."""
        if not callable(mechanism):
            raise InputError(f"expected a mechanism that can be called, found {type(mechanism).__name__}")
        return cls(mechanism, labels, _required_arguments(mechanism) >= 2, total * len(labels), progress)

    @property
    def uniform(self) -> bool:
        """True if outputs of all calls had the same type."""
        return len(self.kinds) == 1 and None not in self.kinds

    def outputs(self, label: int, count: int) -> Any:
        """Draw outputs for one input: as an array or list from one call, or a list of the outputs of many."""
        if not self.many:
            batch = self._call(label, [None] * count)
            self.kinds.add(batch_type(batch))
            return batch
        (batch,) = self._call(label, [count])
        outputs = as_outputs(batch, count)
        self.kinds.add(batch_type(batch))
        return outputs

    def single_outputs(self, label: int, count: int) -> list[Any]:
        """Draw outputs for one input, with a call for each."""
        return [single_output(batch) for batch in self._call(label, [1] * count)]

    def _call(self, label: int, counts: Sequence[int | None]) -> list[Any]:
        """Results of calls; a call whose count is None returns one output."""
        label_value = self.labels[label]
        try:
            outputs = [self.mechanism(label_value) if n is None else self.mechanism(label_value, n) for n in counts]
        except Exception as problem:  # noqa: BLE001 (its text may show a label)
            raise InputError(
                f"expected outputs of the mechanism, found that it raised {type(problem).__name__}; "
                "call it yourself with the same input to see why"
            ) from None
        self.drawn += sum(n or 1 for n in counts)
        (self.progress or silent)("audit", min(self.drawn, self.total), self.total)
        return outputs

    def counts(self, tallies: Sequence[Tally], count: int) -> list[np.ndarray]:
        """Counts of each tally for each input, among new outputs."""
        tables, chunk = _no_counts(tallies), min(self.chunk, -(-count // _FEWEST_CALLS))
        for label in range(len(self.labels)):
            for low in range(0, count, chunk):
                _add_counts(tables, tallies, label, self.outputs(label, min(chunk, count - low)))
        return tables


def _no_counts(tallies: Sequence[Tally]) -> list[np.ndarray]:
    """Counts of each tally for each input, before any outputs."""
    return [np.zeros((len(tally.labels), tally.size), dtype=np.int64) for tally in tallies]


def _counts(tallies: Sequence[Tally], outputs: Sequence[Any]) -> list[np.ndarray]:
    """Counts of each tally for each input, among outputs of one call for each."""
    tables = _no_counts(tallies)
    for label, each in enumerate(outputs):
        _add_counts(tables, tallies, label, each)
    return tables


def _add_counts(tables: Sequence[np.ndarray], tallies: Sequence[Tally], label: int, outputs: Any) -> None:
    """Add the outputs of a call to the counts of the tallies that compare its input; cells are looked up once."""
    codes: dict[Partition, np.ndarray] = {}
    for table, tally in zip(tables, tallies, strict=True):
        if label in tally.labels:
            if tally.partition not in codes:
                codes[tally.partition] = tally.partition.codes(outputs)
            table[tally.labels.index(label)] += tally.count(codes[tally.partition])


def _required_arguments(mechanism: Callable[..., Any]) -> int:
    """Number of arguments that a function requires; one if its signature is unknown."""
    try:
        parameters = inspect.signature(mechanism).parameters.values()
    except (TypeError, ValueError):
        return 1
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in places and parameter.default is inspect.Parameter.empty for parameter in parameters)


def _check_inputs(labels: Sequence[Any]) -> list[Any]:
    """At least two distinct inputs."""
    inputs = list(labels)
    if len(inputs) < 2 or all(each is inputs[0] for each in inputs[1:]):
        raise InputError(
            f"expected at least two different inputs, found {min(len(inputs), 1)}; give the labels, or the "
            "neighbouring data sets, between which the claim is made"
        )
    return inputs


def _draws_of_tests(draws: int) -> list[int]:
    """Draws of each test, after those of the pilot: as many as all before, so that the last has half of them."""
    totals = [draws]
    while len(totals) == 1 or totals[-1] > _PILOT:
        totals.append(totals[-1] // 2)
    totals.reverse()
    return [totals[0], *(after - before for before, after in itertools.pairwise(totals))]


def _chunk_size(outputs: Any) -> int:
    """Number of outputs held in memory at a time."""
    if not isinstance(outputs, np.ndarray):
        return _OBJECTS_PER_CHUNK
    return _CHUNK if outputs.ndim == 1 else max(64, _NUMBERS_PER_CHUNK // max(1, outputs[0].size))


def _test_single_calls(
    sampler: _Sampler, partitions: Sequence[Partition], error: float, claim: float, delta: float, total: int
) -> _Evidence:
    """Evidence from single outputs, types included: half choose partitions and events, half test."""
    calls = max(_SINGLE_CALLS, min(_MOST_SINGLE_CALLS, int(60 * math.exp(min(claim, 10.0)))))
    half = max(1, min(calls, total // _DRAWS_PER_CALL) // 2)
    outputs = [[sampler.single_outputs(label, half) for label in range(len(sampler.labels))] for _ in range(2)]
    tallies = [cell_tally(each) for each in (*partitions, type_partition(outputs[0]), *exact_partitions(outputs[0]))]
    before, after = (_counts(tallies, each) for each in outputs)
    level = Level(error, claim, delta, TESTED * len(tallies))
    evidence = _best_evidence(sampler, tallies, before, after, level)
    event = f"{evidence.event}, in calls for one output each" if evidence.epsilon else ""
    return _Evidence(evidence.epsilon, event)


def _best_evidence(
    sampler: _Sampler,
    tallies: Sequence[Tally],
    past: Sequence[np.ndarray],
    fresh: Sequence[np.ndarray],
    level: Level,
) -> _Evidence:
    """Best evidence from a few events, chosen on past counts and tested on fresh ones."""
    chosen: list[tuple[Event, Tally, np.ndarray]] = []
    for tally, old, new in zip(tallies, past, fresh, strict=True):
        if tally.search == "positions" and not level.last:
            continue  # there are many, and few outputs of each
        table, part = tally.tables(old), tally.tables(new)
        found = promising_events(tally.search, table, part.sum(axis=2)[0], level)
        chosen += [(event, tally, part) for event in found]
    best = _Evidence()
    for event, tally, table in chosen:
        one, other = table[event.a, event.group], table[event.b, event.group]
        hits, misses = int(one[event.cells].sum()), int(other[event.against].sum())
        p = float(clopper_pearson_lower(hits, one.sum(), level.each))
        q = float(clopper_pearson_upper(misses, other.sum(), level.each))
        if event.fewer is not None:
            p -= float(clopper_pearson_upper(other[event.fewer].sum(), other.sum(), level.each))
        epsilon = _log_ratio_rounded_down(p, q, level.delta) / event.rows
        if epsilon > best.epsilon:
            a, b = (_input_name(sampler.labels, tally.labels[place]) for place in (event.a, event.b))
            name = tally.name(event.group, event.cells.tolist())
            best = _Evidence(epsilon, f"{name} from {a} ({hits:,} of {one.sum():,}) against {b} ({misses:,})")
    return best


def _input_name(labels: Sequence[Any], number: int) -> str:
    """Name of an input: a single label as it is; the number of anything larger, which may be data."""
    single = isinstance(labels[number], str | int | float | np.generic) or labels[number] is None
    return reprlib.repr(labels[number]) if single else f"input {number}"


def _log_ratio_rounded_down(p: float, q: float, delta: float) -> float:
    """``log((p - delta) / q)``, rounded down, and at least 0."""
    return 0.0 if p - delta <= q else max(0.0, math.log((p - delta) / q) * (1.0 - 1e-12))


def _visible_rate(part: int, level: Level) -> float | None:
    """Least probability of an event, impossible under another input, that refutes a claim with a chance of 0.9."""
    never = float(clopper_pearson_upper(0, part, level.each))

    def refutes(hits: int) -> bool:
        p = float(clopper_pearson_lower(hits, part, level.each))
        return _log_ratio_rounded_down(p, never, level.delta) > level.claim

    hits = bisect.bisect_left(range(1, part + 1), True, key=refutes) + 1
    return float(clopper_pearson_upper(hits - 1, part, 1 - _SEEN)) if hits <= part else None


def _upper_bound(partition: Partition, counts: Int[np.ndarray, "l m"], error: float) -> float | None:
    """Upper confidence bound on epsilon, assuming every possible output was observed; None otherwise."""
    if not partition.single or counts[:, partition.size - partition.rest].any():
        return None
    drawn, seen_counts = int(counts[0].sum()), counts[:, counts.any(axis=0)]
    level = error / (2 * seen_counts.size)
    most, least = (
        clopper_pearson_upper(seen_counts, drawn, level).max(axis=0),
        clopper_pearson_lower(seen_counts, drawn, level).min(axis=0),
    )
    if not (least > 0).all():
        return None
    return float(np.log(most / least).max()) * (1.0 + 1e-12)
