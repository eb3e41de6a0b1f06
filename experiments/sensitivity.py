"""What two-stage training depends on (Ghazi et al. 2021, figures 3 to 5): epochs, split, temperature, mixup, stage one.

    python experiments/sensitivity.py                       everything, on Fashion-MNIST
    python experiments/sensitivity.py --data digits         a first look
    python experiments/sensitivity.py --report-only         tables and figure from the rows at hand

Rows are written as they come, and those in the file are not computed again. README.md beside this file has the
protocol and what was found.
"""

import argparse
import csv
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from _images import SPACE, TABLES
from matplotlib.figure import Figure
from rich.progress import Progress
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
    """How labels are asked for and learned.

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
COLUMNS = (
    *("data", *NAMES, "draw", "rows", "certified_epsilon"),
    *("candidates", "truth_probability", "top_k", "released_accuracy", "released_error", "accuracy", "seconds"),
)
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


def loaded(name: str, folder: Path) -> Data:
    """The first rows of a table, each feature the mean of 2 x 2 pixels."""
    table = TABLES[name](folder).first(ROWS)
    parts = []
    for images in (table.images, table.test_images):
        rows, _, height, width = images.shape
        means = images.reshape(rows, height // 2, 2, width // 2, 2).mean(axis=(2, 4)) / 255.0
        parts.append(means.reshape(rows, -1).astype(np.float32))
    return Data(parts[0], table.labels, parts[1], table.test_labels)


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


def done(data: Data, setting: Setting, draw: int) -> dict[str, object]:
    """Results of one draw: what was released, how good released labels say that the model is, and how good it is."""
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
    told = accuracy(judges, model.predict(data.features[held]))
    found: dict[str, object] = {
        "rows": len(rest),
        "certified_epsilon": max(model.release_.guarantee.epsilon, judges.guarantee.epsilon),
        "released_accuracy": round(told.value, 5),
        "released_error": round(told.error, 5),
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
    return found


def right(probabilities: np.ndarray, data: Data, count: int) -> float:
    """The share of test rows whose class is among the likeliest; nothing but curators and this reads true labels."""
    ranked = np.argsort(-probabilities, axis=1, kind="stable")[:, :count]
    return round(float((ranked == data.test_labels[:, None]).any(axis=1).mean()), 5)


def run(name: str, folder: Path, asked: list[Setting], draws: int, output: Path) -> None:
    """Do what is not in the file of results yet."""
    known: set[tuple[object, ...]] = set()
    if output.exists():
        known = set(pd.read_csv(output)[["data", *NAMES, "draw"]].itertuples(index=False, name=None))
    data = loaded(name, folder)
    missing = [
        (setting, draw)
        for draw in range(draws)
        for setting in dict.fromkeys(asked)
        if (name, *astuple(setting), draw) not in known
    ]
    with output.open("a", newline="") as file, Progress() as progress:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not file.tell():
            writer.writeheader()
        for setting, draw in progress.track(missing, description=name):
            start = time.perf_counter()
            found = done(data, setting, draw)
            seconds = round(time.perf_counter() - start, 1)
            writer.writerow({"data": name, "draw": draw, "seconds": seconds} | asdict(setting) | found)
            file.flush()


def means(results: pd.DataFrame, asked: list[Setting]) -> pd.DataFrame:
    """The mean over draws of each setting that is there, in the order of settings."""
    cells = results.groupby(list(NAMES)).mean(numeric_only=True)
    return pd.DataFrame([cells.loc[astuple(each)] for each in asked if astuple(each) in cells.index])


def report(results: pd.DataFrame, folder: Path) -> None:
    """Tables in Markdown and the figure."""
    text = [
        "# Results",
        "",
        "Made by `python experiments/sensitivity.py --report-only` from `sensitivity.csv`; `../README.md` says what",
        "they mean. Accuracy on test rows in %, and in parentheses what released labels of other rows say of it, with",
        "its standard error. *Chosen* is what those released labels like best.",
    ]
    for name, part in results.groupby("data", sort=False):
        text += ["", f"## {name}", "", f"{part['rows'].max():,} rows to fit on, {part['draw'].nunique()} draws."]
        for title, asked in GRIDS.items():
            text += ["", f"### {title}", "", *table(part, title, asked)]
    (folder / "sensitivity.md").write_text("\n".join(text) + "\n")
    figure(results, folder / "sensitivity.png")


#: What varies in each grid: down and across.
AXES = {"epochs": ("stages", "epochs"), "split and temperature": ("share", "temperature"), "mixup": ("first", "last")}


def table(part: pd.DataFrame, title: str, asked: list[Setting]) -> Iterator[str]:
    """One grid."""
    down, across = AXES[title]
    cells = part.groupby(list(NAMES))
    found = {each: cells.get_group(astuple(each)) for each in asked if astuple(each) in cells.groups}
    columns = list(dict.fromkeys(getattr(each, across) for each in asked))
    yield f"| {down} | {' | '.join(f'{across} {column:g}' for column in columns)} |"
    yield f"|{' --- |' * (1 + len(columns))}"
    for line in dict.fromkeys(getattr(each, down) for each in asked):
        shown = []
        for column in columns:
            here = [
                rows for each, rows in found.items() if (getattr(each, down), getattr(each, across)) == (line, column)
            ]
            shown.append(cell(here[0]) if here else "")
        yield f"| {line:g} | {' | '.join(shown)} |"
    if found:
        best = max(found, key=lambda each: found[each]["released_accuracy"].mean())
        most = max(found, key=lambda each: found[each]["accuracy"].mean())
        yield ""
        yield (
            f"Chosen: {down} {getattr(best, down):g}, {across} {getattr(best, across):g}, with {cell(found[best])}; "
            f"the best on test rows has {100 * found[most]['accuracy'].mean():.1f}."
        )


def cell(rows: pd.DataFrame) -> str:
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


def main() -> None:
    """Read the command line, run, and report."""
    parser = argparse.ArgumentParser(description="What training in two stages depends on.")
    parser.add_argument("--data", default="fashion-mnist", help=f"a table among {', '.join(TABLES)}")
    parser.add_argument("--grids", default=",".join(GRIDS), help="grids, separated by commas (default: all)")
    parser.add_argument("--draws", type=int, default=2, help="draws of each kind (default: 2)")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results", help="folder to write to")
    parser.add_argument("--report-only", action="store_true", help="tables and figure from the rows at hand")
    asked = parser.parse_args()
    grids = asked.grids.split(",")
    for found, known in (([asked.data], TABLES), (grids, GRIDS)):
        if unknown := set(found) - set(known):
            sys.exit(f"expected some of {', '.join(known)}, found {', '.join(sorted(unknown))}")
    folder = os.environ.get("LABELDP_DATA")
    if folder is None and not asked.report_only and asked.data != "digits":
        sys.exit("LABELDP_DATA names no folder of data sets")
    torch.set_num_threads(1)
    asked.results.mkdir(parents=True, exist_ok=True)
    output = asked.results / "sensitivity.csv"
    if not asked.report_only:
        settings = [setting for grid in grids for setting in GRIDS[grid]]
        run(asked.data, Path(folder or "."), settings, asked.draws, output)
    report(pd.read_csv(output), asked.results)
    print(f"tables, figure and rows: {asked.results}")


if __name__ == "__main__":
    main()
