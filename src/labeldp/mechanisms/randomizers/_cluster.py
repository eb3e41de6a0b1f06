"""Cluster response: each label is kept, or resampled from its cluster's distribution."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from labeldp import _checks
from labeldp._arrays import read_only
from labeldp._shapes import Float, Int
from labeldp.columns import row_names
from labeldp.errors import EpsilonError, InputError, LabelError, PriorError
from labeldp.mechanisms.queries import NoisyHistogram, cell_numbers
from labeldp.mechanisms.randomizers._prior import checked_prior
from labeldp.mechanisms.randomizers._randomizer import ClassRandomizer, kept
from labeldp.privacy import Guarantee, LabelSpace, exp_below, rest_of
from labeldp.privacy.accounting import Charge, RowRanges, compose
from labeldp.privacy.channels import ClusterChannel

#: The least probability of a class in a cluster's distribution, times the number of classes, by default.
_SHARE_OF_EVEN = 0.5

_NO_ROWS = np.empty(0, dtype=np.int32)


class FloorWarning(UserWarning):
    """A default floor that changes the distributions that were passed."""


@dataclass(frozen=True, eq=False)
class ClusterResponse(ClassRandomizer):
    """The response of Esfandiari et al.: the true class, or one drawn from the distribution of the row's cluster.

    The distributions are public: a noisy histogram that was charged for (``cluster_response`` does both), or released
    labels of other rows. The resampling probability of each cluster is set so that all of epsilon is used.

    Args:
        space: The declared label space.
        epsilon: Natural logarithm of the allowed ratio, above 0, for the response alone.
        distributions: Public probabilities of the classes in each cluster, in declared order, shape (clusters, k).
        clusters: The number of each row's cluster, from 0, public.
        floor: The least probability of a class in a cluster; the distributions are raised to it. By default half of
            ``1 / k``. With ``1 / k`` the mechanism is randomized response. With less, more released labels are right if
            clusters are good, and each depends more on its cluster and less on its row. A default that raises some
            of them issues a ``FloorWarning``.
        redrawn: One resampling probability for all clusters, the paper's lambda; it must cost at most epsilon at the
            floor. By default each cluster resamples as seldom as epsilon allows, which is never more often.

    Guarantee:
        * epsilon-label-DP of each label alone, with ``channel().epsilon <= epsilon``: in a cluster whose least
          probability is q, a label is resampled with probability ``1 / (1 + (exp(epsilon) - 1) q)``. With ``redrawn``
          epsilon is that of the floor, whatever the distributions are.
        * Neighbours differ in the label of one row; features, clusters and distributions are public, and were computed
          from these labels only through answers and releases that were charged for.

    References:
        Esfandiari et al. 2022, Algorithm 1, lines 16-28, Corollary 1 (``floor=1/k``) and Corollary 2. Busa-Fekete et
        al. 2023, Mechanism 1, for a public class distribution of each row: pass the distinct distributions, and the
        number of each row's. Round them first; every distribution is stored with the release.

    Example:
        >>> from labeldp import Classes, ClusterResponse
        >>> space, laws = Classes(["a", "b", "c"]), [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]
        >>> randomizer = ClusterResponse(space, 1.0, laws, [0, 0, 1], floor=0.1)
        >>> randomizer.channel().epsilon <= 1.0
        True

    Raises:
        EpsilonError: The epsilon is not a number above 0 that the integers of a word can express, or is less than what
            ``redrawn`` costs.
        PriorError: The distributions have another shape, or a row that is not a distribution.
        InputError: Clusters are not numbered by the rows of the distributions, or the floor is above ``1 / k``.
    """

    distributions: Float[np.ndarray, "clusters k"] = field(repr=False)
    clusters: Int[np.ndarray, "n"] = field(repr=False)
    floor: float | None = None
    redrawn: float | None = None

    name: ClassVar[str] = "cluster"
    draws_from: ClassVar[type[ClusterChannel]] = ClusterChannel
    about: ClassVar[str] = "True class, or a draw from the class distribution of the row's cluster"
    detail: ClassVar[str] = "one class, or one of its cluster"

    def __post_init__(self) -> None:
        if isinstance(self.space, LabelSpace):
            k = self.space.size
            floor = self.usual_floor(self.space) if self.floor is None else self.floor
            if isinstance(floor, bool) or not isinstance(floor, int | float) or not 0 < floor <= _largest_floor(k):
                raise InputError(f"expected a floor above 0 and at most 1/k = {1 / k:g}, found {floor!r}")
            if self.redrawn is not None and not 0 < _checks.number(self.redrawn, "redrawn") < 1:
                raise InputError(f"expected redrawn, a probability, between 0 and 1, found {self.redrawn!r}")
            checked = checked_prior(self.distributions, k)
            clusters = cell_numbers(self.clusters).astype(np.int32)
            if len(checked) == 0 or clusters.max() >= len(checked):
                raise PriorError(
                    f"expected a distribution for each cluster, found {len(checked)} and a cluster {clusters.max()}"
                )
            if self.floor is None:
                _warn_of_raised(checked, floor)
            object.__setattr__(self, "row_names", {"clusters": row_names(self.clusters)})
            object.__setattr__(self, "floor", floor)
            object.__setattr__(self, "distributions", checked)
            object.__setattr__(self, "clusters", read_only(clusters))
        super().__post_init__()

    @staticmethod
    def usual_floor(space: LabelSpace) -> float:
        """Half of the probability of a class of an even distribution."""
        return _SHARE_OF_EVEN / space.size

    @classmethod
    def uniform(cls, space: LabelSpace, epsilon: float, clusters: object) -> Self:
        """UniformRR (Corollary 1): randomized response, whatever the clusters."""
        numbers = cell_numbers(clusters)
        return cls(
            space, epsilon, np.full((int(numbers.max()) + 1, space.size), 1 / space.size), numbers, 1 / space.size
        )

    @kept
    def channel(self) -> ClusterChannel:
        """The channel from each row's true class to the released one."""
        floor = float(self.floor or 0.0)
        raised = truncated(self.distributions, floor)
        if self.redrawn is None:
            return ClusterChannel.at(raised, self.epsilon, self.clusters)
        channel = ClusterChannel.redrawing(raised, floor, self.redrawn, self.clusters)
        if channel.epsilon > self.epsilon:
            raise EpsilonError(
                f"expected an epsilon of at least {channel.epsilon!r}, the cost of resampling, found less"
            )
        return channel


