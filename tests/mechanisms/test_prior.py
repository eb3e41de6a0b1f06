"""RRWithPrior and RRTop-k, against search over all candidate sets and all mechanisms."""

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.optimize import linprog

from labeldp import Classes, PriorResponse, TopKResponse
from labeldp.errors import PriorError
from labeldp.privacy.channels import prior_candidates, top_candidates, unpack

EPSILONS = (0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0)


def spaces(k):
    """A space of k classes."""
    return Classes(range(k))


def candidates(row, epsilon):
    """The candidates of RRWithPrior for one row, whose prior mass is what is stated."""
    packed, mass = prior_candidates(np.ascontiguousarray(row)[None], epsilon)
    mask = unpack(packed, row.size)[0]
    assert mass.tolist() == [pytest.approx(row[mask].sum(), rel=1e-12)]
    return mask


def odds(epsilon):
    """exp(epsilon) as a rational number, to sixty digits."""
    with mpmath.workdps(60):
        return Fraction(str(mpmath.exp(mpmath.mpf(epsilon))))


def values(row, epsilon):
    """The probability of releasing the truth with the m most likely classes, m = 1 .. k, exactly."""
    e, total, found = odds(epsilon), Fraction(0), []
    for m, p in enumerate(sorted(map(Fraction, row), reverse=True), start=1):
        total += p
        found.append(total * e / (e + m - 1))
    return found


def priors():
    """Random priors of many shapes: smooth, peaked, with ties, with zeros, and almost uniform."""
    rng = np.random.default_rng(20)
    for k in (2, 3, 5, 10, 17, 30, 40):
        yield from rng.dirichlet(np.ones(k), 6)
        yield from rng.dirichlet(np.full(k, 0.1), 6)
        yield from rng.dirichlet(np.full(k, 50.0), 6)
        tied = rng.integers(0, 4, (6, k)) + (np.arange(k) == 0)
        yield from tied / tied.sum(axis=1, keepdims=True)
        yield np.eye(k)[k - 1]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_number_of_candidates_is_the_best(epsilon):
    """The candidates are the k* most likely classes, with k* from exact arithmetic where it is not a near-tie."""
    decided = 0
    for row in priors():
        exact = values(row.tolist(), epsilon)
        mask = candidates(row, epsilon)
        count = int(mask.sum())
        assert exact[count - 1] >= max(exact) * (1 - Fraction(1, 10**13))
        assert row[mask].min() >= row[~mask].max(initial=0.0)
        best = [m for m, value in enumerate(exact, start=1) if value >= max(exact) * (1 - Fraction(1, 10**12))]
        if len(best) == 1:
            assert count == best[0]
            decided += 1
    assert decided > 100


@pytest.mark.parametrize("k", [2, 3, 7, 10, 30, 1000])
def test_a_uniform_prior_gives_randomized_response(k):
    """All classes are candidates at every epsilon, however small or large."""
    uniform = np.full((1, k), 1.0 / k)
    for epsilon in (*np.geomspace(1e-6, 20, 40).tolist(), 0.5, 0.1):
        assert candidates(uniform[0], epsilon).all(), epsilon
    channel = PriorResponse(spaces(k), 0.5, uniform).channel() if k <= 30 else None
    if channel is not None:
        assert channel.sizes.tolist() == [k]
        assert channel.matrix().shape == (k, k)


def test_equal_classes_are_in_or_out_together():
    """Classes of equal probability are treated alike, so the order of their declaration cannot matter."""
    for row in priors():
        for epsilon in EPSILONS:
            mask = candidates(row, epsilon)
            for p in np.unique(row):
                assert len(set(mask[row == p].tolist())) == 1


def best_mechanism(row, epsilon):
    """The largest probability of releasing the truth over all epsilon-DP mechanisms, by a linear programme."""
    k, e = len(row), np.exp(epsilon)
    index = np.arange(k * k).reshape(k, k)  # index[y, z] is the place of P(z | y)
    bounds = []
    for z, y, other in itertools.product(range(k), repeat=3):
        if y != other:
            line = np.zeros(k * k)
            line[index[y, z]], line[index[other, z]] = 1.0, -e
            bounds.append(line)
    sums = np.kron(np.eye(k), np.ones(k))
    gain = np.zeros(k * k)
    gain[index.diagonal()] = -np.asarray(row)
    found = linprog(gain, A_ub=np.array(bounds), b_ub=np.zeros(len(bounds)), A_eq=sums, b_eq=np.ones(k), bounds=(0, 1))
    assert found.status == 0
    return -found.fun


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
def test_no_mechanism_releases_the_truth_more_often(epsilon):
    """Ghazi et al. 2021, Theorem 3: among all epsilon-DP mechanisms, none does better under the prior."""
    rng = np.random.default_rng(8)
    for k in (2, 3, 4):
        for row in (*rng.dirichlet(np.ones(k), 3), np.full(k, 1 / k), np.array([0.7] + [0.3 / (k - 1)] * (k - 1))):
            channel = PriorResponse(spaces(k), epsilon, row[None]).channel()
            table = channel.table()
            mine = sum(row[z] * table.matrix[z, place] for place, z in enumerate(table.outcomes))
            assert mine == pytest.approx(best_mechanism(row, epsilon), abs=1e-9)
            assert mine == pytest.approx(float(max(values(row.tolist(), epsilon))), rel=1e-12)


