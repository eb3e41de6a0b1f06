"""Users and items of rows: their numbers, and public features of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import svds

from labeldp._documented import documented_in
from labeldp._shapes import Float, Int
from labeldp.columns import floats_or_none
from labeldp.errors import InputError
from labeldp.learning.features import indexable_rows, missing_values

#: Rows that are added to the counts of a user and of an item before pairs are scaled by them.
_SMOOTHED = 5


@dataclass(frozen=True, eq=False)
class RowColumns:
    """Columns of rows: who, what, and numbers that describe either."""

    users: np.ndarray
    items: np.ndarray
    others: Float[np.ndarray, "n c"]

    @classmethod
    def of(cls, rows: Any, user: Any, item: Any) -> RowColumns:
        """The columns of an array, or of a frame by name.

        Raises:
            InputError: There is no such column, a user or an item is missing, or another column has no numbers.
        """
        rows = indexable_rows(rows)
        frame = hasattr(rows, "columns")
        names = list(rows.columns) if frame else list(range(rows.shape[1] if len(rows.shape) == 2 else 0))
        if lacking := [name for name in (user, item) if name not in names]:
            found = ", ".join(map(str, names)) or "none"
            raise InputError(f"expected a column {lacking[0]!r} of users or items, found the columns {found}")
        taken = {name: np.asarray(rows[name]) if frame else rows[:, name] for name in names}
        others = [_numbers(taken[name], name) for name in names if name not in (user, item)]
        table = np.column_stack(others) if others else np.zeros((rows.shape[0], 0))
        return cls(_complete(np.asarray(taken[user]), user), _complete(np.asarray(taken[item]), item), table)


@documented_in("labeldp.learning.ratings")
@dataclass(frozen=True, eq=False)
class Entities:
    """All users, or all items, with public features.

    Attributes:
        names: The users in increasing order.
        places: The columns that describe users.
        features: Standardized features: the described columns, and how often and with whom a user occurs, shape (c, f).
        centre: Means of the features before they were standardized.
        spread: Their standard deviations.
    """

    names: np.ndarray
    places: tuple[int, ...]
    features: Float[np.ndarray, "c f"]
    centre: Float[np.ndarray, "f"]
    spread: Float[np.ndarray, "f"]

    @classmethod
    def of(
        cls,
        names: np.ndarray,
        numbers: Int[np.ndarray, "n"],
        rows: RowColumns,
        places: Sequence[int],
        pairs: Float[np.ndarray, "c p"],
    ) -> Entities:
        """The users of rows, from the columns that describe them and features of who occurs with what."""
        raw = np.column_stack([_means(numbers, rows.others[:, list(places)], len(names)), pairs])
        centre, spread = raw.mean(axis=0), raw.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        return cls(names, tuple(places), (raw - centre) / spread, centre, spread)

    def numbers_of(self, names: np.ndarray) -> Int[np.ndarray, "n"]:
        """The number of each user, -1 for those that are not known."""
        place = np.clip(np.searchsorted(self.names, names), 0, len(self.names) - 1)
        return np.where(self.names[place] == names, place, -1)

    def unseen(self, rows: RowColumns, names: np.ndarray) -> tuple[Int[np.ndarray, "n"], Float[np.ndarray, "m f"]]:
        """Numbers of rows' users, with a new one for each row of an unknown user, and standardized features of these.

        An unknown user occurs with nobody, and is described by the columns of the row.
        """
        numbers = self.numbers_of(names)
        new = np.flatnonzero(numbers < 0)
        raw = np.zeros((len(new), len(self.centre)))
        raw[:, : len(self.places)] = rows.others[new][:, list(self.places)]
        numbers[new] = len(self.names) + np.arange(len(new))
        return numbers, (raw - self.centre) / self.spread


def described_by(rows: RowColumns, factors: int) -> tuple[Entities, Entities]:
    """Users and items of rows, with all that the rows disclose of them without any label.

    A column that is the same in all rows of each user describes users; one that is the same in all rows of each item,
    items; any other describes both, by its means.

    Args:
        rows: Public rows.
        factors: Number of factors of who occurs with what; 0 for none, and for no counts either.
    """
    (user_names, users), (item_names, items) = (
        np.unique(column, return_inverse=True) for column in (rows.users, rows.items)
    )
    every = range(rows.others.shape[1])
    of_user = {c for c in every if _is_function(users, rows.others[:, c])}
    of_item = {c for c in every if c not in of_user and _is_function(items, rows.others[:, c])}
    left, right = _pair_features(users, items, factors)
    return (
        Entities.of(user_names, users, rows, [c for c in every if c not in of_item], left),
        Entities.of(item_names, items, rows, [c for c in every if c not in of_user], right),
    )


def _pair_features(
    users: Int[np.ndarray, "n"], items: Int[np.ndarray, "n"], factors: int
) -> tuple[Float[np.ndarray, "u f"], Float[np.ndarray, "v f"]]:
    """Counts of rows, and the leading singular vectors of the scaled table of who occurs with what."""
    counts = np.bincount(users), np.bincount(items)
    if not factors:
        return np.zeros((len(counts[0]), 0)), np.zeros((len(counts[1]), 0))
    often = [np.log1p(count) for count in counts]
    features = [np.column_stack([each, (each - each.mean()) ** 2]) for each in often]
    shape = len(counts[0]), len(counts[1])
    if (rank := min(factors, min(shape) - 1)) > 0:
        table = csr_array((np.ones(len(users)), (users, items)), shape=shape)
        scaled = diags_array((counts[0] + _SMOOTHED) ** -0.5) @ table @ diags_array((counts[1] + _SMOOTHED) ** -0.5)
        start = np.random.default_rng(0).normal(size=min(shape))  # in no direction that symmetric tables leave out
        left, _, right = svds(scaled, rank, v0=start)
        features = [np.column_stack([features[0], left]), np.column_stack([features[1], right.T])]
    return features[0], features[1]


def _means(numbers: Int[np.ndarray, "n"], columns: Float[np.ndarray, "n c"], count: int) -> Float[np.ndarray, "m c"]:
    """The mean of each column over the rows of each number."""
    rows = np.maximum(np.bincount(numbers, minlength=count), 1)
    sums = [np.bincount(numbers, column, minlength=count) for column in columns.T]
    return np.column_stack(sums) / rows[:, None] if sums else np.zeros((count, 0))


def _is_function(numbers: Int[np.ndarray, "n"], column: Float[np.ndarray, "n"]) -> bool:
    """True if a column is the same in all rows of each number."""
    first = np.unique(numbers, return_index=True)[1]
    return bool((column[first][numbers] == column).all())


def _complete(column: np.ndarray, name: object) -> np.ndarray:
    """A column of users or items, none of which is missing."""
    if missing_values(column).any():
        raise InputError(
            f"expected a user or an item in each row of the column {name!r}, found missing values; leave such rows out "
            "before labels are drawn, or fill the gaps with a name of their own"
        )
    return column


def _numbers(column: np.ndarray, name: object) -> Float[np.ndarray, "n"]:
    """A column as finite numbers."""
    values = floats_or_none(column)
    if values is None or not np.isfinite(values).all():
        raise InputError(f"expected finite numbers in the column {name!r}, found others; encode it, or leave it out")
    return values
