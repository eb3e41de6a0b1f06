"""The guarantee: its parameters, trust model, privacy unit and assumptions."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from labeldp import _checks
from labeldp._notebook import Shown
from labeldp._spelling import canonical
from labeldp.privacy._rounding import exp_above, float_above, posterior_above, shown_above, sure_above

Trust = Literal["local", "central", "peer", "shuffle"]

_TRUST = {
    "local": "Each label was randomized alone",
    "central": "A trusted curator answered from all labels together",
    "peer": "Peers exchanged their labels before anything was released",
    "shuffle": "Each label was randomized alone, and the labels of each public cell were shuffled",
}

#: Side knowledge that the guarantee allows. Peers and shuffled cells promise nothing against observers of the mixing.
_KNOWN = {
    "local": "whatever else someone knows",
    "central": "whatever else someone knows",
    "peer": "whatever else someone knows, but for who asked whom and what peers tell",
    "shuffle": "whatever else someone knows, but for which row sent which label",
}

#: Knowledge on which a belief before the release may not rest.
_UNKNOWN = {"peer": "not who asked whom and what peers tell", "shuffle": "not which row sent which label"}

#: The prior probabilities that ``posterior_sentence`` takes as examples.
_EXAMPLES = (0.5, 0.1)


@dataclass(frozen=True)
class Guarantee(Shown):
    """A label differential privacy guarantee.

    Attributes:
        epsilon: Natural logarithm of the largest factor by which the probability of anything released can change
            when the labels of one unit are replaced, rounded up.
        delta: Failure probability; 0 is a pure guarantee.
        trust: The parties that see true labels: their holders alone (``"local"``), a curator, peers, or a shuffler.
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

    @property
    def spelled_unit(self) -> str:
        """The privacy unit in canonical spelling; a column named like "row" in another spelling is no row."""
        return self.unit if self.unit == "row" else f"{canonical(self.unit)} (column)"

    @property
    def labels(self) -> str:
        """The labels that epsilon covers together, in words."""
        return "one row's label" if self.unit == "row" else f"all labels of one {_checks.printable(self.unit)}"

    @property
    def statement(self) -> str:
        """The subject of a belief about these labels, in words."""
        return self.labels if self.unit == "row" else f"a statement about {self.labels}"

    @property
    def everything_else(self) -> str:
        """The knowledge on which a belief before the release may rest, in words."""
        return self._everything_else(())

    def exceptions(self, others: Collection[Trust]) -> tuple[str, ...]:
        """The knowledge on which a belief may not rest, here and in releases of other trust models, in words."""
        return tuple(text for trust, text in _UNKNOWN.items() if trust in {self.trust, *others})

    def _everything_else(self, others: Collection[Trust]) -> str:
        unknown = "".join(f"; {text}" for text in self.exceptions(others))
        return f"everything else (features, other labels, earlier releases{unknown})"

    def sentence(self) -> str:
        """The guarantee in one plain sentence, its numbers rounded up."""
        factor, epsilon = shown_above(exp_above(self.epsilon), 5), shown_above(self.epsilon, 7)
        delta = shown_above(self.delta, 5)
        plus = f", plus {delta}" if self.delta else ""
        return (
            f"{_TRUST[self.trust]}: {_KNOWN[self.trust]}, replacing {self.labels} changes the probability of "
            f"anything in this release by a factor of at most {factor}{plus} (epsilon {epsilon}, delta "
            f"{delta}); the kept columns are public and are not protected."
        )

    def posterior(self, prior: float) -> float:
        """The largest posterior probability of a statement about the labels of one unit, rounded up.

        Args:
            prior: The probability p of the statement for someone who knows everything but this release: the features,
                the labels of all other units, and what was released before. It is between 0 and 1.

        Guarantee:
            ``p e / (p e + 1 - p)`` for ``e = exp(epsilon)``, and e is the largest factor on the odds of a label against
            all others together. Given everything else, let P_y be the distribution of the release if the unit's labels
            are y. For delta 0, any two of these differ by a factor of at most e on every event, and so do any two
            mixtures of them: that over all y for which the statement is true, and that over the rest. The ratio of the
            two is the factor by which the odds of the statement change.

            For delta above 0, the two mixtures satisfy the same epsilon and delta. So the release is a post-processing
            of an experiment that discloses the statement with probability delta, and otherwise is randomized response
            at epsilon: its trade-off function bounds theirs from below. The bound holds unless that failure occurs.

            Someone who does not know the other labels may learn of them from a curator's answers, and through them of
            these: p is their belief once they know them. With every label randomized alone it suffices that they know
            what the other rows released.

        References:
            Kasiviswanathan and Smith 2014 for the reading by Bayes; Kairouz, Oh and Viswanath 2015 for delta.

        Raises:
            InputError: The prior is not between 0 and 1.

        Example:
            >>> from labeldp import Guarantee
            >>> [round(Guarantee(1.0).posterior(prior), 3) for prior in (0.5, 0.1)]
            [0.731, 0.232]
        """
        return float_above(posterior_above(_checks.share(prior, "prior"), self.epsilon))

    def posterior_sentence(self, whom: str = "a person", *, others: Collection[Trust] = ()) -> str:
        """The meaning of epsilon for a person, in one sentence whose probabilities are rounded up.

        Args:
            whom: What it is about, if a unit is not a person.
            others: The trust models of other releases that epsilon covers too.
        """
        half, tenth = (sure_above(posterior_above(prior, self.epsilon)) for prior in _EXAMPLES)
        failure = f", but for a failure of probability {shown_above(self.delta, 5)}" if self.delta else ""
        knowledge = self._everything_else(others)
        return (
            f"For {whom}: someone whom {knowledge} makes 50 % sure of {self.statement} can become at most "
            f"{half} % sure; 10 % sure, at most {tenth} %{failure}."
        )

    def __str__(self) -> str:
        return self.sentence()
