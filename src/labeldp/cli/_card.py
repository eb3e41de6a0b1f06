"""``labeldp card``: a release folder as a data set."""

from __future__ import annotations

from pathlib import Path

from labeldp.cli._terminal import show
from labeldp.release import folder


def card(directory: Path) -> None:
    """Write a data card (README.md) and Croissant metadata (croissant.json) into the folder of a release.

    Both follow from the certificate, and 'labeldp verify' compares them with it.

    Args:
        directory (DIR): A folder of released labels.
    """
    certificate = folder.certified(directory)
    for path in folder.write_card(directory, certificate):
        show(f"{path}: follows from the certificate")
    show(
        "Name the files from now on where a tool reads a folder: pandas.read_parquet of the folder takes README.md for "
        "a table (docs/guide/data-sets.md)."
    )
