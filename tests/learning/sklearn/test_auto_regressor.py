"""The default regressor and its parts: boosting, clusters, and the mixture of models and the mean."""

import functools
import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, norm
from sklearn.pipeline import Pipeline

import labeldp as dp
from labeldp.errors import InputError, RowsError
from labeldp.learning.cells import ClusterTree, cluster_tree
from labeldp.learning.choice import Fitted
from labeldp.learning.losses import decoded_numbers, noise_variances
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn import AutoRegressor, BoostingRegressor, TreeRegressor
from labeldp.learning.sklearn._mixture import HeldOut, Mixture, held_out_numbers
from labeldp.learning.sklearn._regressor import expected_factor, shrinkage
from labeldp.learning.sklearn._tree import _BETWEEN, _leaf_means

SPACE = dp.Interval(0.0, 100.0, 1.0)
#: Thousands of rounds of boosting, each checked at every call, would take minutes.
pytestmark = pytest.mark.usefixtures("as_users_call")


def table(rows=400, seed=0):
    """Features that say much of a number, one with gaps and one of text, and the number of each row."""
    random = np.random.default_rng(seed)
    group = random.integers(0, 3, rows)
    labels = np.clip(25.0 * group + 20.0 + random.normal(0, 4.0, rows), 0.0, 100.0)
    age = 30.0 + 15.0 * group + random.normal(0, 3.0, rows)
    age[::20] = np.nan
    city = np.array(["Oslo", "Rome", "Bonn"], dtype=object)[group]
    city[::7] = None
    return pd.DataFrame({"age": age, "city": city}), labels


def released(labels, epsilon=4.0, space=SPACE):
    """A release of numbers."""
    return dp.Curator(labels, space).randomize(epsilon=epsilon)


def explained(model, features, labels):
    """Share of the variance of labels that predictions explain."""
    return 1.0 - np.mean((model.predict(features) - labels) ** 2) / np.var(labels)


@functools.cache
def fitted_once():
    """A regressor, its rows, their true labels and their release."""
    features, labels = table()
    release = released(labels)
    return AutoRegressor().fit(features, release), features, labels, release


@pytest.fixture
def fitted(as_users_call):  # noqa: ARG001
    """What is fitted once."""
    return fitted_once()


def test_all_families_are_fitted_and_the_mean_predicts_new_rows(fitted):
    """Every member is fitted, weights are positive, and most of the variance of new rows is explained."""
    model = fitted[0]
    assert list(model.members_) == list(model.weights_) == ["linear", "kernels", "boosting", "clusters"]
    assert not model.left_out_
    assert min(model.weights_.values()) >= 0.0
    assert 0.5 < sum(model.weights_.values()) < 1.5
    assert (model.range_, round(model.mean_, -1)) == ((0.0, 100.0), 50.0)
    features, labels = table(seed=1)
    assert explained(model, features, labels) > 0.8
    predicted = model.predict(features)
    assert 0.0 <= predicted.min() <= predicted.max() <= 100.0


def held_out(release, predictions, parts):
    """The problem of predictions of all rows by models of other folds."""
    rows, models = len(release), [Fitted(Pipeline([("model", "passthrough")]), each, True) for each in predictions]
    return held_out_numbers(release, models, np.arange(rows), parts, Units.of(None, rows))


def test_noise_beyond_the_range_is_cut():
    """At a small epsilon the mean of numbers leaves the range, and no model is weighed for being nearer than that.

    A hundred numbers have a mean within the range in fewer than one of ten cases.
    """
    random, beyond = np.random.default_rng(1), 0
    parts = [(np.flatnonzero(np.arange(150) % 3 != fold), np.arange(fold, 150, 3)) for fold in range(3)]
    for _ in range(4):
        features, release = random.normal(size=(150, 3)), released(random.uniform(0.0, 60.0, 150), 0.01)
        centres = held_out(release, np.empty((0, 150)), parts).constants
        assert ((centres >= 0.0) & (centres <= 100.0)).all()
        beyond += sum(not 0.0 <= release.numbers()[fit].mean() <= 100.0 for fit, _ in parts)
        model = AutoRegressor(folds=3).fit(features, release)
        assert np.ptp(model.predict(features)) < 0.25 * (model.range_[1] - model.range_[0])
    assert beyond >= 6


def test_bins_are_learned_from():
    """Of bins, whose released numbers are biased, predictions are near the label still."""
    features, labels = table(600)
    release = dp.counted_response(dp.Curator(labels, SPACE, budget=12.0), epsilon=6.0)
    assert explained(AutoRegressor(folds=2).fit(features, release), features, labels) > 0.6


