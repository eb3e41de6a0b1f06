"""``labeldp plan``: compare mechanisms before anything is spent."""

from __future__ import annotations

import json
from dataclasses import dataclass
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


@dataclass(frozen=True)
class SpaceOptions:
    """Options that declare a label space.

    Args:
        classes: Number of classes, or a,b,c or @FILE.
        interval: Range and grid of a numeric label: LO,HI,STEP.
    """

    classes: str | None = None
    interval: str | None = None

    def space(self) -> LabelSpace:
        """The declared label space: only the number of classes matters, or the grid."""
        check_one_of("either --classes or --interval to declare the label space", self.classes, self.interval)
        if self.interval is not None:
            return privacy.Interval(*range_of(self.interval))
        return privacy.Classes(range(_checks.whole(_count(self.classes or ""), "classes", 2, _MOST_CLASSES)))


@dataclass(frozen=True)
class ForecastOptions:
    """Options for the expected error.

    Args:
        target: Error to reach: RMS error of the estimated mean (numeric), or excess probability of a wrong class over
            the best classifier.
        dimension: Effective dimension of the features; default: that of TABLE.
        explained: Share of the variance of a numeric label that features explain (an assumption).
        spread: Standard deviation of a numeric label; default: that of a uniform distribution over its range.
        trust: local: each label is randomized; central: a trusted curator answers queries.
    """

    target: float | None = None
    dimension: float | None = None
    explained: float = 0.5
    spread: float | None = None
    trust: str = _LOCAL


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options for the table.

    Args:
        rows: Number of rows; default: that of TABLE.
        label: Name of the label column of TABLE, which is never read.
        columns: The public columns of TABLE.
    """

    rows: int | None = None
    label: str | None = None
    columns: ColumnOptions

    def shape(self, source: Path | None) -> tuple[int, EffectiveDimension | None]:
        """Rows, and the effective dimension of a table's public columns."""
        rows, dimension = (None, None) if source is None else self._shape_of(source)
        check_one_of("--rows or a table", self.rows, rows)
        return self.rows or rows or 0, dimension

    def _shape_of(self, source: Path) -> tuple[int, EffectiveDimension | None]:
        from labeldp.cli._public_shape import public_shape  # noqa: PLC0415 (it loads Arrow)

        if self.label is None:
            raise InputError(
                "expected --label with a table, found none; name the label column, so that it is never read"
            )
        table = tables.open_table(source, self.label)
        kept, dropped = self.columns.of(table)
        excluded = [] if kept is None and dropped is None else dropped
        return public_shape(table, release.kept_columns(table.schema, self.label, kept, excluded))


def plan(
    source: Path | None = None,
    *,
    label_space: SpaceOptions,
    table: TableOptions,
    epsilon: float | None = None,
    expected: ForecastOptions,
    json_: bool = False,
    figure: Path | None = None,
) -> None:
    """Compare mechanisms: effective rows and expected error, at one epsilon and over a range of them.

    Computed from public numbers alone: no label is read. By default all columns of TABLE but the label count as public.

    Args:
        source ([TABLE]): A table from which to read the number of rows and the dimension of the public columns.
        label_space: The label space.
        table: The table.
        epsilon: Privacy cost of each label; default: the least that reaches --target.
        expected: Assumptions of the forecast.
        json_: Print JSON.
        figure: Draw the plan over epsilon to this file: .png, .svg or .pdf.
    """
    if epsilon is None and expected.target is None:
        raise InputError("expected --epsilon, or --target to find the epsilon for, found neither")
    space, (rows, shape) = label_space.space(), table.shape(source)
    wide = shape.participation if expected.dimension is None and shape is not None else expected.dimension or 0.0
    local_classes = expected.trust == _LOCAL and label_space.interval is None
    errors: Forecast | None = None
    if wide or expected.target is not None or expected.spread is not None or not local_classes:
        conventions = planning.Conventions(wide, expected.explained, expected.spread)
        errors = planning.forecast(
            space, rows, epsilon, target=expected.target, trust=expected.trust, conventions=conventions
        )
    spent = epsilon if errors is None else errors.epsilon
    mechanisms = planning.plan(space.size, rows, spent) if local_classes and spent is not None else None
    written = None
    if figure is not None and errors is not None:
        written = report.save_forecast_figure(errors, figure)
    elif figure is not None and mechanisms is not None:
        written = report.save_plan_figure(mechanisms, figure)
    if json_:
        parts = {"plan": mechanisms, "forecast": errors}
        typer.echo(json.dumps({name: part.to_json() for name, part in parts.items() if part is not None}, indent=1))
        return
    if mechanisms is not None:
        show(*report.plan_text(mechanisms))
    if errors is not None:
        show(*report.forecast_text(errors, shape))
    if written is not None:
        show(f"figure: {written}")


def _count(classes: str) -> int:
    try:
        return int(classes)
    except ValueError:
        return len(set(class_texts(classes)))
