"""Spending: the charges of a ledger, the part of each budget, and the combined cost of several releases."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal

from labeldp._checks import printable
from labeldp.privacy import Guarantee
from labeldp.privacy.accounting import Budget
from labeldp.results._blocks import Block, Grid, Part, Picture, Prose, Section
from labeldp.results._charts import Curves, Steps
from labeldp.results._numbers import counted, delta_above, epsilon_above, exactly_above, listed

if TYPE_CHECKING:
    from labeldp.release import CombinedGuarantee
    from labeldp.release.ledger import Entry

_USUAL_DELTA = 1e-6
_APART = (
    "Labels of different names, and ledgers, are shown separately: add the epsilons of labels that reveal each other."
)
#: Share of a total epsilon above which an epsilon at a delta is no gain that is worth a delta.
_WORTH_A_DELTA = 0.99
#: Lines of a chart over time: more cannot be told apart.
_MOST_LINES = 6
_STATES = {
    "charged": "in progress, or interrupted; counted",
    "drawn": "interrupted after a draw; counted",
    "released": "written; counted",
    "void": "never written; not counted",
}
#: The total of each label of each data set: its name, epsilon, delta, the budget in force, and the outputs.
Totals = Sequence[tuple[str, float, float, Budget, tuple[str | None, ...]]]


@dataclass(frozen=True)
class ChargeShown:
    """A charge of a ledger."""

    identifier: str
    time: str
    state: str
    label: str
    mechanism: str
    epsilon: float
    delta: float
    unit: str
    trust: Literal["local", "central", "peer", "shuffle"]
    assumptions: tuple[str, ...]
    table: str | None
    output: str | None


@dataclass(frozen=True)
class SpentOf:
    """The spent part of the budget of a label of one set of rows, and what was written of these rows."""

    label: str
    epsilon: float
    delta: float
    budget: Budget
    outputs: tuple[str | None, ...]


@dataclass(frozen=True)
class LedgerShown:
    """All charges of a ledger, as ``labeldp ledger --json`` prints them."""

    charges: tuple[ChargeShown, ...]
    spent: tuple[SpentOf, ...]
    others: tuple[str, ...]

    @classmethod
    def of(cls, entries: Sequence[Entry], totals: Totals, others: Sequence[Path] = ()) -> LedgerShown:
        """The charges of a ledger, the spent part of each budget, and other ledgers beside the table."""
        charges = (
            ChargeShown(
                *(each.identifier, each.time, each.state, each.label, each.mechanism),
                *(each.guarantee.epsilon, each.guarantee.delta, each.guarantee.unit, each.guarantee.trust),
                *(tuple(each.guarantee.assumptions), each.table, each.output),
            )
            for each in entries
        )
        return cls(tuple(charges), tuple(SpentOf(*each) for each in totals), tuple(map(str, others)))


@dataclass(frozen=True)
class OtherUnit:
    """The epsilon of a release that protects another unit than the total."""

    source: str
    unit: str
    epsilon: float


@dataclass(frozen=True)
class AtDelta:
    """An epsilon that holds at a failure probability."""

    delta: float
    epsilon: float


@dataclass(frozen=True)
class Before:
    """The statement of a release about earlier ones of its rows, which are not in a total."""

    source: str
    statement: str


@dataclass(frozen=True)
class TotalShown:
    """The combined guarantee of the releases of one label, as ``labeldp account --json`` prints it."""

    label: str
    unit: str
    rows: int | None
    sources: tuple[str, ...]
    others: tuple[OtherUnit, ...]
    epsilon: float
    delta: float
    fixed_beforehand: tuple[AtDelta, ...]
    before: tuple[Before, ...]

    @classmethod
    def of(cls, each: CombinedGuarantee) -> TotalShown:
        """The combined guarantee of the releases of one label."""
        pairs = (*each.at_deltas, *((delta, epsilon) for epsilon, delta in each.at_epsilons))
        return cls(
            *(each.label, each.unit, each.rows, tuple(each.sources)),
            tuple(OtherUnit(*other) for other in each.others),
            *(each.composition.epsilon, each.composition.delta),
            tuple(AtDelta(*pair) for pair in pairs),
            tuple(Before(*stated) for stated in each.before),
        )


def ledger_part(
    name: str, entries: Sequence[Entry], totals: Totals, others: Sequence[Path] = (), *, shared: bool = False
) -> Part:
    """All charges of a ledger, the total for each label, over time, and other ledgers beside the table.

    Args:
        name: The name of the ledger.
        entries: Its charges.
        totals: The spent part of each budget.
        others: Other ledgers beside the table.
        shared: Leave out the folders of this machine, as for a page to hand over.
    """
    count = sum(entry.state != "void" for entry in entries)
    spent = [
        (
            *(label, epsilon_above(epsilon), epsilon_above(budget.epsilon), delta_above(delta), f"{budget.delta:g}"),
            "concentrated" if budget.concentrated else "by sums",
            _names_of(outputs),
        )
        for label, epsilon, delta, budget, outputs in totals
    ]
    most = {label: max(epsilon for name, epsilon, *_ in totals if name == label) for label, *_ in totals}
    several = len(totals) > len(most)
    of_rows = f", in {len(totals)} sets of rows" if several else ""
    total = f", {'at most ' if several else ''}epsilon {epsilon_above(*most.values())}" if len(most) == 1 else ""
    heads = ("label", "epsilon", "of budget", "delta", "of budget", "counted", "rows of")
    blocks: list[Block] = [Grid.of("Spent, and the budget in force", heads, spent, (1, 2, 3, 4))]
    blocks += [Prose(_disjoint(entry.guarantee.unit for entry in entries), "aside")] if several else []
    if over_time := _over_time(entries):
        blocks.append(over_time)
    beside = [f"Beside it, counted where rows are the same: {', '.join(map(str, others))}."] if others else []
    return Part(
        title=f"Ledger “{printable(name)}”",
        result=f"{counted(count, 'charge')} counted, for {counted(len(most), 'label')}{of_rows}{total}",
        lead=("A ledger records what was spent on labels, and never a label. It knows its own charges alone.", *beside),
        facts=tuple((f"epsilon of {label}", epsilon_above(epsilon)) for label, epsilon in list(most.items())[:4]),
        sections=(
            Section("Every charge", tuple(_charges(entries, shared=shared))),
            Section("What was spent", tuple(blocks)),
        ),
    )


def _output(path: str | None, *, shared: bool) -> str:
    """The place of what a charge wrote; its name alone, without the folders of this machine, if that is shared."""
    return (PurePath(path).name if shared else path) if path else "in memory"


def _disjoint(units: Iterable[str]) -> str:
    """Why several totals of one label in one ledger do not add up; people are known by a column of their own alone."""
    named = set(units)
    one = named.pop() if len(named) == 1 else "row"
    return f"By the ledger no {one} is in two totals of one label: for one {one} they do not add up."


def _names_of(outputs: Sequence[str | None]) -> str:
    """The names of what was written, in a few words."""
    return listed([_output(each, shared=True) for each in outputs], most=4)


def _over_time(entries: Sequence[Entry]) -> Picture | None:
    """The running total of each label over time, as the ledger recorded it; None where it recorded none."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for entry in entries:
        if entry.state != "void" and entry.spent is not None and (when := _time(entry.time)) is not None:
            lines.setdefault(entry.label, []).append((when, entry.spent[0]))
    if not lines or len(lines) > _MOST_LINES:
        return None
    times = [time for points in lines.values() for time, _ in points]
    first, span = min(times), (max(times) - min(times)) or 1.0
    placed = [(name, [((time - first) / span, total) for time, total in points]) for name, points in lines.items()]
    counted = [entry.time for entry in entries if entry.state != "void" and _time(entry.time) is not None]
    ends = (counted[0][:10], counted[-1][:10] if counted[-1][:10] != counted[0][:10] else counted[-1][11:16] + " UTC")
    return Picture(
        Steps("Epsilon spent over time", placed, ends),
        "Epsilon spent on each label after each charge, as the ledger recorded it then.",
    )


