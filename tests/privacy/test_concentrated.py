"""Zero-concentrated accounts: the conversion, the filter and compositions, against exact sums and formulas."""

import itertools
import math
import sys
from decimal import Decimal
from functools import cache

import mpmath
import numpy as np
import pytest

from labeldp import Account, Budget, Charge, Guarantee
from labeldp.errors import BudgetError, EpsilonError
from labeldp.privacy.accounting import Composition, PrivacyLoss, RowRanges
from labeldp.privacy.accounting import _concentrated as concentrated
from labeldp.privacy.accounting._concentrated import ConcentratedLoss
from labeldp.privacy.channels import ResponseChannel

ROW = RowRanges.all(1)
RHOS = ("1e-9", "0.0001", "0.005", "0.08", "0.5", "3")
DELTAS = ("1e-12", "1e-6", "0.001", "0.3")
REAL = (-9.0, -1.3, -0.1, -1e-6, 0.0, 1e-6, 0.1, 0.7, 1.3, 3.0, 9.0)


def charge(epsilon, delta=0.0, rho=None, rows=ROW, **more):
    """A charge to one row, or to some."""
    return Charge(Guarantee(epsilon, delta, rho=rho, **more), rows)


def gaussian(rho):
    """A charge for Gaussian noise with this rho; its epsilon and delta are of no account."""
    return charge(50.0, 0.5, rho)


def converted(a, rho, epsilon):
    """The delta of the conversion at one order alpha = 1 + a, to many digits."""
    a, rho, epsilon = mpmath.mpf(a), mpmath.mpf(str(rho)), mpmath.mpf(epsilon)
    return mpmath.exp(a * ((1 + a) * rho - epsilon) + a * mpmath.log(a / (1 + a)) - mpmath.log(1 + a))


def least_delta(rho, epsilon):
    """The smallest delta of the conversion over all orders, found by golden sections in the logarithm of the order."""
    low, high = mpmath.mpf(-15), mpmath.mpf(30)
    share = (mpmath.sqrt(5) - 1) / 2
    for _ in range(120):
        one, other = high - share * (high - low), low + share * (high - low)
        if converted(mpmath.exp(one), rho, epsilon) < converted(mpmath.exp(other), rho, epsilon):
            high = other
        else:
            low = one
    return converted(mpmath.exp(low), rho, epsilon)


