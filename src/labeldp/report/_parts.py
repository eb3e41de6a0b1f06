"""What printed results are made of: sentences and tables, whose texts are shown as they are."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from labeldp._checks import printable

#: What is printed, one below the other: sentences, and tables of them.
Parts = list[RenderableType]


def said(text: str, style: str = "") -> Text:
    """A text as it is: nothing in it is markup, and nothing in it commands the terminal."""
    return Text(printable(text), style)


def row(table: Table, *cells: str | Text) -> None:
    """Add a row of texts as they are."""
    table.add_row(*(cell if isinstance(cell, Text) else said(cell) for cell in cells))


def pairs() -> Table:
    """A table of names and what is said of them, without lines."""
    lines = Table.grid(padding=(0, 2))
    lines.add_column(style="bold", no_wrap=True)
    lines.add_column(overflow="fold")
    return lines


def table(title: str, columns: list[str]) -> Table:
    """A table with a title."""
    found = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        found.add_column(column, overflow="fold")
    return found
