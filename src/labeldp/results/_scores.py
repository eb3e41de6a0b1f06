"""Scores of models: the gain over a constant prediction, each score with its interval, and whether predictions hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from labeldp._checks import printable
from labeldp.learning.metrics import Bounds, Calibration, Estimate, NumberCalibration
from labeldp.learning.tables import ClassScores, NumberScores, rows_to_show
from labeldp.privacy import Interval, LabelSpace
from labeldp.results._blocks import Block, Grid, Part, Picture, Prose, Section
from labeldp.results._charts import Agreement, Ranges
from labeldp.results._numbers import interval as share_interval
from labeldp.results._numbers import is_clear, on_wide_intervals, share, share_above, share_below, three_digits

_SHOWN_CLASSES = 12
_COVERED = "coverage of prediction sets"
_TOO_FEW = "too few rows to tell"
#: Least improvement of accuracy whose rows are named; and the one that is where an interval is wider than the last.
_LEAST_SHOWN, _USUAL, _UNTOLD = 0.01, 0.1, 0.5
#: Percentage points below which a difference is shown in its first digit.
_LEAST_POINTS = 0.05
#: Share of the most common class beyond which calibration is shown first, since accuracy says little.
_RARE = 0.9
_NATS = "Nats are natural logarithms: 0.1 nats more give a true label 10.5 % more probability (geometric mean)."
_ONLY_BOUNDS = (
    "These released labels do not identify the squares of true labels, so the error is only bounded. The improvement "
    "over predicting the mean is identified, and models are chosen by it."
)
_NO_RESULT = "Scores of rows that are not independent"
_MIXED = (
    "Several rows may be of one privacy unit, and no column says which. The intervals take rows as independent, so "
    "they are too narrow. Release a made-up number of each unit (--renumber), or evaluate with public labels."
)
_MISSING = "These labels cannot show it: they are too few for their noise."
_BY_PROBABILITY = (
    "Rows are grouped by the probability that the model states for the class it predicts. Where it is right as often "
    "as that, its probabilities can be used as they are."
)
_BY_PREDICTION = (
    "Rows are grouped by what is predicted for them. Where their mean label is the mean prediction, predictions are "
    "right on average, though single ones may be far off."
)
#: Probability of fewer intervals by chance beyond which those that miss are too many.
_SURE = 0.999
#: Points of the chart of calibration, and classes of a table of true and predicted ones.
_MOST_BINS, _MOST_CLASSES = 20, 20
_PERCENT = ((0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %"))
#: Words of the charts of calibration.
_OF_CLASSES = (
    *("probability that the model states", "right, of these rows"),
    *(("right more often", "than stated"), "right less often than stated"),
)
_OF_NUMBERS = (
    *("prediction", "mean label of these rows"),
    *(("labels higher", "than predicted"), "labels lower than predicted"),
)
Scores = ClassScores | NumberScores


@dataclass(frozen=True, eq=False)
class Evaluated:
    """Scores of a model on a table, as ``labeldp evaluate --json`` prints them.

    Attributes:
        judged_by: Origin of the labels.
        scores: The scores.
        classes: The classes that scores of each class are of, in their order; None of numeric labels.
        public: True if the labels were declared public.
        range: The ends of the range of numeric labels.
        mixed: True if several rows may be of one privacy unit, and nothing says which.
    """

    judged_by: str
    scores: ClassScores | NumberScores
    classes: tuple[object, ...] | None = None
    public: bool = False
    range: tuple[float, float] | None = None
    mixed: bool = False

    @classmethod
    def of(
        cls, scores: Scores, judged_by: str, space: LabelSpace, *, public: bool = False, mixed: bool = False
    ) -> Evaluated:
        """The scores of a model of labels of a space."""
        ends = (float(space.low), float(space.high)) if isinstance(space, Interval) else None
        return cls(judged_by, scores, classes_of(space), public, ends, mixed)


def classes_of(space: LabelSpace) -> tuple[object, ...] | None:
    """The classes that scores of each class are of, in their order; None of numeric labels."""
    return None if isinstance(space, Interval) else tuple(space.points)


def evaluation_part(found: Evaluated) -> Part:
    """The gain over a constant prediction, then all scores, each with its 95 % interval; of mixed units no gain."""
    sections = list(score_sections(found.scores, found.classes or (), found.judged_by, public=found.public))
    if found.range is not None:
        low, high = (f"{end:.12g}" for end in found.range)
        outside = f"Labels below {low} or above {high}, the range that was declared, are scored as its ends."
        sections.append(Section("", (Prose(outside),)))
    result, gain = (_NO_RESULT, _MIXED) if found.mixed else verdict(found.scores, public=found.public)
    title = f"An evaluation by {printable(found.judged_by)}"
    return Part(title, result, lead=(gain,), sections=tuple(sections))


def verdict(scores: Scores, *, public: bool = False) -> tuple[str, str]:
    """The gain over a constant prediction as a headline, and in one sentence or two."""
    labels = "these labels" if public else "the released labels"
    if isinstance(scores, NumberScores):
        return _verdict(scores.gain, scores.rows, "the mean", labels, "MSE improvement {}", three_digits)
    if scores.better is None or scores.log_loss_gain is None:
        gain = f"log likelihood of {labels} higher by {{}} nats"
        return _verdict(scores.likelihood_gain, scores.rows, "class shares", labels, gain, three_digits)
    found = _verdict(scores.better, scores.rows, "the most common class", labels, "accuracy {} points", _points)
    if scores.better.low > 0.0 or scores.log_loss_gain.low <= 0.0:
        return found
    gain = "log loss improvement {} nats"
    first, text = _verdict(scores.log_loss_gain, scores.rows, "class shares", labels, gain, three_digits)
    return first, f"{text} {found[1]}"


def _verdict(
    gain: Estimate, rows: int, constant: str, labels: str, amount: str, number: Callable[[float], str]
) -> tuple[str, str]:
    """A headline and a sentence on a gain over a constant prediction, and how many rows would show it."""
    value = min(max(gain.value, gain.low), gain.high)
    found = f"{amount.format(number(value))} (95 % interval {_between(gain.low, gain.high, number)})"
    if number is _points and _UNTOLD < gain.high - gain.low < math.inf:  # an estimate says nothing
        found, value = f"{amount.format(f'{number(gain.low)} to {number(gain.high)}')} (95 % interval)", _USUAL
    if gain.low > 0.0 or gain.high < 0.0:
        than = f"{'Better' if gain.low > 0.0 else 'Worse'} than always predicting {constant}"
        return than, f"{than}: {found}."
    shown = f"{labels} do not show that the model is better than always predicting {constant}: {found}."
    headline, shown = f"Not shown to be better than always predicting {constant}", f"{shown[:1].upper()}{shown[1:]}"
    wanted = max(value, _LEAST_SHOWN if number is _points else 0.0)
    if value <= 0.0 or not math.isfinite(gain.error):  # no improvement was found that more rows could show
        return headline, shown
    enough = rows_to_show(rows, gain, wanted)
    if enough <= rows:  # as of a model that predicts the constant nearly everywhere, which says nothing of better ones
        return headline, shown
    return headline, f"{shown} About {three_digits(enough)} rows would show an improvement of {number(wanted)}."


def _points(part: float) -> str:
    """A difference of shares in percentage points."""
    points = 100.0 * part
    return f"{points:+.1f}" if abs(points) >= _LEAST_POINTS or not points else f"{points:+.1g}"


def score_sections(scores: Scores, classes: Sequence[object], judged_by: str, *, public: bool) -> Iterator[Section]:
    """Scores on released or public labels, each with its 95 % interval; calibration; and predicted and true classes.

    Where one class has nearly all rows, calibration says more than accuracy does, and is no detail; nor is it where
    predictions do not hold.
    """
    if isinstance(scores, NumberScores):
        yield Section("Scores", tuple(_number_scores(scores, judged_by)))
        if scores.calibration is not None:
            wrong = _misses(scores.calibration.predicted, scores.calibration.mean)
            blocks = tuple(_number_calibration(scores.calibration))
            yield Section("Calibration: do its predictions hold on average?", blocks, detail=not wrong)
        return
    yield Section("Scores", tuple(_class_scores(scores, classes, judged_by, public=public)))
    if scores.calibration is not None:
        rare = isinstance(scores.majority, Estimate) and scores.majority.value > _RARE
        wrong = _misses(scores.calibration.predicted, scores.calibration.frequency)
        blocks = tuple(_calibration(scores.calibration))
        yield Section("Calibration: do its probabilities hold?", blocks, detail=not (rare or wrong))
    if scores.confusion is not None:
        yield Section("Predicted and true classes", tuple(_confusion(scores, classes)), detail=True)


def _class_scores(scores: ClassScores, classes: Sequence[object], judged_by: str, *, public: bool) -> Iterator[Block]:
    """The scores as a table and a chart; of shares that rows are too few for, that they are."""
    rows = list(_gains(scores))
    accuracy = scores.accuracy
    if isinstance(accuracy, Bounds):
        between = f"{share_below(accuracy.lower)} and {share_above(max(accuracy.upper, 0.0))}"
        rows.append(("accuracy lies between", between, share_interval(accuracy.low, accuracy.high)))
    shares = _shares(scores, classes, public=public)
    unclear = _unclear(shares, public=public)
    rows += [(name, *_share(each, least)) for name, (each, least) in shares.items() if name not in unclear]
    if scores.log_loss is not None:
        rows.append(("log loss (nats)", *_loss(scores.log_loss, scores.rows)))
    squares = {"RMSE of the mean class": scores.squared_error, "RMSE of predicting the mean": scores.baseline}
    rows += [(name, *_number(each, scores.rows, root=True)) for name, each in squares.items() if each is not None]
    if scores.unpredicted:
        never = [_name(classes, code) for code in scores.unpredicted]
        more = f" and {len(never) - _SHOWN_CLASSES} more" * (len(never) > _SHOWN_CLASSES)
        rows.append(("never predicted", f"{', '.join(never[:_SHOWN_CLASSES])}{more}", ""))
    of = "" if public else " of released labels"
    likelihood = _estimate(scores.log_likelihood)
    rows.append((f"log likelihood{of}, gain over uniform guessing (nats)", *likelihood))
    yield Grid.of(f"{scores.rows:,} rows, by {judged_by}", ("", "estimate", "95 % interval"), rows, (1, 2))
    if unclear:
        yield Prose(_cannot_tell(scores.rows, unclear), "heed")
    if "accuracy" in shares and "accuracy" not in unclear and (rough := on_wide_intervals(shares["accuracy"][0].error)):
        yield Prose(rough, "heed")
    yield Prose(_NATS, "aside")
    drawn = [
        (name, each.low, _within(each, least), each.high, _share(each, least)[0])
        for name, (each, least) in shares.items()
        if name not in unclear and not name.startswith(("recall of", f"{_COVERED} of"))
    ]
    if drawn:
        chart = Ranges("Scores with their 95 % intervals", drawn, _PERCENT)
        yield Picture(chart, "Estimates with their 95 % intervals.")


def _name(classes: Sequence[object], code: int) -> str:
    return str(classes[code]) if 0 <= code < len(classes) else f"class {code + 1}"


def _gains(scores: ClassScores) -> Iterator[tuple[str, str, str]]:
    """Rows for the gains over constant predictions."""
    if scores.better is not None:
        better = scores.better
        value = _points(min(max(better.value, better.low), better.high))
        between = f"{_points(better.low)} to {_points(better.high)}"
        yield "accuracy above the most common class (points)", value, between
    if scores.log_loss_gain is not None:
        yield "log loss below that of class shares (nats)", *_estimate(scores.log_loss_gain)
    else:  # rows have candidates, so labels were released
        yield "log likelihood of released labels, gain over class shares (nats)", *_estimate(scores.likelihood_gain)


def _shares(scores: ClassScores, classes: Sequence[object], *, public: bool) -> dict[str, tuple[Estimate, float]]:
    """The scores between 0 and 1 by name, each with the least that it can be."""
    mean = ", mean of each class against the rest" * (len(classes) > 2)
    least = 0.0 if public or not classes else 1.0 / len(classes)  # the largest class, unless true labels show it
    found = {
        "accuracy": (scores.accuracy, 0.0),
        "accuracy of the most common class": (scores.majority, least),
        "balanced accuracy (mean recall)": (scores.balanced_accuracy, 0.0),
        f"area under the ROC{mean}": (scores.auc, 0.0),
        _COVERED: (scores.coverage, 0.0),
    }
    for what, each in (("recall", scores.recall), (_COVERED, scores.class_coverage)):
        many = 0 if each is None else min(len(each), _SHOWN_CLASSES)
        found |= {f"{what} of {_name(classes, i)}": (each[i], 0.0) for i in range(many) if each is not None}
    return {name: (each, low) for name, (each, low) in found.items() if isinstance(each, Estimate)}


def _unclear(shares: Mapping[str, tuple[Estimate, float]], *, public: bool) -> dict[str, Estimate]:
    """The shares whose intervals are no finding; all, where that of the accuracy is none: they are of the same rows.

    Those of public labels are what these rows show, where they show anything.
    """
    told = {name: not math.isnan(each.value) if public else _is_told(each) for name, (each, _) in shares.items()}
    every = not told.get("accuracy", True)
    return {name: each for name, (each, _) in shares.items() if every or not told[name]}


def _is_told(each: Estimate) -> bool:
    """True if a share between 0 and 1 can be told from these rows."""
    return not math.isnan(each.value) and is_clear(each.low, each.high, each.error)


def _cannot_tell(rows: int, unclear: Mapping[str, Estimate]) -> str:
    """One sentence on the shares that are not shown, and how many rows would do."""
    known = not any(math.isnan(each.value) for each in unclear.values())
    needed = max((each.rows_needed(rows, 0.5) or 0 for each in unclear.values()), default=0) if known else 0
    enough = f" About {needed:,} rows would do." if needed else ""
    return f"Too few rows for their noise to tell: {', '.join(unclear)}.{enough}"


def true_rows(found: Estimate, rows: int) -> str:
    """One sentence on the accuracy on rows whose features are their own."""
    if not _is_told(found):
        return _cannot_tell(rows, {"accuracy on original rows": found})
    value, between = _share(found)
    return f"Accuracy on original rows, estimated: {value} (95 % interval {between})."


def _number_scores(scores: NumberScores, judged_by: str) -> Iterator[Block]:
    """Scores of predicted numbers, in the unit of the label."""
    roots = {"root mean squared error (RMSE)": scores.squared_error, "RMSE of predicting the mean": scores.baseline}
    numbers = {
        "share of variance explained (R2)": scores.r2,
        "mean absolute error": scores.absolute_error,
        "mean label": scores.mean,
    }
    first = {"MSE improvement over predicting the mean": scores.gain}
    rows = [
        (
            f"{name} lies between" if isinstance(score, Bounds) else name,
            *_number(score, scores.rows, root=name in roots),
        )
        for name, score in (*first.items(), *roots.items(), *numbers.items())
        if score is not None
    ]
    if isinstance(held := scores.coverage, Bounds):
        rows.append((_COVERED, f"at least {share_below(held.lower)}", share_interval(held.low, held.high)))
    elif held is not None:
        rows.append((_COVERED, *_share(held)))
    yield Grid.of(f"{scores.rows:,} rows, by {judged_by}", ("", "estimate", "95 % interval"), rows, (1, 2))
    if isinstance(scores.squared_error, Bounds):
        yield Prose(_ONLY_BOUNDS)


def _number(score: Estimate | Bounds, rows: int, *, root: bool) -> tuple[str, str]:
    """An estimate or a pair of bounds, and its interval; with ``root`` the square roots.

    Noise can make the estimate of a mean square negative: its root then cannot be told, but for the interval.
    """
    ends = [score.lower, score.upper] if isinstance(score, Bounds) else [score.value]
    if not all(map(math.isfinite, ends)):
        known = not math.isfinite(score.low) and math.isfinite(score.high) and score.high < 1.0
        return _TOO_FEW, f"at most {three_digits(score.high)}" if known else ""
    low, high, *found = (math.sqrt(max(x, 0.0)) if root else x for x in (score.low, score.high, *ends))
    between = _between(low, high, three_digits)
    if root and isinstance(score, Estimate) and score.value <= 0:
        return _too_few(score, rows, score.high)[0], between
    return " and ".join(map(three_digits, found)), between


def _between(low: float, high: float, number: Callable[[float], str]) -> str:
    """An interval, of which few units may leave an end open."""
    if math.isinf(low) == math.isinf(high):
        return f"{number(low)} to {number(high)}"
    return f"at most {number(high)}" if math.isinf(low) else f"at least {number(low)}"


def _within(estimate: Estimate, least: float = 0.0) -> float:
    return min(max(estimate.value, least), 1.0)


def _share(estimate: Estimate, least: float = 0.0) -> tuple[str, str]:
    """A share and its interval in per cent; where noise put an estimate at what is possible or beyond, a bound."""
    low, high = (min(max(end, least), 1.0) for end in (estimate.low, estimate.high))
    between = share_interval(low, high)
    if estimate.error > 0.0 and low < high:
        if estimate.value >= 1.0:
            return f"at least {share_below(low)}", between
        if estimate.value <= least:
            return f"at most {share_above(high)}", between
    return share(_within(estimate, least)), between


def _too_few(estimate: Estimate, rows: int, most: float) -> tuple[str, str]:
    """A text for an estimate that cannot be told, with the rows for an interval of half the range 0 to ``most``."""
    needed = estimate.rows_needed(rows, most / 2.0) if most > 0.0 else None
    return (_TOO_FEW if needed is None else f"{_TOO_FEW}; about {needed:,} would do"), ""


def _estimate(estimate: Estimate) -> tuple[str, str]:
    """A number and its interval, which holds it: intervals end at what is possible."""
    if math.isnan(estimate.value):
        return _TOO_FEW, ""
    value = min(max(estimate.value, estimate.low), estimate.high)
    return f"{value:.3g}", _between(estimate.low, estimate.high, "{:.3g}".format)


def _loss(estimate: Estimate, rows: int) -> tuple[str, str]:
    """A number that is not negative, and its interval; an estimate below 0 cannot be told."""
    value, between = _estimate(estimate)
    if not estimate.value < 0.0:
        return value, between
    return _too_few(estimate, rows, estimate.high)[0], between if estimate.high > 0.0 else ""


def _calibration(curve: Calibration) -> Iterator[Block]:
    """The share of rows that are right over the probability that the model states for them."""
    bins = _bins(curve.predicted, curve.frequency, curve.rows)
    told = [row for row in bins if is_clear(row[1], row[3], row[4])]
    yield Prose(_BY_PROBABILITY)
    if not told:
        yield Prose(_MISSING, "heed")
        return
    points = [
        (stated, low, value, high, f"stated {share(stated)}, right {share_interval(low, high)}")
        for stated, low, value, high, *_ in told
    ]
    what = "Share that is right over the stated probability"
    yield Picture(
        Agreement(what, points, _PERCENT, _OF_CLASSES), _caption(told, "stated probability", "right as often as stated")
    )
    rows = [(share(stated), *_told(found, 1.0, share), f"{count:,.0f}") for stated, *found, count in bins]
    yield Grid.of("Rows by stated probability", ("stated", "right", "95 % interval", "rows"), rows, (0, 1, 2, 3))


def _bins(predicted: Any, found: Any, counts: Any) -> list[tuple[float, ...]]:
    """Predictions for groups of rows, and the lower end, the estimate, the upper end, its error and the rows.

    An estimate is put within its interval, which is within what can be.
    """
    value = np.clip(found.value, found.low, found.high)
    rows = zip(*map(np.ravel, (predicted, found.low, value, found.high, found.error, counts)), strict=False)
    return [
        row for row in islice((tuple(map(float, each)) for each in rows), _MOST_BINS) if not any(map(math.isnan, row))
    ]


def _misses(predicted: Any, found: Any) -> bool:
    """True if more intervals of 95 % miss what was predicted than chance leaves in one case of a thousand."""
    missed, of = int(((found.low > predicted) | (predicted > found.high)).sum()), np.size(predicted)
    fewer = (math.comb(of, count) * 0.05**count * 0.95 ** (of - count) for count in range(missed))
    return sum(fewer) > _SURE


def _caption(told: Sequence[tuple[float, ...]], stated: str, dotted: str) -> str:
    inside = sum(low <= each <= high for each, low, _, high, *_ in told)
    return (
        f"Bars are 95 % intervals. {inside} of {len(told)} hold the {stated}; by chance one in twenty would not. "
        f"Dotted: {dotted}."
    )


def _number_calibration(curve: NumberCalibration) -> Iterator[Block]:
    """The mean label of rows over the mean of what is predicted for them."""
    bins = _bins(curve.predicted, curve.mean, curve.rows)
    told = [row[:4] for row in bins if row[1] < row[3] or not row[4]]  # others were cut to a point
    low, high = min(map(min, told), default=0.0), max(map(max, told), default=0.0)
    yield Prose(_BY_PREDICTION)
    if len(told) < 2 or low == high:
        yield Prose("These labels cannot tell groups of predictions apart: they are too few for their noise.", "heed")
    else:
        points = [
            (*each, f"predicted {three_digits(each[0])}, mean label {three_digits(each[1])} to {three_digits(each[3])}")
            for each in told
        ]
        ends = [(place, three_digits(place)) for place in (low, low / 2.0 + high / 2.0, high)]
        chart = Agreement("Mean label over the mean prediction", points, ends, _OF_NUMBERS)  # type: ignore[arg-type]
        yield Picture(chart, _caption(told, "mean prediction", "labels as predicted"))
    rows = []
    for stated, least, value, most, error, count in bins:
        between = f"{three_digits(least)} to {three_digits(most)}"
        shown = (three_digits(value), between) if least < most or not error else (_TOO_FEW, "")
        rows.append((three_digits(stated), *shown, f"{count:,.0f}"))
    yield Grid.of("Rows by prediction", ("predicted", "mean label", "95 % interval", "rows"), rows, (0, 1, 2, 3))


def _confusion(scores: ClassScores, classes: Sequence[object]) -> Iterator[Block]:
    """The number of rows of each true class among those that are predicted as each class."""
    counts, every = scores.confusion, scores.predicted
    if counts is None:
        return
    matrix = [counts.low, counts.value, counts.high, counts.error]
    counted = [code for code in scores.counted or range(len(every)) if 0 <= code < len(every)]
    many = min(len(counted), _MOST_CLASSES, *(min(each.shape) if each.ndim == 2 else 0 for each in matrix))
    names = [_name(classes, code) for code in counted[:many]]
    rows, told = [], 0
    for true in range(many):
        cells = []
        for as_class in range(many):
            found = [float(each[true, as_class]) for each in matrix]
            estimate, between = _told(found, float(every[counted[as_class]]), lambda value: f"{value:,.0f}")
            told += bool(between)
            cells.append(f"{estimate} ({between})" if between else estimate)
        rows.append((names[true], *cells))
    if not told:
        yield Prose(_MISSING, "heed")
        return
    yield Prose(
        "How many rows are predicted as a class is known; how many of these are of which class is estimated from the "
        "labels, with its 95 % interval."
    )
    if many < len(every):
        yield Prose(f"Of {len(every):,} classes these are the {many} that are predicted most often.")
    heads = [f"predicted {name}: {every[code]:,} rows" for name, code in zip(names, counted, strict=False)]
    yield Grid.of("Rows of each true class", ("true class", *heads), rows, tuple(range(1, many + 1)))


def _told(found: Sequence[float], most: float, shown: Callable[[float], str]) -> tuple[str, str]:
    """An estimate between 0 and a largest value, and its interval; or that it cannot be told.

    Args:
        found: The lower end, the estimate, the upper end and the standard error.
        most: The largest value.
        shown: How a value is written.
    """
    low, value, high, error = found
    if math.isnan(low + value + high) or not is_clear(low, high, 0.0 if math.isnan(error) else error, most):
        return _TOO_FEW, ""
    value, low, high = (min(max(each, 0.0), most) for each in (value, low, high))
    return shown(value), f"{shown(low)} to {shown(high)}"
