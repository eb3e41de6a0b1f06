"""Clusters of public features named from private labels: share of rows that their names label correctly, over epsilon.

clusters.md has the protocol and what the results show.
"""

import functools
import gzip
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, shown, table
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from sklearn.neural_network import MLPClassifier

from labeldp import Classes, Curator, NoisyArgmax, SubsetResponse
from labeldp.learning.cells import embed

TABLES = ("mnist", "fashion-mnist")
SPACE = Classes(range(10))
CLUSTERS = (20, 30, 50, 100, 200)
EPSILONS = {"central": (0.01, 0.02, 0.05, 0.1, 0.5), "local": (0.1, 0.2, 0.5, 1.0)}
COMPONENTS, NEIGHBOURS, EIGENVECTORS, RESTARTS = 50, 15, 30, 3
NETWORKS = (("central", 0.05, 50), ("none", np.inf, 60_000))  # what a network learns from, in the first draw
STYLES = {"central": "-", "local": "--"}


@dataclass(frozen=True)
class Groups:
    """Groups of images by their features alone. No label goes into them, so that they cost nothing.

    Attributes:
        numbers: The cluster of each training image, one line for each number of clusters.
        nearest: The nearest training images of each test image.
    """

    numbers: np.ndarray
    nearest: np.ndarray


@dataclass(frozen=True)
class Data:
    """A table, and its groups.

    Attributes:
        groups: Clusters and neighbours of images.
        images: Training and test images, shape (n, 784).
        labels: True labels of the training images; curators see them, and ``scores`` reads them at the end.
        test_labels: True labels of the test images, read to score names that are finished.
    """

    groups: Groups
    images: tuple[np.ndarray, np.ndarray]
    labels: np.ndarray
    test_labels: np.ndarray


def loaded(given: Given, name: str) -> Data:
    """A table from its published files, with groups from the cache where these images were grouped before."""
    return _loaded(name, data_folder(given), given.cache)


@functools.cache
def _loaded(name: str, folder: Path, cache: Path) -> Data:
    images = [idx(folder / name / f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 784) for part in ("train", "t10k")]
    labels = [idx(folder / name / f"{part}-labels-idx1-ubyte.gz", 8).astype(np.int64) for part in ("train", "t10k")]
    settings = repr((CLUSTERS, COMPONENTS, NEIGHBOURS, EIGENVECTORS, RESTARTS)).encode()
    mark = hashlib.sha256(b"".join([settings, *(part.tobytes() for part in images)])).hexdigest()[:16]
    path = cache / f"{name}-{mark}.npz"
    if not path.exists():
        groups = grouped(*images)
        np.savez(path.with_suffix(".part.npz"), numbers=groups.numbers, nearest=groups.nearest)
        path.with_suffix(".part.npz").replace(path)
    with np.load(path) as kept:
        return Data(Groups(kept["numbers"], kept["nearest"]), (images[0], images[1]), *labels)


def idx(path: Path, header: int) -> np.ndarray:
    """The bytes of a published file, without its header."""
    return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8)[header:]


def grouped(train: np.ndarray, test: np.ndarray, counts: Sequence[int] = CLUSTERS) -> Groups:
    """Clusters of the training images by their graph of neighbours, and neighbours of test images among them."""
    points, others = (part.astype(np.float32) for part in (train, test))
    embedding = embed(points, components=COMPONENTS, neighbours=NEIGHBOURS, eigenvectors=EIGENVECTORS)
    numbers = [embedding.cluster(count, restarts=RESTARTS).numbers for count in counts]
    return Groups(np.stack(numbers), embedding.neighbours(others))


def cells(given: Given) -> Iterator[Cell]:
    """Each table under each trust model, over epsilon."""
    for name in given.data:
        yield cell_of(name, "none", np.inf, range(1))
        for trust, epsilons in EPSILONS.items():
            yield from (cell_of(name, trust, epsilon) for epsilon in epsilons)


def cell_of(data: str, trust: str, epsilon: float, draws: range | None = None) -> Cell:
    """One epsilon, for all numbers of clusters; without privacy by the trust model "none" at infinite epsilon."""
    return Cell({"data": data, "trust": trust, "epsilon": epsilon}, draws=draws)


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """A row for each number of clusters; in the first draw also what a network learns from some names."""
    data = loaded(given, cell["data"])
    for names, numbers, row in rows_of(data, cell):
        if draw == 0 and (cell["trust"], cell["epsilon"], len(names)) in NETWORKS:
            row["network_right"] = round(float(np.mean(learned(data, names[numbers]) == data.test_labels)), 5)
        yield row


