"""Classifier and regressor by trees of clusters, which average over all prunings of each tree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import logsumexp, softmax
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Float, Int
from labeldp._threads import blocks
from labeldp.errors import InputError
from labeldp.learning.cells import ClusterTree
from labeldp.learning.features import row_weights
from labeldp.learning.heads import share_logits
from labeldp.learning.losses import (
    decoded_numbers,
    ends_of,
    expected_mean,
    label_variance,
    noise_variances,
    require_numeric_labels,
    require_release,
)
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn._regressor import NumberRegressor
from labeldp.learning.sklearn._soft_labels import ProbabilityClassifier, check_released_rows
from labeldp.release import Release, check_same_rows

#: Shares of the main class of nearly pure clusters; shares of the first class of two-class clusters, and the share of
#: all other classes there.
_PURITIES, _HALVES, _REST = (0.5, 0.7, 0.85, 0.95, 0.99), (0.3, 0.5, 0.7), 0.05
#: Prior probabilities of a cluster with a uniform distribution, and of one with the shares of all rows.
_UNIFORM_PRIOR, _SHARES_PRIOR = 0.1, 0.1
#: Most classes for which two-class clusters are considered.
_FEW_CLASSES = 16


class LeafModel:
    """Base of models that average the prunings of each of several trees, and weigh the trees by their evidence."""

    def __init__(self, trees: Sequence[ClusterTree], *, power: float = 0.0) -> None:
        self.trees = trees
        self.power = power

    def _leaves(self, numbers: Any, release: Release) -> Int[np.ndarray, "n t"]:
        """The leaf of each released row in each tree."""
        leaves = checked_leaves(self.trees, numbers)
        check_released_rows(leaves, release)
        check_same_rows(numbers, release)
        return leaves

    def _weigh(self, evidence: Sequence[float]) -> Self:
        self.evidence_ = np.array(evidence)
        self.weights_ = softmax(_checks.not_negative(self.power, "power") * self.evidence_)
        return self

    def _averaged(self, numbers: Any, of_leaves: str) -> np.ndarray:
        """The mean, over the trees, of an attribute that has a value for each leaf of each tree."""
        check_is_fitted(self)
        parts = zip(self.weights_, getattr(self, of_leaves), checked_leaves(self.trees, numbers).T, strict=True)
        return np.asarray(sum(weight * each[leaf] for weight, each, leaf in parts))


@documented_in("labeldp.learning.sklearn")
class TreeClassifier(LeafModel, ProbabilityClassifier):
    """Classifier by class distributions of clusters, whose size adapts locally to the released labels.

    Each node of a tree of clusters either has one class distribution for all its rows, or is split into its two parts,
    with equal prior probabilities, and all prunings of the tree are weighted by their likelihood of the released
    labels. A distribution is one of a few: nearly pure, of two classes, uniform, or the class shares of all rows. So
    there is nothing to tune: large clusters dominate at a small epsilon, the smallest ones at a large epsilon.

    Features are public, so trees cost nothing, and labels may be randomized one by one.

    Args:
        trees: Trees of clusters of the same rows, such as those of ``Embedding.tree`` on 15, 30 and 60 eigenvectors.
            Their predictions are averaged.
        power: Trees weigh in proportion to their likelihood raised to this: 0 for even weights, 1 for Bayesian
            averaging. Trees of the same rows err alike, so a power below 1 is better than 1.

    Attributes:
        classes_: The declared classes.
        distributions_: Class distribution of each leaf, a matrix for each tree.
        evidence_: Log likelihood of the released labels for each tree, in nats over the uniform model. The tree, or the
            number of eigenvectors, with the largest is best.
        weights_: Weight of each tree.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost. Trees depend on features
        alone.

    References:
        Willems, Shtarkov and Tjalkens 1995 (context-tree weighting), whose recursion sums over all prunings; Grünwald
        and van Ommen 2017, for powers of the likelihood.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator, SubsetResponse
        >>> from labeldp.learning.cells import cluster_tree
        >>> from labeldp.learning.sklearn import TreeClassifier
        >>> space, features = Classes(["no", "yes"]), np.repeat([[0.0], [1.0]], 2000, axis=0)
        >>> tree = cluster_tree(features + np.linspace(0.0, 0.1, 4000)[:, None], leaves=20)
        >>> curator = Curator(["no"] * 2000 + ["yes"] * 2000, space)
        >>> release = curator.randomize(SubsetResponse(space, epsilon=0.5))
        >>> model = TreeClassifier([tree]).fit(tree.leaves, release)
        >>> model.predict(tree.predict([[0.05], [1.05]])).tolist()
        ['no', 'yes']
    """

    def fit(self, X: Any, y: Release, sample_weight: Any = None, groups: Any = None) -> Self:  # noqa: N803
        """Weight all prunings by their likelihood.

        Args:
            X: The leaf of each of n rows in each tree, shape (n, trees), or (n,) for one tree; n rows may be some of
                those that the trees were found in.
            y: A release of n rows.
            sample_weight: Weights of rows.
            groups: The privacy unit of each row, shape (n,); ``"rows"`` if each row is its own. The more alike the
                labels of a unit are, the less its rows count.
        """
        release = require_release(y)
        units, leaves = Units.of(groups, release), self._leaves(X, release)
        odds = release.likelihood()
        odds = odds / odds.mean(axis=1, keepdims=True)
        weights = row_weights(sample_weight, len(release)) / units.design_effect(odds - odds.mean(axis=0))
        mixtures, prior = _with_shares(release, weights, *_mixtures(release.space.size))
        results = [
            _class_distributions(
                _leaf_likelihoods(release, leaf, tree.count, weights, mixtures), tree.merges, mixtures, prior
            )
            for tree, leaf in zip(self.trees, leaves.T, strict=True)
        ]
        codes = self._set_classes(release.space)
        self.distributions_ = [distributions[:, codes] for distributions, _ in results]
        return self._weigh([evidence for _, evidence in results])

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k), for leaves as in ``fit``."""
        return self._averaged(X, "distributions_")


