"""Features of rows by their nearness to landmarks."""

import numpy as np
import pytest

from labeldp.errors import InputError
from labeldp.learning.images import KernelFeatures
from labeldp.learning.images import _kernel_features as kernels


def rings(count, seed=0):
    """Points on two rings, and which ring each is on."""
    random = np.random.default_rng(seed)
    angle, outer = random.uniform(0, 2 * np.pi, count), random.random(count) < 0.5
    return np.where(outer, 2.0, 1.0)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]), outer


def test_features_are_what_their_definition_says(monkeypatch):
    """They agree with nearness pair by pair, also where rows are taken a few at a time."""
    rows, _ = rings(50)
    found = KernelFeatures(7, landmarks=20, gamma=2.0).fit(rows)
    assert all((landmark == rows.astype(np.float32)).all(axis=1).any() for landmark in found.landmarks_)
    usual = 2.0 / found.gamma_
    squares = [((one - other) ** 2).sum() for one in rows for other in rows]
    assert 0.8 * np.median(squares) < usual < 1.2 * np.median(squares)
    near = [[np.exp(-((row - z) ** 2).sum() * found.gamma_) for z in found.landmarks_] for row in rows[:9]]
    expected = (np.array(near) - found.mean_) @ found.components_
    np.testing.assert_allclose(found.transform(rows[:9]), expected, rtol=1e-3, atol=1e-4)
    monkeypatch.setattr(kernels, "_ROWS_PER_BLOCK", 4)
    np.testing.assert_allclose(found.transform(rows[:9]), expected, rtol=1e-3, atol=1e-4)


def test_components_have_the_lengths_of_a_kernel_that_is_whitened_by_half():
    """Their mean squares are the fourth roots of the variances of nearness, which are squares of the kernel's own."""
    rows, _ = rings(400)
    found = KernelFeatures(5, landmarks=400).fit(rows)
    near = np.exp(-((rows[:, None] - rows) ** 2).sum(axis=2) * found.gamma_)
    roots = np.linalg.eigvalsh(np.cov(near.T))[::-1][:5] ** 0.25
    lengths = (found.transform(rows) ** 2).mean(axis=0)
    np.testing.assert_allclose(lengths / lengths.sum(), roots / roots.sum(), rtol=0.01)
    assert lengths.sum() == pytest.approx(1.0, rel=1e-3)


def test_memory_is_bounded(monkeypatch):
    """Of many rows there are fewer features, and the same rows give the same ones every time."""
    monkeypatch.setattr(kernels, "_ENTRIES", 300)
    rows, _ = rings(100)
    assert KernelFeatures(50, landmarks=20).fit_transform(rows).shape == (100, 3)
    monkeypatch.undo()
    first, again = (KernelFeatures(50, landmarks=20).fit_transform(rows) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert first.shape == (100, 20)


@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros((0, 2)), [["a"]], [[np.nan, 1.0]]], ids=repr)
def test_what_is_no_table_of_numbers_is_refused(wrong):
    """Other shapes and kinds are named."""
    with pytest.raises(InputError, match="expected features of finite numbers of shape"):
        KernelFeatures().fit(wrong)


def test_other_features_are_refused():
    """Rows to predict have as many features as those in the fit; settings are positive."""
    rows, _ = rings(30)
    kernel = KernelFeatures(landmarks=5).fit(rows)
    with pytest.raises(InputError, match="expected 2 features, as in fit, found 1"):
        kernel.transform(rows[:, :1])
    with pytest.raises(InputError, match="gamma"):
        KernelFeatures(gamma=0.0).fit(rows)


def test_rows_that_are_all_alike_have_features_of_no_length():
    """There is nothing to tell apart, and no error."""
    assert not KernelFeatures(landmarks=5).fit_transform(np.ones((30, 2))).any()
