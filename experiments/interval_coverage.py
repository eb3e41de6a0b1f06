"""Coverage and width of the intervals that the package prints, by simulation.

interval_coverage.md has the protocol and what the results show. Statistics are a table: an entry of ``FAMILIES`` says
in which settings its statistics are measured, and yields their intervals beside the truth, replicate by replicate.
Whoever adds an interval to the package adds an entry, or a line to the statistics of an entry.
"""

import argparse
import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from _study import Cell, Experiment, Given, Row, Study, main, table
from scipy import stats
from scipy.special import expit, ndtri

from labeldp import (
    Classes,
    Curator,
    Interval,
    RandomizedResponse,
    Release,
    SubsetResponse,
    best_number_response,
)
from labeldp.errors import InputError
from labeldp.learning import metrics
from labeldp.learning.choice import folds_of, numbers_of
from labeldp.learning.sklearn import ClusterLeaves, SoftmaxRegression
from labeldp.learning.tables._scores import class_scores
from labeldp.results._numbers import is_clear

PUBLIC = math.inf
Z = float(ndtri(0.975))
AT_ONCE = 1_000_000  # rows that are drawn and released together
OF_TRUTH = 1_000_000  # rows of which the truth is the mean
TOGETHER = 0.7  # probability that a row has the label of its unit


class Found(NamedTuple):
    """An interval in one replicate.

    Attributes:
        estimate: The estimate with its interval.
        truth: What the interval should hold.
    """

    estimate: metrics.Estimate
    truth: float


@dataclass(frozen=True)
class Family:
    """Statistics that are measured on the same replicates.

    Attributes:
        settings: The settings: values of ``KEY`` but the family.
        replicates: Yields the intervals by statistic, for each replicate, from a setting and a generator.
        ranges: Ranges of the statistics that have one, to which intervals are clipped.
    """

    settings: Callable[[Given], Iterable[Mapping[str, Any]]]
    replicates: Callable[[Mapping[str, Any], int, np.random.Generator], Iterator[Mapping[str, Found]]]
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)


