"""Fitted generators: their source, their form, and how far drawn rows are from true ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labeldp._strict_json import strict_json
from labeldp.audit.pipelines import DivergenceEstimate
from labeldp.mechanisms.resampling import ColumnForm
from labeldp.privacy import shown_above
from labeldp.results._blocks import Block, Part, Prose, Section, Terms
from labeldp.results._numbers import interval, share

if TYPE_CHECKING:  # the learners are an extra
    from labeldp.learning.generators import FittedGenerator

_LAWS = {
    "copula": "for each class, the marginals of its rows, combined by normal correlations",
    "cells": "for each class, the frequencies of all possible rows, in integers",
}
_SHOWN = 12
#: Two-sample accuracy: below the first drawn rows are hard to distinguish, above the second easy.
_HARDLY, _EASILY = 0.6, 0.75
_MEANING = (
    "Declare D with 'labeldp release --divergence ORDER=D': the divergence of true features of a label from drawn ones "
    "of all labels mixed, in nats. Even a perfect generator has D up to {most:.2f} here (the log of the number of "
    "classes) if features determine the label. These are estimates from rows of this table, not a guarantee, and "
    "likely too small: declare more. Your declaration is about the rows that you release."
)


@dataclass(frozen=True, kw_only=True)
class Generated:
    """A fitted generator, as ``labeldp generator --json`` prints it: see ``generator_part``."""

    output: str
    model: str
    smoothing: float
    source: Mapping[str, Any]
    classes: tuple[object, ...]
    columns: tuple[str, ...]
    two_sample: tuple[float, float, float, float] | None
    divergences: Mapping[str, tuple[DivergenceEstimate, ...]] | None

    @classmethod
    def of(
        cls,
        fitted: FittedGenerator,
        path: str,
        two_sample: tuple[float, float, float, int] | None = None,
        divergences: Mapping[str, Sequence[DivergenceEstimate]] | None = None,
    ) -> Generated:
        """A fitted generator: see ``generator_part``."""
        return cls(
            output=path,
            model=fitted.law.name,
            smoothing=fitted.smoothing,
            source=fitted.source.describe(),
            classes=tuple(fitted.space.points),
            columns=tuple(fitted.form.names),
            two_sample=two_sample,
            divergences=None if divergences is None else {name: tuple(each) for name, each in divergences.items()},
        )


def generator_part(
    fitted: FittedGenerator,
    path: str,
    two_sample: tuple[float, float, float, int] | None = None,
    divergences: Mapping[str, Sequence[DivergenceEstimate]] | None = None,
) -> Part:
    """A fitted generator, its source and its file; public, or covered by the guarantee of its labels.

    Args:
        fitted: A generator.
        path: Its file.
        two_sample: The estimated share of held-out rows and as many draws that a classifier tells apart correctly, its
            95 % confidence interval, and the number of held-out rows.
        divergences: For each class the estimated divergence of its features from the generator's, all classes mixed,
            at several orders.
    """
    smoothing = f"{fitted.smoothing:.3g} of the rows are drawn uniformly over the form"
    more = len(fitted.form.columns) - _SHOWN
    lines = Terms(
        (
            ("model", _LAWS[fitted.law.name]),
            *([("smoothing", smoothing)] if fitted.smoothing else []),
            ("source", fitted.source.sentence()),
            ("classes", _some([str(point) for point in fitted.space.points])),
            *((column.name, _values(column)) for column in fitted.form.columns[:_SHOWN]),
            *([("and", f"{more} more columns")] if more > 0 else []),
            ("divergence", _bound(fitted.log_floor)),
            *([("realism", _realism(*two_sample))] if two_sample is not None else []),
            ("recognition", _recognition(fitted)),
            ("file", path),
        )
    )
    done = f"Fitted a generator of {len(fitted.form.columns)} columns."
    estimates = [] if divergences is None else _estimates(divergences, fitted.space.size)
    return Part("A generator", done, "", (done,), (), (Section("", (lines, *estimates, Prose(_promise(fitted)))),))


def _realism(part: float, low: float, high: float, rows: int) -> str:
    """The two-sample accuracy with its interval, and a judgement of it."""
    if low > _EASILY:
        verdict = "poor, drawn rows are easily recognized: try more rows, fewer columns or another --model"
    elif high < _HARDLY:
        verdict = "good, drawn rows are hard to recognize"
    else:
        verdict = "usable, but a model learns less from drawn rows that can be recognized"
    return (
        f"{verdict}. A classifier is right for {share(part)} ({interval(low, high)}) of {rows:,} held-out and as many "
        "drawn rows (50 % by chance); an estimate, unrelated to D"
    )


def _recognition(fitted: FittedGenerator) -> str:
    """The refusal of releases of rows that the generator was fitted on, or the reason why there is none."""
    if fitted.seen and fitted.source.kind == "public":
        return f"a release of many of the {len(fitted.seen):,} rows it was fitted on is refused: release other rows"
    why = "its file stores no traces of rows that are not public" if fitted.seen else "too many of its rows are equal"
    return f"none: {why}. Make sure yourself that you release none of the rows it was fitted on"


def _estimates(divergences: Mapping[str, Sequence[DivergenceEstimate]], classes: int) -> list[Block]:
    """Estimates of the D that a release declares, by class and at most, and their meaning."""
    if not divergences:
        return [Prose("D for --divergence was not estimated: pass --judge, with at least 100 rows of each class.")]
    rows = []
    for each in zip(*divergences.values(), strict=True):
        of = dict(zip(divergences, each, strict=True))
        most = max(of, key=lambda name: of[name].value)
        shown = sorted(of, key=lambda name: -of[name].value)[:_SHOWN] if len(of) > _SHOWN else of
        more = f", and {len(of) - _SHOWN} more" if len(of) > _SHOWN else ""
        texts = ", ".join(f"{name} {_interval(of[name])}" for name in shown)
        largest = f"{of[most].value:.2f} ({most}), interval up to {max(one.high for one in each):.2f}"
        rows.append((f"D, order {each[0].alpha:g}", f"largest {largest}; by label {texts}{more}"))
    lacking = classes - len(divergences)
    left = f" Not estimated for {lacking} of the labels, which have too few rows." if lacking else ""
    return [Terms(tuple(rows)), Prose(f"{_MEANING.format(most=math.log(classes))}{left}")]


def _interval(estimate: DivergenceEstimate) -> str:
    return f"{estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f})"


def _values(column: ColumnForm) -> str:
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
        return "of true features from drawn ones is unknown: a guarantee for features rests on the D that you declare"
    return f"of true features from drawn ones: at most {shown_above(-floor, 3)} nats, at every order"


def _promise(fitted: FittedGenerator) -> str:
    """The guarantee for the labels that it was fitted on."""
    if fitted.source.certificate is None:
        return (
            "You declared that the labels it was fitted on may be seen: nothing is promised about them. Release other "
            "rows with it. Every certificate prints its form: texts, ranges and listed values of these rows."
        )
    guarantee = strict_json(fitted.source.certificate)["guarantee"]["sentence"]
    return f"For the rows it was fitted on: {guarantee} Release other rows with it."
