"""Esfandiari et al. 2022: what learning from randomized clusters can reach, and what no mechanism can."""

from __future__ import annotations

import math

from labeldp import _checks
from labeldp.bounds._checks import chance, classes_of, not_negative, positive, rows_of
from labeldp.bounds.theorems._bound import Bound
from labeldp.errors import InputError

_PAPER = "Esfandiari et al. 2022"
_RISK = "the risk of the function that fits the released labels best, beyond the least possible,"
_FAILING = "with probability at least one minus the failure"


def cluster_risk(
    rows: int,
    classes: int,
    complexity: float,
    heterogeneity: float,
    cluster_size: int,
    resampled: float,
    corrected: float,
    scale: float,
    threshold: float,
    failure: float = 0.05,
) -> Bound:
    """Theorem 2: ``(K / (1-b)) sqrt(dim ln(1/g) / n) + (K |b - l| / (1-b)) (phi + K sigma / s + K tau)``, constant 1.

    Args:
        rows: n.
        classes: K.
        complexity: dim, of the functions and the loss.
        heterogeneity: phi, how far labels of a row are from those of its cluster: the expected sum of differences of
            chances. It is a function of private labels: compute it from released ones, or assume it.
        cluster_size: s, the fewest rows of a cluster.
        resampled: lambda, the chance that a label is drawn anew from its cluster.
        corrected: b, what the modified loss corrects for; below 1. Equal to ``resampled`` it leaves no second term.
        scale: sigma; the noise on a cluster's shares is Laplace of scale sigma / n_c.
        threshold: tau, the least share, at most 1 / K.
        failure: g.

    References:
        Esfandiari et al. 2022, theorem 2. Its first factor K is not needed: ``Q = (1-b) I + b q 1'`` has the inverse
        ``(I - b q 1') / (1-b)``, so that the modified loss is at most ``1 / (1-b)``, not ``K / (1-b)``.
    """
    n, classes, s = rows_of(rows), classes_of(classes), rows_of(cluster_size, "cluster_size")
    b, lam = chance(corrected, "corrected", one=False), chance(resampled, "resampled")
    phi, sigma = not_negative(heterogeneity, "heterogeneity"), not_negative(scale, "scale")
    tau = chance(threshold, "threshold")
    if tau > 1 / classes:
        raise InputError(f"expected a threshold of at most one over the classes, found {tau:g}")
    first = classes / (1 - b) * _spread(n, complexity, failure)
    return _risk("theorem 2", first + classes * abs(b - lam) / (1 - b) * (phi + classes * sigma / s + classes * tau))


def cluster_response_risk(
    rows: int, epsilon: float, classes: int, complexity: float, heterogeneity: float, failure: float = 0.05
) -> Bound:
    """Corollary 2 for what its parameters really cost: ``K sqrt(dim ln(1/g) / n) + K^2 phi / (1 + (e - 1) phi)``.

    e is ``exp(epsilon / 3)``. Clusters hold at least ``3 / (epsilon phi)`` rows.

    Args:
        rows: n.
        epsilon: Of each label, all in all.
        classes: K.
        complexity: dim, of the functions and the loss.
        heterogeneity: phi, see ``cluster_risk``; above 0.
        failure: g.

    References:
        Esfandiari et al. 2022, corollary 2, "O(epsilon)-label-DP". Its parameters cost exactly 3 epsilon: one changed
        label moves two shares of its cluster, so noise of scale 1 / epsilon costs 2 epsilon, and ``lambda =
        1 / (1 + (e - 1) phi)`` with ``tau = phi`` costs ``ln(1 + (1 - lambda) / (lambda tau)) = epsilon``.
    """
    n, classes, phi = rows_of(rows), classes_of(classes), positive(heterogeneity, "heterogeneity")
    third = _checks.epsilon(epsilon) / 3
    residual = classes**2 * phi / (1 + math.expm1(third) * phi)
    return _risk(
        "corollary 2",
        classes * _spread(n, complexity, failure) + residual,
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
        flipped: alpha, the chance that a peer tells the other class.
        sampled: theta, the share of rows that are released.
        failure: g.

    References:
        Esfandiari et al. 2022, theorem 4. What such an exchange costs is counted exactly by ``PeerExchange``.
    """
    n, theta = rows_of(rows), chance(sampled, "sampled", zero=False)
    phi, alpha = not_negative(heterogeneity, "heterogeneity"), chance(flipped, "flipped")
    return _risk("theorem 4", _spread(theta * n, complexity, failure) + phi + alpha)


def cluster_precision(cluster_size: int, classes: int, epsilon: float) -> Bound:
    """Theorem 5, sharpened: which classes occur in a cluster cannot be told well where clusters are small.

    A mechanism lists, for each cluster of s rows with s different classes, classes that occur in it. If it lists the
    true ones with any positive recall, its precision is at most ``s e / (s e + K - s)``, e for exp(epsilon).

    Proof. Draw classes evenly, and replace one label by a class that its cluster lacks: the two data sets have the same
    law. So a class that is absent is listed at least ``exp(-epsilon)`` times as often as one that occurs, and there are
    ``K - s`` of them for s that occur. For s = 1 randomized response is exactly as precise.

    Args:
        cluster_size: s.
        classes: K, more than s.
        epsilon: Of all that is published.

    References:
        Esfandiari et al. 2022, theorem 5; its proof ends with ``precision * recall <= s e / (K - s)``, which this
        implies.
    """
    s, classes = rows_of(cluster_size, "cluster_size"), classes_of(classes)
    if s >= classes:
        raise InputError(
            f"expected more classes than rows of a cluster, found {classes} for {s}; then nothing is hidden"
        )
    value = 1 / (1 + (classes - s) / s * math.exp(-_checks.epsilon(epsilon)))
    return Bound(
        value=value,
        kind="upper",
        theorem=f"{_PAPER}, theorem 5",
        statement="the precision of every list of the classes that occur in clusters is at most this",
        constants="proven",
        assumptions=("each row of a cluster has another class", "some true class is listed now and then"),
    )


def _risk(theorem: str, value: float, sizes: tuple[tuple[str, float], ...] = ()) -> Bound:
    return Bound(
        value=min(1.0, value),
        kind="upper",
        theorem=f"{_PAPER}, {theorem}",
        statement=f"{_RISK} is at most this, {_FAILING}",
        constants="conventional",
        assumptions=("losses lie between 0 and 1", "every cluster has at least the declared size"),
        sizes=sizes,
    )


def _spread(rows: float, complexity: float, failure: float) -> float:
    """``sqrt(dim ln(1/g) / n)``."""
    failing = chance(failure, "failure", zero=False, one=False)
    return math.sqrt(positive(complexity, "complexity") * math.log(1 / failing) / rows)
