"""The warning about deltas that are too large for a meaningful guarantee."""

from __future__ import annotations

import warnings

from labeldp import _checks
from labeldp.errors import EpsilonError


class DeltaWarning(UserWarning):
    """A delta so large that a mechanism within it could publish somebody's label."""


def positive_delta(value: object, why: str) -> float:
    """A failure probability above zero; ``why`` says why it must be, and what to do."""
    delta = _checks.delta(value)
    if delta == 0.0:
        raise EpsilonError(f"expected delta above 0, found 0.0{why}")
    return delta


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
