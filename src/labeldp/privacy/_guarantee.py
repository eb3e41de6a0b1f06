"""The guarantee: its parameters, trust model, privacy unit and assumptions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from labeldp import _checks
from labeldp.privacy._rounding import exp_above, shown_above

Trust = Literal["local", "central", "peer"]

_TRUST = {
    "local": "Each label was randomized alone",
    "central": "A trusted curator answered from all labels together",
    "peer": "Peers exchanged their labels before anything was released",
}

#: Side knowledge that the guarantee allows. Peers promise nothing against observers of their exchange.
_KNOWN = {
    "local": "whatever else someone knows",
    "central": "whatever else someone knows",
    "peer": "whatever else someone knows, but for who asked whom and what peers tell",
}


@dataclass(frozen=True)
class Guarantee:
    """A label differential privacy guarantee.

    Attributes:
        epsilon: Natural logarithm of the largest factor by which the probability of anything released can change
            when the labels of one unit are replaced, rounded up.
        delta: Failure probability; 0 is a pure guarantee.
        trust: The parties that see true labels: their holders alone (``"local"``), a curator, or peers.
        unit: The privacy unit: ``"row"``, or the name of the column that identifies units.
        features: ``"static"``: features are public and do not change with the label.
        assumptions: Declared, unchecked assumptions.
        rho: The parameter of zero-concentrated differential privacy that the mechanism satisfies too, rounded up; None
            where no better one is known than epsilon and delta imply.

    Guarantee:
        The meaning of these fields never changes under a schema version of the certificate.

    References:
        Dwork et al. 2006 for epsilon; Chaudhuri and Hsu 2011 for privacy of labels; Bun and Steinke 2016 for rho.
    """

    epsilon: float
    delta: float = 0.0
    trust: Trust = "local"
    unit: str = "row"
    features: Literal["static"] = "static"
    assumptions: tuple[str, ...] = ()
    rho: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0):
            raise ValueError(f"expected a finite epsilon of at least 0, found {self.epsilon!r}")
        _checks.delta(self.delta)
        if self.trust not in _TRUST or self.features != "static" or not isinstance(self.unit, str):
            raise ValueError(
                f"expected trust among {', '.join(_TRUST)}, static features and a unit's name, found others"
            )
        if self.rho is not None and not (math.isfinite(self.rho) and self.rho >= 0):
            raise ValueError(f"expected a finite rho of at least 0, or none, found {self.rho!r}")

    def sentence(self) -> str:
        """The guarantee in one plain sentence, its numbers rounded up."""
        labels = "one row's label" if self.unit == "row" else f"all labels of one {_checks.printable(self.unit)}"
        factor, epsilon = shown_above(exp_above(self.epsilon), 5), shown_above(self.epsilon, 7)
        delta = shown_above(self.delta, 5)
        plus = f", plus {delta}" if self.delta else ""
        return (
            f"{_TRUST[self.trust]}: {_KNOWN[self.trust]}, replacing {labels} changes the probability of "
            f"anything in this release by a factor of at most {factor}{plus} (epsilon {epsilon}, delta "
            f"{delta}); the kept columns are public and are not protected."
        )

    def __str__(self) -> str:
        return self.sentence()
