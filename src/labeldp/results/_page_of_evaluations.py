"""The page of a model's scores: what it gains, whether its probabilities hold, and which classes it takes for which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from labeldp._checks import printable
from labeldp.results import _charts as charts
from labeldp.results._blocks import Block, Grid, Part, Picture, Prose, Section, Terms
from labeldp.results._parts import is_clear, on_wide_intervals, three_digits

NOT_CHECKED = "Taken from a saved result, which carries no proof: whoever wrote the file vouches for it."

#: Scores of classes or numbers: a key, its name, and whether it is a share between 0 and 1.
_SCORES = (
    ("accuracy", "accuracy", True),
    ("majority", "accuracy of the most common class", True),
    ("balanced_accuracy", "balanced accuracy (mean recall)", True),
    ("auc", "area under the ROC", True),
    ("log_loss", "log loss (nats)", False),
    ("log_loss_gain", "log loss below that of class shares (nats)", False),
    ("likelihood_gain", "log likelihood, gain over class shares (nats)", False),
    ("squared_error", "mean squared error", False),
    ("baseline", "mean squared error of predicting the mean", False),
    ("gain", "improvement over predicting the mean", False),
    ("r2", "share of variance explained (R2)", False),
    ("absolute_error", "mean absolute error", False),
    ("mean", "mean label", False),
)
#: Scores that share an axis, and their short names.
_DRAWN = (
    ("accuracy", "accuracy"),
    ("majority", "most common class"),
    ("balanced_accuracy", "mean recall"),
    ("auc", "area under the ROC"),
)
#: The gains that decide if a model is any good, the first known of which comes first: a key, what it is compared
#: with, and what is gained.
_GAINS = (
    ("better", "the most common class", "accuracy {} points"),
    ("likelihood_gain", "the class shares", "log likelihood higher by {} nats"),
    ("gain", "the mean", "mean squared error lower by {}"),
)
#: Points of the figure of calibration, and classes of a table of true and predicted ones.
_MOST_BINS, _MOST_CLASSES = 20, 20
_ENDS = ("value", "low", "high")
_PERCENT = ((0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %"))
#: Words of the figures of calibration.
_OF_CLASSES = (
    *("probability that the model states", "right, of these rows"),
    *(("right more often", "than stated"), "right less often than stated"),
)
_OF_NUMBERS = (
    *("prediction", "mean label of these rows"),
    *(("labels higher", "than predicted"), "labels lower than predicted"),
)
_TOO_FEW = "too few rows to tell"
_MISSING = "These labels cannot show it: they are too few for their noise."


def scores_part(body: Mapping[str, Any]) -> Part:
    """The page of scores that ``learn`` or ``evaluate`` printed."""
    scores = _possible(body["scores"] or {}, len(body.get("classes") or ()))
    sections = [Section("Scores", tuple(_scores(scores, body["judged_by"])))]
    if (curve := scores.get("calibration")) is not None and "mean" in curve:
        sections.append(Section("Calibration: do its predictions hold on average?", tuple(_number_calibration(curve))))
    elif curve is not None:
        sections.append(Section("Calibration: do its probabilities hold?", tuple(_calibration(curve))))
    if scores.get("confusion") is not None:
        names = [printable(str(name)) for name in body.get("classes") or ()]
        sections.append(Section("Predicted and true classes", tuple(_confusion(scores, names))))
    if "features" in body:
        terms = (("model", body["model"]), ("rows", f"{body['rows']:,}"), ("features", ", ".join(body["features"])))
        sections.append(Section("The model", (Terms(terms), Prose(body["sentence"]))))
    whose = "A model, judged" if "features" in body else "An evaluation"
    result, gain = _result(scores)
    lead = (gain, *body.get("remarks", ()), NOT_CHECKED)
    return Part(f"{whose} by {printable(body['judged_by'])}", result, lead=lead, sections=tuple(sections))


def _possible(scores: Mapping[str, Any], classes: int) -> Mapping[str, Any]:
    """Scores in which the most common of k classes has at least 1 / k of the rows, as it has."""
    majority = scores.get("majority")
    if majority is None or not classes:
        return scores
    found = {
        end: each if each is None or end == "error" else max(each, 1.0 / classes) for end, each in majority.items()
    }
    return {**scores, "majority": found}


def _result(scores: Mapping[str, Any]) -> tuple[str, str]:
    """The gain over a constant prediction, in words."""
    for key, constant, amount in _GAINS:
        score = scores.get(key)
        if score is not None and None not in (score["value"], score["low"], score["high"]):
            points = key == "better"
            value, low, high = (f"{100 * score[end]:+.1f}" if points else number(score[end]) for end in _ENDS)
            verdict = "Not shown to be better than" if score["high"] >= 0 else "Worse than"
            verdict = "Better than" if score["low"] > 0 else verdict
            gain = f"{amount.format(value)} (95 % interval {low} to {high})."
            return f"{verdict} always predicting {constant}", f"{gain[0].upper()}{gain[1:]}"
    return "Scores of a model", ""


def _scores(scores: Mapping[str, Any], judged_by: str) -> Iterator[Block]:
    """The scores as a figure and a table; of shares that rows are too few for, that they are."""
    known = [(key, name, scores[key], is_share) for key, name, is_share in _SCORES if scores.get(key) is not None]
    every = "accuracy" in scores and not _is_told(scores["accuracy"])  # other shares are of the same rows
    unclear = {key: name for key, name, score, is_share in known if is_share and (every or not _is_told(score))}
    drawn = [
        (name, score["low"], score["value"], score["high"], share(score["value"]))
        for key, name in _DRAWN
        if key not in unclear and (score := scores.get(key)) is not None and "value" in score
    ]
    if drawn:
        drawing = charts.Ranges("Scores with their 95 % intervals", drawn, _PERCENT)
        yield Picture(drawing, "Estimates with their 95 % intervals.")
    rows = [(name, *_score(score, is_share)) for key, name, score, is_share in known if key not in unclear]
    title = f"{scores.get('rows', 0):,} rows, by {printable(judged_by)}"
    yield Grid.of(title, ("", "estimate", "95 % interval"), rows, (1, 2))
    if unclear:
        yield Prose(f"Too few rows for their noise to tell: {', '.join(unclear.values())}.", "heed")
    accuracy = scores.get("accuracy", {})
    if "value" in accuracy and not every and (rough := on_wide_intervals(accuracy.get("error") or 0.0)):
        yield Prose(rough, "heed")


def _is_told(score: Mapping[str, Any]) -> bool:
    """True if the interval of a share is narrow enough to say something."""
    low, high, value = score["low"], score["high"], score.get("value", score.get("lower"))
    if "value" not in score:  # bounds of what labels do not identify: their width is the finding
        return None not in (low, high, value)
    return None not in (low, high, value) and is_clear(low, high, score.get("error") or 0.0)


def _score(score: Mapping[str, Any], is_share: bool) -> tuple[str, str]:
    """An estimate, or its two bounds, and its interval; shares are clipped to what is possible."""
    shown: Callable[[float | None], str] = share if is_share else number
    value = shown(score["value"]) if "value" in score else f"{shown(score['lower'])} to {shown(score['upper'])}"
    return value, f"{shown(score['low'])} to {shown(score['high'])}"


def _calibration(curve: Mapping[str, Any]) -> Iterator[Block]:
    """The share of rows that are right over the probability that the model states for them."""
    right = curve["frequency"]
    columns = (curve["predicted"], right["low"], right["value"], right["high"], right["error"], curve["rows"])
    bins = [row for row in islice(zip(*columns, strict=False), _MOST_BINS) if None not in row]
    told = [row for row in bins if is_clear(row[1], row[3], row[4])]
    yield Prose(
        "Rows are grouped by the probability that the model states for the class it predicts. Where it is right as "
        "often as that, its probabilities can be used as they are."
    )
    if not told:
        yield Prose(_MISSING, "heed")
        return
    points = [
        (stated, low, value, high, f"stated {share(stated)}, right {share(low)} to {share(high)}")
        for stated, low, value, high, *_ in told
    ]
    inside = sum(low <= stated <= high for stated, low, _, high, *_ in told)
    caption = (
        f"Bars are 95 % intervals. {inside} of {len(told)} hold the stated probability; by chance one in twenty would "
        "not. Dotted: right as often as stated."
    )
    what = "Share that is right over the stated probability"
    yield Picture(charts.Agreement(what, points, _PERCENT, _OF_CLASSES), caption)
    rows = [(share(stated), *_told(found, 1.0, share), f"{count:,}") for stated, *found, count in bins]
    yield Grid.of("Rows by stated probability", ("stated", "right", "95 % interval", "rows"), rows, (0, 1, 2, 3))


def _number_calibration(curve: Mapping[str, Any]) -> Iterator[Block]:
    """The mean label of rows over the mean of what is predicted for them."""
    mean = curve["mean"]
    columns = (curve["predicted"], mean["low"], mean["value"], mean["high"], mean["error"], curve["rows"])
    bins = [row for row in islice(zip(*columns, strict=False), _MOST_BINS) if None not in row]
    told = [row[:4] for row in bins if row[1] < row[3] or not row[4]]  # others were cut to a point
    low, high = min(map(min, told), default=0.0), max(map(max, told), default=0.0)
    yield Prose(
        "Rows are grouped by what is predicted for them. Where their mean label is the mean prediction, predictions "
        "are right on average, though single ones may be far off."
    )
    if len(told) < 2 or low == high:
        yield Prose("These labels cannot tell groups of predictions apart: they are too few for their noise.", "heed")
    else:
        points = [
            (*each, f"predicted {number(each[0])}, mean label {number(each[1])} to {number(each[3])}") for each in told
        ]
        inside = sum(least <= stated <= most for stated, least, _, most in told)
        caption = (
            f"Bars are 95 % intervals. {inside} of {len(told)} hold the mean prediction; by chance one in twenty would "
            "not. Dotted: labels as predicted."
        )
        ends = [(place, number(place)) for place in (low, (low + high) / 2.0, high)]
        yield Picture(charts.Agreement("Mean label over the mean prediction", points, ends, _OF_NUMBERS), caption)
    rows = []
    for stated, least, value, most, error, count in bins:
        shown = (number(value), f"{number(least)} to {number(most)}") if least < most or not error else (_TOO_FEW, "")
        rows.append((number(stated), *shown, f"{count:,}"))
    yield Grid.of("Rows by prediction", ("predicted", "mean label", "95 % interval", "rows"), rows, (0, 1, 2, 3))


def _confusion(scores: Mapping[str, Any], names: list[str]) -> Iterator[Block]:
    """The number of rows of each true class among those that are predicted as each class."""
    counts, every = scores["confusion"], scores["predicted"]
    counted = [code for code in scores.get("counted", range(len(every))) if code < len(every)]
    predicted = [every[code] for code in counted]
    many = min(len(predicted), _MOST_CLASSES, *(len(counts[end]) for end in _ENDS))
    classes = [names[code] if code < len(names) else f"class {code + 1}" for code in counted[:many]]
    rows, told = [], 0
    for true in range(many):
        cells = []
        for as_class, most in enumerate(predicted[:many]):
            found = [_entry(counts[end], true, as_class) for end in ("low", "value", "high", "error")]
            estimate, interval = _told(found, float(most), _count)
            told += bool(interval)
            cells.append(f"{estimate} ({interval})" if interval else estimate)
        rows.append((classes[true], *cells))
    if not told:
        yield Prose(_MISSING, "heed")
        return
    yield Prose(
        "How many rows are predicted as a class is known; how many of these are of which class is estimated from the "
        "labels, with its 95 % interval."
    )
    if many < len(every):
        yield Prose(f"Of {len(every):,} classes these are the {many} that are predicted most often.")
    heads = [f"predicted {name}: {count:,} rows" for name, count in zip(classes, predicted, strict=False)]
    yield Grid.of("Rows of each true class", ("true class", *heads), rows, tuple(range(1, many + 1)))


def _entry(matrix: list[list[float | None]], row: int, column: int) -> float | None:
    """An entry of a matrix; None where it is missing."""
    return matrix[row][column] if row < len(matrix) and column < len(matrix[row]) else None


def _told(found: Sequence[float | None], most: float, shown: Callable[[float], str]) -> tuple[str, str]:
    """An estimate between 0 and a largest value, and its interval; or that it cannot be told.

    Args:
        found: The lower end, the estimate, the upper end and the standard error.
        most: The largest value.
        shown: How a value is written.
    """
    low, value, high, error = found
    if low is None or value is None or high is None or not is_clear(low, high, error or 0.0, most):
        return _TOO_FEW, ""
    value, low, high = (min(max(each, 0.0), most) for each in (value, low, high))
    return shown(value), f"{shown(low)} to {shown(high)}"


def _count(value: float) -> str:
    """A number of rows."""
    return f"{value:,.0f}"


def share(value: float | None) -> str:
    """A share in percent, between -100 and 100."""
    return "unknown" if value is None else f"{min(max(value, -1.0), 1.0):.1%}"


def number(value: float | None) -> str:
    """A number of three digits."""
    return "unknown" if value is None else three_digits(value)
