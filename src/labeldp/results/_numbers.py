"""Quantities in words: bounds are rounded outward, estimates are shown within what can be."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from labeldp.privacy import shown_above, sure_above

#: The normal quantile of a two-sided interval of 95 %.
_QUANTILE = 1.96
#: Percentage points by which an estimate may be off before a reader is warned.
_ROUGH = 10.0


def three_digits(value: float) -> str:
    """A number for people: three significant digits, thousands with commas."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:g}"


def share(value: float) -> str:
    """An estimated share in percent, within what a share can be."""
    return f"{min(max(value, 0.0), 1.0):.1%}"


def share_above(value: float) -> str:
    """An upper bound of a share in percent, rounded up."""
    permille = math.ceil(_permille(min(value, 1.0)))
    return f"{permille / 10.0:.1f}%"


def share_below(value: float) -> str:
    """A lower bound of a share in percent, rounded down."""
    permille = math.floor(_permille(max(value, 0.0)))
    return f"{permille / 10.0:.1f}%"


def _permille(value: float) -> Decimal:
    """A share in thousandths, without the last digits of a double, which are the error of its arithmetic."""
    return Decimal(f"{value:.12f}") * 1000


def interval(low: float, high: float) -> str:
    """A confidence interval of a share in percent, rounded outward."""
    return f"{share_below(low)} to {share_above(high)}"


def posterior(probability: float) -> str:
    """The most that a belief can become in percent, rounded up."""
    return f"{sure_above(probability)} %"


def epsilon_above(value: float) -> str:
    """An epsilon for people: three significant digits, rounded up."""
    return shown_above(value, 3)


def exactly_above(value: float) -> str:
    """An epsilon rounded up; with seven digits, since an audit can refute a claim by a hair."""
    return "infinity" if math.isinf(value) else shown_above(value, 7)


def exactly_below(value: float) -> str:
    """An epsilon rounded down, with seven digits."""
    return "infinity" if math.isinf(value) else below(value, 7)


def below(value: float, digits: int = 3) -> str:
    """A lower bound, rounded down; thousands with commas."""
    rounded = Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(repr(value))
    return f"{rounded.normalize():,f}"


def above(value: float, digits: int = 3) -> str:
    """An upper bound, rounded up; thousands with commas."""
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(value))
    return f"{rounded.normalize():,f}"


def factor_below(log: float) -> str:
    """A factor from its natural logarithm: three digits, rounded down."""
    return below(math.exp(min(log, 700.0)))


def delta_above(value: float) -> str:
    """A failure probability of three digits, rounded up."""
    return f"{float(Context(prec=3, rounding=ROUND_CEILING).create_decimal(repr(float(value))))!r}" if value else "0"


def is_clear(low: float, high: float, error: float = 0.0, range_: float = 1.0) -> bool:
    """True if an interval says something: it is at most half as wide as its range, and was not cut to look so.

    Args:
        low: Lower end.
        high: Upper end.
        error: Standard error of the estimate: the interval was cut if it is a point in spite of one, or if 3.92 of them
            fill the range.
        range_: Width of the range of what is estimated.
    """
    cut = (low == high and error > 0.0) or 2.0 * _QUANTILE * error >= range_ > 0.0
    return high - low <= range_ / 2.0 and not cut


def on_wide_intervals(error: float) -> str:
    """A warning that estimates of shares are rough, if noise of this standard error moves them by over ten points."""
    points = 100.0 * _QUANTILE * error
    if not _ROUGH < points < math.inf:
        return ""
    return (
        f"These rows tell the accuracy to within {points:.0f} points (95 %): read the intervals, not the estimates, "
        "which are cut at 0 % and 100 %."
    )


def listed(names: list[str], most: int = 12) -> str:
    """Names, of many the first few and the last."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[: most // 2])} ... {names[-1]} ({len(names)})"


def counted(number: int, what: str) -> str:
    """A number of things, one of them in the singular."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
