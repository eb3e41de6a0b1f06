"""The default regressor on 24 public tables: against its members, the mean label and no privacy.

auto_numbers.md has the protocol and what the results show.
"""

import functools
import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main
from auto_tables import Loaded, adult, bank, by_epsilon, means_of, of_r, of_scikit_learn, readmission, table_of

from labeldp import Curator, Interval, Release
from labeldp.learning.sklearn import AutoRegressor

#: Most rows to fit on, most rows held out, and the share that is held out.
ROWS, TEST_ROWS, SHARE = 3_000, 4_000, 1 / 3
FAMILIES = ("linear", "kernels", "boosting", "clusters")
MEMBERS = (*FAMILIES, "mean")


def column_of(load: Callable[[Path], Loaded], name: str, without: tuple[str, ...], folder: Path) -> Loaded:
    """A column of a table of classes as the label; its class becomes a feature."""
    features, labels = load(folder)
    return features.drop(columns=[name, *without]).assign(label=labels), features[name].to_numpy()


def claims(folder: Path) -> Loaded:
    """freMTPL2: the cost of those motor policies that had a claim."""
    path = folder / "fremtpl2"
    costs = pd.read_parquet(path / "freMTPL2sev.parquet").groupby("IDpol")["ClaimAmount"].sum()
    frame = pd.read_parquet(path / "freMTPL2freq.parquet").merge(costs.rename("cost").reset_index(), on="IDpol")
    return frame.drop(columns=["IDpol", "cost"]), frame["cost"].to_numpy()


#: The tables of R: their name there, the label, columns that are left out, and the declared range and step.
OF_R = {
    "diamonds": ("diamonds", "price", (), (0, 20_000, 10)),
    "wages": ("SLID", "wages", (), (0, 50, 0.5)),
    "vocabulary": ("Vocab", "vocabulary", (), (0, 10, 1)),
    "visits": ("rwm5yr", "docvis", ("id",), (0, 50, 1)),
    "movies": ("movies", "rating", ("title", *(f"r{place}" for place in range(1, 11))), (1, 10, 0.1)),
    "computers": ("Computers", "price", (), (0, 6_000, 10)),
    "houses": ("Housing", "price", (), (0, 200_000, 1_000)),
    "boston": ("Boston", "medv", (), (0, 50, 0.5)),
    "mathematics": ("Star", "tmathssk", (), (300, 650, 1)),
    "work week": ("HI", "whrswk", (), (0, 100, 1)),
    "food": ("BudgetFood", "wfood", (), (0, 1, 0.01)),
    "physicians": ("OFP", "ofp", (), (0, 60, 1)),
    "language": ("nlschools", "lang", (), (0, 60, 1)),
    "earnings": ("PSID", "earnings", ("intnum", "persnum"), (0, 100_000, 100)),
    "procedure": ("azpro", "los", (), (0, 60, 1)),
    "lecturers": ("InstEval", "y", (), (1, 5, 1)),
    "log wages": ("Males", "wage", ("nr",), (0, 4, 0.05)),
    "yearly hours": ("Workinghours", "hours", (), (0, 5_000, 10)),
}
BUNDLED = ("progression",)
LOADED: dict[str, tuple[Callable[[Path], Loaded], tuple[float, float, float]]] = {
    "progression": (functools.partial(of_scikit_learn, "diabetes"), (0, 350, 1)),
    "age": (functools.partial(column_of, adult, "age", ()), (17, 90, 1)),
    "hours": (functools.partial(column_of, adult, "hours", ()), (0, 100, 1)),
    "balance": (functools.partial(column_of, bank, "balance", ()), (-1_000, 10_000, 10)),
    "claims": (claims, (0, 10_000, 10)),
    "stay": (functools.partial(column_of, readmission, "time_in_hospital", ()), (1, 14, 1)),
    **{name: (functools.partial(of_r, *facts[:3]), facts[3]) for name, facts in OF_R.items()},
}


@functools.cache
def loaded(folder: str | None, name: str) -> tuple[pd.DataFrame, np.ndarray, Interval]:
    """Features, labels within the declared range, and the range; without columns of one value."""
    load, ends = LOADED[name]
    features, labels = load(Path() if name in BUNDLED else data_folder(Given(folder=folder)))
    features = features.reset_index(drop=True)
    kept = [column for column in features if features[column].astype(str).nunique() > 1]
    return features[kept], np.clip(labels.astype(float), ends[0], ends[1]), Interval(*ends)


