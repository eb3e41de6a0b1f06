"""``labeldp learn``: a model of the label from a release alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli._images import IMAGE_COLUMN, IMAGES, read_images_at
from labeldp.cli._terminal import names, printed_warnings, progress, show
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.learning.tables import Learned
    from labeldp.mechanisms.resampling import Generator

#: Prefix of the names of networks.
NETWORK = "torch:"

EPOCHS = Annotated[int | None, typer.Option(help="For networks: number of passes over the rows.")]
BATCH_SIZE = Annotated[int | None, typer.Option(help="For networks: rows per step.")]
LEARNING_RATE = Annotated[float | None, typer.Option(help="For networks: largest learning rate.")]
MIXUP = Annotated[float | None, typer.Option(help="For networks: strength of mixup; 0 turns it off.")]
DEVICE = Annotated[str | None, typer.Option(help="For networks: cpu or cuda; default: cuda if available.")]


def learn(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A release folder.")],
    output: Annotated[
        Path,
        typer.Option(help="A new file for the model, such as model.skops, or model.safetensors for a network."),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            help="Classes: softmax (default), boosting, convex, torch:mlp, torch:ratings; with images "
            "torch:convolutional, torch:inception, torch:resnet18. Numeric labels: auto (default: ridge, or "
            "boosting if released labels clearly prefer it), ridge, boosting, neighbours, convex."
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="Correction for label noise. softmax: likelihood (forward correction), unbiased (backward), plain "
            "(none) or clusters; boosting: em, plain or clusters; networks: likelihood, unbiased, posterior or "
            "plain; convex: unbiased; numeric labels: auto, unbiased, likelihood, decoded or plain. "
            "Default: the first, or clusters after 'release --mechanism cluster'."
        ),
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(help="Columns to predict from, a,b,c; default: all useful ones. For torch:ratings: user,item."),
    ] = None,
    generator: Annotated[
        Path | None,
        typer.Option(
            help="After 'release --mechanism double': the generator's file, to correct for resampled features."
        ),
    ] = None,
    images: IMAGES = None,
    image_column: IMAGE_COLUMN = None,
    epochs: EPOCHS = None,
    batch_size: BATCH_SIZE = None,
    learning_rate: LEARNING_RATE = None,
    mixup: MIXUP = None,
    device: DEVICE = None,
) -> None:
    """Learn to predict the label from the public columns of a release, at no further privacy cost.

    Models are tuned and scored on released labels, networks on a tenth of the rows. 'plain' ignores label noise and is
    a baseline.
    """
    from labeldp.learning.convex import FewRowsWarning  # noqa: PLC0415 (commands load what they need)
    from labeldp.learning.features import check_model_path  # noqa: PLC0415 (commands load what they need)
    from labeldp.learning.tables import learn as learn_table  # noqa: PLC0415
    from labeldp.report import learned_text  # noqa: PLC0415

    check_model_path(output)
    training = trained_with(
        epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, mixup=mixup, device=device
    )
    with printed_warnings(FewRowsWarning), progress() as report:
        options: dict[str, Any] = {"model": model, "method": method, "features": names(features)}
        learned: Learned
        if model is not None and model.startswith(NETWORK):
            from labeldp.learning.tables import ModelChoice, learn_network  # noqa: PLC0415 (PyTorch is an extra)

            if generator is not None:
                raise InputError(
                    "expected no --generator with a network, found one; leave it out, or use ResampledClassifier"
                )
            options |= {"images": read_images_at(images), "image_column": image_column, "training": training}
            learned = learn_network(directory, ModelChoice(**options), report)
        else:
            only_for_networks(images=images, image_column=image_column, **training)
            options["generator"] = None if generator is None else load_generator(generator)
            learned = learn_table(directory, progress=report, **options)
    show(*learned_text(learned, str(learned.model.save(output))))


def load_generator(path: Path) -> Generator:
    """Load a fitted generator."""
    from labeldp.learning.generators import open_generator  # noqa: PLC0415 (the learners are an extra)

    return open_generator(path).generator()


def trained_with(**settings: object) -> dict[str, object]:
    """The training settings that were passed."""
    return {name: value for name, value in settings.items() if value is not None}


def only_for_networks(**options: object) -> None:
    """Refuse options that only networks use.

    Raises:
        InputError: One was passed.
    """
    for name, value in options.items():
        if value is not None:
            raise InputError(
                f"expected --{name.replace('_', '-')} with a network ({NETWORK}...) alone, found it with another "
                "model; leave it out"
            )
