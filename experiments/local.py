"""Local randomizers on tables: what a model learns from a release, over epsilon.

local.md has the protocol and what the results show.
"""

import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from _data import TABLES, Data
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, pivot
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from sklearn.cluster import KMeans
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from labeldp import (
    BitResponse,
    ClassProbabilities,
    Curator,
    PriorResponse,
    RandomizedResponse,
    Randomizer,
    Release,
    SubsetResponse,
)
from labeldp.learning.sklearn import ReleasedLabelClassifier, SoftmaxRegression
from labeldp.mechanisms.randomizers import best_randomizer
from labeldp.privacy.channels import pair_share

FIRST_STAGE = 0.2
LEAST = 1e-12
METHODS = ("likelihood", "unbiased", "plain")
TREE_METHODS = ("trees em", "trees plain")
COLOURS = {
    "response": "tab:blue",
    "subset": "tab:red",
    "independent bits": "tab:green",
    "symmetric bits": "tab:olive",
    "prior": "tab:purple",
}
LINES = {"likelihood": "-", "unbiased": "--", "plain": ":"}


def loaded(given: Given, name: str) -> Data:
    """A table; digits need no folder."""
    return _loaded(name, Path() if name == "digits" else data_folder(given))


@functools.cache
def _loaded(name: str, folder: Path) -> Data:
    return TABLES[name](folder)


def cells(given: Given) -> Iterator[Cell]:
    """Linear models on all tables, then trees where there are columns for them."""
    for name in given.data:
        data = loaded(given, name)
        yield cell_of(name, np.inf, "none", "likelihood", "constant", draws=range(1))
        for epsilon in given.epsilons:
            for randomizer in dict.fromkeys(("response", best(data, epsilon)[0], "independent bits", "symmetric bits")):
                yield cell_of(name, epsilon, randomizer, *METHODS)
            if data.units is None:
                yield cell_of(name, epsilon, "prior", "likelihood", "plain")  # unbiased for candidates alone
            else:  # candidates for each row and shares of a unit's epsilon do not go together
                yield cell_of(name, epsilon, "response", "evened likelihood")
    for name in given.data:
        data = loaded(given, name)
        if data.columns is not None:
            yield cell_of(name, np.inf, "none", *TREE_METHODS[1:], draws=range(1))
            yield from (cell_of(name, epsilon, best(data, epsilon)[0], *TREE_METHODS) for epsilon in given.epsilons)


def cell_of(data: str, epsilon: float, randomizer: str, *methods: str, draws: range | None = None) -> Cell:
    """One release, and the methods that learn from it; without privacy by the randomizer "none"."""
    return Cell({"data": data, "epsilon": epsilon, "randomizer": randomizer}, methods, draws)


def best(data: Data, epsilon: float) -> tuple[str, Randomizer]:
    """The randomizer of sets at its best size, by its name: with sets of one class it is randomized response."""
    most = 1 if data.units is None else int(np.unique(data.units, return_counts=True)[1].max())
    found = best_randomizer(data.space, epsilon, most)
    return ("response" if isinstance(found, RandomizedResponse) else "subset"), found


def released(data: Data, cell: Cell, draw: int) -> tuple[np.ndarray, Release]:
    """A fresh draw: the rows that a model may learn from, and their release. Its curator spends epsilon, no more."""
    rows = np.arange(len(data.labels))
    if cell["randomizer"] == "none":
        return rows, Release.public(data.labels, data.space)
    if cell["randomizer"] == "prior":
        return two_stages(data, cell, draw)
    randomizer = {
        "response": RandomizedResponse(data.space, cell["epsilon"]),
        "subset": best(data, cell["epsilon"])[1],
        "independent bits": BitResponse(data.space, cell["epsilon"], form="independent"),
        "symmetric bits": BitResponse(data.space, cell["epsilon"], form="symmetric"),
    }[cell["randomizer"]]
    return rows, Curator(data.labels, data.space, budget=cell["epsilon"], units=data.units).randomize(randomizer)


def two_stages(data: Data, cell: Cell, draw: int) -> tuple[np.ndarray, Release]:
    """A prior for each cluster of features from a release of some rows, and with it a release of the others.

    The rows of the two releases are disjoint, so that each label is charged for once. Rows are put in random order
    first: an account tells ranges of rows apart, and takes very scattered rows for all rows between them.
    """
    order = np.random.default_rng(draw).permutation(len(data.labels))
    curator = Curator(data.labels[order], data.space, budget=cell["epsilon"])
    first, second = slice(0, int(FIRST_STAGE * len(order))), slice(int(FIRST_STAGE * len(order)), len(order))
    cluster = KMeans(data.clusters, n_init=1, random_state=draw).fit_predict(data.features)[order]
    vectors = curator.randomize(SubsetResponse(data.space, cell["epsilon"]), first).unbiased()
    members = (vectors[cluster[first] == each] for each in range(data.clusters))
    means = np.stack([(part if len(part) else vectors).mean(axis=0) for part in members])
    prior = ClassProbabilities(on_simplex(means)[cluster[second]], data.space.points)
    informed = PriorResponse(data.space, cell["epsilon"], prior)
    return order[second], curator.randomize(informed, second)


