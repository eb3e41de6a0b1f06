"""Clusters whole: a noisy class distribution for each of them, and labels that respond towards it or with it as prior.

Both are one protocol: some rows are counted by a noisy histogram, then some rows respond, and the law of their response
depends on what the histogram said. What both cost is known, and asked for, before the first is drawn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Int

from labeldp import _checks
from labeldp.errors import InputError
from labeldp.mechanisms.queries import NoisyHistogram, cell_numbers
from labeldp.mechanisms.randomizers import ClusterParameters, ClusterResponse, PriorResponse, Randomizer, truncated
from labeldp.privacy import rest_of
from labeldp.release._answer import Answer
from labeldp.release._curator import Curator
from labeldp.release._release import Release
from labeldp.release.tables import public_split

Split = Literal["epsilon", "rows"]

#: How much of epsilon counts classes for a response, at least and at most; of the rows, the least does.
_SHARE, _MOST_SHARE = 0.5, 0.9

#: Epsilon times the counted rows of a cluster. Ghazi et al. chose 0.05 for 100 clusters of 50 000 rows and
#: 0.025 for 50, which is 25 in both; the standard deviation of a count is then 11 % of the cluster.
_COUNTED = 25.0

#: A larger epsilon asks for a better prior than what the authors chose. A rule of thumb.
_SHARE_OF_PRIOR = 0.1

_OF_CLUSTERS = "the distribution of classes in each cluster"
PAID = "was computed from the noisy counts that are charged here, and from nothing else of these labels"


@dataclass(frozen=True, eq=False)
class ClusterRelease:
    """What is said of clusters: their class distributions, and released labels that depend on them.

    Attributes:
        histogram: The noisy counts of each class in each cluster.
        release: The released labels; None where all of epsilon is for the histogram, and no label responds.
        rows: The rows that they are of.
        epsilon: What both cost together.
        distributions: The class distribution of each cluster by these counts; even where no row of it was counted.
            ``distributions[clusters]`` are labels in shares, for all rows, at no further cost.
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
    """Esfandiari et al.'s centralized mechanism, at an epsilon that is asked for or with the paper's own parameters.

    Args:
        curator: Who holds the labels; both requests are charged there.
        clusters: The number of each row's cluster, from 0, computed from public features. A cluster may have no rows;
            of one with few rows the noise hides all, and its labels respond towards noise.
        epsilon: What both cost together.
        parameters: The paper's tau, sigma and lambda, in the place of epsilon and floor.
            ``ClusterParameters.cluster_rr`` gives those of Corollary 2 for an epsilon.
        split: ``"epsilon"``: all rows are counted with a share of epsilon, and respond with the rest of it.
            ``"rows"``: a share of the rows, chosen by public chance, is counted with all of epsilon, and the other rows
            respond with all of it; each label is used once, so that the cost is the largest and not the sum.
        share: How much of epsilon, or of the rows, the counts get. By default half, or of epsilon up to nine tenths
            where clusters have few rows for it: 25 over the rows of a mean cluster, at which the noise on a count has a
            standard deviation of 11 % of the cluster. All of epsilon (1) is lambda = 1: no label responds, and the
            distributions are what is released.
        floor: As for ``ClusterResponse``.

    Returns:
        The counts and the released labels. The likelihood of the labels knows nothing of the counts, which say more at
        small epsilons: learn from both with ``ReleasedLabelClassifier(method="clusters")``, or from the counts alone
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
    numbers = _numbers(curator, clusters)
    if parameters is not None:
        if epsilon is not None or floor is not None or (share is not None and split == "epsilon"):
            raise InputError("expected the paper's parameters alone, found epsilon, floor or a share of it beside them")
        return _as_printed(curator, _parts(numbers, split, _SHARE if share is None else share), parameters)
    if epsilon is None:
        raise InputError("expected an epsilon or the paper's parameters, found neither")
    total = _checks.epsilon(epsilon)
    usual = share_of_counts(numbers, total) if split == "epsilon" else _SHARE
    parts = _parts(numbers, split, usual if share is None else share)
    first, second = parts.divide(total)
    query = NoisyHistogram(curator.space, first, numbers[parts.counted], parts.count)

    def respond(distributions: np.ndarray, clusters: np.ndarray) -> Randomizer:
        return ClusterResponse(curator.space, second, distributions, clusters, floor)

    return _Protocol(curator, parts, query, second, total, _OF_CLUSTERS).run(_nearest, respond if second else None)


def cluster_prior_response(
    curator: Curator,
    clusters: object,
    epsilon: float,
    *,
    split: Split = "epsilon",
    share: float | None = None,
) -> ClusterRelease:
    """RRWithPrior with priors of clusters, both paid for.

    Args:
        curator: Who holds the labels; both requests are charged there.
        clusters: The number of each row's cluster, from 0, computed from public features.
        epsilon: What both cost together.
        split: ``"epsilon"``: all rows are counted with a share of epsilon, and respond with the rest of it.
            ``"rows"``: a share of the rows, chosen by public chance, is counted with all of epsilon, and the other rows
            respond with all of it.
        share: How much of epsilon, or of the rows, the counts get. By default a tenth, but at least what Ghazi et al.
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
    numbers, total = _numbers(curator, clusters), _checks.epsilon(epsilon)
    parts = _parts(numbers, split, share_of_prior(numbers, total, split) if share is None else share)
    first, second = parts.divide(total)
    if not second:
        raise InputError("expected a share below 1, found 1: then no label would respond")
    query = NoisyHistogram(curator.space, first, numbers[parts.counted], parts.count)

    def respond(distributions: np.ndarray, clusters: np.ndarray) -> Randomizer:
        return PriorResponse(curator.space, second, distributions[clusters])

    return _Protocol(curator, parts, query, second, total, "the prior of each row").run(_nearest, respond)


