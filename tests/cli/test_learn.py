"""Learning from a release on the command line, and judging what came of it."""

import inspect
import json
import re
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import skops.io

from labeldp import Classes, Curator, Release, release_table
from labeldp.learning.tables import TableModel, learn
from labeldp.learning.tables._folds import chosen_rows

ROWS = 400


def patients(rows, seed):
    """A table of numbers, flags, dates, times and text with gaps, and a label that two of its columns tell."""
    random = np.random.default_rng(seed)
    age, town = random.integers(20, 80, rows), random.choice(np.array(["north", "south", "east"]), rows)
    ill = (age + 20 * (town == "north") + random.normal(0, 6, rows)) > 60
    frame = pd.DataFrame(
        {
            "id": [f"p{seed}-{i:05d}" for i in range(rows)],
            "street": random.permutation(rows) // 2,
            "age": age.astype(float),
            "town": town,
            "smokes": random.random(rows) < 0.3,
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 300, rows), unit="D"),
            "same": 1,
            "ill": np.where(ill, "yes", "no"),
        }
    )
    frame.loc[random.random(rows) < 0.1, "age"] = np.nan
    frame.loc[random.random(rows) < 0.1, "town"] = None
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table as CSV and Parquet, one to test on, and a release of each at a large epsilon."""
    folder = tmp_path_factory.mktemp("patients")
    for name, seed in (("train", 1), ("test", 2)):
        patients(ROWS, seed).to_csv(folder / f"{name}.csv", index=False)
        pq.write_table(pa.Table.from_pandas(patients(ROWS, seed)), folder / f"{name}.parquet")
        space = Classes(["no", "yes"])
        release_table(folder / f"{name}.parquet", "ill", space, 3.0, folder / f"{name}-shared", drop=[])
    return folder


@pytest.fixture(scope="module")
def learned(folder):
    """A softmax model of the release, and where it was kept."""
    found = learn(folder / "train-shared")
    found.model.save(folder / "model.skops")
    return found


def rows_of(text):
    """The figures of a printed table by their names."""
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]
    return {name: value for name, value, _ in cells}


@pytest.mark.parametrize(
    ("model", "method"),
    [
        ("softmax", None),
        ("softmax", "unbiased"),
        ("softmax", "plain"),
        ("boosting", "em"),
        ("boosting", "plain"),
        ("convex", None),
    ],
)
def test_a_release_alone_gives_a_model_and_how_good_it_is(model, method, folder, run, tmp_path):
    """What is printed from released labels is near what true labels of another table say.

    At epsilon 3 the difference of the two has a deviation below 3 points, so 16 raise a false alarm below 1e-6.
    """
    chosen = [] if method is None else ["--method", method]
    kept = tmp_path / "model.skops"
    done = run("learn", folder / "train-shared", "--model", model, *chosen, "--features", "age,town", "--output", kept)
    assert done.code == 0, done.err
    assert "epsilon 3" in done.out
    found = rows_of(done.out)
    judged = run("evaluate", kept, folder / "test.csv", "--label", "ill", "--labels-are-public")
    assert judged.code == 0, judged.err
    true = rows_of(judged.out)
    of = "log likelihood{}, gain over uniform guessing (nats)"
    assert set(true) - {of.format("")} == set(found) - {of.format(" of released labels")}
    assert set(true) ^ set(found) == {of.format(""), of.format(" of released labels")}
    percent = {name: float(value.rstrip("%")) for name, value in true.items() if value.endswith("%")}
    assert percent["accuracy"] > percent["accuracy of the most common class"] + 15
    assert abs(float(found["accuracy"].rstrip("%")) - percent["accuracy"]) < 16


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predictions_are_written(folder, learned, run, tmp_path, ending):
    """A class and its probabilities for each row, in order, from a table without labels too; nothing else of it."""
    frame = patients(ROWS, 2)
    frame.drop(columns=["ill", "id"]).to_csv(tmp_path / "t.csv", index=False)
    for table in (folder / "test.csv", folder / "test.parquet", tmp_path / "t.csv"):
        output = tmp_path / f"{table.suffix[1:]}-{table.stem}.{ending}"
        done = run("predict", folder / "model.skops", table, "--output", output)
        assert done.code == 0, done.err
        assert done.out.startswith("Predicted 'ill' for 400 rows, in their order.\n")
        assert done.out.endswith("model.skops ANOTHER_RELEASE --released\n")
        found = pd.read_csv(output) if ending == "csv" else pd.read_parquet(output)
        assert list(found) == ["ill_predicted", "ill_probability_no", "ill_probability_yes"]
        assert found["ill_predicted"].tolist() == learned.model.predict(frame).tolist()
        np.testing.assert_allclose(found.iloc[:, 1:], learned.model.predict_proba(frame))
    assert "choose another name" in run("predict", folder / "model.skops", table, "--output", output).err


def test_a_column_that_a_model_knows_nothing_of_is_named(folder, learned, run, tmp_path):
    """One warning, beside the scores."""
    pd.read_csv(folder / "test.csv").assign(town="west").to_csv(tmp_path / "west.csv", index=False)
    judged = run("evaluate", folder / "model.skops", tmp_path / "west.csv", "--labels-are-public")
    assert judged.code == 0, judged.err
    (line,) = (each for each in judged.err.splitlines() if each.startswith("warning: "))
    assert line.startswith("warning: expected categories of 'town' that the model knows, such as 'east', 'north', ")
    assert learned.model.columns["town"] == "category"


def test_columns_that_say_nothing_are_left_out_and_said_to_be(learned, folder, run, tmp_path):
    """Names, and columns with one value; what is used has its kind."""
    assert dict(learned.model.columns) == {
        "street": "number", "age": "number", "town": "category", "smokes": "flag", "seen": "instant"
    }  # fmt: skip
    assert set(learned.left_out) == {"id", "same"}
    done = run("learn", folder / "train-shared", "--features", "age,smokes", "--output", tmp_path / "m")
    assert "left out" not in done.out
    assert TableModel.load(tmp_path / "m").columns == {"age": "number", "smokes": "flag"}


def test_persons_that_no_column_tells_apart_give_no_scores(run, tmp_path):
    """Features that tell persons apart would score on pure noise, as folds cannot keep a person on one side."""
    random = np.random.default_rng(0)
    person = np.repeat(np.arange(60), 5)
    frame = pd.DataFrame({"person": person, "bmi": random.normal(size=60)[person].round(6)})
    frame["ill"] = random.choice(["no", "yes"], 60)[person]
    frame.to_csv(tmp_path / "t.csv", index=False)
    given = {"unit": "person", "budget": 40.0}
    for name, drop in (("without", ["person"]), ("with", [])):
        release_table(tmp_path / "t.csv", "ill", Classes(["no", "yes"]), 20.0, tmp_path / name, drop=drop, **given)
        learned = run("learn", tmp_path / name, "--model", "boosting", "--output", tmp_path / f"{name}.skops")
        warned = learned.out.startswith("Nothing shows how good this model is: no kept column says")
        assert warned == (name == "without")
        assert "Better than always" not in learned.out
        assert ("accuracy" in learned.out) != warned
        told = run("learn", tmp_path / name, "--model", "softmax", "--output", tmp_path / f"{name}2.skops", "--json")
        assert len(json.loads(told.out)["remarks"]) == warned


@pytest.mark.parametrize("model", ["softmax", "boosting"])
def test_a_unit_is_on_one_side_of_every_split(model, folder, run, tmp_path, monkeypatch):
    """Rows of one unit do not judge a model that was fitted on others of it, and its column is no feature.

    Scores take them for dependent, on folds and on another release.
    """
    output = tmp_path / "shared"
    given = {"drop": [], "unit": "street", "ledger": tmp_path / "ledger", "budget": 20.0}
    release_table(folder / "train.parquet", "ill", Classes(["no", "yes"]), 6.0, output, **given)
    from labeldp.learning.tables import _evaluate as others  # noqa: PLC0415 (and its units)
    from labeldp.learning.tables import _families as families  # noqa: PLC0415 (its division of rows is watched)
    from labeldp.learning.tables import _learn as tables  # noqa: PLC0415 (and its scores)

    seen, units = [], []
    real = families.folds_of
    for module in (tables, others):
        form = inspect.signature(module.class_scores)
        noted = lambda *a, judge=module.class_scores, form=form, **more: (  # noqa: E731
            units.append(form.bind(*a, **more).arguments["units"]) or judge(*a, **more)
        )
        monkeypatch.setattr(module, "class_scores", noted)
    monkeypatch.setattr(families, "folds_of", lambda *given: seen.extend(real(*given)) or seen)
    done = run("learn", output, "--model", model, "--output", tmp_path / "m")
    assert done.code == 0, done.err
    assert "street: it names the privacy unit" in done.out
    assert "units with many rows" not in done.out  # each street has two
    family = patients(ROWS, 1)["street"].to_numpy()
    assert sorted(np.concatenate([held for _, held in seen])) == list(range(ROWS))
    assert all(not set(family[fit]) & set(family[held]) for fit, held in seen)
    again = {**given, "ledger": tmp_path / "ledger-2"}
    release_table(folder / "test.parquet", "ill", Classes(["no", "yes"]), 6.0, tmp_path / "shared-2", **again)
    judged = run("evaluate", tmp_path / "m", tmp_path / "shared-2", "--label", "ill", "--released")
    assert judged.code == 0, judged.err
    numbers = [getattr(each, "numbers", each) for each in units]
    streets = [patients(ROWS, seed)["street"] for seed in (1, 2)]
    assert all(
        pd.Series(each).groupby(street).nunique().max() == 1 for each, street in zip(numbers, streets, strict=True)
    )


def test_candidates_give_bounds(run, tmp_path):
    """A release with a prior says between which values the accuracy lies."""
    frame = patients(ROWS, 1).assign(p_a=0.6, p_b=0.3, p_c=0.1)
    frame["ill"] = np.where(frame["ill"] == "yes", "a", np.where(frame["smokes"], "b", "c"))
    frame.to_csv(tmp_path / "t.csv", index=False)
    given = ["--classes", "a,b,c", "--epsilon", "1", "--keep", "age,town,smokes", "--mechanism", "prior"]
    output = tmp_path / "shared"
    assert run("release", tmp_path / "t.csv", "--label", "ill", *given, "--prior", "p_", "--output", output).code == 0
    done = run("learn", output, "--output", tmp_path / "m")
    assert done.code == 0, done.err
    assert set(rows_of(done.out)) == {
        "log likelihood of released labels, gain over uniform guessing (nats)",
        "log likelihood of released labels, gain over class shares (nats)",
        "accuracy lies between",
    }


BAD = {
    "neither": (["evaluate", "model.skops", "test.csv", "--label", "ill"], "either --labels-are-public or --released"),
    "both": (
        ["evaluate", "model.skops", "test.csv", "--label", "ill", "--labels-are-public", "--released"],
        "either --labels-are-public or --released",
    ),
    "true labels of a table that was said to be released": (
        ["evaluate", "model.skops", "test.csv", "--label", "ill", "--released"],
        "expected a release with a _certificate.json",
    ),
    "its own release": (
        ["evaluate", "model.skops", "train-shared", "--label", "ill", "--released"],
        "rows that the model was not fitted on",
    ),
    "another label": (
        ["evaluate", "model.skops", "test-shared", "--label", "town", "--released"],
        "'town', which the model predicts from",
    ),
    "a label that is not the release's": (
        ["evaluate", "model.skops", "test-shared", "--label", "id", "--released"],
        "a release of the label 'id', found 'ill'",
    ),
    "a release that is said to be a table": (
        ["evaluate", "model.skops", "test-shared", "--label", "ill", "--labels-are-public"],
        "found the folder of a release; use --released",
    ),
    "no label": (
        ["evaluate", "model.skops", "test.csv", "--label", "sick", "--labels-are-public"],
        "no column 'sick'; columns: ",
    ),
    "other classes": (
        ["evaluate", "model.skops", "test.csv", "--label", "id", "--labels-are-public"],
        "a class of the model (no, yes) in every row",
    ),
    "other released classes": (
        ["evaluate", "model.skops", "other-shared", "--label", "ill", "--released"],
        "the label space of the model",
    ),
    "other columns": (
        ["evaluate", "model.skops", "few.csv", "--label", "ill", "--labels-are-public"],
        "found no 'street', 'age', 'smokes', 'seen'",
    ),
    "released without its columns": (
        ["evaluate", "model.skops", "bare-shared", "--label", "ill", "--released"],
        "found no 'street'",
    ),
    "columns of another kind": (
        ["evaluate", "model.skops", "strange.parquet", "--label", "ill", "--labels-are-public"],
        "expected a number in every row of the column 'age'",
    ),
    "infinity": (
        ["evaluate", "model.skops", "endless.parquet", "--label", "ill", "--labels-are-public"],
        "finite numbers in 'age', found infinity in row 4 ",
    ),
    "no model": (["evaluate", "none.skops", "test.csv", "--label", "ill", "--labels-are-public"], "found no file"),
    "something else": (
        ["evaluate", "test.csv", "test.csv", "--label", "ill", "--labels-are-public"],
        "expected a model made by 'labeldp learn'",
    ),
    "a foreign model": (
        ["evaluate", "foreign.skops", "test.csv", "--label", "ill", "--labels-are-public"],
        "found other types in it",
    ),
    "another schema": (
        ["evaluate", "later.skops", "test.csv", "--label", "ill", "--labels-are-public"],
        "expected a model of schema labeldp/model/1, found 'labeldp/model/2'",
    ),
    "another scikit-learn": (
        ["evaluate", "old.skops", "test.csv", "--label", "ill", "--labels-are-public"],
        "found 1.0.2; install that version",
    ),
    "a damaged certificate": (
        ["evaluate", "forged.skops", "test.csv", "--label", "ill", "--labels-are-public"],
        "expected a model made by 'labeldp learn'",
    ),
    "no release": (["learn", "nowhere", "--output", "m"], "expected a release with a _certificate.json"),
    "a release without its certificate": (
        ["learn", "headless", "--output", "m"],
        "expected a release with a _certificate.json",
    ),
    "a release of another schema": (["learn", "later", "--output", "m"], "expected"),
    "an answer that is no line for each row": (
        ["learn", "counts", "--output", "m"],
        "found the answer to noisy-histogram; open it with Answer.load and learn with CellClassifier",
    ),
    "an unknown model": (
        ["learn", "train-shared", "--model", "tree", "--output", "m"],
        "among auto, softmax, boosting",
    ),
    "an unknown method": (
        ["learn", "train-shared", "--method", "em", "--output", "m"],
        "a method of softmax among likelihood, unbiased, plain",
    ),
    "an unknown feature": (["learn", "train-shared", "--features", "age,agee", "--output", "m"], "found 'agee'"),
    "a feature that is the label": (["learn", "train-shared", "--features", "ill", "--output", "m"], "found 'ill'"),
    "a feature that is the released label": (
        ["learn", "train-shared", "--features", "ill_released", "--output", "m"],
        "found 'ill_released'",
    ),
    "no features": (["learn", "bare-shared", "--output", "m"], "the release kept none"),
    "features that are all the same": (["learn", "same-shared", "--output", "m"], "same: it is the same in every row"),
    "too few rows": (["learn", "short-shared", "--output", "m"], "at least 10 rows to learn from, found 4"),
    "several releases": (
        ["learn", "train-shared", "test-shared", "--output", "m"],
        "expected one release to learn from, found 2; several are put together in Python, by Release.concat",
    ),
    "an output that exists": (["learn", "train-shared", "--output", "model.skops"], "does not exist yet"),
    "no folder for the output": (["learn", "train-shared", "--output", "none/m"], "an existing folder"),
}


@pytest.fixture(scope="module")
def bad(learned, folder):
    """Files and folders with something wrong with them."""
    space, test = Classes(["no", "yes"]), patients(ROWS, 2)
    test[["town", "ill"]].to_csv(folder / "few.csv", index=False)
    test.assign(age="old").to_parquet(folder / "strange.parquet")
    test.assign(age=[*[1.0] * 3, np.inf, *[1.0] * (ROWS - 4)]).to_parquet(folder / "endless.parquet")
    for name, frame in (("bare", test), ("same", test), ("short", test[:4]), ("other", test)):
        frame.to_csv(folder / f"{name}.csv", index=False)
        keep = {"bare": ["id"], "same": ["same"]}.get(name, ["age", "town"])
        declared = Classes(["no", "yes", "perhaps"]) if name == "other" else space
        release_table(folder / f"{name}.csv", "ill", declared, 1.0, folder / f"{name}-shared", keep=keep, budget=20.0)
    from labeldp import Curator, NoisyHistogram, RandomizedResponse  # noqa: PLC0415 (used here alone)

    Curator(test["ill"], space, name="ill").answer(NoisyHistogram(space, 1.0)).save(folder / "counts")
    shutil.rmtree(folder / "bare-shared")
    Curator(test["ill"], space, name="ill").randomize(RandomizedResponse(space, 1.0)).save(folder / "bare-shared")
    about = json.loads(skops.io.load(folder / "model.skops", trusted=skops_types(folder))["about"])
    for name, change in (
        ("later", {"schema": "labeldp/model/2"}),
        ("old", {"made_with": {"scikit-learn": "1.0.2"}}),
        ("forged", {"certificate": about["certificate"] | {"draws": []}}),
    ):
        held = {"about": json.dumps(about | change), "estimator": learned.model.estimator}
        skops.io.dump(held, folder / f"{name}.skops")
    skops.io.dump({"about": json.dumps(about), "estimator": pd.Timestamp}, folder / "foreign.skops")
    for name in ("headless", "later"):
        shutil.copytree(folder / "train-shared", folder / name)
    (folder / "headless" / "_certificate.json").unlink()
    certificate = folder / "later" / "_certificate.json"
    certificate.write_text(certificate.read_text("utf-8").replace("certificate/1", "certificate/9"), "utf-8")
    return folder


def skops_types(folder):
    """What a model's file asks to be trusted."""
    return skops.io.get_untrusted_types(file=folder / "model.skops")


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case, bad, run, monkeypatch):
    """One line that says what was expected, no label, no traceback, and no file."""
    typed, message = BAD[case]
    monkeypatch.chdir(bad)
    before = sorted(path.name for path in bad.iterdir())
    done = run(*typed)
    assert done.code == 1
    assert message in done.err, done.err
    assert done.err.startswith(("error: expected", "error: no column"))
    assert done.err.count("\n") == 1
    assert not re.search(r"Traceback|'(yes|no)'", done.err)
    assert sorted(path.name for path in bad.iterdir()) == before


