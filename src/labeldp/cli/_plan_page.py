"""The page of ``labeldp plan --report``: what is known beside the forecast, and the command that releases."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import labeldp.release.ledger as ledgers
from labeldp import release, render, results
from labeldp.cli._options import EVERYTHING
from labeldp.cli._terminal import names
from labeldp.errors import InputError
from labeldp.privacy import Guarantee
from labeldp.release.curator import ROW

if TYPE_CHECKING:
    from labeldp.bounds.planning import Forecast
    from labeldp.cli._command import Place
    from labeldp.cli._options import SpendingOptions
    from labeldp.cli._plan import SpaceOptions, TableOptions
    from labeldp.release.ledger import Entry

#: The epsilons of the slider.
EPSILONS = (
    *(0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.6, 1.8),
    *(2.0, 2.25, 2.5, 2.75, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 7.0, 8.0),
)


def write_choice(
    planned: results.Planned,
    fine: Forecast,
    source: Place | None,
    options: tuple[TableOptions, SpaceOptions, SpendingOptions],
    page: Path,
) -> Path:
    """Write the page to choose an epsilon on.

    Args:
        planned: The findings.
        fine: The same forecast at each epsilon of the slider.
        source: The table, if there is one.
        options: Those for the table, for its label space, and for the ledger.
        page: The new page.
    """
    table, space, spending = options
    if table.label is None and (spending.ledger or spending.team_ledger):
        raise InputError("expected --label with a ledger, whose charges are of labels by name, found none; name it")
    charged = list(_charged(source, spending))
    spent, room = _spent(charged, table.label)
    own = ["--team-ledger", str(spending.team_ledger)] if spending.team_ledger else []
    own = ["--ledger", str(spending.ledger)] if spending.ledger else own
    budget = [] if room else ["--budget", "TOTAL"]
    output = ledgers.new_output(each for entries in charged for each in entries)
    command = shlex.join([*_command(source, table, space), *own, *budget, "--output", output])
    choosing = results.Choosing(fine.over_epsilon, spent, command)
    part = replace(results.plan_part(planned, choosing), source=f"computed on {datetime.now(UTC).date()}")
    return render.write_page(render.dossier([part]), page)


def _charged(source: Place | None, spending: SpendingOptions) -> Iterator[list[Entry]]:
    """The charges of the ledger beside the table, and of the one that was named.

    Raises:
        InputError: There is none at the path that was named.
    """
    beside = [release.ledger_path(source)] if isinstance(source, Path) else []
    named = [path for path in (spending.ledger, spending.team_ledger) if path is not None]
    if missing := [path for path in named if not path.is_file()]:
        raise InputError(
            f"there is no ledger {missing[0]}, whose charges the page would add. If nothing was released with it yet, "
            "leave it out"
        )
    paths = dict.fromkeys(path.resolve() for path in (*beside, *named) if path.is_file())
    yield from (ledgers.Ledger(path, team=True).entries() for path in paths)


def _spent(charged: Iterable[Sequence[Entry]], label: str | None) -> tuple[Guarantee | None, bool]:
    """Spending of earlier releases of the label, and whether the budgets in force leave room for another one.

    Of each ledger the largest total of any row counts, and those of several ledgers add up.
    """
    epsilon, delta, room, last = 0.0, 0.0, True, list[Guarantee]()
    for recorded in charged:
        entries = [each for each in recorded if label is not None and each.is_of(label)]
        if totals := ledgers.spent_by_data(entries):
            epsilon += max(epsilon for _, epsilon, *_ in totals)
            delta += max(delta for _, _, delta, *_ in totals)
            room = room and all(each < budget.epsilon for _, each, _, budget, _ in totals)
            last.append(entries[-1].guarantee)
    if not last:
        return None, room
    unit = last[0].unit if len({each.spelled_unit for each in last}) == 1 else ROW  # a row has what its unit has
    return replace(last[0], epsilon=epsilon, delta=delta, rho=None, unit=unit), room


def _is_left_out(unit: str | None, kept: list[str] | None, dropped: list[str]) -> bool:
    """True for the column of a privacy unit that is not published; learners need numbers in its place."""
    return unit is not None and (unit in dropped or not (kept is None or kept == [EVERYTHING] or unit in kept))


def _command(source: object, table: TableOptions, space: SpaceOptions) -> list[str]:
    """The words of the release command, in capitals for what a plan does not know."""
    words = ["labeldp", "release", "TABLE" if source is None else str(source), "--label", table.label or "LABEL"]
    if space.interval is not None:
        words += ["--interval", space.interval]
    else:
        words += ["--classes", space.classes if space.classes and not space.classes.isdecimal() else "CLASSES"]
    words += ["--epsilon", "EPSILON", "--unit", table.unit or "UNIT"]
    kept, dropped = names(table.columns.keep), names(table.columns.drop)
    words += ["--keep", ",".join(kept)] if kept is not None else []
    words += ["--drop", ",".join(dropped)] if dropped is not None else []
    words += ["--keep", "COLUMNS"] if kept is None and dropped is None else []
    return [*words, *(["--renumber"] if _is_left_out(table.named_unit, kept, dropped or []) else [])]