@dataclass(frozen=True)
class ClusterParameters:
    """The parameters of the paper's Algorithm 1 as printed there, with their true cost.

    Theorem 1 states ``1 / sigma + log(1 + (1 - lam) / (lam tau))``. That is wrong: a replaced label changes two
    entries of the distribution of its cluster, so the noise costs ``2 / sigma``. For two classes, ten rows, tau = 0.1,
    sigma = 1 and lam = 0.999, counts of 2 and 8 and counts of 3 and 7 differ by the factor exp(2) in the probability
    that the first class is at tau, and the theorem allows exp(1.01).

    Args:
        space: The declared label space.
        tau: Truncation: the least probability of a class in a cluster, at most 1/k. It may be 0 if lam is 1.
        sigma: Noise on the label distribution of a cluster of n rows is ``Laplace(sigma / n)``: of scale sigma on its
            counts, drawn as discrete Laplace noise.
        lam: The probability to replace a label by one drawn from its cluster's distribution. With 1 the labels are not
            used again, and the distributions alone are released.

    Guarantee:
        ``epsilon``-label-DP, the sum of ``histogram_epsilon`` and ``response_epsilon``, which are computed from
        integers and rounded up. The response in a cluster whose least probability is q costs
        ``log(1 + (1 - lam) / (lam q))``, and q is known only after the histogram was charged: the guarantee and the
        charge use its worst case, tau.

    References:
        Esfandiari et al. 2022, Algorithm 1, Theorem 1 and Corollary 2.

    Example:
        >>> from labeldp import Classes
        >>> from labeldp import ClusterParameters
        >>> parameters = ClusterParameters(Classes(["no", "yes"]), tau=0.1, sigma=1.0, lam=0.999)
        >>> parameters.histogram_epsilon, round(parameters.epsilon, 3)
        (2.0, 2.01)

    Raises:
        EpsilonError: A parameter is no number, or the integers of a word cannot express what it costs.
        InputError: A parameter is out of its range.
    """

    space: LabelSpace
    tau: float
    sigma: float
    lam: float

    def __post_init__(self) -> None:
        if not isinstance(self.space, LabelSpace):
            raise LabelError(f"expected a declared label space first, found {type(self.space).__name__}")
        tau, sigma, lam = (_checks.number(getattr(self, name), name) for name in ("tau", "sigma", "lam"))
        if not 0 < lam <= 1:
            raise InputError(f"expected lam above 0 and at most 1, found {lam!r}")
        if not (0 < tau <= _largest_floor(self.space.size) or (tau == 0 and lam == 1)):
            raise InputError(f"expected tau above 0 and at most 1/k = {1 / self.space.size:g}, found {tau!r}")
        if not 0 < sigma < math.inf:
            raise InputError(
                f"expected a finite sigma above 0, found {sigma!r}; ClusterResponse.uniform needs no noise"
            )
        _checks.epsilon(2 / sigma, "2 / sigma")
        self.epsilon  # noqa: B018 (raises if integers cannot express it)

    @classmethod
    def cluster_rr(cls, space: LabelSpace, epsilon: float, tau: float) -> Self:
        """ClusterRR (Corollary 2) at the requested total epsilon.

        With ``sigma = 1 / e`` and ``lam = 1 / (1 + (exp(e) - 1) tau)`` it costs ``2 e`` for the noise and ``e`` for the
        response, so ``e`` is a third of epsilon.

        Args:
            space: The declared label space.
            epsilon: The total epsilon.
            tau: In the paper the heterogeneity of the clusters, which depends on labels: give a public guess of it.
        """
        sigma = 3 / _checks.epsilon(epsilon)
        rest = rest_of(epsilon, cls(space, tau, sigma, 1.0).histogram_epsilon)
        exact = 1 / (1 + (exp_below(rest) - 1) * Fraction(tau))
        lam = float(exact)
        while lam < exact:  # a larger probability to resample costs less
            lam = math.nextafter(lam, 1.0)
        return cls(space, tau, sigma, lam)

    @cached_property
    def histogram_epsilon(self) -> float:
        """The epsilon of the noisy histogram: ``2 / sigma``."""
        return self.query(None).promise(1).epsilon

    @cached_property
    def response_epsilon(self) -> float:
        """The worst-case epsilon of the response: ``log(1 + (1 - lam) / (lam tau))``."""
        even = np.full((1, self.space.size), 1 / self.space.size)
        return 0.0 if self.lam == 1 else ClusterChannel.redrawing(even, self.tau, self.lam, _NO_ROWS).epsilon

    @property
    def epsilon(self) -> float:
        """The total epsilon of both on the same rows."""
        costs = (self.histogram_epsilon, self.response_epsilon)
        return compose(Charge(Guarantee(cost), RowRanges.all(1)) for cost in costs)[0]

    def query(self, clusters: object, count: int = 0) -> NoisyHistogram:
        """The noisy histogram of the classes in each cluster."""
        return NoisyHistogram(self.space, 2 / self.sigma, clusters, count)  # type: ignore[arg-type]

    def response(self, distributions: object, clusters: object) -> ClusterResponse:
        """The response of each label towards the distribution of its cluster."""
        if self.lam == 1:
            raise InputError("expected lam below 1 for a response of labels, found 1, which ignores every label")
        return ClusterResponse(self.space, self.response_epsilon, distributions, clusters, self.tau, self.lam)  # type: ignore[arg-type]


