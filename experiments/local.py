"""Local randomizers on real tables: what a model learns from a release, over epsilon.

    python experiments/local.py                             everything; it takes the better part of an hour
    python experiments/local.py --data digits --draws 1     a first look
    python experiments/local.py --report-only               tables and figure from the rows at hand

Rows are written as they come, and those in the file are not computed again. README.md beside this file has the
protocol and what was found.
"""

import argparse
import csv
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from _data import TABLES, Data
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from rich.progress import Progress
from sklearn.cluster import KMeans
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from labeldp import (
    BitResponse,
    Curator,
    PriorResponse,
    RandomizedResponse,
    Randomizer,
    Release,
    SubsetResponse,
    best_unit_response,
)
from labeldp.learning.sklearn import ReleasedLabelClassifier, SoftmaxRegression
from labeldp.privacy.channels import pair_share

EPSILONS = (0.5, 1.0, 2.0, 4.0)
FIRST_STAGE = 0.2
LEAST = 1e-12
METHODS = ("likelihood", "unbiased", "plain")
TREE_METHODS = ("trees em", "trees plain")
COLUMNS = (
    *("data", "rows", "classes", "epsilon", "randomizer", "method", "draw"),
    *("certified_epsilon", "accuracy", "log_loss", "auc", "seconds"),
)
COLOURS = {
    "response": "tab:blue",
    "subset": "tab:red",
    "independent bits": "tab:green",
    "symmetric bits": "tab:olive",
    "prior": "tab:purple",
}
LINES = {"likelihood": "-", "unbiased": "--", "plain": ":"}


@dataclass(frozen=True)
class Job:
    """One release, and the methods that learn from it; without privacy by the randomizer "none" at infinite epsilon."""

    data: str
    epsilon: float
    randomizer: str
    draw: int
    methods: tuple[str, ...]

    def missing(self, done: set[tuple[str, float, str, int, str]]) -> tuple[str, ...]:
        """The methods of which there is no row yet."""
        key = (self.data, self.epsilon, self.randomizer, self.draw)
        return tuple(method for method in self.methods if (*key, method) not in done)


def jobs(name: str, data: Data, epsilons: list[float], draws: int, *, trees: bool) -> Iterator[Job]:
    """What is asked of a table: linear models, or trees. All of one draw come before the next."""
    for draw in range(draws):
        if draw == 0:
            yield Job(name, np.inf, "none", 0, TREE_METHODS[1:] if trees else ("likelihood", "constant"))
        for epsilon in epsilons:
            if trees:
                yield Job(name, epsilon, best(data, epsilon)[0], draw, TREE_METHODS)
                continue
            for randomizer in dict.fromkeys(("response", best(data, epsilon)[0], "independent bits", "symmetric bits")):
                yield Job(name, epsilon, randomizer, draw, METHODS)
            if data.units is None:
                yield Job(name, epsilon, "prior", draw, ("likelihood", "plain"))  # unbiased for candidates alone
            else:  # candidates for each row and shares of a unit's epsilon do not go together
                yield Job(name, epsilon, "response", draw, ("evened likelihood",))


def best(data: Data, epsilon: float) -> tuple[str, Randomizer]:
    """The randomizer of sets at its best size, by its name: with sets of one class it is randomized response."""
    most = 1 if data.units is None else int(np.unique(data.units, return_counts=True)[1].max())
    found = best_unit_response(SubsetResponse(data.space, epsilon), most)
    return ("response" if isinstance(found, RandomizedResponse) else "subset"), found


def released(data: Data, job: Job) -> tuple[np.ndarray, Release]:
    """A fresh draw: the rows that a model may learn from, and their release. Its curator spends epsilon, no more."""
    rows = np.arange(len(data.labels))
    if job.randomizer == "none":
        return rows, Release.public(data.labels, data.space)
    if job.randomizer == "prior":
        return two_stages(data, job)
    randomizer = {
        "response": RandomizedResponse(data.space, job.epsilon),
        "subset": best(data, job.epsilon)[1],
        "independent bits": BitResponse(data.space, job.epsilon, form="independent"),
        "symmetric bits": BitResponse(data.space, job.epsilon, form="symmetric"),
    }[job.randomizer]
    return rows, Curator(data.labels, data.space, budget=job.epsilon, units=data.units).randomize(randomizer)


