"""Rows that a model is not fitted on, by which its prediction sets are calibrated."""

from __future__ import annotations

import numpy as np

from labeldp import _checks
from labeldp._shapes import Int
from labeldp.errors import InputError
from labeldp.learning.choice import folds_of
from labeldp.learning.metrics import Units
from labeldp.learning.tables._folds import FOLDS
from labeldp.release import Release


def rows_apart(
    release: Release, units: Units, told: bool, coverage: float | None
) -> tuple[Int[np.ndarray, "m"], Int[np.ndarray, "c"]]:
    """The rows to learn from, and a fifth of the rows, in whole units, to calibrate sets on; none without a coverage.

    Args:
        release: Released labels.
        units: Their privacy units.
        told: Whether a column tells them.
        coverage: The share of rows whose sets shall hold the true label; None for no sets.

    Raises:
        InputError: The coverage is none, no column tells units apart, or features of rows were resampled.
    """
    if coverage is None:
        return np.arange(len(release)), np.arange(0)
    _checks.share(coverage, "a coverage", "()", "; use for instance 0.9")
    certificate = release.certificate
    if certificate is not None and certificate.features is not None:
        raise InputError("expected the features of the rows themselves for a coverage, found resampled or no features")
    if not told:
        raise InputError(
            "expected a column that tells privacy units apart, since sets are calibrated on other units, found none; "
            "release with a made-up number of each (--renumber), or leave out --coverage"
        )
    return folds_of(units, FOLDS)[0]
