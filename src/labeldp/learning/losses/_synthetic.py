"""Synthetic rows of a generator, whose loss is subtracted from that of released rows with resampled features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse, vstack

from labeldp._shapes import Float
from labeldp.errors import InputError
from labeldp.learning.features import row_count
from labeldp.learning.losses._own_features import resampling_probability
from labeldp.learning.losses._rows import RowLoss, TargetLoss
from labeldp.release import Release


@dataclass(frozen=True, eq=False)
class SyntheticRows:
    """Features that a generator drew, as many for each class, and the weight of their loss.

    With features x~ that were resampled with probability r, and w the unbiased vector of the released label,

        E_P[l(h(x), y)] = (E[sum_j w_j l(h(x~), j)] - r E_{Qbar x P_Y}[l(h(x), y)]) / (1 - r).

    Proof. The label's noise does not depend on the features, so ``E[w | x~, y] = one_hot(y)``, and the first term is
    ``(1 - r) E_P[l(h(x), y)] + r E_{Qbar x P_Y}[l(h(x), y)]``, since resampled features are independent of y.

    So the m synthetic rows have total weight ``-r / (1-r)``, released rows ``1 / (1-r)``, and the target of a synthetic
    row is pi. In a finite sample the sum is not convex, and only a penalty keeps it bounded below.

    Attributes:
        features: Rows of the generator, as many for each class.
        prior: pi, the shares of the classes, shape (k,).
        replaced: r, the probability that features were resampled.

    References:
        Busa-Fekete et al. 2023, Lemma G.1, with the sign of the second term reversed, its sum over classes divided by
        their number, and probabilities that may differ for label and features.
    """

    features: Any
    prior: Float[np.ndarray, "k"]
    replaced: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "replaced", resampling_probability(self.replaced))
        if not row_count(self.features):
            raise InputError("expected at least one synthetic row, found none")

    def of(self, release: Release, method: str) -> SyntheticRows:
        """The object itself, if its loss can be subtracted from that of a release under a method.

        Raises:
            InputError: It cannot.
        """
        if method != "unbiased":
            raise InputError(f"expected the method 'unbiased' with synthetic rows, found {method!r}")
        if self.prior.shape != (release.space.size,):
            raise InputError(f"expected the shares of {release.space.size} classes, found {self.prior.shape}")
        return self

    def append_to(
        self, features: Any, loss: RowLoss | TargetLoss, weights: Float[np.ndarray, "n"]
    ) -> tuple[Any, TargetLoss, Float[np.ndarray, "rows"]]:
        """Released rows followed by the synthetic ones: features, losses, and weights with the same sum as before."""
        count, keep = row_count(self.features), 1.0 - self.replaced
        targets = np.vstack([loss.dense(len(self.prior)), np.tile(self.prior, (count, 1))])
        less = np.full(count, -self.replaced * weights.sum() / count)
        return stack_rows(features, self.features), TargetLoss(targets), np.concatenate([weights, less]) / keep


def stack_rows(first: Any, second: Any) -> Any:
    """Concatenate rows: of arrays, sparse matrices, or frames of one library."""
    if hasattr(first, "iloc"):
        import pandas  # noqa: PLC0415 (where there is a frame, there is pandas)

        return pandas.concat([first, second], ignore_index=True)
    if issparse(first) or issparse(second):
        return vstack([first, second]).tocsr()
    return np.concatenate([np.asarray(first), np.asarray(second)])
