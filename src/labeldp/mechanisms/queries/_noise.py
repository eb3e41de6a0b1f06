"""Exact integer noise and choices: rational rates, uniform integers, and no comparison of floats.

Every Bernoulli variable with probability ``exp(-a/b)`` is made of uniform integers alone (Canonne, Kamath and Steinke
2020, algorithm 1), so the distribution is exact. The number of words differs from draw to draw; each draw continues in
the stream where the last one stopped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from labeldp._random_words import Words
from labeldp._shapes import Int
from labeldp.errors import EpsilonError
from labeldp.mechanisms.queries._noise_kernels import best, laplace, normal
from labeldp.privacy import EXACT, printed_above
from labeldp.privacy.accounting import least_deviation

#: Rates are integer multiples of one over this.
PARTS = 1 << 40

#: The largest standard deviation of rounded normal noise: a hundred times it fits in a 64-bit integer.
LARGEST_DEVIATION = 1 << 56

_WORDS_FOR_ONE = 24  # a normal draw takes 20 to 23 on average
_AT_ONCE = 1 << 16


def rate_below(epsilon: float, sensitivity: int) -> int:
    """The largest rate, in ``PARTS``, at which noise for a sensitivity costs at most epsilon."""
    smaller = min(Fraction(epsilon), Fraction(Decimal(repr(epsilon))))
    rate = int(smaller * PARTS / sensitivity)
    if rate == 0:
        raise EpsilonError(
            f"expected an epsilon that noise for a sensitivity of {sensitivity:,} can express, found {epsilon!r}; "
            "choose a larger one, or declare smaller units"
        )
    return rate


def epsilon_of(rate: int, sensitivity: int) -> float:
    """The epsilon of noise with a rate in ``PARTS`` for a sensitivity, rounded up."""
    return printed_above(EXACT.divide(Decimal(rate * sensitivity), Decimal(PARTS)))


def discrete_laplace(count: int, rate: int, words: Words) -> Int[np.ndarray, "count"]:
    """Independent integers with ``P(z)`` proportional to ``exp(-|z| rate / PARTS)``.

    References:
        Ghosh, Roughgarden and Sundararajan 2009, for the law; Canonne, Kamath and Steinke 2020, algorithm 2, for the
        draw.
    """
    return _draw_all(laplace, count, words, lambda _: (rate, PARTS))


def laplace_deviation(rate: int, parts: int) -> float:
    """Standard deviation of discrete Laplace noise with ``q = exp(-rate / parts)``, of variance ``2q / (1 - q)^2``."""
    return math.sqrt(2.0) * math.exp(-rate / parts / 2.0) / -math.expm1(-rate / parts)


def normal_deviation(sensitivity_squared: int, epsilon: float, delta: float, labels_of_a_unit: int) -> int:
    """The least integer standard deviation of normal noise for epsilon and delta."""
    deviation = least_deviation(sensitivity_squared, epsilon, delta, LARGEST_DEVIATION)
    if deviation is None:
        raise EpsilonError(
            f"expected an epsilon that Gaussian noise can meet for units of {labels_of_a_unit} labels, found "
            f"{epsilon!r} at delta {delta!r}; choose a larger one, or declare smaller units"
        )
    return deviation


def least_margin(chance: Callable[[int], float], confidence: float) -> int:
    """The least number m of at least 0 with ``chance(m) <= 1 - confidence``.

    Args:
        chance: A bound on the probability that an error is above m, which falls to 0 as m grows. Its relative error by
            floating point is below 1e-9, which is taken off the other side.
        confidence: Above 0 and below 1.
    """
    limit = (1.0 - confidence) * (1.0 - 1e-9)
    if chance(0) <= limit:
        return 0
    least, most = 0, 1
    while chance(most) > limit:
        least, most = most, 2 * most
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if chance(middle) <= limit else (middle, most)
    return most


def laplace_margin(rate: int, parts: int, confidence: float) -> int:
    """The least m that discrete Laplace noise exceeds in size with a probability of at most ``1 - confidence``.

    With ``q = exp(-rate / parts)``, ``P(|z| > m)`` is ``2 (1 - q) / (1 + q)`` times the sum of ``q^z`` over z > m:
    ``2 q^(m + 1) / (1 + q)``.
    """
    q = math.exp(-rate / parts)
    return least_margin(lambda m: 2.0 * math.exp(-(m + 1) * (rate / parts)) / (1.0 + q), confidence)


def normal_margin(deviation: int, confidence: float) -> int:
    """The least m that rounded normal noise exceeds in size with a probability of at most ``1 - confidence``.

    A normal variable rounds to more than m in size if it is at least m + 1/2 in size.
    """
    return least_margin(lambda m: math.erfc((m + 0.5) / (math.sqrt(2.0) * deviation)), confidence)


def rounded_normal_deviation(deviation: int) -> float:
    """Standard deviation of rounded normal noise: rounding adds the variance of a uniform variable."""
    return math.sqrt(deviation**2 + 1.0 / 12.0)


def noisy_best(scores: Int[np.ndarray, "cells k"], rate: int, words: Words, *, again: bool) -> Int[np.ndarray, "cells"]:
    """A noisy argmax for each row of scores.

    Entries are visited in random order, and one is chosen with probability ``exp(-(best - score) rate / PARTS)``. If
    entries may be visited again, that is the exponential mechanism: each is chosen with probability proportional to
    ``exp(score rate / PARTS)``. If not, it is permute-and-flip, which is never worse.

    References:
        McSherry and Talwar 2007; McKenna and Sheldon 2020, algorithm 1 and proposition 3.
    """
    room = np.empty(scores.shape[1], dtype=np.int64)
    return _draw_all(best, len(scores), words, lambda _: (rate, PARTS, scores, again, room))


def rounded_normal(count: int, deviation: int, words: Words, first: int = 0) -> Int[np.ndarray, "count"]:
    """Independent integers, each exactly the rounding of a normal variable of mean 0 and integer standard deviation.

    The absolute value of a standard normal variable is k + x, with an integer k and x in [0, 1), and its density is
    proportional to

        exp(-(k + x)^2 / 2) = exp(-k/2)  exp(-k(k-1)/2)  exp(-x)^k  exp(-x^2/2).

    So k is geometric with ratio exp(-1/2), x is uniform, and they are accepted if k (k-1) trials of exp(-1/2), k trials
    of exp(-x) and one of exp(-x^2/2) all succeed; else the draw starts again. A trial of exp(-y) counts successes of
    trials of y, y/2, y/3, ... up to the first failure: at least n succeed with probability y^n / n!, so their number is
    even with probability 1 - y + y^2/2 - ... Here y is x, or x^2/2, and a trial of x/i is one of 1/i and one of x.

    With d the standard deviation, ``d x = j + z`` for j uniform below d and z uniform in [0, 1), independent. A trial
    of x draws another such number and compares them; the digits of z are words, drawn as far as two numbers agree. So
    nothing is truncated, and ``d (k + x)`` rounds to ``d k + j``, or to one more if the first bit of z is 1. Beyond 64
    bits integers wrap around, which is a function of the noisy sum: no loss of privacy. Words are read from the place
    ``first`` on.

    References:
        Karney 2016, algorithm N, for the parts; Canonne, Kamath and Steinke 2020, algorithm 1, for the trials.
    """
    return _draw_all(normal, count, words, lambda size: (deviation, np.empty(size + 2, dtype=np.uint64)), first)


def _draw_all(
    kernel: Callable[..., Any], count: int, words: Words, law: Callable[[int], tuple[Any, ...]], first: int = 0
) -> Int[np.ndarray, "count"]:
    """``count`` draws of a kernel from one stream; a draw that runs out of words is repeated with more.

    ``law`` has the kernel's last arguments for a number of words.
    """
    values, progress = np.empty(count, dtype=np.int64), np.zeros(2, dtype=np.int64)
    done, place = 0, first
    words_each = _WORDS_FOR_ONE
    while done < count:
        before = done
        size = words_each * (min(count - done, _AT_ONCE) + 1)
        kernel(words.block(place, size), values, progress, *law(size))
        done = int(progress[0])
        place += int(progress[1])
        words_each *= 1 + (done == before)
    return values
