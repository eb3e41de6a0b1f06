"""True labels reach what is learned through the draw and in no other way."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.tree import DecisionTreeClassifier

from labeldp import Classes, Curator, LabelMoments, NoisyArgmax, NoisyHistogram, PriorResponse, RandomizedResponse
from labeldp.learning import metrics
from labeldp.learning.cells import cluster
from labeldp.learning.sklearn import (
    CellClassifier,
    MomentClassifier,
    ReleasedLabelClassifier,
    SoftLabelClassifier,
    SoftmaxRegression,
)

SPACE = Classes(["ham", "jam", "spam"])
ROWS = 240


def learned(labels, features):
    """Everything that splitting, choosing, weighting, fitting and judging make of the labels."""
    release = Curator(labels, SPACE).randomize(RandomizedResponse(SPACE, 2.0))
    rows = np.arange(ROWS)
    found = [train_test_split(rows, release, test_size=60, random_state=0)[0]]
    for fit, held in StratifiedKFold(3).split(features, release.codes):
        found += [fit, held]
    model = SoftmaxRegression().fit(features, release)
    found += [model.coef_, model.intercept_, model.l2_, model.classes_]
    search = GridSearchCV(SoftmaxRegression(), {"l2": [1e-3, 1.0]}, scoring=metrics.accuracy_scorer, cv=3)
    found.append(search.fit(features, release).cv_results_["mean_test_score"])
    tree = DecisionTreeClassifier(max_depth=3, class_weight="balanced", random_state=0)
    chance = ReleasedLabelClassifier(tree, max_iter=2).fit(features, release).predict_proba(features)
    found += [chance, metrics.recall(release, model.predict(features)).high, metrics.log_loss(release, chance).error]
    return [np.asarray(each) for each in found]


def test_what_is_learned_depends_on_the_draw_alone(monkeypatch):
    """With the same draw, everything learned is the same, though no label is, and one class has no row at all."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(ROWS, 3))
    drawn = (features[:, 0] > 0).astype(np.int32) + (features[:, 1] > 0)
    monkeypatch.setattr("labeldp.release.curator._drawing.draw", lambda _channel, codes, *_: drawn[: len(codes)].copy())
    labels = rng.integers(0, 3, ROWS)
    one = learned(np.array(SPACE.points)[labels], features)
    two = learned(np.array(SPACE.points)[np.where(labels == 0, 1, 0)], features)
    for each, other in zip(one, two, strict=True):
        np.testing.assert_array_equal(each, other)


def test_a_prior_is_learned_from_an_earlier_release_and_both_are_paid_for():
    """A model of released labels gives a prior for the same rows: their costs add up, and the prior is declared.

    The model takes no labels but released ones (``test_bare_labels_are_refused``), so the prior holds no others.
    """
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 3, ROWS)
    features = rng.normal(size=(ROWS, 3)) + 2 * np.eye(3)[codes]
    curator = Curator(np.array(SPACE.points)[codes], SPACE, budget=2.0)
    first = curator.randomize(RandomizedResponse(SPACE, 1.0))
    prior = SoftmaxRegression().fit(features, first).predict_proba(features)
    second = curator.randomize(PriorResponse(SPACE, 1.0, prior=prior))
    assert curator.spent[0] == pytest.approx(2.0)
    assert curator.spent[0] >= first.guarantee.epsilon + second.guarantee.epsilon
    assert any("the prior is public" in each for each in second.certificate.assumptions)
    assert not any("prior" in each for each in first.certificate.assumptions)


def told(labels, features, clusters, monkeypatch):
    """Everything that learners make of answers, where every answer is one and the same whatever the labels."""
    fixed = np.random.default_rng(2)
    counts, moments = fixed.integers(0, 60, (4, 3)), features.sum(axis=0)[:, None] / 3 + fixed.normal(size=(3, 3))
    monkeypatch.setattr(NoisyHistogram, "answer", lambda *_: counts)
    monkeypatch.setattr(NoisyArgmax, "answer", lambda *_: np.array([0, 2, 1, 1]))
    monkeypatch.setattr(LabelMoments, "answer", lambda *_: moments)
    curator = Curator(labels, SPACE, budget=(10.0, 1e-3))
    found = []
    for query in (NoisyHistogram, NoisyArgmax):
        answer = curator.answer(query(SPACE, 1.0, clusters.numbers))
        found.append(CellClassifier(clusters).fit(features, answer).distributions_)
        found.append(SoftLabelClassifier().fit(features, answer, clusters).predict_proba(features))
    answer = curator.answer(LabelMoments(SPACE, 1.0, 1e-6, features))
    for loss in ("softmax", "squared"):
        model = MomentClassifier(loss=loss).fit(features, answer)
        found += [model.coef_, model.l2_]
    return [np.asarray(each) for each in found]


def test_what_is_learned_from_answers_depends_on_the_answers_alone(monkeypatch):
    """With the same answers, everything learned from them is the same, though no label is."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(ROWS, 3))
    clusters = cluster(features, 4)
    labels = rng.integers(0, 3, ROWS)
    one = told(np.array(SPACE.points)[labels], features, clusters, monkeypatch)
    two = told(np.array(SPACE.points)[np.where(labels == 0, 1, 0)], features, clusters, monkeypatch)
    for each, other in zip(one, two, strict=True):
        np.testing.assert_array_equal(each, other)
