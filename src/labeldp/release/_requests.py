"""Mechanisms on tables: the columns that each reads, its guarantee, and its draws."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp._random_words import Words
from labeldp._shapes import Int
from labeldp.errors import EpsilonError, InputError
from labeldp.mechanisms.queries import ExchangedLabels, NoisyHistogram, PeerExchange
from labeldp.mechanisms.randomizers import (
    BinResponse,
    BitResponse,
    ClusterResponse,
    LaplaceResponse,
    NumberRandomizer,
    OneBitResponse,
    OptimalResponse,
    PiecewiseResponse,
    PriorResponse,
    PriorSubsetResponse,
    RandomizedResponse,
    Randomizer,
    SubsetResponse,
    best_number_response,
    best_response,
    best_unit_response,
    grouped,
    per_unit,
    unit_sizes,
)
from labeldp.mechanisms.resampling import DoubleResponse, DummyResponse, FeatureLaw
from labeldp.privacy import Guarantee, Interval, LabelSpace, rest_of
from labeldp.privacy.channels import Channel, law_of
from labeldp.release._answer import distributions_of
from labeldp.release._cluster_response import PAID, share_of_counts
from labeldp.release._counted_response import share_of_points
from labeldp.release.folder import CLUSTERS, answer_columns, column_name, column_types
from labeldp.release.tables import Survey, prior_of

AUTO, CLUSTER, PEER = "auto", "cluster", "peer"
DOUBLE, DUMMY = DoubleResponse.name, DummyResponse.name
BINS, OPTIMAL_COUNTS = BinResponse.name, "optimal-counts"
PRIOR, PRIOR_SUBSET = PriorResponse.name, PriorSubsetResponse.name

#: Mechanisms that need the prior of each row.
WITH_PRIOR: Mapping[str, type[PriorResponse | PriorSubsetResponse]] = MappingProxyType(
    {PRIOR: PriorResponse, PRIOR_SUBSET: PriorSubsetResponse}
)


def _best_randomizer(space: LabelSpace, epsilon: float) -> Randomizer:
    """The best randomizer for a label space, without a prior."""
    return best_number_response(space, epsilon) if isinstance(space, Interval) else best_response(space, epsilon)


#: Mechanisms by their name on the command line; all others need more of the table than its labels.
MECHANISMS: Mapping[str, Callable[[LabelSpace, float], Randomizer]] = MappingProxyType(
    {
        AUTO: _best_randomizer,
        RandomizedResponse.name: RandomizedResponse,
        SubsetResponse.name: SubsetResponse,
        BitResponse.name: BitResponse,
    }
)

#: Mechanisms for labels on an interval.
NUMBER_MECHANISMS: Mapping[str, Callable[[Interval, float], NumberRandomizer]] = MappingProxyType(
    {
        OptimalResponse.name: OptimalResponse,
        PiecewiseResponse.name: PiecewiseResponse,
        OneBitResponse.name: OneBitResponse,
        LaplaceResponse.name: LaplaceResponse,
    }
)

#: Mechanisms for numbers whose channel a curator fits to noisy counts of all labels.
COUNTED: Mapping[str, Callable[[Interval, float, np.ndarray], NumberRandomizer]] = MappingProxyType(
    {BINS: BinResponse, OPTIMAL_COUNTS: OptimalResponse}
)

_ALL = np.ones(())


@dataclass(frozen=True)
class ReleaseRequest:
    """A request to release the labels of a table.

    Attributes:
        label: The label column.
        space: The declared label space.
        epsilon: The cost of each row's label, or of all labels of one unit.
        mechanism: The name of the mechanism.
        prior: The prior's columns, in class order.
        unit: The column of the privacy unit.
        clusters: The number of each row's cluster.
        delta: The failure probability of an exchange between peers.
        response: The mechanism, if features are resampled or not released.
        features: The distribution of the released features then.
    """

    label: str
    space: LabelSpace
    epsilon: float
    mechanism: str
    prior: tuple[str, ...] = ()
    unit: str | None = None
    clusters: Int[np.ndarray, "n"] | None = None
    delta: float = 0.0
    response: DoubleResponse | DummyResponse | None = None
    features: FeatureLaw | None = None


@dataclass(frozen=True)
class TableDraw:
    """The draws for the whole table, and the channels of its batches.

    Attributes:
        charges: The name, law and guarantee of each charge.
        channel: The channel of a batch that begins at a row, and its candidates' mass, or None.
        released: Without a channel: the released columns of a range of rows, all drawn together.
        features: The released features of a batch that begins at a row, if they are not released unchanged.
        notes: Private notes for the curator, once everything is drawn.
    """

    charges: tuple[tuple[str, Mapping[str, Any], Guarantee], ...]
    channel: Callable[[pa.RecordBatch, int], tuple[Channel, np.ndarray]] | None = None
    released: Callable[[slice], dict[str, pa.Array]] = lambda _: {}
    features: Callable[[pa.RecordBatch, int], pa.Table] | None = None
    notes: Callable[[], tuple[str, ...]] = lambda: ()


@dataclass(frozen=True)
class TableMechanism:
    """A mechanism on a table.

    Attributes:
        name: The name of the mechanism.
        guarantee: The guarantee that is charged before anything is drawn.
        added: The columns that it adds to the public ones, with their types.
        begin: Makes the draws for the whole table, from a random stream of its own.
        columns: The columns that it reads besides the label.
        declared: Assumptions that are declared and not checked.
        features: The distribution of the features, if they are not released unchanged.
        types: The types of features then, by name.
    """

    name: str
    guarantee: Guarantee
    added: Mapping[str, pa.DataType]
    begin: Callable[[Words], TableDraw]
    columns: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    features: FeatureLaw | None = None
    types: Mapping[str, pa.DataType] = field(default_factory=dict)


@dataclass
class LabelCounts:
    """Counts of true labels, or all of them, for mechanisms that need them before the first draw. They stay private.

    Attributes:
        request: The request.
        counts: For cluster response the number of labels of each class in each cluster; for mechanisms of numbers that
            count first the number at each grid point, as a single cluster.
        codes: All labels, for peers.
    """

    request: ReleaseRequest
    counts: Int[np.ndarray, "clusters k"] = field(init=False, repr=False)
    codes: Int[np.ndarray, "n"] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        clusters = self.request.clusters
        cells = int(clusters.max()) + 1 if clusters is not None else int(self.request.mechanism in COUNTED)
        shape = (cells, self.request.space.size) if cells else (0, 0)
        peers = clusters is not None and self.request.mechanism == PEER
        self.counts = np.zeros((0, 0) if peers else shape, dtype=np.int64)
        self.codes = np.zeros(len(clusters) if peers and clusters is not None else 0, dtype=np.int8)

    def add(self, codes: Int[np.ndarray, "m"], first: int) -> None:
        """Add the labels of a batch."""
        if self.request.clusters is None:
            if len(self.counts):
                self.counts[0] += np.bincount(codes, minlength=self.request.space.size)
            return
        rows = slice(first, first + len(codes))
        clusters = self.request.clusters[rows]
        if len(clusters) != len(codes):
            raise InputError("expected a cluster for each row, found more rows than clusters")
        if self.request.mechanism == PEER:
            self.codes[rows] = codes
        else:
            np.add.at(self.counts, (clusters, codes), 1)


def check_mechanism(request: ReleaseRequest) -> None:
    """Refuse an inconsistent request before the table is read.

    Raises:
        InputError: The mechanism is unknown or does not go with the other options.
        EpsilonError: The epsilon cannot be expressed, or a delta is missing.
        LabelError: Peers have more than two classes.
    """
    if request.mechanism not in _BUILDERS:
        raise InputError(f"expected a mechanism among {', '.join(_BUILDERS)}, found {request.mechanism!r}")
    if request.unit and request.mechanism in (*WITH_PRIOR, *COUNTED, CLUSTER, PEER, DOUBLE, DUMMY):
        raise InputError(
            f"expected a mechanism that randomizes each label alone with --unit, found {request.mechanism!r}; use auto"
        )
    if request.mechanism == PEER:
        PeerExchange.check(request.space)
        if not request.delta:
            raise EpsilonError("expected a delta above 0 for an exchange between peers, found none; pass --delta")
    if request.mechanism in COUNTED:
        _uniform_randomizer(request)
    if request.mechanism in (*MECHANISMS, *NUMBER_MECHANISMS, *WITH_PRIOR):
        _randomizer(request)


def mechanism_on_table(request: ReleaseRequest, survey: Survey, labels: LabelCounts) -> TableMechanism:
    """The requested mechanism on a surveyed table.

    Raises:
        InputError: The number of clusters is not that of the rows.
    """
    if request.clusters is not None and len(request.clusters) != survey.rows:
        raise InputError(f"expected a cluster for each of the {survey.rows} rows, found {len(request.clusters)}")
    return _BUILDERS[request.mechanism](request, survey, labels)


def _randomizer(request: ReleaseRequest) -> Randomizer:
    """The requested randomizer; with a prior, for no rows."""
    if request.mechanism in WITH_PRIOR:
        return WITH_PRIOR[request.mechanism](request.space, request.epsilon, np.empty((0, request.space.size)))
    if request.mechanism in NUMBER_MECHANISMS:
        return NUMBER_MECHANISMS[request.mechanism](_interval(request), request.epsilon)
    return MECHANISMS[request.mechanism](request.space, request.epsilon)


def _channel_mechanism(
    request: ReleaseRequest,
    name: str,
    channel: Channel,
    channel_of_batch: Callable[[pa.RecordBatch, int], tuple[Channel, np.ndarray]],
    columns: Sequence[str] = (),
    declared: Sequence[str] = (),
) -> TableMechanism:
    """A mechanism that randomizes labels one by one."""
    guarantee = Guarantee(channel.epsilon, unit=request.unit or "row")
    draw = TableDraw(((name, law_of(channel), guarantee),), channel_of_batch)
    added = column_types(request.label, request.space, channel)
    return TableMechanism(name, guarantee, added, lambda _: draw, tuple(columns), tuple(declared))


def _label_mechanism(request: ReleaseRequest, survey: Survey, _: LabelCounts) -> TableMechanism:
    """A mechanism for each label alone, or for the labels of each unit."""
    randomizer = _randomizer(request)
    if request.unit is None or survey.units is None:
        channel = randomizer.channel()
        return _channel_mechanism(request, randomizer.name, channel, lambda *_: (channel, _ALL))
    units, unit, sizes = survey.units, request.unit, unit_sizes(survey.units.counts)
    if request.mechanism == AUTO and not isinstance(randomizer, NumberRandomizer):
        randomizer = best_unit_response(randomizer, sizes[-1])
    channel_of_units = per_unit(randomizer, sizes)
    declared = f"the column {unit!r} tells units of protection apart, is public, and was declared so"

    def of_unit(batch: pa.RecordBatch, _: int) -> tuple[Channel, np.ndarray]:
        return grouped(channel_of_units, units.rows_per_unit(batch[unit])), _ALL

    return _channel_mechanism(request, randomizer.name, channel_of_units, of_unit, (unit,), (declared,))


def _prior_mechanism(request: ReleaseRequest, _: Survey, __: LabelCounts) -> TableMechanism:
    """A mechanism that draws each label from the candidates of its prior."""
    columns, kind = list(request.prior), WITH_PRIOR[request.mechanism]

    def of_prior(batch: pa.RecordBatch, first: int) -> tuple[Channel, np.ndarray]:
        randomizer = kind(request.space, request.epsilon, prior_of(batch, columns, first))
        return randomizer.channel(), randomizer.mass

    declared = f"the prior columns {columns[0]!r} ... are public and were not computed from labels"
    return _channel_mechanism(request, kind.name, _randomizer(request).channel(), of_prior, columns, (declared,))


def _cluster_mechanism(request: ReleaseRequest, _: Survey, labels: LabelCounts) -> TableMechanism:
    """A noisy histogram of each cluster, and labels that respond towards it, charged together."""
    space, clusters = request.space, _clusters_of(request)
    first = share_of_counts(clusters, request.epsilon) * request.epsilon
    second = rest_of(request.epsilon, first)
    query = NoisyHistogram(space, first, clusters)
    rows = np.bincount(clusters)
    # the distribution that is hardest to express, so that no request is refused after its labels were counted
    extreme = np.eye(space.size)[np.zeros(query.cell_count, dtype=np.int64)]
    template = ClusterResponse(space, second, extreme, clusters).channel()
    counted = query.promise(1)

    def begin(words: Words) -> TableDraw:
        noisy = query.values(labels.counts, query.rate(1), words)
        likely = np.where(rows[:, None] > 0, distributions_of(noisy), 1 / space.size)
        response = ClusterResponse(space, second, likely, clusters)
        channel, mass = response.channel(), response.mass
        charges = ((query.name, query.law(1), counted), _response_charge(response))

        def of_rows(batch: pa.RecordBatch, row: int) -> tuple[Channel, np.ndarray]:
            return channel.take(slice(row, row + batch.num_rows)), mass

        return TableDraw(charges, of_rows)

    return TableMechanism(
        CLUSTER, _total_guarantee(counted, request), column_types(request.label, space, template), begin
    )


def _counted_mechanism(request: ReleaseRequest, survey: Survey, labels: LabelCounts) -> TableMechanism:
    """Noisy counts of the labels, and numbers by the channel that is best for them, charged together."""
    space, template = _interval(request), _uniform_randomizer(request).channel()
    first = share_of_points(survey.rows, space.size, request.epsilon) * request.epsilon
    second = rest_of(request.epsilon, first)
    query = NoisyHistogram(space, first)
    counted = query.promise(1)

    def begin(words: Words) -> TableDraw:
        prior = distributions_of(query.values(labels.counts, query.rate(1), words))[0]
        response = COUNTED[request.mechanism](space, second, prior)
        channel = response.channel()
        charges = ((query.name, query.law(1), counted), _response_charge(response))
        return TableDraw(charges, lambda *_: (channel, _ALL))

    added = column_types(request.label, space, template)
    declared = (f"the prior over grid points {PAID}",)
    return TableMechanism(request.mechanism, _total_guarantee(counted, request), added, begin, declared=declared)


def _response_charge(response: Randomizer) -> tuple[str, Mapping[str, Any], Guarantee]:
    """The charge for labels that respond to noisy counts."""
    channel = response.channel()
    return response.name, law_of(channel), Guarantee(channel.epsilon)


def _total_guarantee(counted: Guarantee, request: ReleaseRequest) -> Guarantee:
    """The total guarantee of counts and responses, without the rho, which is that of the counts alone."""
    return dataclasses.replace(counted, epsilon=request.epsilon, rho=None)


def _uniform_randomizer(request: ReleaseRequest) -> NumberRandomizer:
    """The randomizer of a mechanism that counts, for uniform counts: an impossible request is refused with it."""
    space = _interval(request)
    return COUNTED[request.mechanism](space, request.epsilon, np.full(space.size, 1 / space.size))


def _interval(request: ReleaseRequest) -> Interval:
    if not isinstance(request.space, Interval):
        raise InputError(
            f"expected a numeric label (--interval) for {request.mechanism!r}, found declared classes; use 'auto' or "
            "another mechanism for classes"
        )
    return request.space


def _peer_mechanism(request: ReleaseRequest, _: Survey, labels: LabelCounts) -> TableMechanism:
    """Labels that peers exchange in clusters, with the smallest flip probability for epsilon at delta."""
    space, clusters = request.space, _clusters_of(request)
    sizes = np.unique(np.bincount(clusters)[np.unique(clusters)])
    peers = PeerExchange.calibrate(request.epsilon, request.delta, sizes.tolist())
    query = ExchangedLabels(space, peers, clusters, request.delta)
    guarantee, law = query.promise(1), query.law(1)
    name = column_name(request.label, CLUSTERS)

    def begin(words: Words) -> TableDraw:
        codes = query.answer(labels.codes, 1, words)

        def released(rows: slice) -> dict[str, pa.Array]:
            return {**answer_columns(codes[rows], request.label, law, space), name: pa.array(clusters[rows])}

        return TableDraw(((query.name, law, guarantee),), released=released)

    none = answer_columns(np.empty(0, dtype=np.int8), request.label, law, space)
    added = {column: array.type for column, array in none.items()} | {name: pa.int32()}
    return TableMechanism(PEER, guarantee, added, begin)


def _row_mechanism(request: ReleaseRequest, _: Survey, __: LabelCounts) -> TableMechanism:
    """Labels by randomized response, with resampled features or none."""
    response, law = request.response, request.features
    if response is None or law is None:
        raise InputError(f"expected a generator for {request.mechanism!r}, found none")
    channel = response.labels.channel()
    law.conditional(channel)  # refuse an impossible guarantee before any charge
    charge = (response.name, law_of(channel), Guarantee(channel.epsilon))

    def begin(words: Words) -> TableDraw:
        def drawn(batch: pa.RecordBatch, first: int) -> pa.Table:
            assert isinstance(response, DoubleResponse)  # noqa: S101 (only then are features released)
            features = pa.Table.from_batches([batch])
            original = response.original_features(features, batch.num_rows)
            moved.append(int(response.misfits(features).sum()))
            return response.draw(original, words, first)

        def notes() -> tuple[str, ...]:
            note = (
                f"{sum(moved):,} rows had features outside the generator's form: they were moved to the nearest inside"
            )
            return (note,) if any(moved) else ()

        moved: list[int] = []
        features = drawn if isinstance(response, DoubleResponse) else None
        return TableDraw((charge,), lambda *_: (channel, _ALL), features=features, notes=notes)

    added = column_types(request.label, request.space, channel)
    schema = response.generator.form.schema if isinstance(response, DoubleResponse) else pa.schema([])
    types = dict(zip(schema.names, schema.types, strict=True))
    return TableMechanism(response.name, charge[2], added, begin, declared=law.assumptions, features=law, types=types)


_BUILDERS: Mapping[str, Callable[[ReleaseRequest, Survey, LabelCounts], TableMechanism]] = MappingProxyType(
    {
        **dict.fromkeys(MECHANISMS, _label_mechanism),
        **dict.fromkeys(NUMBER_MECHANISMS, _label_mechanism),
        **dict.fromkeys(WITH_PRIOR, _prior_mechanism),
        **dict.fromkeys(COUNTED, _counted_mechanism),
        CLUSTER: _cluster_mechanism,
        PEER: _peer_mechanism,
        DOUBLE: _row_mechanism,
        DUMMY: _row_mechanism,
    }
)


def _clusters_of(request: ReleaseRequest) -> Int[np.ndarray, "n"]:
    if request.clusters is None:
        raise InputError(f"expected clusters for the mechanism {request.mechanism!r}, found none; pass --clusters")
    return request.clusters