def rows_of(data: Data, cell: Cell) -> Iterator[tuple[np.ndarray, np.ndarray, Row]]:
    """Names, clusters and a row for each number of clusters; without privacy also for as many as there are rows."""
    if cell["trust"] == "none":
        single = np.arange(len(data.labels))
        data = replace(data, groups=replace(data.groups, numbers=np.vstack([data.groups.numbers, single])))
    for numbers, (names, epsilon) in zip(data.groups.numbers, named(data, cell), strict=True):
        row: Row = {
            "clusters": len(names),
            "rows": len(numbers),
            "least_rows": int(np.bincount(numbers).min()),
            "certified_epsilon": epsilon,
        }
        yield names, numbers, row | scores(data, numbers, names)


def named(data: Data, cell: Cell) -> Iterator[tuple[np.ndarray, float]]:
    """A class for each cluster, and the epsilon that it cost, for each number of clusters."""
    epsilon = cell["epsilon"]
    if cell["trust"] == "none":
        for numbers in data.groups.numbers:
            yield sums(numbers, np.eye(SPACE.size)[data.labels]).argmax(axis=1), np.inf
    elif cell["trust"] == "central":  # each number of clusters is a world of its own, in which it alone is asked
        for numbers in data.groups.numbers:
            answer = Curator(data.labels, SPACE, budget=epsilon).answer(NoisyArgmax(SPACE, epsilon, numbers))
            yield np.array(answer.points()), answer.guarantee.epsilon
    else:  # who holds a release can name any clusters with it
        release = Curator(data.labels, SPACE, budget=epsilon).randomize(SubsetResponse(SPACE, epsilon))
        vectors = release.unbiased()
        for numbers in data.groups.numbers:
            yield sums(numbers, vectors).argmax(axis=1), release.guarantee.epsilon


