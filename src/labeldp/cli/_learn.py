"""``labeldp learn``: a model of the label from a release alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from labeldp import results
from labeldp.cli._command import ReleaseFolder
from labeldp.cli._options import EncoderOptions, ImageOptions, TrainingOptions, bytes_of, check_no_network_options
from labeldp.cli._terminal import names, printed_warnings, progress, result
from labeldp.errors import InputError
from labeldp.release import engines


def learn(
    directories: list[ReleaseFolder],
    *,
    output: Path,
    model: str | None = None,
    method: str | None = None,
    features: list[str] | None = None,
    generator: Path | None = None,
    minutes: float | None = None,
    rows: int | None = None,
    coverage: float | None = None,
    coverage_by: str | None = None,
    memory: Annotated[int | None, typer.Option(parser=bytes_of)] = None,
    engine: str | None = None,
    images: ImageOptions,
    encoders: EncoderOptions,
    training: TrainingOptions,
    json_: bool = False,
) -> None:
    """Learn to predict the label from the public columns of a release, at no further privacy cost.

    Models are tuned, combined, calibrated and scored on released labels, networks on a tenth of the rows. Where these
    labels do not show that features help, predictions stay near the class shares, or are the mean label. 'plain'
    ignores label noise and is a baseline.

    Args:
        directories (DIR): A release folder: a path, or an address such as s3://bucket/shared.
        output: A new file for the model, such as model.safetensors.
        model: Classes: auto (default: a mean of linear models, kernels, boosting and clusters, weighed on released
            labels), softmax, boosting, convex, factorization (ratings), torch:mlp, torch:ratings; with images
            patches (default: frequent patches, and nearness to other images by them), encoder (the features of
            --encoder in their place, and its default), torch:ensemble (patches and a network beside them: several times
            as long, more accurate on some images), torch:whitened (photographs), torch:convolutional, torch:residual,
            torch:inception, torch:resnet18. Numeric labels: auto (default: ridge, boosting, clusters and the mean
            label, weighed on released labels), ridge, boosting, neighbours, convex.
        method: Correction for label noise. softmax: likelihood (forward correction), unbiased (backward), plain (none)
            or clusters; boosting: likelihood (LightGBM), em, plain or clusters; networks: likelihood, unbiased,
            posterior or plain; convex: unbiased; ridge and boosting of numeric labels: auto, unbiased, likelihood,
            decoded or plain. Default: the first, or clusters after 'release --mechanism cluster'.
        features: Columns to predict from, a,b,c; default: all useful ones. For torch:ratings: user,item; for
            factorization: user,item and columns about either.
        generator: After 'release --mechanism double': the generator's file, to correct for resampled features.
        minutes: With auto: begin no further fit after this time, and leave out what is not finished.
        rows: Learn from at most so many rows, chosen by chance without a look at labels, in whole privacy units if
            their column was kept; for tables that take too long.
        coverage: Share of rows whose prediction sets shall hold the true label, such as 0.9: 'predict' then writes a
            set of classes, or an interval, for each row. A fifth of the rows is kept to calibrate them.
        coverage_by (class): With 'class', --coverage holds among the rows of each true class, so also of a rare one;
            default: of all rows together, of which a rare class may have far less.
        memory (BYTES): Memory for rows, such as 4GB; default: half of what is free. Of a release with more rows, models
            are fitted by sums over all rows, and others from a sample that fits.
        engine: Workers for the sums over a large release, as for 'labeldp release': processes[:N], dask[:ADDRESS] or
            spark[:MASTER]. The model is the same.
        images: The images of the rows.
        encoders: What you state of an encoder.
        training: Settings of networks.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    from labeldp.learning.tables import is_network, learn as learn_table  # noqa: PLC0415, I001 (first, as its extra has all of them)
    from labeldp.learning import convex, generators  # noqa: PLC0415
    from labeldp.learning.features import NumbersAsTextsWarning  # noqa: PLC0415
    from labeldp.learning.files import check_model_path  # noqa: PLC0415

    if len(directories) != 1:
        raise InputError(
            f"expected one release to learn from, found {len(directories)}; several are put together in Python, by "
            "Release.concat, for AutoClassifier and other learners (docs/guide/people.md)"
        )
    (directory,) = directories
    model = model or images.model
    of_network = model is not None and is_network(model)
    check_model_path(output)
    with printed_warnings(convex.FewRowsWarning, NumbersAsTextsWarning), progress() as bar:
        options: dict[str, Any] = {"model": model, "method": method, "features": names(features)}
        options |= {"rows": rows, "coverage": coverage, "coverage_by": coverage_by}
        if of_network:
            from labeldp.learning.tables import ModelChoice, learn_network  # noqa: PLC0415

            if minutes is not None:
                raise InputError("expected no --minutes with a network, found one; set --epochs")
            if engine is not None or memory is not None:
                raise InputError("expected no --engine and no --memory with a network, found one; use --rows")
            if generator is not None:
                raise InputError(
                    "expected no --generator with a network, found one; leave it out, or use ResampledClassifier"
                )
            choice = ModelChoice(**options, **images.read(), **encoders.open(images), training=training.settings())
            learned = learn_network(directory, choice, bar)
        else:
            check_no_network_options(images, training)
            encoders.open(images)
            resampling = None if generator is None else generators.open_generator(generator).generator()
            with engines.open_engine(engine) as workers:
                options |= {"memory": memory, "executor": None if engine is None else workers}
                learned = learn_table(directory, generator=resampling, minutes=minutes, progress=bar, **options)
    found = results.LearnedModel.of(learned, str(learned.model.save(output)))
    result(json_, lambda: found, lambda: results.learned_part(found, of_images=images.images is not None))
