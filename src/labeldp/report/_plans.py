"""Plans and forecasts in words and tables."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from labeldp.bounds.planning import EffectiveDimension, Forecast, Plan
from labeldp.report._parts import Parts, pairs, row, said, table

_TOLD = (
    "A clean row is what one true label is worth for telling two likely classes apart; variance is that of "
    "one row's unbiased vector. From parameters alone."
)


def plan_text(found: Plan) -> Parts:
    """What each mechanism keeps, at one epsilon and over a sweep."""
    title = f"{found.rows:,} rows, {found.classes} classes, epsilon {found.epsilon:g}"
    now = table(title, ["mechanism", "releases", "truth kept", "clean rows", "share", "variance", ""])
    for option in found.options:
        row(
            now,
            option.mechanism,
            option.detail,
            f"{option.truth_probability:.1%}",
            f"{option.effective_rows:,}",
            f"{option.clean_share:.2%}",
            f"{option.total_variance:.4g}",
            "auto" if option.best else "",
        )
    names = list(dict.fromkeys(_name(option.mechanism, option.detail) for each in found.sweep for option in each))
    over = table(
        "share of clean rows, by epsilon", ["mechanism", *(f"{each[0].epsilon:g}" for each in found.sweep if each)]
    )
    for name in names:
        shares = [{_name(o.mechanism, o.detail): o.clean_share for o in each} for each in found.sweep if each]
        row(over, name, *(f"{share[name]:.2%}" if name in share else "-" for share in shares))
    return [now, Text(), over, Text(), Text(_TOLD)]


def forecast_text(found: Forecast, shape: EffectiveDimension | None = None) -> Parts:
    """What error to expect of each mechanism, at one epsilon and over a sweep, and what a target asks for."""
    lines = pairs()
    for name, told in _findings(found, shape).items():
        row(lines, name, told)
    parts: Parts = [_now(found), Text()] if found.options else []
    return [*parts, _over(found), Text(), lines, Text(), *(said(f"assumed: {each}") for each in found.assumptions)]


def _now(found: Forecast) -> Table:
    title = f"{_setting(found)}, epsilon {found.epsilon:.3g}"
    where = "noise of a row" if found.trust == "local" else "noise of a cell's sum"
    noise = where if found.of_numbers else f"{where}, in votes"
    now = table(title, ["mechanism", noise, "clean rows", "share", "expected error", ""])
    for option in found.options:
        row(
            now,
            option.mechanism,
            f"{option.noise:.4g}",
            f"{option.effective_rows:,}",
            f"{option.clean_share:.2%}",
            f"{option.error:.4g}",
            "best" if option.best else "",
        )
    return now


def _over(found: Forecast) -> Table:
    swept = [each for each in found.sweep if each]
    over = table(f"expected error, by epsilon: {_setting(found)}", ["mechanism", *(f"{e[0].epsilon:g}" for e in swept)])
    for name in dict.fromkeys(option.mechanism for each in swept for option in each):
        errors = [{option.mechanism: option.error for option in each} for each in swept]
        row(over, name, *(f"{error[name]:.4g}" if name in error else "-" for error in errors))
    return over


def _setting(found: Forecast) -> str:
    space = found.space
    what = (
        f"labels from {space['low']:g} to {space['high']:g}" if found.of_numbers else f"{len(space['values'])} classes"
    )
    features = f"dimension {found.dimension:.3g}" if found.dimension else "no features"
    return f"{found.rows:,} rows, {what}, {features}, {found.trust}"


def _findings(found: Forecast, shape: EffectiveDimension | None) -> dict[str, str]:
    """What is said beside the tables."""
    told = {"error": _MEANING[found.of_numbers], "without privacy": f"{found.clean_error:.4g}"}
    if found.spread is not None:
        told["against labels"] = _against_labels(found)
        told[_SAYING] = f"{found.spread:.4g} against labels: their deviation"
    if found.options and found.best is None:
        told["best"] = f"none: no mechanism does better than {_nothing(found)}; take more rows or a larger epsilon"
    if found.free_epsilon is not None:
        told["nearly free"] = f"from epsilon {found.free_epsilon:.3g} on: there rows are worth 90 % of clean ones"
    if found.best is not None and found.doubled is not None:
        told["twice the rows"] = f"{found.doubled:.4g} in place of {found.best.error:.4g}"
    if found.goal is not None:
        told[f"target {found.goal.target:g}"] = _target(found)
    if found.of_numbers and found.trust == "local":
        told["auto, optimal"] = "auto: least variance for the worst label; optimal: least on average over the range"
    if shape is not None:
        told["features"] = (
            f"{shape.columns} numeric columns that vary spread in {shape.participation:.3g} directions "
            f"(participation); {shape.components} principal components hold 90 % of their variance"
        )
    return told


def _target(found: Forecast) -> str:
    goal = found.goal
    if goal is None:
        return ""
    if goal.trivial:
        return f"{_nothing(found)} already reaches it"
    rows = "no number of" if goal.rows is None else f"{goal.rows:,}"
    if goal.epsilon is None:
        return f"no epsilon reaches it with {found.rows:,} rows; {rows} rows would{_at(found)}"
    return f"from epsilon {goal.epsilon:.3g} on" + (f"; {rows} rows reach it{_at(found)}" if _at(found) else "")


def _against_labels(found: Forecast) -> str:
    """What is left of single labels, which is what a test measures."""
    clean = f"{found.against_labels(found.clean_error):.4g} without privacy"
    here = f"{found.against_labels(found.best.error):.4g} of the best, " if found.best else ""
    return f"{here}{clean}: what `labeldp evaluate` prints has the spread of labels in it"


def _nothing(found: Forecast) -> str:
    """What who learns nothing says."""
    return "guessing a class" if not found.of_numbers else _SAYING if found.dimension else "saying the middle"


def _at(found: Forecast) -> str:
    """At which epsilon rows were counted."""
    asked = found.epsilon is not None and (found.goal is None or found.epsilon != found.goal.epsilon)
    return f" at epsilon {found.epsilon:g}" if asked else "" if found.options else " without privacy"


def _name(mechanism: str, detail: str) -> str:
    """A mechanism's name that does not change with epsilon."""
    return (
        f"{mechanism}, {detail}" if mechanism == "bits" else mechanism + (", counting" if "counting" in detail else "")
    )


_SAYING = "saying the mean"
_MEANING = {
    True: "the root mean square of the estimated mean's error, in the units of the label",
    False: "the chance of a wrong class, beyond that of the best classifier",
}
