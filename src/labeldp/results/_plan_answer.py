"""The answer of a plan: what an epsilon costs and means in words, and one table over epsilon."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any

from rich.text import Text

from labeldp._checks import printable
from labeldp.bounds.planning import SUSPICION, EpsilonRow, Forecast, Plan, UnitSizes, over_epsilon
from labeldp.privacy import Guarantee, shown_above
from labeldp.results._json import plain
from labeldp.results._parts import Parts, add_row, sentence, three_digits, titled_table
from labeldp.results._plans import baseline_name, replaced_defaults, target_text

if TYPE_CHECKING:
    from labeldp.release.tables import Identity

_MORE = " Every mechanism: --detail; for programs: --json."
_LEAST_POINTS = 0.01
#: Accuracy that was lost on 30 real tables, in multiples of the forecast: means at four epsilons, least and largest
#: (experiments/auto_tables.md).
_TIMES_LOST = (4, 7)
_EXAMPLE = "No --epsilon was given: 1 is an example."
#: The error that a target is for, by whether labels are numeric.
_ERROR = {
    True: "the error of the mean of labels with the same features, without the spread of labels around it",
    False: "the chance of a wrong class beyond that of the best rule",
}


def planned_json(plan: Plan | None, forecast: Forecast | None, unit: str = "row") -> dict[str, Any]:
    """A plan for programs: the table over epsilon, and its parts where they apply."""
    parts = {"plan": plan, "forecast": forecast}
    return {
        "unit": unit,
        "over_epsilon": plain(over_epsilon(plan, forecast)),
        **{name: plain(part) for name, part in parts.items() if part is not None},
    }


def answer_text(
    plan: Plan | None, forecast: Forecast | None, unit: str = "row", *, example: bool = False, whom: str = "a person"
) -> Parts:
    """The answer in words: the cost at one epsilon after the assumptions it rests on, and the meaning for a person.

    Args:
        plan: Effective rows of each mechanism.
        forecast: The error that each leads to.
        unit: The privacy unit.
        example: Whether no epsilon was given.
        whom: What the meaning is about, if a unit is not a person.
    """
    epsilon = plan.epsilon if plan is not None else None if forecast is None else forecast.epsilon
    goal = None if forecast is None or forecast.goal is None else forecast.goal.target
    lines: list[str] = []
    if forecast is not None and goal is not None:
        lines += [
            f"Assumed: {forecast.assumptions[0]}.",
            f"Target {goal:g}, {_ERROR[forecast.of_numbers]}: {target_text(forecast)}.",
        ]
    rows = {row.epsilon: row for row in over_epsilon(plan, forecast)}
    if epsilon is not None:
        per = "" if unit == "row" else f" per {printable(unit)}"
        lines += _costs(f"Epsilon {epsilon:.3g}{per}", rows[epsilon], plan, forecast)
    defaults = [] if forecast is None or not (forecast.of_numbers or goal) else replaced_defaults(forecast)
    meaning = [] if epsilon is None else [Guarantee(epsilon, unit=unit).posterior_sentence(whom)]
    return [*map(sentence, [*lines, *defaults, *meaning, *([_EXAMPLE] if example else [])])]


def expected_sentences(forecast: Forecast, mechanism: str) -> list[str]:
    """The assumptions of a forecast, then the expected error of one mechanism; nothing of one that it does not have."""
    ours = tuple(option for option in forecast.options if option.mechanism == mechanism)
    rows = over_epsilon(None, dataclasses.replace(forecast, options=ours, sweep=()))
    assumed = f"Assumed: {'; '.join(forecast.assumptions)}."
    return [line for row in rows for line in (assumed, f"Then: {_expected(row, forecast)}.")]


def _costs(epsilon: str, row: EpsilonRow, plan: Plan | None, forecast: Forecast | None) -> list[str]:
    """Effective rows and expected error at one epsilon, each after its assumption."""
    given = "" if forecast is None or forecast.goal is not None else f"if {forecast.assumptions[0]}: "
    if plan is None:
        assert forecast is not None  # noqa: S101 (one of the two is there)
        return [f"{epsilon}: {given}{_expected(row, forecast)}."]
    even = f"if the {plan.classes:,} classes are equally common" if plan.shares is None else "at these class shares"
    effective = f"{epsilon}: {even}, {_informative(row, plan.rows)}."
    if forecast is None or not forecast.dimension:
        return [effective]
    expected = f"{given}{_expected(row, forecast)}."
    return [effective, f"{expected[0].upper()}{expected[1:]}"]


def _expected(row: EpsilonRow, forecast: Forecast) -> str:
    """The expected error of a forecast beside that without privacy."""
    error, clean = row.error or 0.0, forecast.clean_error
    if forecast.of_numbers:
        of_mean = f"the mean of all labels errs by about {three_digits(error)} ({three_digits(clean)} without privacy)"
        best, mean = three_digits(forecast.against_labels(clean)), three_digits(forecast.spread or 0.0)
        test = three_digits(forecast.against_labels(error))
        with_features = f"test RMSE about {test} ({best} without privacy, {mean} {baseline_name(forecast)})"
        none = "" if forecast.best else f"no mechanism beats {baseline_name(forecast)}: "
        if _is_mean(error, forecast):
            with_features = f"test RMSE about {mean}, that of the mean, which remains ({best} without privacy)"
        return f"{none}{with_features if forecast.dimension else of_mean}; {_informative(row, forecast.rows)}"
    if forecast.dimension:
        return (
            f"about {_lost(error, forecast)} points less accuracy than without privacy: {_TIMES_LOST[0]} to "
            f"{_TIMES_LOST[1]} times what conventional constants give, as on average on 30 real tables"
        )
    return f"a wrong class in {_points(error)} % more rows than by the best class ({_points(clean)} % without privacy)"


def _informative(row: EpsilonRow, rows: int) -> str:
    """The effective rows of all rows."""
    if row.effective_rows is None or row.share is None:
        return f"as informative as at most {_true_labels(row.at_most or 0)} of {rows:,}"
    if row.effective_rows == 0:
        return f"less informative than one true label, of {rows:,}"
    return f"as informative as about {_true_labels(row.effective_rows)} of {rows:,} ({row.share:.1%})"


def _true_labels(count: int) -> str:
    return f"{count:,} true label{'s' * (count != 1)}"


def _points(share: float) -> str:
    """A share in points of a hundred, as exactly as a forecast deserves."""
    points = 100 * share
    return f"{points:.2g}" if points >= _LEAST_POINTS else f"under {_LEAST_POINTS:g}"


def _lost(error: float, forecast: Forecast) -> str:
    """The points of accuracy that privacy may cost, by what was seen on real tables."""
    most = 1.0 - 1.0 / len(forecast.space["values"])
    ends = (_points(min(times * (error - forecast.clean_error), most)) for times in _TIMES_LOST)
    return " to ".join(dict.fromkeys(ends))


def over_epsilon_text(plan: Plan | None, forecast: Forecast | None, units: UnitSizes | None = None) -> Parts:
    """One row for each epsilon: the mechanism that a release takes, and what it costs."""
    errors = forecast is not None and (plan is None or forecast.dimension > 0)
    star = "*" if plan is None else ""
    error = [f"{_error_name(forecast)}*"] if errors and forecast is not None else []
    sure = f"{100 * SUSPICION:g} % sure becomes at most"
    rows = next(part.rows for part in (plan, forecast) if part is not None)
    local = plan is not None or (forecast is not None and forecast.trust == "local")
    title = f"{rows:,} rows, {'each label randomized alone' if local else 'a curator answers queries'}"
    title += "" if units is None else f"; units of up to {units.most:,} rows, which share epsilon"
    table = titled_table(title, ["epsilon", "mechanism", f"effective rows{star}", f"of all rows{star}", *error, sure])
    for row in over_epsilon(plan, forecast):
        known = f"at most {row.at_most:,}" if row.effective_rows is None else f"{row.effective_rows:,}"
        share = "" if row.share is None else f"{row.share:.1%}"
        cell = [_error_cell(row, forecast)] if error and forecast is not None else []
        suspicion = f"{shown_above(min(100.0, 100 * row.suspicion), 3)} %"
        add_row(table, f"{row.epsilon:.3g}", row.mechanism, known, share, *cell, suspicion)
    return [table, *([sentence("* if the assumptions above hold")] if star or error else [])]


def _error_name(forecast: Forecast) -> str:
    if forecast.of_numbers:
        return "test RMSE" if forecast.dimension else "error of the mean"
    return "accuracy lost, points" if forecast.dimension else "wrong classes added"


def _error_cell(row: EpsilonRow, forecast: Forecast) -> str:
    if row.error is None:
        return "unknown"
    if forecast.of_numbers:
        if _is_mean(row.error, forecast):
            return f"{three_digits(forecast.spread or 0.0)}, of the mean"
        return three_digits(forecast.against_labels(row.error) if forecast.dimension else row.error)
    return _lost(row.error, forecast) if forecast.dimension else f"{_points(row.error)} %"


def _is_mean(error: float, forecast: Forecast) -> bool:
    """True if a model of numeric labels would be no better than their mean, which learners then predict."""
    return forecast.dimension > 0 and forecast.against_labels(error) >= (forecast.spread or 0.0)


def unit_notes(people: Sequence[Identity], unit: str | None) -> Parts:
    """Columns that may be people with several rows, where no column was named as the unit."""
    if unit not in (None, "row"):
        return []
    return [
        sentence(
            f"note: {each.question}: a person? "
            + (
                f"Then plan with --unit {quote(each.name)}; if not, with --unit row. A release asks, too."
                if unit is None
                else f"Then epsilon is {each.most} times as large for all labels of one with {each.most} rows."
            )
        )
        for each in people[:1]
    ]


def closing_text(*, bought: bool = False, detail: bool = False) -> Parts:
    """The source of the figures, and the option that shows more."""
    source = "your settings and the counts that were bought." if bought else "your settings; no label was read."
    return [Text(), sentence(f"Computed from {source}{'' if detail else _MORE}")]
