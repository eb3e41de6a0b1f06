"""The declaration that rows are units though a column repeats, with epsilon for all labels of one person."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal

from labeldp.privacy import EXACT, Guarantee, shown_above

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
