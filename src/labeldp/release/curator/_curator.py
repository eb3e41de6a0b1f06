"""The curator: the only access to true labels held in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from labeldp import _checks
from labeldp._random_words import SecureWords, WatchedSource, WatchedWords, Words, WordSource, identifier
from labeldp._spelling import canonical
from labeldp.errors import InputError, LabelError
from labeldp.mechanisms.queries import Query, charged_law
from labeldp.mechanisms.randomizers import Randomizer, best_randomizer, check_registered
from labeldp.mechanisms.resampling import POPULATION, DoubleResponse, DummyResponse, FeatureLaw
from labeldp.privacy import Guarantee, LabelSpace, rest_of, shown_above
from labeldp.privacy.accounting import Budget, RowRanges
from labeldp.release.curator._drawing import Drawing, DrawnFeatures
from labeldp.release.curator._sink import MemorySink, Sink
from labeldp.release.curator._source import (
    ArraySource,
    BatchChannels,
    Places,
    RowChannels,
    Source,
    assumed_of_rows,
    size_of,
)
from labeldp.release.folder import FEATURES_REDRAWN, Certificate, Draw, digest
from labeldp.release.ledger import Admitted, Entry, Ledger, features_left, spent_on
from labeldp.release.released import (
    OWN_LEDGER,
    Answer,
    Origin,
    Release,
    RowIdentity,
    RowRelease,
    check_names,
    identities_digest,
    identity_of,
    identity_of_names,
    labels_identity,
    no_features,
    refuse_labels,
    row_places,
)
from labeldp.release.tables import disk_path, unit_numbers


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
        ledger: A file for the charges, or a ``Ledger``, also of a team. By default this object keeps them for itself.
        name: The name of these labels in the ledger; by default that of a pandas series, or ``"label"``.
            Labels of one name in one ledger are taken to be the same.
        identity: The identity of each row, such as a patient number: all different, public. If work continues in
            another process, curators of one ledger with the same identities in the same order recognize each other's
            rows, so that different rows cost the maximum and not the sum. Pass a property of the rows, never their
            positions in a table. By default, or if one identity or the order differs, the rows of other curators are
            not recognized.

    Of the index of labels in a pandas series digests are kept: tables, features, priors, cells and masks whose index is
    of other rows, or of the same rows in another order, are refused (``RowsError``). Without an index, ``identity`` is
    compared.

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
        InputError: There is no label, or units or identities are missing, or units have the label's own name.
        LabelError: A label is missing or not in the space.
        RowsError: Units or identities have an index of other rows than the labels.
    """

    _closed, _is_named = False, True
    _before_draw: Callable[[], None] = staticmethod(lambda: None)

    def __init__(
        self,
        labels: object,
        space: LabelSpace,
        *,
        budget: float | tuple[float, float] | Budget | None = None,
        units: object = None,
        ledger: str | Path | Ledger | None = None,
        name: str | None = None,
        identity: object = None,
    ) -> None:
        if not isinstance(space, LabelSpace):
            raise LabelError(
                f"expected a declared label space, found {type(space).__name__}; write Classes([...]) for classes, or "
                "Interval(low, high, step) for numbers"
            )
        codes, rows = space.encode(labels), labels_identity(labels, identity)
        if codes.size == 0:
            raise InputError("expected at least one label, found none")
        for given, what in ((units, "units"), (identity, "identities")):
            if rows is not None and rows.kind != "identity":
                rows.check(identity_of(given), what)
        numbers = None if units is None else unit_numbers(units, codes.size)
        self._source: Source = ArraySource(*(space, codes, numbers), identified=identity is not None, identity=rows)
        self._sink: Sink = MemorySink()
        self._ledger = ledger if isinstance(ledger, Ledger) else Ledger(None if ledger is None else disk_path(ledger))
        self._budget = None if budget is None else Budget.of(budget)
        given = name or getattr(labels, "name", None)
        self._name, self._is_named = str(given or "label"), bool(given)
        if identity is None:
            self._session = identifier()
        else:
            self._session = f"rows {self._ledger.mark('rows', identities_digest(identity, codes.size))}"
        self._units = "" if numbers is None else self._ledger.mark("units", digest(numbers.tobytes()))
        named = None if units is None else getattr(units, "name", None)
        if named is not None and self._is_named and canonical(str(named)) == canonical(self._name):
            raise InputError(
                f"expected units, which are public, found a series with the name of the label, {named!r}; pass the "
                "column that tells people apart"
            )
        self._public = () if named is None else (str(named),)

    @classmethod
    def _of(cls, source: Source, sink: Sink, charged: Entry, before_draw: Callable[[], None] = lambda: None) -> Curator:
        """A curator of a source, whose releases go to a sink, and together cost no more than a charge in a ledger.

        ``before_draw`` is called before anything is drawn for a request.
        """
        curator = object.__new__(cls)
        curator._source, curator._sink, curator._name = source, sink, charged.label
        curator._budget = Budget(charged.guarantee.epsilon, charged.guarantee.delta)
        curator._ledger, curator._session, curator._units, curator._public = Ledger(), identifier(), "", ()
        curator._before_draw = before_draw
        return curator

    def randomize(
        self, randomizer: Randomizer | None = None, rows: object = None, *, epsilon: float | None = None
    ) -> Release:
        """Randomize labels, each once.

        Args:
            randomizer: The mechanism; a prior has one row for each of ``rows``. By default the best one without a prior
                for the label space at ``epsilon``, which the command line calls *auto*.
            rows: A slice, row numbers or a boolean mask; by default all rows.
            epsilon: The privacy cost, if no randomizer is passed, which has its own.

        Returns:
            The release, in the order of ``rows``.

        Example:
            >>> from labeldp import Classes, Curator
            >>> curator = Curator(["no", "yes"] * 50, Classes(["no", "yes"]), budget=2.0)
            >>> release = curator.randomize(epsilon=0.5)
            >>> release.guarantee.epsilon, curator.remaining
            (0.5, 1.5)

        Raises:
            BudgetError: The budget does not allow it; nothing was drawn.
            InputError: The randomizer is for another label space, or for another number of rows; or both a randomizer
                and an epsilon were passed, or neither.
            RowsError: The prior or the clusters have an index of other rows than the labels; nothing was charged.
        """
        if (randomizer is None) == (epsilon is None):
            found = "neither" if epsilon is None else "both"
            raise InputError(f"expected a randomizer or an epsilon (epsilon=1.0), found {found}; pass one")
        if randomizer is None:
            most = self.labels_of_a_unit if self.has_units else None
            randomizer = best_randomizer(self.space, _checks.epsilon(epsilon), most)
        release: Release = self._randomize(randomizer, rows)
        return release

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
        release: RowRelease = self._randomize_rows(response, features, rows, divergences, population)
        return release

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
            RowsError: The features or the cells have an index of other rows than the labels; nothing was charged.
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
            self._entry("check", Guarantee(epsilon, unit=self._source.unit), whole, self._places(rows))
            for epsilon, rows in requests
        ]
        self._ledger.allows(charges, self._budget)

    @property
    def space(self) -> LabelSpace:
        """The declared label space."""
        return self._source.space

    @property
    def name(self) -> str:
        """The name of these labels in a ledger."""
        return self._name

    @property
    def origin(self) -> str:
        """Public text that is equal for curators of the same labels: their name, or else the session of their rows.

        Labels without a name are known again in this object alone, or by the identities of their rows on one ledger.
        """
        return f"labels named {self._name}" if self._is_named else f"session {self._session}"

    @property
    def has_units(self) -> bool:
        """True if units of several rows were declared."""
        return self._source.unit != "row"

    @property
    def labels_of_a_unit(self) -> int:
        """Largest number of labels of one privacy unit."""
        return self._source.labels_of_a_unit(slice(0, len(self)))

    @property
    def spent(self) -> tuple[float, float]:
        """The (epsilon, delta) charged so far, composed as the budget of the last charge does.

        Under a concentrated budget this is the epsilon, at the budget's delta, of the smallest budget that allows the
        same requests, or the sum of pure requests at delta 0 as long as that is smaller.
        """
        return spent_on(self._ledger.entries(), self._name, self._session)

    @property
    def budget(self) -> Budget | None:
        """The budget in force: the one that was passed, else that of the last charge; None before the first."""
        known = [charge.budget for charge in self.charges if charge.budget]
        return self._budget or (known[-1] if known else None)

    @property
    def charges(self) -> tuple[Entry, ...]:
        """The charges for these labels so far, oldest first; those of requests that drew nothing are left out."""
        return tuple(each for each in self._ledger.entries() if each.is_of(self._name) and each.state != "void")

    @property
    def remaining(self) -> float:
        """The epsilon of the largest request for all rows that the budget still allows; infinite before a budget.

        Of a concentrated budget that is the difference of epsilons, and more or less may be allowed: ``check`` tells.
        """
        budget = self.budget
        if budget is None:
            return float("inf")
        return max(0.0, rest_of(budget.epsilon, self.spent[0]))

    @property
    def identity(self) -> RowIdentity | None:
        """Digests of the index of the labels, or of their declared identities; None if rows are known by position."""
        return self._source.identity

    def __len__(self) -> int:
        return self._source.rows

    def __repr__(self) -> str:
        return f"<Curator of {len(self)} labels in {self.space!r}, epsilon {shown_above(self.spent[0], 7)} spent>"

    def __reduce__(self) -> Any:
        raise TypeError("a curator holds true labels and cannot be copied; pass its releases instead")

    def _randomize(self, randomizer: Randomizer, rows: object = None, words: Words | None = None) -> Any:
        """``randomize`` into any sink, with a source of random words; with a test source, a release is not private."""
        if not isinstance(randomizer, Randomizer):
            raise InputError(
                f"expected a randomizer such as RandomizedResponse, found {type(randomizer).__name__}; pass an epsilon "
                "by its name: randomize(epsilon=1.0)"
            )
        self._check_space(randomizer, "randomizer")
        places = self._places(rows)
        self._check_names(randomizer, places)
        channels = self._source.channels(randomizer, places)
        check_registered(type(randomizer), channels.whole)
        declared = (*assumed_of_rows(channels.whole), *randomizer.declared)
        return self._draw_labels(randomizer.name, randomizer.epsilon, places, channels, declared, words)

    def _draw_labels(
        self,
        name: str,
        asked: float,
        places: Places,
        channels: BatchChannels,
        declared: tuple[str, ...],
        words: WordSource | None = None,
    ) -> Any:
        """Charge and draw labels alone, into any sink."""
        guarantee = Guarantee(channels.whole.epsilon, unit=self._source.unit)
        entry = self._entry(name, guarantee, asked, places)
        words = words or self._sink.words or SecureWords()
        return self._release(entry, places, channels, words, (*self._declared(entry), *declared))

    def _randomize_rows(
        self,
        response: DoubleResponse | DummyResponse,
        features: object,
        rows: object,
        divergences: Mapping[float, float] | None,
        population: str,
        words: WordSource | None = None,
        feature_words: Words | None = None,
    ) -> Any:
        """``randomize_rows`` into any sink, with sources of random words for labels and for features."""
        words, feature_words = words or self._sink.words or SecureWords(), feature_words or SecureWords()
        if type(response) not in (DoubleResponse, DummyResponse):
            raise InputError(f"expected a DoubleResponse or a DummyResponse, found {type(response).__name__}")
        self._check_space(response, "mechanism")
        if self.has_units:
            raise InputError(
                "expected a curator of single rows, found units of several rows; use a randomizer for those"
            )
        places, labels = self._places(rows), response.labels.channel()
        columns: tuple[str, ...] = ()
        if isinstance(response, DoubleResponse):
            columns = tuple(response.generator.form.names)
            check_names(columns, self._name, self.space)
            law, original = response.law(population, divergences), self._source.features(response, features, places)
            drawn = DrawnFeatures.resampled(law, response, original, feature_words)
        else:
            no_features(features, divergences)
            law = FeatureLaw.without_features(self.space.size)
            drawn = DrawnFeatures.none(law, feature_words)
        law.conditional(labels)  # refuse an impossible guarantee before any charge
        entry = dataclasses.replace(
            self._entry(response.name, Guarantee(labels.epsilon), response.epsilon, places),
            features="redrawn" if law.generator else "",
            source=law.paid_split,
            public=columns,
        )
        channels = RowChannels(labels, response.labels.mass, columns=columns)
        declared = (*self._source.declared(features=True), *law.assumptions)
        return self._release(entry, places, channels, words, declared, drawn)

    def _release(
        self,
        entry: Entry,
        places: Places,
        channels: BatchChannels,
        words: WordSource,
        declared: tuple[str, ...],
        features: DrawnFeatures | None = None,
    ) -> Any:
        """Charge, draw labels and features batch by batch into the sink, and certify."""
        watched = WatchedSource(words)
        columns = tuple(dict.fromkeys((*channels.columns, *self._sink.columns)))
        drawing = Drawing(*(self._source, places, columns, channels, watched, entry.identifier), features=features)
        with self._admitted(entry, watched) as admitted:
            drawing = dataclasses.replace(drawing, origin=Origin.of(entry, admitted.earlier))
            expects, release = self._sink.take(drawing)
        charge = Draw.of(entry.mechanism, channels.whole, entry.rows, entry.guarantee)
        certificate = self._certificate(entry, charge, places, declared, words)
        if features:
            private = words.private and features.private
            certificate = dataclasses.replace(certificate, features=features.law, private=private)
        return release(dataclasses.replace(certificate, expects=expects))

    def _answer(self, query: Query, rows: object, words: Words, whole: float | None = None) -> Answer:
        """``answer`` with a source of random words; a test source makes an answer that is not private."""
        if not isinstance(query, Query):
            raise InputError(f"expected a query such as NoisyHistogram, found {type(query).__name__}")
        self._check_space(query, "query")
        places = self._places(rows)
        query.check_rows(size_of(places))
        self._check_names(query, places)
        most = self._source.labels_of_a_unit(places)
        law = charged_law(query, most)
        guarantee = dataclasses.replace(query.promise(most), unit=self._source.unit)
        entry = self._entry(query.name, guarantee, whole or query.requested_epsilon(most), places)
        declared = (*self._declared(entry), *guarantee.assumptions)
        watched = WatchedWords(words)
        with self._admitted(entry, watched) as admitted:
            value = self._source.answer(query, places, most, watched)
        charge = Draw(query.name, law, entry.rows, guarantee)
        certificate = self._certificate(entry, charge, places, declared, words)
        identity = None if self.identity is None else self.identity.take(places)
        return Answer(value, certificate, identity, (Origin.of(entry, admitted.earlier),))

    @contextmanager
    def _admitted(self, entry: Entry, watched: WatchedSource | WatchedWords) -> Iterator[Admitted]:
        """Charge for a request whose public columns pass the gate; what is drawn meanwhile is paid for."""
        with self._ledger.charged(entry, self._budget, lambda: watched.taken) as admitted:
            labels = [each.entry.label for each in admitted.earlier]
            refuse_labels(dict.fromkeys(entry.public, "this request"), labels, OWN_LEDGER)
            self._begin_draw()
            yield admitted

    def _close(self) -> None:
        """Refuse all later requests: what they would draw is charged nowhere."""
        with self._ledger.exclusive():
            self._closed = True

    def _begin_draw(self) -> None:
        """Tell who waits for a first draw; refuse draws after the release of a table."""
        if self._closed:
            raise InputError(
                "expected a request while the release of the table is in progress, found one after it; make another "
                "release"
            )
        self._before_draw()

    def _places(self, rows: object) -> Places:
        return row_places(rows, len(self), self.identity)

    def _check_space(self, mechanism: Randomizer | Query | DoubleResponse | DummyResponse, what: str) -> None:
        if mechanism.space != self.space:
            raise InputError(f"expected a {what} for the curator's label space, found one for another space")

    def _check_names(self, mechanism: Randomizer | Query, places: Places) -> None:
        """Refuse a mechanism whose public parameters have the index of other rows."""
        if self.identity is not None:
            rows = self.identity.take(places)
            for what, names in mechanism.row_names.items():
                rows.check(identity_of_names(names), what)

    def _entry(self, name: str, guarantee: Guarantee, asked: float, places: Places) -> Entry:
        """The ledger entry for a request about some rows."""
        rows = RowRanges.between(places.start, places.stop) if isinstance(places, slice) else RowRanges.of(places)
        return Entry(
            *(identifier(), self._name, (), name, guarantee, rows),
            asked=asked,
            session=self._session,
            units=self._units,
            public=self._public,
        )

    def _certificate(
        self, entry: Entry, charge: Draw, places: Places, declared: tuple[str, ...], words: WordSource
    ) -> Certificate:
        return Certificate(
            *(entry.identifier, self._name, self.space, size_of(places), (charge,)),
            expects=None,
            assumptions=declared,
            private=words.private,
        )

    def _declared(self, entry: Entry) -> tuple[str, ...]:
        """The assumptions of every release; after resampled features, that true ones are not kept beside it."""
        resampled = (FEATURES_REDRAWN,) if features_left(self._ledger.of_session(entry), entry.rows, "redrawn") else ()
        return (*self._source.declared(features=False), *resampled)
