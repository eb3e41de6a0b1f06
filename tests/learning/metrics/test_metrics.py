import itertools

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, recall_score, roc_auc_score
from sklearn.metrics import confusion_matrix as sklearn_confusion
from sklearn.metrics import log_loss as sklearn_log_loss

from labeldp import Classes, ClassProbabilities, Curator, GroupResponse, RandomizedResponse, Release
from labeldp.errors import InputError, LabelError, NotTrueLabelsError
from labeldp.learning import metrics
from labeldp.learning.metrics._estimates import quotient_estimates

pytestmark = pytest.mark.filterwarnings("ignore::labeldp.learning.metrics.UnitsWarning")  # single rows are meant
CLASSES = 3
DISTRIBUTION = np.array([0.2, 0.5, 0.3])


@pytest.fixture(scope="module")
def public():
    """Public labels of 300 rows, with predictions, tied scores and probabilities."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, CLASSES, 300)
    chance = rng.dirichlet(np.ones(CLASSES), 300)
    scores = np.round(rng.normal(size=300) + (codes == 2), 1)
    space = Classes(["a", "b", "c"])
    names = np.array(space.points)
    return names[codes], names[rng.integers(0, CLASSES, 300)], chance, scores, Release.public(names[codes], space)


def outcomes_of(channel, make_release, rows):
    """Every released outcome of the first rows as a release, with its probability given each choice of classes."""
    tables = [channel.table(row) for row in range(rows)]
    for places in itertools.product(*(range(len(table.outcomes)) for table in tables)):
        codes = np.array([table.outcomes[place] for table, place in zip(tables, places, strict=True)])
        chances = [table.matrix[:, place] for table, place in zip(tables, places, strict=True)]
        yield make_release(codes, channel.take(np.arange(rows))), chances


@pytest.mark.parametrize("predicted", range(CLASSES))
def test_accuracy_is_unbiased(full_kind, make_channel, make_release, predicted):
    """Over all outcomes of a row, the estimate has the mean 1 if the prediction is true, and 0 otherwise."""
    mean = np.zeros(CLASSES)
    for release, (chance,) in outcomes_of(make_channel(full_kind, CLASSES, 1), make_release, 1):
        mean += chance * metrics.accuracy(release, [predicted]).value
    np.testing.assert_allclose(mean, np.eye(CLASSES)[predicted], atol=1e-12)


def test_log_loss_is_unbiased(full_kind, make_channel, make_release):
    """Over all outcomes of a row, the estimate has the cross entropy of the true class as its mean."""
    mean = np.zeros(CLASSES)
    for release, (chance,) in outcomes_of(make_channel(full_kind, CLASSES, 1), make_release, 1):
        mean += chance * metrics.log_loss(release, [DISTRIBUTION]).value
    np.testing.assert_allclose(mean, -np.log(DISTRIBUTION), rtol=1e-10)


def test_equal_probabilities_have_a_log_loss_without_error(full_kind, make_channel, randomized):
    """A model that knows nothing has the log loss log k, whatever was released."""
    release = randomized(np.arange(30) % CLASSES, make_channel(full_kind, CLASSES, 30), 24)
    found = metrics.log_loss(release, np.full((30, CLASSES), 1 / CLASSES))
    assert (found.value, found.error) == (pytest.approx(np.log(CLASSES)), pytest.approx(0.0, abs=1e-12))


def test_the_confusion_matrix_is_unbiased(full_kind, make_channel, make_release):
    """Over all outcomes of two rows, the entries have the true counts as their means, for all true classes."""
    mean = np.zeros((CLASSES, CLASSES, CLASSES, CLASSES))
    for release, (one, two) in outcomes_of(make_channel(full_kind, CLASSES, 2), make_release, 2):
        mean += np.einsum("a,b,ij->abij", one, two, metrics.confusion_matrix(release, [0, 2]).value)
    for one, two in itertools.product(range(CLASSES), repeat=2):
        expected = np.zeros((CLASSES, CLASSES))
        expected[one, 0] += 1
        expected[two, 2] += 1
        np.testing.assert_allclose(mean[one, two], expected, atol=1e-11)


def pairs_of(weight, scores):
    """The weight of ordered pairs of different rows that are in order, and of all."""
    ordered = everything = 0.0
    for i, j in itertools.permutations(range(len(weight)), 2):
        pair = weight[i] * (1 - weight[j])
        ordered += pair * (1.0 if scores[i] > scores[j] else 0.5 if scores[i] == scores[j] else 0.0)
        everything += pair
    return np.array([ordered, everything])


def test_auc_is_that_of_all_pairs(full_kind, make_channel, randomized):
    """Value and standard error by sorting equal those of a loop over pairs, with ties."""
    rng, n = np.random.default_rng(1), 80
    codes = rng.integers(0, CLASSES, n)
    release = randomized(codes, make_channel(full_kind, CLASSES, n, 5.0), 2)
    scores = np.round(rng.normal(size=n) + (codes == 1), 1)
    weight = release.unbiased()[:, 1]
    ordered, everything = pairs_of(weight, scores)
    found = metrics.auc(release, scores, 1)
    assert found.value == pytest.approx(ordered / everything, rel=1e-11)
    order = (scores[:, None] > scores) + 0.5 * (scores[:, None] == scores)
    kernel = weight[:, None] * (1 - weight) * (order - found.value)
    np.fill_diagonal(kernel, 0.0)
    projection = (kernel + kernel.T).sum(axis=1)
    assert projection.sum() == pytest.approx(0.0, abs=1e-8)
    assert found.error == pytest.approx(np.sqrt(n) * projection.std(ddof=1) / everything, rel=1e-10)


def test_public_labels_give_scikit_learns_metrics(public):
    """On public labels every metric is scikit-learn's."""
    labels, predicted, chance, scores, release = public
    names = ["a", "b", "c"]
    assert metrics.accuracy(release, predicted).value == pytest.approx(accuracy_score(labels, predicted))
    assert metrics.log_loss(release, chance).value == pytest.approx(sklearn_log_loss(labels, chance))
    gain = metrics.log_likelihood(release, chance).value
    assert gain == pytest.approx(np.log(CLASSES) - sklearn_log_loss(labels, chance))
    counts = metrics.confusion_matrix(release, predicted).value
    np.testing.assert_allclose(counts, sklearn_confusion(labels, predicted, labels=names), atol=1e-9)
    np.testing.assert_allclose(
        metrics.recall(release, predicted).value, recall_score(labels, predicted, average=None, labels=names)
    )
    for name, sign in zip(names, (-1, -1, 1), strict=True):
        found = metrics.auc(release, sign * scores, name)
        assert found.value == pytest.approx(roc_auc_score(labels == name, sign * scores))
    for bins in (1, 4, 10):
        found = metrics.calibration(release, chance, "b", bins=bins)
        frequency, predicted_mean = calibration_curve(labels == "b", chance[:, 1], n_bins=bins)
        np.testing.assert_allclose(found.frequency.value, frequency, atol=1e-12)
        np.testing.assert_allclose(found.predicted, predicted_mean)
        assert found.rows.sum() == 300


