"""Results as sentences and tables for a terminal."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from labeldp.mechanisms.queries import QUERIES, cell_rows
from labeldp.mechanisms.randomizers import NumberExpectation, number_expectation
from labeldp.privacy import Guarantee, Interval, LabelSpace, Trust, shown_above
from labeldp.release.folder import added_columns
from labeldp.results._parts import (
    Parts,
    add_row,
    answer_text,
    check_table,
    epsilon_above,
    has_no_rows,
    listed,
    name_value_table,
    near,
    next_commands,
    paragraphs,
    resampled_share,
    sentence,
    three_digits,
    titled_table,
)

if TYPE_CHECKING:  # the learners are an extra, and metrics are slow to load
    from labeldp.privacy.accounting import Budget
    from labeldp.release import CombinedGuarantee, TableRelease
    from labeldp.release.folder import Certificate, Draw, Verdict
    from labeldp.release.ledger import Entry


_USUAL_DELTA = 1e-6
#: Effective rows for each class below which a release says that they are few. What a model needs depends on features:
#: with 15 for each class, the default for images names 98 % of handwritten digits.
_FEW_PER_CLASS = 2
_CONFIDENCE = 0.95
#: Share of a total epsilon above which an epsilon at a delta is no gain that is worth a delta.
_WORTH_A_DELTA = 0.99


def release_text(release: TableRelease) -> Parts:
    """The result of a release, its cost and its guarantee. Nothing in it depends on a true label."""
    folder = shlex.quote(near(release.output))
    page = f"labeldp report {folder} --output report.html"
    kept = len(release.certificate.columns) > len(added_columns(release.certificate))
    model = "--output model.skops" if kept else "--images IMAGES --output model.safetensors"
    shared = next_commands(f"labeldp verify {folder}", f"labeldp learn {folder} {model}", page)
    answer = next_commands(f"labeldp verify {folder}", page)
    end = [Text(), answer if release.certificate.of_answer else shared]
    if answered := answer_text(release):
        warned = [sentence(answered.warning, "yellow"), answer] if answered.warning else []
        end = [Text(), *(warned or ([sentence(answered.following)] if answered.following else [answer]))]
    return [*release_parts(release), Text(), *guarantee_parts(release.certificate), *end]


def release_parts(release: TableRelease) -> Parts:
    """The result of a release without its guarantee."""
    certificate = release.certificate
    share = None if certificate.expects is None else release.effective_share()
    rows = [("mechanism", mechanism_text(certificate)), *utility_terms(certificate, lambda: share).items()]
    rows += [("note", few) for few in _few_effective_rows(certificate, share)]
    if answered := answer_text(release):
        rows.append((answered.name, answered.text))
    rows += [("assumed", assumption) for assumption in certificate.guarantee.assumptions]
    if (resampled := resampled_share(certificate)) is not None:
        rows.append(("features", f"{resampled:.1%} of rows get features from the generator (expected share)"))
    budget = release.budget
    delta = f" and delta {delta_above(release.spent[1])} of {budget.delta:g}" if release.spent[1] else ""
    delta = f" at delta {budget.delta:g}" if budget.concentrated else delta
    spent = f"epsilon {epsilon_above(release.spent[0])} of {epsilon_above(budget.epsilon)}{delta}"
    rows += [
        ("columns", listed([name for name, _ in certificate.columns])),
        ("output", near(release.output)),
        ("ledger", near(release.ledger)),
        ("spent", f"{spent} for this label, over all releases in the ledger"),
        *(("note", remark) for remark in (*release.remarks, *_of_one_row_each(certificate))),
        ("your notes", f"read {near(release.notes_file)} before you share: it says whether kept columns reveal labels"),
    ]
    promise = certificate.guarantee
    cost = f"epsilon {epsilon_above(promise.epsilon)}" + (
        f", delta {delta_above(promise.delta)}," if promise.delta else ""
    )
    done = "Answered from the labels of" if has_no_rows(certificate) else "Released"
    rows_of = f"{certificate.rows:,} row{'s' * (certificate.rows != 1)}"
    result = sentence(f"{done} {rows_of} at {cost} per {promise.unit}.")
    return [result, Text(), name_value_table(rows)]


def _few_effective_rows(certificate: Certificate, share: float | None) -> Iterator[str]:
    """A remark on released labels that are as informative as hardly any true ones."""
    if certificate.expects is None:
        return
    rows = int(certificate.rows * (certificate.expects.clean_share if share is None else share))
    classes = 2 if isinstance(certificate.space, Interval) else certificate.space.size
    if rows < _FEW_PER_CLASS * classes:
        found = f"about {rows:,} effective rows" if rows else "less than one effective row"
        yield (
            f"{found} for {classes} classes: few to learn from. 'labeldp plan' shows what more rows or a larger "
            "epsilon change"
        )


def _of_one_row_each(certificate: Certificate) -> Iterator[str]:
    """A remark that each row is taken for one person, if no column showed people with several rows."""
    if certificate.guarantee.unit == "row" and not certificate.repeats:
        yield "each row is taken for one person: no column seems to be people with several rows"


def utility_terms(certificate: Certificate, effective_share: Callable[[], float | None]) -> dict[str, str]:
    """Information that released labels retain about true ones, where a channel states it."""
    expects, rows = certificate.expects, certificate.rows
    if expects is None:
        noise = noise_text(certificate.draws[-1], certificate) if certificate.of_answer else ""
        return {"noise": noise} if noise else {}
    if isinstance(certificate.space, Interval) and not certificate.law["by_row"]:
        expects = number_expectation(certificate.channel)  # of classes, too, as a plan states it
    if isinstance(expects, NumberExpectation):
        return _number_utility(certificate, expects)
    labels = "; released labels alone" if certificate.answers else ""
    most, share = f"at most {_effective(rows, expects.clean_share)}", effective_share()
    about = "" if share is None else f"about {_effective(rows, share)} at the released class shares; "
    return {
        "truth kept": f"{expects.truth_probability:.1%} of rows are expected to contain the true class",
        "effective rows": f"{about}{most}: as informative as this many true labels{labels}",
        **_noise_of_answers(certificate),
    }


def _number_utility(certificate: Certificate, expects: NumberExpectation) -> dict[str, str]:
    """Information that released numbers retain about true ones."""
    space, rows = certificate.space, certificate.rows
    if not isinstance(space, Interval):
        return {}
    noise = three_digits(space.step * math.sqrt(expects.squared_error))
    counted = "; less where most labels were counted" if certificate.answers else ""
    return {
        "range": f"{space.low:g} to {space.high:g} in steps of {space.step:g}; labels beyond it were clipped to it",
        "noise": f"RMS error {noise} per released number, averaged over the range{counted}",
        "effective rows": f"at most {_effective(rows, expects.clean_share)}, if labels spread over the range",
    }


def _effective(rows: int, share: float) -> str:
    """The effective sample size of released labels."""
    return f"{three_digits(int(rows * share))} of {rows:,} ({share:.1%})"


def _noise_of_answers(certificate: Certificate) -> dict[str, str]:
    """The size of the noise of the answers that the channel was computed from."""
    known = {draw.mechanism: noise_text(draw, certificate) for draw in certificate.answers}
    return {name: f"released too; {noise}" for name, noise in known.items() if noise}


def noise_text(draw: Draw, certificate: Certificate) -> str:
    """The size of the noise of an answer in words; empty where it is unknown."""
    query, rows = QUERIES.of_law(draw.law), cell_rows(draw.law, certificate.rows)
    error = query.standard_error(draw.law, certificate.space, rows)
    margin = query.margin(draw.law, certificate.space, rows, _CONFIDENCE)
    parts = [] if error is None else [f"standard error {_span(error)} from noise"]
    if margin is not None:
        parts.append(f"{query.margin_text.format(_span(margin))}, with a probability of {_CONFIDENCE:.0%}")
    return "; ".join(parts)


def _span(values: np.ndarray) -> str:
    """A number, or the least and the largest of several."""
    known = values[np.isfinite(values)]
    if not known.size:
        return "unknown"
    low, high = three_digits(float(known.min())), three_digits(float(known.max()))
    return low if low == high else f"{low} to {high}"


def verdict_text(verdict: Verdict) -> Parts:
    """The result of verification, each check, the limits of verification, and the guarantee."""
    result = Text("Verified: the files, the mechanism and the guarantee agree.", "green")
    if not verdict.holds:
        result = Text("Not verified: do not rely on this release.", "bold red")
    parts: Parts = [result, Text(), check_table(verdict.checks), Text()]
    if verdict.holds and verdict.certificate is not None:
        parts += [_contents(verdict.certificate), Text()]
        parts += [sentence(f"declared, not checked: {what}") for what in verdict.certificate.assumptions]
    parts += [Text("Verification cannot show:"), *(sentence(f"  - {what}") for what in verdict.unknown)]
    if verdict.signature_unchecked:
        parts += [Text(), Text("Signed, not checked: pass --public-key.", "yellow")]
    if verdict.holds and verdict.certificate is not None:
        parts += [Text(), *guarantee_parts(verdict.certificate)]
    return parts


def guarantee_parts(certificate: Certificate) -> Parts:
    """The meaning of the guarantee for a person, and its formal statement."""
    meaning = certificate.meaning
    return [*([sentence(meaning), Text()] if meaning else []), paragraphs(certificate.sentence)]


def _contents(certificate: Certificate) -> Table:
    """Mechanism, label, rows and columns of a release, and what its generator cost."""
    rows = [
        ("mechanism", mechanism_text(certificate)),
        ("label", f"{certificate.label} ({_size(certificate.space)})"),
        ("rows", f"{certificate.rows:,}"),
        ("columns", listed([name for name, _ in certificate.columns])),
    ]
    if certificate.of_answer and (noise := noise_text(certificate.draws[-1], certificate)):
        rows.append(("noise", noise))
    if (split := certificate.paid_split) is not None:
        cost = epsilon_above(split.guarantee.epsilon)
        rows.append(("generator", f"fitted on {split.rows:,} rows of {split.label!r}, released at epsilon {cost}"))
    return name_value_table(rows)


def _size(space: LabelSpace) -> str:
    return f"{space.size:,} {'grid points' if isinstance(space, Interval) else 'classes'}"


def ledger_text(
    entries: Sequence[Entry], totals: Iterable[tuple[str, float, float, Budget]], others: Sequence[Path] = ()
) -> Parts:
    """All charges, the spent part of the budget for each label of each data set, and other ledgers beside the table."""
    charges = titled_table(
        "charges", ["time (UTC)", "label", "mechanism", "epsilon", "delta", "unit", "rows", "state", "output"]
    )
    for entry in entries:
        add_row(charges, entry.time[:19], *charge_cells(entry), entry.output or "in memory")
    spent = titled_table("spent", ["label", "epsilon", "of budget", "delta", "of budget", "counted"])
    for label, epsilon, delta, budget in totals:
        how = "concentrated" if budget.concentrated else "by sums"
        limits = (epsilon_above(budget.epsilon), delta_above(delta), f"{budget.delta:g}")
        add_row(spent, label, epsilon_above(epsilon), *limits, how)
    states = Text(
        "charged: in progress, or interrupted (counted as spent). drawn: interrupted after a draw (counted). released: "
        "written. void: never written (not counted)."
    )
    beside = [f"Beside it, counted where rows are the same: {', '.join(map(str, others))}."] if others else []
    return [charges, Text(), spent, Text(), *map(sentence, (*declared_lines(entries), *beside)), states]


def charge_cells(entry: Entry) -> tuple[str, ...]:
    """A charge in the columns between its time and its output."""
    promise, rows = entry.guarantee, sum(stop - start for start, stop in entry.rows.ranges)
    amounts = (epsilon_above(promise.epsilon), delta_above(promise.delta))
    return entry.label, entry.mechanism, *amounts, promise.unit, f"{rows:,}", entry.state


def declared_lines(entries: Sequence[Entry]) -> list[str]:
    """What charges assume, and whose rows were declared to be other people's."""
    assumed = _assumed(entry.guarantee for entry in entries if entry.state != "void")
    declared = dict.fromkeys(entry.other_people for entry in entries if entry.other_people)
    return [*assumed, *(f"Declared: rows of other people than those charged before ({why})." for why in declared)]


