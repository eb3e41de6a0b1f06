"""Learners and metrics of numeric labels: any regressor on released numbers, neighbours, and what errors are."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import norm
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

import labeldp as dp
from labeldp._random_words import TapeWords
from labeldp.errors import InputError, NotTrueLabelsError
from labeldp.learning.losses import Latent, clipped_mean, decoded_numbers, label_variance
from labeldp.learning.metrics import (
    Bounds,
    gains_of,
    mean_absolute_error,
    mean_label,
    mean_squared_error,
    r2,
    squared_gain,
    squared_scorer,
)
from labeldp.learning.sklearn import NeighborsClassifier, NeighborsRegressor, ReleasedLabelRegressor
from labeldp.learning.sklearn._neighbors import _candidate_counts, effective_dimension
from labeldp.learning.sklearn._regressor import NumberRows, precisions
from labeldp.mechanisms import draw
from labeldp.privacy.channels import GroupedChannel, ResponseChannel, SubsetChannel

SPACE = dp.Interval(-1.0, 3.0, 0.25)
K, POINTS = SPACE.size, np.array(SPACE.points)
EVEN = np.full(K, 1.0 / K)
SKEWED = 0.7 ** np.arange(K) / np.sum(0.7 ** np.arange(K))
CERTIFICATE = dp.Curator([0.0], SPACE).randomize(dp.RandomizedResponse(SPACE, 1.0)).certificate
CHANNELS = {
    "response": ResponseChannel.at(K, 2.0),
    "subset": SubsetChannel.at(K, 5, 2.0),
    "one-bit": dp.OneBitResponse(SPACE, 1.0).channel(),
    "piecewise": dp.PiecewiseResponse(SPACE, 2.0).channel(),
    "laplace": dp.LaplaceResponse(SPACE, 2.0).channel(),
    "bins": dp.BinResponse(SPACE, 3.0, EVEN).channel(),
}
#: Those whose numbers are unbiased, and those of them that tell squares.
UNBIASED = [name for name in CHANNELS if name != "bins"]
#: Public labels on a fine grid, for scikit-learn's checks.
FINE = dp.Interval(-512.0, 512.0, 0.015625)


def released(labels, channel, seed, space=SPACE):
    """A release of labels with words of a seed."""
    words = np.random.default_rng(seed).integers(0, 2**64, len(labels) * channel.words_per_row, dtype=np.uint64)
    return dp.Release(draw(channel, space.encode(labels), TapeWords(words)), channel, space, CERTIFICATE)


def every_outcome(name):
    """A release with one row for each outcome of a channel, and P(outcome | grid point)."""
    table = CHANNELS[name].table()
    return dp.Release(table.outcomes, CHANNELS[name], SPACE, CERTIFICATE), table.matrix


def line(rows, seed, slope=0.8, noise=0.3):
    """One feature that tells the label, two that do not, and labels."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(rows, 3))
    return features, np.clip(1.0 + slope * features[:, 0] + random.normal(0, noise, rows), -1.0, 3.0)


@pytest.mark.parametrize("name", UNBIASED)
def test_a_gain_is_unbiased_for_every_label(name):
    """Over all outcomes of a channel, a row's gain has the mean of the same on the true label, for each grid point."""
    release, chance = every_outcome(name)
    for predicted in (-0.7, 1.0, 2.9):
        found = chance @ gains_of(release, np.full(len(release), predicted))
        np.testing.assert_allclose(found, (1.0 - POINTS) ** 2 - (predicted - POINTS) ** 2, atol=1e-9)


@pytest.mark.parametrize("name", ["response", "subset"])
def test_absolute_errors_are_those_of_true_labels(name):
    """Of many rows, the absolute error is within five standard errors of that on true labels; 1 in a million else."""
    features, labels = line(4000, 0)
    truth = np.abs(POINTS[SPACE.encode(labels)] - features[:, 0]).mean()
    found = mean_absolute_error(released(labels, CHANNELS[name], 1), features[:, 0])
    assert abs(found.value - truth) < 5 * found.error
    assert found.error < 0.5


