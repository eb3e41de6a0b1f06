"""The Renyi divergence of two populations of rows, estimated by a classifier that tells them apart.

An estimate, never a guarantee: it must not enter a certificate. A classifier that tells less than could be told makes
it too small, and few rows can make it too large or too small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from labeldp import _checks
from labeldp.audit._audit import check_confidence
from labeldp.errors import InputError

_RESAMPLES = 200
_LEAST_ROWS = 20


@runtime_checkable
class Discriminator(Protocol):
    """A classifier as scikit-learn has them."""

    def fit(self, X: Any, y: Any) -> Any:  # noqa: N803 (scikit-learn's name)
        """Learn to tell 1, the first population, from 0, the second."""

    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """Chances of 0 and of 1 for each row, shape (n, 2)."""


@dataclass(frozen=True)
class DivergenceEstimate:
    """A Renyi divergence that was estimated. It is no number, so that it cannot be passed where one is promised.

    Attributes:
        value: The estimate in nats, at least 0.
        low: Lower end of where it lies when held-out rows are drawn again from those at hand.
        high: Upper end. The spread does not hold what the classifier missed.
        alpha: The order.
        rows: Held-out rows of both populations together.
        confidence: Share of the redraws between ``low`` and ``high``.
        estimate: True: it proves nothing.
    """

    value: float
    low: float
    high: float
    alpha: float
    rows: int
    confidence: float
    estimate: Literal[True] = True

    def sentence(self) -> str:
        """The estimate with what it is worth, in one sentence."""
        return (
            f"The divergence of order {self.alpha:g} is estimated as {self.value:.3g} (between {self.low:.3g} and "
            f"{self.high:.3g} on other rows) by a classifier on {self.rows:,} held-out rows; an estimate, no guarantee."
        )

    def __str__(self) -> str:
        return self.sentence()


def estimate_divergence(
    first: np.ndarray,
    second: np.ndarray,
    estimator: Discriminator,
    alpha: float,
    *,
    confidence: float = 0.95,
) -> DivergenceEstimate:
    """``D_alpha(P || Q)`` of the laws that rows were drawn from, estimated by a classifier on rows it has not seen.

    For every function phi of a row, ``alpha/(alpha-1) ln E_P[exp((alpha-1) phi)] - ln E_Q[exp(alpha phi)]`` is at most
    the divergence, and is equal to it for ``phi = ln(P/Q)``: the log odds of a classifier that tells P from Q. It is
    fitted on one half of the rows, chosen at random, and the means are taken over the other half.

    Args:
        first: Rows of P, shape (n, ...).
        second: Rows of Q, shape (m, ...).
        estimator: A classifier with ``fit`` and ``predict_proba``, such as one of scikit-learn; it is fitted here.
        alpha: The order, above 1 and finite.
        confidence: Share of bootstrap redraws of held-out rows that the spread holds.

    Guarantee:
        None. This is an estimate: it must not enter a certificate, nor be taken for a bound from either side. What the
        classifier cannot see it does not count, such as last digits that only true rows have.

    References:
        Birrell et al. 2021, theorem 3.1, with their divergence times alpha; Busa-Fekete et al. 2023, section 8.

    Example:
        >>> import numpy as np
        >>> class PriorResult:  # the log odds are known here: x - 1/2 for two Gaussians whose means differ by 1
        ...     def fit(self, X, y):
        ...         return self
        ...     def predict_proba(self, X):
        ...         one = 1 / (1 + np.exp(0.5 - X[:, 0]))
        ...         return np.stack([1 - one, one], axis=1)
        >>> rng = np.random.default_rng(0)
        >>> rows = rng.normal(size=(2, 20_000, 1))
        >>> found = estimate_divergence(rows[0] + 1, rows[1], PriorResult(), alpha=2.0)
        >>> abs(found.value - 1.0) < 0.5  # alpha / 2 times the squared distance of the means
        True

    Raises:
        InputError: There are too few rows, an order that is not above 1 and finite, or other chances than two a row.
    """
    return divergence_of_log_odds(*held_out_log_odds(first, second, estimator), alpha, confidence=confidence)


def held_out_log_odds(
    first: np.ndarray, second: np.ndarray, estimator: Discriminator
) -> tuple[Float[np.ndarray, "a"], Float[np.ndarray, "b"]]:
    """Log odds of the first population against the second, for rows of each that a classifier was not fitted on.

    See ``estimate_divergence``; for several orders, or a classifier that exists already, take this and
    ``divergence_of_log_odds``. Chances are cut where one more row would have changed them, ``1/(n+2)`` from 0 and 1, so
    that a classifier which is too sure of itself gives no infinite odds.
    """
    rng = np.random.default_rng()
    halves = []
    for rows, name in ((np.asarray(first), "first"), (np.asarray(second), "second")):
        if rows.ndim < 2 or len(rows) < _LEAST_ROWS:
            raise InputError(
                f"expected at least {_LEAST_ROWS} rows of features as {name}, found an array of shape {rows.shape}"
            )
        order = rng.permutation(len(rows))
        halves.append((rows[order[: len(rows) // 2]], rows[order[len(rows) // 2 :]]))
    (seen, held), (seen_other, held_other) = halves
    if seen.shape[1:] != seen_other.shape[1:]:
        raise InputError(
            f"expected rows of one shape, found {seen.shape[1:]} and {seen_other.shape[1:]}; give both the same columns"
        )
    told = np.repeat([1, 0], [len(seen), len(seen_other)])
    estimator.fit(np.concatenate([seen, seen_other]), told)
    margin = 1 / (len(told) + 2)
    return _log_odds(estimator, held, margin), _log_odds(estimator, held_other, margin)


def divergence_of_log_odds(
    first: Float[np.ndarray, "a"], second: Float[np.ndarray, "b"], alpha: float, *, confidence: float = 0.95
) -> DivergenceEstimate:
    """The estimate of ``estimate_divergence`` from log odds of held-out rows; a constant added to all changes nothing.

    Args:
        first: Log odds of P against Q, of rows of P, shape (a,).
        second: The same of rows of Q, shape (b,).
        alpha: The order, above 1 and finite.
        confidence: Share of bootstrap redraws that the spread holds.
    """
    order, level = _checks.number(alpha, "alpha"), check_confidence(confidence)
    if not 1 < order < math.inf:
        raise InputError(f"expected a finite order above 1, found {order:g}; no sample tells the largest ratio")
    scores = [np.asarray(each, dtype=np.float64) for each in (first, second)]
    if not all(each.ndim == 1 and len(each) and np.isfinite(each).all() for each in scores):
        raise InputError("expected finite log odds, one for each row and at least one, found something else")
    rng = np.random.default_rng()
    redrawn = [_bound(_again(scores[0], rng), _again(scores[1], rng), order) for _ in range(_RESAMPLES)]
    low, high = np.quantile(redrawn, [(1 - level) / 2, (1 + level) / 2])
    return DivergenceEstimate(
        max(0.0, _bound(scores[0], scores[1], order)),
        max(0.0, float(low)),
        max(0.0, float(high)),
        order,
        sum(map(len, scores)),
        level,
    )


def _bound(first: Float[np.ndarray, "a"], second: Float[np.ndarray, "b"], alpha: float) -> float:
    """The variational bound at given log odds; nothing overflows."""
    upper = alpha / (alpha - 1) * (logsumexp((alpha - 1) * first) - math.log(len(first)))
    return float(upper - (logsumexp(alpha * second) - math.log(len(second))))


def _again(scores: Float[np.ndarray, "n"], rng: np.random.Generator) -> Float[np.ndarray, "n"]:
    return scores[rng.integers(0, len(scores), len(scores))]


def _log_odds(estimator: Discriminator, rows: np.ndarray, margin: float) -> Float[np.ndarray, "n"]:
    chances = np.asarray(estimator.predict_proba(rows), dtype=np.float64)
    if chances.shape != (len(rows), 2) or not np.isfinite(chances).all():
        raise InputError(
            f"expected finite chances of shape ({len(rows)}, 2) from the classifier, found shape {chances.shape}"
        )
    one = np.clip(chances[:, 1], margin, 1 - margin)
    return np.asarray(np.log(one) - np.log1p(-one))
