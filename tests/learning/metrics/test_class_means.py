"""Means over classes: balanced accuracy, and the area under the ROC of each class against the rest."""

import math

import numpy as np
import pytest
from scipy.special import ndtr
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


# Intervals of few rows of a class, and of skewed rows.


def test_all_of_five_are_no_proof_of_all():
    """Recall of 5 of 5 public rows is 48 to 100 % (Clopper and Pearson), and an area of 1 may be less."""
    release = Release.public(["no"] * 95 + ["yes"] * 5, Classes(["no", "yes"]))
    predicted, scores = ["no"] * 95 + ["yes"] * 5, np.arange(100)
    assert metrics.recall(release, predicted)[1].low == pytest.approx(0.4782, abs=1e-4)
    area = metrics.auc(release, scores, "yes")
    assert (area.value, area.high) == (pytest.approx(1.0), 1.0)
    assert 0.5 < area.low < 0.95


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("epsilon", [3.0, 8.0])
def test_intervals_hold_few_rows_of_a_class(make_channel, randomized, epsilon):
    """Over 400 samples with about 20 rows of the class, 363 intervals of recall and area hold the truth at the least.

    A right interval of level 0.95 holds in fewer with probability 1e-4; words and rows have seeds. Fieller's interval
    with the variance that was seen held the recall in 75 of 100 at an epsilon of 8, and the area in 85.
    """
    rng, n, held = np.random.default_rng(44), 1000, np.zeros(2)
    channel, truth = make_channel("response", 2, n, epsilon), np.array([0.95, ndtr(2 / np.sqrt(2))])
    for seed in range(400):
        codes = (rng.random(n) < 0.02).astype(np.int32)
        predicted = (rng.random(n) < np.where(codes == 1, truth[0], 0.3)).astype(np.int32)
        release = randomized(codes, channel, 90_000 + seed)
        found = metrics.recall(release, predicted)[1], metrics.auc(release, rng.normal(size=n) + 2 * codes, 1)
        held += [each.low <= true <= each.high for each, true in zip(found, truth, strict=True)]
    assert (held >= 363).all()


@pytest.mark.usefixtures("as_users_call")
def test_intervals_of_skewed_rows_hold():
    """Over 400 samples of 40 squares of exponential rows, 352 intervals hold the mean at the least, Student's in fewer.

    An interval that holds in 0.93 does in fewer than 352 with probability 1e-4; rows have seeds.
    """
    rng, held, student = np.random.default_rng(45), 0, 0
    for _ in range(400):
        values = rng.exponential(size=40) ** 2
        found = metrics.mean_of_rows(values, 0.95)
        held += found.low <= 2.0 <= found.high
        student += abs(found.value - 2.0) <= 2.0227 * found.error
    assert held >= 352
    assert student < 352


def test_a_rare_error_that_is_not_seen_is_counted():
    """Without any row of a class that a model expects, the standard error of the log loss is at least the expected one.

    Of 100 rows the model expects 2 of the class; each would add log(0.98 / 0.02).
    """
    release = Release.public(["no"] * 100, Classes(["no", "yes"]))
    chance = np.tile([0.98, 0.02], (100, 1))
    expected = np.log(0.98 / 0.02) * np.sqrt(100 * 0.98 * 0.02) / 100
    for found in (metrics.log_loss(release, chance), metrics.log_likelihood(release, chance)):
        assert found.error == pytest.approx(expected, rel=1e-6)
