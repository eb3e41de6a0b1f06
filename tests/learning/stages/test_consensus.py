"""Fitting again on what was predicted, where released labels agree."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from labeldp import Classes, Curator, RandomizedResponse, Release, SubsetResponse
from labeldp.errors import InputError, NotTrueLabelsError
from labeldp.learning.sklearn import ReleasedLabelClassifier, SoftmaxRegression
from labeldp.learning.stages import ConsensusRetraining
from labeldp.privacy.channels import ResponseChannel, SubsetChannel

SPACE = Classes(["a", "b", "c"])


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


def test_it_learns_more_where_released_labels_were_taken_for_true_ones(randomized):
    """With two classes of 100 normal features and plain cross entropy, predictions teach more than noisy labels.

    The draws are of seeds, the same in every run.
    """
    rng = np.random.default_rng(0)
    direction = np.ones(100) / 10
    gains = []
    for seed in range(6):
        codes = rng.integers(0, 2, 600)
        features = rng.normal(size=(600, 100)) + 3.0 * np.outer(2 * codes - 1, direction)
        release = randomized(codes, ResponseChannel.at(2, 0.7), seed)
        fresh = rng.integers(0, 2, 4000)
        unseen = rng.normal(size=(4000, 100)) + 3.0 * np.outer(2 * fresh - 1, direction)
        plain = SoftmaxRegression(method="plain", l2=1e-3)
        scores = [
            np.mean(m.fit(features, release).predict(unseen) == fresh) for m in (plain, ConsensusRetraining(plain))
        ]
        gains.append(scores[1] - scores[0])
    assert np.mean(gains) > 0.01


@pytest.mark.parametrize(
    "learner", [ReleasedLabelClassifier(folds=1, max_iter=1), LogisticRegression(), SoftmaxRegression(l2=0.01)]
)
@pytest.mark.parametrize("keep", ["agreeing", "all"])
def test_any_learner_and_any_features(learner, keep):
    """Learners for released labels and scikit-learn's classifiers, on arrays and frames."""
    rng = np.random.default_rng(1)
    codes = np.tile([0, 1, 2], 100)
    features = 3 * np.eye(3)[codes] + rng.normal(size=(300, 3))
    release = Curator(np.array(SPACE.points)[codes], SPACE).randomize(SubsetResponse(SPACE, 3.0))
    given = pd.DataFrame(features) if keep == "all" else features
    model = ConsensusRetraining(learner, keep=keep).fit(given, release)
    assert (model.predict(given) == np.array(SPACE.points)[codes]).mean() > 0.85
    assert model.score(given, release) > 0
    assert model.kept_[0] == 300 or keep == "agreeing"


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
