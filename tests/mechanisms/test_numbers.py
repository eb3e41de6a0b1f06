"""Randomizers of numbers: their laws exactly, theory's variances, the plain linear programme and brute force."""

import itertools
import warnings
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.optimize

import labeldp as dp
from labeldp.errors import EpsilonError, PriorError
from labeldp.mechanisms.randomizers import _column_generation as _columns
from labeldp.mechanisms.randomizers import _optimal
from labeldp.mechanisms.randomizers._optimal import SolverWarning
from labeldp.privacy.channels import PARTS, bin_channel, laplace_channel, one_bit_channel, piecewise_channel

#: The mean variance over labels that are spread evenly on [-1, 1], at 21 points: epsilon, and the linear programme.
OPTIMAL = [(0.25, 64.0), (0.5, 16.0), (1.0, 3.91), (2.0, 0.787), (4.0, 0.108), (6.0, 0.022)]
UNBIASED = {
    "laplace": dp.LaplaceResponse,
    "one-bit": dp.OneBitResponse,
    "piecewise": dp.PiecewiseResponse,
    "optimal": dp.OptimalResponse,
    "minimax": dp.MinimaxResponse,
}
CLOSED = {"laplace": laplace_channel, "one-bit": one_bit_channel, "piecewise": piecewise_channel}


def on_two(channel):
    """The variance given each grid point, for a range of length 2."""
    return channel.variances * (2 / (channel.classes - 1)) ** 2


def evenly(channel):
    """The mean variance over labels that are spread evenly over [-1, 1]."""
    return float(on_two(channel) @ _columns.even(channel.classes - 1))


def exact_means(channel):
    """The mean of a released number at each knot, in grid steps, exactly."""
    word = 1 << channel.bits
    return [
        Fraction(sum(w * v for w, v in zip(row, channel.values, strict=True)), word * PARTS) for row in channel.weights
    ]


@pytest.mark.parametrize("points", [2, 6, 41, 101])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("case", UNBIASED)
def test_numbers_are_unbiased_and_keep_the_epsilon_exactly(case, epsilon, points):
    """In fractions, the mean at every knot is the knot up to 2**-30 steps, and no ratio of weights exceeds e."""
    channel = UNBIASED[case](dp.Interval(0, points - 1, 1), epsilon).channel()
    gap = Fraction(points - 1, len(channel.weights) - 1)
    assert all(abs(mean - i * gap) < Fraction(1, 1 << 30) for i, mean in enumerate(exact_means(channel)))
    ratio = max(Fraction(max(column), min(column)) for column in zip(*channel.weights, strict=True))
    with mpmath.workdps(60):
        assert mpmath.mpf(ratio.numerator) / ratio.denominator <= mpmath.exp(epsilon)
    assert channel.epsilon <= epsilon <= channel.epsilon * (1 + 1e-9)
    assert np.abs(channel.means - np.arange(points)).max() < 1e-6


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("points", [2, 3, 6])
@pytest.mark.parametrize("case", CLOSED)
def test_laws_in_words_of_16_bits_are_nearly_those_of_64(case, points, epsilon):
    """The same rules give laws whose words can be counted: within the epsilon, and close to the finer ones."""
    coarse, fine = (CLOSED[case](points, epsilon, bits) for bits in (16, 64))
    assert 0.99 * epsilon <= coarse.epsilon <= epsilon
    assert np.abs(coarse.chances - fine.chances).max() < 1e-3
    assert coarse.bias < 0.02


def test_variances_are_those_of_theory():
    """At epsilon 1: Laplace at most 8, less by its merged ends; one bit 4.32; windows at most 4.25; optimal 3.91.

    One bit at 21 points has the closed form ``B**2 - mean of y**2`` with ``B = coth(1/2)``.
    """
    space = dp.Interval(-1, 1, 0.1)
    reach = 1 / np.tanh(0.5)
    assert evenly(dp.OneBitResponse(space, 1.0).channel()) == pytest.approx(reach**2 - 0.335, abs=1e-9)
    assert evenly(dp.OneBitResponse(dp.Interval(-1, 1, 0.001), 1.0).channel()) == pytest.approx(4.35, abs=0.005)
    assert 5.0 < evenly(dp.LaplaceResponse(space, 1.0).channel()) < 5.5
    assert evenly(dp.PiecewiseResponse(space, 1.0).channel()) < 4.25
    for epsilon, published in ((2.0, 0.859), (4.0, 0.142), (6.0, 0.040)):
        assert evenly(dp.PiecewiseResponse(space, epsilon).channel()) < published
    assert evenly(dp.PiecewiseResponse(space, 1e-3).channel()) > evenly(dp.OneBitResponse(space, 1e-3).channel())


