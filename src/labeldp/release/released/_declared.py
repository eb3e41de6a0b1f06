"""Labels that are randomized elsewhere: how, as somebody declares, and whether they can have been."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Self

import numpy as np
import pyarrow as pa

from labeldp import _checks
from labeldp._arrow import array_or_none
from labeldp._conversions import result_or_none
from labeldp._random_words import identifier, is_identifier
from labeldp._shapes import Float, Int
from labeldp._strict_json import strict_json
from labeldp.errors import InputError, VerificationError
from labeldp.mechanisms.randomizers import ClassRandomizer, Randomizer, check_registered, class_randomizer, expectation
from labeldp.privacy import UP, Classes, Guarantee, LabelSpace, shown_above
from labeldp.privacy.accounting import RowRanges
from labeldp.privacy.channels import Channel, EvenChannel, law_of, row_arrays
from labeldp.release.folder import CODES, DECLARED, UNREADABLE, Certificate, Draw, from_columns

#: The probability of refusing labels whose channel is as declared.
FALSE_ALARMS = 0.001


_SCHEMA = "labeldp/declaration/1"
#: The longest declaration that is read, in letters.
_MOST_LETTERS = 1 << 20


@dataclass(frozen=True, eq=False)
class Declaration:
    """A description of how labels are randomized where they arise, for devices and for whoever collects them.

    Attributes:
        label: The name of the label.
        mechanism: The mechanism, which is the same for all rows.
        declared_by: Who declares it, such as ``"survey 2026"``.
        name: A random name, under which a device keeps its report.

    Raises:
        InputError: Rows differ in the mechanism's channel, or nobody declares it.

    Example:
        >>> from labeldp import Classes, Declaration, RandomizedResponse
        >>> mechanism = RandomizedResponse(Classes(["no", "yes"]), 1.0)
        >>> declaration = Declaration("answer", mechanism, "survey 2026")
        >>> Declaration.from_json(declaration.to_json()).mechanism.epsilon
        1.0
        >>> print(declaration.meaning.partition(". ")[2])
        Whoever was 50 % sure of it can become at most 73.2 % sure by what is sent.
    """

    label: str
    mechanism: Randomizer
    declared_by: str
    name: str = field(default_factory=identifier)

    def __post_init__(self) -> None:
        check_registered(type(self.mechanism), self.channel)
        _checks.declarer(self.declared_by)
        if row_arrays(self.channel) or not isinstance(self.mechanism, ClassRandomizer):
            raise InputError("expected a mechanism for classes that is the same for all rows, found another")

    @property
    def channel(self) -> Channel:
        """The channel of each report."""
        return self.mechanism.channel()

    @property
    def meaning(self) -> str:
        """The most that anyone can learn from a report, in a sentence for the person who answers."""
        likely = Guarantee(self.channel.epsilon).posterior(0.5)
        sure = shown_above(UP.multiply(100, Decimal(repr(likely))), 3)
        return (
            "Your answer is changed at random before it leaves this device. Whoever was 50 % sure of it can become at "
            f"most {sure} % sure by what is sent."
        )

    def to_json(self) -> str:
        """The declaration as text, for devices and for ``labeldp import --declaration``."""
        plain = {
            "schema": _SCHEMA,
            "name": self.name,
            "label": self.label,
            "values": list(self.mechanism.space.points),
            "mechanism": self.mechanism.name,
            "epsilon": self.mechanism.epsilon,
            "law": law_of(self.channel),
            "declared_by": self.declared_by,
            "meaning": self.meaning,
        }
        return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a declaration, whose law and meaning must follow from its mechanism and epsilon.

        Raises:
            InputError: It is none.
        """
        try:
            body: Any = strict_json(text) if len(text) <= _MOST_LETTERS else None
            mechanism = class_randomizer(body["mechanism"])(Classes(body["values"]), body["epsilon"])
            declaration = cls(str(body["label"]), mechanism, body["declared_by"], str(body["name"]))
            if not is_identifier(declaration.name) or strict_json(declaration.to_json()) != body:
                raise ValueError
        except UNREADABLE:
            raise InputError("expected a declaration, as 'labeldp declare' writes it, found another text") from None
        return declaration

    def of_space(self, space: LabelSpace) -> Self:
        """The same for classes of a table, which may have them in another type."""
        return replace(self, mechanism=replace(self.mechanism, space=space))


