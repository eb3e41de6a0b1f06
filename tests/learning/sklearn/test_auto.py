"""The default classifier and its parts: boosting, clusters, and the mixture of models."""

import functools
import pickle
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from scipy.special import expit

from labeldp import Classes, Curator, Interval, LaplaceResponse, RandomizedResponse
from labeldp.errors import InputError, RowsError
from labeldp.learning.choice import Fitted, Gains, Path, some_rows, varies
from labeldp.learning.features import UnitScaler
from labeldp.learning.heads import share_logits
from labeldp.learning.losses import gain
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn import CLASSES, AutoClassifier, BoostingClassifier
from labeldp.learning.sklearn import _auto as auto
from labeldp.learning.sklearn._members import ClusterLeaves
from labeldp.learning.sklearn._mixture import HeldOut, Mixture, held_out_classes, held_out_numbers
from labeldp.privacy.channels import ResponseChannel
from labeldp.release import Release

SPACE = Classes(["none", "mild", "grave"])
#: Thousands of rounds of boosting, each checked at every call, would take minutes.
pytestmark = pytest.mark.usefixtures("as_users_call")


def table(rows=400, seed=0):
    """Features that decide the class, one with gaps and one of text, and the class of each row."""
    random = np.random.default_rng(seed)
    codes = random.integers(0, 3, rows)
    age = 30.0 + 15.0 * codes + random.normal(0, 3.0, rows)
    age[::20] = np.nan
    city = np.array(["Oslo", "Rome", "Bonn"], dtype=object)[codes]
    city[::7] = None
    return pd.DataFrame({"age": age, "city": city}), np.array(SPACE.points)[codes]


def released(labels, epsilon=3.0, space=SPACE):
    """A release of labels."""
    return Curator(labels, space).randomize(RandomizedResponse(space, epsilon))


@pytest.fixture
def use(monkeypatch):
    """Function that puts other models in the place of those that are combined, or leaves boosting alone."""

    def exchange(*, alone=False, **models):
        monkeypatch.setattr(AutoClassifier, "target", replace(CLASSES, **models))
        if alone:
            only = lambda self, columns: {"boosting": self.target.members(columns, 0.0)["boosting"]}  # noqa: E731
            monkeypatch.setattr(AutoClassifier, "_family", only)

    return exchange


@functools.cache
def fitted_once():
    """A classifier, its rows, their true labels and their release."""
    features, labels = table()
    release = released(labels)
    return AutoClassifier().fit(features, release), features, labels, release


@pytest.fixture
def fitted(as_users_call):  # noqa: ARG001
    """What is fitted once."""
    return fitted_once()


def test_all_families_are_fitted_and_the_mean_predicts_new_rows(fitted):
    """Every member is fitted, weights sum to one, and predictions of new rows are right for nearly all."""
    model = fitted[0]
    assert list(model.members_) == ["linear", "kernels", "boosting", "clusters"]
    assert not model.left_out_
    assert sum(model.weights_.values()) == pytest.approx(1.0)
    assert model.classes_.tolist() == sorted(SPACE.points)
    features, labels = table(seed=1)
    probabilities = model.predict_proba(features)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (model.predict(features) == labels).mean() > 0.9


def test_other_tables_and_arrays_are_taken(fitted):
    """An Arrow table gives what the frame of its values gives; arrays and sparse rows of numbers are taken."""
    model, features, labels, release = fitted
    arrow = pa.Table.from_pandas(features)
    np.testing.assert_allclose(model.predict_proba(arrow), model.predict_proba(features))
    numbers = np.nan_to_num(features[["age"]].to_numpy(), nan=-1.0)
    for form in (numbers, csr_matrix(numbers)):
        found = AutoClassifier().fit(form, release)
        assert (found.predict(form) == labels).mean() > 0.8


def test_a_pickle_keeps_the_model_without_predictions_of_released_rows(fitted):
    """Predictions survive a pickle; what was predicted for held-out rows does not travel."""
    model, features, *_ = fitted
    copy = pickle.loads(pickle.dumps(model))  # noqa: S301 (its own)
    np.testing.assert_array_equal(copy.predict_proba(features), model.predict_proba(features))
    assert hasattr(model, "held_out_")
    assert not hasattr(copy, "held_out_")


