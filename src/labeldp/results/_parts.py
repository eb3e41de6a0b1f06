"""Building blocks of printed results: sentences and tables whose texts are shown literally."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_FLOOR, Context
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from labeldp._checks import printable
from labeldp.mechanisms.queries import QUERIES, AnswerText
from labeldp.privacy import shown_above
from labeldp.release.folder import Check, stored_form

if TYPE_CHECKING:
    from labeldp.release import TableRelease
    from labeldp.release.folder import Certificate

#: The parts of a printed result in order: sentences and tables.
Parts = list[RenderableType]
#: Certainties of a label whose shares of rows are shown.
CERTAINTIES = (0.95, 0.99)
#: Names to list in one line.
_SHOWN_COLUMNS = 12
#: The normal quantile of a two-sided interval of 95 %.
_QUANTILE = 1.96
#: Percentage points by which an estimate may be off before a reader is warned.
_ROUGH = 10.0


def sentence(text: str, style: str = "") -> Text:
    """A text on one line, without markup or terminal control."""
    return Text(printable(text), style)


def paragraphs(text: str) -> Text:
    """The sentence of a guarantee, whose line breaks are ours: it escapes those of names that it quotes."""
    return Text("\n").join(sentence(line) for line in text.split("\n"))


def add_row(table: Table, *cells: str | Text) -> None:
    """Add a row of literal texts."""
    table.add_row(*(cell if isinstance(cell, Text) else sentence(cell) for cell in cells))


def name_value_table(rows: Iterable[tuple[str, str | Text]]) -> Table:
    """A table of names and values, without lines."""
    lines = Table.grid(padding=(0, 2))
    lines.add_column(style="bold", no_wrap=True)
    lines.add_column(overflow="fold")
    for row in rows:
        add_row(lines, *row)
    return lines


def titled_table(title: str, columns: list[str]) -> Table:
    """An empty table with a title."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def check_table(checks: Iterable[Check]) -> Table:
    """A table of checks, with what was found where one failed."""
    lines = Table.grid(padding=(0, 2))
    for check in checks:
        add_row(lines, mark(check.holds), check.what)
        if not check.holds:
            add_row(lines, "", check.found)
    return lines


def mark(holds: bool) -> Text:
    """The outcome of a check."""
    return Text("ok" if holds else "FAILED", "green" if holds else "bold red")


def near(path: Place) -> str:
    """A path as it is typed from here, if it is in this folder; else all of it, as of an address."""
    here = isinstance(path, Path) and path.is_relative_to(Path.cwd())
    return str(path.relative_to(Path.cwd()) if here else path)


def has_no_rows(certificate: Certificate) -> bool:
    """True for an answer about all labels, without a row for any."""
    return certificate.of_answer and not stored_form(certificate.law, certificate.space).by_row


def answer_text(release: TableRelease) -> AnswerText | None:
    """The answer of a release without rows in words; None of others."""
    certificate = release.certificate
    if not has_no_rows(certificate):
        return None
    from labeldp.release import Answer  # noqa: PLC0415 (it loads the compiler)

    law = certificate.law
    return QUERIES.of_law(law).in_words(
        lambda: Answer.load(release.output).value, law, certificate.space, certificate.rows
    )


def three_digits(value: float) -> str:
    """A number for people: three significant digits, thousands with commas."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:g}"


def is_clear(low: float, high: float, error: float = 0.0, range_: float = 1.0) -> bool:
    """True if an interval says something: it is at most half as wide as its range, and was not cut to look so.

    Args:
        low: Lower end.
        high: Upper end.
        error: Standard error of the estimate: the interval was cut if it is a point in spite of one, or if 3.92 of them
            fill the range.
        range_: Width of the range of what is estimated.
    """
    cut = (low == high and error > 0.0) or 2.0 * _QUANTILE * error >= range_ > 0.0
    return high - low <= range_ / 2.0 and not cut


def on_wide_intervals(error: float) -> str:
    """A warning that estimates of shares are rough, if noise of this standard error moves them by over ten points."""
    points = 100.0 * _QUANTILE * error
    if not _ROUGH < points < math.inf:
        return ""
    return (
        f"These rows tell the accuracy to within {points:.0f} points (95 %): read the intervals, not the estimates, "
        "which are cut at 0 % and 100 %."
    )


def epsilon_above(value: float) -> str:
    """An epsilon for people: three significant digits, rounded up."""
    return shown_above(value, 3)


def factor_below(log: float) -> str:
    """A factor from its natural logarithm: three digits, rounded down."""
    factor = Context(prec=3, rounding=ROUND_FLOOR).create_decimal(repr(math.exp(min(log, 700.0))))
    return f"{factor.normalize():f}"


def share_below(value: float) -> str:
    """A share in percent, rounded down."""
    return f"{math.floor(1000.0 * value) / 10.0:.1f}%"


def next_commands(*commands: str) -> Text:
    """The commands that usually come next."""
    first = [", ".join(commands[:-1])] if len(commands) > 1 else []
    return sentence(f"Next: {', or '.join([*first, commands[-1]])}")


def resampled_share(certificate: Certificate) -> float | None:
    """The expected share of rows whose features come from a generator; None without one."""
    law = certificate.features
    return None if law is None or law.generator is None else float(law.chance)


def listed(names: list[str]) -> str:
    """Names, of many the first few and the last."""
    more = len(names) - _SHOWN_COLUMNS
    return (
        ", ".join(names) if more <= 0 else f"{', '.join(names[: _SHOWN_COLUMNS // 2])} ... {names[-1]} ({len(names)})"
    )
