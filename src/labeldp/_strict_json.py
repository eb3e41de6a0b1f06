"""JSON: strict documents, which others may send; and values written, described by a schema and read by their types."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import math
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np

from labeldp.errors import LabelDPError

T = TypeVar("T")
Schema = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ABSENT = "absent"
#: Whole numbers below this are exact as floats.
_WHOLE = 1 << 53
_PLAIN: Mapping[Any, Schema] = types.MappingProxyType(
    {
        bool: {"type": "boolean"},
        int: {"type": "integer"},
        float: {"type": ["number", "null"]},
        str: {"type": "string"},
        Path: {"type": "string"},
        type(None): {"type": "null"},
        object: {"type": ["string", "number", "boolean", "null"]},
    }
)
#: The deepest nesting of a document; that of a generator's form in a certificate is 8.
MOST_DEPTH = 16
#: The most digits of an integer; Python refuses to read one that is longer than 4300.
MOST_DIGITS = 4000


def strict_json(text: str, digits: int = MOST_DIGITS) -> Any:
    """The value of a document.

    Args:
        text: The document.
        digits: The most digits of an integer.

    Raises:
        ValueError: It is no JSON, or is nested too deep, or has a key twice, a number that is not finite or an integer
            that is too long. Other than of no JSON, the message names what was found.
    """

    def integer(text: str) -> int:
        if len(text) > digits:
            raise ValueError("an integer that is too long")
        if text == "-0":
            raise ValueError("zero with a sign")
        return int(text)

    try:
        body = json.loads(
            text, object_pairs_hook=_unique_keys, parse_float=_finite, parse_constant=_no_number, parse_int=integer
        )
    except (RecursionError, MemoryError):
        raise ValueError("one that is nested too deep, or too large") from None
    level = [body]
    for _ in range(MOST_DEPTH):
        level = [part for part in level if isinstance(part, dict | list)]
        level = [part for item in level for part in (item.values() if isinstance(item, dict) else item)]
    if any(isinstance(part, dict | list) for part in level):
        raise ValueError(f"one that is nested more than {MOST_DEPTH} deep")
    return body


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object without repeated keys, which readers would resolve differently."""
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a key twice")
    return unique


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number that is not finite")
    return number


def _no_number(_: str) -> NoReturn:
    raise ValueError("a number that is not finite")


class UnreadError(ValueError):
    """A value that is not of the type that was expected."""


def absent() -> Any:
    """A field that JSON leaves out where it is None."""
    return dataclasses.field(default=None, metadata={_ABSENT: True})


def plain(value: Any) -> Any:
    """A value as JSON has it: dataclasses as objects, arrays as lists, NaN and infinity as null.

    An estimate is put within its interval, which is within what can be: no share is above 1.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
        if all(found.get(name) is not None for name in ("value", "low", "high")):
            found["value"] = np.clip(found["value"], found["low"], found["high"])
        left_out = {field.name for field in dataclasses.fields(value) if _ABSENT in field.metadata}
        return {name: plain(each) for name, each in found.items() if each is not None or name not in left_out}
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


@functools.cache
def hints_of(kind: Any) -> dict[str, Any]:
    """The types of the fields of a dataclass, those of its parents in the words of their own modules."""
    found: dict[str, Any] = {}
    for each in reversed(kind.__mro__):
        own = inspect.get_annotations(each)
        if dataclasses.is_dataclass(each) and own:
            names = vars(sys.modules[_module_of(each)])
            found |= {name: _evaluated(text, names) for name, text in own.items()}
    return found


def _evaluated(annotation: Any, names: Mapping[str, Any]) -> Any:
    """An annotation of ours as a type."""
    return eval(annotation, dict(names)) if isinstance(annotation, str) else annotation  # noqa: S307 (not a stranger's)


def _module_of(kind: Any) -> str:
    """The module in which a class is written, also where it is documented in another."""
    modules = (fn.__module__ for fn in vars(kind).values() if inspect.isfunction(fn))
    return next((name for name in modules if name != dataclasses.__name__), kind.__module__)


def schema_of_document(title: str, hint: Any) -> Schema:
    """The JSON Schema of a document, in which further keys are allowed: keys are added from version to version."""
    return {"$schema": _DIALECT, "title": title, **schema(hint)}


def schema(hint: Any) -> Schema:  # noqa: PLR0911 (one for each kind of type)
    """The JSON Schema of what ``plain`` writes of a type."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return {}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [dict(each) for each in map(schema, args)]}
    if origin is typing.Literal:
        return {"enum": list(args)}
    if origin is tuple and args[-1] is not ...:
        return {"type": "array", "prefixItems": list(map(schema, args)), "minItems": len(args), "maxItems": len(args)}
    if origin in (list, tuple, Sequence):
        return {"type": "array", "items": schema(args[0])}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": schema(args[1])}
    if dataclasses.is_dataclass(hint):
        return _schema_of_fields(typing.cast("type", hint))
    return dict(_PLAIN[hint]) if hint in _PLAIN else {"type": "array" if _is_array(hint) else "object"}