def test_public_labels_give_the_interval_of_clopper_and_pearson():
    """On 10 public rows of which 8 are predicted the interval is the published 0.444 to 0.975."""
    space = Classes([False, True])
    found = metrics.accuracy(Release.public([True] * 10, space), [True] * 8 + [False] * 2)
    assert (found.low, found.high) == (pytest.approx(0.4439, abs=1e-4), pytest.approx(0.9748, abs=1e-4))
    assert found.error == pytest.approx(np.sqrt(0.8 * 0.2 / 9))


def test_errors_of_counts_are_those_of_the_unbiased_vectors(full_kind, make_channel, randomized):
    """The errors of counts, recall, accuracy and log loss are the spread of what rows add to them, noise included."""
    rng, n = np.random.default_rng(25), 200
    codes, predicted = rng.integers(0, CLASSES, n), rng.integers(0, CLASSES, n)
    chance = rng.dirichlet(np.ones(CLASSES), n)
    release = randomized(codes, make_channel(full_kind, CLASSES, n, 3.0), 26)
    vectors = release.unbiased()
    counts, shares = metrics.confusion_matrix(release, predicted), metrics.recall(release, predicted)
    for i, j in np.ndindex(CLASSES, CLASSES):
        assert counts.error[i, j] == pytest.approx(np.sqrt(n) * np.std(vectors[:, i] * (predicted == j), ddof=1))
    for i in range(CLASSES):
        residual = vectors[:, i] * ((predicted == i) - shares.value[i]) / vectors[:, i].sum()
        assert shares.error[i] == pytest.approx(np.sqrt(n) * residual.std(ddof=1))
    hit = vectors[np.arange(n), predicted]
    assert metrics.accuracy(release, predicted).error == pytest.approx(hit.std(ddof=1) / np.sqrt(n))
    targets = vectors + (1 - vectors.sum(axis=1, keepdims=True)) / CLASSES
    losses = -(targets * np.log(chance)).sum(axis=1)
    assert metrics.log_loss(release, chance).error == pytest.approx(losses.std(ddof=1) / np.sqrt(n))


