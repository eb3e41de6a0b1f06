"""Which labels occur in a cluster: precision and recall of releases, beside what no release can do.

    python experiments/association.py                      everything, in two minutes
    python experiments/association.py --draws 1            a first look
    python experiments/association.py --report-only        tables and figure from the rows at hand

The label association problem of Esfandiari et al. 2022, section 6, on made-up labels. Rows are written as they come,
and those in the file are not computed again. README.md beside this file has the protocol and what was found.
"""

import argparse
import csv
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.progress import Progress

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

LABELS = 50
SPACE = Classes(range(LABELS))
EPSILONS = (0.5, 1.0, 2.0, 4.0)
#: Labels of a cluster, and how many rows carry each of them.
WORLDS = {
    "all rows differ": [(labels, 1) for labels in (1, 2, 5, 10, 25)],
    "five labels": [(5, copies) for copies in (1, 2, 5, 10, 20, 50, 100)],
    "one label": [(1, copies) for copies in (1, 2, 5, 10, 20, 50, 100, 250)],
}
ROWS, LEAST_CLUSTERS = 10_000, 100
COLUMNS = (
    *("world", "labels", "copies", "clusters", "epsilon", "mechanism", "draw", "names"),
    *("precision", "recall", "certified_epsilon", "seconds"),
)
COLOURS = dict(
    zip(
        ("noisy argmax", "noisy histogram", "cluster response", "subset", "randomized response"),
        ("tab:purple", "tab:blue", "tab:green", "tab:orange", "tab:red"),
        strict=True,
    )
)


@dataclass(frozen=True)
class Job:
    """One release, in a world of its own."""

    world: str
    labels: int
    copies: int
    epsilon: float
    mechanism: str
    draw: int


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