def test_public_labels_have_the_ordinary_metrics():
    """On public labels all metrics are the ordinary ones."""
    features, labels = line(200, 0)
    release, true = dp.Release.public(labels, SPACE), POINTS[SPACE.encode(labels)]
    predicted = 1.0 + features[:, 0]
    error = np.mean((predicted - true) ** 2)
    assert mean_squared_error(release, predicted).value == pytest.approx(error)
    assert r2(release, predicted).value == pytest.approx(1.0 - error / np.var(true))
    assert mean_absolute_error(release, predicted).value == pytest.approx(np.abs(predicted - true).mean())
    assert mean_label(release).value == pytest.approx(true.mean())
    assert squared_gain(release, predicted).value == pytest.approx(np.mean((1.0 - true) ** 2) - error)


@pytest.mark.parametrize("name", ["one-bit", "bins"])
def test_bounds_hold_an_error_that_is_not_told(name):
    """If squares are not identified, the error on true labels lies between bounds, which their ends widen by noise.

    Ends of level 0.9999 fail with a chance of 1 in 10 000; the words have a seed.
    """
    features, labels = line(20_000, 3)
    true, predicted = POINTS[SPACE.encode(labels)], np.clip(1.0 + 0.5 * features[:, 0], -1.0, 3.0)
    found = mean_squared_error(released(labels, CHANNELS[name], 4), predicted, level=0.9999)
    error = float(np.mean((predicted - true) ** 2))
    assert isinstance(found, Bounds)
    assert found.low <= found.lower <= found.upper <= found.high
    assert found.lower <= error <= found.upper
    assert found.upper < 4.0  # saying the middle is never more wrong than this


def test_bounds_of_bins_are_exact_in_the_mean():
    """Over all outcomes, the bounds of a squared error are those of the points of the label's bin."""
    release, chance = every_outcome("bins")
    channel = CHANNELS["bins"]
    bins = np.searchsorted(np.array(channel.starts), np.arange(K), side="right") - 1
    rows = [mean_squared_error(release[[place]], [0.4]) for place in range(len(release))]
    lower = chance @ np.array([_uncut(release[[place]], 0.4)[0] for place in range(len(release))])
    upper = chance @ np.array([_uncut(release[[place]], 0.4)[1] for place in range(len(release))])
    assert len(rows) == len(channel.starts) > 1
    for code in range(K):
        errors = (POINTS[bins == bins[code]] - 0.4) ** 2
        inside = POINTS[bins == bins[code]].min() <= 0.4 <= POINTS[bins == bins[code]].max()
        assert lower[code] == pytest.approx(0.0 if inside else errors.min(), abs=1e-9)
        assert upper[code] == pytest.approx(errors.max(), abs=1e-9)


def _uncut(release, predicted):
    """The least and the largest squared error of one released bin, not cut to what errors can be."""
    from labeldp.learning.metrics._numbers import _bin_extremes, _squared_distances  # noqa: PLC0415

    bins = release.channel.bins
    found = _bin_extremes(release, bins, lambda start, end: _squared_distances(np.array([predicted]), start, end))
    return float(found[0][0]), float(found[1][0])


@pytest.mark.parametrize("name", ["one-bit", "piecewise"])
def test_intervals_cover_what_they_say(name):
    """Over 300 draws of labels, intervals of level 0.9 hold the truth in 83 to 96 of 100.

    Words have seeds, so it passes always or never; with others a right interval leaves this with a chance below 1e-3.
    """
    features, labels = line(400, 5)
    true, predicted = POINTS[SPACE.encode(labels)], np.clip(1.0 + 0.5 * features[:, 0], -1.0, 3.0)
    truth = {squared_gain: np.mean((1.0 - true) ** 2 - (predicted - true) ** 2)}
    if name == "piecewise":
        truth |= {mean_squared_error: np.mean((predicted - true) ** 2)}
        truth |= {r2: 1.0 - np.mean((predicted - true) ** 2) / np.var(true)}
    held = dict.fromkeys(truth, 0)
    for seed in range(300):
        release = released(labels, CHANNELS[name], 100 + seed)
        for metric, value in truth.items():
            found = metric(release, predicted, level=0.9)
            held[metric] += found.low <= value <= found.high
    assert all(0.83 < count / 300 < 0.97 for count in held.values()), held


