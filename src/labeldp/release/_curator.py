"""The curator: the only door to the true labels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Int

from labeldp._words import SecureWords, WatchedWords, Words, identifier
from labeldp.errors import InputError, LabelError
from labeldp.mechanisms import draw
from labeldp.mechanisms.features import DoubleResponse, DummyResponse, FeatureLaw
from labeldp.mechanisms.queries import Query
from labeldp.mechanisms.randomizers import Randomizer, expectation, grouped, per_unit, unit_sizes
from labeldp.privacy import Guarantee, LabelSpace, shown_above
from labeldp.privacy.accounting import Budget, RowRanges
from labeldp.privacy.channels import Channel, ClusterChannel, candidate_sizes, row_arrays
from labeldp.release._answer import Answer
from labeldp.release._release import Release
from labeldp.release._row_index import row_numbers, row_places
from labeldp.release._row_release import POPULATION, RowRelease, check_names, no_features
from labeldp.release.folder import FEATURES_REDRAWN, Certificate, Draw, digest
from labeldp.release.ledger import Entry, Ledger, features_left, spent_on
from labeldp.release.tables import unit_keys

_FROM_ELSEWHERE = "is public and was not computed from these labels, but through answers and releases that cost extra"
_ROW_SET = "the row order and the row set are public, and do not depend on labels or features"
_IDENTITY = "the identities of rows were declared: public, and of one row each"


class Curator:
    """Holds true labels, and gives them out only as releases and answers that are charged for.

    Each request asks the account, records the charge, then draws. The account composes charges over rows:
    disjoint rows cost the maximum, a repeated request costs again.

    Args:
        labels: True labels, one for each row: a list, NumPy array, pandas series or Arrow array.
        space: The declared label space.
        budget: The most that may be spent: epsilon, (epsilon, delta), or a ``Budget``, which can be concentrated: that
            allows more requests where they are many and small. By default the first release sets it.
        units: What tells units of protection apart, one entry for each row, public; by default each row is one.
        ledger: A file that remembers charges; by default this object does, and two curators know nothing of each
            other.
        name: The name under which a ledger knows these labels; by default that of a pandas series, or ``"label"``.
            Labels of one name in one ledger are taken for the same.
        identity: What tells rows apart, such as a number of each patient: one entry for each row, all different,
            public. Where work that was stopped goes on in another process, curators of one ledger that are given the
            same identities in the same order know each other's rows, so that different rows cost the largest and not
            the sum. Give what belongs to the rows, never their places in a table. By default no other curator's rows
            are known, and neither are they where one identity differs or is elsewhere.

    Guarantee:
        * Every draw from a label was charged before it was made; a request beyond the budget draws nothing. Where a
          request fails, its charge is void if no random word was taken, and stays if one was.
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
        budget: float | tuple[float, float] | Budget | None = None,
        units: object = None,
        ledger: str | Path | None = None,
        name: str | None = None,
        identity: object = None,
    ) -> None:
        if not isinstance(space, LabelSpace):
            raise LabelError(f"expected a declared label space, found {type(space).__name__}; write Classes([...])")
        self._codes = space.encode(labels)
        self._codes.flags.writeable = False  # queries are given parts of it
        if self._codes.size == 0:
            raise InputError("expected at least one label, found none")
        self._unit = None if units is None else _unit_numbers(units, self._codes.size)
        self._ledger = Ledger(Path(ledger) if ledger is not None else None)
        self._budget = budget_of(budget)
        self._name = str(name or getattr(labels, "name", None) or "label")
        self._identified = identity is not None
        self._session = (
            f"rows {self._ledger.mark('rows', _rows_mark(identity, self._codes.size))}"
            if self._identified
            else identifier()
        )
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

    def randomize_rows(
        self,
        response: DoubleResponse | DummyResponse,
        features: object = None,
        rows: object = None,
        *,
        divergences: Mapping[float, float] | None = None,
        population: str = POPULATION,
    ) -> RowRelease:
        """Randomize labels and features together, or labels without any features.

        Args:
            response: The mechanism.
            features: The features of ``rows``, in their order: a frame, an Arrow table or an array with the columns of
                the generator. Values that do not fit its form become the nearest ones that do. None without features.
            rows: A slice, row numbers or a boolean mask; by default all rows.
            divergences: For each order alpha, the most by which the features of any label diverge from the generator's
                of all labels mixed (Rényi, in nats), which you declare. By default what the generator's density proves;
                if that is nothing, nothing is promised with conditional features.
            population: Whose features these are, in words: for the sentence of the guarantee.

        Returns:
            The release, in the order of ``rows``.

        Raises:
            BudgetError: The budget does not allow it; nothing was drawn.
            InputError: The features do not go with the generator or it has seen them, features of these rows were
                released before, the curator has units, or the generator fails. Then nothing leaves, and nothing is
                charged.
        """
        return self._randomize_rows(response, features, rows, divergences, population, SecureWords(), SecureWords())

    def answer(self, query: Query, rows: object = None, *, whole: float | None = None) -> Answer:
        """Answer a query about many labels at once, with noise that hides each.

        Args:
            query: The question; where it has cells, they are those of ``rows``.
            rows: A slice, row numbers or a boolean mask; by default all rows.
            whole: The epsilon of all requests that this is the first of; it becomes the budget if none is in force.

        Returns:
            The answer, with its guarantee: a trusted curator's.

        Raises:
            BudgetError: The budget does not allow it; nothing was drawn.
            InputError: The query is for another label space, or for another number of rows.
        """
        return self._answer(query, rows, SecureWords(), whole)

    def check(self, requests: Sequence[tuple[float, object]], whole: float) -> None:
        """Make sure that several requests will be allowed, before the first of them is made. Nothing is charged.

        Args:
            requests: The epsilon and the rows of each.
            whole: The epsilon that becomes the budget with the first request, if none is in force.

        Raises:
            BudgetError: The budget does not allow them.
        """
        charges = [
            self._entry("check", Guarantee(epsilon, unit=self._unit_name), whole, row_places(rows, self._codes.size))
            for epsilon, rows in requests
        ]
        self._ledger.allows(charges, self._budget)

    @property
    def name(self) -> str:
        """The name under which a ledger knows these labels."""
        return self._name

    @property
    def has_units(self) -> bool:
        """Whether units of several rows were declared."""
        return self._unit is not None

    @property
    def labels_of_a_unit(self) -> int:
        """The most labels that a unit of protection has."""
        return 1 if self._unit is None else int(np.bincount(self._unit).max())

    @property
    def spent(self) -> tuple[float, float]:
        """The (epsilon, delta) charged so far, as the budget of the last charge counts them.

        Under a concentrated budget it is the epsilon, at the budget's delta, of the smallest budget that allows the
        same requests; while sums of pure requests are smaller, it is their sum at delta 0.
        """
        return spent_on(self._ledger.entries(), self._name, (), self._session)

    def __len__(self) -> int:
        return int(self._codes.size)

    def __repr__(self) -> str:
        return f"<Curator of {len(self)} labels in {self.space!r}, epsilon {shown_above(self.spent[0], 7)} spent>"

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
        guarantee = Guarantee(channel.epsilon, unit=self._unit_name)
        entry = self._entry(randomizer.name, guarantee, randomizer.epsilon, index)
        declared = self._declared(entry)
        watched = WatchedWords(words)
        with self._ledger.charged(entry, self._budget, lambda: watched.taken):
            codes = draw(channel, self._codes[index], watched)
        charge = Draw.of(randomizer.name, channel, entry.rows, guarantee)
        certificate = Certificate(
            entry.identifier,
            self._name,
            self.space,
            index.size,
            (charge,),
            expectation(channel, randomizer.mass),
            assumptions=(*declared, *_priors(channel), *randomizer.declared),
            private=words.private,
        )
        return Release(codes, channel, self.space, certificate)

    def _randomize_rows(
        self,
        response: DoubleResponse | DummyResponse,
        features: object,
        rows: object,
        divergences: Mapping[float, float] | None,
        population: str,
        words: Words,
        feature_words: Words,
    ) -> RowRelease:
        """``randomize_rows`` with given words, of labels and of features."""
        if not isinstance(response, DoubleResponse | DummyResponse):
            raise InputError(f"expected a DoubleResponse or a DummyResponse, found {type(response).__name__}")
        if response.space != self.space:
            raise InputError("expected a mechanism for the curator's label space, found one for another")
        if self.has_units:
            raise InputError("expected rows that are units of their own, found units of several rows")
        index = row_numbers(rows, self._codes.size)
        leaving: Callable[[], pa.Table]
        if isinstance(response, DoubleResponse):
            check_names(response.generator.form.names, self._name, self.space)
            law, original = response.law(population, divergences), response.original_features(features, index.size)
            leaving = partial(response.draw, original, feature_words)
        else:
            no_features(features, divergences)
            law, leaving = FeatureLaw.without_features(self.space.size), partial(pa.table, {})
        channel = response.labels.channel()
        law.conditional(channel)  # what cannot be promised is refused before anything is charged
        guarantee = Guarantee(channel.epsilon)
        entry = dataclasses.replace(
            self._entry(response.name, guarantee, response.epsilon, index),
            features="redrawn" if law.generator else "",
            source=law.paid_split,
        )
        watched = WatchedWords(words)
        with self._ledger.charged(entry, self._budget, lambda: watched.taken):
            drawn = leaving()  # before the labels: a generator may fail
            released = draw(channel, self._codes[index], watched)
        certificate = Certificate(
            entry.identifier,
            self._name,
            self.space,
            index.size,
            (Draw.of(response.name, channel, entry.rows, guarantee),),
            expectation(channel, response.labels.mass),
            assumptions=(_ROW_SET, *self.space.declared, *self._identity, *law.assumptions),
            private=words.private and feature_words.private,
            features=law,
        )
        return RowRelease(Release(released, channel, self.space, certificate), drawn)

    def _answer(self, query: Query, rows: object, words: Words, whole: float | None = None) -> Answer:
        """``answer`` with given words; those of a test make an answer that is not private."""
        if not isinstance(query, Query):
            raise InputError(f"expected a query such as NoisyHistogram, found {type(query).__name__}")
        if query.space != self.space:
            raise InputError("expected a query for the curator's label space, found one for another")
        places = row_places(rows, self._codes.size)
        codes = self._codes[places]
        query.check_rows(codes.size)
        most = 1 if self._unit is None else int(np.unique(self._unit[places], return_counts=True)[1].max(initial=1))
        guarantee = dataclasses.replace(query.promise(most), unit=self._unit_name)
        entry = self._entry(query.name, guarantee, whole or query.requested_epsilon(most), places)
        declared = self._declared(entry)
        watched = WatchedWords(words)
        with self._ledger.charged(entry, self._budget, lambda: watched.taken):
            value = query.answer(codes, most, watched)
        certificate = Certificate(
            entry.identifier,
            self._name,
            self.space,
            codes.size,
            (Draw(query.name, query.law(most), entry.rows, guarantee),),
            expects=None,
            assumptions=(*declared, *guarantee.assumptions),
            private=words.private,
        )
        return Answer(value, certificate)

    def _entry(self, name: str, guarantee: Guarantee, asked: float, places: slice | Int[np.ndarray, "n"]) -> Entry:
        """The charge for a request about some rows."""
        return Entry(
            identifier(),
            self._name,
            (),
            name,
            guarantee,
            RowRanges.between(places.start, places.stop) if isinstance(places, slice) else RowRanges.of(places),
            asked=asked,
            session=self._session,
            units=self._unit_mark(),
        )

    @property
    def _unit_name(self) -> str:
        return "row" if self._unit is None else "unit"

    def _declared(self, entry: Entry) -> tuple[str, ...]:
        """What is declared for all that leaves; of features that left redrawn, that they are not beside it."""
        redrawn = (FEATURES_REDRAWN,) if features_left(self._ledger.entries(), entry, ["redrawn"]) else ()
        public = "columns kept beside what is released, the row order and the row set are public"
        units = ("the units were declared, and who is one unit with whom is public",) if self.has_units else ()
        return (public, *self.space.declared, *units, *self._identity, *redrawn)

    @property
    def _identity(self) -> tuple[str, ...]:
        """What is declared of the identities of rows."""
        return (_IDENTITY,) if self._identified else ()

    def _channel(self, randomizer: Randomizer, index: Int[np.ndarray, "n"]) -> Channel:
        channel = randomizer.channel()
        if self._unit is not None:
            _, place, counts = np.unique(self._unit[index], return_inverse=True, return_counts=True)
            return grouped(per_unit(randomizer, unit_sizes(counts)), counts[place])
        for values in row_arrays(channel).values():
            if len(values) != index.size:
                raise InputError(f"expected a prior for each of the {index.size} rows, found {len(values)} rows of it")
        return channel

    def _unit_mark(self) -> str:
        """A fingerprint of who is one unit with whom: other units cannot be added up with these."""
        return "" if self._unit is None else self._ledger.mark("units", digest(self._unit.tobytes()))


