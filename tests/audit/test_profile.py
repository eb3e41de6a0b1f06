"""The privacy-loss profile: the loss of a row, the neighbours that bound it, and the curve over all rows."""

import itertools
import math

import mpmath
import numpy as np
import pytest

import labeldp as dp
from labeldp._confidence_intervals import clopper_pearson_lower, clopper_pearson_upper
from labeldp.audit import Neighbourhood, loss_profile
from labeldp.audit.attacks import neighbour_sums
from labeldp.audit.attacks._class_probability import ClassIndicators, mean_lower_bound
from labeldp.audit.attacks._instance_loss import InstanceLoss
from labeldp.audit.attacks._profile import shares_at, survival_band
from labeldp.errors import EpsilonError, InputError

SPACE = dp.Classes(["no", "yes"])
SHARES = [1e-4, 0.2, 0.5, 0.7, 0.999]


def formula(z, flip, share):
    """H as Lemma D.1 prints it, in 40 digits."""
    z, flip, share = map(mpmath.mpf, (z, flip, share))
    part = (2 * z - 1) * (mpmath.log(z / (1 - z)) - mpmath.log(share / (1 - share)))
    return part + (2 * flip - 1) * mpmath.log(flip / (1 - flip))


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("flip", [0.001, 0.1, 0.5])
def test_the_average_loss_is_that_of_the_lemma(flip, share):
    """H is Lemma D.1's formula, is infinite at 0 and 1, and is smallest where it says, between 1/2 and p_plus."""
    loss = InstanceLoss(flip, share)
    with mpmath.workdps(40):
        for z in [1e-9, 0.01, 0.3, 0.5, share, 0.9, 1 - 1e-6]:
            assert float(loss.average(z)) == pytest.approx(float(formula(z, flip, share)), rel=1e-9, abs=1e-12)
        z, least = loss.least
        assert min(share, 0.5) <= z <= max(share, 0.5)
        assert least == pytest.approx(float(formula(z, flip, share)), abs=1e-10)
        assert all(formula(z + step, flip, share) > least for step in (-1e-4 * z, 1e-4 * (1 - z)))
    grid = np.linspace(1e-6, 1 - 1e-6, 100_001)
    values = loss.average(grid)
    assert values.min() >= least - 1e-12
    assert abs(grid[values.argmin()] - z) < 2e-5
    assert (np.diff(values, 2) > -1e-9).all(), "convex"
    assert np.isinf(loss.average([0.0, 1.0])).all()


@pytest.mark.parametrize("share", SHARES)
def test_both_branches_are_inverted(share):
    """Both inverses of H agree with bisection in 40 digits to 1e-12, for p_plus on either side of 1/2."""
    loss = InstanceLoss(0.05, share)
    turn, least = loss.least
    taus = least + np.array([1e-3, 0.1, 1.0, 5.0, 12.0])
    low, high = loss.chances_at(taus)
    with mpmath.workdps(40):
        for tau, *found in zip(taus, low, high, strict=True):
            for start, end, z in ((mpmath.mpf(10) ** -30, turn, found[0]), (1 - mpmath.mpf(10) ** -30, turn, found[1])):
                outer, inner = mpmath.mpf(start), mpmath.mpf(end)
                for _ in range(130):
                    middle = (outer + inner) / 2
                    outer, inner = (middle, inner) if formula(middle, 0.05, share) >= tau else (outer, middle)
                assert abs(float(outer) - z) < 1e-12
    assert (low < turn).all()
    assert (high > turn).all()
    if share != 0.5:
        assert not np.allclose(low, 1 - high, rtol=1e-3, atol=0), "H is symmetric around 1/2 for even classes alone"


def test_a_loss_below_the_minimum_has_no_chances():
    """Chances are refused for a tau below the minimum of H, with the minimum; at the minimum both are the minimiser."""
    loss = InstanceLoss(0.01, 0.25)
    turn, least = loss.least
    with pytest.raises(InputError, match=r"at least 4\.35595, the minimum of H"):
        loss.chances_at(least - 1e-6)
    for flip, share in itertools.product((1e-6, 0.01, 0.5), (1e-9, 0.25, 0.7)):
        loss = InstanceLoss(flip, share)
        turn, least = loss.least
        assert np.allclose(loss.chances_at(least), turn, rtol=1e-4)


