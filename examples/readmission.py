"""Answers on a real table, by true labels and by released ones: an effect, odds ratios, and prediction sets.

Reads diabetes-readmission/diabetic_data.csv.gz (Strack et al. 2014) from the folder in LABELDP_DATA, or prints why not.
The guides docs/guide/effects.md, odds-ratios.md and sets.md have the figures of one run; with the name of a folder
(docs/images), their pictures are drawn into it.
"""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from labeldp import Classes, Curator, RandomizedResponse, Release
from labeldp.learning.inference import coefficients, prediction_sets, treatment_effect
from labeldp.learning.sklearn import SoftmaxRegression
from labeldp.render import figure_of
from labeldp.results import Ranges

TABLE = Path(os.environ.get("LABELDP_DATA", "")) / "diabetes-readmission" / "diabetic_data.csv.gz"
SPACE = Classes(["no", "yes"])
COVERAGE = 0.95
ADJUSTED_FOR = ["age", "sex", "inpatient", "emergency", "admission", "diagnoses"]


def first_stays() -> tuple[pd.DataFrame, np.ndarray]:
    """Public columns of the first stay of each patient, and who came back within 30 days."""
    stays = pd.read_csv(TABLE, low_memory=False, keep_default_na=False).drop_duplicates("patient_nbr")
    columns = {
        "age": stays["age"].str.extract(r"(\d+)")[0].astype(float) / 10,  # in tens of years
        "sex": stays["gender"],
        "inpatient": stays["number_inpatient"],
        "emergency": stays["number_emergency"],
        "admission": stays["admission_type_id"].astype(str),
        "diagnoses": stays["number_diagnoses"],
        "measured": np.where(stays["A1Cresult"] == "None", "no", "yes"),
    }
    return pd.DataFrame(columns).reset_index(drop=True), np.where(stays["readmitted"] == "<30", "yes", "no")


def sets_of(release: Release, table: pd.DataFrame, labels: np.ndarray) -> tuple[float, float]:
    """The share of patients of whom no return can be excluded, and of those whose true label is in their set.

    The model is fitted on half of the released rows, the sets are calibrated on a quarter, and shown for the rest.
    """
    columns = pd.get_dummies(table, dtype=float)
    features = ((columns - columns.mean()) / columns.std()).to_numpy()
    half, most = len(labels) // 2, len(labels) * 3 // 4
    model = SoftmaxRegression().fit(features[:half], release[:half])
    sets = prediction_sets(model, features[half:most], release[half:most], alpha=1 - COVERAGE, units="rows")
    members = sets.of(model, features[most:])
    held = members[np.arange(len(members)), np.searchsorted(sets.classes, labels[most:])]
    return float(members[:, list(sets.classes).index("yes")].mean()), float(held.mean())


def main() -> None:
    """Print the effect of measuring HbA1c, a regression table and sets, for true labels and two releases."""
    if not TABLE.is_file():
        print(f"no {TABLE.name} in the folder that LABELDP_DATA names: nothing to show")
        return
    table, labels = first_stays()
    releases = {"true labels": Release.public(labels, SPACE)}
    for epsilon in (2.0, 1.0):
        releases[f"epsilon {epsilon:g}"] = Curator(labels, SPACE).randomize(RandomizedResponse(SPACE, epsilon))
    order = np.random.default_rng(0).permutation(len(labels))  # the table is in order of time
    effects, odds, sets = [], [], []
    for name, release in releases.items():
        effect = treatment_effect(release, table, treatment="measured", features=ADJUSTED_FOR).effects[0]
        print(f"\n{name}: {effect.untreated} not measured, {effect.treated} measured, difference {effect.difference}")
        found = coefficients(release, table, "age + inpatient + diagnoses + measured").frame()
        ratios = np.exp(found[["coef", "[0.025", "0.975]"]]).rename(columns={"coef": "odds ratio"})
        print(ratios.round(2))
        ill, held = sets_of(release[order], table.iloc[order], labels[order])
        print(f"{ill:.1%} of patients may come back by their sets, which hold the true label of {held:.1%}")
        points = [100 * each for each in (effect.difference.low, effect.difference.value, effect.difference.high)]
        effects.append((name, *points, "{1:.1f} ({0:.1f} to {2:.1f})".format(*points)))
        ratio, low, high = ratios.loc["inpatient"]
        odds.append((name, low, ratio, high, f"{ratio:.2f} ({low:.2f} to {high:.2f})"))
        sets.append((name, 0.0, None, ill, f"{ill:.0%}, {held:.1%} covered"))
    pictures = {
        "effect": Ranges(
            "Effect of measuring HbA1c in percentage points", effects, [(-3, "-3"), (0, "0"), (3, "3")], 0.0
        ),
        "odds": Ranges("Odds ratio of an earlier stay", odds, [(1, "1"), (1.25, "1.25"), (1.6, "1.6")], 1.0),
        "sets": Ranges("Patients of whom a return cannot be excluded", sets, [(0, "0 %"), (0.5, "50 %"), (1, "100 %")]),
    }
    for name, picture in pictures.items() if len(sys.argv) > 1 else ():
        (Path(sys.argv[1]) / f"{name}.svg").write_text(figure_of(picture), encoding="utf-8")


if __name__ == "__main__":
    main()
