"""``labeldp release``: release a table with a sensitive label."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli._import_object import named_object
from labeldp.cli._options import (
    BUDGET,
    DROP,
    KEEP,
    MISSING,
    class_texts,
    declared_columns,
    divergences_of,
    number_of,
    range_of,
)
from labeldp.cli._terminal import notes_on_terminal, printed_warnings, progress, show
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.privacy import LabelSpace
    from labeldp.release.tables import Table

_AUTO = "auto"


def release(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="CSV or Parquet, a folder of either, or IDX labels.")],
    label: Annotated[str, typer.Option(help="Name of the sensitive label column.")],
    epsilon: Annotated[float, typer.Option(help="Privacy cost of each label, or of all labels of one --unit.")],
    output: Annotated[Path, typer.Option(help="A new folder for the release.")],
    classes: Annotated[
        str | None, typer.Option(help="All classes that can occur: a,b,c or @FILE with one per line.")
    ] = None,
    interval: Annotated[
        str | None, typer.Option(help="For a numeric label: range and grid LO,HI,STEP; labels outside are clipped.")
    ] = None,
    keep: KEEP = None,
    drop: DROP = None,
    mechanism: Annotated[
        str,
        typer.Option(
            help="auto, randomized-response, subset, bits, prior, prior-subset, cluster, peer, double or dummy; for "
            "numeric labels also optimal, piecewise, one-bit, laplace, bins or optimal-counts."
        ),
    ] = "auto",
    prior: Annotated[
        str | None,
        typer.Option(help="For prior and prior-subset: prefix of the prior's columns, each named PREFIX and a class."),
    ] = None,
    clusters: Annotated[
        str | None,
        typer.Option(
            help="For cluster and peer: a public column, or the number of clusters to find in the kept columns, or "
            "'auto'. The clusters are released too."
        ),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(
            help="Column of the privacy unit, such as a patient number: epsilon then covers all rows of one unit."
        ),
    ] = None,
    generator: Annotated[
        str | None,
        typer.Option(help="For double: a file from 'labeldp generator', or module:name; it draws the kept columns."),
    ] = None,
    replaced: Annotated[
        float | None,
        typer.Option(help="For double: probability that features are resampled; default: the same as for the label."),
    ] = None,
    divergence: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ALPHA=D",
            help="For double: declared bound on the divergence of the true features of any label from the generator's "
            "features of all labels mixed; declare more than 'labeldp generator' estimates.",
        ),
    ] = None,
    population: Annotated[
        str | None, typer.Option(help="For double: a description of the population, printed in the guarantee.")
    ] = None,
    missing: MISSING = "refuse",
    budget: BUDGET = None,
    delta: Annotated[
        float, typer.Option(help="For peer: failure probability, well below one over the number of rows.")
    ] = 0.0,
    ledger: Annotated[Path | None, typer.Option(help="The ledger file; default: beside INPUT.")] = None,
) -> None:
    """Randomize each label once, and write public columns, released labels and a certificate to a new folder.

    You decide which columns are safe to publish: list them with --keep, or list the others with --drop.

    'cluster' counts the classes of each cluster with noise and releases labels biased towards common classes; you
    are then a trusted curator, as with 'bins' and 'optimal-counts', which count numeric labels first. 'peer' simulates
    users who exchange labels of two classes inside clusters. Numeric labels (--interval) are released as numbers whose
    mean is the label. 'double' is for features that are private too and that disclose the label: it resamples the
    features of some rows from a generator. 'dummy' releases no features.
    """
    from labeldp.mechanisms.queries import DeltaWarning  # noqa: PLC0415 (commands load what they need)
    from labeldp.privacy import Interval  # noqa: PLC0415
    from labeldp.release import release_table  # noqa: PLC0415
    from labeldp.release.tables import declared_classes, open_table  # noqa: PLC0415
    from labeldp.report import release_text  # noqa: PLC0415

    if (classes is None) == (interval is None):
        found = "neither" if classes is None else "both"
        raise InputError(f"expected either --classes or --interval to declare the label space, found {found}")
    table = open_table(source, label)
    space: LabelSpace
    if classes is not None:
        space = declared_classes(table, class_texts(classes), missing)
    else:
        low, high, step = range_of(interval or "")
        space = Interval(low, high, step, missing if missing == "refuse" else number_of(missing, "--missing"))
    kept, dropped = declared_columns(table, keep, drop)
    with printed_warnings(DeltaWarning), progress() as report:
        cells = _clusters(table, clusters, kept, dropped, lambda rows: _suggested(rows, space, epsilon), report)
        released = release_table(
            source,
            label,
            space,
            epsilon,
            output,
            keep=kept,
            drop=dropped,
            mechanism=mechanism,
            prior=prior,
            clusters=cells,
            delta=delta,
            unit=unit,
            generator=None if generator is None else _generator(generator),
            replaced=replaced,
            divergences=divergences_of(divergence),
            budget=budget,
            ledger=ledger,
            progress=report,
            **({} if population is None else {"population": population}),
        )
    show(*release_text(released))
    notes_on_terminal(released.notes)


def _clusters(
    table: Table,
    clusters: str | None,
    keep: list[str] | None,
    drop: list[str] | None,
    suggested: Callable[[int], int],
    report: Callable[[str, int, int], None],
) -> Any:
    """The column of clusters, or a number of clusters computed from the kept columns."""
    if clusters is None or clusters in table.schema.names or not (clusters.isdecimal() or clusters == _AUTO):
        return clusters
    from labeldp.learning.tables import cluster_table  # noqa: PLC0415 (the learners are an extra)
    from labeldp.release import kept_columns  # noqa: PLC0415

    public = kept_columns(table.schema, table.label, keep, drop)
    count = suggested if clusters == _AUTO else int(clusters)
    return cluster_table(table.path, table.label, public, count, report)


def _generator(text: str) -> Any:
    """Load a generator from a file, or from a user's own module."""
    if Path(text).exists() or ":" not in text:
        from labeldp.learning.generators import open_generator  # noqa: PLC0415 (the learners are an extra)

        return open_generator(text).generator()
    from labeldp.mechanisms.resampling import Generator  # noqa: PLC0415

    generator = named_object(text, "--generator")
    if callable(generator) and not isinstance(generator, Generator):
        generator = generator()
    if not isinstance(generator, Generator):
        raise InputError(
            f"expected a labeldp.Generator, or a function that returns one, for --generator, found "
            f"{type(generator).__name__}"
        )
    return generator


def _suggested(rows: int, space: LabelSpace, epsilon: float) -> int:
    """Suggested number of clusters for so many rows at this epsilon."""
    from labeldp.learning.cells import suggested_count  # noqa: PLC0415 (the learners are an extra)

    return suggested_count(rows, space.size, epsilon)
