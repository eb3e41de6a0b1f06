"""Prediction sets that were calibrated by released labels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from labeldp.results._blocks import Part, Prose, Section, Terms
from labeldp.results._numbers import share, three_digits

if TYPE_CHECKING:
    from labeldp.learning.inference import PredictionSets

_ALL_ROWS = "all rows"
_NOTE = (
    "The coverage is that of the average row of this population: sets of some kinds of rows may miss the true label "
    "more often."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class CalibratedSets:
    """Prediction sets that were calibrated on held-out rows.

    Attributes:
        coverage: The least share of rows whose set holds the true label.
        confidence: The confidence of that.
        rows: The rows that they were calibrated on.
        by: Whether the coverage is that of all rows together, of each class or of each group.
        limits: For all rows, or each class or group, the least probability of a class in a set, or the largest distance
            of a number from the prediction; None for no limit.
        size: Mean number of classes in a set, or mean width of an interval.
        most: Number of classes, or width of the declared range.
        reasons: Why sets are of all labels, where they are.
        kind: Whether they are of classes, or of numbers.
    """

    coverage: float
    confidence: float
    rows: int
    by: Literal["", "class", "group"]
    limits: Mapping[str, float | None]
    size: float
    most: float
    reasons: Mapping[str, str]
    kind: Literal["classes", "numbers"]

    @classmethod
    def of(cls, sets: PredictionSets) -> CalibratedSets:
        """The document of calibrated sets."""
        ends = sets.ends
        return cls(
            coverage=1.0 - sets.alpha,
            confidence=sets.confidence,
            rows=sets.rows,
            by=sets.by,  # type: ignore[arg-type]
            limits={_name(key): limit if math.isfinite(limit) else None for key, limit in sets.limits.items()},
            size=sets.size,
            most=float(len(sets.classes or ())) if ends is None else ends[1] - ends[0],
            reasons={_name(key): reason for key, reason in sets.reasons.items()},
            kind="classes" if ends is None else "numbers",
        )


def _name(key: object) -> str:
    return _ALL_ROWS if key == "" else str(key)


def set_terms(sets: CalibratedSets | None) -> Iterator[tuple[str, str]]:
    """The coverage of prediction sets, and their size."""
    if sets is None:
        return
    of = {"": "rows", "class": "the rows of each class", "group": "the rows of each group"}[sets.by]
    shown = f"on {sets.rows:,} other released rows, with {share(sets.confidence)} confidence"
    yield "sets", f"hold the true label of at least {share(sets.coverage)} of {of}: shown {shown}"
    size, most = three_digits(sets.size), three_digits(sets.most)
    yield "set size", f"{size} of {most} classes (mean)" if sets.kind == "classes" else f"{size} of {most} (mean width)"
    for name, reason in sets.reasons.items():
        yield "note", f"sets are of all labels{'' if name == _ALL_ROWS else f' of {name}'}: {reason}"


def sets_part(sets: CalibratedSets) -> Part:
    """Prediction sets, and what decides on them."""
    done = f"Sets that hold the true label of at least {share(sets.coverage)} of rows."
    what = "least probability" if sets.kind == "classes" else "largest distance"
    limits = [
        (f"{what}, {name}", "none" if limit is None else three_digits(limit)) for name, limit in sets.limits.items()
    ]
    sections = (Section("", (Terms((*set_terms(sets), *limits)), Prose(_NOTE, "aside"))),)
    return Part("Prediction sets", done, lead=(done,), sections=sections)
