"""Results in words and tables, for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from labeldp.mechanisms.queries import noise_deviation
from labeldp.mechanisms.randomizers import NumberExpectation
from labeldp.privacy import Guarantee, Interval, shown_above
from labeldp.privacy.accounting import Budget
from labeldp.release import CombinedGuarantee, TableRelease
from labeldp.release.folder import Certificate, Verdict
from labeldp.release.ledger import Entry
from labeldp.report._parts import Parts
from labeldp.report._parts import pairs as _pairs
from labeldp.report._parts import row as _row
from labeldp.report._parts import said as _said
from labeldp.report._parts import table as _table

if TYPE_CHECKING:  # the learners are an extra, and metrics are slow to load
    from labeldp.learning.metrics import Bounds, Estimate, Scores
    from labeldp.learning.tables import Learned, NumberScores, Staged

_SHOWN_COLUMNS = 12
_SHOWN_CLASSES = 12
_USUAL_DELTA = 1e-6
_PRINTED = 0.0005  # half of the last digit of a share in per cent

_UNITS = (
    "labels of units with many rows have more noise each, so units with few rows count for more in the model; where "
    "the labels of both differ, predictions lean towards those of the units with few rows"
)

_NOT_TOLD = (
    "The law of these labels does not tell their squares, so the error itself is only bounded. The gain over the mean "
    "is known, and models are chosen by it."
)


def release_text(done: TableRelease) -> Parts:
    """What was released, what it promises and what it keeps. Nothing in it depends on a true label."""
    certificate = done.certificate
    lines = _pairs()
    _row(lines, "mechanism", _mechanism(certificate.draws[-1].mechanism, certificate.law))
    for name, told in _kept(certificate).items():
        _row(lines, name, told)
    for assumed in certificate.guarantee.assumptions:
        _row(lines, "assumed", assumed)
    if certificate.features is not None and certificate.features.generator is not None:
        share = float(certificate.features.chance)
        _row(lines, "features", f"of {share:.1%} of rows, expected, drawn by the generator; 'worth' is of labels alone")
    _row(lines, "columns", _listed([name for name, _ in certificate.columns]))
    _row(lines, "output", str(done.output))
    _row(lines, "ledger", str(done.ledger))
    most = done.budget
    at = f" and delta {_delta(done.spent[1])} of {most.delta:g}" if done.spent[1] else ""
    at = f" at delta {most.delta:g}" if most.concentrated else at
    told = f"epsilon {shown_above(done.spent[0], 7)} of {shown_above(most.epsilon, 7)}{at} for this label so far"
    _row(lines, "spent", f"{told}, by all releases that the ledger knows")
    _row(lines, "your notes", f"{done.notes_file} says what kept columns tell of labels: read it before you share")
    return [_said(certificate.sentence), Text(), lines]


def _kept(certificate: Certificate) -> dict[str, str]:
    """What released labels keep of the true ones, where a channel says it."""
    expects, rows = certificate.expects, certificate.rows
    if expects is None:
        return {}
    if isinstance(expects, NumberExpectation):
        return _numbers_kept(certificate, expects)
    kept, share = expects.truth_probability, expects.clean_share
    alone = ", by labels alone" if certificate.law["kind"] == "cluster" else ""
    told = {
        "truth kept": f"{kept:.1%} of rows, expected: what is released contains the true class",
        "worth": f"{int(rows * share):,} clean rows of {rows:,} ({share:.1%}), expected{alone}",
    }
    return told | ({"clusters": _clusters(certificate)} if alone else {})


def _numbers_kept(certificate: Certificate, expects: NumberExpectation) -> dict[str, str]:
    """What released numbers keep of true ones."""
    space, rows = certificate.space, certificate.rows
    if not isinstance(space, Interval):
        return {}
    noise, share = space.step * math.sqrt(expects.squared_error), expects.clean_share
    counted = " evenly; less where most labels were counted" if certificate.answers else ""
    return {
        "range": f"{space.low:g} to {space.high:g} in steps of {space.step:g}; labels beyond it were clipped to it",
        "noise": f"a released number is {noise:.3g} off, as root mean square over the range{counted}",
        "worth": f"at most {int(rows * share):,} clean rows of {rows:,} ({share:.1%}), if labels spread over the range",
    }


def _clusters(certificate: Certificate) -> str:
    """What the counts of clusters are worth, from how large they are and how large the noise on them is."""
    clusters, noise = len(certificate.law["keep"]), noise_deviation(certificate.draws[0].law)
    rows = certificate.rows / clusters
    return (
        f"{clusters:,} of {rows:,.0f} rows each on average, whose counts of classes have noise of {noise:,.1f} rows; "
        "'labeldp learn' learns from both"
    )


def verdict_text(verdict: Verdict) -> Parts:
    """What was checked, what was found, and what cannot be known."""
    lines = Table.grid(padding=(0, 2))
    for check in verdict.checks:
        _row(lines, Text("ok" if check.holds else "FAILED", "green" if check.holds else "bold red"), check.what)
        if not check.holds:
            _row(lines, "", check.found)
    parts: Parts = [lines, Text()]
    if verdict.holds and verdict.certificate is not None:
        parts += [_contents(verdict.certificate), Text()]
        parts += [_said(verdict.certificate.sentence), Text()]
        parts += [_said(f"declared, not checked: {what}") for what in verdict.certificate.assumptions]
    parts += [Text("This cannot show:"), *(_said(f"  - {what}") for what in verdict.unknown)]
    return parts


def _contents(certificate: Certificate) -> Table:
    """What a release holds."""
    lines = _pairs()
    _row(lines, "mechanism", _mechanism(certificate.draws[-1].mechanism, certificate.draws[-1].law))
    _row(lines, "label", f"{certificate.label}, of {certificate.space.size} points")
    _row(lines, "rows", f"{certificate.rows:,}")
    _row(lines, "columns", _listed([name for name, _ in certificate.columns]))
    return lines


def ledger_text(entries: Sequence[Entry], totals: Iterable[tuple[str, float, float, Budget]]) -> Parts:
    """All charges, and for each label of each data set what is spent of which budget."""
    charges = _table(
        "charges", ["time (UTC)", "label", "mechanism", "epsilon", "delta", "unit", "rows", "state", "output"]
    )
    for entry in entries:
        rows = sum(stop - start for start, stop in entry.rows.ranges)
        _row(
            charges,
            entry.time[:19],
            entry.label,
            entry.mechanism,
            shown_above(entry.guarantee.epsilon, 7),
            _delta(entry.guarantee.delta),
            entry.guarantee.unit,
            f"{rows:,}",
            entry.state,
            entry.output or "in memory",
        )
    spent = _table("spent", ["label", "epsilon", "of budget", "delta", "of budget", "counted"])
    for label, epsilon, delta, most in totals:
        how = "concentrated" if most.concentrated else "by sums"
        _row(spent, label, shown_above(epsilon, 7), shown_above(most.epsilon, 7), _delta(delta), f"{most.delta:g}", how)
    told = Text(
        "'charged' is not settled: a release is at work, or was killed and its output can't be told apart. "
        "'void' never left and costs nothing."
    )
    assumed = _assumed(entry.guarantee for entry in entries if entry.state != "void")
    return [charges, Text(), spent, Text(), *map(_said, assumed), told]


def _assumed(promised: Iterable[Guarantee]) -> list[str]:
    """What guarantees rest on, each once."""
    return [
        f"Assumed, not checked: {what}." for what in dict.fromkeys(a for each in promised for a in each.assumptions)
    ]


def account_text(found: Sequence[CombinedGuarantee]) -> Parts:
    """What the releases of each label promise together, as a table and a sentence, and on what it rests."""
    parts: Parts = []
    for each in found:
        parts += [_account_table(each), Text(), *(_said(line) for line in _account_lines(each)), Text()]
    if len(found) > 1:
        parts += [
            _said(
                "Labels of other names, and ledgers, are shown apart: where two tell of each other, add their epsilons."
            )
        ]
    return parts or [_said("Nothing was charged.")]


def _account_table(each: CombinedGuarantee) -> Table:
    """Epsilons and deltas that go together, rounded up."""
    whole = each.composition
    folders = f" in {_count(each.folders, 'folder')}" if each.folders else ""
    title = f"{each.label}: {_requests(each)}{folders}, of at most {each.rows:,} rows each"
    table = _table(title, ["delta", "epsilon", "holds"])
    _row(table, _delta(whole.delta), shown_above(whole.epsilon, 7), "however they were chosen (by sums)")
    pairs = [(repr(delta), epsilon) for delta, epsilon in each.at_deltas]
    pairs += [(_delta(delta), epsilon) for epsilon, delta in each.at_epsilons]
    for delta, epsilon in pairs:
        told = "if all were fixed beforehand"
        _row(table, delta, shown_above(epsilon, 7) if math.isfinite(epsilon) else "none", told)
    return table


def _account_lines(each: CombinedGuarantee) -> list[str]:
    """What it means, and what was assumed."""
    whose = "one row's label" if each.unit == "row" else f"all labels of one {each.unit}"
    whole, (delta, epsilon) = each.composition, next(pair for pair in each.at_deltas if pair[0] >= _USUAL_DELTA)
    sums = f"exp({shown_above(whole.epsilon, 7)})" + (f", plus {_delta(whole.delta)}" if whole.delta else "")
    what = f"these {_requests(each)} together" if len(whole.charges) > 1 else "this one alone"
    assumed = _assumed(charge.guarantee for charge in whole.charges)
    known = "Whatever else someone knows" + (", as long as what is assumed below holds" if assumed else "")
    lines = [f"{known}, replacing {whose} changes the probability of anything in {what} by a factor of at most {sums}."]
    if math.isfinite(epsilon):
        lines[0] += (
            " If it was fixed before the first result was seen how many there would be, of which rows and with which "
            f"laws, by a factor of at most exp({shown_above(epsilon, 7)}), plus {delta!r}."
        )
    if any(not math.isfinite(epsilon) for _, epsilon in each.at_deltas):
        lines.append("none: these requests themselves fail with a larger probability.")
    if each.ledger:
        lines.append(
            "A ledger keeps no law: each charge counts as the worst mechanism with its epsilon, or with its rho where "
            "it has one. Charges of other sessions count for the same rows. What never left costs nothing."
        )
    elif each.one_table:
        lines.append("You declared that row numbers mean the same rows in all: disjoint rows cost the maximum.")
    else:
        lines.append(f"All releases of {each.label!r} count as being of the same rows.")
    if each.unit != "row":
        same = "" if each.ledger else f", and {each.unit!r} is taken to tell the same units apart in all"
        lines.append(f"A unit may have several rows: laws are not used, all count for each unit{same}.")
    lines += [f"Without all its rows, {path} counts with the fewest candidates." for path in each.unknown]
    if each.repeated:
        lines.append(f"Named again, or of a release that counts already, so counted once: {', '.join(each.repeated)}.")
    return [*lines, *assumed]


def _requests(each: CombinedGuarantee) -> str:
    return _count(len(each.composition.charges), "charge" if each.ledger else "request")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _delta(value: float) -> str:
    """A failure probability of three digits, rounded up."""
    if not value:
        return "0"
    return f"{float(Context(prec=3, rounding=ROUND_CEILING).create_decimal(Decimal(repr(float(value)))))!r}"


def learned_text(learned: Learned, output: str) -> Parts:
    """What was learned from a release, how good it is on rows it did not see, and where it is."""
    model = learned.model
    lines = _pairs()
    _row(lines, "model", f"{model.model}, method {model.method}, {learned.setting}")
    _row(lines, "features", _listed(model.inputs))
    for name, why in learned.left_out.items():
        _row(lines, "left out", f"{name}: {why}")
    if model.certificate.guarantee.unit != "row":
        _row(lines, "mind", _UNITS)
    if model.certificate.features is not None and model.certificate.features.generator is not None:
        _row(lines, "mind", _redrawn(float(model.certificate.features.chance), corrected=learned.corrected))
    _row(lines, "output", output)
    told = _said(f"Learned from a release, at no further cost: {model.certificate.sentence}")
    if learned.scores is None:
        judged: Parts = [
            _said("How good it is, exchanged labels do not say: 'labeldp evaluate' does on public labels.")
        ]
    else:
        judged = scores_text(learned.scores, model.certificate.space.points, learned.judged_by)
    return [told, Text(), lines, Text(), *judged, *_on_true_rows(learned)]


def _on_true_rows(learned: Learned) -> Parts:
    """That scores are of rows some of whose features were redrawn, and what can be said of true ones."""
    law = learned.model.certificate.features
    if learned.scores is None or law is None or law.generator is None:
        return []
    mixed = (
        f"These scores are of released rows, the features of {float(law.chance):.1%} of which, expected, are drawn: on "
        "true rows a good model does better."
    )
    if learned.true_accuracy is None:
        return [_said(f"{mixed} How much, --generator estimates.")]
    share, interval = _share(learned.true_accuracy)
    return [_said(f"{mixed} Accuracy on true rows, estimated: {share} (95 % interval {interval}).")]


def _redrawn(share: float, *, corrected: bool) -> str:
    """What a model makes of features that are not the row's."""
    rows = f"the features of {share:.1%} of rows, expected, are the generator's"
    if corrected:
        return f"{rows}: the model is of true ones"
    return f"{rows}: only the noise of labels is corrected; give --generator, or use labeldp.learning.sklearn"