def two_stages(data: Data, job: Job) -> tuple[np.ndarray, Release]:
    """A prior for each cluster of features from a release of some rows, and with it a release of the others.

    The rows of the two releases are disjoint, so that each label is charged for once. Rows are put in random order
    first: an account tells ranges of rows apart, and takes very scattered rows for all rows between them.
    """
    order = np.random.default_rng(job.draw).permutation(len(data.labels))
    curator = Curator(data.labels[order], data.space, budget=job.epsilon)
    first, second = slice(0, int(FIRST_STAGE * len(order))), slice(int(FIRST_STAGE * len(order)), len(order))
    cluster = KMeans(data.clusters, n_init=1, random_state=job.draw).fit_predict(data.features)[order]
    vectors = curator.randomize(SubsetResponse(data.space, job.epsilon), first).unbiased()
    members = (vectors[cluster[first] == each] for each in range(data.clusters))
    means = np.stack([(part if len(part) else vectors).mean(axis=0) for part in members])
    informed = PriorResponse(data.space, job.epsilon, on_simplex(means)[cluster[second]])
    return order[second], curator.randomize(informed, second)


def on_simplex(points: np.ndarray) -> np.ndarray:
    """The nearest distribution to each row (Duchi et al. 2008)."""
    falling = -np.sort(-points, axis=1)
    spare = (np.cumsum(falling, axis=1) - 1.0) / np.arange(1, points.shape[1] + 1)
    last = (falling > spare).sum(axis=1) - 1
    kept = np.maximum(points - spare[np.arange(len(points)), last][:, None], 0.0)
    return kept / kept.sum(axis=1, keepdims=True)


def learned(data: Data, job: Job) -> Iterator[dict[str, object]]:
    """A row of results for each method, all from one draw."""
    rows, release = released(data, job)
    for method in job.methods:
        start = time.perf_counter()
        probabilities = predicted(data, rows, release, method)
        yield {
            "data": job.data,
            "rows": len(release),
            "classes": data.space.size,
            "epsilon": job.epsilon,
            "randomizer": job.randomizer,
            "method": method,
            "draw": job.draw,
            "certified_epsilon": np.inf if release.is_public else release.guarantee.epsilon,
            "seconds": round(time.perf_counter() - start, 2),
        } | scores(data, probabilities)


def predicted(data: Data, rows: np.ndarray, release: Release, method: str) -> np.ndarray:
    """Probabilities of the classes in the rows held out, by a model that was fitted and tuned on a release alone."""
    if method == "constant":  # who knows how often each class occurs, and nothing of a row
        return np.tile(release.unbiased().mean(axis=0), (len(data.test_features), 1))
    if method in TREE_METHODS and data.columns is not None:
        trees = HistGradientBoostingClassifier(max_iter=50, random_state=0)
        model = ReleasedLabelClassifier(trees, method=method.removeprefix("trees "))
        return model.fit(data.columns[0][rows], release).predict_proba(data.columns[1])
    model, weights = SoftmaxRegression(method=method.removeprefix("evened ")), None
    if method.startswith("evened"):  # all rows count alike, whatever share of epsilon they have
        weights = 1.0 / pair_share(release.channel.membership)
    return model.fit(data.features[rows], release, weights).predict_proba(data.test_features)


def scores(data: Data, probabilities: np.ndarray) -> dict[str, float]:
    """Accuracy, log loss and mean area of a finished model; nothing else reads true test labels."""
    true = data.space.encode(data.test_labels)
    given = np.maximum(probabilities[np.arange(len(true)), true], LEAST)
    areas = [roc_auc_score(true == code, probabilities[:, code]) for code in range(data.space.size)]
    return {
        "accuracy": round(float(np.mean(probabilities.argmax(axis=1) == true)), 5),
        "log_loss": round(float(-np.log(given).mean()), 5),
        "auc": round(float(np.mean(areas)), 5),
    }


def run(names: list[str], folder: Path, epsilons: list[float], draws: int, output: Path) -> None:
    """Do what is not in the file of results yet: linear models on all tables, then trees."""
    done = set()
    if output.exists():
        keys = ("data", "epsilon", "randomizer", "draw", "method")
        done = set(pd.read_csv(output)[list(keys)].itertuples(index=False, name=None))
    loaded = {name: TABLES[name](folder) for name in names}
    asked = [job for name in names for job in jobs(name, loaded[name], epsilons, draws, trees=False)]
    for name in names:
        if loaded[name].columns is not None:
            asked += jobs(name, loaded[name], epsilons, draws, trees=True)
    asked = [replace(job, methods=missing) for job in asked if (missing := job.missing(done))]
    with output.open("a", newline="") as file, Progress() as progress:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not file.tell():
            writer.writeheader()
        task = progress.add_task("releases", total=len(asked))
        for job in asked:
            progress.update(task, description=f"{job.data}, epsilon {job.epsilon:g}, {job.randomizer}")
            writer.writerows(list(learned(loaded[job.data], job)))  # together: a release is never drawn twice
            file.flush()
            progress.advance(task)


