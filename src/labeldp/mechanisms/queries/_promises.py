"""What answers promise, recomputed from the laws that certificates hold."""

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

_Form = Callable[[Any], bool]


def _whole(value: object) -> bool:
    """A whole number, written the one way that every reader takes for the same."""
    return isinstance(value, str) and value == str(int(value))


def _wholes(value: object) -> bool:
    """Whole numbers, increasing."""
    return isinstance(value, list) and all(map(_whole, value)) and value == [str(n) for n in sorted({*map(int, value)})]


def _number(value: object) -> bool:
    return isinstance(value, str) and value == repr(float(value))


_CELLS: Mapping[str, _Form] = dict.fromkeys(("rate", "parts", "sensitivity", "labels_of_a_unit"), _whole)

_MOMENTS: Mapping[str, _Form] = {
    **dict.fromkeys(("deviation", "sensitivity_squared", "labels_of_a_unit", "bits", "columns"), _whole),
    "delta": _number,
}

#: The parts of a law beside its kind, and how each is written.
_WRITTEN: Mapping[str, Mapping[str, _Form]] = MappingProxyType(
    {
        NoisyHistogram.name: _CELLS,
        NoisyArgmax.name: {**_CELLS, "method": lambda value: value in get_args(Method)},
        NoisyMean.name: _CELLS,
        NoisyQuantile.name: {**_CELLS, "level": lambda value: _number(value) and 0.0 <= float(value) <= 1.0},
        ExchangedLabels.name: {
            **dict.fromkeys(("flip", "sample"), _whole),
            "fixed": lambda value: isinstance(value, bool),
            "delta": _number,
            "cluster_sizes": _wholes,
        },
        LabelMoments.name: _MOMENTS,
        NumberMoments.name: {**_MOMENTS, "parts": _whole},
        NoisyGradients.name: dict.fromkeys(("dimension", "labels_of_a_unit"), _whole),
    }
)

#: Parts that a law has where it says something else than without them: the ends that labels are clipped to, and the
#: point that distances are from. Of gradients, they are those of Gaussian noise or those of a bit.
_MAY_BE_WRITTEN: Mapping[str, Mapping[str, _Form]] = MappingProxyType(
    {
        NoisyMean.name: dict.fromkeys(("lowest", "highest"), _whole),
        NoisyQuantile.name: {"around": _whole},
        NoisyGradients.name: {
            **dict.fromkeys(("deviation", "sensitivity_squared", "least", "parts"), _whole),
            "delta": _number,
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
    """What the answer to a query promises of each row, or of each unit, from the integers of its law.

    Raises:
        ValueError: The law is of no known query, its integers are not those of one, or it has other parts, or parts
            that are not written as they are here.
    """
    kind = str(law.get("kind"))
    if kind not in _PROMISES:
        raise ValueError(f"expected the law of a query among {', '.join(_PROMISES)}, found another")
    more = {name: form for name, form in _MAY_BE_WRITTEN.get(kind, {}).items() if name in law}
    written = {**_WRITTEN[kind], **more}
    if law.keys() != {"kind", *written} or not all(form(law[name]) for name, form in written.items()):
        raise ValueError(f"expected {', '.join(written)} in the law of {kind}, each in its one form, found others")
    return _PROMISES[kind](law, space)
