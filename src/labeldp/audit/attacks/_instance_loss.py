"""Instance-based privacy loss: leakage of one row's label by its features and released label together.

A label of two classes is released with its features unchanged, and is flipped with probability pi. Let eta be the
probability of the second class given the features, ``t = ln(eta / (1 - eta))`` its logit, and ``c`` the logit of the
class's share among all rows. The mean loss of a row is

    H = tanh(t/2) (t - c) + (1 - 2 pi) ln((1 - pi) / pi),

since ``2 eta - 1 = tanh(t/2)``. Only the first term, that of the features, depends on the row.

Shape. The derivative of H times ``2 cosh(t/2)^2`` is ``t + sinh(t) - c``, which increases in t. So H decreases up to
the only t* with ``t* + sinh(t*) = c``, which lies between 0 and c, and increases beyond it, to infinity on either side.
Its first term at t* is ``tanh(t*/2) (t* - c) = -tanh(t*/2) sinh(t*) = 1 - cosh(t*)``, which is at most 0. (As a
function of eta, H is strictly convex: its second derivative is ``2 / w + (2 w + (2 eta - 1)^2) / w^2`` for ``w = eta (1
- eta)``.) Exchanging the names of the two classes changes the signs of t and c, and nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit, logsumexp

from labeldp import _checks
from labeldp._shapes import Float
from labeldp.errors import EpsilonError, InputError
from labeldp.privacy.channels import Channel

#: Bisections of an interval of logits, after which no double lies between its ends.
_HALVINGS = 80
#: A logit from which on ``tanh(t/2)`` is above 0.76.
_STEEP = 2.0
_ROUNDING = 1e-12
#: Largest relative difference of a certified epsilon and that of a flip probability, if they are of one channel.
_SAME = 1e-9
#: Largest difference of ``p_plus`` and the mean of the chances, where they must be equal.
_CLOSE = 1e-9


@dataclass(frozen=True)
class InstanceLoss:
    """Leakage of a row's label by features and released label together, if labels are flipped at random.

    Attributes:
        flip: pi, the probability that the other one of two classes is released; above 0 and at most 1/2. It is half of
            the probability lambda that a class is drawn anew, uniformly from both (``ln((2 - lambda) / lambda)`` is
            epsilon).
        p_plus: The share of the second declared class among all rows, strictly between 0 and 1.

    Guarantee:
        None. Losses are logarithms of the factor by which an observer of features and released label updates the odds
        of a label. They describe a population; they are not differential privacy.

    References:
        Busa-Fekete et al. 2023, theorems 6.2 and 6.4 and Lemma D.1. The paper prints ``P(released = y | Y = 1 - y)`` in
        theorem 6.4 where ``P(released = z | Y = 1 - y)`` is meant, and takes H to be symmetric around 1/2, which holds
        only if ``p_plus`` is 1/2.

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
        """Epsilon of the labels with static features, ``ln((1 - pi) / pi)``: the largest leakage of the label alone."""
        return float(-logit(self.flip))

    @property
    def of_label(self) -> float:
        """Mean leakage of the released label, ``(1 - 2 pi) epsilon``; the same for all rows."""
        return (1.0 - 2.0 * self.flip) * self.epsilon

    @property
    def least(self) -> tuple[float, float]:
        """Probability of the second class at which the mean loss is smallest, and that loss.

        The probability lies between 1/2 and ``p_plus``.
        """
        turn = turning_logit(float(logit(self.p_plus)))
        return float(expit(turn)), 1.0 - float(np.cosh(turn)) + self.of_label

    def average(self, chances: object) -> Float[np.ndarray, "*rows"]:
        """H, the mean loss over a row's label and its released label; infinite if the features determine the label.

        Args:
            chances: Probabilities of the second class given the features of each row, between 0 and 1.
        """
        return np.asarray(feature_part(_logits(chances), float(logit(self.p_plus))) + self.of_label)

    def each(self, chances: object) -> Float[np.ndarray, "*rows 2 2"]:
        """The loss for each label y and released label z of each row: theorem 6.4, with z where the paper prints y.

        ``ln P(z | y) / P(z | 1-y) + ln P(y | x) / P(1-y | x) + ln P(1-y) / P(y)``.

        Args:
            chances: Probabilities of the second class given the features of each row, between 0 and 1.

        Returns:
            Losses, the last two axes being y and z.
        """
        evidence = np.asarray(_logits(chances) - logit(self.p_plus))[..., None, None]
        signs = np.array([-1.0, 1.0])
        return np.asarray(signs[:, None] * evidence + signs[:, None] * signs * self.epsilon)

    def divergence(self, chances: object, alpha: float) -> tuple[float, float]:
        """Conditional divergence of the release of rows with these features: theorem 6.2, for known probabilities.

        ``D_alpha(P_y || P_(1-y)) = ln E[exp((alpha-1) nu(y, Z, X)) | Y = y] / (alpha-1)``, P_y the distribution of
        features and released label of a row with label y.

        Args:
            chances: Probabilities of the second class given the features of each row, between 0 and 1, shape (n,). The
                features are those of one of these rows, picked at random.
            alpha: The order, above 1 and finite.

        Returns:
            The divergences for y the first and the second class, in nats; infinite if features determine a label.

        Example:
            >>> [round(value, 3) for value in InstanceLoss(flip=0.2, p_plus=0.5).divergence([0.1, 0.9], 2.0)]
            [3.272, 3.272]
        """
        order, values = _checks.number(alpha, "alpha"), np.asarray(chances, dtype=np.float64)
        if not 1.0 < order < np.inf:
            raise InputError(f"expected an order above 1 and finite, found {order!r}; 2 is usual")
        if abs(float(values.mean()) - self.p_plus) > _CLOSE:
            raise InputError(
                f"expected chances with a mean of p_plus, {self.p_plus:g}, found {values.mean():g}; p_plus is the "
                "share of the second class among the same rows"
            )
        losses = self.each(values)
        of_label = np.stack([(1.0 - values) / (1.0 - self.p_plus), values / self.p_plus], axis=1)
        of_released = np.array([[1.0 - self.flip, self.flip], [self.flip, 1.0 - self.flip]])
        chance = of_label[:, :, None] * of_released / len(values)
        used = np.where(chance > 0.0, (order - 1.0) * losses, 0.0)
        first, second = (logsumexp(used, b=chance, axis=(0, 2)) / (order - 1.0)).tolist()
        return first, second

    def chances_at(self, tau: object) -> tuple[Float[np.ndarray, "*taus"], Float[np.ndarray, "*taus"]]:
        """Both inverses of H: rows lose tau or more up to the first probability, and from the second one on.

        Args:
            tau: Losses in nats, none below the least.

        Raises:
            InputError: A tau is below the minimum of H, which all rows exceed.
        """
        feature_losses = np.asarray(np.asarray(tau, dtype=np.float64) - self.of_label)
        centre = float(logit(self.p_plus))
        least = 1.0 - np.cosh(turning_logit(centre))
        if not (feature_losses >= least - _ROUNDING * (1.0 + self.of_label)).all():
            raise InputError(
                f"expected tau of at least {self.least[1]:.6g}, the minimum of H, found {np.min(np.asarray(tau)):.6g}; "
                "no row has a smaller loss, so the share of rows beyond a smaller tau is 1"
            )
        feature_losses = np.asarray(np.maximum(feature_losses, least))
        lower, upper = -_upper_logits(feature_losses, -centre), _upper_logits(feature_losses, centre)
        return np.asarray(expit(lower)), np.asarray(expit(upper))