@pytest.mark.usefixtures("as_users_call")
def test_what_is_not_told_is_refused():
    """One bit tells neither the variance nor absolute errors, bins no unbiased number; classes have no numbers."""
    bit, bins = (every_outcome(name)[0] for name in ("one-bit", "bins"))
    with pytest.raises(InputError, match="determine"):
        r2(bit, np.zeros(len(bit)))
    with pytest.raises(InputError, match="absolute errors"):
        mean_absolute_error(bit, np.zeros(len(bit)))
    with pytest.raises(InputError, match="likelihood"):
        ReleasedLabelRegressor(method="unbiased").fit(np.zeros((len(bins), 1)), bins)
    classes = dp.Release.public(["a", "b"], dp.Classes(["a", "b"]))
    for ask in (lambda: mean_label(classes), lambda: ReleasedLabelRegressor().fit([[0.0], [1.0]], classes)):
        with pytest.raises(InputError, match="SoftmaxRegression"):
            ask()
    with pytest.raises(NotTrueLabelsError):
        NeighborsRegressor().fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(InputError, match=r"predicted labels of shape \(2,\), found \(1,\)"):
        squared_gain(bit[:2], [0.0])
    with pytest.raises(InputError, match="finite"):
        squared_gain(bit[:2], [0.0, np.nan])


def test_the_likelihood_is_that_of_a_sum_over_cells():
    """Log likelihood and slope are those of a plain sum over grid points, for every channel."""
    for name in CHANNELS:
        release, _ = every_outcome(name)
        release = release[:20]
        centres = np.linspace(-1.2, 3.2, len(release))
        edges = np.concatenate([[-np.inf], (POINTS[1:] + POINTS[:-1]) / 2, [np.inf]])

        def plain(centres, release=release, edges=edges):
            mass = np.diff(norm.cdf((edges - centres[:, None]) / 0.4), axis=1)
            return np.log((release.likelihood() * mass).sum(axis=1))

        found, slopes = Latent.of(release).at(centres, 0.4)
        by_hand = (plain(centres + 1e-5) - plain(centres - 1e-5)) / 2e-5
        np.testing.assert_allclose(slopes, by_hand, atol=1e-6)
        np.testing.assert_allclose(found - found[0], plain(centres) - plain(centres)[0], atol=1e-9)


def test_a_clipped_mean_is_that_of_many_draws():
    """The mean of a normal number that is put on the nearer end is that of a million draws, to a hundredth."""
    draws = np.random.default_rng(0).normal(0.0, 0.7, 1_000_000)
    for centre in (-2.0, -0.9, 1.0, 2.8):
        expected = np.clip(centre + draws, -1.0, 3.0).mean()
        assert clipped_mean(np.array([centre]), 0.7, -1.0, 3.0)[0] == pytest.approx(expected, abs=0.01)
    assert clipped_mean(np.array([-2.0]), 0.0, -1.0, 3.0).tolist() == [-1.0]


