"""What can be audited of a release on disk, without any true label."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import betainc

from labeldp.audit._audit import Audit, check_confidence
from labeldp.audit.mechanisms._exact import audit_channel, audit_drawing
from labeldp.audit.mechanisms._sampled import Progress
from labeldp.errors import InputError
from labeldp.privacy.channels import (
    BinChannel,
    BitChannel,
    Channel,
    ClassChannel,
    GridChannel,
    SingleNumberChannel,
    channel_of,
    row_arrays,
    unpack,
)
from labeldp.release import Release, release_batches
from labeldp.release.folder import Certificate, Check, verify

#: Rows of a release that are looked at together, as entries of rows and classes.
_ENTRIES, _MOST_ROWS = 1 << 24, 1 << 16

_OF_WORDS = (
    "that labels were drawn from the words that the law was counted with: who made the release may have known them"
)
_OF_KEPT = (
    "what is in the kept columns: features that tell the label give it away at any epsilon; audit the release with a "
    "model of the label to see how much"
)
_OF_REDRAWN = (
    "what is promised of features, some of which were redrawn: the law of the labels alone was audited; audit the "
    "release with a model of the label to see what released features tell"
)


@dataclass(frozen=True)
class FolderAudit:
    """What an audit of a release folder found.

    Attributes:
        certificate: The certificate; None where it cannot be read.
        checks: What was looked at, whether it holds, and what was found, in order.
        audits: The law of each charge for labels, from its integers, beside the epsilon that it was charged with; and
            what the draw of this version of labeldp does with that law.
        confidence: One minus the chance that any of them fails for a sound release.
        unknown: What cannot be known from a folder.
    """

    certificate: Certificate | None
    checks: tuple[Check, ...]
    audits: tuple[Audit, ...]
    confidence: float
    unknown: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether every check holds, and no audit refuted its claim."""
        return all(check.holds for check in self.checks) and all(audit.holds for audit in self.audits)


def audit_folder(
    directory: str | Path,
    against: Sequence[str | Path] = (),
    *,
    confidence: float = 0.999_999,
    progress: Progress | None = None,
) -> FolderAudit:
    """Audit the release in a folder: its certificate, its law, how labels are drawn with it, and what was released.

    Args:
        directory: The folder of a release.
        against: Folders of other releases of the same rows, in the same order. Noise that they share is noticed.
        confidence: One minus the chance that a sound release fails.
        progress: Called with ("audit", done, total) from time to time.

    Returns:
        What was checked. An answer to a query has no law of released labels: it is verified and no more. Of a part of a
        release the shares are not looked at: its rows may be chosen by what was released.

    Raises:
        EpsilonError: A confidence that none can be.
        InputError: Another release has other rows, or is this one.
        VerificationError: Another release cannot be verified.

    Guarantee:
        Whatever the true labels are, labels that were drawn row by row with this law pass with a probability of at
        least ``confidence``. Proof: a class z (of sets: one with z in it; of numbers: an outcome) is released by row i
        with a probability between ``a_i`` and ``b_i``, the least and the most over true labels. So the count is
        stochastically between sums of independent coins of these probabilities. For a sum of n coins of mean
        probability p the chance to reach ``c >= n p + 1`` is at most that of n equal coins, and so is the other tail
        (Hoeffding). Each exact tail is compared with the doubt over twice the number of events. Two independent
        releases agree about a class in row i (both hold it, or neither) with a probability between the least and the
        most over true labels, and the same test applies to how often they do.

    References:
        Hoeffding 1956, theorem 4.

    Example:
        >>> import tempfile
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> space, folder = Classes(["no", "yes"]), tempfile.mkdtemp() + "/shared"
        >>> release = Curator(["no", "yes"] * 500, space).randomize(RandomizedResponse(space, epsilon=1.0))
        >>> _ = release.save(folder)
        >>> audit_folder(folder).holds
        True
    """
    sure, verdict = check_confidence(confidence), verify(directory)
    certificate, checks = verdict.certificate, list(verdict.checks)
    if certificate is None or not verdict.holds or certificate.of_answer:
        return FolderAudit(certificate, tuple(checks), (), sure, verdict.unknown)
    doubt = (1.0 - sure) / (2 + len(against))
    if certificate.parent is None:
        checks += _frequencies(Path(directory), certificate, doubt, progress)
        checks += [_repeated(Path(directory), Path(other), certificate, doubt) for other in against]
    else:
        checks.append(
            Check("released shares are not looked at: these rows may be chosen from a release", True, "a part")
        )
    claims = [(channel_of(draw.law), draw.guarantee.epsilon) for draw in certificate.labels]
    audits = [audit_channel(channel, epsilon or math.ulp(0.0)) for channel, epsilon in claims]
    first = next((labels.channel for labels in _batches(Path(directory), certificate)), None)
    drawn = [audit_drawing(first, confidence=1.0 - doubt)] if first is not None else []
    return FolderAudit(certificate, tuple(checks), (*audits, *drawn), sure, (*verdict.unknown, *_unknown(certificate)))