@pytest.mark.parametrize(("epsilon", "published"), OPTIMAL)
def test_the_optimal_law_has_the_published_variance(epsilon, published):
    """At 21 points, each as likely as the others, its mean variance is that of theory to its three digits."""
    channel = dp.OptimalResponse(dp.Interval(-1, 1, 0.1), epsilon, np.full(21, 1 / 21)).channel()
    assert on_two(channel).mean() == pytest.approx(published, rel=6e-3)


def merged_laplace(pieces, epsilon):
    """Chances and numbers of the discrete Laplace law with merged ends, by summing the law itself far out."""
    fall = np.exp(-epsilon / pieces)
    noise = np.arange(-20_000, 20_001)
    chance = (1 - fall) / (1 + fall) * fall ** np.abs(noise)
    rows = [np.bincount(np.clip(noise + i, 0, pieces), chance, pieces + 1) for i in range(pieces + 1)]
    low = noise <= 0
    return np.array(rows), (chance[low] * noise[low]).sum() / chance[low].sum()


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_merged_ends_are_those_of_the_laplace_law(epsilon):
    """Added up far beyond the range, the noise gives the same chances, and the mean of what is below the first knot."""
    channel = laplace_channel(6, epsilon)
    rows, below = merged_laplace(5, epsilon)
    assert channel.chances == pytest.approx(rows, abs=1e-12)
    assert channel.steps[0][[0, -1]] == pytest.approx([below, 5 - below], rel=1e-9)


def plain_programme(prior, epsilon, numbers):
    """The least mean variance for numbers on a grid, by the programme of the paper, on labels from -1 to 1."""
    knots, outcomes = len(prior), len(numbers)
    places, size = np.linspace(-1, 1, knots), knots * outcomes
    cost = np.concatenate([(prior[:, None] * (numbers - places[:, None]) ** 2).ravel(), np.zeros(outcomes)])
    every = np.kron(np.eye(knots), np.ones(outcomes))
    means = np.kron(np.eye(knots), numbers)
    equal = np.concatenate([np.column_stack([part, np.zeros((knots, outcomes))]) for part in (every, means)])
    least = np.tile(np.eye(outcomes), (knots, 1))
    bounds = np.concatenate(
        [np.column_stack([-np.eye(size), least]), np.column_stack([np.eye(size), -np.exp(epsilon) * least])]
    )
    asked = np.concatenate([np.ones(knots), places])
    return scipy.optimize.linprog(cost, bounds, np.zeros(2 * size), equal, asked, bounds=(0, None)).fun


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_no_law_on_a_grid_of_numbers_has_less_variance(epsilon, skewed):
    """The plain programme, at the numbers that were found and between them, finds nothing 1/1000 below."""
    prior = np.arange(1, 6) ** (2.0 if skewed else 0.0)
    prior /= prior.sum()
    channel = dp.OptimalResponse(dp.Interval(-1, 1, 0.5), epsilon, prior).channel()
    found = float(on_two(channel) @ prior)
    numbers = channel.steps[0] / 2 - 1
    wide = 1.2 * np.abs(numbers).max()
    least = plain_programme(prior, epsilon, np.unique(np.concatenate([numbers, np.linspace(-wide, wide, 41)])))
    assert least * (1 - 1e-7) <= found <= least * (1 + 1.1e-3)


def test_the_worst_label_has_less_variance_where_it_is_asked_for():
    """Its largest variance is below that of every other law, and its mean is above that of the least mean."""
    space = dp.Interval(-1, 1, 0.1)
    for epsilon, largest in ((1.0, 4.0), (4.0, 0.132)):
        worst = on_two(dp.MinimaxResponse(space, epsilon).channel())
        assert worst.max() < largest
        for other in (dp.LaplaceResponse, dp.OneBitResponse, dp.PiecewiseResponse, dp.OptimalResponse):
            channel = other(space, epsilon).channel()
            assert worst.max() < on_two(channel).max()
        assert evenly(dp.MinimaxResponse(space, epsilon).channel()) > evenly(channel)


