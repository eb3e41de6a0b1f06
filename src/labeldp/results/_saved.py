"""Results that were saved with ``--json``: read as a stranger's file, and recognized by the schema that they fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from labeldp._strict_json import strict_json
from labeldp.errors import InputError
from labeldp.results._schemas import Schema, schema_of

#: The largest saved result in bytes.
MOST_BYTES = 1 << 23
#: Commands whose saved results have a page. A page of a release, or of a ledger, is made from the thing itself.
COMMANDS = ("plan", "learn", "evaluate", "audit", "check")

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
}


def saved_result(path: Path) -> tuple[str, dict[str, Any]]:
    """The command whose result a file holds, and the result.

    Raises:
        InputError: It is no result of a command that has a page, or larger or deeper than one.
    """
    expected = f"expected the result of {', '.join(COMMANDS)}, saved with --json, in {path}"
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise InputError(f"{expected}, found more than {MOST_BYTES:,} bytes")
        body = strict_json(content.decode("utf-8"), digits=30)
    except (OSError, ValueError):
        raise InputError(f"{expected}, found something else; a release is named by its folder") from None
    fitting = [command for command in COMMANDS if fits(body, schema_of(command))]
    if not fitting:
        raise InputError(f"{expected}, found another document, or one of a later version; upgrade labeldp")
    return max(fitting, key=lambda command: len(schema_of(command)["required"])), body


def fits(value: Any, schema: Schema) -> bool:
    """True if a value is of a schema, in the part of JSON Schema that ours are written in.

    Raises:
        KeyError: The schema uses another part.
    """
    return all(_RULES[name](value, rule, schema) for name, rule in schema.items() if name not in _ABOUT)


def _has_type(value: Any, kinds: str | list[str], _: Schema) -> bool:
    return any(_TYPES[kind](value) for kind in ([kinds] if isinstance(kinds, str) else kinds))


def _of_properties(value: Any, properties: Mapping[str, Schema], _: Schema) -> bool:
    return not isinstance(value, dict) or all(
        fits(value[name], rule) for name, rule in properties.items() if name in value
    )


def _of_others(value: Any, rule: Schema, schema: Schema) -> bool:
    named = schema.get("properties", {})
    return not isinstance(value, dict) or all(fits(part, rule) for name, part in value.items() if name not in named)


def _of_items(value: Any, rule: Schema, _: Schema) -> bool:
    return not isinstance(value, list) or all(fits(part, rule) for part in value)


def _of_places(value: Any, rules: list[Schema], _: Schema) -> bool:
    return not isinstance(value, list) or all(fits(part, rule) for part, rule in zip(value, rules, strict=False))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


#: Keys that describe a schema and refuse nothing.
_ABOUT = ("$schema", "title")
_RULES: Mapping[str, Callable[[Any, Any, Schema], bool]] = {
    "type": _has_type,
    "properties": _of_properties,
    "additionalProperties": _of_others,
    "required": lambda value, names, _: not isinstance(value, dict) or all(name in value for name in names),
    "items": _of_items,
    "prefixItems": _of_places,
    "anyOf": lambda value, rules, _: any(fits(value, rule) for rule in rules),
    "enum": lambda value, known, _: value in known,
    "const": lambda value, known, _: type(value) is type(known) and value == known,
    "minimum": lambda value, least, _: not _is_number(value) or value >= least,
    "maximum": lambda value, most, _: not _is_number(value) or value <= most,
    "minItems": lambda value, least, _: not isinstance(value, list) or len(value) >= least,
    "maxItems": lambda value, most, _: not isinstance(value, list) or len(value) <= most,
}
