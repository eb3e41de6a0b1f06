"""Which labels occur in a cluster: precision and recall of releases, beside what no release can do.

The label association problem of Esfandiari et al. 2022, section 6, on made-up labels; it needs no data. association.md
has the protocol and what the results show.
"""

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from labeldp import (
    Classes,
    Curator,
    NoisyArgmax,
    NoisyHistogram,
    RandomizedResponse,
    Release,
    SubsetResponse,
    cluster_response,
)

sys.path.insert(0, str(Path(__file__).parent))  # a test imports this file alone, for its bound
from _study import Cell, Experiment, Given, Row, Spot, Study, main, shown, table

LABELS = 50
SPACE = Classes(range(LABELS))
#: Labels of a cluster, and how many rows carry each of them.
WORLDS = {
    "all rows differ": [(labels, 1) for labels in (1, 2, 5, 10, 25)],
    "five labels": [(5, copies) for copies in (1, 2, 5, 10, 20, 50, 100)],
    "one label": [(1, copies) for copies in (1, 2, 5, 10, 20, 50, 100, 250)],
}
ROWS, LEAST_CLUSTERS = 10_000, 100
COLOURS = dict(
    zip(
        ("noisy argmax", "noisy histogram", "cluster response", "subset", "randomized response"),
        ("tab:purple", "tab:blue", "tab:green", "tab:orange", "tab:red"),
        strict=True,
    )
)


def bound(labels: int, copies: int, epsilon: float, classes: int = LABELS) -> float:
    """The most precision that any epsilon-label-DP mechanism has, whatever its recall.

    Clusters have ``labels`` labels, each on ``copies`` rows, chosen uniformly among ``classes``. If one of them is
    replaced, in all its rows, by one that the cluster does not have, the data are as likely as before. So a label that
    is not there is named with a probability of at least exp(-copies epsilon) times that of one that is there, on
    average; and for every ``labels`` that are there, ``classes - labels`` are not.

    The paper's statement, precision * recall * exp(-epsilon) <= s / (K - s) for s rows that all differ, follows from
    this: its proof counts no right name below the line, and all that there could be above it.
    """
    return 1.0 / (1.0 + (classes - labels) / labels * math.exp(-copies * epsilon))


def papers_bound(labels: int, copies: int, epsilon: float, names: int) -> float:
    """The precision at which the paper's bound is met by a mechanism that names so many labels of each cluster."""
    limit = labels / (LABELS - labels) * math.exp(min(copies * epsilon, 100.0))  # of precision * recall
    return min(1.0, math.sqrt(limit * labels / names))


