"""``labeldp release``: a table with a sensitive label becomes a release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli._terminal import names, notes_on_terminal, progress, show, told_warnings
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.privacy import LabelSpace
    from labeldp.release import Table

_EVERYTHING, _NOTHING, _AUTO = "all", "none", "auto"


def _budget(text: str) -> tuple[float, float]:
    """EPSILON or EPSILON,DELTA."""
    numbers = tuple(float(part) for part in text.split(","))
    if len(numbers) not in (1, 2):
        raise ValueError(f"expected EPSILON or EPSILON,DELTA, found {len(numbers)} numbers")
    return numbers[0], numbers[1] if len(numbers) == 2 else 0.0


def release(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="CSV or Parquet, a folder of either, or IDX labels.")],
    label: Annotated[str, typer.Option(help="The label column, which is not public.")],
    epsilon: Annotated[float, typer.Option(help="What each label, or all labels of one unit, may cost.")],
    output: Annotated[Path, typer.Option(help="A folder that does not exist yet.")],
    classes: Annotated[str | None, typer.Option(help="Declared classes: a,b,c or @FILE with one on each line.")] = None,
    interval: Annotated[
        str | None, typer.Option(help="A real label's range and grid, LO,HI,STEP; others are clipped.")
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="Public columns, a,b,c, 'all' but the label, or 'none'.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Columns that are not public; all others are.")] = None,
    mechanism: Annotated[
        str, typer.Option(help="auto, randomized-response, subset, bits, prior, prior-subset, cluster or peer.")
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
    missing: Annotated[str, typer.Option(help="'refuse', or the class that missing labels are given.")] = "refuse",
    budget: Annotated[
        Any,
        typer.Option(
            parser=_budget, metavar="EPSILON[,DELTA]", help="The most to spend on this label; default: this release."
        ),
    ] = None,
    delta: Annotated[
        float, typer.Option(help="With peer: the failure probability, well below one over the rows.")
    ] = 0.0,
    ledger: Annotated[Path | None, typer.Option(help="Where charges are kept; default: beside INPUT.")] = None,
) -> None:
    """Randomize each label once, and write the public columns, the released labels and a certificate.

    Which columns are public is your declaration: name those to keep, or those to drop. With 'cluster' you are the
    trusted curator: classes are counted in each cluster, with noise, and labels lean towards what is common there.
    'peer' simulates users who exchange labels of two classes inside clusters.
    """
    from labeldp.privacy import Interval  # noqa: PLC0415 (commands load what they need)
    from labeldp.release import declared_classes, open_table, release_table  # noqa: PLC0415
    from labeldp.report import release_text  # noqa: PLC0415

    if (classes is None) == (interval is None):
        found = "neither" if classes is None else "both"
        raise InputError(f"expected either --classes or --interval to declare the label space, found {found}")
    table = open_table(source, label)
    space: LabelSpace
    if classes is not None:
        space = declared_classes(table, _class_texts(classes), missing)
    else:
        low, high, step = _three_numbers(interval or "")
        space = Interval(low, high, step, missing if missing == "refuse" else _number(missing))
    kept = names(keep)
    if kept == [_EVERYTHING]:
        kept, drop = None, drop or []
    elif kept == [_NOTHING] and _NOTHING not in table.schema.names:
        kept = []
    with told_warnings(), progress() as report:
        found = _clusters(table, clusters, kept, names(drop), lambda rows: _suggested(rows, space, epsilon), report)
        done = release_table(
            source,
            label,
            space,
            epsilon,
            output,
            keep=kept,
            drop=names(drop),
            mechanism=mechanism,
            prior=prior,
            clusters=found,
            delta=delta,
            unit=unit,
            budget=budget,
            ledger=ledger,
            progress=report,
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


def _suggested(rows: int, space: LabelSpace, epsilon: float) -> int:
    """How many clusters go with so many rows and this epsilon."""
    from labeldp.learning.clusters import suggested_count  # noqa: PLC0415 (the learners are an extra)

    return suggested_count(rows, space.size, epsilon)


def _class_texts(classes: str) -> list[str]:
    """Classes from a list with commas, or from the lines of a file."""
    if not classes.startswith("@"):
        return [text.strip() for text in classes.split(",")]
    try:
        lines = Path(classes[1:]).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError):
        raise InputError(f"expected a text file with one class on each line, found none at {classes[1:]}") from None
    return [line for line in lines if line]


def _three_numbers(text: str) -> tuple[float, ...]:
    numbers = tuple(_number(part) for part in text.split(","))
    if len(numbers) != 3:
        raise InputError(f"expected --interval LO,HI,STEP, found {len(numbers)} numbers")
    return numbers


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"expected a number, found {text!r}") from None
