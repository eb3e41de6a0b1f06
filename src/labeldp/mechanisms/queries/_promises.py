"""Guarantees of answers, recomputed from the parameters in certificates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, get_args

from labeldp.mechanisms.queries._gradients import NoisyGradients, promise_of_gradients
from labeldp.mechanisms.queries._moments import (
    LabelMoments,
    NumberMoments,
    promise_of_moments,
    promise_of_number_moments,
)
from labeldp.mechanisms.queries._peer_exchange import ExchangedLabels, promise_of_exchange
from labeldp.mechanisms.queries._quantile import NoisyQuantile
from labeldp.mechanisms.queries._query import Method, NoisyArgmax, NoisyHistogram, NoisyMean, promise_of_cells
from labeldp.privacy import Guarantee, LabelSpace

_Format = Callable[[Any], bool]


def _is_integer(value: object) -> bool:
    """True for an integer in canonical notation."""
    return isinstance(value, str) and value == str(int(value))


def _are_integers(value: object) -> bool:
    """True for a list of increasing integers in canonical notation."""
    return (
        isinstance(value, list)
        and all(map(_is_integer, value))
        and value == [str(n) for n in sorted({*map(int, value)})]
    )


def _is_float(value: object) -> bool:
    return isinstance(value, str) and value == repr(float(value))


_CELLS: Mapping[str, _Format] = dict.fromkeys(("rate", "parts", "sensitivity", "labels_of_a_unit"), _is_integer)

_MOMENTS: Mapping[str, _Format] = {
    **dict.fromkeys(("deviation", "sensitivity_squared", "labels_of_a_unit", "bits", "columns"), _is_integer),
    "delta": _is_float,
}

#: The required fields of each kind of query, and their formats.
_REQUIRED: Mapping[str, Mapping[str, _Format]] = MappingProxyType(
    {
        NoisyHistogram.name: _CELLS,
        NoisyArgmax.name: {**_CELLS, "method": lambda value: value in get_args(Method)},
        NoisyMean.name: _CELLS,
        NoisyQuantile.name: {**_CELLS, "level": lambda value: _is_float(value) and 0.0 <= float(value) <= 1.0},
        ExchangedLabels.name: {
            **dict.fromkeys(("flip", "sample"), _is_integer),
            "fixed": lambda value: isinstance(value, bool),
            "delta": _is_float,
            "cluster_sizes": _are_integers,
        },
        LabelMoments.name: _MOMENTS,
        NumberMoments.name: {**_MOMENTS, "parts": _is_integer},
        NoisyGradients.name: dict.fromkeys(("dimension", "labels_of_a_unit"), _is_integer),
    }
)

#: The optional fields, present if they are not at their defaults: the ends that labels are clipped to, and the point
#: that distances are measured from. For gradients, the fields of Gaussian noise or those of a bit.
_OPTIONAL: Mapping[str, Mapping[str, _Format]] = MappingProxyType(
    {
        NoisyMean.name: dict.fromkeys(("lowest", "highest"), _is_integer),
        NoisyQuantile.name: {"around": _is_integer},
        NoisyGradients.name: {
            **dict.fromkeys(("deviation", "sensitivity_squared", "least", "parts"), _is_integer),
            "delta": _is_float,
        },
    }
)

_PROMISES: Mapping[str, Callable[[Mapping[str, Any], LabelSpace], Guarantee]] = MappingProxyType(
    {
        **dict.fromkeys((NoisyHistogram.name, NoisyArgmax.name, NoisyMean.name, NoisyQuantile.name), promise_of_cells),
        ExchangedLabels.name: lambda law, _: promise_of_exchange(law),
        LabelMoments.name: lambda law, _: promise_of_moments(law),
        NumberMoments.name: promise_of_number_moments,
        NoisyGradients.name: lambda law, _: promise_of_gradients(law),
    }
)


def promise_of(law: Mapping[str, Any], space: LabelSpace) -> Guarantee:
    """The guarantee of the answer to a query for each row, or each unit, from the parameters in a certificate.

    Raises:
        ValueError: The kind of query is unknown, or its fields are invalid, missing, superfluous or not in canonical
            notation.
    """
    kind = str(law.get("kind"))
    if kind not in _PROMISES:
        raise ValueError(f"expected the law of a query among {', '.join(_PROMISES)}, found another")
    optional = {name: valid for name, valid in _OPTIONAL.get(kind, {}).items() if name in law}
    formats = {**_REQUIRED[kind], **optional}
    if law.keys() != {"kind", *formats} or not all(valid(law[name]) for name, valid in formats.items()):
        raise ValueError(f"expected {', '.join(formats)} in the law of {kind}, each in its one form, found others")
    return _PROMISES[kind](law, space)