def _assumed(guarantees: Iterable[Guarantee]) -> list[str]:
    """The assumptions of guarantees, each once."""
    return [
        f"Assumed, not checked: {what}." for what in dict.fromkeys(a for each in guarantees for a in each.assumptions)
    ]


def account_text(combined: Sequence[CombinedGuarantee]) -> Parts:
    """The combined guarantee of the releases of each label: the total, a table, the formal statement, assumptions."""
    parts: Parts = []
    for each in combined:
        parts += [sentence(account_total(each)), Text(), _account_table(each), Text()]
        parts += [*(sentence(line) for line in account_lines(each)), Text()]
    if len(combined) > 1:
        parts += [
            sentence(
                "Labels of different names, and ledgers, are shown separately: add the epsilons of labels that reveal "
                "each other."
            )
        ]
    return parts or [sentence("Nothing was charged.")]


def account_total(each: CombinedGuarantee) -> str:
    """The total by basic composition, in one line."""
    whole = each.composition
    delta = f" and delta {delta_above(whole.delta)}" if whole.delta else ""
    left_out = [] if each.ledger or each.unit == "row" else dict.fromkeys(path for path, _, _ in each.others)
    without = f", without {', '.join(left_out)}" if left_out else ""
    return f"{each.label}: epsilon {epsilon_above(whole.epsilon)}{delta} per {each.unit} in total{without}."


