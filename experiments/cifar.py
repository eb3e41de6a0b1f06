"""Tables 1 and 2 of Ghazi et al. 2021: LP-1ST and LP-2ST on CIFAR-10 and CIFAR-100, with the paper's settings.

    python experiments/cifar.py --device cuda --precision bf16            Table 1, for a graphics processor
    python experiments/cifar.py --data cifar100 --cifar100 DIR            Table 2, from cifar-100-binary/
    python experiments/cifar.py --network convolutional --epochs 5 --rows 10000 --epsilons 2,4     not the paper's
    python experiments/cifar.py --report-only                             tables from the rows at hand

Rows are written as they come, and those in the file are not computed again. README.md beside this file has the
protocol and what was found.
"""

import argparse
import csv
import functools
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np
import pandas as pd
from esfandiari import cifar10
from rich.progress import Progress
from torch import nn

from labeldp import Classes, Curator, Release
from labeldp.learning.stages import MultiStage
from labeldp.learning.torch import TorchClassifier, augmentation, convolutional, resnet18

NETWORKS: Mapping[str, Callable[..., nn.Module]] = MappingProxyType(
    {"resnet18": resnet18, "convolutional": convolutional}
)
Precision = Literal["full", "bf16"]
METHODS = ("LP-1ST", "LP-1ST, likelihood", "LP-2ST", "LP-2ST, likelihood")
SHARE, TEMPERATURE = 0.6, 0.5  # of the rows, in the first stage; slightly above half in the paper's Figure 4
COLUMNS = (
    *("data", "network", "epochs", "batch", "rate", "precision", "setting"),
    *("method", "epsilon", "draw", "rows", "certified_epsilon", "accuracy", "candidates", "seconds"),
)


@dataclass(frozen=True)
class Paper:
    """What section B of the paper sets for a table.

    Attributes:
        epsilons: Where it was measured.
        batch: Rows of a step.
        rate: The largest learning rate, reached after 15 % of the steps; a tenth of it is left at 30, 60 and 90 % each.
        published: Its test accuracies in %, by method and epsilon; "none" is without privacy.
        epochs: How often rows are seen, in each stage.
        momentum: Of the steps.
        decay: Of the weights.
        mixup: The paper takes 4 to 8.
    """

    epsilons: tuple[float, ...]
    batch: int
    rate: float
    published: Mapping[str, Mapping[float, float]]
    epochs: int = 200
    momentum: float = 0.9
    decay: float = 1e-4
    mixup: float = 8.0


PAPERS: Mapping[str, Paper] = MappingProxyType(
    {
        "cifar10": Paper(
            (1.0, 2.0, 3.0, 4.0, 6.0, 8.0),
            512,
            0.4,
            {
                "LP-1ST": {1.0: 59.96, 2.0: 82.38, 3.0: 89.89, 4.0: 92.58, 6.0: 93.58, 8.0: 94.70, np.inf: 94.96},
                "LP-2ST": {1.0: 63.67, 2.0: 86.05, 3.0: 92.19, 4.0: 93.37, 6.0: 94.26, 8.0: 94.52},
            },
        ),
        "cifar100": Paper(
            (3.0, 4.0, 5.0, 6.0, 8.0),
            256,
            0.2,
            {
                "LP-1ST": {3.0: 20.96, 4.0: 46.28, 5.0: 61.38, 6.0: 68.34, 8.0: 73.59, np.inf: 76.38},
                "LP-2ST": {3.0: 28.74, 4.0: 50.15, 5.0: 63.51, 6.0: 70.58, 8.0: 74.14},
            },
        ),
    }
)

PAPER_RUNS: Mapping[str, str] = MappingProxyType(
    {
        "cifar10": "Table 1, ResNet-18 for 200 epochs on all rows, which needs a graphics processor",
        "cifar100": "Table 2, the same on CIFAR-100",
    }
)


@dataclass(frozen=True)
class Images:
    """Images as bytes, shape (n, 3, 32, 32), and their classes.

    Attributes:
        space: The declared classes.
        train: Images to learn from.
        labels: Their true classes; only curators see them.
        test: Images held out.
        test_labels: Their true classes, read to score what is finished.
    """

    space: Classes
    train: np.ndarray
    labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray

    def first(self, rows: int | None) -> "Images":
        """The same with the first rows alone to learn from, in a fixed random order."""
        chosen = np.random.default_rng(0).permutation(len(self.labels))[:rows]
        return Images(self.space, self.train[chosen], self.labels[chosen], self.test, self.test_labels)


