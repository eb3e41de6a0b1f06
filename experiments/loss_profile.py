"""What features and a released label disclose together: Busa-Fekete et al. 2023, Figure 2.

Labels of published tables are declared public. loss_profile.md has the protocol and what the results show.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import _data
import numpy as np
import pandas as pd
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, table
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

from labeldp import Classes, Curator, RandomizedResponse, Release
from labeldp.audit import Neighbourhood, loss_profile
from labeldp.audit.attacks import LossProfile

#: The paper's lambdas: with this chance a label is drawn anew, evenly from both classes; half as often it is flipped.
LAMBDAS = (0.001, 0.01, 0.1)
DELTA, EVALUATED, SUSY_ROWS = 0.01, 20_000, 500_000
RELEASED_FLIP = 0.05  # of labels that were really released
SHARES = (0.5, 0.05, 0.01)
ENDS = {"_lower": "lower", "": "estimate", "_upper": "upper"}  # of a share, and of a column
POINTS = 61

Table = tuple[np.ndarray, np.ndarray]


def digits(_: Given) -> Table:
    """1 797 scanned digits of 8 x 8 pixels: is it even?"""
    features, labels = load_digits(return_X_y=True)
    return features / 16.0, labels % 2 == 0


def adult(given: Given) -> Table:
    """Adult, both of its files: is an income above 50 000 dollars?"""
    data = _data.adult(data_folder(given))
    labels = np.concatenate([data.labels, data.test_labels]) == ">50K"
    return np.concatenate([data.features, data.test_features]), labels


def criteo(given: Given) -> Table:
    """The first 10 000 rows of Criteo's challenge (the paper's kag14): is an advertisement clicked?"""
    path = data_folder(given) / "criteo" / "criteo_dac_head10000.txt.gz"
    frame = pd.read_csv(path, sep="\t", header=None)
    labels = frame.pop(0).to_numpy() == 1
    counts, words = [*range(1, 14)], [*range(14, 40)]
    missing = frame[counts].isna().astype(float).to_numpy()
    numbers = np.log1p(frame[counts].fillna(0.0).clip(lower=0.0)).to_numpy()
    return np.column_stack([scaled(numbers), missing, common(frame[words])]), labels


def talkingdata(given: Given) -> Table:
    """100 000 clicks on advertisements: was the app downloaded?"""
    path = data_folder(given) / "talkingdata" / "train_sample_100k.csv.gz"
    frame = pd.read_csv(path)
    often = frame.groupby("ip")["ip"].transform("size")
    hour = pd.to_datetime(frame["click_time"]).dt.hour
    numbers = np.column_stack([np.log(often), np.cos(hour * np.pi / 12), np.sin(hour * np.pi / 12)])
    return np.column_stack([scaled(numbers), common(frame[["app", "device", "os", "channel"]])]), (
        frame["is_attributed"].to_numpy() == 1
    )


def susy(given: Given) -> Table:
    """SUSY, its first rows: is a collision of particles one with new particles? The paper's table of 18 numbers."""
    path = Path(given.susy) if given.susy else next(susy_files(Path(given.folder or ".")), None)
    if path is None or not path.is_file():
        raise FileNotFoundError("no SUSY.csv or SUSY.csv.gz; give it with --susy, or put it into LABELDP_DATA/susy")
    frame = pd.read_csv(path, header=None, nrows=given.susy_rows)
    if frame.shape[1] != 19:
        raise ValueError(f"expected a label and 18 features in {path.name}, found {frame.shape[1]} columns")
    return scaled(frame.iloc[:, 1:].to_numpy(dtype=float)), frame[0].to_numpy() == 1


TABLES: dict[str, tuple[Callable[[Given], Table], tuple[int, ...]]] = {
    "digits": (digits, (50,)),
    "adult": (adult, (250, 1000)),
    "criteo": (criteo, (250, 1000)),
    "talkingdata": (talkingdata, (1000, 10_000)),
    "susy": (susy, (1000, 10_000)),
}


