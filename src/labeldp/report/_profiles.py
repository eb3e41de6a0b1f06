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
    from labeldp.audit.attacks import Bracket, LossCurve, LossProfile
    from labeldp.mechanisms.features import FeatureLaw

_SHARES = (0.5, 0.05, 0.01)
_TOLD = 0.05
#: From where on bounds of a share are wide, and below what a share is printed as zero.
_WIDE, _LEAST_SHARE = 0.5, 0.0005
_BOUNDS = ("at least", "estimate", "at most")
_NO_LIMIT = "no limit"
_SOURCE = {
    True: "From labels that were declared public.",
    False: "From released labels, at no further cost.",
}
_NO_PROMISE = (
    "Epsilon limits what the released label adds to the features, not what the features tell by themselves. To limit "
    "that too, features must be redrawn (labeldp release --mechanism double), with a divergence that is known."
)


def profile_text(found: LossProfile, law: FeatureLaw | None = None) -> Parts:
    """For which share of rows features and released label together give away how much, for each flip probability.

    Args:
        found: The profile.
        law: The law by which the features left, where they were not public.
    """
    title = f"{found.evaluated:,} of {found.total:,} rows, {found.neighbours:,} neighbours"
    lines = table(title, ["flip", "static epsilon", "what is given away", *_BOUNDS])
    brackets = []
    for curve in found.curves:
        name = (f"{curve.flip:.4g}", f"{curve.epsilon:.4g}")
        row(lines, *name, "the static epsilon or more: share of rows", *_cells(curve.beyond, "{:.1%}"))
        for share in _SHARES:
            brackets.append(curve.loss(share))
            row(lines, *name, f"by the most exposed {share:.0%} of rows", *_cells(brackets[-1], "{:.3g}"))
    return [
        *(said(_sentence(found, curve)) for curve in found.curves),
        Text(),
        lines,
        Text(),
        *(said(line) for line in _doubts(found, brackets)),
        said(f"All bounds hold together with confidence {found.confidence:g}. {_SOURCE[found.public]}"),
        *(said(f"assumed: {each}") for each in found.assumptions),
        said(_limit(law)),
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
    exposed, beyond = curve.loss(_TOLD), curve.beyond
    first = (
        f"Flipped with chance {curve.flip:.4g} (static epsilon {curve.epsilon:.4g}): the features and the released "
        f"label of the most exposed {_TOLD:.0%} of the rows together give away at least {exposed.lower:.3g} on "
        f"average: the odds of the true label grow {_times(exposed.lower)}, or more."
    )
    if beyond.lower < _LEAST_SHARE:
        return f"{first} It is not settled here whether any rows give away the static epsilon or more."
    low, high = found.chances_beyond(curve.flip)
    return (
        f"{first} At least {beyond.lower:.1%} of the rows (estimate: {beyond.estimate:.1%}) give away the static "
        f"epsilon or more: those where the chance of {found.classes[1]!r} given the features is at most {low:.3g}, or "
        f"at least {high:.3g}."
    )


def _doubts(found: LossProfile, brackets: list[Bracket]) -> list[str]:
    """Why bounds are wide, where they are, and what to do."""
    lines = []
    if any(math.isinf(value) for each in brackets for value in (each.estimate, each.upper)):
        lines.append(
            f"{_NO_LIMIT!r}: the labels of the neighbours leave a chance of 0 or 1 open, where the label is as good as "
            "told. That is no finding: so few of them may do so by chance, or by noise."
        )
    if any(curve.beyond.upper - curve.beyond.lower > _WIDE for curve in found.curves):
        noise = "" if found.public else ", and these are released ones: the smaller epsilon is, the more they vary"
        lines.append(
            f"The bounds are wide: each row is judged by the labels of {found.neighbours:,} others{noise}. More rows "
            "make them narrower. So do more neighbours (--neighbours), which blur what few rows share."
        )
    return lines


def _limit(law: FeatureLaw | None) -> str:
    """What limits what the features tell by themselves."""
    if law is None or law.generator is None:
        return _NO_PROMISE
    known = (
        f"Features of this release were redrawn with a chance of {float(law.chance):.1%}: this is of rows as they were "
        "released. What their features tell by themselves is "
    )
    if law.divergences:
        return f"{known}limited by its guarantee with conditional features, as far as what that rests on is true."
    return f"{known}not limited, as it is not known how far the generator's features are from true ones."


def _cells(found: Bracket, form: str) -> list[str]:
    """The bounds and the estimate between them."""
    values = (found.lower, found.estimate, found.upper)
    return [_NO_LIMIT if math.isinf(value) else form.format(value) for value in values]


def _times(value: float) -> str:
    """How much odds grow."""
    return "beyond all bounds" if value > 700 else f"by a factor of {float(f'{math.exp(value):.2g}'):,g}"
