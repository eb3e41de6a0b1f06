"""Rows whose features were redrawn: laws by enumeration, the lemma as printed, and fits that find the true law."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labeldp import Classes, Curator, DoubleResponse, Form, Generator, Release, RowRelease, Source
from labeldp.errors import InputError, NotTrueLabelsError, RowsError
from labeldp.learning.losses import SyntheticRows, gain, posterior, row_loss
from labeldp.learning.sklearn import (
    OriginalFeatures,
    ReleasedLabelClassifier,
    ResampledClassifier,
    SoftmaxRegression,
    class_shares,
    original_share,
    synthetic_rows,
    true_accuracy,
)
from labeldp.privacy.channels import ResponseChannel, SubsetChannel

CELLS, CLASSES = 4, 3
REDRAWN = Fraction(3, 10)


def law():
    """P(x, y) and the generator's P(x | y), exactly, of features in four cells and three classes."""
    joint = np.array([[5, 1, 2], [2, 7, 1], [1, 3, 6], [4, 2, 6]], dtype=object) * Fraction(1, 40)
    generator = np.array([[1, 2, 4], [5, 1, 1], [1, 3, 2], [1, 2, 1]], dtype=object) * Fraction(1, 8)
    return joint, generator


def losses():
    """A loss of each cell and class, exactly: any loss of any model."""
    return np.array([[3, 1, 4], [1, 5, 9], [2, 6, 5], [3, 5, 8]], dtype=object) * Fraction(1, 7)


def released_law(joint, generator, noise, redrawn):
    """P(x~, z) after mechanism 2, exactly."""
    even = generator.sum(axis=1) / Fraction(CLASSES)
    return sum(
        joint[x, y] * np.outer((1 - redrawn) * np.eye(CELLS, dtype=int)[x] + redrawn * even, response(y, noise))
        for x, y in product(range(CELLS), range(CLASSES))
    )


def response(y, noise):
    """P(z | y) of randomized response that redraws with a chance."""
    return np.array([(1 - noise) * int(z == y) + noise / CLASSES for z in range(CLASSES)], dtype=object)


def test_the_lemma_as_printed_does_not_hold():
    """With p for both chances the printed identity fails; with the other sign and divided by k it holds."""
    joint, generator = law()
    loss, p, prior = losses(), REDRAWN, joint.sum(axis=0)
    left = released_law(joint, generator, p, p)
    whole, each = (left * loss).sum(), left.sum(axis=1) @ loss @ np.ones(CLASSES, dtype=int)
    first = (whole - p / CLASSES * each) / (1 - p) ** 2
    second = sum(generator[:, i] @ loss @ prior for i in range(CLASSES))
    true = (joint * loss).sum()
    assert first + p / (1 - p) * second != true
    assert first - p / (1 - p) * second != true
    assert first + p / ((1 - p) * CLASSES) * second != true
    assert first - p / ((1 - p) * CLASSES) * second == true


def everything(make_release, channel):
    """All released rows (cell, label) as a release, with the chance of each, and that a cell is a row's own."""
    joint, generator = (np.asarray(each, dtype=np.float64) for each in law())
    cells, codes = (each.ravel() for each in np.meshgrid(range(CELLS), range(CLASSES), indexing="ij"))
    redrawn, even = float(REDRAWN), generator.mean(axis=1)
    kept, drawn = (
        (1 - redrawn) * joint @ channel.matrix(),
        redrawn * np.outer(even, joint.sum(axis=0)) @ channel.matrix(),
    )
    original = (1 - redrawn) * joint.sum(axis=1) / ((1 - redrawn) * joint.sum(axis=1) + redrawn * even)
    release = make_release(codes.astype(np.int32), channel)
    return (
        release,
        cells,
        (kept + drawn)[cells, codes],
        OriginalFeatures(original[cells], joint.sum(axis=0)),
        kept / (kept + drawn),
    )


