"""What answers promise, recomputed from the laws that certificates hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from labeldp.mechanisms._moments import LabelMoments, promise_of_moments
from labeldp.mechanisms._peers import ExchangedLabels, promise_of_exchange
from labeldp.mechanisms._queries import NoisyArgmax, NoisyHistogram, NoisyMean, promise_of_cells
from labeldp.privacy import Guarantee, LabelSpace

_PROMISES: Mapping[str, Callable[[Mapping[str, Any], LabelSpace], Guarantee]] = MappingProxyType(
    {
        **dict.fromkeys((NoisyHistogram.name, NoisyArgmax.name, NoisyMean.name), promise_of_cells),
        ExchangedLabels.name: lambda law, _: promise_of_exchange(law),
        LabelMoments.name: lambda law, _: promise_of_moments(law),
    }
)


def promise_of(law: Mapping[str, Any], space: LabelSpace) -> Guarantee:
    """What the answer to a query promises of each row, or of each unit, from the integers of its law.

    Raises:
        ValueError: The law is of no known query, or its integers are not those of one.
    """
    if law.get("kind") not in _PROMISES:
        raise ValueError(f"expected the law of a query among {', '.join(_PROMISES)}, found another")
    return _PROMISES[law["kind"]](law, space)
