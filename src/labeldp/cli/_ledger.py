"""``labeldp ledger`` shows charges and budgets; ``labeldp account`` combines the guarantees of several releases."""

from __future__ import annotations

import shlex
from pathlib import Path

import labeldp.release.ledger as ledgers
from labeldp import release, render, results
from labeldp._checks import nearest
from labeldp.cli._command import ReleaseFolder
from labeldp.cli._terminal import result, show
from labeldp.errors import InputError, LedgerError
from labeldp.release import folder, tables


def ledger(file: Path, *, json_: bool = False) -> None:
    """Show all charges of a ledger, and the spent part of each budget; of a table, name other ledgers that count too.

    Args:
        file (FILE): A table that was released, or its ledger, such as TABLE.labeldp-ledger beside it.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    table, file = file, ledger_of(file)
    others = [path for path in release.ledgers_near(table) if path != file.resolve()] if file is not table else []
    if not file.exists():
        near = [each.name for each in file.parent.iterdir() if each.is_file()] if file.parent.is_dir() else []
        hint = nearest(file.name, near) or "; look for TABLE.labeldp-ledger"
        raise LedgerError(f"there is no file {file}{hint}")
    if folder.is_release(file):
        raise LedgerError(
            f"expected a released table or its ledger, found the folder of a release at {file}: the ledger is beside "
            f"the table, with whoever released it. What {file.name} costs: labeldp account {shlex.quote(str(file))}"
        )
    if file.is_dir():
        raise _no_ledger(file)
    entries = ledgers.Ledger(file, team=True).entries()
    totals = ledgers.spent_by_data(entries)
    found = (entries, totals, others)
    result(json_, lambda: results.LedgerShown.of(*found), lambda: results.ledger_part(file.name, *found))


def ledger_of(path: Path) -> Path:
    """The ledger beside a table; any other path as it is.

    Raises:
        LedgerError: It is a table without a ledger beside it.
    """
    own = release.ledger_path(path)
    if own.is_file() and not folder.is_release(path):
        return own
    if path.is_file() and path.name.lower().endswith(tuple(tables.TABLE_ENDINGS)) and not ledgers.is_ledger(path):
        raise _no_ledger(path)
    return path


def _no_ledger(table: Path) -> LedgerError:
    """The error for a table without a ledger beside it, which names others."""
    beside = ", ".join(map(str, release.ledgers_near(table)))
    which = f"here are {beside}" if beside else "name that one"
    nothing = f"nothing was released from {table.name}, unless with another --ledger; {which}"
    return LedgerError(f"expected a ledger, found none at {release.ledger_path(table)}: {nothing}")


def account(
    paths: list[ReleaseFolder],
    *,
    delta: list[float] | None = None,
    epsilon: list[float] | None = None,
    one_table: bool = False,
    long: bool = False,
    figure: Path | None = None,
    json_: bool = False,
) -> None:
    """Show the total privacy cost of releases, by sums and, if all were fixed beforehand, by tight composition.

    Releases of labels with the same name are counted as releases of the same rows.

    Args:
        paths (PATH...): Folders of releases, which may be addresses such as s3://bucket/shared, single certificates,
            or ledgers or the tables that they are beside.
        delta: Also show the epsilon at these failure probabilities.
        epsilon: Also show the failure probability at these epsilons.
        one_table: Declare that all releases are of one table: row numbers mean the same rows.
        long: Allow recomputations that take longer than ten seconds.
        figure: Draw epsilon over delta to this file: .png, .svg or .pdf.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    combined = release.combined_guarantee(
        list(map(ledger_of, paths)), deltas=delta or (), epsilons=epsilon or (), one_table=one_table, long=long
    )
    if figure is not None:
        chart = results.account_chart(combined)
        if chart is None:
            raise InputError("expected charges to draw, found none; give a release, or a ledger that has some")
        render.save_figure(chart, figure)
    result(json_, lambda: list(map(results.TotalShown.of, combined)), lambda: results.account_part(combined))
    if figure is not None and not json_:
        show(f"figure: {figure}")
