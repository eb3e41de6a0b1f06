"""Coverage and size of prediction sets that released labels calibrate, beside sets by true labels.

coverage_of_sets.md has the protocol and what the results show.
"""

import functools
import math
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from _real_data import age, stay
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, pivot
from auto_tables import adult, readmission
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from labeldp import Classes, ClassProbabilities, Curator, Interval, Release
from labeldp.learning.inference import calibrated_sets
from labeldp.learning.sklearn import SoftmaxRegression
from labeldp.mechanisms.randomizers import RANDOMIZERS

ALPHA, FITTED_ROWS, REPLICATES = 0.1, 4_000, 25
#: Rows that calibrate, and more where a table has them. By these, of numbers: rows to fit on and rows held out.
ROWS, MORE_ROWS = 4_000, 16_000
OF_TABLE = {ROWS: (10_000, 5_000), MORE_ROWS: (20_000, 10_000)}
POOL, GRID = 40_000, 64
LEAST_OF_NUMBERS = 2.0  # below, 4,000 released numbers tell of no interval but the whole range
#: The parts of the made-up table: classes, and rows of a person.
MADE_UP, OF_PERSON = 10, 5
CLASSES = {"adult": adult, "readmission": readmission}
NUMERIC = {"age": age, "age by five": age, "stay": stay}
#: Steps of declared grids; others are as declared, or of at most 51 points.
STEPS = {"age by five": 5.0}
MECHANISMS = ("randomized-response", "subset", "bits")
OF_NUMBERS = ("optimal", "piecewise", "laplace", "randomized-response")
KEY = ("data", "mechanism", "epsilon", "unit", "rows")


class Pool:
    """Rows with true labels, and the predictions of a model that was not fitted on them.

    Attributes:
        space: The label space.
        labels: Codes of true classes, or true numbers.
        predicted: Probabilities in declared order, or numbers.
    """

    def __init__(self, space: Classes | Interval, labels: np.ndarray, predicted: np.ndarray) -> None:
        self.space, self.labels, self.predicted = space, labels, predicted

    def missed(self, sets: object, rows: np.ndarray) -> tuple[float, float]:
        """The share of rows whose set has the true label, and the mean size of sets."""
        if self.predicted.ndim == 1:
            low, high = sets.intervals(self.predicted[rows]).T
            held = (low <= self.labels[rows] + 1e-9) & (self.labels[rows] <= high + 1e-9)
            return float(held.mean()), float((high - low).mean())
        members = sets.members(self.predicted[rows])
        return float(members[np.arange(len(rows)), self.labels[rows]].mean()), float(members.sum(axis=1).mean())

    @property
    def smallest(self) -> float:
        """The mean size of the smallest sets of this kind with the coverage, by true labels of all rows."""
        if self.predicted.ndim == 1:
            low, high = self.space.points[0], self.space.points[-1]
            reach = np.quantile(np.abs(self.labels - self.predicted), 1.0 - ALPHA)
            return float((np.minimum(self.predicted + reach, high) - np.maximum(self.predicted - reach, low)).mean())
        limit = np.quantile(self.predicted[np.arange(len(self.labels)), self.labels], ALPHA)
        return float(np.maximum((self.predicted >= limit).sum(axis=1), 1).mean())


