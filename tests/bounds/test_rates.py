"""Table 1 of Zhao et al. 2025, and the theorems that its entries come from."""

import math

import pytest

from labeldp import Classes, Interval
from labeldp.bounds import limits, rate, rate_table, rows_to_name
from labeldp.bounds.planning import Conventions
from labeldp.bounds.theorems import (
    LabelTails,
    Regularity,
    classification_lower,
    classification_upper,
    regression_lower,
    regression_upper,
)
from labeldp.errors import InputError

SETTINGS = ("non-private", "local", "central", "local-full", "central-full")
PROBLEMS = ("classification", "regression", "heavy-tailed")
POINTS = [(1.0, 1.0, 1.0, 2.0), (0.5, 0.3, 3.0, 2.5), (0.8, 2.0, 7.0, 6.0)]


def printed(b, g, d, p):
    """The exponents of N and of epsilon beside the rate without privacy, as the table writes them."""
    heavy = p - 1
    return {
        ("local", "classification"): (b * (g + 1) / (2 * b + d), 2),
        ("local", "regression"): (2 * b / (2 * b + d), 2),
        ("local", "heavy-tailed"): (2 * b * heavy / (2 * p * b + d * heavy), 2),
        ("central", "classification"): (b * (g + 1) / (b + d), 1),
        ("central", "regression"): (2 * b / (b + d), 1),
        ("central", "heavy-tailed"): (2 * b * heavy / (p * b + d * heavy), 1),
        ("central-full", "classification"): (b * (g + 1) / (b + d), 1),
        ("central-full", "regression"): (2 * b / (b + d), 1),
        ("central-full", "heavy-tailed"): (2 * b * heavy / (p * b + d * heavy), 1),
        ("local-full", "classification"): (b * (g + 1) / (2 * b + 2 * d), 2),
        ("local-full", "regression"): (b / (b + d), 2),
        ("local-full", "heavy-tailed"): (b * heavy / (p * b + d * heavy), 2),
    }


@pytest.mark.parametrize("point", POINTS)
def test_the_table_is_the_papers(point):
    """Fifteen entries: the exponents that are written out above, and the rate without privacy in each."""
    b, g, d, p = point
    table = rate_table(b, g, d, p)
    assert set(table) == {(setting, problem) for setting in SETTINGS for problem in PROBLEMS}
    for (setting, problem), found in table.items():
        plain = (b * (g + 1) if problem == "classification" else 2 * b) / (2 * b + d)
        assert found.terms[0].rows == pytest.approx(plain)
        assert found.terms[0].epsilon == 0
        if setting != "non-private":
            exponent, power = printed(*point)[setting, problem]
            assert found.terms[1].rows == pytest.approx(exponent)
            assert found.terms[1].epsilon == pytest.approx(power * exponent)
            assert found.at(10**6, 0.1) == pytest.approx(max(1e6**-plain, (1e6 * 0.1**power) ** -exponent))
        assert len(found.terms) == 1 + (setting != "non-private")


@pytest.mark.parametrize("setting", SETTINGS[1:])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_more_rows_and_more_epsilon_never_hurt(setting, problem):
    """A rate falls with rows and does not grow with epsilon."""
    found = rate(setting, problem, dimension=3, moments=2.5)
    by_rows = [found.at(10**i, 0.3) for i in range(2, 9)]
    by_epsilon = [found.at(10**5, 0.01 * 2**i) for i in range(12)]
    assert by_rows == sorted(by_rows, reverse=True)
    assert len(set(by_rows)) == 7
    assert by_epsilon == sorted(by_epsilon, reverse=True)


@pytest.mark.parametrize("setting", ["local", "central"])
@pytest.mark.parametrize("labels", [LabelTails(), LabelTails(moments=3.0)], ids=["bounded", "heavy"])
def test_upper_bounds_fall_as_the_table_says(setting, labels):
    """If privacy dominates, the error with the best sizes has the table's slopes in N and epsilon, like the lower."""
    regularity = Regularity(dimension=2.0, smoothness=0.9)
    problem = "heavy-tailed" if labels.heavy else "regression"
    power = rate(setting, problem, beta=0.9, dimension=2.0, moments=labels.moments).terms[1]
    small = 1e-6 if setting == "local" else 1e-9
    for bound in (regression_lower, regression_upper):
        base = bound(setting, 10**18, small, regularity, labels).value
        by_rows = math.log10(base / bound(setting, 10**16, small, regularity, labels).value) / 2
        by_epsilon = math.log10(bound(setting, 10**18, 10 * small, regularity, labels).value / base)
        assert by_rows == pytest.approx(-power.rows, rel=0.02)
        assert by_epsilon == pytest.approx(-power.epsilon, rel=0.02)
    found = regression_upper(setting, 10**18, small, regularity, labels)
    assert (found.kind, found.constants) == ("upper", "conventional")
    assert found.value > regression_lower(setting, 10**18, small, regularity, labels).value


