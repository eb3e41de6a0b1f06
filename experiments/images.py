"""Networks on images from private labels (Ghazi et al. 2021, tables 4 and 5), and from trees of clusters before them.

images.md has the protocol and what the results show.
"""

import argparse
import functools
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from _images import SPACE, TABLES, Data, Moved, with_trees
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, shown, table
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from labeldp import Curator, Release, SubsetResponse, public_split
from labeldp.learning.metrics import log_likelihood
from labeldp.learning.sklearn import TreeClassifier
from labeldp.learning.stages import MultiStage
from labeldp.learning.torch import TorchClassifier, convolutional
from labeldp.privacy.channels import pair_share

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0)
EPOCHS, STEP_EPOCHS, LIKELIHOOD_EPOCHS, LONG_EPOCHS = 4, 2, 3, 12
LONGER = "tree, network, likelihood, longer"
ROWS, MOST_TIMES = 30_000, 6  # a table of fewer rows is seen so many times as often, up to six
MIXUP = 4.0
HELD_OUT, LEAST_ROWS = 0.05, 50  # share that chooses between two networks; effective rows per class for a likelihood
ALIBI, PRO = "ALIBI", "LabelDP-Pro, central with delta"
#: Accuracies in percent as printed: LP-1ST and LP-2ST by Ghazi et al. 2021, tables 4 and 5; ALIBI (Malek et al. 2021),
#: which is local and pure, and LabelDP-Pro by Ghazi et al. 2024, which has networks of its own for all.
PRINTED = {
    (block["data"].lower(), PRO if method == "LabelDP-Pro" else method): {
        at: value for at, value in zip(block["at"], values, strict=True) if not np.isnan(value)
    }
    for block in tomllib.loads((Path(__file__).parents[1] / "docs" / "papers.toml").read_text("utf-8"))["printed"]
    for method, values in block["methods"].items()
}
MARKS = {"LP-1ST": "v", "LP-2ST": "^", ALIBI: "D", PRO: "s"}


@dataclass(frozen=True)
class Way:
    """A way to release and to learn.

    Attributes:
        run: Gives results of one draw, by name.
        methods: These names.
        least: The smallest epsilon that it is asked at.
        trees: Whether it needs trees.
    """

    run: Callable[[Data, Cell, int], Iterator[dict[str, object]]]
    methods: tuple[str, ...]
    least: float = 0.0
    trees: bool = False


def network(data: Data, draw: int, epochs: int, **settings: object) -> TorchClassifier:
    """The network of all methods, which sees as many images whatever the table."""
    usual = {
        "epochs": epochs * min(MOST_TIMES, max(1, round(ROWS / len(data.images)))),
        "optimizer": "adamw",
        "learning_rate": 0.003,
        "augment": Moved(1 if data.mirrored else 2, data.mirrored),
        "channels_last": True,
        "precision": "bf16",
        "seed": draw,
    }
    return TorchClassifier(convolutional, **usual | settings)


def public(name: str, epochs: int) -> Way:
    """All true labels, declared public."""

    def run(data: Data, _: Cell, draw: int) -> Iterator[dict[str, object]]:
        model = network(data, draw, epochs, learning_rate=0.01)
        model.fit(data.images, Release.public(data.labels, SPACE))
        yield result(name, model.predict_proba(data.test_images), data, np.inf, model.n_iter_)

    return Way(run, (name,), np.inf)


def staged(name: str, stages: int, *, theirs: bool, mixup: float = MIXUP) -> Way:
    """LP-MST: as the paper does, or with subsets and the likelihood of the channel."""

    def run(data: Data, cell: Cell, draw: int) -> Iterator[dict[str, object]]:
        original = {"method": "plain", "mixup": mixup} if theirs else {"method": "likelihood"}
        learner = network(data, draw, EPOCHS, warm_start=True, **original)
        model = MultiStage(
            learner,
            cell["epsilon"],
            stages=stages,
            response="prior" if theirs else "subset",
            filter_labels=theirs,
        ).fit(data.images, curator(data, cell))
        epochs = stages * learner.epochs
        yield result(name, model.predict_proba(data.test_images), data, model.release_.guarantee.epsilon, epochs)

    return Way(run, (name,), 1.0 if theirs else 0.5)


