"""Spot check: a cheap cell measured again, with fresh draws, against the recorded mean and standard deviation."""

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from _design import Experiment, Given, Row, Spot, Study, plain
from _results import Results
from scipy import stats

FRESH = 1_000  # number of the first draw of a spot check: no recorded draw has its seed
FALSE_ALARM = 1e-4  # probability that a spot check reports a change where there is none


def spot(experiment: Experiment, given: Given) -> bool:
    """Measure the cells of the spot check with fresh draws, print how they compare, and return whether any changed."""
    if experiment.unspotted:
        print(f"{experiment.name}: skipped, {experiment.unspotted}")
    changed = False
    for study in experiment.studies:
        rows = Results(study, given.results).frame()
        for each in study.spots:
            title = f"{experiment.name}: {', '.join(map(str, [*each.cell.values.values(), *each.where.values()]))}"
            start = time.monotonic()
            try:
                fresh = [fresh_value(study, each, given, FRESH + draw) for draw in range(each.draws)]
            except FileNotFoundError as problem:
                print(f"{title}: skipped, {problem}", flush=True)
                continue
            recorded = summary(each, [row for row in rows.to_dict("records") if matches(row, each)])
            now = summary(each, fresh)
            differs = abs(now[0] - recorded[0]) > max(each.least, limit(recorded, now))
            changed |= differs
            texts = [f"{mean:.4g} (sd {sd:.2g}, {count} draws)" for mean, sd, count in (now, recorded)]
            verdict = "CHANGED" if differs else "agrees"
            seconds = f"{time.monotonic() - start:.0f} s"
            print(f"{title}: {each.column} {verdict}, now {texts[0]}, recorded {texts[1]}; {seconds}", flush=True)
    return changed


def fresh_value(study: Study, each: Spot, given: Given, draw: int) -> Row:
    """The row of a fresh draw; what a cell yields after it is not computed."""
    return next(row for row in study.measured(given, each.cell, draw) if matches(row, each))


def matches(row: Mapping[str, Any], each: Spot) -> bool:
    """Tell whether a row is the one that a spot check compares."""
    wanted = {name: value for name, value in each.cell.values.items() if name in row} | dict(each.where)
    return all(plain(row[name]) == plain(value) for name, value in wanted.items())


def summary(each: Spot, rows: list[Row]) -> tuple[float, float, int]:
    """Mean, standard deviation (NaN of one value) and number of draws."""
    if not rows:
        raise SystemExit(f"expected recorded rows of {dict(each.cell.values)}, found none")
    values = np.array([float(row[each.column]) for row in rows])
    if each.spread:
        return values[0], float(rows[0][each.spread]), int(rows[0]["draws"])
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else math.nan, len(values)


def limit(one: tuple[float, float, int], other: tuple[float, float, int]) -> float:
    """The largest difference of two means by chance alone, with a probability of all but ``FALSE_ALARM``.

    Student's t with a common standard deviation; 0 where there are two values in all, and no spread is known.
    """
    free = one[2] + other[2] - 2
    if free < 1:
        return 0.0
    squares = sum((count - 1) * sd**2 for _, sd, count in (one, other) if count > 1)
    error = math.sqrt(squares / free * (1 / one[2] + 1 / other[2]))
    return float(stats.t.isf(FALSE_ALARM / 2, free)) * error
