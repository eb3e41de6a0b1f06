"""Rows of Adult whose features were resampled with their labels: which way of learning makes up for it.

redrawn_tables.md has the protocol and what the results show.
"""

import argparse
import functools
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, pivot
from sklearn.compose import ColumnTransformer
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from labeldp import Classes, Curator, DoubleResponse, Generator, RandomizedResponse, Release
from labeldp.learning.generators import fit_copula
from labeldp.learning.sklearn import ResampledClassifier, SoftmaxRegression

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
NOTHING = ""  # generator of rows that were not released
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

    def way(self, given: str, noise: float) -> tuple[pd.DataFrame, Release]:
        """Rows and labels of a learner without resampled features."""
        if given == "auxiliary rows alone":
            return self.auxiliary, self.known
        if given == "no privacy":
            return self.private, Release.public(self.labels, SPACE)
        return self.private, Curator(self.labels, SPACE).randomize(RandomizedResponse(SPACE, epsilon_of(noise)))

    def resampled(self, name: str, noise: float, methods: tuple[str, ...]) -> Iterator[tuple[str, object]]:
        """Models of all ways of learning, from one release of rows: mechanism 2."""
        generator = self.generator(GENERATORS[name])
        double = DoubleResponse(SPACE, epsilon_of(noise), generator)
        released = Curator(self.labels, SPACE).randomize_rows(double, self.private)
        features = self.encode(released.features.to_pandas())

        def drawn(codes: np.ndarray) -> np.ndarray:
            return self.encode(generator.sample(codes).to_pandas())

        for method in methods:
            way, loss, share = METHODS[method]
            learner = ResampledClassifier(
                SoftmaxRegression(method=loss, folds=FOLDS), method=way, generator=drawn, original_share=share
            )
            yield method, learner.fit(features, released)


@functools.cache
def loaded(folder: Path) -> Table:
    """Adult, read and encoded once."""
    return Table(folder)


def cells(given: Given) -> Iterator[Cell]:
    """True labels, labels alone, and each generator, over the noise."""
    yield cell_of(NOTHING, 0.0, *WITHOUT, draws=range(1))
    for noise in map(float, given.noises.split(",")):
        yield cell_of("none", noise, "labels alone")
        yield from (cell_of(name, noise, *METHODS) for name in GENERATORS)


def cell_of(generator: str, noise: float, *methods: str, draws: range | None = None) -> Cell:
    """Methods that learn from one release."""
    return Cell({"generator": generator, "noise": noise}, methods, draws)


def run(given: Given, cell: Cell, _: int) -> Iterator[Row]:
    """A row for each method."""
    data = loaded(data_folder(given))
    if cell["generator"] in GENERATORS:
        for method, model in data.resampled(cell["generator"], cell["noise"], cell.parts):
            yield {"method": method, **judged(model, data.test, data.test_labels)}
        return
    for method in cell.parts:
        rows, labels = data.way(method, cell["noise"])
        model = SoftmaxRegression(folds=FOLDS).fit(data.encode(rows), labels)
        yield {"method": method, **judged(model, data.test, data.test_labels)}


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Means and standard deviations over draws."""
    results = frames["redrawn_tables"].fillna({"generator": "-"})
    text = ["", "Mean over draws, standard deviation in parentheses; noise 0 is without resampling and privacy."]
    for column in ("accuracy", "log_loss", "auc"):
        text += ["", f"## {column}", ""]
        text += pivot(results, ["generator", "method"], column, across="noise", form=".4f")
    return text


def options(parser: argparse.ArgumentParser) -> None:
    """Noise."""
    parser.add_argument("--noises", default=",".join(map(str, NOISES)), help="lambdas, separated by commas")


STUDY = Study(
    name="redrawn_tables",
    recipe="1",
    key=("generator", "noise"),
    part="method",
    columns=("generator", "noise", "draw", "method", "accuracy", "log_loss", "auc", "seconds"),
    cells=cells,
    run=run,
    spots=(
        Spot(cell_of("none", 0.5, "labels alone"), "log_loss", {"method": "labels alone"}, draws=3),
        Spot(cell_of("copula", 0.5, "likelihood, constant"), "log_loss", {"method": "likelihood, constant"}, draws=2),
    ),
)
EXPERIMENT = Experiment(
    name="redrawn_tables",
    question="Which way of learning makes up for resampled features?",
    studies=(STUDY,),
    page=page,
    draws=2,
    options=options,
)

if __name__ == "__main__":
    main(EXPERIMENT)
