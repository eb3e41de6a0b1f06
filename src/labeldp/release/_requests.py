"""How the labels of a table leave: what each mechanism reads of it, promises, and draws."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Int

from labeldp._words import Words
from labeldp.errors import EpsilonError, InputError
from labeldp.mechanisms.features import DoubleResponse, DummyResponse, FeatureLaw
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
from labeldp.privacy import Guarantee, Interval, LabelSpace, rest_of
from labeldp.privacy.channels import Channel, law_of
from labeldp.release._answer import distributions_of
from labeldp.release._cluster_response import PAID, share_of_counts
from labeldp.release._counted_response import share_of_points
from labeldp.release.folder import CLUSTERS, column_name, column_types, form_of
from labeldp.release.tables import Survey, prior_of

AUTO, CLUSTER, PEER = "auto", "cluster", "peer"
DOUBLE, DUMMY = DoubleResponse.name, DummyResponse.name
BINS, OPTIMAL_COUNTS = BinResponse.name, "optimal-counts"
PRIOR, PRIOR_SUBSET = PriorResponse.name, PriorSubsetResponse.name

#: Mechanisms that need the prior of each row.
WITH_PRIOR: Mapping[str, type[PriorResponse | PriorSubsetResponse]] = MappingProxyType(
    {PRIOR: PriorResponse, PRIOR_SUBSET: PriorSubsetResponse}
)


def _best(space: LabelSpace, epsilon: float) -> Randomizer:
    """The best randomizer of the space, without a prior."""
    return best_number_response(space, epsilon) if isinstance(space, Interval) else best_response(space, epsilon)


#: Mechanisms by the name that the command line gives them; the others need more of the table than its labels.
MECHANISMS: Mapping[str, Callable[[LabelSpace, float], Randomizer]] = MappingProxyType(
    {
        AUTO: _best,
        RandomizedResponse.name: RandomizedResponse,
        SubsetResponse.name: SubsetResponse,
        BitResponse.name: BitResponse,
    }
)

#: Of labels on an interval alone.
NUMBER_MECHANISMS: Mapping[str, Callable[[Interval, float], NumberRandomizer]] = MappingProxyType(
    {
        OptimalResponse.name: OptimalResponse,
        PiecewiseResponse.name: PiecewiseResponse,
        OneBitResponse.name: OneBitResponse,
        LaplaceResponse.name: LaplaceResponse,
    }
)

#: Mechanisms of numbers whose law a curator makes from noisy counts of all labels.
COUNTED: Mapping[str, Callable[[Interval, float, np.ndarray], NumberRandomizer]] = MappingProxyType(
    {BINS: BinResponse, OPTIMAL_COUNTS: OptimalResponse}
)

_ALL = np.ones(())


@dataclass(frozen=True)
class ReleaseRequest:
    """What was asked of a table's labels.

    Attributes:
        label: The label column.
        space: The declared label space.
        epsilon: What each row's label, or all labels of one unit, may cost.
        mechanism: The name of the mechanism.
        prior: The prior's columns, in class order.
        unit: The column that tells units apart.
        clusters: The number of each row's cluster.
        delta: The failure probability of an exchange between peers.
        response: The mechanism, where features leave by a law of their own, or do not leave.
        features: That law.
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
class Drawing:
    """What was drawn for the whole table, and what batches are drawn from.

    Attributes:
        charges: The name, law and guarantee of each charge.
        channel: The channel of a batch that begins at a row, and its candidates' mass, or None.
        released: Without one: the released columns of a range of rows, which were all drawn together.
        features: Where they do not leave as they are: the released features of a batch that begins at a row.
        notes: For the curator alone, once everything is drawn.
    """

    charges: tuple[tuple[str, Mapping[str, Any], Guarantee], ...]
    channel: Callable[[pa.RecordBatch, int], tuple[Channel, np.ndarray]] | None = None
    released: Callable[[slice], dict[str, pa.Array]] = lambda _: {}
    features: Callable[[pa.RecordBatch, int], pa.Table] | None = None
    notes: Callable[[], tuple[str, ...]] = lambda: ()


@dataclass(frozen=True)
class TableLaw:
    """A mechanism on a table.

    Attributes:
        name: The mechanism.
        guarantee: What is charged for, before anything is drawn.
        added: The columns that it adds to the public ones, with their types.
        begin: Draws what concerns the whole table, from a stream of words of its own.
        columns: The columns that it reads beside the label.
        declared: What is declared and not checked.
        features: The law of the features, where they do not leave as they are.
        types: The types of features then, by name.
    """

    name: str
    guarantee: Guarantee
    added: Mapping[str, pa.DataType]
    begin: Callable[[Words], Drawing]
    columns: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    features: FeatureLaw | None = None
    types: Mapping[str, pa.DataType] = field(default_factory=dict)


