"""Options that declare a table: its classes, its public columns, its budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli._terminal import names
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.release.tables import Table

_EVERYTHING, _NOTHING = "all", "none"


def budget_of(text: str) -> tuple[float, float]:
    """Parse EPSILON or EPSILON,DELTA."""
    numbers = tuple(float(part) for part in text.split(","))
    if len(numbers) not in (1, 2):
        raise ValueError(f"expected EPSILON or EPSILON,DELTA, found {len(numbers)} numbers")
    return numbers[0], numbers[1] if len(numbers) == 2 else 0.0


CLASSES = Annotated[str, typer.Option(help="All classes that can occur: a,b,c or @FILE with one per line.")]
KEEP = Annotated[list[str] | None, typer.Option(help="Public columns: a,b,c, 'all' (but the label) or 'none'.")]
DROP = Annotated[list[str] | None, typer.Option(help="Columns that are not public; all others are published.")]
MISSING = Annotated[str, typer.Option(help="Missing labels: 'refuse', or the class or number to put in their place.")]
BUDGET = Annotated[
    Any,
    typer.Option(
        parser=budget_of,
        metavar="EPSILON[,DELTA]",
        help="Total budget for this label over all releases; default: the epsilon of the first.",
    ),
]


def declared_columns(
    table: Table, keep: Sequence[str] | None, drop: Sequence[str] | None
) -> tuple[list[str] | None, list[str] | None]:
    """The columns to keep and to drop; exactly one is None in a valid declaration."""
    kept, dropped = names(keep), names(drop)
    if kept == [_EVERYTHING]:
        return None, dropped or []
    if kept == [_NOTHING] and _NOTHING not in table.schema.names:
        return [], dropped
    return kept, dropped


def class_texts(classes: str) -> list[str]:
    """Classes from a comma-separated list, or from the lines of a file."""
    if not classes.startswith("@"):
        return [text.strip() for text in classes.split(",")]
    try:
        lines = Path(classes[1:]).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError):
        raise InputError(f"expected a text file with one class per line, found none at {classes[1:]}") from None
    return [line for line in lines if line]


def divergences_of(texts: Sequence[str] | None) -> dict[float, float] | None:
    """Parse declared divergences, each ALPHA=D."""
    if texts is None:
        return None
    divergences: dict[float, float] = {}
    for text in texts:
        alpha, equals, divergence = text.partition("=")
        if not equals:
            raise InputError(f"expected --divergence ALPHA=D, such as 2=0.3 or inf=1.5, found {text!r}")
        order = number_of(alpha, "the order of --divergence")
        if order in divergences:
            raise InputError(f"expected each order of --divergence once, found {order:g} twice")
        divergences[order] = number_of(divergence, "--divergence")
    return divergences


def range_of(text: str) -> tuple[float, float, float]:
    """Parse LO,HI,STEP of an interval."""
    parts = text.split(",")
    if len(parts) != 3:
        raise InputError(f"expected --interval LO,HI,STEP, such as 0,100,0.5, found {text!r}")
    low, high, step = (number_of(part, "--interval LO,HI,STEP") for part in parts)
    return low, high, step


def number_of(text: str, option: str) -> float:
    """Parse a number for an option."""
    try:
        return float(text)
    except ValueError:
        raise InputError(f"expected a number for {option}, found {text!r}") from None
