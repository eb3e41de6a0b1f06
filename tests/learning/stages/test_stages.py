"""Learning in stages: each label is asked for once, with a prior from labels that were released before."""

import dataclasses
import json
import os
import shutil
import signal
from typing import ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import coo_matrix, csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import labeldp.release.curator._curator as curator_module
from labeldp import Answer, Classes, Curator, NoisyHistogram, PriorResponse, RandomizedResponse, Release, verify
from labeldp._random_words import TapeWords
from labeldp.errors import BudgetError, InputError, NotTrueLabelsError, OutputError
from labeldp.learning.sklearn import ReleasedLabelClassifier, SoftmaxRegression
from labeldp.learning.sklearn._adapter import _trial_rows
from labeldp.learning.stages import (
    ClusterPrior,
    FixedPrior,
    MultiStage,
    ReleasePrior,
    UniformPrior,
    tempered,
)

SPACE = Classes(["a", "b", "c", "d"])
ROWS = 240
CODES = np.tile(np.arange(4), ROWS // 4)
LABELS = np.array(SPACE.points)[CODES]
FEATURES = 3.0 * np.eye(4)[CODES] + np.random.default_rng(0).normal(size=(ROWS, 4))


class Recorder:
    """A learner without any base class: it keeps what it was fitted on, and predicts one distribution."""

    fitted: ClassVar[list] = []

    def __init__(self, probabilities=(0.4, 0.3, 0.2, 0.1)):
        self.probabilities = np.asarray(probabilities)

    def fit(self, features, release):
        """Keep both."""
        Recorder.fitted.append((features, release))

    def predict_proba(self, features):
        """The same for every row."""
        rows = features[0] if isinstance(features, tuple) else features
        return np.tile(self.probabilities, (rows.shape[0], 1))


class Warm(SoftmaxRegression):
    """A learner that may go on from what it knows, and counts how often it was fitted."""

    def __init__(self, *, warm_start=False, l2=0.01):
        super().__init__(l2=l2)
        self.warm_start = warm_start

    def fit(self, X, y, sample_weight=None):  # noqa: N803
        """Count, from the start again unless it goes on."""
        self.fits_ = 1 + (getattr(self, "fits_", 0) if self.warm_start else 0)
        return super().fit(X, y, sample_weight)


class StoppedError(Exception):
    """A run was stopped."""


class Stopping(SoftmaxRegression):
    """A learner that stops the run when it is fitted for the nth time."""

    at, fits, last = 2, 0, staticmethod(lambda: None)

    def fit(self, X, y, sample_weight=None):  # noqa: N803
        """Fit, or stop."""
        Stopping.fits += 1
        if Stopping.fits == Stopping.at:
            Stopping.last()
            raise StoppedError
        return super().fit(X, y, sample_weight)


@pytest.fixture(autouse=True)
def forgotten(request, monkeypatch):
    """Each test begins with learners that remember nothing, and are not tried before unless the test asks for it."""
    if "tried" not in request.fixturenames:
        monkeypatch.setattr("labeldp.learning.stages._multi_stage.rehearse", lambda *_: None)
    Recorder.fitted, Stopping.at, Stopping.fits = [], 2, 0


@pytest.fixture
def quick():
    """A learner whose penalty need not be looked for."""
    return SoftmaxRegression(l2=0.01)


# Stages


@pytest.mark.parametrize("response", ["prior", "subset"])
@pytest.mark.parametrize("stages", [1, 2, 3, 5])
def test_stages_part_the_rows_and_cost_the_largest(quick, tmp_path, response, stages):
    """Each row is in one stage; the release is of all rows, costs epsilon and no more, and verifies when saved."""
    curator = Curator(LABELS, SPACE)
    model = MultiStage(quick, 2.0, stages=stages, response=response).fit(FEATURES, curator)
    rows = np.concatenate([stage.rows for stage in model.stages_])
    assert len(model.stages_) == stages
    assert sorted(rows.tolist()) == list(range(ROWS))
    assert model.release_.guarantee.epsilon <= 2.0
    assert curator.spent[0] <= 2.0
    assert verify(model.release_.save(tmp_path / "out")).holds
    again = Release.load(tmp_path / "out")
    assert again.guarantee.epsilon == model.release_.guarantee.epsilon
    assert len(again.certificate.draws) == stages
    with pytest.raises(BudgetError):
        curator.randomize(RandomizedResponse(SPACE, 0.01), [0])


def test_the_release_is_in_the_order_of_the_features():
    """At a large epsilon released labels are those of the rows that the features are of, in their order."""
    model = MultiStage(SoftmaxRegression(l2=0.01), 30.0, stages=3).fit(FEATURES, Curator(LABELS, SPACE))
    agree = model.release_.codes == CODES
    assert agree.mean() > 0.8
    assert agree[model.stages_[0].rows].all()


def test_learners_see_the_rows_of_the_stages_so_far():
    """A stage is fitted on all rows so far, or on the last stage alone, each beside its own released label."""
    for on in ("all", "last"):
        Recorder.fitted = []
        model = MultiStage(Recorder(), 2.0, stages=3, on=on).fit(FEATURES, Curator(LABELS, SPACE))
        whole = model.release_
        for number, (features, release) in enumerate(Recorder.fitted):
            parts = [stage.rows for stage in model.stages_[: number + 1]]
            rows = np.sort(np.concatenate(parts)) if on == "all" else parts[-1]
            np.testing.assert_array_equal(features, FEATURES[rows])
            np.testing.assert_array_equal(release.codes, whole.codes[rows])
            np.testing.assert_array_equal(release.likelihood(), whole.likelihood()[rows])
            assert model.stages_[number].fitted_on == len(rows)
            assert release.guarantee.epsilon <= 2.0


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 0.5, 1.0, 4.0, 12.0])
def test_one_stage_is_randomized_response_at_every_epsilon(epsilon):
    """LP-1ST asks with an even prior, which leaves all classes as candidates: k* is k, and never one less."""
    model = MultiStage(Recorder(), epsilon, stages=1).fit(FEATURES, Curator(LABELS, SPACE))
    plain = RandomizedResponse(SPACE, epsilon).channel()
    np.testing.assert_allclose(model.release_.channel.matrix(0), plain.matrix(0), atol=1e-15)
    assert model.stages_[0].candidates == 4
    assert model.stages_[0].truth_probability == pytest.approx(float(plain.membership.true), rel=1e-12)


