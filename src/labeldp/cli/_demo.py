"""``labeldp demo``: a sample table to try the other commands with."""

from __future__ import annotations

import csv
import random
import shlex
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

from labeldp import results
from labeldp.cli._terminal import result
from labeldp.errors import OutputError

_FILE = "patients.csv"
_COLUMNS = (
    "patient_id",
    "postcode",
    "visit",
    "age",
    "sex",
    "blood_pressure",
    "smoker",
    "complaint",
    "costs",
    "diagnosis",
)
_PATIENTS, _SEED = 1000, 2026
_COMPLAINTS = {"cough": -1.2, "chest pain": 2.2, "headache": -0.6, "dizziness": 0.9, "none": -2.0}


def demo(folder: Path = Path(), *, json_: bool = False) -> None:
    """Write a table of invented patients, to try the other commands with.

    Each row is a visit, and a patient has one to four of them. The diagnosis is the label; the costs of a visit are a
    numeric one. It is the same table every time.

    Args:
        folder ([DIR]): The folder to write patients.csv to; default: this one.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    path = folder / _FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="") as file:
            rows = list(_visits(random.Random(_SEED)))  # noqa: S311 (invented patients)
            csv.writer(file, lineterminator="\n").writerows([_COLUMNS, *rows])
    except FileExistsError:
        raise OutputError(
            f"expected to write {path}, found that it exists; name another folder, or remove it"
        ) from None
    following = f"labeldp check {shlex.quote(str(path))} --label diagnosis"
    done = f"Wrote {path}: {len(rows):,} visits of {_PATIENTS:,} invented patients."
    part = results.Part(
        "A table to try", done, lead=(done, "", "Next: look at it, before anything is spent:", f"  {following}")
    )
    result(json_, lambda: results.DemoTable(str(path), len(rows), following), lambda: part)


def _visits(chance: random.Random) -> Iterator[tuple[object, ...]]:
    """The visits of each patient: features, costs, and a diagnosis that follows from features and chance."""
    for number in range(_PATIENTS):
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