def _time(text: str) -> float | None:
    """Seconds of a time in a ledger; None where it is none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _charges(entries: Sequence[Entry], *, shared: bool) -> Iterator[Block]:
    """The charges one by one, and what they assume."""
    rows = [
        (
            *(entry.time[:19], *charge_cells(entry)),
            _output(entry.output, shared=shared),
        )
        for entry in entries
    ]
    yield Grid.of(
        "Charges, oldest first (UTC)",
        ("time", "label", "mechanism", "epsilon", "delta", "unit", "rows", "state", "output"),
        rows,
        (3, 4, 6),
    )
    states = dict.fromkeys(entry.state for entry in entries)
    if states:
        yield Prose(". ".join(f"{state}: {_STATES[state]}" for state in states) + ".", "aside")
    yield from (Prose(text, "aside") for text in declared_lines(entries))


def account_part(combined: Sequence[CombinedGuarantee], names: Sequence[str] = ()) -> Part:
    """The combined cost of several releases, label by label: the total, a table, the formal statement, assumptions.

    Where ledgers are among them, the largest total of a label is what the headline states: a ledger also counts
    releases that are not in the folders.
    """
    labels = {each.label for each in combined}
    lead = [f"What {', '.join(names)} cost together. A ledger also counts releases that are not in this file."] * bool(
        names
    )
    lead += [] if combined else ["Nothing was charged."]
    sections = []
    accounts = [(each.label, each.sources[-1]) for each in combined if each.ledger]
    several = len(set(accounts)) < len(accounts)
    apart = [Prose(_disjoint(each.unit for each in combined if each.ledger))] if several else []
    for each in combined:
        sections.append(Section(_title(each), (Prose(account_total(each, apart=several)),), quiet=True))
        sections.append(Section("", tuple(_account(each))))
    if len(combined) > 1:
        sections.append(Section("", (*apart, Prose(_APART))))
    headline = (
        account_total(max(combined, key=lambda each: each.composition.epsilon))
        if len(labels) == 1
        else f"{len(labels)} labels, each with a total of its own"
    )
    return Part("All of it together", headline, lead=tuple(lead), sections=tuple(sections))


def _title(each: CombinedGuarantee) -> str:
    return f"Total for “{printable(each.label)}” per {printable(each.unit)}"


def _account(each: CombinedGuarantee) -> Iterator[Block]:
    """The total of one label by sums, and by tight composition."""
    folders = f" in {counted(each.folders, 'folder')}" if each.folders else ""
    title = f"{_requests(each)}{folders}, of at most {each.rows:,} rows each"
    pairs = [(repr(delta), epsilon) for delta, epsilon in shown_deltas(each)]
    pairs += [(delta_above(delta), epsilon) for epsilon, delta in each.at_epsilons]
    if pairs:
        yield Grid.of(title, ("delta", "epsilon", "holds"), list(pair_rows(each, pairs)), (0, 1))
    else:
        yield Prose(f"{title}.")
    yield from (Prose(line) for line in account_lines(each))


def account_chart(combined: Sequence[CombinedGuarantee]) -> Curves | None:
    """The epsilon of all releases together over delta: if they were fixed beforehand, and by sums; None of nothing."""
    lines: list[tuple[str, Sequence[tuple[float, float]]]] = []
    marked: list[tuple[float, float]] = []
    for each in combined:
        name = f"{each.label} per {each.unit}" if each.others else each.label
        if points := [point for point in each.curve if math.isfinite(point[1])]:
            lines.append((f"fixed beforehand: {name}", points))
        if points := by_sums(each):
            lines.append((f"by sums: {name}", points))
        shown = [*each.at_deltas, *((delta, epsilon) for epsilon, delta in each.at_epsilons)]
        marked += [(delta, epsilon) for delta, epsilon in shown if delta > 0 and math.isfinite(epsilon)]
    what, axes = "Combined privacy cost of all releases", ("delta", "epsilon")
    return Curves(what, axes, lines, points=marked, logarithmic="x") if lines else None


def by_sums(each: CombinedGuarantee) -> list[tuple[float, float]]:
    """The epsilon by sums over delta, which holds only from the sum of the deltas on."""
    whole, (first, _), (last, _) = each.composition, each.curve[0], each.curve[-1]
    start = max(whole.delta, first)
    return [(start, whole.epsilon), (max(start, last), whole.epsilon)] if start < 1 else []


def charge_cells(entry: Entry) -> tuple[str, ...]:
    """A charge in the columns between its time and its output."""
    promise, rows = entry.guarantee, sum(stop - start for start, stop in entry.rows.ranges)
    amounts = (epsilon_above(promise.epsilon), delta_above(promise.delta))
    return entry.label, entry.mechanism, *amounts, promise.unit, f"{rows:,}", entry.state


def declared_lines(entries: Sequence[Entry]) -> list[str]:
    """The assumptions of charges, and declarations that rows are other people's."""
    assumed = _assumed(entry.guarantee for entry in entries if entry.state != "void")
    declared = dict.fromkeys(entry.other_people for entry in entries if entry.other_people)
    return [*assumed, *(f"Declared: rows of other people than those charged before ({why})." for why in declared)]


