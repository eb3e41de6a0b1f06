"""Linear heads from label moments of public features: how many test rows they name rightly, over epsilon.

    python experiments/moments.py --cache DIR               everything: features first, which are kept in DIR
    python experiments/moments.py --data mnist --draws 1    a first look
    python experiments/moments.py --report-only             tables from the rows at hand

Rows are written as they come, and those in the file are not computed again. README.md beside this file has the
protocol and what was found.
"""

import argparse
import csv
import hashlib
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from clusters import idx
from rich.progress import Progress

from labeldp import Classes, Curator, LabelMoments
from labeldp.learning.cells import embed
from labeldp.learning.sklearn import MomentClassifier

TABLES = ("mnist", "fashion-mnist")
SPACE = Classes(range(10))
EPSILONS = (0.01, 0.05, 0.1, 0.5, 1.0)
DELTA = 1e-6
NOISELESS = 600.0  # as good as no noise at all
FEATURES = ("components", "graph")
HEADS = tuple(itertools.product(("softmax", "squared"), (False, True)))
SETTINGS = {"components": 50, "neighbours": 15, "eigenvectors": 30}
COLUMNS = (
    *("data", "features", "epsilon", "draw", "loss", "projected", "rows", "columns"),
    *("certified_epsilon", "delta", "noise_deviation", "l2", "test_right", "seconds"),
)


@dataclass(frozen=True)
class Data:
    """A table.

    Attributes:
        features: Training and test features of each kind, which are public.
        labels: True labels of the training rows; only curators see them.
        test_labels: True labels of the test rows, read once for each finished head.
    """

    features: dict[str, tuple[np.ndarray, np.ndarray]]
    labels: np.ndarray
    test_labels: np.ndarray


@dataclass(frozen=True)
class Job:
    """The moments of one kind of features in one draw at one epsilon, for all heads; draw -1 is without noise."""

    data: str
    features: str
    epsilon: float
    draw: int


def loaded(name: str, folder: Path, cache: Path) -> Data:
    """A table from its published files, with features from the cache where those of these very images were kept."""
    parts = ("train", "t10k")
    images = [idx(folder / name / f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 784) for part in parts]
    labels = [idx(folder / name / f"{part}-labels-idx1-ubyte.gz", 8).astype(np.int64) for part in parts]
    mark = hashlib.sha256(b"".join([repr(SETTINGS).encode(), *(part.tobytes() for part in images)])).hexdigest()[:16]
    path = cache / f"moments-{name}-{mark}.npz"
    if not path.exists():
        embedding = embed(images[0].astype(np.float32), **SETTINGS)
        components = [embedding.components.transform(part.astype(np.float32)) for part in images]
        np.savez(path.with_suffix(".part.npz"), *components, embedding.places, embedding.transform(images[1]))
        path.with_suffix(".part.npz").replace(path)
    with np.load(path) as kept:
        found = [complete(kept[f"arr_{place}"]) for place in range(4)]
    return Data({"components": (found[0], found[1]), "graph": (found[2], found[3])}, *labels)


def complete(points: np.ndarray) -> np.ndarray:
    """Rows of length one, and a column of ones, for want of an intercept."""
    scaled = points / np.linalg.norm(points, axis=1, keepdims=True)
    return np.hstack([scaled, np.ones((len(points), 1))]).astype(np.float64)


def jobs(name: str, draws: int) -> Iterator[Job]:
    """What is asked of a table. All of one draw come before the next."""
    yield from (Job(name, kind, NOISELESS, -1) for kind in FEATURES)
    for draw in range(draws):
        yield from (Job(name, kind, epsilon, draw) for epsilon in EPSILONS for kind in FEATURES)


def done(data: Data, job: Job) -> Iterator[dict[str, object]]:
    """A row of results for each head. All heads of a draw learn from the same answer, which is charged for once."""
    features, others = data.features[job.features]
    curator = Curator(data.labels, SPACE, budget=(job.epsilon, DELTA))
    answer = curator.answer(LabelMoments(SPACE, job.epsilon, DELTA, features))
    for loss, project in HEADS:
        start = time.perf_counter()
        model = MomentClassifier(loss=loss, project=project).fit(features, answer)
        yield {
            "data": job.data,
            "features": job.features,
            "epsilon": job.epsilon,
            "draw": job.draw,
            "loss": loss,
            "projected": project,
            "rows": answer.rows,
            "columns": len(answer.value),
            "certified_epsilon": answer.guarantee.epsilon,
            "delta": answer.guarantee.delta,
            "noise_deviation": round(answer.noise_deviation, 4),
            "l2": float(f"{model.l2_:.4g}"),
            "test_right": round(float(np.mean(model.predict(others) == data.test_labels)), 5),
            "seconds": round(time.perf_counter() - start, 3),
        }