def staged_text(staged: Staged) -> Parts:
    """What was released in stages, what each stage kept of labels by its prior, and the model that came of it."""
    parts, model = release_text(staged.release), staged.model
    table = _table("stages", ["stage", "rows", "candidates", "truth kept", "clean rows", "fitted on"])
    for number, stage in enumerate(staged.stages, 1):
        _row(
            table,
            str(number),
            f"{len(stage.rows):,}",
            f"{stage.candidates:.1f}",
            f"{stage.truth_probability:.1%}",
            f"{int(len(stage.rows) * stage.clean_share):,}",
            f"{stage.fitted_on:,}",
        )
    lines = _pairs()
    _row(lines, "model", f"{model.model}, method {model.method}")
    _row(lines, "features", _listed(model.inputs))
    for name, why in staged.left_out.items():
        _row(lines, "left out", f"{name}: {why}")
    _row(lines, "output", str(staged.model_file))
    told = (
        "What a stage keeps is expected, if its prior is right; one release without stages would have been worth "
        f"{int(staged.one_release):,} clean rows. How good the model is, 'labeldp evaluate' says on labels that are "
        "public, or on another release."
    )
    return [*parts, Text(), table, Text(), lines, Text(), _said(told)]


def scores_text(
    scores: Scores | NumberScores, points: Sequence[object], judged_by: str, *, public: bool = False
) -> Parts:
    """How good predictions are by released labels, or by public ones, each figure with its 95 % interval."""
    from labeldp.learning.metrics import Bounds  # noqa: PLC0415 (most commands have no scores to show)
    from labeldp.learning.tables import NumberScores  # noqa: PLC0415

    if isinstance(scores, NumberScores):
        return _number_scores_text(scores, judged_by)
    table = _table(f"{scores.rows:,} rows, by {judged_by}", ["", "estimate", "95 % interval"])
    accuracy = scores.accuracy
    if isinstance(accuracy, Bounds):
        lower, upper = (min(max(end, 0.0), 1.0) for end in (accuracy.lower, accuracy.upper))
        _row(table, "accuracy lies between", f"{lower:.1%} and {upper:.1%}", _range(accuracy))
    else:
        _row(table, "accuracy", *_share(accuracy))
    for name, share in (("accuracy of the most common class", scores.majority), ("area under the ROC", scores.auc)):
        if share is not None:
            _row(table, name, *_share(share))
    if scores.log_loss is not None:
        known = isinstance(accuracy, Bounds) or not _unknown(accuracy)
        _row(table, "log loss, nats", *(_estimate(scores.log_loss) if known else ("unknown", "unknown")))
    if scores.recall is not None:
        for place, point in list(enumerate(points))[:_SHOWN_CLASSES]:
            _row(table, f"recall of {point}", *_share(scores.recall[place]))
    of = "" if public else " of released labels"
    _row(table, f"log likelihood{of}, nats over an even guess", *_estimate(scores.log_likelihood))
    return [table]


