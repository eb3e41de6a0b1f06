"""``labeldp account``: the combined guarantee of several releases of the same labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labeldp.cli._terminal import show


def account(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Folders of releases, single certificates, or ledgers.")
    ],
    delta: Annotated[
        list[float] | None, typer.Option(help="Also show the epsilon at these failure probabilities.")
    ] = None,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="Also show the failure probability at these epsilons.")
    ] = None,
    one_table: Annotated[
        bool,
        typer.Option("--one-table", help="Declare that all releases are of one table: row numbers mean the same rows."),
    ] = False,
    figure: Annotated[
        Path | None, typer.Option(help="Draw epsilon over delta to this file: .png, .svg or .pdf.")
    ] = None,
) -> None:
    """Show the total privacy cost of releases, by sums and, if all were fixed beforehand, by tight composition.

    Releases of labels with the same name are counted as releases of the same rows.
    """
    from labeldp.release import combined_guarantee  # noqa: PLC0415 (commands load what they need)
    from labeldp.report import account_text, save_account_figure  # noqa: PLC0415

    combined = combined_guarantee(paths, deltas=delta or (), epsilons=epsilon or (), one_table=one_table)
    written = None if figure is None else save_account_figure(combined, figure)
    show(*account_text(combined))
    if written is not None:
        show(f"figure: {written}")
