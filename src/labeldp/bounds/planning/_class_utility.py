"""Utility of the mechanisms that randomize the class of each row, at class shares and privacy units of any size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from labeldp.bounds.planning._conventions import UnitSizes
from labeldp.mechanisms.randomizers import class_expectation, class_randomizers, per_unit
from labeldp.privacy import LabelSpace
from labeldp.privacy.channels import ClassChannel, gradient_noise, share_at


@dataclass(frozen=True)
class ClassUtility:
    """Figures of one mechanism, means over rows; the attributes are those of ``Option``."""

    certified: float
    detail: str = ""
    share: float | None = None
    most_share: float | None = None
    truth_probability: float | None = None
    variance: float | None = None


def class_utility(
    name: str, space: LabelSpace, epsilon: float, shares: Sequence[float] | None, units: UnitSizes | None
) -> ClassUtility:
    """The utility of a mechanism, by its name, at class shares, which are even by default."""
    randomizer = next(kind for kind in class_randomizers() if kind.name == name)(space, epsilon)
    units = units or UnitSizes((1,), (1,))
    law = per_unit(randomizer, units.sizes)
    channels = [channel for channel, _ in law.units if isinstance(channel, ClassChannel)]
    weights = [share for share, _ in units.shares()]
    utility = [class_expectation(channel, np.ones(())) for channel in channels]
    at = np.array([1.0 / space.size] if shares is None else shares)
    known = [share for share in (share_at(channel, at) for channel in channels) if share is not None]
    variances = [gradient_noise(channel, projected=False).right_angled for channel in channels]
    return ClassUtility(
        certified=law.epsilon,
        detail=randomizer.detail if len(channels) == 1 else law.detail,
        share=float(np.dot(weights, known)) if len(known) == len(weights) else None,
        most_share=float(np.dot(weights, [each.clean_share for each in utility])),
        truth_probability=float(np.dot(weights, [each.truth_probability for each in utility])),
        variance=float(np.dot(weights, variances)),
    )
