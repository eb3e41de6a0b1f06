"""Generators of synthetic features for a class, and the distribution of features that are released with labels.

Generators have the form of real features, and sources of their knowledge; conditional guarantees follow from the
distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa

from labeldp import _checks
from labeldp._shapes import Int
from labeldp._strict_json import strict_json
from labeldp.errors import InputError
from labeldp.mechanisms.resampling._coerce import digests, missing_or_endless
from labeldp.mechanisms.resampling._form import Form, form_from
from labeldp.privacy import UP, LabelSpace, printed_above
from labeldp.privacy.accounting import RenyiGuarantee, checked_divergence, divergence_sum, label_divergence
from labeldp.privacy.accounting import replaced_divergence as _replaced
from labeldp.privacy.channels import ClassChannel

#: The largest number of stored digests of the rows that a generator was fitted on: the least ones are stored.
MOST_SEEN = 1 << 16
#: Rows that a generator was fitted on are recognised only if at least this share of them is unique.
_DIFFERENT = 0.99
#: Private rows that may be recognised by chance: a number, and a share of them.
_FEW_KNOWN, _SHARE_KNOWN = 5, 0.05

_WHENCE = MappingProxyType(
    {
        "public": "public data",
        "auxiliary": "auxiliary rows, whose labels were declared public and which are not among the released ones",
        "paid split": "other rows, whose labels were released under a guarantee of their own",
    }
)


@dataclass(frozen=True)
class Source:
    """The source of a generator's knowledge, printed in the certificate.

    A generator that was fitted on the private rows discloses their labels through the features that it draws. The
    source declares that it was not.

    Attributes:
        kind: ``"public"``: data that anybody may see. ``"auxiliary"``: rows of the curator's own that are not
            released, with labels that need no protection. ``"paid split"``: other rows, whose labels were released
            under a guarantee.
        text: The data, in the user's words.
        certificate: The certificate of a paid split's release, as JSON; None for other sources.

    Example:
        >>> Source("public", "UCI Adult, 1994").sentence()
        'public data: UCI Adult, 1994'

    Raises:
        InputError: The kind is none of these, the text is empty, or a paid split comes without a certificate.
    """

    kind: str
    text: str
    certificate: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in _WHENCE:
            raise InputError(f"expected a source that is {', '.join(map(repr, _WHENCE))}, found {self.kind!r}")
        if not isinstance(self.text, str) or not self.text.strip():
            raise InputError("expected a text that names the data the generator was fitted on, found none")
        if (self.certificate is not None) != (self.kind == "paid split"):
            raise InputError("expected a certificate for a paid split and for no other source, found otherwise")
        if self.certificate is not None and not _is_object(self.certificate):
            raise InputError("expected the certificate of a paid split in JSON, found something else")

    def sentence(self) -> str:
        """The source in words."""
        return f"{_WHENCE[self.kind]}: {self.text}"

    def describe(self) -> dict[str, Any]:
        """The source as plain data."""
        plain = {"kind": self.kind, "text": self.text}
        return plain if self.certificate is None else {**plain, "certificate": self.certificate}


def _is_object(text: object) -> bool:
    try:
        return isinstance(text, str) and isinstance(strict_json(text), dict)
    except ValueError:
        return False


@dataclass(frozen=True, eq=False)
class Generator:
    """Synthetic features for classes, P^(X | j), in a public form.

    Attributes:
        space: The declared label space; the generator covers all its classes.
        form: The form of the rows.
        source: The source of the generator's knowledge.
        sampler: A function of class codes, an array of shape (m,), that returns m rows in the same order: a frame, a
            table, or an array if the form is one. It must draw afresh at every call, from entropy of its own that
            nobody else knows: a fixed seed would reveal which rows are synthetic. And it must draw each row
            independently, from the distribution of its class alone: sampling a table without replacement, or layers
            that normalise a batch, would reveal which rows are synthetic.
        log_floor: The logarithm of the least probability that the mean over classes, Qbar, gives any row that the form
            allows, if it is known; the form then has finitely many rows. The Rényi divergence of any distribution from
            Qbar is at most -log_floor, at any order.
        seen: Digests of the rows that it was fitted on; if there are ``MOST_SEEN``, the least of all digests. Rows can
            be recovered from digests by trial, so they stay in memory, and are written to a file only if the rows are
            public.

    Example:
        >>> from labeldp import Classes
        >>> space, form = Classes(["no", "yes"]), Form.of(np.array([[0.0], [0.25], [1.0]]))
        >>> def sampler(codes):
        ...     return np.random.default_rng().beta(1 + codes, 2 - codes)[:, None]
        >>> generator = Generator(space, form, Source("public", "a textbook"), sampler)
        >>> generator.sample([0, 1, 1]).num_rows
        3

    Raises:
        InputError: ``log_floor`` is impossible, or the form allows infinitely many rows.
    """

    space: LabelSpace
    form: Form
    source: Source
    sampler: Callable[[Int[np.ndarray, "m"]], object]
    log_floor: float | None = None
    seen: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if not isinstance(self.source, Source) or not callable(self.sampler):
            raise InputError(
                "expected a Source for the generator's knowledge, and a function of codes, "
                f"found {type(self.source).__name__} and {type(self.sampler).__name__}"
            )
        if self.log_floor is not None:
            cells = self.form.cells
            if cells is None:
                raise InputError("expected a floor for a form whose columns all list their values, found another form")
            if not math.isfinite(self.log_floor) or self.log_floor > -math.log(cells) + 1e-9:
                raise InputError(
                    f"expected log_floor of at most -log({cells}), the mean over all rows of the form, found another; "
                    "give the logarithm of the least probability"
                )
        object.__setattr__(self, "seen", frozenset(self.seen))

    def sample(self, codes: object) -> pa.Table:
        """Rows drawn afresh, one for each class code, in the form.

        Args:
            codes: Class codes from 0 to k - 1, shape (m,).

        Raises:
            InputError: A code is invalid; or the sampler failed, or returned other columns, types or numbers of rows,
                or NaN, infinite or missing values. The message shows nothing of the rows.
        """
        checked = _checked_codes(codes, self.space.size)
        if not checked.size:
            return self.form.schema.empty_table()
        return self.form.shaped(self._checked(self._sampled(checked), len(checked)))[0]

    def _sampled(self, codes: Int[np.ndarray, "m"]) -> object:
        """The rows of the sampler; of its exceptions only the type is reported, since a text may quote rows."""
        try:
            return self.sampler(codes)
        except Exception as problem:  # noqa: BLE001 (the sampler is the user's function)
            why = type(problem).__name__
        raise InputError(f"expected rows from the sampler, found that it raised {why}; fix the sampler")

    def _checked(self, rows: object, count: int) -> pa.Table:
        """The sampler's rows as a table, checked against the form."""
        try:
            table = self.form.table(rows)
        except InputError:
            table = None
        if table is None or table.num_rows != count:
            columns = ", ".join(f"{column.name!r} ({column.type})" for column in self.form.columns)
            raise InputError(
                f"expected {count} rows from the sampler, one for each code, with exactly the columns {columns}, found "
                "something else"
            )
        missing, endless = missing_or_endless(self.form.columns, table)
        may_lack = {column.name for column in self.form.columns if column.missing}
        lacking = [name for name in missing if name not in may_lack]
        if lacking or endless:
            names = ", ".join(map(repr, dict.fromkeys([*lacking, *endless])))
            raise InputError(f"expected finite values in every row from the sampler, found others in {names}")
        return table

    def check_private(self, rows: pa.Table) -> None:
        """Refuse the rows that the generator was fitted on.

        This detects accidents, not intent. Slightly changed rows are not recognised; nor are rows of which more than
        one in a hundred occurs twice, since other people's rows would be mistaken for them; nor are private rows of a
        generator from a file, which stores digests of public rows alone.

        Args:
            rows: Private rows, as ``Form.table`` returns them.

        Raises:
            InputError: More than 5 of the different rows plus one in twenty of them are recognised.
        """
        if not self.seen:
            return
        private = np.unique(row_digests(self.form, rows))
        if len(self.seen) >= MOST_SEEN:
            private = private[private <= np.uint64(max(self.seen))]
        digests = np.fromiter(self.seen, dtype=np.uint64, count=len(self.seen))
        recognised = int(np.isin(private, digests).sum())
        if recognised > _FEW_KNOWN + _SHARE_KNOWN * len(private):
            raise InputError(
                "expected private rows that the generator was not fitted on, found rows that it was fitted on: its "
                "draws would disclose their labels; fit it on public or auxiliary rows, or on other rows whose labels "
                "were released"
            )

    def describe(self) -> dict[str, Any]:
        """Source and form as plain data, for a certificate."""
        return {"source": self.source.describe(), "form": self.form.describe()}


def row_digests(form: Form, rows: pa.Table) -> np.ndarray:
    """64-bit digests of rows, after shaping: equal for equal rows."""
    return digests(form.columns, form.shaped(rows)[0])


def seen_in(form: Form, rows: pa.Table) -> frozenset[int]:
    """The digests by which a generator recognises the rows that it was fitted on; none if many rows are equal."""
    digests = row_digests(form, rows)
    different, counts = np.unique(digests, return_counts=True)
    # the share of unique rows estimates the probability that another row is none of these (Good 1953)
    if (counts == 1).sum() < _DIFFERENT * len(digests):
        return frozenset()
    return frozenset(different[:MOST_SEEN].tolist())


def _checked_codes(codes: object, size: int) -> Int[np.ndarray, "m"]:
    """A copy of class codes, checked."""
    array = np.array(codes)
    if not array.size:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= size:
        raise InputError(f"expected class codes from 0 to {size - 1}, shape (m,), found something else")
    return array.astype(np.int64)


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
