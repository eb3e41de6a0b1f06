"""Losses on logits against the compiled ones, which are tested by their formulas."""

import numpy as np
import pytest
import torch

from labeldp import Classes, Release
from labeldp.errors import InputError
from labeldp.learning.losses import posterior, row_loss
from labeldp.learning.torch import NETWORK_METHODS, ChannelLoss
from labeldp.learning.torch._rows import ReleasedRows
from labeldp.privacy.channels import SubsetChannel

CLASSES = 4
ROWS = 24
ALL = np.arange(ROWS)
#: Losses keep single precision beside a release, so that is how well they agree with formulas.
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture
def release(kind, make_channel, randomized):
    """Released labels of one kind of channel."""
    codes = np.random.default_rng(0).integers(0, CLASSES, ROWS)
    return randomized(codes, make_channel(kind, CLASSES, ROWS), 1)


@pytest.fixture
def logits():
    """Logits of each row, in double precision."""
    found = np.random.default_rng(2).normal(scale=2.0, size=(ROWS, CLASSES))
    return torch.tensor(found, requires_grad=True)


def losses(release, logits, rows=ALL, method="likelihood", correction=1.0, **more):
    """The loss of each of some rows, by their targets."""
    targets = torch.from_numpy(release.targets())
    return ChannelLoss(release, method, correction=correction, reduction="none")(logits, targets[rows], **more)


def softmax(logits):
    """Probabilities of moderate logits."""
    raised = np.exp(logits)
    return raised / raised.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("method", NETWORK_METHODS)
def test_losses_and_gradients_are_those_of_the_kernels(release, method, logits):
    """For every kind of channel, rows in any order; posterior targets have the gradient of the likelihood."""
    rows = np.random.default_rng(3).permutation(ROWS)
    found = losses(release, logits[rows], rows, method)
    found.sum().backward()
    gradient, chance = logits.detach().numpy().copy(), softmax(logits.detach().numpy())
    loss = row_loss(release, "likelihood" if method == "posterior" else method)
    expected = np.array([loss.take(slice(i, i + 1))(gradient[i : i + 1], np.ones(1)) for i in range(ROWS)])
    if method == "posterior":
        expected = -(posterior(release, chance) * np.log(chance)).sum(axis=1)
    np.testing.assert_allclose(found.detach().numpy(), expected[rows], **CLOSE)
    np.testing.assert_allclose(logits.grad.numpy(), gradient, **CLOSE)


@pytest.mark.parametrize("method", NETWORK_METHODS)
@pytest.mark.parametrize("size", [800.0, 1e5])
def test_extreme_logits_stay_finite(release, method, size):
    """Logits that overflow when raised give finite losses and gradients, in single precision."""
    values = size * np.random.default_rng(4).choice([-1.0, 0.0, 1.0], size=(ROWS, CLASSES))
    logits = torch.tensor(values, dtype=torch.float32, requires_grad=True)
    found = losses(release, logits, method=method)
    found.sum().backward()
    assert torch.isfinite(found).all()
    assert torch.isfinite(logits.grad).all()
    if method == "likelihood":
        shifted = values - values.max(axis=1, keepdims=True)
        hit = (release.likelihood() * softmax(shifted)).sum(axis=1)
        np.testing.assert_allclose(found.detach().numpy(), -np.log(hit), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("method", NETWORK_METHODS)
def test_public_labels_give_the_cross_entropy(method, logits):
    """Every method on labels declared public is PyTorch's cross entropy."""
    codes = np.random.default_rng(5).integers(0, CLASSES, ROWS)
    found = losses(Release.public(codes, Classes(range(CLASSES))), logits, method=method)
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor(codes), reduction="none")
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_a_thousand_classes_stay_packed_until_the_batch(randomized):
    """Sets of a thousand classes lie in bits beside a mark of each row, and a batch is the dense formula."""
    rng = np.random.default_rng(6)
    release = randomized(rng.integers(0, 1000, 40), SubsetChannel.at(1000, 300, 1.0), 7)
    assert release.targets().nbytes == 40 * (128 + 4)
    logits = rng.normal(size=(3, 1000))
    hit = (release.likelihood()[[5, 0, 39]] * softmax(logits)).sum(axis=1)
    found = losses(release, torch.tensor(logits), [5, 0, 39])
    np.testing.assert_allclose(found.numpy(), -np.log(hit), **CLOSE)


def test_weights_weigh(release, logits):
    """The loss of a row is multiplied by its weight."""
    weights = np.random.default_rng(8).uniform(0.0, 2.0, ROWS)
    found = losses(release, logits, weights=torch.tensor(weights))
    torch.testing.assert_close(found, losses(release, logits) * torch.tensor(weights))


@pytest.mark.parametrize("correction", [0.0, 0.4])
def test_a_partial_correction_is_that_of_the_kernels(release, correction):
    """For every kind of channel the gradient at equal logits shows the same targets."""
    logits = torch.zeros(ROWS, CLASSES, requires_grad=True)
    losses(release, logits, method="unbiased", correction=correction).sum().backward()
    expected = np.zeros((ROWS, CLASSES))
    row_loss(release, "unbiased", correction)(expected, np.ones(ROWS))
    np.testing.assert_allclose(logits.grad.numpy(), expected, **CLOSE)


@pytest.mark.parametrize("method", ["likelihood", "posterior"])
def test_a_prior_makes_the_posterior_the_target(release, method, logits):
    """With a prior the loss is the cross entropy on the posterior under it, held fixed."""
    prior = np.random.default_rng(3).dirichlet(np.ones(CLASSES), ROWS)
    found = losses(release, logits, method=method, prior=torch.tensor(7.0 * prior))
    targets = posterior(release, prior)
    expected = -(targets * np.log(softmax(logits.detach().numpy()))).sum(axis=1)
    np.testing.assert_allclose(found.detach().numpy(), expected, **CLOSE)
    found.sum().backward()
    np.testing.assert_allclose(logits.grad.numpy(), softmax(logits.detach().numpy()) - targets, **CLOSE)


def test_public_labels_go_before_a_prior(logits):
    """Labels that were declared public are certain, whatever a prior says."""
    release = Release.public(np.arange(ROWS) % CLASSES, Classes(range(CLASSES)))
    prior = torch.full((ROWS, CLASSES), 0.25)
    torch.testing.assert_close(losses(release, logits, prior=prior), losses(release, logits))


@pytest.mark.parametrize(
    ("prior", "method", "expected"),
    [
        (np.ones((ROWS, CLASSES)), "plain", "expected the method likelihood or posterior with a prior, found 'plain'"),
        (np.ones((ROWS, CLASSES)), "unbiased", "expected the method likelihood or posterior"),
        (np.ones((ROWS - 1, CLASSES)), "likelihood", "expected a prior of shape"),
        (np.zeros((ROWS, CLASSES)), "likelihood", "expected a prior of shape"),
        (np.full((ROWS, CLASSES), np.nan), "likelihood", "expected a prior of shape"),
        (np.array([[1.0, 1.0, 1.0, -1.0]] * ROWS), "likelihood", "expected a prior of shape"),
    ],
)
def test_priors_that_are_none_are_refused(release, prior, method, expected):
    """A prior has a finite share of each class for each row, and goes with losses that know the likelihood."""
    with pytest.raises(InputError, match=expected):
        ReleasedRows(np.zeros((ROWS, 2)), release, ChannelLoss(release, method), prior=prior)
