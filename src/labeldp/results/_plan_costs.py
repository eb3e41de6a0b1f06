"""Costs of the options of a plan: the columns of its tables in words, and their figures over epsilon."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from labeldp.bounds.planning import CLEAN_AREA, Forecast, Option
from labeldp.results._charts import Curves, Lines, Mark
from labeldp.results._numbers import share, three_digits

_LEAST_POINTS = 0.01
_PERCENT = 100.0
#: A column of a table of mechanisms: its head, and the text of an option; columns without a text are left out.
Column = tuple[str, Callable[[Option], str]]


def costs_columns(forecast: Forecast) -> list[Column]:
    """The epsilon, the mechanism and what they cost; a star marks what rests on assumptions."""
    star = "" if forecast.randomizes_classes else "*"
    return [
        ("epsilon", lambda row: f"{row.epsilon:.3g}"),
        ("mechanism", lambda row: row.mechanism),
        (f"effective rows{star}", effective_rows),
        (f"of all rows{star}", of_all),
        (f"{error_name(forecast)}*", lambda row: error_cell(row, forecast) if shows_error(forecast) else ""),
    ]


def shows_error(forecast: Forecast) -> bool:
    return not forecast.randomizes_classes or forecast.dimension > 0


def effective_rows(row: Option) -> str:
    return f"at most {row.at_most:,}" if row.effective_rows is None else f"{row.effective_rows:,}"


def of_all(row: Option) -> str:
    """The effective rows as a share of all, where it is known; of some rows never 0."""
    if row.share is None:
        return ""
    return "under 0.1%" if row.share < 0.0005 and row.effective_rows else share(row.share)


def error_name(forecast: Forecast) -> str:
    if forecast.of_numbers:
        return "test RMSE" if forecast.dimension else "error of the mean"
    if forecast.has_area:
        return f"ROC area, {CLEAN_AREA:.2f} on true labels"
    return "accuracy lost, points" if forecast.dimension else "wrong classes added"


def error_cell(row: Option, forecast: Forecast) -> str:
    if forecast.of_numbers:
        error = three_digits(row.error if row.test_error is None else row.test_error)
        return f"{error}, of the mean" if is_mean(row, forecast) else error
    if forecast.has_area:
        return area(row) or "unknown"
    return f"{points(row.error)} %" if row.lost_low is None else lost(row)


def points(part: float) -> str:
    """A share in points of a hundred, as exactly as a forecast deserves."""
    points = _PERCENT * part
    return f"{points:.2g}" if points >= _LEAST_POINTS else f"under {_LEAST_POINTS:g}"


def lost(row: Option) -> str:
    """The points of accuracy that privacy may cost."""
    return " to ".join(dict.fromkeys(map(points, (row.lost_low or 0.0, row.lost_high or 0.0))))


def area(row: Option) -> str:
    """The area under the ROC that is expected of a model of a rare class."""
    ends = (row.area_low, row.area_high)
    return " to ".join(dict.fromkeys(f"{end:.2f}" for end in ends if end is not None))


def is_mean(row: Option, forecast: Forecast) -> bool:
    """True if a model of numeric labels would be no better than their mean, which learners then predict."""
    return row.test_error is not None and row.test_error >= (forecast.spread or 0.0)


#: Curves that are nowhere further apart than this factor are drawn as one.
_SAME = 1.03
#: The area under the ROC of scores that say nothing.
_NO_AREA = 0.5


def plan_chart(forecast: Forecast) -> Curves:
    """The accuracy lost, the expected error or the effective rows over epsilon."""
    if forecast.loses_accuracy:
        return _band_chart(
            forecast, "Accuracy lost, by experience on 30 real tables,", "accuracy lost, in points", _lost
        )
    if forecast.has_area:
        what = f"Area under the ROC of a model that would have {CLEAN_AREA:.2f} on true labels,"
        marks: list[Mark] = [("on true labels", "y", CLEAN_AREA), ("noise alone", "y", _NO_AREA)]
        return _band_chart(forecast, what, "area under the ROC", _areas, marks=marks, logarithmic="x")
    return _error_chart(forecast) if forecast.has_error else _rows_chart(forecast)


def _chart(forecast: Forecast, what: str, figure: str, lines: Lines, marks: Sequence[Mark] = (), **more: Any) -> Curves:
    """A figure over epsilon, with the epsilon of the forecast marked."""
    whose = "label" if forecast.units is None else "privacy unit"
    if forecast.epsilon is not None:
        marks = (*marks, (f"epsilon {forecast.epsilon:.3g}", "x", forecast.epsilon))
    axes = f"epsilon per {whose} (smaller: more private)", figure
    return Curves(what=f"{what} with {forecast.rows:,} rows", axes=axes, lines=lines, marks=tuple(marks), **more)


def _rows_chart(forecast: Forecast) -> Curves:
    """Effective rows in percent of all rows over epsilon, by mechanism."""
    options = itertools.chain(*forecast.sweep, forecast.options)
    even = "equally common " if forecast.shares is None else ""
    lines = _by_name((each.mechanism, (each.epsilon, _PERCENT * each.share)) for each in options if each.share)
    what = f"Effective rows of {forecast.classes} {even}classes"
    return _chart(forecast, what, "effective rows, in % of all rows", lines)


def _error_chart(forecast: Forecast) -> Curves:
    """Expected error over the epsilons of the sweep, by mechanism; of classes in percent of rows."""
    times = 1.0 if forecast.of_numbers else _PERCENT
    marks: list[Mark] = [("without privacy", "y", times * forecast.clean_error)]
    if forecast.goal is not None:
        marks.append((f"target {forecast.goal.target:g}", "y", times * forecast.goal.target))
    error = "error of the estimated mean, in units of the label", "wrong classes beyond the best possible, in % of rows"
    options = itertools.chain(*forecast.sweep)
    lines = _by_name((option.mechanism, (option.epsilon, times * option.error)) for option in options)
    return _chart(forecast, "Expected error", error[not forecast.of_numbers], lines, marks)


def _lost(row: Option) -> tuple[float, float]:
    """The points of accuracy lost, as the table says."""
    return _PERCENT * (row.lost_low or 0.0), _PERCENT * (row.lost_high or 0.0)


def _areas(row: Option) -> tuple[float, float]:
    """The areas under the ROC, as the table says."""
    return row.area_low or _NO_AREA, row.area_high or _NO_AREA


def _band_chart(
    forecast: Forecast, what: str, figure: str, ends: Callable[[Option], tuple[float, float]], **more: Any
) -> Curves:
    """A range over epsilon: of what a model of features is expected to lose, or to have."""
    band = [(row.epsilon, *ends(row)) for row in forecast.over_epsilon]
    lines = [
        ("upper end", [(epsilon, high) for epsilon, _, high in band]),
        ("lower end", [(epsilon, low) for epsilon, low, _ in band]),
    ]
    return _chart(forecast, what, figure, lines, bands=(band,), **more)


def _by_name(named: Iterable[tuple[str, tuple[float, float]]]) -> list[tuple[str, list[tuple[float, float]]]]:
    """Points by the name of their curve, in order; curves that hide each other have one name together."""
    lines: dict[str, set[tuple[float, float]]] = {}
    for name, point in named:
        lines.setdefault(name, set()).add(point)
    merged: dict[str, list[tuple[float, float]]] = {}
    for name, points in lines.items():
        same = next((other for other, its in merged.items() if _hides(its, sorted(points))), None)
        if same is None:
            merged[name] = sorted(points)
        else:
            merged = {f"{other}, {name}" if other == same else other: its for other, its in merged.items()}
    return list(merged.items())


def _hides(one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> bool:
    """True for curves over the same epsilons that cannot be told apart."""
    return len(one) == len(other) and all(
        x == u and max(y, v) <= _SAME * min(y, v) for (x, y), (u, v) in zip(one, other, strict=True)
    )
