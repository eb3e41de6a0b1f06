"""The order of classes: ``classes_`` is sorted, and no result depends on the order in which classes were declared."""

import itertools
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer, log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from torch import nn

import labeldp as dp
from labeldp.audit import Knowledge, canary_memorisation, infer_labels
from labeldp.audit.pipelines._canaries import Canaries
from labeldp.errors import InputError
from labeldp.learning import convex, images, metrics, ratings, sklearn, stages
from labeldp.learning import torch as networks
from labeldp.learning.cells import cluster, cluster_tree
from labeldp.learning.convex import Ball, ConvexClassifier, fit_interactively
from labeldp.learning.images import PatchClassifier
from labeldp.learning.sklearn import (
    AutoClassifier,
    BoostingClassifier,
    CalibratedClassifier,
    CellClassifier,
    KernelClassifier,
    MomentClassifier,
    NeighborsClassifier,
    ProbabilityClassifier,
    ReleasedLabelClassifier,
    ResampledClassifier,
    ScoreClassifier,
    SoftLabelClassifier,
    SoftmaxRegression,
    TreeClassifier,
)
from labeldp.learning.stages import ConsensusRetraining, FixedPrior, ModelPrior, MultiStage
from labeldp.learning.tables import ModelChoice, evaluate, learn, open_model
from labeldp.learning.tables._network import learn_network
from labeldp.learning.torch import ChannelLoss, ReleasedRows, TorchClassifier
from labeldp.privacy import columns_in_order
from labeldp.privacy.channels import ResponseChannel

NAMES = ("a", "b", "c")
THREE = list(itertools.permutations(NAMES))
#: An order that is not its own inverse, so that a permutation in the wrong direction shows.
TURNED = ("c", "a", "b")
#: The orders of two and three classes that are not sorted, and what a test of one order is compared with.
ORDERS, BOTH = (("b", "a"), TURNED), (NAMES, TURNED)
ROWS = 600
EPSILON = 3.0


class Data:
    """Features of overlapping classes of different sizes, their true labels, and labels that were drawn once."""

    def __init__(self, classes):
        rng = np.random.default_rng(classes)
        self.names = np.array(NAMES[:classes])
        codes = rng.choice(classes, ROWS, p=np.array([[0.65, 0.35], [0.5, 0.3, 0.2]][classes - 2]))
        self.features = rng.normal(size=(ROWS, 3)) + 2.5 * np.eye(classes, 3)[codes]
        self.labels = self.names[codes]
        self.channel = ResponseChannel.at(classes, EPSILON)
        keep = float(self.channel.membership.true)
        other = (codes + rng.integers(1, classes, ROWS)) % classes
        self.releases = {}
        self.released = self.names[np.where(rng.random(ROWS) < keep, codes, other)]

    def release(self, space):
        """The same released labels in a space of any order: one release for each order."""
        drawn = dp.Release.randomized(self.released, dp.RandomizedResponse(space, EPSILON), declared_by="a test")
        return self.releases.setdefault(space.values, drawn)

    def curator(self, space):
        """A curator of the true labels."""
        return dp.Curator(self.labels, space)


DATA = {classes: Data(classes) for classes in (2, 3)}


def linear(classes):
    """A network whose first outputs are equal, so that they do not depend on the order of the classes."""
    module = nn.Linear(3, classes)
    nn.init.zeros_(module.weight)
    nn.init.zeros_(module.bias)
    return module


def by_cells(learner):
    """Fit on counts in cells, which are nearly exact."""

    def fit(data, space):
        clusters = cluster(data.features, 8)
        answer = data.curator(space).answer(dp.NoisyHistogram(space, 20.0, clusters.numbers))
        return learner(clusters).fit(data.features, answer, clusters.numbers)

    return fit


def by_moments(loss):
    """Fit on sums of features, which are nearly exact."""

    def fit(data, space):
        answer = data.curator(space).answer(dp.LabelMoments(space, 50.0, 1e-3, data.features))
        return MomentClassifier(loss=loss).fit(data.features, answer)

    return fit


def by_release(make):
    """Fit on the released labels."""
    return lambda data, space: make().fit(data.features, data.release(space))


def by_tree(data, space):
    """Fit on the leaves of a tree; features are not used by the learner itself."""
    tree = cluster_tree(data.features, leaves=30)
    return OnLeaves(tree, TreeClassifier([tree]).fit(tree.leaves, data.release(space)))


