"""The training loop: rates, mixing, averaging, stopping early, and taking up again."""

import functools
import subprocess
import sys

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from torch import nn

from labeldp import Classes, RandomizedResponse, Release
from labeldp.errors import InputError, OutputError, VerificationError
from labeldp.learning.losses import gain
from labeldp.learning.torch import (
    ChannelLoss,
    ReleasedRows,
    Run,
    SingleDevice,
    TorchClassifier,
    TrainingSettings,
    augmentation,
)

SPACE = Classes(["ham", "jam", "spam"])
ROWS = 120
torch.set_num_threads(1)
#: Networks of few rows, to be quick.
pytestmark = pytest.mark.filterwarnings("ignore::labeldp.learning.torch.UnguardedFitWarning")


def linear(classes):
    """A linear network of three features."""
    return nn.Linear(3, classes)


def dropping(classes):
    """A network with everything that has a state or takes chances."""
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, classes))


def learner(**settings):
    """A small learner, quick to train."""
    return TorchClassifier(**{"module": linear, "epochs": 4, "batch_size": 32, "learning_rate": 0.3, **settings})


@pytest.fixture(scope="module")
def features():
    """Features that say the class."""
    codes = np.arange(ROWS) % 3
    return (3 * np.eye(3)[codes] + np.random.default_rng(0).normal(size=(ROWS, 3))).astype(np.float32)


@pytest.fixture(scope="module")
def release(randomized):
    """Released labels of these rows."""
    found = randomized(np.arange(ROWS) % 3, RandomizedResponse(SPACE, 2.0).channel(), 5)
    return Release(found.codes, found.channel, SPACE, found.certificate)