KEY = ("family", "mechanism", "epsilon", "rows", "share", "unit")


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows with their labels, the predictions of a model, and their units.

    Attributes:
        labels: Codes of true classes, or true numbers.
        predicted: Codes of predicted classes, or predicted numbers.
        scores: Scores of class 1; empty for numbers.
        chances: Predicted probabilities; empty for numbers.
        units: Numbers of units.
    """

    labels: np.ndarray
    predicted: np.ndarray
    scores: np.ndarray
    chances: np.ndarray
    units: np.ndarray

    def __getitem__(self, rows: Any) -> "Rows":
        return Rows(*(each[rows] for each in (self.labels, self.predicted, self.scores, self.chances, self.units)))


def class_rows(rows: int, setting: Mapping[str, Any], rng: np.random.Generator) -> Rows:
    """Rows of classes: class 1 with the share of the setting, the others even; normal scores with an area of 0.92.

    A row has the label of its unit with a probability of 0.7, and half of the variance of a score is common to a unit:
    so the distribution of a row is that of rows alone.
    """
    classes, share, unit = CLASSES[setting["mechanism"]], setting["share"], setting["unit"]
    units = np.arange(rows) // unit
    together = rng.random(rows) < TOGETHER
    own = draw_classes(rows, classes, share, rng)
    common = draw_classes(rows // unit + 1, classes, share, rng)[units] if unit > 1 else own
    labels = np.where(together, common, own)
    noise = rng.normal(size=rows)
    if unit > 1:
        noise = (noise + rng.normal(size=rows // unit + 1)[units]) / math.sqrt(2.0)
    scores = 2.0 * (labels == 1) + noise
    chance = expit(2.0 * scores - 2.0 + math.log(share / (1.0 - share)))  # the true one
    chances = np.repeat((1.0 - chance)[:, None] / (classes - 1), classes, axis=1)
    chances[:, 1] = chance
    rest = np.where((labels != 1) & (rng.random(rows) < 0.8), labels, 0)
    return Rows(labels, np.where(scores > 0.355, 1, rest), scores, chances, units)


def draw_classes(rows: int, classes: int, share: float, rng: np.random.Generator) -> np.ndarray:
    """Independent classes."""
    others = rng.integers(0, classes - 1, rows)
    return np.where(rng.random(rows) < share, 1, others + (others > 0))


def number_rows(rows: int, setting: Mapping[str, Any], rng: np.random.Generator) -> Rows:
    """Rows of numbers between 0 and 20: a prediction and an error, both skewed, with an explained share of about 0.5.

    The share of the setting is that of rows with a large error: 0.5 for errors without skew.
    """
    unit = setting["unit"]
    units = np.arange(rows) // unit
    means = rng.gamma(2.0, 1.5, rows)
    skewed = setting["share"] < 0.5
    noise = rng.gamma(1.0, 2.0, rows) - 2.0 if skewed else rng.normal(0.0, 2.0, rows)
    if unit > 1:
        effects = rng.gamma(1.0, 2.0, rows // unit + 1) - 2.0 if skewed else rng.normal(0.0, 2.0, rows // unit + 1)
        noise = np.where(rng.random(rows) < TOGETHER, effects[units], noise)
    labels = np.clip(np.round(means + noise), 0.0, 20.0)
    nothing = np.zeros(rows)
    return Rows(labels, np.clip(means, 0.0, 20.0), nothing, nothing, units)


CLASSES = {"RandomizedResponse": 2, "SubsetResponse": 4}
NUMBERS = Interval(0, 20, 1)


def released(rows: Rows, setting: Mapping[str, Any], space: Any) -> Release:
    """The release of rows by a mechanism; public at an infinite epsilon."""
    epsilon, unit = setting["epsilon"], setting["unit"]
    labels = rows.labels
    if math.isinf(epsilon):
        return Release.public(labels, space)
    mechanism = MECHANISMS[setting["mechanism"]](space, epsilon)
    units = rows.units if unit > 1 else None
    release: Release = Curator(labels, space, budget=epsilon, units=units).randomize(mechanism)[:]
    return release  # a slice, whose slices know their parent


MECHANISMS: Mapping[str, Callable[[Any, float], Any]] = {
    "RandomizedResponse": RandomizedResponse,
    "SubsetResponse": SubsetResponse,
    "OptimalResponse": best_number_response,
    "RandomizedResponse of numbers": RandomizedResponse,
}


@dataclass(frozen=True)
class Metric:
    """A metric: its truth, and the interval that the package gives.

    Attributes:
        truth: Its value on very many rows, which may depend on the channel.
        found: Its estimate on a release of rows; None where it has none.
    """

    truth: Callable[[Rows, Release], float]
    found: Callable[[Release, Rows, Any], Any]


@functools.lru_cache(maxsize=8)
def auc_of(rows: Rows) -> float:
    """The area under the curve, by ranks."""
    order = np.argsort(rows.scores)
    ranks = np.empty(len(order))
    ranks[order] = np.arange(1, len(order) + 1)
    hits = rows.labels == 1
    count = hits.sum()
    return float((ranks[hits].sum() - count * (count + 1) / 2) / (count * (len(order) - count)))


def gain_of(rows: Rows, release: Release) -> float:
    """Mean log likelihood over the uniform model, over all outcomes of the channel."""
    channel = getattr(release.channel, "channels", (release.channel,))[-1]
    outcomes = channel.table()
    values = channel.likelihood(outcomes.outcomes)
    gains = np.log(rows.chances @ values.T) - np.log(values.mean(axis=1))
    return float((outcomes.matrix[rows.labels] * gains).sum(axis=1).mean())


def top_bin(found: Any) -> Any:
    """The frequency in the bin of the largest predictions, if there are rows in it."""
    return found.frequency[len(found.rows) - 1] if found.predicted[-1] > 0.8 else None


def share_of_predicted(release: Release, rows: Rows, units: Any) -> Any:
    """The entry of class 1 in its own column of the confusion matrix, as a share of the rows predicted so."""
    found, count = metrics.confusion_matrix(release, rows.predicted, units=units)[1, 1], np.sum(rows.predicted == 1)
    return (
        None
        if count == 0
        else metrics.Estimate(*(x / count for x in (found.value, found.error, found.low, found.high)))
    )


CLASS_METRICS: Mapping[str, Metric] = {
    "accuracy": Metric(
        lambda rows, _: float(np.mean(rows.labels == rows.predicted)),
        lambda release, rows, units: metrics.accuracy(release, rows.predicted, units=units),
    ),
    "recall": Metric(
        lambda rows, _: float(np.mean(rows.predicted[rows.labels == 1] == 1)),
        lambda release, rows, units: metrics.recall(release, rows.predicted, units=units)[1],
    ),
    "AUC": Metric(
        lambda rows, _: auc_of(rows),
        lambda release, rows, units: metrics.auc(release, rows.scores, 1, units=units),
    ),
    "log loss": Metric(
        lambda rows, _: float(-np.log(rows.chances[np.arange(len(rows.labels)), rows.labels]).mean()),
        lambda release, rows, units: metrics.log_loss(release, rows.chances, units=units),
    ),
    "log likelihood": Metric(
        gain_of,
        lambda release, rows, units: metrics.log_likelihood(release, rows.chances, units=units),
    ),
    "calibration": Metric(
        lambda rows, _: float(np.mean(rows.labels[rows.chances[:, 1] > 0.8] == 1)),
        lambda release, rows, units: top_bin(metrics.calibration(release, rows.chances, 1, bins=5, units=units)),
    ),
    "confusion": Metric(
        lambda rows, _: float(np.mean(rows.labels[rows.predicted == 1] == 1)),
        share_of_predicted,
    ),
}


def areas_of(rows: Rows) -> float:
    """The mean over classes of the area under the curve, by ranks; ties count half."""
    areas = []
    for code in range(rows.chances.shape[1]):
        ranks, hits = stats.rankdata(rows.chances[:, code]), rows.labels == code
        count = hits.sum()
        areas.append((ranks[hits].sum() - count * (count + 1) / 2) / (count * (len(ranks) - count)))
    return float(np.mean(areas))


#: Means over classes.
MEAN_METRICS: Mapping[str, Metric] = {
    "balanced accuracy": Metric(
        lambda rows, _: float(
            np.mean([np.mean(rows.predicted[rows.labels == code] == code) for code in np.unique(rows.labels)])
        ),
        lambda release, rows, units: metrics.balanced_accuracy(release, rows.predicted, units=units),
    ),
    "mean AUC": Metric(
        lambda rows, _: areas_of(rows),
        lambda release, rows, units: metrics.mean_auc(release, rows.chances, units=units),
    ),
}


NUMBER_METRICS: Mapping[str, Metric] = {
    "mean squared error": Metric(
        lambda rows, _: float(np.mean((rows.labels - rows.predicted) ** 2)),
        lambda release, rows, units: metrics.mean_squared_error(release, rows.predicted, units=units),
    ),
    "mean absolute error": Metric(
        lambda rows, _: float(np.mean(np.abs(rows.labels - rows.predicted))),
        lambda release, rows, units: metrics.mean_absolute_error(release, rows.predicted, units=units),
    ),
    "R2": Metric(
        lambda rows, _: float(1.0 - np.mean((rows.labels - rows.predicted) ** 2) / np.var(rows.labels)),
        lambda release, rows, units: metrics.r2(release, rows.predicted, units=units),
    ),
    "squared gain": Metric(
        lambda rows, _: float(np.mean((rows.labels - 10.0) ** 2 - (rows.labels - rows.predicted) ** 2)),
        lambda release, rows, units: metrics.squared_gain(release, rows.predicted, units=units),
    ),
    "mean label": Metric(
        lambda rows, _: float(np.mean(rows.labels)),
        lambda release, _, units: metrics.mean_label(release, units=units),
    ),
}


@functools.lru_cache(maxsize=4)
def rows_of_truth(make: Callable[..., Rows], mechanism: str, share: float) -> Rows:
    """Very many independent rows."""
    return make(OF_TRUTH, {"mechanism": mechanism, "share": share, "unit": 1}, np.random.default_rng(0))


def of_metrics(
    make: Callable[..., Rows], space_of: Callable[[Mapping[str, Any]], Any], of: Mapping[str, Metric]
) -> Callable[[Mapping[str, Any], int, np.random.Generator], Iterator[Mapping[str, Found]]]:
    """Replicates of metrics: rows are drawn and released many replicates at once."""

    def replicates(setting: Mapping[str, Any], count: int, rng: np.random.Generator) -> Iterator[Mapping[str, Found]]:
        known, truths = rows_of_truth(make, setting["mechanism"], setting["share"]), dict[str, float]()
        n, space = setting["rows"], space_of(setting)
        for start in range(0, count, max(1, AT_ONCE // n)):
            some = min(max(1, AT_ONCE // n), count - start)
            rows = make(some * n, setting, rng)
            release = released(rows, setting, space)
            truths = truths or {name: metric.truth(known, release) for name, metric in of.items()}
            for place in range(some):
                part = slice(place * n, (place + 1) * n)
                yield dict(found_of(release[part], rows[part], setting["unit"], of, truths))

    return replicates


def found_of(
    release: Release, rows: Rows, unit: int, of: Mapping[str, Metric], truths: Mapping[str, float]
) -> Iterator[tuple[str, Found]]:
    """The intervals of all metrics in one replicate."""
    units = rows.units if unit > 1 else None
    for name, metric in of.items():
        with contextlib.suppress(InputError):  # some channels do not identify all metrics
            found = metric.found(release, rows, units)
            if isinstance(found, metrics.Estimate):
                yield name, Found(found, truths[name])


#: What is said of the people of rows in folds: rows are of one person each, a column names people, or it is gone and
#: sets of similar rows stand for them.
PEOPLE = {"a row each": 1, "named": 5, "similar rows": 5}
#: Logits of class 1 for each unit of the first feature: noise, and signal.
SIGNALS = {"noise": 0.0, "signal": 1.5}
FEATURES, FRESH, FOLDS = 4, 20_000, 5


def settings_of_folds(given: Given) -> Iterator[Mapping[str, Any]]:
    """Models of folds of 1,500 rows, with and without signal, by what is said of people."""
    for signal, (people, unit), epsilon in itertools.product(SIGNALS, PEOPLE.items(), given.epsilons):
        if epsilon in (3.0, 8.0):
            yield {"mechanism": f"{signal}, {people}", "epsilon": epsilon, "rows": 1_500, "share": 0.6, "unit": unit}


def replicates_of_folds(
    setting: Mapping[str, Any], count: int, rng: np.random.Generator
) -> Iterator[Mapping[str, Found]]:
    """Scores of cross-validation beside what the models of the folds score on fresh people, in the mean."""
    signal, people = setting["mechanism"].split(", ")
    person = np.arange(setting["rows"]) // setting["unit"]
    slope, usual = SIGNALS[signal], math.log(setting["share"] / (1.0 - setting["share"]))
    fresh = rng.normal(size=(FRESH, FEATURES))
    chance = expit(slope * fresh[:, 0] + usual)
    labels = rng.random(FRESH) < chance
    for _ in range(count):
        own = rng.normal(size=(person[-1] + 1, FEATURES))
        rows = own[person] + 0.05 * rng.normal(size=(len(person), FEATURES))
        codes = (rng.random(len(own)) < expit(slope * own[:, 0] + usual)).astype(int)[person]
        units = person if setting["unit"] > 1 else None
        curator = Curator(codes, Classes([0, 1]), units=units, budget=setting["epsilon"])
        release = curator.randomize(RandomizedResponse(Classes([0, 1]), setting["epsilon"]))
        told = ClusterLeaves().similar(rows, setting["unit"]) if people == "similar rows" else person
        known = metrics.Units.of(told if setting["unit"] > 1 else "rows", len(rows))
        parts, predicted, truths = folds_of(known, FOLDS), np.empty((len(rows), 2)), list[dict[str, float]]()
        for fit, held in parts:
            model = SoftmaxRegression().fit(rows[fit], release[fit], groups=known.take(fit))
            predicted[held] = model.predict_proba(rows[held])
            shares = SoftmaxRegression(l2=math.inf).fit(rows[fit], release[fit], groups="rows").predict_proba(fresh[:1])
            truths.append(expected(model.predict_proba(fresh), shares, chance, labels))
        found = class_scores(release, predicted, numbers_of(parts, len(rows)), known)
        yield {name: Found(getattr(found, name), float(np.mean([each[name] for each in truths]))) for name in truths[0]}


def expected(model: np.ndarray, constant: np.ndarray, chance: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Scores of probabilities of fresh people, and gains over the most common class and over class shares."""
    both = np.stack([1.0 - chance, chance], axis=1)
    right, common = (
        np.take_along_axis(both, each.argmax(axis=1)[:, None], axis=1).mean() for each in (model, constant)
    )
    loss, usual = (-(both * np.log(each)).sum(axis=1).mean() for each in (model, constant))
    ranks = stats.rankdata(model[:, 1])
    area = (ranks[labels].sum() - labels.sum() * (labels.sum() + 1) / 2) / (labels.sum() * (~labels).sum())
    return {"accuracy": right, "better": right - common, "log_loss_gain": usual - loss, "auc": area}


