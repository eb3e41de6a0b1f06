"""The sum of the classifier of patches and of a network that learns from its predictions."""

import numpy as np
import pyarrow as pa
import pytest

torch = pytest.importorskip("torch")

from labeldp import Classes, Curator, Release  # noqa: E402 (torch is an extra)
from labeldp.errors import InputError  # noqa: E402
from labeldp.learning.choice import folds_of  # noqa: E402
from labeldp.learning.features import Images  # noqa: E402
from labeldp.learning.images import PatchClassifier  # noqa: E402
from labeldp.learning.metrics import Units  # noqa: E402
from labeldp.learning.sklearn import rehearse  # noqa: E402
from labeldp.learning.tables import ModelChoice, learn_network  # noqa: E402
from labeldp.learning.torch import ImageEnsemble, NetworkScores, TorchClassifier  # noqa: E402

torch.set_num_threads(1)
#: Another class stands for the network in some tests, and not in annotations.
pytestmark = pytest.mark.usefixtures("as_users_call")
SPACE = Classes(["upright", "across"])  # not in the order of the alphabet
FEW = {"components": (3,), "filters": 4, "mirrored": False, "copies": 0}


class Untrained(TorchClassifier):
    """A network that is not trained: it keeps what it was given, and predicts what ``known`` says of images."""

    given, judged, known = [], [], None

    def fit(self, X, y, prior=None, groups=None):  # noqa: ARG002, N803
        """Keep the images, the release and the prior."""
        self.given.append((X, y, prior.in_order(y.space.points)))
        self.module_, self.n_iter_ = None, 0
        return self

    def predict_proba(self, X):  # noqa: N803
        """What is known, in the order of sorted classes; else nothing."""
        self.judged.append(len(self.given))
        return np.full((len(X), 2), 0.5) if self.known is None else type(self).known(X)


@pytest.fixture
def untrained(monkeypatch):
    """Networks are not trained; returns their class."""
    monkeypatch.setattr("labeldp.learning.torch._image_ensemble.TorchClassifier", Untrained)
    monkeypatch.setattr(Untrained, "known", None)
    monkeypatch.setattr(Untrained, "given", [])
    monkeypatch.setattr(Untrained, "judged", [])
    return Untrained


@pytest.fixture
def quick(monkeypatch):
    """Heads of patches are sums of features by class, which any other label changes too."""

    def fit_head(self, rows, release, groups=None):
        del groups
        self.coef_, self.intercept_ = release.unbiased().T @ rows.features, np.zeros(release.space.size)
        return self

    monkeypatch.setattr(PatchClassifier, "fit_head", fit_head)


def prior_for(labels, images, untrained, groups=None):
    """What the network is told of all rows in its last fit, in declared order."""
    ImageEnsemble(PatchClassifier(**FEW)).fit(images, Release.public(labels, SPACE), groups)
    return untrained.given[-1][2]


@pytest.mark.usefixtures("quick")
def test_what_a_network_is_told_of_a_row_is_from_the_labels_of_others(stripes, untrained):
    """Another label of a row, or of its unit, changes what is told of other folds, and nothing that is told of it."""
    images, labels = stripes(200)
    units = np.arange(200) // 2
    for groups, together in ((None, 1), (units, 2)):
        fit, _ = folds_of(Units.of(groups, 200), 5)[0]
        folds = folds_of(Units.of(groups, 200).take(fit), 5)
        first, flipped = prior_for(labels, images, untrained, groups), labels.copy()
        one = fit[folds[0][1][0]]
        own = np.arange(200) // together == one // together
        flipped[own] = np.where(labels[own] == "across", "upright", "across")
        second, own_fold = prior_for(flipped, images, untrained, groups), fit[folds[0][1]]
        assert np.isin(np.flatnonzero(own), own_fold).all()
        np.testing.assert_array_equal(first[own_fold], second[own_fold])
        assert (np.delete(first, own_fold, axis=0) != np.delete(second, own_fold, axis=0)).any()


@pytest.mark.usefixtures("quick")
def test_rows_that_weigh_both_have_no_part_in_either(stripes, untrained):
    """Other labels of all held-out rows change nothing that the network is told, and it sees none of them before."""
    images, labels = stripes(200)
    fit, held = folds_of(Units.of(None, 200), 5)[0]
    flipped = labels.copy()
    flipped[held] = np.where(labels[held] == "across", "upright", "across")
    np.testing.assert_array_equal(prior_for(labels, images, untrained), prior_for(flipped, images, untrained))
    first, last = untrained.given[-2:]
    for given, places in ((first, fit), (last, np.arange(200))):
        np.testing.assert_array_equal(given[0], images[places])
        np.testing.assert_array_equal(given[1].codes, Release.public(flipped, SPACE)[places].codes)
    np.testing.assert_array_equal(first[2], last[2][fit])
    assert untrained.judged == [1, 3]  # each time after the first of two fits


