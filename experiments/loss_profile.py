"""What features and a released label give away together: Busa-Fekete et al. 2023, Figure 2, on data at hand.

    python experiments/loss_profile.py                              all tables that are there
    python experiments/loss_profile.py --data digits                a first look, without a folder of data
    python experiments/loss_profile.py --data susy --susy SUSY.csv.gz
    python experiments/loss_profile.py --report-only                table and figure from the rows at hand

Labels of published tables are declared public. Figures are written as they come, and those in the file are not computed
again. README.md beside this file has the protocol and what was found.
"""

import argparse
import csv
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import _data
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

from labeldp import Classes, Curator, RandomizedResponse, Release
from labeldp.audit import loss_profile
from labeldp.audit.attacks import LossProfile

RESULTS = Path(__file__).parent / "results"
#: The paper's lambdas: with this chance a label is drawn anew, evenly from both classes; half as often it is flipped.
LAMBDAS = (0.001, 0.01, 0.1)
DELTA, EVALUATED, SUSY_ROWS = 0.01, 20_000, 500_000
RELEASED_FLIP = 0.05  # of labels that were really released
SHARES = (0.5, 0.05, 0.01)
COLUMNS = (
    *("data", "labels", "neighbours", "lambda", "flip", "epsilon", "rows", "columns", "evaluated", "p_plus"),
    *("beyond_lower", "beyond", "beyond_upper"),
    *(f"loss_{share:g}_{end}" for share in SHARES for end in ("lower", "estimate", "upper")),
    "seconds",
)
CURVE_COLUMNS = ("data", "labels", "neighbours", "flip", "tau", "lower", "estimate", "upper")
POINTS = 61

Table = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Job:
    """A table, its labels as they are or released, and a number of neighbours."""

    data: str
    labels: str
    neighbours: int

    @property
    def key(self) -> tuple[str, str, str]:
        """Its place in the file of results."""
        return self.data, self.labels, str(self.neighbours)


def digits(_: argparse.Namespace) -> Table:
    """1 797 scanned digits of 8 x 8 pixels: is it even?"""
    features, labels = load_digits(return_X_y=True)
    return features / 16.0, labels % 2 == 0


def adult(given: argparse.Namespace) -> Table:
    """Adult, both of its files: is an income above 50 000 dollars?"""
    data = _data.adult(folder_of(given, "adult"))
    labels = np.concatenate([data.labels, data.test_labels]) == ">50K"
    return np.concatenate([data.features, data.test_features]), labels


def criteo(given: argparse.Namespace) -> Table:
    """The first 10 000 rows of Criteo's challenge (the paper's kag14): is an advertisement clicked?"""
    path = folder_of(given, "criteo") / "criteo" / "criteo_dac_head10000.txt.gz"
    frame = pd.read_csv(path, sep="\t", header=None)
    labels = frame.pop(0).to_numpy() == 1
    counts, words = [*range(1, 14)], [*range(14, 40)]
    missing = frame[counts].isna().astype(float).to_numpy()
    numbers = np.log1p(frame[counts].fillna(0.0).clip(lower=0.0)).to_numpy()
    return np.column_stack([scaled(numbers), missing, common(frame[words])]), labels


def talkingdata(given: argparse.Namespace) -> Table:
    """100 000 clicks on advertisements: was the app downloaded?"""
    path = folder_of(given, "talkingdata") / "talkingdata" / "train_sample_100k.csv.gz"
    frame = pd.read_csv(path)
    often = frame.groupby("ip")["ip"].transform("size")
    hour = pd.to_datetime(frame["click_time"]).dt.hour
    numbers = np.column_stack([np.log(often), np.cos(hour * np.pi / 12), np.sin(hour * np.pi / 12)])
    return np.column_stack([scaled(numbers), common(frame[["app", "device", "os", "channel"]])]), (
        frame["is_attributed"].to_numpy() == 1
    )


