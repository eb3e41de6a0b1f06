"""JSON Schemas of what ``--json`` prints, one for each command: ``labeldp schema COMMAND`` prints them.

They are written by hand, since they are a promise: a key stays, and has the type that is written here. Keys are added
from version to version, so further ones are allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

Schema = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_NUMBER: Schema = {"type": "number"}
_SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
_VALUE: Schema = {"type": ["string", "number", "boolean", "null"]}


def _object(properties: Mapping[str, Schema], optional: Iterable[str] = ()) -> Schema:
    """An object with these keys, all of which are there but the optional ones."""
    left_out = set(optional)
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in left_out],
    }


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _maybe(schema: Schema) -> Schema:
    """A value, or null: what is not finite, not known, or does not apply."""
    if isinstance(schema.get("type"), str) and "properties" not in schema:
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def _all(names: str, schema: Schema) -> dict[str, Schema]:
    """Several keys of one type."""
    return dict.fromkeys(names.split(), schema)


_KNOWN = _maybe(_NUMBER)
_ESTIMATE = _object(_all("value error low high", _KNOWN))
_ESTIMATES = _object(_all("value error low high", _list(_KNOWN)))
_MATRIX = _object(_all("value error low high", _list(_list(_KNOWN))))
_CALIBRATION = _object({"predicted": _list(_KNOWN), "frequency": _ESTIMATES, "rows": _list(_COUNT)})
_BOUNDS = _object(_all("lower upper low high", _KNOWN))
_ESTIMATE_OR_BOUNDS: Schema = {"anyOf": [_ESTIMATE, _BOUNDS]}
_BUDGET = _object({"epsilon": _NUMBER, "delta": _NUMBER, "concentrated": _FLAG, "apart": _NUMBER})
_PROMISE = {"epsilon": _NUMBER, "delta": _NUMBER, "unit": _TEXT, "trust": {"enum": ["local", "central", "peer"]}}
_GUARANTEE = {**_PROMISE, "assumptions": _list(_TEXT), "private": _FLAG, "sentence": _TEXT}
_CHECK = _object({"what": _TEXT, "holds": _FLAG, "found": _TEXT})
_UNITS = _maybe(_object({"sizes": _list(_COUNT), "rows": _list(_COUNT)}))

_CLASS_SCORES = _object(
    {
        "rows": _COUNT,
        "log_likelihood": _ESTIMATE,
        "accuracy": _ESTIMATE_OR_BOUNDS,
        **_all("majority log_loss auc balanced_accuracy better log_loss_gain", _maybe(_ESTIMATE)),
        **_all("squared_error baseline", _maybe(_ESTIMATE)),
        "recall": _maybe(_ESTIMATES),
        "unpredicted": _list(_COUNT),
        "likelihood_gain": _ESTIMATE,
        "predicted": _list(_COUNT),
        "confusion": _maybe(_MATRIX),
        "counted": _list(_COUNT),
        "calibration": _maybe(_CALIBRATION),
    },
    optional=("squared_error", "baseline", "predicted", "confusion", "counted", "calibration"),
)
_NUMBER_SCORES = _object(
    {
        "rows": _COUNT,
        **_all("squared_error baseline mean", _ESTIMATE_OR_BOUNDS),
        "gain": _ESTIMATE,
        **_all("r2 absolute_error", _maybe(_ESTIMATE)),
        "calibration": _maybe(_object({"predicted": _list(_KNOWN), "mean": _ESTIMATES, "rows": _list(_COUNT)})),
    },
    optional=("calibration",),
)
_NAMES = _maybe(_list(_VALUE))
_SCORES: Schema = {"anyOf": [_CLASS_SCORES, _NUMBER_SCORES]}

_OPTION = {"mechanism": _TEXT, "epsilon": _NUMBER, "certified": _NUMBER, "clean_share": _NUMBER, "best": _FLAG}
_PLANNED = _object(
    {
        **_OPTION,
        "detail": _TEXT,
        "truth_probability": _SHARE,
        "effective_rows": _COUNT,
        "expected_share": _KNOWN,
        "expected_rows": _maybe(_COUNT),
        "total_variance": _KNOWN,
    }
)
_PROSPECT = _object({**_OPTION, "noise": _KNOWN, "effective_rows": _COUNT, "error": _KNOWN, "auto": _FLAG})
_EPSILON_ROW = _object(
    {
        "epsilon": _NUMBER,
        "mechanism": _TEXT,
        **_all("effective_rows at_most", _maybe(_COUNT)),
        **_all("share error", _KNOWN),
        "suspicion": _SHARE,
    }
)
_PLAN = _object(
    {
        "classes": _COUNT,
        "rows": _COUNT,
        "epsilon": _NUMBER,
        "options": _list(_PLANNED),
        "sweep": _list(_list(_PLANNED)),
        "shares": _maybe(_list(_SHARE)),
        "units": _UNITS,
    }
)
_FORECAST = _object(
    {
        "space": {"type": "object"},
        "rows": _COUNT,
        "dimension": _NUMBER,
        "trust": _TEXT,
        "epsilon": _KNOWN,
        "options": _list(_PROSPECT),
        "sweep": _list(_list(_PROSPECT)),
        "clean_error": _KNOWN,
        **_all("free_epsilon doubled spread unexplained", _KNOWN),
        "goal": _maybe(_object({"target": _NUMBER, "epsilon": _KNOWN, "rows": _maybe(_COUNT)})),
        "assumptions": _list(_TEXT),
        "defaults": _list(_TEXT),
        "units": _UNITS,
    }
)

_RELEASE = {
    "output": _TEXT,
    "rows": _COUNT,
    "label": _TEXT,
    "mechanism": _TEXT,
    **_GUARANTEE,
    "quantile": _KNOWN,
    "columns": _list(_TEXT),
    "spent": _object({"epsilon": _NUMBER, "delta": _NUMBER}),
    "budget": _BUDGET,
    "ledger": _TEXT,
    "notes_file": _TEXT,
    "remarks": _list(_TEXT),
}
_STAGE = {
    "rows": _COUNT,
    "candidates": _NUMBER,
    "truth_probability": _SHARE,
    "clean_share": _NUMBER,
    "fitted_on": _COUNT,
}

_COLUMN = {"name": _TEXT, "kind": _TEXT, "different": _COUNT, "missing": _COUNT, "remarks": _list(_TEXT)}
_LABEL = {
    "name": _TEXT,
    "kind": _TEXT,
    "counts": {"type": "object", "additionalProperties": _COUNT},
    "missing": _COUNT,
    "is_number": _FLAG,
    "remarks": _list(_TEXT),
}
_CHARGE = {
    **_all("identifier time state label mechanism", _TEXT),
    **_PROMISE,
    "assumptions": _list(_TEXT),
    "table": _maybe(_TEXT),
    "output": _maybe(_TEXT),
}
_AUDIT = _object(
    {
        "holds": _FLAG,
        "sentence": _TEXT,
        "claim": _NUMBER,
        "delta": _NUMBER,
        **_all("lower upper confidence visible", _KNOWN),
        "draws": _COUNT,
        **_all("method worst assumes", _TEXT),
    }
)
_UTILITY = {**_all("value low high", _KNOWN), "rows": _COUNT, "confidence": _KNOWN, "source": _TEXT}
_CURVE = _object(
    {
        **_all("flip epsilon least", _NUMBER),
        **_all("taus lower estimate upper band", _list(_KNOWN)),
        "rows": _list(_list(_KNOWN)),
    }
)
_PROFILE = _object(
    {
        "curves": _list(_CURVE),
        "classes": _list(_VALUE),
        "p_plus": _object(_all("lower estimate upper", _KNOWN)),
        **_all("total evaluated neighbours", _COUNT),
        "confidence": _NUMBER,
        "assumptions": _list(_TEXT),
        "public": _FLAG,
    }
)
_EXPOSURE = _object(
    {
        **_all("rows cells", _COUNT),
        **_all("epsilon of_label average divergence_of_order_2 beyond_epsilon confidence", _NUMBER),
        "known": _list(_object(_all("certainty share", _NUMBER))),
        "p_plus": _object(_all("lower estimate upper", _NUMBER)),
        "classes": _list(_VALUE),
        "assumptions": _list(_TEXT),
        "public": _FLAG,
    }
)
_COUNTED = _object({"rows": _COUNT, "share": _object(_all("lower estimate upper", _NUMBER))})
_SURE = _list({"type": "array", "prefixItems": [_NUMBER, _COUNTED], "minItems": 2, "maxItems": 2})
_MEASURES = _object(
    {
        "knows": _TEXT,
        "classes": _list(
            _object(
                {
                    "label": _VALUE,
                    "rates": _list(_object({"aimed": _NUMBER, "false": _COUNTED, "true": _COUNTED, "needed": _COUNT})),
                    "area": _NUMBER,
                    "curve": _list(_list(_NUMBER)),
                    "right": _COUNTED,
                }
            )
        ),
        **_all("sure precision", _SURE),
        "worst": _COUNTED,
        "multiplicative": _list(_KNOWN),
        "groups": _list({"type": "array", "prefixItems": [_TEXT, _COUNTED], "minItems": 2, "maxItems": 2}),
        "confidence": _NUMBER,
    }
)
_DIVERGENCE = {**_all("value low high alpha confidence", _KNOWN), "rows": _COUNT, "estimate": _FLAG}

#: The schema of each command's document.
_COMMANDS: Mapping[str, Schema] = MappingProxyType(
    {
        "demo": _object({"table": _TEXT, "rows": _COUNT, "next": _TEXT}),
        "check": _object(
            {
                "private": {"const": True},
                "rows": _COUNT,
                "unit": _TEXT,
                "columns": _list(_object({**_COLUMN, "identifies": _TEXT})),
                "label": _object(_LABEL),
                "people": _list(
                    _object({"name": _TEXT, "of": {"const": "people"}, **_all("values rows most", _COUNT)})
                ),
                "remarks": _list(_TEXT),
                "notes": _list(_TEXT),
                "earlier": _list(
                    _object({"label": _TEXT, "time": _TEXT, "epsilon": _NUMBER, **_all("rows units", _maybe(_COUNT))})
                ),
                "command": _TEXT,
            }
        ),
        "plan": _object(
            {"unit": _TEXT, "over_epsilon": _list(_EPSILON_ROW), "plan": _PLAN, "forecast": _FORECAST},
            optional=("plan", "forecast"),
        ),
        "release": _object(_RELEASE),
        "stages": _object({**_RELEASE, "model_file": _TEXT, "stages": _list(_object(_STAGE))}),
        "verify": _object(
            {
                "holds": _FLAG,
                "checks": _list(_CHECK),
                "signature_unchecked": _FLAG,
                "label": _TEXT,
                "rows": _COUNT,
                "mechanism": _TEXT,
                **_GUARANTEE,
                "cannot_show": _list(_TEXT),
            },
            optional=("label", "rows", "mechanism", *_GUARANTEE, "cannot_show"),
        ),
        "learn": _object(
            {
                "output": _TEXT,
                "rows": _COUNT,
                **_all("model method setting", _TEXT),
                "features": _list(_TEXT),
                "left_out": {"type": "object", "additionalProperties": _TEXT},
                "judged_by": _TEXT,
                "classes": _NAMES,
                "remarks": _list(_TEXT),
                "scores": _maybe(_SCORES),
                **_GUARANTEE,
            },
            optional=("classes",),
        ),
        "evaluate": _object({"judged_by": _TEXT, "classes": _NAMES, "scores": _SCORES}, optional=("classes",)),
        "predict": _object({"output": _TEXT, "rows": _COUNT, "columns": _list(_TEXT), **_GUARANTEE}),
        "account": _list(
            _object(
                {
                    "label": _TEXT,
                    "unit": _TEXT,
                    "rows": _maybe(_COUNT),
                    "sources": _list(_TEXT),
                    "others": _list(_object({"source": _TEXT, "unit": _TEXT, "epsilon": _NUMBER})),
                    "epsilon": _KNOWN,
                    "delta": _NUMBER,
                    "fixed_beforehand": _list(_object({"delta": _NUMBER, "epsilon": _KNOWN})),
                }
            )
        ),
        "ledger": _object(
            {
                "charges": _list(_object(_CHARGE)),
                "spent": _list(_object({"label": _TEXT, "epsilon": _NUMBER, "delta": _NUMBER, "budget": _BUDGET})),
                "others": _list(_TEXT),
            }
        ),
        "audit": _object(
            {
                "holds": _FLAG,
                "audits": _list(_AUDIT),
                "confidence": _KNOWN,
                "checks": _list(_CHECK),
                "cannot_show": _list(_TEXT),
                "attacks": _list(_object({"knows": _TEXT, "utility": _object(_UTILITY)})),
                "limits": _list({"type": "array", "prefixItems": [_TEXT, _KNOWN], "minItems": 2, "maxItems": 2}),
                "measures": _list(_MEASURES),
                "profile": _PROFILE,
                "exposure": _EXPOSURE,
            },
            optional=("checks", "cannot_show", "attacks", "limits", "measures", "profile", "exposure"),
        ),
        "generator": _object(
            {
                "output": _TEXT,
                "model": _TEXT,
                "smoothing": _NUMBER,
                "source": {"type": "object"},
                "classes": _list(_VALUE),
                "columns": _list(_TEXT),
                "two_sample": _maybe({"type": "array", "items": _KNOWN, "minItems": 4, "maxItems": 4}),
                "divergences": _maybe({"type": "object", "additionalProperties": _list(_object(_DIVERGENCE))}),
            }
        ),
        "key": _object({"private_key": _TEXT, "public_key": _TEXT}),
    }
)
#: Commands with a document.
JSON_COMMANDS = tuple(_COMMANDS)


def schema_of(command: str) -> Schema:
    """The JSON Schema of what a command prints with ``--json``.

    Raises:
        KeyError: There is no such command.
    """
    return {"$schema": _DIALECT, "title": f"labeldp {command} --json", **_COMMANDS[command]}
