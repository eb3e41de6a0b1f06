"""Tables 1 and 2 of Ghazi et al. 2021: LP-1ST and LP-2ST on CIFAR-10 and CIFAR-100, with the paper's settings.

cifar.md has the protocol, the commands of smaller runs, and what was not run.
"""

import argparse
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np
import pandas as pd
import torch
from _study import Cell, Experiment, Given, Row, Study, data_folder, main, shown, table
from esfandiari import cifar10
from torch import nn

from labeldp import Classes, Curator, Release, SubsetResponse
from labeldp.learning.stages import MultiStage
from labeldp.learning.torch import (
    TRAINING,
    TorchClassifier,
    augmentation,
    convolutional,
    resnet18,
    whitened,
)

NETWORKS: Mapping[str, Callable[..., nn.Module]] = MappingProxyType(
    {"resnet18": resnet18, "convolutional": convolutional, "whitened": whitened}
)
Precision = Literal["full", "bf16"]
SUBSETS = "subsets, likelihood"  # one release of subsets, which tell more than randomized response
METHODS = ("LP-1ST", "LP-1ST, likelihood", "LP-2ST", "LP-2ST, likelihood", SUBSETS)
QUICK = "whitened"  # the network with settings of its own
QUICK_COURSE = tuple(TRAINING[QUICK][name] for name in ("epochs", "batch_size", "learning_rate"))
SHARE, TEMPERATURE = 0.6, 0.5  # of the rows, in the first stage; slightly above half in the paper's Figure 4


@dataclass(frozen=True)
class Paper:
    """Settings of section B of the paper for a table.

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
        """The same images with the first rows alone to learn from, in a fixed random order."""
        chosen = np.random.default_rng(0).permutation(len(self.labels))[:rows]
        return Images(self.space, self.train[chosen], self.labels[chosen], self.test, self.test_labels)


def learner(given: Given, cell: Cell, method: Literal["plain", "likelihood"], seed: int) -> TorchClassifier:
    """A network with the paper's settings, or those of its recipe, and those of the cell."""
    paper = PAPERS[cell["data"]]
    if cell["network"] == QUICK:
        own = {"epochs": cell["epochs"], "batch_size": cell["batch"], "learning_rate": cell["rate"]}
        return TorchClassifier(
            functools.partial(whitened, channels=3),
            method=method,
            seed=seed,
            device=given.device,
            precision=cell["precision"],
            report=told,
            **{**TRAINING[QUICK], **own},
        )
    return TorchClassifier(
        functools.partial(NETWORKS[cell["network"]], channels=3),
        method=method,
        epochs=cell["epochs"],
        batch_size=cell["batch"],
        optimizer="sgd",
        learning_rate=cell["rate"],
        momentum=paper.momentum,
        weight_decay=paper.decay,
        schedule="piecewise",
        mixup=paper.mixup,
        augment=augmentation(crop=4, flip=True, cutout=8),
        channels_last=True,
        seed=seed,
        device=given.device,
        precision=cell["precision"],
    )


def told(_: str, done: int, of: int) -> None:
    """Say how many epochs are done."""
    print(f"epoch {done} of {of}", file=sys.stderr, flush=True)


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


def loaded(given: Given, data: str) -> Images:
    """The images of a table, as many as are asked for."""
    if data == "cifar100":
        if given.cifar100 is None:
            raise FileNotFoundError("expected the folder cifar-100-binary, found none; give --cifar100")
        return _loaded(data, given.cifar100).first(given.rows)
    return _loaded(data, data_folder(given) / "cifar10").first(given.rows)


@functools.cache
def _loaded(data: str, folder: Path) -> Images:
    return {"cifar10": cifar10_images, "cifar100": cifar100_images}[data](folder)


COURSE = ("data", "network", "epochs", "batch", "rate", "precision")


def cells(given: Given) -> Iterator[Cell]:
    """LP-1ST without privacy, and each method over epsilon, as networks are trained by the options."""
    for data in given.data:
        paper = PAPERS[data]
        usual = QUICK_COURSE if given.network == QUICK else (paper.epochs, paper.batch, paper.rate)
        settings = [own or other for own, other in zip((given.epochs, given.batch, given.rate), usual, strict=True)]
        course = dict(zip(COURSE, (data, given.network, *settings, given.precision), strict=True))
        course["rows"] = len(loaded(given, data).labels)
        epsilons = [float(each) for each in given.epsilons.split(",")] if given.epsilons else paper.epsilons
        for epsilon in epsilons:
            yield from (Cell(course | {"method": method, "epsilon": epsilon}) for method in given.methods.split(";"))
        yield Cell(course | {"method": "LP-1ST", "epsilon": np.inf})


