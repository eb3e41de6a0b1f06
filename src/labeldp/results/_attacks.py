"""Attacks on the labels of a release, and privacy-loss profiles: how much features and released labels disclose."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from labeldp._checks import printable
from labeldp.audit.attacks import Advantage, AttackMeasures, AttackReport, Bracket, LossCurve, LossProfile, Utility
from labeldp.mechanisms.resampling import FeatureLaw
from labeldp.results._blocks import Block, Grid, Picture, Prose, Section
from labeldp.results._charts import Curves, Roc
from labeldp.results._numbers import above, below, epsilon_above, share, share_above, share_below, three_digits
from labeldp.results._numbers import interval as share_interval

if TYPE_CHECKING:
    from labeldp.audit.attacks import Counted
    from labeldp.results._audit import Audited


_ALONE = "features"
_BELIEVED = "the model itself"
_ALONE_OVER_TRIVIAL = ("Features alone show", "the trivial attack")
_LABEL_OVER_FEATURES = ("Features and the released label show", "features alone")
#: Classes with a chart of their own, attackers in it, and points of a line.
_MOST_CLASSES, _MOST_ATTACKERS, _MOST_POINTS = 3, 2, 1000


def attack_sections(found: Audited) -> Iterator[Section]:
    """The gain of each attack, proven limits, measures against true labels, and what the numbers mean."""
    if found.attacks is None:
        return
    gain = "1 - squared error" if found.squared else "correct, or 1 - loss"
    heads = ("the attacker knows", gain, "interval", "measured against")
    rows = [
        (each.knows, share(each.utility.value), _interval(each.utility), each.utility.source) for each in found.attacks
    ]
    blocks: list[Block] = [Grid.of("gain of attacks on the labels", heads, rows, (1, 2))]
    if found.limits:
        limits = [(what, share_above(value)) for what, value in found.limits]
        blocks.append(Grid.of("proven limits of the expected gain", ("of attacks on", "at most"), limits, (1,)))
    measures = (found.measures or ())[:_MOST_ATTACKERS]
    if measures:
        blocks += [_measures(measures), *_roc(measures)]
    yield Section("Attacks", (*blocks, *map(Prose, found.remarks or ())))


def _interval(gain: Utility) -> str:
    return "as believed" if gain.source == _BELIEVED else share_interval(gain.low, gain.high)


def _measures(measures: Sequence[AttackMeasures]) -> Grid:
    """Measures of two attackers, side by side."""
    title = f"attacks against true labels, each share with its interval at confidence {measures[0].confidence:g}"
    cells = [_measured(each) for each in measures]
    rows = [(names[0][0], *(cell for _, cell in names)) for names in zip(*cells, strict=False)]
    return Grid.of(title, ("share", *(each.knows for each in measures)), rows, tuple(range(1, len(measures) + 1)))


def _roc(measures: Sequence[AttackMeasures]) -> Iterator[Picture]:
    """The ranking of rows by the attackers, for the first classes."""
    classes = measures[0].classes
    for place, each in list(enumerate(classes))[len(classes) == 2 :][:_MOST_CLASSES]:  # of two, one says all
        same = [found.classes[place] for found in measures if len(found.classes) > place]
        lines = [(found.knows, _points(of.curve), f"{of.area:.2f}") for found, of in zip(measures, same, strict=False)]
        name = printable(str(each.label))
        yield Picture(
            Roc(f"Who has the label “{name}”, by each attacker's certainty", lines),
            f"Rows from the one that an attacker is surest of to the last: of those with the label “{name}” the share "
            "that is seen, over the share of the others that is taken for it. Beside each line are what the attacker "
            "knows, and the area under it. Dotted: guesses at random.",
        )


def _points(curve: Iterable[Iterable[float]]) -> list[tuple[float, float]]:
    """The points of a line, as pairs of false and true positives."""
    false, true, *_ = [*map(list, curve), list[float](), list[float]()]
    return [(float(x), float(y)) for x, y in zip(false[:_MOST_POINTS], true[:_MOST_POINTS], strict=False)]


def _measured(found: AttackMeasures) -> list[tuple[str, str]]:
    """The measures of one attacker, each with its name."""
    rows = []
    for each in found.classes:
        rows += [
            (
                f"of {each.label!r} seen, at {share(rate.aimed)} false alarms",
                f"needs {2 * rate.needed:,} rows of other classes" if rate.needed else _counted(rate.true),
            )
            for rate in each.rates
        ]
        rows.append((f"area under the curve of {each.label!r}", f"{each.area:.3f}"))
        rows.append((f"of {each.label!r} guessed right", _counted(each.right)))
    for (sure, told), (_, right) in zip(found.sure, found.precision, strict=False):
        rows.append((f"of all rows, {sure:.0%} sure to the attacker", _counted(told)))
        rows.append((f"  of those, guessed right ({sure:.0%} if beliefs are right)", _counted(right)))
    rows.append(("of the tenth that the attacker is surest of, guessed right", _counted(found.worst)))
    rows += [(f"of group {name!r} guessed right", _counted(right)) for name, right in found.groups]
    mean, most = found.multiplicative
    rows.append(
        ("factor by which a released label multiplies the true one's odds, mean and most", _factors(mean, most))
    )
    return rows


def _factors(mean: float, most: float) -> str:
    """Two factors from their natural logarithms."""
    return ", ".join(f"{math.exp(min(each, 700.0)):.3g}" for each in (mean, most))


def _counted(found: Counted) -> str:
    """A share and its interval."""
    if not found.rows:
        return "no rows"
    return f"{share(found.share.estimate)} ({share_interval(found.share.lower, found.share.upper)})"


def attack_sentences(report: AttackReport) -> list[str]:
    """The meaning of the numbers."""
    lines = [_compared(each) for each in report.advantages]
    if report.cross_fitted:
        lines.append(
            "The model was learned from these released labels. So for each fifth of the rows such a model was fitted "
            "anew on the others: no row is attacked by a model that was fitted on its released label."
        )
    if report.law is not None and report.law.generator is not None:
        lines.append(_resampled(float(report.law.chance), report.original))
    if report.epsilon is not None:
        lines.append(
            f"The epsilon of {epsilon_above(report.epsilon)} bounds what the released label adds to what is known "
            "about a row without it. It does not bound what features disclose (Busa-Fekete et al. 2023, theorem 5.1): "
            f"{_bounded(report.law)}."
        )
    if report.with_any_label is not None:
        lines.append(
            f"If the model's probabilities are right, no attacker who knows them gains more than "
            f"{share_above(report.with_any_label)} from any released label of this epsilon, on average over its draw."
        )
    judged = any(each.utility.source == "released labels" for each in report.rows)
    if judged and report.original is not None and not report.cross_fitted:
        lines.append(
            "Against released labels the gain is unbiased if the model was not fitted on the labels of these rows, and "
            "too large if it was."
        )
    level = report.rows[0].utility.confidence
    lines.append(
        f"Each interval contains the expected gain with confidence {level:g}, for rows drawn independently. A gain "
        "against the model itself is the model's own belief, and is only as right as its probabilities."
    )
    return lines


def _compared(advantage: Advantage) -> str:
    """The gain of one attack over another, or that none was found."""
    what, over = _ALONE_OVER_TRIVIAL if advantage.knows == _ALONE else _LABEL_OVER_FEATURES
    if advantage.source == _BELIEVED:
        return f"{what} a gain of {advantage.value:+.1%} over {over} by the model's own belief, which nothing confirms."
    interval = f"interval {advantage.low:+.1%} to {advantage.high:+.1%}"
    gain = f"a gain of {advantage.value:+.1%}" if advantage.found else "no gain"
    return f"{what} {gain} over {over} ({interval})."


def _resampled(chance: float, original: float | None) -> str:
    """The treatment of resampled features by the attack."""
    known = f"Features of this release were resampled with probability {share(chance)}"
    if original is None:
        return f"{known}; this attack did not use them."
    if original < 1:
        return (
            f"{known}, and the attack uses that: the model's probabilities for true features have weight "
            f"{share(original)}, the shares of the classes the rest. That is right if the generator is; an attacker "
            "who can distinguish its rows from true ones gains more."
        )
    return (
        f"{known}. The model's probabilities are taken to be for features as released, which is right for a model that "
        "learned from such rows without their generator. A model of true features (labeldp learn --generator) may "
        "gain more."
    )


def _bounded(law: FeatureLaw | None) -> str:
    """The guarantee, if any, that bounds the disclosure by features."""
    if law is None:
        return "a guarantee with conditional features does (labeldp release --mechanism double)"
    if law.generator is None:
        return "none were released with these labels"
    if law.divergences:
        return "the guarantee with conditional features of this release does, if its assumptions hold"
    return "nothing does here, since the divergence of the generator's features from true ones is unknown"


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