def cells(given: Given) -> Iterator[Cell]:
    """Each table, over epsilon."""
    for name in given.data:
        for epsilon in (*given.epsilons, math.inf):
            yield Cell({"data": name, "epsilon": epsilon})


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """One release by the default mechanism, and the scores of the regressor and of each member on rows held out."""
    features, labels, space = loaded(given.folder, cell["data"])
    order = np.random.default_rng(100 + draw).permutation(len(labels))
    held = min(int(len(labels) * SHARE), TEST_ROWS)
    test, fit = order[:held], order[held : held + ROWS]
    release = (
        Release.public(labels[fit], space)
        if math.isinf(cell["epsilon"])
        else Curator(labels[fit], space).randomize(epsilon=cell["epsilon"])
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoRegressor().fit(features.iloc[fit].reset_index(drop=True), release)
        rows = model.frame(features.iloc[test])
        predicted = {name: member.predict(rows) for name, member in model.members_.items()}
        predicted["auto"] = model.predict(rows)
    predicted["mean"] = np.full(held, model.mean_)
    weights = model.weights_ | {"mean": 1.0 - sum(model.weights_.values())}
    for name, numbers in predicted.items():
        squares = float(((np.clip(numbers, *model.range_) - labels[test]) ** 2).mean())
        yield {
            "learner": name,
            "rows": len(fit),
            "weight": round(weights.get(name, math.nan), 3),
            "rmse": float(f"{math.sqrt(squares):.5g}"),
            "explained": round(100 * (1 - squares / float(labels[test].var())), 3),
        }


def regrets(rows: pd.DataFrame, among: tuple[str, ...] = MEMBERS) -> pd.DataFrame:
    """What each learner loses against the best member in hindsight of each table and epsilon, means of draws."""
    means = rows.pivot_table(index=["data", "epsilon"], columns="learner", values="explained")
    return -means[["auto", *MEMBERS]].sub(means[list(among)].max(axis=1), axis=0)


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Means over tables by epsilon, regrets, how often predictions are worse than the mean, and the regressor's own."""
    rows = frames["auto_numbers"]
    old = set(rows.loc[rows["stale"], "epsilon"])
    noisy = rows[np.isfinite(rows["epsilon"])]
    means = means_of(rows, "explained", ("auto", *MEMBERS))
    lines = [
        "",
        "Mean over tables of the explained share of the variance of labels, %:",
        "",
        *table_of(means, ".1f", old),
    ]
    lost = by_epsilon(regrets(noisy))
    lost.insert(0, "auto to families", by_epsilon(regrets(noisy, FAMILIES))["auto"])
    named = "Regret to the best of families and the mean label in hindsight, and of auto to the best family"
    lines += ["", f"{named}, in these per cent:", "", *table_of(lost, ".2f", old)]
    single = noisy.pivot_table(index=["data", "epsilon", "draw"], columns="learner", values="explained")
    below = single[["auto", *FAMILIES]].sub(single["mean"], axis=0)
    often = 100 * (below < -1.0).groupby("epsilon").mean()
    lines += ["", "Tables and draws on which the mean label is better by more than one per cent, %:", ""]
    lines += table_of(often, ".1f", old)
    each = rows[rows["learner"] == "auto"].pivot_table(index="data", columns="epsilon", values="explained")
    return [*lines, "", "Explained by the default regressor, %, means of draws:", "", *table_of(each, ".1f", old)]


STUDY = Study(
    name="auto_numbers",
    recipe="4",
    key=("data", "epsilon"),
    columns=("data", "epsilon", "draw", "learner", "rows", "weight", "rmse", "explained", "seconds"),
    cells=cells,
    run=run,
    spots=(
        Spot(
            Cell({"data": "progression", "epsilon": 8.0}),
            "explained",
            where={"learner": "auto"},
            draws=2,
            least=20.0,
        ),
    ),
)
EXPERIMENT = Experiment(
    name="auto_numbers",
    question="How good is the default regressor, beside its members in hindsight?",
    studies=(STUDY,),
    page=page,
    draws=5,
    tables=tuple(LOADED),
    bundled=BUNDLED,
    epsilons=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
)

if __name__ == "__main__":
    main(EXPERIMENT)
