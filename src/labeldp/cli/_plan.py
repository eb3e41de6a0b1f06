"""``labeldp plan``: compare mechanisms before a release."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from labeldp import _checks, bounds, privacy, release, render, results
from labeldp._extras import require_extra
from labeldp.bounds import planning
from labeldp.cli._command import Place, ReleaseFolder
from labeldp.cli._options import (
    DECLARED,
    ColumnOptions,
    FileOptions,
    SpendingOptions,
    check_one_of,
    class_texts,
    number_of,
    range_of,
)
from labeldp.cli._terminal import notes_on_terminal, progress, show
from labeldp.errors import InputError
from labeldp.release import tables

if TYPE_CHECKING:
    from labeldp.bounds.planning import Conventions, Forecast
    from labeldp.cli._public_shape import PublicShape
    from labeldp.privacy import LabelSpace
    from labeldp.release import Answer, Release, TableRelease

_LOCAL = "local"
_ROW = "row"
#: The options whose charges a page states, though nothing is bought.
_LEDGERS = ("ledger", "team_ledger")
#: The epsilon of the answer where none was asked for; nothing is spent.
_EXAMPLE = 1.0
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

    def space(self, sources: Sequence[Release | Answer] = ()) -> LabelSpace:
        """The declared label space, or that of a source, whose classes have the order of its shares."""
        if sources and self.classes is None and self.interval is None:
            return sources[0].space
        check_one_of(DECLARED, self.classes, self.interval)
        if self.interval is not None:
            return privacy.Interval(*range_of(self.interval))
        declared = _classes(self.classes or "")
        known = (each.space for each in sources if isinstance(each.space, privacy.Classes))
        return next((space for space in known if space.size == declared.size), declared)


@dataclass(frozen=True)
class ForecastOptions:
    """Options for the expected error.

    Args:
        target: Error to reach: RMS error of the estimated mean (numeric); accuracy lost (classes, with features), such
            as 0.02; or excess probability of a wrong class over the best classifier.
        dimension: Effective dimension of the features; default: that of TABLE.
        explained: Share of the variance of a numeric label that features explain; default: 0.5, an assumption.
        spread: Standard deviation of a numeric label; default: that of --shares, --from or --buy, or else that of
            labels spread evenly over the range, an assumption.
        shares: Shares of the classes, or of the grid points: a,b,c.
        from_ (DIR): Release or answer about these labels, from which their distribution is estimated; it costs nothing
            more. For several answers, repeat it.
        trust: local: each label is randomized; central: a trusted curator answers queries.
    """

    target: float | None = None
    dimension: float | None = None
    explained: float | None = None
    spread: float | None = None
    shares: str | None = None
    from_: list[ReleaseFolder] | None = None
    trust: str = _LOCAL

    def sources(self) -> list[Release | Answer]:
        """The releases and answers of ``--from``."""
        kinds = [
            (release.Answer if release.is_answer(folder) else release.Release, folder) for folder in self.from_ or ()
        ]
        return [kind.load(folder) for kind, folder in kinds]

    def conventions(self, dimension: float, space: LabelSpace, sources: Sequence[Release | Answer]) -> Conventions:
        """The assumptions, stated or by default."""
        shares = planning.shares_unless_hidden(*sources, space=space) if sources else None
        known = None if shares is None else shares.tolist()
        if self.shares is not None:
            known = [number_of(text, "--shares") for text in self.shares.split(",")]
        return planning.Conventions(dimension, self.explained, self.spread, known)


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options for the table.

    Args:
        rows: Number of rows; default: that of TABLE, or of --from.
        label: Name of the label column of TABLE, which is read with --buy alone.
        unit: Column of the privacy unit in TABLE, such as a patient number: epsilon then covers all rows of one unit.
            'row' declares that epsilon is for each row.
        columns: The public columns of TABLE.
        file: How CSV files are written.
    """

    rows: int | None = None
    label: str | None = None
    unit: str | None = None
    columns: ColumnOptions
    file: FileOptions

    @property
    def named_unit(self) -> str | None:
        """The column of the privacy unit."""
        return None if self.unit == _ROW else self.unit

    def shape(self, source: Place | None, known: int | None = None) -> PublicShape:
        """Rows, by default those known from elsewhere, privacy units and the dimension of a table's public columns."""
        from labeldp.cli._public_shape import PublicShape  # noqa: PLC0415 (it loads Arrow)

        if source is None and self.named_unit is not None:
            raise InputError(f"expected TABLE with --unit {self.unit}, whose rows are counted, found none; name it")
        found = None if source is None else self._shape_of(source)
        if source is None and self.rows is None and known is not None:
            return PublicShape(known)
        check_one_of("--rows or a table", self.rows, found)
        return found or PublicShape(self.rows or 0)

    def _shape_of(self, source: Place) -> PublicShape:
        from labeldp.cli._public_shape import public_shape  # noqa: PLC0415 (it loads Arrow)

        if self.label is None:
            raise InputError(
                "expected --label with a table, found none; name the label column, so that it is never read"
            )
        table = tables.open_table(self.file.of(source), self.label)
        kept, dropped = self.columns.of(table)
        excluded = [] if kept is None and dropped is None else dropped
        public = release.kept_columns(table.schema, self.label, kept, excluded)
        with progress() as bar:
            return public_shape(table, public, self.named_unit, bar)