class OnLeaves:
    """A classifier by leaves as one by features."""

    def __init__(self, tree, model):
        self.tree, self.model, self.classes_ = tree, model, model.classes_

    def predict_proba(self, features):
        """Of the leaves of rows."""
        return self.model.predict_proba(self.tree.predict(features))

    def predict(self, features):
        """Of the leaves of rows."""
        return self.model.predict(self.tree.predict(features))

    def score(self, features, release):
        """Of the leaves of rows."""
        return self.model.score(self.tree.predict(features), release)


def images_of(features):
    """Images of three waves, as strong as the features of a row."""
    places = np.arange(10)
    waves = np.stack([np.sin(np.add.outer(a * places, b * places)) for a, b in ((1.5, 0.0), (0.0, 1.5), (0.8, 0.8))])
    return np.tensordot(features, waves, axes=1)


def by_images(data, space):
    """Fit on images that are made of features."""
    whole = make_pipeline(FunctionTransformer(images_of), PatchClassifier((8,), filters=8))
    whole.fit(data.features, data.release(space)).model = whole[-1]
    return whole


def in_stream(data, space):
    """Fit on two batches."""
    model, release = ConvexClassifier(region=Ball(5.0)), data.release(space)
    for rows in (slice(0, ROWS // 2), slice(ROWS // 2, ROWS)):
        model.partial_fit(data.features[rows], release[rows])
    return model


def interactively(data, space):
    """Fit on gradients that a curator answers with little noise."""
    return fit_interactively(ConvexClassifier(region=Ball(5.0)), data.features, data.curator(space), epsilon=30.0)


def resampled(method, learner=None):
    """Fit as if a fifth of the rows had resampled features."""

    def fit(data, space):
        mean = {name: data.features[data.labels == name].mean(axis=0) for name in data.names}
        generator = lambda codes: np.array([mean[space.points[code]] for code in codes])  # noqa: E731
        model = ResampledClassifier(learner, method=method, generator=generator)
        return model.fit(data.features, data.release(space), replaced=0.2)

    return fit


def unlisted(data, space):
    """Fit a learner without ``classes_``, which predicts in declared order."""

    class Plain:
        """A learner of released labels that names no classes."""

        def fit(self, features, release):
            """Fit softmax regression."""
            self.inner, self.order = SoftmaxRegression(l2=0.01).fit(features, release), release.space.points
            return self

        def predict_proba(self, features):
            """In declared order."""
            return columns_in_order(self.inner.predict_proba(features), self.inner.classes_, self.order)

    return ConsensusRetraining(Plain()).fit(data.features, data.release(space))


#: Every learner of classes, fitted in a space on the same labels, and how far results in two orders may be apart on
#: average: draws of a curator differ, and so do sums of numbers in another order.
LEARNERS = {
    "softmax": (SoftmaxRegression, by_release(lambda: SoftmaxRegression(l2=0.01)), 1e-3),
    "softmax unbiased": (SoftmaxRegression, by_release(lambda: SoftmaxRegression(l2=0.01, method="unbiased")), 1e-3),
    "soft labels of releases": (
        ReleasedLabelClassifier,
        by_release(lambda: ReleasedLabelClassifier(LogisticRegression())),
        1e-2,
    ),
    "calibrated": (
        CalibratedClassifier,
        by_release(lambda: CalibratedClassifier(SoftmaxRegression(l2=0.01))),
        1e-2,
    ),
    "boosting": (BoostingClassifier, by_release(lambda: BoostingClassifier(rounds=30, folds=2)), 1e-2),
    "auto": (AutoClassifier, by_release(lambda: AutoClassifier(folds=2)), 1e-2),
    "neighbours": (NeighborsClassifier, by_release(lambda: NeighborsClassifier(k=60)), 1e-6),
    "tree": (TreeClassifier, by_tree, 1e-6),
    "cells": (CellClassifier, by_cells(CellClassifier), 0.1),
    "soft labels of cells": (SoftLabelClassifier, by_cells(lambda _: SoftLabelClassifier()), 0.1),
    "kernels": (KernelClassifier, by_release(KernelClassifier), 1e-3),
    "moments": (MomentClassifier, by_moments("softmax"), 0.15),
    "moments squared": (MomentClassifier, by_moments("squared"), 0.15),
    "resampled": (ResampledClassifier, resampled("likelihood"), 1e-2),
    "resampled by boosting": (ResampledClassifier, resampled("likelihood", LogisticRegression()), 1e-2),
    "resampled unbiased": (ResampledClassifier, resampled("unbiased"), 1e-2),
    "convex": (ConvexClassifier, by_release(lambda: ConvexClassifier(region=Ball(5.0))), 1e-6),
    "convex by streams": (ConvexClassifier, in_stream, 1e-6),
    "convex interactive": (ConvexClassifier, interactively, 0.15),
    "stages": (
        MultiStage,
        lambda data, space: MultiStage(SoftmaxRegression(l2=0.01), epsilon=12.0).fit(
            data.features, data.curator(space)
        ),
        0.1,
    ),
    "consensus": (ConsensusRetraining, by_release(lambda: ConsensusRetraining(SoftmaxRegression(l2=0.01))), 1e-3),
    "consensus without names": (ConsensusRetraining, unlisted, 1e-3),
    "patches": (
        PatchClassifier,
        by_images,
        5e-3,  # fits end within a tolerance
    ),
    "network": (
        TorchClassifier,
        by_release(lambda: TorchClassifier(linear, epochs=5, learning_rate=0.1, batch_size=64)),
        1e-3,
    ),
}
BASES = (ProbabilityClassifier, ScoreClassifier)


@pytest.fixture(scope="module")
def fitted():
    """Fit a learner in a space, once for all tests."""
    models = {}

    def fit(name, order):
        if (name, order) not in models:
            models[name, order] = LEARNERS[name][1](DATA[len(order)], dp.Classes(order))
        return models[name, order]

    return fit


def test_every_learner_is_here():
    """A learner of classes that a package exports, or that another one is made of, is fitted in every order below."""
    found, left = set(), [ProbabilityClassifier]
    for package in (convex, images, networks, ratings, sklearn, stages):
        dir(package), [getattr(package, name) for name in dir(package)]
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        found.add(kind)
    own = {kind for kind in found if kind.__module__.startswith("labeldp.")} - set(BASES)
    elsewhere = {ratings.FactorizationClassifier, networks.ImageEnsemble}  # of numbers, and slow; in tests of their own
    assert own == {kind for kind, _, _ in LEARNERS.values()} | elsewhere


@pytest.mark.parametrize("order", ORDERS, ids="".join)
@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_does_not_depend_on_the_declared_order(name, order, fitted):
    """Its classes are sorted, and probabilities, classes and score are those under the sorted order."""
    data, (kind, _, tolerance) = DATA[len(order)], LEARNERS[name]
    model, usual = fitted(name, order), fitted(name, tuple(sorted(order)))
    assert isinstance(getattr(model, "model", model), kind)
    np.testing.assert_array_equal(model.classes_, np.unique(data.labels))
    probabilities = model.predict_proba(data.features)
    assert np.abs(probabilities - usual.predict_proba(data.features)).mean() <= tolerance
    np.testing.assert_array_equal(model.predict(data.features), model.classes_[probabilities.argmax(axis=1)])
    assert (model.predict(data.features) == data.labels).mean() > 0.8
    if not isinstance(model, (CellClassifier, SoftLabelClassifier, MomentClassifier)):  # which score no answers
        assert model.score(data.features, data.release(dp.Classes(order))) == pytest.approx(
            usual.score(data.features, data.release(dp.Classes(sorted(order)))), abs=tolerance
        )


@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "tree"])
def test_scorers_of_scikit_learn_agree_in_reversed_order(name, fitted):
    """``roc_auc`` and ``neg_log_loss`` on true labels are those of the sorted order, and good."""
    data, tolerance = DATA[2], max(LEARNERS[name][2], 1e-6)
    for scorer, least in (("roc_auc", 0.9), ("neg_log_loss", -0.6)):
        reversed_order, usual = (
            get_scorer(scorer)(fitted(name, order), data.features, data.labels) for order in (("b", "a"), ("a", "b"))
        )
        assert reversed_order == pytest.approx(usual, abs=tolerance)
        assert reversed_order > least


