"""Inner loops in C, compiled ahead of time: loaded by ctypes, and called without the interpreter's lock.

A kernel is declared in Python by its signature and written in C under the same name, in the folder ``_c``. A call
checks the type, the shape and the layout of each array, since C checks nothing.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import operator
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: The library, which is made when the package is installed; a name in .so would make it a module of Python.
LIBRARY = Path(__file__).parent / "_c" / "library.bin"
_ARRAY = re.compile(r"""(\w+)\[np\.ndarray, ["']([^"']*)["']\]""")
_KINDS = {
    "Bool": np.dtype(np.bool_),
    "UInt8": np.dtype(np.uint8),
    "Int16": np.dtype(np.int16),
    "Int32": np.dtype(np.int32),
    "Int64": np.dtype(np.int64),
    "UInt64": np.dtype(np.uint64),
    "Float32": np.dtype(np.float32),
    "Float64": np.dtype(np.float64),
}
#: The C types of numbers, and the least and the largest that fit where C would cut them off without a word.
_SCALARS = {
    "int": (ctypes.c_int64, (-(1 << 63), (1 << 63) - 1)),
    "Word": (ctypes.c_uint64, (0, (1 << 64) - 1)),
    "float": (ctypes.c_double, None),
    "bool": (ctypes.c_bool, None),
}

#: A whole number of 64 bits without a sign.
Word = int


class ArrayParameter(NamedTuple):
    """An array that a kernel reads or writes.

    Attributes:
        name: Its name.
        entries: The type of its entries.
        sizes: A symbol or a number for the size of each dimension.
        written: True if the kernel writes to it.
    """

    name: str
    entries: np.dtype[Any]
    sizes: tuple[str, ...]
    written: bool

    @property
    def kind(self) -> Any:
        """Its C type."""
        return ctypes.c_void_p

    def take(self, value: np.ndarray, known: dict[str, int]) -> np.ndarray:
        """The array as C reads it; sizes that are not known yet are added to those that are.

        What is only read may come in another layout or type, if that type holds the same numbers.
        """
        if value.dtype != self.entries or not value.flags.c_contiguous or (self.written and not value.flags.writeable):
            value = self._converted(value)
        agree = len(value.shape) == len(self.sizes)
        for symbol, size in zip(self.sizes, value.shape, strict=False):
            agree &= size == (int(symbol) if symbol.isdigit() else known.setdefault(symbol, size))
        if not agree:
            raise ValueError(f"expected {self.name} of shape {self.sizes} where {known}, found {value.shape}")
        return value

    def _converted(self, value: np.ndarray) -> np.ndarray:
        whole = self.entries.kind in "iu" and value.dtype.kind in "iub"
        if self.written or not (whole or np.can_cast(value.dtype, self.entries, "safe")):
            raise TypeError(f"expected {self.name} as an array of {self.entries} in rows, found {value.dtype}")
        converted = np.ascontiguousarray(value, dtype=self.entries)
        if whole and not np.array_equal(converted, value):
            raise ValueError(f"expected {self.name} to fit into {self.entries}, found larger numbers")
        return converted


class NumberParameter(NamedTuple):
    """A number that a kernel is given.

    Attributes:
        name: Its name.
        kind: Its C type.
        ends: The least and the largest number of that type; None for those that are not whole.
    """

    name: str
    kind: Any
    ends: tuple[int, int] | None

    def take(self, value: Any, _known: dict[str, int]) -> Any:
        """The number as C reads it."""
        if self.ends is None:
            return value
        whole = operator.index(value)
        if not self.ends[0] <= whole <= self.ends[1]:
            raise OverflowError(f"expected {self.name} from {self.ends[0]} to {self.ends[1]}")
        return whole


Parameter = ArrayParameter | NumberParameter


def kernel(*written: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Declare a kernel by a function without a body.

    Its annotations are those of arrays with shapes, ``int`` and ``Word`` (64 bits), ``float`` and
    ``bool``. The C
    function takes each size once, in the order in which symbols appear, and then the arguments.

    Args:
        *written: The names of the arrays that it writes.
    """

    def bind(function: Callable[_P, _R]) -> Callable[_P, _R]:
        parameters, result = signature_of(function, written)
        foreign = getattr(_library, function.__name__)
        foreign.argtypes = [ctypes.c_int64] * len(symbols_of(parameters)) + [each.kind for each in parameters]
        foreign.restype = result

        def call(*values: Any) -> Any:
            sizes: dict[str, int] = {}
            taken = [each.take(value, sizes) for each, value in zip(parameters, values, strict=True)]
            passed = [each.ctypes.data if isinstance(each, np.ndarray) else each for each in taken]
            return foreign(*sizes.values(), *passed)

        return functools.update_wrapper(call, function)  # type: ignore[return-value]

    return bind


def signature_of(function: Callable[..., Any], written: tuple[str, ...]) -> tuple[list[Parameter], Any]:
    """The parameters of a declaration, and the C type of its result."""
    parameters: list[Parameter] = []
    annotations = inspect.get_annotations(function)
    result = annotations.pop("return")
    for name, annotation in annotations.items():
        array = _ARRAY.fullmatch(annotation)
        if array:
            parameters.append(ArrayParameter(name, _KINDS[array[1]], tuple(array[2].split()), name in written))
        else:
            parameters.append(NumberParameter(name, *_SCALARS[annotation]))
    return parameters, None if result == "None" else _SCALARS[result][0]


def symbols_of(parameters: Iterable[Parameter]) -> list[str]:
    """The symbols of sizes, each once."""
    sizes = (size for each in parameters if isinstance(each, ArrayParameter) for size in each.sizes)
    return list(dict.fromkeys(size for size in sizes if not size.isdigit()))


_library = ctypes.CDLL(str(LIBRARY))