@dataclass(frozen=True)
class Course:
    """How networks are trained, as asked for on the command line.

    Attributes:
        data: The table.
        network: A name of ``NETWORKS``.
        epochs: How often rows are seen, in each stage.
        batch: Rows of a step.
        rate: The largest learning rate.
        precision: In which numbers it is computed.
        device: Where; None for the graphics processor if there is one.
    """

    data: str
    network: str
    epochs: int
    batch: int
    rate: float
    precision: Precision
    device: str | None

    def learner(self, method: Literal["plain", "likelihood"], seed: int) -> TorchClassifier:
        """A network with the paper's settings, and these."""
        paper = PAPERS[self.data]
        return TorchClassifier(
            functools.partial(NETWORKS[self.network], channels=3),
            method=method,
            epochs=self.epochs,
            batch_size=self.batch,
            optimizer="sgd",
            learning_rate=self.rate,
            momentum=paper.momentum,
            weight_decay=paper.decay,
            schedule="piecewise",
            mixup=paper.mixup,
            augment=augmentation(crop=4, flip=True, cutout=8),
            channels_last=True,
            seed=seed,
            device=self.device,
            precision=self.precision,
        )

    def described(self, rows: int) -> dict[str, object]:
        """The first columns of a row of results; ``setting`` says whether they are the paper's."""
        paper = PAPERS[self.data]
        same = (self.network, self.epochs, self.batch, self.rate) == ("resnet18", paper.epochs, paper.batch, paper.rate)
        return {
            "data": self.data,
            "network": self.network,
            "epochs": self.epochs,
            "batch": self.batch,
            "rate": self.rate,
            "precision": self.precision,
            "setting": "the paper's" if same and rows >= 40_000 else "not the paper's",
            "rows": rows,
        }


def cifar10_images(folder: Path) -> Images:
    """CIFAR-10 as far as it is in the folder."""
    pixels, labels = cifar10(folder)
    train, test = (part.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2).copy() for part in pixels)
    return Images(Classes(range(10)), train, labels[0], test, labels[1])


def cifar100_images(folder: Path) -> Images:
    """CIFAR-100 in its binary form: a coarse class, a fine class and 3 072 bytes for each image; fine classes count."""
    parts = []
    for name in ("train.bin", "test.bin"):
        rows = np.fromfile(folder / name, np.uint8).reshape(-1, 2 + 3 * 32 * 32)
        parts += [rows[:, 2:].reshape(-1, 3, 32, 32), rows[:, 1].astype(np.int64)]
    return Images(Classes(range(100)), *parts)


def learned(images: Images, course: Course, method: str, epsilon: float, draw: int) -> dict[str, object]:
    """A row of results, by a network that was fitted on released labels alone; without privacy at infinite epsilon."""
    start = time.perf_counter()
    fit: Literal["plain", "likelihood"] = "likelihood" if method.endswith("likelihood") else "plain"
    learner, candidates = course.learner(fit, draw), float(images.space.size)
    if np.isinf(epsilon):
        spent, model = np.inf, learner.fit(images.train, Release.public(images.labels, images.space))
    else:
        curator = Curator(images.labels, images.space, budget=epsilon)
        stages = 2 if method.startswith("LP-2ST") else 1
        model = MultiStage(
            learner,
            epsilon,
            stages=stages,
            shares=[SHARE, 1 - SHARE][:stages] if stages > 1 else None,
            temperature=TEMPERATURE if fit == "plain" else 1.0,
            filter_labels=fit == "plain",
        ).fit(images.train, curator)
        spent, candidates = model.release_.guarantee.epsilon, model.stages_[-1].candidates
    found = np.mean(images.space.encode(model.predict(images.test)) == images.space.encode(images.test_labels))
    return course.described(len(images.labels)) | {
        "method": method,
        "epsilon": epsilon,
        "draw": draw,
        "certified_epsilon": spent,
        "accuracy": round(float(found), 5),
        "candidates": round(candidates, 3),
        "seconds": round(time.perf_counter() - start, 1),
    }


def jobs(methods: list[str], epsilons: list[float], draws: int) -> Iterator[tuple[str, float, int]]:
    """What is asked, all of one draw before the next."""
    for draw in range(draws):
        yield "LP-1ST", np.inf, draw
        yield from ((method, epsilon, draw) for epsilon in epsilons for method in methods)


def run(images: Images, course: Course, asked: list[tuple[str, float, int]], output: Path) -> None:
    """Do what is not in the file of results yet."""
    known: set[tuple[object, ...]] = set()
    described = course.described(len(images.labels))
    keys = [*described, "method", "epsilon", "draw"]
    if output.exists():
        known = set(pd.read_csv(output)[keys].itertuples(index=False, name=None))
    missing = [job for job in asked if (*described.values(), *job) not in known]
    with output.open("a", newline="") as file, Progress() as progress:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not file.tell():
            writer.writeheader()
        task = progress.add_task("networks", total=len(missing))
        for job in missing:
            progress.update(task, description=f"{job[0]}, epsilon {job[1]:g}")
            writer.writerow(learned(images, course, *job))
            file.flush()
            progress.advance(task)


