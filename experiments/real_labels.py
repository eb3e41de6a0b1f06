"""Numeric labels that were each randomized: what regressors learn from released numbers, over epsilon.

real_labels.md has the protocol and what the results show.
"""

import argparse
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from _real_data import TABLES, Data
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, pivot
from matplotlib.figure import Figure
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from labeldp import (
    BinResponse,
    Curator,
    Interval,
    LaplaceResponse,
    NoisyMean,
    OneBitResponse,
    OptimalResponse,
    PiecewiseResponse,
    Randomizer,
    Release,
    best_number_response,
    counted_response,
)
from labeldp.bounds import effective_dimension
from labeldp.learning.cells import TreeCells, mean_cells, tree_cells
from labeldp.learning.metrics import squared_scorer
from labeldp.learning.ratings import FactorizationClassifier
from labeldp.learning.sklearn import CellRegressor, NeighborsRegressor, ReleasedLabelRegressor, mean_in_cells

VARIANCE_EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 6.0)
#: Mean variances of labels spread evenly over [-1, 1], of the laws without a grid.
WITHOUT_GRID = {
    "laplace": (128.0, 32.0, 8.00, 2.00, 0.500, 0.222),
    "one-bit": (64.3, 16.3, 4.32, 1.36, 0.709, 0.643),
    "piecewise": (80.5, 19.0, 4.25, 0.859, 0.142, 0.040),
    "optimal": (64.0, 16.0, 3.91, 0.787, 0.108, 0.022),
}
SPREAD = 0.25  # of labels in a cell, as a share of the range; what ``mean_cells`` takes for granted, too
RIDGE_PENALTIES = 10.0 ** np.arange(-1.0, 6.5, 0.5)
PAIR_PENALTIES = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
LOCAL: Mapping[str, Callable[[Interval, float], Randomizer]] = {
    "laplace": LaplaceResponse,
    "one-bit": OneBitResponse,
    "piecewise": PiecewiseResponse,
    "optimal": OptimalResponse,
    "auto": best_number_response,
}
COUNTED = {"counted bins": BinResponse, "counted optimal": OptimalResponse}

#: Which learners take which releases, and in how many draws at most; the first draws are shared.
FREE = ("none", ("constant", "ridge", "boosting", "neighbours"), 1)
PLAN = (
    ("paper", ("paper neighbours",), 9),
    ("laplace", ("ridge", "theory neighbours"), 9),
    ("one-bit", ("ridge",), 9),
    ("piecewise", ("ridge",), 9),
    ("optimal", ("ridge",), 9),
    ("counted bins", ("ridge",), 9),
    ("counted optimal", ("ridge",), 9),
    ("auto", ("default", "ridge", "boosting", "theory neighbours"), 9),
    ("cells", ("cells", "clipped cells"), 9),
    ("laplace", ("neighbours",), 2),
    ("auto", ("neighbours",), 2),
)
#: Of tables that answer one question of their own.
SPECIAL = {
    "limited claims": (
        ("none", ("constant",), 1),
        ("paper", ("paper neighbours",), 9),
        ("laplace", ("ridge",), 9),
        ("auto", ("default", "ridge"), 9),
    ),
    "all ratings": (
        ("none", ("users and films", "factorization"), 1),
        ("auto", ("users and films", "factorization"), 2),
    ),
}


def loaded(given: Given, name: str) -> Data:
    """A table; progression needs no folder."""
    return _loaded(name, Path() if name == "progression" else data_folder(given))


@functools.cache
def _loaded(name: str, folder: Path) -> Data:
    return TABLES[name](folder)


def cells(given: Given) -> Iterator[Cell]:
    """Each release of each table, over epsilon."""
    for name in [] if given.variances else given.data:
        for randomizer, learners, most in SPECIAL.get(name, (FREE, *PLAN)):
            for epsilon in [np.inf] if randomizer == "none" else given.epsilons:
                yield cell_of(name, epsilon, randomizer, *learners, draws=range(most))


def cell_of(data: str, epsilon: float, randomizer: str, *learners: str, draws: range | None = None) -> Cell:
    """One release, and the learners that learn from it; without privacy at infinite epsilon."""
    return Cell({"data": data, "epsilon": epsilon, "randomizer": randomizer}, learners, draws)


def curator(data: Data, epsilon: float) -> Curator:
    """A curator who spends epsilon and no more."""
    return Curator(data.labels, data.space(epsilon), budget=epsilon)


