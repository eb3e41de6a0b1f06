"""Images on the command line: how they are named, and how they are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from labeldp.learning.features import Images

IMAGES = Annotated[
    Path | None, typer.Option(help="For models of images: an IDX file in the order of rows, or a folder of PNG files.")
]
IMAGE_COLUMN = Annotated[str | None, typer.Option(help="The public column that names each row's PNG file.")]


def read_images_at(path: Path | None) -> Images | None:
    """The images that were named, if any were."""
    if path is None:
        return None
    from labeldp.learning.features import read_images  # noqa: PLC0415 (commands load what they need)

    return read_images(path)