def _unknown(certificate: Certificate) -> tuple[str, ...]:
    """What an audit cannot know, beside what a verification cannot."""
    law = certificate.features
    if law is None:
        return (_OF_WORDS, _OF_KEPT)
    return (_OF_WORDS,) if law.generator is None else (_OF_WORDS, _OF_REDRAWN)


@dataclass(frozen=True)
class _Tally:
    """How often events happened, and the sums of their least and largest probabilities, over some rows."""

    rows: int
    counts: Float[np.ndarray, "e"]
    least: Float[np.ndarray, "e"]
    most: Float[np.ndarray, "e"]

    def __add__(self, other: _Tally) -> _Tally:
        parts = ((getattr(each, name) for each in (self, other)) for name in ("counts", "least", "most"))
        return _Tally(self.rows + other.rows, *(one + two for one, two in parts))

    def tails(self) -> Float[np.ndarray, "2 e"]:
        """At most the chances of counts as small as these, and as large."""
        n, c = float(self.rows), self.counts
        low, high = np.clip(self.least / n, 0.0, 1.0), np.clip(self.most / n, 0.0, 1.0)
        few = np.where(c <= n * low - 1, betainc(np.maximum(n - c, 1.0), c + 1, 1 - low), 1.0)
        many = np.where(c >= n * high + 1, betainc(np.maximum(c, 1.0), np.maximum(n - c, 0.0) + 1, high), 1.0)
        return np.array([few, many])


def _frequencies(folder: Path, certificate: Certificate, doubt: float, progress: Progress | None) -> list[Check]:
    """Whether released shares are ones that the law can give."""
    tallies: dict[str, _Tally] = {}
    done = 0
    for labels in _batches(folder, certificate):
        for name, tally in _tallied(labels):
            tallies[name] = tallies[name] + tally if name in tallies else tally
        done += len(labels)
        if progress is not None:
            progress("audit", done, certificate.rows)
    events = sum(len(tally.counts) for tally in tallies.values())
    return [_check(name, tally, doubt / (2 * events)) for name, tally in tallies.items()]


def _check(name: str, tally: _Tally, level: float) -> Check:
    """The tails of some events, each against its share of the doubt."""
    tails = tally.tails()
    side, event = np.unravel_index(int(np.argmin(tails)), tails.shape)
    n = tally.rows
    share, low, high = (float(values[event]) / n for values in (tally.counts, tally.least, tally.most))
    told = f"a share of {share:.4g} where the law gives {low:.4g} to {high:.4g}"
    found = (
        f"{told}, whatever the labels are"
        if tails[side, event] < level
        else f"{len(tails[0])} share(s), all within the law"
    )
    return Check(name, bool(tails[side, event] >= level), found)


