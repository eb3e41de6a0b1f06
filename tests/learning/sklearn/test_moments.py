"""Linear heads from label moments: against solvers of other people, and what noise, penalty and projection do."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import chi2
from sklearn.linear_model import LogisticRegression, Ridge

from labeldp import Classes, Curator, LabelMoments, NoisyHistogram, Release
from labeldp.errors import InputError, NotTrueLabelsError
from labeldp.learning.heads._softmax import (
    HEADS,
    Moments,
    RotatedFeatures,
    penalty_at_noise,
    project_moments,
)
from labeldp.learning.sklearn import MomentClassifier

SPACE = Classes(["ham", "jam", "spam"])


def names(codes):
    """Class codes as classes."""
    return np.array(SPACE.points)[codes]


def problem(rows=600, seed=0, apart=1.5):
    """Features of three overlapping classes with a column of ones, and class codes."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, rows)
    points = rng.normal(size=(rows, 4)) * np.array([1.0, 0.5, 2.0, 0.7]) + apart * np.eye(3, 4)[codes]
    return np.hstack([points, np.ones((rows, 1))]), codes


def asked(features, codes, epsilon, **options):
    """The answer of a curator to a question about moments."""
    return Curator(names(codes), SPACE).answer(LabelMoments(SPACE, epsilon, 1e-6, features, **options))


def noisy(features, codes, deviation, seed=0):
    """Rotated features and moments with noise of a seed."""
    rotated = RotatedFeatures.of(features)
    noise = deviation * np.random.default_rng(seed).normal(size=(features.shape[1], 3))
    return rotated, Moments.of(features.T @ np.eye(3)[codes] + noise, deviation, rotated, 0.0)


def test_little_noise_gives_logistic_regression():
    """With a large epsilon the softmax head is scikit-learn's logistic regression on true labels."""
    features, codes = problem(20_000)
    model = MomentClassifier(l2=2.0, project=False, tol=1e-8).fit(features, asked(features, codes, 650.0))
    theirs = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-10, max_iter=5000).fit(features, names(codes))
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=0.02)
    np.testing.assert_allclose(model.predict_proba(features), theirs.predict_proba(features), atol=4e-3)
    assert tuple(model.classes_) == SPACE.points


def test_little_noise_gives_ridge_regression():
    """With a large epsilon the squared head is ridge regression on one-hot labels less a k-th."""
    features, codes = problem(20_000)
    model = MomentClassifier(loss="squared", l2=2.0, project=False).fit(features, asked(features, codes, 650.0))
    theirs = Ridge(alpha=2.0, fit_intercept=False).fit(features, np.eye(3)[codes] - 1 / 3)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-3)
    scores = theirs.predict(features)
    clear = np.diff(np.sort(scores, axis=1)[:, 1:]).ravel() > 5e-3
    assert clear.mean() > 0.9
    assert model.predict(features[clear]).tolist() == names(scores.argmax(axis=1)[clear]).tolist()
    found = model.predict_proba(features)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    inside = (scores + 1 / 3 > 0.01).all(axis=1)
    assert inside.sum() > 50
    np.testing.assert_allclose(found[inside], scores[inside] + 1 / 3, atol=2e-3)


@pytest.mark.parametrize("loss", HEADS)
def test_the_head_is_the_optimum_of_its_loss(loss):
    """What a head leaves over of noisy moments is l2 W: the gradient of its loss, written out in numpy, is nothing."""
    features, codes = problem(300)
    rotated, moments = noisy(features, codes, 20.0)
    head = HEADS[loss](rotated, moments, 3.0, 1e-9, None)
    if loss == "softmax":
        odds = np.exp(rotated.features @ head)
        predicted = odds / odds.sum(axis=1, keepdims=True)
    else:
        predicted = rotated.features @ head + 1 / 3
    np.testing.assert_allclose(rotated.features.T @ predicted + 3.0 * head, moments.value, atol=1e-5)


def test_row_sums_are_set_right():
    """Moments are moved to the nearest whose row sums are those of the features, which are public."""
    features, codes = problem(300)
    rotated, moments = noisy(features, codes, 20.0)
    np.testing.assert_allclose(moments.value.sum(axis=1), rotated.features.sum(axis=0), atol=1e-8)
    raw = rotated.vectors.T @ (features.T @ np.eye(3)[codes] + 20.0 * np.random.default_rng(0).normal(size=(5, 3)))
    moved = moments.value - raw
    np.testing.assert_allclose(moved, np.broadcast_to(moved[:, :1], moved.shape), atol=1e-9)