def released(data: Data, epsilon: float, randomizer: str) -> Release:
    """A fresh draw."""
    space = data.space(epsilon)
    if randomizer == "none":
        return Release.public(data.labels, space)
    if randomizer in COUNTED:
        return counted_response(curator(data, epsilon), epsilon, COUNTED[randomizer])
    return curator(data, epsilon).randomize(LOCAL[randomizer](space, epsilon))


Found = tuple[str, float, np.ndarray]


def learned(data: Data, cell: Cell, draw: int) -> Iterator[Found]:
    """For each learner: its name, what was spent, and its predictions of the rows held out."""
    epsilon, randomizer = cell["epsilon"], cell["randomizer"]
    if randomizer == "paper":
        yield "paper neighbours", epsilon, neighbours_of_paper(data, epsilon, draw)
    elif randomizer == "cells":
        yield from asked_in_cells(data, epsilon)
    else:
        release = released(data, epsilon, randomizer)
        spent = np.inf if release.is_public else release.guarantee.epsilon
        for learner in cell.parts:
            yield learner, spent, LEARNERS[learner](data, release)


def neighbours_of_paper(data: Data, epsilon: float, draw: int) -> np.ndarray:
    """Zhao et al. 2025, equation (20) and theorem 6: Laplace noise on labels in [-1, 1], and k by the rate.

    The theorem has k up to a constant, for which 1 is taken here, and the number of features, for which their effective
    dimension is taken: it is smaller. The noise is drawn in floats, for comparison alone: do not release it.
    """
    low, high = data.space(epsilon).low, data.space(epsilon).high
    scaled = (2 * np.clip(data.labels, low, high) - low - high) / (high - low)
    rows, d = len(scaled), dimension(data)
    k = math.ceil(rows ** (2 / (2 + d)) * min(epsilon**2, 1.0) ** (-d / (2 + d)))
    noise = np.random.default_rng(draw).laplace(scale=2 / epsilon, size=rows)
    model = KNeighborsRegressor(min(k, rows)).fit(data.features, scaled + noise)
    found = np.clip(model.predict(data.test_features), -1, 1)
    return low + (found + 1) / 2 * (high - low)


def asked_in_cells(data: Data, epsilon: float) -> Iterator[Found]:
    """A trusted curator answers with means of cells, over the declared range or clipped to quantiles."""
    rows = len(data.labels)
    cells: TreeCells = tree_cells(data.features, mean_cells(rows, epsilon, dimension(data)))
    spread = SPREAD * (data.space(epsilon).high - data.space(epsilon).low)
    holder = curator(data, epsilon)
    answer = holder.answer(NoisyMean(data.space(epsilon), epsilon, cells))
    model = CellRegressor(cells, spread=spread).fit(data.features, answer)
    yield "cells", answer.guarantee.epsilon, model.predict(data.test_features)
    holder = curator(data, epsilon)
    model = mean_in_cells(holder, cells, epsilon, spread=spread)
    yield "clipped cells", max(holder.spent), model.predict(data.test_features)


def dimension(data: Data) -> float:
    """The effective dimension of the features."""
    return effective_dimension(np.cov(data.features.T)).participation


def constant(data: Data, release: Release) -> np.ndarray:
    """The mean of the released numbers."""
    return np.full(len(data.test_features), release.numbers().mean())


def ridge(data: Data, release: Release) -> np.ndarray:
    """Ridge regression on scaled features, its penalty chosen on released numbers."""
    return predicted(ReleasedLabelRegressor(make_pipeline(StandardScaler(), RidgeCV(RIDGE_PENALTIES))), data, release)


def boosting(data: Data, release: Release) -> np.ndarray:
    """Few small trees."""
    trees = HistGradientBoostingRegressor(max_iter=50, max_leaf_nodes=8, random_state=0)
    return predicted(ReleasedLabelRegressor(trees), data, release)


def default(data: Data, release: Release) -> np.ndarray:
    """The library's default learner."""
    return predicted(ReleasedLabelRegressor(), data, release)


def neighbours(data: Data, release: Release) -> np.ndarray:
    """Means over neighbours, whose number is chosen on released numbers."""
    return predicted(NeighborsRegressor(), data, release)


def neighbours_of_theory(data: Data, release: Release) -> np.ndarray:
    """Means over as many neighbours as the library's formula says."""
    return predicted(NeighborsRegressor(k="theory"), data, release)