@pytest.mark.parametrize("order", ORDERS, ids="".join)
@pytest.mark.parametrize("name", [name for name, case in LEARNERS.items() if issubclass(case[0], ScoreClassifier)])
def test_decision_functions_and_coefficients_have_the_order_of_classes(name, order, fitted):
    """The largest score is that of the prediction, with two classes its sign; so are those of the coefficients."""
    data, model = DATA[len(order)], fitted(name, order)
    decision = model.decision_function(data.features)
    best = decision.argmax(axis=1) if decision.ndim == 2 else (decision > 0).astype(int)
    np.testing.assert_array_equal(model.classes_[best], model.predict(data.features))
    linear, points = getattr(model, "model", model), data.features
    if isinstance(linear, PatchClassifier):
        points = linear.features_.transform(images_of(points))
        points = np.hstack([points, linear.kernel_.transform(points)])
    from_coefficients = points @ linear.coef_.T + getattr(linear, "intercept_", 0.0)
    if not isinstance(model, MomentClassifier):  # which clips the lengths of rows
        np.testing.assert_array_equal(model.classes_[from_coefficients.argmax(axis=1)], model.predict(data.features))
    assert (model.classes_[from_coefficients.argmax(axis=1)] == data.labels).mean() > 0.8


@pytest.mark.parametrize("order", BOTH, ids="".join)
def test_a_linear_loss_has_no_order_either(order):
    """A convex learner without probabilities has the same scores and the same score in every order."""
    data = DATA[3]
    model, usual = (
        ConvexClassifier("linear", region=Ball(5.0)).fit(data.features, data.release(dp.Classes(each)))
        for each in (order, sorted(order))
    )
    np.testing.assert_allclose(model.decision_function(data.features), usual.decision_function(data.features))
    expected = usual.score(data.features, data.release(dp.Classes(NAMES)))
    for each in THREE:  # models judge releases in any order
        assert model.score(data.features, data.release(dp.Classes(each))) == pytest.approx(expected)


