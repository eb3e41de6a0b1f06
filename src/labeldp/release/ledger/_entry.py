"""Charges as a ledger stores them, and as they count for the rows of a later request."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from labeldp._spelling import canonical
from labeldp._strict_json import read
from labeldp.privacy import Guarantee, printed_above
from labeldp.privacy.accounting import Budget, Charge, RowRanges
from labeldp.release.folder import Inode
from labeldp.release.ledger._same_data import ANY_ROWS, NO_PAIRS, SPELLING, RowPairs

State = Literal["charged", "drawn", "released", "void"]
#: The attributes that a ledger stores beside the body of a charge, or not at all.
_KNOWN_ELSEWHERE = ("identifier", "state", "time", "ledger")
#: The attributes that every ledger knew.
_ALWAYS_KNOWN = ("session", "units", "output", "budget")
#: The largest epsilon or rho, and the most rows, of a charge that is computed with.
_LARGEST, _MOST_ROWS = 1e15, 1 << 62


@dataclass(frozen=True)
class Entry:
    """One charge in the ledger.

    Attributes:
        identifier: The identifier of the release.
        label: The label column, or the curator's name of the labels.
        marks: Keyed fingerprints of the data; data sets that share one are taken to be the same. Data without any is
            taken to be the same as every other.
        mechanism: The name of the mechanism.
        guarantee: The guarantee.
        rows: The rows.
        session: Row numbers have one meaning within a session; rows of another session may be any rows.
        units: A keyed fingerprint of the assignment of rows to units, if that is no column.
        output: The output folder, or None if the release stays in memory.
        beside: The path of the output from the folder of the ledger, for when both were moved.
        staging: The inode of the staging folder of the output, which a copy does not have; None in older ledgers.
        lock: The inode of the lock that was held meanwhile; None in older ledgers and in memory.
        features: The treatment of the features of these rows: ``"kept"``, ``"redrawn"`` (resampled), or unknown.
        source: The release that a generator of resampled features was fitted on, whose features count as kept.
        asked: The requested epsilon, which is the budget if there is no other.
        budget: The budget in force after this charge.
        table: The path of the table.
        same: Earlier charges of what is taken to be the same data; None before data was compared row by row.
        shares: Earlier charges of some of the rows, which were told one by one.
        hashes: Names of the hashes by which its rows are recognized, which may be written after the charge; none in
            older ledgers.
        other_people: The reason for which the rows were declared to be other people's than any earlier ones.
        public: The columns that left, or from which a released column follows; empty in older ledgers.
        spelling: The version of the spelling in which its hashes know texts; 0 in older ledgers.
        spent: The (epsilon, delta) of these rows after this charge.
        state: ``"charged"`` while the outcome is unknown, ``"drawn"`` from the moment when a client may have seen
            labels, then ``"released"`` or ``"void"``.
        time: Time of the charge, UTC.
        ledger: The ledger that it was read from, which that ledger does not store.
    """

    identifier: str
    label: str
    marks: tuple[str, ...]
    mechanism: str
    guarantee: Guarantee
    rows: RowRanges
    asked: float
    session: str = ""
    units: str = ""
    output: str | None = None
    beside: str = ""
    staging: Inode | None = None
    lock: Inode | None = None
    budget: Budget | None = None
    features: Literal["", "kept", "redrawn"] = ""
    source: str = ""
    table: str = ""
    same: tuple[str, ...] | None = None
    shares: tuple[str, ...] = ()
    hashes: tuple[str, ...] = ()
    other_people: str = ""
    public: tuple[str, ...] = ()
    spelling: int = SPELLING
    spent: tuple[float, float] | None = None
    state: State = "charged"
    time: str = ""
    ledger: Path | None = field(default=None, compare=False)

    @property
    def of_any_data(self) -> bool:
        """True if the data cannot be recognized, and so may be any data; older ledgers marked its path alone."""
        return not self.marks or (self.same is None and len(self.marks) == 1)

    def is_of(self, label: str) -> bool:
        """True for a charge for a label of this name, in any spelling."""
        return canonical(self.label) == canonical(label)

    def protects(self, unit: str) -> bool:
        """True for a charge for units in a column of this name, in any spelling."""
        return self.guarantee.spelled_unit == dataclasses.replace(self.guarantee, unit=unit).spelled_unit

    def charge(self, session: str) -> Charge:
        """The charge in the account of a session; rows of another session may be any rows."""
        return Charge(self.named_guarantee, self.rows if self.session == session else ANY_ROWS)

    @property
    def named_guarantee(self) -> Guarantee:
        """The guarantee, whose unit is named after the assignment of rows to units too."""
        unit = f"{self.guarantee.unit} {self.units[:16]}" if self.units else self.guarantee.unit
        return dataclasses.replace(self.guarantee, unit=unit)

    def body(self) -> dict[str, Any]:
        """The entry as JSON, but for its identifier, state and time."""
        body = dataclasses.asdict(self)
        for name in _KNOWN_ELSEWHERE:
            del body[name]
        return body

    @classmethod
    def read(cls, name: str, time: str, body: dict[str, Any]) -> Entry:
        """The entry from ``body``, also of a ledger that knew fewer attributes.

        Raises:
            KeyError: An attribute is missing that every ledger knew.
            ValueError: An attribute is of another form.
        """
        known = {each.name for each in dataclasses.fields(cls)}.difference(_KNOWN_ELSEWHERE).intersection(body)
        found = {"spelling": 0} | {key: body[key] for key in (*_ALWAYS_KNOWN, *known)}
        entry: Entry = read(cls, {**found, "identifier": name, "time": time})
        parts = {each: getattr(entry, each) for each in ("guarantee", "budget", "rows")}
        unknown = any(found[each].keys() - dataclasses.asdict(part).keys() for each, part in parts.items() if part)
        numbers = (entry.asked, entry.guarantee.epsilon, entry.guarantee.rho or 0.0, *(entry.spent or ()))
        if unknown or entry.budget is None or not all(0 <= each <= _LARGEST for each in numbers):
            raise ValueError("attributes that are unknown, no budget, or a number that no charge has")
        if entry.rows.stop > _MOST_ROWS:
            raise ValueError("more rows than can be")
        if any(b"\0" in os.fsencode(each) for each in (entry.output or "", entry.beside)):
            raise ValueError("a path that no file can have")
        return entry


@dataclass(frozen=True)
class Earlier:
    """A charge as it counts for the rows of a request.

    Attributes:
        entry: The charge.
        rows: The rows of the request that it may concern.
        certain: True if these rows were told one by one, or by their numbers.
        labels_of_a_unit: The most of its rows that one privacy unit of the request may have; None if unknown.
        units: The number of the request's privacy units that it charged; None if unknown.
        pairs: Some rows of the request, each with the same row of this charge.
        same_people: True if most rows of one of the two are found in the other, by values that identify them.
    """

    entry: Entry
    rows: RowRanges
    certain: bool = True
    labels_of_a_unit: int | None = None
    units: int | None = None
    pairs: RowPairs = field(default=NO_PAIRS, repr=False, compare=False)
    same_people: bool = False

    def stays_with(self, request: Entry) -> bool:
        """True if the charge counts although a request's rows are declared other people's: they identify themselves.

        Rows that identify nobody are the same only if each of them is recognized, and both are of one file.
        """
        of_one_file = self.certain and self.entry.table == request.table != "" and self.rows == request.rows
        return self.same_people or of_one_file

    def charge(self, unit: str) -> Charge:
        """The charge for units of protection of a request.

        A guarantee for units of several rows holds for each of their rows. A pure one for rows holds for units with
        its epsilon times the most rows of one (Dwork and Roth 2014, theorem 2.2). All others keep their own unit, and
        have no sum with those of the request.
        """
        guarantee = self.entry.named_guarantee
        if unit == "row":
            guarantee = dataclasses.replace(guarantee, unit="row")
        elif guarantee.unit == "row" and self.labels_of_a_unit == 1:
            guarantee = dataclasses.replace(guarantee, unit=unit)
        elif guarantee.unit == "row" and not guarantee.delta and self.labels_of_a_unit is not None:
            epsilon = printed_above(Decimal(repr(guarantee.epsilon)) * self.labels_of_a_unit)
            guarantee = dataclasses.replace(guarantee, epsilon=epsilon, rho=None, unit=unit)
        return Charge(guarantee, self.rows)
