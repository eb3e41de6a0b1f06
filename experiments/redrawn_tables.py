"""Rows of Adult whose features were redrawn with their labels: which way of learning makes up for it.

    python experiments/redrawn_tables.py                    two draws, two generators, three noises
    python experiments/redrawn_tables.py --draws 1          a first look
    python experiments/redrawn_tables.py --report-only      the table from results/redrawn_tables.csv

LABELDP_DATA names the folder of data sets. Rows are written release by release, and an interrupted run goes on where it
stopped. README.md beside this file has the protocol and what was found.
"""

import argparse
import csv
import math
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from labeldp import Classes, Curator, DoubleResponse, Generator, RandomizedResponse, Release
from labeldp.learning.generators import fit_copula
from labeldp.learning.sklearn import ResampledClassifier, SoftmaxRegression

COLUMNS = ("generator", "noise", "draw", "method", "accuracy", "log_loss", "auc", "seconds")
NOISES = (0.25, 0.5, 0.75)
#: For the choice of a penalty.
FOLDS = 2
#: The share of synthetic rows that are drawn evenly over the form, whatever the data look like.
GENERATORS = {"copula": 0.0, "half even": 0.5}
#: The way of learning, whether its loss is the unbiased one, and how the chance that features are own is known.
METHODS = {
    "first term, unbiased": ("first", "unbiased", "constant"),
    "first term, likelihood": ("first", "likelihood", "constant"),
    "unbiased": ("unbiased", "unbiased", "constant"),
    "weighted, estimated": ("weighted", "unbiased", "estimated"),
    "likelihood, constant": ("likelihood", "likelihood", "constant"),
    "likelihood, estimated": ("likelihood", "likelihood", "estimated"),
}
WITHOUT = ("no privacy", "auxiliary rows alone")
SPACE = Classes(["<=50K", ">50K"])
NUMBERS = ["age", "weight", "years", "gain", "loss", "hours"]
WORDS = ["work", "education", "marriage", "job", "relation", "race", "sex", "country"]
NAMES = [
    "age",
    "work",
    "weight",
    "education",
    "years",
    "marriage",
    "job",
    "relation",
    "race",
    "sex",
    "gain",
    "loss",
    "hours",
    "country",
    "label",
]


def adult(folder: Path) -> tuple[tuple[pd.DataFrame, np.ndarray], ...]:
    """The rows that are private, those that are auxiliary, and those of the test file, each with true labels."""
    parts = []
    for name, skipped in (("adult.data.gz", 0), ("adult.test.gz", 1)):
        frame = pd.read_csv(folder / "adult" / name, header=None, names=NAMES, skipinitialspace=True, skiprows=skipped)
        labels = frame.pop("label").str.rstrip(".").to_numpy()
        frame[NUMBERS] = frame[NUMBERS].astype(float)
        parts.append((frame, labels))
    (train, labels), test = parts
    private = np.random.default_rng(0).random(len(train)) < 0.5
    return (train[private], labels[private]), (train[~private], labels[~private]), test


def encoder(rows: pd.DataFrame) -> ColumnTransformer:
    """Numbers scaled, their logarithms where they are skewed, and one column for each frequent word, by public rows."""
    return ColumnTransformer(
        [
            ("numbers", StandardScaler(), NUMBERS),
            ("skewed", make_pipeline(FunctionTransformer(np.log1p), StandardScaler()), ["gain", "loss"]),
            (
                "words",
                OneHotEncoder(max_categories=25, handle_unknown="infrequent_if_exist", sparse_output=False),
                WORDS,
            ),
        ]
    ).fit(rows)


