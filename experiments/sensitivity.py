"""What two-stage training depends on (Ghazi et al. 2021, figures 3 to 5): epochs, split, temperature, mixup, stage one.

sensitivity.md has the protocol and what the results show.
"""

import argparse
import functools
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from _images import SPACE, TABLES
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, table
from matplotlib.figure import Figure
from sklearn.base import clone

from labeldp import Curator, RandomizedResponse, public_split
from labeldp.learning.metrics import accuracy
from labeldp.learning.stages import MultiStage
from labeldp.learning.torch import TorchClassifier, mlp

EPSILON, ROWS, HELD_OUT = 2.0, 20_000, 0.1
EPOCHS, SHARE, TEMPERATURE, MIXUP = 8, 0.6, 1.0, 4.0
CURVE = (1, 2, 4, 8, 16)
SHARES, TEMPERATURES = (0.3, 0.5, 0.6, 0.7, 0.8), (0.25, 0.5, 1.0, 2.0)
MIXUPS = (0.0, 1.0, 4.0, 8.0)


@dataclass(frozen=True)
class Setting:
    """Settings of a release in stages and of its learners.

    Attributes:
        stages: How many stages.
        epochs: Epochs of each stage.
        share: The share of the rows in stage one of two.
        temperature: What the predictions of stage one are taken at.
        first: Mixup of stage one.
        last: Mixup of the last stage.
    """

    stages: int = 2
    epochs: int = EPOCHS
    share: float = SHARE
    temperature: float = TEMPERATURE
    first: float = MIXUP
    last: float = MIXUP


NAMES = tuple(field.name for field in fields(Setting))
GRIDS = {
    "epochs": [Setting(stages=stages, epochs=epochs) for stages in (1, 2) for epochs in CURVE],
    "split and temperature": [Setting(share=share, temperature=t) for share in SHARES for t in TEMPERATURES],
    "mixup": [Setting(first=first, last=last) for first in MIXUPS for last in MIXUPS],
}


@dataclass(frozen=True)
class Data:
    """Rows to fit on, rows whose released labels choose, and rows held out; features are public."""

    features: np.ndarray
    labels: np.ndarray
    test_features: np.ndarray
    test_labels: np.ndarray


def loaded(given: Given, name: str) -> Data:
    """The first rows of a table, each feature the mean of 2 x 2 pixels."""
    return _loaded(name, Path() if name == "digits" else data_folder(given), given.rows or ROWS)


