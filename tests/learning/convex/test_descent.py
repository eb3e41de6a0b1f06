"""Descent: the compiled loop, the plain one, and one written out here; steps as printed; and where descent leads."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from labeldp.errors import InputError
from labeldp.learning.convex import Ball, Unconstrained
from labeldp.learning.convex._descent import Descent, DescentRows, Setting, Steps, steps_of
from labeldp.learning.convex._losses import LOSSES

ROWS, COLUMNS, CLASSES = 150, 7, 4
POINTS = np.linspace(-1.0, 1.0, CLASSES)
REGIONS = {
    "ball": Ball(0.7),
    "tiny ball": Ball(1e-5),
    "penalty": Unconstrained(0.05),
    "light penalty": Unconstrained(1e-6),
}
STEPS = {
    "constant": Steps(0.05),
    "falling": Steps(0.3, decay=0.5),
    "adaptive": Steps(0.0, pace=0.5),
    "growing weights": Steps(2.0 / 0.05, decay=1.0, shift=1.0, growing=True),
}


class Plain(Descent):
    """Descent without the compiler."""

    def run(self, rows, part, weights):
        """One step for each row."""
        for number, vector in zip(part.tolist(), weights, strict=True):
            row = rows.row(number)
            self.move(row, vector @ self.loss.gradients(row @ self.core, self.points))


def written_out(loss, region, rows, weights, steps):
    """The mean of the points before each step, and the last point, as in the textbook."""
    point = np.zeros((rows.shape[1], CLASSES if loss.of_classes else 1))
    total, shares, squares = np.zeros_like(point), 0.0, 0.0
    for t, (x, w) in enumerate(zip(rows, weights, strict=True), 1):
        share = t if steps.growing else 1
        total, shares = total + share * point, shares + share
        move = np.outer(x, w @ loss.gradients(x @ point, POINTS))
        squares += (move**2).sum()
        rate = steps.pace / math.sqrt(squares) if steps.pace else steps.length / (t + steps.shift) ** steps.decay
        point = region.project(point - rate * (move + region.l2 * point))
    return total / shares, point


def agree(descent, expected):
    """The mean and the last point are those expected, up to rounding."""
    size = max(np.abs(point).max() for point in expected)
    for found, point in zip((descent.mean, descent.last), expected, strict=True):
        np.testing.assert_allclose(found, point, rtol=0, atol=1e-9 * size)


@pytest.mark.parametrize(("where", "name"), [(where, name) for where in REGIONS for name in LOSSES])
def test_all_loops_are_the_one_written_out(where, name):
    """Compiled, on sparse rows in parts and on dense ones at once, and plain, whatever the steps are."""
    loss, region, rng = LOSSES[name], REGIONS[where], np.random.default_rng(1)
    features = rng.normal(size=(ROWS, COLUMNS)) * (rng.random((ROWS, COLUMNS)) < 0.4)
    weights, part = rng.normal(size=(ROWS, CLASSES)), rng.integers(0, ROWS, ROWS)
    for steps in (
        STEPS.values() if where == "penalty" else [STEPS[each] for each in ("constant", "falling", "adaptive")]
    ):
        for end in (0.7, 0.0):
            full = np.column_stack([features, np.full(ROWS, end)]) if end else features
            expected = written_out(loss, region, full[part], weights, steps)
            sparse, dense, plain = (
                kind(loss, region, full.shape[1], POINTS, steps) for kind in (Descent, Descent, Plain)
            )
            for low, high in ((0, 1), (1, 70), (70, ROWS)):
                sparse.run(DescentRows.of(csr_array(features), end), part[low:high], weights[low:high])
            dense.run(DescentRows.of(features, end), part, weights)
            plain.run(DescentRows.of(csr_array(features), end), part, weights)
            assert sparse.done == dense.done == plain.done == ROWS
            for descent in (sparse, dense, plain):
                agree(descent, expected)


def test_a_descent_goes_on_without_the_compiler():
    """Steps of both kinds may follow each other: the parameters are kept in one form."""
    loss, region, rng = LOSSES["softmax"], Unconstrained(0.05), np.random.default_rng(2)
    features, weights = rng.normal(size=(90, 3)), rng.normal(size=(90, CLASSES))
    steps, order = STEPS["growing weights"], np.arange(90)
    descent = Descent(loss, region, 3, POINTS, steps)
    descent.run(DescentRows.of(features, 0.0), order[:30], weights[:30])
    for x, w in zip(features[30:60], weights[30:60], strict=True):
        descent.move(x, w @ loss.gradients(x @ descent.last, POINTS))
    descent.run(DescentRows.of(features, 0.0), order[60:], weights[60:])
    assert descent.done == 90
    agree(descent, written_out(loss, region, features, weights, steps))


def test_before_the_first_step_the_mean_is_the_start():
    """And after it the mean is still the start, since the first gradient was taken there."""
    descent = Descent(LOSSES["softmax"], Ball(9.0), 2, POINTS, Steps(1.0))
    start = np.zeros((2, CLASSES))
    np.testing.assert_array_equal(descent.mean, start)
    descent.run(DescentRows.of(np.ones((1, 2)), 0.0), np.array([0]), np.eye(CLASSES)[:1])
    np.testing.assert_allclose(descent.mean, start)
    assert np.abs(descent.last - start).max() > 0.1


def setting(**changed):
    """What steps may depend on."""
    known = {
        "reach": 2.0,
        "lipschitz": 1.5,
        "moment": 30.0,
        "labels": 10,
        "epsilon": 1.2,
        "interactive": False,
        "l2": 0.0,
    }
    return Setting(**{**known, "rows": 500, **changed})


TIMES = np.arange(1.0, 501.0)
E = math.exp(1.2)
PRINTED = {
    "Bubeck": ("bound", {}, np.full(500, 2.0 / math.sqrt(30.0 * 500))),
    "Zinkevich": ("bound", {"rows": None}, math.sqrt(2.0) * 2.0 / np.sqrt(30.0 * TIMES)),
    "Lacoste-Julien": ("bound", {"l2": 0.1, "reach": math.inf}, 2.0 / (0.1 * (TIMES + 1))),
    "Chua, line 7": ("chua", {}, np.full(500, 4.0 / 1.5 * math.sqrt((E - 1) ** 2 / (2 * 500 * (10 + E) * E)))),
    "Ghazi, theorem 9": ("ghazi", {}, 4.0 * 1.2 / (6 * 10 * 1.5 * np.sqrt(TIMES))),
    "Ghazi, proposition 11": ("ghazi", {"interactive": True}, 4.0 / np.sqrt(30.0 * TIMES)),
    "a number": (0.25, {}, np.full(500, 0.25)),
}


@pytest.mark.parametrize("name", PRINTED)
def test_steps_are_those_printed(name):
    """With R = 2, so that the papers' diameter is 4, L = 1.5, G^2 = 30, K = 10, epsilon = 1.2 and n = 500."""
    steps, changed, expected = PRINTED[name]
    found = steps_of(steps, setting(**changed))
    np.testing.assert_allclose(found.rate(TIMES), expected, rtol=1e-12)
    assert found.pace == 0.0
    assert found.growing == (name == "Lacoste-Julien")


