"""Choosing an epsilon: a slider over what each one costs and means, targets, the command, and room for the decision."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from labeldp.bounds.planning import Forecast, Option
from labeldp.privacy import Guarantee
from labeldp.results._blocks import Block, Choice, Grid, Prose, Section, Signatures, Target
from labeldp.results._numbers import above, epsilon_above, posterior, three_digits
from labeldp.results._plan_costs import Column, costs_columns

#: Beliefs before a release, and the one that a target is for.
_BELIEFS, TARGET = (0.5, 0.1, 0.01), 0.1
_PERCENT = 100.0
#: Prediction sets: their coverage, the normal quantile of its confidence of 95 %, and the share of rows that shows it.
_COVERAGE, _QUANTILE, _SHOWING = 0.9, 1.645, 0.2
_READ = "Sure of a statement about {}. Everything else: features, other labels, and earlier releases."
_SPENT = (
    "Earlier releases of these labels spent epsilon {}, by the ledger. Releases add up: judge the total, not this "
    "release alone."
)
_FAILURE = "Figures of all releases hold but for a failure of probability {}."
_OTHER_UNIT = (
    "Earlier releases of these labels have another privacy unit ({}), so their epsilon does not simply add up with "
    "this one: 'labeldp release' states the total, and refuses what is beyond the budget."
)


@dataclass(frozen=True)
class Choosing:
    """The choices of a page, with what is known beside the plan.

    Attributes:
        options: The default mechanism at each epsilon of the slider, increasing.
        spent: The guarantee of earlier releases of these labels together.
        command: The release command, with ``EPSILON`` in the place of epsilon.
    """

    options: tuple[Option, ...]
    spent: Guarantee | None = None
    command: str = ""


def choice_sections(choosing: Choosing, forecast: Forecast, promise: Guarantee) -> Iterator[Section]:
    """Sections to choose by, and for the decision; the guarantee gives the words and the unit."""
    if not choosing.options:
        return
    adds = choosing.spent is not None and choosing.spent.spelled_unit == promise.spelled_unit
    columns = [*costs_columns(forecast), *_sets(forecast), *_beliefs()]
    if choosing.spent is not None and adds:
        columns += _totals(choosing.spent)
    rows = [tuple(text(option) for _, text in columns) for option in choosing.options]
    shown = [place for place, cells in enumerate(zip(*rows, strict=True)) if any(cells)]
    grid = Grid.of(
        "Every epsilon of the slider",
        tuple(columns[place][0] for place in shown),
        [tuple(row[place] for place in shown) for row in rows],
        tuple(range(len(shown))),
    )
    nearest = min(range(len(rows)), key=lambda at: abs(choosing.options[at].epsilon - (forecast.epsilon or 1.0)))
    targets = tuple(_targets(choosing, forecast, choosing.spent if adds else None))
    blocks: list[Block] = [Choice(grid, nearest, targets, _READ.format(promise.labels), choosing.command)]
    if choosing.spent is not None:
        blocks.insert(0, Prose(_earlier(choosing.spent) if adds else _OTHER_UNIT.format(choosing.spent.unit), "heed"))
    yield Section("Choose an epsilon", tuple(blocks), detail=True)
    room = ("Epsilon", "Reasons, and what else protects the people", "Decided by", "Place, date and signature")
    yield Section("Decided", (Signatures(room, filled=room[0]),), detail=True)


def _sets(forecast: Forecast) -> Iterator[Column]:
    """Classes in a prediction set: of a model that is always right, to one that knows nothing."""
    if not forecast.randomizes_classes or not forecast.dimension:
        return
    classes, rows, units = forecast.classes or 0, forecast.rows * _SHOWING, forecast.units
    people = (
        rows
        if units is None
        else _SHOWING * sum(part / size for part, size in zip(units.rows, units.sizes, strict=True))
    )
    name = f"classes in a prediction set that is shown to hold {_PERCENT * _COVERAGE:g} %, of {classes}*"
    yield name, lambda option: _set_sizes(classes, held_by_sets(option, classes, rows, people))


def _set_sizes(classes: int, held: float) -> str:
    return f"all {classes}" if held >= 1.0 else f"1 to {three_digits(held * classes)}"


def held_by_sets(option: Option, classes: int, rows: float, people: float) -> float:
    """Share of true labels that prediction sets hold if released rows of people are to show that they hold nine tenths.

    A released row says of a set with half of the classes whether it holds the true one, with this variance if classes
    are alike; the test that calibrates sets is a normal one. Noise differs between rows, and labels between people.
    """
    half = classes // 2
    noise = (option.variance or 0.0) / (classes - 1) * half * (classes - half) / classes
    return _COVERAGE + _QUANTILE * math.sqrt(noise / rows + _COVERAGE * (1.0 - _COVERAGE) / people)


def _earlier(spent: Guarantee) -> str:
    """Spending of earlier releases; with a delta, the failure that figures of all releases leave out."""
    failure = f" {_FAILURE.format(above(spent.delta))}" if spent.delta else ""
    return _SPENT.format(epsilon_above(spent.epsilon)) + failure


def _sure(belief: float, *, by_all: bool = False) -> str:
    """The limit of a belief, with the condition that it rests on."""
    rest = "everything else, without earlier releases," if by_all else "everything else"
    return f"what {rest} makes {_PERCENT * belief:g} % sure becomes at most{', by all releases' * by_all}"


def _beliefs() -> Iterator[Column]:
    """Limits of beliefs by this release alone."""
    for belief in _BELIEFS:
        yield _sure(belief), lambda option, p=belief: posterior(Guarantee(option.epsilon).posterior(p))  # type: ignore[misc]


def _totals(spent: Guarantee) -> Iterator[Column]:
    """Total of all releases, and the limit of a belief by them."""
    yield "epsilon of all releases together", lambda option: epsilon_above(spent.epsilon + option.epsilon)
    yield _sure(TARGET, by_all=True), lambda option: posterior(_after(option, spent))


def _after(option: Option, spent: Guarantee | None) -> float:
    """The most that the belief of targets can become by all releases together."""
    before = 0.0 if spent is None else spent.epsilon
    return Guarantee(math.nextafter(before + option.epsilon, math.inf)).posterior(TARGET)


def _targets(choosing: Choosing, forecast: Forecast, spent: Guarantee | None) -> Iterator[Target]:
    """Ways to find an epsilon: the largest within a limit on beliefs, and the smallest that is good enough."""
    beliefs = [float(posterior(_after(each, spent)).removesuffix(" %")) for each in choosing.options]
    question = f"Largest epsilon at which {_sure(TARGET, by_all=spent is not None)} (in %)"
    yield Target(question, tuple(beliefs), at_most=True, largest=True)
    if forecast.of_numbers:
        errors = [each.error if each.test_error is None else each.test_error for each in choosing.options]
        name = "test RMSE" if forecast.dimension else "error of the mean"
        yield Target(f"Smallest epsilon with a {name} of at most", tuple(errors), at_most=True, largest=False)
    elif forecast.loses_accuracy:
        lost = [_PERCENT * (each.lost_high or 0.0) for each in choosing.options]
        question = "Smallest epsilon at which at most so many points of accuracy are lost"
        yield Target(question, tuple(lost), at_most=True, largest=False)
    else:
        rows = [float(each.effective_rows or 0) for each in choosing.options]
        yield Target("Smallest epsilon with at least so many effective rows", tuple(rows), at_most=False, largest=False)