def settings_of(mechanisms: Iterable[str], given: Given) -> Iterator[Mapping[str, Any]]:
    """The grid of the metrics; of the most rows, and of further mechanisms, a part of it."""
    for mechanism, share, epsilon, rows, unit in itertools.product(
        mechanisms, SHARES, given.epsilons, given.sizes, UNITS
    ):
        few = epsilon in (1.0, 8.0, PUBLIC)
        if (unit > 1 or mechanism not in MAIN) and not few:
            continue
        if rows > 2_000 and (unit > 1 or mechanism not in MAIN or not few):
            continue
        if mechanism not in MAIN and (unit > 1 or math.isinf(epsilon)):
            continue
        yield {"mechanism": mechanism, "epsilon": epsilon, "rows": rows, "share": share, "unit": unit}


SHARES, UNITS = (0.5, 0.01), (1, 5, 20)
MAIN = ("RandomizedResponse", "OptimalResponse")
UNIT_RANGE = (0.0, 1.0)

FAMILIES: Mapping[str, Family] = {
    "classes": Family(
        lambda given: settings_of(CLASSES, given),
        of_metrics(class_rows, lambda setting: Classes(range(CLASSES[setting["mechanism"]])), CLASS_METRICS),
        dict.fromkeys(("accuracy", "recall", "AUC", "calibration", "confusion"), UNIT_RANGE),
    ),
    "class means": Family(
        lambda given: (each for each in settings_of(CLASSES, given) if each["rows"] <= 2_000),
        of_metrics(class_rows, lambda setting: Classes(range(CLASSES[setting["mechanism"]])), MEAN_METRICS),
        dict.fromkeys(MEAN_METRICS, UNIT_RANGE),
    ),
    "folds": Family(
        settings_of_folds,
        replicates_of_folds,
        {"accuracy": UNIT_RANGE, "auc": UNIT_RANGE, "better": (-1.0, 1.0)},
    ),
    "numbers": Family(
        lambda given: settings_of(("OptimalResponse", "RandomizedResponse of numbers"), given),
        of_metrics(number_rows, lambda _: NUMBERS, NUMBER_METRICS),
        {"mean squared error": (0.0, math.inf), "mean absolute error": (0.0, math.inf), "mean label": (0.0, 20.0)},
    ),
}