def made_up(noise: bool, seed: int = 0) -> Pool:
    """Ten classes by a model that is surer than it should be; or classes that have nothing to do with it."""
    random = np.random.default_rng(seed)
    scores = 2.0 * random.normal(size=(POOL // OF_PERSON, MADE_UP)).repeat(OF_PERSON, axis=0)
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    even = random.random(POOL // OF_PERSON).repeat(OF_PERSON)[:, None]  # a person has one label
    labels = random.integers(0, MADE_UP, POOL) if noise else (chances.cumsum(axis=1) > even).argmax(axis=1)
    sure = chances**1.6
    return Pool(Classes(range(MADE_UP)), labels, sure / sure.sum(axis=1, keepdims=True))


@functools.cache
def encoded(folder: str | None, name: str) -> tuple[Classes, np.ndarray, np.ndarray]:
    """The classes, the features as numbers and the labels of a table, in an order drawn once."""
    frame, labels = CLASSES[name](data_folder(Given(folder=folder)))
    rows = np.random.default_rng(0).permutation(len(frame))[: POOL + FITTED_ROWS]
    frame, labels = frame.iloc[rows].reset_index(drop=True), np.asarray(labels)[rows].astype(str)
    numbers = frame.select_dtypes("number").columns
    others = frame.columns.difference(numbers)
    encoder = make_column_transformer(
        (StandardScaler(), numbers),
        (OneHotEncoder(min_frequency=400, handle_unknown="ignore", sparse_output=False), others),
        sparse_threshold=0.0,
    )
    features = encoder.fit_transform(frame.assign(**{each: frame[each].astype(str) for each in others}))
    return Classes(sorted(set(labels))), np.nan_to_num(features), labels


@functools.cache
def pool_of(folder: str | None, name: str, mechanism: str, epsilon: float, rows: int) -> Pool:
    """The rows of a table, and predictions of a linear model that other rows' released labels fitted."""
    if name in ("made-up", "noise"):
        return made_up(name == "noise")
    if name in CLASSES:
        space, features, labels = encoded(folder, name)
        release = released(space, labels[:FITTED_ROWS].tolist(), mechanism, epsilon)
        model = SoftmaxRegression().fit(features[:FITTED_ROWS], release)
        chances = ClassProbabilities.of(model, features[FITTED_ROWS:]).in_order(space.points)
        return Pool(space, np.searchsorted(space.points, labels[FITTED_ROWS:]), chances)
    data = NUMERIC[name](data_folder(Given(folder=folder)), *OF_TABLE[rows])
    space = grid_of(name, data.declared)
    low, high = space.points[0], space.points[-1]
    labels = np.concatenate([data.labels, data.test_labels])
    features = np.concatenate([data.features, data.test_features])
    labels = low + np.round((np.clip(labels, low, high) - low) / space.step) * space.step
    half = FITTED_ROWS
    numbers = released(space, labels[:half], mechanism, epsilon).numbers()
    model = make_pipeline(StandardScaler(), Ridge(100.0)).fit(features[:half], numbers)
    return Pool(space, labels[half:], np.clip(model.predict(features[half:]), low, high))


def grid_of(name: str, declared: Interval) -> Interval:
    """The declared range with a step of its own, or one of at most 51 points."""
    low, high = declared.points[0], declared.points[-1]
    if step := STEPS.get(name):
        return Interval(low, low + math.ceil((high - low) / step) * step, step)
    return declared if declared.size <= GRID else Interval(low, high, (high - low) / 50)


def released(space: Classes | Interval, labels: object, mechanism: str, epsilon: float) -> Release:
    """One release; public labels where there is no noise."""
    if math.isinf(epsilon):
        return Release.public(labels, space)
    return Curator(labels, space, budget=epsilon).randomize(RANDOMIZERS.own[mechanism](space, epsilon))


def cells(given: Given) -> Iterator[Cell]:
    """Mechanisms of classes and of numbers over epsilon; people with several rows; noise."""
    for name in given.data:
        numeric = name in NUMERIC
        for epsilon in (*(each for each in given.epsilons if not numeric or each >= LEAST_OF_NUMBERS), math.inf):
            for mechanism in OF_NUMBERS if numeric else MECHANISMS:
                for unit in (1, OF_PERSON) if name == "made-up" and mechanism == "subset" else (1,):
                    for rows in (ROWS, MORE_ROWS) if numeric or name in CLASSES else (ROWS,):
                        key = {"data": name, "mechanism": mechanism, "epsilon": epsilon, "unit": unit, "rows": rows}
                        yield Cell(key)


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """Releases of other rows each, and what their sets hold of the rest."""
    pool = pool_of(given.folder, cell["data"], cell["mechanism"], cell["epsilon"], cell["rows"])
    random, people = np.random.default_rng(draw), len(pool.labels) // OF_PERSON
    held, sizes, all_labels = [], [], 0
    for _ in range(REPLICATES):
        rows = random.permutation(len(pool.labels))[: cell["rows"]]
        if cell["unit"] > 1:
            chosen = random.permutation(people)[: ROWS // OF_PERSON]
            rows = (chosen[:, None] * OF_PERSON + np.arange(OF_PERSON)).ravel()
        elif cell["data"] == "made-up":  # one row of a person
            rows = random.permutation(people)[:ROWS] * OF_PERSON
        predicted, true = pool.predicted[rows], pool.labels[rows]
        labels = true if predicted.ndim == 1 else [pool.space.points[code] for code in true]
        release = released(pool.space, labels, cell["mechanism"], cell["epsilon"])
        named = predicted if predicted.ndim == 1 else ClassProbabilities(predicted, pool.space.points)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sets = calibrated_sets(release, named, ALPHA, units=rows // OF_PERSON if cell["unit"] > 1 else "rows")
        share, size = pool.missed(sets, np.setdiff1d(np.arange(len(pool.labels)), rows))
        held.append(share)
        sizes.append(size)
        all_labels += bool(sets.reasons)
    yield {
        "coverage": round(float(np.mean(held)), 4),
        "enough": round(float(np.mean(np.array(held) >= 1.0 - ALPHA)), 3),
        "least": round(float(np.min(held)), 4),
        "size": round(float(np.mean(sizes)), 4),
        "smallest": round(pool.smallest, 4),
        "everything": round(all_labels / REPLICATES, 3),
    }


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Shares of releases with enough coverage, mean coverage and mean size."""
    rows = frames["coverage_of_sets"].assign(times=lambda frame: frame["size"] / frame["smallest"])
    lines: list[str] = []
    for measure, title, form in (
        ("enough", "Share of releases whose sets hold the true label of at least 90 % of other rows", ".2f"),
        ("coverage", "Mean coverage", ".3f"),
        ("times", "Mean size over that of the smallest sets", ".2f"),
        ("everything", "Share of releases whose sets are of all labels", ".2f"),
    ):
        lines += ["", f"{title}:", "", *pivot(rows, ["data", "mechanism", "unit", "rows"], measure, form=form)]
    return lines


STUDY = Study(
    name="coverage_of_sets",
    recipe="3",
    key=KEY,
    columns=(*KEY, "draw", "coverage", "enough", "least", "size", "smallest", "everything", "seconds"),
    cells=cells,
    run=run,
    spots=(
        Spot(
            Cell({"data": "made-up", "mechanism": "subset", "epsilon": 4.0, "unit": 1, "rows": ROWS}),
            "coverage",
            draws=2,
            least=0.02,
        ),
    ),
)
EXPERIMENT = Experiment(
    name="coverage_of_sets",
    question="Do prediction sets hold the true label as often as they say, and how large are they?",
    studies=(STUDY,),
    page=page,
    draws=2,
    tables=("made-up", "noise", "adult", "readmission", "age", "age by five", "stay"),
    bundled=("made-up", "noise"),
    epsilons=(0.5, 1.0, 2.0, 4.0),
)

if __name__ == "__main__":
    main(EXPERIMENT)
