"""Lower bounds on the disclosure of columns and released labels: never above the truth, near it, with coverage."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from labeldp import Classes, Curator, RandomizedResponse, Release, SubsetResponse
from labeldp._confidence_intervals import clopper_pearson_lower
from labeldp.audit import bound_exposure
from labeldp.audit.attacks import Bracket, Exposure
from labeldp.audit.attacks._exposure import _share_bounds as share_bounds
from labeldp.audit.attacks._instance_loss import InstanceLoss
from labeldp.errors import InputError
from labeldp.learning.cells import _held_out, held_out_cells

SPACE = Classes(["no", "yes"])


def exposure_of(sizes, lower, upper, flip, share):
    """The bounds for given intervals of cells."""
    return Exposure(
        classes=("no", "yes"),
        flips=np.full(len(sizes), flip),
        sizes=np.asarray(sizes),
        lower=np.asarray(lower, dtype=float),
        upper=np.asarray(upper, dtype=float),
        share=share,
        confidence=0.99,
        assumptions=(),
        public=False,
        epsilon=InstanceLoss(flip, 0.5).epsilon,
    )


def random_law(random):
    """Cells of rows with chances of their own, intervals that hold the cells' shares, and a flip probability."""
    cells = int(random.integers(1, 7))
    sizes = random.integers(1, 40, size=cells)
    spread = random.choice([0.05, 0.5, 1.0, 20.0])
    centres = random.beta(0.7, 0.7, size=cells)
    chances = [
        np.clip(random.beta(spread * centre + 1e-3, spread * (1 - centre) + 1e-3, size=size), 1e-6, 1 - 1e-6)
        for size, centre in zip(sizes, centres, strict=True)
    ]
    shares = np.array([each.mean() for each in chances])
    width = random.choice([0.0, 0.02, 0.2, 1.0])
    lower = np.maximum(0.0, shares - width * random.random(cells))
    upper = np.minimum(1.0, shares + width * random.random(cells))
    every = np.concatenate(chances)
    total = every.mean()
    share = Bracket(max(0.0, total - 0.3 * width), total, min(1.0, total + 0.3 * width))
    return exposure_of(sizes, lower, upper, float(random.choice([0.01, 0.2, 0.5])), share), every


@pytest.mark.parametrize("laws", [200, pytest.param(500, marks=pytest.mark.slow)])
def test_bounds_are_never_above_the_truth(laws):
    """On random finite laws, every bound is at most the truth of the rows' own chances, and within 10 % of it once."""
    random = np.random.default_rng(laws)
    ratios = {"average": 0.0, "beyond": 0.0, "known": 0.0, "divergence": 0.0}
    for _ in range(laws):
        exposure, chances = random_law(random)
        loss = InstanceLoss(float(exposure.flips[0]), float(chances.mean()))
        losses = loss.average(chances)
        taus = random.choice([loss.least[1] - 0.1, loss.of_label, loss.epsilon, np.median(losses), 4.0], 2).tolist()
        alpha = float(random.choice([1.1, 2.0, 8.0]))
        pairs = [
            ("average", exposure.average, losses.mean()),
            ("divergence", exposure.divergence(alpha), max(loss.divergence(chances, alpha))),
            *(("beyond", exposure.beyond(tau), (losses >= tau - 1e-9).mean()) for tau in taus),
            *(("known", exposure.known(c), (np.maximum(chances, 1 - chances) >= c).mean()) for c in (0.6, 0.95)),
        ]
        for name, found, truth in pairs:
            assert found <= truth + 1e-9, name
            if truth > 0.01 and len(np.unique(chances.round(3))) > 1:
                ratios[name] = max(ratios[name], found / truth)
    assert min(ratios.values()) > 0.9, ratios


def test_bounds_are_the_truth_where_cells_are_all_there_is():
    """With known shares, and rows of a cell alike, the mean and the divergences are those of the law, to 2 %."""
    sizes, shares = np.array([300, 500, 200]), np.array([0.02, 0.4, 0.97])
    total = float(sizes @ shares / 1000)
    exposure = exposure_of(sizes, shares, shares, 0.1, Bracket(total, total, total))
    chances, loss = np.repeat(shares, sizes), InstanceLoss(0.1, total)
    assert exposure.average == pytest.approx(loss.average(chances).mean(), rel=1e-8)
    for alpha in (1.5, 2.0, 8.0):
        truth = max(loss.divergence(chances, alpha))
        assert 0.98 * truth <= exposure.divergence(alpha) <= truth
    assert exposure.rows == 1000


