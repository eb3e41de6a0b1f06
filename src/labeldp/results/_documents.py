"""The document that each command prints with ``--json``: its type, its schema, and its parts once it was saved.

A saved result is a file that anybody could have written. What is read of it is bounded first, and its page says so.
"""

from __future__ import annotations

import types
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from labeldp._strict_json import Schema, read, schema_of_document, strict_json
from labeldp.errors import InputError
from labeldp.results._blocks import Part

#: The largest saved result in bytes.
MOST_BYTES = 1 << 23
#: The ending of pages that depend on true labels.
HOLDER_ENDING = ".holder.html"
_NOT_CHECKED = "Taken from a saved result, which carries no proof: whoever wrote the file vouches for it."


@dataclass(frozen=True)
class DemoTable:
    """A table of invented patients, as ``labeldp demo --json`` prints it."""

    table: str
    rows: int
    next: str


@dataclass(frozen=True)
class KeyPair:
    """The files of a key pair, as ``labeldp key --json`` prints them."""

    private_key: str
    public_key: str


#: The type of each command's document.
_TYPES = {
    "demo": "DemoTable",
    "check": "Checked",
    "plan": "Planned",
    "release": "Released",
    "import": "Released",
    "stages": "StagesReleased",
    "verify": "Verified",
    "learn": "LearnedModel",
    "evaluate": "Evaluated",
    "predict": "Predicted",
    "describe": "Described",
    "account": "TotalShown",
    "ledger": "LedgerShown",
    "audit": "Audited",
    "effect": "EffectEstimated",
    "coefficients": "CoefficientsEstimated",
    "generator": "Generated",
    "key": "KeyPair",
}
#: Commands that print a list of such documents.
_LISTS = ("account",)
#: Commands whose saved results have a page: a key that tells them from others, and the function of their parts. A page
#: of a release, or of a ledger, is made from the thing itself.
_SAVED = {
    "plan": ("over_epsilon", "plan_part"),
    "learn": ("model", "learned_part"),
    "evaluate": ("scores", "evaluation_part"),
    "describe": ("described", "described_part"),
    "audit": ("audits", "audit_part"),
    "effect": ("effect", "effect_part"),
    "coefficients": ("regression", "regression_part"),
    "check": ("columns", "check_part"),
}
#: The function of the parts of each type of result.
_PARTS = {
    "Planned": "plan_part",
    "Limits": "limits_part",
    "Evaluated": "evaluation_part",
    "LearnedModel": "learned_part",
    "CalibratedSets": "sets_part",
    "Described": "described_part",
    "Description": "description_part",
    "Audited": "audit_part",
    "Checked": "check_part",
    "Effects": "effects_part",
    "EffectEstimated": "effect_part",
    "CoefficientsEstimated": "regression_part",
    "Coefficients": "coefficients_part",
    "TableRelease": "shown_release",
    "Verdict": "verdict_part",
    "Guarantee": "guarantee_part",
    "Release": "memory_part",
    "Answer": "memory_part",
}
#: The document of each type of result that is shown as one.
_AS_DOCUMENTS = {
    "Forecast": "Planned",
    "Learned": "LearnedModel",
    "PredictionSets": "CalibratedSets",
    "Audit": "Audited",
    "TableCheck": "Checked",
}
#: Commands with a document, and the types of these.
JSON_COMMANDS, DOCUMENTS = tuple(_TYPES), frozenset(_TYPES.values())


def schema_of(command: str) -> Schema:
    """The JSON Schema of what a command prints with ``--json``.

    Raises:
        KeyError: There is no such command.
    """
    kind = _named(_TYPES[command])
    document = types.GenericAlias(list, kind) if command in _LISTS else kind
    return schema_of_document(f"labeldp {command} --json", document)


def result_part(path: Path) -> Part:
    """The parts of a saved result.

    Raises:
        InputError: It is no result of a command that has a page, or larger or deeper than one.
    """
    expected = f"expected the result of {', '.join(_SAVED)}, saved with --json, in {path}"
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise InputError(f"{expected}, found more than {MOST_BYTES:,} bytes")
        body = strict_json(content.decode("utf-8"), digits=30)
    except (OSError, ValueError):
        raise InputError(f"{expected}, found something else; a release is named by its folder") from None
    command = next((each for each, (key, _) in _SAVED.items() if isinstance(body, dict) and key in body), None)
    try:
        part: Part = _named(_SAVED[command or ""][1])(read(_named(_TYPES[command or ""]), body))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # whatever a stranger wrote
        raise InputError(f"{expected}, found another document, or one of a later version; upgrade labeldp") from None
    return replace(part, lead=(*part.lead, _NOT_CHECKED))


def _named(name: str) -> Any:
    """A name of this package, which loads no more than it needs."""
    return getattr(import_module(__package__), name)


def document_of(result: object) -> object:
    """The document of a result of the library; any other result as it is."""
    name = type(result).__name__
    return _named(_AS_DOCUMENTS[name]).of(result) if name in _AS_DOCUMENTS else result


def described(result: object) -> Part:
    """The parts of a document, or of a result of the library, such as for a notebook; parts are their own.

    Raises:
        InputError: It is no result.
    """
    if isinstance(result, Part):
        return result
    document = document_of(result)
    name = type(document).__name__
    if name in _PARTS:
        part: Part = _named(_PARTS[name])(document)
        return part
    raise InputError(f"expected a result of labeldp, found {name}")
