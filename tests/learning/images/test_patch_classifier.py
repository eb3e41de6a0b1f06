"""The linear model of features of patches: a sum of heads that released labels weigh."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.special import softmax
from sklearn.base import clone

from labeldp import Classes, Curator, Release
from labeldp.errors import InputError
from labeldp.learning.choice import folds_of
from labeldp.learning.heads import SoftmaxFit, SoftmaxProblem
from labeldp.learning.images import (
    ImageRows,
    PatchClassifier,
    _patch_classifier,
    _patch_features,
    likeliest_features,
    moved_copies,
)
from labeldp.learning.losses import gain, row_loss
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn import SoftmaxRegression
from labeldp.privacy import columns_in_order

SPACE = Classes(["b", "a"])


def labelled(count, columns=8, seed=0):
    """Features of which the first says the class, and labels."""
    features = np.random.default_rng(seed).normal(size=(count, columns))
    return features, np.where(features[:, 0] > 0, "a", "b")


def fitted(counts, features, release, groups=None):
    """A classifier of features; images do not matter here."""
    return PatchClassifier(counts).fit_head(ImageRows.of(features), release, groups)


@pytest.fixture
def to_the_end(monkeypatch):
    """Let fits go on to their end, wherever they begin."""
    monkeypatch.setattr(_patch_classifier, "_TOLERANCE", 1e-9)


@pytest.mark.usefixtures("to_the_end")
@pytest.mark.parametrize(("enough", "count"), [(40, 1), (400, 5)])
def test_heads_weigh_as_held_out_labels_are_likely(monkeypatch, enough, count):
    """Of no weights near the chosen ones is the sum of heads likelier: one fifth judges, or each where one says little.

    A fifth of these rows has 46 effective ones. The prior counts too.
    """
    monkeypatch.setattr(_patch_classifier, "_ENOUGH", enough)
    features, labels = labelled(400)
    release = Curator(labels, SPACE).randomize(epsilon=2.0)
    units, rows = Units.of(None, 400), ImageRows.of(features)
    folds = folds_of(units, 5)[:count]
    model, linear = PatchClassifier((8, 1)).fit_head(rows, release), []
    assert list(model.weights_) == [1, 8, "clusters"]
    for columns in (1, 8):
        some = features[:, :columns]
        paths = [_patch_classifier._path(some, release, fit, held, rows.tolerance, units) for fit, held in folds]
        setting = replace(sum((path.gains for path in paths[1:]), paths[0].gains), constant=None).best()
        head, scores = SoftmaxRegression(tol=rows.tolerance), []
        for fit, held in folds:
            proba = head.fit_setting(setting, some[fit], release[fit]).predict_proba(some[held])
            scores.append(np.log(columns_in_order(proba, head.classes_, SPACE.points)))
        linear.append(np.concatenate(scores))
    pulls = _patch_classifier._PULLS
    curved = [list(_patch_classifier._of_clusters(rows, release, fit, pulls)) for fit, _ in folds]
    judged = release[np.concatenate([held for _, held in folds])]

    def likeliest(weights):
        """Log likelihood with the prior of weights, at the best pull."""
        found = []
        for each in zip(*curved, strict=True):
            last = [head.scores(features[held]) for head, (_, held) in zip(each, folds, strict=True)]
            logits = np.tensordot(weights, [*linear, np.concatenate(last)], 1)
            found.append(gain(judged, softmax(logits, axis=1)).sum())
        return max(found) - 2.0 * ((weights - [0.0, 0.0, 1.0]) ** 2).sum()

    chosen = np.array(list(model.weights_.values()))
    around = [np.maximum(chosen + step * axis, 0.0) for step in (-0.05, 0.05) for axis in np.eye(3)]
    others = [each for each in around if (each != chosen).any()]
    assert len(others) > 3
    assert likeliest(chosen) > max(map(likeliest, others))


def test_coefficients_are_the_sum_of_heads():
    """Coefficients are those of two heads by weight; those of components that both have, of both."""
    features, labels = labelled(400)
    rows, release = ImageRows.of(features), Curator(labels, SPACE).randomize(epsilon=0.3)
    model = PatchClassifier((2, 8))
    model._add(rows, release, {2: 4, 8: 4}, np.inf, np.array([0.25, 0.75, 0.0]))
    head = SoftmaxRegression(tol=rows.tolerance)
    few, all_ = (clone(head).fit_setting(4, features[:, :count], release) for count in (2, 8))
    np.testing.assert_allclose(model.coef_[:, 2:], 0.75 * all_.coef_[:, 2:])
    np.testing.assert_allclose(model.coef_[:, :2], 0.25 * few.coef_ + 0.75 * all_.coef_[:, :2])
    np.testing.assert_allclose(model.intercept_, 0.25 * few.intercept_ + 0.75 * all_.intercept_)


def test_labels_that_say_much_choose_and_labels_that_say_little_do_not():
    """One head decides where it is clearly likelier, and that of clusters counts where labels are noise."""
    features, labels = labelled(2_000)
    chosen = fitted((1, 8), features[:, ::-1], Release.public(labels, SPACE))
    assert chosen.weights_[8] > 2 * chosen.weights_[1]  # the last of eight columns says the class
    assert (chosen.predict_features(features[:, ::-1]) == labels).mean() > 0.95
    mixed = fitted((1, 8), features, Curator(labels, SPACE).randomize(epsilon=0.01))
    assert mixed.weights_["clusters"] > 0.7
    assert max(mixed.weights_[1], mixed.weights_[8]) < 0.4


def test_the_head_of_clusters_goes_on_where_labels_say_more():
    """Ten groups lie across a line that labels follow: clusters alone cannot, and their head, alone here, does."""
    random = np.random.default_rng(5)
    features = random.normal(size=(10, 5))[random.integers(0, 10, 2_000)] * 3.0 + random.normal(size=(2_000, 5))
    features -= features.mean(axis=0)
    weights = random.normal(size=5)
    labels = np.where(features @ weights > 0, "a", "b")
    rows, release = ImageRows.of(features), Curator(labels, SPACE).randomize(epsilon=4.0)
    model = PatchClassifier((1,)).fit_head(rows, release)
    assert model.weights_["clusters"] > 2 * model.weights_[1]
    assert (model.predict_features(features) == labels).mean() > 0.99


def test_rows_that_heads_were_fitted_on_do_not_weigh_them():
    """Labels that are noise teach next to nothing; judged by rows of their own fit, heads without a penalty win."""
    features, _ = labelled(600, columns=100)
    labels = np.where(np.random.default_rng(1).random(600) < 0.5, "a", "b")
    model = fitted((100,), features[:300], Release.public(labels[:300], SPACE))
    scores = model._feature_scores(features[300:])[:, np.argsort(SPACE.sorted_codes)]
    assert gain(Release.public(labels[300:], SPACE), softmax(scores, axis=1)).mean() > -0.1


def test_rows_of_one_unit_are_on_one_side():
    """Copies of a row that are one unit do not vouch for each other: what tells rows apart says nothing of others."""
    random = np.random.default_rng(2)
    features = np.repeat(random.normal(size=(60, 100)), 10, axis=0)
    labels = np.repeat(np.where(random.random(60) < 0.5, "a", "b"), 10)
    release = Release.public(labels, SPACE)
    alone, together = (fitted((100,), features, release, groups) for groups in (None, np.repeat(np.arange(60), 10)))
    assert np.abs(together.coef_).sum() < 0.8 * np.abs(alone.coef_).sum()


@pytest.mark.parametrize("mirrored", [False, True])
def test_features_and_clusters_do_not_depend_on_labels(mirrored, monkeypatch):
    """Two releases, of neighbouring labels and of others, leave the same bytes of features, clusters and trees."""
    images = np.random.default_rng(4).integers(0, 256, (60, 3, 9, 9), dtype=np.uint8)
    labels = np.array(["a", "b"] * 30)
    kept, fit_head = [], PatchClassifier.fit_head

    def keep(self, rows, *rest):
        arrays = [rows.features, rows.leaves, self.features_.filters_, self.features_.components_]
        arrays += [rows.kernel.landmarks_, rows.kernel.components_]
        kept.append([each.tobytes() for each in (*arrays, *(tree.merges for tree in rows.trees))])
        return fit_head(self, rows, *rest)

    monkeypatch.setattr(PatchClassifier, "fit_head", keep)
    for flipped in (0, 1, 17):
        others = np.where(np.arange(60) < flipped, "a", labels)
        PatchClassifier((4,), filters=6, mirrored=mirrored).fit(images, Release.public(others, SPACE))
    assert kept[0] == kept[1] == kept[2]


def test_it_says_how_far_it_is():
    """Features of both ways to see images, and each head, then all on all rows, to their end."""
    images, said = np.random.default_rng(4).integers(0, 256, (60, 9, 9), dtype=np.uint8), []
    model = PatchClassifier((1, 4), filters=4, report=lambda *each: said.append(each))
    model.fit(images, Release.public(["a", "b"] * 30, SPACE))
    assert said == [(name, done, of) for name, of in (("features", 3), ("learn", 4)) for done in range(of + 1)]


def test_features_are_compared_on_held_out_rows():
    """A column for each row says nothing of others, and copies of a unit do not vouch for each other."""
    labels = np.where(np.random.default_rng(7).random(300) < 0.5, "a", "b")
    own, signal = np.eye(300), np.c_[labels == "a"] + np.random.default_rng(8).normal(0, 0.5, (300, 1))
    release = Release.public(np.repeat(labels, 3), SPACE)
    both = [np.repeat(each, 3, axis=0) for each in (own, signal)]
    units = np.repeat(np.arange(300), 3)
    assert likeliest_features(both, release, units) == 1
    assert likeliest_features(both[::-1], release, units) == 0
    assert likeliest_features(both[::-1], release) == 1


def test_features_are_left_only_for_clearly_likelier_ones():
    """Of two columns that are alike up to noise the first stays, and copies of rows are no further evidence."""
    random = np.random.default_rng(9)
    labels = random.random(200) < 0.5
    first, second = (labels[:, None] + random.normal(0, 1.0, (200, 1)) for _ in range(2))
    for one, other in ((first, second), (second, first)):
        assert likeliest_features([one, other], Release.public(np.where(labels, "a", "b"), SPACE)) == 0
    copies = [np.repeat(each, 40, axis=0) for each in (first, second)]
    release = Release.public(np.where(np.repeat(labels, 40), "a", "b"), SPACE)
    units = np.repeat(np.arange(200), 40)
    assert [likeliest_features(each, release, units) for each in (copies, copies[::-1])] == [0, 0]


def test_fits_to_many_features_do_not_stop_where_they_begin(monkeypatch):
    """The tolerance is no larger than the sampling error of a gradient, and never more than for few features."""
    monkeypatch.setattr(_patch_classifier, "_TOLERANCE", 2.5e-4)
    leaves = np.zeros((4_000, 1), np.int64)
    many, few = (ImageRows(np.ones((4_000, columns), np.float32), leaves, ()) for columns in (8_000, 10))
    assert many.tolerance == pytest.approx(np.sqrt(8_000) / np.sqrt(4_000 * 8_000))
    assert few.tolerance == pytest.approx(2.5e-4 * np.sqrt(10))


# Copies of images that are moved a little, and what heads learn from copies.


def spots(count, side=40):
    """Images of one bright square each, and the rows and columns of their centres."""
    images = np.zeros((count, 1, side, side))
    places = np.random.default_rng(0).integers(12, side - 12, (count, 2))
    for image, (row, column) in zip(images, places, strict=True):
        image[0, row - 2 : row + 3, column - 2 : column + 3] = 200.0
    return images, places


def centres(images):
    """Mean row and column of the brightness of each image."""
    rows, columns = np.indices(images.shape[2:])
    total = images.sum(axis=(1, 2, 3))
    return np.stack([(images[:, 0] * each).sum(axis=(1, 2)) / total for each in (rows, columns)], axis=1)


def test_copies_are_moved_by_little_and_in_ways_of_their_own():
    """A spot near the middle moves by up to some three pixels of forty, and keeps about its brightness."""
    images, places = spots(200)
    first, second = moved_copies(images, 2)
    for copy in (first, second):
        moves = centres(copy) - places
        assert np.abs(moves).max() < 0.036 * 40 + 0.2 * 8 + 1.0
        assert moves.std(axis=0).min() > 0.5
        np.testing.assert_allclose(copy.sum(axis=(1, 2, 3)), images.sum(axis=(1, 2, 3)), rtol=0.25)
    assert np.abs(centres(first) - centres(second)).mean() > 0.5


def test_copies_have_the_form_of_the_images_and_are_the_same_each_time():
    """Bytes in colour stay bytes, what the edge shows goes on beyond it, and the chance is public and fixed."""
    images = np.full((3, 3, 9, 11), 200, np.uint8)
    (copy,) = moved_copies(images, 1)
    assert copy.dtype == np.uint8
    np.testing.assert_array_equal(copy, images)
    some = np.random.default_rng(1).integers(0, 256, (4, 8, 8)).astype(np.uint8)
    np.testing.assert_array_equal(moved_copies(some, 1), moved_copies(some, 1))


def test_usual_copies_keep_the_work_within_bounds(monkeypatch):
    """Two copies, fewer of many images, and none of more than half of the bound; others on request alone."""
    monkeypatch.setattr(_patch_features, "_WITH_COPIES", 60)
    assert [len(moved_copies(np.zeros((n, 2, 2)))) for n in (1, 20, 21, 30, 31, 90)] == [2, 2, 1, 1, 0, 0]
    assert len(moved_copies(np.zeros((90, 2, 2)), 1)) == 1
    with pytest.raises(InputError, match="copies"):
        moved_copies(np.zeros((1, 2, 2)), -1)


def test_copies_learn_from_the_clusters_of_their_own_rows():
    """The head of clusters is that of the rows alone where copies equal them, before it learns from labels."""
    features = np.random.default_rng(6).normal(size=(600, 6))
    release = Release.public(np.where(features[:, 0] > 0, "a", "b"), SPACE)
    alone, repeated = (
        next(_patch_classifier._of_clusters(rows, release, np.arange(600), (np.inf,))).coefficients
        for rows in (ImageRows.of(features, copies=copies) for copies in ([], [features, features]))
    )
    assert np.abs(alone).max() > 0.5
    np.testing.assert_allclose(repeated, alone, atol=0.1)


def test_copies_of_held_out_rows_do_not_vouch_for_them():
    """Labels that are noise teach next to nothing, though each row has copies that look like it."""
    random = np.random.default_rng(4)
    features, names = random.normal(size=(600, 100)), np.where(random.random(600) < 0.5, "a", "b")
    rows = ImageRows.of(features[:300], copies=[features[:300]] * 3)
    model = PatchClassifier((100,)).fit_head(rows, Release.public(names[:300], SPACE))
    scores = model._feature_scores(features[300:])[:, np.argsort(SPACE.sorted_codes)]
    assert gain(Release.public(names[300:], SPACE), softmax(scores, axis=1)).mean() > -0.01


def test_places_of_rows_and_of_their_copies():
    """The features of the copies of row i stand n, 2 n ... places below its own."""
    rows = ImageRows.of(np.random.default_rng(5).normal(size=(40, 2)), copies=[np.zeros((40, 2))] * 2)
    assert rows.with_copies(np.array([3, 0])).tolist() == [3, 0, 43, 40, 83, 80]


def test_copies_of_other_rows_are_refused():
    """Two halves are no copy: each would have the labels of other rows."""
    features = np.random.default_rng(6).normal(size=(40, 2))
    for copies, found in (([features[:20], features[20:]], "(20, 2)"), ([features[:, :1]], "(40, 1)")):
        message = f"expected copies of the shape of the features, (40, 2), found {found}"
        with pytest.raises(InputError, match=re.escape(message)):
            ImageRows.of(features, copies=copies)


# Softmax problems whose penalties pull towards a fit instead of zero.


@pytest.fixture
def problem():
    """A function of a penalty, the same for coefficients and intercepts: a problem with a centre, and the centre."""
    random = np.random.default_rng(0)
    features, space = random.normal(size=(200, 3)), Classes(["a", "b"])
    release = Curator(np.where(features[:, 0] > 0, "a", "b"), space).randomize(epsilon=1.0)
    centre = SoftmaxFit(random.normal(size=(3, 2)), random.normal(size=2), 0)

    def of(l2):
        loss = row_loss(release, "likelihood")
        return SoftmaxProblem(features, loss, np.ones(200), 2, l2, intercept_l2=l2, centre=centre), centre

    return of


def test_a_strong_penalty_pulls_to_the_centre(problem):
    """A strong one leaves the fit there, coefficients and intercepts; a weak one leaves it where labels say."""
    strong, centre = problem(1e6)
    found = strong.fit(tolerance=1e-9)
    np.testing.assert_allclose(found.coefficients, centre.coefficients, atol=1e-4)
    np.testing.assert_allclose(found.intercepts, centre.intercepts, atol=1e-4)
    weak = problem(1e-3)[0].fit(tolerance=1e-9)
    assert weak.coefficients[0, 0] > weak.coefficients[0, 1]


def test_the_gradient_is_that_of_the_value(problem):
    """By finite differences, at a point that is not the centre."""
    objective = problem(0.1)[0].objective()
    point = np.random.default_rng(1).normal(size=8)
    assert check_grad(lambda at: objective(at)[0], lambda at: objective(at)[1], point) < 1e-5
