"""Accounting: what several releases of the same labels promise together, from certificates and ledgers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from functools import cached_property
from pathlib import Path

from labeldp import _checks
from labeldp.errors import InputError, VerificationError
from labeldp.privacy.accounting import Charge, Composition, RowRanges
from labeldp.privacy.channels import Channel, ClusterChannel, candidate_sizes, channel_of
from labeldp.release.folder import Certificate, Draw, certified, law_of_rows, read_alone
from labeldp.release.ledger import Ledger, by_data

_SQLITE = b"SQLite format 3\x00"
_DELTAS = (1e-9, 1e-6)
_CURVE = tuple(float(f"1e-{power}") for power in range(12, 1, -1))
_ANY_ROWS = RowRanges.all(1 << 62)


@dataclass(frozen=True)
class CombinedGuarantee:
    """What the releases of one label promise together.

    Attributes:
        label: The label column.
        unit: Whose labels are protected together.
        sources: The folders and certificates, or the ledger.
        composition: All that was charged; each release once.
        rows: The most rows of one release.
        ledger: Whether it comes from a ledger, which keeps no laws: then each charge counts as the worst mechanism
            that keeps its guarantee.
        one_table: Whether row numbers were declared to mean the same rows in all releases.
        unknown: Sources without all rows, whose numbers of candidates count as the worst.
        repeated: Sources of releases that other sources are of too, and that count once.
        folders: How many folders hold what counts; 0 where some of it is certificates alone, or a ledger.
        deltas: The deltas that are shown.
        epsilons: The epsilons that were asked for.
    """

    label: str
    unit: str
    sources: tuple[str, ...]
    composition: Composition
    rows: int
    ledger: bool = False
    one_table: bool = False
    unknown: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    folders: int = 0
    deltas: tuple[float, ...] = ()
    epsilons: tuple[float, ...] = ()

    @cached_property
    def at_deltas(self) -> tuple[tuple[float, float], ...]:
        """The epsilon at each delta that is shown, as (delta, epsilon)."""
        return tuple((delta, self.composition.epsilon_at(delta)) for delta in self.deltas)

    @cached_property
    def at_epsilons(self) -> tuple[tuple[float, float], ...]:
        """The delta at each epsilon that was asked for, as (epsilon, delta)."""
        return tuple((epsilon, self.composition.delta_at(epsilon)) for epsilon in self.epsilons)

    @cached_property
    def curve(self) -> tuple[tuple[float, float], ...]:
        """The epsilon over deltas from 1e-12 to 0.01, as (delta, epsilon)."""
        return tuple((delta, self.composition.epsilon_at(delta)) for delta in _CURVE)


@dataclass(frozen=True)
class _Source:
    """A release: its certificate, and the channel of one row of each kind where rows are at hand; none of an answer."""

    path: str
    certificate: Certificate
    channel: Channel | None
    guessed: bool


def combined_guarantee(
    paths: Sequence[str | Path],
    *,
    deltas: Sequence[float] = (),
    epsilons: Sequence[float] = (),
    one_table: bool = False,
) -> list[CombinedGuarantee]:
    """Compose the releases of each label, and the charges of each ledger.

    Args:
        paths: Folders of releases, which are verified first; certificates alone, whose parts are checked; ledgers.
            A release that is named twice, or in slices, counts once.
        deltas: Failure probabilities to find the epsilon for, besides 1e-9, 1e-6 and about one in the rows.
        epsilons: Epsilons to find the failure probability for.
        one_table: You declare that all releases are of one table, so that row numbers mean the same rows. Without it
            all releases of a label are taken to be of the same rows, which claims less privacy.

    Returns:
        One result for each label name of the certificates, then one for each label of each data set of each ledger.

    Guarantee:
        That of ``Composition``, if it was fixed beforehand which releases would be made. Where a prior was computed
        from an earlier release (``ReleasePrior``), the worst number of candidates counts, which holds whatever that
        release was. Labels of other names are taken for other labels. Releases of a ledger and those of certificates
        are not added up.

    Raises:
        VerificationError: A release and its certificate do not agree, or it was drawn with the words of a test.
        BudgetError: Releases of one label protect different units.
        InputError: A path is missing.

    Example:
        >>> import tempfile
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> from labeldp import combined_guarantee
        >>> space = Classes(range(10))
        >>> curator = Curator([1, 2, 3] * 9, space, budget=10, name="grade")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = [curator.randomize(RandomizedResponse(space, 0.5)).save(f"{folder}/{i}") for i in range(10)]
        ...     (found,) = combined_guarantee(made)
        >>> found.label, found.composition.epsilon, round(dict(found.at_deltas)[1e-6], 2)
        ('grade', 5.0, 3.9)
    """
    wanted = tuple(_checks.delta(delta) for delta in deltas)
    asked = tuple(_checks.epsilon(epsilon) for epsilon in epsilons)
    ledgers, sources = [], []
    for path in map(Path, paths):
        if not path.exists():
            raise InputError(f"expected the folder of a release, a certificate or a ledger, found nothing at {path}")
        if _is_database(path):
            ledgers.append(path)
        else:
            sources.append(_source(path))
    labels = dict.fromkeys(source.certificate.label for source in sources)
    groups = [_released([each for each in sources if each.certificate.label == label], one_table) for label in labels]
    groups += [group for path in ledgers for group in _charged(path)]
    return [
        dataclasses.replace(group, deltas=tuple(sorted({*_DELTAS, *_one_in(group.rows), *wanted})), epsilons=asked)
        for group in groups
    ]


def _one_in(rows: int) -> tuple[float, ...]:
    """A round number that is at most one in so many rows."""
    return (float(Context(prec=2, rounding=ROUND_FLOOR).divide(Decimal(1), Decimal(rows))),) if rows > 1 else ()


def _is_database(path: Path) -> bool:
    if path.is_dir():
        return False
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _source(path: Path) -> _Source:
    """A release and its law.

    A part has not all rows that were drawn, so they do not tell the fewest candidates; and where another release chose
    the candidates, other results of it would have chosen others.
    """
    try:
        certificate = certified(path) if path.is_dir() else read_alone(path)
    except VerificationError as problem:
        raise VerificationError(f"{problem} ({path})") from None
    if certificate.of_answer:
        return _Source(str(path), certificate, None, False)
    law = certificate.law
    whole = path.is_dir() and certificate.parent is None
    known = whole and not certificate.rests_on_another
    channel = law_of_rows(path, certificate) if known else channel_of(law)
    guessed = candidate_sizes(channel) is not None and not whole
    return _Source(str(path), certificate, channel, guessed)


def _released(sources: Sequence[_Source], one_table: bool) -> CombinedGuarantee:
    """The composition of releases, each once: of two with one name and one law, the one whose rows are known."""
    once: dict[str, _Source] = {}
    for source in sorted(sources, key=lambda source: source.guessed):
        once.setdefault(repr((source.certificate.release, source.certificate.draws)), source)
    kept = list(once.values())
    draws = [(draw, source) for source in kept for draw in _met(source.certificate, one_table)]
    pairs = [
        (Charge(draw.guarantee, draw.rows if one_table else _ANY_ROWS), _fixed(source, draw)) for draw, source in draws
    ]
    return CombinedGuarantee(
        label=sources[0].certificate.label,
        unit=draws[0][0].guarantee.unit,
        sources=tuple(source.path for source in sources),
        composition=Composition.of(pairs),
        rows=max(source.certificate.rows for source in sources),
        one_table=one_table,
        unknown=tuple(source.path for source in kept if source.guessed),
        repeated=tuple(source.path for source in sources if all(source is not each for each in kept)),
        folders=len(kept) if all(Path(source.path).is_dir() for source in kept) else 0,
    )


def _met(certificate: Certificate, one_table: bool) -> tuple[Draw, ...]:
    """The charges of a release that may meet in a row: of stages, which have one law and other rows, a single one."""
    return certificate.draws if one_table else (*certificate.answers, *certificate.labels[-1:])


def _fixed(source: _Source, draw: Draw) -> Channel | None:
    """The channel of a charge whose law was fixed beforehand: not that of an answer, nor one made from an answer."""
    alone = len(source.certificate.draws) == 1 and draw is source.certificate.draws[0]
    return source.channel if alone and not isinstance(source.channel, ClusterChannel) else None


def _charged(path: Path) -> list[CombinedGuarantee]:
    """The compositions of a ledger's charges, as its account meets them."""
    return [
        CombinedGuarantee(
            label=entries[-1].label,
            unit=entries[-1].guarantee.unit,
            sources=(str(path),),
            composition=Composition.of((entry.charge(entries[-1].session), None) for entry in entries),
            rows=max(sum(stop - start for start, stop in entry.rows.ranges) for entry in entries),
            ledger=True,
        )
        for entries in by_data(Ledger(path).entries())
    ]
