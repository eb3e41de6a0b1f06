"""Labels that were randomized before they came into a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa

from labeldp._shapes import Float
from labeldp.columns import result_or_none
from labeldp.errors import InputError
from labeldp.mechanisms.randomizers import undivided, unit_sizes
from labeldp.privacy import LabelSpace
from labeldp.privacy.channels import row_arrays
from labeldp.release.folder import DECLARED
from labeldp.release.jobs.mechanisms._randomizer import OfLabels
from labeldp.release.jobs.mechanisms._table_mechanism import TableInput, TableRequest
from labeldp.release.released import DeclaredChannel, DeclaredHow, check_possible, check_rows_possible, counts_of


@dataclass(frozen=True, eq=False)
class DeclaredMechanism(OfLabels):
    """Labels that were randomized elsewhere, each once and alone; they are released as they are.

    It has no name on the command line, which has ``labeldp import`` instead.

    Args:
        how: A mechanism, or a channel of all rows, that releases single classes; None with ``rates``.
        declared_by: Who says so, such as ``"survey 2026"``. The certificate shows it.
        rates: The public column of the probability with which each row's label was kept, by randomized response.
    """

    about: ClassVar[str] = "Labels that were randomized before, as they are"
    imported: ClassVar[bool] = True
    by_unit: ClassVar[bool] = True

    how: DeclaredHow | None = None
    declared_by: str = ""
    rates: str | None = None

    @classmethod
    def variants(cls) -> tuple[Self, ...]:
        """None: ``labeldp release`` draws."""
        return ()

    @property
    def name(self) -> str:
        """The name of the randomizer."""
        return self.how.name if self.how else "declared"

    def columns(self, space: LabelSpace) -> Mapping[str, list[str]]:
        """The column of the rates."""
        del space
        return {} if self.rates is None else {"rates": [self.rates]}

    def check(self, space: LabelSpace, epsilon: float) -> DeclaredHow | None:
        """The mechanism, if its released labels can stand in a column of classes."""
        del epsilon
        if (self.how is None) == (self.rates is None):
            raise InputError("expected either how labels were randomized, or the column of their rates")
        if self.how and (self.how.space != space or self.how.channel().form != "class"):
            raise InputError(
                "expected a mechanism that releases one declared class for each row, such as randomized-response, "
                f"found {self.name!r} (in Python: Release.randomized takes others)"
            )
        return self.how

    def on(self, table: TableInput) -> TableRequest:
        """The request, if the frequencies of the labels are possible."""
        from labeldp.release.curator import RowChannels, UnitChannels  # noqa: PLC0415 (it loads slowly)

        source, how = table.source, table.made or _by_rates(table)
        channel = how.for_rows(source.rows).channel()
        codes = (batch.codes for batch in source.batches(slice(0, source.rows)))
        if row_arrays(channel):
            check_rows_possible(channel, np.concatenate(list(codes)))
        else:
            counts = sum((counts_of(channel, each) for each in codes), np.zeros(source.space.size, int))
            check_possible(channel, counts, source.rows)
        channels: RowChannels | UnitChannels = RowChannels(channel, how.mass, drawn=True)
        if source.units:
            if self.rates:
                raise InputError("expected one mechanism for all rows of units, found rates of rows; leave one out")
            channels = UnitChannels(undivided(channel, unit_sizes(source.units.counts)), source.units, drawn=True)
        asked = dataclasses.replace(table, epsilon=channels.whole.epsilon)
        return self.request(asked, how, channels, (DECLARED + self.declared_by, *how.declared))


def _by_rates(table: TableInput) -> DeclaredChannel:
    """Randomized response with the rate of each row."""
    (name,), source = table.columns["rates"], table.source
    rates = np.concatenate([_numbers(batch[name]) for batch in source.table.batches([name], source.rows_per_batch)])
    if not np.isfinite(rates).all():
        raise InputError(f"expected the probability of a true answer in each row of {name!r}, found gaps or texts")
    return DeclaredChannel.by_rate(source.space, rates)


def _numbers(column: pa.Array) -> Float[np.ndarray, "n"]:
    """The numbers of a column; what is none is missing."""
    cast = result_or_none(lambda: column.cast(pa.float64()))
    return np.full(len(column), np.nan) if cast is None else np.asarray(cast.to_numpy(zero_copy_only=False))
