"""Invented tables, to try everything with: no person in them exists."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, timedelta
from typing import TYPE_CHECKING

from labeldp._extras import require_extra

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["patients"]

#: The columns of a visit.
COLUMNS = (
    *("patient_id", "postcode", "visit", "age", "sex", "blood_pressure", "smoker"),
    *("complaint", "costs", "diagnosis"),
)
#: The number of patients.
PATIENTS = 1000
_SEED = 2026
_COMPLAINTS = {"cough": -1.2, "chest pain": 2.2, "headache": -0.6, "dizziness": 0.9, "none": -2.0}


def patients() -> pd.DataFrame:
    """1,991 visits of 1,000 invented patients, the same every time: the table of ``labeldp demo``.

    A patient has one to four rows. The label ``diagnosis`` is "none" or "heart disease", ``costs`` is a numeric one,
    and the other columns count as public.

    Returns:
        A frame with the columns patient_id, postcode, visit, age, sex, blood_pressure, smoker, complaint, costs and
        diagnosis.

    Example:
        >>> table = patients()
        >>> len(table), table["patient_id"].nunique()
        (1991, 1000)
        >>> table["diagnosis"].value_counts().to_dict()
        {'none': 1137, 'heart disease': 854}
    """
    require_extra("learn", "pandas")
    import pandas as pd  # noqa: PLC0415 (an extra)

    return pd.DataFrame(list(visits()), columns=list(COLUMNS)).astype({"costs": float})


def visits() -> Iterator[tuple[object, ...]]:
    """The visits of each patient: features, costs, and a diagnosis that follows from features and chance."""
    chance = random.Random(_SEED)  # noqa: S311 (invented patients)
    for number in range(PATIENTS):
        age, sex, smoker = round(chance.triangular(18, 95, 55)), chance.choice("fm"), chance.random() < 0.3
        postcode, day = f"{chance.randrange(1000, 9999):05d}", date(2025, 1, 1) + timedelta(chance.randrange(300))
        for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
            pressure = round(chance.gauss(105 + 0.45 * age, 12))
            complaint = chance.choice(list(_COMPLAINTS))
            score = (
                _COMPLAINTS[complaint] + (age - 55) / 9 + (pressure - 130) / 10 + 1.5 * smoker + chance.gauss(0, 0.7)
            )
            costs = round(chance.lognormvariate(6.0 + 0.25 * max(score, -2), 0.6), 2)
            diagnosis = "heart disease" if score > 1 else "none"
            yield (
                *(f"P{number:04d}", postcode, day.isoformat(), age, sex, pressure, "yes" if smoker else "no"),
                *(complaint, f"{costs:.2f}", diagnosis),
            )
            day += timedelta(chance.randrange(7, 90))
