import math
from fractions import Fraction

import numpy as np
import pytest

from labeldp import Guarantee, RenyiGuarantee
from labeldp.errors import EpsilonError, InputError
from labeldp.privacy.accounting import divergence_sum, label_divergence, replaced_divergence
from labeldp.privacy.channels import BitChannel, ProjectiveChannel, ResponseChannel, SubsetChannel

ORDERS = [1.001, 1.5, 2.0, 7.0, 64.0, math.inf]


def divergence(first: np.ndarray, second: np.ndarray, alpha: float) -> float:
    """The Rényi divergence of two finite laws, as it is defined."""
    if math.isinf(alpha):
        return float(np.log(first / second).max())
    return math.log(math.fsum(first**alpha * second ** (1 - alpha))) / (alpha - 1)


@pytest.mark.parametrize("alpha", ORDERS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_the_divergence_of_a_label_is_that_of_its_law(classes: int, epsilon: float, alpha: float) -> None:
    """Randomized response has the divergence that its matrix has, and not a little more than rounding adds."""
    channel = ResponseChannel.at(classes, epsilon)
    first, second = channel.matrix()[:2]
    truth, found = divergence(first, second, alpha), label_divergence(channel, alpha)
    slack = 1e-13 if math.isinf(alpha) else 1e-13 / (alpha - 1)
    assert truth - slack <= found <= truth + 10 * slack + 1e-12


@pytest.mark.parametrize("alpha", [1.2, 1.5, 4.0, math.inf])
@pytest.mark.parametrize(
    "channel",
    [
        SubsetChannel.at(5, 2, 1.0),
        SubsetChannel.at(10, 3, 2.0),
        BitChannel.independent(4, 1.0),
        BitChannel.symmetric(5, 1.0),
        ProjectiveChannel.at(13, 3, 1.0),
    ],
    ids=["subset", "subset of 10", "bits", "symmetric bits", "projective"],
)
def test_the_divergence_of_a_set_is_that_of_its_law(channel: SubsetChannel | BitChannel, alpha: float) -> None:
    """The stated divergence is that of the two labels that diverge most, over all of the channel's table."""
    matrix = channel.matrix()
    pairs = [(y, z) for y in range(len(matrix)) for z in range(len(matrix)) if y != z]
    worst = max(divergence(matrix[y][matrix[z] > 0], matrix[z][matrix[z] > 0], alpha) for y, z in pairs)
    assert worst - 1e-12 <= label_divergence(channel, alpha) <= worst + 1e-11


def test_redrawn_features_diverge_by_no_more_than_the_bound() -> None:
    """On random finite laws the bound is never below the truth, and somewhere within 2 % of it."""
    random, closest = np.random.default_rng(1), 0.0
    for _ in range(4000):
        cells, classes = random.integers(2, 5), random.integers(2, 4)
        original = random.dirichlet(np.full(cells, 0.5), size=classes) + 1e-12
        original /= original.sum(axis=1, keepdims=True)
        drawn = random.dirichlet(np.full(cells, 0.7)) + 1e-9
        drawn /= drawn.sum()
        replaced, alpha = random.uniform(0.02, 1.0), float(random.choice([1.05, 1.5, 2.0, 5.0, 30.0, math.inf]))
        apart = max(0.0, *(divergence(law, drawn, alpha) for law in original))
        bound = replaced_divergence(alpha, Fraction(replaced), apart)
        leaving = (1 - replaced) * original + replaced * drawn
        truth = max(divergence(one, other, alpha) for one in leaving for other in leaving)
        assert truth <= bound + 1e-9
        closest = max(closest, truth / bound if bound else 0.0)
    assert closest > 0.98


def test_features_that_are_always_redrawn_tell_nothing() -> None:
    """The bound is zero there, and grows as features are redrawn less often or the generator is worse."""
    assert replaced_divergence(2.0, Fraction(1), 5.0) == 0.0
    chances = [replaced_divergence(2.0, Fraction(n, 10), 0.5) for n in range(1, 11)]
    assert chances == sorted(chances, reverse=True)
    apart = [replaced_divergence(2.0, Fraction(1, 3), d) for d in (0.0, 0.1, 1.0, 50.0)]
    assert apart == sorted(set(apart))


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.1])
def test_the_epsilon_at_a_delta_holds(epsilon: float, delta: float) -> None:
    """What an order says of a delta bounds the hockey-stick divergence, and is no worse than Mironov's conversion."""
    first, second = ResponseChannel.at(2, epsilon).matrix()
    for alpha in (1.5, 3.0, 20.0):
        found = RenyiGuarantee(alpha, divergence(first, second, alpha)).at_delta(delta)
        assert np.maximum(first - math.exp(found) * second, 0).sum() <= delta
        assert found <= divergence(first, second, alpha) + math.log(1 / delta) / (alpha - 1)


