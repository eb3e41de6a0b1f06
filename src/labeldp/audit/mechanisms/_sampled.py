"""A lower bound of epsilon for any mechanism that can be called, from its outputs alone."""

from __future__ import annotations

import inspect
import itertools
import math
import reprlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from labeldp import _checks
from labeldp._intervals import share_above, share_below
from labeldp.audit._audit import Audit, check_claim, check_confidence
from labeldp.audit.mechanisms._partition import Cells, cells_of, kind, only, plain, type_cells
from labeldp.errors import InputError

Progress = Callable[[str, int, int], None]

_FEWEST, _MOST = 100, 1 << 48
_PILOT = 8_000
_CHUNK, _OBJECTS_PER_CHUNK, _NUMBERS_PER_CHUNK = 1 << 18, 1 << 15, 1 << 21
#: Hypotheses that are tested at a look; each costs its share of the doubt.
_TESTED = 8
_MOST_PAIRS = 512
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
    """Look for an event that tells two inputs apart by more than was claimed.

    Outputs may be numbers, texts, sets, lists or arrays of numbers, or anything with a text. Events are chosen on the
    draws of all looks before, and tested on new ones: each look doubles the draws, and a look that shows more than the
    claim is the last. A mechanism that gives many outputs at a call is also called for single ones, so that noise that
    is the same at every call, or a first or last output without noise, is noticed.

    Args:
        mechanism: ``mechanism(label, n)`` returns n independent outputs for one input; or ``mechanism(label)`` returns
            one. It is taken for the first if it needs two arguments.
        labels: At least two inputs between which the claim is made: labels of one row, or whole neighbouring data sets.
        claim: The epsilon that is claimed for every two of them, in nats.
        delta: The failure probability that is claimed with it.
        draws: Outputs for each input, at most. 100 000 show a true 1.2 against a claim of 1, a million 1.05.
        confidence: One minus the chance to accuse a sound mechanism, or to be wrong on the other side.
        progress: Called with ("audit", done, total) from time to time.

    Returns:
        ``lower`` is what was shown. ``upper`` is given where outputs are few: each was seen under every input, and none
        came up later that the first draws did not show; outputs that never came are assumed not to exist.

    Raises:
        EpsilonError: A claim, delta or confidence that none can be.
        InputError: Fewer than two inputs, or a mechanism that fails or returns another number of outputs.

    Guarantee:
        * Whatever the mechanism, ``lower`` exceeds the epsilon that it has at this delta between two of these inputs
          with a chance of at most ``(1 - confidence) / 2``, if its outputs are independent. Proof: at look j, at most
          eight events are tested, which are functions of draws before it. Each test takes two exact bounds (Clopper and
          Pearson) at level ``d / (j (j + 1) 16)``, d = (1 - confidence) / 2: ``P(E | a) >= p`` and ``P(E | b) <= q``.
          Where both hold, (epsilon, delta)-privacy says ``p <= exp(epsilon) q + delta``, so epsilon is at least
          ``log((p - delta) / q)``. Over events and looks the levels add up to at most d.
        * Memory does not grow with ``draws``.

    References:
        Ding et al. 2018 and Bichsel et al. 2021 (events from likelihood ratios, exact intervals); Clopper and Pearson
        1934.

    Example:
        >>> import numpy as np
        >>> def response(label, n):  # keeps a bit with probability 3/4, which is an epsilon of log 3
        ...     return np.where(np.random.default_rng().random(n) < 0.75, label, 1 - label)
        >>> found = audit_mechanism(response, [0, 1], claim=0.9, draws=100_000)
        >>> found.holds, 0.9 < found.lower < 1.1
        (False, True)
    """
    claim, delta, doubt = check_claim(claim), _checks.delta(delta), (1.0 - check_confidence(confidence)) / 2
    total = _checks.whole(draws, "draws", _FEWEST, _MOST)
    source = _Source.of(mechanism, _inputs(labels), total, progress)
    parts = _parts(total)
    pilot = [source.outputs(label, parts[0]) for label in range(len(source.labels))]
    source.chunk = _chunk(pilot[0])
    views = [*cells_of(pilot), *(() if source.many else (type_cells(pilot),))]
    past, drawn = [np.array([view.count(pilot[label]) for label in view.labels]) for view in views], parts[0]
    best, look = _Shown(), 0
    if source.many:
        look, best = 1, _single_calls(source, views, _Level(doubt / 2, delta), claim, total)
    for part in parts[1:]:
        if best.epsilon > claim:
            break
        look += 1
        fresh = source.counts(views, part)
        level = _Level(doubt / (look * (look + 1)), delta)
        best = max(best, _best(source, views, past, drawn, fresh, part, level), key=lambda shown: shown.epsilon)
        past, drawn = [old + new for old, new in zip(past, fresh, strict=True)], drawn + part
    upper = _upper(views[0], past[0], drawn, doubt / ((look + 1) * (look + 2))) if source.uniform else None
    upper = None if upper is None or upper < best.epsilon else upper
    worst = best.words or "no event that tells two inputs apart"
    return Audit(claim, delta, best.epsilon, upper, confidence, source.drawn, "sampled", worst)


