"""``labeldp plan``: compare mechanisms before anything is spent."""

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
        Path | None,
        typer.Argument(
            metavar="[TABLE]",
            help="A table from which to read the number of rows and the dimension of the public columns.",
        ),
    ] = None,
    classes: Annotated[str | None, typer.Option(help="Number of classes, or a,b,c or @FILE.")] = None,
    interval: Annotated[str | None, typer.Option(help="Range and grid of a numeric label: LO,HI,STEP.")] = None,
    rows: Annotated[int | None, typer.Option(help="Number of rows; default: that of TABLE.")] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy cost of each label; default: the least that reaches --target.")
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(
            help="Error to reach: RMS error of the estimated mean (numeric), or excess probability of a wrong class "
            "over the best classifier."
        ),
    ] = None,
    dimension: Annotated[
        float | None, typer.Option(help="Effective dimension of the features; default: that of TABLE.")
    ] = None,
    explained: Annotated[
        float, typer.Option(help="Share of the variance of a numeric label that features explain (an assumption).")
    ] = 0.5,
    spread: Annotated[
        float | None,
        typer.Option(
            help="Standard deviation of a numeric label; default: that of a uniform distribution over its range."
        ),
    ] = None,
    trust: Annotated[
        str, typer.Option(help="local: each label is randomized; central: a trusted curator answers queries.")
    ] = _LOCAL,
    label: Annotated[str | None, typer.Option(help="Name of the label column of TABLE, which is never read.")] = None,
    keep: KEEP = None,
    drop: DROP = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the plan over epsilon to this file: .png, .svg or .pdf.")
    ] = None,
) -> None:
    """Compare mechanisms: effective rows and expected error, at one epsilon and over a range of them.

    Computed from public numbers alone: no label is read. By default all columns of TABLE but the label count as public.
    """
    from labeldp.bounds.planning import forecast  # noqa: PLC0415 (commands load what they need)
    from labeldp.bounds.planning import plan as planned  # noqa: PLC0415
    from labeldp.report import forecast_text, plan_text, save_forecast_figure, save_plan_figure  # noqa: PLC0415

    if epsilon is None and target is None:
        raise InputError("expected --epsilon, or --target to find the epsilon for, found neither")
    space = _space(classes, interval)
    table_rows, shape = _shape(source, label, keep, drop) if source is not None else (None, None)
    many = _one("rows", rows, table_rows)
    wide = dimension if dimension is not None else shape.participation if shape is not None else 0.0
    local_classes = trust == _LOCAL and interval is None
    expected: Forecast | None = None
    if wide or target is not None or spread is not None or not local_classes:
        expected = forecast(
            *(space, many, epsilon), dimension=wide, trust=trust, target=target, explained=explained, spread=spread
        )
    spent = epsilon if expected is None else expected.epsilon
    kept: Plan | None = planned(space.size, many, spent) if local_classes and spent is not None else None
    written = None
    if figure is not None:
        written = (
            save_forecast_figure(expected, figure) if expected else save_plan_figure(kept, figure) if kept else None
        )
    if as_json:
        parts = {"plan": kept, "forecast": expected}
        typer.echo(json.dumps({name: part.to_json() for name, part in parts.items() if part is not None}, indent=1))
        return
    if kept is not None:
        show(*plan_text(kept))
    if expected is not None:
        show(*forecast_text(expected, shape))
    if written is not None:
        show(f"figure: {written}")


def _space(classes: str | None, interval: str | None) -> LabelSpace:
    """The declared label space: only the number of classes matters, or the grid."""
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
        raise InputError("expected --label with a table, found none; name the label column, so that it is never read")
    table = open_table(source, label)
    kept, dropped = declared_columns(table, keep, drop)
    excluded = [] if kept is None and dropped is None else dropped
    return public_shape(table, kept_columns(table.schema, label, kept, excluded))


def _one(name: str, option: int | None, of_table: int | None) -> int:
    """The value of an option or of a table; exactly one must be there."""
    if (option is None) == (of_table is None):
        found = "neither" if option is None else "both"
        raise InputError(f"expected --{name} or a table, found {found}")
    return option if option is not None else of_table or 0
