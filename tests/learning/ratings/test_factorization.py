"""The factorization of ratings: its sampler against formulas, and what it learns from released labels."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from scipy.stats import multivariate_normal, multivariate_t, norm
from sklearn.exceptions import NotFittedError

from labeldp import Classes, Curator, GroupResponse, Interval, RandomizedResponse, Release
from labeldp.errors import InputError, NotTrueLabelsError, RowsError
from labeldp.learning.ratings import FactorizationClassifier, _factorization
from labeldp.learning.ratings._gibbs import _FREEDOM, Cuts, Noisy, RowColumns, Side, described_by, wishart
from labeldp.learning.ratings._kernels import draw_places, normal_equations, slopes_of_cuts
from labeldp.learning.stages import MultiStage

STARS = Classes([1, 2, 3, 4, 5])
QUICK = {"factors": 1, "rounds": 60, "unused": 30}


def made(rows=4000, users=120, items=60, seed=0):
    """Rows of users and items with a column of each, and ratings that follow from both columns and from biases."""
    rng = np.random.default_rng(seed)
    user, item = rng.integers(0, users, rows), rng.integers(0, items, rows)
    age, year = rng.normal(size=users), rng.normal(size=items)
    latent = 0.9 * age[user] + 0.9 * year[item] + rng.normal(size=rows)
    return np.column_stack([user, item, age[user], year[item]]), 1 + np.searchsorted([-1.2, -0.4, 0.4, 1.2], latent)


def released(labels, epsilon=2.0, groups=((1, 2), (3,), (4, 5)), space=STARS):
    """Labels that were released by one question for all."""
    return Curator(labels, space).randomize(GroupResponse(space, epsilon, groups=groups))


# ------------------------------------------------------------------------------------------------------- the sampler


def likelihood_of(scores, rates, cuts, weights):
    """The log likelihood of cut points, by SciPy's normal distribution."""
    edges = np.concatenate([[-np.inf], cuts, [np.inf]])
    return np.log((np.diff(norm.cdf((edges - scores[:, None]) * rates[:, None])) * weights).sum(axis=1))


def test_the_slopes_of_cut_points_are_those_of_the_likelihood():
    """Gradient and information agree with differences of the log likelihood of each row."""
    rng = np.random.default_rng(0)
    scores, weights, cuts = rng.normal(size=50), rng.uniform(0.1, 1.0, (50, 4)), np.array([-1.0, 0.2, 0.9])
    rates = rng.uniform(0.5, 2.0, 50)
    gradient, information = np.zeros(3), np.zeros((3, 3))
    slopes_of_cuts(scores, rates, cuts, weights, np.empty(3), gradient, information)
    up, down = ([likelihood_of(scores, rates, cuts + d, weights) for d in sign * 1e-5 * np.eye(3)] for sign in (1, -1))
    each = (np.array(up) - np.array(down)) / 2e-5
    assert gradient == pytest.approx(np.sum(each, axis=1), rel=1e-6)
    assert information == pytest.approx(each @ each.T, rel=1e-5)


def test_latent_numbers_follow_their_law():
    """Fixed score, noise and weights: shares of classes are their posterior, and a place inside a class is uniform."""
    count, score, rate, cuts, weights = 200_000, 0.3, 1.6, np.array([-0.5, 0.5]), np.array([1.0, 2.0, 0.5])
    uniform = np.random.default_rng(1).random((count, 2))
    place = np.empty(count)
    rows = np.full(count, score), np.full(count, rate)
    draw_places(*rows, cuts, np.tile(weights, (count, 1)), uniform, np.empty(7), place)
    edges = norm.cdf((np.array([-np.inf, *cuts, np.inf]) - score) * rate)
    shares = np.diff(edges) * weights / (np.diff(edges) @ weights)
    drawn = np.searchsorted(edges[1:-1], place)
    assert np.bincount(drawn) / count == pytest.approx(shares, abs=0.005)  # over 4 standard deviations
    for code in range(3):
        inside = (place[drawn == code] - edges[code]) / (edges[code + 1] - edges[code])
        assert (inside.mean(), inside.var()) == (pytest.approx(1 / 2, abs=0.01), pytest.approx(1 / 12, abs=0.01))