@pytest.mark.parametrize("alpha", [1.5, 2.0, 50.0])
def test_a_pure_guarantee_and_a_rho_say_what_every_order_is(alpha: float) -> None:
    """A pure epsilon is binary randomized response at worst; a rho is alpha times rho; the smaller one counts."""
    first, second = ResponseChannel.at(2, 1.0).matrix()
    assert RenyiGuarantee.of(Guarantee(1.0), alpha).epsilon == pytest.approx(divergence(first, second, alpha), abs=1e-9)
    assert RenyiGuarantee.of(Guarantee(9.0, rho=0.01), alpha).epsilon == pytest.approx(0.01 * alpha)
    assert RenyiGuarantee.of(Guarantee(9.0, 1e-6, rho=0.01), alpha).epsilon == pytest.approx(0.01 * alpha)
    with pytest.raises(InputError, match="rho"):
        RenyiGuarantee.of(Guarantee(1.0, 1e-6), alpha)


def test_nobody_takes_one_definition_for_the_other() -> None:
    """Each kind says in its first words which it is, and the conditional one whose features it means."""
    static = RenyiGuarantee(2.0, 0.5)
    conditional = RenyiGuarantee(2.0, 0.5, "conditional", "the patients of a ward", ("nobody saw them",))
    assert str(static).startswith("Static features")
    assert "what features tell of labels is not counted" in str(static)
    assert str(conditional).startswith("Conditional features")
    assert "by others drawn from the patients of a ward" in str(conditional)
    assert "nobody saw them" in str(conditional)
    assert static != conditional


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((1.0, 0.5), "above 1"),
        ((0.5, 0.5), "above 1"),
        ((2.0, -1.0), "at least 0"),
        ((2.0, math.inf), "finite"),
        ((2.0, 0.5, "conditional"), "population"),
        ((2.0, 0.5, "static", "somebody"), "population"),
        ((2.0, 0.5, "public"), "static"),
    ],
)
def test_what_is_no_guarantee_is_refused(arguments: tuple, told: str) -> None:
    """Orders at or below 1, divergences below 0, and features without a population are refused."""
    with pytest.raises((InputError, EpsilonError), match=told):
        RenyiGuarantee(*arguments)


def test_what_no_bound_follows_from_is_refused() -> None:
    """A chance of zero, a negative or infinite divergence, and a delta of zero at a finite order are refused."""
    for chance, apart in ((Fraction(0), 0.1), (Fraction(1, 2), -0.1), (Fraction(1, 2), math.inf)):
        with pytest.raises(InputError):
            replaced_divergence(2.0, chance, apart)
    with pytest.raises(EpsilonError, match="delta above 0"):
        RenyiGuarantee(2.0, 0.5).at_delta(0.0)
    assert RenyiGuarantee(math.inf, 0.5).at_delta(0.0) == 0.5


def test_sums_are_rounded_up() -> None:
    """A sum of divergences is at least the exact sum of what they print as."""
    assert Fraction(repr(divergence_sum(0.1, 0.2))) >= Fraction("0.1") + Fraction("0.2")
