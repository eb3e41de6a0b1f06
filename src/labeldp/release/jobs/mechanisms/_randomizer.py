"""Mechanisms that randomize each label alone, or the labels of each unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from labeldp.mechanisms.randomizers import (
    NumberRandomizer,
    Randomizer,
    best_randomizer,
    check_registered,
    class_randomizers,
    number_randomizers,
)
from labeldp.privacy import Guarantee, LabelSpace
from labeldp.release.folder import column_types
from labeldp.release.jobs.mechanisms._table_mechanism import TableInput, TableMechanism, TableRequest

if TYPE_CHECKING:  # they load slowly, and a list of mechanisms does without
    from labeldp.release.curator import BatchChannels, Curator
    from labeldp.release.released import DeclaredHow

#: The name of the best randomizer for the labels.
AUTO = "auto"


@dataclass(frozen=True, eq=False)
class OfLabels(TableMechanism):
    """A mechanism that randomizes labels one by one."""

    def request(
        self, table: TableInput, randomizer: DeclaredHow, channels: BatchChannels, declared: tuple[str, ...]
    ) -> TableRequest:
        """The request for labels that are drawn from these channels."""
        source, whole = table.source, channels.whole
        if isinstance(randomizer, Randomizer):
            check_registered(type(randomizer), whole)

        def ask(curator: Curator) -> Any:
            return curator._draw_labels(randomizer.name, table.epsilon, slice(0, source.rows), channels, declared)

        added = column_types(source.table.label, source.space, whole)
        return TableRequest(randomizer.name, Guarantee(whole.epsilon, unit=source.unit), added, ask)


@dataclass(frozen=True, eq=False)
class RandomizerMechanism(OfLabels):
    """A randomizer of each label alone, or of all labels of each unit together.

    Args:
        randomizer: Its class; None for the best one for the labels (``"auto"``).
    """

    by_unit: ClassVar[bool] = True

    randomizer: type[Randomizer] | None = None

    @property
    def name(self) -> str:
        """The name of the randomizer."""
        return self.randomizer.name if self.randomizer else AUTO

    @property
    def about(self) -> str:
        """The description of the randomizer."""
        return self.randomizer.about if self.randomizer else "The best of these for the labels"

    @property
    def numeric(self) -> bool:
        """True for randomizers that release numbers."""
        return self.randomizer is not None and issubclass(self.randomizer, NumberRandomizer)

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        """One for each registered randomizer that a label space and an epsilon determine."""
        return tuple(map(cls, (*class_randomizers(), *number_randomizers(), None)))

    def check(self, space: LabelSpace, epsilon: float) -> Randomizer:
        """The randomizer, which refuses an epsilon that it cannot express."""
        return self.randomizer(space, epsilon) if self.randomizer else best_randomizer(space, epsilon)

    def on(self, table: TableInput) -> TableRequest:
        """The request, for the rows of each unit where there are units."""
        source, randomizer = table.source, table.made
        if source.units and self.randomizer is None:
            randomizer = best_randomizer(source.space, table.epsilon, table.labels_of_a_unit)
        channels = source.channels(randomizer, slice(0, source.rows))
        return self.request(table, randomizer, channels, randomizer.declared)
