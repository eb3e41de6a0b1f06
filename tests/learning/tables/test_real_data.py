"""Metrics of fixed models on real labels that a curator released many times, with the words of the operating system.

Rows and true labels stay the same, so the truth of a metric is its value on true labels. Errors hold the sampling of
rows too, hence intervals hold that value at least as often as they say.
"""

import gzip

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, recall_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labeldp import BitResponse, Classes, Curator, RandomizedResponse, SubsetResponse
from labeldp.learning import metrics

#: The chance of a false alarm of one check. A run makes 42, so that of a run is below 1e-6.
ALARM = 1e-8
DEVIATIONS = 5.73  # a normal variable is as far from its mean with this chance
MEANS = ("accuracy", "log loss", "log likelihood")
NAMES = (*MEANS, "recall", "area")


def predicted_by(model, features, labels, held):
    """A model's probabilities on the other rows, fitted on the true labels of some, and the true labels there."""
    model.fit(features[~held], labels[~held])
    return model.predict_proba(features[held]), labels[held]


@pytest.fixture(scope="module")
def digits():
    """Probabilities of a simple model for 1297 digits, and what they are."""
    images, labels = load_digits(return_X_y=True)
    held = np.arange(len(labels)) >= 500
    return predicted_by(LogisticRegression(C=0.001, max_iter=1000), images, labels, held)


@pytest.fixture(scope="module")
def adult(data_folder):
    """Probabilities of a simple model for the 16 281 test rows of Adult, and whether incomes are above 50 000."""
    tables = []
    for name, skip in (("data", 0), ("test", 1)):
        with gzip.open(data_folder / "adult" / f"adult.{name}.gz", "rt", encoding="utf-8") as file:
            tables.append(pd.read_csv(file, header=None, skiprows=skip, skipinitialspace=True, na_values="?"))
    rows = pd.concat(tables, ignore_index=True)
    labels = rows[14].str.startswith(">50K").to_numpy().astype(np.int64)
    features = rows[[0, 4, 10, 11, 12]].to_numpy(dtype=np.float64)
    held = np.arange(len(rows)) >= len(tables[0])
    model = make_pipeline(StandardScaler(), LogisticRegression())
    return predicted_by(model, features, labels, held)


def expected_gain(channel, chance, labels):
    """The mean over all outcomes of the mean log likelihood of released labels, for given true labels."""
    table = channel.table()
    values = channel.likelihood(table.outcomes)
    gains = np.log(chance @ values.T) - np.log(values.mean(axis=1))
    return float((table.matrix[labels] * gains).sum(axis=1).mean())


def truths(channel, chance, labels, positive):
    """Each metric on true labels, by another library or from the law."""
    predicted = chance.argmax(axis=1)
    return np.array(
        [
            accuracy_score(labels, predicted),
            log_loss(labels, chance),
            expected_gain(channel, chance, labels),
            recall_score(labels == positive, predicted == positive),
            roc_auc_score(labels == positive, chance[:, positive]),
        ]
    )


def estimates(release, chance, positive):
    """Each metric on released labels."""
    predicted = chance.argmax(axis=1)
    return (
        metrics.accuracy(release, predicted),
        metrics.log_loss(release, chance),
        metrics.log_likelihood(release, chance),
        metrics.recall(release, predicted)[positive],
        metrics.auc(release, chance[:, positive], positive),
    )


def check(randomizer, data, positive, times):
    """Release labels many times, and compare estimates, errors and intervals with the truth.

    Intervals of level 0.95 that rest on a normal approximation are given a chance of 0.93. The estimates that are
    means are also held to their own errors: off by no more, and spread as much, less the sampling of rows.
    """
    chance, labels = data
    truth = truths(randomizer.channel(), chance, labels, positive)
    held, values, errors = np.zeros(5, dtype=int), np.empty((times, 5)), np.empty((times, 5))
    for t in range(times):
        release = Curator(labels, randomizer.space).randomize(randomizer)
        for i, found in enumerate(estimates(release, chance, positive)):
            held[i] += found.low <= truth[i] <= found.high
            values[t, i], errors[t, i] = found.value, found.error
    spread = values.std(axis=0, ddof=1)
    for i, name in enumerate(NAMES):
        assert held[i] >= binom.ppf(ALARM, times, 0.93), name
        if name in MEANS:
            assert abs(values[:, i].mean() - truth[i]) < DEVIATIONS * spread[i] / np.sqrt(times), name
            assert 0.55 < spread[i] / np.median(errors[:, i]) < 1.3, name


@pytest.mark.usefixtures("as_users_call")
def test_intervals_hold_what_digits_are(digits):
    """Sets of ten classes at an epsilon of 2: of 500 draws, 95 in 100 intervals hold the value on true labels."""
    check(SubsetResponse(Classes(range(10)), 2.0), digits, 8, 500)


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(("make", "epsilon"), [(RandomizedResponse, 1.0), (BitResponse, 0.5)])
def test_intervals_hold_what_incomes_are(adult, make, epsilon):
    """Incomes as classes and as bits: of 250 draws, 95 in 100 intervals hold the value on true labels."""
    check(make(Classes([0, 1]), epsilon), adult, 1, 250)