def _as_printed(curator: Curator, parts: _Parts, parameters: ClusterParameters) -> ClusterRelease:
    """Algorithm 1 with its own parameters; the response is charged at its worst, which is known beforehand."""
    if parameters.space != curator.space:
        raise InputError("expected parameters for the curator's label space, found some for another")
    responds, cost = parameters.lam < 1, parameters.response_epsilon
    if parts.split == "rows" and not responds:
        raise InputError("expected lam below 1 where some of the rows respond, found 1; split by epsilon")
    query = parameters.query(parts.numbers[parts.counted], parts.count)
    total = parameters.epsilon if parts.split == "epsilon" else max(parameters.histogram_epsilon, cost)

    def spread(histogram: Answer, rows: np.ndarray) -> np.ndarray:
        return truncated(histogram.value / np.maximum(rows, 1)[:, None], parameters.tau)

    protocol = _Protocol(curator, parts, query, cost, total, _OF_CLUSTERS)
    return protocol.run(spread, parameters.response if responds else None)


@dataclass(frozen=True, eq=False)
class _Parts:
    """Which rows are counted, and which respond.

    Attributes:
        numbers: The cluster of each row.
        counted: The rows that are counted.
        answered: The rows that respond.
        split: What they share, epsilon or the rows.
        share: How much of it the counts get.
    """

    numbers: Int[np.ndarray, "n"]
    counted: Int[np.ndarray, "a"]
    answered: Int[np.ndarray, "b"]
    split: Split
    share: float

    @property
    def count(self) -> int:
        """The number of clusters, those without rows included."""
        return int(self.numbers.max()) + 1

    def divide(self, total: float) -> tuple[float, float]:
        """What the counts and the response may cost; the same labels pay for both only where epsilon is split."""
        if self.split == "rows":
            return total, total
        return self.share * total, rest_of(total, self.share * total)


