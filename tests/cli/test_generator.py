"""``labeldp generator``: generators from public tables, and from releases of other rows."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from scipy.stats import norm

from labeldp import RowRelease
from labeldp.learning.generators import open_generator

CLASSES = ("--label", "ill", "--classes", "no,yes")


@pytest.fixture
def table(tmp_path):
    """A table in CSV, some of whose ages are missing."""
    rng = np.random.default_rng(0)
    ill = rng.random(600) < 0.4
    ages = pa.array(np.round(rng.normal(40 + 20 * ill, 6), 1), mask=rng.random(600) < 0.1)
    columns = {"age": ages, "town": rng.choice(["Ulm", "Bonn"], 600), "ill": np.where(ill, "yes", "no")}
    pacsv.write_csv(pa.table(columns), tmp_path / "people.csv")
    return tmp_path / "people.csv"


def test_a_public_table_gives_a_generator_that_a_release_takes(run, table, tmp_path):
    """What is declared is printed and kept, and 'labeldp release --mechanism double' draws from the file."""
    path = tmp_path / "people.generator"
    ran = run(
        "generator", table, *CLASSES, "--keep", "all", "--labels-are-public", "--source", "a town", "--output", path
    )
    assert (ran.code, ran.err) == (0, "")
    assert "public data: a town" in ran.out
    assert "nothing is promised about them" in ran.out
    fitted = open_generator(path)
    assert fitted.source.describe() == {"kind": "public", "text": "a town"}
    assert fitted.form.names == ["age", "town"]
    assert fitted.form.columns[0].missing
    other = tmp_path / "others.csv"
    rows = np.random.default_rng(1).integers(0, 2, 200)
    columns = {"age": np.round(30.03 + rows, 2), "town": ["Ulm"] * 200, "ill": np.array(["no", "yes"])[rows]}
    pacsv.write_csv(pa.table(columns), other)
    out = tmp_path / "shared"
    double = ("--mechanism", "double", "--generator", path, "--epsilon", 1, "--keep", "age,town", "--output", out)
    ran = run("release", other, *CLASSES, *double)
    assert (ran.code, ran.err) == (0, "")
    assert "a town" in json.dumps(json.loads((out / "_certificate.json").read_text()))
    released = RowRelease.load(out)
    assert released.features.schema == fitted.form.schema
    assert set(np.round(released.features["age"].drop_null().to_numpy() * 10) % 1) == {0.0}


def test_the_divergence_to_declare_is_estimated_from_held_out_rows(run, tmp_path):
    """Of two normal classes each is about as far from both mixed as the integral says, though draws are not told apart.

    The estimate of order 2 has a deviation of 0.03, so that it fails once in 10^9 runs, were it normal. A class of 60
    rows is left out in words; 300 towns, and a column that lacks nearly everything, are no obstacle.
    """
    rng, ends = np.random.default_rng(0), np.linspace(-12, 12, 100_001)
    ill = np.append(np.arange(8000) % 2, [2] * 60)
    ages = pa.array(np.round(rng.normal(2.0 * (ill == 1) - 1), 3))
    towns, gaps = [f"{n} Street" for n in rng.integers(0, 300, 8060)], [1.5] + [None] * 8058 + [2.5]
    columns = {"age": ages, "town": towns, "gap": gaps, "ill": np.array(["no", "yes", "rare"])[ill]}
    pacsv.write_csv(pa.table(columns), tmp_path / "rare.csv")
    pacsv.write_csv(pa.table({"age": ages[:8000], "ill": np.array(["no", "yes"])[ill[:8000]]}), tmp_path / "two.csv")
    made = ("--label", "ill", "--keep", "all", "--labels-are-public", "--source", "x")
    ran = run("generator", tmp_path / "two.csv", *made, "--classes", "no,yes", "--output", tmp_path / "two", "--judge")
    assert (ran.code, ran.err) == (0, "")
    assert "good, drawn rows are hard to recognize" in ran.out
    assert "up to 0.69 here" in ran.out
    assert "declare more" in ran.out
    mean, original = (norm.pdf(ends, 1) + norm.pdf(ends, -1)) / 2, norm.pdf(ends, 1)
    right = np.log(np.trapezoid(original**2 / mean, ends))
    largest, of_no, of_yes = map(
        float, re.search(r"order 2  largest (\S+) .*by label no (\S+) .*yes (\S+)", ran.out).groups()
    )
    assert abs(of_no - right) < 0.2
    assert abs(of_yes - right) < 0.2
    assert largest == max(of_no, of_yes)
    ran = run("generator", tmp_path / "rare.csv", *made, "--classes", "no,rare,yes", "--output", tmp_path / "rare")
    assert (ran.code, ran.err) == (0, "")
    assert "Not estimated for 1 of the labels, which have too few rows" in ran.out


def test_the_release_of_other_rows_is_a_paid_split(run, table, tmp_path):
    """From the folder of a release the certificate goes into the source, and its guarantee is printed."""
    shared, path = tmp_path / "shared", tmp_path / "paid.generator"
    assert run("release", table, *CLASSES, "--epsilon", 2, "--keep", "all", "--output", shared).code == 0
    ran = run("generator", shared, "--keep", "age", "--source", "half a town", "--output", path)
    assert (ran.code, ran.err) == (0, "")
    assert "epsilon 2" in ran.out
    fitted = open_generator(path)
    assert fitted.source.kind == "paid split"
    assert json.loads(fitted.source.certificate)["guarantee"]["epsilon"] == 2.0
    assert fitted.form.names == ["age"]
    wrong = run("generator", shared, "--labels-are-public", "--source", "x", "--output", tmp_path / "new")
    assert wrong.code == 1
    assert "the certificate states them" in wrong.err
