"""Label inference: Bayes-optimal guesses of each row's true label by an observer of a release.

An observer's prior belief ``b_y`` about a row's label becomes ``b_y v_y(z)`` up to a factor once a label z is released,
where ``v_y(z) = P(z | y)`` is the channel's likelihood. The answer with the least expected loss under that posterior is
Bayes-optimal: no other use of the same knowledge does better on average.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from labeldp._arrays import freeze_arrays
from labeldp._shapes import Float, Int
from labeldp._threads import blocks
from labeldp.columns import floats
from labeldp.errors import InputError, PriorError
from labeldp.privacy import Interval, LabelSpace, declared_columns, predicted_columns
from labeldp.privacy.channels import ClassChannel, nearest_distributions
from labeldp.release import Release, RowRelease
from labeldp.release.folder import Certificate

_TOLERANCE = 1e-6
_ROUNDS, _ROWS_OF_ROUNDS = 300, 20_000

Loss = Literal["wrong", "squared"] | np.ndarray


@dataclass(frozen=True, eq=False)
class Inference:
    """Guesses of each row's label by an attacker.

    Attributes:
        space: The declared label space.
        knows: The attacker's knowledge, in words.
        loss: ``"wrong"``, ``"squared"``, or a matrix ``[true, guess]`` of losses in [0, 1].
        guesses: The guess for each row: class codes, or numbers in the label's unit if the loss is squared.
        expected: Expected loss of each guess under the attacker's own belief, between 0 and 1.
    """

    space: LabelSpace
    knows: str
    loss: Loss
    guesses: np.ndarray
    expected: Float[np.ndarray, "n"]

    def __post_init__(self) -> None:
        freeze_arrays(self, "guesses", "expected")

    def __len__(self) -> int:
        return len(self.guesses)

    def labels(self) -> np.ndarray:
        """The guesses as labels: declared classes, or numbers."""
        return self.guesses if self.loss_is_squared else np.asarray(self.space.points)[self.guesses]

    @property
    def loss_is_squared(self) -> bool:
        """True if guesses are numbers, and the loss is the squared distance over the squared range."""
        return isinstance(self.loss, str) and self.loss == "squared"

    def losses(self, codes: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """Loss of each guess if these are the true labels, between 0 and 1."""
        return losses_of_answers(self.space, self.loss, codes, self.guesses)


@dataclass(frozen=True, eq=False)
class Knowledge:
    """An attacker's knowledge of rows and their labels, besides the released labels.

    Attributes:
        probabilities: P(true label | features) for each row: a fitted model with ``predict_proba``, which is applied to
            ``features``; ``ClassProbabilities``; or an array of shape (n, k), if the classes were declared in sorted
            order. A model without ``classes_`` predicts in declared order. None: the features are not used.
            They should not depend on the released label of their row, which would count twice. A model whose
            ``certificate`` says that it was fitted on this release is fitted anew, for each of several folds on the
            others, by its ``held_out_proba`` (models from ``labeldp.learning.tables`` have both); without that method
            it is refused. Other models do not say what they were fitted on: pass probabilities of held-out rows.
        prior: P(true label) in declared order, shape (k,). By default it is estimated from the release if needed.
        features: Features of the rows, for a model; by default those released with the labels.
        mixing: For features that may be resampled: the probability s that a row's released features are its own, one
            number or one for each row (``original_share``). The belief from the features is then ``s P(y | x) + (1 - s)
            P(y)``. It is for a model of *true* features; one fitted on released rows has learned the mixture already.
        generator: The generator of resampled features, for a model that was corrected for them and is fitted anew.
    """

    probabilities: object = None
    prior: object = None
    features: object = None
    mixing: object = None
    generator: object = None


#: An attacker who knows released labels alone.
NO_KNOWLEDGE = Knowledge()


def infer_labels(
    release: Release | RowRelease,
    knowledge: Knowledge = NO_KNOWLEDGE,
    *,
    released: bool = True,
    loss: Loss = "wrong",
) -> Inference:
    """Compute the Bayes-optimal guess for each row from the attacker's knowledge.

    Args:
        release: Released labels of n rows, of any channel; or rows released with their features.
        knowledge: The attacker's knowledge.
        released: True if the attacker sees the released label. Without it, and without probabilities from features,
            every row gets the trivial answer, such as the most common class.
        loss: ``"wrong"``: 1 for a wrong answer (for numbers: the likeliest grid point). ``"squared"``: for numbers of
            an ``Interval``, the squared distance over the squared range (the posterior mean). Or a matrix [true, guess]
            of losses in [0, 1] in declared order, shape (k, k).

    Guarantee:
        It is computed from a release, so the release's guarantee covers it at no further cost. It reveals what that
        guarantee does *not* cover: with static features, what the features disclose about labels.

    References:
        Wu et al. 2022, for inference with the Bayes classifier; Busa-Fekete et al. 2023, definition 4.4. For resampled
        features: with resampling probability r and generator density q, ``(1-r) p(x|y) pi_y + r q(x) pi_y`` is
        ``p(y|x)`` and ``pi_y`` mixed in the shares of ``original_share``.

    Example:
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> from labeldp.audit import Knowledge, infer_labels
        >>> space = Classes(["no", "yes"])
        >>> release = Curator(["no", "yes"], space).randomize(RandomizedResponse(space, epsilon=0.1))
        >>> inference = infer_labels(release, Knowledge([[0.9, 0.1], [0.2, 0.8]]))  # features disclose it
        >>> inference.labels().tolist()
        ['no', 'yes']

    Raises:
        InputError: Shapes do not fit, a row is not a distribution, the model fails, or the loss is invalid.
        PriorError: The prior is not a distribution, or is needed and cannot be estimated.
    """
    return make_attacker(release, knowledge, loss).answers(released)


@dataclass(frozen=True, eq=False)
class Attacker:
    """An attacker's knowledge of rows (features, prior, released labels), and the loss of wrong guesses."""

    release: Release
    features: Float[np.ndarray, "n k"] | None
    prior: Float[np.ndarray, "k"]
    original: Float[np.ndarray, "..."]
    loss: Loss
    cross_fitted: bool = False

    def belief(self, rows: slice) -> Float[np.ndarray, "m k"]:
        """Beliefs about some rows before their released labels are seen."""
        count = len(range(*rows.indices(len(self.release))))
        if self.features is None:
            return np.broadcast_to(self.prior, (count, self.release.space.size))
        share = self.original[rows, None] if self.original.ndim else self.original
        return np.asarray(share * self.features[rows] + (1 - share) * self.prior)

    def posterior(self, rows: slice, released: bool) -> Float[np.ndarray, "m k"]:
        """Beliefs updated with the released labels, if these are used."""
        belief = self.belief(rows)
        if not released:
            return belief
        part = self.release.channel.take(rows)
        return normalised(belief, part.likelihood(self.release.codes[rows]))

    def answers(self, released: bool) -> Inference:
        """The Bayes-optimal answers for all rows."""
        guesses, expected = zip(*(self.best(self.posterior(rows, released)) for rows in self.blocks()), strict=True)
        return Inference(
            self.release.space, self.knows(released), self.loss, np.concatenate(guesses), np.concatenate(expected)
        )

    def best(self, posterior: Float[np.ndarray, "m k"]) -> tuple[np.ndarray, Float[np.ndarray, "m"]]:
        """Answers with the least expected loss, and that loss; the first one on ties."""
        return best_answers(self.release.space, self.loss, posterior)

    def blocks(self) -> list[slice]:
        """Slices of rows whose vectors fit in memory; at least one."""
        return blocks(max(len(self.release), 1), self.release.space.size)

    def knows(self, released: bool) -> str:
        """The knowledge in words."""
        sources = [
            *(["features"] if self.features is not None else []),
            *(["the released label"] if released else []),
        ]
        return " and ".join(sources) or "nothing about the row"


