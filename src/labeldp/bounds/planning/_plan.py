"""Plans for class labels: the utility of each local mechanism, from formulas alone."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from labeldp import _checks
from labeldp.errors import EpsilonError
from labeldp.mechanisms.randomizers import ClassRandomizer, best_response, class_randomizers
from labeldp.privacy import Classes, LabelSpace
from labeldp.privacy.channels import gradient_noise

#: The epsilons of a sweep.
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_LARGEST = 1 << 24


@dataclass(frozen=True)
class Option:
    """One mechanism at one epsilon.

    Attributes:
        mechanism: Name of the mechanism, which ``release`` runs under the same name.
        detail: Form of the output for a row.
        epsilon: The epsilon requested.
        certified: The epsilon of its integers, never larger.
        truth_probability: Probability that the released label or set contains the true class.
        clean_share: Effective rows per released row, for distinguishing two classes.
        effective_rows: Effective rows (effective sample size) of the whole release, rounded down: rows with true labels
            that are as informative.
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
    total_variance: float
    best: bool


@dataclass(frozen=True)
class Plan:
    """Utility of each local mechanism at one epsilon, and over a sweep of epsilons; most effective rows first."""

    classes: int
    rows: int
    epsilon: float
    options: tuple[Option, ...]
    sweep: tuple[tuple[Option, ...], ...]

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return dataclasses.asdict(self)


def plan(classes: int, rows: int, epsilon: float, epsilons: Sequence[float] = EPSILONS) -> Plan:
    """Compare the local mechanisms for ``rows`` labels of ``classes`` classes.

    Args:
        classes: Number of classes, at least 2.
        rows: Number of rows, at least 1.
        epsilon: The epsilon to spend on each label.
        epsilons: Epsilons of the sweep.

    Example:
        >>> from labeldp.bounds import plan
        >>> best = next(option for option in plan(10, 1000, 1.0).options if option.best)
        >>> best.mechanism, best.detail, best.effective_rows
        ('subset', '4 of 10 classes', 125)

    References:
        Zhao et al. 2025 and Chua et al. 2025 for the mechanisms; the share is derived in ``privacy.channels._utility``.
    """
    _checks.whole(classes, "classes", 2, _LARGEST)
    _checks.whole(rows, "rows", 1, 1 << 62)
    requested = _checks.epsilon(epsilon)
    space = Classes(range(classes))
    options = _options(space, rows, requested)
    if not options:
        raise EpsilonError(f"expected an epsilon that some mechanism can express, found {requested!r}; choose another")
    return Plan(classes, rows, requested, options, tuple(_options(space, rows, each) for each in epsilons))


def _options(space: LabelSpace, rows: int, epsilon: float) -> tuple[Option, ...]:
    """The mechanisms that can express the epsilon, as options."""
    try:
        chosen = best_response(space, epsilon)
    except EpsilonError:
        chosen = None
    options: list[Option] = []
    for kind in class_randomizers():
        with suppress(EpsilonError):
            randomizer = kind(space, epsilon)
            options.append(_option(randomizer, rows, chosen is not None and type(chosen) is kind))
    return tuple(sorted(options, key=lambda option: -option.clean_share))


def _option(randomizer: ClassRandomizer, rows: int, best: bool) -> Option:
    channel, expectation = randomizer.channel(), randomizer.expectation
    return Option(
        mechanism=randomizer.name,
        detail=randomizer.detail,
        epsilon=randomizer.epsilon,
        certified=channel.epsilon,
        truth_probability=expectation.truth_probability,
        clean_share=expectation.clean_share,
        effective_rows=math.floor(rows * expectation.clean_share),
        total_variance=gradient_noise(channel, projected=False).right_angled,
        best=best,
    )
