"""Descent over a release folder, batch by batch, is descent over the parts of the release."""

import numpy as np
import pyarrow as pa
import pytest

import labeldp as dp
from labeldp.errors import InputError
from labeldp.learning.convex import Ball, ConvexClassifier, ConvexRegressor, Unconstrained

ROWS, BATCH = 700, 300
FEATURES = np.random.default_rng(5).normal(size=(ROWS, 2))
CODES = (FEATURES[:, 0] > 0) + 2 * (FEATURES[:, 1] > 0)
CLASSES, NUMBERS = dp.Classes([0, 1, 2, 3]), dp.Interval(0.0, 3.0, 0.25)
CASES = {
    "classes": (ConvexClassifier, dp.RandomizedResponse(CLASSES, 3.0)),
    "sets": (ConvexClassifier, dp.SubsetResponse(CLASSES, 3.0, size=2)),
    "numbers": (ConvexRegressor, dp.PiecewiseResponse(NUMBERS, 3.0)),
}


def array(table):
    """The public columns of a batch."""
    return np.column_stack([table["a"].to_numpy(), table["b"].to_numpy()])


@pytest.mark.parametrize("case", CASES)
def test_a_folder_in_batches_teaches_what_its_parts_do(case, tmp_path):
    """Coefficients are those of the same steps over slices of the loaded release, and better than after a single row.

    The gain is 0.8 to 1.05 with a deviation below 0.03, so that 0.5 raises no false alarm in 1e-9 runs.
    """
    make, randomizer = CASES[case]
    columns = pa.table({"a": FEATURES[:, 0], "b": FEATURES[:, 1]})
    folder = dp.Curator(CODES, randomizer.space).randomize(randomizer).save(tmp_path / "r", columns, keep="all")
    streamed, sliced, release = make(), make(), dp.Release.load(folder)
    for table, labels in dp.release_batches(folder, BATCH):
        streamed.partial_fit(array(table), labels)
    for low in range(0, ROWS, BATCH):
        sliced.partial_fit(FEATURES[low : low + BATCH], release[low : low + BATCH])
    assert streamed.steps_done_ == ROWS
    assert np.array_equal(streamed.coef_, sliced.coef_)
    assert np.array_equal(streamed.intercept_, sliced.intercept_)
    truth = dp.Release.public(CODES, randomizer.space)
    assert streamed.score(FEATURES, truth) > make().partial_fit(FEATURES[:1], release[:1]).score(FEATURES, truth) + 0.5


def test_steps_are_made_for_the_worst_batch_so_far():
    """A batch of more noise makes steps shorter, and one of less noise does not make them longer again."""
    curator = dp.Curator(CODES, CLASSES, budget=20.0)
    clear, noisy = (curator.randomize(dp.RandomizedResponse(CLASSES, epsilon)) for epsilon in (6.0, 0.5))
    model, lengths, moments = ConvexClassifier(region=Ball(2.0)), [], []
    for release in (clear, noisy, clear):
        model.partial_fit(FEATURES, release)
        lengths.append(model._descent.steps.length)
        moments.append(model.moment_)
    alone = ConvexClassifier(region=Ball(2.0)).partial_fit(FEATURES, noisy)
    assert moments == [moments[0], alone.moment_, alone.moment_]
    assert lengths == [lengths[0], alone._descent.steps.length, alone._descent.steps.length]
    assert moments[1] > 10 * moments[0]


def test_a_fit_that_fails_leaves_no_descent_to_go_on_from():
    """After parameters that are no numbers, the next batch goes on from what was fitted before."""
    release = dp.Curator(CODES, CLASSES).randomize(dp.RandomizedResponse(CLASSES, 3.0))
    model, alone = (ConvexClassifier(region=Unconstrained(10.0)).fit(FEATURES, release) for _ in range(2))
    with pytest.raises(InputError, match="expected steps that stay finite"):
        model.set_params(steps=1.0).fit(FEATURES, release)
    for each in (model.set_params(steps="bound"), alone):
        each.partial_fit(FEATURES, release)
    assert np.array_equal(model.coef_, alone.coef_)