def same(one, other):
    """Whether two fitted networks agree bit by bit."""
    pairs = zip(one.module_.state_dict().values(), other.module_.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def watched(seen):
    """An optimizer that writes down rates and weights after each step."""

    def make(parameters):
        parameters = list(parameters)
        optimizer = torch.optim.SGD(parameters, lr=0.2)
        optimizer.register_step_post_hook(
            lambda *_: seen.append((optimizer.param_groups[0]["lr"], parameters[0].detach().clone()))
        )
        return optimizer

    return make


def of_the_papers(name, done):
    """The share of the rate when this share of the steps is done, as Appendix B says it."""
    if name == "linear":
        return done / 0.15 if done < 0.15 else (1 - done) / 0.85
    if name == "piecewise":
        stages = ((0.9, 0.001), (0.6, 0.01), (0.3, 0.1), (0.15, 1.0))
        return next((share for at, share in stages if done >= at), done / 0.15)
    if name == "cosine":
        return done / 0.15 if done < 0.15 else 0.5 + 0.5 * np.cos(np.pi * (done - 0.15) / 0.85)
    return 1.0


@pytest.mark.parametrize("name", ["linear", "piecewise", "cosine", "constant"])
def test_rates_follow_the_schedule(features, release, name):
    """Each step has the rate of its middle; a function of one's own is asked likewise."""
    for schedule in (name, functools.partial(of_the_papers, name)):
        seen = []
        learner(optimizer=watched(seen), schedule=schedule, epochs=10).fit(features, release)
        expected = [0.2 * of_the_papers(name, (step + 0.5) / 40) for step in range(40)]
        np.testing.assert_allclose([rate for rate, _ in seen], expected, rtol=1e-12)


def test_each_epoch_sees_each_row_once(features, release):
    """Batches are as even as they can be, hold every row once, and come in another order in each epoch."""
    batches = []

    class Watching(nn.Linear):
        def forward(self, given):
            if self.training:
                batches.append(given[:, 0].tolist())
            return super().forward(given)

    learner(module=lambda k: Watching(3, k), batch_size=50, epochs=2).fit(features, release)
    assert [len(batch) for batch in batches] == [40] * 6
    one, two = ([value for batch in part for value in batch] for part in (batches[:3], batches[3:]))
    assert sorted(one) == sorted(two) == sorted(features[:, 0].tolist())
    assert one != two


def test_mixup_mixes_features_and_losses_alike(features, release):
    """The loss of a step is that of both labels at the mixed features, in the shares in which these were mixed."""
    loss = ChannelLoss(release, reduction="none")
    rows = ReleasedRows(features, release, loss)
    settings = {"augment": None, "averaging": 0.0, "patience": None, "seed": 0, "channels_last": False}
    training = TrainingSettings(1, 32, functools.partial(torch.optim.SGD, lr=0.0), lambda _: 1.0, mixup=0.7, **settings)
    torch.manual_seed(0)
    run = Run(linear(3), rows, loss, np.arange(ROWS), None, training, SingleDevice(torch.device("cpu")))
    chosen = np.arange(20, 52)
    given, asked = rows[chosen]
    found = run._step(given, asked, 1.0, np.random.default_rng(9))
    chance = np.random.default_rng(9)
    share, order = chance.beta(0.7, 0.7), chance.permutation(32)
    assert 0.05 < share < 0.45 or 0.55 < share < 0.95
    logits = run.network(torch.tensor(share * features[chosen] + (1 - share) * features[chosen[order]]))
    targets = torch.from_numpy(release.targets())
    expected = share * loss(logits, targets[chosen]) + (1 - share) * loss(logits, targets[chosen[order]])
    assert float(found) == pytest.approx(expected.mean().item(), rel=1e-6)


def test_averaged_weights_are_what_is_used(features, release):
    """They start at the first weights that were reached, and move by a tenth or more of the way at first."""
    seen = []
    model = learner(optimizer=watched(seen), averaging=0.5, epochs=2).fit(features, release)
    average = seen[0][1]
    for count, (_, weights) in enumerate(seen[1:], start=1):
        average = average + (1 - min(0.5, (1 + count) / (10 + count))) * (weights - average)
    torch.testing.assert_close(model.module_.weight.detach(), average, rtol=1e-5, atol=1e-6)
    assert not torch.equal(model.module_.weight.detach(), seen[-1][1])


def test_averages_hold_the_statistics_of_batches(features, release):
    """The averaged network has averaged means of batch normalisation, and predicts with them."""
    model = learner(module=dropping, averaging=0.9).fit(features, release)
    assert model.module_[1].running_mean.abs().max() > 0.01
    assert model.score(features, release) > 0.1


def test_training_stops_on_released_labels_that_were_not_fitted(features, release):
    """The gain of each epoch is that of held-out released labels; the best weights are kept, and patience ends it."""
    settings = {"held_out": 0.25, "patience": 2, "epochs": 40, "learning_rate": 3.0, "schedule": "constant"}
    model = learner(**settings).fit(features, release)
    gains = [each["gain"] for each in model.history_]
    assert len(gains) == model.n_iter_ == int(np.argmax(gains)) + 3 < 40
    held = np.sort(np.random.default_rng([0, 1 << 32]).permutation(ROWS)[:30])
    again = float(np.mean(gain(release[held], model.predict_proba(features[held]))))
    assert max(gains) == pytest.approx(again, rel=1e-6)


def test_held_out_labels_are_not_fitted(features, release):
    """Whatever the held-out released labels are, the weights after an epoch are the same."""
    held = np.sort(np.random.default_rng([0, 1 << 32]).permutation(ROWS)[:30])
    codes = release.codes.copy()
    codes[held] = (codes[held] + 1) % 3
    other = Release(codes, release.channel, SPACE, release.certificate)
    one, two = (learner(held_out=0.25, epochs=1).fit(features, each) for each in (release, other))
    assert same(one, two)
    assert one.history_[0]["loss"] == two.history_[0]["loss"]
    assert one.history_[0]["gain"] != two.history_[0]["gain"]


def interrupted(after):
    """A progress report at which training is killed once so many epochs are done."""

    def report(_what, done, _of):
        if done == after:
            raise KeyboardInterrupt

    return report


EVERYTHING = {"module": dropping, "mixup": 0.4, "averaging": 0.9, "held_out": 0.2, "epochs": 5}


@pytest.mark.parametrize("after", [1, 3, 4])
def test_taking_up_again_gives_the_same_network(features, release, tmp_path, after):
    """A training that was killed and goes on, in another state of all generators, ends bit by bit as if it had not."""
    whole = learner(**EVERYTHING).fit(features, release)
    with pytest.raises(KeyboardInterrupt):
        learner(**EVERYTHING, checkpoint=tmp_path, report=interrupted(after)).fit(features, release)
    torch.manual_seed(after)
    told = []
    report = lambda *what: told.append(what)  # noqa: E731
    resumed = learner(**EVERYTHING, checkpoint=tmp_path, report=report).fit(features, release)
    assert told == [("epoch", done, 5) for done in range(after, 6)]
    assert same(whole, resumed)
    assert whole.history_ == resumed.history_
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]
    again = learner(**EVERYTHING, checkpoint=tmp_path).fit(features, release)
    assert same(whole, again)


