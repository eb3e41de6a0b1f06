"""Learned models and their scores as sentences and tables for a terminal."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from labeldp.results._parts import (
    Parts,
    add_row,
    is_clear,
    listed,
    name_value_table,
    next_commands,
    on_wide_intervals,
    paragraphs,
    resampled_share,
    sentence,
    three_digits,
    titled_table,
)
from labeldp.results._text import guarantee_parts, release_parts

if TYPE_CHECKING:  # the learners are an extra, and metrics are slow to load
    import pyarrow as pa

    from labeldp.learning.metrics import Bounds, Estimate
    from labeldp.learning.tables import ClassScores, Learned, NumberScores, Staged, TableModel
    from labeldp.learning.torch import NetworkModel

_SHOWN_CLASSES = 12
_TOO_FEW = "too few rows to tell"

_UNITS = (
    "units with many rows have noisier labels, so the model follows units with few rows more closely: if the two kinds "
    "differ, its predictions lean towards the latter"
)

#: Least improvement of accuracy whose rows are named; and the one that is where an interval is wider than the last.
_LEAST_SHOWN, _USUAL, _UNTOLD = 0.01, 0.1, 0.5
_HELD_OUT = (
    "Choices on released labels cost no privacy. Each row is scored by models that were fitted on other rows alone."
)

_NATS = "Nats are natural logarithms: 0.1 nats more give a true label 10.5 % more probability (geometric mean)."

_ONLY_BOUNDS = (
    "These released labels do not identify the squares of true labels, so the error is only bounded. The improvement "
    "over predicting the mean is identified, and models are chosen by it."
)

_ENSEMBLE = (
    "On MNIST, Fashion-MNIST and KMNIST a network beside it was more accurate, and took several times as long: pass "
    "--model torch:ensemble."
)


def learned_text(learned: Learned, output: str, *, of_images: bool = False) -> Parts:
    """A learned model, its accuracy on held-out rows, its file, and the guarantee that covers it."""
    model, certificate = learned.model, learned.model.certificate
    rows = _model_rows(learned)
    if not certificate.of_answer and len(getattr(certificate.channel, "repeats", ())) > 1:
        rows.append(("note", _UNITS))
    if (resampled := resampled_share(certificate)) is not None:
        rows.append(("note", _resampled(resampled, corrected=learned.corrected)))
    lines = name_value_table([*rows, ("output", output)])
    learner = "a combination of models" if model.model == "auto" else model.model
    of = f"{certificate.rows:,} released rows"
    if learned.rows is not None:
        of = f"{learned.rows:,} of {of}, chosen by chance without a look at labels"
    result = sentence(f"Learned {learner} from {of}, at no further privacy cost.")
    if learned.scores is None:
        gain = "Exchanged labels cannot show how good the model is: use 'labeldp evaluate' with public labels."
        scores: Parts = []
    else:
        gain = "" if learned.constant else gain_text(learned.scores)
        scores = [Text(), *_score_tables(learned.scores, certificate.space.points, learned.judged_by, public=False)]
        scores.append(sentence(_HELD_OUT))
    end = [*_on_true_rows(learned), Text(), paragraphs(certificate.sentence), Text()]
    if model.model == "torch:patches":
        end.append(sentence(_ENSEMBLE))
    images, others = (" --images ITS_IMAGES", "--images IMAGES") if of_images else ("", "TABLE")
    predict = f"labeldp predict {shlex.quote(output)} {others} --output predictions.csv"
    end.append(next_commands(predict, f"labeldp evaluate {shlex.quote(output)} ANOTHER_RELEASE --released{images}"))
    return [*map(sentence, filter(None, [*learned.remarks, gain])), result, Text(), lines, *scores, *end]


def predicted_text(model: TableModel | NetworkModel, predictions: pa.Table, path: str, output: str) -> Parts:
    """The file of a model's predictions, and the guarantee that covers it."""
    lines = name_value_table([("columns", listed(predictions.column_names)), ("output", output)])
    images = "" if model.columns else " --images ITS_IMAGES"
    return [
        sentence(f"Predicted {model.certificate.label!r} for {predictions.num_rows:,} rows, in their order."),
        Text(),
        lines,
        Text(),
        paragraphs(model.certificate.sentence),
        Text(),
        next_commands(f"labeldp evaluate {shlex.quote(path)} ANOTHER_RELEASE --released{images}"),
    ]


