"""LabelDP-Pro (Ghazi et al. 2024), corrected, beside plain private descent on labels and a curator's one answer.

label_dp_pro.md has the protocol and what the results show.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from _study import Cell, Experiment, Given, Row, Spot, Study, main, pivot
from central_images import BUNDLED, COMPONENTS, EIGENVECTORS, TABLES, loaded, unit
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.mechanism_calibration import LowerEndpointAndGuess, calibrate_dp_mechanism
from dp_accounting.pld import PLDAccountant
from dp_accounting.privacy_accountant import NeighboringRelation

from labeldp import Classes, Curator, LabelMoments
from labeldp.learning.sklearn import MomentClassifier

SPACE, DELTA = Classes(range(10)), 1e-6
METHODS = ("descent", "altconv", "moments")
FEATURES = ("patches", "graph")
SHARE = 1024 / 60_000  # of the rows in a batch, by Poisson's law, as far as 60,000 rows go the paper's
CLIP, STEPS, RATE = 1.0, 300, 4.0
ROUNDS, SMOOTHED = 50, 0.75  # of a projection, and the paper's lambda


@dataclass(frozen=True)
class Descent:
    """Descent of a linear softmax head on noisy gradients.

    Attributes:
        features: Rows to fit on, of length one.
        targets: Their true labels, one-hot; only clipped gradients with noise are made from them.
        rng: Batches and noise. Noise is drawn in floating point, as usual.
    """

    features: np.ndarray
    targets: np.ndarray
    rng: np.random.Generator

    def head(self, noise: float, *, project: bool, steps: int = STEPS, rate: float = RATE) -> np.ndarray:
        """Coefficients after all steps.

        Args:
            noise: Standard deviation of the noise on sums of gradients of length ``CLIP``, over ``CLIP``.
            project: Whether each noisy gradient is projected onto those that public rows could have (ALTCONV).
            steps: Number of steps.
            rate: Learning rate.
        """
        head = np.zeros((self.features.shape[1], SPACE.size))
        expected = SHARE * len(self.features)
        for _ in range(steps):
            slope = self._sum(head) + noise * CLIP * self.rng.standard_normal(head.shape)
            slope /= expected  # a public number: the noise is divided with the sum
            head -= rate * (self._projected(head, slope) if project else slope)
        return head

    def _sum(self, head: np.ndarray) -> np.ndarray:
        """The sum of the clipped gradients of a random batch."""
        rows = np.flatnonzero(self.rng.random(len(self.features)) < SHARE)
        batch = self.features[rows]
        return batch.T @ clipped(chances(batch, head) - self.targets[rows], batch)

    def _projected(self, head: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """The nearest point to a noisy gradient among means of clipped gradients of public rows, whatever their labels.

        Rows are drawn anew, whether in the batch or not, so that their choice says nothing of it.
        """
        rows = self.rng.choice(len(self.features), round(SHARE * len(self.features)), replace=False)
        batch = self.features[rows]
        errors = chances(batch, head)[:, None, :] - np.eye(SPACE.size)  # of each row with each label
        lengths = np.sqrt((errors**2).sum(axis=2)) * np.linalg.norm(batch, axis=1)[:, None]
        errors /= np.maximum(1.0, lengths / CLIP)[:, :, None]
        weights = np.full(errors.shape[:2], 1.0 / (len(rows) * SPACE.size))

        def mean(of: np.ndarray) -> np.ndarray:
            return batch.T @ np.einsum("rk,rkc->rc", of, errors)

        step = 1.0 / (np.linalg.norm(batch, 2) * np.linalg.norm(errors, 2, axis=(1, 2)).max()) ** 2
        ahead, pace = weights, 1.0
        for _ in range(ROUNDS):  # accelerated (Beck and Teboulle 2009); the paper's are plain
            pull = np.einsum("rkc,rc->rk", errors, batch @ (mean(ahead) - slope))
            before, weights = weights, on_simplex(ahead - step * pull)
            last, pace = pace, 0.5 + math.sqrt(0.25 + pace**2)
            ahead = weights + (last - 1.0) / pace * (weights - before)
        return mean(SMOOTHED * weights + (1.0 - SMOOTHED) / weights.size)


def chances(features: np.ndarray, head: np.ndarray) -> np.ndarray:
    """Probabilities of the classes of each row."""
    logits = features @ head
    found = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def clipped(errors: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Errors whose gradients, the products with their row, have length ``CLIP`` at most."""
    lengths = np.linalg.norm(errors, axis=1) * np.linalg.norm(features, axis=1)
    return np.asarray(errors / np.maximum(1.0, lengths / CLIP)[:, None])


