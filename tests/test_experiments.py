"""The experiments run, and go on where they stopped."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parent.parent / "experiments"


def run_twice(script: str, folder: Path, *words: str) -> str:
    """Run an experiment on digits twice with the same command, and give back what the first run printed."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LABELDP"))}
    command = [sys.executable, "-W", "error", str(EXPERIMENTS / script), "--draws", "1", "--results", str(folder)]
    runs = [
        subprocess.run(
            [*command, *words],
            cwd=folder,
            env=settings | {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        for _ in range(2)
    ]
    for done in runs:
        assert done.returncode == 0, done.stderr
    return runs[0].stdout


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a file of results."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_local_randomizers_on_digits(tmp_path):
    """Each randomizer and method gets one row in the file of results, and none is computed a second time."""
    assert "digits only" in run_twice("local.py", tmp_path, "--epsilons", "2")
    rows = rows_of(tmp_path / "local.csv")
    sets = ["response", "subset", "independent bits", "symmetric bits"]
    expected = [(randomizer, method) for randomizer in sets for method in ("likelihood", "unbiased", "plain")]
    expected += [("prior", "likelihood"), ("prior", "plain"), ("none", "likelihood"), ("none", "constant")]
    assert sorted((row["randomizer"], row["method"]) for row in rows) == sorted(expected)
    assert {(row["data"], row["draw"]) for row in rows} == {("digits", "0")}
    private = [row for row in rows if row["randomizer"] != "none"]
    assert all(0 < float(row["certified_epsilon"]) <= 2 for row in private)
    likelihood = [row for row in private if row["method"] == "likelihood" and row["randomizer"] != "prior"]
    assert all(0.5 < float(row["accuracy"]) <= 1 for row in likelihood)
    assert {path.name for path in tmp_path.iterdir()} == {"local.csv", "local.md", "local.png"}


@pytest.mark.slow
def test_cluster_response_on_digits(tmp_path):
    """Each setting gets one row in the file of results, certified for no more than it was asked for."""
    run_twice("esfandiari.py", tmp_path, "--data", "digits", "--epsilons", "4", "--cache", str(tmp_path / "cache"))
    rows = {row["setting"]: row for row in rows_of(tmp_path / "esfandiari.csv")}
    assert len(rows) == len(rows_of(tmp_path / "esfandiari.csv"))
    papers = {f"paper, floor {floor}" for floor in ("high", "low")}
    uniform = {f"uniform, {method}" for method in ("unbiased", "likelihood")}
    split = {f"rows, {method}" for method in ("likelihood", "posterior")}
    graph = {"graph rows, posterior", "names"}
    assert set(rows) == {*papers, *uniform, *split, *graph, "distributions", "private descent", "none"}
    private = [row for setting, row in rows.items() if setting != "none"]
    assert all(0 < float(row["certified_epsilon"]) <= 4 for row in private)
    assert all(0.5 < float(rows[setting]["accuracy"]) <= 1 for setting in {*papers, *uniform, *graph, "none"})
    assert {path.name for path in tmp_path.iterdir()} == {
        "cache",
        *(f"esfandiari.{end}" for end in ("csv", "md", "png")),
    }