def made_up(job: Job) -> tuple[np.ndarray, np.ndarray]:
    """Labels, and the cluster of each row; the same for all mechanisms and epsilons of a draw."""
    rows = job.labels * job.copies
    clusters = max(LEAST_CLUSTERS, ROWS // rows)
    rng = np.random.default_rng([job.labels, job.copies, job.draw])
    there = rng.random((clusters, LABELS)).argsort(axis=1)[:, : job.labels]
    return np.repeat(there, job.copies, axis=1).ravel(), np.repeat(np.arange(clusters), rows)


def by_cluster(release: Release, clusters: np.ndarray) -> np.ndarray:
    """The unbiased number of rows of each label in each cluster."""
    return np.stack([np.bincount(clusters, column) for column in release.unbiased().T], axis=1)


def as_released(release: Release, clusters: np.ndarray) -> np.ndarray:
    """How often each label was released in each cluster: where labels respond towards their cluster, that says more."""
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


def jobs(draws: int, epsilons: Iterable[float]) -> Iterator[Job]:
    """Everything, all of one draw before the next."""
    for draw in range(draws):
        for world, sizes in WORLDS.items():
            for labels, copies in sizes:
                for epsilon in epsilons:
                    yield from (Job(world, labels, copies, epsilon, mechanism, draw) for mechanism in MECHANISMS)


def done(job: Job) -> Iterator[dict[str, object]]:
    """A row of results for one name of each cluster, and one for as many names as it has labels."""
    labels, clusters = made_up(job)
    start = time.perf_counter()
    curator = Curator(labels, SPACE, budget=job.epsilon)
    scores = MECHANISMS[job.mechanism](curator, clusters, job.epsilon)
    seconds = time.perf_counter() - start
    count = len(scores)
    there = np.bincount(clusters * LABELS + labels, minlength=count * LABELS).reshape(count, LABELS) > 0
    best = np.argsort(-scores, axis=1, kind="stable")  # ties by the number of a label, which says nothing about it
    right = np.take_along_axis(there, best, axis=1)
    for names in {1} if job.mechanism == "noisy argmax" else sorted({1, job.labels}):
        yield {
            "world": job.world,
            "labels": job.labels,
            "copies": job.copies,
            "clusters": count,
            "epsilon": job.epsilon,
            "mechanism": job.mechanism,
            "draw": job.draw,
            "names": names,
            "precision": round(float(right[:, :names].mean()), 5),
            "recall": round(float(right[:, :names].sum() / there.sum()), 5),
            "certified_epsilon": curator.spent[0],
            "seconds": round(seconds, 4),
        }


def run(draws: int, epsilons: list[float], output: Path) -> None:
    """Do what is not in the file of results yet."""
    known = set()
    if output.exists():
        key = ["world", "labels", "copies", "epsilon", "mechanism", "draw"]
        known = set(pd.read_csv(output)[key].itertuples(index=False, name=None))
    asked = [
        job
        for job in jobs(draws, epsilons)
        if (job.world, job.labels, job.copies, job.epsilon, job.mechanism, job.draw) not in known
    ]
    with output.open("a", newline="") as file, Progress() as progress:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not file.tell():
            writer.writeheader()
        for job in progress.track(asked, description="releases"):
            writer.writerows(list(done(job)))
            file.flush()


def report(results: pd.DataFrame, folder: Path) -> None:
    """Tables in Markdown and the figure."""
    draws = results["draw"].nunique()
    text = [
        "# Results",
        "",
        "Made by `python experiments/association.py --report-only` from `association.csv`; `../README.md` says what",
        f"they mean. Precision in %, mean over draws ({draws}), with the standard deviation over draws in parentheses;",
        f"{LABELS} labels. *Guess* is precision without any release, *bound* the most that is possible, *paper* the",
        "precision at which the paper's bound is met. Where as many labels are named as there are, recall is",
        "precision, and where one is named, it is precision over labels.",
    ]
    for world, part in results.groupby("world", sort=False):
        for epsilon, rows in part.groupby("epsilon"):
            text += ["", f"## {world}, epsilon {epsilon:g}", "", *table(rows, float(epsilon))]
    (folder / "association.md").write_text("\n".join(text) + "\n")
    figure(results, folder / "association.png")


def table(rows: pd.DataFrame, epsilon: float) -> list[str]:
    """Precision by the size of clusters, for one name and for all."""
    head = ["rows of a cluster", "labels", "names", "guess", "bound", "paper", *MECHANISMS]
    text = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for (labels, copies, names), part in rows.groupby(["labels", "copies", "names"]):
        cells = part.groupby("mechanism")["precision"].agg(["mean", "std"]).fillna(0.0) * 100
        found = [
            f"{cells['mean'][name]:.1f} ({cells['std'][name]:.1f})" if name in cells.index else ""
            for name in MECHANISMS
        ]
        limits = (labels / LABELS, bound(labels, copies, epsilon), papers_bound(labels, copies, epsilon, names))
        shares = [f"{100 * limit:.1f}" for limit in limits]
        text.append(f"| {' | '.join([str(labels * copies), str(labels), str(names), *shares, *found])} |")
    return text


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


def main() -> None:
    """Read the command line, run, and report."""
    parser = argparse.ArgumentParser(description="Precision and recall of label association, beside what is possible.")
    parser.add_argument("--draws", type=int, default=5, help="draws of each kind (default: 5)")
    every = ",".join(f"{epsilon:g}" for epsilon in EPSILONS)
    parser.add_argument("--epsilons", default=every, help=f"epsilons, separated by commas (default: {every})")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results", help="folder to write to")
    parser.add_argument("--report-only", action="store_true", help="tables and figure from the rows at hand")
    asked = parser.parse_args()
    asked.results.mkdir(parents=True, exist_ok=True)
    output = asked.results / "association.csv"
    if not asked.report_only:
        run(asked.draws, [float(epsilon) for epsilon in asked.epsilons.split(",")], output)
    report(pd.read_csv(output), asked.results)
    print(f"tables, figure and rows: {asked.results}")


if __name__ == "__main__":
    main()
