"""The text file in every release folder that says what the folder is, for whoever finds it without anything else.

Its bytes are a promise, as those of a data card are.
"""

from __future__ import annotations

import textwrap

from labeldp._checks import printable
from labeldp.release.folder._certificate import Certificate
from labeldp.release.folder._description import python, title, warning
from labeldp.release.folder._staging import CERTIFICATE

_WIDTH = 100
_ANSWER = (
    "This folder holds an answer about the labels of a table. It was randomized: noise was added, or labels were "
    "exchanged within clusters of rows. Do not take it for the true answer."
)
_PATH = "In Python, with the path of this folder in place of 'shared':"
_VERIFY = f"To verify the folder, run 'labeldp verify shared': it recomputes the guarantee from {CERTIFICATE}."
_ASK = "Questions about the data: ask whoever gave you this folder."


def readme(certificate: Certificate) -> str:
    """The text, which follows from the certificate."""
    if certificate.of_answer:
        about, code = [_ANSWER], ["from labeldp import Answer", "", 'print(Answer.load("shared"))']
    else:
        about, code = [f"{title(certificate)}.", warning(certificate)], python(certificate)
    facts = [*about, f"{certificate.rows:,} rows.", *certificate.sentence.split("\n\n"), _PATH]
    parts = [*map(_wrapped, facts), textwrap.indent("\n".join(code), "    "), _wrapped(_VERIFY), _ASK]
    return "\n\n".join(parts) + "\n"


def _wrapped(text: str) -> str:
    """A paragraph in lines, none of which begins with a percent sign."""
    whole = printable(text).replace(" %", "\0%")
    return textwrap.fill(whole, _WIDTH, break_long_words=False, break_on_hyphens=False).replace("\0%", " %")