def declared_certificate(label: str, mechanism: Randomizer, declared_by: str, rows: int) -> Certificate:
    """The certificate of labels that were randomized elsewhere, as somebody declares."""
    channel = mechanism.channel()
    charge = Draw.of(mechanism.name, channel, RowRanges.between(0, rows), Guarantee(channel.epsilon))
    return Certificate(
        *(identifier(), label, mechanism.space, rows, (charge,)),
        expects=expectation(channel, np.ones(())),
        assumptions=(DECLARED + declared_by, *mechanism.declared),
    )


def randomized_codes(labels: object, space: LabelSpace, channel: Channel) -> np.ndarray:
    """Released labels of users as the channel writes them.

    Raises:
        InputError: The rows differ in their channel, or a value is none that the channel can release.
        LabelError: A label is missing, or no declared class.
    """
    if row_arrays(channel):
        raise InputError("a mechanism whose rows differ, as with a prior, cannot be declared; pass one without")
    if channel.form == "class":
        return space.encode(labels).astype(np.int32)
    kind = {"set": pa.list_(space.arrow_type()), "number": pa.float64(), "index": pa.int32()}[channel.form]
    array = array_or_none(labels)
    column = None if array is None else result_or_none(lambda: array.cast(kind))
    try:
        if column is None:
            raise VerificationError(f"expected {channel.detail} in each row, found others")
        codes = from_columns({CODES: column}, space, channel)[CODES]
        if not channel.possible(codes).all():
            raise VerificationError(f"expected {channel.detail} in each row, found others")
    except VerificationError as problem:
        raise InputError(f"these labels cannot come from the declared mechanism: {problem}") from None
    return codes


def counts_of(channel: Channel, released: np.ndarray) -> Int[np.ndarray, "m"]:
    """The number of rows whose released label is each outcome, or has each class in its set."""
    if isinstance(channel, EvenChannel) and channel.form != "class":
        return np.asarray(channel.mask(released).sum(axis=0, dtype=np.int64))
    return np.bincount(released, minlength=len(_chances(channel)[0]))


def check_possible(channel: Channel, counts: Int[np.ndarray, "m"], rows: int) -> None:
    """Refuse counts of released labels that no true labels make likely.

    Whatever the true labels are, the count of an outcome is a sum of independent indicators, whose probabilities are
    between its least and its largest one. So its tails are below those of two binomial distributions (stochastic
    dominance). The false-alarm rate is shared out over both tails of all outcomes.

    Raises:
        InputError: One of these tails is below its share of ``FALSE_ALARMS``.
    """
    from scipy.special import bdtr, bdtrc  # noqa: PLC0415 (it loads slowly)

    least, largest = _chances(channel)
    level = FALSE_ALARMS / (2 * len(counts))
    too_few = bdtr(counts, rows, least) < level
    too_many = (counts > 0) & (bdtrc(counts - 1, rows, largest) < level)
    if (too_few | too_many).any():  # the message shows no count: these may be true labels, taken for randomized ones
        raise InputError(
            "these labels were not randomized as declared: one value is too frequent or too rare for the declared "
            f"mechanism, whatever the true labels are (false alarms: 1 in {round(1 / FALSE_ALARMS):,}); check "
            "mechanism, epsilon and classes"
        )


def _chances(channel: Channel) -> tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m"]]:
    """The least and the largest probability of each outcome, or of each class in a released set."""
    if isinstance(channel, EvenChannel):
        chance = channel.membership
        return np.full(channel.classes, float(chance.other)), np.full(channel.classes, float(chance.true))
    matrix = channel.table().matrix
    return matrix.min(axis=0), matrix.max(axis=0)