def made_up(cell: Cell, draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels, and the cluster of each row; the same for all mechanisms and epsilons of a draw."""
    labels, copies = cell["labels"], cell["copies"]
    clusters = max(LEAST_CLUSTERS, ROWS // (labels * copies))
    rng = np.random.default_rng([labels, copies, draw])
    there = rng.random((clusters, LABELS)).argsort(axis=1)[:, :labels]
    return np.repeat(there, copies, axis=1).ravel(), np.repeat(np.arange(clusters), labels * copies)


def by_cluster(release: Release, clusters: np.ndarray) -> np.ndarray:
    """The unbiased number of rows of each label in each cluster."""
    return np.stack([np.bincount(clusters, column) for column in release.unbiased().T], axis=1)


def as_released(release: Release, clusters: np.ndarray) -> np.ndarray:
    """Counts of released labels in each cluster, which inform more where labels respond towards their cluster."""
    size = (int(clusters[-1]) + 1) * LABELS
    return np.bincount(clusters * LABELS + release.codes, minlength=size).reshape(-1, LABELS)


def argmax_scores(curator: Curator, clusters: np.ndarray, epsilon: float) -> np.ndarray:
    """One for the label that was named."""
    return np.eye(LABELS)[curator.answer(NoisyArgmax(SPACE, epsilon, clusters)).value]


#: The score of each label in each cluster; those with the largest scores are named.
MECHANISMS: dict[str, Callable[[Curator, np.ndarray, float], np.ndarray]] = {
    "noisy argmax": argmax_scores,
    "noisy histogram": lambda curator, clusters, epsilon: (
        curator.answer(NoisyHistogram(SPACE, epsilon, clusters)).value
    ),
    "cluster response": lambda curator, clusters, epsilon: as_released(
        cluster_response(curator, clusters, epsilon).release, clusters
    ),
    "subset": lambda curator, clusters, epsilon: by_cluster(
        curator.randomize(SubsetResponse(SPACE, epsilon)), clusters
    ),
    "randomized response": lambda curator, clusters, epsilon: by_cluster(
        curator.randomize(RandomizedResponse(SPACE, epsilon)), clusters
    ),
}


def cells(given: Given) -> Iterator[Cell]:
    """Each mechanism in each world at each epsilon."""
    for world, sizes in WORLDS.items():
        for labels, copies in sizes:
            for epsilon in given.epsilons:
                for mechanism in MECHANISMS:
                    yield cell_of(world, labels, copies, epsilon, mechanism)


def cell_of(*values: object) -> Cell:
    """A cell by its values."""
    return Cell(dict(zip(KEY, values, strict=True)))


def run(_: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """A row for one name of each cluster, and one for as many names as it has labels."""
    labels, clusters = made_up(cell, draw)
    curator = Curator(labels, SPACE, budget=cell["epsilon"])
    scores = MECHANISMS[cell["mechanism"]](curator, clusters, cell["epsilon"])
    count = len(scores)
    there = np.bincount(clusters * LABELS + labels, minlength=count * LABELS).reshape(count, LABELS) > 0
    best = np.argsort(-scores, axis=1, kind="stable")  # ties by the number of a label, which says nothing about it
    right = np.take_along_axis(there, best, axis=1)
    for names in {1} if cell["mechanism"] == "noisy argmax" else sorted({1, cell["labels"]}):
        yield {
            "clusters": count,
            "names": names,
            "precision": round(float(right[:, :names].mean()), 5),
            "recall": round(float(right[:, :names].sum() / there.sum()), 5),
            "certified_epsilon": curator.spent[0],
        }


def page(frames: dict[str, pd.DataFrame], folder: Path) -> list[str]:
    """Precision by the size of clusters, in each world at each epsilon."""
    results = frames["association"]
    figure(results, folder / "association.png")
    text = [
        "",
        f"Precision in %, mean over draws ({results['draw'].nunique()}), with the standard deviation over draws in",
        f"parentheses; {LABELS} labels. *Guess* is precision without any release, *bound* the most that is possible,",
        "*paper* the precision at which the paper's bound is met. Where as many labels are named as there are, recall",
        "is precision, and where one is named, it is precision over labels.",
    ]
    for world, part in results.groupby("world", sort=False):
        for epsilon, rows in part.groupby("epsilon"):
            text += ["", f"## {world}, epsilon {epsilon:g}", "", *by_size(rows, float(epsilon))]
    return text


def by_size(rows: pd.DataFrame, epsilon: float) -> list[str]:
    """Precision for one name and for all."""
    lines = []
    for (labels, copies, names), part in rows.groupby(["labels", "copies", "names"]):
        found = {name: shown(100 * every["precision"], ".1f") for name, every in part.groupby("mechanism")}
        limits = (labels / LABELS, bound(labels, copies, epsilon), papers_bound(labels, copies, epsilon, names))
        shares = [f"{100 * limit:.1f}" for limit in limits]
        lines.append([labels * copies, labels, names, *shares, *(found.get(name, "") for name in MECHANISMS)])
    return table(["rows of a cluster", "labels", "names", "guess", "bound", "paper", *MECHANISMS], lines)


def figure(results: pd.DataFrame, path: Path) -> None:
    """Precision over the rows of a cluster, a column for each world and a line for two epsilons."""
    shown = (1.0, 4.0)
    drawing = Figure(figsize=(13.0, 7.0), layout="constrained")
    axes = drawing.subplots(len(shown), len(WORLDS), sharey=True)
    for line, epsilon in zip(axes, shown, strict=True):
        for place, (world, sizes) in zip(line, WORLDS.items(), strict=True):
            rows = [labels * copies for labels, copies in sizes]
            place.plot(rows, [bound(*size, epsilon) for size in sizes], color="black", label="bound")
            guess = [labels / LABELS for labels, _ in sizes]
            place.plot(rows, guess, color="0.6", linestyle=":", label="guess")
            part = results[(results["world"] == world) & (results["epsilon"] == epsilon)]
            part = part.assign(rows=part["labels"] * part["copies"])
            for name, colour in COLOURS.items():
                names = 1 if name == "noisy argmax" else part["labels"]
                found = part[(part["mechanism"] == name) & (part["names"] == names)]
                curve = found.groupby("rows")["precision"].agg(["mean", "std"]).fillna(0.0)
                label = f"{name}, one name" if name == "noisy argmax" else f"{name}, all names"
                place.errorbar(
                    curve.index, curve["mean"], curve["std"], color=colour, marker=".", capsize=2, label=label
                )
            place.axvline(LABELS, color="0.8", linewidth=0.8)
            place.set_xscale("log")
            place.xaxis.set_major_formatter("{x:g}")
            place.set_title(f"{world}, epsilon {epsilon:g}")
            place.grid(alpha=0.3)
    for place in axes[-1]:
        place.set_xlabel("rows of a cluster")
    for line in axes:
        line[0].set_ylabel("precision")
    drawing.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    drawing.savefig(path, dpi=90)


KEY = ("world", "labels", "copies", "epsilon", "mechanism")
STUDY = Study(
    name="association",
    recipe=lambda row: "2" if row["mechanism"] == "cluster response" else "1",  # 2: the default share of counts grew
    key=KEY,
    columns=(
        *("world", "labels", "copies", "clusters", "epsilon", "mechanism", "draw", "names"),
        *("precision", "recall", "certified_epsilon", "seconds"),
    ),
    cells=cells,
    run=run,
    spots=tuple(Spot(cell_of("one label", 1, 20, 1.0, each), "precision") for each in MECHANISMS),
)
EXPERIMENT = Experiment(
    name="association",
    question="Which labels occur in a cluster? Precision and recall of releases, beside what no release can do.",
    studies=(STUDY,),
    page=page,
    epsilons=(0.5, 1.0, 2.0, 4.0),
)

if __name__ == "__main__":
    main(EXPERIMENT)
