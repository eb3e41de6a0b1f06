"""What answers say about the size of their noise: exact laws of small cases, enumerated, never fall short of it."""

import itertools
import json
import math

import numpy as np
import pytest
from scipy.stats import norm

import labeldp as dp
from labeldp import Classes, Curator, Interval, NoisyArgmax, NoisyHistogram, NoisyMean, verify
from labeldp.errors import InputError, VerificationError
from labeldp.mechanisms.queries import _mean, _noise, _query, cell_rows
from labeldp.mechanisms.queries._noise import PARTS

LEVELS = (0.5, 0.9, 0.95, 0.999)
RATES = (0.05, 0.3, 1.0, 2.5)


def law(rate, **further):
    """A law with noise of a rate, rounded to what a law can hold."""
    return {"rate": str(round(rate * PARTS)), "parts": str(PARTS), **further}


def margin(query, rate, space, confidence, **further):
    """The margin of a query's answer about enough rows."""
    return float(np.max(query.margin(law(rate, **further), space, None, confidence)))


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("level", LEVELS)
def test_the_margin_of_a_count_is_the_quantile_of_its_noise(rate, level):
    """The least number that discrete Laplace noise exceeds rarely enough, by sums of its probabilities."""
    q = math.exp(-rate)
    z = np.arange(-2000, 2001)
    law_of_noise = (1 - q) / (1 + q) * q ** np.abs(z)
    found = margin(dp.NoisyHistogram, rate, dp.Classes(["a", "b"]), level)
    assert law_of_noise[np.abs(z) > found].sum() <= 1 - level < law_of_noise[np.abs(z) > found - 1].sum()


@pytest.mark.parametrize("deviation", [1, 3, 50])
@pytest.mark.parametrize("level", LEVELS)
def test_the_margin_of_a_sum_is_the_quantile_of_rounded_normal_noise(deviation, level):
    """The least number that a rounded normal variable exceeds rarely enough."""
    found = dp.LabelMoments.margin({"deviation": str(deviation), "bits": "3"}, dp.Classes(["a", "b"]), None, level) * 8
    beyond = [2 * norm.sf((m + 0.5) / deviation) for m in (found, found - 1)]
    assert beyond[0] <= 1 - level < beyond[1]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("level", LEVELS)
