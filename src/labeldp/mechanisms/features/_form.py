"""The form of rows: types, precision, ranges, categories, and what may be missing. It is public.

Where some rows of a release are real and others are synthetic, nobody may tell them apart by anything but what they
say. So both go through one function that depends on nothing but the form, and what it gives has one type, one range,
one precision, one spelling and one way to be missing.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int

from labeldp._checks import whole
from labeldp.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

#: Texts of a column that may differ at the most: beyond it they are names of rows and not categories.
MOST_TEXTS = 1000
#: Where this many decimals or significant digits do not do, numbers are taken for full precision.
MOST_DIGITS = 15
_MICROSECONDS = 6
_EXACT = 1 << 52
_WIDEST = 1 << 62
_FLOAT_MAX = float(np.finfo(np.float32).max)

#: The least and the largest whole number of a type. 64 bits lack two, so that distances do not overflow.
WHOLE = MappingProxyType(
    {f"int{bits}": (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) for bits in (8, 16, 32)}
    | {f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32)}
    | {"date32[day]": (-(1 << 31), (1 << 31) - 1)}
    | dict.fromkeys(("int64", "timestamp[us]"), (-_WIDEST, _WIDEST))
)
REAL = MappingProxyType({"float": _FLOAT_MAX, "double": float(np.finfo(np.float64).max)})
TEXT, FLAG, DATE, TIME = "string", "bool", "date32[day]", "timestamp[us]"
_LIST = re.compile(r"list<(\w+)>\[([1-9][0-9]{0,8})\]")


@dataclass(frozen=True)
class ColumnForm:
    """What a value of one column may look like.

    Attributes:
        name: The column.
        type: Its Arrow type: ``"bool"``, ``"string"``, ``"int8"`` to ``"int64"``, ``"uint8"`` to ``"uint32"``,
            ``"float"``, ``"double"``, ``"date32[day]"`` (whole days from 1970), ``"timestamp[us]"`` (whole microseconds
            from 1970), or ``"list<TYPE>[LENGTH]"`` of numbers.
        low: The least number. Without ``values`` a float needs one; of whole numbers by default that of the type.
        high: The largest number.
        decimals: Digits behind the point, or behind the point of a time's seconds; None for as many as the type has.
        digits: Significant digits of floats; None for as many as the type has.
        single: Whether doubles hold numbers of single precision.
        values: All that may occur: texts, or a few numbers, sorted.
        missing: Whether values may be missing.
        fallback: What a value becomes that cannot be made to fit: a text that is not among the values, or what is
            missing where nothing may be. By default the first value, or the number nearest to 0.
        shape: Of an image: the shape of the numbers in the list.

    Example:
        >>> age = ColumnForm("age", "double", low=17.0, high=90.0, decimals=1)
        >>> age.nearest(np.array([3.0, 44.4444, np.inf])).tolist()
        [17.0, 44.4, 90.0]

    Raises:
        InputError: The parts do not fit together.
    """

    name: str
    type: str
    low: float | None = None
    high: float | None = None
    decimals: int | None = None
    digits: int | None = None
    single: bool = False
    values: tuple[Any, ...] | None = None
    missing: bool = False
    fallback: Any = None
    shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not isinstance(self.type, str):
            raise InputError("expected the name and the type of a column as texts, found something else")
        if self.element not in (*WHOLE, *REAL, TEXT, FLAG) or (self.width and not self.of_numbers):
            raise self._wrong("a type such as int64, double, bool, string or list<uint8>[784]", repr(self.type))
        if self.shape is not None and math.prod(self.shape) != self.width:
            raise self._wrong(f"a shape of {self.width} numbers", f"{self.shape}")
        if self.of_numbers:
            self._check_numbers()
        else:
            self._check_categories()

    def _wrong(self, expected: str, found: str) -> InputError:
        return InputError(f"expected in the form of the column {self.name!r} {expected}, found {found}")

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _check_categories(self) -> None:
        values = (False, True) if self.element == FLAG else tuple(sorted(set(self.values or ()), key=str))
        kind = bool if self.element == FLAG else str
        if any(given is not None for given in (self.low, self.high, self.decimals, self.digits)) or self.single:
            raise self._wrong("no range and no digits", "some")
        if not values or not all(isinstance(value, kind) for value in values):
            raise self._wrong("the texts that may occur as values", "none, or other types")
        if len(values) > MOST_TEXTS:
            raise self._wrong(
                f"at most {MOST_TEXTS} different texts", f"{len(values)}; leave the column out, or group its texts"
            )
        fallback = values[0] if self.fallback is None else self.fallback
        if type(fallback) is not kind or fallback not in values:
            raise self._wrong("a fallback among the values", "another one")
        self._set(values=values, fallback=fallback)

    def _check_numbers(self) -> None:
        if self.values is not None:
            self._check_values()
        self._check_range()
        self._check_digits()
        zero = self.nearest(np.zeros(1, dtype=self._dtype)).item()
        fallback = zero if self.fallback is None else self._plain(self.fallback)
        self._set(fallback=fallback)
        given = np.array([self.low, self.high, fallback], dtype=self._dtype)
        if not np.array_equal(self.nearest(given), given):
            raise self._wrong("a range and a fallback inside it, with these digits", "others")

    def _check_values(self) -> None:
        values = tuple(sorted({self._plain(value) for value in self.values or ()}))
        if not 0 < len(values) <= MOST_TEXTS:
            raise self._wrong(f"1 to {MOST_TEXTS} different numbers as values", f"{len(values)}")
        if any(given is not None for given in (self.decimals, self.digits)) or self.single:
            raise self._wrong("no digits where the values are listed", "some")
        if not {self.low, self.high} <= {None, values[0], values[-1]}:
            raise self._wrong("no range where the values are listed", "one")
        self._set(values=values, low=values[0], high=values[-1])

    def _check_range(self) -> None:
        least, most = WHOLE.get(self.element) or (None, None)
        low = least if self.low is None else self._plain(self.low)
        high = most if self.high is None else self._plain(self.high)
        if low is None or high is None:
            raise self._wrong("a range, low and high, which synthetic values are kept in", "none")
        limits = WHOLE.get(self.element) or (-REAL[self.element], REAL[self.element])
        if not limits[0] <= low <= high <= limits[1]:
            raise self._wrong(f"low <= high within the range of {self.element}", f"{low} and {high}")
        self._set(low=low, high=high)

    def _check_digits(self) -> None:
        timed, real = self.element == TIME, self.element in REAL
        if (self.decimals is not None and not (real or timed)) or (
            (self.digits is not None or self.single) and not real
        ):
            raise self._wrong("digits of floats alone", f"digits of {self.element}")
        if self.decimals is not None:
            whole(self.decimals, f"decimals of {self.name!r}", 0, _MICROSECONDS if timed else MOST_DIGITS)
        if self.digits is not None:
            whole(self.digits, f"digits of {self.name!r}", 1, MOST_DIGITS)
        if real and self.decimals is not None and self._size * 10.0**self.decimals >= _EXACT:
            raise self._wrong(f"at most {MOST_DIGITS} digits before and behind the point together", "more")

    def _plain(self, value: Any) -> float | int:
        """A number of the column's kind."""
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
            raise self._wrong("numbers", type(value).__name__)
        number = float(value)
        if not math.isfinite(number) or (self.element in WHOLE and number != value):
            raise self._wrong("finite numbers of its type", "others")
        return int(value) if self.element in WHOLE else number + 0.0

    @property
    def _size(self) -> float:
        return max(abs(float(self.low or 0)), abs(float(self.high or 0)))

    @property
    def _dtype(self) -> np.dtype[Any]:
        return np.dtype(np.int64 if self.element in WHOLE else np.float64)

    @property
    def width(self) -> int | None:
        """How many numbers a row has, where it has a list of them."""
        found = _LIST.fullmatch(self.type)
        return int(found[2]) if found else None

    @property
    def element(self) -> str:
        """The type of one number of a list, or else the type."""
        found = _LIST.fullmatch(self.type)
        return found[1] if found else self.type

    @property
    def of_numbers(self) -> bool:
        """Whether it holds numbers, or dates and times, which are whole numbers inside."""
        return self.element not in (TEXT, FLAG)

    @property
    def cells(self) -> int | None:
        """How many different values it may hold, where they are listed."""
        return None if self.values is None or self.width is not None else len(self.values) + self.missing

    def nearest(self, numbers: Float[np.ndarray, "n"] | Int[np.ndarray, "n"]) -> np.ndarray:
        """The nearest numbers that the column may hold, for any numbers but NaN; a time is cut, not rounded."""
        if self.values is not None:
            return _closest(np.array(self.values, dtype=self._dtype), numbers)
        inside = np.clip(numbers, self.low, self.high)
        if self.element in WHOLE:
            step = 10 ** (_MICROSECONDS - self.decimals) if self.decimals is not None else 1
            return np.asarray(inside - inside % step)
        if self.digits is not None:
            inside = np.array([float(f"{number:.{self.digits - 1}e}") for number in inside])
        if self.decimals is not None:
            inside = np.round(inside, self.decimals)
        if self.single or self.element == "float":
            inside = np.clip(inside, -_FLOAT_MAX, _FLOAT_MAX).astype(np.float32).astype(np.float64)
        return np.asarray(inside + 0.0)  # there is one zero

    def describe(self) -> dict[str, Any]:
        """What was declared, as plain data."""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}


