"""What is said of a generator: what it draws, and what it knows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from labeldp.mechanisms import ColumnForm
from labeldp.privacy import shown_above
from labeldp.report._parts import Parts, pairs, row, said

if TYPE_CHECKING:  # the learners are an extra
    from labeldp.learning.generators import FittedGenerator

_LAWS = {
    "copula": "for each class, the marginals of its rows, joined by normal correlations",
    "mixture": "for each class, a mixture of Gaussians, with independent categories in each",
    "cells": "for each class, the frequencies of all rows that there can be, in integers",
}
_SHOWN = 12


def generator_text(fitted: FittedGenerator, path: str, share: float | None = None) -> Parts:
    """What was fitted, from what, and where it is; public, or covered by what its labels cost.

    Args:
        fitted: A generator.
        path: Its file.
        share: The share of rows that were told from drawn ones, if that was estimated.
    """
    lines = pairs()
    row(lines, "law", _LAWS[fitted.law.name])
    if fitted.smoothing:
        row(lines, "smoothing", f"{fitted.smoothing:.4g} of the rows are drawn evenly over the form")
    row(lines, "source", fitted.source.sentence())
    row(lines, "classes", _some([str(point) for point in fitted.space.points]))
    for column in fitted.form.columns[:_SHOWN]:
        row(lines, column.name, _looks(column))
    if len(fitted.form.columns) > _SHOWN:
        row(lines, "and", f"{len(fitted.form.columns) - _SHOWN} more columns")
    row(lines, "divergence", _bound(fitted.log_floor))
    if share is not None:
        row(lines, "told apart", f"of held-out rows and drawn ones {share:.1%}, where a coin has 50 %; an estimate")
    row(lines, "known again", f"{len(fitted.seen)} of its rows" if fitted.seen else "no row: too many are equal")
    row(lines, "file", path)
    return [lines, said(_promise(fitted))]


def _looks(column: ColumnForm) -> str:
    gaps = ", or missing" if column.missing else ""
    if column.values is not None:
        return f"{_some([str(value) for value in column.values])}{gaps}"
    digits = "" if column.decimals is None else f", {column.decimals} decimals"
    return f"{column.type} from {column.low} to {column.high}{digits}{gaps}"


def _some(texts: list[str]) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return f"{', '.join(texts[:_SHOWN])}{more}"


def _bound(floor: float | None) -> str:
    if floor is None:
        return "of the real features from these is not known: what is promised of features rests on what you state"
    return f"of any real features from these: at most {shown_above(-floor, 4)} nats, at every order"


def _promise(fitted: FittedGenerator) -> str:
    """What holds of the labels that it was fitted on."""
    if fitted.source.certificate is None:
        return (
            "You declared that the labels it was fitted on may be seen: nothing is promised of them. Rows that are "
            "released with it must be others. Every certificate prints its form: texts, ends and listed values of "
            "these rows."
        )
    told = json.loads(fitted.source.certificate)["guarantee"]["sentence"]
    return f"Of the rows it was fitted on: {told} Rows that are released with it must be others."
