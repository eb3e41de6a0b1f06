"""The chance of the second class of a row, bounded by the labels of its neighbours: public ones, or released ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from labeldp._intervals import share_above, share_below
from labeldp.audit.attacks._instance_loss import check_share
from labeldp.errors import InputError
from labeldp.privacy.channels import ClassChannel
from labeldp.release import Release

_ROUNDING = 1e-12
_NOTHING_KNOWN = (0.0, 0.5, 1.0)


@dataclass(frozen=True)
class Bracket:
    """A number of a population: bounds that hold with a stated confidence, and the estimate between them.

    Attributes:
        lower: It is at least this.
        estimate: About this.
        upper: At most this.

    Infinite where nothing limits it: neighbours too few, or labels too noisy, to tell a chance from 0 or 1.

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
class Counted:
    """What is counted among neighbours: whether a released label holds the second class, and how likely it does.

    Attributes:
        values: For each row whether it does and, where rows differ, its chances if the second class is true, and if the
            first is.
        true: The first of these chances, if all rows have the same.
        other: The second one.
    """

    values: Float[np.ndarray, "n s"]
    true: float | None
    other: float | None

    @classmethod
    def of(cls, release: Release) -> Counted:
        """Of a release of two classes."""
        channel = _of_two_classes(release)
        levels = channel.levels(release.codes)
        held = np.asarray(levels.mask[:, 1], dtype=np.float64)
        if release.is_public:
            return cls(held[:, None], 1.0, 0.0)
        true, other = channel.holding(np.ones(len(release), dtype=np.int32))
        if levels.support is None and np.ndim(true) == np.ndim(other) == 0:
            return cls(held[:, None], float(true), float(other))
        told = np.ones(len(held), dtype=bool) if levels.support is None else levels.support.all(axis=1)
        columns = (np.where(told, np.broadcast_to(column, held.shape), 0.0) for column in (held, true, other))
        return cls(np.stack(list(columns), axis=1), None, None)

    @property
    def flip(self) -> float | None:
        """The chance that the other class is released, where it is the same for all rows and both classes."""
        if self.true is None or self.other is None or abs(self.true + self.other - 1.0) > _ROUNDING:
            return None
        return self.other

    def share(self, declared: float | None, level: float) -> Bracket:
        """The share of the second class, as declared or from all rows."""
        if declared is not None:
            given = check_share(declared)
            return Bracket(given, given, given)
        if self.true is None or self.other is None:
            raise InputError(
                "expected p_plus, the share of the second class, for labels whose law differs by row, found None; "
                "give it, from public knowledge or from an answer that was charged"
            )
        count, n = self.values[:, 0].sum(), len(self.values)
        rates = np.array([share_above(count, n, level / 2), count / n, share_below(count, n, level / 2)])
        low, middle, high = ((rates - self.other) / (self.true - self.other)).tolist()
        if not 0.0 < low <= high < 1.0:
            raise InputError(
                "expected labels that tell the share of the second class between 0 and 1, found too few of a class, or "
                "too much noise; give p_plus, or more rows"
            )
        return Bracket(low, middle, high)

    def chances(
        self, sums: Float[np.ndarray, "m s"], k: int, level: float, blur: float
    ) -> tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m"], Float[np.ndarray, "m"]]:
        """At least, about and at most: the chance of the second class of each row, from its neighbours' sums.

        Args:
            sums: Of ``values`` over the neighbours of each row.
            k: The number of neighbours.
            level: With which chance the bounds of a row may fail.
            blur: By how much the chances of a row and of its neighbours may differ.
        """
        counts, found = np.unique(sums[:, 0], return_inverse=True)
        ends = (mean_above(counts, k, level / 2), counts / k, 1.0 - mean_above(k - counts, k, level / 2))
        if self.true is None or self.other is None:
            true, other = sums[:, 1] / k, sums[:, 2] / k
        else:
            true, other = np.full(len(sums), self.true), np.full(len(sums), self.other)
        apart = true - other
        silent = apart <= 0.0  # all neighbours are rows whose released label says nothing
        moved = zip(ends, _NOTHING_KNOWN, (-blur, 0.0, blur), strict=True)
        rates = (
            np.where(silent, at, (end[found] - other) / np.where(silent, 1.0, apart)) + by for end, at, by in moved
        )
        low, middle, high = (np.clip(rate, 0.0, 1.0) for rate in rates)
        return low, middle, high


def _of_two_classes(release: Release) -> ClassChannel:
    channel = release.class_channel
    if channel.classes != 2:
        raise InputError(
            f"expected labels of two classes, found {channel.classes}; compare one class with all others, in a "
            "label of two classes"
        )
    if channel.kind == "cluster":
        raise InputError(
            "expected labels whose law is known without them, found cluster response, whose distributions were made "
            "from these labels; release by randomized response or subsets"
        )
    return channel


def mean_above(counts: Float[np.ndarray, "c"], k: int, level: float) -> Float[np.ndarray, "c"]:
    """What the mean chance of k independent indicators is at least, by how many of them are one.

    Clopper and Pearson's bound, made a little smaller at a count of one, where indicators of different chances need it.
    """
    found = share_above(counts, k, level)
    return np.asarray(np.where(counts == 1, np.minimum(found, level / k), found))