def test_the_best_response_is_the_least_of_all():
    """Without a prior no other has a smaller largest variance, with one none a smaller mean; it says what it is."""
    prior = np.linspace(1, 3, 11)
    prior /= prior.sum()
    for epsilon, name in ((0.05, "one-bit"), (1.0, "minimax"), (5.0, "minimax"), (14.0, "piecewise")):
        for points in (11, 201):
            space = dp.Interval(0, points - 1, 1)
            best = dp.best_number_response(space, epsilon)
            assert best.name == name
            for other in (dp.LaplaceResponse, dp.OneBitResponse, dp.PiecewiseResponse):
                assert best.channel().variances.max() <= other(space, epsilon).channel().variances.max() * (1 + 1e-9)
        known = dp.best_number_response(dp.Interval(0, 10, 1), epsilon, prior).channel()
        for other in (dp.LaplaceResponse, dp.OneBitResponse, dp.PiecewiseResponse):
            assert (
                known.variances @ prior <= other(dp.Interval(0, 10, 1), epsilon).channel().variances @ prior * 1.000001
            )


def test_a_failing_solver_leaves_a_law_in_closed_form_and_says_so(monkeypatch):
    """Where the programme is not solved, the epsilon is kept by another law, whose name is shown."""
    _optimal._solved_columns.cache_clear()
    monkeypatch.setattr(scipy.optimize, "linprog", lambda *_, **__: scipy.optimize.OptimizeResult(status=4))
    with pytest.warns(SolverWarning, match="the mechanism 'piecewise' is used instead"):
        randomizer = dp.OptimalResponse(dp.Interval(0, 7, 1), 1.5)
    assert randomizer.used == "piecewise"
    assert randomizer.channel().weights == piecewise_channel(8, 1.5).weights
    with pytest.warns(SolverWarning):
        assert dp.best_number_response(dp.Interval(0, 7, 1), 1.5).name in {"one-bit", "piecewise"}
    _optimal._solved_columns.cache_clear()


@pytest.mark.parametrize("seed", [1, 4, 6, 12, 18])
def test_points_that_a_prior_almost_excludes_do_not_stop_the_solver(seed):
    """A prior from noisy counts has zeros, and beside them what rounding left; the programme is solved all the same."""
    prior = np.zeros(33)
    prior[np.random.default_rng(seed).integers(0, 33, 12)] = 1 / 12
    prior[27:] = [0, 1e-17, 0, 0, 0, 0]
    prior /= prior.sum()
    assert dp.OptimalResponse(dp.Interval(0, 32, 1), 1.5, prior).used == "linear programme"


def test_a_wrong_solution_costs_accuracy_and_no_privacy(monkeypatch):
    """Masses that are no law at all give no channel: integers decide, and a law in closed form is used."""
    _optimal._solved_columns.cache_clear()
    monkeypatch.setattr(
        _optimal,
        "least_variance",
        lambda prior, epsilon, worst: _columns.RestrictedProgramme(  # noqa: ARG005 (a stub)
            np.array([-3.0, 0.0, 3.0]), np.eye(len(prior), 3, dtype=np.bool_), np.array([0.3, 0.1, 0.2])
        ),
    )
    with pytest.warns(SolverWarning):
        randomizer = dp.OptimalResponse(dp.Interval(0, 6, 1), 1.5)
    assert randomizer.used != "linear programme"
    assert randomizer.channel().epsilon <= 1.5
    _optimal._solved_columns.cache_clear()


def test_the_same_is_found_again():
    """A search is deterministic: without what the process keeps, the integers are the same."""
    first = dp.OptimalResponse(dp.Interval(0, 12, 1), 1.25).channel()
    _optimal._solved_columns.cache_clear()
    again = dp.OptimalResponse(dp.Interval(0, 12, 1), 1.25).channel()
    assert first.weights == again.weights
    assert first.values == again.values


