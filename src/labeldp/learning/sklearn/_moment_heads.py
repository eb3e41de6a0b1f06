"""Linear heads from noisy moments: the labels of a ridge or softmax loss are in ``S = sum_i f_i one_hot(y_i)^T`` alone.

With F the features, shape (n, p), and W the coefficients, shape (p, k), the losses of true labels are

    softmax   sum_i logsumexp(W^T f_i) - <W, S> + l2/2 |W|^2
    squared   1/2 |F W|^2 - <W, S - F^T 1/k> + l2/2 |W|^2       (up to a constant; one-hot labels less 1/k)

and each is fitted to its optimum with noisy moments in the place of S. At the optimum, F^T P + l2 W = S, where P are
the predicted probabilities (or, with the squared loss, scores): what a head leaves over of S is ``l2 W``.

Everything here happens on the eigenvectors of F^T F, where the squared loss is solved by a division and the softmax
loss is nearly round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Self

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize
from scipy.special import chdtri

from labeldp.errors import InputError
from labeldp.learning.sklearn._lbfgs import softmax

HeadLoss = Literal["softmax", "squared"]

#: A penalty is looked for until what is left over is within this share of the noise, in so many steps at most.
_CLOSE, _STEPS = 0.01, 30
#: Penalties that are looked at, relative to the largest eigenvalue.
_LEAST, _MOST = 1e-6, 1e3
#: While a penalty is looked for, fits stop at a tolerance of at least this.
_ROUGH = 3e-4
#: The entropy that makes a projection smooth, as a share of the noise.
_SMOOTH = 0.1
#: The chance that features are taken for others than those of the moments is below exp(-30), about 1e-13.
_DOUBT = 30.0
#: How often noise is longer than heads take it to be.
_LONGER = 0.05


@dataclass(frozen=True, eq=False)
class Rotated:
    """Features on the eigenvectors of their Gram matrix.

    Attributes:
        features: Features, shape (n, p), of which no two columns are correlated.
        values: The eigenvalues, at least 0, ascending.
        vectors: The eigenvectors: what rotated them.
    """

    features: Float[np.ndarray, "n p"]
    values: Float[np.ndarray, "p"]
    vectors: Float[np.ndarray, "p p"]

    @classmethod
    def of(cls, features: Float[np.ndarray, "n p"]) -> Self:
        """Rotate features."""
        values, vectors = np.linalg.eigh(features.T @ features)
        return cls(features @ vectors, np.maximum(values, 0.0), vectors)


@dataclass(frozen=True, eq=False)
class Moments:
    """Noisy moments on rotated features, each row summing to what is known of it.

    Attributes:
        value: ``S``, shape (p, k), rotated.
        deviation: That of the noise on each entry, before the row sums were set right.
    """

    value: Float[np.ndarray, "p k"]
    deviation: float

    @classmethod
    def of(cls, noisy: Float[np.ndarray, "p k"], deviation: float, rotated: Rotated, slack: float) -> Self:
        """Noisy moments, with row sums set right: S 1 = F^T 1, which is public, so that a k-th of the noise goes.

        Args:
            noisy: Moments as released.
            deviation: The standard deviation of the noise on each entry.
            rotated: The features that they are moments of.
            slack: How far sums of features may be off for rounding.

        Raises:
            InputError: Row sums are further from those of the features than noise explains.
        """
        turned = rotated.vectors.T @ noisy
        p, k = turned.shape
        off = turned.sum(axis=1) - rotated.features.sum(axis=0)
        # chi-squared with p degrees of freedom, see Laurent and Massart 2000, lemma 1
        bound = math.sqrt(k * (p + 2.0 * math.sqrt(p * _DOUBT) + 2.0 * _DOUBT)) * deviation + slack * math.sqrt(p)
        if float(np.linalg.norm(off)) > bound:
            raise InputError(
                "expected the features that the moments are of, found others, whose sums differ by more than noise; "
                "give the same rows in the same form as to the curator"
            )
        return cls(turned - off[:, None] / k, deviation)

    @property
    def noise(self) -> float:
        """The length that the noise is below in nineteen draws of twenty, rows summing to nothing."""
        p, k = self.value.shape
        return self.deviation * math.sqrt(chdtri(p * (k - 1), _LONGER))


Head = Callable[[Rotated, Moments, float, float, Float[np.ndarray, "p k"] | None], Float[np.ndarray, "p k"]]


def softmax_head(
    rotated: Rotated, moments: Moments, l2: float, tolerance: float, start: Float[np.ndarray, "p k"] | None = None
) -> Float[np.ndarray, "p k"]:
    """Rotated coefficients of the softmax loss, by L-BFGS on coefficients scaled by its curvature where all is even.

    Args:
        rotated: The features.
        moments: Their moments.
        l2: The penalty, above 0.
        tolerance: The largest entry of the scaled gradient at which it stops, per square root of the rows.
        start: Where to start; by default at zero.
    """
    p, k = moments.value.shape
    scale = 1.0 / np.sqrt(rotated.values / k + l2)[:, None]

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        head = scale * flat.reshape(p, k)
        logits = rotated.features @ head
        top = logits.max(axis=1, keepdims=True)
        np.exp(logits - top, out=logits)
        total = logits.sum(axis=1, keepdims=True)
        logits /= total
        value = float((top + np.log(total)).sum() + 0.5 * l2 * np.vdot(head, head) - np.vdot(head, moments.value))
        return value, (scale * (rotated.features.T @ logits + l2 * head - moments.value)).ravel()

    first = np.zeros((p, k)) if start is None else start / scale
    rows = len(rotated.features)
    options = {"gtol": tolerance * math.sqrt(rows), "ftol": 0.0, "maxiter": 2000, "maxfun": 4000, "maxcor": 20}
    found = minimize(objective, first.ravel(), method="L-BFGS-B", jac=True, options=options)
    return np.asarray(scale * found.x.reshape(p, k))


def squared_head(
    rotated: Rotated, moments: Moments, l2: float, tolerance: float = 0.0, start: Float[np.ndarray, "p k"] | None = None
) -> Float[np.ndarray, "p k"]:
    """Rotated coefficients of the squared loss on one-hot labels less 1/k, exactly."""
    del tolerance, start
    centred = moments.value - moments.value.mean(axis=1, keepdims=True)
    return np.asarray(centred / (rotated.values[:, None] + l2))


def projected(rotated: Rotated, moments: Moments, longest: float, tolerance: float) -> Moments:
    """The moments of probabilities that are nearest to noisy ones, but for a little entropy.

    True moments lie in the set of all ``F^T Y`` whose rows of Y are distributions. A point there that is nearest to S,
    ``min_Y 1/2 |F^T Y - S|^2 - t H(Y)`` with H the entropy, has softmax regression at the penalty t for its dual, and
    ``F^T P`` is what is nearest. So it is found as a head is, at a penalty that is small beside the noise.
    """
    head = softmax_head(rotated, moments, _SMOOTH * moments.deviation * longest, tolerance)
    return Moments(rotated.features.T @ softmax(rotated.features @ head), moments.deviation)


def penalty_at_noise(rotated: Rotated, moments: Moments, fit: Head, tolerance: float) -> float:
    """The penalty at which a head leaves over as much of the moments as noise adds to them, short of rare draws.

    True labels leave the noise alone over, so a head that leaves less has learned noise. Where there is nothing but
    noise, a target of its mean length would be below its length in every second draw, and leave no penalty then. What
    is left over is ``l2 W`` and grows with the penalty, so that it is found by the secant rule on logarithms, held
    between bounds.

    References:
        Morozov 1966, for the discrepancy principle.
    """
    largest = float(rotated.values[-1])
    low, high = math.log(_LEAST * largest), math.log(_MOST * largest)
    k = moments.value.shape[1]
    # where the noise is as long as the features' share of the curvature, to begin with
    at = min(max(math.log(moments.noise / math.sqrt(k * len(rotated.features)) * math.sqrt(largest)), low), high)
    head = None
    for _ in range(_STEPS):
        l2 = math.exp(at)
        head = fit(rotated, moments, l2, max(tolerance, _ROUGH), head)
        over = math.log(max(l2 * float(np.linalg.norm(head)), np.finfo(float).tiny) / moments.noise)
        if abs(over) < _CLOSE:
            break
        low, high = (low, at) if over > 0 else (at, high)
        step = at - 1.5 * over
        at = step if low < step < high else 0.5 * (low + high)
        if high - low < _CLOSE:
            break
    return l2


#: How a head is fitted for a loss.
HEADS: Mapping[str, Head] = MappingProxyType({"softmax": softmax_head, "squared": squared_head})
