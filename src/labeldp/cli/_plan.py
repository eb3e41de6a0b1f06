"""``labeldp plan``: what each mechanism keeps, before anything is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labeldp.cli._terminal import show


def plan(
    classes: Annotated[int, typer.Option(help="Number of classes.")],
    rows: Annotated[int, typer.Option(help="Number of rows.")],
    epsilon: Annotated[float, typer.Option(help="What each label may cost.")],
    figure: Annotated[Path | None, typer.Option(help="Where to draw it over epsilon: .png, .svg or .pdf.")] = None,
) -> None:
    """Show what each mechanism keeps of a label, as a table and over epsilon."""
    from labeldp.bounds import plan as made  # noqa: PLC0415 (commands load what they need)
    from labeldp.report import plan_text, save_plan_figure  # noqa: PLC0415

    found = made(classes, rows, epsilon)
    drawn = None if figure is None else save_plan_figure(found, figure)
    show(*plan_text(found))
    if drawn is not None:
        show(f"figure: {drawn}")
