"""Results as Markdown: a form of output is a function for each kind of block, and this file is all that it takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from labeldp._checks import printable
from labeldp.results import Part
from labeldp.results import _blocks as blocks

#: Letters that mean something in Markdown or HTML.
_MEANS = re.compile(r"([\\`*_{}\[\]<>()#+!|~&-])")


def in_markdown(part: Part) -> str:
    """A result as Markdown, whose texts are shown literally."""
    lines = [f"# {_text(part.result)}", *map(_text, filter(None, part.lead))]
    lines += [_table(("", ""), part.facts)] if part.facts else []
    for section in part.sections:
        shown = [line for block in section.blocks if type(block) in _SHOWN for line in _SHOWN[type(block)](block)]
        lines += [f"## {_text(section.title)}", *shown] if section.title and shown else shown
    return "\n\n".join(lines) + "\n"


def _grid(block: blocks.Grid) -> Iterator[str]:
    yield f"**{_text(block.caption)}**"
    yield _table(block.columns, block.rows)
    if block.more:
        yield f"and {block.more:,} more"


def _points(block: blocks.Points) -> Iterator[str]:
    more = [f"- and {block.more:,} more"] if block.more else []
    yield "\n".join([*(f"- {_text(each)}" for each in block.items), *more])


def _checks(block: blocks.Checks) -> Iterator[str]:
    lines = (
        f"- {'holds' if holds else f'FAILED ({_text(found)})'}: {_text(what)}" for what, holds, found in block.rows
    )
    yield "\n".join(lines)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(each if each == '---' else _text(each) for each in line)} |" for line in lines)


def _text(text: str) -> str:
    """A text without markup."""
    return _MEANS.sub(r"\\\1", printable(text))


#: The function that writes each kind of block; others are for pages.
_SHOWN: Mapping[type, Callable[[Any], Iterator[str]]] = {
    blocks.Prose: lambda block: iter([_text(block.text)]),
    blocks.Points: _points,
    blocks.Terms: lambda block: iter([_table(("", ""), block.rows)]),
    blocks.Checks: _checks,
    blocks.Grid: _grid,
    blocks.Picture: lambda block: iter([f"*{_text(block.caption)}*"]),
    blocks.Commands: lambda block: iter(["\n".join(f"    {printable(each)}" for each in block.commands)]),
}
