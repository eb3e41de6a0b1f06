"""One positive row in a hundred, several rows a person: ranking, log loss and mean of three learners.

rare_rows.md has the protocol and what the results show.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
import xgboost
from _study import Cell, Experiment, Given, Row, Spot, Study, main, shown, table
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from labeldp import Classes, Curator, Release
from labeldp.learning.boosting import (
    leaf_information,
    lightgbm_dataset,
    lightgbm_metric,
    lightgbm_objective,
    start_scores,
    xgboost_metric,
    xgboost_objective,
)
from labeldp.learning.sklearn import AutoClassifier

SPACE = Classes(["no", "yes"])
#: Rows of each size.
SIZES = {"20k": 20_000, "100k": 100_000, "1000k": 1_000_000}
OF_PERSON, TEST_ROWS, ROUNDS, PATIENCE = 4, 200_000, 200, 50
MEASURED = {"area": ".3f", "log_loss": ".4f", "mean": ".2f"}


def drawn(rows: int, chance: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Features of rows, and the probability of a positive label, 1.0 % in the mean."""
    features = chance.normal(size=(rows, 4))
    return features, expit(-6.3 + 1.2 * features[:, 0] + np.abs(features[:, 1]))


def by_default(features: np.ndarray, release: Release, test: np.ndarray) -> np.ndarray:
    """Probabilities of test rows by the default learner."""
    model = AutoClassifier().fit(features, release, groups=np.arange(len(features)) // OF_PERSON)
    return model.predict_proba(test)[:, 1]


def by_lightgbm(features: np.ndarray, release: Release, test: np.ndarray) -> np.ndarray:
    """The same as the guide has it of LightGBM."""
    fit, held = halves(len(features))
    start, least = start_scores(release), leaf_information(release[fit])
    data = lightgbm_dataset(features[fit], release[fit], start=start)
    leaves = {"num_leaves": 8, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": least, "lambda_l2": least}
    model = lightgbm.train(
        {"objective": lightgbm_objective(release[fit]), "metric": "None", "verbose": -1, "num_threads": 1, **leaves},
        data,
        num_boost_round=ROUNDS,
        valid_sets=[lightgbm_dataset(features[held], release[held], start=start, reference=data)],
        feval=lightgbm_metric(release[held]),
        callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
    )
    moved = start_scores(release, model.predict(features, raw_score=True))
    return expit(model.predict(test, raw_score=True) + moved)


def by_xgboost(features: np.ndarray, release: Release, test: np.ndarray) -> np.ndarray:
    """The same as the guide has it of XGBoost."""
    fit, held = halves(len(features))
    start, least = start_scores(release), leaf_information(release[fit])
    rows = [
        xgboost.DMatrix(
            features[part], label=np.zeros(len(release[part])), base_margin=np.full(len(release[part]), start)
        )
        for part in (fit, held)
    ]
    model = xgboost.train(
        {
            "base_score": 0.0,
            "max_depth": 3,
            "min_child_weight": least,
            "lambda": least,
            "disable_default_eval_metric": True,
            "nthread": 1,
        },
        rows[0],
        num_boost_round=ROUNDS,
        obj=xgboost_objective(release[fit]),
        evals=[(rows[1], "held")],
        custom_metric=xgboost_metric(release[held]),
        early_stopping_rounds=PATIENCE,
        verbose_eval=False,
    )
    own, new = (
        model.predict(xgboost.DMatrix(part), output_margin=True, iteration_range=(0, model.best_iteration + 1))
        for part in (features, test)
    )
    return expit(new + start_scores(release, own))


LEARNERS: dict[str, Callable[[np.ndarray, Release, np.ndarray], np.ndarray]] = {
    "default": by_default,
    "LightGBM": by_lightgbm,
    "XGBoost": by_xgboost,
}


def halves(rows: int) -> tuple[slice, slice]:
    """Four fifths of the persons, and the others."""
    cut = rows // OF_PERSON * 4 // 5 * OF_PERSON
    return slice(0, cut), slice(cut, rows)


def cells(given: Given) -> Iterator[Cell]:
    """Each size, over epsilon of a person."""
    for name in given.data:
        for epsilon in given.epsilons:
            yield Cell({"data": name, "epsilon": epsilon})


def run(_: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """One release of all labels of each person, and the scores of each learner beside those of the true odds."""
    chance, rows = np.random.default_rng(draw), SIZES[cell["data"]]
    features, rate = drawn(rows, chance)
    labels = np.array(SPACE.points)[(chance.random(rows) < rate).astype(int)]
    release = Curator(labels, SPACE, units=np.arange(rows) // OF_PERSON).randomize(epsilon=cell["epsilon"])
    test, true = drawn(TEST_ROWS, chance)
    positive = chance.random(TEST_ROWS) < true
    predicted = {name: learner(features, release, test) for name, learner in LEARNERS.items()}
    predicted |= {"constant": np.full(TEST_ROWS, true.mean()), "true odds": true}
    for name, found in predicted.items():
        yield {
            "learner": name,
            "area": round(float(roc_auc_score(positive, found)), 4),
            "log_loss": round(-float(np.mean(true * np.log(found) + (1.0 - true) * np.log1p(-found))), 5),
            "mean": round(float(found.mean() / true.mean()), 4),
        }


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """All measures of each learner, with standard deviations of draws."""
    rows, lines = frames["rare_rows"], []
    for (name, epsilon, learner), part in rows.groupby(["data", "epsilon", "learner"], sort=False):
        found = [shown(part[column], form) for column, form in MEASURED.items()]
        lines.append([f"{SIZES[name]:,}", f"{epsilon:g}", learner, *found])
    title = "Area under the curve, log loss and mean prediction over the true rate, with standard deviations of draws:"
    return ["", title, "", *table(["rows", "epsilon of a person", "learner", *MEASURED], lines)]


STUDY = Study(
    name="rare_rows",
    recipe="1",
    key=("data", "epsilon"),
    columns=("data", "epsilon", "draw", "learner", *MEASURED, "seconds"),
    cells=cells,
    run=run,
    spots=(Spot(Cell({"data": "20k", "epsilon": 16.0}), "area", where={"learner": "LightGBM"}, draws=1, least=0.05),),
)
EXPERIMENT = Experiment(
    name="rare_rows",
    question="Are rare labels of many rows ranked, and predicted as often as they are?",
    studies=(STUDY,),
    page=page,
    draws=5,
    tables=tuple(SIZES),
    bundled=tuple(SIZES),
    epsilons=(4.0, 8.0),
)

if __name__ == "__main__":
    main(EXPERIMENT)
