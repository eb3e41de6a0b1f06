"""What every final channel promises, by enumeration of its words and by high-precision arithmetic."""

import dataclasses
import itertools
import json
import math
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import labeldp.privacy.channels
from labeldp.audit import audit_channel, audit_drawing
from labeldp.errors import EpsilonError, InputError
from labeldp.privacy import exp_below
from labeldp.privacy.accounting import PrivacyLoss
from labeldp.privacy.channels import (
    CHANNELS,
    PARTS,
    BinChannel,
    BitChannel,
    CandidateChannel,
    CandidateSubsetChannel,
    ClusterChannel,
    CoarseningChannel,
    GridChannel,
    GroupedChannel,
    GroupedNumberChannel,
    MatrixChannel,
    ProjectiveChannel,
    ResponseChannel,
    SubsetChannel,
    candidate_sizes,
    channel_of,
    laplace_channel,
    law_of,
    lists_of,
    one_bit_channel,
    pack,
    piecewise_channel,
    row_arrays,
    unpack,
)
from labeldp.privacy.channels._kernels import draw_listed_subset

WORDS = 1 << 16
HALF = 1 << 32
TOP = np.uint64(2**64 - 1)
Grouped = GroupedChannel | GroupedNumberChannel


def candidate_rows(classes):
    """Candidate sets of every size, not always the first classes; one row each."""
    rng = np.random.default_rng(5)
    mask = np.zeros((classes, classes), dtype=np.bool_)
    for m in range(1, classes + 1):
        mask[m - 1, rng.permutation(classes)[:m]] = True
    return pack(mask)


def subsets_of_candidates(**parts):
    """The channel of subsets of up to three candidates with other parts."""
    channel = CandidateSubsetChannel.at(3, 1.0, candidate_rows(3))
    return dataclasses.replace(channel, **parts)


def group_rows(classes):
    """Groups in every number, of one class and of several; one row each."""
    rng = np.random.default_rng(6)
    mask = np.zeros((classes, classes), dtype=np.bool_)
    mask[:, 0] = True
    for m in range(1, classes + 1):
        mask[m - 1, 1 + rng.permutation(classes - 1)[: m - 1]] = True
    return pack(mask)


def responses_on_groups(**parts):
    """The channel of groups of up to three classes with other parts."""
    return dataclasses.replace(CoarseningChannel.at(3, 1.0, group_rows(3)), **parts)


def grouped_responses(epsilon, bits):
    """Units of one row, which ask for less, and of two rows, which have half the epsilon for each."""
    channels = (
        ResponseChannel.at(3, 0.8 * epsilon, bits),
        ResponseChannel.at(3, math.nextafter(epsilon / 2, 0.0), bits),
    )
    return GroupedChannel(3, channels, (1, 2), np.array([1, 0, 0, 1, 1]), bits=bits)


def grouped_subsets(epsilon, bits):
    """Groups whose laws need different numbers of words."""
    channels = (SubsetChannel.at(6, 1, epsilon, bits), SubsetChannel.at(6, 4, math.nextafter(epsilon / 3, 0.0), bits))
    return GroupedChannel(6, channels, (1, 3), np.array([1, 0, 1]), bits=bits)


def grouped_projective(epsilon, bits):
    """Groups whose released numbers mean sets of different spaces."""
    channels = (
        ProjectiveChannel.at(7, 2, 0.8 * epsilon, bits),
        ProjectiveChannel.at(7, 3, math.nextafter(epsilon / 2, 0.0), bits),
    )
    return GroupedChannel(7, channels, (1, 2), np.array([1, 0]), bits=bits)


def cluster_responses(epsilon, bits):
    """Clusters of different distributions, one of them even, and classes of very different chances."""
    distributions = np.array([[0.25] * 4, [0.7, 0.1, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4]])
    return ClusterChannel.at(distributions, epsilon, np.array([2, 0, 1, 1], dtype=np.int32), bits)


def redrawing_responses(epsilon, bits):
    """One probability to redraw for all clusters; a row in the last one, which stands for the worst there can be."""
    distributions, floor = np.array([[0.25] * 4, [0.7, 0.1, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4]]), 0.1
    redrawn = math.nextafter(1 / (1 + math.expm1(epsilon) * floor), 1.0)
    return ClusterChannel.redrawing(distributions, floor, redrawn, np.array([3, 0, 1, 2], dtype=np.int32), bits)


