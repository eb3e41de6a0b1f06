"""Figures of plans and forecasts."""

from __future__ import annotations

import math
from pathlib import Path

from labeldp.bounds.planning import Forecast, Plan
from labeldp.report._figures import draw_lines, new_figure, write_figure


def save_plan_figure(plan: Plan, path: Path) -> Path:
    """Draw the effective rows of each mechanism over epsilon, as a PNG, SVG or PDF by the file's ending."""
    figure, axes = new_figure(path)
    draw_lines(axes, curves(plan))
    axes.axvline(plan.epsilon, color="0.6", linestyle=":", label=f"epsilon {plan.epsilon:g}")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="epsilon of each label",
        ylabel="effective rows for each released row",
        title=f"Effective sample size of {plan.classes} classes",
    )
    return write_figure(figure, axes, path)


def curves(plan: Plan) -> dict[str, list[tuple[float, float]]]:
    """Effective rows for each released row over epsilon, by mechanism."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in (*plan.sweep, plan.options):
        for option in row:
            lines.setdefault(option.name, []).append((option.epsilon, option.clean_share))
    return {name: sorted(set(points)) for name, points in lines.items()}


def save_forecast_figure(forecast: Forecast, path: Path) -> Path:
    """Draw the expected error of each mechanism over epsilon, and without privacy, as a PNG, SVG or PDF."""
    figure, axes = new_figure(path)
    draw_lines(axes, error_curves(forecast))
    axes.axhline(forecast.clean_error, color="0.3", linestyle="--", label="without privacy")
    if forecast.goal is not None:
        axes.axhline(forecast.goal.target, color="0.6", linestyle="-.", label=f"target {forecast.goal.target:g}")
    if forecast.epsilon is not None:
        axes.axvline(forecast.epsilon, color="0.6", linestyle=":", label=f"epsilon {forecast.epsilon:.3g}")
    what = (
        "root mean squared error, in units of the label"
        if forecast.of_numbers
        else "excess probability of a wrong class"
    )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="epsilon of each label",
        ylabel=what,
        title=f"Expected error with {forecast.rows:,} rows",
    )
    axes.set_yticks(_round_numbers(*axes.get_ylim()))
    return write_figure(figure, axes, path)


def error_curves(forecast: Forecast) -> dict[str, list[tuple[float, float]]]:
    """Expected error over the epsilons of the sweep, by mechanism."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in forecast.sweep:
        for option in row:
            lines.setdefault(option.mechanism, []).append((option.epsilon, option.error))
    return {name: sorted(points) for name, points in lines.items()}


def _round_numbers(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten between two numbers."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [times * 10.0**power for power in powers for times in (1, 2, 5) if low <= times * 10.0**power <= high]