def _account_table(each: CombinedGuarantee) -> RenderableType:
    """Pairs of epsilon and delta that hold, rounded up; of the sum alone, what it is a sum of."""
    folders = f" in {_count(each.folders, 'folder')}" if each.folders else ""
    title = f"{_requests(each)}{folders}, of at most {each.rows:,} rows each"
    pairs = [(repr(delta), epsilon) for delta, epsilon in shown_deltas(each)]
    pairs += [(delta_above(delta), epsilon) for epsilon, delta in each.at_epsilons]
    if not pairs:
        return sentence(f"{title}.")
    table = titled_table(title, ["delta", "epsilon", "holds"])
    for row in pair_rows(each, pairs):
        add_row(table, *row)
    return table


def pair_rows(each: CombinedGuarantee, pairs: Iterable[tuple[str, float]]) -> Iterator[tuple[str, str, str]]:
    """The sum, and pairs of delta and epsilon beside it, as delta, epsilon, and when they hold."""
    yield delta_above(each.composition.delta), exact_above(each.composition.epsilon), "always (sum of epsilons)"
    for delta, epsilon in pairs:
        yield delta, exact_above(epsilon) if math.isfinite(epsilon) else "none", "if all were fixed beforehand"


def shown_deltas(each: CombinedGuarantee) -> list[tuple[float, float]]:
    """The epsilons at deltas that were asked for; of several requests, and where a delta is spent anyway, at others.

    Where none is spent, those that buy less than a hundredth of epsilon are left out.
    """
    whole = each.composition
    least = math.inf if whole.delta else _WORTH_A_DELTA * whole.epsilon if len(whole.charges) > 1 else 0.0
    return [(delta, epsilon) for delta, epsilon in each.at_deltas if delta in each.wanted or epsilon <= least]


