"""An effect and odds ratios on a real table, by true labels and by released ones: who came back within 30 days.

Reads diabetes-readmission/diabetic_data.csv.gz (Strack et al. 2014) from the folder in LABELDP_DATA, or prints why not.
The guides docs/guide/effects.md and odds-ratios.md have the figures of one run.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd

from labeldp import Classes, Curator, RandomizedResponse, Release
from labeldp.learning.inference import coefficients, treatment_effect

TABLE = Path(os.environ.get("LABELDP_DATA", "")) / "diabetes-readmission" / "diabetic_data.csv.gz"
SPACE = Classes(["no", "yes"])
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


def main() -> None:
    """Print the effect of measuring HbA1c, and a regression table, for true labels and two releases."""
    if not TABLE.is_file():
        print(f"no {TABLE.name} in the folder that LABELDP_DATA names: nothing to show")
        return
    table, labels = first_stays()
    releases = {"true labels": Release.public(labels, SPACE)}
    for epsilon in (2.0, 1.0):
        releases[f"epsilon {epsilon:g}"] = Curator(labels, SPACE).randomize(RandomizedResponse(SPACE, epsilon))
    for name, release in releases.items():
        effect = treatment_effect(release, table, treatment="measured", features=ADJUSTED_FOR).effects[0]
        print(f"\n{name}: {effect.untreated} not measured, {effect.treated} measured, difference {effect.difference}")
        found = coefficients(release, table, "age + inpatient + diagnoses + measured").frame()
        print(np.exp(found[["coef", "[0.025", "0.975]"]]).rename(columns={"coef": "odds ratio"}).round(2))


if __name__ == "__main__":
    main()