def test_a_kept_state_holds_no_label(features, release, tmp_path):
    """Numbers of the network, the optimizer and the history, and a hash; it opens without running anything."""
    learner(**EVERYTHING, checkpoint=tmp_path).fit(features, release)
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert set(state) == {
        *("model", "optimizer", "averaged", "scaler", "best", "best_gain", "best_epoch", "history", "owner")
    }
    tensors = [*state["model"].values(), *state["averaged"].values(), *state["best"].values()]
    tensors += [each for one in state["optimizer"]["state"].values() for each in one.values()]
    assert all(ROWS not in each.shape for each in tensors if isinstance(each, torch.Tensor))
    assert len(state["owner"]) == 64


@pytest.mark.parametrize("changed", ["release", "epochs", "seed", "learning_rate", "mixup", "weights", "module"])
def test_another_trainings_state_is_refused(features, release, tmp_path, changed):
    """A state belongs to the release, the first weights and the settings."""
    learner(checkpoint=tmp_path).fit(features, release)
    other, settings, weights = release, {}, None
    if changed == "release":
        other = release[np.arange(ROWS)[::-1]]
    elif changed == "weights":
        weights = np.arange(1.0, ROWS + 1)
    else:
        settings = {changed: dropping if changed == "module" else 7}
    with pytest.raises(VerificationError, match="found another; give the settings"):
        learner(checkpoint=tmp_path, **settings).fit(features, other, weights)


@pytest.mark.parametrize(
    ("alter", "found"),
    [
        (lambda path: path.chmod(0o666), "found one that other users can write to"),
        (lambda path: path.with_name("second").hardlink_to(path), "found one with 2 hard links"),
        (lambda path: path.rename(path.with_name("x")) and path.symlink_to("x"), "cannot be read as one"),
        (lambda path: path.unlink() or path.symlink_to("nowhere"), "cannot be read as one"),
    ],
)
def test_a_state_that_others_can_have_written_is_not_taken_up(features, release, tmp_path, alter, found):
    """A state decides what is learned, so it is this user's own."""
    learner(**EVERYTHING, checkpoint=tmp_path).fit(features, release)
    alter(tmp_path / "checkpoint.pt")
    with pytest.raises((OutputError, VerificationError), match=found):
        learner(**EVERYTHING, checkpoint=tmp_path).fit(features, release)


def test_a_damaged_state_is_refused(features, release, tmp_path):
    """Nothing is overwritten."""
    (tmp_path / "checkpoint.pt").write_bytes(b"nothing")
    with pytest.raises(VerificationError, match="cannot be read as one"):
        learner(checkpoint=tmp_path).fit(features, release)
    assert (tmp_path / "checkpoint.pt").read_bytes() == b"nothing"


@pytest.mark.parametrize(
    "parts", [{"model": None}, {"model": "x"}, {"best": {}}, {"best": 3}, {"history": 7}, {"optimizer": {}}, "best"]
)
def test_a_state_of_the_right_training_with_other_parts_is_refused(features, release, tmp_path, parts):
    """In a sentence, and by no error of another library."""
    learner(**EVERYTHING, checkpoint=tmp_path).fit(features, release)
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    if isinstance(parts, str):
        del state[parts]
    else:
        state |= parts
    torch.save(state, tmp_path / "checkpoint.pt")
    with pytest.raises(VerificationError, match="found a damaged one"):
        learner(**EVERYTHING, checkpoint=tmp_path).fit(features, release)


