"""A curator's one answer about images whose public graph is that of their patches, over epsilon.

central_images.md has the protocol and what the results show.
"""

import functools
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from _images import Data
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, pivot
from patches import TABLES

from labeldp import Classes, Curator, LabelMoments, NoisyArgmax
from labeldp.learning.cells import Embedding, embed, suggested_count, suggested_eigenvectors
from labeldp.learning.images import PatchFeatures
from labeldp.learning.sklearn import MomentClassifier

BUNDLED = ("digits",)
SPACE = Classes(range(10))
DELTA = 1e-6
NOISELESS = 600.0  # as good as no noise at all
WAYS = ("names", "graph", "both")
EIGENVECTORS, OF_CLUSTERS, COMPONENTS = 100, 30, 128


@dataclass(frozen=True)
class Images:
    """Images, and what is known of them without labels.

    Attributes:
        data: Images to fit on and images held out.
        patches: Responses to patches of both, leading components first.
        embedding: The graph of the images to fit on.
        near: Images to fit on that are nearest to each one held out.
        stem: Start of the names of files with clusters.
    """

    data: Data
    patches: tuple[np.ndarray, np.ndarray]
    embedding: Embedding
    near: np.ndarray
    stem: Path

    def places(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The places of both by the leading eigenvectors alone, rows of length one."""
        own = unit(self.embedding.places[:, self.embedding.order[:count]])
        return own, unit(own[self.near].mean(axis=1))

    def clusters(self, count: int) -> np.ndarray:
        """Clusters of the images to fit on, from the folder where they were found before."""
        path = self.stem.with_name(f"{self.stem.name}-{count}.npy")
        if not path.exists():
            used = min(count, OF_CLUSTERS)
            leading = replace(self.embedding, places=self.places(used)[0], order=np.arange(used))
            np.save(path.with_suffix(".part.npy"), leading.cluster(count).numbers)
            path.with_suffix(".part.npy").replace(path)
        return np.load(path)


@functools.cache
def loaded(folder: str | None, cache: Path, name: str, rows: int | None) -> Images:
    """A table with its features, from the cache where those of these images were kept."""
    data = TABLES[name](Path() if name in BUNDLED else data_folder(Given(folder=folder))).first(rows)
    mark = hashlib.sha256(b"".join([data.images.tobytes(), data.test_images.tobytes()])).hexdigest()[:16]
    path = cache / f"central-{name}-{mark}.npz"
    if not path.exists():
        model = PatchFeatures(mirrored=data.images.shape[-1] == 3).fit(data.images)  # in colour mirror images too
        patches = [model.transform(each) for each in (data.images, data.test_images)]
        embedding = embed(patches[0], eigenvectors=min(EIGENVECTORS, len(data.images) - 1))
        near = embedding.neighbours(patches[1])
        np.savez(path.with_suffix(".part.npz"), *patches, embedding.places, embedding.order, near)
        path.with_suffix(".part.npz").replace(path)
    with np.load(path) as kept:
        first, second, places, order, near = (kept[f"arr_{place}"] for place in range(5))
    return Images(data, (first, second), Embedding(places, order, None, None), near, path.with_suffix(""))


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows of length one."""
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float64)


def cells(given: Given) -> Iterator[Cell]:
    """Each way over epsilon, and once without noise."""
    for name in given.data:
        yield from (cell_of(name, way, NOISELESS, range(1)) for way in WAYS)
        yield from (cell_of(name, way, epsilon) for epsilon in given.epsilons for way in WAYS)


def cell_of(data: str, way: str, epsilon: float, draws: range | None = None) -> Cell:
    """One way to ask a curator and to learn from the answer."""
    return Cell({"data": data, "way": way, "epsilon": epsilon}, draws=draws)


def run(given: Given, cell: Cell, _: int) -> Iterator[Row]:
    """One answer, and the accuracy of what it says of the images held out."""
    images, epsilon = loaded(given.folder, given.cache, cell["data"], given.rows), cell["epsilon"]
    data, rows = images.data, len(images.data.labels)
    if cell["way"] == "names":
        numbers = images.clusters(suggested_count(rows, SPACE.size, epsilon))
        answer = Curator(data.labels, SPACE, budget=epsilon).answer(NoisyArgmax(SPACE, epsilon, numbers))
        named = np.eye(SPACE.size)[np.array(answer.points())[numbers]]
        predicted, columns = named[images.near].sum(axis=1).argmax(axis=1), len(answer.value)
    else:
        fit, held = features(images, cell["way"], epsilon)
        answer = Curator(data.labels, SPACE, budget=(epsilon, DELTA)).answer(LabelMoments(SPACE, epsilon, DELTA, fit))
        predicted, columns = MomentClassifier().fit(fit, answer).predict(held), fit.shape[1]
    yield {
        "rows": rows,
        "columns": columns,
        "certified_epsilon": answer.guarantee.epsilon,
        "delta": answer.guarantee.delta,
        "accuracy": round(100 * float((predicted == data.test_labels).mean()), 3),
    }


def features(images: Images, way: str, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Features whose moments are asked for: places in the graph, and components of patches of the same length."""
    places = images.places(suggested_eigenvectors(len(images.data.labels), SPACE.size, epsilon, DELTA))
    if way == "graph":
        return places
    patches = (unit(part[:, :COMPONENTS]) for part in images.patches)
    fit, held = (np.hstack(pair) / math.sqrt(2.0) for pair in zip(places, patches, strict=True))
    return fit, held


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Accuracy of each way on each table, and how many columns or clusters it asks about."""
    rows = frames["central_images"]
    shown = rows.assign(
        noise=rows["epsilon"].map(lambda epsilon: "no noise" if epsilon == NOISELESS else f"epsilon {epsilon:g}")
    )
    text = ["", "Test accuracy in %, means over draws, with the standard deviation over draws in parentheses."]
    text += [f"Names have no delta; moments {DELTA:g}."]
    for name, part in shown.groupby("data", sort=False):
        draws = part.loc[part["epsilon"] != NOISELESS].groupby("epsilon")["draw"].nunique()
        text += ["", f"## {name}", "", f"{part['rows'].max():,} rows; {draws.max() if len(draws) else 1} draws.", ""]
        text += pivot(part, ["way"], "accuracy", across="noise", form=".1f")
        text += ["", "Clusters, or columns of features:", ""]
        text += pivot(part.drop_duplicates(["way", "noise"]), ["way"], "columns", across="noise", form=".0f")
    return text


STUDY = Study(
    name="central_images",
    recipe="1",
    key=("data", "way", "epsilon"),
    columns=(
        *("data", "way", "epsilon", "draw", "rows", "columns", "certified_epsilon", "delta", "accuracy", "seconds"),
    ),
    cells=cells,
    run=run,
    spots=(
        Spot(cell_of("mnist", "names", 0.01), "accuracy"),
        Spot(cell_of("mnist", "graph", 0.05), "accuracy", draws=2),
    ),
)
EXPERIMENT = Experiment(
    name="central_images",
    question="How accurate is one answer of a curator about groups of images that are found by their patches?",
    studies=(STUDY,),
    page=page,
    draws=3,
    tables=(*(name for name in TABLES if name not in BUNDLED), *BUNDLED),
    usual=("mnist", "fashion-mnist", "kmnist"),
    bundled=BUNDLED,
    epsilons=(0.01, 0.05, 0.1, 0.5, 1.0),
    cached=True,
    shortened=True,
)

if __name__ == "__main__":
    main(EXPERIMENT)
