"""Copies of images that are moved a little, and what heads learn from copies."""

import re

import numpy as np
import pytest
from scipy.special import softmax

from labeldp import Classes, Curator, Release
from labeldp.errors import InputError
from labeldp.learning.images import ImageRows, PatchClassifier, _moved, _patch_classifier, moved_copies
from labeldp.learning.losses import gain

SPACE = Classes(["b", "a"])


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
    monkeypatch.setattr(_moved, "_WITH_COPIES", 60)
    assert [len(moved_copies(np.zeros((n, 2, 2)))) for n in (1, 20, 21, 30, 31, 90)] == [2, 2, 1, 1, 0, 0]
    assert len(moved_copies(np.zeros((90, 2, 2)), 1)) == 1
    with pytest.raises(InputError, match="copies"):
        moved_copies(np.zeros((1, 2, 2)), -1)


def test_copies_that_equal_their_rows_change_nothing_much():
    """Each copy has the label of its own row: heads of rows and of their copies are those of the rows."""
    features = np.random.default_rng(2).normal(size=(600, 6))
    release = Curator(np.where(features[:, 0] > 0, "a", "b"), SPACE).randomize(epsilon=3.0)
    alone, repeated = (
        PatchClassifier((2, 6)).fit_head(ImageRows.of(features, copies=copies), release)
        for copies in ([], [features, features])
    )
    scores = alone._feature_scores(features), repeated._feature_scores(features)
    assert np.corrcoef(scores[0][:, 0], scores[1][:, 0])[0, 1] > 0.98


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