def hockey_stick(mu, epsilon):
    """The delta of a Gaussian of this mean over its standard deviation, for every real epsilon: Balle and Wang 2018."""
    mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def root(function, target, low=0.0, high=1e3):
    """Where a falling function is so much."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > target else (low, middle)
    return high


# The conversion


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("rho", RHOS)
def test_the_epsilon_of_a_rho_is_the_best_of_all_orders(rho, delta):
    """The epsilon at a delta is the least for which an order has that delta, and 0 where 0 has it."""
    with mpmath.workdps(50):
        found = mpmath.mpf(str(concentrated.concentrated_epsilon(Decimal(rho), Decimal(delta))))
        assert least_delta(rho, found) <= mpmath.mpf(delta)
        assert least_delta(rho, found * (1 - mpmath.mpf("1e-12"))) > mpmath.mpf(delta) or not found


@pytest.mark.parametrize("excess", [0.013, 0.7, 4.25, 1e3])
def test_the_epsilon_of_a_rho_is_rounded_up(monkeypatch, excess):
    """At one order the epsilon is that of the formula, to eighty digits, and never below it."""
    monkeypatch.setattr(concentrated, "_best_excess", lambda *_: excess)
    for rho, delta in itertools.product(RHOS, DELTAS):
        with mpmath.workdps(160):
            a, budget = mpmath.mpf(excess), mpmath.mpf(delta)
            found = mpmath.mpf(str(concentrated.concentrated_epsilon.__wrapped__(Decimal(rho), Decimal(delta))))
            saved = mpmath.log(1 + a) + a * mpmath.log((1 + a) / a)
            exact = (1 + a) * mpmath.mpf(rho) + (-mpmath.log(budget) - saved) / a
            if exact > 0:
                assert 0 <= found - exact < mpmath.mpf(10) ** -70 * (1 + 1 / a)


def test_nothing_costs_nothing_and_no_delta_allows_nothing():
    """A rho of 0 has epsilon 0 at every delta; any other has none at delta 0; far below floats it still has one."""
    assert concentrated.concentrated_epsilon(Decimal(0), Decimal(0)) == 0
    assert concentrated.concentrated_epsilon(Decimal("1e-9"), Decimal(0)).is_infinite()
    assert 0 <= concentrated.concentrated_epsilon(Decimal("1e-400"), Decimal("1e-6")) < Decimal("1e-50")


@pytest.mark.parametrize("rho", [1e-6, 0.005, 0.08, 0.5, 3.0])
def test_deltas_of_a_rho_are_rounded_up(rho):
    """At the order that was chosen, delta is at least the formula's, and at most the best order's and a little."""
    size = np.abs(np.array(REAL))
    found = concentrated.concentrated_delta(rho, size)
    with mpmath.workdps(40):
        for a, epsilon, delta in zip(concentrated._best_excesses(rho, size), size, found, strict=True):
            assert mpmath.mpf(delta) >= min(1, converted(a, rho, epsilon)) or delta < 1e-300
            assert delta <= min(1, least_delta(rho, epsilon)) * (1 + 1e-6) + 1e-300


def test_floating_error_of_a_delta_is_added():
    """Over many rhos and epsilons no delta is below the formula's at the order that was chosen, by any digit."""
    random = np.random.default_rng(0)
    with mpmath.workdps(40):
        for rho, epsilon in zip(np.exp(random.uniform(-9, 1, 400)), random.uniform(0, 8, 400), strict=True):
            size = np.array([epsilon])
            (found,), (a,) = concentrated.concentrated_delta(rho, size), concentrated._best_excesses(rho, size)
            assert mpmath.mpf(found) >= min(1, converted(a, float(rho), epsilon)) or found < 1e-300


@pytest.mark.parametrize("rho", [1e-4, 0.02, 0.5, 4.5])
def test_the_delta_of_a_rho_bounds_gaussian_noise(rho):
    """A Gaussian with this rho has no more delta, at any epsilon above or below 0."""
    found = concentrated.concentrated_delta(rho, np.array(REAL))
    for epsilon, delta in zip(REAL, found, strict=True):
        assert hockey_stick(math.sqrt(2 * rho), epsilon) - 1e-15 <= delta <= 1


@pytest.mark.parametrize("rho", [5e-324, 1e-300, 1e300, sys.float_info.max])
def test_what_no_float_holds_is_claimed_to_fail(rho):
    """Beyond all floats delta is 1 and epsilon is large, and neither is missing."""
    found = concentrated.concentrated_delta(rho, np.array([0.0, 5e-324, 1.0, 700.0, 1e308, -1e-300, -1.0, -1e308]))
    assert ((found >= 0) & (found <= 1)).all()
    square = Decimal(repr(rho)) ** 2
    epsilon = concentrated.concentrated_epsilon(square, Decimal("1e-6"))
    assert ((found == 1).all() and epsilon > square) if rho > 1 else epsilon == 0


def test_a_negative_rho_is_none():
    """A loss has a finite rho of at least 0."""
    for bad in ("-1", "NaN", "Infinity"):
        with pytest.raises(ValueError, match="expected a finite rho"):
            ConcentratedLoss(Decimal(bad))


# The filter


def passes(budget, each):
    """How many requests of one kind a budget lets pass, by halves: with one more of them than pass, none passes."""
    low, high = 0, 1000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if Account(budget, (each,) * (middle - 1)).allows(each) else (low, middle)
    return low


