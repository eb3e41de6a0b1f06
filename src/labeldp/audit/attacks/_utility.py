"""What an attack on labels gains: 1 minus the mean loss of its answers, beside what the trivial answer gains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float

from labeldp import _checks
from labeldp._intervals import share_above, share_below
from labeldp.audit._audit import check_confidence
from labeldp.audit.attacks._inference import Attacker, Inference, Loss, attacker_of, lost_by_label, normalised
from labeldp.errors import InputError
from labeldp.mechanisms.features import FeatureLaw
from labeldp.privacy.channels import ClassChannel, candidate_sizes, row_arrays
from labeldp.release import Release, RowRelease, public_columns

Source = Literal["true labels", "released labels", "the model itself"]

_LARGEST_LAW = 1 << 14
_MOST_ENTRIES = 1 << 28  # of rows times a law: about a minute


@dataclass(frozen=True)
class Utility:
    """How much an attack gains: 1 minus the mean loss of its answers; of losses 0 and 1, the share of right ones.

    Attributes:
        value: The gain.
        low: Lower end of the interval.
        high: Upper end.
        rows: How many rows were attacked.
        confidence: Chance that the interval holds the expected gain, for rows drawn independently. Against the model
            itself it is that of what the model believes of such rows, and says nothing of what is true.
        source: What it was measured against. ``"true labels"``: labels that were declared public. ``"released
            labels"``: an unbiased estimate, for a model that was not fitted on the released labels of these rows; for
            one that was, it is too large. ``"the model itself"``: right only as far as the model's chances are.
    """

    value: float
    low: float
    high: float
    rows: int
    confidence: float
    source: Source


@dataclass(frozen=True)
class AttackRow:
    """What an attacker knows, and gains from it."""

    knows: str
    utility: Utility


@dataclass(frozen=True)
class AttackReport:
    """What attackers gain who know nothing of a row, its released label, its features, or both.

    Attributes:
        rows: One for each knowledge and each source that it could be measured against.
        limits: What is proven that no attack gains more than, in words, and the number.
        epsilon: The epsilon of the labels, with static features; None if they were declared public.
        with_any_label: What nobody gains more than with these chances from features (or these shares of the classes)
            and *any* released label of that epsilon, if they are right; None where that is not known.
        squared: Whether losses are squared distances over the squared range.
        law: The law by which features left, where they were not public; None where they left as they are.
        original: The mean chance with which the model's rows were taken to have their own features (``mixing``); None
            without a model.

    Guarantee:
        None about attacks: others may know more of features. A pure epsilon with static features does *not* bound what
        an attack gains when features tell of labels (Busa-Fekete et al. 2023, theorem 5.1); a guarantee with
        conditional features does (theorem 5.2), and such limits are passed in.
    """

    rows: tuple[AttackRow, ...]
    limits: tuple[tuple[str, float], ...]
    epsilon: float | None
    with_any_label: float | None = None
    squared: bool = False
    law: FeatureLaw | None = None
    original: float | None = None

    def utility(self, knows: str, source: Source | None = None) -> Utility:
        """What is gained with that knowledge, against the best source that there is, or the one named."""
        found = [
            row.utility for row in self.rows if row.knows == knows and (source is None or row.utility.source == source)
        ]
        if not found:
            known = ", ".join(sorted({row.knows for row in self.rows}))
            raise InputError(f"expected one of {known}, found {knows!r} or another source")
        return found[0]


def attack_release(
    release: Release | RowRelease,
    probabilities: object = None,
    prior: object = None,
    *,
    features: object = None,
    mixing: object = None,
    loss: Loss = "wrong",
    truth: Release | None = None,
    limits: Sequence[tuple[str, float]] = (),
    confidence: float = 0.95,
) -> AttackReport:
    """Attack the labels of a release with nothing, the released label, the features, and both, side by side.

    Args:
        release: Released labels of n rows, or rows released with their features.
        probabilities: P(true label | features), or a fitted model; see ``infer_labels``.
        prior: P(true label), estimated from the release by default.
        features: Features of the rows, for a model.
        mixing: The chance that features are a row's own; see ``infer_labels``.
        loss: What errors cost; see ``infer_labels``.
        truth: ``Release.public`` of the true labels, which may be seen: declared public, or on the curator's side,
            where this report stays too.
        limits: What is proven, in words and as a number, such as a value of ``labeldp.bounds.attack_limit``.
        confidence: Chance that one interval holds the expected gain.

    Guarantee:
        Without ``truth`` it is computed from the release, whose guarantee covers it. With it, it tells of true labels
        and is not covered by anything.

    References:
        Busa-Fekete et al. 2023, definition 4.4; Wu et al. 2022. A model that was fitted on the very rows that are
        attacked is a fair attack, but then rows are not quite independent, as intervals take them to be.

    Example:
        >>> from labeldp import Classes, Curator, RandomizedResponse, Release
        >>> space, labels = Classes(["no", "yes"]), ["no", "yes"] * 200
        >>> release = Curator(labels, space).randomize(RandomizedResponse(space, epsilon=0.01))
        >>> told = [[0.95, 0.05], [0.05, 0.95]] * 200  # features give labels away, however small epsilon is
        >>> report = attack_release(release, told, truth=Release.public(labels, space))
        >>> report.utility("features").value, report.utility("features").low > 0.98
        (1.0, True)

    Raises:
        InputError: As ``infer_labels``; or the true labels are not declared public, or of other rows or another space.
    """
    level = check_confidence(confidence)
    if isinstance(release, RowRelease):
        features = release.features if features is None else features
        release = release.labels
    _check_truth(release, truth)
    blind = attacker_of(release, None, prior, None, None, loss)
    cases = [(blind, False), (blind, True)]
    if probabilities is not None:
        seeing = attacker_of(release, probabilities, prior, features, mixing, loss)
        cases += [(seeing, False), (seeing, True)]
    rows = [row for attacker, released in cases for row in _measured(attacker, released, truth, level)]
    pure = release.guarantee.epsilon if not release.is_public and not release.guarantee.delta else None
    proven = [(what, _checks.number(value, "a limit")) for what, value in limits]
    counts_errors = isinstance(loss, str) and loss == "wrong"
    most = most_with(cases[-1][0], pure) if pure is not None and counts_errors else None
    epsilon = None if release.is_public else release.guarantee.epsilon
    squared = isinstance(loss, str) and loss == "squared"
    law = None if release.certificate is None else release.certificate.features
    original = None if probabilities is None else float(np.mean(cases[-1][0].original))
    return AttackReport(tuple(rows), tuple(proven), epsilon, most, squared, law, original)


def attack_folder(
    directory: str | Path,
    model: object = None,
    *,
    truth: object = None,
    mixing: object = None,
    limits: Sequence[tuple[str, float]] = (),
    confidence: float = 0.95,
) -> AttackReport:
    """Attack the labels of a release in a folder, by a model of its columns.

    Args:
        directory: The folder of a release of labels.
        model: A fitted model whose ``predict_proba`` takes the folder's columns as an Arrow table, such as
            ``labeldp.learning.tables.open_model``; None attacks with the released labels alone.
        truth: True labels in the order of the rows, which you declare public by passing them; or None.
        mixing: The chance that features are a row's own, for a model of true features where some were redrawn; see
            ``infer_labels``. One minus the certificate's ``features.chance`` is right if the generator is.
        limits: See ``attack_release``.
        confidence: See ``attack_release``.

    Raises:
        InputError: See ``attack_release``.
        LabelError: A true label is not in the space; the message names a row.
        VerificationError: The folder and its certificate do not agree.
    """
    release = Release.load(directory)
    features = None if model is None else public_columns(directory)
    shown = None if truth is None else Release.public(truth, release.space)
    return attack_release(
        release, model, features=features, mixing=mixing, truth=shown, limits=limits, confidence=confidence
    )


def attack_utility(found: Inference, truth: Release, *, confidence: float = 0.95) -> Utility:
    """What answers gain against true labels that may be seen.

    Args:
        found: Answers for n rows.
        truth: ``Release.public`` of their true labels.
        confidence: Chance that the interval holds the expected gain, for rows drawn independently. It is exact for
            losses 0 and 1, after Clopper and Pearson; else from Hoeffding's and the empirical Bernstein inequality.

    References:
        Busa-Fekete et al. 2023, definition 4.4; Clopper and Pearson 1934; Hoeffding 1963, theorem 2; Maurer and Pontil
        2009, theorem 4.

    Example:
        >>> from labeldp import Classes, Release
        >>> from labeldp.audit import infer_labels
        >>> truth = Release.public(["no", "yes"], Classes(["no", "yes"]))
        >>> attack_utility(infer_labels(truth, prior=[0.5, 0.5]), truth).value
        1.0
    """
    level = check_confidence(confidence)
    if not truth.is_public or len(truth) != len(found) or truth.space != found.space:
        raise InputError(
            f"expected public true labels of the same {len(found)} rows and label space, found others; use "
            "Release.public for labels that may be seen"
        )
    gains = 1.0 - found.losses(truth.codes)
    if isinstance(found.loss, str) and not found.loss_is_squared:
        right, n, tail = int(gains.sum()), len(gains), (1 - level) / 2
        low, high = float(share_above(right, n, tail)), float(share_below(right, n, tail))
        return Utility(float(gains.mean()), low, high, n, level, "true labels")
    return _utility(gains, 0.0, 1.0, level, "true labels")


def bounded_mean(values: Float[np.ndarray, "n"], least: float, most: float, confidence: float) -> tuple[float, float]:
    """An interval for the mean of independent bounded values: what two inequalities leave, each at half the chance.

    References:
        Hoeffding 1963, theorem 2; Maurer and Pontil 2009, theorem 4 (empirical Bernstein).
    """
    n, tail, width = len(values), (1 - confidence) / 4, most - least
    half = width * math.sqrt(math.log(1 / tail) / (2 * n))
    if n > 1:
        told, variance = math.log(2 / tail), float(np.var(values, ddof=1))
        half = min(half, math.sqrt(2 * variance * told / n) + width * 7 * told / (3 * (n - 1)))
    mean = float(np.mean(values))
    return max(least, mean - half), min(most, mean + half)


def most_with(attacker: Attacker, epsilon: float) -> float:
    """The mean over rows of what any released label with a pure epsilon lets somebody gain who has this belief.

    For a row with belief b it is the largest ``e/(e + m - 1)`` times the sum of its m largest chances, ``e =
    exp(epsilon)`` (Ghazi et al. 2021, theorem 3: no label-private release keeps a label more often).
    """
    parts = []
    for rows in attacker.blocks():
        ordered = -np.sort(-attacker.belief(rows), axis=1)
        sizes = np.arange(ordered.shape[1])
        parts.append((np.cumsum(ordered, axis=1) / (1 + sizes * math.exp(-epsilon))).max(axis=1))
    return float(np.mean(np.concatenate(parts)))


def unbiased_gains(attacker: Attacker, released: bool) -> tuple[Float[np.ndarray, "n"], float, float] | None:
    """For each row, from its released label alone, a number whose mean is the gain of the attack; and their range.

    Let ``u_y = sum_z P(z | y) (1 - loss(y, said(z)))`` be what the attack on this row gains if y is the true label: all
    of it is known. Then ``sum_y w_y(z) u_y`` has the mean ``u_y``, given y, for the unbiased vector w. (The naive
    ``w_said(z)`` has not, where what is said depends on z.)

    Returns:
        None where the law is large, for so many rows, or differs by row, or does not identify labels.
    """
    channel, space = attacker.release.channel, attacker.release.space
    if not isinstance(channel, ClassChannel) or row_arrays(channel) or candidate_sizes(channel) is not None:
        return None
    try:
        table = channel.table()
    except ValueError:  # it says that the law is too large
        return None
    if table.matrix.size > min(_LARGEST_LAW, _MOST_ENTRIES // len(attacker.release)):
        return None
    likelihood, weights = channel.likelihood(table.outcomes), channel.unbiased(table.outcomes)
    parts, ends = [], []
    for rows in attacker.blocks():
        belief = attacker.belief(rows)
        gains = np.zeros(belief.shape)
        if released:
            for chances, told in zip(table.matrix.T, likelihood, strict=True):
                said, _ = attacker.best(normalised(belief, np.broadcast_to(told, belief.shape)))
                gains += chances * (1 - lost_by_label(space, attacker.loss, said))
        else:
            gains += 1 - lost_by_label(space, attacker.loss, attacker.best(belief)[0])
        every = gains @ weights.T
        ends.append((every.min(), every.max()))
        parts.append(np.einsum("mk,mk->m", gains, channel.unbiased(attacker.release.codes[rows])))
    low, high = np.array(ends).T
    return np.concatenate(parts), float(low.min()), float(high.max())


def _measured(attacker: Attacker, released: bool, truth: Release | None, level: float) -> list[AttackRow]:
    """What is gained with one knowledge, against each source."""
    answers = attacker.answers(released)
    found = [] if truth is None else [attack_utility(answers, truth, confidence=level)]
    unbiased = None if attacker.release.is_public else unbiased_gains(attacker, released)
    if unbiased is not None:
        found.append(_utility(*unbiased, level, "released labels"))
    found.append(_utility(1.0 - answers.expected, 0.0, 1.0, level, "the model itself"))
    return [AttackRow(answers.knows, each) for each in found]


def _utility(gains: Float[np.ndarray, "n"], least: float, most: float, level: float, source: Source) -> Utility:
    low, high = bounded_mean(gains, least, most, level)
    return Utility(float(gains.mean()), max(low, 0.0), min(high, 1.0), len(gains), level, source)


def _check_truth(release: Release, truth: Release | None) -> None:
    if not len(release):
        raise InputError("expected rows to attack, found none")
    if truth is not None and not (isinstance(truth, Release) and truth.is_public):
        raise InputError(
            "expected true labels that were declared public (Release.public), found something else; what this report "
            "says of private labels would be no one's business"
        )