def judged(model: object, test: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """The scores of a finished model on true test labels, which are read here and nowhere else."""
    probabilities, true = model.predict_proba(test), labels == SPACE.points[1]
    return {
        "accuracy": round(float(np.mean((probabilities[:, 1] > 0.5) == true)), 5),
        "log_loss": round(float(log_loss(true, np.clip(probabilities[:, 1], 1e-12, 1 - 1e-12))), 5),
        "auc": round(float(roc_auc_score(true, probabilities[:, 1])), 5),
    }


def epsilon_of(noise: float) -> float:
    """The epsilon of a label that is redrawn from two classes with this chance."""
    return math.log1p(2 * (1 - noise) / noise)


class Table:
    """Adult in three parts, encoded by its auxiliary rows."""

    def __init__(self, folder: Path) -> None:
        (self.private, self.labels), (self.auxiliary, auxiliary_labels), (test, self.test_labels) = adult(folder)
        self.known = Release.public(auxiliary_labels, SPACE)
        self.encode = encoder(self.auxiliary).transform
        self.test = self.encode(test)

    def generator(self, even: float) -> Generator:
        """One that has seen the auxiliary rows alone."""
        fitted = fit_copula(self.auxiliary, self.known, "Adult, the rows set aside", "auxiliary", smoothing=even)
        return fitted.generator()

    def row(self, model: object, began: float, **about: object) -> dict[str, object]:
        """A line of results."""
        return {**about, **judged(model, self.test, self.test_labels), "seconds": round(time.monotonic() - began, 1)}

    def baselines(self) -> Iterator[dict[str, object]]:
        """What true labels of the private rows give, and what the auxiliary rows give without any release."""
        public = Release.public(self.labels, SPACE)
        for name, rows, labels in zip(WITHOUT, (self.private, self.auxiliary), (public, self.known), strict=True):
            began = time.monotonic()
            model = SoftmaxRegression(folds=FOLDS).fit(self.encode(rows), labels)
            yield self.row(model, began, generator="", noise=0.0, draw=0, method=name)

    def labels_alone(self, noise: float, draw: int) -> Iterator[dict[str, object]]:
        """Labels with the same noise beside true features: mechanism 1."""
        began = time.monotonic()
        released = Curator(self.labels, SPACE).randomize(RandomizedResponse(SPACE, epsilon_of(noise)))
        model = SoftmaxRegression(folds=FOLDS).fit(self.encode(self.private), released)
        yield self.row(model, began, generator="none", noise=noise, draw=draw, method="labels alone")

    def redrawn(self, name: str, noise: float, draw: int) -> Iterator[dict[str, object]]:
        """All ways of learning from one release of rows: mechanism 2."""
        generator = self.generator(GENERATORS[name])
        double = DoubleResponse(SPACE, epsilon_of(noise), generator)
        released = Curator(self.labels, SPACE).randomize_rows(double, self.private)
        features = self.encode(released.features.to_pandas())

        def drawn(codes: np.ndarray) -> np.ndarray:
            return self.encode(generator.sample(codes).to_pandas())

        for method, (way, loss, share) in METHODS.items():
            began = time.monotonic()
            learner = ResampledClassifier(
                SoftmaxRegression(method=loss, folds=FOLDS), method=way, generator=drawn, original_share=share
            )
            model = learner.fit(features, released)
            yield self.row(model, began, generator=name, noise=noise, draw=draw, method=method)


def main() -> None:
    """Measure what is not there yet, and report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--noises", default=",".join(map(str, NOISES)))
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--report-only", action="store_true")
    asked = parser.parse_args()
    path = asked.results / "redrawn_tables.csv"
    if not asked.report_only:
        if "LABELDP_DATA" not in os.environ:
            sys.exit("LABELDP_DATA names no folder of data sets: expected one with adult/")
        measure(path, Table(Path(os.environ["LABELDP_DATA"])), asked.draws, map(float, asked.noises.split(",")))
    (asked.results / "redrawn_tables.md").write_text(report(pd.read_csv(path, keep_default_na=False)))


def measure(path: Path, table: Table, draws: int, noises: Iterator[float]) -> None:
    """Append the releases that are not there yet."""
    done = set()
    if path.exists():
        done = set(
            pd.read_csv(path, keep_default_na=False)[["generator", "noise", "draw"]].itertuples(index=False, name=None)
        )
    jobs = [(("", 0.0, 0), table.baselines())]
    for noise in noises:
        for draw in range(draws):
            jobs.append((("none", noise, draw), table.labels_alone(noise, draw)))
            jobs += [((name, noise, draw), table.redrawn(name, noise, draw)) for name in GENERATORS]
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not file.tell():
            writer.writeheader()
        for key, rows in jobs:
            if key not in done:
                writer.writerows(list(rows))
                file.flush()
                print(*key, flush=True)


def report(results: pd.DataFrame) -> str:
    """Means and standard deviations over draws, as tables."""
    lines = ["# Learning from redrawn rows of Adult", "", "Mean over draws, standard deviation in brackets."]
    for measure_of in ("accuracy", "log_loss", "auc"):
        noises = sorted(set(results["noise"]) - {0.0})
        lines += ["", f"## {measure_of}", "", f"| generator | method | {' | '.join(f'{each:g}' for each in noises)} |"]
        lines += [f"| --- | --- |{' --- |' * len(noises)}"]
        for (generator, method), rows in results.groupby(["generator", "method"], sort=False):
            if generator:
                cells = [rows[rows["noise"] == noise][measure_of] for noise in noises]
                shown = [f"{each.mean():.4f} ({each.std():.4f})" for each in cells]
            else:
                shown = [f"{rows[measure_of].mean():.4f}"] * len(noises)
            lines.append(f"| {generator or '-'} | {method} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