def admitted(budget, *charges):
    """The account of as many of the charges, one after another, as a budget lets pass."""
    account = Account(budget)
    for each in charges:
        if not account.allows(each):
            break
        account = account.admit(each)
    return account


@pytest.mark.parametrize(("limit", "delta", "epsilon"), [(4.0, 1e-6, 0.1), (2.0, 1e-6, 0.02), (0.7, 1e-3, 0.05)])
def test_the_filter_is_exact_at_the_boundary(limit, delta, epsilon):
    """As many requests pass as the conversion allows for half the squares of their epsilons, and not one more."""
    budget = Budget(limit, delta, concentrated=True)
    count = passes(budget, charge(epsilon))
    account = Account(budget, (charge(epsilon),) * count)
    with mpmath.workdps(40):
        half = mpmath.mpf(repr(epsilon)) ** 2 / 2
        assert least_delta(count * half, limit) <= mpmath.mpf(repr(delta)) < least_delta((count + 1) * half, limit)
    assert count > limit / epsilon
    spent = account.spent
    with pytest.raises(BudgetError, match=r"budget exceeded: .* is spent of the budget \(epsilon .* concentrated\)"):
        account.admit(charge(epsilon))
    assert account.spent == spent
    assert spent[0] <= limit
    assert spent[1] == delta


def test_requests_pass_by_sums_or_by_rho():
    """A few large requests pass by their sum and many small ones by their rhos, each where the other would not."""
    budget = Budget(2.0, 1e-6, concentrated=True)
    large = admitted(budget, *[charge(1.0)] * 3)
    assert len(large.charges) == 2
    assert large.spent == (2.0, 0.0)
    assert passes(Budget(2.0, 1e-6), charge(0.02)) == 100
    assert passes(budget, charge(0.02)) > 400
    assert Account(budget, (charge(0.02),) * 400).spent[0] < 2 < 0.02 * 400


def test_a_filter_by_sums_knows_no_rho():
    """Under a budget that is not concentrated, charges with a rho are summed like all others."""
    account = admitted(Budget(12.0, 3e-9), *[charge(5.0, 1e-9, 1e-12)] * 9)
    assert len(account.charges) == 2
    assert account.spent == (10.0, 2e-9)


def test_a_rho_counts_in_place_of_the_square():
    """A charge with a rho counts by it, whatever its epsilon and delta are, and its delta is not apart."""
    budget = Budget(2.0, 1e-6, concentrated=True)
    assert passes(budget, charge(30.0, 0.3, 0.001)) == passes(budget, charge(30.0, 0.0, 0.001)) > 80
    assert Account(budget, (charge(30.0, 0.3, 0.001),)).spent[1] == 1e-6


def test_what_leans_on_its_rho_does_not_pass_by_its_epsilon():
    """A small epsilon with a delta of its own does not carry a charge whose rho is too large, even in company."""
    budget = Budget(2.0, 1e-6, concentrated=True, apart=5e-7)
    assert not Account(budget).allows(charge(0.1, 1e-9, 3.0))
    assert admitted(budget, charge(0.1, 1e-9, 0.01), charge(1.9)).charges == (charge(0.1, 1e-9, 0.01),)
    assert len(admitted(budget, charge(0.1, 1e-9), charge(1.9)).charges) == 2


def test_deltas_apart_are_taken_from_delta():
    """What is apart is not there for the rhos, charges without a rho take from it alone, and it is never exceeded."""
    whole, split = Budget(2.0, 1e-6, concentrated=True), Budget(2.0, 1e-6, concentrated=True, apart=9.99e-7)
    less = Budget(2.0, 1e-9, concentrated=True)
    assert passes(split, charge(0.02)) == passes(less, charge(0.02)) < passes(whole, charge(0.02))
    with pytest.raises(BudgetError, match=r"needs a reserve in the budget \(Budget"):
        Account(whole).admit(charge(0.02, 1e-12))
    assert len(admitted(split, *[charge(0.02, 3.33e-7)] * 9).charges) == 3
    assert admitted(split, charge(0.02, 3.33e-7)).spent == (0.02, pytest.approx(3.34e-7))


