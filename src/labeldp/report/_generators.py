"""What is said of a generator: what it draws, and what it knows."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from scipy.stats import binomtest

from labeldp.audit.pipelines import DivergenceEstimate
from labeldp.mechanisms.features import ColumnForm
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
#: Shares of rows told apart: below the first they are hardly told, above the second easily.
_HARDLY, _EASILY = 0.6, 0.75
_WORTH = (
    "D is what --divergence ORDER=D of 'labeldp release' declares: how far true features of a label are from drawn "
    "ones of all labels mixed, in nats. Also a perfect generator has D up to {most:.2f} here (the log of the number of "
    "classes), where features tell the label. These are estimates from rows of this table, not a guarantee: what you "
    "declare is your own, of the rows that you release. An estimate from below is likely too small: declare more."
)


def generator_text(
    fitted: FittedGenerator,
    path: str,
    told: tuple[float, int] | None = None,
    divergences: Mapping[str, Sequence[DivergenceEstimate]] | None = None,
) -> Parts:
    """What was fitted, from what, and where it is; public, or covered by what its labels cost.

    Args:
        fitted: A generator.
        path: Its file.
        told: The share of rows that were told from drawn ones, and of how many held-out rows and as many draws, if
            that was estimated.
        divergences: For each class how far its features are from the generator's, all classes mixed, at several
            orders, if that was estimated.
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
    if told is not None:
        row(lines, "told apart", _told(*told))
    row(lines, "known again", _known(fitted))
    row(lines, "file", path)
    return [lines, *([] if divergences is None else _estimates(divergences, fitted.space.size)), said(_promise(fitted))]


def _told(share: float, rows: int) -> str:
    """How well held-out rows are told from drawn ones, and whether that is good."""
    interval = binomtest(round(share * 2 * rows), 2 * rows).proportion_ci(0.95)
    if interval.low > _EASILY:
        judged = "easily: its rows show that they are drawn; more rows, fewer columns or another --model may do better"
    elif interval.high < _HARDLY:
        judged = "hardly: good"
    else:
        judged = "somewhat: usable, and a model learns less from rows that are told"
    return (
        f"{judged}. {share:.1%} right ({interval.low:.1%} to {interval.high:.1%}) of {rows:,} held-out rows and as "
        "many drawn ones, where a coin has 50 %; an estimate, which says nothing of D"
    )


def _known(fitted: FittedGenerator) -> str:
    """Whether a release notices rows that a generator was fitted on, and what to do where it does not."""
    if fitted.seen and fitted.source.kind == "public":
        return (
            f"a release that has many of {len(fitted.seen):,} rows it was fitted on is refused, as an accident: give "
            "it other rows"
        )
    why = (
        "its file holds no traces of rows that are not public"
        if fitted.seen
        else "too many rows are equal to tell theirs"
    )
    return f"no: {why}. See to it yourself that none of the rows you release is among those it was fitted on"


def _estimates(divergences: Mapping[str, Sequence[DivergenceEstimate]], classes: int) -> Parts:
    """Estimates of the D that a release declares: of each class, the largest, and what they are worth."""
    if not divergences:
        return [said("D of --divergence was not estimated: give --judge, and at least 100 rows of each class.")]
    lines = pairs()
    for each in zip(*divergences.values(), strict=True):
        of = dict(zip(divergences, each, strict=True))
        most = max(of, key=lambda name: of[name].value)
        shown = sorted(of, key=lambda name: -of[name].value)[:_SHOWN] if len(of) > _SHOWN else of
        more = f", and {len(of) - _SHOWN} more" if len(of) > _SHOWN else ""
        texts = ", ".join(f"{name} {_spread(of[name])}" for name in shown)
        largest = f"{of[most].value:.2f} ({most}), up to {max(one.high for one in each):.2f} by its spread"
        row(lines, f"D, order {each[0].alpha:g}", f"largest {largest}; by label {texts}{more}")
    lacking = classes - len(divergences)
    left = f" Not estimated for {lacking} of the labels: too few rows." if lacking else ""
    return [lines, said(f"{_WORTH.format(most=math.log(classes))}{left}")]


def _spread(estimate: DivergenceEstimate) -> str:
    return f"{estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f})"


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