def _closest(values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """For each number the closest of some sorted values, the lower one of two."""
    inside = np.clip(numbers, values[0], values[-1])
    above = np.searchsorted(values, inside)
    below = np.maximum(above - 1, 0)
    return np.asarray(np.where(inside - values[below] <= values[above] - inside, values[below], values[above]))


@dataclass(frozen=True)
class Form:
    """What rows look like, real and synthetic ones alike: their columns, in order.

    It is public: declared, or read off public rows, and never off private ones.

    Attributes:
        columns: The columns.
        of_array: Whether rows are given and handed out as a NumPy array of numbers; then there is one column, with a
            shape.

    Example:
        >>> form = Form.of({"age": [44.5, 51.0], "town": ["Ulm", "Bonn"]})
        >>> rows = form.table({"age": [-0.0, 46.7171], "town": ["Ulm", "ulm"]})
        >>> form.shaped(rows)[0].to_pylist()
        [{'age': 44.5, 'town': 'Ulm'}, {'age': 46.7, 'town': 'Bonn'}]

    Raises:
        InputError: There is no column, or a name occurs twice.
    """

    columns: tuple[ColumnForm, ...]
    of_array: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        if not self.columns or len(set(self.names)) != len(self.columns):
            raise InputError("expected at least one column, and different names, found none, or a name twice")
        if self.of_array and (len(self.columns) > 1 or self.columns[0].shape is None):
            raise InputError("expected one column with a shape for an array, found something else")

    @classmethod
    def of(cls, public: object) -> Form:
        """The form of public rows: types, ranges, digits and categories as they are there.

        Numbers may take the public values alone where these are few, at most 20 that occur 20 times on average, or
        leave gaps: at most 1 000 that occur twice on average, between which at least as many others would have the
        same digits. Else true rows would be known by values that only they have. Floats that no decimals and no
        significant digits explain are put on public ones too, the nearest of at most 1 000, evenly by rank: with all
        the digits of a float, a true row could be known by them, such as those of a whole number that was scaled. Who
        declares a ``ColumnForm`` of full precision answers for that.

        Args:
            public: A pandas or polars frame, an Arrow table, a mapping of columns; or an array of numbers of shape
                (n, ...), such as images. It must be public.

        Raises:
            InputError: A column has no type that a form knows, too many different texts, or no value at all.
        """
        from labeldp.mechanisms.features._coerce import form_of  # noqa: PLC0415 (keeps `import labeldp` light)

        return form_of(public)

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        return [column.name for column in self.columns]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of shaped rows."""
        from labeldp.mechanisms.features._coerce import schema_of  # noqa: PLC0415 (keeps `import labeldp` light)

        return schema_of(self)

    @property
    def cells(self) -> int | None:
        """How many different rows there may be, where every column lists its values; else None."""
        sizes = [column.cells for column in self.columns]
        return None if None in sizes else math.prod(size for size in sizes if size is not None)

    def table(self, rows: object) -> pa.Table:
        """Rows as an Arrow table with the form's columns, in its order; the values are as they were given.

        Args:
            rows: As in ``of``. It must have exactly these columns, each of a type that fits: numbers may be of another
                type of numbers, texts may be dictionaries.

        Raises:
            InputError: Columns are missing or too many, or have other types. Values do not matter.
        """
        from labeldp.mechanisms.features._coerce import table_of  # noqa: PLC0415 (keeps `import labeldp` light)

        return table_of(self, rows)

    def read(self, rows: object) -> pa.Table:
        """Rows whose columns may hold texts, as CSV has them, or Python objects of several types, as the form's kinds.

        Args:
            rows: A frame, an Arrow table, a mapping of columns, or an array where the form is one.

        Guarantee:
            Each value is a function of the same text alone, and any text has one: one that stands for no value of the
            column's type is missing, so that reading private rows does not fail, and tells nothing of them.
        """
        from labeldp.mechanisms.features._parse import read  # noqa: PLC0415 (keeps `import labeldp` light)

        return read(self, rows)

    def shaped(self, rows: pa.Table) -> tuple[pa.Table, Bool[np.ndarray, "n"]]:
        """Rows made to fit: numbers moved into the range and rounded, other texts replaced by the fallback.

        Args:
            rows: What ``table`` gave.

        Returns:
            The rows, whose schema is ``schema``, and which of them hold another value than before.

        Guarantee:
            * Each row of the result is a function of the same row of ``rows`` alone, and of the form: applied to
              private rows before anything is drawn, it is part of what the features are.
            * It is total: whatever the values are, it does not fail, so failing tells nothing of them.
            * What it gives it leaves as it is, so whether a row was shaped before cannot be seen.
        """
        from labeldp.mechanisms.features._coerce import shaped  # noqa: PLC0415 (keeps `import labeldp` light)

        return shaped(self, rows)

    def array(self, rows: pa.Table) -> np.ndarray:
        """Shaped rows as an array of shape (n, ...), where the form is that of an array.

        Raises:
            InputError: It is that of a table.
        """
        from labeldp.mechanisms.features._coerce import array_of  # noqa: PLC0415 (keeps `import labeldp` light)

        return array_of(self, rows)

    def describe(self) -> dict[str, Any]:
        """The form as plain data, which ``form_from`` reads back."""
        return {"columns": [column.describe() for column in self.columns], "of_array": self.of_array}


def form_from(plain: object) -> Form:
    """The form that plain data describe.

    Raises:
        InputError: They describe none.
    """
    try:
        return _form_from(plain)
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as problem:
        if isinstance(problem, InputError):
            raise
        why = type(problem).__name__
    raise InputError(f"expected the description of a form, found something else ({why})")


def _form_from(plain: Any) -> Form:
    columns = []
    for body in plain["columns"]:
        if not isinstance(body, Mapping):
            raise TypeError("expected columns")
        fields: dict[str, Any] = {key: tuple(each) if isinstance(each, list) else each for key, each in body.items()}
        columns.append(ColumnForm(**fields))
    return Form(tuple(columns), plain["of_array"] is True)
