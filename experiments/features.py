"""Releasing features too: label inference, accuracy and estimated epsilons (Busa-Fekete et al. 2023, figures 3 and 4).

    python experiments/features.py --cache DIR                everything; generators are kept in DIR
    python experiments/features.py --data digits --scale 0.1 --results DIR    a first look
    python experiments/features.py --report-only              tables and figures from the rows at hand

Rows are written as they come, and those in the file are not computed again. README.md beside this file has the
protocol and what was found.
"""

import argparse
import csv
import functools
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from _images import TABLES
from matplotlib.figure import Figure
from rich.progress import Progress
from torch import nn

from labeldp import Classes, Curator, DoubleResponse, RandomizedResponse, Release
from labeldp.audit.pipelines import divergence_of_log_odds, held_out_log_odds
from labeldp.bounds import features_divergence
from labeldp.learning.torch import ConditionalGenerator, ImageGenerator, ImageMixture, TorchClassifier

SPACE = Classes([0, 9])
NOISES = (0.1, 0.2, 0.3, 0.35, 0.4, 0.7)
METHODS = ("unbiased", "likelihood")
IMAGES, GENERATOR_IMAGES, JUDGE_IMAGES = 20_000, 120_000, 20_000  # that are seen, whatever the rows
ORDERS = (1.5, 2.0, 4.0, 8.0)
NOT_SOUND = "network of the private rows, NOT SOUND"
COLUMNS = (
    *("setting", "mechanism", "generator", "method", "noise", "draw", "rows", "certified_epsilon"),
    *("inference", "inference_with_label", "test_accuracy", "seconds"),
)
ESTIMATES = ("generator", "judge", "held_out", "label", "order", "draw", "rows", "estimate", "seconds")


@dataclass(frozen=True)
class Rows:
    """Zeros and nines: images of shape (n, 1, 28, 28), and their true labels."""

    images: np.ndarray
    labels: np.ndarray

    def take(self, rows: np.ndarray) -> "Rows":
        """Some of them."""
        return Rows(self.images[rows], self.labels[rows])

    def of(self, label: int) -> np.ndarray:
        """The images of a class."""
        return self.images[self.labels == label]


@dataclass(frozen=True)
class Setting:
    """Who releases what.

    Attributes:
        rows: Which rows are private: ``"all"``, or the ``"half"`` that no generator saw.
        generator: What features are redrawn with; empty for Mechanism 1, which releases them as they are.
    """

    rows: str
    generator: str = ""


SETTINGS = {
    "response": Setting("half"),
    "double, network": Setting("half", "network of auxiliary rows"),
    "double, mixture": Setting("half", "mixture of auxiliary rows"),
    "response, all rows": Setting("all"),
    "double, as in the paper": Setting("all", NOT_SOUND),
}