def users_and_films(data: Data, release: Release) -> np.ndarray:
    """A number for each user and film, and features of both, by ridge regression; its penalty by released numbers."""
    pairs, test = (part[:, :2] for part in data.rated)
    both = ColumnTransformer(
        [("pair", OneHotEncoder(handle_unknown="ignore"), [0, 1]), ("about", StandardScaler(), slice(2, None))],
        sparse_threshold=1.0,
    )
    model = Pipeline([("columns", both), ("model", Ridge(solver="lsqr"))])
    search = GridSearchCV(
        ReleasedLabelRegressor(model, shrink=False),
        {"estimator__model__alpha": PAIR_PENALTIES},
        scoring=squared_scorer,
        cv=3,
    )
    search.fit(np.column_stack([pairs, data.features]), release)
    return search.predict(np.column_stack([test, data.test_features]))


def factorization(data: Data, release: Release) -> np.ndarray:
    """Factors of users and films from the likelihood of the released numbers, as in ``movielens.py``."""
    rows, test = data.rated
    return FactorizationClassifier(public_rows=np.concatenate([rows, test])).fit(rows, release).predict_mean(test)


LEARNERS: Mapping[str, Callable[[Data, Release], np.ndarray]] = {
    "constant": constant,
    "ridge": ridge,
    "boosting": boosting,
    "default": default,
    "neighbours": neighbours,
    "theory neighbours": neighbours_of_theory,
    "users and films": users_and_films,
    "factorization": factorization,
}


def predicted(model: ReleasedLabelRegressor | NeighborsRegressor, data: Data, release: Release) -> np.ndarray:
    """Predictions of a learner for the rows held out."""
    return model.fit(data.features, release).predict(data.test_features)


def scores(data: Data, found: np.ndarray) -> dict[str, float]:
    """Errors in the declared range and on labels as they are; nothing else reads true test labels."""
    clipped = np.clip(data.test_labels, data.declared.low, data.declared.high)
    measured = {"": found - clipped, "raw_": found - data.test_labels}
    return {f"{name}rmse": round(float(np.sqrt(np.mean(error**2))), 4) for name, error in measured.items()} | {
        f"{name}mae": round(float(np.mean(np.abs(error))), 4) for name, error in measured.items()
    }


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """A row for each learner."""
    data = loaded(given, cell["data"])
    for learner, spent, found in learned(data, cell, draw):
        yield {
            "learner": learner,
            "rows": len(data.labels),
            "limit": data.space(cell["epsilon"]).high,
            "certified_epsilon": spent,
        } | scores(data, found)


def variance_cells(given: Given) -> Iterator[Cell]:
    """Each randomizer of numbers, and bins, over epsilon, where they are asked for."""
    for epsilon in VARIANCE_EPSILONS if given.variances else ():
        yield from (Cell({"randomizer": name, "epsilon": epsilon}) for name in (*LOCAL, "bins"))


def variance(_: Given, cell: Cell, __: int) -> Iterator[Row]:
    """Mean and largest variance, for labels spread evenly over [-1, 1]; of bins the mean squared error."""
    space = Interval(-1, 1, 1 / 32)
    even = np.full(space.size, 1 / space.size)
    ways = dict(LOCAL) | {"bins": lambda space, epsilon: BinResponse(space, epsilon, even)}
    channel = ways[cell["randomizer"]](space, cell["epsilon"]).channel()
    squares = (channel.variances + (channel.means - np.arange(space.size)) ** 2) * space.step**2
    yield {"mean": round(float(squares.mean()), 5), "largest": round(float(squares.max()), 5)}


def page(frames: dict[str, pd.DataFrame], folder: Path) -> list[str]:
    """Errors of each learner, by how much others err more than the default, and variances."""
    text = [
        "",
        "Errors on rows held out, means over draws with standard deviations over draws in parentheses. *Auto, default*",
        "is what the library takes if nothing is asked for.",
    ]
    if "real_labels" in frames:
        text += errors(frames["real_labels"], folder)
    if "real_labels_variances" in frames:
        text += ["", "## Variances", "", *variance_table(frames["real_labels_variances"])]
    return text


