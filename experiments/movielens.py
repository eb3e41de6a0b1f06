"""Table 3 of Ghazi et al. 2021 on MovieLens: ratings predicted from released ratings, over epsilon.

movielens.md has the protocol and what the results show.
"""

import argparse
import functools
import gzip
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from _factorization import Found, Table, factorize, information
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, pivot
from matplotlib.figure import Figure
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import svds

from labeldp import Classes, Curator, RandomizedResponse, Release
from labeldp.learning.stages import MultiStage
from labeldp.learning.torch import TorchClassifier, ratings

NetworkMethod = Literal["plain", "likelihood"]
SPACE = Classes(range(1, 6))
EPSILONS = (1.0, 2.0, 3.0, 4.0, 8.0)
TEST_SHARE, FIRST_SHARE = 0.2, 1 / 3
RATE, PENALTY, EPOCHS, BATCH, HELD_OUT = 0.01, 1e-4, 12, 512, 0.1
GUESS = np.array([1.5, 2.5, 3.5, 4.5]) - 3.5  # cut points if ratings were 3.5, give or take 1
PAIR_FACTORS = 12
GROUPINGS = tuple(
    np.searchsorted(cuts, range(5), side="right")
    for count in range(1, 5)
    for cuts in itertools.combinations(range(1, 5), count)
)
PUBLISHED = {
    "LP-1ST": {1.0: 1.122, 2.0: 0.981, 3.0: 0.902, 4.0: 0.877, 8.0: 0.867, np.inf: 0.868},
    "LP-2ST": {1.0: 1.034, 2.0: 0.928, 3.0: 0.891, 4.0: 0.874, 8.0: 0.865},
}
METHODS = (
    *("1st plain", "1st likelihood", "1st factorization"),
    *("2st plain", "2st likelihood", "2st factorization"),
    *("questions", "questions, numbers alone"),
)


@dataclass(frozen=True)
class Ratings:
    """Ratings in two parts, by public chance.

    Attributes:
        name: What they are called in the results.
        table: Pairs to learn from, with public features of users and items.
        labels: Their true ratings; only curators see them.
        test_pairs: Pairs held out.
        test_labels: Their true ratings, read to score what is finished.
    """

    name: str
    table: Table
    labels: np.ndarray
    test_pairs: np.ndarray
    test_labels: np.ndarray


@functools.cache
def loaded(path: Path) -> Ratings:
    """Ratings in the form of MovieLens-100k (``u.data``, tabs) or 1M (``ratings.dat``, ``::``), packed or not."""
    text = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
    rows = np.array([line.replace("::", "\t").split("\t")[:3] for line in text.splitlines()], dtype=np.int64)
    (users, user), (items, item) = (np.unique(rows[:, column], return_inverse=True) for column in (0, 1))
    order = np.random.default_rng(1).permutation(len(rows))
    test, fit = np.split(order, [round(TEST_SHARE * len(order))])
    pairs = np.column_stack([user, item])
    about = (about_users(path.parent, users), about_items(path.parent, items))
    table = Table(pairs[fit], *public_features(pairs[fit], *about))
    return Ratings(name_of(path), table, rows[fit, 2], pairs[test], rows[test, 2])


def about_users(folder: Path, numbers: np.ndarray) -> np.ndarray:
    """Age, gender and occupation, where the folder has them."""
    path = folder / "u.user.gz"
    if not path.exists():
        return np.zeros((len(numbers), 0))
    frame = pd.read_csv(path, sep="|", names=["user", "age", "gender", "job", "zip"], index_col="user").loc[numbers]
    return np.column_stack([frame["age"], frame["gender"] == "F", pd.get_dummies(frame["job"])]).astype(float)


def about_items(folder: Path, numbers: np.ndarray) -> np.ndarray:
    """Year and genres, where the folder has them."""
    path = folder / "u.item.gz"
    if not path.exists():
        return np.zeros((len(numbers), 0))
    frame = pd.read_csv(path, sep="|", header=None, encoding="latin-1", index_col=0).loc[numbers]
    year = frame[2].str[-4:].astype(float)
    year = standard(year.fillna(year.median()).to_numpy())
    return np.column_stack([year, year**2, frame.iloc[:, -19:]])


