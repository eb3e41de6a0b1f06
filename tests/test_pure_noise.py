"""Nothing is found in features that say nothing: every score, attack, forecast and metric, on labels that are noise.

Each line of a table names a public function and what it finds on one draw of a world: labels of two or ten classes as
likely as each other, features that do not depend on them, and a release at a small or a large epsilon. Over the draws
no figure is impossible, no gain is found, and intervals hold the truth as often as they say. A new score or audit must
join a table.
"""

import io
import itertools
import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from scipy.special import digamma
from scipy.stats import binom
from sklearn.naive_bayes import GaussianNB

from labeldp import Classes, Curator, Interval, RandomizedResponse, audit
from labeldp.audit import Knowledge, PlantedPairs
from labeldp.audit.mechanisms import FolderAudit
from labeldp.bounds import forecast, plan
from labeldp.learning import metrics
from labeldp.learning.cells import held_out_cells
from labeldp.learning.tables import evaluate, learn
from labeldp.render import on_terminal
from labeldp.results import Audited, Evaluated, LearnedModel, described

WORLDS = tuple(itertools.product((2, 10), (0.5, 4.0)))
IDS = [f"{classes} classes, epsilon {epsilon:g}" for classes, epsilon in WORLDS]
DRAWS, ROWS = 20, 400
#: Probability of a false alarm of one line of a table in one world, over all draws.
FALSE_ALARM = 1e-3


@dataclass(frozen=True)
class Found:
    """A figure with its interval, the truth if it is known, the possible range, and how often the interval may miss.

    A gain is found where its interval is above zero; of other figures the interval must hold the truth.
    """

    value: float
    low: float
    high: float
    truth: float | None
    least: float = 0.0
    most: float = 1.0
    level: float = 0.95
    gain: bool = False

    @property
    def is_possible(self):
        """The interval is in the range, and holds the estimate once that is clipped to the range."""
        held = math.isnan(self.value) or self.low <= min(max(self.value, self.least), self.most) <= self.high
        return held and self.least <= self.low <= self.high <= self.most

    @property
    def missed(self):
        """A gain where there is none, or an interval without the truth."""
        return self.low > 0.0 if self.gain else not self.low - 1e-9 <= self.truth <= self.high + 1e-9


@dataclass(frozen=True, eq=False)
class World:
    """One draw: labels, features and predictions that know nothing of each other, and releases of the labels."""

    classes: int
    epsilon: float
    random: np.random.Generator

    def __post_init__(self):
        names = [chr(ord("a") + code) for code in range(self.classes)]
        codes, space = self.random.integers(0, self.classes, ROWS), Classes(names)
        numbers = Interval(0.0, self.classes - 1.0, 1.0)
        labels = np.array(names)[codes]
        facts = {
            "labels": labels,
            "features": self.random.normal(size=(ROWS, 3)),
            "release": Curator(labels, space).randomize(RandomizedResponse(space, self.epsilon)),
            "numbers": Curator(codes.astype(float), numbers).randomize(RandomizedResponse(numbers, self.epsilon)),
            "beliefs": self.random.dirichlet(np.full(self.classes, 2.0), ROWS),
            "predicted": np.array(names)[self.random.integers(0, self.classes, ROWS)],
            "guesses": self.random.integers(0, self.classes, ROWS).astype(float),
            "variance": (self.classes**2 - 1) / 12,
        }
        for name, fact in facts.items():
            object.__setattr__(self, name, fact)

    @property
    def share(self):
        """The share of each class."""
        return 1 / self.classes


def draws_of(classes, epsilon, draws=DRAWS):
    """Draws of a world."""
    return [World(classes, epsilon, np.random.default_rng([classes, int(epsilon), draw])) for draw in range(draws)]


def of(estimate, truth, least=0.0, most=1.0, value=None, **more):
    """What an estimate says."""
    return Found(estimate.value if value is None else value, estimate.low, estimate.high, truth, least, most, **more)


class Guesser:
    """A model that predicts what a world says, whatever the rows are."""

    def __init__(self, world):
        self.world, self.classes_ = world, np.array(world.release.space.points)

    def predict_proba(self, X):  # noqa: N803 (scikit-learn's name)
        """P(class | features)."""
        return self.world.beliefs[: len(X)]

    def predict(self, X):  # noqa: N803
        """The predicted class."""
        return self.world.predicted[: len(X)]