def test_the_prior_of_a_stage_is_what_the_model_predicts_at_the_temperature():
    """Stages after the first have the candidates of RRWithPrior for the tempered predictions of the model before."""
    for temperatures, expected in (((1.0, 1.0), (1.0, 1.0)), (0.25, (0.25, 0.25)), ([3.0, 0.5], (3.0, 0.5))):
        model = MultiStage(Recorder(), 1.0, stages=3, temperature=temperatures).fit(FEATURES, Curator(LABELS, SPACE))
        for stage, temperature in zip(model.stages_[1:], expected, strict=True):
            prior = tempered(np.tile([0.4, 0.3, 0.2, 0.1], (len(stage.rows), 1)), temperature)
            wanted = PriorResponse(SPACE, 1.0, prior)
            np.testing.assert_array_equal(model.release_[stage.rows].channel.candidates, wanted.channel().candidates)
            assert stage.truth_probability == pytest.approx(wanted.expectation.truth_probability)
            assert stage.clean_share == pytest.approx(wanted.expectation.clean_share)


def test_shares_of_the_rows():
    """Stages have the shares that were asked for; by default sixty percent are in the first."""
    for shares, sizes in (((0.25, 0.75), [60, 180]), ([0.5, 0.25, 0.25], [120, 60, 60]), (None, [144, 96])):
        stages = 2 if shares is None else len(shares)
        model = MultiStage(Recorder(), 1.0, stages=stages, shares=shares).fit(FEATURES, Curator(LABELS, SPACE))
        assert [len(stage.rows) for stage in model.stages_] == sizes


# Filter


def test_the_filter_takes_away_earlier_labels_that_the_model_finds_unlikely():
    """An earlier row stays if its released label is among the mean number of candidates; new rows all stay."""
    model = MultiStage(Recorder(), 1.0, temperature=0.3, filter_labels=True).fit(FEATURES, Curator(LABELS, SPACE))
    first, second = model.stages_
    count = round(second.candidates)
    assert 1 <= count < 4
    kept = np.sort(np.concatenate([first.rows[model.release_.codes[first.rows] < count], second.rows]))
    np.testing.assert_array_equal(Recorder.fitted[1][0], FEATURES[kept])
    assert second.fitted_on == len(kept) < ROWS
    assert first.fitted_on == len(first.rows)


def test_the_filter_takes_sets_by_what_they_hold():
    """A released set stays if it holds one of the likeliest classes."""
    learner = Recorder((0.97, 0.01, 0.01, 0.01))
    model = MultiStage(learner, 1.0, response="subset", temperature=0.01, filter_labels=True)
    model.fit(FEATURES, Curator(LABELS, SPACE))
    first, second = model.stages_
    assert round(second.candidates) == 1
    held = model.release_[first.rows].channel.levels(model.release_[first.rows].codes).mask[:, 0]
    assert second.fitted_on == held.sum() + len(second.rows) < ROWS


# Learners


def test_a_learner_goes_on_where_it_can():
    """With a parameter warm_start the same learner is fitted again, in a pipeline too; else, or if told so, a copy."""
    for learner, warm, fits in (
        (Warm(), True, 3),
        (Warm(), False, 1),
        (make_pipeline(StandardScaler(), Warm()), True, 3),
        ([Warm(l2=0.1), Warm(l2=0.05), Warm(l2=0.02)], True, 3),
        ([Warm(), SoftmaxRegression(l2=0.01), Warm()], True, 1),
    ):
        model = MultiStage(learner, 2.0, stages=3, warm_start=warm).fit(FEATURES, Curator(LABELS, SPACE))
        last = model.learner_[-1] if hasattr(model.learner_, "steps") else model.learner_
        assert last.fits_ == fits
        given = learner[0] if isinstance(learner, list) else learner
        assert not hasattr(given[-1] if hasattr(given, "steps") else given, "fits_")
        assert last.l2 == (learner[-1].l2 if isinstance(learner, list) else 0.01)