def test_a_file_with_code_in_it_is_not_run(bad, run, tmp_path):
    """A file that names a function of the operating system is refused before anything is called."""
    import os  # noqa: PLC0415 (only here)

    from sklearn.preprocessing import FunctionTransformer  # noqa: PLC0415

    about = json.loads(skops.io.load(bad / "model.skops", trusted=skops_types(bad))["about"])
    skops.io.dump({"about": json.dumps(about), "estimator": FunctionTransformer(os.mkdir)}, tmp_path / "evil")
    done = run("evaluate", tmp_path / "evil", bad / "test.csv", "--label", "ill", "--labels-are-public")
    assert done.code == 1
    assert "found other types in it" in done.err


def test_another_pipeline_of_trusted_types_is_not_opened(bad, run, tmp_path):
    """One that reads files whose names are in a column, though scikit-learn's own, and one whose steps are none."""
    from sklearn.feature_extraction.text import HashingVectorizer  # noqa: PLC0415 (only here)
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415

    about = json.loads(skops.io.load(bad / "model.skops", trusted=skops_types(bad))["about"])
    torn = make_pipeline(HashingVectorizer())
    torn.steps = ["x"]
    for i, estimator in enumerate((make_pipeline(HashingVectorizer(input="filename")), HashingVectorizer(), torn)):
        skops.io.dump({"about": json.dumps(about), "estimator": estimator}, tmp_path / str(i))
        done = run("evaluate", tmp_path / str(i), bad / "test.csv", "--label", "ill", "--labels-are-public")
        assert done.code == 1
        assert "expected a model made by 'labeldp learn'" in done.err


