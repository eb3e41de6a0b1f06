"""Plans and forecasts: what an epsilon costs and means, the table that one is chosen from, and every mechanism."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Literal

import numpy as np

from labeldp._checks import printable
from labeldp.bounds.planning import SUSPICION, EffectiveDimension, EpsilonRow, Forecast, Option, Plan, over_epsilon
from labeldp.privacy import Guarantee, Interval, LabelSpace
from labeldp.results._blocks import Block, Grid, Part, Picture, Prose, Section, Terms
from labeldp.results._charts import Curves
from labeldp.results._numbers import counted, exactly_above, posterior, share, three_digits
from labeldp.results._values import absent

if TYPE_CHECKING:
    from labeldp.release import TableRelease
    from labeldp.release.tables import Identity

#: Largest share of a class beyond which accuracy says little of a model.
_RARE = 0.9
_LEAST_POINTS = 0.01
_MOST_NAMED = 10
#: Curves that are nowhere further apart than this factor are drawn as one.
_SAME = 1.03
_PERCENT = 100.0
_MEAN = "always predicting the mean"
_EXAMPLE = "No --epsilon was given: 1 is an example."
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
#: The error that a target is for, by whether labels are numeric.
_ERROR = {
    True: "the error of the mean of labels with the same features, without the spread of labels around it",
    False: "the chance of a wrong class beyond that of the best rule",
}
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
        over_epsilon: One row for each epsilon.
        notes: Remarks on columns that may be people, and on the epsilon that was taken as an example.
        whom: What the guarantee is about, if a unit is not a person.
        bought: True if counts of the labels were bought for this plan.
        labels: What is known of the distribution of labels; empty where nothing is.
        features: The effective dimension of the public columns of a table.
        plan: Effective rows of each mechanism.
        forecast: The error that each leads to.
    """

    unit: str
    over_epsilon: tuple[EpsilonRow, ...]
    notes: tuple[str, ...] = ()
    whom: str = "a person"
    bought: bool = False
    labels: str = ""
    features: EffectiveDimension | None = absent()
    plan: Plan | None = absent()
    forecast: Forecast | None = absent()

    @classmethod
    def of(
        cls,
        plan: Plan | Forecast | None,
        forecast: Forecast | None = None,
        unit: str = "row",
        *,
        people: Sequence[Identity] = (),
        declared: bool = False,
        example: bool = False,
        **more: str | bool | EffectiveDimension | None,
    ) -> Planned:
        """The findings of a plan, a forecast or both.

        Args:
            plan: Effective rows of each mechanism; or the forecast, if it is alone.
            forecast: The error that each leads to.
            unit: The privacy unit.
            people: Columns that may be people with several rows.
            declared: Whether the unit was declared.
            example: Whether no epsilon was given.
            **more: Further attributes.
        """
        if isinstance(plan, Forecast):
            plan, forecast = None, plan
        notes = ([_EXAMPLE] if example else []) + (_on_people(people, declared=declared) if unit == "row" else [])
        whom = "one row" if unit == "row" and people else "a person"
        return cls(unit, over_epsilon(plan, forecast), tuple(notes), whom, plan=plan, forecast=forecast, **more)  # type: ignore[arg-type]

    @property
    def rows(self) -> int:
        """Number of rows."""
        part = self.plan or self.forecast
        return 0 if part is None else part.rows

    @property
    def is_rare(self) -> bool:
        """True if one class has so many of the rows that accuracy says little of a model."""
        return self.largest_share > _RARE

    @property
    def largest_share(self) -> float:
        """The share of the most common class, as stated; 0 where none was."""
        if self.plan is not None:
            return max(self.plan.shares or (0.0,))
        return 0.0 if self.forecast is None or self.forecast.of_numbers else 1.0 - self.forecast.trivial_error

    @property
    def loses_accuracy(self) -> bool:
        """True if accuracy is what the table shows to be lost."""
        return any(row.lost_high is not None for row in self.over_epsilon) and not self.is_rare


