"""``labeldp release``: a table with a sensitive label becomes a release."""

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
from labeldp.cli._terminal import notes_on_terminal, progress, show, told_warnings
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.privacy import LabelSpace
    from labeldp.release.tables import Table

_AUTO = "auto"


def release(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="CSV or Parquet, a folder of either, or IDX labels.")],
    label: Annotated[str, typer.Option(help="The label column, which is not public.")],
    epsilon: Annotated[float, typer.Option(help="What each label, or all labels of one unit, may cost.")],
    output: Annotated[Path, typer.Option(help="A folder that does not exist yet.")],
    classes: Annotated[str | None, typer.Option(help="Declared classes: a,b,c or @FILE with one on each line.")] = None,
    interval: Annotated[
        str | None, typer.Option(help="A real label's range and grid, LO,HI,STEP; others are clipped.")
    ] = None,
    keep: KEEP = None,
    drop: DROP = None,
    mechanism: Annotated[
        str,
        typer.Option(
            help="auto, randomized-response, subset, bits, prior, prior-subset, cluster, peer, double or dummy; of "
            "real labels also optimal, piecewise, one-bit, laplace, bins or optimal-counts."
        ),
    ] = "auto",
    prior: Annotated[
        str | None, typer.Option(help="What the prior's column names begin with; a class follows.")
    ] = None,
    clusters: Annotated[
        str | None,
        typer.Option(
            help="For cluster and peer: a public column, or how many to find in those kept; 'auto'. Released too."
        ),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="The column that says whose rows these are; epsilon is theirs.")
    ] = None,
    generator: Annotated[
        str | None,
        typer.Option(help="With double: a file that 'labeldp generator' made, or module:name. It draws those kept."),
    ] = None,
    replaced: Annotated[
        float | None, typer.Option(help="With double: the chance that features are redrawn; default: the label's.")
    ] = None,
    divergence: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ALPHA=D",
            help="With double: how far true features of any label are from the generator's of all labels mixed, "
            "declared; 'labeldp generator' prints an estimate, of which declare more.",
        ),
    ] = None,
    population: Annotated[
        str | None, typer.Option(help="With double: whose features these are, in words, for the guarantee.")
    ] = None,
    missing: MISSING = "refuse",
    budget: BUDGET = None,
    delta: Annotated[
        float, typer.Option(help="With peer: the failure probability, well below one over the rows.")
    ] = 0.0,
    ledger: Annotated[Path | None, typer.Option(help="Where charges are kept; default: beside INPUT.")] = None,
) -> None:
    """Randomize each label once, and write the public columns, the released labels and a certificate.

    Which columns are public is your declaration: name those to keep, or those to drop. With 'cluster' you are the
    trusted curator: classes are counted in each cluster, with noise, and labels lean towards what is common there.
    'peer' simulates users who exchange labels of two classes inside clusters. Real labels (--interval) are released as
    numbers whose mean is the label; with 'bins' and 'optimal-counts' you are the trusted curator who counts them first.
    'double' is for features that nobody knows beforehand and that tell of the label: it draws those of some rows anew
    from a generator, and 'dummy' releases none.
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
    with told_warnings(DeltaWarning), progress() as report:
        found = _clusters(table, clusters, kept, dropped, lambda rows: _suggested(rows, space, epsilon), report)
        done = release_table(
            source,
            label,
            space,
            epsilon,
            output,
            keep=kept,
            drop=dropped,
            mechanism=mechanism,
            prior=prior,
            clusters=found,
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
    show(*release_text(done))
    notes_on_terminal(done.notes)


def _clusters(
    table: Table,
    clusters: str | None,
    keep: list[str] | None,
    drop: list[str] | None,
    suggested: Callable[[int], int],
    report: Callable[[str, int, int], None],
) -> Any:
    """The column of clusters, or as many as asked for, found in the columns that are kept."""
    if clusters is None or clusters in table.schema.names or not (clusters.isdecimal() or clusters == _AUTO):
        return clusters
    from labeldp.learning.tables import cluster_table  # noqa: PLC0415 (the learners are an extra)
    from labeldp.release import kept_columns  # noqa: PLC0415

    public = kept_columns(table.schema, table.label, keep, drop)
    count = suggested if clusters == _AUTO else int(clusters)
    return cluster_table(table.path, table.label, public, count, report)


def _generator(text: str) -> Any:
    """A generator from a file that was fitted, or from a user's own module."""
    if Path(text).exists() or ":" not in text:
        from labeldp.learning.generators import open_generator  # noqa: PLC0415 (the learners are an extra)

        return open_generator(text).generator()
    from labeldp.mechanisms.features import Generator  # noqa: PLC0415

    found = named_object(text, "--generator")
    if callable(found) and not isinstance(found, Generator):
        found = found()
    if not isinstance(found, Generator):
        raise InputError(
            f"expected a labeldp.Generator, or a function that makes one, for --generator, found {type(found).__name__}"
        )
    return found


def _suggested(rows: int, space: LabelSpace, epsilon: float) -> int:
    """How many clusters go with so many rows and this epsilon."""
    from labeldp.learning.cells import suggested_count  # noqa: PLC0415 (the learners are an extra)

    return suggested_count(rows, space.size, epsilon)
