"""Rows by slices, numbers and masks, and their identity: an index, by which features and labels of other rows show."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, Literal, NoReturn

import numpy as np
import pyarrow as pa

from labeldp import _checks
from labeldp._arrays import freeze_arrays
from labeldp._shapes import Int, Integer, Shaped
from labeldp.columns import array_or_none, kind_of, result_or_none, row_names
from labeldp.errors import InputError, RowsError
from labeldp.privacy.accounting import RowRanges
from labeldp.release.folder import digest
from labeldp.release.ledger import Earlier, Entry
from labeldp.release.tables import cell_hashes


def row_places(rows: object, count: int, identity: RowIdentity | None = None) -> slice | Int[np.ndarray, "n"]:
    """Convert rows to a slice if they are contiguous, which copies nothing, else to ``row_numbers``.

    Raises:
        RowsError: A row does not exist, or the argument is no selection of rows.
    """
    start, stop, step = (0, count, 1) if rows is None else rows.indices(count) if isinstance(rows, slice) else (0, 0, 0)
    return slice(start, max(start, stop)) if step == 1 else row_numbers(rows, count, identity)


def row_numbers(rows: object, count: int, identity: RowIdentity | None = None) -> Int[np.ndarray, "n"]:
    """Convert a slice, row numbers (negative ones from the end) or a mask to row numbers; None is all rows.

    Args:
        rows: The selection.
        count: How many rows there are.
        identity: Their identity, with which the index of a pandas object must agree.

    Raises:
        RowsError: A row does not exist, or the argument is no selection of rows, or a mask of other rows.
    """
    if rows is None:
        return np.arange(count)
    if isinstance(rows, slice):
        return np.arange(count)[rows]
    try:
        index = np.asarray(rows)
    except ValueError:
        raise RowsError("expected row numbers in one dimension, found lists of different lengths") from None
    if identity is not None:
        _check_pandas(rows, index, identity)
    if index.dtype == np.bool_:
        if index.shape != (count,):
            raise RowsError(f"expected a mask of {count} rows, found shape {index.shape}")
        return np.flatnonzero(index)
    if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
        raise RowsError(f"expected row numbers in one dimension, found {index.dtype} of shape {index.shape}")
    if index.size and not (-count <= int(index.min()) and int(index.max()) < count):
        raise RowsError(f"expected row numbers between 0 and {count - 1}, found others")
    return index.astype(np.int64) % max(count, 1)


def _check_pandas(rows: object, index: np.ndarray, identity: RowIdentity) -> None:
    """Refuse a mask of other rows, and numbers that may be the names of rows instead of their places."""
    if index.dtype == np.bool_:
        identity.check(identity_of(rows), "a mask")
        return
    pandas = sys.modules.get("pandas")
    if pandas and isinstance(rows, pandas.Series | pandas.Index) and not identity.is_positions:
        raise RowsError(
            "expected the places of rows as an array, found a pandas object, whose values may be in the index of the "
            "labels instead; pass .to_numpy() of places, or labels.index.get_indexer(...)"
        )


_NO_NUMBERS = (0, -1)


@dataclass(frozen=True)
class Origin:
    """Rows of a curator, and other labels of theirs.

    Attributes:
        session: The session of the curator.
        rows: The rows.
        labels: Other labels that its ledger was charged for before, of what may be these rows.
    """

    session: str
    rows: RowRanges
    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, entry: Entry, earlier: Sequence[Earlier]) -> Origin:
        """The origin of the rows of a charge, after earlier ones."""
        met = {each.entry.label for each in earlier if each.rows.meet(entry.rows)}
        return cls(entry.session, entry.rows, tuple(sorted(met - {entry.label})))


@dataclass(frozen=True, eq=False)
class RowIdentity:
    """Digests of the index of rows, or of their declared identities; public, as the order of rows is.

    A digest has 32 bits: enough to notice rows in another order. Digests are no protection of what they are made of.

    Attributes:
        digests: One for each row.
        kind: ``"numbers"`` for the index 0 .. n - 1, which pandas gives to rows without names, and for parts of it;
            ``"index"`` for any other index; ``"identity"`` for the identities of a curator.
        numbers: The least and the largest number of an index of whole numbers; for parts of 0 .. n - 1 those of all.
    """

    digests: Integer[np.ndarray, "n"]
    kind: Literal["numbers", "index", "identity"]
    numbers: tuple[int, int] = _NO_NUMBERS

    def __post_init__(self) -> None:
        freeze_arrays(self, "digests")

    def __len__(self) -> int:
        return len(self.digests)

    def take(self, rows: Any) -> RowIdentity:
        """The identity of some rows: a slice, row numbers or a mask."""
        return RowIdentity(self.digests[rows], self.kind, self.numbers)

    @property
    def is_positions(self) -> bool:
        """True if the index of each row is its place, so that both mean the same row; identities are no index."""
        if self.kind == "identity":
            return True
        places = _identity(np.arange(len(self)), "index")
        return places is not None and np.array_equal(self.digests, places.digests)

    def check(self, found: RowIdentity | None, what: str) -> None:
        """Refuse rows that are known to be others, and warn of those that may be.

        An index 0 .. n - 1 says nothing about rows with names, and an index nothing about identities, unless one is
        the other in another order. Beside other whole numbers it may be that of other rows, or an index that was reset.

        Raises:
            RowsError: Both have an index, and these are not equal.
        """
        if found is None or len(found) != len(self) or np.array_equal(self.digests, found.digests):
            return
        if np.array_equal(np.sort(self.digests), np.sort(found.digests)):
            self._refuse(found, what, "the same rows in another order")
        if self.kind == "identity":
            return
        (low, high), (least, most) = self.numbers, found.numbers
        if found.kind == "index" and (self.kind == "index" or low <= least <= most <= high):
            self._refuse(found, what, "other rows")
        if _NO_NUMBERS not in (self.numbers, found.numbers):
            _checks.warn(
                f"The index of {what} is not that of the labels, and one of them may have been reset: rows are paired "
                "by position. Align them, such as by frame.loc[labels.index] before the release. If their order is "
                "right, reset both (reset_index(drop=True)), or pass an array (frame.to_numpy())"
            )

    def _refuse(self, found: RowIdentity, what: str, why: str) -> NoReturn:
        row = int(np.argmax(self.digests != found.digests))
        raise RowsError(
            f"expected {what} with the index of the labels, found {why} (first at position {row}); align them, such as "
            "by frame.loc[labels.index] before the release, or pass an array (frame.to_numpy()) if their order is right"
        )


def identity_of(values: object) -> RowIdentity | None:
    """The identity of rows with an index of different values (``row_names``)."""
    return identity_of_names(row_names(values))


def identity_of_names(names: object) -> RowIdentity | None:
    """The identity of rows with these names, from ``row_names``; None without any."""
    return None if names is None else _identity(names, "index")


def identity_of_places(rows: int) -> RowIdentity | None:
    """The identity of rows with the index 0 .. n - 1."""
    return _identity(np.arange(rows), "index")


def labels_identity(labels: object, identity: object) -> RowIdentity | None:
    """The identity of a curator's rows: the index of the labels, or else the declared identities."""
    found = identity_of(labels)
    return found if found is not None or identity is None else _identity(identity, "identity")