def test_a_quantile_misses_its_rank_by_no_more_than_its_margin(rate, level):
    """Of every choice of labels, and of the worst one, at which the margin is the least that holds."""
    space = dp.Interval(0.0, 4.0, 1.0)
    found = margin(dp.NoisyQuantile, rate, space, level, level="0.5")
    few = [list(labels) for labels in itertools.combinations_with_replacement(range(5), 4)]
    worst = [0] * (int(found) + 400)  # all other points miss as many ranks as there are labels from t on
    for labels in [*few, worst, *([0] * n for n in range(1, 40))]:
        t = -(-len(labels) // 2)
        ordered = np.array(labels)
        points = np.arange(5)
        below, up_to = (ordered < points[:, None]).sum(1), (ordered <= points[:, None]).sum(1)
        missed = np.maximum(0, np.maximum(below - (t - 1), t - up_to))
        weights = np.exp(-rate * missed)
        assert weights[missed > found].sum() <= (1 - level) * weights.sum()
    weight = 4 * math.exp(-rate * found)
    assert found == 0 or weight / (1 + weight) > 1 - level


def argmax_law(counts, rate, method):
    """The exact probability that each class is named."""
    weights = np.exp(-rate * (max(counts) - np.array(counts, dtype=float)))
    if method == "exponential":
        return weights / weights.sum()
    chances = []
    for mine in counts:
        others = list(counts)
        others.remove(mine)
        survive = np.polynomial.Polynomial([1.0])
        for other in others:  # u is the exponential of the class's own exponential noise
            survive *= np.polynomial.Polynomial([1.0, -math.exp(-rate * (mine - other))])
        start = math.exp(-rate * max(0, *(other - mine for other in others)))
        chances.append(survive.integ()(start))
    return np.array(chances)


@pytest.mark.parametrize("method", ["exponential", "permute-and-flip"])
@pytest.mark.parametrize("rate", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("level", LEVELS)
def test_a_named_class_is_behind_by_no_more_than_its_margin(method, rate, level):
    """Of all counts of four classes on a grid, and of the worst ones, at which the margin is the least that holds."""
    found = margin(dp.NoisyArgmax, rate, dp.Classes(["a", "b", "c", "d"]), level, method=method)
    gaps = sorted({0, 1, 2, int(found), int(found) + 1, int(found) + 2})
    for behind in itertools.product(gaps, repeat=3):
        counts = [max(gaps) - gap for gap in (0, *behind)]
        chances = argmax_law(counts, rate, method)
        assert chances.sum() == pytest.approx(1)
        assert chances[max(counts) - np.array(counts) > found].sum() <= 1 - level
    if found:
        chances = argmax_law([found, 0, 0, 0], rate, method)
        assert chances[1:].sum() > 1 - level


@pytest.mark.parametrize("top", [1, 2, 3])
@pytest.mark.parametrize("level", LEVELS)
def test_named_classes_are_behind_others_by_no_more_than_their_margin(top, level):
    """Of three classes, by sums over all noise; ties count as the worse order."""
    rate, q = 0.7, math.exp(-0.7)
    found = margin(dp.NoisyTopK, rate, dp.Classes(["a", "b", "c"]), level, top=str(top))
    z = np.arange(60)
    one = (1 - q) * q**z
    weights = one[:, None, None] * one[None, :, None] * one[None, None, :]
    noise = np.stack(np.meshgrid(z, z, z, indexing="ij"))
    gap = int(found) + 1
    for counts in [(gap, 0, 0), (gap, gap, 0), (2 * gap, gap, 0), (gap, gap - 1, 0), (5, 3, 1)]:
        noisy = noise + np.array(counts).reshape(3, 1, 1, 1)
        wrong = np.zeros(weights.shape, dtype=bool)
        for j, other in itertools.permutations(range(3), 2):
            if counts[other] - counts[j] > found:
                ahead = sum((noisy[each] > noisy[j]).astype(int) for each in range(3) if each != j)
                wrong |= (noisy[j] >= noisy[other]) & (ahead < top)
        assert weights[wrong].sum() <= 1 - level


def test_margins_are_at_most_the_rows_of_their_cell():
    """No class is farther behind, and no rank farther off, than there are rows; unknown rows bound nothing."""
    rows = np.array([3, 1000])
    for query, further in ((dp.NoisyArgmax, {"method": "exponential"}), (dp.NoisyQuantile, {"level": "0.5"})):
        found = query.margin(law(0.05, **further), dp.Interval(0.0, 4.0, 1.0), rows, 0.95)
        assert found.tolist() == [3.0, margin(query, 0.05, dp.Interval(0.0, 4.0, 1.0), 0.95, **further)]
    assert dp.NoisyTopK.margin(law(0.05, top="2"), dp.Classes(["a", "b", "c"]), rows, 0.95).shape == (2, 1)


def test_the_bound_of_the_smallest_probabilities_is_one():
    """Where a difference of nearly equal numbers would decide, a bound does: it is above the exact one, by 1e-4."""
    for level in (0.9999, 1 - 1e-9):
        found = margin(dp.NoisyArgmax, 0.01, dp.Classes(["a", "b", "c", "d"]), level, method="permute-and-flip")
        a = math.exp(-0.01 * (found + 1))
        assert 0.98 * (1 - level) <= 1.5 * a - a**2 <= 1 - level


class Fixed:
    """Noise that is what it is declared to be."""

    def __init__(self, monkeypatch, noise):
        monkeypatch.setattr(_mean, "discrete_laplace", lambda *_: np.array(noise))


GRID = dp.Interval(0.0, 2.0, 0.5)


def test_means_are_unbiased_and_their_tidy_form_is_cut(monkeypatch):
    """Noise beyond the ends is in the value, in units of the labels, and not in ``means``; empty cells have none."""
    Fixed(monkeypatch, [-7, 9, 6])
    curator = dp.Curator([2.0, 0.0, 1.0, 0.5], GRID)
    answer = curator.answer(dp.NoisyMean(GRID, 1.0, np.array([0, 2, 2, 0]), 3))
    assert answer.value[[0, 2]].tolist() == [0.5 * (5 - 7) / 2, 0.5 * (2 + 6) / 2]
    assert answer.means()[[0, 2]].tolist() == [0.0, 2.0]
    assert answer.reading.values[[0, 2]].tolist() == [-0.5, 2.0]
    assert np.isnan([each[1] for each in (answer.value, answer.means(), answer.standard_error, answer.margin())]).all()
    with pytest.raises(InputError, match="NoisyMean"):
        dp.Curator(["a"], dp.Classes(["a", "b"])).answer(dp.NoisyHistogram(dp.Classes(["a", "b"]), 1.0)).means()


def test_the_standard_error_of_a_mean_is_that_of_its_sum_over_its_rows():
    """For each cell by its own public number of rows, whatever the labels, and for one cell by all rows."""
    cells = np.repeat([0, 1, 3], [10, 20, 70])
    query = dp.NoisyMean(GRID, 0.5, cells)
    answer = dp.Curator([1.0] * 100, GRID).answer(query)
    q = math.exp(-query.rate(1) / PARTS)
    of_sum = 0.5 * math.sqrt(2 * q) / (1 - q)
    known = np.array([10, 20, np.nan, 70])
    np.testing.assert_allclose(answer.standard_error, of_sum / known, rtol=1e-12)
    of_all = dp.Curator([1.0] * 100, GRID).answer(dp.NoisyMean(GRID, 0.5)).standard_error
    np.testing.assert_allclose(of_all, [of_sum / 100], rtol=1e-12)
    counts = 0.5 * dp.NoisyHistogram.margin(answer.law, GRID, None, 0.9)
    np.testing.assert_allclose(answer.margin(0.9), counts / known, rtol=1e-12)


def test_shares_are_unbiased_and_sum_to_one():
    """The excess of a cell's counts is divided evenly, and the standard error is that of what is left, exactly."""
    space, cells = dp.Classes(["a", "b", "c"]), np.array([0] * 6 + [2] * 4)
    answer = dp.Curator(["a"] * 5 + ["b"] * 5, space).answer(dp.NoisyHistogram(space, 1.0, cells, 3))
    n = np.array([6.0, np.nan, 4.0])
    found = answer.shares()
    expected = (answer.value - (answer.value.sum(axis=1) - np.nan_to_num(n))[:, None] / 3) / n[:, None]
    np.testing.assert_allclose(found.value, expected, rtol=1e-12)
    np.testing.assert_allclose(found.value.sum(axis=1), [1, np.nan, 1], rtol=1e-12)
    residual = np.eye(3) - 1 / 3  # of independent noise, less its mean over the classes
    wanted = answer.standard_error[:, :1] * np.sqrt((residual**2).sum(axis=1)) / n[:, None]
    np.testing.assert_allclose(found.standard_error, wanted, rtol=1e-12)
    with pytest.raises(InputError, match="NoisyHistogram"):
        dp.Curator(["a"], space).answer(dp.NoisyArgmax(space, 1.0)).shares()


def test_many_cells_are_not_listed(monkeypatch):
    """A certificate stays small, and what needs the rows of cells says that they are unknown."""
    monkeypatch.setattr(_query, "_MOST_LISTED", 2)
    answer = dp.Curator([1.0] * 4, GRID).answer(dp.NoisyMean(GRID, 1.0, [0, 1, 2, 2]))
    assert answer.law["rows"] == "not listed"
    for refused in (lambda: answer.standard_error, answer.margin):
        with pytest.raises(InputError, match="noise of known size"):
            refused()
    counts = dp.Curator([1.0] * 4, GRID).answer(dp.NoisyHistogram(GRID, 1.0, [0, 1, 2, 2]))
    assert counts.standard_error.shape == counts.value.shape == (3, 5)
    with pytest.raises(InputError, match="divide counts"):
        counts.shares()


@pytest.mark.parametrize("rows", [["2", "1"], ["2", "3", "0"], ["4", "1"], ["5", "-1"], ["5.0", "0"], "some", []])
def test_rows_of_cells_that_are_not_those_of_the_answer_are_refused(tmp_path, rows):
    """In another number of cells, of another total, or in another notation."""
    answer = dp.Curator([1.0] * 5, GRID, name="y").answer(dp.NoisyMean(GRID, 1.0, [0, 0, 0, 1, 1]))
    folder = answer.save(tmp_path / "shared")
    certificate = folder / "_certificate.json"
    text = certificate.read_text(encoding="utf-8")
    listed = '"rows": [\n          "3",\n          "2"\n        ]'
    assert text.count(listed) == 1
    certificate.write_text(text.replace(listed, '"rows": ' + str(rows).replace("'", '"')), encoding="utf-8")
    assert dp.Answer.load(answer.save(tmp_path / "as it was")).standard_error.shape == (2,)
    if rows != ["4", "1"]:
        with pytest.raises(VerificationError):
            dp.Answer.load(folder)


def test_old_laws_list_no_rows():
    """With one cell they are all rows, and with several unknown."""
    assert cell_rows({}, 7, 1).tolist() == [7]
    assert cell_rows({}, 7, 2) is None
    assert cell_rows({"rows": "all"}, 7, 3).tolist() == [7, 0, 0]


def test_margins_of_forged_laws_are_found():
    """Integers of a hundred digits are no reason to fail: somebody else's certificate may hold them."""
    for digits in ("1", "9" * 100):
        found = dp.LabelMoments.margin({"deviation": digits, "bits": "0"}, dp.Classes(["a", "b"]), None, 0.95)
        assert found == pytest.approx(1.96 * float(digits), rel=0.25)
    assert dp.NoisyHistogram.deviation({"rate": "1" + "0" * 99, "parts": str(PARTS)}) == 0.0
    assert _noise.least_margin(lambda _: 0.0, 0.5) == 0


# The rho of queries, against the Rényi divergences of their noise.


SPACE = Classes(["a", "b", "c", "d"])
LABELS = ["a", "b", "c", "d", "a"] * 8


def divergence(order, rate, moved):
    """The Rényi divergence of discrete Laplace noise of a rate from itself, moved by a whole number."""
    reach = math.ceil(40 / rate) + moved
    z = np.arange(-reach, reach + 1)
    powers = -rate * (order * np.abs(z) + (1 - order) * np.abs(z - moved))
    return float(np.log(np.tanh(rate / 2) * np.exp(powers).sum()) / (order - 1))


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 2.0, 6.0])
@pytest.mark.parametrize(
    "moves", [{1: (1, -1)}, {3: (3, -3), 1: (1, 1, 1, -3)}, {3: (2, 1, -1, -2)}, {3: (1, 1, 1, -1, -1, -1)}]
)
def test_the_rho_of_a_histogram_bounds_its_noise(epsilon, moves):
    """However the labels of a unit move the counts, no order has a divergence above rho times it, and some are near."""
    for labels, moved in ((max(moves), counts) for counts in moves.values()):
        query = NoisyHistogram(SPACE, epsilon)
        rho, rate = query.promise(labels).rho, epsilon / (2 * labels)
        orders = (1.001, 1.5, 2.0, 4.0, 16.0)
        found = [sum(divergence(order, rate, abs(each)) for each in moved) / order for order in orders]
        assert max(found) <= rho * (1 + 1e-9)
        assert rho == pytest.approx(epsilon**2 / 4)
        if len(moved) == 2 and epsilon <= 0.7:
            assert max(found) > 0.9 * rho


def test_other_queries_have_none():
    """Nothing better is known of a most common class, or of a mean, than their epsilon."""
    for query in (NoisyArgmax(SPACE, 1.0), NoisyMean(Interval(0.0, 1.0, 0.1), 1.0)):
        assert query.promise(1).rho is None


def test_a_certificate_may_claim_no_rho(tmp_path):
    """A saved histogram says its rho; one that says none claims less, and verifies too; one that says less does not."""
    folder = Curator(LABELS, SPACE).answer(NoisyHistogram(SPACE, 0.5)).save(tmp_path / "h")
    assert verify(folder).holds
    path = folder / "_certificate.json"
    whole = json.loads(path.read_text(encoding="utf-8"))
    assert whole["guarantee"]["rho"] == whole["charges"][0]["guarantee"]["rho"] == pytest.approx(0.0625)
    for rho, holds in ((None, True), (0.05, False)):
        for part in (whole["guarantee"], whole["charges"][0]["guarantee"]):
            part.pop("rho", None)
            part.update({} if rho is None else {"rho": rho})
        path.write_text(json.dumps(whole), encoding="utf-8")
        assert verify(folder).holds is holds
