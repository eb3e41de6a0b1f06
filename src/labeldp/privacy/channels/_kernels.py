"""Compiled loops of the draws: functions of codes and words, independent of the source of the words.

Each does the same work for every row, whatever its label, up to the choice of a branch.
"""

# Compiled functions take their types from the call, so the type checker has nothing to hold on to here.
# mypy: disallow-untyped-defs=False, disallow-untyped-decorators=False, disallow-untyped-calls=False

from __future__ import annotations

import numpy as np

from labeldp._compile import compiled

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@compiled()
def draw_response(codes, words, keep, other, out):
    """Randomized response: the label if ``u < keep``, else the ``(u - keep) // other``-th other class.

    The quotient is estimated in floating point and then corrected in integers. It is below the number of classes, at
    most 2**31, and the estimate is off by less than one, so one step either way is enough and ``j * other`` never
    exceeds 2**64.
    """
    inverse = 1.0 / np.float64(other)
    for i in range(codes.size):
        u = words[i, 0]
        y = codes[i]
        rest = u - keep
        j = np.int64(np.float64(rest) * inverse)
        j -= np.uint64(j) * other > rest
        j += rest - np.uint64(j) * other >= other
        out[i] = y if u < keep else j + (j >= y)


@compiled()
def draw_grid(codes, words, limits, top, whole, over, out):
    """Round each label to a knot at random and draw the knot's outcome: the first whose limit exceeds the word.

    ``top`` is the last code, and knots divide it into ``limits.shape[0] - 1`` pieces. Between two knots, ``rest / top``
    of a piece above the lower one, the upper one is taken if the second word is below ``rest * W / top``, rounded up;
    ``W = whole * top + over``, and ``rest * over`` is below ``top**2``, at most 2**48.
    """
    pieces = limits.shape[0] - 1
    for i in range(codes.size):
        knot = np.int64(codes[i])
        if pieces != top:
            place = knot * pieces
            knot = place // top
            rest = np.uint64(place - knot * top)
            bound = rest * whole + (rest * over + np.uint64(top - 1)) // np.uint64(top)
            knot += rest > 0 and words[i, 1] < bound
        out[i] = np.searchsorted(limits[knot], words[i, 0], side="right")


@compiled()
def draw_cluster(codes, words, clusters, keep, limits, out):
    """The label if ``u < keep``, else the first class of the cluster whose cumulative weight exceeds the rest."""
    for i in range(codes.size):
        c = clusters[i]
        drawn = np.searchsorted(limits[c, :-1], words[i, 0] - keep[c], side="right")
        out[i] = codes[i] if words[i, 0] < keep[c] else drawn


@compiled()
def draw_candidates(codes, words, candidates, sizes, keep, other, uniform, out):
    """RRTop-k: randomized response on a row's candidates; a label outside them is replaced by a uniform candidate.

    ``keep``, ``other`` and ``uniform`` are indexed by the number of candidates.
    """
    for i in range(codes.size):
        u = words[i, 0]
        y = codes[i]
        m = sizes[i]
        if m == 1:
            out[i] = _nth(candidates[i], 0, -1)
            continue
        inside = _holds(candidates, i, y)
        if inside and u < keep[m]:
            out[i] = y
            continue
        rank = (u - keep[m]) // other[m] if inside else u // uniform[m]
        skip = y if inside else -1
        out[i] = _nth(candidates[i], np.int64(rank), skip)


@compiled()
def _nth(packed, rank, skip):
    """The class of a rank in a packed set, skipping one class."""
    for byte in range(packed.size):
        bits = packed[byte]
        while bits:
            low = bits & (~bits + np.uint8(1))
            j = byte * 8
            while low > 1:
                low >>= np.uint8(1)
                j += 1
            bits &= bits - np.uint8(1)
            if j != skip:
                if rank == 0:
                    return j
                rank -= 1
    return -1


@compiled()
def _holds(packed, i, j):
    """1 if a class is in the packed set of a row, else 0."""
    return packed[i, j >> 3] >> np.uint8(j & 7) & np.uint8(1)


@compiled()
def _add(packed, i, j):
    """Add a class to the packed set of a row."""
    packed[i, j >> 3] |= np.uint8(1) << np.uint8(j & 7)


@compiled()
def _uniform_below(bound, words, i, half):
    """A uniform integer below a bound from the halves of a row's words, -1 if they run out; and the next half.

    A half is mapped to ``[0, bound)`` by multiplication with the rejection that makes it uniform (Lemire 2019). The
    number of rejections depends on the words alone.
    """
    floor = ((_LOW + np.uint64(1)) - bound) % bound
    while half < 2 * words.shape[1]:
        word = words[i, half >> 1]
        product = ((word >> _HALF) if half & 1 else (word & _LOW)) * bound
        half += 1
        if (product & _LOW) >= floor:
            return np.int64(product >> _HALF), half
    return np.int64(-1), half


