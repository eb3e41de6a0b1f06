"""Mechanisms on tables by their name on the command line: the guarantee of each, and its requests to a curator."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp._checks import nearest
from labeldp._shapes import Int
from labeldp.errors import EpsilonError, InputError
from labeldp.mechanisms.queries import CellQuery, ExchangedLabels, NoisyHistogram, NoisyQuantile, PeerExchange
from labeldp.mechanisms.randomizers import (
    RANDOMIZERS,
    BinResponse,
    ClassRandomizer,
    ClusterResponse,
    GroupResponse,
    NumberRandomizer,
    OptimalResponse,
    Randomizer,
    best_randomizer,
    check_registered,
    class_randomizers,
    number_randomizers,
)
from labeldp.mechanisms.resampling import DoubleResponse, DummyResponse, FeatureLaw
from labeldp.privacy import Classes, ClassProbabilities, Guarantee, Interval, LabelSpace, rest_of
from labeldp.privacy.channels import Channel
from labeldp.release._answer import Answer
from labeldp.release._cluster_response import cluster_response, share_of_counts
from labeldp.release._counted_response import counted, share_of_points
from labeldp.release._curator import Curator
from labeldp.release._row_release import POPULATION
from labeldp.release._sink import Written
from labeldp.release._source import Batch, BatchChannels, TableSource
from labeldp.release.folder import CLUSTERS, answer_columns, column_name, column_types
from labeldp.release.tables import prior_of

AUTO, CLUSTER, PEER = "auto", "cluster", "peer"
HISTOGRAM, QUANTILE = NoisyHistogram.name, NoisyQuantile.name
DOUBLE, DUMMY = DoubleResponse.name, DummyResponse.name
BINS, OPTIMAL_COUNTS = BinResponse.name, "optimal-counts"


#: Mechanisms by their name on the command line; all others need more of the table than its labels.
MECHANISMS: Mapping[str, Callable[[LabelSpace, float], Randomizer]] = MappingProxyType(
    {**{kind.name: kind for kind in class_randomizers()}, AUTO: best_randomizer}
)

#: Mechanisms for labels on an interval.
NUMBER_MECHANISMS: Mapping[str, type[NumberRandomizer]] = MappingProxyType(
    {kind.name: kind for kind in number_randomizers()}
)

#: Mechanisms that need the prior of each row.
WITH_PRIOR: Mapping[str, Callable[..., ClassRandomizer]] = MappingProxyType(
    {
        kind.name: kind
        for kind in RANDOMIZERS.every()
        if issubclass(kind, ClassRandomizer) and kind.needs() == ("prior",)
    }
)

#: Letters of a list of classes in an error.
_MOST_SHOWN = 200
#: Mechanisms that no engine can share out, and why.
_ALONE: Mapping[str, str] = MappingProxyType(
    {
        PEER: "peers of one cluster exchange labels, wherever their rows are",
        QUANTILE: "its scores need all labels in one place",
        DOUBLE: "features are private, so the split into files is, and all rows go into one file",
        DUMMY: "features are private, so the split into files is, and all rows go into one file",
    }
)

#: Mechanisms for numbers whose channel a curator fits to noisy counts of all labels.
COUNTED: Mapping[str, Callable[[Interval, float, np.ndarray], NumberRandomizer]] = MappingProxyType(
    {BINS: BinResponse, OPTIMAL_COUNTS: OptimalResponse}
)


@dataclass(frozen=True)
class Resampling:
    """The treatment of features that are not public; see ``Curator.randomize_rows``.

    Attributes:
        response: The mechanism of labels and features.
        divergences: Declared bounds on the divergence of features from the generator's, by order.
        population: A description of the population.
    """

    response: DoubleResponse | DummyResponse
    divergences: Mapping[float, float] | None = None
    population: str = POPULATION

    @property
    def law(self) -> FeatureLaw:
        """The distribution of the released features."""
        if isinstance(self.response, DoubleResponse):
            return self.response.law(self.population, self.divergences)
        return FeatureLaw.without_features(self.response.space.size)


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
        resampling: The treatment of features that are not public.
        level: The level of a quantile.
    """

    label: str
    space: LabelSpace
    epsilon: float
    mechanism: str
    prior: tuple[str, ...] = ()
    unit: str | None = None
    clusters: Int[np.ndarray, "n"] | None = None
    delta: float = 0.0
    resampling: Resampling | None = None
    level: float | None = None


