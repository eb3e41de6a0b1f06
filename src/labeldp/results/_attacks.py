"""Attacks on the labels of a release: gains, limits, measures against true labels, and what the numbers mean."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from labeldp._checks import printable
from labeldp.audit.attacks import Advantage, AttackMeasures, AttackReport, Utility
from labeldp.mechanisms.resampling import FeatureLaw
from labeldp.results._blocks import Block, Grid, Picture, Prose, Section
from labeldp.results._charts import Roc
from labeldp.results._numbers import epsilon_above, share, share_above
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
