"""``labeldp check``: a look at a table before its release, for the holder alone."""

from __future__ import annotations

from pathlib import Path

from labeldp import release, results
from labeldp._own_files import write_new_file
from labeldp.cli._command import Place
from labeldp.cli._options import ColumnOptions, FileOptions, ledger_of
from labeldp.cli._terminal import for_holder, progress, result
from labeldp.errors import InputError
from labeldp.release import tables


def check(
    source: Place,
    *,
    label: str | None = None,
    unit: str | None = None,
    ledger: Path | None = None,
    save_classes: Path | None = None,
    team_ledger: Path | None = None,
    columns: ColumnOptions,
    file: FileOptions,
    json_: bool = False,
) -> None:
    """Look at a table before its release, and print the command that releases it.

    For the holder alone: it reads the labels. It spends nothing, and writes nothing that could be shared. It finds how
    the file and its classes are written, people with several rows, columns that name rows or disclose the label, rows
    that are sorted by label, rare classes, and earlier releases of the same rows.

    Args:
        source (TABLE): CSV or Parquet, a folder of either, or IDX labels.
        label: Name of the sensitive label column; without it, the columns are listed.
        unit: Column of the privacy unit, or 'row'; default: the one proposed. All rows of a unit that was released
            before count as released.
        ledger: A ledger elsewhere than beside the table, such as that of last month.
        save_classes (FILE): A new file for the classes that occur, one a line, as --classes @FILE reads them.
        team_ledger: In place of --ledger, one that a team shares: see 'labeldp release --help'.
        columns: The columns that will be public; by default the command proposes them.
        file: How CSV files are written.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    for_holder()
    given, ledgers = file.of(source), ledger_of(ledger, team_ledger)
    keep, drop = (None, None) if columns == ColumnOptions() else columns.of(tables.open_table(given, label or ""))
    with progress() as bar:
        found = release.check_table(given, label or "", bar, unit=unit, keep=keep, drop=drop, ledger=ledgers)
    if save_classes is not None:
        if found.label.is_number:
            raise InputError(f"{found.label.name!r} has numbers, and no classes to save; leave --save-classes out")
        write_new_file(save_classes, "".join(f"{name}\n" for name in found.label.classes).encode(), private=True)
    checked = results.Checked.of(found, save_classes)
    result(json_, lambda: checked, lambda: results.check_part(checked))
