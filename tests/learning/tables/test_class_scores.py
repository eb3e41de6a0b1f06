"""Gains over constant predictions, paired by row, and errors of cross-validation."""

import math

import numpy as np
import pytest
from scipy.special import expit

from labeldp import Classes, Curator, PriorResponse, RandomizedResponse, Release, SubsetResponse
from labeldp.learning import metrics
from labeldp.learning.choice import shares_of_rows
from labeldp.learning.heads import share_logits
from labeldp.learning.metrics import Units
from labeldp.learning.tables import rows_to_show
from labeldp.learning.tables._scores import FACTOR, _shares_of_others, class_scores, in_folds
from labeldp.privacy.channels import ResponseChannel

SPACE = Classes(["no", "yes"])
ROWS = 600


@pytest.fixture(scope="module")
def world():
    """Predictions, true labels that follow them, and a release."""
    random = np.random.default_rng(0)
    yes = random.beta(0.6, 1.2, ROWS)
    labels = np.where(random.random(ROWS) < yes, "yes", "no")
    release = Curator(labels, SPACE).randomize(RandomizedResponse(SPACE, 2.0))
    return np.column_stack([1 - yes, yes]), labels, release


def test_gains_are_differences_of_metrics(world):
    """In value they are those of the metrics of model and constant, though each is a mean of paired differences."""
    predicted, _, release = world
    found = class_scores(release, predicted, np.arange(ROWS) % 5)
    assert found.better.value == pytest.approx(found.accuracy.value - found.majority.value, abs=1e-9)
    plain = class_scores(release, predicted)
    shares = np.array([0.6, 0.4])
    assert plain.log_loss.value == pytest.approx(metrics.log_loss(release, predicted).value)
    constant = np.tile(shares, (ROWS, 1))
    near = metrics.log_loss(release, constant).value - plain.log_loss.value
    assert plain.log_loss_gain.value == pytest.approx(near, abs=0.02)  # the shares are estimated
    near = metrics.log_likelihood(release, predicted).value - metrics.log_likelihood(release, constant).value
    assert plain.likelihood_gain.value == pytest.approx(near, abs=0.02)


def test_no_order_of_rows_is_shown_without_a_gain(world):
    """Held-out predictions that order rows and gain nothing in likelihood have 1/2 in the interval of their area."""
    predicted, _, release = world
    folds = np.arange(ROWS) % 5
    assert class_scores(release, predicted, folds).auc.low > 0.5
    sure = np.clip(predicted, 0.02, 0.98) ** 8  # in the same order
    sure /= sure.sum(axis=1, keepdims=True)
    found = class_scores(release, sure, folds)
    assert found.likelihood_gain.low <= 0.0
    assert found.auc.low <= 0.5 < found.auc.value
    assert class_scores(release, sure).auc.low > 0.5  # a fixed model, judged on fresh rows


def test_without_signal_a_recall_may_be_that_of_any_fold(world):
    """Models of noise predict one class each; that of all rows predicts one of them, and its recall is 0 or 1."""
    _, _, release = world
    folds = np.arange(ROWS) % 5
    constant = np.where(folds[:, None] < 2, [0.501, 0.499], [0.499, 0.501])
    found = class_scores(release, constant, folds)
    assert found.likelihood_gain.low <= 0.0
    np.testing.assert_allclose(found.recall.value, [0.4, 0.6], atol=0.1)
    np.testing.assert_array_equal([found.recall.low, found.recall.high], [[0.0, 0.0], [1.0, 1.0]])
    assert class_scores(release, constant).recall.low[1] > 0.3  # one model, judged on fresh rows


def test_a_constant_is_chosen_on_other_rows(world):
    """Labels of a fold do not change the constant that its rows are compared with."""
    _, _, release = world
    folds = np.arange(ROWS) // (ROWS // 5)
    codes = release.codes.copy()
    codes[folds == 0] = 1 - codes[folds == 0]
    other = Release(codes, release.channel, SPACE, release.certificate)
    units = Units.of(None, ROWS)
    found, changed = (_shares_of_others(each, folds, units) for each in (release, other))
    np.testing.assert_array_equal(found[folds == 0], changed[folds == 0])
    assert np.abs(found - changed)[folds != 0].min() > 0.01