def label_epsilon(flip: float, channel: Channel) -> float:
    """Epsilon of labels that are flipped with a probability: the certified one of a channel's rows, if they are."""
    computed = InstanceLoss(flip, 0.5).epsilon
    certified = (row.epsilon for row, _ in channel.units)
    return next((each for each in certified if math.isclose(each, computed, rel_tol=_SAME)), computed)


def feature_part(logits: Float[np.ndarray, "*rows"], centre: float) -> Float[np.ndarray, "*rows"]:
    """Loss due to the features, ``tanh(t/2) (t - c)``; infinite where t is."""
    return np.asarray(np.tanh(logits / 2) * (logits - centre))


def turning_logit(centre: float) -> float:
    """The t with ``t + sinh(t) = c``, at which the loss due to the features is smallest."""
    low, high = min(0.0, centre), max(0.0, centre)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if middle + np.sinh(np.clip(middle, -700.0, 700.0)) < centre else (low, middle)
    return (low + high) / 2


def _upper_logits(losses: Float[np.ndarray, "*taus"], centre: float) -> Float[np.ndarray, "*taus"]:
    """The larger t with ``tanh(t/2) (t - c) = losses``, by bisection.

    From ``t = c`` and 2 on, the left side is at least ``0.76 (t - c)``, which bounds t from above.
    """
    low = np.full(losses.shape, turning_logit(centre))
    high = np.maximum(_STEEP, centre + np.maximum(losses, 0.0) / np.tanh(_STEEP / 2))
    for _ in range(_HALVINGS):
        middle = low + (high - low) / 2
        below = feature_part(np.asarray(middle), centre) < losses
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(high)


def check_flip(value: object) -> float:
    """Validate a flip probability, above 0 and at most 1/2."""
    flip = _checks.number(value, "flip")
    if not 0.0 < flip <= 0.5:
        raise EpsilonError(
            f"expected flip, the probability of releasing the other class, above 0 and at most 0.5, found {flip!r}"
        )
    return flip


def check_share(value: object) -> float:
    """Validate the share of a class among all rows."""
    return _checks.share(value, "p_plus", "()", "; give the share of the second class")


def _logits(chances: object) -> Float[np.ndarray, "*rows"]:
    """Logits of probabilities of the second class."""
    values = np.asarray(chances, dtype=np.float64)
    if not ((values >= 0.0) & (values <= 1.0)).all():
        raise InputError("expected probabilities between 0 and 1, found others, or NaN")
    return np.asarray(logit(values))