@functools.cache
def _loaded(name: str, folder: Path, rows: int) -> Data:
    images_of = TABLES[name](folder).first(rows)
    parts = []
    for images in (images_of.images, images_of.test_images):
        count, _, height, width = images.shape
        means = images.reshape(count, height // 2, 2, width // 2, 2).mean(axis=(2, 4)) / 255.0
        parts.append(means.reshape(count, -1).astype(np.float32))
    return Data(parts[0], images_of.labels, parts[1], images_of.test_labels)


def learner(data: Data, setting: Setting, mixup: float, draw: int) -> TorchClassifier:
    """A small network that takes released labels for true ones, with mixup, as the paper's do."""
    width = data.features.shape[1]
    return TorchClassifier(
        lambda classes: mlp(width, classes),
        method="plain",
        epochs=setting.epochs,
        mixup=mixup,
        optimizer="adamw",
        learning_rate=0.003,
        seed=draw,
        device="cpu",
    )


def cells(given: Given) -> Iterator[Cell]:
    """Each setting of the grids once."""
    asked = dict.fromkeys(setting for grid in given.grids.split(",") for setting in GRIDS[grid])
    yield from (cell_of(name, setting) for name in given.data for setting in asked)


def cell_of(data: str, setting: Setting) -> Cell:
    """One setting on a table."""
    return Cell({"data": data} | asdict(setting))


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """Results of one draw: what was released, the accuracy that released labels estimate, and the true one."""
    torch.set_num_threads(1)
    data, setting = loaded(given, cell["data"]), Setting(**{name: cell[name] for name in NAMES})
    rest, held = public_split(len(data.labels), [1.0 - HELD_OUT, HELD_OUT], seed=0)
    judges = Curator(data.labels[held], SPACE, budget=EPSILON).randomize(RandomizedResponse(SPACE, EPSILON))
    learners = [learner(data, setting, mixup, draw) for mixup in (setting.first, setting.last)[-setting.stages :]]
    model = MultiStage(
        learners,
        EPSILON,
        stages=setting.stages,
        shares=[setting.share, 1.0 - setting.share][: setting.stages] if setting.stages > 1 else None,
        temperature=setting.temperature,
        warm_start=False,
        filter_labels=True,
    ).fit(data.features[rest], Curator(data.labels[rest], SPACE, budget=EPSILON))
    estimate = accuracy(judges, model.predict(data.features[held]))
    found: Row = {
        "rows": len(rest),
        "certified_epsilon": max(model.release_.guarantee.epsilon, judges.guarantee.epsilon),
        "released_accuracy": round(estimate.value, 5),
        "released_error": round(estimate.error, 5),
        "accuracy": right(model.predict_proba(data.test_features), data, 1),
    }
    if setting.stages > 1:
        first, last = model.stages_
        again = clone(learners[0], safe=False)  # bit by bit what stage one was
        again.fit(data.features[rest][first.rows], model.release_[first.rows])
        count = round(last.candidates)
        found |= {
            "candidates": round(last.candidates, 3),
            "truth_probability": round(last.truth_probability, 5),
            "top_k": right(again.predict_proba(data.test_features), data, count),
        }
    yield found


def right(probabilities: np.ndarray, data: Data, count: int) -> float:
    """The share of test rows whose class is among the likeliest; nothing but curators and this reads true labels."""
    ranked = np.argsort(-probabilities, axis=1, kind="stable")[:, :count]
    return round(float((ranked == data.test_labels[:, None]).any(axis=1).mean()), 5)


def means(results: pd.DataFrame, asked: list[Setting]) -> pd.DataFrame:
    """The mean over draws of each setting that is there, in the order of settings."""
    cells = results.groupby(list(NAMES)).mean(numeric_only=True)
    return pd.DataFrame([cells.loc[astuple(each)] for each in asked if astuple(each) in cells.index])


def page(frames: dict[str, pd.DataFrame], folder: Path) -> list[str]:
    """A table for each grid."""
    results = frames["sensitivity"]
    figure(results, folder / "sensitivity.png")
    text = [
        "",
        "Accuracy on test rows in %, and in parentheses what released labels of other rows estimate, with its standard",
        "error. *Chosen* is the setting with the highest estimate.",
    ]
    for name, part in results.groupby("data", sort=False):
        text += ["", f"## {name}", "", f"{part['rows'].max():,} rows to fit on, {part['draw'].nunique()} draws."]
        for title, asked in GRIDS.items():
            text += ["", f"### {title}", "", *grid_table(part, title, asked)]
    return text


#: What varies in each grid: down and across.
AXES = {"epochs": ("stages", "epochs"), "split and temperature": ("share", "temperature"), "mixup": ("first", "last")}


def grid_table(part: pd.DataFrame, title: str, asked: list[Setting]) -> Iterator[str]:
    """One grid."""
    down, across = AXES[title]
    groups = part.groupby(list(NAMES))
    found = {each: groups.get_group(astuple(each)) for each in asked if astuple(each) in groups.groups}
    columns, lines = list(dict.fromkeys(getattr(each, across) for each in asked)), []
    for line in dict.fromkeys(getattr(each, down) for each in asked):
        here = {getattr(each, across): rows for each, rows in found.items() if getattr(each, down) == line}
        lines.append([f"{line:g}", *(cell_text(here[column]) if column in here else "" for column in columns)])
    yield from table([down, *(f"{across} {column:g}" for column in columns)], lines)
    if found:
        best = max(found, key=lambda each: found[each]["released_accuracy"].mean())
        most = max(found, key=lambda each: found[each]["accuracy"].mean())
        yield ""
        yield (
            f"Chosen: {down} {getattr(best, down):g}, {across} {getattr(best, across):g}, "
            f"with {cell_text(found[best])}; the best on test rows has {100 * found[most]['accuracy'].mean():.1f}."
        )


def cell_text(rows: pd.DataFrame) -> str:
    """Accuracy on test rows, and by released labels."""
    error = 100 * np.sqrt((rows["released_error"] ** 2).sum()) / len(rows)
    return f"{100 * rows['accuracy'].mean():.1f} ({100 * rows['released_accuracy'].mean():.1f} +- {error:.1f})"


def figure(results: pd.DataFrame, path: Path) -> None:
    """Epochs, split and temperature, mixup, and stage one against the end."""
    part = results[results["data"] == results["data"].iloc[0]]
    drawing = Figure(figsize=(15.0, 3.8), layout="constrained")
    places = drawing.subplots(1, 4)
    for stages in (1, 2):
        curve = means(part, [each for each in GRIDS["epochs"] if each.stages == stages])
        if len(curve):
            epochs = [each.epochs for each in GRIDS["epochs"] if each.stages == stages][: len(curve)]
            places[0].plot(epochs, 100 * curve["accuracy"], marker=".", label=f"LP-{stages}ST")
    places[0].set_xscale("log", base=2)
    places[0].legend(frameon=False)
    places[0].set_xlabel("epochs of each stage")
    for place, title in zip(places[1:3], ("split and temperature", "mixup"), strict=True):
        down, across = AXES[title]
        found = means(part, GRIDS[title])
        if len(found) == len(GRIDS[title]):
            lines = list(dict.fromkeys(getattr(each, down) for each in GRIDS[title]))
            columns = list(dict.fromkeys(getattr(each, across) for each in GRIDS[title]))
            grid = 100 * found["accuracy"].to_numpy().reshape(len(lines), len(columns))
            image = place.imshow(grid, aspect="auto", cmap="viridis")
            place.set_xticks(range(len(columns)), [f"{each:g}" for each in columns])
            place.set_yticks(range(len(lines)), [f"{each:g}" for each in lines])
            drawing.colorbar(image, ax=place)
        place.set_xlabel({"temperature": "temperature", "last": "mixup of stage two"}[across])
        place.set_ylabel({"share": "share of rows in stage one", "first": "mixup of stage one"}[down])
    known = part[part["top_k"].notna()]
    dots = places[3].scatter(100 * known["top_k"], 100 * known["accuracy"], c=known["candidates"], s=14)
    drawing.colorbar(dots, ax=places[3], label="mean candidates of stage two")
    places[3].set_xlabel("stage one, accuracy of as many classes, %")
    for place in (places[0], places[3]):
        place.set_ylabel("accuracy on test rows, %")
        place.grid(alpha=0.3)
    drawing.savefig(path, dpi=100)


def options(parser: argparse.ArgumentParser) -> None:
    """Grids."""
    parser.add_argument("--grids", default=",".join(GRIDS), help="grids, separated by commas (default: all)")


STUDY = Study(
    name="sensitivity",
    recipe="1",
    key=("data", *NAMES),
    columns=(
        *("data", *NAMES, "draw", "rows", "certified_epsilon"),
        *("candidates", "truth_probability", "top_k", "released_accuracy", "released_error", "accuracy", "seconds"),
    ),
    cells=cells,
    run=run,
    spots=(
        Spot(cell_of("fashion-mnist", Setting(epochs=1)), "accuracy", draws=3),
        Spot(cell_of("fashion-mnist", Setting(stages=1, epochs=2)), "accuracy", draws=3),
    ),
)
EXPERIMENT = Experiment(
    name="sensitivity",
    question="What does training in two stages depend on?",
    studies=(STUDY,),
    page=page,
    draws=2,
    tables=tuple(TABLES),
    usual=("fashion-mnist",),
    bundled=("digits",),
    shortened=True,
    options=options,
)

if __name__ == "__main__":
    main(EXPERIMENT)
