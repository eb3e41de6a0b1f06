"""Units of several rows: the epsilon of a unit is shared by its rows."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from jaxtyping import Int

from labeldp.errors import InputError
from labeldp.mechanisms.randomizers._randomizer import Randomizer
from labeldp.mechanisms.randomizers._response import RandomizedResponse
from labeldp.mechanisms.randomizers._subset import SubsetResponse
from labeldp.privacy.channels import (
    ClassChannel,
    GroupedChannel,
    GroupedNumberChannel,
    NumberChannel,
    row_arrays,
    training_size,
)

#: Units of more different sizes are rounded up to powers of two: more rows declared is less epsilon for each.
_MOST_GROUPS = 64
_MOST_ROWS = 1 << 20

#: The law of rows in units of several rows, of classes or of numbers.
UnitLaw = GroupedChannel | GroupedNumberChannel


def per_unit(randomizer: Randomizer, sizes: tuple[int, ...]) -> UnitLaw:
    """The law that gives each row of a unit with m rows an m-th of the epsilon, with no rows yet.

    Args:
        randomizer: What is used on each row; its epsilon is that of a whole unit.
        sizes: The numbers of rows that units have, increasing; each is a group of rows.

    Raises:
        InputError: The randomizer has a law of its own for each row already.
    """
    if row_arrays(randomizer.channel()):
        raise InputError(
            f"expected a randomizer whose law is the same for all rows, found {randomizer.name!r}, which has "
            "candidates for each; declare no unit, or use another mechanism"
        )
    channels, no_rows = [_at(randomizer, size).channel() for size in sizes], np.empty(0, dtype=np.int32)
    classes = tuple(channel for channel in channels if isinstance(channel, ClassChannel))
    if classes:
        return GroupedChannel(randomizer.space.size, classes, sizes, no_rows)
    numbers = tuple(channel for channel in channels if isinstance(channel, NumberChannel))
    return GroupedNumberChannel(randomizer.space.size, numbers, sizes, no_rows)


def grouped(law: UnitLaw, rows_per_unit: Int[np.ndarray, "n"]) -> UnitLaw:
    """The law with a group for each row: the first size that is at least its unit's."""
    groups = np.searchsorted(np.array(law.repeats), rows_per_unit).astype(np.int32)
    return dataclasses.replace(law, groups=groups)


def unit_sizes(rows_per_unit: Int[np.ndarray, "n"]) -> tuple[int, ...]:
    """The different numbers of rows that units have, rounded up to powers of two where there are very many."""
    found = np.unique(rows_per_unit)
    if found.size and (found[0] < 1 or found[-1] > _MOST_ROWS):
        raise InputError(f"expected units of 1 to {_MOST_ROWS} rows, found one of {found[-1]}; declare another unit")
    if found.size > _MOST_GROUPS:
        found = np.unique(2 ** np.ceil(np.log2(found)).astype(np.int64))
    return tuple(found.tolist()) or (1,)


def best_unit_response(randomizer: Randomizer, most_rows: int) -> Randomizer:
    """The best local randomizer for units of up to ``most_rows`` rows, in one form for all of them."""
    space, epsilon = randomizer.space, randomizer.epsilon
    alone = training_size(space.size, epsilon / most_rows) == 1
    return RandomizedResponse(space, epsilon) if alone else SubsetResponse(space, epsilon)


def _at(randomizer: Randomizer, rows: int) -> Randomizer:
    """The randomizer at the share of one of several rows, rounded down."""
    return randomizer.at(randomizer.epsilon if rows == 1 else math.nextafter(randomizer.epsilon / rows, 0.0))