def grown(data: Data, cell: Cell, draw: int) -> Iterator[dict[str, object]]:
    """A tree of clusters, a network on what it says, and that network after more epochs by likelihood.

    All are fitted on the same rows; the rows left out choose between the networks by their released labels.
    """
    release = curator(data, cell).randomize(SubsetResponse(SPACE, cell["epsilon"]))
    epsilon = release.guarantee.epsilon
    held, rest = public_split(len(release), [HELD_OUT, 1.0 - HELD_OUT], seed=draw)
    tree = TreeClassifier(data.trees).fit(data.leaves[rest], release[rest])
    yield result("tree", tree.predict_proba(data.test_leaves), data, epsilon, 0)
    model = network(data, draw, STEP_EPOCHS, learning_rate=0.01, warm_start=True)
    model.fit(data.images[rest], release[rest], prior=tree.predict_proba(data.leaves[rest]))
    first, before, epochs = model.predict_proba(data.test_images), model.predict_proba(data.images[held]), model.epochs
    gain = log_likelihood(release[held], before)
    yield result("tree, network", first, data, epsilon, epochs, gain)
    if effective_rows(release) < LEAST_ROWS * SPACE.size:
        yield result("tree, network, likelihood if better", first, data, epsilon, epochs, gain)
        return
    later = network(data, draw, LIKELIHOOD_EPOCHS).epochs
    model.set_params(learning_rate=0.003, epochs=later).fit(data.images[rest], release[rest])
    second, after = model.predict_proba(data.test_images), model.predict_proba(data.images[held])
    gain = log_likelihood(release[held], after)
    yield result("tree, network, likelihood", second, data, epsilon, epochs + later, gain)
    gains = np.log((release[held].likelihood() * after).sum(1)) - np.log((release[held].likelihood() * before).sum(1))
    better = gains.mean() > gains.std() / np.sqrt(len(gains))
    yield result("tree, network, likelihood if better", second if better else first, data, epsilon, epochs + later)


def longer(data: Data, cell: Cell, draw: int) -> Iterator[dict[str, object]]:
    """The network after a tree, with more epochs by likelihood, chosen by nothing."""
    release = curator(data, cell).randomize(SubsetResponse(SPACE, cell["epsilon"]))
    tree = TreeClassifier(data.trees).fit(data.leaves, release)
    model = network(data, draw, STEP_EPOCHS, learning_rate=0.01, warm_start=True)
    model.fit(data.images, release, prior=tree.predict_proba(data.leaves))
    later = network(data, draw, LONG_EPOCHS).epochs
    epochs = model.epochs + later
    model.set_params(learning_rate=0.003, epochs=later).fit(data.images, release)
    yield result(LONGER, model.predict_proba(data.test_images), data, release.guarantee.epsilon, epochs)


def effective_rows(release: Release) -> float:
    """Effective rows of a release, from its channel alone."""
    return len(release) * float(np.mean(pair_share(release.channel.membership)))


def curator(data: Data, cell: Cell) -> Curator:
    """A curator who may spend epsilon."""
    return Curator(data.labels, SPACE, budget=cell["epsilon"])


#: Ways in the order of what is asked first.
WAYS = {
    "tree": Way(
        grown, ("tree", "tree, network", "tree, network, likelihood", "tree, network, likelihood if better"), trees=True
    ),
    "none": public("no privacy", EPOCHS),
    "likelihood 1": staged("subset, likelihood", 1, theirs=False),
    "paper 2": staged("LP-2ST", 2, theirs=True),
    "paper 1": staged("LP-1ST", 1, theirs=True),
    "paper 1 without mixup": staged("LP-1ST without mixup", 1, theirs=True, mixup=0.0),
    "likelihood 2": staged("subset, likelihood, two stages", 2, theirs=False),
    "likelihood 3": staged("subset, likelihood, three stages", 3, theirs=False),
    "longer": Way(longer, (LONGER,), 2.0, trees=True),
    "none longer": public("no privacy, longer", LONG_EPOCHS),
}


def result(
    method: str, probabilities: np.ndarray, data: Data, epsilon: float, epochs: int, gain: object = None
) -> dict[str, object]:
    """The accuracy of a finished model; nothing but curators and this reads true labels."""
    return {
        "method": method,
        "rows": len(data.images),
        "epochs": epochs,
        "certified_epsilon": epsilon,
        "accuracy": round(float(np.mean(probabilities.argmax(axis=1) == data.test_labels)), 5),
        "gain": "" if gain is None else round(gain.value, 6),
        "error": "" if gain is None else round(gain.error, 6),
    }


def loaded(given: Given, name: str, *, trees: bool) -> Data:
    """A table, with trees where they are needed."""
    folder = Path() if name == "digits" else data_folder(given)
    return _with_trees(name, folder, given.cache, given.rows) if trees else _loaded(name, folder, given.rows)


@functools.cache
def _loaded(name: str, folder: Path, rows: int | None) -> Data:
    return TABLES[name](folder).first(rows)


@functools.cache
def _with_trees(name: str, folder: Path, cache: Path, rows: int | None) -> Data:
    return with_trees(name, _loaded(name, folder, rows), cache)


def cells(given: Given) -> Iterator[Cell]:
    """All tables of a way before the next way; a way says below which epsilon it is left out."""
    for way in given.ways.split(","):
        for name in given.data:
            least = WAYS[way].least
            asked = [np.inf] if np.isinf(least) else [each for each in given.epsilons if each >= least]
            yield from (cell_of(name, way, epsilon) for epsilon in asked)


def cell_of(data: str, way: str, epsilon: float) -> Cell:
    """One way to release and to learn; the first of its methods stands for all."""
    return Cell({"data": data, "epsilon": epsilon, "way": way}, (WAYS[way].methods[0],))


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """A row for each method of a way, all from one release."""
    torch.set_num_threads(1)
    way = WAYS[cell["way"]]
    yield from way.run(loaded(given, cell["data"], trees=way.trees), cell, draw)


