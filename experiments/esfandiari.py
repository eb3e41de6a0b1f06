"""Figures 1 and 2 of Esfandiari et al. 2022 at the epsilon that is truly spent, and beside them what does better.

    python experiments/esfandiari.py --cache DIR               everything: clusters first, which are kept in DIR
    python experiments/esfandiari.py --data mnist --draws 1    a first look
    python experiments/esfandiari.py --report-only             tables and figures from the rows at hand

Rows are written as they come, and those in the file are not computed again. README.md beside this file has the
protocol and what was found.
"""

import argparse
import csv
import gzip
import hashlib
import io
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image
from rich.progress import Progress
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neural_network import MLPClassifier

from labeldp import (
    Classes,
    ClusterParameters,
    Curator,
    NoisyArgmax,
    PriorResponse,
    RandomizedResponse,
    Release,
    cluster_response,
)
from labeldp.learning.cells import cluster, embed
from labeldp.learning.sklearn import SoftmaxRegression
from labeldp.privacy.channels import pair_share
from labeldp.release import ClusterRelease

IMAGES = ("mnist", "fashion-mnist", "cifar10")
DIGITS = {"mnist-8": 8}  # a digit against all others
TABLES = (*IMAGES, *DIGITS)
DEEP = "mnist"  # where a network learns too
SMALL = "digits"  # for a look and for tests: it comes with scikit-learn
COMPONENTS, CLUSTERS, NAMED, NEIGHBOURS = 50, 100, 50, 15
COUNTS = (5, 20, 500, 2_000)  # beside CLUSTERS, at the epsilon COUNTED
EPSILONS, COUNTED = (0.05, 0.1, 0.5, 2.0), 0.5
FLOORS = {"high": 0.5, "low": 0.05}  # the least probability of a class in a cluster, times the number of classes
STEPS, RATE, MOMENTUM = 100, 1.0, 0.9
TOLERANCE = 5e-4
CLAIMED = 2 / 3  # of what Corollary 2's parameters cost: Theorem 1 has 1 / sigma where 2 / sigma is spent
COLUMNS = (
    *("data", "setting", "epsilon", "clusters", "draw", "rows"),
    *("certified_epsilon", "accuracy", "balanced", "named", "heterogeneity", "seconds"),
)


@dataclass(frozen=True)
class Data:
    """A table of images.

    Attributes:
        space: The declared classes.
        features: Principal components of the training and of the test images.
        pixels: The training and the test images, one row of bytes for each.
        labels: True labels of the training images; curators see them, and ``done`` counts with them at the end.
        test_labels: True labels of the test images, read to score a finished model.
        groups: Clusters of the training images by k-means, by their number; under ``"graph"`` those of neighbours.
    """

    space: Classes
    features: tuple[np.ndarray, np.ndarray]
    pixels: tuple[np.ndarray, np.ndarray]
    labels: np.ndarray
    test_labels: np.ndarray
    groups: dict[int | str, np.ndarray]


@dataclass(frozen=True)
class Job:
    """One draw of one setting."""

    data: str
    setting: str
    epsilon: float
    clusters: int
    draw: int


@dataclass(frozen=True)
class Lesson:
    """What a model may learn from.

    Attributes:
        rows: The rows that it learns from.
        release: What was released of them; labels made from a release alone are public.
        method: How.
        epsilon: What is certified of all that was drawn.
        complete: Whether the release has a class for each row, and how many are right is worth a look.
    """

    rows: np.ndarray
    release: Release
    method: str
    epsilon: float
    complete: bool = False