@pytest.fixture
def rows(make_release):
    """All released rows under randomized response."""
    return everything(make_release, ResponseChannel.at(CLASSES, 1.0))


def cross_entropy(joint, logits):
    """Of true rows, from logits of each cell."""
    return float(-(joint * np.log(softmax(logits))).sum())


def softmax(logits):
    """Probabilities of moderate logits."""
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


@pytest.fixture
def logits():
    """Logits of each cell."""
    return np.random.default_rng(5).normal(size=(CELLS, CLASSES))


def test_what_is_taken_off_leaves_the_loss_of_true_rows(rows, logits):
    """The mean over all released rows and synthetic ones is the cross entropy of true rows to 1e-12."""
    release, cells, chance, original, _ = rows
    joint, generator = (np.asarray(each, dtype=np.float64) for each in law())
    fresh = np.repeat(np.arange(CELLS), np.round(8 * generator.sum(axis=1)).astype(int))  # each class eight times
    taken = SyntheticRows(fresh[:, None], original.prior, float(REDRAWN))
    places, loss, weights = taken.append_to(cells[:, None], row_loss(release, "unbiased"), chance)
    assert loss(logits[places[:, 0]], weights) == pytest.approx(cross_entropy(joint, logits), rel=1e-12)


def test_rows_that_stand_for_a_share_give_the_loss_of_true_rows(rows, logits):
    """With the true chances that features are own, the loss has ``1 - r`` times the mean of that of true rows."""
    release, cells, chance, original, _ = rows
    found = row_loss(release, "unbiased", original=original)(logits[cells], chance)
    joint = np.asarray(law()[0], dtype=np.float64)
    assert found == pytest.approx((1 - float(REDRAWN)) * cross_entropy(joint, logits), rel=1e-12)


def test_the_likelihood_is_that_of_the_mixture(rows):
    """``P(z | x~)`` by enumeration is what the mixed levels give at the true law, up to a factor of the row."""
    release, cells, chance, original, _ = rows
    joint = np.asarray(law()[0], dtype=np.float64)
    true = joint / joint.sum(axis=1, keepdims=True)
    expected = chance / np.bincount(cells, weights=chance)[cells]
    factor = release.likelihood()[:, 0] / release.channel.matrix()[0, release.codes]  # what a likelihood leaves open
    for row in range(len(release)):
        found = row_loss(release, "likelihood", original=original).take(slice(row, row + 1))(
            np.log(true[cells[[row]]]), np.ones(1)
        )
        assert np.exp(-found) == pytest.approx(expected[row] * factor[row], rel=1e-12)
    np.testing.assert_allclose(
        np.exp(gain(release, true[cells], original)),
        len(original.prior) * expected * factor / original.mixed(release.likelihood()).sum(axis=1),
        rtol=1e-12,
    )


def test_the_posterior_is_that_of_whole_rows(rows):
    """The shares of a row are P(true = j and own features | x~, z), by enumeration; they sum to P(own | x~, z)."""
    release, cells, _, original, kept = rows
    joint = np.asarray(law()[0], dtype=np.float64)
    true = joint / joint.sum(axis=1, keepdims=True)
    found = posterior(release, true[cells], original)
    whole = (1 - float(REDRAWN)) * joint[cells] * release.channel.matrix()[:, release.codes].T
    np.testing.assert_allclose(found.sum(axis=1), kept[cells, release.codes], rtol=1e-12)
    np.testing.assert_allclose(
        found / found.sum(axis=1, keepdims=True), whole / whole.sum(axis=1, keepdims=True), rtol=1e-12
    )


