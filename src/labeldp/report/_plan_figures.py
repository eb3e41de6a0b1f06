"""Plans and forecasts as figures."""

from __future__ import annotations

import math
from pathlib import Path

from labeldp.bounds.planning import Forecast, Option, Plan
from labeldp.report._figures import drawn, saved

_MARKERS = "osD^v"


def save_plan_figure(found: Plan, path: Path) -> Path:
    """What each mechanism keeps over epsilon, as a PNG, SVG or PDF by the file's ending."""
    figure, axes = drawn(path)
    for marker, (name, points) in zip(_MARKERS, curves(found).items(), strict=False):
        axes.plot(*zip(*points, strict=True), marker=marker, label=name)
    axes.axvline(found.epsilon, color="0.6", linestyle=":", label=f"epsilon {found.epsilon:g}")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="epsilon of each label",
        ylabel="clean rows that one released row is worth",
        title=f"What is kept of {found.classes} classes",
    )
    return saved(figure, axes, path)


def curves(found: Plan) -> dict[str, list[tuple[float, float]]]:
    """The share of clean rows over epsilon, for each mechanism."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in (*found.sweep, found.options):
        for option in row:
            lines.setdefault(_curve(option), []).append((option.epsilon, option.clean_share))
    return {name: sorted(set(points)) for name, points in lines.items()}


def save_forecast_figure(found: Forecast, path: Path) -> Path:
    """The error to expect of each mechanism over epsilon, and without privacy, as a PNG, SVG or PDF."""
    figure, axes = drawn(path)
    for marker, (name, points) in zip(_MARKERS * len(found.sweep), error_curves(found).items(), strict=False):
        axes.plot(*zip(*points, strict=True), marker=marker, label=name)
    axes.axhline(found.clean_error, color="0.3", linestyle="--", label="without privacy")
    if found.goal is not None:
        axes.axhline(found.goal.target, color="0.6", linestyle="-.", label=f"target {found.goal.target:g}")
    if found.epsilon is not None:
        axes.axvline(found.epsilon, color="0.6", linestyle=":", label=f"epsilon {found.epsilon:.3g}")
    what = (
        "root mean squared error, in units of the label" if found.of_numbers else "chance of a wrong class, in excess"
    )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="epsilon of each label",
        ylabel=what,
        title=f"What error to expect of {found.rows:,} rows",
    )
    axes.set_yticks(_round_numbers(*axes.get_ylim()))
    return saved(figure, axes, path)


def error_curves(found: Forecast) -> dict[str, list[tuple[float, float]]]:
    """The expected error over the epsilons of the sweep, for each mechanism."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in found.sweep:
        for option in row:
            lines.setdefault(option.mechanism, []).append((option.epsilon, option.error))
    return {name: sorted(points) for name, points in lines.items()}


def _round_numbers(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten between two numbers."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [times * 10.0**power for power in powers for times in (1, 2, 5) if low <= times * 10.0**power <= high]


def _curve(option: Option) -> str:
    if option.mechanism == "bits":
        return option.detail
    return "subset, for counting" if "counting" in option.detail else option.mechanism