def _assumed(guarantees: Iterable[Guarantee]) -> list[str]:
    """The assumptions of guarantees, each once."""
    return [
        f"Assumed, not checked: {what}." for what in dict.fromkeys(a for each in guarantees for a in each.assumptions)
    ]


def account_total(each: CombinedGuarantee, *, apart: bool = False) -> str:
    """The total by basic composition, in one line; which rows it is of where a ledger tells several sets apart."""
    whole = each.composition
    delta = f" and delta {delta_above(whole.delta)}" if whole.delta else ""
    others = [] if each.ledger or each.unit == "row" else dict.fromkeys(path for path, _, _ in each.others)
    left_out = ", ".join(others) or ("earlier releases of these rows" if each.before else "")
    without = f", without {left_out}" if left_out else ""
    rows = f", of the rows of {_names_of(each.outputs)}" if apart and each.ledger else ""
    return f"{each.label}: epsilon {epsilon_above(whole.epsilon)}{delta} per {each.unit} in total{without}{rows}."


def pair_rows(each: CombinedGuarantee, pairs: Iterable[tuple[str, float]]) -> Iterator[tuple[str, str, str]]:
    """The sum, and pairs of delta and epsilon beside it, as delta, epsilon, and when they hold."""
    yield delta_above(each.composition.delta), exactly_above(each.composition.epsilon), "always (sum of epsilons)"
    for delta, epsilon in pairs:
        yield delta, exactly_above(epsilon) if math.isfinite(epsilon) else "none", "if all were fixed beforehand"


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
    sums = f"exp({exactly_above(whole.epsilon)})" + (f", plus {delta_above(whole.delta)}" if whole.delta else "")
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
            f"exp({exactly_above(epsilon)}), plus {delta!r}."
        )
    if whole.delta < 1:
        whom = "one row" if each.unit == "row" else "a person"
        together = Guarantee(whole.epsilon, whole.delta, "central", each.unit)
        lines.append(together.posterior_sentence(whom, others=[charge.guarantee.trust for charge in whole.charges]))
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
        ledger = " If they are not, name the ledger that charged them." if len(whole.charges) > 1 else ""
        lines.append(f"All releases of {each.label!r} are counted as releases of the same rows.{ledger}")
    if each.unit != "row":
        same = "" if each.ledger else f", and {each.unit!r} is taken to mean the same units in all releases"
        lines.append(f"A unit may have several rows: each charge counts in full, as the worst of its epsilon{same}.")
    lines += [f"{path} states that {statement}." for path, statement in each.before]
    lines += _of_other_units(each)
    lines += [f"The rows of {path} are incomplete: they count with the fewest candidates." for path in each.unknown]
    if each.repeated:
        lines.append(f"Listed more than once, counted once: {', '.join(each.repeated)}.")
    return [*lines, *assumed]


def _of_other_units(each: CombinedGuarantee) -> Iterator[str]:
    """The charges of the label that protect another unit than the total."""
    if each.others and each.ledger:
        yield (
            "This is for single rows, since charges protect several units: one for a unit holds for each of its rows. "
            "What rows of one unit cost together, the next release for that unit says."
        )
    elif each.others and each.unit == "row":
        yield "This counts all releases, since a guarantee for all labels of a unit holds for each of its rows."
    for path, unit, epsilon in () if each.ledger or each.unit == "row" else each.others:
        cost = f"epsilon {exactly_above(epsilon)} times the most rows that one {each.unit} has in it"
        yield (
            f"{path} has epsilon {exactly_above(epsilon)} per {unit}, which is not in this total: for one {each.unit} "
            f"it adds {cost if unit == 'row' else 'an epsilon that is not known'}. A ledger that has the charges of "
            "all counts them in a release for that unit."
        )


def _requests(each: CombinedGuarantee) -> str:
    return counted(len(each.composition.charges), "charge" if each.ledger else "request")
