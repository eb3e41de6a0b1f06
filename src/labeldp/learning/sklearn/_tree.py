"""A learner of the class distributions of a tree of clusters: how small clusters may be, labels say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_matrix
from scipy.special import logsumexp
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp.errors import InputError, RowsError
from labeldp.learning.cells import ClusterTree
from labeldp.learning.features import row_weights
from labeldp.learning.losses import released
from labeldp.learning.sklearn._soft_labels import ProbabilityClassifier
from labeldp.release import Release

#: Shares of the first class of a cluster beside an even rest, and of the first of two classes beside the other.
_PURITIES, _HALVES, _REST = (0.5, 0.7, 0.85, 0.95, 0.99), (0.3, 0.5, 0.7), 0.05
#: What a cluster in which all classes are alike is likely beforehand.
_EVEN = 0.1
#: Clusters of two classes are thought of where there are at most so many classes.
_FEW_CLASSES = 16
_ENTRIES_PER_CHUNK = 1 << 22


class TreeClassifier(ProbabilityClassifier):
    """Class distributions of clusters that are as small as released labels allow, place by place.

    Each node of a tree of clusters either has one class distribution for all its rows, or is split into its two parts,
    both equally likely beforehand, and all prunings of the tree are weighed by how likely they make the released
    labels. A distribution is one of a few: nearly pure, of two classes, or even. So nothing is to be tuned: at a small
    epsilon large clusters are named, at a large one the smallest.

    Features are public, so trees cost nothing, and each label may have been randomized alone.

    Args:
        trees: Trees of clusters of the same rows, such as those of ``Embedding.tree`` on 15, 30 and 60 eigenvectors.
            The mean of what they say is taken.

    Attributes:
        classes_: The declared classes.
        distributions_: The class distribution of each leaf, a matrix for each tree.
        evidence_: For each tree the log likelihood of the released labels, in nats over knowing nothing. Of several
            trees, or numbers of eigenvectors, the largest is best.

    Guarantee:
        What is learned from a release is covered by the release's guarantee, at no further cost. Trees are taken from
        features alone.

    References:
        Willems, Shtarkov and Tjalkens 1995 (context-tree weighting), whose recursion sums over all prunings.

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

    def __init__(self, trees: Sequence[ClusterTree]) -> None:
        self.trees = trees

    def fit(self, X: Any, y: Release, sample_weight: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Weigh all prunings.

        Args:
            X: The leaf of each of n rows in each tree, shape (n, trees), or (n,) for one tree; n rows may be some of
                those that the trees were found in.
            y: A release of n rows.
            sample_weight: How often each row counts.
        """
        release = released(y)
        leaves = self._leaves(X)
        if len(leaves) != len(release):
            raise RowsError(f"expected a released label for each of {len(leaves)} rows, found {len(release)}")
        weights = row_weights(sample_weight, len(release))
        mixtures, before = _mixtures(release.space.size)
        found = [
            _weighted(_sums(release, leaf, tree.count, weights, mixtures), tree.merges, mixtures, before)
            for tree, leaf in zip(self.trees, leaves.T, strict=True)
        ]
        self.classes_ = np.array(release.space.points)
        self.distributions_ = [distributions for distributions, _ in found]
        self.evidence_ = np.array([evidence for _, evidence in found])
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k), for leaves as in ``fit``."""
        check_is_fitted(self)
        leaves = self._leaves(X)
        return np.asarray(
            np.mean([each[leaf] for each, leaf in zip(self.distributions_, leaves.T, strict=True)], axis=0)
        )

    def _leaves(self, given: Any) -> Int[np.ndarray, "n t"]:
        """The leaf of each row in each tree, checked."""
        trees = tuple(self.trees)
        if not trees or not all(isinstance(tree, ClusterTree) for tree in trees):
            raise InputError("expected trees of labeldp.learning.cells in a list, found others; see cluster_tree")
        leaves = np.asarray(given)
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


def _mixtures(classes: int) -> tuple[Float[np.ndarray, "m k"], Float[np.ndarray, "m"]]:
    """The distributions that a cluster may have, and what each is likely beforehand."""
    single, even = np.eye(classes), np.full(classes, 1.0 / classes)
    pure = np.concatenate([share * single + (1.0 - share) * even for share in _PURITIES])
    one, other = np.triu_indices(classes if classes <= _FEW_CLASSES else 0, 1)
    both = [(1.0 - _REST) * (share * single[one] + (1.0 - share) * single[other]) for share in _HALVES]
    pairs = np.concatenate(both) + _REST * even
    kinds = [part for part in (pure, pairs) if len(part)]
    shares = [np.full(len(part), (1.0 - _EVEN) / len(kinds) / len(part)) for part in kinds]
    return np.concatenate([*kinds, even[None]]), np.concatenate([*shares, [_EVEN]])


def _sums(
    release: Release,
    leaf: Int[np.ndarray, "n"],
    count: int,
    weights: Float[np.ndarray, "n"],
    mixtures: Float[np.ndarray, "m k"],
) -> Float[np.ndarray, "leaves m"]:
    """How likely each distribution makes the released labels of each leaf, as logarithms over knowing nothing."""
    found = np.zeros((count, len(mixtures)))
    step = max(1, _ENTRIES_PER_CHUNK // len(mixtures))
    likelihood = release.likelihood()
    for low in range(0, len(leaf), step):
        part = likelihood[low : low + step]
        rows = np.log((part / part.mean(axis=1, keepdims=True)) @ mixtures.T)
        places = (leaf[low : low + step], np.arange(len(part)))
        found += csr_matrix((weights[low : low + step], places), shape=(count, len(part))) @ rows
    return found


def _weighted(
    sums: Float[np.ndarray, "leaves m"],
    merges: Int[np.ndarray, "s 2"],
    mixtures: Float[np.ndarray, "m k"],
    before: Float[np.ndarray, "m"],
) -> tuple[Float[np.ndarray, "leaves k"], float]:
    """The class distribution of each leaf over all prunings, and the log likelihood of all labels.

    With W a node's likelihood over all prunings below it and E that with one distribution for all its rows,
    ``W = E / 2 + W' W'' / 2`` for the parts ' and '', and W = E for a leaf. Going down, a node is reached by the
    prunings that split all above it; of these the share ``E / 2 W`` stops there.
    """
    leaves = len(sums)
    nodes = np.concatenate([sums, np.empty((len(merges), sums.shape[1]))])
    for i, (one, other) in enumerate(merges):
        nodes[leaves + i] = nodes[one] + nodes[other]
    joint = nodes + np.log(before)
    single = logsumexp(joint, axis=1)
    means = np.exp(joint - single[:, None]) @ mixtures
    whole, stops = single.copy(), np.ones(len(nodes))
    for i, (one, other) in enumerate(merges, start=leaves):
        halved = single[i] - math.log(2.0)
        whole[i] = np.logaddexp(halved, whole[one] + whole[other] - math.log(2.0))
        stops[i] = math.exp(halved - whole[i])
    reached, told = np.ones(len(nodes)), np.zeros_like(means)
    for i in range(len(nodes) - 1, -1, -1):
        told[i] += reached[i] * stops[i] * means[i]
        if i >= leaves:
            parts = merges[i - leaves]
            told[parts], reached[parts] = told[i], reached[i] * (1.0 - stops[i])
    return told[:leaves], float(whole[-1])