@pytest.mark.parametrize("order", BOTH, ids="".join)
@pytest.mark.parametrize("name", ["cells", "soft labels of cells", "tree"])
def test_distributions_of_cells_have_the_order_of_classes(name, order, fitted):
    """The mean distribution of cells is near the shares of the classes, which differ."""
    model = fitted(name, order)
    shown = getattr(model, "model", model).distributions_
    shares = np.mean(shown[0] if isinstance(shown, list) else shown, axis=0)
    assert shares[0] > shares[2] + 0.02


@pytest.mark.parametrize("name", LEARNERS)
def test_models_judge_releases_in_any_order(name, fitted):
    """A model's score and the scorers are the same for one release in every order, whatever order it was fitted in."""
    data, model = DATA[3], fitted(name, TURNED)
    releases = [data.release(dp.Classes(order)) for order in THREE]
    for judge in (
        lambda release: metrics.log_likelihood_scorer(model, data.features, release),
        lambda release: metrics.accuracy_scorer(model, data.features, release),
        lambda release: model.score(data.features, release),
    ):
        np.testing.assert_allclose([judge(release) for release in releases], judge(releases[0]), atol=1e-9)
    assert metrics.log_likelihood_scorer(model, data.features, releases[0]) > 0.3
    with pytest.raises(InputError, match="classes"):
        model.score(data.features[:2], dp.Release.public(["a", "d"], dp.Classes(["a", "d"])))


def test_a_pipeline_is_scored_by_its_classes():
    """Scorers read the classes of a pipeline, and of a classifier that is not of this package."""
    data, space = DATA[3], dp.Classes(TURNED)
    pipeline = make_pipeline(StandardScaler(), SoftmaxRegression(l2=0.01)).fit(data.features, data.release(space))
    foreign = LogisticRegression().fit(data.features, data.labels)
    few = LogisticRegression().fit(data.features[data.labels != "a"], data.labels[data.labels != "a"])
    for model in (pipeline, foreign):
        assert metrics.log_likelihood_scorer(model, data.features, data.release(space)) > 0.3
    only = data.labels != "a"
    assert metrics.log_likelihood_scorer(few, data.features[only], data.release(space)[only]) > 0.1


#: The metrics of class probabilities, by name, as one number.
METRICS = {
    "log_likelihood": lambda release, given: metrics.log_likelihood(release, given).value,
    "log_loss": lambda release, given: metrics.log_loss(release, given).value,
    "calibration": lambda release, given: metrics.calibration(release, given, "b", bins=3).predicted,
    "mean_auc": lambda release, given: metrics.mean_auc(release, given).value,
}


