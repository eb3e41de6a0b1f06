"""Verification of releases by recomputation, without the true labels."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.errors import VerificationError
from labeldp.mechanisms.queries import QUERIES, StoredForm, promise_of
from labeldp.mechanisms.randomizers import Expectation, NumberExpectation, expectation
from labeldp.mechanisms.resampling import DoubleResponse, DummyResponse, FeatureLaw, Form, form_from
from labeldp.privacy import Guarantee, Interval, bounded_work, shown_above
from labeldp.privacy.channels import (
    Channel,
    GroupedChannel,
    GroupedNumberChannel,
    NumberChannel,
    candidate_sizes,
    channel_of,
    law_of,
)
from labeldp.release.folder._answer_columns import CLUSTERS, answer_from, stored_form
from labeldp.release.folder._certificate import IN_STAGES, UNKNOWN, UNREADABLE, WHO_MADE_IT, Certificate, Draw, File
from labeldp.release.folder._columns import CODES, column_name, column_types, from_columns
from labeldp.release.folder._limits import (
    MOST_ANSWERED,
    MOST_RELEASED,
    MOST_TERMS,
    check_files,
    check_sizes,
    opened,
    plain,
    text_of,
    texts_in,
)
from labeldp.release.folder._signature import check_signature
from labeldp.release.folder._staging import CERTIFICATE, SIGNATURE, is_signed, part_of
from labeldp.release.folder._write import file_digest
from labeldp.release.tables import prefetch

_ROWS_PER_BATCH = 1 << 16
_ENTRIES_PER_BATCH = 1 << 24
#: Bytes of a column to read from disk at a time, whatever the size of its pieces in the file.
BUFFER = 1 << 18
#: Relative tolerance for the mean of many shares.
_ROUNDING = 1e-9
_HASH = re.compile("[0-9a-f]{64}")
_OF_ROWS = (DoubleResponse.name, DummyResponse.name)
#: Entries of a set that take as long as a value.
_ENTRIES_OF_A_VALUE = 16
#: The longest finding in letters: messages quote names of any length.
_LONGEST = 1000
#: Names that are listed in a message.
_SHOWN = 20
_IS_SIGNED = "the certificate is signed with the private key of the given public key"
_ALLOWED_METADATA = {b"ARROW:schema"}


@dataclass(frozen=True)
class Check:
    """One check: its subject, its outcome, and its finding."""

    what: str
    holds: bool
    found: str


@dataclass(frozen=True)
class Verdict:
    """The outcome of a verification.

    Attributes:
        certificate: The certificate, if it could be read.
        checks: The checks in order, up to the first that fails.
        unknown: Facts that cannot be known from a release.
        signed: True if the folder holds a signature; it was checked only with a public key.
    """

    certificate: Certificate | None
    checks: tuple[Check, ...]
    unknown: tuple[str, ...] = UNKNOWN
    signed: bool = False

    @property
    def holds(self) -> bool:
        """True if every check holds."""
        return self.certificate is not None and all(check.holds for check in self.checks)

    @property
    def signature_unchecked(self) -> bool:
        """True if there is a signature, and no public key to check it with."""
        return self.signed and WHO_MADE_IT in self.unknown


def verify(directory: str | Path, *, public_key: str | Path | None = None, long: bool = False) -> Verdict:
    """Recompute the guarantee of a release from its law, and check its files.

    Whatever the folder holds, there is a verdict, in about ten seconds and a gigabyte beyond what is proportional to
    its bytes. What would take more does not hold.

    Args:
        directory: The folder of a release.
        public_key: The file of a public key, with whose private key the release must be signed.
        long: Allow recomputations that take longer, such as those of peers in many large clusters.

    Returns:
        The verdict. It proves that files, law and guarantee agree; it cannot show that the draw was honest.

    Raises:
        InputError: The file holds no public key.
    """
    folder = Path(directory)
    with _limited(long):
        verdict = _verdict(folder)
    signed = is_signed(folder)
    if public_key is None:
        return dataclasses.replace(verdict, signed=signed)
    try:
        check = Check(_IS_SIGNED, True, check_signature(folder, public_key))
    except VerificationError as problem:
        check = Check(_IS_SIGNED, False, str(problem))
    unknown = tuple(what for what in verdict.unknown if what != WHO_MADE_IT)
    return Verdict(verdict.certificate, (*verdict.checks, check), unknown, signed)


def _limited(long: bool) -> AbstractContextManager[None]:
    """The limit on recomputations, unless they may take long."""
    return nullcontext() if long else bounded_work(MOST_TERMS)


def _verdict(folder: Path) -> Verdict:
    """The verdict on a folder, whatever it holds."""
    try:
        certificate = read_certificate(folder)
    except VerificationError as problem:
        return Verdict(
            None, (Check("the certificate can be read and its guarantee follows", False, str(problem)[:_LONGEST]),)
        )
    checks = [Check("the certificate can be read and its guarantee follows from its charges", True, "it does")]
    for what, check in _CHECKS.items():
        try:
            checks.append(Check(what, True, check(folder, certificate)))
        except VerificationError as problem:
            checks.append(Check(what, False, str(problem)[:_LONGEST]))
            break
        except (*UNREADABLE, pa.ArrowException, OSError) as problem:
            checks.append(Check(what, False, f"expected a readable file, found {type(problem).__name__}"))
            break
    return Verdict(certificate, tuple(checks), certificate.unknown)


def read_certificate(folder: Path) -> Certificate:
    """The certificate in a folder."""
    try:
        return Certificate.from_json(text_of(part_of(folder, CERTIFICATE)))
    except (OSError, UnicodeError):
        raise VerificationError(
            f"expected a release with a {CERTIFICATE} in {folder}, found none; check the path, or make one with "
            "answer.save or labeldp release"
        ) from None


def verified(folder: Path) -> tuple[Certificate, np.ndarray, Channel]:
    """Verify a folder, and return its certificate, released labels and channel.

    Raises:
        VerificationError: They do not agree, or the folder holds an answer.
    """
    certificate = certified_labels(folder)
    parts = [part for _, part in batch_fields(folder, certificate)]
    fields = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return certificate, fields.pop(CODES), channel_of(certificate.law, fields)


def certified_labels(folder: Path) -> Certificate:
    """Verify a folder of released labels, and return its certificate.

    Raises:
        VerificationError: They do not agree, or the folder holds an answer.
    """
    certificate = certified(folder)
    if certificate.of_answer:
        raise VerificationError(f"expected released labels in {folder}, found an answer; open it with Answer.load")
    return certificate


def certified(folder: Path, *, long: bool = True) -> Certificate:
    """Verify a folder, and return its certificate; by default however long that takes.

    Raises:
        VerificationError: They do not agree.
    """
    verdict = verify(folder, long=long)
    if not verdict.holds or verdict.certificate is None:
        failed = next(check for check in verdict.checks if not check.holds)
        if verdict.certificate is None:
            raise VerificationError(failed.found)
        raise VerificationError(f"expected a release that agrees with its certificate: {failed.what}: {failed.found}")
    return verdict.certificate


def read_alone(file: Path, *, long: bool = False) -> Certificate:
    """Read a certificate without its folder, and check its randomness, law and guarantee.

    Raises:
        VerificationError: It cannot be read, or they do not agree.
    """
    try:
        certificate = Certificate.from_json(text_of(file))
    except (OSError, UnicodeError):
        raise VerificationError(f"expected a certificate at {file}, found none") from None
    try:
        with _limited(long):
            _check_randomness(file, certificate)
            _check_laws(file, certificate)
    except UNREADABLE as problem:
        if isinstance(problem, VerificationError):
            raise
        raise VerificationError(f"expected a law that can be read, found {type(problem).__name__}") from None
    return certificate


def law_of_rows(folder: Path, certificate: Certificate) -> Channel:
    """The channel of a verified folder, with one row for each number of candidates."""
    law = certificate.law
    if candidate_sizes(channel_of(law)) is None:
        return channel_of(law)
    by_count: dict[int, np.ndarray] = {}
    for _, part in batch_fields(folder, certificate):
        packed = part["candidates"]
        numbers, rows = np.unique(np.bitwise_count(packed).sum(axis=1, dtype=np.int64), return_index=True)
        by_count |= {int(m): packed[row] for m, row in zip(numbers, rows, strict=True)}
    return channel_of(law, {"candidates": np.array(list(by_count.values()))} if by_count else None)


def _check_randomness(_: Path, certificate: Certificate) -> str:
    if not certificate.private:
        raise VerificationError(
            "expected a cryptographic random source, found a test source: this release is NOT PRIVATE"
        )
    return "a private release"


def _check_laws(_: Path, certificate: Certificate) -> str:
    """Recompute the epsilon of each charge from the integers of its law."""
    *before, last = certificate.draws
    if certificate.of_answer and (before or certificate.parent is not None or not certificate.rows):
        raise VerificationError("expected a complete answer about some rows, with one charge, found another")
    if certificate.rows and not all(draw.rows.ranges for draw in certificate.draws):
        raise VerificationError("expected every charge to be for some rows, found one for none")
    if not set(certificate.guarantee.assumptions) <= set(certificate.assumptions):
        raise VerificationError("expected the assumptions of the guarantee among the declared ones, found some missing")
    answers, labels = certificate.answers, certificate.labels
    if certificate.draws != (*answers, *labels):
        raise VerificationError("expected the charges of answers before those of labels, found another order")
    for draw in answers:
        _check_answer_law(draw, last.guarantee.unit, certificate)
    for draw in labels:
        _check_label_law(draw, certificate)
    if len(labels) > 1:
        _check_stages(labels, certificate)
    _check_features(certificate)
    if certificate.parent is not None and not _HASH.fullmatch(str(certificate.parent)):
        raise VerificationError("expected a SHA-256 of the release that this is part of, found something else")
    if certificate.parent is None and len(labels) <= 1 and not last.rows.may_be(certificate.rows):
        raise VerificationError(f"expected a charge for {certificate.rows} rows, found other rows")
    return f"epsilon {shown_above(certificate.guarantee.epsilon, 7)}, rounded up"


def _check_features(certificate: Certificate) -> None:
    """Check that a law of features goes with the mechanism, the labels and the columns."""
    law, draws = certificate.features, [draw for draw in certificate.draws if draw.mechanism in _OF_ROWS]
    if law is None:
        if draws:
            raise VerificationError(f"expected the law of features of {draws[0].mechanism!r}, found none")
        return
    (last,) = certificate.draws
    expected = DummyResponse.name if law.generator is None else DoubleResponse.name
    if (last.mechanism, last.guarantee.unit, law.classes) != (expected, "row", certificate.space.size):
        raise VerificationError(
            "expected a law of features for this mechanism, unit and number of classes, found another"
        )
    if FeatureLaw.from_plain(law.plain()) != law or not set(law.assumptions) <= set(certificate.assumptions):
        raise VerificationError(
            "expected the assumptions on conditional features among the declared ones, found some missing"
        )
    if law.generator is not None and (text := law.generator["source"].get("certificate")) is not None:
        _check_paid_split(text)
    if certificate.columns and _feature_types(law) != _public_types(certificate):
        raise VerificationError("expected the columns of the generator's form beside the label, found others")


def _check_paid_split(text: str) -> None:
    """Check the certificate of the release that a generator was fitted on."""
    certificate = Certificate.from_json(text)
    _check_randomness(Path(), certificate)
    _check_laws(Path(), certificate)
    if certificate.of_answer:
        raise VerificationError("expected released labels behind a generator, found an answer")


def _feature_types(law: FeatureLaw) -> list[tuple[str, str]]:
    """Names and types of the feature columns."""
    if law.generator is None:
        return []
    schema = form_from(law.generator["form"]).schema
    return [(field.name, str(field.type).replace("<item:", "<element:")) for field in schema]  # the name in Parquet


def _public_types(certificate: Certificate) -> list[tuple[str, str]]:
    """Names and types of the columns beside released labels."""
    added = added_columns(certificate)
    return [(name, kind.replace("<item:", "<element:")) for name, kind in certificate.columns if name not in added]


def _check_stages(labels: Sequence[Draw], certificate: Certificate) -> None:
    """Check that stages have one law and that their rows are all rows, each once."""
    if any((draw.law, draw.guarantee) != (labels[0].law, labels[0].guarantee) for draw in labels):
        raise VerificationError("expected one law in all stages, found several")
    ranges = sorted(pair for draw in labels for pair in draw.rows.ranges)
    starts, stops = [start for start, _ in ranges], [stop for _, stop in ranges]
    if starts != [0, *stops[:-1]] or (certificate.parent is None and stops[-1] != certificate.rows):
        raise VerificationError(f"expected stages of all {certificate.rows} rows, each once, found others")
    if IN_STAGES not in certificate.assumptions:
        raise VerificationError("expected the declaration that stages do not depend on labels, found none")


def _check_answer_law(draw: Draw, unit: str, certificate: Certificate) -> None:
    """Recompute the guarantee of an answer from the integers of its law; it may declare more assumptions."""
    found, expected = draw.guarantee, promise_of(draw.law, certificate.space)
    # without a rho it claims less: certificates of histograms once had none
    if _parameters(found) not in (_parameters(expected), _parameters(dataclasses.replace(expected, rho=None))):
        raise VerificationError(
            f"expected {_parameters(expected)} as (epsilon, delta, rho), found {_parameters(found)}"
        )
    if (found.unit, found.trust) != (unit, expected.trust) or not set(expected.assumptions) <= set(found.assumptions):
        raise VerificationError("expected an answer with the trust, unit and assumptions of its query, found others")
    whole = certificate.guarantee
    if expected.trust != whole.trust or not set(expected.assumptions) <= set(whole.assumptions):
        raise VerificationError(
            "expected the trust and the assumptions of an answer in the whole guarantee, found others"
        )
    if draw.mechanism != draw.law["kind"]:
        raise VerificationError(f"expected the mechanism {draw.law['kind']!r}, found another name")
    if unit != "row" and "labels_of_a_unit" not in draw.law:
        raise VerificationError(f"expected a law for the unit {found.unit!r}, found one for single rows")


def _check_label_law(draw: Draw, certificate: Certificate) -> None:
    """Recompute the guarantee and the expected utility of released labels from their channel."""
    if draw.law.get("classes") != str(certificate.space.size):
        raise VerificationError(f"expected a law of {certificate.space.size} classes, found another number")
    channel = channel_of(draw.law)
    if _parameters(draw.guarantee) != (channel.epsilon, 0.0, None):
        raise VerificationError(f"expected epsilon {channel.epsilon!r}, found {draw.guarantee.epsilon!r}")
    if law_of(channel) != dict(draw.law):
        raise VerificationError("expected the integers of a law in canonical form, found another form")
    if isinstance(channel, NumberChannel) != isinstance(certificate.expects, NumberExpectation):
        raise VerificationError("expected the utility of a law of this kind, found that of another kind")
    if isinstance(channel, NumberChannel) and not isinstance(certificate.space, Interval):
        raise VerificationError("expected a law of numbers for labels on an interval, found other labels")
    if (draw.guarantee.unit != "row") != isinstance(channel, GroupedChannel | GroupedNumberChannel):
        raise VerificationError(f"expected a law for the unit {draw.guarantee.unit!r}, found another")
    if certificate.expects is None:
        raise VerificationError("expected the utility of the released labels, found none")
    shares = dataclasses.asdict(certificate.expects)
    error = shares.pop("squared_error", 0.0)
    if not (0.0 <= error < math.inf and all(0.0 <= share <= 1.0 + _ROUNDING for share in shares.values())):
        raise VerificationError("expected shares of rows as the utility of the released labels, found other numbers")
    expected = certificate.expects if draw.law["by_row"] else expectation(channel, np.ones(()))
    if not _nearly_equal(expected, certificate.expects):
        raise VerificationError("expected the utility that follows from the law, found other figures")


def _parameters(guarantee: Guarantee) -> tuple[float, float, float | None]:
    return guarantee.epsilon, guarantee.delta, guarantee.rho


def _nearly_equal(one: Expectation | NumberExpectation, other: Expectation | NumberExpectation) -> bool:
    """True if two expectations are equal up to the rounding of a mean."""
    pairs = zip(dataclasses.astuple(one), dataclasses.astuple(other), strict=True)
    return type(one) is type(other) and all(math.isclose(a, b, rel_tol=_ROUNDING) for a, b in pairs)


def _check_files(folder: Path, certificate: Certificate) -> str:
    """Check that the folder has the listed files and nothing else, byte for byte."""
    listed = {file.name for file in certificate.files} | {part_of(folder, CERTIFICATE).name}
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*")} - {part_of(folder, SIGNATURE).name}
    if listed != found:
        raise VerificationError(f"expected the files {_some(listed)}, found {_some(found)}")
    check_files(folder / file.name for file in certificate.files)
    for file in certificate.files:
        if file_digest(folder / file.name) != file.sha256:
            raise VerificationError(f"expected {file.name} as it was released, found different bytes")
    return f"{len(certificate.files)} file(s), unchanged"


def _some(names: set[str]) -> list[str]:
    """A few names for a message."""
    return sorted(names)[:_SHOWN] + ["..."] * (len(names) > _SHOWN)


def _check_schemas(folder: Path, certificate: Certificate) -> str:
    """Check that every file has the listed columns and rows, and no other metadata."""
    for file in certificate.files:
        with pq.ParquetFile(folder / file.name) as parquet:
            schema = parquet.schema_arrow
            listed = tuple((field.name, str(field.type)) for field in schema)
            fields = [field.name for field in schema if _has_metadata(field)]
            extra = set(parquet.metadata.metadata or {}) - _ALLOWED_METADATA
            if listed != certificate.columns:
                raise VerificationError(
                    f"expected the listed columns in {file.name}, found {[name for name, _ in listed]}"
                )
            if extra or schema.metadata or fields:
                raise VerificationError(
                    f"expected no metadata in {file.name}, found {sorted(map(str, extra or fields))}"
                )
            if parquet.metadata.num_rows != file.rows:
                raise VerificationError(f"expected {file.rows} rows in {file.name}, found {parquet.metadata.num_rows}")
    _check_sizes(folder, certificate)
    rows, columns = sum(file.rows for file in certificate.files), dict(certificate.columns)
    form = stored_form(certificate.law, certificate.space) if certificate.of_answer else None
    if rows != certificate.rows and (form is None or form.by_row):
        raise VerificationError(f"expected files with {certificate.rows} rows in all, found {rows}")
    if certificate.label in columns:
        raise VerificationError(f"expected no column {certificate.label!r}, the true label, found one")
    if form is not None:
        _check_answer_columns(form, certificate)
        return f"{len(columns)} columns, {rows} lines"
    for name, kind in column_types(certificate.label, certificate.space, channel_of(certificate.law)).items():
        if columns.get(name) != str(kind):
            raise VerificationError(f"expected a column {name!r} of type {kind}")
    return f"{len(columns)} columns, {rows} rows"


def _check_sizes(folder: Path, certificate: Certificate) -> None:
    """Refuse files whose values would take long to check."""
    files, label = [file.name for file in certificate.files], certificate.label
    if certificate.of_answer:
        form = stored_form(certificate.law, certificate.space)
        check_sizes(folder, files, {*form.names(label), column_name(label, CLUSTERS)}, 0, MOST_ANSWERED)
        return
    columns = set(released_columns(certificate).values())
    sets = channel_of(certificate.law).form == "set" or "candidates" in certificate.law["by_row"]
    generator = None if certificate.features is None else certificate.features.generator
    if generator is not None:
        columns |= {*form_from(generator["form"]).names}
    check_sizes(folder, files, columns, certificate.space.size // _ENTRIES_OF_A_VALUE * sets, MOST_RELEASED)


def _check_answer_columns(form: StoredForm, certificate: Certificate) -> None:
    """Check that an answer has its columns, and public ones only if it has a line for each row."""
    found, expected = [name for name, _ in certificate.columns], form.names(certificate.label)
    if not set(expected) <= set(found) or (found != expected and not form.by_row):
        raise VerificationError(f"expected the columns {expected} of an answer, found {found}")
    public = [name for name in found if name not in expected]
    if clash := form.clashes(certificate.label, public):
        raise VerificationError(f"expected no public column with the name of an entry, found {min(clash)!r}")


def released_columns(certificate: Certificate) -> dict[str, str]:
    """The columns of released labels and of the row arrays of their channel, by field."""
    return {name: column_name(certificate.label, name) for name in (CODES, *certificate.law["by_row"])}


def added_columns(certificate: Certificate) -> list[str]:
    """The columns that a release adds to the table: released labels or an answer, and row arrays."""
    label, space = certificate.label, certificate.space
    if certificate.of_answer:
        return [*stored_form(certificate.law, space).names(label), column_name(label, CLUSTERS)]
    return list(column_types(label, space, channel_of(certificate.law)))


def _has_metadata(field: pa.Field) -> bool:
    """True if a field has metadata beyond its name and type, at any depth."""
    kind = field.type
    inner = [kind.field(i) for i in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    allowed = {b"PARQUET:field_id"}
    return bool(set(field.metadata or {}) - allowed) or any(_has_metadata(part) for part in inner)


def _check_values(folder: Path, certificate: Certificate) -> str:
    """Check that every released value is possible under the law."""
    if certificate.of_answer:
        value, query = answer_in(folder, certificate), QUERIES.of_law(certificate.law)
        query.check_plausible(value, certificate.law, certificate.rows)
        return "all of the form of such an answer"
    law, rows_of_groups = certificate.law, np.zeros(len(certificate.law.get("repeats", ())), dtype=np.int64)
    for file, part in batch_fields(folder, certificate):
        codes = part.pop(CODES)
        channel = channel_of(law, part)
        if "groups" in part and len(rows_of_groups):
            rows_of_groups += np.bincount(part["groups"], minlength=len(rows_of_groups))
        if not channel.possible(codes).all():
            row = int(np.argmin(channel.possible(codes)))
            raise VerificationError(
                f"expected only possible outputs in {file.name}, found another in row {row} of a batch"
            )
    if certificate.parent is None and len(certificate.labels) == 1:
        _check_groups(rows_of_groups.tolist(), [int(size) for size in law.get("repeats", ())])
    if certificate.features is not None and certificate.features.generator is not None:
        _check_form(folder, certificate, form_from(certificate.features.generator["form"]))
    return "all of them possible"


def _check_groups(rows: Sequence[int], sizes: Sequence[int]) -> None:
    """Check that the rows of each group are those of whole units.

    With more than 64 different sizes of units, each is rounded up to a power of two: a group of m rows then holds units
    of more than m / 2 rows.
    """
    rounded = all(size & (size - 1) == 0 for size in sizes)
    for count, size in zip(rows, sizes, strict=True):
        least = size // 2 + 1 if rounded else size
        if not -(-count // size) * least <= count:
            raise VerificationError(f"expected the rows of units of {size} rows in a group, found {count} rows in it")


def _check_form(folder: Path, certificate: Certificate, form: Form) -> None:
    """Check that all released features are in the form that true and drawn features share."""
    for file in certificate.files:
        for batch in read_batches(folder / file.name, form.names, _ROWS_PER_BATCH):
            if form.shaped(pa.Table.from_batches([batch]))[1].any():
                raise VerificationError(f"expected only rows of the generator's form in {file.name}, found others")


@contextmanager
def unchanged_file(folder: Path, file: File) -> Iterator[BufferedReader]:
    """A released file that stays open, whatever takes the place of its name meanwhile.

    Raises:
        VerificationError: Its bytes are others than the certificate says, when it is opened or when it is closed.
    """

    def check() -> None:
        held.seek(0)
        if hashlib.file_digest(held, "sha256").hexdigest() != file.sha256:
            raise VerificationError(f"expected {file.name} as it was released, found different bytes")

    with opened(folder / file.name) as held:
        check()
        yield held
        check()


def read_batches(path: Path, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Columns of a released file in batches; at least one, which may be empty.

    Raises:
        VerificationError: Texts of a batch are too long together.
    """
    with pq.ParquetFile(path) as file:
        texts, some = texts_in(file, columns), file.metadata.num_rows
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER, read_dictionary=texts) as file:
        for batch in file.iter_batches(batch_size=rows, columns=list(columns)):
            yield pa.record_batch([plain(batch[name]) for name in columns], names=list(columns))
        if not some:
            yield pa.record_batch([pa.array([], file.schema_arrow.field(name).type) for name in columns], list(columns))


