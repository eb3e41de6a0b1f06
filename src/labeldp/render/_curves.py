"""Figures of plans, forecasts and privacy-loss profiles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from labeldp.bounds.planning import Forecast, Plan, UnitSizes
from labeldp.render._figures import draw_lines, new_figure, write_figure

if TYPE_CHECKING:  # a plan loads no audit
    from labeldp.audit.attacks import LossProfile

_LOGARITHMIC = {"xscale": "log", "yscale": "log"}
#: Curves that are nowhere further apart than this factor are drawn as one.
_SAME = 1.03
_PERCENT = 100.0


def save_plan_figure(plan: Plan, path: Path) -> Path:
    """Draw the effective rows of each mechanism over epsilon, as a PNG, SVG or PDF by the file's ending."""
    figure, axes = new_figure(path)
    draw_lines(axes, curves(plan))
    axes.axvline(plan.epsilon, color="0.6", linestyle=":", label=f"epsilon {plan.epsilon:g}")
    classes = f"{plan.classes} {'equally common ' if plan.shares is None else ''}classes"
    axes.set(**_LOGARITHMIC, xlabel=_epsilon(plan.units), ylabel="effective rows, in % of all rows", title=classes)
    axes.set_yticks(_round_numbers(*axes.get_ylim()))
    return write_figure(figure, axes, path, private=False)


def _epsilon(units: UnitSizes | None) -> str:
    """The axis of epsilon in words."""
    return f"epsilon of each {'label' if units is None else 'privacy unit'} (smaller: more private)"


def curves(plan: Plan) -> dict[str, list[tuple[float, float]]]:
    """Effective rows in percent of all rows over epsilon, by mechanism; by several where their curves are the same."""
    options = itertools.chain(*plan.sweep, plan.options)
    known = ((option.mechanism, option.epsilon, option.expected_share) for option in options)
    return _by_name((name, (epsilon, _PERCENT * share)) for name, epsilon, share in known if share)


def save_forecast_figure(forecast: Forecast, path: Path) -> Path:
    """Draw the expected error of each mechanism over epsilon, and without privacy, as a PNG, SVG or PDF."""
    figure, axes = new_figure(path)
    draw_lines(axes, error_curves(forecast))
    axes.axhline(_shown(forecast, forecast.clean_error), color="0.3", linestyle="--", label="without privacy")
    if forecast.goal is not None:
        axes.axhline(
            _shown(forecast, forecast.goal.target),
            color="0.6",
            linestyle="-.",
            label=f"target {forecast.goal.target:g}",
        )
    if forecast.epsilon is not None:
        axes.axvline(forecast.epsilon, color="0.6", linestyle=":", label=f"epsilon {forecast.epsilon:.3g}")
    error = "error of the estimated mean, in units of the label", "wrong classes beyond the best possible, in % of rows"
    title = f"Expected error with {forecast.rows:,} rows"
    axes.set(**_LOGARITHMIC, xlabel=_epsilon(forecast.units), ylabel=error[not forecast.of_numbers], title=title)
    axes.set_yticks(_round_numbers(*axes.get_ylim()))
    return write_figure(figure, axes, path, private=False)


def error_curves(forecast: Forecast) -> dict[str, list[tuple[float, float]]]:
    """Expected error over the epsilons of the sweep, by mechanism; of classes in percent of rows."""
    options = itertools.chain(*forecast.sweep)
    return _by_name((option.mechanism, (option.epsilon, _shown(forecast, option.error))) for option in options)


def _shown(forecast: Forecast, error: float) -> float:
    return error if forecast.of_numbers else _PERCENT * error


def _by_name(named: Iterable[tuple[str, tuple[float, float]]]) -> dict[str, list[tuple[float, float]]]:
    """Points by the name of their curve, in order; curves that hide each other have one name together."""
    lines: dict[str, set[tuple[float, float]]] = {}
    for name, point in named:
        lines.setdefault(name, set()).add(point)
    merged: dict[str, list[tuple[float, float]]] = {}
    for name, points in lines.items():
        same = next((other for other, its in merged.items() if _hides(its, sorted(points))), None)
        if same is None:
            merged[name] = sorted(points)
        else:
            merged = {f"{other}, {name}" if other == same else other: its for other, its in merged.items()}
    return merged


def _hides(one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> bool:
    """True for curves over the same epsilons that cannot be told apart."""
    return len(one) == len(other) and all(
        x == u and max(y, v) <= _SAME * min(y, v) for (x, y), (u, v) in zip(one, other, strict=True)
    )


def _round_numbers(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten between two numbers."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [times * 10.0**power for power in powers for times in (1, 2, 5) if low <= times * 10.0**power <= high]


def save_profile_figure(profile: LossProfile, path: Path) -> Path:
    """Draw the share of rows over their disclosure: bounds, estimate and static epsilon of each flip probability.

    As a PNG, SVG or PDF by the file's ending.
    """
    figure, axes = new_figure(path)
    for number, curve in enumerate(profile.curves):
        colour = f"C{number}"
        taus = np.concatenate([[min(0.0, curve.least), curve.least], curve.taus])
        lines = [np.concatenate([[1.0, 1.0], line]) for line in (curve.lower, curve.estimate, curve.upper)]
        axes.fill_between(taus, lines[0], lines[2], color=colour, alpha=0.2, linewidth=0)
        axes.plot(taus, lines[1], color=colour, label=f"flip probability {curve.flip:.3g}")
        axes.axvline(curve.epsilon, color=colour, linestyle=":", label=f"its epsilon, {curve.epsilon:.3g}")
    axes.set(
        xlabel="expected disclosure by features and released label together (nats)",
        ylabel="share of rows with at least this disclosure",
        ylim=(0.0, 1.02),
        title=f"Estimates, and bounds with confidence {profile.confidence:g}",
    )
    return write_figure(figure, axes, path, private=True, at_points=False)
