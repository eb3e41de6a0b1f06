"""Released labels and answers as Arrow columns, and reading of these from files, as they were when they were verified.

Beside them, the column of privacy units.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from labeldp._shapes import Float, Int, UInt8
from labeldp._threads import blocks
from labeldp.columns import arrow, class_array
from labeldp.errors import InputError, TableError, VerificationError
from labeldp.mechanisms.queries import QUERIES, StoredForm
from labeldp.privacy import Interval, LabelSpace
from labeldp.privacy.channels import Channel, NumberChannel, members, pack, row_arrays
from labeldp.release.folder._certificate import Certificate, File
from labeldp.release.folder._limits import opened, plain, texts_in
from labeldp.release.tables import prefetch

#: The field of the released labels; the other fields are the row arrays of the channel.
CODES = "codes"
#: The most entries of lists in a piece.
_ENTRIES_PER_PIECE = 1 << 30


def column_name(label: str, field: str) -> str:
    """The column of a field: ``LABEL_released`` for the released label, ``LABEL_candidates`` and the like."""
    return f"{label}_released" if field == CODES else f"{label}_{field}"


def to_columns(label: str, space: LabelSpace, channel: Channel, codes: np.ndarray) -> dict[str, pa.Array]:
    """Released labels and row arrays as columns by name; sets are lists in declared order, or their numbers."""
    points = points_of(space)
    columns = {CODES: _FROM_CODES[channel.form](codes, space, channel)}
    for field, values in row_arrays(channel).items():
        columns[field] = _from_sets(values, points) if values.ndim == 2 else arrow(values)
    return {column_name(label, field): column for field, column in columns.items()}


def labels_table(label: str, space: LabelSpace, channel: Channel, codes: np.ndarray) -> pa.Table:
    """The columns of released labels, in pieces that fit 32-bit offsets."""
    pieces = blocks(max(len(codes), 1), channel.classes, _ENTRIES_PER_PIECE)
    return pa.concat_tables([pa.table(to_columns(label, space, channel.take(rows), codes[rows])) for rows in pieces])


def column_types(label: str, space: LabelSpace, channel: Channel) -> dict[str, pa.DataType]:
    """The types of the columns that a release adds."""
    sets = channel.form == "set"
    empty = np.empty((0, (channel.classes + 7) // 8) if sets else 0, dtype=np.uint8 if sets else np.int32)
    columns = to_columns(label, space, channel.take(slice(0, 0)), empty)
    return {name: column.type for name, column in columns.items()}


def from_columns(columns: Mapping[str, pa.Array], space: LabelSpace, channel: Channel) -> dict[str, np.ndarray]:
    """Convert columns by field to released codes and row arrays by field, of a channel with no rows yet.

    Raises:
        VerificationError: A value is missing or impossible under the law, or a set repeats or is out of order.
    """
    fields: dict[str, Any] = {name: from_column(column, space) for name, column in columns.items() if name != CODES}
    if isinstance(channel, NumberChannel):
        return {CODES: _outcomes(columns[CODES], space, replace(channel, **fields)), **fields}
    return {CODES: from_column(columns[CODES], space), **fields}


def from_column(column: pa.Array, space: LabelSpace) -> np.ndarray:
    """Convert classes to codes, lists to packed sets, and group numbers to an array.

    Raises:
        VerificationError: A value is missing or not in the space, or a set repeats or is out of order.
    """
    _check_no_nulls(column)
    points = points_of(space)
    if pa.types.is_list(column.type):
        return _to_sets(column, points)
    if column.type == pa.int32():
        return np.from_dlpack(column)
    return _to_codes(column, points)


def points_of(space: LabelSpace) -> pa.Array:
    """The label values of a space as an Arrow array."""
    return class_array(space.points, space.arrow_type())


def outcome_numbers(space: LabelSpace, channel: NumberChannel) -> tuple[np.ndarray, ...]:
    """The released numbers of each distribution of a channel, in the label's unit, strictly increasing.

    If floats far from zero are too coarse to distinguish two of them, the second becomes the next float, so that no
    channel is refused: one computed from noisy counts must not fail after the counts.
    """
    if not isinstance(space, Interval):
        raise InputError(f"expected labels on an Interval for numbers, found {type(space).__name__}")
    return tuple(_increasing(space.low + space.step * steps) for steps in channel.steps)


def _increasing(numbers: Float[np.ndarray, "m"]) -> Float[np.ndarray, "m"]:
    """Make numbers strictly increasing, in place."""
    for i in range(1, len(numbers)):
        if numbers[i] <= numbers[i - 1]:
            numbers[i] = np.nextafter(numbers[i - 1], np.inf)
    return numbers


def _check_no_nulls(column: pa.Array) -> None:
    if column.null_count:
        raise VerificationError(f"expected a value in every row of a released column, found {column.null_count} nulls")


def _from_outcomes(codes: Int[np.ndarray, "n"], space: LabelSpace, channel: Channel) -> pa.Array:
    """Convert outcomes to numbers."""
    assert isinstance(channel, NumberChannel)  # noqa: S101 (the form says so)
    numbers, which = outcome_numbers(space, channel), channel.law_numbers(len(codes))
    released = np.empty(len(codes))
    for law, values in enumerate(numbers):
        rows = which == law
        released[rows] = values[codes[rows]]
    return arrow(released)


def _outcomes(column: pa.Array, space: LabelSpace, channel: NumberChannel) -> Int[np.ndarray, "n"]:
    """Convert numbers to outcomes, by the distribution of each row."""
    _check_no_nulls(column)
    numbers = np.from_dlpack(column)
    which, codes = channel.law_numbers(len(numbers)), np.empty(len(numbers), dtype=np.int16)
    for law, values in enumerate(outcome_numbers(space, channel)):
        rows = which == law
        places = np.searchsorted(values, numbers[rows]).clip(0, len(values) - 1)
        if not (values[places] == numbers[rows]).all():
            raise VerificationError("expected only possible outputs of the channel in a released column, found others")
        codes[rows] = places
    return codes


_FROM_CODES: Mapping[str, Callable[[np.ndarray, LabelSpace, Channel], pa.Array]] = MappingProxyType(
    {
        "class": lambda codes, space, _: points_of(space).take(arrow(codes)),
        "set": lambda codes, space, _: _from_sets(codes, points_of(space)),
        "index": lambda codes, _space, _channel: arrow(codes),  # ``ClassChannel.mask`` turns them into sets
        "number": _from_outcomes,
    }
)


def _from_sets(packed: UInt8[np.ndarray, "n b"], points: pa.Array) -> pa.Array:
    offsets, places = members(packed)
    kind = pa.list_(pa.field("element", points.type, nullable=False))
    return pa.ListArray.from_arrays(arrow(offsets), points.take(arrow(places)), type=kind)


def _to_sets(column: pa.ListArray, points: pa.Array) -> UInt8[np.ndarray, "n b"]:
    lengths = np.from_dlpack(pc.list_value_length(column)).astype(np.int64)
    rows = np.repeat(np.arange(len(column)), lengths)
    members = _to_codes(column.flatten(), points)
    same_row = rows[1:] == rows[:-1]
    if (same_row & (np.diff(members) <= 0)).any():
        raise VerificationError("expected released sets in declared order without repeats, found another order")
    mask = np.zeros((len(column), len(points)), dtype=np.bool_)
    mask[rows, members] = True
    return pack(mask)


def _to_codes(column: pa.Array, points: pa.Array) -> Int[np.ndarray, "n"]:
    codes = pc.index_in(column, value_set=points)
    if codes.null_count:
        raise VerificationError(f"expected only declared labels in a released column, found {codes.null_count} others")
    return np.from_dlpack(codes)


#: The column with the cluster in which peers exchanged a row's label.
CLUSTERS = "clusters"


def stored_form(law: Mapping[str, Any], space: LabelSpace) -> StoredForm:
    """The stored form of answers with a law.

    Raises:
        VerificationError: It is the law of no known query.
    """
    return QUERIES.of_law(law).stored(law, space)


def answer_columns(value: np.ndarray, label: str, law: Mapping[str, Any], space: LabelSpace) -> dict[str, pa.Array]:
    """The columns of an answer by name."""
    form = stored_form(law, space)
    columns = np.atleast_2d(value.T)
    return {name: _write(column, form, space) for name, column in zip(form.names(label), columns, strict=True)}


def answer_from(columns: list[pa.Array], law: Mapping[str, Any], space: LabelSpace) -> np.ndarray:
    """The answer from its columns.

    Raises:
        VerificationError: The columns hold no answer with this law.
    """
    query = QUERIES.of_law(law)
    value = _READ[query.stored(law, space).values](columns, space)
    query.check_value(value, law, space)
    return value


def _write(column: np.ndarray, form: StoredForm, space: LabelSpace) -> pa.Array:
    if form.values in ("number", "numbers"):
        return arrow(column)
    codes = pa.array(column.astype(np.int64), mask=column < 0)
    return points_of(space).take(codes)


def _read_numbers(columns: list[pa.Array], _: LabelSpace) -> np.ndarray:
    arrays = [_without_nulls(column).to_numpy(zero_copy_only=False) for column in columns]
    if not all(np.isfinite(array).all() for array in arrays):
        raise VerificationError("expected finite numbers in an answer, found others")
    return np.stack(arrays, axis=1)


def _read_number(columns: list[pa.Array], _: LabelSpace) -> np.ndarray:
    return np.asarray(_without_nulls(columns[0]).to_numpy(zero_copy_only=False))


def _read_classes(columns: list[pa.Array], space: LabelSpace) -> np.ndarray:
    return np.stack([_read_class([column], space) for column in columns], axis=1)


def _read_class(columns: list[pa.Array], space: LabelSpace) -> np.ndarray:
    return _class_codes(_without_nulls(columns[0]), space)


def _read_optional_class(columns: list[pa.Array], space: LabelSpace) -> np.ndarray:
    return _class_codes(columns[0], space).astype(np.int8)


def _class_codes(column: pa.Array, space: LabelSpace) -> np.ndarray:
    """Codes of classes, with -1 for nulls."""
    codes = pc.index_in(column, value_set=points_of(space))
    if codes.null_count != column.null_count:
        raise VerificationError("expected only declared labels in an answer, found others")
    return np.from_dlpack(codes.fill_null(-1)).astype(np.int64)


def _without_nulls(column: pa.Array) -> pa.Array:
    if column.null_count:
        raise VerificationError(f"expected a value in every line of an answer, found {column.null_count} nulls")
    return column


_READ: Mapping[str, Callable[[list[pa.Array], LabelSpace], np.ndarray]] = MappingProxyType(
    {
        "number": _read_number,
        "numbers": _read_numbers,
        "class": _read_class,
        "classes": _read_classes,
        "class or none": _read_optional_class,
    }
)


def number_column(unit: str) -> str:
    """The name of the column of made-up numbers of a privacy unit."""
    return f"{unit}_number"


def renumbered(unit: str) -> str:
    """The declaration that a release has made-up numbers of its privacy units."""
    return (
        f"the numbers in {number_column(unit)!r} are made up: one for each {unit!r}, under a key that the holder keeps"
    )


def group_column(certificate: Certificate | None) -> str | None:
    """The column of privacy units, which need not have been kept; None if each row is one."""
    if certificate is None or certificate.guarantee.unit == "row":
        return None
    unit = certificate.guarantee.unit
    return number_column(unit) if renumbered(unit) in certificate.assumptions else unit


_ROWS_PER_BATCH = 1 << 16
_ENTRIES_PER_BATCH = 1 << 24
#: Bytes of a column to read from disk at a time, whatever the size of its pieces in the file.
BUFFER = 1 << 18
#: Bytes of a file that is held in memory while it is read.
_IN_MEMORY = 1 << 25
#: Digests of large files by their identity.
_DIGESTS: dict[tuple[int, ...], str] = {}
_MOST_DIGESTS = 1 << 16
#: Nanoseconds after which a change gives a file another time, on any file system.
_SETTLED = 2_500_000_000


def released_columns(certificate: Certificate) -> dict[str, str]:
    """The columns of released labels and of the row arrays of their channel, by field."""
    return {name: column_name(certificate.label, name) for name in (CODES, *certificate.law["by_row"])}


def added_columns(certificate: Certificate) -> list[str]:
    """The columns that a release adds to the table: released labels or an answer, and row arrays."""
    label, space = certificate.label, certificate.space
    if certificate.of_answer:
        return [*stored_form(certificate.law, space).names(label), column_name(label, CLUSTERS)]
    return list(column_types(label, space, certificate.channel))


@contextmanager
def unchanged_file(folder: Path, file: File) -> Iterator[pa.NativeFile]:
    """A released file that stays open, whatever takes the place of its name meanwhile.

    Whatever is read of a release is read through this, so that it is what was verified: the very bytes that were
    hashed, of a file that is not large, and else a file whose bytes are hashed anew when it is closed. It is a file of
    Arrow's own: its threads would wait for Python's lock to read one of Python's, which ends the process if the
    interpreter ends.

    Raises:
        VerificationError: Its bytes are others than the certificate says, when it is opened or when it is closed.
    """
    with opened(folder / file.name) as held:
        if os.fstat(held.fileno()).st_size <= _IN_MEMORY:
            content = held.read(_IN_MEMORY + 1)
            _check(file, hashlib.sha256(content).hexdigest())
            yield pa.BufferReader(content)
            return
        _check(file, _digest_of(held, known=True))
        with pa.OSFile(f"/dev/fd/{held.fileno()}") as native:
            yield native
        _check(file, _digest_of(held, known=False))


def _check(file: File, digest: str) -> None:
    """Refuse a file with another digest than the certificate says."""
    if digest != file.sha256:
        raise VerificationError(f"expected {file.name} as it was released, found different bytes")


def unchanged_files(folder: Path, certificate: Certificate) -> Iterator[pa.NativeFile]:
    """Each file of a release, while it is open."""
    for file in certificate.files:
        with unchanged_file(folder, file) as held:
            yield held


def _digest_of(file: BufferedReader, *, known: bool) -> str:
    """SHA-256 of an open file; one that is known already counts as long as the file seems to be what it was.

    Its identity is taken before its bytes, so that a change while they are read shows. A file that was changed a moment
    ago might be changed again at the same time by its clock, and memory that maps a file changes no time at all.
    """
    state = os.fstat(file.fileno())
    identity = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    if known and identity in _DIGESTS:
        return _DIGESTS[identity]
    settled = time.time_ns() - state.st_ctime_ns > _SETTLED
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    if settled:
        if len(_DIGESTS) >= _MOST_DIGESTS:
            _DIGESTS.clear()
        _DIGESTS[identity] = digest
    return digest


def read_batches(folder: Path, file: File, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Columns of a released file in batches; at least one, which may be empty.

    Raises:
        VerificationError: Texts of a batch are too long together, or the file is not what it was.
    """
    names = list(columns)
    with unchanged_file(folder, file) as held:
        with pq.ParquetFile(held) as parquet:
            texts, some = texts_in(parquet, names), parquet.metadata.num_rows
        with pq.ParquetFile(held, pre_buffer=False, buffer_size=BUFFER, read_dictionary=texts) as parquet:
            for batch in parquet.iter_batches(batch_size=rows, columns=names):
                yield pa.record_batch([plain(batch[name]) for name in names], names=names)
            if not some:
                yield pa.record_batch([pa.array([], parquet.schema_arrow.field(name).type) for name in names], names)


