"""Gradients that a curator tells: what is asked, what is made of what is told, and that each label is used once."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from labeldp import Classes, Curator, Interval, NoisyGradients, RandomizedResponse, Release
from labeldp._random_words import TapeWords
from labeldp.errors import BudgetError, InputError
from labeldp.learning.convex import (
    Ball,
    ConvexClassifier,
    ConvexRegressor,
    FewRowsWarning,
    Unconstrained,
    fit_interactively,
)
from labeldp.learning.convex._descent import Descent, DescentRows, Steps
from labeldp.learning.convex._learners import _GradientClient, _noise
from labeldp.learning.convex._losses import LOSSES
from labeldp.learning.sklearn import SoftmaxRegression

CLASSES, ROWS, COLUMNS = 4, 60, 3
POINTS = np.linspace(-1.0, 1.0, CLASSES)
NAMES = ["secret-ham", "secret-jam", "secret-spam"]
SPACE = Classes(NAMES)


def begun(loss, rng):
    """A descent, rows, their order and true labels; the asker of all that."""
    features, order = rng.normal(size=(ROWS, COLUMNS)), rng.permutation(ROWS)
    descent = Descent(loss, Ball(2.0), COLUMNS + 1, POINTS, Steps(0.1))
    return (
        _GradientClient(descent, DescentRows.of(features, True), order),
        features,
        order,
        rng.integers(0, CLASSES, ROWS),
    )


def posed(asker, row):
    """The vectors of the classes; those at right angles written out."""
    asked = asker.ask(row)
    return np.diag(asked) if asked.ndim == 1 else asked


@pytest.mark.parametrize("name", LOSSES)
def test_what_is_told_without_noise_is_the_gradient(name):
    """Given the true class's own vector, each step is one of descent on true labels."""
    asker, features, order, codes = begun(LOSSES[name], np.random.default_rng(1))
    for row in range(ROWS):
        asker.tell(row, posed(asker, row)[codes[order[row]]])
    known = Descent(LOSSES[name], Ball(2.0), COLUMNS + 1, POINTS, Steps(0.1))
    known.run(DescentRows.of(csr_array(features), True), order, np.eye(CLASSES)[codes[order]])
    np.testing.assert_allclose(asker._descent.mean, known.mean, atol=1e-12)
    np.testing.assert_allclose(asker._descent.last, known.last, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_steps_stay_in_the_span_of_gradients(name):
    """Whatever is told, a step differs from every gradient's by a combination of their differences."""
    rng = np.random.default_rng(2)
    asker, features, order, codes = begun(LOSSES[name], rng)
    descent = asker._descent
    descent.region, descent.core = Ball(1e9), rng.normal(size=descent.core.shape)
    for row in range(20):
        before, x = descent.last, np.append(features[order[row]], 1.0)
        gradients = descent.loss.gradients(x @ before, POINTS)
        vectors = posed(asker, row)
        noise = rng.normal(size=vectors.shape[1]) * (vectors != vectors[0]).any()  # none is put on what is all the same
        asker.tell(row, vectors[codes[row]] + noise)
        moved = (before - descent.last) / 0.1
        pull = x @ moved / (x @ x)
        np.testing.assert_allclose(moved, np.outer(x, pull), atol=1e-9)
        apart = (gradients - gradients[0]).T
        share, *_ = np.linalg.lstsq(apart, pull - gradients[0], rcond=None)
        left = apart @ share - (pull - gradients[0])
        np.testing.assert_allclose(left, 0.0, atol=1e-9)


def problem(rows, seed=0):
    """Features of three classes, and their labels."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, rows)
    return rng.normal(size=(rows, 4)) + 3.0 * np.eye(3, 4)[codes], np.array(NAMES)[codes]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("loss", ["softmax", "linear"])
def test_a_curator_is_asked_once_for_each_label(loss, delta):
    """The answer has a line of as many entries as classes for each row, says what was spent, and nothing is left."""
    features, labels = problem(500)
    wide = np.column_stack([features, np.zeros((500, 300))])
    curator = Curator(labels, SPACE, budget=(8.0, 1e-5))
    model = ConvexClassifier(loss, region=Ball(5.0))
    assert fit_interactively(model, csr_array(wide), curator, epsilon=8.0, delta=delta) is model
    answer = model.answer_
    assert answer.value.shape == (500, 3)
    assert answer.guarantee.epsilon == pytest.approx(8.0, rel=1e-3)
    assert answer.guarantee.epsilon <= 8.0
    assert answer.guarantee.delta == delta
    assert model.steps_done_ == 500
    assert model.coef_.shape == (3, 304)
    assert (model.coef_[:, 4:] == 0).all()
    for again in (
        lambda: fit_interactively(model, wide, curator, epsilon=8.0, delta=delta),
        lambda: curator.randomize(RandomizedResponse(SPACE, 0.1)),
    ):
        with pytest.raises(BudgetError) as error:
            again()
        assert "secret" not in str(error.value)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_label_changes_nothing_before_its_own_step(delta):
    """With the same words, two curators whose labels differ in one row are asked the same up to that row's step."""
    rng, changed = np.random.default_rng(4), 40
    _, _, order, codes = begun(LOSSES["softmax"], rng)
    words = rng.integers(0, 1 << 64, 1 << 16, dtype=np.uint64)
    told = []
    for other in (0, 1):
        twin, *_ = begun(LOSSES["softmax"], np.random.default_rng(4))
        held = codes[order].copy()
        held[changed] = (held[changed] + other) % CLASSES
        query = NoisyGradients(Classes(list("abcd")), 4.0, delta, client=twin, rows=ROWS)
        told.append(query.answer(held, 1, TapeWords(words)))
        assert not {"codes", "labels", "curator"} & vars(twin).keys()
    np.testing.assert_array_equal(told[0][:changed], told[1][:changed])
    assert (told[0][changed] != told[1][changed]).any()


def test_the_steps_of_proposition_11_are_made_of_the_noise():
    """``D / (G sqrt(t))`` with the second moment of what is told, and the steps of the bound with R / (G sqrt(n))."""
    features, labels = problem(500)
    for steps, expected in (("ghazi", 4.0 / math.sqrt(100)), ("bound", 2.0 / math.sqrt(500))):
        model = ConvexClassifier(region=Ball(2.0), steps=steps, norm=20.0, fit_intercept=False)
        fit_interactively(model, features, Curator(labels, SPACE), epsilon=5.0)
        moment = 400 * (2.0 + _noise(LOSSES["softmax"], 3, 5.0, 0.0))
        assert model.moment_ == pytest.approx(moment, rel=1e-12)
        found = model._descent.steps.rate(np.array([100.0]))[0]
        assert found == pytest.approx(expected / math.sqrt(moment), rel=1e-12)


def test_told_gradients_may_be_followed_by_a_release():
    """A regressor that was told gradients goes on with released labels, and stays good."""
    space, x = Interval(0, 10, 1), np.random.default_rng(5).uniform(-1, 1, size=(800, 1))
    labels = np.rint(5 + 4 * x[:, 0])
    model = fit_interactively(ConvexRegressor(region=Ball(1.5)), x, Curator(labels, space), epsilon=10.0)
    for _ in range(5):
        model.partial_fit(x, Release.public(labels, space))
    assert np.abs(model.predict(x) - labels).mean() < 1.0


def test_noise_on_units_is_that_of_a_share_of_their_epsilon():
    """With four labels to a unit and one bit for each, steps are made for a quarter of epsilon."""
    features, labels = problem(400)
    found = []
    for units, epsilon in ((np.repeat(np.arange(100), 4), 8.0), (None, 2.0)):
        curator = Curator(labels, SPACE, units=units)
        found.append(fit_interactively(ConvexClassifier(region=Ball(5.0)), features, curator, epsilon=epsilon).moment_)
    assert found[0] == pytest.approx(found[1], rel=1e-9)


@pytest.mark.usefixtures("as_users_call")
def test_what_cannot_be_fitted_interactively_is_refused_before_anything_is_asked():
    """Another learner, several passes, other rows, classes for a loss of numbers, too little epsilon: all is left."""
    features, labels = problem(60)
    curator = Curator(labels, SPACE, budget=4.0)
    cases = [
        (SoftmaxRegression(), features, 1.0, "expected a ConvexClassifier or a ConvexRegressor"),
        (ConvexClassifier(passes=2), features, 1.0, "each label is used only once"),
        (ConvexClassifier(), features[:50], 1.0, "features of 60 rows"),
        (ConvexRegressor(), features, 1.0, "curator of numeric labels"),
        (ConvexRegressor("absolute"), features, 1.0, "curator of numeric labels"),
        (ConvexClassifier(), features * math.nan, 1.0, "NaN"),
        (ConvexClassifier(), features, 1e-5, "steps this small make no progress"),
        (ConvexClassifier(steps="chua", region=Unconstrained(1.0)), features, 2.0, "bounded region"),
        (ConvexClassifier(norm=0.1), features, 2.0, "declared norm"),
    ]
    for model, given, epsilon, words in cases:
        with pytest.raises(ValueError, match=words) as error:
            fit_interactively(model, given, curator, epsilon=epsilon)
        assert "secret" not in str(error.value)
    with pytest.raises(InputError, match="0"):
        fit_interactively(ConvexClassifier(), features, curator, epsilon=0.0)
    with pytest.warns(FewRowsWarning, match="expected at least"):
        fit_interactively(ConvexClassifier(region=Ball(1.0)), features, curator, epsilon=0.1)
    fit_interactively(ConvexClassifier(region=Ball(1.0)), features, curator, epsilon=3.9)