def _batches(folder: Path, certificate: Certificate) -> Iterator[Release]:
    """Released labels, part by part."""
    if certificate.rows:
        rows = max(1, min(_MOST_ROWS, _ENTRIES // certificate.space.size))
        yield from (labels for _, labels in release_batches(folder, rows))


def _tallied(labels: Release) -> Iterator[tuple[str, _Tally]]:
    """What is counted of a release's labels."""
    channel = labels.channel
    if isinstance(channel, ClassChannel):
        yield "released shares of classes are ones that the law can give", _of_classes(channel, labels.codes)
        if isinstance(channel, BitChannel):
            yield "released sets are as large as the law makes them", _of_sizes(channel, labels.codes)
    elif isinstance(channel, SingleNumberChannel):
        yield "released shares of numbers are ones that the law can give", _of_numbers(channel, labels.codes)


def _held(channel: ClassChannel, codes: np.ndarray, z: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
    """Whether each row released, or holds, a class."""
    if channel.form == "class":
        return np.asarray(codes == z)
    return np.asarray(codes[np.arange(len(z)), z >> 3] >> (z & 7).astype(np.uint8) & 1 == 1)


def _ends(channel: ClassChannel, z: Int[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """The chances that each row releases, or holds, a class: if it is the true one, and if another is."""
    true, other = (np.broadcast_to(chance, z.shape) for chance in channel.holding(z))
    packed = row_arrays(channel).get("candidates")
    if packed is None:
        return true, other
    inside = packed[np.arange(len(z)), z >> 3] >> (z & 7).astype(np.uint8) & 1 == 1
    return np.where(inside, true, 0.0), np.where(inside, other, 0.0)


def _of_classes(channel: ClassChannel, codes: np.ndarray) -> _Tally:
    """How often each class was released, or is in the set."""
    rows, found = len(codes), []
    for label in range(channel.classes):
        z = np.full(rows, label, dtype=np.int64)
        ends = _ends(channel, z)
        least, most = np.minimum(*ends).sum(), np.maximum(*ends).sum()
        found.append((float(_held(channel, codes, z).sum()), float(least), float(most)))
    return _Tally(rows, *np.array(found).T)


def _of_sizes(channel: BitChannel, codes: np.ndarray) -> _Tally:
    """How many bits were set in all: their number does not depend on the label."""
    mean = float(channel.membership.true) + (channel.classes - 1) * float(channel.membership.other)
    rows, ones = len(codes), float(unpack(codes, channel.classes).sum())
    expected = np.array([rows * mean])
    return _Tally(rows * channel.classes, np.array([ones]), expected, expected)


def _of_numbers(channel: SingleNumberChannel, codes: np.ndarray) -> _Tally:
    """How often each outcome was released."""
    chances = _law_rows(channel)
    counts = np.bincount(codes, minlength=chances.shape[1]).astype(np.float64)
    return _Tally(len(codes), counts, chances.min(axis=0) * len(codes), chances.max(axis=0) * len(codes))


def _law_rows(channel: SingleNumberChannel) -> Float[np.ndarray, "r m"]:
    """The laws of which those of all labels are mixtures: of knots, or of bins."""
    if isinstance(channel, GridChannel):
        return channel.chances
    return channel.rows_of(np.array(channel.starts)) if isinstance(channel, BinChannel) else channel.matrix()


def _repeated(folder: Path, other: Path, certificate: Certificate, doubt: float) -> Check:
    """Whether another release of the same rows has noise of its own."""
    name = f"its noise is not that of {other.name}"
    total: _Tally | None = None
    first = 0
    verdict = verify(other)
    found = verdict.certificate
    if not verdict.holds or found is None or found.of_answer:
        raise InputError(f"expected another release of labels in {other}, found none that can be verified")
    if found.rows != certificate.rows or found.space != certificate.space:
        raise InputError(
            f"expected a release of the same {certificate.rows} rows and labels in {other}, found {found.rows} rows or "
            "other labels"
        )
    if found.release == certificate.release:
        raise InputError(f"expected another release in {other}, found the same one; give one that was drawn again")
    for one, two in zip(_batches(folder, certificate), _batches(other, found), strict=True):
        tally = _agreement(one.channel, two.channel)(one.codes, two.codes, first)
        total, first = tally if total is None else total + tally, first + len(one)
    return _check(name, total, doubt / 2) if total is not None else Check(name, True, "no rows")


def _agreement(one: Channel, two: Channel) -> Callable[[np.ndarray, np.ndarray, int], _Tally]:
    """How often two releases agree: about one class in each row, another in the next; or in their outcomes."""
    if isinstance(one, ClassChannel) and isinstance(two, ClassChannel):

        def classes(codes: np.ndarray, others: np.ndarray, first: int) -> _Tally:
            z = (first + np.arange(len(codes))) % one.classes
            same = float((_held(one, codes, z) == _held(two, others, z)).sum())
            pairs = list(zip(_ends(one, z), _ends(two, z), strict=True))
            if "candidates" in {**row_arrays(one), **row_arrays(two)}:  # a label outside is between the two cases
                pairs = list(itertools.product(_ends(one, z), _ends(two, z)))
            agree = np.array([p * q + (1 - p) * (1 - q) for p, q in pairs])
            return _tally(len(codes), same, agree.min(axis=0).sum(), agree.max(axis=0).sum())

        return classes
    if isinstance(one, SingleNumberChannel) and isinstance(two, SingleNumberChannel):
        if len(one.values) != len(two.values):
            raise InputError("expected two releases with one law of numbers, found laws with other outcomes")
        chances = _law_rows(one) @ _law_rows(two).T  # of labels between knots, a mean of these

        def numbers(codes: np.ndarray, others: np.ndarray, _: int) -> _Tally:
            rows = len(codes)
            return _tally(rows, float((codes == others).sum()), rows * chances.min(), rows * chances.max())

        return numbers
    raise InputError("expected two releases of classes, or two of numbers that share one law, found others")


def _tally(rows: int, count: float, least: float, most: float) -> _Tally:
    return _Tally(rows, np.array([count]), np.array([float(least)]), np.array([float(most)]))
