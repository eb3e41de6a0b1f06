"""Noisy counts of all labels, without a row for any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from labeldp.mechanisms.queries import NoisyHistogram
from labeldp.privacy import LabelSpace
from labeldp.release.jobs.mechanisms._table_mechanism import TableInput, TableMechanism, TableRequest, answer_request


@dataclass(frozen=True, eq=False)
class HistogramMechanism(TableMechanism):
    """Noisy counts of all labels: the answer to a ``NoisyHistogram``."""

    name: ClassVar[str] = NoisyHistogram.name
    about: ClassVar[str] = f"{NoisyHistogram.about}; no rows"
    by_unit: ClassVar[bool] = True
    rows: ClassVar[bool] = False

    def check(self, space: LabelSpace, epsilon: float) -> NoisyHistogram:
        """The query."""
        return NoisyHistogram(space, epsilon)

    def on(self, table: TableInput) -> TableRequest:
        """The request."""
        return answer_request(table.made, table, np.zeros((1, table.source.space.size), np.int64))
