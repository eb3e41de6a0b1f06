"""Learners from answers about cells: distributions as noise allows, tables and classifiers."""

import dataclasses

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import labeldp as dp
from labeldp.errors import InputError, NotTrueLabelsError
from labeldp.learning.cells import cell_distributions, cluster
from labeldp.learning.sklearn import CellClassifier, ReleasedLabelClassifier, SoftLabelClassifier
from labeldp.mechanisms.queries import ExchangedLabels

SPACE = dp.Classes(["ham", "jam", "spam"])


def names(codes):
    """Class codes as classes."""
    return np.array(SPACE.points)[codes]


def table(rows, cells=6, seed=0):
    """Cells of very different sizes, and labels whose distribution differs from cell to cell."""
    rng = np.random.default_rng(seed)
    numbers = np.minimum(rng.geometric(0.4, rows) - 1, cells - 1)
    shares = rng.dirichlet(np.full(3, 0.5), cells)
    codes = (rng.random(rows)[:, None] > shares.cumsum(axis=1)[numbers]).sum(axis=1).clip(0, 2)
    return numbers, codes


def frequencies(numbers, codes, classes=3):
    """The true distributions of cells."""
    counts = np.stack([np.bincount(numbers[codes == code], minlength=numbers.max() + 1) for code in range(classes)], 1)
    return counts / counts.sum(axis=1, keepdims=True)


def histogram(numbers, codes, epsilon, **options):
    """The answer of a curator."""
    return dp.Curator(names(codes), SPACE).answer(dp.NoisyHistogram(SPACE, epsilon, numbers, **options))


def test_little_noise_gives_the_frequencies():
    """With a large epsilon the distributions of cells are the frequencies of classes in them."""
    numbers, codes = table(2000)
    found = cell_distributions(histogram(numbers, codes, 600.0), numbers)
    np.testing.assert_allclose(found, frequencies(numbers, codes), atol=1e-9)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0])
def test_distributions_are_distributions(epsilon):
    """They are not negative and sum to one, for cells without rows too, which have that of all rows."""
    numbers, codes = table(500)
    found = cell_distributions(histogram(numbers, codes, epsilon, cell_count=9), numbers)
    assert found.shape == (9, 3)
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_allclose(found[6:], np.broadcast_to(found[6], (3, 3)))


def test_noise_that_hides_cells_is_not_believed():
    """Of 200 cells, most of them small, shrunk distributions are nearer to the truth than those of each cell alone.

    Their squared error is about a third; it exceeds half of it with a chance far below 1e-9.
    """
    rng = np.random.default_rng(1)
    numbers = rng.choice(200, 20_000, p=rng.dirichlet(np.full(200, 0.5)))
    numbers[:200] = np.arange(200)
    shares = np.array([0.6, 0.3, 0.1]) + 0.1 * (rng.random((200, 1)) - 0.5) * np.array([1, -1, 0])
    codes = (rng.random(20_000)[:, None] > shares.cumsum(axis=1)[numbers]).sum(axis=1).clip(0, 2)
    answer = histogram(numbers, codes, 0.05)
    error = [
        np.sum((found - frequencies(numbers, codes))[np.bincount(numbers) > 50] ** 2)
        for found in (cell_distributions(answer, numbers), answer.distributions())
    ]
    assert error[0] < 0.5 * error[1]


def test_names_are_believed_as_far_as_rows_allow():
    """A name counts as the exponential mechanism is sure of it where all rows agree: by exp(-epsilon rows / 2)."""
    numbers, codes = np.repeat([0, 1, 2], [500, 4, 1]), np.zeros(505, dtype=int)
    query = dp.NoisyArgmax(SPACE, 1.0, numbers, cell_count=4)
    answer = dp.Curator(names(codes), SPACE).answer(query)
    found = cell_distributions(answer, numbers)
    against = np.exp(-0.5 * np.array([500, 4, 1, 0]))
    np.testing.assert_allclose(found.max(axis=1), 1 / (1 + 2 * against), rtol=1e-6)
    np.testing.assert_array_equal(found[:3].argmax(axis=1), answer.value[:3])
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_allclose(found[3], 1 / 3)


