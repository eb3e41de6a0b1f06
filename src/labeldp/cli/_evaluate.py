"""``labeldp evaluate``: scores of a model on another table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labeldp.cli._images import IMAGE_COLUMN, IMAGES, read_images_at
from labeldp.cli._terminal import show
from labeldp.errors import InputError


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that 'labeldp learn' wrote.")],
    table: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE", help="CSV, Parquet, a folder of either, IDX labels; or a release folder with --released."
        ),
    ],
    label: Annotated[str, typer.Option(help="Name of the label column.")],
    labels_are_public: Annotated[
        bool, typer.Option("--labels-are-public", help="Declare that the labels of TABLE are public.")
    ] = False,
    released: Annotated[bool, typer.Option("--released", help="TABLE is the folder of a release.")] = False,
    images: IMAGES = None,
    image_column: IMAGE_COLUMN = None,
) -> None:
    """Score a model on public labels, or on released ones."""
    from labeldp.learning.tables import evaluate as scores_of  # noqa: PLC0415 (commands load what they need)
    from labeldp.learning.tables import open_model  # noqa: PLC0415
    from labeldp.report import scores_text  # noqa: PLC0415

    if labels_are_public == released:
        found = "both" if released else "neither"
        raise InputError(
            f"expected either --labels-are-public or --released to say what the labels of {table} are, found {found}; "
            "labels that are not public must be released first"
        )
    loaded = open_model(model)
    pixels = read_images_at(images)
    scores = scores_of(loaded, table, label, public=labels_are_public, images=pixels, image_column=image_column)
    by = "labels that you declared public" if labels_are_public else "released labels"
    show(*scores_text(scores, loaded.space.points, by, public=labels_are_public))
