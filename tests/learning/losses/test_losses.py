import mpmath
import numpy as np
import pytest

from labeldp import Classes, Release
from labeldp.errors import InputError
from labeldp.learning.losses import METHODS, posterior, row_loss
from labeldp.privacy.channels import ClusterChannel, ResponseChannel

CLASSES = 4
ROWS = 24


@pytest.fixture
def release(kind, make_channel, randomized):
    """Released labels of one kind of channel."""
    codes = np.random.default_rng(0).integers(0, CLASSES, ROWS)
    return randomized(codes, make_channel(kind, CLASSES, ROWS), 1)


@pytest.fixture
def logits():
    """Logits of each row."""
    return np.random.default_rng(2).normal(scale=2.0, size=(ROWS, CLASSES))


def softmax(logits):
    """Probabilities of moderate logits."""
    raised = np.exp(logits)
    return raised / raised.sum(axis=1, keepdims=True)


def targets_of(release, method):
    """The targets of a linear loss, from the release's unbiased vectors or its released labels."""
    if method == "unbiased":
        vectors = release.unbiased()
        if release.channel.kind == "candidates":
            return vectors
        return vectors + (1 - vectors.sum(axis=1, keepdims=True)) / CLASSES
    mask = release.channel.levels(release.codes).mask
    return np.array([row / row.sum() if row.any() else np.full(CLASSES, 1 / CLASSES) for row in mask])


def naive(release, method, logits, weights):
    """The weighted sum of the loss, as it is written."""
    chance = softmax(logits)
    if method == "likelihood":
        rows = -np.log((release.likelihood() * chance).sum(axis=1))
    else:
        rows = -(targets_of(release, method) * np.log(chance)).sum(axis=1)
    return float(weights @ rows)