def concatenated_identity(parts: list[RowIdentity | None], order: Int[np.ndarray, "n"] | slice) -> RowIdentity | None:
    """The identity of the rows of several parts in another order; None if that of one is not known."""
    known = [part for part in parts if part is not None]
    if len(known) != len(parts) or len({(part.kind, part.numbers) for part in known}) != 1:
        return None
    digests = np.concatenate([part.digests for part in known])
    return RowIdentity(digests[order], known[0].kind, known[0].numbers)


def _identity(values: Any, kind: Literal["index", "identity"]) -> RowIdentity | None:
    """The identity of rows; None if values are equal or cannot be compared."""
    column = array_or_none(values)
    hashes = None if column is None else result_or_none(lambda: cell_hashes(column)[0])
    if column is None or hashes is None:
        return None
    numbers = _whole_numbers(column) if hashes.size else None
    if not (numbers is not None and _increase(numbers)) and not _increase(np.sort(hashes)):
        return None
    digests = (hashes >> np.uint64(32)).astype(np.uint32)
    if numbers is None:
        return RowIdentity(digests, kind)
    ends = int(numbers.min()), int(numbers.max())
    places = kind == "index" and ends == (0, hashes.size - 1) and _increase(numbers)
    return RowIdentity(digests, "numbers" if places else kind, ends)


