"""What an audit found: an epsilon that was shown, beside the one that was claimed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context
from typing import Literal

from labeldp import _checks
from labeldp.errors import EpsilonError
from labeldp.privacy import shown_above

Method = Literal["exact", "sampled", "one run", "estimate"]

#: An upper bound below this share of the claim says that a mechanism is noisier than it need be.
WASTEFUL_SHARE = 0.8


@dataclass(frozen=True)
class Audit:
    """An epsilon that was shown, beside the one that was claimed.

    Attributes:
        claim: The epsilon that was claimed, in nats.
        delta: The failure probability that was claimed with it.
        lower: The epsilon that was shown, at that delta; 0 where nothing was. If exact, it is the mechanism's own,
            rounded up, and infinite where an output tells two labels apart for certain.
        upper: At most this is what the mechanism has, where all its outcomes are finite and were counted; else None.
        confidence: Chance, over the audit's own draws, that ``lower`` (and ``upper``) are on the right side of the
            truth; 1 if exact. Of an estimate, it says nothing.
        draws: Outputs that were looked at; 0 if none was needed.
        method: ``"exact"``, ``"sampled"``, ``"one run"``, or ``"estimate"``, which shows nothing.
        worst: The event and the two inputs that show it, in words. Inputs are declared labels: they are no one's.

    Guarantee:
        A sound mechanism is accused (``holds`` is False) with a probability of at most ``1 - confidence``; never, if
        exact. That ``holds`` is True proves nothing by itself: ``upper`` does, where there is one.

    Example:
        >>> print(Audit(1.0, 0.0, 1.2, 1.25, 0.99, 100_000, "sampled", "'yes' from 'yes' against 'no'"))
        The claim of epsilon 1 is wrong: at least 1.2 was shown, with confidence 0.99, by 'yes' from 'yes' against 'no'.
    """

    claim: float
    delta: float
    lower: float
    upper: float | None
    confidence: float
    draws: int
    method: Method
    worst: str

    def __post_init__(self) -> None:
        check_claim(self.claim)
        _checks.delta(self.delta)
        if math.isnan(self.lower) or self.lower < 0 or (self.upper is not None and not self.upper >= 0):
            raise ValueError(f"expected bounds of at least 0, found {self.lower!r} and {self.upper!r}")

    @property
    def holds(self) -> bool:
        """Whether the claim may be true: what was shown does not exceed it."""
        return self.lower <= self.claim

    @property
    def wasteful(self) -> bool:
        """Whether the mechanism has at most four fifths of the epsilon that it claims, and so adds too much noise."""
        return self.upper is not None and self.upper < WASTEFUL_SHARE * self.claim

    def sentence(self) -> str:
        """The verdict with its numbers, in one sentence."""
        claim = f"The claim of epsilon {self.claim:.7g}" + (f", delta {self.delta:.3g}," if self.delta else "")
        how = "" if self.method == "exact" else f", with confidence {self.confidence:g}"
        if self.method == "estimate":
            return f"{claim} stands beside an estimate of {self.lower:.7g}, which proves nothing."
        if not self.holds:
            what = f"{'it is' if self.method == 'exact' else 'at least'} {_shown(self.lower, self.claim)}"
            return f"{claim} is wrong: {what}{'' if self.method == 'exact' else ' was shown'}{how}, by {self.worst}."
        if self.upper is None:
            return f"{claim} was not refuted: {_below(self.lower)} was shown{how}."
        waste = " It is wasteful: it adds more noise than it claims to need." if self.wasteful else ""
        if self.lower == self.upper:
            return f"{claim} holds: it is {shown_above(self.upper, 7)}.{waste}"
        between = f"between {_below(self.lower)} and {shown_above(self.upper, 7)}"
        return f"{claim} was not refuted: it is {between}{how}.{waste}"

    def __str__(self) -> str:
        return self.sentence()


def check_claim(value: object) -> float:
    """An epsilon that can be claimed: a finite number above zero."""
    found = _checks.number(value, "the claim")
    if not (math.isfinite(found) and found > 0):
        raise EpsilonError(
            f"expected the claim to be a finite epsilon above 0, found {found!r}; give the natural-logarithm epsilon "
            "that the mechanism is said to keep"
        )
    return found


def check_confidence(value: object) -> float:
    """A probability between one half and one."""
    found = _checks.number(value, "confidence")
    if not 0.5 <= found < 1.0:
        raise EpsilonError(f"expected confidence of at least 0.5 and below 1, found {found!r}; use 0.99, say")
    return found


def _shown(value: float, beside: float) -> str:
    """A number, rounded down, with as many digits as tell it from a smaller one."""
    if math.isinf(value):
        return "infinity"
    return next((text for digits in range(7, 18) if float(text := _below(value, digits)) > beside), f"{value!r}")


def _below(value: float, digits: int = 7) -> str:
    """A number for people, rounded down."""
    return f"{Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(repr(value)).normalize():f}"