def report(results: pd.DataFrame, folder: Path) -> None:
    """Tables in Markdown and the figure."""
    text = [
        "# Results",
        "",
        "Made by `python experiments/local.py --report-only` from `local.csv`; `../README.md` says what they mean.",
        "Means over draws, with the standard deviation over draws in parentheses. *Gain* is the log loss of who knows",
        "how often each class occurs and nothing else, less that of the model: in nats, 0 is useless, more is better.",
        "Sets of one class are randomized response: there *subset* is not listed apart.",
    ]
    for name, part in results.groupby("data", sort=False):
        text += ["", f"## {name}", "", *tables(part)]
    text += ["", "## The order", "", *differences(results)]
    (folder / "local.md").write_text("\n".join(text) + "\n")
    figure(results, folder / "local.png")


def tables(part: pd.DataFrame) -> list[str]:
    """Accuracy, gain and area of one table."""
    constant = part.loc[part["method"] == "constant", "log_loss"].mean()
    part = part.assign(gain=constant - part["log_loss"], accuracy=100 * part["accuracy"])
    draws = part.loc[part["randomizer"] != "none"].groupby("method", sort=False)["draw"].nunique()
    least = part["rows"].max()
    counts = ", ".join(f"{number} ({method})" for method, number in draws.items())
    text = [f"{least:,} rows, {part['classes'].max()} classes; draws: {counts}."]
    for column, title, form in (("accuracy", "accuracy, %", ".1f"), ("gain", "gain", ".3f"), ("auc", "area", ".3f")):
        cells = part.groupby(["randomizer", "method", "epsilon"], sort=False)[column].agg(["mean", "std"])
        epsilons = sorted(part.loc[np.isfinite(part["epsilon"]), "epsilon"].unique())
        head = [title, "method", *(f"epsilon {epsilon:g}" for epsilon in epsilons)]
        text += ["", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
        for randomizer, method in dict.fromkeys((key[0], key[1]) for key in cells.index):
            found = []
            for epsilon in [np.inf] * len(epsilons) if randomizer == "none" else epsilons:
                key = (randomizer, method, epsilon)
                spread = f" ({cells['std'][key]:{form}})" if key in cells.index and cells["std"][key] >= 0 else ""
                found.append(f"{cells['mean'][key]:{form}}{spread}" if key in cells.index else "")
            shown = "no privacy" if randomizer == "none" else randomizer
            text.append(f"| {shown} | {method} | {' | '.join(found)} |")
    return text


def differences(results: pd.DataFrame) -> list[str]:
    """Each step of the expected order as a difference of mean accuracies, with its standard error."""
    steps = (
        ("subset likelihood - symmetric bits likelihood", ("subset", "likelihood"), ("symmetric bits", "likelihood")),
        ("symmetric bits likelihood - plain", ("symmetric bits", "likelihood"), ("symmetric bits", "plain")),
        ("symmetric bits plain - response likelihood", ("symmetric bits", "plain"), ("response", "likelihood")),
        ("symmetric bits plain - response plain", ("symmetric bits", "plain"), ("response", "plain")),
        ("subset likelihood - subset plain", ("subset", "likelihood"), ("subset", "plain")),
        ("response likelihood - response plain", ("response", "likelihood"), ("response", "plain")),
        ("subset likelihood - prior likelihood", ("subset", "likelihood"), ("prior", "likelihood")),
        ("subset likelihood - prior plain", ("subset", "likelihood"), ("prior", "plain")),
    )
    groups = results.groupby(["data", "epsilon", "randomizer", "method"])["accuracy"]
    cells = groups.agg(["mean", "sem"]) * 100
    epsilons = sorted(results.loc[np.isfinite(results["epsilon"]), "epsilon"].unique())
    text = ["Differences of mean accuracies in points, with their standard errors; *subset* at its best size.", ""]
    head = ["", "data", *(f"epsilon {epsilon:g}" for epsilon in epsilons)]
    text += [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for title, *sides in steps:
        for name in dict.fromkeys(results["data"]):
            found = []
            for epsilon in epsilons:
                keys = [(name, epsilon, randomizer, method) for randomizer, method in sides]
                keys = [k if k in cells.index or k[2] != "subset" else (*k[:2], "response", k[3]) for k in keys]
                if not all(key in cells.index for key in keys) or keys[0] == keys[1]:
                    found.append("")
                    continue
                one, other = (cells.loc[key] for key in keys)
                error = np.hypot(one["sem"], other["sem"])
                found.append(f"{one['mean'] - other['mean']:+.1f}" + (f" ({error:.1f})" if error >= 0 else ""))
            if any(found):
                text.append(f"| {title} | {name} | {' | '.join(found)} |")
    return text


def figure(results: pd.DataFrame, path: Path) -> None:
    """Accuracy and area over epsilon, a column for each table."""
    names = list(dict.fromkeys(results["data"]))
    drawing = Figure(figsize=(1.5 + 2.7 * len(names), 6.4), layout="constrained")
    axes = drawing.subplots(2, len(names), squeeze=False, sharex=True)
    for row, measure, title in zip(axes, ("accuracy", "auc"), ("accuracy", "area under the curve"), strict=True):
        for place, name in zip(row, names, strict=True):
            part = results[results["data"] == name]
            found = part.groupby(["randomizer", "method", "epsilon"])[measure].mean()
            for randomizer, method in dict.fromkeys((key[0], key[1]) for key in found.index):
                means = found[randomizer, method]
                if randomizer == "subset":  # where the best sets have one class, it goes on as randomized response
                    means = means.combine_first(found["response", method])
                if randomizer == "none":
                    if method == "likelihood":
                        place.axhline(means.iloc[0], color="0.5", linewidth=1)
                elif method in LINES:
                    place.plot(
                        means.sort_index(),
                        color=COLOURS[randomizer],
                        linestyle=LINES[method],
                        marker=".",
                        linewidth=1.2,
                    )
            place.set_xscale("log", base=2)
            place.xaxis.set_major_formatter("{x:g}")
            place.grid(alpha=0.3)
        row[0].set_ylabel(f"{title}, held-out rows")
    for place, name in zip(axes[0], names, strict=True):
        place.set_title(name)
    for place in axes[1]:
        place.set_xlabel("epsilon")
    known = [Line2D([], [], color=colour, label=name) for name, colour in COLOURS.items()]
    known += [Line2D([], [], color="0.2", linestyle=line, label=name) for name, line in LINES.items()]
    known.append(Line2D([], [], color="0.5", label="no privacy"))
    drawing.legend(handles=known, loc="outside lower center", ncols=min(9, 2 * len(names) + 1), frameon=False)
    drawing.savefig(path, dpi=110)


def main() -> None:
    """Read the command line, run, and report."""
    parser = argparse.ArgumentParser(description="What a model learns from local randomizers, over epsilon.")
    parser.add_argument("--data", default=",".join(TABLES), help="tables, separated by commas (default: all)")
    parser.add_argument("--draws", type=int, default=5, help="releases of each kind (default: 5)")
    parser.add_argument("--epsilons", default=",".join(f"{each:g}" for each in EPSILONS), help="separated by commas")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results", help="folder to write to")
    parser.add_argument("--report-only", action="store_true", help="tables and figure from the rows at hand")
    asked = parser.parse_args()
    names = asked.data.split(",")
    if unknown := set(names) - set(TABLES):
        sys.exit(f"expected tables among {', '.join(TABLES)}, found {', '.join(sorted(unknown))}")
    folder = os.environ.get("LABELDP_DATA")
    if folder is None and not asked.report_only and names != ["digits"]:
        print("LABELDP_DATA names no folder of data sets: digits only")
        names = ["digits"]
    asked.results.mkdir(parents=True, exist_ok=True)
    output = asked.results / "local.csv"
    if not asked.report_only:
        run(names, Path(folder or "."), [float(each) for each in asked.epsilons.split(",")], asked.draws, output)
    rows = pd.read_csv(output)
    places = rows["data"].map(list(TABLES).index) + 0.5 * rows["method"].isin(TREE_METHODS)  # whatever came first
    report(rows.iloc[np.argsort(places, kind="stable")], asked.results)
    print(f"tables, figure and rows: {asked.results}")


if __name__ == "__main__":
    main()