def _on_true_rows(learned: Learned) -> Parts:
    """A remark that scores are for partly resampled features, and the estimate for true rows where there is one."""
    resampled = resampled_share(learned.model.certificate)
    if learned.scores is None or resampled is None:
        return []
    mixed = (
        f"These scores are for released rows, {resampled:.1%} of which are expected to have features from the "
        "generator: a good model does better on original rows."
    )
    if learned.true_accuracy is None:
        return [sentence(f"{mixed} Pass --generator to estimate how much.")]
    found = learned.true_accuracy
    if not _is_told(found):
        return [sentence(f"{mixed} {_cannot_tell(learned.scores.rows, {'accuracy on original rows': found})}")]
    share, interval = _share(found)
    return [sentence(f"{mixed} Accuracy on original rows, estimated: {share} (95 % interval {interval}).")]


def _resampled(share: float, *, corrected: bool) -> str:
    """The treatment of resampled features by a model."""
    rows = f"the features of {share:.1%} of rows (expected) come from the generator"
    if corrected:
        return f"{rows}; the model is corrected for them"
    return f"{rows}; only label noise is corrected: pass --generator, or use labeldp.learning.sklearn"


def _model_rows(learned: Learned | Staged) -> list[tuple[str, str]]:
    """A model with its method and settings, the features that it uses, and those that it does not."""
    from labeldp.learning.features import CALENDAR  # noqa: PLC0415 (most commands have no features to show)

    model = learned.model
    made = {name: CALENDAR[kind] for name, kind in model.columns.items() if kind in CALENDAR}
    features = [f"{name} (day, {', '.join(made[name])})" if name in made else name for name in model.inputs]
    return [
        ("model", f"{model.model}, method {model.method}"),
        *(("settings", each) for each in getattr(learned, "setting", "").split("; ") if each),
        ("features", listed(features)),
        *(("left out", f"{name}: {why}") for name, why in learned.left_out.items()),
    ]


def staged_text(staged: Staged) -> Parts:
    """The result of a release in stages: the release, each stage, and the last model."""
    columns = ["stage", "rows", "candidates", "truth kept", "effective rows, at most", "fitted on"]
    table = titled_table("stages", columns)
    for number, stage in enumerate(staged.stages, 1):
        add_row(
            table,
            str(number),
            f"{len(stage.rows):,}",
            f"{stage.candidates:.1f}",
            f"{stage.truth_probability:.1%}",
            three_digits(int(len(stage.rows) * stage.clean_share)),
            f"{stage.fitted_on:,}",
        )
    lines = name_value_table([*_model_rows(staged), ("output", str(staged.model_file))])
    note = (
        "Truth kept and effective rows, at most, are expected values if the prior of the stage is right; a single "
        f"release would have at most {three_digits(int(staged.one_release))} effective rows. To judge the model, use "
        "'labeldp evaluate' with public labels or another release."
    )
    guarantee = guarantee_parts(staged.release.certificate)
    return [*release_parts(staged.release), Text(), table, Text(), lines, Text(), sentence(note), Text(), *guarantee]


def scores_text(
    scores: ClassScores | NumberScores, points: Sequence[object], judged_by: str, *, public: bool = False
) -> Parts:
    """The gain over a constant prediction, then all scores, each with its 95 % interval."""
    from labeldp.learning.tables import NumberScores  # noqa: PLC0415 (slow to load)

    tables = _score_tables(scores, points, judged_by, public=public)
    if isinstance(scores, NumberScores) and public:
        low, high = (f"{points[end]:.12g}" for end in (0, -1))
        tables.append(
            sentence(f"Labels below {low} or above {high}, the range that was declared, are scored as its ends.")
        )
    return [sentence(gain_text(scores, public=public)), Text(), *tables]


def gain_text(scores: ClassScores | NumberScores, *, public: bool = False) -> str:
    """The gain of a model over a constant prediction; or that labels do not show one, with the rows that would."""
    from labeldp.learning.tables import NumberScores  # noqa: PLC0415 (slow to load)

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
    return f"{_verdict(scores.log_loss_gain, scores.rows, 'class shares', labels, gain, three_digits)} {found}"


def _verdict(gain: Estimate, rows: int, constant: str, labels: str, amount: str, number: Callable[[float], str]) -> str:
    """One sentence on a gain over a constant prediction, and how many rows would show it."""
    from labeldp.learning.tables import rows_to_show  # noqa: PLC0415 (slow to load)

    value = min(max(gain.value, gain.low), gain.high)
    found = f"{amount.format(number(value))} (95 % interval {number(gain.low)} to {number(gain.high)})"
    if number is _points and _UNTOLD < gain.high - gain.low < math.inf:  # an estimate says nothing
        found, value = f"{amount.format(f'{number(gain.low)} to {number(gain.high)}')} (95 % interval)", _USUAL
    if gain.low > 0.0 or gain.high < 0.0:
        return f"{'Better' if gain.low > 0.0 else 'Worse'} than always predicting {constant}: {found}."
    shown = f"{labels} do not show that the model is better than always predicting {constant}: {found}."
    wanted = max(value, _LEAST_SHOWN if number is _points else 0.0)
    if wanted <= 0.0 or not math.isfinite(gain.error):
        return shown[:1].upper() + shown[1:]
    shown, enough = f"{shown[:1].upper()}{shown[1:]}", rows_to_show(rows, gain, wanted)
    if enough <= rows:  # as of a model that predicts the constant nearly everywhere, which says nothing of better ones
        return shown
    return f"{shown} About {three_digits(enough)} rows would show an improvement of {number(wanted)}."


