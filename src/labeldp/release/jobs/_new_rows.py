"""The rows of a table that were not released before, by public values alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from labeldp.errors import InputError
from labeldp.release.jobs._job import TableJob
from labeldp.release.jobs._notes import undeclared
from labeldp.release.ledger import latest_budget, with_the_same_data
from labeldp.release.tables import Identity, choose, column_heads


def only_new_rows(job: TableJob, unit: str | None, refusal: Callable[[Identity], InputError] = undeclared) -> TableJob:
    """The job for the new rows: those without an earlier release of this label, for themselves or their unit.

    Raises:
        InputError: All rows were released before, or it cannot be told which were; or a column may be people with
            several rows, and no unit was declared. Nothing was charged.
    """
    seen, data, _ = job.look(unit, refusal)
    found = job.ledgers.matches(data)
    earlier = [each for each in with_the_same_data(found) if each.entry.is_of(job.table.label)]
    count = sum(part.count for part in seen.parts) if earlier else 0
    if not all(each.certain for each in earlier):
        raise InputError(
            "it cannot be told which rows are new, since values of an earlier release are edited or missing. Release a "
            "table of new rows, or all rows within a larger budget"
        )
    new = np.ones(count, dtype=bool)
    for each in earlier:
        match = found[each.entry]
        assert match is not None  # noqa: S101 (what is certain was matched)
        new &= ~match.mask(count)
    if new.all():
        return job
    if not new.any():
        whose = "" if data.unit == "row" else f", or others of their {data.unit}"
        raise InputError(
            f"no row is new: all {count:,} were released before{whose}. Use the earlier releases; nothing was charged"
        )
    table = choose(job.table, seen.parts, new)
    spending = dataclasses.replace(job.spending, budget=job.spending.budget or latest_budget(earlier))
    heads = column_heads(table)
    return dataclasses.replace(job, table=table, heads=heads, spending=spending, whole=data, chosen=new)
