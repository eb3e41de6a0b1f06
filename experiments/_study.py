"""Runner of the experiments: options, draws, resuming, progress, results files, pages and figures.

An experiment has one or more studies. A study declares its cells (settings, as named values), a function that measures
one draw of a cell, and a results file of one line per row. Rows in the file are not measured again, unless they come
from another recipe: the version of what a study computes. Its script states the recipe, and whoever changes what is
computed raises it by hand.
"""

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from _design import Cell, Experiment, Given, Row, Spot, Study, data_folder
from _markdown import OLD, pivot, shown, table
from _results import Results
from _spot import spot

__all__ = [
    "OLD",
    "Cell",
    "Experiment",
    "Given",
    "Row",
    "Spot",
    "Study",
    "data_folder",
    "main",
    "pivot",
    "shown",
    "table",
]
RESULTS = Path(__file__).parent / "results"
QUIET = 30.0  # seconds between lines of progress where there is no terminal


class Progress:
    """Cells done and time left: one line that is renewed on a terminal, and elsewhere a line now and then."""

    def __init__(self, name: str, total: int, out: TextIO | None = None) -> None:
        self.name, self.total, self.done, self.out = name, total, 0, out or sys.stderr
        self.start = self.shown = time.monotonic()

    def step(self) -> None:
        """Count one more draw of a cell."""
        self.done += 1
        now = time.monotonic()
        left = (now - self.start) / self.done * (self.total - self.done)
        text = f"{self.name}: {self.done} of {self.total} draws of cells, {left / 60:.1f} minutes left"
        if self.out.isatty():
            print(f"\r{text}\033[K", end="\n" if self.done == self.total else "", file=self.out, flush=True)
        elif now - self.shown > QUIET or self.done == self.total:
            print(text, file=self.out, flush=True)
            self.shown = now


def measure(study: Study, given: Given) -> None:
    """Measure what has no row of the current recipe yet, all of one draw before the next."""
    results = Results(study, given.results)
    try:
        asked = [(draw, cell) for cell in study.cells(given) for draw in draws_of(study, cell, given)]
    except FileNotFoundError as problem:
        sys.exit(f"{study.name}: {problem}")
    jobs = sorted(results.missing(asked), key=lambda job: job[0])
    if stale := len(results.stale()):
        print(f"{study.name}: {stale} rows are stale, of an earlier recipe; those asked for are measured again")
    progress, left_out = Progress(study.name, len(jobs)), set()
    for draw, cell in jobs:
        data = cell.values.get("data", study.name)
        try:
            if data not in left_out:
                results.add(list(study.measured(given, cell, draw)))
        except FileNotFoundError as problem:
            print(f"{data} is left out: {problem}", flush=True)
            left_out.add(data)
        progress.step()


def draws_of(study: Study, cell: Cell, given: Given) -> list[int]:
    """The draws of a cell that are asked for: one where a row is about several."""
    if "draw" not in study.columns:
        return [0]
    return [draw for draw in cell.draws or range(given.draws) if draw < given.draws]


def report(experiment: Experiment, folder: Path) -> None:
    """Write the page and the figures from the rows at hand."""
    results = [Results(study, folder) for study in experiment.studies]
    frames = {each.study.name: each.frame() for each in results if each.rows}
    if not frames:
        print(f"{experiment.name}: no rows yet")
        return
    files = ", ".join(f"`{name}.csv`" for name in frames)
    lines = [
        f"# Results of {experiment.name}",
        "",
        f"Made by `scripts/experiments {experiment.name} --report-only` from {files};",
        f"[{experiment.name}.md](../{experiment.name}.md) has the protocol and what the results show.",
    ]
    for each in results:
        if count := len(each.stale()):
            part = "all" if count == len(each.rows) else f"marked {OLD}: {count} of {len(each.rows)}"
            lines.append(f"Of an earlier recipe ([recipes.md](recipes.md)), {part} rows of `{each.study.name}.csv`.")
    (folder / f"{experiment.name}.md").write_text(
        "\n".join([*lines, *experiment.page(frames, folder)]).rstrip() + "\n", encoding="utf-8", newline="\n"
    )


def parser_of(experiment: Experiment) -> argparse.ArgumentParser:
    """The options of an experiment."""
    parser = argparse.ArgumentParser(prog=f"scripts/experiments {experiment.name}", description=experiment.question)
    if experiment.tables:
        usual = ",".join(experiment.usual or experiment.tables)
        listed = ", ".join(experiment.tables)
        parser.add_argument("--data", default=usual, help=f"tables among {listed}, by commas (default: {usual})")
    if experiment.epsilons:
        usual = ",".join(f"{each:g}" for each in experiment.epsilons)
        parser.add_argument("--epsilons", default=usual, help=f"separated by commas (default: {usual})")
    if experiment.cached:
        kept = Path(tempfile.gettempdir()) / "labeldp-experiments"
        parser.add_argument("--cache", type=Path, default=kept, help=f"folder to keep clusters and such in ({kept})")
    if experiment.shortened:
        parser.add_argument("--rows", type=int, help="images to learn from, with their own --results (default: all)")
    experiment.options(parser)
    parser.add_argument("--draws", type=int, default=experiment.draws, help=f"of a cell (default: {experiment.draws})")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write to (default: results)")
    parser.add_argument("--report-only", action="store_true", help="page and figures from the rows at hand")
    parser.add_argument("--spot", action="store_true", help="measure cheap cells again and compare; nothing is written")
    return parser


def main(experiment: Experiment, words: Sequence[str] | None = None) -> None:
    """Read the options, measure what is missing and report; or do the spot check."""
    given = parser_of(experiment).parse_args(words)
    # Networks are trained as their papers say, without held-out rows, and judged on true labels.
    warnings.filterwarnings("ignore", "expected as many effective rows as weights")
    given.folder = os.environ.get("LABELDP_DATA")
    if given.draws < 1:
        sys.exit("expected at least one draw")
    if experiment.shortened and given.rows is not None and given.rows < 1:
        sys.exit(f"expected at least one row, found --rows {given.rows}")
    if experiment.shortened and given.rows is not None and given.results.resolve() == RESULTS.resolve():
        sys.exit("results here are of all images; with --rows, name another folder by --results")
    if experiment.epsilons:
        given.epsilons = [float(each) for each in given.epsilons.split(",")]
    if experiment.tables:
        given.data = given.data.split(",")
        if unknown := set(given.data) - set(experiment.tables):
            sys.exit(f"expected tables among {', '.join(experiment.tables)}, found {', '.join(sorted(unknown))}")
    for folder in (given.results, *([given.cache] if experiment.cached else [])):
        folder.mkdir(parents=True, exist_ok=True)
    if given.spot:
        sys.exit(int(spot(experiment, given)))
    if not given.report_only:
        if experiment.tables and given.folder is None and set(given.data) - set(experiment.bundled):
            given.data = [name for name in given.data if name in experiment.bundled]
            if not given.data:
                sys.exit("LABELDP_DATA names no folder of data sets")
            print(f"LABELDP_DATA names no folder of data sets: {', '.join(given.data)} only")
        for study in experiment.studies:
            measure(study, given)
    report(experiment, given.results)
    print(f"pages, figures and rows: {given.results}")
