"""Privacy-loss profiles: how much features and released label of a row disclose together, over the share of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from labeldp.audit.attacks import Bracket, LossCurve, LossProfile
from labeldp.mechanisms.resampling import FeatureLaw
from labeldp.results._blocks import Grid, Prose, Section
from labeldp.results._charts import Curves
from labeldp.results._numbers import above, below, epsilon_above, share, share_above, share_below, three_digits

_SHARES = (0.5, 0.05, 0.01)
_EXPOSED = 0.05
#: The width from which bounds of a share count as wide, and the share below which it is printed as zero.
_WIDE, _LEAST_SHARE = 0.5, 0.0005
_BOUNDS = ("at least", "estimate", "at most")
_NO_LIMIT = "no limit"
_NATS = (
    "A disclosure is the natural logarithm, in nats, of the factor by which the odds of the true label grow: 0.69 nats "
    "double them. Epsilon is the most that the released label adds to public features."
)
#: The source of the labels, by whether they were declared public.
SOURCE = {
    True: "From labels that were declared public.",
    False: "From released labels, at no further cost.",
}
_NO_PROMISE = (
    "Epsilon limits what the released label adds to the features, not what the features disclose by themselves. To "
    "limit that too, resample the features (labeldp release --mechanism double) with a known divergence."
)


def profile_sections(profile: LossProfile, limit: str) -> Iterator[Section]:
    """The disclosure by features and released label together over the share of rows, for each flip probability."""
    rows, brackets = [], []
    for curve in profile.curves:
        name = (f"{curve.flip:.3g}", epsilon_above(curve.epsilon))
        rows.append((*name, "at least epsilon: share of rows", *_cells(curve.beyond, share_below, share, share_above)))
        for part in _SHARES:
            brackets.append(curve.loss(part))
            exposed = f"of the most exposed {part:.0%} of rows"
            rows.append((*name, exposed, *_cells(brackets[-1], below, three_digits, above)))
    title = f"{profile.evaluated:,} of {profile.total:,} rows, {profile.neighbours:,} neighbours"
    heads = ("flip", "epsilon", "disclosure (nats)", *_BOUNDS)
    source = f"All bounds hold simultaneously with confidence {profile.confidence:g}. {SOURCE[profile.public]}"
    yield Section(
        "Privacy-loss profile",
        (
            *(Prose(_summary(profile, curve)) for curve in profile.curves),
            Grid.of(title, heads, rows, (0, 1, 3, 4, 5)),
            *(Prose(line) for line in (*_warnings(profile, brackets), _NATS, source)),
            *(Prose(f"assumed: {each}") for each in profile.assumptions),
            Prose(limit),
        ),
    )


def profile_chart(profile: LossProfile) -> Curves:
    """The share of rows over their disclosure: bounds, estimate and static epsilon of each flip probability."""
    lines, bands = [], []
    for curve in profile.curves:
        taus = np.concatenate([[min(0.0, curve.least), curve.least], curve.taus]).tolist()
        low, value, high = (
            np.concatenate([[1.0, 1.0], each]).tolist() for each in (curve.lower, curve.estimate, curve.upper)
        )
        lines.append((f"flip probability {curve.flip:.3g}", list(zip(taus, value, strict=True))))
        bands.append(list(zip(taus, low, high, strict=True)))
    return Curves(
        what=f"Estimates, and bounds with confidence {profile.confidence:g}",
        axes=(
            "disclosure by features and released label together (nats)",
            "share of rows with at least this disclosure",
        ),
        lines=lines,
        marks=[(f"its epsilon, {curve.epsilon:.3g}", "x", curve.epsilon) for curve in profile.curves],
        bands=bands,
        logarithmic="",
    )


def _summary(profile: LossProfile, curve: LossCurve) -> str:
    """The disclosure of the most exposed rows, and the share of rows that disclose more than the static epsilon."""
    exposed, beyond = curve.loss(_EXPOSED), curve.beyond
    first = (
        f"Flip probability {curve.flip:.3g} (epsilon {epsilon_above(curve.epsilon)}): for the most exposed "
        f"{_EXPOSED:.0%} of the rows, features and released label together disclose at least {below(exposed.lower)} "
        f"nats on average: the odds of the true label grow {_factor(exposed.lower)} or more."
    )
    if beyond.lower < _LEAST_SHARE:
        return f"{first} Too few rows to tell if any disclose epsilon or more."
    low, high = profile.chances_beyond(curve.flip)
    return (
        f"{first} At least {share_below(beyond.lower)} of the rows (estimate: {share(beyond.estimate)}) disclose "
        f"epsilon or more: those where the probability of {profile.classes[1]!r} given the features is at most "
        f"{low:.3g}, or at least {high:.3g}."
    )


def _warnings(profile: LossProfile, brackets: list[Bracket]) -> list[str]:
    """Remarks on wide bounds: their reason and the remedy."""
    lines = []
    if any(math.isinf(value) for each in brackets for value in (each.estimate, each.upper)):
        lines.append(
            f"{_NO_LIMIT!r}: the labels of the neighbours do not exclude a probability of 0 or 1, at which features "
            "alone disclose the label. This proves nothing: with so few neighbours it can be chance or noise."
        )
    if any(curve.beyond.upper - curve.beyond.lower > _WIDE for curve in profile.curves):
        noise = "" if profile.public else ", and these are released ones, which vary more for smaller epsilon"
        lines.append(
            f"The bounds are wide: each row is judged by the labels of {profile.neighbours:,} others{noise}. More rows "
            "narrow them; so do more neighbours (--neighbours), at a coarser resolution."
        )
    return lines


def profile_limit(law: FeatureLaw | None) -> str:
    """The limit, if any, on the disclosure by features alone."""
    if law is None or law.generator is None:
        return _NO_PROMISE
    known = (
        f"Features of this release were resampled with probability {share(float(law.chance))}, and the profile is of "
        "the rows as released. The disclosure by their features alone is "
    )
    if law.divergences:
        return f"{known}limited by its guarantee with conditional features, if its assumptions hold."
    return f"{known}not limited, since the divergence of the generator's features from true ones is unknown."


def _cells(
    bracket: Bracket, low: Callable[[float], str], value: Callable[[float], str], high: Callable[[float], str]
) -> list[str]:
    """The bounds, rounded outward, and the estimate between them."""
    ends = ((bracket.lower, low), (bracket.estimate, value), (bracket.upper, high))
    return [shown(each) if math.isfinite(each) else _NO_LIMIT for each, shown in ends]


def _factor(value: float) -> str:
    """The factor by which odds grow, in words."""
    return "beyond all bounds" if value > 700 else f"by a factor of {float(f'{math.exp(value):.2g}'):,g}"
