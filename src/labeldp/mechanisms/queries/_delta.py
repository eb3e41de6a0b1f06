"""The warning about deltas that are too large for a meaningful guarantee."""

from __future__ import annotations

import warnings


class DeltaWarning(UserWarning):
    """A delta so large that a mechanism within it could publish somebody's label."""


def warn_of_large(delta: float, rows: int, what: str, *, stacklevel: int) -> None:
    """Warn if a delta allows to publish one random row.

    Args:
        delta: The failure probability.
        rows: The number of rows.
        what: A noun phrase for that number, for the message.
        stacklevel: Number of calls from here to the caller that chose the delta.
    """
    if delta * rows >= 1.0:
        warnings.warn(
            f"expected delta below 1/{rows}, one over {what}, found {delta!r}, which even allows publishing a random "
            "row unchanged; give a smaller delta",
            DeltaWarning,
            stacklevel=stacklevel,
        )
