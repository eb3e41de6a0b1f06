"""Group privacy: the epsilon of a unit of several rows is divided among its rows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from labeldp._shapes import Int
from labeldp.errors import InputError
from labeldp.mechanisms.randomizers._optimal import best_number_response
from labeldp.mechanisms.randomizers._randomizer import Randomizer
from labeldp.mechanisms.randomizers._response import RandomizedResponse
from labeldp.mechanisms.randomizers._subset import SubsetResponse, best_response
from labeldp.privacy import Interval, LabelSpace
from labeldp.privacy.channels import (
    Channel,
    ClassChannel,
    GroupedChannel,
    GroupedNumberChannel,
    NumberChannel,
    row_arrays,
    training_size,
)

#: With more different unit sizes, sizes are rounded up to powers of two, which gives each row less epsilon.
_MOST_GROUPS = 64
_MOST_ROWS = 1 << 20

#: The channel of rows in units of several rows, of classes or of numbers.
UnitLaw = GroupedChannel | GroupedNumberChannel


def per_unit(randomizer: Randomizer, sizes: tuple[int, ...]) -> UnitLaw:
    """The channel that gives each row of a unit with m rows an m-th of the epsilon, with no rows yet.

    Args:
        randomizer: The randomizer of each row; its epsilon is that of a whole unit.
        sizes: The numbers of rows that units have, increasing; each is a group of rows.
    """
    if row_arrays(randomizer.channel()):
        raise InputError(
            f"expected a randomizer whose channel is the same for all rows, found {randomizer.name!r}, which has "
            "parameters for each row; declare no unit, or use another mechanism"
        )
    return _of_sizes([_at_share(randomizer, size).channel() for size in sizes], sizes)


def undivided(channel: Channel, sizes: tuple[int, ...]) -> UnitLaw:
    """The channel that gives each row of a unit all of the epsilon, as elsewhere, with no rows yet."""
    return _of_sizes([channel] * len(sizes), sizes)


def _of_sizes(channels: Sequence[Channel], sizes: tuple[int, ...]) -> UnitLaw:
    """The channel of units of each size."""
    k, no_rows = channels[0].classes, np.empty(0, dtype=np.int32)
    classes = tuple(channel for channel in channels if isinstance(channel, ClassChannel))
    if classes:
        return GroupedChannel(k, classes, sizes, no_rows)
    numbers = tuple(channel for channel in channels if isinstance(channel, NumberChannel))
    return GroupedNumberChannel(k, numbers, sizes, no_rows)


def grouped(law: UnitLaw, rows_per_unit: Int[np.ndarray, "n"]) -> UnitLaw:
    """The channel with a group for each row: the first size that is at least its unit's."""
    groups = np.searchsorted(np.array(law.repeats), rows_per_unit).astype(np.int32)
    return dataclasses.replace(law, groups=groups)


def unit_sizes(rows_per_unit: Int[np.ndarray, "n"]) -> tuple[int, ...]:
    """The different numbers of rows of units, rounded up to powers of two if there are very many."""
    sizes = np.unique(rows_per_unit)
    if sizes.size and (sizes[0] < 1 or sizes[-1] > _MOST_ROWS):
        raise InputError(f"expected units of 1 to {_MOST_ROWS} rows, found one of {sizes[-1]}; declare another unit")
    if sizes.size > _MOST_GROUPS:
        sizes = np.unique(2 ** np.ceil(np.log2(sizes)).astype(np.int64))
    return tuple(sizes.tolist()) or (1,)


def best_randomizer(space: LabelSpace, epsilon: float, most_rows: int | None = None) -> Randomizer:
    """The best local randomizer for a label space, without a prior: what the command line calls *auto*.

    Args:
        space: The label space.
        epsilon: The privacy cost.
        most_rows: For units of several rows: the most rows of one. The kind is the same for all units then.
    """
    if isinstance(space, Interval):
        return best_number_response(space, epsilon)
    if most_rows is None:
        return best_response(space, epsilon)
    alone = training_size(space.size, epsilon / most_rows) == 1
    return RandomizedResponse(space, epsilon) if alone else SubsetResponse(space, epsilon)


def _at_share(randomizer: Randomizer, rows: int) -> Randomizer:
    """The randomizer at one row's share of the epsilon, rounded down."""
    return randomizer.at(share_of(randomizer.epsilon, rows))


def share_of(epsilon: float, rows: int) -> float:
    """One row's share of an epsilon, rounded down."""
    return epsilon if rows <= 1 else math.nextafter(epsilon / rows, 0.0)