class NumberGuesser(Guesser):
    """The same with numbers."""

    def predict(self, X):  # noqa: N803
        """The predicted number."""
        return self.world.guesses[: len(X)]


def calibration_of(world):
    """Frequencies of one class in bins of predictions."""
    frequency = metrics.calibration(world.release, world.beliefs, "a", bins=3).frequency
    return [of(frequency[place], world.share) for place in range(len(frequency))]


def confusion_of(world):
    """Rows of each true and predicted class."""
    found, rows = (
        metrics.confusion_matrix(world.release, world.predicted),
        [sum(world.predicted == name) for name in "ab"],
    )
    return [of(found[y, f], rows[f] * world.share, 0.0, rows[f]) for y, f in ((0, 0), (0, 1), (1, 1))]


def recall_of(world):
    """The share of the rows of a class that are predicted as such."""
    found = metrics.recall(world.release, world.predicted)
    return [of(found[place], world.share) for place in range(2)]


INFINITE = math.inf
#: Metrics by name, and what they find.
METRICS = {
    "accuracy": lambda w: [of(metrics.accuracy(w.release, w.predicted), w.share)],
    "accuracy_scorer": lambda w: [
        of(
            metrics.accuracy(w.release, w.predicted),
            w.share,
            value=metrics.accuracy_scorer(Guesser(w), w.features, w.release),
        )
    ],
    "auc": lambda w: [
        of(metrics.auc(w.release, w.beliefs, "a"), 0.5),
        of(metrics.auc(w.release, w.beliefs, "a", groups=np.arange(ROWS) % 5), 0.5),
    ],
    "balanced_accuracy": lambda w: [of(metrics.balanced_accuracy(w.release, w.predicted), w.share)],
    "calibration": calibration_of,
    "confusion_matrix": confusion_of,
    "expected_cost": lambda w: [
        of(metrics.expected_cost(w.release, w.predicted, 1.0 - np.eye(w.classes)), 1.0 - w.share)
    ],
    "log_likelihood": lambda w: [
        of(metrics.log_likelihood(w.release, w.beliefs), None, -INFINITE, math.log(w.classes), gain=True)
    ],
    "log_likelihood_scorer": lambda w: [
        of(
            metrics.log_likelihood(w.release, w.beliefs),
            None,
            -INFINITE,
            math.log(w.classes),
            value=metrics.log_likelihood_scorer(Guesser(w), w.features, w.release),
            gain=True,
        )
    ],
    "log_loss": lambda w: [
        of(metrics.log_loss(w.release, w.beliefs), digamma(2.0 * w.classes) - digamma(2.0), 0.0, INFINITE)
    ],
    "mean_absolute_error": lambda w: [
        of(metrics.mean_absolute_error(w.numbers, w.guesses), (w.classes**2 - 1) / (3 * w.classes), 0.0, INFINITE)
    ],
    "mean_auc": lambda w: [of(metrics.mean_auc(w.release, w.beliefs), 0.5)],
    "mean_label": lambda w: [of(metrics.mean_label(w.numbers), (w.classes - 1) / 2, 0.0, w.classes - 1)],
    "mean_squared_error": lambda w: [
        of(metrics.mean_squared_error(w.numbers, w.guesses), 2 * w.variance, 0.0, INFINITE)
    ],
    "r2": lambda w: [of(metrics.r2(w.numbers, w.guesses), -1.0, -INFINITE)],
    "recall": recall_of,
    "squared_gain": lambda w: [
        of(metrics.squared_gain(w.numbers, w.guesses), -w.variance, -INFINITE, INFINITE),
        of(metrics.squared_gain(w.numbers, w.guesses), None, -INFINITE, INFINITE, gain=True),
    ],
    "squared_scorer": lambda w: [
        of(
            metrics.squared_gain(w.numbers, w.guesses),
            -w.variance,
            -INFINITE,
            INFINITE,
            value=metrics.squared_scorer(NumberGuesser(w), w.features, w.numbers),
        )
    ],
}