def test_a_mixed_loss_is_what_its_formula_says(kind, make_channel, randomized):
    """For every kind of channel the loss and its gradient are those of the dense formulas."""
    count = 24
    codes = np.random.default_rng(0).integers(0, CLASSES, count)
    release = randomized(codes, make_channel(kind, CLASSES, count), 1)
    original = OriginalFeatures(np.random.default_rng(1).random(count), [0.2, 0.3, 0.5])
    logits, weights = np.random.default_rng(2).normal(size=(count, CLASSES)), np.random.default_rng(3).random(count)
    for method in ("likelihood", "unbiased"):
        if method == "likelihood":

            def naive(values):
                return weights @ -np.log((original.mixed(release.likelihood()) * softmax(values)).sum(axis=1))
        else:
            targets = release.unbiased()
            if kind != "candidates":
                targets = targets + (1 - targets.sum(axis=1, keepdims=True)) / CLASSES
            targets = targets - (1 - original.shares)[:, None] * original.prior

            def naive(values, targets=targets):
                return weights @ -(targets * np.log(softmax(values))).sum(axis=1)

        gradient = logits.copy()
        assert row_loss(release, method, original=original)(gradient, weights) == pytest.approx(
            naive(logits), rel=1e-11
        )
        for place in np.ndindex(4, CLASSES):
            step = np.zeros_like(logits)
            step[place] = 1e-5
            assert gradient[place] == pytest.approx((naive(logits + step) - naive(logits - step)) / 2e-5, abs=1e-6)


def test_the_true_law_is_found_where_the_first_term_misses_it(rows):
    """On all rows by their chances, softmax regression over cells finds the true law, and from the first term not."""
    release, cells, chance, original, _ = rows
    joint, generator = (np.asarray(each, dtype=np.float64) for each in law())
    true, table = joint / joint.sum(axis=1, keepdims=True), np.eye(CELLS)
    fresh = np.repeat(np.arange(CELLS), np.round(8 * generator.sum(axis=1)).astype(int))
    taken = SyntheticRows(table[fresh], original.prior, float(REDRAWN))

    def fitted(method, **known):
        model = SoftmaxRegression(method=method, l2=1e-9, tol=1e-8)
        return model.fit(table[cells], release, sample_weight=chance, **known).predict_proba(table)

    for method, known in (
        ("likelihood", {"original": original}),
        ("unbiased", {"original": original}),
        ("unbiased", {"synthetic": taken}),
    ):
        np.testing.assert_allclose(fitted(method, **known), true, atol=1e-3)
    assert np.abs(fitted("unbiased") - true).max() > 0.05
    assert np.abs(fitted("likelihood") - true).max() > 0.05
    trees = ReleasedLabelClassifier(LogisticRegression(C=1e6), folds=1, max_iter=60)
    found = trees.fit(table[cells], release, sample_weight=chance, original=original).predict_proba(table)
    np.testing.assert_allclose(found, true, atol=0.02)


SPACE = Classes(["ham", "jam", "spam"])


def world(count, seed, randomized, apart=1.5):
    """True features, class codes, released features of which 0.4 were redrawn badly, a release, and the generator."""
    rng = np.random.default_rng(seed)
    codes = rng.choice(3, count, p=[0.5, 0.3, 0.2])
    true = rng.normal(size=(count, 2)) + apart * np.array([[1, 0], [0, 1], [-1, -1]])[codes]

    def generator(asked):  # classes in the wrong places
        return rng.normal(size=(len(asked), 2)) + apart * np.array([[0, 1], [-1, -1], [0, 1]])[asked]

    drawn = generator(rng.integers(0, 3, count))
    features = np.where(rng.random(count)[:, None] < 0.4, drawn, true)
    bare = randomized(codes, ResponseChannel.at(3, 2.0), 1000 + seed)  # other words than those above
    return true, codes, features, Release(bare.codes, bare.channel, SPACE, bare.certificate), generator