@dataclass
class Tally:
    """What a mechanism needs to know of all labels before the first is drawn. It never leaves the curator's side.

    Attributes:
        asked: What was asked.
        counts: For cluster response: how many labels of each class are in each cluster; for mechanisms of numbers
            that count first: how many are at each grid point, as a single cluster.
        codes: For peers: all labels.
    """

    asked: ReleaseRequest
    counts: Int[np.ndarray, "clusters k"] = field(init=False, repr=False)
    codes: Int[np.ndarray, "n"] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        clusters = self.asked.clusters
        cells = int(clusters.max()) + 1 if clusters is not None else int(self.asked.mechanism in COUNTED)
        shape = (cells, self.asked.space.size) if cells else (0, 0)
        peers = clusters is not None and self.asked.mechanism == PEER
        self.counts = np.zeros((0, 0) if peers else shape, dtype=np.int64)
        self.codes = np.zeros(len(clusters) if peers and clusters is not None else 0, dtype=np.int8)

    def add(self, codes: Int[np.ndarray, "m"], first: int) -> None:
        """Take up the labels of a batch."""
        if self.asked.clusters is None:
            if len(self.counts):
                self.counts[0] += np.bincount(codes, minlength=self.asked.space.size)
            return
        rows = slice(first, first + len(codes))
        clusters = self.asked.clusters[rows]
        if len(clusters) != len(codes):
            raise InputError("expected a cluster for each row, found more rows than that")
        if self.asked.mechanism == PEER:
            self.codes[rows] = codes
        else:
            np.add.at(self.counts, (clusters, codes), 1)


def check_mechanism(asked: ReleaseRequest) -> None:
    """Refuse what does not fit together before the table is read.

    Raises:
        InputError: The mechanism is not known, or it lacks or is given what only another uses.
        EpsilonError: The epsilon cannot be expressed, or delta is needed, or not used.
        LabelError: Peers have more than two classes.
    """
    if asked.mechanism not in _BUILDERS:
        raise InputError(f"expected a mechanism among {', '.join(_BUILDERS)}, found {asked.mechanism!r}")
    if asked.unit and asked.mechanism in (*WITH_PRIOR, *COUNTED, CLUSTER, PEER, DOUBLE, DUMMY):
        raise InputError(
            f"expected a mechanism that randomizes labels alone for units of several rows, found {asked.mechanism!r}"
        )
    if asked.mechanism == PEER:
        PeerExchange.check(asked.space)
        if not asked.delta:
            raise EpsilonError("expected a delta above 0 for an exchange between peers (--delta), found none")
    if asked.mechanism in COUNTED:
        _bins_without_counts(asked)
    if asked.mechanism in (*MECHANISMS, *NUMBER_MECHANISMS, *WITH_PRIOR):
        _randomizer(asked)


def law_on_table(asked: ReleaseRequest, found: Survey, tally: Tally) -> TableLaw:
    """The law of what was asked, on a table that was looked through.

    Raises:
        InputError: There is not a cluster for each row.
    """
    if asked.clusters is not None and len(asked.clusters) != found.rows:
        raise InputError(f"expected a cluster for each of the {found.rows} rows, found {len(asked.clusters)}")
    return _BUILDERS[asked.mechanism](asked, found, tally)


def _randomizer(asked: ReleaseRequest) -> Randomizer:
    """The randomizer of a name; of those with a prior, that of no rows."""
    if asked.mechanism in WITH_PRIOR:
        return WITH_PRIOR[asked.mechanism](asked.space, asked.epsilon, np.empty((0, asked.space.size)))
    if asked.mechanism in NUMBER_MECHANISMS:
        return NUMBER_MECHANISMS[asked.mechanism](_interval(asked), asked.epsilon)
    return MECHANISMS[asked.mechanism](asked.space, asked.epsilon)


def _by_channel(
    asked: ReleaseRequest,
    name: str,
    law: Channel,
    of: Callable[[pa.RecordBatch, int], tuple[Channel, np.ndarray]],
    columns: Sequence[str] = (),
    declared: Sequence[str] = (),
) -> TableLaw:
    """The law of labels that are randomized one by one."""
    guarantee = Guarantee(law.epsilon, unit=asked.unit or "row")
    drawing = Drawing(((name, law_of(law), guarantee),), of)
    added = column_types(asked.label, asked.space, law)
    return TableLaw(name, guarantee, added, lambda _: drawing, tuple(columns), tuple(declared))


