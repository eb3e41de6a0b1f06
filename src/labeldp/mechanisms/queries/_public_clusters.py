"""Checks of mechanisms that mix the labels of public clusters of rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from labeldp import _checks
from labeldp._shapes import Integer
from labeldp.errors import InputError
from labeldp.privacy.accounting import LARGEST_CLUSTER

#: What such a mechanism assumes of clusters.
PUBLIC_CLUSTERS = "clusters are public and were not made from these labels"


def checked_rows(values: object, name: str) -> Integer[np.ndarray, "n"]:
    """An array of one whole number for each row, checked."""
    array = np.asarray(values)
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


def refuse_units(labels_of_a_unit: int, mechanism: str) -> None:
    """Refuse privacy units of several rows, which no account here covers.

    Raises:
        InputError: A unit has several.
    """
    if labels_of_a_unit > 1:
        raise InputError(
            f"expected units of one row for {mechanism}, found one of {labels_of_a_unit} rows; keep one row of each, "
            "or use a randomizer"
        )


def delta_below(delta: float) -> float:
    """A lower bound on a delta, both its binary value and the decimal that it prints as."""
    return delta * (1.0 - 2.0**-50)