def test_a_model_by_descent_is_kept_whole(folder, tmp_path):
    """It predicts the same once it was kept, descends further from where it stopped, and needs no foreign type."""
    found = learn(folder / "train-shared", model="convex", features=["age", "town"])
    kept = TableModel.load(found.model.save(tmp_path / "model.skops"))
    frame = patients(ROWS, 2)
    assert np.array_equal(kept.predict_proba(frame), found.model.predict_proba(frame))
    assert (kept.model, kept.method) == ("convex", "unbiased")
    assert re.match(r"coefficients within [0-9.]+ of zero, chosen among 6 on released labels; calib", found.setting)
    release = Release.load(folder / "test-shared")
    features = np.arange(2.0 * ROWS).reshape(ROWS, 2) / ROWS
    models = [each.estimator.named_steps["model"] for each in (found.model, kept)]
    rows = np.resize(features, (ROWS, models[0].n_features_in_))
    assert np.array_equal(*(model.partial_fit(rows, release).coef_ for model in models))


def test_few_rows_for_much_noise_are_warned_of_once(run, tmp_path):
    """What descent says of too few rows is one line, of all rows, however many fits were made."""
    patients(60, 4).to_csv(tmp_path / "t.csv", index=False)
    release_table(tmp_path / "t.csv", "ill", Classes(["no", "yes"]), 0.05, tmp_path / "shared", keep=["age", "town"])
    done = run("learn", tmp_path / "shared", "--model", "convex", "--output", tmp_path / "m")
    assert done.code == 0, done.err
    assert re.fullmatch(r"warning: expected at least [0-9,]+ rows for so much noise .*, found 60; .*\n", done.err)