def test_an_accelerator_trains_the_same_network(features, release):
    """In full precision on one processor it is the same bit by bit, without what prepared it."""
    alone = learner(module=dropping).fit(features, release)
    helped = learner(module=dropping, accelerator=functools.partial(Accelerator, cpu=True)).fit(features, release)
    assert same(alone, helped)
    assert "forward" not in vars(helped.module_)


def test_half_precision_is_for_steps_alone(features, release):
    """The network computes otherwise, close by; its weights and what it predicts with stay in full precision."""
    seen = []

    class Watching(nn.Linear):
        def forward(self, given):
            seen.append((self.training, super().forward(given).dtype))
            return super().forward(given)

    full = learner().fit(features, release)
    half = learner(module=lambda k: Watching(3, k), precision="bf16", held_out=0.0).fit(features, release)
    assert set(seen) == {(True, torch.bfloat16), (False, torch.float32)}
    assert half.module_.weight.dtype == torch.float32
    difference = abs(full.predict_proba(features) - half.predict_proba(features)).max()
    assert 0.0 < difference < 0.05


def images(classes):
    """A small convolutional network."""
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, classes))


def test_images_are_changed_and_laid_out(release):
    """Bytes, augmentation and channels last work together; the layout changes no more than rounding."""
    pixels = np.random.default_rng(0).integers(0, 256, (ROWS, 1, 8, 8)).astype(np.uint8)
    settings = {"module": images, "augment": augmentation(1, cutout=2), "mixup": 0.2, "epochs": 2}
    one, two = (learner(**settings, channels_last=last).fit(pixels, release) for last in (False, True))
    np.testing.assert_allclose(one.predict_proba(pixels), two.predict_proba(pixels), atol=1e-4)
    assert not same(one, learner(**{**settings, "augment": None}).fit(pixels, release))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_loss_that_is_no_number_says_where(features, release, value):
    """The step and the epoch are named, and what to change; the learner stays as it was."""
    wrong = features.copy()
    wrong[5, 1] = value
    model = learner(batch_size=ROWS)
    with pytest.raises(
        InputError, match=r"at step 1 of 4 \(epoch 1, learning rate 0.3\); look for features that are not"
    ):
        model.fit(wrong, release)
    assert not hasattr(model, "module_")


TOGETHER = """
import functools, os, sys
import numpy as np
import torch
from accelerate import Accelerator
from torch import nn
from labeldp import Classes, Release
from labeldp.learning.torch import TorchClassifier

torch.set_num_threads(1)
codes = np.arange(121) % 3
features = 3 * np.eye(3)[codes] + np.random.default_rng(0).normal(size=(121, 3))
module = lambda classes: nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, classes))
settings = {"optimizer": "sgd", "epochs": 4, "batch_size": 40, "learning_rate": 0.3, "held_out": 0.2, "patience": 3}
helped = functools.partial(Accelerator, cpu=True, mixed_precision="bf16")
release = Release.public(codes, Classes(range(3)))
alone = TorchClassifier(module, **settings, device="cpu").fit(features, release).predict_proba(features)
model = TorchClassifier(module, **settings, accelerator=helped, checkpoint=sys.argv[1]).fit(features, release)
found = model.predict_proba(features)
assert abs(found - alone).max() < 0.2, abs(found - alone).max()
with open(f"{sys.argv[1]}-{os.environ['RANK']}.txt", "w") as file:  # on one terminal lines of two processes mix
    print(model.history_, found[:3].tolist(), file=file)
"""


@pytest.mark.slow
def test_two_processes_train_one_network(tmp_path):
    """In half precision too, both processes end with the same network, close to that of one process."""
    script = tmp_path / "together.py"
    script.write_text(TOGETHER, encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(script)]
    subprocess.run([*command, str(tmp_path / "kept")], capture_output=True, text=True, check=True)
    one, other = ((tmp_path / f"kept-{rank}.txt").read_text(encoding="utf-8") for rank in range(2))
    assert "gain" in one
    assert one == other
