"""Shares, means and quantiles of true labels, overall and by public group."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from labeldp.learning.inference import Description
from labeldp.results._blocks import Grid, Part, Prose, Section
from labeldp.results._numbers import above, below, interval, share, three_digits
from labeldp.results._release import Promised, guarantee_prose, promised

if TYPE_CHECKING:
    from labeldp.learning.metrics import Estimate
    from labeldp.release import Release

_ALL_ROWS = "all rows"
_OTHERS = "Less the others: the difference to all other rows, which is no effect of being in the group."


@dataclass(frozen=True, eq=False, kw_only=True)
class Estimated(Promised):
    """What was estimated of the true labels of a release, and the guarantee that covers it.

    Attributes:
        label: The label.
        rows: Number of released rows.
    """

    label: str
    rows: int

    @classmethod
    def of(cls, release: Release, **estimates: Any) -> Self:
        """Estimates by their names, of the label of a release with a certificate."""
        certificate: Any = release.certificate
        return cls(**promised(certificate), label=certificate.label, rows=certificate.rows, **estimates)


@dataclass(frozen=True, eq=False, kw_only=True)
class Described(Estimated):
    """Shares, means and quantiles of true labels, as ``labeldp describe --json`` prints them.

    Attributes:
        by: The public column whose values are the groups; empty for all rows alone.
        described: The estimates.
    """

    by: str
    described: Description


def described_part(found: Described) -> Part:
    """Shares, means and quantiles, and the guarantee that covers them."""
    part = description_part(found.described)
    groups = len({each.group for each in found.described.summaries} - {""})
    by = f", by {groups} values of {found.by}" if groups else ""
    done = f"Described the true {found.label!r} of {found.rows:,} released rows{by}, at no further privacy cost."
    return covered(replace(part, result=done, lead=(done,)), found)


def covered(part: Part, found: Estimated) -> Part:
    """Parts of a result, followed by the guarantee that covers it."""
    return replace(part, sections=(*part.sections, Section("", guarantee_prose(found.sentence))))


def description_part(found: Description) -> Part:
    """Estimates of true labels, with intervals that hold together."""
    numbers = not found.of_classes
    rows = [
        (
            each.group or _ALL_ROWS,
            f"{each.rows:,}",
            each.outcome,
            *_texts(each.estimate, numbers),
            *(("", "") if each.difference is None else _texts(each.difference, numbers, signed=True)),
        )
        for each in found.summaries
    ]
    together = "hold together" if found.intervals > 1 else "holds"
    note = f"{found.intervals:,} intervals {together} with {share(found.level)} confidence (Bonferroni)."
    if any(each.difference is not None for each in found.summaries):
        note = f"{note} {_OTHERS}"
    heads = ("group", "rows", "of", "estimate", "interval", "less the others", "interval of that")
    grid = Grid.of("true labels, estimated from released ones", heads, rows, (1, 3, 4, 5, 6), most=400)
    reason = [Prose(f"No quantiles: {found.reason}.")] if found.reason else []
    sections = (Section("", (grid, Prose(note, "aside"), *reason)),)
    title = "Shares of classes" if found.of_classes else "Means of numbers"
    return Part(title, "True labels, by group", lead=(), sections=sections)


def _texts(found: Estimate, numbers: bool, *, signed: bool = False) -> tuple[str, str]:
    """An estimate and its interval, rounded outward; shares in percent."""
    if math.isnan(found.value):
        return "cannot be told", ""
    if numbers:
        return f"{'+' if signed and found.shown > 0 else ''}{three_digits(found.shown)}", _ends(found)
    if signed:
        ends = f"{_points(found.low, math.floor)} to {_points(found.high, math.ceil)}"
        return f"{100.0 * found.shown:+.1f} points", ends
    return share(found.shown), interval(found.low, found.high)


def _ends(found: Estimate) -> str:
    return f"{below(found.low)} to {above(found.high)}"


def _points(value: float, rounded: object) -> str:
    return f"{rounded(round(1000.0 * value, 6)) / 10.0:+.1f}"  # type: ignore[operator]
