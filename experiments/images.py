"""Networks on images from private labels (Ghazi et al. 2021, tables 4 and 5), and from trees of clusters before them.

    python experiments/images.py --cache DIR                 everything: trees first, which are kept in DIR
    python experiments/images.py --data mnist --draws 1      a first look
    python experiments/images.py --report-only               tables and figure from the rows at hand

Rows are written as they come, and those in the file are not computed again. README.md beside this file has the
protocol and what was found.
"""

import argparse
import csv
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from _images import SPACE, TABLES, Data, Moved, with_trees
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from rich.progress import Progress

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
HELD_OUT, CLEAN_ROWS = 0.05, 50  # rows that choose between two networks; clean rows for each class to fit by likelihood
COLUMNS = (
    *("data", "method", "epsilon", "draw", "rows", "epochs", "certified_epsilon", "accuracy"),
    *("gain", "error", "seconds"),
)
#: Accuracies in percent that Ghazi et al. 2021 print, tables 4 and 5.
PRINTED = {
    ("mnist", "LP-1ST"): {1.0: 95.34, 2.0: 98.16, 3.0: 98.81, 4.0: 99.08, np.inf: 99.33},
    ("mnist", "LP-2ST"): {1.0: 95.82, 2.0: 98.78, 3.0: 99.14, 4.0: 99.24},
    ("fashion-mnist", "LP-1ST"): {1.0: 80.78, 2.0: 90.18, 3.0: 92.52, 4.0: 93.50, np.inf: 94.28},
    ("fashion-mnist", "LP-2ST"): {1.0: 83.26, 2.0: 91.24, 3.0: 93.18, 4.0: 94.10},
    ("kmnist", "LP-1ST"): {1.0: 76.56, 2.0: 92.04, 3.0: 95.86, 4.0: 96.86, np.inf: 98.33},
    ("kmnist", "LP-2ST"): {1.0: 81.26, 2.0: 93.72, 3.0: 97.19, 4.0: 97.83},
    ("mnist", "best at a pure epsilon"): {0.2: 39.0, 0.5: 90.6},
    ("fashion-mnist", "best at a pure epsilon"): {0.2: 51.3, 0.5: 72.4},
}


@dataclass(frozen=True)
class Job:
    """A draw at one epsilon, for one way to release and to learn."""

    data: str
    way: str
    epsilon: float
    draw: int


@dataclass(frozen=True)
class Way:
    """A way to release and to learn.

    Attributes:
        run: Gives results of one draw, by name.
        methods: These names.
        least: The smallest epsilon that it is asked at.
        trees: Whether it needs trees.
    """

    run: Callable[[Data, Job], Iterator[dict[str, object]]]
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

    def run(data: Data, job: Job) -> Iterator[dict[str, object]]:
        model = network(data, job.draw, epochs, learning_rate=0.01)
        model.fit(data.images, Release.public(data.labels, SPACE))
        yield result(name, model.predict_proba(data.test_images), data, np.inf, model.n_iter_)

    return Way(run, (name,), np.inf)


def staged(name: str, stages: int, *, theirs: bool) -> Way:
    """LP-MST: as the paper does, or with subsets and the likelihood of the channel."""

    def run(data: Data, job: Job) -> Iterator[dict[str, object]]:
        original = {"method": "plain", "mixup": MIXUP} if theirs else {"method": "likelihood"}
        learner = network(data, job.draw, EPOCHS, warm_start=True, **original)
        model = MultiStage(
            learner,
            job.epsilon,
            stages=stages,
            response="prior" if theirs else "subset",
            filter_labels=theirs,
        ).fit(data.images, curator(data, job))
        epochs = stages * learner.epochs
        yield result(name, model.predict_proba(data.test_images), data, model.release_.guarantee.epsilon, epochs)

    return Way(run, (name,), 1.0 if theirs else 0.5)


def grown(data: Data, job: Job) -> Iterator[dict[str, object]]:
    """A tree of clusters, a network on what it says, and that network after more epochs by likelihood.

    All are fitted on the same rows; the rows left out choose between the networks by their released labels.
    """
    release = curator(data, job).randomize(SubsetResponse(SPACE, job.epsilon))
    epsilon = release.guarantee.epsilon
    held, rest = public_split(len(release), [HELD_OUT, 1.0 - HELD_OUT], seed=job.draw)
    tree = TreeClassifier(data.trees).fit(data.leaves[rest], release[rest])
    yield result("tree", tree.predict_proba(data.test_leaves), data, epsilon, 0)
    model = network(data, job.draw, STEP_EPOCHS, learning_rate=0.01, warm_start=True)
    model.fit(data.images[rest], release[rest], prior=tree.predict_proba(data.leaves[rest]))
    first, before, epochs = model.predict_proba(data.test_images), model.predict_proba(data.images[held]), model.epochs
    told = log_likelihood(release[held], before)
    yield result("tree, network", first, data, epsilon, epochs, told)
    if effective_rows(release) < CLEAN_ROWS * SPACE.size:
        yield result("tree, network, likelihood if better", first, data, epsilon, epochs, told)
        return
    later = network(data, job.draw, LIKELIHOOD_EPOCHS).epochs
    model.set_params(learning_rate=0.003, epochs=later).fit(data.images[rest], release[rest])
    second, after = model.predict_proba(data.test_images), model.predict_proba(data.images[held])
    told = log_likelihood(release[held], after)
    yield result("tree, network, likelihood", second, data, epsilon, epochs + later, told)
    gains = np.log((release[held].likelihood() * after).sum(1)) - np.log((release[held].likelihood() * before).sum(1))
    better = gains.mean() > gains.std() / np.sqrt(len(gains))
    yield result("tree, network, likelihood if better", second if better else first, data, epsilon, epochs + later)


