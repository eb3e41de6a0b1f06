"""Clusters of public features named from private labels: how many rows their names label rightly, over epsilon.

    python experiments/clusters.py --cache DIR               everything: clusters first, which are kept in DIR
    python experiments/clusters.py --data mnist --draws 1    a first look
    python experiments/clusters.py --report-only             tables and figure from the rows at hand

Rows are written as they come, and those in the file are not computed again. README.md beside this file has the
protocol and what was found.
"""

import argparse
import csv
import gzip
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from rich.progress import Progress
from sklearn.neural_network import MLPClassifier

from labeldp import Classes, Curator, NoisyArgmax, SubsetResponse
from labeldp.learning.cells import embed

TABLES = ("mnist", "fashion-mnist")
SPACE = Classes(range(10))
CLUSTERS = (20, 30, 50, 100, 200)
EPSILONS = {"central": (0.01, 0.02, 0.05, 0.1, 0.5), "local": (0.1, 0.2, 0.5, 1.0)}
COMPONENTS, NEIGHBOURS, EIGENVECTORS, RESTARTS = 50, 15, 30, 3
COLUMNS = (
    *("data", "trust", "epsilon", "clusters", "draw", "rows", "least_rows"),
    *("certified_epsilon", "right", "test_right", "network_right", "seconds"),
)
NETWORKS = (("central", 0.05, 50), ("none", np.inf, 60_000))  # what a network learns from, in the first draw
STYLES = {"central": "-", "local": "--"}


@dataclass(frozen=True)
class Groups:
    """What the features alone give. No label goes into it, so that it costs nothing.

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


@dataclass(frozen=True)
class Job:
    """A draw at one epsilon, for all numbers of clusters; without privacy by the trust "none" at infinite epsilon."""

    data: str
    trust: str
    epsilon: float
    draw: int


def loaded(name: str, folder: Path, cache: Path) -> Data:
    """A table from its published files, with groups from the cache where these very images were grouped before."""
    images = [idx(folder / name / f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 784) for part in ("train", "t10k")]
    labels = [idx(folder / name / f"{part}-labels-idx1-ubyte.gz", 8).astype(np.int64) for part in ("train", "t10k")]
    settings = repr((CLUSTERS, COMPONENTS, NEIGHBOURS, EIGENVECTORS, RESTARTS)).encode()
    mark = hashlib.sha256(b"".join([settings, *(part.tobytes() for part in images)])).hexdigest()[:16]
    path = cache / f"{name}-{mark}.npz"
    if not path.exists():
        start = time.perf_counter()
        groups = grouped(*images)
        np.savez(path.with_suffix(".part.npz"), numbers=groups.numbers, nearest=groups.nearest)
        path.with_suffix(".part.npz").replace(path)
        print(f"{name}: graph and clusters took {time.perf_counter() - start:.0f} seconds")
    with np.load(path) as kept:
        return Data(Groups(kept["numbers"], kept["nearest"]), (images[0], images[1]), *labels)


def idx(path: Path, header: int) -> np.ndarray:
    """The bytes of a published file, without its header."""
    return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8)[header:]


def grouped(train: np.ndarray, test: np.ndarray) -> Groups:
    """Clusters of the training images by their graph of neighbours, and neighbours of test images among them."""
    points, others = (part.astype(np.float32) for part in (train, test))
    embedding = embed(points, components=COMPONENTS, neighbours=NEIGHBOURS, eigenvectors=EIGENVECTORS)
    numbers = [embedding.cluster(count, restarts=RESTARTS).numbers for count in CLUSTERS]
    return Groups(np.stack(numbers), embedding.neighbours(others))


def jobs(name: str, draws: int) -> Iterator[Job]:
    """What is asked of a table. All of one draw come before the next."""
    yield Job(name, "none", np.inf, 0)
    for draw in range(draws):
        for trust, epsilons in EPSILONS.items():
            yield from (Job(name, trust, epsilon, draw) for epsilon in epsilons)


def done(data: Data, job: Job) -> Iterator[dict[str, object]]:
    """A row of results for each number of clusters; without privacy also for as many as there are rows."""
    start, single = time.perf_counter(), np.arange(len(data.labels))
    if job.trust == "none":
        data = replace(data, groups=replace(data.groups, numbers=np.vstack([data.groups.numbers, single])))
    for numbers, (names, epsilon) in zip(data.groups.numbers, named(data, job), strict=True):
        seconds = time.perf_counter() - start
        row: dict[str, object] = {
            "data": job.data,
            "trust": job.trust,
            "epsilon": job.epsilon,
            "clusters": len(names),
            "draw": job.draw,
            "rows": len(numbers),
            "least_rows": int(np.bincount(numbers).min()),
            "certified_epsilon": epsilon,
            "seconds": round(seconds, 3),
        } | scores(data, numbers, names)
        if job.draw == 0 and (job.trust, job.epsilon, len(names)) in NETWORKS:
            row["network_right"] = round(float(np.mean(learned(data, names[numbers]) == data.test_labels)), 5)
        yield row
        start = time.perf_counter()


def named(data: Data, job: Job) -> Iterator[tuple[np.ndarray, float]]:
    """A class for each cluster, and the epsilon that it cost, for each number of clusters."""
    if job.trust == "none":
        for numbers in data.groups.numbers:
            yield sums(numbers, np.eye(SPACE.size)[data.labels]).argmax(axis=1), np.inf
    elif job.trust == "central":  # each number of clusters is a world of its own, in which it alone is asked
        for numbers in data.groups.numbers:
            answer = Curator(data.labels, SPACE, budget=job.epsilon).answer(NoisyArgmax(SPACE, job.epsilon, numbers))
            yield np.array(answer.points()), answer.guarantee.epsilon
    else:  # who holds a release can name any clusters with it
        release = Curator(data.labels, SPACE, budget=job.epsilon).randomize(SubsetResponse(SPACE, job.epsilon))
        vectors = release.unbiased()
        for numbers in data.groups.numbers:
            yield sums(numbers, vectors).argmax(axis=1), release.guarantee.epsilon


def sums(numbers: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The sum of the vectors of each cluster."""
    return np.stack([np.bincount(numbers, column) for column in vectors.T], axis=1)


