"""The account of Gaussian noise against mpmath in 150 digits, against an integral, and against its own integers."""

import decimal
import itertools
import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from mpmath import mpf

from labeldp.privacy.accounting import GaussianNoise, least_deviation
from labeldp.privacy.accounting import _gaussian as gaussian

DIGITS = 150
CASES = [(1.0, 1e-6), (0.01, 1e-6), (0.1, 1e-5), (0.3, 1e-9), (10.0, 1e-9), (100.0, 1e-30), (1e-5, 1e-12), (1.0, 0.5)]
every_case = pytest.mark.parametrize(("epsilon", "delta"), CASES)


@pytest.fixture(autouse=True)
def many_digits():
    """The oracle computes in many digits."""
    with mpmath.workdps(DIGITS):
        yield


def exactly(value):
    """A number as the oracle's."""
    fraction = Fraction(value)
    return mpf(fraction.numerator) / fraction.denominator


def tail(x):
    """The upper tail of the standard normal law."""
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


def delta_of(epsilon, ratio):
    """Balle and Wang's formula."""
    start = epsilon / ratio - ratio / 2
    return tail(start) - mpmath.exp(epsilon) * tail(start + ratio)


def both(value):
    """A float and the decimal that it prints, exactly: the smaller first."""
    return sorted((Fraction(value), Fraction(repr(value))))


def ratio_of(noise):
    """Sensitivity over deviation."""
    return mpmath.sqrt(noise.sensitivity_squared) / noise.deviation


@pytest.mark.parametrize(
    "x", [*range(-45, 46, 5), -8.0, 0.0, 1e-30, 0.5, 2.75, 7.25, 7.999999999, 8.0, 8.000000001, 8.5, 200.0]
)
def test_tails_are_those_of_the_oracle(x):
    """To 70 digits on both sides of the place where the series hands over to the fraction."""
    found = exactly(gaussian.upper_tail(Decimal(x)))
    assert abs(found / tail(exactly(x)) - 1) < mpf(10) ** -70


def test_the_fraction_is_deep_enough(monkeypatch):
    """Where it is used first, two consecutive convergents agree to 80 digits."""
    found = []
    for depth in (gaussian._DEPTH, gaussian._DEPTH + 1):
        monkeypatch.setattr(gaussian, "_DEPTH", depth)
        found.append(exactly(gaussian._fraction(Decimal(gaussian._FAR))))
    assert abs(found[0] / found[1] - 1) < mpf(10) ** -80


@pytest.mark.parametrize("epsilon", ["0", "1e-7", "0.01", "1", "10", "300"])
def test_delta_is_above_the_truth_by_next_to_nothing(epsilon):
    """At least the oracle's, and by at most the stated bound; where it is below every float, that is said."""
    for ratio in ("1e-9", "0.003", "0.2", "1", "3.7", "30", "1e6"):
        exact, start = delta_of(mpf(epsilon), mpf(ratio)), mpf(epsilon) / mpf(ratio) - mpf(ratio) / 2
        found = exactly(gaussian.delta_above(Decimal(epsilon), Decimal(ratio)))
        assert exact < found
        if start < 40:
            assert found - exact < mpf(10) ** -60 * 4 * tail(start)
        else:
            assert found == exactly(Decimal("1e-349"))


@pytest.mark.parametrize(("epsilon", "ratio"), [(0.5, 1.0), (1.0, 0.4), (3.0, 2.0)])
def test_delta_is_the_hockey_stick_divergence(epsilon, ratio):
    """The formula is the integral of what one density exceeds exp(epsilon) times the other by."""
    with mpmath.workdps(25):
        edge = mpf(ratio) / 2 - mpf(epsilon) / ratio  # densities at 0 and at the ratio: the first exceeds below it
        exceeds = mpmath.quad(lambda x: mpmath.npdf(x) - mpmath.exp(epsilon) * mpmath.npdf(x - ratio), [-40, -8, edge])
        assert abs(exceeds - exactly(gaussian.delta_above(Decimal(epsilon), Decimal(ratio)))) < 1e-15


@every_case
@pytest.mark.parametrize("squared", [2, 2 * 10**18 + 2, 2 * 7**20])
def test_the_deviation_is_the_least(epsilon, delta, squared):
    """It keeps epsilon and delta by the oracle, and one step less does not."""
    deviation = least_deviation(squared, epsilon, delta, 1 << 70)
    (least_epsilon, _), (least_delta, _) = both(epsilon), both(delta)
    kept = [
        delta_of(exactly(least_epsilon), mpmath.sqrt(squared) / each) <= exactly(least_delta)
        for each in (deviation, deviation - 1)
        if each
    ]
    assert kept in ([True, False], [True])
    assert deviation == least_deviation(squared, epsilon, delta, deviation)
    assert least_deviation(squared, epsilon, delta, deviation - 1) is None


