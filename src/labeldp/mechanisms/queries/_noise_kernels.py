"""Compiled loops of exact noise: uniform integers by rejection, and draws made of them."""

# Compiled functions take their types from the call, so the type checker has nothing to hold on to here.
# mypy: disallow-untyped-defs=False, disallow-untyped-decorators=False, disallow-untyped-calls=False

from __future__ import annotations

import numpy as np

from labeldp._compile import compiled

_NO_WORDS = -1


@compiled()
def _uniform_below(words, at, bound):
    """A uniform integer below a bound, by rejection; -1 if words run out."""
    mask = np.uint64(1)
    while mask < np.uint64(bound):
        mask <<= np.uint64(1)
    mask -= np.uint64(1)
    while at[0] < words.size:
        word = words[at[0]] & mask
        at[0] += 1
        if word < np.uint64(bound):
            return np.int64(word)
    return np.int64(_NO_WORDS)


@compiled()
def _part(words, at, top, parts):
    """1 with probability ``exp(-top / parts)`` for a top of at most ``parts``, else 0."""
    turn = 1
    while True:
        number = _uniform_below(words, at, parts * turn)
        if number < 0:
            return np.int64(_NO_WORDS)
        if number >= top:
            return np.int64(turn & 1)
        turn += 1


@compiled()
def _survives(words, at, top, parts):
    """1 with probability ``exp(-top / parts)`` for any top, else 0."""
    while top > parts:
        success = _part(words, at, parts, parts)
        if success <= 0:
            return success
        top -= parts
    return _part(words, at, top, parts)


@compiled()
def _one_laplace(words, at, rate, parts):
    """One draw of ``discrete_laplace``, and a flag that words sufficed."""
    while True:
        low = _uniform_below(words, at, parts)
        accepted = _part(words, at, low, parts) if low >= 0 else np.int64(_NO_WORDS)
        if accepted < 0:
            return np.int64(0), False
        if accepted == 0:
            continue
        high = np.int64(0)
        more = _part(words, at, parts, parts)
        while more == 1:
            high += 1
            more = _part(words, at, parts, parts)
        sign = _uniform_below(words, at, 2) if more == 0 else np.int64(_NO_WORDS)
        if sign < 0:
            return np.int64(0), False
        size = (low + parts * high) // rate
        if sign == 1 and size == 0:
            continue  # zero would count twice
        return (-size if sign == 1 else size), True


@compiled()
def laplace(words, values, done, rate, parts):
    """Draw until all values are filled or words run out; return the number of values and of words used."""
    at = np.zeros(1, dtype=np.int64)
    used = 0
    while done < values.size:
        value, enough = _one_laplace(words, at, rate, parts)
        if not enough:
            break
        values[done] = value
        done, used = done + 1, at[0]
    return done, used


@compiled()
def _close_enough(words, at, gap, rate, parts):
    """1 with probability ``exp(-gap rate / parts)``, else 0; in steps whose products fit into a word."""
    whole, rest = rate // parts, rate % parts
    longest = min(np.int64(1 << 50), np.int64(1 << 62) // max(rest, 1))
    while gap > 0:
        step = min(gap, longest)
        success = _survives(words, at, step * rest, parts)
        for _ in range(step * whole):
            if success <= 0:
                break
            success = _part(words, at, parts, parts)
        if success <= 0:
            return success
        gap -= step
    return np.int64(1)


@compiled()
def _one_best(words, at, rate, parts, scores, again, order):
    """One draw of ``noisy_best``; -1 if words run out."""
    most, left = scores.max(), scores.size
    for j in range(left):
        order[j] = j
    while True:
        place = _uniform_below(words, at, left)
        if place < 0:
            return np.int64(_NO_WORDS)
        entry = order[place]
        success = _close_enough(words, at, most - scores[entry], rate, parts)
        if success == 1:
            return entry
        if success < 0:
            return np.int64(_NO_WORDS)
        if not again:  # the best entry is always accepted, so some are left
            left -= 1
            order[place] = order[left]
            order[left] = entry


@compiled()
def best(words, entries, done, rate, parts, scores, again):
    """Draw until all values are filled or words run out; return the number of values and of words used."""
    at = np.zeros(1, dtype=np.int64)
    order = np.empty(scores.shape[1], dtype=np.int64)
    used = 0
    while done < entries.size:
        entry = _one_best(words, at, rate, parts, scores[done], again, order)
        if entry < 0:
            break
        entries[done] = entry
        done, used = done + 1, at[0]
    return done, used


@compiled()
def _inside(words, at, deviation, whole, digits):
    """1 with probability ``x = (whole + 0.digits) / deviation``, else 0: compares a uniform number with x.

    The digits of x are words, drawn when another number first agrees with x so far.
    """
    number = _uniform_below(words, at, deviation)
    if number < 0:
        return np.int64(_NO_WORDS)
    if number != whole:
        return np.int64(number < whole)
    place = 0
    while at[0] + 2 <= words.size:
        if place == len(digits):
            digits.append(words[at[0]])
            at[0] += 1
        word = words[at[0]]
        at[0] += 1
        if word != digits[place]:
            return np.int64(word < digits[place])
        place += 1
    return np.int64(_NO_WORDS)


@compiled()
def _fades(words, at, deviation, whole, digits, power):
    """1 with probability ``exp(-x^power / power)``, else 0, for the x of ``_inside`` and a power of 1 or 2."""
    turn = 1
    while True:
        number = _uniform_below(words, at, power * turn)
        success = np.int64(number == 0) if number >= 0 else np.int64(_NO_WORDS)
        for _ in range(power):
            if success == 1:
                success = _inside(words, at, deviation, whole, digits)
        if success < 0:
            return success
        if success == 0:
            return np.int64(turn & 1)
        turn += 1


@compiled()
def _one_size(words, at, deviation):
    """The absolute value of one draw of ``rounded_normal``; -1 if words run out."""
    while True:
        k = 0
        accepted = _part(words, at, 1, 2)
        while accepted == 1:
            k += 1
            accepted = _part(words, at, 1, 2)
        accepted = np.int64(1) if accepted == 0 else accepted
        for _ in range(k * (k - 1)):
            if accepted == 1:
                accepted = _part(words, at, 1, 2)
        whole = _uniform_below(words, at, deviation) if accepted == 1 else np.int64(_NO_WORDS)
        if accepted < 0 or (accepted == 1 and (whole < 0 or at[0] == words.size)):
            return np.int64(_NO_WORDS)
        if accepted == 0:
            continue
        digits = [words[at[0]]]
        at[0] += 1
        for _ in range(k):
            if accepted == 1:
                accepted = _fades(words, at, deviation, whole, digits, 1)
        if accepted == 1:
            accepted = _fades(words, at, deviation, whole, digits, 2)
        if accepted < 0:
            return accepted
        if accepted == 1:
            return deviation * k + whole + np.int64(digits[0] >> np.uint64(63))


@compiled()
def normal(words, values, done, deviation):
    """Draw until all values are filled or words run out; return the number of values and of words used."""
    at = np.zeros(1, dtype=np.int64)
    used = 0
    while done < values.size:
        size = _one_size(words, at, deviation)
        sign = _uniform_below(words, at, 2) if size >= 0 else np.int64(_NO_WORDS)
        if sign < 0:
            break
        values[done] = -size if sign == 1 else size
        done, used = done + 1, at[0]
    return done, used
