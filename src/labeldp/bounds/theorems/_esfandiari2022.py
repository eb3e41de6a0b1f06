"""Esfandiari et al. 2022: upper bounds for learning from randomized clusters, and limits of all mechanisms."""

from __future__ import annotations

import math
from dataclasses import dataclass

from labeldp import _checks
from labeldp.bounds._checks import check_classes, check_rows
from labeldp.bounds.theorems._bound import Bound
from labeldp.errors import InputError

_PAPER = "Esfandiari et al. 2022"
_RISK = "the excess risk of the function that fits the released labels best"
_FAILING = "with probability at least one minus the failure probability"


@dataclass(frozen=True)
class ClusterRandomization:
    """Randomization of labels inside clusters.

    Args:
        cluster_size: s, the fewest rows of a cluster.
        resampled: lambda, the probability that a label is redrawn from its cluster.
        corrected: b, the resampling probability for which the modified loss corrects; below 1. If it equals
            ``resampled``, heterogeneity costs nothing.
        scale: sigma; the noise on a cluster's shares is Laplace of scale sigma / n_c.
        threshold: tau, the least share of a class, at most one over the number of classes.

    Raises:
        InputError: A number is out of range.
    """

    cluster_size: int
    resampled: float
    corrected: float
    scale: float
    threshold: float

    def __post_init__(self) -> None:
        check_rows(self.cluster_size, "cluster_size")
        _checks.share(self.corrected, "corrected", "[)")
        _checks.not_negative(self.scale, "scale")
        for name in ("resampled", "threshold"):
            _checks.share(getattr(self, name), name)

    @classmethod
    def uniform(cls, classes: int, epsilon: float) -> ClusterRandomization:
        """Corollary 1: randomized response, whatever the clusters, whose modified loss corrects all of it."""
        redrawn = uniform_share(classes, epsilon)
        return cls(1, redrawn, redrawn, 0.0, 1.0 / classes)


def uniform_share(classes: int, epsilon: float) -> float:
    """The probability with which randomized response redraws a label uniformly: ``K / (K + e - 1)``."""
    k = check_classes(classes)
    return k / (k + math.expm1(_checks.epsilon(epsilon)))


def cluster_risk(
    rows: int,
    classes: int,
    complexity: float,
    heterogeneity: float,
    randomization: ClusterRandomization,
    failure: float = 0.05,
) -> Bound:
    """Theorem 2: ``(K / (1-b)) sqrt(dim ln(1/g) / n) + (K |b - l| / (1-b)) (phi + K sigma / s + K tau)``, constant 1.

    Args:
        rows: n.
        classes: K.
        complexity: dim, of the functions and the loss.
        heterogeneity: phi, the expected L1 distance between a row's label distribution and that of its cluster. It is a
            function of private labels: compute it from released ones, or assume it.
        randomization: s, lambda, b, sigma and tau.
        failure: g.

    References:
        Esfandiari et al. 2022, theorem 2. Its first factor K is not needed: ``Q = (1-b) I + b q 1'`` has the inverse
        ``(I - b q 1') / (1-b)``, so that the modified loss is at most ``1 / (1-b)``, not ``K / (1-b)``.
    """
    n, k, phi = check_rows(rows), check_classes(classes), _checks.not_negative(heterogeneity, "heterogeneity")
    b, tau, noise = randomization.corrected, randomization.threshold, randomization.scale / randomization.cluster_size
    if tau > 1 / k:
        raise InputError(f"expected tau of at most one over the number of classes, found {tau:g}")
    uneven = k * abs(b - randomization.resampled) / (1 - b) * (phi + k * noise + k * tau)
    return _risk_bound("theorem 2", k / (1 - b) * _sampling_term(n, complexity, failure) + uneven)