def test_shares_of_rows_are_those_of_all_rows_alike():
    """They are near true ones where rows of small units say more, and the likeliest ones where all say the same."""
    random = np.random.default_rng(2)
    people = np.repeat(np.arange(4400), np.repeat([1, 20], [4000, 400]))
    for likely, near in (([0.2, 0.7], 0.15), ([0.5, 0.5], 0.1)):
        codes = (random.random(len(people)) < np.repeat(likely, [4000, 8000])).astype(int)
        release = Curator(codes, Classes([0, 1]), units=people).randomize(RandomizedResponse(Classes([0, 1]), 6.0))
        found = shares_of_rows(release, Units.of(people, release))[1]
        assert found == pytest.approx(codes.mean(), abs=near)
    alone = Curator(codes, Classes([0, 1])).randomize(RandomizedResponse(Classes([0, 1]), 6.0))
    likeliest = expit(np.diff(share_logits(alone)))[0]
    assert shares_of_rows(alone, Units.of(people, len(people)))[1] == pytest.approx(likeliest, abs=1e-12)


def test_the_mean_of_numeric_classes_is_scored():
    """Of true labels its squared error is exact, of released ones unbiased, and its interval is that of its rows."""
    random = np.random.default_rng(3)
    grades, stated = Classes(["1", "2", "3.5", "5"]), random.dirichlet(np.ones(4), 4000)
    codes = np.array([random.choice(4, p=row) for row in stated])
    numbers = np.array([1, 2, 3.5, 5])
    public = Release.public(np.array(grades.points)[codes], grades)
    errors = (stated @ numbers - numbers[codes]) ** 2
    found = class_scores(public, stated)
    assert found.squared_error.value == pytest.approx(errors.mean())
    assert found.squared_error.error == pytest.approx(errors.std(ddof=1) / math.sqrt(4000), rel=1e-3)
    assert found.baseline.value == pytest.approx(numbers[codes].var(), rel=1e-3)
    for randomizer in (RandomizedResponse(grades, 2.0), SubsetResponse(grades, 1.0)):
        release = Curator(np.array(grades.points)[codes], grades).randomize(randomizer)
        noisy, folds = class_scores(release, stated), class_scores(release, stated, np.arange(4000) % 5)
        assert abs(noisy.squared_error.value - errors.mean()) < 5 * noisy.squared_error.error  # false alarm: 6e-7
        assert 1.2 * found.squared_error.error < noisy.squared_error.error < 0.3
        assert folds.squared_error.error == pytest.approx(FACTOR * noisy.squared_error.error)


@pytest.mark.parametrize("points", [["0", "1"], ["a", "b", "c"], ["1", "2", "nan"]])
def test_classes_that_are_no_grades_have_no_mean(points):
    """Two classes, words, and texts of which one spells no number."""
    found = class_scores(Release.public(points, Classes(points)), np.full((len(points), len(points)), 1 / len(points)))
    assert found.squared_error is None
    assert found.baseline is None


def test_a_model_that_is_the_constant_is_not_known_to_be_as_good():
    """A row more or less keeps the interval of no difference from having no width (Agresti and Min 2005)."""
    release = Release.public(["no"] * 30 + ["yes"] * 10, SPACE)
    better = class_scores(release, np.tile([0.75, 0.25], (40, 1))).better
    assert better.value == 0.0
    assert better.low == pytest.approx(-1.96 / 40)
    assert better.high == pytest.approx(1.96 / 40)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_gains_are_within_what_can_be(epsilon, randomized):
    """Class shares lose at most the logarithm of the number of classes, and a model loses nothing at least."""
    labels = np.random.default_rng(3).integers(0, 10, 60)
    release = randomized(labels, ResponseChannel.at(10, epsilon), seed=0)
    found = class_scores(release, np.eye(10)[labels] * 0.99 + 0.001, np.arange(60) % 5)
    for each, most in ((found.log_loss_gain, 1), (found.likelihood_gain, 1), (found.better, 0.9 / math.log(10))):
        assert each.low <= each.high <= most * math.log(10)
    assert found.log_loss_gain.high == math.log(10)  # noise alone would say more


def test_candidates_have_a_gain_in_likelihood_alone():
    """Their labels do not identify the others."""
    space = Classes(["a", "b", "c"])
    prior = np.tile([0.6, 0.3, 0.1], (50, 1))
    release = Curator(["a"] * 50, space).randomize(PriorResponse(space, 1.0, prior))
    found = class_scores(release, prior, np.arange(50) % 5)
    assert found.better is None
    assert found.log_loss_gain is None
    assert found.likelihood_gain.low <= found.likelihood_gain.value <= found.likelihood_gain.high


def test_units_widen_gains(world):
    """Rows that repeat twenty times are as good as one."""
    predicted, _, release = world
    rows = np.tile(np.arange(30), 20)
    found = class_scores(release[rows], predicted[rows])
    wide = class_scores(release[rows], predicted[rows], units=rows)
    for name in ("better", "log_loss_gain", "likelihood_gain"):
        assert getattr(wide, name).error == pytest.approx(math.sqrt(20) * getattr(found, name).error, rel=0.05)


