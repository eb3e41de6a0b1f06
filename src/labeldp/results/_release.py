"""Releases and their verification: what leaves, what odds can become, what was checked, and what nobody knows."""

from __future__ import annotations

import json
import math
import shlex
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from labeldp._checks import printable
from labeldp._strict_json import strict_json
from labeldp.bounds.planning import Conventions, Option, UnitSizes, effective_dimension, forecast, plan
from labeldp.errors import LabelDPError
from labeldp.mechanisms.queries import QUERIES, AnswerText
from labeldp.mechanisms.randomizers import NumberExpectation, number_expectation
from labeldp.privacy import Classes, Guarantee, Interval, LabelSpace, shown_above
from labeldp.privacy.accounting import Budget
from labeldp.release import Answer, Release
from labeldp.release.folder import (
    CODES,
    Certificate,
    Check,
    File,
    Verdict,
    added_columns,
    digest,
    effective_share,
    group_column,
    number_column,
    read_batches,
    released_columns,
    renumbered,
    rows_of_unit_sizes,
    stored_form,
    unchanged_file,
)
from labeldp.release.tables import one_of_a_kind
from labeldp.results import _charts as charts
from labeldp.results._answer import answer_blocks, noise_text
from labeldp.results._blocks import (
    Block,
    CertificateText,
    Checks,
    Commands,
    Grid,
    Odds,
    Part,
    Picture,
    Points,
    Prose,
    Section,
    Terms,
    Tone,
)
from labeldp.results._numbers import delta_above, epsilon_above, exactly_above, listed, share, share_above, three_digits
from labeldp.results._plan import expected_sentences
from labeldp.results._values import absent

if TYPE_CHECKING:
    from labeldp.release import TableRelease
    from labeldp.release.tables import Place

#: Effective rows for each class below which a release says that they are few. What a model needs depends on features:
#: with 15 for each class, the default for images names 98 % of handwritten digits.
_FEW_PER_CLASS = 2
#: Beliefs before, in percent, of the printed table and of the figure.
_BELIEFS = (1, 5, 10, 25, 50, 75, 90, 99)
_MARKED = (10, 50)
#: Classes that are named one by one; the certificate holds all.
_MOST_CLASSES = 20
#: The longest certificate that a page repeats.
_MOST_LETTERS = 1 << 20
#: Classes up to which other mechanisms are compared.
_MOST_COMPARED = 1 << 10
#: Rows of public numbers from which their effective dimension is taken.
_MOST_LOOKED_AT = 1 << 16
#: Beginnings of the Arrow types of numbers.
_NUMBERS = ("int", "uint", "float", "double", "decimal")
_WHO = {
    "local": "Nobody but the holder of the table: each label was randomized alone.",
    "central": "A trusted curator, who answered from all labels together.",
    "peer": "Peers, who exchanged their labels before anything was released.",
}
#: What columns beside a released label say of its draw.
_DRAWN_BY = {
    CODES: "the released label",
    "candidates": "public: the classes that it could be released as",
    "firsts": "public: the first class of each group of adjacent classes that it could be released as",
    "clusters": "public: the group of rows whose class shares its noise follows",
}
_NOT_PROMISED = (
    "That a label cannot be guessed from the published columns: anything that they already reveal, they still reveal.",
    "Anything about the published columns themselves, the order and the number of rows: they are public.",
    "Anything about other releases of the same labels: their epsilons add up.",
)
_VERIFIED = "Verified: the files, the mechanism and the guarantee agree."
_NOT_VERIFIED = "Not verified: do not rely on this release."