def test_units_are_on_one_side_of_every_fold(use):
    """No member predicts a held-out row after it was fitted on another row of its unit."""
    seen = []

    class Spy(BoostingClassifier):
        def __init__(self, **_):
            super().__init__(rounds=3)

        def path(self, X, y, held, groups="rows"):  # noqa: N803 (scikit-learn's name)
            seen.append((set(np.asarray(X)[:, 0]), set(np.asarray(held.features)[:, 0])))
            return super().path(X, y, held, groups)

    use(boosting=Spy, alone=True)
    units = np.repeat(np.arange(60), 3)
    features = pd.DataFrame({"unit": units.astype(float)})
    release = released(np.array(SPACE.points)[units % 3])
    AutoClassifier().fit(features, release, groups=units)
    assert len(seen) == 15  # five folds, and ten pairs of them
    assert all(not fit & held for fit, held in seen)
    AutoClassifier().fit(features, release)
    assert any(fit & held for fit, held in seen)


@pytest.mark.parametrize("many", [False, True])
def test_the_setting_for_a_row_is_chosen_by_other_groups(monkeypatch, use, many):
    """A setting that is best for one group alone, as by chance, predicts the others and not that group."""

    class Lucky(BoostingClassifier):
        def __init__(self, **_):
            super().__init__()

        def path(self, X, y, held, groups="rows"):  # noqa: ARG002, N803 (scikit-learn's names)
            gains = np.array([[0.0] * 5, [10.0] + [-1.0] * 4])  # of the second setting: 6 with the first group, else -4
            here = np.bincount(held.groups, minlength=5) > 0
            predicted = np.eye(3)[[0, 1]]
            return Path(Gains(here * 1.0, gains * here), lambda s: np.tile(predicted[s], (len(held.groups), 1)))

        def fit_setting(self, setting, X, y, groups="rows"):  # noqa: ARG002, N803
            chosen.append(setting)
            return self

        def predict_proba(self, X):  # noqa: N803
            return np.full((len(X), 3), 1 / 3)

    chosen, found = [], {}
    use(boosting=Lucky, alone=True)
    monkeypatch.setattr(auto, "ENOUGH_HELD", 1e-9 if many else 10**6)
    monkeypatch.setattr(
        HeldOut,
        "cross_fitted",
        lambda self, *_: found.update(every=self.predictions) or self.predictions[0],
    )
    model = AutoClassifier().fit(pd.DataFrame({"age": np.zeros(150)}), released(["mild"] * 150))
    first = model.held_out_folds_ == 0
    assert len(model.held_out_) == len(model.held_out_folds_)
    assert (found["every"][0, first].argmax(axis=1) == 0).all()
    assert (found["every"][0, ~first].argmax(axis=1) == 1).all()
    assert chosen == [1]


@pytest.mark.parametrize("how", ["raises", "not finite"])
def test_a_member_that_fails_is_left_out_and_named(use, how):
    """Others go on without a member that raises or returns NaN, and the reason is kept."""

    class Broken(BoostingClassifier):
        def path(self, X, y, held, groups="rows"):  # noqa: N803 (scikit-learn's name)
            if how == "raises":
                raise ValueError("out of order")
            return replace(super().path(X, y, held, groups), predict=lambda _: np.full((len(held.groups), 3), np.nan))

    use(boosting=Broken)
    features, labels = table(300)
    model = AutoClassifier().fit(features, released(labels))
    assert list(model.members_) == ["linear", "kernels", "clusters"]
    assert ("out of order" if how == "raises" else "not finite") in model.left_out_["boosting"]
    assert (model.predict(features) == labels).mean() > 0.8


def test_an_error_of_every_member_is_an_error(use):
    """Where no model can be fitted, nothing is predicted, and the reasons are named."""

    class Broken(BoostingClassifier):
        def __init__(self, *_, **__):
            super().__init__()

        def path(self, X, y, held, groups="rows"):  # noqa: ARG002, N803 (scikit-learn's names)
            raise ValueError("out of order")

    use(linear=Broken, kernels=Broken, boosting=Broken, tree=Broken)
    features, labels = table(60)
    with pytest.raises(
        InputError, match=r"found none that did \(linear: out of order; kernels: out of order; boosting: out of order"
    ):
        AutoClassifier().fit(features, released(labels))


