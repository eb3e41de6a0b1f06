"""``labeldp verify``: recompute the guarantee of a release and check its files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labeldp.cli._terminal import show


def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A release folder.")],
) -> None:
    """Check that the files, the mechanism and the guarantee of a release agree; exit code 0 if they do, 1 if not."""
    from labeldp.release.folder import verify as check  # noqa: PLC0415 (commands load what they need)
    from labeldp.report import verdict_text  # noqa: PLC0415

    verdict = check(directory)
    show(*verdict_text(verdict))
    if not verdict.holds:
        raise typer.Exit(1)