def test_labels_without_numbers_and_other_rows_are_refused(fitted):
    """Classes and candidates do not identify the mean label; there must be as many labels as rows, and enough."""
    _, features, _, release = fitted
    classes = dp.Curator(["a", "b"] * 200, dp.Classes(["a", "b"])).randomize(epsilon=1.0)
    with pytest.raises(InputError, match="numeric labels"):
        AutoRegressor().fit(features, classes)
    even = np.full((400, 5), 0.2)
    few = dp.Interval(0.0, 4.0, 1.0)
    candidates = dp.Curator([1.0, 3.0] * 200, few).randomize(dp.PriorResponse(few, 1.0, even))
    with pytest.raises(InputError, match="identify the mean label, found candidates"):
        AutoRegressor().fit(features, candidates)
    with pytest.raises(RowsError, match="expected a released label for each of 399 rows"):
        AutoRegressor().fit(features[:-1], release)
    with pytest.raises(InputError, match="at least 5 units"):
        AutoRegressor().fit(features[:4], release[:4])


def problem(rows=300, epsilon=3.0):
    """Held-out predictions of a good model, a poor one and one that errs on purpose, and where they were held out."""
    random = np.random.default_rng(3)
    labels = random.uniform(10.0, 90.0, rows)
    predictions = np.stack([labels + random.normal(0, 5.0, rows), labels + random.normal(0, 30.0, rows)])
    predictions = np.concatenate([predictions, 100.0 - labels[None] + random.normal(0, 8.0, (1, rows))])
    fold = np.arange(rows) % 2
    parts = [(np.flatnonzero(fold != one), np.flatnonzero(fold == one)) for one in range(2)]
    return released(labels, epsilon), predictions, parts


def by_integrals(slope, error, one=0.0):
    """The posterior mean of a factor that is 0 or uniform on 0 to 1, with even odds, or 1 with given ones."""
    densities = functools.partial(norm.pdf, loc=slope, scale=error)
    places = [slope] if 0.0 < slope < 1.0 else None
    both = [quad(each, 0.0, 1.0, points=places, limit=200)[0] for each in (densities, lambda f: f * densities(f))]
    single = one * densities(1.0)
    return (both[1] + single) / (both[0] + densities(0.0) + single)


def test_weights_are_those_of_a_solver():
    """Weights minimise the stated sum of squares and prior, as constrained optimisation finds, times the factor."""
    release, predictions, parts = problem()
    held = held_out(release, predictions, parts)
    offsets = np.clip(predictions, 0.0, 100.0) - held.constants
    targets = release.numbers() - held.constants
    np.testing.assert_allclose(held.weights, 1.0)
    np.testing.assert_allclose(held.constants[0::2], release.numbers()[1::2].mean())

    def least(function):
        return minimize(function, np.full(3, 0.3), bounds=[(0, None)] * 3, method="L-BFGS-B", tol=1e-15).x

    free = least(lambda a: ((targets - a @ offsets) ** 2).mean())
    variance = ((targets - free @ offsets) ** 2).mean()

    def loss(a):
        return ((targets - a @ offsets) ** 2).sum() / (2 * variance) + ((a - 1 / 3) ** 2).sum() / (2 * 0.03)

    raw = least(loss)
    combined = raw @ offsets
    slope = combined @ targets / (combined @ combined)
    error = ((combined * (targets - slope * combined)) ** 2).sum() / (combined @ combined) ** 2
    factor = by_integrals(slope, np.sqrt(error))
    weights = held.best().weights
    np.testing.assert_allclose(weights, factor * raw, atol=1e-3)
    assert weights[0] > 0.5
    assert weights[2] == 0.0


@pytest.mark.parametrize("error", [0.02, 0.1, 0.5, 2.0, 50.0])
@pytest.mark.parametrize("steps", [-4.0, -1.0, 0.0, 0.5, 2.0, 5.0])
def test_the_factor_is_the_posterior_mean(steps, error):
    """Numerical integration gives it, whether the slope is within 0 and 1 or beyond."""
    for slope in (steps * error, 1.0 + steps * error):
        assert expected_factor(slope, error) == pytest.approx(by_integrals(slope, error), rel=1e-6)
        found = expected_factor(slope, error, calibrated=True)
        assert found == pytest.approx(by_integrals(slope, error, one=1.0), rel=1e-6)


