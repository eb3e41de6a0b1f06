import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import labeldp.release.curator._drawing
from labeldp import Classes, Curator, RandomizedResponse, Release
from labeldp.errors import InputError, NotTrueLabelsError
from labeldp.learning.losses import METHODS
from labeldp.learning.metrics import accuracy_scorer, log_likelihood_scorer
from labeldp.learning.sklearn import ReleasedLabelClassifier, SoftmaxRegression

SPACE = Classes(["ham", "jam", "spam"])


def problem(rows, seed=0, apart=2.0):
    """Features of three classes, the further apart the easier to tell, and class codes."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, rows)
    centres = apart * np.eye(3, 4)
    return rng.normal(size=(rows, 4)) + centres[codes], codes


def names(codes):
    """Class codes as classes."""
    return np.array(SPACE.points)[codes]


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("form", [np.asarray, csr_matrix, csr_array])
@pytest.mark.parametrize("weighted", [True, False])
def test_public_labels_give_logistic_regression(form, intercept, weighted):
    """On public labels the coefficients and probabilities are scikit-learn's, in every form and with weights."""
    features, codes = problem(150)
    weights = np.random.default_rng(1).uniform(0.1, 2.0, 150) if weighted else np.ones(150)
    c = 0.5
    ours = SoftmaxRegression(l2=1 / (c * weights.sum()), fit_intercept=intercept, tol=1e-8, max_iter=5000)
    ours.fit(form(features), Release.public(names(codes), SPACE), weights if weighted else None)
    theirs = LogisticRegression(C=c, fit_intercept=intercept, tol=1e-10, max_iter=5000)
    theirs.fit(features, names(codes), weights)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(form(features)), theirs.predict_proba(features), atol=1e-5)
    assert ours.predict(form(features)).tolist() == theirs.predict(features).tolist()
    centred = ours.intercept_ - ours.intercept_.mean()
    np.testing.assert_allclose(centred, theirs.intercept_ - theirs.intercept_.mean(), atol=1e-5)


def test_weights_stand_for_repeated_rows(randomized, make_channel):
    """A row of weight two counts as two rows with the same released label, and one of weight zero as none."""
    features, codes = problem(300)
    release = randomized(codes, make_channel("subset", 3, 300, 2.0), 1)
    weights = np.random.default_rng(2).integers(0, 3, 300)
    rows = np.repeat(np.arange(300), weights)
    one = SoftmaxRegression(l2=0.01, tol=1e-9).fit(features, release, weights)
    two = SoftmaxRegression(l2=0.01, tol=1e-9).fit(features[rows], release[rows])
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-5)


def test_a_partial_correction_lies_between_none_and_all(make_channel, randomized):
    """Without any it is the plain learner, with all of it the unbiased one, and half of it keeps half of the bias."""
    features, codes = problem(32_000, seed=4)
    clean = SoftmaxRegression(l2=1e-4).fit(features, Release.public(names(codes), SPACE)).predict_proba(features[:500])
    release = randomized(codes, make_channel("cluster", 3, 32_000, 1.0), 5)
    plain = SoftmaxRegression(method="plain", l2=1e-4).fit(features, release).predict_proba(features[:500])
    errors = []
    for correction in (0.0, 0.5, 1.0):
        model = SoftmaxRegression(method="unbiased", correction=correction, l2=1e-4).fit(features, release)
        found = model.predict_proba(features[:500])
        errors.append(np.abs(found - clean).mean())
        if not correction:
            np.testing.assert_allclose(found, plain, atol=1e-3)
    assert errors[0] > 1.3 * errors[1] > 1.3**2 * errors[2]


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("labels", [["ham", "spam"], np.array([0, 1]), None], ids=["list", "array", "nothing"])
@pytest.mark.parametrize("model", [SoftmaxRegression(l2=0.1), ReleasedLabelClassifier()], ids=["softmax", "any"])
def test_bare_labels_are_refused(model, labels):
    """Bare labels are refused in fit and in score, with the ways to a release."""
    features = np.array([[0.0], [1.0]])
    fitted = clone(model).fit(features, Release.public(["ham", "spam"], SPACE))
    for ask in (clone(model).fit, fitted.score):
        with pytest.raises(NotTrueLabelsError, match=r"expected a Release as labels, .*wrap public labels with"):
            ask(features, labels)


@pytest.fixture
def draws(monkeypatch):
    """The numbers of rows that were drawn, one for each draw."""
    found, draw = [], labeldp.release.curator._drawing.draw

    def counted(channel, codes, *words):
        found.append(len(codes))
        return draw(channel, codes, *words)

    monkeypatch.setattr("labeldp.release.curator._drawing.draw", counted)
    return found


def test_model_selection_draws_once(draws):
    """Pipelines, splits, cross-validation, searches in parallel and clones work on one draw of each label."""
    features, codes = problem(600)
    release = Curator(names(codes), SPACE).randomize(RandomizedResponse(SPACE, 3.0))
    train, test, released, held = train_test_split(features, release, test_size=100, random_state=0)
    assert (len(released), len(held)) == (500, 100)
    pipeline = make_pipeline(StandardScaler(), SoftmaxRegression(l2=0.01))
    assert pipeline.fit(train, released).predict(test).shape == (100,)
    assert np.isfinite(pipeline.score(test, held))
    for scoring in (None, log_likelihood_scorer, accuracy_scorer):
        assert np.isfinite(cross_val_score(clone(pipeline), train, released, scoring=scoring, cv=3)).all()
    search = GridSearchCV(
        pipeline, {"softmaxregression__l2": [1e-3, 1.0, 100.0]}, scoring=log_likelihood_scorer, n_jobs=2, cv=3
    )
    search.fit(train, released)
    assert search.best_params_["softmaxregression__l2"] < 100
    assert np.isfinite(search.score(test, held))
    assert draws == [600]


