"""Audits as sentences and tables for a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Context
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from labeldp.privacy import shown_above
from labeldp.results._parts import (
    Parts,
    add_row,
    check_table,
    epsilon_above,
    mark,
    name_value_table,
    paragraphs,
    sentence,
)

if TYPE_CHECKING:  # a plan and a release load no audit
    from labeldp.audit import Audit
    from labeldp.audit.mechanisms import FolderAudit

_METHODS = {
    "exact": "by exact computation, without sampling",
    "sampled": "by events chosen on some draws and tested on others",
    "one run": "by guesses of labels in one run of the pipeline",
    "estimate": "by an estimate, which proves nothing",
}
_NO_PROOF = (
    "An audit gives a lower bound on epsilon. A low bound is no proof of privacy: the proof is in the mechanism."
)


def audit_text(audit: Audit) -> Parts:
    """The verdict of an audit, and its numbers."""
    delta = f", delta {audit.delta:g}" if audit.delta else ""
    rows = [
        ("claimed", f"epsilon {rounded_up(audit.claim)}{delta}"),
        ("shown", f"epsilon of at least {rounded_down(audit.lower)}" if audit.lower else "nothing"),
    ]
    if audit.upper is not None:
        rows.append(("at most", f"epsilon {rounded_up(audit.upper)}{_condition(audit)}"))
    if audit.lower:
        rows.append(("by", audit.worst))
    lines = name_value_table([*rows, ("how", _how(audit))])
    return [_verdict(audit), Text(), lines, *([Text(), sentence(_NO_PROOF)] if audit.holds and audit.draws else [])]


def folder_audit_text(audit: FolderAudit, found: Sequence[RenderableType] = ()) -> Parts:
    """The result of the audit of a release folder, what else was found of it, and what the result rests on.

    Args:
        audit: The audit.
        found: The findings beside it, such as those of an attack.
    """
    lines = check_table(audit.checks)
    for each, what in zip(audit.audits, _subjects(len(audit.audits)), strict=True):
        add_row(lines, mark(each.holds), f"{what}: {each.sentence()}")
    parts: Parts = [_folder_result(audit), Text(), *found, Text("What this rests on:", "bold"), lines]
    if audit.audits:
        doubt = 1.0 - audit.confidence
        parts.append(sentence(f"A sound release fails these checks with probability at most {doubt:.1g}."))
    parts += [Text(), Text("An audit cannot show:"), *(sentence(f"  - {what}") for what in audit.unknown)]
    if audit.holds and audit.certificate is not None:
        parts += [Text(), paragraphs(audit.certificate.sentence)]
    return parts


def _folder_result(audit: FolderAudit) -> Text:
    """The result of the audit of a folder, in one sentence."""
    if not all(check.holds for check in audit.checks):
        return Text("Not verified: do not rely on this release.", "bold red")
    if not audit.holds:
        return Text("Refuted: its labels disclose more than its certificate states.", "bold red")
    if not audit.audits:
        return Text("Verified. The answer to a query has no mechanism for single labels to audit.", "green")
    promise = audit.certificate.guarantee if audit.certificate is not None else None
    stated = "" if promise is None else f" {epsilon_above(promise.epsilon)} per {promise.unit}"
    return sentence(f"No fault was found at the stated epsilon{stated}.", "green")


def _subjects(count: int) -> list[str]:
    """The subject of each audit of a folder."""
    subjects = [*["the channel, from its integers"] * (count - 1), "the sampler of this version, with that channel"]
    return subjects if count else []


def _verdict(audit: Audit) -> Text:
    """The verdict, in a colour for its outcome."""
    style = "bold red" if not audit.holds else "yellow" if audit.wasteful else "green"
    return sentence(audit.sentence(), style)


def _how(audit: Audit) -> str:
    """The method, the number of draws, and the confidence."""
    draws = f"; {audit.draws:,} draws" if audit.draws else ""
    confidence = "" if audit.confidence >= 1.0 else f"; confidence {audit.confidence:g}"
    return f"{_METHODS[audit.method]}{draws}{confidence}"


def _condition(audit: Audit) -> str:
    """The assumption of an upper bound from counts."""
    return ", assuming every possible output was observed" if audit.method == "sampled" else ""


def rounded_up(value: float) -> str:
    """An epsilon rounded up; with seven digits, since an audit can refute a claim by a hair."""
    return "infinity" if math.isinf(value) else shown_above(value, 7)


def rounded_down(value: float) -> str:
    """An epsilon rounded down."""
    if math.isinf(value):
        return "infinity"
    return f"{Context(prec=7, rounding=ROUND_FLOOR).create_decimal(repr(value)).normalize():f}"
