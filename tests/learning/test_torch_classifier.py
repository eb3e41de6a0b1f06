"""Networks in scikit-learn's form: what they learn, what they promise, and what they refuse."""

import numpy as np
import pytest
import torch
from torch import nn

from labeldp import Classes, Curator, PriorResponse, RandomizedResponse, Release
from labeldp.learning.torch import TorchClassifier
from labeldp.privacy import CandidateChannel, pack

SPACE = Classes(["ham", "jam", "spam"])
ROWS = 300
torch.set_num_threads(1)


def linear(classes):
    """A linear network of three features."""
    return nn.Linear(3, classes)


def learner(**settings):
    """A small learner, quick to train."""
    return TorchClassifier(**{"module": linear, "epochs": 3, "batch_size": 64, "learning_rate": 0.5, **settings})


@pytest.fixture(scope="module")
def features():
    """Features that say the class."""
    codes = np.arange(ROWS) % 3
    return 3 * np.eye(3)[codes] + np.random.default_rng(0).normal(size=(ROWS, 3))


@pytest.fixture(scope="module")
def release(randomized):
    """Released labels of these rows."""
    codes = np.arange(ROWS) % 3
    found = randomized(codes, RandomizedResponse(SPACE, 2.0).channel(), 5)
    return Release(found.codes, found.channel, SPACE, found.certificate)


def weights_of(model):
    """All that a fitted network holds, as arrays."""
    return [value.numpy() for value in model.module_.state_dict().values()]


def same(one, other):
    """Whether two fitted networks agree bit by bit."""
    return all(np.array_equal(a, b) for a, b in zip(weights_of(one), weights_of(other), strict=True))


@pytest.mark.parametrize("method", ["likelihood", "unbiased", "posterior", "plain"])
def test_a_network_learns_the_classes(features, release, method):
    """Every method learns what features say of the classes, and gives probabilities in declared order."""
    model = learner(method=method).fit(features, release)
    chances = model.predict_proba(features)
    assert model.classes_.tolist() == ["ham", "jam", "spam"]
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, atol=1e-12)
    assert np.mean(chances.argmax(axis=1) == np.arange(ROWS) % 3) > 0.9
    assert set(model.predict(features)) == {"ham", "jam", "spam"}
    assert model.score(features, release) > 0.1
    assert model.n_iter_ == len(model.history_) == 3


def test_truncation_is_in_the_likelihood(randomized):
    """Where candidates leave the true class out, the likelihood finds the law of the rows and plain training cannot.

    All rows have one feature and are of class 0 with probability 0.7, 1 with 0.2, 2 with 0.1; half of them can only be
    released as 1 or 2. The standard error of an estimate is below 0.006, so that 0.03 is five of them (false alarm
    below one in a million), and the draw is the same in every run.
    """
    rows, truth = 40_000, np.array([0.7, 0.2, 0.1])
    codes = np.random.default_rng(3).choice(3, size=rows, p=truth)
    support = np.ones((rows, 3), dtype=np.bool_)
    support[::2, 0] = False
    drawn = randomized(codes, CandidateChannel.at(3, 3.0, pack(support)), 4)
    ones = np.ones((rows, 1))
    found = {}
    for method in ("likelihood", "posterior", "plain"):
        settings = {"epochs": 6, "batch_size": 2000, "learning_rate": 0.1, "weight_decay": 0.0}
        model = TorchClassifier(lambda k: nn.Linear(1, k, bias=False), method=method, **settings)
        found[method] = model.fit(ones, drawn).predict_proba(ones[:1])[0]
    np.testing.assert_allclose(found["likelihood"], truth, atol=0.03)
    np.testing.assert_allclose(found["posterior"], truth, atol=0.03)
    assert abs(found["plain"] - truth).max() > 0.2


def test_a_seed_gives_the_same_network_whatever_the_global_state(features, release):
    """The first weights, order and dropout follow from the seed; PyTorch's own state is neither used nor changed."""

    def network(classes):
        return nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, classes))

    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = learner(module=network, mixup=0.4).fit(features, release)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    np.random.seed(3)  # noqa: NPY002 (the global state is the point)
    assert same(one, learner(module=network, mixup=0.4).fit(features, release))
    assert not same(one, learner(module=network, mixup=0.4, seed=1).fit(features, release))


def test_a_given_network_is_never_changed(features, release):
    """A module is copied, with its weights as the start."""
    module = linear(3)
    start = module.weight.detach().clone()
    model = learner(module=module).fit(features, release)
    assert torch.equal(module.weight, start)
    assert not torch.equal(model.module_.weight, start)


def test_a_warm_start_goes_on_from_the_weights(features, release):
    """With a rate of 0 the weights stay those of the first fit; without warm_start they are made anew."""
    model = learner(warm_start=True).fit(features, release)
    first = model.module_
    model.set_params(learning_rate=0.0, seed=7).fit(features, release)
    assert torch.equal(model.module_.weight, first.weight)
    assert model.module_ is not first
    model.set_params(warm_start=False).fit(features, release)
    assert not torch.equal(model.module_.weight, first.weight)


def test_a_label_is_drawn_once_for_all_epochs(features, monkeypatch):
    """However many epochs, fits and methods there are, the curator draws once, and the release stays what it was."""
    import labeldp.release._curator as room  # noqa: PLC0415 (the room whose draws are counted)

    drawn, draw = [], room.draw
    monkeypatch.setattr(room, "draw", lambda *given: drawn.append(1) or draw(*given))
    curator = Curator(np.array(SPACE.points)[np.arange(ROWS) % 3], SPACE)
    given = curator.randomize(PriorResponse(SPACE, 2.0, prior=np.full((ROWS, 3), 1 / 3)))
    fingerprint = given.hash
    for method in ("likelihood", "unbiased"):
        learner(method=method, epochs=4).fit(features, given)
    assert len(drawn) == 1
    assert given.hash == fingerprint