def susy_files(folder: Path) -> Iterator[Path]:
    """Files that may be SUSY, as published or unpacked."""
    names = ("SUSY.csv.gz", "SUSY.csv", "SUSY.gz")
    yield from (folder / "susy" / name for name in names if (folder / "susy" / name).is_file())


def scaled(numbers: np.ndarray) -> np.ndarray:
    """Columns in units of their standard deviation."""
    return (numbers - numbers.mean(axis=0)) / np.maximum(numbers.std(axis=0), 1e-12)


def common(words: pd.DataFrame) -> np.ndarray:
    """A column for each of the 24 most frequent words of a column, and one for the rest, at one over the root of two.

    So two rows with different words are at a distance of one, as numbers are that differ by a standard deviation.
    """
    parts = []
    for name in words:
        texts = words[name].fillna("").astype(str)
        often = texts.value_counts().index[:24]
        parts.append(pd.get_dummies(texts.where(texts.isin(often), "rest"), dtype=float).to_numpy())
    return np.concatenate(parts, axis=1) / np.sqrt(2)


def release_of(labels: np.ndarray, kind: str) -> Release:
    """The labels, declared public or released."""
    space = Classes([False, True])
    if kind == "public":
        return Release.public(labels, space)
    epsilon = float(np.log((1 - RELEASED_FLIP) / RELEASED_FLIP))
    return Curator(labels, space).randomize(RandomizedResponse(space, epsilon))


KEY = ("data", "labels", "neighbours")


def cells(given: Given) -> Iterator[Cell]:
    """Each table with its numbers of neighbours; one of them from released labels too."""
    for name in given.data:
        yield from (cell_of(name, "public", neighbours) for neighbours in TABLES[name][1])
        if name == "adult":
            yield cell_of(name, "released", 1000)


def cell_of(*values: object) -> Cell:
    """A table, its labels as they are or released, and a number of neighbours."""
    return Cell(dict(zip(KEY, values, strict=True)))


PROFILES: dict[tuple[object, ...], tuple[LossProfile, int]] = {}


def profile(given: Given, cell: Cell, draw: int) -> tuple[LossProfile, int]:
    """The profile of a cell, and the columns of its table; one for both results files."""
    key = (*cell.values.values(), draw)
    if key not in PROFILES:
        features, labels = TABLES[cell["data"]][0](given)
        found = loss_profile(
            features,
            release_of(labels, cell["labels"]),
            flips=[lam / 2 for lam in LAMBDAS],
            rows=min(EVALUATED, len(labels)),
            confidence=1 - DELTA,
            neighbourhood=Neighbourhood(cell["neighbours"]),
        )
        PROFILES[key] = found, features.shape[1]
    return PROFILES[key]


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """A row for each lambda."""
    found, columns = profile(given, cell, draw)
    for lam, curve in zip(LAMBDAS, found.curves, strict=True):
        row = {"lambda": lam, "flip": curve.flip, "epsilon": curve.epsilon, "rows": found.total, "columns": columns}
        row |= {"evaluated": found.evaluated, "p_plus": found.p_plus.estimate}
        row |= {f"beyond{end}": getattr(curve.beyond, name) for end, name in ENDS.items()}
        for share in SHARES:
            loss = curve.loss(share)
            row |= {f"loss_{share:g}_{name}": getattr(loss, name) for name in ENDS.values()}
        yield {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()}