def faithful(cell: Cell) -> bool:
    """Tell whether a network is trained as in the paper."""
    paper = PAPERS[cell["data"]]
    same = ("resnet18", paper.epochs, paper.batch, paper.rate)
    return tuple(cell[name] for name in ("network", "epochs", "batch", "rate")) == same and cell["rows"] >= 40_000


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """A row of results, by a network that was fitted on released labels alone; without privacy at infinite epsilon."""
    images, method, epsilon = loaded(given, cell["data"]), cell["method"], cell["epsilon"]
    fit: Literal["plain", "likelihood"] = "likelihood" if method.endswith("likelihood") else "plain"
    network, candidates = learner(given, cell, fit, draw), float(images.space.size)
    if np.isinf(epsilon):
        spent, model = np.inf, network.fit(images.train, Release.public(images.labels, images.space))
    elif method == SUBSETS:
        release = Curator(images.labels, images.space).randomize(SubsetResponse(images.space, epsilon))
        spent, model = release.guarantee.epsilon, network.fit(images.train, release)
    else:
        curator = Curator(images.labels, images.space, budget=epsilon)
        stages = 2 if method.startswith("LP-2ST") else 1
        model = MultiStage(
            network,
            epsilon,
            stages=stages,
            shares=[SHARE, 1 - SHARE][:stages] if stages > 1 else None,
            temperature=TEMPERATURE if fit == "plain" else 1.0,
            filter_labels=fit == "plain",
        ).fit(images.train, curator)
        spent, candidates = model.release_.guarantee.epsilon, model.stages_[-1].candidates
    chances = model.predict_proba(images.test)
    if cell["network"] == QUICK:  # images and their mirror images count alike
        chances = chances + model.predict_proba(images.test[..., ::-1].copy())
    found = np.mean(model.classes_[np.argmax(chances, axis=1)] == images.test_labels)
    yield {
        "setting": "the paper's" if faithful(cell) else "not the paper's",
        "device": given.device or ("cuda" if torch.cuda.is_available() else "cpu"),
        "certified_epsilon": spent,
        "accuracy": round(float(found), 5),
        "candidates": round(candidates, 3),
    }


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Test accuracy of each method, for each way to train."""
    results = frames["cifar"]
    text = ["", "Test accuracy in %: mean, and standard deviation where there are several draws.", ""]
    known = set(results.loc[results["setting"] == "the paper's", "data"])
    text += [f"Not run here: {title}." for data, title in PAPER_RUNS.items() if data not in known]
    for key, part in results.groupby([*COURSE, "setting", "rows"], sort=False):
        data, network, epochs, batch, rate, precision, setting, rows = key
        text += ["", f"## {data}, {network}, {rows:,} rows: {setting} setting", ""]
        course = f"{epochs} epochs, batches of {batch}, rate {rate:g}, {precision} precision"
        devices = " and ".join(sorted(part["device"].unique()))
        text += [f"{course}, on {devices}; draws: {part['draw'].nunique()}.", ""]
        epsilons, lines = sorted(part["epsilon"].unique()), []
        for method in (method for method in METHODS if method in set(part["method"])):
            original = part[part["method"] == method].groupby("epsilon")["accuracy"]
            found = {epsilon: shown(100 * values, ".1f") for epsilon, values in original}
            lines.append([method, *(found.get(epsilon, "") for epsilon in epsilons)])
        for method, values in PAPERS[str(data)].published.items():
            found = [f"{values[each]:.1f}" if each in values else "" for each in epsilons]
            lines.append([f"published {method}: ResNet-18, 200 epochs, 50,000 rows", *found])
        text += table(
            ["method", *("no privacy" if np.isinf(each) else f"epsilon {each:g}" for each in epsilons)], lines
        )
    return text


def options(parser: argparse.ArgumentParser) -> None:
    """Options for how networks are trained."""
    parser.add_argument("--cifar100", type=Path, help="the folder cifar-100-binary with train.bin and test.bin")
    parser.add_argument("--network", choices=tuple(NETWORKS), default="resnet18")
    parser.add_argument("--methods", default="LP-1ST;LP-2ST", help=f"separated by semicolons, of {'; '.join(METHODS)}")
    parser.add_argument("--epsilons", help="separated by commas (default: the paper's)")
    parser.add_argument("--epochs", type=int, help="in each stage (default: the paper's)")
    parser.add_argument("--batch", type=int, help="rows of a step (default: the paper's)")
    parser.add_argument("--rate", type=float, help="largest learning rate (default: the paper's)")
    parser.add_argument("--rows", type=int, help="images to learn from (default: all)")
    parser.add_argument("--device", help="such as cuda or cpu (default: a graphics processor if there is one)")
    parser.add_argument("--precision", choices=get_args(Precision), default="full")


STUDY = Study(
    name="cifar",
    recipe="1",
    key=(*COURSE, "rows", "method", "epsilon"),
    columns=(
        *("data", "network", "epochs", "batch", "rate", "precision", "setting"),
        *("method", "epsilon", "draw", "rows", "device", "certified_epsilon", "accuracy", "candidates", "seconds"),
    ),
    cells=cells,
    run=run,
)
EXPERIMENT = Experiment(
    name="cifar",
    question="How accurate are LP-1ST and LP-2ST on CIFAR, with the paper's settings?",
    studies=(STUDY,),
    page=page,
    draws=3,
    tables=tuple(PAPERS),
    usual=("cifar10",),
    bundled=("cifar100",),  # its folder is an option
    options=options,
    unspotted="one draw is recorded, which has no spread, and a network takes a minute or more",
)

if __name__ == "__main__":
    main(EXPERIMENT)