def test_a_column_named_row_is_no_unit(run, tmp_path):
    """Where each row is protected alone, a column of that name is a feature like any other."""
    frame = patients(60, 5).assign(row=np.arange(60) % 3)[["row", "age", "ill"]]
    frame.to_csv(tmp_path / "t.csv", index=False)
    release_table(tmp_path / "t.csv", "ill", Classes(["no", "yes"]), 3.0, tmp_path / "shared", drop=[])
    done = run("learn", tmp_path / "shared", "--output", tmp_path / "m")
    assert done.code == 0, done.err
    assert "row, age" in done.out


@pytest.mark.parametrize("library", ["skops", "sklearn"])
def test_without_the_extra_it_says_what_to_install(folder, run, tmp_path, monkeypatch, library):
    """A missing library is named with the command that brings all that learning from tables needs."""
    import sys  # noqa: PLC0415 (only here)

    monkeypatch.setitem(sys.modules, library, None)
    for name in [name for name in sys.modules if re.match(r"labeldp\.learning\.(tables|convex|sklearn)", name)]:
        monkeypatch.delitem(sys.modules, name)
    done = run("learn", folder / "train-shared", "--output", tmp_path / "m")
    assert done.code == 1
    assert re.search(r"; pip install .*'(pandas|scikit-learn|skops)>=", done.err)


