"""Privacy-loss profiles in words and as figures."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text

from labeldp.report._figures import drawn, saved
from labeldp.report._parts import Parts, row, said, table

if TYPE_CHECKING:  # a plan and a release load no audit
    from labeldp.audit import Bracket, LossCurve, LossProfile

_SHARES = (0.5, 0.05, 0.01)
_TOLD = 0.05
_SOURCE = {
    True: "From labels that were declared public.",
    False: "From released labels, at no further cost.",
}
_NO_PROMISE = (
    "Epsilon limits what the released label adds to the features, not what the features tell by themselves. To limit "
    "that too, features must be redrawn (labeldp release --mechanism double), with a divergence that is known."
)


def profile_text(found: LossProfile) -> Parts:
    """For which share of rows features and released label together give away how much, for each flip probability."""
    columns = ["flip", "static epsilon", "rows beyond it", *(f"{share:.0%} of rows: at least" for share in _SHARES)]
    lines = table(f"{found.evaluated:,} of {found.total:,} rows, {found.neighbours:,} neighbours", columns)
    for curve in found.curves:
        losses = (_loss(curve.loss(share).lower) for share in _SHARES)
        row(lines, f"{curve.flip:.4g}", f"{curve.epsilon:.4g}", _between(curve.beyond), *losses)
    return [
        *(said(_sentence(found, curve)) for curve in found.curves),
        Text(),
        lines,
        Text(),
        said(f"All bounds hold together with confidence {found.confidence:g}. {_SOURCE[found.public]}"),
        *(said(f"assumed: {each}") for each in found.assumptions),
        said(_NO_PROMISE),
    ]


def save_profile_figure(found: LossProfile, path: Path) -> Path:
    """The share of rows over what they give away: bounds, estimate and static epsilon of each flip probability.

    As a PNG, SVG or PDF by the file's ending.
    """
    figure, axes = drawn(path)
    for number, curve in enumerate(found.curves):
        colour = f"C{number}"
        taus = np.concatenate([[min(0.0, curve.least), curve.least], curve.taus])
        lines = [np.concatenate([[1.0, 1.0], line]) for line in (curve.lower, curve.estimate, curve.upper)]
        axes.fill_between(taus, lines[0], lines[2], color=colour, alpha=0.2, linewidth=0)
        axes.plot(taus, lines[1], color=colour, label=f"flipped with chance {curve.flip:.4g}")
        axes.axvline(curve.epsilon, color=colour, linestyle=":", label=f"its static epsilon, {curve.epsilon:.3g}")
    axes.set(
        xlabel="given away by features and released label together, on average (nats)",
        ylabel="share of rows, at least so exposed",
        ylim=(0.0, 1.02),
        title=f"Estimates, and bounds with confidence {found.confidence:g}",
    )
    return saved(figure, axes, path, at_points=False)


def _sentence(found: LossProfile, curve: LossCurve) -> str:
    """What the most exposed rows give away, and how many give away more than the static epsilon."""
    exposed, beyond = curve.loss(_TOLD).lower, curve.beyond
    low, high = found.chances_beyond(curve.flip)
    return (
        f"Flipped with chance {curve.flip:.4g} (static epsilon {curve.epsilon:.4g}): for {_TOLD:.0%} of the rows the "
        f"features and the released label together give away at least {_loss(exposed)} on average: the odds of the "
        f"true label grow {_times(exposed)}. For {beyond.lower:.1%} of the rows or more it is at least the static "
        f"epsilon: those where the chance of {found.classes[1]!r} given the features is at most {low:.3g}, or at "
        f"least {high:.3g}."
    )


def _between(found: Bracket) -> str:
    return f"{found.estimate:.1%} ({found.lower:.1%} to {found.upper:.1%})"


def _loss(value: float) -> str:
    return "everything" if math.isinf(value) else f"{value:.3g}"


def _times(value: float) -> str:
    """How much odds grow."""
    return "beyond all bounds" if value > 700 else f"by a factor of {float(f'{math.exp(value):.2g}'):,g}"
