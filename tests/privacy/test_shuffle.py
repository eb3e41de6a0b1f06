"""The account of shuffled cells, against full enumeration and against sums for the worst labels."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from labeldp.privacy.accounting import ShuffleLaw, _shuffle, _urn
from labeldp.privacy.channels import ResponseChannel

WORD = 1 << 64
EPSILONS = (0.0, 0.1, 0.3, 0.6)


def law(classes, epsilon):
    """The law of cells whose labels are randomized at an epsilon."""
    channel = ResponseChannel.at(classes, epsilon)
    return ShuffleLaw(classes, channel.keep, channel.other)


def counts(labels, made):
    """The probability of each tuple of class counts of randomized labels, in exact fractions of whole numbers."""
    laws = {(0,) * made.classes: 1}
    for label in labels:
        more = Counter()
        for seen, chance in laws.items():
            for z in range(made.classes):
                counted = (*seen[:z], seen[z] + 1, *seen[z + 1 :])
                more[counted] += chance * (made.keep if z == label else made.other)
        laws = more
    return {seen: Fraction(chance, WORD ** len(labels)) for seen, chance in laws.items()}


def enumerated(made, rows, epsilons=EPSILONS):
    """The largest hockey-stick divergence over all labels of the others, and both labels of one row."""
    worst = [0.0] * len(epsilons)
    for others in itertools.combinations_with_replacement(range(made.classes), rows - 1):
        laws = [counts((*others, label), made) for label in range(made.classes)]
        for one, other in itertools.permutations(laws, 2):
            for place, epsilon in enumerate(epsilons):
                factor = Fraction(math.exp(epsilon))
                divergence = sum(max(Fraction(0), chance - factor * other[seen]) for seen, chance in one.items())
                worst[place] = max(worst[place], float(divergence))
    return worst


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 12])
def test_the_account_of_two_classes_is_the_enumeration(rows, epsilon):
    """In cells of up to twelve rows delta is what full enumeration gives, to 1e-8, and never below it."""
    made = law(2, epsilon)
    expected = enumerated(made, rows)
    found = [made.delta(each, [rows]) for each in EPSILONS]
    assert found == pytest.approx(expected, rel=1e-8, abs=1e-15)
    assert all(ours >= exact for ours, exact in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    ("classes", "rows", "epsilon"), [(3, 1, 1.0), (3, 2, 1.0), (3, 5, 1.0), (3, 7, 2.0), (4, 4, 1.0), (5, 3, 0.5)]
)
def test_the_account_of_more_classes_is_never_below_the_enumeration(classes, rows, epsilon):
    """Delta is at least what full enumeration gives, and at most a quarter more, where labels are not alike anyway."""
    made = law(classes, epsilon)
    for each, exact in zip(EPSILONS, enumerated(made, rows), strict=True):
        found = made.delta(each, [rows])
        assert exact <= found <= 1.25 * exact + 1e-25


def of_a_third_class(made, rows, epsilon):
    """The divergence for three classes where all other labels are of the third class: sums over all counts."""
    keep, other = made.keep / WORD, made.other / WORD
    ones, twos = np.meshgrid(np.arange(rows), np.arange(rows), indexing="ij")
    others = binom.pmf(ones + twos, rows - 1, 2 * other) * binom.pmf(ones, ones + twos, 0.5)
    mass = np.zeros((2, rows + 1, rows + 1))
    for place, (a, b) in enumerate([(keep, other), (other, keep)]):
        mass[place, 1:, :-1] += a * others
        mass[place, :-1, 1:] += b * others
        mass[place, :-1, :-1] += other * others
    return float(np.maximum(mass[0] - math.exp(epsilon) * mass[1], 0.0).sum())


@pytest.mark.parametrize(("rows", "local"), [(60, 1.0), (300, 1.0), (300, 2.5), (600, 0.5)])
def test_little_is_lost_by_telling_which_labels_are_blanks(rows, local):
    """At the epsilon of delta 1e-6, less three parts in a hundred, labels of a third class have a larger delta."""
    made = law(3, local)
    epsilon = made.epsilon(1e-6, [rows])
    assert of_a_third_class(made, rows, epsilon) <= 1e-6 < of_a_third_class(made, rows, 0.97 * epsilon)


@pytest.mark.parametrize(("rows", "epsilon"), [(100, 0.484), (1_000, 0.127), (10_000, 0.036)])
def test_known_epsilons(rows, epsilon):
    """At delta 1e-6 two classes at a local epsilon of 1 have the epsilon found before by another program."""
    made = law(2, 1.0)
    found = made.epsilon(1e-6, [rows])
    assert found == pytest.approx(epsilon, abs=6e-4)
    assert made.delta(found, [rows]) <= 1e-6 < made.delta(found * (1 - 1e-5), [rows])


@pytest.mark.parametrize("classes", [2, 3, 20])
def test_larger_cells_never_reveal_more(classes):
    """Delta falls as cells grow, up to the largest that are counted; so the smallest cell decides."""
    made = law(classes, 1.5)
    deltas = [made.delta(0.2, [rows]) for rows in (1, 2, 5, 20, 100, 500, 2_000)]
    assert deltas == sorted(deltas, reverse=True)
    assert len(set(deltas)) == len(deltas)
    assert made.delta(0.2, [500, 20, 100]) == made.delta(0.2, [20])
    assert made.epsilon(1e-6, [500, 100]) == made.epsilon(1e-6, [100])
    assert made.keeps(0.6, 1e-6, [1000])
    assert not made.keeps(0.6, 1e-6, [1000, 10])


@pytest.mark.parametrize("classes", [2, 3])
def test_very_large_cells_count_as_smaller_ones(classes, monkeypatch):
    """Rows beyond those that are counted change nothing, and the claim is that of the fewer rows."""
    monkeypatch.setattr(_shuffle, "_MOST_ROWS", (300, 300))
    made = law(classes, 1.0)
    assert made.epsilon(1e-6, [1 << 24]) == made.epsilon(1e-6, [300]) > made.epsilon(1e-6, [299]) * 0.9


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_a_label_alone_is_randomized_response(classes):
    """In a cell of one row delta is that of the randomized label in closed form, and nothing is below its epsilon."""
    made = law(classes, 1.0)
    for epsilon in (0.0, 0.4, 0.9):
        expected = (made.keep - math.exp(epsilon) * made.other) / WORD
        assert made.delta(epsilon, [1]) == pytest.approx(expected, rel=1e-8)
    assert made.delta(made.alone, [1, 9]) == 0.0
    assert made.alone == pytest.approx(1.0)
    assert made.with_one_row(1e-6, [1]) == made.alone


@pytest.mark.parametrize("classes", [2, 3])
def test_a_known_row_hides_nobody(classes):
    """Against who knows what one row sent, a cell counts as one row fewer."""
    made = law(classes, 1.0)
    assert made.with_one_row(1e-6, [80, 90]) == made.epsilon(1e-6, [79]) > made.epsilon(1e-6, [80])


def test_pure_noise_promises_everything():
    """Where all classes are alike nothing is said, and epsilon is 0."""
    for classes in (2, 4):
        made = ShuffleLaw(classes, WORD // classes, WORD // classes)
        assert made.alone == made.epsilon(1e-9, [10]) == made.delta(0.0, [10]) == 0.0


@pytest.mark.parametrize("cut", [1e-3, 1e-6])
def test_what_is_cut_off_is_added(monkeypatch, cut):
    """With large cuts delta is still at least that of labels of a third class, and the mass that cuts may leave out."""
    made = law(3, 1.0)
    cases = [(epsilon, of_a_third_class(made, 100, epsilon)) for epsilon in (0.05, 0.2, 0.4, 0.6)]
    monkeypatch.setattr(_urn, "_CUT", cut)
    for epsilon, exact in cases:
        assert max(exact, 7 * cut) <= law(3, 1.0).delta(epsilon, [100]) <= exact * 1.2 + 20 * cut


def test_rounding_the_number_of_blanks_claims_a_little_less(monkeypatch):
    """With few numbers of blanks told apart, delta is larger, and by little."""
    exact = law(3, 1.0).delta(0.2, [400])
    monkeypatch.setattr(_shuffle, "_EFFORT", 0)
    rounded = law(3, 1.0).delta(0.2, [400])
    assert exact < rounded < 1.2 * exact


def test_the_rest_of_a_sum_is_bounded(monkeypatch):
    """Delta with the last sums bounded by the first of them is that of all sums, and not below it."""
    found = law(3, 1.0).delta(0.1, [2_000])
    monkeypatch.setattr(_shuffle, "_STEP", 1 << 40)
    whole = law(3, 1.0).delta(0.1, [2_000])
    assert whole <= found == pytest.approx(whole, rel=1e-11)


@pytest.mark.parametrize(
    ("classes", "keep", "other"),
    [(2, WORD, 0), (2, WORD // 2 - 1, WORD // 2 + 1), (3, WORD // 2, WORD // 2), (1, WORD, 1), (2, WORD - 2, 1)],
)
def test_integers_that_are_no_response_are_refused(classes, keep, other):
    """Weights that do not use every word once, or that favour another class, are none."""
    with pytest.raises(ValueError, match="expected keep >= other"):
        ShuffleLaw(classes, keep, other)
