"""Forecasts, against integrals, naive searches and laws written out."""

import dataclasses
import json
import math
from statistics import NormalDist

import numpy as np
import pytest

from labeldp import Classes, Interval
from labeldp.bounds import Conventions, effective_dimension, forecast, free_epsilon, plan
from labeldp.bounds.planning._curves import CellCurve, LinearCurve, excess_risk
from labeldp.errors import EpsilonError, InputError, LabelDPError

SCALE = Interval(0, 10, 1)
LETTERS = Classes(["a", "b", "c", "d"])


@pytest.mark.parametrize("margin", [0.4, 1.0, 2.5])
@pytest.mark.parametrize("deviation", [0.03, 0.4])
def test_the_excess_risk_is_the_integral(margin, deviation):
    """The closed form is the mean of what a wrong class costs, over gaps and over normal errors."""
    t = np.linspace(0, 12 * deviation, 400_001)[1:]
    wrong = np.array([math.erfc(x) / 2 for x in (t / deviation / math.sqrt(2))[::100]])
    rest = t[::100]
    integral = np.trapezoid(rest**margin * margin * wrong, rest)
    assert excess_risk(deviation**2, margin) == pytest.approx(integral, rel=2e-3)
    assert excess_risk(deviation**2, 1.0) == pytest.approx(deviation**2 / 4)


def test_a_linear_curve_is_that_of_shrunk_least_squares():
    """Least squares shrunk by James and Stein's factor errs by no more than the curve says, and by half of it at least.

    The coefficients of 2 d standard normal features are drawn, and estimated from labels with noise; over 40 draws the
    mean error has a standard error of a few hundredths.
    """
    rng, rows, width, noise = np.random.default_rng(5), 600, 8, 6.0
    for strength in (0.2, 1.0, 3.0):
        squares, constant = [], []
        for _ in range(40):
            features, slopes = rng.normal(size=(rows, width)), np.full(width, strength / math.sqrt(width))
            labels = features @ slopes + rng.normal(size=rows) * math.hypot(1.0, noise)
            design = np.hstack([np.ones((rows, 1)), features])
            found, rest, *_ = np.linalg.lstsq(design, labels, rcond=None)
            shrunk = max(0.0, 1 - (width - 2) * rest[0] / rows / rows / (found[1:] @ found[1:])) * found[1:]
            squares.append(((shrunk - slopes) ** 2).sum())
            constant.append(found[0] ** 2)
        curve = LinearCurve(width / 2, 1.0, strength**2, furthest=99.0, most=strength)
        stated = curve.error(rows, noise**2) ** 2
        assert 0.5 * stated < np.mean(squares) + np.mean(constant) < 1.2 * stated
    mean = LinearCurve(0.0, 4.0, 0.0, furthest=0.5, most=0.5)
    assert mean.error(100, 21.0) == 0.5
    assert mean.error(400, 21.0) == 0.25
    assert mean.effective_rows(400, 12.0) == 100


@pytest.mark.parametrize("total", [0.0, 50.0])
def test_a_curve_is_the_best_of_all_cells(total):
    """No whole number of rows in a cell gives a smaller error, and clean rows give the same one."""
    curve = CellCurve(dimension=2.0, variance=4.0, lipschitz=3.0, smoothness=0.7, most=99.0)
    n, each = 3000, 5.0
    m = np.arange(1, n + 1)
    squares = 9 * 2**0.7 * (m / n) ** (1.4 / 2) + (4 + each) / m + total / m**2
    assert curve.error(n, each, total) == pytest.approx(math.sqrt(squares.min()), rel=1e-3)
    clean = curve.effective_rows(n, each, total)
    assert 1 < clean < n
    assert curve.error(clean) == pytest.approx(curve.error(n, each, total), rel=1e-5)
    assert curve.effective_rows(n, each) == pytest.approx(n * 4 / 9)
    mean = dataclasses.replace(curve, dimension=0.0)
    assert mean.error(n, each, total) == pytest.approx(math.sqrt(9 / n + total / n**2))
    assert dataclasses.replace(curve, most=0.01).error(1) == 0.01


