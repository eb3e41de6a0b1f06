"""Forecasts of the error on numeric labels, against the errors of models that were then learned.

forecasts.md has the protocol and what the results show.
"""

import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from _real_data import Data, age, balance, claims, progression, ratings, stay, viewers
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, pivot

from labeldp import Curator, NoisyHistogram, Release, best_number_response
from labeldp.bounds import Conventions, counting_space, effective_dimension, forecast, label_shares
from labeldp.learning.sklearn import ReleasedLabelRegressor

TABLES = {
    "age": age,
    "ratings": ratings,
    "claims": claims,
    "stay": stay,
    "balance": balance,
    "viewers": viewers,
    "progression": progression,
}
INPUTS = ("defaults", "bought distribution", "right inputs")
PRICE = 500.0  # the epsilon of the bought counts, times the rows: 0.05 for 10,000


@functools.cache
def loaded(given_folder: str | None, name: str) -> Data:
    """A table; progression needs no folder."""
    return TABLES[name](Path() if name == "progression" else data_folder(Given(folder=given_folder)))


def predicted(data: Data, release: Release) -> np.ndarray:
    """Predictions of the default learner for the rows held out."""
    return ReleasedLabelRegressor().fit(data.features, release).predict(data.test_features)


def error(data: Data, found: np.ndarray | float) -> float:
    """The root mean squared error in the declared range; nothing else reads true test labels."""
    clipped = np.clip(data.test_labels, data.declared.low, data.declared.high)
    return float(np.sqrt(np.mean((found - clipped) ** 2)))


@functools.cache
def without_privacy(given_folder: str | None, name: str) -> tuple[float, float]:
    """The error of always predicting the mean, and that of the default learner on true labels."""
    data = loaded(given_folder, name)
    mean = float(np.clip(data.labels, data.declared.low, data.declared.high).mean())
    return error(data, mean), error(data, predicted(data, Release.public(data.labels, data.declared)))


def assumed(data: Data, explained: float) -> dict[str, Conventions]:
    """What a forecast is told, from nothing to all."""
    dimension, space = effective_dimension(np.cov(data.features.T)).participation, data.declared
    counts = Curator(data.labels, counting_space(space)).answer(
        NoisyHistogram(counting_space(space), PRICE / len(data.labels))
    )
    true = np.bincount(space.encode(data.labels), minlength=space.size) / len(data.labels)
    return {
        "defaults": Conventions(dimension),
        "bought distribution": Conventions(dimension, shares=label_shares(counts, space=space)),
        "right inputs": Conventions(dimension, max(explained, 0.01), shares=true),
    }


def cells(given: Given) -> Iterator[Cell]:
    """Each table, over epsilon."""
    for name in given.data:
        for epsilon in given.epsilons:
            yield Cell({"data": name, "epsilon": epsilon}, INPUTS)


def run(given: Given, cell: Cell, _: int) -> Iterator[Row]:
    """One release by the default mechanism, one model, and a forecast of it from each kind of inputs."""
    data, epsilon = loaded(given.folder, cell["data"]), cell["epsilon"]
    mean, clean = without_privacy(given.folder, cell["data"])
    randomizer = best_number_response(data.declared, epsilon)
    release = Curator(data.labels, data.declared, budget=epsilon).randomize(randomizer)
    realized = error(data, predicted(data, release))
    for inputs, conventions in assumed(data, 1 - (clean / mean) ** 2).items():
        found = forecast(data.declared, len(data.labels), epsilon, conventions=conventions, epsilons=())
        (auto,) = (option for option in found.options if option.auto)
        stated = found.against_labels(auto.error)
        yield {
            "inputs": inputs,
            "rows": len(data.labels),
            "certified_epsilon": release.guarantee.epsilon,
            **{name: round(value, 4) for name, value in (("mean", mean), ("clean", clean), ("realized", realized))},
            "forecast": round(stated, 4),
            "stated_mean": round(found.spread or 0.0, 4),
            "ratio": round(stated / realized, 4),
        }


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Forecast over realized errors, and the improvements over the mean that were stated and found."""
    rows = frames["forecasts"].copy()
    rows["found"] = 100 * (1 - rows["realized"] / rows["mean"])
    rows["stated"] = 100 * (1 - rows["forecast"] / rows["stated_mean"])
    known = rows[rows["inputs"] == "right inputs"]
    return [
        *("", "Forecast error over realized error, mean and standard deviation over draws:", ""),
        *pivot(rows.sort_values(["inputs", "data"]), ["inputs", "data"], "ratio"),
        *("", "Error of always predicting the mean, by what the forecast was told, and on rows held out:", ""),
        *pivot(
            pd.concat([rows, known.assign(inputs="found", stated_mean=known["mean"])]),
            ["data"],
            "stated_mean",
            across="inputs",
        ),
        *("", "Improvement over the mean in %, found:", ""),
        *pivot(known, ["data"], "found", form=".1f"),
        *(line for inputs in INPUTS for line in stated_by(rows, inputs)),
    ]


def stated_by(rows: pd.DataFrame, inputs: str) -> list[str]:
    """The improvements that a forecast stated."""
    part = rows[rows["inputs"] == inputs]
    return ["", f"Forecast with {inputs}:", "", *pivot(part, ["data"], "stated", form=".1f")]


STUDY = Study(
    name="forecasts",
    recipe="2",
    key=("data", "epsilon"),
    part="inputs",
    columns=(
        *("data", "epsilon", "inputs", "draw", "rows", "certified_epsilon", "mean", "clean", "realized"),
        *("forecast", "stated_mean", "ratio", "seconds"),
    ),
    cells=cells,
    run=run,
    spots=(Spot(Cell({"data": "stay", "epsilon": 4.0}, INPUTS), "ratio", {"inputs": "right inputs"}, draws=3),),
)
EXPERIMENT = Experiment(
    name="forecasts",
    question="How near is a forecast of the error to the error?",
    studies=(STUDY,),
    page=page,
    draws=5,
    tables=tuple(TABLES),
    bundled=("progression",),
    epsilons=(0.25, 1.0, 4.0, 8.0),
)

if __name__ == "__main__":
    main(EXPERIMENT)