def report(results: pd.DataFrame, folder: Path) -> None:
    """Tables in Markdown."""
    text = [
        "# Results",
        "",
        "Made by `python experiments/cifar.py --report-only` from `cifar.csv`; `../README.md` says what they mean, and",
        "what was not run. Test accuracy in %: mean, and standard deviation where there are several draws.",
    ]
    faithful = set(results.loc[results["setting"] == "the paper's", "data"])
    text += [f"Not run here: {title}." for data, title in PAPER_RUNS.items() if data not in faithful]
    settings = ["data", "network", "epochs", "batch", "rate", "precision", "setting", "rows"]
    for key, part in results.groupby(settings, sort=False):
        data, network, epochs, batch, rate, precision, setting, rows = key
        text += ["", f"## {data}, {network}, {rows:,} rows: {setting} setting", ""]
        told = f"{epochs} epochs, batches of {batch}, rate {rate:g}, {precision} precision"
        text += [f"{told}; draws: {part['draw'].nunique()}.", ""]
        cells = part.groupby(["method", "epsilon"])["accuracy"].agg(["mean", "std"]) * 100
        epsilons = sorted(part["epsilon"].unique())
        head = ["method", *("no privacy" if np.isinf(each) else f"epsilon {each:g}" for each in epsilons)]
        text += [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
        for method in METHODS:
            found = [shown(cells.loc[(method, each)]) if (method, each) in cells.index else "" for each in epsilons]
            text += [f"| {method} | {' | '.join(found)} |"] * any(found)
        for method, values in PAPERS[str(data)].published.items():
            found = [f"{values[each]:.1f}" if each in values else "" for each in epsilons]
            text.append(f"| published {method}: ResNet-18, 200 epochs, 50,000 rows | {' | '.join(found)} |")
    (folder / "cifar.md").write_text("\n".join(text) + "\n")


def shown(cell: pd.Series) -> str:
    """A mean, with its spread where there is one."""
    return f"{cell['mean']:.1f}" + (f" ({cell['std']:.1f})" if cell["std"] >= 0 else "")


def main() -> None:
    """Read the command line, run, and report."""
    parser = argparse.ArgumentParser(description="LP-1ST and LP-2ST on CIFAR, with the paper's settings.")
    parser.add_argument("--data", choices=tuple(PAPERS), default="cifar10")
    parser.add_argument("--cifar100", type=Path, help="the folder cifar-100-binary with train.bin and test.bin")
    parser.add_argument("--network", choices=tuple(NETWORKS), default="resnet18")
    parser.add_argument("--methods", default="LP-1ST;LP-2ST", help=f"separated by semicolons, of {'; '.join(METHODS)}")
    parser.add_argument("--epsilons", help="separated by commas (default: the paper's)")
    parser.add_argument("--epochs", type=int, help="in each stage (default: the paper's)")
    parser.add_argument("--batch", type=int, help="rows of a step (default: the paper's)")
    parser.add_argument("--rate", type=float, help="largest learning rate (default: the paper's)")
    parser.add_argument("--rows", type=int, help="images to learn from (default: all)")
    parser.add_argument("--draws", type=int, default=3, help="releases of each kind (default: 3)")
    parser.add_argument("--device", help="such as cuda or cpu (default: a graphics processor if there is one)")
    parser.add_argument("--precision", choices=get_args(Precision), default="full")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results", help="folder to write to")
    parser.add_argument("--report-only", action="store_true", help="tables from the rows at hand")
    asked = parser.parse_args()
    methods = asked.methods.split(";")
    if unknown := set(methods) - set(METHODS):
        sys.exit(f"expected methods among {'; '.join(METHODS)}, found {'; '.join(sorted(unknown))}")
    asked.results.mkdir(parents=True, exist_ok=True)
    output = asked.results / "cifar.csv"
    if not asked.report_only:
        paper = PAPERS[asked.data]
        images = found_images(asked.data, asked.cifar100).first(asked.rows)
        settings = (asked.epochs or paper.epochs, asked.batch or paper.batch, asked.rate or paper.rate)
        course = Course(asked.data, asked.network, *settings, asked.precision, asked.device)
        epsilons = [float(each) for each in asked.epsilons.split(",")] if asked.epsilons else list(paper.epsilons)
        run(images, course, list(jobs(methods, epsilons, asked.draws)), output)
    report(pd.read_csv(output), asked.results)
    print(f"tables and rows: {asked.results}")


def found_images(data: str, given: Path | None) -> Images:
    """The images, from the folder that was given or from LABELDP_DATA."""
    folder = os.environ.get("LABELDP_DATA")
    if data == "cifar100":
        if given is None:
            sys.exit("expected the folder cifar-100-binary, found none; give --cifar100")
        return cifar100_images(given)
    if folder is None:
        sys.exit("expected a folder of data sets, found none; set LABELDP_DATA to the folder of cifar10/")
    return cifar10_images(Path(folder) / "cifar10")


if __name__ == "__main__":
    main()