@pytest.mark.parametrize(
    ("row", "size", "chosen"),
    [
        ([0.25, 0.25, 0.25, 0.25], 2, [0, 1]),
        ([0.1, 0.4, 0.1, 0.4], 3, [0, 1, 3]),
        ([0.2, 0.2, 0.6, 0.0], 2, [0, 2]),
        ([0.0, 0.0, 0.0, 1.0], 2, [0, 3]),
        ([0.1, 0.2, 0.3, 0.4], 4, [0, 1, 2, 3]),
        ([0.1, 0.2, 0.3, 0.4], 1, [3]),
    ],
)
def test_ties_go_to_the_class_that_was_declared_first(row, size, chosen):
    """The most likely classes, in declared order where they are equally likely."""
    assert np.flatnonzero(unpack(top_candidates(np.array([row]), size)[0], 4)[0]).tolist() == chosen
    channel = TopKResponse(spaces(4), 1.0, [row], k=size).channel()
    assert channel.table().outcomes.tolist() == chosen


@pytest.mark.parametrize(
    "bad",
    [
        [0.5, 0.5, 0.0],
        [[0.5, 0.5]],
        [[0.25, 0.25, 0.25, 0.25]],
        [[[0.5, 0.5, 0.0]]],
        [[0.5, 0.5, 0.1]],
        [[0.5, 0.4, 0.0]],
        [[1.0, 1.0, -1.0]],
        [[np.nan, 0.5, 0.5]],
        [[np.inf, 0.0, 0.0]],
        [[np.inf, -np.inf, 1.0]],
        [[0.0, 0.0, 0.0]],
        [["a", "b", "c"]],
        [[0.5, 0.5], [1.0]],
        [[None, 0.5, 0.5]],
        [[1j, 0.5, 0.5]],
        None,
        "uniform",
        7,
    ],
)
@pytest.mark.parametrize("kind", [PriorResponse, lambda *given: TopKResponse(*given, k=2)], ids=["prior", "top-k"])
@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_a_prior_that_is_no_distribution_is_refused(kind, bad):
    """A prior of another shape, with NaN, infinities or negative numbers, or not summing to one, is refused."""
    with pytest.raises(PriorError, match="expected"):
        kind(spaces(3), 1.0, bad)


def test_the_row_of_a_bad_prior_is_named():
    """The message names the first row that is no distribution."""
    prior = np.full((100, 3), 1 / 3)
    prior[41] = [0.5, 0.5, 0.5]
    prior[77] = np.nan
    with pytest.raises(PriorError, match=r"row 42 \(the first is row 1\);"):
        PriorResponse(spaces(3), 1.0, prior)


def test_a_prior_is_copied_and_read_only():
    """Changing the given array afterwards changes nothing, and the kept one cannot be changed."""
    prior = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]])
    randomizer = PriorResponse(spaces(3), 1.0, prior)
    before = randomizer.channel().candidates.tolist()
    prior[:] = 1 / 3
    assert randomizer.prior[0, 0] == 0.8
    assert randomizer.at(1.0).channel().candidates.tolist() == before
    with pytest.raises(ValueError, match="read-only"):
        randomizer.prior[0, 0] = 0.5


def test_one_candidate_costs_and_says_nothing():
    """A row with one candidate always releases it: no word, no epsilon, and likelihoods that are all equal."""
    channel = TopKResponse(spaces(3), 1.0, [[0.1, 0.8, 0.1]], k=1).channel()
    words = np.array([[0], [2**63], [2**64 - 1]], dtype=np.uint64)
    three = channel.take(np.zeros(3, dtype=np.int64))
    for code in range(3):
        assert three.draw(np.full(3, code, dtype=np.int32), words).tolist() == [1, 1, 1]
    likelihood = channel.likelihood(np.array([1], dtype=np.int32))
    assert (likelihood == likelihood[0, 0]).all()


def test_no_rows_need_no_prior():
    """An empty prior of the right width is a prior for no labels."""
    channel = PriorResponse(spaces(3), 1.0, np.zeros((0, 3))).channel()
    assert channel.draw(np.zeros(0, dtype=np.int32), np.zeros((0, 1), dtype=np.uint64)).shape == (0,)