def susy(given: argparse.Namespace) -> Table:
    """SUSY, its first rows: is a collision of particles one with new particles? The paper's table of 18 numbers."""
    path = Path(given.susy) if given.susy else next(susy_files(folder_of(given, "susy")), None)
    if path is None or not path.is_file():
        raise FileNotFoundError("no SUSY.csv or SUSY.csv.gz; give it with --susy, or put it into LABELDP_DATA/susy")
    frame = pd.read_csv(path, header=None, nrows=given.susy_rows)
    if frame.shape[1] != 19:
        raise ValueError(f"expected a label and 18 features in {path.name}, found {frame.shape[1]} columns")
    return scaled(frame.iloc[:, 1:].to_numpy(dtype=float)), frame[0].to_numpy() == 1


TABLES: dict[str, tuple[Callable[[argparse.Namespace], Table], tuple[int, ...]]] = {
    "digits": (digits, (50,)),
    "adult": (adult, (250, 1000)),
    "criteo": (criteo, (250, 1000)),
    "talkingdata": (talkingdata, (1000, 10_000)),
    "susy": (susy, (1000, 10_000)),
}


def folder_of(given: argparse.Namespace, name: str) -> Path:
    """The folder of data sets."""
    if not given.folder:
        if name == "susy":
            return Path()
        raise FileNotFoundError("LABELDP_DATA names no folder")
    return Path(given.folder)


def susy_files(folder: Path) -> Iterator[Path]:
    """Files that may be SUSY, as published or unpacked."""
    names = ("SUSY.csv.gz", "SUSY.csv", "SUSY.gz")
    yield from (folder / "susy" / name for name in names if (folder / "susy" / name).is_file())


def scaled(numbers: np.ndarray) -> np.ndarray:
    """Columns in units of their deviation."""
    return (numbers - numbers.mean(axis=0)) / np.maximum(numbers.std(axis=0), 1e-12)