def longer(data: Data, job: Job) -> Iterator[dict[str, object]]:
    """The same network with more epochs by likelihood, chosen by nothing."""
    release = curator(data, job).randomize(SubsetResponse(SPACE, job.epsilon))
    tree = TreeClassifier(data.trees).fit(data.leaves, release)
    model = network(data, job.draw, STEP_EPOCHS, learning_rate=0.01, warm_start=True)
    model.fit(data.images, release, prior=tree.predict_proba(data.leaves))
    later = network(data, job.draw, LONG_EPOCHS).epochs
    epochs = model.epochs + later
    model.set_params(learning_rate=0.003, epochs=later).fit(data.images, release)
    yield result(LONGER, model.predict_proba(data.test_images), data, release.guarantee.epsilon, epochs)


def effective_rows(release: Release) -> float:
    """How many rows without noise a release is worth, from its channel alone."""
    return len(release) * float(np.mean(pair_share(release.channel.membership)))


def curator(data: Data, job: Job) -> Curator:
    """Who holds the labels, and may spend epsilon on them."""
    return Curator(data.labels, SPACE, budget=job.epsilon)


#: Ways in the order of what is asked first.
WAYS = {
    "tree": Way(
        grown, ("tree", "tree, network", "tree, network, likelihood", "tree, network, likelihood if better"), trees=True
    ),
    "none": public("no privacy", EPOCHS),
    "likelihood 1": staged("subset, likelihood", 1, theirs=False),
    "paper 2": staged("LP-2ST", 2, theirs=True),
    "paper 1": staged("LP-1ST", 1, theirs=True),
    "likelihood 2": staged("subset, likelihood, two stages", 2, theirs=False),
    "likelihood 3": staged("subset, likelihood, three stages", 3, theirs=False),
    "longer": Way(longer, (LONGER,), 2.0, trees=True),
    "none longer": public("no privacy, longer", LONG_EPOCHS),
}


def result(
    method: str, probabilities: np.ndarray, data: Data, epsilon: float, epochs: int, told: object = None
) -> dict[str, object]:
    """The accuracy of a finished model; nothing but curators and this reads true labels."""
    return {
        "method": method,
        "rows": len(data.images),
        "epochs": epochs,
        "certified_epsilon": epsilon,
        "accuracy": round(float(np.mean(probabilities.argmax(axis=1) == data.test_labels)), 5),
        "gain": "" if told is None else round(told.value, 6),
        "error": "" if told is None else round(told.error, 6),
    }


def jobs(names: list[str], ways: list[str], epsilons: list[float], draws: int) -> Iterator[Job]:
    """What is asked: all of one draw before the next, and all tables of a way before the next way."""
    for draw in range(draws):
        for way in ways:
            for name in names:
                least = WAYS[way].least
                asked = [np.inf] if np.isinf(least) else [each for each in epsilons if each >= least]
                yield from (Job(name, way, epsilon, draw) for epsilon in asked)


def run(asked: list[Job], folder: Path, cache: Path, output: Path) -> None:
    """Do what is not in the file of results yet."""
    known: set[tuple[object, ...]] = set()
    if output.exists():
        rows = pd.read_csv(output)
        known = set(rows[["data", "method", "epsilon", "draw"]].itertuples(index=False, name=None))
    missing = [job for job in asked if (job.data, WAYS[job.way].methods[0], job.epsilon, job.draw) not in known]
    loaded: dict[str, Data] = {}
    with output.open("a", newline="") as file, Progress() as progress:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not file.tell():
            writer.writeheader()
        task = progress.add_task("draws", total=len(missing))
        for job in missing:
            progress.update(task, description=f"{job.data}, epsilon {job.epsilon:g}, {job.way}")
            if job.data not in loaded:
                loaded[job.data] = TABLES[job.data](folder)
            if WAYS[job.way].trees and not loaded[job.data].trees:
                loaded[job.data] = with_trees(job.data, loaded[job.data], cache)
            start, told = time.perf_counter(), []
            for found in WAYS[job.way].run(loaded[job.data], job):
                shared = {"data": job.data, "epsilon": job.epsilon, "draw": job.draw}
                told.append(shared | found | {"seconds": round(time.perf_counter() - start, 1)})
            writer.writerows(told)  # together: a release is never drawn twice
            file.flush()
            progress.advance(task)


