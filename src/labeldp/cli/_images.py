"""Options for images, and their reading."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from labeldp.learning.features import Images

IMAGES = Annotated[
    Path | None, typer.Option(help="For image models: an IDX file in row order, or a folder of PNG files.")
]
IMAGE_COLUMN = Annotated[
    str | None, typer.Option(help="For a folder of images: the public column with the name of each row's PNG file.")
]


def read_images_at(path: Path | None) -> Images | None:
    """Read the images at a path, if there is one."""
    if path is None:
        return None
    from labeldp.learning.features import read_images  # noqa: PLC0415 (commands load what they need)

    return read_images(path)
