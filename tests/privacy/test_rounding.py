"""Directed rounding, against high-precision arithmetic of another library."""

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.errors import EpsilonError
from labeldp.privacy import exp_below, log_above, printed_above, shown_above
from labeldp.privacy._rounding import exact_sum, exp_above, float_above, power_above
from labeldp.privacy.channels import accept, bit_weight
from labeldp.privacy.channels._calibration import response_weights, subset_weight

epsilons = st.floats(min_value=1e-12, max_value=700.0)


@given(epsilons, st.integers(1, 3))
@settings(derandomize=True, max_examples=200, deadline=None)
def test_exp_below_is_below_and_close(epsilon, parts):
    """The rational number is below exp of the binary value and of the printed decimal, within 1e-75 of the smaller."""
    found = exp_below(epsilon, parts)
    with mpmath.workdps(120):
        rational = mpmath.mpf(found.numerator) / found.denominator
        smaller = min(mpmath.mpf(epsilon), mpmath.mpf(repr(epsilon)))
        bound = mpmath.exp(smaller / parts)
        assert rational < bound
        assert rational > bound * (1 - mpmath.mpf(10) ** -75)


@given(st.fractions(min_value=1, max_value=10**30, max_denominator=2**64))
@settings(derandomize=True, max_examples=200, deadline=None)
def test_log_above_is_the_least_printable_bound(ratio):
    """The logarithm is bounded by the float and by what it prints, and the float before does not bound it so."""
    found = log_above(ratio)
    with mpmath.workdps(120):
        exact = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
        assert mpmath.mpf(found) >= exact
        assert mpmath.mpf(repr(found)) >= exact
        before = math.nextafter(found, -math.inf)
        assert ratio == 1 or min(mpmath.mpf(before), mpmath.mpf(repr(before))) < exact + mpmath.mpf(10) ** -70


def test_log_above_of_one_is_nothing_and_below_one_is_refused():
    """A ratio of one costs nothing, and no largest ratio is below one."""
    assert log_above(Fraction(1)) == 0.0
    assert log_above(1 + Fraction(1, 10**50)) > 0.0
    with pytest.raises(ValueError, match="at least one"):
        log_above(Fraction(2**64 - 1, 2**64))


@given(st.floats(1e-9, 50.0))
@settings(derandomize=True, max_examples=200, deadline=None)
def test_the_round_trip_never_gains(epsilon):
    """Certifying integers of 100 bits that exp_below allows gives back at most the epsilon that was asked for."""
    found = log_above(Fraction(math.floor(exp_below(epsilon) * 2**100), 2**100))
    assert found <= epsilon
    assert found == pytest.approx(epsilon, rel=1e-15)


@given(st.decimals(min_value=Decimal("1e-10"), max_value=Decimal(1000), allow_nan=False, allow_infinity=False))
@settings(derandomize=True, max_examples=200, deadline=None)
def test_float_above_bounds_in_binary_and_in_print(value):
    """The float is at least the decimal in both readings, and at most three floats above the nearest."""
    found = float_above(value)
    assert Decimal(found) >= value
    assert Decimal(repr(found)) >= value
    assert found <= math.nextafter(math.nextafter(math.nextafter(float(value), 2e3), 2e3), 2e3)


@given(st.lists(epsilons, max_size=30))
@settings(derandomize=True, max_examples=200, deadline=None)
def test_sums_of_printed_epsilons_are_exact(values):
    """The sum is the exact sum of the printed decimals, and the float that is shown for it is not below."""
    found = exact_sum(values)
    exact = sum((Fraction(repr(value)) for value in values), Fraction(0))
    assert Fraction(found) == exact
    assert Fraction(repr(printed_above(found))) >= exact
    assert Fraction(repr(math.nextafter(printed_above(found), -1.0))) < exact or not exact


@given(epsilons)
@settings(derandomize=True, max_examples=200, deadline=None)
def test_exp_above_is_above_and_close(epsilon):
    """The decimal is above exp of both readings of a float, within 1e-75 of the larger."""
    with mpmath.workdps(120):
        bound = mpmath.exp(max(mpmath.mpf(epsilon), mpmath.mpf(repr(epsilon))))
        found = mpmath.mpf(str(exp_above(epsilon)))
        assert bound <= found < bound * (1 + mpmath.mpf(10) ** -75)


@given(st.fractions(min_value=1, max_value=10**6, max_denominator=2**64), st.integers(1, 40))
@settings(derandomize=True, max_examples=200, deadline=None)
def test_power_above_is_a_tight_bound(ratio, exponent):
    """The power is bounded from above, within 1e-290 of it relatively, and by a number of moderate length."""
    found, exact = power_above(ratio, exponent), ratio**exponent
    assert exact <= found <= exact * (1 + Fraction(1, 10**290))
    assert found.denominator.bit_length() < 2048


def test_power_above_of_a_large_unit_is_quick_and_right():
    """A unit of a million rows costs a million times the logarithm, in well under a second."""
    ratio = Fraction(2**64 - 3, 2**64 - 2**30)
    with mpmath.workdps(60):
        one = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
        assert mpmath.mpf(log_above(power_above(ratio, 1 << 20))) == pytest.approx(float(one * 2**20), rel=1e-12)
        assert mpmath.mpf(log_above(power_above(ratio, 1 << 20))) >= one * 2**20


@given(epsilons, st.integers(1, 8))
@settings(derandomize=True, max_examples=200, deadline=None)
def test_shown_numbers_are_rounded_up(value, digits):
    """What people read is at least the number, and less than one unit of its last digit above."""
    shown = Decimal(shown_above(value, digits))
    exact = Decimal(repr(value))
    assert exact <= shown <= exact * (1 + Decimal(10) ** (1 - digits))


@given(st.decimals(min_value=Decimal("1e-10"), max_value=Decimal(1000), allow_nan=False, allow_infinity=False))
@settings(derandomize=True, max_examples=200, deadline=None)
def test_what_is_shown_of_a_bound_is_a_bound(value):
    """A float that was certified is shown as no less than the truth, and so is an exact sum."""
    for bound in (printed_above(value), float_above(value), value):
        assert all(Decimal(shown_above(bound, digits)) >= value for digits in (3, 7, 17))


@pytest.mark.parametrize(
    ("value", "shown"), [(1e-8, "0.00000001"), (1.05, "1.05"), (0.1, "0.1"), (2, "2"), (np.float64(0.3), "0.3")]
)
def test_what_was_asked_for_is_shown_as_it_was(value, shown):
    """Floats whose binary value is a little more than what they print as are shown as that."""
    assert shown_above(value, 7) == shown


# The integer rule of each family, against exhaustive search and the exact inequality it must keep.


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