def common(words: pd.DataFrame) -> np.ndarray:
    """A column for each of the 24 most frequent words of a column, and one for the rest, at one over the root of two.

    So two rows with different words are at a distance of one, as numbers are that differ by a deviation.
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


def jobs(names: list[str]) -> Iterator[Job]:
    """What there is to compute; from released labels on one table."""
    for name in names:
        for neighbours in TABLES[name][1]:
            yield Job(name, "public", neighbours)
        if name == "adult":
            yield Job(name, "released", 1000)


def rows_of(job: Job, found: LossProfile, columns: int, seconds: float) -> Iterator[dict[str, object]]:
    """A row for each flip probability."""
    for lam, curve in zip(LAMBDAS, found.curves, strict=True):
        beyond, losses = curve.beyond, [curve.loss(share) for share in SHARES]
        values = [
            *(job.data, job.labels, job.neighbours, lam, curve.flip, curve.epsilon, found.total, columns),
            *(found.evaluated, found.p_plus.estimate, beyond.lower, beyond.estimate, beyond.upper),
            *(end for loss in losses for end in (loss.lower, loss.estimate, loss.upper)),
            seconds,
        ]
        shown = [f"{value:.6g}" if isinstance(value, float) else value for value in values]
        yield dict(zip(COLUMNS, shown, strict=True))


def points_of(job: Job, found: LossProfile) -> Iterator[dict[str, object]]:
    """The curves, point by point."""
    for curve in found.curves:
        for tau in np.linspace(curve.least, curve.epsilon + 10.0, POINTS):
            share = curve.share(float(tau))
            numbers = (curve.flip, tau, share.lower, share.estimate, share.upper)
            values = [job.data, job.labels, job.neighbours, *(f"{number:.6g}" for number in numbers)]
            yield dict(zip(CURVE_COLUMNS, values, strict=True))


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a file of results, none if it is not there."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(path: Path, columns: tuple[str, ...], rows: list[dict[str, object]]) -> None:
    """Add rows to a file of results."""
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


def compute(given: argparse.Namespace) -> None:
    """Everything that is not in the file yet; tables that are not there are skipped with a reason."""
    table, curves = given.results / "loss_profile.csv", given.results / "loss_profile_curves.csv"
    done = {(row["data"], row["labels"], row["neighbours"]) for row in read(table)}
    loaded: dict[str, Table] = {}
    missing: set[str] = set()
    for job in jobs(given.data):
        if job.key in done or job.data in missing:
            continue
        try:
            if job.data not in loaded:
                loaded = {job.data: TABLES[job.data][0](given)}
        except FileNotFoundError as problem:
            print(f"{job.data} is left out: {problem}")
            missing.add(job.data)
            continue
        features, labels = loaded[job.data]
        start = time.perf_counter()
        found = loss_profile(
            features,
            release_of(labels, job.labels),
            flips=[lam / 2 for lam in LAMBDAS],
            neighbours=job.neighbours,
            rows=min(EVALUATED, len(labels)),
            confidence=1 - DELTA,
        )
        seconds = time.perf_counter() - start
        write(curves, CURVE_COLUMNS, list(points_of(job, found)))
        write(table, COLUMNS, list(rows_of(job, found, features.shape[1], seconds)))
        print(f"{job.data}, {job.labels} labels, {job.neighbours:,} neighbours: {seconds:.0f} s", flush=True)


def report(folder: Path) -> None:
    """The table in words, and the figure."""
    rows = read(folder / "loss_profile.csv")
    lines = [
        "# Results",
        "",
        "Made by `python experiments/loss_profile.py --report-only` from `loss_profile.csv`; `../README.md` says what",
        "they mean. Shares of rows in %, losses in nats; all bounds of a row of this table hold together with",
        f"confidence {1 - DELTA:g}. A loss of a share of rows is at least the first number, about the second.",
        "",
        "| table | labels | rows | columns | P(Y = 1) | neighbours | lambda | static epsilon | share beyond it | "
        "50 % of rows | 5 % of rows | 1 % of rows |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {row['data']} | {row['labels']} | {int(row['rows']):,} | {row['columns']} | {float(row['p_plus']):.3g} "
        f"| {int(row['neighbours']):,} | {row['lambda']} | {float(row['epsilon']):.2f} "
        f"| {percent(row['beyond'])} ({percent(row['beyond_lower'])} to {percent(row['beyond_upper'])}) | "
        + " | ".join(f"{nats(row, share, 'lower')}, {nats(row, share, 'estimate')}" for share in SHARES)
        + " |"
        for row in rows
    ]
    (folder / "loss_profile.md").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    draw(read(folder / "loss_profile_curves.csv"), folder / "loss_profile.png")


def percent(share: str) -> str:
    """A share as people read it."""
    return f"{100 * float(share):.1f}"


def nats(row: dict[str, str], share: float, end: str) -> str:
    """A loss as people read it."""
    return f"{float(row[f'loss_{share:g}_{end}']):.2f}"


def draw(points: list[dict[str, str]], path: Path) -> None:
    """One panel for each table: estimates, bounds and static epsilons, at the larger number of neighbours."""
    names = list(dict.fromkeys(row["data"] for row in points))
    figure = Figure(figsize=(4.2 * max(1, len(names)), 3.6), layout="constrained")
    for place, name in enumerate(names):
        axes = figure.add_subplot(1, len(names), place + 1)
        mine = [row for row in points if row["data"] == name and row["labels"] == "public"]
        most = max(int(row["neighbours"]) for row in mine)
        for number, lam in enumerate(LAMBDAS):
            chosen = [row for row in mine if int(row["neighbours"]) == most and np.isclose(float(row["flip"]), lam / 2)]
            tau, low, middle, high = (
                [float(row[end]) for row in chosen] for end in ("tau", "lower", "estimate", "upper")
            )
            axes.fill_between(tau, low, high, color=f"C{number}", alpha=0.2, linewidth=0)
            axes.plot(tau, middle, color=f"C{number}", label=f"lambda {lam:g}")
            axes.axvline(np.log((2 - lam) / lam), color=f"C{number}", linestyle=":")
        axes.set(title=f"{name}, {most:,} neighbours", xlabel="tau (nats)", ylabel="J(tau)" if place == 0 else "")
        axes.grid(alpha=0.3)
    figure.axes[0].legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=110)


def main() -> None:
    """Compute what is missing, then write table and figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="*", choices=TABLES, default=["adult", "criteo", "talkingdata", "susy"])
    parser.add_argument("--susy", help="SUSY.csv or SUSY.csv.gz, as published")
    parser.add_argument("--susy-rows", type=int, default=SUSY_ROWS)
    parser.add_argument("--folder", default=os.environ.get("LABELDP_DATA"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--report-only", action="store_true")
    given = parser.parse_args()
    if not given.report_only:
        compute(given)
    if (given.results / "loss_profile.csv").exists():
        report(given.results)


if __name__ == "__main__":
    main()
