"""Figures of plans and forecasts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from pathlib import Path

from labeldp.bounds.planning import Forecast, Plan
from labeldp.report._figures import draw_lines, new_figure, write_figure

_LOGARITHMIC = {"xscale": "log", "yscale": "log", "xlabel": "epsilon of each label"}


def save_plan_figure(plan: Plan, path: Path) -> Path:
    """Draw the effective rows of each mechanism over epsilon, as a PNG, SVG or PDF by the file's ending."""
    figure, axes = new_figure(path)
    draw_lines(axes, curves(plan))
    axes.axvline(plan.epsilon, color="0.6", linestyle=":", label=f"epsilon {plan.epsilon:g}")
    title = f"Effective sample size of {plan.classes} {'even ' if plan.shares is None else ''}classes"
    axes.set(**_LOGARITHMIC, ylabel="effective rows for each released row", title=title)
    return write_figure(figure, axes, path)


def curves(plan: Plan) -> dict[str, list[tuple[float, float]]]:
    """Effective rows for each released row over epsilon, by mechanism."""
    options = itertools.chain(*plan.sweep, plan.options)
    known = ((option.mechanism, option.epsilon, option.expected_share) for option in options)
    return _by_name((name, (epsilon, share)) for name, epsilon, share in known if share)


def save_forecast_figure(forecast: Forecast, path: Path) -> Path:
    """Draw the expected error of each mechanism over epsilon, and without privacy, as a PNG, SVG or PDF."""
    figure, axes = new_figure(path)
    draw_lines(axes, error_curves(forecast))
    axes.axhline(forecast.clean_error, color="0.3", linestyle="--", label="without privacy")
    if forecast.goal is not None:
        axes.axhline(forecast.goal.target, color="0.6", linestyle="-.", label=f"target {forecast.goal.target:g}")
    if forecast.epsilon is not None:
        axes.axvline(forecast.epsilon, color="0.6", linestyle=":", label=f"epsilon {forecast.epsilon:.3g}")
    error = "root mean squared error, in units of the label", "excess probability of a wrong class"
    axes.set(**_LOGARITHMIC, ylabel=error[not forecast.of_numbers], title=f"Expected error with {forecast.rows:,} rows")
    axes.set_yticks(_round_numbers(*axes.get_ylim()))
    return write_figure(figure, axes, path)


def error_curves(forecast: Forecast) -> dict[str, list[tuple[float, float]]]:
    """Expected error over the epsilons of the sweep, by mechanism."""
    options = itertools.chain(*forecast.sweep)
    return _by_name((option.mechanism, (option.epsilon, option.error)) for option in options)


def _by_name(named: Iterable[tuple[str, tuple[float, float]]]) -> dict[str, list[tuple[float, float]]]:
    """Points by the name of their curve, in order."""
    lines: dict[str, set[tuple[float, float]]] = {}
    for name, point in named:
        lines.setdefault(name, set()).add(point)
    return {name: sorted(points) for name, points in lines.items()}


def _round_numbers(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten between two numbers."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [times * 10.0**power for power in powers for times in (1, 2, 5) if low <= times * 10.0**power <= high]