def test_a_time_limit_is_kept_and_what_it_left_out_is_named(folder, run, tmp_path):
    """Without any time the class shares are learned, and every family that was not begun is named."""
    done = run("learn", folder / "train-shared", "--minutes", "0", "--output", tmp_path / "m")
    assert done.code == 0
    assert done.out.startswith("No model was finished in time")
    words = " ".join(done.out.split())
    assert "Learned a combination of models" in words
    for family in ("linear", "boosting", "clusters"):
        assert f"without {family}: there was no time left" in words
    refused = run("learn", folder / "train-shared", "--model", "softmax", "--minutes", "1", "--output", tmp_path / "n")
    assert "expected a time limit (minutes) with the model auto alone, found one with softmax" in " ".join(
        refused.err.split()
    )
    assert not (tmp_path / "n").exists()


def test_a_table_that_takes_too_long_is_learned_from_in_part(folder, run, tmp_path):
    """At most so many rows, which is said, and the same ones at every call."""
    typed = ("learn", folder / "train-shared", "--model", "softmax", "--features", "age,town", "--rows", 100)
    first, again = (run(*typed, "--output", tmp_path / f"{name}.skops") for name in "ab")
    assert first.code == 0, first.err
    said = f"Learned softmax from 100 of {ROWS:,} released rows, chosen by chance without a look at labels"
    assert said in " ".join(first.out.split())
    assert "100 rows, by five-fold cross-validation" in first.out
    assert re.search(r"\nmodel +softmax, method likelihood *\nsettings +\S", first.out)
    assert first.out.replace("a.skops", "b.skops") == again.out
    network = run(*typed[:3], "torch:mlp", "--epochs", 1, *typed[4:], "--output", tmp_path / "n.safetensors")
    assert network.code == 0, network.err
    assert "from 100 of" in " ".join(network.out.split())
    found = run(*typed, "--output", tmp_path / "c.skops", "--json")
    assert json.loads(found.out)["rows"] == 100
    refused = run(*typed[:-1], 5, "--output", tmp_path / "d.skops")
    assert refused.err == "error: expected rows to be a whole number of at least 10, found 5\n"
    every = run(*typed[:-1], 10 * ROWS, "--output", tmp_path / "e.skops")
    assert f"Learned softmax from {ROWS:,} of {ROWS:,} released rows" in " ".join(every.out.split())


