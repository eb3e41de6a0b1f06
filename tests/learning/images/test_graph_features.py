"""Features of rows by their place in the graph of neighbours."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

from labeldp import Classes, Curator, LabelMoments
from labeldp.errors import InputError
from labeldp.learning.cells import embed, suggested_eigenvectors
from labeldp.learning.images import GraphFeatures, PatchFeatures
from labeldp.learning.sklearn import MomentClassifier


def digits():
    """Images and labels to fit on, and others."""
    pixels, labels = load_digits(return_X_y=True)
    images, held = pixels.reshape(-1, 8, 8), np.random.default_rng(0).random(len(labels)) < 0.3
    return images[~held], labels[~held], images[held], labels[held]


def test_features_are_places_beside_columns():
    """Rows of length one, half of each: places of the embedding, and leading columns of length one."""
    rows = np.random.default_rng(0).normal(size=(60, 5))
    graph, embedding = GraphFeatures(4, columns=3, neighbours=6), embed(rows, neighbours=6, eigenvectors=4)
    found = graph.fit_transform(rows) * np.sqrt(2)
    np.testing.assert_allclose(found[:, :4], embedding.places, atol=1e-12)
    np.testing.assert_allclose(found[:, 4:] * np.linalg.norm(rows[:, :3], axis=1, keepdims=True), rows[:, :3])
    new = graph.transform(rows[:7] + 0.01) * np.sqrt(2)
    np.testing.assert_allclose(new[:, :4], embedding.transform(rows[:7] + 0.01), atol=1e-12)
    np.testing.assert_allclose((new[:, 4:] ** 2).sum(axis=1), 1.0)
    alone = GraphFeatures(4, columns=0, neighbours=6).fit(rows).transform(rows)
    np.testing.assert_allclose((alone**2).sum(axis=1), 1.0)
    assert alone.shape == (60, 4)


def test_a_row_without_length_stays_finite():
    """Columns of zeros are left as they are."""
    rows = np.random.default_rng(0).normal(size=(40, 3))
    rows[0] = 0.0
    assert np.isfinite(GraphFeatures(3, neighbours=5).fit_transform(rows)).all()


def test_labels_change_nothing():
    """Whatever labels are passed, and in a second run, features are the same bit for bit."""
    rows = np.random.default_rng(0).normal(size=(80, 4))
    first, again = (GraphFeatures(5, neighbours=6).fit_transform(rows, labels) for labels in (np.zeros(80), rows[:, 0]))
    np.testing.assert_array_equal(first, again)


def test_a_curator_needs_a_small_epsilon():
    """Of 1 272 digits moments at epsilon 0.5 name most new ones, and those of pixels with a column of ones far fewer.

    In eight draws they named 94 to 96 % and 10 to 29 %.
    """
    images, labels, new_images, truth = digits()
    space, epsilon, delta = Classes(range(10)), 0.5, 1e-6
    graph = GraphFeatures(suggested_eigenvectors(len(labels), 10, epsilon, delta), columns=0)
    model = make_pipeline(PatchFeatures(filters=64), graph)
    plain = [np.hstack([each.reshape(len(each), -1) / 70, np.ones((len(each), 1))]) for each in (images, new_images)]
    right = []
    for fit, new in ((model.fit_transform(images), model.transform(new_images)), plain):
        answer = Curator(labels, space).answer(LabelMoments(space, epsilon, delta, fit))
        right.append(np.mean(MomentClassifier().fit(fit, answer).predict(new) == truth))
    assert right[0] > 0.8
    assert right[0] > right[1] + 0.1


def test_what_makes_no_graph_is_refused():
    """Other rows, and settings that are no numbers of columns, are named."""
    rows = np.random.default_rng(0).normal(size=(40, 3))
    with pytest.raises(InputError, match="expected columns to be a whole number of at least 0"):
        GraphFeatures(3, columns=-1).fit(rows)
    with pytest.raises(InputError, match=r"expected the 3 features .*, found 2"):
        GraphFeatures(3, neighbours=5).fit(rows).transform(rows[:, :2])