def make_attacker(release: Release | RowRelease, knowledge: Knowledge, loss: Loss) -> Attacker:
    """Create an attacker from validated knowledge."""
    features = knowledge.features
    if isinstance(release, RowRelease):
        features = release.features if features is None else features
        release = release.labels
    if not isinstance(release, Release):
        raise InputError(f"expected a Release, found {type(release).__name__}; an attack starts from a release")
    cross_fitted = _is_fitted_on(knowledge.probabilities, release)
    beliefs = None if knowledge.probabilities is None else _label_beliefs(release, knowledge, features)
    original = _own_feature_shares(knowledge.mixing, len(release), beliefs is None)
    if knowledge.prior is not None:
        shares = checked_prior(knowledge.prior, release.space)
    elif beliefs is None or bool((original < 1).any()):
        shares = estimated_prior(release)
    else:
        shares = np.full(release.space.size, 1 / release.space.size)  # its weight is zero
    return Attacker(release, beliefs, shares, original, checked_loss(loss, release.space), cross_fitted)


def best_answers(
    space: LabelSpace, loss: Loss, posterior: Float[np.ndarray, "m k"]
) -> tuple[np.ndarray, Float[np.ndarray, "m"]]:
    """Answers with the least expected loss under a posterior, and that loss."""
    if isinstance(loss, np.ndarray):
        costs = posterior @ loss
        guesses = np.argmin(costs, axis=1)
        return guesses, costs[np.arange(len(guesses)), guesses]
    if loss == "squared":
        points = np.asarray(space.points, dtype=np.float64)
        mean = posterior @ points
        spread = np.einsum("mk,mk->m", posterior, (points - mean[:, None]) ** 2)
        return mean, spread / (points[-1] - points[0]) ** 2
    guesses = np.argmax(posterior, axis=1)
    return guesses, 1 - posterior[np.arange(len(guesses)), guesses]