def checked_leaves(trees: Sequence[Any], numbers: Any) -> Int[np.ndarray, "n t"]:
    """The leaf of each row in each tree, shape (n, trees), from these or for one tree (n,)."""
    trees = tuple(trees)
    if not trees or not all(isinstance(tree, ClusterTree) for tree in trees):
        raise InputError("expected a list of ClusterTree, found something else; make trees with cluster_tree")
    leaves = np.asarray(numbers)
    leaves = leaves[:, None] if leaves.ndim == 1 else leaves
    if leaves.ndim != 2 or leaves.shape[1] != len(trees) or leaves.dtype.kind not in "iu":
        raise InputError(
            f"expected the leaf of each row in each of {len(trees)} trees, found {leaves.dtype} of shape "
            f"{leaves.shape}; stack tree.leaves, or tree.predict(features), as columns"
        )
    for tree, leaf in zip(trees, leaves.T, strict=True):
        if leaf.size:
            _checks.whole(int(leaf.min()), "leaf", 0, tree.count - 1)
            _checks.whole(int(leaf.max()), "leaf", 0, tree.count - 1)
    return leaves.astype(np.int64)


def _with_shares(
    release: Release, weights: Float[np.ndarray, "n"], mixtures: Float[np.ndarray, "m k"], prior: Float[np.ndarray, "m"]
) -> tuple[Float[np.ndarray, "m+1 k"], Float[np.ndarray, "m+1"]]:
    """Distributions and the class shares of all rows, so that what says nothing predicts these and no neighbour.

    Shares are fitted to the labels that they are weighed by, which makes these likelier by half a nat for each of k - 1
    free shares (Akaike 1974).
    """
    odds = _SHARES_PRIOR * math.exp(-0.5 * (release.space.size - 1))
    shares = softmax(share_logits(release, weights))
    return np.concatenate([mixtures, shares[None]]), np.append((1.0 - odds) * prior, odds)


def _mixtures(classes: int) -> tuple[Float[np.ndarray, "m k"], Float[np.ndarray, "m"]]:
    """The possible class distributions of a cluster, and their prior probabilities."""
    single, even = np.eye(classes), np.full(classes, 1.0 / classes)
    pure = np.concatenate([share * single + (1.0 - share) * even for share in _PURITIES])
    one, other = np.triu_indices(classes if classes <= _FEW_CLASSES else 0, 1)
    both = [(1.0 - _REST) * (share * single[one] + (1.0 - share) * single[other]) for share in _HALVES]
    pairs = np.concatenate(both) + _REST * even
    kinds = [part for part in (pure, pairs) if len(part)]
    shares = [np.full(len(part), (1.0 - _UNIFORM_PRIOR) / len(kinds) / len(part)) for part in kinds]
    return np.concatenate([*kinds, even[None]]), np.concatenate([*shares, [_UNIFORM_PRIOR]])


def _leaf_likelihoods(
    release: Release,
    leaf: Int[np.ndarray, "n"],
    count: int,
    weights: Float[np.ndarray, "n"],
    mixtures: Float[np.ndarray, "m k"],
) -> Float[np.ndarray, "leaves m"]:
    """Log likelihood of the released labels of each leaf under each distribution, over the uniform model."""
    sums = np.zeros((count, len(mixtures)))
    likelihood = release.likelihood()
    for rows in blocks(len(leaf), len(mixtures)):
        part = likelihood[rows]
        logarithms = np.log((part / part.mean(axis=1, keepdims=True)) @ mixtures.T)
        places = (leaf[rows], np.arange(len(part)))
        sums += csr_matrix((weights[rows], places), shape=(count, len(part))) @ logarithms
    return sums


