"""Unbiased vectors of released classes, and the probability that features are the original ones, if some are not.

A row of class y with features x is released as ``(x~, z)``. Its features are kept with probability ``1 - r`` and
otherwise drawn from ``Qbar``, independently of the row; z is drawn from y through a channel, independently of that. So

    P(z | x~) = sum_y P(z | y) (s h_y(x~) + (1 - s) pi_y),    s = (1 - r) p(x~) / ((1 - r) p(x~) + r qbar(x~)),

with h the distribution of the true class given the true features, pi the shares of the classes and s the probability
that the features are the original ones. It is linear in h, with ``s v_y + (1 - s) sum_j pi_j v_j`` in the place of the
likelihood ``v_y = P(z | y)``: if the latter has two levels on a mask, so has the former.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from labeldp import _checks
from labeldp._arrays import freeze_arrays
from labeldp._shapes import Float, Int
from labeldp._threads import blocks
from labeldp.errors import InputError, NotTrueLabelsError, RowsError
from labeldp.privacy.channels import ClassChannel, CoarseningChannel, nearest_distributions, pair_share
from labeldp.release import Release


def require_release(y: object) -> Release:
    """The labels themselves, if they are a release."""
    if not isinstance(y, Release):
        raise NotTrueLabelsError(
            f"expected a Release as labels, found {type(y).__name__}; randomize labels with a Curator, load a release "
            "with Release.load, or wrap public labels with Release.public(labels, space)"
        )
    return y


def require_identified(release: Release) -> None:
    """Refuse rows whose true class may lie outside their candidates, or is known up to its group."""
    channel = require_release(release).channel
    if isinstance(channel, ClassChannel) and not channel.identifies:
        found = "groups of classes" if isinstance(channel, CoarseningChannel) else "candidates"
        raise InputError(
            f"expected a channel that identifies true labels, found rows with {found}; use log_likelihood, or "
            "accuracy_bounds"
        )


def effective_share(release: Release) -> float:
    """Effective rows of a released label, in the mean of all rows."""
    return float(np.mean(pair_share(release.class_channel.membership)))


def blocks_of(release: Release) -> list[slice]:
    """Slices of the rows whose dense vectors fit in memory."""
    return blocks(len(release), release.space.size)


def unbiased_rows(release: Release, rows: slice) -> Float[np.ndarray, "m k"]:
    """The unbiased vectors of selected rows."""
    return release.class_channel.take(rows).unbiased(release.codes[rows])


#: Largest deviation of a prior's sum from one.
_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class OriginalFeatures:
    """Probabilities that released features are the rows' original ones, and shares of the classes.

    Learners of released labels take it beside a release (``original=``). They then learn the true class given *true*
    features although some features were resampled: with ``"likelihood"`` (forward correction) by the likelihood of the
    mixture; with ``"unbiased"`` (backward correction) by the loss
    ``s log sum_j exp(h_j) - sum_j (w_j - (1 - s) pi_j) h_j`` of logits h, which is convex, and whose mean is ``1 - r``
    times that of the cross entropy of original rows if s is right.

    Proof of the latter. With the density ``f = (1-r) p + r qbar`` of released features, ``s f = (1-r) p`` and ``(1-s) f
    = r qbar``. So ``E_f[s g] = (1-r) E_P[g]`` for every g, and for the unbiased vector w of z, ``E[w_j h_j] = (1-r)
    E_P[1(Y=j) h_j] + r pi_j E_Qbar[h_j]``, of which the last is ``E_f[(1-s) pi_j h_j]``.

    Attributes:
        shares: Probability that each row's features are the original ones, given these features, shape (n,), as
            ``original_share`` estimates it; ``1 - r`` for all rows where resampled features look like true ones.
        prior: Shares of the classes in declared order, shape (k,), such as ``class_shares`` estimates.

    Raises:
        InputError: The shares or the prior are not probabilities.

    Example:
        >>> own = OriginalFeatures([0.5, 1.0], [0.3, 0.7])
        >>> own.take(slice(1, 2)).shares.tolist()
        [1.0]
    """

    shares: Float[np.ndarray, "n"]
    prior: Float[np.ndarray, "k"]

    def __post_init__(self) -> None:
        freeze_arrays(self, shares=np.float64, prior=np.float64)
        for name, values in (("shares", self.shares), ("prior", self.prior)):
            if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
                raise InputError(f"expected {name} between 0 and 1 in one dimension, found others; use original_share")
        if abs(self.prior.sum() - 1) > _TOLERANCE:
            raise InputError(f"expected a prior that sums to 1, found {self.prior.sum():g}; use class_shares")

    def __len__(self) -> int:
        return len(self.shares)

    def take(self, rows: slice | Int[np.ndarray, "m"]) -> OriginalFeatures:
        """The probabilities of selected rows, with the same prior."""
        return dataclasses.replace(self, shares=self.shares[rows])

    def of(self, release: Release) -> OriginalFeatures:
        """The object itself, if it fits the rows and classes of a release."""
        if len(self) != len(release) or len(self.prior) != release.space.size:
            raise RowsError(
                f"expected shares of {len(release)} rows and a prior of {release.space.size} classes, found "
                f"{len(self)} and {len(self.prior)}"
            )
        return self

    def mixed(self, likelihood: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
        """``P(z | x~, true class j if the features are the original ones)`` from ``P(z | j)``, up to a factor."""
        mean = likelihood @ self.prior
        return np.asarray(self.shares[:, None] * likelihood + ((1.0 - self.shares) * mean)[:, None])


def class_shares(release: Release) -> Float[np.ndarray, "k"]:
    """Estimated shares of the classes among true labels: the distribution nearest to the mean of unbiased vectors.

    Classes are in declared order, as ``release.space.points``.

    Labels do not depend on whether features were resampled, so the released labels alone identify the shares.

    Raises:
        InputError: Rows have candidates, so that their labels do not identify the shares.

    Example:
        >>> from labeldp import Classes
        >>> class_shares(Release.public(["no", "yes", "yes", "yes"], Classes(["no", "yes"]))).round(3).tolist()
        [0.25, 0.75]
    """
    return np.asarray(nearest_distributions(mean_vector(release)[None])[0])


def mean_vector(release: Release) -> Float[np.ndarray, "k"]:
    """The mean of the unbiased vectors: an unbiased estimate of the class shares, which may leave [0, 1]."""
    require_identified(release)
    if not len(release):
        raise InputError("expected at least one row, found none")
    return np.asarray(sum(unbiased_rows(release, rows).sum(axis=0) for rows in blocks_of(release)) / len(release))


def resampling_probability(replaced: object) -> float:
    """A probability that features are resampled, at least 0 and below 1."""
    advice = "; if all are resampled, rows hold no features to learn from"
    return _checks.share(replaced, "replaced, the probability that features are resampled,", "[)", advice)
