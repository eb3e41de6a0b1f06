"""The certificate of rows of several releases: every charge, added up."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from itertools import combinations

from labeldp.errors import InputError
from labeldp.mechanisms.randomizers import mean_expectation
from labeldp.privacy.accounting import RowRanges
from labeldp.release.folder._certificate import AND, Certificate, Draw
from labeldp.release.folder._one_row import declarations

#: More rows than any release has, but few enough that those of many releases can be placed one after another.
_ANY_ROWS = RowRanges.all(1 << 48)
_SEVERAL = "the rows are of several releases, of which each can be verified alone"
_OTHERS = "the rows of each of these releases are other people's"


def concatenated(parts: Sequence[Certificate], other_people: str = "") -> Certificate:
    """The certificate of rows of several releases, with the charges of all of them; of parts of one, that one's own.

    Row numbers of different releases do not mean the same rows, so anybody may be in all of them: each charge counts
    for all rows, and epsilons add up. If the rows are declared to be other people's, each release has rows of its own,
    and the largest epsilon counts; not with units of several rows, whose charges always add up. Parts of one release
    count once.

    Args:
        parts: The certificates, one for each part.
        other_people: The reason why nobody has rows in two of the releases; empty without such a declaration.

    Raises:
        InputError: The parts are about several labels, label spaces or units; or a whole release is among them twice,
            or two under one name.
    """
    first, releases = parts[0], {part.release: part for part in parts}
    about = (first.label, first.space, first.guarantee.unit)
    if any((part.label, part.space, part.guarantee.unit) != about for part in parts):
        raise InputError(
            "expected releases of one label, with the same classes in one order or the same range, and one privacy "
            "unit, found several; learn from each alone"
        )
    if any(part.features is not None for part in parts):
        raise InputError("expected releases with public features, found one with resampled features")
    if any(part.may_share_rows(other) and not (part.parent and other.parent) for part, other in combinations(parts, 2)):
        raise InputError("expected each release once, found one twice; pass it once")
    if any(_contradict(part, other) for part, other in combinations(parts, 2)):
        raise InputError(
            "expected one set of released labels for each release, found two under one name, which are two draws; one "
            "of them was renamed: learn from each alone"
        )
    rows = sum(part.rows for part in parts)
    if len(releases) == 1:
        return dataclasses.replace(first, rows=rows)
    start, draws = 0, list[Draw]()
    for part in releases.values():
        stop = start + max(draw.rows.stop for draw in part.draws)
        draws += [
            dataclasses.replace(draw, rows=_moved(draw.rows, start) if other_people else _ANY_ROWS)
            for draw in part.draws
        ]
        start = stop
    draws.sort(key=lambda draw: draw.guarantee.trust == "local")  # the first says who saw true labels
    assumed = [each for part in parts for each in part.assumptions if each not in part.of_several_rows]
    declared = [_SEVERAL, *([f"{_OTHERS}: {other_people}"] if other_people else [])]
    whole = dataclasses.replace(
        first,
        release=AND.join(releases),
        rows=rows,
        draws=tuple(draws),
        expects=mean_expectation([(part.rows, part.expects) for part in parts]),
        columns=(),
        files=(),
        assumptions=tuple(dict.fromkeys([*assumed, *declared])),
        private=all(part.private for part in parts),
        parent=None,
    )
    repeats = _repeats(releases.values(), max if other_people else sum)
    return dataclasses.replace(whole, assumptions=(*whole.assumptions, *declarations(repeats, whole.guarantee)))


def _contradict(one: Certificate, other: Certificate) -> bool:
    """True for two draws under one name: other charges, or slices of other labels."""
    return one.release == other.release and (one.draws, one.parent) != (other.draws, other.parent)


def _repeats(parts: Collection[Certificate], together: Callable[[list[int]], int]) -> dict[str, int]:
    """The most rows of one person by each column that repeats, from those in each release."""
    names = dict.fromkeys(name for part in parts for name in part.repeats)
    return {name: together([part.repeats.get(name, 0) for part in parts]) for name in names}


def _moved(rows: RowRanges, by: int) -> RowRanges:
    """Rows at places further on."""
    return RowRanges(tuple((start + by, stop + by) for start, stop in rows.ranges))