def _class_distributions(
    sums: Float[np.ndarray, "leaves m"],
    merges: Int[np.ndarray, "s 2"],
    mixtures: Float[np.ndarray, "m k"],
    prior: Float[np.ndarray, "m"],
) -> tuple[Float[np.ndarray, "leaves k"], float]:
    """The class distribution of each leaf averaged over all prunings, and the log likelihood of all labels."""
    joint = sums_of_nodes(sums, merges) + np.log(prior)
    single = logsumexp(joint, axis=1)
    return average_prunings(single, np.exp(joint - single[:, None]) @ mixtures, merges)


def sums_of_nodes(sums: Float[np.ndarray, "leaves m"], merges: Int[np.ndarray, "s 2"]) -> Float[np.ndarray, "nodes m"]:
    """Sums over the rows of each node of a tree, from those of its leaves."""
    nodes = np.concatenate([sums, np.empty((len(merges), sums.shape[1]))])
    for joint, one, other in _levels(merges):
        nodes[joint] = nodes[one] + nodes[other]
    return nodes


def average_prunings(
    single: Float[np.ndarray, "nodes"], means: Float[np.ndarray, "nodes ..."], merges: Int[np.ndarray, "s 2"]
) -> tuple[Float[np.ndarray, "leaves ..."], float]:
    """Predictions of each leaf, averaged over all prunings of a tree, and the log likelihood of all labels.

    With W a node's likelihood averaged over all prunings below it and E that with one distribution for all its rows,
    ``W = E / 2 + W' W'' / 2`` for the parts ' and '', and W = E for a leaf. Going down, a node is reached by the
    prunings that split all its ancestors; the share ``E / 2 W`` of them stops there.

    Args:
        single: log E of each node.
        means: What each node predicts for its rows if it is not split.
        merges: The two nodes that each merge joins.
    """
    levels, whole, stops = _levels(merges), single.copy(), np.ones(len(single))
    for nodes, one, other in levels:
        halved = single[nodes] - math.log(2.0)
        whole[nodes] = np.logaddexp(halved, whole[one] + whole[other] - math.log(2.0))
        stops[nodes] = np.exp(halved - whole[nodes])
    reached, above = np.ones(len(single)), np.zeros_like(means)
    shape = (-1, *[1] * (means.ndim - 1))
    for nodes, *parts in reversed(levels):
        stopped = above[nodes] + (reached[nodes] * stops[nodes]).reshape(shape) * means[nodes]
        for part in parts:
            above[part], reached[part] = stopped, reached[nodes] * (1.0 - stops[nodes])
    leaves = len(single) - len(merges)
    return above[:leaves] + reached[:leaves].reshape(shape) * means[:leaves], float(whole[-1])


def _levels(merges: Int[np.ndarray, "s 2"]) -> list[tuple[Int[np.ndarray, "l"], ...]]:
    """Merged nodes and the two parts of each, in levels: the parts of a node are leaves or in levels before its own."""
    heights = [0] * (len(merges) + 1)
    for one, other in merges.tolist():
        heights.append(1 + max(heights[one], heights[other]))
    of_merges = np.array(heights[len(merges) + 1 :], dtype=np.int64)
    order = np.argsort(of_merges, kind="stable")
    levels = np.split(order, np.flatnonzero(np.diff(of_merges[order])) + 1) if len(order) else []
    return [(len(merges) + 1 + level, merges[level, 0], merges[level, 1]) for level in levels]


#: Prior variances of a cluster's mean around the mean of all rows, as shares of the variance of labels.
_BETWEEN = np.array([0.0, 0.02, 0.1, 0.3, 1.0])
#: Variances of labels within clusters that are tried, as shares of the variance of labels.
_WITHIN = (1.0, 0.5, 0.2, 0.05)