@compiled()
def draw_subset(codes, words, classes, size, member, out):
    """Subsets of a fixed size: the first word decides membership of the true class, the others choose the rest.

    The rest is a uniform subset of the other classes by Floyd's algorithm (Bentley and Floyd 1987). The number of
    halves of words that it uses depends on the words alone, not on the label. Returns False if a row ran
    out of words, which practically never happens (``SubsetChannel.words_per_row``).
    """
    for i in range(codes.size):
        y = codes[i]
        inside = words[i, 0] < member
        others = size - 1 if inside else size
        half = 2
        for j in range(classes - 1 - others, classes - 1):
            pick, half = _uniform_below(np.uint64(j + 1), words, i, half)
            if pick < 0:
                return False
            pick += pick >= y
            if _holds(out, i, pick):
                pick = j + (j >= y)
            _add(out, i, pick)
        if inside:
            _add(out, i, y)
    return True


@compiled()
def draw_candidate_subset(codes, words, candidates, size, member, out):
    """Subsets of a row's candidates, drawn like those of ``draw_subset``, with the candidates in class order.

    The first half word picks a stand-in candidate for a label outside the candidates; it is drawn for every row.
    ``size`` and ``member`` are indexed by the number of candidates. Returns False if a row ran out of words.
    """
    members = np.empty(8 * candidates.shape[1], dtype=np.int64)
    for i in range(codes.size):
        y = codes[i]
        m, place = np.int64(0), np.int64(-1)
        for j in range(members.size):
            if _holds(candidates, i, j):
                place = m if j == y else place
                members[m] = j
                m += 1
        if m == 1:
            _add(out, i, members[0])
            continue
        contains = words[i, 0] < member[m]
        others = size[m] - 1 if contains else size[m]
        half = 2
        for j in range(m - 2 - others, m - 1):
            stand_in = j == m - 2 - others
            pick, half = _uniform_below(np.uint64(m if stand_in else j + 1), words, i, half)
            if pick < 0:
                return False
            if stand_in:
                place = pick if place < 0 else place
                continue
            chosen_class = members[pick + (pick >= place)]
            if _holds(out, i, chosen_class):
                chosen_class = members[j + (j >= place)]
            _add(out, i, chosen_class)
        if contains:
            _add(out, i, members[place])
    return True