def _schema_of_fields(kind: type) -> Schema:
    """The schema of a dataclass: its fields, of which JSON may leave some out."""
    hints, fields = hints_of(kind), [each for each in dataclasses.fields(kind) if each.init]
    properties = {each.name: schema(hints[each.name]) for each in fields}
    required = [name for name in properties if name not in {each.name for each in fields if _ABSENT in each.metadata}]
    return {"type": "object", "properties": properties, "required": required}


def read(hint: Any, value: Any) -> Any:  # noqa: PLR0911 (one for each kind of type)
    """A value of a type from what ``plain`` wrote of it; keys that it does not know are left alone.

    Raises:
        UnreadError: It is of another type.
    """
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _read_first(sorted(args, key=lambda each: each is not type(None)), value)
    if origin is typing.Literal:
        return _expect(value, value in args)
    if origin is tuple and args[-1] is not ...:
        return tuple(map(read, args, _expect(value, isinstance(value, list) and len(value) == len(args))))
    if origin in (list, tuple, Sequence):
        found = [read(args[0], each) for each in _expect(value, isinstance(value, list))]
        return found if origin is list else tuple(found)
    if origin in (dict, Mapping):
        return {name: read(args[1], each) for name, each in _expect(value, isinstance(value, dict)).items()}
    if dataclasses.is_dataclass(hint):
        return _read_fields(typing.cast("type", hint), value)
    return _read_array(value) if _is_array(hint) else _read_plain(hint, value)


def _read_first(hints: Sequence[Any], value: Any) -> Any:
    for each in hints:
        try:
            return read(each, value)
        except UnreadError:
            continue
    raise UnreadError


def _read_fields(kind: Any, value: Any) -> Any:
    hints, found = hints_of(kind), {}
    for each in dataclasses.fields(_expect(kind, isinstance(value, dict))):
        if each.init and each.name in value:
            found[each.name] = read(hints[each.name], value[each.name])
    try:
        return kind(**found)
    except (TypeError, ValueError, IndexError, LabelDPError):  # a key is missing, or a value is none that there can be
        raise UnreadError from None


def _read_array(value: Any) -> np.ndarray:
    """An array of whole numbers, or of numbers of which null is NaN."""
    try:
        found = np.array(_expect(value, isinstance(value, list)), dtype=np.float64)
        kinds = {type(each) for each in np.array(value, dtype=object).ravel()}
    except (TypeError, ValueError, OverflowError):
        raise UnreadError from None
    _expect(value, kinds <= {int, float, type(None)})
    return found.astype(np.int64) if kinds == {int} and (np.abs(found) < _WHOLE).all() else found


def _read_plain(hint: Any, value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint is float:
        return math.nan if value is None else float(_expect(value, number and abs(value) <= sys.float_info.max))
    if hint is int:
        return int(_expect(value, number and (isinstance(value, int) or value.is_integer())))
    if hint is object:
        return _expect(value, value is None or isinstance(value, str | int | float))
    if hint is Path:
        return Path(_expect(value, isinstance(value, str)))
    return _expect(value, isinstance(value, hint))


def _expect(value: T, holds: bool) -> T:
    if not holds:
        raise UnreadError
    return value


def _is_array(hint: Any) -> bool:
    return isinstance(hint, type) and (issubclass(hint, np.ndarray) or hasattr(hint, "array_type"))
