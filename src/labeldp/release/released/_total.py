"""Accounting: the combined guarantee of several releases of the same labels, from certificates and ledgers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType

from labeldp import _checks
from labeldp._spelling import canonical
from labeldp.errors import InputError, VerificationError
from labeldp.privacy import Guarantee
from labeldp.privacy.accounting import Charge, Composition, RowRanges
from labeldp.privacy.channels import Channel, ClusterChannel, candidate_sizes
from labeldp.release.folder import Certificate, Draw, certified, law_of_rows, or_beside, read_alone
from labeldp.release.ledger import Entry, Ledger, by_data, of_one_unit, recorded_total
from labeldp.release.released._batches import labels_hash
from labeldp.release.tables import disk_path

_SQLITE = b"SQLite format 3\x00"
_DELTAS = (1e-9, 1e-6)
_CURVE = tuple(float(f"1e-{power}") for power in range(12, 1, -1))
_ANY_ROWS = RowRanges.all(1 << 62)
#: The unit of single rows.
ROW = "row"


@dataclass(frozen=True)
class CombinedGuarantee:
    """The combined guarantee of the releases of one label.

    Attributes:
        label: The label column.
        unit: The privacy unit.
        sources: The folders and certificates, or the ledger.
        composition: All charges; each release once.
        rows: Largest number of rows of one release.
        ledger: True if it comes from a ledger, which stores no mechanism: each charge then counts as the worst
            mechanism with its guarantee.
        one_table: True if row numbers were declared to mean the same rows in all releases.
        unknown: Sources with incomplete rows, which count with the fewest candidates.
        repeated: Sources of releases that another source has too; they count once.
        folders: Number of folders counted; 0 if some sources are single certificates, or a ledger.
        others: The source, unit and epsilon of charges of the label that protect another unit: they count for single
            rows alone.
        deltas: The deltas at which to compute epsilon.
        wanted: Those of them that were asked for.
        epsilons: The requested epsilons.
        outputs: Of a ledger: where the charges were written; None for one in memory.
        before: Sources that state earlier releases of their rows, which with them cost more than this total, each with
            its statement.
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
    others: tuple[tuple[str, str, float], ...] = ()
    deltas: tuple[float, ...] = ()
    wanted: tuple[float, ...] = ()
    epsilons: tuple[float, ...] = ()
    outputs: tuple[str | None, ...] = ()
    before: tuple[tuple[str, str], ...] = ()

    @cached_property
    def at_deltas(self) -> tuple[tuple[float, float], ...]:
        """The epsilon at each delta, as (delta, epsilon)."""
        return tuple((delta, self.composition.epsilon_at(delta)) for delta in self.deltas)

    @cached_property
    def at_epsilons(self) -> tuple[tuple[float, float], ...]:
        """The delta at each requested epsilon, as (epsilon, delta)."""
        return tuple((epsilon, self.composition.delta_at(epsilon)) for epsilon in self.epsilons)

    @cached_property
    def curve(self) -> tuple[tuple[float, float], ...]:
        """The epsilon over deltas from 1e-12 to 0.01, as (delta, epsilon)."""
        return tuple((delta, self.composition.epsilon_at(delta)) for delta in _CURVE)


@dataclass(frozen=True)
class _Source:
    """A release: its certificate and, unless it is an answer, its channel with a row for each number of candidates."""

    path: str
    certificate: Certificate
    channel: Channel | None
    guessed: bool

    @property
    def order(self) -> tuple[bool, bool, bool]:
        """Sort key that puts sources of known candidates first, then those of all rows, then folders."""
        return self.guessed, self.certificate.parent is not None, not Path(self.path).is_dir()

    @cached_property
    def labels(self) -> str:
        """The hash of all labels that it is, or is part of; of an answer or a single certificate, the files."""
        certificate = self.certificate
        if certificate.parent is not None:
            return certificate.parent
        hashed = Path(self.path).is_dir() and not certificate.of_answer
        return labels_hash(Path(self.path), certificate) if hashed else repr(certificate.files)

    def is_copy(self, other: _Source) -> bool:
        """True for two sources of one release, whole or in part; other labels under its name are another draw."""
        one, two = self.certificate, other.certificate
        return one == two or ((one.release, one.draws) == (two.release, two.draws) and self.labels == other.labels)


