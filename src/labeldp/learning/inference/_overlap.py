"""Overlap of treated and untreated rows: their propensities, what is left where these are cut, and diagnostics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labeldp import _checks
from labeldp._shapes import Bool, Float
from labeldp.errors import InputError

#: Weights are the inverse of propensities: beyond this one row counts as a hundred.
_VANISHING = 0.01
#: The largest share of rows with such propensities that are left out without a word from who asks.
_FEW = 0.005
#: Propensities outside of this and its complement are counted.
_RARE = 0.05


@dataclass(frozen=True)
class Overlap:
    """The propensities of rows, the probabilities of the treatment given the features.

    Attributes:
        low: The least propensity.
        high: The largest one.
        outside: Number of rows with a propensity below 0.05 or above 0.95.
        effective_untreated: Effective sample size of the weighted untreated rows (Kish 1965).
        effective_treated: That of the treated rows.
        left_out: Number of rows that were left out, since their propensity is outside of the range that was asked for.
    """

    low: float
    high: float
    outside: int
    effective_untreated: float
    effective_treated: float
    left_out: int = 0

    @classmethod
    def of(cls, propensity: Float[np.ndarray, "n"], treated: Bool[np.ndarray, "n"], left_out: int) -> Overlap:
        """The overlap of rows with these propensities."""
        outside = int(((propensity < _RARE) | (propensity > 1.0 - _RARE)).sum())
        sizes = (_effective_size(1.0 - propensity[~treated]), _effective_size(propensity[treated]))
        return cls(float(propensity.min()), float(propensity.max()), outside, *sizes, left_out)


def _effective_size(chance: Float[np.ndarray, "m"]) -> float:
    """Effective number of rows whose weights are the inverse of probabilities."""
    return float((1.0 / chance).sum() ** 2 / (1.0 / chance**2).sum())


def overlapping_rows(propensity: Float[np.ndarray, "n"], trim: float | None) -> Bool[np.ndarray, "n"]:
    """The rows whose effect is estimated: those with a propensity from ``trim`` to ``1 - trim``, by default 0.01.

    Raises:
        InputError: By default more than one row in 200 is beyond that: its treatment is nearly certain.
    """
    least = _VANISHING if trim is None else _checks.share(trim, "trim", "()", ", such as 0.1")
    kept = np.asarray((propensity >= least) & (propensity <= 1.0 - least))
    if trim is None and (~kept).mean() > _FEW:
        raise InputError(
            f"expected rows that could have had either treatment, found {int((~kept).sum()):,} of {len(kept):,} with a "
            f"propensity below {_VANISHING} or above {1.0 - _VANISHING}. Nothing is comparable to them: use fewer "
            "features, or estimate the effect in the other rows alone with --trim 0.1 (trim=0.1)"
        )
    return kept