def test_a_pipeline_prepares_synthetic_rows_too(randomized):
    """Steps before the learner are fitted on released features and change synthetic ones alike, dense or sparse."""
    _, _, features, release, generator = world(600, 2, randomized)
    scaled = make_pipeline(StandardScaler(with_mean=False), SoftmaxRegression(l2=0.01))
    learner = ResampledClassifier(
        scaled, method="unbiased", generator=lambda codes: 10 * generator(codes), synthetic=600
    )
    found = clone(learner).fit(10 * features, release, replaced=0.4)
    assert found.predict_proba(10 * features[:5]).shape == (5, 3)
    sparse = ResampledClassifier(
        SoftmaxRegression(l2=0.01), generator=lambda codes: csr_matrix(generator(codes)), original_share="estimated"
    )
    assert np.isfinite(sparse.fit(csr_matrix(features), release, replaced=0.4).score(csr_matrix(features), release))


def test_the_chance_of_own_features_is_found():
    """Without a difference the estimate is near 1 - r everywhere, with one it is near the quotient of densities."""
    rng = np.random.default_rng(0)
    for apart, close in ((0.0, 0.05), (2.0, 0.1)):
        original = rng.random(4000) < 0.6
        features = rng.normal(size=(4000, 2)) + np.where(original, 0.0, apart)[:, None]
        density = [np.exp(-((features - centre) ** 2).sum(axis=1) / 2) for centre in (0.0, apart)]
        expected = 0.6 * density[0] / (0.6 * density[0] + 0.4 * density[1])
        found = original_share(features, rng.normal(size=(4000, 2)) + apart, 0.4)
        assert np.sqrt(np.mean((found - expected) ** 2)) < close
    assert original_share(features, features, 0.0).tolist() == [1.0] * 4000


def test_accuracy_on_true_rows_is_found_from_mixed_ones(randomized):
    """Over 150 worlds the mean estimate is the accuracy on true rows, and 95 % intervals hold it.

    False alarms: the mean is allowed 6 standard errors, and of 150 intervals at 95 % fewer than 123 hold with a chance
    below 1e-8. The draws are those of a seed all the same.
    """
    rng = np.random.default_rng(3)
    joint, generator = (np.asarray(each, dtype=np.float64) for each in law())
    model = np.array([0, 1, 2, 0])
    true = float(joint[np.arange(CELLS), model].sum())

    def drawn_for(codes):
        return (rng.random((len(codes), 1)) > np.cumsum(generator.T[codes], axis=1)).sum(axis=1)

    values, held, count = [], 0, 400
    for seed in range(150):
        x, codes = np.divmod(rng.choice(CELLS * CLASSES, count, p=joint.ravel()), CLASSES)
        cells = np.where(rng.random(count) < float(REDRAWN), drawn_for(rng.integers(0, CLASSES, count)), x)
        release = randomized(codes, ResponseChannel.at(CLASSES, 1.5), seed)
        drawn = model[drawn_for(np.arange(300) % CLASSES)]
        found = true_accuracy(release, model[cells], drawn, replaced=float(REDRAWN))
        values.append(found.value)
        held += found.low <= true <= found.high
    assert abs(np.mean(values) - true) < 6 * np.std(values) / np.sqrt(150)
    assert held >= 123
    naive = np.mean(values) * (1 - float(REDRAWN))
    assert abs(naive - true) > 6 * np.std(values) / np.sqrt(150)  # the test could fail


def test_shares_of_classes_are_a_distribution(randomized):
    """The estimate is near the truth, and where few rows of much noise leave [0, 1] it is brought back."""
    release = randomized(np.repeat([0, 1, 2], [5000, 3000, 2000]), SubsetChannel.at(3, 1, 1.0), 4)
    assert class_shares(release) == pytest.approx([0.5, 0.3, 0.2], abs=0.06)
    few = class_shares(randomized([0, 0, 0], ResponseChannel.at(3, 0.1), 4))
    assert few.min() >= 0
    assert few.sum() == pytest.approx(1)


def test_a_generator_draws_as_many_of_each_class():
    """The sample is that of the mixture of all classes, whatever number of rows is asked for."""
    seen = []
    synthetic_rows(lambda codes: seen.append(codes) or codes[:, None], 10, 4)
    assert np.bincount(seen[0]).tolist() == [3, 3, 3, 3]
    for generator, rows in ((None, 5), (lambda codes: codes[:1, None], 5), (lambda codes: codes[:, None], 0)):
        with pytest.raises(InputError, match="expected"):
            synthetic_rows(generator, rows, 2)