def _warn_of_raised(distributions: Float[np.ndarray, "clusters k"], floor: float) -> None:
    """Warn if a default floor raises probabilities."""
    if raised := int((distributions < floor).any(axis=1).sum()):
        warnings.warn(
            f"{raised:,} of {len(distributions):,} distributions have a class less probable than {floor:g}, the "
            "default floor, and were raised to it; pass floor= to choose another, or this one",
            FloorWarning,
            stacklevel=4,
        )


def truncated(frequencies: Float[np.ndarray, "clusters k"], floor: float) -> Float[np.ndarray, "clusters k"]:
    """Distributions whose every entry is at least the floor, from noisy frequencies.

    Frequencies are clipped to [floor, 1], and the deficit or excess of their sum is distributed in proportion to the
    distance of each from the bound that it moves towards. Distributions above the floor do not change.

    References:
        Esfandiari et al. 2022, Algorithm 1, lines 5-19, and Theorem 6: the result is a distribution within [floor, 1].
    """
    cut = np.clip(frequencies, floor, 1.0)
    missing = 1.0 - cut.sum(axis=1, keepdims=True)
    slack = np.where(missing < 0, cut - floor, 1.0 - cut)
    total = slack.sum(axis=1, keepdims=True)
    distributions = cut + missing * np.divide(slack, total, out=np.zeros(cut.shape), where=total > 0)
    return read_only(np.asarray(distributions))


def _largest_floor(classes: int) -> float:
    """The largest floor: 1/k, with a tolerance for rounding."""
    return (1 + 1e-9) / classes
