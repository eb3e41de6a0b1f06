"""Outputs of any kind, put into finitely many cells that are chosen on some draws and counted on others.

Whatever the cells are, they are functions of one output alone, and fixed before the outputs that are tested are drawn:
so counts of them are binomial, and what is shown with them holds however badly they were chosen.
"""

from __future__ import annotations

import itertools
import numbers
import reprlib
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from labeldp.errors import InputError

#: Outputs that are told apart one by one; others share cells.
MOST_OUTCOMES = 1024
_DRAWS_PER_OUTCOME = 8
_LARGEST_LOOKUP = 1 << 20
_QUANTILES = 32
_ATOM_SHARE = 0.005
_COLUMN_CELLS = 32
_PAIRS = 8
_SIGNIFICANT = 3.0
_MOST_ELEMENTS = 512
#: Floats that are whole multiples of two to minus this, or finer.
_FINEST = 80


@dataclass(frozen=True, eq=False)
class Cells:
    """A partition of all outputs.

    Attributes:
        labels: The inputs, by number, whose outputs it is to tell apart.
        size: How many cells there are; the last ``rest`` of them hold what none of the others does.
        count: How often each cell occurs among outputs.
        name: What outputs some cells hold, in words.
        single: Whether all cells but the last ``rest`` are single outputs.
        rest: Cells at the end that are no single output.
    """

    labels: tuple[int, ...]
    size: int
    count: Callable[[Any], Int[np.ndarray, "m"]]
    name: Callable[[Sequence[int]], str]
    single: bool
    rest: int


def plain(outputs: object, count: int) -> Any:
    """Outputs as an array of numbers, of shape (n,) or (n, d), or else as a list.

    Raises:
        InputError: There are not as many as were asked for.
    """
    if not hasattr(outputs, "__len__") or isinstance(outputs, str | bytes | dict | set | frozenset):
        raise InputError(
            f"expected {count} outputs as a list or an array, found one {type(outputs).__name__}; give a function of "
            "(label, n) that returns n outputs, or one of the label alone that returns one"
        )
    array = np.asarray(outputs) if hasattr(outputs, "__array__") else _array(outputs)
    found = len(outputs) if array is None or not array.ndim else len(array)
    if found != count:
        raise InputError(f"expected {count} outputs, found {found}; return one output for each that was asked for")
    if array is not None and array.ndim and array.dtype.kind in "biuf":
        array = array.view(np.uint8) if array.dtype == np.bool_ else array
        return array if array.ndim == 1 else array.reshape(count, -1)
    return list(outputs)  # type: ignore[call-overload]


def joined(found: Sequence[Any], counts: Sequence[int | None]) -> Any:
    """The outputs of several calls; where a count is None, a call returned one output and not a list of them."""
    if counts[0] is None:
        return found
    plain(found[0], 1)  # an error that names what was expected
    if all(isinstance(part, np.ndarray) and part.dtype.kind in "biuf" for part in found):
        return np.concatenate(found)
    return [output for part in found for output in part]


def _array(outputs: Any) -> np.ndarray | None:
    """Numbers as an array; None where they are anything else."""
    if len({type(output) for output in outputs}) != 1:
        return None  # 1, True and 1.0 are different outputs
    try:
        return np.asarray(outputs)
    except (ValueError, TypeError, OverflowError):
        return None


def cells_of(pilot: Sequence[Any]) -> list[Cells]:
    """Cells that tell apart the outputs of several inputs, chosen on some outputs of each."""
    everyone = tuple(range(len(pilot)))
    shapes = {outputs.shape[1:] if isinstance(outputs, np.ndarray) else None for outputs in pilot}
    kinds = {outputs.dtype for outputs in pilot if isinstance(outputs, np.ndarray)}
    shapes = shapes if len(kinds) == 1 else {None}  # outputs of other types are other outputs
    if shapes == {()}:
        found = _number_cells(everyone, pilot, _numbers, _said_number)
        return [found] if found.single or pilot[0].dtype.kind != "f" else [found, _fineness_cells(everyone)]
    if None not in shapes and len(shapes) == 1:
        return _vector_cells(pilot, lambda outputs: _matrix(outputs, pilot[0].shape[1]))
    lists = [list(outputs) for outputs in pilot]
    keys = Counter(_key(output) for outputs in lists for output in outputs)
    if len(keys) * _DRAWS_PER_OUTCOME > sum(keys.values()) and all(isinstance(key, frozenset) for key in keys):
        return _set_cells(lists, keys)
    return [_object_cells(everyone, keys)]


