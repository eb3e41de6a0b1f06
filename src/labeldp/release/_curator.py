"""The curator: the only door to the true labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from labeldp._words import SecureWords, Words, identifier
from labeldp.errors import InputError, LabelError
from labeldp.mechanisms import Randomizer, draw, expectation, grouped, per_unit, unit_sizes
from labeldp.privacy import Budget, Channel, Guarantee, LabelSpace, Rows, compose, row_arrays
from labeldp.release._certificate import Certificate, Draw
from labeldp.release._ledger import Entry, Ledger
from labeldp.release._release import Release
from labeldp.release._rows import row_numbers


class Curator:
    """Holds true labels, and gives them out only as releases that are charged for.

    Each request asks the account, records the charge, then draws. The account composes charges over rows:
    disjoint rows cost the maximum, a repeated request costs again.

    Args:
        labels: True labels, one for each row: a list, NumPy array, pandas series or Arrow array.
        space: The declared label space.
        budget: The most that may be spent: epsilon, or (epsilon, delta). By default the first release sets it.
        units: What tells units of protection apart, one entry for each row, public; by default each row is one.
        ledger: A file that remembers charges; by default this object does, and two curators know nothing of each
            other.
        name: The name under which a ledger knows these labels.

    Guarantee:
        * Every draw from a label was charged before it was made; a request beyond the budget draws nothing.
        * With ``units``, epsilon is that of all labels of one unit together.

    Example:
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> space = Classes(["no", "yes"])
        >>> curator = Curator(["yes", "no", "yes", "no"], space, budget=1.0)
        >>> release = curator.randomize(RandomizedResponse(space, epsilon=1.0))
        >>> curator.spent
        (1.0, 0.0)

    Raises:
        LabelError: A label is missing or not in the space.
    """

    def __init__(
        self,
        labels: object,
        space: LabelSpace,
        *,
        budget: float | tuple[float, float] | None = None,
        units: object = None,
        ledger: str | Path | None = None,
        name: str = "labels",
    ) -> None:
        if not isinstance(space, LabelSpace):
            raise LabelError(f"expected a declared label space, found {type(space).__name__}; write Classes([...])")
        self._codes = space.encode(labels)
        if self._codes.size == 0:
            raise InputError("expected at least one label, found none")
        self._unit = None if units is None else _unit_numbers(units, self._codes.size)
        self._ledger = Ledger(Path(ledger) if ledger is not None else None)
        self._budget = budget_of(budget)
        self._name = name
        self.space = space

    def randomize(self, randomizer: Randomizer, rows: object = None) -> Release:
        """Randomize labels, each once.

        Args:
            randomizer: The mechanism; where it has a prior, the prior has one row for each of ``rows``.
            rows: A slice, row numbers or a boolean mask; by default all rows.

        Returns:
            The release, in the order of ``rows``.

        Raises:
            BudgetError: The budget does not allow it; nothing was drawn.
            InputError: The randomizer is for another label space, or for another number of rows.
        """
        return self._randomize(randomizer, rows, SecureWords())

    @property
    def spent(self) -> tuple[float, float]:
        """The (epsilon, delta) charged so far."""
        mine = self._mark()
        return compose(e.charge for e in self._ledger.entries() if e.state != "void" and mine in e.marks)

    def __len__(self) -> int:
        return int(self._codes.size)

    def __repr__(self) -> str:
        return f"<Curator of {len(self)} labels in {self.space!r}, epsilon {self.spent[0]:.6g} spent>"

    def __reduce__(self) -> Any:
        raise TypeError("a curator holds true labels and is not copied; pass its releases around")

    def _randomize(self, randomizer: Randomizer, rows: object, words: Words) -> Release:
        """``randomize`` with given words; those of a test make a release that is not private."""
        if not isinstance(randomizer, Randomizer):
            raise InputError(f"expected a randomizer such as RandomizedResponse, found {type(randomizer).__name__}")
        if randomizer.space != self.space:
            raise InputError("expected a randomizer for the curator's label space, found one for another")
        index = row_numbers(rows, self._codes.size)
        channel = self._channel(randomizer, index)
        unit = "row" if self._unit is None else "unit"
        guarantee = Guarantee(channel.epsilon, unit=unit)
        entry = Entry(
            identifier(),
            self._name,
            (self._mark(),),
            randomizer.name,
            guarantee,
            Rows.of(index),
            asked=randomizer.epsilon,
        )
        with self._ledger.charged(entry, self._budget):
            codes = draw(channel, self._codes[index], words)
        charge = Draw.of(randomizer.name, channel, entry.rows, guarantee)
        certificate = Certificate(
            entry.identifier,
            self._name,
            self.space,
            index.size,
            (charge,),
            expectation(channel, randomizer.mass),
            private=words.private,
        )
        return Release(codes, channel, self.space, certificate)

    def _channel(self, randomizer: Randomizer, index: Int[np.ndarray, "n"]) -> Channel:
        channel = randomizer.channel()
        if self._unit is not None:
            _, place, counts = np.unique(self._unit[index], return_inverse=True, return_counts=True)
            return grouped(per_unit(randomizer, unit_sizes(counts)), counts[place])
        for values in row_arrays(channel).values():
            if len(values) != index.size:
                raise InputError(f"expected a prior for each of the {index.size} rows, found {len(values)} rows of it")
        return channel

    def _mark(self) -> str:
        return self._ledger.mark("name", self._name)


def budget_of(budget: float | tuple[float, float] | None) -> Budget | None:
    """A budget from epsilon or (epsilon, delta)."""
    if budget is None or isinstance(budget, Budget):
        return budget
    return Budget(*budget) if isinstance(budget, tuple) else Budget(budget)


def _unit_numbers(units: object, count: int) -> Int[np.ndarray, "n"]:
    """Units as numbers."""
    _, numbers = np.unique(np.asarray(units), return_inverse=True)
    if numbers.shape != (count,):
        raise InputError(f"expected a unit for each of the {count} labels, found shape {numbers.shape}")
    return np.asarray(numbers, dtype=np.int64)
