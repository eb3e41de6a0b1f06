"""Utility of label attacks: 1 minus the mean loss of the answers, beside the trivial answer's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from labeldp import _checks
from labeldp._confidence_intervals import clopper_pearson_lower, clopper_pearson_upper
from labeldp._shapes import Float
from labeldp.audit._audit import check_confidence
from labeldp.audit.attacks._inference import (
    NO_KNOWLEDGE,
    Attacker,
    Inference,
    Knowledge,
    Loss,
    losses_by_label,
    make_attacker,
    normalised,
)
from labeldp.audit.attacks._measures import AttackMeasures, measure_attack
from labeldp.errors import InputError
from labeldp.mechanisms.resampling import FeatureLaw
from labeldp.privacy import Classes
from labeldp.privacy.channels import ClassChannel, candidate_sizes, row_arrays
from labeldp.release import Release, RowRelease, public_columns

Source = Literal["true labels", "released labels", "the model itself"]

_LARGEST_LAW = 1 << 14
_MOST_CLASSES = 50
_MOST_ENTRIES = 1 << 28  # rows times entries of the table: about a minute
#: Attackers that are compared, by their places: nothing, the released label, features, features and released label.
_COMPARED = ((2, 0), (3, 2))


@dataclass(frozen=True)
class Utility:
    """Utility of an attack: 1 minus the mean loss of its answers; for losses 0 and 1, the share of right ones.

    Attributes:
        value: The utility.
        low: Lower end of the interval.
        high: Upper end.
        rows: Number of rows attacked.
        confidence: Probability that the interval holds the expected utility, for rows drawn independently. If the
            source is the model itself, it refers to the model's belief about such rows, not to the truth.
        source: The reference. ``"true labels"``: labels that were declared public. ``"released labels"``: an estimate
            that is unbiased but for being clipped to [0, 1], for probabilities that do not depend on the released
            labels of their rows. ``"the model itself"``: only as right as the model's probabilities.
    """

    value: float
    low: float
    high: float
    rows: int
    confidence: float
    source: Source


@dataclass(frozen=True)
class AttackRow:
    """One attacker's knowledge and utility."""

    knows: str
    utility: Utility


@dataclass(frozen=True)
class Advantage:
    """Difference of the utilities of two attackers on the same rows.

    Attributes:
        knows: Knowledge of the first attacker.
        over: Knowledge of the second.
        value: Estimated difference, between -1 and 1.
        low: Lower end of its interval.
        high: Upper end.
        source: The reference, as of the utilities.
    """

    knows: str
    over: str
    value: float
    low: float
    high: float
    source: Source

    @property
    def found(self) -> bool:
        """True if the interval is above zero, and the reference is not the model's own belief."""
        return self.low > 0.0 and self.source != "the model itself"


@dataclass(frozen=True)
class AttackReport:
    """Utilities of attackers who know nothing of a row, its released label, its features, or both.

    Attributes:
        rows: One for each attacker and each available source.
        advantages: Differences of utilities, against the best available source: of features over nothing, and of the
            released label over features alone; none without a model.
        limits: Proven upper bounds on the utility of any attack, each in words and as a number.
        epsilon: Epsilon of the labels with static features; None if they were declared public.
        with_any_label: Upper bound on the utility with these probabilities from features (or these shares of the
            classes) and *any* released label of that epsilon, if the probabilities are right; None if unknown.
        squared: True if losses are squared distances over the squared range.
        law: The mechanism by which the features were released, if they were not public; None if they were released
            unchanged.
        original: The mean probability with which released features were taken to be a row's own (``mixing``); None
            without a model.
        cross_fitted: True if the model was fitted on this release, and was fitted anew without the rows to be judged.
        measures: Further measures of the best attackers without and with the released label, against true labels of at
            most 50 classes.
        answers: The answers of these two attackers, row by row.

    Guarantee:
        None about attacks: other attackers may know more from features. A pure epsilon with static features does *not*
        bound an attack's utility if features predict the label (Busa-Fekete et al. 2023, theorem 5.1); a guarantee with
        conditional features does (theorem 5.2), and such limits are passed in.
    """

    rows: tuple[AttackRow, ...]
    limits: tuple[tuple[str, float], ...]
    epsilon: float | None
    with_any_label: float | None = None
    squared: bool = False
    law: FeatureLaw | None = None
    original: float | None = None
    advantages: tuple[Advantage, ...] = ()
    cross_fitted: bool = False
    measures: tuple[AttackMeasures, ...] = ()
    answers: tuple[Inference, ...] = ()

    def utility(self, knows: str, source: Source | None = None) -> Utility:
        """Utility with that knowledge, against the best available source, or the one named."""
        utilities = [
            row.utility for row in self.rows if row.knows == knows and (source is None or row.utility.source == source)
        ]
        if not utilities:
            choices = ", ".join(sorted({row.knows for row in self.rows}))
            raise InputError(f"expected one of {choices}, found {knows!r} or another source")
        return utilities[0]