@pytest.mark.parametrize("order", ORDERS, ids="".join)
@pytest.mark.parametrize("name", METRICS)
def test_a_metric_does_not_depend_on_the_declared_order(name, order, fitted):
    """Columns are found by their classes, and columns without names are refused where they could be mistaken."""
    data, metric = DATA[len(order)], METRICS[name]
    usual = data.release(dp.Classes(sorted(order)))
    expected = metric(usual, fitted("softmax", tuple(sorted(order))).predict_proba(data.features))
    release, model = data.release(dp.Classes(order)), fitted("softmax", order)
    found = metric(release, dp.ClassProbabilities.of(model, data.features))
    np.testing.assert_allclose(found, expected, atol=1e-3)
    declared = columns_in_order(model.predict_proba(data.features), model.classes_, order)
    np.testing.assert_allclose(metric(release, dp.ClassProbabilities(declared, order)), found)
    with pytest.raises(InputError, match="ClassProbabilities"):
        metric(release, model.predict_proba(data.features))


@pytest.mark.parametrize("order", BOTH, ids="".join)
@pytest.mark.parametrize("kind", [dp.PriorResponse, dp.PriorSubsetResponse, lambda *args: dp.TopKResponse(*args, k=2)])
def test_the_prior_of_a_model_means_its_classes(kind, order, fitted):
    """A randomizer keeps the prior of each class in every order, and refuses columns without names."""
    data, space = DATA[3], dp.Classes(order)
    likely = fitted("softmax", order).predict_proba(data.features)
    randomizer = kind(space, 1.0, dp.ClassProbabilities.of(fitted("softmax", order), data.features))
    usual = kind(dp.Classes(NAMES), 1.0, likely)
    np.testing.assert_allclose(columns_in_order(randomizer.prior, order, NAMES), usual.prior)
    np.testing.assert_allclose(randomizer.mass, usual.mass)
    if order != NAMES:
        with pytest.raises(InputError, match="ClassProbabilities"):
            kind(space, 1.0, likely)


@pytest.mark.parametrize("order", BOTH, ids="".join)
def test_priors_of_stages_mean_the_classes_of_a_model(order, fitted):
    """Given and predicted priors are in declared order; one distribution for all rows is so by declaration."""
    data, space, model = DATA[3], dp.Classes(order), fitted("softmax", TURNED)
    curator = data.curator(space)
    expected = columns_in_order(model.predict_proba(data.features), NAMES, order)
    given = FixedPrior(dp.ClassProbabilities.of(model, data.features)).ask(curator).probabilities
    np.testing.assert_allclose(given, expected)
    np.testing.assert_allclose(ModelPrior(model).ask(curator, data.features).probabilities, expected)
    np.testing.assert_allclose(FixedPrior([0.7, 0.2, 0.1]).ask(curator, rows=[0]).probabilities, [[0.7, 0.2, 0.1]])
    if order != NAMES:
        with pytest.raises(InputError, match="ClassProbabilities"):
            FixedPrior(model.predict_proba(data.features)).ask(curator)


@pytest.mark.parametrize("order", BOTH, ids="".join)
def test_attacks_read_the_classes_of_a_model(order, fitted):
    """An attacker with a model, or with its named probabilities, guesses the same labels in every order."""
    data, space, model = DATA[3], dp.Classes(order), fitted("softmax", TURNED)
    release = data.release(space)
    usual = infer_labels(data.release(dp.Classes(NAMES)), Knowledge(model.predict_proba(data.features))).labels()
    for knowledge in (
        Knowledge(model, features=data.features),
        Knowledge(dp.ClassProbabilities.of(model, data.features)),
    ):
        np.testing.assert_array_equal(infer_labels(release, knowledge).labels(), usual)
    planted = Canaries(space, np.arange(ROWS), space.encode(data.labels))
    hits = canary_memorisation(planted, dp.ClassProbabilities.of(model, data.features)).share
    assert hits == pytest.approx((model.predict(data.features) == data.labels).mean())
    if order != NAMES:
        with pytest.raises(InputError, match="ClassProbabilities"):
            infer_labels(release, Knowledge(model.predict_proba(data.features)))
        with pytest.raises(InputError, match="ClassProbabilities"):
            canary_memorisation(planted, model.predict_proba(data.features))