def plan_part(found: Planned) -> Part:
    """The answer in words, after the assumptions it rests on; one row for each epsilon; and every mechanism."""
    per = "" if found.unit == "row" else f" per {printable(found.unit)}"
    sections = [Section("What each epsilon costs", tuple(_over_epsilon(found)))]
    if found.labels:
        sections.append(Section("", (Prose(found.labels),), detail=True))
    if found.forecast is not None:
        first = f"Assumed: {found.forecast.assumptions[0]}. This decides every figure marked *."
        assumed = tuple(map(Prose, [first, *replaced_defaults(found.forecast)]))
        sections.append(Section("What decides", assumed, detail=True))
    if found.plan is not None:
        sections.append(Section("Effective rows of each mechanism", tuple(_mechanisms(found.plan)), detail=True))
    if found.forecast is not None:
        errors = tuple(_errors(found.forecast, found.features))
        sections.append(Section("The error that each mechanism leads to", errors, detail=True))
    source = "your settings and the counts that were bought" if found.bought else "your settings; no label was read"
    sections.append(Section("", (Prose(f"Computed from {source}.", "aside"),)))
    answer = tuple(_answer(found))
    return Part("A plan, before anything is spent", f"What privacy would cost{per}", "", answer, (), tuple(sections))


def plan_chart(found: Planned) -> Curves | None:
    """The accuracy lost, the expected error or the effective rows over epsilon; None where none is known."""
    if found.loses_accuracy and found.forecast is not None:
        return _lost_chart(found, found.forecast)
    if found.forecast is not None:
        return _error_chart(found.forecast)
    return None if found.plan is None else _rows_chart(found.plan)


def expected_sentences(forecast: Forecast, mechanism: str) -> list[str]:
    """The expected error of one mechanism, then the assumptions; nothing of one that the forecast does not have."""
    ours = tuple(option for option in forecast.options if option.mechanism == mechanism)
    known = Planned.of(None, dataclasses.replace(forecast, options=ours, sweep=()))
    assumed = f"Assumed: {'; '.join(forecast.assumptions)}."
    return [line for row in known.over_epsilon for line in (_sentence(_expected(row, known, forecast)), assumed)]


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


def _answer(found: Planned) -> Iterator[str]:
    """The cost at one epsilon after the assumptions it rests on, and the meaning for a person."""
    plan, forecast = found.plan, found.forecast
    epsilon = plan.epsilon if plan is not None else None if forecast is None else forecast.epsilon
    goal = None if forecast is None or forecast.goal is None else forecast.goal.target
    if forecast is not None and goal is not None:
        yield f"Assumed: {forecast.assumptions[0]}."
        yield f"Target {goal:g}, {_ERROR[forecast.of_numbers]}: {_target(forecast)}."
    rows = {row.epsilon: row for row in found.over_epsilon}
    if epsilon is not None and epsilon in rows:
        per = "" if found.unit == "row" else f" per {printable(found.unit)}"
        yield from _costs(f"Epsilon {epsilon:.3g}{per}", rows[epsilon], found)
    if forecast is not None and (forecast.of_numbers or goal is not None):
        yield from replaced_defaults(forecast)
    if epsilon is not None:
        yield Guarantee(abs(epsilon), unit=found.unit).posterior_sentence(found.whom)
    yield from found.notes


def _costs(epsilon: str, row: EpsilonRow, found: Planned) -> Iterator[str]:
    """Effective rows and expected error at one epsilon, each after its assumption."""
    plan, forecast = found.plan, found.forecast
    given = "" if forecast is None or forecast.goal is not None else f"if {forecast.assumptions[0]}: "
    if plan is None:
        yield f"{epsilon}: {given}{_expected(row, found, forecast) if forecast is not None else ''}."
        return
    even = f"if the {plan.classes:,} classes are equally common" if plan.shares is None else "at these class shares"
    yield f"{epsilon}: {even}, {informative(row, plan.rows)}."
    if plan.skewed_rows is not None:
        yield _SKEWED.format(_true_labels(plan.skewed_rows))
    if found.is_rare:
        yield _LITTLE.format(share(found.largest_share), share(1.0 - found.largest_share))
    elif forecast is not None and forecast.dimension:
        yield _sentence(f"{given}{_expected(row, found, forecast)}")


def _sentence(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:]}."


def _expected(row: EpsilonRow, found: Planned, forecast: Forecast) -> str:
    """The expected error of a forecast beside that without privacy."""
    error, clean = row.error or 0.0, forecast.clean_error
    if forecast.of_numbers:
        of_mean = f"the mean of all labels errs by about {three_digits(error)} ({three_digits(clean)} without privacy)"
        best, mean = three_digits(forecast.against_labels(clean)), three_digits(forecast.spread or 0.0)
        with_features = f"test RMSE about {three_digits(row.test_error or 0.0)}"
        with_features += f" ({best} without privacy, {mean} {_baseline(forecast)})"
        none = "" if forecast.best else f"no mechanism beats {_baseline(forecast)}: "
        if _is_mean(row, forecast):
            with_features = f"test RMSE about {mean}, that of the mean, which remains ({best} without privacy)"
        return f"{none}{with_features if forecast.dimension else of_mean}; {informative(row, forecast.rows)}"
    if row.lost_low is not None and not found.is_rare:
        about = "" if _lost(row).startswith("under") else "about "
        return f"{about}{_lost(row)} points less accuracy than without privacy, by experience on 30 real tables"
    return f"a wrong class in {_points(error)} % more rows than by the best class ({_points(clean)} % without privacy)"


