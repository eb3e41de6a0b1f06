"""Plans and forecasts as sentences and tables."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from labeldp.bounds.planning import EffectiveDimension, Forecast, Plan
from labeldp.report._parts import Parts, add_row, name_value_table, sentence, three_digits, titled_table

_NOTE = (
    "Effective rows: the release is as informative as this many rows with true labels. Variance: of the unbiased "
    "vector of one row. Computed from your settings; no label was read."
)


def plan_text(plan: Plan) -> Parts:
    """The utility of each mechanism, at one epsilon and over a sweep."""
    title = f"{plan.rows:,} rows, {plan.classes} classes, epsilon {plan.epsilon:g}"
    now = titled_table(title, ["mechanism", "releases", "truth kept", "effective rows", "share", "variance", ""])
    for option in plan.options:
        add_row(
            now,
            option.mechanism,
            option.detail,
            f"{option.truth_probability:.1%}",
            f"{option.effective_rows:,}",
            f"{option.clean_share:.2%}",
            three_digits(option.total_variance),
            "auto" if option.best else "",
        )
    shares = [{option.name: (option.epsilon, f"{option.clean_share:.2%}") for option in row} for row in plan.sweep]
    over = _sweep_table("share of effective rows, by epsilon", [option.name for option in plan.options], shares)
    return [now, Text(), over, Text(), Text(_NOTE)]


def _sweep_table(title: str, first: Sequence[str], sweep: Sequence[Mapping[str, tuple[float, str]]]) -> Table:
    """A figure of each mechanism, over epsilon; those that come first, in their order, and then others."""
    rows = [row for row in sweep if row]
    table = titled_table(title, ["mechanism", *(f"{next(iter(row.values()))[0]:g}" for row in rows)])
    for name in dict.fromkeys(itertools.chain(first, *rows)):
        add_row(table, name, *(row.get(name, (0.0, "-"))[1] for row in rows))
    return table


def forecast_text(forecast: Forecast, shape: EffectiveDimension | None = None) -> Parts:
    """Expected error of each mechanism at one epsilon and over a sweep, and the needs of a target."""
    lines = name_value_table(_findings(forecast, shape).items())
    parts: Parts = [_now(forecast), Text()] if forecast.options else []
    return [
        *parts,
        _over(forecast),
        Text(),
        lines,
        Text(),
        *(sentence(f"assumed: {each}") for each in forecast.assumptions),
    ]


def _now(forecast: Forecast) -> Table:
    title = f"{_setting(forecast)}, epsilon {forecast.epsilon:.3g}"
    where = "noise of a row" if forecast.trust == "local" else "noise of a cell's sum"
    noise = where if forecast.of_numbers else f"{where}, in votes"
    now = titled_table(title, ["mechanism", noise, "effective rows", "share", "expected error", ""])
    for option in forecast.options:
        add_row(
            now,
            option.mechanism,
            three_digits(option.noise),
            f"{option.effective_rows:,}",
            f"{option.clean_share:.2%}",
            three_digits(option.error),
            "best" if option.best else "",
        )
    return now


def _over(forecast: Forecast) -> Table:
    errors = [{each.mechanism: (each.epsilon, three_digits(each.error)) for each in row} for row in forecast.sweep]
    first = [option.mechanism for option in forecast.options]
    return _sweep_table(f"expected error, by epsilon: {_setting(forecast)}", first, errors)


def _setting(forecast: Forecast) -> str:
    space = forecast.space
    numbers = forecast.of_numbers
    labels = f"labels from {space['low']:g} to {space['high']:g}" if numbers else f"{len(space['values'])} classes"
    features = f"dimension {forecast.dimension:.3g}" if forecast.dimension else "no features"
    return f"{forecast.rows:,} rows, {labels}, {features}, {forecast.trust}"


def _findings(forecast: Forecast, shape: EffectiveDimension | None) -> dict[str, str]:
    """Names and values below the tables."""
    findings = {"error": _MEANING[forecast.of_numbers], "without privacy": three_digits(forecast.clean_error)}
    if forecast.spread is not None:
        findings["test RMSE"] = _against_labels(forecast)
        findings["baseline"] = f"{_MEAN}: RMSE {three_digits(forecast.spread)}, the standard deviation of labels"
    if forecast.options and forecast.best is None:
        findings["best"] = f"none: no mechanism beats {_baseline(forecast)}; use more rows or a larger epsilon"
    if forecast.free_epsilon is not None:
        findings["nearly free"] = f"privacy costs less than 10 % of your rows above epsilon {forecast.free_epsilon:.3g}"
    if forecast.best is not None and forecast.doubled is not None:
        findings["twice the rows"] = (
            f"error {three_digits(forecast.doubled)} instead of {three_digits(forecast.best.error)}"
        )
    if forecast.goal is not None:
        findings[f"target {forecast.goal.target:g}"] = _target(forecast)
    if forecast.of_numbers and forecast.trust == "local":
        findings["auto, optimal"] = "auto minimizes the variance for the worst label, optimal the mean over the range"
    if shape is not None:
        findings["features"] = (
            f"{shape.columns} numeric columns that vary, of effective dimension {shape.participation:.3g} "
            f"(participation ratio); {shape.components} principal components hold 90 % of their variance"
        )
    return findings


def _target(forecast: Forecast) -> str:
    goal = forecast.goal
    if goal is None:
        return ""
    if goal.trivial:
        return f"{_baseline(forecast)} already reaches it"
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


def _baseline(forecast: Forecast) -> str:
    """Name of the trivial predictor."""
    if not forecast.of_numbers:
        return "guessing a class"
    return _MEAN if forecast.dimension else "always predicting the middle of the range"


def _at(forecast: Forecast) -> str:
    """The epsilon for which rows were counted."""
    differs = forecast.epsilon is not None and (forecast.goal is None or forecast.epsilon != forecast.goal.epsilon)
    return f" at epsilon {forecast.epsilon:g}" if differs else "" if forecast.options else " without privacy"


_MEAN = "always predicting the mean"
_MEANING = {
    True: "RMS error of the estimated mean, in the unit of the label",
    False: "excess probability of a wrong class, over the best classifier",
}
