"""``labeldp generator``: fit a generator of features by class, to rows with public or released labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli._options import DROP, KEEP, class_texts, declared_columns
from labeldp.cli._terminal import names, show
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.audit.pipelines import DivergenceEstimate
    from labeldp.learning.generators import FittedGenerator, Trial

_COPULA = "copula"
#: Orders at which divergences are estimated.
_ORDERS = (2.0, 8.0)
#: The number of classes times columns above which estimates take long and need --judge.
_QUICK = 200


def generator(
    source: Annotated[
        Path, typer.Argument(metavar="TABLE", help="CSV, Parquet, a folder of either; or a release folder.")
    ],
    output: Annotated[Path, typer.Option(help="A new file for the generator, such as people.generator.")],
    text: Annotated[str, typer.Option("--source", help="A description of the data, which certificates print.")],
    label: Annotated[
        str | None, typer.Option(help="Name of the label column of TABLE; not needed with a release.")
    ] = None,
    classes: Annotated[
        str | None, typer.Option(help="All classes that can occur: a,b,c or @FILE with one per line.")
    ] = None,
    keep: KEEP = None,
    drop: DROP = None,
    model: Annotated[
        str,
        typer.Option(
            help="copula: marginals and correlations; mixture: Gaussian mixture; cells: frequencies of all "
            "combinations of a few categories, with known probabilities."
        ),
    ] = _COPULA,
    smoothing: Annotated[
        float | None, typer.Option(help="Share of rows drawn uniformly; default 0, or 0.01 for cells.")
    ] = None,
    labels_are_public: Annotated[
        bool, typer.Option("--labels-are-public", help="Declare that the labels of TABLE may be seen.")
    ] = False,
    auxiliary: Annotated[
        bool,
        typer.Option("--auxiliary", help="Declare that the rows are private rows of yours that you will not release."),
    ] = False,
    judge: Annotated[
        bool,
        typer.Option(
            "--judge", help="Estimate how well drawn rows can be distinguished from held-out rows of TABLE; slower."
        ),
    ] = False,
) -> None:
    """Fit a generator of features, for 'labeldp release --mechanism double --generator FILE'.

    Never fit it to the rows that you will release: the features that it draws would disclose their labels. Fit it to a
    public table, to rows of yours that you will not release, or to the release of other rows, whose guarantee then
    covers it.
    """
    from labeldp.learning.features import check_model_path  # noqa: PLC0415
    from labeldp.learning.generators import from_release  # noqa: PLC0415 (commands load what they need)
    from labeldp.report import generator_text  # noqa: PLC0415

    check_model_path(output)
    settings = {} if smoothing is None else {"smoothing": smoothing}
    if (source / "certificate.json").is_file():
        if labels_are_public or auxiliary or judge or label is not None or classes is not None:
            raise InputError(
                "expected no --label, --classes, --labels-are-public, --auxiliary or --judge with a release, "
                "found some; leave them out: the certificate states them"
            )
        columns = (None, None) if keep is None and drop is None else (names(keep), names(drop))
        fitted, trial = from_release(source, columns, model, text, **settings), None
    elif labels_are_public:
        kind = "auxiliary" if auxiliary else "public"
        fitted, trial = _from_table(source, label, classes, (keep, drop), model, text, kind=kind, **settings)
    else:
        raise InputError(
            f"expected --labels-are-public to declare that the labels of {source} may be seen, or a release folder, "
            "found neither; labels that are not public must be released first"
        )
    path = str(fitted.save(output))
    if trial is None:
        show(*generator_text(fitted, path))
        return
    divergences = (
        estimated_divergences(trial) if judge or fitted.space.size * len(fitted.form.columns) <= _QUICK else {}
    )
    two_sample = (*trial.two_sample_accuracy(), trial.table.num_rows) if judge else None
    show(*generator_text(fitted, path, two_sample, divergences))


def estimated_divergences(trial: Trial) -> dict[str, list[DivergenceEstimate]]:
    """Estimate the divergence of each class's features from the generator's, all classes mixed, at several orders.

    Classes with few rows are left out.
    """
    from labeldp.audit.pipelines import divergence_of_log_odds, held_out_log_odds  # noqa: PLC0415 (commands load what they need)

    drawn, estimates = trial.drawn(), {}
    for name, rows in trial.by_class():
        odds = held_out_log_odds(rows, drawn, trial.discriminator())
        estimates[name] = [divergence_of_log_odds(*odds, order) for order in _ORDERS]
    return estimates


def _from_table(
    source: Path,
    label: str | None,
    classes: str | None,
    columns: tuple[list[str] | None, list[str] | None],
    model: str,
    text: str,
    **settings: Any,
) -> tuple[FittedGenerator, Trial | None]:
    from labeldp.learning.generators import from_public_table  # noqa: PLC0415 (commands load what they need)
    from labeldp.release.tables import declared_classes, open_table  # noqa: PLC0415

    if label is None or classes is None:
        raise InputError(
            "expected --label and --classes with a table, found one missing; declare the label column and its classes"
        )
    opened = open_table(source, label)
    space = declared_classes(opened, class_texts(classes))
    return from_public_table(source, label, space, declared_columns(opened, *columns), model, text, **settings)