def test_sizes_of_regression_worked_out():
    """k, h and T solve their balances: in one dimension with beta 1, T 1 and epsilon 1 they are worked out here."""
    line = Regularity(dimension=1.0)
    found = regression_upper("local", 9000, 1.0, line)
    # C = (1/2)^2, V = 1 + 8, two rows in a ball of length 2: k^3 = V / (2 C) * (2 N)^2
    assert found.size("neighbours") == math.ceil((9 / 0.5 * 18000**2) ** (1 / 3)) == 1800
    assert found.value == pytest.approx(0.25 * (1800 / 18000) ** 2 + 9 / 1800)
    found = regression_upper("central", 10**6, 0.5, line)
    m = found.size("rows in a cell")
    # derivative of (m/N)^2 / 12 + 1 / m + 8 / (eps m)^2
    assert m / 6 / 1e12 == pytest.approx(1 / m**2 + 2 * 32 / m**3, rel=1e-4)
    assert found.size("width") == pytest.approx(m / 1e6)
    found = regression_upper("central", 10**6, 0.5, line, LabelTails(2.0, moments=3.0))
    held, clip = found.size("rows in a cell"), found.size("clip")

    def error(m, t):
        return (m / 1e6) ** 2 / 12 + 2 ** (2 / 3) / m + 8 * t**2 / (0.5 * m) ** 2 + (4 / 27 * 2 * t**-2) ** 2

    assert found.value == pytest.approx(error(held, clip))
    for m, t in [(1.02, 1), (0.98, 1), (1, 1.02), (1, 0.98)]:
        assert error(held * m, clip * t) > found.value
    found = regression_upper("local", 10**6, 0.5, line, LabelTails(2.0, moments=3.0))
    k, clip = found.size("neighbours"), found.size("clip")
    assert clip == pytest.approx((2 * (4 / 27 * 2) ** 2 * k / 32) ** (1 / 6))


def test_the_clipping_bias_is_sharp():
    """The constant of the clipping level bounds E max(Y - T, 0) for every law of two points, and is reached by one."""
    from labeldp._smoothing import clip_constant  # noqa: PLC0415

    for p in (2.0, 3.0, 4.5):
        lost = []
        for far in [1.0 + 0.01 * i for i in range(1, 400)]:
            chance = far**-p  # of the point `far`, so that E Y^p is 1
            lost.append(chance * (far - 1.0))
        assert max(lost) <= clip_constant(p)
        assert max(lost) == pytest.approx(clip_constant(p), rel=1e-3)
    assert [round(clip_constant(p), 3) for p in (2, 3, 4)] == [0.25, 0.148, 0.105]


def test_classification_worked_out():
    """Theorems 2 and 4 with their constants, at two cells of a line, with numbers worked out here."""
    line = Regularity(dimension=1.0, lipschitz=0.1)
    found = classification_upper("local", 2000, 1.0, 2, line, failure=0.1, sides=2, rows_in_cell=900)
    off = 0.05 + math.sqrt(math.log(2 * 2 * 2 / 0.1) / 1800) / math.tanh(0.25)
    assert found.size("delta") == pytest.approx(off)
    assert found.value == pytest.approx((2 * off) ** 2)
    assert found.constants == "proven"
    found = classification_upper("central", 2000, 0.5, 3, line, failure=0.1, sides=2, rows_in_cell=900)
    off = 0.05 + math.sqrt(math.log(4 * 3 * 2 / 0.1) / 1800) + math.log(2 * 3 * 2 / 0.1) / (0.5 * 900)
    assert found.size("delta") == pytest.approx(off)
    assert found.value == pytest.approx((2 * off) ** 2)
    assert rows_to_name(2, 1.0, 1.0, 0.5) == (math.ceil(2 * math.log(2)), math.ceil(8 * math.log(4)))


