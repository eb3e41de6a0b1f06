"""Labels that are randomized elsewhere: how, as somebody declares, and whether they can have been."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence, Sized
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from labeldp import _checks
from labeldp._random_words import identifier, is_identifier
from labeldp._shapes import Float, Int
from labeldp._strict_json import strict_json
from labeldp.columns import array_or_none, floats, result_or_none
from labeldp.errors import InputError, VerificationError
from labeldp.mechanisms.randomizers import (
    ClassRandomizer,
    GroupResponse,
    RandomizedResponse,
    Randomizer,
    check_registered,
    class_randomizer,
    expectation,
    grouped,
    undivided,
    unit_sizes,
)
from labeldp.privacy import Classes, Guarantee, LabelSpace, log_above, power_above, sure_above
from labeldp.privacy.accounting import RowRanges
from labeldp.privacy.channels import MOST_CLASSES, Channel, MatrixChannel, concatenated_channel, law_of, row_arrays
from labeldp.release.folder import (
    CODES,
    DECLARED,
    ELSEWHERE,
    UNITS_PUBLIC,
    UNREADABLE,
    Certificate,
    Draw,
    from_columns,
    text_of,
)
from labeldp.release.released._possible import check_rows_possible
from labeldp.release.tables import unit_numbers

#: The most mechanisms of different rows, all of which stand in the certificate.
_MOST_MECHANISMS = 4096
_BY_ROW = "the mechanism of each row is public, and does not depend on labels"

_MOST_ANSWERS = 1000
_SCHEMA = "labeldp/declaration/1"
#: The longest declaration that is read, in bytes.
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class Declaration:
    """A description of how labels are randomized where they arise, for devices and for whoever collects them.

    Attributes:
        label: The name of the label.
        mechanism: The mechanism of each answer, which is the same for all rows: one that a label space and an epsilon
            determine, or ``GroupResponse`` with one partition.
        declared_by: Who declares it, such as ``"survey 2026"``.
        name: A random name, under which a device keeps its report.
        answers: The most answers of a person, each of which is randomized alone; their epsilons add up.

    Raises:
        InputError: Rows differ in the mechanism's channel, all answers are one group, or nobody declares it.

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
    answers: int = 1

    def __post_init__(self) -> None:
        _checks.whole(self.answers, "answers", 1, _MOST_ANSWERS)
        check_registered(type(self.mechanism), self.channel)
        _checks.declarer(self.declared_by)
        if not isinstance(self.mechanism, ClassRandomizer) or not _is_same_for_all(self.mechanism):
            raise InputError("expected a mechanism for classes that is the same for all rows, found another")
        if len(self.groups) == 1:
            raise InputError("expected two or more groups of answers, found one, of which nothing could be learned")

    @property
    def channel(self) -> Channel:
        """The channel of each report."""
        return self.mechanism.channel()

    @property
    def groups(self) -> tuple[tuple[Any, ...], ...]:
        """The groups of adjacent answers of which one leaves; none without such a mechanism."""
        if not isinstance(self.mechanism, GroupResponse):
            return ()
        numbered = zip(self.mechanism.channel().groups()[0].tolist(), self.mechanism.space.points, strict=True)
        return tuple(tuple(point for _, point in each) for _, each in itertools.groupby(numbered, lambda pair: pair[0]))

    @property
    def meaning(self) -> str:
        """The most that anyone can learn from a report, in a sentence for the person who answers."""
        epsilon = log_above(power_above(self.channel.odds, self.answers))
        sure = sure_above(Guarantee(epsilon).posterior(0.5))
        each, it = ("Your answer is", "it") if self.answers == 1 else ("Each answer is", "all your answers")
        return (
            f"{each} changed at random before it leaves this device. Whoever was 50 % sure of {it} can become at most "
            f"{sure} % sure by what is sent."
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
            **({"answers": self.answers} if self.answers > 1 else {}),
            **({"groups": [list(group) for group in self.groups]} if self.groups else {}),
        }
        return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a declaration, whose law and meaning must follow from its mechanism and epsilon.

        Raises:
            InputError: It is none.
        """
        try:
            body: Any = strict_json(text) if len(text) <= _MOST_BYTES else None
            law = (Classes(body["values"]), body["epsilon"])
            groups = body.get("groups")
            mechanism = GroupResponse(*law, groups=groups) if groups else class_randomizer(body["mechanism"])(*law)
            rest = (body["declared_by"], str(body["name"]), body.get("answers", 1))
            declaration = cls(str(body["label"]), mechanism, *rest)
            if not is_identifier(declaration.name) or strict_json(declaration.to_json()) != body:
                raise ValueError
        except UNREADABLE:
            raise InputError("expected a declaration, as 'labeldp declare' writes it, found another text") from None
        return declaration

    @classmethod
    def read(cls, file: str | Path) -> Self:
        """The declaration in a file.

        Raises:
            InputError: There is none.
        """
        try:
            text = text_of(Path(file), _MOST_BYTES)
        except (OSError, UnicodeError, VerificationError):
            raise InputError(f"expected a declaration at {file}, found no file that can be read") from None
        return cls.from_json(text)

    @cached_property
    def codes(self) -> dict[tuple[type, object], int]:
        """The code of each value by its type in JSON, in which true is not 1."""
        return {(type(value), value): code for code, value in enumerate(self.mechanism.space.points)}


def _is_same_for_all(mechanism: Randomizer) -> bool:
    """True if the channel of any number of rows has no parameters of single rows, or the same ones for each."""
    channels = ((rows, mechanism.for_rows(rows).channel()) for rows in (1, 2))
    return all(len(values) == rows for rows, channel in channels for values in row_arrays(channel).values())


@dataclass(frozen=True, eq=False)
class DeclaredChannel:
    """A channel that no randomizer here draws from, or one for each row, for ``Release.randomized``.

    Args:
        space: The declared label space.
        channel: The channel of all rows, or one with an entry for each row.

    Example:
        >>> from labeldp import Classes, DeclaredChannel, Release
        >>> space = Classes(["no", "yes"])
        >>> survey = DeclaredChannel.matrix(space, [[0.9, 0.1], [0.3, 0.7]])
        >>> print(Release.randomized(["yes", "no"], survey, declared_by="survey 2026").guarantee.epsilon < 1.95)
        True
    """

    name: ClassVar[str] = ELSEWHERE

    space: LabelSpace
    of_labels: Channel
    declared: tuple[str, ...] = ()
    mass: np.ndarray = field(default_factory=lambda: np.ones(()), init=False, repr=False)

    @classmethod
    def matrix(cls, space: LabelSpace, probabilities: object, *, rounded: float = 0.0) -> Self:
        """The channel of a matrix of probabilities, as surveys and other libraries state it.

        Args:
            space: The declared label space of at most 256 classes.
            probabilities: For each true class, in declared order, the probabilities of all reported ones, shape (k, k).
            rounded: The most by which each is off: 0.005 if they were rounded to two decimals. Epsilon covers it.

        Raises:
            InputError: They are no such matrix, do not sum to 1, may be 0, or tell nothing of some class.
        """
        values = floats(probabilities, "probabilities")
        if values.shape != (space.size, space.size) or not np.isfinite(values).all() or space.size > MOST_CLASSES:
            raise InputError(
                f"expected a matrix of probabilities for {space.size} classes, at most {MOST_CLASSES}, found shape "
                f"{values.shape}"
            )
        channel = MatrixChannel.of(values.tolist(), _checks.share(rounded, "rounded"))
        if not channel.identifies:
            raise InputError("expected probabilities that tell classes apart, found a line that follows from others")
        return cls(space, channel)

    @classmethod
    def by_row(cls, mechanisms: Sequence[Randomizer | DeclaredChannel]) -> Self:
        """The mechanism of each row, such as ``RandomizedResponse.keeping(space, rate)`` with a rate of its own.

        Args:
            mechanisms: One for each row, in order; all of one label space. There are at most 4,096 different ones.

        Raises:
            InputError: They differ in label space or in the form of what they release, or there are too many.
        """
        every = list(mechanisms)
        if not every or any(each.space != every[0].space for each in every):
            raise InputError("expected a mechanism of one label space for each row, found none or several spaces")
        runs = [(each.channel(), len(list(alike))) for each, alike in itertools.groupby(every)]
        channel = concatenated_channel(runs)
        _check_few(len(channel.units))
        return cls(every[0].space, channel, (_BY_ROW,))

    @classmethod
    def by_rate(cls, space: LabelSpace, rates: Float[np.ndarray, "n"]) -> Self:
        """Randomized response that keeps the label of each row with a rate of its own.

        Args:
            space: The declared label space of k classes.
            rates: The probability of a true answer in each row, above 1/k and below 1, of at most 4,096 values.

        Raises:
            InputError: A rate is none, or there are too many.
        """
        values, numbers, counts = np.unique(rates, return_inverse=True, return_counts=True)
        _check_few(len(values))
        laws = [RandomizedResponse.keeping(space, rate).channel() for rate in values.tolist()]
        by_value = concatenated_channel(list(zip(laws, counts.tolist(), strict=True)))
        places = np.argsort(np.argsort(numbers, kind="stable"))
        return cls(space, by_value.take(places), (_BY_ROW,))

    def channel(self) -> Channel:
        """The channel."""
        return self.of_labels

    def for_rows(self, rows: int) -> Self:
        """The object itself."""
        del rows
        return self


def _check_few(mechanisms: int) -> None:
    """Refuse more mechanisms than a certificate lists."""
    if mechanisms > _MOST_MECHANISMS:
        raise InputError(
            f"expected at most {_MOST_MECHANISMS:,} different mechanisms, found {mechanisms:,}; round their "
            "probabilities of a true answer up"
        )


#: How labels were randomized: by a mechanism, or by a channel of any other source.
DeclaredHow = Randomizer | DeclaredChannel


def channel_of_rows(how: DeclaredHow, rows: int, units: Int[np.ndarray, "n"] | None) -> Channel:
    """The channel of some rows; with units, each row of a unit has all of the declared epsilon.

    Raises:
        InputError: The channel has parameters of other rows, or of rows beside units.
    """
    channel = how.for_rows(rows).channel()
    if isinstance(how, Randomizer):
        check_registered(type(how), channel)
    if any(len(values) != rows for values in row_arrays(channel).values()):
        raise InputError(f"expected a channel with parameters for each of the {rows} rows, found another number")
    if units is None:
        return channel
    if row_arrays(channel):
        raise InputError("expected one mechanism for all rows of units, found rows that differ; leave out one of them")
    _, place, counts = np.unique(units, return_inverse=True, return_counts=True)
    return grouped(undivided(channel, unit_sizes(counts)), counts[place])


def declared_labels(
    labels: Sized, how: DeclaredHow, label: str, declared_by: str, units: object
) -> tuple[np.ndarray, Channel, Certificate]:
    """Labels that were randomized elsewhere, their channel, and the certificate that says who declares it.

    Raises:
        InputError: They cannot come from such a mechanism.
        LabelError: A label is missing, or no declared class.
    """
    rows = len(labels)
    people = None if units is None else unit_numbers(units, rows)
    channel = channel_of_rows(how, rows, people)
    codes = randomized_codes(labels, how.space, channel)
    check_rows_possible(channel, codes)
    guarantee = Guarantee(channel.epsilon, unit="row" if people is None else "unit")
    public = () if people is None else (UNITS_PUBLIC,)
    certificate = Certificate(
        *(identifier(), label, how.space, rows, (Draw.of(how.name, channel, RowRanges.between(0, rows), guarantee),)),
        expects=expectation(channel, how.mass),
        assumptions=(DECLARED + declared_by, *public, *how.declared),
    )
    return codes, channel, certificate


def randomized_codes(labels: object, space: LabelSpace, channel: Channel) -> np.ndarray:
    """Released labels of users as the channel writes them.

    Raises:
        InputError: A value is none that the channel can release.
        LabelError: A label is missing, or no declared class.
    """
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
