"""The statement that rows of a release were released before, with what all of these releases disclose together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from labeldp.privacy import Guarantee, shown_above

_RETURNED = re.compile(r"(?:[0-9,]+ of [0-9,]+|some of these) rows\b.* were released before.*; together epsilon .*")


def returned(returning: int | None, rows: int, together: Guarantee, names: str = "") -> str:
    """The statement, in public facts alone, unless the earlier releases are named.

    Args:
        returning: The number of rows that were released before; None if it is unknown.
        rows: The number of rows.
        together: The guarantee of this release and all earlier ones of its rows.
        names: The names of the earlier releases, for the holder.
    """
    which = "some of these" if returning is None else f"{returning:,} of {rows:,}"
    others = "" if together.unit == "row" else f", or others of their {together.unit},"
    delta = f" and delta {shown_above(together.delta, 3)}" if together.delta else ""
    sure = shown_above(Decimal(repr(together.posterior(0.5))) * 100, 3)
    failure = f", but for a failure of probability {shown_above(together.delta, 5)}" if together.delta else ""
    named, epsilon = f" ({names})" if names else "", shown_above(together.epsilon, 7)
    return (
        f"{which} rows{others} were released before{named}; together epsilon {epsilon}{delta} per {together.unit}: "
        f"someone whom everything else makes 50 % sure can become {sure} % sure{failure}"
    )


def returned_in(assumptions: Sequence[str]) -> list[str]:
    """Those of the assumptions of a certificate that state it."""
    return [text for text in assumptions if _RETURNED.fullmatch(text)]