def test_without_time_class_shares_are_predicted():
    """With no time at all every member is left out, and says why."""
    features, labels = table(300)
    model = AutoClassifier(minutes=0).fit(features, released(np.where(labels == "mild", "mild", "none")))
    assert set(model.left_out_) == {"linear", "kernels", "boosting", "clusters"}
    assert all("no time left" in why for why in model.left_out_.values())
    assert (model.predict_proba(features) == model.predict_proba(features)[0]).all()


@pytest.mark.parametrize(("enough", "folds"), [(0.2, 1), (0.21, 2), (0.4, 2), (0.79, 4), (0.81, 5), (2.0, 5)])
def test_no_more_folds_are_held_out_than_judge_members_well(monkeypatch, enough, folds):
    """They have a share of the effective rows, unless every row is asked for, and are divided by five again."""
    labels = table(300)[1]
    release = Release.public(labels, SPACE)
    monkeypatch.setattr(AutoClassifier, "target", replace(CLASSES, effective=lambda _: 1.0))
    monkeypatch.setattr(auto, "ENOUGH_HELD", 300 * enough)
    for every_row, count in ((False, folds), (True, 5)):
        model = AutoClassifier(every_row=every_row)
        model._some(release, Units.of("rows", 300))
        parts, held, folded = model._parts(Units.of("rows", 300))
        assert (len(parts), len(held), len(folded)) == (count, 60 * count, 5)
        assert sorted(np.concatenate([rows for _, rows in parts])) == held.tolist()
        assert sorted(np.concatenate([rows for _, rows in folded])) == list(range(60 * count))


def test_of_few_units_every_fold_is_held_out_however_many_rows_there_are(monkeypatch):
    """One fold of ten units has two, too few to divide again by units."""
    monkeypatch.setattr(auto, "ENOUGH_HELD", 1)
    features, labels = table(300)
    model = AutoClassifier().fit(features, released(labels), groups=np.arange(300) % 10)
    assert len(model.held_out_) == 300


def test_rows_without_labels_find_clusters():
    """Further rows take part in encoders alone: trees of clusters have them, and the rows that are fitted do not."""
    features, labels = table(300)
    model = AutoClassifier().fit(features, released(labels), unlabelled=table(300, seed=2)[0])
    assert len(model.members_["clusters"][0][-1].trees_[0].leaves) == 600
    assert len(model.held_out_) == 300


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns="city"), "expected the columns age, city, found no city"),
        (lambda frame: frame.assign(city=1.0), "expected the column 'city' to be a category"),
        (lambda frame: frame.to_numpy(), "found no age, city; pass a frame"),
        (lambda frame: frame[:0], "expected features of at least one row, found none"),
    ],
)
def test_other_columns_are_refused(fitted, change, message):
    """Rows to predict, or without labels, have the columns of the fit and their kinds."""
    model, features, _, release = fitted
    with pytest.raises(InputError, match=message):
        model.predict(change(features))
    with pytest.raises(InputError, match=message):
        AutoClassifier().fit(features, release, unlabelled=change(features))


def test_few_rows_and_other_rows_are_refused(fitted):
    """There must be as many labels as rows, and a row for each fold."""
    _, features, _, release = fitted
    with pytest.raises(RowsError, match="expected a released label for each of 399 rows"):
        AutoClassifier().fit(features[:-1], release)
    with pytest.raises(InputError, match="at least 5 units"):
        AutoClassifier().fit(features[:4], release[:4])
    with pytest.raises(InputError, match="expected a unit in every row"):
        AutoClassifier().fit(features, release, [None] * len(features))
    with pytest.raises(InputError, match="expected a column of numbers, dates or text, found none"):
        AutoClassifier().fit(features[[]], release)
    with pytest.raises(InputError, match=r"expected a column of numbers, dates or text, found 'sets' of nested values"):
        AutoClassifier().fit(features[[]].assign(sets=[["no"]] * len(features)), release)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({0: np.arange(100.0), 1: np.ones(100)}),
        pd.DataFrame({"column_names": np.arange(100.0), "columns": np.ones(100)}),
        pa.table({"a": np.arange(100.0)}),
        pa.record_batch({"a": np.arange(100.0)}),
    ],
    ids=["numbered", "names of attributes", "Arrow", "batch"],
)
def test_no_column_is_said_to_be_left_out_that_is_not(table, recwarn):
    """Whatever columns are called, and whatever holds them."""
    model = AutoClassifier().fit(table, released(["mild", "grave"] * 50))
    assert not [each for each in recwarn if "Left out" in str(each.message)]
    assert len(model.feature_names_in_) == len(model.columns_)