def cluster_response_risk(
    rows: int, epsilon: float, classes: int, complexity: float, heterogeneity: float, failure: float = 0.05
) -> Bound:
    """Corollary 2 at its true cost of privacy: ``K sqrt(dim ln(1/g) / n) + K^2 phi / (1 + (e - 1) phi)``.

    e is ``exp(epsilon / 3)``. Clusters hold at least ``3 / (epsilon phi)`` rows.

    Args:
        rows: n.
        epsilon: Of each label, in total.
        classes: K.
        complexity: dim, of the functions and the loss.
        heterogeneity: phi, see ``cluster_risk``; above 0.
        failure: g.

    References:
        Esfandiari et al. 2022, corollary 2, "O(epsilon)-label-DP". Its parameters cost exactly 3 epsilon: one changed
        label moves two shares of its cluster, so noise of scale 1 / epsilon costs 2 epsilon, and ``lambda =
        1 / (1 + (e - 1) phi)`` with ``tau = phi`` costs ``ln(1 + (1 - lambda) / (lambda tau)) = epsilon``.
    """
    n, classes, phi = check_rows(rows), check_classes(classes), _checks.positive(heterogeneity, "heterogeneity")
    third = _checks.epsilon(epsilon) / 3
    residual = classes**2 * phi / (1 + math.expm1(third) * phi)
    return _risk_bound(
        "corollary 2",
        classes * _sampling_term(n, complexity, failure) + residual,
        (
            ("rows of a cluster", 1 / (third * phi)),
            ("resampled", 1 / (1 + math.expm1(third) * phi)),
            ("scale", 1 / third),
        ),
    )


def peer_risk(
    rows: int,
    complexity: float,
    heterogeneity: float,
    flipped: float,
    sampled: float = 1.0,
    failure: float = 0.05,
) -> Bound:
    """Theorem 4: peers exchange two-class labels: ``sqrt(dim ln(1/g) / (theta n)) + phi + alpha``, with constant 1.

    Args:
        rows: n.
        complexity: dim, of the functions and the loss.
        heterogeneity: phi, see ``cluster_risk``.
        flipped: alpha, the probability that a peer reports the other class.
        sampled: theta, the share of rows released.
        failure: g.

    References:
        Esfandiari et al. 2022, theorem 4. ``PeerExchange`` computes the exact cost of such an exchange.
    """
    n, theta = check_rows(rows), _checks.share(sampled, "sampled", "(]")
    phi, alpha = _checks.not_negative(heterogeneity, "heterogeneity"), _checks.share(flipped, "flipped")
    return _risk_bound("theorem 4", _sampling_term(theta * n, complexity, failure) + phi + alpha)


def cluster_precision(cluster_size: int, classes: int, epsilon: float) -> Bound:
    """Theorem 5, sharpened: upper bound on the precision of listing the classes that occur in a small cluster.

    A mechanism lists, for each cluster of s rows with s different classes, classes that occur in it. If its recall is
    positive, its precision is at most ``s e / (s e + K - s)``, e for exp(epsilon).

    Proof. Draw classes uniformly, and replace one label by a class that its cluster lacks: the two data sets have the
    same distribution. So an absent class is listed at least ``exp(-epsilon)`` times as often as one that occurs, and
    there are ``K - s`` of them for s that occur. For s = 1 randomized response has exactly this precision.

    Args:
        cluster_size: s.
        classes: K, more than s.
        epsilon: Of everything published.

    References:
        Esfandiari et al. 2022, theorem 5; its proof ends with ``precision * recall <= s e / (K - s)``, which this
        implies.
    """
    s, classes = check_rows(cluster_size, "cluster_size"), check_classes(classes)
    if s >= classes:
        raise InputError(
            f"expected more classes than rows of a cluster, found {classes} classes and {s} rows, where no bound holds"
        )
    value = 1 / (1 + (classes - s) / s * math.exp(-_checks.epsilon(epsilon)))
    return Bound(
        value=value,
        kind="upper",
        theorem=f"{_PAPER}, theorem 5",
        statement="the precision of every list of the classes that occur in clusters is at most this",
        constants="proven",
        assumptions=("each row of a cluster has another class", "some true class is listed with positive probability"),
    )


def _risk_bound(theorem: str, value: float, sizes: tuple[tuple[str, float], ...] = ()) -> Bound:
    return Bound(
        value=min(1.0, value),
        kind="upper",
        theorem=f"{_PAPER}, {theorem}",
        statement=f"{_RISK} is at most this, {_FAILING}",
        constants="conventional",
        assumptions=("losses lie between 0 and 1", "every cluster has at least the declared size"),
        sizes=sizes,
    )


def _sampling_term(rows: float, complexity: float, failure: float) -> float:
    """``sqrt(dim ln(1/g) / n)``."""
    failing = _checks.share(failure, "failure", "()")
    return math.sqrt(_checks.positive(complexity, "complexity") * math.log(1 / failing) / rows)
