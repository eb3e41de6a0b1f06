"""Releasing features too: label inference, accuracy and estimated epsilons (Busa-Fekete et al. 2023, figures 3 and 4).

features.md has the protocol and what the results show.
"""

import argparse
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from _image_generators import ImageGenerator, fit_mixture, fit_network
from _images import TABLES
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, table
from matplotlib.figure import Figure
from torch import nn

from labeldp import Classes, Curator, DoubleResponse, RandomizedResponse, Release, public_split
from labeldp.audit.pipelines import divergence_of_log_odds, held_out_log_odds
from labeldp.bounds import features_divergence
from labeldp.learning.metrics import log_likelihood
from labeldp.learning.torch import TorchClassifier

SPACE = Classes([0, 9])
NOISES = (0.1, 0.2, 0.3, 0.35, 0.4, 0.7)
METHODS = ("unbiased", "likelihood")
IMAGES, GENERATOR_IMAGES, JUDGE_IMAGES = 20_000, 120_000, 20_000  # that are seen, whatever the rows
ORDERS = (1.5, 2.0, 4.0, 8.0)
#: Networks that learn from one release, the share of its rows that judges them, and what restarts are tried at.
STARTS, HELD_OUT, RESTARTED = 5, 0.1, ("double, as in the paper", 0.7)
NOT_SOUND = "network of the private rows, NOT SOUND"


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
    """Rows and features of a release.

    Attributes:
        rows: Which rows are private: ``"all"``, or the ``"half"`` that no generator saw.
        generator: What features are resampled with; empty for Mechanism 1, which releases them as they are.
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
        whole = TABLES[name](folder)
        parts = [(whole.images, whole.labels), (whole.test_images, whole.test_labels)]
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
            "mixture of auxiliary rows": self._kept("mixture", fit_mixture, self.auxiliary),
            NOT_SOUND: self._kept("private", self.network, self.private["all"]),
        }

    def network(self, images: np.ndarray, labels: np.ndarray, space: Classes, source: str) -> ImageGenerator:
        """The adversarial network, which sees as many images whatever the rows."""
        return fit_network(images, labels, space, source, epochs(self.scale * GENERATOR_IMAGES, len(labels)))

    def _kept(self, name: str, fit: Callable[..., ImageGenerator], rows: Rows) -> Callable[[], ImageGenerator]:
        found: list[ImageGenerator] = []

        def load() -> ImageGenerator:
            path = self.cache / f"{name}-{self.name}.pt"
            if not path.exists():
                torch.manual_seed(0)
                fit(rows.images, rows.labels, SPACE, f"{name}: zeros and nines").save(path)
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
    """Features and labels as they leave. Each is kept with chance 1 - noise, and else resampled.

    The paper's generator saw the rows that it resamples, which the library refuses: there it is done by hand.
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
    resampled = np.flatnonzero(chance.random(len(private.labels)) < noise)
    images = private.images.copy()
    drawn = generator.sample(chance.integers(SPACE.size, size=len(resampled)))
    images[resampled] = generator.form.array(drawn)
    return images, curator.randomize(RandomizedResponse(SPACE, epsilon))


@functools.cache
def _digits(name: str, folder: Path, cache: Path, scale: float) -> Digits:
    torch.set_num_threads(1)
    return Digits(name, folder, cache, scale)


def loaded(given: Given) -> Digits:
    """The rows and generators of a run."""
    name = given.data[0] if isinstance(given.data, list) else given.data
    return _digits(name, Path() if name == "digits" else data_folder(given), given.cache, given.scale)


def attack_cells(given: Given) -> Iterator[Cell]:
    """Each setting, over lambda."""
    for noise in given.noises.split(","):
        yield from (attack_cell(name, float(noise), *METHODS) for name in given.settings.split(";"))


def attack_cell(setting: str, noise: float, *methods: str) -> Cell:
    """One release, and the networks that learn from it."""
    return Cell({"setting": setting, "noise": noise}, methods)


