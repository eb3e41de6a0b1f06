"""The gate that every column passes if it leaves, or if anything that leaves follows from it.

A label that was released with noise must not leave in the clear beside it, by whatever option. It is refused by its
name, and by its values: a column with one value for each class is that label under another name. Values are compared
with the *released* labels alone, so that no failure depends on a true one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from labeldp._shapes import Int
from labeldp._spelling import canonical, spelled_as
from labeldp.columns import Columns
from labeldp.errors import InputError, LabelDPError, TableError
from labeldp.privacy.channels import ClassChannel
from labeldp.release.folder import ALL_OR_NONE, CODES, SHUFFLED, UNREADABLE, Certificate, batch_fields, read_certificate
from labeldp.release.ledger import Earlier, Entry
from labeldp.release.released._row_identity import Origin
from labeldp.release.released._same_label import is_label_renamed
from labeldp.release.tables import Table, differing, no_such_column, people_of, place_of

T = TypeVar("T")

#: Rows in which columns are compared with labels that were released before, and rows of a batch.
_MOST_ROWS, _ROWS_PER_BATCH = 1 << 20, 1 << 16


def declared_by(option: str) -> str:
    """The option that names public columns, as messages name it."""
    return f"--{option} ({option}=)"


KEEP, UNIT, CLUSTERS, PRIOR = map(declared_by, ("keep", "unit", "clusters", "prior"))
#: The command by which a label leaves as it is, since it was randomized elsewhere.
IMPORTED = "labeldp import"
_NOUNS = {UNIT: "unit", CLUSTERS: "cluster", PRIOR: "prior"}
#: The option that names public columns of what is saved.
_SAVED = "keep="
#: What to do about labels of other people in the ledger of a curator.
OWN_LEDGER = "release them through a ledger of their own (Curator(..., ledger=))"


class UnitWarning(UserWarning):
    """A column that may be people with several rows, beside labels whose epsilon covers one row."""


def declare(schema: pa.Schema, label: str | None, names: Iterable[str], option: str) -> dict[str, str]:
    """Columns that an option declares public, as the table spells them, each with that option.

    Raises:
        InputError: One does not exist, or is the label.
    """
    public, stored = dict[str, str](), dict.fromkeys(schema.names)  # which Arrow would list for each of many columns
    for name in names:
        own = name if name in stored else spelled_as(name, stored)
        if own is None:
            raise InputError(no_such_column(name, list(stored), _NOUNS.get(option, "")))
        if _is_same(own, label):
            other = "" if own == label else f" in another spelling, {label!r}"
            raise InputError(
                f"{own!r} is the label{other}, which is released with noise alone; leave it out of {option}"
            )
        public[own] = option
    _refuse_differing(schema, public)
    return public


def _refuse_differing(schema: pa.Schema, names: Collection[str]) -> None:
    """Refuse public columns that are not of one kind in all files."""
    if why := next(differing(schema, names), None):
        raise TableError(f"expected one type of each public column in all files, found {why}; convert or drop it")


def declared_columns(
    keep: Sequence[str] | None, drop: Sequence[str] | None
) -> tuple[Sequence[str] | None, Sequence[str] | None]:
    """The columns to keep, and those to drop; ``keep="all"`` drops none, and ``keep="none"`` keeps none.

    Raises:
        InputError: Another text stands for a list: it would be read letter by letter.
    """
    for option, names in (("keep", keep), ("drop", drop)):
        if isinstance(names, str) and not (option == "keep" and names in ALL_OR_NONE):
            raise InputError(f"expected a list of columns for {option}, found the text {names!r}; write [{names!r}]")
    if not isinstance(keep, str):
        return keep, drop
    return (None, drop or ()) if keep == "all" else ((), drop)


def kept_columns(
    schema: pa.Schema, label: str | None, keep: Sequence[str] | None, drop: Sequence[str] | None
) -> list[str]:
    """The columns declared public, in the table's order.

    Raises:
        InputError: Neither or both were declared, a column does not exist, or the label is among them.
    """
    others = [name for name in schema.names if name != label]
    keep, drop = declared_columns(keep, drop)
    if (keep is None) == (drop is None):
        raise InputError(
            f"the public columns are declared by {'neither --keep nor' if keep is None else 'both --keep and'} --drop; "
            f"pass one of the two. Columns besides the label: {', '.join(others) or 'none'}"
        )
    chosen = declare(schema, label if drop is None else None, keep if keep is not None else drop or (), KEEP)
    kept = [name for name in others if (name in chosen) == (keep is not None)]
    declare(schema, label, [name for name in kept if _is_same(name, label)], KEEP)
    _refuse_differing(schema, kept)
    return kept


def _is_same(name: str, label: str | None) -> bool:
    """True for the name of the label in any spelling: to a ledger they are one name."""
    return label is not None and canonical(name) == canonical(label)


def drawn_labels(earlier: Iterable[Earlier]) -> list[str]:
    """The labels of earlier charges that were drawn from true ones: those that were imported left as they were."""
    return [each.entry.label for each in earlier if each.entry.label not in each.entry.public]


def refuse_labels(public: Mapping[str, str], labels: Iterable[str], other_people: str) -> None:
    """Refuse public columns that were released as labels before: their true values would leave beside the noisy ones.

    Args:
        public: The columns, each with the option that declares it public.
        labels: The labels of earlier charges for these rows.
        other_people: What to do if these are other people's rows.
    """
    before = set(map(canonical, labels))
    for name in sorted(name for name in public if canonical(name) in before):
        raise InputError(
            f"{name!r} was already released with noise, and {public[name]} would publish its true values: leave it "
            f"out. If these are other people's rows, {other_people}"
        )


def refuse_renamed_labels(
    table: Table,
    public: Mapping[str, str],
    clusters: Int[np.ndarray, "n"] | None,
    rows: int,
    earlier: Sequence[Earlier],
) -> None:
    """Refuse public columns that are, by their values, a label that was released before.

    Earlier releases are read on a disk, where they were written or beside a ledger that was moved with them. Others are
    compared by name alone. Columns that left beside the earlier labels are public already.

    Args:
        table: The table.
        public: Its public columns, each with the option that declares it public.
        clusters: The numbers of public clusters, if they are no column.
        rows: The number of rows.
        earlier: The earlier charges of its rows.
    """
    for each in earlier:
        names = [name for name in public if name not in each.entry.public]
        here, there = each.pairs
        if not here.size and each.entry.rows.stop == rows:  # nothing tells rows apart: they may be in their order
            here = there = np.arange(rows)
            _refuse_any_order(each.entry, {name: public[name] for name in names})
        here, there = here[there < _MOST_ROWS], there[there < _MOST_ROWS]
        released = _released_labels(each.entry, there) if here.size and (names or clusters is not None) else None
        if released is None:
            continue
        columns = _columns_at(table, names, here)
        if clusters is not None:
            columns["clusters"] = pa.array(clusters[here])
        for name, values in columns.items():
            if _guarded(partial(is_label_renamed, values, *released)):
                raise InputError(
                    f"{name!r} seems to be a copy of {each.entry.label!r}, which was already released with noise: it "
                    "has one value for each class, and by the released labels the two agree. "
                    f"{public.get(name, CLUSTERS)} would publish the true values: leave it out"
                )


def _guarded(make: Callable[[], T]) -> T | None:
    """The result of a comparison; None where it fails, as of nested columns and of folders that others changed."""
    with suppress(LabelDPError, OSError, pa.ArrowException, *UNREADABLE):
        return make()
    return None


def _released_labels(entry: Entry, rows: Int[np.ndarray, "k"]) -> tuple[ClassChannel, np.ndarray] | None:
    """The channel and the released classes of some rows of a release on a disk, in their order.

    None if it was moved away, but not with its ledger, or if others changed it, or it holds no classes.
    """
    found = (_guarded(partial(_read_labels, place, entry.identifier, rows)) for place in _folders_of(entry))
    return next((each for each in found if each is not None), None)


def _folders_of(entry: Entry) -> list[Path]:
    """The folders on a disk in which a release may lie."""
    moved = [entry.ledger.parent / entry.beside] if entry.ledger and entry.beside else []
    return [place for place in (*moved, place_of(entry.output or "")) if isinstance(place, Path)]


def _refuse_any_order(entry: Entry, public: Mapping[str, str]) -> None:
    """Refuse public columns if the earlier labels left in random order, so that nothing pairs the rows.

    Their types are not compared: texts such as amounts with a currency may be a numeric label.
    """
    found = [_guarded(partial(read_certificate, place)) for place in _folders_of(entry)]
    known = [each for each in found if each is not None and each.release == entry.identifier]
    if public and any(SHUFFLED in each.assumptions for each in known):
        name = next((name for name, option in public.items() if option in (UNIT, IMPORTED)), next(iter(public)))
        advice = f"Leave out {name!r}, and any other column that did not leave with {entry.label!r}"
        if public[name] in (UNIT, IMPORTED):
            advice = f"It leaves by {public[name]}, whatever else is left out"
        raise InputError(
            f"{name!r} may be a copy of {entry.label!r}, which was released in random order: nothing tells these rows "
            f"apart, so the two cannot be compared. {advice}. If these are other people's rows, declare it with "
            "--other-people (other_people=)"
        )


def _read_labels(folder: Path, identifier: str, rows: Int[np.ndarray, "k"]) -> tuple[ClassChannel, np.ndarray] | None:
    """See ``_released_labels``."""
    certificate, parts, first = read_certificate(folder), list[dict[str, np.ndarray]](), 0
    if certificate.release != identifier:
        return None
    for _, fields in batch_fields(folder, certificate):
        inside = np.sort(rows[(rows >= first) & (rows < first + len(fields[CODES]))]) - first
        parts.append({name: values[inside] for name, values in fields.items()})
        first += len(fields[CODES])
        if first > rows.max():
            break
    order = np.argsort(np.argsort(rows, kind="stable"), kind="stable")
    fields = {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}
    codes = fields.pop(CODES)
    channel = certificate.channel_of_rows(fields)
    return (channel, codes) if isinstance(channel, ClassChannel) and len(codes) == rows.size else None


def _columns_at(table: Table, names: Sequence[str], rows: Int[np.ndarray, "k"]) -> dict[str, pa.Array]:
    """Columns of some rows of a table, in their order; without those that Arrow cannot take rows of."""
    order, first, parts = np.argsort(rows, kind="stable"), 0, {name: list[pa.Array | None]() for name in names}
    for batch in table.batches(names, _ROWS_PER_BATCH) if names else ():
        inside = pa.array(rows[order][(rows[order] >= first) & (rows[order] < first + batch.num_rows)] - first)
        for name, taken in parts.items():
            taken.append(_guarded(partial(batch[name].take, inside)))
        first += batch.num_rows
        if first > rows.max():
            break
    places = pa.array(np.argsort(order, kind="stable"))
    return {
        name: pa.chunked_array(taken).combine_chunks().take(places)
        for name, taken in parts.items()
        if all(part is not None for part in taken)
    }


def check_kept(
    public: pa.Table, table: object, certificate: Certificate, name: str, origins: Iterable[Origin], *, stacklevel: int
) -> None:
    """Refuse columns to be saved that are named like a label that leaves with noise, and warn of people.

    Args:
        public: The columns that were declared public.
        table: The table that they are of; None without one.
        certificate: That of the labels or of the answer.
        name: The name that the label is saved under.
        origins: The charges, each with the labels that were charged for before.
        stacklevel: Number of calls from here to whoever saves.

    Raises:
        InputError: One has the name of the label, in any spelling, or of one that was released before.
    """
    released = [label for origin in origins for label in origin.labels]
    for label in dict.fromkeys((certificate.label, name)):
        declare(public.schema, label, public.column_names, _SAVED)
    refuse_labels(dict.fromkeys(public.column_names, _SAVED), released, OWN_LEDGER)
    if table is not None and certificate.guarantee.unit == "row":
        warn_of_people(table, (certificate.label, *released), stacklevel=stacklevel + 1)


def warn_of_people(table: object, labels: Iterable[str], *, stacklevel: int) -> None:
    """Warn if a column of a table may be people with several rows, though each row is a privacy unit.

    Labels are never looked at: a release hides how many rows have each of their values.
    """
    private = set(map(canonical, labels))
    for person in [each for each in people_of(Columns(table)) if canonical(each.name) not in private][:1]:
        warnings.warn(
            f"expected rows of different people, since epsilon covers one row: {person.question}. If one is a person, "
            f"the epsilons of all rows of one person add up; pass Curator(..., units=table[{person.name!r}])",
            UnitWarning,
            stacklevel=stacklevel + 1,
        )
