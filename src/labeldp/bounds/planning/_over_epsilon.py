"""One mechanism at each epsilon, from a plan and a forecast: the table that an epsilon is chosen from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from labeldp.privacy import Guarantee

if TYPE_CHECKING:
    from labeldp.bounds.planning._forecast import Forecast, Prospect
    from labeldp.bounds.planning._plan import Option, Plan

#: The prior probability of a suspicion whose largest posterior is stated.
SUSPICION = 0.05


@dataclass(frozen=True)
class EpsilonRow:
    """Result at one epsilon of the mechanism that ``release`` takes by default; of a curator's, the best one.

    Attributes:
        epsilon: The epsilon.
        mechanism: Name of the mechanism.
        effective_rows: Effective rows (effective sample size): at the class shares of the plan, or for the mean of
            numeric labels; None if it is unknown.
        at_most: An upper bound for any statistic of labels; None where the effective rows are the only number.
        share: Effective rows per released row; None if it is unknown.
        error: The error of a forecast with conventional constants, as in ``Prospect``; None without one. To compare
            mechanisms; what is lost on real tables is below.
        lost_low: The accuracy that a model of features is expected to lose, as a share of rows: the lower end of the
            range that real tables showed, at most what can be lost; None of numeric labels, and without features.
        lost_high: The upper end.
        test_error: Root mean squared error of a model of features against single numeric labels, at most that of
            their mean; None of classes, and without features.
        suspicion: The most that a suspicion of 5 % about the labels of a unit can become, rounded up.
    """

    epsilon: float
    mechanism: str
    effective_rows: int | None
    at_most: int | None
    share: float | None
    error: float | None
    suspicion: float
    lost_low: float | None = None
    lost_high: float | None = None
    test_error: float | None = None


def over_epsilon(plan: Plan | None, forecast: Forecast | None) -> tuple[EpsilonRow, ...]:
    """One row for each epsilon of a plan, a forecast or both, increasing, but those that no mechanism can express.

    Example:
        >>> from labeldp.bounds import plan
        >>> row = over_epsilon(plan(2, 1000, 1.0), None)[3]
        >>> row.epsilon, row.mechanism, row.effective_rows, round(row.suspicion, 3)
        (1.0, 'randomized-response', 213, 0.125)
    """
    options: dict[float, Option] = {}
    for each in _rows_of(plan):
        options |= {option.epsilon: option for option in each if option.best}
    prospects: dict[float, Prospect] = {}
    for row in _rows_of(forecast):
        if row:
            chosen = {each.epsilon: each for each in row if each.mechanism == _name(options, each)}
            prospects |= chosen or {row[0].epsilon: next((each for each in row if each.auto), row[0])}
    rows = (_row(options.get(each), prospects.get(each), each) for each in sorted({*options, *prospects}))
    return tuple(
        rows if forecast is None or not forecast.dimension else (_with_features(row, forecast) for row in rows)
    )


def _with_features(row: EpsilonRow, forecast: Forecast) -> EpsilonRow:
    """A row with what a model of features loses."""
    if row.error is None:
        return row
    if forecast.spread is not None:
        return replace(row, test_error=min(forecast.against_labels(row.error), forecast.spread))
    low, high = forecast.accuracy_lost(row.error)
    return replace(row, lost_low=low, lost_high=high)


def _rows_of(found: Plan | Forecast | None) -> Sequence[Sequence[Any]]:
    return () if found is None else (*found.sweep, found.options)


def _name(options: dict[float, Option], prospect: Prospect) -> str:
    option = options.get(prospect.epsilon)
    return "" if option is None else option.mechanism


def _row(option: Option | None, prospect: Prospect | None, epsilon: float) -> EpsilonRow:
    error, suspicion = None if prospect is None else prospect.error, Guarantee(epsilon).posterior(SUSPICION)
    if option is not None:
        most, share = option.effective_rows, option.expected_share
        return EpsilonRow(epsilon, option.mechanism, option.expected_rows, most, share, error, suspicion)
    assert prospect is not None  # noqa: S101 (every epsilon is of one of the two)
    rows, share = prospect.effective_rows, prospect.clean_share
    return EpsilonRow(epsilon, prospect.mechanism, rows, None, share, error, suspicion)
