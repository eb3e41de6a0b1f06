"""Means over classes: balanced accuracy, and the area under the ROC of each class against the rest."""

import math

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from labeldp import Classes, ClassProbabilities, Curator, RandomizedResponse, Release, SubsetResponse, TopKResponse
from labeldp.errors import InputError
from labeldp.learning import metrics

NAMES = np.array(["a", "b", "c", "d"])
SPACE = Classes(["c", "a", "d", "b"])  # not sorted


def rows(count, shares=(0.4, 0.3, 0.2, 0.1), seed=0, unit=1):
    """Labels, and probabilities by sorted class; the rows of a unit share a label with a probability of 0.7."""
    random, classes = np.random.default_rng(seed), len(shares)
    labels, common = (random.choice(classes, count, p=shares) for _ in range(2))
    units = np.arange(count) // unit
    labels = np.where((random.random(count) < 0.7) & (unit > 1), common[units], labels)
    scores = random.normal(size=(count, classes))
    scores[np.arange(count), labels] += 1.5
    chances = np.exp(scores)
    return NAMES[labels], chances / chances.sum(axis=1, keepdims=True), units


def both(release, chances, **options):
    """The two means of a model's probabilities, by sorted class."""
    named = ClassProbabilities(chances, NAMES[: chances.shape[1]])
    predicted = NAMES[chances.argmax(axis=1)]
    return (
        metrics.balanced_accuracy(release, predicted, **options),
        metrics.mean_auc(release, named, **options),
    )


def test_on_public_labels_they_are_those_of_scikit_learn():
    """Whatever order the classes were declared in."""
    labels, chances, _ = rows(300)
    accuracy, area = both(Release.public(labels, SPACE), chances)
    assert accuracy.value == pytest.approx(balanced_accuracy_score(labels, NAMES[chances.argmax(axis=1)]))
    assert area.value == pytest.approx(roc_auc_score(labels, chances, multi_class="ovr"))


def test_rows_are_compared_within_groups():
    """As the area of one class is."""
    labels, chances, _ = rows(300)
    release, groups = Release.public(labels, SPACE), np.arange(300) % 3
    shifted = chances + groups[:, None]
    named = [ClassProbabilities(each, NAMES) for each in (chances, shifted)]
    inside, same = (metrics.mean_auc(release, each, groups=groups).value for each in named)
    assert inside == pytest.approx(same)
    assert metrics.mean_auc(release, named[1]).value < inside - 0.05


@pytest.mark.parametrize(
    ("epsilon", "count", "unit", "shares"),
    [
        (math.inf, 120, 1, (0.6, 0.3, 0.1)),
        (math.inf, 300, 3, (0.6, 0.3, 0.1)),
        (2.0, 600, 1, (0.5, 0.3, 0.2)),
        (3.0, 600, 3, (0.5, 0.3, 0.2)),
    ],
    ids=["public", "units", "noise", "noise of units"],
)
def test_intervals_hold_the_truth(epsilon, count, unit, shares):
    """Of 100 intervals of each mean at least 84 hold it: fewer come once in 100,000 where 95 in 100 do (binomial).

    experiments/interval_coverage.md has more settings. Rows have seeds, and words have not.
    """
    space = Classes(NAMES[: len(shares)].tolist())
    labels, chances, _ = rows(200_000, shares, seed=1)
    truths = (
        balanced_accuracy_score(labels, NAMES[chances.argmax(axis=1)]),
        roc_auc_score(labels, chances, multi_class="ovr"),
    )
    held = np.zeros(2)
    for seed in range(100):
        labels, chances, units = rows(count, shares, seed + 2, unit)
        release = Release.public(labels, space)
        if math.isfinite(epsilon):
            release = Curator(labels, space).randomize(RandomizedResponse(space, epsilon))
        found = both(release, chances, units=units if unit > 1 else None)
        held += [each.low <= truth <= each.high for each, truth in zip(found, truths, strict=True)]
    assert (held >= 84).all(), held


def test_the_mean_of_noisy_quotients_has_no_bias():
    """Of ten classes the mean of 150 estimates is within five standard errors of the truth.

    Without the correction it is more than seven above: each class's quotient errs upwards, and all of them do.
    """
    random, space = np.random.default_rng(0), Classes(range(10))
    labels = np.resize(np.arange(10), 1000)
    predicted = np.where(random.random(1000) < 0.6, labels, random.integers(0, 10, 1000))
    truth = balanced_accuracy_score(labels, predicted)
    found = []
    for _ in range(150):
        release = Curator(labels, space).randomize(SubsetResponse(space, 3.0))
        found.append(metrics.balanced_accuracy(release, predicted).value)
    error = np.std(found) / math.sqrt(len(found))
    assert abs(np.mean(found) - truth) < 5.0 * error


def test_a_class_that_labels_do_not_show_leaves_nothing_to_tell():
    """A class that noise hides, or without rows, has no recall: NaN, with an interval of all there is."""
    labels, chances, _ = rows(200, (0.5, 0.49, 0.01))
    nothing = 0
    for _ in range(40):
        release = Curator(labels, Classes(["a", "b", "c"])).randomize(epsilon=0.5)
        for found in both(release, chances):
            if math.isnan(found.value):
                assert (found.low, found.high) == (0.0, 1.0)
                nothing += 1
    assert nothing >= 60  # of 80; nearly all are, and half of them if any positive count passed
    alike = Release.public(["a"] * 9, SPACE)
    assert all(math.isnan(each.value) for each in both(alike, np.full((9, 4), 0.25)))
    of_one = both(Release.public(NAMES, SPACE), np.eye(4), units=[1] * 4)
    assert all((each.low, each.high) == (0.0, 1.0) for each in of_one)
    assert both(Release.public(NAMES, SPACE), np.eye(4))[0].low < 0.6


def test_rows_with_candidates_are_refused():
    """Their true class may be none of them."""
    space = Classes(["a", "b", "c"])
    release = Curator(["a", "b", "c"], space).randomize(TopKResponse(space, 1.0, prior=[[0.5, 0.4, 0.1]] * 3, k=2))
    for ask in (lambda: metrics.balanced_accuracy(release, ["a"] * 3), lambda: metrics.mean_auc(release, np.eye(3))):
        with pytest.raises(InputError, match="candidates"):
            ask()
