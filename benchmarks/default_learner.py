"""CPU time and memory of the default learner beside those of LightGBM on the clean labels of the same rows.

    python benchmarks/default_learner.py
    python benchmarks/default_learner.py --rows 2000 20000 --epsilon 4

Fourteen numbers and two classes, whose log odds have products, waves and steps. Each number of rows has a process of
its own, in which LightGBM, 100 trees as its defaults grow them, and the default learner take one thread each, one after
the other. Accuracy is on 20 000 further rows with true labels.
"""

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from rich.console import Console
from rich.table import Table

from labeldp import Classes, Curator
from labeldp.learning.sklearn import AutoClassifier

ROWS, TEST_ROWS, COLUMNS = (2_000, 20_000, 200_000, 1_000_000), 20_000, 14
HEADINGS = ("rows", "LightGBM, s", "default, s", "ratio", "peak, MB", "LightGBM, %", "default, %")


def draw(rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Features and classes."""
    chance = np.random.default_rng(seed)
    x = chance.normal(size=(rows, COLUMNS))
    odds = x[:, 0] + 0.7 * x[:, 1] * x[:, 2] + np.sin(2 * x[:, 3]) + 0.5 * (x[:, 4] > 0.5) - 0.6 * x[:, 5]
    labels = np.where(odds + chance.logistic(size=rows) > 0, "yes", "no")
    return pd.DataFrame(x, columns=[f"x{place}" for place in range(COLUMNS)]), labels


def measure(rows: int, epsilon: float) -> dict[str, float]:
    """Seconds of CPU of both, the peak of memory, and accuracies, in this process."""
    features, labels = draw(rows, 0)
    release = Curator(labels, Classes(["no", "yes"])).randomize(epsilon=epsilon)
    few = np.r_[:200]  # what is imported at the first fit is not counted
    for model, target in ((LGBMClassifier(verbose=-1), labels[few]), (AutoClassifier(), release[few])):
        model.fit(features.iloc[few], target)
    test, truth = draw(TEST_ROWS, 1)
    found = {}
    for name, model, target in (
        ("LightGBM", LGBMClassifier(verbose=-1, n_jobs=1), labels),
        ("default", AutoClassifier(), release),
    ):
        start = time.process_time()
        model.fit(features, target)
        found[f"{name}, s"] = time.process_time() - start
        found[f"{name}, %"] = 100 * float(np.mean(model.predict(test) == truth))
    return found | {"peak, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def main() -> None:
    """Print a row for each number of rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--here", action="store_true", help="measure in this process, and print JSON")
    arguments = parser.parse_args()
    if arguments.here:
        print(json.dumps(measure(arguments.rows[0], arguments.epsilon)))
        return
    table = Table(*HEADINGS)
    for rows in arguments.rows:
        command = [sys.executable, __file__, "--here", "--rows", str(rows), "--epsilon", str(arguments.epsilon)]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        found |= {"rows": rows, "ratio": found["default, s"] / found["LightGBM, s"]}
        table.add_row(*(f"{found[name]:,.3g}" if name != "rows" else f"{rows:,}" for name in HEADINGS))
    Console().print(table)


if __name__ == "__main__":
    main()
