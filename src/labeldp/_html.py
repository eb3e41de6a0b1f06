"""Results in notebooks: a title, names with their values, and sentences, as HTML whose text is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

from labeldp._checks import printable


def facts_html(title: str, facts: Mapping[str, object], sentences: Iterable[str] = ()) -> str:
    """Names and values under a title."""
    rows = [(name, str(value)) for name, value in facts.items()]
    return "".join([f"<p><b>{_text(title)}</b></p>", _table(rows), *(f"<p>{_text(each)}</p>" for each in sentences)])


def table_html(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table under a title."""
    head = "".join(f"<th>{_text(name)}</th>" for name in columns)
    return f"<p><b>{_text(title)}</b></p>{_table(rows, f'<tr>{head}</tr>')}"


def _table(rows: Iterable[Sequence[str]], head: str = "") -> str:
    cells = ("".join(f"<td>{_text(cell)}</td>" for cell in row) for row in rows)
    return f"<table>{head}{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _text(text: str) -> str:
    return html.escape(printable(text)).replace("\n", "<br>")
