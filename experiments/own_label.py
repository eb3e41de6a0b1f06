"""How sure a model of the README's release is of each label, with the released labels of that person and without them.

own_label.md has the protocol and what the results show.
"""

import math
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
from _study import Cell, Experiment, Given, Row, Spot, Study, main, shown, table

from labeldp import Classes, Guarantee, Release, release_table
from labeldp.cli import main as labeldp
from labeldp.learning.tables import learn

SPACE = Classes(["heart disease", "none"])
UNIT, LABEL, EPSILON = "patient_id", "diagnosis", 1.0
KEPT = ["patient_id", "visit", "age", "sex", "blood_pressure", "smoker", "complaint", "costs"]
#: The most that someone can become sure of a label whom everything else makes 50 % sure, as it is printed: 73.2 %.
LIMIT = math.ceil(1000 * Guarantee(EPSILON).posterior(0.5)) / 1000


def probabilities(folder: Path, model: str, release: Release, rows: pd.DataFrame, people: np.ndarray) -> np.ndarray:
    """Class probabilities of each row by the model that is learned from the rows of all folds but its own.

    Args:
        folder: A folder to write releases to.
        model: The model of ``labeldp learn``.
        release: The release of all rows.
        rows: The public columns of its rows.
        people: The fold of each row; one fold for everybody leaves nobody out.
    """
    found = np.empty((len(rows), SPACE.size))
    for fold in np.unique(people):
        own = people == fold
        others = np.flatnonzero(~own if not own.all() else own)
        place = folder / f"{model}-{len(np.unique(people))}-{fold}"
        release[others].save(place, rows.iloc[others], keep=KEPT, label=LABEL)
        fitted = learn(place, model=model).model
        order = [list(fitted.classes_).index(point) for point in SPACE.points]
        found[own] = fitted.predict_proba(rows[own])[:, order]
    return found


def run(given: Given, cell: Cell, draw: int) -> Iterator[Row]:
    """One release of the README's table; a model of all its rows, and models that see no row of the person."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with redirect_stdout(StringIO()):
            labeldp(["demo", str(folder)])
        patients = folder / "patients.csv"
        release_table(str(patients), LABEL, SPACE, EPSILON, str(folder / "shared"), drop=["postcode"], unit=UNIT)
        release, rows = Release.load(folder / "shared"), pd.read_parquet(folder / "shared")[KEPT]
        truth = np.array([SPACE.points.index(label) for label in pd.read_csv(patients, keep_default_na=False)[LABEL]])
        numbers = rows[UNIT].factorize()[0]
        folds = np.random.default_rng(draw).permutation(np.arange(numbers.max() + 1) % given.folds)[numbers]
        for learned_from, people in (("all rows", np.zeros(len(rows), int)), ("other people", folds)):
            found = probabilities(folder, cell["model"], release, rows, people)
            right, sure = found.argmax(axis=1) == truth, found.max(axis=1)
            yield {
                "learned_from": learned_from,
                "rows": len(rows),
                "sure": percent(sure > LIMIT),
                "right": percent(right[sure > LIMIT]),
                "sure_90": percent(sure > 0.9),
                "right_90": percent(right[sure > 0.9]),
                "accuracy": percent(right),
            }


def percent(cases: np.ndarray) -> float:
    """The share of cases that are true, in percent."""
    return round(100 * float(cases.mean()), 2) if len(cases) else float("nan")


def page(frames: dict[str, pd.DataFrame], _: Path) -> list[str]:
    """Each model, learned from all rows and from those of other people, with standard deviations of releases."""
    rows = frames["own_label"]
    measures = {
        "sure": f"rows of which it is more than {100 * LIMIT:.1f} % sure, %",
        "right": "right there, %",
        "sure_90": "more than 90 % sure, %",
        "right_90": "right there, %",
        "accuracy": "accuracy, %",
    }
    body = [
        [model, learned_from, *(shown(part[name], form=".1f") for name in measures)]
        for (model, learned_from), part in rows.groupby(["model", "learned_from"], sort=False)
    ]
    return ["", *table(["model", "learned from", *measures.values()], body)]


STUDY = Study(
    name="own_label",
    recipe="1",
    key=("model",),
    columns=("model", "draw", "learned_from", "rows", "sure", "right", "sure_90", "right_90", "accuracy", "seconds"),
    cells=lambda given: (Cell({"model": model}, parts=("all rows", "other people")) for model in given.models),
    run=run,
    part="learned_from",
    spots=(Spot(Cell({"model": "softmax"}), "sure", {"learned_from": "all rows"}, draws=2, least=5.0),),
)
EXPERIMENT = Experiment(
    name="own_label",
    question="How sure is a model of a label, with the released labels of that person and without them?",
    studies=(STUDY,),
    page=page,
    draws=5,
    options=lambda parser: (
        parser.add_argument("--folds", type=int, default=20, help="parts of the people (default: 20)"),
        parser.add_argument("--models", type=lambda text: text.split(","), default=["auto", "softmax"]),
    ),
)

if __name__ == "__main__":
    main(EXPERIMENT)
