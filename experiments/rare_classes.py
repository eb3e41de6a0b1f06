"""The area under the ROC and the log loss of models of rare classes, beside what a plan says before the release.

rare_classes.md has the protocol and what the results show.
"""

import functools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, shown, table
from auto_tables import OF_R, Loaded, adult, bank, of_r, of_scikit_learn, readmission
from sklearn.metrics import log_loss, roc_auc_score

from labeldp import Classes, Curator, Release
from labeldp.bounds.planning import TIMES_NOISE, Conventions, effective_dimension, forecast
from labeldp.learning.sklearn import AutoClassifier

ROWS, TEST_ROWS, POLICIES = 4_000, 15_000, 60_000
#: The share of the rare class: rows of it are left out until it has no more.
SHARE = 0.05
SPACE = Classes(["no", "yes"])
BUNDLED = ("breast_cancer",)


def claims(folder: Path) -> Loaded:
    """freMTPL2: did a motor policy have a claim?"""
    frame = pd.read_parquet(folder / "fremtpl2" / "freMTPL2freq.parquet").sample(POLICIES, random_state=0)
    return frame.drop(columns=["IDpol", "ClaimNb"]), (frame["ClaimNb"] > 0).to_numpy()


#: Tables and the class that is rare.
TABLES: dict[str, tuple[Callable[[Path], Loaded], str]] = {
    "adult": (adult, ">50K"),
    "bank": (bank, "yes"),
    "readmission": (readmission, "<30"),
    "claims": (claims, "True"),
    "light chain": (functools.partial(of_r, *OF_R["light chain"]), "1"),
    "breast_cancer": (functools.partial(of_scikit_learn, "breast_cancer"), "0"),
}


@functools.cache
def loaded(folder: str | None, name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Features, and whether a row is of the rare class, in an order drawn once."""
    load, chosen = TABLES[name]
    frame, labels = load(Path() if name in BUNDLED else data_folder(Given(folder=folder)))
    rare, random = np.array([str(label) == chosen for label in labels]), np.random.default_rng(0)
    some = random.permutation(np.flatnonzero(rare))[: round(SHARE / (1 - SHARE) * np.count_nonzero(~rare))]
    rows = random.permutation(np.concatenate([np.flatnonzero(~rare), some]))
    return frame.iloc[rows].reset_index(drop=True), rare[rows]


def cells(given: Given) -> Iterator[Cell]:
    """Each table without noise once, and over epsilon."""
    for name in given.data:
        yield Cell({"data": name, "epsilon": math.inf}, draws=range(1))
        for epsilon in given.epsilons:
            yield Cell({"data": name, "epsilon": epsilon})


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """One release, the default classifier on rows held out, and the forecast of that epsilon."""
    del draw  # everything is drawn afresh
    frame, rare = loaded(given.folder, cell["data"])
    rows = min(ROWS, len(rare) // 2)
    test = slice(rows, rows + TEST_ROWS)
    labels, share = np.where(rare[:rows], "yes", "no").tolist(), float(rare[:rows].mean())
    clean = math.isinf(cell["epsilon"])
    release = Release.public(labels, SPACE) if clean else Curator(labels, SPACE).randomize(epsilon=cell["epsilon"])
    predicted = AutoClassifier().fit(frame[:rows], release).predict_proba(frame[test])[:, 1]
    numbers = frame[:rows].select_dtypes("number").dropna(axis=1)
    dimension = effective_dimension(numbers.loc[:, numbers.std() > 0].corr().to_numpy()).participation
    conventions = Conventions(dimension=dimension, shares=(1 - share, share))
    planned = forecast(SPACE, rows, 1.0 if clean else cell["epsilon"], conventions=conventions, epsilons=())
    option = next(each for each in planned.options if each.auto)
    yield {
        "rows": rows,
        "share": round(share, 4),
        "dimension": round(dimension, 2),
        "effective_rows": option.effective_rows,
        "forecast": round(option.log_loss, 5),
        "area": round(100 * roc_auc_score(rare[test], predicted), 2),
        "log_loss": round(log_loss(rare[test], np.clip(predicted, 1e-9, 1)), 5),
        "constant": round(log_loss(rare[test], np.full(len(predicted), share)[: len(rare[test])]), 5),
        "mean_over_rate": round(predicted.mean() / rare[test].mean(), 3),
    }


def expected(rows: pd.DataFrame) -> pd.DataFrame:
    """The range of areas that follows from the area on true labels, and the mean area that was found, as texts.

    An area is marked where it is more than a point outside. The formula is that of forecasts (``noisy_area``).
    """
    measures, normal = ["area", "share", "dimension", "effective_rows"], NormalDist()
    facts = rows.pivot_table(index=["data", "epsilon"], values=measures).reset_index()
    clean = facts[np.isinf(facts["epsilon"])].set_index("data")["area"] / 100
    noisy = facts[np.isfinite(facts["epsilon"])].copy()
    texts = []
    for row in noisy.itertuples():
        separation = normal.inv_cdf(clean[row.data])
        noise = (row.dimension + 1) / 2 / row.effective_rows / (row.share * (1 - row.share) * separation**2)
        high, low = (100 * normal.cdf(separation / math.sqrt(1 + times * noise)) for times in TIMES_NOISE)
        mark = "" if low - 1 <= row.area <= high + 1 else ", above" if row.area > high else ", below"
        texts.append(f"{low:.1f} to {high:.1f}: {row.area:.1f}{mark}")
    return noisy.assign(text=texts).pivot_table(index="data", columns="epsilon", values="text", aggfunc="first")


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Areas, log losses and mean predictions by table and epsilon, and the multiples that a plan states."""
    rows = frames["rare_classes"]
    lines: list[str] = []
    for measure, title, form in (
        ("area", "Area under the ROC, %", ".1f"),
        ("log_loss", "Log loss, nats", ".4f"),
        ("mean_over_rate", "Mean prediction over the rate", ".2f"),
    ):
        found = rows.pivot_table(
            index=["data", "constant"],
            columns="epsilon",
            values=measure,
            aggfunc=functools.partial(shown, form=form),
            sort=False,
        )
        body = [
            [name, f"{constant:.4f}", *each]
            for (name, constant), each in zip(found.index, found.to_numpy(), strict=True)
        ]
        lines += ["", f"{title}:", "", *table(["table", "constant's log loss", *(f"{each:g}" for each in found)], body)]
    found = expected(rows)
    title = "The range of areas that a plan states, from the area on true labels, and the mean area that was found, %"
    body = [[str(name), *line] for name, line in zip(found.index, found.to_numpy(), strict=True)]
    return [*lines, "", f"{title}:", "", *table(["table", *(f"{each:g}" for each in found)], body)]


STUDY = Study(
    name="rare_classes",
    recipe="2",
    key=("data", "epsilon"),
    columns=(
        *("data", "epsilon", "draw", "rows", "share", "dimension", "effective_rows", "forecast", "area", "log_loss"),
        *("constant", "mean_over_rate", "seconds"),
    ),
    cells=cells,
    run=run,
    spots=(Spot(Cell({"data": "breast_cancer", "epsilon": 4.0}), "area", draws=2, least=10.0),),
)
EXPERIMENT = Experiment(
    name="rare_classes",
    question="What do models of rare classes reach, and what does a plan say before?",
    studies=(STUDY,),
    page=page,
    draws=3,
    tables=tuple(TABLES),
    usual=tuple(name for name in TABLES if name not in BUNDLED),
    bundled=BUNDLED,
    epsilons=(0.5, 1.0, 2.0, 4.0),
)

if __name__ == "__main__":
    main(EXPERIMENT)
