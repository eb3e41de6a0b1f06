"""Standard deviations of noise, from the parameters in certificates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from labeldp.errors import InputError
from labeldp.mechanisms.queries._moments import LabelMoments, NumberMoments
from labeldp.mechanisms.queries._query import NoisyHistogram, NoisyMean
from labeldp.privacy import LabelSpace


def noise_deviation(law: Mapping[str, Any]) -> float:
    """The standard deviation of the noise on each entry of an answer, in the units of the entries.

    Raises:
        InputError: The answer to this query is not a sum of numbers and noise.
    """
    if law["kind"] not in _DEVIATIONS:
        raise InputError(f"expected the answer to a query among {', '.join(_DEVIATIONS)}, found that to {law['kind']}")
    return _DEVIATIONS[law["kind"]](law)


def sum_deviation(law: Mapping[str, Any], space: LabelSpace) -> float:
    """The standard deviation of the noise on the sum of the labels of each cell, in the units of the labels.

    For a mean of n labels, divide it by n.

    Raises:
        InputError: The query is not one of means.
    """
    if law["kind"] != NoisyMean.name:
        raise InputError(f"expected the answer to {NoisyMean.name}, found that to {law['kind']}")
    return _laplace_deviation(law) * float(space.points[-1] - space.points[0]) / (space.size - 1)


def _laplace_deviation(law: Mapping[str, Any]) -> float:
    """Standard deviation of discrete Laplace noise with ``q = exp(-rate)``, of variance ``2q / (1 - q)^2``."""
    return 1.0 / (math.sqrt(2.0) * math.sinh(int(law["rate"]) / int(law["parts"]) / 2.0))


def _rounded_normal_deviation(law: Mapping[str, Any]) -> float:
    """Standard deviation of rounded normal noise: rounding adds the variance of a uniform variable."""
    return math.ldexp(math.sqrt(int(law["deviation"]) ** 2 + 1.0 / 12.0), -int(law["bits"])) / int(law.get("parts", 1))


_DEVIATIONS: Mapping[str, Callable[[Mapping[str, Any]], float]] = MappingProxyType(
    {
        NoisyHistogram.name: _laplace_deviation,
        **dict.fromkeys((LabelMoments.name, NumberMoments.name), _rounded_normal_deviation),
    }
)