def _number_scores_text(scores: NumberScores, judged_by: str) -> Parts:
    """How good predicted numbers are, in the unit of the label."""
    from labeldp.learning.metrics import Bounds  # noqa: PLC0415

    table = _table(f"{scores.rows:,} rows, by {judged_by}", ["", "estimate", "95 % interval"])
    roots = {"root mean squared error": scores.squared_error, "that of always saying the mean": scores.baseline}
    numbers = {
        "mean squared error below that of the mean by": scores.gain,
        "share of the variance explained": scores.r2,
        "mean absolute error": scores.absolute_error,
        "mean label": scores.mean,
    }
    for name, found in (*roots.items(), *numbers.items()):
        if found is not None:
            between = " lies between" if isinstance(found, Bounds) else ""
            _row(table, name + between, *_number(found, root=name in roots))
    return [table, *([_said(_NOT_TOLD)] if isinstance(scores.squared_error, Bounds) else [])]


def _number(found: Estimate | Bounds, *, root: bool) -> tuple[str, str]:
    """A number, or the two it lies between, and the interval; of a mean square its root.

    An estimate of a mean square may be below zero, where noise is large: then it is not known, but for the interval.
    """
    from labeldp.learning.metrics import Bounds, Estimate  # noqa: PLC0415

    ends = [found.lower, found.upper] if isinstance(found, Bounds) else [found.value]
    if not all(map(math.isfinite, ends)):
        return "unknown", "unknown"
    low, high, *rest = (f"{math.sqrt(max(end, 0.0)) if root else end:.4g}" for end in (found.low, found.high, *ends))
    if root and isinstance(found, Estimate) and found.value <= 0:
        return "unknown", f"{low} to {high}"
    return " and ".join(rest), f"{low} to {high}"


