"""Label spaces: the declared values that a label may take, never inferred from the labels."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp._arrays import read_only
from labeldp._shapes import Float, Int
from labeldp._spelling import canonical
from labeldp.columns import floats_or_none, result_or_none
from labeldp.errors import LabelError
from labeldp.privacy._rounding import EXACT

if TYPE_CHECKING:
    import pyarrow as pa

#: The policy that refuses missing labels; any other policy is the class or number that replaces them.
REFUSE = "refuse"
#: Beginning of the declaration that numbers were clipped.
CLIPPED = "labels beyond the declared range"
#: Beginning of the declaration of what stands for missing labels.
FILLED = "missing labels, if there were any,"
_MOST_CLASSES = 1 << 24
#: Grid points that are not computed as quotients of whole numbers, which takes a second for so many.
_MOST_SLOW_POINTS = 1 << 20
_SHOWN = 8


class LabelSpace(ABC):
    """The finite set of values that a label may take, each with a code from 0 to ``size - 1``."""

    missing: Any

    @property
    def size(self) -> int:
        """The number of classes or grid points, k."""
        return len(self.points)

    @property
    @abstractmethod
    def points(self) -> tuple[Any, ...]:
        """The classes or grid points in declared order."""

    @cached_property
    def sorted_codes(self) -> Int[np.ndarray, "k"]:
        """The codes in the sorted order of their classes, that of scikit-learn's ``classes_``, as of ``np.unique``."""
        return read_only(np.argsort(np.array(self.points), kind="stable"))

    @property
    def is_sorted(self) -> bool:
        """True if the declared order is the sorted one."""
        return bool((np.diff(self.sorted_codes) > 0).all())

    @abstractmethod
    def encode(self, labels: object, first_row: int = 0) -> Int[np.ndarray, "n"]:
        """Codes of labels: a total function on the space, and an error for everything else.

        Args:
            labels: A list, NumPy array, pandas series or Arrow array.
            first_row: The row number of the first label, for messages.

        Raises:
            LabelError: A label is missing or not in the space. The message names a row, never a label.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The declaration, for the certificate."""

    @property
    def declared(self) -> tuple[str, ...]:
        """Preprocessing of labels that the declaration implies, as sentences for the certificate."""
        return () if self.missing == REFUSE else (f"{FILLED} were taken to be {self.missing!r}",)

    @abstractmethod
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of a released label."""


@dataclass(frozen=True, eq=False)
class Classes(LabelSpace):
    """A declared, ordered list of classes.

    A label is of the class that has its text, or else of the only class with its canonical spelling: capitals, blanks
    around it, composed letters and the notation of a number do not matter.

    Args:
        values: At least two strings, whole numbers or booleans, all of one kind, which differ in more than spelling.
        missing: ``"refuse"``, or the declared class that replaces missing labels.

    Example:
        >>> space = Classes(["benign", "malignant"])
        >>> space.encode(["malignant", "benign"]).tolist()
        [1, 0]

    Raises:
        LabelError: Fewer than two classes, classes without an order, of different kinds, or alike.
    """

    values: tuple[Any, ...]
    missing: Any = REFUSE

    def __init__(self, values: Iterable[Any], missing: Any = REFUSE) -> None:
        self._declare(values, missing)
        if isinstance(values, set | frozenset):
            raise LabelError("expected classes in an order, found a set, which has none; write ['a', 'b']")
        if isinstance(self.values[0], str) and len(self._by_spelling) < len(self.values):
            one, other = next(each[:2] for each in self._by_spelling.values() if len(each) > 1)
            raise LabelError(
                f"expected different classes, found {self.values[one]!r} and {self.values[other]!r}, which differ in "
                "spelling alone. Declare one of them: it takes labels in both spellings"
            )

    def _declare(self, values: Any, missing: Any) -> None:
        """Check and take classes, even if they differ in spelling alone, as those of earlier releases may."""
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise LabelError("expected classes as a list, found a single value; write ['a', 'b']")
        classes, replacement = tuple(_python_value(value) for value in values), _python_value(missing)
        kinds = {type(value) for value in classes}
        if len(classes) < 2:
            raise LabelError(f"expected at least two declared classes, found {len(classes)}; one class hides nothing")
        if len(classes) > _MOST_CLASSES:
            raise LabelError(f"expected at most {_MOST_CLASSES} classes, found {len(classes)}")
        if len(kinds) != 1 or not kinds <= {str, int, bool}:
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise LabelError(f"expected classes that are all strings, all whole numbers or all booleans, found {names}")
        if len(set(classes)) != len(classes):
            raise LabelError("a class is declared twice; leave one of the two out")
        if kinds == {int} and not all(-(1 << 63) <= value < 1 << 63 for value in classes):
            raise LabelError("expected whole numbers that fit in 64 bits, found a larger one")
        if kinds == {str} and any(0xD800 <= ord(letter) < 0xE000 for value in classes for letter in value):
            raise LabelError("expected text that can be written as UTF-8, found half of a surrogate pair")
        if replacement != REFUSE and (type(replacement) not in kinds or replacement not in classes):
            raise LabelError(
                "expected missing='refuse' or a declared class, found something else; declare one for missing labels"
            )
        object.__setattr__(self, "values", classes)
        object.__setattr__(self, "missing", replacement)

    def __eq__(self, other: object) -> bool:
        """Equality of classes in type, value and order: False is not 0."""
        return isinstance(other, Classes) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return type(self.values[0]), self.values, type(self.missing), self.missing

    @property
    def points(self) -> tuple[Any, ...]:
        """The classes in declared order."""
        return self.values

    @cached_property
    def _by_spelling(self) -> dict[str, list[int]]:
        """The codes of the classes of each canonical spelling."""
        codes: dict[str, list[int]] = {}
        for code, value in enumerate(self.values):
            codes.setdefault(canonical(str(value).rstrip("\0")), []).append(code)
        return codes

    def text_codes(self, texts: pa.Array) -> pa.Array:
        """Codes of texts that are a class, or that have the spelling of exactly one class; null for all others.

        Args:
            texts: An Arrow array of text.
        """
        import pyarrow as pa  # noqa: PLC0415 (keeps `import labeldp` light)
        import pyarrow.compute as pc  # noqa: PLC0415

        from labeldp.columns import class_array  # noqa: PLC0415

        names = class_array(tuple(map(str, self.values)), pa.string())
        texts = texts.cast(pa.string())
        codes = pc.index_in(texts, value_set=names)
        others = pc.unique(texts.filter(pc.and_(codes.is_null(), texts.is_valid())))
        if not len(others):
            return codes
        alike = [  # a line break is of a quote that nobody closed
            () if "\n" in text or "\r" in text else self._by_spelling.get(canonical(text), ())
            for text in others.to_pylist()
        ]
        known = pa.array([found[0] if len(found) == 1 else None for found in alike], pa.int32())
        return pc.coalesce(codes, known.take(pc.index_in(texts, value_set=others)))

    def arrow_type(self) -> pa.DataType:
        """String, 64-bit integer or boolean."""
        import pyarrow as pa  # noqa: PLC0415 (keeps `import labeldp` light)

        return {str: pa.string(), int: pa.int64(), bool: pa.bool_()}[type(self.values[0])]

    def encode(self, labels: object, first_row: int = 0) -> Int[np.ndarray, "n"]:
        """Codes of labels; see ``LabelSpace.encode``."""
        import pyarrow as pa  # noqa: PLC0415 (keeps `import labeldp` light)
        import pyarrow.compute as pc  # noqa: PLC0415

        from labeldp.columns import as_array, class_array, is_text  # noqa: PLC0415

        expected = self.arrow_type()
        array = _comparable(_as_arrow(labels), expected)
        invalid = _unrepresentable(array, expected)
        representable = array if invalid is None else pc.if_else(invalid, None, array)
        if is_text(representable.type):
            codes = self.text_codes(representable)
        else:
            codes = pc.index_in(representable.cast(expected), value_set=class_array(self.values, expected))
        valid, missing = codes.is_valid(), array.is_null()
        if self.missing != REFUSE:
            codes = pc.if_else(missing, pa.scalar(self.values.index(self.missing), pa.int32()), codes)
        elif array.null_count:
            row = first_row + pc.index(missing, True).as_py()
            raise LabelError(
                f"there is no label in {row_name(row)}; declare a class and give it to "
                "missing labels with --missing (missing=), or leave such rows out"
            )
        if codes.null_count:
            place = pc.index(pc.or_(valid, missing), False).as_py()
            raise undeclared_label(array[place].as_py(), self.values, first_row + place)
        return np.asarray(as_array(codes), dtype=np.int32)

    def describe(self) -> dict[str, Any]:
        """The classes and the policy for missing labels."""
        return {"kind": "classes", "values": list(self.values), "missing": self.missing}

    def __repr__(self) -> str:
        first = ", ".join(repr(value) for value in self.values[:_SHOWN])
        more = f", ... {self.size} in all" if self.size > _SHOWN else ""
        return f"Classes([{first}{more}], missing={self.missing!r})"


def row_name(position: int) -> str:
    """The name of a row in an error: rows of tables count from 1, below the names of columns."""
    return f"row {position + 1:,} (the first is row 1)"


def undeclared_label(label: object, points: Sequence[object], row: int) -> LabelError:
    """The error for a label outside the declared classes: the kind of mistake, and never the label."""
    kind, advice = "", "declare all classes that can occur, as 'labeldp check' shows them"
    if _is_number(label) and not any(map(_is_number, points)):
        kind, advice = ", but a number", "declare numeric labels by their range, --interval LO,HI,STEP (Interval)"
    return LabelError(f"the label in {row_name(row)} is none of the {len(points)} declared classes{kind}; {advice}")


def _is_number(value: object) -> bool:
    return not isinstance(value, bool) and result_or_none(lambda: float(str(value))) is not None


@dataclass(frozen=True)
class Interval(LabelSpace):
    """A declared range of numeric labels on a declared grid.

    Before anything is drawn, a label outside the range is clipped to it and rounded to the nearest grid point (the
    upper of two equally near): both are part of the declaration.

    Args:
        low: Lowest label.
        high: Highest label.
        step: Distance of neighbouring grid points; it must divide the range, in decimals.
        missing: ``"refuse"``, or the number that replaces missing labels.

    Example:
        >>> Interval(0, 1, 0.25).encode([0.3, 7.0, -1.0]).tolist()
        [1, 4, 0]

    Raises:
        LabelError: The range is empty or not finite, or the step does not divide it.
    """

    low: float
    high: float
    step: float
    missing: Any = REFUSE
    _grid: Float[np.ndarray, "k"] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("low", "high", "step", "missing"):
            object.__setattr__(self, name, _python_value(getattr(self, name)))
        numbers = [self.low, self.high, self.step]
        if not all(_is_finite(x) for x in numbers):
            raise LabelError("expected low, high and step to be finite numbers, found something else")
        low, high, step = (Decimal(str(x)) for x in numbers)
        if not (low < high and step > 0):
            raise LabelError(
                f"expected low < high and step > 0, found {self.low:g}, {self.high:g} and {self.step:g}; give the "
                "lower end first"
            )
        if not math.isfinite(float(self.high) - float(self.low)):
            raise LabelError(f"expected a range that a float can hold, found {low} to {high}")
        if (high - low) / step >= _MOST_CLASSES:
            raise LabelError(f"expected fewer than {_MOST_CLASSES} steps, found a step of {step} for {low} to {high}")
        count, rest = EXACT.divmod(EXACT.subtract(high, low), step)
        if rest or not 1 <= count < _MOST_CLASSES:
            raise LabelError(
                f"expected a step that divides the range, found {self.step:g} for {self.low:g} to {self.high:g}; "
                "move an end of the range, or take another step"
            )
        if self.missing != REFUSE and not _is_finite(self.missing):
            raise LabelError("expected missing='refuse' or a finite number for missing labels, found something else")
        grid = _grid_points(low, step, int(count))
        if not (np.diff(grid) > 0).all():
            raise LabelError(
                f"expected a range close enough to zero for floats to distinguish its grid points, found a step "
                f"of {step} for {low} to {high}; subtract an offset from the labels"
            )
        object.__setattr__(self, "_grid", grid)

    @property
    def size(self) -> int:
        """The number of grid points, k."""
        return len(self._grid)

    @cached_property
    def points(self) -> tuple[float, ...]:
        """The grid points from low to high."""
        return tuple(self._grid.tolist())

    @property
    def declared(self) -> tuple[str, ...]:
        """Clipping to the range and rounding to the grid, and what stands for missing labels."""
        return (
            *super().declared,
            f"{CLIPPED} {self.low:.17g} to {self.high:.17g} were clipped to it, and put on the "
            f"nearest point of a grid of step {self.step:.17g}, before anything was drawn",
        )

    def arrow_type(self) -> pa.DataType:
        """64-bit floating point."""
        import pyarrow as pa  # noqa: PLC0415 (keeps `import labeldp` light)

        return pa.float64()

    def encode(self, labels: object, first_row: int = 0) -> Int[np.ndarray, "n"]:
        """Codes of the nearest grid points; see ``LabelSpace.encode``."""
        import pyarrow as pa  # noqa: PLC0415 (keeps `import labeldp` light)

        from labeldp.columns import is_number, type_name  # noqa: PLC0415

        array = result_or_none(lambda: _as_arrow(labels))
        if array is None and (floats := floats_or_none(labels)) is not None and floats.ndim == 1:
            array = _as_arrow(floats)  # numbers of types that Arrow does not know, such as integers of any length
        if array is None:
            raise LabelError("expected numbers as labels, in one dimension, found something else")
        if pa.types.is_null(array.type):
            array = pa.nulls(len(array), pa.float64())
        if not is_number(array.type):
            raise LabelError(f"expected numbers as labels, found {type_name(array.type)}; declare classes for others")
        values = np.array(array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
        missing = np.isnan(values)
        if self.missing != REFUSE:
            values[missing] = float(self.missing)
        elif missing.any():
            row = first_row + int(np.argmax(missing))
            raise LabelError(
                f"there is no label in {row_name(row)}; give missing labels a number "
                "with --missing (missing=), or leave such rows out"
            )
        places = np.floor((np.clip(values, self.low, self.high) - self.low) / self.step + 0.5)
        return np.clip(places, 0, self.size - 1).astype(np.int32)

    def describe(self) -> dict[str, Any]:
        """The range, the grid and the policy for missing labels."""
        return {
            "kind": "interval",
            "low": self.low,
            "high": self.high,
            "step": self.step,
            "missing": self.missing,
        }


def _grid_points(low: Decimal, step: Decimal, count: int) -> Float[np.ndarray, "k"]:
    """The floats nearest to the decimals ``low + i step``, for i from 0 to ``count``.

    Multiples of ``10**-places``, below ``2**53`` of them and with at most 22 places, are quotients of two whole numbers
    that floats represent exactly, so that one division rounds correctly.
    """
    places = max(0, *(-int(number.as_tuple().exponent) for number in (low, step)))
    first, each = (int(number.scaleb(places)) for number in (low, step))
    if places <= 22 and max(abs(first), abs(first + each * count)) < 1 << 53:
        return np.asarray((first + each * np.arange(count + 1)) / 10.0**places)
    if count > _MOST_SLOW_POINTS:
        raise LabelError(
            f"expected at most {_MOST_SLOW_POINTS} steps of so many digits, found {count}; give the range and the step "
            "fewer digits"
        )
    return np.array([float(low + step * i) for i in range(count + 1)])


def space_from(description: dict[str, Any]) -> LabelSpace:
    """The label space that a declaration describes."""
    fields = dict(description)
    kind = fields.pop("kind")
    if kind != "classes":
        return Interval(**fields)
    space = object.__new__(Classes)
    space._declare(**fields)
    return space


def _as_arrow(labels: object) -> pa.Array:
    """Labels as one Arrow array; NaN and None are missing."""
    import pyarrow as pa  # noqa: PLC0415 (keeps `import labeldp` light)
    import pyarrow.compute as pc  # noqa: PLC0415

    from labeldp.columns import array_or_none, plain_column  # noqa: PLC0415

    if not isinstance(labels, pa.Array | pa.ChunkedArray):
        dimensions = result_or_none(lambda: np.ndim(labels))  # type: ignore[arg-type]
        if dimensions == 2 and getattr(labels, "shape", ())[1:] == (1,):
            labels = np.asanyarray(labels)[:, 0]
        elif dimensions != 1:
            raise LabelError(f"expected labels in one dimension, found {dimensions or 'something else'}")
    array = array_or_none(labels)
    if array is None:
        raise LabelError("expected labels that are all strings, numbers or booleans, found something else")
    array = plain_column(array)
    return pc.if_else(pc.is_nan(array), None, array) if pa.types.is_floating(array.type) else array


def _unrepresentable(array: pa.Array, expected: pa.DataType) -> pa.Array | None:
    """Mask of labels that the type cannot represent, such as 1.5 among integers; None where all can be represented."""
    import pyarrow as pa  # noqa: PLC0415 (keeps `import labeldp` light)
    import pyarrow.compute as pc  # noqa: PLC0415

    if not pa.types.is_integer(expected) or array.type not in (pa.uint64(), pa.float16(), pa.float32(), pa.float64()):
        return None
    if pa.types.is_uint64(array.type):
        return pc.greater(array, pa.scalar((1 << 63) - 1, pa.uint64()))
    values = array.cast(pa.float64())
    return pc.or_(
        pc.not_equal(values, pc.floor(values)),
        pc.invert(pc.and_(pc.greater_equal(values, -float(1 << 63)), pc.less(values, float(1 << 63)))),
    )


def _python_value(value: Any) -> Any:
    """A NumPy scalar or a decimal as the equivalent Python value."""
    if isinstance(value, Decimal):
        return int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
    return value.item() if isinstance(value, np.generic) else value


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _comparable(labels: pa.Array, expected: pa.DataType) -> pa.Array:
    """Labels in a type that can be compared with classes of another, without reading "1" as 1.

    Bytes and dates have texts; decimals are compared by theirs with whole numbers.
    """
    import pyarrow as pa  # noqa: PLC0415 (keeps `import labeldp` light)
    import pyarrow.types as kinds  # noqa: PLC0415

    from labeldp.columns import is_bytes, is_number, is_text, texts_or_none, type_name  # noqa: PLC0415 (as above)

    kind, texts = labels.type, None
    if kinds.is_null(kind):
        return pa.nulls(len(labels), expected)
    same = is_text if kinds.is_string(expected) else kinds.is_boolean if kinds.is_boolean(expected) else is_number
    if same(kind) and not kinds.is_decimal(kind):
        return labels
    if same(kind) or (same is is_text and (is_bytes(kind) or kinds.is_temporal(kind))):
        texts = texts_or_none(labels)
    if texts is None:
        plain = is_text(kind) or is_number(kind) or kinds.is_boolean(kind)
        advice = "declare the classes in the type of the labels" if plain else "convert the column to text"
        raise LabelError(
            f"expected labels of type {expected} like the declared classes, found {type_name(kind)}; {advice}"
        )
    return texts
