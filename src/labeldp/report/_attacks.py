"""What attacks on labels gain, in words and as a figure."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from labeldp._checks import printable
from labeldp.audit.attacks import AttackReport, AttackRow, Utility
from labeldp.mechanisms.features import FeatureLaw
from labeldp.privacy import shown_above
from labeldp.report._figures import drawn, saved
from labeldp.report._parts import Parts, row, said, table

_ALONE = "features"
_BOTH = "features and the released label"
_BLIND = "nothing of the row"
_BELIEVED = "the model itself"
_MARKERS, _STYLES = "osD^", ("--", ":", "-.")


def attack_text(report: AttackReport) -> Parts:
    """Who knows what and gains how much, what is proven, and what the epsilon says of it."""
    gain = "1 - squared error" if report.squared else "right, or 1 - loss"
    shown = table("what an attack on the labels gains", ["the attacker knows", gain, "interval", "measured against"])
    for each in report.rows:
        row(shown, each.knows, _share(each.utility.value), _interval(each.utility), each.utility.source)
    parts: Parts = [shown, Text()]
    if report.limits:
        proven = table("no attack is expected to gain more", ["by", "at most"])
        for what, value in report.limits:
            row(proven, what, _share(value))
        parts += [proven, Text()]
    return parts + [said(line) for line in _lines(report)]


def save_attack_figure(report: AttackReport, path: Path) -> Path:
    """The gains as points with their intervals, and the limits as lines, as a PNG, SVG or PDF by the file's ending."""
    figure, axes = drawn(path)
    best = _best(report)
    for place, each in enumerate(best):
        found, name = each.utility, f"{each.knows} ({each.utility.source})"
        ends = [[max(0.0, found.value - found.low)], [max(0.0, found.high - found.value)]]
        beside = None if found.source == _BELIEVED else ends
        axes.errorbar([found.value], [-place], xerr=beside, fmt=_MARKERS[place % len(_MARKERS)], capsize=3, label=name)
    for place, (what, value) in enumerate(report.limits):
        style = _STYLES[place % len(_STYLES)]
        axes.axvline(value, color="0.4", linestyle=style, label="at most: " + printable(what).replace("$", r"\$"))
    axes.set(xlim=(0, 1.02), xlabel="what an attack gains", title="What a release gives away of labels")
    axes.get_yaxis().set_visible(False)
    axes.set_ylim(-len(best) - 0.6 * (len(best) + len(report.limits)), 0.5)  # the legend is below the points
    return saved(figure, axes, path, at_points=False)


def _best(report: AttackReport) -> list[AttackRow]:
    """The first row of each knowledge: against the best source that there is."""
    found: dict[str, AttackRow] = {}
    for each in report.rows:
        found.setdefault(each.knows, each)
    return list(found.values())


def _lines(report: AttackReport) -> list[str]:
    """What the numbers mean."""
    best = {each.knows: each.utility for each in _best(report)}
    lines = []
    if _BOTH in best:
        more = best[_BOTH].value - best[_ALONE].value
        lines.append(
            f"Features alone gain {best[_ALONE].value - best[_BLIND].value:+.1%} over the trivial answer; the released "
            f"label adds {more:+.1%} to features."
        )
    if report.law is not None and report.law.generator is not None:
        lines.append(_redrawn(float(report.law.chance), report.original))
    if report.epsilon is not None:
        lines.append(
            f"The epsilon of {shown_above(report.epsilon, 7)} bounds what the released label adds to what is known of "
            "a row without it. It does not bound what features tell (Busa-Fekete et al. 2023, theorem 5.1): "
            f"{_bounded(report.law)}."
        )
    if report.with_any_label is not None:
        lines.append(
            f"If the model's chances are right, nobody who knows them gains more than {_share(report.with_any_label)} "
            "with any released label of this epsilon, on average over its draw."
        )
    if any(each.utility.source == "released labels" for each in report.rows):
        lines.append(
            "Against released labels the gain is unbiased for a model that was not fitted on the labels of these rows; "
            "for one that was it is too large."
        )
    level = report.rows[0].utility.confidence
    lines.append(
        f"Each interval holds the expected gain with confidence {level:g}, for rows drawn independently. What is "
        "measured against the model itself is what it believes, and is right only as far as its chances are."
    )
    return lines


def _redrawn(chance: float, original: float | None) -> str:
    """What the attack makes of features some of which are no row's own."""
    known = f"Features of this release were redrawn with a chance of {chance:.1%}"
    if original is None:
        return f"{known}; this attack did not use them."
    if original < 1:
        return (
            f"{known}, and the attack knows it: the model's chances, of true features, count for {original:.1%} of "
            "what is believed of a row, the shares of the classes for the rest. That is right if the generator is; who "
            "can tell its rows from true ones gains more."
        )
    return (
        f"{known}. The model's chances are taken for those given features as they were released: one that learned from "
        "such rows without their generator gives these. A model of true features (labeldp learn --generator) may gain "
        "more."
    )


def _bounded(law: FeatureLaw | None) -> str:
    """What bounds what features tell."""
    if law is None:
        return "a guarantee with conditional features does (labeldp release --mechanism double)"
    if law.generator is None:
        return "none were released with these labels"
    if law.divergences:
        return "the guarantee with conditional features of this release does, as far as what it rests on is true"
    return "nothing does here, as it is not known how far the generator's features are from true ones"


def _share(value: float) -> str:
    return f"{value:.1%}"


def _interval(found: Utility) -> str:
    if found.source == _BELIEVED:
        return "as believed"
    return f"{found.low:.1%} to {found.high:.1%}"
