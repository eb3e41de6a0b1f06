"""What calibration by released labels does to class probabilities: slope, bias and log loss on true labels of Adult.

calibrated.md has the protocol and what the results show.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _data import adult
from _study import Cell, Experiment, Given, Row, Spot, Study, data_folder, main, pivot
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from labeldp import Curator, RandomizedResponse
from labeldp.learning.sklearn import CalibratedClassifier, ReleasedLabelClassifier

ROWS = 6000
LEARNERS: dict[str, Callable[[], Any]] = {
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=50, early_stopping=False, random_state=0),
    "forest": lambda: RandomForestClassifier(100, min_samples_leaf=5, random_state=0),
    "logistic regression": lambda: LogisticRegression(max_iter=1000),
}
KEY = ("learner", "epsilon")
TITLES = {
    "Log loss on true labels": "log_loss",
    "Mean predicted minus true share": "bias",
    "Slope of true labels on predicted log odds": "slope",
    "Accuracy": "accuracy",
}


def cells(given: Given) -> Iterator[Cell]:
    """Each learner at each epsilon."""
    for learner in LEARNERS:
        for epsilon in given.epsilons:
            yield Cell({"learner": learner, "epsilon": epsilon})


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """A row for the learner by expectation maximisation alone, and one with calibration."""
    data = adult(data_folder(given))
    trees = cell["learner"] != "logistic regression"
    train, test = data.columns if trees else (data.features, data.test_features)
    rows = np.random.default_rng(draw).permutation(len(train))[:ROWS]
    curator = Curator(data.labels[rows], data.space, budget=cell["epsilon"])
    release = curator.randomize(RandomizedResponse(data.space, cell["epsilon"]))
    learner = ReleasedLabelClassifier(LEARNERS[cell["learner"]]())
    model = CalibratedClassifier(learner).fit(train[rows], release)
    truth = data.test_labels == data.space.points[1]
    for calibrated, found in ((0, model.estimator_), (1, model)):
        chance = np.clip(found.predict_proba(test)[:, 1], 1e-6, 1 - 1e-6)
        score = np.log(chance / (1 - chance))
        line = LogisticRegression(C=np.inf).fit(score[:, None], truth) if np.ptp(score) > 0 else None
        yield {
            "calibrated": calibrated,
            "log_loss": round(float(-np.log(np.where(truth, chance, 1 - chance)).mean()), 5),
            "bias": round(float(chance.mean() - truth.mean()), 5),
            "slope": "" if line is None else round(float(line.coef_[0, 0]), 4),
            "accuracy": round(float(((chance > 0.5) == truth).mean()), 5),
        }


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Log loss, bias and slope, before and after."""
    text = []
    for name, what in TITLES.items():
        rows = frames["calibrated"].dropna(subset=[what])
        text += ["", f"## {name}", "", *pivot(rows, ["learner", "calibrated"], what)]
    return text


STUDY = Study(
    name="calibrated",
    recipe="1",
    key=KEY,
    columns=(*KEY, "draw", "calibrated", "log_loss", "bias", "slope", "accuracy", "seconds"),
    cells=cells,
    run=run,
    spots=(Spot(Cell({"learner": "logistic regression", "epsilon": 1.0}), "log_loss", {"calibrated": 1}),),
)
EXPERIMENT = Experiment(
    name="calibrated",
    question="What does calibration by released labels do to class probabilities?",
    studies=(STUDY,),
    page=page,
    epsilons=(0.3, 1.0, 3.0),
)

if __name__ == "__main__":
    main(EXPERIMENT)