def test_the_normal_equations_are_sums_over_rows():
    """Each user's precision and sum are those of a weighted regression on the other side's factors and a constant."""
    rng = np.random.default_rng(2)
    own, other, latent = rng.integers(0, 5, 40), rng.integers(0, 7, 40), rng.normal(size=40)
    values, weights = rng.normal(size=(7, 3)), rng.uniform(0.5, 2.0, 40)
    products, sums = np.zeros((5, 3, 3)), np.zeros((5, 3))
    normal_equations(own, other, values, latent, weights, products, sums)
    for user in range(5):
        rows = values[other[own == user]]
        design = np.column_stack([np.ones(len(rows)), rows[:, 1:]])
        weighted = design.T * weights[own == user]
        assert np.tril(products[user]) == pytest.approx(np.tril(weighted @ design))
        assert sums[user] == pytest.approx(weighted @ (latent[own == user] - rows[:, 0]))


def test_values_are_drawn_from_their_conditional_distribution(monkeypatch):
    """With a fixed precision, many draws of one user have the mean and covariance of Bayesian linear regression."""
    rng, precision = np.random.default_rng(3), np.array([[2.0, 0.3], [0.3, 1.5]])
    monkeypatch.setattr("labeldp.learning.ratings._gibbs.wishart", lambda *_: precision)
    others, latent = rng.normal(size=(6, 2)), rng.normal(size=6)
    own, other = np.zeros(6, dtype=np.int64), np.arange(6)
    drawn = []
    for _ in range(20_000):
        side = Side(np.zeros((1, 0)), np.zeros((1, 2)), np.zeros((0, 2)), np.ones(1))
        side.draw(own, (other, others), latent, np.ones(6), rng)
        drawn.append(side.values[0])
    design = np.column_stack([np.ones(6), others[:, 1]])
    covariance = np.linalg.inv(design.T @ design + precision)
    mean = covariance @ design.T @ (latent - others[:, 0])
    assert np.mean(drawn, axis=0) == pytest.approx(mean, abs=5 * np.sqrt(covariance.max() / 20_000))
    assert np.cov(np.transpose(drawn)) == pytest.approx(covariance, abs=0.01)


def test_precisions_of_noise_are_drawn_from_their_posterior():
    """Degrees of freedom have the shares of a product over users of Student's laws, and precisions their Gamma law."""
    rng, own = np.random.default_rng(7), np.repeat(np.arange(30), 4)
    noise = rng.normal(size=120) / np.sqrt(rng.gamma(2.0, 0.5, 30))[own]
    side = Side(np.zeros((30, 0)), np.zeros((30, 1)), np.zeros((0, 1)), np.ones(30))
    drawn = []
    for _ in range(4000):
        side.draw_precisions(own, noise**2, rng)
        drawn.append(side.precisions)
    logs = [multivariate_t(np.zeros(4), np.eye(4), freedom).logpdf(noise.reshape(30, 4)).sum() for freedom in _FREEDOM]
    chances = softmax(logs + np.log(_FREEDOM))
    means = (_FREEDOM[:, None] + 4) / (_FREEDOM[:, None] + (noise**2).reshape(30, 4).sum(axis=1))
    assert np.mean(drawn, axis=0) == pytest.approx(chances @ means, rel=0.06)


def test_where_labels_say_nothing_users_are_alike():
    """Without rows most draws of degrees of freedom are large, so that precisions hardly differ."""
    rng, side = np.random.default_rng(9), Side(np.zeros((500, 0)), np.zeros((500, 1)), np.zeros((0, 1)), np.ones(500))
    spreads = []
    for _ in range(300):
        side.draw_precisions(np.zeros(0, dtype=np.int64), np.zeros(0), rng)
        spreads.append(side.precisions.std())
    assert np.mean(np.array(spreads) < 0.15) > 0.8  # 91 % by a prior that is even over numbers, 40 % over logarithms


