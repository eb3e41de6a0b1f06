"""Convex learning on real tables: what mechanisms, steps, passes and regions make of released labels."""

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import _data
import numpy as np
import pandas as pd
import scipy.sparse as sp
from _convex_risk import DELTA, RANDOMIZERS
from _data import Data
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from labeldp import Classes, Curator, LabelMoments, Release, SubsetResponse, TopKResponse
from labeldp.learning.convex import Ball, ConvexClassifier, FewRowsWarning, fit_interactively
from labeldp.learning.sklearn import MomentClassifier, SoftmaxRegression

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
KEY = ("part", "data", "epsilon", "mechanism")
COLUMNS = (
    *KEY,
    "draw",
    *("learner", "rows", "columns", "classes", "radius", "certified_epsilon", "loss", "accuracy", "seconds"),
)
SHARES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # balls to compare in hindsight
AUTO, DECLARED, SHARE = "auto ball, 5 passes", "ball x 10, 1 pass", 10.0
PATIENTS, TEST_PATIENTS, USERS, CLICKS = 30_000, 10_000, 5_000, 7_000
PRIOR_SHARE, CANDIDATES = 0.2, (2, 3, 5)  # of rows whose labels make the prior of the others
KEPT = 0.9  # of rows, as they are, where a curator cuts long ones
SURE = 1e-12  # a probability below counts as this


def clicks(folder: Path) -> Data:
    """The head of Criteo's table, in the order of time: is an advertisement clicked?"""
    frame = pd.read_csv(folder / "criteo" / "criteo_dac_head10000.txt.gz", sep="\t", header=None)
    labels = frame.pop(0).to_numpy()
    counts, words = [*range(1, 14)], [*range(14, 40)]
    missing = frame[counts].isna().astype(int).add_prefix("missing ")
    frame[counts] = np.log1p(frame[counts].fillna(0.0).clip(lower=0.0))
    frame[words] = frame[words].fillna("")
    frame = pd.concat([frame, missing], axis=1)
    frame.columns = frame.columns.astype(str)
    train, test = frame[:CLICKS], frame[CLICKS:]
    numbers = [*map(str, counts), *missing.columns]
    (fitted, held_out), _ = _data.encoded(train, test, numbers, [*map(str, words)])
    return Data(Classes([0, 1]), fitted, labels[:CLICKS], held_out, labels[CLICKS:], clusters=20)


def occupations(folder: Path) -> Data:
    """MovieLens-1M: the occupation of a user, one of 21, from the films that the user rated."""
    folder = folder / "movielens-1m-pairs"
    pairs = pd.read_parquet(folder / "pairs.parquet")
    films = sp.csr_matrix((np.ones(len(pairs)), (pairs["user"] - 1, pairs["movie"])))
    users = pd.read_csv(folder / "users.dat.gz", sep="::", header=None, engine="python")
    labels, order = users[3].to_numpy(), np.random.default_rng(0).permutation(len(users))
    films, (train, test) = normalize(films), (order[:USERS], order[USERS:])
    return Data(Classes(range(21)), films[train], labels[train], films[test], labels[test], clusters=20)


def diagnoses(folder: Path) -> Data:
    """Stays in hospital: the first diagnosis, as one of 100 blocks of ten codes of ICD-9, or none of them."""
    path = folder / "diabetes-readmission" / "diabetic_data.csv.gz"
    frame = pd.read_csv(path, keep_default_na=False, low_memory=False).drop_duplicates("patient_nbr")
    frame = frame.iloc[np.random.default_rng(0).permutation(len(frame))[: PATIENTS + TEST_PATIENTS]].copy()
    frame["age"] = frame["age"].str.extract(r"(\d+)", expand=False).astype(int)
    for name in ("diag_1", "diag_2", "diag_3"):
        codes = frame[name].str.partition(".")[0].str.zfill(3)
        frame[name] = codes.str[:2].where(codes.str.fullmatch(r"\d{3}"), "other")
    labels = frame.pop("diag_1").to_numpy()
    words = [name for name in _data.VISIT_WORDS if name != "diag_1"] + ["diag_2", "diag_3"]
    (train, test), _ = _data.encoded(frame[:PATIENTS], frame[PATIENTS:], _data.VISIT_NUMBERS, words)
    space = Classes([*(f"{block:02d}" for block in range(100)), "other"])
    return Data(space, train, labels[:PATIENTS], test, labels[PATIENTS:], clusters=20)


