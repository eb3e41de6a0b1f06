"""Label inference: what somebody who sees a release would say of each row's true label.

With a belief ``b_y`` about a row's label beforehand, a released label z makes it ``b_y v_y(z)`` up to a factor, where
``v_y(z) = P(z | y)`` is the channel's likelihood. The answer with the least expected loss under that is Bayes-optimal:
no other use of the same knowledge does better on average.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from labeldp import _checks
from labeldp.errors import InputError, PriorError
from labeldp.privacy import Interval, LabelSpace
from labeldp.privacy.channels import ClassChannel, candidate_sizes, nearest_distributions
from labeldp.release import Release, RowRelease

_ENTRIES_PER_BLOCK = 1 << 22
_TOLERANCE = 1e-6
_ROUNDS, _ROWS_OF_ROUNDS = 300, 20_000

Loss = Literal["wrong", "squared"] | np.ndarray


@runtime_checkable
class Model(Protocol):
    """What predicts labels from features: a classifier of scikit-learn, or a model that ``labeldp learn`` wrote."""

    def predict_proba(self, X: Any) -> Any:  # noqa: N803 (scikit-learn's name)
        """P(label | features) for each row, shape (n, k)."""


@dataclass(frozen=True, eq=False)
class Inference:
    """What an attacker says of each row's label.

    Attributes:
        space: The declared label space.
        knows: What the attacker uses, in words.
        loss: ``"wrong"``, ``"squared"``, or a matrix ``[true, said]`` of losses in [0, 1].
        guesses: What is said of each row: class codes, or numbers in the label's unit if the loss is squared.
        expected: The expected loss of each answer under the attacker's own belief, between 0 and 1.
    """

    space: LabelSpace
    knows: str
    loss: Loss
    guesses: np.ndarray
    expected: Float[np.ndarray, "n"]

    def __post_init__(self) -> None:
        for name in ("guesses", "expected"):
            array = np.array(getattr(self, name))
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.guesses)

    def labels(self) -> np.ndarray:
        """The answers as labels: declared classes, or numbers."""
        return self.guesses if self.loss_is_squared else np.asarray(self.space.points)[self.guesses]

    @property
    def loss_is_squared(self) -> bool:
        """Whether answers are numbers, and lose the squared distance over the squared range."""
        return isinstance(self.loss, str) and self.loss == "squared"

    def losses(self, codes: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """What each answer loses if these are the true labels, between 0 and 1."""
        return lost(self.space, self.loss, codes, self.guesses)


def infer_labels(
    release: Release | RowRelease,
    probabilities: object = None,
    prior: object = None,
    *,
    features: object = None,
    released: bool = True,
    mixing: object = None,
    loss: Loss = "wrong",
) -> Inference:
    """The Bayes-optimal answer for each row, from what the attacker knows.

    Args:
        release: Released labels of n rows, of any channel; or rows released with their features.
        probabilities: P(true label | features) for each row, shape (n, k) with classes in declared order; or a fitted
            model with ``predict_proba``, to which ``features`` are given. None: the features are not used.
        prior: P(true label), shape (k,). By default it is estimated from the release where it is needed.
        features: Features of the rows, for a model; by default those that were released with the labels.
        released: Whether the released label is used too. Without it, and without ``probabilities``, every row gets the
            trivial answer, such as the most common class.
        mixing: For features that were redrawn with some chance: the chance s that those released are the row's own,
            one number or one for each row (``original_share``). What is believed from the features is then
            ``s P(y | x) + (1 - s) P(y)``. It is for a model of *true* features; one that was fitted on released rows
            has learned the mixture already.
        loss: ``"wrong"``: 1 for a wrong answer (of numbers: the likeliest grid point). ``"squared"``: numbers of an
            ``Interval``, the squared distance over the squared range (the posterior mean). Or losses in [0, 1] as a
            matrix [true, said] of shape (k, k).

    Guarantee:
        It is computed from a release, so the release's guarantee covers it at no further cost. It shows what that
        guarantee does *not* cover: with static features, what features tell of labels.

    References:
        Wu et al. 2022, for inference with the Bayes classifier; Busa-Fekete et al. 2023, definition 4.4. For redrawn
        features: with redraw chance r and generator density q, ``(1-r) p(x|y) pi_y + r q(x) pi_y`` is ``p(y|x)`` and
        ``pi_y`` mixed in the shares of ``original_share``.

    Example:
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> space = Classes(["no", "yes"])
        >>> release = Curator(["no", "yes"], space).randomize(RandomizedResponse(space, epsilon=0.1))
        >>> found = infer_labels(release, probabilities=[[0.9, 0.1], [0.2, 0.8]])  # features give it away
        >>> found.labels().tolist()
        ['no', 'yes']

    Raises:
        InputError: Shapes do not fit, a row is no distribution, the model fails, or the loss is none.
        PriorError: The prior is no distribution, or is needed and cannot be estimated.
    """
    attacker = attacker_of(release, probabilities, prior, features, mixing, loss)
    return attacker.answers(released)


def label_posterior(
    release: Release | RowRelease, probabilities: object = None, prior: object = None, *, mixing: object = None
) -> Float[np.ndarray, "n k"]:
    """P(true label | released label, features) for each row; see ``infer_labels``.

    Example:
        >>> from labeldp import Classes, Release
        >>> release = Release.public(["no"], Classes(["no", "yes"]))
        >>> label_posterior(release, prior=[0.5, 0.5]).round(3).tolist()
        [[1.0, 0.0]]
    """
    attacker = attacker_of(release, probabilities, prior, None, mixing, "wrong")
    return attacker.posterior(slice(0, len(attacker.release)), True)


def original_share(replaced: float, log_ratio: object) -> Float[np.ndarray, "..."]:
    """The chance that released features are the row's own, if they are redrawn with a known chance.

    ``(1-r) p(x) / ((1-r) p(x) + r q(x))``, with p the density of true features and q that of the generator. The
    function of this name in ``labeldp.learning.sklearn`` estimates it from released features and generated ones.

    Args:
        replaced: r, between 0 and 1.
        log_ratio: ``ln(p(x) / q(x))`` for each row, known or estimated by a classifier that tells true features from
            generated ones; 0 for a generator that is right.

    Example:
        >>> original_share(0.25, [0.0, 50.0]).round(3).tolist()
        [0.75, 1.0]
    """
    r = _checks.number(replaced, "replaced")
    ratio = np.asarray(log_ratio, dtype=np.float64)
    if not 0 <= r <= 1 or np.isnan(ratio).any():
        raise InputError("expected a chance between 0 and 1 and logarithms of ratios, found something else")
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(1 / (1 + np.exp(np.log(r) - np.log1p(-r) - ratio))) if r < 1 else np.zeros_like(ratio)


@dataclass(frozen=True, eq=False)
class Attacker:
    """What an attacker knows of rows: beliefs from features, the prior, the released labels; and what errors cost."""

    release: Release
    features: Float[np.ndarray, "n k"] | None
    prior: Float[np.ndarray, "k"]
    original: Float[np.ndarray, "..."]
    loss: Loss

    def belief(self, rows: slice) -> Float[np.ndarray, "m k"]:
        """What is believed of some rows before their released labels are seen."""
        count = len(range(*rows.indices(len(self.release))))
        if self.features is None:
            return np.broadcast_to(self.prior, (count, self.release.space.size))
        share = self.original[rows, None] if self.original.ndim else self.original
        return np.asarray(share * self.features[rows] + (1 - share) * self.prior)

    def posterior(self, rows: slice, released: bool) -> Float[np.ndarray, "m k"]:
        """The belief, with what the released labels add."""
        belief = self.belief(rows)
        if not released:
            return belief
        part = self.release.channel.take(rows)
        return normalised(belief, part.likelihood(self.release.codes[rows]))

    def answers(self, released: bool) -> Inference:
        """The best answers."""
        said, expected = zip(*(self.best(self.posterior(rows, released)) for rows in self.blocks()), strict=True)
        return Inference(
            self.release.space, self._knows(released), self.loss, np.concatenate(said), np.concatenate(expected)
        )

    def best(self, posterior: Float[np.ndarray, "m k"]) -> tuple[np.ndarray, Float[np.ndarray, "m"]]:
        """The answers with the least expected loss, and that loss; the first of several as good."""
        return best_answers(self.release.space, self.loss, posterior)

    def blocks(self) -> Iterator[slice]:
        """Parts of the rows whose vectors fit in memory; one at least."""
        step = max(1, _ENTRIES_PER_BLOCK // self.release.space.size)
        yield from (slice(low, low + step) for low in range(0, max(len(self.release), 1), step))

    def _knows(self, released: bool) -> str:
        seen = [
            *(["features"] if self.features is not None else []),
            *(["the released label"] if released else []),
        ]
        return " and ".join(seen) or "nothing of the row"


def attacker_of(
    release: Release | RowRelease, probabilities: object, prior: object, features: object, mixing: object, loss: Loss
) -> Attacker:
    """An attacker whose knowledge was checked."""
    if isinstance(release, RowRelease):
        features = release.features if features is None else features
        release = release.labels
    if not isinstance(release, Release):
        raise InputError(f"expected a Release, found {type(release).__name__}; an attack starts from what was released")
    told = None if probabilities is None else _told(release, probabilities, features)
    original = _shares(mixing, len(release), told is None)
    if prior is not None:
        known = checked_prior(prior, release.space)
    elif told is None or bool((original < 1).any()):
        known = estimated_prior(release)
    else:
        known = np.full(release.space.size, 1 / release.space.size)  # it has no weight
    return Attacker(release, told, known, original, checked_loss(loss, release.space))


def best_answers(
    space: LabelSpace, loss: Loss, posterior: Float[np.ndarray, "m k"]
) -> tuple[np.ndarray, Float[np.ndarray, "m"]]:
    """The answers with the least expected loss under given chances of the labels, and that loss."""
    if isinstance(loss, np.ndarray):
        costs = posterior @ loss
        said = np.argmin(costs, axis=1)
        return said, costs[np.arange(len(said)), said]
    if loss == "squared":
        points = np.asarray(space.points, dtype=np.float64)
        mean = posterior @ points
        spread = np.einsum("mk,mk->m", posterior, (points - mean[:, None]) ** 2)
        return mean, spread / (points[-1] - points[0]) ** 2
    said = np.argmax(posterior, axis=1)
    return said, 1 - posterior[np.arange(len(said)), said]


def lost_by_label(space: LabelSpace, loss: Loss, said: np.ndarray) -> Float[np.ndarray, "m k"]:
    """What each answer loses for every true label."""
    if isinstance(loss, np.ndarray):
        return np.asarray(loss.T[said])
    if loss == "squared":
        points = np.asarray(space.points, dtype=np.float64)
        return np.asarray(((points - said[:, None]) / (points[-1] - points[0])) ** 2)
    return np.asarray(np.arange(space.size) != said[:, None], dtype=np.float64)


def lost(space: LabelSpace, loss: Loss, codes: Int[np.ndarray, "n"], said: np.ndarray) -> Float[np.ndarray, "n"]:
    """What each answer loses if the codes are the true labels."""
    if isinstance(loss, np.ndarray):
        return np.asarray(loss[codes, said])
    if loss == "squared":
        points = np.asarray(space.points, dtype=np.float64)
        return np.asarray(((points[codes] - said) / (points[-1] - points[0])) ** 2)
    return np.asarray(codes != said, dtype=np.float64)


def normalised(belief: Float[np.ndarray, "m k"], likelihood: Float[np.ndarray, "m k"]) -> Float[np.ndarray, "m k"]:
    """A belief times a likelihood, as distributions; what was believed impossible and still happened is left open."""
    joint = belief * likelihood
    total = joint.sum(axis=1, keepdims=True)
    impossible = ~(total[:, 0] > 0)
    if impossible.any():
        joint[impossible] = likelihood[impossible]
        total[impossible] = likelihood[impossible].sum(axis=1, keepdims=True)
    return np.asarray(joint / total)


def checked_loss(loss: Loss, space: LabelSpace) -> Loss:
    """A loss that labels of this space can have."""
    if isinstance(loss, str):
        if loss not in ("wrong", "squared") or (loss == "squared" and not isinstance(space, Interval)):
            raise InputError(
                "expected loss='wrong', 'squared' for labels of an Interval, or a matrix of losses, found another"
            )
        return loss
    matrix: np.ndarray = np.array(loss, dtype=np.float64)
    if matrix.shape != (space.size, space.size) or not ((matrix >= 0) & (matrix <= 1)).all():
        raise InputError(
            f"expected losses in [0, 1] of shape ({space.size}, {space.size}), by true label and answer, found shape "
            f"{matrix.shape} or others"
        )
    return matrix


def checked_prior(prior: object, space: LabelSpace) -> Float[np.ndarray, "k"]:
    """A distribution over the labels."""
    found = np.asarray(prior, dtype=np.float64)
    if found.shape != (space.size,) or not (found >= 0).all() or abs(float(found.sum()) - 1) > _TOLERANCE:
        raise PriorError(
            f"expected a prior of {space.size} chances that sum to 1, found shape {found.shape} or another sum"
        )
    return np.asarray(found / found.sum())


def estimated_prior(release: Release) -> Float[np.ndarray, "k"]:
    """P(true label), from released labels alone.

    Where classes are released that tell every class, it is the distribution nearest to the mean of unbiased vectors;
    elsewhere the most likely one, by expectation maximisation on at most 20 000 rows, evenly spread.
    """
    if not len(release):
        raise PriorError("expected rows to estimate the shares of labels from, found none; give a prior")
    channel, k = release.channel, release.space.size
    sizes = candidate_sizes(channel)
    if isinstance(channel, ClassChannel) and (sizes is None or bool((sizes == k).all())):
        step = max(1, _ENTRIES_PER_BLOCK // k)
        blocks = (slice(low, low + step) for low in range(0, len(release), step))
        total = np.sum([channel.take(rows).unbiased(release.codes[rows]).sum(axis=0) for rows in blocks], axis=0)
        return np.asarray(nearest_distributions(total[None, :] / len(release))[0])
    chosen = np.unique(np.linspace(0, len(release) - 1, _ROWS_OF_ROUNDS).astype(np.int64))
    likelihood = channel.take(chosen).likelihood(release.codes[chosen])
    found = np.full(k, 1 / k)
    for _ in range(_ROUNDS):
        found = found * (likelihood / (likelihood @ found)[:, None]).mean(axis=0)
    return np.asarray(found / found.sum())


def _told(release: Release, probabilities: object, features: object) -> Float[np.ndarray, "n k"]:
    """P(label | features), given or asked of a model."""
    if hasattr(probabilities, "predict_proba"):
        if features is None:
            raise InputError("expected features for the model to predict labels from, found none; give features=")
        found = _in_order(probabilities, np.asarray(probabilities.predict_proba(features)), release.space)
    else:
        found = np.asarray(probabilities, dtype=np.float64)
    shape = (len(release), release.space.size)
    if found.shape != shape:
        raise InputError(f"expected probabilities of shape {shape}, one row for each label, found {found.shape}")
    bad = ~((found >= 0).all(axis=1) & (np.abs(found.sum(axis=1) - 1) <= 1e-3))
    if bad.any():
        raise InputError(f"expected a distribution over the classes in each row, found none in row {np.argmax(bad)}")
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _in_order(model: Any, found: np.ndarray, space: LabelSpace) -> np.ndarray:
    """The columns of a model in declared order, with zeros for classes that it does not know."""
    classes = getattr(model, "classes_", None)
    if classes is None or found.ndim != 2 or found.shape[1] != len(classes):
        return found
    columns = np.zeros((len(found), space.size))
    columns[:, space.encode(np.asarray(classes).tolist())] = found
    return columns


def _shares(mixing: object, rows: int, unused: bool) -> Float[np.ndarray, "..."]:
    """The chance that features are a row's own: one number, or one for each row."""
    if mixing is None:
        return np.array(1.0)
    found = np.asarray(mixing, dtype=np.float64)
    if unused:
        raise InputError("expected probabilities from features together with mixing, found none; give probabilities")
    if found.shape not in ((), (rows,)) or not ((found >= 0) & (found <= 1)).all():
        raise InputError(
            f"expected mixing as one chance, or one for each of {rows} rows, found {found.shape} or others"
        )
    return found