@pytest.mark.filterwarnings("ignore::labeldp.learning.sklearn.UnguardedFitWarning")
def test_states_of_networks_are_kept_for_each_stage(tmp_path):
    """A network that keeps its state has a folder for each stage, and a run that is fitted again goes on from these."""
    networks = pytest.importorskip("labeldp.learning.torch")
    pytest.importorskip("torch").set_num_threads(1)
    features, curator = FEATURES.astype(np.float32), Curator(LABELS, SPACE)
    network = networks.TorchClassifier(networks.mlp(4, 4), epochs=2, checkpoint=tmp_path / "states")
    for _ in range(2):
        MultiStage(network, 2.0, directory=tmp_path / "run").fit(features, curator)
    assert sorted(os.listdir(tmp_path / "states")) == ["stage-1", "stage-2"]
    assert network.checkpoint == tmp_path / "states"
    assert curator.spent[0] <= 2.0


@pytest.mark.filterwarnings("ignore::labeldp.learning.sklearn.UnguardedFitWarning")
def test_a_network_goes_on_with_the_settings_of_its_stage():
    """Of two networks the second goes on from the weights of the first with its own mixup; after another, anew."""
    networks = pytest.importorskip("labeldp.learning.torch")
    pytest.importorskip("torch").set_num_threads(1)

    def network(**settings):
        return networks.TorchClassifier(networks.mlp(4, 4), epochs=1, learning_rate=1e-12, **settings)

    features, shown = FEATURES.astype(np.float32), []
    first, later, other = network(mixup=4.0), network(mixup=1.0), SoftmaxRegression(l2=0.01)
    for learners in ([first, later], [other, later], [later, later]):
        model = MultiStage(learners, 2.0).fit(features, Curator(LABELS, SPACE))
        assert model.learner_.mixup == 1.0
        assert model.learner_.warm_start == (learners[0] is not other)
        shown.append([each.detach().numpy() for each in model.learner_.module_.parameters()])
    given = {id(learner): [each.detach().numpy() for each in learner.module.parameters()] for learner in (first, later)}
    for learner, found in zip((first, later, later), shown, strict=True):
        for weights, expected in zip(found, given[id(learner)], strict=True):
            np.testing.assert_allclose(weights, expected, atol=1e-6)


@pytest.mark.parametrize(
    "learner",
    [
        SoftmaxRegression(l2=0.01),
        make_pipeline(StandardScaler(), SoftmaxRegression(l2=0.01)),
        DecisionTreeClassifier(max_depth=3),
        make_pipeline(StandardScaler(), LogisticRegression()),
        ReleasedLabelClassifier(DecisionTreeClassifier(max_depth=3)),
        Recorder(),
    ],
    ids=["softmax", "pipeline", "tree", "bare pipeline", "wrapped", "foreign"],
)
def test_any_learner(learner):
    """Learners for released labels are taken as they are, and scikit-learn's classifiers are wrapped."""
    model = MultiStage(learner, 3.0).fit(FEATURES, Curator(LABELS, SPACE))
    assert model.classes_.tolist() == ["a", "b", "c", "d"]
    probabilities = model.predict_proba(FEATURES)
    assert probabilities.shape == (ROWS, 4)
    if not isinstance(learner, Recorder):
        assert (model.predict(FEATURES) == LABELS).mean() > 0.6
        assert model.score(FEATURES, model.release_) > 0


class Reversed(SoftmaxRegression):
    """A learner that names its classes from the last to the first."""

    def predict_proba(self, X):  # noqa: N803
        """The columns in the order of its classes."""
        return super().predict_proba(X)[:, ::-1]

    def fit(self, X, y, sample_weight=None):  # noqa: N803
        """Turn the classes around."""
        super().fit(X, y, sample_weight)
        self.classes_ = self.classes_[::-1]
        return self


def test_classes_in_another_order_are_put_in_the_declared_one():
    """A learner's columns are those of its own classes."""
    model = MultiStage(Reversed(l2=0.01), 30.0).fit(FEATURES, Curator(LABELS, SPACE))
    assert (model.predict(FEATURES) == LABELS).mean() > 0.8
    np.testing.assert_allclose(model.predict_proba(FEATURES)[:, ::-1], model.learner_.predict_proba(FEATURES))
    assert model.stages_[1].truth_probability > 0.8


@pytest.mark.parametrize(
    "make",
    [
        FEATURES.tolist,
        lambda: FEATURES.astype(np.float32),
        lambda: pd.DataFrame(FEATURES),
        lambda: csr_matrix(FEATURES),
        lambda: coo_matrix(FEATURES),
        lambda: (FEATURES, np.arange(ROWS)),
        lambda: FEATURES.reshape(ROWS, 2, 2),
    ],
    ids=["list", "float32", "frame", "csr", "coo", "tuple", "images"],
)
def test_features_of_any_form(make):
    """Rows of arrays of any number of dimensions, of frames, of sparse matrices and of tuples are taken alike."""
    model = MultiStage(Recorder(), 2.0).fit(make(), Curator(LABELS, SPACE))
    features, release = Recorder.fitted[0]
    first = features[0] if isinstance(features, tuple) else features
    dense = first.toarray() if hasattr(first, "toarray") else np.asarray(first)
    np.testing.assert_allclose(dense.reshape(len(release), 4), FEATURES[model.stages_[0].rows], rtol=1e-6)
    assert model.predict_proba(make()).shape == (ROWS, 4)