@pytest.mark.parametrize("budget", [Budget(2.0, 1e-6, concentrated=True), Budget(3.0, 1e-3, True, 1e-4)])
def test_the_order_of_requests_does_not_matter(budget):
    """What passes in one order passes in every order, and costs the same."""
    charges = [charge(0.1), charge(0.3), gaussian(0.004), charge(0.05, rho=0.0001), charge(0.2, budget.apart / 2)]
    found = {admitted(budget, *order).spent for order in itertools.permutations(charges) if budget.apart}
    found |= {admitted(budget, *order).spent for order in itertools.permutations(charges[:4])}
    assert len(found) == 1 + bool(budget.apart)


def test_disjoint_rows_cost_the_maximum_of_their_rhos():
    """Rows that never meet cost what the most that meets in one costs; units of several rows are summed."""
    budget = Budget(2.0, 1e-6, concentrated=True)
    one = [charge(0.02, rows=RowRanges(((0, 5),)))] * 300
    other = [charge(0.02, rows=RowRanges(((5, 9),)))] * 200
    apart, together = Account(budget, (*one, *other)), Account(budget, tuple(one))
    assert apart.spent == together.spent
    assert apart.allows(one[0])
    assert not Account(budget, (*one, *one[:200])).allows(one[0])
    units = tuple(charge(0.02, rows=RowRanges(((i, i + 1),)), unit="user") for i in range(500))
    assert not Account(budget, units[:-1]).allows(units[-1])
    assert Account(budget, units[:300]).spent == together.spent


def worst(allowed, menu, epsilon, step=8):
    """The delta of an analyst who chooses each request from a menu by all results so far, as a filter allows.

    Each request is the worst mechanism of its epsilon and delta. Epsilons are whole multiples of 1/step, so that
    the loss is one as well, and all strategies can be tried.
    """
    allowed = cache(allowed)

    @cache
    def value(counts, loss):
        found = max(0.0, 1 - math.exp(epsilon - loss / step))
        for place, (each, failure) in enumerate(menu):
            more = tuple(count + (place == i) for i, count in enumerate(counts))
            if allowed(more):
                likely = 1 / (1 + math.exp(-each))
                up, down = value(more, loss + round(each * step)), value(more, loss - round(each * step))
                found = max(found, failure + (1 - failure) * (likely * up + (1 - likely) * down))
        return found

    return value((0,) * len(menu), 0)


def charges_of(menu, counts):
    """So many charges of each kind."""
    return tuple(charge(*kind) for kind, count in zip(menu, counts, strict=True) for _ in range(count))


@pytest.mark.parametrize(
    ("epsilon", "delta", "apart"),
    [(1.0, 0.3, 0.0), (1.0, 0.3, 0.15), (2.0, 0.1, 0.05), (0.5, 0.3, 0.1), (1, 0.05, 0.01)],
)
def test_no_analyst_gets_beyond_the_budget(epsilon, delta, apart):
    """Whoever chooses requests by results, stopping included, has at most the delta of the budget at its epsilon."""
    budget = Budget(epsilon, delta, concentrated=True, apart=apart)
    menu = [(0.25, 0.0), (0.5, 0.0), (1.0, 0.0), *([(0.125, apart / 2), (0.125, apart)] if apart else [])]
    found = worst(
        lambda counts: Account(budget, charges_of(menu, counts)[:-1]).allows(charges_of(menu, counts)[-1]),
        menu,
        epsilon,
    )
    assert delta / 4 < found <= delta


