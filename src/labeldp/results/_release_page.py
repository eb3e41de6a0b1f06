"""The page of a release: what leaves, what odds can become, what was checked, and what nobody can know."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from labeldp._checks import printable
from labeldp._strict_json import strict_json
from labeldp._version import __version__
from labeldp.bounds.planning import Conventions, Forecast, UnitSizes, effective_dimension, forecast
from labeldp.columns import number_matrix
from labeldp.errors import LabelDPError
from labeldp.privacy import Classes, Guarantee, Interval
from labeldp.release.folder import (
    CODES,
    Certificate,
    Verdict,
    added_columns,
    effective_share,
    group_column,
    number_column,
    read_batches,
    released_columns,
    renumbered,
    rows_of_unit_sizes,
    unchanged_file,
)
from labeldp.release.tables import one_of_a_kind, tells_people_apart
from labeldp.results import _charts as charts
from labeldp.results._answer import answer_blocks
from labeldp.results._blocks import (
    Block,
    CertificateText,
    Grid,
    Odds,
    Part,
    Picture,
    Points,
    Prose,
    Section,
    Signatures,
    Terms,
)
from labeldp.results._numbers import delta_above, epsilon_above, posterior, share
from labeldp.results._plan import expected_sentences
from labeldp.results._release import checks_of, cost_text, done_with, mechanism_text, resampled_share, utility_terms

#: Beliefs before, in percent, of the printed table and of the figure.
_BELIEFS = (1, 5, 10, 25, 50, 75, 90, 99)
_MARKED = (10, 50)
#: Classes that are named one by one, and in the headline; the certificate holds all.
_MOST_CLASSES, _MOST_NAMED = 20, 4
#: Sizes of units up to which they are exact, not rounded to powers of two.
_MOST_SIZES = 64
#: Names of classes that an example does not take.
_NEGATIVE = frozenset({"0", "false", "healthy", "n", "negative", "no", "none"})
#: The longest certificate that a page repeats.
_MOST_LETTERS = 1 << 20
#: Rows of public numbers from which their effective dimension is taken.
_MOST_LOOKED_AT = 1 << 16
#: Beginnings of the Arrow types of numbers.
_NUMBERS = ("int", "uint", "float", "double", "decimal")
_WHO = {
    "local": "Nobody but the holder of the table: each label was randomized alone.",
    "central": "A trusted curator, who answered from all labels together.",
    "peer": "Peers, who exchanged their labels before anything was released.",
    "shuffle": "Nobody but the holder of the table: each label was randomized alone, then shuffled in its cell.",
}
_RANDOM_SOURCE = (
    "A cryptographic random source is a supply of chance in the computer that nobody can predict, or repeat later: not "
    "even whoever drew the labels."
)
_AGAIN = (
    "To check it again: labeldp verify, with this folder. It prints the fingerprint of the certificate: if that is the "
    "one below, under Files, the folder is that of this page."
)
_ASK_FOR_EARLIER = (
    "a folder does not hold them. Ask the holder for the total, which 'labeldp ledger' prints, or for a page with the "
    "ledger on it"
)
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


def release_part(folder: Path, verdict: Verdict, at: datetime | None = None) -> Part:
    """The page of a release folder, from its verification; of one that does not verify, what failed and no more.

    Args:
        folder: The folder.
        verdict: Its verification.
        at: The time of the verification (UTC), if it is to be shown.
    """
    certificate = verdict.certificate
    if certificate is None or not verdict.holds:
        return _refused(folder, verdict)
    promise = certificate.guarantee
    values = ", ".join(_values(certificate, _MOST_NAMED))
    done, people = done_with(certificate), _people(folder, certificate)
    whose = f"{people} in {certificate.rows:,} rows" if people else f"{certificate.rows:,} rows"
    return Part(
        title=f"Release of “{printable(certificate.label)}”",
        result=f"{done}: {certificate.label} of {whose} ({values}), at {cost_text(promise)} per {promise.unit}",
        tone="good",
        lead=(_verified(verdict, at), *_example(certificate), certificate.meaning),
        facts=(
            ("epsilon", epsilon_above(promise.epsilon)),
            ("delta (probability of failure)", delta_above(promise.delta)),
            ("privacy unit", promise.unit),
            *((("units", people.split()[0]),) if people else ()),
            ("rows", f"{certificate.rows:,}"),
        ),
        sections=tuple(_sections(folder, verdict, certificate)),
    )


def _signed(verdict: Verdict) -> str:
    return "not checked" if verdict.signature_unchecked else "yes" if verdict.signed else "no"


def _verified(verdict: Verdict, at: datetime | None) -> str:
    """The verdict in one sentence, with the time and the version, without which a printed page shows neither."""
    when = f" on {at:%Y-%m-%d} at {at:%H:%M} UTC" if at else ""
    signed = {"yes": "Signed.", "no": "Not signed.", "not checked": "Signed; the signature was not checked."}
    return (
        f"Verified{when} by labeldp {__version__}: the files, the mechanism and the guarantee agree, and all "
        f"{len(verdict.checks)} checks hold. {signed[_signed(verdict)]}"
    )


def _values(certificate: Certificate, most: int) -> list[str]:
    """The first classes, and how many more there are; or the range."""
    space = certificate.space
    if isinstance(space, Interval):
        return [f"{space.low:g} to {space.high:g} in steps of {space.step:g}"]
    more = [f"and {space.size - most:,} more"] if space.size > most else []
    return [*map(str, space.points[:most]), *more]


def _people(folder: Path, certificate: Certificate) -> str:
    """The number of privacy units, as the sizes of units give it; empty if rows are units, or sizes were rounded."""
    unit = certificate.guarantee.unit
    if unit == "row" or "groups" not in released_columns(certificate) or "repeats" not in certificate.law:
        return ""
    rows = rows_of_unit_sizes(folder, certificate)
    rounded = max(rows, default=0) > _MOST_SIZES and all(size & (size - 1) == 0 for size in rows)
    if rounded or any(count % size for size, count in rows.items()):
        return ""
    units = sum(count // size for size, count in rows.items())
    other = "privacy units" if unit == "unit" else f"different {unit}"  # as Python names them, which has no column
    return f"{units:,} {'people' if tells_people_apart(unit) else other}"


def _example(certificate: Certificate) -> Iterator[str]:
    """The meaning of epsilon for one class by its name."""
    space, promise = certificate.space, certificate.guarantee
    if isinstance(space, Classes) and certificate.private and not promise.delta:
        named = next(
            (each for each in map(str, space.points) if each.casefold() not in _NEGATIVE), str(space.points[0])
        )
        whose = "a row" if promise.unit == "row" else f"a {promise.unit}"
        yield (
            f"For example: someone whom everything else makes 50 % sure that {certificate.label} of {whose} is "
            f"“{printable(named)}” can become at most {posterior(promise.posterior(0.5))} sure."
        )


def _refused(folder: Path, verdict: Verdict) -> Part:
    """The page of a folder that does not verify."""
    return Part(
        title=f"Folder “{printable(folder.resolve().name)}”",
        result="Not verified: do not rely on this release",
        tone="bad",
        lead=("Its files, its mechanism and its guarantee do not agree, so nothing that it states is repeated here.",),
        sections=(Section("What was checked", (checks_of(verdict),)),),
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
            Prose(_RANDOM_SOURCE, "aside"),
        ),
    )
    yield Section("What was checked", tuple(_checked(verdict)))
    yield Section("Files", tuple(_files(verdict, certificate)))
    yield Section("For those who learn from it", tuple(_learning(folder, certificate)), folded=True)
    yield Section("Approved", (Signatures(("Approved by", "Place, date and signature"), filled=""),))


def _unproven(verdict: Verdict, certificate: Certificate) -> list[tuple[str, str]]:
    """Declared and unchecked statements, and those that no certificate can show."""
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
    """A share in percent with one decimal, rounded up."""
    return str(math.ceil(Decimal(repr(part)) * 1000) / Decimal(10))


def _contents(folder: Path, certificate: Certificate) -> Iterator[Block]:
    """Label, mechanism, columns, and the answer if it is one."""
    space = certificate.space
    rows = [("label", certificate.label)]
    rows.append(
        (
            f"{space.size:,} classes" if isinstance(space, Classes) else "range",
            ", ".join(_values(certificate, _MOST_CLASSES)),
        )
    )
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
    who = f"Nobody here, says {certificate.declared_by}: labels came randomized." if certificate.declared_by else None
    before = "; ".join(certificate.returned) or _ASK_FOR_EARLIER
    yield Terms(
        (
            ("privacy unit", unit),
            ("trust", f"Who sees true labels? {who or _WHO[promise.trust]}"),
            ("spent", f"{cost_text(promise)} by this release. Earlier ones: {before}."),
        )
    )
    yield from (Prose(text) for text in certificate.sentence.split("\n") if text)


def _checked(verdict: Verdict) -> Iterator[Block]:
    """The checks, the state of the signature, and the certificate to check again."""
    yield checks_of(verdict)
    if verdict.signature_unchecked:
        yield Prose("It is signed, and the signature was not checked: no public key was given.", "heed")
    elif not verdict.signed:
        yield Prose("It is not signed: nothing shows who made it.", "aside")
    yield Prose(_AGAIN, "aside")
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
    """The expected loss of a model, then effective rows, noise, and what each mechanism would have kept."""
    ours, planned = certificate.draws[0].mechanism, _planned(folder, certificate)
    expected = expected_sentences(planned, ours) if planned is not None and planned.dimension else []
    yield from map(Prose, expected[:1])
    terms = utility_terms(certificate, lambda: effective_share(folder, certificate))
    if terms:
        yield Terms(tuple(terms.items()))
    if planned is not None and planned.randomizes_classes:
        yield _compared(planned, ours)
    yield from (Prose(text, "aside") for text in expected[1:])
    yield Prose("Learning from it, tuning and scoring on it cost no further privacy: labeldp learn.", "aside")


def _compared(planned: Forecast, ours: str) -> Picture:
    """The effective rows of the mechanisms that keep more or less than this one."""
    mine = next((each.most_share for each in planned.options if each.mechanism == ours), None)
    bars = [
        (
            each.mechanism,
            each.most_share or 0.0,
            f"{each.at_most:,} rows ({share(each.most_share or 0.0)})",
            each.mechanism == ours,
        )
        for each in planned.options
        if each.mechanism == ours or not math.isclose(each.most_share or 0.0, mine or -1.0)
    ]
    return Picture(
        charts.Bars(f"Effective rows of each mechanism at epsilon {epsilon_above(planned.epsilon or 0.0)}", bars),
        f"What each mechanism would have kept at this epsilon: at most as informative as so many true labels, of "
        f"{planned.rows:,}. This release is set in bold.",
    )


def _planned(folder: Path, certificate: Certificate) -> Forecast | None:
    """The forecast for these rows; none where labels were not released alone, in one draw, beside public features."""
    one = len(certificate.draws) == 1 and not certificate.of_answer and certificate.features is None
    if not one or certificate.guarantee.trust != "local":
        return None
    for dimension in (_dimension(folder, certificate), 0.0):
        with suppress(LabelDPError):  # of no rows, at an epsilon of 0, or of more dimensions than rows can fill
            return forecast(
                certificate.space,
                certificate.rows,
                certificate.guarantee.epsilon,
                conventions=Conventions(dimension),
                epsilons=(),
                units=_units(folder, certificate),
            )
    return None


def _public_numbers(certificate: Certificate) -> list[str]:
    """The public columns of numbers, but for that of the privacy unit."""
    own = {*added_columns(certificate), *released_columns(certificate).values(), group_column(certificate)}
    return [name for name, kind in certificate.columns if name not in own and kind.startswith(_NUMBERS)]


def _dimension(folder: Path, certificate: Certificate) -> float:
    """The effective dimension of public columns of numbers, from the first rows of a file; 0 if none varies."""
    names = _public_numbers(certificate)
    if not names:
        return 0.0
    with unchanged_file(folder, certificate.files[0]) as held, pq.ParquetFile(held) as file:
        batch = next(file.iter_batches(batch_size=_MOST_LOOKED_AT, columns=names), None)
    numbers = np.empty((0, 0)) if batch is None else number_matrix(batch, names)
    known = np.isfinite(numbers)
    means = np.where(known, numbers, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    centred = np.where(known, numbers - means, 0.0)  # a missing value adds to no direction
    with suppress(LabelDPError):
        return effective_dimension(centred.T @ centred / max(len(numbers), 1)).participation
    return 0.0


def _units(folder: Path, certificate: Certificate) -> UnitSizes | None:
    """The rows by the size of their unit, as the release states them; None if each row is its own."""
    if certificate.guarantee.unit == "row":
        return None
    found = rows_of_unit_sizes(folder, certificate)
    return UnitSizes(tuple(found), tuple(found.values()))


def _files(verdict: Verdict, certificate: Certificate) -> Iterator[Block]:
    """The files with their rows and hashes."""
    rows = [(file.name, f"{file.rows:,}", file.sha256) for file in certificate.files]
    rows.append(("the certificate, its fingerprint", "", verdict.fingerprint))
    yield Grid.of("Files and their SHA-256", ("file", "rows", "SHA-256"), rows, (1,), (2,))