def cells(given: Given) -> Iterator[Cell]:
    """The settings of all families."""
    for name in given.families:
        for setting in FAMILIES[name].settings(given):
            yield Cell({"family": name, **setting})


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """Coverage and width of each statistic of a family in one setting, over replicates."""
    family = FAMILIES[cell["family"]]
    rng = np.random.default_rng([draw, *map(ord, str(sorted(cell.values.items())))])
    found, public = dict[str, list[Found]](), math.isinf(cell["epsilon"])
    for replicate in family.replicates(cell.values, given.replicates, rng):
        for name, each in replicate.items():
            found.setdefault(name, []).append(each)
    for name, intervals in found.items():
        yield {
            "statistic": name,
            "replicates": given.replicates,
            **summary(intervals, family.ranges.get(name), public=public),
        }


def summary(found: list[Found], bounds: tuple[float, float] | None, *, public: bool) -> Row:
    """Coverage among all intervals and among those that are printed, and the width of these beside the reference.

    The reference is the interval of one who knows the true standard error of the estimate: 3.92 times its standard
    deviation over the printed replicates, around each estimate and clipped to the range of the statistic.
    """
    least, most = bounds or (-math.inf, math.inf)
    value, low, high = (np.array([getattr(each.estimate, name) for each in found]) for name in ("value", "low", "high"))
    truth = np.array([each.truth for each in found])
    below, above = high < truth, low > truth
    printed = np.array([is_printed(each.estimate, bounds, public=public) for each in found])
    row: Row = {"given": len(found), "printed": int(printed.sum())}
    row |= {"low": int(below.sum()), "high": int(above.sum())}
    row |= {"printed_low": int(below[printed].sum()), "printed_high": int(above[printed].sum())}
    if printed.sum() > 1:
        half = Z * value[printed].std(ddof=1)
        ends = (np.clip(value[printed] + side * half, least, most) for side in (1, -1))
        widths = high[printed] - low[printed]
        row |= {"width": float(np.median(widths)), "reference": float(np.median(np.subtract(*ends)))}
        row |= {"truth": float(truth.mean()), "mean": float(value[printed].mean())}
    return {name: f"{x:.5g}" if isinstance(x, float) else x for name, x in row.items()}


