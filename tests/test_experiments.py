"""The experiments run, and go on where they stopped."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "experiments" / "local.py"


@pytest.mark.slow
def test_local_randomizers_on_digits(tmp_path):
    """Each randomizer and method gets one row in the file of results, and none is computed a second time."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LABELDP"))}
    command = [
        sys.executable,
        "-W",
        "error",
        str(SCRIPT),
        "--draws",
        "1",
        "--epsilons",
        "2",
        "--results",
        str(tmp_path),
    ]
    for _ in range(2):
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=settings | {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert "digits only" in done.stdout
    with (tmp_path / "local.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
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