def test_the_least_revealing_law_is_the_least():
    """No shares within the intervals have a smaller mean loss than the bound: a grid of all laws of three cells."""
    weights, lower, upper = np.array([2, 3, 5]), np.array([0.1, 0.3, 0.5]), np.array([0.35, 0.6, 0.95])
    exposure = exposure_of(weights, lower, upper, 0.2, Bracket(0.0, 0.5, 1.0))
    least = math.inf
    for shares in itertools.product(*(np.linspace(a, b, 26) for a, b in zip(lower, upper, strict=True))):
        loss = InstanceLoss(0.2, float(weights @ np.array(shares) / 10))
        least = min(least, float(weights @ loss.average(np.array(shares))) / 10)
    assert least - 1e-3 <= exposure.average <= least + 1e-12


def test_the_divergence_is_the_least_of_a_family():
    """Between the points of its grid, too, the bound is at most the divergence of each least revealing law."""
    weights, lower, upper = np.array([2, 3, 5]), np.array([0.1, 0.3, 0.5]), np.array([0.35, 0.6, 0.95])
    exposure, laws = exposure_of(weights, lower, upper, 0.5, Bracket(0.0, 0.5, 1.0)), []
    for t in np.linspace(0.1, 0.95, 3000):
        shares = np.repeat(np.clip(t, lower, upper), weights)
        laws.append(InstanceLoss(0.5, float(shares.mean())).divergence(shares, 4.0))
    least = max(np.min(laws, axis=0))
    assert 0.9 * least < exposure.divergence(4.0) <= least


def test_rows_beyond_a_loss_are_counted_at_the_worst_total():
    """Markov's bound is met by rows just below the chance that the largest total share asks for, and by sure ones."""
    share = 0.6
    loss = InstanceLoss(0.2, share)
    tau = float(loss.average(0.9))
    chances = np.repeat([0.9 - 1e-7, 1 - 1e-12, 0.5125], [5, 5, 40])
    shares = np.array([chances[:10].mean(), 0.5125])
    assert chances.mean() == pytest.approx(share)
    exposure = exposure_of([10, 40], [shares[0], 0.1], shares, 0.2, Bracket(0.3, share, share))
    assert (loss.average(chances) >= tau).mean() == 0.1
    assert 0.099 < exposure.beyond(tau) <= 0.1


def test_the_divergence_is_the_integral_of_its_definition():
    """Theorem 6.2's form is D_alpha of the two laws by enumeration in 40 digits; corollary 6.3 follows from it."""
    random = np.random.default_rng(5)
    for alpha in (1.001, 2.0, 7.5):
        chances, flip = random.uniform(0.02, 0.98, 6), 0.15
        share = float(chances.mean())
        loss = InstanceLoss(flip, share)
        with mpmath.workdps(40):
            joint = (
                np.array(
                    [
                        [
                            [(chance if y else 1 - chance) * (1 - flip if y == z else flip) for z in range(2)]
                            for chance in map(mpmath.mpf, chances.tolist())
                        ]
                        for y in range(2)
                    ]
                )
                / 6
            )
            laws = [joint[0].ravel() / (1 - share), joint[1].ravel() / share]
            sums = [(laws[y] ** alpha * laws[1 - y] ** (1 - alpha)).sum() for y in range(2)]
            truth = [mpmath.log(each) / (alpha - 1) for each in sums]
        found = loss.divergence(chances, alpha)
        assert found == pytest.approx([float(each) for each in truth], rel=1e-8)
        assert (1 - share) * found[0] + share * found[1] >= loss.average(chances).mean() - 1e-9
    assert InstanceLoss(0.1, 0.5).divergence([0.0, 1.0], 2.0) == (math.inf, math.inf)
    with pytest.raises(InputError, match="mean of p_plus"):
        InstanceLoss(0.1, 0.4).divergence([0.5, 0.5], 2.0)


def test_each_cell_has_its_part_of_the_error():
    """A cell's interval is Clopper and Pearson's at 0.9 d / (2 count), whatever number of cells has rows."""
    labels = ["yes"] * 30 + ["no"] * 70
    exposure = bound_exposure([7] * 100, Release.public(labels, SPACE), count=400, flip=0.1, confidence=0.99)
    assert exposure.lower[0] == pytest.approx(float(clopper_pearson_lower(30, 100, 0.01 * 0.9 / 800)))
    assert exposure.upper[0] == pytest.approx(1 - float(clopper_pearson_lower(70, 100, 0.01 * 0.9 / 800)))
    assert exposure.share.lower == pytest.approx(float(clopper_pearson_lower(30, 100, 0.01 * 0.1 / 2)))


