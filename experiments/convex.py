"""Convex learning from released labels: excess risk where it is known, noise, and losses on tables.

convex.md has the protocol and what the results show.
"""

import argparse
import functools
from collections.abc import Iterator
from pathlib import Path

import _convex_risk as risk
import _convex_tables as tables
from _convex_report import page
from _data import Data
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main

PARTS = {
    "risk": "excess risk on the hardest loss, over rows, classes and epsilon",
    "variance": "the noise of released labels, measured from draws",
    "softmax": "many classes: every mechanism, on tables",
    "tables": "steps, passes and regions, beside other learners and the optimum",
    "priors": "candidates of a prior",
}


def wanted(given: Given, part: str) -> bool:
    """Tell whether a part is asked for: all are if none is named."""
    return not given.parts or part in given.parts


def risk_cells(given: Given) -> Iterator[Cell]:
    """Points of all lines."""
    if wanted(given, "risk"):
        yield from (Cell(dict(zip(risk.KEY, point.key, strict=True))) for point in risk.points(quick=given.quick))


def run_risk(given: Given, cell: Cell, first: int) -> Iterator[Row]:
    """The row of a point, about several draws."""
    yield risk.Point(**cell.values).measured(given.draws, first)


def variance_cells(given: Given) -> Iterator[Cell]:
    """Numbers of classes and epsilons, each for all randomizers."""
    if wanted(given, "variance"):
        yield from (variance_cell(*pair) for pair in risk.variance_pairs(quick=given.quick))


def variance_cell(classes: int, epsilon: float) -> Cell:
    """All randomizers of so many classes."""
    return Cell({"classes": classes, "epsilon": epsilon}, draws=range(5))


def run_variance(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """A row for each randomizer."""
    yield from risk.variances(cell["classes"], cell["epsilon"], draw, quick=given.quick)


def table_cells(given: Given) -> Iterator[Cell]:
    """Mechanisms of each part on its tables, over epsilon; once without privacy."""
    everything = set(given.data) == set(tables.TABLES)
    for part, (names, draws) in tables.PLANS.items():
        for name in (names if everything else given.data) if wanted(given, part) else ():
            yield table_cell(part, name, float("inf"), "none", draws=range(1))
            for epsilon in given.epsilons:
                for mechanism in tables.MECHANISMS[part]:
                    yield table_cell(part, name, epsilon, mechanism, draws=range(draws))


def table_cell(*values: object, draws: range | None = None) -> Cell:
    """One release of the labels of a table, and all that learns from it."""
    return Cell(dict(zip(tables.KEY, values, strict=True)), draws=draws)


def run_table(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """A row for each learner."""
    folder = Path() if cell["data"] == "digits" else data_folder(given)
    yield from tables.rows_of(tables.Job(**cell.values, draw=draw), loaded(cell["data"], folder))


@functools.cache
def loaded(name: str, folder: Path) -> Data:
    """A table."""
    return tables.TABLES[name](folder)


def options(parser: argparse.ArgumentParser) -> None:
    """Parts, and a first look."""
    for part, title in PARTS.items():
        parser.add_argument(f"--{part}", action="append_const", dest="parts", const=part, help=title)
    parser.add_argument("--quick", action="store_true", help="a first look at risk and variance, in seconds")


def point_spot(method: str, rows: int, epsilon: float) -> Spot:
    """A point in ten classes."""
    cell = Cell(dict(zip(risk.KEY, ("rows", "spike", method, 10, rows, epsilon, 1.0), strict=True)))
    return Spot(cell, "excess", draws=1, spread="spread")


RISK = Study(
    name="convex_risk",
    recipe="1",
    key=risk.KEY,
    columns=risk.COLUMNS,
    cells=risk_cells,
    run=run_risk,
    spots=tuple(
        point_spot(method, 1000, 1.0)
        for method in ("response", "response, Theorem 9", "bits, Algorithm 1", "subset", "normal", "vector")
    ),
)
VARIANCE = Study(
    name="convex_variance",
    recipe="1",
    key=("classes", "epsilon"),
    columns=risk.VARIANCE_COLUMNS,
    cells=variance_cells,
    run=run_variance,
    spots=tuple(
        Spot(variance_cell(100, 1.0), "measured", {"method": method}, draws=2) for method in ("response", "subset")
    ),
)
TABLES = Study(
    name="convex",
    recipe="1",
    key=tables.KEY,
    columns=tables.COLUMNS,
    cells=table_cells,
    run=run_table,
    spots=(
        Spot(table_cell("softmax", "digits", 2.0, "subset"), "loss", {"learner": tables.AUTO}),
        Spot(table_cell("softmax", "digits", 4.0, "vector"), "loss", {"learner": tables.DECLARED}),
        Spot(table_cell("tables", "adult", 1.0, "subset"), "loss", {"learner": "bound, 5"}, draws=2),
        Spot(table_cell("priors", "digits", 4.0, "prior"), "accuracy", {"learner": "2 candidates"}, draws=3),
    ),
)
EXPERIMENT = Experiment(
    name="convex",
    question="What excess risk, noise and losses does convex learning from released labels have?",
    studies=(RISK, VARIANCE, TABLES),
    page=page,
    draws=risk.MOST,
    tables=tuple(tables.TABLES),
    bundled=("digits",),
    epsilons=tables.EPSILONS,
    options=options,
)

if __name__ == "__main__":
    main(EXPERIMENT)
