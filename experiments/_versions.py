"""Two versions of the default learners on the same releases: makes these once, fits by each version, compares.

    python experiments/_versions.py make FOLDER
    PYTHONPATH=BEFORE/src python experiments/_versions.py fit FOLDER before.csv
    PYTHONPATH=AFTER/src python experiments/_versions.py fit FOLDER after.csv
    python experiments/_versions.py compare before.csv after.csv

Only tables on which nothing was chosen are used. ``fit`` goes on where it stopped, and takes one epsilon (--epsilon 1).
"""

import argparse
import os
import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import auto_numbers
import auto_tables
import numpy as np
import pandas as pd

from labeldp import Classes, Curator
from labeldp.learning.sklearn import AutoClassifier, AutoRegressor

#: Tables on which members and their settings were chosen: figures of others count.
CHOSEN = {
    "classes": (*auto_tables.BUNDLED, *["diamonds", "mortgage", "works", "vote", "health", "drama", "union", "farm"]),
    "numbers": ["progression", "diamonds", "vocabulary", "computers", "houses", "physicians", "food", "log wages"],
}
TABLES = {"classes": (auto_tables, auto_tables.TABLES), "numbers": (auto_numbers, auto_numbers.LOADED)}
EPSILONS, ROWS, SEED = (0.5, 1.0, 2.0), 1_500, 100
KEYS = ["kind", "table", "epsilon"]


def make(folder: Path) -> None:
    """Release at most 1,500 rows of each table at each epsilon, and keep the rows held out beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    data = os.environ.get("LABELDP_DATA")
    for kind, (module, names) in TABLES.items():
        for name in (each for each in names if each not in CHOSEN[kind]):
            features, labels, *space = module.loaded(None if name in module.BUNDLED else data, name)
            order = np.random.default_rng(SEED).permutation(len(labels))
            held = min(int(len(labels) * module.SHARE), module.TEST_ROWS)
            test, rows = order[:held], order[held : held + ROWS]
            declared = space[0] if space else Classes(sorted(set(labels)))
            for epsilon in EPSILONS:
                release = Curator(labels[rows].tolist(), declared).randomize(epsilon=epsilon)
                kept = kind, name, epsilon, features.iloc[rows].reset_index(drop=True), release
                path = folder / f"{kind}-{name.replace(' ', '_')}-{epsilon}.pickle"
                path.write_bytes(pickle.dumps((*kept, features.iloc[test], labels[test])))


def scores_of(kind: str, features: Any, release: Any, others: Any, truth: np.ndarray) -> Mapping[str, float]:
    """Scores of the default learner on true labels; of classes, what it loses to its best member too."""
    if kind == "numbers":
        ends = np.array(release.space.points)[[0, -1]]
        predicted = np.clip(AutoRegressor().fit(features, release).predict(others), *ends)
        return {"explained": 100 * (1 - float(((predicted - truth) ** 2).mean() / truth.var()))}
    model = AutoClassifier().fit(features, release)
    codes, rows = np.searchsorted(model.classes_, truth), model.frame(others)
    found = auto_tables.scores(model.predict_proba(others), codes)
    members = [auto_tables.scores(each.predict_proba(rows), codes) for each in model.members_.values()]
    return {**found, "regret": max(each["accuracy"] for each in members) - found["accuracy"]}


def fit(folder: Path, output: Path, epsilon: float | None) -> None:
    """Fit the default learner of the version at hand to each release, and score it on true labels."""
    rows = pd.read_csv(output).to_dict("records") if output.exists() else []
    done = {tuple(row[key] for key in KEYS) for row in rows}
    for path in sorted(folder.glob(f"*-{epsilon or '*'}.pickle")):
        kind, name, own, *data = pickle.loads(path.read_bytes())
        if (kind, name, own) in done:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of convergence, in single penalties
            rows.append({"kind": kind, "table": name, "epsilon": own, **scores_of(kind, *data)})
        pd.DataFrame(rows).to_csv(output, index=False)


def compare(before: Path, after: Path) -> None:
    """Print mean differences over tables, with their standard errors and the number of tables that rose."""
    one, other = (pd.read_csv(each).set_index(KEYS) for each in (before, after))
    change = (other - one).dropna(how="all")
    for (kind, epsilon), part in change.groupby(level=["kind", "epsilon"]):
        for name, each in part.dropna(axis=1, how="all").items():
            start, error = one.loc[part.index, name].mean(), each.std() / len(each) ** 0.5
            print(f"{kind} {epsilon} {name}: {start:.3f}, {each.mean():+.3f} ({error:.3f}), "
                  f"{(each > 0).sum()} of {len(each)} rose")  # fmt: skip


def main() -> None:
    """Run one of the three steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=("make", "fit", "compare"))
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--epsilon", type=float)
    given = parser.parse_args()
    if given.step == "fit":
        fit(*given.paths, given.epsilon)
    else:
        {"make": make, "compare": compare}[given.step](*given.paths)


if __name__ == "__main__":
    main()