def run(names: list[str], folder: Path, cache: Path, draws: int, output: Path) -> None:
    """Do what is not in the file of results yet."""
    known = set()
    if output.exists():
        rows = pd.read_csv(output)
        known = set(rows[["data", "features", "epsilon", "draw"]].itertuples(index=False, name=None))
    with output.open("a", newline="") as file, Progress() as progress:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not file.tell():
            writer.writeheader()
        for name in names:
            asked = [job for job in jobs(name, draws) if (name, job.features, job.epsilon, job.draw) not in known]
            data = loaded(name, folder, cache) if asked else None
            for job in progress.track(asked, description=name):
                writer.writerows(list(done(data, job)))  # together: an answer is never drawn twice
                file.flush()


def report(results: pd.DataFrame, folder: Path) -> None:
    """Tables in Markdown."""
    text = [
        "# Results",
        "",
        "Made by `python experiments/moments.py --report-only` from `moments.csv`; `../README.md` says what they mean.",
        "Shares of test rows named rightly in %, means over draws, with the standard deviation over draws in",
        f"parentheses. Delta is {DELTA:g}. *No noise* is one draw at epsilon {NOISELESS:g}.",
    ]
    for (name, kind), part in results.groupby(["data", "features"], sort=False):
        draws = part.loc[part["draw"] >= 0, "draw"].nunique()
        about = f"{part['rows'].max():,} rows, {part['columns'].max()} columns; {draws} draws."
        text += ["", f"## {name}, {kind}", "", about, "", *table(part)]
    (folder / "moments.md").write_text("\n".join(text) + "\n")


def table(part: pd.DataFrame) -> list[str]:
    """One kind of features of a table, a line for each head."""
    epsilons = sorted(part.loc[part["draw"] >= 0, "epsilon"].unique())
    noise = part.groupby("epsilon")["noise_deviation"].first()
    head = ["head", *(f"epsilon {epsilon:g}" for epsilon in epsilons), "no noise"]
    text = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    text.append(f"| deviation of the noise | {' | '.join(f'{noise[each]:.3g}' for each in (*epsilons, NOISELESS))} |")
    for loss, project in HEADS:
        rows = part[(part["loss"] == loss) & (part["projected"] == project)]
        cells = rows.groupby("epsilon")["test_right"].agg(["mean", "std"]) * 100
        found = [f"{cells['mean'][epsilon]:.1f} ({cells['std'][epsilon]:.1f})" for epsilon in epsilons]
        name = f"{loss}, projected" if project else loss
        text.append(f"| {' | '.join([name, *found, format(cells['mean'][NOISELESS], '.1f')])} |")
    return text


def main() -> None:
    """Read the command line, run, and report."""
    parser = argparse.ArgumentParser(description="What heads fitted to label moments name, over epsilon.")
    parser.add_argument("--data", default=",".join(TABLES), help="tables, separated by commas (default: all)")
    parser.add_argument("--draws", type=int, default=3, help="draws of each kind (default: 3)")
    kept = Path(tempfile.gettempdir()) / "labeldp-moments"
    parser.add_argument("--cache", type=Path, default=kept, help="folder to keep features in")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results", help="folder to write to")
    parser.add_argument("--report-only", action="store_true", help="tables from the rows at hand")
    asked = parser.parse_args()
    names = asked.data.split(",")
    if unknown := set(names) - set(TABLES):
        sys.exit(f"expected tables among {', '.join(TABLES)}, found {', '.join(sorted(unknown))}")
    folder = os.environ.get("LABELDP_DATA")
    if folder is None and not asked.report_only:
        sys.exit("LABELDP_DATA names no folder of data sets")
    asked.results.mkdir(parents=True, exist_ok=True)
    asked.cache.mkdir(parents=True, exist_ok=True)
    output = asked.results / "moments.csv"
    if not asked.report_only:
        run(names, Path(folder), asked.cache, asked.draws, output)
    rows = pd.read_csv(output)
    report(rows.iloc[np.argsort(rows["data"].map(TABLES.index), kind="stable")], asked.results)
    print(f"tables and rows: {asked.results}")


if __name__ == "__main__":
    main()