@dataclass(frozen=True)
class TableMechanism:
    """A mechanism on a table.

    Attributes:
        name: The name of the mechanism.
        guarantee: The guarantee that is charged before anything is drawn.
        added: The columns that it adds to the public ones, with their types.
        ask: Makes the requests to a curator of the table.
        beside: Public columns of all rows that are released beside an answer.
        types: The types of resampled features, by name.
    """

    name: str
    guarantee: Guarantee
    added: Mapping[str, pa.DataType]
    ask: Callable[[Curator], Written | Answer]
    beside: Mapping[str, pa.Array] = field(default_factory=dict)
    types: Mapping[str, pa.DataType] = field(default_factory=dict)


def check_mechanism(request: ReleaseRequest) -> None:
    """Refuse an inconsistent request before the table is read.

    Raises:
        InputError: The mechanism is unknown or does not go with the other options.
        EpsilonError: The epsilon cannot be expressed, or a delta is missing.
        LabelError: Peers have more than two classes.
    """
    if request.mechanism not in _BUILDERS:
        near = nearest(request.mechanism, _BUILDERS)
        hint = near or f"; choose among {', '.join(sorted(_BUILDERS))}"
        raise InputError(f"expected the name of a mechanism, found {request.mechanism!r}{hint}")
    if request.unit and request.mechanism in (*WITH_PRIOR, *COUNTED, CLUSTER, PEER, DOUBLE, DUMMY):
        raise InputError(
            f"expected a mechanism that randomizes each label alone with --unit, found {request.mechanism!r}; use auto"
        )
    if request.mechanism == GroupResponse.name and not request.prior:
        _check_uniform_groups(request)
    if request.mechanism == QUANTILE or request.level is not None:
        _level_of(request)
    if request.mechanism == PEER:
        PeerExchange.check(request.space)
        if not request.delta:
            raise EpsilonError("expected a delta above 0 for an exchange between peers, found none; pass --delta")
    if request.mechanism in COUNTED:
        _uniform_randomizer(request)
    if request.mechanism in (*MECHANISMS, *NUMBER_MECHANISMS, *WITH_PRIOR):
        _randomizer(request)


def check_engine(mechanism: str) -> None:
    """Refuse a mechanism whose work cannot be shared out among workers.

    Raises:
        InputError: It needs all labels in one place, or writes one file.
    """
    if why := _ALONE.get(mechanism):
        raise InputError(
            f"expected a mechanism that works on parts of a table with an engine, found {mechanism!r}: {why}; leave "
            "out the engine"
        )


def mechanism_on_table(request: ReleaseRequest, source: TableSource) -> TableMechanism:
    """The requested mechanism on a table whose rows were checked.

    Raises:
        InputError: The number of clusters is not that of the rows.
    """
    if request.clusters is not None and len(request.clusters) != source.rows:
        raise InputError(f"expected a cluster for each of the {source.rows} rows, found {len(request.clusters)}")
    return _BUILDERS[request.mechanism](request, source)


def _randomizer(request: ReleaseRequest) -> Randomizer:
    """The requested randomizer; with a prior, for no rows."""
    if request.mechanism in WITH_PRIOR:
        return WITH_PRIOR[request.mechanism](request.space, request.epsilon, np.empty((0, request.space.size)))
    if request.mechanism in NUMBER_MECHANISMS:
        return NUMBER_MECHANISMS[request.mechanism](_interval(request), request.epsilon)
    return MECHANISMS[request.mechanism](request.space, request.epsilon)


def _check_uniform_groups(request: ReleaseRequest) -> None:
    """Refuse the groups of a uniform prior, which are the same in all rows, if two classes are in one of them."""
    space = request.space
    if not isinstance(space, Classes):
        return
    even: Any = ClassProbabilities(np.full((1, space.size), 1 / space.size), space.points)
    if merged := GroupResponse(space, request.epsilon, even).channel().merged:
        found = "; ".join(" and ".join(str(space.points[code]) for code in each) for each in merged)
        found = found if len(found) <= _MOST_SHOWN else f"{found[:_MOST_SHOWN]} ..."
        raise InputError(
            f"expected a prior with {request.mechanism!r}, found none: at epsilon {request.epsilon:g} all rows would "
            f"have the same groups, which never tell apart {found}. Use 'labeldp stages --response groups', a --prior, "
            "or --mechanism subset"
        )


