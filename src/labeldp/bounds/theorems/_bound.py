"""A bound: a number, the theorem that it comes from, and what it rests on."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Bound:
    """What a theorem says at given numbers.

    Attributes:
        value: The bound, in the units that the statement names.
        kind: Whether what is bounded is at most (``"upper"``) or at least (``"lower"``) the value.
        theorem: Whose theorem, and which.
        statement: The theorem in words.
        constants: ``"proven"`` if the value holds as it stands under the assumptions; ``"conventional"`` if the theorem
            leaves constants open, and those that are usual in practice stand for them. Such values are for comparing.
        assumptions: What has to hold, in sentences.
        sizes: What the value was computed at, by name: the width of cells, the number of neighbours, a clipping level.

    Example:
        >>> from labeldp.bounds.theorems import cluster_precision
        >>> found = cluster_precision(cluster_size=10, classes=100, epsilon=1.0)
        >>> round(found.value, 3), found.kind, found.constants
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
        """One of the sizes."""
        return dict(self.sizes)[name]

    def to_json(self) -> dict[str, Any]:
        """All of it in what JSON knows."""
        return dataclasses.asdict(self) | {"assumptions": list(self.assumptions), "sizes": dict(self.sizes)}