def _numbers(outputs: Any) -> np.ndarray:
    """Outputs as numbers; what is none is NaN."""
    if isinstance(outputs, np.ndarray) and outputs.ndim == 1:
        return outputs
    return np.array([float(x) if isinstance(x, numbers.Real) else np.nan for x in outputs], dtype=np.float64)


def _matrix(outputs: Any, width: int) -> np.ndarray:
    """Outputs as lines of numbers."""
    if isinstance(outputs, np.ndarray) and outputs.ndim == 2 and outputs.shape[1] == width:
        return outputs
    raise InputError(f"expected outputs of {width} numbers each, found others later on; give them one form")


def _number_cells(
    labels: tuple[int, ...], pilot: Sequence[Any], read: Callable[[Any], np.ndarray], said: Callable[[Any], str]
) -> Cells:
    """A cell for each number where there are few, else ranges of numbers."""
    parts = [read(outputs) for outputs in pilot]
    kinds = {part.dtype for part in parts}
    parts = parts if len(kinds) == 1 else [part.astype(np.float64) for part in parts]
    pooled = np.concatenate(parts)
    known = pooled[pooled == pooled]  # noqa: PLR0124 (NaN is not equal to itself)
    values, times = np.unique(known, return_counts=True)
    if len(values) <= MOST_OUTCOMES and len(values) * _DRAWS_PER_OUTCOME <= max(len(pooled), _DRAWS_PER_OUTCOME):
        return _value_cells(labels, values, read, said)
    atoms = values[times >= _ATOM_SHARE * len(pooled)].astype(np.float64)
    shares = np.concatenate([np.linspace(0, 1, _QUANTILES + 1)[1:-1], 2.0 ** -np.arange(6, 13)])
    shares = np.unique(np.concatenate([shares, 1 - shares]))
    finite = [part[np.isfinite(part)].astype(np.float64) for part in (*parts, pooled)]
    ranges = [np.quantile(part, shares) for part in finite if len(part)]
    edges = np.unique(np.concatenate([*ranges, atoms, np.nextafter(atoms, np.inf)]))

    def count(outputs: Any) -> Int[np.ndarray, "m"]:
        found = read(outputs)
        codes = np.searchsorted(edges, found, side="right")
        codes[found != found] = len(edges) + 1  # noqa: PLR0124
        return np.bincount(codes, minlength=len(edges) + 2)

    return Cells(labels, len(edges) + 2, count, lambda chosen: _said_ranges(edges, chosen), single=False, rest=1)


def _fineness_cells(labels: tuple[int, ...]) -> Cells:
    """By the last bit of a float that is set, and whether the float is below one half.

    A sum of a label and noise is rounded to the bits of the larger one: whether a small sum has fine bits tells which
    label it was.

    References:
        Mironov 2012.
    """
    size = 2 * (_FINEST + 1) + 1

    def count(outputs: Any) -> Int[np.ndarray, "m"]:
        found = _numbers(outputs).astype(np.float64)
        known = np.isfinite(found)
        part, exponent = np.frexp(np.where(known, found, 0.0))
        whole = np.abs(np.ldexp(part, 53)).astype(np.int64)
        last = exponent - 53 + np.frexp((whole & -whole).astype(np.float64))[1]
        fine = np.where(whole == 0, 0, np.clip(-last, 0, _FINEST))
        codes = 2 * fine + (np.abs(found) < 0.5)
        return np.bincount(np.where(known, codes, size - 1), minlength=size)

    return Cells(labels, size, count, lambda _: "an output by its size and low bits", single=False, rest=1)


def _value_cells(
    labels: tuple[int, ...], values: np.ndarray, read: Callable[[Any], np.ndarray], said: Callable[[Any], str]
) -> Cells:
    """A cell for each of a few numbers, one for all others, one for what is no number."""
    others, size = len(values), len(values) + 2
    top = int(values[-1]) if len(values) and values.dtype.kind in "iu" and values[0] >= 0 else _LARGEST_LOOKUP
    places = np.full(top + 1, others) if top < _LARGEST_LOOKUP else None
    if places is not None:
        places[values.astype(np.intp)] = np.arange(others)

    def count(outputs: Any) -> Int[np.ndarray, "m"]:
        found = read(outputs)
        if (found.dtype.kind in "iu") != (values.dtype.kind in "iu"):
            return np.bincount(np.full(len(found), others), minlength=size)
        small = places is not None and found.dtype.kind in "iu" and len(found)
        if places is not None and small and found.min() >= 0 and found.max() <= top:
            return np.bincount(places, np.bincount(found, minlength=top + 1), size).astype(np.int64)
        codes = np.minimum(np.searchsorted(values, found), max(others - 1, 0))
        codes = np.where(values[codes] == found, codes, others) if others else np.zeros(len(found), dtype=np.intp)
        codes[found != found] = others + 1  # noqa: PLR0124
        return np.bincount(codes, minlength=size)

    def name(chosen: Sequence[int]) -> str:
        texts = [said(values[cell]) for cell in chosen if cell < others]
        return _one_of(texts, [cell - others for cell in chosen if cell >= others])

    exact = values.dtype.kind in "iu"  # of floats, 0.0 and -0.0 share a cell
    return Cells(labels, size, count, name, single=exact, rest=2)