def informative(row: EpsilonRow, rows: int) -> str:
    """The effective rows of all rows."""
    if row.effective_rows is None or row.share is None:
        return f"as informative as at most {_true_labels(row.at_most or 0)} of {rows:,}"
    if row.effective_rows == 0:
        return f"less informative than one true label, of {rows:,}"
    return f"as informative as about {_true_labels(row.effective_rows)} of {rows:,} ({_of_all(row)})"


def _of_all(row: EpsilonRow) -> str:
    """The effective rows as a share of all, where it is known; of some rows never 0."""
    if row.share is None:
        return ""
    return "under 0.1%" if row.share < 0.0005 and row.effective_rows else share(row.share)


def _true_labels(count: int) -> str:
    return counted(count, "true label")


def _points(part: float) -> str:
    """A share in points of a hundred, as exactly as a forecast deserves."""
    points = _PERCENT * part
    return f"{points:.2g}" if points >= _LEAST_POINTS else f"under {_LEAST_POINTS:g}"


def _lost(row: EpsilonRow) -> str:
    """The points of accuracy that privacy may cost."""
    return " to ".join(dict.fromkeys(map(_points, (row.lost_low or 0.0, row.lost_high or 0.0))))


def _is_mean(row: EpsilonRow, forecast: Forecast) -> bool:
    """True if a model of numeric labels would be no better than their mean, which learners then predict."""
    return row.test_error is not None and row.test_error >= (forecast.spread or 0.0)


def _over_epsilon(found: Planned) -> Iterator[Block]:
    """One row for each epsilon: the mechanism that a release takes, and what it costs; and a chart."""
    plan, forecast = found.plan, found.forecast
    shows_error = forecast is not None and (plan is None or forecast.of_numbers or found.loses_accuracy)
    star = "*" if plan is None else ""
    error = [f"{_error_name(forecast)}*"] if shows_error and forecast is not None else []
    local = plan is not None or (forecast is not None and forecast.trust == "local")
    part = plan or forecast
    units = None if part is None else part.units
    title = f"{found.rows:,} rows, {'each label randomized alone' if local else 'a curator answers queries'}"
    title += "" if units is None else f"; units of up to {units.most:,} rows, which share epsilon"
    title += f"; {_PERCENT * SUSPICION:g} % sure: by everything else"
    sure = f"{_PERCENT * SUSPICION:g} % sure becomes at most"
    heads = ("epsilon", "mechanism", f"effective rows{star}", f"of all rows{star}", *error, sure)
    rows = [
        (
            f"{row.epsilon:.3g}",
            row.mechanism,
            f"at most {row.at_most:,}" if row.effective_rows is None else f"{row.effective_rows:,}",
            _of_all(row),
            *([_error_cell(row, forecast)] if error and forecast is not None else []),
            posterior(row.suspicion),
        )
        for row in found.over_epsilon
    ]
    yield Grid.of(title, heads, rows, (0, *range(2, len(heads))))
    if star or error:
        yield Prose("* if the assumptions above hold", "aside")
    if (chart := plan_chart(found)) is not None:
        yield Picture(chart, chart.what)


def _error_name(forecast: Forecast) -> str:
    if forecast.of_numbers:
        return "test RMSE" if forecast.dimension else "error of the mean"
    return "accuracy lost, points" if forecast.dimension else "wrong classes added"


def _error_cell(row: EpsilonRow, forecast: Forecast) -> str:
    if row.error is None:
        return "unknown"
    if forecast.of_numbers:
        if _is_mean(row, forecast):
            return f"{three_digits(forecast.spread or 0.0)}, of the mean"
        return three_digits(row.error if row.test_error is None else row.test_error)
    return f"{_points(row.error)} %" if row.lost_low is None else _lost(row)