@dataclass(frozen=True, kw_only=True)
class PurchaseOptions:
    """Options for counts of the labels that are bought.

    Args:
        buy (EPSILON): Buy noisy counts of the labels of TABLE: this reads them, and is charged to the ledger.
        output: For --buy: a new folder for the counts; default: TABLE.counts. A later plan reads it with --from.
        missing: For --buy: missing labels: 'refuse' (default), or the class or number to put in their place.
        spending: The ledger and its budget.
    """

    buy: float | None = None
    output: Path | None = None
    missing: str | None = None
    spending: SpendingOptions

    def bought(
        self, source: Place | None, table: TableOptions, shape: PublicShape, space: SpaceOptions, *, page: bool
    ) -> TableRelease | None:
        """Count the labels of a table with noise, if that was asked for; a page reads the ledger without it."""
        if self.buy is None:
            for name, value in {"output": self.output, "missing": self.missing, **asdict(self.spending)}.items():
                option, ledger = f"--{name.replace('_', '-')}", name in _LEDGERS
                if value not in (None, False) and not (page and ledger):
                    what = "--buy or --report, found neither" if ledger else "--buy alone, found no --buy"
                    raise InputError(f"expected {option} with {what}, so no label is read; leave {option} out")
            return None
        from labeldp.cli import _release as cli_release  # noqa: PLC0415 (commands load what they need)

        if source is None or table.label is None:
            raise InputError("expected TABLE and --label with --buy, found no table or no label; name both")
        check_one_of(DECLARED, space.classes, space.interval)
        given = table.file.of(source)
        declared = cli_release.SpaceOptions(space.classes, space.interval, self.missing or "refuse").of(
            tables.open_table(given, table.label)
        )
        planning.check_counts(declared, shape.rows, self.buy, shape.units)
        output: Place = source.with_name(f"{source.name}.counts") if self.output is None else self.output
        with progress() as bar:
            return release.release_table(
                given,
                table.label,
                planning.counting_space(declared),
                self.buy,
                output,
                keep=[],
                mechanism="noisy-histogram",
                unit=table.unit,
                **self.spending.arguments(),
                progress=bar,
            )