def test_users_who_are_hard_to_predict_are_known():
    """Of users whose ratings are noise, the model is less sure, at the same mean."""
    rows, labels = made(8000, users=80)
    rng, hard = np.random.default_rng(8), rows[:, 0] % 2 == 1
    labels = np.where(hard & (rng.random(8000) < 0.5), rng.integers(1, 6, 8000), labels)
    model = FactorizationClassifier(**QUICK).fit(rows, released(labels, epsilon=4.0))
    probabilities = model.predict_proba(rows)
    entropy = -(probabilities * np.log(probabilities)).sum(axis=1)
    assert entropy[hard].mean() > entropy[~hard].mean() + 0.1


def test_a_precision_is_that_of_the_rows():
    """Of many rows, a Wishart draw is near the inverse of their covariance."""
    covariance = np.array([[1.0, 0.4], [0.4, 0.5]])
    rests = multivariate_normal(np.zeros(2), covariance, seed=4).rvs(50_000)
    assert wishart(rests, np.random.default_rng(5)) == pytest.approx(np.linalg.inv(covariance), rel=0.05)


def test_cut_points_are_drawn_from_their_posterior():
    """One cut point given scores: mean and deviation over draws are those of a numerical integral."""
    rng = np.random.default_rng(6)
    scores = rng.normal(size=60)
    weights = np.where(scores[:, None] + rng.normal(size=(60, 1)) < 0.3, [3.0, 1.0], [1.0, 3.0])
    cuts, rates = Cuts(np.array([0.0]), np.array([0.0])), rng.uniform(0.5, 2.0, 60)
    for _ in range(20):
        cuts.climb(Noisy(scores, rates), weights)
    drawn = []
    for _ in range(20_000):
        cuts.draw(Noisy(scores, rates), weights, rng)
        drawn.append(cuts.values[0])
    grid = np.linspace(-2, 3, 2001)
    log = np.array([likelihood_of(scores, rates, np.array([c]), weights).sum() - c**2 / (2 * 0.5**2) for c in grid])
    chance = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
    mean = chance @ grid
    deviation = np.sqrt(chance @ (grid - mean) ** 2)
    assert np.mean(drawn) == pytest.approx(mean, abs=0.1 * deviation)
    assert np.std(drawn) == pytest.approx(deviation, rel=0.1)
    assert grid[np.argmax(log)] == pytest.approx(Cuts(np.zeros(1), np.zeros(1)).values[0], abs=2.0)


# ---------------------------------------------------------------------------------------------------------- features


def test_columns_describe_who_they_are_a_function_of():
    """A column that each user has once describes users, one that each item has, items, another both by its means."""
    rows = np.array([[7.0, 1.0, 30.0, 5.0, 1.0], [7.0, 2.0, 30.0, 6.0, 2.0], [9.0, 1.0, 40.0, 5.0, 6.0]])
    users, items = described_by(RowColumns.of(rows, 0, 1), 0)
    assert users.names.tolist() == [7.0, 9.0]
    assert (users.places, items.places) == ((0, 2), (1, 2))
    assert users.features * users.spread + users.centre == pytest.approx(np.array([[30.0, 1.5], [40.0, 6.0]]))
    assert items.features * items.spread + items.centre == pytest.approx(np.array([[5.0, 3.5], [6.0, 2.0]]))


def test_features_of_pairs_are_functions_of_who_occurs_with_what():
    """A factor of pairs distinguishes two blocks of users who share few items, without any label."""
    rng = np.random.default_rng(0)
    blocks = [[u, i + 20 * (u % 2)] for u in range(30) for i in rng.choice(22, 15, replace=False)]
    users, items = described_by(RowColumns.of(np.array(blocks), 0, 1), 2)
    assert users.features.shape == (30, 4)  # a count, its square, and two factors
    assert items.features.shape == (42, 4)
    alike = np.corrcoef(users.features[:, 2:].T, np.arange(30) % 2)[-1, :-1]
    assert np.abs(alike).max() > 0.95


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (pd.DataFrame({"u": [1], "i": [2], "genre": ["x"]}), "expected finite numbers in the column 'genre'"),
        (pd.DataFrame({"u": [1], "i": [2], "year": [np.nan]}), "expected finite numbers in the column 'year'"),
        (
            pd.DataFrame({"u": [np.nan], "i": [2]}),
            "expected a user or an item in each row of the column 'u', found miss",
        ),
        (pd.DataFrame({"u": [1], "i": [None]}), "expected a user or an item in each row of the column 'i', found miss"),
        (
            pd.DataFrame({"u": [1], "i": [pd.NA]}),
            "expected a user or an item in each row of the column 'i', found miss",
        ),
        (pd.DataFrame({"u": [1], "film": [2]}), "expected a column 'i' of users or items, found the columns u, film"),
    ],
)
def test_columns_that_cannot_be_used_are_refused(rows, message):
    """Users and items are columns; all others are finite numbers."""
    with pytest.raises(InputError, match=message):
        FactorizationClassifier("u", "i", **QUICK).fit(rows, Release.public([1], STARS))