def answer_in(folder: Path, certificate: Certificate) -> np.ndarray:
    """Read the answer in a folder.

    Raises:
        VerificationError: It is not in the form of its query, or has other lines, steps or clusters than its law.
    """
    law, label, columns = certificate.law, certificate.label, [name for name, _ in certificate.columns]
    names, clusters = stored_form(law, certificate.space).names(label), column_name(label, CLUSTERS)
    counted = [clusters] if "cluster_sizes" in law and clusters in columns else []
    batches = [
        batch
        for file in certificate.files
        for batch in read_batches(folder / file.name, [*names, *counted], _ROWS_PER_BATCH)
    ]
    table = pa.Table.from_batches(batches)
    if counted:
        sizes = np.unique(np.unique(table[clusters].to_numpy(), return_counts=True)[1])
        if sizes.tolist() != [int(size) for size in law["cluster_sizes"]]:
            raise VerificationError("expected clusters of the sizes that were charged, found others")
    return answer_from([table[name].combine_chunks() for name in names], law, certificate.space)


_CHECKS: dict[str, Callable[[Path, Certificate], str]] = {
    "the certificate states that a cryptographic random source was used": _check_randomness,
    "each epsilon follows from the integers of its mechanism": _check_laws,
    "the folder holds the listed files, unchanged, and nothing else": _check_files,
    "the files have the listed columns and no other content": _check_schemas,
    "every released value is a possible outcome of its mechanism": _check_values,
}


def batch_fields(folder: Path, certificate: Certificate) -> Iterator[tuple[File, dict[str, np.ndarray]]]:
    """Released codes and row arrays, in batches."""
    law: Any = certificate.law
    columns = released_columns(certificate)
    rows = max(1, min(_ROWS_PER_BATCH, _ENTRIES_PER_BATCH // certificate.space.size))
    for file in certificate.files:
        for batch in prefetch(read_batches(folder / file.name, list(columns.values()), rows)):
            yield (
                file,
                from_columns({name: batch[column] for name, column in columns.items()}, certificate.space, law),
            )
