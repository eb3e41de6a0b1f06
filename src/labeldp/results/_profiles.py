"""Privacy-loss profiles as sentences, tables and figures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.text import Text

from labeldp.results._parts import (
    CERTAINTIES,
    Parts,
    add_row,
    epsilon_above,
    factor_below,
    sentence,
    share_below,
    titled_table,
)

if TYPE_CHECKING:  # a plan and a release load no audit
    from labeldp.audit.attacks import Bracket, Exposure, LossCurve, LossProfile
    from labeldp.mechanisms.resampling import FeatureLaw

_SHARES = (0.5, 0.05, 0.01)
_EXPOSED = 0.05
#: Factor up to which an average disclosure is that of the released label alone.
_NOTHING_MORE = 1.001
#: The width from which bounds of a share count as wide, and the share below which it is printed as zero.
_WIDE, _LEAST_SHARE = 0.5, 0.0005
_BOUNDS = ("at least", "estimate", "at most")
_NO_LIMIT = "no limit"
_NATS = (
    "A disclosure is the natural logarithm, in nats, of the factor by which the odds of the true label grow: 0.69 nats "
    "double them. Epsilon is the most that the released label adds to public features."
)
_MORE = (
    "Columns and released labels together disclose more than the labels alone: the odds of a row's true label grow by "
    "a factor of at least {} on average."
)
_NOTHING = (
    "Nothing was found of what the columns add: they disclose little, or rows are too few for this epsilon to tell. A "
    "group of rows of one class is told from a mixed one by about {} rows; the largest group has {}."
)
_NO_EXPOSURE = (
    "What public columns and released labels disclose together is not bounded here: that takes two classes, each label "
    "flipped with one known probability, columns to tell rows apart, and the libraries of the extra 'learn'."
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


def exposure_text(exposure: Exposure | None) -> Parts:
    """Lower bounds on the disclosure by columns and released labels, without assumptions on the columns."""
    if exposure is None:
        return [sentence(_NO_EXPOSURE), Text()]
    shares = {
        f"share of rows that disclose the epsilon of their label{_only(exposure)} or more": exposure.beyond(),
        **{
            f"share of rows whose columns alone make the label {sure:.0%} sure": exposure.known(sure)
            for sure in CERTAINTIES
        },
    }
    more = exposure.average > exposure.of_label * _NOTHING_MORE
    if not more and not any(share_below(each) != "0.0%" for each in shares.values()):
        return [sentence(_nothing(exposure)), Text()]
    lines = titled_table("What public columns and released labels disclose together", ["", "at least"])
    add_row(lines, "factor by which the odds of a row's true label grow, on average", factor_below(exposure.average))
    add_row(lines, "  of that, by the released label alone", factor_below(exposure.of_label))
    for name, value in shares.items():
        add_row(lines, name, share_below(value))
    finding = sentence(_MORE.format(factor_below(exposure.average)) if more else _nothing(exposure))
    return [finding, Text(), lines, sentence(f"{_basis(exposure)} {SOURCE[exposure.public]}"), Text()]


def _nothing(exposure: Exposure) -> str:
    """That nothing was found, and the rows that would show something."""
    return _NOTHING.format(f"{exposure.needed:,}", f"{int(exposure.sizes.max()):,}")


def _only(exposure: Exposure) -> str:
    """The epsilon of all labels, where it is one."""
    return f", {epsilon_above(exposure.epsilon)}," if len(set(exposure.flips.tolist())) == 1 else ""


def _basis(exposure: Exposure) -> str:
    """The assumptions and the confidence of the bounds."""
    return (
        f"These bounds hold all at once with confidence {exposure.confidence:g}, for these {exposure.rows:,} rows in "
        f"{len(exposure.sizes)} groups by their columns, found from other rows' labels. The average is the geometric "
        f"mean. They assume that {' and '.join(exposure.assumptions)}, and nothing about the columns; more "
        "may be disclosed."
    )


def profile_text(profile: LossProfile, law: FeatureLaw | None = None) -> Parts:
    """The disclosure by features and released label together over the share of rows, for each flip probability.

    Args:
        profile: The profile.
        law: The law by which the features left, where they were not public.
    """
    title = f"{profile.evaluated:,} of {profile.total:,} rows, {profile.neighbours:,} neighbours"
    lines = titled_table(title, ["flip", "epsilon", "disclosure (nats)", *_BOUNDS])
    brackets = []
    for curve in profile.curves:
        name = (f"{curve.flip:.3g}", epsilon_above(curve.epsilon))
        add_row(lines, *name, "at least epsilon: share of rows", *_cells(curve.beyond, "{:.1%}"))
        for share in _SHARES:
            brackets.append(curve.loss(share))
            add_row(lines, *name, f"of the most exposed {share:.0%} of rows", *_cells(brackets[-1], "{:.3g}"))
    return [
        *(sentence(_summary(profile, curve)) for curve in profile.curves),
        Text(),
        lines,
        Text(),
        *(sentence(line) for line in _warnings(profile, brackets)),
        sentence(_NATS),
        sentence(f"All bounds hold simultaneously with confidence {profile.confidence:g}. {SOURCE[profile.public]}"),
        *(sentence(f"assumed: {each}") for each in profile.assumptions),
        sentence(_limit(law)),
    ]


def _summary(profile: LossProfile, curve: LossCurve) -> str:
    """The disclosure of the most exposed rows, and the share of rows that disclose more than the static epsilon."""
    exposed, beyond = curve.loss(_EXPOSED), curve.beyond
    first = (
        f"Flip probability {curve.flip:.3g} (epsilon {epsilon_above(curve.epsilon)}): for the most exposed "
        f"{_EXPOSED:.0%} of the rows, features and released label together disclose at least {exposed.lower:.3g} "
        f"nats on average: the odds of the true label grow {_factor(exposed.lower)} or more."
    )
    if beyond.lower < _LEAST_SHARE:
        return f"{first} Too few rows to tell if any disclose epsilon or more."
    low, high = profile.chances_beyond(curve.flip)
    return (
        f"{first} At least {beyond.lower:.1%} of the rows (estimate: {beyond.estimate:.1%}) disclose "
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


def _limit(law: FeatureLaw | None) -> str:
    """The limit, if any, on the disclosure by features alone."""
    if law is None or law.generator is None:
        return _NO_PROMISE
    known = (
        f"Features of this release were resampled with probability {float(law.chance):.1%}, and the profile is of the "
        "rows as released. The disclosure by their features alone is "
    )
    if law.divergences:
        return f"{known}limited by its guarantee with conditional features, if its assumptions hold."
    return f"{known}not limited, since the divergence of the generator's features from true ones is unknown."


def _cells(bracket: Bracket, form: str) -> list[str]:
    """The bounds and the estimate between them."""
    values = (bracket.lower, bracket.estimate, bracket.upper)
    return [_NO_LIMIT if math.isinf(value) else form.format(value) for value in values]


def _factor(value: float) -> str:
    """The factor by which odds grow, in words."""
    return "beyond all bounds" if value > 700 else f"by a factor of {float(f'{math.exp(value):.2g}'):,g}"
