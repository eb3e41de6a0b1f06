"""The curator: the only access to true labels held in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp._random_words import SecureWords, WatchedWords, Words, identifier
from labeldp._shapes import Int
from labeldp.errors import InputError, LabelError
from labeldp.mechanisms import draw
from labeldp.mechanisms.queries import Query, charged_law
from labeldp.mechanisms.randomizers import Randomizer, expectation, grouped, per_unit, unit_sizes
from labeldp.mechanisms.resampling import DoubleResponse, DummyResponse, FeatureLaw
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
    """Holder of true labels, which leave it only as releases and answers that are charged.

    Each request is checked against the account, then recorded as a charge, then drawn. The account composes charges
    over rows: disjoint rows cost the maximum, a repeated request costs again.

    Args:
        labels: True labels, one for each row: a list, NumPy array, pandas series or Arrow array.
        space: The declared label space.
        budget: The largest total cost: epsilon, (epsilon, delta), or a ``Budget``, which can be concentrated to allow
            more small requests. By default the first release sets it.
        units: The privacy unit of each row, public; by default each row is one unit.
        ledger: A file for the charges; by default they are kept in this object, and two curators do not share them.
        name: The name of these labels in the ledger; by default that of a pandas series, or ``"label"``.
            Labels of one name in one ledger are taken to be the same.
        identity: The identity of each row, such as a patient number: all different, public. If work continues in
            another process, curators of one ledger with the same identities in the same order recognize each other's
            rows, so that different rows cost the maximum and not the sum. Pass a property of the rows, never their
            positions in a table. By default, or if one identity or the order differs, the rows of other curators are
            not recognized.

    Guarantee:
        * Every draw is charged before it is made; a request beyond the budget draws nothing. The charge of a request
          that fails is void if no random word was used, and stays otherwise.
        * With ``units``, epsilon covers all labels of one unit together.

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
        self._codes.flags.writeable = False  # queries receive views of it
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
            randomizer: The mechanism; a prior has one row for each of ``rows``.
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
                the generator. Values outside its form become the nearest ones inside. None without features.
            rows: A slice, row numbers or a boolean mask; by default all rows.
            divergences: For each order alpha, your declared bound on the Rényi divergence (in nats) of the features of
                any label from the generator's, all labels mixed. By default the bound from the generator's density;
                without any there is no guarantee with conditional features.
            population: A description of the population, for the sentence of the guarantee.

        Returns:
            The release, in the order of ``rows``.

        Raises:
            BudgetError: The budget does not allow it; nothing was drawn.
            InputError: The features do not fit the generator or it was fitted on them, features of these rows were
                released before, the curator has units, or the generator fails. Nothing is released or charged then.
        """
        return self._randomize_rows(response, features, rows, divergences, population, SecureWords(), SecureWords())

    def answer(self, query: Query, rows: object = None, *, whole: float | None = None) -> Answer:
        """Answer a query about many labels, with noise that protects each.

        Args:
            query: The query; its cells, if any, are those of ``rows``.
            rows: A slice, row numbers or a boolean mask; by default all rows.
            whole: The total epsilon of a protocol that begins with this request; the budget if there is none.

        Returns:
            The answer, with the guarantee of a trusted curator.

        Raises:
            BudgetError: The budget does not allow it; nothing was drawn.
            InputError: The query is for another label space, or for another number of rows.
        """
        return self._answer(query, rows, SecureWords(), whole)

    def check(self, requests: Sequence[tuple[float, object]], whole: float) -> None:
        """Check that the budget allows several requests, before the first is made. Nothing is charged.

        Args:
            requests: The epsilon and the rows of each.
            whole: The epsilon that becomes the budget with the first request, if there is none.

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
        """The name of these labels in a ledger."""
        return self._name

    @property
    def has_units(self) -> bool:
        """True if units of several rows were declared."""
        return self._unit is not None

    @property
    def labels_of_a_unit(self) -> int:
        """Largest number of labels of one privacy unit."""
        return 1 if self._unit is None else int(np.bincount(self._unit).max())

    @property
    def spent(self) -> tuple[float, float]:
        """The (epsilon, delta) charged so far, composed as the budget of the last charge does.

        Under a concentrated budget this is the epsilon, at the budget's delta, of the smallest budget that allows the
        same requests, or the sum of pure requests at delta 0 as long as that is smaller.
        """
        return spent_on(self._ledger.entries(), self._name, (), self._session)

    def __len__(self) -> int:
        return int(self._codes.size)

    def __repr__(self) -> str:
        return f"<Curator of {len(self)} labels in {self.space!r}, epsilon {shown_above(self.spent[0], 7)} spent>"

    def __reduce__(self) -> Any:
        raise TypeError("a curator holds true labels and is not copied; pass its releases around")

    def _randomize(self, randomizer: Randomizer, rows: object, words: Words) -> Release:
        """``randomize`` with a source of random words; a test source makes a release that is not private."""
        if not isinstance(randomizer, Randomizer):
            raise InputError(f"expected a randomizer such as RandomizedResponse, found {type(randomizer).__name__}")
        if randomizer.space != self.space:
            raise InputError("expected a randomizer for the curator's label space, found one for another space")
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
        """``randomize_rows`` with sources of random words for labels and for features."""
        if not isinstance(response, DoubleResponse | DummyResponse):
            raise InputError(f"expected a DoubleResponse or a DummyResponse, found {type(response).__name__}")
        if response.space != self.space:
            raise InputError("expected a mechanism for the curator's label space, found one for another space")
        if self.has_units:
            raise InputError(
                "expected a curator of single rows, found units of several rows; use a randomizer for those"
            )
        index = row_numbers(rows, self._codes.size)
        draw_features: Callable[[], pa.Table]
        if isinstance(response, DoubleResponse):
            check_names(response.generator.form.names, self._name, self.space)
            law, original = response.law(population, divergences), response.original_features(features, index.size)
            draw_features = partial(response.draw, original, feature_words)
        else:
            no_features(features, divergences)
            law, draw_features = FeatureLaw.without_features(self.space.size), partial(pa.table, {})
        channel = response.labels.channel()
        law.conditional(channel)  # refuse an impossible guarantee before any charge
        guarantee = Guarantee(channel.epsilon)
        entry = dataclasses.replace(
            self._entry(response.name, guarantee, response.epsilon, index),
            features="redrawn" if law.generator else "",
            source=law.paid_split,
        )
        watched = WatchedWords(words)
        with self._ledger.charged(entry, self._budget, lambda: watched.taken):
            released_features = draw_features()  # before the labels: a generator may fail
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
        return RowRelease(Release(released, channel, self.space, certificate), released_features)

    def _answer(self, query: Query, rows: object, words: Words, whole: float | None = None) -> Answer:
        """``answer`` with a source of random words; a test source makes an answer that is not private."""
        if not isinstance(query, Query):
            raise InputError(f"expected a query such as NoisyHistogram, found {type(query).__name__}")
        if query.space != self.space:
            raise InputError("expected a query for the curator's label space, found one for another space")
        places = row_places(rows, self._codes.size)
        codes = self._codes[places]
        query.check_rows(codes.size)
        most = 1 if self._unit is None else int(np.unique(self._unit[places], return_counts=True)[1].max(initial=1))
        law = charged_law(query, most)
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
            (Draw(query.name, law, entry.rows, guarantee),),
            expects=None,
            assumptions=(*declared, *guarantee.assumptions),
            private=words.private,
        )
        return Answer(value, certificate)

    def _entry(self, name: str, guarantee: Guarantee, asked: float, places: slice | Int[np.ndarray, "n"]) -> Entry:
        """The ledger entry for a request about some rows."""
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
        """The assumptions of every release; after resampled features, that true ones are not kept beside it."""
        resampled = (FEATURES_REDRAWN,) if features_left(self._ledger.entries(), entry, ["redrawn"]) else ()
        public = "columns kept beside what is released, the row order and the row set are public"
        units = ("the units were declared, and who is one unit with whom is public",) if self.has_units else ()
        return (public, *self.space.declared, *units, *self._identity, *resampled)

    @property
    def _identity(self) -> tuple[str, ...]:
        """The assumption about the identities of rows."""
        return (_IDENTITY,) if self._identified else ()

    def _channel(self, randomizer: Randomizer, index: Int[np.ndarray, "n"]) -> Channel:
        channel = randomizer.channel()
        if self._unit is not None:
            _, place, counts = np.unique(self._unit[index], return_inverse=True, return_counts=True)
            return grouped(per_unit(randomizer, unit_sizes(counts)), counts[place])
        for values in row_arrays(channel).values():
            if len(values) != index.size:
                raise InputError(
                    f"expected a prior with one row for each of the {index.size} rows, found {len(values)} rows"
                )
        return channel

    def _unit_mark(self) -> str:
        """A fingerprint of the assignment of rows to units; charges for other units cannot be added to these."""
        return "" if self._unit is None else self._ledger.mark("units", digest(self._unit.tobytes()))


