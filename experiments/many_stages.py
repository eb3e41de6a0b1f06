"""LP-MST in one to four stages, and accuracy by epoch within each training (Ghazi et al. 2021, figures 1(a) and 3).

many_stages.md has the protocol and what the results show.
"""

import copy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from _images import SPACE, TABLES
from _study import Cell, Experiment, Given, Row, Spot, Study, main, shown, table
from matplotlib.figure import Figure
from sensitivity import Data, loaded
from torch import Tensor, nn

from labeldp import Curator
from labeldp.learning.stages import MultiStage
from labeldp.learning.torch import TorchClassifier, mlp

ROWS, EPOCHS, TEMPERATURE, MIXUPS = 10_000, 16, 0.5, (0.0, 4.0)
#: Stages, and epochs of each; the last sees as many rows in one stage as four stages do.
METHODS = {**{f"LP-{stages}ST": (stages, EPOCHS) for stages in (1, 2, 3, 4)}, "LP-1ST, 51 epochs": (1, 51)}
#: Methods whose every epoch has a row, and at which epsilon; of others the end of each stage has one.
CURVES, CURVED = ("LP-1ST", "LP-2ST"), 2.0
#: Epochs that the page shows.
SHOWN = (1, 2, 4, 8, 12, 16)


class Watched(nn.Module):
    """The network of the last training that was begun: first ones are made, later ones are copies of those before."""

    latest: "Watched"

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        Watched.latest = self

    def forward(self, images: Tensor) -> Tensor:
        """Logits."""
        return self.network(images)

    def __deepcopy__(self, memo: dict[int, object]) -> "Watched":
        return Watched(copy.deepcopy(self.network, memo))


def learner(data: Data, cell: Cell, draw: int, curve: list[tuple[float, float]]) -> TorchClassifier:
    """A small network that takes released labels for true ones, as the paper's do; a curve gets a point each epoch."""
    rows, width = torch.from_numpy(data.test_features), data.features.shape[1]

    def report(_: str, done: int, __: int) -> None:
        if done:
            with torch.no_grad():
                curve.append(right(Watched.latest.eval()(rows).numpy(), data.test_labels))

    return TorchClassifier(
        lambda classes: Watched(mlp(width, classes)),
        method="plain",
        epochs=METHODS[cell["method"]][1],
        mixup=cell["mixup"],
        optimizer="adamw",
        learning_rate=0.003,
        seed=draw,
        device="cpu",
        report=report,
    )