def test_rows_are_chosen_in_whole_units_and_without_labels():
    """Each unit is in or out, whatever the labels are, and the release's name alone decides."""
    units = np.repeat(np.arange(100), 5)
    release = Curator(["no", "yes"] * 250, Classes(["no", "yes"])).randomize(epsilon=1.0)
    chosen = chosen_rows(release.certificate, units, 203)
    assert len(chosen) == 200
    assert (np.bincount(chosen // 5)[np.unique(chosen // 5)] == 5).all()
    assert np.array_equal(chosen, chosen_rows(release.certificate, units, 203))
    other = Curator(["no", "yes"] * 250, Classes(["no", "yes"])).randomize(epsilon=1.0)
    assert not np.array_equal(chosen, chosen_rows(other.certificate, units, 203))


@pytest.mark.parametrize("model", ["auto", "softmax", "boosting"])
def test_dates_become_features_that_a_kept_model_makes_again(run, tmp_path, model):
    """What the printed features say of a date is done to new rows, read from CSV by 'evaluate' or given as a frame."""
    for name, seed in (("train", 0), ("test", 1)):
        random = np.random.default_rng(seed)
        seen = pd.Timestamp("2023-01-02") + pd.to_timedelta(random.integers(0, 700, 600), unit="D")
        frame = pd.DataFrame({"seen": seen, "dose": random.random(600), "ill": np.where(seen.month < 7, "yes", "no")})
        frame.to_csv(tmp_path / f"{name}.csv", index=False, date_format="%Y-%m-%d")
    release_table(tmp_path / "train.csv", "ill", Classes(["no", "yes"]), 6.0, tmp_path / "shared", drop=[])
    learned = run("learn", tmp_path / "shared", "--model", model, "--output", tmp_path / "m.skops")
    assert learned.code == 0, learned.err
    assert "seen (day, month, weekday), dose" in learned.out
    judged = run("evaluate", tmp_path / "m.skops", tmp_path / "test.csv", "--labels-are-public", "--json")
    found = json.loads(judged.out)["scores"]["accuracy"]["value"]
    assert found > 0.95
    kept, test = TableModel.load(tmp_path / "m.skops"), pd.read_csv(tmp_path / "test.csv", parse_dates=["seen"])
    assert dict(kept.columns)["seen"] == "day"
    assert float(np.mean(kept.predict(test) == test["ill"])) == pytest.approx(found)