def test_the_loss_of_a_label_is_how_much_its_odds_grow():
    """Theorem 6.4 holds with P(released = z | Y = 1-y), by enumeration of a joint law, and fails as it is printed."""
    random = np.random.default_rng(3)
    mass, chances, flip = random.dirichlet(np.ones(5)), random.uniform(0.05, 0.95, 5), 0.2
    share = float(mass @ chances)
    law = np.array([[1 - flip, flip], [flip, 1 - flip]])
    found, printed_fails = InstanceLoss(flip, share).each(chances), False
    for x, y, z in itertools.product(range(5), range(2), range(2)):
        of_label = [1 - chances[x], chances[x]]
        joint = [mass[x] * of_label[label] * law[label, z] for label in range(2)]
        odds = joint[y] / joint[1 - y]
        before = (share if y else 1 - share) / (1 - share if y else share)
        assert found[x, y, z] == pytest.approx(math.log(odds / before))
        printed = law[y, z] / law[1 - y, y] * of_label[y] / of_label[1 - y] / before
        printed_fails |= abs(math.log(printed) - found[x, y, z]) > 0.1
    assert printed_fails
    weights = np.stack([1 - chances, chances], axis=1)[:, :, None] * law
    assert np.allclose((weights * found).sum(axis=(1, 2)), InstanceLoss(flip, share).average(chances))


def brute(features, rows, values, k):
    """Sums over neighbours from all distances, row by row."""
    centred, sums = features - features.mean(axis=0), []
    for row in rows:
        distances = ((centred - centred[row]) ** 2).sum(axis=1)
        distances[row] = np.inf
        sums.append(values[np.argsort(distances, kind="stable")[:k]].sum(axis=0))
    return np.array(sums)


@pytest.mark.parametrize("kind", ["normal", "outliers", "grid", "alike", "huge"])
def test_sums_are_of_the_nearest_others(kind):
    """Sums are those over the k nearest other rows in double precision, ties going to the earlier row."""
    random = np.random.default_rng(0)
    features = {
        "normal": random.normal(size=(3000, 5)),
        "outliers": random.standard_cauchy(size=(3000, 3)),
        "grid": random.integers(0, 4, size=(3000, 2)).astype(float),
        "alike": np.ones((3000, 1)),
        "huge": random.normal(size=(3000, 2)) * 1e90,
    }[kind]
    values = random.random((3000, 2)) < [0.3, 0.6]
    rows = random.permutation(3000)[:60]
    for k in (1, 20, 600, 2999):
        assert np.array_equal(neighbour_sums(features, rows, values.astype(float), k), brute(features, rows, values, k))


def test_bounds_hold_for_indicators_of_different_chances():
    """The mean chance of indicators is missed with at most the level, for unequal chances too, counted exactly.

    Clopper and Pearson's own bound at a count of one is not enough for that.
    """
    random = np.random.default_rng(1)
    missed_by_their_own = False
    for k, level in itertools.product((1, 2, 3, 7), (0.1, 0.01, 1e-4)):
        lists = [np.eye(k)[0] * level * scale for scale in (0.5, 0.99, 1.01, 1.5, 30)]
        lists += [random.random(k) ** power for power in (0.3, 1, 4, 20) for _ in range(30)]
        for chances in lists:
            law = np.ones(1)
            for chance in chances.clip(0, 1):
                law = np.convolve(law, [1 - chance, chance])
            mean, counts = chances.clip(0, 1).mean(), np.arange(k + 1.0)
            assert law[mean_lower_bound(counts, k, level) > mean].sum() <= level * (1 + 1e-9)
            missed_by_their_own |= law[clopper_pearson_lower(counts, k, level) > mean].sum() > level * (1 + 1e-6)
    assert missed_by_their_own


def test_the_band_holds_for_all_thresholds_at_once():
    """Of 4 000 samples at most a tenth leave a band at level 0.1, with a false alarm of 1e-9, and some do.

    At its ends the band is far closer than one of even width.
    """
    rows, level, runs = 300, 0.1, 4000
    band = survival_band(rows, level)
    assert (np.diff(band) >= 0).all()
    values = np.sort(np.random.default_rng(2).random((runs, rows)), axis=1)[:, ::-1]  # P(value >= t) = 1 - t
    outside = (band[1:] > 1 - values).any(axis=1)
    assert 0 < outside.sum() < runs * level + 6 * math.sqrt(runs * level * (1 - level))
    even = math.sqrt(math.log(2 / level) / 2 / rows)
    assert band[-1] > 1 - even / 2


def in_cells(random, n, chances):
    """Rows in cells far apart, within which the chance of the second class is the same."""
    cells = random.integers(0, len(chances), n)
    features = cells[:, None] * 100.0 + random.random((n, 1))
    return features, np.where(random.random(n) < chances[cells], "yes", "no")