def right(scores: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Shares of rows whose class is the likeliest, or among the two likeliest, in %; nothing else reads true labels."""
    ranked = np.argsort(-scores, axis=1, kind="stable")[:, :2] == labels[:, None]
    return round(100 * float(ranked[:, 0].mean()), 2), round(100 * float(ranked.any(axis=1).mean()), 2)


def cells(given: Given) -> Iterator[Cell]:
    """Each table, over epsilon, with mixup and without, in one stage to four."""
    for name in given.data:
        for epsilon in given.epsilons:
            yield from (cell_of(name, epsilon, mixup, method) for mixup in MIXUPS for method in METHODS)


def cell_of(data: str, epsilon: float, mixup: float, method: str) -> Cell:
    """One release in stages."""
    return Cell({"data": data, "epsilon": epsilon, "mixup": mixup, "method": method})


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """A row for the end of each stage of one release, or for each epoch."""
    torch.set_num_threads(1)
    data, curve = loaded(given, cell["data"]), []
    stages, epochs = METHODS[cell["method"]]
    learned = learner(data, cell, draw, curve)
    model = MultiStage(learned, cell["epsilon"], stages=stages, temperature=TEMPERATURE, filter_labels=True)
    model.fit(data.features[:ROWS], Curator(data.labels[:ROWS], SPACE, budget=cell["epsilon"]))
    each = cell["method"] in CURVES and cell["epsilon"] == CURVED
    for place, (accuracy, second) in enumerate(curve):
        if not each and (place + 1) % epochs:
            continue
        facts = model.stages_[place // epochs]
        yield {
            "stage": place // epochs + 1,
            "epoch": place % epochs + 1,
            "rows": facts.fitted_on,
            "candidates": round(facts.candidates, 2),
            "certified_epsilon": model.release_.guarantee.epsilon,
            "accuracy": accuracy,
            "top_2": second,
        }


def page(frames: dict[str, pd.DataFrame], folder: Path) -> list[str]:
    """Accuracy by stages, and by epoch."""
    rows = frames["many_stages"]
    figure(rows, folder / "many_stages.png")
    last = rows[rows["epoch"] == [METHODS[method][1] for method in rows["method"]]]
    ends = last[last["stage"] == [METHODS[method][0] for method in last["method"]]]
    text = ["", "Accuracy on test images in %, means over draws with standard deviations."]
    for name, part in ends.groupby("data", sort=False):
        text += ["", f"## {name}", "", f"{part['rows'].max():,} images to fit on, {part['draw'].nunique()} draws.", ""]
        columns = sorted({*zip(part["mixup"], part["epsilon"], strict=True)})
        lines = [
            [method, *(shown(found.loc[at(found, *column), "accuracy"], ".1f") for column in columns)]
            for method, found in part.groupby("method", sort=False)
        ]
        heads = (f"mixup {mixup:g}, epsilon {epsilon:g}" for mixup, epsilon in columns)
        text += table(["method", *heads], lines)
    text += ["", "## The end of each stage", "", "*Two*: images whose class is among the two likeliest.", ""]
    key = ["data", "mixup", "epsilon", "method", "stage"]
    forms = {"rows": ",.0f", "candidates": ".2f", "accuracy": ".1f", "top_2": ".1f"}
    lines = [
        [*by, *(shown(found[column], form) for column, form in forms.items())]
        for by, found in last.groupby(key, sort=False)
        if METHODS[by[3]][0] > 1
    ]
    text += table([*key, "fitted on", "candidates", "accuracy", "two"], lines)
    text += ["", f"## By epoch, at epsilon {CURVED:g}", "", "Accuracy, and in parentheses that of two classes.", ""]
    lines = []
    for by, found in curves(rows).groupby(["data", "mixup", "method", "stage"], sort=False):
        means = found.groupby("epoch")[["accuracy", "top_2"]].mean()
        lines.append([*by, *(f"{one:.1f} ({two:.1f})" for one, two in means.loc[list(SHOWN)].to_numpy())])
    text += table(["data", "mixup", "method", "stage", *(f"epoch {epoch}" for epoch in SHOWN)], lines)
    return text


def at(rows: pd.DataFrame, mixup: float, epsilon: float) -> pd.Series:
    """Which rows are of a column of a table."""
    return (rows["mixup"] == mixup) & (rows["epsilon"] == epsilon)


def curves(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of every epoch."""
    return rows[(rows["epsilon"] == CURVED) & rows["method"].isin(CURVES)]


def figure(rows: pd.DataFrame, path: Path) -> None:
    """The paper's figure 3: accuracy by epoch of one stage and two, and that of two classes in the first of these."""
    rows = curves(rows)
    panels = list(dict.fromkeys(zip(rows["data"], rows["mixup"], strict=True)))
    drawing = Figure(figsize=(0.5 + 3.2 * len(panels), 3.6), layout="constrained")
    places = drawing.subplots(1, max(1, len(panels)), squeeze=False)[0]
    for place, (name, mixup) in zip(places, panels, strict=bool(panels)):
        part = rows[(rows["data"] == name) & (rows["mixup"] == mixup)]
        for colour, ((method, stage), found) in enumerate(part.groupby(["method", "stage"])):
            means = found.groupby("epoch")[["accuracy", "top_2"]].mean()
            place.plot(means["accuracy"], color=f"C{colour}", label=f"{method}, stage {stage}")
            if (method, stage) == ("LP-2ST", 1):
                place.plot(means["top_2"], f"C{colour}:", label="the same, of two classes")
        place.set(title=f"{name}, mixup {mixup:g}", xlabel="epoch of the stage")
        place.grid(alpha=0.3)
    places[0].set_ylabel("accuracy on test images, %")
    places[0].legend(frameon=False, fontsize=8)
    drawing.savefig(path, dpi=80)


STUDY = Study(
    name="many_stages",
    recipe="1",
    key=("data", "epsilon", "mixup", "method"),
    columns=(
        *("data", "epsilon", "mixup", "method", "draw", "stage", "epoch", "rows", "candidates"),
        *("certified_epsilon", "accuracy", "top_2", "seconds"),
    ),
    cells=cells,
    run=run,
    spots=(Spot(cell_of("digits", 2.0, 4.0, "LP-3ST"), "accuracy", {"stage": 3}),),
)
EXPERIMENT = Experiment(
    name="many_stages",
    question="What is each further stage worth, and how does accuracy grow within a training?",
    studies=(STUDY,),
    page=page,
    draws=5,
    tables=tuple(TABLES),
    usual=("digits", "mnist", "fashion-mnist"),
    bundled=("digits",),
    shortened=True,
    epsilons=(1.0, 2.0),
)

if __name__ == "__main__":
    main(EXPERIMENT)
