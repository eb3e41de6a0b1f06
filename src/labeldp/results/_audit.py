"""Audits: the verdict and its numbers, what columns and labels disclose together, and attacks on labels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from labeldp._strict_json import absent
from labeldp.audit import Audit
from labeldp.audit.attacks import AttackMeasures, AttackReport, AttackRow, Bracket, Exposure, LossProfile
from labeldp.mechanisms.resampling import FeatureLaw
from labeldp.release.folder import Check
from labeldp.results._attacks import SOURCE, attack_sections, attack_sentences, profile_limit, profile_sections
from labeldp.results._blocks import Block, Checks, Grid, Part, Picture, Points, Prose, Section, Terms, Tone
from labeldp.results._charts import Ranges
from labeldp.results._numbers import epsilon_above, exactly_above, exactly_below, factor_below, share_below

if TYPE_CHECKING:
    from labeldp.audit.mechanisms import FolderAudit

_METHODS = {
    "exact": "by exact computation, without sampling",
    "sampled": "by events chosen on some draws and tested on others",
    "one run": "by guesses of labels in one run of the pipeline",
    "estimate": "by an estimate, which proves nothing",
}
_NO_PROOF = (
    "An audit gives a lower bound on epsilon. A low bound is no proof of privacy: the proof is in the mechanism."
)
_HEADLINES = {True: "No claim was refuted", False: "Refuted: it discloses more than was claimed"}
#: Certainties of a label whose shares of rows are shown.
_CERTAINTIES = (0.95, 0.99)
#: Factor up to which an average disclosure is that of the released label alone.
_NOTHING_MORE = 1.001
_MORE = (
    "Columns and released labels together disclose more than the labels alone: the odds of a row's true label grow by "
    "a factor of at least {} on average."
)
_NOTHING = (
    "Nothing was found of what the columns add: they disclose little, or rows are too few for this epsilon to tell. "
    "Detecting a group whose rows all have one label takes about {} rows; the largest group has {}."
)
_NO_EXPOSURE = (
    "What public columns and released labels disclose together is not bounded here: that takes two classes, each label "
    "flipped with one known probability, columns to tell rows apart, and the libraries of the extra 'learn'."
)
#: Ranges of a chart.
_MOST_DRAWN = 12


@dataclass(frozen=True)
class AuditStated:
    """The numbers of an audit, its verdict and its sentence; an infinite bound is null."""

    holds: bool
    sentence: str
    claim: float
    delta: float
    lower: float | None
    upper: float | None
    confidence: float
    draws: int
    method: str
    worst: str
    visible: float | None = None
    assumes: str = ""
    wasteful: bool = False

    @classmethod
    def of(cls, audit: Audit) -> AuditStated:
        """An audit in numbers and words."""
        return cls(audit.holds, audit.sentence(), **vars(audit), wasteful=audit.wasteful)


@dataclass(frozen=True)
class Known:
    """A lower bound on the share of rows whose label the columns alone reveal with some certainty."""

    certainty: float
    share: float


@dataclass(frozen=True)
class ExposureShown:
    """Lower bounds on the disclosure by columns and released labels.

    Attributes:
        rows: Number of rows.
        cells: Groups of rows by their columns.
        epsilon: Largest epsilon of the labels with static features.
        of_label: Mean leakage of the released label alone, in nats.
        average: Lower bound of the mean leakage of both, in nats.
        divergence_of_order_2: Lower bound of the Rényi divergence of order 2.
        beyond_epsilon: Lower bound of the share of rows that disclose the epsilon of their label or more.
        known: For some certainties, the share of rows whose label the columns alone reveal with it.
        p_plus: Share of the second class.
        classes: The two classes.
        confidence: Probability that all bounds hold at once.
        assumptions: What the bounds rest on.
        public: True if the labels were declared public.
        needed: About how many rows of one class a group needs to be told from a mixed one.
        largest: Rows of the largest group.
        one_epsilon: True if all labels have the same epsilon.
    """

    rows: int
    cells: int
    epsilon: float
    of_label: float
    average: float
    divergence_of_order_2: float
    beyond_epsilon: float
    known: tuple[Known, ...]
    p_plus: Bracket
    classes: tuple[object, ...]
    confidence: float
    assumptions: tuple[str, ...]
    public: bool
    needed: int = 0
    largest: int = 0
    one_epsilon: bool = True

    @classmethod
    def of(cls, exposure: Exposure) -> ExposureShown:
        """The statements about an exposure."""
        return cls(
            rows=exposure.rows,
            cells=len(exposure.sizes),
            epsilon=exposure.epsilon,
            of_label=exposure.of_label,
            average=exposure.average,
            divergence_of_order_2=exposure.divergence(2.0),
            beyond_epsilon=exposure.beyond(),
            known=tuple(Known(sure, exposure.known(sure)) for sure in _CERTAINTIES),
            p_plus=exposure.share,
            classes=tuple(exposure.classes),
            confidence=exposure.confidence,
            assumptions=tuple(exposure.assumptions),
            public=exposure.public,
            needed=exposure.needed,
            largest=int(exposure.sizes.max()),
            one_epsilon=len(set(exposure.flips.tolist())) == 1,
        )


@dataclass(frozen=True, kw_only=True)
class Audited:
    """The findings of an audit, as ``labeldp audit --json`` prints them.

    Attributes:
        holds: True if no claim was refuted.
        audits: The audits.
        confidence: One minus the probability that a sound mechanism fails.
        checks: The checks of a release folder.
        cannot_show: What an audit of a folder cannot show.
        attacks: The gain of each attack.
        limits: Proven limits of the expected gain.
        measures: Measures of attacks against true labels.
        profile: The privacy-loss profile.
        exposure: What columns and released labels disclose together.
        stated: The epsilon and the unit that a certificate states, in words.
        sentence: The formal statement of its guarantee.
        remarks: What the numbers of attacks mean.
        squared: True if losses of attacks are squared distances.
        limit: The limit, if any, on the disclosure by features alone.
    """

    holds: bool
    audits: tuple[AuditStated, ...]
    confidence: float
    checks: tuple[Check, ...] | None = absent()
    cannot_show: tuple[str, ...] | None = absent()
    attacks: tuple[AttackRow, ...] | None = absent()
    limits: tuple[tuple[str, float], ...] | None = absent()
    measures: tuple[AttackMeasures, ...] | None = absent()
    profile: LossProfile | None = absent()
    exposure: ExposureShown | None = absent()
    stated: str | None = absent()
    sentence: str | None = absent()
    remarks: tuple[str, ...] | None = absent()
    squared: bool | None = absent()
    limit: str | None = absent()

    @classmethod
    def of(cls, audit: Audit) -> Audited:
        """The audit of a function."""
        return cls(holds=audit.holds, audits=(AuditStated.of(audit),), confidence=audit.confidence)

    @classmethod
    def of_folder(
        cls,
        found: FolderAudit,
        attacked: AttackReport | None = None,
        profile: LossProfile | None = None,
        exposure: Exposure | None = None,
        law: FeatureLaw | None = None,
    ) -> Audited:
        """The audit of a release, and what was computed beside it.

        Args:
            found: The audit.
            attacked: Attacks on its labels.
            profile: Its privacy-loss profile.
            exposure: What its columns and labels disclose together.
            law: The law by which features left, where they were not public.
        """
        promise = None if found.certificate is None else found.certificate.guarantee
        audited = cls(
            holds=found.holds,
            audits=tuple(map(AuditStated.of, found.audits)),
            confidence=found.confidence,
            checks=tuple(found.checks),
            cannot_show=tuple(found.unknown),
            profile=profile,
            exposure=None if exposure is None else ExposureShown.of(exposure),
            stated=None if promise is None else f"{epsilon_above(promise.epsilon)} per {promise.unit}",
            sentence=None if found.certificate is None else found.certificate.sentence,
            limit=None if profile is None else profile_limit(law),
        )
        return (
            audited
            if attacked is None
            else replace(
                audited,
                attacks=tuple(attacked.rows),
                limits=tuple(attacked.limits),
                measures=tuple(attacked.measures) or None,
                remarks=tuple(attack_sentences(attacked)),
                squared=attacked.squared,
            )
        )


def audit_part(found: Audited) -> Part:
    """The audit of a function or of a release; with attacks or a profile on true labels, for the holder alone."""
    if found.checks is None:
        return _function_part(found)
    private = any(each is not None for each in (found.attacks, found.limits, found.measures, found.profile))
    sections: list[Section] = []
    if found.holds and found.audits:
        title = "What public columns and released labels disclose together"
        sections.append(Section(title, tuple(_exposure(found.exposure)), quiet=True))
    sections += attack_sections(found)
    checks = [(check.what, check.holds, check.found) for check in found.checks]
    checks += [
        (f"{what}: {audit.sentence}", audit.holds, "")
        for what, audit in zip(_subjects(len(found.audits)), found.audits, strict=True)
    ]
    rests: list[Block] = [Checks(tuple(checks))]
    if found.audits:
        rests.append(
            Prose(f"A sound release fails these checks with probability at most {1.0 - found.confidence:.1g}.")
        )
    sections.append(Section("What this rests on:", (*rests, *_bounds_chart(found))))
    sections.append(Section("An audit cannot show:", (Points.of(found.cannot_show or ()),)))
    if found.holds and found.sentence is not None:
        sections.append(Section("", tuple(Prose(line) for line in found.sentence.split("\n"))))
    if found.profile is not None:
        sections += profile_sections(found.profile, found.limit or "")
    result, tone = _result(found)
    return Part("An audit", _HEADLINES[found.holds], tone, (result,), sections=tuple(sections), private=private)


def _function_part(found: Audited) -> Part:
    """The verdict of the audit of a function, and its numbers."""
    (audit,) = found.audits
    delta = f", delta {audit.delta:g}" if audit.delta else ""
    lower = math.inf if audit.lower is None else audit.lower
    rows = [
        ("claimed", f"epsilon {exactly_above(audit.claim)}{delta}"),
        ("shown", f"epsilon of at least {exactly_below(lower)}" if lower else "nothing"),
    ]
    if audit.upper is not None:
        condition = ", assuming every possible output was observed" if audit.method == "sampled" else ""
        rows.append(("at most", f"epsilon {exactly_above(audit.upper)}{condition}"))
    if lower:
        rows.append(("by", audit.worst))
    proof = [Prose(_NO_PROOF)] if audit.holds and audit.draws else []
    tone: Tone = "bad" if not audit.holds else "heed" if audit.wasteful else "good"
    sections = (Section("", (Terms((*rows, ("how", _how(audit)))), *proof, *_bounds_chart(found))),)
    return Part("An audit", _HEADLINES[audit.holds], tone, (audit.sentence,), sections=sections)


def _how(audit: AuditStated) -> str:
    """The method, the number of draws, and the confidence."""
    draws = f"; {audit.draws:,} draws" if audit.draws else ""
    confidence = "" if audit.confidence >= 1.0 else f"; confidence {audit.confidence:g}"
    return f"{_METHODS.get(audit.method, audit.method)}{draws}{confidence}"


def _result(found: Audited) -> tuple[str, Tone]:
    """The result of the audit of a folder, in one sentence."""
    if not all(check.holds for check in found.checks or ()):
        return "Not verified: do not rely on this release.", "bad"
    if not found.holds:
        return "Refuted: its labels disclose more than its certificate states.", "bad"
    if not found.audits:
        return "Verified. The answer to a query has no mechanism for single labels to audit.", "good"
    stated = f" {found.stated}" if found.stated else ""
    return f"No fault was found at the stated epsilon{stated}.", "good"


def _subjects(count: int) -> list[str]:
    """The subject of each audit of a folder."""
    subjects = [*["the channel, from its integers"] * (count - 1), "the sampler of this version, with that channel"]
    return subjects if count else []


def _bounds_chart(found: Audited) -> Iterator[Picture]:
    """Bounds on epsilon, beside the claim."""
    drawn = [
        (f"audit {i}, {each.method}", low, None, high, f"{exactly_below(low)} to {exactly_above(high)}")
        for i, each in enumerate(found.audits[:_MOST_DRAWN], 1)
        if (low := each.lower) is not None and (high := each.upper) is not None and math.isfinite(low + high)
    ]
    if not drawn:
        return
    claim = found.audits[0].claim
    top = max(claim, *(last for _, _, _, last, _ in drawn), 1e-9)
    ends = ((0.0, "0"), (1.25 * top, f"{1.25 * top:.3g}"))
    chart = Ranges(f"Bounds on epsilon, beside the claim of {claim:.7g}", drawn, ends, claim)
    yield Picture(chart, "Bounds on epsilon. Dotted: the claim. Bounds that begin beyond it refute the claim.")


def _exposure(exposure: ExposureShown | None) -> Iterator[Block]:
    """Lower bounds on the disclosure by columns and released labels, without assumptions on the columns."""
    if exposure is None:
        yield Prose(_NO_EXPOSURE)
        return
    only = f", {epsilon_above(abs(exposure.epsilon))}," if exposure.one_epsilon else ""
    shares = {
        f"share of rows that disclose the epsilon of their label{only} or more": exposure.beyond_epsilon,
        **{
            f"share of rows whose columns alone make the label {each.certainty:.0%} sure": each.share
            for each in exposure.known
        },
    }
    nothing = _NOTHING.format(f"{exposure.needed:,}", f"{exposure.largest:,}")
    more = exposure.average > exposure.of_label * _NOTHING_MORE
    if not more and all(share_below(each) == "0.0%" for each in shares.values()):
        yield Prose(nothing)
        return
    yield Prose(_MORE.format(factor_below(exposure.average)) if more else nothing)
    rows = [
        ("factor by which the odds of a row's true label grow, on average", factor_below(exposure.average)),
        ("  of that, by the released label alone", factor_below(exposure.of_label)),
        *((name, share_below(value)) for name, value in shares.items()),
    ]
    yield Grid.of("What public columns and released labels disclose together", ("", "at least"), rows, (1,))
    basis = (
        f"These bounds hold all at once with confidence {exposure.confidence:g}, for these {exposure.rows:,} rows in "
        f"{exposure.cells} groups by their columns, found from other rows' labels. The average is the geometric "
        f"mean. They assume that {' and '.join(exposure.assumptions)}, and nothing about the columns; more "
        "may be disclosed."
    )
    yield Prose(f"{basis} {SOURCE[exposure.public]}", "heed" if exposure.public else "")
