"""How much of epsilon an audit in one run shows, by rows and epsilon, and what a wrong declaration costs.

audit_power.md has the protocol and what the results show.
"""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from _study import Cell, Experiment, Given, Row, Spot, Study, main, shown, table
from exposure import SPACE, TABLES, loaded
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from labeldp import Classes, Curator, LabelMoments, RandomizedResponse
from labeldp.audit import Audit, ObservedPairs, PlantedPairs, audit_pipeline

DELTA = 1e-7
#: Tables without columns, by their numbers of rows.
MADE = {"rows_1e3": 1_000, "rows_1e4": 10_000, "rows_1e5": 100_000, "rows_1e6": 1_000_000}
#: Assumptions on noise by the name of their audit.
NOISE = {"moments": "any", "moments, gaussian": "gaussian", "moments, separate gaussian": "separate gaussian"}
NOTHING = "nothing released"


def released_labels(epsilon: float, space: Classes = SPACE) -> Callable[[list[Any]], np.ndarray]:
    """A pipeline that releases labels by randomized response."""
    return lambda labels: Curator(labels, space).randomize(RandomizedResponse(space, epsilon)).codes


def sums(epsilon: float, features: Any) -> Callable[[list[Any]], np.ndarray]:
    """A pipeline that releases label moments."""
    return lambda labels: np.asarray(Curator(labels, SPACE).answer(LabelMoments(SPACE, epsilon, DELTA, features)).value)


def of_labels(rows: int, epsilon: float) -> Audit:
    """Released labels, each of them a canary."""
    planted = PlantedPairs(["no"] * rows, SPACE, range(rows))
    return audit_pipeline(released_labels(epsilon), planted, lambda codes: 1.0 - 2.0 * codes, epsilon)


def of_moments(rows: int, epsilon: float, noise: Any) -> Audit:
    """Label moments in which each row has a feature of its own."""
    planted, features = PlantedPairs(["no"] * rows, SPACE, range(rows)), sp.eye_array(rows, format="csr")
    return audit_pipeline(
        sums(epsilon, features), planted, lambda found: found[:, 0] - found[:, 1], epsilon, delta=DELTA, noise=noise
    )


def of_head(points: np.ndarray, epsilon: float) -> Audit:
    """The predictions, on all rows, of a ridge model that is fitted to label moments."""
    columns = np.nan_to_num((points - np.nanmean(points, axis=0)) / (np.nanstd(points, axis=0) + 1e-9))
    features = np.column_stack([np.ones(len(columns)), np.clip(columns, -3, 3)])
    inverse = np.linalg.inv(features.T @ features + np.eye(features.shape[1]))
    planted = PlantedPairs(["no"] * len(points), SPACE, range(len(points)))

    def margins(found: np.ndarray) -> np.ndarray:
        scores = features @ (inverse @ (found[:, 0] - found[:, 1]))
        return np.asarray(scores - np.median(scores))

    return audit_pipeline(sums(epsilon, features), planted, margins, epsilon, delta=DELTA)


def of_observed(law: np.ndarray, labels: list[str], epsilon: float) -> Audit:
    """Released labels, none of them planted, beside labels drawn from a distribution."""
    observed = ObservedPairs(labels, SPACE, range(len(labels)), law)
    first = np.array([pair[0] == "yes" for pair in observed.pairs])
    return audit_pipeline(
        released_labels(epsilon),
        observed,
        lambda codes: np.where(codes[observed.canaries] == first, 1.0, -1.0),
        epsilon,
    )


def of_nothing(law: np.ndarray, better: np.ndarray, labels: list[str]) -> Audit:
    """No release: true labels are told from labels drawn from a declared law by a better model of the columns alone."""
    observed = ObservedPairs(labels, SPACE, range(len(labels)), law)
    first = np.array([pair[0] == "yes" for pair in observed.pairs])
    gain = np.log(better[:, 1] / better[:, 0]) - np.log(law[:, 1] / law[:, 0])
    scores = np.where(first, 1.0, -1.0) * gain[observed.canaries]
    return audit_pipeline(lambda _: None, observed, lambda _: scores, 1.0)


@functools.cache
def laws(folder: str | None, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Class probabilities of each row by trees of other rows: few and shallow ones, and many."""
    points, labels = loaded(folder, name)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    few, many = (
        cross_val_predict(model, points, np.asarray(labels), cv=folds, method="predict_proba")
        for model in (HistGradientBoostingClassifier(max_iter=20, max_depth=2), HistGradientBoostingClassifier())
    )
    return np.clip(few, 1e-6, 1 - 1e-6), np.clip(many, 1e-6, 1 - 1e-6)


def cells(given: Given) -> Iterator[Cell]:
    """The audits of each table over epsilon."""
    for name in given.data:
        audits = ("labels", *NOISE) if name in MADE else ("labels", "observed", "ridge")
        for epsilon in given.epsilons:
            for audit in audits:
                yield Cell({"data": name, "audit": audit, "epsilon": epsilon})
        if name not in MADE:
            yield Cell({"data": name, "audit": NOTHING, "epsilon": 0.0})


def audited(given: Given, name: str, audit: str, epsilon: float) -> Audit:
    """One audit."""
    if audit in NOISE:
        return of_moments(MADE[name], epsilon, NOISE[audit])
    if name in MADE:
        return of_labels(MADE[name], epsilon)
    points, labels = loaded(given.folder, name)
    if audit == "labels":
        return of_labels(len(labels), epsilon)
    if audit == "ridge":
        return of_head(points, epsilon)
    law, better = laws(given.folder, name)
    return of_nothing(law, better, labels) if audit == NOTHING else of_observed(law, labels, epsilon)


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """One run of one pipeline."""
    del draw  # everything is drawn afresh
    found = audited(given, cell["data"], cell["audit"], cell["epsilon"])
    yield {"canaries": found.draws, "shown": round(found.lower, 4)}


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """The shown part of epsilon by table and audit, with standard deviations of draws."""
    rows = frames["audit_power"]
    lines: list[str] = []
    for title, part in (
        ("Lower bound on epsilon", rows[rows["audit"] != NOTHING]),
        ("Lower bound on the epsilon of no release, by a distribution that is wrong", rows[rows["audit"] == NOTHING]),
    ):
        found = part.pivot_table(
            index=["data", "audit"],
            columns="epsilon",
            values="shown",
            aggfunc=functools.partial(shown, form=".2f"),
            sort=False,
        )
        body = [[*index, *values] for index, values in zip(found.index, found.to_numpy(), strict=True)]
        lines += ["", f"{title}:", "", *table(["table", "audit", *(f"{each:g}" for each in found)], body)]
    return lines


STUDY = Study(
    name="audit_power",
    recipe="1",
    key=("data", "audit", "epsilon"),
    columns=("data", "audit", "epsilon", "draw", "canaries", "shown", "seconds"),
    cells=cells,
    run=run,
    spots=(Spot(Cell({"data": "rows_1e4", "audit": "labels", "epsilon": 4.0}), "shown", draws=2, least=0.5),),
)
EXPERIMENT = Experiment(
    name="audit_power",
    question="How much of epsilon does an audit in one run show?",
    studies=(STUDY,),
    page=page,
    draws=5,
    tables=(*MADE, *TABLES),
    bundled=(*MADE, "breast_cancer"),
    epsilons=(0.5, 1.0, 2.0, 4.0, 8.0),
)

if __name__ == "__main__":
    main(EXPERIMENT)