def test_released_labels_are_turned_back():
    """Bounds from released labels hold the share of the true ones, which the released share is far from."""
    labels = np.repeat(["no", "yes"], [9500, 500])
    release = Curator(labels, SPACE).randomize(RandomizedResponse(SPACE, 1.0))
    exposure = bound_exposure(np.zeros(10_000, dtype=int), release, confidence=1 - 1e-9)
    assert exposure.lower[0] <= 0.05 <= exposure.upper[0] < 0.2
    assert exposure.share.lower <= 0.05 <= exposure.share.upper
    assert exposure.assumptions == ("labels were drawn as the certificate says",)
    assert exposure.epsilon == 1.0  # certified, and not a little more, as computed from flips


@pytest.mark.parametrize("kind", ["released", "public"])
def test_all_intervals_hold_as_often_as_they_say(kind):
    """Over 200 runs at confidence 0.8 all cells and the total are missed on both sides, and at most as often as said.

    More than 58 misses have a probability below 0.1 % at a rate of 0.2; with three cells, fewer than 4 would show
    intervals that are far too wide. The shares are those of the table for released labels, and of the law for public.
    """
    random = np.random.default_rng(1)
    cells, chances = np.repeat([0, 1, 2], [200, 300, 500]), np.repeat([0.1, 0.5, 0.8], [200, 300, 500])
    sides = np.zeros(2, dtype=int)
    missed = 0
    for _ in range(200):
        labels = random.random(1000) < chances
        if kind == "public":
            release, truth = Release.public(np.where(labels, "yes", "no"), SPACE), np.array([0.1, 0.5, 0.8])
        else:
            release = Curator(np.where(labels, "yes", "no"), SPACE).randomize(RandomizedResponse(SPACE, 2.0))
            truth = np.bincount(cells, weights=labels) / np.bincount(cells)
        found = bound_exposure(cells, release, flip=0.1, confidence=0.8)
        total = float(np.bincount(cells) @ truth / 1000)
        below = bool((found.lower > truth).any()) or found.share.lower > total
        above = bool((found.upper < truth).any()) or found.share.upper < total
        sides += (below, above)
        missed += below or above
    assert binom.sf(58, 200, 0.2) < 1e-3
    assert missed <= 58
    assert missed >= 4
    assert (sides > 0).all()


def test_rows_that_depend_on_each_other_are_bounded():
    """Released labels bound the table's own shares where all labels of a cell are copies of one: only coins vary."""
    random = np.random.default_rng(2)
    missed = 0
    for _ in range(100):
        labels = np.repeat(random.random(4) < 0.5, 250)
        release = Curator(np.where(labels, "yes", "no"), SPACE).randomize(RandomizedResponse(SPACE, 1.0))
        found = bound_exposure(np.repeat(np.arange(4), 250), release, confidence=0.9)
        truth = labels[::250].astype(float)
        missed += bool(((found.lower > truth) | (found.upper < truth)).any())
    assert binom.sf(20, 100, 0.1) < 1e-3
    assert missed <= 20


def test_rows_of_units_have_their_own_flips():
    """Labels of a unit of several rows have another flip: bounds hold the share of each, and the mean over all rows."""
    units = np.concatenate([np.arange(20_000), np.repeat(np.arange(20_000, 25_000), 4)])
    labels = np.where(np.arange(40_000) % 10 < 3, "yes", "no")
    release = Curator(labels, SPACE, units=units).randomize(RandomizedResponse(SPACE, 4.0))
    exposure = bound_exposure(np.zeros(40_000, dtype=int), release)
    assert sorted(np.log(1 / exposure.flips - 1)) == pytest.approx([1.0, 4.0], abs=1e-6)
    assert ((exposure.lower < 0.3) & (exposure.upper > 0.3) & (exposure.upper - exposure.lower < 0.1)).all()
    assert exposure.share.lower < 0.3 < exposure.share.upper < 0.35
    each = [InstanceLoss(flip, 0.5).of_label for flip in exposure.flips.tolist()]
    assert exposure.average >= exposure.of_label == pytest.approx(np.mean(each))
    cells = held_out_cells(np.arange(40_000.0)[:, None] % 10, release)
    seen = bound_exposure(cells.numbers, release, count=cells.count)
    assert seen.average > exposure.of_label + 1
    assert 0 < seen.beyond() <= 1
    assert seen.beyond(0.0) == pytest.approx(1.0)