def _by_channels(
    request: ReleaseRequest, source: TableSource, name: str, channels: BatchChannels, declared: tuple[str, ...] = ()
) -> TableMechanism:
    """A mechanism that randomizes labels one by one."""
    every = slice(0, source.rows)

    def ask(curator: Curator) -> Any:
        return curator._draw_labels(name, request.epsilon, every, channels, declared)

    guarantee = Guarantee(channels.whole.epsilon, unit=source.unit)
    return TableMechanism(name, guarantee, column_types(request.label, request.space, channels.whole), ask)


def _label_mechanism(request: ReleaseRequest, source: TableSource) -> TableMechanism:
    """A mechanism for each label alone, or for the labels of each unit."""
    randomizer, every = _randomizer(request), slice(0, source.rows)
    if source.units and request.mechanism == AUTO:
        randomizer = best_randomizer(randomizer.space, randomizer.epsilon, source.labels_of_a_unit(every))
    channels = source.channels(randomizer, every)
    check_registered(type(randomizer), channels.whole)
    return _by_channels(request, source, randomizer.name, channels, randomizer.declared)


def _prior_mechanism(request: ReleaseRequest, source: TableSource) -> TableMechanism:
    """A mechanism that draws each label from the candidates of its prior."""
    whole = _randomizer(request).channel()
    check_registered(type(_randomizer(request)), whole)
    channels = _PriorChannels(whole, request.mechanism, request.space, request.epsilon, columns=request.prior)
    declared = (
        f"the prior columns {request.prior[0]!r} ... are public and were not computed from labels"
        if request.prior
        else "the groups of classes are those of a uniform prior over the declared classes"
    )
    return _by_channels(request, source, request.mechanism, channels, (declared,))


@dataclass(frozen=True)
class _PriorChannels(BatchChannels):
    """The channels of batches whose rows have a prior in columns of the table.

    Attributes:
        mechanism: The name of the mechanism.
        space: The declared label space.
        epsilon: The cost of each row's label.
    """

    mechanism: str
    space: LabelSpace
    epsilon: float

    def of(self, batch: Batch) -> tuple[Channel, np.ndarray]:
        """The channel of a batch: of the candidates of its priors."""
        prior: Any = ClassProbabilities(self._prior(batch), self.space.points)
        randomizer = WITH_PRIOR[self.mechanism](self.space, self.epsilon, prior)
        return randomizer.channel(), randomizer.mass

    def _prior(self, batch: Batch) -> np.ndarray:
        """The prior of a batch, from its columns; uniform without any."""
        if not self.columns:
            return np.full((len(batch.codes), self.space.size), 1 / self.space.size)
        assert batch.columns is not None  # noqa: S101 (the prior's columns were asked for)
        return prior_of(batch.columns, list(self.columns), batch.first)


def _cluster_mechanism(request: ReleaseRequest, _: TableSource) -> TableMechanism:
    """A noisy histogram of each cluster, and labels that respond towards it, charged together."""
    space, clusters = request.space, _clusters_of(request)
    first = share_of_counts(clusters, request.epsilon) * request.epsilon
    query = NoisyHistogram(space, first, clusters)
    # the distribution that is hardest to express, so that no request is refused after its labels were counted
    extreme = np.eye(space.size)[np.zeros(query.cell_count, dtype=np.int64)]
    template = ClusterResponse(space, rest_of(request.epsilon, first), extreme, clusters).channel()

    def ask(curator: Curator) -> Any:
        return cluster_response(curator, clusters, request.epsilon).release

    added = column_types(request.label, space, template)
    return TableMechanism(CLUSTER, _total_guarantee(query.promise(1), request), added, ask)


def _counted_mechanism(request: ReleaseRequest, source: TableSource) -> TableMechanism:
    """Noisy counts of the labels, and numbers by the channel that is best for them, charged together."""
    space, template = _interval(request), _uniform_randomizer(request).channel()
    query = NoisyHistogram(space, share_of_points(source.rows, space.size, request.epsilon) * request.epsilon)
    kind = COUNTED[request.mechanism]

    def ask(curator: Curator) -> Any:
        return counted(curator, request.epsilon, kind)

    added = column_types(request.label, space, template)
    return TableMechanism(request.mechanism, _total_guarantee(query.promise(1), request), added, ask)


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


