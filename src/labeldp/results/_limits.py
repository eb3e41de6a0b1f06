"""Limits of the field: a table of bounds, and what each assumes."""

from __future__ import annotations

import re

from labeldp.bounds import Limits
from labeldp.results._blocks import Block, Grid, Part, Points, Prose, Section
from labeldp.results._numbers import three_digits

_KINDS = {"upper": "at most", "lower": "at least"}
_HEADS = ("theorem", "bound", "constants", "where")
#: What stands in a statement for its value, after the quantity that is bounded.
_THIS = re.compile(r" is (?:at most|at least) this")
_MEANING = (
    "Proven: the value holds as it stands under the assumptions. Conventional: the theorem leaves constants open, and "
    "customary ones replace them, so that values serve comparisons alone."
)


def limits_part(limits: Limits) -> Part:
    """Bounds by paper, and their assumptions."""
    labels = "numeric labels" if limits.classes is None else f"{limits.classes:,} classes"
    features = f"dimension {limits.dimension:.3g}" if limits.dimension else "no features"
    lead = f"{limits.rows:,} rows, {labels}, {features}, {limits.trust}, epsilon {limits.epsilon:.3g}."
    sections = (Section("", limits_blocks(limits)), Section("Assumptions", (grounds(limits),), detail=True))
    return Part("Limits of the field", "What the papers prove", "", (lead,), (), sections)


def limits_blocks(limits: Limits) -> tuple[Block, ...]:
    """A table of bounds for each quantity, and what its marks mean."""
    tables: dict[str, list[tuple[str, ...]]] = {}
    for bound in limits.bounds:
        quantity, *more = _THIS.split(bound.statement)
        value = f"{_KINDS[bound.kind]} {three_digits(bound.value)}"
        row = (bound.theorem, value, bound.constants, " ".join(more).strip(" ,"))
        tables.setdefault(quantity, []).append(row)
    grids = [Grid.of(quantity, _HEADS, rows) for quantity, rows in tables.items()]
    return *grids, Prose(_MEANING, "aside")


def grounds(limits: Limits) -> Points:
    """Each assumption, with the theorems that rest on it."""
    theorems: dict[str, list[str]] = {}
    for bound in limits.bounds:
        for assumption in bound.assumptions:
            theorems.setdefault(assumption, []).append(bound.theorem)
    return Points.of([f"{assumption}: {'; '.join(names)}" for assumption, names in theorems.items()])