def loaded(name: str, folder: Path, cache: Path) -> Data:
    """A table from its published files, with features and groups that are functions of its images alone."""
    source = "mnist" if name in DIGITS else name
    pixels, labels = {"cifar10": cifar10, SMALL: digits}.get(source, published)(folder / source)
    settings = repr((COMPONENTS, CLUSTERS, NAMED, NEIGHBOURS, COUNTS)).encode()
    mark = hashlib.sha256(b"".join([settings, *(part.tobytes() for part in pixels)])).hexdigest()[:16]
    path = cache / f"{source}-{mark}.npz"
    model = PCA(COMPONENTS, svd_solver="covariance_eigh").fit(pixels[0].astype(np.float32) / 255.0)
    features = [model.transform(part.astype(np.float32) / 255.0).astype(np.float32) for part in pixels]
    if not path.exists():
        start = time.perf_counter()
        groups = {str(key): numbers for key, numbers in grouped(features[0])}
        np.savez(path.with_suffix(".part.npz"), **groups)
        path.with_suffix(".part.npz").replace(path)
        print(f"{source}: clusters took {time.perf_counter() - start:.0f} seconds")
    with np.load(path) as kept:
        numbered = {int(key) if key.isdigit() else key: kept[key] for key in kept}
    space = Classes(["other", "digit"]) if name in DIGITS else Classes(range(10))
    if name in DIGITS:
        labels = tuple(np.where(part == DIGITS[name], "digit", "other") for part in labels)
    return Data(space, (features[0], features[1]), pixels, *labels, numbered)


def published(folder: Path) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Images and labels of a folder in the form of MNIST: training and test."""
    images, labels = (
        [
            np.frombuffer(gzip.decompress((folder / f"{part}-{kind}-ubyte.gz").read_bytes()), np.uint8)[header:]
            for part in ("train", "t10k")
        ]
        for kind, header in (("images-idx3", 16), ("labels-idx1", 8))
    )
    flat = tuple(part.reshape(len(part) // 784, 784) for part in images)
    return (flat[0], flat[1]), (labels[0].astype(np.int64), labels[1].astype(np.int64))


def cifar10(folder: Path) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Images and labels of CIFAR-10 as far as they are in the folder: training and test."""
    parts = []
    for names in ([f"train_part{number}.npz" for number in range(1, 5)], ["test.npz"]):
        pixels, labels = [], []
        for name in names:
            with np.load(folder / name) as kept:
                stored, places = kept["webp"].tobytes(), kept["offset"]
                labels.append(kept["label"].astype(np.int64))
            for first, last in pairwise(places):
                pixels.append(np.asarray(Image.open(io.BytesIO(stored[first:last]))).reshape(-1))
        parts.append((np.stack(pixels), np.concatenate(labels)))
    return (parts[0][0], parts[1][0]), (parts[0][1], parts[1][1])