#: P(true class, predicted class), the scores' shift for class 2, and a model's probabilities by its prediction.
JOINT = np.array([[0.25, 0.05, 0.02], [0.08, 0.25, 0.05], [0.05, 0.05, 0.20]])
SHIFT = 1.0
MODEL = np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.15, 0.75]])


def truths(channel):
    """Population value of each metric."""
    table = channel.table()
    values = channel.likelihood(table.outcomes)
    gains = np.log(values @ MODEL.T) - np.log(values.mean(axis=1, keepdims=True))
    return {
        "accuracy": np.trace(JOINT),
        "log_loss": -(JOINT * np.log(MODEL.T)).sum(),
        "log_likelihood": (JOINT * (table.matrix @ gains)).sum(),
        "confusion": JOINT[1, 0],
        "recall": JOINT[1, 1] / JOINT[1].sum(),
        "auc": ndtr(SHIFT / np.sqrt(2)),
        "calibration": JOINT[2, 1] / JOINT[:, 1].sum(),
    }


def intervals(release, predicted, scores, level):
    """The interval of each metric."""
    chance, n = MODEL[predicted], len(release)
    count = metrics.confusion_matrix(release, predicted, level=level)[1, 0]
    found = {
        "accuracy": metrics.accuracy(release, predicted, level=level),
        "log_loss": metrics.log_loss(release, chance, level=level),
        "log_likelihood": metrics.log_likelihood(release, chance, level=level),
        "confusion": metrics.Estimate(count.value / n, count.error / n, count.low / n, count.high / n),
        "recall": metrics.recall(release, predicted, level=level)[1],
        "auc": metrics.auc(release, scores, 2, level=level),
        "calibration": metrics.calibration(release, chance, 2, level=level).frequency[1],
    }
    return {name: (each.low, each.high) for name, each in found.items()}


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("kind", ["response", "symmetric", "subset", "grouped"])
def test_intervals_cover_what_they_say(kind, make_channel, randomized):
    """Over 400 samples of rows and labels, intervals of level 0.9 hold the truth in 84 to 97 of 100.

    Words and rows have seeds, so it passes always or never. With other seeds a right interval, whose chance lies
    between 0.885 and 0.93, would leave that range with probability below 0.5 percent for each metric; the exact
    intervals of accuracy and calibration may cover more. Intervals of level 0.8 or 0.98 leave it
    with probability above 90 percent.
    """
    n, samples = 600, 400
    rng = np.random.default_rng(3)
    channel = make_channel(kind, CLASSES, n, 3.0)
    known = truths(channel) if kind != "grouped" else None
    if known is None:  # half of the rows have each law
        each = [truths(law) for law in channel.channels]
        known = {name: (each[0][name] + each[1][name]) / 2 for name in each[0]}
    held = dict.fromkeys(known, 0)
    for seed in range(samples):
        cells = rng.choice(9, size=n, p=JOINT.ravel())
        codes, predicted = cells // 3, cells % 3
        scores = rng.normal(size=n) + SHIFT * (codes == 2)
        found = intervals(randomized(codes, channel, 1000 + seed), predicted, scores, 0.9)
        for name, (low, high) in found.items():
            held[name] += low <= known[name] <= high
    for name, count in held.items():
        most = 0.99 if name in ("accuracy", "calibration") and kind != "grouped" else 0.97
        assert 0.84 <= count / samples <= most, name


