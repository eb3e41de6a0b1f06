"""The statement that rows of a release were released before, with what all of these releases disclose together."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from decimal import Decimal

from labeldp.errors import LabelDPError
from labeldp.privacy import Guarantee, shown_above

_NUMBER = r"[0-9]{1,6}(?:\.[0-9]{1,330})?"
_RETURNED = re.compile(
    rf"(?:([0-9,]{{1,20}}) of [0-9,]{{1,20}}|some of these) rows.*"
    rf"; together epsilon ({_NUMBER})(?: and delta ({_NUMBER}))? .*"
)


def returned(returning: int | None, rows: int, together: Guarantee, names: str = "") -> str:
    """The statement, in public facts alone, unless the earlier releases are named.

    Args:
        returning: The number of rows that were released before; None if it is unknown.
        rows: The number of rows.
        together: The guarantee of this release and all earlier ones of its rows.
        names: The names of the earlier releases, for the holder.
    """
    shown = shown_above(together.epsilon, 7), shown_above(together.delta, 3)  # what follows is a function of these
    together = dataclasses.replace(together, epsilon=float(shown[0]), delta=float(shown[1]))
    which = "some of these" if returning is None else f"{returning:,} of {rows:,}"
    others = "" if together.unit == "row" else f", or others of their {together.unit},"
    delta = f" and delta {shown[1]}" if together.delta else ""
    sure = shown_above(Decimal(repr(together.posterior(0.5))) * 100, 3)
    failure = f", but for a failure of probability {shown_above(together.delta, 5)}" if together.delta else ""
    named = f" ({names})" if names else ""
    return (
        f"{which} rows{others} were released before{named}; together epsilon {shown[0]}{delta} per {together.unit}: "
        f"someone whom everything else makes 50 % sure can become {sure} % sure{failure}"
    )


def returned_in(assumptions: Sequence[str], rows: int, guarantee: Guarantee) -> list[str]:
    """The assumptions that state it of so many rows; none with other words, or less than the release's own epsilon."""
    return [text for text in assumptions if _follows(text, rows, guarantee)]


def _follows(text: str, rows: int, guarantee: Guarantee) -> bool:
    """True for the statement itself, made anew from its numbers."""
    if (match := _RETURNED.fullmatch(text)) is None:
        return False
    count, epsilon, delta = match.groups(default="")
    returning = int(count.replace(",", "") or 0) if count else None
    try:
        together = dataclasses.replace(guarantee, epsilon=float(epsilon), delta=float(delta or 0), rho=None)
        follows = text == returned(returning, rows, together)
    except LabelDPError:
        return False
    possible = (returning or 0) <= rows and together.epsilon >= guarantee.epsilon and together.delta >= guarantee.delta
    return follows and possible
