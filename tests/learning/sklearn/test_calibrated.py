"""Calibration by released labels: what it corrects, when it gives way to class shares, and how it is stored."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from labeldp import Classes, Curator, RandomizedResponse, Release
from labeldp.errors import InputError
from labeldp.learning.choice import Fitted
from labeldp.learning.features import row_count
from labeldp.learning.heads import softmax
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn import (
    CalibratedClassifier,
    Mixture,
    SoftmaxRegression,
    UnguardedFitWarning,
    held_out_classes,
)

SPACE = Classes(["c", "a", "b"])  # declared in an order that is not sorted
ROWS = 4000
SHIFTS = np.array([0.0, 1.0, -0.5])


@pytest.fixture(scope="module")
def logits():
    """Logits of the true class probabilities of rows."""
    return np.random.default_rng(0).normal(scale=1.5, size=(ROWS, 3))


def drawn(probabilities, randomized, epsilon=1.0, seed=1):
    """Released labels of true labels drawn from probabilities; words have seeds, so tests pass always or never."""
    random = np.random.default_rng([seed, 1])  # not the words
    codes = (random.random((len(probabilities), 1)) > probabilities.cumsum(axis=1)).sum(axis=1)
    found = randomized(codes, RandomizedResponse(SPACE, epsilon).channel(), seed)
    return Release(found.codes, found.channel, SPACE, found.certificate)


def held_out(release, predicted, *, doubt=True):
    """The problem of combining the predictions of one model with class shares."""
    rows = np.arange(len(release))
    return held_out_classes(release, [Fitted(None, predicted, True)], rows, (), Units.of(None, len(rows)), doubt=doubt)


def calibrated(release, predicted):
    """The combination, as a function of predictions, and its slope and shifts."""
    return held_out(release, predicted).best()


@pytest.mark.parametrize("slope", [0.5, 2.0])
def test_slope_and_shifts_are_found_from_released_labels(slope, logits, randomized):
    """Predictions that are too sharp or too flat, and off for some classes, come close to the true probabilities.

    With 4 000 rows at epsilon 1 the slope has a standard error near 0.07 times its value.
    """
    true = softmax(slope * logits + SHIFTS)
    mixture = calibrated(drawn(true, randomized), softmax(logits))
    assert mixture.slope == pytest.approx(slope, rel=0.25)
    np.testing.assert_allclose(mixture.shifts - mixture.shifts[0], SHIFTS, atol=0.4)
    assert np.abs(mixture(softmax(logits)[None]) - true).mean() < 0.05 < np.abs(softmax(logits) - true).mean()
    np.testing.assert_allclose(
        mixture(softmax(logits)[None]), softmax(mixture.slope * logits + mixture.shifts), rtol=1e-6
    )


def test_without_signal_class_shares_stay(logits, randomized):
    """Predictions that say nothing get slope 0 in all but one of forty releases.

    Of 60 releases at most 7 are expected otherwise (false alarm below 1e-3 at a chance of 2.5 %).
    """
    predicted, shares = softmax(logits)[:500], np.tile([0.2, 0.5, 0.3], (500, 1))
    found = [calibrated(drawn(shares, randomized, seed=seed), predicted) for seed in range(60)]
    assert sum(not each.is_constant for each in found) <= 7
    constant = [each(predicted[None]) for each in found if each.is_constant]
    assert np.ptp(constant, axis=1).max() < 1e-12
    np.testing.assert_allclose(np.mean(constant, axis=(0, 1)), [0.2, 0.5, 0.3], atol=0.03)


def test_few_effective_rows_change_little(logits, randomized):
    """By the prior: where labels are nearly all noise, neither slope nor shifts leave it by more than noise allows."""
    release = drawn(softmax(3.0 * logits), randomized, epsilon=0.05)[:50]
    found = held_out(release, softmax(logits)[:50], doubt=False).best()
    assert abs(found.slope - 1.0) < 0.5
    assert np.abs(found.shifts).max() < 0.5


def test_a_class_that_is_never_predicted_may_come_back(randomized):
    """Predictions of zero are raised, so that they do not rule a class out."""
    predicted = np.tile([1.0, 0.0, 0.0], (500, 1))
    found = calibrated(drawn(np.full((500, 3), 1 / 3), randomized), predicted)
    assert found(predicted[None]).min() > 0.1


def test_every_channel_calibrates(kind, make_channel, randomized, logits):
    """Sets, clusters and rows with candidates have a likelihood, which is all that is needed."""
    release = randomized(np.argmax(logits[:300], axis=1), make_channel(kind, 3, 300, 3.0), 1)
    assert not calibrated(release, softmax(logits)[:300]).is_constant


def test_plain_data_are_the_calibration(logits, randomized):
    """It is read back as it was, and refused where it does not fit; files without one have none."""
    predicted = softmax(logits)
    found = calibrated(drawn(softmax(2.0 * logits + SHIFTS), randomized), predicted)
    read = Mixture.from_plain(found.plain(), 3)
    np.testing.assert_array_equal(read(predicted[None]), found(predicted[None]))
    assert Mixture.from_plain(None, 3) is None
    for classes, slope, shifts in (
        (4, 1.0, SHIFTS),
        (3, -1.0, SHIFTS),
        (3, np.nan, SHIFTS),
        (3, 1.0, [0.0, np.inf, 0.0]),
    ):
        with pytest.raises(ValueError, match="a combination of other models or classes"):
            Mixture.from_plain({"slope": slope, "shifts": list(shifts)}, classes)


class Sharp(LogisticRegression):
    """A classifier that is far too sure of itself."""

    def predict_proba(self, X):  # noqa: N803 (scikit-learn's name)
        """Probabilities, raised to a power."""
        raised = super().predict_proba(X) ** 4
        return raised / raised.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def table():
    """Features, true labels and a release of three classes."""
    random = np.random.default_rng(5)
    codes = random.integers(0, 3, 2000)
    features = random.normal(size=(2000, 4)) + np.eye(3, 4)[codes]
    labels = np.array(SPACE.points)[codes]
    return features, labels, Curator(labels, SPACE).randomize(RandomizedResponse(SPACE, 3.0))


def test_an_overconfident_classifier_is_flattened(table):
    """Its slope is near 1/4, its classes are sorted, and its log loss falls (by more than 10 standard deviations)."""
    features, labels, release = table
    model = CalibratedClassifier(Sharp()).fit(features[:1000], release[:1000])
    assert 0.1 < model.slope_ < 0.6
    assert model.classes_.tolist() == ["a", "b", "c"]
    truth = Release.public(labels[1000:], SPACE)
    assert model.score(features[1000:], truth) > model.estimator_.score(features[1000:], truth) + 0.05
    assert np.mean(model.predict(features[1000:]) == labels[1000:]) > 0.45


class Recorder(SoftmaxRegression):
    """A learner that records the rows of each fit, and warns as a network does."""

    seen = []  # noqa: RUF012 (shared by copies on purpose)

    def fit(self, X, y, **more):  # noqa: N803
        """Fit on rows, whose first feature is their unit."""
        import warnings  # noqa: PLC0415 (here alone)

        warnings.warn("no guard", UnguardedFitWarning, stacklevel=2)
        Recorder.seen.append(set(np.asarray(X)[:, 0]))
        return super().fit(X, y, **more)


def test_a_unit_is_on_one_side_of_each_fold(table):
    """Rows of a unit are predicted by copies that saw none of them; the guard of networks is the folds."""
    features, _, release = table
    units = np.arange(2000) // 20
    rows = np.column_stack([units, features])
    Recorder.seen.clear()
    CalibratedClassifier(Recorder(l2=0.1)).fit(rows, release, groups=units)
    *folds, last = Recorder.seen
    assert len(folds) == 5
    assert last == set(range(100))
    assert sum(100 - len(each) for each in folds) == 100
    assert row_count(rows) == 2000


@pytest.mark.parametrize(
    ("groups", "folds", "message"),
    [
        (np.zeros(2000), 5, "at least 5 units, one for each fold, found 1 in 2000 rows"),
        (np.zeros(3), 2, "a unit for each of the 2000 labels"),
        (None, 1, "folds to be a whole number of at least 2"),
    ],
)
def test_folds_that_cannot_be_made_are_refused(groups, folds, message, table):
    """One sentence, before anything is fitted."""
    features, _, release = table
    with pytest.raises(InputError, match=message):
        CalibratedClassifier(folds=folds).fit(features, release, groups=groups)
