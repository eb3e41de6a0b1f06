"""A bound: a number, its theorem, and its assumptions."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Bound:
    """Value of a theorem's bound at given parameters.

    Attributes:
        value: The bound, in the units that the statement names.
        kind: ``"upper"`` or ``"lower"``.
        theorem: Paper and number of the theorem.
        statement: The theorem in words.
        constants: ``"proven"`` if the value holds as it stands under the assumptions; ``"conventional"`` if the theorem
            leaves constants open, and customary ones replace them. Such values serve comparisons.
        assumptions: Assumptions, in sentences.
        sizes: Quantities behind the value, by name: the width of cells, the number of neighbours, a clipping level.

    Example:
        >>> from labeldp.bounds.theorems import cluster_precision
        >>> bound = cluster_precision(cluster_size=10, classes=100, epsilon=1.0)
        >>> round(bound.value, 3), bound.kind, bound.constants
        (0.232, 'upper', 'proven')
    """

    value: float
    kind: Literal["upper", "lower"]
    theorem: str
    statement: str
    constants: Literal["proven", "conventional"]
    assumptions: tuple[str, ...] = ()
    sizes: tuple[tuple[str, float], ...] = ()

    def size(self, name: str) -> float:
        """One of the sizes, by name."""
        return dict(self.sizes)[name]

    def to_json(self) -> dict[str, Any]:
        """The bound as JSON values."""
        return dataclasses.asdict(self) | {"assumptions": list(self.assumptions), "sizes": dict(self.sizes)}
