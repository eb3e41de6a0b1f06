"""Audit of a release on disk, without any true label."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import betainc

from labeldp._progress import Progress, silent
from labeldp._shapes import Float, Int
from labeldp.audit._audit import Audit, check_confidence
from labeldp.audit.mechanisms._exact import audit_channel, audit_drawing
from labeldp.errors import InputError
from labeldp.privacy.channels import ClassChannel, SingleNumberChannel, row_arrays
from labeldp.release import Release, release_batches
from labeldp.release.folder import Certificate, Check, local_copy, verify
from labeldp.release.tables import Place

#: Rows of a release read at a time, as a number of entries (rows times classes) and of rows.
_ENTRIES, _MOST_ROWS = 1 << 24, 1 << 16

_RANDOMNESS = "that the random numbers behind the labels stayed secret: whoever kept them knows the labels"
_KEPT_COLUMNS = (
    "what the kept columns disclose: features that predict the label reveal it at any epsilon; audit the release with "
    "a model of the label to see how much"
)
_RESAMPLED_FEATURES = (
    "the guarantee for features, some of which were resampled: only the labels' channel was audited; audit the "
    "release with a model of the label to see what released features disclose"
)


@dataclass(frozen=True)
class FolderAudit:
    """Result of the audit of a release folder.

    Attributes:
        certificate: The certificate; None if it cannot be read.
        checks: The checks made, in order, with their outcomes.
        audits: Audits of the channel of each charge for labels, from its integers, against the epsilon charged; and of
            the draw of this version of labeldp with that channel.
        confidence: One minus the probability that a sound release fails any of them.
        unknown: Facts that a folder cannot establish.
    """

    certificate: Certificate | None
    checks: tuple[Check, ...]
    audits: tuple[Audit, ...]
    confidence: float
    unknown: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """True if every check holds, and no audit refuted its claim."""
        return all(check.holds for check in self.checks) and all(audit.holds for audit in self.audits)


def audit_folder(
    directory: str | Place,
    against: Sequence[str | Place] = (),
    *,
    confidence: float = 0.999_999,
    progress: Progress | None = None,
) -> FolderAudit:
    """Audit the release in a folder: its certificate, its channels, its drawing, and the released frequencies.

    Args:
        directory: The folder of a release: a path, or an address such as ``s3://bucket/shared``.
        against: Folders of other releases of the same rows, in the same order; shared noise is detected.
        confidence: One minus the probability that a sound release fails.
        progress: Called with ("audit", done, total) from time to time.

    Returns:
        Checks and audits. An answer to a query has no channel of released labels: it is verified and no more. For a
        part of a release, frequencies are not checked: its rows may have been chosen by their released labels.

    Raises:
        EpsilonError: The confidence is out of range.
        InputError: Another release has other rows, or is this one.
        VerificationError: Another release cannot be verified.

    Guarantee:
        Whatever the true labels are, labels that were drawn row by row from this channel pass with a probability of at
        least ``confidence``. Proof: a class z (for sets: one that contains z; for numbers: an outcome) is released by
        row i with a probability between ``a_i`` and ``b_i``, the least and the largest over true labels. So the count
        is stochastically between sums of independent coins of these probabilities. For a sum of n coins of mean
        probability p the probability of ``c >= n p + 1`` or more is at most that for n equal coins, and so is the other
        tail (Hoeffding). Each exact tail is compared with the error probability over twice the number of events
        (Bonferroni). Two independent releases agree about a class in row i (both contain it, or neither) with a
        probability between the least and the largest over true labels, and the same test applies to the number of
        agreements.

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
    level = check_confidence(confidence)
    with ExitStack() as copies:
        folder, *others = (copies.enter_context(local_copy(each)) for each in (directory, *against))
        return _audited(folder, others, level, progress)


def _audited(folder: Path, against: Sequence[Path], level: float, progress: Progress | None) -> FolderAudit:
    """The audit of a release on a disk."""
    verdict = verify(folder)
    certificate, checks = verdict.certificate, list(verdict.checks)
    if certificate is None or not verdict.holds or certificate.of_answer:
        return FolderAudit(certificate, tuple(checks), (), level, verdict.unknown)
    error = (1.0 - level) / (2 + len(against))
    if certificate.parent is None:
        checks += _frequency_checks(folder, certificate, error, progress)
        checks += [_independence_check(folder, other, certificate, error) for other in against]
    else:
        checks.append(Check("frequencies are not checked: these rows may be chosen from a release", True, "a part"))
    claims = [(draw.channel, draw.guarantee.epsilon) for draw in certificate.labels]
    audits = [audit_channel(channel, epsilon or math.ulp(0.0)) for channel, epsilon in claims]
    first = next((labels.channel for labels in _release_batches(folder, certificate)), None)
    drawn = [audit_drawing(first, confidence=1.0 - error)] if first is not None else []
    return FolderAudit(
        certificate, tuple(checks), (*audits, *drawn), level, (*verdict.unknown, *_unknown_facts(certificate))
    )


