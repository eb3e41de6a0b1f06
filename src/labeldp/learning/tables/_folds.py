"""The rows of a release to learn from, those to calibrate prediction sets on, and their privacy units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp import _checks
from labeldp._shapes import Int
from labeldp.errors import InputError
from labeldp.learning.choice import folds_of, some_rows
from labeldp.learning.metrics import ROWS, Units, may_share_units
from labeldp.learning.sklearn import ClusterLeaves
from labeldp.privacy import Interval
from labeldp.release import Release, unit_numbers
from labeldp.release.folder import Certificate, group_column

FOLDS = 5
#: Rows of a unit, where a release does not say how many there are.
_USUAL_SIZE = 5


def enough_rows(release: Release) -> Certificate:
    """The certificate of a release, which must have enough rows for cross-validation."""
    if release.certificate is None or len(release) < 2 * FOLDS:
        raise InputError(f"expected at least {2 * FOLDS} rows to learn from, found {len(release)}")
    return release.certificate


def units_in(table: pa.Table, unit: str | None) -> Int[np.ndarray, "n"] | None:
    """The number of each row's privacy unit, as releases tell units apart, or None if its column was not kept."""
    if unit is None or unit not in table.column_names:
        return None
    return unit_numbers(table[unit], table.num_rows)


def chosen_rows(certificate: Certificate, units: Int[np.ndarray, "n"] | None, most: int) -> Int[np.ndarray, "m"]:
    """Numbers of at most so many rows, in whole units: by chance, without a look at labels, and equal for one release.

    Raises:
        InputError: So many rows do not suffice for cross-validation.
    """
    most = _checks.whole(most, "rows", 2 * FOLDS)
    of_rows = Units.of(ROWS if units is None else units, certificate.rows)
    return some_rows(of_rows, most, list(certificate.release.encode()))


def units_of(table: pa.Table, release: Release, points: Callable[[], Any]) -> tuple[Units, bool]:
    """The privacy units of rows, by the column of their unit, and whether a column tells them.

    Where rows may share a unit and no column tells which do, sets of similar rows stand for units: rows of one unit are
    often near-duplicates.
    """
    numbers, rows = units_in(table, group_column(release.certificate)), table.num_rows
    if numbers is not None or not may_share_units(release):
        return Units.of(ROWS if numbers is None else numbers, rows), True
    size = max(getattr(release.channel, "repeats", (_USUAL_SIZE,)))
    return Units.of(ClusterLeaves().similar(points(), size), rows), False


def rows_apart(
    release: Release, units: Units, told: bool, coverage: float | None, by: str | None
) -> tuple[Int[np.ndarray, "m"], Int[np.ndarray, "c"]]:
    """The rows to learn from, and a fifth of the rows, in whole units, to calibrate sets on; none without a coverage.

    Args:
        release: Released labels.
        units: Their privacy units.
        told: Whether a column tells them.
        coverage: The share of rows whose sets shall hold the true label; None for no sets.
        by: ``"class"`` for that share of the rows of each class.

    Raises:
        InputError: The coverage is none, or by class without classes, no column tells units apart, or features of rows
            were resampled.
    """
    if by is not None and (coverage is None or isinstance(release.space, Interval)):
        raise InputError("expected a coverage by class with a coverage of classes, found one without; leave it out")
    if coverage is None:
        return np.arange(len(release)), np.arange(0)
    _checks.share(coverage, "a coverage", "()", "; use for instance 0.9")
    _checks.among(by, "a coverage by", (None, "class"))
    certificate = release.certificate
    if certificate is not None and certificate.features is not None:
        raise InputError("expected the features of the rows themselves for a coverage, found resampled or no features")
    if not told:
        raise InputError(
            "expected a column that tells privacy units apart, since sets are calibrated on other units, found none; "
            "release with a made-up number of each (--renumber), or leave out --coverage"
        )
    return folds_of(units, FOLDS)[0]
