"""A reward model from released preferences: which of two films a person rated higher, over epsilon.

preferences.md has the protocol and what the results show.
"""

import argparse
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, pivot
from movielens import loaded as ratings_of
from movielens import public_features
from torch import Tensor, nn

from labeldp import Classes, Curator, Release
from labeldp.learning.torch import ChannelLoss

SPACE = Classes(["second", "first"])
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
METHODS = ("plain", "likelihood", "unbiased")
WIDTH, EPOCHS, BATCH, RATE, HELD_OUT = 64, 12, 512, 0.003, 0.1


@dataclass(frozen=True)
class Comparisons:
    """Pairs of films that one person rated differently.

    Attributes:
        first: Features of the person and of the first film.
        second: The same for the second film.
        labels: Which of the two was rated higher.
    """

    first: Tensor
    second: Tensor
    labels: np.ndarray


@functools.cache
def loaded(path: Path) -> tuple[Comparisons, Comparisons]:
    """Comparisons to learn from, and comparisons of ratings held out."""
    data = ratings_of(path)
    sides = public_features(data)
    return (
        comparisons(sides, data.rows, data.labels),
        comparisons(sides, data.test_rows, data.test_labels),
    )


def comparisons(sides: list[np.ndarray], rows: np.ndarray, ratings: np.ndarray) -> Comparisons:
    """Each person's ratings in pairs by public chance, each rating in one at most; equal ones are left out."""
    order = np.random.default_rng(2).permutation(len(rows))
    order = order[np.argsort(rows[order, 0], kind="stable")]
    one, two = order[:-1:2], order[1::2]
    kept = (rows[one, 0] == rows[two, 0]) & (ratings[one] != ratings[two])
    one, two = one[kept], two[kept]
    preferred = np.where(ratings[one] > ratings[two], *reversed(SPACE.values))
    numbers = rows[:, :2].astype(int)
    return Comparisons(features(sides, numbers[one]), features(sides, numbers[two]), preferred)


def features(sides: list[np.ndarray], pairs: np.ndarray) -> Tensor:
    """Public features of person and film."""
    return torch.tensor(np.hstack([side[pairs[:, place]] for place, side in enumerate(sides)]), dtype=torch.float32)


def trained(data: Comparisons, release: Release, method: str, seed: int) -> nn.Module:
    """A reward model after the epoch in which held-out released preferences have the least loss."""
    torch.manual_seed(seed)
    network = nn.Sequential(
        nn.Linear(data.first.shape[1], WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)
    )
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE)
    loss, best = ChannelLoss(release, method), (float("inf"), {})
    targets = torch.from_numpy(release.targets())
    fit, held = torch.randperm(len(targets)).tensor_split([round((1 - HELD_OUT) * len(targets))])

    def loss_of(rows: Tensor) -> Tensor:
        return loss(network(data.first[rows]) - network(data.second[rows]), targets[rows])

    for _ in range(EPOCHS):
        for rows in fit[torch.randperm(len(fit))].split(BATCH):
            optimizer.zero_grad()
            loss_of(rows).backward()
            optimizer.step()
        with torch.no_grad():
            found = loss_of(held).item()
        if found < best[0]:
            best = found, {name: weight.clone() for name, weight in network.state_dict().items()}
    network.load_state_dict(best[1])
    return network


def scores(network: nn.Module, data: Comparisons) -> dict[str, float]:
    """Share of comparisons in which the film with the larger reward was rated higher, and log loss in nats."""
    with torch.no_grad():
        margin = (network(data.first) - network(data.second)).flatten().double()
    toward = np.where(data.labels == "first", 1.0, -1.0) * margin.numpy()
    return {
        "accuracy": round(float(np.mean(toward > 0)), 5),
        "log_loss": round(float(np.logaddexp(0.0, -toward).mean()), 5),
    }


def source(given: Given) -> Path:
    """The file of ratings."""
    return given.data or data_folder(given) / "movielens-100k" / "u.data.gz"


def cells(given: Given) -> Iterator[Cell]:
    """All methods on one release, over epsilon, and public preferences."""
    yield cell_of(np.inf)
    yield from map(cell_of, given.epsilons)


def cell_of(epsilon: float) -> Cell:
    """The methods that learn from one release."""
    return Cell({"data": "100k", "epsilon": epsilon}, METHODS if np.isfinite(epsilon) else ("no privacy",))


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """A row for each method, all from one release."""
    torch.set_num_threads(1)
    fit, test = loaded(source(given))
    private = np.isfinite(cell["epsilon"])
    curator = Curator(fit.labels, SPACE) if private else None
    release = curator.randomize(epsilon=cell["epsilon"]) if curator else Release.public(fit.labels, SPACE)
    for method in cell.parts:
        network = trained(fit, release, method if private else "likelihood", draw)
        spent = release.guarantee.epsilon if private else np.inf
        yield {"method": method, "rows": len(release), "certified_epsilon": spent} | scores(network, test)


def options(parser: argparse.ArgumentParser) -> None:
    """Ratings."""
    parser.add_argument("--data", type=Path, help="u.data (default: movielens-100k in LABELDP_DATA)")


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Accuracy and log loss of each method."""
    results = frames["preferences"]
    order = [(method,) for method in (*METHODS, "no privacy")]
    text = [
        "",
        f"{results['rows'].max():,} comparisons to learn from; draws: {results['draw'].nunique()}. Mean and standard",
        "deviation over draws, on comparisons of ratings that were held out.",
        "",
    ]
    text += pivot(results, ["method"], "accuracy", order=order, title="accuracy, %", scale=100, form=".1f")
    return [*text, "", *pivot(results, ["method"], "log_loss", order=order, title="log loss")]


STUDY = Study(
    name="preferences",
    recipe="1",
    key=("data", "epsilon"),
    part="method",
    columns=(*("data", "epsilon", "draw", "method", "rows", "certified_epsilon", "accuracy", "log_loss", "seconds"),),
    cells=cells,
    run=run,
    spots=(Spot(cell_of(1.0), "accuracy", {"method": "likelihood"}, draws=3),),
)
EXPERIMENT = Experiment(
    name="preferences",
    question="How well does a reward model order films that it learned from released preferences, over epsilon?",
    studies=(STUDY,),
    page=page,
    draws=5,
    epsilons=EPSILONS,
    options=options,
)

if __name__ == "__main__":
    main(EXPERIMENT)
