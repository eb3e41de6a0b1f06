"""The account: arithmetic of charges, and nothing else. Storage is the ledger's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from labeldp import _checks
from labeldp.errors import BudgetError, RowsError
from labeldp.privacy._guarantee import Guarantee
from labeldp.privacy._rounding import exact_sum, printed_above, shown_above

#: More ranges than this are charged as one that covers them: more rows charged is less privacy claimed.
_MOST_RANGES = 1 << 18


@dataclass(frozen=True)
class Rows:
    """Rows as sorted, disjoint, non-empty ranges ``[start, stop)``."""

    ranges: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        flat = [edge for pair in self.ranges for edge in pair]
        if flat and (flat[0] < 0 or any(a >= b for a, b in self.ranges) or flat != sorted(flat)):
            raise RowsError("expected sorted, disjoint, non-empty row ranges")

    @classmethod
    def all(cls, count: int) -> Rows:
        """The rows ``0 .. count - 1``."""
        return cls(((0, count),)) if count else cls(())

    @property
    def stop(self) -> int:
        """One more than the last row."""
        return self.ranges[-1][1] if self.ranges else 0

    def may_be(self, count: int) -> bool:
        """Whether these are the ranges of so many rows: exactly, or one range that covers very scattered ones."""
        covered = sum(stop - start for start, stop in self.ranges)
        return covered == count or (len(self.ranges) == 1 and covered > count > _MOST_RANGES)

    @classmethod
    def of(cls, indices: np.ndarray) -> Rows:
        """The rows of an integer array without repeats; covered by one range where they are too scattered."""
        if indices.dtype.kind not in "iu":
            raise RowsError(f"expected row numbers, found {indices.dtype}")
        rows = np.sort(indices.astype(np.int64))
        if rows.size == 0:
            return cls(())
        if rows[0] < 0 or (np.diff(rows) == 0).any():
            raise RowsError("expected each row at most once in a request; a repeated row would be drawn twice")
        breaks = np.flatnonzero(np.diff(rows) > 1)
        if breaks.size >= _MOST_RANGES:
            return cls(((int(rows[0]), int(rows[-1]) + 1),))
        starts, stops = rows[np.r_[0, breaks + 1]], rows[np.r_[breaks, rows.size - 1]] + 1
        return cls(tuple((int(a), int(b)) for a, b in zip(starts, stops, strict=True)))


@dataclass(frozen=True)
class Charge:
    """One request: what it promised, and of which rows."""

    guarantee: Guarantee
    rows: Rows


@dataclass(frozen=True)
class Budget:
    """The most that may be charged to any unit."""

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _checks.epsilon(self.epsilon, "budget"))
        object.__setattr__(self, "delta", _checks.delta(self.delta))


def compose(charges: Iterable[Charge]) -> tuple[float, float]:
    """The (epsilon, delta) of several charges: the largest, over rows, of the sums.

    Disjoint rows cost the maximum and a repeated request costs again, adaptively chosen or not. Where charges
    protect a unit of several rows, rows do not tell units apart and all charges are summed. Sums are exact, of
    the decimals that epsilons print as.

    Raises:
        BudgetError: The charges protect different units, whose epsilons cannot be added.

    References:
        Dwork and Roth 2014, theorem 3.16, for sums; McSherry 2009, theorem 4, for disjoint rows.
    """
    epsilon, delta = _exact(list(charges))
    return printed_above(epsilon), printed_above(delta)


@dataclass(frozen=True)
class Account:
    """Charges against a budget.

    Guarantee:
        A filter by pure sums: a request that would bring any row above the budget is refused before anything is
        drawn, however requests were chosen.
    """

    budget: Budget
    charges: tuple[Charge, ...] = ()

    @property
    def spent(self) -> tuple[float, float]:
        """The (epsilon, delta) of all charges so far."""
        return compose(self.charges)

    def admit(self, charge: Charge) -> Account:
        """The account with one more charge.

        Raises:
            BudgetError: The charge would exceed the budget.
        """
        epsilon, delta = _exact([*self.charges, charge])
        most = self.budget
        if epsilon > Decimal(repr(most.epsilon)) or delta > Decimal(repr(most.delta)):
            spent, asked = shown_above(self.spent[0], 7), shown_above(charge.guarantee.epsilon, 7)
            raise BudgetError(
                f"expected a total within the budget (epsilon {most.epsilon:g}, delta {most.delta:g}), found epsilon "
                f"{shown_above(epsilon, 7)} and delta {shown_above(delta, 3)}: epsilon {spent} is spent and "
                f"{asked} was asked for; use the release that exists, or "
                "decide on a larger budget and state it (budget=, --budget)"
            )
        return Account(most, (*self.charges, charge))


def together(charges: Sequence[Charge]) -> list[tuple[int, ...]]:
    """Which charges meet in one unit, by their places; each such set once.

    Where charges protect a unit of several rows, rows do not tell units apart and all charges meet.

    Raises:
        BudgetError: The charges protect different units.
    """
    units = {charge.guarantee.unit for charge in charges}
    if len(units) > 1:
        raise BudgetError(
            f"expected one unit of protection for all releases of these labels, found {', '.join(sorted(units))}; "
            "use the unit of the earlier release"
        )
    if units - {"row"}:
        return [tuple(range(len(charges)))]
    if not charges:
        return []
    bounds = [np.array(charge.rows.ranges, dtype=np.int64).reshape(-1, 2) for charge in charges]
    edges = np.unique(np.concatenate(bounds))
    inside = np.stack([_covers(ranges, edges[:-1]) for ranges in bounds])
    return [tuple(np.flatnonzero(meeting).tolist()) for meeting in np.unique(inside, axis=1).T]


def _exact(charges: list[Charge]) -> tuple[Decimal, Decimal]:
    """The composition as exact decimals."""
    sums = [_total([charges[i] for i in places]) for places in together(charges)]
    zero = Decimal(0)
    return max((e for e, _ in sums), default=zero), max((d for _, d in sums), default=zero)


def _total(charges: list[Charge]) -> tuple[Decimal, Decimal]:
    return (
        exact_sum(charge.guarantee.epsilon for charge in charges),
        exact_sum(charge.guarantee.delta for charge in charges),
    )


def _covers(ranges: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Whether each row lies in one of sorted ranges."""
    if not len(ranges):
        return np.zeros(len(rows), dtype=np.bool_)
    place = np.searchsorted(ranges[:, 0], rows, side="right") - 1
    return np.asarray((place >= 0) & (rows < ranges[place, 1]))
