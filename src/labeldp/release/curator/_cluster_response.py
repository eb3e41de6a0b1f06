"""Cluster protocols: a noisy class distribution of each cluster, then labels drawn with it as target or as prior.

A noisy histogram counts some rows, then some rows respond, with an output distribution that depends on the histogram.
The cost of both requests is known and checked before the first is drawn.

Splits of rows are random and public, in runs that an account can hold exactly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from labeldp import _checks
from labeldp._shapes import Float, Int
from labeldp.errors import InputError, RowsError
from labeldp.mechanisms.queries import NoisyHistogram, cell_numbers
from labeldp.mechanisms.randomizers import ClusterParameters, ClusterResponse, PriorResponse, Randomizer, truncated
from labeldp.privacy import ClassProbabilities, rest_of
from labeldp.release.curator._curator import Curator
from labeldp.release.curator._source import Places
from labeldp.release.released import Answer, Release, check_same_rows

#: Largest number of runs of a split: far fewer than a charge holds, so that a certificate stays short.
_MOST_RUNS = 1 << 14


def public_split(count: int, shares: Sequence[float], seed: int | None = None) -> list[Int[np.ndarray, "m"]]:
    """Split rows ``0 .. count - 1`` at random into public parts: of single rows, or of short runs if rows are many.

    A charge for very scattered rows covers all rows between the first and the last, so that charges for such parts
    would add up. Charges for these parts never do: the curator charges the maximum of them.

    Args:
        count: Number of rows.
        shares: A positive number for each part, in proportion; each part has some rows.
        seed: Makes the split reproducible. A split is public, protects nothing and depends on no label.

    Returns:
        The rows of each part, in their order.

    References:
        Ghazi et al. 2021, Algorithm 3: the parts that its stages need.

    Example:
        >>> first, second = public_split(10, [0.6, 0.4], seed=0)
        >>> len(first), len(second), sorted([*first.tolist(), *second.tolist()]) == list(range(10))
        (6, 4, True)

    Raises:
        InputError: The shares are not positive numbers.
        RowsError: There are fewer rows than parts.
    """
    weights = np.array([_checks.number(share, "share") for share in shares])
    if weights.size == 0 or not (weights > 0).all() or not np.isfinite(weights.sum()):
        raise InputError(f"expected a positive share for each part, found {list(shares)!r}")
    if count < weights.size:
        raise RowsError(f"expected at least one row for each of {weights.size} parts, found {count} rows")
    run = -(-count // _MOST_RUNS)
    runs = -(-count // run)
    order = np.random.default_rng(seed).permutation(runs)
    part_of_run = np.empty(runs, dtype=np.int64)
    part_of_run[order] = np.repeat(np.arange(weights.size), _sizes(weights, runs))
    parts = np.repeat(part_of_run, run)[:count]
    return [np.flatnonzero(parts == part) for part in range(weights.size)]


def _sizes(weights: np.ndarray, runs: int) -> Int[np.ndarray, "parts"]:
    """Number of runs of each part: its share, rounded, and at least one."""
    place = np.arange(1, weights.size)
    cuts = np.rint(np.cumsum(weights)[:-1] / weights.sum() * runs).astype(np.int64)
    cuts = np.maximum.accumulate(np.maximum(cuts - place, 0)) + place
    return np.diff(np.minimum(cuts, runs - weights.size + place), prepend=0, append=runs)


Split = Literal["epsilon", "rows"]

#: Smallest and largest share of epsilon for the counts before a response; of the rows, the smallest is used.
_SHARE, _MOST_SHARE = 0.5, 0.9

#: Epsilon times the counted rows of a cluster. Ghazi et al. chose 0.05 for 100 clusters of 50 000 rows and
#: 0.025 for 50, which is 25 in both; the standard deviation of a count is then 11 % of the cluster.
_COUNTED = 25.0

#: Smallest share for the counts of a prior: a larger epsilon needs a better prior than the authors'. A rule of thumb.
_SHARE_OF_PRIOR = 0.1

_OF_CLUSTERS = "the distribution of classes in each cluster"
PAID = "was computed from the noisy counts that are charged here, and from nothing else of these labels"


@dataclass(frozen=True, eq=False)
class ClusterRelease:
    """Class distributions of clusters, and released labels that depend on them.

    Attributes:
        histogram: The noisy counts of each class in each cluster.
        release: The released labels; None if the histogram takes all of epsilon and no label responds.
        rows: The rows of the released labels.
        epsilon: The total cost of both requests.
        distributions: The class distribution of each cluster from these counts; uniform if no row of it was counted.
            ``distributions[clusters]`` are soft labels for all rows, at no further cost.
    """

    histogram: Answer
    release: Release | None
    rows: Int[np.ndarray, "m"]
    epsilon: float
    distributions: Float[np.ndarray, "clusters k"]


def cluster_response(
    curator: Curator,
    clusters: object,
    epsilon: float | None = None,
    *,
    parameters: ClusterParameters | None = None,
    split: Split = "epsilon",
    share: float | None = None,
    floor: float | None = None,
) -> ClusterRelease:
    """Run Esfandiari et al.'s centralized mechanism, at a requested epsilon or with the paper's own parameters.

    Args:
        curator: The curator of the labels, which charges both requests.
        clusters: The number of each row's cluster, from 0, computed from public features. A cluster may have no rows;
            if it has few, noise dominates its counts and its labels respond towards noise.
        epsilon: The total cost of both requests.
        parameters: The paper's tau, sigma and lambda, instead of epsilon and floor.
            ``ClusterParameters.cluster_rr`` gives those of Corollary 2 for an epsilon.
        split: ``"epsilon"``: all rows are counted with a share of epsilon, and respond with the rest of it.
            ``"rows"``: a share of the rows, chosen by public chance, is counted with all of epsilon, and the other rows
            respond with all of it; each label is used once, so that the cost is the largest and not the sum.
        share: Share of epsilon, or of the rows, for the counts. By default half, or up to nine tenths of epsilon if
            clusters have few rows: 25 over the rows of a mean cluster, at which the noise on a count has a
            standard deviation of 11 % of the cluster. All of epsilon (1) is lambda = 1: no label responds, and the
            distributions are the release.
        floor: As for ``ClusterResponse``.

    Returns:
        The counts and the released labels. The likelihood of the labels ignores the counts, which are more informative
        at small epsilons: learn from both with ``ReleasedLabelClassifier(method="clusters")``, or from the counts alone
        with ``SoftLabelClassifier``.

    Guarantee:
        epsilon-label-DP. Theorem 1 of the paper promises half of what its histogram costs: a replaced label moves two
        counts. Here the counts have discrete Laplace noise of scale 2 over their epsilon, and the response costs what
        its integers say. With ``parameters`` it is charged at its worst, a cluster whose least probability is tau;
        ``release.channel.epsilons`` says what each cluster cost.

    References:
        Esfandiari et al. 2022, Algorithm 1 and Corollary 2; section 6 for lambda = 1.

    Example:
        >>> from labeldp import Classes, Curator
        >>> from labeldp import ClusterParameters
        >>> from labeldp import cluster_response
        >>> space = Classes(["no", "yes"])
        >>> labels, clusters = ["no"] * 500 + ["yes"] * 500, [0] * 500 + [1] * 500
        >>> curator = Curator(labels, space)
        >>> found = cluster_response(curator, clusters, epsilon=1.0)
        >>> curator.spent[0] <= 1.0, len(found.release)
        (True, 1000)
        >>> printed = ClusterParameters(space, tau=0.1, sigma=1.0, lam=0.5)
        >>> round(cluster_response(Curator(labels, space), clusters, parameters=printed).epsilon, 3)
        4.398

    Raises:
        BudgetError: The budget does not allow both; nothing was drawn.
        InputError: The clusters, the split, the share or the parameters cannot be used, or the curator has units of
            several rows; nothing was charged.
    """
    numbers = _cluster_numbers(curator, clusters)
    if parameters is not None:
        if epsilon is not None or floor is not None or (share is not None and split == "epsilon"):
            raise InputError(
                "expected the paper's parameters alone, found epsilon, floor or a share of epsilon too; leave them out"
            )
        return _as_printed(curator, _parts(numbers, split, _SHARE if share is None else share), parameters)
    if epsilon is None:
        raise InputError("expected an epsilon or the paper's parameters, found neither")
    total = _checks.epsilon(epsilon)
    usual = share_of_counts(numbers, total) if split == "epsilon" else _SHARE
    parts = _parts(numbers, split, usual if share is None else share)
    first, second = parts.divide(total)
    query = NoisyHistogram(curator.space, first, numbers[parts.counted], parts.count)

    def respond(distributions: np.ndarray, clusters: np.ndarray) -> Randomizer:
        least = ClusterResponse.usual_floor(curator.space) if floor is None else floor
        return ClusterResponse(curator.space, second, distributions, clusters, least)

    return _Protocol(curator, parts, query, second, total, _OF_CLUSTERS).run(_nearest, respond if second else None)


def cluster_prior_response(
    curator: Curator,
    clusters: object,
    epsilon: float,
    *,
    split: Split = "epsilon",
    share: float | None = None,
) -> ClusterRelease:
    """Run RRWithPrior with priors of clusters, and charge both requests.

    Args:
        curator: The curator of the labels, which charges both requests.
        clusters: The number of each row's cluster, from 0, computed from public features.
        epsilon: The total cost of both requests.
        split: ``"epsilon"``: all rows are counted with a share of epsilon, and respond with the rest of it.
            ``"rows"``: a share of the rows, chosen by public chance, is counted with all of epsilon, and the other rows
            respond with all of it.
        share: Share of epsilon, or of the rows, for the counts. By default a tenth, but at least what Ghazi et al.
            chose: 25 over the rows of a mean cluster for epsilon, so that the noise on a count has a standard deviation
            of 11 % of it; with ``"rows"`` as many rows as give that noise, and 25 in a mean cluster. At most half.

    Guarantee:
        epsilon-label-DP: the sum of both charges, or with ``split="rows"`` the larger; the certificate has both.

    References:
        Ghazi et al. 2021, Algorithm 4 for the priors and its section B for the share, Algorithm 2 for the response.

    Example:
        >>> from labeldp import Classes, Curator
        >>> from labeldp import cluster_prior_response
        >>> space = Classes(["no", "perhaps", "yes"])
        >>> curator = Curator(["no"] * 500 + ["yes"] * 500, space)
        >>> found = cluster_prior_response(curator, [0] * 500 + [1] * 500, epsilon=1.0)
        >>> curator.spent[0] <= 1.0, round(found.histogram.guarantee.epsilon, 3)
        (True, 0.1)

    Raises:
        BudgetError: The budget does not allow both; nothing was drawn.
        InputError: The clusters, the split or the share cannot be used, or the curator has units of several rows;
            nothing was charged.
    """
    numbers, total = _cluster_numbers(curator, clusters), _checks.epsilon(epsilon)
    parts = _parts(numbers, split, share_of_prior(numbers, total, split) if share is None else share)
    first, second = parts.divide(total)
    if not second:
        raise InputError("expected a share below 1, found 1, which leaves nothing for the labels")
    query = NoisyHistogram(curator.space, first, numbers[parts.counted], parts.count)

    def respond(distributions: np.ndarray, clusters: np.ndarray) -> Randomizer:
        prior: Any = ClassProbabilities(distributions[clusters], curator.space.points)
        return PriorResponse(curator.space, second, prior)

    return _Protocol(curator, parts, query, second, total, "the prior of each row").run(_nearest, respond)


def _as_printed(curator: Curator, parts: _Parts, parameters: ClusterParameters) -> ClusterRelease:
    """Run Algorithm 1 with its own parameters; the response is charged at its worst case, which is known beforehand."""
    if parameters.space != curator.space:
        raise InputError("expected parameters for the curator's label space, found another space")
    responds, cost = parameters.lam < 1, parameters.response_epsilon
    if parts.split == "rows" and not responds:
        raise InputError(
            "expected lam below 1 with split='rows', found 1, at which no row responds; use split='epsilon'"
        )
    query = parameters.query(parts.numbers[parts.counted], parts.count)
    total = parameters.epsilon if parts.split == "epsilon" else max(parameters.histogram_epsilon, cost)

    def estimate(histogram: Answer, rows: np.ndarray) -> np.ndarray:
        return truncated(histogram.value / np.maximum(rows, 1)[:, None], parameters.tau)

    protocol = _Protocol(curator, parts, query, cost, total, _OF_CLUSTERS)
    return protocol.run(estimate, parameters.response if responds else None)


@dataclass(frozen=True, eq=False)
class _Parts:
    """The rows that are counted, and the rows that respond.

    Attributes:
        numbers: The cluster of each row.
        counted: The rows that are counted.
        answered: The rows that respond.
        split: The resource that both requests share, epsilon or the rows.
        share: The share of the counts.
    """

    numbers: Int[np.ndarray, "n"]
    counted: Places
    answered: Places
    split: Split
    share: float

    @property
    def count(self) -> int:
        """Number of clusters, including those without rows."""
        return int(self.numbers.max()) + 1

    def divide(self, total: float) -> tuple[float, float]:
        """The epsilon of the counts and of the response; they add up only if epsilon is split."""
        if self.split == "rows":
            return total, total
        return self.share * total, rest_of(total, self.share * total)


@dataclass(frozen=True, eq=False)
class _Protocol:
    """Two requests, the second of which depends on the answer to the first.

    Attributes:
        curator: The curator of the labels.
        parts: The rows of each request.
        query: The first request: a noisy histogram.
        cost: The largest cost of the second request.
        total: The total cost of both; it becomes the budget if there is none.
        what: The quantity that the second request computes from the first, for the certificate.
    """

    curator: Curator
    parts: _Parts
    query: NoisyHistogram
    cost: float
    total: float
    what: str

    def run(
        self,
        estimate: Callable[[Answer, Int[np.ndarray, "clusters"]], np.ndarray],
        respond: Callable[[np.ndarray, np.ndarray], Randomizer] | None,
    ) -> ClusterRelease:
        """Run both requests; any error in either is raised before the first is charged.

        Args:
            estimate: Computes distributions from the histogram and the number of counted rows of each cluster.
            respond: Makes the randomizer from distributions and the clusters of its rows; None if no label responds.
        """
        parts, k = self.parts, self.curator.space.size
        if respond:
            respond(np.eye(k)[np.zeros(parts.count, dtype=np.int64)], parts.numbers[parts.answered][:1])
        requests = [(self.query.promise(1).epsilon, parts.counted), (self.cost, parts.answered)]
        self.curator.check(requests if respond else requests[:1], self.total)
        histogram = self.curator.answer(self.query, rows=parts.counted, whole=self.total)
        rows = np.bincount(parts.numbers[parts.counted], minlength=parts.count)
        distributions = np.where(rows[:, None] > 0, estimate(histogram, rows), 1 / k)
        if not respond:
            return ClusterRelease(histogram, None, np.arange(0), self.total, distributions)
        response = respond(distributions, parts.numbers[parts.answered])
        release = self.curator._randomize(response, parts.answered)
        whole = with_charge(release, histogram, self.what)
        answered = np.arange(len(parts.numbers))[parts.answered]
        return ClusterRelease(histogram, whole, answered, self.total, distributions)


def with_charge(release: Any, histogram: Answer, what: str) -> Any:
    """Add the charge of the histogram to the certificate of a release whose channel depends on it."""
    certificate, counted = release.certificate, histogram.certificate
    if certificate is None:
        raise ValueError("expected a release that was charged for")
    assumptions = (*counted.assumptions, f"{what} {PAID}")
    both = dataclasses.replace(certificate, draws=(*counted.draws, *certificate.draws), assumptions=assumptions)
    return dataclasses.replace(release, certificate=both)


def _nearest(histogram: Answer, _: Int[np.ndarray, "clusters"]) -> Float[np.ndarray, "clusters k"]:
    """Project the noisy counts to distributions."""
    return histogram.distributions()


def _cluster_numbers(curator: Curator, clusters: object) -> Int[np.ndarray, "n"]:
    """Check and convert the clusters of a curator's rows."""
    if curator.has_units:
        raise InputError("expected a curator of single rows, found units of several rows; use a randomizer for those")
    check_same_rows(clusters, curator, "clusters")
    numbers = cell_numbers(clusters)
    if len(numbers) != len(curator):
        raise InputError(f"expected a cluster for each of the {len(curator)} rows, found {len(numbers)}")
    return numbers


