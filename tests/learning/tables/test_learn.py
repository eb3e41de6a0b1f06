"""Learning from the folder of a release: what is refused, which rows count, and what is said of too few."""

import dataclasses
import inspect
import warnings
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest

from labeldp import Classes, Curator, Interval, Release, release_table
from labeldp.errors import InputError, LabelDPError
from labeldp.learning.metrics import UnitsWarning, accuracy
from labeldp.learning.tables import evaluate, learn, open_model
from labeldp.learning.tables._model import chosen_rows
from labeldp.learning.tables._part_sums import chosen_units
from labeldp.learning.tables._scores import class_scores
from labeldp.release import public_columns
from labeldp.results._learned import LearnedModel

SPACE, COSTS = Classes(["no", "yes"]), Interval(0.0, 120.0, 1.0)


@pytest.fixture
def released(tmp_path):
    """Release a frame whose label is its last column, at a large epsilon unless another is given."""

    def releasing(frame, space, epsilon=6.0, **options):
        frame.to_csv(tmp_path / "t.csv", index=False)
        output = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
        given = {"drop": [], "budget": 99.0, "unit": "row"} | options
        release_table(tmp_path / "t.csv", frame.columns[-1], space, epsilon, output, **given)
        return output

    return releasing


def patients(rows=200):
    """A number and a town that tell the label."""
    random = np.random.default_rng(1)
    age, town = random.integers(20, 80, rows), random.choice(np.array(["north", "south"]), rows)
    return pd.DataFrame({"age": age, "town": town, "ill": np.where(age + 20 * (town == "north") > 60, "yes", "no")})


def costs(rows=600):
    """Towns in two sparse columns, a number, and costs that the first tells."""
    random = np.random.default_rng(4)
    towns = random.choice([f"t{i}" for i in range(40)], rows)
    frame = pd.DataFrame({"town": towns, "job": random.permutation(towns), "age": random.integers(0, 9, rows)})
    return frame.assign(cost=np.where(towns < "t2", 80.0, 20.0))


@pytest.mark.parametrize(
    ("frame", "space", "options", "given", "message"),
    [
        (patients(), SPACE, {}, {"model": "tree"}, "among auto, softmax, boosting"),
        (patients(), SPACE, {}, {"model": "ridge"}, "a model of classes among"),
        (patients(), SPACE, {}, {"method": "em"}, "a method of softmax among likelihood, unbiased, plain"),
        (patients(), SPACE, {}, {"features": ["age", "agee"]}, "found 'agee'"),
        (patients(), SPACE, {}, {"features": ["ill_released"]}, "found 'ill_released'"),
        (patients(), SPACE, {"drop": None, "keep": []}, {}, "the release kept none"),
        (patients().assign(age=1)[["age", "ill"]], SPACE, {}, {}, "age: it is the same in every row"),
        (patients(4), SPACE, {}, {}, "at least 10 rows to learn from, found 4"),
        (
            patients(),
            SPACE,
            {"mechanism": "noisy-histogram", "drop": None, "keep": []},
            {},
            "found the answer to noisy-histogram",
        ),
        (costs(), COSTS, {"mechanism": "bins"}, {"model": "neighbours"}, "numbers for neighbours, found bins"),
        (costs(), COSTS, {"mechanism": "bins"}, {"model": "convex"}, "numbers for convex, found bins"),
    ],
)
def test_what_cannot_be_learned_is_refused(released, frame, space, options, given, message):
    """Models, methods and columns that there are not, too few rows, and bins where numbers are taken for labels."""
    with pytest.raises(InputError, match=message) as refused:
        learn(released(frame, space, **options), **given)
    assert "'yes'" not in str(refused.value)


@pytest.mark.parametrize(("model", "mechanism"), [("ridge", "bins"), ("neighbours", "laplace")])
def test_many_texts_and_few_numbers_are_learned_from(released, tmp_path, model, mechanism):
    """Columns whose texts make sparse features give a model, which is judged by numbers on another release."""
    found = learn(released(costs(), COSTS, mechanism=mechanism), model=model)
    assert found.scores.gain.value > 0
    kept = open_model(found.model.save(tmp_path / "m.safetensors"))
    other = released(costs(), COSTS, other_people="made up")
    assert evaluate(kept, other, "cost", public=False).gain.value > 0


def test_one_bit_of_a_label_bounds_the_error(released):
    """A law that does not tell squares gives bounds of the error, and the gain, which is far from zero."""
    frame = pd.DataFrame({"age": np.arange(1500) % 60}).assign(cost=lambda each: each["age"] * 2.0)
    scores = learn(released(frame, COSTS, mechanism="one-bit"), model="ridge").scores
    assert scores.squared_error.lower < scores.squared_error.upper
    assert scores.gain.value > 0


