"""The form of a single column: type, precision, range, categories, and whether values may be missing."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from labeldp._checks import whole
from labeldp._shapes import Float, Int
from labeldp.errors import InputError

#: The largest number of different texts of a column: more would identify rows.
MOST_TEXTS = 1000
#: Numbers that need more decimals or significant digits than this count as full precision.
MOST_DIGITS = 15
_MICROSECONDS = 6
_EXACT = 1 << 52
_WIDEST = 1 << 62
_FLOAT_MAX = float(np.finfo(np.float32).max)

#: The range of whole numbers of a type; of 64-bit types two bits less, so that differences do not overflow.
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
    """The form of one column: the values that it may hold.

    Attributes:
        name: The name of the column.
        type: Its Arrow type: ``"bool"``, ``"string"``, ``"int8"`` to ``"int64"``, ``"uint8"`` to ``"uint32"``,
            ``"float"``, ``"double"``, ``"date32[day]"`` (whole days from 1970), ``"timestamp[us]"`` (whole microseconds
            from 1970), or ``"list<TYPE>[LENGTH]"`` of numbers.
        low: The least number. Floats without ``values`` need one; for whole numbers by default that of the type.
        high: The largest number.
        decimals: Number of decimals, or decimals of seconds for times; None for as many as the type has.
        digits: Significant digits of floats; None for as many as the type has.
        single: True if doubles hold single-precision numbers.
        values: All possible values: texts, or a few numbers, sorted.
        missing: True if values may be missing.
        fallback: The replacement for values that cannot fit: texts not among the values, and missing values where none
            may be missing. By default the first value, or the number nearest to 0.
        shape: For an image, the shape of the numbers in the list.

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
        return InputError(f"expected {expected} in the form of the column {self.name!r}, found {found}")

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _check_categories(self) -> None:
        values = (False, True) if self.element == FLAG else tuple(sorted(set(self.values or ()), key=str))
        kind = bool if self.element == FLAG else str
        if any(option is not None for option in (self.low, self.high, self.decimals, self.digits)) or self.single:
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
        limits = np.array([self.low, self.high, fallback], dtype=self._dtype)
        if not np.array_equal(self.nearest(limits), limits):
            raise self._wrong("a range and a fallback inside it, with these digits", "others")

    def _check_values(self) -> None:
        values = tuple(sorted({self._plain(value) for value in self.values or ()}))
        if not 0 < len(values) <= MOST_TEXTS:
            raise self._wrong(f"1 to {MOST_TEXTS} different numbers as values", f"{len(values)}")
        if any(option is not None for option in (self.decimals, self.digits)) or self.single:
            raise self._wrong("no digits where the values are listed", "some")
        if not {self.low, self.high} <= {None, values[0], values[-1]}:
            raise self._wrong("no range where the values are listed", "one")
        self._set(values=values, low=values[0], high=values[-1])

    def _check_range(self) -> None:
        least, most = WHOLE.get(self.element) or (None, None)
        low = least if self.low is None else self._plain(self.low)
        high = most if self.high is None else self._plain(self.high)
        if low is None or high is None:
            raise self._wrong("a range, low and high, for synthetic values", "none")
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
            raise self._wrong(f"at most {MOST_DIGITS} digits before and after the decimal point together", "more")

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
        """Length of the lists of numbers; None for other types."""
        match = _LIST.fullmatch(self.type)
        return int(match[2]) if match else None

    @property
    def element(self) -> str:
        """The type of a list's numbers; for other types, the type."""
        match = _LIST.fullmatch(self.type)
        return match[1] if match else self.type

    @property
    def of_numbers(self) -> bool:
        """True for numbers, and for dates and times, which are stored as integers."""
        return self.element not in (TEXT, FLAG)

    @property
    def cells(self) -> int | None:
        """Number of different values, including missing; None if values are not listed."""
        return None if self.values is None or self.width is not None else len(self.values) + self.missing

    def nearest(self, numbers: Float[np.ndarray, "n"] | Int[np.ndarray, "n"]) -> np.ndarray:
        """The nearest allowed numbers, for any numbers but NaN; times are truncated, not rounded."""
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
        """The declaration as plain data."""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}


def _closest(values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """For each number the closest of the sorted values, the lower one at a tie."""
    inside = np.clip(numbers, values[0], values[-1])
    above = np.searchsorted(values, inside)
    below = np.maximum(above - 1, 0)
    return np.asarray(np.where(inside - values[below] <= values[above] - inside, values[below], values[above]))