def matrices(classes, epsilon, bits):
    """Each class keeps itself, goes to the next one seldom, and to all others at probabilities in between."""
    word, odds = 1 << bits, exp_below(epsilon)
    least = math.ceil(word / (1 + odds + (classes - 2) * Fraction(math.sqrt(odds))))
    keep = math.floor(odds * least) if classes > 2 else word - least
    between = [(word - keep - least + i) // (classes - 2) for i in range(classes - 2)]
    line = [keep, least, *between] if between else [keep, word - keep]
    return MatrixChannel(
        classes, tuple(tuple(line[(z - y) % classes] for z in range(classes)) for y in range(classes)), bits=bits
    )


def many_subsets(classes, size, epsilon, bits):
    """Subsets that are drawn as where they are too many for a list."""
    channel = SubsetChannel.at(classes, size, epsilon, bits)
    vars(channel)["listed"] = False
    return channel


def one_bit(points, epsilon, bits):
    """Two knots and two outcomes: a label in between is put on one of the ends."""
    low = ResponseChannel.at(2, epsilon, bits).other
    reach = Fraction((1 << bits) * (points - 1), (1 << bits) - 2 * low)
    values = (math.floor((points - 1 - reach) / 2 * PARTS), math.ceil((points - 1 + reach) / 2 * PARTS))
    return GridChannel(points, values, (((1 << bits) - low, low), (low, (1 << bits) - low)), bits=bits)


def shifted(points, knots, epsilon, bits):
    """Each knot makes another window of outcomes likelier, and its numbers are far from even."""
    response = ResponseChannel.at(knots, epsilon, bits)
    weights = tuple(
        tuple(response.keep if z == i else response.other for z in range(knots)) for i in reversed(range(knots))
    )
    return GridChannel(points, tuple(PARTS * (z * z - 3) for z in range(knots)), weights, bits=bits)


def bins(points, epsilon, bits):
    """Bins of different sizes."""
    response = ResponseChannel.at(3, epsilon, bits)
    values = (PARTS // 2, 2 * PARTS, 5 * PARTS)
    return BinChannel(points, values, response.keep, response.other, (0, 2, 3), bits=bits)


def grouped_numbers(epsilon, bits):
    """Groups whose outcomes stand for different numbers, and that need different numbers of words."""
    channels = (shifted(4, 4, 0.8 * epsilon, bits), one_bit(4, math.nextafter(epsilon / 2, 0.0), bits))
    return GroupedNumberChannel(4, channels, (1, 2), np.array([1, 0, 0, 1, 1]), bits=bits)


NUMBER_CASES = {
    "one-bit-2": (GridChannel, lambda e, bits: one_bit(2, e, bits)),
    "one-bit-6": (GridChannel, lambda e, bits: one_bit(6, e, bits)),
    "grid-4-4": (GridChannel, lambda e, bits: shifted(4, 4, e, bits)),
    "grid-8-4": (GridChannel, lambda e, bits: shifted(8, 4, e, bits)),
    "bins-5": (BinChannel, lambda e, bits: bins(5, e, bits)),
    "grouped-numbers": (GroupedNumberChannel, grouped_numbers),
}
CLASS_CASES = {
    "cluster": (ClusterChannel, cluster_responses),
    "cluster-redrawing": (ClusterChannel, redrawing_responses),
    "response-2": (ResponseChannel, lambda e, bits: ResponseChannel.at(2, e, bits)),
    "response-3": (ResponseChannel, lambda e, bits: ResponseChannel.at(3, e, bits)),
    "response-10": (ResponseChannel, lambda e, bits: ResponseChannel.at(10, e, bits)),
    "candidates-3": (CandidateChannel, lambda e, bits: CandidateChannel.at(3, e, candidate_rows(3), bits)),
    "candidates-9": (CandidateChannel, lambda e, bits: CandidateChannel.at(9, e, candidate_rows(9), bits)),
    "candidate-subset-3": (
        CandidateSubsetChannel,
        lambda e, bits: CandidateSubsetChannel.at(3, e, candidate_rows(3), bits),
    ),
    "candidate-subset-6": (
        CandidateSubsetChannel,
        lambda e, bits: CandidateSubsetChannel.at(6, e, candidate_rows(6), bits),
    ),
    "coarsening-2": (CoarseningChannel, lambda e, bits: CoarseningChannel.at(2, e, group_rows(2), bits)),
    "coarsening-5": (CoarseningChannel, lambda e, bits: CoarseningChannel.at(5, e, group_rows(5), bits)),
    "coarsening-9": (CoarseningChannel, lambda e, bits: CoarseningChannel.at(9, e, group_rows(9), bits)),
    "subset-2-1": (SubsetChannel, lambda e, bits: SubsetChannel.at(2, 1, e, bits)),
    "subset-5-2": (SubsetChannel, lambda e, bits: SubsetChannel.at(5, 2, e, bits)),
    "subset-9-4": (SubsetChannel, lambda e, bits: SubsetChannel.at(9, 4, e, bits)),
    "subset-4-3": (SubsetChannel, lambda e, bits: SubsetChannel.at(4, 3, e, bits)),
    "many-subsets-2-1": (SubsetChannel, lambda e, bits: many_subsets(2, 1, e, bits)),
    "many-subsets-5-2": (SubsetChannel, lambda e, bits: many_subsets(5, 2, e, bits)),
    "many-subsets-9-4": (SubsetChannel, lambda e, bits: many_subsets(9, 4, e, bits)),
    "bits-2": (BitChannel, lambda e, bits: BitChannel.independent(2, e, bits)),
    "bits-9": (BitChannel, lambda e, bits: BitChannel.independent(9, e, bits)),
    "symmetric-2": (BitChannel, lambda e, bits: BitChannel.symmetric(2, e, bits)),
    "symmetric-5": (BitChannel, lambda e, bits: BitChannel.symmetric(5, e, bits)),
    "projective-2": (ProjectiveChannel, lambda e, bits: ProjectiveChannel.at(2, 2, e, bits)),
    "projective-6": (ProjectiveChannel, lambda e, bits: ProjectiveChannel.at(6, 5, e, bits)),
    "projective-10": (ProjectiveChannel, lambda e, bits: ProjectiveChannel.at(10, 3, e, bits)),
    "projective-13": (ProjectiveChannel, lambda e, bits: ProjectiveChannel.at(13, 3, e, bits)),
    "projective-15": (ProjectiveChannel, lambda e, bits: ProjectiveChannel.at(15, 2, e, bits)),
    "matrix-2": (MatrixChannel, lambda e, bits: matrices(2, e, bits)),
    "matrix-4": (MatrixChannel, lambda e, bits: matrices(4, e, bits)),
    "grouped-responses": (GroupedChannel, grouped_responses),
    "grouped-projective": (GroupedChannel, grouped_projective),
    "grouped-subsets": (GroupedChannel, grouped_subsets),
}
CASES = {**CLASS_CASES, **NUMBER_CASES}
every_case = pytest.mark.parametrize("case", CASES)
every_class_case = pytest.mark.parametrize("case", CLASS_CASES)
every_number_case = pytest.mark.parametrize("case", NUMBER_CASES)
#: One case of each way of drawing, at every epsilon; the others, of other sizes, at one.
FEW = ("cluster", "cluster-redrawing", "response-3", "candidates-3", "candidate-subset-3", "coarsening-5", "subset-5-2")
FEW += ("many-subsets-5-2", "bits-2", "symmetric-2", "projective-2", "matrix-4", "grouped-responses", *NUMBER_CASES)


def at_epsilons(epsilons, cases):
    """Every case at epsilon 1, and one of each way of drawing at the other epsilons too."""
    few = [case for case in cases if case in FEW]
    pairs = [(1.0, case) for case in cases] + [(epsilon, case) for epsilon in epsilons for case in few]
    return pytest.mark.parametrize(("epsilon", "case"), pairs)


every_case_and_epsilon = at_epsilons((0.25, 3.0), CASES)


def build(case, epsilon, bits):
    """The channel of a case."""
    return CASES[case][1](epsilon, bits)


def rows_of(channel):
    """One row for each law that the channel holds."""
    arrays = row_arrays(channel)
    return range(len(next(iter(arrays.values())))) if arrays else range(1)


def group_of(channel, row):
    """The group of a row, 0 where there are no groups."""
    return int(channel.groups[row]) if isinstance(channel, Grouped) else 0


def inner(channel, row):
    """The law of one row as a channel without groups."""
    return channel.channels[group_of(channel, row)] if isinstance(channel, Grouped) else channel


def drawn(channel, row, code, words):
    """What one row releases for one true class, for each given line of words."""
    words = np.asarray(words, dtype=np.uint64)
    full = np.zeros((len(words), channel.words_per_row), dtype=np.uint64)
    full[:, : words.shape[1]] = words
    return channel.take(np.full(len(words), row)).draw(np.full(len(words), code, dtype=np.int32), full)


def keys(released):
    """Released labels as something that can be counted."""
    if released.ndim == 1:
        return released.tolist()
    return np.ascontiguousarray(released).view(f"V{released.shape[1] * released.itemsize}").ravel().tolist()


def law_of_words(channel, row):
    """The law of a channel that one word decides: every word is drawn with."""
    words = np.arange(WORDS)[:, None]
    counts = [Counter(keys(drawn(channel, row, code, words))) for code in range(channel.classes)]
    outcomes = sorted(set().union(*counts))
    return {key: [Fraction(count[key], WORDS) for count in counts] for key in outcomes}


def law_of_bits(channel, row):
    """The law of independent bits: every number for each bit alone, then the product."""
    k = channel.classes
    words = same_number(channel, np.arange(WORDS))
    ones = [unpack(drawn(channel, row, code, words), k).sum(axis=0) for code in range(k)]
    law = {}
    for outcome in itertools.product((False, True), repeat=k):
        chances = [[Fraction(int(n), WORDS) for n in line] for line in ones]
        each = [math.prod(p if bit else 1 - p for p, bit in zip(line, outcome, strict=True)) for line in chances]
        law[pack(np.array([outcome]))[0].tobytes()] = each
    return law


def same_number(channel, numbers):
    """The words in which all bits have one number: its upper half twice in the first words, then its lower one."""
    half = channel.bits // 2
    numbers = np.asarray(numbers, dtype=np.uint64)
    parts = numbers >> np.uint64(half), numbers & np.uint64((1 << half) - 1)
    return np.repeat(np.array([part | part << np.uint64(half) for part in parts]).T, channel.usual_words, axis=1)


def halves(pick, bound):
    """The smallest and the largest half of a word that give a pick below a bound."""
    rejected = HALF % bound
    return -(-(pick * HALF + rejected) // bound), -(-((pick + 1) * HALF) // bound) - 1


def words_of_picks(first, picks):
    """The words that lead the subset's draw through given (pick, bound) pairs, after a first word."""
    parts = [halves(pick, bound)[0] for pick, bound in picks]
    parts += [0] * (len(parts) % 2)
    return [first, *(low | high << 32 for low, high in zip(parts[::2], parts[1::2], strict=True))]


def law_of_picks(channel, row):
    """The law of subsets: every first word, then every sequence of picks."""
    if inner(channel, row).listed:
        return law_of_choices(channel, row)
    law, size, k = {}, inner(channel, row).size, channel.classes
    others = math.comb(k - 1, size - 1), math.comb(k - 1, size)
    for code in range(k):
        first = np.arange(WORDS)[:, None] + np.array([[0, 0, 0, 0, 0]])
        first[:, 1:] = HALF - 1 | (HALF - 1) << 31  # halves that are never rejected for such small bounds
        inside = unpack(drawn(channel, row, code, first[:, : channel.words_per_row]), k)[:, code]
        chance = Fraction(int(inside.sum()), WORDS)
        for member, share, count in ((True, chance, others[0]), (False, 1 - chance, others[1])):
            word = int(np.argmax(inside == member))
            bounds = range(k - (size - member), k)
            sequences = itertools.product(*([(pick, bound) for pick in range(bound)] for bound in bounds))
            lines = [words_of_picks(word, picks) for picks in sequences]
            found = Counter(keys(drawn(channel, row, code, lines)))
            assert len(found) == count
            for key, times in found.items():
                law.setdefault(key, [Fraction(0)] * k)[code] += share * Fraction(times, len(lines))
    return law


def law_of_candidate_picks(channel, row):
    """The law of subsets of candidates: every first word, then every stand-in with every sequence of picks."""
    law, k, inside = {}, channel.classes, unpack(channel.candidates[row : row + 1], channel.classes)[0]
    m, never = int(inside.sum()), [HALF - 1 | (HALF - 1) << 31] * (channel.words_per_row - 1)
    for code in range(k):
        first = np.hstack([np.arange(WORDS)[:, None], np.tile(np.array(never, dtype=np.int64), (WORDS, 1))])
        found = unpack(drawn(channel, row, code, first), k)
        stood_in = code if inside[code] else int(np.flatnonzero(inside)[m * (HALF - 1) >> 32])
        is_in = found[:, stood_in]
        chance = Fraction(int(is_in.sum()), WORDS)
        for member, share in ((True, chance), (False, 1 - chance)):
            if not share:
                continue
            bounds = [m, *range(m - (channel.size[m] - member), m)] if m > 1 else []
            sequences = itertools.product(*([(pick, bound) for pick in range(bound)] for bound in bounds))
            word = int(np.argmax(is_in == member))
            lines = [words_of_picks(word, picks) for picks in sequences]
            for key, times in Counter(keys(drawn(channel, row, code, lines))).items():
                law.setdefault(key, [Fraction(0)] * k)[code] += share * Fraction(times, len(lines))
    return law


def law_of_knots(channel, row):
    """The law of two words: every word for the outcome at each of two knots, and every word for the knot."""
    if inner(channel, row).words_per_row == 1:
        return law_of_words(channel, row)
    words, law = np.arange(WORDS), {}
    for code in range(channel.classes):
        upper, lower = (drawn(channel, row, code, np.stack([words, np.full(WORDS, w)], 1)) for w in (0, WORDS - 1))
        differs = int(np.argmax(upper != lower))
        chosen = drawn(channel, row, code, np.stack([np.full(WORDS, differs), words], 1))
        share = Fraction(int((chosen == upper[differs]).sum()), WORDS) if (upper != lower).any() else Fraction(1)
        for found, part in ((upper, share), (lower, 1 - share)):
            for key, times in Counter(found.tolist()).items():
                law.setdefault(key, [Fraction(0)] * channel.classes)[code] += part * Fraction(times, WORDS)
    return law


def counts(channel):
    """How many outcomes hold a class, and how many do not."""
    if isinstance(channel, ProjectiveChannel):
        return channel.favoured, channel.points - channel.favoured
    return tuple(math.comb(channel.classes - 1, channel.size - held) for held in (1, 0))


def left_over(channel, code, words, row=0):
    """What words release for a class with the first pick and with the last, and which of them leave it to the pick."""
    lines = np.full((2, len(words), inner(channel, row).words_per_row), 1 | 1 << 32, dtype=np.uint64)
    lines[1], lines[:, :, 0] = HALF - 1 | (HALF - 1) << 32, words
    first, last = (drawn(channel, row, code, line) for line in lines)
    return first, np.array([one != other for one, other in zip(keys(first), keys(last), strict=True)])


def law_of_choices(channel, row):
    """The law of choices: every first word, and every pick after those that leave the outcome to it."""
    law, one = {}, inner(channel, row)
    for code in range(channel.classes):
        released, left = left_over(channel, code, np.arange(WORDS), row)
        inside = one.holds(released, np.full(WORDS, code))
        found = [(key, Fraction(times, WORDS)) for key, times in Counter(keys(released[~left])).items()]
        for member, bound in zip((True, False), counts(one), strict=True):
            words = np.flatnonzero(left & (inside == member))
            assert len(words) < bound
            if len(words):
                lines = [words_of_picks(int(words[0]), [(pick, bound)]) for pick in range(bound)]
                picked = keys(drawn(channel, row, code, lines))
                assert len(set(picked)) == bound
                found += [(key, Fraction(len(words), WORDS * bound)) for key in picked]
        for key, share in found:
            law.setdefault(key, [Fraction(0)] * channel.classes)[code] += share
    return law


COUNTING = {
    ProjectiveChannel: law_of_choices,
    GridChannel: law_of_knots,
    BinChannel: law_of_words,
    CandidateSubsetChannel: law_of_candidate_picks,
    ResponseChannel: law_of_words,
    CandidateChannel: law_of_words,
    ClusterChannel: law_of_words,
    MatrixChannel: law_of_words,
    CoarseningChannel: law_of_words,
    SubsetChannel: law_of_picks,
    BitChannel: law_of_bits,
}
_laws = {}


def counted(case, epsilon, row):
    """The exact law of one row at 16 bits, from the draw alone: outcome -> probability given each true class."""
    key = case, epsilon, row
    if key not in _laws:
        channel = build(case, epsilon, 16)
        _laws[key] = COUNTING[type(inner(channel, row))](channel, row)
    return _laws[key]


def worst(law):
    """The largest ratio of one outcome's probabilities under two true classes."""
    return max(max(chances) / min(chances) for chances in law.values())


def masks(channel, row):
    """Which classes each outcome of the table holds."""
    outcomes, k = channel.table(row).outcomes, channel.classes
    if channel.form == "index":  # a set that its kind alone can write out: the classes that make it likeliest
        law = channel.matrix(row)
        return (law > law.min() * 1.0001).T
    return unpack(outcomes, k) if channel.form == "set" else outcomes[:, None] == np.arange(k)


def support(channel, row):
    """The classes that one row can release."""
    return masks(channel, row).any(axis=0)


def spread(channel, row):
    """One channel row for each outcome of a row's table, and these outcomes."""
    outcomes = channel.table(row).outcomes
    return channel.take(np.full(len(outcomes), row)), outcomes


def test_every_registered_channel_has_examples():
    """A kind that the registry finds must be in this suite, and what the suite has must be registered."""
    assert set(CHANNELS.own.values()) == {kind for kind, _ in CASES.values()}
    assert all(CHANNELS.find(kind.kind) is kind for kind, _ in CASES.values())


@every_case_and_epsilon
def test_the_counted_law_is_the_table(case, epsilon):
    """Counting every word gives exactly the probabilities that the table states, and each law sums to one."""
    channel = build(case, epsilon, 16)
    for row in rows_of(channel):
        law, table = counted(case, epsilon, row), channel.table(row)
        assert sorted(law) == sorted(keys(table.outcomes))
        stated = dict(zip(keys(table.outcomes), table.matrix.T.tolist(), strict=True))
        for key, chances in law.items():
            assert stated[key] == pytest.approx([float(p) for p in chances], rel=1e-13, abs=0)
        assert all(sum(column) == 1 for column in zip(*law.values(), strict=True))


@every_case_and_epsilon
def test_the_counted_epsilon_is_certified_and_asked_for(case, epsilon):
    """The ratio counted from the draw, of a whole unit, is the channel's own and at most exp(epsilon)."""
    channel = build(case, epsilon, 16)
    ratios = []
    for row in rows_of(channel):
        repeats = channel.repeats[group_of(channel, row)] if isinstance(channel, Grouped) else 1
        ratio = worst(counted(case, epsilon, row)) ** repeats
        assert ratio <= channel.take(np.array([row])).odds <= channel.odds
        ratios.append(ratio)
    if isinstance(channel, CandidateChannel):  # the odds count a label outside where every class is a candidate
        assert math.log(max(ratios)) >= 0.99 * math.log(channel.odds)
    elif isinstance(channel, Grouped):  # products are rounded up
        assert max(ratios) <= channel.odds <= max(ratios) * (1 + Fraction(1, 10**290))
    else:
        assert max(ratios) == channel.odds
    with mpmath.workdps(60):
        certified = mpmath.log(mpmath.mpf(channel.odds.numerator) / channel.odds.denominator)
        assert certified <= mpmath.mpf(channel.epsilon) <= mpmath.mpf(epsilon)
        assert certified >= 0.99 * mpmath.mpf(epsilon)


@every_class_case
def test_merged_classes_have_one_distribution_in_every_row(case):
    """Those that the written-out tables of all rows do not tell apart; of all rows, of each alone, and of two."""
    channel = build(case, 1.0, 16)
    every = [*rows_of(channel)]
    for rows in (every, *([row] for row in every), every[:2], every[-2:]):
        part = channel.take(np.array(rows))
        laws = np.concatenate([part.table(row).matrix for row in range(len(rows))], axis=1)
        alike = {tuple(np.flatnonzero(np.isclose(laws, law, rtol=1e-9).all(axis=1)).tolist()) for law in laws}
        assert part.merged == tuple(sorted(codes for codes in alike if len(codes) > 1))


@every_case
def test_the_certificate_of_the_integers_is_tight(case):
    """At 64 bits the certified epsilon bounds the exact logarithm, is at most what was asked for, and close to it."""
    for epsilon in (0.05, 0.3, 0.7, 1.0, 2.5, 8.0):
        channel = build(case, epsilon, 64)
        with mpmath.workdps(80):
            exact = mpmath.log(mpmath.mpf(channel.odds.numerator) / channel.odds.denominator)
            assert exact <= mpmath.mpf(channel.epsilon) <= mpmath.mpf(epsilon)
            assert exact <= mpmath.mpf(repr(channel.epsilon)) <= mpmath.mpf(repr(epsilon))
            assert mpmath.mpf(channel.epsilon) - exact < 1e-15 * max(1, epsilon)
        assert epsilon - channel.epsilon <= 1e-9


@every_case
def test_rows_of_the_matrix_sum_to_one(case):
    """``matrix`` is the table's, has a row for each true class, and each row is a distribution."""
    for epsilon in (0.25, 1.0, 3.0):
        channel = build(case, epsilon, 64)
        for row in rows_of(channel):
            matrix = channel.matrix(row)
            assert matrix.shape == (channel.classes, len(channel.table(row).outcomes))
            assert (matrix > 0).all()
            assert matrix.sum(axis=1) == pytest.approx(np.ones(channel.classes), abs=1e-12)


@every_case
def test_likelihood_is_the_law_up_to_a_factor(case):
    """For each outcome, the likelihood of the true classes is proportional to their column of the law."""
    for epsilon in (0.25, 1.0, 3.0):
        channel = build(case, epsilon, 64)
        for row in rows_of(channel):
            rows, outcomes = spread(channel, row)
            likelihood, law = rows.likelihood(outcomes), channel.matrix(row).T
            ratio = likelihood / law
            assert ratio == pytest.approx(np.repeat(ratio[:, :1], channel.classes, axis=1), rel=1e-12)
            if channel.form == "set":
                assert (rows.likelihood(masks(channel, row)) == likelihood).all()


@every_class_case
def test_the_unbiased_vector_has_the_one_hot_mean(case):
    """E[w | true] is one-hot, or uniform on the candidates for a label outside; where there is none, it is refused."""
    for epsilon in (0.25, 1.0, 3.0):
        channel = build(case, epsilon, 64)
        for row in rows_of(channel):
            rows, outcomes = spread(channel, row)
            if isinstance(channel, CoarseningChannel):
                assert not rows.identifies
                with pytest.raises(InputError, match="found groups of classes"):
                    rows.unbiased(outcomes)
                continue
            assert rows.identifies == support(channel, row).all()
            mean, inside = channel.matrix(row) @ rows.unbiased(outcomes), support(channel, row)
            wanted = np.where(inside[:, None], np.eye(channel.classes), inside / inside.sum())
            assert mean == pytest.approx(wanted, abs=1e-9)


@every_class_case
def test_membership_is_the_tables(case):
    """The three stated probabilities of membership are those of the table."""
    for epsilon in (0.25, 1.0, 3.0):
        channel = build(case, epsilon, 64)
        for row in rows_of(channel):
            one = channel.take(np.array([row]))
            held, law = masks(channel, row), channel.matrix(row)
            alike = (
                (law[:, None] == law[None]).all(axis=2) if isinstance(channel, CoarseningChannel) else np.eye(len(law))
            )
            classes = np.flatnonzero(support(channel, row))
            chance = {name: float(np.broadcast_to(getattr(one.membership, name), (1,))[0])
                      for name in ("true", "other", "apart")}  # fmt: skip
            for asked in classes:
                inside, outside = (float(np.broadcast_to(p, (1,))[0]) for p in one.holding(np.array([asked])))
                if isinstance(channel, MatrixChannel):  # averages over the other classes
                    assert (inside, outside) == pytest.approx(
                        (law[asked, asked], np.delete(law[:, asked], asked).mean())
                    )
                    continue
                for true in classes:
                    assert law[true] @ held[:, asked] == pytest.approx(
                        inside if alike[true, asked] else outside, rel=1e-12
                    )
                    if channel.even and true != asked:
                        apart = law[true] @ (held[:, true] != held[:, asked])
                        assert (inside, outside, apart) == pytest.approx(tuple(chance.values()), rel=1e-12)
            if isinstance(channel, CoarseningChannel):  # averages over pairs of different classes
                pairs = list(itertools.permutations(range(channel.classes), 2))
                means = (
                    np.mean([law[true] @ held[:, true] for true, _ in pairs]),
                    np.mean([law[true] @ held[:, asked] for true, asked in pairs]),
                    np.mean([law[true] @ (held[:, true] != held[:, asked]) for true, asked in pairs]),
                )
                assert tuple(chance.values()) == pytest.approx(means, rel=1e-12, abs=1e-12)
            elif isinstance(channel, MatrixChannel):
                assert chance["true"] == pytest.approx(np.diag(law).mean(), rel=1e-12)
                assert chance["true"] + chance["other"] == pytest.approx(chance["apart"], rel=1e-12)
            elif not channel.even:  # averages over true classes that are distributed as what is drawn
                drawn_from = np.array(channel.weights[int(channel.clusters[row])], dtype=float)
                drawn_from /= drawn_from.sum()
                assert chance["true"] == pytest.approx(drawn_from @ np.diag(law), rel=1e-12)
                assert chance["true"] - chance["other"] == pytest.approx(law[0, 0] - law[1, 0], rel=1e-9)


def many_rows(channel, count):
    """The channel of many rows, each law in turn, with codes and words for them."""
    rng = np.random.default_rng(11)
    channel = channel.take(np.arange(count) % len(rows_of(channel)))
    codes = rng.integers(0, channel.classes, count).astype(np.int32)
    words = rng.integers(0, 2**64, (count, channel.words_per_row), dtype=np.uint64)
    return channel, codes, words


@every_case
def test_take_is_the_law_of_those_rows(case):
    """Drawing, likelihood, unbiased vectors and membership of some rows are those rows of the whole."""
    channel, codes, words = many_rows(build(case, 1.0, 64), 40)
    whole = channel.draw(codes, words)
    for rows in (slice(3, 17), np.array([39, 0, 0, 7]), np.array([], dtype=np.int64), slice(0, 0)):
        part = channel.take(rows)
        assert (part.draw(codes[rows], words[rows]) == whole[rows]).all()
        assert (part.likelihood(whole[rows]) == channel.likelihood(whole)[rows]).all()
        assert part.words_per_row == channel.words_per_row
        if channel.form == "number":
            assert (part.numbers(whole[rows]) == channel.numbers(whole)[rows]).all()
            continue
        if channel.even or channel.identifies:
            assert (part.unbiased(whole[rows]) == channel.unbiased(whole)[rows]).all()
        for name in ("true", "other", "apart"):
            found, all_rows = getattr(part.membership, name), getattr(channel.membership, name)
            assert (found == (all_rows[rows] if all_rows.ndim else all_rows)).all()


@every_case
def test_the_same_tape_changes_one_row_only(case):
    """With the same words, replacing one label changes what that row releases and nothing else."""
    channel, codes, words = many_rows(build(case, 1.0, 64), 30)
    before = channel.draw(codes, words)
    changed = 0
    for row in range(len(codes)):
        neighbour = codes.copy()
        neighbour[row] = (codes[row] + 1) % channel.classes
        after = channel.draw(neighbour, words)
        others = np.arange(len(codes)) != row
        assert (after[others] == before[others]).all()
        changed += bool(np.any(after[row] != before[row]))
    assert changed > 0


@every_case
def test_released_labels_have_the_stated_form(case):
    """Released labels are class codes, or packed bits without a bit beyond the classes; integers of no narrow type."""
    channel, codes, words = many_rows(build(case, 1.0, 64), 200)
    released = channel.draw(codes, words)
    if channel.form in ("class", "index"):
        assert released.dtype == np.int32
        outcomes = channel.classes if channel.form == "class" else max(part.points for part, _ in channel.units)
        assert (released >= 0).all()
        assert (released < outcomes).all()
        assert channel.possible(released).all()
        assert not channel.possible(np.full(200, -1)).any()
    elif channel.form == "number":
        assert released.dtype == np.int16
        assert channel.possible(released).all()
        assert not channel.possible(np.full(200, max(map(len, channel.steps)))).any()
        assert not channel.possible(np.full(200, -1)).any()
    else:
        assert released.dtype == np.uint8
        assert released.shape == (200, (channel.classes + 7) // 8)
        assert (pack(unpack(released, channel.classes)) == released).all()


@every_class_case
def test_the_label_does_not_change_what_a_word_decides(case):
    """A row's words decide "true class in?" and the ranks of the others alike, whatever the label's value."""
    channel = build(case, 1.0, 64)
    if isinstance(channel, MatrixChannel):
        pytest.skip("it describes draws of others")
    rng = np.random.default_rng(3)
    words = rng.integers(0, 2**64, (300, channel.words_per_row), dtype=np.uint64)
    for row in rows_of(channel):
        if isinstance(channel, ClusterChannel):  # a label that is not kept plays no part in what is drawn
            drawn_ones = [drawn(channel, row, code, words) for code in range(channel.classes)]
            kept = words[:, 0] < np.uint64(channel.keep[int(channel.clusters[row])])
            assert all((found[kept] == code).all() for code, found in enumerate(drawn_ones))
            assert all((found[~kept] == drawn_ones[0][~kept]).all() for found in drawn_ones)
            continue
        if isinstance(channel, CoarseningChannel):  # the group is kept, or the rank among the others is the same
            groups = channel.groups()[row]
            numbers = [
                groups[channel.mask(drawn(channel, row, code, words)).argmax(axis=1)] for code in range(len(groups))
            ]
            ranks = [np.where(n == own, -1, n - (n > own)).tobytes() for n, own in zip(numbers, groups, strict=True)]
            assert len(set(ranks)) == 1
            continue
        shared = same_number(channel, words[:, 0]) if isinstance(channel, BitChannel) else words
        seen = set()
        for code in np.flatnonzero(support(channel, row)).tolist():
            released = drawn(channel, row, code, shared)
            held = channel.take(np.full(len(released), row)).mask(released)
            inside = support(channel, row)
            inside[code] = False
            others = held[:, inside] if channel.form != "index" else np.empty(0)  # these are numbered by the label
            seen.add((held[:, code].tobytes(), others.tobytes()))
        assert len(seen) == 1


@pytest.mark.parametrize("bound", [2, 3, 5, 7, 9, 10, 255, 1000, 65535])
def test_the_bounded_integer_is_exactly_uniform(bound):
    """Each pick has floor(2**32 / bound) halves, and the draw keeps and rejects at exactly their two ends."""
    channel = SubsetChannel(bound + 1, 1, (1 << 63) + ((1 << 63) % bound == 0))  # the last word is left over
    rejected = HALF % bound
    shown = sorted({0, 1, bound // 2, bound - 1})
    assert all(halves(p, bound)[1] - halves(p, bound)[0] + 1 == HALF // bound for p in range(bound))
    assert sum(halves(p, bound)[1] - halves(p, bound)[0] + 1 for p in range(bound)) == HALF - rejected
    for pick in shown:
        after = halves((pick + 1) % bound, bound)[0]  # another pick than this one and the one below
        low, high = halves(pick, bound)
        below = pick - 1 if pick and halves(pick - 1, bound)[1] == low - 1 else (pick + 1) % bound  # or rejected
        for half, wanted in ((low, pick), (high, pick), *([(low - 1, below)] if low else [])):
            line = [[2**64 - 1, half | after << 32, 0]]
            found = unpack(drawn(channel, 0, bound, line), bound + 1)[0]
            assert np.flatnonzero(found).tolist() == [wanted], (pick, half)


@pytest.mark.parametrize("code", [0, 4, 9])
@pytest.mark.parametrize("first", [0, 2**64 - 1])
def test_a_row_without_words_stops_whatever_its_label(code, first):
    """Words that are all rejected stop the draw with the same error for every label; nothing is released."""
    for channel in (SubsetChannel.at(10, 4, 1.0), many_subsets(10, 4, 1.0, 64), ProjectiveChannel.at(40, 3, 1.0)):
        words = np.zeros((1, channel.words_per_row), dtype=np.uint64)
        unlisted = not getattr(channel, "listed", True)
        words[0, 0] = first if first or unlisted else channel.member - 1  # the last one for either membership
        with pytest.raises(RuntimeError, match="ran out of random words; draw again"):
            channel.draw(np.array([code], dtype=np.int32), words)


@pytest.mark.parametrize("first", [0, 2**64 - 1])
def test_words_suffice_or_not_whatever_the_label(first):
    """A row of candidates runs out of words for every label or for none, inside its candidates or outside."""
    channel = CandidateSubsetChannel.at(10, 1.0, pack(np.array([[True] * 7 + [False] * 3])))
    halves_used = 1 + channel.size[7] - (first == 0)  # the stand-in, and the picks of the rest
    rejected, good = 0, HALF - 1
    for spoilt in range(2 * (channel.words_per_row - 1) + 1):
        parts = [rejected] * spoilt + [good] * (2 * (channel.words_per_row - 1) - spoilt)
        line = [first, *(low | high << 32 for low, high in zip(parts[::2], parts[1::2], strict=True))]
        enough = len(parts) - spoilt >= halves_used
        for code in range(10):
            if enough:
                assert np.bitwise_count(drawn(channel, 0, code, [line])).sum() == channel.size[7]
                continue
            with pytest.raises(RuntimeError, match="ran out of random words; draw again"):
                drawn(channel, 0, code, [line])


def test_possible_subsets_are_those_of_the_table():
    """Every set but those that the table lists is refused, in rows of every number of candidates."""
    channel = CandidateSubsetChannel.at(6, 0.5, candidate_rows(6))
    every = pack(np.array(list(itertools.product((False, True), repeat=6))))
    for row in range(6):
        found = channel.take(np.full(len(every), row)).possible(every)
        assert sorted(every[found].ravel().tolist()) == sorted(channel.table(row).outcomes.ravel().tolist())


@pytest.mark.parametrize(("classes", "size"), [(2, 1), (10, 4), (100, 38), (1000, 269), (65536, 200)])
def test_rows_hardly_ever_run_out_of_words(classes, size):
    """The chance that a row's spare halves do not suffice is below 2**-100, by a union over sets of rejections."""
    channel = SubsetChannel.at(classes, size, 1.0)
    picks, bound = (1, math.comb(classes, size)) if channel.listed else (size, classes)
    spare = 2 * (channel.words_per_row - 1) - picks
    with mpmath.workdps(30):
        chance = (mpmath.mpf(picks + spare) * bound / 2**32) ** (spare + 1)
        assert chance < mpmath.mpf(2) ** -100


@pytest.mark.parametrize("classes", [3, 8, 20, 21])
def test_a_bits_half_word_decides_that_bit_alone(classes):
    """Changing one half of the first words changes that class's bit and nothing else."""
    channel = BitChannel.independent(classes, 1.0)
    _, codes, words = many_rows(channel, 5000)
    words = np.ascontiguousarray(words[:, : channel.usual_words])
    before = unpack(channel.draw(codes, words), classes)
    for column in range(classes):
        other = words.view(np.uint32).copy()
        other[:, column] = np.where(before[:, column], HALF - 1, 0)
        after = unpack(channel.draw(codes, other.view(np.uint64)), classes)
        assert (np.flatnonzero((after != before).any(axis=0)) == [column]).all()
        assert (after[:, column] != before[:, column]).all()


@pytest.mark.parametrize("classes", [2, 3, 8, 9, 10, 16, 17, 100, 5000])
def test_bits_of_several_rows_are_compared_as_each_is(classes):
    """With the first words alone a kernel compares many numbers at once; what it draws is what one row alone has."""
    channel = BitChannel.symmetric(classes, 2.0)
    _, codes, words = many_rows(channel, 2000 // classes + 9)
    alone = channel.draw(codes, words)
    assert (channel.draw(codes, np.ascontiguousarray(words[:, : channel.usual_words])) == alone).all()


@pytest.mark.parametrize("classes", [2, 9])
def test_lower_halves_decide_bits_whatever_the_label(classes):
    """The upper half of either weight needs further words for every true class; any other needs them for none."""
    channel = BitChannel.symmetric(classes, 1.0)
    for upper in (channel.true >> 32, channel.false >> 32, 7):
        words = np.full((1, channel.usual_words), 7 | 7 << 32, dtype=np.uint64)
        words[0, -1] = upper << 32 * ((classes - 1) % 2) | 7 << 32 * (classes % 2)  # the number of the last class
        for code in range(classes):
            if upper == 7:
                assert channel.draw(np.array([code]), words).size
                continue
            with pytest.raises(RuntimeError, match="ran out of random words; draw again"):
                channel.draw(np.array([code]), words)


def ranges_of(channel):
    """Where the words of outcomes with a class begin, how many there are, and of how many outcomes; and without it."""
    return zip((0, channel.member), (channel.member, (1 << 64) - channel.member), counts(channel), strict=True)


def edges_of(channel):
    """Words at the ends of the ranges of outcomes, beside them, and between them."""
    found = [0, (1 << 64) - 1]
    for start, size, count in ranges_of(channel):
        each = size // count
        for number in {0, 1, count // 2, count - 1, count}:
            found += [start + number * each + step for step in (-1, 0, 1, each // 2)]
    found += np.random.default_rng(1).integers(0, 2**64, 100, dtype=np.uint64).tolist()
    return [word for word in found if 0 <= word < 1 << 64]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 20.0])
@pytest.mark.parametrize(
    "law",
    [lambda e: SubsetChannel.at(2, 1, e), lambda e: SubsetChannel.at(10, 4, e), lambda e: SubsetChannel.at(16, 5, e)]
    + [lambda e, k=k, q=q: ProjectiveChannel.at(k, q, e) for k, q in ((10, 3), (1000, 3), (5000, 71))],
)
def test_several_rows_at_a_time_are_drawn_as_each_is(law, epsilon):
    """With the first words alone a kernel decides many rows at once; what it draws is what one row alone has."""
    channel = law(epsilon)
    rng = np.random.default_rng(2)
    for word in edges_of(channel):
        codes, words = rng.integers(0, channel.classes, 9).astype(np.int32), np.full((9, 1), word, dtype=np.uint64)
        try:
            several = channel.draw(codes, words)
        except RuntimeError:
            (left,) = [
                start + size // count * count
                for start, size, count in ranges_of(channel)
                if start <= word < start + size
            ]
            assert word >= left
            continue
        full = np.hstack([words, rng.integers(0, 2**64, (9, channel.words_per_row - 1), dtype=np.uint64)])
        assert (channel.draw(codes, full) == several).all()


def test_a_word_that_is_left_over_is_no_outcome_where_several_rows_are_drawn():
    """Where outcomes have a power of two words, an upper half alone names one too many: a further word must decide."""
    each, outside = 1 << 60, 3
    rest = outside * each + 1  # one word is left over
    member = (1 << 64) - rest
    codes, sets = np.zeros(1, dtype=np.int32), np.zeros((2, 1 + outside, 1), dtype=np.uint8)
    out = np.empty((1, 1), dtype=np.uint8)
    for word, suffices in ((member + rest - 2, True), (member + rest - 1, False)):
        words = np.array([[word]], dtype=np.uint64)
        assert draw_listed_subset(codes, words, member, rest, 1, sets, out) == suffices


@pytest.mark.parametrize(("classes", "order"), [(13, 3), (31, 2), (57, 7), (40, 3)])
def test_points_are_the_solutions_of_their_equation(classes, order):
    """Each number is a point of its own, and the first ones are orthogonal to the class's, by products of vectors."""
    channel = ProjectiveChannel.at(classes, order, 1.0)
    favoured, others = counts(channel)
    each = channel.member // favoured, ((1 << 64) - channel.member) // others
    words = [number * each[0] for number in range(favoured)]
    words += [channel.member + number * each[1] for number in range(others)]
    vectors = np.array([point for point in itertools.product(range(order), repeat=channel.dimension) if any(point)])
    first = np.take_along_axis(vectors, (vectors != 0).argmax(axis=1)[:, None], axis=1)
    vectors = vectors[first[:, 0] == 1]  # in the order of their free coordinates
    for code in range(classes):
        points = drawn(channel, 0, code, np.array(words, dtype=np.uint64)[:, None])
        assert sorted(points) == list(range(channel.points))
        assert (vectors[points[:favoured]] @ vectors[code] % order == 0).all()
        assert (vectors[points[favoured:]] @ vectors[code] % order != 0).all()


@pytest.mark.parametrize(("classes", "size"), [(2, 1), (5, 2), (10, 4), (16, 5)])
def test_lists_hold_every_set_once(classes, size):
    """The list of a class has all sets, those with it first; other members have the same ranks in every list."""
    lists = unpack(lists_of(classes, size).reshape(-1, (classes + 7) // 8), classes).reshape(classes, -1, classes)
    inside = math.comb(classes - 1, size - 1)
    every = sorted(map(sum, itertools.combinations([1 << j for j in range(classes)], size)))
    for y, sets in enumerate(lists):
        assert sorted((sets @ (1 << np.arange(classes))).tolist()) == every
        assert sets[:inside, y].all()
        assert not sets[inside:, y].any()
        assert (np.delete(sets, y, axis=1) == np.delete(lists[0], 0, axis=1)).all()


def test_membership_words_are_cut_at_the_integers():
    """At 64 bits the last word below a weight and the weight itself fall on its two sides, for every kind."""
    response = ResponseChannel.at(3, 1.0)
    edges = [0, response.keep - 1, response.keep, response.keep + response.other - 1]
    edges += [response.keep + response.other, 2**64 - 1]
    assert drawn(response, 0, 1, [[w] for w in edges]).tolist() == [1, 1, 0, 0, 2, 2]
    subset = SubsetChannel.at(2, 1, 1.0)
    lines = [[w, 2**64 - 1, 0, 0] for w in (subset.member - 1, subset.member)]
    assert drawn(subset, 0, 1, lines).ravel().tolist() == [2, 1]
    bits = BitChannel.symmetric(2, 1.0)
    lines = same_number(bits, [bits.false - 1, bits.false, bits.true - 1, bits.true])
    assert drawn(bits, 0, 0, lines).ravel().tolist() == [3, 1, 1, 0]
    one = CandidateChannel.at(4, 1.0, pack(np.array([[True, False, True, True]])))
    third, keep, other = -(-(2**64) // 3), one.keep[3], one.other[3]
    edges = [0, third - 1, third, 2 * third - 1, 2 * third, 2**64 - 1]
    assert drawn(one, 0, 1, [[w] for w in edges]).tolist() == [0, 0, 2, 2, 3, 3]
    edges = [keep - 1, keep, keep + other - 1, keep + other, 2**64 - 1]
    assert drawn(one, 0, 2, [[w] for w in edges]).tolist() == [2, 0, 0, 3, 3]


@pytest.mark.parametrize("classes", [2, 3, 1000, 100_000])
@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 20.0])
def test_the_quotient_in_floating_point_is_exact(classes, epsilon):
    """The rank of the other class agrees with whole-number division at and around every kind of edge."""
    channel = ResponseChannel.at(classes, epsilon)
    ranks = {0, 1, classes // 2, classes - 3, classes - 2} & set(range(classes - 1))
    edges = [channel.keep + r * channel.other + d for r in ranks for d in (-1, 0, 1, channel.other - 1)]
    edges += np.random.default_rng(1).integers(0, 2**64, 2000, dtype=np.uint64).tolist()
    edges = [u for u in edges if u < 2**64]
    code = classes // 2
    for u, label in zip(edges, drawn(channel, 0, code, [[u] for u in edges]).tolist(), strict=True):
        rank = (u - channel.keep) // channel.other
        assert label == (code if u < channel.keep else rank + (rank >= code))


@every_case
def test_an_epsilon_that_the_word_cannot_express_is_refused(case):
    """Neither too small nor too large an epsilon is quietly replaced by another one."""
    if case in ("matrix-2", "matrix-4"):
        pytest.skip("its epsilon follows from probabilities")
    for epsilon in (1e-300, 1e-25, 100.0, 700.0):
        with pytest.raises(EpsilonError, match="expected an epsilon that the integers"):
            build(case, epsilon, 64)


@every_case
def test_a_channel_comes_back_from_its_plain_law(case):
    """The law as JSON and the arrays by row make the same channel again."""
    channel = build(case, 1.0, 64)
    again = channel_of(json.loads(json.dumps(law_of(channel))), row_arrays(channel))
    assert type(again) is type(channel)
    assert law_of(again) == law_of(channel)
    assert again.odds == channel.odds


@pytest.mark.parametrize(
    "broken",
    [
        lambda: ResponseChannel(3, 1 << 63, 1 << 62, bits=16),
        lambda: ResponseChannel(3, 1 << 63, (1 << 62) - 1),
        lambda: ResponseChannel(2, (1 << 63) - 1, (1 << 63) + 1),
        lambda: ResponseChannel(2, 1 << 64, 0),
        lambda: ResponseChannel(1, 1 << 64, 1),
        lambda: SubsetChannel(5, 0, 1 << 63),
        lambda: SubsetChannel(5, 5, 1 << 63),
        lambda: SubsetChannel(5, 2, 1 << 64),
        lambda: SubsetChannel(5, 2, 0),
        lambda: SubsetChannel(5, 2, 1 << 60),
        lambda: BitChannel(5, 1 << 62, 1 << 63),
        lambda: BitChannel(5, 1 << 64, 1 << 62),
        lambda: BitChannel(5, 1 << 63, 0),
        lambda: CandidateChannel(3, (0, 1), (0, 1), candidate_rows(3)),
        lambda: CandidateChannel.at(3, 1.0, pack(np.array([[True, False, False], [False, False, False]]))),
        lambda: CandidateChannel.at(9, 1.0, pack(np.array([[True, False, False]]))),
        lambda: CandidateSubsetChannel(3, (1, 1), (1, 1), candidate_rows(3)),
        lambda: subsets_of_candidates(size=(1, 1, 1, 3)),
        lambda: subsets_of_candidates(size=(1, 1, 0, 1)),
        lambda: subsets_of_candidates(size=(1, 2, 1, 1)),
        lambda: subsets_of_candidates(member=(1 << 64, 1 << 63, 1 << 63, 1 << 63)),
        lambda: subsets_of_candidates(member=(1 << 64, 1 << 64, 1 << 64, 1 << 63)),
        lambda: subsets_of_candidates(member=(1 << 64, 1 << 64, 1 << 62, 1 << 63)),
        lambda: subsets_of_candidates(candidates=pack(np.array([[True, False, False], [False, False, False]]))),
        lambda: subsets_of_candidates(candidates=np.zeros((1, 2), dtype=np.uint8)),
        lambda: subsets_of_candidates(
            member=(1 << 64, 1 << 64, (1 << 63) + (1 << 61), subsets_of_candidates().member[3])
        ),
        lambda: subsets_of_candidates(member=(*subsets_of_candidates().member[:3], 1 << 63)),
        lambda: responses_on_groups(keep=(1 << 64, 1 << 64, 1 << 63)),
        lambda: responses_on_groups(keep=(1 << 64, 0, *responses_on_groups().keep[2:])),
        lambda: responses_on_groups(other=(1, 2, *responses_on_groups().other[2:])),
        lambda: responses_on_groups(keep=(*responses_on_groups().keep[:3], responses_on_groups().keep[3] + 1)),
        lambda: responses_on_groups(
            keep=(1 << 64, 1 << 64, 1 << 62, responses_on_groups().keep[3]),
            other=(1, 1, 3 << 62, responses_on_groups().other[3]),
        ),
        lambda: responses_on_groups(firsts=pack(np.array([[False, True, True]]))),
        lambda: responses_on_groups(firsts=np.ones((1, 2), dtype=np.uint8)),
        lambda: responses_on_groups(firsts=np.array([[0b1001]], dtype=np.uint8)),
        lambda: GroupedChannel(3, (), (), np.array([0])),
        lambda: GroupedChannel(3, (ResponseChannel.at(3, 1.0),), (1,), np.array([1])),
        lambda: GroupedChannel(3, (ResponseChannel.at(3, 1.0),), (1,), np.array([-1])),
        lambda: GroupedChannel(3, (ResponseChannel.at(3, 1.0),), (0,), np.array([0])),
        lambda: GroupedChannel(3, (ResponseChannel.at(3, 1.0), ResponseChannel.at(4, 1.0)), (1, 1), np.array([0])),
        lambda: GroupedChannel(3, (ResponseChannel.at(3, 1.0), SubsetChannel.at(3, 1, 1.0)), (1, 1), np.array([0])),
    ],
)
def test_integers_that_form_no_law_are_refused(broken):
    """A channel cannot be made of integers that do not cut the words into a law."""
    with pytest.raises(ValueError, match="expected"):
        broken()


@pytest.mark.parametrize("kind", [CandidateChannel, CandidateSubsetChannel])
@pytest.mark.parametrize("classes", [3, 8, 11])
def test_candidates_are_classes(kind, classes):
    """A bit behind the last class is no candidate: it would be released, or read past the end of the law."""
    kept = pack(np.ones((2, classes), dtype=np.bool_))
    assert kind.at(classes, 1.0, kept).sizes.tolist() == [classes, classes]
    beyond = kept.copy()
    beyond[1, -1] |= 1 << (classes % 8)
    none = kept.copy()
    none[1] = 0
    for wrong in (none, kept[:, :0], np.hstack([kept, kept]), *([beyond] if classes % 8 else [])):
        with pytest.raises(ValueError, match="expected at least one candidate in each row, of"):
            kind.at(classes, 1.0, wrong)


@pytest.mark.parametrize("classes", [3, 8, 9, 19, 70])
def test_words_at_the_ends_of_ranges_draw_what_division_does(classes):
    """Candidates are drawn by an inverse: at the first and the last word of each range as by whole numbers."""
    channel = CandidateChannel.at(classes, 1.0, candidate_rows(classes))
    given, expected = [], []
    for row, inside in itertools.product(range(classes), (True, False)):
        candidates = np.flatnonzero(channel.support(slice(row, row + 1))[0]).tolist()
        codes = candidates if inside else sorted(set(range(classes)) - set(candidates))
        if not codes:
            continue
        m, code = len(candidates), codes[len(codes) // 2]
        keep, other = (channel.keep[m], channel.other[m]) if inside and m > 1 else (0, -(-channel.word // m))
        others = [each for each in candidates if m == 1 or each != code]
        ends = {0, keep, channel.word} | {keep + j * other for j in range(len(others))}
        for word in sorted(end + step for end in ends for step in (-1, 0, 1) if 0 <= end + step < channel.word):
            given.append((row, code, word))
            expected.append(code if word < keep else others[(word - keep) // other])
    rows, codes, words = zip(*given, strict=True)
    drawn = np.empty(len(rows), dtype=np.int32)
    channel.take(np.array(rows)).draw_into(drawn, np.array(codes, np.int32), np.array(words, np.uint64)[:, None])
    assert drawn.tolist() == expected


@pytest.mark.parametrize("classes", [8, 70])
def test_the_first_word_tells_whether_the_subset_has_the_label(classes):
    """Every candidate is found among those of its row, of which there may be more than a word has bits."""
    channel = CandidateSubsetChannel.at(classes, 1.0, candidate_rows(classes))
    rows, codes = np.nonzero(channel.support()[1:])
    words = np.random.default_rng(0).integers(0, 2**64, (len(rows), channel.words_per_row), dtype=np.uint64)
    for first, holds in ((0, True), (2**64 - 1, False)):
        words[:, 0] = first
        sets = unpack(channel.take(rows + 1).draw(codes.astype(np.int32), words), classes)
        assert (sets[np.arange(len(rows)), codes] == holds).all()
        assert (sets <= channel.support()[rows + 1]).all()
        assert sets.sum(axis=1).tolist() == [channel.size[m] for m in channel.sizes[rows + 1]]


def test_groups_hold_no_rows_of_their_own():
    """A group's law is the same for all its rows: a channel with candidates for each row cannot be a group."""
    channel = CandidateChannel.at(3, 1.0, candidate_rows(3))
    with pytest.raises(ValueError, match="expected"):
        GroupedChannel(3, (channel, channel), (1, 1), np.array([0, 1, 0, 1, 1]))


def test_groups_share_the_classes_that_are_declared():
    """The classes of a grouped channel are those of its groups."""
    with pytest.raises(ValueError, match="expected"):
        GroupedChannel(5, (ResponseChannel.at(3, 1.0),), (1,), np.array([0]))


def test_candidates_are_written_in_class_order():
    """Two priors in another order give the same bytes for the same candidates, and outcomes come in class order."""
    first = labeldp.privacy.channels.top_candidates(np.array([[0.5, 0.1, 0.3, 0.1]]), 2)[0]
    second = labeldp.privacy.channels.top_candidates(np.array([[0.3, 0.1, 0.5, 0.1]]), 2)[0]
    assert first.tolist() == second.tolist() == [[0b0101]]
    assert CandidateChannel.at(4, 1.0, first).table().outcomes.tolist() == [0, 2]
    grid = one_bit(3, 1.0, 64)
    keep, half = grid.weights[0][0], 1 << 63
    for code, second, wanted in ((0, 0, [0, 1]), (2, 0, [1, 1]), (1, half - 1, [1, 1]), (1, half, [0, 1])):
        assert drawn(grid, 0, code, [[keep - 1, second], [keep, second]]).tolist() == wanted


# -------------------------------------------------------------------------------------------------------- facts


def covariances(rows, outcomes, law, *, projected):
    """The covariance of unbiased vectors given each class, summed over the outcomes of a row."""
    w = rows.unbiased(outcomes)
    if projected and candidate_sizes(rows) is None:
        w = w + (1 - w.sum(axis=1, keepdims=True)) / rows.classes
    return [(chances[:, None] * (w - chances @ w)).T @ (w - chances @ w) for chances in law]


def largest_trace(covariance, rng):
    """The largest ``trace(C G)`` of four ascents over unit vectors: each step turns every vector uphill."""
    g = rng.normal(size=(4, *covariance.shape))
    for _ in range(300):
        g /= np.maximum(np.linalg.norm(g, axis=2, keepdims=True), 1e-300)
        g = covariance @ g + 1e-9 * g
    g /= np.maximum(np.linalg.norm(g, axis=2, keepdims=True), 1e-300)
    return max(np.trace(covariance @ each @ each.T) for each in g)


@pytest.mark.parametrize("projected", [True, False])
@at_epsilons((3.0,), CLASS_CASES)
def test_the_noise_of_gradients_is_that_of_the_table(case, epsilon, projected):
    """At right angles the variance is the largest trace; in any directions a search finds as much and no more."""
    channel, rng = build(case, epsilon, 64), np.random.default_rng(7)
    if isinstance(channel, CoarseningChannel):
        with pytest.raises(InputError, match="found groups of classes"):
            channel.traces(projected=projected)
        return
    for row in rows_of(channel):
        every = covariances(*spread(channel, row), channel.matrix(row), projected=projected)
        any_way, right_angled = np.ravel(channel.take(np.array([row])).traces(projected=projected))
        found, trace = max(largest_trace(each, rng) for each in every), max(map(np.trace, every))
        part = inner(channel, row)
        if channel.form == "index" and part.points > part.classes:  # upper bounds, for points that stand for no class
            assert found * (1 - 1e-9) <= any_way <= (1 + 6 / part.classes) * found
            assert trace * (1 - 1e-9) <= right_angled <= (1 + 6 / part.classes) * trace
            continue
        if isinstance(channel, MatrixChannel):  # an upper bound
            assert found * (1 - 1e-9) <= any_way <= 1.25 * found
            assert right_angled == pytest.approx(trace, rel=1e-9)
            continue
        assert any_way == pytest.approx(found, rel=1e-3)
        assert found <= any_way * (1 + 1e-9)
        assert right_angled == pytest.approx(trace, rel=1e-9)


@every_case
def test_the_moments_of_numbers_are_those_of_the_table(case):
    """The stated mean and variance of ``numbers`` are sums over the outcomes; without one law they are refused."""
    for epsilon in (0.25, 1.0, 3.0):
        channel = build(case, epsilon, 64)
        alike = (isinstance(part, MatrixChannel) or (part.even and not row_arrays(part)) for part, _ in channel.units)
        if channel.form != "number" and not all(alike):
            with pytest.raises(InputError, match="expected a channel that is the same for all rows"):
                channel.number_laws()
            continue
        for row in rows_of(channel):
            rows, outcomes = spread(channel, row)
            stated = rows.number_laws()[int(rows.law_numbers(len(outcomes))[0])]
            law, numbers, codes = channel.matrix(row), rows.numbers(outcomes), np.arange(channel.classes)
            mean = law @ numbers
            assert stated.mean == pytest.approx(mean, rel=1e-9, abs=1e-9)
            scale = float(np.abs(numbers).max() ** 2)
            assert stated.variance == pytest.approx(law @ numbers**2 - mean**2, rel=1e-9, abs=1e-12 * scale)
            if channel.form != "number":
                assert mean == pytest.approx(codes, abs=1e-9)
                assert law @ rows.squares(outcomes) == pytest.approx(codes**2, abs=1e-8)


@every_class_case
def test_released_labels_are_the_classes_of_the_table(case):
    """``mask``, ``holds`` and ``sums`` agree on the classes of each outcome; bits that are independent are so."""
    channel, rng = build(case, 1.0, 64), np.random.default_rng(3)
    values = rng.normal(size=channel.classes)
    for row in rows_of(channel):
        rows, outcomes = spread(channel, row)
        held = masks(channel, row)
        assert (rows.mask(outcomes) == held).all()
        assert rows.sums(outcomes, values) == pytest.approx(held @ values)
        for code in range(channel.classes):
            assert (rows.holds(outcomes, np.full(len(outcomes), code)) == held[:, code]).all()
        if channel.independent_members:
            law = channel.matrix(row)
            chance = law @ held
            product = np.where(held[None], chance[:, None], 1 - chance[:, None]).prod(axis=2)
            assert law == pytest.approx(product, rel=1e-9)


@every_case
def test_an_audit_compares_every_outcome_of_the_table(case):
    """The ratio of each outcome's largest and least probability is that of one of the columns: none is forgotten."""
    for epsilon in (0.25, 1.0, 3.0):
        channel = build(case, epsilon, 64)
        ratios = np.array([float(Fraction(max(weights)) / Fraction(min(weights))) for _, weights in channel.columns()])
        for row in rows_of(channel):
            law = channel.matrix(row)
            for ratio in law.max(axis=0) / law.min(axis=0):
                if isinstance(inner(channel, row), GridChannel) and inner(channel, row).words_per_row == 2:
                    assert ratio <= ratios.max() * (1 + 1e-9)  # knots between labels differ by more than labels do
                    continue
                assert np.abs(ratios / ratio - 1).min() < 1e-9 or ratio == pytest.approx(1, rel=1e-12)
        audit = audit_channel(channel)
        assert audit.holds
        assert audit.lower == pytest.approx(channel.epsilon, rel=1e-12)


@every_case
def test_the_stated_loss_dominates_every_pair_of_labels(case):
    """At every factor, the hockey-stick divergence of two labels is at most the stated one, and near it for some."""
    for epsilon in (1.0, 3.0):
        channel, factors = build(case, epsilon, 64), np.exp(np.linspace(-epsilon, epsilon, 9))
        nearest = 0.0
        for row in rows_of(channel):
            part = (
                inner(channel, row).take(np.array([row])) if not isinstance(channel, Grouped) else inner(channel, row)
            )
            loss, law = PrivacyLoss.of(part), channel.matrix(row)
            for one, other in itertools.permutations(law, 2):
                for x in factors:
                    excess = float(np.maximum(one - x * other, 0).sum())
                    stated = float(loss.least) * max(float(loss.odds) - x, 0.0)
                    stated = stated if x >= 1 else 1 - x + x * float(loss.least) * max(float(loss.odds) - 1 / x, 0.0)
                    assert excess <= stated * (1 + 1e-9) + 1e-12
                    nearest = max(nearest, excess / stated if x == 1 and stated else 0.0)
        if len(part.losses) == 1 and part.losses != (
            (part.odds, 1 / (1 + part.odds)),
        ):  # one distribution, and no default
            assert nearest > 0.999


@every_case
def test_a_drawing_with_short_words_is_audited(case):
    """Words of 16 bits in the places that are compared as a whole: the audit finds the epsilon, and no more."""
    channel = build(case, 1.0, 16)
    assert 1 <= channel.whole_words <= channel.words_per_row
    found = audit_drawing(channel)
    assert found.holds
    assert found.lower >= 0.3 * channel.epsilon


def test_a_drawing_from_very_many_subsets_is_audited():
    """Those that no list has are picked by whole halves of words, which an audit of short words leaves as they are."""
    channel = SubsetChannel.at(17, 8, 1.0, 16)
    assert not channel.listed
    found = audit_drawing(channel)
    assert found.holds
    assert found.lower >= 0.3 * channel.epsilon


@every_case
def test_one_word_decides_in_at_most_two_ranges(case):
    """Where a word decides a row, the words of an outcome form at most two ranges, as the audit assumes."""
    channel = build(case, 1.0, 16)
    if channel.words_per_row > 1:
        return
    for row in rows_of(channel):
        for code in range(channel.classes):
            released = drawn(channel, row, code, np.arange(WORDS)[:, None])
            changed = (released[1:] != released[:-1]).reshape(WORDS - 1, -1).any(axis=1)
            starts = np.flatnonzero(np.append(True, changed))
            assert max(Counter(keys(released[starts])).values()) <= 2


@every_number_case
def test_labels_are_mixtures_of_the_vertices(case):
    """Each outcome is between its least and largest probability at the vertices, and reaches both at some label."""
    channel = build(case, 1.0, 64)
    for row in rows_of(channel):
        law, vertices = channel.matrix(row), inner(channel, row).vertices
        assert vertices.sum(axis=1) == pytest.approx(np.ones(len(vertices)))
        low, high = vertices.min(axis=0), vertices.max(axis=0)
        assert ((law >= low * (1 - 1e-12)) & (law <= high * (1 + 1e-12))).all()
        if inner(channel, row).words_per_row == 1:  # no knot between labels
            assert (law.min(axis=0), law.max(axis=0)) == (pytest.approx(low, rel=1e-12), pytest.approx(high, rel=1e-12))


# ------------------------------------------------------------------------------------------------------ numbers


@every_number_case
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 3.0])
def test_numbers_have_the_stated_mean_variance_and_bias(case, epsilon):
    """What the counted law gives is what the channel states of its numbers, at every grid point."""
    channel = build(case, epsilon, 16)
    for row in rows_of(channel):
        one, law = channel.take(np.array([row])), counted(case, epsilon, row)
        stated = one.number_laws()[int(one.law_numbers(1)[0])]
        numbers = [Fraction(inner(channel, row).values[outcome], PARTS) for outcome in law]
        single = inner(channel, row)
        assert single.numbers(np.array(list(law))).tolist() == [float(number) for number in numbers]
        off = []
        for code in range(channel.classes):
            mean = sum(chances[code] * number for chances, number in zip(law.values(), numbers, strict=True))
            second = sum(chances[code] * number**2 for chances, number in zip(law.values(), numbers, strict=True))
            assert float(stated.mean[code]) == pytest.approx(float(mean), rel=1e-12, abs=1e-12)
            assert float(stated.variance[code]) == pytest.approx(float(second - mean**2), rel=1e-9)
            off.append(abs(mean - code))
        assert max(off) <= Fraction(single.bias)
        assert Fraction(single.bias) <= max(off) + Fraction(channel.classes, 1 << 12)


@every_number_case
def test_bins_are_stated_where_neighbours_have_one_law(case):
    """Bins begin where the law changes, with the stated probabilities; without bins it changes at each point."""
    channel = build(case, 1.0, 16)
    for row in rows_of(channel):
        one = inner(channel, row)
        law = one.matrix()
        firsts = [0, *(np.flatnonzero((law[1:] != law[:-1]).any(axis=1)) + 1).tolist()]
        if one.bins is None:
            assert firsts == list(range(one.classes))
            continue
        assert one.bins.firsts.tolist() == firsts
        assert one.bins.lasts.tolist() == [*(first - 1 for first in firsts[1:]), one.classes - 1]
        expected = np.full((len(firsts), len(firsts)), one.bins.other)
        np.fill_diagonal(expected, one.bins.keep)
        np.testing.assert_allclose(law[firsts], expected, rtol=1e-12)


@every_number_case
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_squares_have_the_square_as_their_mean_or_are_refused(case, epsilon):
    """At points that are knots exactly, between many knots within a sixth of a squared gap; few knots tell none."""
    channel = build(case, epsilon, 64)
    for row in rows_of(channel):
        one = inner(channel, row)
        if isinstance(one, BinChannel) or one.pieces < one.classes - 1:  # few knots
            with pytest.raises(InputError, match="expected a channel that identifies the squares"):
                one.squares(np.array([0]))
            continue
        mean = one.matrix() @ one.squares(one.table().outcomes)
        assert mean == pytest.approx(np.arange(one.classes) ** 2, abs=1e-6)
    many, at_points = shifted(81, 41, epsilon, 64), shifted(41, 41, epsilon, 64)
    mean = many.matrix() @ many.squares(many.table().outcomes)
    assert np.abs(mean - np.arange(81) ** 2).max() == pytest.approx(4 / 6, rel=1e-3)
    assert mean[::2] - np.arange(0, 81, 2) ** 2 == pytest.approx(np.full(41, -4 / 6), rel=1e-3)
    told = at_points.matrix() @ at_points.squares(at_points.table().outcomes)
    assert told == pytest.approx(np.arange(41) ** 2, abs=1e-3)


def decided(channel, words):
    """What a label at the first knot, and at the last, releases for each given first word."""
    rows = np.zeros((len(words), channel.words_per_row), dtype=np.uint64)
    rows[:, 0] = np.array(words, dtype=np.uint64)
    return [channel.draw(np.full(len(words), code, np.int32), rows).tolist() for code in (0, channel.classes - 1)]


@pytest.mark.parametrize("law", [laplace_channel, one_bit_channel, piecewise_channel])
def test_a_word_of_full_length_is_cut_at_the_exact_sums_of_weights(law):
    """At 64 bits every outcome has exactly its number of words: the last one below each sum of weights, and the sum."""
    for epsilon in (0.01, 1.0, 4.0, 12.0, 30.0):
        for points in (2, 3, 9, 65, 200):
            channel = law(points, epsilon)
            for knot, found_at in ((0, 0), (-1, 1)):
                sums = list(itertools.accumulate(channel.weights[knot]))
                assert sums[-1] == 1 << 64
                assert channel._limits[knot].tolist() == sums[:-1]
                outcomes = list(range(len(sums)))
                assert decided(channel, [total - 1 for total in sums])[found_at] == outcomes
                assert decided(channel, sums[:-1])[found_at] == outcomes[1:]


def test_numbers_that_form_no_law_are_refused():
    """Weights of zero, other sums, too few knots and numbers that do not increase are no law."""
    word = 1 << 64
    for values, weights in (
        ((0, 1), ((word, 0), (1, word - 1))),
        ((0, 1), ((word - 2, 1), (1, word - 1))),
        ((1, 1), ((word - 1, 1), (1, word - 1))),
        ((0, 1), ((word - 1, 1),)),
        ((0, 1), ((1, word - 1),) * 4),
        ((0,), ((word - 1, 1), (1, word - 1))),
    ):
        with pytest.raises(ValueError, match="expected"):
            GridChannel(3, values, weights)
    for parts in (
        {"other": 2},
        {"starts": (0, 3, 2)},
        {"starts": (1, 2, 3)},
        {"starts": (0, 2, 5)},
        {"values": (0, 2, 1)},
        {"values": (0, 1)},
        {"keep": word, "other": 0},
    ):
        with pytest.raises(ValueError, match="expected"):
            dataclasses.replace(bins(5, 1.0, 64), **parts)
    assert BinChannel(5, (3,), word, 0, (0,)).draw(np.array([4, 0]), np.zeros((2, 1), np.uint64)).tolist() == [0, 0]


def test_the_columns_of_a_label_outside_the_candidates_hold_every_word():
    """One candidate has the rest of the words that the others, alike, leave."""
    channel = CandidateChannel.at(9, 1.0, candidate_rows(9), 16)
    columns = dict(channel.columns())
    for m in range(2, 9):
        even, last = columns[f"a candidate of {m}"][-1], columns[f"the last candidate of {m}"][-1]
        assert (m - 1) * even + last == 2**16
        assert 0 <= even - last < m