def test_what_cannot_be_learned_so_is_refused(randomized):
    """Bare labels, an unknown chance, methods that learners lack, and shares that are none are refused in words."""
    _, codes, features, release, _ = world(60, 5, randomized)
    with pytest.raises(NotTrueLabelsError, match="Release"):
        ResampledClassifier().fit(features, np.asarray(SPACE.points)[codes], replaced=0.4)
    with pytest.raises(InputError, match="replaced="):
        ResampledClassifier().fit(features, release)
    for chance in (1.0, -0.1):
        with pytest.raises(InputError, match="below 1"):
            ResampledClassifier().fit(features, release, replaced=chance)
    for settings, words in (
        ({"method": "last"}, "among likelihood"),
        ({"method": "unbiased"}, "generator"),
        ({"original_share": "estimated"}, "generator"),
        ({"original_share": "often"}, "constant"),
        ({"estimator": LogisticRegression(), "method": "weighted"}, "negative"),
    ):
        with pytest.raises(InputError, match=words):
            ResampledClassifier(**settings).fit(features, release, replaced=0.4)
    with pytest.raises(InputError, match="between"):
        OriginalFeatures([0.5, 1.5], [0.5, 0.5])
    with pytest.raises(InputError, match="sums to 1"):
        OriginalFeatures([0.5], [0.5, 0.6])
    with pytest.raises(RowsError, match="60 rows"):
        SoftmaxRegression().fit(features, release, original=OriginalFeatures([0.5], [0.2, 0.3, 0.5]))
    original = OriginalFeatures(np.full(60, 0.6), [0.2, 0.3, 0.5])
    with pytest.raises(InputError, match="plain"):
        SoftmaxRegression(method="plain", l2=0.1).fit(features, release, original=original)
    with pytest.raises(InputError, match="'em'"):
        ReleasedLabelClassifier(method="plain").fit(features, release, original=original)
    with pytest.raises(InputError, match="'unbiased'"):
        SoftmaxRegression().fit(features, release, synthetic=SyntheticRows(features, original.prior, 0.4))
    with pytest.raises(InputError, match="released rows"):
        true_accuracy(release, ["ham"] * 60, [], replaced=0.4)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_rows_that_a_curator_released_are_learned_from(tmp_path):
    """From a folder of released rows, chance and labels are read off; the generator is asked in its own form."""
    public = np.linspace(-4, 4, 801)[:, None].round(2)

    def sampler(codes):
        return np.random.default_rng().normal(2.0, 1.0, (len(codes), 1))

    space = Classes(["no", "yes"])
    generator = Generator(space, Form.of(public), Source("public", "made up"), sampler)
    codes = np.arange(2000) % 2
    features = np.random.default_rng(0).normal(2.0 * codes - 1.0)[:, None]
    curator = Curator(np.array(space.points)[codes], space)
    released = curator.randomize_rows(DoubleResponse(space, 3.0, generator, 0.4), features)
    released.save(tmp_path / "rows")
    loaded = RowRelease.load(tmp_path / "rows")
    for method in ("likelihood", "unbiased"):
        learner = ResampledClassifier(method=method, generator=generator, original_share="estimated", synthetic=2000)
        learner.fit(loaded.array(), loaded)
        assert learner.replaced_ == pytest.approx(0.4)
        assert learner.predict([[-1.5], [1.5]]).tolist() == ["no", "yes"]
    drawn = synthetic_rows(generator, 2000, 2, loaded.array())
    found = true_accuracy(loaded, learner.predict(loaded.array()), learner.predict(drawn))
    assert found.value == pytest.approx(np.mean(learner.predict(features) == np.array(space.points)[codes]), abs=0.15)
