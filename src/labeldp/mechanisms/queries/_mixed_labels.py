"""Queries that mix the labels of public clusters of rows: what they check, and what an answer is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from labeldp import _checks
from labeldp._arrays import read_only
from labeldp._shapes import Integer
from labeldp.columns import row_names
from labeldp.errors import InputError
from labeldp.mechanisms.queries._delta import positive_delta
from labeldp.mechanisms.queries._query import Query
from labeldp.privacy import Guarantee, LabelSpace
from labeldp.privacy.accounting import LARGEST_CLUSTER

#: What such a mechanism assumes of clusters.
PUBLIC_CLUSTERS = "clusters are public and were not made from these labels"


def checked_rows(values: object, name: str) -> Integer[np.ndarray, "n"]:
    """An array of one whole number for each row, checked."""
    array = np.asarray(values)
    if np.ma.is_masked(values):
        raise InputError(f"expected {name} for each row, found masked ones; fill them in")
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise InputError(
            f"expected {name} to be whole numbers, one for each row, found {array.dtype} in {array.ndim} "
            "dimensions; give an array of one dimension"
        )
    return array if array.size else array.astype(np.int64)


def checked_sizes(cluster_sizes: Iterable[Any]) -> list[int]:
    """The different sizes of clusters, at least one."""
    sizes = list(cluster_sizes)
    if not sizes:
        raise InputError("expected the number of rows of at least one cluster, found none; give cluster_sizes")
    return sorted({_checks.whole(size, "a cluster's size", 1, LARGEST_CLUSTER) for size in sizes})


def delta_below(delta: float) -> float:
    """A lower bound on a delta, both its binary value and the decimal that it prints as."""
    return delta * (1.0 - 2.0**-50)


class MixedLabels(Query):
    """Base of queries whose answer has a label for each row, mixed among the rows of its public cluster.

    Attributes:
        clusters: The public cluster of each row, any integers, shape (n,).
        delta: Failure probability, above 0.
    """

    clusters: Integer[np.ndarray, "n"]
    delta: float

    #: The mixing in words, and what to do about a delta of 0.
    mixing: ClassVar[str]
    not_alone: ClassVar[str]

    def _check_clusters(self) -> None:
        """Check and freeze clusters and delta."""
        object.__setattr__(self, "row_names", {"clusters": row_names(self.clusters)})
        object.__setattr__(self, "clusters", read_only(checked_rows(self.clusters, "clusters").copy()))
        object.__setattr__(self, "delta", positive_delta(self.delta, self.not_alone))

    @cached_property
    @abstractmethod
    def _promise(self) -> Guarantee:
        """The guarantee for units of one row."""

    @cached_property
    def _sizes(self) -> list[int]:
        return sorted({*np.unique(self.clusters, return_counts=True)[1].tolist()})

    def promise(self, labels_of_a_unit: int) -> Guarantee:
        """The guarantee of the answer; units of several rows are refused, which no account here covers."""
        if labels_of_a_unit > 1:
            raise InputError(
                f"expected units of one row for {self.mixing}, found one of {labels_of_a_unit} rows; keep one row of "
                "each, or use a randomizer"
            )
        return self._promise

    def law(self, labels_of_a_unit: int) -> dict[str, Any]:
        """The integers of the draws, out of ``2**64``, delta, and the sizes of clusters."""
        del labels_of_a_unit
        sizes = [str(size) for size in self._sizes]
        return {"kind": self.name, **self._draws(), "delta": repr(self.delta), "cluster_sizes": sizes}

    @abstractmethod
    def _draws(self) -> dict[str, Any]:
        """The integers of the draws, as a certificate has them."""

    def check_rows(self, rows: int) -> None:
        """Refuse a number of rows that differs from that of the clusters."""
        if len(self.clusters) != rows:
            raise InputError(f"expected a cluster for each of the {rows} rows, found {len(self.clusters)}")

    @classmethod
    def check_value(cls, value: np.ndarray, law: Mapping[str, Any], space: LabelSpace) -> None:
        """Every class is possible."""