def attack_release(
    release: Release | RowRelease,
    knowledge: Knowledge = NO_KNOWLEDGE,
    *,
    loss: Loss = "wrong",
    truth: Release | None = None,
    limits: Sequence[tuple[str, float]] = (),
    groups: object = None,
    confidence: float = 0.95,
) -> AttackReport:
    """Attack the labels of a release with nothing, the released label, the features, and both, side by side.

    Args:
        release: Released labels of n rows, or rows released with their features.
        knowledge: The attacker's knowledge, besides the released labels.
        loss: Loss of wrong answers; see ``infer_labels``.
        truth: ``Release.public`` of the true labels: they were declared public, or the attack runs on the curator's
            side, where its report must stay too.
        limits: Proven bounds, each in words and as a number, such as a value of ``labeldp.bounds.attack_limit``.
        groups: With ``truth``, a public value for each row, such as a region: success is shown for each.
        confidence: Probability that one interval holds the expected utility.

    Guarantee:
        Without ``truth`` the report is computed from the release, whose guarantee covers it. With ``truth`` it
        discloses information about true labels, and no guarantee covers it.

    References:
        Busa-Fekete et al. 2023, definition 4.4; Wu et al. 2022. A model that was fitted on the released labels that
        judge it remembers their noise, so such a model is fitted anew on folds (``Knowledge``); then rows are not quite
        independent, as the intervals assume.

    Example:
        >>> from labeldp import Classes, Curator, RandomizedResponse, Release
        >>> from labeldp.audit import Knowledge, attack_release
        >>> space, labels = Classes(["no", "yes"]), ["no", "yes"] * 200
        >>> release = Curator(labels, space).randomize(RandomizedResponse(space, epsilon=0.01))
        >>> beliefs = [[0.95, 0.05], [0.05, 0.95]] * 200  # features reveal labels, however small epsilon is
        >>> report = attack_release(release, Knowledge(beliefs), truth=Release.public(labels, space))
        >>> report.utility("features").value, report.utility("features").low > 0.98
        (1.0, True)

    Raises:
        InputError: See ``infer_labels``; or the true labels are not declared public, or belong to other rows or another
            space.
    """
    level = check_confidence(confidence)
    attackers = [Knowledge(prior=knowledge.prior), *([knowledge] if knowledge.probabilities is not None else [])]
    known = release.labels if isinstance(release, RowRelease) else release
    _check_truth(known, truth)
    cases = list(itertools.product([make_attacker(release, each, loss) for each in attackers], (False, True)))
    answers = [attacker.answers(released) for attacker, released in cases]
    judged = [_judged(*case, each, truth) for case, each in zip(cases, answers, strict=True)]
    rows = [AttackRow(each.knows, each.utility(level)) for sources in judged for each in sources]
    best = [sources[0] for sources in judged]
    advantages = tuple(_advantage(best[one], best[other], level) for one, other in _COMPARED if one < len(best))
    release = known
    pure = release.guarantee.epsilon if not release.is_public and not release.guarantee.delta else None
    bounds = [(what, _checks.number(value, "a limit")) for what, value in limits]
    counts_errors = isinstance(loss, str) and loss == "wrong"
    any_label_bound = any_label_utility(cases[-1][0], pure) if pure is not None and counts_errors else None
    epsilon = None if release.is_public else release.guarantee.epsilon
    squared = isinstance(loss, str) and loss == "squared"
    law = None if release.certificate is None else release.certificate.features
    original = None if knowledge.probabilities is None else float(np.mean(cases[-1][0].original))
    return AttackReport(
        tuple(rows),
        tuple(bounds),
        epsilon,
        any_label_bound,
        squared,
        law,
        original,
        advantages,
        cases[-1][0].cross_fitted,
        _measures(cases[-2:], truth, groups, level) if counts_errors and isinstance(release.space, Classes) else (),
        tuple(answers[-2:]),
    )