@compiled()
def draw_coarsening(codes, words, classes, firsts, sizes, keep, other, out):
    """Randomized response on the groups of a row; ``keep`` and ``other`` are indexed by the number of groups.

    A group begins at each class in ``firsts``. With one group no word is needed.
    """
    for i in range(codes.size):
        u, m = words[i, 0], sizes[i]
        own = np.int64(-1)
        for j in range(classes):
            own += np.int64(_holds(firsts, i, j)) * (j <= codes[i])
        drawn = own
        if m > 1 and u >= keep[m]:
            drawn = np.int64((u - keep[m]) // other[m])
            drawn += drawn >= own
        group = np.int64(-1)
        for j in range(classes):
            group += np.int64(_holds(firsts, i, j))
            if group == drawn:
                _add(out, i, j)


@compiled()
def pairs_within(firsts, classes, out):
    """The share of pairs of different classes that are in one group, for each row."""
    for i in range(out.size):
        size, within = 0, 0
        for j in range(classes):
            size = 1 if _holds(firsts, i, j) else size + 1
            within += 2 * (size - 1)
        out[i] = within / (classes * (classes - 1))


@compiled()
def draw_bits(codes, words, true, false, out):
    """Independent bits: one word for each class, below ``true`` for the true class and ``false`` for the others."""
    for i in range(codes.size):
        y = codes[i]
        for j in range(words.shape[1]):
            threshold = true if j == y else false
            out[i, j >> 3] |= np.uint8(words[i, j] < threshold) << np.uint8(j & 7)


@compiled()
def draw_points(codes, words, geometry, member, favoured, others, out):
    """Points orthogonal to that of the label if ``u < member``, else points that are not, picked uniformly.

    The label's point v has a 1 as its first coordinate other than zero, at place ``lead``. A point orthogonal to v is a
    point of one dimension less in all other coordinates, from which that one follows; a point with the product 1 is any
    vector there. Returns False if a row ran out of words.
    """
    order, t = geometry.order, geometry.firsts.size
    label, point = np.empty(t, dtype=np.int64), np.empty(t, dtype=np.int64)
    for i in range(codes.size):
        inside = words[i, 0] < member
        pick = _uniform_below(favoured if inside else others, words, i, 2)[0]
        if pick < 0:
            return False
        lead = _write_point(label, np.int64(codes[i]), geometry, t)
        if inside:
            _write_point(point, pick, geometry, t - 1)
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
        scale, number = geometry.inverses[point[first]], np.int64(0)
        for j in range(first + 1, t):
            number = number * order + point[j] * scale % order
        out[i] = geometry.firsts[t - 1 - first] + number
    return True


@compiled()
def write_masks(released, geometry, out):
    """The classes, in columns, whose points are orthogonal to each released one.

    Points come in the order of their free coordinates, as an odometer: one step adds the last coordinate to the
    product, and each carry the one before, since q times a coordinate is zero.
    """
    order, t = geometry.order, geometry.firsts.size
    vector = np.empty(t, dtype=np.int64)
    for i in range(released.size):
        _write_point(vector, np.int64(released[i]), geometry, t)
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
def _write_point(vector, number, geometry, dimension):
    """The coordinates of a point by number, and the place of its leading 1."""
    free = dimension - 1
    while geometry.firsts[free] > number:
        free -= 1
    _write_digits(vector, number - geometry.firsts[free], geometry.order, dimension)
    lead = dimension - 1 - free
    vector[lead] = 1
    return lead


@compiled()
def _write_digits(vector, number, order, dimension):
    """The digits of a number in base q, most significant first."""
    for j in range(dimension - 1, -1, -1):
        vector[j] = number % order
        number //= order


# Sums of priors may be reordered, so that they vectorise: they choose public candidates, not probabilities of a draw.
_REORDER = {"reassoc", "nsz", "contract"}


@compiled(fastmath=_REORDER)
def best_candidates(prior, gain, out, mass):
    """The candidates that maximise ``sum_A prior / (gain + |A|)``, ``gain = exp(epsilon) - 1``, and their mass.

    The best set is ``{j : prior_j > value}`` with ``value`` the maximum itself, and iterating from the value of
    the full set climbs to it (Dinkelbach 1967). Equal priors are all in or all out; at a tie in value the smaller set
    is taken.
    """
    n, k = prior.shape
    for i in range(n):
        bar, count, total = -1.0, k, 0.0
        for j in range(k):
            total += prior[i, j]
        while True:
            value = total / (gain + count)
            above, left = 0.0, 0
            for j in range(k):
                inside = prior[i, j] > value
                above += prior[i, j] * inside
                left += inside
            if left >= count or left == 0:
                break
            bar, count, total = value, left, above
        for byte in range(out.shape[1]):
            bits = 0
            for j in range(8 * byte, min(8 * byte + 8, k)):
                bits |= (1 if prior[i, j] > bar else 0) << (j & 7)
            out[i, byte] = bits
        mass[i] = total


@compiled(fastmath=_REORDER)
def first_bad_row(prior, tolerance):
    """The first row that is not a distribution, or -1; NaN counts as invalid."""
    n, k = prior.shape
    for i in range(n):
        total, negative = 0.0, 0
        for j in range(k):
            total += prior[i, j]
            negative += 0 if prior[i, j] >= 0 else 1
        if negative or not abs(total - 1.0) <= tolerance:
            return i
    return -1


@compiled()
def best_groups(below, density, gain, most, ordered, out):
    """The cuts of classes into groups whose randomized response is most informative, as packed first classes.

    ``below`` has the probability of all classes before each cut, ``density`` the normal density there, and ``gain`` is
    ``exp(epsilon) - 1``. ``best[g, j]`` is the most that g groups of the first j classes contribute at m groups in all.
    """
    n, k = below.shape[0], below.shape[1] - 1
    best, place = np.empty((k + 1, k + 1)), np.zeros((k + 1, k + 1), dtype=np.int64)
    cuts, tried = np.zeros(k, dtype=np.bool_), np.zeros(k, dtype=np.bool_)
    for i in range(n):
        highest = 0.0 if ordered else 1e-14  # no information, but for rounding
        cuts[:] = False
        cuts[0] = True
        for m in range(2, k + 1):
            if m > most and m < k:
                continue
            floor = 1.0 / (gain + m)
            for g in range(1, m + 1):
                for j in range(g, k - m + g + 1):
                    best[g, j] = -np.inf
                    for start in range(g - 1, j if g > 1 else 1):
                        before = best[g - 1, start] if g > 1 else 0.0
                        chance = floor + gain * floor * (below[i, j] - below[i, start])
                        slope = gain * floor * (density[i, start] - density[i, j])
                        value = before + (slope * slope / chance if ordered else -chance * np.log(chance))
                        if value > best[g, j]:
                            best[g, j], place[g, j] = value, start
            found = best[m, k]
            if not ordered:  # less the entropy of a released group given the true one
                true = (gain + 1.0) * floor
                found += true * np.log(true) + (1.0 - true) * np.log(floor)
            if found > highest:
                highest = found
                tried[:] = False
                end = k
                for g in range(m, 0, -1):
                    end = place[g, end]
                    tried[end] = True
                cuts[:] = tried
        for j in range(k):
            out[i, j >> 3] |= np.uint8(cuts[j]) << np.uint8(j & 7)


@compiled()
def bits_of(packed, ends, places):
    """The places of the bits of each row of bytes, lowest first, one row after the other, and where each row ends.

    There is room for one place more: each is written, and stays if its bit is set, so that nothing depends on a branch.
    """
    count = 0
    for i in range(packed.shape[0]):
        for j in range(packed.shape[1]):
            byte = packed[i, j]
            if byte:
                for bit in range(8):
                    places[count] = 8 * j + bit
                    count += (byte >> bit) & 1
        ends[i] = count
