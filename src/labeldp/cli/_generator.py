"""``labeldp generator``: what draws features of a class, from rows whose labels may be seen or were paid for."""

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
#: With more classes times columns this takes long, and is done if it is asked for.
_QUICK = 200


def generator(
    source: Annotated[
        Path, typer.Argument(metavar="TABLE", help="CSV, Parquet, a folder of either; or the folder of a release.")
    ],
    output: Annotated[Path, typer.Option(help="A file that does not exist yet, such as people.generator.")],
    text: Annotated[str, typer.Option("--source", help="Which data this is, in words: the certificate prints it.")],
    label: Annotated[str | None, typer.Option(help="The label column of TABLE; of a release it is known.")] = None,
    classes: Annotated[str | None, typer.Option(help="Declared classes: a,b,c or @FILE with one on each line.")] = None,
    keep: KEEP = None,
    drop: DROP = None,
    model: Annotated[
        str,
        typer.Option(
            help="copula: marginals and correlations; mixture: of Gaussians; cells: frequencies of all rows of a few "
            "categories, whose probabilities are known."
        ),
    ] = _COPULA,
    smoothing: Annotated[
        float | None, typer.Option(help="The share of rows drawn evenly over all; default 0, of cells 0.01.")
    ] = None,
    labels_are_public: Annotated[
        bool, typer.Option("--labels-are-public", help="You declare that the labels of this table may be seen.")
    ] = False,
    auxiliary: Annotated[
        bool,
        typer.Option("--auxiliary", help="The rows are your own, not public, and none of those that you will release."),
    ] = False,
    judge: Annotated[
        bool, typer.Option("--judge", help="Say how well its rows are told from those of half of TABLE; takes longer.")
    ] = False,
) -> None:
    """Fit what draws the features of synthetic rows, for 'labeldp release --mechanism double --generator FILE'.

    It must not know the rows that you will release: their labels would leave through the features that it draws. Fit
    it on a public table, on rows of your own that are not released, or on the release of other rows, whose guarantee
    then covers it.
    """
    from labeldp.learning.features import check_model_path  # noqa: PLC0415
    from labeldp.learning.generators import from_release  # noqa: PLC0415 (commands load what they need)
    from labeldp.report import generator_text  # noqa: PLC0415

    check_model_path(output)
    settings = {} if smoothing is None else {"smoothing": smoothing}
    if (source / "certificate.json").is_file():
        if labels_are_public or auxiliary or judge or label is not None or classes is not None:
            raise InputError(
                f"expected neither labels, classes, --labels-are-public nor --judge with the release in {source}, "
                "found some; its certificate says what its labels are"
            )
        columns = (None, None) if keep is None and drop is None else (names(keep), names(drop))
        fitted, trial = from_release(source, columns, model, text, **settings), None
    elif labels_are_public:
        kind = "auxiliary" if auxiliary else "public"
        fitted, trial = _from_table(source, label, classes, (keep, drop), model, text, kind=kind, **settings)
    else:
        raise InputError(
            f"expected --labels-are-public to say that the labels of {source} may be seen, or the folder of a release, "
            "found neither; private labels must not be read here: release them first"
        )
    path = str(fitted.save(output))
    if trial is None:
        show(*generator_text(fitted, path))
        return
    divergences = (
        estimated_divergences(trial) if judge or fitted.space.size * len(fitted.form.columns) <= _QUICK else {}
    )
    told = (trial.two_sample_accuracy(), trial.table.num_rows) if judge else None
    show(*generator_text(fitted, path, told, divergences))


def estimated_divergences(trial: Trial) -> dict[str, list[DivergenceEstimate]]:
    """How far the features of each class are from the generator's, all classes mixed, at several orders.

    Classes of few rows are left out.
    """
    from labeldp.audit.pipelines import divergence_of_log_odds, held_out_log_odds  # noqa: PLC0415 (commands load what they need)

    drawn, found = trial.drawn(), {}
    for name, rows in trial.by_class():
        odds = held_out_log_odds(rows, drawn, trial.discriminator())
        found[name] = [divergence_of_log_odds(*odds, order) for order in _ORDERS]
    return found


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
        raise InputError("expected --label and --classes with a table, found none; declare the classes of its label")
    opened = open_table(source, label)
    space = declared_classes(opened, class_texts(classes))
    return from_public_table(source, label, space, declared_columns(opened, *columns), model, text, **settings)