def test_noise_is_that_of_the_laws():
    """In the local model every noise is a variance over outcomes; in the central one that of discrete Laplace noise."""
    from labeldp import OneBitResponse, RandomizedResponse  # noqa: PLC0415

    found = {option.mechanism: option for option in forecast(Interval(0, 5, 0.5), 900, 1.0, epsilons=()).options}
    space = Interval(0, 5, 0.5)
    table = OneBitResponse(space, 1.0).channel().table()
    numbers = OneBitResponse(space, 1.0).channel().numbers(table.outcomes) * 0.5
    spread = table.matrix @ numbers**2 - (table.matrix @ numbers) ** 2
    assert found["one-bit"].noise == pytest.approx(math.sqrt(spread.mean()), rel=1e-6)
    table = RandomizedResponse(space, 1.0).channel().table()
    numbers = RandomizedResponse(space, 1.0).channel().unbiased(table.outcomes) @ np.array(space.points)
    spread = table.matrix @ numbers**2 - (table.matrix @ numbers) ** 2
    assert found["randomized-response"].noise == pytest.approx(math.sqrt(spread.mean()), rel=1e-6)
    label = 2.5  # the variance of even labels on the grid, of which no features explain anything
    furthest = 6.25 - 25 / 12
    for option in found.values():
        assert option.share == pytest.approx(label / (label + option.noise**2))
        assert option.error == pytest.approx(min(math.sqrt(furthest), math.sqrt((label + option.noise**2) / 900)))
    central = {o.mechanism: o for o in forecast(space, 900, 1.0, trust="central").options}
    sum_variance = 25 * 2 * math.exp(-0.1) / (1 - math.exp(-0.1)) ** 2 / 100
    assert central["noisy-mean"].noise == pytest.approx(math.sqrt(sum_variance), rel=1e-6)
    count_variance = 2 * math.exp(-0.5) / (1 - math.exp(-0.5)) ** 2
    weight = sum((0.5 * i - 2.5) ** 2 for i in range(11))
    assert central["noisy-histogram"].noise == pytest.approx(math.sqrt(weight * count_variance), rel=1e-6)
    votes = {o.mechanism: o for o in forecast(LETTERS, 900, 0.5, trust="central").options}
    assert votes["noisy-argmax"].noise == pytest.approx(math.sqrt(8) / 0.5, rel=1e-6)
    assert votes["noisy-histogram"].noise == pytest.approx(
        math.sqrt(2 * 2 * math.exp(-0.25)) / (1 - math.exp(-0.25)), rel=1e-6
    )


@pytest.mark.parametrize("trust", ["local", "central"])
def test_a_target_of_classes_with_features_is_the_accuracy_lost(trust):
    """The epsilon, and the rows, of a target lose at most so much, as tables print it, and less of either more."""
    given = {"conventions": Conventions(dimension=3), "trust": trust, "epsilons": ()}
    found = forecast(LETTERS, 20_000, target=0.05, **given)
    assert 0.049 < found.best.lost_high <= 0.05
    assert forecast(LETTERS, 20_000, 0.97 * found.epsilon, **given).best.lost_high > 0.05
    asked = forecast(LETTERS, 20_000, 0.2, target=0.05, **given)
    assert forecast(LETTERS, asked.goal.rows, 0.2, **given).best.lost_high <= 0.05 * (1 + 1e-6)
    assert forecast(LETTERS, int(0.98 * asked.goal.rows), 0.2, **given).best.lost_high > 0.05


@pytest.mark.parametrize(
    ("space", "dimension"), [(SCALE, 0), (SCALE, 3), (LETTERS, 0)], ids=["mean", "numbers", "classes"]
)
@pytest.mark.parametrize("trust", ["local", "central"])
def test_a_target_is_reached_and_not_before(space, trust, dimension):
    """The epsilon of a target reaches it and a little less does not; so do the rows; and privacy costs something."""
    given = {"conventions": Conventions(dimension=dimension), "trust": trust, "epsilons": ()}
    clean = forecast(space, 2000, 1.0, **given).clean_error
    found = forecast(space, 2000, target=1.5 * clean, **given)
    assert found.goal.epsilon == found.epsilon
    assert clean < found.best.error <= 1.5 * clean
    assert forecast(space, 2000, 0.97 * found.epsilon, **given).best.error > 1.5 * clean
    assert found.goal.rows < 2000  # without privacy fewer do
    assert forecast(space, found.goal.rows, 1.0, **given).clean_error <= 1.5 * clean * (1 + 1e-6)
    asked = forecast(space, 2000, 0.2, target=1.5 * clean, **given)
    assert asked.epsilon == 0.2
    assert forecast(space, asked.goal.rows, 0.2, **given).best.error <= 1.5 * clean * (1 + 1e-6)
    assert forecast(space, int(0.98 * asked.goal.rows), 0.2, **given).best.error > 1.5 * clean
    lost = forecast(space, 2000, target=0.9 * clean, **given)
    assert (lost.epsilon, lost.goal.epsilon, lost.options, lost.best, lost.doubled) == (None, None, (), None, None)
    assert lost.goal.rows > 2000