def test_the_interval_of_a_quotient_is_that_of_a_search():
    """It is the hull of the quotients on a grid that sums with such variances allow; without any, see below.

    Then it is the nearest end where the divisor is clearly positive, and else everything. It always holds the estimate,
    or the end nearest to it, which the allowed quotients may leave out where the divisor may be zero.
    """
    rng, forms = np.random.default_rng(23), set()
    grid, factors = np.linspace(0.0, 1.0, 4001), rng.normal(size=(2000, 2, 2))
    spread = factors @ factors.transpose(0, 2, 1)
    top, bottom = rng.normal(scale=4.0, size=2000), np.abs(rng.normal(scale=3.0, size=2000))
    found = quotient_estimates(top, bottom, spread, np.ones(2000, dtype=np.bool_), 0.95)
    for i in range(2000):
        variance = spread[i, 0, 0] - 2 * grid * spread[i, 0, 1] + grid**2 * spread[i, 1, 1]
        within = (top[i] - grid * bottom[i]) ** 2 <= 1.959964**2 * variance
        if within.any():
            nearest = np.clip(found.value[i], 0, 1)
            expected = min(grid[within].min(), nearest), max(grid[within].max(), nearest)
        elif bottom[i] ** 2 > 1.959964**2 * spread[i, 1, 1]:
            if 0 <= found.value[i] <= 1:
                continue  # the interval lies between two places of the grid
            expected = (np.clip(found.value[i], 0, 1),) * 2
        else:
            expected = (0.0, 1.0)
        assert (found.low[i], found.high[i]) == (
            pytest.approx(expected[0], abs=1e-3),
            pytest.approx(expected[1], abs=1e-3),
        )
        forms.add((bottom[i] > 1.959964 * spread[i, 1, 1] ** 0.5, within.any(), within.all(), within[0], within[-1]))
    assert len(forms) >= 9
    unknown = quotient_estimates(top, bottom, spread, np.zeros(2000, dtype=np.bool_), 0.95)
    assert np.isnan(unknown.value).all()
    assert (unknown.low.max(), unknown.high.min(), unknown.error.min()) == (0.0, 1.0, np.inf)


def test_the_upper_bound_is_reached(make_channel, randomized):
    """Where every true class is a candidate of three or four, the accuracy is the upper bound, within 5 errors."""
    rng = np.random.default_rng(7)
    rows = np.arange(40_000) % 4 >= 2
    codes = np.where(rng.random(40_000) < 0.5, 3, 2)
    predicted = np.full(40_000, 3)
    release = randomized(codes, make_channel("candidates", 4, 40_000), 8)[np.flatnonzero(rows)]
    found = metrics.accuracy_bounds(release, predicted[rows])
    assert found.upper == pytest.approx(np.mean(codes[rows] == 3), abs=5 * (found.high - found.upper) / 1.96)


def test_the_lower_bound_is_reached(make_channel, randomized):
    """If no true class that was not predicted is a candidate, the accuracy is the lower bound.

    Among three candidates of four the released class is then a guess; within 5 errors.
    """
    rng = np.random.default_rng(9)
    rows = np.flatnonzero(np.arange(80_000) % 4 == 2)
    codes = np.where(rng.random(80_000) < 0.6, 3, 0)
    release = randomized(codes, make_channel("candidates", 4, 80_000), 10)[rows]
    found = metrics.accuracy_bounds(release, np.full(len(rows), 3))
    assert found.lower == pytest.approx(np.mean(codes[rows] == 3), abs=5 * (found.lower - found.low) / 1.96)
    assert found.upper > found.lower + 0.1


def test_bounds_meet_where_all_classes_are_candidates(full_kind, make_channel, randomized):
    """If the channel identifies true labels, both bounds are the accuracy."""
    codes = np.random.default_rng(11).integers(0, CLASSES, 2000)
    release = randomized(codes, make_channel(full_kind, CLASSES, 2000, 3.0), 12)
    found = metrics.accuracy_bounds(release, codes)
    value = min(metrics.accuracy(release, codes).value, 1.0)
    assert (found.lower, found.upper) == (pytest.approx(value), pytest.approx(value))


def test_a_single_candidate_says_nothing(make_channel, randomized):
    """Rows with one candidate have bounds of 0 and 1, whatever is predicted."""
    release = randomized(np.full(40, 3), make_channel("candidates", 4, 40), 19)[np.arange(40) % 4 == 0]
    for predicted in (0, 3):
        found = metrics.accuracy_bounds(release, np.full(10, predicted))
        assert (found.lower, found.upper) == (0.0, 1.0)


def test_more_than_eight_classes_are_read_from_their_own_bytes(make_channel, randomized):
    """With 19 classes, in three bytes, accuracy is the mean of the unbiased vectors' entries."""
    codes = np.random.default_rng(20).integers(0, 19, 200)
    release = randomized(codes, make_channel("subset", 19, 200), 21)
    expected = release.unbiased()[np.arange(200), codes].mean()
    assert metrics.accuracy(release, codes).value == pytest.approx(expected, rel=1e-10)


