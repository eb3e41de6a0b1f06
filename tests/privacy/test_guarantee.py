"""The guarantee and its sentence."""

import math
import re
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from labeldp import Classes, Guarantee, RandomizedResponse, RenyiGuarantee
from labeldp.errors import EpsilonError, InputError
from labeldp.privacy import sure_above
from labeldp.privacy.accounting import divergence_sum, label_divergence, replaced_divergence
from labeldp.privacy.channels import BitChannel, ProjectiveChannel, ResponseChannel, SubsetChannel


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, -1e-300])
def test_an_epsilon_that_promises_nothing_is_refused(bad):
    """A guarantee has a finite epsilon of at least zero."""
    with pytest.raises(ValueError, match="expected a finite epsilon"):
        Guarantee(bad)


@pytest.mark.parametrize("bad", [math.nan, 1.0, -0.1, "0", None])
def test_a_bad_delta_is_refused(bad):
    """A guarantee has a failure probability in [0, 1)."""
    with pytest.raises(EpsilonError):
        Guarantee(1.0, bad)


def test_the_sentence_of_a_very_large_epsilon_can_be_said():
    """A group's epsilon may be beyond what a float's exponential holds, and zero is a factor of one."""
    assert "epsilon 5000" in Guarantee(5000.0).sentence()
    assert "factor of at most 1 (epsilon 0," in Guarantee(0.0).sentence()


@pytest.mark.parametrize("epsilon", [1.0, 0.1, 0.3333333333333333, 1.0000004, 2.0000001, 5.4321987, 8.0, 123.4567891])
def test_the_sentence_never_promises_more_than_the_guarantee(epsilon):
    """The printed factor and the printed epsilon are rounded up: words promise no more than the numbers."""
    sentence = Guarantee(epsilon).sentence()
    factor = float(re.search(r"factor of at most ([0-9.e+]+)", sentence)[1])
    printed = float(re.search(r"epsilon ([0-9.e+-]+)", sentence)[1])
    assert printed >= epsilon
    assert printed <= epsilon * 1.001
    assert factor >= math.exp(epsilon) * (1 - 1e-15)
    assert factor <= math.exp(epsilon) * 1.01


@pytest.mark.parametrize("delta", [1e-6, 1.2345678e-5, 0.3333333])
def test_the_sentence_never_promises_a_smaller_failure(delta):
    """The printed delta is rounded up too."""
    printed = float(re.search(r"delta ([0-9.e+-]+)\)", Guarantee(1.0, delta).sentence())[1])
    assert delta <= printed <= delta * 1.01


def test_the_sentence_names_trust_unit_and_failure():
    """Who saw the labels, what a unit is and the chance of failure are said in words."""
    assert str(Guarantee(1.0)) == Guarantee(1.0).sentence()
    assert Guarantee(1.0).sentence().startswith("Each label was randomized alone")
    assert "one row's label" in Guarantee(1.0).sentence()
    assert "plus" not in Guarantee(1.0).sentence()
    central = Guarantee(1.0, 1e-6, trust="central", unit="customer").sentence()
    assert "trusted curator" in central
    assert "all labels of one customer" in central
    assert re.search(r"(1e-06|0\.000001)", central)
    peers = Guarantee(1.0, trust="peer").sentence()
    assert peers.startswith("Peers")
    assert "but for who asked whom and what peers tell, replacing" in peers
    assert "not protected" in central


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 0.1, 0.3333333333333333, 1.0, 2.0, 5.4321987, 8.0, 40.0, 5000.0])
def test_a_posterior_is_the_largest_possible_rounded_up(epsilon):
    """It is the posterior of odds times exp(epsilon), in 60 digits, and never less, by less than 1e-15."""
    for prior in (0.0, 1e-9, 0.01, 0.1, 0.5, 0.9, 1.0):
        with mpmath.workdps(3000):
            p, e = mpmath.mpf(repr(prior)), mpmath.exp(mpmath.mpf(repr(epsilon)))
            exact = p * e / (p * e + 1 - p) if prior < 1 else mpmath.mpf(1)
            found = Guarantee(epsilon).posterior(prior)
            assert exact <= mpmath.mpf(found) <= exact * (1 + mpmath.mpf("5e-16")) + mpmath.mpf("1e-300")
            assert 0.0 <= found <= 1.0


