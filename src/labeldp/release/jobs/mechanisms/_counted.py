"""Counted responses: noisy counts of numeric labels, and numbers by the channel that is best for them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from labeldp.mechanisms.queries import NoisyHistogram
from labeldp.mechanisms.randomizers import BinResponse, NumberRandomizer, OptimalResponse
from labeldp.privacy import LabelSpace
from labeldp.release.folder import column_types
from labeldp.release.jobs.mechanisms._table_mechanism import TableInput, TableMechanism, TableRequest

if TYPE_CHECKING:  # it loads slowly, and a list of mechanisms does without
    from labeldp.release.curator import Curator


@dataclass(frozen=True, eq=False)
class CountedMechanism(TableMechanism):
    """Noisy counts of numeric labels with a part of epsilon, and numbers by the channel that is best for them.

    Args:
        randomizer: ``BinResponse`` or ``OptimalResponse``.
    """

    randomizer: type[BinResponse | OptimalResponse] = BinResponse

    numeric: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The name of the randomizer, which ``OptimalResponse`` has without counts."""
        return "optimal-counts" if self.randomizer is OptimalResponse else self.randomizer.name

    @property
    def about(self) -> str:
        """The description of the randomizer."""
        more = ", for noisy counts of all labels" if self.randomizer is OptimalResponse else ""
        return f"{self.randomizer.about}{more}"

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        """One for each randomizer."""
        return cls(BinResponse), cls(OptimalResponse)

    def check(self, space: LabelSpace, epsilon: float) -> NumberRandomizer:
        """The randomizer for uniform counts: an impossible request is refused with it."""
        randomizer: Any = self.randomizer
        made: NumberRandomizer = randomizer(space, epsilon, np.full(space.size, 1 / space.size))
        return made

    def on(self, table: TableInput) -> TableRequest:
        """The requests, charged together."""
        from labeldp.release.curator import counted, share_of_points  # noqa: PLC0415 (it loads slowly)

        source, epsilon = table.source, table.epsilon
        space = source.space
        query = NoisyHistogram(space, share_of_points(source.rows, space.size, epsilon) * epsilon)

        def ask(curator: Curator) -> Any:
            return counted(curator, epsilon, self.randomizer)

        # without the rho, which is that of the counts alone
        guarantee = dataclasses.replace(query.promise(1), epsilon=epsilon, rho=None)
        return TableRequest(self.name, guarantee, column_types(source.table.label, space, table.made.channel()), ask)
