"""Class distributions of public clusters, estimated from the released labels of their rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from labeldp._shapes import Float, Int
from labeldp._threads import blocks
from labeldp.errors import InputError
from labeldp.learning.losses import require_release, splits
from labeldp.learning.sklearn._soft_labels import ProbabilityClassifier
from labeldp.release import Release

#: Purities: excess share of the leading class of a cluster over that in all rows.
_PURITIES = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.97])

#: Rounds of estimating how common names and purities are among clusters.
_ROUNDS = 10

#: Candidate numbers of steps of expectation maximisation.
_STEPS = (0, 1, 3, 10, 30, 100)


class ClusterNames(ProbabilityClassifier):
    """Classifier that predicts the class distribution of a row's cluster, estimated from released labels.

    One released label reveals little at a small epsilon; all labels of a cluster together determine its distribution.
    The model of a cluster is one leading class, its name, with some purity, mixed with the distribution of all rows.
    How common names and purities are is estimated from all clusters, so that small clusters stay near the overall
    distribution. From there some steps of expectation maximisation go towards the maximum likelihood of each cluster,
    an arbitrary mix of classes: as many steps as are best for held-out released labels, none in doubt. In a combined
    release, rows with candidates count with their own channel.

    Args:
        clusters: Predictor of clusters: ``labeldp.learning.cells.Clusters``, or any fitted object whose ``predict``
            returns numbers from 0 (if learners are copied, as in stages, scikit-learn's own in a ``FrozenEstimator``).
            None if the features are these numbers, shape (n,) or (n, 1).
        steps: Number of steps of expectation maximisation, or ``"auto"``.

    Attributes:
        classes_: The declared classes.
        distributions_: The class distribution of each cluster, shape (clusters, k).
        overall_: The class distribution of all rows, predicted for unknown clusters.
        steps_: Number of steps made.

    Guarantee:
        What is learned from a release is covered by the release's guarantee, at no further cost. Clusters depend
        only on features.

    References:
        Robbins 1956, for empirical Bayes over clusters; Dempster et al. 1977, for the steps.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator, SubsetResponse
        >>> from labeldp.learning.stages import ClusterNames
        >>> numbers = np.repeat([0, 1, 2, 3], 1000)
        >>> space = Classes(["a", "b", "c", "d"])
        >>> curator = Curator(np.repeat(["b", "a", "d", "c"], 1000), space)
        >>> names = ClusterNames().fit(numbers, curator.randomize(SubsetResponse(space, epsilon=1.0)))
        >>> names.predict(np.arange(4)).tolist()
        ['b', 'a', 'd', 'c']
    """

    def __init__(self, clusters: Any = None, *, steps: int | Literal["auto"] = "auto") -> None:
        self.clusters = clusters
        self.steps = steps

    def fit(self, X: Any, y: Release) -> Self:  # noqa: N803 (scikit-learn's name)
        """Fit on the clusters, or features, of n rows and a release of n rows."""
        release, cells = require_release(y), self._cells(X)
        if len(cells) != len(release) or len(cells) == 0:
            raise InputError(
                f"expected at least one row, and a released label for each of {len(cells)}, found {len(release)}"
            )
        if self.steps != "auto" and not (isinstance(self.steps, int) and self.steps >= 0):
            raise InputError(f"expected a number of steps or 'auto', found {self.steps!r}")
        likelihood, count = _likelihood(release), int(cells.max()) + 1
        self.classes_ = np.array(release.space.points)
        self.steps_ = _best_steps(likelihood, cells, count) if self.steps == "auto" else self.steps
        named, self.overall_ = _named_distributions(likelihood, cells, count)
        self.distributions_ = dict(_em_distributions(likelihood, cells, named, [self.steps_]))[self.steps_]
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        check_is_fitted(self)
        cells = self._cells(X)
        known = np.minimum(cells, len(self.distributions_) - 1)
        return np.where((cells == known)[:, None], self.distributions_[known], self.overall_)

    def _cells(self, features: Any) -> Int[np.ndarray, "n"]:
        """The cluster of each row."""
        cells = np.asarray(features if self.clusters is None else self.clusters.predict(features))
        numbers = cells[:, 0] if cells.ndim == 2 and cells.shape[1] == 1 else cells
        whole = numbers.ndim == 1 and numbers.dtype.kind in "iuf" and bool((numbers >= 0).all())
        if not whole or (numbers.dtype.kind == "f" and bool((numbers % 1 != 0).any())):
            raise InputError(
                f"expected each row's cluster as a number from 0, found {cells.dtype} of shape {cells.shape}; give "
                "clusters= whose predict returns such numbers"
            )
        return numbers.astype(np.int64)


def _likelihood(release: Release) -> Float[np.ndarray, "n k"]:
    """The likelihood of each row, scaled to a mean of one."""
    likelihood = release.likelihood()
    return np.asarray(likelihood / likelihood.mean(axis=1, keepdims=True))


def _cluster_sums(
    values: Float[np.ndarray, "n m"], cells: Int[np.ndarray, "n"], count: int
) -> Float[np.ndarray, "cells m"]:
    """Sums over the rows of each cluster."""
    rows = np.arange(len(cells))
    choose = csr_array((np.ones(len(cells)), (cells, rows)), shape=(count, len(cells)))
    return np.asarray(choose @ values)


def _named_distributions(
    likelihood: Float[np.ndarray, "n k"], cells: Int[np.ndarray, "n"], count: int
) -> tuple[Float[np.ndarray, "cells k"], Float[np.ndarray, "k"]]:
    """The mean posterior distribution of each cluster, and that of all rows.

    A cluster's distribution is ``purity * one_hot(name) + (1 - purity) * overall``. Each cluster weights all names and
    purities by the likelihood of its rows and by how common they are, which is re-estimated from all clusters (with a
    pseudo-count of one for each name and each purity).
    """
    k, rows = likelihood.shape[1], np.bincount(cells, minlength=count)
    overall, names = np.full(k, 1.0 / k), np.full(k, 1.0 / k)
    purities = np.full(len(_PURITIES), 1.0 / len(_PURITIES))
    found = np.tile(overall, (count, 1))
    for _ in range(_ROUNDS):
        logarithms = _evidence(likelihood, cells, count, overall) + np.log(purities)[:, None] + np.log(names)
        weights = np.exp(logarithms - logarithms.max(axis=(1, 2), keepdims=True))
        weights /= weights.sum(axis=(1, 2), keepdims=True)
        pure = np.einsum("cpk,p->ck", weights, _PURITIES)
        found = pure + (1.0 - pure.sum(axis=1, keepdims=True)) * overall
        here = weights[rows > 0]
        names = (1.0 + here.sum(axis=(0, 1))) / (k + len(here))
        purities = (1.0 + here.sum(axis=(0, 2))) / (len(_PURITIES) + len(here))
        overall = (rows @ found + 1.0) / (rows.sum() + k)
    return found, overall


def _evidence(
    likelihood: Float[np.ndarray, "n k"], cells: Int[np.ndarray, "n"], count: int, overall: Float[np.ndarray, "k"]
) -> Float[np.ndarray, "cells p k"]:
    """The log likelihood of each cluster's released labels for each purity and name."""
    k = len(overall)
    found = np.zeros((count, len(_PURITIES), k))
    for rows in blocks(len(cells), k):
        part, of = likelihood[rows], cells[rows]
        mean = (part @ overall)[:, None]
        for place, purity in enumerate(_PURITIES):
            mixed = purity * part + (1.0 - purity) * mean
            found[:, place] += _cluster_sums(np.log(np.maximum(mixed, np.finfo(np.float64).tiny)), of, count)
    return found


def _em_distributions(
    likelihood: Float[np.ndarray, "n k"],
    cells: Int[np.ndarray, "n"],
    start: Float[np.ndarray, "cells k"],
    steps: list[int],
) -> Iterator[tuple[int, Float[np.ndarray, "cells k"]]]:
    """Yield the distributions after the given numbers of steps of expectation maximisation."""
    rows = np.bincount(cells, minlength=len(start))[:, None]
    distributions = start
    for step in range(max(steps) + 1):
        if step in steps:
            yield step, distributions
        joint = likelihood * distributions[cells]
        joint /= joint.sum(axis=1, keepdims=True)
        distributions = np.where(rows > 0, _cluster_sums(joint, cells, len(start)) / np.maximum(rows, 1), distributions)


def _best_steps(likelihood: Float[np.ndarray, "n k"], cells: Int[np.ndarray, "n"], count: int) -> int:
    """The number of steps for which held-out released labels are likeliest, if it is clearly better than none.

    With few rows the estimate is noisy, so no step is made unless the gain exceeds its standard error.
    """
    gains: list[np.ndarray] = []
    for fit, held in splits(len(cells), min(5, len(cells))):
        if not len(fit):
            return 0
        named, _ = _named_distributions(likelihood[fit], cells[fit], count)
        found = _em_distributions(likelihood[fit], cells[fit], named, list(_STEPS))
        hits = np.stack([(likelihood[held] * distributions[cells[held]]).sum(axis=1) for _, distributions in found])
        gains.append(np.log(np.maximum(hits, np.finfo(np.float64).tiny)))
    over = np.concatenate(gains, axis=1)
    over -= over[0]
    best = int(np.argmax(over.mean(axis=1)))
    return _STEPS[best] if over[best].mean() > over[best].std() / np.sqrt(over.shape[1]) else 0
