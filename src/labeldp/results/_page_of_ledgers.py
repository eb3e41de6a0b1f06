"""Pages of what was spent: the charges of a ledger over time, and the combined cost of several releases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING

from labeldp._checks import printable
from labeldp.results import _charts as charts
from labeldp.results._blocks import Block, Grid, Part, Picture, Prose, Section
from labeldp.results._parts import epsilon_above
from labeldp.results._text import (
    account_lines,
    account_total,
    charge_cells,
    declared_lines,
    delta_above,
    pair_rows,
    shown_deltas,
)

if TYPE_CHECKING:
    from labeldp.privacy.accounting import Budget
    from labeldp.release import CombinedGuarantee
    from labeldp.release.ledger import Entry

#: Lines of a figure over time: more cannot be told apart.
_MOST_LINES = 6
_STATES = {
    "charged": "in progress, or interrupted; counted",
    "drawn": "interrupted after a draw; counted",
    "released": "written; counted",
    "void": "never written; not counted",
}


def ledger_part(name: str, entries: Sequence[Entry], totals: Sequence[tuple[str, float, float, Budget]]) -> Part:
    """All charges of a ledger: the total for each label, over time, and one by one."""
    counted = sum(entry.state != "void" for entry in entries)
    spent = [
        (label, f"{epsilon_above(epsilon)} of {epsilon_above(budget.epsilon)}", delta_above(delta))
        for label, epsilon, delta, budget in totals
    ]
    blocks: list[Block] = [Grid.of("Spent, and the budget in force", ("label", "epsilon", "delta"), spent, (1, 2))]
    total = f", epsilon {epsilon_above(totals[0][1])}" if len(totals) == 1 else ""
    over_time = _over_time(entries)
    if over_time:
        blocks.insert(0, over_time)
    return Part(
        title=f"Ledger “{printable(name)}”",
        result=f"{counted:,} charge{'' if counted == 1 else 's'} counted, for {len(totals):,} label"
        f"{'' if len(totals) == 1 else 's'}{total}",
        lead=("A ledger records what was spent on labels, and never a label. It knows its own charges alone.",),
        facts=tuple((f"epsilon of {label}", epsilon_above(epsilon)) for label, epsilon, _, _ in totals[:4]),
        sections=(
            Section("What was spent", tuple(blocks)),
            Section("Every charge", tuple(_charges(entries))),
        ),
    )


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
        charts.Steps("Epsilon spent over time", placed, ends),
        "Epsilon spent on each label after each charge, as the ledger recorded it then.",
    )


def _time(text: str) -> float | None:
    """Seconds of a time in a ledger; None where it is none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _charges(entries: Sequence[Entry]) -> Iterator[Block]:
    """The charges one by one, and what they assume."""
    rows = [
        (
            entry.time[:16].replace("T", " "),
            *charge_cells(entry),
            PurePath(entry.output).name if entry.output else "in memory",
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


def account_part(combined: Sequence[CombinedGuarantee], names: Sequence[str]) -> Part:
    """The combined cost of several releases, label by label."""
    labels = {each.label for each in combined}
    return Part(
        title="All of it together",
        result=" ".join(map(account_total, combined))
        if len(labels) == 1
        else f"{len(labels)} labels, each with a total of its own",
        lead=(f"What {', '.join(names)} cost together. A ledger also counts releases that are not in this file.",),
        sections=tuple(
            Section(f"Total for “{printable(each.label)}” per {printable(each.unit)}", tuple(_account(each)))
            for each in combined
        ),
    )


def _account(each: CombinedGuarantee) -> Iterator[Block]:
    """The total of one label by sums, and by tight composition."""
    rows = list(pair_rows(each, [(repr(delta), epsilon) for delta, epsilon in shown_deltas(each)]))
    yield Prose(account_total(each))
    yield Grid.of("Pairs of delta and epsilon that hold", ("delta", "epsilon", "holds"), rows, (0, 1))
    yield from (Prose(line) for line in account_lines(each))
