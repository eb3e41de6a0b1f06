"""Features of images that are learned from images alone."""

import itertools

import numpy as np
import pytest

from labeldp.errors import InputError
from labeldp.learning.cells import embed
from labeldp.learning.images import GraphFeatures, PatchFeatures
from labeldp.learning.images import _patch_features as patches


def stripes(rows, seed=0, shape=(14, 12)):
    """Noisy stripes, across for class 1 and upright for class 0, at random places."""
    random = np.random.default_rng(seed)
    classes, shift = random.integers(0, 2, rows), random.integers(0, 6, rows)
    waves = [128 + 100 * np.sin((np.arange(length) + shift[:, None]) * np.pi / 3) for length in shape]
    images = np.where(classes[:, None, None] == 1, waves[0][:, :, None], waves[1][:, None, :])
    return np.clip(images + random.normal(0, 20, images.shape), 0, 255).astype(np.uint8), classes


def tent(place, length, cell, cells):
    """The weight of a place in a cell, up to a factor."""
    where = min(max((place + 0.5) * cells / length - 0.5, 0), cells - 1)
    return max(0.0, 1.0 - abs(where - cell))


def halved(image):
    """An image of half the size, pixel by pixel."""
    height, width = (edge // 2 for edge in image.shape[1:])
    found = np.zeros((len(image), height, width))
    for channel, row, column in np.ndindex(found.shape):
        found[channel, row, column] = image[channel, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2].mean()
    return found


def slowly(features, image, images):
    """The features of one image, scale by scale, place by place and filter by filter."""
    found = []
    for filters, offsets in zip(features.filters_, features.offsets_, strict=True):
        found.append(slow_responses(features, filters, offsets, image, images))
        image = halved(image)
    projected = (np.concatenate(found) - features.mean_) @ features.components_
    return projected / np.linalg.norm(projected)


def slow_responses(features, filters, offsets, image, images):
    """The roots of mean responses in each cell."""
    padded = np.pad(image.astype(float), [(0, 0), (2, 2), (2, 2)])
    size, cells = features.size, features.cells
    height, width = (edge - size + 1 for edge in padded.shape[1:])
    found = np.zeros((cells, cells, 2, len(filters)))
    total = np.zeros((cells, cells))
    for top, left, row, column in itertools.product(range(height), range(width), range(cells), range(cells)):
        weight = tent(top, height, row, cells) * tent(left, width, column, cells)
        patch = padded[:, top : top + size, left : left + size].reshape(-1)
        patch = (patch - patch.mean()) / np.sqrt(patch.var() + (np.ptp(images) / 25.5) ** 2)
        response = filters @ patch - offsets
        total[row, column] += weight
        found[row, column, 0] += weight * np.maximum(response - 0.25, 0)
        found[row, column, 1] += weight * np.maximum(-response - 0.25, 0)
    return np.sqrt(found / total[:, :, None, None]).reshape(-1)


@pytest.mark.parametrize(("channels", "scales"), [(1, 1), (3, 2)])
def test_features_are_what_their_definition_says(channels, scales, monkeypatch):
    """They agree with sums place by place, also where images are taken one at a time; in colour at two scales."""
    images = np.stack([stripes(30, seed)[0] for seed in range(channels)], axis=1)
    features = PatchFeatures(6, filters=5, size=4, cells=3).fit(images[:, 0] if channels == 1 else images)
    assert features.filters_.shape == (scales, 5, channels * 16)
    expected = np.stack([slowly(features, image, images) for image in images[:4]])
    np.testing.assert_allclose(features.transform(images[:4]), expected, rtol=1e-3, atol=1e-3)
    monkeypatch.setattr(patches, "_PRODUCTS_PER_BLOCK", 1)
    monkeypatch.setattr(patches, "_IMAGES_PER_BLOCK", 3)
    np.testing.assert_allclose(features.transform(images[:4]), expected, rtol=1e-3, atol=1e-3)


def test_scales_too_small_for_a_patch_are_left_out():
    """Each scale is half of the one before, down to the size of a patch."""
    images = stripes(30, shape=(17, 13))[0]
    assert len(PatchFeatures(6, filters=5, size=4, cells=3, scales=9).fit(images).filters_) == 2
    with pytest.raises(InputError, match="expected scales"):
        PatchFeatures(scales=0).fit(images)


def test_colours_may_come_last():
    """Images of shape (n, height, width, 3) have the features of the same images with channels first."""
    images = np.stack([stripes(30, seed)[0] for seed in range(3)], axis=1)
    features = PatchFeatures(6, filters=5, cells=3)
    first = features.fit_transform(images)
    np.testing.assert_array_equal(features.fit_transform(np.moveaxis(images, 1, 3)), first)
    assert features.shape_ == (3, 14, 12)


def test_memory_is_bounded(monkeypatch):
    """Responses, which are many times as large as images, are kept of few images at a time."""
    sizes, responses = [], PatchFeatures._responses

    def counted(self, images):
        found = responses(self, images)
        sizes.append(found.size)
        return found

    monkeypatch.setattr(PatchFeatures, "_responses", counted)
    monkeypatch.setattr(patches, "_RESPONSES", 10_000)
    monkeypatch.setattr(patches, "_IMAGES_PER_BLOCK", 7)
    features = PatchFeatures(4, filters=5, cells=2)
    assert features.fit_transform(stripes(400)[0]).shape == (400, 4)
    assert sizes[0] <= 10_000
    assert set(sizes[1:]) <= {7 * 40, 400 % 7 * 40}


def test_components_are_in_order_and_the_same_every_time():
    """Leading components are longest, rows have length one, and the same images give the same features."""
    images, _ = stripes(200)
    features = PatchFeatures(20, filters=16)
    found = features.fit_transform(images)
    assert features.filters_.shape == (1, 16, 36)
    np.testing.assert_allclose((found**2).sum(axis=1), 1.0, rtol=1e-5)
    lengths = (found**2).mean(axis=0)
    assert lengths[:3].min() > 3 * lengths[-3:].max()
    again = PatchFeatures(20, filters=16).fit_transform(images)
    np.testing.assert_array_equal(found, again)
    scaled = PatchFeatures(20, filters=16).fit_transform(images / 255.0)  # pixels of any scale
    assert np.corrcoef((scaled @ scaled.T).ravel(), (found @ found.T).ravel())[0, 1] > 0.99  # clusters of other ties


def test_an_image_and_its_mirror_image_have_the_same_features():
    """Features are means over both: the same for either, and not where images are as they are."""
    images = np.random.default_rng(1).integers(0, 256, (50, 3, 9, 11), dtype=np.uint8)
    for mirrored in (False, True):
        features = PatchFeatures(8, filters=6, mirrored=mirrored).fit(images)
        found, other = (features.transform(each) for each in (images, images[..., ::-1]))
        assert np.allclose(found, other, atol=1e-5) is mirrored


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((4, 8)), "expected images of shape"),
        (np.array([["a"]]), "expected images of shape"),
        (np.zeros((0, 8, 8)), "expected images of shape"),
        (np.full((4, 8, 8), np.nan), "expected finite pixels"),
        (np.zeros((4, 5, 8)), "at least 6 rows and columns"),
        (np.full((4, 8, 8), 7), "parts that are not flat"),
    ],
)
def test_what_is_no_image_is_refused(images, message):
    """Arrays of other shapes or kinds, small and flat images are named."""
    with pytest.raises(InputError, match=message):
        PatchFeatures(2, filters=2).fit(images)


def test_other_images_are_refused():
    """Images to predict have the shape of those in the fit, and settings are whole numbers."""
    images, _ = stripes(20)
    features = PatchFeatures(2, filters=2).fit(images)
    with pytest.raises(InputError, match=r"expected images of shape \(1, 14, 12\), as in fit"):
        features.transform(images[:, :13])
    with pytest.raises(InputError, match="filters"):
        PatchFeatures(2, filters=0).fit(images)


# Features of rows by their place in the graph of neighbours.


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