def _alone(asked: ReleaseRequest, found: Survey, _: Tally) -> TableLaw:
    """Each label alone, or with those of its unit."""
    randomizer = _randomizer(asked)
    if asked.unit is None or found.units is None:
        channel = randomizer.channel()
        return _by_channel(asked, randomizer.name, channel, lambda *_: (channel, _ALL))
    units, unit, sizes = found.units, asked.unit, unit_sizes(found.units.counts)
    if asked.mechanism == AUTO and not isinstance(randomizer, NumberRandomizer):
        randomizer = best_unit_response(randomizer, sizes[-1])
    law = per_unit(randomizer, sizes)
    declared = f"the column {unit!r} tells units of protection apart, is public, and was declared so"

    def of_unit(batch: pa.RecordBatch, _: int) -> tuple[Channel, np.ndarray]:
        return grouped(law, units.rows_per_unit(batch[unit])), _ALL

    return _by_channel(asked, randomizer.name, law, of_unit, (unit,), (declared,))


def _with_prior(asked: ReleaseRequest, _: Survey, __: Tally) -> TableLaw:
    """Each label among the candidates that its prior gives."""
    columns, kind = list(asked.prior), WITH_PRIOR[asked.mechanism]

    def of_prior(batch: pa.RecordBatch, first: int) -> tuple[Channel, np.ndarray]:
        randomizer = kind(asked.space, asked.epsilon, prior_of(batch, columns, first))
        return randomizer.channel(), randomizer.mass

    declared = f"the prior columns {columns[0]!r} ... are public and were not computed from labels"
    return _by_channel(asked, kind.name, _randomizer(asked).channel(), of_prior, columns, (declared,))


def _in_clusters(asked: ReleaseRequest, _: Survey, tally: Tally) -> TableLaw:
    """A noisy histogram of each cluster, and labels that respond towards it: what both cost is charged at once."""
    space, clusters = asked.space, _given(asked)
    first = share_of_counts(clusters, asked.epsilon) * asked.epsilon
    second = rest_of(asked.epsilon, first)
    query = NoisyHistogram(space, first, clusters)
    rows = np.bincount(clusters)
    # what words express worst, so that no answer can be refused once its labels were counted
    extreme = np.eye(space.size)[np.zeros(query.cell_count, dtype=np.int64)]
    template = ClusterResponse(space, second, extreme, clusters).channel()
    counted = query.promise(1)

    def begin(words: Words) -> Drawing:
        noisy = query.values(tally.counts, query.rate(1), words)
        likely = np.where(rows[:, None] > 0, distributions_of(noisy), 1 / space.size)
        response = ClusterResponse(space, second, likely, clusters)
        channel, mass = response.channel(), response.mass
        charges = ((query.name, query.law(1), counted), _charge(response))

        def of_rows(batch: pa.RecordBatch, row: int) -> tuple[Channel, np.ndarray]:
            return channel.take(slice(row, row + batch.num_rows)), mass

        return Drawing(charges, of_rows)

    return TableLaw(CLUSTER, _of_both(counted, asked), column_types(asked.label, space, template), begin)


def _counted(asked: ReleaseRequest, found: Survey, tally: Tally) -> TableLaw:
    """Noisy counts of the labels, and numbers by the law that they make best: what both cost is charged at once."""
    space, template = _interval(asked), _bins_without_counts(asked).channel()
    first = share_of_points(found.rows, space.size, asked.epsilon) * asked.epsilon
    second = rest_of(asked.epsilon, first)
    query = NoisyHistogram(space, first)
    counted = query.promise(1)

    def begin(words: Words) -> Drawing:
        prior = distributions_of(query.values(tally.counts, query.rate(1), words))[0]
        response = COUNTED[asked.mechanism](space, second, prior)
        channel = response.channel()
        charges = ((query.name, query.law(1), counted), _charge(response))
        return Drawing(charges, lambda *_: (channel, _ALL))

    added = column_types(asked.label, space, template)
    declared = (f"the prior over grid points {PAID}",)
    return TableLaw(asked.mechanism, _of_both(counted, asked), added, begin, declared=declared)


def _charge(response: Randomizer) -> tuple[str, Mapping[str, Any], Guarantee]:
    """The charge for labels that respond to what was counted."""
    channel = response.channel()
    return response.name, law_of(channel), Guarantee(channel.epsilon)