def losses_by_label(space: LabelSpace, loss: Loss, guesses: np.ndarray) -> Float[np.ndarray, "m k"]:
    """Loss of each answer for every true label."""
    return losses_of_answers(space, loss, np.arange(space.size)[None, :], guesses[:, None])


def losses_of_answers(
    space: LabelSpace, loss: Loss, codes: Int[np.ndarray, "*rows"], guesses: np.ndarray
) -> Float[np.ndarray, "*rows_and_labels"]:
    """Loss of each answer if the codes are the true labels; the two are broadcast against each other."""
    if isinstance(loss, np.ndarray):
        return np.asarray(loss[codes, guesses])
    if loss == "squared":
        points = np.asarray(space.points, dtype=np.float64)
        return np.asarray(((points[codes] - guesses) / (points[-1] - points[0])) ** 2)
    return np.asarray(codes != guesses, dtype=np.float64)


def normalised(belief: Float[np.ndarray, "m k"], likelihood: Float[np.ndarray, "m k"]) -> Float[np.ndarray, "m k"]:
    """Posteriors from a belief and a likelihood; if the belief excludes the outcome, the likelihood alone counts."""
    joint = belief * likelihood
    total = joint.sum(axis=1, keepdims=True)
    impossible = ~(total[:, 0] > 0)
    if impossible.any():
        joint[impossible] = likelihood[impossible]
        total[impossible] = likelihood[impossible].sum(axis=1, keepdims=True)
    return np.asarray(joint / total)


def checked_loss(loss: Loss, space: LabelSpace) -> Loss:
    """Validate a loss for labels of this space."""
    if isinstance(loss, str):
        if loss not in ("wrong", "squared") or (loss == "squared" and not isinstance(space, Interval)):
            raise InputError(
                "expected loss='wrong', 'squared' for labels of an Interval, or a matrix of losses, found another"
            )
        return loss
    matrix: np.ndarray = np.array(floats(loss, "losses"))
    if matrix.shape != (space.size, space.size) or not ((matrix >= 0) & (matrix <= 1)).all():
        raise InputError(
            f"expected losses in [0, 1] of shape ({space.size}, {space.size}), by true label and answer, found shape "
            f"{matrix.shape} or losses outside [0, 1]"
        )
    return matrix


