"""The exchange between peers: labels that peers of a cluster exchange, simulated in one place."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from labeldp import _checks
from labeldp.mechanisms.queries import ExchangedLabels, PeerExchange
from labeldp.privacy import LabelSpace
from labeldp.release.folder import CLUSTERS, column_name
from labeldp.release.jobs.mechanisms._cluster import ClusteredMechanism
from labeldp.release.jobs.mechanisms._table_mechanism import TableInput, TableRequest, answer_request, option


@dataclass(frozen=True, eq=False)
class PeerMechanism(ClusteredMechanism):
    """Labels of two classes that peers exchange in clusters, with the smallest flip probability for epsilon at delta.

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

    name: ClassVar[str] = "peer"
    about: ClassVar[str] = PeerExchange.about
    alone: ClassVar[str] = "peers of one cluster exchange labels, wherever their rows are"
    needs: ClassVar[tuple[str, ...]] = ("clusters", "delta")

    def check(self, space: LabelSpace, epsilon: float) -> float:
        """The checked delta; more than two classes are refused."""
        delta = _checks.delta(self.delta)
        PeerExchange.check(space)
        return delta

    def on(self, table: TableInput) -> TableRequest:
        """The request, with the clusters beside the labels."""
        source, delta, clusters = table.source, table.made, self.numbers(table)
        sizes = np.unique(np.bincount(clusters)[np.unique(clusters)])
        peers = PeerExchange.calibrate(table.epsilon, delta, sizes.tolist())
        query = ExchangedLabels(source.space, peers, clusters, delta)
        beside = {column_name(source.table.label, CLUSTERS): pa.array(clusters.astype(np.int32))}
        request = answer_request(query, table, np.empty(0, dtype=np.int8))
        added = {**request.added, **{name: array.type for name, array in beside.items()}}
        numbers = None if table.columns else clusters
        return dataclasses.replace(request, name=self.name, added=added, beside=beside, clusters=numbers)
