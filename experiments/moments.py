"""Linear heads from label moments of public features: share of test rows they name correctly, over epsilon.

moments.md has the protocol and what the results show.
"""

import functools
import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, pivot, table
from clusters import idx

from labeldp import Classes, Curator, LabelMoments
from labeldp.learning.cells import embed
from labeldp.learning.sklearn import MomentClassifier

TABLES = ("mnist", "fashion-mnist")
SPACE = Classes(range(10))
EPSILONS = (0.01, 0.05, 0.1, 0.5, 1.0)
DELTA = 1e-6
NOISELESS = 600.0  # as good as no noise at all
FEATURES = ("components", "graph")
HEADS = tuple(itertools.product(("softmax", "squared"), (False, True)))
SETTINGS = {"components": 50, "neighbours": 15, "eigenvectors": 30}


@dataclass(frozen=True)
class Data:
    """A table.

    Attributes:
        features: Training and test features of each kind, which are public.
        labels: True labels of the training rows; only curators see them.
        test_labels: True labels of the test rows, read once for each finished head.
    """

    features: dict[str, tuple[np.ndarray, np.ndarray]]
    labels: np.ndarray
    test_labels: np.ndarray


def loaded(given: Given, name: str) -> Data:
    """A table from its published files, with features from the cache where those of these images were kept."""
    return _loaded(name, data_folder(given), given.cache)


@functools.cache
def _loaded(name: str, folder: Path, cache: Path) -> Data:
    parts = ("train", "t10k")
    images = [idx(folder / name / f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 784) for part in parts]
    labels = [idx(folder / name / f"{part}-labels-idx1-ubyte.gz", 8).astype(np.int64) for part in parts]
    mark = hashlib.sha256(b"".join([repr(SETTINGS).encode(), *(part.tobytes() for part in images)])).hexdigest()[:16]
    path = cache / f"moments-{name}-{mark}.npz"
    if not path.exists():
        embedding = embed(images[0].astype(np.float32), **SETTINGS)
        components = [embedding.components.transform(part.astype(np.float32)) for part in images]
        np.savez(path.with_suffix(".part.npz"), *components, embedding.places, embedding.transform(images[1]))
        path.with_suffix(".part.npz").replace(path)
    with np.load(path) as kept:
        found = [complete(kept[f"arr_{place}"]) for place in range(4)]
    return Data({"components": (found[0], found[1]), "graph": (found[2], found[3])}, *labels)


def complete(points: np.ndarray) -> np.ndarray:
    """Rows of length one, and a column of ones, for want of an intercept."""
    scaled = points / np.linalg.norm(points, axis=1, keepdims=True)
    return np.hstack([scaled, np.ones((len(points), 1))]).astype(np.float64)


def cells(given: Given) -> Iterator[Cell]:
    """Each kind of features of each table, over epsilon, and once without noise."""
    for name in given.data:
        yield from (cell_of(name, kind, NOISELESS, range(-1, 0)) for kind in FEATURES)
        yield from (cell_of(name, kind, epsilon) for epsilon in EPSILONS for kind in FEATURES)


def cell_of(data: str, features: str, epsilon: float, draws: range | None = None) -> Cell:
    """The moments of one kind of features, for all heads; draw -1 is without noise."""
    return Cell({"data": data, "features": features, "epsilon": epsilon}, draws=draws)


def run(given: Given, cell: Cell, _: int) -> Iterator[Row]:
    """A row for each head. All heads of a draw learn from the same answer, which is charged for once."""
    data = loaded(given, cell["data"])
    features, others = data.features[cell["features"]]
    curator = Curator(data.labels, SPACE, budget=(cell["epsilon"], DELTA))
    answer = curator.answer(LabelMoments(SPACE, cell["epsilon"], DELTA, features))
    for loss, project in HEADS:
        model = MomentClassifier(loss=loss, project=project).fit(features, answer)
        yield {
            "loss": loss,
            "projected": project,
            "rows": answer.rows,
            "columns": len(answer.value),
            "certified_epsilon": answer.guarantee.epsilon,
            "delta": answer.guarantee.delta,
            "noise_deviation": round(float(answer.standard_error.max()), 4),
            "l2": float(f"{model.l2_:.4g}"),
            "test_right": round(float(np.mean(model.predict(others) == data.test_labels)), 5),
        }


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Shares of test rows that each head names correctly."""
    rows = frames["moments"]
    results = rows.iloc[np.argsort(rows["data"].map(TABLES.index), kind="stable")]
    text = [
        "",
        "Shares of test rows named correctly in %, means over draws, with the standard deviation over draws in",
        f"parentheses. Delta is {DELTA:g}. *No noise* is one draw at epsilon {NOISELESS:g}.",
    ]
    for (name, kind), part in results.groupby(["data", "features"], sort=False):
        draws = part.loc[part["draw"] >= 0, "draw"].nunique()
        about = f"{part['rows'].max():,} rows, {part['columns'].max()} columns; {draws} draws."
        noise = part.groupby("epsilon")["noise_deviation"].first()
        shown = part.assign(
            head=part["loss"] + part["projected"].map({True: ", projected", False: ""}),
            noise=part["epsilon"].map(lambda epsilon: "no noise" if epsilon == NOISELESS else f"epsilon {epsilon:g}"),
        )
        text += ["", f"## {name}, {kind}", "", about, ""]
        text += pivot(shown, ["head"], "test_right", across="noise", scale=100, form=".1f")
        text += ["", "Standard deviation of the noise:", ""]
        text += table([f"{epsilon:g}" for epsilon in noise.index], [[f"{each:.3g}" for each in noise]])
    return text


STUDY = Study(
    name="moments",
    recipe="2",  # 2: penalties allow for noise as long as in nineteen draws of twenty, before as long as on average
    key=("data", "features", "epsilon"),
    columns=(
        *("data", "features", "epsilon", "draw", "loss", "projected", "rows", "columns"),
        *("certified_epsilon", "delta", "noise_deviation", "l2", "test_right", "seconds"),
    ),
    cells=cells,
    run=run,
    spots=(
        Spot(cell_of("mnist", "graph", 0.05), "test_right", {"loss": "softmax", "projected": False}, draws=2),
        Spot(cell_of("mnist", "components", 0.01), "test_right", {"loss": "softmax", "projected": False}, 2),
    ),
)
EXPERIMENT = Experiment(
    name="moments",
    question="How many rows do linear heads from a curator's label moments name correctly, over epsilon?",
    studies=(STUDY,),
    page=page,
    draws=3,
    tables=TABLES,
    cached=True,
)

if __name__ == "__main__":
    main(EXPERIMENT)
