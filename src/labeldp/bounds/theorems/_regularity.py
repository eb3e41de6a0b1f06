"""Regularity assumptions on the learned function, with the constants of the theorems."""

from __future__ import annotations

from dataclasses import dataclass

from labeldp import _checks


@dataclass(frozen=True)
class Regularity:
    """Smoothness of the label's distribution, over features in the unit cube.

    Args:
        dimension: d, of the features; for data near a surface, the dimension of that surface.
        smoothness: beta, above 0 and at most 1: ``|eta_j(x) - eta_j(x')| <= L |x - x'|^beta``.
        lipschitz: L.
        margin: gamma, at least 0: ``P(0 < eta* - eta_s < t) <= C t^gamma`` for the largest probability of a class and
            the largest one below it. 0 assumes nothing.
        margin_constant: C.
        density: The least density of the features on their support, at most 1.

    Raises:
        InputError: A number is out of range.

    References:
        Zhao et al. 2025, assumption 1. It prints eta_s as the second largest probability; if two classes are equally
        likely, the margin then does not exclude a third one just below them, as theorems 2 and 4 require.
    """

    dimension: float
    smoothness: float = 1.0
    lipschitz: float = 1.0
    margin: float = 1.0
    margin_constant: float = 1.0
    density: float = 1.0

    def __post_init__(self) -> None:
        for name in ("dimension", "lipschitz", "margin_constant"):
            _checks.positive(getattr(self, name), name)
        for name in ("smoothness", "density"):
            _checks.share(getattr(self, name), name, "(]")
        _checks.not_negative(self.margin, "margin")

    @property
    def assumed(self) -> tuple[str, ...]:
        """The assumptions as sentences."""
        return (
            f"the label's distribution is Hoelder smooth: beta {self.smoothness:g}, L {self.lipschitz:g}",
            f"features fill the unit cube of dimension {self.dimension:g} with density at least {self.density:g}",
        )

    @property
    def assumed_margin(self) -> str:
        """The margin as a sentence."""
        return f"small gaps between the likeliest class and the next are rare: gamma {self.margin:g}"
