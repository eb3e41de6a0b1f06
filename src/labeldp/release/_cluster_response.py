"""Cluster response whole: a noisy class distribution for each cluster, and labels that respond towards it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Int

from labeldp import _checks
from labeldp.errors import InputError
from labeldp.mechanisms import ClusterResponse, NoisyHistogram
from labeldp.privacy import Rows, rest_of
from labeldp.release._answer import Answer
from labeldp.release._certificate import Draw
from labeldp.release._curator import Curator
from labeldp.release._release import Release

#: Rows are parted in so many runs at most, fewer than the ranges that a charge holds.
_MOST_RUNS = 1 << 17


@dataclass(frozen=True, eq=False)
class ClusterRelease:
    """What cluster response gives: class distributions of clusters, and released labels.

    Attributes:
        histogram: The noisy counts of each class in each cluster.
        release: The released labels.
        rows: The rows that they are of.
        epsilon: What both cost together.
    """

    histogram: Answer
    release: Release
    rows: Int[np.ndarray, "m"]
    epsilon: float


def cluster_response(
    curator: Curator,
    clusters: object,
    epsilon: float,
    *,
    split: Literal["epsilon", "rows"] = "epsilon",
    share: float = 0.5,
    floor: float | None = None,
) -> ClusterRelease:
    """Esfandiari et al.'s centralized mechanism, at the epsilon that was asked for.

    Args:
        curator: Who holds the labels; both requests are charged there.
        clusters: The number of each row's cluster, from 0, computed from public features.
        epsilon: What both cost together.
        split: ``"epsilon"``: all rows are counted with a share of epsilon, and respond with the rest of it.
            ``"rows"``: a share of the rows, chosen by public chance, is counted with all of epsilon, and the other rows
            respond with all of it; each label is used once, so that the cost is the largest and not the sum.
        share: How much of epsilon, or of the rows, the counts get.
        floor: As for ``ClusterResponse``.

    Guarantee:
        epsilon-label-DP. Theorem 1 of the paper promises half of what its histogram costs: a replaced label moves two
        counts. Here the counts have discrete Laplace noise of scale 2 over their epsilon, and the response costs what
        its integers say.

    References:
        Esfandiari et al. 2022, Algorithm 1.

    Example:
        >>> from labeldp import Classes, Curator
        >>> from labeldp.release import cluster_response
        >>> space = Classes(["no", "yes"])
        >>> curator = Curator(["no"] * 500 + ["yes"] * 500, space)
        >>> found = cluster_response(curator, [0] * 500 + [1] * 500, epsilon=1.0)
        >>> curator.spent[0] <= 1.0, len(found.release)
        (True, 1000)

    Raises:
        BudgetError: The budget does not allow both; nothing was drawn.
        InputError: The clusters, the split or the share cannot be used, or the curator has units of several rows;
            nothing was charged.
    """
    total = _checks.epsilon(epsilon)
    numbers = NoisyHistogram(curator.space, total, clusters).cells  # type: ignore[arg-type]
    if numbers is None or len(numbers) != len(curator):
        raise InputError(f"expected a cluster for each of the {len(curator)} rows, found another number of them")
    if not 0 < _checks.number(share, "share") < 1:
        raise InputError(f"expected a share between 0 and 1, found {share!r}")
    if split not in ("epsilon", "rows"):
        raise InputError(f"expected a split of epsilon or rows, found {split!r}")
    if curator.has_units:
        raise InputError("expected a curator of single rows, found units of several; use a randomizer for them")
    counted = answered = np.arange(len(curator))
    first, second = (share * total, rest_of(total, share * total)) if split == "epsilon" else (total, total)
    if split == "rows":
        counted, answered = _public_parts(len(curator), share)
    query = NoisyHistogram(curator.space, first, numbers[counted], int(numbers.max()) + 1)
    pure = np.eye(curator.space.size)[np.zeros(query.cell_count, dtype=np.int64)]
    ClusterResponse(curator.space, second, pure, numbers[answered], floor)  # what is wrong is found before a charge
    curator.check([(first, counted), (second, answered)], total)
    histogram = curator.answer(query, rows=counted, whole=total)
    response = ClusterResponse(curator.space, second, histogram.distributions(), numbers[answered], floor)
    release = curator.randomize(response, rows=answered)
    return ClusterRelease(histogram, _with_charge(release, histogram, counted), answered, total)


def _with_charge(release: Release, histogram: Answer, counted: Int[np.ndarray, "m"]) -> Release:
    """The release with a certificate of both charges: its law says what the histogram said."""
    certificate = release.certificate
    if certificate is None:
        raise ValueError("expected a release that was charged for")
    first = Draw(histogram.query, histogram.law, Rows.of(counted), histogram.guarantee)
    return dataclasses.replace(release, certificate=dataclasses.replace(certificate, draws=(first, *certificate.draws)))


def _public_parts(rows: int, share: float) -> tuple[Int[np.ndarray, "a"], Int[np.ndarray, "b"]]:
    """Two parts of the rows by public chance: of single rows, or of short runs of rows where there are very many."""
    run = -(-rows // _MOST_RUNS)
    order = np.random.default_rng(0).permutation(-(-rows // run))
    first = np.zeros(order.size, dtype=np.bool_)
    first[order[: min(max(1, round(share * order.size)), order.size - 1)]] = True
    chosen = np.repeat(first, run)[:rows]
    return np.flatnonzero(chosen), np.flatnonzero(~chosen)
