"""Labels that are kept, or resampled from a public distribution of their row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.mechanisms.randomizers import ClusterResponse, Randomizer
from labeldp.privacy import LabelSpace
from labeldp.release.jobs.mechanisms._randomizer import OfLabels
from labeldp.release.jobs.mechanisms._table_mechanism import TableInput, TableRequest, option

#: Parts of one that probabilities are rounded to, and the most different distributions: each is in the certificate.
_PARTS, _MOST = 100, 1 << 12


@dataclass(frozen=True, eq=False)
class ResampledMechanism(OfLabels):
    """A randomizer that keeps each label, or resamples it from a public distribution of its row.

    It is Mechanism 1 of Busa-Fekete et al. 2023. Probabilities are rounded to hundredths, since the certificate lists
    each distribution; what they are raised to is among its assumptions.

    Args:
        prior: Prefix of the prior's columns, each named PREFIX and a class.
        floor: Least probability of a class that a label is resampled with, at most 1/k: smaller ones of the prior are
            raised to it. By default half of 1/k. Labels are kept more often with a larger one.
    """

    prior: str | None = option("--prior", hint="the prefix of the prior's columns: --prior PREFIX")
    floor: float | None = option("--floor", float)

    #: The name on the command line; the certificate has that of ``ClusterResponse``.
    name: ClassVar[str] = "resample"
    about: ClassVar[str] = "True class, or a draw from the prior of the row"
    needs: ClassVar[tuple[str, ...]] = ("prior",)

    def columns(self, space: LabelSpace) -> Mapping[str, list[str]]:
        """The columns of the prior, in declared class order."""
        return {} if self.prior is None else {"prior": [f"{self.prior}{point}" for point in space.points]}

    def check(self, space: LabelSpace, epsilon: float) -> Randomizer:
        """The randomizer of one row, at the distribution that is hardest to express."""
        extreme = np.eye(1, space.size)
        made = ClusterResponse(space, epsilon, extreme, np.zeros(1, dtype=np.int32), self._floor(space))
        made.channel()
        return made

    def on(self, table: TableInput) -> TableRequest:
        """The request, whose channel lists the different distributions."""
        space, names = table.source.space, table.columns["prior"]
        distributions, numbers = _distinct(table, names)
        floor = self._floor(space)
        randomizer = ClusterResponse(space, table.epsilon, distributions, numbers, floor)
        raised = int(np.asarray((distributions < floor).any(axis=1))[numbers].sum())
        declared = (
            f"the prior columns {names[0]!r} ... are public and were not computed from labels",
            f"labels are resampled with these probabilities, rounded to hundredths; in {raised} rows some were raised "
            f"to {floor:g}",
        )
        channels = table.source.channels(randomizer, slice(0, table.source.rows))
        return self.request(table, randomizer, channels, declared)

    def _floor(self, space: LabelSpace) -> float:
        return ClusterResponse.usual_floor(space) if self.floor is None else self.floor


def _distinct(table: TableInput, names: list[str]) -> tuple[Float[np.ndarray, "few k"], Int[np.ndarray, "n"]]:
    """The different priors of rows, rounded, and which one each row has.

    Raises:
        InputError: There are too many.
        TableError: The columns hold no numbers.
        PriorError: They are no probabilities.
    """
    from labeldp.release.tables import prior_of  # noqa: PLC0415 (it loads slowly)

    source, parts, first = table.source, [], 0
    for batch in source.table.batches(names, source.rows_per_batch):
        parts.append(np.rint(prior_of(batch, names, first) * _PARTS).astype(np.int16))
        first += batch.num_rows
        table.report("prior", first, source.rows)
    found, numbers = np.unique(np.concatenate(parts), axis=0, return_inverse=True)
    if len(found) > _MOST:
        raise InputError(
            f"expected at most {_MOST:,} different priors in hundredths, found {len(found):,}; use "
            "--mechanism prior, or the mean prior of each of fewer groups of rows"
        )
    if not found.any(axis=1).all():
        raise InputError(
            "expected priors in which a class has half a percent or more in each row, found a row without: rounded to "
            "hundredths it says nothing; use --mechanism prior"
        )
    return found / found.sum(axis=1, keepdims=True), numbers.reshape(-1).astype(np.int32)
