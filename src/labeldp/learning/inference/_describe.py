"""Shares, means and quantiles of the true labels of public groups, with intervals that hold together.

A quantile is where the distribution function crosses its share. Released numbers tell the distribution function at each
grid point by functions that are below and above its indicator in the mean (``best_below``). From both ends of the grid
inward, points are left out as long as each is shown not to be the quantile, so an end errs no more often than one test.

References:
    Woodruff 1952, Confidence intervals for medians and other position measures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from labeldp import _checks
from labeldp._notebook import Shown
from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.inference._lower_scores import GridLaws
from labeldp.learning.inference._table import TrueMean, in_order, require_original_features, texts_of
from labeldp.learning.losses import require_identified
from labeldp.learning.metrics import Estimate, Units, mean_of_rows
from labeldp.privacy import Interval
from labeldp.privacy.channels import GroupedChannel, GroupedNumberChannel
from labeldp.release import Release, check_same_rows

#: Most groups, and most grid points at which a distribution function is looked at.
_MOST_GROUPS, _MOST_POINTS = 200, 64
_MEAN = "mean"
#: Share of all rows below which those that make half of the noise are few.
_FEW = 0.25


@dataclass(frozen=True)
class Summary:
    """An estimate of the true labels of a group of rows.

    Attributes:
        group: The group; empty for all rows.
        rows: Number of its rows.
        outcome: The class whose share it is, ``"mean"``, or a quantile such as ``"quantile 0.5"``.
        estimate: The share, the mean or the quantile.
        difference: That of the group less that of all other rows, both as they are shown; None of quantiles, and where
            there is one group.
    """

    group: str
    rows: int
    outcome: str
    estimate: Estimate
    difference: Estimate | None = None


@dataclass(frozen=True)
class Description(Shown):
    """Estimates of the true labels of public groups, whose intervals hold together.

    Attributes:
        summaries: The estimates, by group.
        level: Probability with which all intervals hold.
        intervals: Number of intervals.
        of_classes: True for shares of classes.
        reason: Why there are no quantiles though they were asked for; empty otherwise.
        noisy: Which few rows make half of the noise, where units have several rows; empty otherwise.
    """

    summaries: tuple[Summary, ...]
    level: float
    intervals: int
    of_classes: bool
    reason: str = ""
    noisy: str = ""


def describe(
    release: Release,
    by: object = None,
    *,
    quantiles: Sequence[float] = (),
    units: object = None,
    level: float = 0.95,
) -> Description:
    """Estimate shares of classes, or means and quantiles of numbers, in all rows and in public groups.

    Args:
        release: Released labels of n rows.
        by: The public group of each row, shape (n,); None for all rows alone.
        quantiles: Of numeric labels: shares below the quantiles, such as 0.5 for the median.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        level: Probability with which all intervals hold together (Bonferroni).

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    References:
        Bonferroni 1936; Clopper and Pearson 1934, and Korn and Graubard 1998, for shares; Newcombe 1998, and Zou and
        Donner 2008, for differences.

    Raises:
        InputError: There is not one group for each row, there are too many groups, quantiles of classes, no rows, or
            rows have candidates.

    Example:
        >>> from labeldp import Classes, Release
        >>> release = Release.public(["no", "yes", "yes", "yes"], Classes(["no", "yes"]))
        >>> found = describe(release, ["east", "east", "west", "west"])
        >>> [(each.group, each.outcome, round(each.estimate.value, 3)) for each in found.summaries][3::2]
        [('east', 'yes', 0.5), ('west', 'yes', 1.0)]
    """
    require_identified(release if by is None else require_original_features(release))
    if not len(release):
        raise InputError("expected at least one row to describe, found none")
    numeric = isinstance(release.space, Interval)
    shares = tuple(_checks.share(each, "a quantile", "()", "; use for instance 0.5") for each in quantiles)
    if shares and not numeric:
        raise InputError("expected quantiles of numeric labels alone, found classes; leave them out")
    names, place = _groups(release, by)
    outcomes = 1 if numeric or release.space.size == 2 else release.space.size  # one of two shares tells the other
    several = len(names) > 1
    count = (len(names) + several) * outcomes + several * len(names) * outcomes + (len(names) + several) * len(shares)
    rows = _Described(release, Units.of(units, release), 1.0 - (1.0 - _checks.level(level)) / count)
    laws = GridLaws.of(release) if shares else None
    problem = laws if isinstance(laws, str) else ""
    every = [("", np.arange(len(release)))]
    groups = (
        every + [(name, np.flatnonzero(place == number)) for number, name in enumerate(names)] if several else every
    )
    summaries = [
        each
        for name, chosen in groups
        for each in (
            *rows.means(name, chosen),
            *(rows.quantiles(name, chosen, shares, laws) if isinstance(laws, GridLaws) else ()),
        )
    ]
    return Description(tuple(summaries), level, count, not numeric, problem, _noisy(release))


def _noisy(release: Release) -> str:
    """The rows of the largest units that make half of the noise on sums, in words, if they are few."""
    channel = release.channel
    if not isinstance(channel, GroupedChannel | GroupedNumberChannel):
        return ""
    if isinstance(channel, GroupedChannel):
        if not channel.even:
            return ""
        true, other = (np.asarray(each) for each in (channel.membership.true, channel.membership.other))
        variances = other * (1.0 - other) / (true - other) ** 2
    else:
        variances = release.noise_variance()
    rows_of = np.asarray(channel.repeats)[channel.groups]
    least = next(size for size in np.unique(rows_of)[::-1] if variances[rows_of >= size].sum() >= variances.sum() / 2.0)
    rows = int((rows_of >= least).sum())
    if rows > _FEW * len(release):
        return ""
    return (
        f"{rows:,} of {len(release):,} rows make half of the noise or more: those of each {release.guarantee.unit} "
        f"with {least:,} rows or more, which share one epsilon. All rows count alike here"
    )


def _groups(release: Release, by: object) -> tuple[list[str], Int[np.ndarray, "n"]]:
    """The names of groups, and the group of each row."""
    if by is None:
        return [""], np.zeros(len(release), dtype=np.int64)
    check_same_rows(by, release, "groups")
    texts = texts_of(by, "its group", len(release))
    names = in_order(texts)
    if len(names) > _MOST_GROUPS:
        raise InputError(f"expected at most {_MOST_GROUPS} groups, found {len(names)}; put some together")
    numbers = {name: number for number, name in enumerate(names)}
    absent = "missing"
    while absent in names:  # a text that a cell has
        absent = f"({absent})"
    return [name or absent for name in names], np.array([numbers[text] for text in texts])


@dataclass(frozen=True, eq=False)
class _Described:
    """The rows of a release, their units, and the level of each interval."""

    release: Release
    units: Units
    level: float

    def means(self, name: str, rows: Int[np.ndarray, "m"]) -> Iterator[Summary]:
        """The shares of the classes in a group, or the mean of its numbers."""
        inside = np.zeros(len(self.release), dtype=np.bool_)
        inside[rows] = True
        numeric = isinstance(self.release.space, Interval)
        outcomes = [(None, _MEAN)] if numeric else enumerate(map(str, self.release.space.points))
        for code, outcome in outcomes:
            mean = TrueMean(self.release, self.units, code, self.level)
            found, _, difference = (mean.of(rows), None, None) if inside.all() else mean.difference(inside)
            yield Summary(name, len(rows), outcome, found, difference)

    def quantiles(
        self, name: str, rows: Int[np.ndarray, "m"], shares: Sequence[float], laws: GridLaws
    ) -> Iterator[Summary]:
        """The quantiles of the numbers in a group."""
        tried = np.unique(np.linspace(0, len(laws.points) - 1, min(_MOST_POINTS, len(laws.points))).astype(int))
        below, above = laws.distribution(rows, tried)
        its, extremes = self.units.take(rows), laws.extremes(len(rows))
        middle = np.maximum.accumulate((below.mean(axis=0) + above.mean(axis=0)) / 2.0)
        for share in shares:
            least, most = self._ends(below, above, share, its, extremes)
            low = laws.points[tried[least - 1] + 1] if least else laws.points[0]
            value = laws.points[tried[min(int(np.searchsorted(middle, share)), len(tried) - 1)]]
            high = laws.points[tried[most]]
            estimate = Estimate(float(np.clip(value, low, high)), math.nan, float(low), float(high))
            yield Summary(name, len(rows), f"quantile {share:g}", estimate)

    def _ends(
        self,
        below: Float[np.ndarray, "m t"],
        above: Float[np.ndarray, "m t"],
        share: float,
        units: Units,
        extremes: tuple[float, float],
    ) -> tuple[int, int]:
        """The number of points shown to be below a quantile, and the place of the least one shown not to be.

        Points are tested from either end on, until one test fails.
        """
        variance = len(below) * share * (1.0 - share)

        def of(scores: Float[np.ndarray, "m"]) -> Estimate:
            expected = (variance, variance)
            return mean_of_rows(scores, self.level, units=units, expected=expected, extremes=extremes)

        least, most = 0, below.shape[1] - 1
        while least < most and of(above[:, least]).high < share:
            least += 1
        while most > least and of(below[:, most - 1]).low >= share:
            most -= 1
        return least, most
