"""Real labels that were each randomized: what regressors learn from released numbers, over epsilon.

    python experiments/real_labels.py                                everything
    python experiments/real_labels.py --data progression --draws 1   a first look, without a folder of data
    python experiments/real_labels.py --report-only                  tables and figure from the rows at hand

Rows are written as they come, and those in the file are not computed again. README.md beside this file has the
protocol and what was found.
"""

import argparse
import csv
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from _factorization import factorize
from _real_data import TABLES, Data
from matplotlib.figure import Figure
from rich.progress import Progress
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
from labeldp.learning.sklearn import CellRegressor, NeighborsRegressor, ReleasedLabelRegressor, mean_in_cells

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
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
ROUNDS, UNUSED = 200, 60
CUTS = np.array([1.5, 2.5, 3.5, 4.5]) - 3.5  # cut points if ratings were 3.5, give or take 1
QUESTIONS = {1.0: 0.964, 2.0: 0.923, 4.0: 0.890, 8.0: 0.882}
COLUMNS = (
    *("data", "epsilon", "randomizer", "learner", "draw", "rows", "limit", "certified_epsilon"),
    *("rmse", "mae", "raw_rmse", "raw_mae", "seconds"),
)

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


@dataclass(frozen=True)
class Job:
    """One release, and the learners that learn from it; without privacy at infinite epsilon."""

    name: str
    data: Data
    epsilon: float
    randomizer: str
    draw: int
    learners: tuple[str, ...]

    @property
    def key(self) -> tuple[str, float, str, int]:
        """What tells it from others in the file of results."""
        return self.name, self.epsilon, self.randomizer, self.draw

    @property
    def space(self) -> Interval:
        """The declared range."""
        return self.data.space(self.epsilon)

    def curator(self) -> Curator:
        """A curator who spends epsilon and no more."""
        return Curator(self.data.labels, self.space, budget=self.epsilon)

    def released(self) -> Release:
        """A fresh draw."""
        if self.randomizer == "none":
            return Release.public(self.data.labels, self.space)
        if self.randomizer in COUNTED:
            return counted_response(self.curator(), self.epsilon, COUNTED[self.randomizer])
        return self.curator().randomize(LOCAL[self.randomizer](self.space, self.epsilon))


def jobs(name: str, data: Data, epsilons: list[float], draws: int) -> Iterator[Job]:
    """What is asked of a table; all of one draw come before the next."""
    for draw in range(draws):
        for randomizer, learners, most in SPECIAL.get(name, (FREE, *PLAN)):
            if draw < most:
                for epsilon in [np.inf] if randomizer == "none" else epsilons:
                    yield Job(name, data, epsilon, randomizer, draw, learners)


Found = tuple[str, float, np.ndarray]


def learned(job: Job) -> Iterator[Found]:
    """For each learner: its name, what was spent, and its predictions of the rows held out."""
    if job.randomizer == "paper":
        yield "paper neighbours", job.epsilon, neighbours_of_paper(job)
    elif job.randomizer == "cells":
        yield from asked_in_cells(job)
    else:
        release = job.released()
        spent = np.inf if release.is_public else release.guarantee.epsilon
        for learner in job.learners:
            yield learner, spent, LEARNERS[learner](job.data, release)


def neighbours_of_paper(job: Job) -> np.ndarray:
    """Zhao et al. 2025, equation (20) and theorem 6: Laplace noise on labels in [-1, 1], and k by the rate.

    The theorem has k up to a constant, for which 1 is taken here, and the number of features, for which their effective
    dimension is taken: it is smaller. The noise is drawn in floats, for comparison alone: do not release it.
    """
    low, high = job.space.low, job.space.high
    scaled = (2 * np.clip(job.data.labels, low, high) - low - high) / (high - low)
    rows, d = len(scaled), dimension(job.data)
    k = math.ceil(rows ** (2 / (2 + d)) * min(job.epsilon**2, 1.0) ** (-d / (2 + d)))
    noise = np.random.default_rng(job.draw).laplace(scale=2 / job.epsilon, size=rows)
    model = KNeighborsRegressor(min(k, rows)).fit(job.data.features, scaled + noise)
    found = np.clip(model.predict(job.data.test_features), -1, 1)
    return low + (found + 1) / 2 * (high - low)


def asked_in_cells(job: Job) -> Iterator[Found]:
    """A trusted curator answers with means of cells, over the declared range or clipped to quantiles."""
    rows = len(job.data.labels)
    cells: TreeCells = tree_cells(job.data.features, mean_cells(rows, job.epsilon, dimension(job.data)))
    spread = SPREAD * (job.space.high - job.space.low)
    curator = job.curator()
    answer = curator.answer(NoisyMean(job.space, job.epsilon, cells))
    model = CellRegressor(cells, spread=spread).fit(job.data.features, answer)
    yield "cells", answer.guarantee.epsilon, model.predict(job.data.test_features)
    curator = job.curator()
    model = mean_in_cells(curator, cells, job.epsilon, spread=spread)
    yield "clipped cells", max(curator.spent), model.predict(job.data.test_features)


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
    """What the library learns with if nothing is asked for."""
    return predicted(ReleasedLabelRegressor(), data, release)


