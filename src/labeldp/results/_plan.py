"""Plans and forecasts: what an epsilon costs and means, the table that one is chosen from, and every mechanism."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING

import numpy as np

from labeldp._checks import printable
from labeldp._strict_json import absent
from labeldp.bounds import Limits
from labeldp.bounds.planning import CLEAN_AREA, EffectiveDimension, Forecast, Goal, Option
from labeldp.privacy import Guarantee, Interval, LabelSpace
from labeldp.results._blocks import Block, Grid, Part, Picture, Prose, Section, Terms
from labeldp.results._limits import grounds, limits_blocks
from labeldp.results._numbers import counted, exactly_above, posterior, share, three_digits
from labeldp.results._plan_choice import TARGET, Choosing, choice_sections
from labeldp.results._plan_costs import (
    Column,
    area,
    costs_columns,
    effective_rows,
    is_mean,
    lost,
    of_all,
    plan_chart,
    points,
    shows_error,
)

if TYPE_CHECKING:
    from labeldp.release import TableRelease
    from labeldp.release.tables import Identity

_MOST_NAMED = 10
_PERCENT = 100.0
_MEAN = "always predicting the mean"
#: The head of the column that names the best mechanism and the default.
_MARKS = ""
_EXAMPLE = "No --epsilon was given: 1 is an example."
_HIDDEN = (
    "Noise hides the spread of labels in what was released of them, so the plan assumes that they spread evenly over "
    "the range. State --spread, or release or buy at a larger epsilon."
)
_NOTE = (
    "Effective rows: the release is about as informative as this many rows with true labels (within a factor of two in "
    "16 of 19 tests, experiments/effective_rows.md); at most: for any statistic of labels, reached where features "
    "leave two classes equally likely. 'auto' goes by these, not by effective rows at the class shares, since features "
    "mostly leave few classes likely. Variance: of the unbiased vector of one row."
)
_EVEN = "Effective rows assume even classes ({:.3g} % each): pass --shares, --from or --buy where they are not."
_SKEWED = (
    "If one class had 98 % of the rows, they would be about {}: pass --shares where classes are not equally common."
)
_LITTLE = (
    "With {} of the rows in one class, accuracy says little: always predicting it is wrong in {}. Judge models by the "
    "area under the ROC and by log loss, as 'labeldp learn' prints them."
)
_AREA = (
    "A model whose area under the ROC would be {:.2f} on true labels has about {}, by experience on five real tables. "
    "A logistic model would lose about {} nats of log loss to few effective rows, by its asymptotic formula."
)
_KNOWN = (
    "What the settings say of the labels must be public knowledge, or come from a released table (--from): the counts "
    "that 'check' prints are private."
)
_ONE_EACH = (
    "All rows of one {0} share epsilon: one row of each alone would be as informative as about {1} of {2}. Noise would "
    "then move {3} by {4}. Such a row must be chosen without a look at labels."
)
_CURATOR = "For {} alone ask a curator (--trust central): at this epsilon noise moves {} by about {}, and {}."
#: The error that a target is for, by whether labels are numeric; and the quantity for classes with features.
_ERROR = {
    True: "the error of the mean of labels with the same features, without the spread of labels around it",
    False: "the chance of a wrong class beyond that of the best rule",
}
_LOST = "the accuracy that privacy costs at most, as a share of rows"
#: Ways to replace a default.
_WAYS = {
    "shares": "--spread or --shares; --from, for a release or an answer; --buy EPSILON, which is charged",
    "explained": "--explained, such as the R2 that 'labeldp evaluate' prints of a model",
    "dimension": "a TABLE or --dimension, for features",
}
_MEANING = {
    True: "RMS error of the estimated mean, in the unit of the label",
    False: "excess probability of a wrong class, over the best classifier",
}


@dataclass(frozen=True)
class Planned:
    """The findings of a plan, as ``labeldp plan --json`` prints them.

    Attributes:
        unit: The column of the privacy unit, or ``"row"``.
        over_epsilon: The mechanism that a release takes at each epsilon.
        forecast: Every mechanism.
        notes: Remarks on columns that may be people, on the epsilon that was taken as an example, and on the spread of
            labels that noise hides.
        whom: What the guarantee is about, if a unit is not a person.
        bought: True if counts of the labels were bought for this plan.
        labels: What is known of the distribution of labels; empty where nothing is.
        features: The effective dimension of the public columns of a table.
        limits: The bounds of the papers that apply, where these were requested.
    """

    unit: str
    over_epsilon: tuple[Option, ...]
    forecast: Forecast
    notes: tuple[str, ...] = ()
    whom: str = "a person"
    bought: bool = False
    labels: str = ""
    features: EffectiveDimension | None = absent()
    limits: Limits | None = absent()

    @classmethod
    def of(
        cls,
        forecast: Forecast,
        unit: str = "row",
        *,
        people: Sequence[Identity] = (),
        declared: bool = False,
        example: bool = False,
        hidden: bool = False,
        **more: str | bool | EffectiveDimension | Limits | None,
    ) -> Planned:
        """The findings of a forecast."""
        notes = [note for note, due in ((_EXAMPLE, example), (_HIDDEN, hidden)) if due]
        notes += _on_people(people, declared=declared) if unit == "row" else []
        whom = "one row" if unit == "row" and people else "a person"
        return cls(unit, forecast.over_epsilon, forecast, tuple(notes), whom, **more)  # type: ignore[arg-type]

    @property
    def per(self) -> str:
        """The words for the privacy unit, after an epsilon."""
        return "" if self.unit == "row" else f" per {printable(self.unit)}"


def plan_part(planned: Planned, choosing: Choosing | None = None) -> Part:
    """The answer in words, after the assumptions it rests on; one row for each epsilon; and every mechanism.

    Args:
        planned: The findings.
        choosing: What a page lets choose from; by default the epsilons of the table.
    """
    forecast, promise = planned.forecast, Guarantee(1.0, unit=planned.unit)
    choosing = choosing or Choosing(planned.over_epsilon)
    sections = [Section("What each epsilon costs", tuple(_over_epsilon(planned)))]
    sections = [*choice_sections(choosing, forecast, promise), *sections]
    if planned.labels:
        sections.append(Section("", (Prose(planned.labels),), detail=True))
    if forecast.has_error:
        first = f"Assumed: {forecast.assumptions[0]}. This decides every figure marked *."
        assumed = tuple(map(Prose, [first, *replaced_defaults(forecast)]))
        sections.append(Section("What decides", assumed, detail=True))
    if planned.limits is not None:
        sections.append(Section("What the papers prove", limits_blocks(planned.limits)))
        sections.append(Section("Assumptions of the papers", (grounds(planned.limits),), detail=True))
    sections.append(Section("Every mechanism", tuple(_mechanisms(planned)), detail=True))
    sections.append(Section("", (Prose(_source(planned), "aside"),)))
    headline = f"What privacy would cost{planned.per}"
    return Part("A plan, before anything is spent", headline, "", tuple(_answer(planned)), (), tuple(sections))


def _source(planned: Planned) -> str:
    """The sources of a plan: settings, counts that were bought, or knowledge of labels that must be public."""
    if planned.bought:
        return "Computed from your settings and the counts that were bought."
    knows = planned.labels or (planned.forecast.of_numbers and "shares" not in planned.forecast.defaults)
    return f"Computed from your settings; {f'this plan read no label. {_KNOWN}' if knows else 'no label was read.'}"


def expected_sentences(forecast: Forecast, mechanism: str) -> list[str]:
    """The expected error of one mechanism, then the assumptions; nothing of one that the forecast does not have."""
    ours = next((option for option in forecast.options if option.mechanism == mechanism), None)
    assumed = f"Assumed: {'; '.join(forecast.assumptions)}."
    return [] if ours is None else [_sentence(_expected(ours, forecast)), assumed]


def purchase_part(bought: TableRelease) -> Part:
    """The cost of counts that were bought, and where ledger and counts are."""
    guarantee, (spent, _) = bought.certificate.guarantee, bought.spent
    lead = (
        f"Bought noisy counts of {bought.certificate.rows:,} labels for epsilon {exactly_above(guarantee.epsilon)}; "
        f"spent on this label so far: {exactly_above(spent)} of a budget of {bought.budget.epsilon:g}.",
        f"ledger: {bought.ledger}",
        f"counts: {bought.output} (later plans read them for nothing with --from)",
        "A release of these labels adds to this cost: pass it a --budget for both.",
    )
    return Part("Counts that were bought", "Counts that were bought", "", lead)


def labels_sentence(shares: Sequence[float] | None, space: LabelSpace) -> str:
    """The distribution of labels, where one is known; else empty."""
    if shares is None:
        return ""
    if isinstance(space, Interval):
        points, cumulative = np.array(space.points), np.cumsum(shares)
        mean = float(points @ np.array(shares))
        spread = math.sqrt(float((points - mean) ** 2 @ np.array(shares)))
        low, median, high = (three_digits(float(np.interp(q, cumulative, points))) for q in (0.25, 0.5, 0.75))
        known = f"mean {three_digits(mean)}, standard deviation {three_digits(spread)}, "
        known += f"quartiles {low}, {median} and {high}"
    else:
        largest = sorted(zip(shares, space.points, strict=True), reverse=True, key=lambda each: each[0])[:_MOST_NAMED]
        known = ", ".join(f"{point} {share(each)}" for each, point in largest)
    return f"labels, as stated or estimated with noise: {known}"


def _on_people(people: Sequence[Identity], *, declared: bool) -> list[str]:
    """A column that may be people with several rows, where no column was named as the unit."""
    return [
        f"note: {each.question}: a person? "
        + (
            f"Then epsilon is {each.most} times as large for all labels of one with {each.most} rows."
            if declared
            else f"Then plan with --unit {quote(each.name)}; if not, with --unit row. A release asks, too."
        )
        for each in people[:1]
    ]


def _answer(planned: Planned) -> Iterator[str]:
    """The cost at one epsilon after the assumptions it rests on, and the meaning for a person."""
    forecast = planned.forecast
    epsilon, goal = forecast.epsilon, forecast.goal
    if goal is not None or forecast.of_numbers:
        yield f"Assumed: {forecast.assumptions[0]}."
    if goal is not None:
        loses = forecast.dimension > 0 and not forecast.of_numbers
        judged = _LOST if loses else _ERROR[forecast.of_numbers]
        yield f"Target {goal.target:g}, {judged}: {_target(forecast, goal)}."
    if epsilon is not None:
        (row,) = (row for row in planned.over_epsilon if row.epsilon == epsilon)
        yield from _costs(f"Epsilon {epsilon:.3g}{planned.per}", row, forecast)
        yield from _of_one_row_each(row, planned)
        yield from _of_curator(row, forecast)
    if forecast.of_numbers or goal is not None:
        yield from replaced_defaults(forecast)
    if epsilon is not None:
        yield Guarantee(abs(epsilon), unit=planned.unit).posterior_sentence(planned.whom)
    yield from planned.notes


def _costs(epsilon: str, row: Option, forecast: Forecast) -> Iterator[str]:
    """Effective rows and expected error at one epsilon, each after its assumption."""
    given = "" if forecast.goal is not None or forecast.of_numbers else f"if {forecast.assumptions[0]}: "
    if not forecast.randomizes_classes:
        yield f"{epsilon}: {given}{_expected(row, forecast)}."
        return
    even = f"if the {forecast.classes:,} classes are equally common"
    even = even if forecast.shares is None else "at these class shares"
    yield f"{epsilon}: {even}, {informative(row, forecast.rows)}."
    if forecast.skewed_rows is not None:
        yield _SKEWED.format(_true_labels(forecast.skewed_rows))
    if forecast.is_rare:
        largest = forecast.largest_share
        yield _LITTLE.format(share(largest), share(1.0 - largest))
        if row.log_loss is not None:
            yield _AREA.format(CLEAN_AREA, area(row), three_digits(row.log_loss))
    elif forecast.dimension:
        yield _sentence(f"{given}{_expected(row, forecast)}")


def _of_one_row_each(row: Option, planned: Planned) -> Iterator[str]:
    """A sentence on one row of each unit alone, where it shows more than all rows do, which share its epsilon."""
    forecast, alone = planned.forecast, planned.forecast.one_row_each
    if alone is None or alone.effective_rows <= (row.effective_rows or 0):
        return
    _, what, unit, scale = _in_sums(forecast)
    noise = three_digits(scale * alone.noise / math.sqrt(alone.rows)) + unit
    yield _ONE_EACH.format(printable(planned.unit), _true_labels(alone.effective_rows), f"{alone.rows:,}", what, noise)


def _in_sums(forecast: Forecast) -> tuple[str, str, str, float]:
    """The kind of sums of labels, the figure that noise moves, its unit, and its scale."""
    if forecast.of_numbers:
        return "means", "the mean", "", 1.0
    return "shares", "the difference of two classes' shares", " points", _PERCENT


def _of_curator(row: Option, forecast: Forecast) -> Iterator[str]:
    """The noise on a share or a mean of all rows, by a curator and by labels that are randomized one by one."""
    if forecast.curator_noise is None:
        return
    kind, what, unit, scale = _in_sums(forecast)
    low, high = forecast.range or (0.0, 1.0)
    of_row = row.noise if forecast.alike_noise is None else forecast.alike_noise
    asked, own = forecast.curator_noise / forecast.rows, of_row / math.sqrt(forecast.rows)
    if asked < min(own, high - low):
        beside = "these labels hide it" if own >= high - low else f"in these labels by {three_digits(scale * own)}"
        yield _CURATOR.format(kind, what, three_digits(scale * asked) + unit, beside)


def _sentence(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:]}."


def _expected(row: Option, forecast: Forecast) -> str:
    """The expected error of a forecast beside that without privacy."""
    clean = forecast.clean_error
    if forecast.of_numbers:
        of_mean = f"the mean of all labels errs by about {three_digits(row.error)}"
        of_mean += f" ({three_digits(clean)} without privacy)"
        best, mean = three_digits(forecast.against_labels(clean)), three_digits(forecast.spread or 0.0)
        with_features = f"test RMSE about {three_digits(row.test_error or 0.0)}"
        with_features += f" ({best} without privacy, {mean} {_baseline(forecast)})"
        none = "" if forecast.best else f"no mechanism beats {_baseline(forecast)}: "
        if is_mean(row, forecast):
            with_features = f"test RMSE about {three_digits(row.test_error or 0.0)}, that of the mean of these labels"
            with_features += f" ({best} without privacy, {mean} with the true mean)"
        return f"{none}{with_features if forecast.dimension else of_mean}; {informative(row, forecast.rows)}"
    if forecast.loses_accuracy:
        about = "" if lost(row).startswith("under") else "about "
        return f"{about}{lost(row)} points less accuracy than without privacy, by experience on 30 real tables"
    return (
        f"a wrong class in {points(row.error)} % more rows than by the best class ({points(clean)} % without privacy)"
    )


def informative(row: Option, rows: int) -> str:
    """The effective rows of all rows."""
    if row.effective_rows is None:
        return f"as informative as at most {_true_labels(row.at_most or 0)} of {rows:,}"
    if row.effective_rows == 0:
        return f"less informative than one true label, of {rows:,}"
    return f"as informative as about {_true_labels(row.effective_rows)} of {rows:,} ({of_all(row)})"


def _true_labels(count: int) -> str:
    return counted(count, "true label")


def _grid(title: str, columns: Sequence[Column], options: Sequence[Option], texts: Sequence[str]) -> Grid:
    """A table of options, without empty columns; one text in all rows is said once, in the caption.

    Args:
        title: The caption.
        columns: The columns.
        options: A row for each.
        texts: The columns of texts; all others are of numbers.
    """
    cells = [(head, [text(option) for option in options]) for head, text in columns]
    same = [f"{head}: {column[0]}" for head, column in cells if head in texts and _is_said_once(column)]
    shown = [(head, column) for head, column in cells if any(column) and not (head in texts and _is_said_once(column))]
    numbers = tuple(place for place, (head, _) in enumerate(shown) if head not in texts)
    rows = [*zip(*(column for _, column in shown), strict=True)]
    return Grid.of("; ".join([title, *same]), tuple(head for head, _ in shown), rows, numbers)


def _is_said_once(column: Sequence[str]) -> bool:
    return len(column) > 1 and len(set(column)) == 1 and bool(column[0])


def _over_epsilon(planned: Planned) -> Iterator[Block]:
    """One row for each epsilon: the mechanism that a release takes, and what it costs; and a chart."""
    forecast = planned.forecast
    how = "each label randomized alone" if forecast.trust == "local" else "a curator answers queries"
    title = f"{forecast.rows:,} rows, {how}"
    if forecast.units is not None:
        title += f"; units of up to {forecast.units.most:,} rows, which share epsilon"
    title += f"; {_PERCENT * TARGET:g} % sure: by everything else"
    suspected: Column = (
        f"{_PERCENT * TARGET:g} % sure becomes at most",
        lambda row: posterior(Guarantee(row.epsilon).posterior(TARGET)),
    )
    yield _grid(title, [*costs_columns(forecast), suspected], planned.over_epsilon, ("mechanism",))
    if shows_error(forecast):
        yield Prose("* if the assumptions above hold", "aside")
    chart = plan_chart(forecast)
    yield Picture(chart, chart.what)


def _mechanisms(planned: Planned) -> Iterator[Block]:
    """Every mechanism at one epsilon and over a sweep, and the needs of a target."""
    forecast = planned.forecast
    of_classes, has_error = forecast.randomizes_classes, forecast.has_error
    if of_classes and forecast.shares is None:
        yield Prose(_EVEN.format(_PERCENT / (forecast.classes or 1)))
    if forecast.options:
        title = f"{_setting(forecast)}, epsilon {forecast.epsilon:.3g}"
        yield _grid(title, _columns(forecast), forecast.options, ("mechanism", "releases", _MARKS))
    if of_classes:
        yield _sweep("share of effective rows, by epsilon", forecast, _share)
    if has_error:
        yield _sweep("expected error*, by epsilon", forecast, lambda option: three_digits(option.error))
    if of_classes:
        yield Prose(_NOTE, "aside")
    if has_error:
        yield Terms(tuple(_findings(forecast, planned.features).items()))
        yield from (Prose(f"assumed: {each}") for each in forecast.assumptions[1:])


def _columns(forecast: Forecast) -> Sequence[Column]:
    """The figures of a mechanism at one epsilon; those that rest on the assumption that decides have a star."""
    of_classes, has_error = forecast.randomizes_classes, forecast.has_error
    star, votes = "" if of_classes else "*", "" if forecast.of_numbers else ", in votes"
    where = "row" if forecast.trust == "local" else "cell's sum"
    marks = ("best", "auto") if has_error else ("auto",)
    return (
        ("mechanism", lambda option: option.mechanism),
        ("releases", lambda option: option.detail),
        ("truth kept", lambda option: "" if option.truth_probability is None else share(option.truth_probability)),
        (f"noise of a {where}{votes}", lambda option: "" if of_classes else three_digits(option.noise)),
        (f"effective rows{star}", effective_rows),
        (f"share{star}", _share),
        ("at most", lambda option: "" if option.at_most is None else f"{option.at_most:,}"),
        ("variance", lambda option: "" if option.variance is None else three_digits(option.variance)),
        ("expected error*", lambda option: three_digits(option.error) if has_error else ""),
        (_MARKS, lambda option: ", ".join(name for name in marks if getattr(option, name))),
    )


def _share(option: Option) -> str:
    """The effective rows per released row."""
    return "unknown" if option.share is None else f"{option.share:.2%}"


def _sweep(title: str, forecast: Forecast, text: Callable[[Option], str]) -> Grid:
    """A figure of each mechanism over epsilon; those of the options come first, in their order."""
    rows = [{option.mechanism: option for option in row} for row in forecast.sweep if row]
    heads = ("mechanism", *(f"{next(iter(row.values())).epsilon:g}" for row in rows))
    names = dict.fromkeys(itertools.chain((option.mechanism for option in forecast.options), *rows))
    cells = [(name, *(text(row[name]) if name in row else "-" for row in rows)) for name in names]
    return Grid.of(f"{title}: {_setting(forecast)}", heads, cells, tuple(range(1, len(heads))))


def replaced_defaults(forecast: Forecast) -> list[str]:
    """The options that replace the defaults of the assumption that decides."""
    ways = "; ".join(_WAYS[name] for name in forecast.defaults if name in _WAYS)
    return [f"To replace a default: {ways}."] if ways else []


def _setting(forecast: Forecast) -> str:
    low, high = forecast.range or (0.0, 0.0)
    labels = f"labels from {low:g} to {high:g}" if forecast.of_numbers else f"{forecast.classes:,} classes"
    features = f"dimension {forecast.dimension:.3g}" if forecast.dimension else "no features"
    return f"{forecast.rows:,} rows, {labels}, {features}, {forecast.trust}"


def _findings(forecast: Forecast, shape: EffectiveDimension | None) -> dict[str, str]:
    """Names and values below the tables."""
    findings = {"error": _MEANING[forecast.of_numbers], "without privacy*": three_digits(forecast.clean_error)}
    if forecast.spread is not None:
        findings["test RMSE*"] = _against_labels(forecast)
        findings["baseline*"] = f"{_MEAN}: RMSE {three_digits(forecast.spread)}, the standard deviation of labels"
    if forecast.options and forecast.best is None:
        findings["best"] = f"none: no mechanism beats {_baseline(forecast)}; use more rows or a larger epsilon"
    if forecast.free_epsilon is not None:
        findings["nearly free*"] = (
            f"above epsilon {forecast.free_epsilon:.3g} the error is at most that of 90 % of your rows without privacy"
        )
    if forecast.best is not None and forecast.doubled is not None:
        findings["twice the rows*"] = (
            f"error {three_digits(forecast.doubled)} instead of {three_digits(forecast.best.error)}"
        )
    if forecast.goal is not None:
        findings[f"target {forecast.goal.target:g}*"] = _target(forecast, forecast.goal)
    if forecast.of_numbers and forecast.trust == "local":
        findings["minimax, optimal"] = "least variance for the worst label, and on average over the range"
        findings["error"] += ", by a linear model"
    if shape is not None:
        findings["features"] = (
            f"{shape.columns} numeric columns that vary together as {shape.participation:.3g} independent ones would: "
            "their effective dimension (participation ratio of the variances of their principal components); "
            f"{shape.components} of these components hold 90 % of their variance"
        )
    return findings


def _target(forecast: Forecast, goal: Goal) -> str:
    """The epsilon and the rows that reach a target."""
    if goal.trivial:
        return f"{_baseline(forecast)} already reaches it"
    differs = forecast.epsilon is not None and forecast.epsilon != goal.epsilon
    at = f" at epsilon {forecast.epsilon:g}" if differs else "" if forecast.options else " without privacy"
    rows = "no number of" if goal.rows is None else f"{goal.rows:,}"
    if goal.epsilon is None:
        return f"no epsilon reaches it with {forecast.rows:,} rows; {rows} rows would{at}"
    more = f", or with {rows} rows{at}" if at else ""
    return f"reached from epsilon {goal.epsilon:.3g}{more}"


def _against_labels(forecast: Forecast) -> str:
    """The error against single labels, which is what a test measures."""
    clean = f"{three_digits(forecast.against_labels(forecast.clean_error))} without privacy"
    best = forecast.best and f"{three_digits(forecast.against_labels(forecast.best.error))} with the best mechanism, "
    return f"{best or ''}{clean}: as `labeldp evaluate` prints it, the spread of labels included"


def _baseline(forecast: Forecast) -> str:
    """Name of the trivial predictor."""
    if not forecast.of_numbers:
        return "guessing a class"
    return _MEAN if forecast.dimension else "always predicting the middle of the range"
