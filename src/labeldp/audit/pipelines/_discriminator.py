"""Renyi divergence between two populations of rows, estimated by a classifier that distinguishes them.

An estimate, never a guarantee: it must not enter a certificate. A suboptimal classifier makes it too small; with few
rows it errs in either direction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from scipy.special import logsumexp

from labeldp import _checks
from labeldp._shapes import Float
from labeldp.audit._audit import check_confidence
from labeldp.columns import floats
from labeldp.errors import InputError

_RESAMPLES = 200
_LEAST_ROWS = 20


@runtime_checkable
class Discriminator(Protocol):
    """A classifier with scikit-learn's interface."""

    def fit(self, X: Any, y: Any) -> Any:  # noqa: N803 (scikit-learn's name)
        """Learn to distinguish 1, the first population, from 0, the second."""

    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """Probabilities of 0 and of 1 for each row, shape (n, 2)."""


@dataclass(frozen=True)
class DivergenceEstimate:
    """An estimated Renyi divergence; not a number, so that it cannot be passed where a proven bound is needed.

    Attributes:
        value: The estimate in nats, at least 0.
        low: Lower end of its bootstrap interval over held-out rows.
        high: Upper end. The interval does not account for what the classifier missed.
        alpha: The order.
        rows: Held-out rows of both populations together.
        confidence: Share of the bootstrap replicates between ``low`` and ``high``.
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
        """State the estimate and its limits in one sentence."""
        return (
            f"The divergence of order {self.alpha:g} is estimated as {self.value:.3g} (between {self.low:.3g} and "
            f"{self.high:.3g} on other rows) by a classifier on {self.rows:,} held-out rows: an estimate, not a "
            "guarantee."
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
    """Estimate ``D_alpha(P || Q)`` of the distributions of two samples of rows, by a classifier on held-out rows.

    For every function phi of a row, ``alpha/(alpha-1) ln E_P[exp((alpha-1) phi)] - ln E_Q[exp(alpha phi)]`` is at most
    the divergence, and is equal to it for ``phi = ln(P/Q)``: the log odds of a classifier that tells P from Q. It is
    fitted on one half of the rows, chosen at random, and the means are taken over the other half.

    Args:
        first: Rows of P, shape (n, ...).
        second: Rows of Q, shape (m, ...).
        estimator: A classifier with ``fit`` and ``predict_proba``, such as one of scikit-learn; it is fitted here.
        alpha: The order, above 1 and finite.
        confidence: Share of bootstrap replicates over held-out rows in the interval.

    Guarantee:
        None. This is an estimate: it must not enter a certificate, nor be taken for a bound in either direction.
        Differences that the classifier misses do not count, such as final digits that only true rows have.

    References:
        Birrell et al. 2021, theorem 3.1, with their divergence times alpha; Busa-Fekete et al. 2023, section 8.

    Example:
        >>> import numpy as np
        >>> class KnownOdds:  # two Gaussians whose means differ by 1 have log odds x - 1/2
        ...     def fit(self, X, y):
        ...         return self
        ...     def predict_proba(self, X):
        ...         one = 1 / (1 + np.exp(0.5 - X[:, 0]))
        ...         return np.stack([1 - one, one], axis=1)
        >>> rng = np.random.default_rng(0)
        >>> rows = rng.normal(size=(2, 20_000, 1))
        >>> estimate = estimate_divergence(rows[0] + 1, rows[1], KnownOdds(), alpha=2.0)
        >>> abs(estimate.value - 1.0) < 0.5  # alpha / 2 times the squared distance of the means
        True

    Raises:
        InputError: There are too few rows, the order is not above 1 and finite, or the classifier does not return two
            probabilities for each row.
    """
    return divergence_of_log_odds(*held_out_log_odds(first, second, estimator), alpha, confidence=confidence)


def held_out_log_odds(
    first: np.ndarray, second: np.ndarray, estimator: Discriminator
) -> tuple[Float[np.ndarray, "a"], Float[np.ndarray, "b"]]:
    """Log odds of the first population against the second, for rows held out from the classifier's fit.

    See ``estimate_divergence``; for several orders, or an existing classifier, use this and ``divergence_of_log_odds``.
    Probabilities are clipped to ``1/(n+2)`` from 0 and 1, where one more row would have changed them, so that an
    overconfident classifier gives no infinite odds.
    """
    rng = np.random.default_rng()
    halves = []
    for rows, name in ((np.asarray(first), "first"), (np.asarray(second), "second")):
        if rows.ndim < 2 or len(rows) < _LEAST_ROWS or rows.dtype.kind not in "fiub":
            raise InputError(
                f"expected at least {_LEAST_ROWS} rows of numbers as {name}, found {rows.dtype} of shape {rows.shape}"
            )
        order = rng.permutation(len(rows))
        halves.append((rows[order[: len(rows) // 2]], rows[order[len(rows) // 2 :]]))
    (fit_first, held_first), (fit_second, held_second) = halves
    if fit_first.shape[1:] != fit_second.shape[1:]:
        raise InputError(
            f"expected rows of one shape, found {fit_first.shape[1:]} and {fit_second.shape[1:]}; use the same columns"
        )
    membership = np.repeat([1, 0], [len(fit_first), len(fit_second)])
    estimator.fit(np.concatenate([fit_first, fit_second]), membership)
    margin = 1 / (len(membership) + 2)
    return _log_odds(estimator, held_first, margin), _log_odds(estimator, held_second, margin)


def divergence_of_log_odds(
    first: Float[np.ndarray, "a"], second: Float[np.ndarray, "b"], alpha: float, *, confidence: float = 0.95
) -> DivergenceEstimate:
    """Estimate of ``estimate_divergence`` from log odds of held-out rows; adding a constant to all changes nothing.

    Args:
        first: Log odds of P against Q, for rows of P, shape (a,).
        second: The same for rows of Q, shape (b,).
        alpha: The order, above 1 and finite.
        confidence: Share of bootstrap replicates in the interval.
    """
    order, level = _checks.number(alpha, "alpha"), check_confidence(confidence)
    if not 1 < order < math.inf:
        raise InputError(f"expected a finite order above 1, found {order:g}; no sample determines the largest ratio")
    scores = [floats(each, "log odds") for each in (first, second)]
    if not all(each.ndim == 1 and len(each) and np.isfinite(each).all() for each in scores):
        raise InputError("expected finite log odds, one for each row and at least one, found others")
    rng = np.random.default_rng()
    replicates = [
        _variational_bound(_bootstrap(scores[0], rng), _bootstrap(scores[1], rng), order) for _ in range(_RESAMPLES)
    ]
    low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2])
    return DivergenceEstimate(
        max(0.0, _variational_bound(scores[0], scores[1], order)),
        max(0.0, float(low)),
        max(0.0, float(high)),
        order,
        sum(map(len, scores)),
        level,
    )


def _variational_bound(first: Float[np.ndarray, "a"], second: Float[np.ndarray, "b"], alpha: float) -> float:
    """The variational bound at given log odds, without overflow."""
    upper = alpha / (alpha - 1) * (logsumexp((alpha - 1) * first) - math.log(len(first)))
    return float(upper - (logsumexp(alpha * second) - math.log(len(second))))


def _bootstrap(scores: Float[np.ndarray, "n"], rng: np.random.Generator) -> Float[np.ndarray, "n"]:
    return scores[rng.integers(0, len(scores), len(scores))]


def _log_odds(estimator: Discriminator, rows: np.ndarray, margin: float) -> Float[np.ndarray, "n"]:
    probabilities = np.asarray(estimator.predict_proba(rows), dtype=np.float64)
    if probabilities.shape != (len(rows), 2) or not np.isfinite(probabilities).all():
        raise InputError(
            f"expected finite probabilities of shape ({len(rows)}, 2) from the classifier, found {probabilities.shape}"
        )
    one = np.clip(probabilities[:, 1], margin, 1 - margin)
    return np.asarray(np.log(one) - np.log1p(-one))
