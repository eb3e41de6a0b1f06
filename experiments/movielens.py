"""Table 3 of Ghazi et al. 2021 on MovieLens: ratings predicted from released ratings, over epsilon.

movielens.md has the protocol and what the results show.
"""

import argparse
import functools
import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, pivot
from matplotlib.figure import Figure
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import svds
from scipy.stats import norm

from labeldp import Classes, Curator, RandomizedResponse, Release
from labeldp.learning.ratings import FactorizationClassifier
from labeldp.learning.stages import FixedPrior, MultiStage
from labeldp.learning.torch import TorchClassifier, ratings

NetworkMethod = Literal["plain", "likelihood"]
SPACE = Classes(range(1, 6))
EPSILONS = (1.0, 2.0, 3.0, 4.0, 8.0)
TEST_SHARE, FIRST_SHARE = 0.2, 1 / 3
RATE, PENALTY, EPOCHS, BATCH, HELD_OUT = 0.01, 1e-4, 12, 512, 0.1
GUESS = np.diff(norm.cdf([-np.inf, 1.5, 2.5, 3.5, 4.5, np.inf], 3.5))  # class shares if ratings are 3.5, give or take 1
PAIR_FACTORS, LEARNED_PAIR_FACTORS = 12, 20
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
        rows: Users and items to learn from, with public columns about both.
        labels: Their true ratings; only curators see them.
        test_rows: Rows held out.
        test_labels: Their true ratings, read to score what is finished.
    """

    name: str
    rows: np.ndarray
    labels: np.ndarray
    test_rows: np.ndarray
    test_labels: np.ndarray


@functools.cache
def loaded(path: Path) -> Ratings:
    """Ratings in the form of MovieLens-100k (``u.data``, tabs) or 1M (``ratings.dat``, ``::``), packed or not."""
    text = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
    rows = np.array([line.replace("::", "\t").split("\t")[:3] for line in text.splitlines()], dtype=np.int64)
    (users, user), (items, item) = (np.unique(rows[:, column], return_inverse=True) for column in (0, 1))
    order = np.random.default_rng(1).permutation(len(rows))
    test, fit = np.split(order, [round(TEST_SHARE * len(order))])
    about = (about_users(path.parent, users)[user], about_items(path.parent, items)[item])
    public = np.column_stack([user, item, *about])
    return Ratings(name_of(path), public[fit], rows[fit, 2], public[test], rows[test, 2])


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
    year = year.fillna(year.median()).to_numpy()
    year = (year - year.mean()) / year.std()
    return np.column_stack([year, year**2, frame.iloc[:, -19:]])


def public_features(data: Ratings) -> list[np.ndarray]:
    """Features of people and of films without any rating: the columns given, who rated how much, and what."""
    rows = np.concatenate([data.rows, data.test_rows])
    about, first = rows[:, 2:], [np.unique(rows[:, side], return_index=True)[1] for side in (0, 1)]
    of_person = (about[first[0]][rows[:, 0].astype(int)] == about).all(axis=0)
    pairs = data.rows[:, :2].astype(int)
    counts = [np.bincount(pairs[:, side], minlength=len(first[side])) for side in (0, 1)]
    matrix = csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(first[0]), len(first[1])))
    scaled = diags_array((counts[0] + 5) ** -0.5) @ matrix @ diags_array((counts[1] + 5) ** -0.5)
    left, _, right = svds(scaled, min(PAIR_FACTORS, min(matrix.shape) - 1), v0=np.ones(min(matrix.shape)))
    found = []
    for side, columns, factors in ((0, of_person, left), (1, ~of_person, right.T)):
        often = standard(np.log1p(counts[side]))
        found.append(standard(np.column_stack([about[first[side]][:, columns], often, often**2, factors])))
    return found


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

    @property
    def pairs(self) -> np.ndarray:
        """Users and items to learn from."""
        return self.data.rows[:, :2].astype(np.int64)

    def network(self, method: NetworkMethod) -> TorchClassifier:
        """The paper's network; the epoch is kept after which held-out released ratings are likeliest."""
        users, items = np.concatenate([self.data.rows, self.data.test_rows])[:, :2].max(axis=0).astype(int) + 1
        return TorchClassifier(
            functools.partial(ratings, users, items),
            method=method,
            epochs=EPOCHS,
            batch_size=BATCH,
            optimizer=functools.partial(torch.optim.Adam, lr=RATE, weight_decay=PENALTY),
            held_out=HELD_OUT,
            seed=self.draw,
            device="cpu",
        )

    def predicted(self, network: Any) -> np.ndarray:
        """Probabilities by a network for the rows held out."""
        return network.predict_proba(self.data.test_rows[:, :2].astype(np.int64))

    def factorization(self, *, bare: bool = False) -> FactorizationClassifier:
        """The factorization, with features of users and films; ``bare``: from numbers alone."""
        return FactorizationClassifier(
            public_rows=self.columns(self.data.rows, bare=bare),
            shares=GUESS,
            rounds=self.rounds,
            unused=self.rounds // 5,
            seed=self.draw,
            pair_factors=0 if bare else LEARNED_PAIR_FACTORS,
        )

    @staticmethod
    def columns(rows: np.ndarray, *, bare: bool) -> np.ndarray:
        """The columns that the factorization sees."""
        return rows[:, :2] if bare else rows

    def factorized(self, release: Release, *, bare: bool = False) -> np.ndarray:
        """Probabilities by a factorization for the rows held out."""
        model = self.factorization(bare=bare).fit(self.columns(self.data.rows, bare=bare), release)
        return model.predict_proba(self.columns(self.data.test_rows, bare=bare))