def checked_prior(prior: object, space: LabelSpace) -> Float[np.ndarray, "k"]:
    """Validate a prior distribution over the labels."""
    shares = floats(prior, "a prior", PriorError)
    if shares.shape != (space.size,) or not (shares >= 0).all() or abs(float(shares.sum()) - 1) > _TOLERANCE:
        raise PriorError(
            f"expected a prior of {space.size} probabilities that sum to 1, found shape {shares.shape} or another sum"
        )
    return np.asarray(shares / shares.sum())


def estimated_prior(release: Release) -> Float[np.ndarray, "k"]:
    """Estimate P(true label) from released labels alone.

    If every released label carries information on every class, it is the distribution nearest to the mean of unbiased
    vectors; otherwise the maximum-likelihood one, by expectation maximisation on at most 20 000 evenly spaced rows.
    """
    if not len(release):
        raise PriorError("expected rows to estimate the shares of labels from, found none; give a prior")
    channel, k = release.channel, release.space.size
    if isinstance(channel, ClassChannel) and channel.identifies:
        parts = blocks(len(release), k)
        total = np.sum([channel.take(rows).unbiased(release.codes[rows]).sum(axis=0) for rows in parts], axis=0)
        return np.asarray(nearest_distributions(total[None, :] / len(release))[0])
    chosen = np.unique(np.linspace(0, len(release) - 1, _ROWS_OF_ROUNDS).astype(np.int64))
    likelihood = channel.take(chosen).likelihood(release.codes[chosen])
    shares = np.full(k, 1 / k)
    for _ in range(_ROUNDS):
        shares = shares * (likelihood / (likelihood @ shares)[:, None]).mean(axis=0)
    return np.asarray(shares / shares.sum())


def _label_beliefs(release: Release, knowledge: Knowledge, features: object) -> Float[np.ndarray, "n k"]:
    """P(label | features), given or predicted by a model."""
    model = knowledge.probabilities
    if not hasattr(model, "predict_proba"):
        chances = floats(declared_columns(model, release.space), "probabilities")
    elif features is None:
        raise InputError("expected features for the model to predict labels from, found none; give features=")
    elif _is_fitted_on(model, release):
        chances = _cross_fitted(model, release, features, knowledge.generator)
    else:
        chances = predicted_columns(model, features, release.space)
    shape = (len(release), release.space.size)
    if chances.shape != shape:
        raise InputError(f"expected probabilities of shape {shape}, one row for each label, found {chances.shape}")
    invalid = ~((chances >= 0).all(axis=1) & (np.abs(chances.sum(axis=1) - 1) <= 1e-3))
    if invalid.any():
        raise InputError(
            f"expected a distribution over the classes in each row, found none at position {np.argmax(invalid)}"
        )
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def _is_fitted_on(model: object, release: Release) -> bool:
    """True if a model's certificate says that it was fitted on these released labels, or on some of them."""
    fitted_on = getattr(model, "certificate", None)
    return (
        isinstance(fitted_on, Certificate)
        and release.certificate is not None
        and release.certificate.may_share_rows(fitted_on)
    )


def _cross_fitted(model: Any, release: Release, features: object, generator: object) -> np.ndarray:
    """Probabilities for each row by models that were fitted on other rows, classes in declared order."""
    if not hasattr(model, "held_out_proba"):
        raise InputError(
            "expected a model that was not fitted on these released labels, or one that can be fitted again on a part "
            "of them, found one that was fitted on this very release and cannot be; attack another release, of rows "
            "that it was not fitted on, or leave the model out"
        )
    return np.asarray(model.held_out_proba(release, features, generator))


def _own_feature_shares(mixing: object, rows: int, no_features: bool) -> Float[np.ndarray, "..."]:
    """Probability that features are a row's own: one number, or one for each row."""
    if mixing is None:
        return np.array(1.0)
    shares = floats(mixing, "mixing")
    if no_features:
        raise InputError("expected probabilities from features together with mixing, found none; give probabilities")
    if shares.shape not in ((), (rows,)) or not ((shares >= 0) & (shares <= 1)).all():
        raise InputError(
            f"expected mixing as one probability, or one for each of {rows} rows, found shape {shares.shape} or "
            "numbers outside [0, 1]"
        )
    return shares
