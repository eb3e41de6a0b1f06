"""Likelihoods of coefficients from released labels: the fit, the information in it, and profiles.

The quasi-likelihood on unbiased vectors u has, in expectation over the draw, the equations that true labels give. A row
has the convex loss ``-sum_j u_j log p_j``, with the gradient ``p - u`` in logits and the second derivative
``diag p - p p'``.

The likelihood is that under the channel. With v_j the likelihood of a released label given class j and p_j the modelled
probability, a row has the loss ``-log sum_j v_j p_j``. In logits its gradient is ``p - q`` and its second derivative
``(diag p - p p') - (diag q - q q')``, where ``q_j = v_j p_j / sum_i v_i p_i`` is the posterior.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Literal

import numpy as np
from scipy.optimize import brentq, minimize

from labeldp._shapes import Float
from labeldp.learning.losses import AnyLoss, RowLoss, TargetLoss, row_loss
from labeldp.release import Release

ClassMethod = Literal["likelihood", "unbiased"]

#: Gradient at which a fit is done, in regressors of unit variance: far below the errors of coefficients.
_GRADIENT, _STEPS, _LONGEST = 1e-4, 300, 5.0
#: That of a profile, whose drop is then right to 0.01, and the precision of its ends as a share of their distance.
_ROUGH_GRADIENT, _PRECISION = 1e-2, 1e-2
#: Curvature of a direction of unit mean square below which the likelihood has no maximum there, or one at infinity:
#: where the gradient is small enough for a fit to end, its curvature is as small. A standard error would be above 10.
_FLAT, _LEAST = 1e-2, 1e-8
#: Most entries of the rows among which different ones are looked for.
_MOST_KEYS = 1 << 26


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of a likelihood.

    Attributes:
        inputs: Their regressors.
        counts: How often each is there.
        values: The likelihoods of each row's label given each class; or targets.
        is_linear: True for targets.
    """

    inputs: Float[np.ndarray, "n p"]
    counts: Float[np.ndarray, "n"]
    values: Float[np.ndarray, "n k"]
    is_linear: bool

    @classmethod
    def of(cls, inputs: Float[np.ndarray, "n p"], loss: AnyLoss, classes: int) -> _Rows:
        """All rows of a loss."""
        linear = isinstance(loss, TargetLoss) or (isinstance(loss, RowLoss) and not loss.likelihood)
        return cls(inputs, np.ones(len(inputs)), loss.dense(classes), linear)

    def merged(self, keys: Float[np.ndarray, "n p"]) -> _Rows:
        """The different rows among these, by the given regressors; these themselves if few are alike.

        Rows with other labels and one mean target say as much, where the loss is linear in targets.
        """
        keys = keys if self.is_linear else np.hstack([keys, self.values])
        if keys.size > _MOST_KEYS:
            return self
        _, firsts, place, times = np.unique(keys, axis=0, return_index=True, return_inverse=True, return_counts=True)
        if 2 * len(firsts) > len(keys):
            return self
        counts, totals = times.astype(np.float64), np.zeros((len(firsts), self.values.shape[1]))
        np.add.at(totals, place.ravel(), self.values)
        return _Rows(self.inputs[firsts], counts, totals / counts[:, None], self.is_linear)

    def evaluated(self, logits: Float[np.ndarray, "n k"]) -> _Evaluated:
        """The loss of rows with these logits."""
        logits = logits - np.maximum.reduce([*logits.T])[:, None]
        chance, ones = np.exp(logits), np.ones(logits.shape[1])
        total = chance @ ones
        chance /= total[:, None]
        posterior = self.values
        if self.is_linear:
            mass = posterior @ ones
            losses, slopes = mass * np.log(total) - (posterior * logits) @ ones, mass[:, None] * chance - posterior
            posterior = np.zeros_like(chance)
        else:
            joint = posterior * chance
            likelihood = joint @ ones
            posterior = joint / likelihood[:, None]
            losses, slopes = -np.log(likelihood), chance - posterior
        return _Evaluated(float(self.counts @ losses), chance, posterior, slopes)


