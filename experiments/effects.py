"""Coverage and width of intervals of treatment effects from released outcomes, where the truth is known.

effects.md has the protocol and what the results show.
"""

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _effect_curators import CURATORS, Scores
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, table
from auto_tables import adult, readmission
from scipy.special import expit

from labeldp import Classes, Curator, Interval, RandomizedResponse, Release, SubsetResponse
from labeldp.learning.inference import treatment_effect
from labeldp.learning.losses import unbiased_numbers
from labeldp.learning.metrics import Units, class_weights, mean_of_rows
from labeldp.mechanisms.randomizers import RANDOMIZERS

ROWS, REPLICATES, REPLICATES_BESIDE = 2000, 25, 10
FEATURES = ["first", "second", "third"]
#: Rows of which the true effect is the mean.
OF_TRUTH = 1_000_000
#: The releases, and the same estimate from true labels, beside the curators.
RELEASED, OPEN = "released", "true labels"
SPACES = {"response": Classes([0, 1]), "subset": Classes([0, 1, 2, 3]), "optimal": Interval(0, 10, 1)}
#: Columns of real tables that are adjusted for, and the class that is the outcome.
REAL = {
    "adult": (adult, ["age", "years", "sex", "hours", "marital"], ">50K"),
    "readmission": (readmission, ["age", "time_in_hospital", "number_inpatient", "num_medications", "gender"], "<30"),
}


@dataclass(frozen=True, eq=False)
class World:
    """Rows with all that nobody sees.

    Attributes:
        table: The public columns, the treatment among them.
        propensity: True probability of the treatment.
        means: True mean outcome without and with the treatment, given the features, shape (n, 2).
        labels: True labels.
        units: The number of each row's unit.
        truth: The true effect.
    """

    table: pd.DataFrame
    propensity: np.ndarray
    means: np.ndarray
    labels: np.ndarray
    units: np.ndarray
    truth: float


