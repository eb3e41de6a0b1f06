"""Objectives of boosting libraries: gradients, information and losses of released labels, against brute force."""

import math

import numpy as np
import pytest
from scipy.special import softmax

import labeldp as dp
from labeldp.errors import NotTrueLabelsError, RowsError
from labeldp.learning.boosting import lightgbm_metric, lightgbm_objective, xgboost_metric, xgboost_objective

OBJECTIVES = (lightgbm_objective, xgboost_objective)
CHANNELS = [
    pytest.param(lambda space: dp.RandomizedResponse(space, 0.5), 2, id="randomized response, two classes"),
    pytest.param(lambda space: dp.RandomizedResponse(space, 2.0), 5, id="randomized response, five classes"),
    pytest.param(lambda space: dp.SubsetResponse(space, 1.0), 7, id="subsets"),
    pytest.param(lambda space: dp.BitResponse(space, 1.0), 4, id="bits"),
    pytest.param(lambda space: dp.ProjectiveResponse(space, 1.0), 7, id="projective geometry"),
]


def names(classes):
    """Names of classes."""
    return [f"class {code}" for code in range(classes)]


def released(make, classes, rows=60):
    """A release of evenly spread classes."""
    space = dp.Classes(names(classes))
    return dp.Curator([space.points[row % classes] for row in range(rows)], space).randomize(make(space))


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(("make", "classes"), CHANNELS)
def test_gradients_are_those_of_the_likelihood(objective, make, classes):
    """Each entry of the gradient is the finite difference of the negative log likelihood."""
    release = released(make, classes)
    scores = np.random.default_rng(0).normal(size=(len(release), classes))
    likelihood = release.likelihood()

    def losses(logits):
        return -np.log((likelihood * softmax(logits, axis=1)).sum(axis=1))

    gradient, _ = objective(release)(scores, None)
    for place in range(classes):
        step = np.zeros(classes)
        step[place] = 1e-5
        slope = (losses(scores + step) - losses(scores - step)) / 2e-5
        np.testing.assert_allclose(gradient[:, place], slope, atol=1e-8)


@pytest.mark.parametrize(("make", "classes"), CHANNELS)
def test_information_is_at_most_that_of_the_released_label(make, classes):
    """Summed over all released labels: no more than the mean squared gradient, and equal to it for two classes."""
    space = dp.Classes(names(classes))
    chances = softmax(np.random.default_rng(1).normal(size=classes))
    table = make(space).channel().table()
    release = released(make, classes, 1)
    _, information = lightgbm_objective(release)(np.log(chances)[None], None)
    outcomes = np.asarray(table.matrix)  # shape (classes, outcomes)
    posterior = outcomes * chances[:, None] / (chances @ outcomes)
    exact = ((posterior - chances[:, None]) ** 2) @ (chances @ outcomes)
    assert (information[0] <= exact * (1 + 1e-9)).all()
    assert (information[0] >= 0.5 * exact).all()
    if classes == 2:
        np.testing.assert_allclose(information[0], exact, rtol=1e-6)


PRIOR = np.array([[0.7, 0.2, 0.1, 0.0], [0.97, 0.01, 0.01, 0.01], [0.3, 0.3, 0.2, 0.2], [0.0, 0.0, 0.5, 0.5]])


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda space: dp.PriorResponse(space, 2.0, PRIOR), id="candidates"),
        pytest.param(lambda space: dp.PriorSubsetResponse(space, 1.0, PRIOR), id="subsets of candidates"),
        pytest.param(lambda space: dp.ClusterResponse(space, 1.0, PRIOR, np.arange(4), 0.125), id="clusters"),
    ],
)
def test_information_is_that_of_each_rows_own_distribution(make):
    """Rows with candidates, or the weights of a cluster: as above for each row, and none where nothing is disclosed."""
    space = dp.Classes(names(4))
    release = dp.Curator(list(space.points), space).randomize(make(space))
    chances = softmax(np.random.default_rng(1).normal(size=(4, 4)), axis=1)
    _, information = lightgbm_objective(release)(np.log(chances), None)
    for row, p in enumerate(chances):
        outcomes = np.asarray(release.channel.matrix(row))
        outcomes = outcomes[:, p @ outcomes > 0.0]
        posterior = outcomes * p[:, None] / (p @ outcomes)
        exact = ((posterior - p[:, None]) ** 2) @ (p @ outcomes)
        assert (information[row] <= exact * (1 + 1e-9) + 1e-11).all()
        candidate = information[row] > 1e-11
        assert candidate.any() == (exact > 1e-11).any()
        assert (information[row] >= 0.4 * exact)[candidate].all()