def digits(_: Path) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Scanned digits of 8 x 8 pixels, three in ten of them held out."""
    pixels, labels = load_digits(return_X_y=True)
    held_out = np.random.default_rng(0).random(len(labels)) < 0.3
    pixels = np.floor(pixels / 16.0 * 255.0).astype(np.uint8)
    return (pixels[~held_out], pixels[held_out]), (labels[~held_out], labels[held_out])


def grouped(points: np.ndarray) -> Iterator[tuple[int | str, np.ndarray]]:
    """Clusters of points by k-means for each number of them, and those of their graph of neighbours."""
    for count in (count for count in sorted((CLUSTERS, *COUNTS)) if count <= len(points) / 10):
        yield count, cluster(points, count, "kmeans", restarts=1).numbers
    yield "graph", embed(points, components=None, neighbours=NEIGHBOURS).cluster(NAMED).numbers


def uniform(data: Data, job: Job) -> Lesson:
    """UniformRR, Corollary 1: randomized response on all rows."""
    release = Curator(data.labels, data.space, budget=job.epsilon).randomize(
        RandomizedResponse(data.space, job.epsilon)
    )
    return Lesson(np.arange(len(release)), release, method_of(job), release.guarantee.epsilon)


def paper(data: Data, job: Job) -> Lesson:
    """ClusterRR, Corollary 2, learned without a correction (beta = 0). A public floor is its tau, in place of phi."""
    tau, numbers = FLOORS[method_of(job)] / data.space.size, data.groups[job.clusters]
    curator = Curator(data.labels, data.space, budget=job.epsilon)
    parameters = ClusterParameters.cluster_rr(data.space, job.epsilon, tau)
    found = cluster_response(curator, numbers, parameters=parameters)
    return Lesson(found.rows, found.release, "plain", curator.spent[0])


def split_rows(data: Data, job: Job) -> Lesson:
    """Half of the rows are counted with all of epsilon, the other half responds with all of it."""
    curator, numbers = Curator(data.labels, data.space, budget=job.epsilon), numbers_of(data, job)
    floor = (
        1 / data.space.size if job.setting.startswith("graph") else None
    )  # even is randomized response, whatever was counted
    found = cluster_response(curator, numbers, job.epsilon, split="rows", floor=floor)
    if method_of(job) == "posterior":
        return Lesson(np.arange(len(numbers)), guessed(data, found, numbers), "plain", curator.spent[0], complete=True)
    return Lesson(found.rows, found.release, method_of(job), curator.spent[0])


def guessed(data: Data, found: ClusterRelease, numbers: np.ndarray) -> Release:
    """A class for each row, drawn from what cluster and released label say of it together: no label is read."""
    chances = found.distributions[numbers]
    chances[found.rows] *= found.release.likelihood()
    return Release.public(drawn(data.space, chances), data.space)


def distributions(data: Data, job: Job) -> Lesson:
    """The mechanism with lambda = 1: distributions of clusters are released, and labels are drawn from them."""
    curator, numbers = Curator(data.labels, data.space, budget=job.epsilon), data.groups[job.clusters]
    found = cluster_response(curator, numbers, job.epsilon, share=1.0)
    labels = Release.public(drawn(data.space, found.distributions[numbers]), data.space)
    return Lesson(np.arange(len(numbers)), labels, "plain", curator.spent[0], complete=True)


def drawn(space: Classes, chances: np.ndarray) -> np.ndarray:
    """A class for each row of chances, which need not sum to one; a row without any has all alike."""
    chances = np.where(chances.sum(axis=1, keepdims=True) > 0, chances, 1.0)
    ends = chances.cumsum(axis=1)
    codes = (np.random.default_rng().random(len(ends))[:, None] * ends[:, -1:] >= ends).sum(axis=1)
    return np.array(space.points)[np.minimum(codes, space.size - 1)]


def names(data: Data, job: Job) -> Lesson:
    """The most common class of each cluster of the graph of neighbours."""
    numbers = data.groups["graph"]
    answer = Curator(data.labels, data.space, budget=job.epsilon).answer(NoisyArgmax(data.space, job.epsilon, numbers))
    given = np.array(answer.points())[numbers]
    return Lesson(
        np.arange(len(numbers)), Release.public(given, data.space), "plain", answer.guarantee.epsilon, complete=True
    )


def two_stages(data: Data, job: Job) -> Lesson:
    """LP-2ST (Ghazi et al. 2021): half of the rows respond, and a model of them is the prior of the other half.

    The final model takes all released labels as they are, as Ghazi et al. do. Rows are in random order first.
    """
    order = np.random.default_rng(job.draw).permutation(len(data.labels))
    curator, half = Curator(data.labels[order], data.space, budget=job.epsilon), len(order) // 2
    first, second = slice(0, half), slice(half, len(order))
    one = curator.randomize(RandomizedResponse(data.space, job.epsilon), first)
    model = fitted(data.features[0][order[first]], one, "likelihood")
    prior = PriorResponse(data.space, job.epsilon, model.predict_proba(data.features[0][order[second]]))
    codes = np.concatenate([one.codes, curator.randomize(prior, second).codes])
    given = Release.public(np.array(data.space.points)[codes], data.space)
    return Lesson(order, given, "plain", curator.spent[0], complete=True)


def nothing(data: Data, job: Job) -> Lesson:
    """All true labels."""
    return Lesson(np.arange(len(data.labels)), Release.public(data.labels, data.space), "plain", job.epsilon)


SETTINGS: dict[str, Callable[[Data, Job], Lesson]] = {
    "uniform, unbiased": uniform,
    "uniform, likelihood": uniform,
    "paper, floor high": paper,
    "paper, floor low": paper,
    "rows, likelihood": split_rows,
    "rows, posterior": split_rows,
    "distributions": distributions,
    "graph rows, posterior": split_rows,
    "names": names,
    "names, network": names,
    "two stages": two_stages,
    "none": nothing,
    "none, network": nothing,
}
DESCENT = "private descent"
LINES = {
    "uniform, unbiased": ("tab:blue", "--"),
    "uniform, likelihood": ("tab:blue", "-"),
    "paper, floor high": ("tab:red", "-"),
    "paper, floor low": ("tab:orange", "-"),
    "two stages": ("tab:brown", "-"),
    "distributions": ("tab:purple", "-"),
    "rows, posterior": ("tab:pink", "-"),
    "graph rows, posterior": ("tab:olive", "-"),
    "names": ("tab:green", "-"),
    DESCENT: ("0.5", "--"),
}
MARKS: dict[str, Any] = {"marker": ".", "linewidth": 1.2, "capsize": 2}
COUNT_STYLES = {"paper, floor high": "-", "distributions": "--"}
BY_COUNT = ("paper, floor high", "distributions")


def jobs(name: str, epsilons: list[float], draws: int) -> Iterator[Job]:
    """What is asked of a table. All of one draw come before the next."""
    yield Job(name, "none", np.inf, 0, 0)
    if name == DEEP:
        yield Job(name, "none, network", np.inf, 0, 0)
    left_out = ("none", "rows", "graph") if name in DIGITS else ("none", "two stages")
    plain = [each for each in SETTINGS if not each.startswith(left_out) and not each.endswith("network")]
    for draw in range(draws):
        for epsilon in epsilons:
            for setting in plain:
                used = 0 if setting.startswith(("uniform", "two")) else CLUSTERS
                yield Job(name, setting, epsilon, NAMED if setting.startswith(("graph", "names")) else used, draw)
            yield Job(name, DESCENT, epsilon, 0, draw)
        if name in IMAGES:
            yield from (Job(name, setting, COUNTED, count, draw) for setting in BY_COUNT for count in COUNTS)
            yield Job(name, "names", 0.01, NAMED, draw)
        if name == DEEP:
            yield from (Job(name, "names, network", epsilon, NAMED, draw) for epsilon in (0.01, 0.05))


def numbers_of(data: Data, job: Job) -> np.ndarray:
    """The cluster of each row."""
    return data.groups["graph" if job.setting.startswith("graph") else job.clusters]


def method_of(job: Job) -> str:
    """How a setting learns: the last word of its name."""
    return job.setting.rpartition(" ")[2]


def done(data: Data, job: Job) -> dict[str, object]:
    """A row of results."""
    start = time.perf_counter()
    true = data.space.encode(data.test_labels)
    row: dict[str, object] = {
        "data": job.data,
        "setting": job.setting,
        "epsilon": job.epsilon,
        "clusters": job.clusters,
        "draw": job.draw,
        "rows": len(data.labels),
    }
    if job.setting == "none":
        row["heterogeneity"] = round(heterogeneity(data, data.groups[CLUSTERS]), 5)
    if job.setting == DESCENT:
        codes, row["certified_epsilon"] = descended(data, job.epsilon), job.epsilon
    else:
        lesson = SETTINGS[job.setting](data, job)
        row["certified_epsilon"] = lesson.epsilon
        if job.setting.endswith("network"):
            codes = network(data, lesson)
        else:
            model = fitted(data.features[0][lesson.rows], lesson.release, lesson.method)
            codes = data.space.encode(model.predict(data.features[1]))
        if lesson.complete:
            right = lesson.release.codes == data.space.encode(data.labels)[lesson.rows]
            row["named"] = round(float(np.mean(right)), 5)
    recalls = [np.mean(codes[true == code] == code) for code in range(data.space.size)]
    row["accuracy"] = round(float(np.mean(codes == true)), 5)
    row["balanced"] = round(float(np.mean(recalls)), 5)
    return row | {"seconds": round(time.perf_counter() - start, 2)}


def heterogeneity(data: Data, numbers: np.ndarray) -> float:
    """Definition 1, where an image has one class for certain: a look at true labels, which no setting makes use of."""
    codes, k = data.space.encode(data.labels), data.space.size
    counts = np.bincount(numbers * k + codes, minlength=k * (int(numbers.max()) + 1)).reshape(-1, k)
    return float(2 - 2 * np.mean(counts[numbers, codes] / counts.sum(axis=1)[numbers]))


def fitted(features: np.ndarray, release: Release, method: str) -> SoftmaxRegression:
    """A linear model, tuned on released labels alone.

    The less a channel says, the flatter is its likelihood, and the longer are its unbiased vectors: the gradient at
    which a fit stops goes with them.
    """
    said = np.sqrt(float(np.mean(pair_share(release.channel.membership))))
    scale = {"likelihood": said, "unbiased": 1 / said, "plain": 1.0}[method]
    return SoftmaxRegression(method=method, tol=TOLERANCE * scale, max_iter=2_000).fit(features, release)


def network(data: Data, lesson: Lesson) -> np.ndarray:
    """What a network says of the test images; a tenth of the rows it learns from tells it when to stop."""
    train, test = (part.astype(np.float32) / 255.0 for part in data.pixels)
    model = MLPClassifier(256, early_stopping=True, n_iter_no_change=3, random_state=0)
    return model.fit(train[lesson.rows], lesson.release.codes).predict(test)


def descended(data: Data, epsilon: float) -> np.ndarray:
    """DP-SGD whose every batch is the whole table: gradients of one row are clipped to 1, their sums get noise.

    It protects features too, of a row that is there or not, with delta one over the number of rows. As all its steps
    are Gaussian, their cost together is exact (Dong et al. 2022); the noise is drawn in floating point, as usual.
    """
    rng = np.random.default_rng()
    scale = np.sqrt(np.mean((data.features[0] ** 2).sum(axis=1)))
    train, test = (np.hstack([part / scale, np.ones((len(part), 1), np.float32)]) for part in data.features)
    noise = np.sqrt(STEPS) / gaussian(epsilon, 1.0 / len(train))
    true = np.eye(data.space.size, dtype=np.float32)[data.space.encode(data.labels)]
    lengths = np.linalg.norm(train, axis=1)
    place = np.zeros((train.shape[1], data.space.size))
    speed = np.zeros_like(place)
    for _ in range(STEPS):
        logits = train @ (place + MOMENTUM * speed).astype(np.float32)
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        errors = chances / chances.sum(axis=1, keepdims=True) - true
        errors /= np.maximum(1.0, np.linalg.norm(errors, axis=1) * lengths)[:, None]
        slope = (train.T @ errors + noise * rng.standard_normal(place.shape)) / len(train)
        speed = MOMENTUM * speed - RATE * slope
        place += speed
    return (test @ place).argmax(axis=1)


def gaussian(epsilon: float, delta: float) -> float:
    """The mu of the Gaussian differential privacy that is (epsilon, delta)."""

    def over(mu: float) -> float:
        left, right = norm.logcdf(mu / 2 - epsilon / mu), norm.logcdf(-mu / 2 - epsilon / mu)
        return float(np.exp(left) - np.exp(epsilon + right) - delta)

    return float(brentq(over, 1e-4, 50.0))


def run(names: list[str], folder: Path, cache: Path, epsilons: list[float], draws: int, output: Path) -> None:
    """Do what is not in the file of results yet."""
    known = set()
    if output.exists():
        rows = pd.read_csv(output)
        known = set(rows[["data", "setting", "epsilon", "clusters", "draw"]].itertuples(index=False, name=None))
    with output.open("a", newline="") as file, Progress() as progress:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not file.tell():
            writer.writeheader()
            file.flush()
        for name in names:
            asked = [job for job in jobs(name, epsilons, draws) if astuple(job) not in known]
            data = loaded(name, folder, cache) if asked else None
            for job in progress.track(asked, description=name):
                writer.writerow(done(data, job))
                file.flush()


def report(results: pd.DataFrame, folder: Path) -> None:
    """Tables in Markdown and the figure."""
    text = [
        "# Results",
        "",
        "Made by `python experiments/esfandiari.py --report-only` from `esfandiari.csv`; `../README.md` says what the",
        "settings are. Test accuracy in %, means over draws, with the standard deviation over draws in parentheses.",
        "Every epsilon is the true one, certified for all that a model learned from.",
    ]
    for name, part in results.groupby("data", sort=False):
        best = 100 * part.loc[part["setting"] == "none", "accuracy"].iloc[0]
        counts = part.loc[np.isfinite(part["epsilon"])].groupby("setting")["draw"].nunique()
        draws = " to ".join(str(count) for count in dict.fromkeys((counts.min(), counts.max())))
        text += ["", f"## {name}", "", f"{part['rows'].max():,} rows, {draws} draws. Without privacy: {best:.1f} %."]
        usual = part[np.isfinite(part["epsilon"]) & ~off_axis(part)]
        text += ["", *table(usual.assign(value=100 * usual["accuracy"]), "epsilon", "accuracy, %")]
        relative = 100 * usual["accuracy"] / (best / 100)
        text += ["", *table(usual.assign(value=relative), "epsilon", "% of the accuracy without privacy")]
        if name in DIGITS:
            text += ["", *table(usual.assign(value=100 * usual["balanced"]), "epsilon", "mean recall of classes, %")]
        named = usual[usual["named"].notna() & (usual["setting"] != "two stages")]
        text += ["", *table(named.assign(value=100 * named["named"]), "epsilon", "training rows named rightly, %")]
        if off_axis(part).any():
            wide = part[(part["epsilon"] == COUNTED) & part["setting"].isin(BY_COUNT)]
            text += [
                "",
                *table(wide.assign(value=100 * wide["accuracy"]), "clusters", f"epsilon {COUNTED:g}, accuracy"),
            ]
            text += ["", *learners(part)]
    (folder / "esfandiari.md").write_text("\n".join(text) + "\n")
    figure(results, folder / "esfandiari.png")


def off_axis(part: pd.DataFrame) -> pd.Series:
    """What is not on the usual axis of epsilons with the usual numbers of clusters."""
    other_count = part["setting"].isin(BY_COUNT) & (part["clusters"] != CLUSTERS)
    return part["setting"].str.endswith("network") | other_count


def table(part: pd.DataFrame, axis: str, title: str) -> list[str]:
    """A line for each setting, and a column for each value on the axis."""
    cells = part.groupby(["setting", axis], sort=False)["value"].agg(["mean", "std"])
    values = sorted(part[axis].unique())
    text = [
        f"| {' | '.join([title, *(f'{axis} {value:g}' for value in values)])} |",
        f"|{' --- |' * (1 + len(values))}",
    ]
    for setting in (setting for setting in (*SETTINGS, DESCENT) if setting in set(part["setting"])):
        found = []
        for value in values:
            mean, spread = cells.loc[(setting, value)] if (setting, value) in cells.index else (np.nan, np.nan)
            found.append("" if np.isnan(mean) else f"{mean:.1f}" + (f" ({spread:.1f})" if spread >= 0 else ""))
        text.append(f"| {setting} | {' | '.join(found)} |")
    return text


def learners(part: pd.DataFrame) -> list[str]:
    """What names of clusters of the graph are worth: rows named rightly, and what two learners make of them."""
    text = ["| names | training rows named rightly | linear model | network |", "| --- | --- | --- | --- |"]
    for epsilon in sorted(part.loc[part["setting"] == "names", "epsilon"].unique()):
        rows = part[(part["epsilon"] == epsilon) & part["setting"].isin(("names", "names, network"))]
        if epsilon <= min(EPSILONS):
            linear, deep = (rows[rows["setting"].str.endswith("network") == is_deep] for is_deep in (False, True))
            found = [spread_of(rows["named"]), spread_of(linear["accuracy"]), spread_of(deep["accuracy"])]
            text.append(f"| epsilon {epsilon:g} | {' | '.join(found)} |")
    every = [spread_of(part.loc[part["setting"] == setting, "accuracy"]) for setting in ("none", "none, network")]
    return [*text, f"| all true labels | | {' | '.join(every)} |"]


def spread_of(values: pd.Series) -> str:
    """A mean share in %, and its standard deviation over draws."""
    if values.empty:
        return ""
    return f"{100 * values.mean():.1f}" + (f" ({100 * values.std():.1f})" if len(values) > 1 else "")


def figure(results: pd.DataFrame, path: Path) -> None:
    """Accuracy over epsilon for each table, and over the number of clusters."""
    shown = [(name, "accuracy") for name in (*IMAGES, SMALL, *DIGITS)] + [(name, "balanced") for name in DIGITS]
    shown = [(name, measure) for name, measure in shown if name in set(results["data"])]
    drawing = Figure(figsize=(14.0, 8.4), layout="constrained")
    axes = drawing.subplots(2, 3).ravel()
    for place, (name, measure) in zip(axes, shown, strict=False):
        part = results[results["data"] == name]
        best = part.loc[part["setting"] == "none", measure].iloc[0]
        part = part[np.isfinite(part["epsilon"]) & ~off_axis(part)]
        for setting, (colour, style) in LINES.items():
            found = part[part["setting"] == setting].groupby("epsilon")[measure].agg(["mean", "std"])
            if len(found):
                bars = (found["std"] / best).fillna(0.0)
                place.errorbar(found.index, found["mean"] / best, bars, color=colour, linestyle=style, **MARKS)
                if setting.startswith("paper"):  # the same accuracies, where Theorem 1 has them
                    place.plot(found.index * CLAIMED, found["mean"] / best, color=colour, linestyle=":", linewidth=1.2)
        place.set_title(name + (", a digit against the others" if name in DIGITS else ""))
        place.set_xlabel("epsilon")
        place.set_ylabel(f"{'accuracy' if measure == 'accuracy' else 'mean recall'} over that without privacy")
    over_counts(axes[-1], results)
    for place in axes:
        place.set_xscale("log")
        place.xaxis.set_major_formatter("{x:g}")
        place.xaxis.set_minor_formatter("")
        place.grid(alpha=0.3)
        place.set_visible(place.has_data())
    known = [Line2D([], [], color=colour, linestyle=style, label=name) for name, (colour, style) in LINES.items()]
    known.append(Line2D([], [], color="0.2", linestyle=":", label="the paper's at the epsilon of its Theorem 1"))
    drawing.legend(handles=known, loc="outside lower center", ncols=6, frameon=False)
    drawing.savefig(path, dpi=80)


def over_counts(place: Any, results: pd.DataFrame) -> None:
    """Accuracy over the number of clusters, at one epsilon."""
    colours = dict(zip(IMAGES, ("tab:blue", "tab:green", "tab:red"), strict=True))
    for name in (name for name in IMAGES if name in set(results["data"])):
        part = results[results["data"] == name]
        best = part.loc[part["setting"] == "none", "accuracy"].iloc[0]
        for setting, style in COUNT_STYLES.items():
            chosen = part[(part["setting"] == setting) & (part["epsilon"] == COUNTED)]
            found = chosen.groupby("clusters")["accuracy"].mean() / best
            place.plot(found.index, found, color=colours[name], linestyle=style, marker=".", linewidth=1.2)
    place.set_title(f"epsilon {COUNTED:g}, by the number of clusters")
    place.set_xlabel("clusters by k-means")
    place.set_ylabel("accuracy over that without privacy")
    known = [Line2D([], [], color=colour, label=name) for name, colour in colours.items()]
    known += [Line2D([], [], color="0.2", linestyle=style, label=setting) for setting, style in COUNT_STYLES.items()]
    place.legend(handles=known, frameon=False, fontsize="small")


def main() -> None:
    """Read the command line, run, and report."""
    parser = argparse.ArgumentParser(description="What cluster response is worth at the epsilon that it truly spends.")
    parser.add_argument(
        "--data", default=",".join(TABLES), help=f"tables, separated by commas (default: all but {SMALL})"
    )
    parser.add_argument("--draws", type=int, default=5, help="draws of each kind (default: 5)")
    parser.add_argument("--epsilons", default=",".join(f"{each:g}" for each in EPSILONS), help="separated by commas")
    kept = Path(tempfile.gettempdir()) / "labeldp-esfandiari"
    parser.add_argument("--cache", type=Path, default=kept, help="folder to keep clusters in")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results", help="folder to write to")
    parser.add_argument("--report-only", action="store_true", help="tables and figures from the rows at hand")
    asked = parser.parse_args()
    names = asked.data.split(",")
    if unknown := set(names) - {*TABLES, SMALL}:
        sys.exit(f"expected tables among {', '.join((*TABLES, SMALL))}, found {', '.join(sorted(unknown))}")
    folder = os.environ.get("LABELDP_DATA")
    if folder is None and not asked.report_only and names != [SMALL]:
        sys.exit("LABELDP_DATA names no folder of data sets")
    asked.results.mkdir(parents=True, exist_ok=True)
    asked.cache.mkdir(parents=True, exist_ok=True)
    output = asked.results / "esfandiari.csv"
    if not asked.report_only:
        epsilons = [float(each) for each in asked.epsilons.split(",")]
        run(names, Path(folder or "."), asked.cache, epsilons, asked.draws, output)
    rows = pd.read_csv(output)
    places = rows["data"].map([*TABLES, SMALL].index)
    report(rows.iloc[np.argsort(places, kind="stable")], asked.results)
    print(f"tables, figure and rows: {asked.results}")


if __name__ == "__main__":
    main()