def errors(rows: pd.DataFrame, folder: Path) -> list[str]:
    """Errors of each learner on each table."""
    results = rows.iloc[np.argsort(rows["data"].map(list(TABLES).index), kind="stable")]
    figure(results, folder / "real_labels.png")
    text = []
    for name, part in results.groupby("data", sort=False):
        draws = part.groupby(["randomizer", "learner"])["draw"].nunique()
        text += ["", f"## {name}", "", f"{part['rows'].max():,} rows to fit on; draws: {draws.min()} to {draws.max()}."]
        clipped = name.startswith("claims")
        measures = {"rmse": "root mean square error" + (" of clipped labels" if clipped else "")}
        if clipped:
            measures["mae"] = "mean absolute error of clipped labels"
            measures["raw_rmse"] = "root mean square error of labels as they are"
            measures["raw_mae"] = "mean absolute error of labels as they are"
        for column, title in measures.items():
            places = max(0, 3 - int(np.log10(max(part[column].max(), 1.0))))
            order = sorted(dict.fromkeys(zip(part["randomizer"], part["learner"], strict=True)), key=place_of)
            lines = pivot(part, ["randomizer", "learner"], column, order=order, title=title, form=f".{places}f")
            text += ["", *(line.replace("| none |", "| no privacy |") for line in lines)]
    return [*text, "", "## Against the default", "", *differences(results)]


def place_of(way: tuple[str, str]) -> int:
    """Place of a randomizer and a learner in tables."""
    plans = (PLAN, *SPECIAL.values(), (FREE,))
    ways = [(randomizer, learner) for plan in plans for randomizer, learners, _ in plan for learner in learners]
    return list(dict.fromkeys(ways)).index(way)