@pytest.mark.parametrize(
    "make",
    [CHANNELS[0].values[0], lambda space: dp.PriorResponse(space, 1.0, [[0.9, 0.1], [0.6, 0.4]] * 30)],
    ids=["one law", "candidates"],
)
def test_one_score_of_two_classes_is_that_of_the_second(make):
    """A vector of scores has the gradient and the information of the second of two columns, the first being zero."""
    release = released(make, 2)
    scores = np.random.default_rng(2).normal(size=len(release))
    both = np.stack([np.zeros_like(scores), scores], axis=1)
    for one, two in zip(
        lightgbm_objective(release)(scores, None), lightgbm_objective(release)(both, None), strict=True
    ):
        np.testing.assert_allclose(one, two[:, 1], rtol=1e-12, atol=1e-15)
    assert lightgbm_metric(release)(scores, None)[1] == lightgbm_metric(release)(both, None)[1]


def test_weights_of_the_data_count():
    """The weights of a data set multiply gradient and information; scores are left as they were."""

    class Data:
        def get_weight(self):
            return np.arange(60.0)

    release = released(CHANNELS[1].values[0], 5)
    scores = np.zeros((60, 5))
    for plain, weighted in zip(
        xgboost_objective(release)(scores, None), xgboost_objective(release)(scores, Data()), strict=True
    ):
        np.testing.assert_allclose(weighted, plain * np.arange(60.0)[:, None])
    assert not scores.any()


def test_metrics_are_the_mean_loss():
    """Both metrics are the mean negative log likelihood over the uniform model, and less is better."""
    release = released(CHANNELS[2].values[0], 7)
    scores = np.random.default_rng(3).normal(size=(60, 7))
    likelihood = release.likelihood()
    chances = softmax(scores, axis=1)
    expected = -np.log((likelihood * chances).sum(axis=1) / likelihood.mean(axis=1)).mean()
    name, value, more = lightgbm_metric(release)(scores, None)
    assert (name, more) == ("channel_log_loss", False)
    assert math.isclose(value, expected)
    assert xgboost_metric(release)(scores, None) == (name, value)


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("make", [*OBJECTIVES, lightgbm_metric, xgboost_metric])
def test_true_labels_are_refused(make):
    """An array of labels is no release."""
    with pytest.raises(NotTrueLabelsError, match="expected a Release"):
        make(np.zeros(3))


@pytest.mark.parametrize("shape", [(59, 7), (60, 6), (60,), (60, 7, 1)])
def test_scores_of_other_rows_or_classes_are_refused(shape):
    """Scores must have a row for each released label and a column for each class."""
    release = released(CHANNELS[2].values[0], 7)
    with pytest.raises(RowsError, match="60 rows of the release for 7 classes"):
        lightgbm_objective(release)(np.zeros(shape), None)


def test_folds_of_lightgbm_have_the_released_labels_of_their_rows():
    """Each fold of ``lightgbm.cv`` is fitted and judged by its own rows, in another order of rows too."""
    lightgbm = pytest.importorskip("lightgbm")
    labels = np.random.default_rng(0).permutation(np.repeat(["no", "yes"], 400))
    features, space = (labels == "yes")[:, None] + 0.0, dp.Classes(["no", "yes"])
    release = dp.Curator(labels, space).randomize(dp.RandomizedResponse(space, 2.0))
    settings = {"objective": lightgbm_objective(release), "metric": "None", "verbose": -1}
    data = lightgbm.Dataset(features, np.zeros(800))
    found = lightgbm.cv(settings, data, 30, nfold=4, stratified=False, feval=lightgbm_metric(release))
    assert found["valid channel_log_loss-mean"][-1] < found["valid channel_log_loss-mean"][0] - 0.1
    rows = np.arange(5, 300, 7)
    part = data.subset(rows.tolist()).construct()
    scores = np.linspace(-1, 1, len(rows))
    for whole, own in zip(
        lightgbm_objective(release)(scores, part), lightgbm_objective(release[rows])(scores, None), strict=True
    ):
        np.testing.assert_array_equal(whole, own)


@pytest.mark.parametrize("classes", [2, 4])
def test_lightgbm_learns_from_a_release(classes):
    """Trees fitted to a release by LightGBM itself find the class that a feature determines."""
    lightgbm = pytest.importorskip("lightgbm")
    codes = np.arange(4000) % classes
    space = dp.Classes(names(classes))
    release = dp.Curator(np.array(space.points)[codes], space).randomize(epsilon=1.0)
    settings = {"objective": lightgbm_objective(release), "verbose": -1, "num_class": 1 if classes == 2 else classes}
    model = lightgbm.train(settings, lightgbm.Dataset(codes[:, None].astype(float), np.zeros(4000)), 30)
    scores = model.predict(np.arange(float(classes))[:, None], raw_score=True)
    found = (scores > 0).astype(int) if classes == 2 else scores.argmax(axis=1)
    assert found.tolist() == list(range(classes))
