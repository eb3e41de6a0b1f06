"""Attacks on labels as sentences, tables and a figure."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from labeldp._checks import printable
from labeldp.audit.attacks import AttackReport, AttackRow, Utility
from labeldp.mechanisms.resampling import FeatureLaw
from labeldp.report._figures import new_figure, write_figure
from labeldp.report._parts import Parts, add_row, epsilon_above, sentence, titled_table

_ALONE = "features"
_BOTH = "features and the released label"
_BLIND = "nothing about the row"
_BELIEVED = "the model itself"
_MARKERS, _STYLES = "osD^", ("--", ":", "-.")


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
    return parts + [sentence(line) for line in _lines(report)]


def save_attack_figure(report: AttackReport, path: Path) -> Path:
    """The gains as points with their intervals, and the limits as lines, as a PNG, SVG or PDF by the file's ending."""
    figure, axes = new_figure(path)
    best = _best(report)
    for place, each in enumerate(best):
        gain, name = each.utility, f"{each.knows} ({each.utility.source})"
        ends = [[max(0.0, gain.value - gain.low)], [max(0.0, gain.high - gain.value)]]
        interval = None if gain.source == _BELIEVED else ends
        axes.errorbar([gain.value], [-place], xerr=interval, fmt=_MARKERS[place % len(_MARKERS)], capsize=3, label=name)
    for place, (what, value) in enumerate(report.limits):
        style = _STYLES[place % len(_STYLES)]
        axes.axvline(value, color="0.4", linestyle=style, label="at most: " + printable(what).replace("$", r"\$"))
    axes.set(xlim=(0, 1.02), xlabel="gain of an attack", title="Disclosure of labels by a release")
    axes.get_yaxis().set_visible(False)
    axes.set_ylim(-len(best) - 0.6 * (len(best) + len(report.limits)), 0.5)  # the legend is below the points
    return write_figure(figure, axes, path, at_points=False)


def _best(report: AttackReport) -> list[AttackRow]:
    """For each knowledge of an attacker the first row, which has the best source of true labels."""
    best: dict[str, AttackRow] = {}
    for each in report.rows:
        best.setdefault(each.knows, each)
    return list(best.values())


def _lines(report: AttackReport) -> list[str]:
    """The meaning of the numbers."""
    best = {each.knows: each.utility for each in _best(report)}
    lines = []
    if _BOTH in best:
        more = best[_BOTH].value - best[_ALONE].value
        lines.append(
            f"Features alone gain {best[_ALONE].value - best[_BLIND].value:+.1%} over the trivial attack; the released "
            f"label adds {more:+.1%}."
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
    if any(each.utility.source == "released labels" for each in report.rows):
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