def _mechanisms(plan: Plan) -> Iterator[Block]:
    """The utility of each mechanism, at one epsilon and over a sweep."""
    if plan.shares is None:
        yield Prose(_EVEN.format(_PERCENT / plan.classes))
    now = [
        (
            option.mechanism,
            option.detail,
            share(option.truth_probability),
            "unknown" if option.expected_rows is None else f"{option.expected_rows:,}",
            _expected_share(option),
            f"{option.effective_rows:,}",
            three_digits(option.total_variance),
            "auto" if option.best else "",
        )
        for option in plan.options
    ]
    title = f"{plan.rows:,} rows, {plan.classes} classes, epsilon {plan.epsilon:g}"
    heads = ("mechanism", "releases", "truth kept", "effective rows", "share", "at most", "variance", "")
    yield Grid.of(title, heads, now, (2, 3, 4, 5, 6))
    sweep = [{option.mechanism: (option.epsilon, _expected_share(option)) for option in row} for row in plan.sweep]
    yield _sweep("share of effective rows, by epsilon", [option.mechanism for option in plan.options], sweep)
    yield Prose(_NOTE, "aside")


def _expected_share(option: Option) -> str:
    """The expected effective rows per released row."""
    return "unknown" if option.expected_share is None else f"{option.expected_share:.2%}"


def _sweep(title: str, first: Sequence[str], sweep: Sequence[Mapping[str, tuple[float, str]]]) -> Grid:
    """A figure of each mechanism, over epsilon; those that come first, in their order, and then others."""
    rows = [row for row in sweep if row]
    heads = ("mechanism", *(f"{next(iter(row.values()))[0]:g}" for row in rows))
    names = dict.fromkeys(itertools.chain(first, *rows))
    cells = [(name, *(row.get(name, (0.0, "-"))[1] for row in rows)) for name in names]
    return Grid.of(title, heads, cells, tuple(range(1, len(heads))))


def replaced_defaults(forecast: Forecast) -> list[str]:
    """The options that replace the defaults of the assumption that decides."""
    ways = "; ".join(_WAYS[name] for name in forecast.defaults if name in _WAYS)
    return [f"To replace a default: {ways}."] if ways else []


def _errors(forecast: Forecast, shape: EffectiveDimension | None) -> Iterator[Block]:
    """Expected error of each mechanism at one epsilon and over a sweep, and the needs of a target."""
    if forecast.options:
        yield _errors_now(forecast)
    errors = [{each.mechanism: (each.epsilon, three_digits(each.error)) for each in row} for row in forecast.sweep]
    first = [option.mechanism for option in forecast.options]
    yield _sweep(f"expected error*, by epsilon: {_setting(forecast)}", first, errors)
    yield Terms(tuple(_findings(forecast, shape).items()))
    yield from (Prose(f"assumed: {each}") for each in forecast.assumptions[1:])


def _errors_now(forecast: Forecast) -> Grid:
    where = "noise of a row" if forecast.trust == "local" else "noise of a cell's sum"
    noise = where if forecast.of_numbers else f"{where}, in votes"
    star = "*" if forecast.of_numbers else ""
    most = ", at most" if forecast.trust == "local" and not forecast.of_numbers else ""
    heads = ("mechanism", noise, f"effective rows{most}{star}", f"share{star}", "expected error*", "")
    rows = [
        (
            option.mechanism,
            three_digits(option.noise),
            f"{option.effective_rows:,}",
            f"{option.clean_share:.2%}",
            three_digits(option.error),
            ", ".join(name for name in ("best", "auto") if getattr(option, name)),
        )
        for option in forecast.options
    ]
    return Grid.of(f"{_setting(forecast)}, epsilon {forecast.epsilon:.3g}", heads, rows, (1, 2, 3, 4))


def _setting(forecast: Forecast) -> str:
    space = forecast.space
    numbers = forecast.of_numbers
    labels = f"labels from {space['low']:g} to {space['high']:g}" if numbers else f"{len(space['values'])} classes"
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
        findings[f"target {forecast.goal.target:g}*"] = _target(forecast)
    if forecast.of_numbers and forecast.trust == "local":
        findings["minimax, optimal"] = "least variance for the worst label, and on average over the range"
        findings["error"] += ", by a linear model"
    if shape is not None:
        findings["features"] = (
            f"{shape.columns} numeric columns that vary, of effective dimension {shape.participation:.3g} "
            f"(participation ratio); {shape.components} principal components hold 90 % of their variance"
        )
    return findings