def _measures(
    cases: Sequence[tuple[Attacker, bool]], truth: Release | None, groups: object, level: float
) -> tuple[AttackMeasures, ...]:
    """Measures of attackers against true labels; none without these."""
    if truth is None and groups is not None:
        raise InputError("expected true labels together with groups, found none; pass truth, or leave groups out")
    if truth is None or truth.space.size > _MOST_CLASSES:
        return ()
    return tuple(measure_attack(attacker, truth.codes, released, groups, level) for attacker, released in cases)


def attack_folder(
    directory: str | Path,
    model: object = None,
    *,
    truth: object = None,
    mixing: object = None,
    generator: object = None,
    limits: Sequence[tuple[str, float]] = (),
    confidence: float = 0.95,
) -> AttackReport:
    """Attack the labels of a release in a folder, by a model of its columns.

    Args:
        directory: The folder of a release of labels.
        model: A fitted model whose ``predict_proba`` takes the folder's columns as an Arrow table, such as
            ``labeldp.learning.tables.open_model``; None attacks with the released labels alone. A model that was
            fitted on this release is fitted anew, without the rows to be judged; see ``Knowledge``.
        truth: True labels in the order of the rows, which you declare public by passing them; or None.
        mixing: Probability that features are a row's own, for a model of true features if some were resampled; see
            ``Knowledge``. One minus the certificate's ``features.chance`` is right for a perfect generator.
        generator: The generator of resampled features, for a model that was corrected for them; see ``Knowledge``.
        limits: See ``attack_release``.
        confidence: See ``attack_release``.

    Raises:
        InputError: See ``attack_release``.
        LabelError: A true label is not in the space; the message names a row.
        VerificationError: The folder and its certificate do not agree.
    """
    release = Release.load(directory)
    features = None if model is None else public_columns(directory, release.certificate)
    public_truth = None if truth is None else Release.public(truth, release.space)
    knowledge = Knowledge(model, features=features, mixing=mixing, generator=generator)
    return attack_release(release, knowledge, truth=public_truth, limits=limits, confidence=confidence)


def bounded_mean(values: Float[np.ndarray, "n"], least: float, most: float, confidence: float) -> tuple[float, float]:
    """Confidence interval for the mean of independent bounded values, from two inequalities at half the level each.

    References:
        Hoeffding 1963, theorem 2; Maurer and Pontil 2009, theorem 4 (empirical Bernstein).
    """
    n, tail, width = len(values), (1 - confidence) / 4, most - least
    half = width * math.sqrt(math.log(1 / tail) / (2 * n))
    if n > 1:
        log_term, variance = math.log(2 / tail), float(np.var(values, ddof=1))
        half = min(half, math.sqrt(2 * variance * log_term / n) + width * 7 * log_term / (3 * (n - 1)))
    mean = float(np.mean(values))
    return max(least, mean - half), min(most, mean + half)


def any_label_utility(attacker: Attacker, epsilon: float) -> float:
    """Mean over rows of the largest utility that this belief and any released label of a pure epsilon allow.

    For a row with belief b it is the largest ``e/(e + m - 1)`` times the sum of its m largest probabilities, ``e =
    exp(epsilon)`` (Ghazi et al. 2021, theorem 3: no label-private release keeps a label more often).
    """
    parts = []
    for rows in attacker.blocks():
        ordered = -np.sort(-attacker.belief(rows), axis=1)
        sizes = np.arange(ordered.shape[1])
        parts.append((np.cumsum(ordered, axis=1) / (1 + sizes * math.exp(-epsilon))).max(axis=1))
    return float(np.mean(np.concatenate(parts)))