def combined_guarantee(
    paths: Sequence[str | Path],
    *,
    deltas: Sequence[float] = (),
    epsilons: Sequence[float] = (),
    one_table: bool = False,
    long: bool = False,
    verified: Mapping[Path, Certificate] = MappingProxyType({}),
) -> list[CombinedGuarantee]:
    """Compose the releases of each label, and the charges of each ledger.

    Args:
        paths: Release folders, which are verified first; single certificates, which are checked; ledgers.
            A release that is passed twice, or in slices, counts once; other labels under its name count too, and so
            does a slice beside the single certificate of the whole. A release that the generator of another one was
            fitted on (its paid split) counts too, whether it is passed or not.
        deltas: Failure probabilities at which to compute epsilon, besides 1e-9, 1e-6 and about one over the rows.
        epsilons: Epsilons at which to compute the failure probability.
        one_table: Declare that all releases are of one table, so that row numbers mean the same rows. Otherwise all
            releases of a label are counted for the same rows, which claims less privacy.
        long: Allow recomputations of a release that take longer than ten seconds, as ``verify`` does.
        verified: The certificates of folders that were verified already, by their paths.

    Returns:
        One result for each label name of the certificates, then one for each label of each data set of each ledger. Of
        a label whose releases protect several units, one for each unit, of its own releases, and one for single rows,
        of all: a guarantee for all labels of a unit holds for each of them.

    Guarantee:
        That of ``Composition``, if the releases were fixed beforehand. A release that a ledger among the paths charged
        counts there, with all others of its rows, and not once more. If a prior was computed from an earlier release
        (``ReleasePrior``), the worst number of candidates counts, which holds for any such release. Labels with
        different names, in canonical spelling, count as different labels. Other ledgers and certificates are not added
        up.

    Raises:
        VerificationError: A release and its certificate do not agree, or it was drawn with test randomness.
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
    requested = tuple(_checks.epsilon(epsilon) for epsilon in epsilons)
    ledgers, sources = [], []
    for path in map(disk_path, paths):
        if not path.exists():
            raise InputError(
                f"expected a release folder, a certificate or a ledger at {path}, found nothing{or_beside(path)}"
            )
        if _is_database(path):
            ledgers.append(path)
        else:
            sources.append(_source(path, long, verified.get(path)))
    sources += _splits(sources)
    recorded = {path: Ledger(path, team=True).entries() for path in ledgers}
    held = _held(sources, [entry for entries in recorded.values() for entry in entries])
    labels: dict[str, list[_Source]] = {}
    for source in sources:
        if source.path not in held:
            labels.setdefault(canonical(source.certificate.label), []).append(source)
    groups = [group for releases in labels.values() for group in _of_certificates(releases, one_table)]
    groups += [group for path, entries in recorded.items() for group in _of_ledger(path, entries, held)]
    return [
        dataclasses.replace(
            group,
            deltas=tuple(sorted({*_DELTAS, *_one_in(group.rows), *wanted})),
            wanted=wanted,
            epsilons=requested,
        )
        for group in groups
    ]


def _held(sources: Sequence[_Source], entries: Sequence[Entry]) -> dict[str, str]:
    """The path of each release that a ledger charged, with the name of the charge; other labels of that name stay."""
    charged = {each.identifier: each for each in entries if each.state != "void"}
    found: dict[str, str] = {}
    for source in sources:
        certificate = source.certificate
        entry = charged.get(certificate.release)
        alone = all(source.is_copy(each) for each in sources if each.certificate.release == certificate.release)
        if entry is not None and alone and entry.is_of(certificate.label):
            one, two = certificate.guarantee, entry.guarantee
            if (one.epsilon, one.delta, one.unit) == (two.epsilon, two.delta, two.unit):
                found[source.path] = entry.identifier
    return found


def _splits(sources: Sequence[_Source]) -> list[_Source]:
    """The releases that generators of others were fitted on, which cost their rows too, and were not passed."""
    passed, found = [source.certificate for source in sources], list[_Source]()
    for source in sources:
        split = source.certificate.paid_split
        if split is not None and split not in passed:
            channel = split.channel
            guessed = candidate_sizes(channel) is not None
            found.append(_Source(f"the split behind {source.path}", split, channel, guessed))
            passed.append(split)
    return found


def _one_in(rows: int) -> tuple[float, ...]:
    """A round number of at most one over the number of rows."""
    return (float(Context(prec=2, rounding=ROUND_FLOOR).divide(Decimal(1), Decimal(rows))),) if rows > 1 else ()


def _is_database(path: Path) -> bool:
    if path.is_dir():
        return False
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _source(path: Path, long: bool, certificate: Certificate | None) -> _Source:
    """Read a release and its channel.

    The rows of a part do not determine the fewest candidates of all drawn rows; and candidates from another release
    would have been others for other outcomes of that release.
    """
    try:
        certificate = certificate or (certified if path.is_dir() else read_alone)(path, long=long)
    except VerificationError as problem:
        raise VerificationError(f"{problem} ({path})") from None
    if certificate.of_answer:
        return _Source(str(path), certificate, None, False)
    whole = path.is_dir() and certificate.parent is None
    known = whole and not certificate.rests_on_another
    channel = law_of_rows(path, certificate) if known else certificate.channel
    guessed = candidate_sizes(channel) is not None and not whole
    return _Source(str(path), certificate, channel, guessed)


def _of_certificates(sources: Sequence[_Source], one_table: bool) -> list[CombinedGuarantee]:
    """The compositions of releases for each unit, each once; of two copies, the one with known rows counts."""
    ordered = sorted(sources, key=attrgetter("order"))
    counted = [each for i, each in enumerate(ordered) if not any(each.is_copy(other) for other in ordered[:i])]
    draws = [(draw, source) for source in counted for draw in _overlapping_draws(source.certificate, one_table)]
    repeated = tuple(source.path for source in sources if all(source is not each for each in counted))
    found = []
    for unit in _units_of([draw.guarantee for draw, _ in draws]):
        own = dataclasses.replace(draws[0][0].guarantee, unit=unit).spelled_unit
        mine = [(draw, source) for draw, source in draws if own in (draw.guarantee.spelled_unit, ROW)]
        paths = {source.path for _, source in mine}
        once_each = [source for source in counted if source.path in paths]
        composition = Composition.of([_charged(draw, source, unit, one_table) for draw, source in mine])
        found.append(
            CombinedGuarantee(
                label=sources[0].certificate.label,
                unit=unit,
                sources=tuple(source.path for source in sources if source.path in {*paths, *repeated}),
                composition=composition,
                rows=max(source.certificate.rows for source in once_each),
                one_table=one_table,
                unknown=tuple(source.path for source in once_each if source.guessed),
                repeated=repeated,
                folders=len(once_each) if all(Path(source.path).is_dir() for source in once_each) else 0,
                others=tuple(
                    (source.path, draw.guarantee.unit, draw.guarantee.epsilon)
                    for draw, source in draws
                    if draw.guarantee.spelled_unit != own
                ),
                before=tuple(
                    (source.path, statement)
                    for source in once_each
                    for statement, epsilon in source.certificate.returned.items()
                    if epsilon > composition.epsilon and source.certificate.guarantee.spelled_unit == own
                ),
            )
        )
    return found


def _units_of(guarantees: Sequence[Guarantee]) -> list[str]:
    """The units of a label's guarantees; of several also single rows, for which all of them hold, last."""
    units = list({each.spelled_unit: each.unit for each in guarantees}.values())
    return units if len(units) == 1 else [*(unit for unit in units if unit != ROW), ROW]