def test_few_rows_for_much_noise_are_warned_of_once(released):
    """What descent says of too few rows is one warning, of all rows, however many fits were made."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        learn(released(patients(60), SPACE, 0.05), model="convex")
    (text,) = [str(each.message) for each in seen if "rows for so much noise" in str(each.message)]
    assert text.startswith("expected at least ")
    assert "found 60; " in text


def test_a_column_named_row_is_no_unit(released):
    """Where each row is protected alone, a column of that name is a feature like any other."""
    frame = patients(60).assign(row=np.arange(60) % 3)[["row", "age", "ill"]]
    assert set(learn(released(frame, SPACE, unit=None), model="softmax").model.columns) == {"row", "age"}


def test_rows_are_chosen_in_whole_units_and_without_labels():
    """Each unit is in or out, whatever the labels are, and the release's name alone decides."""
    units = np.repeat(np.arange(100), 5)
    release, other = (Curator(["no", "yes"] * 250, SPACE).randomize(epsilon=1.0) for _ in range(2))
    chosen = chosen_rows(release.certificate, units, 203)
    assert len(chosen) == 200
    assert (np.bincount(chosen // 5)[np.unique(chosen // 5)] == 5).all()
    assert np.array_equal(chosen, chosen_rows(release.certificate, units, 203))
    assert not np.array_equal(chosen, chosen_rows(other.certificate, units, 203))


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A model, and tables and releases with something wrong with them; one of them is its own release."""
    folder, frame = tmp_path_factory.mktemp("judged"), patients()
    tables = {
        "own": frame,
        "other": frame,
        "bare": frame[["ill"]],
        "old": frame.assign(age="old"),
        "endless": frame.assign(age=np.where(frame.index == 3, np.inf, 1.0)),
        "perhaps": frame.assign(ill="perhaps"),
    }
    for name, each in tables.items():
        (folder / name).mkdir()
        each.to_parquet(folder / name / "t.parquet")
    for name, space in (("own", SPACE), ("other", SPACE), ("perhaps", Classes(["no", "yes", "perhaps"]))):
        release_table(folder / name / "t.parquet", "ill", space, 3.0, folder / f"{name}-shared", drop=[], unit="row")
    return learn(folder / "own-shared", model="softmax").model, folder


@pytest.mark.parametrize(
    ("source", "label", "public", "message"),
    [
        ("other", "ill", False, "there is no release with a _certificate.json"),
        ("other-shared", "ill", True, "found the folder of a release; use --released"),
        ("own-shared", "ill", False, "rows that the model was not fitted on"),
        ("other-shared", "town", False, "'town', which the model predicts from"),
        ("other-shared", "id", False, "a release of the label 'id', found 'ill'"),
        ("other", "sick", True, "no column 'sick'; columns: "),
        ("perhaps", "ill", True, r"a class of the model \(no, yes\) in every row"),
        ("perhaps-shared", "ill", False, "the label space of the model"),
        ("bare", "ill", True, "found no 'age'"),
        ("old", "ill", True, "a number in every row of the column 'age', found another value in row 1 "),
        ("endless", "ill", True, "finite numbers in 'age', found infinity in row 4 "),
    ],
)
def test_what_cannot_be_evaluated_is_refused(judged, source, label, public, message):
    """Labels that are not those declared, the rows of the model itself, and columns that are not its own."""
    model, folder = judged
    path = folder / source / "t.parquet" if public and not source.endswith("-shared") else folder / source
    with pytest.raises(LabelDPError, match=message) as refused:
        evaluate(model, path, label, public=public)
    assert "perhaps" not in str(refused.value)


@pytest.mark.parametrize(("model", "rare"), [("softmax", 4), ("boosting", 204 + 4 - 199)])
def test_categories_that_count_as_one_are_told(released, tmp_path, model, rare):
    """Those that occur once do in linear models, and those beyond the 199 most common in trees, in files too."""
    places = [f"place {place % 204}" for place in range(612)] + [f"village {place}" for place in range(4)]
    frame = pd.DataFrame(
        {"place": places, "age": np.arange(616) % 50, "ill": np.where(np.arange(616) % 2, "no", "yes")}
    )
    found = learn(released(frame, SPACE), model=model)
    assert found.model.merged_categories == {"place": (rare, 208)}
    assert f"the {rare} rarest of 208 categories of place count as one" in LearnedModel.of(found).notes
    kept = open_model(found.model.save(tmp_path / "m.safetensors"))
    assert kept.merged_categories == found.model.merged_categories


# Evaluation of a model on a release of units.


@pytest.mark.parametrize("model", ["softmax", "boosting", "convex"])
def test_scores_take_rows_of_a_unit_as_dependent(tmp_path, monkeypatch, model):
    """Those of a model's own folds, whose rows were fitted on other people's; their column is no feature."""
    person, random = np.repeat(np.arange(60), 3), np.random.default_rng(0)
    frame = pd.DataFrame({"group": person, "x": random.normal(size=180), "y": random.integers(0, 2, 180)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    release_table(tmp_path / "t.csv", "y", Classes([0, 1]), 6.0, tmp_path / "out", drop=[], unit="group")
    form, seen = inspect.signature(class_scores), []

    def noted(*given, **named):
        seen.append(form.bind(*given, **named).arguments)
        return class_scores(*given, **named)

    monkeypatch.setattr("labeldp.learning.tables._learn.class_scores", noted)
    learned = learn(tmp_path / "out", model=model)
    assert learned.left_out == {"group": "it names the privacy unit"}
    (given,) = seen
    pairs = set(zip(person.tolist(), np.asarray(given["units"].numbers).tolist(), strict=True))
    assert len(pairs) == len(set(np.asarray(given["units"].numbers).tolist())) == 60
    assert all(len(set(given["folds"][person == each])) == 1 for each in range(60))


def test_evaluation_on_public_labels_takes_rows_of_one_person_as_dependent(tmp_path, monkeypatch):
    """Where the table has the column of the units that the model was learned from, also if some rows are judged."""
    rng, person = np.random.default_rng(3), np.repeat([f"P{i}" for i in range(40)], 5)
    label = np.repeat(rng.integers(0, 2, 40), 5)
    frame = pd.DataFrame({"person": person, "x": label + np.repeat(rng.normal(size=40), 5), "y": label})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.rename(columns={"person": "other"}).to_csv(tmp_path / "unnamed.csv", index=False)
    release_table(tmp_path / "t.csv", "y", Classes([0, 1]), 20.0, tmp_path / "fit", keep=["x"], unit="person")
    model = learn(tmp_path / "fit", model="softmax", features=["x"]).model
    half = np.flatnonzero(chosen_units(np.arange(200, dtype=np.uint64), 0.5))
    for name, judged in (("t", np.arange(200)), ("unnamed", np.arange(200)), ("t", half)):
        monkeypatch.setattr("labeldp.learning.tables._evaluate._MOST_PUBLIC", len(judged))
        found = evaluate(model, tmp_path / f"{name}.csv", "y", public=True)
        release = Release.public(label[judged], Classes([0, 1]))
        units = person[judged] if name == "t" else None
        expected = accuracy(release, model.predict(frame[["x"]])[judged], units=units)
        assert dataclasses.astuple(found.accuracy) == pytest.approx(dataclasses.astuple(expected))


@pytest.mark.parametrize("kept", [True, False])
def test_evaluation_takes_rows_of_one_person_as_dependent(tmp_path, kept):
    """The interval is that of persons if their column was kept, and of rows if nobody can know them."""
    for seed, name in enumerate(("fit", "test")):
        rng = np.random.default_rng(seed)
        person = np.repeat(range(40), 5)
        label = np.repeat(rng.integers(0, 2, 40), 5)
        frame = pd.DataFrame({"person": person + 40 * seed, "x": label + np.repeat(rng.normal(size=40), 5), "y": label})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        release_table(
            tmp_path / f"{name}.csv", "y", Classes([0, 1]), 20.0, tmp_path / name,
            keep=["x", *(["person"] if kept else [])], unit="person", ledger=tmp_path / f"{name}-ledger", budget=20.0,
        )  # fmt: skip
    model = learn(tmp_path / "fit", model="softmax", features=["x"]).model
    with nullcontext() if kept else pytest.warns(UnitsWarning, match="units="):
        found = evaluate(model, tmp_path / "test", "y", public=False)
    table, release = public_columns(tmp_path / "test"), Release.load(tmp_path / "test")
    units = table["person"] if kept else "rows"
    expected = accuracy(release, model.predict(table), units=units)
    assert dataclasses.astuple(found.accuracy) == pytest.approx(dataclasses.astuple(expected))
    if kept:
        assert found.accuracy.error > 1.2 * accuracy(release, model.predict(table), units="rows").error
