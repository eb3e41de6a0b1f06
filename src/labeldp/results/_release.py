"""Releases and their verification: what leaves, what odds can become, what was checked, and what nobody knows."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from labeldp._strict_json import absent
from labeldp.mechanisms.queries import QUERIES, AnswerText
from labeldp.mechanisms.randomizers import NumberExpectation, number_expectation
from labeldp.privacy import Guarantee, Interval, LabelSpace
from labeldp.privacy.accounting import Budget
from labeldp.release.folder import Certificate, Check, Verdict, added_columns, stored_form
from labeldp.results._answer import noise_text
from labeldp.results._blocks import Block, Checks, Commands, Part, Points, Prose, Section, Terms, Tone
from labeldp.results._numbers import counted, delta_above, epsilon_above, exactly_above, listed, share, three_digits

if TYPE_CHECKING:
    from labeldp.release import Answer, Release, TableRelease
    from labeldp.release.tables import Place


#: Effective rows for each class below which a release says that they are few. What a model needs depends on features:
#: with 15 for each class, the default for images names 98 % of handwritten digits.
_FEW_PER_CLASS = 2
VERIFIED = "Verified: the files, the mechanism and the guarantee agree."
_NOT_VERIFIED = "Not verified: do not rely on this release."


@dataclass(frozen=True, kw_only=True)
class Promised:
    """The statement of a guarantee, and all assumptions that were declared and not checked.

    Attributes:
        epsilon: Its epsilon.
        delta: Its failure probability.
        unit: The privacy unit.
        trust: Who sees true labels.
        assumptions: What was declared, and not checked.
        private: True unless the labels were declared public.
        sentence: The formal statement.
    """

    epsilon: float
    delta: float
    unit: str
    trust: Literal["local", "central", "peer", "shuffle"]
    assumptions: tuple[str, ...]
    private: bool
    sentence: str


def promised(certificate: Certificate) -> dict[str, Any]:
    """The guarantee of a certificate, as fields of a document."""
    guarantee = certificate.guarantee
    return {
        **{name: getattr(guarantee, name) for name in ("epsilon", "delta", "unit", "trust")},
        "assumptions": tuple(certificate.assumptions),
        "private": certificate.private,
        "sentence": certificate.sentence,
    }


@dataclass(frozen=True)
class Spent:
    """The spent part of a budget."""

    epsilon: float
    delta: float


@dataclass(frozen=True, kw_only=True)
class Released(Promised):
    """A release of a table, as ``labeldp release --json`` prints it.

    Attributes:
        output: Its folder.
        rows: Number of rows.
        label: Name of the label column.
        mechanism: Name of the mechanism.
        quantile: The answer, if it is a quantile.
        columns: The published columns.
        spent: What was spent on the label so far.
        budget: The budget.
        ledger: The ledger.
        notes_file: The file of notes for the holder alone.
        remarks: Remarks on the release.
    """

    output: str
    rows: int
    label: str
    mechanism: str
    quantile: float | None = None
    columns: tuple[str, ...]
    spent: Spent
    budget: Budget
    ledger: str
    notes_file: str
    remarks: tuple[str, ...]

    @classmethod
    def of(cls, release: TableRelease) -> Released:
        """A release, whose folder is written."""
        certificate, answered = release.certificate, answer_text(release)
        return cls(
            **promised(certificate),
            output=str(release.output),
            rows=certificate.rows,
            label=certificate.label,
            mechanism=certificate.draws[-1].mechanism,
            quantile=answered.number if answered and answered.name == "quantile" else None,
            columns=tuple(name for name, _ in certificate.columns),
            spent=Spent(*release.spent),
            budget=release.budget,
            ledger=str(release.ledger),
            notes_file=str(release.notes_file),
            remarks=tuple(release.remarks),
        )


@dataclass(frozen=True, kw_only=True)
class Verified:
    """The findings of verification, as ``labeldp verify --json`` prints them.

    Without a certificate that can be read these are the checks alone.
    """

    holds: bool
    checks: tuple[Check, ...]
    signature_unchecked: bool
    fingerprint: str | None = absent()
    label: str | None = absent()
    rows: int | None = absent()
    mechanism: str | None = absent()
    epsilon: float | None = absent()
    delta: float | None = absent()
    unit: str | None = absent()
    trust: Literal["local", "central", "peer", "shuffle"] | None = absent()
    assumptions: tuple[str, ...] | None = absent()
    private: bool | None = absent()
    sentence: str | None = absent()
    cannot_show: tuple[str, ...] | None = absent()

    @classmethod
    def of(cls, verdict: Verdict) -> Verified:
        """The findings of a verdict."""
        certificate = verdict.certificate
        found = cls(holds=verdict.holds, checks=tuple(verdict.checks), signature_unchecked=verdict.signature_unchecked)
        if certificate is None:
            return found
        known = {
            **vars(found),
            **promised(certificate),
            "fingerprint": verdict.fingerprint,
            "label": certificate.label,
            "rows": certificate.rows,
            "mechanism": certificate.draws[-1].mechanism,
            "cannot_show": tuple(verdict.unknown),
        }
        return cls(**known)


def shown_release(release: TableRelease) -> Part:
    """The result of a release, its cost and its guarantee. Nothing in it depends on a true label."""
    folder, certificate = shlex.quote(near(release.output)), release.certificate
    page = f"labeldp report {folder} --output report.html"
    kept = len(certificate.columns) > len(added_columns(certificate))
    model = "--output model.safetensors" if kept else "--images IMAGES --output model.safetensors"
    following: list[Block] = [Commands((f"labeldp verify {folder}", f"labeldp learn {folder} {model}", page))]
    if certificate.of_answer:
        following = [Commands((f"labeldp verify {folder}", page))]
    if answered := answer_text(release):
        warned: list[Block] = [Prose(answered.warning, "heed"), *following] if answered.warning else []
        following = warned or ([Prose(answered.following)] if answered.following else following)
    done, terms = release_terms(release)
    sections = (Section("", (terms,)), guarantee_section(certificate), Section("", tuple(following)))
    return Part(f"A release of {certificate.label}", done, lead=(done,), sections=sections)


def release_terms(release: TableRelease) -> tuple[str, Terms]:
    """The result of a release in one sentence, and what it made."""
    certificate = release.certificate
    effective = None if certificate.expects is None else release.effective_share()
    rows = [("mechanism", mechanism_text(certificate)), *utility_terms(certificate, lambda: effective).items()]
    rows += [("note", few) for few in _few_effective_rows(certificate, effective)]
    if answered := answer_text(release):
        rows.append((answered.name, answered.text))
    rows += [("assumed", assumption) for assumption in certificate.guarantee.assumptions]
    if (resampled := resampled_share(certificate)) is not None:
        rows.append(("features", f"{share(resampled)} of rows get features from the generator (expected share)"))
    budget = release.budget
    delta = f" and delta {delta_above(release.spent[1])} of {budget.delta:g}" if release.spent[1] else ""
    delta = f" at delta {budget.delta:g}" if budget.concentrated else delta
    spent = f"epsilon {epsilon_above(release.spent[0])} of {epsilon_above(budget.epsilon)}{delta}"
    rows += [
        ("columns", listed([name for name, _ in certificate.columns])),
        ("output", near(release.output)),
        ("ledger", near(release.ledger)),
        ("spent", f"{spent} for this label, over all releases in the ledger"),
        *(("note", remark) for remark in (*release.remarks, *_of_one_row_each(certificate))),
        ("your notes", f"read {near(release.notes_file)} before you share: it says whether kept columns reveal labels"),
    ]
    promise = certificate.guarantee
    rows_of = f"{' of' * has_no_rows(certificate)} {certificate.rows:,} row{'s' * (certificate.rows != 1)}"
    return f"{done_with(certificate)}{rows_of} at {cost_text(promise)} per {promise.unit}.", Terms(tuple(rows))


def done_with(certificate: Certificate) -> str:
    """The beginning of a headline: what was done with the labels."""
    if certificate.declared_by:
        return "Imported"
    return "Answered from the labels" if has_no_rows(certificate) else "Released"


def _few_effective_rows(certificate: Certificate, effective: float | None) -> Iterator[str]:
    """A remark on released labels that are as informative as hardly any true ones."""
    if certificate.expects is None:
        return
    rows = int(certificate.rows * (certificate.expects.clean_share if effective is None else effective))
    classes = 2 if isinstance(certificate.space, Interval) else certificate.space.size
    if rows < _FEW_PER_CLASS * classes:
        found = f"about {counted(rows, 'effective row')}" if rows else "less than one effective row"
        yield (
            f"{found} for {classes} classes: few to learn from. 'labeldp plan' shows what more rows or a larger "
            "epsilon change"
        )


def _of_one_row_each(certificate: Certificate) -> Iterator[str]:
    """A remark that each row is taken for one person, if no column showed people with several rows."""
    if certificate.guarantee.unit == "row" and not certificate.repeats:
        yield "each row is taken for one person: no column seems to be people with several rows"


def utility_terms(certificate: Certificate, effective_share: Callable[[], float | None]) -> dict[str, str]:
    """Information that released labels retain about true ones, where a channel states it."""
    expects, rows = certificate.expects, certificate.rows
    if expects is None:
        noise = noise_text(certificate.draws[-1], certificate) if certificate.of_answer else ""
        return {"noise": noise} if noise else {}
    if isinstance(certificate.space, Interval) and not certificate.law["by_row"]:
        expects = number_expectation(certificate.channel)  # of classes, too, as a plan states it
    if isinstance(expects, NumberExpectation):
        return _number_utility(certificate, expects)
    labels = "; released labels alone" if certificate.answers else ""
    most, effective = f"at most {_effective(rows, expects.clean_share)}", effective_share()
    about = "" if effective is None else f"about {_effective(rows, effective)} at the released class shares; "
    return {
        "truth kept": f"{share(expects.truth_probability)} of rows are expected to contain the true class",
        "effective rows": f"{about}{most}: as informative as this many true labels{labels}",
        **_noise_of_answers(certificate),
    }


def _number_utility(certificate: Certificate, expects: NumberExpectation) -> dict[str, str]:
    """Information that released numbers retain about true ones."""
    space, rows = certificate.space, certificate.rows
    if not isinstance(space, Interval):
        return {}
    noise = three_digits(space.step * math.sqrt(expects.squared_error))
    counted = "; less where most labels were counted" if certificate.answers else ""
    return {
        "range": f"{space.low:g} to {space.high:g} in steps of {space.step:g}; labels beyond it were clipped to it",
        "noise": f"RMS error {noise} per released number, averaged over the range{counted}",
        "effective rows": f"at most {_effective(rows, expects.clean_share)}, if labels spread over the range",
    }


def _effective(rows: int, part: float) -> str:
    """The effective sample size of released labels."""
    return f"{three_digits(int(rows * part))} of {rows:,} ({share(part)})"


def _noise_of_answers(certificate: Certificate) -> dict[str, str]:
    """The size of the noise of the answers that the channel was computed from."""
    known = {draw.mechanism: noise_text(draw, certificate) for draw in certificate.answers}
    return {name: f"released too; {noise}" for name, noise in known.items() if noise}


def verdict_part(verdict: Verdict) -> Part:
    """The result of verification, each check, the limits of verification, and the guarantee."""
    certificate = verdict.certificate if verdict.holds else None
    sections = [Section("", (checks_of(verdict),))]
    if certificate is not None:
        declared = tuple(Prose(f"declared, not checked: {what}") for what in certificate.assumptions)
        about = Terms(
            (*_about(certificate).rows, ("fingerprint", f"{verdict.fingerprint} (SHA-256 of the certificate)"))
        )
        sections.append(Section("", (about, *declared)))
    sections.append(Section("Verification cannot show:", (Points.of(tuple(verdict.unknown)),)))
    if verdict.signature_unchecked:
        sections.append(Section("", (Prose("Signed, not checked: pass --public-key.", "heed"),)))
    if certificate is not None:
        sections.append(guarantee_section(certificate))
    result = VERIFIED if verdict.holds else _NOT_VERIFIED
    tone: Tone = "good" if verdict.holds else "bad"
    return Part("A verification", result, tone, (result,), sections=tuple(sections), holds=verdict.holds)


def guarantee_section(certificate: Certificate) -> Section:
    """The meaning of the guarantee for a person, and its formal statement."""
    meaning = [Prose(certificate.meaning)] if certificate.meaning else []
    return Section("", (*meaning, *guarantee_prose(certificate.sentence)))


def cost_text(promise: Guarantee) -> str:
    """The epsilon of a guarantee, and its delta if it has one."""
    delta = f" and delta {delta_above(promise.delta)}" if promise.delta else ""
    return f"epsilon {epsilon_above(promise.epsilon)}{delta}"


def guarantee_prose(sentence: str) -> tuple[Prose, ...]:
    """The formal statement of a guarantee, whose line breaks are ours: it escapes those of names that it quotes."""
    return tuple(Prose(line) for line in sentence.split("\n") if line)


def _about(certificate: Certificate) -> Terms:
    """Mechanism, label, rows and columns of a release, and what its generator cost."""
    rows = [
        ("mechanism", mechanism_text(certificate)),
        ("label", f"{certificate.label} ({_size(certificate.space)})"),
        ("rows", f"{certificate.rows:,}"),
        ("columns", listed([name for name, _ in certificate.columns])),
    ]
    if certificate.of_answer and (noise := noise_text(certificate.draws[-1], certificate)):
        rows.append(("noise", noise))
    if (split := certificate.paid_split) is not None:
        cost = epsilon_above(split.guarantee.epsilon)
        rows.append(("generator", f"fitted on {split.rows:,} rows of {split.label!r}, released at epsilon {cost}"))
    return Terms(tuple(rows))


def _size(space: LabelSpace) -> str:
    return f"{space.size:,} {'grid points' if isinstance(space, Interval) else 'classes'}"


def near(path: Place) -> str:
    """A path as it is typed from here, if it is in this folder; else all of it, as of an address."""
    here = Path.cwd()
    return str(path.relative_to(here) if isinstance(path, Path) and path.is_relative_to(here) else path)


def has_no_rows(certificate: Certificate) -> bool:
    """True for an answer about all labels, without a row for any."""
    return certificate.of_answer and not stored_form(certificate.law, certificate.space).by_row


def answer_text(release: TableRelease) -> AnswerText | None:
    """The answer of a release without rows in words; None of others."""
    certificate = release.certificate
    if not has_no_rows(certificate):
        return None
    from labeldp.release import Answer  # noqa: PLC0415 (it loads slowly)

    law = certificate.law
    return QUERIES.of_law(law).in_words(
        lambda: Answer.load(release.output).value, law, certificate.space, certificate.rows
    )


def resampled_share(certificate: Certificate) -> float | None:
    """The expected share of rows whose features come from a generator; None without one."""
    law = certificate.features
    return None if law is None or law.generator is None else float(law.chance)


def mechanism_text(certificate: Certificate) -> str:
    """The name of the last mechanism, and its released label."""
    name = certificate.draws[-1].mechanism
    return name if certificate.of_answer else f"{name}: {certificate.channel.detail}"


def checks_of(verdict: Verdict) -> Checks:
    """The checks of a verification, with what was found where one failed."""
    return Checks(tuple((check.what, check.holds, check.found) for check in verdict.checks))


def guarantee_part(promise: Guarantee) -> Part:
    """A guarantee in numbers and sentences."""
    terms = (
        ("epsilon", exactly_above(promise.epsilon)),
        ("delta", delta_above(promise.delta)),
        ("per", promise.unit),
        ("trust", promise.trust),
    )
    lead = (*promise.sentence().split("\n"), promise.posterior_sentence())
    return Part("Guarantee", "Guarantee", lead=lead, facts=terms)


def memory_part(found: Release | Answer) -> Part:
    """A release or an answer in memory."""
    title, certificate = repr(found).strip("<>"), found.certificate
    if certificate is None:
        return Part(title, title)
    terms = (("label", certificate.label), ("rows", f"{certificate.rows:,}"))
    shape = f"{found.value.shape}" if certificate.of_answer else repr(found.space)  # type: ignore[union-attr]
    last = ("shape of the value" if certificate.of_answer else "classes or range", shape)
    return Part(title, title, lead=tuple(certificate.sentence.split("\n")), facts=(*terms, last))