def test_models_that_shrink_themselves_are_trusted_first():
    """Where numbers say next to nothing, models whose predictions are posterior means share the weight."""
    release, predictions, parts = problem(epsilon=0.01)
    weights = replace(held_out(release, predictions, parts), posterior=np.array([True, True, False])).best().weights
    assert weights[0] == pytest.approx(weights[1], rel=0.2)
    assert weights[2] < 0.1 * weights[0]
    assert 0.3 < weights[0] + weights[1] < 0.7


def test_a_slope_that_is_certain_is_the_factor():
    """Without an error the slope is taken as it is, within 0 and 1, and without offsets the factor is 0."""
    assert [expected_factor(slope, 0.0) for slope in (-1.0, 0.0, 0.4, 1.0, 3.0)] == [0.0, 0.0, 0.4, 1.0, 1.0]
    assert [expected_factor(slope, 1e-9) for slope in (-1.0, 0.4, 3.0)] == pytest.approx([0.0, 0.4, 1.0], abs=1e-6)
    assert shrinkage(np.zeros(9), np.arange(9.0), np.ones(9), Units.of(None, 9)) == 0.0


@pytest.mark.parametrize("error", [0.03, 0.1, 0.3, 1.0, 3.0])
def test_offsets_that_say_nothing_cost_less_than_the_mean_label(error):
    """Their squared error is below 0.3 of that of the mean label: the variance of a slope around 0."""
    nodes, sizes = np.polynomial.hermite_e.hermegauss(60)
    squares = [expected_factor(error * node, error) ** 2 for node in nodes]
    assert np.average(squares, weights=sizes) < 0.3 * error**2


def test_rows_of_one_unit_count_as_one():
    """Rows that stand twice, in units of two, are shrunk as if they stood once; as rows of their own, less."""
    random = np.random.default_rng(0)
    offsets = random.normal(size=60)
    numbers, weights = 0.5 * offsets + random.normal(0, 1.0, 60), np.ones(60)
    once = shrinkage(offsets, numbers, weights, Units.of(None, 60))
    twice = [np.repeat(each, 2) for each in (offsets, numbers, weights)]
    assert 0.0 < once < 1.0
    assert shrinkage(*twice, Units.of(np.repeat(np.arange(60), 2), 120)) == pytest.approx(once)
    assert shrinkage(*twice, Units.of(None, 120)) > once + 0.01


