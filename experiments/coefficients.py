"""Coverage and width of intervals of regression coefficients from released labels, where the truth is known.

coefficients.md has the protocol and what the results show.
"""

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, table
from effects import REAL
from scipy.special import expit, softmax

from labeldp import Classes, Curator, Interval, RandomizedResponse, Release, SubsetResponse
from labeldp.learning.inference import coefficients
from labeldp.mechanisms.randomizers import RANDOMIZERS

ROWS, REPLICATES, OF_TRUTH = 3000, 20, 1_000_000
NAMES = ["first", "second", "third"]
SPACES = {"response": Classes([0, 1]), "subset": Classes([0, 1, 2]), "optimal": Interval(0, 10, 1)}
#: Coefficients of an intercept and three columns, for each class but the first; of numbers the first ones.
TRUTH = np.array([[-0.5, 0.8, -0.5, 0.0], [0.2, -0.4, 0.6, 0.5]]).T


@dataclass(frozen=True, eq=False)
class World:
    """Rows, their true labels and units, and the true coefficients but for the intercepts."""

    table: pd.DataFrame
    labels: np.ndarray
    units: np.ndarray
    truth: np.ndarray


def drawn(kind: str, unit: int, rows: int, rng: np.random.Generator) -> World:
    """Rows with three columns, the second of two values, and labels of a model that holds; a unit shares luck."""
    units = np.arange(rows) // unit
    matrix = np.concatenate([np.ones((rows, 1)), rng.normal(size=(rows, 3))], axis=1)
    matrix[:, 2] = matrix[:, 2] > 0
    matrix[:, 3] = rng.normal(size=rows // unit + 1)[units]
    luck = np.where(rng.random(rows) < 0.5, rng.random(rows // unit + 1)[units], rng.random(rows))
    frame = pd.DataFrame(matrix[:, 1:], columns=NAMES)
    if kind == "optimal":
        labels = np.clip(np.round(5 + matrix @ TRUTH[:, 0] + 4 * luck - 2), 0, 10)
        return World(frame, labels, units, np.full(3, math.nan))
    weights = TRUTH[:, : SPACES[kind].size - 1]
    chance = softmax(np.concatenate([np.zeros((rows, 1)), matrix @ weights], axis=1), axis=1).cumsum(axis=1)
    labels = np.minimum((luck[:, None] > chance).sum(axis=1), chance.shape[1] - 1)
    return World(frame, labels, units, weights[1:].T.ravel())


@functools.cache
def slopes() -> np.ndarray:
    """Least squares of clipped numbers over many rows."""
    world = drawn("optimal", 1, OF_TRUTH, np.random.default_rng(0))
    matrix = np.concatenate([np.ones((OF_TRUTH, 1)), world.table.to_numpy()], axis=1)
    return np.linalg.lstsq(matrix, world.labels, rcond=None)[0][1:]


@functools.cache
def real_model(folder: str | None, name: str) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Columns of a real table, the probabilities of a logistic model of its outcome, and its coefficients."""
    load, columns, outcome = REAL[name]
    frame, labels = load(data_folder(Given(folder=folder)))
    used = frame[columns].dropna().reset_index(drop=True)
    hit = np.array([int(str(each) == outcome) for each in labels])[frame[columns].notna().all(axis=1)]
    found = coefficients(Release.public(hit, SPACES["response"]), used, columns, units="rows")
    coef = np.array([each.coef for each in found.coefficients])
    coef = np.where(np.isfinite(coef), coef, 0.0)
    logits = np.full(len(used), coef[0])
    for each, weight in zip(found.coefficients[1:], coef[1:], strict=True):
        column, _, value = each.name.partition("[T.")
        values = used[column] if not value else used[column].astype(str) == value.rstrip("]")
        logits += weight * values.to_numpy(dtype=float)
    return used, expit(logits), pd.Series(coef[1:], [each.name for each in found.coefficients[1:]])


def resampled(folder: str | None, name: str, rng: np.random.Generator) -> World:
    """Rows of a real table, drawn with replacement, with outcomes of the logistic model."""
    frame, chance, truth = real_model(folder, name)
    chosen = rng.integers(0, len(frame), ROWS)
    labels = (rng.random(ROWS) < chance[chosen]).astype(int)
    return World(frame.iloc[chosen].reset_index(drop=True), labels, np.arange(ROWS), truth)


def released(kind: str, world: World, epsilon: float) -> Release:
    """The labels, released; epsilon is of a unit."""
    space = SPACES[kind]
    makers: dict[str, Callable[[], Any]] = {
        "response": lambda: RandomizedResponse(space, epsilon),
        "subset": lambda: SubsetResponse(space, epsilon),
        "optimal": lambda: RANDOMIZERS.own["optimal"](space, epsilon),
    }
    return Curator(world.labels, space, units=world.units).randomize(makers[kind]())


def efficient_errors(world: World, epsilon: float) -> np.ndarray:
    """Standard errors of the efficient bound: the inverse of the Fisher information of randomized response."""
    matrix = np.concatenate([np.ones((ROWS, 1)), world.table.to_numpy()], axis=1)
    chance, keep = expit(matrix @ TRUTH[:, 0]), expit(epsilon)
    shown = 1 - keep + (2 * keep - 1) * chance
    weight = ((2 * keep - 1) * chance * (1 - chance)) ** 2 / (shown * (1 - shown))
    return np.sqrt(np.diag(np.linalg.inv((matrix * weight[:, None]).T @ matrix)))[1:]


def cells(given: Given) -> Iterator[Cell]:
    """Mechanisms, rows of a unit and epsilon on drawn rows; and epsilon on real ones. A row has half of a unit's."""
    for name in given.data:
        for epsilon in given.epsilons:
            for kind in SPACES if name == "drawn" else ("response",):
                for unit in (1, 2) if name == "drawn" and epsilon >= 1.0 else (1,):
                    yield Cell({"data": name, "mechanism": kind, "unit": unit, "epsilon": epsilon})


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """Some releases: how often intervals hold the truth, how wide they are, and how often there is no estimate."""
    kind, name, epsilon = cell["mechanism"], cell["data"], cell["epsilon"]
    rng = np.random.default_rng([draw, *map(ord, kind + name), cell["unit"], int(10 * epsilon)])
    held, count, untold, profiled, widths = 0, 0, 0, 0, []
    for _ in range(given.replicates):
        world = drawn(kind, cell["unit"], ROWS, rng) if name == "drawn" else resampled(given.folder, name, rng)
        release = released(kind, world, epsilon)
        found = coefficients(release, world.table, list(world.table.columns), units=world.units).coefficients
        named = [each for each in found if each.name != "Intercept"]
        truth = slopes() if kind == "optimal" else world.truth
        if name != "drawn":
            truth = world.truth[[each.name for each in named]].to_numpy()
        for each, value in zip(named, truth, strict=True):
            low, high = each.profile or (each.low, each.high)
            held += low <= value <= high
            untold += math.isnan(each.coef)
            profiled += each.profile is not None
        count += len(named)
        if kind == "response" and name == "drawn" and cell["unit"] == 1:
            widths.append(np.median([each.std_err for each in named] / efficient_errors(world, epsilon)))
    yield {
        "replicates": given.replicates,
        "coefficients": count,
        "covered": held,
        "untold": untold,
        "profiled": profiled,
        "width": round(float(np.median(widths)), 3) if widths else math.nan,
    }


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Coverage and width by setting, over all draws, and pooled coverage."""
    rows = frames["coefficients"]
    keys, sums = (
        ["data", "mechanism", "unit", "epsilon"],
        ["replicates", "coefficients", "covered", "untold", "profiled"],
    )
    found = rows.groupby(keys, sort=False)[sums].sum()
    width = rows.groupby(keys, sort=False)["width"].mean()
    body = [
        [*map(str, key), f"{each.coefficients:,}", f"{each.covered / each.coefficients:.3f}", f"{each.untold:,}",
         f"{each.profiled:,}", "" if math.isnan(width[key]) else f"{width[key]:.2f}"]
        for key, each in zip(found.index, found.itertuples(), strict=True)
    ]  # fmt: skip
    share = found["covered"].sum() / found["coefficients"].sum()
    total = f"{found['replicates'].sum():,} releases, {found['coefficients'].sum():,} coefficients, {len(found)} cells"
    heads = [
        "table",
        "mechanism",
        "rows of a unit",
        "epsilon",
        "coefficients",
        "coverage",
        "no estimate",
        "profiles",
        "width",
    ]
    return ["", f"{total}; pooled coverage {share:.4f}.", "", *table(heads, body)]


STUDY = Study(
    name="coefficients",
    recipe="2",
    key=("data", "mechanism", "unit", "epsilon"),
    columns=(
        *(
            "data",
            "mechanism",
            "unit",
            "epsilon",
            "draw",
            "replicates",
            "coefficients",
            "covered",
            "untold",
            "profiled",
        ),
        *("width", "seconds"),
    ),
    cells=cells,
    run=run,
    spots=(
        Spot(Cell({"data": "drawn", "mechanism": "response", "unit": 1, "epsilon": 4.0}), "width", draws=2, least=0.02),
    ),
)
EXPERIMENT = Experiment(
    name="coefficients",
    question="Do intervals of regression coefficients from released labels hold the true ones?",
    studies=(STUDY,),
    page=page,
    draws=1,
    tables=("drawn", "adult"),
    bundled=("drawn",),
    epsilons=(0.5, 1.0, 2.0, 4.0),
    options=lambda parser: parser.add_argument("--replicates", type=int, default=REPLICATES, help="releases of a draw"),
)

if __name__ == "__main__":
    main(EXPERIMENT)