def _object_cells(labels: tuple[int, ...], keys: Counter[Hashable]) -> Cells:
    """A cell for each of the most common outputs, and one for all others."""
    common = [key for key, _ in keys.most_common(MOST_OUTCOMES)]
    places = {key: place for place, key in enumerate(common)}
    others = len(common)
    exact = not any(isinstance(key, tuple) and key[:1] == ("float",) for key in common)  # NaNs may differ in their bits

    def count(outputs: Any) -> Int[np.ndarray, "m"]:
        codes = np.fromiter((places.get(_key(output), others) for output in outputs), np.intp, len(outputs))
        return np.bincount(codes, minlength=others + 1)

    def name(chosen: Sequence[int]) -> str:
        texts = [_said_key(common[cell]) for cell in chosen if cell < others]
        return _one_of(texts, [0 for cell in chosen if cell == others])

    return Cells(labels, others + 1, count, name, single=exact, rest=1)


def _set_cells(lists: Sequence[Sequence[Any]], keys: Counter[Hashable]) -> list[Cells]:
    """Sets of too many kinds, as lines of bits."""
    times: Counter[Hashable] = Counter()
    for key, n in keys.items():
        times.update(dict.fromkeys(key, n))  # type: ignore[call-overload]
    elements = {element: place for place, (element, _) in enumerate(times.most_common(_MOST_ELEMENTS))}

    def read(outputs: Any) -> np.ndarray:
        mask = np.zeros((len(outputs), len(elements)), dtype=np.uint8)
        for line, output in zip(mask, outputs, strict=True):
            key = _key(output)
            held = key if isinstance(key, frozenset) else ()
            line[[elements[element] for element in held if element in elements]] = 1
        return mask

    return _vector_cells(lists, read)


def _vector_cells(pilot: Sequence[Any], read: Callable[[Any], np.ndarray]) -> list[Cells]:
    """Whole lines of numbers where there are few, and for the pairs of inputs that differ most a score of each line.

    The score is the log ratio of a line's likelihoods, as if columns were independent: a column counts with how much
    more often its value, or the range that it is in, was seen under one input than under the other, if by no chance.
    """
    lines = [read(outputs) for outputs in pilot]
    keys = np.random.default_rng().integers(0, (1 << 64) - 1, lines[0].shape[1], dtype=np.uint64, endpoint=True)

    def folded(outputs: Any) -> np.ndarray:
        rows = read(outputs)
        whole = rows.astype(np.float64).view(np.uint64) if rows.dtype.kind == "f" else rows.astype(np.uint64)
        return np.asarray(_mixed(_mixed(whole) + keys).sum(axis=1, dtype=np.uint64))

    examples: dict[int, str] = {}
    for outputs, rows in zip(pilot, lines, strict=True):
        for key, row in zip(folded(outputs)[:MOST_OUTCOMES].tolist(), rows, strict=False):
            examples.setdefault(key, reprlib.repr(row.tolist()))
    whole = _number_cells(tuple(range(len(pilot))), pilot, folded, lambda key: examples.get(int(key), "a line"))
    found = [whole] if whole.single else []
    for a, b in _far_pairs(lines):
        score = _score(lines[a], lines[b])
        if score is not None:
            found.append(_score_cells((a, b), (pilot[a], pilot[b]), read, score))
    return found or [whole]


def _mixed(words: np.ndarray) -> np.ndarray:
    """Words all of whose bits depend on all bits of the given ones: two lines have one sum by chance alone (2^-64).

    References:
        Steele, Lea and Flood 2014, the last steps of SplitMix.
    """
    found = words
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(found ^ (found >> np.uint64(31)))