def test_a_column_of_lists_is_left_out():
    """As a release by a prior has one: with a warning, and in predictions too, whatever the kind of the table."""
    features, labels = table(60)
    wide = features.assign(sets=[["no", "yes"]] * len(features))
    with pytest.warns(UserWarning, match="Left out 'sets': no model takes such values"):
        model = AutoClassifier().fit(pa.Table.from_pandas(wide, preserve_index=False), released(labels))
    assert list(model.feature_names_in_) == list(features)
    np.testing.assert_array_equal(model.predict_proba(wide), model.predict_proba(features))


def test_numeric_labels_are_refused_at_once():
    """They are for the regressor, and no model is fitted first."""
    release = Curator([1.0, 2.0] * 10, Interval(0, 9, 1)).randomize(epsilon=1.0)
    with pytest.raises(InputError, match="use AutoRegressor"):
        AutoClassifier().fit(np.zeros((20, 1)), release)


def test_one_released_class_is_learned():
    """A release in which one class alone occurs is no error, and that class is predicted."""
    features, _ = table(60)
    release = Release.public(["mild"] * 60, SPACE)
    assert set(AutoClassifier().fit(features, release).predict(features)) == {"mild"}


def mixture_problem(models=3, rows=400):
    """Predictions of models of different quality, and a release of what they predict."""
    random = np.random.default_rng(3)
    codes = random.integers(0, 3, rows)
    scores = np.eye(3)[codes] + random.normal(0, [[[0.6]], [[1.0]], [[3.0]]][:models], size=(models, rows, 3))
    predictions = np.exp(2.0 * scores) / np.exp(2.0 * scores).sum(axis=2, keepdims=True)
    return released(np.array(SPACE.points)[codes], 1.5), predictions


def held_out(release, predictions, used=None):
    """The problem of predictions of all rows by models, some of which tell rows apart."""
    varies = np.ones(len(predictions), dtype=bool) if used is None else used
    fitted = [Fitted(None, *each) for each in zip(predictions, varies, strict=True)]
    return held_out_classes(release, fitted, np.arange(len(release)), (), Units.of(None, len(release)))


def mixed(release, predictions, used=None):
    """The mixture of predictions."""
    return held_out(release, predictions, used).best()


def test_weights_are_those_of_a_solver():
    """Weights have the likelihood times prior that constrained optimisation finds, and none have a larger one."""
    release, predictions = mixture_problem()
    mixture = mixed(release, predictions)
    moved = np.stack([Mixture(mixture.constant, np.ones(1), np.array([s]))(p[None]) for s, p in zip(
        mixture.slopes, predictions, strict=True)])  # fmt: skip
    chances = (release.likelihood() * moved).sum(axis=2)

    def loss(weights):
        return -np.log(weights @ chances).sum() - 3.0 * np.log(np.maximum(weights, 1e-12)).sum()

    sums = {"type": "eq", "fun": lambda weights: weights.sum() - 1.0}
    best = minimize(loss, np.full(3, 1 / 3), bounds=[(0, 1)] * 3, constraints=[sums], method="SLSQP", tol=1e-12)
    assert loss(mixture.weights) <= best.fun + 0.01
    np.testing.assert_allclose(mixture.weights, best.x, atol=0.02)
    assert mixture.weights.argmax() == 0


def test_slopes_are_those_of_a_search():
    """The slope of one model maximises likelihood times prior on a fine grid; the model of noise is flattened."""
    release, predictions = mixture_problem()
    shares = mixed(release, predictions).constant
    for place in range(3):
        slope = mixed(release, predictions[[place]]).slopes[0]
        grid = np.exp(np.linspace(-3.5, 1.5, 501))
        values = [
            gain(release, Mixture(shares, np.ones(1), np.array([s]))(predictions[[place]])).sum()
            - np.log1p((np.log(s) / 0.25) ** 2)
            for s in grid
        ]
        assert slope == pytest.approx(grid[int(np.argmax(values))], abs=0.02)
    assert mixed(release, predictions[[2]]).slopes[0] < 0.5


