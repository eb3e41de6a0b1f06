"""Validated parameters of a convex problem, and the scale that caps all errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from labeldp import _checks
from labeldp.bounds._checks import check_rows
from labeldp.bounds.theorems._bound import Bound

Constants = Literal["proven", "conventional"]
Sizes = tuple[tuple[str, float], ...]

EXCESS = "the expected excess loss of the parameters"
CONVEX = "the loss is convex and Lipschitz in the parameters, which lie in a convex set of the given diameter"


@dataclass(frozen=True)
class ConvexProblem:
    """n rows whose labels are private with epsilon, and a loss that is L-Lipschitz on a set of diameter R.

    Args:
        rows: n.
        epsilon: Of each label, or of everything published.
        diameter: R.
        lipschitz: L.

    Raises:
        InputError: A number is out of range.
    """

    rows: int
    epsilon: float
    diameter: float = 1.0
    lipschitz: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", check_rows(self.rows))
        object.__setattr__(self, "epsilon", _checks.epsilon(self.epsilon))
        for name in ("diameter", "lipschitz"):
            object.__setattr__(self, name, _checks.positive(getattr(self, name), name))

    def upper(
        self, value: float, theorem: str, mechanism: str, assumptions: tuple[str, ...] = (), sizes: Sizes = ()
    ) -> Bound:
        """A proven upper bound from its value for ``R = L = 1``, at the scale ``R L``, which caps it."""
        statement = f"{EXCESS} is at most this with {mechanism}"
        return self.bound("upper", value, theorem, statement, "proven", assumptions, sizes)

    def lower(
        self,
        value: float,
        theorem: str,
        scope: str,
        constants: Constants,
        assumptions: tuple[str, ...],
        sizes: Sizes = (),
    ) -> Bound:
        """A lower bound, for some distribution; ``value`` as in ``upper``."""
        statement = f"{EXCESS} is at least this for some distribution{scope}"
        return self.bound("lower", value, theorem, statement, constants, assumptions, sizes)

    def bound(
        self,
        kind: Literal["upper", "lower"],
        value: float,
        theorem: str,
        statement: str,
        constants: Constants,
        assumptions: tuple[str, ...],
        sizes: Sizes = (),
    ) -> Bound:
        """A bound of this problem; ``value`` as in ``upper``."""
        scale = self.diameter * self.lipschitz
        return Bound(scale * min(1.0, value), kind, theorem, statement, constants, (CONVEX, *assumptions), sizes)
