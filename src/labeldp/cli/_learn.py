"""``labeldp learn``: a model of the label, from a release alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli._images import IMAGE_COLUMN, IMAGES, read_images_at
from labeldp.cli._terminal import names, progress, show, told_warnings
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.learning.tables import Learned
    from labeldp.mechanisms.features import Generator

#: What the names of networks begin with.
NETWORK = "torch:"

EPOCHS = Annotated[int | None, typer.Option(help="For networks: how often each row is seen.")]
BATCH_SIZE = Annotated[int | None, typer.Option(help="For networks: rows of a step.")]
LEARNING_RATE = Annotated[float | None, typer.Option(help="For networks: the largest rate.")]
MIXUP = Annotated[float | None, typer.Option(help="For networks: how strongly rows are mixed in pairs; 0 for not.")]
DEVICE = Annotated[str | None, typer.Option(help="For networks: cpu or cuda; default: cuda where there is one.")]


def learn(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a release.")],
    output: Annotated[
        Path,
        typer.Option(help="A file that does not exist yet, such as model.skops, or model.safetensors of a network."),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            help="Of classes softmax (default), boosting, convex, torch:mlp, torch:ratings; of images "
            "torch:convolutional, torch:inception, torch:resnet18. Of real labels ridge, boosting, neighbours, convex; "
            "auto (default): ridge, or boosting where released labels clearly prefer it."
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="softmax: likelihood, unbiased, plain or clusters; boosting: em, plain or clusters; networks: "
            "likelihood, unbiased, posterior or plain; convex: unbiased; of real labels: auto, unbiased, likelihood, "
            "decoded or plain. "
            "Default: the first, or clusters after 'release --mechanism cluster'."
        ),
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(help="Columns to predict from, a,b,c; default: all that can be of use. Of ratings: who,what."),
    ] = None,
    generator: Annotated[
        Path | None,
        typer.Option(
            help="Of rows that were released with --mechanism double: the generator's file, to learn true features."
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
    """Learn to predict the label from the public columns, tuned and judged on released labels: it costs nothing.

    'plain' takes released labels for true ones: it is a baseline. Networks are judged on a tenth of the rows.
    """
    from labeldp.learning.convex import FewRowsWarning  # noqa: PLC0415 (commands load what they need)
    from labeldp.learning.features import check_model_path  # noqa: PLC0415 (commands load what they need)
    from labeldp.learning.tables import learn as learned_from  # noqa: PLC0415
    from labeldp.report import learned_text  # noqa: PLC0415

    check_model_path(output)
    training = trained_with(
        epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, mixup=mixup, device=device
    )
    with told_warnings(FewRowsWarning), progress() as report:
        given: dict[str, Any] = {"model": model, "method": method, "features": names(features), "progress": report}
        learned: Learned
        if model is not None and model.startswith(NETWORK):
            from labeldp.learning.tables import learn_network  # noqa: PLC0415 (PyTorch is an extra)

            if generator is not None:
                raise InputError(
                    "expected no --generator with a network, found one; leave it out, or use ResampledClassifier"
                )

            found = read_images_at(images)
            learned = learn_network(directory, images=found, image_column=image_column, training=training, **given)
        else:
            only_for_networks(images=images, image_column=image_column, **training)
            learned = learned_from(directory, generator=None if generator is None else opened(generator), **given)
    show(*learned_text(learned, str(learned.model.save(output))))


def opened(path: Path) -> Generator:
    """A generator from a file that was fitted."""
    from labeldp.learning.generators import open_generator  # noqa: PLC0415 (the learners are an extra)

    return open_generator(path).generator()


def trained_with(**settings: object) -> dict[str, object]:
    """The settings of training that were typed."""
    return {name: value for name, value in settings.items() if value is not None}


def only_for_networks(**given: object) -> None:
    """Refuse what only networks use.

    Raises:
        InputError: Something was given.
    """
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"expected --{name.replace('_', '-')} with a network ({NETWORK}...) alone, found it with another model"
            )