MECHANISMS = {
    "public": None,
    "response": lambda _: dp.RandomizedResponse(SPACE, 3.0),
    "bits": lambda _: dp.BitResponse(SPACE, 5.0),
    "subset": lambda _: dp.SubsetResponse(SPACE, 3.0),
    "candidates": lambda n: dp.PriorResponse(SPACE, 4.0, np.tile([[0.5, 0.5], [0.999, 0.001]], (n // 2, 1))),
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_curve_holds_the_truth(mechanism):
    """Of 60 samples with known chances at most 10 have a true J that is not between the curves at every tau.

    At a confidence of 0.99 a false alarm has 1e-10. On the other side bounds are close, and estimates alone miss.
    """
    random, flip = np.random.default_rng(11), 0.1
    chances = np.array([0.002, 0.02, 0.1, 0.35, 0.5, 0.8, 0.97, 0.999])
    share = float(chances.mean())
    truth = InstanceLoss(flip, share).average(chances)
    taus = np.concatenate([truth - 1e-9, truth + 1e-9])
    exact = (truth[:, None] >= taus).mean(axis=0)
    missed, shares_missed, estimate_missed, widths = 0, 0, 0, []
    for _ in range(60):
        features, labels = in_cells(random, 4000, chances)
        make = MECHANISMS[mechanism]
        release = dp.Curator(labels, SPACE).randomize(make(4000)) if make else dp.Release.public(labels, SPACE)
        given = share if mechanism == "candidates" else None
        profile = loss_profile(
            features, release, flips=[flip], rows=200, p_plus=given, neighbourhood=Neighbourhood(300)
        )
        shares_missed += not profile.p_plus.lower <= share <= profile.p_plus.upper
        (curve,) = profile.curves
        lower, estimate, upper = shares_at(taus, curve.rows, curve.band, curve.least)
        assert (lower <= estimate).all()
        assert (estimate <= upper).all()
        missed += bool(((lower > exact) | (exact > upper)).any())
        estimate_missed += bool((abs(estimate - exact) > 1e-9).any())
        widths.append((upper - lower).mean())
    assert max(missed, shares_missed) <= 10
    assert estimate_missed > 10
    assert np.mean(widths) < 0.8


def test_released_labels_give_the_curve_of_public_ones_in_the_limit():
    """At epsilon 30 released labels give the bounds of public ones to 1e-9; at 2 they give wider ones around them."""
    random = np.random.default_rng(4)
    features = random.random((3000, 2))
    labels = np.where(random.random(3000) < features[:, 0], "yes", "no")
    curator, rows = dp.Curator(labels, SPACE, budget=40.0), np.arange(0, 3000, 20)
    options, taus = {"flips": [0.01, 0.2], "neighbourhood": Neighbourhood(400), "rows": rows}, np.linspace(0, 12, 97)
    public = loss_profile(features, dp.Release.public(labels, SPACE), **options)
    exact = loss_profile(features, curator.randomize(dp.RandomizedResponse(SPACE, 30.0)), **options)
    for ours, theirs in zip(exact.curves, public.curves, strict=True):
        assert np.allclose(ours.rows, theirs.rows, rtol=1e-9)
        assert [ours.share(tau).lower for tau in taus] == [theirs.share(tau).lower for tau in taus]
    noisy = loss_profile(features, curator.randomize(dp.RandomizedResponse(SPACE, 2.0)), **options)
    assert noisy.curves[0].rows[0].mean() < public.curves[0].rows[0].mean()
    assert max(abs(noisy.of(0.2).share(tau).estimate - public.of(0.2).share(tau).estimate) for tau in taus) < 0.5
    assert (public.public, noisy.public) == (True, False)
    original = loss_profile(
        features, curator.randomize(dp.RandomizedResponse(SPACE, 2.0)), rows=rows, neighbourhood=Neighbourhood(400)
    )
    assert original.curves[0].epsilon == pytest.approx(2.0, abs=1e-9)


def test_rates_are_turned_back_by_the_law_of_released_labels():
    """Bounds of a mean chance m are those of the rate b + (a - b) m of its law, where rows differ in law too."""
    labels = np.tile(["no", "yes"], 100)
    other = 1 / (1 + math.e)
    indicators = ClassIndicators.of(dp.Curator(labels, SPACE).randomize(dp.RandomizedResponse(SPACE, 1.0)))
    counts, level = np.array([0.0, 35.0, 60.0, 100.0]), 0.02
    found = indicators.probabilities(counts[:, None], 100, level, 0.0)
    rates = clopper_pearson_lower(counts, 100, level / 2), counts / 100, clopper_pearson_upper(counts, 100, level / 2)
    for ours, rate in zip(found, rates, strict=True):
        assert np.allclose(ours, np.clip((rate - other) / (1 - 2 * other), 0, 1), atol=1e-6)
    units = np.repeat(np.arange(150), [1] * 100 + [2] * 50)
    grouped = ClassIndicators.of(dp.Curator(labels, SPACE, units=units).randomize(dp.RandomizedResponse(SPACE, 2.0)))
    alone, of_two = 1 / (1 + math.exp(2)), other
    assert np.allclose(grouped.values[:, 1:], np.repeat([[1 - alone, alone], [1 - of_two, of_two]], 100, axis=0))
    low, middle, high = grouped.probabilities(np.array([[35.0, 100 - 20.0, 20.0], [50.0, 50.0, 50.0]]), 100, level, 0.1)
    assert middle == pytest.approx([0.15 / 0.6, 0.5])
    assert low[0] == pytest.approx(max(0.0, (float(clopper_pearson_lower(35, 100, level / 2)) - 0.2) / 0.6 - 0.1))
    assert (low[1], high[1]) == (0.0, 1.0), "neighbours whose labels say nothing"


def test_the_order_of_rows_settles_no_tie():
    """Features that tell nothing show no loss beyond the label's where rows are sorted by it; false alarm 1e-8."""
    labels = np.sort(np.random.default_rng(0).choice(["no", "yes"], 2000))
    features = np.repeat([[0.0], [1.0]], 1000, axis=0)[np.random.default_rng(1).permutation(2000)]
    options = {"flips": [0.05], "neighbourhood": Neighbourhood(100), "rows": 500, "confidence": 1 - 1e-8}
    (curve,) = loss_profile(features, dp.Release.public(labels, SPACE), **options).curves
    assert curve.beyond.lower == 0.0
    assert curve.loss(0.01).lower < InstanceLoss(0.05, 0.5).of_label + 0.01


def test_smoothness_widens_bounds_until_they_hold():
    """If probabilities change among neighbours, bounds fail under smoothness 0, and hold under the true constant."""
    random = np.random.default_rng(5)
    features = random.random((2000, 1))
    chances = 0.5 + 0.49 * np.sin(6 * np.pi * features[:, 0])
    release = dp.Release.public(np.where(random.random(2000) < chances, "yes", "no"), SPACE)
    grid = 0.5 + 0.49 * np.sin(6 * np.pi * (np.arange(20_000) + 0.5) / 20_000)
    loss = InstanceLoss(0.1, 0.5)
    exact = float((loss.average(grid) >= 4.0).mean())
    options = {"flips": [0.1], "rows": 300, "p_plus": 0.5}
    steepest = 0.49 * 6 * np.pi  # a ball of radius r around any point has probability r or more
    blind, told = (
        loss_profile(features, release, **options, neighbourhood=Neighbourhood(700, smoothness=c))
        for c in (0.0, steepest)
    )
    assert blind.of(0.1).share(4.0).upper < exact
    found = told.of(0.1).share(4.0)
    assert found.lower <= exact <= found.upper
    assert "smoothness 0" in blind.assumptions[1]
    assert f"smoothness {steepest:g}" in told.assumptions[1]
    with pytest.raises(InputError, match="expected at least 47 neighbours for a smoothness above 0"):
        loss_profile(features, release, flips=[0.1], rows=300, neighbourhood=Neighbourhood(40, smoothness=0.1))


def test_a_row_is_bounded_at_its_level():
    """If all rows are alike, each has the exact interval of its neighbours at level 0.01 / (2 m), and H."""
    labels = np.array(["yes"] * 30 + ["no"] * 170)
    release = dp.Release.public(labels, SPACE)
    rows = np.arange(200)[60:160]
    curve = loss_profile(
        np.zeros((200, 1)), release, flips=[0.1], rows=rows, p_plus=0.05, neighbourhood=Neighbourhood(199)
    ).curves[0]
    low, high = (float(clopper_pearson_lower(count, 199, 0.01 / 400)) for count in (30, 169))
    loss = InstanceLoss(0.1, 0.05)
    turn, least = loss.least
    assert low < turn < 1 - high
    assert np.allclose(curve.rows[0], least)
    assert np.allclose(curve.rows[1], loss.average(30 / 199))
    assert np.allclose(curve.rows[2], loss.average([low, 1 - high]).max())


def test_every_row_loses_the_minimum():
    """J is exactly 1 up to the minimum of H and falls from there; the loss of a share is the last tau that has it."""
    random = np.random.default_rng(6)
    features = random.random((2000, 1))
    release = dp.Release.public(np.where(random.random(2000) < features[:, 0], "yes", "no"), SPACE)
    profile = loss_profile(features, release, rows=500, neighbourhood=Neighbourhood(150))
    assert [curve.flip for curve in profile.curves] == [0.001, 0.01, 0.1]
    for curve in profile.curves:
        for tau in (-5.0, curve.least - 1.0, curve.least):
            found = curve.share(tau)
            assert (found.lower, found.estimate, found.upper) == (1.0, 1.0, 1.0)
        for line in (curve.lower, curve.estimate, curve.upper):
            assert (np.diff(line) <= 0).all()
        assert (curve.lower <= curve.estimate).all()
        assert (curve.estimate <= curve.upper).all()
        assert curve.beyond == curve.share(curve.epsilon)
        for share in (0.05, 0.5, 1.0):
            found = curve.loss(share)
            assert found.lower <= found.estimate <= found.upper
            assert curve.share(found.lower).lower >= share
            assert curve.share(found.lower + 1e-6).lower < share
            assert curve.share(found.estimate).estimate >= share
            if np.isfinite(found.upper):
                assert curve.share(found.upper).upper >= share
                assert curve.share(found.upper + 1e-6).upper < share
    shifts = [curve.rows - InstanceLoss(curve.flip, 0.5).of_label for curve in profile.curves]
    assert np.allclose(shifts[0], shifts[1])
    assert np.allclose(shifts[0], shifts[2])
    low, high = profile.chances_beyond(0.1)
    loss = InstanceLoss(0.1, profile.p_plus.estimate)
    assert np.allclose(loss.average([low, high]), loss.epsilon)


def test_bad_input_is_refused():
    """Invalid inputs are refused with what was expected, and no label is in the message."""
    random = np.random.default_rng(7)
    features, labels = random.random((100, 2)), np.tile(["no", "yes"], 50)
    release = dp.Release.public(labels, SPACE)
    grouped = dp.Curator(labels, SPACE, units=np.repeat(np.arange(60), [1] * 20 + [2] * 40)).randomize(
        dp.RandomizedResponse(SPACE, 2.0)
    )
    by_cluster = dp.cluster_response(dp.Curator(labels, SPACE), np.arange(100) % 2, epsilon=2.0).release
    three = dp.Release.public(["a"] * 100, dp.Classes(["a", "b", "c"]))
    cases = [
        (features[:50], release, {}, InputError, "expected features of 100 rows"),
        (features[:, 0], release, {}, InputError, "expected a matrix of numbers"),
        (np.full((100, 2), np.nan), release, {}, InputError, "expected finite features"),
        (
            features,
            three,
            {},
            InputError,
            "expected labels of two classes, found 3",
        ),
        (features, dp.Release.public(["yes"] * 100, SPACE), {}, InputError, "too few of a class"),
        (features, grouped, {"flips": [0.1]}, InputError, "expected p_plus"),
        (features, grouped, {"p_plus": 0.5}, InputError, "flips="),
        (features, by_cluster, {"flips": [0.1]}, InputError, "found that of cluster, which was estimated"),
        (features, release, {"flips": [0.7]}, EpsilonError, "expected flip, the probability of"),
        (features, release, {"flips": []}, InputError, "at least one flip"),
        (features, release, {"p_plus": 1.0}, InputError, "expected p_plus above 0 and below 1"),
        (features, release, {"neighbourhood": Neighbourhood(100)}, InputError, "neighbours between 1 and 99"),
        (features, release, {"rows": [1, 1]}, InputError, "different row numbers"),
        (features, release, {"rows": np.array([0.5])}, InputError, "expected numbers of rows"),
        (features, release, {"confidence": 1.0}, EpsilonError, "confidence"),
    ]
    for given, labelled, options, kind, message in cases:
        with pytest.raises(kind, match=message) as found:
            loss_profile(given, labelled, **options)
        assert "'yes'" not in str(found.value)
    for number in ({"smoothness": -1.0}, {"exponent": 2.0}):
        with pytest.raises(InputError, match=next(iter(number))):
            Neighbourhood(**number)
    curve = loss_profile(features, release, neighbourhood=Neighbourhood(30)).curves[0]
    with pytest.raises(EpsilonError, match="tau"):
        curve.share(math.nan)
    with pytest.raises(InputError, match="share of rows above 0"):
        curve.loss(0.0)
    with pytest.raises(InputError, match="expected a flip probability among"):
        loss_profile(features, release, neighbourhood=Neighbourhood(30)).of(0.3)
    with pytest.raises(InputError, match="probabilities between 0 and 1"):
        InstanceLoss(0.1, 0.5).average([1.5])
