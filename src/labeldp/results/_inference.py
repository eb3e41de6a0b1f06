"""Answers from released labels: shares and means by group, effects with what they assume, and regression tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from labeldp._checks import printable
from labeldp.learning.inference import Coefficient, Coefficients, Description, Effects, OutcomeEffect, Overlap
from labeldp.learning.metrics import Estimate
from labeldp.release.folder import clipping
from labeldp.results._blocks import Block, Grid, Part, Picture, Prose, Section, Terms, Tone
from labeldp.results._charts import Ranges
from labeldp.results._numbers import above, below, counted, interval, share, three_digits
from labeldp.results._release import Promised, guarantee_prose, promised

if TYPE_CHECKING:
    from labeldp.release import Release

_ALL_ROWS = "all rows"
_OTHERS = "Less the others: the difference to all other rows, which is no effect of being in the group."


@dataclass(frozen=True, eq=False, kw_only=True)
class Estimated(Promised):
    """Estimates of the true labels of a release, and the guarantee that covers them."""

    label: str
    rows: int

    @classmethod
    def of(cls, release: Release, **estimates: Any) -> Self:
        """Estimates by their names, of the label of a release with a certificate."""
        certificate: Any = release.certificate
        return cls(**promised(certificate), label=certificate.label, rows=certificate.rows, **estimates)


@dataclass(frozen=True, eq=False, kw_only=True)
class Described(Estimated):
    """Shares, means and quantiles of true labels, as ``labeldp describe --json`` prints them.

    Attributes:
        by: The public column whose values are the groups; empty for all rows alone.
        described: The estimates.
    """

    by: str
    described: Description


def described_part(found: Described) -> Part:
    """Shares, means and quantiles, and the guarantee that covers them."""
    part = description_part(found.described)
    groups = len({each.group for each in found.described.summaries} - {""})
    by = f", by {groups} values of {found.by}" if groups else ""
    done = f"Described the true {found.label!r} of {found.rows:,} released rows{by}, at no further privacy cost."
    return covered(replace(part, result=done, lead=(done,)), found)


def covered(part: Part, found: Estimated) -> Part:
    """Parts of a result, what became of numbers beyond the declared range, and the guarantee that covers it."""
    lead = (*part.lead, *clipping(found.assumptions))
    return replace(part, lead=lead, sections=(*part.sections, Section("", guarantee_prose(found.sentence))))


def description_part(found: Description) -> Part:
    """Estimates of true labels, with intervals that hold together."""
    numbers = not found.of_classes
    rows = [
        (
            each.group or _ALL_ROWS,
            f"{each.rows:,}",
            each.outcome,
            *_texts(each.estimate, numbers),
            *(("", "") if each.difference is None else _texts(each.difference, numbers, signed=True)),
        )
        for each in found.summaries
    ]
    together = f"{found.intervals} intervals hold together" if found.intervals > 1 else "The interval holds"
    note = f"{together} with {share(found.level)} confidence{' (Bonferroni)' * (found.intervals > 1)}."
    if any(each.difference is not None for each in found.summaries):
        note = f"{note} {_OTHERS}"
    heads = ("group", "rows", "of", "estimate", "interval", "less the others", "interval of that")
    grid = Grid.of("true labels, estimated from released ones", heads, rows, (1, 3, 4, 5, 6), most=400)
    reason = [Prose(f"No quantiles: {found.reason}.")] if found.reason else []
    noisy = [Prose(f"{found.noisy}.", "aside")] if found.noisy else []
    sections = (Section("", (grid, Prose(note, "aside"), *noisy, *reason)),)
    title = "Shares of classes" if found.of_classes else "Means of numbers"
    return Part(title, "True labels, by group", lead=(), sections=sections)


def _texts(found: Estimate, numbers: bool, *, signed: bool = False) -> tuple[str, str]:
    """An estimate and its interval, rounded outward; shares in percent."""
    if math.isnan(found.value):
        return "cannot be told", ""
    if numbers:
        return f"{'+' if signed and found.shown > 0 else ''}{three_digits(found.shown)}", _ends(found)
    if signed:
        ends = f"{_points(found.low, math.floor)} to {_points(found.high, math.ceil)}"
        return f"{100.0 * found.shown:+.1f} points", ends
    return share(found.shown), interval(found.low, found.high)


def _ends(found: Estimate) -> str:
    return f"{below(found.low)} to {above(found.high)}"


def _points(value: float, rounded: object) -> str:
    return f"{rounded(round(1000.0 * value, 6)) / 10.0:+.1f}"  # type: ignore[operator]


#: Ranges that a picture has room for.
_MOST_DRAWN = 12
_ASSUMED = (
    "Read this first: the effect assumes that {} hold everything that decided both on {} and on the label. No data can "
    "show that. A cause that was not measured, and that differs between the groups, is counted as effect."
)
_AS_THEY_ARE = (
    "Read this first: the groups are compared as they are. The difference is an effect only if chance put each row "
    "into its group."
)
_KNOWN = "The probabilities of the treatment were declared as known, as in a trial: chance alone decided on it."
_MIXED = (
    "Several rows may be of one privacy unit, and nothing says which. The intervals take rows as independent, so they "
    "are too narrow."
)
_TOO_FEW = "too few rows"
_LIKELIHOOD = (
    "The coefficients have the largest likelihood of the released labels. Where the model does not hold exactly, they "
    "aim at somewhat other values than those of the true labels."
)
_UNTOLD = (
    "No finite estimate: {}. The labels are most likely at an infinite coefficient, as where all rows with a value "
    "have one class, or are too few for the noise. The interval is that of the likelihood."
)
_COMPARE = (
    "More may be told in comparison with {}, the most common class by the released labels: name it as the --reference "
    "(reference=)."
)
_NOTHING_TOLD = "too few rows for this noise"
#: Odds ratios beyond this, or its inverse, say nothing where there is no estimate.
_MOST_RATIO = 1000.0
_FACTOR = "Odds of {}. A factor above 1 means higher odds; an interval that holds 1 does not show a difference."
_PROFILES = (
    "Likelihood intervals where they differ from the normal ones above. Prefer these: there the likelihood is not "
    "symmetric."
)
_POINTS = "Percentage points; a difference of 1.0 is one row in a hundred."


@dataclass(frozen=True, eq=False, kw_only=True)
class EffectEstimated(Estimated):
    """The effect of a treatment on true labels, as ``labeldp effect --json`` prints it."""

    effect: Effects


@dataclass(frozen=True, eq=False, kw_only=True)
class CoefficientsEstimated(Estimated):
    """A regression table of true labels, as ``labeldp coefficients --json`` prints it."""

    regression: Coefficients


def effect_part(found: EffectEstimated) -> Part:
    """The effect of a treatment, and the guarantee that covers it."""
    return covered(effects_part(found.effect), found)


def regression_part(found: CoefficientsEstimated) -> Part:
    """A regression table, and the guarantee that covers it."""
    return covered(coefficients_part(found.regression), found)


def effects_part(found: Effects) -> Part:
    """The assumption of an effect, the effect of a treatment in each group, and the overlap of both arms."""
    name = printable(found.treatment)
    lead = [_assumption(found)]
    lead += [_MIXED] if found.mixed else []
    sections = [Section("Effects", tuple(_effect_blocks(found)))]
    if found.overlap is not None:
        sections.append(Section("Overlap", tuple(_overlap(found, found.overlap))))
    tone: Tone = "heed" if found.mixed or found.assignment != "known" else ""
    return Part(f"Effect of {name}", _headline(found), tone, tuple(lead), sections=tuple(sections))


def _assumption(found: Effects) -> str:
    """The assumption of the effect, which stands before any number."""
    if found.assignment == "known":
        return _KNOWN
    if found.assignment == "ignored":
        return _AS_THEY_ARE
    return _ASSUMED.format(", ".join(map(printable, found.adjusted_for)) or "no columns", printable(found.treatment))


def _headline(found: Effects) -> str:
    """The effect in few words; of several how many show one."""
    shown = [each for each in found.effects if each.difference.low > 0.0 or each.difference.high < 0.0]
    if len(found.effects) > 1:
        return f"{len(shown)} of {len(found.effects)} differences shown"
    (only,) = found.effects
    value, between = _difference(only.difference, found)
    return f"{'Difference' if shown else 'No difference shown'}: {value} ({between})" if between else f"{value}"


def _effect_blocks(found: Effects) -> Iterator[Block]:
    """The table of effects, their picture, and what their numbers mean."""
    number = _number(found)
    name, first = printable(found.treatment), int(all(not each.group for each in found.effects))
    means = (f"{name} {printable(value)}" for value in found.values)
    heads = ("group", "outcome", "rows", *means, "difference", f"{found.level:.0%} interval")[first:]
    rows = [
        (
            *(printable(each.group), printable(each.outcome), f"{each.rows:,}"),
            *(_told(mean, number) for mean in (each.untreated, each.treated)),
            *_difference(each.difference, found),
        )[first:]
        for each in found.effects
    ]
    caption = f"{counted(found.units, 'unit')}, by released labels"
    yield Grid.of(caption, heads, rows, tuple(range(2 - first, len(heads))))
    if len(rows) > 1:
        yield Prose(f"The {len(rows)} intervals hold together with {found.level:.0%} (Bonferroni).", "aside")
    if not found.numeric:
        yield Prose(_POINTS, "aside")
    yield from _drawn(found)


def _drawn(found: Effects) -> Iterator[Picture]:
    """The differences with their intervals, beside no difference."""
    told = [each for each in found.effects if math.isfinite(each.difference.value)][:_MOST_DRAWN]
    ends = [0.0, *(end for each in told for end in (each.difference.low, each.difference.high))]
    low, high = min(ends), max(ends)
    if not told or not high > low:
        return
    ranges = [
        (
            _name(each),
            each.difference.low,
            each.difference.shown,
            each.difference.high,
            " ".join(_difference(each.difference, found)),
        )
        for each in told
    ]
    marks = sorted({low, 0.0, high})
    what = f"Effect of {printable(found.treatment)}"
    chart = Ranges(what, ranges, [(mark, _signed(mark, found)) for mark in marks], 0.0)
    yield Picture(chart, "Differences with their intervals; the line is no difference.")


def _name(each: OutcomeEffect) -> str:
    return printable(f"{each.group}: {each.outcome}" if each.group else each.outcome)


def _number(found: Effects) -> Callable[[float], str]:
    """The function that shows means: shares in percent, and numbers in three digits."""
    return three_digits if found.numeric else share


def _told(mean: Estimate, number: Callable[[float], str]) -> str:
    return _TOO_FEW if math.isnan(mean.value) else number(mean.shown)


def _signed(value: float, found: Effects) -> str:
    """A difference with its sign: in percentage points, or in the unit of the label."""
    text = three_digits(value) if found.numeric else f"{100.0 * value:.1f}"
    return f"+{text}" if value > 0.0 else text


def _difference(each: Estimate, found: Effects) -> tuple[str, str]:
    """A difference and its interval."""
    if math.isnan(each.value):
        return _TOO_FEW, ""
    return _signed(each.shown, found), f"{_signed(each.low, found)} to {_signed(each.high, found)}"


def _overlap(found: Effects, overlap: Overlap) -> Iterator[Block]:
    """The propensities, and how many rows the weighted ones are worth."""
    untreated, treated = map(printable, found.values)
    rows = [
        ("probability of the treatment", f"{three_digits(overlap.low)} to {three_digits(overlap.high)}"),
        ("rows below 0.05 or above 0.95", f"{overlap.outside:,}"),
        (f"effective rows with {untreated}", f"{overlap.effective_untreated:,.0f}"),
        (f"effective rows with {treated}", f"{overlap.effective_treated:,.0f}"),
    ]
    rows += [("rows left out", f"{overlap.left_out:,}")] if overlap.left_out else []
    yield Terms(tuple(rows))
    if overlap.left_out:
        yield Prose("The effect is that in the rows that are left, and not in all.", "heed")


def coefficients_part(found: Coefficients) -> Part:
    """A regression table with the names of statsmodels, odds ratios, and what cannot be told."""
    rows = counted(found.rows, "row")
    lead = [f"A {found.family} regression by released labels: {rows}, {counted(found.units, 'independent unit')}."]
    lead += [f"{counted(found.left_out, 'row')} with gaps left out."] if found.left_out else []
    lead += [_MIXED] if found.mixed else []
    lead += [_LIKELIHOOD] if found.method == "likelihood" else []
    untold = [_term(each, found) for each in found.coefficients if math.isnan(each.coef)]
    blocks: list[Block] = [_table(found)]
    blocks += [Prose(_UNTOLD.format(", ".join(untold)), "heed")] if untold else []
    if untold and found.reference != found.common:
        blocks.append(Prose(_COMPARE.format(printable(found.common)), "heed"))
    sections = [Section("Coefficients", tuple(blocks)), *_profiles(found), *_odds(found)]
    shown = sum(each.low > 0.0 or each.high < 0.0 for each in found.coefficients if each.name != "Intercept")
    count = sum(each.name != "Intercept" for each in found.coefficients)
    headline = f"{shown} of {counted(count, 'coefficient')} shown to differ from 0"
    return Part("Regression", headline, "heed" if untold or found.mixed else "", tuple(lead), sections=tuple(sections))


def _term(each: Coefficient, found: Coefficients) -> str:
    """The name of a coefficient, with its class where there are several."""
    return printable(f"{each.outcome}: {each.name}" if found.family == "multinomial" else each.name)


def _table(found: Coefficients) -> Grid:
    """The coefficients as statsmodels prints them."""
    tail = (1.0 - found.level) / 2.0
    heads = ("", "coef", "std err", "z", "P>|z|", f"[{tail:.4g}", f"{1.0 - tail:.4g}]")
    rows = [(_term(each, found), *_numbers(each)) for each in found.coefficients]
    caption = "Coefficients" if found.family == "linear" else f"Log odds of {_against(found)}"
    return Grid.of(caption, heads, rows, (1, 2, 3, 4, 5, 6))


def _against(found: Coefficients) -> str:
    """The class whose odds are told, of several each one, and the class that it is compared with."""
    outcome = "each class" if found.family == "multinomial" else printable(found.coefficients[0].outcome)
    return f"{outcome} against {printable(found.reference)}"


def _numbers(each: Coefficient) -> tuple[str, ...]:
    """The numbers of a coefficient; of one that cannot be told the ends of its interval alone."""
    low, high = _told_ends(each)
    ends = tuple(rounded(end, 4) if math.isfinite(end) else "none" for rounded, end in ((below, low), (above, high)))
    if math.isnan(each.coef):
        return ("none", "", "", "", *ends)
    p = "<0.001" if each.p < 0.001 else f"{each.p:.3f}"
    return (_digits(each.coef), _digits(each.std_err), f"{each.z:.2f}", p, *ends)


def _told_ends(each: Coefficient) -> tuple[float, float]:
    """The ends of an interval; without an estimate those alone that say something."""
    if not math.isnan(each.coef):
        return each.low, each.high
    most = math.log(_MOST_RATIO)
    return each.low if each.low > -most else -math.inf, each.high if each.high < most else math.inf


def _digits(value: float) -> str:
    if not 1e3 <= abs(value) < 1e9:
        return f"{value:.4g}"
    return f"{float(f'{value:.4g}'):,.0f}"


def _interval(low: float, high: float) -> str:
    """An interval in words, of which an end may be missing."""
    if math.isfinite(low) and math.isfinite(high):
        return f"{_end(low, below)} to {_end(high, above)}"
    if math.isfinite(high):
        return f"at most {_end(high, above)}"
    return f"at least {_end(low, below)}" if math.isfinite(low) else "anything"


def _end(value: float, rounded: Callable[[float, int], str]) -> str:
    """An end of an interval in three digits; in more where they would read 1, the odds ratio without a difference."""
    return next((text for digits in range(3, 9) if (text := rounded(value, digits)) != "1" or value == 1.0), "1")


def _profiles(found: Coefficients) -> Iterator[Section]:
    """Likelihood intervals where they differ from the normal ones."""
    rows = [(_term(each, found), _interval(*each.profile)) for each in found.coefficients if each.profile is not None]
    if rows:
        grid = Grid.of("Likelihood intervals", ("", f"{found.level:.0%} interval"), rows, (1,))
        yield Section("Likelihood intervals", (grid, Prose(_PROFILES, "aside")))


def _odds(found: Coefficients) -> Iterator[Section]:
    """Odds ratios, of the likelihood interval where there is one."""
    if found.family == "linear":
        return
    rows = []
    for each in found.coefficients:
        if each.name != "Intercept":
            low, high = (_exp(end) for end in each.profile or _told_ends(each))
            ratio = "none" if math.isnan(each.coef) else three_digits(_exp(each.coef))
            told = math.isfinite(low) or math.isfinite(high)
            rows.append((_term(each, found), ratio, _interval(low, high) if told else _NOTHING_TOLD))
    if rows:
        grid = Grid.of("Odds ratios", ("", "odds ratio", f"{found.level:.0%} interval"), rows, (1, 2))
        yield Section("Odds ratios", (grid, Prose(_FACTOR.format(_against(found)), "aside")))


def _exp(log: float) -> float:
    """A factor from its logarithm; not finite where it is none that there is a bound of."""
    return math.exp(log) if math.isfinite(log) and log < 700.0 else math.inf