def _score_cells(
    labels: tuple[int, int],
    pilot: tuple[Any, Any],
    read: Callable[[Any], np.ndarray],
    score: Callable[[np.ndarray], np.ndarray],
) -> Cells:
    """Ranges of a score."""
    found = _number_cells(labels, pilot, lambda outputs: score(read(outputs)), str)
    return Cells(
        labels, found.size, found.count, lambda _: "a score of the whole output", single=False, rest=found.rest
    )


def _far_pairs(lines: Sequence[np.ndarray]) -> list[tuple[int, int]]:
    """The pairs of inputs whose columns differ most on average."""
    means = np.array([np.nan_to_num(rows.astype(np.float64)).mean(axis=0) for rows in lines])
    spread = np.array([np.nan_to_num(rows.astype(np.float64)).std(axis=0) for rows in lines]).mean(axis=0) + 1e-12
    pairs = list(itertools.combinations(range(len(lines)), 2))
    return sorted(pairs, key=lambda pair: -float((((means[pair[0]] - means[pair[1]]) / spread) ** 2).sum()))[:_PAIRS]


def _score(first: np.ndarray, second: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
    """A log likelihood ratio of lines from columns that tell two inputs apart; None where none does."""
    columns: list[tuple[int, Float[np.ndarray, "e"], Float[np.ndarray, "c"]]] = []
    for column in range(first.shape[1]):
        pooled = np.concatenate([first[:, column], second[:, column]]).astype(np.float64)
        values = np.unique(pooled[np.isfinite(pooled)])
        if len(values) > _COLUMN_CELLS:
            values = np.unique(np.quantile(values, np.linspace(0, 1, _COLUMN_CELLS + 1)[1:-1]))
        a, b = (
            np.bincount(np.searchsorted(values, rows[:, column], side="right"), minlength=len(values) + 1)
            for rows in (first, second)
        )
        scaled = b * len(first) / len(second)
        ratios = np.where(
            np.abs(a - scaled) > _SIGNIFICANT * np.sqrt(a + scaled), np.log((a + 0.5) / (scaled + 0.5)), 0
        )
        if ratios.any():
            columns.append((column, values, ratios))
    if not columns:
        return None
    return lambda rows: sum(
        (ratios[np.searchsorted(values, rows[:, column], side="right")] for column, values, ratios in columns),
        np.zeros(len(rows)),
    )


def _key(output: Any) -> Hashable:
    """An output as something that can be counted; 1, True and "1" are different, sets have no order."""
    if isinstance(output, set | frozenset):
        return frozenset(_key(element) for element in output)
    if isinstance(output, list | tuple):
        return tuple(_key(element) for element in output)
    if isinstance(output, np.ndarray):
        return "array", output.shape, output.tobytes()
    if isinstance(output, np.generic):
        return output.dtype.name, _key(output.item())
    try:
        hash(output)
    except TypeError:
        return type(output).__name__, repr(output)
    return type(output).__name__, repr(output) if isinstance(output, float) else output  # -0.0 is not 0.0


def _said_key(key: Hashable) -> str:
    """An output in words, from its key."""
    if isinstance(key, frozenset):
        return f"a set of {len(key)}"
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str):
        return reprlib.repr(key[1])
    return reprlib.repr(key)


def _said_number(value: Any) -> str:
    return f"{value.item() if hasattr(value, 'item') else value!r}"


def _one_of(texts: Sequence[str], rest: Sequence[int]) -> str:
    """Some outputs, in words."""
    texts = [*texts, *(("an output that is rarely seen", "an output that is no number")[kind] for kind in rest)]
    if len(texts) == 1:
        return texts[0] if rest else f"the output {texts[0]}"
    return f"one of {len(texts)} outputs, {texts[0]} among them"


def _said_ranges(edges: Float[np.ndarray, "e"], chosen: Sequence[int]) -> str:
    """Ranges of numbers, in words."""
    if len(edges) + 1 in chosen:
        return "an output that is no number, or in some range"
    places = enumerate(sorted(chosen))
    runs = [[cell for _, cell in run] for _, run in itertools.groupby(places, key=lambda pair: pair[1] - pair[0])]
    low, high = runs[0][0], runs[0][-1]
    start = f"at least {edges[low - 1]:.6g}" if low else ""
    end = f"below {edges[high]:.6g}" if high < len(edges) else ""
    ranges = " and ".join(part for part in (start, end) if part) or "any number"
    return f"an output {ranges}" if len(runs) == 1 else f"an output in one of {len(runs)} ranges, one {ranges}"
