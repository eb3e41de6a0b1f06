"""``labeldp import``: take over labels that were randomized elsewhere."""

from __future__ import annotations

from pathlib import Path

import labeldp.release as releases
from labeldp import results
from labeldp.cli._command import Place
from labeldp.cli._declare import DeclarationOptions
from labeldp.cli._options import ColumnOptions, FileOptions, SpendingOptions
from labeldp.cli._terminal import notes_on_terminal, progress, result
from labeldp.errors import InputError
from labeldp.release import folder, released, tables


def import_(
    source: Place,
    *,
    output: Place,
    declared: DeclarationOptions,
    columns: ColumnOptions,
    spending: SpendingOptions,
    file: FileOptions,
    declaration: Path | None = None,
    unit: str | None = None,
    sign: Path | None = None,
    json_: bool = False,
) -> None:
    """Take over labels that a survey, a device or another library randomized already.

    Nothing is drawn: the label column leaves as it is, with a certificate that says who declares how it was
    randomized. 'learn', 'evaluate' and 'audit' then account for the noise.

    Args:
        source (INPUT): CSV or Parquet, or a folder of either.
        output: A new folder for the release.
        declared: The mechanism that randomized the labels.
        columns: The public columns.
        spending: The ledger and its budget.
        file: How CSV files are written.
        declaration: The file of 'labeldp declare', in place of the options that say how labels were randomized.
        unit (COLUMN): The column of people with several rows: the epsilons of their labels add up. 'row' if you answer
            for single rows alone.
        sign: The private key to sign the release with, from 'labeldp key'.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    signer = None if sign is None else folder.private_key(sign)
    how = declared.of() if declaration is None else _read(declaration, declared)
    given, (keep, drop) = file.of(source), columns.of(tables.open_table(file.of(source), how.label))
    texts = [str(each) for each in how.mechanism.space.points]
    how = how.of_space(tables.declared_classes(tables.open_table(given, how.label), texts, "refuse"))
    with progress() as bar:
        imported = releases.release_table(
            given,
            how.label,
            how.mechanism.space,
            how.mechanism.epsilon,
            output,
            keep=keep,
            drop=drop,
            mechanism=releases.DeclaredMechanism(declaration=how),
            unit=unit,
            **spending.arguments(),
            progress=bar,
        )
    if signer is not None:
        folder.sign(output, signer, imported.certificate)
    result(json_, lambda: results.Released.of(imported), lambda: results.shown_release(imported))
    notes_on_terminal(imported.notes)


def _read(file: Path, declared: DeclarationOptions) -> released.Declaration:
    """The declaration in a file, which says all that the options would.

    Raises:
        InputError: There is none, or options say it too.
    """
    if declared != DeclarationOptions():
        raise InputError("--declaration says how labels were randomized, and so do other options; leave those out")
    return released.Declaration.read(file)
