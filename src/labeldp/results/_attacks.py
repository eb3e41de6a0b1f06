"""Attacks on labels as sentences, tables and a figure."""

from __future__ import annotations

import math

from rich.table import Table
from rich.text import Text

from labeldp.audit.attacks import Advantage, AttackMeasures, AttackReport, Counted, Utility
from labeldp.mechanisms.resampling import FeatureLaw
from labeldp.results._parts import Parts, add_row, epsilon_above, sentence, titled_table

_ALONE = "features"
_BELIEVED = "the model itself"
_ALONE_OVER_TRIVIAL = ("Features alone show", "the trivial attack")
_LABEL_OVER_FEATURES = ("Features and the released label show", "features alone")


def attack_text(report: AttackReport) -> Parts:
    """The gain of each attack, proven limits, and the meaning of epsilon for them."""
    gain = "1 - squared error" if report.squared else "correct, or 1 - loss"
    gains = titled_table("gain of attacks on the labels", ["the attacker knows", gain, "interval", "measured against"])
    for each in report.rows:
        add_row(gains, each.knows, _share(each.utility.value), _interval(each.utility), each.utility.source)
    parts: Parts = [gains, Text()]
    if report.limits:
        proven = titled_table("proven limits of the expected gain", ["of attacks on", "at most"])
        for what, value in report.limits:
            add_row(proven, what, _share(value))
        parts += [proven, Text()]
    if report.measures:
        parts += [_measures_table(report.measures), Text()]
    return parts + [sentence(line) for line in _lines(report)]


def _measures_table(measures: tuple[AttackMeasures, ...]) -> Table:
    """Measures of two attackers, side by side."""
    level = measures[0].confidence
    title = f"attacks against true labels, each share with its interval at confidence {level:g}"
    lines = titled_table(title, ["share", *(each.knows for each in measures)])
    names = [name for name, _ in _measured(measures[0])]
    for name, *cells in zip(names, *([cell for _, cell in _measured(each)] for each in measures), strict=True):
        add_row(lines, name, *cells)
    return lines


def _measured(found: AttackMeasures) -> list[tuple[str, str]]:
    """The measures of one attacker, each with its name."""
    rows = []
    for each in found.classes:
        rows += [
            (
                f"of {each.label!r} seen, at {rate.aimed:.1%} false alarms",
                f"needs {2 * rate.needed:,} rows of other classes" if rate.needed else _counted(rate.true),
            )
            for rate in each.rates
        ]
        rows.append((f"area under the curve of {each.label!r}", f"{each.area:.3f}"))
        rows.append((f"of {each.label!r} guessed right", _counted(each.right)))
    for (sure, share), (_, right) in zip(found.sure, found.precision, strict=True):
        rows.append((f"of all rows, {sure:.0%} sure to the attacker", _counted(share)))
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
    return f"{_share(found.share.estimate)} ({_share(found.share.lower)} to {_share(found.share.upper)})"


def _lines(report: AttackReport) -> list[str]:
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
            f"{_share(report.with_any_label)} from any released label of this epsilon, on average over its draw."
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
    known = f"Features of this release were resampled with probability {chance:.1%}"
    if original is None:
        return f"{known}; this attack did not use them."
    if original < 1:
        return (
            f"{known}, and the attack uses that: the model's probabilities for true features have weight "
            f"{original:.1%}, the shares of the classes the rest. That is right if the generator is; an attacker who "
            "can distinguish its rows from true ones gains more."
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


def _share(value: float) -> str:
    return f"{value:.1%}"


def _interval(gain: Utility) -> str:
    if gain.source == _BELIEVED:
        return "as believed"
    return f"{gain.low:.1%} to {gain.high:.1%}"
