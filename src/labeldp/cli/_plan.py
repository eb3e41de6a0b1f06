"""``labeldp plan``: compare mechanisms before anything is spent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from labeldp import _checks, privacy, release, report
from labeldp.bounds import planning
from labeldp.cli._options import ColumnOptions, check_one_of, class_texts, range_of
from labeldp.cli._terminal import show
from labeldp.errors import InputError
from labeldp.release import tables

if TYPE_CHECKING:
    from labeldp.bounds.planning import EffectiveDimension, Forecast
    from labeldp.privacy import LabelSpace

_LOCAL = "local"
_MOST_CLASSES = 1 << 24


def plan(
    source: Path | None = None,
    *,
    classes: str | None = None,
    interval: str | None = None,
    rows: int | None = None,
    epsilon: float | None = None,
    target: float | None = None,
    dimension: float | None = None,
    explained: float = 0.5,
    spread: float | None = None,
    trust: str = _LOCAL,
    label: str | None = None,
    columns: ColumnOptions,
    json_: bool = False,
    figure: Path | None = None,
) -> None:
    """Compare mechanisms: effective rows and expected error, at one epsilon and over a range of them.

    Computed from public numbers alone: no label is read. By default all columns of TABLE but the label count as public.

    Args:
        source ([TABLE]): A table from which to read the number of rows and the dimension of the public columns.
        classes: Number of classes, or a,b,c or @FILE.
        interval: Range and grid of a numeric label: LO,HI,STEP.
        rows: Number of rows; default: that of TABLE.
        epsilon: Privacy cost of each label; default: the least that reaches --target.
        target: Error to reach: RMS error of the estimated mean (numeric), or excess probability of a wrong class over
            the best classifier.
        dimension: Effective dimension of the features; default: that of TABLE.
        explained: Share of the variance of a numeric label that features explain (an assumption).
        spread: Standard deviation of a numeric label; default: as if spread evenly over its range.
        trust: local: each label is randomized; central: a trusted curator answers queries.
        label: Name of the label column of TABLE, which is never read.
        columns: The public columns of TABLE.
        json_: Print JSON.
        figure: Draw the plan over epsilon to this file: .png, .svg or .pdf.
    """
    if epsilon is None and target is None:
        raise InputError("expected --epsilon, or --target to find the epsilon for, found neither")
    space = _space(classes, interval)
    table_rows, shape = _shape(source, label, columns) if source is not None else (None, None)
    check_one_of("--rows or a table", rows, table_rows)
    many = rows or table_rows or 0
    wide = dimension if dimension is not None else shape.participation if shape is not None else 0.0
    local_classes = trust == _LOCAL and interval is None
    expected: Forecast | None = None
    if wide or target is not None or spread is not None or not local_classes:
        expected = planning.forecast(
            *(space, many, epsilon), dimension=wide, trust=trust, target=target, explained=explained, spread=spread
        )
    spent = epsilon if expected is None else expected.epsilon
    kept = planning.plan(space.size, many, spent) if local_classes and spent is not None else None
    written = None
    if figure is not None:
        written = (
            report.save_forecast_figure(expected, figure)
            if expected
            else report.save_plan_figure(kept, figure)
            if kept
            else None
        )
    if json_:
        parts = {"plan": kept, "forecast": expected}
        typer.echo(json.dumps({name: part.to_json() for name, part in parts.items() if part is not None}, indent=1))
        return
    if kept is not None:
        show(*report.plan_text(kept))
    if expected is not None:
        show(*report.forecast_text(expected, shape))
    if written is not None:
        show(f"figure: {written}")


def _space(classes: str | None, interval: str | None) -> LabelSpace:
    """The declared label space: only the number of classes matters, or the grid."""
    check_one_of("either --classes or --interval to declare the label space", classes, interval)
    if interval is not None:
        return privacy.Interval(*range_of(interval))
    return privacy.Classes(range(_checks.whole(_count(classes or ""), "classes", 2, _MOST_CLASSES)))


def _count(classes: str) -> int:
    try:
        return int(classes)
    except ValueError:
        return len(set(class_texts(classes)))


def _shape(source: Path, label: str | None, columns: ColumnOptions) -> tuple[int, EffectiveDimension | None]:
    """Rows and the effective dimension of a table's public columns."""
    from labeldp.cli._public_shape import public_shape  # noqa: PLC0415 (it loads Arrow)

    if label is None:
        raise InputError("expected --label with a table, found none; name the label column, so that it is never read")
    table = tables.open_table(source, label)
    kept, dropped = columns.of(table)
    excluded = [] if kept is None and dropped is None else dropped
    return public_shape(table, release.kept_columns(table.schema, label, kept, excluded))
