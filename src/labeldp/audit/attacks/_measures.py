"""Measures of an attack against true labels, as the literature on attacks reports them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labeldp._shapes import Bool, Float, Int
from labeldp.audit.attacks._class_probability import Bracket, mean_lower_bound
from labeldp.audit.attacks._inference import Attacker
from labeldp.errors import InputError

#: Rates of false positives at which true positives are counted.
FALSE_POSITIVES = (0.001, 0.01)
#: Certainties of an attacker, and the share of rows that is the worst off.
_CERTAINTIES, _DECILE = (0.95, 0.99), 0.1
_CURVE_POINTS = 201
_MOST_GROUPS = 50


@dataclass(frozen=True)
class Counted:
    """A share of some rows that were counted, with its interval.

    Attributes:
        rows: Number of rows counted.
        share: The share, with an exact interval; from 0 to 1 around 1/2 if there were no rows.
    """

    rows: int
    share: Bracket


@dataclass(frozen=True)
class RateAt:
    """True positives at a low rate of false positives (Carlini et al. 2022).

    Attributes:
        aimed: The rate of false positives that the threshold was chosen for, on a random half of each class.
        false: Rate of false positives on the other half: rows of other classes taken for this one.
        true: Rate of true positives there.
        needed: Rows of other classes that a half must have for such a threshold, where it had too few; else 0.
    """

    aimed: float
    false: Counted
    true: Counted
    needed: int = 0


@dataclass(frozen=True, eq=False)
class ClassMeasures:
    """The attack on one class: is this row's label that class?

    Attributes:
        label: The class.
        rates: True positives at low rates of false positives.
        area: Area under the curve: probability that a row of the class has a higher posterior than one of another.
        curve: False and true positive rates over all thresholds, shape (2, t), both increasing.
        right: Share of the rows of the class that are guessed right.
    """

    label: object
    rates: tuple[RateAt, ...]
    area: float
    curve: Float[np.ndarray, "2 t"]
    right: Counted


@dataclass(frozen=True, eq=False)
class AttackMeasures:
    """An attack in the measures of the literature. Each interval holds by itself, at one confidence.

    Attributes:
        knows: The attacker's knowledge.
        classes: One entry for each class.
        sure: For each certainty the share of rows whose label the attacker gives a posterior of at least that.
        precision: For each certainty the share of these rows whose label is the guessed one.
        worst: Share of right guesses among the tenth of the rows whose labels the attacker is surest of.
        multiplicative: Mean growth of the log odds of the true label by the released label, in nats, and the largest.
            The multiplicative reconstruction advantage; the additive one is the difference of two attackers' ``right``.
        groups: Share of right guesses in each public group, by its name.
        confidence: Probability that one interval holds.

    Guarantee:
        None: it is computed from true labels, which must be public, or stay where it is.

    References:
        Carlini et al. 2022 for rates at few false positives; Busa-Fekete et al. 2024 for the advantages.
    """

    knows: str
    classes: tuple[ClassMeasures, ...]
    sure: tuple[tuple[float, Counted], ...]
    precision: tuple[tuple[float, Counted], ...]
    worst: Counted
    multiplicative: tuple[float, float]
    groups: tuple[tuple[str, Counted], ...]
    confidence: float


def measure_attack(
    attacker: Attacker, codes: Int[np.ndarray, "n"], released: bool, groups: object, level: float
) -> AttackMeasures:
    """Measure the attack of one attacker against true labels.

    Args:
        attacker: The attacker, whose model was not fitted on these rows.
        codes: True classes.
        released: True if the attacker sees released labels.
        groups: A public value for each row, or None.
        level: Confidence of each interval.
    """
    tail = (1.0 - level) / 2.0
    posterior = np.concatenate([attacker.posterior(rows, released) for rows in attacker.blocks()])
    right = np.argmax(posterior, axis=1) == codes
    certainty = posterior.max(axis=1)
    half = _halves(codes)
    labels = list(attacker.release.space.points)
    exposed = np.argsort(-certainty, kind="stable")[: max(1, round(_DECILE * len(codes)))]
    growth = _growth(attacker, codes) if released else np.zeros(1)
    return AttackMeasures(
        knows=attacker.knows(released),
        classes=tuple(
            _class_measures(label, posterior[:, code], codes == code, right, half, tail)
            for code, label in enumerate(labels)
            if 0 < int((codes == code).sum()) < len(codes)
        ),
        sure=tuple((each, counted(certainty >= each, tail)) for each in _CERTAINTIES),
        precision=tuple((each, counted(right[certainty >= each], tail)) for each in _CERTAINTIES),
        worst=counted(right[exposed], tail),
        multiplicative=(float(growth.mean()), float(growth.max())),
        groups=tuple((name, counted(right[rows], tail)) for name, rows in _groups(groups, len(codes))),
        confidence=level,
    )


def counted(events: Bool[np.ndarray, "m"], tail: float) -> Counted:
    """The share of events, and an interval for the mean of their probabilities, which may differ."""
    rows, held = len(events), int(events.sum())
    if not rows:
        return Counted(0, Bracket(0.0, 0.5, 1.0))
    ends = mean_lower_bound(np.array([held, rows - held], dtype=np.float64), rows, tail)
    return Counted(rows, Bracket(float(ends[0]), held / rows, 1.0 - float(ends[1])))


def _halves(codes: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
    """A random half of each class: whether a half has rows enough is then known by the counts of classes alone."""
    order = np.random.default_rng().permutation(len(codes))
    half = np.zeros(len(codes), dtype=bool)
    half[order[np.argsort(codes[order], kind="stable")][::2]] = True
    return half


def _class_measures(
    label: object,
    scores: Float[np.ndarray, "n"],
    positive: Bool[np.ndarray, "n"],
    right: Bool[np.ndarray, "n"],
    half: Bool[np.ndarray, "n"],
    tail: float,
) -> ClassMeasures:
    """The attack on one class, by the posterior of that class."""
    false, true = _rates_over_thresholds(scores, positive)
    area = float(np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2.0))
    points = np.unique(np.linspace(0, len(false) - 1, _CURVE_POINTS).astype(np.int64))
    rates = tuple(_rate_at(aimed, scores, positive, half, tail) for aimed in FALSE_POSITIVES)
    return ClassMeasures(label, rates, area, np.stack([false[points], true[points]]), counted(right[positive], tail))


def _rates_over_thresholds(
    scores: Float[np.ndarray, "n"], positive: Bool[np.ndarray, "n"]
) -> tuple[Float[np.ndarray, "t"], Float[np.ndarray, "t"]]:
    """False and true positive rates from the highest threshold to the lowest; equal scores are taken together."""
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    hits = np.cumsum(positive[order])[last]
    return tuple(  # type: ignore[return-value]
        np.concatenate([[0.0], counts / total])
        for counts, total in ((last + 1 - hits, int((~positive).sum())), (hits, int(positive.sum())))
    )


def _rate_at(
    aimed: float,
    scores: Float[np.ndarray, "n"],
    positive: Bool[np.ndarray, "n"],
    half: Bool[np.ndarray, "n"],
    tail: float,
) -> RateAt:
    """True positives of the rows outside a half, by a threshold that its rows of other classes set.

    The threshold is not chosen on the rows that are counted: there, the luckiest threshold would look better than it
    is, most of all at rates of a few rows.
    """
    others = -np.sort(-scores[half & ~positive])
    allowed = int(aimed * len(others))
    if not allowed:
        nothing = counted(np.zeros(0, dtype=bool), tail)
        return RateAt(aimed, nothing, nothing, needed=round(1.0 / aimed))
    taken = scores > others[allowed]
    return RateAt(aimed, counted(taken[~half & ~positive], tail), counted(taken[~half & positive], tail))


def _growth(attacker: Attacker, codes: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Growth of the log odds of the true label by the released one, ``ln v_y(z) - ln E[v_j(z) | j != y]``.

    The mean is over the attacker's belief about the other classes; without any belief in them nothing grows. It is at
    most the epsilon of the labels with static features, for every row.
    """
    parts = []
    for rows in attacker.blocks():
        belief, place = np.array(attacker.belief(rows)), codes[rows][:, None]
        likelihood = attacker.release.channel.take(rows).likelihood(attacker.release.codes[rows])
        true = np.take_along_axis(likelihood, place, axis=1)[:, 0]
        np.put_along_axis(belief, place, 0.0, axis=1)
        others = belief.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            growth = np.log(true) - np.log((belief * likelihood).sum(axis=1) / others)
        parts.append(np.where(others > 0.0, growth, 0.0))
    return np.concatenate(parts)


def _groups(groups: object, rows: int) -> list[tuple[str, Bool[np.ndarray, "n"]]]:
    """The rows of each public group, by its name."""
    if groups is None:
        return []
    values = np.asarray(groups, dtype=str)
    found = np.unique(values)
    if values.shape != (rows,) or len(found) < 2 or len(found) > _MOST_GROUPS:
        raise InputError(
            f"expected a public group for each of {rows} rows, 2 to {_MOST_GROUPS} groups, found {len(found)} in shape "
            f"{values.shape}; name a column of few values, such as a region"
        )
    return [(str(name), values == name) for name in found]