def is_printed(estimate: metrics.Estimate, bounds: tuple[float, float] | None, *, public: bool) -> bool:
    """True if an interval with two ends is printed, and not that there are too few rows to tell.

    Of public labels every interval is; of released ones those that fill at most half of a range, and were not cut.
    """
    ends = estimate.low, estimate.high
    known = all(map(math.isfinite, (estimate.value, *ends)))
    if public or bounds is None or not math.isfinite(bounds[1]):
        return known
    return known and is_clear(*ends, estimate.error, bounds[1] - bounds[0])


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Coverage by statistic, epsilon, rows, share and unit, and the cells below the goal."""
    names = [*KEY, "statistic"]
    groups = frames["interval_coverage"].groupby(names, sort=False)
    rows = groups[list(COUNTS)].sum().join(groups[["width", "reference"]].mean()).reset_index()
    lines = ["", "By statistic:", "", *by(rows, ["family", "statistic"])]
    for name in ("epsilon", "rows", "share", "unit", "mechanism"):
        lines += ["", f"By {name}:", "", *by(rows, ["family", name])]
    often = rows[rows["printed"] >= rows["given"] / 2]
    covered = 1.0 - (often["printed_low"] + often["printed_high"]) / often["printed"]
    rare = stats.binom.cdf(often["printed"] - often["printed_low"] - often["printed_high"], often["printed"], GOAL)
    worst = often.assign(covered=covered, chance=rare)[covered < GOAL].sort_values("covered")
    head = [*names, "printed", "covered", "printed_low", "printed_high", "width", "reference", "chance"]
    return [
        *lines,
        "",
        f"Of {len(often)} cells that print an interval in at least half of the replicates, {len(worst)} hold the truth "
        f"in fewer than {GOAL:.2f} of those printed, {(worst['chance'] < RARE).sum()} of them so rarely that chance is "
        f"no reason (below {RARE:g} if {GOAL:.2f} were right):",
        "",
        *table(head, worst[head].map(lambda x: f"{x:.3g}" if isinstance(x, float) else x).to_numpy().tolist()),
    ]


def by(rows: pd.DataFrame, names: list[str]) -> list[str]:
    """Pooled coverage, misses on both sides, share printed, and widths beside the reference."""
    lines = []
    for key, part in rows.groupby(names, sort=True):
        total = part[list(COUNTS)].sum()
        printed = max(total["printed"], 1)
        often = part[part["printed"] >= part["given"] / 2]
        missed = often["printed_low"].sum() + often["printed_high"].sum()
        sides = [f"{total[name] / printed:.3f}" for name in ("printed_low", "printed_high")]
        lines.append(
            [
                *(f"{each:g}" if isinstance(each, float) else each for each in key),
                len(part),
                f"{1 - (total['low'] + total['high']) / total['given']:.3f}",
                f"{1 - missed / max(often['printed'].sum(), 1):.3f}",
                *sides,
                f"{total['printed'] / total['given']:.0%}",
                f"{(often['width'] / often['reference']).median():.2f}",
            ]
        )
    return table([*names, "cells", "all", "printed in half", "below", "above", "printed", "width"], lines)


COUNTS = ("given", "printed", "low", "high", "printed_low", "printed_high")
RARE = 1e-3
GOAL = 0.93


def options(parser: argparse.ArgumentParser) -> None:
    """Families, sizes and replicates."""
    parser.add_argument("--families", type=lambda text: text.split(","), default=list(FAMILIES))
    parser.add_argument("--replicates", type=int, default=200, help="of a draw of a cell (default: 200)")
    parser.add_argument(
        "--sizes", type=lambda text: [int(each) for each in text.split(",")], default=[200, 2_000, 20_000], help="rows"
    )


STUDY = Study(
    name="interval_coverage",
    recipe="2",
    key=KEY,
    part="statistic",
    columns=(
        *(*KEY, "statistic", "draw", "replicates", "given", "printed", "low", "high", "printed_low", "printed_high"),
        *("width", "reference", "truth", "mean", "seconds"),
    ),
    cells=cells,
    run=run,
)
EXPERIMENT = Experiment(
    name="interval_coverage",
    question="Do intervals hold what they should, as often as they say?",
    studies=(STUDY,),
    page=page,
    draws=2,
    epsilons=(0.05, 0.3, 1.0, 3.0, 8.0, PUBLIC),
    options=options,
    unspotted="coverage has no cheap cell",
)

if __name__ == "__main__":
    main(EXPERIMENT)
