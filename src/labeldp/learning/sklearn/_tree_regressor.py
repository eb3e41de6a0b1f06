"""Regressor by a tree of clusters, which averages over all prunings of the tree."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import logsumexp, softmax

from labeldp._documented import documented_in
from labeldp._shapes import Float, Int
from labeldp.learning.cells import ClusterTree
from labeldp.learning.features import row_weights
from labeldp.learning.losses import (
    decoded_numbers,
    ends_of,
    expected_mean,
    label_variance,
    noise_variances,
    require_numeric_labels,
)
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn._regressor import NumberRegressor
from labeldp.learning.sklearn._tree import LeafModel, average_prunings, sums_of_nodes
from labeldp.release import Release

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