TABLES: dict[str, Callable[[Path], Data]] = {
    **{name: _data.TABLES[name] for name in ("digits", "adult", "mnist")},
    "criteo": clicks,
    "occupations": occupations,
    "diagnoses": diagnoses,
}
#: The tables of each part, and how many draws of each kind.
PLANS = {
    "softmax": (("digits", "mnist", "occupations", "diagnoses"), 3),
    "tables": (("adult", "criteo", "mnist"), 3),
    "priors": (("digits", "mnist"), 3),
}


@dataclass(frozen=True)
class Job:
    """One release of the labels of a table, and all that learns from it; without privacy at infinite epsilon."""

    part: str
    data: str
    epsilon: float
    mechanism: str
    draw: int


@dataclass(frozen=True)
class Found:
    """Probabilities of the classes of all rows held out, what was spent, and the radius of the ball."""

    learner: str
    probabilities: np.ndarray
    epsilon: float
    radius: float = math.nan


Fit = Callable[[Data, Job], Iterator[Found]]


def rows_of(job: Job, data: Data) -> Iterator[dict[str, object]]:
    """A row of results for each learner; the only place where true test labels are read."""
    place = {label: i for i, label in enumerate(data.space.points)}
    truth = np.array([place[label] for label in data.test_labels])
    for found in MECHANISMS[job.part].get(job.mechanism, public)(data, job):
        right = found.probabilities[np.arange(len(truth)), truth]
        yield {
            "learner": found.learner,
            "rows": len(data.labels),
            "columns": data.features.shape[1],
            "classes": data.space.size,
            "radius": "" if math.isnan(found.radius) else f"{found.radius:.4g}",
            "certified_epsilon": found.epsilon,
            "loss": f"{-np.log(np.maximum(right, SURE)).mean():.5g}",
            "accuracy": f"{np.mean(found.probabilities.argmax(axis=1) == truth):.5g}",
        }