def _priors(channel: Channel) -> tuple[str, ...]:
    """The assumptions about the channel of each row, which a curator cannot check."""
    if candidate_sizes(channel) is not None:
        return (f"the prior {_FROM_ELSEWHERE}",)
    if channel.kind == ClusterChannel.kind:
        return (f"the clusters are public, and the distribution of classes in each {_FROM_ELSEWHERE}",)
    return ()


def budget_of(budget: float | tuple[float, float] | Budget | None) -> Budget | None:
    """A ``Budget`` from epsilon, from (epsilon, delta), or unchanged."""
    if budget is None or isinstance(budget, Budget):
        return budget
    return Budget(*budget) if isinstance(budget, tuple) else Budget(budget)


def _rows_mark(identity: object, count: int) -> str:
    """A digest of public identities in order, after a check that there are ``count``, all different."""
    try:
        values = pa.array(identity, from_pandas=True).to_pylist()
    except (pa.ArrowException, TypeError, ValueError, AttributeError):
        raise InputError(
            "expected identities that are all numbers or all texts, found something else; convert them to text"
        ) from None
    texts = list(map(repr, values))
    if len(values) != count or None in values or len(set(texts)) != count:
        raise InputError(
            f"expected a different identity for each of the {count} labels, found {len(values)}, or missing or equal "
            "ones; pass a column whose values are all different"
        )
    return digest("\n".join(texts).encode())


def _unit_numbers(units: object, count: int) -> Int[np.ndarray, "n"]:
    """Convert units to numbers."""
    try:
        column = pa.array(units, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        raise InputError(
            "expected units that are all numbers, all texts or all dates, found something else; convert them to text"
        ) from None
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if len(column) != count:
        raise InputError(f"expected a unit for each of the {count} labels, found {len(column)}")
    _, numbers = np.unique(unit_keys(column), return_inverse=True)
    return np.asarray(numbers, dtype=np.int64)