def test_adaptive_steps_follow_from_the_moves_alone():
    """Their pace is ``sqrt(2) R``; with a penalty and no region they are those of the bound."""
    assert steps_of("adaptive", setting(moment=1e9)) == Steps(0.0, pace=math.sqrt(2.0) * 2.0)
    everywhere = setting(l2=0.1, reach=math.inf)
    assert steps_of("adaptive", everywhere) == steps_of("bound", everywhere)


@pytest.mark.parametrize("name", ["chua", "ghazi"])
@pytest.mark.parametrize(
    "changed", [{"epsilon": math.inf}, {"reach": math.inf, "l2": 1.0}], ids=["public", "unbounded"]
)
def test_steps_of_papers_are_for_private_labels_in_a_bounded_region(name, changed):
    """Elsewhere their formulas say nothing."""
    with pytest.raises(InputError, match="private labels and a bounded region"):
        steps_of(name, setting(**changed))


@pytest.mark.parametrize("steps", ["fast", 0, -1.0, math.inf, math.nan, True, None])
def test_steps_that_are_none_are_refused(steps):
    """A length is a finite number above 0, and names are known ones."""
    with pytest.raises(InputError, match="steps among bound, adaptive, chua, ghazi, or a length above 0"):
        steps_of(steps, setting())


def test_the_steps_of_chua_need_all_rows():
    """Their length depends on n, which a stream does not know."""
    with pytest.raises(InputError, match="all rows at once"):
        steps_of("chua", setting(rows=None))


def test_least_squares_are_reached_within_the_bound():
    """On drawn rows of a known quadratic every kind of steps ends within its own bound of the least value there is.

    The rows are of a seed. Bounds are of means over rows; the mean of squares is taken over the quadratic itself.
    """
    rng, reach, n = np.random.default_rng(4), 1.5, 4000
    features = rng.uniform(-1, 1, size=(50, 3))
    labels = np.clip(features @ [0.5, -0.3, 0.1] + 0.1 * rng.normal(size=50), -1, 1)
    best, *_ = np.linalg.lstsq(features, labels, rcond=None)
    assert np.linalg.norm(best) < reach
    part, high = rng.integers(0, 50, n), (1 + labels) / 2
    longest = math.sqrt((features**2).sum(axis=1).max())
    moment = (longest * (reach * longest + 1)) ** 2
    known = setting(reach=reach, moment=moment, epsilon=math.inf, rows=n)
    for steps, factor in (
        (steps_of("bound", known), 1.0),
        (steps_of("bound", setting(reach=reach, moment=moment, rows=None)), 2 * math.sqrt(2.0)),
        (steps_of("adaptive", known), 2 * math.sqrt(2.0)),
    ):
        descent = Descent(LOSSES["squared"], Ball(reach), 3, np.array([-1.0, 1.0]), steps)
        descent.run(DescentRows.of(features, 0.0), part, np.column_stack([1 - high, high])[part])
        excess = np.mean((features @ descent.mean[:, 0] - labels) ** 2 - (features @ best - labels) ** 2) / 2
        bound = factor * reach * math.sqrt(moment / n)
        assert 0 <= excess <= bound
        assert excess < 0.01