@pytest.mark.parametrize(
    ("prior", "said"),
    [
        (np.full(4, 0.25), r"a prior of 5 numbers, one for each grid point, found shape \(4,\)"),
        (np.full((5, 1), 0.2), r"found shape \(5, 1\)"),
        (np.full(5, 0.3), "sum to 1"),
        ([0.5, 0.6, -0.1, 0.0, 0.0], "sum to 1"),
        ([np.nan] * 5, "sum to 1"),
        ("abc", "a prior of the 5 grid points as numbers"),
    ],
)
@pytest.mark.usefixtures("as_users_call")
def test_a_prior_of_another_grid_is_refused(prior, said):
    """A prior has one probability for each grid point, and what was expected is said."""
    for kind in (dp.BinResponse, dp.OptimalResponse):
        with pytest.raises(PriorError, match=said):
            kind(dp.Interval(0, 4, 1), 1.0, prior)


def error_of(prior, starts, epsilon):
    """The expected squared error of randomized response over bins with the best number for each."""
    points, rest, total = np.arange(len(prior)), np.exp(-epsilon), 0.0
    for start, end in itertools.pairwise([*starts, len(prior)]):
        weights = prior * rest
        weights[start:end] = prior[start:end]
        total += weights @ (points - weights @ points / weights.sum()) ** 2
    return total / (1 + (len(starts) - 1) * rest)


def test_bins_are_the_best_of_all_bins():
    """For random priors on up to seven points, no other way to cut them into bins has a smaller squared error."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        points, epsilon = int(rng.integers(2, 8)), float(rng.choice([0.01, 0.5, 1.0, 2.0, 5.0]))
        prior = rng.dirichlet(np.full(points, rng.choice([0.2, 1.0, 5.0])))
        channel = dp.BinResponse(dp.Interval(0, points - 1, 1), epsilon, prior).channel()
        cuts = itertools.chain.from_iterable(itertools.combinations(range(1, points), n) for n in range(points))
        least = min(error_of(prior, [0, *cut], epsilon) for cut in cuts)
        error = prior @ (channel.variances + (channel.means - np.arange(points)) ** 2)
        assert error == pytest.approx(least, rel=1e-8)
        assert channel.epsilon <= epsilon


@pytest.mark.parametrize("epsilon", [0.7, 2.5])
def test_no_randomizer_has_a_smaller_squared_error_than_bins(epsilon):
    """For five points, a linear programme over all epsilon-DP laws on a fine grid of numbers finds nothing better."""
    prior = np.array([0.4, 0.1, 0.1, 0.15, 0.25])
    channel = dp.BinResponse(dp.Interval(0, 4, 1), epsilon, prior).channel()
    found = prior @ (channel.variances + (channel.means - np.arange(5)) ** 2)
    numbers = np.union1d(np.linspace(0, 4, 81), channel.steps[0])
    cost = np.append((prior[:, None] * (numbers - np.arange(5)[:, None]) ** 2).ravel(), np.zeros(numbers.size))
    size, least = 5 * numbers.size, np.tile(np.eye(numbers.size), (5, 1))
    bounds = np.concatenate(
        [np.column_stack([-np.eye(size), least]), np.column_stack([np.eye(size), -np.exp(epsilon) * least])]
    )
    equal = np.column_stack([np.kron(np.eye(5), np.ones(numbers.size)), np.zeros((5, numbers.size))])
    best = scipy.optimize.linprog(cost, bounds, np.zeros(2 * size), equal, np.ones(5), bounds=(0, None)).fun
    assert best * (1 - 1e-7) <= found <= best * (1 + 1e-6)


def test_a_sure_prior_says_nothing_of_the_label():
    """Where the prior knows the label there is one bin, and what is released does not depend on the label."""
    channel = dp.BinResponse(dp.Interval(0, 4, 1), 1.0, [0, 0, 1, 0, 0]).channel()
    assert (channel.starts, channel.epsilon, channel.steps[0].tolist()) == ((0,), 0.0, [2.0])
    with pytest.raises(EpsilonError):
        bin_channel(5, [0], [0], 1e-300)


@pytest.mark.parametrize("kind", [dp.LaplaceResponse, dp.OneBitResponse, dp.PiecewiseResponse, dp.OptimalResponse])
@pytest.mark.parametrize("epsilon", [1e-300, 1e-25, 60.0, 700.0])
def test_an_epsilon_beyond_the_words_is_refused_at_once(kind, epsilon):
    """Whoever asks every randomizer for any epsilon gets an error of ours, and no warning before it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(EpsilonError, match="integers of a 64-bit word"):
            kind(dp.Interval(0, 1000, 1), epsilon)
