"""``labeldp stages``: release a table in stages, and learn a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from labeldp.cli._images import IMAGE_COLUMN, IMAGES, read_images_at
from labeldp.cli._learn import (
    BATCH_SIZE,
    DEVICE,
    EPOCHS,
    LEARNING_RATE,
    MIXUP,
    NETWORK,
    only_for_networks,
    trained_with,
)
from labeldp.cli._options import BUDGET, CLASSES, DROP, KEEP, MISSING, class_texts, declared_columns
from labeldp.cli._terminal import names, notes_on_terminal, progress, show


def stages(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="CSV or Parquet, a folder of either, or IDX labels.")],
    label: Annotated[str, typer.Option(help="Name of the sensitive label column.")],
    classes: CLASSES,
    epsilon: Annotated[float, typer.Option(help="Privacy cost of each label, over all stages.")],
    output: Annotated[Path, typer.Option(help="A new folder for the release.")],
    keep: KEEP = None,
    drop: DROP = None,
    stages: Annotated[int, typer.Option(help="Number of stages; the first has 60 % of the rows.")] = 2,
    model: Annotated[str, typer.Option(help="softmax, boosting, or a network of 'labeldp learn'.")] = "softmax",
    model_file: Annotated[
        Path | None,
        typer.Option(help="File for the model; default: OUTPUT.skops or OUTPUT.safetensors."),
    ] = None,
    features: Annotated[
        list[str] | None, typer.Option(help="Kept columns to predict from, a,b,c; default: all useful ones.")
    ] = None,
    response: Annotated[
        str,
        typer.Option(
            help="subset: sets of classes among a row's candidates; prior: single classes (Ghazi et al. 2021)."
        ),
    ] = "subset",
    prior: Annotated[
        str,
        typer.Option(
            help="Prior of the first stage: uniform; clusters, whose classes a trusted curator counts with part of "
            "epsilon; or a public file with a column for each class."
        ),
    ] = "uniform",
    clusters: Annotated[
        str | None,
        typer.Option(help="For --prior clusters: number of clusters; default: chosen from the number of rows."),
    ] = None,
    images: IMAGES = None,
    image_column: IMAGE_COLUMN = None,
    epochs: EPOCHS = None,
    batch_size: BATCH_SIZE = None,
    learning_rate: LEARNING_RATE = None,
    mixup: MIXUP = None,
    device: DEVICE = None,
    missing: MISSING = "refuse",
    budget: BUDGET = None,
    ledger: Annotated[Path | None, typer.Option(help="The ledger file; default: beside INPUT.")] = None,
) -> None:
    """Randomize labels in stages, each with a prior learned from the stages before; write the release and the model.

    Every label is drawn once, so all stages together cost as much as one. The folder is a release like any other:
    'verify', 'account' and 'learn' accept it. The table is held in memory, and the ledger stays locked until the last
    model is fitted.
    """
    from labeldp.learning.tables import ModelChoice, StagePlan, learn_in_stages  # noqa: PLC0415 (commands load what they need)
    from labeldp.release.tables import declared_classes, open_table  # noqa: PLC0415
    from labeldp.report import staged_text  # noqa: PLC0415

    training: dict[str, Any] = trained_with(
        epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, mixup=mixup, device=device
    )
    if not model.startswith(NETWORK):
        only_for_networks(images=images, image_column=image_column, **training)
    table = open_table(source, label)
    space = declared_classes(table, class_texts(classes), missing)
    kept, dropped = declared_columns(table, keep, drop)
    choice = ModelChoice(model, None, names(features), read_images_at(images), image_column, training)
    with progress() as report:
        staged = learn_in_stages(
            source,
            label,
            space,
            epsilon,
            output,
            StagePlan(choice, stages, response, prior, clusters, model_file),
            report,
            keep=kept,
            drop=dropped,
            budget=budget,
            ledger=ledger,
        )
    show(*staged_text(staged))
    notes_on_terminal(staged.release.notes)
