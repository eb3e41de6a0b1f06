"""Deltas that are too large to promise anything."""

from __future__ import annotations

import warnings


class DeltaWarning(UserWarning):
    """A delta that is so large that a mechanism within it could publish somebody's label."""


def warn_of_large(delta: float, rows: int, what: str, *, stacklevel: int) -> None:
    """Say so where a delta allows one of so many rows to be published.

    Args:
        delta: The failure probability.
        rows: The number of rows.
        what: What that number is.
        stacklevel: How many calls away the one is that gave the delta, counted from here.
    """
    if delta * rows >= 1.0:
        warnings.warn(
            f"expected delta below 1/{rows}, one over {what}, found {delta!r}: publishing one random row as it is "
            "would be within it; give a smaller delta",
            DeltaWarning,
            stacklevel=stacklevel,
        )
