"""The account: pure arithmetic of charges against a budget; the ledger stores them."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal, localcontext
from itertools import accumulate
from typing import Self

import numpy as np

from labeldp import _checks
from labeldp.errors import BudgetError, EpsilonError, RowsError
from labeldp.privacy._guarantee import Guarantee
from labeldp.privacy._rounding import EXACT, exact_sum, printed_above, shown_above, sum_of
from labeldp.privacy.accounting._concentrated import concentrated_epsilon, pure_rho

#: More ranges than this are charged as one range that covers them, which can only overstate the cost.
_MOST_RANGES = 1 << 18
#: What is left of a budget, for people.
_DOWN = Context(prec=7, rounding=ROUND_FLOOR)
#: An epsilon below which nothing is left, except rounding.
_NOTHING = Decimal("1e-6")


@dataclass(frozen=True)
class RowRanges:
    """Rows as sorted, disjoint, non-empty ranges ``[start, stop)``."""

    ranges: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        flat = [edge for pair in self.ranges for edge in pair]
        if flat and (flat[0] < 0 or any(a >= b for a, b in self.ranges) or flat != sorted(flat)):
            raise RowsError("expected sorted, disjoint, non-empty row ranges")

    @classmethod
    def all(cls, count: int) -> RowRanges:
        """The rows ``0 .. count - 1``."""
        return cls.between(0, count)

    @classmethod
    def between(cls, start: int, stop: int) -> RowRanges:
        """The rows ``start .. stop - 1``."""
        return cls(((start, stop),)) if start < stop else cls(())

    @property
    def stop(self) -> int:
        """One more than the last row."""
        return self.ranges[-1][1] if self.ranges else 0

    def holds(self, count: int) -> bool:
        """True if these are exactly ``count`` rows, not a range that covers scattered ones."""
        return sum(stop - start for start, stop in self.ranges) == count

    def meet(self, others: RowRanges) -> bool:
        """True if the two sets of rows intersect."""
        stops = [stop for _, stop in others.ranges]
        after = (bisect_right(stops, start) for start, _ in self.ranges)  # the first range that ends behind a start
        return any(
            i < len(stops) and others.ranges[i][0] < stop for (_, stop), i in zip(self.ranges, after, strict=True)
        )

    def may_be(self, count: int) -> bool:
        """True if these can be the ranges of ``count`` rows: exactly, or as one range that covers scattered ones."""
        single = len(self.ranges) == 1 and self.ranges[0][1] - self.ranges[0][0] > count > _MOST_RANGES
        return single or self.holds(count)

    @classmethod
    def of(cls, indices: np.ndarray) -> RowRanges:
        """The rows of an integer array without repeats; one range that covers them if they are too scattered."""
        if indices.dtype.kind not in "iu":
            raise RowsError(f"expected row numbers, found {indices.dtype}")
        if indices.size == 0:
            return cls(())
        first, last = int(indices[0]), int(indices[-1])
        if first >= 0 and last - first + 1 == indices.size and bool((indices[1:] > indices[:-1]).all()):
            return cls(((first, last + 1),))  # consecutive rows need no sorting
        rows = indices.astype(np.int64)
        rows.sort()
        gaps = np.diff(rows)
        if rows[0] < 0 or (gaps == 0).any():
            raise RowsError("expected each row at most once in a request; a repeated row would be drawn twice")
        breaks = np.flatnonzero(gaps > 1)
        if breaks.size >= _MOST_RANGES:
            return cls(((int(rows[0]), int(rows[-1]) + 1),))
        starts, stops = rows[np.r_[0, breaks + 1]], rows[np.r_[breaks, rows.size - 1]] + 1
        return cls(tuple((int(a), int(b)) for a, b in zip(starts, stops, strict=True)))


@dataclass(frozen=True)
class Charge:
    """The guarantee of one request, and the rows that it covers."""

    guarantee: Guarantee
    rows: RowRanges


@dataclass(frozen=True)
class Budget:
    """The largest total that may be charged to any unit.

    Attributes:
        epsilon: The largest total epsilon.
        delta: The failure probability at that epsilon.
        concentrated: Account by zero-concentrated privacy, which allows more requests if they are many and small; it
            needs a delta. By default epsilons and deltas are summed.
        apart: The part of delta reserved for charges that have a delta and no rho.

    Example:
        >>> from labeldp import Account, Budget, Charge, Guarantee
        >>> from labeldp.privacy.accounting import RowRanges
        >>> small = Charge(Guarantee(0.02), RowRanges.all(50))
        >>> [Account(Budget(2.0, 1e-6), (small,) * spent).allows(small) for spent in (99, 100)]
        [True, False]
        >>> concentrated = Budget(2.0, 1e-6, concentrated=True)
        >>> [Account(concentrated, (small,) * spent).allows(small) for spent in (439, 440)]
        [True, False]
    """

    epsilon: float
    delta: float = 0.0
    concentrated: bool = False
    apart: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _checks.epsilon(self.epsilon, "budget"))
        object.__setattr__(self, "delta", _checks.delta(self.delta))
        object.__setattr__(self, "apart", _checks.delta(self.apart, "apart"))
        if not isinstance(self.concentrated, bool):
            raise EpsilonError(f"expected concentrated to be True or False, found {type(self.concentrated).__name__}")
        if self.concentrated and not self.apart < self.delta:
            raise EpsilonError(
                f"expected a concentrated budget with a delta above apart, found delta {self.delta:g} and apart "
                f"{self.apart:g}; state a delta, such as 1e-6"
            )
        if self.apart and not self.concentrated:
            raise EpsilonError("expected apart with a concentrated budget alone, found it with another; leave it out")

    @classmethod
    def of(cls, budget: float | tuple[float, float] | Budget) -> Budget:
        """A budget from epsilon, from (epsilon, delta), or unchanged."""
        if isinstance(budget, Budget):
            return budget
        return cls(*budget) if isinstance(budget, tuple) else cls(budget)

    def may_follow(self, earlier: Budget) -> bool:
        """True if charges that an earlier budget admitted may be judged under this one.

        Sums may be judged under any sums. A filter by zero-concentrated privacy holds for its own delta: if results
        decide which of two deltas applies, the deltas may add up. So there epsilon alone may change, and all charges
        together have the largest epsilon that was ever stated.
        """
        return dataclasses.replace(self, epsilon=earlier.epsilon) == earlier or not (
            self.concentrated or earlier.concentrated
        )

    def __str__(self) -> str:
        how = f", of which {self.apart:g} apart, concentrated" if self.concentrated else ""
        return f"epsilon {self.epsilon:g}, delta {self.delta:g}{how}"


def _exactly(number: float) -> Decimal:
    """The decimal number that a float prints as."""
    return Decimal(repr(number))


def _both(epsilon: Decimal | float, delta: Decimal | float) -> str:
    """An epsilon, and a delta that is not 0, rounded up."""
    return f"epsilon {shown_above(epsilon, 7)}" + (f" and delta {shown_above(delta, 3)}" if delta else "")


def compose(charges: Iterable[Charge]) -> tuple[float, float]:
    """The (epsilon, delta) of several charges by basic composition: the largest sum over rows.

    Disjoint rows cost the maximum and a repeated request costs again, adaptively chosen or not. For privacy units of
    several rows, rows do not identify units and all charges are summed. Sums are exact, of the decimals that epsilons
    print as.

    Raises:
        BudgetError: The charges protect different units, whose epsilons cannot be added.

    References:
        Dwork and Roth 2014, theorem 3.16, for sums; McSherry 2009, theorem 4, for disjoint rows.
    """
    epsilon, delta = _largest_sums(list(charges))
    return printed_above(epsilon), printed_above(delta)


@dataclass(frozen=True)
class Account:
    """Charges against a budget.

    Guarantee:
        A filter: a request that would bring any row above the budget is refused before anything is drawn. However
        requests were chosen, all that was drawn under a budget is (epsilon, delta)-label-DP of a unit.

        **By sums.** On every path of results the privacy loss is at most the sum of epsilons, but for the deltas.

        **Concentrated.** A request passes where the deltas apart of all charges of a row are at most ``apart``, and

        1. the sum R of their rhos costs at most epsilon at ``delta - apart``: a charge counts with its rho if it has
           one, else with half the square of its epsilon and, if it has a delta, with that delta apart; or
        2. no charge rests on a rho and a delta, and the epsilons add up to at most epsilon.

        Why that holds, for two neighbours that differ in one unit, P and Q the laws of all results under each:

        * *Deltas apart.* Two laws that are (epsilon, delta)-close are a mixture each: with probability delta anything,
          else two laws that are epsilon-close (Kairouz, Oh and Viswanath 2015, theorem 3.3). So each such charge
          tosses a coin that is the same for both neighbours. On every path the probabilities of failing coins add
          up to at most ``apart``, hence some coin fails with at most that probability. Where none fails, P and Q
          have densities ``w P'`` and ``w Q'``, with the same w <= 1 on both sides and P', Q' the laws of requests
          that are pure. So the hockey-stick divergence of P and Q at epsilon is at most ``apart`` more than that of
          P' and Q'.
        * *Paths that end with more than the largest R that passes* were let through by the second rule to their
          end, since R only grows. There the loss of P' against Q' is at most the sum of epsilons, which is at most
          epsilon, and such a path adds nothing to the divergence.
        * *All other paths* are paths of an analyst who stops before R would exceed that largest R, with the same
          densities. For each order alpha, ``exp((alpha - 1)(L - alpha R))`` of the loss L and the sum R so far has a
          conditional mean of at most one at each step, also where requests are chosen by results. So at the end
          ``E[exp((alpha - 1) L)] <= exp((alpha - 1) alpha R)`` with the largest R, and the conversion of
          ``_concentrated`` bounds what these paths add by ``delta - apart``.

        ``apart`` is stated with the budget. If it could be traded for R while results come in, an analyst could
        spend the one where the other was spent in vain, and fail with nearly twice the delta.

    References:
        Feldman and Zrnic 2021 and Whitehouse, Ramdas, Rogers and Wu 2023, for filters by Rényi divergences and with
        deltas apart; Bun and Steinke 2016, section 8, for approximate zero-concentrated privacy.
    """

    budget: Budget
    charges: tuple[Charge, ...] = ()

    @property
    def spent(self) -> tuple[float, float]:
        """The (epsilon, delta) of all charges so far; for a concentrated budget, the smallest that admits them.

        That is the smallest epsilon of a budget with the same delta that admits these charges; its delta is 0 as long
        as they cost no more by sums of pure requests. The guarantee of adaptively chosen requests is the whole budget,
        however much of it is spent.
        """
        epsilon, delta = self._needed(self.charges)
        return printed_above(epsilon), printed_above(delta)

    @property
    def bound(self) -> tuple[float, float]:
        """The (epsilon, delta) that holds for all charges so far: what is spent, or a concentrated budget."""
        return (self.budget.epsilon, self.budget.delta) if self.budget.concentrated else self.spent

    def allows(self, charge: Charge) -> bool:
        """True if one more charge is within the budget."""
        return self._covers(*self._after(charge))

    def admit(self, charge: Charge) -> Account:
        """The account with one more charge.

        Raises:
            BudgetError: The charge would exceed the budget.
        """
        epsilon, delta = self._after(charge)
        if self._covers(epsilon, delta):
            return Account(self.budget, (*self.charges, charge))
        guarantee = charge.guarantee
        raise BudgetError(
            f"budget exceeded: {_both(guarantee.epsilon, guarantee.delta)} is requested, {_both(*self.spent)} is spent"
            f"{self._left()} of the budget ({self.budget}). Use the existing release, or allow more: "
            f"{self.larger(charge)}"
        )

    def larger(self, charge: Charge) -> str:
        """The smallest budget that allows one more charge, as an option; never below the budget in force."""
        guarantee = charge.guarantee
        alone = self.budget.concentrated and guarantee.delta and guarantee.rho is None
        why = "; a delta without a rho needs a reserve in the budget (Budget(..., apart=))" if alone else ""
        allowed = (self.budget.epsilon, self.budget.delta)
        epsilon, delta = (max(*pair) for pair in zip(self._after(charge), map(_exactly, allowed), strict=True))
        total = shown_above(epsilon, 7) + (f",{shown_above(delta, 3)}" if delta else "")
        return f"--budget {total} (budget=){why}"

    def makes(self, charge: Charge) -> str:
        """The total with one more charge, and the budget that it exceeds."""
        costs = (charge.guarantee.epsilon, charge.guarantee.delta), self._after(charge)
        one, whole = (_both(*cost).removeprefix("epsilon ") for cost in costs)
        budget = f"({self.budget})" if self.budget.delta else f"of {self.budget.epsilon:g}"
        return f"Another at {one} makes {whole}, above the budget {budget}"

    def _left(self) -> str:
        """The part of the budget that is left, rounded down, where parts add up."""
        if self.budget.concentrated:
            return ""
        whole = (self.budget.epsilon, self.budget.delta)
        left = [EXACT.subtract(*map(_exactly, pair)) for pair in zip(whole, self.spent, strict=True)]
        if left[0] < _NOTHING:
            return ", and nothing is left"
        epsilon, delta = (f"{_DOWN.plus(max(each, Decimal(0))).normalize():f}" for each in left)
        return f", and epsilon {epsilon}{f' and delta {delta}' if self.budget.delta else ''} is left"

    def _after(self, charge: Charge) -> tuple[Decimal, Decimal]:
        """The total with one more charge."""
        return self._needed([*self.charges, charge])

    def _covers(self, epsilon: Decimal, delta: Decimal) -> bool:
        return epsilon <= Decimal(repr(self.budget.epsilon)) and delta <= Decimal(repr(self.budget.delta))

    def _needed(self, charges: Sequence[Charge]) -> tuple[Decimal, Decimal]:
        """The (epsilon, delta) of the smallest budget of this kind that admits the charges."""
        return _largest_cost(charges, self._concentrated) if self.budget.concentrated else _largest_sums(charges)

    def _concentrated(self, total: _Total) -> tuple[Decimal, Decimal]:
        """The total by rhos or by sums, whichever is less; deltas apart are within ``apart`` if it is within delta."""
        apart = Decimal(repr(self.budget.apart))
        converted = EXACT.subtract(Decimal(repr(self.budget.delta)), apart)
        epsilon, delta = concentrated_epsilon(total.rho, converted), EXACT.add(total.apart, converted)
        if total.leans_on_rho or epsilon < total.epsilon:
            return epsilon, delta
        return total.epsilon, delta if total.apart else total.apart


def together(charges: Sequence[Charge]) -> list[tuple[int, ...]]:
    """The different sets of charges that meet in one unit, by their indices.

    For privacy units of several rows, rows do not identify units and all charges meet.

    Raises:
        BudgetError: The charges protect different units.
    """
    if not _are_of_rows(charges):
        return [tuple(range(len(charges)))]
    if not charges:
        return []
    if len(charges) == 1 and charges[0].rows.ranges:
        return [(0,)]
    bounds = [np.array(charge.rows.ranges, dtype=np.int64).reshape(-1, 2) for charge in charges]
    edges = np.unique(np.concatenate(bounds))
    inside = np.stack([_covers(ranges, edges[:-1]) for ranges in bounds])
    return [tuple(np.flatnonzero(meeting).tolist()) for meeting in np.unique(inside, axis=1).T]


def _are_of_rows(charges: Sequence[Charge]) -> bool:
    """True if the privacy unit of charges, which is one, is a row; of none too."""
    units = {charge.guarantee.spelled_unit: charge.guarantee.unit for charge in charges}
    if len(units) > 1:
        raise BudgetError(
            f"expected one privacy unit for all releases of these labels, found {', '.join(sorted(units.values()))}; "
            "use the unit of the earlier release"
        )
    return not units.keys() - {"row"}


def _largest_sums(charges: Sequence[Charge]) -> tuple[Decimal, Decimal]:
    """The largest sum of epsilons, and of deltas, of the charges that meet in one unit.

    Of rows, one pass over the ends of ranges in order: a sum changes nowhere else.
    """
    epsilons = [_exactly(charge.guarantee.epsilon) for charge in charges]
    deltas = [_exactly(charge.guarantee.delta) for charge in charges]
    if not _are_of_rows(charges):
        return sum_of(epsilons), sum_of(deltas)

    def largest(costs: Sequence[Decimal]) -> Decimal:
        steps: defaultdict[int, Decimal] = defaultdict(Decimal)
        with localcontext(EXACT):
            for cost, charge in zip(costs, charges, strict=True):
                for start, stop in charge.rows.ranges:
                    steps[start] += cost
                    steps[stop] -= cost
            return max(accumulate(steps[edge] for edge in sorted(steps)), default=Decimal(0))

    return largest(epsilons), largest(deltas) if any(deltas) else Decimal(0)


@dataclass(frozen=True)
class _Total:
    """Exact totals of the charges that meet in one unit.

    Attributes:
        epsilon: The sum of epsilons.
        delta: The sum of deltas.
        rho: The sum of rhos, each stated or bounded by its epsilon.
        apart: The sum of deltas of charges without a rho.
        leans_on_rho: True if a charge with a delta counts by its rho.
    """

    epsilon: Decimal
    delta: Decimal
    rho: Decimal
    apart: Decimal
    leans_on_rho: bool

    @classmethod
    def of(cls, charges: Sequence[Charge]) -> Self:
        guarantees = [charge.guarantee for charge in charges]
        return cls(
            epsilon=exact_sum(charge.guarantee.epsilon for charge in charges),
            delta=exact_sum(charge.guarantee.delta for charge in charges),
            rho=sum_of([pure_rho(g.epsilon) if g.rho is None else Decimal(repr(g.rho)) for g in guarantees]),
            apart=exact_sum(each.delta for each in guarantees if each.rho is None),
            leans_on_rho=any(each.delta and each.rho is not None for each in guarantees),
        )


def _largest_cost(
    charges: Sequence[Charge], cost: Callable[[_Total], tuple[Decimal, Decimal]]
) -> tuple[Decimal, Decimal]:
    """The largest cost, over units, of the charges that meet in one."""
    costs = [cost(_Total.of([charges[i] for i in places])) for places in together(charges)]
    zero = Decimal(0)
    return max((e for e, _ in costs), default=zero), max((d for _, d in costs), default=zero)


def _covers(ranges: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Mask of the rows that lie in one of the sorted ranges."""
    if not len(ranges):
        return np.zeros(len(rows), dtype=np.bool_)
    place = np.searchsorted(ranges[:, 0], rows, side="right") - 1
    return np.asarray((place >= 0) & (rows < ranges[place, 1]))
