"""The laws of a result: whatever form it is shown in, it says the same."""

from __future__ import annotations

import html
import io
import json
import re
from collections.abc import Iterator

from rich.console import Console

from labeldp._checks import printable
from labeldp._strict_json import plain, read, strict_json
from labeldp.render import html_of, in_markdown, in_notebook, on_terminal
from labeldp.results import DOCUMENTS, Page, Part, described, document_of
from labeldp.results import _blocks as blocks
from labeldp.testing._laws import expect

_WIDTH = 100_000
_INTERVAL = re.compile(r"(?<![\d.])(-?[\d,.]*\d)(?: ?%)? to (-?[\d,.]*\d)(?: ?%)?(?![\d.])")
_SHARE = re.compile(r"(?<![\d.,])(\d[\d,.]*) ?%")


def check_result(result: object) -> None:
    """Check the laws that every result holds, in each form that it is shown in.

    A terminal, a page, a notebook and Markdown show every text and every number of its parts. No share is above 100 %,
    and no interval has its ends swapped. Its JSON has no number that JSON does not know, and what is read back from it
    says the same.

    Args:
        result: A result of the library, such as a plan or an audit; a document that a command prints as JSON; or the
            parts of one.

    Raises:
        AssertionError: A law does not hold; the message states it.
        InputError: It is no result.

    Example:
        >>> from labeldp.bounds import plan
        >>> check_result(plan(3, 1000, 1.0))
    """
    part = described(result)
    texts = [text for text in texts_of(part) if text.strip()]
    head = [part.result, *(text for fact in part.facts for text in fact)]
    for form, shown in forms_of(part).items():
        wanted = texts if form == "the terminal" else [*head, *texts]  # whose first line is the result
        missing = [text for text in wanted if _squeezed(printable(text)) not in shown]
        expect(not missing, f"every text of a result is shown in each form; {form} lacks {missing[:3]}")
    for text in [*head, *texts]:
        for share in _SHARE.findall(text):
            expect(float(share.replace(",", "")) <= 100.0, f"no share is above 100 %: {text}")
        for low, high in _INTERVAL.findall(text):
            expect(_number(low) <= _number(high), f"the ends of an interval are in order: {text}")
    document = document_of(result)
    if type(document).__name__ in DOCUMENTS:
        body = strict_json(json.dumps(plain(document), allow_nan=False))
        expect(described(read(type(document), body)) == part, "what is read back from JSON says the same")


def forms_of(part: Part) -> dict[str, str]:
    """The text of a result in each form of output, without blanks."""
    out = io.StringIO()
    console = Console(file=out, width=_WIDTH)
    for each in on_terminal(part, detail=True):
        console.print(each, soft_wrap=True)
    page = re.sub(r"<(style|script)>.*?</\1>", "", html_of(Page((part,))), flags=re.DOTALL)
    return {
        "the terminal": _squeezed(out.getvalue()),
        "the page": _squeezed(_without_tags(page)),
        "the notebook": _squeezed(_without_tags(in_notebook(part))),
        "Markdown": _squeezed(re.sub(r"\\(.)", r"\1", in_markdown(part))),
    }


def texts_of(part: Part) -> Iterator[str]:
    """The texts of a result that every form shows."""
    yield from part.lead
    for section in part.sections:
        for block in section.blocks:
            yield from _texts_of(block)


def _texts_of(block: blocks.Block) -> Iterator[str]:
    if isinstance(block, blocks.Prose):
        yield block.text
    elif isinstance(block, blocks.Points):
        yield from block.items
    elif isinstance(block, blocks.Terms):
        yield from (text for row in block.rows for text in row)
    elif isinstance(block, blocks.Checks):
        yield from (what for what, _, _ in block.rows)
    elif isinstance(block, blocks.Grid):
        yield from (block.caption, *block.columns, *(text for row in block.rows for text in row))


def _without_tags(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", page))


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _number(text: str) -> float:
    return float(text.replace(",", ""))
