"""Results in notebooks: HTML without a style sheet, whose texts are escaped."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from labeldp._checks import printable
from labeldp.render._figures import figure_of
from labeldp.results import _blocks as blocks
from labeldp.results import described


def in_notebook(result: object) -> str:
    """A result, or the parts of one, as HTML for a notebook."""
    part = described(result)
    shown = [f"<p><b>{_text(part.result)}</b></p>", *(f"<p>{_text(line)}</p>" for line in part.lead if line)]
    shown += [_table((), part.facts)] if part.facts else []
    for section in part.sections:
        said = [_SHOWN[type(block)](block) for block in section.blocks if type(block) in _SHOWN]
        shown += [f"<h4>{_text(section.title)}</h4>", *said] if section.title and said else said
    return "".join(shown)


def _grid(block: blocks.Grid) -> str:
    more = f"<p>and {block.more:,} more</p>" if block.more else ""
    return f"<p><b>{_text(block.caption)}</b></p>{_table(block.columns, block.rows)}{more}"


def _list(items: Iterable[str], more: int = 0) -> str:
    lines = [*items, *([f"and {more:,} more"] if more else [])]
    return f"<ul>{''.join(f'<li>{_text(each)}</li>' for each in lines)}</ul>"


def _checks(block: blocks.Checks) -> str:
    return _list(f"holds: {what}" if holds else f"FAILED: {what}: {found}" for what, holds, found in block.rows)


def _picture(block: blocks.Picture) -> str:
    """A chart as an image, so that its style sheet is its own."""
    image = b64encode(figure_of(block.chart).encode()).decode("ascii")
    return f'<p><img alt="{_text(block.caption)}" src="data:image/svg+xml;base64,{image}"></p>'


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = f"<tr>{''.join(f'<th>{_text(name)}</th>' for name in columns)}</tr>" if columns else ""
    cells = ("".join(f"<td>{_text(cell)}</td>" for cell in row) for row in rows)
    return f"<table>{head}{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _text(text: str) -> str:
    return escape(printable(text))


#: The function that shows each kind of block; others are for pages.
_SHOWN: Mapping[type, Callable[[Any], str]] = {
    blocks.Prose: lambda block: f"<p>{_text(block.text)}</p>",
    blocks.Points: lambda block: _list(block.items, block.more),
    blocks.Terms: lambda block: _table((), block.rows),
    blocks.Checks: _checks,
    blocks.Grid: _grid,
    blocks.Picture: _picture,
    blocks.Commands: lambda block: _list(block.commands),
}
