"""The data card of a release, in Markdown, which follows from its certificate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from labeldp._checks import printable
from labeldp.privacy import Classes
from labeldp.privacy.channels import ClassChannel
from labeldp.release.folder._certificate import Certificate
from labeldp.release.folder._description import Declared, described_columns, python, title, warning
from labeldp.release.folder._staging import CERTIFICATE, SIGNATURE

_SPECIAL = frozenset("\\`*_{}[]<>()#|!&~$")
#: What GitHub's dialect of Markdown makes a link of, to the next blank; a bar would end the cell of a table.
_ADDRESS = re.compile(r"([^\s|]*(?:://|www\.|[-.\w+]@[-\w])[^\s|]*)", re.IGNORECASE)
#: The most classes whose transition matrix is shown.
_MOST_OF_MATRIX = 10
#: The names for numbers of rows, of the hub, and the numbers below which they hold.
_SIZES = {
    "n<1K": 10**3,
    "1K<n<10K": 10**4,
    "10K<n<100K": 10**5,
    "100K<n<1M": 10**6,
    "1M<n<10M": 10**7,
    "10M<n<100M": 10**8,
    "100M<n<1B": 10**9,
    "1B<n<10B": 10**10,
    "10B<n<100B": 10**11,
    "100B<n<1T": 10**12,
}


def plain_text(text: str) -> str:
    """A text that Markdown shows as it is; what GitHub's dialect would take for an address is in a code span."""
    parts = _ADDRESS.split(printable(text))  # every second one is an address
    return "".join(_code(part) if i % 2 else escaped(part) for i, part in enumerate(parts))


def escaped(text: str) -> str:
    """A text that Markdown shows as it is, with backslashes; but for addresses."""
    return "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in printable(text))


def _code(text: str) -> str:
    """A text in a code span, between more backticks than it has in a row."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}"


def data_card(certificate: Certificate, declared: Declared, *, signed: bool) -> str:
    """The data card of a release, in Markdown: what it is, how to use it, its guarantee and its columns.

    Args:
        certificate: The certificate.
        declared: The declarations of the publisher.
        signed: True if the folder was signed when the card was written.
    """
    lines = [
        "---",
        *(f"{key}: {declared.shown(name)}" for key, name in _DECLARED.items() if declared.shown(name)),
        "size_categories:",
        f"- {next((name for name, rows in _SIZES.items() if certificate.rows < rows), 'n>1T')}",
        "task_categories:",
        f"- tabular-{'classification' if isinstance(certificate.space, Classes) else 'regression'}",
        "tags:",
        "- label-differential-privacy",
        *_CONFIGURATION,
        "---",
        "",
        f"# {plain_text(title(certificate))}",
        "",
        f"**{plain_text(warning(certificate))}**",
        "",
        *_promise(certificate),
        "",
        "## Learn from it",
        "",
        "```python",
        *python(certificate),
        "```",
        "",
        "Write the path of this folder in place of `shared`. A learner takes the released labels through the "
        "probabilities below, and predicts true ones.",
        "",
        "## Released labels given true ones",
        "",
        *_transitions(certificate),
        "",
        "## Columns",
        "",
        *_grid(("column", "type", "what it is"), (map(plain_text, row) for row in described_columns(certificate))),
        "",
        "## Verify it",
        "",
        f"`labeldp verify shared` recomputes the guarantee from `{CERTIFICATE}`, and compares this card with it.",
        _SIGNED if signed else _NOT_SIGNED,
        "",
        *_limits(certificate, declared),
    ]
    return "\n".join(lines) + "\n"


#: Keys of the hub, and the declarations that are their values.
_DECLARED = {"license": "license", "pretty_name": "name"}
_CONFIGURATION = ("configs:", "- config_name: default", '  data_files: "*.parquet"')
_SIGNED = (
    f"When this card was written, the folder was signed: `{SIGNATURE}`. With `--public-key`, and the public key of "
    "whoever made it, that is checked too."
)
_NOT_SIGNED = "When this card was written, the folder was not signed: nothing shows who made it."


def _promise(certificate: Certificate) -> list[str]:
    """The number of rows, the guarantee, and its meaning."""
    sentences = map(plain_text, certificate.sentence.split("\n"))
    return [f"{certificate.rows:,} rows.", "", *sentences, "", plain_text(certificate.meaning)]


def _limits(certificate: Certificate, declared: Declared) -> list[str]:
    """Declared assumptions, and statements that no certificate can show."""
    own = [f"{key} {value}, by whoever wrote this card" for key, value in vars(declared).items() if value is not None]
    return [
        "Declared, and not checked:",
        "",
        *(f"- {plain_text(each)}" for each in (*certificate.assumptions, *own)),
        "",
        "No certificate can show:",
        "",
        *(f"- {plain_text(each)}" for each in certificate.unknown),
    ]


def _transitions(certificate: Certificate) -> list[str]:
    """The transition matrix, of few classes; else the probabilities that it consists of."""
    channel, space = certificate.channel, certificate.space
    if not isinstance(channel, ClassChannel):
        return [f"{plain_text(channel.detail).capitalize()}; `{CERTIFICATE}` has their probabilities."]
    if certificate.law["by_row"]:
        return [f"{plain_text(channel.detail).capitalize()}; `release.likelihood()` has the probabilities of each row."]
    if channel.form != "class" or space.size > _MOST_OF_MATRIX:
        chance, noun = channel.membership, "class" if isinstance(space, Classes) else "number"
        return [
            f"The true {noun} is released, or in the released set, with probability {float(chance.true):.6f}, and each "
            f"other {noun} with probability {float(chance.other):.6f}."
        ]
    table, names = channel.table(), [plain_text(str(value)) for value in space.points]
    rows = [(name, *(f"{p:.6f}" for p in chances)) for name, chances in zip(names, table.matrix, strict=True)]
    return _grid(("true class", *(names[int(code)] for code in table.outcomes)), rows)


def _grid(head: Sequence[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A table in Markdown."""
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows)]