def convex(data: Data, release: Release, learner: str, **settings: object) -> Found:
    """A convex learner from a release."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewRowsWarning)
        model = ConvexClassifier(**settings).fit(data.features, release)
    spent = math.inf if release.is_public else release.guarantee.epsilon
    return Found(learner, model.predict_proba(data.test_features), spent, model.region_.radius)


def ball(data: Data, share: float) -> Ball:
    """A ball in which a row of usual length has scores of at most ten times the share, all scores together."""
    squares = data.features.multiply(data.features) if sp.issparse(data.features) else data.features**2
    return Ball(share * 10.0 / math.sqrt(float(squares.sum(axis=1).mean())))


def public(data: Data, _: Job) -> Iterator[Found]:
    """Without privacy: convex learning, how often each class occurs, and what is optimal."""
    release = Release.public(data.labels, data.space)
    yield convex(data, release, AUTO, passes=5)
    yield convex(data, release, DECLARED, region=ball(data, SHARE))
    counts = np.bincount(release.codes, minlength=data.space.size) + 1.0
    yield Found("shares", np.tile(counts / counts.sum(), (len(data.test_labels), 1)), math.inf)
    model = LogisticRegression(max_iter=3000, tol=1e-4).fit(data.features, release.codes)
    chances = np.zeros((len(data.test_labels), data.space.size))
    chances[:, model.classes_] = model.predict_proba(data.test_features)
    yield Found("optimum", chances, math.inf)


def local(name: str) -> Fit:
    """Every mechanism of released labels, with a ball that is chosen and one that is not."""

    def fit(data: Data, job: Job) -> Iterator[Found]:
        curator = Curator(data.labels, data.space, budget=job.epsilon)
        release = curator.randomize(SETS[name](data.space, job.epsilon))
        yield convex(data, release, AUTO, passes=5)
        yield convex(data, release, DECLARED, region=ball(data, SHARE))
        if name == "subset":
            yield likelihood(data, release)

    return fit


def told(delta: float) -> Fit:
    """Gradients that a curator tells; they are of use at one place, so no ball can be chosen by them."""

    def fit(data: Data, job: Job) -> Iterator[Found]:
        curator = Curator(data.labels, data.space, budget=(job.epsilon, delta))
        model = ConvexClassifier(region=ball(data, SHARE))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FewRowsWarning)
            fit_interactively(model, data.features, curator, epsilon=job.epsilon, delta=delta)
        spent = model.answer_.guarantee.epsilon
        yield Found(DECLARED, model.predict_proba(data.test_features), spent, model.region_.radius)

    return fit


def settings(data: Data, job: Job) -> Iterator[Found]:
    """Steps, passes, means and balls, from one release; beside likelihood from the same."""
    curator = Curator(data.labels, data.space, budget=job.epsilon)
    release = curator.randomize(RANDOMIZERS["subset"](data.space, job.epsilon))
    for steps in ("bound", "adaptive"):
        for passes in (1, 5, 20) if job.draw == 0 else (1, 5):  # the last takes longest, and says little
            yield convex(data, release, f"{steps}, {passes}", steps=steps, passes=passes)
    yield convex(data, release, "bound, 5, last point", passes=5, average=False)
    yield convex(data, release, "bound, 1, last point", average=False)
    yield convex(data, release, "chua", steps="chua", project=False)
    yield convex(data, release, "ghazi, last point", steps="ghazi", average=False)
    for share in SHARES:
        yield convex(data, release, f"bound, 5, ball x {share:g}", region=ball(data, share), passes=5)
    yield likelihood(data, release)


def likelihood(data: Data, release: Release) -> Found:
    """Maximum likelihood under the law of the release, its penalty chosen by held-out released labels."""
    model = SoftmaxRegression(l2="auto").fit(data.features, release)
    return Found("likelihood", model.predict_proba(data.test_features), release.guarantee.epsilon)


def central(data: Data, job: Job) -> Iterator[Found]:
    """A trusted curator's noisy sums of features by class: noise goes with the longest row, so long ones are cut."""
    parts = [np.hstack([part, np.ones((len(part), 1))]) for part in (data.features, data.test_features)]
    cut = float(np.quantile(np.linalg.norm(parts[0], axis=1), KEPT))
    for learner, norm in (("moments", None), ("moments, long rows cut", cut)):
        curator = Curator(data.labels, data.space, budget=(job.epsilon, DELTA))
        answer = curator.answer(LabelMoments(data.space, job.epsilon, DELTA, parts[0], norm=norm))
        model = MomentClassifier().fit(parts[0], answer)
        yield Found(learner, model.predict_proba(parts[1]), answer.guarantee.epsilon)


def informed(data: Data, job: Job) -> Iterator[Found]:
    """Corollary 10: a fifth of the rows makes the prior of the others, whose candidates respond; no row twice."""
    order = np.random.default_rng(job.draw).permutation(len(data.labels))
    first, rest = np.split(order, [int(PRIOR_SHARE * len(order))])
    before, after = (replace(data, features=data.features[part], labels=data.labels[part]) for part in (first, rest))
    curator = Curator(before.labels, data.space, budget=job.epsilon)
    model = SoftmaxRegression(l2="auto").fit(
        before.features, curator.randomize(RANDOMIZERS["subset"](data.space, job.epsilon))
    )
    yield Found("prior alone", model.predict_proba(data.test_features), job.epsilon)
    prior = model.predict_proba(after.features).astype(np.float64)
    prior /= prior.sum(axis=1, keepdims=True)
    for count in CANDIDATES:
        curator = Curator(after.labels, data.space, budget=job.epsilon)
        release = curator.randomize(TopKResponse(data.space, job.epsilon, prior, count))
        yield convex(after, release, f"{count} candidates", passes=5)
    for name in ("response", "subset"):
        curator = Curator(data.labels, data.space, budget=job.epsilon)
        yield convex(data, curator.randomize(RANDOMIZERS[name](data.space, job.epsilon)), name, passes=5)


SETS = RANDOMIZERS | {"subset, training size": SubsetResponse}
del SETS["subset, Appendix A"]
MECHANISMS: dict[str, dict[str, Fit]] = {
    "softmax": {name: local(name) for name in SETS} | {"normal": told(DELTA), "vector": told(0.0)},
    "tables": {"subset": settings, "central": central},
    "priors": {"prior": informed},
}