def _unknown_facts(certificate: Certificate) -> tuple[str, ...]:
    """Facts that an audit cannot establish, beside those that a verification cannot."""
    law = certificate.features
    if law is None:
        return (_RANDOMNESS, _KEPT_COLUMNS)
    return (_RANDOMNESS,) if law.generator is None else (_RANDOMNESS, _RESAMPLED_FEATURES)


@dataclass(frozen=True)
class _EventCounts:
    """Counts of events over some rows, with the sums of their least and largest probabilities."""

    rows: int
    counts: Float[np.ndarray, "e"]
    least: Float[np.ndarray, "e"]
    most: Float[np.ndarray, "e"]

    def __add__(self, other: _EventCounts) -> _EventCounts:
        parts = ((getattr(each, name) for each in (self, other)) for name in ("counts", "least", "most"))
        return _EventCounts(self.rows + other.rows, *(one + two for one, two in parts))

    def tails(self) -> Float[np.ndarray, "2 e"]:
        """Upper bounds on the probabilities of counts as small as these, and as large."""
        n, c = float(self.rows), self.counts
        low, high = np.clip(self.least / n, 0.0, 1.0), np.clip(self.most / n, 0.0, 1.0)
        few = np.where(c <= n * low - 1, betainc(np.maximum(n - c, 1.0), c + 1, 1 - low), 1.0)
        many = np.where(c >= n * high + 1, betainc(np.maximum(c, 1.0), np.maximum(n - c, 0.0) + 1, high), 1.0)
        return np.array([few, many])


def _frequency_checks(folder: Path, certificate: Certificate, error: float, progress: Progress | None) -> list[Check]:
    """Check that released frequencies are possible under the channel."""
    tallies: dict[str, _EventCounts] = {}
    done = 0
    for labels in _release_batches(folder, certificate):
        for name, tally in _counted_events(labels):
            tallies[name] = tallies[name] + tally if name in tallies else tally
        done += len(labels)
        (progress or silent)("audit", done, certificate.rows)
    events = sum(len(tally.counts) for tally in tallies.values())
    return [_frequency_check(name, tally, error / (2 * events)) for name, tally in tallies.items()]


def _frequency_check(name: str, tally: _EventCounts, level: float) -> Check:
    """Compare the tails of some events with the level of each."""
    tails = tally.tails()
    side, event = np.unravel_index(int(np.argmin(tails)), tails.shape)
    n = tally.rows
    share, low, high = (float(values[event]) / n for values in (tally.counts, tally.least, tally.most))
    share_text = f"a share of {share:.4g}, outside {low:.4g} to {high:.4g}"
    result = (
        f"{share_text}, the range possible for any labels"
        if tails[side, event] < level
        else f"{len(tails[0])} share(s), all possible"
    )
    return Check(name, bool(tails[side, event] >= level), result)