@pytest.mark.parametrize("method", METHODS)
def test_a_loss_is_what_its_formula_says(release, method, logits):
    """For every kind of channel and method the packed loss equals the dense formula."""
    weights = np.random.default_rng(3).uniform(0.0, 2.0, ROWS)
    expected = naive(release, method, logits, weights)
    assert row_loss(release, method)(logits.copy(), weights) == pytest.approx(expected, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("method", METHODS)
def test_a_gradient_is_that_of_the_loss(release, method, logits):
    """For every kind of channel and method the gradient agrees with finite differences of the dense formula."""
    weights = np.random.default_rng(3).uniform(0.0, 2.0, ROWS)
    gradient = logits.copy()
    row_loss(release, method)(gradient, weights)
    step = 1e-5
    for i, j in np.ndindex(ROWS, CLASSES):
        ends = []
        for sign in (1, -1):
            moved = logits.copy()
            moved[i, j] += sign * step
            ends.append(naive(release, method, moved, weights))
        assert gradient[i, j] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_the_gradient_of_a_row_sums_to_zero(release, method, logits):
    """Targets and posteriors sum to one, so a shift of all logits changes nothing."""
    gradient = logits.copy()
    row_loss(release, method)(gradient, np.ones(ROWS))
    np.testing.assert_allclose(gradient.sum(axis=1), 0.0, atol=1e-12)


@pytest.mark.parametrize("method", ["unbiased", "plain"])
def test_targets_sum_to_one(release, method):
    """The targets of linear losses, which the gradient at equal logits shows, sum to one and are the formula's."""
    gradient = np.zeros((ROWS, CLASSES))
    row_loss(release, method)(gradient, np.ones(ROWS))
    targets = 1 / CLASSES - gradient
    np.testing.assert_allclose(targets.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(targets, targets_of(release, method), atol=1e-12)


def test_the_gradient_of_the_likelihood_is_the_posterior(release, logits):
    """Fisher's identity: the gradient is the model's probabilities minus the posterior of the true class."""
    gradient = logits.copy()
    row_loss(release, "likelihood")(gradient, np.ones(ROWS))
    chance = softmax(logits)
    np.testing.assert_allclose(gradient, chance - posterior(release, chance), atol=1e-12)


@pytest.mark.parametrize("row", range(CLASSES))
def test_the_unbiased_loss_expects_the_cross_entropy(kind, make_channel, make_release, logits, row):
    """Over all outcomes of a row's law the unbiased loss has the cross entropy of the true class as its mean.

    Where the row has candidates that holds for true classes among them.
    """
    channel = make_channel(kind, CLASSES, ROWS)
    table = channel.table(row)
    outcomes = len(table.outcomes)
    release = make_release(table.outcomes, channel.take(np.full(outcomes, row)))
    gradient = np.tile(logits[row], (outcomes, 1))
    loss = row_loss(release, "unbiased")
    rows = np.array([loss.take(slice(i, i + 1))(gradient[i : i + 1], np.ones(1)) for i in range(outcomes)])
    within = table.outcomes if kind == "candidates" else range(CLASSES)
    chance = softmax(logits[row : row + 1])[0]
    for true in within:
        assert table.matrix[true] @ rows == pytest.approx(-np.log(chance[true]), rel=1e-10)
        np.testing.assert_allclose(table.matrix[true] @ gradient, chance - np.eye(CLASSES)[true], atol=1e-10)


def exact(release, method, logits):
    """The loss of each row in 400 digits."""
    found = []
    with mpmath.workdps(400):
        for i, row in enumerate(logits):
            raised = [mpmath.exp(mpmath.mpf(float(value))) for value in row]
            total = mpmath.fsum(raised)
            if method == "likelihood":
                hit = mpmath.fsum(v * e for v, e in zip(release.likelihood()[i].tolist(), raised, strict=True))
                found.append(float(mpmath.log(total) - mpmath.log(hit)))
            else:
                aimed = zip(targets_of(release, method)[i].tolist(), row.tolist(), strict=True)
                found.append(float(mpmath.log(total) - mpmath.fsum(mpmath.mpf(t) * v for t, v in aimed)))
    return np.array(found)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [40.0, 800.0, 1e5])
def test_extreme_logits_lose_nothing(release, method, size):
    """Logits that overflow when raised give the loss in 400 digits, and finite gradients."""
    rng = np.random.default_rng(4)
    logits = size * rng.choice([-1.0, 0.0, 1.0], size=(ROWS, CLASSES)) + rng.normal(size=(ROWS, CLASSES))
    expected = exact(release, method, logits)
    loss = row_loss(release, method)
    for i in range(ROWS):
        gradient = logits[i : i + 1].copy()
        value = loss.take(slice(i, i + 1))(gradient, np.ones(1))
        assert value == pytest.approx(expected[i], rel=1e-12, abs=1e-11 + 1e-14 * size)
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("method", METHODS)
def test_public_labels_give_the_cross_entropy(method, logits):
    """Every method on labels declared public is plain cross entropy, and its gradient."""
    codes = np.random.default_rng(5).integers(0, CLASSES, ROWS)
    release = Release.public(codes, Classes(range(CLASSES)))
    gradient = logits.copy()
    value = row_loss(release, method)(gradient, np.ones(ROWS))
    assert value == pytest.approx(-np.log(softmax(logits)[np.arange(ROWS), codes]).sum(), rel=1e-12)
    np.testing.assert_allclose(gradient, softmax(logits) - np.eye(CLASSES)[codes], atol=1e-12)


def test_more_than_eight_classes_are_read_from_their_own_bytes(make_channel, randomized):
    """With 19 classes, in three bytes, the packed loss still equals the dense formula."""
    rng = np.random.default_rng(6)
    release = randomized(rng.integers(0, 19, ROWS), make_channel("subset", 19, ROWS), 7)
    logits = rng.normal(size=(ROWS, 19))
    hit = (release.likelihood() * softmax(logits)).sum(axis=1)
    found = row_loss(release, "likelihood")(logits.copy(), np.ones(ROWS))
    assert found == pytest.approx(-np.log(hit).sum(), rel=1e-12)


def paper_targets(q, beta, code):
    """The weights of line 30: a column of the inverse of the label randomization matrix of line 29."""
    matrix = (1 - beta) * np.eye(len(q)) + beta * np.tile(np.array(q)[:, None], (1, len(q)))
    return np.linalg.inv(matrix)[:, code]


@pytest.mark.parametrize("correction", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("law", ["redrawing", "each", "response"])
def test_a_partial_correction_is_the_papers_beta(law, correction, make_release):
    """For beta with beta / (1 - beta) = correction * lambda / (1 - lambda) the targets are those of lines 29 and 30."""
    distributions = np.array([[0.6, 0.2, 0.1, 0.1], [0.25, 0.25, 0.25, 0.25]])
    rows = np.repeat(np.arange(2, dtype=np.int32), CLASSES)
    codes = np.tile(np.arange(CLASSES, dtype=np.int32), 2)
    channel = {
        "redrawing": lambda: ClusterChannel.redrawing(distributions, 0.1, 0.7, rows),
        "each": lambda: ClusterChannel.at(distributions, 1.0, rows),
        "response": lambda: ResponseChannel.at(CLASSES, 1.0),
    }[law]()
    gradient = np.zeros((len(codes), CLASSES))
    row_loss(make_release(codes, channel), "unbiased", correction)(gradient, np.ones(len(codes)))
    for row, code in enumerate(codes.tolist()):
        q = np.full(CLASSES, 0.25) if law == "response" else distributions[rows[row]]
        matrix = channel.matrix(row)
        redrawn = 1 - (matrix[0, 0] - matrix[1, 0])
        odds = correction * redrawn / (1 - redrawn)
        expected = paper_targets(q, odds / (1 + odds), code)
        np.testing.assert_allclose(1 / CLASSES - gradient[row], expected, atol=1e-9)


@pytest.mark.parametrize("correction", [0.0, 0.4])
def test_a_partial_correction_is_a_mixture(release, correction):
    """For every kind of channel the targets are those of the unbiased and of the plain loss, in these shares."""
    found = np.zeros((ROWS, CLASSES))
    row_loss(release, "unbiased", correction)(found, np.ones(ROWS))
    mixed = correction * targets_of(release, "unbiased") + (1 - correction) * targets_of(release, "plain")
    np.testing.assert_allclose(1 / CLASSES - found, mixed, atol=1e-12)


@pytest.mark.parametrize("correction", [-0.1, 1.1, float("nan"), "1"])
@pytest.mark.usefixtures("as_users_call")
def test_a_correction_that_is_no_share_is_refused(release, correction):
    """As is one for a method that does not correct."""
    with pytest.raises(InputError, match="correction from 0 to 1"):
        row_loss(release, "unbiased", correction)
    for method in ("likelihood", "plain"):
        with pytest.raises(InputError, match="only with method='unbiased'"):
            row_loss(release, method, 0.5)