def test_projected_moments_are_nearest():
    """Projected moments are those F^T Y that an independent solver finds nearest, less the entropy that is allowed."""
    features, codes = problem(60)
    rotated, moments = noisy(features, codes, 15.0)
    longest = float(np.linalg.norm(features, axis=1).max())
    found = project_moments(rotated, moments, longest, 1e-8).value

    def objective(flat):
        logits = flat.reshape(60, 3) - flat.reshape(60, 3).max(axis=1, keepdims=True)
        logits = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        rows = np.exp(logits)
        off = rotated.features.T @ rows - moments.value
        slope = rotated.features @ off + 0.1 * 15.0 * longest * logits
        value = 0.5 * np.vdot(off, off) + 0.1 * 15.0 * longest * np.vdot(rows, logits)
        return value, (rows * (slope - (rows * slope).sum(axis=1, keepdims=True))).ravel()

    options = {"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-14, "gtol": 1e-7}
    best = minimize(objective, np.zeros(180), jac=True, method="L-BFGS-B", options=options)
    rows = np.exp(best.x.reshape(60, 3))
    rows /= rows.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, rotated.features.T @ rows, atol=0.05)
    truth = rotated.vectors.T @ features.T @ np.eye(3)[codes]
    assert np.linalg.norm(found - moments.value) < np.linalg.norm(truth - moments.value)


@pytest.mark.parametrize("deviation", [1.0, 10.0, 30.0])
@pytest.mark.parametrize("loss", HEADS)
def test_a_head_leaves_over_what_noise_adds(loss, deviation):
    """At the automatic penalty what is left over of the moments is as long as nineteen draws of noise in twenty."""
    features, codes = problem(2000)
    rotated, moments = noisy(features, codes, deviation)
    l2 = penalty_at_noise(rotated, moments, HEADS[loss], 1e-9)
    left = l2 * np.linalg.norm(HEADS[loss](rotated, moments, l2, 1e-9, None))
    assert left == pytest.approx(deviation * np.sqrt(chi2.ppf(0.95, 5 * 2)), rel=0.02)


def test_long_rows_are_cut_as_for_the_curator():
    """With a norm of the query, rows are cut to it in fitting and predicting; no other norm has to be told."""
    features, codes = problem(8000)
    answer = asked(features, codes, 650.0, norm=1.2)
    model = MomentClassifier(l2=1.0, project=False, tol=1e-8).fit(features, answer)
    assert model.norm_ == pytest.approx(1.2, rel=1e-6)
    cut = features * np.minimum(1.0, 1.2 / np.linalg.norm(features, axis=1, keepdims=True))
    theirs = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=5000).fit(cut, names(codes))
    np.testing.assert_allclose(model.predict_proba(features), theirs.predict_proba(cut), atol=2e-3)


def test_other_features_are_noticed():
    """Features other than those of the moments are refused where their sums tell, and the right ones never are.

    Of 200 draws with the right features none is refused; the chance of one is below 1e-10.
    """
    features, codes = problem(400)
    answer = asked(features, codes, 1.0)
    with pytest.raises(
        InputError, match="expected the features that the moments were computed from, found others, whose sums"
    ):
        MomentClassifier().fit(features + 1.0, answer)
    for seed in range(200):
        noisy(features, codes, 30.0, seed)


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("labels", [["ham", "spam"], np.array([0, 1]), None], ids=["list", "array", "nothing"])
def test_bare_labels_are_refused(labels):
    """Bare labels, and released ones, are refused in fit, with the ways to an answer."""
    for refused in (labels, Release.public(["ham", "spam"], SPACE)):
        with pytest.raises(NotTrueLabelsError, match=r"expected an Answer as labels, .* get one from Curator.answer"):
            MomentClassifier().fit(np.eye(2), refused)


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("options", "columns", "message"),
    [
        ({"loss": "hinge"}, 5, "expected a loss among softmax, squared, found 'hinge'"),
        ({"l2": 0.0}, 5, "expected l2, if not 'auto', to be a "),
        ({"l2": "best"}, 5, "expected l2, if not 'auto', to be a "),
        ({"l2": float("nan")}, 5, "expected l2, if not 'auto', to be a "),
        ({}, 4, r"that the moments were computed from, 100 rows and 5 columns, found shape \(100, 4\)"),
    ],
)
def test_what_cannot_be_fitted_is_refused(options, columns, message):
    """Unknown losses, penalties that are none and features of another shape are refused."""
    features, codes = problem(100)
    answer = asked(features, codes, 1.0)
    with pytest.raises(InputError, match=message):
        MomentClassifier(**options).fit(features[:, :columns], answer)


def test_other_answers_are_refused():
    """The answer to a question about counts is no moment."""
    answer = Curator(["ham", "spam"], SPACE).answer(NoisyHistogram(SPACE, 1.0))
    with pytest.raises(InputError, match="expected an answer of sums of features by class, found that to noisy-hist"):
        MomentClassifier().fit(np.eye(2), answer)