def test_several_common_classes_share_a_cell():
    """The m classes that are named weigh alike, and the others by the odds against a class that leads by rows / m."""
    space, numbers = dp.Classes(range(4)), np.repeat([0, 1], [3000, 3])
    query = dp.NoisyTopK(space, 1.5, numbers, top=2)
    found = cell_distributions(dp.Curator(np.arange(3003) % 2, space).answer(query), numbers)
    np.testing.assert_allclose(found[0], [0.5, 0.5, 0.0, 0.0], atol=1e-12)
    against = np.exp(-1.5 * query.rate(1) / 2**40)
    np.testing.assert_allclose(np.sort(found[1]), np.array([against, against, 1, 1]) / (2 + 2 * against), rtol=1e-9)


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("subsample", [1.0, 0.5])
def test_exchanged_labels_are_corrected_for_flips(subsample):
    """Distributions from exchanged labels have the true shares for their mean, where the mean as released has not.

    The mean over 20 exchanges is within 0.03 of the truth, some six of its standard errors, for both cells.
    """
    space, clusters = dp.Classes(["no", "yes"]), np.repeat([0, 1], 2000)
    codes = np.concatenate([np.arange(2000) < 200, np.arange(2000) < 1700]).astype(int)
    curator = dp.Curator(np.array(space.points)[codes], space, budget=(700.0, 0.5))
    asked = ExchangedLabels(space, dp.PeerExchange(0.2, subsample), clusters, delta=1e-9)
    answers = [curator.answer(asked) for _ in range(20)]
    found = np.mean([cell_distributions(answer, clusters)[:, 1] for answer in answers], axis=0)
    np.testing.assert_allclose(found, [0.1, 0.85], atol=0.03)
    plain = np.mean([answer.value[(clusters == 0) & (answer.value >= 0)].mean() for answer in answers])
    assert plain > 0.2


def test_exchanged_noise_is_refused():
    """Labels that were flipped every second time say nothing."""
    space, clusters = dp.Classes(["no", "yes"]), np.repeat([0, 1], 20)
    answer = dp.Curator(["no", "yes"] * 20, space).answer(
        ExchangedLabels(space, dp.PeerExchange(0.4), clusters, delta=1e-6)
    )
    draw = dataclasses.replace(answer.certificate.draws[0], law=dict(answer.law) | {"flip": str(1 << 63)})
    answer = dataclasses.replace(answer, certificate=dataclasses.replace(answer.certificate, draws=(draw,)))
    with pytest.raises(InputError, match="pure noise"):
        cell_distributions(answer, clusters)


def problem(rows=400, seed=0):
    """Three groups of rows far apart, and their classes."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, rows)
    return 6.0 * np.eye(3, 4)[codes] + rng.normal(size=(rows, 4)), codes


@pytest.mark.parametrize("query", [dp.NoisyHistogram, dp.NoisyArgmax])
def test_a_table_gives_each_row_its_cell(query):
    """Each row has the distribution of its cell, from clusters, from scikit-learn's k-means and from given cells."""
    features, codes = problem()
    clusters = cluster(features, 6)
    answer = dp.Curator(names(codes), SPACE).answer(query(SPACE, 50.0, clusters.numbers, cell_count=6))
    model = CellClassifier(clusters).fit(features, answer)
    np.testing.assert_allclose(
        model.predict_proba(features), cell_distributions(answer, clusters.numbers)[clusters.numbers]
    )
    assert model.predict(features).tolist() == names(codes).tolist()
    assert tuple(model.classes_.tolist()) == SPACE.points
    given = CellClassifier(clusters).fit(features, answer, clusters.numbers)
    np.testing.assert_array_equal(given.distributions_, model.distributions_)
    theirs = KMeans(6, n_init=1, random_state=1).fit(features)
    answer = dp.Curator(names(codes), SPACE).answer(query(SPACE, 50.0, theirs.labels_, cell_count=6))
    assert CellClassifier(theirs).fit(features, answer).predict(features).tolist() == names(codes).tolist()


def test_soft_labels_are_weighted_rows():
    """The classifier is that of rows which stand once for each class, weighted by its share and by the row's weight."""
    features, codes = problem(90)
    numbers = np.arange(90) % 4
    answer = histogram(numbers, codes, 5.0)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 90)
    model = SoftLabelClassifier(LogisticRegression(C=0.1), smallest_weight=0.0).fit(features, answer, numbers, weights)
    soft = cell_distributions(answer, numbers)[numbers] * weights[:, None]
    rows, classes = np.repeat(np.arange(90), 3), np.tile(np.arange(3), 90)
    theirs = LogisticRegression(C=0.1).fit(features[rows], classes, soft.ravel())
    np.testing.assert_allclose(model.predict_proba(features), theirs.predict_proba(features), atol=1e-6)


