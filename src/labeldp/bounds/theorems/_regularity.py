"""What is assumed of the function that is learned, with the constants of the theorems as numbers."""

from __future__ import annotations

from dataclasses import dataclass

from labeldp.bounds._checks import chance, not_negative, positive


@dataclass(frozen=True)
class Regularity:
    """How smooth the label's law is, over features in the unit cube.

    Args:
        dimension: d, of the features; of data that lie near a surface, the dimension of that surface.
        smoothness: beta, above 0 and at most 1: ``|eta_j(x) - eta_j(x')| <= L |x - x'|^beta``.
        lipschitz: L.
        margin: gamma, at least 0: ``P(0 < eta* - eta_s < t) <= C t^gamma`` for the largest chance of a class and the
            largest one below it. 0 assumes nothing.
        margin_constant: C.
        density: The least density of the features where they can lie, at most 1.

    Raises:
        InputError: A number is outside its range.

    References:
        Zhao et al. 2025, assumption 1. It prints eta_s as the second largest chance; where two classes are equally
        likely, a third one just below them is then not held off by the margin, and theorems 2 and 4 need that.
    """

    dimension: float
    smoothness: float = 1.0
    lipschitz: float = 1.0
    margin: float = 1.0
    margin_constant: float = 1.0
    density: float = 1.0

    def __post_init__(self) -> None:
        for name in ("dimension", "lipschitz", "margin_constant"):
            positive(getattr(self, name), name)
        for name in ("smoothness", "density"):
            chance(getattr(self, name), name, zero=False)
        not_negative(self.margin, "margin")

    @property
    def assumed(self) -> tuple[str, ...]:
        """The assumptions in sentences."""
        return (
            f"the label's law is Hoelder smooth in the features: beta {self.smoothness:g}, L {self.lipschitz:g}",
            f"features fill the unit cube of dimension {self.dimension:g} with density at least {self.density:g}",
        )

    @property
    def assumed_margin(self) -> str:
        """The margin in a sentence."""
        return f"gaps between the likeliest class and the next are small only rarely: gamma {self.margin:g}"
