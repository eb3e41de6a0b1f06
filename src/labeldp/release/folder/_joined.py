"""The certificate of rows of several releases: stages of one curator, or releases of strangers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from itertools import chain, combinations

from labeldp.errors import InputError
from labeldp.mechanisms.randomizers import mean_expectation
from labeldp.privacy.accounting import RowRanges
from labeldp.release.folder._certificate import AND, IN_STAGES, Certificate, Draw, digest
from labeldp.release.folder._one_row import declarations

#: More rows than any release has, but few enough that those of many releases can be placed one after another.
_ANY_ROWS = RowRanges.all(1 << 48)
_SEVERAL = "the rows are of several releases, of which each can be verified alone"
#: The refusal of a release that is no stage.
NO_STAGE = "expected whole releases of single draws, found public labels, a slice or a concatenated release"
_OTHERS = "the rows of each of these releases are other people's"


def of_strangers(parts: Sequence[Certificate], other_people: str = "") -> Certificate:
    """The certificate of rows of several releases, with the charges of all of them; of parts of one, that one's own.

    Row numbers of different releases do not mean the same rows, so anybody may be in all of them: each charge counts
    for all rows, and epsilons add up. If the rows are declared to be other people's, each release has rows of its own,
    and the largest epsilon counts; not with units of several rows, whose charges always add up. Parts of one release
    count once.

    Args:
        parts: The certificates, one for each part.
        other_people: The reason why nobody has rows in two of the releases; empty without such a declaration.

    Raises:
        InputError: The parts are about several labels, label spaces or units, or have several trust models; or a whole
            release is among them twice, or two under one name.
    """
    first, releases = parts[0], {part.release: part for part in parts}
    about = (first.label, first.space, first.guarantee.unit)
    if any((part.label, part.space, part.guarantee.unit) != about for part in parts):
        raise InputError(
            "expected releases of one label, with the same classes in one order or the same range, and one privacy "
            "unit, found several; learn from each alone"
        )
    _check_features(parts)
    if len({draw.guarantee.trust for part in parts for draw in part.draws} - {"local"}) > 1:
        raise InputError(
            "expected releases of one trust model, or of labels randomized alone beside it, found several, such as a "
            "curator and a shuffler: nothing that is promised of all of them holds against the same people; learn from "
            "each alone"
        )
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
    whole = _whole(parts, AND.join(releases), draws, [*assumed, *declared], parts)
    repeats = _repeats(releases.values(), max if other_people else sum)
    return dataclasses.replace(whole, assumptions=(*whole.assumptions, *declarations(repeats, whole.guarantee)))


def of_stages(stages: Sequence[Certificate], answers: Sequence[Certificate] = ()) -> Certificate:
    """The certificate of stages of one curator's rows, which are disjoint, with the charges of answers about them.

    Args:
        stages: The certificates of whole releases, each of one draw, of rows of its own.
        answers: Those of answers from which channels of stages were computed, unless a stage has their charge.

    Raises:
        InputError: A stage is no single draw; stages and answers differ in label, space, mechanism or assumptions; one
            is there twice; or an answer is one of labels that were mixed.
    """
    if any(each.parent is not None or len(each.labels) != 1 for each in stages):
        raise InputError(NO_STAGE)
    _check_features(stages)
    parts = [*answers, *stages]
    charged = [*(draw for each in answers for draw in each.draws), *(draw for each in stages for draw in each.answers)]
    _check_stages(parts, stages, charged)
    draws = [*charged, *(stage.draws[-1] for stage in stages)]
    assumed = [*chain.from_iterable(part.assumptions for part in parts), *[IN_STAGES] * (len(stages) > 1)]
    name = parts[0].release if len(parts) == 1 else digest(" ".join(part.release for part in parts).encode())
    return _whole(stages, name[: len(parts[0].release)], draws, assumed, parts)


def _check_stages(parts: Sequence[Certificate], stages: Sequence[Certificate], charged: Sequence[Draw]) -> None:
    """Check that stages and answers have one label, that stages have one law, and that none is passed twice."""
    if len({each.release for each in parts}) != len(parts):
        raise InputError("expected each release and each answer once, found one twice; pass it once")
    last = stages[-1]
    about = [(each.label, each.space, each.draws[-1].guarantee.unit) for each in parts]
    if any(each != (last.label, last.space, "row") for each in about):
        raise InputError(
            "expected releases and answers about one label of single rows, found several labels, or units of several "
            "rows"
        )
    if any(stage.law != last.law for stage in stages):
        raise InputError(
            "expected one mechanism and one epsilon in all parts, found several; draw a first stage without a prior by "
            "PriorResponse with a uniform one"
        )
    if len({(each.guarantee.trust, each.guarantee.assumptions) for each in charged}) > 1:
        raise InputError("expected answers with one trust model and the same assumptions, found several")
    if any(each.guarantee.trust in ("peer", "shuffle") for each in charged):
        raise InputError(
            "expected a curator's answers beside labels, found one of labels that were mixed: what it promises against "
            "whoever mixes does not cover the other labels; learn from it alone"
        )


def _check_features(parts: Sequence[Certificate]) -> None:
    if any(part.features is not None for part in parts):
        raise InputError("expected releases with public features, found one with resampled features")


def _whole(
    rows: Sequence[Certificate],
    name: str,
    draws: Sequence[Draw],
    assumptions: Sequence[str],
    parts: Sequence[Certificate],
) -> Certificate:
    """The certificate of all rows of ``rows`` under a name, with these charges; private if all ``parts`` are."""
    return dataclasses.replace(
        rows[0],
        release=name,
        rows=sum(each.rows for each in rows),
        draws=tuple(draws),
        expects=mean_expectation([(each.rows, each.expects) for each in rows]),
        columns=(),
        files=(),
        assumptions=tuple(dict.fromkeys(assumptions)),
        private=all(part.private for part in parts),
        parent=None,
    )


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
