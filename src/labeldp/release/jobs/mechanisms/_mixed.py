"""Labels that are mixed in public clusters, simulated in one place: exchanged between peers, or shuffled."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from labeldp import _checks
from labeldp._shapes import Int
from labeldp.mechanisms.queries import CellShuffle, ExchangedLabels, PeerExchange, Query, ShuffledLabels
from labeldp.privacy import LabelSpace
from labeldp.release.folder import CLUSTERS, column_name
from labeldp.release.jobs.mechanisms._cluster import ClusteredMechanism
from labeldp.release.jobs.mechanisms._table_mechanism import TableInput, TableRequest, answer_request, option


@dataclass(frozen=True, eq=False)
class MixedMechanism(ClusteredMechanism):
    """Labels that leave mixed with those of their cluster, with the least noise for epsilon at delta.

    Args:
        clusters: A public column, or the number of clusters to find in the kept columns, or 'auto' (in Python: a public
            column, or the number of each row's cluster). The clusters are released too.
        delta: Failure probability, above 0 and well below one over the number of rows.
    """

    delta: float | None = option(
        "--delta",
        float,
        hint="a failure probability well below one over the number of rows: --delta 1e-6",
        otherwise="for a budget with a delta pass --budget EPSILON,DELTA",
    )

    needs: ClassVar[tuple[str, ...]] = ("clusters", "delta")

    @abstractmethod
    def _query(self, table: TableInput, clusters: Int[np.ndarray, "n"], sizes: list[int]) -> Query:
        """The query for the clusters of rows, of these sizes."""

    def check(self, space: LabelSpace, epsilon: float) -> float:
        """The checked delta."""
        return _checks.delta(self.delta)

    def on(self, table: TableInput) -> TableRequest:
        """The request, with the clusters beside the labels."""
        source, clusters = table.source, self.numbers(table)
        query = self._query(table, clusters, np.unique(np.bincount(clusters)[np.unique(clusters)]).tolist())
        beside = {column_name(source.table.label, CLUSTERS): pa.array(clusters.astype(np.int32))}
        request = answer_request(query, table, np.empty(0, dtype=np.int8))
        added = {**request.added, **{name: array.type for name, array in beside.items()}}
        numbers = None if table.columns else clusters
        return dataclasses.replace(request, name=self.name, added=added, beside=beside, clusters=numbers)


@dataclass(frozen=True, eq=False)
class PeerMechanism(MixedMechanism):
    """Labels of two classes that peers exchange in clusters, with the smallest flip probability for epsilon at delta.

    Args:
        clusters: A public column, or the number of clusters to find in the kept columns, or 'auto' (in Python: a public
            column, or the number of each row's cluster). The clusters are released too.
        delta: Failure probability, above 0 and well below one over the number of rows.
    """

    name: ClassVar[str] = "peer"
    about: ClassVar[str] = PeerExchange.about
    alone: ClassVar[str] = "peers of one cluster exchange labels, wherever their rows are"

    def check(self, space: LabelSpace, epsilon: float) -> float:
        """The checked delta; more than two classes are refused."""
        delta = super().check(space, epsilon)
        PeerExchange.check(space)
        return delta

    def _query(self, table: TableInput, clusters: Int[np.ndarray, "n"], sizes: list[int]) -> Query:
        """The labels that peers exchange."""
        peers = PeerExchange.calibrate(table.epsilon, table.made, sizes)
        return ExchangedLabels(table.source.space, peers, clusters, table.made)


@dataclass(frozen=True, eq=False)
class ShuffleMechanism(MixedMechanism):
    """Labels that are randomized alone and shuffled in clusters, with the largest epsilon of each for epsilon at delta.

    Args:
        clusters: A public column, or the number of clusters to find in the kept columns, or 'auto' (in Python: a public
            column, or the number of each row's cluster). The clusters are released too.
        delta: Failure probability, above 0 and well below one over the number of rows.
    """

    name: ClassVar[str] = CellShuffle.name
    about: ClassVar[str] = CellShuffle.about
    alone: ClassVar[str] = "labels of one cluster are shuffled, wherever their rows are"

    def _query(self, table: TableInput, clusters: Int[np.ndarray, "n"], sizes: list[int]) -> Query:
        """The labels that are shuffled."""
        space = table.source.space
        shuffle = CellShuffle.calibrate(table.epsilon, table.made, sizes, space.size)
        return ShuffledLabels(space, shuffle, clusters, table.made)