# Guarantee


def with_tape(labels, monkeypatch, split):
    """A run whose words are the same in every run, for the same split of the rows."""
    tape = np.random.default_rng(5).integers(0, 2**64, 4096, dtype=np.uint64)
    monkeypatch.setattr(curator_module, "SecureWords", lambda: TapeWords(tape))
    monkeypatch.setattr("labeldp.learning.stages._multi_stage.public_split", lambda *_: split)
    return MultiStage(SoftmaxRegression(l2=0.01), 4.0, stages=3).fit(FEATURES, Curator(labels, SPACE))


def test_a_label_changes_its_own_row_and_only_later_priors(monkeypatch):
    """With the same words, a neighbour's earlier stages are the same bit for bit, and its own differs in its row.

    What follows depends on labels through released ones: where the released label is the same, all of it is the same.
    """
    order = np.random.default_rng(1).permutation(ROWS)
    split = [np.sort(part) for part in np.array_split(order, 3)]
    one = with_tape(LABELS, monkeypatch, split)
    changed = 0
    for number in range(3):
        for row in split[number][:2]:
            labels = LABELS.copy()
            labels[row] = SPACE.points[(CODES[row] + 1) % 4]
            two = with_tape(labels, monkeypatch, split)
            for stage in range(number + 1):
                rows = split[stage]
                differ = rows[one.release_.codes[rows] != two.release_.codes[rows]]
                assert set(differ.tolist()) <= ({row} if stage == number else set())
                np.testing.assert_array_equal(
                    one.release_[rows].channel.candidates, two.release_[rows].channel.candidates
                )
            same = one.release_.codes[row] == two.release_.codes[row]
            changed += not same
            if same:
                np.testing.assert_array_equal(one.release_.codes, two.release_.codes)
                np.testing.assert_array_equal(one.predict_proba(FEATURES), two.predict_proba(FEATURES))
    assert changed  # the comparison sees labels
    assert not one.release_.certificate.private


def test_all_stages_are_asked_for_before_the_first_is_drawn(monkeypatch):
    """Where rows of the last stage are spent, nothing is drawn and nothing charged."""
    curator = Curator(LABELS, SPACE, budget=1.5)
    curator.randomize(RandomizedResponse(SPACE, 1.0), [ROWS - 1])
    before = curator.spent
    parts = np.array_split(np.arange(ROWS), 5)
    monkeypatch.setattr("labeldp.learning.stages._multi_stage.public_split", lambda *_: parts)
    monkeypatch.setattr("labeldp.release.curator._drawing.draw", lambda *_: pytest.fail("a label was drawn"))
    with pytest.raises(BudgetError):
        MultiStage(Recorder(), 1.0, stages=5).fit(FEATURES, curator)
    assert curator.spent == before
    assert Recorder.fitted == []