def _points(share: float) -> str:
    """A difference of shares in percentage points."""
    return f"{100.0 * share:+.1f}"


def _score_tables(
    scores: ClassScores | NumberScores, points: Sequence[object], judged_by: str, *, public: bool
) -> Parts:
    """Scores of predictions on released or public labels, each with its 95 % interval."""
    from labeldp.learning.metrics import Bounds  # noqa: PLC0415 (most commands have no scores to show)
    from labeldp.learning.tables import NumberScores  # noqa: PLC0415

    if isinstance(scores, NumberScores):
        return _number_scores_text(scores, judged_by)
    table = titled_table(f"{scores.rows:,} rows, by {judged_by}", ["", "estimate", "95 % interval"])
    _add_gains(table, scores)
    accuracy = scores.accuracy
    if isinstance(accuracy, Bounds):
        lower, upper = (min(max(end, 0.0), 1.0) for end in (accuracy.lower, accuracy.upper))
        interval = f"{accuracy.low:.1%} to {accuracy.high:.1%}"
        add_row(table, "accuracy lies between", f"{lower:.1%} and {upper:.1%}", interval)
    shares = _shares(scores, points, public=public)
    unclear = _unclear(shares, public=public)
    for name, (share, least) in shares.items():
        if name not in unclear:
            add_row(table, name, *_share(share, least))
    if scores.log_loss is not None:
        add_row(table, "log loss (nats)", *_loss(scores.log_loss, scores.rows))
    squares = {"RMSE of the mean class": scores.squared_error, "RMSE of predicting the mean": scores.baseline}
    for name, square in squares.items():
        if square is not None:
            add_row(table, name, *_number(square, scores.rows, root=True))
    if scores.unpredicted:
        never = [str(points[code]) for code in scores.unpredicted]
        more = f" and {len(never) - _SHOWN_CLASSES} more" * (len(never) > _SHOWN_CLASSES)
        add_row(table, "never predicted", f"{', '.join(never[:_SHOWN_CLASSES])}{more}", "")
    of = "" if public else " of released labels"
    add_row(table, f"log likelihood{of}, gain over uniform guessing (nats)", *_estimate(scores.log_likelihood))
    rough = "accuracy" in shares and "accuracy" not in unclear
    remarks = [
        _cannot_tell(scores.rows, unclear) if unclear else "",
        on_wide_intervals(shares["accuracy"][0].error) if rough else "",
    ]
    return [table, *map(sentence, filter(None, [*remarks, _NATS]))]


def _shares(scores: ClassScores, points: Sequence[object], *, public: bool) -> dict[str, tuple[Estimate, float]]:
    """The scores between 0 and 1 by name, each with the least that it can be."""
    from labeldp.learning.metrics import Estimate  # noqa: PLC0415 (most commands have no scores to show)

    mean = ", mean of each class against the rest" * (len(points) > 2)
    least = 0.0 if public else 1.0 / len(points)  # the largest share of a class, unless true labels show it
    found = {
        "accuracy": (scores.accuracy, 0.0),
        "accuracy of the most common class": (scores.majority, least),
        "balanced accuracy (mean recall)": (scores.balanced_accuracy, 0.0),
        f"area under the ROC{mean}": (scores.auc, 0.0),
    }
    if scores.recall is not None:
        found |= {f"recall of {point}": (scores.recall[i], 0.0) for i, point in enumerate(points[:_SHOWN_CLASSES])}
    return {name: (share, low) for name, (share, low) in found.items() if isinstance(share, Estimate)}


def _unclear(shares: Mapping[str, tuple[Estimate, float]], *, public: bool) -> dict[str, Estimate]:
    """The shares whose intervals are no finding; all, where that of the accuracy is none: they are of the same rows.

    Those of public labels are what these rows show, where they show anything.
    """
    told = {name: not math.isnan(share.value) if public else _is_told(share) for name, (share, _) in shares.items()}
    every = not told.get("accuracy", True)
    return {name: share for name, (share, _) in shares.items() if every or not told[name]}


def _is_told(share: Estimate) -> bool:
    """True if a share between 0 and 1 can be told from these rows."""
    return not math.isnan(share.value) and is_clear(share.low, share.high, share.error)


