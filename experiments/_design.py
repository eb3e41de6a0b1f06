"""Declarations of an experiment: studies of cells that are measured draw by draw, and a page of their results."""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

import labeldp

Row = dict[str, Any]
Given = argparse.Namespace
STAMP = ("recipe", "labeldp")  # the last columns of every results file: recipe, and version of the package


@dataclass(frozen=True)
class Cell:
    """A setting to measure.

    Attributes:
        values: Named values that identify the cell; they are written into each of its rows.
        parts: Values of the study's part column that must have a row, all from the same release; empty where any row
            will do.
        draws: The draws of this cell; None for as many as are asked for.
    """

    values: Mapping[str, Any]
    parts: tuple[str, ...] = ()
    draws: range | None = None

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


@dataclass(frozen=True)
class Spot:
    """A cheap cell that is measured again to see whether the code still gives what is recorded.

    Attributes:
        cell: The cell.
        column: The measure to compare.
        where: Further values that select one row of the cell.
        draws: Number of fresh draws.
        least: A difference up to this size is never reported.
        spread: Column with the standard deviation over the draws behind a row, whose number is in ``draws``; empty
            where each draw has a row.
    """

    cell: Cell
    column: str
    where: Mapping[str, Any] = field(default_factory=dict)
    draws: int = 5
    least: float = 0.0
    spread: str = ""


@dataclass(frozen=True)
class Study:
    """Cells, a way to measure them, and a results file.

    Attributes:
        name: Name of the results file, without its ending.
        recipe: Version of what is computed; or a function from a row, where only some rows changed.
        key: Columns that identify a cell.
        columns: All columns in the order of the file, but those of ``STAMP``.
        cells: The cells of a run, from the options given.
        run: Yields the rows of one draw of a cell, from the options, the cell and the number of the draw.
        part: Column that tells rows of one release apart, where a cell declares them.
        spots: Cells for the spot check.
    """

    name: str
    recipe: str | Callable[[Mapping[str, Any]], str]
    key: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Callable[[Given], Iterable[Cell]]
    run: Callable[[Given, Cell, int], Iterable[Row]]
    part: str = ""
    spots: tuple[Spot, ...] = ()

    def recipe_of(self, row: Mapping[str, Any]) -> str:
        """The current recipe of a row."""
        return self.recipe if isinstance(self.recipe, str) else self.recipe(row)

    def measured(self, given: Given, cell: Cell, draw: int) -> Iterator[Row]:
        """Complete rows of one draw of a cell; ``seconds`` is the time since the row before."""
        start = time.perf_counter()
        for found in self.run(given, cell, draw):
            row: Row = {**cell.values, "draw": draw, "seconds": round(time.perf_counter() - start, 2), **found}
            row |= {"recipe": self.recipe_of(row), "labeldp": labeldp.__version__}
            yield {name: row.get(name, "") for name in (*self.columns, *STAMP)}
            start = time.perf_counter()

    def identity(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """Values that identify the cell and the draw of a row."""
        return tuple(plain(row[name]) for name in (*self.key, "draw") if name in self.columns)


@dataclass(frozen=True)
class Experiment:
    """One or more studies, and a page of their results.

    Attributes:
        name: Name of the script and of the page.
        question: What it answers, in a line.
        studies: What is measured.
        page: Lines of the results page, from the rows by the name of their study; draws figures into the folder.
        draws: Usual number of draws.
        tables: Tables by name that ``--data`` may list; empty for an experiment without that option.
        usual: Those measured by default; all of them if empty.
        bundled: Those that need no folder of data sets.
        epsilons: Usual values of ``--epsilons``; empty for an experiment without that option.
        cached: Whether there is something to keep in the folder ``--cache``.
        shortened: Whether ``--rows`` may leave out images to learn from.
        options: Adds further options.
        unspotted: Reason for having no spot check.
    """

    name: str
    question: str
    studies: tuple[Study, ...]
    page: Callable[[dict[str, pd.DataFrame], Path], list[str]]
    draws: int = 5
    tables: tuple[str, ...] = ()
    usual: tuple[str, ...] = ()
    bundled: tuple[str, ...] = ()
    epsilons: tuple[float, ...] = ()
    cached: bool = False
    shortened: bool = False
    options: Callable[[argparse.ArgumentParser], object] = lambda _: None
    unspotted: str = ""


def plain(value: object) -> str:
    """A value as text, numbers alike in whatever form they were written."""
    try:
        return f"{float(str(value)):.12g}"
    except ValueError:
        return str(value)


def data_folder(given: Given) -> Path:
    """The folder of data sets."""
    if given.folder is None:
        raise FileNotFoundError("LABELDP_DATA names no folder of data sets")
    return Path(given.folder)