def _parts(numbers: Int[np.ndarray, "n"], split: Split, share: float) -> _Parts:
    """The rows of both requests: all rows for both, or disjoint rows."""
    if split not in get_args(Split):
        raise InputError(f"expected split to be 'epsilon' or 'rows', found {split!r}")
    if not 0 < _checks.number(share, "share") < 1 and (share != 1 or split == "rows"):
        raise InputError(
            f"expected a share between 0 and 1, found {share!r}; cluster_response takes 1 too, with split='epsilon'"
        )
    if split == "epsilon":
        every = slice(0, len(numbers))
        return _Parts(numbers, every, every, split, float(share))
    if len(numbers) < 2:
        raise InputError("expected at least two rows, one to count and one to respond, found one")
    return _Parts(numbers, *_public_parts(len(numbers), share), split, float(share))


def share_of_counts(numbers: Int[np.ndarray, "n"], epsilon: float) -> float:
    """The share of epsilon for the counts: half, and more if noise would dominate the counts of a mean cluster.

    There a response would be nearly uninformative too; its remaining share keeps the release one of labels.
    """
    rows = len(numbers) / np.unique(numbers).size
    return min(_MOST_SHARE, max(_SHARE, _COUNTED / (epsilon * rows)))


def share_of_prior(numbers: Int[np.ndarray, "n"], epsilon: float, split: Split) -> float:
    """The share for the counts that makes those of a mean cluster good enough for a prior."""
    rows = len(numbers) / np.unique(numbers).size
    needed = _COUNTED / (epsilon * rows)
    return min(0.5, max(_SHARE_OF_PRIOR, needed, _COUNTED / rows if split == "rows" else 0.0))


def _public_parts(rows: int, share: float) -> tuple[Int[np.ndarray, "a"], Int[np.ndarray, "b"]]:
    """Split the rows at random into two public parts, the same on every call."""
    first, second = public_split(rows, [share, 1 - share], seed=0)
    return first, second
