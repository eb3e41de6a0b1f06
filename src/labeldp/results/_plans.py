"""Plans and forecasts as sentences and tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table
from rich.text import Text

from labeldp.bounds.planning import EffectiveDimension, Forecast, Option, Plan
from labeldp.privacy import Interval, LabelSpace, shown_above
from labeldp.results._parts import Parts, add_row, name_value_table, sentence, three_digits, titled_table

if TYPE_CHECKING:
    from labeldp.release import TableRelease

_NOTE = (
    "Effective rows: the release is about as informative as this many rows with true labels (within a factor of two in "
    "16 of 19 tests, experiments/effective_rows.md); at most: for any statistic of labels, reached where features "
    "leave two classes equally likely. 'auto' goes by these, not by effective rows at the class shares, since features "
    "mostly leave few classes likely. Variance: of the unbiased vector of one row."
)
_EVEN = "Effective rows assume even classes ({:.3g} % each): pass --shares, --from or --buy where they are not."


def plan_text(plan: Plan) -> Parts:
    """The utility of each mechanism, at one epsilon and over a sweep."""
    title = f"{plan.rows:,} rows, {plan.classes} classes, epsilon {plan.epsilon:g}"
    columns = ["mechanism", "releases", "truth kept", "effective rows", "share", "at most", "variance", ""]
    now = titled_table(title, columns)
    for option in plan.options:
        add_row(
            now,
            option.mechanism,
            option.detail,
            f"{option.truth_probability:.1%}",
            "unknown" if option.expected_rows is None else f"{option.expected_rows:,}",
            _shown_share(option),
            f"{option.effective_rows:,}",
            three_digits(option.total_variance),
            "auto" if option.best else "",
        )
    shares = [{option.mechanism: (option.epsilon, _shown_share(option)) for option in row} for row in plan.sweep]
    over = _sweep_table("share of effective rows, by epsilon", [option.mechanism for option in plan.options], shares)
    assumed = [sentence(_EVEN.format(100 / plan.classes)), Text()] if plan.shares is None else []
    return [*assumed, now, Text(), over, Text(), Text(_NOTE)]


def _shown_share(option: Option) -> str:
    """The expected effective rows per released row."""
    return "unknown" if option.expected_share is None else f"{option.expected_share:.2%}"


def _sweep_table(title: str, first: Sequence[str], sweep: Sequence[Mapping[str, tuple[float, str]]]) -> Table:
    """A figure of each mechanism, over epsilon; those that come first, in their order, and then others."""
    rows = [row for row in sweep if row]
    table = titled_table(title, ["mechanism", *(f"{next(iter(row.values()))[0]:g}" for row in rows)])
    for name in dict.fromkeys(itertools.chain(first, *rows)):
        add_row(table, name, *(row.get(name, (0.0, "-"))[1] for row in rows))
    return table


def purchase_text(bought: TableRelease) -> Parts:
    """The cost of counts that were bought, and where ledger and counts are."""
    guarantee, (spent, _) = bought.certificate.guarantee, bought.spent
    return [
        sentence(
            f"Bought noisy counts of {bought.certificate.rows:,} labels for epsilon "
            f"{shown_above(guarantee.epsilon, 7)}; spent on this label so far: {shown_above(spent, 7)} of a budget of "
            f"{bought.budget.epsilon:g}."
        ),
        sentence(f"ledger: {bought.ledger}"),
        sentence(f"counts: {bought.output} (later plans read them for nothing with --from)"),
        sentence("A release of these labels adds to this cost: pass it a --budget for both."),
        Text(),
    ]


def labels_text(shares: Sequence[float] | None, space: LabelSpace) -> Parts:
    """The distribution of labels, where one is known."""
    if shares is None:
        return []
    if isinstance(space, Interval):
        points, cumulative = np.array(space.points), np.cumsum(shares)
        mean = float(points @ np.array(shares))
        spread = math.sqrt(float((points - mean) ** 2 @ np.array(shares)))
        low, median, high = (float(np.interp(q, cumulative, points)) for q in (0.25, 0.5, 0.75))
        known = f"mean {three_digits(mean)}, standard deviation {three_digits(spread)}, "
        known += f"quartiles {three_digits(low)}, {three_digits(median)} and {three_digits(high)}"
    else:
        largest = sorted(zip(shares, space.points, strict=True), reverse=True, key=lambda each: each[0])[:_MOST_NAMED]
        known = ", ".join(f"{point} {share:.1%}" for share, point in largest)
    return [sentence(f"labels, as stated or estimated with noise: {known}")]


def assumed_text(forecast: Forecast) -> Parts:
    """The assumption that decides the figures marked with a star, and how to replace its defaults."""
    first = sentence(f"Assumed: {forecast.assumptions[0]}. This decides every figure marked *.")
    return [first, *map(sentence, replaced_defaults(forecast)), Text()]


def replaced_defaults(forecast: Forecast) -> list[str]:
    """The options that replace the defaults of the assumption that decides."""
    ways = "; ".join(_WAYS[name] for name in forecast.defaults)
    return [f"To replace a default: {ways}."] if ways else []


def forecast_text(forecast: Forecast, shape: EffectiveDimension | None = None) -> Parts:
    """Expected error of each mechanism at one epsilon and over a sweep, and the needs of a target."""
    lines = name_value_table(_findings(forecast, shape).items())
    parts: Parts = [_now(forecast), Text()] if forecast.options else []
    rest = (sentence(f"assumed: {each}") for each in forecast.assumptions[1:])
    return [*parts, _over(forecast), Text(), lines, Text(), *rest]


def _now(forecast: Forecast) -> Table:
    title = f"{_setting(forecast)}, epsilon {forecast.epsilon:.3g}"
    where = "noise of a row" if forecast.trust == "local" else "noise of a cell's sum"
    noise = where if forecast.of_numbers else f"{where}, in votes"
    star = "*" if forecast.of_numbers else ""
    most = ", at most" if forecast.trust == "local" and not forecast.of_numbers else ""
    columns = [f"effective rows{most}{star}", f"share{star}", "expected error*"]
    now = titled_table(title, ["mechanism", noise, *columns, ""])
    for option in forecast.options:
        add_row(
            now,
            option.mechanism,
            three_digits(option.noise),
            f"{option.effective_rows:,}",
            f"{option.clean_share:.2%}",
            three_digits(option.error),
            ", ".join(name for name in ("best", "auto") if getattr(option, name)),
        )
    return now


def _over(forecast: Forecast) -> Table:
    errors = [{each.mechanism: (each.epsilon, three_digits(each.error)) for each in row} for row in forecast.sweep]
    first = [option.mechanism for option in forecast.options]
    return _sweep_table(f"expected error*, by epsilon: {_setting(forecast)}", first, errors)


def _setting(forecast: Forecast) -> str:
    space = forecast.space
    numbers = forecast.of_numbers
    labels = f"labels from {space['low']:g} to {space['high']:g}" if numbers else f"{len(space['values'])} classes"
    features = f"dimension {forecast.dimension:.3g}" if forecast.dimension else "no features"
    return f"{forecast.rows:,} rows, {labels}, {features}, {forecast.trust}"


def _findings(forecast: Forecast, shape: EffectiveDimension | None) -> dict[str, str]:
    """Names and values below the tables."""
    findings = {"error": _MEANING[forecast.of_numbers], "without privacy*": three_digits(forecast.clean_error)}
    if forecast.spread is not None:
        findings["test RMSE*"] = _against_labels(forecast)
        findings["baseline*"] = f"{_MEAN}: RMSE {three_digits(forecast.spread)}, the standard deviation of labels"
    if forecast.options and forecast.best is None:
        findings["best"] = f"none: no mechanism beats {baseline_name(forecast)}; use more rows or a larger epsilon"
    if forecast.free_epsilon is not None:
        findings["nearly free*"] = (
            f"above epsilon {forecast.free_epsilon:.3g} the error is at most that of 90 % of your rows without privacy"
        )
    if forecast.best is not None and forecast.doubled is not None:
        findings["twice the rows*"] = (
            f"error {three_digits(forecast.doubled)} instead of {three_digits(forecast.best.error)}"
        )
    if forecast.goal is not None:
        findings[f"target {forecast.goal.target:g}*"] = target_text(forecast)
    if forecast.of_numbers and forecast.trust == "local":
        findings["minimax, optimal"] = "least variance for the worst label, and on average over the range"
        findings["error"] += ", by a linear model"
    if shape is not None:
        findings["features"] = (
            f"{shape.columns} numeric columns that vary, of effective dimension {shape.participation:.3g} "
            f"(participation ratio); {shape.components} principal components hold 90 % of their variance"
        )
    return findings


def target_text(forecast: Forecast) -> str:
    """The epsilon and the rows that reach a target."""
    goal = forecast.goal
    if goal is None:
        return ""
    if goal.trivial:
        return f"{baseline_name(forecast)} already reaches it"
    rows = "no number of" if goal.rows is None else f"{goal.rows:,}"
    if goal.epsilon is None:
        return f"no epsilon reaches it with {forecast.rows:,} rows; {rows} rows would{_at(forecast)}"
    more = f", or with {rows} rows{_at(forecast)}" if _at(forecast) else ""
    return f"reached from epsilon {goal.epsilon:.3g}{more}"


def _against_labels(forecast: Forecast) -> str:
    """The error against single labels, which is what a test measures."""
    clean = f"{three_digits(forecast.against_labels(forecast.clean_error))} without privacy"
    best = forecast.best and f"{three_digits(forecast.against_labels(forecast.best.error))} with the best mechanism, "
    return f"{best or ''}{clean}: as `labeldp evaluate` prints it, the spread of labels included"


def baseline_name(forecast: Forecast) -> str:
    """Name of the trivial predictor."""
    if not forecast.of_numbers:
        return "guessing a class"
    return _MEAN if forecast.dimension else "always predicting the middle of the range"


def _at(forecast: Forecast) -> str:
    """The epsilon for which rows were counted."""
    differs = forecast.epsilon is not None and (forecast.goal is None or forecast.epsilon != forecast.goal.epsilon)
    return f" at epsilon {forecast.epsilon:g}" if differs else "" if forecast.options else " without privacy"


#: Ways to replace a default.
_WAYS = {
    "shares": "--spread or --shares; --from, for a release or an answer; --buy EPSILON, which is charged",
    "explained": "--explained, such as the R2 that 'labeldp evaluate' prints of a model",
    "dimension": "a TABLE or --dimension, for features",
}
_MOST_NAMED = 10
_MEAN = "always predicting the mean"
_MEANING = {
    True: "RMS error of the estimated mean, in the unit of the label",
    False: "excess probability of a wrong class, over the best classifier",
}
