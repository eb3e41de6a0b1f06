"""A quantile of all labels, without a row for any: the end of a range, for one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from labeldp.mechanisms.queries import NoisyQuantile
from labeldp.privacy import LabelSpace
from labeldp.release.jobs.mechanisms._table_mechanism import (
    TableInput,
    TableMechanism,
    TableRequest,
    answer_request,
    option,
)


@dataclass(frozen=True, eq=False)
class QuantileMechanism(TableMechanism):
    """A quantile of all labels: the answer to a ``NoisyQuantile``. All labels are in memory, at four bytes each.

    Args:
        level: The level, such as 0.95 for an end of the range that 5 % of the labels exceed.
    """

    level: float | None = option("--level", float, hint="a share of the labels: --level 0.95")

    name: ClassVar[str] = NoisyQuantile.name
    about: ClassVar[str] = "Quantile of all labels, such as the end of a range; no rows"
    numeric: ClassVar[bool] = True
    by_unit: ClassVar[bool] = True
    alone: ClassVar[str] = "its scores need all labels in one place"
    rows: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ("level",)

    def check(self, space: LabelSpace, epsilon: float) -> NoisyQuantile:
        """The query."""
        level: Any = self.level
        return NoisyQuantile(space, epsilon, level)

    def on(self, table: TableInput) -> TableRequest:
        """The request."""
        return answer_request(table.made, table, np.zeros(1))