@dataclass(frozen=True)
class _Level:
    """What a look may cost: its share of the doubt; and the delta that is claimed."""

    doubt: float
    delta: float

    @property
    def each(self) -> float:
        """The level of each of two bounds of each event that is tested."""
        return self.doubt / (2 * _TESTED)

    @property
    def caution(self) -> float:
        """About how many standard deviations such a bound is away, for the choice of events."""
        return math.sqrt(-2.0 * math.log(self.each))


@dataclass(frozen=True)
class _Shown:
    """An epsilon that was shown, and by what."""

    epsilon: float = 0.0
    words: str = ""


@dataclass(eq=False)
class _Source:
    """A mechanism and its inputs; it counts what was drawn."""

    mechanism: Callable[..., Any]
    labels: Sequence[Any]
    many: bool
    total: int
    progress: Progress | None
    chunk: int = _CHUNK
    drawn: int = 0
    kinds: set[Hashable | None] = field(default_factory=set)

    @classmethod
    def of(cls, mechanism: Callable[..., Any], labels: Sequence[Any], total: int, progress: Progress | None) -> _Source:
        """A mechanism gives many outputs at a call if it needs two arguments."""
        if not callable(mechanism):
            raise InputError(f"expected a mechanism that can be called, found {type(mechanism).__name__}")
        return cls(mechanism, labels, _needed(mechanism) >= 2, total * len(labels), progress)

    @property
    def uniform(self) -> bool:
        """Whether outputs of all calls were alike in all but their values."""
        return len(self.kinds) == 1 and None not in self.kinds

    def outputs(self, label: int, count: int) -> Any:
        """Outputs for one input: those of one call in their plain form, or of as many calls as they are."""
        if not self.many:
            found = self._called(label, [None] * count)
            self.kinds.add(kind(found))
            return found
        (found,) = self._called(label, [count])
        outputs = plain(found, count)
        self.kinds.add(kind(found))
        return outputs

    def single_outputs(self, label: int, count: int) -> list[Any]:
        """Outputs for one input, of a call for each."""
        return [only(found) for found in self._called(label, [1] * count)]

    def _called(self, label: int, counts: Sequence[int | None]) -> list[Any]:
        """What calls return; where a count is None, a call returns one output."""
        given = self.labels[label]
        try:
            found = [self.mechanism(given) if n is None else self.mechanism(given, n) for n in counts]
        except Exception as problem:  # noqa: BLE001 (its text may show a label)
            raise InputError(
                f"expected outputs of the mechanism, found that it raised {type(problem).__name__}; "
                "call it yourself with the same input to see why"
            ) from None
        self.drawn += sum(n or 1 for n in counts)
        if self.progress is not None:
            self.progress("audit", min(self.drawn, self.total), self.total)
        return found

    def counts(self, views: Sequence[Cells], count: int) -> list[np.ndarray]:
        """How often each cell occurs for each input, among so many outputs for each."""
        found = [np.zeros((len(view.labels), view.size), dtype=np.int64) for view in views]
        for label in range(len(self.labels)):
            for low in range(0, count, self.chunk):
                outputs = self.outputs(label, min(self.chunk, count - low))
                for view, table in zip(views, found, strict=True):
                    if label in view.labels:
                        table[view.labels.index(label)] += view.count(outputs)
        return found


def _needed(mechanism: Callable[..., Any]) -> int:
    """How many arguments a function needs; one where it does not say."""
    try:
        found = inspect.signature(mechanism).parameters.values()
    except (TypeError, ValueError):
        return 1
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in places and parameter.default is inspect.Parameter.empty for parameter in found)


def _inputs(labels: Sequence[Any]) -> list[Any]:
    """At least two inputs that differ."""
    found = list(labels)
    if len(found) < 2 or all(each is found[0] for each in found[1:]):
        raise InputError(
            f"expected at least two different inputs, found {min(len(found), 1)}; give the labels, or the neighbouring "
            "data sets, that the mechanism must not tell apart"
        )
    return found