@pytest.mark.parametrize("order", BOTH, ids="".join)
def test_a_network_takes_the_prior_of_a_model_by_its_classes(order, fitted):
    """The loss with a named prior is that of the sorted order, for outputs in declared order."""
    data, space, model = DATA[3], dp.Classes(order), fitted("softmax", TURNED)
    logits = torch.from_numpy(np.random.default_rng(0).normal(size=(5, 3)))

    def losses(space, prior, logits):
        loss = ChannelLoss(data.release(space), reduction="none")
        _, labels = ReleasedRows(data.features, data.release(space), loss, prior=prior)[np.arange(5)]
        return loss(logits, **labels)

    usual = losses(dp.Classes(NAMES), model.predict_proba(data.features), logits)
    declared = logits[:, [NAMES.index(name) for name in order]]
    torch.testing.assert_close(losses(space, dp.ClassProbabilities.of(model, data.features), declared), usual)
    if order != NAMES:
        with pytest.raises(InputError, match="ClassProbabilities"):
            losses(space, model.predict_proba(data.features), declared)


def test_a_network_of_another_order_is_no_warm_start():
    """The outputs of a network have the order that was declared, which its sorted classes do not show."""
    data = DATA[3]
    model = TorchClassifier(linear, epochs=1, warm_start=True).fit(data.features, data.release(dp.Classes(TURNED)))
    assert model.outputs_.tolist() == list(TURNED)
    model.fit(data.features, data.release(dp.Classes(TURNED)))
    with pytest.raises(InputError, match="same order"):
        model.fit(data.features, data.release(dp.Classes(NAMES)))


def test_a_stream_keeps_its_declared_order():
    """A batch of the same classes in another order is refused: its codes mean other classes."""
    data, model = DATA[3], ConvexClassifier(region=Ball(5.0))
    model.partial_fit(data.features, data.release(dp.Classes(TURNED)))
    with pytest.raises(InputError, match="label space of earlier batches"):
        model.partial_fit(data.features, data.release(dp.Classes(NAMES)))


