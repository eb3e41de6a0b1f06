"""The main workflow on real tables: release a CSV with a sensitive label, verify it, and learn from it.

Run it with a folder to work in, and the number of releases: ``python examples/demo.py demo 5``.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labeldp import Classes, Release, release_table, verify
from labeldp.learning.sklearn import AutoClassifier, SoftmaxRegression
from labeldp.render import save_figure
from labeldp.results import Curves

EPSILONS = (0.5, 1.0, 2.0)
DRAWS = 5


def tables(folder: Path) -> list[tuple[str, Path, pd.DataFrame, str, Classes]]:
    """Two typical tables: a CSV whose label is private, and held-out rows whose label is public."""
    cancer = load_breast_cancer(as_frame=True).frame.rename(columns={"target": "diagnosis"})
    cancer["diagnosis"] = cancer["diagnosis"].map({0: "malignant", 1: "benign"})
    digits = load_digits(as_frame=True).frame.rename(columns={"target": "digit"})
    examples = []
    for name, frame, label, space in (
        ("breast cancer", cancer, "diagnosis", Classes(["benign", "malignant"])),
        ("digits", digits, "digit", Classes(range(10))),
    ):
        held_out = np.random.default_rng(0).random(len(frame)) < 0.3  # at random, independently of the label
        path = folder / f"{name.replace(' ', '-')}.csv"
        frame[~held_out].to_csv(path, index=False)
        examples.append((name, path, frame[held_out], label, space))
    return examples


def learners() -> dict[str, Any]:
    """The default learner with few folds, and a linear one that takes released labels for true."""
    return {
        "private": AutoClassifier(folds=3),
        "ignoring the noise": make_pipeline(StandardScaler(), SoftmaxRegression(method="plain")),
    }


def accuracy(learner: Any, features: pd.DataFrame, labels: Release, test: pd.DataFrame, label: str) -> float:
    """Fit on a release, with choices by held-out released labels, and evaluate once on true test labels."""
    model = learner.fit(features, labels)
    return float(np.mean(model.predict(test[features.columns]) == test[label]))


def spread(draws: list[float]) -> str:
    """The mean and the standard deviation over draws."""
    return f"{np.mean(draws):.1%} ({np.std(draws, ddof=1):.1%})"


def main(folder: Path, releases: int = DRAWS) -> None:
    """Release each table at each epsilon, verify each release, learn from it, and print the results."""
    folder.mkdir(parents=True, exist_ok=True)
    title = f"accuracy on held-out rows, mean (standard deviation) of {releases} releases"
    results = Table(title=title, title_justify="left")
    for column in ("table", "rows", "epsilon", "mechanism", "verified", "private", "ignoring the noise", "most common"):
        results.add_column(column)
    results.add_column("without privacy")
    processes = Parallel(n_jobs=-1)
    curves: dict[str, list[tuple[float, float]]] = {}
    for table, path, test, label, space in tables(folder):
        train = pd.read_csv(path)
        features = train.drop(columns=label)
        best = accuracy(learners()["private"], features, Release.public(train[label], space), test, label)
        most_common = float(np.mean(test[label] == train[label].mode()[0]))
        for epsilon in EPSILONS:
            drawn = []
            for draw in range(releases):
                output = folder / f"{path.stem}-epsilon-{epsilon:g}-draw-{draw}"
                # Releases of the same labels cost the sum of their epsilons. In practice, release once.
                summary = release_table(path, label, space, epsilon, output, drop=[], budget=releases * sum(EPSILONS))
                if not verify(output).holds:
                    sys.exit(f"{output} does not verify")
                drawn.append(Release.load(output))
            fits = [(name, release) for name in learners() for release in drawn]
            found = processes(
                delayed(accuracy)(learners()[name], features, release, test, label) for name, release in fits
            )
            private, ignoring = found[:releases], found[releases:]
            results.add_row(
                table,
                f"{len(train):,}",
                f"{epsilon:g}",
                summary.certificate.draws[0].mechanism,
                "yes",
                spread(private),
                spread(ignoring),
                f"{most_common:.1%}",
                f"{best:.1%}",
            )
            curves.setdefault(f"{table}, private", []).append((epsilon, float(np.mean(private))))
            curves.setdefault(f"{table}, without privacy", []).append((epsilon, best))
    axes = ("epsilon", "accuracy, held-out rows")
    drawn = Curves("Learning from a release", axes, list(curves.items()), logarithmic="x")
    figure = save_figure(drawn, folder / "accuracy.svg")
    console = Console(width=140)
    console.print(results)
    console.print(summary.certificate.guarantee.sentence(), soft_wrap=True)
    total = releases * sum(EPSILONS)
    console.print(
        f"This holds for each release alone. All releases of each table together cost epsilon {total:g}, as its ledger "
        "records: in practice, release once.",
        soft_wrap=True,
    )
    console.print(f"files: {folder}    figure: {figure}", soft_wrap=True, highlight=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()), *map(int, sys.argv[2:]))
