"""Learning from labels that peers exchanged, or that were shuffled, in public cells: between local and a curator.

mixed_cells.md has the protocol and what the results show.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _data import encoded
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, pivot
from auto_tables import adult, bank, readmission
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from labeldp import CellShuffle, Classes, Curator, ExchangedLabels, NoisyHistogram, PeerExchange, ShuffledLabels
from labeldp.learning.cells import cluster
from labeldp.learning.sklearn import SoftLabelClassifier, SoftmaxRegression

#: Tables, and the class whose probability is learned.
TABLES = {"adult": (adult, ">50K"), "bank": (bank, "yes"), "readmission": (readmission, "NO")}
ROWS, TEST_ROWS, DELTA = 9_600, 4_000, 1e-6
#: Clusters that are found, and rows below which one is joined with the nearest of more.
CLUSTERS, LEAST = 40, 100
SPACE = Classes([False, True])
#: An epsilon at which a curator's noise is nothing beside the rows of a cell.
NO_NOISE = 500.0
KEY = ("data", "trust", "epsilon")


@functools.cache
def table_of(folder: Path, name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """The features of a table, and which rows have its class."""
    load, label = TABLES[name]
    frame, labels = load(folder)
    return frame, labels == label


@dataclass(frozen=True)
class Drawn:
    """Rows of a table in an order that no label decides: to fit on, with the cell of each, and to score with."""

    train: np.ndarray
    labels: np.ndarray
    cells: np.ndarray
    test: np.ndarray
    truth: np.ndarray


@functools.lru_cache(maxsize=1)
def drawn(folder: Path, name: str, draw: int) -> Drawn:
    """The rows of a draw."""
    frame, labels = table_of(folder, name)
    order = np.random.default_rng(draw).permutation(len(frame))[: ROWS + TEST_ROWS]
    parts = frame.iloc[order[:ROWS]], frame.iloc[order[ROWS:]]
    numbers = list(frame.select_dtypes("number").columns)
    words = [column for column in frame.columns if column not in numbers]
    parts = tuple(part.fillna(dict.fromkeys(numbers, 0.0) | dict.fromkeys(words, "")) for part in parts)
    train, test = encoded(*parts, numbers, words)[0]
    return Drawn(train, labels[order[:ROWS]], joined(train), test, labels[order[ROWS:]])


def of_rows(rows: Drawn, epsilon: float) -> tuple[Any, float]:
    """A model of labels that were randomized alone, and the epsilon of each; without privacy of the true ones."""
    if np.isinf(epsilon):
        return LogisticRegression(max_iter=100).fit(rows.train, rows.labels), np.inf
    release = Curator(rows.labels, SPACE, budget=epsilon).randomize(epsilon=epsilon)
    return SoftmaxRegression().fit(rows.train, release), release.guarantee.epsilon


def joined(train: np.ndarray) -> np.ndarray:
    """The cluster of each row: small ones are joined with the nearest large one, by their centres."""
    numbers = cluster(train, CLUSTERS, "kmeans").numbers
    large = np.bincount(numbers) >= LEAST
    centres = np.stack([train[numbers == number].mean(axis=0) for number in range(large.size)])
    apart = np.linalg.norm(centres[:, None] - centres[None, large], axis=2)
    return apart.argmin(axis=1)[numbers]


def in_cells(make: Callable[[np.ndarray, float], tuple[Any, float]]) -> Callable[..., tuple[Any, float]]:
    """A model of labels in cells: the query about them, and the epsilon of each label before it was mixed."""

    def fitted(rows: Drawn, epsilon: float) -> tuple[Any, float]:
        query, alone = make(rows.cells, epsilon)
        answer = Curator(rows.labels, SPACE, budget=(query.promise(1).epsilon, DELTA)).answer(query)
        return SoftLabelClassifier(LogisticRegression(max_iter=100)).fit(rows.train, answer, rows.cells), alone

    return fitted


def peers(cells: np.ndarray, epsilon: float) -> tuple[Any, float]:
    """Labels that peers exchange."""
    exchange = PeerExchange.calibrate(epsilon, DELTA, np.unique(np.bincount(cells)).tolist())
    return ExchangedLabels(SPACE, exchange, cells, DELTA), exchange.view_of_one_peer


def shuffle(cells: np.ndarray, epsilon: float) -> tuple[Any, float]:
    """Labels that are shuffled."""
    shuffled = CellShuffle.calibrate(epsilon, DELTA, np.unique(np.bincount(cells)).tolist())
    return ShuffledLabels(SPACE, shuffled, cells, DELTA), shuffled.epsilon


def counts(cells: np.ndarray, epsilon: float) -> tuple[Any, float]:
    """A curator's noisy counts; without noise at an infinite epsilon."""
    return NoisyHistogram(SPACE, min(epsilon, NO_NOISE), cells), np.inf


LEARNERS = {"local": of_rows, "peers": in_cells(peers), "shuffle": in_cells(shuffle), "curator": in_cells(counts)}


def cells(given: Given) -> Iterator[Cell]:
    """Each table, trust model and epsilon; without privacy in rows and in cells."""
    for name in given.data:
        for trust in LEARNERS:
            yield from (Cell({"data": name, "trust": trust, "epsilon": epsilon}) for epsilon in given.epsilons)
        yield from (Cell({"data": name, "trust": trust, "epsilon": np.inf}) for trust in ("local", "curator"))


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """The accuracy and the area of one model on rows held out."""
    rows = drawn(data_folder(given), cell["data"], draw)
    model, alone = LEARNERS[cell["trust"]](rows, cell["epsilon"])
    chance, truth = model.predict_proba(rows.test)[:, 1], rows.truth
    yield {
        "accuracy": round(float(((chance > 0.5) == truth).mean()), 5),
        "area": round(float(roc_auc_score(truth, chance)), 5),
        "alone": round(float(alone), 4),
        "cells": int(rows.cells.max()) + 1,
        "least": int(np.bincount(rows.cells).min()),
    }


TITLES = {
    "Accuracy on true labels": "accuracy",
    "Area under the ROC": "area",
    "Epsilon of each label before it is mixed": "alone",
}


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Accuracy, area, and what each label has of its own."""
    text = []
    for title, what in TITLES.items():
        rows = frames["mixed_cells"]
        rows = rows[np.isfinite(rows["alone"])] if what == "alone" else rows
        text += ["", f"## {title}", "", *pivot(rows, ["data", "trust"], what)]
    return text


STUDY = Study(
    name="mixed_cells",
    recipe="1",
    key=KEY,
    columns=(*KEY, "draw", "accuracy", "area", "alone", "cells", "least", "seconds"),
    cells=cells,
    run=run,
    spots=(Spot(Cell({"data": "adult", "trust": "shuffle", "epsilon": 1.0}), "area"),),
)
EXPERIMENT = Experiment(
    name="mixed_cells",
    question="What is learned from labels that peers exchanged, or that were shuffled, in public cells?",
    studies=(STUDY,),
    page=page,
    tables=tuple(TABLES),
    epsilons=(0.1, 0.3, 1.0),
)

if __name__ == "__main__":
    main(EXPERIMENT)