@pytest.mark.parametrize("space", [SCALE, LETTERS], ids=["numbers", "classes"])
@pytest.mark.parametrize("trust", ["local", "central"])
def test_a_forecast_fits_together(space, trust):
    """The best has the smallest error, above that without privacy; more epsilon and rows never hurt."""
    found = forecast(space, 5000, 1.0, trust=trust, conventions=Conventions(dimension=2))
    assert [option.best for option in found.options].count(True) == 1
    assert found.best.error == min(option.error for option in found.options)
    assert found.clean_error < found.best.error
    assert found.clean_error < found.doubled + found.best.error
    more = forecast(space, 10_000, 1.0, trust=trust, conventions=Conventions(dimension=2)).best.error
    assert found.doubled == pytest.approx(more, rel=1e-12)
    assert more < found.best.error
    best = [min(option.error for option in row) for row in found.sweep]
    assert best == sorted(best, reverse=True)
    if space is SCALE and trust == "local":
        assert found.best.mechanism == "optimal"
        auto = next(option for option in found.options if option.auto)
        assert auto.mechanism == "minimax"
        assert found.best.noise <= auto.noise <= 1.03 * found.best.noise
    assert [option.auto for option in found.options].count(True) == (trust == "local")
    assert all(option.effective_rows <= 5000 and option.certified <= option.epsilon for option in found.options)
    nearly = forecast(space, 5000, found.free_epsilon, trust=trust, conventions=Conventions(dimension=2))
    fewer = forecast(space, 4500, 1.0, trust=trust, conventions=Conventions(dimension=2), epsilons=())
    assert nearly.best.error == pytest.approx(fewer.clean_error, rel=2e-3)
    assert trust == "local" or found.free_epsilon > free_epsilon(5000, 2)  # which is without constants
    assert json.loads(json.dumps(found.to_json()))["options"][0]["mechanism"] == found.options[0].mechanism
    assert any("conventional" in each for each in found.assumptions)


def test_few_points_stand_for_many():
    """A search on a few grid points and at a few epsilons agrees with one on many, up to two hundredths."""
    from labeldp.bounds.planning._noise_of_mechanisms import mechanism_noises  # noqa: PLC0415

    space = Interval(-3, 3, 0.25)
    for epsilon in (0.05, 0.5, 0.6, 2.0, 3.4, 12.0):
        exact = {each.mechanism: each.each for each in mechanism_noises(space, "local", epsilon)}
        rough = {each.mechanism: each.each for each in mechanism_noises(space, "local", epsilon, roughly=True)}
        assert rough == {**exact, "optimal": rough["optimal"], "minimax": rough["minimax"]}
        for name in ("optimal", "minimax"):
            assert rough[name] == pytest.approx(exact[name], rel=0.025)


def test_few_linear_programmes_answer_many_questions():
    """A sweep and searches share what was solved: an epsilon between two that were asks for no other programme."""
    from labeldp.bounds.planning._noise_of_mechanisms import _solved_squares, mechanism_noises  # noqa: PLC0415

    space = Interval(0, 7, 1)
    noise = {each: list(mechanism_noises(space, "local", each, roughly=True)) for each in (2.0, 2.8)}
    solved = _solved_squares.cache_info().misses
    between = {each: list(mechanism_noises(space, "local", each, roughly=True)) for each in (2.1, 2.4, 2.75)}
    assert _solved_squares.cache_info().misses == solved
    for found in between.values():
        for low, each, high in zip(noise[2.0], found, noise[2.8], strict=True):
            assert low.each > each.each > high.each


@pytest.mark.parametrize("trust", ["local", "central"])
def test_the_sweep_says_what_the_options_say(trust):
    """At the epsilon that was asked for, the sweep has the same numbers; at others it has its own."""
    found = forecast(
        Interval(0, 20, 1), 900, 2.0, trust=trust, epsilons=(1.0, 2.0), conventions=Conventions(dimension=2)
    )
    assert found.sweep[1] == found.options != found.sweep[0]


