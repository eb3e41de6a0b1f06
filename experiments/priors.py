"""Figure 1(b) of Ghazi et al. 2021: accuracy with priors from clusters of public features, over epsilon.

priors.md has the protocol and what the results show.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import torch
from _study import Cell, Experiment, Given, Row, Spot, Study, main, pivot
from esfandiari import Data
from esfandiari import loaded as all_rows
from matplotlib.figure import Figure

from labeldp import Curator, RandomizedResponse, Release, cluster_prior_response, cluster_response
from labeldp.learning.torch import TorchClassifier, mlp
from labeldp.release import ClusterRelease

TABLES = ("fashion-mnist", "mnist", "digits")
ROWS = 20_000
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
GROUPS: dict[str, int | str] = {"k-means": 100, "graph": "graph"}
EPOCHS, BATCH, RATE = 8, 256, 0.003
HELD_OUT = 0.1  # of the rows that say when likelihood alone should stop: nothing else keeps it from noise
MIXUP = 4.0  # where labels are learned as they are; the paper has 4 to 8
COLOURS = {"uniform": "tab:blue", "k-means": "tab:orange", "graph": "tab:green"}
LINES = {"plain": "-", "likelihood": "--", "posterior": "--", "response": ":"}


@dataclass(frozen=True)
class Lesson:
    """Labels and prior that a network learns from.

    Attributes:
        release: A label for each row.
        method: How it is learned.
        epsilon: What is certified of all that was drawn.
        prior: What the counts say of each row, where it is learned beside the label.
    """

    release: Release
    method: Literal["plain", "likelihood"]
    epsilon: float
    prior: np.ndarray | None = None

    @property
    def likeliest(self) -> np.ndarray:
        """The class of each row that is likeliest by what is learned from; the released one where there is no prior."""
        if self.prior is None:
            return self.release.codes
        return np.argmax(self.prior * self.release.likelihood(), axis=1)


def uniform(data: Data, cell: Cell) -> Lesson:
    """Randomized response, which is the response with an even prior."""
    curator = Curator(data.labels, data.space, budget=cell["epsilon"])
    release = curator.randomize(RandomizedResponse(data.space, cell["epsilon"]))
    return Lesson(release, "plain" if cell["setting"].endswith("plain") else "likelihood", curator.spent[0])


def informed(data: Data, cell: Cell) -> Lesson:
    """Algorithm 4: noisy counts of clusters are the prior, and labels respond with what they leave of epsilon."""
    curator = Curator(data.labels, data.space, budget=cell["epsilon"])
    found = cluster_prior_response(curator, groups_of(data, cell), cell["epsilon"])
    if cell["setting"].endswith("plain"):
        return Lesson(whole(found), "plain", curator.spent[0])
    return Lesson(whole(found), "likelihood", curator.spent[0], found.distributions[groups_of(data, cell)])


def leaning(data: Data, cell: Cell) -> Lesson:
    """Cluster response at its default shares, learned beside what it says of clusters."""
    curator = Curator(data.labels, data.space, budget=cell["epsilon"])
    found = cluster_response(curator, groups_of(data, cell), cell["epsilon"])
    return Lesson(whole(found), "likelihood", curator.spent[0], found.distributions[groups_of(data, cell)])


def nothing(data: Data, cell: Cell) -> Lesson:
    """All true labels, without mixup."""
    return Lesson(Release.public(data.labels, data.space), "likelihood", cell["epsilon"])


def whole(found: ClusterRelease) -> Release:
    """The released labels; here every row responds."""
    if found.release is None:
        raise ValueError("expected a release")
    return found.release


def groups_of(data: Data, cell: Cell) -> np.ndarray:
    """The cluster of each row."""
    return data.groups[GROUPS[cell["setting"].partition(" ")[0]]]


SETTINGS: dict[str, Callable[[Data, Cell], Lesson]] = {
    "uniform plain": uniform,
    "uniform likelihood": uniform,
    "k-means prior, plain": informed,
    "k-means prior, posterior": informed,
    "graph prior, plain": informed,
    "graph prior, posterior": informed,
    "graph cluster response": leaning,
    "none": nothing,
}


@dataclass(frozen=True)
class FirstGroups(Mapping[int | str, np.ndarray]):
    """Clusters of the first rows, found among all of them; those without a row here are left out."""

    whole: Mapping[int | str, np.ndarray]

    def __getitem__(self, key: int | str) -> np.ndarray:
        return np.unique(self.whole[key][:ROWS], return_inverse=True)[1]

    def __iter__(self) -> Iterator[int | str]:
        return iter(self.whole)

    def __len__(self) -> int:
        return len(self.whole)


def first_rows(data: Data) -> Data:
    """The first rows, with scaled features."""
    scale = np.sqrt(np.mean(data.features[0] ** 2))
    features = (data.features[0][:ROWS] / scale, data.features[1] / scale)
    return replace(data, features=features, labels=data.labels[:ROWS], groups=FirstGroups(data.groups))


def cells(given: Given) -> Iterator[Cell]:
    """Each setting of each table, over epsilon."""
    for name in given.data:
        yield cell_of(name, "none", np.inf)
        for epsilon in given.epsilons:
            yield from (cell_of(name, setting, epsilon) for setting in SETTINGS if setting != "none")


def cell_of(data: str, setting: str, epsilon: float) -> Cell:
    """One setting on a table."""
    return Cell({"data": data, "setting": setting, "epsilon": epsilon})


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """A row of results of a published table."""
    yield learned(first_rows(all_rows(given, cell["data"])), cell, draw)


def learned(data: Data, cell: Cell, draw: int) -> Row:
    """A row of results; nothing but a curator and this reads true labels."""
    torch.set_num_threads(1)
    lesson = SETTINGS[cell["setting"]](data, cell)
    bare = lesson.method == "likelihood" and lesson.prior is None
    network = TorchClassifier(
        functools.partial(mlp, data.features[0].shape[1]),
        method=lesson.method,
        epochs=EPOCHS,
        batch_size=BATCH,
        optimizer="adamw",
        learning_rate=RATE,
        mixup=MIXUP if lesson.method == "plain" else 0.0,
        held_out=HELD_OUT if bare else 0.0,
        seed=draw,
        device="cpu",
    )
    network.fit(data.features[0], lesson.release, prior=lesson.prior)
    found, right = network.predict(data.features[1]), lesson.likeliest == data.space.encode(data.labels)
    return {
        "rows": len(data.labels),
        "certified_epsilon": lesson.epsilon,
        "accuracy": round(float(np.mean(found == data.test_labels)), 5),
        "right": round(float(np.mean(right)), 5),
    }


def page(frames: dict[str, pd.DataFrame], folder: Path) -> list[str]:
    """Accuracy of each setting, and the share of training rows whose likeliest class is true."""
    results = frames["priors"]
    figure(results, folder / "priors.png")
    text = [
        "",
        "Mean and standard deviation over draws. *Right* is the share of training rows whose likeliest class, by what",
        "is learned from, is the true one.",
    ]
    order = [(setting,) for setting in SETTINGS]
    for name, part in results.groupby("data", sort=False):
        text += ["", f"## {name}", "", f"{part['rows'].max():,} rows; draws: {part['draw'].nunique()}."]
        for column, title in (("accuracy", "test accuracy, %"), ("right", "right, %")):
            text += ["", *pivot(part, ["setting"], column, order=order, title=title, scale=100, form=".1f")]
    return text


def figure(results: pd.DataFrame, path: Path) -> None:
    """Accuracy over epsilon, a panel for each table."""
    names = list(dict.fromkeys(results["data"]))
    drawing = Figure(figsize=(2.5 + 3.6 * len(names), 4.2), layout="constrained")
    for place, name in zip(drawing.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        part = results[results["data"] == name]
        cells = part.groupby(["setting", "epsilon"])["accuracy"].agg(["mean", "std"]) * 100
        for setting in SETTINGS:
            if setting == "none" or setting not in cells.index:
                continue
            first, _, last = setting.replace(",", "").partition(" ")
            style = {"color": COLOURS[first], "linestyle": LINES[last.rpartition(" ")[2]], "marker": "."}
            rows = cells.loc[setting]
            place.errorbar(rows.index, rows["mean"], rows["std"].fillna(0), label=setting, capsize=2, **style)
        place.axhline(cells.loc["none", "mean"].iloc[0], color="0.5", linewidth=1, label="no privacy")
        place.set(xscale="log", xlabel="epsilon", title=name)
        place.set_xticks(EPSILONS, [f"{each:g}" for each in EPSILONS])
        place.minorticks_off()
        place.grid(alpha=0.3)
        place.set_ylabel("test accuracy, %")
    drawing.legend(*place.get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize="small")
    drawing.savefig(path, dpi=110)


STUDY = Study(
    name="priors",
    recipe="1",
    key=("data", "setting", "epsilon"),
    columns=("data", "setting", "epsilon", "draw", "rows", "certified_epsilon", "accuracy", "right", "seconds"),
    cells=cells,
    run=run,
    spots=(
        Spot(cell_of("fashion-mnist", "k-means prior, plain", 0.5), "accuracy", draws=3),
        Spot(cell_of("fashion-mnist", "k-means prior, posterior", 0.5), "accuracy", draws=3),
        Spot(cell_of("fashion-mnist", "uniform plain", 1.0), "accuracy", draws=3),
    ),
)
EXPERIMENT = Experiment(
    name="priors",
    question="How accurate are networks with priors from clusters of public features, over epsilon?",
    studies=(STUDY,),
    page=page,
    draws=3,
    tables=TABLES,
    usual=TABLES[:2],
    bundled=("digits",),
    epsilons=EPSILONS,
    cached=True,
)

if __name__ == "__main__":
    main(EXPERIMENT)
