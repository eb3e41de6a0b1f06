"""Networks in scikit-learn's form: what they learn, what they promise, and what they refuse."""

import functools
import pickle

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from torch import nn

from labeldp import Classes, Curator, RandomizedResponse, Release
from labeldp.errors import InputError, NotTrueLabelsError
from labeldp.learning.metrics import Units
from labeldp.learning.torch import TorchClassifier, UnguardedFitWarning, augmentation
from labeldp.learning.torch._training import split

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


def test_a_fitted_learner_can_be_sent(features, release):
    """A pickle predicts the same."""
    model = learner().fit(features, release)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301 (made in this line)
    np.testing.assert_array_equal(again.predict_proba(features), model.predict_proba(features))


def test_features_in_parts_are_arguments(release):
    """A tuple such as users and items reaches the network as its arguments, in training and prediction."""

    class Pairs(nn.Module):
        def __init__(self, classes):
            super().__init__()
            self.users, self.items = nn.Embedding(3, classes), nn.Embedding(5, classes)

        def forward(self, users, items):
            return self.users(users) + self.items(items)

    given = (np.arange(ROWS, dtype=np.int16) % 3, np.arange(ROWS) % 5)
    model = learner(module=Pairs, epochs=20).fit(given, release)
    assert np.mean(model.predict_proba(given).argmax(axis=1) == np.arange(ROWS) % 3) > 0.9
    with pytest.raises(InputError, match="set mixup to 0"):
        learner(module=Pairs, mixup=0.5).fit(given, release)


@pytest.mark.parametrize(("fitted", "other"), [(np.uint8, np.float32), (np.float32, np.uint8), (np.float64, np.int64)])
def test_features_mean_in_prediction_what_they_meant_in_fit(fitted, other, features, release):
    """Bytes are divided by 255 and whole numbers look up, so the same numbers of another type are other features."""
    model = learner(epochs=1).fit(features.astype(fitted), release)
    with pytest.raises(InputError, match=r"expected features in .* as in fit, found .* pass the same type"):
        model.predict(features.astype(other))
    model.predict(torch.from_numpy(features.astype(fitted)))


def test_prediction_is_by_rows_alone(features, release):
    """Predictions in evaluation mode do not depend on the rows beside, nor on how many there are."""

    def network(classes):
        return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, classes))

    model = learner(module=network).fit(features, release)
    many = model.predict_proba(np.tile(features, (4, 1)))
    np.testing.assert_allclose(many[:ROWS], model.predict_proba(features), atol=1e-6)
    np.testing.assert_allclose(many[-1:], model.predict_proba(features[-1:]), atol=1e-6)
    assert not model.module_.training


def test_double_precision_is_kept(features, release):
    """A network in double precision is given features in double precision."""
    model = learner(module=lambda classes: linear(classes).double()).fit(features, release)
    assert model.module_.weight.dtype == torch.float64


def test_weights_of_rows_count(features, release):
    """A row of weight 0 might as well not be there: its features change nothing."""
    weights, moved = np.ones(ROWS), features.copy()
    weights[:50] = 0.0
    moved[:50] += 9.0
    one, two = (learner().fit(given, release, weights) for given in (features, moved))
    assert same(one, two)
    assert not same(one, learner().fit(features, release))


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_optimizers_by_name(features, release, name):
    """Both learn, and a function that makes one of PyTorch's does as well as its name."""
    by_name = learner(optimizer=name, learning_rate=0.05, momentum=0.8, weight_decay=0.01, epochs=12)
    made = {
        "adam": functools.partial(torch.optim.Adam, lr=0.05, weight_decay=0.01),
        "adamw": functools.partial(torch.optim.AdamW, lr=0.05, weight_decay=0.01),
        "sgd": functools.partial(torch.optim.SGD, lr=0.05, momentum=0.8, weight_decay=0.01),
    }[name]
    assert same(by_name.fit(features, release), learner(optimizer=made, epochs=12).fit(features, release))
    assert by_name.score(features, release) > 0.1


def test_a_function_without_arguments_makes_a_network_too(features, release):
    """It is called with nothing."""
    assert learner(module=lambda: nn.Linear(3, 3)).fit(features, release).score(features, release) > 0.1


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"method": "forward"}, "method among likelihood, unbiased, posterior, plain, found 'forward'"),
        ({"schedule": "step"}, "schedule among constant, linear, piecewise, cosine, found 'step'"),
        ({"optimizer": "lion"}, "optimizer among sgd, nesterov, adam, adamw, found 'lion'"),
        ({"mixup": -0.1}, "mixup to be a "),
        ({"mixup": float("nan")}, "mixup to be a "),
        ({"averaging": 1.0}, "averaging at least 0 and below 1"),
        ({"held_out": 1.0}, "held_out at least 0 and below 1"),
        ({"held_out": 0.9999}, "rows to fit on"),
        ({"patience": 3}, "held_out above 0 with patience"),
        ({"patience": 0, "held_out": 0.1}, "patience to be a whole number of at least 1"),
        ({"learning_rate": "fast"}, "learning_rate to be a number"),
        ({"epochs": 0}, "epochs to be a whole number of at least 1, found 0"),
        ({"epochs": 1.5}, "epochs to be a whole number"),
        ({"batch_size": 0}, "batch_size to be a whole number of at least 1"),
        ({"seed": -1}, "seed to be a whole number of at least 0"),
        ({"correction": 0.5}, "only with method='unbiased'"),
        ({"device": "warp"}, "device that PyTorch finds here, found 'warp'"),
        ({"precision": "half"}, "precision among full, bf16, found 'half'"),
        ({"accelerator": list, "precision": "bf16"}, "neither device nor precision with an accelerator"),
        ({"module": 3}, "a network or a function that makes one, found int"),
        ({"module": lambda classes: classes}, "a function that makes a network, found one that makes int"),
        ({"module": nn.Linear(3, 5)}, "an output for each of 3 declared classes, found 5"),
        ({"module": nn.Linear(3, 1)}, "an output for each of 3 declared classes, found 1"),
        ({"module": nn.Linear(4, 3)}, r"takes a batch of shape \(1, 3\), found one that does not"),
        ({"module": nn.Identity()}, "a network with weights to learn, found Identity without any"),
        (
            {"module": nn.Sequential(nn.Linear(3, 3), nn.Unflatten(1, (3, 1)))},
            r"outputs are rows by declared classes, found \(1, 3, 1\)",
        ),
        ({"module": nn.Embedding(3, 3)}, r"takes a batch of shape \(1, 3\)"),
        ({"augment": augmentation()}, r"images of shape \(rows, channels, height, width\)"),
    ],
)
@pytest.mark.usefixtures("as_users_call")
def test_what_cannot_be_used_is_refused(features, release, settings, told):
    """What was expected and found is said, and the learner stays unfitted."""
    model = learner(**settings)
    with pytest.raises(InputError, match=told):
        model.fit(features, release)
    assert not hasattr(model, "module_")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a graphics processor")
