"""Result of an audit: the epsilon demonstrated, beside the epsilon claimed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context
from typing import Literal

from labeldp import _checks
from labeldp._notebook import Shown
from labeldp.errors import EpsilonError
from labeldp.privacy import shown_above

Method = Literal["exact", "sampled", "one run", "estimate"]

#: A mechanism whose upper bound is below this share of its claim adds more noise than it needs.
WASTEFUL_SHARE = 0.8


@dataclass(frozen=True)
class Audit(Shown):
    """Epsilon demonstrated by an audit, beside the epsilon claimed.

    Attributes:
        claim: The claimed epsilon, in nats.
        delta: The claimed failure probability.
        lower: Lower bound on the mechanism's epsilon at that delta; 0 if none was found. For an exact audit, the
            mechanism's own epsilon, rounded up; infinite if an output distinguishes two labels with certainty.
        upper: Upper bound on the mechanism's epsilon, if all its outcomes are finite and were counted; else None.
        confidence: Probability, over the audit's own draws, that ``lower`` (and ``upper``) are on the right side of the
            truth; 1 if exact; meaningless for an estimate.
        draws: Number of outputs examined; 0 if none was needed.
        method: ``"exact"``, ``"sampled"``, ``"one run"``, or ``"estimate"``, which proves nothing.
        worst: Description of the event and the two inputs behind ``lower``. Inputs are declared labels, nobody's own.
        visible: For a sampled audit, the least probability of an event, impossible under another input, that so many
            draws refute the claim by in nine of ten audits, if the audit tests it; None if there is none.
        assumes: An assumption of the bounds beyond those of the claim, as a clause; empty if there is none.

    Guarantee:
        A sound mechanism fails (``holds`` is False) with a probability of at most ``1 - confidence``; never in an exact
        audit. ``holds`` being True proves nothing by itself: ``upper`` does, where there is one.

    Example:
        >>> print(Audit(1.0, 0.0, 1.2, 1.25, 0.99, 100_000, "sampled", "event E"))
        The claim of epsilon 1 is wrong: epsilon is at least 1.2, with confidence 0.99, by event E.
    """

    claim: float
    delta: float
    lower: float
    upper: float | None
    confidence: float
    draws: int
    method: Method
    worst: str
    visible: float | None = None
    assumes: str = ""

    def __post_init__(self) -> None:
        check_claim(self.claim)
        _checks.delta(self.delta)
        if math.isnan(self.lower) or self.lower < 0 or (self.upper is not None and not self.upper >= 0):
            raise ValueError(f"expected bounds of at least 0, found {self.lower!r} and {self.upper!r}")

    @property
    def holds(self) -> bool:
        """True if the claim was not refuted: the lower bound does not exceed it."""
        return self.lower <= self.claim

    @property
    def wasteful(self) -> bool:
        """True if the upper bound is below four fifths of the claim: the mechanism adds too much noise."""
        return self.upper is not None and self.upper < WASTEFUL_SHARE * self.claim

    def sentence(self) -> str:
        """State the verdict and its numbers, after what they assume."""
        return f"Assuming that {self.assumes}: {self._verdict()}" if self.assumes else self._verdict()

    def _verdict(self) -> str:
        """The verdict and its numbers in one sentence."""
        claim = f"The claim of epsilon {self.claim:.7g}" + (f", delta {self.delta:.3g}," if self.delta else "")
        how = "" if self.method == "exact" else f", with confidence {self.confidence:g}"
        if self.method == "estimate":
            return f"{claim} is compared with an estimate of {self.lower:.7g}, which proves nothing."
        if not self.holds:
            what = "epsilon is" if self.method == "exact" else "epsilon is at least"
            return f"{claim} is wrong: {what} {_digits_above(self.lower, self.claim)}{how}, by {self.worst}."
        seen = "" if self.visible is None else f" Leaks at a rate below {shown_above(self.visible, 2)} may go unseen."
        if self.upper is None:
            return f"{claim} was not refuted: the lower bound is {_rounded_down(self.lower)}{how}.{seen}"
        waste = " The mechanism is wasteful: it adds more noise than the claim requires." if self.wasteful else ""
        if self.lower == self.upper:
            return f"{claim} holds: epsilon is {shown_above(self.upper, 7)}.{waste}"
        between = f"between {_rounded_down(self.lower)} and {shown_above(self.upper, 7)}"
        return f"{claim} was not refuted: epsilon is {between}{how}.{waste}{seen}"

    def __str__(self) -> str:
        return self.sentence()


def check_claim(value: object) -> float:
    """Validate a claimed epsilon: a finite number above zero."""
    claim = _checks.number(value, "the claim")
    if not (math.isfinite(claim) and claim > 0):
        raise EpsilonError(
            f"expected the claim to be a finite epsilon above 0, found {claim!r}; give the epsilon in nats that the "
            "mechanism is claimed to have"
        )
    return claim


def check_confidence(value: object) -> float:
    """Validate a confidence: at least one half, and below one."""
    confidence = _checks.number(value, "confidence")
    if not 0.5 <= confidence < 1.0:
        raise EpsilonError(
            f"expected confidence of at least 0.5 and below 1, found {confidence!r}; use 0.99, for instance"
        )
    return confidence


def _digits_above(value: float, beside: float) -> str:
    """Round a number down, with enough digits to stay above a smaller one."""
    if math.isinf(value):
        return "infinity"
    return next((text for digits in range(7, 18) if float(text := _rounded_down(value, digits)) > beside), f"{value!r}")


def _rounded_down(value: float, digits: int = 7) -> str:
    """Round a number down for people."""
    return f"{Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(repr(value)).normalize():f}"
