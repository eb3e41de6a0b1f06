"""The cluster response: noisy counts of each cluster, and labels that respond towards them, charged together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from labeldp._shapes import Int
from labeldp.errors import InputError
from labeldp.mechanisms.queries import NoisyHistogram
from labeldp.mechanisms.randomizers import ClusterResponse
from labeldp.privacy import LabelSpace, rest_of
from labeldp.release.folder import column_types
from labeldp.release.jobs.mechanisms._table_mechanism import TableInput, TableMechanism, TableRequest, option

if TYPE_CHECKING:  # it loads slowly, and a list of mechanisms does without
    from labeldp.release.curator import Curator


@dataclass(frozen=True, eq=False)
class ClusteredMechanism(TableMechanism):
    """A mechanism on public clusters of rows: a column, or the number of each row's cluster."""

    clusters: str | Int[np.ndarray, "n"] | None = option("--clusters", hint="a public column: --clusters COLUMN")

    def columns(self, space: LabelSpace) -> Mapping[str, list[str]]:
        """The column of clusters, if it is one."""
        return {"clusters": [self.clusters]} if isinstance(self.clusters, str) else {}

    def numbers(self, table: TableInput) -> Int[np.ndarray, "n"]:
        """The number of each row's cluster.

        Raises:
            InputError: They are not whole numbers from 0, or not one for each row.
            TableError: The column has a missing value.
        """
        from labeldp.release.tables import clusters_of  # noqa: PLC0415 (it loads slowly)

        source, chosen, clusters = table.source, table.chosen, self.clusters
        if table.columns:
            (clusters,), chosen = table.columns["clusters"], None
        assert clusters is not None  # noqa: S101 (it is needed)
        numbers = clusters_of(source.table, clusters, source.rows_per_batch, table.report)
        rows = source.rows if chosen is None else chosen.size
        if len(numbers) != rows:
            raise InputError(f"expected a cluster for each of the {rows:,} rows, found {len(numbers):,}")
        return numbers if chosen is None else np.asarray(numbers[chosen])


@dataclass(frozen=True, eq=False)
class ClusterMechanism(ClusteredMechanism):
    """Noisy counts of the classes of each cluster with half of epsilon or more, and labels that respond towards them.

    Args:
        clusters: A public column, or the number of clusters to find in the kept columns, or 'auto' (in Python: a public
            column, or the number of each row's cluster). The clusters are released too.
    """

    name: ClassVar[str] = ClusterResponse.name
    about: ClassVar[str] = ClusterResponse.about
    needs: ClassVar[tuple[str, ...]] = ("clusters",)

    def on(self, table: TableInput) -> TableRequest:
        """The requests, charged together."""
        from labeldp.release.curator import cluster_response, share_of_counts  # noqa: PLC0415 (as above)

        space, epsilon, clusters = table.source.space, table.epsilon, self.numbers(table)
        first = share_of_counts(clusters, epsilon) * epsilon
        query = NoisyHistogram(space, first, clusters)
        # the distribution that is hardest to express, so that no request is refused after its labels were counted
        extreme = np.eye(space.size)[np.zeros(query.cell_count, dtype=np.int64)]
        template = ClusterResponse(
            space, rest_of(epsilon, first), extreme, clusters, ClusterResponse.usual_floor(space)
        ).channel()

        def ask(curator: Curator) -> Any:
            return cluster_response(curator, clusters, epsilon).release

        # without the rho, which is that of the counts alone
        guarantee = dataclasses.replace(query.promise(1), epsilon=epsilon, rho=None)
        added = column_types(table.source.table.label, space, template)
        return TableRequest(self.name, guarantee, added, ask, clusters=None if table.columns else clusters)