def differences(results: pd.DataFrame) -> list[str]:
    """Error of each other way above that of the default, in percent, with its standard error."""
    epsilons = sorted(results.loc[np.isfinite(results["epsilon"]), "epsilon"].unique())
    text = [
        "Root mean square errors above that of *auto, default*, in percent of it, with the standard error of the",
        "difference where there are several draws; below zero the other way is better.",
    ]
    for name, part in results.groupby("data", sort=False):
        cells = part.groupby(["randomizer", "learner", "epsilon"])["rmse"].agg(["mean", "sem"])
        if ("auto", "default") not in {key[:2] for key in cells.index}:
            continue
        head = [name, "learner", *(f"epsilon {each:g}" for each in epsilons)]
        text += ["", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
        for way in sorted({key[:2] for key in cells.index if key[0] != "none"} - {("auto", "default")}, key=place_of):
            found = []
            for epsilon in epsilons:
                keys = [(*key, epsilon) for key in (("auto", "default"), way)]
                if not all(key in cells.index for key in keys):
                    found.append("")
                    continue
                ours, other = (cells.loc[key] for key in keys)
                error = np.hypot(ours["sem"], other["sem"])
                over = f"{100 * (other['mean'] / ours['mean'] - 1):+.1f}"
                found.append(over + (f" ({100 * error / ours['mean']:.1f})" if error >= 0 else ""))
            text.append(f"| {' | '.join([*way, *found])} |")
    return text


def variance_table(found: pd.DataFrame) -> list[str]:
    """Beside what the laws have without a grid."""
    text = [
        "Variance of a released number, mean over labels spread evenly over [-1, 1] (65 points), in parentheses the",
        "largest; *no grid*: the mean of the law on the line, as computed from its formula. Of bins, which are biased,",
        "the squared error under an even prior.",
        "",
        f"| randomizer | {' | '.join(f'epsilon {each:g}' for each in VARIANCE_EPSILONS)} |",
        f"|{' --- |' * (1 + len(VARIANCE_EPSILONS))}",
    ]
    for name, part in found.groupby("randomizer", sort=False):
        cells = [f"{mean:.3g} ({most:.3g})" for mean, most in zip(part["mean"], part["largest"], strict=True)]
        text.append(f"| {name} | {' | '.join(cells)} |")
        if name in WITHOUT_GRID:
            text.append(f"| {name}, no grid | {' | '.join(f'{each:.3g}' for each in WITHOUT_GRID[name])} |")
    return text


LINES = {
    ("paper", "paper neighbours"): ("paper: Laplace, neighbours", "tab:gray", "-"),
    ("laplace", "neighbours"): ("Laplace, neighbours chosen", "tab:orange", "--"),
    ("laplace", "ridge"): ("Laplace, ridge", "tab:orange", "-"),
    ("counted bins", "ridge"): ("bins, ridge by likelihood", "tab:purple", "-"),
    ("auto", "neighbours"): ("auto, neighbours chosen", "tab:blue", "--"),
    ("auto", "default"): ("auto, default", "tab:blue", "-"),
    ("cells", "clipped cells"): ("central: cells", "tab:green", "-"),
}


def figure(results: pd.DataFrame, path: Path) -> None:
    """The error over epsilon, a panel for each table."""
    names = [name for name in dict.fromkeys(results["data"]) if name not in SPECIAL]
    drawing = Figure(figsize=(0.6 + 3.4 * len(names), 4.0), layout="constrained")
    for axes, name in zip(drawing.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        means = results[results["data"] == name].groupby(["randomizer", "learner", "epsilon"])["rmse"].mean()
        known = {key[:2] for key in means.index}
        floors = [means[way].iloc[0] for way in known if way[0] == "none"]
        for way, (label, colour, line) in LINES.items():
            if way in known:
                axes.plot(means[way].sort_index(), color=colour, linestyle=line, marker=".", linewidth=1.2, label=label)
        if floors:
            best, worst = min(floors), max(floors)
            for height, line, label in ((worst, ":", "constant"), (best, "-", "no privacy")):
                axes.axhline(height, color="0.3", linestyle=line, linewidth=1, label=label)
            axes.set_ylim(best - 0.1 * (worst - best), worst + 1.2 * (worst - best))
        axes.set(title=name, xlabel="epsilon")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.grid(alpha=0.3)
    drawing.axes[0].set_ylabel("root mean square error, held-out rows")
    handles, labels = drawing.axes[0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize="small")
    drawing.savefig(path, dpi=110)


def options(parser: argparse.ArgumentParser) -> None:
    """Variances."""
    parser.add_argument("--variances", action="store_true", help="the variances of randomizers, and no more")


#: Learners that changed since they were first measured.
CHANGED = ("neighbours", "ridge", "boosting", "default")


def recipe(row: Row) -> str:
    """2: neighbours, the expected factor of regressors, and auto's search; 3: factorizations of twelve factors."""
    if row.get("learner") == "factorization":
        return "3"
    changed = row["learner"] in CHANGED if "learner" in row else row["randomizer"] == "auto"
    return "2" if changed else "1"


ERRORS = Study(
    name="real_labels",
    recipe=recipe,
    key=("data", "epsilon", "randomizer"),
    part="learner",
    columns=(
        *("data", "epsilon", "randomizer", "learner", "draw", "rows", "limit", "certified_epsilon"),
        *("rmse", "mae", "raw_rmse", "raw_mae", "seconds"),
    ),
    cells=cells,
    run=run,
    spots=(
        *(
            Spot(cell_of("age", 1.0, each, "ridge"), "rmse", {"learner": "ridge"}, draws=3)
            for each in (*LOCAL, *COUNTED)
        ),
        Spot(cell_of("age", 2.0, "auto", "default"), "rmse", {"learner": "default"}, draws=3),
        Spot(cell_of("ratings", 2.0, "auto", "default"), "rmse", {"learner": "default"}, draws=3),
        Spot(cell_of("claims", 1.0, "laplace", "ridge"), "rmse", {"learner": "ridge"}, draws=3),
        Spot(cell_of("age", 1.0, "cells", "cells"), "rmse", {"learner": "cells"}, draws=3),
        Spot(cell_of("age", 1.0, "cells", "clipped cells"), "rmse", {"learner": "clipped cells"}, draws=3),
        Spot(cell_of("age", 1.0, "paper", "paper neighbours"), "rmse", {"learner": "paper neighbours"}, draws=3),
        Spot(cell_of("age", 4.0, "auto", "neighbours"), "rmse", {"learner": "neighbours"}, draws=2),
    ),
)
VARIANCES = Study(
    name="real_labels_variances",
    recipe=recipe,
    key=("randomizer", "epsilon"),
    columns=("randomizer", "epsilon", "mean", "largest"),
    cells=variance_cells,
    run=variance,
    spots=tuple(  # the search for auto's distribution ends a little elsewhere on another machine
        Spot(Cell({"randomizer": name, "epsilon": 1.0}), "mean", draws=1, least=2e-3) for name in (*LOCAL, "bins")
    ),
)
EXPERIMENT = Experiment(
    name="real_labels",
    question="What do regressors learn from released numbers, over epsilon, and how noisy are these?",
    studies=(ERRORS, VARIANCES),
    page=page,
    draws=10,
    tables=tuple(TABLES),
    usual=tuple(name for name in TABLES if name != "progression"),
    bundled=("progression",),
    epsilons=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    options=options,
)

if __name__ == "__main__":
    main(EXPERIMENT)