def _target(forecast: Forecast) -> str:
    """The epsilon and the rows that reach a target."""
    goal = forecast.goal
    if goal is None:
        return ""
    if goal.trivial:
        return f"{_baseline(forecast)} already reaches it"
    rows = "no number of" if goal.rows is None else f"{goal.rows:,}"
    if goal.epsilon is None:
        return f"no epsilon reaches it with {forecast.rows:,} rows; {rows} rows would{_at(forecast)}"
    more = f", or with {rows} rows{_at(forecast)}" if _at(forecast) else ""
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


def _at(forecast: Forecast) -> str:
    """The epsilon for which rows were counted."""
    differs = forecast.epsilon is not None and (forecast.goal is None or forecast.epsilon != forecast.goal.epsilon)
    return f" at epsilon {forecast.epsilon:g}" if differs else "" if forecast.options else " without privacy"


def _rows_chart(plan: Plan) -> Curves:
    """Effective rows in percent of all rows over epsilon, by mechanism."""
    options = itertools.chain(*plan.sweep, plan.options)
    known = ((option.mechanism, option.epsilon, option.expected_share) for option in options)
    classes = f"{plan.classes} {'equally common ' if plan.shares is None else ''}classes"
    return Curves(
        what=f"Effective rows with {plan.rows:,} rows, {classes}",
        axes=(_epsilon_axis(plan), "effective rows, in % of all rows"),
        lines=_by_name((name, (epsilon, _PERCENT * part)) for name, epsilon, part in known if part),
        marks=((f"epsilon {plan.epsilon:g}", "x", plan.epsilon),),
    )


def _error_chart(forecast: Forecast) -> Curves:
    """Expected error over the epsilons of the sweep, by mechanism; of classes in percent of rows."""
    times = 1.0 if forecast.of_numbers else _PERCENT
    options = itertools.chain(*forecast.sweep)
    marks: list[tuple[str, Literal["x", "y"], float]] = [("without privacy", "y", times * forecast.clean_error)]
    if forecast.goal is not None:
        marks.append((f"target {forecast.goal.target:g}", "y", times * forecast.goal.target))
    if forecast.epsilon is not None:
        marks.append((f"epsilon {forecast.epsilon:.3g}", "x", forecast.epsilon))
    error = "error of the estimated mean, in units of the label", "wrong classes beyond the best possible, in % of rows"
    return Curves(
        what=f"Expected error with {forecast.rows:,} rows",
        axes=(_epsilon_axis(forecast), error[not forecast.of_numbers]),
        lines=_by_name((option.mechanism, (option.epsilon, times * option.error)) for option in options),
        marks=tuple(marks),
    )


def _lost_chart(found: Planned, forecast: Forecast) -> Curves:
    """The points of accuracy that a model is expected to lose over epsilon, as the table says."""
    known = [row for row in found.over_epsilon if row.lost_low is not None and row.lost_high is not None]
    band = sorted((row.epsilon, _PERCENT * (row.lost_low or 0.0), _PERCENT * (row.lost_high or 0.0)) for row in known)
    now = () if forecast.epsilon is None else ((f"epsilon {forecast.epsilon:.3g}", "x", forecast.epsilon),)
    return Curves(
        what=f"Accuracy lost with {found.rows:,} rows, by experience on 30 real tables",
        axes=(_epsilon_axis(forecast), "accuracy lost, in points"),
        lines=(
            ("upper end", [(epsilon, high) for epsilon, _, high in band]),
            ("lower end", [(epsilon, low) for epsilon, low, _ in band]),
        ),
        marks=now,  # type: ignore[arg-type]
        bands=(band,),
    )


def _epsilon_axis(found: Plan | Forecast) -> str:
    return f"epsilon of each {'label' if found.units is None else 'privacy unit'} (smaller: more private)"


def _by_name(named: Iterable[tuple[str, tuple[float, float]]]) -> list[tuple[str, list[tuple[float, float]]]]:
    """Points by the name of their curve, in order; curves that hide each other have one name together."""
    lines: dict[str, set[tuple[float, float]]] = {}
    for name, point in named:
        lines.setdefault(name, set()).add(point)
    merged: dict[str, list[tuple[float, float]]] = {}
    for name, points in lines.items():
        same = next((other for other, its in merged.items() if _hides(its, sorted(points))), None)
        if same is None:
            merged[name] = sorted(points)
        else:
            merged = {f"{other}, {name}" if other == same else other: its for other, its in merged.items()}
    return list(merged.items())


def _hides(one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> bool:
    """True for curves over the same epsilons that cannot be told apart."""
    return len(one) == len(other) and all(
        x == u and max(y, v) <= _SAME * min(y, v) for (x, y), (u, v) in zip(one, other, strict=True)
    )
