"""Labels that were randomized before they came into a table."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from labeldp.errors import InputError
from labeldp.mechanisms.randomizers import Randomizer, undivided
from labeldp.privacy import LabelSpace
from labeldp.release.folder import DECLARED
from labeldp.release.jobs.mechanisms._randomizer import OfLabels
from labeldp.release.jobs.mechanisms._table_mechanism import TableInput, TableRequest
from labeldp.release.released import Declaration, check_possible, counts_of


@dataclass(frozen=True, eq=False)
class DeclaredMechanism(OfLabels):
    """Labels that were randomized elsewhere, each once and alone; they are released as they are.

    It has no name on the command line, which has ``labeldp import`` instead.

    Args:
        declaration: The declaration of a mechanism that releases single classes.
    """

    imported: ClassVar[bool] = True
    by_unit: ClassVar[bool] = True

    declaration: Declaration | None = None

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        """None: ``labeldp release`` draws."""
        return ()

    @property
    def name(self) -> str:
        """The name of the randomizer."""
        return self.declaration.mechanism.name if self.declaration else "declared"

    def check(self, space: LabelSpace, epsilon: float) -> Randomizer:
        """The randomizer, if its released labels can stand in a column of classes."""
        del epsilon
        made = self.declaration.mechanism if self.declaration else None
        if made is None or made.space != space or made.channel().form != "class":
            raise InputError(
                "expected a mechanism that releases one declared class for each row, such as randomized-response, "
                f"found {self.name!r} (in Python: Release.randomized takes others)"
            )
        return made

    def on(self, table: TableInput) -> TableRequest:
        """The request, if the frequencies of the labels are possible."""
        source, randomizer, rows = table.source, table.made, slice(0, table.source.rows)
        channels, channel = source.channels(randomizer, rows), randomizer.channel()
        whole = undivided(channel, tuple(m for _, m in channels.whole.units)) if source.units else channels.whole
        channels = dataclasses.replace(channels, whole=whole, drawn=True)
        batches = source.batches(rows)
        counts = sum((counts_of(channel, batch.codes) for batch in batches), np.zeros(source.space.size, int))
        check_possible(channel, counts, source.rows)
        by = self.declaration.declared_by if self.declaration else ""
        return self.request(table, randomizer, channels, (DECLARED + by, *randomizer.declared))
