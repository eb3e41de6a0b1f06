"""Verification of releases by recomputation, without the true labels."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from labeldp._progress import Progress, silent
from labeldp.errors import EngineError, VerificationError
from labeldp.mechanisms.queries import QUERIES, StoredForm
from labeldp.mechanisms.resampling import Form, form_from
from labeldp.privacy import bounded_work
from labeldp.privacy.channels import Channel, candidate_sizes
from labeldp.release.engines import Engine, Executor, InProcess, Tick, engine_of, reported
from labeldp.release.folder._certificate import UNKNOWN, UNREADABLE, WHO_MADE_IT, Certificate, digest
from labeldp.release.folder._check_laws import check_laws, check_randomness
from labeldp.release.folder._columns import (
    CLUSTERS,
    CODES,
    answer_in,
    batch_fields,
    column_name,
    column_types,
    read_batches,
    released_columns,
    stored_form,
    unchanged_file,
    unchanged_files,
)
from labeldp.release.folder._derived import DERIVED, is_derived
from labeldp.release.folder._description import readmes
from labeldp.release.folder._limits import (
    MOST_ANSWERED,
    MOST_RELEASED,
    MOST_TERMS,
    check_files,
    check_sizes,
    opened,
    text_of,
)
from labeldp.release.folder._staging import CERTIFICATE, README, SIGNATURE, is_signed, local_copy, or_beside, part_of
from labeldp.release.tables import Place

R = TypeVar("R")

_ROWS_PER_BATCH = 1 << 16
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
        text: The text of the certificate that was verified.
    """

    certificate: Certificate | None
    checks: tuple[Check, ...]
    unknown: tuple[str, ...] = UNKNOWN
    signed: bool = False
    text: str = field(default="", repr=False)

    @property
    def holds(self) -> bool:
        """True if every check holds."""
        return self.certificate is not None and all(check.holds for check in self.checks)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the certificate's text, which its report page prints too."""
        return digest(self.text.encode())

    @property
    def signature_unchecked(self) -> bool:
        """True if there is a signature, and no public key to check it with."""
        return self.signed and WHO_MADE_IT in self.unknown