def attack(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """Accuracy of networks on one release: private rows, with and without their released labels, and test rows.

    True labels are read here alone, after a network is finished, and choose nothing.
    """
    digits, setting = loaded(given), SETTINGS[cell["setting"]]
    truth, test = digits.private[setting.rows].labels == SPACE.points[1], digits.test.labels == SPACE.points[1]
    images, release = released(digits, setting, cell["noise"])
    for method in cell.parts:
        model = network(images, method, draw, digits.scale * IMAGES).fit(images, release)
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
        }


def restart_cells(given: Given) -> Iterator[Cell]:
    """The setting in which a network fell to a coin, with each method."""
    if RESTARTED[0] in given.settings.split(";"):
        yield from (Cell({"method": method}) for method in METHODS)


def restarts(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """Networks from several starts on one release, each with the likelihood of released labels that choose among them.

    Nine tenths of the rows are fitted on; gains are those over the even model, in nats a row.
    """
    digits, (name, noise) = loaded(given), RESTARTED
    setting = SETTINGS[name]
    images, release = released(digits, setting, noise)
    held, rest = public_split(len(release), [HELD_OUT, 1 - HELD_OUT], seed=draw)
    for start in range(STARTS):
        seed = STARTS * draw + start
        model = network(images[rest], cell["method"], seed, digits.scale * IMAGES).fit(images[rest], release[rest])
        gains = [log_likelihood(release[rows], model.predict_proba(images[rows])).value for rows in (rest, held)]
        right = model.predict_proba(digits.test.images).argmax(axis=1) == (digits.test.labels == SPACE.points[1])
        found = {"gain_fitted": round(gains[0], 6), "gain_held": round(gains[1], 6)}
        yield {"start": start, **found, "test_accuracy": round(float(right.mean()), 5)}


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


def divergence_cells(given: Given) -> Iterator[Cell]:
    """Generators, each with its judges: a mixture has no discriminator of its own."""
    names = [setting.generator for setting in SETTINGS.values() if setting.generator]
    for name in [] if given.only == "3" else names:
        for judge in ("own", "fresh"):
            if judge == "fresh" or "network" in name:
                yield Cell({"generator": name, "judge": judge})


def divergence(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """Estimated divergences of the true images of each class from the generated ones, by a discriminator.

    Estimates, whatever the judge: none of them may enter a certificate.
    """
    digits, generator, judge = loaded(given), cell["generator"], cell["judge"]
    fitted = digits.generator(generator)
    drawn = fitted.generator()
    others = {"own": digits.private["all"] if generator == NOT_SOUND else digits.auxiliary, "fresh": digits.test}
    if judge == "fresh" and generator != NOT_SOUND:
        others["fresh, more rows"] = digits.private["half"]
    for held, rows in others.items():
        if not held.startswith(judge):
            continue
        for code, label in enumerate(SPACE.points):
            original = rows.of(label)
            made = drawn.form.array(drawn.sample(np.full(len(original), code)))
            odds = (
                (fitted.log_odds(original, label), fitted.log_odds(made, label))
                if judge == "own"
                else held_out_log_odds(original, made, FreshJudge(digits, draw))
            )
            for order in ORDERS:
                yield {
                    "held_out": {"own": "no: what it was fitted on", "fresh": "test rows"}.get(held, "private half"),
                    "label": label,
                    "order": order,
                    "rows": len(original),
                    "estimate": round(divergence_of_log_odds(*odds, order).value, 4),
                }


def bounds(estimates: pd.DataFrame) -> Iterator[tuple[pd.Series, np.ndarray, np.ndarray, np.ndarray]]:
    """Over lambda, for each judge and order: the printed bound and the corrected one, from the larger class's estimate.

    The printed one takes the divergence of a class from its own model, the corrected one that from both models mixed,
    which is larger by ``ln 2`` at the most.
    """
    noises = np.linspace(0.02, 0.98, 49)
    key = ["generator", "judge", "held_out", "order"]
    worst = estimates.groupby([*key, "draw"], sort=False)["estimate"].max().groupby(level=key, sort=False).mean()
    for line in worst.reset_index().itertuples():
        apart = max(0.0, line.estimate)
        printed = [features_divergence(line.order, SPACE.size, noise, apart).size("printed") for noise in noises]
        corrected = [features_divergence(line.order, SPACE.size, noise, apart + math.log(2)).value for noise in noises]
        yield line, noises, np.array(printed), np.array(corrected)


def page(frames: dict[str, pd.DataFrame], folder: Path) -> list[str]:
    """Accuracy of attacks and on test rows, and estimated divergences."""
    text = ["", "Shares of rows in %, mean over draws, with half the range in parentheses."]
    if "features" in frames:
        rows = frames["features"]
        rows = rows.iloc[np.argsort(rows["setting"].map(list(SETTINGS).index), kind="stable")]
        figure_of_attacks(rows, folder / "features.png")
        text += attacks_text(rows)
    if "features_restarts" in frames:
        text += restarts_text(frames["features_restarts"])
    if "features_divergence" in frames:
        figure_of_bounds(frames["features_divergence"], folder / "features_divergence.png")
        text += estimates_text(frames["features_divergence"])
    return text


def attacks_text(rows: pd.DataFrame) -> list[str]:
    """A table for each measure."""
    measures = {
        "inference": "Private rows whose label the network names from what was released of their features",
        "inference_with_label": "The same, named from the features and the released label together",
        "test_accuracy": "Test rows that the network names correctly",
    }
    noises, text = sorted(rows["noise"].unique()), []
    for column, title in measures.items():
        lines = []
        for (setting, method), original in rows.groupby(["setting", "method"], sort=False):
            found = [half_range(original.loc[original["noise"] == noise, column]) for noise in noises]
            lines.append([sound(setting), method, *found])
        text += ["", f"## {title}", ""]
        text += table(["setting", "method", *(f"lambda {noise:g}" for noise in noises)], lines)
    return text


def restarts_text(rows: pd.DataFrame) -> list[str]:
    """Test accuracies of single networks, and of those that released labels choose."""
    setting, noise = RESTARTED
    lines, places = [], rows.groupby(["method", "draw"])
    chosen = {
        "by rows fitted on": "gain_fitted",
        "by rows held out": "gain_held",
        "by true test labels": "test_accuracy",
    }
    for method, part in rows.groupby("method", sort=False):
        picks = {"each": part, **{way: rows.loc[places[by].idxmax()] for way, by in chosen.items()}}
        for way, found in picks.items():
            every = 100 * found.loc[found["method"] == method, "test_accuracy"]
            lines.append(
                [method, way, len(every), f"{every.mean():.1f}", f"{every.min():.1f}", int((every < 90).sum())]
            )
    heads = ["method", f"of {STARTS} networks", "networks", "test rows named correctly", "least", "below 90"]
    text = ["", f"## Restarts: {sound(setting)}, lambda {noise:g}", "", *table(heads, lines), "", "Below 90 %:", ""]
    columns = ["method", "draw", "start", "gain_fitted", "gain_held", "test_accuracy"]
    low = rows.loc[rows["test_accuracy"] < 0.9, columns]
    return [*text, *table(columns, low.to_numpy().tolist())]


def sound(setting: str) -> str:
    """A setting, and whether it is sound."""
    return f"{setting} (NOT SOUND)" if SETTINGS[setting].generator == NOT_SOUND else setting


def half_range(values: pd.Series) -> str:
    """A mean and half a range in percent."""
    spread = f" ({50 * (values.max() - values.min()):.1f})" if len(values) > 1 else ""
    return f"{100 * values.mean():.1f}{spread}" if len(values) else ""


def estimates_text(estimates: pd.DataFrame) -> list[str]:
    """Estimated divergences, and the bounds that would follow if they were right."""
    lines = []
    for line, noises, printed, corrected in bounds(estimates):
        place = int(np.argmin(np.abs(noises - 0.4)))
        found = [f"{each[place]:.2f}" for each in (printed, corrected)]
        lines.append([line.generator, line.judge, line.held_out, f"{line.order:g}", f"{line.estimate:.2f}", *found])
    return [
        "",
        "## Estimated divergences, and the epsilon that they would give",
        "",
        "Rényi divergence in nats of the true images of a class from generated ones, the larger of both classes, mean",
        "over draws: an ESTIMATE by a discriminator and no guarantee. Then epsilon at lambda 0.4, by theorem 7.1 as",
        "printed and as corrected.",
        "",
        *table(["generator", "judge", "held out", "order", "divergence", "printed, 0.4", "corrected, 0.4"], lines),
    ]


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
                label = f"{sound(setting)}, {method}" if place is places[0] else None
                place.plot(means, style, color=f"C{number}", marker=".", linewidth=1.2, label=label)
        place.axvline(0.4, color="0.6", linewidth=0.8, linestyle=":")
        place.set(title=title, xlabel="lambda", ylim=(45, 101))
        place.grid(alpha=0.3)
    places[0].axhline(65, color="0.6", linewidth=0.8, linestyle=":")
    places[0].set_ylabel("rows named correctly, %")
    drawing.legend(loc="outside lower center", ncols=len(SETTINGS), frameon=False, fontsize=8)
    drawing.savefig(path, dpi=100)


def figure_of_bounds(estimates: pd.DataFrame, path: Path) -> None:
    """Figure 4: estimated epsilons over lambda, for each order."""
    lines = list(bounds(estimates))
    names = list(dict.fromkeys((line.generator, line.judge, line.held_out) for line, *_ in lines))
    drawing = Figure(figsize=(4.2 * ((len(names) + 1) // 2), 7.6), layout="constrained")
    places = drawing.subplots(2, (len(names) + 1) // 2, sharey=True, squeeze=False).ravel()
    for place, name in zip(places, names, strict=False):
        for line, noises, printed, corrected in lines:
            if (line.generator, line.judge, line.held_out) == name:
                colour = f"C{ORDERS.index(line.order)}"
                place.plot(noises, printed, "--", color=colour, linewidth=1)
                place.plot(noises, corrected, color=colour, linewidth=1.4, label=f"order {line.order:g}")
        generator, judge, held = name
        place.set_title(f"{generator}\n{judge} discriminator, held out: {held}", fontsize=8)
        place.set(xlabel="lambda", ylim=(0, 16))
        place.grid(alpha=0.3)
        place.legend(fontsize=8)
    for place in places[len(names) :]:
        place.axis("off")
    drawing.suptitle("Estimated epsilon, no guarantee: theorem 7.1 as printed (dashed) and corrected", fontsize=10)
    drawing.savefig(path, dpi=90)


def options(parser: argparse.ArgumentParser) -> None:
    """Which releases, and how long networks learn."""
    parser.add_argument("--noises", default=",".join(f"{each:g}" for each in NOISES), help="lambdas, by commas")
    parser.add_argument("--settings", default=";".join(SETTINGS), help="settings, separated by semicolons")
    parser.add_argument("--only", choices=("3",), help="the figure to run alone")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the steps of networks")


ATTACKS = Study(
    name="features",
    recipe="1",
    key=("setting", "noise"),
    part="method",
    columns=(
        *("setting", "mechanism", "generator", "method", "noise", "draw", "rows", "certified_epsilon"),
        *("inference", "inference_with_label", "test_accuracy", "seconds"),
    ),
    cells=attack_cells,
    run=attack,
    spots=(
        Spot(attack_cell("double, mixture", 0.4, "likelihood"), "inference", {"method": "likelihood"}, 3, 0.01),
        Spot(attack_cell("response", 0.4, "unbiased"), "test_accuracy", {"method": "unbiased"}, 3, 0.01),
    ),
)
RESTARTS = Study(
    name="features_restarts",
    recipe="1",
    key=("method",),
    columns=("method", "draw", "start", "gain_fitted", "gain_held", "test_accuracy", "seconds"),
    cells=restart_cells,
    run=restarts,
)
DIVERGENCE = Study(
    name="features_divergence",
    recipe="1",
    key=("generator", "judge"),
    columns=("generator", "judge", "held_out", "label", "order", "draw", "rows", "estimate", "seconds"),
    cells=divergence_cells,
    run=divergence,
)
EXPERIMENT = Experiment(
    name="features",
    question="What do resampled features hide, and what do they cost: label inference, accuracy, estimated epsilon?",
    studies=(ATTACKS, RESTARTS, DIVERGENCE),
    page=page,
    draws=2,
    tables=("mnist", "digits"),
    usual=("mnist",),
    bundled=("digits",),
    cached=True,
    options=options,
)

if __name__ == "__main__":
    main(EXPERIMENT)