def scores(data: Data, numbers: np.ndarray, names: np.ndarray) -> dict[str, float]:
    """Shares of rows that are named rightly by finished names; but for curators, nothing else reads true labels.

    Training rows have the name of their cluster, test rows the most common name among the nearest training rows.
    """
    given = names[numbers]
    votes = np.stack([(given[data.groups.nearest] == code).sum(axis=1) for code in range(SPACE.size)], axis=1)
    return {
        "right": round(float(np.mean(given == data.labels)), 5),
        "test_right": round(float(np.mean(votes.argmax(axis=1) == data.test_labels)), 5),
    }


def learned(data: Data, given: np.ndarray) -> np.ndarray:
    """What a network that learned the given names of training images says of test images.

    A tenth of the named rows tells it when to stop.
    """
    train, test = (part.astype(np.float32) / 255.0 for part in data.images)
    network = MLPClassifier(256, early_stopping=True, n_iter_no_change=3, random_state=0)
    return network.fit(train, given).predict(test)


def run(names: list[str], folder: Path, cache: Path, draws: int, output: Path) -> None:
    """Do what is not in the file of results yet."""
    known = set()
    if output.exists():
        rows = pd.read_csv(output)
        known = set(rows[["data", "trust", "epsilon", "draw"]].itertuples(index=False, name=None))
    with output.open("a", newline="") as file, Progress() as progress:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not file.tell():
            writer.writeheader()
        for name in names:
            asked = [job for job in jobs(name, draws) if (name, job.trust, job.epsilon, job.draw) not in known]
            data = loaded(name, folder, cache) if asked else None
            for job in progress.track(asked, description=name):
                writer.writerows(list(done(data, job)))  # together: a release is never drawn twice
                file.flush()