# ----------------------------------------------------------------------------------------------------- what is learned


def test_it_learns_from_groups_alone():
    """Ratings that depend on features are predicted well from released groups, by users and items without rows too."""
    rows, labels = made()
    model = FactorizationClassifier(**QUICK).fit(rows, released(labels))
    fresh, truth = made(seed=1)  # other people and films, whose columns mean the same
    fresh[:, :2] += 1000
    for part, true in ((rows, labels), (fresh, truth)):
        predicted = model.predict_mean(part)
        assert np.corrcoef(predicted, true)[0, 1] > 0.6
        probabilities = model.predict_proba(part)
        assert probabilities.sum(axis=1) == pytest.approx(1.0)
        assert predicted == pytest.approx(probabilities @ np.arange(1, 6))
        assert (model.predict(part) == 1 + probabilities.argmax(axis=1)).all()
    assert model.score(rows, released(labels)) > 0.1
    assert (np.diff(model.cuts_) > 0).all()


def test_without_features_an_unknown_pair_has_the_mean():
    """Users and items that are not known and not described differ in nothing."""
    rows, labels = made()
    model = FactorizationClassifier(pair_factors=0, **QUICK).fit(rows[:, :2], released(labels))
    unknown = model.predict_mean(np.array([[1000, 1000], [1001, 2000]]))
    assert unknown[0] == unknown[1] == pytest.approx(labels.mean(), abs=0.3)


def test_the_declared_order_of_classes_plays_no_part():
    """Classes that were declared from the best to the worst have the same cut points and sorted columns."""
    rows, labels = made(1500)
    backward = Classes([5, 4, 3, 2, 1])
    one = released(labels)
    codes = np.packbits(
        np.unpackbits(one.codes, axis=1, count=5, bitorder="little")[:, ::-1], axis=1, bitorder="little"
    )
    other = GroupResponse(backward, 2.0, groups=[[5, 4], [3], [2, 1]]).for_rows(1500).channel()
    two = dataclasses.replace(one, codes=codes, channel=other, space=backward)
    first, second = (FactorizationClassifier(**QUICK).fit(rows, each) for each in (one, two))
    assert second.classes_.tolist() == [1, 2, 3, 4, 5]
    assert (first.predict_proba(rows) == second.predict_proba(rows)).all()


def test_texts_that_spell_numbers_are_in_the_order_of_the_numbers():
    """A column of 9.0 and 10.0 has texts as classes: 10.0 is above 9.0, and the model is that of numbers."""
    numbers, chance = [9, 10, 11], np.random.default_rng(0)
    pairs = np.column_stack([chance.integers(0, 20, 300), chance.integers(0, 15, 300)])
    codes = np.clip((pairs[:, 0] % 3 + pairs[:, 1] % 2), 0, 2)
    found = []
    for points in (numbers, [f"{each}.0" for each in numbers]):
        release = Release.public(np.array(points)[codes], Classes(points))
        found.append(FactorizationClassifier(**QUICK).fit(pairs, release).predict_mean(pairs))
    assert (found[0] == found[1]).all()
    assert np.corrcoef(found[0], codes)[0, 1] > 0.8


