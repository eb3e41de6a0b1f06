"""The integer rule of each family, against exhaustive search and the exact inequality it must keep."""

from fractions import Fraction

import mpmath
import pytest

from labeldp.errors import EpsilonError
from labeldp.privacy import exp_below
from labeldp.privacy.channels import accept, bit_weight
from labeldp.privacy.channels._calibration import response_weights, subset_weight

EPSILONS = (0.01, 0.3, 1.0, 2.5, 5.0)


def at_most(ratio, epsilon):
    """Whether a rational ratio is at most exp(epsilon), by another library in high precision."""
    with mpmath.workdps(100):
        return mpmath.mpf(ratio.numerator) / ratio.denominator <= mpmath.exp(mpmath.mpf(epsilon))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("classes", [2, 3, 7, 10])
def test_response_weights_are_the_best_integers(classes, epsilon):
    """Of all ways to cut an 11-bit word, the rule takes the one with the most truth that keeps the epsilon."""
    word = 1 << 11
    cuts = [(word - (classes - 1) * b, b) for b in range(1, word // (classes - 1) + 1)]
    kept = [(a, b) for a, b in cuts if a > 0 and at_most(Fraction(a, b), epsilon)]
    assert response_weights(classes, epsilon, 11) == max(kept)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("classes", "size"), [(2, 1), (5, 2), (10, 4), (10, 9)])
def test_subset_weight_is_the_best_integer(classes, size, epsilon):
    """The rule takes the largest weight whose own ratio, with the sizes in it, keeps the epsilon."""
    word = 1 << 11
    kept = [a for a in range(1, word) if at_most(Fraction(a * (classes - size), (word - a) * size), epsilon)]
    assert subset_weight(classes, size, epsilon, 11) == max(kept)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_bit_weights_are_the_best_integers(epsilon):
    """A false bit has the smallest weight that keeps the epsilon, half of it where two bits pay."""
    word = 1 << 11
    alone = [t for t in range(1, word) if at_most(Fraction(word - t, t), epsilon)]
    both = [t for t in range(1, word) if at_most(Fraction(word - t, t) ** 2, epsilon)]
    assert bit_weight(epsilon, 1, 11) == min(alone)
    assert bit_weight(epsilon, 2, 11) == min(both)


def test_integers_that_fall_short_or_go_beyond_are_refused():
    """An epsilon is expressed within one per cent and never exceeded, or it is refused."""
    accept(exp_below(1.0), 1.0, 64)
    accept(exp_below(0.991), 1.0, 64)
    for epsilon in (0.98, 1.0 + 1e-12):
        with pytest.raises(EpsilonError, match="64-bit word"):
            accept(exp_below(epsilon), 1.0, 64)
    for none in (Fraction(1), Fraction(0), Fraction(1, 2)):
        with pytest.raises(EpsilonError):
            accept(none, 1e-300, 64)