def test_units_of_several_rows_are_refused():
    """Rows of one unit would be in several stages and add up, so nothing is drawn."""
    curator = Curator(LABELS, SPACE, units=np.arange(ROWS) // 2)
    with pytest.raises(InputError, match="units of several"):
        MultiStage(Recorder(), 1.0).fit(FEATURES, curator)
    assert curator.spent == (0.0, 0.0)


# Priors of the first stage


def test_counts_of_clusters_are_paid_for_by_all_and_charged_once(quick, tmp_path):
    """Histogram and response cost epsilon together, and one certificate says both."""
    curator = Curator(LABELS, SPACE)
    model = MultiStage(quick, 1.0, stages=3, prior=ClusterPrior(CODES, epsilon=0.25)).fit(FEATURES, curator)
    draws = model.release_.certificate.draws
    assert [draw.mechanism for draw in draws] == ["noisy-histogram", "prior", "prior", "prior"]
    assert max(draw.guarantee.epsilon for draw in draws[1:]) <= 0.75
    assert 0.99 < model.release_.guarantee.epsilon <= 1.0
    assert curator.spent[0] == pytest.approx(model.release_.guarantee.epsilon)
    assert model.release_.guarantee.trust == "central"
    assert model.stages_[0].candidates < 2
    assert verify(model.release_.save(tmp_path / "out")).holds


def test_a_given_prior_is_that_of_the_first_stage():
    """The first stage has the candidates of the prior; what it is computed from is in the certificate."""
    model = MultiStage(Recorder(), 1.0, prior=FixedPrior([0.9, 0.05, 0.03, 0.02])).fit(FEATURES, Curator(LABELS, SPACE))
    assert model.stages_[0].candidates == 1
    curator = Curator(LABELS, SPACE, budget=2.0)
    earlier = curator.randomize(RandomizedResponse(SPACE, 1.0))
    model = MultiStage(Recorder(), 1.0, prior=ReleasePrior(earlier)).fit(FEATURES, curator)
    assert curator.spent[0] == pytest.approx(2.0)
    assert any(earlier.certificate.release in each for each in model.release_.certificate.assumptions)


# Going on


@pytest.mark.parametrize("killed", [False, True])
def test_a_run_that_was_stopped_goes_on_with_the_same_labels(tmp_path, in_child, monkeypatch, killed):
    """Where the second stage's learner or its process ends, both are kept; fitted again nothing is charged or drawn."""
    folder, known = tmp_path / "run", {"ledger": tmp_path / "ledger", "budget": 1.0, "identity": np.arange(ROWS) + 7}

    def first():
        MultiStage(Stopping(l2=0.01), 1.0, directory=folder).fit(FEATURES, Curator(LABELS, SPACE, **known))

    if killed:
        monkeypatch.setattr(Stopping, "last", lambda: os.kill(os.getpid(), signal.SIGKILL))
        assert in_child(first) == -signal.SIGKILL
        Stopping.at = 0
    else:
        with pytest.raises(StoppedError):
            first()
    kept = [Release.load(folder / f"stage-{number}") for number in (1, 2)]
    curator = Curator(LABELS, SPACE, **known)  # as in another process
    model = MultiStage(Stopping(l2=0.01), 1.0, directory=folder).fit(FEATURES, curator)
    assert curator.spent[0] == model.release_.guarantee.epsilon == 1.0
    for release, stage in zip(kept, model.stages_, strict=True):
        np.testing.assert_array_equal(model.release_.codes[stage.rows], release.codes)
    again = MultiStage(SoftmaxRegression(l2=0.01), 1.0, directory=folder, on="last").fit(FEATURES, curator)
    np.testing.assert_array_equal(again.release_.codes, model.release_.codes)


@pytest.mark.parametrize("stage", [0, 1])
def test_labels_that_were_charged_and_lost_are_not_drawn_again_for_nothing(tmp_path, monkeypatch, stage):
    """Stopped between a charge and its file, the run is refused until the budget allows those rows once more."""
    folder, lost = tmp_path / "run", []

    def full(self, directory, *args, **kwargs):
        lost.append(directory)
        if len(lost) == stage + 1:
            raise OSError("no space left on device")
        return original(self, directory, *args, **kwargs)

    original = Release.save
    curator = Curator(LABELS, SPACE, ledger=tmp_path / "ledger", budget=1.0, identity=np.arange(ROWS) + 7)
    with monkeypatch.context() as patch:
        patch.setattr(Release, "save", full)
        with pytest.raises(OSError, match="no space"):
            MultiStage(Recorder(), 1.0, directory=folder).fit(FEATURES, curator)
    assert curator.spent[0] == 1.0
    with pytest.raises(BudgetError, match="charged but lost"):
        MultiStage(Recorder(), 1.0, directory=folder).fit(FEATURES, curator)
    richer = Curator(LABELS, SPACE, ledger=tmp_path / "ledger", budget=2.0, identity=np.arange(ROWS) + 7)
    model = MultiStage(Recorder(), 1.0, directory=folder).fit(FEATURES, richer)
    assert richer.spent[0] == 2.0
    assert model.release_.guarantee.epsilon == 1.0


def test_without_identities_another_process_is_refused(tmp_path):
    """A curator of the same ledger that may hold any rows can not go on within the budget, and is told how to."""
    folder = tmp_path / "run"
    Stopping.at = 1
    with pytest.raises(StoppedError):
        MultiStage(Stopping(l2=0.01), 1.0, directory=folder).fit(
            FEATURES, Curator(LABELS, SPACE, ledger=tmp_path / "ledger", budget=1.0, name="grade")
        )
    with pytest.raises(BudgetError, match="same identity="):
        MultiStage(Stopping(l2=0.01), 1.0, directory=folder).fit(
            FEATURES, Curator(LABELS, SPACE, ledger=tmp_path / "ledger", budget=1.0, name="grade")
        )


def test_labels_without_a_name_go_on_with_their_curator_alone(tmp_path):
    """Two lists of labels may be two columns: one does not go on with the other's run."""
    folder = tmp_path / "run"
    Stopping.at = 1
    first = Curator(LABELS, SPACE)
    with pytest.raises(StoppedError):
        MultiStage(Stopping(l2=0.01), 1.0, directory=folder).fit(FEATURES, first)
    for other in (Curator(LABELS[::-1], SPACE), Curator(LABELS, SPACE, name="grade")):
        with pytest.raises(OutputError, match="differs in label"):
            MultiStage(Stopping(l2=0.01), 1.0, directory=folder).fit(FEATURES, other)
        assert other.spent == (0.0, 0.0)
    assert MultiStage(Stopping(l2=0.01), 1.0, directory=folder).fit(FEATURES, first).release_.guarantee.epsilon <= 1.0


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("epsilon", {"epsilon": 2.0}),
        ("shares", {"stages": 3}),
        ("shares", {"shares": (0.5, 0.5)}),
        ("response", {"response": "subset"}),
        ("prior", {"prior": FixedPrior([0.25] * 4)}),
        ("prior_cost", {"prior": ClusterPrior(CODES, epsilon=0.2)}),
        ("features", {"features": FEATURES + 1}),
        ("label", {"curator": Curator(LABELS, SPACE, name="other")}),
        ("space", {"curator": Curator(LABELS, Classes(["d", "c", "b", "a"]))}),
        ("rows", {"curator": Curator(LABELS[:-4], SPACE), "features": FEATURES[:-4]}),
    ],
)
def test_a_folder_of_another_run_is_refused(tmp_path, name, change):
    """What a run can not differ in is named, and nothing is charged."""
    MultiStage(Recorder(), 1.0, directory=tmp_path / "run").fit(FEATURES, Curator(LABELS, SPACE))
    settings = {"epsilon": 1.0, **change}
    features, curator = settings.pop("features", FEATURES), settings.pop("curator", Curator(LABELS, SPACE))
    with pytest.raises(OutputError, match=name):
        MultiStage(Recorder(), directory=tmp_path / "run", **settings).fit(features, curator)
    assert curator.spent == (0.0, 0.0)