def _increase(values: Shaped[np.ndarray, "n"]) -> bool:
    """True if each value is larger than the one before."""
    return bool((values[1:] > values[:-1]).all())


def _whole_numbers(column: pa.Array) -> np.ndarray | None:
    """The values of a column of whole numbers, which floats may stand for; None of others."""
    if column.null_count or not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return None
    values = np.asarray(column.to_numpy(zero_copy_only=False))
    return values if values.dtype.kind in "iu" or np.array_equal(values, np.rint(values)) else None


def check_same_rows(features: object, labels: Any, what: str = "features") -> None:
    """Refuse features whose index is not that of released labels, or of a curator's.

    Args:
        features: A frame or an Arrow table, or a tuple of them; anything without an index is taken by position.
        labels: A release or a curator.
        what: The name of the features in the message.

    Raises:
        RowsError: Both have an index of different values, and these are not equal.
    """
    if labels.identity is None:
        return
    for part in features if isinstance(features, tuple) else (features,):
        labels.identity.check(identity_of(part), what)


def identities_digest(identity: object, count: int) -> str:
    """A digest of public identities in order, after a check that there are ``count``, all different."""
    column = array_or_none(identity)
    if column is None:
        raise InputError(
            f"expected identities that are all numbers or all texts, found something else ({kind_of(identity)}); "
            "convert them to text"
        )
    values = column.to_pylist()
    texts = list(map(repr, values))
    if len(values) != count or None in values or len(set(texts)) != count:
        raise InputError(
            f"expected a different identity for each of the {count} labels, found {len(values)}, or missing or equal "
            "ones; pass a column whose values are all different"
        )
    return digest("\n".join(texts).encode())


def check_combined(releases: Sequence[Any], other_people: str) -> str:
    """The reason for which releases are of different people; empty if none was given.

    Raises:
        InputError: There are no releases, they differ in label space, public labels are among released ones, or two
            that the reason is about are of the same rows.
    """
    if not releases:
        raise InputError("expected at least one release, found none")
    if any(release.space != releases[0].space for release in releases):
        raise InputError(
            "expected releases with the same classes in one order, or the same range, found several label spaces; "
            "learn from each alone"
        )
    if len({release.certificate is None for release in releases}) > 1:
        raise InputError("expected releases alone or public labels alone, found both; learn from each alone")
    reason = "" if other_people == "" else _checks.reason(other_people)
    if reason and _same_people(releases):
        raise InputError(
            "expected releases of other people's rows, found two of the same rows, by their curator, index or "
            "identities; leave other_people out, and their epsilons add up"
        )
    return reason


def _same_people(releases: Sequence[Any]) -> bool:
    """True if two releases are of the same rows of a curator, or name the same rows otherwise than by their places."""
    for one, two in combinations(releases, 2):
        both = (one.certificate, two.certificate)
        if all(both) and len({each.release for each in both if each}) > 1:
            pairs = product(one.origins, two.origins)
            if any(here.session == there.session and here.rows.meet(there.rows) for here, there in pairs):
                return True
    named: dict[bytes, str] = {}
    for each in releases:
        if each.identity is None or each.identity.kind == "numbers" or each.certificate is None:
            continue
        rows = np.sort(each.identity.digests).tobytes()
        if named.setdefault(rows, each.certificate.release) != each.certificate.release:
            return True
    return False
