"""Labels that were randomized elsewhere: frequencies that a declared channel cannot give are refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from labeldp._arrow import array_or_none
from labeldp._conversions import result_or_none
from labeldp._shapes import Float, Int
from labeldp.errors import InputError, VerificationError
from labeldp.privacy import LabelSpace
from labeldp.privacy.channels import Channel, EvenChannel, row_arrays
from labeldp.release.folder import CODES, from_columns

#: The probability of refusing labels whose channel is as declared.
FALSE_ALARMS = 0.001


def randomized_codes(labels: object, space: LabelSpace, channel: Channel) -> np.ndarray:
    """Released labels of users as the channel writes them.

    Raises:
        InputError: The rows differ in their channel, or a value is none that the channel can release.
        LabelError: A label is missing, or no declared class.
    """
    if row_arrays(channel):
        raise InputError("a mechanism whose rows differ, as with a prior, cannot be declared; pass one without")
    if channel.form == "class":
        return space.encode(labels).astype(np.int32)
    kind = {"set": pa.list_(space.arrow_type()), "number": pa.float64(), "index": pa.int32()}[channel.form]
    array = array_or_none(labels)
    column = None if array is None else result_or_none(lambda: array.cast(kind))
    try:
        if column is None:
            raise VerificationError(f"expected {channel.detail} in each row, found others")
        codes = from_columns({CODES: column}, space, channel)[CODES]
        if not channel.possible(codes).all():
            raise VerificationError(f"expected {channel.detail} in each row, found others")
    except VerificationError as problem:
        raise InputError(f"these labels cannot come from the declared mechanism: {problem}") from None
    return codes


def counts_of(channel: Channel, released: np.ndarray) -> Int[np.ndarray, "m"]:
    """The number of rows whose released label is each outcome, or has each class in its set."""
    if isinstance(channel, EvenChannel) and channel.form != "class":
        return np.asarray(channel.mask(released).sum(axis=0, dtype=np.int64))
    return np.bincount(released, minlength=len(_chances(channel)[0]))


def check_possible(channel: Channel, space: LabelSpace, counts: Int[np.ndarray, "m"], rows: int) -> None:
    """Refuse counts of released labels that no true labels make likely.

    Whatever the true labels are, the count of an outcome is a sum of independent indicators, whose probabilities are
    between its least and its largest one. So its tails are below those of two binomial distributions (stochastic
    dominance). The false-alarm rate is shared out over both tails of all outcomes.

    Raises:
        InputError: One of these tails is below its share of ``FALSE_ALARMS``.
    """
    from scipy.special import bdtr, bdtrc  # noqa: PLC0415 (it loads slowly)

    least, largest = _chances(channel)
    level = FALSE_ALARMS / (2 * len(counts))
    too_few = bdtr(counts, rows, least) < level
    too_many = (counts > 0) & (bdtrc(counts - 1, rows, largest) < level)
    if (too_few | too_many).any():
        worst = int(np.flatnonzero(too_few | too_many)[0])
        name = repr(space.points[worst]) if len(counts) == space.size else f"output {worst}"
        raise InputError(
            f"these labels were not randomized as declared: {name} is in {counts[worst]:,} of {rows:,} rows. Whatever "
            f"the true labels are, the declared mechanism gives it in {least[worst]:.3%} to {largest[worst]:.3%} "
            f"(false alarms: 1 in {round(1 / FALSE_ALARMS):,}); check mechanism, epsilon and classes"
        )


def _chances(channel: Channel) -> tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m"]]:
    """The least and the largest probability of each outcome, or of each class in a released set."""
    if isinstance(channel, EvenChannel):
        chance = channel.membership
        return np.full(channel.classes, float(chance.other)), np.full(channel.classes, float(chance.true))
    matrix = channel.table().matrix
    return matrix.min(axis=0), matrix.max(axis=0)