def test_a_folder_of_something_else_is_refused(tmp_path):
    """A folder that is not empty, settings that are none and releases of other rows are not gone on from."""
    curator = Curator(LABELS, SPACE, name="grade")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputError, match=r"thesis\.txt"):
        MultiStage(Recorder(), 1.0, directory=tmp_path / "a").fit(FEATURES, curator)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "stages.json").write_text("{")
    with pytest.raises(OutputError, match="found no JSON"):
        MultiStage(Recorder(), 1.0, directory=tmp_path / "b").fit(FEATURES, curator)
    MultiStage(Recorder(), 1.0, directory=tmp_path / "c").fit(FEATURES, Curator(LABELS, SPACE, name="grade"))
    split = np.load(tmp_path / "c" / "split.npy")
    np.save(tmp_path / "c" / "split.npy", split[::-1])
    with pytest.raises(OutputError, match="the rows of the split"):
        MultiStage(Recorder(), 1.0, directory=tmp_path / "c").fit(FEATURES, curator)
    (tmp_path / "c" / "split.npy").write_bytes(b"")
    with pytest.raises(OutputError, match="the split of 240 rows"):
        MultiStage(Recorder(), 1.0, directory=tmp_path / "c").fit(FEATURES, curator)
    assert curator.spent == (0.0, 0.0)


def deep(folder):
    """Settings that no reader should follow to their end."""
    (folder / "stages.json").write_text('{"a":' * 100_000 + "1" + "}" * 100_000)


def claiming(folder):
    """A split that says it has far more rows than the file."""
    with (folder / "split.npy").open("wb") as file:
        header = {"descr": "<i2", "fortran_order": False, "shape": (1 << 50,)}
        np.lib.format.write_array_header_1_0(file, header)


#: What somebody else did in the folder of a run, and what is said of it.
ALTERED = {
    "settings that others can write to": (lambda f: (f / "stages.json").chmod(0o666), "that other users can write to"),
    "a split that others can write to": (lambda f: (f / "split.npy").chmod(0o664), "that other users can write to"),
    "a stage that others can write to": (lambda f: (f / "stage-2").chmod(0o777), "that other users can write to"),
    "a second name of the settings": (lambda f: (f / "own").hardlink_to(f / "stages.json"), "2 hard links"),
    "a link to settings": (lambda f: (f / "stages.json").rename(f / "x"), "found no JSON"),
    "a link to a stage": (lambda f: (f / "stage-2").rename(f / "x"), "found a link"),
    "settings that are nested deep": (deep, "found no JSON"),
    "settings of many bytes": (lambda f: (f / "stages.json").write_text(" " * (1 << 24) + "{}"), "found no JSON"),
    "a split of many bytes": (lambda f: os.truncate(f / "split.npy", 9000), "expected the split"),
    "a split that claims many rows": (claiming, "expected the split"),
}


@pytest.mark.parametrize("case", ALTERED)
def test_a_run_that_others_can_have_altered_is_not_resumed(tmp_path, case):
    """Its files are this user's, bounded and strict: a sentence says what was found."""
    alter, found = ALTERED[case]
    MultiStage(Recorder(), 1.0, directory=tmp_path).fit(FEATURES, Curator(LABELS, SPACE, name="grade"))
    alter(tmp_path)
    if case == "a link to settings":
        (tmp_path / "stages.json").symlink_to("x")
    elif case == "a link to a stage":
        (tmp_path / "stage-2").symlink_to("x")
    with pytest.raises(OutputError, match=found):
        MultiStage(Recorder(), 1.0, directory=tmp_path).fit(FEATURES, Curator(LABELS, SPACE, name="grade"))


def test_a_run_that_was_stopped_before_it_began_begins(tmp_path):
    """A split without settings, and files that were not complete, are those of a run that drew nothing."""
    (tmp_path / "split.npy").write_bytes(b"")
    (tmp_path / ".stages.json").write_text("{")
    model = MultiStage(Recorder(), 1.0, directory=tmp_path).fit(FEATURES, Curator(LABELS, SPACE))
    assert sorted(os.listdir(tmp_path)) == ["split.npy", "stage-1", "stage-2", "stages.json"]
    assert np.load(tmp_path / "split.npy").tolist() == np.isin(np.arange(ROWS), model.stages_[1].rows).tolist()