def test_kept_draws_fit_in_memory(monkeypatch):
    """Fewer draws are kept where all of them would be too many, evenly spaced; the kept ones are the same."""
    rows, labels = made(500)
    release = released(labels)
    every = FactorizationClassifier(**QUICK).fit(rows, release).draws_
    monkeypatch.setattr(_factorization, "_MOST_KEPT", 10 * 3 * (len(every[0].users) + len(every[0].items)))
    some = FactorizationClassifier(**QUICK).fit(rows, release).draws_
    assert (len(every), len(some)) == (30, 10)
    assert all((one.users == two.users).all() for one, two in zip(every[2::3], some, strict=True))


def test_draws_without_a_number_are_refused():
    """A forged file may hold users and items without biases, which compiled loops read."""
    rows, labels = made(200)
    model = FactorizationClassifier(**QUICK).fit(rows, released(labels))
    draw = model.draws_[0]
    draw.check(model.users_, model.items_, 5)
    less = dataclasses.replace(
        draw, users=draw.users[:, :0], items=draw.items[:, :0], coefficients=tuple(e[:, :0] for e in draw.coefficients)
    )
    with pytest.raises(ValueError, match="expected parameters of these users, items and classes"):
        less.check(model.users_, model.items_, 5)


def test_rounds_are_reported():
    """Each round is reported once, with the number of all rounds."""
    rows, labels = made(200)
    found = []
    FactorizationClassifier(**QUICK, report=lambda *step: found.append(step)).fit(rows, released(labels))
    assert found == [("round", number, 60) for number in range(1, 61)]


@pytest.mark.parametrize("form", [np.asarray, lambda rows: pd.DataFrame(rows).rename(columns=str)])
@pytest.mark.parametrize("public", [True, False])
def test_one_row_without_a_user_costs_nothing(form, public):
    """A missing user shows before a label is drawn, in X and in public rows."""
    rows, labels = made(1200)
    rows[777, 0] = np.nan
    user, item = (0, 1) if form is np.asarray else ("0", "1")
    curator, rows = Curator(labels, STARS, budget=1.0), form(rows)
    learner = FactorizationClassifier(user, item, public_rows=rows if public else None, **QUICK)
    with pytest.raises(InputError, match="expected a user or an item in each row"):
        MultiStage(learner, 1.0, stages=2, response="groups").fit(rows, curator)
    assert curator.spent == (0.0, 0.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rounds": 0}, "expected rounds"),
        ({"rounds": 10, "unused": 10}, "expected unused"),
        ({"factors": -1}, "expected factors"),
        ({"pair_factors": 1.5}, "expected pair_factors"),
        ({"seed": -1}, "expected seed"),
        ({"shares": [0.5, 0.5]}, "expected a share for each of 5 classes"),
        ({"user": 9}, "expected a column 9 of users or items, found the columns 0, 1, 2, 3"),
        ({"public_rows": np.array([[0.0, 0.0, 0.0, 0.0]])}, "expected public_rows with every user and every item of X"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    """A setting that means nothing is an error that says what was expected."""
    rows, labels = made(50)
    with pytest.raises(InputError, match=message):
        FactorizationClassifier(**{**QUICK, **settings}).fit(rows, released(labels))


@pytest.mark.usefixtures("as_users_call")
def test_what_is_no_release_of_numeric_classes_is_refused():
    """True labels, other rows, classes without numbers and fine grids are refused; predictions need a fit."""
    rows, labels = made(50)
    model = FactorizationClassifier(**QUICK)
    with pytest.raises(NotFittedError):
        model.predict(rows)
    with pytest.raises(NotTrueLabelsError):
        model.fit(rows, labels)
    with pytest.raises(RowsError):
        model.fit(rows[:-1], released(labels))
    words = Classes(["low", "high"])
    space = Classes(["1", "nan"])
    with pytest.raises(InputError, match="numeric classes"):
        model.fit(rows, Curator(["1", "nan"] * 25, space).randomize(RandomizedResponse(space, 1.0)))
    with pytest.raises(InputError, match="numeric classes"):
        model.fit(rows, Curator(["low", "high"] * 25, words).randomize(RandomizedResponse(words, 1.0)))
    grid = Interval(0, 100, 1)
    with pytest.raises(InputError, match="at most 64 numeric classes"):
        model.fit(rows, Curator([5.0] * 50, grid).randomize(RandomizedResponse(grid, 1.0)))
