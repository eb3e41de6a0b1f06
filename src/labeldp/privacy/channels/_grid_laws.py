"""Construction of grid channels for an epsilon: closed forms in integers, and column solutions turned into rows.

Labels are at knots ``0 .. A``, and the unit of numbers is the knot distance. ``e`` is a rational number at most
``exp(epsilon)``, and ``W = 2**bits`` is the number of words. The guarantee does not rest on this construction: the
channel's odds are the largest ratio of the integers that it draws with, ``accept`` compares them with the requested
epsilon, and ``GridChannel`` refuses rows that do not use every word once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from labeldp._shapes import Bool, Float, Int
from labeldp.privacy._rounding import exp_below
from labeldp.privacy.channels._calibration import accept, response_weights
from labeldp.privacy.channels._grid import PARTS, BinChannel, GridChannel

#: Binary digits of the powers in a discrete Laplace distribution.
_DIGITS = 256
#: Intervals between knots of a fine grid, for closed forms: up to the epsilon ``_LARGE``, and above.
_PIECES, _MORE_PIECES, _LARGE = 64, 256, 9.0
#: The widest window, in multiples of the number of pieces.
_WIDEST = 8
#: Newton steps from a solution in floats to integers: each adds about ten digits.
_CORRECTIONS = 3

Weights = Sequence[Sequence[int]]


def pieces_of(classes: int, epsilon: float) -> int:
    """Number of intervals between knots for a number of grid points; on a coarse grid every point is a knot.

    Stochastic rounding to knots adds a sixth of the squared knot distance to the variance on average, for uniform
    labels: with 64 pieces 1/24576 of the squared range, a hundredth of the variance at epsilon 6.
    """
    return min(classes - 1, _PIECES if epsilon <= _LARGE else _MORE_PIECES)


@lru_cache(maxsize=64)
def laplace_channel(classes: int, epsilon: float, bits: int = 64) -> GridChannel:
    """Discrete Laplace noise on knots, with all values at or below the first knot merged, and those above the last.

    Discrete Laplace noise adds m to a label at knot i with probability ``(1-a) / (1+a) a**abs(m)``, where
    ``a = e**(-1/A)``. A value ``-m`` at or below the first knot has the probability ``(1-a) / (1+a) a**(i+m)``: the
    label enters through the factor ``a**i`` alone, and m is geometric for every label. So merging these values into one
    outcome loses nothing (sufficiency), and its number is their mean, ``-a / (1-a)``, which does not depend on the
    label: the mean of the released number stays i, and its variance falls by the variance within that outcome (Rao and
    Blackwell). The same holds at and above the last knot. The first outcome has the probability ``a**i / (1+a)``, those
    inside ``(1-a) / (1+a) a**abs(i-j)``: the largest ratio is ``a**-A = e``, of the first outcome and of the last.

    Weights are rounded up, and the excess of a row is subtracted from outcomes near its knot, as far as ratios allow.

    References:
        Zhao et al. 2025, section 5, for Laplace noise; Ghosh et al. 2009 for the law, whose ends are at the knots.
    """
    pieces, word, one = pieces_of(classes, epsilon), 1 << bits, 1 << _DIGITS
    fall = math.floor(one / exp_below(epsilon, pieces))
    powers = list(itertools.accumulate(range(pieces), lambda power, _: power * fall >> _DIGITS, initial=one))
    end = [-(-word * power // (one + fall)) for power in powers]
    inside = [-(-word * (one - fall) * power // ((one + fall) * one)) for power in powers]
    rows = [[end[i], *(inside[abs(i - j)] for j in range(1, pieces)), end[pieces - i]] for i in range(pieces + 1)]
    if fall == one:
        accept(Fraction(1), epsilon, bits)
    beyond = Fraction(fall, one - fall)
    return _channel(classes, rows, [-beyond, *map(Fraction, range(1, pieces)), pieces + beyond], epsilon, bits)


def window_channel(classes: int, pieces: int, width: int, epsilon: float, bits: int = 64) -> GridChannel:
    """``A + width`` outcomes; those in the window from i to ``i + width - 1`` are likelier for a label at knot i.

    With weights ``a`` inside the window and ``b`` outside, ``width * a + A * b = W`` for every row. Let
    ``b >= W / (A + e * width)``: then ``width * a = W - A * b <= e * width * b``, so ``a <= e * b``. Such a b for which
    ``width`` divides ``W - A * b`` lies within the next ``width`` integers, where no odd number divides both.

    The mean of the outcome's number j is ``b N (N-1) / (2 W) + (a-b) / W (width * i + width (width-1) / 2)``, a
    straight line in i. So ``(j - its value at 0) / ((a-b) * width / W)`` has the mean i, exactly.

    References:
        Duchi et al. 2018, section 4.2, for one part and width 1; Wang et al. 2019, Algorithm 2, for windows.
    """
    word, outcomes = 1 << bits, pieces + width
    least = math.ceil(word / (pieces + exp_below(epsilon) * width))
    low = next((b for b in range(least, least + width) if (word - pieces * b) % width == 0), 0)
    high = (word - pieces * low) // width
    if not 1 <= low < high:
        accept(Fraction(1), epsilon, bits)
    gain = high - low
    start = Fraction(low * outcomes * (outcomes - 1) + gain * width * (width - 1), 2 * word)
    numbers = [(j - start) * Fraction(word, gain * width) for j in range(outcomes)]
    rows = [[high if i <= j < i + width else low for j in range(outcomes)] for i in range(pieces + 1)]
    return _channel(classes, rows, numbers, epsilon, bits)


@lru_cache(maxsize=64)
def one_bit_channel(classes: int, epsilon: float, bits: int = 64) -> GridChannel:
    """The one-bit mechanism: two outcomes, with the two ends of the range as knots."""
    return window_channel(classes, 1, 1, epsilon, bits)


@lru_cache(maxsize=64)
def piecewise_channel(classes: int, epsilon: float, bits: int = 64) -> GridChannel:
    """The window channel of least mean variance for uniform labels."""
    accept(one_bit_channel(classes, epsilon, bits).odds, epsilon, bits)
    pieces = pieces_of(classes, epsilon)
    return window_channel(classes, pieces, window_width(pieces, epsilon), epsilon, bits)


def window_width(pieces: int, epsilon: float) -> int:
    """The window width of least mean variance, of those without an odd divisor in common with the number of pieces."""
    widths = [width for width in range(1, _WIDEST * pieces + 1) if math.gcd(pieces, width).bit_count() == 1]
    return widths[int(np.argmin(_window_variances(pieces, np.array(widths), epsilon)))]


def _window_variances(pieces: int, widths: Int[np.ndarray, "w"], epsilon: float) -> Float[np.ndarray, "w"]:
    """Mean variance over knots for windows of each width, with half weight on the two end knots.

    With ``F(n) = (n-1) n (2n-1) / 6``, the sum of the squares below n, the mean of ``j**2`` is
    ``b F(N) + (a-b) (F(i + width) - F(i))``.
    """
    knots, width = np.arange(pieces + 1.0), widths[:, None].astype(np.float64)
    share = 1.0 / (width + pieces * math.exp(-epsilon))  # of one outcome inside; one outside has the rest
    low, gain = share * math.exp(-epsilon), -share * math.expm1(-epsilon)
    outcomes = pieces + width
    second = low * _sum_of_squares(outcomes) + gain * (_sum_of_squares(knots + width) - _sum_of_squares(knots))
    mean = low * outcomes * (outcomes - 1) / 2 + gain * width * (knots + (width - 1) / 2)
    variances = (second - mean**2) / (gain * width) ** 2
    return np.asarray(variances.sum(axis=1) - (variances[:, 0] + variances[:, -1]) / 2) / pieces


def _sum_of_squares(count: np.ndarray) -> np.ndarray:
    """The sum of the squares of ``0 .. count - 1``."""
    return np.asarray((count - 1) * count * (2 * count - 1) / 6)


def column_channel(
    classes: int,
    masses: Float[np.ndarray, "m"],
    inside: Bool[np.ndarray, "knots m"],
    numbers: Float[np.ndarray, "m"],
    epsilon: float,
    bits: int = 64,
) -> GridChannel:
    """The channel of a column solution: each outcome is ``exp(epsilon)`` times as likely for the knots in its set.

    The solution in floats is approximate, so integers are fitted to it: an outcome has ``low`` words for knots outside
    its set and ``floor(e * low)`` inside, and the lows are corrected by the errors of the row sums and of the means.

    Args:
        classes: Number of grid points.
        masses: Probability of each outcome for knots outside its set.
        inside: Mask of the knots in the set of each outcome.
        numbers: The outcomes as fractions of the range above its low end.
        epsilon: The requested epsilon.
        bits: Length of the words.
    """
    span = (classes - 1) * PARTS
    values = [round(Fraction(number) * span) for number in numbers.tolist()]
    lows = [max(1, math.ceil(Fraction(mass) * (1 << bits))) for mass in masses.tolist()]
    for _ in range(_CORRECTIONS):
        lows = _corrected(lows, inside, values, span, epsilon, bits)
    merged: dict[int, list[list[int]]] = {}
    for value, column in zip(values, _column_weights(lows, inside, epsilon), strict=True):
        merged.setdefault(value, []).append(column)
    columns = [list(map(sum, zip(*merged[value], strict=True))) for value in sorted(merged)]
    rows = [list(row) for row in zip(*columns, strict=True)]
    return _filled_channel(classes, rows, sorted(merged), epsilon, bits)


def bin_channel(
    classes: int, starts: Sequence[int], values: Sequence[int], epsilon: float, bits: int = 64
) -> BinChannel:
    """Randomized response over bins, with the weights of ``response_weights``; a single bin discloses nothing.

    Args:
        classes: Number of grid points.
        starts: The first grid point of each bin.
        values: The numbers of the bins, in ``PARTS`` of a grid step, increasing.
        epsilon: The requested epsilon.
        bits: Length of the words.
    """
    keep, other = response_weights(max(2, len(starts)), epsilon, bits)
    accept(Fraction(keep, other), epsilon, bits)
    if len(starts) == 1:
        keep, other = 1 << bits, 0
    return BinChannel(classes=classes, values=tuple(values), keep=keep, other=other, starts=tuple(starts), bits=bits)


def _column_weights(lows: Sequence[int], inside: Bool[np.ndarray, "knots m"], epsilon: float) -> list[list[int]]:
    """The weights of each outcome, for all knots."""
    odds = exp_below(epsilon)
    highs = [math.floor(odds * low) for low in lows]
    return [
        [high if member else low for member in column]
        for low, high, column in zip(lows, highs, inside.T.tolist(), strict=True)
    ]


def _corrected(
    lows: list[int],
    inside: Bool[np.ndarray, "knots m"],
    values: Sequence[int],
    span: int,
    epsilon: float,
    bits: int,
) -> list[int]:
    """The lows after one Newton step towards rows that sum to W and whose means are their knots."""
    word, pieces = 1 << bits, len(inside) - 1
    columns = _column_weights(lows, inside, epsilon)
    lacks, means = [], []
    for i, row in enumerate(zip(*columns, strict=True)):
        lacks.append((word - sum(row)) / word)
        error = sum(weight * (value * pieces - i * span) for weight, value in zip(row, values, strict=True))
        means.append(-float(Fraction(error, word * span * pieces)))
    factors = np.where(inside, math.exp(epsilon), 1.0)
    places = np.array([value / span for value in values]) - np.linspace(0.0, 1.0, pieces + 1)[:, None]
    system = np.concatenate([factors, factors * places])
    scale = np.linalg.norm(system, axis=0)
    steps = np.linalg.lstsq(system / scale, np.array(lacks + means), rcond=None)[0] / scale
    return [max(1, low + round(Fraction(step) * word)) for low, step in zip(lows, steps.tolist(), strict=True)]


def _channel(classes: int, rows: Weights, numbers: Sequence[Fraction], epsilon: float, bits: int) -> GridChannel:
    """The channel of rows that sum to about W, and of numbers in units of the knot distance."""
    scale = Fraction((classes - 1) * PARTS, len(rows) - 1)
    return _filled_channel(classes, rows, [round(number * scale) for number in numbers], epsilon, bits)


def _filled_channel(classes: int, rows: Weights, values: Sequence[int], epsilon: float, bits: int) -> GridChannel:
    """The channel of rows corrected to sum to W, with each column's weights within the ratio e.

    A column's weights stay between ``low``, the least of them, and ``floor(e * low)``, so their largest ratio is at
    most e. Moving r words by a distance d moves a row's mean by ``r d / W``, and r is a few words for each outcome.
    """
    odds, span, pieces = exp_below(epsilon), (classes - 1) * PARTS, len(rows) - 1
    lows = [min(column) for column in zip(*rows, strict=True)]
    highs = [math.floor(odds * low) for low in lows]
    filled = []
    for i, row in enumerate(rows):
        distances = [abs(value * pieces - i * span) for value in values]
        nearest = sorted(range(len(row)), key=distances.__getitem__)
        filled.append(_filled(list(map(min, row, highs)), nearest, lows, highs, bits))
    if min(lows) < 1 or any(sum(row) != 1 << bits for row in filled):
        accept(Fraction(1), epsilon, bits)
    channel = GridChannel(classes=classes, weights=tuple(filled), values=tuple(values), bits=bits)
    accept(channel.odds, epsilon, bits)
    return channel


def _filled(
    row: list[int], order: Sequence[int], lows: Sequence[int], highs: Sequence[int], bits: int
) -> tuple[int, ...]:
    """The row with its sum corrected to ``2**bits``, one outcome after the other, within the limits."""
    missing = (1 << bits) - sum(row)
    for z in order:
        change = max(lows[z] - row[z], min(highs[z] - row[z], missing))
        row[z] += change
        missing -= change
    return tuple(row)
