"""Results on a terminal: every text is shown literally, without markup or control of the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from labeldp._checks import printable
from labeldp.results import Part
from labeldp.results import _blocks as blocks

_STYLES: Mapping[str, str] = {"good": "green", "bad": "bold red", "heed": "yellow", "aside": "", "": ""}
_SENTENCES = (blocks.Prose, blocks.Points)


def on_terminal(part: Part, *, detail: bool = False) -> list[RenderableType]:
    """A result for a terminal: the lead, then its sections, each after an empty line; details where they are wanted."""
    shown: list[RenderableType] = [_text(line, _STYLES[part.tone] if not i else "") for i, line in enumerate(part.lead)]
    for section in part.sections:
        if detail or not section.detail:
            shown += _section(section, first=not shown, detail=detail)
    return shown


def _section(section: blocks.Section, *, first: bool, detail: bool) -> Iterator[RenderableType]:
    """A section; its title stands above it where it does not begin with a table, which has its own."""
    known = [each for each in section.blocks if type(each) in _SHOWN and (detail or not getattr(each, "detail", False))]
    if not known:
        return
    if not first:
        yield Text()
    if section.title and not section.quiet and not isinstance(known[0], blocks.Grid):
        yield _text(section.title, "bold")
    for i, block in enumerate(known):
        if i and not (isinstance(block, _SENTENCES) and isinstance(known[i - 1], _SENTENCES)):
            yield Text()
        yield from _SHOWN[type(block)](block)


def _prose(block: blocks.Prose) -> Iterator[RenderableType]:
    yield _text(block.text, _STYLES[block.tone])


def _points(block: blocks.Points) -> Iterator[RenderableType]:
    yield from (_text(f"- {each}") for each in block.items)
    if block.more:
        yield Text(f"- and {block.more:,} more")


def _terms(block: blocks.Terms) -> Iterator[RenderableType]:
    lines = _lines()
    lines.columns[0].style, lines.columns[0].no_wrap = "bold", True
    yield _filled(lines, ((_text(name), _text(value)) for name, value in block.rows))


def _checks(block: blocks.Checks) -> Iterator[RenderableType]:
    rows: list[tuple[Text, Text]] = []
    for what, holds, found in block.rows:
        rows.append((Text("ok" if holds else "FAILED", "green" if holds else "bold red"), _text(what)))
        rows += [] if holds else [(Text(), _text(found))]
    yield _filled(_lines(), rows)


def _grid(block: blocks.Grid) -> Iterator[RenderableType]:
    table = Table(title=_text(block.caption), title_justify="left", title_style="bold")
    for column in block.columns:
        table.add_column(_text(column), overflow="fold")
    more = [[_text(f"... and {block.more:,} more"), *[Text()] * (len(block.columns) - 1)]] if block.more else []
    yield _filled(table, [*([_text(cell) for cell in row] for row in block.rows), *more])


def _commands(block: blocks.Commands) -> Iterator[RenderableType]:
    *others, last = block.commands
    yield _text(f"Next: {', or '.join([*([', '.join(others)] if others else []), last])}")


def _lines() -> Table:
    """Two columns without lines."""
    lines = Table.grid(padding=(0, 2))
    lines.add_column()
    lines.add_column(overflow="fold")
    return lines


def _filled(table: Table, rows: Iterable[Iterable[Text]]) -> Table:
    for row in rows:
        table.add_row(*row)
    return table


def _text(text: str, style: str = "") -> Text:
    """A text on one line, without markup or terminal control."""
    return Text(printable(text), style)


#: The function that shows each kind of block; others are for pages.
_SHOWN: Mapping[type, Callable[[Any], Iterator[RenderableType]]] = {
    blocks.Prose: _prose,
    blocks.Points: _points,
    blocks.Terms: _terms,
    blocks.Checks: _checks,
    blocks.Grid: _grid,
    blocks.Commands: _commands,
}