def run_curves(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """The curves, point by point."""
    found, _ = profile(given, cell, draw)
    for curve in found.curves:
        for tau in np.linspace(curve.least, curve.epsilon + 10.0, POINTS):
            share = curve.share(float(tau))
            numbers = {"flip": curve.flip, "tau": tau} | {name: getattr(share, name) for name in ENDS.values()}
            yield {name: f"{number:.6g}" for name, number in numbers.items()}


def page(frames: dict[str, pd.DataFrame], folder: Path) -> list[str]:
    """Shares of rows beyond the static epsilon, and losses of shares of rows."""
    if "loss_profile_curves" in frames:
        draw(frames["loss_profile_curves"], folder / "loss_profile.png")
    text = [
        "",
        "Shares of rows in %, losses in nats; all bounds of a line of this table hold together with confidence",
        f"{1 - DELTA:g}. A loss of a share of rows is at least the first number, about the second.",
        "",
    ]
    head = ["table", "labels", "rows", "columns", "P(Y = 1)", "neighbours", "lambda", "static epsilon"]
    head += ["share beyond it", *(f"{100 * share:g} % of rows" for share in SHARES)]
    lines = []
    for row in frames["loss_profile"].to_dict("records"):
        beyond, low, high = (f"{100 * row[f'beyond{end}']:.1f}" for end in ("", "_lower", "_upper"))
        losses = [f"{row[f'loss_{each:g}_lower']:.2f}, {row[f'loss_{each:g}_estimate']:.2f}" for each in SHARES]
        size = [f"{row['rows']:,}", row["columns"], f"{row['p_plus']:.3g}", f"{row['neighbours']:,}"]
        about = [row["data"], row["labels"], *size, row["lambda"], f"{row['epsilon']:.2f}"]
        lines.append([*about, f"{beyond} ({low} to {high})", *losses])
    return [*text, *table(head, lines)]


def draw(points: pd.DataFrame, path: Path) -> None:
    """One panel for each table: estimates, bounds and static epsilons, at the larger number of neighbours."""
    names = list(dict.fromkeys(points["data"]))
    figure = Figure(figsize=(4.2 * max(1, len(names)), 3.6), layout="constrained")
    for place, name in enumerate(names):
        axes = figure.add_subplot(1, len(names), place + 1)
        mine = points[(points["data"] == name) & (points["labels"] == "public")]
        most = mine["neighbours"].max()
        for number, lam in enumerate(LAMBDAS):
            chosen = mine[(mine["neighbours"] == most) & np.isclose(mine["flip"], lam / 2)]
            axes.fill_between(
                chosen["tau"], chosen["lower"], chosen["upper"], color=f"C{number}", alpha=0.2, linewidth=0
            )
            axes.plot(chosen["tau"], chosen["estimate"], color=f"C{number}", label=f"lambda {lam:g}")
            axes.axvline(np.log((2 - lam) / lam), color=f"C{number}", linestyle=":")
        axes.set(title=f"{name}, {most:,} neighbours", xlabel="tau (nats)", ylabel="J(tau)" if place == 0 else "")
        axes.grid(alpha=0.3)
    figure.axes[0].legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=110)


def options(parser: argparse.ArgumentParser) -> None:
    """SUSY, which is too large to lie beside the other tables."""
    parser.add_argument("--susy", help="SUSY.csv or SUSY.csv.gz, as published")
    parser.add_argument("--susy-rows", type=int, default=SUSY_ROWS, help=f"its first rows (default: {SUSY_ROWS:,})")


PROFILE = Study(
    name="loss_profile",
    recipe="1",
    key=KEY,
    columns=(
        *("data", "labels", "neighbours", "lambda", "flip", "epsilon", "rows", "columns", "evaluated", "p_plus"),
        *("beyond_lower", "beyond", "beyond_upper"),
        *(f"loss_{share:g}_{end}" for share in SHARES for end in ("lower", "estimate", "upper")),
        "seconds",
    ),
    cells=cells,
    run=run,
    spots=(
        Spot(cell_of("criteo", "public", 1000), "beyond", {"lambda": 0.01}, draws=1, least=0.005),
        Spot(cell_of("criteo", "public", 1000), "beyond_lower", {"lambda": 0.1}, draws=1, least=0.005),
    ),
)
CURVES = Study(
    name="loss_profile_curves",
    recipe="1",
    key=KEY,
    columns=("data", "labels", "neighbours", "flip", "tau", "lower", "estimate", "upper"),
    cells=cells,
    run=run_curves,
)
EXPERIMENT = Experiment(
    name="loss_profile",
    question="How much do features and a released label disclose together, row by row?",
    studies=(PROFILE, CURVES),
    page=page,
    draws=1,
    tables=tuple(TABLES),
    usual=tuple(name for name in TABLES if name != "digits"),
    bundled=("digits", "susy"),
    options=options,
)

if __name__ == "__main__":
    main(EXPERIMENT)