def on_simplex(points: np.ndarray) -> np.ndarray:
    """The nearest distribution to each row (Duchi et al. 2008)."""
    falling = -np.sort(-points, axis=1)
    spare = (np.cumsum(falling, axis=1) - 1.0) / np.arange(1, points.shape[1] + 1)
    last = (falling > spare).sum(axis=1) - 1
    kept = np.maximum(points - spare[np.arange(len(points)), last][:, None], 0.0)
    return kept / kept.sum(axis=1, keepdims=True)


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """A row for each method, all from one release."""
    data = loaded(given, cell["data"])
    rows, release = released(data, cell, draw)
    for method in cell.parts:
        yield {
            "rows": len(release),
            "classes": data.space.size,
            "method": method,
            "certified_epsilon": np.inf if release.is_public else release.guarantee.epsilon,
        } | scores(data, predicted(data, rows, release, method))


def predicted(data: Data, rows: np.ndarray, release: Release, method: str) -> np.ndarray:
    """Probabilities of the classes in declared order in the rows held out, by a model of a release alone."""
    if method == "constant":  # who knows how often each class occurs, and nothing of a row
        return np.tile(release.unbiased().mean(axis=0), (len(data.test_features), 1))
    if method in TREE_METHODS and data.columns is not None:
        trees = HistGradientBoostingClassifier(max_iter=50, random_state=0)
        model = ReleasedLabelClassifier(trees, method=method.removeprefix("trees "))
        fitted = model.fit(data.columns[0][rows], release)
        return ClassProbabilities.of(fitted, data.columns[1]).in_order(data.space.points)
    model, weights = SoftmaxRegression(method=method.removeprefix("evened ")), None
    if method.startswith("evened"):  # all rows count alike, whatever share of epsilon they have
        weights = 1.0 / pair_share(release.channel.membership)
    fitted = model.fit(data.features[rows], release, weights)
    return ClassProbabilities.of(fitted, data.test_features).in_order(data.space.points)


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


def page(frames: dict[str, pd.DataFrame], folder: Path) -> list[str]:
    """Tables of each measure, and differences in the expected order."""
    rows = frames["local"]
    places = rows["data"].map(list(TABLES).index) + 0.5 * rows["method"].isin(TREE_METHODS)  # whatever came first
    results = rows.iloc[np.argsort(places, kind="stable")]
    figure(results, folder / "local.png")
    text = [
        "",
        "Means over draws, with the standard deviation over draws in parentheses. *Gain* is the log loss of always",
        "predicting the shares of the classes, less that of the model: in nats, 0 is useless, more is better. Sets of",
        "one class are randomized response: there *subset* is not listed apart.",
    ]
    for name, part in results.groupby("data", sort=False):
        constant = part.loc[part["method"] == "constant", "log_loss"].mean()
        shown = part.assign(gain=constant - part["log_loss"]).replace({"randomizer": {"none": "no privacy"}})
        draws = part.loc[part["randomizer"] != "none"].groupby("method", sort=False)["draw"].nunique()
        counts = ", ".join(f"{number} ({method})" for method, number in draws.items())
        text += [
            "",
            f"## {name}",
            "",
            f"{part['rows'].max():,} rows, {part['classes'].max()} classes; draws: {counts}.",
        ]
        for column, title, scale, form in (
            ("accuracy", "accuracy, %", 100, ".1f"),
            ("gain", "gain", 1, ".3f"),
            ("auc", "area", 1, ".3f"),
        ):
            text += ["", *pivot(shown, ("randomizer", "method"), column, title=title, scale=scale, form=form)]
    return [*text, "", "## The order", "", *differences(results)]


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


def recipe(row: Row) -> str:
    """Number of changes of a learner: of the prior of intercepts, and before of the tolerance of the likelihood."""
    if row["method"] in (*TREE_METHODS, "constant"):
        return "1"
    return "3" if row["method"].endswith("likelihood") and row["randomizer"] != "none" else "2"


STUDY = Study(
    name="local",
    recipe=recipe,
    key=("data", "epsilon", "randomizer"),
    part="method",
    columns=(
        *("data", "rows", "classes", "epsilon", "randomizer", "method", "draw"),
        *("certified_epsilon", "accuracy", "log_loss", "auc", "seconds"),
    ),
    cells=cells,
    run=run,
    spots=(
        *(Spot(cell_of("digits", 2.0, "subset", each), "accuracy", {"method": each}) for each in METHODS),
        Spot(cell_of("digits", 0.5, "response", "likelihood"), "log_loss", {"method": "likelihood"}),
        Spot(cell_of("digits", 2.0, "prior", "plain"), "accuracy", {"method": "plain"}),
        Spot(cell_of("adult", 0.5, "response", "likelihood"), "accuracy", {"method": "likelihood"}, draws=2),
        Spot(cell_of("diabetes", 1.0, "response", "trees em"), "log_loss", {"method": "trees em"}, draws=1),
    ),
)
EXPERIMENT = Experiment(
    name="local",
    question="What does a model learn from labels that local randomizers released, over epsilon?",
    studies=(STUDY,),
    page=page,
    tables=tuple(TABLES),
    bundled=("digits",),
    epsilons=(0.5, 1.0, 2.0, 4.0),
)

if __name__ == "__main__":
    main(EXPERIMENT)
