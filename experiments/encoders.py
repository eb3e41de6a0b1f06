"""Images by an encoder that others trained: each label randomized alone, and by a curator.

encoders.md has the protocol and what the results show.
"""

import argparse
import functools
import hashlib
import math
from collections.abc import Iterator
from pathlib import Path

import clusters
import numpy as np
import pandas as pd
import priors
from _study import Cell, Experiment, Given, Row, Study, data_folder, main, pivot, shown, table
from esfandiari import Data, Groups
from patches import BUNDLED, DELTA, SPACE, TABLES

from labeldp import Curator, LabelMoments, Release, SubsetResponse
from labeldp.learning.images import EncoderFeatures, ImageRows, KernelFeatures, PatchClassifier
from labeldp.learning.sklearn import MomentClassifier
from labeldp.learning.tables import open_encoder

CENTRAL, COLUMNS = (0.1, 0.5, 1.0), {0.1: 32, 0.5: 64, 1.0: 64}
PARTS = 1024  # images that are encoded at a time
COUNTS, TRUSTS = (20, 50, 100, 200, 400), {"central": (0.01, 0.05, 0.1, 0.5), "local": (0.1, 0.5, 1.0)}
LEANINGS = (0.1, 0.2, 0.5, 1.0, 2.0)


@functools.cache
def encoded(
    folder: str | None, cache: Path, encoder: str, name: str, rows: int, held: int
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Components of the features of some images to fit on and of some held out, in a fixed order, with their labels."""
    data, opened = (
        TABLES[name](Path() if name in BUNDLED else data_folder(Given(folder=folder))),
        open_encoder(encoder, cache=cache / "encoders"),
    )
    parts = []
    for images, labels, most in ((data.images, data.labels, rows), (data.test_images, data.test_labels, held)):
        some = np.random.default_rng(0).permutation(len(images))[:most]  # files may be sorted by class
        features = [opened(images[some[start : start + PARTS]]) for start in range(0, len(some), PARTS)]
        parts.append((np.concatenate(features), labels[some]))
    (fit, labels), (test, test_labels) = parts
    components = EncoderFeatures().fit(fit)
    return (components.transform(fit), labels), (components.transform(test), test_labels)


def table_of(given: Given, name: str) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """The encoded table that the options ask for."""
    return encoded(given.folder, given.cache, given.encoder, name, given.rows, given.held)


@functools.cache
def rows_of(folder: str | None, cache: Path, encoder: str, name: str, rows: int, held: int) -> ImageRows:
    """All that is learned from the images to fit on, without labels."""
    (fit, _), _ = encoded(folder, cache, encoder, name, rows, held)
    return ImageRows.of(fit, kernel=KernelFeatures())


def cells(given: Given) -> Iterator[Cell]:
    """Each table, over epsilon; without privacy once."""
    for name in given.data:
        for epsilon in given.epsilons:
            yield Cell({"data": name, "rows": given.rows, "epsilon": epsilon})
        yield Cell({"data": name, "rows": given.rows, "epsilon": math.inf}, draws=range(1))


def run(given: Given, cell: Cell, _: int) -> Iterator[Row]:
    """One release by subsets, and the accuracy of the classifier on the images held out."""
    (fit, labels), (test, test_labels) = table_of(given, cell["data"])
    release = (
        Release.public(labels, SPACE)
        if math.isinf(cell["epsilon"])
        else Curator(labels, SPACE).randomize(SubsetResponse(SPACE, cell["epsilon"]))
    )
    rows = rows_of(given.folder, given.cache, given.encoder, cell["data"], given.rows, given.held)
    model = PatchClassifier().fit_head(rows, release)
    yield {**scored(model.predict_features(test), test_labels), "encoder": Path(given.encoder).name, "fitted": len(fit)}


def scored(predicted: np.ndarray, labels: np.ndarray) -> Row:
    """Accuracy in %, and the number of images that it is of."""
    return {"held": len(labels), "accuracy": round(100 * float((predicted == labels).mean()), 3)}


def central_cells(given: Given) -> Iterator[Cell]:
    """Each table, over the epsilons of a curator."""
    for name in given.data:
        for epsilon in CENTRAL:
            yield Cell({"data": name, "rows": given.rows, "epsilon": epsilon})


def run_central(given: Given, cell: Cell, _: int) -> Iterator[Row]:
    """One answer of a curator with the moments of leading components, and the accuracy of its linear head."""
    (fit, labels), (test, test_labels) = table_of(given, cell["data"])
    columns, epsilon = COLUMNS[cell["epsilon"]], cell["epsilon"]
    points, tests = (unit(part[:, :columns]) for part in (fit, test))
    curator = Curator(labels, SPACE, budget=(epsilon, DELTA))
    model = MomentClassifier().fit(points, curator.answer(LabelMoments(SPACE, epsilon, DELTA, points)))
    found = scored(model.predict(tests), test_labels)
    yield {**found, "encoder": Path(given.encoder).name, "fitted": len(fit), "columns": points.shape[1]}


def unit(points: np.ndarray) -> np.ndarray:
    """Rows of length one."""
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True), np.float64)


@functools.cache
def clustered(folder: str | None, cache: Path, encoder: str, name: str, rows: int, held: int) -> Data:
    """The encoded table with clusters of its images, which are kept."""
    (fit, labels), (test, test_labels) = encoded(folder, cache, encoder, name, rows, held)
    groups = Groups(fit, cache / f"encoded-{name}-{hashlib.sha256(fit.tobytes()).hexdigest()[:16]}")
    return Data(SPACE, (fit, test), (fit, test), labels, test_labels, groups)


def prior_cells(given: Given) -> Iterator[Cell]:
    """Each setting of Figure 1(b) on each table, over epsilon."""
    for name in given.data:
        for setting in priors.SETTINGS:
            for epsilon in (math.inf,) if setting == "none" else LEANINGS:
                yield Cell({"data": name, "rows": given.rows, "setting": setting, "epsilon": epsilon}, draws=range(3))


def run_prior(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """What a network learns of labels that respond with a prior of their cluster."""
    data = clustered(given.folder, given.cache, given.encoder, cell["data"], given.rows, given.held)
    found = priors.learned(priors.first_rows(data), cell, draw)
    yield {**found, "encoder": Path(given.encoder).name, "fitted": found["rows"], "rows": cell["rows"]}


@functools.cache
def named_table(folder: str | None, cache: Path, encoder: str, name: str, rows: int, held: int) -> clusters.Data:
    """The encoded table with clusters of the graph of its images, by their number."""
    (fit, labels), (test, test_labels) = encoded(folder, cache, encoder, name, rows, held)
    return clusters.Data(clusters.grouped(fit, test, COUNTS), (fit, test), labels, test_labels)


def name_cells(given: Given) -> Iterator[Cell]:
    """Each table under each trust model, over epsilon."""
    for name in given.data:
        for trust, epsilons in {"none": (math.inf,), **TRUSTS}.items():
            for epsilon in epsilons:
                draws = range(1) if trust == "none" else None
                yield Cell({"data": name, "rows": given.rows, "trust": trust, "epsilon": epsilon}, draws=draws)


def run_names(given: Given, cell: Cell, _: int) -> Iterator[Row]:
    """How many rows the names of clusters label correctly, a row for each number of clusters."""
    data = named_table(given.folder, given.cache, given.encoder, cell["data"], given.rows, given.held)
    for _, _, row in clusters.rows_of(data, cell):
        yield {**row, "encoder": Path(given.encoder).name, "fitted": row["rows"], "rows": cell["rows"]}


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Accuracy on each table, with standard deviations of draws."""
    lines: list[str] = []
    for name, title in (
        ("encoders", "Each label randomized alone"),
        ("encoders_central", "A curator's moments of some leading components"),
    ):
        if name in frames:
            by = ["data", "encoder", "fitted", "held"]
            rows = frames[name]
            lines += ["", f"{title}, accuracy in % with standard deviations of draws:", ""]
            found = rows.groupby([*by, "epsilon"])["accuracy"].agg(lambda each: shown(each, ".1f")).unstack("epsilon")
            draws = rows.groupby(by)["draw"].nunique()
            lines += table(
                [*by, "draws", *(f"{epsilon:g}" for epsilon in found)],
                [[*each, draws[each], *found.loc[each].fillna("")] for each in found.index],
            )
    for name, title, index, column in (
        ("encoders_priors", "Priors of clusters, test accuracy in %", ["setting"], "accuracy"),
        ("encoders_names", "Names of clusters, test images named correctly in %", ["trust", "clusters"], "test_right"),
    ):
        for given, rows in frames.get(name, pd.DataFrame({"data": []})).groupby("data", sort=False):
            lines += ["", f"{title}: {given}, draws: {rows['draw'].nunique()}", ""]
            lines += pivot(rows, index, column, title="", scale=100, form=".1f")
    return lines


def options(parser: argparse.ArgumentParser) -> None:
    """The encoder, and how many images."""
    parser.add_argument("--encoder", default="efficientnet-lite0", help="as of labeldp learn (efficientnet-lite0)")
    parser.add_argument("--rows", type=int, default=40_000, help="images to fit on, at most (40000)")
    parser.add_argument("--held", type=int, default=10_000, help="images held out, at most (10000)")


OF_ALL = ("data", "rows", "epsilon", "draw", "encoder", "fitted", "held")
LOCAL = Study(
    name="encoders",
    recipe="1",
    key=("data", "rows", "epsilon"),
    columns=(*OF_ALL, "accuracy", "seconds"),
    cells=cells,
    run=run,
)
CURATOR = Study(
    name="encoders_central",
    recipe="1",
    key=("data", "rows", "epsilon"),
    columns=(*OF_ALL, "columns", "accuracy", "seconds"),
    cells=central_cells,
    run=run_central,
)
PRIORS = Study(
    name="encoders_priors",
    recipe="1",
    key=("data", "rows", "setting", "epsilon"),
    columns=(
        *("data", "rows", "setting", "epsilon", "draw", "encoder", "fitted"),
        *("certified_epsilon", "accuracy", "right", "seconds"),
    ),
    cells=prior_cells,
    run=run_prior,
)
NAMES = Study(
    name="encoders_names",
    recipe="1",
    key=("data", "rows", "trust", "epsilon"),
    columns=(
        *("data", "rows", "trust", "epsilon", "clusters", "draw", "encoder", "fitted", "least_rows"),
        *("certified_epsilon", "right", "test_right", "seconds"),
    ),
    cells=name_cells,
    run=run_names,
)
EXPERIMENT = Experiment(
    name="encoders",
    question="How accurate are models of images by an encoder that others trained?",
    studies=(LOCAL, CURATOR, PRIORS, NAMES),
    page=page,
    draws=5,
    tables=tuple(TABLES),
    usual=("cifar10",),
    bundled=BUNDLED,
    epsilons=(1.0, 2.0, 4.0),
    cached=True,
    options=options,
    unspotted="features of a table take half an hour of a thread",
)

if __name__ == "__main__":
    main(EXPERIMENT)
