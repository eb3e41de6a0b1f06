"""A mechanism on tables: a value with its options, which declares what it needs and makes its requests."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from labeldp._progress import Progress
from labeldp._shapes import Bool, Int
from labeldp.errors import InputError
from labeldp.mechanisms.queries import Query, charged_law
from labeldp.mechanisms.resampling import FeatureLaw
from labeldp.privacy import Guarantee, Interval, LabelSpace
from labeldp.release.folder import answer_columns

if TYPE_CHECKING:  # they load slowly, and a list of mechanisms does without
    from labeldp.release.curator import Curator, TableSource, Written
    from labeldp.release.released import Answer


@dataclass(frozen=True)
class TableInput:
    """The input of a mechanism: a table whose rows were checked, and the request.

    Attributes:
        source: The labels, which a curator alone draws.
        epsilon: The cost of each row's label, or of all labels of one unit.
        made: The result of ``TableMechanism.check``.
        columns: The columns that the mechanism declares public, as the table spells them.
        report: Receives the progress.
        chosen: A mask of the rows of the table that are released; None if all are.
    """

    source: TableSource
    epsilon: float
    made: Any
    columns: Mapping[str, list[str]]
    report: Progress
    chosen: Bool[np.ndarray, "n"] | None = None

    @property
    def labels_of_a_unit(self) -> int:
        """Largest number of labels of one privacy unit."""
        return self.source.labels_of_a_unit(slice(0, self.source.rows))


@dataclass(frozen=True)
class TableRequest:
    """The charge of a mechanism on a table, and its requests to a curator.

    Attributes:
        name: The name of the mechanism in ledger and certificate.
        guarantee: The guarantee that is charged before anything is drawn.
        added: The columns that it adds to the public ones, with their types.
        ask: Makes the requests to a curator of the table.
        beside: Public columns of all rows that are released beside an answer.
        types: The types of resampled features, by name.
        law: The distribution of released features, where features are not public.
        clusters: The numbers of public clusters, if they are no column.
    """

    name: str
    guarantee: Guarantee
    added: Mapping[str, pa.DataType]
    ask: Callable[[Curator], Written | Answer]
    beside: Mapping[str, pa.Array] = field(default_factory=dict)
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    law: FeatureLaw | None = None
    clusters: Int[np.ndarray, "n"] | None = None


@dataclass(frozen=True)
class Option:
    """The declaration of an option, from which its form on the command line and all refusals of it follow.

    Attributes:
        flag: The option on the command line.
        kind: The type of its value there: ``str``, ``float``, ``int``, or ``list`` for several texts.
        hint: What to pass, for the error where it is needed and missing.
        otherwise: What to do with another mechanism, which has no such option.
    """

    flag: str
    kind: type = str
    hint: str = ""
    otherwise: str = "leave it out"


def option(flag: str, kind: type = str, *, default: Any = None, **more: str) -> Any:
    """A field that is an option of a mechanism, with a default; the other arguments are those of ``Option``."""
    return field(default=default, metadata={"option": Option(flag, kind, **more)})


@dataclass(frozen=True, eq=False)
class TableMechanism(ABC):
    """A mechanism on the labels of a table, for ``release_table(mechanism=...)``.

    A mechanism is a final frozen dataclass whose fields have defaults. Fields that ``option`` makes are its options;
    their help on the command line is what the docstring of the class says of them.
    Its file registers it, or, in another distribution, an entry point of the group ``labeldp.mechanisms``. The command
    line takes its name.
    """

    #: True if epsilon can cover all labels of a privacy unit.
    by_unit: ClassVar[bool] = False
    #: True if labels were randomized elsewhere, and leave as they are.
    imported: ClassVar[bool] = False
    #: The reason why no engine can share out its work; empty if one can.
    alone: ClassVar[str] = ""
    #: False if it releases no rows.
    rows: ClassVar[bool] = True
    #: False if it releases rows without features, so that no column can be kept.
    features: ClassVar[bool] = True

    @property
    @abstractmethod
    def name(self) -> str:
        """The name on the command line."""

    @property
    @abstractmethod
    def about(self) -> str:
        """The description on the command line."""

    @property
    def numeric(self) -> bool:
        """True if it takes numeric labels alone."""
        return False

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the options that it cannot do without."""
        return ()

    @property
    def resampled(self) -> Sequence[str]:
        """The features that it resamples: they are not public, and no other column can be kept."""
        return ()

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        """The mechanisms of this class on the command line, without options."""
        return (cls(),)

    @classmethod
    def options(cls) -> Mapping[str, Option]:
        """Its options, by the names of their fields."""
        return {each.name: each.metadata["option"] for each in dataclasses.fields(cls) if "option" in each.metadata}

    def columns(self, space: LabelSpace) -> Mapping[str, Sequence[str]]:
        """The columns that it declares public, by the name of the option that names them."""
        return {}

    def check(self, space: LabelSpace, epsilon: float) -> Any:
        """Refuse an impossible request before the table is read; ``on`` receives the result."""
        return None

    @abstractmethod
    def on(self, table: TableInput) -> TableRequest:
        """The request on a table whose rows were checked; no label is drawn before ``TableRequest.ask``."""

    def check_engine(self) -> None:
        """Refuse workers with which the mechanism cannot share its work.

        Raises:
            InputError: It needs all labels in one place, or writes one file.
        """
        if self.alone:
            raise InputError(
                f"expected a mechanism that works on parts of a table with an engine, found {self.name!r}: "
                f"{self.alone}; leave out the engine"
            )

    def checked(self, space: LabelSpace, epsilon: float, kept: Sequence[str], unit: str | None) -> Any:
        """Refuse a request that it does not take, before the table is read; else the result of ``check``.

        Raises:
            InputError: An option is missing, or it does not go with the labels, the unit, or the kept columns.
            LabelError: It does not go with the label space.
            EpsilonError: The epsilon cannot be expressed.
        """
        for name in self.needs:
            if getattr(self, name) is None:
                said = self.options()[name]
                raise InputError(f"{self.name} needs {said.flag}, found none; pass {said.hint}")
        if self.numeric and not isinstance(space, Interval):
            raise InputError(
                f"expected a numeric label (--interval) for {self.name!r}, found declared classes; use 'auto' or "
                "another mechanism for classes"
            )
        if unit and not self.by_unit:
            raise InputError(
                f"expected a mechanism that randomizes each label alone with --unit, found {self.name!r}; use auto"
            )
        if kept and not (self.rows and self.features):
            raise InputError(
                f"expected no kept columns with {self.name!r}, which releases no features, found some; pass --keep none"
            )
        if self.resampled and sorted(kept) != sorted(self.resampled):
            raise InputError(
                f"expected to keep the columns that the generator draws, {', '.join(self.resampled)}, found "
                f"{', '.join(kept) or 'none'}; any other column would disclose which features are original"
            )
        return self.check(space, epsilon)


def answer_request(query: Query, table: TableInput, like: np.ndarray) -> TableRequest:
    """The request for an answer about all labels, whose value is an array of the shape of ``like``."""
    source, most, label = table.source, table.labels_of_a_unit, table.source.table.label
    guarantee = dataclasses.replace(query.promise(most), unit=source.unit)
    none = answer_columns(like, label, charged_law(query, most), source.space)
    added = {name: array.type for name, array in none.items()}
    return TableRequest(query.name, guarantee, added, lambda curator: curator.answer(query))
