"""The default classifier of images: a linear model of patches, over epsilon, on three tables of images.

patches.md has the protocol and what the results show.
"""

import functools
import math
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from _images import TABLES, Data
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, shown, table

from labeldp import Classes, Curator, Release, SubsetResponse
from labeldp.learning.images import PatchClassifier, PatchFeatures

SPACE = Classes(range(10))
BUNDLED = ("digits",)


@functools.cache
def features_of(folder: str | None, name: str) -> tuple[Data, PatchFeatures, tuple]:
    """A table of images, features learned from the images to fit on, and those of both parts."""
    data = TABLES[name](Path() if name in BUNDLED else data_folder(Given(folder=folder)))
    features = PatchFeatures().fit(data.images)
    return data, features, (features.transform(data.images), features.transform(data.test_images))


def cells(given: Given) -> Iterator[Cell]:
    """Each table, over epsilon; without privacy once."""
    for name in given.data:
        for epsilon in given.epsilons:
            yield Cell({"data": name, "epsilon": epsilon})
        yield Cell({"data": name, "epsilon": math.inf}, draws=(0,))


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """One release by subsets, and the accuracy of each head on the images held out."""
    del draw  # releases differ by their own chance
    data, features, (fit, held) = features_of(given.folder, cell["data"])
    release = (
        Release.public(data.labels, SPACE)
        if math.isinf(cell["epsilon"])
        else Curator(data.labels, SPACE).randomize(SubsetResponse(SPACE, cell["epsilon"]))
    )
    for components in ((64, 256), (64,), (256,)):
        model = PatchClassifier(components)
        model.features_ = features
        model.fit_head(fit, release)
        predicted = model.head_.predict(held[:, : model.head_.n_features_in_])
        yield {
            "head": "chosen" if len(components) > 1 else f"{components[0]}",
            "components": model.head_.n_features_in_,
            "rows": len(fit),
            "accuracy": round(100 * float((predicted == data.test_labels).mean()), 3),
        }


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Accuracy of each head, with standard deviations of draws."""
    rows = frames["patches"]
    lines: list[str] = []
    for name, part in rows.groupby("data", sort=False):
        found = part.pivot_table(
            index="head", columns="epsilon", values="accuracy", aggfunc=lambda each: shown(each, ".1f")
        )
        lines += ["", f"{name}, accuracy in % with standard deviations of draws:", ""]
        lines += table(
            ["components", *(f"{epsilon:g}" for epsilon in found)],
            [[head, *found.loc[head]] for head in ("chosen", "64", "256")],
        )
    return lines


STUDY = Study(
    name="patches",
    recipe="1",
    key=("data", "epsilon"),
    columns=("data", "epsilon", "draw", "head", "components", "rows", "accuracy", "seconds"),
    cells=cells,
    run=run,
    spots=(Spot(Cell({"data": "digits", "epsilon": 4.0}), "accuracy", where={"head": "chosen"}, draws=2, least=3.0),),
)
EXPERIMENT = Experiment(
    name="patches",
    question="How accurate is the default classifier of images?",
    studies=(STUDY,),
    page=page,
    draws=5,
    tables=tuple(TABLES),
    bundled=BUNDLED,
    epsilons=(0.1, 0.2, 0.5, 1.0, 2.0, 4.0),
)

if __name__ == "__main__":
    main(EXPERIMENT)