def _release_batches(folder: Path, certificate: Certificate) -> Iterator[Release]:
    """Released labels, batch by batch."""
    if certificate.rows:
        rows = max(1, min(_MOST_ROWS, _ENTRIES // certificate.space.size))
        yield from (labels for _, labels in release_batches(folder, rows))


def _counted_events(labels: Release) -> Iterator[tuple[str, _EventCounts]]:
    """Events counted for a batch of labels, by the name of their check."""
    channel = labels.channel
    if isinstance(channel, ClassChannel):
        yield "released frequencies of classes are possible under the channel", _class_counts(channel, labels.codes)
        if channel.independent_members:
            yield "released sets have the sizes that the channel implies", _bit_count(channel, labels.codes)
    elif isinstance(channel, SingleNumberChannel):
        yield "released frequencies of numbers are possible under the channel", _outcome_counts(channel, labels.codes)


def _containing_probabilities(
    channel: ClassChannel, z: Int[np.ndarray, "n"]
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """Probabilities that each row's output contains a class: if it is the true one, and if another is."""
    true, other = (np.broadcast_to(chance, z.shape) for chance in channel.holding(z))
    packed = row_arrays(channel).get("candidates")
    if packed is None:
        return true, other
    inside = packed[np.arange(len(z)), z >> 3] >> (z & 7).astype(np.uint8) & 1 == 1
    return np.where(inside, true, 0.0), np.where(inside, other, 0.0)


def _class_counts(channel: ClassChannel, codes: np.ndarray) -> _EventCounts:
    """Counts of each class, or of the sets that contain it."""
    rows, rows_of_counts = len(codes), []
    for label in range(channel.classes):
        z = np.full(rows, label, dtype=np.int64)
        ends = _containing_probabilities(channel, z)
        least, most = np.minimum(*ends).sum(), np.maximum(*ends).sum()
        rows_of_counts.append((float(channel.holds(codes, z).sum()), float(least), float(most)))
    return _EventCounts(rows, *np.array(rows_of_counts).T)


def _bit_count(channel: ClassChannel, codes: np.ndarray) -> _EventCounts:
    """Total number of set bits, whose distribution does not depend on the labels."""
    mean = float(channel.membership.true) + (channel.classes - 1) * float(channel.membership.other)
    rows, ones = len(codes), float(channel.sums(codes, np.ones(channel.classes)).sum())
    expected = np.array([rows * mean])
    return _EventCounts(rows * channel.classes, np.array([ones]), expected, expected)


def _outcome_counts(channel: SingleNumberChannel, codes: np.ndarray) -> _EventCounts:
    """Counts of each outcome."""
    chances = channel.vertices
    counts = np.bincount(codes, minlength=chances.shape[1]).astype(np.float64)
    return _EventCounts(len(codes), counts, chances.min(axis=0) * len(codes), chances.max(axis=0) * len(codes))


def _independence_check(folder: Path, other: Path, certificate: Certificate, error: float) -> Check:
    """Check that another release of the same rows has noise of its own."""
    name = f"its noise is independent of that of {other.name}"
    total: _EventCounts | None = None
    first = 0
    verdict = verify(other)
    other_certificate = verdict.certificate
    if not verdict.holds or other_certificate is None or other_certificate.of_answer:
        raise InputError(f"expected another release of labels in {other}, found none that can be verified")
    if other_certificate.rows != certificate.rows or other_certificate.space != certificate.space:
        raise InputError(
            f"expected a release of the same {certificate.rows} rows and labels in {other}, found "
            f"{other_certificate.rows} rows or other labels"
        )
    if other_certificate.release == certificate.release:
        raise InputError(f"expected another release in {other}, found the same one; give an independent one")
    for one, two in zip(_release_batches(folder, certificate), _release_batches(other, other_certificate), strict=True):
        tally = _agreements(one, two, first)
        total, first = tally if total is None else total + tally, first + len(one)
    return _frequency_check(name, total, error / 2) if total is not None else Check(name, True, "no rows")


def _agreements(one: Release, two: Release, first: int) -> _EventCounts:
    """Agreements between two releases of the same rows: on one class per row, in turn; or on their outcomes."""
    channel, other, rows = one.channel, two.channel, len(one)
    if isinstance(channel, ClassChannel) and isinstance(other, ClassChannel):
        z = (first + np.arange(rows)) % channel.classes
        same = float((channel.holds(one.codes, z) == other.holds(two.codes, z)).sum())
        ends = _containing_probabilities(channel, z), _containing_probabilities(other, z)
        pairs = list(zip(*ends, strict=True))
        if not (channel.identifies and other.identifies):
            pairs = list(itertools.product(*ends))  # labels outside candidates, or of one group, mix the two cases
        agree = np.array([p * q + (1 - p) * (1 - q) for p, q in pairs])
        return _single_event(rows, same, agree.min(axis=0).sum(), agree.max(axis=0).sum())
    if isinstance(channel, SingleNumberChannel) and isinstance(other, SingleNumberChannel):
        if len(channel.values) != len(other.values):
            raise InputError("expected two releases of numbers with the same outcomes, found different ones")
        chances = channel.vertices @ other.vertices.T  # other labels have mixtures of these
        return _single_event(rows, float((one.codes == two.codes).sum()), rows * chances.min(), rows * chances.max())
    raise InputError("expected two releases of classes, or two of numbers with one channel for all rows, found others")


def _single_event(rows: int, count: float, least: float, most: float) -> _EventCounts:
    return _EventCounts(rows, np.array([count]), np.array([float(least)]), np.array([float(most)]))
