"""Features and released labels by row: forms and sizes."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array

from labeldp.errors import NotTrueLabelsError, RowsError
from labeldp.learning.torch import ChannelLoss, ReleasedRows
from labeldp.privacy.channels import ResponseChannel

ROWS, CLASSES = 30, 4
CHOSEN = np.array([7, 0, 29, 7])


@pytest.fixture(scope="module")
def release(randomized):
    """Released labels of thirty rows."""
    return randomized(np.arange(ROWS) % CLASSES, ResponseChannel.at(CLASSES, 1.0), 3)


def batch(features, release, rows=CHOSEN, **more):
    """Features of some rows, and the arguments of their loss."""
    return ReleasedRows(features, release, ChannelLoss(release), **more)[np.asarray(rows)]


@pytest.fixture(scope="module")
def numbers():
    """Features of thirty rows."""
    return np.random.default_rng(0).normal(size=(ROWS, 5)).round(3)


def test_rows_join_features_and_losses(release, numbers):
    """A batch holds the features and what the released labels of the same rows ask, in the order asked for."""
    features, labels = batch(numbers, release)
    np.testing.assert_array_equal(features.numpy(), numbers[CHOSEN].astype(np.float32))
    np.testing.assert_array_equal(labels["targets"].numpy(), release.targets()[CHOSEN])
    assert set(labels) == {"targets", "weights"}


@pytest.mark.parametrize("form", [np.asarray, torch.tensor, csr_array, pd.DataFrame, np.ndarray.tolist])
def test_features_in_any_form(release, numbers, form):
    """An array, a tensor, a sparse matrix, a frame and a list give the same batch."""
    found, _ = batch(form(numbers), release)
    np.testing.assert_array_equal(found.numpy(), numbers[CHOSEN].astype(np.float32))


def test_numbers_become_what_a_network_takes(release):
    """Bytes become shares of 255, whole numbers indices, truth values and real numbers single precision."""
    whole = np.arange(ROWS)
    given = (whole.astype(np.uint8), whole.astype(np.int16), whole.astype(np.uint16), whole > 3, whole.astype(">f8"))
    found, _ = batch(given, release)
    assert [part.dtype for part in found] == [torch.float32, torch.int64, torch.int64, torch.float32, torch.float32]
    np.testing.assert_allclose(found[0].numpy(), CHOSEN / 255, rtol=1e-6)
    for part, expected in zip(found[1:], (CHOSEN, CHOSEN, CHOSEN > 3, CHOSEN), strict=True):
        np.testing.assert_array_equal(part.numpy(), expected)
    assert batch(whole / 2, release, dtype=torch.float64)[0].dtype == torch.float64


def test_weights_are_scaled_to_a_mean_of_one(release, numbers):
    """So that rates mean the same whatever weights add up to."""
    weights = np.arange(1.0, ROWS + 1)
    labels = batch(numbers, release, np.arange(ROWS), sample_weight=weights)[1]
    np.testing.assert_allclose(labels["weights"].numpy(), weights / weights.mean(), rtol=1e-6)


@pytest.mark.usefixtures("as_users_call")
def test_bare_labels_are_refused():
    """An array of labels is no release."""
    with pytest.raises(NotTrueLabelsError, match="expected a Release as labels, found ndarray"):
        ChannelLoss(np.zeros(ROWS))


@pytest.mark.parametrize("rows", [ROWS - 1, ROWS + 1])
def test_another_number_of_rows_is_refused(release, rows):
    """Both numbers are named; so are those of the parts of a tuple."""
    with pytest.raises(RowsError, match=f"each of {rows} rows of features, found {ROWS}"):
        batch(np.zeros((rows, 2)), release)
    with pytest.raises(ValueError, match="same number of rows"):
        batch((np.zeros((rows, 2)), np.zeros(ROWS)), release)


def test_no_rows_are_refused(release):
    """There is nothing to learn from."""
    with pytest.raises(RowsError, match="at least one row"):
        batch(np.zeros((0, 2)), release[:0])


@pytest.mark.parametrize("features", [np.array(["a"] * ROWS), np.zeros(ROWS, dtype=complex)])
def test_what_is_no_number_is_refused(release, features):
    """Text must be encoded first."""
    with pytest.raises(ValueError, match="features that are numbers"):
        batch(features, release)


def test_a_single_value_is_no_features(release):
    """It has no rows."""
    with pytest.raises(ValueError, match="features with rows"):
        batch(3.0, release)