@pytest.mark.parametrize("setting", ["local", "central"])
@pytest.mark.parametrize("dimension", [0.01, 500.0, 1e6])
def test_dimensions_of_any_size_have_bounds(setting, dimension):
    """Features of hundreds of columns have hundreds of dimensions, in which the unit ball is smaller than any float."""
    for space in (Classes(range(5)), Interval(0, 100, 1)):
        found = limits(space, 10**6, 1.0, trust=setting, conventions=Conventions(dimension))
        assert all(math.isfinite(each.value) for each in found.bounds)


@pytest.mark.parametrize("setting", ["local", "central"])
def test_the_best_sides_are_the_best(setting):
    """No other whole number of sides gives a smaller bound, and the bound is at least that of the theorem below it."""
    plane = Regularity(dimension=2.0, lipschitz=0.5)
    found = classification_upper(setting, 10**7, 0.2, 5, plane)
    best = found.size("sides")
    assert best > 2
    assert all(
        classification_upper(setting, 10**7, 0.2, 5, plane, sides=s).value >= found.value
        for s in range(1, 3 * int(best))
    )
    lower = classification_lower(setting, 10**7, 0.2, plane)
    assert lower.value <= found.value
    assert lower.kind == "lower"


def test_the_bits_of_theorem_2_are_estimated_as_closely_as_it_says():
    """In a cell, the estimated chance of a class is off by more than Delta in no more than the failures it allows.

    Exactly, for n rows of one law: the number of bits that are set is binomial, and K classes may each fail.
    """
    n, classes, epsilon, failure = 60, 2, 1.0, 0.2
    flat = Regularity(dimension=1.0, lipschitz=1e-12)
    off = classification_upper("local", n, epsilon, classes, flat, failure, sides=1, rows_in_cell=n).size("delta")
    p = math.exp(epsilon / 2) / (1 + math.exp(epsilon / 2))
    for share in (0.1, 0.5, 0.9):
        chance = p * share + (1 - p) * (1 - share)
        law = [math.comb(n, i) * chance**i * (1 - chance) ** (n - i) for i in range(n + 1)]
        failing = sum(mass for i, mass in enumerate(law) if abs((i / n - (1 - p)) / (2 * p - 1) - share) > off)
        assert 0 < failing <= failure / classes


@pytest.mark.parametrize(
    "make",
    [
        lambda: Regularity(dimension=0.0),
        lambda: Regularity(dimension=math.inf),
        lambda: Regularity(1.0, smoothness=1.5),
        lambda: Regularity(1.0, smoothness=0.0),
        lambda: Regularity(1.0, margin=-0.1),
        lambda: Regularity(1.0, density=2.0),
        lambda: rate("local", "heavy-tailed", moments=1.9),
        lambda: rate("both", "regression"),
        lambda: rate("local", "clustering"),
        lambda: LabelTails(moments=1.5),
        lambda: LabelTails(moments=math.nan),
        lambda: classification_lower("local", 100, 1.0, Regularity(1.0, margin=1.5)),
        lambda: classification_upper("local", 100, 1.0, 2, Regularity(1.0), failure=0.0),
        lambda: regression_upper("local", 0, 1.0, Regularity(1.0)),
        lambda: LabelTails(-1.0),
        lambda: LabelTails(variance=0.0),
        lambda: regression_upper("both", 10, 1.0, Regularity(1.0)),
        lambda: classification_lower("local-full", 10, 1.0, Regularity(1.0)),
        lambda: rows_to_name(3, 1.0, 0.0),
    ],
)
def test_numbers_outside_the_theorems(make):
    """Parameters outside a theorem's assumptions are refused with a message."""
    with pytest.raises(InputError, match=r"expected .* found"):
        make()


def test_json_holds_a_bound():
    """A bound is written with all of its parts."""
    found = regression_upper("central", 1000, 1.0, Regularity(2.0)).to_json()
    assert found["theorem"] == "Zhao et al. 2025, theorem 8"
    assert set(found["sizes"]) == {"rows in a cell", "width"}
    assert found["kind"] == "upper"