@dataclass(frozen=True, eq=False)
class _Evaluated:
    """The loss of rows, and for each the modelled probabilities, the posterior and the gradient of one in logits."""

    loss: float
    chance: Float[np.ndarray, "n k"]
    posterior: Float[np.ndarray, "n k"]
    slopes: Float[np.ndarray, "n k"]


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The likelihood of released labels, or a quasi-likelihood, in coefficients of regressors.

    Attributes:
        release: The released labels.
        matrix: The regressors.
        reference: The code of the class that others are compared with.
        method: ``"likelihood"``, or ``"unbiased"`` for the quasi-likelihood on unbiased vectors.
    """

    release: Release
    matrix: Float[np.ndarray, "n p"]
    reference: int
    method: ClassMethod

    @cached_property
    def _root(self) -> tuple[np.ndarray, np.ndarray]:
        """Uncorrelated regressors of unit mean square, and the matrix that makes the given ones of them."""
        directions, root = np.linalg.qr(self.matrix)
        size = np.sqrt(len(self.matrix))
        return directions * size, root / size

    @cached_property
    def to_coefficients(self) -> Float[np.ndarray, "q q"]:
        """The matrix that makes coefficients of parameters, by class and regressor."""
        return np.kron(np.eye(len(self.classes)), np.linalg.inv(self._root[1]))

    @property
    def classes(self) -> list[int]:
        """The codes of the classes that are compared with the reference."""
        return [code for code in range(self.release.space.size) if code != self.reference]

    @cached_property
    def _rows(self) -> _Rows:
        """All rows."""
        return _Rows.of(self._root[0], row_loss(self.release, self.method), self.release.space.size)

    @cached_property
    def _kinds(self) -> _Rows:
        """The different rows, with their numbers: their sums are those of all rows, at a part of the work."""
        return self._rows.merged(self.matrix)

    def _at(self, rows: _Rows, at: Float[np.ndarray, "q"]) -> _Evaluated:
        """The loss of rows, and what it follows from."""
        logits = np.zeros((len(rows.inputs), self.release.space.size))
        logits[:, self.classes] = rows.inputs @ at.reshape(len(self.classes), -1).T
        return rows.evaluated(logits)

    @cached_property
    def _last(self) -> Callable[[bytes], _Evaluated]:
        """The loss of the different rows at a point: the last one is kept, as derivatives at it are asked for next."""
        return lru_cache(maxsize=1)(lambda point: self._at(self._kinds, np.frombuffer(point)))

    def scores(self, at: Float[np.ndarray, "q"]) -> Float[np.ndarray, "n q"]:
        """The gradient of each row's loss."""
        slopes = self._at(self._rows, at).slopes[:, self.classes]
        return np.asarray((slopes[:, :, None] * self._root[0][:, None, :]).reshape(len(slopes), -1))

    def value(self, at: Float[np.ndarray, "q"]) -> tuple[float, Float[np.ndarray, "q"]]:
        """The loss and its gradient."""
        rows, found = self._kinds, self._last(at.tobytes())
        return found.loss, ((found.slopes[:, self.classes] * rows.counts[:, None]).T @ rows.inputs).ravel()

    def information(self, at: Float[np.ndarray, "q"]) -> Float[np.ndarray, "q q"]:
        """The second derivatives of the loss."""
        rows, found = self._kinds, self._last(at.tobytes())
        chance, posterior = found.chance, found.posterior
        inputs, codes, width = rows.inputs, self.classes, self.matrix.shape[1]
        blocks = np.empty((len(codes) * width, len(codes) * width))
        for i, one in enumerate(codes):
            for j, two in enumerate(codes[: i + 1]):
                weight = posterior[:, one] * posterior[:, two] - chance[:, one] * chance[:, two]
                weight += (chance[:, one] - posterior[:, one]) * (i == j)
                block = (inputs * (weight * rows.counts)[:, None]).T @ inputs
                blocks[i * width : (i + 1) * width, j * width : (j + 1) * width] = block
                blocks[j * width : (j + 1) * width, i * width : (i + 1) * width] = block
        return blocks

    @property
    def size(self) -> int:
        """Number of parameters."""
        return len(self.classes) * int(self.matrix.shape[1])

    def curvature(self, at: Float[np.ndarray, "q"]) -> tuple[Float[np.ndarray, "q q"], Float[np.ndarray, "q flat"]]:
        """The inverse of the information where the likelihood is curved, and directions in which it is flat.

        Each of the latter is as long as its standard error, or longer than any that matters.
        """
        sizes, directions = np.linalg.eigh(self.information(at))
        curved, flat = directions[:, sizes >= _FLAT], directions[:, sizes < _FLAT]
        lengths = np.sqrt(np.maximum(sizes[sizes < _FLAT], _LEAST))
        return np.asarray((curved / sizes[sizes >= _FLAT]) @ curved.T), flat / lengths

    def fit(self) -> Float[np.ndarray, "q"]:
        """The parameters of the largest likelihood."""
        return self._lowest(np.zeros(self.size), np.eye(self.size), _GRADIENT)[1]

    def _lowest(self, at: np.ndarray, directions: np.ndarray, gradient: float) -> tuple[float, np.ndarray]:
        """The least loss in the plane of some directions at a point, and where it is."""
        found = minimize(
            lambda step: _along(self.value(at + directions @ step), directions),
            np.zeros(directions.shape[1]),
            jac=True,
            hess=lambda step: directions.T @ self.information(at + directions @ step) @ directions,
            method="trust-exact",
            options={"gtol": gradient, "maxiter": _STEPS, "max_trust_radius": _LONGEST},
        )
        return float(found.fun), at + directions @ found.x

    def profile(self, best: np.ndarray, place: int) -> Callable[[float], float]:
        """Twice the loss of log likelihood where one coefficient has another value, over that value."""
        target = self.to_coefficients[place]
        sizes, directions = np.linalg.eigh(self.information(best))
        towards = directions @ ((directions.T @ target) / np.maximum(sizes, _FLAT))
        towards /= target @ towards
        others = np.linalg.svd(target[None])[2][1:].T
        least, middle = self.value(best)[0], float(target @ best)

        @cache
        def drop(value: float) -> float:
            start = best + (value - middle) * towards
            lowest = self._lowest(start, others, _ROUGH_GRADIENT)[0] if others.shape[1] else self.value(start)[0]
            return max(0.0, 2.0 * (lowest - least))

        return drop


def _along(value: tuple[float, np.ndarray], directions: np.ndarray) -> tuple[float, np.ndarray]:
    return value[0], directions.T @ value[1]


def profile_end(drop: Callable[[float], float], start: float, step: float, bar: float, most: float) -> float:
    """The value on one side of a coefficient at which a likelihood has dropped by a bar; infinite if it does not.

    Args:
        drop: The drop over the value of the coefficient.
        start: The coefficient.
        step: About the distance of the end, with its sign.
        bar: The drop at the end.
        most: The largest distance that is looked at, unless the end is expected about there.
    """
    inner, outer = start, start + step
    if drop(outer) < bar:
        far = start + np.copysign(max(most, 4.0 * abs(step)), step)
        if drop(far) < bar:
            return float(np.copysign(np.inf, step))
        while drop(outer) < bar:
            inner, outer = outer, outer + 2.0 * (outer - inner)
            outer = min(outer, far) if step > 0.0 else max(outer, far)
    distance = brentq(  # of the root, which is nearly linear
        lambda distance: math.sqrt(drop(start + distance)) - math.sqrt(bar),
        *(inner - start, outer - start),
        xtol=abs(step) * _PRECISION,
        rtol=_PRECISION,
    )
    return start + float(distance)