def test_delta_that_is_traded_for_rho_would_fail():
    """If what is apart were not stated beforehand, an analyst would get beyond the budget: why it is."""
    epsilon, delta = 2.0, 0.1
    menu = [(0.25, 0.0), (0.5, 0.0), *((0.125, delta * share) for share in (0.1, 0.3, 0.6, 0.9, 0.99))]

    def traded(counts):
        failures = math.fsum(each.guarantee.delta for each in charges_of(menu, counts))
        whole = Budget(epsilon, delta, concentrated=True, apart=failures) if failures < delta else None
        return whole is not None and Account(whole, charges_of(menu, counts)).spent[0] <= epsilon

    assert worst(traded, menu, epsilon) > 1.1 * delta


@pytest.mark.parametrize(
    "bad",
    [
        {"concentrated": True},
        {"delta": 1e-6, "apart": 1e-7},
        {"delta": 1e-6, "concentrated": True, "apart": 1e-6},
        {"delta": 1e-6, "concentrated": True, "apart": -1e-9},
        {"delta": 1e-6, "concentrated": "yes"},
    ],
)
def test_a_concentrated_budget_needs_a_delta(bad):
    """Without a delta beyond what is apart nothing would pass by rho, and only a concentrated budget sets one apart."""
    with pytest.raises(EpsilonError, match="expected"):
        Budget(1.0, **bad)


def test_a_budget_says_what_it_is():
    """Its words name the delta, what is apart and how charges are counted."""
    assert str(Budget(2.0, 1e-6)) == "epsilon 2, delta 1e-06"
    assert str(Budget(2.0, 1e-6, True, 1e-7)) == "epsilon 2, delta 1e-06, of which 1e-07 apart, concentrated"


def test_only_epsilon_may_change_under_a_filter_by_rho():
    """A concentrated budget may be followed by one of the same delta, apart and kind; sums by any sums."""
    start = Budget(1.0, 1e-6, concentrated=True, apart=1e-7)
    assert Budget(3.0, 1e-6, concentrated=True, apart=1e-7).may_follow(start)
    others = (Budget(3.0, 1e-5, True, 1e-7), Budget(3.0, 1e-6, True, 2e-7), Budget(1.0, 1e-6))
    assert not any(other.may_follow(start) or start.may_follow(other) for other in others)
    assert Budget(3.0, 1e-5).may_follow(Budget(1.0))


# Composition


@pytest.mark.parametrize("times", [1, 10, 1000])
@pytest.mark.parametrize("mu", [0.5, 1.5, 4.0])
def test_gaussian_queries_cost_about_what_gaussians_do(mu, times):
    """The bound for many Gaussian queries is above the delta of their sum, and its epsilon at most a tenth above."""
    each = mu * mu / times / 2
    found = Composition.of([(gaussian(each), None)] * times)
    for epsilon in (0.0, 0.3, 1.0, 2.0, 5.0):
        assert found.delta_at(epsilon) >= hockey_stick(mu, epsilon)
    for delta in (1e-6, 1e-9, 1e-12):
        exact = root(lambda epsilon: hockey_stick(mu, epsilon), delta)
        assert exact <= found.epsilon_at(delta) <= 1.1 * exact


@pytest.mark.parametrize("times", [1, 5])
def test_randomized_responses_and_gaussians_compose(times):
    """Together with responses, delta is the mean over their losses: above that of true Gaussians, and close to it."""
    channel, mu = ResponseChannel.at(2, 0.75), 1.2
    noisy = [(gaussian(mu * mu / 6), None)] * 3
    found = Composition.of([*noisy, *[(charge(channel.epsilon), channel)] * times])
    loss, half = PrivacyLoss.of(channel), float(PrivacyLoss.of(channel).odds * PrivacyLoss.of(channel).least)
    laws = [(math.comb(times, k) * half**k * (1 - half) ** (times - k), (2 * k - times)) for k in range(times + 1)]
    size = math.log(loss.odds)

    def mean(delta, epsilon):
        return sum(mass * delta(epsilon - net * size) for mass, net in laws)

    for epsilon in (0.0, 0.5, 2.0, 6.0):
        assert found.delta_at(epsilon) >= mean(lambda x: hockey_stick(mu, x), epsilon)
        array = mean(lambda x: concentrated.concentrated_delta(mu * mu / 2, np.array([x]))[0], epsilon)
        assert found.delta_at(epsilon) == pytest.approx(float(array), rel=1e-9)
    exact = root(lambda epsilon: mean(lambda x: hockey_stick(mu, x), epsilon), 1e-6)
    assert exact <= found.epsilon_at(1e-6) <= 1.1 * exact


