"""A second stage of subsets, and a round of consensus, on top of the default classifier of images.

image_stages.md has the protocol and what the results show.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from _study import Cell, Experiment, Given, Row, Study, main, shown, table
from patches import SPACE, features_of, mirrored, rows_of

from labeldp import Curator, Release
from labeldp.learning.heads import softmax
from labeldp.learning.images import PatchClassifier, likeliest_features
from labeldp.learning.sklearn import ProbabilityClassifier
from labeldp.learning.stages import MultiStage

BUNDLED = ("digits",)
TABLES = (*BUNDLED, "fashion-mnist", "kmnist", "mnist")
#: Shares of the rows in the first stage.
SHARES = (1.0, 0.5)


def cells(given: Given) -> Iterator[Cell]:
    """Each table, over epsilon, in one stage and in two."""
    for name in given.data:
        for epsilon in given.epsilons:
            for share in SHARES:
                yield Cell({"data": name, "epsilon": epsilon, "share": share})


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """One release in stages, and the accuracy of the classifier before and after a round of consensus."""
    del draw  # releases differ by their own chance
    data, _, features = features_of(given.folder, cell["data"], given.rows)
    shares = (cell["share"], 1.0 - cell["share"])[: 1 if cell["share"] == 1.0 else 2]

    class Numbered(ProbabilityClassifier):
        """The classifier of patches, of rows that are named by their number: their features were computed before."""

        def fit(self, X: Any, y: Release) -> Self:  # noqa: N803 (scikit-learn's name)
            self._set_classes(y.space)
            self.place_ = likeliest_features([fit[np.ravel(X)] for fit, _ in features], y)
            self.rows_ = rows_of(given.folder, cell["data"], given.rows, self.place_)
            self.head_ = PatchClassifier().fit_head(self.rows_.take(np.ravel(X)), y)
            return self

        def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
            head = self.head_
            return softmax(self.rows_.features[np.ravel(X)] @ head.coef_.T + head.intercept_)

        def right(self) -> float:
            """Accuracy on the images held out."""
            predicted = self.head_.predict_features(features[self.place_][1])
            return round(100 * float((predicted == data.test_labels).mean()), 3)

    rows = np.arange(len(data.labels))[:, None]
    stages = MultiStage(
        Numbered(), cell["epsilon"], stages=len(shares), shares=shares, response="subset", warm_start=False
    ).fit(rows, Curator(data.labels, SPACE))
    model, release = stages.learner_, stages.release_
    codes = model.predict_proba(rows).argmax(axis=1)
    agree = np.flatnonzero(release.class_channel.levels(release.codes).mask[np.arange(len(codes)), codes])
    again = Numbered().fit(rows[agree], Release.public(np.array(SPACE.points)[codes[agree]], SPACE))
    yield {
        "rows": len(rows),
        "mirrored": int(mirrored(data)[model.place_]),
        "candidates": round(stages.stages_[-1].candidates, 2),
        "accuracy": model.right(),
        "agreeing": len(agree),
        "consensus": again.right(),
    }


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Accuracy on each table, with standard deviations of draws."""
    rows = frames["image_stages"]
    lines = ["", "Each label randomized once, alone, accuracy in % with standard deviations of draws:", ""]
    columns, body = sorted(rows["epsilon"].unique()), []
    for (name, share), part in rows.sort_values("share", ascending=False).groupby(["data", "share"], sort=False):
        for way in ("accuracy", "consensus"):
            found = part.groupby("epsilon")[way].agg(lambda each: shown(each, ".1f")).reindex(columns).fillna("")
            stages = "one stage" if share == 1.0 else f"two stages, {share:.0%} of the rows first"
            body.append([name, stages + (", consensus" if way == "consensus" else ""), part["draw"].nunique(), *found])
    body.sort(key=lambda line: line[0])
    return [*lines, *table(["data", "way", "draws", *(f"{epsilon:g}" for epsilon in columns)], body)]


STUDY = Study(
    name="image_stages",
    recipe=lambda _: "1",
    key=("data", "epsilon", "share"),
    columns=(
        "data",
        "epsilon",
        "share",
        "draw",
        "rows",
        "mirrored",
        "candidates",
        "accuracy",
        "agreeing",
        "consensus",
        "seconds",
    ),
    cells=cells,
    run=run,
)
EXPERIMENT = Experiment(
    name="image_stages",
    question="What are a second stage and a round of consensus worth on images?",
    studies=(STUDY,),
    page=page,
    draws=5,
    tables=TABLES,
    bundled=BUNDLED,
    shortened=True,
    epsilons=(0.5, 1.0, 2.0, 4.0),
)

if __name__ == "__main__":
    main(EXPERIMENT)
