"""Rows of a generator, whose loss is taken off that of released rows some of whose features it drew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.sparse import issparse, vstack

from labeldp.errors import InputError
from labeldp.learning.features import row_count
from labeldp.learning.losses._own_features import resampling_probability
from labeldp.learning.losses._rows import RowLoss, TargetLoss
from labeldp.release import Release


@dataclass(frozen=True, eq=False)
class SyntheticRows:
    """Features that the generator drew, evenly over the classes, and what is taken off for them.

    With features x~ that were redrawn with chance r, and w the unbiased vector of the released label,

        E_P[l(h(x), y)] = (E[sum_j w_j l(h(x~), j)] - r E_{Qbar x P_Y}[l(h(x), y)]) / (1 - r).

    Proof. The label's noise does not depend on the features, so ``E[w | x~, y] = one_hot(y)``, and the first term is
    ``(1 - r) E_P[l(h(x), y)] + r E_{Qbar x P_Y}[l(h(x), y)]``, since features that were redrawn say nothing of y.

    So the m synthetic rows weigh ``-r / (1-r)`` together, released rows ``1 / (1-r)``, and a synthetic row has the
    classes in the shares pi. In a finite sample the sum is not convex, and a penalty alone keeps it bounded below.

    Attributes:
        features: Rows of the generator, as many of each class.
        prior: pi, the shares of the classes, shape (k,).
        replaced: r, the chance that features were redrawn.

    References:
        Busa-Fekete et al. 2023, Lemma G.1, with the sign of the second term turned, its sum over classes divided by
        their number, and chances that may differ for label and features.
    """

    features: Any
    prior: Float[np.ndarray, "k"]
    replaced: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "replaced", resampling_probability(self.replaced))
        if not row_count(self.features):
            raise InputError("expected at least one synthetic row, found none")

    def of(self, release: Release, method: str) -> SyntheticRows:
        """The same, if it can be taken off the loss of a release by a method.

        Raises:
            InputError: It cannot.
        """
        if method != "unbiased":
            raise InputError(f"expected the method 'unbiased' with synthetic rows, found {method!r}")
        if self.prior.shape != (release.space.size,):
            raise InputError(f"expected the shares of {release.space.size} classes, found {self.prior.shape}")
        return self

    def taken_off(
        self, features: Any, loss: RowLoss | TargetLoss, weights: Float[np.ndarray, "n"]
    ) -> tuple[Any, TargetLoss, Float[np.ndarray, "rows"]]:
        """Released rows with synthetic ones behind them: features, losses, and weights of the same sum as before."""
        count, kept = row_count(self.features), 1.0 - self.replaced
        targets = np.vstack([loss.dense(len(self.prior)), np.tile(self.prior, (count, 1))])
        less = np.full(count, -self.replaced * weights.sum() / count)
        return stacked(features, self.features), TargetLoss(targets), np.concatenate([weights, less]) / kept


def stacked(first: Any, second: Any) -> Any:
    """The rows of one after those of the other: arrays, sparse matrices, or frames of the same library."""
    if hasattr(first, "iloc"):
        import pandas  # noqa: PLC0415 (where there is a frame, there is pandas)

        return pandas.concat([first, second], ignore_index=True)
    if issparse(first) or issparse(second):
        return vstack([first, second]).tocsr()
    return np.concatenate([np.asarray(first), np.asarray(second)])