def sums(numbers: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The sum of the vectors of each cluster."""
    return np.stack([np.bincount(numbers, column) for column in vectors.T], axis=1)


def scores(data: Data, numbers: np.ndarray, names: np.ndarray) -> dict[str, float]:
    """Shares of rows that are named correctly by finished names; but for curators, nothing else reads true labels.

    Training rows have the name of their cluster, test rows the most common name among the nearest training rows.
    """
    given = names[numbers]
    votes = np.stack([(given[data.groups.nearest] == code).sum(axis=1) for code in range(SPACE.size)], axis=1)
    return {
        "right": round(float(np.mean(given == data.labels)), 5),
        "test_right": round(float(np.mean(votes.argmax(axis=1) == data.test_labels)), 5),
    }


def learned(data: Data, given: np.ndarray) -> np.ndarray:
    """Predictions for test images by a network that learned the names of training images.

    A tenth of the named rows tells it when to stop.
    """
    train, test = (part.astype(np.float32) / 255.0 for part in data.images)
    network = MLPClassifier(256, early_stopping=True, n_iter_no_change=3, random_state=0)
    return network.fit(train, given).predict(test)


def page(frames: dict[str, pd.DataFrame], folder: Path) -> list[str]:
    """Shares of rows that are named correctly."""
    rows = frames["clusters"]
    results = rows.iloc[np.argsort(rows["data"].map(TABLES.index), kind="stable")]
    figure(results, folder / "clusters.png")
    text = [
        "",
        "Shares of rows named correctly in %, means over draws, with the standard deviation over draws in parentheses.",
        "*Least* is the number of rows of the smallest cluster.",
    ]
    for name, part in results.groupby("data", sort=False):
        draws = part.loc[part["trust"] != "none"].groupby("trust", sort=False)["draw"].nunique()
        counts = ", ".join(f"{number} ({trust})" for trust, number in draws.items())
        text += ["", f"## {name}", "", f"{part['rows'].max():,} rows, {SPACE.size} classes; draws: {counts}."]
        text += ["", *learners(part)]
        for column, title in (("right", "training rows"), ("test_right", "test rows, by their neighbours")):
            for trust in draws.index:
                text += ["", f"### {title}, {trust}", "", *by_clusters(part, trust, column)]
    return text


def by_clusters(part: pd.DataFrame, trust: str, column: str) -> list[str]:
    """One measure under one trust model, a line for each number of clusters."""
    none = part[part["trust"] == "none"].set_index("clusters")
    part = part[part["trust"] == trust]
    epsilons = sorted(part["epsilon"].unique())
    lines = []
    for count in CLUSTERS:
        original = part[part["clusters"] == count]
        found = [shown(100 * original.loc[original["epsilon"] == epsilon, column], ".1f") for epsilon in epsilons]
        lines.append([count, none["least_rows"][count], f"{100 * none[column][count]:.1f}", *found])
    return table(["clusters", "least", "no privacy", *(f"epsilon {epsilon:g}" for epsilon in epsilons)], lines)


def learners(part: pd.DataFrame) -> list[str]:
    """Accuracy on new rows from names: by neighbours, and by a network."""
    lines = []
    for row in part[part["network_right"].notna()].itertuples():
        whole = row.clusters == row.rows
        given = "all true labels" if whole else f"{row.clusters} clusters, {row.trust}, epsilon {row.epsilon:g}"
        lines.append([given, f"{100 * row.test_right:.1f}", f"{100 * row.network_right:.1f}"])
    return table(["test rows, first draw", "by neighbours", "by a network"], lines)


def figure(results: pd.DataFrame, path: Path) -> None:
    """The share of training rows named correctly over epsilon, a column for each table."""
    names = list(dict.fromkeys(results["data"]))
    drawing = Figure(figsize=(1.0 + 4.4 * len(names), 4.6), layout="constrained")
    axes = drawing.subplots(1, len(names), squeeze=False, sharey=True)[0]
    colours = dict(zip(CLUSTERS, ("tab:blue", "tab:cyan", "tab:green", "tab:orange", "tab:red"), strict=True))
    for place, name in zip(axes, names, strict=True):
        part = results[results["data"] == name]
        for (trust, count), rows in part[part["clusters"] != part["rows"]].groupby(["trust", "clusters"]):
            if trust == "none":
                place.axhline(rows["right"].iloc[0], color=colours[count], linewidth=0.8, linestyle=":")
                continue
            found = rows.groupby("epsilon")["right"].agg(["mean", "std"])
            place.errorbar(
                *(found.index, found["mean"], found["std"].fillna(0.0)),
                color=colours[count],
                linestyle=STYLES[trust],
                marker=".",
                linewidth=1.2,
                capsize=2,
            )
        place.set_xscale("log")
        place.xaxis.set_major_formatter("{x:g}")
        place.set_title(name)
        place.set_xlabel("epsilon")
        place.grid(alpha=0.3)
    axes[0].set_ylabel("training rows named correctly")
    known = [Line2D([], [], color=colour, label=f"{count} clusters") for count, colour in colours.items()]
    known += [Line2D([], [], color="0.2", linestyle=style, label=trust) for trust, style in STYLES.items()]
    known.append(Line2D([], [], color="0.2", linestyle=":", linewidth=0.8, label="no privacy"))
    drawing.legend(handles=known, loc="outside lower center", ncols=4 if len(names) == 1 else 7, frameon=False)
    drawing.savefig(path, dpi=110)


STUDY = Study(
    name="clusters",
    recipe="1",
    key=("data", "trust", "epsilon"),
    columns=(
        *("data", "trust", "epsilon", "clusters", "draw", "rows", "least_rows"),
        *("certified_epsilon", "right", "test_right", "network_right", "seconds"),
    ),
    cells=cells,
    run=run,
    spots=(
        Spot(cell_of("mnist", "central", 0.01), "right", {"clusters": 50}),
        Spot(cell_of("mnist", "local", 0.2), "right", {"clusters": 50}),
        Spot(cell_of("mnist", "central", 0.1), "test_right", {"clusters": 200}),
    ),
)
EXPERIMENT = Experiment(
    name="clusters",
    question="How many rows do names of clusters of public features label correctly, over epsilon?",
    studies=(STUDY,),
    page=page,
    tables=TABLES,
    cached=True,
)

if __name__ == "__main__":
    main(EXPERIMENT)
