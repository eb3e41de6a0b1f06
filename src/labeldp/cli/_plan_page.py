"""The page of ``labeldp plan --report``: what is known beside the forecast, and the command that releases."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import labeldp.release.ledger as ledgers
from labeldp import release, render, results
from labeldp.cli._options import EVERYTHING
from labeldp.cli._terminal import names
from labeldp.privacy import Guarantee

if TYPE_CHECKING:
    from labeldp.bounds.planning import Forecast
    from labeldp.cli._plan import SpaceOptions, TableOptions

#: The epsilons of the slider.
EPSILONS = (
    *(0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.6, 1.8),
    *(2.0, 2.25, 2.5, 2.75, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 7.0, 8.0),
)


def write_choice(
    planned: results.Planned, fine: Forecast, source: object, table: TableOptions, space: SpaceOptions, page: Path
) -> Path:
    """Write the page to choose an epsilon on.

    Args:
        planned: The findings.
        fine: The same forecast at each epsilon of the slider.
        source: The table, if there is one.
        table: The options for it.
        space: The options for its label space.
        page: The new page.
    """
    choosing = results.Choosing(fine.over_epsilon, _spent(source, table.label), _command(source, table, space))
    part = replace(results.plan_part(planned, choosing), source=f"computed on {datetime.now(UTC).date()}")
    return render.write_page(render.dossier([part]), page)


def _spent(source: object, label: str | None) -> Guarantee | None:
    """Spending of earlier releases of the label, by the ledger beside the table: the largest total of any row."""
    path = release.ledger_path(source) if isinstance(source, Path) else None
    if label is None or path is None or not path.is_file():
        return None
    entries = [each for each in ledgers.Ledger(path, team=True).entries() if each.is_of(label)]
    totals = ledgers.spent_by_data(entries)
    if not totals:
        return None
    epsilon = max(epsilon for _, epsilon, *_ in totals)
    delta = max(delta for _, _, delta, *_ in totals)
    return replace(entries[-1].guarantee, epsilon=epsilon, delta=delta, rho=None)


def _is_left_out(unit: str | None, kept: list[str] | None, dropped: list[str]) -> bool:
    """True for the column of a privacy unit that is not published; learners need numbers in its place."""
    return unit is not None and (unit in dropped or not (kept is None or kept == [EVERYTHING] or unit in kept))


def _command(source: object, table: TableOptions, space: SpaceOptions) -> str:
    """The release command, with words in capitals for what a plan does not know."""
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
    words += ["--renumber"] if _is_left_out(table.named_unit, kept, dropped or []) else []
    return shlex.join([*words, "--output", "shared"])