def unbiased_gains(attacker: Attacker, released: bool) -> tuple[Float[np.ndarray, "n"], float, float] | None:
    """Unbiased estimate of each row's utility from its released label alone, and the range of such estimates.

    Let ``u_y = sum_z P(z | y) (1 - loss(y, guess(z)))``, a known number, be the expected utility of the attack on this
    row if y is the true label. Then ``sum_y w_y(z) u_y`` has the mean ``u_y``, given y, for the unbiased vector w. (The
    naive ``w_guess(z)`` has not, if the guess depends on z.)

    Returns:
        None if the table is too large for so many rows, or differs by row, or does not identify labels.
    """
    channel, space = attacker.release.channel, attacker.release.space
    if not isinstance(channel, ClassChannel) or row_arrays(channel) or candidate_sizes(channel) is not None:
        return None
    try:
        table = channel.table()
    except ValueError:  # the table is too large
        return None
    if table.matrix.size > min(_LARGEST_LAW, _MOST_ENTRIES // len(attacker.release)):
        return None
    likelihood, weights = channel.likelihood(table.outcomes), channel.unbiased(table.outcomes)
    parts, ends = [], []
    for rows in attacker.blocks():
        belief = attacker.belief(rows)
        gains = np.zeros(belief.shape)
        if released:
            for chances, outcome_likelihood in zip(table.matrix.T, likelihood, strict=True):
                guesses, _ = attacker.best(normalised(belief, np.broadcast_to(outcome_likelihood, belief.shape)))
                gains += chances * (1 - losses_by_label(space, attacker.loss, guesses))
        else:
            gains += 1 - losses_by_label(space, attacker.loss, attacker.best(belief)[0])
        estimates = gains @ weights.T
        ends.append((estimates.min(), estimates.max()))
        parts.append(np.einsum("mk,mk->m", gains, channel.unbiased(attacker.release.codes[rows])))
    low, high = np.array(ends).T
    return np.concatenate(parts), float(low.min()), float(high.max())


@dataclass(frozen=True, eq=False)
class _Judged:
    """Gain of each row by an attacker against one source, and the range of such gains."""

    knows: str
    source: Source
    gains: Float[np.ndarray, "n"]
    least: float = 0.0
    most: float = 1.0
    counted: bool = False

    def utility(self, level: float) -> Utility:
        """Their mean and its interval, clipped to [0, 1]."""
        n, tail = len(self.gains), (1 - level) / 2
        low, high = bounded_mean(self.gains, self.least, self.most, level)
        if self.counted:
            correct = int(self.gains.sum())
            low, high = float(clopper_pearson_lower(correct, n, tail)), float(clopper_pearson_upper(correct, n, tail))
        value, low, high = np.clip([self.gains.mean(), low, high], 0.0, 1.0).tolist()
        return Utility(value, min(low, value), max(high, value), n, level, self.source)


def _judged(attacker: Attacker, released: bool, answers: Inference, truth: Release | None) -> list[_Judged]:
    """Gains of one attacker against each available source, the best source first."""
    unbiased = None if attacker.release.is_public else unbiased_gains(attacker, released)
    return [
        *([] if truth is None else [against_truth(answers, truth)]),
        *([] if unbiased is None else [_Judged(answers.knows, "released labels", *unbiased)]),
        _Judged(answers.knows, "the model itself", 1.0 - answers.expected),
    ]


def against_truth(answers: Inference, truth: Release) -> _Judged:
    """An attack's answers, judged by public true labels."""
    counted = isinstance(answers.loss, str) and not answers.loss_is_squared
    return _Judged(answers.knows, "true labels", 1.0 - answers.losses(truth.codes), counted=counted)


def _advantage(one: _Judged, other: _Judged, level: float) -> Advantage:
    """Difference of the mean gains of two attackers on the same rows, with an interval for paired differences."""
    over = one.gains - other.gains
    ends = bounded_mean(over, one.least - other.most, one.most - other.least, level)
    value, low, high = np.clip([over.mean(), *ends], -1.0, 1.0).tolist()
    return Advantage(one.knows, other.knows, value, low, high, one.source)


def _check_truth(release: Release, truth: Release | None) -> None:
    if not len(release):
        raise InputError("expected rows to attack, found none")
    if truth is not None and not (isinstance(truth, Release) and truth.is_public):
        raise InputError(
            "expected true labels that were declared public (Release.public), found something else; a report on "
            "private labels would disclose them"
        )