def plan(
    source: Place | None = None,
    *,
    label_space: SpaceOptions,
    table: TableOptions,
    epsilon: float | None = None,
    expected: ForecastOptions,
    purchase: PurchaseOptions,
    limits: bool = False,
    detail: bool = False,
    json_: bool = False,
    figure: Path | None = None,
    report: Path | None = None,
) -> None:
    """Forecast what an epsilon costs and means, before a release, and compare epsilons.

    Without --buy it is computed from public numbers alone, and no label is read. By default all columns of TABLE but
    the label count as public. Two assumptions decide the errors: how labels are distributed (--spread, --shares,
    --from, --buy), and how much of them features explain (--explained).

    Args:
        source ([TABLE]): A table from which to read the number of rows, the units and the dimension of public columns.
        label_space: The label space; by default that of --from.
        table: The table.
        epsilon: Privacy cost of each label, or of all labels of one --unit; default: the least that reaches --target,
            or 1 as an example.
        expected: Assumptions of the forecast.
        purchase: Counts of the labels that are bought.
        limits: Add every bound of the papers that applies, with proven or conventional constants.
        detail: Compare every mechanism, and list all assumptions.
        json_: Print JSON; 'labeldp schema' describes it.
        figure: Draw the plan over epsilon to this file: .png, .svg or .pdf.
        report: Write a page to choose an epsilon on to this file: .html. It needs no server and no network. It adds
            what the ledger beside TABLE spent, and that of --ledger.
    """
    example = epsilon is None and expected.target is None
    sources = expected.sources()
    space, shape = label_space.space(sources), table.shape(source, _rows_of(sources))
    wide = expected.dimension
    if wide is None:
        wide = shape.dimension.participation if shape.dimension is not None else 0.0
    if len([True for known in (expected.shares, expected.from_, purchase.buy) if known is not None]) > 1:
        raise InputError("expected one of --shares, --from and --buy for the distribution of labels, found several")
    if figure is not None:
        render.check_figure(figure)
    if report is not None:
        require_extra("report", "jinja2")
        render.check_page(report)

    def answers(**more: Any) -> tuple[partial[Forecast], Forecast, bounds.Limits | None]:
        """The forecast as a function of epsilon, at the epsilon asked for, and the bounds of the papers there."""
        rows, trust, known = shape.rows, expected.trust, expected.conventions(wide, space, sources)
        forecasting = partial(planning.forecast, space, rows, trust=trust, conventions=known, units=shape.units)
        forecast = forecasting(_EXAMPLE if example else epsilon, target=expected.target, **more)
        at = forecast.epsilon if limits else None
        proven = None if at is None else bounds.limits(space, rows, at, trust=trust, conventions=known)
        return forecasting, forecast, proven

    if purchase.buy is not None:
        answers(epsilons=())  # what is wrong with the options is refused before anything is bought
    bought = purchase.bought(source, table, shape, label_space, page=report is not None)
    if bought is not None:
        sources.append(release.Answer.load(bought.output))
        if not json_:
            show(*render.on_terminal(results.purchase_part(bought)), "")
            notes_on_terminal(bought.notes)
    forecasting, forecast, proven = answers()
    planned = results.Planned.of(
        forecast,
        table.named_unit or _ROW,
        people=shape.people,
        declared=table.unit is not None,
        example=example,
        hidden=bool(sources) and "shares" in forecast.defaults,
        bought=bought is not None,
        labels=results.labels_sentence(forecast.shares, space),
        features=shape.dimension,
        limits=proven,
    )
    written = [] if figure is None else [f"figure: {render.save_figure(results.plan_chart(forecast), figure)}"]
    if report is not None:
        from labeldp.cli._plan_page import EPSILONS, write_choice  # noqa: PLC0415 (it loads the ledger)

        fine = forecasting(forecast.epsilon or _EXAMPLE, epsilons=EPSILONS)
        options = (table, label_space, purchase.spending)
        written.append(f"page: {write_choice(planned, fine, source, options, report)}")
    if json_:
        from labeldp._strict_json import plain  # noqa: PLC0415 (it loads NumPy, and help is light)

        typer.echo(json.dumps(plain(planned), indent=1))
        return
    more = [] if detail else ["Every mechanism: --detail; for programs: --json."]
    show(*render.on_terminal(results.plan_part(planned), detail=detail), *more, *written)


def _rows_of(sources: Sequence[Release | Answer]) -> int | None:
    """Number of rows of a source."""
    return next((each.rows if isinstance(each, release.Answer) else len(each) for each in sources), None)


def _classes(text: str) -> privacy.Classes:
    """Classes by their number, or by their names."""
    try:
        named: Sequence[object] = range(int(text))
    except ValueError:
        named = [*dict.fromkeys(class_texts(text))]
    _checks.whole(len(named), "classes", 2, _MOST_CLASSES)
    return privacy.Classes(named)