def test_rows_with_all_candidates_are_identified(make_channel, randomized):
    """Rows whose candidates are all classes have the metrics of randomized response."""
    codes = np.random.default_rng(13).integers(0, 4, 4000)
    rows = np.flatnonzero(np.arange(4000) % 4 == 3)
    release = randomized(codes, make_channel("candidates", 4, 4000, 3.0), 14)[rows]
    found = metrics.accuracy(release, codes[rows])
    assert found.low < 1.0 <= found.high
    assert found.value == pytest.approx(1.0, abs=6 * found.error)


def test_groups_of_classes_bound_the_accuracy():
    """The share of true classes in predicted groups is the most, the part of it in groups of one class the least."""
    rng, space = np.random.default_rng(23), Classes(range(4))
    true = rng.integers(0, 4, 40_000)
    predicted = np.where(rng.random(40_000) < 0.6, true, rng.integers(0, 4, 40_000))
    groups = [[[0], [1, 2, 3]], [[0, 1], [2, 3]], [[0], [1], [2], [3]], [[0, 1, 2, 3]]]
    number = np.array([[0, 1, 1, 1], [0, 0, 1, 1], [0, 1, 2, 3], [0, 0, 0, 0]])
    rows = np.arange(40_000) % 4
    release = Curator(true, space).randomize(GroupResponse(space, 2.0, groups=[groups[row] for row in rows]))
    found = metrics.accuracy_bounds(release, predicted)
    right = number[rows, true] == number[rows, predicted]
    alone = (number[rows] == number[rows, predicted][:, None]).sum(axis=1) == 1
    error = (found.high - found.upper) / 1.959964
    assert found.upper == pytest.approx(right.mean(), abs=6 * error)
    assert found.lower == pytest.approx((right & alone).mean(), abs=6 * error)
    assert found.lower < (true == predicted).mean() < found.upper
    with pytest.raises(InputError, match="found rows with groups of classes; use log_likelihood, or accuracy_bounds"):
        metrics.accuracy(release, predicted)


def test_rows_with_candidates_are_refused(make_channel, randomized):
    """Unbiased metrics say that rows with candidates do not identify them, and what to use; the likelihood works."""
    codes = np.zeros(8, dtype=np.int32)
    release = randomized(codes, make_channel("candidates", 4, 8), 15)
    chance = np.full((8, 4), 0.25)
    for ask in (
        lambda: metrics.accuracy(release, codes),
        lambda: metrics.log_loss(release, chance),
        lambda: metrics.confusion_matrix(release, codes),
        lambda: metrics.recall(release, codes),
        lambda: metrics.auc(release, chance[:, 0], 0),
        lambda: metrics.calibration(release, chance, 0),
    ):
        with pytest.raises(InputError, match=r"found rows with candidates; use log_likelihood, or accuracy_bounds"):
            ask()
    assert metrics.log_likelihood(release, chance).value == pytest.approx(0.0, abs=1e-12)


def test_what_released_labels_leave_open_is_not_a_number(make_release, make_channel):
    """A class without any released label has no recall and no area: NaN, with an interval of all there is."""
    release = make_release(np.zeros(5, dtype=np.int32), make_channel("response", CLASSES, 5))
    found = metrics.recall(release, [0, 1, 2, 0, 0])
    assert np.isnan(found.value[1:]).all()
    assert (found.low[1:].tolist(), found.high[1:].tolist()) == ([0.0, 0.0], [1.0, 1.0])
    area = metrics.auc(release, [1, 2, 3, 4, 5], 1)
    assert np.isnan(area.value)
    assert (area.error, area.low, area.high) == (np.inf, 0.0, 1.0)


def test_a_channel_that_says_little_has_large_errors(make_channel, randomized):
    """At an epsilon of 0.001 the interval of accuracy is all there is."""
    codes = np.random.default_rng(16).integers(0, CLASSES, 100)
    found = metrics.accuracy(randomized(codes, make_channel("response", CLASSES, 100, 0.001), 17), codes)
    assert found.error > 10
    assert (found.low, found.high) == (0.0, 1.0)


