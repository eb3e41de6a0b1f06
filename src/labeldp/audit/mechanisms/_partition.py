"""Partitions of outputs of any kind into finitely many cells, chosen on some draws and counted on others.

Each cell is a function of one output alone, and is fixed before the outputs that are tested are drawn. So counts of
cells are binomial, and bounds from them hold however badly the cells were chosen.

The type of an array is not a property of one output: a single missing value turns all numbers of a batch into floats.
So numbers are compared by value as 64-bit floats, whatever the type of their batch, and types count only if each output
comes from a call of its own.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import numbers
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from labeldp._hashes import mixed
from labeldp._shapes import Float, Int
from labeldp.audit.mechanisms._event_names import number_name, outcomes_name, output_name, ranges_name
from labeldp.audit.mechanisms._views import Codes, as_words, fit_views
from labeldp.errors import InputError

#: Outputs with a cell of their own; others share cells.
MOST_OUTCOMES = 1024
_DRAWS_PER_OUTCOME = 8
_LARGEST_LOOKUP = 1 << 20
_QUANTILES = 32
#: Values with a cell of their own among ranges: those with this share, the most common, the smallest and the largest.
_ATOM_SHARE, _ATOMS = 0.005, 8
_COLUMN_CELLS = 32
_PAIRS = 8
_SIGNIFICANT = 3.0
_MOST_ELEMENTS = 512
#: Whole numbers below it are exact as 64-bit floats.
_EXACT = 1 << 53
#: Whole numbers up to it fit an array of 64 bits, and may thus come as floats.
_LARGEST_WORD = 1 << 64


@dataclass(frozen=True, eq=False)
class Partition:
    """A partition of all possible outputs.

    Attributes:
        labels: The inputs, by number, whose outputs it distinguishes.
        size: Number of cells; the last ``rest`` of them hold the outputs outside all others.
        codes: The cell of each output.
        name: Name of the event that consists of some cells.
        rest: Number of cells at the end that are not single outputs.
        exact: True if all cells but the last ``rest`` hold one output each, among all counted so far; outputs that
            differ only by the type of their batch are left to ``batch_type``.
    """

    labels: tuple[int, ...]
    size: int
    codes: Callable[[Any], Int[np.ndarray, "n"]]
    name: Callable[[Sequence[int]], str]
    rest: int = 1
    exact: Callable[[], bool] = lambda: False

    def count(self, outputs: Any) -> Int[np.ndarray, "m"]:
        """Counts of each cell among outputs."""
        return np.bincount(self.codes(outputs), minlength=self.size)

    @property
    def single(self) -> bool:
        """True if all cells but the last ``rest`` are single outputs."""
        return self.exact()


def as_outputs(outputs: object, count: int) -> Any:
    """Outputs as an array of numbers whose first axis runs over outputs, or else as a list."""
    if not hasattr(outputs, "__len__") or isinstance(outputs, str | bytes | dict | set | frozenset):
        raise InputError(
            f"expected {count} outputs as a list or an array, found one {type(outputs).__name__}; give a function of "
            "(label, n) that returns n outputs, or one of the label alone that returns one"
        )
    array = np.asarray(outputs) if hasattr(outputs, "__array__") else _as_array(outputs)
    length = len(outputs) if array is None or not array.ndim else len(array)
    if length != count:
        raise InputError(f"expected {count} outputs, found {length}; return as many as requested")
    if array is not None and array.ndim and array.dtype.kind in "biuf":
        return array
    return list(outputs if array is None or not hasattr(outputs, "__array__") else array)  # type: ignore[call-overload]


def batch_type(outputs: Any) -> Hashable | None:
    """Type shared by the outputs of a call; None if they are lists, which may hold anything."""
    if hasattr(outputs, "__array__") and np.asarray(outputs).dtype != object:
        return type(outputs), _element_type(np.asarray(outputs))
    kinds = {(type(output), _element_type(output)) for output in outputs}
    if any(issubclass(each, list | tuple) for each, _ in kinds):
        return None
    return type(outputs), next(iter(kinds)) if len(kinds) == 1 else "several types"


def _element_type(output: Any) -> Hashable:
    """Type of the elements of an array; texts of any length have one."""
    dtype = getattr(output, "dtype", None)
    return dtype.kind if isinstance(dtype, np.dtype) and dtype.kind in "SU" else dtype


def single_output(outputs: Any) -> Any:
    """The one output of a call for one, with the type that it has."""
    as_outputs(outputs, 1)  # for its error message
    return (np.asarray(outputs) if hasattr(outputs, "__array__") else outputs)[0]


def _as_array(outputs: Any) -> np.ndarray | None:
    """Outputs of one type as an array; None if they form none."""
    if len({type(output) for output in outputs}) != 1:
        return None  # np.asarray makes texts of numbers among texts
    try:
        return np.asarray(outputs)
    except (ValueError, TypeError, OverflowError):
        return None


def choose_partitions(outputs: Sequence[Any]) -> list[Partition]:
    """Partitions that distinguish the outputs of several inputs, chosen on some outputs of each.

    The choice between numbers, rows of numbers and other objects is made here, once; later outputs are read the same
    way, one by one, whatever the form of their batch.
    """
    pilot, labels = [as_outputs(each, len(each)) for each in outputs], tuple(range(len(outputs)))
    shapes = {each.shape[1:] if isinstance(each, np.ndarray) else None for each in pilot}
    whole = all(isinstance(each, np.ndarray) and each.dtype.kind in "biu" for each in pilot)
    if shapes == {()}:
        partition = _number_partition(labels, pilot, _as_floats, number_name, whole)
        if partition.rest == 2 and whole:
            return [partition]
        return [partition, *_view_partitions(pilot, lambda outputs: _as_floats(outputs)[:, None])]
    if None not in shapes and len(shapes) == 1:
        return _vector_partitions(pilot, lambda outputs: _as_rows(outputs, pilot[0].shape[1:]))
    lists = [list(outputs) for outputs in pilot]
    keys = Counter(_value_key(output) for outputs in lists for output in outputs)
    if len(keys) * _DRAWS_PER_OUTCOME > sum(keys.values()) and all(isinstance(key, frozenset) for key in keys):
        return _set_partitions(lists, keys)
    return [_object_partition(labels, lists)]


def type_partition(pilot: Sequence[Sequence[Any]]) -> Partition:
    """Partition by type and value, or by type alone if there are many values.

    Each output has to come from a call of its own, since the outputs of one call may share a type.
    """
    keys = Counter(_typed_key(output) for outputs in pilot for output in outputs)
    few = len(keys) * _DRAWS_PER_OUTCOME <= max(sum(keys.values()), _DRAWS_PER_OUTCOME)
    common: list[Hashable] = [key for key, _ in keys.most_common(MOST_OUTCOMES)] if few else []
    places = {key: place for place, key in enumerate([*common, *dict.fromkeys(name for name, _ in keys)])}
    others = len(places)

    def codes(outputs: Sequence[Any]) -> Int[np.ndarray, "n"]:
        typed = (_typed_key(output) for output in outputs)  # a value that has no cell falls into that of its type
        return np.fromiter((places.get(key, places.get(key[0], others)) for key in typed), np.intp, len(outputs))

    return Partition(tuple(range(len(pilot))), others + 1, codes, lambda _: "an output by its type and value")


def exact_partitions(pilot: Sequence[Sequence[Any]]) -> list[Partition]:
    """Partitions of whole numbers that no float holds; each output has to come from a call of its own."""
    outputs = list(itertools.chain(*pilot))
    if not all(isinstance(output, int | np.integer) for output in outputs) or max(map(abs, map(int, outputs))) < _EXACT:
        return []
    views = fit_views([_exact_words(each) for each in pilot], True)
    return [_view(name, size, len(pilot), codes, _exact_words) for name, (codes, size) in views.items()]


def _exact_words(outputs: Sequence[Any]) -> Int[np.ndarray, "n 1"]:
    """Whole numbers by their last 64 bits; anything else is 0."""
    words = (int(output) % _LARGEST_WORD if isinstance(output, int | np.integer) else 0 for output in outputs)
    return np.fromiter(words, np.uint64, len(outputs)).view(np.int64)[:, None]


def _as_floats(outputs: Any) -> Float[np.ndarray, "n"]:
    """Outputs as 64-bit floats; NaN if not a number."""
    if isinstance(outputs, np.ndarray) and outputs.ndim == 1 and outputs.dtype.kind in "biuf":
        return outputs.astype(np.float64)
    return np.fromiter((_as_float(output) for output in outputs), np.float64, len(outputs))


def _as_float(output: Any) -> float:
    """An output as a float; NaN if not a number."""
    output = output.item() if getattr(output, "ndim", None) == 0 else output
    if not isinstance(output, numbers.Real):
        return math.nan
    try:
        return float(output)
    except OverflowError:
        return math.copysign(math.inf, output)


def _as_rows(outputs: Any, shape: tuple[int, ...]) -> Float[np.ndarray, "n d"]:
    """Outputs as rows of 64-bit floats; anything else becomes a row of NaN."""
    if isinstance(outputs, np.ndarray) and outputs.shape[1:] != shape:
        width = " x ".join(map(str, shape))
        raise InputError(
            f"expected outputs of {width} numbers each, found others in a later call; return one shape in all calls"
        )
    rows = _floats(outputs, (len(outputs), *shape))
    if rows is None:
        each = [_floats(output, shape) for output in outputs]
        rows = np.array([np.full(shape, np.nan) if row is None else row for row in each])
    return rows.reshape(len(outputs), -1)


def _floats(outputs: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """Outputs as an array of floats of this shape; None if they are none."""
    try:
        array = np.asarray(outputs, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        return None
    return array if array.shape == shape else None


def _number_partition(
    labels: tuple[int, ...],
    pilot: Sequence[Any],
    read: Callable[[Any], np.ndarray],
    name_of: Callable[[Any], str],
    exact: bool = False,
) -> Partition:
    """A cell for each number if there are few, else ranges of numbers; ``read`` makes one type of any batch."""
    parts = [read(outputs) for outputs in pilot]
    pooled = np.concatenate(parts)
    known = pooled[pooled == pooled]  # noqa: PLR0124 (NaN is not equal to itself)
    values, times = np.unique(known, return_counts=True)
    if len(values) <= MOST_OUTCOMES and len(values) * _DRAWS_PER_OUTCOME <= max(len(pooled), _DRAWS_PER_OUTCOME):
        return _value_partition(labels, values, read, name_of, exact)
    common, ends = np.argsort(-times, kind="stable")[:_ATOMS], np.r_[0:_ATOMS, len(values) - _ATOMS : len(values)]
    shown = np.union1d(np.flatnonzero(times >= _ATOM_SHARE * len(pooled)), [*common, *ends])
    atoms = values[shown].astype(np.float64)
    shares = np.concatenate([np.linspace(0, 1, _QUANTILES + 1)[1:-1], 2.0 ** -np.arange(6, 13)])
    shares = np.unique(np.concatenate([shares, 1 - shares]))
    finite = [part[np.isfinite(part)].astype(np.float64) for part in (*parts, pooled)]
    ranges = [np.quantile(part, shares) for part in finite if len(part)]
    middles = atoms[:-1] / 2 + atoms[1:] / 2  # a wide gap may hide outputs that the pilot has not seen
    edges = np.unique(np.concatenate([*ranges, atoms, np.nextafter(atoms, np.inf), middles[np.isfinite(middles)]]))

    def codes(outputs: Any) -> Int[np.ndarray, "n"]:
        drawn = read(outputs)
        places = np.searchsorted(edges, drawn, side="right")
        places[drawn != drawn] = len(edges) + 1  # noqa: PLR0124
        return places

    return Partition(labels, len(edges) + 2, codes, lambda chosen: ranges_name(edges, chosen))


def _value_partition(
    labels: tuple[int, ...],
    values: np.ndarray,
    read: Callable[[Any], np.ndarray],
    name_of: Callable[[Any], str],
    exact: bool,
) -> Partition:
    """A cell for each of a few numbers, one for all others, and one for outputs that are not numbers."""
    others, lookup = len(values), _cell_lookup(values)
    exact = exact and (values.dtype == np.uint64 or bool((np.abs(values) < _EXACT).all()))

    def codes(outputs: Any) -> Int[np.ndarray, "n"]:
        if _fits_lookup(outputs, len(lookup)):  # a shortcut to the same cells
            return np.asarray(lookup[outputs])
        drawn = read(outputs)
        places = np.minimum(np.searchsorted(values, drawn), max(others - 1, 0))
        if others:
            places = np.where(values[places] == drawn, places, others)
        places[drawn != drawn] = others + 1  # noqa: PLR0124
        return places

    name = partial(_outcomes_name, [name_of(value) for value in values])
    return Partition(labels, others + 2, codes, name, rest=2, exact=lambda: exact)


def _outcomes_name(texts: Sequence[str], chosen: Sequence[int]) -> str:
    """Name of an event of single outputs, and of the cells behind them."""
    others = len(texts)
    singles = [texts[cell] for cell in chosen if cell < others]
    return outcomes_name(singles, [cell - others for cell in chosen if cell >= others])


def _fits_lookup(outputs: Any, size: int) -> bool:
    """True if outputs are a nonempty array of whole numbers from 0 to below ``size``."""
    whole = isinstance(outputs, np.ndarray) and outputs.ndim == 1 and outputs.dtype.kind in "iu" and len(outputs) > 0
    return bool(whole and size and outputs.min() >= 0 and outputs.max() < size)


def _cell_lookup(values: np.ndarray) -> Int[np.ndarray, "v"]:
    """The cell of each whole number up to the largest value, if that is small; else empty."""
    if not len(values) or values[-1] >= _LARGEST_LOOKUP or values[0] < 0 or (values != np.floor(values)).any():
        return np.empty(0, dtype=np.intp)
    places = np.full(int(values[-1]) + 1, len(values))
    places[values.astype(np.intp)] = np.arange(len(values))
    return places


def _object_partition(labels: tuple[int, ...], lists: Sequence[Sequence[Any]]) -> Partition:
    """A cell for each of the most common outputs, and one for all others."""
    examples: dict[Hashable, Any] = {}
    keys: Counter[Hashable] = Counter()
    for output in itertools.chain(*lists):
        key = _value_key(output)
        examples.setdefault(key, output)
        keys[key] += 1
    common = [key for key, _ in keys.most_common(MOST_OUTCOMES)]
    texts = [output_name(examples[key]) for key in common]
    places = {key: place for place, key in enumerate(common)}
    others = len(common)
    known: dict[Hashable, int] = {}  # by type and value: a cell that two of them share is not a single output
    doubtful: set[Hashable] = set()

    def place(output: Any) -> int:
        typed = _typed_key(output)
        cell = known.get(typed)
        if cell is None:
            cell = places.get(_value_key(output), others)
            if cell < others and len(known) < 2 * MOST_OUTCOMES:
                known[typed] = cell
                doubtful.update(() if _determined_by_key(output) else (typed,))
        return cell

    def codes(outputs: Any) -> Int[np.ndarray, "n"]:
        return np.fromiter(map(place, outputs), np.intp, len(outputs))

    name = partial(_outcomes_name, texts)
    return Partition(labels, others + 1, codes, name, exact=lambda: not doubtful and len(known) <= others)


def _set_partitions(lists: Sequence[Sequence[Any]], keys: Counter[Hashable]) -> list[Partition]:
    """Partitions of sets that take too many values, as rows of bits."""
    times: Counter[Hashable] = Counter()
    for key, n in keys.items():
        times.update(dict.fromkeys(key, n))  # type: ignore[call-overload]
    elements = {element: place for place, (element, _) in enumerate(times.most_common(_MOST_ELEMENTS))}

    def read(outputs: Any) -> np.ndarray:
        mask = np.zeros((len(outputs), len(elements)))
        for line, output in zip(mask, outputs, strict=True):
            key = _value_key(output)
            held = key if isinstance(key, frozenset) else ()
            line[[elements[element] for element in held if element in elements]] = 1
        return mask

    return _vector_partitions(lists, read)


def _vector_partitions(pilot: Sequence[Any], read: Callable[[Any], np.ndarray]) -> list[Partition]:
    """Whole rows of numbers if there are few, and a score of rows for the pairs of inputs that differ most.

    The score is the log likelihood ratio of a row, as if columns were independent. A column contributes only if its
    value, or the range of its value, is significantly more frequent under one input than under the other.
    """
    lines = [read(outputs) for outputs in pilot]
    keys = np.random.default_rng().integers(0, (1 << 64) - 1, lines[0].shape[1], dtype=np.uint64, endpoint=True)

    def folded(outputs: Any) -> np.ndarray:
        words = np.ascontiguousarray(read(outputs)).view(np.uint64)
        return np.asarray(mixed(mixed(words) + keys).sum(axis=1, dtype=np.uint64))

    examples: dict[int, str] = {}
    for outputs, rows in zip(pilot, lines, strict=True):
        for key, row in zip(folded(outputs)[:MOST_OUTCOMES].tolist(), rows, strict=False):
            examples.setdefault(key, output_name(row))
    exact = all(
        isinstance(outputs, np.ndarray) and (outputs.dtype.kind != "f" or outputs.itemsize <= 8) for outputs in pilot
    ) and all((np.abs(rows[np.isfinite(rows)]) < _EXACT).all() for rows in lines)
    labels = tuple(range(len(pilot)))
    row_partition = _number_partition(labels, pilot, folded, lambda key: examples.get(int(key), "a row"), exact)
    partitions = [row_partition] if row_partition.rest == 2 else []
    for a, b in _far_pairs(lines):
        score = _likelihood_score(lines[a], lines[b])
        if score is not None:
            ranges = _number_partition((a, b), (pilot[a], pilot[b]), partial(_scores, score, read), str)
            partitions.append(dataclasses.replace(ranges, name=lambda _: "a score of the whole output"))
    return (partitions or [row_partition]) + ([] if row_partition.rest == 2 else _view_partitions(pilot, read))


def _scores(score: Callable[[Any], np.ndarray], read: Callable[[Any], np.ndarray], outputs: Any) -> np.ndarray:
    return score(read(outputs))


def _far_pairs(lines: Sequence[np.ndarray]) -> list[tuple[int, int]]:
    """Pairs of inputs whose columns differ most on average."""
    means = np.array([np.nan_to_num(rows.astype(np.float64)).mean(axis=0) for rows in lines])
    spread = np.array([np.nan_to_num(rows.astype(np.float64)).std(axis=0) for rows in lines]).mean(axis=0) + 1e-12
    pairs = list(itertools.combinations(range(len(lines)), 2))
    return sorted(pairs, key=lambda pair: -float((((means[pair[0]] - means[pair[1]]) / spread) ** 2).sum()))[:_PAIRS]


def _view_partitions(pilot: Sequence[Any], read: Callable[[Any], Float[np.ndarray, "n d"]]) -> list[Partition]:
    """Partitions by bits, residues and parities of outputs that take too many values."""
    rows = [read(outputs) for outputs in pilot]
    whole = all(bool((each == np.floor(each)).all()) for each in rows)
    views = fit_views([as_words(each, whole) for each in rows], whole)
    words = partial(_words, whole, read)
    return [_view(name, size, len(pilot), codes, words) for name, (codes, size) in views.items()]


def _words(whole: bool, read: Callable[[Any], np.ndarray], outputs: Any) -> Int[np.ndarray, "n d"]:
    return as_words(read(outputs), whole)


def _view(name: str, size: int, labels: int, codes: Codes, words: Callable[[Any], np.ndarray]) -> Partition:
    """Partition of outputs by a view of their words."""
    return Partition(tuple(range(labels)), size, lambda outputs: codes(words(outputs)), lambda _: name)


def _likelihood_score(first: np.ndarray, second: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
    """Log likelihood ratio of rows, from columns that distinguish two inputs; None if no column does."""
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


def _value_key(output: Any) -> Hashable:
    """Hashable value of an output: sets have no order, and 1, True and 1.0 are equal."""
    if hasattr(output, "tolist"):  # arrays, and numbers of their types
        values = output.tolist()
        return _value_key(complex(output) if isinstance(values, np.generic) else values)
    if isinstance(output, set | frozenset):
        return frozenset(_value_key(element) for element in output)
    if isinstance(output, list | tuple):
        return tuple(_value_key(element) for element in output)
    real = output.real if isinstance(output, complex) and not output.imag else output
    return _whole_or_float(real) if isinstance(real, numbers.Real) else _typed_key(output)


def _whole_or_float(value: numbers.Real) -> Hashable:
    """A number as an array would hold it: as a float, except for whole numbers too large for any array."""
    number = _as_float(value)
    if isinstance(value, int) and abs(number) > _LARGEST_WORD:
        return int(value)
    return number if number == number else "NaN", "float"  # noqa: PLR0124


def _typed_key(output: Any) -> tuple[str, Hashable]:
    """Hashable value of an output together with the names of all types in it."""
    name = type(output).__name__
    if isinstance(output, set | frozenset):
        return name, frozenset(_typed_key(element) for element in output)
    if isinstance(output, list | tuple):
        return name, tuple(_typed_key(element) for element in output)
    if isinstance(output, np.ndarray):
        return f"array of {output.dtype.name}", _typed_key(output.tolist())
    if isinstance(output, float | complex | np.generic):
        return name, repr(output)  # -0.0 is not 0.0, and NaN is NaN
    try:
        hash(output)
    except TypeError:
        return name, repr(output)
    return name, output


def _determined_by_key(output: Any) -> bool:
    """True if an output is determined by its type and value."""
    if type(output) in (list, tuple, set, frozenset):
        return all(map(_determined_by_key, output))
    if type(output) is float:
        return output == output  # noqa: PLR0124 (NaNs may differ in their bits)
    return type(output) in (bool, int, str, bytes, type(None), np.str_, np.bool_) or isinstance(output, np.integer)
