"""Compiled loops of exact noise: uniform integers by rejection, and draws made of them.

Words that run out are 0 from there on, and ``at``, the number of words used, stays above their number. All functions
end soon after that, and the draw is discarded.
"""

# Compiled functions take their types from the call, so the type checker has nothing to hold on to here.
# mypy: disallow-untyped-defs=False, disallow-untyped-decorators=False, disallow-untyped-calls=False

from __future__ import annotations

import numpy as np

from labeldp._compile import compiled


@compiled()
def _word(words, at):
    """The next word."""
    place = at[0]
    at[0] = place + 1
    return words[place] if place < words.size else np.uint64(0)


@compiled()
def _uniform_below(words, at, bound):
    """A uniform integer below a bound, by rejection."""
    mask = np.uint64(1)
    while mask < np.uint64(bound):
        mask <<= np.uint64(1)
    mask -= np.uint64(1)
    while True:
        word = _word(words, at) & mask
        if word < np.uint64(bound):
            return np.int64(word)


@compiled()
def _part(words, at, top, parts):
    """True with probability ``exp(-top / parts)`` for a top of at most ``parts``; False where words run out first."""
    turn = 1
    while _uniform_below(words, at, parts * turn) < top:
        if at[0] > words.size:
            return False
        turn += 1
    return turn & 1 == 1


@compiled()
def _survives(words, at, top, parts):
    """True with probability ``exp(-top / parts)`` for any top; False where words run out."""
    while top > parts:
        if not _part(words, at, parts, parts):
            return False
        top -= parts
    return _part(words, at, top, parts)


@compiled()
def _one_laplace(words, at, rate, parts):
    """One draw of ``discrete_laplace``."""
    while at[0] <= words.size:
        low = _uniform_below(words, at, parts)
        if not _part(words, at, low, parts):
            continue
        high = np.int64(0)
        while _part(words, at, parts, parts):
            high += 1
        negative = _uniform_below(words, at, 2) == 1
        size = (low + parts * high) // rate
        if not (negative and size == 0):  # zero would count twice
            return -size if negative else size
    return np.int64(0)


@compiled()
def laplace(words, values, done, rate, parts):
    """Draw until all values are filled or words run out; return the number of values and of words used."""
    at = np.zeros(1, dtype=np.int64)
    used = 0
    while done < values.size:
        values[done] = _one_laplace(words, at, rate, parts)
        if at[0] > words.size:
            break
        done, used = done + 1, at[0]
    return done, used


@compiled()
def _close_enough(words, at, gap, rate, parts):
    """True with probability ``exp(-gap rate / parts)``; in steps whose products fit into a word."""
    whole, rest = rate // parts, rate % parts
    longest = min(np.int64(1 << 50), np.int64(1 << 62) // max(rest, 1))
    while gap > 0:
        step = min(gap, longest)
        if not _survives(words, at, step * rest, parts):
            return False
        for _ in range(step * whole):
            if not _part(words, at, parts, parts):
                return False
        gap -= step
    return True


@compiled()
def _one_best(words, at, rate, parts, scores, again, order):
    """One draw of ``noisy_best``."""
    most, left = scores.max(), scores.size
    for j in range(left):
        order[j] = j
    while at[0] <= words.size:
        place = _uniform_below(words, at, left)
        entry = order[place]
        if _close_enough(words, at, most - scores[entry], rate, parts):
            return entry
        if not again:  # the best entry is always accepted, so some are left
            left -= 1
            order[place] = order[left]
            order[left] = entry
    return np.int64(0)


@compiled()
def best(words, entries, done, rate, parts, scores, again):
    """Draw until all values are filled or words run out; return the number of values and of words used."""
    at = np.zeros(1, dtype=np.int64)
    order = np.empty(scores.shape[1], dtype=np.int64)
    used = 0
    while done < entries.size:
        entries[done] = _one_best(words, at, rate, parts, scores[done], again, order)
        if at[0] > words.size:
            break
        done, used = done + 1, at[0]
    return done, used


@compiled()
def _inside(words, at, deviation, whole, digits):
    """True with probability ``x = (whole + 0.digits) / deviation``: compares a uniform number with x.

    The digits of x are words, drawn when another number first agrees with x so far.
    """
    number = _uniform_below(words, at, deviation)
    if number != whole:
        return number < whole
    place = 0
    while at[0] <= words.size:
        if place == len(digits):
            digits.append(_word(words, at))
        word = _word(words, at)
        if word != digits[place]:
            return word < digits[place]
        place += 1
    return False


@compiled()
def _fades(words, at, deviation, whole, digits, power):
    """True with probability ``exp(-x^power / power)``, for the x of ``_inside`` and a power of 1 or 2."""
    turn = 1
    while at[0] <= words.size:
        success = _uniform_below(words, at, power * turn) == 0
        for _ in range(power):
            success = success and _inside(words, at, deviation, whole, digits)
        if not success:
            return turn & 1 == 1
        turn += 1
    return False


@compiled()
def _one_size(words, at, deviation):
    """The absolute value of one draw of ``rounded_normal``."""
    while at[0] <= words.size:
        k = 0
        while _part(words, at, 1, 2):
            k += 1
        accepted = True
        for _ in range(k * (k - 1)):
            accepted = accepted and _part(words, at, 1, 2)
        if not accepted:
            continue
        whole = _uniform_below(words, at, deviation)
        digits = [_word(words, at)]
        for _ in range(k):
            accepted = accepted and _fades(words, at, deviation, whole, digits, 1)
        if accepted and _fades(words, at, deviation, whole, digits, 2):
            return deviation * k + whole + np.int64(digits[0] >> np.uint64(63))
    return np.int64(0)


@compiled()
def normal(words, values, done, deviation):
    """Draw until all values are filled or words run out; return the number of values and of words used."""
    at = np.zeros(1, dtype=np.int64)
    used = 0
    while done < values.size:
        size = _one_size(words, at, deviation)
        values[done] = -size if _uniform_below(words, at, 2) == 1 else size
        if at[0] > words.size:
            break
        done, used = done + 1, at[0]
    return done, used
