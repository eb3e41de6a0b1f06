"""The main workflow on real tables: release a CSV with a sensitive label, verify it, and learn from it.

Run it with a folder to work in: ``python examples/demo.py demo``.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labeldp import Classes, Release, release_table, verify
from labeldp.learning.sklearn import SoftmaxRegression
from labeldp.report import save_lines

EPSILONS = (0.5, 1.0, 2.0, 4.0)


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


def accuracy(
    features: pd.DataFrame, labels: Release, test: pd.DataFrame, label: str, method: str = "likelihood"
) -> float:
    """Fit on a release, its penalty chosen by held-out released labels, and evaluate once on true test labels."""
    model = make_pipeline(StandardScaler(), SoftmaxRegression(method=method)).fit(features, labels)
    return float(np.mean(model.predict(test[features.columns]) == test[label]))


def main(folder: Path) -> None:
    """Release each table at each epsilon, verify each release, learn from it, and print the results."""
    folder.mkdir(parents=True, exist_ok=True)
    results = Table(title="accuracy on held-out rows", title_justify="left")
    for column in (
        "table",
        "rows",
        "epsilon",
        "mechanism",
        "effective rows",
        "verified",
        "private",
        "ignoring the noise",
    ):
        results.add_column(column)
    results.add_column("without privacy")
    curves: dict[str, list[tuple[float, float]]] = {}
    for name, path, test, label, space in tables(folder):
        train = pd.read_csv(path)
        features = train.drop(columns=label)
        best = accuracy(features, Release.public(train[label], space), test, label)
        for epsilon in EPSILONS:
            output = folder / f"{path.stem}-epsilon-{epsilon:g}"
            # Four releases of the same labels cost the sum of their epsilons. In practice, release once.
            summary = release_table(path, label, space, epsilon, output, drop=[], budget=sum(EPSILONS))
            if not verify(output).holds:
                sys.exit(f"{output} does not verify")
            release = Release.load(output)
            private = accuracy(features, release, test, label)
            results.add_row(
                name,
                f"{len(release):,}",
                f"{epsilon:g}",
                summary.certificate.draws[0].mechanism,
                f"{int(len(release) * (summary.effective_share() or 0.0)):,}",
                "yes",
                f"{private:.1%}",
                f"{accuracy(features, release, test, label, 'plain'):.1%}",
                f"{best:.1%}",
            )
            curves.setdefault(f"{name}, private", []).append((epsilon, private))
            curves.setdefault(f"{name}, without privacy", []).append((epsilon, best))
    figure = save_lines(
        curves, folder / "accuracy.png", "Learning from a release", "epsilon", "accuracy, held-out rows"
    )
    console = Console(width=140)
    console.print(results)
    console.print(summary.certificate.guarantee.sentence(), soft_wrap=True)
    console.print(
        f"This holds for each release alone. The four releases of each table together cost epsilon {sum(EPSILONS):g}, "
        "as its ledger records: in practice, release once.",
        soft_wrap=True,
    )
    console.print(f"files: {folder}    figure: {figure}", soft_wrap=True, highlight=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()))
