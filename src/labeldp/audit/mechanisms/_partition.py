"""Outputs of any kind, put into finitely many cells that are chosen on some draws and counted on others.

Whatever the cells are, they are functions of one output alone, and fixed before the outputs that are tested are drawn:
so counts of them are binomial, and what is shown with them holds however badly they were chosen.

The type of an array is no matter of one output: a single missing value turns all numbers of a batch into floats. So
numbers are compared by value as floats of 64 bits, whatever the type of their batch, and types count only where each
output comes from a call of its own.
"""

from __future__ import annotations

import itertools
import math
import numbers
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from labeldp.audit.mechanisms._output_words import one_of, said, said_number, said_ranges
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
#: Whole numbers below are floats of 64 bits, each its own.
_EXACT = 1 << 53
#: Whole numbers up to it may come as an array of 64 bits, and so as floats.
_LARGEST_WORD = 1 << 64


@dataclass(frozen=True, eq=False)
class Cells:
    """A partition of all outputs.

    Attributes:
        labels: The inputs, by number, whose outputs it is to tell apart.
        size: How many cells there are; the last ``rest`` of them hold what none of the others does.
        count: How often each cell occurs among outputs.
        name: What outputs some cells hold, in words.
        exact: Whether all cells but the last ``rest`` hold one output each, among all that were counted so far; outputs
            that differ by the type of their batch alone are for ``kind`` to tell.
        rest: Cells at the end that are no single output.
    """

    labels: tuple[int, ...]
    size: int
    count: Callable[[Any], Int[np.ndarray, "m"]]
    name: Callable[[Sequence[int]], str]
    exact: Callable[[], bool]
    rest: int

    @property
    def single(self) -> bool:
        """Whether all cells but the last ``rest`` are single outputs."""
        return self.exact()


def _never() -> bool:
    return False