def test_one_row_has_an_infinite_error(make_channel, randomized):
    """One row cannot tell its own spread."""
    release = randomized([1], make_channel("response", CLASSES, 1), 18)
    assert metrics.accuracy(release, [1]).error == np.inf
    assert metrics.confusion_matrix(release, [1]).error.min() == np.inf
    assert metrics.log_likelihood(release, [DISTRIBUTION]).error == np.inf
    assert metrics.calibration(release, [DISTRIBUTION], 1).frequency.error.tolist() == [np.inf]
    assert metrics.recall(release, [1]).error.tolist() == [np.inf] * CLASSES
    area = metrics.auc(release, [1.0], 1)
    assert (area.error, area.low, area.high) == (np.inf, 0.0, 1.0)


def test_many_rows_are_taken_in_blocks(public, monkeypatch):
    """Blocks of few rows give what one block gives."""
    _, predicted, chance, _, release = public
    whole = metrics.log_loss(release, chance), metrics.confusion_matrix(release, predicted).value
    monkeypatch.setattr("labeldp._threads.ENTRIES", 21)
    assert metrics.log_loss(release, chance).value == pytest.approx(whole[0].value)
    np.testing.assert_allclose(metrics.confusion_matrix(release, predicted).value, whole[1], atol=1e-9)


def test_estimates_cannot_be_changed(public):
    """Arrays of estimates are read-only, and a single estimate is taken from them by its place."""
    found = metrics.recall(public[4], public[1])
    with pytest.raises(ValueError, match="read-only"):
        found.value[0] = 1.0
    assert len(found) == CLASSES
    assert found[1].value == found.value[1]


def test_scorers_are_the_metrics(public):
    """A scorer gives the metric of a classifier, whatever order its classes have."""
    labels, _, chance, _, release = public
    model = LogisticRegression().fit(chance, labels)
    expected = metrics.log_likelihood(release, model.predict_proba(chance)).value
    assert metrics.log_likelihood_scorer(model, chance, release) == pytest.approx(expected)
    assert metrics.accuracy_scorer(model, chance, release) == pytest.approx(model.score(chance, labels))
    other = Release.public(labels, Classes(["c", "a", "b"]))
    assert metrics.log_likelihood_scorer(model, chance, other) == pytest.approx(expected)


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (
            lambda r: metrics.accuracy(r, np.zeros(300, int)),
            LabelError,
            r"predicted classes, such as 'a', found whole numbers; .*y\.array\(release\.space\.points\)\[numbers\]",
        ),
        (lambda r: metrics.accuracy(r, ["a"]), InputError, "a prediction for each of 300 released labels, found 1"),
        (lambda r: metrics.accuracy(r, ["x"] * 300), LabelError, "none of the 3 declared classes"),
        (lambda r: metrics.accuracy(r, ["a"] * 300, level=1.0), InputError, "expected a level "),
        (lambda r: metrics.recall(r, ["a"] * 300, level=True), InputError, "expected a level "),
        (lambda r: metrics.log_loss(r, [[1.0]]), InputError, r"probabilities of shape \(300, 3\), found \(1, 1\)"),
        (lambda r: metrics.log_loss(r, np.full((300, 3), 0.3)), InputError, "sum to 1 in every row, found others"),
        (lambda r: metrics.log_likelihood(r, np.full((300, 3), np.nan)), InputError, "finite probabilities"),
        (lambda r: metrics.log_likelihood(r, np.tile([-1, 1, 1], (300, 1))), InputError, "of at least 0"),
        (lambda r: metrics.log_likelihood(r, "much"), InputError, "probabilities as numbers"),
        (lambda r: metrics.auc(r, np.zeros(299), "a"), InputError, r"scores of shape \(300,\), found \(299,\)"),
        (lambda r: metrics.auc(r, np.zeros(300), "x"), LabelError, "declared classes"),
        (lambda r: metrics.calibration(r, np.full(299, 0.5), "a"), InputError, r"of shape \(300,\), found \(299,\)"),
        (lambda r: metrics.calibration(r, np.full(300, 1.5), "a"), InputError, "probabilities between 0 and 1"),
        (lambda r: metrics.calibration(r, np.full(300, 0.5)), InputError, r"probabilities of shape \(300, 3\)"),
        (lambda r: metrics.calibration(r, np.eye(3)[[0] * 300], "a", bins=0), InputError, "bins to be a whole number"),
        (lambda r: metrics.accuracy(r[:0], []), InputError, "at least one row, found none"),
        (lambda r: metrics.accuracy_bounds(r[:0], []), InputError, "at least one row, found none"),
        (lambda _: metrics.accuracy(["a"], ["a"]), NotTrueLabelsError, "expected a Release as labels, found list"),
        (lambda _: metrics.log_likelihood(["a"], [[1.0]]), NotTrueLabelsError, "expected a Release as labels"),
        (lambda _: metrics.accuracy_bounds(["a"], ["a"]), NotTrueLabelsError, "expected a Release as labels"),
    ],
)
def test_what_cannot_be_used_is_refused(public, ask, error, message):
    """Lengths, shapes, classes, probabilities, levels and bare labels that cannot be used are named."""
    with pytest.raises(error, match=message):
        ask(public[4])


