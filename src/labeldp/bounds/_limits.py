"""Limits of the field: every bound of the papers that applies to a problem, by paper and theorem."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from labeldp import _checks
from labeldp._notebook import Shown
from labeldp.bounds import theorems
from labeldp.bounds._checks import check_rows
from labeldp.bounds.planning import NO_FEATURES, Conventions
from labeldp.bounds.theorems import Bound, ClusterRandomization, ConvexProblem, LabelTails, Regularity
from labeldp.errors import InputError
from labeldp.mechanisms.randomizers import gradient_response
from labeldp.privacy import Classes, Interval, LabelSpace

#: The trust models that theorems distinguish.
_TRUSTED = ("local", "central")
#: The largest epsilon of Ghazi et al. 2021's bounds for convex losses.
_SMALL_EPSILON = 1.0
#: The order at which the features of a model and the true ones are compared.
_ORDER = 2.0
#: Most classes for which the channel of least noise is computed.
_MOST_CHANNEL = 1 << 12


@dataclass(frozen=True)
class Premises:
    """Quantities that theorems take besides rows, classes, features and epsilon.

    A bound whose premise is None is left out.

    Attributes:
        delta: Failure probability of everything published; above 0 it admits Gaussian noise.
        diameter: Of the set of parameters, for convex losses.
        lipschitz: Of the loss in the parameters.
        complexity: dim of the functions and the loss; by default the number of weights of a linear model.
        candidates: Classes that a prior leaves to each row.
        outside: Probability that the true class is not among them.
        heterogeneity: phi, the expected L1 distance between the label distributions of a row and of its cluster.
        cluster_size: Rows of a cluster whose labels all differ, for lists of the classes in clusters.
        flipped: Probability that a peer reports the other of two classes.
        divergence: Largest Rényi divergence of order 2 of true features from those of a model, all classes mixed.
        moments: Number of finite moments of numeric labels, which then need not be bounded; infinite for bounded ones.
        moment: The bound of the last of them, ``E[|Y|^p | X]``.
    """

    delta: float = 0.0
    diameter: float = 1.0
    lipschitz: float = 1.0
    complexity: float | None = None
    candidates: int | None = None
    outside: float = 0.0
    heterogeneity: float | None = None
    cluster_size: int | None = None
    flipped: float | None = None
    divergence: float | None = None
    moments: float = math.inf
    moment: float = 1.0


#: What is not stated, but delta of 0 and a convex problem of unit size.
NO_PREMISES = Premises()


@dataclass(frozen=True)
class Limits(Shown):
    """Bounds that apply to a problem.

    Attributes:
        rows: Number of rows.
        classes: The number of classes; None of numeric labels.
        epsilon: Of each label, or of everything published.
        dimension: Effective dimension of the features; 0 without features.
        trust: ``"local"`` or ``"central"``.
        bounds: The bounds, by paper.
    """

    rows: int
    classes: int | None
    epsilon: float
    dimension: float
    trust: str
    bounds: tuple[Bound, ...]


@dataclass(frozen=True)
class _Problem:
    """A problem in the terms of the theorems."""

    space: LabelSpace
    rows: int
    epsilon: float
    trust: str
    conventions: Conventions
    premises: Premises
    convex: ConvexProblem = field(init=False)

    def __post_init__(self) -> None:
        premises = self.premises
        convex = ConvexProblem(self.rows, self.epsilon, premises.diameter, premises.lipschitz)
        object.__setattr__(self, "convex", convex)

    @property
    def classes(self) -> int | None:
        return None if isinstance(self.space, Interval) else self.space.size

    @property
    def regularity(self) -> Regularity:
        stated = self.conventions
        return Regularity(stated.dimension, stated.smoothness, margin=stated.margin)

    @property
    def complexity(self) -> float:
        linear = (self.conventions.dimension + 1.0) * ((self.classes or 2) - 1)
        return linear if self.premises.complexity is None else self.premises.complexity

    @property
    def redrawn(self) -> float:
        """The probability with which randomized response at this epsilon draws a label uniformly."""
        return theorems.uniform_share(self.classes or 2, self.epsilon)

    @property
    def commonest(self) -> float:
        shares = self.conventions.shares
        return 1.0 / (self.classes or 2) if shares is None else max(shares)


def limits(
    space: LabelSpace,
    rows: int,
    epsilon: float,
    *,
    trust: str = "local",
    conventions: Conventions = NO_FEATURES,
    premises: Premises = NO_PREMISES,
) -> Limits:
    """List every bound of the five papers that applies to a problem, from public numbers alone.

    Bounds of classification and regression need features (``Conventions.dimension``); others need what ``Premises``
    states. A bound says whether its constants are proven or conventional; conventional ones serve comparisons.

    Args:
        space: Classes, or an interval.
        rows: Number of rows.
        epsilon: Of each label, or of everything published.
        trust: ``"local"``: each label is randomized alone; or ``"central"``: a trusted curator publishes.
        conventions: The features, and shares of the classes.
        premises: Further quantities.

    Raises:
        InputError: A number is out of range.

    Example:
        >>> from labeldp import Classes
        >>> from labeldp.bounds import limits
        >>> for bound in limits(Classes(range(10)), 100_000, 1.0).bounds:
        ...     if bound.constants == "proven" and bound.theorem.startswith("Chua"):
        ...         print(f"{bound.theorem}: {bound.kind} {bound.value:.3g}")
        Chua et al. 2025, theorem 1: upper 0.0203
        Chua et al. 2025, theorem 2, with constants: lower 0.000269
        Chua et al. 2025, Appendix A: upper 0.0186
        Chua et al. 2025, corollary 1: upper 0.0265
    """
    if trust not in _TRUSTED:
        raise InputError(f"expected a trust model among {', '.join(_TRUSTED)}, found {trust!r}")
    problem = _Problem(space, check_rows(rows), _checks.epsilon(epsilon), trust, conventions, premises)
    papers = (_zhao, _ghazi, _chua, _esfandiari, _busafekete)
    bounds = tuple(bound for paper in papers for bound in paper(problem))
    return Limits(problem.rows, problem.classes, problem.epsilon, conventions.dimension, trust, bounds)


def _zhao(problem: _Problem) -> Iterator[Bound]:
    """Classification and regression in cells or by neighbours."""
    trust, n, e = problem.trust, problem.rows, problem.epsilon
    if not problem.conventions.dimension:
        return
    smooth = problem.regularity
    if isinstance(problem.space, Interval):
        yield from _zhao_of_numbers(problem, problem.space)
        return
    if smooth.smoothness * smooth.margin <= smooth.dimension:
        yield theorems.classification_lower(trust, n, e, smooth)
    yield theorems.classification_upper(trust, n, e, problem.space.size, smooth)


def _zhao_of_numbers(problem: _Problem, space: Interval) -> Iterator[Bound]:
    """Bounded labels, of half the length of their range from its middle; and heavy tails where moments are stated."""
    half, premises = (space.high - space.low) / 2, problem.premises
    tails = [LabelTails(half)]
    if premises.moments != math.inf:
        tails.append(LabelTails(premises.moment, premises.moments))
    for each in tails:
        size = half if not each.heavy else 1.0
        smooth = Regularity(problem.conventions.dimension, problem.conventions.smoothness, lipschitz=size)
        yield theorems.regression_lower(problem.trust, problem.rows, problem.epsilon, smooth, each)
        yield theorems.regression_upper(problem.trust, problem.rows, problem.epsilon, smooth, each)


def _ghazi(problem: _Problem) -> Iterator[Bound]:
    """Convex losses, and generalization from labels that were randomized among candidates."""
    convex, premises, k = problem.convex, problem.premises, problem.classes
    small = problem.epsilon <= _SMALL_EPSILON
    if k is not None and small:
        yield theorems.convex_response_upper(convex, k)
        if premises.candidates is not None:
            yield theorems.convex_candidates_upper(convex, premises.candidates, premises.outside)
    if k is not None and premises.delta > 0:
        yield theorems.convex_gaussian_upper(convex, premises.delta, k)
    yield theorems.convex_population_lower(convex, premises.delta)
    yield theorems.convex_empirical_lower(convex, premises.delta)
    if k is not None:
        among, rademacher = premises.candidates or k, math.sqrt(problem.complexity / problem.rows)
        yield theorems.prior_generalization(problem.rows, problem.epsilon, among, rademacher, premises.outside)


def _chua(problem: _Problem) -> Iterator[Bound]:
    """Convex losses where each label is randomized alone."""
    convex, k = problem.convex, problem.classes
    if k is None or problem.trust != "local":
        return
    yield theorems.convex_local_upper(convex, k)
    yield theorems.convex_local_lower(convex, k)
    yield theorems.convex_sequential_lower(convex, k)
    yield theorems.convex_subset_upper(convex, k)
    yield theorems.convex_vector_upper(convex, k)
    if k <= _MOST_CHANNEL:
        channel = gradient_response(Classes(range(k)), problem.epsilon).channel()
        yield theorems.convex_channel_upper(problem.rows, channel, convex.diameter, convex.lipschitz)


def _esfandiari(problem: _Problem) -> Iterator[Bound]:
    """Functions that fit randomized labels best, and lists of the classes in clusters."""
    n, e, k, premises, dim = problem.rows, problem.epsilon, problem.classes, problem.premises, problem.complexity
    if k is None:
        return
    yield theorems.cluster_risk(n, k, dim, 0.0, ClusterRandomization.uniform(k, e))
    if premises.heterogeneity is not None:
        if problem.trust == "central" and premises.heterogeneity > 0:
            yield theorems.cluster_response_risk(n, e, k, dim, premises.heterogeneity)
        if k == 2 and premises.flipped is not None:
            yield theorems.peer_risk(n, dim, premises.heterogeneity, premises.flipped)
    if premises.cluster_size is not None and premises.cluster_size < k:
        yield theorems.cluster_precision(premises.cluster_size, k, e)


def _busafekete(problem: _Problem) -> Iterator[Bound]:
    """Attacks on labels by whoever does not know the features, and features that are released too."""
    k, e, apart = problem.classes, problem.epsilon, problem.premises.divergence
    if k is None:
        return
    yield theorems.pure_attack_limit(e, k, problem.commonest)
    yield theorems.label_divergence_lower(_ORDER, k, problem.redrawn)
    if apart is not None:
        resampled = theorems.features_divergence(_ORDER, k, problem.redrawn, apart)
        yield resampled
        yield theorems.attack_limit(resampled.value, _ORDER, k, problem.commonest)