def plain(outputs: object, count: int) -> Any:
    """Outputs as an array of numbers whose first axis is that of outputs, or else as a list.

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
        return array
    return list(outputs if array is None or not hasattr(outputs, "__array__") else array)  # type: ignore[call-overload]


def kind(outputs: Any) -> Hashable | None:
    """What is common to outputs of a call besides their values; None where they are lists, which may hold anything."""
    if hasattr(outputs, "__array__") and np.asarray(outputs).dtype != object:
        return type(outputs), _type_of(np.asarray(outputs))
    kinds = {(type(output), _type_of(output)) for output in outputs}
    if any(issubclass(each, list | tuple) for each, _ in kinds):
        return None
    return type(outputs), next(iter(kinds)) if len(kinds) == 1 else "several types"


def _type_of(output: Any) -> Hashable:
    """The type of the elements of an array; texts have one, however long they are."""
    found = getattr(output, "dtype", None)
    return found.kind if isinstance(found, np.dtype) and found.kind in "SU" else found


def only(outputs: Any) -> Any:
    """The one output that a call for one returned, of the type that it has."""
    plain(outputs, 1)  # an error that names what was expected
    return (np.asarray(outputs) if hasattr(outputs, "__array__") else outputs)[0]


def _array(outputs: Any) -> np.ndarray | None:
    """Numbers as an array; None where they are anything else."""
    if len({type(output) for output in outputs}) != 1:
        return None  # np.asarray makes texts of numbers among texts
    try:
        return np.asarray(outputs)
    except (ValueError, TypeError, OverflowError):
        return None


def cells_of(outputs: Sequence[Any]) -> list[Cells]:
    """Cells that tell apart the outputs of several inputs, chosen on some outputs of each.

    Whether outputs are numbers, lines of numbers or anything else is decided here, once; outputs that come later are
    read in the same way, one by one, whatever the form of their batch.
    """
    pilot, everyone = [plain(each, len(each)) for each in outputs], tuple(range(len(outputs)))
    shapes = {each.shape[1:] if isinstance(each, np.ndarray) else None for each in pilot}
    whole = all(isinstance(each, np.ndarray) and each.dtype.kind in "biu" for each in pilot)
    if shapes == {()}:
        found = _number_cells(everyone, pilot, _numbers, said_number, whole)
        return [found] if whole else [found, _fineness_cells(everyone)]
    if None not in shapes and len(shapes) == 1:
        return _vector_cells(pilot, lambda outputs: _matrix(outputs, pilot[0].shape[1:]))
    lists = [list(outputs) for outputs in pilot]
    keys = Counter(_key(output) for outputs in lists for output in outputs)
    if len(keys) * _DRAWS_PER_OUTCOME > sum(keys.values()) and all(isinstance(key, frozenset) for key in keys):
        return _set_cells(lists, keys)
    return [_object_cells(everyone, lists)]


def type_cells(pilot: Sequence[Sequence[Any]]) -> Cells:
    """Cells that tell outputs apart by type and value, or by type alone where values are many.

    Each output has to come from a call of its own: what a call returns together may have its type in common.
    """
    keys = Counter(_typed(output) for outputs in pilot for output in outputs)
    few = len(keys) * _DRAWS_PER_OUTCOME <= max(sum(keys.values()), _DRAWS_PER_OUTCOME)
    common: list[Hashable] = [key for key, _ in keys.most_common(MOST_OUTCOMES)] if few else []
    places = {key: place for place, key in enumerate([*common, *dict.fromkeys(name for name, _ in keys)])}
    name = "an output by its type and value"
    return Cells(
        tuple(range(len(pilot))), len(places) + 1, partial(_counted_types, places), lambda _: name, _never, rest=1
    )


def _counted_types(places: dict[Hashable, int], outputs: Sequence[Any]) -> Int[np.ndarray, "m"]:
    """How often each place occurs; what has none by its value has that of its type."""
    others = len(places)
    keys = (_typed(output) for output in outputs)
    codes = np.fromiter((places.get(key, places.get(key[0], others)) for key in keys), np.intp, len(outputs))
    return np.bincount(codes, minlength=others + 1)


def _numbers(outputs: Any) -> Float[np.ndarray, "n"]:
    """Outputs as floats of 64 bits; what is no number is NaN."""
    if isinstance(outputs, np.ndarray) and outputs.ndim == 1 and outputs.dtype.kind in "biuf":
        return outputs.astype(np.float64)
    return np.fromiter((_number(output) for output in outputs), np.float64, len(outputs))


def _number(output: Any) -> float:
    """An output as a float; NaN if it is no number."""
    output = output.item() if getattr(output, "ndim", None) == 0 else output
    if not isinstance(output, numbers.Real):
        return math.nan
    try:
        return float(output)
    except OverflowError:
        return math.copysign(math.inf, output)


def _matrix(outputs: Any, shape: tuple[int, ...]) -> Float[np.ndarray, "n d"]:
    """Outputs as lines of floats of 64 bits; what is no such line has NaN alone."""
    if isinstance(outputs, np.ndarray) and outputs.shape[1:] != shape:
        width = " x ".join(map(str, shape))
        raise InputError(f"expected outputs of {width} numbers each, found others later on; give them one form")
    try:
        found = np.asarray(outputs, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        found = np.empty(0)
    if found.shape != (len(outputs), *shape):
        found = np.array([_line(output, shape) for output in outputs])
    return found.reshape(len(outputs), -1)


def _line(output: Any, shape: tuple[int, ...]) -> np.ndarray:
    """One output as an array of floats of this shape; NaN if it is none."""
    try:
        found = np.asarray(output, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        found = np.empty(0)
    return found if found.shape == shape else np.full(shape, np.nan)


def _number_cells(
    labels: tuple[int, ...],
    pilot: Sequence[Any],
    read: Callable[[Any], np.ndarray],
    said: Callable[[Any], str],
    exact: bool = False,
) -> Cells:
    """A cell for each number where there are few, else ranges of numbers; ``read`` gives one type, whatever comes."""
    parts = [read(outputs) for outputs in pilot]
    pooled = np.concatenate(parts)
    known = pooled[pooled == pooled]  # noqa: PLR0124 (NaN is not equal to itself)
    values, times = np.unique(known, return_counts=True)
    if len(values) <= MOST_OUTCOMES and len(values) * _DRAWS_PER_OUTCOME <= max(len(pooled), _DRAWS_PER_OUTCOME):
        return _value_cells(labels, values, read, said, exact)
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

    return Cells(labels, len(edges) + 2, count, lambda chosen: said_ranges(edges, chosen), _never, rest=1)


def _fineness_cells(labels: tuple[int, ...]) -> Cells:
    """By the last bit of a float that is set, and whether the float is below one half.

    A sum of a label and noise is rounded to the bits of the larger one: whether a small sum has fine bits tells which
    label it was.

    References:
        Mironov 2012.
    """
    size = 2 * (_FINEST + 1) + 1

    def count(outputs: Any) -> Int[np.ndarray, "m"]:
        found = _numbers(outputs)
        known = np.isfinite(found)
        part, exponent = np.frexp(np.where(known, found, 0.0))
        whole = np.abs(np.ldexp(part, 53)).astype(np.int64)
        last = exponent - 53 + np.frexp((whole & -whole).astype(np.float64))[1]
        fine = np.where(whole == 0, 0, np.clip(-last, 0, _FINEST))
        codes = 2 * fine + (np.abs(found) < 0.5)
        return np.bincount(np.where(known, codes, size - 1), minlength=size)

    return Cells(labels, size, count, lambda _: "an output by its size and low bits", _never, rest=1)


def _value_cells(
    labels: tuple[int, ...],
    values: np.ndarray,
    read: Callable[[Any], np.ndarray],
    said: Callable[[Any], str],
    exact: bool,
) -> Cells:
    """A cell for each of a few numbers, one for all others, one for what is no number."""
    others = len(values)
    exact = exact and (values.dtype == np.uint64 or bool((np.abs(values) < _EXACT).all()))

    return Cells(
        labels,
        others + 2,
        partial(_counted_values, values, _lookup(values), read),
        lambda chosen: one_of(
            [said(values[cell]) for cell in chosen if cell < others],
            [cell - others for cell in chosen if cell >= others],
        ),
        lambda: exact,
        rest=2,
    )


def _counted_values(
    values: np.ndarray, places: Int[np.ndarray, "v"], read: Callable[[Any], np.ndarray], outputs: Any
) -> Int[np.ndarray, "m"]:
    """How often each value occurs, any other one, and what is no number."""
    others, size = len(values), len(values) + 2
    if _within(outputs, len(places)):  # the same cells, found faster
        times = np.bincount(outputs.astype(np.intp, copy=False), minlength=len(places))
        return np.bincount(places, times, size).astype(np.int64)
    found = read(outputs)
    codes = np.minimum(np.searchsorted(values, found), max(others - 1, 0))
    codes = np.where(values[codes] == found, codes, others) if others else np.zeros(len(found), dtype=np.intp)
    codes[found != found] = others + 1  # noqa: PLR0124
    return np.bincount(codes, minlength=size)


def _within(outputs: Any, size: int) -> bool:
    """Whether outputs are an array of whole numbers from 0 to below ``size``."""
    whole = isinstance(outputs, np.ndarray) and outputs.ndim == 1 and outputs.dtype.kind in "iu" and len(outputs) > 0
    return bool(whole and size and outputs.min() >= 0 and outputs.max() < size)


def _lookup(values: np.ndarray) -> Int[np.ndarray, "v"]:
    """The cell of each whole number up to the largest of some values, if that is small; else nothing."""
    if not len(values) or values[-1] >= _LARGEST_LOOKUP or values[0] < 0 or (values != np.floor(values)).any():
        return np.empty(0, dtype=np.intp)
    places = np.full(int(values[-1]) + 1, len(values))
    places[values.astype(np.intp)] = np.arange(len(values))
    return places


def _object_cells(labels: tuple[int, ...], lists: Sequence[Sequence[Any]]) -> Cells:
    """A cell for each of the most common outputs, and one for all others."""
    examples: dict[Hashable, Any] = {}
    keys: Counter[Hashable] = Counter()
    for output in itertools.chain(*lists):
        key = _key(output)
        examples.setdefault(key, output)
        keys[key] += 1
    common = [key for key, _ in keys.most_common(MOST_OUTCOMES)]
    texts = [said(examples[key]) for key in common]
    places = {key: place for place, key in enumerate(common)}
    others = len(common)
    known: dict[Hashable, int] = {}  # by type and value: a cell that two of them share is no single output
    doubtful: set[Hashable] = set()

    def place(output: Any) -> int:
        typed = _typed(output)
        found = known.get(typed)
        if found is None:
            found = places.get(_key(output), others)
            if found < others and len(known) < 2 * MOST_OUTCOMES:
                known[typed] = found
                doubtful.update(() if _certain(output) else (typed,))
        return found

    def count(outputs: Any) -> Int[np.ndarray, "m"]:
        return np.bincount(np.fromiter(map(place, outputs), np.intp, len(outputs)), minlength=others + 1)

    def name(chosen: Sequence[int]) -> str:
        return one_of([texts[cell] for cell in chosen if cell < others], [0 for cell in chosen if cell == others])

    return Cells(labels, others + 1, count, name, lambda: not doubtful and len(known) <= others, rest=1)


def _set_cells(lists: Sequence[Sequence[Any]], keys: Counter[Hashable]) -> list[Cells]:
    """Sets of too many kinds, as lines of bits."""
    times: Counter[Hashable] = Counter()
    for key, n in keys.items():
        times.update(dict.fromkeys(key, n))  # type: ignore[call-overload]
    elements = {element: place for place, (element, _) in enumerate(times.most_common(_MOST_ELEMENTS))}

    def read(outputs: Any) -> np.ndarray:
        mask = np.zeros((len(outputs), len(elements)))
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
        words = np.ascontiguousarray(read(outputs)).view(np.uint64)
        return np.asarray(_mixed(_mixed(words) + keys).sum(axis=1, dtype=np.uint64))

    examples: dict[int, str] = {}
    for outputs, rows in zip(pilot, lines, strict=True):
        for key, row in zip(folded(outputs)[:MOST_OUTCOMES].tolist(), rows, strict=False):
            examples.setdefault(key, said(row))
    exact = all(
        isinstance(outputs, np.ndarray) and (outputs.dtype.kind != "f" or outputs.itemsize <= 8) for outputs in pilot
    ) and all((np.abs(rows[np.isfinite(rows)]) < _EXACT).all() for rows in lines)
    name = tuple(range(len(pilot)))
    whole = _number_cells(name, pilot, folded, lambda key: examples.get(int(key), "a line"), exact)
    found = [whole] if whole.rest == 2 else []
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
    return Cells(labels, found.size, found.count, lambda _: "a score of the whole output", _never, rest=found.rest)


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
    """The value of an output, as something that can be counted: sets have no order, and 1, True and 1.0 are one."""
    if hasattr(output, "tolist"):  # arrays, and numbers of their types
        found = output.tolist()
        return _key(complex(output) if isinstance(found, np.generic) else found)
    if isinstance(output, set | frozenset):
        return frozenset(_key(element) for element in output)
    if isinstance(output, list | tuple):
        return tuple(_key(element) for element in output)
    real = output.real if isinstance(output, complex) and not output.imag else output
    return _whole_or_float(real) if isinstance(real, numbers.Real) else _typed(output)


def _whole_or_float(value: numbers.Real) -> Hashable:
    """A number as an array of numbers may hold it: as a float, but for whole numbers that fit no array."""
    found = _number(value)
    if isinstance(value, int) and abs(found) > _LARGEST_WORD:
        return int(value)
    return found if found == found else "NaN", "float"  # noqa: PLR0124


def _typed(output: Any) -> tuple[str, Hashable]:
    """An output with the names of all types in it."""
    name = type(output).__name__
    if isinstance(output, set | frozenset):
        return name, frozenset(_typed(element) for element in output)
    if isinstance(output, list | tuple):
        return name, tuple(_typed(element) for element in output)
    if isinstance(output, np.ndarray):
        return f"array of {output.dtype.name}", _typed(output.tolist())
    if isinstance(output, float | complex | np.generic):
        return name, repr(output)  # -0.0 is not 0.0, and NaN is NaN
    try:
        hash(output)
    except TypeError:
        return name, repr(output)
    return name, output


def _certain(output: Any) -> bool:
    """Whether nothing but type and value belongs to an output."""
    if type(output) in (list, tuple, set, frozenset):
        return all(map(_certain, output))
    if type(output) is float:
        return output == output  # noqa: PLR0124 (NaNs may differ in their bits)
    return type(output) in (bool, int, str, bytes, type(None), np.str_, np.bool_) or isinstance(output, np.integer)