def report(results: pd.DataFrame, folder: Path) -> None:
    """Tables in Markdown and the figure."""
    text = [
        "# Results",
        "",
        "Made by `python experiments/images.py --report-only` from `images.csv`; `../README.md` says what they mean.",
        "Accuracy on the test images in %, mean over draws, with the standard deviation over draws in parentheses",
        "where there are several. Lines in italics are what the papers print.",
    ]
    for name, part in results.groupby("data", sort=False):
        epsilons = sorted({each for each in part["epsilon"] if np.isfinite(each)})
        text += ["", f"## {name}", "", f"{part['rows'].max():,} images to fit on.", ""]
        head = ["method", "draws", "epochs", *(f"epsilon {epsilon:g}" for epsilon in epsilons), "no privacy"]
        text += [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
        for method in (method for way in WAYS.values() for method in way.methods):
            original = part[part["method"] == method]
            if len(original):
                cells = [
                    shown_cell(original.loc[original["epsilon"] == epsilon, "accuracy"])
                    for epsilon in (*epsilons, np.inf)
                ]
                least, most = original["epochs"].min(), original["epochs"].max()
                count = str(least) if least == most else f"{least} to {most}"
                text.append(f"| {' | '.join([method, drawn(own), count, *cells])} |")
        for (table, method), printed in PRINTED.items():
            if table == name:
                cells = [f"*{printed[each]:.2f}*" if each in printed else "" for each in (*epsilons, np.inf)]
                text.append(f"| *{method}, printed* | | | {' | '.join(cells)} |")
    (folder / "images.md").write_text("\n".join(text) + "\n")
    figure(results, folder / "images.png")


def drawn(original: pd.DataFrame) -> str:
    """How many draws there are at each epsilon."""
    counts = original.groupby("epsilon").size()
    return str(counts.min()) if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"


def shown_cell(accuracies: pd.Series) -> str:
    """A mean and a deviation in percent."""
    if not len(accuracies):
        return ""
    spread = f" ({100 * accuracies.std():.2f})" if len(accuracies) > 1 else ""
    return f"{100 * accuracies.mean():.2f}{spread}"


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
        for (table, method), printed in PRINTED.items():
            if table == name:
                mark = {"LP-1ST": "v", "LP-2ST": "^"}.get(method, "D")
                shown = {epsilon: value for epsilon, value in printed.items() if np.isfinite(epsilon)}
                place.plot(list(shown), list(shown.values()), mark, color="0.3", fillstyle="none")
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
    marks = (("v", "LP-1ST, printed"), ("^", "LP-2ST, printed"), ("D", "best at a pure epsilon, printed"))
    known += [Line2D([], [], color="0.3", linestyle="", marker=m, fillstyle="none", label=label) for m, label in marks]
    known.append(Line2D([], [], color="0.5", linestyle=":", linewidth=0.8, label="no privacy"))
    drawing.legend(handles=known, loc="outside lower center", ncols=max(2, 2 * len(names) - 2), frameon=False)
    drawing.savefig(path, dpi=110)


def main() -> None:
    """Read the command line, run, and report."""
    parser = argparse.ArgumentParser(description="Networks on images from private labels, over epsilon.")
    usual = [name for name in TABLES if name != "digits"]
    parser.add_argument("--data", default=",".join(usual), help=f"tables among {', '.join(TABLES)}, by commas")
    parser.add_argument("--ways", default=",".join(WAYS), help="ways to learn, separated by commas (default: all)")
    parser.add_argument("--epsilons", default=",".join(f"{each:g}" for each in EPSILONS), help="separated by commas")
    parser.add_argument("--draws", type=int, default=1, help="draws of each kind (default: 1)")
    kept = Path(tempfile.gettempdir()) / "labeldp-images"
    parser.add_argument("--cache", type=Path, default=kept, help="folder to keep trees in")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results", help="folder to write to")
    parser.add_argument("--report-only", action="store_true", help="tables and figure from the rows at hand")
    asked = parser.parse_args()
    names, ways = asked.data.split(","), asked.ways.split(",")
    for found, known in ((names, TABLES), (ways, WAYS)):
        if unknown := set(found) - set(known):
            sys.exit(f"expected some of {', '.join(known)}, found {', '.join(sorted(unknown))}")
    folder = os.environ.get("LABELDP_DATA")
    if folder is None and not asked.report_only and names != ["digits"]:
        sys.exit("LABELDP_DATA names no folder of data sets")
    torch.set_num_threads(1)
    asked.results.mkdir(parents=True, exist_ok=True)
    asked.cache.mkdir(parents=True, exist_ok=True)
    output = asked.results / "images.csv"
    if not asked.report_only:
        epsilons = [float(each) for each in asked.epsilons.split(",")]
        run(list(jobs(names, ways, epsilons, asked.draws)), Path(folder or "."), asked.cache, output)
    rows = pd.read_csv(output)
    report(rows.iloc[np.argsort(rows["data"].map(list(TABLES).index), kind="stable")], asked.results)
    print(f"tables, figure and rows: {asked.results}")


if __name__ == "__main__":
    main()