def test_the_network_goes_on_with_all_rows(stripes, monkeypatch):
    """Its second fit begins with the weights of the first, has and half as many epochs."""
    images, labels = stripes(80)
    began, ended = [], []
    fit = TorchClassifier.fit

    def kept(self, *given, **more):
        began.append((self.epochs, self.module))
        ended.append(fit(self, *given, **more).module_)
        return self

    monkeypatch.setattr(TorchClassifier, "fit", kept)
    model = ImageEnsemble(PatchClassifier(**FEW), training={"epochs": 3}).fit(images, Release.public(labels, SPACE))
    assert [epochs for epochs, _ in began] == [3, 2]
    assert began[1][1] is ended[0]
    assert model.network_.module_ is ended[1]
    assert model.n_iter_ == 5


@pytest.mark.parametrize("knows", [False, True])
def test_released_labels_weigh_the_network(stripes, untrained, monkeypatch, knows):
    """Labels follow the last bit of a pixel: the network counts where it knows it, and the sum is then right."""
    images, _ = stripes(1_000)
    random = np.random.default_rng(1)
    bright = random.random(1_000) < 0.5
    images[:, 0, 0, 0] = np.where(bright, 1, 0)  # which patches do not see beside the noise of others
    labels = np.where(bright, "across", "upright")
    told = (lambda x: np.c_[x[:, 0, 0, 0] > 0, x[:, 0, 0, 0] == 0] * 0.9 + 0.05) if knows else None
    monkeypatch.setattr(untrained, "known", None if told is None else staticmethod(told))
    release = Curator(labels, SPACE).randomize(epsilon=2.0)
    model = ImageEnsemble(PatchClassifier(**FEW)).fit(images, release)
    assert (model.weights_["network"] > 0.5) == knows
    if knows:
        assert (model.predict(images) == labels).mean() > 0.95


def test_the_scores_of_a_file_are_those_of_the_ensemble(stripes):
    """The sum of both, with their weights, in declared order."""
    images, labels = stripes(80)
    model = ImageEnsemble(PatchClassifier(**FEW), training={"epochs": 2}).fit(images, Release.public(labels, SPACE))
    model.weights_ = {"network": 0.7, "patches": 0.4}
    scores = NetworkScores.of_ensemble(model, np.argsort(SPACE.sorted_codes))
    found = scores.probabilities(images, 2)[:, SPACE.sorted_codes]
    np.testing.assert_allclose(found, model.predict_proba(images), atol=1e-4)
    assert not np.allclose(found, model.patches_.predict_proba(images), atol=1e-3)


def test_a_fifth_judges_and_no_other_rows(stripes):
    """Rows that the network would hold out itself are refused: they are not those of units, or of both of its fits."""
    images, labels = stripes(80)
    model = ImageEnsemble(PatchClassifier(**FEW), training={"held_out": 0.2, "patience": 1})
    with pytest.raises(InputError, match="expected training without held_out and patience, as a fifth of the rows"):
        model.fit(images, Release.public(labels, SPACE))


@pytest.mark.parametrize(("rows", "epochs"), [(100, 40), (10_000, 30), (60_000, 10)])
def test_few_images_have_more_epochs(rows, epochs):
    """From ten to forty, as many as make 300 000 images."""
    model = ImageEnsemble()._network(np.zeros((rows, 1, 28, 28), np.uint8), mirrored=True)
    assert model.epochs == epochs
    assert model.augment.flip
    assert not ImageEnsemble()._network(np.zeros((rows, 1, 8, 8), np.uint8), mirrored=False).augment.crop


@pytest.fixture(scope="module")
def folder(stripes, tmp_path_factory):
    """A release of the directions of stripes, and their images."""
    images, labels = stripes(300)
    target = tmp_path_factory.mktemp("stripes") / "shared"
    Curator(labels, SPACE, name="way").randomize(epsilon=2.0).save(target, pa.table({"row": range(300)}), keep=["row"])
    return target, Images(images)


def test_another_method_is_refused(folder):
    """It has one: posteriors of what patches say."""
    target, images = folder
    with pytest.raises(InputError, match="expected no method with torch:ensemble, found some"):
        learn_network(target, ModelChoice("torch:ensemble", images=images, method="plain"))


@pytest.mark.parametrize("training", [None, {"epochs": 30, "checkpoint": "folder"}])
def test_a_trial_before_stages_is_short_and_writes_nothing(monkeypatch, training):
    """One epoch, whatever was asked for."""
    seen = []
    monkeypatch.setattr(ImageEnsemble, "fit", lambda self, *_, **__: seen.append(self.training))
    rehearse(ImageEnsemble(training=training), np.zeros((4, 1, 8, 8), np.uint8), Classes(["a", "b"]))
    assert seen == [{"epochs": 1, "checkpoint": None}]