def _charged(draw: Draw, source: _Source, unit: str, one_table: bool) -> tuple[Charge, Channel | None]:
    """A charge for a unit, or for a row of one, and its channel if that is of this unit and was fixed beforehand."""
    guarantee = dataclasses.replace(draw.guarantee, unit=unit)
    own = draw.guarantee.spelled_unit == guarantee.spelled_unit
    return Charge(guarantee, draw.rows if one_table else _ANY_ROWS), _fixed_channel(source, draw) if own else None


def _overlapping_draws(certificate: Certificate, one_table: bool) -> tuple[Draw, ...]:
    """The charges of a release that may concern the same row: of stages, which have disjoint rows, a single one."""
    return certificate.draws if one_table else (*certificate.answers, *certificate.labels[-1:])


def _fixed_channel(source: _Source, draw: Draw) -> Channel | None:
    """The channel of a charge, if it was fixed beforehand: None for an answer, or for a channel computed from one."""
    alone = len(source.certificate.draws) == 1 and draw is source.certificate.draws[0]
    return source.channel if alone and not isinstance(source.channel, ClusterChannel) else None


def _of_ledger(path: Path, recorded: Sequence[Entry], held: Mapping[str, str]) -> list[CombinedGuarantee]:
    """The compositions of a ledger's charges, grouped like its accounts, with the releases that it charged."""
    return [
        CombinedGuarantee(
            label=entries[-1].label,
            unit=of_one_unit(entries)[-1].guarantee.unit,
            sources=(*(at for at, name in held.items() if name in {each.identifier for each in entries}), str(path)),
            composition=Composition.of((charge, None) for charge in _charges(entries)),
            rows=max(sum(stop - start for start, stop in entry.rows.ranges) for entry in entries),
            ledger=True,
            outputs=tuple(dict.fromkeys(entry.output for entry in entries)),
            others=tuple(
                (str(path), entry.guarantee.unit, entry.guarantee.epsilon)
                for entry in entries
                if entry.guarantee.unit != of_one_unit(entries)[-1].guarantee.unit
            ),
        )
        for entries in by_data(recorded)
    ]


def _charges(entries: Sequence[Entry]) -> list[Charge]:
    """The charges of a label of one data set, or their total where one of them recorded more."""
    mine = of_one_unit(entries)
    return recorded_total(mine) or [each.charge(mine[-1].session) for each in mine]