@dataclass(frozen=True, kw_only=True)
class Promised:
    """What a guarantee states, and all assumptions that were declared and not checked.

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
    trust: Literal["local", "central", "peer"]
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
    """What was spent of a budget."""

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
    label: str | None = absent()
    rows: int | None = absent()
    mechanism: str | None = absent()
    epsilon: float | None = absent()
    delta: float | None = absent()
    unit: str | None = absent()
    trust: Literal["local", "central", "peer"] | None = absent()
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
    model = "--output model.skops" if kept else "--images IMAGES --output model.safetensors"
    following: list[Block] = [Commands((f"labeldp verify {folder}", f"labeldp learn {folder} {model}", page))]
    if certificate.of_answer:
        following = [Commands((f"labeldp verify {folder}", page))]
    if answered := answer_text(release):
        warned: list[Block] = [Prose(answered.warning, "heed"), *following] if answered.warning else []
        following = warned or ([Prose(answered.following)] if answered.following else following)
    done, terms = release_terms(release)
    meaning = [Prose(certificate.meaning)] if certificate.meaning else []
    guarantee = Section("", (*meaning, *guarantee_prose(certificate.sentence)))
    sections = (Section("", (terms,)), guarantee, Section("", tuple(following)))
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
    cost = f"epsilon {epsilon_above(promise.epsilon)}" + (
        f", delta {delta_above(promise.delta)}," if promise.delta else ""
    )
    done = "Answered from the labels of" if has_no_rows(certificate) else "Released"
    rows_of = f"{certificate.rows:,} row{'s' * (certificate.rows != 1)}"
    return f"{done} {rows_of} at {cost} per {promise.unit}.", Terms(tuple(rows))


def _few_effective_rows(certificate: Certificate, effective: float | None) -> Iterator[str]:
    """A remark on released labels that are as informative as hardly any true ones."""
    if certificate.expects is None:
        return
    rows = int(certificate.rows * (certificate.expects.clean_share if effective is None else effective))
    classes = 2 if isinstance(certificate.space, Interval) else certificate.space.size
    if rows < _FEW_PER_CLASS * classes:
        found = f"about {rows:,} effective rows" if rows else "less than one effective row"
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
    sections = [Section("", (_checks(verdict),))]
    if certificate is not None:
        declared = tuple(Prose(f"declared, not checked: {what}") for what in certificate.assumptions)
        sections.append(Section("", (_about(certificate), *declared)))
    sections.append(Section("Verification cannot show:", (Points.of(tuple(verdict.unknown)),)))
    if verdict.signature_unchecked:
        sections.append(Section("", (Prose("Signed, not checked: pass --public-key.", "heed"),)))
    if certificate is not None:
        meaning = [Prose(certificate.meaning)] if certificate.meaning else []
        sections.append(Section("", (*meaning, *guarantee_prose(certificate.sentence))))
    result = _VERIFIED if verdict.holds else _NOT_VERIFIED
    tone: Tone = "good" if verdict.holds else "bad"
    return Part("A verification", result, tone, (result,), sections=tuple(sections), holds=verdict.holds)


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


def release_part(folder: Path, verdict: Verdict) -> Part:
    """The page of a release folder, from its verification; of one that does not verify, what failed and no more."""
    certificate = verdict.certificate
    if certificate is None or not verdict.holds:
        return _refused(folder, verdict)
    promise = certificate.guarantee
    cost = f"epsilon {epsilon_above(promise.epsilon)}" + (
        f" and delta {delta_above(promise.delta)}" if promise.delta else ""
    )
    leaves = "An answer from" if has_no_rows(certificate) else ""
    return Part(
        title=f"Release of “{printable(certificate.label)}”",
        result=f"{leaves} {certificate.rows:,} rows, at {cost} per {promise.unit}".strip(),
        tone="good",
        lead=(_VERIFIED, certificate.meaning),
        facts=(
            ("epsilon", epsilon_above(promise.epsilon)),
            ("delta", delta_above(promise.delta)),
            ("protected unit", promise.unit),
            ("rows", f"{certificate.rows:,}"),
            ("signed", "not checked" if verdict.signature_unchecked else "yes" if verdict.signed else "no"),
        ),
        sections=tuple(_sections(folder, verdict, certificate)),
    )


def _refused(folder: Path, verdict: Verdict) -> Part:
    """The page of a folder that does not verify."""
    return Part(
        title=f"Folder “{printable(folder.resolve().name)}”",
        result="Not verified: do not rely on this release",
        tone="bad",
        lead=("Its files, its mechanism and its guarantee do not agree, so nothing that it states is repeated here.",),
        sections=(Section("What was checked", (_checks(verdict),)),),
        holds=False,
    )


def _sections(folder: Path, verdict: Verdict, certificate: Certificate) -> Iterator[Section]:
    """The sections of a release that verifies."""
    whose = "the odds of one row's label" if certificate.of_several_rows else "one person's odds"
    yield Section(f"What {whose} can become", tuple(_odds(certificate.guarantee)))
    yield Section("What is released", tuple(_contents(folder, certificate)))
    yield Section("What is promised, and to whom", tuple(_promise(certificate)))
    yield Section(
        "What is not promised",
        (
            Points.of(
                (*_NOT_PROMISED, *_singled_out(folder, certificate)),
            ),
            Grid.of("What rests on somebody's word", ("statement", "who knows"), _unproven(verdict, certificate)),
        ),
    )
    yield Section("What was checked", tuple(_checked(verdict)))
    yield Section("Files", tuple(_files(verdict, certificate)))
    yield Section("For those who learn from it", tuple(_learning(folder, certificate)))


def _unproven(verdict: Verdict, certificate: Certificate) -> list[tuple[str, str]]:
    """What was declared and not checked, and what no certificate can show."""
    declared = [(f"{what}.", "declared, and not checked") for what in certificate.assumptions]
    return declared + [(f"{what}.", "no certificate can show it") for what in verdict.unknown]


def _singled_out(folder: Path, certificate: Certificate) -> Iterator[str]:
    """A sentence on the rows or people that the kept columns single out."""
    unit, every = group_column(certificate), [name for name, _ in certificate.columns]
    kept = [name for name in every if name not in {*added_columns(certificate), unit}]
    if not kept or certificate.of_answer or certificate.features is not None:
        return
    wanted = [*kept, *([unit] if unit in every else [])]
    batches = (each for file in certificate.files for each in read_batches(folder, file, wanted, _MOST_LOOKED_AT))
    found = one_of_a_kind(batches, kept, unit if unit in every else None)
    who = "rows" if found.unit == "row" else certificate.guarantee.unit
    yield (
        f"This page is about labels. The kept columns can single people out: {printable(found.sentence(who))}. "
        "They must be allowed to leave on their own."
    )


def _odds(promise: Guarantee) -> Iterator[Block]:
    """The largest and the least belief after the release, by the belief before: a figure, a slider and a table."""
    pairs = {percent: _belief(promise, percent) for percent in range(1, 100)}
    failure = f", but for a failure of probability {delta_above(promise.delta)}" if promise.delta else ""
    yield Prose(
        f"Before: how sure {promise.everything_else} makes someone of {promise.statement}. After: how sure this "
        f"release can make them, between the two limits{failure}. Features count before: what they reveal about "
        "labels, a model that is learned from this release can show."
    )
    curve = [(0.0, 0.0, 0.0), *((float(p), float(a), float(b)) for p, (a, b) in pairs.items()), (100.0,) * 3]
    marked = [(float(p), float(pairs[p][1]), f"{p} % → {pairs[p][1]} %") for p in _MARKED]
    yield Picture(
        charts.Odds(curve, marked),
        "At most, and at least, as sure afterwards, both rounded outwards. Dotted: nothing learned.",
    )
    yield Odds(promise.labels, tuple(pairs.values()))
    rows = [(f"{p} %", f"{pairs[p][0]} %", f"{pairs[p][1]} %") for p in _BELIEFS]
    yield Grid.of("Belief in a statement about it", ("sure before", "at least, after", "at most, after"), rows, (1, 2))


def _belief(promise: Guarantee, percent: int) -> tuple[str, str]:
    """The least and the largest belief in percent after a belief before, both rounded outwards.

    The least is what is left by the largest belief in the contrary.
    """
    most = _percent(promise.posterior(percent / 100))
    return str(100 - Decimal(_percent(promise.posterior((100 - percent) / 100)))), most


def _percent(part: float) -> str:
    """A share in percent, rounded up."""
    return shown_above(Decimal(repr(part)) * 100, 3)


def _contents(folder: Path, certificate: Certificate) -> Iterator[Block]:
    """Label, mechanism, columns, and the answer if it is one."""
    space = certificate.space
    rows = [("label", certificate.label)]
    if isinstance(space, Classes):
        shown = [str(point) for point in space.points[:_MOST_CLASSES]]
        more = f", and {space.size - _MOST_CLASSES:,} more" if space.size > _MOST_CLASSES else ""
        rows.append((f"{space.size:,} classes", f"{', '.join(shown)}{more}"))
    elif isinstance(space, Interval):
        rows.append(("range", f"{space.low:g} to {space.high:g} in steps of {space.step:g}"))
    rows.append(("mechanism", mechanism_text(certificate)))
    if (resampled := resampled_share(certificate)) is not None:
        rows.append(("features", f"of {share(resampled)} of rows (expected) from a generator, not from a person"))
    yield Terms(tuple(rows))
    added = dict.fromkeys(added_columns(certificate), "the answer")
    if not certificate.of_answer:
        added = {name: _drawn_by(field, certificate) for field, name in released_columns(certificate).items()}
    if renumbered(unit := certificate.guarantee.unit) in certificate.assumptions:
        added[number_column(unit)] = f"public: a made-up number of each {unit}"
    listed = [(name, kind, added.get(name, "public, as it was")) for name, kind in certificate.columns]
    yield Grid.of("Columns that are published", ("column", "type", "what it is"), listed)
    if certificate.of_answer and certificate.files:
        yield from answer_blocks(folder, certificate)


def _drawn_by(field: str, certificate: Certificate) -> str:
    """The meaning of a column that tells how the label of a row was drawn."""
    unit = certificate.guarantee.unit
    if field == "groups" and unit != "row":
        return f"public: a code for how many rows its {unit} has, by which noise differs"
    return _DRAWN_BY.get(field, "public: how the released label was drawn")


def _promise(certificate: Certificate) -> Iterator[Block]:
    """The guarantee, its unit, and who saw true labels."""
    promise, law = certificate.guarantee, certificate.law
    sizes = [int(size) for size in (*law.get("repeats", ()), law.get("labels_of_a_unit", 1))]
    unit = "one row"
    if promise.unit != "row":
        unit = f"all rows of one {promise.unit}, of which nobody has more than {max(sizes):,}"
    yield Terms((("protected", unit), ("who sees true labels", _WHO[promise.trust])))
    yield from (Prose(text) for text in certificate.sentence.split("\n") if text)


def _checks(verdict: Verdict) -> Checks:
    return Checks(tuple((check.what, check.holds, check.found) for check in verdict.checks))


def _checked(verdict: Verdict) -> Iterator[Block]:
    """The checks, the state of the signature, and the certificate to check again."""
    yield _checks(verdict)
    if verdict.signature_unchecked:
        yield Prose("It is signed, and the signature was not checked: no public key was given.", "heed")
    elif not verdict.signed:
        yield Prose("It is not signed: nothing shows who made it.", "aside")
    yield Prose("To check it again: labeldp verify, with this folder.", "aside")
    text = verdict.text
    if len(text) > _MOST_LETTERS:
        yield Prose("The certificate is too long to be repeated here; it lies beside the files.", "aside")
    else:
        yield CertificateText(shown_json(text))


def shown_json(text: str) -> str:
    """JSON whose invisible letters are escaped as JSON escapes them: the same values, without commands to a screen."""
    if all(letter == "\n" or unicodedata.category(letter) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for letter in text):
        return text
    return json.dumps(strict_json(text), indent=2, sort_keys=True, ensure_ascii=True) + "\n"


def _learning(folder: Path, certificate: Certificate) -> Iterator[Block]:
    """What a model would lose, then effective rows, noise, and what each mechanism would have kept."""
    expected = _expected(folder, certificate)
    yield from map(Prose, expected[:1])
    terms = utility_terms(certificate, lambda: effective_share(folder, certificate))
    if terms:
        yield Terms(tuple(terms.items()))
    if options := _compared(folder, certificate):
        ours, epsilon = certificate.draws[0].mechanism, epsilon_above(certificate.guarantee.epsilon)
        mine = next((each.clean_share for each in options if each.mechanism == ours), -1.0)
        bars = [
            (
                each.mechanism,
                each.clean_share,
                f"{each.effective_rows:,} rows ({share_above(each.clean_share)})",
                each.mechanism == ours,
            )
            for each in options
            if each.mechanism == ours or not math.isclose(each.clean_share, mine)
        ]
        yield Picture(
            charts.Bars(f"Effective rows of each mechanism at epsilon {epsilon}", bars),
            f"What each mechanism would have kept at this epsilon: at most as informative as so many true labels, of "
            f"{certificate.rows:,}. This release is set in bold.",
        )
    yield from (Prose(text, "aside") for text in expected[1:])
    yield Prose("Learning from it, tuning and scoring on it cost no further privacy: labeldp learn.", "aside")


def _expected(folder: Path, certificate: Certificate) -> list[str]:
    """The expected error of a model of these rows, after its assumptions; nothing where there is no plan."""
    names = _public_numbers(certificate) if _has_plan(certificate) else []
    if not names:
        return []
    try:
        found = forecast(
            certificate.space,
            certificate.rows,
            certificate.guarantee.epsilon,
            conventions=Conventions(_dimension(folder, certificate.files[0], names)),
            epsilons=(),
            units=_units(folder, certificate),
        )
    except LabelDPError:  # of no rows, at an epsilon of 0, or of columns that do not vary
        return []
    return expected_sentences(found, certificate.draws[0].mechanism)


def _public_numbers(certificate: Certificate) -> list[str]:
    """The public columns of numbers, but for that of the privacy unit."""
    own = {*added_columns(certificate), *released_columns(certificate).values(), group_column(certificate)}
    return [name for name, kind in certificate.columns if name not in own and kind.startswith(_NUMBERS)]


def _dimension(folder: Path, listed: File, names: list[str]) -> float:
    """The effective dimension of columns of numbers, from the first rows of a file.

    Raises:
        InputError: None varies.
    """
    with unchanged_file(folder, listed) as held, pq.ParquetFile(held) as file:
        batch = next(file.iter_batches(batch_size=_MOST_LOOKED_AT, columns=names), None)
    columns = [] if batch is None else [column.cast(pa.float64(), safe=False).to_numpy(False) for column in batch]
    numbers = np.array(columns).reshape(len(columns), -1)
    known = np.isfinite(numbers)
    means = np.where(known, numbers, 0.0).sum(axis=1, keepdims=True) / np.maximum(known.sum(axis=1, keepdims=True), 1)
    centred = np.where(known, numbers - means, 0.0)  # a missing value adds to no direction
    return effective_dimension(centred @ centred.T / max(numbers.shape[1], 1)).participation


def _compared(folder: Path, certificate: Certificate) -> Sequence[Option]:
    """The mechanisms that a plan for these rows compares; none where labels were not released alone in one draw."""
    space = certificate.space
    if not _has_plan(certificate) or not isinstance(space, Classes) or space.size > _MOST_COMPARED:
        return ()
    units, epsilon = _units(folder, certificate), certificate.guarantee.epsilon
    try:
        return plan(space.size, certificate.rows, epsilon, epsilons=(), units=units).options
    except LabelDPError:  # of no rows, or at an epsilon of 0, there is no plan
        return ()


def _has_plan(certificate: Certificate) -> bool:
    """True for labels that were released alone, in one draw, beside public features."""
    one = len(certificate.draws) == 1 and not certificate.of_answer and certificate.features is None
    return one and certificate.guarantee.trust == "local"


def _units(folder: Path, certificate: Certificate) -> UnitSizes | None:
    """The rows by the size of their unit, as the release states them; None if each row is its own."""
    if certificate.guarantee.unit == "row":
        return None
    found = rows_of_unit_sizes(folder, certificate)
    return UnitSizes(tuple(found), tuple(found.values()))


def _files(verdict: Verdict, certificate: Certificate) -> Iterator[Block]:
    """The files with their rows and hashes."""
    rows = [(file.name, f"{file.rows:,}", file.sha256) for file in certificate.files]
    rows.append(("the certificate", "", digest(verdict.text.encode())))
    yield Grid.of("Files and their SHA-256", ("file", "rows", "SHA-256"), rows, (1,), (2,))


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
    rows = found.rows if isinstance(found, Answer) else len(found)
    terms = [("label", certificate.label), ("rows", f"{rows:,}")]
    terms += [("shape of the value", str(found.value.shape))] if isinstance(found, Answer) else []
    terms += [] if isinstance(found, Answer) else [("classes or range", repr(found.space))]
    return Part(title, title, lead=tuple(certificate.sentence.split("\n")), facts=tuple(terms))