def test_classes_are_as_common_as_all_rows_say():
    """Where some rows were held out, shifts differ by shares of all rows over those of these; all else is theirs."""
    release, predictions = mixture_problem()
    half, units = np.arange(200), Units.of(None, 400)
    own, every = mixed(release[half], predictions[:, half]), mixed(release, predictions)
    fitted = [Fitted(None, each, True) for each in predictions[:, half]]
    found = held_out_classes(release, fitted, half, (), units).best()
    np.testing.assert_allclose(found.shifts - own.shifts, np.log(every.constant / own.constant), atol=1e-9)
    assert np.abs(found.shifts - own.shifts).max() > 0.01
    np.testing.assert_array_equal(found.weights, own.weights)


def test_classes_are_as_common_as_rows_are_though_some_say_more():
    """Where people with one row differ from those with twenty, mean predictions are right over all rows."""
    random = np.random.default_rng(5)
    people = np.repeat(np.arange(4400), np.repeat([1, 20], [4000, 400]))
    codes = (random.random(len(people)) < np.where(people < 4000, 0.2, 0.7)).astype(int)
    release = Curator(codes, Classes([0, 1]), units=people).randomize(RandomizedResponse(Classes([0, 1]), 6.0))
    predictions = np.repeat([[[0.6, 0.4]], [[0.4, 0.6]]], len(people) // 2, axis=1).reshape(1, -1, 2)
    fitted, every, units = [Fitted(None, predictions[0], True)], np.arange(len(people)), Units.of(people, release)
    for doubt in (False, True):
        found = held_out_classes(release, fitted, every, (), units, doubt=doubt).best()
        assert found(predictions)[:, 1].mean() == pytest.approx(codes.mean(), abs=0.16)
    assert expit(np.diff(share_logits(release)))[0] < codes.mean() - 0.2


def test_numbers_are_on_average_those_of_all_rows_though_some_say_more():
    """Where people with one row differ from those with twenty, the constant and the mixture are right over all rows."""
    random = np.random.default_rng(5)
    people = np.repeat(np.arange(4400), np.repeat([1, 20], [4000, 400]))
    signal = random.normal(size=len(people))
    labels = np.clip(np.where(people < 4000, 30, 60) + 10 * signal, 0, 100).round()
    release = Curator(labels, Interval(0, 100, 1), units=people).randomize(LaplaceResponse(Interval(0, 100, 1), 20.0))
    predictions, every = (30 + 10 * signal)[None], np.arange(len(people))
    fitted, units = [Fitted(None, predictions[0], True)], Units.of(people, release)
    problem = held_out_numbers(release, fitted, every, [(every, every)], units)
    found = problem.best()
    for mean in (problem.start.constant, found(predictions).mean(), problem.mixed(found).mean()):
        assert mean == pytest.approx(labels.mean(), abs=5.0)
    again = Mixture.from_plain(found.plain(), 0, found.ends)
    np.testing.assert_array_equal(again(predictions), found(predictions))
    alone = held_out_numbers(
        Curator(labels, Interval(0, 100, 1)).randomize(LaplaceResponse(Interval(0, 100, 1), 20.0)),
        fitted,
        every,
        [(every, every)],
        Units.of(None, len(people)),
    ).best()
    assert alone.shifts is None


def test_a_model_that_tells_no_rows_apart_changes_nothing():
    """The mean is that of the others, in scores as well; without others it is the class shares."""
    release, predictions = mixture_problem(2)
    every = np.concatenate([predictions, np.tile([0.6, 0.3, 0.1], (1, 400, 1))])
    used, parts = (
        np.array([True, True, False]),
        [(np.arange(200, 400), np.arange(200)), (np.arange(200), np.arange(200, 400))],
    )
    alone, mixture = mixed(release, predictions), mixed(release, every, used)
    np.testing.assert_array_equal(mixture.weights, [*alone.weights, 0.0])
    np.testing.assert_array_equal(mixture(every), alone(predictions))
    np.testing.assert_array_equal(
        held_out(release, every, used).cross_fitted(parts),
        held_out(release, predictions).cross_fitted(parts),
    )
    none = mixed(release, every, np.zeros(3, dtype=bool))
    np.testing.assert_allclose(none(every), np.tile(none.constant, (400, 1)), rtol=1e-12)


def test_models_that_tell_no_rows_apart_weigh_nothing(use):
    """Where no leaf has the information that it asks for, boosting says nothing; alone, it leaves the class shares."""

    class Cautious(BoostingClassifier):
        def __init__(self, **given):
            super().__init__(information=1e9, **given)

    use(boosting=Cautious)
    features, labels = table(300)
    release = released(labels)
    model = AutoClassifier().fit(features, release)
    assert model.weights_["boosting"] == 0.0 < model.weights_["linear"]
    use(boosting=Cautious, alone=True)
    model = AutoClassifier().fit(features, release)
    assert model.weights_ == {"boosting": 0.0}
    np.testing.assert_allclose(model.predict_proba(features), np.tile(model.mixture_.constant, (300, 1)), rtol=1e-12)


@pytest.mark.parametrize("place", [0, 5_000, 9_999])
def test_a_single_row_that_differs_is_found(place):
    """A model varies if any row has another prediction, wherever it is."""

    class Ids:
        def predict_proba(self, rows):
            return np.where(rows == place, 0.4, 0.5) * np.ones((1, 2))

    rows = np.arange(10_000.0)[:, None]
    assert varies(Ids(), rows)
    assert not varies(Ids(), rows[rows[:, 0] != place])


def test_a_slope_of_zero_gives_class_shares():
    """Flattened to the end, a model predicts the class shares, not even ones."""
    shares = np.array([0.7, 0.2, 0.1])
    mixture = Mixture(shares, np.ones(1), np.zeros(1))
    np.testing.assert_allclose(mixture(np.full((1, 4, 3), 1 / 3)), np.tile(shares, (4, 1)))


def test_the_mixture_of_a_row_does_not_depend_on_its_label():
    """Weights for a fold are fitted on other folds: other labels in a fold leave its predictions as they are."""
    release, predictions = mixture_problem()
    parts = [(np.arange(200, 400), np.arange(200)), (np.arange(200), np.arange(200, 400))]
    first = held_out(release, predictions).cross_fitted(parts)
    other = release[np.concatenate([np.arange(199, -1, -1), np.arange(200, 400)])]
    second = held_out(other, predictions).cross_fitted(parts)
    np.testing.assert_array_equal(first[:200], second[:200])
    assert (first[200:] != second[200:]).any()


@pytest.mark.parametrize("classes", [2, 3])
def test_boosting_predicts_shares_where_features_say_nothing(classes):
    """On constant features there is no tree, and every row has the class shares."""
    space = Classes(SPACE.points[:classes])
    release = released([space.points[0]] * 150 + [space.points[1]] * 50, 4.0, space)
    model = BoostingClassifier().fit(np.zeros((200, 2)), release)
    assert model.rounds_ == 0
    assert (model.predict_proba(np.zeros((3, 2))) == model.predict_proba(np.ones((3, 2)))).all()
    assert set(model.predict(np.zeros((3, 2)))) == {space.points[0]}


def test_leaves_hold_a_least_information():
    """With more information wanted in a leaf than there is, no tree splits."""
    features, labels = table(300)
    rows = np.nan_to_num(features[["age"]].to_numpy())
    release = released(labels, 1.0)
    fine, coarse = (BoostingClassifier(information=each).fit(rows, release) for each in (0.5, 1e6))
    assert coarse.rounds_ == 0
    assert fine.rounds_ > 0
    assert (fine.predict(rows) == labels).mean() > (coarse.predict(rows) == labels).mean()


def test_many_categories_that_say_nothing_cost_little(randomized):
    """At epsilon 1 predictions beside 150 of them follow the number that decides: 0.96 to 0.98, not 0.83 to 0.91."""
    chance = np.random.default_rng(0)
    features = np.column_stack([chance.normal(size=6000), chance.integers(0, 150, 6000)])
    rates = expit(1.5 * features[:, 0])
    release = randomized(chance.random(3000) < rates[:3000], ResponseChannel.at(2, 1.0), 0)
    model = BoostingClassifier(categorical=[1], rounds=100).fit(features[:3000], release)
    assert np.corrcoef(model.predict_proba(features[3000:])[:, 1], rates[3000:])[0, 1] > 0.94


def test_leaves_of_rows_are_those_of_the_tree():
    """Rows that trees were built from have their leaves; the same rows as new ones go to the same cluster."""
    points = np.random.default_rng(0).normal(size=(500, 3)) + np.repeat([[0.0], [9.0]], 250, axis=0)
    encoder = ClusterLeaves()
    leaves = encoder.fit_transform(points)
    assert leaves.shape == (500, 4)
    new = encoder.transform(points)
    np.testing.assert_array_equal(leaves[:, 0], new[:, 0])
    np.testing.assert_array_equal(new, np.stack([tree.predict(points) for tree in encoder.trees_], axis=1))
    halves = [set(leaves[:250, place]) & set(leaves[250:, place]) for place in range(4)]
    assert not any(halves)


def test_sparse_and_many_columns_are_reduced_first():
    """Many columns become 50 leading vectors, of dense and sparse features alike."""
    points = np.random.default_rng(0).normal(size=(120, 80))
    dense, sparse = ClusterLeaves(), ClusterLeaves()
    np.testing.assert_array_equal(dense.fit_transform(points), sparse.fit_transform(csr_matrix(points)))
    assert dense.components_.n_components == 50


def test_columns_of_one_unit_keep_their_scale():
    """Columns of similar deviation are divided by one number, others each by its own."""
    random = np.random.default_rng(0)
    alike = random.normal(size=(100, 4)) * [1.0, 2.0, 1.0, 0.5]
    scaled = UnitScaler().fit(alike)
    assert len(set(scaled.scale_)) == 1
    different = UnitScaler().fit(alike * [1.0, 1.0, 1.0, 1000.0])
    np.testing.assert_allclose(different.transform(alike * [1.0, 1.0, 1.0, 1000.0]).std(axis=0), 1.0)


def test_progress_is_reported():
    """Each fit is reported, and the end at last; the number never falls."""
    features, labels = table(300)
    seen = []
    AutoClassifier().fit(features, released(labels), report=lambda *each: seen.append(each))
    assert {(name, total) for name, _, total in seen} == {("learn", 24)}
    done = [count for _, count, _ in seen]
    assert done == sorted(done)
    assert set(done) == set(range(25))


def test_a_deadline_ends_a_member_between_its_fits(use):
    """A member that outlasts the time is left out rather than fitted on all rows."""

    class Slow(BoostingClassifier):
        def path(self, X, y, held, groups="rows"):  # noqa: N803 (scikit-learn's name)
            time.sleep(0.3)
            return super().path(X, y, held, groups)

    use(boosting=Slow, linear=Slow)
    features, labels = table(100)
    begun = time.monotonic()
    model = AutoClassifier(minutes=0.1 / 60).fit(features[["age"]].fillna(0.0), released(labels))
    assert set(model.left_out_) == {"linear", "kernels", "boosting", "clusters"}
    assert time.monotonic() - begun < 5.0


def test_an_interrupt_keeps_what_is_finished_where_progress_is_watched(use):
    """What is not finished is left out and named; unwatched, or with nothing finished, the interrupt is passed on."""

    class Stopped(BoostingClassifier):
        def path(self, X, y, held, groups="rows"):  # noqa: ARG002, N803 (scikit-learn's names)
            raise KeyboardInterrupt

    use(boosting=Stopped)
    features, labels = table(100)
    features, release = features[["age"]].fillna(0.0), released(labels)
    model = AutoClassifier(folds=2).fit(features, release, report=lambda *_: None)
    assert list(model.members_) == ["linear", "kernels"]
    assert model.left_out_ == dict.fromkeys(["boosting", "clusters"], "it was interrupted")
    assert (model.predict(features) == labels).mean() > 0.7
    with pytest.raises(KeyboardInterrupt):
        AutoClassifier(folds=2).fit(features, release)
    use(boosting=Stopped, alone=True)
    with pytest.raises(KeyboardInterrupt):
        AutoClassifier(folds=2).fit(features, release, report=lambda *_: None)


def test_the_number_and_the_names_of_features_are_kept():
    """As other learners of scikit-learn do: the names of a frame's columns, and none of an array's."""
    features = np.random.default_rng(0).normal(size=(60, 2))
    space = Classes(["no", "yes"])
    release = Curator(np.where(features[:, 0] > 0, "yes", "no"), space).randomize(epsilon=4.0)
    named = AutoClassifier(folds=2).fit(pd.DataFrame(features, columns=["a", "b"]), release)
    assert (named.n_features_in_, named.feature_names_in_.tolist()) == (2, ["a", "b"])
    bare = AutoClassifier(folds=2).fit(features, release)
    assert bare.n_features_in_ == 2
    assert not hasattr(bare, "feature_names_in_")


def test_weights_of_rows_reach_every_model_of_a_combination():
    """Where half of the rows say the reverse, each model follows the half that weighs more."""
    pytest.importorskip("lightgbm")
    features = pd.DataFrame({"x": np.repeat([0.0, 1.0], 1000)})
    first = np.arange(2000) % 2 == 0
    release = Release.public(np.where((features["x"] > 0) ^ first, "yes", "no"), Classes(["no", "yes"]))
    for heavy, least, most in ((True, 0.0, 0.4), (False, 0.6, 1.0)):
        model = AutoClassifier().fit(features, release, sample_weight=np.where(first == heavy, 9.0, 1.0))
        chances = {name: member.predict_proba(features[-1:])[0, 1] for name, member in model.members_.items()}
        assert all(least < chance < most for chance in chances.values()), chances


def test_a_mixture_makes_a_class_as_common_as_labels_say():
    """Models whose odds of a rare class are a third of what they are get a shift; of few rows, part of one."""
    chance = np.random.default_rng(0)
    odds = np.exp(1.5 * chance.normal(size=60_000) - 4.0)
    rates, low = odds / (1.0 + odds), odds / (3.0 + odds)
    labels = np.where(chance.random(60_000) < rates, "yes", "no")
    release = Curator(labels, Classes(["no", "yes"])).randomize(epsilon=4.0)
    third = np.stack([1.0 - low, low], axis=1)[None]
    assert mixed(release, third)(third)[:, 1].mean() == pytest.approx(rates.mean(), rel=0.1)
    few = mixed(release[:50], third[:, :50])
    assert third[0, :50, 1].mean() < few(third[:, :50])[:, 1].mean() < few.constant[1]


def test_of_very_many_rows_some_are_learned_from(monkeypatch):
    """They are whole units, whose held-out rows are named by their numbers, and what is said counts them."""
    monkeypatch.setattr(auto, "SOME_ROWS", 300)
    monkeypatch.setattr(auto, "_ENOUGH_ROWS", 1)
    features, labels = table(900)
    unit = np.arange(900) // 3
    model = AutoClassifier().fit(features, released(labels), groups=unit)
    assert model.fitted_rows_ == 300
    assert sorted(model.held_out_rows_) == some_rows(Units.of(unit, 900), 300, [0]).tolist()
    assert "from 300 rows, as more change little" in model.setting()
    assert (model.predict(features) == labels).mean() > 0.8
    monkeypatch.setattr(auto, "_ENOUGH_ROWS", 10_000)
    assert AutoClassifier().fit(features, released(labels), groups=unit).fitted_rows_ == 900


def test_clusters_are_for_few_effective_rows(monkeypatch):
    """Where many rows are effective they are left out, and it says why."""
    monkeypatch.setattr(auto, "_NO_CLUSTERS", 100)
    features, labels = table(400)
    model = AutoClassifier().fit(features, released(labels))
    assert model.left_out_ == {"clusters": "it is for fewer effective rows"}
    assert "clusters" not in model.members_


@pytest.mark.parametrize(("many", "rate"), [(20_000, 0.1), (100, 0.2)])
def test_boosting_learns_faster_from_many_effective_rows(monkeypatch, many, rate):
    """Its learning rate follows the effective rows of the release, in files too."""
    pytest.importorskip("lightgbm")
    monkeypatch.setattr("labeldp.learning.sklearn._auto._MANY_EFFECTIVE", many)
    features, labels = table()
    model = AutoClassifier().fit(features, released(labels))
    assert 100 < model.effective_rows_ < 10_000
    assert model.members_["boosting"][-1].learning_rate == rate
