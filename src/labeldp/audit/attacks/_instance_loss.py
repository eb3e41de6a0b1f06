"""The instance-based privacy loss: what features and released label together tell of one row's label.

A label of two classes is released with its features as they are, and is flipped with chance pi. In the logit
``t = ln(eta / (1 - eta))`` of the chance eta of the second class given the features, with ``c`` that of its share among
all rows, the mean loss of a row is

    H = tanh(t/2) (t - c) + (1 - 2 pi) ln((1 - pi) / pi),

since ``2 eta - 1 = tanh(t/2)``. Only its first term, the part of the features, depends on the row.

Shape. Its derivative times ``2 cosh(t/2)^2`` is ``t + sinh(t) - c``, which rises in t. So it falls up to the one t*
with ``t* + sinh(t*) = c``, which lies between 0 and c, and rises from there, to infinity on either side. At t* it is
``tanh(t*/2) (t* - c) = -tanh(t*/2) sinh(t*) = 1 - cosh(t*)``, which is at most 0. (As a function of eta it is strictly
convex: its second derivative is ``2 / w + (2 w + (2 eta - 1)^2) / w^2`` for ``w = eta (1 - eta)``.) Changing the names
of the two classes changes the signs of t and c, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import expit, logit

from labeldp import _checks
from labeldp.errors import EpsilonError, InputError

#: Halvings of an interval of logits, after which doubles have no number between its ends.
_HALVINGS = 80
#: From here on ``tanh(t/2)`` is above 0.76.
_STEEP = 2.0
_ROUNDING = 1e-12


@dataclass(frozen=True)
class InstanceLoss:
    """How much features and released label together tell of a row's label, where labels are flipped with some chance.

    Attributes:
        flip: pi, the chance that the other one of two classes is released; above 0 and at most 1/2. It is half of
            the chance lambda that a class is drawn anew, evenly from both (``ln((2 - lambda) / lambda)`` is epsilon).
        p_plus: The share of the second declared class among all rows, strictly between 0 and 1.

    Guarantee:
        Losses are logarithms of the factor by which the odds of a label grow for one who sees features and released
        label. They describe a population; they are no differential privacy.

    References:
        Busa-Fekete et al. 2023, theorems 6.2 and 6.4 and Lemma D.1. The paper prints ``P(released = y | Y = 1 - y)`` in
        theorem 6.4 where ``P(released = z | Y = 1 - y)`` is meant, and takes H for symmetric around 1/2, which it is
        where ``p_plus`` is 1/2 alone.

    Example:
        >>> loss = InstanceLoss(flip=0.01, p_plus=0.25)
        >>> round(loss.epsilon, 3), loss.average([0.01, 0.25, 0.9]).round(3).tolist()
        (4.595, [7.93, 4.503, 7.14])
        >>> [round(float(chance), 4) for chance in loss.chances_at(loss.epsilon)]
        [0.2205, 0.5369]
    """

    flip: float
    p_plus: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "flip", check_flip(self.flip))
        object.__setattr__(self, "p_plus", check_share(self.p_plus))

    @property
    def epsilon(self) -> float:
        """The static epsilon of such labels, ``ln((1 - pi) / pi)``: the most that the released label alone tells."""
        return float(-logit(self.flip))

    @property
    def of_label(self) -> float:
        """What the released label tells on average, ``(1 - 2 pi) epsilon``; the same for all rows."""
        return (1.0 - 2.0 * self.flip) * self.epsilon

    @property
    def least(self) -> tuple[float, float]:
        """The chance of the second class at which the average loss is smallest, and that loss.

        The chance lies between 1/2 and ``p_plus``.
        """
        turn = turning_logit(float(logit(self.p_plus)))
        return float(expit(turn)), 1.0 - float(np.cosh(turn)) + self.of_label

    def average(self, chances: object) -> Float[np.ndarray, "*rows"]:
        """H, the mean loss over a row's label and its released label; infinite where the features tell the label.

        Args:
            chances: Of the second class, given the features of each row, between 0 and 1.
        """
        return np.asarray(feature_part(_logits(chances), float(logit(self.p_plus))) + self.of_label)

    def each(self, chances: object) -> Float[np.ndarray, "*rows 2 2"]:
        """The loss for each label y and released label z of each row: theorem 6.4, with z where the paper prints y.

        ``ln P(z | y) / P(z | 1-y) + ln P(y | x) / P(1-y | x) + ln P(1-y) / P(y)``.

        Args:
            chances: Of the second class, given the features of each row, between 0 and 1.

        Returns:
            Losses, the last two axes being y and z.
        """
        told = np.asarray(_logits(chances) - logit(self.p_plus))[..., None, None]
        sign = np.array([-1.0, 1.0])
        return np.asarray(sign[:, None] * told + sign[:, None] * sign * self.epsilon)

    def chances_at(self, tau: object) -> tuple[Float[np.ndarray, "*taus"], Float[np.ndarray, "*taus"]]:
        """Both inverses of H: rows lose tau or more where the chance is at most the first, or at least the second.

        Args:
            tau: Losses in nats, none below the least.

        Raises:
            InputError: There is no row with such a loss: tau is below the minimum of H, where all rows lose more.
        """
        wanted = np.asarray(np.asarray(tau, dtype=np.float64) - self.of_label)
        centre = float(logit(self.p_plus))
        least = 1.0 - np.cosh(turning_logit(centre))
        if not (wanted >= least - _ROUNDING * (1.0 + self.of_label)).all():
            raise InputError(
                f"expected tau of at least {self.least[1]:.6g}, the minimum of H, found {np.min(np.asarray(tau)):.6g}; "
                "every row loses at least the minimum, so the share of rows beyond a smaller tau is 1"
            )
        wanted = np.asarray(np.maximum(wanted, least))
        lower, upper = -_upper_logits(wanted, -centre), _upper_logits(wanted, centre)
        return np.asarray(expit(lower)), np.asarray(expit(upper))


def feature_part(logits: Float[np.ndarray, "*rows"], centre: float) -> Float[np.ndarray, "*rows"]:
    """``tanh(t/2) (t - c)``, infinite where t is."""
    return np.asarray(np.tanh(logits / 2) * (logits - centre))


def turning_logit(centre: float) -> float:
    """The t with ``t + sinh(t) = c``, where the part of the features is smallest."""
    low, high = min(0.0, centre), max(0.0, centre)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if middle + np.sinh(np.clip(middle, -700.0, 700.0)) < centre else (low, middle)
    return (low + high) / 2


def _upper_logits(wanted: Float[np.ndarray, "*taus"], centre: float) -> Float[np.ndarray, "*taus"]:
    """The larger t with ``tanh(t/2) (t - c) = wanted``, by halving.

    From ``t = c`` and 2 on, the left side is at least ``0.76 (t - c)``, which bounds t from above.
    """
    low = np.full(wanted.shape, turning_logit(centre))
    high = np.maximum(_STEEP, centre + np.maximum(wanted, 0.0) / np.tanh(_STEEP / 2))
    for _ in range(_HALVINGS):
        middle = low + (high - low) / 2
        below = feature_part(np.asarray(middle), centre) < wanted
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(high)


def check_flip(value: object) -> float:
    """A chance of being flipped, above 0 and at most 1/2."""
    found = _checks.number(value, "flip")
    if not 0.0 < found <= 0.5:
        raise EpsilonError(
            f"expected flip above 0 and at most 0.5, found {found!r}; it is the chance that the other class is released"
        )
    return found


def check_share(value: object) -> float:
    """The share of a class among all rows."""
    found = _checks.number(value, "p_plus")
    if not 0.0 < found < 1.0:
        raise InputError(
            f"expected p_plus strictly between 0 and 1, found {found!r}; give the share of the second class"
        )
    return found


def _logits(chances: object) -> Float[np.ndarray, "*rows"]:
    """The logits of chances of the second class."""
    found = np.asarray(chances, dtype=np.float64)
    if not ((found >= 0.0) & (found <= 1.0)).all():
        raise InputError("expected chances between 0 and 1, found others, or NaN")
    return np.asarray(logit(found))