def _of_both(counted: Guarantee, asked: ReleaseRequest) -> Guarantee:
    """What counts and responses cost together; the rho of the counts is not that of both."""
    return dataclasses.replace(counted, epsilon=asked.epsilon, rho=None)


def _bins_without_counts(asked: ReleaseRequest) -> NumberRandomizer:
    """What a mechanism that counts would be if all labels were as frequent: it is refused where that is."""
    space = _interval(asked)
    return COUNTED[asked.mechanism](space, asked.epsilon, np.full(space.size, 1 / space.size))


def _interval(asked: ReleaseRequest) -> Interval:
    if not isinstance(asked.space, Interval):
        raise InputError(
            f"expected labels on a declared range for {asked.mechanism!r} (--interval), found declared classes; use "
            "'auto' or another mechanism for classes"
        )
    return asked.space


def _among_peers(asked: ReleaseRequest, _: Survey, tally: Tally) -> TableLaw:
    """Labels that peers exchange in clusters, with the least flip that keeps epsilon at delta."""
    space, clusters = asked.space, _given(asked)
    sizes = np.unique(np.bincount(clusters)[np.unique(clusters)])
    peers = PeerExchange.calibrate(asked.epsilon, asked.delta, sizes.tolist())
    query = ExchangedLabels(space, peers, clusters, asked.delta)
    guarantee, law = query.promise(1), query.law(1)
    name = column_name(asked.label, CLUSTERS)

    def begin(words: Words) -> Drawing:
        codes, form = query.answer(tally.codes, 1, words), form_of(law)

        def released(rows: slice) -> dict[str, pa.Array]:
            columns = dict(zip(form.names(asked.label, space), form.write(codes[rows], space), strict=True))
            return {**columns, name: pa.array(clusters[rows])}

        return Drawing(((query.name, law, guarantee),), released=released)

    kinds = zip(
        form_of(law).names(asked.label, space), form_of(law).write(np.empty(0, dtype=np.int8), space), strict=True
    )
    added = {column: array.type for column, array in kinds} | {name: pa.int32()}
    return TableLaw(PEER, guarantee, added, begin)


def _rows(asked: ReleaseRequest, _: Survey, __: Tally) -> TableLaw:
    """Labels by randomized response; features redrawn with some chance, or none."""
    response, law = asked.response, asked.features
    if response is None or law is None:
        raise InputError(f"expected a generator for {asked.mechanism!r}, found none")
    channel = response.labels.channel()
    law.conditional(channel)  # what cannot be promised is refused before anything is charged
    charge = (response.name, law_of(channel), Guarantee(channel.epsilon))

    def begin(words: Words) -> Drawing:
        def drawn(batch: pa.RecordBatch, first: int) -> pa.Table:
            assert isinstance(response, DoubleResponse)  # noqa: S101 (where features leave)
            given = pa.Table.from_batches([batch])
            original = response.original_features(given, batch.num_rows)
            moved.append(int(response.misfits(given).sum()))
            return response.draw(original, words, first)

        def notes() -> tuple[str, ...]:
            told = f"{sum(moved):,} rows had features that are not of the generator's form: they were moved into it"
            return (told,) if any(moved) else ()

        moved: list[int] = []
        features = drawn if isinstance(response, DoubleResponse) else None
        return Drawing((charge,), lambda *_: (channel, _ALL), features=features, notes=notes)

    added = column_types(asked.label, asked.space, channel)
    schema = response.generator.form.schema if isinstance(response, DoubleResponse) else pa.schema([])
    types = dict(zip(schema.names, schema.types, strict=True))
    return TableLaw(response.name, charge[2], added, begin, declared=law.assumptions, features=law, types=types)


_BUILDERS: Mapping[str, Callable[[ReleaseRequest, Survey, Tally], TableLaw]] = MappingProxyType(
    {
        **dict.fromkeys(MECHANISMS, _alone),
        **dict.fromkeys(NUMBER_MECHANISMS, _alone),
        **dict.fromkeys(WITH_PRIOR, _with_prior),
        **dict.fromkeys(COUNTED, _counted),
        CLUSTER: _in_clusters,
        PEER: _among_peers,
        DOUBLE: _rows,
        DUMMY: _rows,
    }
)


def _given(asked: ReleaseRequest) -> Int[np.ndarray, "n"]:
    if asked.clusters is None:
        raise InputError(f"expected clusters for the mechanism {asked.mechanism!r}, found none; name their column")
    return asked.clusters
