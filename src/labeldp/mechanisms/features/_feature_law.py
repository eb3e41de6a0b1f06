"""The law by which features leave beside a released label, and what follows for conditional features."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from itertools import accumulate
from typing import Any, Literal, Self

from labeldp import _checks
from labeldp.errors import InputError
from labeldp.mechanisms.features._form import form_from
from labeldp.mechanisms.features._generator import Source
from labeldp.privacy import printed_above
from labeldp.privacy.accounting import RenyiGuarantee, checked_divergence, divergence_sum, label_divergence
from labeldp.privacy.accounting import replaced_divergence as _replaced
from labeldp.privacy.channels import ClassChannel

Basis = Literal["declared", "floor", "no features"]

#: Words that decide whether a row's features are redrawn.
WORDS = 1 << 64
#: Orders that are told of where one bound holds for all of them.
ORDERS = (2.0, 8.0, 64.0, math.inf)
ANY_POPULATION = "any law of features given labels"

#: Of the logarithm of a number of rows.
_SLACK = 1e-9
_UP = Context(prec=80, rounding=ROUND_CEILING)
_ROWS_APART = "the features of a row depend on the label of that row alone"
_NOWHERE_ELSE = (
    "the features of these rows are released nowhere else, not even in part: who sees them twice knows which are true"
)
_FRESH = (
    "the generator draws each row by itself, by its law for the class alone, and its random numbers are known to nobody"
)
_BASES = {
    "declared": "the features of each label diverge from the generator's, all labels mixed, by at most {}, as declared",
    "floor": "the generator gives every row of its form the chance that it states, so that no law diverges by over {}",
}


@dataclass(frozen=True)
class FeatureLaw:
    """How features leave: as they are, or redrawn from a generator's mixture of all labels; or not at all.

    Attributes:
        replaced: Of ``2**64`` words, those at which the features of a row are redrawn, whatever its label.
        classes: Number of classes, k; the class that features are drawn for is a word modulo k.
        generator: What is public of the generator: where its knowledge comes from, and the form of its rows. None where
            no features are released.
        population: The law that the features of a label are drawn from, in words.
        divergences: Pairs of an order and a bound of the Rényi divergence of that order, in nats, of the true features
            of any label from the generator's of all labels mixed.
        basis: Where the bounds come from: ``"declared"``; ``"floor"``, the least density of the generator; or
            ``"no features"``.

    Guarantee:
        * Static features: features leave by a law that does not depend on the label, so that the released label's
          guarantee is that of the row.
        * Conditional features: ``conditional``, of each order for which a divergence is known.

    References:
        Busa-Fekete et al. 2023, mechanisms 2 and 3.
    """

    replaced: int
    classes: int
    generator: Mapping[str, Any] | None
    population: str
    divergences: tuple[tuple[float, float], ...]
    basis: Basis

    def __post_init__(self) -> None:
        if not 1 <= self.replaced <= WORDS:
            raise InputError("expected features that are redrawn with a chance above 0, found another")
        if (self.generator is None) != (self.basis == "no features") or (
            self.generator is None and (self.replaced != WORDS or self.divergences != _of_all_orders(0.0))
        ):
            raise InputError("expected a generator wherever features are released, found none, or one where none are")
        if not isinstance(self.population, str) or not self.population.strip():
            raise InputError("expected the population that features are drawn from, in words, found nothing")
        if self.basis not in (*_BASES, "no features"):
            raise InputError(f"expected a basis among {', '.join(_BASES)}, found another")
        for alpha, divergence in self.divergences:
            RenyiGuarantee(alpha, 0.0)  # refuses what is no order
            checked_divergence(divergence)
        orders, bounds = [alpha for alpha, _ in self.divergences], [bound for _, bound in self.divergences]
        if orders != sorted(set(orders)) or bounds != sorted(bounds):
            raise InputError(
                "expected increasing orders, each once, with divergences that do not fall, since true ones do not, "
                "found others"
            )
        if self.generator is not None:
            self._check_generator(bounds)

    def _check_generator(self, bounds: list[float]) -> None:
        """A source and a form, and no more; and a floor that rows of that form can have."""
        described = dict(self.generator or {})
        form = form_from(described.get("form"))
        known = {"source": Source(**described.get("source", {})).describe(), "form": form.describe()}
        if described != known:
            raise InputError("expected the source and the form of a generator, and nothing else, found other parts")
        if self.basis == "floor":
            cells = form.cells
            if cells is None or bounds != [bounds[0]] * len(ORDERS) or bounds[0] < math.log(cells) * (1 - _SLACK):
                raise InputError(
                    "expected a floor of a form of finitely many rows, of which the least likely has at most an even "
                    "chance, found another"
                )

    @classmethod
    def without_features(cls, classes: int) -> Self:
        """Labels alone, with no features at all (mechanism 3)."""
        return cls(WORDS, classes, None, ANY_POPULATION, _of_all_orders(0.0), "no features")

    @classmethod
    def of(
        cls,
        replaced: int,
        classes: int,
        generator: Mapping[str, Any],
        population: str,
        divergences: Mapping[float, float] | None,
        log_floor: float | None,
    ) -> Self:
        """The law with declared divergences, or with those that follow from the least density of the generator.

        Where every row of the generator's form has at least the chance c under the mixture, ``P_y / Q <= 1 / c``
        whatever the law ``P_y`` of rows of that form, so that every order diverges by at most ``-log c``. Declared
        bounds count only where one of them is below that.
        """
        floor = None if log_floor is None else max(0.0, printed_above(Decimal(-log_floor)))
        if divergences is not None and not isinstance(divergences, Mapping):
            raise InputError(
                "expected divergences as orders with their bounds, such as {2.0: 0.4}, found something else"
            )
        if divergences and (floor is None or min(divergences.values()) < floor):
            declared = sorted(
                ((_checks.number(alpha, "alpha"), divergence) for alpha, divergence in divergences.items()),
                reverse=True,
            )
            least = accumulate((divergence for _, divergence in declared), min)  # what holds at an order holds below it
            pairs = [(alpha, bound) for (alpha, _), bound in zip(declared, least, strict=True)]
            return cls(replaced, classes, generator, population, tuple(reversed(pairs)), "declared")
        if floor is None:
            return cls(replaced, classes, generator, population, (), "declared")
        return cls(replaced, classes, generator, population, _of_all_orders(floor), "floor")

    @property
    def chance(self) -> Fraction:
        """The chance that the features of a row are redrawn, exactly."""
        return Fraction(self.replaced, WORDS)

    @property
    def paid_split(self) -> str:
        """The name of the release that the generator was fitted on, if it was: features of its rows were given up."""
        text = None if self.generator is None else self.generator["source"].get("certificate")
        return "" if text is None else str(json.loads(text).get("release", ""))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What conditional guarantees rest on beside a divergence."""
        if self.generator is None:
            return (_ROWS_APART,)
        source = Source(**self.generator["source"])
        seen = f"the generator saw none of these rows; it knows {source.sentence()}"
        return (seen, _FRESH, _ROWS_APART, _NOWHERE_ELSE)

    def conditional(self, channel: ClassChannel) -> tuple[RenyiGuarantee, ...]:
        """What is promised with conditional features, for each order: the sum of the label's part and the features'.

        Given the label, the released label and the released features are independent, so their divergences add up. That
        of the label is exact for randomized response (``label_divergence``), that of the features is bounded by
        Minkowski's inequality (``replaced_divergence``). A word modulo k gives each class a chance of at least
        ``(1 - k / 2**64) / k``, so the mixture has at least ``1 - k / 2**64`` of the even one's density, which adds
        ``-log(1 - k / 2**64)`` to the divergence.

        Args:
            channel: The law of the released label.
        """
        return tuple(
            RenyiGuarantee(
                alpha,
                divergence_sum(label_divergence(channel, alpha), self._features(alpha, divergence)),
                "conditional",
                self.population,
                (*(_BASES[self.basis].format(divergence) for _ in (1,) if self.generator), *self.assumptions),
            )
            for alpha, divergence in self.divergences
        )

    def _features(self, alpha: float, divergence: float) -> float:
        """The features' part."""
        if self.generator is None:
            return 0.0
        uneven = _UP.divide(Decimal(self.classes), Decimal(WORDS - self.classes))  # at least -log(1 - k / 2**64)
        return _replaced(alpha, self.chance, printed_above(_UP.add(Decimal(repr(divergence)), uneven)))

    def plain(self) -> dict[str, Any]:
        """The law as JSON holds it; numbers as texts, since JSON knows no infinity."""
        return {
            "replaced": str(self.replaced),
            "classes": str(self.classes),
            "generator": None if self.generator is None else dict(self.generator),
            "population": self.population,
            "divergences": [[repr(alpha), repr(divergence)] for alpha, divergence in self.divergences],
            "basis": self.basis,
        }

    @classmethod
    def from_plain(cls, body: Mapping[str, Any]) -> Self:
        """The law that JSON holds."""
        return cls(
            int(body["replaced"]),
            int(body["classes"]),
            body["generator"],
            body["population"],
            tuple((float(alpha), float(divergence)) for alpha, divergence in body["divergences"]),
            body["basis"],
        )


def _of_all_orders(divergence: float) -> tuple[tuple[float, float], ...]:
    return tuple((alpha, divergence) for alpha in ORDERS)
