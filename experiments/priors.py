"""Figure 1(b) of Ghazi et al. 2021: what priors from clusters of public features are worth, over epsilon.

    python experiments/priors.py --cache DIR               everything: clusters first, which are kept in DIR
    python experiments/priors.py --data digits --draws 1   a first look, without a folder of data
    python experiments/priors.py --report-only             tables and figure from the rows at hand

Rows are written as they come, and those in the file are not computed again. README.md beside this file has the
protocol and what was found.
"""

import argparse
import csv
import functools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import torch
from esfandiari import Data, loaded
from matplotlib.figure import Figure
from rich.progress import Progress

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
COLUMNS = ("data", "setting", "epsilon", "draw", "rows", "certified_epsilon", "accuracy", "right", "seconds")
COLOURS = {"uniform": "tab:blue", "k-means": "tab:orange", "graph": "tab:green"}
LINES = {"plain": "-", "likelihood": "--", "posterior": "--", "response": ":"}


@dataclass(frozen=True)
class Lesson:
    """What a network learns from.

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


@dataclass(frozen=True)
class Job:
    """One draw of one setting."""

    data: str
    setting: str
    epsilon: float
    draw: int


def uniform(data: Data, job: Job) -> Lesson:
    """Randomized response, which is the response with an even prior."""
    curator = Curator(data.labels, data.space, budget=job.epsilon)
    release = curator.randomize(RandomizedResponse(data.space, job.epsilon))
    return Lesson(release, "plain" if job.setting.endswith("plain") else "likelihood", curator.spent[0])


def informed(data: Data, job: Job) -> Lesson:
    """Algorithm 4: noisy counts of clusters are the prior, and labels respond with what they leave of epsilon."""
    curator = Curator(data.labels, data.space, budget=job.epsilon)
    found = cluster_prior_response(curator, groups_of(data, job), job.epsilon)
    if job.setting.endswith("plain"):
        return Lesson(whole(found), "plain", curator.spent[0])
    return Lesson(whole(found), "likelihood", curator.spent[0], found.distributions[groups_of(data, job)])


def leaning(data: Data, job: Job) -> Lesson:
    """Cluster response at its default shares, learned beside what it says of clusters."""
    curator = Curator(data.labels, data.space, budget=job.epsilon)
    found = cluster_response(curator, groups_of(data, job), job.epsilon)
    return Lesson(whole(found), "likelihood", curator.spent[0], found.distributions[groups_of(data, job)])


def nothing(data: Data, job: Job) -> Lesson:
    """All true labels, without mixup."""
    return Lesson(Release.public(data.labels, data.space), "likelihood", job.epsilon)


def whole(found: ClusterRelease) -> Release:
    """The released labels; here every row responds."""
    if found.release is None:
        raise ValueError("expected a release")
    return found.release


def groups_of(data: Data, job: Job) -> np.ndarray:
    """The cluster of each row."""
    return data.groups[GROUPS[job.setting.partition(" ")[0]]]


SETTINGS: dict[str, Callable[[Data, Job], Lesson]] = {
    "uniform plain": uniform,
    "uniform likelihood": uniform,
    "k-means prior, plain": informed,
    "k-means prior, posterior": informed,
    "graph prior, plain": informed,
    "graph prior, posterior": informed,
    "graph cluster response": leaning,
    "none": nothing,
}


def some_rows(data: Data) -> Data:
    """The first rows, with clusters that were found among all; those that have no row here are left out."""
    kept = {key: np.unique(numbers[:ROWS], return_inverse=True)[1] for key, numbers in data.groups.items()}
    scale = np.sqrt(np.mean(data.features[0] ** 2))
    features = (data.features[0][:ROWS] / scale, data.features[1] / scale)
    return Data(data.space, features, data.pixels, data.labels[:ROWS], data.test_labels, kept)


def done(data: Data, job: Job) -> dict[str, object]:
    """A row of results; nothing else reads true labels but a curator."""
    start = time.perf_counter()
    lesson = SETTINGS[job.setting](data, job)
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
        seed=job.draw,
        device="cpu",
    )
    network.fit(data.features[0], lesson.release, prior=lesson.prior)
    found, right = network.predict(data.features[1]), lesson.likeliest == data.space.encode(data.labels)
    return {
        "data": job.data,
        "setting": job.setting,
        "epsilon": job.epsilon,
        "draw": job.draw,
        "rows": len(data.labels),
        "certified_epsilon": lesson.epsilon,
        "accuracy": round(float(np.mean(found == data.test_labels)), 5),
        "right": round(float(np.mean(right)), 5),
        "seconds": round(time.perf_counter() - start, 2),
    }


def jobs(names: list[str], epsilons: list[float], draws: int) -> Iterator[Job]:
    """What is asked, all of one table before the next, and of one draw before the next."""
    for name in names:
        for draw in range(draws):
            yield Job(name, "none", np.inf, draw)
            for epsilon in epsilons:
                yield from (Job(name, setting, epsilon, draw) for setting in SETTINGS if setting != "none")


def run(names: list[str], folder: Path, cache: Path, epsilons: list[float], draws: int, output: Path) -> None:
    """Do what is not in the file of results yet."""
    known = set()
    if output.exists():
        keys = ["data", "setting", "epsilon", "draw"]
        known = set(pd.read_csv(output)[keys].itertuples(index=False, name=None))
    asked = [job for job in jobs(names, epsilons, draws) if (job.data, job.setting, job.epsilon, job.draw) not in known]
    data = {name: some_rows(loaded(name, folder, cache)) for name in dict.fromkeys(job.data for job in asked)}
    with output.open("a", newline="") as file, Progress() as progress:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not file.tell():
            writer.writeheader()
        task = progress.add_task("draws", total=len(asked))
        for job in asked:
            progress.update(task, description=f"{job.data}, epsilon {job.epsilon:g}, {job.setting}")
            writer.writerow(done(data[job.data], job))
            file.flush()
            progress.advance(task)


def report(results: pd.DataFrame, folder: Path) -> None:
    """Tables in Markdown and the figure."""
    text = [
        "# Results",
        "",
        "Made by `python experiments/priors.py --report-only` from `priors.csv`; `../README.md` says what they mean.",
        "Mean and standard deviation over draws. *Right* is the share of training rows whose",
        "likeliest class, by what is learned from, is the true one.",
    ]
    for name, part in results.groupby("data", sort=False):
        text += ["", f"## {name}", "", f"{part['rows'].max():,} rows; draws: {part['draw'].nunique()}."]
        for column, title in (("accuracy", "test accuracy, %"), ("right", "right, %")):
            cells = part.groupby(["setting", "epsilon"])[column].agg(["mean", "std"]) * 100
            epsilons = sorted(part.loc[np.isfinite(part["epsilon"]), "epsilon"].unique())
            head = [title, *(f"epsilon {each:g}" for each in epsilons)]
            text += ["", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
            for setting in SETTINGS:
                found = []
                for epsilon in epsilons:
                    key = (setting, np.inf if setting == "none" else epsilon)
                    mean, std = cells.loc[key] if key in cells.index else (np.nan, np.nan)
                    found.append((f"{mean:.1f}" + (f" ({std:.1f})" if std >= 0 else "")) if mean >= 0 else "")
                text.append(f"| {'no privacy' if setting == 'none' else setting} | {' | '.join(found)} |")
    (folder / "priors.md").write_text("\n".join(text) + "\n")
    figure(results, folder / "priors.png")


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


def main() -> None:
    """Read the command line, run, and report."""
    parser = argparse.ArgumentParser(description="What priors from clusters are worth, over epsilon.")
    parser.add_argument("--data", default=",".join(TABLES[:2]), help=f"among {', '.join(TABLES)}, by commas")
    parser.add_argument("--draws", type=int, default=3, help="releases of each kind (default: 3)")
    parser.add_argument("--epsilons", default=",".join(f"{each:g}" for each in EPSILONS), help="separated by commas")
    parser.add_argument("--cache", type=Path, help="folder for clusters (default: they are found anew)")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results", help="folder to write to")
    parser.add_argument("--report-only", action="store_true", help="tables and figure from the rows at hand")
    asked = parser.parse_args()
    names = asked.data.split(",")
    if unknown := set(names) - set(TABLES):
        sys.exit(f"expected tables among {', '.join(TABLES)}, found {', '.join(sorted(unknown))}")
    folder = os.environ.get("LABELDP_DATA")
    if folder is None and not asked.report_only and names != ["digits"]:
        sys.exit("expected a folder of data sets, found none; set LABELDP_DATA, or give --data digits")
    asked.results.mkdir(parents=True, exist_ok=True)
    output = asked.results / "priors.csv"
    if not asked.report_only:
        torch.set_num_threads(1)
        with tempfile.TemporaryDirectory() as spare:
            cache = asked.cache or Path(spare)
            cache.mkdir(parents=True, exist_ok=True)
            run(
                names,
                Path(folder or "."),
                cache,
                [float(each) for each in asked.epsilons.split(",")],
                asked.draws,
                output,
            )
    report(pd.read_csv(output), asked.results)
    print(f"tables, figure and rows: {asked.results}")


if __name__ == "__main__":
    main()