def public_features(pairs: np.ndarray, users: np.ndarray, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Features of users and items without any rating: the columns given, who rated how much, and what."""
    counts = [np.bincount(pairs[:, column], minlength=len(part)) for column, part in enumerate((users, items))]
    matrix = csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(users), len(items)))
    scaled = diags_array((counts[0] + 5) ** -0.5) @ matrix @ diags_array((counts[1] + 5) ** -0.5)
    left, _, right = svds(scaled, min(PAIR_FACTORS, min(matrix.shape) - 1), v0=np.ones(min(matrix.shape)))
    found = []
    for part, count, factors in ((users, counts[0], left), (items, counts[1], right.T)):
        often = standard(np.log1p(count))
        found.append(standard(np.column_stack([part, often, often**2, factors])))
    return found[0], found[1]


def standard(columns: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and deviation 1; what does not vary is 0."""
    spread = columns.std(axis=0)
    return (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


@dataclass(frozen=True)
class Job:
    """One draw at one epsilon; without privacy at infinite epsilon."""

    data: Ratings
    epsilon: float
    draw: int
    rounds: int

    @functools.cached_property
    def curator(self) -> Curator:
        """A curator who spends epsilon and no more."""
        return Curator(self.data.labels, SPACE, budget=self.epsilon)

    def network(self, method: NetworkMethod) -> TorchClassifier:
        """The paper's network; the epoch is kept after which held-out released ratings are likeliest."""
        return TorchClassifier(
            functools.partial(ratings, len(self.data.table.users), len(self.data.table.items)),
            method=method,
            epochs=EPOCHS,
            batch_size=BATCH,
            optimizer=functools.partial(torch.optim.Adam, lr=RATE, weight_decay=PENALTY),
            held_out=HELD_OUT,
            seed=self.draw,
            device="cpu",
        )

    def predicted(self, network: Any) -> np.ndarray:
        """Probabilities by a network for the pairs held out."""
        return network.predict_proba(self.data.test_pairs)

    def factorized(
        self, likelihood: np.ndarray, rows: slice = slice(None), others: np.ndarray | None = None, *, bare: bool = False
    ) -> Found:
        """Predictions of a factorization for the pairs held out, or for others; ``bare``: from numbers alone."""
        whole, sides = self.data.table, (self.data.table.users, self.data.table.items)
        table = Table(whole.pairs[rows], *(side[:, :0] if bare else side for side in sides))
        others = self.data.test_pairs if others is None else others
        return factorize(
            table, likelihood, others, guess=GUESS, rounds=self.rounds, unused=3 * self.rounds // 10, seed=self.draw
        )


Learned = tuple[str, float, np.ndarray]


def no_privacy(job: Job) -> Iterator[Learned]:
    """Predictions of both learners from true ratings."""
    release = Release.public(job.data.labels, SPACE)
    yield "network", np.inf, job.predicted(job.network("plain").fit(job.data.table.pairs, release))
    yield "factorization", np.inf, job.factorized(release.likelihood()).probabilities
    yield "factorization, numbers alone", np.inf, job.factorized(release.likelihood(), bare=True).probabilities


def one_stage(job: Job) -> Iterator[Learned]:
    """LP-1ST, and what else can be learned from the same release."""
    release = job.curator.randomize(RandomizedResponse(SPACE, job.epsilon))
    spent = release.guarantee.epsilon
    methods: tuple[NetworkMethod, ...] = ("plain", "likelihood")
    for method in methods:
        yield f"1st {method}", spent, job.predicted(job.network(method).fit(job.data.table.pairs, release))
    yield "1st factorization", spent, job.factorized(release.likelihood()).probabilities


def two_stages(job: Job) -> Iterator[Learned]:
    """LP-2ST as in the paper."""
    yield from staged(job, "plain")


def two_likely_stages(job: Job) -> Iterator[Learned]:
    """LP-2ST with the likelihood in both stages, and what else can be learned from the same release."""
    yield from staged(job, "likelihood")


def staged(job: Job, method: NetworkMethod) -> Iterator[Learned]:
    """Two stages with one network; what the paper leaves out is left out where released labels pass for true ones."""
    stages = MultiStage(job.network(method), job.epsilon, stages=2, filter_labels=method == "plain")
    stages.fit(job.data.table.pairs, job.curator)
    spent = stages.release_.guarantee.epsilon
    yield f"2st {method}", spent, job.predicted(stages)
    if method == "likelihood":
        yield "2st factorization", spent, job.factorized(stages.release_.likelihood()).probabilities


def questions(job: Job, *, bare: bool = False) -> Iterator[Learned]:
    """Ask in which group each rating is: the groups that tell most, first by a guess, then by what was learned."""
    first, rest = np.split(np.arange(len(job.data.labels)), [round(FIRST_SHARE * len(job.data.labels))])
    pairs = job.data.table.pairs
    guessed = most_telling(np.zeros(len(first)), GUESS, job.epsilon)
    early, spent = answered(job.data.labels[first], guessed, job.epsilon)
    found = job.factorized(early, slice(len(first)), pairs[rest], bare=bare)
    late, spent_late = answered(job.data.labels[rest], most_telling(found.scores, found.cuts, job.epsilon), job.epsilon)
    name = "questions, numbers alone" if bare else "questions"
    yield name, max(spent, spent_late), job.factorized(np.concatenate([early, late]), bare=bare).probabilities


def most_telling(scores: np.ndarray, cuts: np.ndarray, epsilon: float) -> np.ndarray:
    """The grouping of ratings whose randomized response tells most of each score, by its number."""
    return np.argmax([information(scores, cuts, groups, epsilon) for groups in GROUPINGS], axis=0)


def answered(labels: np.ndarray, asked: np.ndarray, epsilon: float) -> tuple[np.ndarray, float]:
    """Randomized response to one question for each rating: likelihoods of the ratings, and epsilon.

    Each rating is asked for once, so the whole costs as much as one question.
    """
    likelihood, spent = np.empty((len(labels), SPACE.size)), 0.0
    codes = SPACE.encode(labels)
    for number in np.unique(asked):
        rows, groups = np.flatnonzero(asked == number), GROUPINGS[number]
        space = Classes(range(groups.max() + 1))
        curator = Curator(groups[codes[rows]], space, budget=epsilon)
        release = curator.randomize(RandomizedResponse(space, epsilon))
        likelihood[rows] = release.likelihood()[:, groups]
        spent = max(spent, release.guarantee.epsilon)
    return likelihood, spent


PARTS: tuple[tuple[tuple[str, ...], Callable[[Job], Iterator[Learned]]], ...] = (
    (("1st plain", "1st likelihood", "1st factorization"), one_stage),
    (("questions",), questions),
    (("2st plain",), two_stages),
    (("2st likelihood", "2st factorization"), two_likely_stages),
    (("questions, numbers alone",), functools.partial(questions, bare=True)),
)
FREE = (("network", "factorization", "factorization, numbers alone"), no_privacy)


def scores(data: Ratings, probabilities: np.ndarray) -> dict[str, float]:
    """The error of mean ratings, and the log loss; nothing else reads true test ratings."""
    true = SPACE.encode(data.test_labels)
    error = probabilities @ np.array(SPACE.points) - data.test_labels
    given = np.maximum(probabilities[np.arange(len(true)), true], 1e-12)
    return {"rmse": round(float(np.sqrt(np.mean(error**2))), 5), "log_loss": round(float(-np.log(given).mean()), 5)}


KEY = ("data", "epsilon")


def source(given: Given) -> Path:
    """The file of ratings."""
    return given.data or data_folder(given) / "movielens-100k" / "u.data.gz"


def name_of(path: Path) -> str:
    """Name of the ratings in the results."""
    return "100k" if "u.data" in path.name else "1m"


def cells(given: Given) -> Iterator[Cell]:
    """All methods of one release, over epsilon."""
    for names, _ in (FREE, *PARTS):
        for epsilon in [np.inf] if names == FREE[0] else given.epsilons:
            yield cell_of(name_of(source(given)), epsilon, *names)


def cell_of(data: str, epsilon: float, *methods: str) -> Cell:
    """Methods that learn from one release."""
    return Cell({"data": data, "epsilon": epsilon}, methods)


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """A row for each method of one release."""
    torch.set_num_threads(1)
    job = Job(loaded(source(given)), cell["epsilon"], draw, given.rounds)
    part = next(part for names, part in (FREE, *PARTS) if set(cell.parts) <= set(names))
    for method, spent, probabilities in part(job):
        about = {"method": method, "rows": len(job.data.labels), "certified_epsilon": spent}
        yield about | scores(job.data, probabilities)


def page(frames: dict[str, pd.DataFrame], folder: Path) -> list[str]:
    """Errors and log losses of each method."""
    results = frames["movielens"]
    figure(results, folder / "movielens.png")
    text = [
        "",
        "Root mean square error of mean ratings in held-out rows, and log loss in nats: mean and standard deviation",
        "over draws. *Published* is Table 3 of Ghazi et al. 2021, on 1M, which is ten times larger: its level is not",
        "that of 100k.",
    ]
    order = [(method,) for method in (*METHODS, *FREE[0])]
    for name, part in results.groupby("data", sort=False):
        rows, draws = part["rows"].max(), part["draw"].nunique()
        text += ["", f"## {name}", "", f"{rows:,} ratings to learn from; draws: {draws}.", ""]
        text += pivot(part, ["method"], "rmse", order=order, title="error")
        for method, values in PUBLISHED.items():
            found = [f"{values[each]:.3f}" if each in values else "" for each in sorted(part["epsilon"].unique())]
            text.append(f"| published {method}, 1M | {' | '.join(found)} |")
        text += ["", *pivot(part, ["method"], "log_loss", order=order, title="log loss")]
    return text


def figure(results: pd.DataFrame, path: Path) -> None:
    """The error over epsilon."""
    drawing = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = drawing.subplots()
    means = results.groupby(["method", "epsilon"])["rmse"].mean()
    known = set(means.index.get_level_values("method"))
    for place, method in enumerate(each for each in METHODS if each in known):
        axes.plot(means[method].sort_index(), color=f"C{place}", marker=".", label=method)
    for method, style in zip(FREE[0], ("-", "--", ":"), strict=True):
        if method in known:
            axes.axhline(
                means[method].iloc[0], color="0.5", linewidth=1, linestyle=style, label=f"no privacy, {method}"
            )
    for (method, values), style in zip(PUBLISHED.items(), (":", "--"), strict=True):
        private = {epsilon: value for epsilon, value in values.items() if np.isfinite(epsilon)}
        axes.plot(private.keys(), private.values(), color="0.2", linestyle=style, label=f"published {method}, 1M")
    axes.set(xscale="log", xlabel="epsilon", ylabel="error, held-out ratings")
    axes.set_xticks(EPSILONS, [f"{each:g}" for each in EPSILONS])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    drawing.legend(loc="outside right upper", frameon=False, fontsize="small")
    drawing.savefig(path, dpi=110)


def options(parser: argparse.ArgumentParser) -> None:
    """Ratings, and rounds of sampling."""
    parser.add_argument("--data", type=Path, help="u.data or ratings.dat (default: movielens-100k in LABELDP_DATA)")
    parser.add_argument("--rounds", type=int, default=200, help="of sampling in a factorization (default: 200)")


STUDY = Study(
    name="movielens",
    recipe="1",
    key=KEY,
    part="method",
    columns=("data", "epsilon", "method", "draw", "rows", "certified_epsilon", "rmse", "log_loss", "seconds"),
    cells=cells,
    run=run,
    spots=(
        Spot(cell_of("100k", 2.0, "1st plain"), "rmse", {"method": "1st plain"}, draws=2),
        Spot(cell_of("100k", 2.0, "questions"), "rmse", {"method": "questions"}, draws=1, least=0.02),
    ),
)
EXPERIMENT = Experiment(
    name="movielens",
    question="How well are ratings predicted from released ratings, over epsilon?",
    studies=(STUDY,),
    page=page,
    draws=3,
    epsilons=EPSILONS,
    options=options,
)

if __name__ == "__main__":
    main(EXPERIMENT)
