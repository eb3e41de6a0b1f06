"""The data card of a release, in Markdown, which follows from its certificate."""

from __future__ import annotations

import re
from collections.abc import Callable

from labeldp._checks import printable
from labeldp.release.folder._certificate import Certificate
from labeldp.release.folder._description import described_columns, title
from labeldp.release.folder._staging import CERTIFICATE

_SPECIAL = frozenset("\\`*_{}[]<>()#|!&~$")
#: What GitHub's dialect of Markdown makes a link of, to the next blank; a bar would end the cell of a table.
_ADDRESS = re.compile(r"([^\s|]*(?:://|www\.|[-.\w+]@[-\w])[^\s|]*)", re.IGNORECASE)


def plain_text(text: str) -> str:
    """A text that Markdown shows as it is; what GitHub's dialect would take for an address is in a code span."""
    parts = _ADDRESS.split(printable(text))  # every second one is an address
    return "".join(_code(part) if i % 2 else escaped(part) for i, part in enumerate(parts))


def escaped(text: str) -> str:
    """A text that Markdown shows as it is, with backslashes; until version 0.1 also addresses, which became links."""
    return "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in printable(text))


def _code(text: str) -> str:
    """A text in a code span, between more backticks than it has in a row."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}"


def data_card(certificate: Certificate, plain: Callable[[str], str] = plain_text) -> str:
    """The data card of a release, in Markdown: what it is, its guarantee and its columns.

    Args:
        certificate: The certificate.
        plain: A function that writes a text so that Markdown shows it as it is.
    """
    lines = [
        "---",
        "configs:",
        "- config_name: default",
        '  data_files: "*.parquet"',
        "tags:",
        "- label-differential-privacy",
        "---",
        "",
        f"# {plain(title(certificate))}",
        "",
        f"{certificate.rows:,} rows.",
        "",
        *(plain(line) for line in certificate.sentence.split("\n")),
        "",
        plain(certificate.meaning),
        "",
        "| column | type | what it is |",
        "| --- | --- | --- |",
        *(f"| {plain(name)} | {plain(kind)} | {plain(what)} |" for name, kind, what in described_columns(certificate)),
        "",
        "Declared, and not checked:",
        "",
        *(f"- {plain(each)}" for each in certificate.assumptions),
        "",
        "No certificate can show:",
        "",
        *(f"- {plain(each)}" for each in certificate.unknown),
        "",
        f"`{CERTIFICATE}` states all of this for programs, and `labeldp verify` recomputes it, with this card.",
    ]
    return "\n".join(lines) + "\n"