Learned = tuple[str, float, np.ndarray]


def no_privacy(job: Job) -> Iterator[Learned]:
    """Predictions of both learners from true ratings."""
    release = Release.public(job.data.labels, SPACE)
    yield "network", np.inf, job.predicted(job.network("plain").fit(job.pairs, release))
    yield "factorization", np.inf, job.factorized(release)
    yield "factorization, numbers alone", np.inf, job.factorized(release, bare=True)


def one_stage(job: Job) -> Iterator[Learned]:
    """LP-1ST, and what else can be learned from the same release."""
    release = job.curator.randomize(RandomizedResponse(SPACE, job.epsilon))
    spent = release.guarantee.epsilon
    methods: tuple[NetworkMethod, ...] = ("plain", "likelihood")
    for method in methods:
        yield f"1st {method}", spent, job.predicted(job.network(method).fit(job.pairs, release))
    yield "1st factorization", spent, job.factorized(release)


def two_stages(job: Job) -> Iterator[Learned]:
    """LP-2ST as in the paper."""
    yield from staged(job, "plain")


def two_likely_stages(job: Job) -> Iterator[Learned]:
    """LP-2ST with the likelihood in both stages, and what else can be learned from the same release."""
    yield from staged(job, "likelihood")


def staged(job: Job, method: NetworkMethod) -> Iterator[Learned]:
    """Two stages with one network; what the paper leaves out is left out where released labels pass for true ones."""
    stages = MultiStage(job.network(method), job.epsilon, stages=2, filter_labels=method == "plain")
    stages.fit(job.pairs, job.curator)
    spent = stages.release_.guarantee.epsilon
    yield f"2st {method}", spent, job.predicted(stages)
    if method == "likelihood":
        yield "2st factorization", spent, job.factorized(stages.release_)


def questions(job: Job, *, bare: bool = False) -> Iterator[Learned]:
    """Ask in which group each rating is: the groups that tell most, first by a guess, then by what was learned."""
    stages = MultiStage(
        job.factorization(bare=bare),
        job.epsilon,
        stages=2,
        shares=(FIRST_SHARE, 1 - FIRST_SHARE),
        response="groups",
        prior=FixedPrior(GUESS),
    ).fit(job.columns(job.data.rows, bare=bare), job.curator)
    name = "questions, numbers alone" if bare else "questions"
    spent = stages.release_.guarantee.epsilon
    yield name, spent, stages.predict_proba(job.columns(job.data.test_rows, bare=bare))


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
        rows, draws = part["rows"].max(), part.groupby(["method", "epsilon"])["draw"].nunique()
        found = f"{draws.min()} to {draws.max()}" if draws.min() < draws.max() else f"{draws.max()}"
        text += ["", f"## {name}", "", f"{rows:,} ratings to learn from; draws: {found}.", ""]
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
    parser.add_argument("--rounds", type=int, default=1000, help="of sampling in a factorization (default: 1000)")


STUDY = Study(
    name="movielens",
    recipe=lambda row: "4" if "factorization" in row["method"] or "questions" in row["method"] else "1",
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
