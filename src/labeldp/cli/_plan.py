"""``labeldp plan``: what each mechanism keeps, before anything is spent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labeldp import _checks
from labeldp.cli._options import DROP, KEEP, class_texts, declared_columns, range_of
from labeldp.cli._terminal import show
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.bounds.planning import EffectiveDimension, Forecast, Plan
    from labeldp.privacy import LabelSpace

_LOCAL = "local"
_MOST_CLASSES = 1 << 24


def plan(
    source: Annotated[
        Path | None, typer.Argument(metavar="[TABLE]", help="Read rows and the dimension of its public columns.")
    ] = None,
    classes: Annotated[str | None, typer.Option(help="How many classes, or a,b,c or @FILE.")] = None,
    interval: Annotated[str | None, typer.Option(help="A real label's range and grid, LO,HI,STEP.")] = None,
    rows: Annotated[int | None, typer.Option(help="Number of rows; of TABLE if that is given.")] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="What each label may cost; default: what --target needs.")
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(
            help="An error to reach: root mean square of an estimated mean, or the chance of a wrong class beyond the "
            "best."
        ),
    ] = None,
    dimension: Annotated[
        float | None, typer.Option(help="Effective dimension of the features; of TABLE if that is given.")
    ] = None,
    explained: Annotated[float, typer.Option(help="The share of a real label's variance that features explain.")] = 0.5,
    spread: Annotated[
        float | None,
        typer.Option(help="The deviation of a real label, in its units; default: spread evenly over its range."),
    ] = None,
    trust: Annotated[str, typer.Option(help="local: labels are randomized; central: a curator answers.")] = _LOCAL,
    label: Annotated[str | None, typer.Option(help="The label column of TABLE, which is not read.")] = None,
    keep: KEEP = None,
    drop: DROP = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print numbers for other programs.")] = False,
    figure: Annotated[Path | None, typer.Option(help="Where to draw it over epsilon: .png, .svg or .pdf.")] = None,
) -> None:
    """Show what each mechanism keeps of a label, and what error to expect, as tables and over epsilon.

    From public numbers alone: no label is read. Of TABLE all columns but the label are taken, or those to keep.
    """
    from labeldp.bounds.planning import forecast  # noqa: PLC0415 (commands load what they need)
    from labeldp.bounds.planning import plan as planned  # noqa: PLC0415
    from labeldp.report import forecast_text, plan_text, save_forecast_figure, save_plan_figure  # noqa: PLC0415

    if epsilon is None and target is None:
        raise InputError("expected --epsilon, or --target to find one for, found neither")
    space = _space(classes, interval)
    found_rows, shape = _shape(source, label, keep, drop) if source is not None else (None, None)
    many = _one("rows", rows, found_rows)
    wide = dimension if dimension is not None else shape.participation if shape is not None else 0.0
    local_classes = trust == _LOCAL and interval is None
    expected: Forecast | None = None
    if wide or target is not None or spread is not None or not local_classes:
        expected = forecast(
            *(space, many, epsilon), dimension=wide, trust=trust, target=target, explained=explained, spread=spread
        )
    spent = epsilon if expected is None else expected.epsilon
    kept: Plan | None = planned(space.size, many, spent) if local_classes and spent is not None else None
    drawn = None
    if figure is not None:
        drawn = save_forecast_figure(expected, figure) if expected else save_plan_figure(kept, figure) if kept else None
    if as_json:
        parts = {"plan": kept, "forecast": expected}
        typer.echo(json.dumps({name: part.to_json() for name, part in parts.items() if part is not None}, indent=1))
        return
    if kept is not None:
        show(*plan_text(kept))
    if expected is not None:
        show(*forecast_text(expected, shape))
    if drawn is not None:
        show(f"figure: {drawn}")


def _space(classes: str | None, interval: str | None) -> LabelSpace:
    """The label space that was declared, of which a plan knows the number of classes, or the grid."""
    from labeldp.privacy import Classes, Interval  # noqa: PLC0415 (commands load what they need)

    if (classes is None) == (interval is None):
        found = "neither" if classes is None else "both"
        raise InputError(f"expected either --classes or --interval to declare the label space, found {found}")
    if interval is not None:
        return Interval(*range_of(interval))
    return Classes(range(_checks.whole(_count(classes or ""), "classes", 2, _MOST_CLASSES)))


def _count(classes: str) -> int:
    try:
        return int(classes)
    except ValueError:
        return len(set(class_texts(classes)))


def _shape(
    source: Path, label: str | None, keep: list[str] | None, drop: list[str] | None
) -> tuple[int, EffectiveDimension | None]:
    """Rows and the effective dimension of a table's public columns."""
    from labeldp.cli._public_shape import public_shape  # noqa: PLC0415 (commands load what they need)
    from labeldp.release import kept_columns  # noqa: PLC0415
    from labeldp.release.tables import open_table  # noqa: PLC0415

    if label is None:
        raise InputError("expected --label with a table, so that it is not read, found none; name the label column")
    table = open_table(source, label)
    kept, dropped = declared_columns(table, keep, drop)
    leaving = [] if kept is None and dropped is None else dropped
    return public_shape(table, kept_columns(table.schema, label, kept, leaving))


def _one(name: str, given: int | None, read: int | None) -> int:
    """What was typed, or what a table says, but not both."""
    if (given is None) == (read is None):
        found = "neither" if given is None else "both"
        raise InputError(f"expected --{name} or a table, found {found}")
    return given if given is not None else read or 0