def account_lines(each: CombinedGuarantee) -> list[str]:
    """The formal statement, and what it assumes."""
    whose = "one row's label" if each.unit == "row" else f"all labels of one {each.unit}"
    whole, usual = each.composition, [pair for pair in shown_deltas(each) if pair[0] >= _USUAL_DELTA]
    sums = f"exp({exact_above(whole.epsilon)})" + (f", plus {delta_above(whole.delta)}" if whole.delta else "")
    what = f"these {_requests(each)} together" if len(whole.charges) > 1 else "this request"
    assumed = _assumed(charge.guarantee for charge in whole.charges)
    known = "Whatever else someone knows" + (", provided that the assumptions below hold" if assumed else "")
    lines = [
        f"{known}, replacing {whose} changes the probability of any outcome of {what} by a factor of at most {sums}."
    ]
    if usual and math.isfinite(usual[0][1]):
        delta, epsilon = usual[0]
        lines[0] += (
            " If their number, rows and mechanisms were fixed before the first result was seen: by a factor of at most "
            f"exp({exact_above(epsilon)}), plus {delta!r}."
        )
    if whole.delta < 1:
        whom = ["one row"] if each.unit == "row" else []
        trust: Trust = "peer" if any(charge.guarantee.trust == "peer" for charge in whole.charges) else "central"
        lines.append(Guarantee(whole.epsilon, whole.delta, trust, each.unit).posterior_sentence(*whom))
    if any(not math.isfinite(epsilon) for _, epsilon in each.at_deltas):
        lines.append("none: no epsilon holds, since the failure probability of these requests exceeds that delta.")
    if each.ledger:
        lines.append(
            "A ledger stores no mechanism: each charge counts as the worst mechanism of its epsilon, or of its rho if "
            "it has one. Charges of other sessions are counted as charges on the same rows, void charges not at all."
        )
    elif each.one_table:
        lines.append("You declared that row numbers mean the same rows in all: disjoint rows cost the maximum.")
    else:
        lines.append(f"All releases of {each.label!r} are counted as releases of the same rows.")
    if each.unit != "row":
        same = "" if each.ledger else f", and {each.unit!r} is taken to mean the same units in all releases"
        lines.append(f"A unit may have several rows: each charge counts in full, as the worst of its epsilon{same}.")
    lines += _of_other_units(each)
    lines += [f"The rows of {path} are incomplete: they count with the fewest candidates." for path in each.unknown]
    if each.repeated:
        lines.append(f"Listed more than once, counted once: {', '.join(each.repeated)}.")
    return [*lines, *assumed]