@pytest.mark.parametrize("name", CHANNELS)
def test_a_slope_is_found_through_every_channel(name):
    """A linear fit to 20 000 released labels finds the slope 0.8 to a fifth, with bins too, whose numbers shrink it.

    The largest deviation of a slope is below 0.03, that of the subset, so a false alarm is below 1e-6.
    """
    features, labels = line(20_000, 6)
    release = released(labels, CHANNELS[name], 7)
    model = ReleasedLabelRegressor(LinearRegression()).fit(features, release)
    assert model.method_ in ({"likelihood", "decoded"} if name == "bins" else {"unbiased"})
    ends = model.predict([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert (ends[1] - ends[0]) / 2 == pytest.approx(0.8, abs=0.16)


@pytest.mark.parametrize("prior", [EVEN, SKEWED], ids=["even", "skewed"])
def test_bins_are_decoded_to_their_means(prior):
    """A decoded number has the mean label of the label's bin as its mean, where as many are released as expected."""
    channel = dp.BinResponse(SPACE, 3.0, prior).channel()
    chance = channel.table().matrix
    outcomes = np.repeat(np.arange(len(channel.starts)), np.round(1e6 * prior @ chance).astype(int))
    release = dp.Release(outcomes.astype(channel.table().outcomes.dtype), channel, SPACE, CERTIFICATE)
    bins = np.searchsorted(np.array(channel.starts), np.arange(K), side="right") - 1
    means = np.array([np.average(POINTS[bins == b], weights=prior[bins == b]) for b in range(len(channel.starts))])
    numbers = decoded_numbers(release)[np.searchsorted(outcomes, np.arange(len(channel.starts)))]
    np.testing.assert_allclose(chance @ numbers, means[bins], atol=1e-4)


def test_skewed_labels_are_not_taken_for_normal():
    """Of exponential labels in bins, "auto" learns from decoded numbers, with far less error than in other ways."""
    space, random = dp.Interval(0.0, 40.0, 0.5), np.random.default_rng(29)
    features = random.random((6000, 2))
    labels = random.exponential(1.0 + 4.0 * features[:, 0])
    codes = space.encode(np.clip(labels, 0.0, 40.0))
    prior = (np.bincount(codes, minlength=space.size) + 1.0) / (len(codes) + space.size)
    release = released(np.clip(labels, 0.0, 40.0), dp.BinResponse(space, 3.0, prior).channel(), 30, space)
    errors = {}
    for method in ("auto", "likelihood", "plain"):
        model = ReleasedLabelRegressor(LinearRegression(), method=method).fit(features, release)
        errors[method] = np.mean((model.predict(features) - 1.0 - 4.0 * features[:, 0]) ** 2)
        if method == "auto":
            assert model.method_ == "decoded"
            assert model.deviation_ == 0.0
    assert errors["auto"] < 0.1
    assert errors["auto"] < 0.5 * min(errors["likelihood"], errors["plain"])


def test_predictions_that_noise_explains_are_drawn_to_the_mean():
    """A deep tree on features that tell nothing says the mean, and one that tells the label says most of it."""
    features, labels = line(3000, 10)
    release = released(labels, CHANNELS["piecewise"], 11)
    tree = DecisionTreeRegressor(min_samples_leaf=30, random_state=0)
    nothing = ReleasedLabelRegressor(tree).fit(features[:, 1:], release)
    something = ReleasedLabelRegressor(tree).fit(features, release)
    assert nothing.share_ < 0.2
    assert 0.6 < something.share_ <= 1.0
    assert np.ptp(nothing.predict(features[:, 1:])) < 0.5 * np.ptp(something.predict(features))
    assert ReleasedLabelRegressor(tree, shrink=False).fit(features, release).share_ == 1.0


def test_what_is_behind_at_once_is_tried_no_further(monkeypatch):
    """Of a line, trees are fitted to one part of five alone; of a step, to all parts and then to all rows."""
    fitted, kinds = NumberRows.fitted, []
    monkeypatch.setattr(
        NumberRows, "fitted", lambda rows, each: kinds.append(type(each).__name__) or fitted(rows, each)
    )
    features, labels = line(500, 24)
    for true, fits in ((labels, 1), (np.where(abs(features[:, 0]) < 0.7, -1.0, 3.0), 6)):
        kinds.clear()
        ReleasedLabelRegressor().fit(features, dp.Release.public(true, SPACE))
        assert kinds.count("HistGradientBoostingRegressor") == fits
        assert len(kinds) == (11 if fits > 1 else 7)


def test_rows_with_less_noise_count_more():
    """Rows of units with several rows, which have more noise each, have weights by one over their variance."""
    laws = tuple(ResponseChannel.at(K, epsilon) for epsilon in (2.0, 1.0))
    channel = GroupedChannel(K, laws, (1, 2), np.arange(400, dtype=np.int32) % 2)
    release = released(np.ones(400), channel, 15)
    weights = precisions(release, release.numbers())
    noise = release.noise_variance()
    assert weights.mean() == pytest.approx(1.0)
    assert 1.0 < weights[0] / weights[1] < noise[1] / noise[0]


def test_model_selection_takes_a_release_of_numbers():
    """A grid search on released labels prefers the tree that is not too deep, by the unbiased gain."""
    features, labels = line(3000, 16)
    release = released(labels, CHANNELS["piecewise"], 17)
    model = ReleasedLabelRegressor(DecisionTreeRegressor(random_state=0), shrink=False)
    search = GridSearchCV(model, {"estimator__min_samples_leaf": [1, 200]}, scoring=squared_scorer, cv=3)
    assert search.fit(features, release).best_params_ == {"estimator__min_samples_leaf": 200}
    assert search.best_estimator_.score(features, release) == pytest.approx(
        squared_gain(release, search.predict(features)).value
    )


@pytest.mark.parametrize("columns", [2, 9])
def test_neighbours_of_public_labels_are_scikit_learns(columns):
    """On public labels both learners are scikit-learn's, with a tree and with all distances."""
    random = np.random.default_rng(0)
    features, fresh = random.normal(size=(300, columns)), random.normal(size=(50, columns))
    labels = POINTS[SPACE.encode(1.0 + features[:, 0])]
    ours = NeighborsRegressor(k=7).fit(features, dp.Release.public(labels, SPACE))
    np.testing.assert_allclose(ours.predict(fresh), KNeighborsRegressor(7).fit(features, labels).predict(fresh))
    codes = (features[:, 0] > 0).astype(int)
    kind = NeighborsClassifier(k=7).fit(features, dp.Release.public(codes, dp.Classes([0, 1])))
    np.testing.assert_allclose(
        kind.predict_proba(fresh), KNeighborsClassifier(7).fit(features, codes).predict_proba(fresh), atol=1e-9
    )


def test_the_number_of_neighbours_is_that_of_a_plain_search():
    """The number that is chosen has the least squared error on released labels of rows left out, found one by one."""
    features, labels = line(250, 18)
    release = released(labels, CHANNELS["response"], 19)
    numbers = release.numbers()
    apart = ((features[:, None] - features) ** 2).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    order = np.argsort(apart, axis=1)
    counts = _candidate_counts(125)
    errors = [np.mean((numbers[order[:, :count]].mean(axis=1) - numbers) ** 2) for count in counts]
    assert NeighborsRegressor().fit(features, release).k_ == counts[int(np.argmin(errors))]
    assert counts[0] == 1
    assert 60 < counts[-1] <= 125
    assert NeighborsRegressor(k="theory").fit(features, release).k_ > 10


def test_theory_counts_directions_and_averages_noise():
    """Copies of columns, sparse or shifted, add no direction; noise is averaged to a quarter of what labels vary by."""
    random = np.random.default_rng(25)
    even = random.choice([-1.0, 1.0], (4096, 4))
    for points in (even, np.repeat(even, 3, axis=1), even + 100.0, csr_array(even)):
        assert effective_dimension(points) == pytest.approx(4.0, rel=0.02)
    uneven = effective_dimension(even * np.sqrt([4.0, 1.0, 1.0, 1e-9]))
    assert uneven == pytest.approx(36 / 18, rel=0.05)
    assert effective_dimension(np.ones((5, 2))) == 1.0
    features, labels = random.normal(size=(400, 20)), line(400, 26)[1]
    release = released(labels, dp.OneBitResponse(SPACE, 0.5).channel(), 27)
    noise, vary = release.noise_variance().mean(), label_variance(release, release.numbers())
    assert NeighborsRegressor(k="theory").fit(features, release).k_ == int(np.ceil(4 * noise / vary)) > 150
    told = dp.Release.public(np.arange(4096) % 2, dp.Classes([0, 1]))
    assert NeighborsClassifier(k="theory").fit(even[:, :1], told).k_ > 1
    release = released(np.arange(4096) % 2, ResponseChannel.at(2, 0.25), 28, dp.Classes([0, 1]))
    assert NeighborsClassifier(k="theory").fit(random.normal(size=(4096, 40)), release).k_ > 60  # 4 / 0.25**2 = 64
