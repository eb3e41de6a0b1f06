"""``labeldp account``: what several releases of the same labels promise together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labeldp.cli._terminal import show


def account(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Folders of releases, certificates alone, or ledgers.")
    ],
    delta: Annotated[
        list[float] | None, typer.Option(help="Failure probabilities to show the epsilon for, besides the usual.")
    ] = None,
    epsilon: Annotated[list[float] | None, typer.Option(help="Epsilons to show the failure probability for.")] = None,
    one_table: Annotated[
        bool, typer.Option("--one-table", help="You declare that all are of one table: row numbers mean the same rows.")
    ] = False,
    figure: Annotated[Path | None, typer.Option(help="Where to draw epsilon over delta: .png, .svg or .pdf.")] = None,
) -> None:
    """Show what releases promise together, by sums and, for releases fixed beforehand, by tight composition.

    Releases of one label are taken to be of the same rows.
    """
    from labeldp.release import combined_guarantee  # noqa: PLC0415 (commands load what they need)
    from labeldp.report import account_text, save_account_figure  # noqa: PLC0415

    found = combined_guarantee(paths, deltas=delta or (), epsilons=epsilon or (), one_table=one_table)
    drawn = None if figure is None else save_account_figure(found, figure)
    show(*account_text(found))
    if drawn is not None:
        show(f"figure: {drawn}")
