"""``labeldp verify``: recompute the guarantee of a release and check its files."""

from __future__ import annotations

from pathlib import Path

import typer

from labeldp import report
from labeldp.cli._terminal import show
from labeldp.release import folder


def verify(directory: Path, *, long: bool = False) -> None:
    """Check that the files, the mechanism and the guarantee of a release agree; exit code 0 if they do, 1 if not.

    Args:
        directory (DIR): A release folder.
        long: Allow recomputations that take longer than ten seconds.
    """
    verdict = folder.verify(directory, long=long)
    show(*report.verdict_text(verdict))
    if not verdict.holds:
        raise typer.Exit(1)
