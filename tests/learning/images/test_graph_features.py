"""Features of rows by their place in the graph of neighbours."""

import numpy as np
import pytest

from labeldp.errors import InputError
from labeldp.learning.cells import embed
from labeldp.learning.images import GraphFeatures


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


def test_what_makes_no_graph_is_refused():
    """Other rows, and settings that are no numbers of columns, are named."""
    rows = np.random.default_rng(0).normal(size=(40, 3))
    with pytest.raises(InputError, match="expected columns to be a whole number of at least 0"):
        GraphFeatures(3, columns=-1).fit(rows)
    with pytest.raises(InputError, match=r"expected the 3 features .*, found 2"):
        GraphFeatures(3, neighbours=5).fit(rows).transform(rows[:, :2])
