"""Recognition of the true label among the columns to keep, by released labels."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from labeldp.errors import LabelDPError
from labeldp.privacy import Classes, LabelSpace
from labeldp.privacy.channels import CandidateRows, Channel, ClassChannel

#: Most entries of unbiased vectors that are computed.
_MOST_ENTRIES = 1 << 22


def may_be_label(column: pa.ChunkedArray, space: LabelSpace, channel: Channel, released: np.ndarray) -> bool:
    """True for a column of declared classes that agrees with the true label in all rows, as far as labels tell.

    The unbiased vector of a row has, at a true class that may be released, the mean 1: so its mean over rows, at the
    classes of the column, estimates the share of rows in which the column is the label.
    """
    if not (isinstance(space, Classes) and isinstance(channel, ClassChannel) and len(released)):
        return False
    places = np.arange(0, len(released), 1 + len(released) * space.size // _MOST_ENTRIES)
    some, rows = channel.take(places), np.arange(len(places))
    try:
        codes, unbiased = space.encode(column.take(places)), some.unbiased(released[places])
    except LabelDPError:
        return False
    own = unbiased[rows, codes]
    if isinstance(some, CandidateRows):
        own = own[some.support()[rows, codes]]
    several = len(np.unique(codes)) > 1
    return several and (not len(own) or float(own.mean() + 3.0 * own.std() / np.sqrt(len(own))) >= 1.0)