def test_the_column_of_another_class_is_told():
    """Named columns are told apart by their class; a single column that shows the reverse is warned of."""
    labels = np.repeat(["no", "yes"], 200)
    chance = np.column_stack([1 - np.linspace(0, 1, 400), np.linspace(0, 1, 400)])
    release = Curator(labels, Classes(["no", "yes"])).randomize(RandomizedResponse(Classes(["no", "yes"]), 2.0))
    found = metrics.auc(release, chance, "yes")
    assert found == metrics.auc(release, chance[:, 1], "yes")
    assert found == metrics.auc(release, ClassProbabilities(chance[:, ::-1], ["yes", "no"]), "yes")
    with pytest.warns(UserWarning, match="pass the column of that class in model.classes_"):
        metrics.auc(release, chance[:, 0], "yes")
    swapped = Release(release.codes, release.channel, Classes(["yes", "no"]), release.certificate)
    with pytest.raises(InputError, match="sorted"):
        metrics.auc(swapped, chance, "yes")


def test_calibration_takes_the_column_of_a_class(public):
    """The column of a class is as good as all columns."""
    chance, release = public[2], public[4]
    found, whole = (metrics.calibration(release, each, "b", bins=4) for each in (chance[:, 1], chance))
    np.testing.assert_array_equal(found.predicted, whole.predicted)
    np.testing.assert_array_equal(found.frequency.value, whole.frequency.value)


def test_what_is_shown_of_an_estimate_is_in_its_range():
    """An area above 1 and a loss below 0 are clipped where people read them, and NaN is said to be unknown."""
    assert metrics.Estimate(1.149, 0.2, 0.76, 1.0).shown == 1.0
    assert str(metrics.Estimate(1.149, 0.2, 0.76, 1.0)) == "1 (0.76 to 1)"
    assert str(metrics.Estimate(-0.064, 0.05, 0.0, 0.03)) == "0 (0 to 0.03)"
    assert str(metrics.Estimate(float("nan"), float("inf"), 0.0, 1.0)) == "cannot be told (0 to 1)"


def test_only_rows_of_one_group_are_compared():
    """Scores that are right within each of two folds have an area of 1, though one model's are all larger."""
    release = Release.public(["no", "yes", "no", "yes"], Classes(["no", "yes"]))
    scores, folds = [0.1, 0.2, 0.8, 0.9], np.array([0, 0, 1, 1])
    assert metrics.auc(release, scores, "yes").value == pytest.approx(0.75)
    assert metrics.auc(release, scores, "yes", groups=folds).value == pytest.approx(1.0)
    with pytest.raises(InputError, match="a group for each of 4 rows"):
        metrics.auc(release, scores, "yes", groups=[0, 1])


def test_a_log_loss_is_not_below_zero():
    """However low the estimate, the interval ends at zero."""
    space = Classes(["no", "yes"])
    release = Curator(["no", "yes"] * 20, space).randomize(RandomizedResponse(space, 0.2))
    held = release.class_channel.holds(release.codes, np.ones(40, dtype=int))
    found = metrics.log_loss(release, np.where(np.arange(2) == held[:, None], 0.999, 0.001))
    assert found.value < 0.0
    assert found.low == 0.0 <= found.high


def test_an_empty_cell_may_hold_a_few_rows():
    """No row of a hundred public ones is no proof that there are none: at most 3.6 of 100 (Clopper and Pearson)."""
    release = Release.public(["no"] * 100 + ["yes"] * 100, Classes(["no", "yes"]))
    found = metrics.confusion_matrix(release, ["no"] * 100 + ["yes"] * 100)
    assert found[1, 0].low == 0.0
    assert found[1, 0].high == pytest.approx(3.62, abs=0.01)
    assert found[0, 0].low == pytest.approx(96.38, abs=0.01)