def stored_columns(folder: Path, certificate: Certificate, names: Sequence[str]) -> pa.Table:
    """Columns of all files of a release.

    Raises:
        TableError: A file cannot be read.
        VerificationError: A file is not what the certificate says.
    """
    readable = True
    try:
        parts = [
            pq.read_table(held, columns=list(names), partitioning=None) for held in unchanged_files(folder, certificate)
        ]
    except (pa.ArrowException, OSError):
        readable = False
    if not readable:
        raise TableError(
            f"expected the files that the certificate in {folder} lists, found others; run labeldp verify on it"
        )
    return pa.concat_tables(parts)


def answer_in(folder: Path, certificate: Certificate) -> np.ndarray:
    """Read the answer in a folder.

    Raises:
        VerificationError: It is not in the form of its query, or has other lines, steps or clusters than its law.
    """
    law, label, columns = certificate.law, certificate.label, [name for name, _ in certificate.columns]
    names, clusters = stored_form(law, certificate.space).names(label), column_name(label, CLUSTERS)
    counted = [clusters] if "cluster_sizes" in law and clusters in columns else []
    batches = [
        batch for file in certificate.files for batch in read_batches(folder, file, [*names, *counted], _ROWS_PER_BATCH)
    ]
    table = pa.Table.from_batches(batches)
    if counted:
        sizes = np.unique(np.unique(table[clusters].to_numpy(), return_counts=True)[1])
        if sizes.tolist() != [int(size) for size in law["cluster_sizes"]]:
            raise VerificationError("expected clusters of the sizes that were charged, found others")
    return answer_from([table[name].combine_chunks() for name in names], law, certificate.space)


def batch_fields(folder: Path, certificate: Certificate) -> Iterator[tuple[File, dict[str, np.ndarray]]]:
    """Released codes and row arrays, in batches."""
    columns = released_columns(certificate)
    rows = max(1, min(_ROWS_PER_BATCH, _ENTRIES_PER_BATCH // certificate.space.size))
    for file in certificate.files:
        for batch in prefetch(read_batches(folder, file, list(columns.values()), rows)):
            arrays = {name: batch[column] for name, column in columns.items()}
            yield file, from_columns(arrays, certificate.space, certificate.channel)