def on_simplex(weights: np.ndarray) -> np.ndarray:
    """The nearest weights that are at least 0 and have sum 1 (Duchi et al. 2008)."""
    falling = -np.sort(-weights, axis=None)
    over = (np.cumsum(falling) - 1.0) / np.arange(1, falling.size + 1)
    return np.maximum(weights - over[np.flatnonzero(falling > over)[-1]], 0.0)


@functools.cache
def noise_of(epsilon: float, steps: int = STEPS) -> float:
    """Noise multiplier of all steps together, for a replaced label: two gradients of length ``CLIP``, 2 ``CLIP`` apart.

    The replaced pair is accounted for itself, as batches are samples: twice a row that is left out would be another.
    """

    def event(noise: float) -> SelfComposedDpEvent:
        return SelfComposedDpEvent(PoissonSampledDpEvent(SHARE, GaussianDpEvent(noise)), steps)

    account = functools.partial(PLDAccountant, NeighboringRelation.REPLACE_ONE, value_discretization_interval=1e-3)
    return float(calibrate_dp_mechanism(account, event, epsilon, DELTA, LowerEndpointAndGuess(0.1, 10.0), tol=0.01))


def cells(given: Given) -> Iterator[Cell]:
    """Each method on each kind of features, over epsilon."""
    for name in given.data:
        for epsilon in given.epsilons:
            for kind in FEATURES:
                yield from (cell_of(name, kind, method, epsilon) for method in METHODS)


def cell_of(data: str, features: str, method: str, epsilon: float) -> Cell:
    """One method on one kind of features."""
    return Cell({"data": data, "features": features, "method": method, "epsilon": epsilon})


def features_of(given: Given, cell: Cell) -> tuple[np.ndarray, np.ndarray]:
    """Rows of length one, to fit on and held out."""
    images = loaded(given.folder, given.cache, cell["data"], given.rows)
    if cell["features"] == "graph":
        return images.places(EIGENVECTORS)
    first, second = (unit(part[:, :COMPONENTS]) for part in images.patches)
    return first, second


def run(given: Given, cell: Cell, _: int) -> Iterator[Row]:
    """The accuracy of one head, which is linear in all methods."""
    data, (fit, held) = loaded(given.folder, given.cache, cell["data"], given.rows).data, features_of(given, cell)
    epsilon, noise = cell["epsilon"], math.nan
    if cell["method"] == "moments":
        answer = Curator(data.labels, SPACE, budget=(epsilon, DELTA)).answer(LabelMoments(SPACE, epsilon, DELTA, fit))
        predicted = MomentClassifier().fit(fit, answer).predict(held)
    else:
        noise = noise_of(epsilon)
        descent = Descent(fit, np.eye(SPACE.size)[data.labels], np.random.default_rng())
        predicted = (held @ descent.head(noise, project=cell["method"] == "altconv")).argmax(axis=1)
    accuracy = round(100 * float((predicted == data.test_labels).mean()), 3)
    yield {"rows": len(fit), "columns": fit.shape[1], "noise": noise, "delta": DELTA, "accuracy": accuracy}


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Accuracy of each method."""
    rows = frames["label_dp_pro"]
    text = ["", "Test accuracy in %, means over draws, with the standard deviation over draws in parentheses."]
    text += [f"Delta is {DELTA:g}, and a neighbour has another label in one row."]
    for (name, kind), part in rows.groupby(["data", "features"], sort=False):
        about = f"{part['rows'].max():,} rows, {part['columns'].max()} columns; {part['draw'].nunique()} draws."
        text += ["", f"## {name}, {kind}", "", about, "", *pivot(part, ["method"], "accuracy", form=".1f")]
    return text


STUDY = Study(
    name="label_dp_pro",
    recipe="1",
    key=("data", "features", "method", "epsilon"),
    columns=(
        *("data", "features", "method", "epsilon", "draw", "rows", "columns"),
        *("noise", "delta", "accuracy", "seconds"),
    ),
    cells=cells,
    run=run,
    spots=(Spot(cell_of("fashion-mnist", "graph", "descent", 0.1), "accuracy", draws=2),),
)
EXPERIMENT = Experiment(
    name="label_dp_pro",
    question="How accurate is LabelDP-Pro, corrected, beside private descent and a curator's moments?",
    studies=(STUDY,),
    page=page,
    draws=3,
    tables=(*(name for name in TABLES if name not in BUNDLED), *BUNDLED),
    usual=("mnist", "fashion-mnist"),
    bundled=BUNDLED,
    epsilons=(0.1, 0.5, 1.0),
    cached=True,
    shortened=True,
)

if __name__ == "__main__":
    main(EXPERIMENT)