def report(results: pd.DataFrame, folder: Path) -> None:
    """Tables in Markdown and the figure."""
    text = [
        "# Results",
        "",
        "Made by `python experiments/clusters.py --report-only` from `clusters.csv`; `../README.md` says what they",
        "mean. Shares of rows named rightly in %, means over draws, with the standard deviation over draws in",
        "parentheses. *Least* is the number of rows of the smallest cluster.",
    ]
    for name, part in results.groupby("data", sort=False):
        draws = part.loc[part["trust"] != "none"].groupby("trust", sort=False)["draw"].nunique()
        counts = ", ".join(f"{number} ({trust})" for trust, number in draws.items())
        text += ["", f"## {name}", "", f"{part['rows'].max():,} rows, {SPACE.size} classes; draws: {counts}."]
        text += ["", *learners(part)]
        for column, title in (("right", "training rows"), ("test_right", "test rows, by their neighbours")):
            for trust in draws.index:
                text += ["", f"### {title}, {trust}", "", *table(part, trust, column)]
    (folder / "clusters.md").write_text("\n".join(text) + "\n")
    figure(results, folder / "clusters.png")


def table(part: pd.DataFrame, trust: str, column: str) -> list[str]:
    """One measure under one trust model, a line for each number of clusters."""
    none = part[part["trust"] == "none"].set_index("clusters")
    cells = part[part["trust"] == trust].groupby(["clusters", "epsilon"])[column].agg(["mean", "std"]) * 100
    epsilons = sorted({epsilon for _, epsilon in cells.index})
    head = ["clusters", "least", "no privacy", *(f"epsilon {epsilon:g}" for epsilon in epsilons)]
    text = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for count in CLUSTERS:
        found = [f"{mean:.1f} ({std:.1f})" for mean, std in cells.loc[count].itertuples(index=False)]
        best = f"{100 * none[column][count]:.1f}"
        text.append(f"| {' | '.join([str(count), str(none['least_rows'][count]), best, *found])} |")
    return text


def learners(part: pd.DataFrame) -> list[str]:
    """What names are worth for new rows: by neighbours, and by a network."""
    text = ["| test rows, first draw | by neighbours | by a network |", "| --- | --- | --- |"]
    for row in part[part["network_right"].notna()].itertuples():
        whole = row.clusters == row.rows
        given = "all true labels" if whole else f"{row.clusters} clusters, {row.trust}, epsilon {row.epsilon:g}"
        text.append(f"| {given} | {100 * row.test_right:.1f} | {100 * row.network_right:.1f} |")
    return text


def figure(results: pd.DataFrame, path: Path) -> None:
    """The share of training rows named rightly over epsilon, a column for each table."""
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
    axes[0].set_ylabel("training rows named rightly")
    known = [Line2D([], [], color=colour, label=f"{count} clusters") for count, colour in colours.items()]
    known += [Line2D([], [], color="0.2", linestyle=style, label=trust) for trust, style in STYLES.items()]
    known.append(Line2D([], [], color="0.2", linestyle=":", linewidth=0.8, label="no privacy"))
    drawing.legend(handles=known, loc="outside lower center", ncols=4 if len(names) == 1 else 7, frameon=False)
    drawing.savefig(path, dpi=110)


def main() -> None:
    """Read the command line, run, and report."""
    parser = argparse.ArgumentParser(description="What names of clusters of public features label, over epsilon.")
    parser.add_argument("--data", default=",".join(TABLES), help="tables, separated by commas (default: all)")
    parser.add_argument("--draws", type=int, default=5, help="draws of each kind (default: 5)")
    kept = Path(tempfile.gettempdir()) / "labeldp-clusters"
    parser.add_argument("--cache", type=Path, default=kept, help="folder to keep clusters in")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results", help="folder to write to")
    parser.add_argument("--report-only", action="store_true", help="tables and figure from the rows at hand")
    asked = parser.parse_args()
    names = asked.data.split(",")
    if unknown := set(names) - set(TABLES):
        sys.exit(f"expected tables among {', '.join(TABLES)}, found {', '.join(sorted(unknown))}")
    folder = os.environ.get("LABELDP_DATA")
    if folder is None and not asked.report_only:
        sys.exit("LABELDP_DATA names no folder of data sets")
    asked.results.mkdir(parents=True, exist_ok=True)
    asked.cache.mkdir(parents=True, exist_ok=True)
    output = asked.results / "clusters.csv"
    if not asked.report_only:
        run(names, Path(folder), asked.cache, asked.draws, output)
    rows = pd.read_csv(output)
    report(rows.iloc[np.argsort(rows["data"].map(TABLES.index), kind="stable")], asked.results)
    print(f"tables, figure and rows: {asked.results}")


if __name__ == "__main__":
    main()