def misses_of(lines, worlds):
    """How often each figure of each line missed; an impossible figure ends the test."""
    misses = defaultdict(int)
    for world, (name, find) in itertools.product(worlds, lines.items()):
        for place, found in enumerate(find(world)):
            assert found.is_possible, (name, found)
            misses[name, place] += found.missed
    return misses


def most_misses(draws, level=0.95):
    """The largest count of misses that is no false alarm."""
    return binom.isf(FALSE_ALARM, draws, 1 - level)


@pytest.mark.parametrize(("classes", "epsilon"), WORLDS, ids=IDS)
def test_metrics_find_nothing(classes, epsilon):
    """Estimates are possible, and their intervals hold the truth, over fifty draws (false alarm: 1e-3 each)."""
    misses = misses_of(METRICS, draws_of(classes, epsilon, 50))
    assert {line: count for line, count in misses.items() if count > most_misses(50)} == {}


def test_every_metric_is_in_the_table():
    """A new metric must join it."""
    assert set(METRICS) == set(metrics.__all__) - {"UnitsWarning"}


def attacked(world, report_of):
    """What attacks by nothing and by features find, and what features and the released label add."""
    shares = {row.knows: row.utility for row in reversed(report_of.rows) if row.utility.source != "the model itself"}
    known = ("nothing about the row", "features")
    believed = [row.utility for row in report_of.rows if row.utility.source == "the model itself"]
    return [
        *(of(utility, world.share if knows in known else utility.value) for knows, utility in shares.items()),
        *(of(utility, utility.value) for utility in believed),
        of(report_of.advantages[0], None, -1.0, 1.0, gain=True),
        of(report_of.advantages[1], report_of.advantages[1].value, -1.0, 1.0),
    ]


def right_of(inference, world):
    """The share of right answers of an attack that does not use the released label."""
    right = float(np.mean(inference.losses(world.release.space.encode(world.labels)) == 0))
    spread = 2 * math.sqrt(world.share * (1 - world.share) / ROWS)
    return [
        Found(right, max(right - spread, 0.0), min(right + spread, 1.0), world.share),
        *(Found(belief, belief, belief, belief) for belief in inference.expected),
    ]


def repeated_of(world):
    """Two draws are more than one, and no certainty."""
    guesses = audit.infer_from_repeats(
        [
            world.release,
            Curator(world.labels, world.release.space).randomize(RandomizedResponse(world.release.space, 1.0)),
        ]
    )
    return [Found(belief, belief, belief, belief) for belief in guesses.expected]


def profile_of(world):
    """The share of rows that features and label together give away beyond epsilon; for two classes."""
    if world.classes > 2:
        return []
    profile = audit.loss_profile(world.features, world.release, p_plus=0.5)
    beyond = profile.curves[0].beyond
    return [Found(beyond.estimate, beyond.lower, beyond.upper, 0.0, level=profile.confidence)]


def exposure_of(world):
    """What features and label disclose beyond the label, in cells of held-out rows; for two classes."""
    if world.classes > 2:
        return []
    cells = held_out_cells(world.features, world.release)
    found = audit.bound_exposure(cells.numbers, world.release, count=cells.count)
    over = found.average - 1.001 * found.of_label
    return [Found(over, over, math.inf, None, -math.inf, math.inf, found.confidence, gain=True)]


def canaries_of(world):
    """The share of planted labels that a model prefers which never saw them, with and without a claim."""
    canaries = audit.plant_canaries(world.release.space, ROWS, 100)
    found = audit.canary_memorisation(canaries, world.beliefs[:100], world.epsilon, confidence=0.95)
    assert found.holds
    return [Found(found.share, found.low, found.high, world.share)]


def beyond_claim(found, claim):
    """What an audit shows beyond a claim that is right: nothing, or that much."""
    over = found.lower - claim
    return [Found(over, over, math.inf, None, -math.inf, math.inf, found.confidence, gain=True)]


def drawn(world):
    """Randomized response as a function of a label, with draws of its own."""
    keep = math.exp(world.epsilon) / (math.exp(world.epsilon) + 1)
    return lambda label, n: np.where(world.random.random(n) < keep, label, 1 - label)