def _priors(channel: Channel) -> tuple[str, ...]:
    """What a curator is told of the law of each row and cannot check."""
    if candidate_sizes(channel) is not None:
        return (f"the prior {_FROM_ELSEWHERE}",)
    if channel.kind == ClusterChannel.kind:
        return (f"the clusters are public, and the distribution of classes in each {_FROM_ELSEWHERE}",)
    return ()


def budget_of(budget: float | tuple[float, float] | Budget | None) -> Budget | None:
    """A budget from epsilon, from (epsilon, delta), or as it is."""
    if budget is None or isinstance(budget, Budget):
        return budget
    return Budget(*budget) if isinstance(budget, tuple) else Budget(budget)


def _rows_mark(identity: object, count: int) -> str:
    """A digest of public identities in their order; of so many, all different."""
    try:
        values = pa.array(identity, from_pandas=True).to_pylist()
    except (pa.ArrowException, TypeError, ValueError, AttributeError):
        raise InputError("expected identities that are all numbers or all texts, found something else") from None
    written = list(map(repr, values))
    if len(values) != count or None in values or len(set(written)) != count:
        raise InputError(
            f"expected another identity for each of the {count} labels, found {len(values)}, or some that are missing "
            "or the same; give a column whose values are all different"
        )
    return digest("\n".join(written).encode())


def _unit_numbers(units: object, count: int) -> Int[np.ndarray, "n"]:
    """Units as numbers."""
    try:
        column = pa.array(units, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        raise InputError("expected units that are all numbers, all texts or all dates, found something else") from None
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if len(column) != count:
        raise InputError(f"expected a unit for each of the {count} labels, found {len(column)}")
    _, numbers = np.unique(unit_keys(column), return_inverse=True)
    return np.asarray(numbers, dtype=np.int64)