@documented_in("labeldp.learning.sklearn")
class TreeRegressor(LeafModel, NumberRegressor):
    """Regressor by mean labels of clusters, whose size adapts locally to the released labels.

    Each node of a tree of clusters either has one mean label for all its rows, or is split into its two parts, with
    equal prior probabilities, and all prunings of the tree are weighted by their likelihood of the released numbers.
    Means are normal around the mean of all rows, and released numbers around the means, with the variance of their
    noise and of labels within clusters, of which a few values are tried. So there is nothing to tune: where noise is
    large the mean of all rows is predicted, and the mean of a small cluster where it is small.

    Features are public, so trees cost nothing, and labels may be randomized one by one.

    Args:
        trees: Trees of clusters of the same rows. Their predictions are averaged.
        power: Trees weigh in proportion to their likelihood raised to this: 0 for even weights, 1 for Bayesian
            averaging.

    Attributes:
        means_: Mean label of each leaf, an array for each tree.
        evidence_: Log likelihood of the released numbers for each tree, in nats.
        weights_: Weight of each tree.
        range_: Ends of the declared range, to which predictions are clipped.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost. Trees depend on features
        alone.

    References:
        Willems, Shtarkov and Tjalkens 1995 (context-tree weighting), whose recursion sums over all prunings; Efron and
        Morris 1973, for means that are normal around the overall mean.

    Example:
        >>> import numpy as np
        >>> from labeldp import Curator, Interval
        >>> from labeldp.learning.cells import cluster_tree
        >>> from labeldp.learning.sklearn import TreeRegressor
        >>> features = np.repeat([[0.0], [1.0]], 2000, axis=0) + np.linspace(0.0, 0.1, 4000)[:, None]
        >>> tree = cluster_tree(features, leaves=20)
        >>> release = Curator([2.0] * 2000 + [8.0] * 2000, Interval(0.0, 10.0, 1.0)).randomize(epsilon=4.0)
        >>> model = TreeRegressor([tree]).fit(tree.leaves, release)
        >>> model.predict(tree.predict([[0.05], [1.05]])).round(0).tolist()
        [2.0, 8.0]
    """

    def fit(self, X: Any, y: Release, sample_weight: Any = None, groups: Any = None) -> Self:  # noqa: N803
        """Weight all prunings by their likelihood.

        Args:
            X: The leaf of each of n rows in each tree, shape (n, trees), or (n,) for one tree; n rows may be some of
                those that the trees were found in.
            y: A release of n rows with numeric labels; bins are decoded.
            sample_weight: Weights of rows.
            groups: The privacy unit of each row, shape (n,); ``"rows"`` if each row is its own. The more alike the
                labels of a unit are, the less its rows count.
        """
        release = require_numeric_labels(y)
        units, leaves = Units.of(groups, release), self._leaves(X, release)
        numbers, noise = decoded_numbers(release), noise_variances(release)
        variance = label_variance(release, numbers)
        offsets = (numbers - np.average(numbers, weights=1.0 / (noise + variance))) / (noise + variance)
        weights = row_weights(sample_weight, len(release)) / units.design_effect(offsets)
        self.range_ = ends_of(release)
        found = [
            max(
                (
                    _leaf_means(tree, leaf, numbers, noise + share * variance, weights, variance, self.range_)
                    for share in _WITHIN
                ),
                key=lambda result: result[1],
            )
            for tree, leaf in zip(self.trees, leaves.T, strict=True)
        ]
        self.means_ = [means for means, _ in found]
        return self._weigh([evidence for _, evidence in found])

    def predict(self, X: Any) -> Float[np.ndarray, "n"]:  # noqa: N803
        """The estimated mean label of each row, within the declared range, for leaves as in ``fit``."""
        means = self._averaged(X, "means_")
        return np.asarray(np.clip(means, *self.range_))


def _leaf_means(
    tree: ClusterTree,
    leaf: Int[np.ndarray, "n"],
    numbers: Float[np.ndarray, "n"],
    variances: Float[np.ndarray, "n"],
    counts: Float[np.ndarray, "n"],
    spread: float,
    ends: tuple[float, float],
) -> tuple[Float[np.ndarray, "leaves"], float]:
    """The mean label of each leaf averaged over all prunings, and the log likelihood of all numbers.

    With the weights ``w = c / v`` of numbers z of variances v that count c times, mu the mean label expected from them,
    W the sum of w over a node and S that of ``w (z - mu)``, a mean that is normal around mu with variance t has the
    likelihood ``exp(S^2 t / (2 (1 + t W))) / sqrt(1 + t W)`` over that of mu alone, and ``mu + S t / (1 + t W)`` is its
    mean given the numbers.
    """
    weights = counts / variances
    mean = expected_mean(numbers, weights, *ends)
    sums = [np.bincount(leaf, each, minlength=tree.count) for each in (weights, weights * (numbers - mean))]
    total, offset = sums_of_nodes(np.stack(sums, axis=1), tree.merges).T[:, :, None]
    between = _BETWEEN * spread
    shrunk = offset * between / (1.0 + between * total)
    logs = 0.5 * (offset * shrunk - np.log1p(between * total))
    single = logsumexp(logs, axis=1) - np.log(len(between))
    means, evidence = average_prunings(single, (softmax(logs, axis=1) * shrunk).sum(axis=1), tree.merges)
    alone = -0.5 * float((counts * np.log(2.0 * np.pi * variances) + weights * (numbers - mean) ** 2).sum())
    return mean + means, evidence + alone