def _cannot_tell(rows: int, unclear: Mapping[str, Estimate]) -> str:
    """One sentence on the shares that are not shown, and how many rows would do."""
    known = not any(math.isnan(share.value) for share in unclear.values())
    needed = max((share.rows_needed(rows, 0.5) or 0 for share in unclear.values()), default=0) if known else 0
    enough = f" About {needed:,} rows would do." if needed else ""
    return f"Too few rows for their noise to tell: {', '.join(unclear)}.{enough}"


def _add_gains(table: Table, scores: ClassScores) -> None:
    """Rows for the gains over constant predictions."""
    if scores.better is not None:
        better = scores.better
        value = _points(min(max(better.value, better.low), better.high))
        low, high = _points(better.low), _points(better.high)
        add_row(table, "accuracy above the most common class (points)", value, f"{low} to {high}")
    if scores.log_loss_gain is not None:
        add_row(table, "log loss below that of class shares (nats)", *_estimate(scores.log_loss_gain))
    else:  # rows have candidates, so labels were released
        name = "log likelihood of released labels, gain over class shares (nats)"
        add_row(table, name, *_estimate(scores.likelihood_gain))


def _number_scores_text(scores: NumberScores, judged_by: str) -> Parts:
    """Scores of predicted numbers, in the unit of the label."""
    from labeldp.learning.metrics import Bounds  # noqa: PLC0415

    table = titled_table(f"{scores.rows:,} rows, by {judged_by}", ["", "estimate", "95 % interval"])
    roots = {"root mean squared error (RMSE)": scores.squared_error, "RMSE of predicting the mean": scores.baseline}
    numbers = {
        "share of variance explained (R2)": scores.r2,
        "mean absolute error": scores.absolute_error,
        "mean label": scores.mean,
    }
    first = {"MSE improvement over predicting the mean": scores.gain}
    for name, score in (*first.items(), *roots.items(), *numbers.items()):
        if score is not None:
            between = " lies between" if isinstance(score, Bounds) else ""
            add_row(table, name + between, *_number(score, scores.rows, root=name in roots))
    return [table, *([sentence(_ONLY_BOUNDS)] if isinstance(scores.squared_error, Bounds) else [])]


def _number(score: Estimate | Bounds, rows: int, *, root: bool) -> tuple[str, str]:
    """An estimate or a pair of bounds, and its interval; with ``root`` the square roots.

    Noise can make the estimate of a mean square negative: its root then cannot be told, but for the interval.
    """
    from labeldp.learning.metrics import Bounds, Estimate  # noqa: PLC0415

    ends = [score.lower, score.upper] if isinstance(score, Bounds) else [score.value]
    if not all(map(math.isfinite, ends)):
        known = math.isinf(score.low) and math.isfinite(score.high) and score.high < 1.0
        return _TOO_FEW, f"at most {three_digits(score.high)}" if known else ""
    low, high, *rest = (three_digits(math.sqrt(max(x, 0.0)) if root else x) for x in (score.low, score.high, *ends))
    between = f"{low} to {high}"
    if math.isinf(score.low) or math.isinf(score.high):  # errors on public labels of few units
        between = f"at most {high}" if math.isinf(score.low) else f"at least {low}"
    if root and isinstance(score, Estimate) and score.value <= 0:
        return _too_few(score, rows, score.high)[0], between
    return " and ".join(rest), between


def _share(estimate: Estimate, least: float = 0.0) -> tuple[str, str]:
    """A share and its interval in per cent; an estimate below the least possible one or above 1 is clipped."""
    value, low, high = (min(max(each, least), 1.0) for each in (estimate.value, estimate.low, estimate.high))
    return f"{value:.1%}", f"{low:.1%} to {high:.1%}"


def _too_few(estimate: Estimate, rows: int, most: float) -> tuple[str, str]:
    """A text for an estimate that cannot be told, with the rows for an interval of half the range 0 to ``most``."""
    needed = estimate.rows_needed(rows, most / 2.0) if most > 0.0 else None
    return (_TOO_FEW if needed is None else f"{_TOO_FEW}; about {needed:,} would do"), ""


def _estimate(estimate: Estimate) -> tuple[str, str]:
    """A number and its interval, which holds it: intervals end at what is possible."""
    value = min(max(estimate.value, estimate.low), estimate.high)
    return f"{value:.3g}", f"{estimate.low:.3g} to {estimate.high:.3g}"


def _loss(estimate: Estimate, rows: int) -> tuple[str, str]:
    """A number that is not negative, and its interval; an estimate below 0 cannot be told."""
    value, interval = _estimate(estimate)
    if estimate.value >= 0.0:
        return value, interval
    return _too_few(estimate, rows, estimate.high)[0], interval if estimate.high > 0.0 else ""