@dataclass(frozen=True, eq=False)
class _Protocol:
    """Two requests, of which the second waits for the answer to the first.

    Attributes:
        curator: Who holds the labels.
        parts: The rows of each request.
        query: The first: a noisy histogram.
        cost: What the second costs at most.
        total: What both cost together; without another budget it is the budget.
        what: What the second makes of the first, for the certificate.
    """

    curator: Curator
    parts: _Parts
    query: NoisyHistogram
    cost: float
    total: float
    what: str

    def run(
        self,
        spread: Callable[[Answer, Int[np.ndarray, "clusters"]], np.ndarray],
        respond: Callable[[np.ndarray, np.ndarray], Randomizer] | None,
    ) -> ClusterRelease:
        """Ask both; what is wrong with either is found before the first is charged.

        Args:
            spread: The distributions, from the histogram and the number of counted rows of each cluster.
            respond: The randomizer, from distributions and the clusters of its rows; None if no label responds.
        """
        parts, k = self.parts, self.curator.space.size
        if respond:
            respond(np.eye(k)[np.zeros(parts.count, dtype=np.int64)], parts.numbers[parts.answered[:1]])
        requests = [(self.query.promise(1).epsilon, parts.counted), (self.cost, parts.answered)]
        self.curator.check(requests if respond else requests[:1], self.total)
        histogram = self.curator.answer(self.query, rows=parts.counted, whole=self.total)
        rows = np.bincount(parts.numbers[parts.counted], minlength=parts.count)
        distributions = np.where(rows[:, None] > 0, spread(histogram, rows), 1 / k)
        if not respond:
            return ClusterRelease(histogram, None, parts.answered[:0], self.total, distributions)
        response = respond(distributions, parts.numbers[parts.answered])
        release = self.curator.randomize(response, rows=parts.answered)
        whole = with_charge(release, histogram, self.what)
        return ClusterRelease(histogram, whole, parts.answered, self.total, distributions)


def with_charge(release: Release, histogram: Answer, what: str) -> Release:
    """The release with a certificate of both charges: its law says what the histogram said."""
    certificate, counted = release.certificate, histogram.certificate
    if certificate is None:
        raise ValueError("expected a release that was charged for")
    assumptions = (*counted.assumptions, f"{what} {PAID}")
    both = dataclasses.replace(certificate, draws=(*counted.draws, *certificate.draws), assumptions=assumptions)
    return dataclasses.replace(release, certificate=both)


def _nearest(histogram: Answer, _: Int[np.ndarray, "clusters"]) -> Float[np.ndarray, "clusters k"]:
    """The distributions that are nearest to the noisy counts."""
    return histogram.distributions()


def _numbers(curator: Curator, clusters: object) -> Int[np.ndarray, "n"]:
    """The clusters of a curator's rows."""
    if curator.has_units:
        raise InputError("expected a curator of single rows, found units of several; use a randomizer for them")
    numbers = cell_numbers(clusters)
    if len(numbers) != len(curator):
        raise InputError(f"expected a cluster for each of the {len(curator)} rows, found {len(numbers)} of them")
    return numbers


def _parts(numbers: Int[np.ndarray, "n"], split: Split, share: float) -> _Parts:
    """The rows of both requests; for both all of them, or apart."""
    if split not in get_args(Split):
        raise InputError(f"expected a split of epsilon or rows, found {split!r}")
    if not 0 < _checks.number(share, "share") < 1 and (share != 1 or split == "rows"):
        raise InputError(
            f"expected a share between 0 and 1, found {share!r}; cluster_response takes 1 too, with split='epsilon'"
        )
    if split == "epsilon":
        every = np.arange(len(numbers))
        return _Parts(numbers, every, every, split, float(share))
    if len(numbers) < 2:
        raise InputError("expected at least two rows, some to count and some that respond, found one")
    return _Parts(numbers, *_public_parts(len(numbers), share), split, float(share))


def share_of_counts(numbers: Int[np.ndarray, "n"], epsilon: float) -> float:
    """How much of epsilon counts classes: half, and more where the counts of a mean cluster are else drowned by noise.

    There a response would say next to nothing either, and what is left for it keeps the release one of labels.
    """
    rows = len(numbers) / np.unique(numbers).size
    return min(_MOST_SHARE, max(_SHARE, _COUNTED / (epsilon * rows)))


def share_of_prior(numbers: Int[np.ndarray, "n"], epsilon: float, split: Split) -> float:
    """So much that the counts of a mean cluster are good enough for a prior."""
    rows = len(numbers) / np.unique(numbers).size
    needed = _COUNTED / (epsilon * rows)
    return min(0.5, max(_SHARE_OF_PRIOR, needed, _COUNTED / rows if split == "rows" else 0.0))


def _public_parts(rows: int, share: float) -> tuple[Int[np.ndarray, "a"], Int[np.ndarray, "b"]]:
    """Two parts of the rows by public chance, the same whenever they are asked for."""
    first, second = public_split(rows, [share, 1 - share], seed=0)
    return first, second