def _share(estimate: Estimate) -> tuple[str, str]:
    """A share and its interval, in per cent; an estimate that no share can be is shown as the nearest that can."""
    if _unknown(estimate):
        return "unknown", f"{0:.1%} to {1:.1%}"
    return f"{min(max(estimate.value, 0.0), 1.0):.1%}", _range(estimate)


def _unknown(estimate: Estimate) -> bool:
    """Whether the interval of a share leaves every share open, or holds none at all, so that it was cut to one end.

    An estimate that lies outside by less than is printed was rounded, as on public labels, and is no such case.
    """
    outside = max(-estimate.value, estimate.value - 1.0) > _PRINTED
    open_ = estimate.low <= 0.0 and estimate.high >= 1.0
    return math.isnan(estimate.value) or open_ or (outside and estimate.low == estimate.high)


def _estimate(estimate: Estimate) -> tuple[str, str]:
    """A number and its interval."""
    return f"{estimate.value:.4f}", f"{estimate.low:.4f} to {estimate.high:.4f}"


def _range(estimate: Estimate | Bounds) -> str:
    return f"{estimate.low:.1%} to {estimate.high:.1%}"


def _mechanism(name: str, law: object) -> str:
    """A mechanism and what it releases for a row."""
    plain = dict(law) if isinstance(law, dict) else {}
    if plain.get("kind") == "candidate-subset":
        return f"{name}: a set of up to {max(map(int, plain['size']))} of a row's candidates"
    if plain.get("kind") == "subset":
        return f"{name}: a set of {plain['size']} of {plain['classes']} classes"
    if plain.get("kind") in ("grid", "bins"):
        return f"{name}: one of {len(plain['values'])} numbers"
    return f"{name}: {len(plain['channels'])} groups of units" if "channels" in plain else name


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN_COLUMNS
    return (
        ", ".join(names) if more <= 0 else f"{', '.join(names[: _SHOWN_COLUMNS // 2])} ... {names[-1]} ({len(names)})"
    )