def neighbours(data: Data, release: Release) -> np.ndarray:
    """Means over neighbours, whose number is chosen on released numbers."""
    return predicted(NeighborsRegressor(), data, release)


def neighbours_of_theory(data: Data, release: Release) -> np.ndarray:
    """Means over as many neighbours as the library's formula says."""
    return predicted(NeighborsRegressor(k="theory"), data, release)


def users_and_films(data: Data, release: Release) -> np.ndarray:
    """A number for each user and film, and features of both, by ridge regression; its penalty by released numbers."""
    table, test = data.pairs
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
    search.fit(np.column_stack([table.pairs, data.features]), release)
    return search.predict(np.column_stack([test, data.test_features]))


def factorization(data: Data, release: Release) -> np.ndarray:
    """Factors of users and films from the likelihood of the released numbers, as in ``movielens.py``."""
    table, test = data.pairs
    found = factorize(table, release.likelihood(), test, guess=CUTS, rounds=ROUNDS, unused=UNUSED)
    return found.probabilities @ np.array(release.space.points)


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
    """What a learner says of the rows held out."""
    return model.fit(data.features, release).predict(data.test_features)


def scores(data: Data, found: np.ndarray) -> dict[str, float]:
    """Errors in the declared range and on labels as they are; nothing else reads true test labels."""
    clipped = np.clip(data.test_labels, data.declared.low, data.declared.high)
    measured = {"": found - clipped, "raw_": found - data.test_labels}
    return {f"{name}rmse": round(float(np.sqrt(np.mean(error**2))), 4) for name, error in measured.items()} | {
        f"{name}mae": round(float(np.mean(np.abs(error))), 4) for name, error in measured.items()
    }


def rows_of(job: Job) -> Iterator[dict[str, object]]:
    """A row of results for each learner."""
    start = time.process_time()
    for learner, spent, found in learned(job):
        if learner not in job.learners:
            continue
        yield {
            "data": job.name,
            "epsilon": job.epsilon,
            "randomizer": job.randomizer,
            "learner": learner,
            "draw": job.draw,
            "rows": len(job.data.labels),
            "limit": job.space.high,
            "certified_epsilon": spent,
            "seconds": round(time.process_time() - start, 2),
        } | scores(job.data, found)
        start = time.process_time()


def run(names: list[str], folder: Path, epsilons: list[float], draws: int, output: Path) -> None:
    """Do what is not in the file of results yet."""
    done = set()
    if output.exists():
        keys = ["data", "epsilon", "randomizer", "draw", "learner"]
        done = set(pd.read_csv(output)[keys].itertuples(index=False, name=None))
    loaded = {name: TABLES[name](folder) for name in names}
    asked = [job for name in names for job in jobs(name, loaded[name], epsilons, draws)]
    asked.sort(key=lambda job: job.draw)
    with output.open("a", newline="") as file, Progress() as progress:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not file.tell():
            writer.writeheader()
        task = progress.add_task("releases", total=len(asked))
        for job in asked:
            progress.update(task, description=f"{job.name}, epsilon {job.epsilon:g}, {job.randomizer}, {job.draw}")
            if missing := tuple(each for each in job.learners if (*job.key, each) not in done):
                writer.writerows(list(rows_of(replace(job, learners=missing))))  # together: from one draw
                file.flush()
            progress.advance(task)


def report(results: pd.DataFrame, folder: Path) -> None:
    """Tables in Markdown and the figure."""
    text = [
        "# Results",
        "",
        "Made by `python experiments/real_labels.py --report-only` from `real_labels.csv`, and the variances by",
        "`--variances`; `../README.md` says what they mean. Errors on rows held out, means over draws with standard",
        "deviations over draws in parentheses. *Auto, default* is what the library takes if nothing is asked for.",
    ]
    for name, part in results.groupby("data", sort=False):
        draws = part.groupby(["randomizer", "learner"])["draw"].nunique()
        text += ["", f"## {name}", "", f"{part['rows'].max():,} rows to fit on; draws: {draws.min()} to {draws.max()}."]
        clipped = name.startswith("claims")
        text += ["", *table_of(part, "rmse", "root mean square error" + (" of clipped labels" if clipped else ""))]
        if clipped:
            text += ["", *table_of(part, "mae", "mean absolute error of clipped labels")]
            text += ["", *table_of(part, "raw_rmse", "root mean square error of labels as they are")]
            text += ["", *table_of(part, "raw_mae", "mean absolute error of labels as they are")]
    text += ["", "## Against the default", "", *differences(results)]
    variances = folder / "real_labels_variances.csv"
    if variances.exists():
        text += ["", "## Variances", "", *variance_table(pd.read_csv(variances))]
    (folder / "real_labels.md").write_text("\n".join(text) + "\n")
    figure(results, folder / "real_labels.png")


