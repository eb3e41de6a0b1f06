"""A network beside the default classifier of images, over epsilon, on tables of images.

ensemble.md has the protocol and what the results show.
"""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import torch
from _study import Cell, Experiment, Given, Row, Study, main, shown, table
from patches import SPACE, features_of, rows_of

from labeldp import Curator, Release, SubsetResponse
from labeldp.learning.images import ImageRows, PatchClassifier, likeliest_features
from labeldp.learning.torch import ImageEnsemble, TorchClassifier, augmentation, residual

BUNDLED = ("digits",)
TABLES = (*BUNDLED, "cifar10", "fashion-mnist", "kmnist", "mnist")
WAYS = ("patches", "network", "ensemble")
EPOCHS, LONGER = 40, "posterior, 30 epochs"


def cells(given: Given) -> Iterator[Cell]:
    """Each table, over epsilon; on small tables once the network by likelihood alone, on large ones for longer."""
    for name in given.data:
        for epsilon in given.epsilons:
            yield Cell({"data": name, "epsilon": epsilon, "targets": "posterior"})
            if name in ("digits", "kmnist"):
                yield Cell({"data": name, "epsilon": epsilon, "targets": "likelihood"}, draws=range(1))
            elif name != "cifar10":
                yield Cell({"data": name, "epsilon": epsilon, "targets": LONGER})


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """One release by subsets, and the accuracy of each part on the images held out."""
    del draw  # releases differ by their own chance
    torch.set_num_threads(1)
    data, found, features = features_of(given.folder, cell["data"], given.rows)
    release = Curator(data.labels, SPACE).randomize(SubsetResponse(SPACE, cell["epsilon"]))

    class Known(PatchClassifier):
        """The classifier of patches, with features that were computed before."""

        def image_rows(self, X: object, y: Release, groups: object = None) -> ImageRows:  # noqa: ARG002, N803
            place = likeliest_features([fit for fit, _ in features], y)
            self.features_ = found[place]
            return rows_of(given.folder, cell["data"], given.rows, place)

    def right(model: ImageEnsemble | PatchClassifier | TorchClassifier) -> float:
        return round(100 * float((model.predict(data.test_images) == data.test_labels).mean()), 2)

    if cell["targets"] == "likelihood":
        yield {"rows": len(data.labels), "network": right(alone(min(data.images.shape[2:])).fit(data.images, release))}
        return
    training = {"epochs": 30} if cell["targets"] == LONGER else None
    model = ImageEnsemble(Known(), training=training).fit(data.images, release)
    yield {
        "rows": len(data.labels),
        "epochs": model.n_iter_,
        "weight": round(model.weights_["network"], 2),
        "patches": right(model.patches_),
        "network": right(model.network_),
        "ensemble": right(model),
    }


def alone(side: int) -> TorchClassifier:
    """The network of the ensemble, with the settings that it has there on few images of so many pixels a side."""
    return TorchClassifier(
        residual,
        epochs=EPOCHS,
        batch_size=128,
        weight_decay=0.02,
        augment=augmentation(side // 14, flip=False, cutout=side // 5, turn=10.0, stretch=0.08),
        channels_last=True,
    )


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Accuracy on each table, with standard deviations of draws."""
    rows = frames["ensemble"]
    lines = ["", "Each label randomized alone, accuracy in % with standard deviations of draws:", ""]
    columns, body = sorted(rows["epsilon"].unique()), []
    for (name, targets), part in rows.groupby(["data", "targets"]):
        alone = targets == "likelihood"
        for way in ("network",) if alone else WAYS:
            found = part.groupby("epsilon")[way].agg(lambda each: shown(each, ".1f")).reindex(columns).fillna("")
            more = "by likelihood alone" if alone else targets.partition(", ")[2]
            body.append([name, ", ".join(filter(None, [way, more])), *found])
    return [*lines, *table(["data", "way", *(f"{epsilon:g}" for epsilon in columns)], body)]


STUDY = Study(
    name="ensemble",
    recipe=lambda row: "1" if row["targets"] == "likelihood" else "2",
    key=("data", "epsilon", "targets"),
    columns=(
        "data",
        "epsilon",
        "targets",
        "draw",
        "rows",
        "epochs",
        "weight",
        "patches",
        "network",
        "ensemble",
        "seconds",
    ),
    cells=cells,
    run=run,
)
EXPERIMENT = Experiment(
    name="ensemble",
    question="What is a network worth beside the default classifier of images?",
    studies=(STUDY,),
    page=page,
    draws=3,
    tables=TABLES,
    bundled=BUNDLED,
    shortened=True,
    epsilons=(1.0, 2.0, 4.0),
)

if __name__ == "__main__":
    main(EXPERIMENT)