def pipeline_of(world):
    """What scores that do not depend on the coins show of a pipeline."""
    planted = PlantedPairs(list(world.labels), world.release.space, range(100))
    scores = world.random.normal(size=100)
    return beyond_claim(
        audit.audit_pipeline(lambda labels: labels, planted, lambda _: scores, world.epsilon, confidence=0.95),
        world.epsilon,
    )


def divergence_of(world):
    """The divergence of rows of one class from the others, whose features are alike."""
    first = np.arange(ROWS) < ROWS // 2
    found = audit.estimate_divergence(world.features[first], world.features[~first], GaussianNB(), 2.0)
    return [of(found, None, 0.0, math.inf, gain=True)]


def folder_of(folder):
    """An audit of a sound release in a folder refutes no claim."""
    found = audit.audit_folder(folder)
    assert found.holds
    return [each for part in found.audits for each in beyond_claim(part, part.claim)]


#: Audits and attacks by name, and what they find on a world and a folder with its release.
AUDITS = {
    "attack_folder": lambda w, folder: attacked(w, audit.attack_folder(folder, Guesser(w))),
    "attack_release": lambda w, _: attacked(w, audit.attack_release(w.release, Knowledge(w.beliefs))),
    "audit_channel": lambda w, _: beyond_claim(
        audit.audit_channel(w.release.channel, w.release.guarantee.epsilon), w.release.guarantee.epsilon
    ),
    "audit_folder": lambda _, folder: folder_of(folder),
    "audit_matrix": lambda w, _: beyond_claim(
        audit.audit_matrix(w.release.channel.table().matrix.tolist(), w.epsilon + 1e-6, rounding=1e-12),
        w.epsilon + 1e-6,
    ),
    "audit_mechanism": lambda w, _: beyond_claim(
        audit.audit_mechanism(drawn(w), [0, 1], w.epsilon, draws=4000, confidence=0.95), w.epsilon
    ),
    "audit_pipeline": lambda w, _: pipeline_of(w),
    "bound_exposure": lambda w, _: exposure_of(w),
    "canary_memorisation": lambda w, _: canaries_of(w),
    "estimate_divergence": lambda w, _: divergence_of(w),
    "infer_from_repeats": lambda w, _: repeated_of(w),
    "infer_labels": lambda w, _: right_of(audit.infer_labels(w.release, Knowledge(w.beliefs), released=False), w),
    "loss_profile": lambda w, _: profile_of(w),
    "repeated_success": lambda w, _: [
        of(Found(p, p, p, p), p, w.share) for p in [audit.repeated_success(w.release.channel, 3)]
    ],
}
#: Public names of ``labeldp.audit`` that return no score.
NO_SCORES = {"Audit", "Knowledge", "Neighbourhood", "ObservedPairs", "PlantedPairs", "plant_canaries"}


def saved(world, folder):
    """A folder with the release of a world, its features and a constant column."""
    table = pd.DataFrame(world.features, columns=["x", "y", "z"])
    return world.release.save(folder / f"draw-{world.random.integers(1 << 60)}", table, keep="all", label="coin")


@pytest.mark.parametrize(("classes", "epsilon"), WORLDS, ids=IDS)
def test_audits_and_attacks_find_nothing(classes, epsilon, tmp_path):
    """No claim that is right is refuted, no attack gains by features, no figure is impossible, intervals hold."""
    misses = defaultdict(int)
    for world in draws_of(classes, epsilon):
        folder = saved(world, tmp_path)
        lines = {name: lambda w, find=find, at=folder: find(w, at) for name, find in AUDITS.items()}
        for line, count in misses_of(lines, [world]).items():
            misses[line] += count
    assert {line: count for line, count in misses.items() if count > most_misses(DRAWS)} == {}


def test_every_audit_is_in_the_table():
    """A new audit or attack must join it, or be named as something that returns no score."""
    assert set(AUDITS) | NO_SCORES == set(audit.__all__)


