"""``labeldp learn`` on rows whose features were redrawn: what it does not correct, and a generator that does."""

import re

import numpy as np
import pandas as pd
import pytest

from labeldp.learning.tables import open_model

CLASSES = ("--label", "ill", "--classes", "no,yes")


@pytest.fixture
def folder(run, tmp_path):
    """Released rows and the generator that redrew half of them, which knows the two towns' ages alike."""
    rng = np.random.default_rng(0)
    ill = np.arange(1200) % 2
    age = np.round(40 + 20 * ill + rng.normal(0, 10, 1200))
    table = pd.DataFrame({"age": age, "town": np.where(rng.random(1200) < 0.3 + 0.4 * ill, "Ulm", "Bonn")})
    table["ill"] = np.array(["no", "yes"])[ill]
    table[:600].to_csv(tmp_path / "public.csv", index=False)
    table[600:].to_csv(tmp_path / "private.csv", index=False)
    made = ("--keep", "age,town", "--model", "copula", "--labels-are-public", "--source", "a town's register")
    run("generator", tmp_path / "public.csv", *CLASSES, *made, "--output", tmp_path / "gen.npz")
    double = ("--mechanism", "double", "--generator", tmp_path / "gen.npz", "--replaced", 0.5, "--epsilon", 3)
    run("release", tmp_path / "private.csv", *CLASSES, *double, "--keep", "age,town", "--output", tmp_path / "out")
    return tmp_path


def test_a_model_says_whose_features_it_learned_and_corrects_for_them(run, folder):
    """Both ways are learned, judged and kept as any model is, and what was not corrected is said in words.

    Scores are of redrawn rows; with the generator the accuracy on true rows is printed too, near that on known labels:
    its deviation is about 0.04, so that it is further off than 0.25 once in 10^9 runs.
    """
    options = ("learn", folder / "out", "--features", "age,town")
    ran = run(*options, "--output", folder / "first.skops")
    assert (ran.code, ran.err) == (0, "")
    assert "50.0% of rows" in ran.out
    assert "only label noise is corrected" in " ".join(ran.out.split())
    assert "50.0% of which are expected to have features from the generator" in ran.out
    assert "Pass --generator to estimate how much" in ran.out
    ran = run(*options, "--generator", folder / "gen.npz", "--output", folder / "whole.skops")
    assert (ran.code, ran.err) == (0, "")
    assert "the model is corrected for them" in " ".join(ran.out.split())
    told = float(re.search(r"Accuracy on original rows, estimated: (\S+)%", ran.out)[1]) / 100
    known = pd.read_csv(folder / "private.csv")
    right = np.mean(open_model(folder / "whole.skops").predict(known[["age", "town"]]) == known["ill"])
    assert abs(told - right) < 0.25
    assert told > float(re.search(r"│ accuracy +│ (\S+)%", ran.out)[1]) / 100
    ages = pd.DataFrame({"age": [30.0, 70.0], "town": ["Bonn", "Ulm"]})
    first, whole = (open_model(folder / f"{name}.skops").predict_proba(ages)[:, 1] for name in ("first", "whole"))
    assert whole[0] < 0.5 < whole[1]
    assert whole[1] - whole[0] > first[1] - first[0]  # redrawn rows have any class, and flatten the first


def test_another_generator_or_method_is_refused(run, folder):
    """A generator of another source, a method without a correction and a release of labels alone are refused."""
    made = ("--keep", "age,town", "--model", "copula", "--labels-are-public", "--source", "another town")
    run("generator", folder / "public.csv", *CLASSES, *made, "--output", folder / "other.npz")
    run(
        "release",
        folder / "public.csv",
        *CLASSES,
        "--epsilon",
        1,
        "--keep",
        "age",
        "--other-people",
        "made up",
        "--output",
        folder / "labels",
    )
    for given, words in (
        (("out", "--generator", folder / "other.npz"), "another form or source"),
        (("out", "--generator", folder / "gen.npz", "--method", "plain"), "likelihood, em, unbiased"),
        (("labels", "--generator", folder / "gen.npz"), "labels alone"),
    ):
        ran = run("learn", folder / given[0], *given[1:], "--output", folder / "model.skops")
        assert ran.code != 0
        assert words in " ".join(ran.err.split())