def test_units_are_handed_on(monkeypatch):
    """The regressor shrinks by units: groups of its rows reach the factor of shrinkage."""
    seen, real = [], HeldOut.best
    monkeypatch.setattr(HeldOut, "best", lambda problem: seen.append(problem) or real(problem))
    features, labels = table(120)
    AutoRegressor(minutes=0).fit(features, released(labels), groups=np.arange(120) // 2 + 7)
    np.testing.assert_array_equal(seen[0].units.numbers, np.arange(120) // 2)


def test_the_mixture_of_a_row_does_not_depend_on_its_label():
    """Weights for a fold are fitted on other folds: other labels in a fold leave its predictions as they are."""
    release, predictions, parts = problem()
    order = np.arange(300)
    order[parts[0][1]] = order[parts[0][1]][::-1]  # the labels of one fold trade places
    first, second = (held_out(each, predictions, parts).cross_fitted(parts) for each in (release, release[order]))
    np.testing.assert_allclose(first[parts[0][1]], second[parts[0][1]], rtol=1e-12)
    assert (np.abs(first[parts[1][1]] - second[parts[1][1]]) > 1e-9).any()


def test_a_mixture_is_within_the_range():
    """Predictions beyond the declared range count as its ends, and so does their mixture."""
    mixture = Mixture(40.0, np.array([1.0, 0.5]), ends=(0.0, 100.0))
    np.testing.assert_allclose(mixture(np.array([[1e6, 40.0, 50.0, -5.0], [40.0, 60.0, 40.0, -5.0]])), [100, 50, 50, 0])
    np.testing.assert_array_equal(Mixture(40.0, np.empty(0), ends=(0.0, 100.0))(np.empty((0, 3))), np.full(3, 40.0))


def test_trees_are_as_fine_as_the_noise_allows():
    """A leaf holds a least number of effective rows: with more of them wanted than there are, no tree splits."""
    features, labels = table(400)
    rows, release = np.nan_to_num(features[["age"]].to_numpy()), released(labels, 2.0)
    fine, coarse = (BoostingRegressor(information=each).fit(rows, release) for each in (1.0, 1e6))
    assert coarse.rounds_ == 0
    assert fine.rounds_ > 0
    noisy = released(labels, 1.0)
    ratio = noisy.numbers().var() / max(noisy.numbers().var() - noise_variances(noisy).mean(), 100.0)
    model = BoostingRegressor(rounds=1).fit(rows, noisy)
    model.rounds_ = 1
    task = model._task(noisy)
    trees = model._grow(model._data(rows, task.labels, task, weight=task.weights), task, 15, 1)
    counts = [
        int(count)
        for line in trees.model_to_string().splitlines()
        if line.startswith("leaf_count=")
        for count in line.removeprefix("leaf_count=").split()
    ]
    assert min(counts) >= min(0.99 * ratio, 400)


def test_rows_with_less_noise_count_more_in_boosting():
    """Boosting starts from the mean weighted by precision: rows of units of ten have more noise, and weigh less."""
    units = np.concatenate([np.arange(300), 300 + np.arange(300) // 10])
    release = dp.Curator([20.0] * 300 + [80.0] * 300, SPACE, units=units).randomize(epsilon=6.0)
    assert BoostingRegressor().fit(np.zeros((600, 1)), release, groups=units).centre_ < 0.8 * release.numbers().mean()


TREE = ClusterTree(np.repeat(np.arange(4), 3), np.array([[0, 1], [4, 2], [5, 3]]), np.asarray)


def test_all_prunings_are_weighed_by_their_likelihood():
    """The recursion gives what a sum over every pruning of multivariate normal densities gives."""
    random = np.random.default_rng(1)
    numbers, variances, spread = random.normal(5.0, 2.0, 12), random.uniform(0.5, 2.0, 12), 3.0
    mean = np.average(numbers, weights=1.0 / variances)
    rows = {0: {0}, 1: {1}, 2: {2}, 3: {3}, 4: {0, 1}, 5: {0, 1, 2}, 6: {0, 1, 2, 3}}

    def prunings(node):
        alone = [([node], 1.0 if node < 4 else 0.5)]
        if node < 4:
            return alone
        one, other = TREE.merges[node - 4]
        parts = itertools.product(prunings(int(one)), prunings(int(other)))
        return alone + [(a + b, 0.5 * p * q) for (a, p), (b, q) in parts]

    total, sums = 0.0, np.zeros(4)
    for nodes, chance in prunings(6):
        weight, expected = chance, np.zeros(4)
        for node in nodes:
            members = np.flatnonzero(np.isin(TREE.leaves, list(rows[node])))
            centred, noise = numbers[members] - mean, np.diag(variances[members])
            covariances = [noise + share * spread for share in _BETWEEN]
            densities = [multivariate_normal(cov=matrix).pdf(centred) for matrix in covariances]
            means = [
                share * spread * np.linalg.solve(matrix, centred).sum()
                for share, matrix in zip(_BETWEEN, covariances, strict=True)
            ]
            weight *= np.mean(densities)
            expected[list(rows[node])] = np.dot(densities, means) / np.sum(densities)
        total += weight
        sums += weight * expected
    found, evidence = _leaf_means(TREE, TREE.leaves, numbers, variances, np.ones(len(numbers)), spread, (-1e6, 1e6))
    np.testing.assert_allclose(found, mean + sums / total, rtol=1e-9)
    assert evidence == pytest.approx(np.log(total), rel=1e-9)


def test_clusters_follow_the_noise():
    """Means of clusters are near those of labels at a large epsilon, and at a tiny one all near the overall mean."""
    features, labels = np.linspace(0.0, 1.0, 600)[:, None], np.where(np.arange(600) < 300, 20.0, 80.0)
    tree = cluster_tree(features, leaves=20)
    model = TreeRegressor([tree, tree], power=1.0).fit(np.stack([tree.leaves] * 2, axis=1), released(labels, 6.0))
    assert explained(model, np.stack([tree.leaves] * 2, axis=1), labels) > 0.9
    np.testing.assert_allclose(model.weights_, 0.5)
    release = released(labels, 0.1)
    faint = TreeRegressor([tree]).fit(tree.leaves, release)
    spread = np.ptp(decoded_numbers(release))
    assert np.ptp(faint.predict(tree.leaves)) < 0.1 * spread
    with pytest.raises(InputError, match="expected the leaf of each row in each of 1 trees"):
        faint.predict(features)


@pytest.mark.parametrize("randomizer", [dp.OneBitResponse(SPACE, 4.0), dp.RandomizedResponse(SPACE, 6.0)])
def test_other_channels_are_learned_from(randomizer):
    """Every channel whose numbers have the label as mean will do."""
    features, labels = table(600)
    release = dp.Curator(labels, SPACE).randomize(randomizer)
    assert explained(AutoRegressor(folds=2).fit(features, release), features, labels) > 0.4