def test_randomized_response_reaches_the_posterior():
    """For two classes, the posterior after the truth is released is the bound, up to the weights' rounding."""
    channel = RandomizedResponse(Classes(["no", "yes"]), 1.0).channel()
    for prior in (0.01, 0.1, 0.5):
        weights = np.array([1 - prior, prior]) * channel.likelihood(np.array([1]))[0]
        assert weights[1] / weights.sum() == pytest.approx(Guarantee(channel.epsilon).posterior(prior), rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.1, 0.5, 1.0, 1.0986122886681098, 2.0, 4.0, 8.0, 20.0])
def test_the_printed_posterior_never_promises_more(epsilon):
    """Both printed percentages are at least the exact ones, and at most one unit of the third digit above."""
    half, tenth = map(float, re.findall(r"at most ([0-9.]+) %", Guarantee(epsilon).posterior_sentence()))
    for printed, prior in ((half, 0.5), (tenth, 0.1)):
        exact = 100 * mpmath.mpf(Guarantee(epsilon).posterior(prior))
        assert exact * (1 - mpmath.mpf("1e-15")) <= printed <= exact + 0.1 + 1e-9


def test_less_than_certainty_is_not_printed_as_certainty():
    """A belief that can become 99.967 or 99.988 % sure is not said to become 100 %; beyond six digits it is."""
    sentences = [Guarantee(epsilon).posterior_sentence() for epsilon in (8.0, 9.0, 40.0)]
    most = [re.findall(r"at most ([0-9.]+) %", each) for each in sentences]
    assert most == [["99.97", "99.7"], ["99.99", "99.9"], ["100", "100"]]
    assert [sure_above(each) for each in (0.5, 0.99991, 0.999991, 1.0)] == ["50", "99.991", "99.9991", "100"]


def test_the_posterior_sentence_names_unit_peers_and_failure():
    """It is about a label or all labels of a unit, and says what peers do not promise, and the failure probability."""
    alone = Guarantee(1.0).posterior_sentence()
    assert "50 % sure of one row's label can become at most 73.2 % sure; 10 % sure, at most 23.2 %." in alone
    assert "failure" not in alone
    units = Guarantee(1.0, 1e-6, "central", "patient").posterior_sentence()
    assert "a statement about all labels of one patient" in units
    assert units.endswith("at most 23.2 %, but for a failure of probability 0.000001.")
    assert "not who asked whom and what peers tell" in Guarantee(1.0, trust="peer").posterior_sentence()
    with pytest.raises(InputError, match="prior"):
        Guarantee(1.0).posterior(1.5)


def test_a_failure_probability_covers_what_exceeds_the_posterior():
    """For pairs of distributions with an epsilon and a delta, the expected excess over the bound is at most delta."""
    generator = np.random.default_rng(0)
    for _ in range(300):
        pair = generator.dirichlet(np.full(6, 0.3), size=2)
        epsilon, prior = generator.uniform(0.1, 3.0), generator.uniform(0.05, 0.95)
        delta = max(np.maximum(one - np.exp(epsilon) * other, 0).sum() for one, other in (pair, pair[::-1]))
        joint = np.array([[prior], [1 - prior]]) * pair
        posterior = np.divide(joint[0], joint.sum(axis=0), out=np.zeros(6), where=joint.sum(axis=0) > 0)
        excess = joint.sum(axis=0) @ np.maximum(posterior - Guarantee(epsilon).posterior(prior), 0)
        assert excess <= delta + 1e-12


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