@every_case
def test_epsilon_is_the_inverse_of_delta(epsilon, delta):
    """The certified epsilon is at most the one asked for, keeps delta by the oracle, and the float below does not."""
    noise = GaussianNoise(least_deviation(2 * 10**18, epsilon, delta, 1 << 70), 2 * 10**18)
    found = noise.epsilon(delta)
    assert epsilon * (1 - 1e-5) < found <= epsilon
    ratio = ratio_of(noise)
    assert delta_of(exactly(both(found)[0]), ratio) <= exactly(both(delta)[0])
    assert delta_of(exactly(both(math.nextafter(found, 0))[0]), ratio) > exactly(both(delta)[0])
    assert exactly(both(noise.delta(found))[0]) >= delta_of(exactly(both(found)[0]), ratio)
    assert noise.delta(found) <= delta


def test_a_delta_that_needs_no_epsilon():
    """Delta at epsilon 0 is the distance of the two laws; from there on epsilon is 0."""
    noise = GaussianNoise(100, 1)
    assert noise.epsilon(noise.delta(0.0)) == 0.0
    assert noise.epsilon(noise.delta(0.0) * 0.999) > 0.0


@pytest.mark.parametrize(("deviation", "squared"), [(1, 1), (5, 2), (3, 7), (10**9 + 7, 2 * 10**18)])
def test_rho_is_rounded_up(deviation, squared):
    """At least half the squared ratio, in binary and as it prints, and by no more than a float's last place or two."""
    exact, found = Fraction(squared, 2 * deviation**2), GaussianNoise(deviation, squared).rho
    assert exact <= both(found)[0]
    assert found <= float(exact) * (1 + 2.0**-51)


def test_a_published_deviation():
    """Sensitivity 1, epsilon 1, delta 1e-5: 3.7306 against 4.8448 of the classical bound (Balle and Wang 2018)."""
    found = least_deviation(10**20, 1.0, 1e-5, 1 << 70) / 10**10
    assert found == pytest.approx(3.730632, abs=1e-6)
    assert found < math.sqrt(2 * math.log(1.25e5)) == pytest.approx(4.8448, abs=1e-4)


@pytest.mark.parametrize(("deviation", "moved"), [(1, 1), (2, 1), (2, 3), (9, 4)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5])
def test_rounded_noise_costs_no_more(deviation, moved, epsilon):
    """The divergence of the integers that are drawn, summed over them, is at most delta, and near it for wide noise."""
    with mpmath.workdps(30):
        low = [tail((mpf(z) - mpf("0.5")) / deviation) for z in range(-20 * deviation, 20 * deviation + 2)]
        law = [a - b for a, b in itertools.pairwise(low)]
        pairs = zip(law[:-moved], law[moved:], strict=True)
        exact = mpmath.fsum(max(mpf(0), q - mpmath.exp(epsilon) * p) for p, q in pairs)
        claimed = GaussianNoise(deviation, moved**2).delta(epsilon)
        assert exact <= claimed
        if deviation > 8:
            assert exact > 0.9 * claimed


def test_the_ambient_precision_changes_nothing():
    """A process that computes with three digits gets the same deviation and epsilon."""
    asked = (2 * 10**18, 0.77, 1e-7, 1 << 70)
    deviation = least_deviation(*asked)
    exact = GaussianNoise(deviation, asked[0]).epsilon(1e-7)
    with decimal.localcontext(prec=3):
        assert least_deviation.__wrapped__(*asked) == deviation
        assert gaussian._epsilon.__wrapped__(GaussianNoise(deviation, asked[0]), 1e-7) == exact


@pytest.mark.parametrize(("deviation", "squared"), [(0, 1), (1, 0), (-1, 1), (1, 10**39)])
def test_integers_that_are_no_noise(deviation, squared):
    """No noise, nothing that moves, or far more than any unit can."""
    with pytest.raises(ValueError, match="at least one step"):
        GaussianNoise(deviation, squared)


def test_noise_that_is_far_too_small():
    """It keeps no epsilon that anybody may ask for, and says so."""
    with pytest.raises(ValueError, match="epsilon of at most 700"):
        GaussianNoise(1, 10**8).epsilon(1e-6)
