"""Figures 1 and 2 of Esfandiari et al. 2022 at the epsilon that is truly spent, beside other ways to use epsilon.

esfandiari.md has the protocol and what the results show.
"""

import functools
import gzip
import hashlib
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, pivot, shown, table
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neural_network import MLPClassifier

from labeldp import (
    Classes,
    ClassProbabilities,
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


@dataclass(frozen=True)
class Groups(Mapping[int | str, np.ndarray]):
    """Clusters of the training images, by their number or ``"graph"``; found when asked for, and kept in a folder.

    Attributes:
        points: Features of the images.
        stem: Start of the names of the files.
    """

    points: np.ndarray
    stem: Path
    known: dict[int | str, np.ndarray] = field(default_factory=dict)

    def __getitem__(self, key: int | str) -> np.ndarray:
        if key not in self.known:
            path = self.stem.with_name(f"{self.stem.name}-{key}.npy")
            if not path.exists():
                np.save(path.with_suffix(".part.npy"), self._found(key))
                path.with_suffix(".part.npy").replace(path)
            self.known[key] = np.load(path)
        return self.known[key]

    def _found(self, key: int | str) -> np.ndarray:
        if key == "graph":
            return embed(self.points, components=None, neighbours=NEIGHBOURS).cluster(NAMED).numbers
        return cluster(self.points, int(key), "kmeans", restarts=1).numbers

    def __iter__(self) -> Iterator[int | str]:
        yield from (count for count in sorted((CLUSTERS, *COUNTS)) if count <= len(self.points) / 10)
        yield "graph"

    def __len__(self) -> int:
        return len(list(iter(self)))


@dataclass(frozen=True)
class Data:
    """A table of images.

    Attributes:
        space: The declared classes.
        features: Principal components of the training and of the test images.
        pixels: The training and the test images, one row of bytes for each.
        labels: True labels of the training images; curators see them, and ``run`` counts with them at the end.
        test_labels: True labels of the test images, read to score a finished model.
        groups: Clusters of the training images by k-means, by their number; under ``"graph"`` those of neighbours.
    """

    space: Classes
    features: tuple[np.ndarray, np.ndarray]
    pixels: tuple[np.ndarray, np.ndarray]
    labels: np.ndarray
    test_labels: np.ndarray
    groups: Mapping[int | str, np.ndarray]


@dataclass(frozen=True)
class Lesson:
    """Rows and labels that a model may learn from.

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


def loaded(given: Given, name: str) -> Data:
    """A table from its published files, with features and groups that are functions of its images alone."""
    return _loaded(name, Path() if name == SMALL else data_folder(given), given.cache)


@functools.cache
def _loaded(name: str, folder: Path, cache: Path) -> Data:
    source = "mnist" if name in DIGITS else name
    pixels, labels = {"cifar10": cifar10, SMALL: digits}.get(source, published)(folder / source)
    settings = repr((COMPONENTS, CLUSTERS, NAMED, NEIGHBOURS, COUNTS)).encode()
    mark = hashlib.sha256(b"".join([settings, *(part.tobytes() for part in pixels)])).hexdigest()[:16]
    model = PCA(COMPONENTS, svd_solver="covariance_eigh").fit(pixels[0].astype(np.float32) / 255.0)
    features = [model.transform(part.astype(np.float32) / 255.0).astype(np.float32) for part in pixels]
    space = Classes(["other", "digit"]) if name in DIGITS else Classes(range(10))
    if name in DIGITS:
        labels = tuple(np.where(part == DIGITS[name], "digit", "other") for part in labels)
    groups = Groups(features[0], cache / f"{source}-{mark}")
    return Data(space, (features[0], features[1]), pixels, *labels, groups)


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


def uniform(data: Data, cell: Cell, _: int) -> Lesson:
    """UniformRR, Corollary 1: randomized response on all rows."""
    release = Curator(data.labels, data.space, budget=cell["epsilon"]).randomize(
        RandomizedResponse(data.space, cell["epsilon"])
    )
    return Lesson(np.arange(len(release)), release, method_of(cell), release.guarantee.epsilon)


def paper(data: Data, cell: Cell, _: int) -> Lesson:
    """ClusterRR, Corollary 2, learned without a correction (beta = 0). A public floor is its tau, in place of phi."""
    tau, numbers = FLOORS[method_of(cell)] / data.space.size, data.groups[cell["clusters"]]
    curator = Curator(data.labels, data.space, budget=cell["epsilon"])
    parameters = ClusterParameters.cluster_rr(data.space, cell["epsilon"], tau)
    found = cluster_response(curator, numbers, parameters=parameters)
    return Lesson(found.rows, found.release, "plain", curator.spent[0])


def split_rows(data: Data, cell: Cell, _: int) -> Lesson:
    """Half of the rows are counted with all of epsilon, the other half responds with all of it."""
    curator, numbers = Curator(data.labels, data.space, budget=cell["epsilon"]), numbers_of(data, cell)
    floor = (
        1 / data.space.size if cell["setting"].startswith("graph") else None
    )  # even is randomized response, whatever was counted
    found = cluster_response(curator, numbers, cell["epsilon"], split="rows", floor=floor)
    if method_of(cell) == "posterior":
        return Lesson(np.arange(len(numbers)), guessed(data, found, numbers), "plain", curator.spent[0], complete=True)
    return Lesson(found.rows, found.release, method_of(cell), curator.spent[0])


def guessed(data: Data, found: ClusterRelease, numbers: np.ndarray) -> Release:
    """A class for each row, drawn from what cluster and released label say of it together: no label is read."""
    chances = found.distributions[numbers]
    chances[found.rows] *= found.release.likelihood()
    return Release.public(drawn(data.space, chances), data.space)


def distributions(data: Data, cell: Cell, _: int) -> Lesson:
    """The mechanism with lambda = 1: distributions of clusters are released, and labels are drawn from them."""
    curator, numbers = Curator(data.labels, data.space, budget=cell["epsilon"]), data.groups[cell["clusters"]]
    found = cluster_response(curator, numbers, cell["epsilon"], share=1.0)
    labels = Release.public(drawn(data.space, found.distributions[numbers]), data.space)
    return Lesson(np.arange(len(numbers)), labels, "plain", curator.spent[0], complete=True)


def drawn(space: Classes, chances: np.ndarray) -> np.ndarray:
    """A class for each row of chances, which need not sum to one; a row without any has all alike."""
    chances = np.where(chances.sum(axis=1, keepdims=True) > 0, chances, 1.0)
    ends = chances.cumsum(axis=1)
    codes = (np.random.default_rng().random(len(ends))[:, None] * ends[:, -1:] >= ends).sum(axis=1)
    return np.array(space.points)[np.minimum(codes, space.size - 1)]


def names(data: Data, cell: Cell, _: int) -> Lesson:
    """The most common class of each cluster of the graph of neighbours."""
    numbers = data.groups["graph"]
    answer = Curator(data.labels, data.space, budget=cell["epsilon"]).answer(
        NoisyArgmax(data.space, cell["epsilon"], numbers)
    )
    given = np.array(answer.points())[numbers]
    return Lesson(
        np.arange(len(numbers)), Release.public(given, data.space), "plain", answer.guarantee.epsilon, complete=True
    )


def two_stages(data: Data, cell: Cell, draw: int) -> Lesson:
    """LP-2ST (Ghazi et al. 2021): half of the rows respond, and a model of them is the prior of the other half.

    The final model takes all released labels as they are, as Ghazi et al. do. Rows are in random order first.
    """
    order = np.random.default_rng(draw).permutation(len(data.labels))
    curator, half = Curator(data.labels[order], data.space, budget=cell["epsilon"]), len(order) // 2
    first, second = slice(0, half), slice(half, len(order))
    one = curator.randomize(RandomizedResponse(data.space, cell["epsilon"]), first)
    model = fitted(data.features[0][order[first]], one, "likelihood")
    likely = ClassProbabilities.of(model, data.features[0][order[second]])
    prior = PriorResponse(data.space, cell["epsilon"], likely)
    codes = np.concatenate([one.codes, curator.randomize(prior, second).codes])
    given = Release.public(np.array(data.space.points)[codes], data.space)
    return Lesson(order, given, "plain", curator.spent[0], complete=True)


def nothing(data: Data, cell: Cell, _: int) -> Lesson:
    """All true labels."""
    return Lesson(np.arange(len(data.labels)), Release.public(data.labels, data.space), "plain", cell["epsilon"])


SETTINGS: dict[str, Callable[[Data, Cell, int], Lesson]] = {
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


KEY = ("data", "setting", "epsilon", "clusters")


def cells(given: Given) -> Iterator[Cell]:
    """Each setting over epsilon; on images also over the number of clusters, and names at a small epsilon."""
    for name in given.data:
        yield cell_of(name, "none", np.inf, 0, range(1))
        if name == DEEP:
            yield cell_of(name, "none, network", np.inf, 0, range(1))
        left_out = ("none", "rows", "graph") if name in DIGITS else ("none", "two stages")
        plain = [each for each in SETTINGS if not each.startswith(left_out) and not each.endswith("network")]
        for epsilon in given.epsilons:
            for setting in plain:
                used = 0 if setting.startswith(("uniform", "two")) else CLUSTERS
                yield cell_of(name, setting, epsilon, NAMED if setting.startswith(("graph", "names")) else used)
            yield cell_of(name, DESCENT, epsilon, 0)
        if name in IMAGES:
            yield from (cell_of(name, setting, COUNTED, count) for setting in BY_COUNT for count in COUNTS)
            yield cell_of(name, "names", 0.01, NAMED)
        if name == DEEP:
            yield from (cell_of(name, "names, network", epsilon, NAMED) for epsilon in (0.01, 0.05))


def cell_of(data: str, setting: str, epsilon: float, clusters: int, draws: range | None = None) -> Cell:
    """One setting on a table."""
    return Cell(dict(zip(KEY, (data, setting, epsilon, clusters), strict=True)), draws=draws)


def numbers_of(data: Data, cell: Cell) -> np.ndarray:
    """The cluster of each row."""
    return data.groups["graph" if cell["setting"].startswith("graph") else cell["clusters"]]


def method_of(cell: Cell) -> str:
    """Way to learn of a setting: the last word of its name."""
    return cell["setting"].rpartition(" ")[2]


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """A row of results."""
    data, setting = loaded(given, cell["data"]), cell["setting"]
    true = data.space.encode(data.test_labels)
    row: Row = {"rows": len(data.labels)}
    if setting == "none":
        row["heterogeneity"] = round(heterogeneity(data, data.groups[CLUSTERS]), 5)
    if setting == DESCENT:
        codes, row["certified_epsilon"] = descended(data, cell["epsilon"]), cell["epsilon"]
    else:
        lesson = SETTINGS[setting](data, cell, draw)
        row["certified_epsilon"] = lesson.epsilon
        if setting.endswith("network"):
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
    yield row


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
    scale = {"likelihood": 1.0, "unbiased": 1 / said, "plain": 1.0}[method]  # the likelihood scales its own tolerance
    return SoftmaxRegression(method=method, tol=TOLERANCE * scale, max_iter=2_000).fit(features, release)


def network(data: Data, lesson: Lesson) -> np.ndarray:
    """Predictions of a network for the test images; a tenth of the rows it learns from stops it."""
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


def page(frames: dict[str, pd.DataFrame], folder: Path) -> list[str]:
    """Accuracy of each setting on each table, and over the number of clusters."""
    rows = frames["esfandiari"]
    results = rows.iloc[np.argsort(rows["data"].map([*TABLES, SMALL].index), kind="stable")]
    figure(results, folder / "esfandiari.png")
    text = [
        "",
        "Test accuracy in %, means over draws, with the standard deviation over draws in parentheses. Every epsilon is",
        "the true one, certified for all that a model learned from.",
    ]
    for name, part in results.groupby("data", sort=False):
        best = 100 * part.loc[part["setting"] == "none", "accuracy"].iloc[0]
        counts = part.loc[np.isfinite(part["epsilon"])].groupby("setting")["draw"].nunique()
        draws = " to ".join(str(count) for count in dict.fromkeys((counts.min(), counts.max())))
        text += ["", f"## {name}", "", f"{part['rows'].max():,} rows, {draws} draws. Without privacy: {best:.1f} %."]
        usual = part[np.isfinite(part["epsilon"]) & ~off_axis(part)]
        text += ["", *by_setting(usual, "accuracy", "accuracy, %")]
        text += ["", *by_setting(usual, "accuracy", "% of the accuracy without privacy", scale=100 / (best / 100))]
        if name in DIGITS:
            text += ["", *by_setting(usual, "balanced", "mean recall of classes, %")]
        named = usual[usual["named"].notna() & (usual["setting"] != "two stages")]
        text += ["", *by_setting(named, "named", "training rows named correctly, %")]
        if off_axis(part).any():
            wide = part[(part["epsilon"] == COUNTED) & part["setting"].isin(BY_COUNT)]
            text += ["", *by_setting(wide, "accuracy", f"epsilon {COUNTED:g}, accuracy", across="clusters")]
            text += ["", *learners(part)]
    return text


def by_setting(
    rows: pd.DataFrame, column: str, title: str, *, across: str = "epsilon", scale: float = 100
) -> list[str]:
    """A line for each setting."""
    order = [(setting,) for setting in (*SETTINGS, DESCENT)]
    return pivot(rows, ["setting"], column, across=across, order=order, title=title, scale=scale, form=".1f")


def off_axis(part: pd.DataFrame) -> pd.Series:
    """Mask of rows off the usual axis of epsilons with the usual numbers of clusters."""
    other_count = part["setting"].isin(BY_COUNT) & (part["clusters"] != CLUSTERS)
    return part["setting"].str.endswith("network") | other_count


def learners(part: pd.DataFrame) -> list[str]:
    """Results of names of clusters of the graph: rows named correctly, and accuracy of two learners."""
    lines = []
    for epsilon in sorted(part.loc[part["setting"] == "names", "epsilon"].unique()):
        rows = part[(part["epsilon"] == epsilon) & part["setting"].isin(("names", "names, network"))]
        if epsilon <= min(EPSILONS):
            linear, deep = (rows[rows["setting"].str.endswith("network") == is_deep] for is_deep in (False, True))
            measures = (rows["named"], linear["accuracy"], deep["accuracy"])
            lines.append([f"epsilon {epsilon:g}", *(shown(100 * each, ".1f") for each in measures)])
    free = [part.loc[part["setting"] == setting, "accuracy"] for setting in ("none", "none, network")]
    lines.append(["all true labels", "", *(shown(100 * each, ".1f") for each in free)])
    return table(["names", "training rows named correctly", "linear model", "network"], lines)


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


STUDY = Study(
    name="esfandiari",
    recipe="1",
    key=KEY,
    columns=(
        *("data", "setting", "epsilon", "clusters", "draw", "rows"),
        *("certified_epsilon", "accuracy", "balanced", "named", "heterogeneity", "seconds"),
    ),
    cells=cells,
    run=run,
    spots=(
        Spot(cell_of("mnist", "paper, floor high", 0.05, CLUSTERS), "accuracy", draws=2),
        Spot(cell_of("mnist", "distributions", 0.5, CLUSTERS), "accuracy", draws=2),
        Spot(cell_of("mnist", "rows, posterior", 0.1, CLUSTERS), "accuracy", draws=2),
        Spot(cell_of("mnist", "uniform, likelihood", 0.5, 0), "accuracy", draws=3),
        Spot(cell_of("mnist", DESCENT, 0.5, 0), "accuracy", draws=3),
    ),
)
EXPERIMENT = Experiment(
    name="esfandiari",
    question="What does a model learn from cluster response at the epsilon that it truly spends?",
    studies=(STUDY,),
    page=page,
    tables=(*TABLES, SMALL),
    usual=TABLES,
    bundled=(SMALL,),
    epsilons=EPSILONS,
    cached=True,
)

if __name__ == "__main__":
    main(EXPERIMENT)
