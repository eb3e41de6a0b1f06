"""Plans for class labels: the utility of each local mechanism, from formulas alone."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from labeldp import _checks
from labeldp._notebook import Shown
from labeldp._shapes import Float
from labeldp.bounds.planning._unit_sizes import UnitSizes
from labeldp.errors import EpsilonError, InputError
from labeldp.mechanisms.randomizers import (
    ClassRandomizer,
    best_randomizer,
    checked_distribution,
    class_expectation,
    class_randomizers,
    per_unit,
)
from labeldp.privacy import Classes, LabelSpace
from labeldp.privacy.channels import ClassChannel, gradient_noise, share_at

#: The epsilons of a sweep.
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_LARGEST = 1 << 24
#: The share of one class by which a plan shows what uneven classes change, and the most classes for which it does.
_SKEWED, _MOST_SKEWED = 0.98, 1 << 10


@dataclass(frozen=True)
class Option:
    """One mechanism at one epsilon.

    Attributes:
        mechanism: Name of the mechanism, which ``release`` runs under the same name.
        detail: Form of the output for a row.
        epsilon: The epsilon requested.
        certified: The epsilon of its integers, never larger.
        truth_probability: Probability that the released label or set contains the true class.
        clean_share: Effective rows per released row for distinguishing two equally likely classes: an upper bound for
            any statistic of labels.
        effective_rows: Effective rows (effective sample size) of the whole release, rounded down: at most so many rows
            with true labels are as informative.
        expected_share: Effective rows per released row at the class shares of the plan (``share_at``): what to expect,
            often within a factor of two (``experiments/effective_rows.md``); None if it is unknown.
        expected_rows: The effective rows of the whole release at these class shares, rounded down.
        total_variance: Trace of the covariance of one row's unbiased vector.
        best: True for the choice of ``auto``.
    """

    mechanism: str
    detail: str
    epsilon: float
    certified: float
    truth_probability: float
    clean_share: float
    effective_rows: int
    expected_share: float | None
    expected_rows: int | None
    total_variance: float
    best: bool


@dataclass(frozen=True)
class Plan(Shown):
    """Utility of each local mechanism at one epsilon, and over a sweep of epsilons; the largest upper bound first.

    Attributes:
        classes: The number of classes.
        rows: The number of rows.
        epsilon: The epsilon of the options.
        options: The mechanisms at this epsilon.
        sweep: The mechanisms at each epsilon of the sweep.
        shares: The class shares for ``expected_share``; None for even ones.
        units: The rows by the size of their unit, if epsilon covers all rows of one.
        skewed_rows: Effective rows of the choice of ``auto`` if one class had 98 % of the rows; None where shares are
            stated, or unknown.
    """

    classes: int
    rows: int
    epsilon: float
    options: tuple[Option, ...]
    sweep: tuple[tuple[Option, ...], ...]
    shares: tuple[float, ...] | None = None
    units: UnitSizes | None = None
    skewed_rows: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return dataclasses.asdict(self)


def plan(
    classes: int,
    rows: int,
    epsilon: float,
    epsilons: Sequence[float] = EPSILONS,
    shares: Sequence[float] | None = None,
    units: UnitSizes | None = None,
) -> Plan:
    """Compare the local mechanisms for ``rows`` labels of ``classes`` classes.

    Args:
        classes: Number of classes, at least 2.
        rows: Number of rows, at least 1.
        epsilon: The epsilon to spend on each label, or on all labels of each unit.
        epsilons: Epsilons of the sweep.
        shares: The shares of the classes, stated or estimated (``label_shares``); even by default.
        units: The rows by the size of their unit; by default each row is one. Epsilon is divided among the rows of a
            unit, and figures are means over rows.

    Raises:
        InputError: The numbers are out of range, or there is no share for each class.

    Example:
        >>> from labeldp.bounds import plan
        >>> best = next(option for option in plan(10, 1000, 1.0).options if option.best)
        >>> best.mechanism, best.detail, best.effective_rows, best.expected_rows
        ('subset', '4 of 10 classes', 125, 27)

    References:
        Zhao et al. 2025 and Chua et al. 2025 for the mechanisms; the shares are derived in
        ``privacy.channels._utility``.
    """
    _checks.whole(classes, "classes", 2, _LARGEST)
    _checks.whole(rows, "rows", 1, 1 << 62)
    requested = _checks.epsilon(epsilon)
    space, known = Classes(range(classes)), np.array([1.0 / classes])
    if shares is not None:
        if len(shares) != classes:
            raise InputError(f"expected a share for each of {classes} classes, found {len(shares)}")
        known = np.asarray(checked_distribution(shares, classes))
    setting = _Setting(space, rows, known, units)
    options = setting.options(requested)
    if not options:
        raise EpsilonError(f"expected an epsilon that some mechanism can express, found {requested!r}; choose another")
    stated, skewed = (None, setting.skewed_rows(requested)) if shares is None else (tuple(known.tolist()), None)
    return Plan(classes, rows, requested, options, tuple(map(setting.options, epsilons)), stated, units, skewed)


@dataclass(frozen=True)
class _Setting:
    """Label space, rows, class shares and units of all options."""

    space: LabelSpace
    rows: int
    shares: Float[np.ndarray, "k"]
    units: UnitSizes | None

    def options(self, epsilon: float) -> tuple[Option, ...]:
        """The mechanisms that can express the epsilon, as options."""
        try:
            chosen: type = type(best_randomizer(self.space, epsilon, None if self.units is None else self.units.most))
        except EpsilonError:
            chosen = ClassRandomizer
        options: list[Option] = []
        for kind in class_randomizers():
            with suppress(EpsilonError):
                options.append(self._option(kind(self.space, epsilon), best=chosen is kind))
        return tuple(sorted(options, key=lambda option: -option.clean_share))

    def skewed_rows(self, epsilon: float) -> int | None:
        """Effective rows of the choice of ``auto`` if one class had nearly all rows; None if they are unknown."""
        if self.space.size > _MOST_SKEWED:
            return None
        others = (1.0 - _SKEWED) / (self.space.size - 1)
        skewed = dataclasses.replace(self, shares=np.array([_SKEWED, *[others] * (self.space.size - 1)]))
        return next((each.expected_rows for each in skewed.options(epsilon) if each.best), None)

    def _option(self, randomizer: ClassRandomizer, *, best: bool) -> Option:
        units = self.units or UnitSizes((1,), (self.rows,))
        law = per_unit(randomizer, units.sizes)
        channels = [channel for channel, _ in law.units if isinstance(channel, ClassChannel)]
        weights = [share for share, _ in units.shares()]
        utility = [class_expectation(channel, np.ones(())) for channel in channels]
        at_shares = [share_at(channel, self.shares) for channel in channels]
        known = [share for share in at_shares if share is not None]
        expected = float(np.dot(weights, known)) if len(known) == len(weights) else None
        clean_share = float(np.dot(weights, [each.clean_share for each in utility]))
        variances = [gradient_noise(channel, projected=False).right_angled for channel in channels]
        return Option(
            mechanism=randomizer.name,
            detail=randomizer.detail if len(channels) == 1 else law.detail,
            epsilon=randomizer.epsilon,
            certified=law.epsilon,
            truth_probability=float(np.dot(weights, [each.truth_probability for each in utility])),
            clean_share=clean_share,
            effective_rows=math.floor(self.rows * clean_share),
            expected_share=expected,
            expected_rows=None if expected is None else math.floor(self.rows * expected),
            total_variance=float(np.dot(weights, variances)),
            best=best,
        )