def test_errors_against_labels_have_their_spread_in_them():
    """Unexplained variance is added, and predicting the mean errs by the standard deviation of labels."""
    found = forecast(SCALE, 5000, 4.0, conventions=Conventions(dimension=2, explained=0.2))
    assert found.spread == pytest.approx(math.sqrt(10))
    assert found.unexplained == pytest.approx(found.spread * math.sqrt(0.8))
    assert found.against_labels(found.best.error) == pytest.approx(math.sqrt(found.best.error**2 + 8))
    assert found.clean_error < found.best.error < found.spread * math.sqrt(0.2)
    nothing = forecast(SCALE, 5000, 0.001, conventions=Conventions(dimension=2, explained=0.2))
    middle = math.sqrt(10 + 25 - 100 / 12)  # as bad as the middle of the range, for a mean anywhere
    assert [nothing.against_labels(each.error) for each in nothing.options] == [pytest.approx(middle)] * 6
    assert nothing.best is None
    mean = forecast(SCALE, 5000, 4.0, conventions=Conventions(spread=3.0, explained=0.9))
    assert (mean.spread, mean.unexplained) == (3.0, 3.0)
    assert mean.clean_error == pytest.approx(3 / math.sqrt(5000))
    assert forecast(LETTERS, 5000, 1.0).against_labels(0.1) == 0.1


def test_a_mean_is_no_better_than_released_labels_show_it():
    """Where noise hides what features explain, the error has that of the mean of released labels in it."""
    long_tail = Conventions(dimension=5, spread=14.0, explained=0.33)
    found = forecast(Interval(0, 1000, 1), 4000, 1.0, epsilons=(), conventions=long_tail)
    auto = next(each for each in found.options if each.auto)
    assert auto.test_error == pytest.approx(math.hypot(14.0, auto.noise / math.sqrt(4000)), rel=0.01)
    assert auto.test_error > 20.0
    wide = forecast(Interval(0, 1000, 1), 4000, 0.001, epsilons=(), conventions=long_tail)
    assert {round(each.test_error) for each in wide.options} == {500}  # no further than the middle of the range may be


def test_a_spread_scales_the_labels():
    """Labels of half the deviation have half the error without privacy, the same noise, and less to be learned."""
    even = forecast(SCALE, 5000, 1.0, epsilons=(), conventions=Conventions(dimension=2))
    same = forecast(SCALE, 5000, 1.0, epsilons=(), conventions=Conventions(dimension=2, spread=math.sqrt(10)))
    assert [each.error for each in same.options] == pytest.approx([each.error for each in even.options])
    assert (even.defaults, same.defaults) == (("shares", "explained"), ("explained",))
    assert same.assumptions != even.assumptions
    half = forecast(SCALE, 5000, 1.0, epsilons=(), conventions=Conventions(dimension=2, spread=math.sqrt(2.5)))
    assert half.clean_error == pytest.approx(even.clean_error / 2)
    assert half.best.noise == even.best.noise
    assert half.best.share < even.best.share
    assert any("a standard deviation of 1.581" in each for each in half.assumptions)
    few = forecast(SCALE, 1, 1.0, epsilons=(), conventions=Conventions(spread=4.9))
    assert few.free_epsilon is None  # clean rows teach nothing either


@pytest.mark.parametrize(
    ("space", "dimension", "worst"),
    [(SCALE, 2, math.sqrt(5)), (SCALE, 0, math.sqrt(25 - 100 / 12)), (LETTERS, 2, 0.75)],
    ids=["numbers", "mean", "classes"],
)
def test_what_learning_nothing_reaches(space, dimension, worst):
    """No epsilon is named for a target that saying the mean reaches, and where all are as bad as that, none is best."""
    given = {"conventions": Conventions(dimension=dimension), "epsilons": ()}
    trivial = forecast(space, 40, target=worst * 1.001, **given)
    assert trivial.goal.trivial
    assert (trivial.goal.rows, trivial.epsilon, trivial.options, trivial.best) == (0, None, (), None)
    found = forecast(space, 40, 0.01, target=worst * 0.999, **given)
    assert not found.goal.trivial
    assert all(each.error >= worst * (1 - 1e-9) for each in found.options)
    assert found.best is None
    assert forecast(space, 400, target=worst * 0.9, **given).best is not None


def test_a_plan_is_a_forecast_without_features():
    """For classes in the local model, mechanisms, shares and units of a plan are those of the forecast."""
    shares = (0.4, 0.3, 0.2, 0.1)
    assert plan(4, 777, 0.7, shares=shares) == forecast(LETTERS, 777, 0.7, conventions=Conventions(shares=shares))
    with_features = forecast(LETTERS, 777, 0.7, conventions=Conventions(2.0, shares=shares))
    same = ("mechanism", "certified", "effective_rows", "at_most", "truth_probability", "variance", "suspicion", "auto")
    assert [[getattr(row, name) for name in same] for row in with_features.over_epsilon] == [
        [getattr(row, name) for name in same] for row in plan(4, 777, 0.7, shares=shares).over_epsilon
    ]


