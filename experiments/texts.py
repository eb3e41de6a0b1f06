"""Free texts with private labels: what the default learner reads in their words, over epsilon, on four tables.

texts.md has the protocol and what the results show.
"""

import argparse
import functools
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from _study import Cell, Experiment, Given, Row, Study, main, shown, table
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from labeldp import Classes, Curator, Release
from labeldp.learning.sklearn import AutoClassifier

TABLES = {
    "movies": "movieReviewSnippets",
    "products": "amazonReviewSnippets",
    "editorials": "nytEditorialSnippets",
    "tweets": "tweets",
}
SPACE = Classes(["negative", "positive"])
WAYS = ("default", "as if true")
#: What is measured of each way, and how it is written.
MEASURED = {f"{way}{more}": form for way in WAYS for more, form in (("", ".1f"), (" log loss", ".3f"))}


@functools.cache
def loaded(folder: Path, name: str) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Texts and classes of the rows to learn from, and of a fourth that is held out."""
    lines = (folder / f"{TABLES[name]}_GroundTruth.txt").read_text(encoding="utf-8", errors="replace").splitlines()
    rows = [line.split("\t") for line in lines]
    texts, labels = np.array([row[2] for row in rows]), np.array([SPACE.points[float(row[1]) > 0] for row in rows])
    order = np.random.default_rng(0).permutation(len(rows))
    held, fit = np.split(order, [len(order) // 4])
    return (texts[fit], labels[fit]), (texts[held], labels[held])


def cells(given: Given) -> Iterator[Cell]:
    """Each table, over epsilon; without privacy once."""
    for name in given.data:
        for epsilon in given.epsilons:
            yield Cell({"data": name, "epsilon": epsilon})
        yield Cell({"data": name, "epsilon": math.inf}, draws=range(1))


def run(given: Given, cell: Cell, _: int) -> Iterator[Row]:
    """One release, and the accuracy of each way on the rows held out."""
    (texts, labels), (test, truth) = loaded(given.texts, cell["data"])
    release = (
        Release.public(labels, SPACE)
        if math.isinf(cell["epsilon"])
        else Curator(labels, SPACE).randomize(epsilon=cell["epsilon"])
    )
    plain = make_pipeline(
        TfidfVectorizer(sublinear_tf=True, min_df=2, ngram_range=(1, 2)),
        GridSearchCV(LogisticRegression(max_iter=1000), {"C": [0.03, 0.3, 3.0]}),
    )
    default = AutoClassifier().fit(pd.DataFrame({"text": texts}), release)
    plain.fit(texts, np.array(SPACE.points)[release.codes])
    found = {
        "default": default.predict_proba(pd.DataFrame({"text": test})),
        "as if true": plain.predict_proba(test),
    }
    common = float(np.mean(truth == max(SPACE.points, key=list(labels).count)))
    right = np.searchsorted(SPACE.points, truth)
    yield {"rows": len(labels), "held": len(truth), "common": round(100 * common, 2)} | {
        name: value for way, each in found.items() for name, value in scores(way, each, right)
    }


def scores(way: str, chances: np.ndarray, right: np.ndarray) -> Iterator[tuple[str, float]]:
    """Accuracy in % and log loss of probabilities, by the true class of each row."""
    yield way, round(100 * float(np.mean(chances.argmax(axis=1) == right)), 2)
    yield f"{way} log loss", round(-float(np.log(chances[np.arange(len(right)), right]).mean()), 4)


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Accuracy on each table, with standard deviations of draws."""
    rows, body = frames["texts"], []
    columns = sorted(rows["epsilon"].unique())
    for (name, count, common), part in rows.groupby(["data", "rows", "common"], sort=False):
        for way, form in MEASURED.items():
            found = part.groupby("epsilon")[way].agg(lambda each, form=form: shown(each, form))
            body.append([name, count, common, way, *found.reindex(columns).fillna("")])
    head = ["data", "rows", "common", "way", *("no privacy" if math.isinf(each) else f"{each:g}" for each in columns)]
    title = "Accuracy in % and log loss with standard deviations of draws; *common* is that of the most common class:"
    return ["", title, "", *table(head, body)]


def options(parser: argparse.ArgumentParser) -> None:
    """The folder of the texts."""
    parser.add_argument("--texts", type=Path, required=False, default=Path("hutto_ICWSM_2014"), help="their folder")


STUDY = Study(
    name="texts",
    recipe=lambda row: "3" if row["data"] in ("movies", "editorials") else "2",  # 3: more than 10,000 words
    key=("data", "epsilon"),
    columns=("data", "epsilon", "draw", "rows", "held", "common", *MEASURED, "seconds"),
    cells=cells,
    run=run,
)
EXPERIMENT = Experiment(
    name="texts",
    question="What does the default learner read in free texts with private labels?",
    studies=(STUDY,),
    page=page,
    draws=5,
    tables=tuple(TABLES),
    bundled=tuple(TABLES),  # --texts names their folder, not LABELDP_DATA
    epsilons=(1.0, 2.0, 4.0),
    options=options,
    unspotted="its texts are in no folder of data sets",
)

if __name__ == "__main__":
    main(EXPERIMENT)
