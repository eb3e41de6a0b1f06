"""Responses of numeric labels with an output distribution fitted to noisy counts; both requests are charged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from labeldp import _checks
from labeldp.errors import InputError
from labeldp.mechanisms.queries import NoisyHistogram
from labeldp.mechanisms.randomizers import BinResponse, NumberRandomizer, check_registered
from labeldp.privacy import Interval, rest_of
from labeldp.release.curator._cluster_response import with_charge
from labeldp.release.curator._curator import Curator
from labeldp.release.released import Release, distributions_of

#: The counts get the share of epsilon at which noise moves about a twentieth of the rows, within these limits.
_MOVED = 0.05
_LEAST_SHARE, _MOST_SHARE = 0.02, 0.25


def counted_response(
    curator: Curator,
    epsilon: float,
    randomizer: Callable[[Interval, float, np.ndarray], NumberRandomizer] = BinResponse,
    *,
    share: float | None = None,
) -> Release:
    """Count the labels on their grid with noise, and release each by the channel that is best for these counts.

    Args:
        curator: The curator of labels on an ``Interval``, which charges both requests.
        epsilon: The total cost of both requests.
        randomizer: ``BinResponse`` (RR-on-Bins, which is biased: learn with ``method="likelihood"``), or
            ``OptimalResponse``, which is unbiased.
        share: Share of epsilon for the counts; by default enough for the number of rows.

    Guarantee:
        epsilon-label-DP for a trusted curator: the counts and the response add up, and one certificate has both.

    References:
        Ghazi et al. 2023, Algorithm 4; Badanidiyuru et al. 2023, section 4, for unbiased laws.

    Example:
        >>> from labeldp import Curator, Interval
        >>> from labeldp import counted_response
        >>> curator = Curator([0.0, 1.0, 1.0, 8.0] * 500, Interval(0, 10, 0.5))
        >>> release = counted_response(curator, epsilon=2.0)
        >>> release.guarantee.epsilon <= 2.0, release.guarantee.trust, len(release)
        (True, 'central', 2000)

    Raises:
        InputError: The labels are not on an ``Interval`` or are those of units, or the share is not between 0 and 1.
        BudgetError: The budget does not allow it; nothing was drawn.
    """
    release: Release = counted(curator, epsilon, randomizer, share)
    return release


def counted(
    curator: Curator,
    epsilon: float,
    randomizer: Callable[[Interval, float, np.ndarray], NumberRandomizer],
    share: float | None = None,
) -> Any:
    """``counted_response`` into any sink."""
    space, total = curator.space, _checks.epsilon(epsilon)
    if not isinstance(space, Interval):
        raise InputError(f"expected labels on an Interval, found {type(space).__name__}; use cluster_response")
    part = share_of_points(len(curator), space.size, total) if share is None else float(share)
    if curator.has_units:
        raise InputError(
            "expected a curator of single rows, found units of several rows; use OptimalResponse for those"
        )
    if not 0 < part < 1:
        raise InputError(f"expected a share of epsilon between 0 and 1, found {share!r}")
    query = NoisyHistogram(space, part * total)
    second = rest_of(total, query.promise(1).epsilon)
    trial = randomizer(space, second, np.full(space.size, 1 / space.size))  # refuses an impossible request
    check_registered(type(trial), trial.channel())
    curator.check([(query.promise(1).epsilon, None), (second, None)], total)
    answer = curator.answer(query, whole=total)
    release = curator._randomize(randomizer(space, second, distributions_of(answer.value)[0]))
    return with_charge(release, answer, "the prior over grid points")


def share_of_points(rows: int, points: int, epsilon: float) -> float:
    """The share of epsilon for counts on a grid; the noise on each count is about 2 over the epsilon of the counts."""
    return min(_MOST_SHARE, max(_LEAST_SHARE, 2 * points / (_MOVED * max(rows, 1)) / epsilon))
