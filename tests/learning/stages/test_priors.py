"""Priors: one form for all, each with its cost."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_matrix, csr_matrix
from sklearn.linear_model import LogisticRegression

from labeldp import Classes, Curator, RandomizedResponse, Release, SubsetResponse
from labeldp.errors import BudgetError, InputError, NotTrueLabelsError, PriorError, RowsError
from labeldp.learning.cells import cluster
from labeldp.learning.stages import (
    ClusterPrior,
    ConsensusRetraining,
    FixedPrior,
    ModelPrior,
    ReleasePrior,
    UniformPrior,
    tempered,
)
from labeldp.learning.stages._priors import PriorResult
from labeldp.privacy.channels import ResponseChannel, SubsetChannel

SPACE = Classes(["a", "b", "c"])
ROWS = 600
CODES = np.repeat([0, 1, 2], ROWS // 3)
FEATURES = np.eye(3)[CODES] + np.random.default_rng(0).normal(scale=0.1, size=(ROWS, 3))


class Said:
    """A model that says given probabilities of given classes."""

    def __init__(self, probabilities, classes=None):
        self.probabilities = np.asarray(probabilities)
        if classes is not None:
            self.classes_ = np.array(classes)

    def predict_proba(self, features):
        """The same for every row."""
        return np.tile(self.probabilities, (len(features), 1))


@pytest.fixture
def curator():
    """A curator of labels that the features tell."""
    return Curator(np.array(SPACE.points)[CODES], SPACE, budget=2.0)


def priors(curator):
    """A prior of every kind, with what it costs of an epsilon of one."""
    release = Curator(np.array(SPACE.points)[CODES], SPACE).randomize(RandomizedResponse(SPACE, 1.0))
    clusters = cluster(FEATURES, 3)
    return {
        "uniform": (UniformPrior(), 0.0),
        "one": (FixedPrior([0.2, 0.3, 0.5]), 0.0),
        "each": (FixedPrior(np.tile([0.2, 0.3, 0.5], (len(curator), 1))), 0.0),
        "counted": (ClusterPrior(CODES, epsilon=0.25), 0.25),
        "found clusters": (ClusterPrior(clusters, epsilon=0.25), 0.25),
        "released": (ReleasePrior(release), 0.0),
        "released and counted": (ReleasePrior(release, base=ClusterPrior(CODES, 0.25)), 0.25),
        "model": (ModelPrior(LogisticRegression().fit(FEATURES, CODES_AS_TEXT)), 0.0),
    }


CODES_AS_TEXT = np.array(SPACE.points)[CODES]
KINDS = ["uniform", "one", "each", "counted", "found clusters", "released", "released and counted", "model"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [None, [5, 400, 2], slice(3, 9)])
def test_every_prior_says_a_distribution_and_its_cost(curator, kind, rows):
    """For the rows that were asked, a distribution each; what it says it takes is what the curator charged."""
    prior, cost = priors(curator)[kind]
    told = prior.ask(curator, FEATURES, rows, 1.0)
    index = np.arange(ROWS) if rows is None else np.arange(ROWS)[rows]
    assert isinstance(told, PriorResult)
    assert told.probabilities.shape == (len(index), 3)
    np.testing.assert_allclose(told.probabilities.sum(axis=1), 1.0, rtol=1e-12)
    assert (told.probabilities >= 0).all()
    assert told.spent == cost == prior.cost(index, 1.0)
    assert curator.spent[0] == pytest.approx(cost, rel=1e-9)
    assert curator.spent[0] <= cost
    assert (told.answer is not None) == (cost > 0)


@pytest.mark.parametrize("kind", ["uniform", "one", "each", "released", "model"])
def test_some_rows_are_told_what_they_are_among_all(curator, kind):
    """A prior that costs nothing says of a row the same whichever rows are asked with it."""
    prior, _ = priors(curator)[kind]
    whole, some = prior.ask(curator, FEATURES).probabilities, prior.ask(curator, FEATURES, [500, 1]).probabilities
    np.testing.assert_allclose(some, whole[[500, 1]], rtol=1e-12)


def test_counts_are_of_the_rows_that_pay(curator):
    """Rows that are not asked about pay nothing, and clusters without a row that is are even."""
    told = ClusterPrior(CODES, epsilon=0.5).ask(curator, rows=np.arange(200), epsilon=1.0)
    assert told.probabilities[:, 0].min() > 0.9
    curator.randomize(RandomizedResponse(SPACE, 2.0), np.arange(200, ROWS))
    with pytest.raises(BudgetError):
        curator.randomize(RandomizedResponse(SPACE, 1.6), np.arange(200))
    lonely = ClusterPrior(np.where(np.arange(ROWS) == 7, 1, 0), epsilon=0.5)
    fresh = Curator(CODES_AS_TEXT, SPACE)
    assert lonely.ask(fresh, rows=[0, 1, 2], epsilon=1.0).probabilities.shape == (3, 3)


def test_the_share_of_counts_is_that_of_cluster_priors(curator):
    """By default a tenth of epsilon, more where clusters have few rows, and at most half."""
    assert ClusterPrior(CODES).cost(np.arange(ROWS), 4.0) == pytest.approx(0.4)
    assert ClusterPrior(CODES).cost(np.arange(ROWS), 0.5) == pytest.approx(0.125)
    assert ClusterPrior(np.arange(ROWS)).cost(np.arange(ROWS), 1.0) == pytest.approx(0.5)
    with pytest.raises(InputError, match="less than epsilon 1"):
        ClusterPrior(CODES, epsilon=1.0).ask(curator, epsilon=1.0)
    assert curator.spent == (0.0, 0.0)


def test_an_earlier_release_is_combined_by_bayes_rule(curator):
    """The posterior is prior times likelihood; rows that it is not about keep the prior; it is named and adds up."""
    rows = np.random.default_rng(3).permutation(ROWS)[:60]
    release = curator.randomize(SubsetResponse(SPACE, 1.0, 2), rows)
    told = ReleasePrior(release, rows, base=FixedPrior([0.5, 0.3, 0.2])).ask(curator)
    joint = release.likelihood() * [0.5, 0.3, 0.2]
    np.testing.assert_allclose(told.probabilities[rows], joint / joint.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(np.delete(told.probabilities, rows, axis=0), np.tile([0.5, 0.3, 0.2], (ROWS - 60, 1)))
    assert told.spent == 0.0
    assert len(told.assumptions) == 1
    assert release.certificate.release in told.assumptions[0]
    curator.randomize(RandomizedResponse(SPACE, 1.0), rows)
    with pytest.raises(BudgetError):
        curator.randomize(RandomizedResponse(SPACE, 0.1), rows)


def test_a_model_may_know_classes_in_any_order(curator):
    """Columns are put where their class was declared; a class that a model does not know has no chance."""
    told = ModelPrior(Said([0.1, 0.2, 0.7], ["c", "a", "b"])).ask(curator, FEATURES)
    np.testing.assert_allclose(told.probabilities[0], [0.2, 0.7, 0.1])
    told = ModelPrior(Said([0.4, 0.6], ["c", "a"])).ask(curator, FEATURES)
    np.testing.assert_allclose(told.probabilities[0], [0.6, 0.0, 0.4], atol=1e-300)
    told = ModelPrior(Said([0.1, 0.2, 0.7])).ask(curator, FEATURES)
    np.testing.assert_allclose(told.probabilities[0], [0.1, 0.2, 0.7])


def test_what_a_model_was_learned_from_is_named(curator):
    """Each release that a model rests on is in what it assumes; public labels are not."""
    release = curator.randomize(RandomizedResponse(SPACE, 1.0))
    told = ModelPrior(Said([0.1, 0.2, 0.7]), learned_from=[release]).ask(curator, FEATURES)
    assert [release.certificate.release in each for each in told.assumptions] == [True]
    assert ModelPrior(Said([0.1, 0.2, 0.7])).ask(curator, FEATURES).assumptions == ()


@pytest.mark.parametrize(
    "features",
    [FEATURES.tolist(), pd.DataFrame(FEATURES), csr_matrix(FEATURES), coo_matrix(FEATURES)],
    ids=["list", "frame", "csr", "coo"],
)
def test_features_of_any_form(curator, features):
    """A model is asked about some rows of a list, a frame or a sparse matrix."""
    model = LogisticRegression().fit(FEATURES, CODES_AS_TEXT)
    told = ModelPrior(model).ask(curator, features, rows=[0, 599])
    assert told.probabilities.argmax(axis=1).tolist() == [0, 2]


# Temperature


def test_temperature_has_its_limits():
    """One changes nothing, next to nothing gives all to the first class, infinity gives all the same."""
    given = np.array([[0.5, 0.3, 0.2], [0.0, 0.6, 0.4], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(tempered(given, 1.0), given, atol=1e-300)
    np.testing.assert_array_equal(tempered(given, 1e-300), np.eye(3)[[0, 1, 0]])
    np.testing.assert_allclose(tempered(given, np.inf), 1 / 3)
    np.testing.assert_allclose(tempered(given, 0.5)[0], np.array([0.25, 0.09, 0.04]) / 0.38)
    np.testing.assert_allclose(tempered(given, 2.0)[0], np.sqrt(given[0]) / np.sqrt(given[0]).sum())


@pytest.mark.parametrize("temperature", [0, -1.0, np.nan, "warm", True, None])
@pytest.mark.usefixtures("as_users_call")
def test_a_temperature_is_a_positive_number(temperature):
    """Anything else is refused."""
    with pytest.raises(InputError, match=r"expected (a temperature above 0|temperature to be a number)"):
        tempered(np.array([[0.5, 0.5]]), temperature)


# What is refused


def refused():
    """Priors that cannot be used, with what is said of them."""
    release = Curator(["a", "b"], SPACE).randomize(RandomizedResponse(SPACE, 1.0))
    other = Curator([1, 2] * 300, Classes([1, 2])).randomize(RandomizedResponse(Classes([1, 2]), 1.0))
    return {
        "shape": (FixedPrior([0.5, 0.5]), "expected 3 probabilities"),
        "rows": (FixedPrior(np.full((5, 3), 1 / 3)), "600 rows"),
        "sum": (FixedPrior([0.5, 0.5, 0.5]), "distributions over classes"),
        "negative": (FixedPrior([-0.5, 1.0, 0.5]), "distributions over classes"),
        "nan": (FixedPrior([np.nan, 1.0, 0.5]), "distributions over classes"),
        "clusters": (ClusterPrior([0, 1, 2]), "a cluster for each"),
        "few released": (ReleasePrior(release), "give rows="),
        "other space": (ReleasePrior(other), "another space"),
        "row twice": (ReleasePrior(release, [3, 3]), "give rows="),
        "no model": (ModelPrior("model"), "predict_proba"),
        "other classes": (ModelPrior(Said([0.5, 0.5], ["a", "z"])), "declared classes"),
        "class twice": (ModelPrior(Said([0.5, 0.5], ["a", "a"])), "declared classes"),
        "columns": (ModelPrior(Said([0.5, 0.5])), "declared classes"),
        "no distribution": (ModelPrior(Said([0.5, 0.5, 0.5])), "predictions of Said"),
    }


@pytest.mark.parametrize("case", refused())
def test_what_can_not_be_a_prior_is_refused(curator, case):
    """What was expected is said, and nothing is charged."""
    prior, said = refused()[case]
    with pytest.raises((InputError, PriorError), match=said):
        prior.ask(curator, FEATURES, epsilon=1.0)
    assert curator.spent == (0.0, 0.0)


def test_what_a_prior_needs_must_be_given(curator):
    """A model needs features of all rows, and counts an epsilon."""
    with pytest.raises(InputError, match="expected features=, from which"):
        ModelPrior(Said([0.1, 0.2, 0.7])).ask(curator)
    with pytest.raises(InputError, match="features of the 600 rows"):
        ModelPrior(Said([0.1, 0.2, 0.7])).ask(curator, FEATURES[:10])
    with pytest.raises(RowsError, match="rows between 0 and 599"):
        UniformPrior().ask(curator, rows=[600])
    with pytest.raises(InputError, match="the total cost of counts"):
        ClusterPrior(CODES).ask(curator)


# Fitting again on what was predicted, where released labels agree.


class Recorder:
    """A learner that keeps what it was fitted on; its predictions are the first feature."""

    def __init__(self, log):
        self.log = log

    def __deepcopy__(self, memo):
        return Recorder(self.log)

    def fit(self, features, release):
        """Keep both."""
        self.log.append((features, release))

    def predict_proba(self, features):
        """All on the class that the first feature names."""
        return np.eye(3)[np.asarray(features)[:, 0].astype(int)]


def released(codes):
    """A release whose released labels are given classes."""
    certificate = Curator(["a"], SPACE).randomize(RandomizedResponse(SPACE, 1.0)).certificate
    return Release(np.array(codes, dtype=np.int32), ResponseChannel.at(3, 1.0), SPACE, certificate)


def test_the_second_fit_is_on_predictions_that_labels_agree_with():
    """Rows that agree are kept with the prediction as their label; with all of them, all."""
    features = np.array([[0.0], [1.0], [2.0], [0.0]])
    release, log = released([0, 2, 2, 1]), []
    model = ConsensusRetraining(Recorder(log)).fit(features, release)
    assert log[0][1] is release
    np.testing.assert_array_equal(log[1][0], [[0.0], [2.0]])
    assert log[1][1].is_public
    assert log[1][1].codes.tolist() == [0, 2]
    assert model.kept_ == [2]
    ConsensusRetraining(Recorder(log), keep="all").fit(features, release)
    assert log[3][1].codes.tolist() == [0, 1, 2, 0]


def test_a_set_agrees_if_it_holds_the_prediction():
    """Of sets, those that hold the predicted class are kept."""
    certificate = Curator(["a"], SPACE).randomize(RandomizedResponse(SPACE, 1.0)).certificate
    sets = np.packbits([[1, 1, 0], [1, 0, 1], [0, 1, 1]], axis=1, bitorder="little")
    release, log = Release(sets, SubsetChannel.at(3, 2, 1.0), SPACE, certificate), []
    ConsensusRetraining(Recorder(log)).fit(np.array([[0.0], [1.0], [1.0]]), release)
    assert log[1][1].codes.tolist() == [0, 1]


def test_rounds_are_counted_and_end_where_nothing_agrees():
    """Each round fits once more; none is made on no rows, and the first fit stands."""
    features, log = np.array([[0.0], [1.0]]), []
    assert ConsensusRetraining(Recorder(log), rounds=3).fit(features, released([0, 0])).kept_ == [1, 1, 1]
    assert len(log) == 4
    model = ConsensusRetraining(Recorder(log), rounds=3).fit(features, released([1, 0]))
    assert model.kept_ == []
    assert len(log) == 5
    assert ConsensusRetraining(Recorder(log), rounds=0).fit(features, released([0, 1])).kept_ == []


@pytest.mark.usefixtures("as_users_call")
def test_what_can_not_be_used_is_refused():
    """Bare labels, features of other rows, rounds and rules that are none."""
    release, features = released([0, 1]), np.array([[0.0], [1.0]])
    with pytest.raises(NotTrueLabelsError):
        ConsensusRetraining().fit(features, ["a", "b"])
    with pytest.raises(InputError, match="for each of 1 rows"):
        ConsensusRetraining(Recorder([])).fit(features[:1], release)
    with pytest.raises(InputError, match="rounds between"):
        ConsensusRetraining(Recorder([]), rounds=-1).fit(features, release)
    with pytest.raises(InputError, match="keep among"):
        ConsensusRetraining(Recorder([]), keep="some").fit(features, release)
    with pytest.raises(InputError, match="fit and predict_proba"):
        ConsensusRetraining("learner").fit(features, release)