def learned_of(scores, world):
    """Scores of a learned model, and of the most common class; recalls and the loss may be anything possible."""
    possible = [scores.recall[place] for place in range(world.classes)]
    return [
        of(scores.accuracy, world.share),
        of(scores.majority, world.share),
        of(scores.log_likelihood, None, -math.inf, math.log(world.classes), gain=True),
        of(scores.better, None, -1.0, 1.0, gain=True),
        of(scores.log_loss_gain, None, -math.inf, math.log(world.classes), gain=True),
        of(scores.likelihood_gain, None, -math.inf, math.log(world.classes), gain=True),
        *([] if scores.auc is None else [of(scores.auc, 0.5)]),
        *(of(each, each.low) for each in possible),
        of(scores.log_loss, scores.log_loss.low, 0.0, math.inf),
    ]


def printed(parts):
    """What a terminal would show."""
    console = Console(file=io.StringIO(), width=200)
    for part in parts:
        console.print(part)
    return console.file.getvalue()


def shares_in(text):
    """All figures in per cent that stand in a table."""
    cells = [part for line in text.splitlines() if line.startswith("│") for part in line.split("│")[2:4]]
    words = [word for cell in cells for word in cell.replace(" to ", " ").replace(" and ", " ").split()]
    return [float(word.rstrip("%")) for word in words if word.endswith("%")]


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(("classes", "epsilon"), WORLDS, ids=IDS)
def test_what_is_learned_and_printed_finds_nothing(classes, epsilon, tmp_path):
    """A model of noise has the scores of chance, and attacks its own release no better than the trivial attack.

    One draw of twenty is learned by the default, which takes ten times as long as the linear model alone.
    """
    misses = defaultdict(int)
    for place, world in enumerate(draws_of(classes, epsilon)):
        folder = saved(world, tmp_path)
        learned = learn(folder, model="softmax" if place else None)
        attack = audit.attack_folder(folder, learned.model)
        other = World(classes, epsilon, world.random)
        elsewhere = evaluate(learned.model, saved(other, tmp_path), "coin", public=False)
        lines = {
            "learn": lambda w, found=learned: learned_of(found.scores, w),
            "audit": lambda w, found=attack: attacked(w, found),
            "evaluate": lambda w, found=elsewhere: learned_of(found, w),
        }
        for line, count in misses_of(lines, [world]).items():
            misses[line] += count
        for parts in (
            on_terminal(described(LearnedModel.of(learned))),
            on_terminal(described(Audited.of_folder(FolderAudit(None, (), (), 0.99, ()), attack))),
            on_terminal(described(Evaluated.of(elsewhere, "released labels", world.release.space))),
        ):
            text = printed(parts)
            assert all(0.0 <= share <= 100.0 for share in shares_in(text)), text
        assert attack.cross_fitted
    assert {line: count for line, count in misses.items() if count > most_misses(DRAWS)} == {}


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_what_is_learned_of_numbers_finds_nothing(epsilon, tmp_path):
    """A model of numbers that are noise explains nothing and improves on the mean by nothing."""
    misses = defaultdict(int)
    for world in draws_of(10, epsilon):
        table = pd.DataFrame(world.features, columns=["x", "y", "z"])
        folder = world.numbers.save(tmp_path / f"{world.random.integers(1 << 60)}", table, keep="all", label="coin")
        scores = learn(folder, model="ridge").scores
        found = [
            of(scores.gain, None, -math.inf, math.inf, gain=True),
            of(scores.r2, None, -math.inf, gain=True),
            of(scores.squared_error, world.variance, 0.0, math.inf),
            of(scores.baseline, world.variance, 0.0, math.inf),
            of(scores.absolute_error, scores.absolute_error.value, 0.0, math.inf),
            of(scores.mean, 4.5, 0.0, 9.0),
        ]
        for place, figure in enumerate(found):
            assert figure.is_possible, figure
            misses[place] += figure.missed
    assert {place: count for place, count in misses.items() if count > most_misses(DRAWS)} == {}


@pytest.mark.parametrize(("classes", "epsilon"), WORLDS, ids=IDS)
def test_forecasts_are_possible(classes, epsilon):
    """Effective rows are no more than the rows, and no error is below that without privacy."""
    found = forecast(Classes(range(classes)), ROWS, epsilon)
    for option in found.options:
        assert 0 <= option.effective_rows <= ROWS
        assert 0.0 <= option.share <= 1.0
        assert option.error >= found.clean_error
    assert [each.at_most for each in plan(classes, ROWS, epsilon).options if each.at_most > ROWS] == []
