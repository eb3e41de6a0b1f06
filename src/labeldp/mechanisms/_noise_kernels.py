"""The loops of exact noise, compiled: uniform integers by rejection, and what is made of them."""

# Compiled functions take their types from the call, so the type checker has nothing to hold on to here.
# mypy: disallow-untyped-defs=False, disallow-untyped-decorators=False, disallow-untyped-calls=False

from __future__ import annotations

import numpy as np
from numba import njit

_NO_WORDS = -1


@njit(cache=True, nogil=True)
def _below(words, at, bound):
    """A uniform integer below a bound, by rejection; -1 where words ran out."""
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


@njit(cache=True, nogil=True)
def _part(words, at, top, parts):
    """1 with probability ``exp(-top / parts)`` for a top of at most ``parts``, else 0."""
    turn = 1
    while True:
        found = _below(words, at, parts * turn)
        if found < 0:
            return np.int64(_NO_WORDS)
        if found >= top:
            return np.int64(turn & 1)
        turn += 1


@njit(cache=True, nogil=True)
def _survives(words, at, top, parts):
    """1 with probability ``exp(-top / parts)`` for any top, else 0."""
    while top > parts:
        found = _part(words, at, parts, parts)
        if found <= 0:
            return found
        top -= parts
    return _part(words, at, top, parts)


@njit(cache=True, nogil=True)
def _one_laplace(words, at, rate, parts):
    """One draw of ``discrete_laplace`` and whether words sufficed."""
    while True:
        low = _below(words, at, parts)
        kept = _part(words, at, low, parts) if low >= 0 else np.int64(_NO_WORDS)
        if kept < 0:
            return np.int64(0), False
        if kept == 0:
            continue
        high = np.int64(0)
        more = _part(words, at, parts, parts)
        while more == 1:
            high += 1
            more = _part(words, at, parts, parts)
        sign = _below(words, at, 2) if more == 0 else np.int64(_NO_WORDS)
        if sign < 0:
            return np.int64(0), False
        size = (low + parts * high) // rate
        if sign == 1 and size == 0:
            continue  # zero would count twice
        return (-size if sign == 1 else size), True


@njit(cache=True, nogil=True)
def laplace(words, found, done, rate, parts):
    """Draws until all are made or words run out: how many are made, and how many words they used."""
    at = np.zeros(1, dtype=np.int64)
    used = 0
    while done < found.size:
        value, enough = _one_laplace(words, at, rate, parts)
        if not enough:
            break
        found[done] = value
        done, used = done + 1, at[0]
    return done, used


@njit(cache=True, nogil=True)
def _close_enough(words, at, gap, rate, parts):
    """1 with probability ``exp(-gap rate / parts)``, else 0; in steps whose products fit into a word."""
    whole, rest = rate // parts, rate % parts
    longest = min(np.int64(1 << 50), np.int64(1 << 62) // max(rest, 1))
    while gap > 0:
        step = min(gap, longest)
        taken = _survives(words, at, step * rest, parts)
        for _ in range(step * whole):
            if taken <= 0:
                break
            taken = _part(words, at, parts, parts)
        if taken <= 0:
            return taken
        gap -= step
    return np.int64(1)


@njit(cache=True, nogil=True)
def _one_best(words, at, rate, parts, scores, again, order):
    """One draw of ``noisy_best``; -1 where words ran out."""
    most, left = scores.max(), scores.size
    for j in range(left):
        order[j] = j
    while True:
        place = _below(words, at, left)
        if place < 0:
            return np.int64(_NO_WORDS)
        entry = order[place]
        taken = _close_enough(words, at, most - scores[entry], rate, parts)
        if taken == 1:
            return entry
        if taken < 0:
            return np.int64(_NO_WORDS)
        if not again:  # the best entry is always taken, so some are left
            left -= 1
            order[place] = order[left]
            order[left] = entry


@njit(cache=True, nogil=True)
def best(words, found, done, rate, parts, scores, again):
    """Draws until all are made or words run out: how many are made, and how many words they used."""
    at = np.zeros(1, dtype=np.int64)
    order = np.empty(scores.shape[1], dtype=np.int64)
    used = 0
    while done < found.size:
        entry = _one_best(words, at, rate, parts, scores[done], again, order)
        if entry < 0:
            break
        found[done] = entry
        done, used = done + 1, at[0]
    return done, used
