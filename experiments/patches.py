"""The default classifier of images: a linear model of patches, over epsilon, on five tables of images.

patches.md has the protocol and what the results show.
"""

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd
from _images import TABLES as GRAY
from _images import Data
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, pivot
from esfandiari import cifar10

from labeldp import Classes, Curator, LabelMoments, Release, SubsetResponse
from labeldp.learning.images import (
    ImageRows,
    KernelFeatures,
    PatchClassifier,
    PatchFeatures,
    likeliest_features,
    moved_copies,
)
from labeldp.learning.sklearn import MomentClassifier

SPACE = Classes(range(10))
BUNDLED = ("digits",)
#: Epsilons of a curator, among them those of printed figures.
CENTRAL = (0.01, 0.02, 0.05, 0.1, 0.18, 0.2, 0.29, 0.5, 1.0, 1.6, 2.0)
DELTA, COLUMNS = 1e-6, (32, 128)


def colour(folder: Path) -> Data:
    """CIFAR-10 as far as it is in the folder, in colour."""
    (images, test_images), (labels, test_labels) = cifar10(folder / "cifar10")
    shape = (-1, 32, 32, 3)
    return Data(images.reshape(shape), labels, test_images.reshape(shape), test_labels)


TABLES: Mapping[str, Callable[[Path], Data]] = MappingProxyType({**GRAY, "cifar10": colour})


@functools.cache
def features_of(
    folder: str | None, name: str, rows: int | None
) -> tuple[Data, list[PatchFeatures], list[tuple[np.ndarray, np.ndarray]]]:
    """A table of images, and features of those to fit on and those held out: the usual ones, and the others."""
    data = TABLES[name](Path() if name in BUNDLED else data_folder(Given(folder=folder))).first(rows)
    found = [PatchFeatures(mirrored=each).fit(data.images) for each in mirrored(data)]
    return data, found, [(each.transform(data.images), each.transform(data.test_images)) for each in found]


def mirrored(data: Data) -> tuple[bool, bool]:
    """Whether features are those of mirror images too, as usual and otherwise: in colour they are."""
    colour = data.images.shape[-1] == 3
    return colour, not colour


@functools.cache
def rows_of(folder: str | None, name: str, rows: int | None, place: int) -> ImageRows:
    """Rows of some of the features of the images to fit on."""
    data, found, features = features_of(folder, name, rows)
    copies = [found[place].transform(each) for each in moved_copies(data.images)]
    return ImageRows.of(features[place][0], kernel=KernelFeatures(), copies=copies)


def cells(given: Given) -> Iterator[Cell]:
    """Each table, over epsilon; without privacy once."""
    for name in given.data:
        for epsilon in given.epsilons:
            yield Cell({"data": name, "epsilon": epsilon})
        yield Cell({"data": name, "epsilon": math.inf}, draws=range(1))


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """One release by subsets, and the accuracy of the classifier on the images held out."""
    del draw  # releases differ by their own chance
    data, _, features = features_of(given.folder, cell["data"], given.rows)
    release = (
        Release.public(data.labels, SPACE)
        if math.isinf(cell["epsilon"])
        else Curator(data.labels, SPACE).randomize(SubsetResponse(SPACE, cell["epsilon"]))
    )
    place = likeliest_features([fit for fit, _ in features], release)
    model = PatchClassifier().fit_head(rows_of(given.folder, cell["data"], given.rows, place), release)
    predicted = model.predict_features(features[place][1])
    yield {
        "mirrored": int(mirrored(data)[place]),
        **{str(name): round(weight, 2) for name, weight in model.weights_.items()},
        "rows": len(data.labels),
        "accuracy": round(100 * float((predicted == data.test_labels).mean()), 3),
    }


def central_cells(given: Given) -> Iterator[Cell]:
    """Each published table, over epsilon, with three draws."""
    for name in given.data:
        if name not in BUNDLED:
            for epsilon in CENTRAL:
                for columns in COLUMNS:
                    yield Cell({"data": name, "epsilon": epsilon, "columns": columns}, draws=range(3))


def run_central(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """One answer of a curator with the moments of leading components, and the accuracy of its linear head."""
    del draw
    data, _, features = features_of(given.folder, cell["data"], given.rows)
    fit, held = (complete(part[:, : cell["columns"]]) for part in features[0])
    curator = Curator(data.labels, SPACE, budget=(cell["epsilon"], DELTA))
    model = MomentClassifier().fit(fit, curator.answer(LabelMoments(SPACE, cell["epsilon"], DELTA, fit)))
    yield {"rows": len(fit), "accuracy": round(100 * float((model.predict(held) == data.test_labels).mean()), 3)}


def complete(points: np.ndarray) -> np.ndarray:
    """Rows of length one, and a column of ones, for want of an intercept."""
    scaled = points / np.linalg.norm(points, axis=1, keepdims=True)
    return np.hstack([scaled, np.ones((len(points), 1))]).astype(np.float64)


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Accuracy on each table, with standard deviations of draws."""
    lines: list[str] = []
    for name, title, by in (
        ("patches", "Each label randomized alone", ["data"]),
        ("patches_central", "A curator's moments of some leading components", ["data", "columns"]),
    ):
        if name in frames:
            rows = frames[name]
            lines += ["", f"{title}, accuracy in % with standard deviations of draws:", ""]
            rows = rows.assign(draws=rows.groupby(by)["draw"].transform("nunique")).sort_values(by)
            lines += pivot(rows, [*by, "draws"], "accuracy", form=".1f")
    return lines


STUDY = Study(
    name="patches",
    recipe="10",
    key=("data", "epsilon"),
    columns=(
        "data",
        "epsilon",
        "draw",
        "mirrored",
        "64",
        "256",
        "512",
        "768",
        "clusters",
        "rows",
        "accuracy",
        "seconds",
    ),
    cells=cells,
    run=run,
    spots=(Spot(Cell({"data": "digits", "epsilon": 4.0}), "accuracy", draws=2, least=3.0),),
)
CURATOR = Study(
    name="patches_central",
    recipe=lambda row: "4" if row["data"] == "cifar10" else "1",  # in colour: mirror images, two scales, more filters
    key=("data", "epsilon", "columns"),
    columns=("data", "epsilon", "columns", "draw", "rows", "accuracy", "seconds"),
    cells=central_cells,
    run=run_central,
)
EXPERIMENT = Experiment(
    name="patches",
    question="How accurate is the default classifier of images?",
    studies=(STUDY, CURATOR),
    page=page,
    draws=5,
    tables=tuple(TABLES),
    bundled=BUNDLED,
    shortened=True,
    epsilons=(0.1, 0.2, 0.5, 1.0, 2.0, 4.0),
)

if __name__ == "__main__":
    main(EXPERIMENT)