def test_counts_that_are_kept_are_used_again_and_not_asked_for_twice(tmp_path, monkeypatch):
    """Stopped between the counts and the first stage, a run goes on with these counts."""
    prior, folder = ClusterPrior(CODES, epsilon=0.25), tmp_path / "run"

    def stopped(*_, **__):
        raise StoppedError

    curator = Curator(LABELS, SPACE, name="grade")
    with monkeypatch.context() as patch:
        patch.setattr(Curator, "randomize", stopped)
        with pytest.raises(StoppedError):
            MultiStage(Recorder(), 1.0, prior=prior, directory=folder).fit(FEATURES, curator)
    counts = Answer.load(folder / "prior")
    for each in (curator, Curator(LABELS, SPACE, name="grade")):
        model = MultiStage(Recorder(), 1.0, prior=prior, directory=folder).fit(FEATURES, each)
        assert each.spent[0] <= 1.0
        assert 0.99 < model.release_.guarantee.epsilon <= 1.0
        assert [draw.mechanism for draw in model.release_.certificate.draws] == ["noisy-histogram", "prior", "prior"]
    np.testing.assert_array_equal(Answer.load(folder / "prior").value, counts.value)
    told = prior.ask(Curator(LABELS, SPACE, name="grade"), None, None, 1.0, counts)
    wanted = PriorResponse(SPACE, 0.75, told.probabilities).channel().candidates
    first = model.stages_[0].rows
    np.testing.assert_array_equal(model.release_.channel.candidates[first], wanted[first])


@pytest.fixture
def tried():
    """Learners are tried before a label is drawn, as they are for users."""


@pytest.mark.usefixtures("tried")
@pytest.mark.parametrize(
    "learner", [SoftmaxRegression(), LogisticRegression(), make_pipeline(StandardScaler(), GaussianNB())]
)
def test_features_that_a_learner_does_not_take_cost_nothing(learner):
    """A number that is not finite, in any row, shows before a label is drawn."""
    features, curator = np.tile(FEATURES.astype(float), (5, 1)), Curator(np.tile(LABELS, 5), SPACE)
    features[1, 0] = np.nan
    with pytest.raises(InputError, match="expected"):
        MultiStage(learner, 1.0).fit(features, curator)
    assert curator.spent == (0.0, 0.0)


@pytest.mark.usefixtures("tried")
@pytest.mark.parametrize("gap", [np.nan, np.inf, None])
@pytest.mark.parametrize("form", [pd.DataFrame, pa.Table.from_pandas])
def test_a_gap_in_any_column_of_a_frame_costs_nothing(gap, form):
    """A frame's rows with missing or infinite values are tried, however few they are."""
    frame = pd.DataFrame(np.tile(FEATURES.astype(float), (5, 1))).rename(columns=str)
    frame.loc[::2, "0"] = 0.0
    frame.iloc[1, 1] = gap
    curator = Curator(np.tile(LABELS, 5), SPACE)
    with pytest.raises(InputError, match="expected"):
        MultiStage(LogisticRegression(), 1.0).fit(form(frame), curator)
    assert curator.spent == (0.0, 0.0)


def test_the_first_gap_of_each_column_is_tried():
    """Gaps of one column leave no other column untried, in an array, a frame or a tuple of both."""
    values = np.zeros((2000, 3))
    values[3:1500, 0] = np.nan
    values[1601, 1] = -np.inf
    names = pd.DataFrame({"text": ["a"] * 1703 + [None] + ["b"] * 296, "day": pd.to_datetime(["2026-01-05"] * 2000)})
    names.loc[1805, "day"] = pd.NaT
    assert {3, 1601} <= set(_trial_rows(values).tolist())
    assert {3, 1601} <= set(_trial_rows(pd.DataFrame(values)).tolist())
    assert {1703, 1805} <= set(_trial_rows(names).tolist())
    assert {3, 1601, 1703, 1805} <= set(_trial_rows((values, names)).tolist())
    assert len(_trial_rows(np.full((2000, 2), np.nan))) == len(_trial_rows(np.zeros((2000, 2))))


class Hiding(UniformPrior):
    """A prior that asks for counts, and may say so."""

    def __init__(self, told, cost):
        self.told, self.said = told, cost

    def cost(self, *_):
        """What it says that it costs."""
        return self.said

    def ask(self, curator, *_):
        """Counts of epsilon 0.5."""
        counted = curator.answer(NoisyHistogram(SPACE, 0.5, CODES, 4), whole=2.0)
        return dataclasses.replace(super().ask(curator), answer=counted if self.told else None)


@pytest.mark.parametrize(("told", "cost"), [(False, 0.0), (True, 0.0), (True, 0.4)])
def test_a_prior_that_draws_more_than_it_tells_is_refused(told, cost, monkeypatch):
    """No label responds then: the certificate would say less than what was spent."""
    drawn = []
    monkeypatch.setattr(Curator, "randomize", lambda *_, **__: drawn.append(1))
    with pytest.raises(InputError, match="found more from Hiding"):
        MultiStage(Recorder(), 1.0, prior=Hiding(told, cost)).fit(FEATURES, Curator(LABELS, SPACE, budget=2.0))
    assert not drawn


