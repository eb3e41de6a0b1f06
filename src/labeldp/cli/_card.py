"""``labeldp card``: a release folder as a data set."""

from __future__ import annotations

from labeldp.cli._command import Place
from labeldp.cli._terminal import show
from labeldp.release import folder


def card(directory: Place, *, license: str | None = None, name: str | None = None) -> None:  # noqa: A002 (an option)
    """Write a data card (README.md) and Croissant metadata (croissant.json) into the folder of a release.

    Both follow from the certificate, and 'labeldp verify' compares them with it.

    Args:
        directory (DIR): A folder of released labels: a path, or an address such as s3://bucket/shared.
        license (ID): A license that you declare, by its identifier, such as cc-by-4.0.
        name (TEXT): A name of the data set for people, which you declare.
    """
    declared = folder.Declared(license and license.lower(), name) if license or name else None
    with folder.local_copy(directory) as copy:
        for file in folder.write_card(copy, folder.certified(copy), declared):
            show(f"{folder.add_file(directory, file)}: follows from the certificate")
    show(
        "Name the files from now on where a tool reads a folder: pandas.read_parquet of the folder takes README.md for "
        "a table (docs/guide/data-sets.md)."
    )