def test_the_area_of_a_rare_class_falls_as_noise_on_its_scores_says():
    """Normal noise on normal scores, of the variance that adds the stated log loss, leaves the stated area."""
    random, share = np.random.default_rng(0), 0.02
    rows, conventions = 10_000, Conventions(4.0, shares=[1 - share, share])
    stated = next(
        option for option in forecast(Classes([0, 1]), rows, 2.0, conventions=conventions).options if option.auto
    )
    separation = math.sqrt(2) * NormalDist().inv_cdf(0.8)
    for times, area in zip((0.5, 4.0), (stated.area_high, stated.area_low), strict=True):
        variance = 2 * times * 5 / (2 * stated.effective_rows) / (share * (1 - share))
        scores = random.normal(size=(2, 200_000)) * separation + math.sqrt(variance) * random.normal(size=(2, 200_000))
        assert np.mean(scores[1] + separation**2 > scores[0]) == pytest.approx(area, abs=0.004)
    even = forecast(Classes([0, 1]), rows, 2.0, conventions=Conventions(4.0)).options[0]
    assert (even.area_low, even.area_high) == (None, None)


@pytest.mark.parametrize("columns", [1, 4])
def test_the_effective_dimension_of_known_features(columns):
    """Independent columns have all their dimensions, copies one; scale and constant columns do not matter."""
    assert effective_dimension(np.diag(10.0 ** np.arange(columns))).participation == pytest.approx(columns)
    copies = effective_dimension(np.outer(np.arange(1, columns + 1), np.arange(1, columns + 1)).astype(float))
    assert (copies.participation, copies.components) == (pytest.approx(1), 1)
    rng = np.random.default_rng(columns)
    mixed = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 8))
    found = effective_dimension(np.cov(np.hstack([mixed, np.ones((500, 1))]).T))
    assert found.columns == 8
    assert 1 < found.participation <= 3.0001
    assert found.components <= 3


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: forecast(SCALE, 100), InputError),
        (lambda: forecast(SCALE, 100, 1.0, trust="nobody"), InputError),
        (lambda: forecast(SCALE, 100, 1.0, conventions=Conventions(dimension=-1)), InputError),
        (lambda: forecast(SCALE, 100, 1.0, trust="central", conventions=Conventions(dimension=7)), InputError),
        (lambda: forecast(SCALE, 100, 1.0, conventions=Conventions(shares=[0.5, 0.5])), InputError),
        (lambda: forecast(SCALE, 100, 1.0, conventions=Conventions(shares=[1.0] + [0.0] * 10)), InputError),
        (lambda: Conventions(shares=[0.5, 0.7]), InputError),
        (lambda: forecast(SCALE, 0, 1.0), InputError),
        (lambda: forecast(SCALE, 100, math.nan), EpsilonError),
        (lambda: forecast(LETTERS, 100, 1e-300), EpsilonError),
        (lambda: forecast(SCALE, 100, target=0.0), InputError),
        (lambda: forecast(SCALE, 100, 1.0, conventions=Conventions(explained=1.0)), InputError),
        (lambda: forecast(SCALE, 100, 1.0, conventions=Conventions(explained=0.0)), InputError),
        (lambda: forecast(SCALE, 100, 1.0, conventions=Conventions(spread=0.0)), InputError),
        (lambda: forecast(SCALE, 100, 1.0, conventions=Conventions(spread=5.1)), InputError),
        (lambda: forecast(LETTERS, 100, 1.0, conventions=Conventions(spread=1.0)), InputError),
        (lambda: forecast(LETTERS, 100, 1.0, conventions=Conventions(margin=0.0)), InputError),
        (lambda: forecast(LETTERS, 100, 1.0, conventions=Conventions(smoothness=1.2)), InputError),
        (lambda: effective_dimension(np.zeros((2, 2))), InputError),
        (lambda: effective_dimension(np.array([[np.nan]])), InputError),
    ],
)
def test_forecasts_that_cannot_be_made(make, error):
    """Numbers outside what is possible are refused in words, and a dimension for which there is no grid says so."""
    with pytest.raises(error, match=r"expected .* found") as caught:
        make()
    assert isinstance(caught.value, LabelDPError)
