"""``labeldp verify``: recompute the guarantee of a release and check its files."""

from __future__ import annotations

from pathlib import Path

import typer

from labeldp import report
from labeldp.cli._terminal import result
from labeldp.errors import InputError
from labeldp.release import folder


def verify(directory: Path, *, public_key: Path | None = None, long: bool = False, json_: bool = False) -> None:
    """Check that the files, the mechanism and the guarantee of a release agree; exit code 0 if they do, 1 if not.

    Args:
        directory (DIR): A release folder.
        public_key: The public key of whoever should have signed it, from 'labeldp key'.
        long: Allow recomputations that take longer than ten seconds.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    if not directory.is_dir():
        file = "a file; name the folder that 'labeldp release' wrote"
        what = file if directory.exists() else f"nothing{folder.or_beside(directory)}"
        raise InputError(f"expected the folder of a release at {directory}, found {what}")
    verdict = folder.verify(directory, public_key=public_key, long=long)
    result(json_, lambda: report.verdict_json(verdict), lambda: report.verdict_text(verdict))
    if not verdict.holds:
        raise typer.Exit(1)
