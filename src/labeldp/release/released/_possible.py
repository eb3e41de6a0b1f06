"""Tests whether released labels can come from a declared channel, whatever the true labels are.

The count of an outcome is a sum of independent indicators, one for each row. Whatever the true label of a row is, the
probability of its indicator lies between the least and the largest one of the channel. So the tails of the count are at
most those of the sum whose probabilities are all the largest ones, or all the least ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.privacy.channels import (
    Channel,
    ClassChannel,
    EvenChannel,
    GroupedChannel,
    GroupedNumberChannel,
    MatrixChannel,
    row_arrays,
)

#: The probability of refusing labels whose channel is as declared.
FALSE_ALARMS = 0.001
#: The largest parameter of an exponential bound that is tried; any is valid.
_LARGEST_TILT = 50.0


def counts_of(channel: Channel, released: np.ndarray) -> Int[np.ndarray, "m"]:
    """The number of rows whose released label is each outcome, or has each class in its set."""
    if isinstance(channel, EvenChannel) and channel.form != "class":
        return np.asarray(channel.mask(released).sum(axis=0, dtype=np.int64))
    return np.bincount(released, minlength=len(_extremes(channel)[0]))


def check_possible(channel: Channel, counts: Int[np.ndarray, "m"], rows: int) -> None:
    """Refuse counts of released labels that no true labels make likely, by a channel that is the same for all rows.

    Raises:
        InputError: One of the tails is below its share of ``FALSE_ALARMS``.
    """
    _refuse_unlikely(_log_tails(channel, counts, rows))


def check_rows_possible(channel: Channel, released: np.ndarray) -> None:
    """Refuse released labels that no true labels make likely, by a channel whose rows may differ.

    Raises:
        InputError: One of the tails is below its share of ``FALSE_ALARMS``.
    """
    if not row_arrays(channel):
        check_possible(channel, counts_of(channel, released), len(released))
    elif isinstance(channel, ClassChannel):
        _refuse_unlikely(_log_tails_by_row(channel, released))
    elif isinstance(channel, GroupedNumberChannel):
        parts = [(law, released[channel.groups == group]) for group, law in enumerate(channel.channels)]
        _refuse_unlikely(tail for law, part in parts for tail in _log_tails(law, counts_of(law, part), len(part)))


def _refuse_unlikely(log_tails: Iterable[float]) -> None:
    tails = list(log_tails)
    if min(tails) < math.log(FALSE_ALARMS / len(tails)):  # no count is shown: these may be true labels
        raise InputError(
            "these labels were not randomized as declared: one value is too frequent or too rare for the declared "
            f"mechanism, whatever the true labels are (false alarms: 1 in {round(1 / FALSE_ALARMS):,}); check "
            "mechanism, epsilon and classes"
        )


def _log_tails(channel: Channel, counts: Int[np.ndarray, "m"], rows: int) -> Iterator[float]:
    """Both tails of each outcome; of a matrix also the tails of each class's estimated share below 0."""
    for count, least, largest in zip(counts.tolist(), *_extremes(channel), strict=True):
        yield from _both_log_tails(count, np.array([least]), np.array([largest]), np.array([rows]))
    if isinstance(channel, MatrixChannel) and channel.identifies:
        for values in -channel.unbiased(np.arange(channel.classes)).T:
            yield _log_tail(float(counts @ values), rows, _matrix_moments(channel.matrix(), values))


def _log_tails_by_row(channel: ClassChannel, released: np.ndarray) -> Iterator[float]:
    """Both tails of the number of rows that released each class."""
    for code in range(channel.classes):
        classes = np.full(len(released), code, dtype=np.int32)
        bounds, times = np.unique(np.stack(_bounds(channel, classes)), axis=1, return_counts=True)
        count = int(np.count_nonzero(channel.holds(released, classes)))
        yield from _both_log_tails(count, bounds.min(axis=0), bounds.max(axis=0), times)


def _both_log_tails(
    count: int, least: Float[np.ndarray, "b"], largest: Float[np.ndarray, "b"], times: Int[np.ndarray, "b"]
) -> Iterator[float]:
    """Bounds on the logarithms of the probabilities of so high, and of so low, a count."""
    yield _log_count_tail(count, largest, times)
    yield _log_count_tail(int(times.sum()) - count, 1.0 - least, times)


def _log_count_tail(count: int, chances: Float[np.ndarray, "b"], times: Int[np.ndarray, "b"]) -> float:
    """The tail of a binomial count; of indicators with different probabilities, an exponential bound."""
    from scipy.special import bdtrc  # noqa: PLC0415 (it loads slowly)

    if count <= 0:
        return 0.0
    if len(chances) == 1:
        tail = float(bdtrc(count - 1, times[0], chances[0]))
        return math.log(tail) if tail > 0 else -math.inf
    return _log_tail(count, 1, lambda tilt: float(times @ np.log1p(chances * np.expm1(tilt))))


def _log_tail(total: float, rows: int, moments: Callable[[float], float]) -> float:
    """The least ``rows * log E[exp(tilt * value)] - tilt * total``, a bound for each tilt (Chernoff)."""
    from scipy.optimize import minimize_scalar  # noqa: PLC0415 (it loads slowly)

    def bound(tilt: float) -> float:
        return rows * moments(tilt) - tilt * total

    return min(0.0, float(minimize_scalar(bound, bounds=(0, _LARGEST_TILT), method="bounded").fun))


def _matrix_moments(matrix: Float[np.ndarray, "k k"], values: Float[np.ndarray, "k"]) -> Callable[[float], float]:
    """The largest ``log E[exp(tilt * value of the released class)]`` over true classes."""
    most = float(values.max())

    def moments(tilt: float) -> float:
        return tilt * most + math.log(float((matrix @ np.exp(tilt * (values - most))).max()))

    return moments


def _bounds(
    channel: ClassChannel, classes: Int[np.ndarray, "n"]
) -> tuple[Float[np.ndarray, "*rows"], Float[np.ndarray, "*rows"]]:
    """Probabilities of a class in each row, between which those for all true classes are, in either order."""
    if isinstance(channel, GroupedChannel):
        parts = [[float(np.ravel(each)[0]) for each in _bounds(law, classes[:1])] for law in channel.channels]
        one, other = np.array(parts)[channel.groups].T
        return one, other
    if isinstance(channel, MatrixChannel):
        column = channel.matrix()[:, classes]
        return column.min(axis=0), column.max(axis=0)
    return channel.holding(classes)


def _extremes(channel: Channel) -> tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m"]]:
    """The least and the largest probability of each outcome, or of each class in a released set."""
    if isinstance(channel, EvenChannel):
        chance = channel.membership
        return np.full(channel.classes, float(chance.other)), np.full(channel.classes, float(chance.true))
    matrix = channel.table().matrix
    return matrix.min(axis=0), matrix.max(axis=0)
