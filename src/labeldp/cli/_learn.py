"""``labeldp learn``: a model of the label, from a release alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labeldp.cli._terminal import names, progress, show


def learn(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a release.")],
    output: Annotated[Path, typer.Option(help="A file that does not exist yet, such as model.skops.")],
    model: Annotated[str, typer.Option(help="softmax or boosting.")] = "softmax",
    method: Annotated[
        str | None,
        typer.Option(
            help="softmax: likelihood, unbiased, plain or clusters; boosting: em, plain or clusters. Default: the "
            "first, or clusters after 'release --mechanism cluster'."
        ),
    ] = None,
    features: Annotated[
        list[str] | None, typer.Option(help="Columns to predict from, a,b,c; default: all that can be of use.")
    ] = None,
) -> None:
    """Learn to predict the label from the public columns, tuned and judged on released labels: it costs nothing.

    'plain' takes released labels for true ones: it is a baseline.
    """
    from labeldp.learning.tables import check_model_path  # noqa: PLC0415 (commands load what they need)
    from labeldp.learning.tables import learn as learned_from  # noqa: PLC0415
    from labeldp.report import learned_text  # noqa: PLC0415

    check_model_path(output)
    with progress() as report:
        learned = learned_from(directory, model=model, method=method, features=names(features), progress=report)
    show(*learned_text(learned, str(learned.model.save(output))))