def table_of(part: pd.DataFrame, column: str, title: str) -> list[str]:
    """One measure, by randomizer, learner and epsilon."""
    cells = part.groupby(["randomizer", "learner", "epsilon"])[column].agg(["mean", "std"])
    epsilons = sorted(part.loc[np.isfinite(part["epsilon"]), "epsilon"].unique())
    digits = max(0, 3 - int(np.log10(max(cells["mean"].max(), 1.0))))
    head = [title, "learner", *(f"epsilon {each:g}" for each in epsilons)]
    text = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for randomizer, learner in sorted(dict.fromkeys(key[:2] for key in cells.index), key=place_of):
        found = []
        for epsilon in epsilons:
            key = (randomizer, learner, np.inf if randomizer == "none" else epsilon)
            mean, std = cells.loc[key] if key in cells.index else (np.nan, np.nan)
            spread = f" ({std:.{digits}f})" if std >= 0 else ""
            found.append(f"{mean:.{digits}f}{spread}" if mean >= 0 else "")
        shown = "no privacy" if randomizer == "none" else randomizer
        text.append(f"| {shown} | {learner} | {' | '.join(found)} |")
    return text


def place_of(way: tuple[str, str]) -> int:
    """Where a randomizer and a learner stand in tables."""
    plans = (PLAN, *SPECIAL.values(), (FREE,))
    ways = [(randomizer, learner) for plan in plans for randomizer, learners, _ in plan for learner in learners]
    return list(dict.fromkeys(ways)).index(way)


def differences(results: pd.DataFrame) -> list[str]:
    """By how much each other way errs more than the default, in percent of what the default errs, with its error."""
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


def variances() -> pd.DataFrame:
    """Mean and largest variance of each law, for labels spread evenly over [-1, 1]; of bins the mean squared error."""
    space = Interval(-1, 1, 1 / 32)
    even = np.full(space.size, 1 / space.size)
    ways = dict(LOCAL) | {"bins": lambda space, epsilon: BinResponse(space, epsilon, even)}
    rows = []
    for epsilon in VARIANCE_EPSILONS:
        for name, make in ways.items():
            channel = make(space, epsilon).channel()
            squares = (channel.variances + (channel.means - np.arange(space.size)) ** 2) * space.step**2
            rows.append({"randomizer": name, "epsilon": epsilon, "mean": squares.mean(), "largest": squares.max()})
    return pd.DataFrame(rows).round(5)


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


def main() -> None:
    """Read the command line, run, and report."""
    parser = argparse.ArgumentParser(description="What regressors learn from released numbers, over epsilon.")
    parser.add_argument(
        "--data", default=",".join([*TABLES][1:]), help="tables, separated by commas (progression needs no folder)"
    )
    parser.add_argument("--draws", type=int, default=10, help="releases of each kind (default: 10)")
    parser.add_argument("--epsilons", default=",".join(f"{each:g}" for each in EPSILONS), help="separated by commas")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results", help="folder to write to")
    parser.add_argument("--variances", action="store_true", help="the variances of randomizers, and no more")
    parser.add_argument("--report-only", action="store_true", help="tables and figure from the rows at hand")
    asked = parser.parse_args()
    asked.results.mkdir(parents=True, exist_ok=True)
    output = asked.results / "real_labels.csv"
    if asked.variances:
        variances().to_csv(asked.results / "real_labels_variances.csv", index=False, lineterminator="\n")
    elif not asked.report_only:
        names, folder = asked.data.split(","), os.environ.get("LABELDP_DATA")
        if unknown := set(names) - set(TABLES):
            sys.exit(f"expected tables among {', '.join(TABLES)}, found {', '.join(sorted(unknown))}")
        if folder is None and names != ["progression"]:
            sys.exit("expected a folder of data sets, found none; set LABELDP_DATA, or ask for --data progression")
        run(names, Path(folder or "."), [float(each) for each in asked.epsilons.split(",")], asked.draws, output)
    if output.exists():
        rows = pd.read_csv(output)
        report(rows.iloc[np.argsort(rows["data"].map(list(TABLES).index), kind="stable")], asked.results)
    print(f"tables, figure and rows: {asked.results}")


if __name__ == "__main__":
    main()
