"""Checks of the columns beside released labels: true labels among them, and columns that identify people."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from labeldp._shapes import Float, Int
from labeldp.errors import InputError, LabelDPError
from labeldp.privacy import Classes, LabelSpace
from labeldp.privacy.channels import CandidateRows, Channel, ClassChannel
from labeldp.release.tables import repeats_in

#: Most entries of unbiased vectors that are computed.
_MOST_ENTRIES = 1 << 22


class UnitWarning(UserWarning):
    """A column that repeats like a person's identifier beside labels whose epsilon covers one row."""


def check_kept(kept: Sequence[str], labels: Iterable[str], other_people: str) -> None:
    """Refuse kept columns that were released as labels before: their true values would leave beside the noisy ones.

    Args:
        kept: The columns.
        labels: The labels of earlier charges for these rows.
        other_people: What to do if these are other people's rows.

    Raises:
        InputError: There is one.
    """
    for name in sorted(set(labels).intersection(kept)):
        raise InputError(
            f"expected to keep no label that was released with noise before, found {name!r}: its true values would "
            f"leave; drop it. If these are other people's rows, {other_people}"
        )


def warn_of_repeats(table: object, *, stacklevel: int) -> None:
    """Warn if a column of a table repeats like a person's identifier, though each row is a privacy unit."""
    for repeat in repeats_in(pa.table(table))[:1]:
        warnings.warn(
            f"expected rows of different people, since epsilon covers one row, found that {repeat.name!r} repeats, in "
            f"up to {repeat.most} rows: if it identifies people, that person's epsilon is {repeat.most} times as "
            f"large; pass Curator(..., units=table[{repeat.name!r}])",
            UnitWarning,
            stacklevel=stacklevel + 1,
        )


def may_be_label(column: pa.ChunkedArray, space: LabelSpace, channel: Channel, released: np.ndarray) -> bool:
    """True for a column of declared classes that agrees with the true label in all rows, as far as labels tell.

    The unbiased vector of a row has, at a true class that may be released, the mean 1: so its mean over rows, at the
    classes of the column, estimates the share of rows in which the column is the label.
    """
    if not (isinstance(space, Classes) and isinstance(channel, ClassChannel) and len(released)):
        return False
    places = np.arange(0, len(released), 1 + len(released) * space.size // _MOST_ENTRIES)
    try:
        codes = space.encode(column.take(places))
    except LabelDPError:
        return False
    own = _agreement(channel.take(places), released[places], codes)
    several = len(np.unique(codes)) > 1
    return several and (not len(own) or float(own.mean() + 3.0 * own.std() / np.sqrt(len(own))) >= 1.0)


def _agreement(channel: ClassChannel, released: np.ndarray, codes: Int[np.ndarray, "n"]) -> Float[np.ndarray, "m"]:
    """Of rows whose released label depends on whether a class is the true one, a number whose mean is then 1.

    Without unbiased vectors for all classes, as for groups of classes, it is how often labels are or contain the class,
    relative to how often they would if it were the true one, and if it were not.
    """
    if isinstance(channel, CandidateRows):
        inside = channel.support()[np.arange(len(codes)), codes]
        return np.asarray(channel.unbiased(released)[np.arange(len(codes)), codes][inside])
    if channel.identifies:
        return np.asarray(channel.unbiased(released)[np.arange(len(codes)), codes])
    keep, other = (np.broadcast_to(chance, len(codes)) for chance in channel.holding(codes))
    told = keep > other
    return np.asarray((channel.holds(released, codes)[told] - other[told]) / (keep - other)[told])