def _peer_mechanism(request: ReleaseRequest, _: TableSource) -> TableMechanism:
    """Labels that peers exchange in clusters, with the smallest flip probability for epsilon at delta."""
    space, clusters = request.space, _clusters_of(request)
    sizes = np.unique(np.bincount(clusters)[np.unique(clusters)])
    peers = PeerExchange.calibrate(request.epsilon, request.delta, sizes.tolist())
    query = ExchangedLabels(space, peers, clusters, request.delta)
    beside = {column_name(request.label, CLUSTERS): pa.array(clusters.astype(np.int32))}
    none = answer_columns(np.empty(0, dtype=np.int8), request.label, query.law(1), space)
    added = {name: array.type for name, array in (none | beside).items()}
    return TableMechanism(PEER, query.promise(1), added, partial(Curator.answer, query=query), beside)


def _histogram_mechanism(request: ReleaseRequest, source: TableSource) -> TableMechanism:
    """Noisy counts of all labels, without a row for any."""
    query = NoisyHistogram(request.space, request.epsilon)
    return _answer_mechanism(request, source, query, np.zeros((1, request.space.size), np.int64))


def _quantile_mechanism(request: ReleaseRequest, source: TableSource) -> TableMechanism:
    """A quantile of all labels, without a row for any: the end of a range, for one."""
    query = NoisyQuantile(_interval(request), request.epsilon, _level_of(request))
    return _answer_mechanism(request, source, query, np.zeros(1))


def _answer_mechanism(
    request: ReleaseRequest, source: TableSource, query: CellQuery, like: np.ndarray
) -> TableMechanism:
    """An answer about all labels, whose value has the shape of an array."""
    most = source.labels_of_a_unit(slice(0, source.rows))
    none = answer_columns(like, request.label, query.law(most), request.space)
    guarantee = dataclasses.replace(query.promise(most), unit=source.unit)
    added = {name: array.type for name, array in none.items()}
    return TableMechanism(query.name, guarantee, added, partial(Curator.answer, query=query))


def _row_mechanism(request: ReleaseRequest, _: TableSource) -> TableMechanism:
    """Labels by randomized response, with resampled features or none."""
    chosen = request.resampling
    if chosen is None:
        raise InputError(f"expected a generator for {request.mechanism!r}, found none; pass --generator")
    response, channel = chosen.response, chosen.response.labels.channel()
    chosen.law.conditional(channel)  # refuse an impossible guarantee before any charge

    def ask(curator: Curator) -> Any:
        return curator._randomize_rows(response, None, None, chosen.divergences, chosen.population)

    added = column_types(request.label, request.space, channel)
    schema = response.generator.form.schema if isinstance(response, DoubleResponse) else pa.schema([])
    types = dict(zip(schema.names, schema.types, strict=True))
    return TableMechanism(response.name, Guarantee(channel.epsilon), added, ask, types=types)


_BUILDERS: Mapping[str, Callable[[ReleaseRequest, TableSource], TableMechanism]] = MappingProxyType(
    {
        **dict.fromkeys(MECHANISMS, _label_mechanism),
        **dict.fromkeys(NUMBER_MECHANISMS, _label_mechanism),
        **dict.fromkeys(WITH_PRIOR, _prior_mechanism),
        **dict.fromkeys(COUNTED, _counted_mechanism),
        CLUSTER: _cluster_mechanism,
        PEER: _peer_mechanism,
        HISTOGRAM: _histogram_mechanism,
        QUANTILE: _quantile_mechanism,
        DOUBLE: _row_mechanism,
        DUMMY: _row_mechanism,
    }
)


def _level_of(request: ReleaseRequest) -> float:
    """The level of a quantile, which no other mechanism has."""
    if request.level is None:
        raise InputError(f"expected a level with {QUANTILE}, found none; pass a share of the labels: --level 0.95")
    if request.mechanism != QUANTILE:
        raise InputError(
            f"expected a level (--level) with {QUANTILE} alone, found one with {request.mechanism!r}; leave it out"
        )
    return request.level


def _clusters_of(request: ReleaseRequest) -> Int[np.ndarray, "n"]:
    if request.clusters is None:
        raise InputError(f"expected clusters for the mechanism {request.mechanism!r}, found none; pass --clusters")
    return request.clusters