def _of_other_units(each: CombinedGuarantee) -> Iterator[str]:
    """The charges of the label that protect another unit than the total."""
    if each.others and each.ledger:
        yield (
            "Charges for another unit were converted when they were recorded: one for rows costs a unit its epsilon "
            "times the most rows of one, and one for a unit holds for each of its rows."
        )
    elif each.others and each.unit == "row":
        yield "This counts all releases, since a guarantee for all labels of a unit holds for each of its rows."
    for path, unit, epsilon in () if each.ledger or each.unit == "row" else each.others:
        cost = f"epsilon {exact_above(epsilon)} times the most rows that one {each.unit} has in it"
        yield (
            f"{path} has epsilon {exact_above(epsilon)} per {unit}, which is not in this total: for one {each.unit} it "
            f"adds {cost if unit == 'row' else 'an epsilon that is not known'}. A ledger that has the charges of all "
            "converts them: 'labeldp account LEDGER'."
        )


def exact_above(value: float) -> str:
    """An epsilon rounded up; with seven digits, since no file keeps a combined guarantee."""
    return shown_above(value, 7)


def _requests(each: CombinedGuarantee) -> str:
    return _count(len(each.composition.charges), "charge" if each.ledger else "request")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def delta_above(value: float) -> str:
    """A failure probability of three digits, rounded up."""
    if not value:
        return "0"
    return f"{float(Context(prec=3, rounding=ROUND_CEILING).create_decimal(Decimal(repr(float(value)))))!r}"


def mechanism_text(certificate: Certificate) -> str:
    """The name of the last mechanism, and its released label."""
    name = certificate.draws[-1].mechanism
    return name if certificate.of_answer else f"{name}: {certificate.channel.detail}"
