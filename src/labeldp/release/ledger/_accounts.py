"""Totals of the charges in a ledger, refusals that follow from them, and their texts; functions of its entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from labeldp.errors import BudgetError, InputError
from labeldp.privacy import Guarantee, shown_above
from labeldp.privacy.accounting import Account, Budget, Charge, RowRanges, compose
from labeldp.release.ledger._entry import Earlier, Entry
from labeldp.release.ledger._same_data import ANY_ROWS, NO_PAIRS, Match
from labeldp.release.tables import Place, place_of

#: The earlier charges that a refusal lists, the latest.
_MOST_LISTED = 3


def matched(found: Mapping[Entry, Match | None]) -> list[Earlier]:
    """Charges of what may be rows of a table by their own marks and hashes, whatever else was taken to be the same."""
    return [
        Earlier(each, match.rows, match.certain, match.labels_of_a_unit, match.units, match.pairs, match.same_people)
        for each, match in found.items()
        if match is not None
    ]


def with_the_same_data(found: Mapping[Entry, Match | None]) -> list[Earlier]:
    """Charges of rows of a table and of data that was taken to be the same; copies of a charge count once."""
    known = list({each.identifier: each for each in _in_order(found)}.values())
    matches: dict[str, Match] = {each.identifier: match for each, match in found.items() if match is not None}
    links = [(each.identifier, other) for each in known for other in _same(each, known)]
    changed = True
    while changed:
        changed = False
        for pair in (*links, *((b, a) for a, b in links)):
            one, other = matches.get(pair[0]), matches.get(pair[1])
            if (
                one is not None
                and (other is None or other.rows != ANY_ROWS)
                and (other is None or not set(one.rows.ranges) <= set(other.rows.ranges))
            ):
                rows = one.rows if other is None or one.rows == ANY_ROWS else ANY_ROWS
                pairs = NO_PAIRS if other is None else other.pairs
                matches[pair[1]] = Match(rows, certain=False, labels_of_a_unit=None, pairs=pairs)
                changed = True
    return matched({each: matches.get(each.identifier) for each in known})


def _in_order(found: Iterable[Entry]) -> list[Entry]:
    """Charges by their times, but those of a ledger in its order: a clock may go back."""
    latest, times = dict[Path | None, str](), list[tuple[str, Entry]]()
    for each in found:
        latest[each.ledger] = max(each.time, latest.get(each.ledger, ""))
        times.append((latest[each.ledger], each))
    return [each for _, each in sorted(times, key=lambda pair: pair[0])]


def check_features(entries: Sequence[Entry], entry: Entry, earlier: Sequence[Earlier]) -> None:
    """Refuse a second release of features: comparing the two would disclose which rows kept their own.

    With conditional features a row's features are private; two releases have the true ones in common, so that neither
    guarantee holds any more. Features belong to the data, whatever label was released with them. A release that a
    generator was fitted on counts as one of features, whatever it kept.
    """
    clashes = {"redrawn": ("redrawn", "kept"), "kept": ("redrawn",), "": ()}[entry.features]
    fitted_on = {each.source for each in (*entries, entry) if each.state != "void"} - {""}
    clashing = [
        (each.entry, each.entry.features or "kept")
        for each in earlier
        if each.rows.meet(entry.rows)
        and (each.entry.features in clashes or (entry.features == "redrawn" and each.entry.identifier in fitted_on))
    ]
    if entry.source:  # the features of the release that the generator was fitted on must not have been resampled
        near = {entry.source, *(name for e in entries if e.identifier == entry.source for name in _near(e))}
        near |= {each.identifier for each in entries if entry.source in _near(each)}
        clashing += [(e, e.features) for e in entries if e.identifier in near and e.features == "redrawn"]
    for known, how in clashing[:1]:
        raise InputError(
            f"expected rows whose features were not released before, found them {how} in release "
            f"{known.identifier[:8]}, or a generator that was fitted on them: comparing the two would disclose "
            "which features are original. Release other rows, or labels without features (--keep none, and neither "
            "clusters nor priors; DummyResponse)"
        )


def features_left(earlier: Sequence[Earlier], rows: RowRanges, how: str) -> bool:
    """True if earlier charges, of any label, released features of some rows in one way."""
    return any(each.entry.features == how and each.rows.meet(rows) for each in earlier)


def refuse_another_kind(budget: Budget, known: Sequence[Earlier]) -> None:
    """Refuse a budget that may not follow those of the charges so far."""
    for earlier in (each.entry.budget for each in known):
        if earlier and not budget.may_follow(earlier):
            raise BudgetError(
                f"expected a budget that differs from that of earlier charges in epsilon alone ({earlier}), found "
                f"{budget}; pass the earlier kind of budget with its delta, or use the existing release"
            )


def latest_budget(earlier: Sequence[Earlier]) -> Budget | None:
    """The budget in force at the last charge."""
    return next((each.entry.budget for each in reversed(earlier) if each.entry.budget), None)


def account_before(earlier: Sequence[Earlier], unit: str, default: Budget, budget: Budget | None = None) -> Account:
    """The account of earlier charges for a unit, under the budget that is passed, in force, or the default."""
    in_force = budget or latest_budget(earlier) or default
    refuse_another_kind(in_force, earlier)
    return Account(in_force, tuple(each.charge(unit) for each in earlier))


def may_return(earlier: Sequence[Earlier], epsilon: float, unit: str, count: int) -> bool:
    """True if the budget in force allows one more pure release of all rows of a table."""
    charge = Charge(Guarantee(epsilon, unit=unit), RowRanges.all(count))
    try:
        return account_before(earlier, unit, Budget(epsilon)).allows(charge)
    except BudgetError:  # units of several kinds have no sum
        return False


def spent_on(entries: Sequence[Entry], label: str, session: str) -> tuple[float, float]:
    """The (epsilon, delta) charged for a label of any data, for a session and composed as the budget in force does."""
    known = [entry for entry in entries if entry.state != "void" and entry.is_of(label)]
    return account_of(known, session).spent if known else (0.0, 0.0)


def account_of(entries: Sequence[Entry], session: str = "") -> Account:
    """The account of charges for one label of one data set, under the budget in force and for a session."""
    budgets = [entry.budget for entry in entries if entry.budget]
    budget = budgets[-1] if budgets else Budget(entries[0].asked, entries[0].guarantee.delta)
    return Account(budget, tuple(entry.charge(session) for entry in entries))


def by_data(entries: Sequence[Entry]) -> list[list[Entry]]:
    """The charges that are not void, one list for each label of each data set, in the order of their last charges."""
    rest = [entry for entry in entries if entry.state != "void"]
    groups: list[list[Entry]] = []
    for entry in rest:
        near = {*_same(entry, rest), *entry.shares}
        joined = [g for g in groups if g[-1].is_of(entry.label) and any(e.identifier in near for e in g)]
        groups = [group for group in groups if all(group is not each for each in joined)]
        groups.append([*(each for group in joined for each in group), entry])
    return groups


def new_output(entries: Iterable[Entry]) -> str:
    """A name for the folder of the next release that no charge was written into: ``shared``, or one with a number."""
    taken = {PurePath(each.output).name for each in entries if each.output}
    return next(name for name in ("shared", *(f"shared-{at}" for at in range(2, len(taken) + 3))) if name not in taken)


def spent_by_data(entries: Sequence[Entry]) -> list[tuple[str, float, float, Budget, tuple[str | None, ...]]]:
    """Name, spent epsilon and delta, budget and outputs of each label of each data set.

    Nothing less is spent than a charge recorded.
    """
    found = []
    for mine in map(of_one_unit, by_data(entries)):
        account = account_of(mine, mine[-1].session)
        outputs = tuple(dict.fromkeys(each.output for each in mine))
        found.append((mine[-1].label, *_most(account.spent, mine), account.budget, outputs))
    return found


def _most(total: tuple[float, float], entries: Sequence[Entry]) -> tuple[float, float]:
    """The largest epsilon and the largest delta of a total and of what charges recorded as spent."""
    pairs = [total, *(each.spent for each in entries if each.spent is not None)]
    return max(epsilon for epsilon, _ in pairs), max(delta for _, delta in pairs)


def of_one_unit(entries: Sequence[Entry]) -> list[Entry]:
    """Charges as they are, or as they count for single rows if they protect several units.

    What charges for rows cost a unit is known for the units of a later release alone. A guarantee for all labels of a
    unit holds for each of its rows.
    """
    if len({each.named_guarantee.spelled_unit for each in entries}) == 1:
        return list(entries)
    return [replace(each, guarantee=replace(each.guarantee, unit="row"), units="") for each in entries]


def recorded_total(entries: Sequence[Entry]) -> list[Charge]:
    """The most that one of these charges, of one unit, recorded as spent, as one charge; empty if they add up to that.

    The last charge of somebody's rows counted all that came before, also in other ledgers, and for their unit.
    """
    charges = [each.charge(entries[-1].session) for each in entries]
    sums = compose(charges)
    most = _most(sums, entries)
    concentrated = any(each.budget and each.budget.concentrated for each in entries)
    if most == sums or (concentrated and most[0] == sums[0]):  # recorded with a delta, and sums are without
        return []
    assumed = tuple(dict.fromkeys(text for each in entries for text in each.guarantee.assumptions))
    whole = replace(entries[-1].named_guarantee, epsilon=most[0], delta=most[1], rho=None, assumptions=assumed)
    return [Charge(whole, ANY_ROWS)]


def refusal(account: Account, charge: Charge, earlier: Sequence[Earlier], entry: Entry, ledger: Path | None) -> str:
    """The refusal of a charge for a table that exceeds the budget after earlier charges."""
    unit, count = entry.guarantee.unit, entry.rows.stop
    rows = returning_rows(earlier, count)
    which = "what may be these rows was"
    if rows is not None:
        others = "" if unit == "row" else f", or others of their {unit},"
        which = f"{'' if rows == count else f'{rows:,} of '}these {count:,} rows{others} were"
    output = earlier[-1].entry.output
    new, reuse = new_rows(earlier, count, unit), f"Reuse {_near_here(output)}" if output else "Use the earlier release"
    return (
        f"budget exceeded: {which} already released {listed(earlier, entry, ledger)}. {account.makes(charge)}. "
        f"{reuse}, or pass {account.larger(charge)}.{f' {new}.' if new else ''} If these are other people's rows: "
        "--other-people REASON (other_people=)"
    )


def listed(earlier: Sequence[Earlier], entry: Entry, ledger: Path | None) -> str:
    """The latest of the earlier charges of these rows, and their ledger if all are in one."""
    ledgers = {each.entry.ledger or ledger for each in earlier}
    lines = [_told(each, entry, named=len(ledgers) > 1) for each in earlier[-_MOST_LISTED:]]
    lines += [f"{len(earlier) - len(lines):,} more"] if len(earlier) > len(lines) else []
    place = next(iter(ledgers), ledger)
    return f"{'; '.join(lines)}{f' (ledger {_near_here(place)})' if len(ledgers) < 2 and place else ''}"


def returning(earlier: Earlier, count: int, unit: str) -> str:
    """The rows, of so many of a table, that an earlier charge may concern, and how many of its privacy units."""
    rows = sum(stop - start for start, stop in earlier.rows.ranges)
    if not earlier.certain:
        return "what may be these rows"
    units = "" if earlier.units is None else f"{earlier.units:,} returning {unit} with "
    copied = f" (copies of its {earlier.entry.rows.stop:,})" if rows > earlier.entry.rows.stop else ""
    return f"{units}{rows:,} of these {count:,} rows{copied}"


def returning_rows(earlier: Sequence[Earlier], count: int) -> int | None:
    """The number of rows of a table that earlier charges concern, out of ``count``; None if in doubt."""
    if not all(each.certain for each in earlier):
        return None
    return count - sum(stop - start for start, stop in _new_ranges(earlier, count))


def outputs(earlier: Sequence[Earlier]) -> str:
    """The names of the folders of earlier releases, the latest last."""
    names = [PurePath(each.entry.output).name if each.entry.output else "memory" for each in earlier]
    more = len(names) - _MOST_LISTED
    return ", ".join([*([f"{more:,} more"] if more > 0 else []), *names[-_MOST_LISTED:]])


def new_rows(earlier: Sequence[Earlier], count: int, unit: str) -> str:
    """The rows of a table that no earlier charge concerns; empty if there are none, or that is in doubt."""
    new = _new_ranges(earlier, count) if all(each.certain for each in earlier) else []
    if not new:
        return ""
    rows = sum(stop - start for start, stop in new)
    of_rows = unit == "row" or any(each.units is None for each in earlier)
    one, several = ("row is new", "rows are new") if of_rows else (f"row has a new {unit}", f"rows have a new {unit}")
    return f"{rows:,} {several if rows > 1 else one}: release {'them' if rows > 1 else 'it'} alone with --only-new"


def _same(entry: Entry, known: Sequence[Entry]) -> list[str]:
    """The earlier charges whose data was taken to be the same as that of a charge."""
    if entry.same is not None:
        return list(entry.same)
    before = known[: [each.identifier for each in known].index(entry.identifier)]
    return [
        each.identifier
        for each in before
        if entry.of_any_data or each.of_any_data or not set(entry.marks).isdisjoint(each.marks)
    ]


def _near(entry: Entry) -> tuple[str, ...]:
    """The earlier charges of some of the same rows."""
    return (*(entry.same or ()), *entry.shares)


def _near_here(place: str | Path) -> Place:
    """A path as it is typed in the current folder, or an address."""
    path = place_of(place)
    return path.relative_to(Path.cwd()) if isinstance(path, Path) and path.is_relative_to(Path.cwd()) else path


def _told(earlier: Earlier, entry: Entry, *, named: bool) -> str:
    """One earlier charge: its epsilon, table, output, date, rows and how often it counts, and its ledger if named."""
    known, most, unit = earlier.entry, earlier.labels_of_a_unit or 1, entry.guarantee.unit
    counted = earlier.charge(entry.named_guarantee.unit).guarantee.epsilon
    why = f"up to {most:,} of its rows are of one {unit}"
    if not earlier.certain and most == known.rows.stop:
        why = f"it is unknown whose its rows are, so all {most:,} may be of one {unit}"
    more = "" if counted == known.guarantee.epsilon else f", which counts as {shown_above(counted, 7)} here: {why}"
    ledger = f" (ledger {_near_here(known.ledger)})" if named and known.ledger else ""
    table = f" from {_near_here(known.table)}" if known.table else ""
    output = f" into {_near_here(known.output)}" if known.output else ""
    certain = earlier.certain and known.table and not earlier.rows.holds(entry.rows.stop)
    which = f", {returning(earlier, entry.rows.stop, entry.guarantee.unit)}" if certain else ""
    epsilon = shown_above(known.guarantee.epsilon, 3)
    return f"at epsilon {epsilon}{table}{output} on {known.time[:10]}{which}{more}{ledger}"


def _new_ranges(earlier: Sequence[Earlier], count: int) -> list[tuple[int, int]]:
    """The ranges of rows that no earlier charge concerns."""
    taken = sorted(pair for each in earlier for pair in each.rows.ranges)
    new, start = [], 0
    for low, high in (*taken, (count, count)):
        if start < min(low, count):
            new.append((start, min(low, count)))
        start = max(start, high)
    return new
