"""Sums over rows from which regression in kernels follows."""

from fractions import Fraction

import numpy as np
import pytest

from labeldp.learning.heads import ExactSum, Grid, Kernels, KernelSums

ROWS = 3_000


@pytest.fixture(scope="module")
def table():
    """Features, targets in two columns, and the weights of rows."""
    chance = np.random.default_rng(0)
    features = chance.normal(size=(ROWS, 4))
    targets = 5.0 * chance.normal(size=(ROWS, 2)) + np.abs(features[:, :2])
    return features, targets, np.ones(ROWS)


def on_a_grid(table, widths=(0.3, 1.0)):
    """The grid for rows like the first thousand."""
    some = [each[:1000] for each in table]
    return Grid.like(Kernels.of(some[0], widths), *some)


def test_a_sum_keeps_what_floats_round_off():
    """Numbers of very different sizes add up to what fractions say, in any order."""
    numbers = np.random.default_rng(1).permutation(np.r_[1e16, -1e16, np.full(1000, 0.1), 3.0, 1e-9])
    exact = float(sum(map(Fraction, numbers.tolist())))
    for order in (numbers, numbers[::-1], np.sort(numbers)):
        total = ExactSum.of(1)
        for number in order:
            total.add(np.array([number]))
        assert float(total.value[0]) == pytest.approx(exact, abs=1e-11)
    assert abs(float(np.cumsum(numbers)[-1]) - exact) > 1e-3  # plain floats lose this


def test_sums_on_a_grid_do_not_depend_on_cuts_and_order(table):
    """Rows in one piece, in pieces, shuffled and merged backwards have sums with the same bits."""
    grid = on_a_grid(table)
    whole = KernelSums.of(grid).add(*table)
    chance = np.random.default_rng(2)
    for pieces in (7, 100):
        order = chance.permutation(ROWS)
        parts = [KernelSums.of(grid).add(*(each[some] for each in table)) for some in np.array_split(order, pieces)]
        again = KernelSums.of(grid, parts[::-1])
        for one, other in zip([*whole.products, whole.squares], [*again.products, again.squares], strict=True):
            assert one.value.tobytes() == other.value.tobytes()


def test_evidence_is_that_of_a_plain_computation(table):
    """Centred moments of features agree with those computed at once in floats, but for the rounding of the grid."""
    grid = on_a_grid(table)
    features, targets, _ = table
    evidence = KernelSums.of(grid).add(*table).evidence(0.5)
    centred = features - features.mean(axis=0)
    offsets = targets - targets.mean(axis=0)
    linear = evidence[0]
    assert linear.rows == 0.5 * ROWS
    np.testing.assert_allclose(linear.gram * linear.scale**2, 0.5 * centred.T @ centred, atol=0.5)
    np.testing.assert_allclose(linear.moments * linear.scale, 0.5 * centred.T @ offsets, atol=0.5)
    for each in evidence:
        np.testing.assert_allclose(each.mean, targets.mean(axis=0), atol=1e-4)
        np.testing.assert_allclose(each.squares, 0.5 * (offsets**2).sum(axis=0), rtol=1e-4)


@pytest.mark.parametrize(("best", "widths"), [(np.inf, [3.0, 1.0]), (3.0, [3.0, 1.0]), (0.3, [0.3, 0.1]), (0.1, [0.1])])
def test_more_rows_may_favour_the_best_kernel_or_the_next_narrower(table, best, widths):
    """Sums over many rows are of these and the linear kernel, with the steps and the products that these had."""
    grid = on_a_grid(table, (0.1, 0.3, 1.0, 3.0))
    size = grid.kernels.each[3].width  # that of width 1
    places = grid.kernels.likely(best * size)
    found = KernelSums.of(grid.only(places)).add(*table)
    assert [each.width for each in found.grid.kernels.each] == pytest.approx(
        [np.inf, *(size * each for each in widths)]
    )
    every = KernelSums.of(grid).add(*table)
    for place, products in zip(places, found.products, strict=True):
        assert products.value.tobytes() == every.products[place].value.tobytes()