#: How each model of a table is learned, and how far two of them may be apart: their labels are drawn anew.
TABLE_MODELS = ("softmax", "boosting", "convex")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A release of the same rows in each of two orders, with labels that are hardly changed, and a public table."""
    data, root = DATA[3], tmp_path_factory.mktemp("orders")
    features = data.features.round(1)  # trees find the bins of few values quickly
    table = pa.table({f"x{column}": features[:, column] for column in range(3)})
    pyarrow.csv.write_csv(table.append_column("label", pa.array(data.labels.tolist())), root / "public.csv")
    for order in (NAMES, TURNED):
        space = dp.Classes(order)
        release = dp.Curator(data.labels, space, name="label").randomize(dp.RandomizedResponse(space, 12.0))
        release.save(root / "".join(order), table=table, keep="all")
    return root


def as_before(model, space):
    """The model of a table as an earlier version had it: everything in declared order, ``classes_`` too."""
    last, place = model.estimator[-1], np.argsort(space.sorted_codes)
    if hasattr(last, "estimator_"):  # its classifier knows numbers of columns
        last.estimator_.classes_ = space.sorted_codes[last.estimator_.classes_]
    else:
        last.coef_, last.intercept_ = last.coef_[place], last.intercept_[place]
    last.classes_ = np.array(space.points)
    last.__dict__.pop("_codes", None)
    return model


@pytest.mark.parametrize("name", TABLE_MODELS)
def test_saved_models_of_tables_are_right_in_every_order(name, folders, tmp_path):
    """Learned, saved, opened or saved by an earlier version: classes are sorted, and scores on true labels good."""
    data, table = DATA[3], pyarrow.csv.read_csv(folders / "public.csv")
    space = dp.Classes(TURNED)
    method = "em" if name == "boosting" else None  # the only one of earlier versions
    learned = learn(folders / "".join(TURNED), model=name, method=method)
    assert learned.scores.accuracy.value > 0.75
    assert learned.scores.log_likelihood.value > 0.3
    expected = learned.model.predict_proba(table)
    opened = open_model(learned.model.save(tmp_path / "model.safetensors"))
    before = open_model(as_before(opened, space).save(tmp_path / "before.safetensors"))
    assert before.estimator.classes_.tolist() == list(TURNED)
    opened = open_model(tmp_path / "model.safetensors")
    for model in (learned.model, opened, before):
        assert model.classes_.tolist() == list(NAMES)
        np.testing.assert_allclose(model.predict_proba(table), expected)
        assert (model.predict(table) == data.labels).mean() > 0.75
        assert roc_auc_score(data.labels, model.predict_proba(table), multi_class="ovr") > 0.85
        result = evaluate(model, folders / "public.csv", "label", public=True)
        assert result.accuracy.value > 0.75
        assert result.log_loss.value == pytest.approx(log_loss(data.labels, expected))
        attacked = infer_labels(
            dp.Release.public(data.labels, space), Knowledge(model, features=table), released=False
        ).labels()
        np.testing.assert_array_equal(attacked, model.predict(table))


def test_saved_networks_are_right_in_every_order(folders, tmp_path):
    """A network of columns has sorted classes when it is trained, saved, opened and evaluated."""
    data, table = DATA[3], pyarrow.csv.read_csv(folders / "public.csv")
    choice = ModelChoice("torch:mlp", training={"epochs": 10, "learning_rate": 0.01, "device": "cpu"})
    learned = learn_network(folders / "".join(TURNED), choice)
    assert learned.scores.accuracy.value > 0.6
    opened = open_model(learned.model.save(tmp_path / "model.safetensors"))
    for model in (learned.model, opened):
        assert model.classes_.tolist() == list(NAMES)
        assert roc_auc_score(data.labels, model.predict_proba(table), multi_class="ovr") > 0.85
        assert (model.predict(table) == data.labels).mean() > 0.7
        result = evaluate(model, folders / "public.csv", "label", public=True)
        assert result.log_loss.value == pytest.approx(log_loss(data.labels, model.predict_proba(table)), rel=1e-3)


def test_a_pickled_network_of_an_earlier_version_predicts_the_same():
    """Without the classes of its outputs, ``classes_`` has their order."""
    data = DATA[3]
    model = TorchClassifier(nn.Linear(3, 3), epochs=3, learning_rate=0.1).fit(
        data.features, data.release(dp.Classes(TURNED))
    )
    expected = model.predict(data.features)
    before = pickle.loads(pickle.dumps(model))  # noqa: S301 (its own)
    before.classes_ = before.__dict__.pop("outputs_")
    np.testing.assert_array_equal(before.predict(data.features), expected)


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        (["yes", "no", "maybe"], ["maybe", "no", "yes"]),
        ([10, 9, -1], [-1, 9, 10]),
        (["10", "9", "é", "Z", "a"], ["10", "9", "Z", "a", "é"]),
        ([True, False], [False, True]),
    ],
)
def test_sorted_codes_are_those_of_numpy(points, expected):
    """The order is that of ``np.unique``: of numbers by size, of texts by code point, False before True."""
    space = dp.Classes(points)
    assert np.array(points)[space.sorted_codes].tolist() == np.unique(points).tolist() == expected
    assert not space.is_sorted
    assert dp.Classes(expected).is_sorted
    assert dp.Interval(0, 1, 0.25).is_sorted


def test_columns_are_found_by_class():
    """Columns of some classes, zeros for the others; wrong names are refused."""
    named = dp.ClassProbabilities([[0.2, 0.8]], np.array(["c", "a"]))
    assert named.in_order(NAMES).tolist() == [[0.8, 0.0, 0.2]]
    assert named.classes == ("c", "a")
    with pytest.raises(InputError, match="declared classes"):
        named.in_order(["a", "b"])
    with pytest.raises(InputError, match="for each of 3 classes"):
        dp.ClassProbabilities([[0.2, 0.8]], NAMES)
    with pytest.raises(InputError, match="for two columns"):
        dp.ClassProbabilities([[0.2, 0.8]], ["a", "a"])
    with pytest.raises(InputError, match="classes_"):
        dp.ClassProbabilities.of(object(), [[0.0]])


def test_whole_numbers_are_classes_of_columns_too():
    """Classes of NumPy, of Python and of a model's float labels are the same classes."""
    space = dp.Classes([2, 0, 1])
    for classes in ([0, 1, 2], np.array([0, 1, 2]), np.array([0.0, 1.0, 2.0]), range(3)):
        assert dp.PriorResponse(space, 1.0, dp.ClassProbabilities([[0.1, 0.2, 0.7]], classes)).prior.tolist() == [
            [0.7, 0.1, 0.2]
        ]
