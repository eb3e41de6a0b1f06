"""One mechanism at each epsilon, from a plan and a forecast: the table that an epsilon is chosen from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labeldp._html import table_html
from labeldp.privacy import Guarantee, shown_above

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
        error: The expected error of a forecast, as in ``Prospect``; None without one.
        suspicion: The most that a suspicion of 5 % about the labels of a unit can become, rounded up.
    """

    epsilon: float
    mechanism: str
    effective_rows: int | None
    at_most: int | None
    share: float | None
    error: float | None
    suspicion: float


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
    return tuple(_row(options.get(each), prospects.get(each), each) for each in sorted({*options, *prospects}))


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


def overview_html(plan: Plan | None, forecast: Forecast | None) -> str:
    """The table over epsilon, for notebooks; of a forecast with the expected error as it defines it."""
    part = next(part for part in (plan, forecast) if part is not None)
    units = "" if part.units is None else f", in units of up to {part.units.most:,}"
    error = ["expected error"] if forecast is not None else []
    columns = ["epsilon", "mechanism", "effective rows", "of all rows", *error, "5 % sure becomes at most"]
    rows = []
    for row in over_epsilon(plan, forecast):
        known = f"at most {row.at_most:,}" if row.effective_rows is None else f"about {row.effective_rows:,}"
        share = "" if row.share is None else f"{row.share:.1%}"
        cells = [] if row.error is None else [f"{row.error:.3g}"]
        rows.append(
            [f"{row.epsilon:.3g}", row.mechanism, known, share, *cells, f"{shown_above(100 * row.suspicion, 3)} %"]
        )
    return table_html(f"{part.rows:,} rows{units}", columns, rows)