def test_a_graphics_processor_that_is_not_there_is_refused(features, release):
    """The way out is said."""
    with pytest.raises(InputError, match="found 'cuda'; use device='cpu'"):
        learner(device="cuda").fit(features, release)


@pytest.mark.usefixtures("as_users_call")
def test_bare_labels_are_refused(features, release):
    """An array of labels is no release, in fitting and in judging."""
    with pytest.raises(NotTrueLabelsError, match="expected a Release as labels"):
        learner().fit(features, np.zeros(ROWS))
    with pytest.raises(NotTrueLabelsError, match="expected a Release as labels"):
        learner().fit(features, release).score(features, np.zeros(ROWS))


def test_rows_that_do_not_match_are_refused(features, release):
    """Both numbers are named."""
    with pytest.raises(InputError, match=f"each of {ROWS - 1} rows of features, found {ROWS}"):
        learner().fit(features[1:], release)


def test_held_out_rows_without_weight_judge_nothing(features, release):
    """Held-out rows that all weigh nothing are refused."""
    weights = np.ones(ROWS)
    weights[split(Units.of(None, ROWS), 0.1, 0)[1]] = 0.0
    with pytest.raises(InputError, match="held-out rows with weight, found 270 and 0"):
        learner(held_out=0.1).fit(features, release, weights)


def test_classes_in_another_order_are_no_warm_start(features, release):
    """The weights belong to outputs in the order of the first fit."""
    model = learner(warm_start=True).fit(features, release)
    other = Release(release.codes, release.channel, Classes(["jam", "ham", "spam"]), release.certificate)
    with pytest.raises(InputError, match="the same order with warm_start"):
        model.fit(features, other)
    assert model.classes_.tolist() == ["ham", "jam", "spam"]


def test_images_of_another_shape_are_refused(release):
    """The network's own words come with the shape that it was given."""
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    with pytest.raises(InputError, match=r"shape \(1, 1, 8, 8\), found one that does not: .*3 channels"):
        learner(module=network).fit(np.zeros((ROWS, 1, 8, 8), dtype=np.uint8), release)
    model = learner(module=network, epochs=1).fit(np.zeros((ROWS, 3, 8, 8), dtype=np.uint8), release)
    with pytest.raises(InputError, match=r"shape \(2, 1, 8, 8\)"):
        model.predict_proba(np.zeros((2, 1, 8, 8), dtype=np.uint8))


def test_a_learner_that_was_not_fitted_says_so(features):
    """As scikit-learn's do."""
    with pytest.raises(NotFittedError):
        learner().predict(features)


def test_what_a_network_learns_depends_on_the_draw_alone(features, monkeypatch):
    """Where the draw is the same, so is the network bit by bit, however it is trained, though no label is."""
    drawn = (np.arange(ROWS) % 3).astype(np.int32)
    monkeypatch.setattr("labeldp.release.curator._drawing.draw", lambda _channel, codes, *_: drawn[: len(codes)].copy())
    labels = np.random.default_rng(0).integers(0, 3, ROWS)
    found = []
    for codes in (labels, np.where(labels == 0, 1, 0)):
        given = Curator(np.array(SPACE.points)[codes], SPACE).randomize(RandomizedResponse(SPACE, 2.0))
        found.append(learner(held_out=0.2, patience=1, averaging=0.5, mixup=0.3, epochs=6).fit(features, given))
    assert same(*found)
    assert found[0].history_ == found[1].history_


def test_a_network_without_a_guard_is_warned_of():
    """Fewer effective rows than weights are warned of; held-out rows, true labels or a prior are a guard.

    What is warned of depends on the channel and the number of rows alone.
    """
    features, space = np.eye(2, dtype=np.float32)[np.arange(200) % 2], Classes(["no", "yes"])
    release = Curator(np.array(["no", "yes"])[np.arange(200) % 2], space).randomize(RandomizedResponse(space, 0.3))
    wide = {"module": lambda: nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2)), "epochs": 1}
    with pytest.warns(UnguardedFitWarning, match="found 4 effective rows for 42 weights and none held out"):
        TorchClassifier(**wide).fit(features, release)
    TorchClassifier(**wide, held_out=0.2).fit(features, release)
    TorchClassifier(**wide).fit(features, release, prior=np.full((200, 2), 0.5))
    TorchClassifier(**wide).fit(features, Release.public(["no", "yes"] * 100, space))
    TorchClassifier(lambda: nn.Linear(2, 2, bias=False), epochs=1).fit(features, release)
