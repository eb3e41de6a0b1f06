"""The distribution of features that are released with labels, and the conditional guarantees that follow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, Self

from labeldp import _checks
from labeldp._strict_json import strict_json
from labeldp.errors import InputError
from labeldp.mechanisms.resampling._form import form_from
from labeldp.mechanisms.resampling._generator import Source
from labeldp.privacy import UP, printed_above
from labeldp.privacy.accounting import RenyiGuarantee, checked_divergence, divergence_sum, label_divergence
from labeldp.privacy.accounting import replaced_divergence as _replaced
from labeldp.privacy.channels import ClassChannel

Basis = Literal["declared", "floor", "no features"]

#: Number of words that decide if a row's features are resampled.
WORDS = 1 << 64
#: Orders that are reported if one bound holds for all orders.
ORDERS = (2.0, 8.0, 64.0, math.inf)
ANY_POPULATION = "any law of features given labels"
#: The population without a description of it.
POPULATION = "the law of features given the new label"

#: Relative tolerance of the logarithm of a number of rows.
_SLACK = 1e-9
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
    """The distribution of released features: unchanged, resampled from a generator's mixture over labels, or none.

    Attributes:
        replaced: Number of words, of ``2**64``, that resample the features of a row, whatever its label.
        classes: Number of classes, k; features are resampled for the class that a word modulo k gives.
        generator: The public description of the generator: its source, and the form of its rows. None if no features
            are released.
        population: The population that the features of a label are drawn from, in words.
        divergences: Pairs of an order and a bound on the Rényi divergence of that order, in nats, of the true features
            of any label from the generator's mixture over all labels.
        basis: The origin of the bounds: ``"declared"``; ``"floor"``, the least density of the generator; or
            ``"no features"``.
        floor: The bound of the least density, at orders where it is less than a declared one; None if there are none.

    Guarantee:
        * Static features: the release of features does not depend on the label, so the released label's guarantee is
          that of the row.
        * Conditional features: ``conditional``, for each order with a known divergence.

    References:
        Busa-Fekete et al. 2023, mechanisms 2 and 3.
    """

    replaced: int
    classes: int
    generator: Mapping[str, Any] | None
    population: str
    divergences: tuple[tuple[float, float], ...]
    basis: Basis
    floor: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.replaced <= WORDS:
            raise InputError("expected a resampling probability of features above 0, found another")
        if (self.generator is None) != (self.basis == "no features") or (
            self.generator is None
            and (self.replaced, self.divergences, self.floor) != (WORDS, _of_all_orders(0.0), None)
        ):
            raise InputError("expected a generator if and only if features are released, found otherwise")
        if not isinstance(self.population, str) or not self.population.strip():
            raise InputError("expected the population whose features these are, in words, found nothing; name it")
        if self.basis not in (*_BASES, "no features"):
            raise InputError(f"expected a basis among {', '.join(_BASES)}, found another")
        for alpha, divergence in self.divergences:
            RenyiGuarantee(alpha, 0.0)  # refuses invalid orders
            checked_divergence(divergence)
        orders, bounds = [alpha for alpha, _ in self.divergences], [bound for _, bound in self.divergences]
        if orders != sorted(set(orders)) or bounds != sorted(bounds):
            raise InputError(
                "expected increasing orders, each once, with divergences that do not decrease, as true divergences do "
                "not, found others"
            )
        if self.generator is not None:
            self._check_generator(bounds)

    def _check_generator(self, bounds: list[float]) -> None:
        """Refuse a description that is not exactly a source and a form, and a floor that this form cannot have."""
        described = dict(self.generator or {})
        form = form_from(described.get("form"))
        expected = {"source": Source(**described.get("source", {})).describe(), "form": form.describe()}
        if described != expected:
            raise InputError("expected the source and the form of a generator, and nothing else, found other fields")
        if self.basis == "floor" or self.floor is not None:
            floor, cells = max(bounds, default=0.0), form.cells
            everywhere = self.floor is None and bounds == [floor] * len(ORDERS)
            stated = everywhere if self.basis == "floor" else floor == self.floor
            if cells is None or not stated or floor < math.log(cells) * (1 - _SLACK):
                raise InputError(
                    "expected a floor for a form of finitely many rows, at most one over their number, found another"
                )

    @classmethod
    def without_features(cls, classes: int) -> Self:
        """Released labels without features (mechanism 3)."""
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
        """The distribution with the smaller of the declared and the proven bound at each order.

        If every row of the generator's form has at least the probability c under the mixture, ``P_y / Q <= 1 / c`` for
        any distribution ``P_y`` on rows of that form, so the divergence of every order is at most ``-log c``. A
        declared bound holds for all lower orders too.
        """
        floor = None if log_floor is None else max(0.0, printed_above(Decimal(-log_floor)))
        if divergences is not None and not isinstance(divergences, Mapping):
            raise InputError(
                "expected divergences as orders with their bounds, such as {2.0: 0.4}, found something else"
            )
        declared = [(_checks.number(alpha, "alpha"), bound) for alpha, bound in (divergences or {}).items()]
        proven = [] if floor is None else [floor]
        if floor is not None and not any(bound < floor for _, bound in declared):
            return cls(replaced, classes, generator, population, _of_all_orders(floor), "floor")
        orders = sorted({alpha for alpha, _ in declared} | set(ORDERS if proven else ()))
        bounds = [min([bound for above, bound in declared if above >= alpha] + proven) for alpha in orders]
        used = floor if floor in bounds else None
        return cls(replaced, classes, generator, population, tuple(zip(orders, bounds, strict=True)), "declared", used)

    @property
    def chance(self) -> Fraction:
        """The exact probability that the features of a row are resampled."""
        return Fraction(self.replaced, WORDS)

    @property
    def paid_split(self) -> str:
        """The name of the release that the generator was fitted on, or an empty text."""
        text = None if self.generator is None else self.generator["source"].get("certificate")
        return "" if text is None else str(strict_json(text).get("release", ""))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions of conditional guarantees, beside the divergence."""
        if self.generator is None:
            return (_ROWS_APART,)
        source = Source(**self.generator["source"])
        unseen = f"the generator saw none of these rows; it knows {source.sentence()}"
        return (unseen, _FRESH, _ROWS_APART, _NOWHERE_ELSE)

    def conditional(self, channel: ClassChannel) -> tuple[RenyiGuarantee, ...]:
        """The guarantees with conditional features, for each order: the sum of the label's and the features' parts.

        Given the label, the released label and the released features are independent, so their divergences add up. That
        of the label is exact for randomized response (``label_divergence``), that of the features is bounded by
        Minkowski's inequality (``replaced_divergence``). A word modulo k gives each class a probability of at least
        ``(1 - k / 2**64) / k``, so the mixture has at least ``1 - k / 2**64`` of the uniform mixture's density, which
        adds ``-log(1 - k / 2**64)`` to the divergence.
        """
        return tuple(
            RenyiGuarantee(
                alpha,
                divergence_sum(label_divergence(channel, alpha), self._features_divergence(alpha, divergence)),
                "conditional",
                self.population,
                (*self._divergence_assumed(divergence), *self.assumptions),
            )
            for alpha, divergence in self.divergences
        )

    def _divergence_assumed(self, divergence: float) -> tuple[str, ...]:
        """The assumption on which a bound on the divergence rests, if features are released."""
        if self.generator is None:
            return ()
        return (_BASES["floor" if divergence == self.floor else self.basis].format(divergence),)

    def _features_divergence(self, alpha: float, divergence: float) -> float:
        """The features' part of the divergence."""
        if self.generator is None:
            return 0.0
        uneven = UP.divide(Decimal(self.classes), Decimal(WORDS - self.classes))  # at least -log(1 - k / 2**64)
        return _replaced(alpha, self.chance, printed_above(UP.add(Decimal(repr(divergence)), uneven)))

    def plain(self) -> dict[str, Any]:
        """The description for JSON; numbers are texts, since JSON has no infinity."""
        return {
            "replaced": str(self.replaced),
            "classes": str(self.classes),
            "generator": None if self.generator is None else dict(self.generator),
            "population": self.population,
            "divergences": [[repr(alpha), repr(divergence)] for alpha, divergence in self.divergences],
            "basis": self.basis,
            **({} if self.floor is None else {"floor": repr(self.floor)}),
        }

    @classmethod
    def from_plain(cls, body: Mapping[str, Any]) -> Self:
        """The distribution that a JSON description stands for."""
        return cls(
            int(body["replaced"]),
            int(body["classes"]),
            body["generator"],
            body["population"],
            tuple((float(alpha), float(divergence)) for alpha, divergence in body["divergences"]),
            body["basis"],
            float(body["floor"]) if "floor" in body else None,
        )


def _of_all_orders(divergence: float) -> tuple[tuple[float, float], ...]:
    return tuple((alpha, divergence) for alpha in ORDERS)
