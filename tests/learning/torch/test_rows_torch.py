"""Networks on rows whose features were redrawn: the losses of the kernels, and fits that find the true law."""

import numpy as np
import pytest
import torch
from torch import nn

from labeldp.errors import InputError, RowsError, VerificationError
from labeldp.learning.losses import SyntheticRows, row_loss
from labeldp.learning.sklearn import OriginalFeatures, ResampledClassifier
from labeldp.learning.torch import ChannelLoss, ReleasedRows, TorchClassifier
from labeldp.privacy.channels import ResponseChannel

CLASSES, ROWS = 3, 24
#: P(x, y) of features in two cells and three classes, and where the generator puts features, whatever the class.
JOINT = np.array([[0.30, 0.05, 0.15], [0.05, 0.25, 0.20]])
EVEN = np.array([0.9, 0.1])
REDRAWN = 0.4
#: Each released row so often, so that a step takes as many synthetic ones.
COPIES = 40


@pytest.fixture
def rows(make_release):
    """All released rows (cell, label) as a release, with the chance of each, and whether a cell is a row's own."""
    channel = ResponseChannel.at(CLASSES, 1.5)
    cells, codes = (each.ravel() for each in np.meshgrid(range(2), range(CLASSES), indexing="ij"))
    law = ((1 - REDRAWN) * JOINT + REDRAWN * np.outer(EVEN, JOINT.sum(axis=0))) @ channel.matrix()
    original = (1 - REDRAWN) * JOINT.sum(axis=1) / ((1 - REDRAWN) * JOINT.sum(axis=1) + REDRAWN * EVEN)
    cells, codes = np.repeat(cells, COPIES), np.repeat(codes, COPIES)
    release = make_release(codes.astype(np.int32), channel)
    return release, cells, law[cells, codes], OriginalFeatures(original[cells], JOINT.sum(axis=0))


@pytest.mark.parametrize("method", ["likelihood", "posterior", "unbiased"])
def test_a_gradient_is_that_of_the_kernels(kind, method, make_channel, randomized):
    """For every kind of channel autograd gives the gradient of the compiled losses, rows in any order."""
    release = randomized(np.random.default_rng(0).integers(0, CLASSES, ROWS), make_channel(kind, CLASSES, ROWS), 1)
    original = OriginalFeatures(np.random.default_rng(1).random(ROWS), [0.2, 0.3, 0.5])
    start, order = np.random.default_rng(2).normal(size=(ROWS, CLASSES)), np.random.default_rng(3).permutation(ROWS)
    logits = torch.tensor(start[order], requires_grad=True)
    loss = ChannelLoss(release, method, reduction="sum")
    _, labels = ReleasedRows(np.zeros((ROWS, 1)), release, loss, original=original)[order]
    loss(logits, **labels).backward()
    expected = start.copy()
    row_loss(release, "unbiased" if method == "unbiased" else "likelihood", original=original)(expected, np.ones(ROWS))
    np.testing.assert_allclose(logits.grad.numpy(), expected[order], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("method", "known", "found"),
    [
        ("likelihood", "original", True),
        ("unbiased", "original", True),
        ("unbiased", "synthetic", True),
        ("unbiased", None, False),
    ],
)
def test_a_network_finds_the_true_law(rows, method, known, found):
    """On all rows by their chances a network finds P(y | x) with either correction, and misses it by 0.08 with none."""
    release, cells, chance, original = rows
    fresh = np.repeat(np.arange(2), [9, 1])
    given = {
        "original": {"original": original},
        "synthetic": {"synthetic": SyntheticRows(np.eye(2)[fresh], original.prior, REDRAWN)},
        None: {},
    }[known]
    learner = TorchClassifier(
        lambda classes: nn.Linear(2, classes, bias=False),  # made by the seed
        method=method,
        epochs=150,
        learning_rate=0.2,
        weight_decay=0.0,
        averaging=0.9,
        batch_size=len(cells),
    )
    learner.fit(np.eye(2)[cells], release, sample_weight=chance, **given)
    missed = np.abs(learner.predict_proba(np.eye(2)) - JOINT / JOINT.sum(axis=1, keepdims=True)).max()
    assert missed < 0.04 if found else missed > 0.08


def test_images_are_corrected_for_too(randomized):
    """``ResampledClassifier`` hands a network what it needs, with rows that are held out and images that are bytes."""
    rng = np.random.default_rng(0)
    codes = np.arange(600) % 3

    def draw(asked):
        bright = np.zeros((len(asked), 1, 3, 3), dtype=np.uint8)
        bright[np.arange(len(asked)), 0, asked] = 200
        return bright + rng.integers(0, 50, bright.shape, dtype=np.uint8)

    def generator(asked):
        return draw((asked + 1) % 3)

    features = np.where(rng.random(600)[:, None, None, None] < 0.3, generator(codes), draw(codes))
    release = randomized(codes, ResponseChannel.at(3, 3.0), 7)
    network = TorchClassifier(
        lambda classes: nn.Sequential(nn.Flatten(), nn.Linear(9, classes)), epochs=20, learning_rate=0.05, held_out=0.1
    )
    for method in ("likelihood", "weighted", "unbiased", "first"):
        learner = ResampledClassifier(network, method=method, generator=generator, original_share="estimated")
        learner.fit(features, release, replaced=0.3)
        assert np.mean(learner.predict(draw(codes)) == codes) > 0.95


def test_what_does_not_go_together_is_refused(rows, tmp_path):
    """A prior beside shares, mixing beside synthetic rows, and a checkpoint of other shares are refused."""
    release, cells, _, original = rows
    features, prior = np.eye(2)[cells], np.full((len(release), CLASSES), 1 / CLASSES)
    with pytest.raises(InputError, match="both"):
        ReleasedRows(features, release, ChannelLoss(release), prior=prior, original=original)
    with pytest.raises(RowsError, match="240 rows"):
        ReleasedRows(features, release, ChannelLoss(release), original=original.take(slice(0, 2)))
    taken = SyntheticRows(features, original.prior, REDRAWN)
    network = nn.Linear(2, CLASSES)
    with pytest.raises(InputError, match="mixup"):
        TorchClassifier(network, method="unbiased", mixup=0.2).fit(features, release, synthetic=taken)
    with pytest.raises(InputError, match="'unbiased'"):
        TorchClassifier(network).fit(features, release, synthetic=taken)
    learner = TorchClassifier(network, epochs=1, checkpoint=tmp_path / "state")
    learner.fit(features, release, original=original)
    with pytest.raises(VerificationError, match="another"):
        learner.fit(features, release, original=OriginalFeatures(np.ones(len(release)), original.prior))