def page(frames: dict[str, pd.DataFrame], folder: Path) -> list[str]:
    """Accuracy of each method on each table, beside what the papers print."""
    rows = frames["images"]
    results = rows.iloc[np.argsort(rows["data"].map(list(TABLES).index), kind="stable")]
    figure(results, folder / "images.png")
    text = [
        "",
        "Accuracy on the test images in %, mean over draws, with the standard deviation over draws in parentheses",
        "where there are several. Lines in italics are what the papers print.",
    ]
    for name, part in results.groupby("data", sort=False):
        epsilons = sorted({each for each in part["epsilon"] if np.isfinite(each)})
        text += ["", f"## {name}", "", f"{part['rows'].max():,} images to fit on.", ""]
        lines = []
        for method in (method for way in WAYS.values() for method in way.methods):
            original = part[part["method"] == method]
            if len(original):
                found = [
                    shown(100 * original.loc[original["epsilon"] == epsilon, "accuracy"], ".2f")
                    for epsilon in (*epsilons, np.inf)
                ]
                least, most = original["epochs"].min(), original["epochs"].max()
                count = str(least) if least == most else f"{least} to {most}"
                lines.append([method, drawn(original), count, *found])
        for (data, method), printed in PRINTED.items():
            if data == name:
                found = [f"*{printed[each]:.2f}*" if each in printed else "" for each in (*epsilons, np.inf)]
                lines.append([f"*{method}, printed*", "", "", *found])
        head = ["method", "draws", "epochs", *(f"epsilon {epsilon:g}" for epsilon in epsilons), "no privacy"]
        text += table(head, lines)
    return text


def drawn(original: pd.DataFrame) -> str:
    """Number of draws at each epsilon."""
    counts = original.groupby("epsilon").size()
    return str(counts.min()) if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"


def figure(results: pd.DataFrame, path: Path) -> None:
    """Accuracy over epsilon, a column for each table."""
    names = list(dict.fromkeys(results["data"]))
    drawing = Figure(figsize=(1.0 + 4.2 * len(names), 4.8), layout="constrained")
    places = drawing.subplots(1, len(names), squeeze=False)[0]
    there = set(results["method"])
    methods = [method for way in WAYS.values() if way.least < np.inf for method in way.methods if method in there]
    colours = {method: f"C{place}" for place, method in enumerate(methods)}
    for place, name in zip(places, names, strict=True):
        part = results[results["data"] == name]
        for method in methods:
            means = 100 * part[part["method"] == method].groupby("epsilon")["accuracy"].mean()
            place.plot(means, color=colours[method], marker=".", linewidth=1.2)
        for (data, method), printed in PRINTED.items():
            if data == name:
                shown = {epsilon: value for epsilon, value in printed.items() if np.isfinite(epsilon)}
                place.plot(list(shown), list(shown.values()), MARKS[method], color="0.3", fillstyle="none")
        none = part.loc[part["method"] == "no privacy", "accuracy"]
        if len(none):
            place.axhline(100 * none.mean(), color="0.5", linewidth=0.8, linestyle=":")
        place.set_xscale("log")
        place.set_xticks(EPSILONS, [f"{each:g}" for each in EPSILONS])
        place.minorticks_off()
        place.set_title(name)
        place.set_xlabel("epsilon")
        place.grid(alpha=0.3)
    places[0].set_ylabel("accuracy on test images, %")
    known = [Line2D([], [], color=colour, marker=".", label=method) for method, colour in colours.items()]
    known += [
        Line2D([], [], color="0.3", linestyle="", marker=mark, fillstyle="none", label=f"{method}, printed")
        for method, mark in MARKS.items()
    ]
    known.append(Line2D([], [], color="0.5", linestyle=":", linewidth=0.8, label="no privacy"))
    drawing.legend(handles=known, loc="outside lower center", ncols=max(2, 2 * len(names) - 2), frameon=False)
    drawing.savefig(path, dpi=110)


def options(parser: argparse.ArgumentParser) -> None:
    """Ways to learn."""
    parser.add_argument("--ways", default=",".join(WAYS), help="ways to learn, separated by commas (default: all)")


STUDY = Study(
    name="images",
    recipe="1",
    key=("data", "epsilon"),
    part="method",
    columns=(
        *("data", "method", "epsilon", "draw", "rows", "epochs", "certified_epsilon", "accuracy"),
        *("gain", "error", "seconds"),
    ),
    cells=cells,
    run=run,
    spots=tuple(Spot(cell_of("kmnist", "tree", epsilon), "accuracy", {"method": "tree"}) for epsilon in (0.5, 2.0)),
)
EXPERIMENT = Experiment(
    name="images",
    question="How accurate are networks on images from private labels, alone and after trees of clusters?",
    studies=(STUDY,),
    page=page,
    draws=1,
    tables=tuple(TABLES),
    usual=tuple(name for name in TABLES if name != "digits"),
    bundled=("digits",),
    epsilons=EPSILONS,
    cached=True,
    shortened=True,
    options=options,
)

if __name__ == "__main__":
    main(EXPERIMENT)