class Digits:
    """The rows of the experiment, and its generators, which are kept in a folder."""

    def __init__(self, name: str, folder: Path, cache: Path, scale: float) -> None:
        table = TABLES[name](folder)
        parts = [(table.images, table.labels), (table.test_images, table.test_labels)]
        chosen = [np.flatnonzero(np.isin(labels, SPACE.points)) for _, labels in parts]
        train, test = (Rows(images[rows], labels[rows]) for (images, labels), rows in zip(parts, chosen, strict=True))
        order = np.random.default_rng(0).permutation(len(train.labels))
        self.name, self.scale, self.cache, self.test = name, scale, cache, test
        self.auxiliary = train.take(order[: len(order) // 2])
        self.private = {"half": train.take(order[len(order) // 2 :]), "all": train.take(order)}

    def generator(self, name: str) -> ImageGenerator:
        """A generator by its name, from the cache where it was fitted before."""
        return self._generators[name]()

    @cached_property
    def _generators(self) -> dict[str, Callable[[], ImageGenerator]]:
        return {
            "network of auxiliary rows": self._kept("network", self.network, self.auxiliary),
            "mixture of auxiliary rows": self._kept("mixture", lambda _: ImageMixture(), self.auxiliary),
            NOT_SOUND: self._kept("private", self.network, self.private["all"]),
        }

    def network(self, rows: Rows) -> ConditionalGenerator:
        """The adversarial network, which sees as many images whatever the rows."""
        return ConditionalGenerator(epochs=epochs(self.scale * GENERATOR_IMAGES, len(rows.labels)))

    def _kept(self, name: str, learner: Callable[[Rows], object], rows: Rows) -> Callable[[], ImageGenerator]:
        found: list[ImageGenerator] = []

        def load() -> ImageGenerator:
            path = self.cache / f"{name}-{self.name}.safetensors"
            if not path.exists():
                torch.manual_seed(0)
                start = time.perf_counter()
                fitted = learner(rows).fit(rows.images, Release.public(rows.labels, SPACE), f"{name}: zeros and nines")
                fitted.save(path)
                print(f"{name}: fitted in {time.perf_counter() - start:.0f} seconds", flush=True)
            if not found:
                found.append(ImageGenerator.load(path))
            return found[0]

        return load


def epochs(images: float, rows: int) -> int:
    """Epochs of so many rows after which about so many images were seen."""
    return max(1, round(images / rows))


def classifier(classes: int, side: int) -> nn.Module:
    """A standard small convolutional network: two convolutions, a hidden layer."""
    flat = 32 * (-(-side // 4)) ** 2
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 5, stride=2, padding=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(flat, 64), nn.ReLU(), nn.Linear(64, classes)),
    )


def network(images: np.ndarray, method: str, draw: int, seen: float) -> TorchClassifier:
    """The network of all settings; nothing of it is tuned."""
    made = functools.partial(classifier, side=images.shape[2])
    times = epochs(seen, len(images))
    return TorchClassifier(made, method=method, epochs=times, batch_size=128, learning_rate=0.003, seed=draw)


def released(digits: Digits, setting: Setting, noise: float) -> tuple[np.ndarray, Release]:
    """Features and labels as they leave. Each is kept with chance 1 - noise, and else drawn anew.

    The paper's generator saw the rows that it redraws, which the library refuses: there, features are redrawn by hand.
    """
    private = digits.private[setting.rows]
    epsilon = math.log1p((1 - noise) * SPACE.size / noise)
    curator = Curator(private.labels, SPACE, budget=epsilon)
    if not setting.generator:
        return private.images, curator.randomize(RandomizedResponse(SPACE, epsilon))
    generator = digits.generator(setting.generator).generator()
    if setting.generator != NOT_SOUND:
        rows = curator.randomize_rows(DoubleResponse(SPACE, epsilon, generator), private.images)
        return rows.array(), rows.labels
    chance = np.random.default_rng()
    redrawn = np.flatnonzero(chance.random(len(private.labels)) < noise)
    images = private.images.copy()
    drawn = generator.sample(chance.integers(SPACE.size, size=len(redrawn)))
    images[redrawn] = generator.form.array(drawn)
    return images, curator.randomize(RandomizedResponse(SPACE, epsilon))


def figure_three(digits: Digits, name: str, noise: float, draw: int, methods: list[str]) -> Iterator[dict[str, object]]:
    """What networks on one release name rightly: the private rows, with and without their released labels, and others.

    True labels are read here alone, after a network is finished, and choose nothing.
    """
    setting = SETTINGS[name]
    truth, test = digits.private[setting.rows].labels == SPACE.points[1], digits.test.labels == SPACE.points[1]
    images, release = released(digits, setting, noise)
    for method in methods:
        start = time.perf_counter()
        model = network(images, method, draw, IMAGES).fit(images, release)
        chances = model.predict_proba(images)
        both = chances * release.likelihood()
        yield {
            "mechanism": "double" if setting.generator else "response",
            "generator": setting.generator,
            "method": method,
            "rows": len(truth),
            "certified_epsilon": release.guarantee.epsilon,
            "inference": round(float(np.mean(chances.argmax(axis=1) == truth)), 5),
            "inference_with_label": round(float(np.mean(both.argmax(axis=1) == truth)), 5),
            "test_accuracy": round(float(np.mean(model.predict_proba(digits.test.images).argmax(axis=1) == test)), 5),
            "seconds": round(time.perf_counter() - start, 1),
        }


class FreshJudge:
    """A network that learns to tell two kinds of images apart, with the names of scikit-learn."""

    def __init__(self, digits: Digits, draw: int) -> None:
        self.digits, self.draw = digits, draw
        self.classes_ = np.array([0, 1])

    def fit(self, images: np.ndarray, kinds: np.ndarray) -> "FreshJudge":
        """Learn which kind each image is of."""
        labels = Release.public(np.asarray(kinds).astype(np.int64), Classes([0, 1]))
        self.network = network(images, "plain", self.draw, self.digits.scale * JUDGE_IMAGES).fit(images, labels)
        return self

    def predict_proba(self, images: np.ndarray) -> np.ndarray:
        """The chances of both kinds."""
        return self.network.predict_proba(images)


def figure_four(digits: Digits, generator: str, judge: str, draw: int) -> Iterator[dict[str, object]]:
    """Estimated divergences of the true images of each class from the generated ones, by a discriminator.

    Estimates, whatever the judge: none of them may enter a certificate.
    """
    fitted = digits.generator(generator)
    drawn = fitted.generator()
    others = {"own": digits.private["all"] if generator == NOT_SOUND else digits.auxiliary, "fresh": digits.test}
    if judge == "fresh" and generator != NOT_SOUND:
        others["fresh, more rows"] = digits.private["half"]
    for held, rows in others.items():
        if not held.startswith(judge):
            continue
        for code, label in enumerate(SPACE.points):
            start, given = time.perf_counter(), rows.of(label)
            made = drawn.form.array(drawn.sample(np.full(len(given), code)))
            odds = (
                (fitted.log_odds(given, label), fitted.log_odds(made, label))
                if judge == "own"
                else held_out_log_odds(given, made, FreshJudge(digits, draw))
            )
            for order in ORDERS:
                yield {
                    "held_out": {"own": "no: what it was fitted on", "fresh": "test rows"}.get(held, "private half"),
                    "label": label,
                    "order": order,
                    "rows": len(given),
                    "estimate": round(divergence_of_log_odds(*odds, order).value, 4),
                    "seconds": round(time.perf_counter() - start, 1),
                }


def judges() -> list[tuple[str, str]]:
    """Generators, each with who judges it: a mixture has no discriminator of its own."""
    names = [setting.generator for setting in SETTINGS.values() if setting.generator]
    return [(name, judge) for name in names for judge in ("own", "fresh") if judge == "fresh" or "network" in name]


def run(asked: argparse.Namespace, folder: Path) -> None:
    """Do what is not in the files of results yet."""
    digits = Digits(asked.data, folder, asked.cache, asked.scale)
    noises, settings = [float(each) for each in asked.noises.split(",")], asked.settings.split(";")
    with Progress() as progress:
        jobs = [(name, noise, draw) for draw in range(asked.draws) for noise in noises for name in settings]
        file, known = asked.results / "features.csv", ("setting", "noise", "draw", "method")
        done = seen(file, known)
        for name, noise, draw in progress.track(jobs, description="releases"):
            methods = [method for method in METHODS if (name, noise, draw, method) not in done]
            shared = {"setting": name, "noise": noise, "draw": draw}
            if methods:
                append(file, COLUMNS, [shared | row for row in figure_three(digits, name, noise, draw, methods)])
        if asked.only == "3":
            return
        file, known = asked.results / "features_divergence.csv", ("generator", "judge", "draw")
        done = seen(file, known)
        for name, judge in progress.track(judges(), description="divergences"):
            for draw in range(asked.draws):
                if (name, judge, draw) not in done:
                    shared = {"generator": name, "judge": judge, "draw": draw}
                    append(file, ESTIMATES, [shared | row for row in figure_four(digits, name, judge, draw)])


def seen(path: Path, known: tuple[str, ...]) -> set[tuple[object, ...]]:
    """What a file of results has, by these columns."""
    return set(pd.read_csv(path)[list(known)].itertuples(index=False, name=None)) if path.exists() else set()


def append(path: Path, columns: tuple[str, ...], rows: list[dict[str, object]]) -> None:
    """Write the rows of one release together."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


def bounds(estimates: pd.DataFrame) -> Iterator[tuple[pd.Series, np.ndarray, np.ndarray, np.ndarray]]:
    """Over lambda, for each judge and order: the printed bound and the mended one, from the larger class's estimate.

    The printed one takes the divergence of a class from its own model, the mended one that from both models mixed,
    which is larger by ``ln 2`` at the most.
    """
    noises = np.linspace(0.02, 0.98, 49)
    key = ["generator", "judge", "held_out", "order"]
    worst = estimates.groupby([*key, "draw"], sort=False)["estimate"].max().groupby(level=key, sort=False).mean()
    for line in worst.reset_index().itertuples():
        apart = max(0.0, line.estimate)
        printed = [features_divergence(line.order, SPACE.size, noise, apart).size("printed") for noise in noises]
        mended = [features_divergence(line.order, SPACE.size, noise, apart + math.log(2)).value for noise in noises]
        yield line, noises, np.array(printed), np.array(mended)


def report(results: Path) -> None:
    """Tables in Markdown and the figures."""
    rows = pd.read_csv(results / "features.csv")
    rows = rows.iloc[np.argsort(rows["setting"].map(list(SETTINGS).index), kind="stable")]
    text = [
        "# Results",
        "",
        "Made by `python experiments/features.py --report-only` from `features.csv` and `features_divergence.csv`;",
        "`../README.md` says what they mean. Shares of rows in %, mean over draws, with half the range in parentheses.",
    ]
    wanted = {
        "inference": "Private rows whose label the network names from what was released of their features",
        "inference_with_label": "The same, named from the features and the released label together",
        "test_accuracy": "Test rows that the network names rightly",
    }
    noises = sorted(rows["noise"].unique())
    for column, title in wanted.items():
        head = ["setting", "method", *(f"lambda {noise:g}" for noise in noises)]
        text += ["", f"## {title}", "", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
        for (setting, method), original in rows.groupby(["setting", "method"], sort=False):
            cells = [cell(original.loc[original["noise"] == noise, column]) for noise in noises]
            text.append(f"| {' | '.join([shown(setting), method, *cells])} |")
    drawing = results / "features_divergence.csv"
    if drawing.exists():
        text += estimates_text(pd.read_csv(drawing))
        figure_of_bounds(pd.read_csv(drawing), results / "features_divergence.png")
    (results / "features.md").write_text("\n".join(text) + "\n")
    figure_of_attacks(rows, results / "features.png")


def shown(setting: str) -> str:
    """A setting, and whether it is sound."""
    return f"{setting} (NOT SOUND)" if SETTINGS[setting].generator == NOT_SOUND else setting


def cell(values: pd.Series) -> str:
    """A mean and half a range in percent."""
    spread = f" ({50 * (values.max() - values.min()):.1f})" if len(values) > 1 else ""
    return f"{100 * values.mean():.1f}{spread}" if len(values) else ""


def estimates_text(estimates: pd.DataFrame) -> list[str]:
    """Estimated divergences, and the bounds that would follow if they were right."""
    text = [
        "",
        "## Estimated divergences, and the epsilon that they would give",
        "",
        "Rényi divergence in nats of the true images of a class from generated ones, the larger of both classes, mean",
        "over draws: an ESTIMATE by a discriminator and no guarantee. Then epsilon at lambda 0.4, printed and mended.",
        "",
        "| generator | judge | held out | order | divergence | printed, 0.4 | mended, 0.4 |",
        "|" + " --- |" * 7,
    ]
    for line, noises, printed, mended in bounds(estimates):
        place = int(np.argmin(np.abs(noises - 0.4)))
        found = [f"{each[place]:.2f}" for each in (printed, mended)]
        parts = [line.generator, line.judge, line.held_out, f"{line.order:g}", f"{line.estimate:.2f}", *found]
        text.append(f"| {' | '.join(parts)} |")
    return text


def figure_of_attacks(rows: pd.DataFrame, path: Path) -> None:
    """Figure 3: label inference and test accuracy over lambda."""
    drawing = Figure(figsize=(13.0, 4.6), layout="constrained")
    places = drawing.subplots(1, 3)
    titles = ("inference from features", "inference from features and label", "test accuracy")
    for place, column, title in zip(
        places, ("inference", "inference_with_label", "test_accuracy"), titles, strict=True
    ):
        for number, setting in enumerate(SETTINGS):
            for method, style in zip(METHODS, ("-", "--"), strict=True):
                original = rows[(rows["setting"] == setting) & (rows["method"] == method)]
                means = 100 * original.groupby("noise")[column].mean()
                label = f"{shown(setting)}, {method}" if place is places[0] else None
                place.plot(means, style, color=f"C{number}", marker=".", linewidth=1.2, label=label)
        place.axvline(0.4, color="0.6", linewidth=0.8, linestyle=":")
        place.set(title=title, xlabel="lambda", ylim=(45, 101))
        place.grid(alpha=0.3)
    places[0].axhline(65, color="0.6", linewidth=0.8, linestyle=":")
    places[0].set_ylabel("rows named rightly, %")
    drawing.legend(loc="outside lower center", ncols=len(SETTINGS), frameon=False, fontsize=8)
    drawing.savefig(path, dpi=100)


def figure_of_bounds(estimates: pd.DataFrame, path: Path) -> None:
    """Figure 4: estimated epsilons over lambda, for each order."""
    lines = list(bounds(estimates))
    names = list(dict.fromkeys((line.generator, line.judge, line.held_out) for line, *_ in lines))
    drawing = Figure(figsize=(4.2 * ((len(names) + 1) // 2), 7.6), layout="constrained")
    places = drawing.subplots(2, (len(names) + 1) // 2, sharey=True, squeeze=False).ravel()
    for place, name in zip(places, names, strict=False):
        for line, noises, printed, mended in lines:
            if (line.generator, line.judge, line.held_out) == name:
                colour = f"C{ORDERS.index(line.order)}"
                place.plot(noises, printed, "--", color=colour, linewidth=1)
                place.plot(noises, mended, color=colour, linewidth=1.4, label=f"order {line.order:g}")
        generator, judge, held = name
        place.set_title(f"{generator}\n{judge} discriminator, held out: {held}", fontsize=8)
        place.set(xlabel="lambda", ylim=(0, 16))
        place.grid(alpha=0.3)
        place.legend(fontsize=8)
    for place in places[len(names) :]:
        place.axis("off")
    drawing.suptitle("Estimated epsilon, no guarantee: theorem 7.1 as printed (dashed) and mended", fontsize=10)
    drawing.savefig(path, dpi=90)


def main() -> None:
    """Read the command line, run, and report."""
    parser = argparse.ArgumentParser(description="Label inference and accuracy where features are redrawn too.")
    parser.add_argument("--data", choices=("mnist", "digits"), default="mnist", help="whose zeros and nines")
    parser.add_argument("--noises", default=",".join(f"{each:g}" for each in NOISES), help="lambdas, by commas")
    parser.add_argument("--settings", default=";".join(SETTINGS), help="settings, separated by semicolons")
    parser.add_argument("--draws", type=int, default=2, help="draws of each kind (default: 2)")
    parser.add_argument("--only", choices=("3",), help="the figure to run alone")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the steps of generators and of judges")
    kept = Path(tempfile.gettempdir()) / "labeldp-features"
    parser.add_argument("--cache", type=Path, default=kept, help="folder to keep generators in")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results", help="folder to write to")
    parser.add_argument("--report-only", action="store_true", help="tables and figures from the rows at hand")
    asked = parser.parse_args()
    if unknown := set(asked.settings.split(";")) - set(SETTINGS):
        sys.exit(f"expected some of {'; '.join(SETTINGS)}, found {', '.join(sorted(unknown))}")
    folder = os.environ.get("LABELDP_DATA")
    if folder is None and not asked.report_only and asked.data != "digits":
        sys.exit("LABELDP_DATA names no folder of data sets")
    torch.set_num_threads(1)
    for path in (asked.results, asked.cache):
        path.mkdir(parents=True, exist_ok=True)
    if not asked.report_only:
        run(asked, Path(folder or "."))
    report(asked.results)
    print(f"tables, figures and rows: {asked.results}")


if __name__ == "__main__":
    main()
