"""A table released in stages: one release, one charge and a model, all of them or nothing."""

import re

import numpy as np
import pandas as pd
import pytest

from labeldp import Classes, Ledger, Release
from labeldp.errors import InputError, LabelDPError, TableError
from labeldp.learning.ratings import FactorizationClassifier
from labeldp.learning.tables import ModelChoice, StagePlan, cluster_table, learn_in_stages, open_model
from labeldp.learning.tables import _clusters as module
from labeldp.release import ledger_path
from labeldp.release.tables import Table

SPACE = Classes(["zq-secret-7", "zq-secret-8", "zq-secret-9"])
ROWS = 300


def patients(seed=0):
    """Three numbers and a town, and the class that the numbers tell."""
    random = np.random.default_rng(seed)
    points = random.normal(size=(ROWS, 3))
    codes = np.argmax(points + 0.2 * random.normal(size=points.shape), axis=1)
    frame = pd.DataFrame(points.round(3), columns=["a", "b", "c"])
    return frame.assign(town=random.choice(["north", "south"], ROWS), y=np.array(SPACE.points)[codes])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A table to release, and one to test on; the working directory."""
    monkeypatch.chdir(tmp_path)
    patients().to_csv(tmp_path / "t.csv", index=False)
    patients(seed=1).to_csv(tmp_path / "test.csv", index=False)
    return tmp_path


def staged(folder, model="softmax", space=SPACE, epsilon=3.0, output="out", choice=(), plan=(), **options):
    """Release the table of a folder in stages, and learn from it."""
    plan = StagePlan(ModelChoice(model, **dict(choice)), **dict(plan))
    return learn_in_stages(folder / "t.csv", "y", space, epsilon, folder / output, plan, **({"drop": []} | options))


def states(folder):
    """The states of the charges of the table."""
    ledger = ledger_path(folder / "t.csv")
    return [entry.state for entry in Ledger(ledger).entries()] if ledger.exists() else []


def nothing_stands(folder):
    """Neither an output, nor a staging folder, nor a model."""
    return {path.name for path in folder.iterdir() if "ledger" not in path.name} <= {"t.csv", "test.csv", "t.csv.lock"}


@pytest.mark.filterwarnings("ignore::labeldp.learning.sklearn.UnguardedFitWarning")
@pytest.mark.parametrize("model", ["softmax", "boosting", "torch:mlp"])
def test_a_table_becomes_a_release_and_a_model(folder, model):
    """The model is beside the release, of which it is, and knows most labels.

    At epsilon 3, 300 rows give each of these models more than 60 percent; one in three is chance.
    """
    training = {"epochs": 20} if model.startswith("torch:") else {}
    staged(folder, model, choice={"training": training})
    assert states(folder) == ["released"]
    kept = open_model(folder / "out.safetensors")
    release = Release.load(folder / "out")
    assert kept.certificate == release.certificate
    assert release.certificate.guarantee.epsilon == pytest.approx(3.0, abs=1e-6)
    test = patients(seed=1)
    assert np.mean(kept.predict(test) == test["y"]) > 0.6


def test_a_prior_comes_from_a_file_or_from_clusters(folder):
    """One row for all, a row for each, or noisy counts of clusters, which are charged within epsilon."""
    prior = pd.DataFrame({"zq-secret-9": [0.1], "zq-secret-7": [0.8], "zq-secret-8": [0.1]})
    prior.to_csv(folder / "one.csv", index=False)
    pd.concat([prior] * ROWS).to_parquet(folder / "each.parquet")
    for name in ("one.csv", "each.parquet"):
        found = staged(folder, output=f"out-{name}", plan={"prior": str(folder / name)}, budget=9).release.certificate
        assert any("prior" in each for each in found.assumptions)
    found = staged(folder, plan={"prior": "clusters", "clusters": "6"}, budget=9).release.certificate
    assert [draw.mechanism for draw in found.draws] == ["noisy-histogram", "prior-subset", "prior-subset"]
    assert found.guarantee.epsilon <= 3.0


def test_a_factorization_of_ratings_is_learned_in_stages(folder, monkeypatch):
    """By groups of ratings: each stage knows the users and items of all rows, and the file holds none of the rows.

    At epsilon 4 the mean rating of kind users is higher than that of others by more than a class.
    """
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"user": random.integers(0, 40, 400), "item": random.choice(list("abcdef"), 400)})
    frame["year"] = frame["item"].map(ord)
    frame["y"] = 1 + 3 * (frame["user"] % 2) + (frame["item"] < "d")
    frame.to_csv(folder / "t.csv", index=False)
    for name, most in (("rounds", 40), ("unused", 20)):
        monkeypatch.setitem(FactorizationClassifier.__init__.__kwdefaults__, name, most)
    known, fit = [], FactorizationClassifier.fit

    def recorded(model, rows, release):
        fit(model, rows, release)
        known.append((len(rows), len(model.users_.names), len(model.items_.names)))
        return model

    monkeypatch.setattr(FactorizationClassifier, "fit", recorded)
    features = {"features": ["user", "item", "year"]}
    given = {"space": Classes([1, 2, 3, 4, 5]), "epsilon": 4.0, "unit": "row"}
    found = staged(folder, "factorization", choice=features, plan={"response": "groups"}, **given)
    assert known[-2:] == [(240, 40, 6), (400, 40, 6)]
    assert [draw.mechanism for draw in found.release.certificate.draws] == ["groups"] * 2
    kept = open_model(folder / "out.safetensors")
    assert kept.estimator[-1].public_rows is None
    new = pd.DataFrame({"user": [0, 1, 99, None], "item": ["a", "a", "a", "z"], "year": [97] * 4})
    means = kept.predict_proba(new) @ kept.classes_.astype(float)
    assert means[1] > means[0] + 1


#: What only the plan refuses; other refusals are those of releases and of ``MultiStage``.
BAD = {
    "no classes that are declared": {"space": Classes(["zq-1", "zq-2"])},
    "a model that may refuse a stage": {"model": "convex"},
    "no columns": {"drop": None, "keep": []},
    "a feature that is not kept": {"drop": None, "keep": ["a"], "choice": {"features": ["a", "b"]}},
    "an epsilon that is too large": {"epsilon": 800.0},
    "more stages than rows": {"plan": {"stages": 301}},
    "an unknown response": {"plan": {"response": "magic"}},
    "an unknown network": {"model": "torch:forest"},
    "a network of images without any": {"model": "torch:inception"},
    "no epochs": {"model": "torch:mlp", "choice": {"training": {"epochs": 0}}},
    "a prior that is the table": {"plan": {"prior": "test.csv"}},
    "clusters without their prior": {"plan": {"clusters": "6"}},
    "more clusters than rows": {"plan": {"prior": "clusters", "clusters": "301"}},
    "clusters for ratings": {
        "model": "factorization",
        "plan": {"prior": "clusters"},
        "choice": {"features": ["a", "b"]},
    },
    "a factorization of no users and items": {"model": "factorization"},
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.usefixtures("as_users_call")
def test_bad_input_is_refused(folder, case):
    """One line that says what was expected, no label, nothing left and nothing charged."""
    with pytest.raises(
        LabelDPError, match=r"^(expected .*found|no .*column .*; columns: |.* is the label|.* is none of)"
    ) as refused:
        staged(folder, **BAD[case])
    assert not re.search("\n|zq-secret", str(refused.value))
    assert nothing_stands(folder)
    assert set(states(folder)) <= {"void"}


@pytest.mark.parametrize("setting", ["checkpoint", "report", "accelerator", "held_out", "patience", "magic"])
def test_nothing_of_a_training_is_kept_before_the_release_stands(folder, setting):
    """A checkpoint of a run that was killed would hold what labels say, and the charge would be void."""
    with pytest.raises(LabelDPError, match=f"found '{setting}', which could disclose something about labels before"):
        staged(folder, "torch:mlp", choice={"training": {setting: folder / "kept"}})
    assert {path.name for path in folder.iterdir()} == {"t.csv", "test.csv"}


@pytest.mark.parametrize("path", ["t.csv", "none/m"])
def test_a_file_of_the_model_is_new_and_in_a_folder(folder, path):
    """Before anything is charged."""
    with pytest.raises(LabelDPError, match=r"^(expected|there is no folder) "):
        staged(folder, plan={"model_file": folder / path})
    assert states(folder) == []


@pytest.mark.parametrize(("place", "state"), [("curator._drawing.draw", "void"), ("jobs._job.finish", "drawn")])
def test_whatever_stops_it_nothing_is_left(folder, monkeypatch, place, state):
    """Ctrl-C: no output; a charge stays if labels were drawn by then."""

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(f"labeldp.release.{place}", stop)
        with pytest.raises(KeyboardInterrupt):
            staged(folder)
    assert nothing_stands(folder)
    assert states(folder) == [state]
    if state == "void":
        staged(folder)
        assert states(folder)[-1] == "released"


def test_a_learner_that_fails_on_what_was_drawn_is_paid_for(folder, monkeypatch):
    """Its failure may depend on labels: no text of it is shown, nothing is written, and the charge stays."""

    def stop(learner, features, release, *_):
        assert len(features) == len(release)
        if not release.is_public:  # those of the trial before the draw are made up
            raise ZeroDivisionError("zq-secret-7")
        learner.classes_ = np.array(SPACE.points)

    monkeypatch.setattr("labeldp.learning.sklearn._softmax.SoftmaxRegression.fit", stop)
    with pytest.raises(LabelDPError, match=r"ZeroDivisionError.*the charge stays") as refused:
        staged(folder)
    assert "zq-secret" not in str(refused.value)
    assert nothing_stands(folder)
    assert states(folder) == ["drawn"]


def test_a_column_that_gives_labels_away_is_noted_for_its_owner_alone(folder):
    """Beside the ledger, and not in what is said of the release."""
    patients().assign(copy=lambda frame: frame["y"].str[-1]).to_csv(folder / "t.csv", index=False)
    found = staged(folder, drop=None, keep=["a", "copy"])
    assert not any("determines the label" in each for each in found.release.remarks)
    assert "'copy' equals or determines the label" in (folder / "t.csv.labeldp-ledger.notes").read_text()


# Clusters of tables on disk, by public columns alone.


GROUPS = np.arange(400) % 4
FRAME = pd.DataFrame(
    {
        "height": GROUPS * 10.0 + np.random.default_rng(0).normal(size=400),
        "town": np.array(["a", "b", "c", "d"])[GROUPS],
        "same": 1,
        "ill": np.where(np.random.default_rng(1).random(400) < 0.5, "yes", "no"),
    }
)


def written(frame, path):
    """A table on disk."""
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path, index=False)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("columns", [["height"], ["town"], ["height", "town", "same"]])
def test_groups_in_the_columns_are_found(tmp_path, monkeypatch, name, columns):
    """Rows of one group are in one cluster, whatever the format, the batches and the columns that say so."""
    monkeypatch.setattr(module, "_ROWS_PER_BATCH", 37)
    numbers = cluster_table(written(FRAME, tmp_path / name), "ill", columns, 4)
    assert numbers.dtype == np.int32
    assert len(set(zip(GROUPS.tolist(), numbers.tolist(), strict=True))) == 4
    assert set(numbers.tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_labels_are_not_looked_at(tmp_path, monkeypatch, name):
    """Tables with other labels get the same clusters, and no reader is asked for the label column."""
    asked = []
    read = Table.batches

    def batches(table, columns, rows):
        asked.extend(columns)
        return read(table, columns, rows)

    monkeypatch.setattr(Table, "batches", batches)
    one = cluster_table(written(FRAME, tmp_path / name), "ill", ["height", "town"], 3)
    other = FRAME.assign(ill=["longer text"] * 200 + ["no"] * 200)
    two = cluster_table(written(other, tmp_path / f"other-{name}"), "ill", ["height", "town"], 3)
    assert np.array_equal(one, two)
    assert set(asked) == {"height", "town"}


def test_few_rows_are_looked_at_evenly(tmp_path, monkeypatch):
    """Of more rows than are looked at, evenly spaced ones over the whole table are, and all rows get a cluster."""
    monkeypatch.setattr(module, "_SAMPLED_ROWS", 50)
    monkeypatch.setattr(module, "_ROWS_PER_BATCH", 33)
    seen = []
    find = module.cluster
    monkeypatch.setattr(module, "cluster", lambda points, count: seen.append(points) or find(points, count))
    frame = pd.DataFrame({"place": np.arange(400.0), "ill": "no"})
    numbers = cluster_table(written(frame, tmp_path / "t.parquet"), "ill", ["place"], 4)
    assert len(numbers) == 400
    assert len(seen[0]) == 50
    assert np.ptp(np.diff(seen[0][:, 0])) == pytest.approx(0, abs=1e-9)
    assert (np.bincount(numbers) > 60).all()


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("columns", "count", "message"),
    [
        (["height", "ill"], 3, "'ill' is the label, which is released with noise alone"),
        (["same"], 3, "expected a public column"),
        (["weight"], 3, "weight"),
        (["height"], 401, "401"),
    ],
)
def test_what_gives_no_clusters_is_refused(tmp_path, columns, count, message):
    """The error says what was found."""
    with pytest.raises((InputError, TableError), match=message):
        cluster_table(written(FRAME, tmp_path / "t.parquet"), "ill", columns, count)