def test_automatic_penalties_draw_once(draws):
    """Choosing the penalty and expectation maximisation use the labels that were released, and draw none."""
    features, codes = problem(400)
    release = Curator(names(codes), SPACE).randomize(RandomizedResponse(SPACE, 2.0))
    assert SoftmaxRegression().fit(features, release).l2_ > 0
    ReleasedLabelClassifier(max_iter=2).fit(features, release)
    assert draws == [400]


def test_expectation_maximisation_starts_close(kind, make_channel, randomized):
    """Before any round, for every kind of channel, the log loss is below that of released labels taken for true.

    Where rows have no candidates it is below 0.62 of it, and would be above 0.69 if the noise were not taken off.
    """
    features, codes = problem(4000, seed=14, apart=3.0)
    release = randomized(codes, make_channel(kind, 3, 4000, 2.0), 15)
    tree = DecisionTreeClassifier(min_samples_leaf=40, random_state=0)
    loss = {}
    for method in ("em", "plain"):
        model = ReleasedLabelClassifier(tree, method=method, max_iter=0).fit(features, release)
        chance = np.clip(model.predict_proba(features), 1e-3, 1.0)
        loss[method] = -np.log(chance[np.arange(4000), codes]).mean()
    assert loss["em"] < (1.0 if kind == "candidates" else 0.62) * loss["plain"]


def test_expectation_maximisation_on_public_labels_is_the_classifier():
    """On public labels it is the classifier itself, and one fold sees the rows it was fitted on."""
    features, codes = problem(200)
    public = Release.public(names(codes), SPACE)
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    found = ReleasedLabelClassifier(tree).fit(features, public)
    expected = clone(tree).fit(features, names(codes))
    np.testing.assert_allclose(found.predict_proba(features), expected.predict_proba(features))
    release = Curator(names(codes), SPACE).randomize(RandomizedResponse(SPACE, 3.0))
    seen = ReleasedLabelClassifier(tree, folds=1, max_iter=2).fit(features.tolist(), release)
    np.testing.assert_allclose(seen.predict_proba(features).sum(axis=1), 1.0)


@pytest.mark.parametrize("method", METHODS)
def test_one_observed_class_gives_a_model(method):
    """If all released labels are one class, all declared classes still have probabilities."""
    features = problem(60)[0]
    release = Release.public(["ham"] * 60, SPACE)
    found = SoftmaxRegression(method=method, l2=0.1).fit(features, release).predict_proba(features)
    assert found.shape == (60, 3)
    assert (found.argmax(axis=1) == 0).all()
    other = ReleasedLabelClassifier(DecisionTreeClassifier()).fit(features, release)
    assert other.predict(features).tolist() == ["ham"] * 60
    np.testing.assert_allclose(other.predict_proba(features)[:, 1:], 0.0)


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda x, r: SoftmaxRegression().fit(x[:5], r), "a released label for each of 5 rows of features, found 60"),
        (lambda x, r: ReleasedLabelClassifier().fit(x[:5], r), "a released label for each of 5 rows"),
        (lambda x, r: ReleasedLabelClassifier().fit(x[:0], r[:0]), "expected at least one row, found none"),
        (lambda x, r: SoftmaxRegression(method="em").fit(x, r), "a method among likelihood, unbiased, plain"),
        (
            lambda x, r: ReleasedLabelClassifier(method="forward").fit(x, r),
            "a method among em, clusters, plain, found 'forward'",
        ),
        (
            lambda x, r: SoftmaxRegression(correction=0.5).fit(x, r),
            "only with method='unbiased', found 0.5 with 'likelihood'",
        ),
        (lambda x, r: SoftmaxRegression().fit(x, r, [1.0]), "expected 60 finite weights"),
        (lambda x, r: SoftmaxRegression().fit(x, r, np.zeros(60)), "that are not all zero"),
        (lambda x, r: SoftmaxRegression().fit(x, r, -np.ones(60)), "of at least 0"),
        (
            lambda x, r: ReleasedLabelClassifier(KNeighborsClassifier()).fit(x, r),
            "a classifier that takes sample_weight, found KNeighborsClassifier",
        ),
    ],
)
def test_what_cannot_be_fitted_is_refused(ask, message):
    """Lengths, methods, weights and classifiers that cannot be used are named."""
    features, codes = problem(60)
    with pytest.raises(InputError, match=message):
        ask(features, Release.public(names(codes), SPACE))


@pytest.mark.parametrize("epsilon", [0.02, 0.1, 1.0])
def test_a_flat_likelihood_is_climbed_too(epsilon):
    """At a small epsilon gradients are small everywhere; where it stops they are small beside those at the start."""
    rows, space = 20_000, Classes(range(10))
    codes = np.random.default_rng(0).integers(0, 10, rows)
    features = np.eye(10)[codes]
    release = Curator(codes, space).randomize(RandomizedResponse(space, epsilon))

    def gradient(coefficients):
        joint = np.exp(features @ coefficients)
        model = joint / joint.sum(axis=1, keepdims=True)
        said = release.likelihood() * model
        return features.T @ (model - said / said.sum(axis=1, keepdims=True)) / rows

    model = SoftmaxRegression(l2=1e-9, fit_intercept=False).fit(features, release)
    assert model.n_iter_ > 0
    start, end = np.abs(gradient(np.zeros((10, 10)))).max(), np.abs(gradient(model.coef_.T)).max()
    assert end < 0.2 * start