def test_an_interval_outside_of_all_shares_says_nothing():
    """Released labels rarer than any share of true ones makes them refute the interval: it becomes all of 0 to 1."""
    for second in (np.zeros(400), np.ones(400)):
        found = share_bounds(second, np.zeros(400, dtype=np.int64), np.array([[0.525, 0.475]]), 0.01)
        assert [each[0] for each in found] == [400, 0.0, 1.0]


def test_cells_come_from_other_rows(monkeypatch):
    """Each half of the rows gets its cells from a tree of the other half, and every row gets a cell."""
    seen, fitted = [], _held_out._leaves

    def watched(points, targets, weights, others, most):
        seen.append((set(points[:, 0]), set(others[:, 0])))
        return fitted(points, targets, weights, others, most)

    monkeypatch.setattr(_held_out, "_leaves", watched)
    numbers = np.arange(2001.0)[:, None]
    found = held_out_cells(numbers, Release.public(np.where(numbers[:, 0] > 700, "yes", "no"), SPACE), leaves=4)
    cells = found.numbers
    assert len(seen) == 2
    for fitted_on, given in seen:
        assert not fitted_on & given
        assert len(fitted_on | given) == 2001
    assert found.count == 8
    assert (cells >= 0).all()
    assert (cells < 8).all()
    assert len(np.unique(cells)) >= 4


def test_features_that_reveal_the_label_are_seen():
    """Cells from released labels of other rows show much of what features reveal, and groups of rows do."""
    random = np.random.default_rng(4)
    numbers = random.random((20_000, 2))
    labels = np.where(random.random(20_000) < np.where(numbers[:, 0] > 0.5, 0.98, 0.02), "yes", "no")
    release = Curator(labels, SPACE).randomize(RandomizedResponse(SPACE, 1.0))
    cells = held_out_cells(numbers, release)
    exposure = bound_exposure(cells.numbers, release, count=cells.count)
    truth = InstanceLoss(float(exposure.flips[0]), 0.5).average(0.98)
    assert cells.count == 2 * 5  # 20 000 rows, each worth 0.21 rows of true labels
    assert 0.5 * truth < exposure.average < truth
    assert exposure.beyond(exposure.epsilon) > 0.5
    assert exposure.known(0.8) > 0.3


def test_missing_numbers_have_cells():
    """A row whose number is missing has a cell all the same."""
    numbers = np.where(np.arange(600) % 3 == 0, np.nan, np.arange(600.0))[:, None]
    release = Release.public(np.where(np.arange(600) % 2, "yes", "no"), SPACE)
    assert held_out_cells(numbers, release, leaves=4).numbers.shape == (600,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cells": [0, 1]}, "a cell for each of 4 rows"),
        ({"cells": [0.5] * 4}, "a whole number from 0"),
        ({"cells": [0, 1, 2, -1]}, "a number below 0"),
        ({"count": 2}, "expected cells below count, 2, found 3"),
        ({"flip": None}, "or flip= for public labels"),
        ({"confidence": 1.0}, "confidence"),
    ],
)
def test_what_cannot_be_bounded_is_refused(change, message):
    """Cells of other rows, too few cells, no flip probability for public labels: each has a sentence."""
    given = {"cells": [0, 1, 2, 3], "flip": 0.1} | change
    release = Release.public(["no", "yes", "no", "yes"], SPACE)
    with pytest.raises(ValueError, match=message):
        bound_exposure(given.pop("cells"), release, **given)


def test_other_labels_are_refused():
    """Three classes, no rows, orders and certainties out of range, and features of other rows are refused."""
    three = Classes(["a", "b", "c"])
    release = Curator(list("abc"), three).randomize(SubsetResponse(three, 1.0))
    with pytest.raises(InputError, match="two classes"):
        bound_exposure([0, 1, 2], release)
    with pytest.raises(InputError, match="two classes"):
        held_out_cells(np.zeros((3, 1)), release)
    with pytest.raises(InputError, match="no rows"):
        bound_exposure([], Release.public([], SPACE), flip=0.1)
    exposure = bound_exposure([0, 0], Release.public(["no", "yes"], SPACE), flip=0.1)
    with pytest.raises(InputError, match="order above 1"):
        exposure.divergence(1.0)
    with pytest.raises(InputError, match="certainty above"):
        exposure.known(0.5)
    with pytest.raises(InputError, match="2 rows"):
        held_out_cells(np.zeros((3, 1)), Release.public(["no", "yes"], SPACE))