@pytest.mark.parametrize("lost", ["prior", "cheaper", "stage-1", "law", "row", "stage", "fewer"])
def test_a_folder_that_lost_something_is_refused_before_anything_is_charged(tmp_path, lost):
    """Counts that labels responded to, a stage before another, a law or a row of the split: each is found at once."""
    prior, folder = ClusterPrior(CODES, epsilon=0.25), tmp_path / "run"
    MultiStage(Recorder(), 1.0, stages=3, prior=prior, directory=folder).fit(
        FEATURES, Curator(LABELS, SPACE, name="grade")
    )
    split = np.load(folder / "split.npy")
    if lost in ("prior", "stage-1"):
        shutil.rmtree(folder / lost)
    elif lost == "cheaper":
        shutil.rmtree(folder / "prior")
        Curator(LABELS, SPACE, name="grade").answer(NoisyHistogram(SPACE, 0.01, CODES, 4)).save(folder / "prior")
    elif lost == "law":
        shutil.rmtree(folder / "stage-3")
        shutil.rmtree(folder / "stage-2")
        even = np.full((np.count_nonzero(split == 1), 4), 0.25)
        Curator(LABELS, SPACE, name="grade").randomize(PriorResponse(SPACE, 2.0, even), split == 1).save(
            folder / "stage-2"
        )
    else:
        changed = {"row": np.where(np.arange(ROWS) == 3, 7, split), "stage": 0 * split, "fewer": split[:-5]}
        np.save(folder / "split.npy", changed[lost])
    curator = Curator(LABELS, SPACE, name="grade")
    with pytest.raises(OutputError, match=r"^expected (?!the run that was begun)"):
        MultiStage(Recorder(), 1.0, stages=3, prior=prior, directory=folder).fit(FEATURES, curator)
    assert curator.spent == (0.0, 0.0)


def test_a_run_keeps_public_things_alone(tmp_path):
    """Its folder has the split, the settings and releases; settings say nothing that labels decide."""
    MultiStage(Recorder(), 1.0, directory=tmp_path / "one").fit(FEATURES, Curator(LABELS, SPACE, name="grade"))
    MultiStage(Recorder(), 1.0, directory=tmp_path / "two").fit(FEATURES, Curator(LABELS[::-1], SPACE, name="grade"))
    assert sorted(os.listdir(tmp_path / "one")) == ["split.npy", "stage-1", "stage-2", "stages.json"]
    one, two = (json.loads((tmp_path / name / "stages.json").read_text()) for name in ("one", "two"))
    assert one == two


# What is refused


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"stages": 0}, "stages between"),
        ({"stages": 241}, "one row for each of 241 stages"),
        ({"shares": (0.5, 0.4)}, "sum to 1"),
        ({"shares": (1.0,)}, "2 shares"),
        ({"shares": (1.5, -0.5)}, "above 0"),
        ({"temperature": 0.0}, "temperature above 0"),
        ({"temperature": [1.0, 1.0]}, "one for each of the 1 stages"),
        ({"response": "bits"}, "response among prior, subset"),
        ({"on": "first"}, "on among all, last"),
        ({"prior": [0.25] * 4}, "expected a prior"),
        ({"learner": "softmax"}, "fit and predict_proba"),
        ({"learner": SoftmaxRegression}, "fit and predict_proba"),
        ({"learner": LinearSVC()}, "fit and predict_proba"),
        ({"learner": [SoftmaxRegression()]}, "found 1"),
        ({"prior": ClusterPrior(CODES, epsilon=2.0)}, "less than epsilon"),
    ],
)
def test_what_can_not_be_used_is_refused_before_anything_is_charged(settings, said):
    """Settings are checked before the first draw."""
    curator = Curator(LABELS, SPACE)
    with pytest.raises(InputError, match=said):
        MultiStage(**{"learner": Recorder(), "epsilon": 1.0, **settings}).fit(FEATURES, curator)
    assert curator.spent == (0.0, 0.0)


@pytest.mark.usefixtures("as_users_call")
def test_labels_come_from_a_curator_and_features_have_its_rows():
    """Releases and bare labels are no curator; features of another number of rows are refused."""
    curator = Curator(LABELS, SPACE)
    for labels in (LABELS, Curator(LABELS, SPACE).randomize(RandomizedResponse(SPACE, 1.0)), None):
        with pytest.raises(NotTrueLabelsError, match="expected a Curator"):
            MultiStage(Recorder(), 1.0).fit(FEATURES, labels)
    for features in (FEATURES[:-1], (FEATURES, FEATURES[:-1])):
        with pytest.raises(InputError, match="rows"):
            MultiStage(Recorder(), 1.0).fit(features, curator)
    assert curator.spent == (0.0, 0.0)


@pytest.mark.parametrize("probabilities", [(0.5, 0.5), (0.5, 0.5, 0.5, 0.5), (np.nan, 0.5, 0.5, 0.0)])
def test_a_learner_that_predicts_no_distributions_is_refused(probabilities):
    """Before the second stage is drawn it is found out; the first was charged for and released."""
    curator = Curator(LABELS, SPACE)
    with pytest.raises(InputError, match=r"Recorder|declared classes"):
        MultiStage(Recorder(probabilities), 1.0).fit(FEATURES, curator)
    assert len(Recorder.fitted) == 1


# Accuracy