def test_a_class_that_no_cell_has_is_still_a_class():
    """A class without rows has probability zero, and the columns stay in declared order."""
    features, codes = problem(60)
    numbers = codes.copy()
    answer = histogram(numbers, np.where(codes == 1, 2, codes), 600.0)
    found = SoftLabelClassifier(DecisionTreeClassifier()).fit(features, answer, numbers).predict_proba(features)
    assert found.shape == (60, 3)
    np.testing.assert_array_equal(found[:, 1], 0.0)


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("labels", [["ham", "spam"], np.array([0, 1]), None], ids=["list", "array", "nothing"])
def test_bare_labels_are_refused(labels):
    """Bare labels, and released ones, are refused in fit, with the ways to an answer; in score too."""
    features, cells = np.array([[0.0], [1.0]]), np.array([0, 1])
    clusters = cluster(features, 2)
    public = dp.Release.public(["ham", "spam"], SPACE)
    for refused in (labels, public):
        for fit in (CellClassifier(clusters).fit, SoftLabelClassifier().fit):
            with pytest.raises(NotTrueLabelsError, match=r"expected an Answer as labels, .* get one from Curator"):
                fit(features, refused, cells)
    model = CellClassifier(clusters).fit(features, histogram(cells, np.array([0, 2]), 1.0))
    with pytest.raises(NotTrueLabelsError, match="expected a Release as labels"):
        model.score(features, labels)


def test_other_answers_are_refused():
    """The answer to a question about means says nothing of classes."""
    space = dp.Interval(0.0, 1.0, 0.5)
    answer = dp.Curator([0.0, 1.0], space).answer(dp.NoisyMean(space, 1.0, np.array([0, 1])))
    with pytest.raises(
        InputError,
        match=r"expected an answer of counts of classes or common classes or flipped labels, found that to noisy-mean",
    ):
        SoftLabelClassifier().fit(np.eye(2), answer, np.array([0, 1]))


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("cells", [np.array([0, 1]), np.array([0.0, 1.0, 1.0]), np.array([0, -1, 1]), None])
def test_cells_of_other_rows_are_refused(cells):
    """Cells that are not one whole number for each row are refused."""
    answer = histogram(np.array([0, 1, 1]), np.array([0, 1, 1]), 1.0)
    with pytest.raises(InputError, match="expected the cell of each of the 3 rows that the answer is about"):
        SoftLabelClassifier().fit(np.eye(3), answer, cells)


def test_cells_and_rows_that_the_answer_does_not_know_are_refused():
    """Cells beyond the answer's, and features of another number of rows, are refused."""
    answer = histogram(np.array([0, 1, 1]), np.array([0, 1, 1]), 1.0)
    with pytest.raises(InputError, match="expected cells below 2, the number of cells of the answer, found cell 2"):
        SoftLabelClassifier().fit(np.eye(3), answer, np.array([0, 1, 2]))
    for fit in (SoftLabelClassifier().fit, CellClassifier(cluster(np.eye(3), 2)).fit):
        with pytest.raises(InputError, match="expected the 3 rows that the answer is about, found 4"):
            fit(np.eye(4), answer, np.array([0, 1, 1]))


@pytest.mark.usefixtures("as_users_call")
def test_cells_must_be_given():
    """Soft labels need the cells of rows, and a table needs what gives rows theirs: both are errors in words."""
    answer = histogram(np.array([0, 1, 1]), np.array([0, 1, 1]), 1.0)
    with pytest.raises(InputError, match=r"the cell of each of the 3 rows .* found none; give cells="):
        SoftLabelClassifier().fit(np.eye(3), answer)
    for cells in (None, np.array([0, 1, 1])):
        with pytest.raises(InputError, match="expected clusters that predict the cell of a row, found str"):
            CellClassifier("a").fit(np.eye(3), answer, cells)


def test_a_release_that_leans_towards_clusters_is_learned_from_by_them():
    """Soft labels are what clusters and released labels say together, where the likelihood alone says nothing."""
    cells = np.repeat([0, 1], 2000)
    features = cells[:, None] + np.random.default_rng(0).normal(scale=0.1, size=(4000, 1))
    space = dp.Classes(["no", "yes"])
    release = dp.cluster_response(dp.Curator(np.where(cells == 0, "no", "yes"), space), cells, 0.1).release
    model = ReleasedLabelClassifier(method="clusters").fit(features, release)
    assert model.predict([[0.0], [1.0]]).tolist() == ["no", "yes"]  # counts of 2000 with noise of scale 40
    shares = release.channel.shares
    assert shares.sum(axis=1) == pytest.approx(1.0)
    assert [shares[0, 0], shares[-1, 1]] == pytest.approx([0.75, 0.75], abs=0.01)  # raised to the floor of a quarter


def test_another_release_has_no_clusters_to_learn_from():
    """The error says what to do."""
    release = dp.Curator(["no", "yes"] * 5, dp.Classes(["no", "yes"])).randomize(
        dp.RandomizedResponse(dp.Classes(["no", "yes"]), 1.0)
    )
    with pytest.raises(InputError, match="by cluster response for the method 'clusters'"):
        ReleasedLabelClassifier(method="clusters").fit(np.zeros((10, 1)), release)