def test_rows_that_would_show_an_improvement():
    """With that many rows and that improvement, the interval is above zero in four releases of five."""
    estimate = metrics.Estimate(0.01, 0.02, -0.03, 0.05)
    rows = rows_to_show(1000, estimate, 0.03)
    error = 0.02 * math.sqrt(1000 / rows)
    chances = np.random.default_rng(0).normal(0.03, error, 100_000) - 1.96 * error > 0.0
    assert chances.mean() == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("signal", [0.0, 1.0])
def test_the_error_of_folds_is_no_smaller_than_what_varies(signal):
    """Without signal the variance over data sets is twice the usual one, as theory says, and with signal the usual one.

    The factor covers both. Of 400 data sets a variance has a relative error of 7 %.
    """
    random = np.random.default_rng(3)
    usual, errors = [], []
    for _ in range(400):
        features = random.normal(size=(100, 5))
        direction = np.array([signal, 0.0, 0.0, 0.0, 0.0])
        targets = features @ direction + random.normal(size=100)
        folds = random.permutation(100) % 5
        predicted, truth = np.empty(100), np.empty(5)
        for k in range(5):
            fit = np.linalg.lstsq(features[folds != k], targets[folds != k], rcond=None)[0]
            predicted[folds == k], truth[k] = (features @ fit)[folds == k], fit @ direction
        values = targets * predicted  # its mean is the covariance of target and prediction
        usual.append(values.var(ddof=1) / 100)
        errors.append(values.mean() - truth.mean())
    assert 0.4 < np.var(errors) / (FACTOR**2 * np.mean(usual)) < 1.25


def test_errors_of_folds_are_multiplied(world):
    """By the root of two, and nothing leaves its range; what was judged by no folds is as it was."""
    predicted, _, release = world
    folds, likeliest = np.arange(ROWS) % 5, np.array(SPACE.points)[predicted.argmax(axis=1)]
    found, usual_accuracy = class_scores(release, predicted, folds), metrics.accuracy(release, likeliest)
    for wide, usual in (
        (found.accuracy, usual_accuracy),
        (found.log_loss, metrics.log_loss(release, predicted)),
        (found.log_likelihood, metrics.log_likelihood(release, predicted)),
        (found.auc, metrics.auc(release, predicted, "yes", groups=folds)),
    ):
        assert wide.value == usual.value
        assert wide.error == pytest.approx(math.sqrt(2) * usual.error)
        assert wide.high - wide.value == pytest.approx(math.sqrt(2) * (usual.high - usual.value))
    np.testing.assert_allclose(found.recall.error, math.sqrt(2) * metrics.recall(release, likeliest).error)
    assert class_scores(release, predicted).accuracy == usual_accuracy
    few = in_folds(class_scores(release[:12], predicted[:12]), {"accuracy": 5.0})
    for each in (few.accuracy, few.auc):
        assert 0.0 <= each.low <= each.high <= 1.0


def test_the_gain_is_over_the_most_common_class_that_is_printed():
    """Accuracy less that of the most common class is the gain over it, whichever class looks the most common."""
    space = Classes(["no", "yes"])
    for draw in range(12):
        labels = np.where(np.arange(300) % 2 == 0, "yes", "no")
        release = Curator(labels, space).randomize(RandomizedResponse(space, 0.3))
        probabilities = np.random.default_rng(draw).dirichlet([1.0, 1.0], 300)
        found = class_scores(release, probabilities, np.arange(300) % 5)
        assert found.better.value == pytest.approx(found.accuracy.value - found.majority.value)


def test_the_most_common_class_was_not_fixed_beforehand():
    """Its interval reaches as far as the shares of all ten classes at once, each at a tenth of the level."""
    space = Classes(range(10))
    release = Curator(np.arange(400) % 10, space).randomize(RandomizedResponse(space, 4.0))
    shares = [metrics.accuracy(release, np.full(400, code), level=0.995) for code in range(10)]
    found = class_scores(release, np.full((400, 10), 0.1)).majority
    assert found.high == max(share.high for share in shares)
    assert found.low == max(share.low for share in shares)


def test_classes_that_no_row_is_predicted_to_have_are_listed():
    """Their codes are in declared order, and there are none where every class is predicted."""
    release = Release.public(["a", "b", "c", "a"], Classes(["c", "a", "b"]))
    assert class_scores(release, np.tile([0.2, 0.5, 0.3], (4, 1))).unpredicted == (0, 2)
    assert class_scores(release, np.eye(3)[[0, 1, 2, 1]]).unpredicted == ()
