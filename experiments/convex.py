"""Convex learning from released labels: excess risk where it is known, noise, and losses on real tables.

    python experiments/convex.py                   everything
    python experiments/convex.py --risk            excess risk on the hardest loss, over rows, classes and epsilon
    python experiments/convex.py --variance        the noise of released labels, measured from draws
    python experiments/convex.py --softmax         many classes: every mechanism, on real tables
    python experiments/convex.py --tables          steps, passes and regions, beside other learners and what is optimal
    python experiments/convex.py --priors          candidates of a prior
    python experiments/convex.py --report-only     tables and figure from the rows at hand

Rows are written as they come, and those in the files are not computed again. README.md beside this file has the
protocol and what was found.
"""

import argparse
import csv
import functools
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import _convex_risk as risk
import _convex_tables as tables
import pandas as pd
from _convex_report import report
from rich.progress import Progress


def append(path: Path, columns: tuple[str, ...], groups: Iterable[Iterable[dict[str, object]]], total: int) -> None:
    """Write groups of rows to the end of a file, each as soon as it is there."""
    with path.open("a", newline="") as file, Progress() as progress:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if not file.tell():
            writer.writeheader()
        bar = progress.add_task(path.stem, total=total)
        for group in groups:
            writer.writerows(list(group))
            file.flush()
            progress.advance(bar)


def known(path: Path, keys: tuple[str, ...]) -> set[tuple[object, ...]]:
    """What is in a file of results."""
    return set(pd.read_csv(path)[list(keys)].itertuples(index=False, name=None)) if path.exists() else set()


def measure_risk(asked: argparse.Namespace) -> None:
    """Points that are not there yet."""
    path = asked.results / "convex_risk.csv"
    done = known(path, risk.KEY)
    points = [point for point in risk.points(quick=asked.quick) if point.key not in done]
    append(path, risk.COLUMNS, ([point.measured(asked.draws or risk.MOST)] for point in points), len(points))


def measure_variance(asked: argparse.Namespace) -> None:
    """All of them, if there are none."""
    path = asked.results / "convex_variance.csv"
    if not path.exists():
        rows = list(risk.variances(asked.draws or 5, quick=asked.quick))
        append(path, risk.VARIANCE_COLUMNS, [rows], 1)


def measure_tables(part: str, asked: argparse.Namespace) -> None:
    """Releases that are not there yet, and what learns from them."""
    names, draws = tables.PLANS[part]
    names = asked.data.split(",") if asked.data else names
    if unknown := set(names) - set(tables.TABLES):
        sys.exit(f"expected tables among {', '.join(tables.TABLES)}, found {', '.join(sorted(unknown))}")
    folder = os.environ.get("LABELDP_DATA")
    if folder is None and set(names) - {"digits"}:
        print(f"LABELDP_DATA names no folder of data sets: {part} with digits only")
        names = [name for name in names if name == "digits"]
    epsilons = tuple(float(each) for each in asked.epsilons.split(",")) if asked.epsilons else tables.EPSILONS
    path = asked.results / "convex.csv"
    done = known(path, tables.KEY)
    every = [job for name in names for job in tables.jobs(part, name, epsilons, asked.draws or draws)]
    jobs = sorted((job for job in every if job.key not in done), key=lambda job: job.draw)
    loaded = functools.cache(lambda name: tables.TABLES[name](Path(folder or ".")))
    append(path, tables.COLUMNS, (list(tables.rows_of(job, loaded(job.data))) for job in jobs), len(jobs))


PARTS = {
    "risk": measure_risk,
    "variance": measure_variance,
    **{part: functools.partial(measure_tables, part) for part in tables.PLANS},
}


def main() -> None:
    """Read the command line, run, and report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for part in PARTS:
        parser.add_argument(f"--{part}", action="append_const", dest="parts", const=part)
    parser.add_argument("--data", default="", help="tables, separated by commas (default: those of README.md)")
    parser.add_argument("--epsilons", default="", help="of tables, separated by commas")
    parser.add_argument("--draws", type=int, default=0, help="at most so many draws (default: as README.md says)")
    parser.add_argument("--quick", action="store_true", help="a first look, in seconds")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results", help="folder to write to")
    parser.add_argument("--report-only", action="store_true", help="tables and figure from the rows at hand")
    asked = parser.parse_args()
    if asked.draws < 0:
        sys.exit("expected at least one draw")
    asked.results.mkdir(parents=True, exist_ok=True)
    for part in () if asked.report_only else asked.parts or PARTS:
        PARTS[part](asked)
    report(asked.results)
    print(f"tables, figure and rows: {asked.results}")


if __name__ == "__main__":
    main()
