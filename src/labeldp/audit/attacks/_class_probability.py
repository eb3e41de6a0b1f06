"""Probability of the second class of a row, bounded by its neighbours' labels, public or released."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labeldp._confidence_intervals import clopper_pearson_lower, clopper_pearson_upper
from labeldp._shapes import Float, Int
from labeldp.audit.attacks._instance_loss import check_share
from labeldp.errors import InputError
from labeldp.privacy.channels import ClassChannel
from labeldp.release import Release

_ROUNDING = 1e-12
_NOTHING_KNOWN = (0.0, 0.5, 1.0)


@dataclass(frozen=True)
class Bracket:
    """A confidence interval for a number of a population, with an estimate inside.

    Infinite if nothing limits the number: the neighbours are too few, or the labels too noisy, to separate a
    probability from 0 or 1.

    Example:
        >>> print(Bracket(0.47, float("inf"), float("inf")))
        at least 0.47, estimate infinity, at most infinity
    """

    lower: float
    estimate: float
    upper: float

    def __str__(self) -> str:
        low, about, most = (
            f"{value:.4g}".replace("inf", "infinity") for value in (self.lower, self.estimate, self.upper)
        )
        return f"at least {low}, estimate {about}, at most {most}"


@dataclass(frozen=True, eq=False)
class ClassIndicators:
    """Indicators of the second class in released labels, and their probabilities.

    Attributes:
        values: For each row the indicator and, if rows differ, its probabilities given that the second class is true,
            and given that the first is.
        true: The first of these probabilities, if it is the same for all rows.
        other: The second one.
    """

    values: Float[np.ndarray, "n s"]
    true: float | None
    other: float | None

    @classmethod
    def of(cls, release: Release) -> ClassIndicators:
        """Indicators of a release of two classes."""
        channel = _of_two_classes(release)
        levels = channel.levels(release.codes)
        held = np.asarray(levels.mask[:, 1], dtype=np.float64)
        if release.is_public:
            return cls(held[:, None], 1.0, 0.0)
        true, other = channel.holding(np.ones(len(release), dtype=np.int32))
        if levels.support is None and np.ndim(true) == np.ndim(other) == 0:
            return cls(held[:, None], float(true), float(other))
        informative = np.ones(len(held), dtype=bool) if levels.support is None else levels.support.all(axis=1)
        columns = (np.where(informative, np.broadcast_to(column, held.shape), 0.0) for column in (held, true, other))
        return cls(np.stack(list(columns), axis=1), None, None)

    @property
    def flip(self) -> float | None:
        """Probability that the other class is released, if it is the same for all rows and both classes."""
        if self.true is None or self.other is None or abs(self.true + self.other - 1.0) > _ROUNDING:
            return None
        return self.other

    def share(self, declared: float | None, level: float) -> Bracket:
        """Share of the second class, as declared or estimated from all rows."""
        if declared is not None:
            share = check_share(declared)
            return Bracket(share, share, share)
        if self.true is None or self.other is None:
            raise InputError(
                "expected p_plus, the share of the second class, for labels whose channel differs by row, found None; "
                "give it, from public knowledge or from an answer to a charged query"
            )
        count, n = self.values[:, 0].sum(), len(self.values)
        rates = np.array(
            [clopper_pearson_lower(count, n, level / 2), count / n, clopper_pearson_upper(count, n, level / 2)]
        )
        low, middle, high = ((rates - self.other) / (self.true - self.other)).tolist()
        if not 0.0 < low <= high < 1.0:
            raise InputError(
                "expected labels from which the share of the second class can be estimated, found too few of a class "
                "or too much noise; give p_plus, or more rows"
            )
        return Bracket(low, middle, high)

    def probabilities(
        self, sums: Float[np.ndarray, "m s"], k: int, level: float, blur: float
    ) -> tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m"], Float[np.ndarray, "m"]]:
        """Bounds and estimate of the probability of the second class of each row, from its neighbours' sums.

        Args:
            sums: Sums of ``values`` over the neighbours of each row.
            k: The number of neighbours.
            level: Probability that the bounds of a row fail.
            blur: Largest difference between the probabilities of a row and of its neighbours.
        """
        distinct, place = np.unique(sums[:, 0], return_inverse=True)
        ends = (
            mean_lower_bound(distinct, k, level / 2),
            distinct / k,
            1.0 - mean_lower_bound(k - distinct, k, level / 2),
        )
        if self.true is None or self.other is None:
            true, other = sums[:, 1] / k, sums[:, 2] / k
        else:
            true, other = np.full(len(sums), self.true), np.full(len(sums), self.other)
        gap = true - other
        uninformative = gap <= 0.0  # all neighbours have uninformative released labels
        cases = zip(ends, _NOTHING_KNOWN, (-blur, 0.0, blur), strict=True)
        rates = (
            np.where(uninformative, at, (end[place] - other) / np.where(uninformative, 1.0, gap)) + by
            for end, at, by in cases
        )
        low, middle, high = (np.clip(rate, 0.0, 1.0) for rate in rates)
        return low, middle, high


def _of_two_classes(release: Release) -> ClassChannel:
    channel = release.class_channel
    if channel.classes != 2:
        raise InputError(
            f"expected labels of two classes, found {channel.classes}; compare one class with all others, as "
            "two classes"
        )
    if release.certificate is not None and release.certificate.answers:
        mechanism = release.certificate.draws[-1].mechanism
        raise InputError(
            f"expected a channel that does not depend on the labels, found that of {mechanism}, which was estimated "
            "from an answer about these labels; release by randomized response or subsets"
        )
    return channel


def mean_lower_bound(
    counts: Float[np.ndarray, "c"], k: int | Int[np.ndarray, "c"], level: float
) -> Float[np.ndarray, "c"]:
    """Lower confidence bound of the mean probability of k independent indicators, for each count of ones.

    Clopper and Pearson's bound, lowered at a count of one, as indicators of different probabilities require.
    """
    bounds = clopper_pearson_lower(counts, k, level)
    return np.asarray(np.where(counts == 1, np.minimum(bounds, level / k), bounds))
