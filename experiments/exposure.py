"""How much columns and released labels are shown to disclose with nothing assumed of the columns, on five tables.

exposure.md has the protocol and what the results show.
"""

import functools
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, shown, table
from auto_tables import Loaded, adult, criteo, of_scikit_learn, readmission

from labeldp import Classes, Curator, RandomizedResponse, Release
from labeldp.audit import bound_exposure
from labeldp.learning.cells import held_out_cells
from labeldp.learning.features import tree_points_of

SPACE = Classes(["no", "yes"])
BUNDLED = ("breast_cancer",)


def talkingdata(folder: Path) -> Loaded:
    """Clicks on advertisements: was the app downloaded? The time of the download is left out: it tells the label."""
    frame = pd.read_csv(folder / "talkingdata" / "train_sample_100k.csv.gz")
    frame["hour"] = pd.to_datetime(frame["click_time"]).dt.hour
    frame["often"] = frame.groupby("ip")["ip"].transform("size")
    labels = frame["is_attributed"].to_numpy()
    return frame.drop(columns=["is_attributed", "attributed_time", "click_time"]), labels


#: Tables and the class that is compared with all others.
TABLES: dict[str, tuple[Callable[[Path], Loaded], str]] = {
    "adult": (adult, ">50K"),
    "criteo": (criteo, "1"),
    "talkingdata": (talkingdata, "1"),
    "readmission": (readmission, "<30"),
    "breast_cancer": (functools.partial(of_scikit_learn, "breast_cancer"), "1"),
}


@functools.cache
def loaded(folder: str | None, name: str) -> tuple[np.ndarray, list[str]]:
    """Columns as numbers for trees, and labels of two classes."""
    load, chosen = TABLES[name]
    frame, labels = load(Path() if name in BUNDLED else data_folder(Given(folder=folder)))
    points = tree_points_of(pa.Table.from_pandas(frame, preserve_index=False))
    return points, ["yes" if str(label) == chosen else "no" for label in labels]


def cells(given: Given) -> Iterator[Cell]:
    """Each table over epsilon, with released labels and with labels that are declared public."""
    for name in given.data:
        for epsilon in given.epsilons:
            for labels in ("released", "public"):
                yield Cell({"data": name, "epsilon": epsilon, "labels": labels})


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """One release, cells from trees of other rows, and the bounds; of public labels the cells are drawn anew alone."""
    del draw  # everything is drawn afresh
    points, labels = loaded(given.folder, cell["data"])
    if cell["labels"] == "released":
        release, flip = Curator(labels, SPACE).randomize(RandomizedResponse(SPACE, cell["epsilon"])), None
    else:
        release, flip = Release.public(labels, SPACE), 1.0 / (1.0 + math.exp(cell["epsilon"]))
    found = held_out_cells(points, release)
    bounds = bound_exposure(found.numbers, release, count=found.count, flip=flip)
    yield {
        "rows": len(labels),
        "cells": found.count,
        "average": round(bounds.average, 4),
        "of_label": round(bounds.of_label, 4),
        "beyond": round(100 * bounds.beyond(), 3),
        "known_95": round(100 * bounds.known(0.95), 3),
        "known_99": round(100 * bounds.known(0.99), 3),
    }


#: A measure, its title, and the form of its numbers.
MEASURES = (
    ("columns", "What columns add to the released label's own part, nats, at least", ".2f"),
    ("beyond", "Rows of which more than epsilon is disclosed, %, at least", ".1f"),
    ("known_95", "Rows whose label the columns alone tell with 95 % certainty, %, at least", ".1f"),
)


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Each measure by table and epsilon, with standard deviations of draws."""
    rows = frames["exposure"]
    rows["columns"] = rows["average"] - rows["of_label"]
    lines: list[str] = []
    for measure, title, form in MEASURES:
        found = rows.pivot_table(
            index=["data", "labels"],
            columns="epsilon",
            values=measure,
            aggfunc=functools.partial(shown, form=form),
            sort=False,
        )
        body = [[*index, *values] for index, values in zip(found.index, found.to_numpy(), strict=True)]
        lines += ["", f"{title}:", "", *table(["table", "labels", *(f"{each:g}" for each in found)], body)]
    return lines


STUDY = Study(
    name="exposure",
    recipe="1",
    key=("data", "epsilon", "labels"),
    columns=(
        *("data", "epsilon", "labels", "draw", "rows", "cells", "average", "of_label", "beyond", "known_95"),
        *("known_99", "seconds"),
    ),
    cells=cells,
    run=run,
    spots=(Spot(Cell({"data": "breast_cancer", "epsilon": 4.0, "labels": "public"}), "average", draws=2, least=0.3),),
)
EXPERIMENT = Experiment(
    name="exposure",
    question="What do columns and released labels disclose, with nothing assumed of the columns?",
    studies=(STUDY,),
    page=page,
    draws=5,
    tables=tuple(TABLES),
    bundled=BUNDLED,
    epsilons=(0.5, 1.0, 2.0, 4.0, 8.0),
)

if __name__ == "__main__":
    main(EXPERIMENT)