def _parts(draws: int) -> list[int]:
    """Draws of each look, after those of the pilot: as many as all before, so that the last has half of them."""
    totals = [draws]
    while len(totals) == 1 or totals[-1] > _PILOT:
        totals.append(totals[-1] // 2)
    totals.reverse()
    return [totals[0], *(after - before for before, after in itertools.pairwise(totals))]


def _chunk(outputs: Any) -> int:
    """How many outputs are held at a time."""
    if not isinstance(outputs, np.ndarray):
        return _OBJECTS_PER_CHUNK
    return _CHUNK if outputs.ndim == 1 else max(64, _NUMBERS_PER_CHUNK // max(1, outputs[0].size))


def _single_calls(source: _Source, views: Sequence[Cells], level: _Level, claim: float, total: int) -> _Shown:
    """What calls for single outputs show, by their types too: half of them choose cells and events, half test them."""
    calls = max(_SINGLE_CALLS, min(_MOST_SINGLE_CALLS, int(60 * math.exp(min(claim, 10.0)))))
    half = max(1, min(calls, total // _DRAWS_PER_CALL) // 2)
    outputs = [[source.single_outputs(label, half) for label in range(len(source.labels))] for _ in range(2)]
    views = [*views, type_cells(outputs[0])]
    before, after = ([np.array([view.count(half[i]) for i in view.labels]) for view in views] for half in outputs)
    shown = _best(source, views, before, half, after, half, level)
    return _Shown(shown.epsilon, f"{shown.words}, at calls for one output each") if shown.epsilon else shown


def _best(
    source: _Source,
    views: Sequence[Cells],
    past: Sequence[np.ndarray],
    drawn: int,
    fresh: Sequence[np.ndarray],
    part: int,
    level: _Level,
) -> _Shown:
    """The best of a few events that were chosen on past counts, by fresh ones."""
    chosen = [
        (promise, view, table, event)
        for view, old, table in zip(views, past, fresh, strict=True)
        for promise, event in _promising(old, drawn, part, level)
    ]
    best = _Shown()
    for _, view, table, (a, b, cells) in sorted(chosen, key=lambda item: -item[0])[:_TESTED]:
        hits, misses = int(table[a, cells].sum()), int(table[b, cells].sum())
        p, q = float(share_above(hits, part, level.each)), float(share_below(misses, part, level.each))
        epsilon = _log_ratio_below(p, q, level.delta)
        if epsilon > best.epsilon:
            one, other = (_named(source.labels[view.labels[place]], view.labels[place]) for place in (a, b))
            words = f"{view.name(cells.tolist())} from {one} ({hits:,} of {part:,}) against {other} ({misses:,})"
            best = _Shown(epsilon, words)
    return best


def _named(given: Any, number: int) -> str:
    """A single label, which is no one's, as it is; anything larger may be data, and has a number."""
    single = isinstance(given, str | int | float | np.generic) or given is None
    return reprlib.repr(given) if single else f"input {number}"


def _log_ratio_below(p: float, q: float, delta: float) -> float:
    """``log((p - delta) / q)``, rounded down; 0 if it is less."""
    return 0.0 if p - delta <= q else max(0.0, math.log((p - delta) / q) * (1.0 - 1e-12))


def _promising(
    past: Int[np.ndarray, "l m"], drawn: int, part: int, level: _Level
) -> list[tuple[float, tuple[int, int, Int[np.ndarray, "c"]]]]:
    """For pairs of inputs, the event that should show most: the cells of the largest ratios, up to some place."""
    found = []
    for a, b in _pairs(past, drawn, level):
        order = np.argsort(-(past[a] + 0.5) / (past[b] + 0.5), kind="stable")
        p, q = (np.cumsum(past[place][order]) / drawn for place in (a, b))
        promise = _expected(p, q + 1.0 / drawn, part, level)
        place = int(np.argmax(promise))
        found.append((float(promise[place]), (a, b, order[: place + 1])))
    return sorted(found, key=lambda item: -item[0])[:_TESTED]


def _expected(p: Float[np.ndarray, "m"], q: Float[np.ndarray, "m"], part: int, level: _Level) -> Float[np.ndarray, "m"]:
    """Roughly what events of these probabilities will show."""
    z = level.caution
    low = p - level.delta - z * np.sqrt(p * (1 - np.minimum(p, 1)) / part) - 1.0 / part
    high = q + z * np.sqrt(q / part) + z**2 / part
    return np.asarray(np.log(np.maximum(low, 1e-300) / high))


def _pairs(past: Int[np.ndarray, "l m"], drawn: int, level: _Level) -> list[tuple[int, int]]:
    """All ordered pairs of inputs, or of many inputs those between which single cells differ most."""
    inputs = len(past)
    if inputs * (inputs - 1) <= _MOST_PAIRS:
        return list(itertools.permutations(range(inputs), 2))
    most, least = past.argmax(axis=0), past.argmin(axis=0)
    columns = np.arange(past.shape[1])
    promise = _expected(past[most, columns] / drawn, (past[least, columns] + 1.0) / drawn, drawn, level)
    order = np.argsort(-promise, kind="stable")[:_MOST_PAIRS]
    return [(a, b) for a, b in dict.fromkeys(zip(most[order].tolist(), least[order].tolist(), strict=True)) if a != b]


def _upper(view: Cells, counts: Int[np.ndarray, "l m"], drawn: int, doubt: float) -> float | None:
    """What epsilon is at most, if there are no outputs but those that were seen; None where that cannot be said."""
    if not view.single or counts[:, view.size - view.rest].any():
        return None
    seen = counts[:, counts.any(axis=0)]
    level = doubt / (2 * seen.size)
    most, least = share_below(seen, drawn, level).max(axis=0), share_above(seen, drawn, level).min(axis=0)
    if not (least > 0).all():
        return None
    return float(np.log(most / least).max()) * (1.0 + 1e-12)
