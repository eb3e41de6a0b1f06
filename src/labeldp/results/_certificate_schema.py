"""JSON Schema of a certificate, and of a declaration: ``docs/certificate-format.md`` says what fields and laws mean.

It is written, not derived: a certificate is stricter than types are. Its integers are decimal texts of bounded length,
its objects are closed, each law is known by its kind, and it nests what ``Certificate`` has as flat fields.
"""

from __future__ import annotations

from collections.abc import Mapping

from labeldp._strict_json import Schema

_TEXT: Schema = {"type": "string"}
_ROWS: Schema = {"type": "integer", "minimum": 0, "maximum": (1 << 53) - 1}
_NUMBER: Schema = {"type": "number", "minimum": 0}
_INTEGER: Schema = {"type": "string", "pattern": "^(0|-?[1-9][0-9]*)$", "maxLength": 100}
_DECIMAL: Schema = {"type": "string", "pattern": "^-?[0-9]+(\\.[0-9]+)?(e[+-]?[0-9]+)?$"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_INTEGERS: Schema = {"type": "array", "items": _INTEGER}
_MATRIX: Schema = {"type": "array", "items": _INTEGERS}


def _closed(properties: Mapping[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    """An object with these keys and no others."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


def _channel(kind: str, by_row: str = "", **fields: Schema) -> Schema:
    """The law of a channel: its kind, the length of words, the classes, columns by row, and its integers."""
    rows: Schema = {"const": [by_row] if by_row else []}
    common: dict[str, Schema] = {"kind": {"const": kind}, "bits": {"const": "64"}, "classes": _INTEGER, "by_row": rows}
    return _closed(common | fields)


def _answer(kind: str, optional: tuple[str, ...] = ("rows",), **fields: Schema) -> Schema:
    """The law of an answer with noise of a rational rate."""
    noise = dict.fromkeys(("rate", "parts", "sensitivity", "labels_of_a_unit"), _INTEGER)
    rows: Schema = {"anyOf": [_INTEGERS, {"enum": ["all", "not listed"]}]}
    return _closed({"kind": {"const": kind}, **noise, **fields, "rows": rows}, optional)


_SINGLE = (
    _channel("response", keep=_INTEGER, other=_INTEGER),
    _channel("subset", size=_INTEGER, member=_INTEGER),
    _channel("bits", true=_INTEGER, false=_INTEGER),
    _channel("projective", order=_INTEGER, member=_INTEGER),
    _channel("matrix", weights=_MATRIX, slack=_INTEGER),
    _channel("grid", weights=_MATRIX, values=_INTEGERS),
    _channel("bins", starts=_INTEGERS, keep=_INTEGER, other=_INTEGER, values=_INTEGERS),
)
#: The kinds that a declaration may have, by which classes or sets of them leave, by one law for all rows.
_OF_CLASSES = ("response", "subset", "bits", "projective", "coarsening")
_GROUPS: dict[str, Schema] = {"channels": {"type": "array", "items": {"anyOf": list(_SINGLE)}}, "repeats": _INTEGERS}
_LAWS = (
    *_SINGLE,
    _channel("candidates", "candidates", keep=_INTEGERS, other=_INTEGERS),
    _channel("candidate-subset", "candidates", size=_INTEGERS, member=_INTEGERS),
    _channel("coarsening", "firsts", keep=_INTEGERS, other=_INTEGERS),
    _channel("cluster", "clusters", keep=_INTEGERS, weights=_MATRIX),
    _channel("grouped", "groups", **_GROUPS),
    _channel("grouped-numbers", "groups", **_GROUPS),
    _answer("noisy-histogram"),
    _answer("noisy-argmax", method={"enum": ["permute-and-flip", "exponential"]}),
    _answer("noisy-top-k", top=_INTEGER),
    _answer("noisy-mean", ("rows", "lowest", "highest"), lowest=_INTEGER, highest=_INTEGER),
    _answer("noisy-quantile", ("rows", "around"), level=_DECIMAL, around=_INTEGER),
)
_KNOWN = [law["properties"]["kind"]["const"] for law in _LAWS]
_OTHER: Schema = {"type": "object", "properties": {"kind": {**_TEXT, "not": {"enum": _KNOWN}}}, "required": ["kind"]}
_GUARANTEE: dict[str, Schema] = {
    "epsilon": _NUMBER,
    "delta": {**_NUMBER, "exclusiveMaximum": 1},
    "trust": {"enum": ["local", "central", "peer", "shuffle"]},
    "unit": _TEXT,
    "features": {"const": "static"},
    "assumptions": _TEXTS,
    "rho": _NUMBER,
}
_CHARGE = _closed(
    {
        "mechanism": _TEXT,
        "law": {"anyOf": [*_LAWS, _OTHER]},
        "rows": {"type": "array", "items": {"type": "array", "items": _ROWS, "minItems": 2, "maxItems": 2}},
        "guarantee": _closed(_GUARANTEE, ("rho",)),
    }
)
_ANY_NUMBER: Schema = {"type": "number"}
_MISSING: Schema = {"type": ["string", "number", "boolean"]}
_CLASSES = _closed(
    {
        "kind": {"const": "classes"},
        "values": {"type": "array", "items": {"type": ["string", "integer", "boolean"]}, "minItems": 2},
        "missing": _MISSING,
    }
)
_INTERVAL = _closed(
    {"kind": {"const": "interval"}, "low": _ANY_NUMBER, "high": _ANY_NUMBER, "step": _ANY_NUMBER, "missing": _MISSING}
)
_HASH: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_EXPECTED = _closed({"truth_probability": _NUMBER, "clean_share": _NUMBER})
_EXPECTED_OF_NUMBERS = _closed({"squared_error": _NUMBER, "clean_share": _NUMBER})

#: The schema of ``_certificate.json``.
CERTIFICATE_SCHEMA: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "labeldp/certificate/1",
    **_closed(
        {
            "schema": {"const": "labeldp/certificate/1"},
            "release": _TEXT,
            "made_with": {"type": "object", "additionalProperties": _TEXT},
            "private": {"type": "boolean"},
            "label": _closed({"column": _TEXT, "space": {"anyOf": [_CLASSES, _INTERVAL]}}),
            "table": _closed(
                {
                    "rows": _ROWS,
                    "columns": {"type": "array", "items": _closed({"name": _TEXT, "type": _TEXT})},
                    "files": {"type": "array", "items": _closed({"name": _TEXT, "rows": _ROWS, "sha256": _HASH})},
                }
            ),
            "charges": {"type": "array", "items": _CHARGE, "minItems": 1, "maxItems": 1 << 12},
            "guarantee": _closed({**_GUARANTEE, "sentence": _TEXT}, ("rho",)),
            "expects": {"anyOf": [_EXPECTED, _EXPECTED_OF_NUMBERS, {"type": "null"}]},
            "assumptions": _TEXTS,
            "cannot_know": _TEXTS,
            "parent": {"anyOf": [_HASH, {"type": "null"}]},
            "features": _closed({"law": {"type": "object"}, "conditional": {"type": "array"}}),
        },
        ("features",),
    ),
}

_VALUE: Schema = {"type": ["string", "integer", "boolean"]}
_VALUES = {"type": "array", "items": _VALUE, "minItems": 2, "uniqueItems": True}

#: The schema of the file of ``labeldp declare``.
DECLARATION_SCHEMA: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "labeldp/declaration/1",
    **_closed(
        {
            "schema": {"const": "labeldp/declaration/1"},
            "name": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
            "values": _VALUES,
            "epsilon": {"type": "number", "exclusiveMinimum": 0},
            "law": {"anyOf": [law for law in _LAWS if law["properties"]["kind"]["const"] in _OF_CLASSES]},
            **dict.fromkeys(("label", "mechanism", "declared_by", "meaning"), _TEXT),
            "answers": {"type": "integer", "minimum": 2, "maximum": 1000},
            "groups": {"type": "array", "items": {"type": "array", "items": _VALUE, "minItems": 1}, "minItems": 2},
        },
        ("answers", "groups"),
    ),
}
