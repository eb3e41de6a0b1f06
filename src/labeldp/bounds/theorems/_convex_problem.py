"""Validated parameters of a convex problem, and the scale that caps all errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from labeldp import _checks
from labeldp.bounds._checks import check_positive, check_rows
from labeldp.bounds.theorems._bound import Bound

EXCESS = "the expected excess loss of the parameters"
CONVEX = "the loss is convex and Lipschitz in the parameters, which lie in a convex set of the given diameter"


@dataclass(frozen=True)
class ConvexProblem:
    """n rows whose labels are private with epsilon, and a loss that is L-Lipschitz on a set of diameter R.

    Attributes:
        rows: n.
        epsilon: Of each label, or of everything published.
        diameter: R.
        lipschitz: L.

    Raises:
        InputError: A number is out of range.
    """

    rows: int
    epsilon: float
    diameter: float
    lipschitz: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", check_rows(self.rows))
        object.__setattr__(self, "epsilon", _checks.epsilon(self.epsilon))
        for name in ("diameter", "lipschitz"):
            object.__setattr__(self, name, check_positive(getattr(self, name), name))

    def bound(
        self,
        kind: Literal["upper", "lower"],
        value: float,
        theorem: str,
        statement: str,
        *,
        constants: Literal["proven", "conventional"] = "proven",
        assumptions: tuple[str, ...] = (),
        sizes: tuple[tuple[str, float], ...] = (),
    ) -> Bound:
        """Create a bound from its value for ``R = L = 1``, at the scale ``R L``, which caps it."""
        return Bound(
            value=self.diameter * self.lipschitz * min(1.0, value),
            kind=kind,
            theorem=theorem,
            statement=statement,
            constants=constants,
            assumptions=(CONVEX, *assumptions),
            sizes=sizes,
        )
