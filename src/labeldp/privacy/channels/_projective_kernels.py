"""Compiled loops of projective-geometry response: functions of codes and words, or of released numbers."""

# Compiled functions take their types from the call, so the type checker has nothing to hold on to here.
# mypy: disallow-untyped-defs=False, disallow-untyped-decorators=False, disallow-untyped-calls=False

from __future__ import annotations

import numpy as np

from labeldp._compile import compiled

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@compiled()
def draw_points(codes, words, order, member, favoured, others, firsts, inverses, out):
    """Points orthogonal to that of the label if ``u < member``, else points that are not, picked uniformly.

    The label's point v has a 1 as its first coordinate other than zero, at place ``lead``. A point orthogonal to v is a
    point of one dimension less in all other coordinates, from which that one follows; a point with the product 1 is any
    vector there. The pick is mapped to ``[0, bound)`` by multiplication with the rejection that makes it uniform
    (Lemire 2019); the number of rejections depends on the words alone. Returns False if a row ran out of words.
    """
    t = firsts.size
    label, point = np.empty(t, dtype=np.int64), np.empty(t, dtype=np.int64)
    for i in range(codes.size):
        inside = words[i, 0] < member
        bound = favoured if inside else others
        floor = ((_LOW + np.uint64(1)) - bound) % bound
        half = 2
        while True:
            if half >= 2 * words.shape[1]:
                return False
            word = words[i, half >> 1]
            product = ((word >> _HALF) if half & 1 else (word & _LOW)) * bound
            half += 1
            if (product & _LOW) >= floor:
                break
        pick = np.int64(product >> _HALF)
        lead = _write_point(label, np.int64(codes[i]), order, firsts, t)
        if inside:
            _write_point(point, pick, order, firsts, t - 1)
        else:
            _write_digits(point, pick, order, t - 1)
        for j in range(t - 1, lead, -1):
            point[j] = point[j - 1]
        point[lead] = 0
        total = np.int64(0)
        for j in range(t):
            total += point[j] * label[j]
        point[lead] = (order + (0 if inside else 1) - total % order) % order
        first = 0
        while point[first] == 0:
            first += 1
        scale, number = inverses[point[first]], np.int64(0)
        for j in range(first + 1, t):
            number = number * order + point[j] * scale % order
        out[i] = firsts[t - 1 - first] + number
    return True


@compiled()
def write_masks(released, order, firsts, out):
    """The classes, in columns, whose points are orthogonal to each released one.

    Points come in the order of their free coordinates, as an odometer: one step adds the last coordinate to the
    product, and each carry the one before, since q times a coordinate is zero.
    """
    t = firsts.size
    vector = np.empty(t, dtype=np.int64)
    for i in range(released.size):
        _write_point(vector, np.int64(released[i]), order, firsts, t)
        label, size = 0, 1
        for free in range(t):
            value, count = vector[t - 1 - free], 0
            while label < out.shape[1] and count < size:
                out[i, label] = value == 0
                label += 1
                count += 1
                place, carry = t - 1, count
                value = (value + vector[place]) % order
                while carry % order == 0 and place > t - free:
                    carry //= order
                    place -= 1
                    value = (value + vector[place]) % order
            size *= order


@compiled()
def _write_point(vector, number, order, firsts, dimension):
    """The coordinates of a point by number, and the place of its leading 1."""
    free = dimension - 1
    while firsts[free] > number:
        free -= 1
    _write_digits(vector, number - firsts[free], order, dimension)
    lead = dimension - 1 - free
    vector[lead] = 1
    return lead


@compiled()
def _write_digits(vector, number, order, dimension):
    """The digits of a number in base q, most significant first."""
    for j in range(dimension - 1, -1, -1):
        vector[j] = number % order
        number //= order
