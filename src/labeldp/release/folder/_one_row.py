"""Declarations of what all rows of one person cost: where a column repeats though rows are units, or rows return."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal

from labeldp.errors import LabelDPError
from labeldp.privacy import EXACT, Guarantee, Trust, shown_above, sure_above

#: The trust models of earlier releases that change what is said of all together.
_TRUSTS: tuple[tuple[Trust, ...], ...] = ((), ("peer",), ("shuffle",), ("peer", "shuffle"))
_NUMBER = r"[0-9]{1,6}(?:\.[0-9]{1,330})?"
_RETURNED = re.compile(
    rf"(?:([0-9,]{{1,20}}) of [0-9,]{{1,20}}|some of these) rows.*"
    rf"; together epsilon ({_NUMBER})(?: and delta ({_NUMBER}))? .*",
    re.DOTALL,  # or a line break at the end has each place tried that could be the last
)


def returned(
    returning: int | None, rows: int, together: Guarantee, names: str = "", trusts: Collection[Trust] = ()
) -> str:
    """The statement, in public facts alone, unless the earlier releases are named.

    Args:
        returning: The number of rows that were released before; None if it is unknown.
        rows: The number of rows.
        together: The guarantee of this release and all earlier ones of its rows.
        names: The names of the earlier releases, for the holder.
        trusts: The trust models of the earlier releases: mixing hides nothing from who sees it.
    """
    shown = shown_above(together.epsilon, 7), shown_above(together.delta, 3)  # what follows is a function of these
    together = dataclasses.replace(together, epsilon=float(shown[0]), delta=float(shown[1]))
    which = "some of these" if returning is None else f"{returning:,} of {rows:,}"
    others = "" if together.unit == "row" else f", or others of their {together.unit},"
    delta = f" and delta {shown[1]}" if together.delta else ""
    sure = sure_above(together.posterior(0.5))
    failure = f", but for a failure of probability {shown_above(together.delta, 5)}" if together.delta else ""
    named, unknown = f" ({names})" if names else "", "; ".join(together.exceptions(trusts))
    everything = f"everything else ({unknown})" if unknown else "everything else"
    return (
        f"{which} rows{others} were released before{named}; together epsilon {shown[0]}{delta} per {together.unit}: "
        f"someone whom {everything} makes 50 % sure can become {sure} % sure{failure}"
    )


def returned_in(assumptions: Sequence[str], rows: int, guarantee: Guarantee) -> dict[str, float]:
    """The assumptions that state it of so many rows, each with the epsilon of all releases of these rows together.

    None has other words, or states less than the release's own epsilon.
    """
    stated = {text: _together(text, rows, guarantee) for text in assumptions}
    return {text: epsilon for text, epsilon in stated.items() if epsilon is not None}


def _together(text: str, rows: int, guarantee: Guarantee) -> float | None:
    """The epsilon in the statement itself, made anew from its numbers; None for another text."""
    if (match := _RETURNED.fullmatch(text)) is None:
        return None
    count, epsilon, delta = match.groups(default="")
    returning = int(count.replace(",", "") or 0) if count else None
    try:
        together = dataclasses.replace(guarantee, epsilon=float(epsilon), delta=float(delta or 0), rho=None)
        follows = any(text == returned(returning, rows, together, trusts=trusts) for trusts in _TRUSTS)
    except LabelDPError:
        return None
    possible = (returning or 0) <= rows and together.epsilon >= guarantee.epsilon and together.delta >= guarantee.delta
    return together.epsilon if follows and possible else None


_NAME = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_DECLARED = re.compile(rf"epsilon is for one row, though ({_NAME}) repeats in up to ([1-9][0-9]{{0,17}}) rows: .*")


def epsilon_of_rows(epsilon: float, most: int) -> str:
    """The epsilon of all labels of a person with so many rows, if epsilon is for one row.

    The labels of m rows are replaced one after the other, so epsilon is m times as large.
    """
    return shown_above(EXACT.multiply(Decimal(repr(epsilon)), Decimal(most)), 7)


def declarations(repeats: Mapping[str, int], guarantee: Guarantee) -> list[str]:
    """The declaration of each column, from its quoted name and the most rows with one value."""
    return [
        f"epsilon is for one row, though {name} repeats in up to {most} rows: if it is a person, all labels of one "
        f"with {most} rows have epsilon {epsilon_of_rows(guarantee.epsilon, most)} together"
        f"{', and a larger delta' if guarantee.delta else ''}"
        for name, most in repeats.items()
    ]


def declared_repeats(assumptions: Sequence[str], guarantee: Guarantee) -> dict[str, int]:
    """The columns that these declarations are about; none of a text that says anything else of this guarantee."""
    found = {text: match for text in assumptions if (match := _DECLARED.fullmatch(text))}
    repeats = {text: {match[1]: int(match[2])} for text, match in found.items() if guarantee.unit == "row"}
    known = (each for text, each in repeats.items() if declarations(each, guarantee) == [text])
    return {name: most for each in known for name, most in each.items()}
