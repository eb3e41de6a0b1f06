"""Costs of one option of a plan, in words: the columns of its tables."""

from __future__ import annotations

from collections.abc import Callable

from labeldp.bounds.planning import CLEAN_AREA, Forecast, Option
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
        if is_mean(row, forecast):
            return f"{three_digits(forecast.spread or 0.0)}, of the mean"
        return three_digits(row.error if row.test_error is None else row.test_error)
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