def verify(
    directory: str | Place,
    *,
    public_key: str | Path | None = None,
    long: bool = False,
    executor: Engine | Executor | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Recompute the guarantee of a release from its law, and check its files.

    Whatever the folder holds, there is a verdict, in about ten seconds and a gigabyte beyond what is proportional to
    its bytes. What would take more does not hold.

    Args:
        directory: The folder of a release: a path, or an address such as ``s3://bucket/shared``, of which a private
            copy is verified.
        public_key: The file of a public key, with whose private key the release must be signed.
        long: Allow recomputations that take longer, such as those of peers in many large clusters.
        executor: Workers for the files of a large release, as for ``release_table``; the verdict is the same.
        progress: Called with the name of the pass, the rows done, and the number of rows.

    Returns:
        The verdict. It proves that files, law and guarantee agree; it cannot show that the draw was honest.

    Raises:
        InputError: The file holds no public key, or a store has no such folder.
        EngineError: Workers died, or do not share the folder.
    """
    with local_copy(directory) as folder:
        workers = _Workers(engine_of(executor, InProcess()), progress or silent)
        return _verified(folder, public_key, long, workers)


@dataclass(frozen=True)
class _Workers:
    """Workers for the files of a release, and what receives their progress."""

    engine: Engine
    report: Progress

    def run(self, work: Callable[[_FileTask, Tick], R], folder: Path, certificate: Certificate, name: str) -> list[R]:
        """The results of ``work`` for each file, in a pass of this name over all rows."""
        tasks = _FileTask.each(folder, certificate)
        return list(reported(self.engine, work, tasks, self.report, name, certificate.rows))


def _verified(folder: Path, public_key: str | Path | None, long: bool, workers: _Workers) -> Verdict:
    """The verdict on a folder on a disk, with that on its signature."""
    with _limited(long):
        verdict = _verdict(folder, workers)
    signed = is_signed(folder)
    if public_key is None:
        return dataclasses.replace(verdict, signed=signed)
    try:
        from labeldp.release.folder._signature import check_signature  # noqa: PLC0415 (it loads slowly)

        check = Check(_IS_SIGNED, True, check_signature(folder, public_key, verdict.text))
    except VerificationError as problem:
        check = Check(_IS_SIGNED, False, str(problem))
    unknown = tuple(what for what in verdict.unknown if what != WHO_MADE_IT)
    return dataclasses.replace(verdict, checks=(*verdict.checks, check), unknown=unknown, signed=signed)


def _limited(long: bool) -> AbstractContextManager[None]:
    """The limit on recomputations, unless they may take long."""
    return nullcontext() if long else bounded_work(MOST_TERMS)


def _verdict(folder: Path, workers: _Workers) -> Verdict:
    """The verdict on a folder, whatever it holds."""
    try:
        text, certificate = _certificate_in(folder)
    except VerificationError as problem:
        return Verdict(
            None, (Check("the certificate can be read and its guarantee follows", False, str(problem)[:_LONGEST]),)
        )
    checks = [Check("the certificate can be read and its guarantee follows from its charges", True, "it does")]
    for what, check in _CHECKS.items():
        if check is _check_readme and not os.path.lexists(folder / README):  # older folders have none
            continue
        try:
            checks.append(Check(what, True, check(folder, certificate, workers)))
        except VerificationError as problem:
            checks.append(Check(what, False, str(problem)[:_LONGEST]))
            break
        except (*UNREADABLE, pa.ArrowException, OSError) as problem:
            checks.append(Check(what, False, f"expected a readable file, found {type(problem).__name__}"))
            break
    return Verdict(certificate, tuple(checks), certificate.unknown, text=text)


def read_certificate(folder: Path) -> Certificate:
    """The certificate in a folder."""
    return _certificate_in(folder)[1]


def _certificate_in(folder: Path) -> tuple[str, Certificate]:
    """The certificate in a folder, and its text as it stands."""
    try:
        text = text_of(part_of(folder, CERTIFICATE))
        return text, Certificate.from_json(text)
    except (OSError, UnicodeError):
        raise VerificationError(f"there is no release with a {CERTIFICATE} in {folder}{or_beside(folder)}") from None


def verified(folder: Path) -> tuple[Certificate, np.ndarray, Channel]:
    """Verify a folder, and return its certificate, released labels and channel.

    Raises:
        VerificationError: They do not agree, or the folder holds an answer.
    """
    certificate = certified_labels(folder)
    parts = [part for _, part in batch_fields(folder, certificate)]
    fields = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return certificate, fields.pop(CODES), certificate.channel_of_rows(fields)


def certified_labels(
    folder: Path, executor: Engine | Executor | None = None, progress: Progress | None = None
) -> Certificate:
    """Verify a folder of released labels, by workers if there are any, and return its certificate."""
    certificate = certified(folder, executor=executor, progress=progress)
    if certificate.of_answer:
        raise VerificationError(f"expected released labels in {folder}, found an answer; open it with Answer.load")
    return certificate


def certified(
    folder: Path,
    *,
    long: bool = True,
    executor: Engine | Executor | None = None,
    progress: Progress | None = None,
) -> Certificate:
    """Verify a folder, and return its certificate; by default however long that takes."""
    verdict = verify(folder, long=long, executor=executor, progress=progress)
    if not verdict.holds or verdict.certificate is None:
        failed = next(check for check in verdict.checks if not check.holds)
        if verdict.certificate is None:
            raise VerificationError(failed.found)
        raise VerificationError(f"this release does not verify: {failed.found}; do not rely on it, and get it again")
    return verdict.certificate


def read_alone(file: Path, *, long: bool = False) -> Certificate:
    """Read a certificate without its folder, and check its randomness, law and guarantee."""
    try:
        certificate = Certificate.from_json(text_of(file))
    except (OSError, UnicodeError):
        raise VerificationError(f"expected a certificate at {file}, found none") from None
    try:
        with _limited(long):
            check_randomness(file, certificate)
            check_laws(file, certificate)
    except UNREADABLE as problem:
        if isinstance(problem, VerificationError):
            raise
        raise VerificationError(f"expected a law that can be read, found {type(problem).__name__}") from None
    return certificate


def law_of_rows(folder: Path, certificate: Certificate) -> Channel:
    """The channel of a verified folder, with one row for each number of candidates."""
    if candidate_sizes(certificate.channel) is None:
        return certificate.channel
    by_count: dict[int, np.ndarray] = {}
    for _, part in batch_fields(folder, certificate):
        packed = part["candidates"]
        numbers, rows = np.unique(np.bitwise_count(packed).sum(axis=1, dtype=np.int64), return_index=True)
        by_count |= {int(m): packed[row] for m, row in zip(numbers, rows, strict=True)}
    return certificate.channel_of_rows({"candidates": np.array(list(by_count.values()))} if by_count else {})


@dataclass(frozen=True)
class _FileTask:
    """A file to check: its folder, and the certificate with this file alone."""

    folder: Path
    certificate: Certificate

    @classmethod
    def each(cls, folder: Path, certificate: Certificate) -> list[_FileTask]:
        """A task for each file of a release."""
        return [cls(folder, dataclasses.replace(certificate, files=(file,))) for file in certificate.files]


def _check_files(folder: Path, certificate: Certificate, workers: _Workers) -> str:
    """Check that the folder has the listed files, byte for byte, and nothing else but what follows from them."""
    listed = {file.name for file in certificate.files} | {part_of(folder, CERTIFICATE).name}
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*")} - {
        part_of(folder, SIGNATURE).name,
        README,  # compared by the last check
    }
    for name in found & DERIVED.keys() - listed:
        if not is_derived(folder, name, certificate):
            raise VerificationError(
                f"expected {name} as it follows from the certificate, found another; move it away, and 'labeldp card' "
                "writes it again"
            )
        found.remove(name)
    if listed != found:
        raise VerificationError(_differing(listed - found, found - listed))
    check_files(folder / file.name for file in certificate.files)
    workers.run(_unchanged, folder, certificate, "digest")
    return f"{len(certificate.files)} file(s), unchanged"


def _unchanged(task: _FileTask, tick: Tick) -> None:
    """Check the bytes of a file."""
    (file,) = task.certificate.files
    with _readable(task.folder), unchanged_file(task.folder, file):
        tick(file.rows)


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """Say of an error of a reader which it is: a worker passes on nothing else.

    Raises:
        EngineError: A worker has no such folder, which says nothing about the release.
    """
    if not folder.is_dir():
        raise EngineError(f"expected a folder that all workers share, found none at {folder} on a worker")
    try:
        yield
    except (*UNREADABLE, pa.ArrowException, OSError) as problem:
        if isinstance(problem, VerificationError):
            raise
        raise VerificationError(f"expected a readable file, found {type(problem).__name__}") from None


def _differing(missing: set[str], more: set[str]) -> str:
    """The files that a folder lacks, and those that are not listed, with what to do."""
    lacks = f"expected {_some(missing)}, found no such file" * bool(missing)
    holds = f"expected only files that the certificate lists, found {_some(more)}; move it away" * bool(more)
    return "; ".join(filter(None, (lacks, holds)))


def _some(names: set[str]) -> str:
    """A few names for a message."""
    return ", ".join(map(repr, sorted(names)[:_SHOWN])) + ", ..." * (len(names) > _SHOWN)


def _check_schemas(folder: Path, certificate: Certificate, _: _Workers) -> str:
    """Check that every file has the listed columns and rows, and no other metadata."""
    for file in certificate.files:
        with unchanged_file(folder, file) as held, pq.ParquetFile(held) as parquet:
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
    if form is not None:
        _check_answer_columns(form, certificate)
        return f"{len(columns)} columns, {rows} lines"
    for name, kind in column_types(certificate.label, certificate.space, certificate.channel).items():
        if columns.get(name) != str(kind):
            raise VerificationError(f"expected a column {name!r} of type {kind}")
    return f"{len(columns)} columns, {rows} rows"


def _check_sizes(folder: Path, certificate: Certificate) -> None:
    """Refuse files whose values would take long to check."""
    label = certificate.label
    if certificate.of_answer:
        form = stored_form(certificate.law, certificate.space)
        columns = {*form.names(label), column_name(label, CLUSTERS)}
        check_sizes(unchanged_files(folder, certificate), columns, 0, MOST_ANSWERED)
        return
    columns = set(released_columns(certificate).values())
    sets = certificate.channel.form == "set" or "candidates" in certificate.law["by_row"]
    generator = None if certificate.features is None else certificate.features.generator
    if generator is not None:
        columns |= {*form_from(generator["form"]).names}
    entries = certificate.space.size // _ENTRIES_OF_A_VALUE * sets
    check_sizes(unchanged_files(folder, certificate), columns, entries, MOST_RELEASED)


def _check_answer_columns(form: StoredForm, certificate: Certificate) -> None:
    """Check that an answer has its columns, and public ones only if it has a line for each row."""
    found, expected = [name for name, _ in certificate.columns], form.names(certificate.label)
    if not set(expected) <= set(found) or (found != expected and not form.by_row):
        raise VerificationError(f"expected the columns {expected} of an answer, found {found}")
    public = [name for name in found if name not in expected]
    if clash := form.clashes(certificate.label, public):
        raise VerificationError(f"expected no public column with the name of an entry, found {min(clash)!r}")


def _has_metadata(field: pa.Field) -> bool:
    """True if a field has metadata beyond its name and type, at any depth."""
    kind = field.type
    inner = [kind.field(i) for i in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    allowed = {b"PARQUET:field_id"}
    return bool(set(field.metadata or {}) - allowed) or any(_has_metadata(part) for part in inner)


def _check_values(folder: Path, certificate: Certificate, workers: _Workers) -> str:
    """Check that every released value is possible under the law."""
    if certificate.of_answer:
        value, query = answer_in(folder, certificate), QUERIES.of_law(certificate.law)
        query.check_plausible(value, certificate.law, certificate.rows)
        return "all of the form of such an answer"
    rows_of_groups = sum(workers.run(_possible, folder, certificate, "verify"))
    if certificate.parent is None and len(certificate.labels) == 1:
        sizes = [int(size) for size in certificate.law.get("repeats", ())]
        _check_groups(np.asarray(rows_of_groups).tolist(), sizes)
    if certificate.features is not None and certificate.features.generator is not None:
        _check_form(folder, certificate, form_from(certificate.features.generator["form"]))
    return "all of them possible"


def _possible(task: _FileTask, tick: Tick) -> np.ndarray:
    """Check every released value of a file, and count its rows in each group of units."""
    law = task.certificate.law
    rows = np.zeros(len(law.get("repeats", ())), dtype=np.int64)
    with _readable(task.folder):
        for file, part in batch_fields(task.folder, task.certificate):
            codes = part.pop(CODES)
            channel = task.certificate.channel_of_rows(part)
            if "groups" in part and len(rows):
                rows += np.bincount(part["groups"], minlength=len(rows))
            if not channel.possible(codes).all():
                row = int(np.argmin(channel.possible(codes)))
                raise VerificationError(
                    f"expected only possible outputs in {file.name}, found another at position {row} of a batch"
                )
            tick(len(codes))
    return rows


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


def _check_readme(folder: Path, certificate: Certificate, _: _Workers) -> str:
    """Check that the description of the folder follows from its certificate."""
    expected, found = [text.encode() for text in readmes(certificate)], b""
    with suppress(OSError), opened(folder / README) as file:
        found = file.read(max(map(len, expected)) + 1)
    if found not in expected:
        raise VerificationError(
            f"expected {README} as it follows from the certificate, found another; do not believe it, and remove it"
        )
    return "it does"


def _check_form(folder: Path, certificate: Certificate, form: Form) -> None:
    """Check that all released features are in the form that true and drawn features share."""
    for file in certificate.files:
        for batch in read_batches(folder, file, form.names, _ROWS_PER_BATCH):
            if form.shaped(pa.Table.from_batches([batch]))[1].any():
                raise VerificationError(f"expected only rows of the generator's form in {file.name}, found others")


_CHECKS: dict[str, Callable[[Path, Certificate, _Workers], str]] = {
    "the certificate states that no test source of randomness was used": lambda *found: check_randomness(*found[:2]),
    "each epsilon follows from the integers of its mechanism": lambda *found: check_laws(*found[:2]),
    "the folder holds the listed files, unchanged, and nothing else": _check_files,
    "the files have the listed columns and no other content": _check_schemas,
    "every released value is a possible outcome of its mechanism": _check_values,
    f"{README} follows from the certificate": _check_readme,
}