def test_the_grid_bounds_compositions_with_gaussians(monkeypatch):
    """Where losses are put on a grid, delta is at least what it is without, and close."""
    from labeldp.privacy.accounting import _composition as composition  # noqa: PLC0415 (its settings are changed here)

    channels = [ResponseChannel.at(3, e) for e in (0.3, 0.7, 0.45)]
    pairs = [(gaussian(0.1), None), *((charge(channel.epsilon), channel) for channel in channels)]
    exact = [Composition.of(pairs).delta_at(epsilon) for epsilon in (0.0, 0.5, 1.5)]
    monkeypatch.setattr(composition, "_MOST_VALUES", 0)
    monkeypatch.setattr(composition, "_POINTS", 256)
    found = [Composition.of(pairs).delta_at(epsilon) for epsilon in (0.0, 0.5, 1.5)]
    assert all(e * (1 - 1e-13) <= f <= e + 1e-3 for e, f in zip(exact, found, strict=True))


def test_epsilons_are_found_beyond_the_sum():
    """A delta below the sum of deltas has an epsilon above their sum, but not below what fails without a rho."""
    noisy = [(charge(0.5, 1e-3, 0.02), None)] * 4
    found = Composition.of(noisy)
    assert found.delta == 4e-3
    assert found.epsilon < found.epsilon_at(1e-12) < 5
    assert found.delta_at(found.epsilon_at(1e-12)) <= 1e-12
    mixed = Composition.of([*noisy, (charge(0.1, 1e-9), None)])
    assert mixed.epsilon_at(1e-12) == math.inf
    assert mixed.epsilon_at(2e-9) < math.inf
    assert found.epsilon_at(0.0) == math.inf
    assert Composition.of([(charge(0.0, 0.1, 0.02), None)]).epsilon_at(1e-6) < 2


def test_sums_still_hold():
    """At the sum of epsilons delta is never above the sum of deltas, however loose the rhos are."""
    found = Composition.of([(charge(1.0, 1e-6, 9.0), None)] * 2)
    assert (found.epsilon, found.delta) == (2.0, 2e-6)
    assert found.delta_at(2.0) == 2e-6
    assert found.epsilon_at(2e-6) == 2.0


def test_a_pure_charge_counts_as_whichever_is_less():
    """A pure charge with a rho costs no more than the worst of its epsilon, and no more than its rho."""
    pairs = [(charge(0.5, rho=rho), None) for rho in (0.01,) * 40]
    both = Composition.of(pairs).epsilon_at(1e-6)
    assert both == Composition.of([(gaussian(0.01), None)] * 40).epsilon_at(1e-6)
    assert both < Composition.of([(charge(0.5), None)] * 40).epsilon_at(1e-6)
    few = Composition.of([(charge(0.5, rho=0.2), None)])
    assert few.epsilon_at(1e-6) == Composition.of([(charge(0.5), None)]).epsilon_at(1e-6) <= 0.5
    assert few.delta_at(0.5) == 0.0


def test_disjoint_rows_do_not_add_their_rhos():
    """Gaussian queries about other rows cost the most of one row."""
    one, other = RowRanges(((0, 5),)), RowRanges(((5, 9),))
    few = [(charge(1.0, 1e-6, 0.1, rows=one), None)] * 3
    more = few + [(charge(1.0, 1e-6, 0.1, rows=other), None)] * 2
    assert Composition.of(more).epsilon_at(1e-7) == Composition.of(few).epsilon_at(1e-7)
