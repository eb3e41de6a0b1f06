"""Audits in words, for a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Context
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from labeldp.privacy import shown_above
from labeldp.report._parts import Parts, pairs, row, said

if TYPE_CHECKING:  # a plan and a release load no audit
    from labeldp.audit import Audit
    from labeldp.audit.mechanisms import FolderAudit

_METHODS = {
    "exact": "by arithmetic, without sampling",
    "sampled": "by events that were chosen on some draws and tested on others",
    "one run": "by planted labels, in one run of the pipeline",
    "estimate": "by an estimate, which proves nothing",
}
_NO_PROOF = "An audit shows a lower bound. That nothing was shown is no proof of privacy: a proof is in the law."


def audit_text(audit: Audit) -> Parts:
    """The verdict of an audit and the numbers that it rests on."""
    lines = pairs()
    delta = f", delta {audit.delta:g}" if audit.delta else ""
    row(lines, "claimed", f"epsilon {_number(audit.claim)}{delta}")
    row(lines, "shown", f"epsilon of at least {_below(audit.lower)}" if audit.lower else "nothing")
    if audit.upper is not None:
        row(lines, "at most", f"epsilon {_number(audit.upper)}{_seen(audit)}")
    if audit.lower:
        row(lines, "by", audit.worst)
    row(lines, "how", _how(audit))
    return [_verdict(audit), Text(), lines, *([Text(), said(_NO_PROOF)] if audit.holds and audit.draws else [])]


def folder_audit_text(audit: FolderAudit, sentences: Sequence[str] = ()) -> Parts:
    """What was looked at in the folder of a release, what its law keeps, and what cannot be known."""
    lines = Table.grid(padding=(0, 2))
    for check in audit.checks:
        row(lines, _mark(check.holds), check.what)
        if not check.holds:
            row(lines, "", check.found)
    for each, what in zip(audit.audits, _subjects(len(audit.audits)), strict=True):
        row(lines, _mark(each.holds), f"{what}: {each.sentence()}")
    parts: Parts = [lines, Text()]
    if audit.holds and audit.certificate is not None:
        parts += [said(audit.certificate.sentence), Text()]
        if not audit.audits:
            parts += [
                said("This is an answer to a query: it has no law of single labels that could be audited."),
                Text(),
            ]
    parts += [said(sentence) for sentence in sentences]
    parts += [Text("This cannot show:"), *(said(f"  - {what}") for what in audit.unknown)]
    if audit.audits:
        doubt = 1.0 - audit.confidence
        parts += [Text(), said(f"A sound release fails these checks with a chance of at most {doubt:.1g}.")]
    return parts


def _subjects(count: int) -> list[str]:
    """What each audit of a folder is of."""
    return (
        [*["the law, from its integers"] * (count - 1), "the draw of this version, with that law"][-count:]
        if count
        else []
    )


def _verdict(audit: Audit) -> Text:
    """The sentence, in the colour of what was found."""
    style = "bold red" if not audit.holds else "yellow" if audit.wasteful else "green"
    return said(audit.sentence(), style)


def _how(audit: Audit) -> str:
    """The method, what was drawn, and how sure it is."""
    drawn = f"; {audit.draws:,} draws" if audit.draws else ""
    sure = "" if audit.confidence >= 1.0 else f"; confidence {audit.confidence:g}"
    return f"{_METHODS[audit.method]}{drawn}{sure}"


def _seen(audit: Audit) -> str:
    """What an upper bound from counts assumes."""
    return ", if there are no outputs but those that were seen" if audit.method == "sampled" else ""


def _mark(holds: bool) -> Text:
    return Text("ok" if holds else "FAILED", "green" if holds else "bold red")


def _number(value: float) -> str:
    """A number for people, rounded up."""
    return "infinity" if math.isinf(value) else shown_above(value, 7)


def _below(value: float) -> str:
    """A number for people, rounded down."""
    if math.isinf(value):
        return "infinity"
    return f"{Context(prec=7, rounding=ROUND_FLOOR).create_decimal(repr(value)).normalize():f}"