def drawn(kind: str, unit: int, rows: int, rng: np.random.Generator) -> World:
    """Rows whose features decide on treatment and outcome; rows of a unit have one feature and luck in common."""
    units = np.arange(rows) // unit
    features = rng.normal(size=(rows, 3))
    features[:, 0] = rng.normal(size=rows // unit + 1)[units]
    propensity = expit(0.5 * features[:, 0] - 0.3 * features[:, 1])
    treated = rng.random(rows) < propensity
    luck = np.where(rng.random(rows) < 0.5, rng.random(rows // unit + 1)[units], rng.random(rows))
    if kind == "optimal":
        level = 5 + features[:, 0] + 0.5 * features[:, 2]
        means = np.stack([level, level - 0.7 - 0.3 * features[:, 0]], axis=1)
        labels = np.clip(np.round(np.where(treated, *means.T[::-1]) + 4 * luck - 2), 0, 10)
    else:
        means = expit(np.stack([features[:, 0] - 0.5, 0.8 * features[:, 0] + 0.1], axis=1))
        hit = luck < np.where(treated, *means.T[::-1])
        labels = hit if kind == "response" else np.where(hit, 1, rng.choice([0, 2, 3], rows))
        labels = labels.astype(int)
    table_ = pd.DataFrame(dict(zip(FEATURES, features.T, strict=True)) | {"drug": treated.astype(int)})
    return World(table_, propensity, means, labels, units, math.nan)


@functools.cache
def true_effect(kind: str) -> float:
    """The mean effect over many rows; numbers are clipped, so they are drawn with and without the treatment."""
    world = drawn(kind, 1, OF_TRUTH, np.random.default_rng(0))
    if kind != "optimal":
        return float((world.means[:, 1] - world.means[:, 0]).mean())
    luck = 4 * np.random.default_rng(1).random(OF_TRUTH) - 2
    with_, without = (np.clip(np.round(world.means[:, arm] + luck), 0, 10).mean() for arm in (1, 0))
    return float(with_ - without)


@functools.cache
def real_rows(folder: str | None, name: str) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, float]:
    """Rows of a real table, their outcome and propensity, and the effect of averting one outcome in four."""
    load, columns, outcome = REAL[name]
    frame, labels = load(data_folder(Given(folder=folder)))
    hit = np.array([str(each) == outcome for each in labels])
    ranks = frame[columns[1]].rank(pct=True).to_numpy()
    return frame[columns], hit, expit(3 * ranks - 1.5), -0.25 * float(hit.mean())


def resampled(folder: str | None, name: str, rows: int, rng: np.random.Generator) -> World:
    """Rows of a real table, drawn with replacement, and a treatment that averts one outcome in four."""
    frame, hit, propensity, truth = real_rows(folder, name)
    chosen = rng.integers(0, len(frame), rows)
    treated = rng.random(rows) < propensity[chosen]
    labels = hit[chosen] & ~(treated & (rng.random(rows) < 0.25))
    table_ = frame.iloc[chosen].reset_index(drop=True).assign(drug=treated.astype(int))
    return World(table_, propensity[chosen], np.full((rows, 2), np.nan), labels.astype(int), np.arange(rows), truth)


def released(kind: str, world: World, epsilon: float) -> Release:
    """The labels, released; epsilon is of a unit."""
    space = SPACES[kind]
    curator = Curator(world.labels, space, units=world.units)
    makers: dict[str, Callable[[], Any]] = {
        "response": lambda: RandomizedResponse(space, epsilon),
        "subset": lambda: SubsetResponse(space, epsilon),
        "optimal": lambda: RANDOMIZERS.own["optimal"](space, epsilon),
    }
    return curator.randomize(makers[kind]())


def efficient_width(release: Release, world: World) -> float:
    """The width of the interval of one who knows propensities and mean outcomes: the efficient bound."""
    numeric = isinstance(release.space, Interval)
    values = unbiased_numbers(release) if numeric else class_weights(release, np.ones(len(release), dtype=int))
    treated, means = world.table["drug"].to_numpy() == 1, world.means
    score = means[:, 1] - means[:, 0]
    score += np.where(
        treated, (values - means[:, 1]) / world.propensity, (means[:, 0] - values) / (1 - world.propensity)
    )
    return mean_of_rows(score, 0.95, units=Units.of(world.units, len(values))).error


def cells(given: Given) -> Iterator[Cell]:
    """Mechanisms, rows of a unit and epsilon on drawn rows; and epsilon on real ones."""
    for name in given.data:
        for epsilon in given.epsilons:
            for kind in SPACES if name == "drawn" else ("response",):
                for unit in (1, 4) if name == "drawn" else (1,):
                    yield Cell({"data": name, "mechanism": kind, "unit": unit, "epsilon": epsilon})


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """Some releases: how often the interval holds the truth, and how wide it is."""
    kind, name = cell["mechanism"], cell["data"]
    rng = np.random.default_rng([draw, *map(ord, kind + name), cell["unit"], int(10 * cell["epsilon"])])
    hits, shares, errors, estimates = 0, [], [], []
    truth = true_effect(kind) if name == "drawn" else real_rows(given.folder, name)[3]
    for _ in range(given.replicates):
        world = drawn(kind, cell["unit"], ROWS, rng) if name == "drawn" else resampled(given.folder, name, ROWS, rng)
        release = released(kind, world, cell["epsilon"])
        features = [column for column in world.table.columns if column != "drug"]
        outcome = None if kind == "optimal" else 1
        (found,) = treatment_effect(
            release, world.table, treatment="drug", features=features, outcome=outcome, units=world.units
        ).effects
        each = found.difference
        hits += each.low <= truth <= each.high
        errors.append(each.error)
        estimates.append(each.value)
        shares.append(each.error / efficient_width(release, world) if name == "drawn" else math.nan)
    yield {
        "replicates": given.replicates,
        "truth": round(truth, 4),
        "covered": hits,
        "bias": round(float(np.mean(estimates)) - truth, 4),
        "error": round(float(np.mean(errors)), 4),
        "width": round(float(np.median(shares)), 3),
    }


def cells_beside(given: Given) -> Iterator[Cell]:
    """Classes and numbers of drawn rows, and real rows, over epsilon."""
    for name in given.data:
        for epsilon in given.epsilons:
            for kind in ("response", "optimal") if name == "drawn" else ("response",):
                yield Cell({"data": name, "mechanism": kind, "epsilon": epsilon})


def run_beside(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """Some tables: how far from the truth a release and the curators are, and how wide their intervals."""
    kind, name, epsilon = cell["mechanism"], cell["data"], cell["epsilon"]
    rng = np.random.default_rng([draw, *map(ord, f"beside {kind} {name}"), int(10 * epsilon)])
    truth = true_effect(kind) if name == "drawn" else real_rows(given.folder, name)[3]
    low, high = SPACES[kind].points[0], SPACES[kind].points[-1]
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in (RELEASED, *CURATORS, OPEN)}
    tables = min(given.replicates, REPLICATES_BESIDE)
    for _ in range(tables):
        world = drawn(kind, 1, ROWS, rng) if name == "drawn" else resampled(given.folder, name, ROWS, rng)
        columns = world.table.drop(columns="drug")
        for method, release in (
            (RELEASED, released(kind, world, epsilon)),
            (OPEN, Release.public(world.labels, SPACES[kind])),
        ):
            (each,) = treatment_effect(
                release, world.table, treatment="drug", features=list(columns), units="rows",
                outcome=None if kind == "optimal" else 1,
            ).effects  # fmt: skip
            found[method].append((each.difference.value, (each.difference.high - each.difference.low) / 2))
        scores = Scores(columns, world.table["drug"].to_numpy() == 1, world.labels.astype(float), rng)
        for method, answer in CURATORS.items():
            found[method].append(answer(scores, low, high, epsilon, rng))
    for method, answers in found.items():
        values, reach = np.array(answers).T
        yield {
            "method": method,
            "replicates": tables,
            "covered": int(np.sum(np.abs(values - truth) <= reach)),
            "rmse": round(float(np.sqrt(np.mean((values - truth) ** 2))), 4),
            "half_width": round(float(np.mean(reach)), 4),
        }


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Coverage, bias and width by setting, over all draws, and pooled coverage; and curators beside releases."""
    rows, lines = frames["effects"], []
    keys = ["data", "mechanism", "unit", "epsilon"]
    found = rows.groupby(keys, sort=False).agg(
        replicates=("replicates", "sum"), covered=("covered", "sum"), truth=("truth", "mean"),
        bias=("bias", "mean"), error=("error", "mean"), width=("width", "mean"),
    )  # fmt: skip
    body = [
        [*map(str, key), f"{each.covered / each.replicates:.3f}", f"{each.truth:.3f}", f"{each.bias:+.3f}",
         f"{each.error:.3f}", "" if math.isnan(each.width) else f"{each.width:.2f}"]
        for key, each in zip(found.index, found.itertuples(), strict=True)
    ]  # fmt: skip
    share = found["covered"].sum() / found["replicates"].sum()
    lines += ["", f"{found['replicates'].sum():,} releases, {len(found)} cells; pooled coverage {share:.4f}.", ""]
    heads = ["table", "mechanism", "rows of a unit", "epsilon", "coverage", "true effect", "bias", "error", "width"]
    return [*lines, *table(heads, body), *(beside(frames["effects_beside"]) if "effects_beside" in frames else [])]


def beside(rows: pd.DataFrame) -> list[str]:
    """Half the width of intervals and coverage of each method by table and epsilon."""
    keys, methods = ["data", "mechanism", "epsilon"], [RELEASED, *CURATORS, OPEN]
    found = rows.groupby([*keys, "method"], sort=False).agg(
        replicates=("replicates", "sum"), covered=("covered", "sum"), half=("half_width", "mean")
    )  # fmt: skip
    shown = {key: f"{one.half:.3f} ({one.covered / one.replicates:.3f})" for key, one in found.iterrows()}
    cells_ = dict.fromkeys(tuple(key[:-1]) for key in shown)
    body = [[*map(str, key), *(shown[(*key, method)] for method in methods)] for key in cells_]
    count = int(found["replicates"].max())
    said = f"Half the width of intervals, and in brackets their coverage, of {count} tables in each cell:"
    return ["", said, "", *table(["table", "mechanism", "epsilon", *methods], body)]


BESIDE = Study(
    name="effects_beside",
    recipe="1",
    key=("data", "mechanism", "epsilon"),
    columns=(
        "data",
        "mechanism",
        "epsilon",
        "draw",
        "method",
        "replicates",
        "covered",
        "rmse",
        "half_width",
        "seconds",
    ),
    cells=cells_beside,
    run=run_beside,
    part="method",
)
STUDY = Study(
    name="effects",
    recipe="1",
    key=("data", "mechanism", "unit", "epsilon"),
    columns=(
        *("data", "mechanism", "unit", "epsilon", "draw", "replicates", "truth", "covered", "bias", "error"),
        *("width", "seconds"),
    ),
    cells=cells,
    run=run,
    spots=(
        Spot(
            Cell({"data": "drawn", "mechanism": "response", "unit": 1, "epsilon": 4.0}), "error", draws=2, least=0.003
        ),
    ),
)
EXPERIMENT = Experiment(
    name="effects",
    question="Do intervals of treatment effects from released outcomes hold the true effect?",
    studies=(STUDY, BESIDE),
    page=page,
    draws=5,
    tables=("drawn", *REAL),
    bundled=("drawn",),
    epsilons=(0.5, 1.0, 2.0, 4.0),
    options=lambda parser: parser.add_argument("--replicates", type=int, default=REPLICATES, help="releases of a draw"),
)

if __name__ == "__main__":
    main(EXPERIMENT)
