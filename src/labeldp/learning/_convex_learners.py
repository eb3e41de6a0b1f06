"""Convex learners: one descent for releases of every randomizer, for streams of them, and for a curator's answers."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp import _checks
from labeldp.errors import InputError
from labeldp.learning._convex_losses import CustomLoss, Loss, SoftmaxLoss, SquaredLoss, loss_of
from labeldp.learning._descent import (
    Descent,
    FewRowsWarning,
    Rows,
    Setting,
    Steps,
    check_rows,
    squared_lengths,
    steps_of,
)
from labeldp.learning._fitting import softmax
from labeldp.learning._number_learners import NumberRegressor
from labeldp.learning._regions import Ball, Everywhere, Region
from labeldp.learning._released_numbers import decoded_numbers, ends_of, real_labels, tells_numbers
from labeldp.learning._selection import best_penalty, gain, released
from labeldp.learning._soft import ProbabilityClassifier
from labeldp.privacy import BinChannel, ClassChannel, Interval, LabelSpace, candidate_sizes, gradient_noise
from labeldp.release import Release

#: Unbiased vectors of so many entries are written out at a time.
_ENTRIES_PER_BLOCK = 1 << 20

#: Balls of ``"auto"``, relative to the usual one, from the smallest.
_SHARES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_FOLDS = 5

_ENDS = np.array([-1.0, 1.0])

#: Second moments are taken to be at least this.
_NOTHING = 1e-200


@dataclass(frozen=True)
class Pull:
    """What is known of the moves that labels lead to.

    Attributes:
        points: What labels may be, on the scale of the scores.
        noise: How far what a row pulls with is from the gradient of its true label, mean square, in the worst case.
        labels: How many labels a row may have, at most.
        epsilon: Of each label; infinite where they are public.
        told: Whether a curator tells gradients, and they are not computed from released labels.
    """

    points: Float[np.ndarray, "k"]
    noise: float
    labels: int
    epsilon: float
    told: bool = False


@dataclass(frozen=True)
class Targets:
    """The unbiased vectors of released labels, which descent is pulled by.

    Attributes:
        release: The released labels.
        pull: What is known of their moves.
        numbers: For the squared loss, which needs no more of a label than a number: that of each row, as a mixture of
            the two ends of the scale; None where vectors are over all labels.
        projected: Whether the entries of vectors are made to sum to one.
    """

    release: Release
    pull: Pull
    numbers: Float[np.ndarray, "n"] | None = None
    projected: bool = True

    def of_rows(self, rows: Int[np.ndarray, "m"]) -> Float[np.ndarray, "m k"]:
        """The vectors of some rows."""
        if self.numbers is not None:
            high = (1.0 + self.numbers[rows]) / 2.0
            return np.stack([1.0 - high, high], axis=1)
        vectors = self.release.class_channel.take(rows).unbiased(self.release.codes[rows])
        if self.projected:
            vectors = vectors + (1.0 - vectors.sum(axis=1, keepdims=True)) / vectors.shape[1]
        return vectors


class ConvexLearner(BaseEstimator):
    """Descent, for classes and for real labels: what both learners share."""

    #: What scores are usually as large as, at most.
    _usual_score: ClassVar[float]

    loss: Any
    region: Any
    steps: Any
    average: bool
    passes: int
    norm: float | None
    fit_intercept: bool
    project: bool
    shuffle: bool
    random_state: Any

    @abstractmethod
    def _loss(self) -> Loss:
        """The loss, checked."""

    @abstractmethod
    def _targets(self, release: Release) -> Targets:
        """What released labels pull with."""

    @abstractmethod
    def _judged(self, targets: Targets, scores: Float[np.ndarray, "m s"], rows: Int[np.ndarray, "m"]) -> np.ndarray:
        """How well scores of rows go with their released labels; more is better."""

    @abstractmethod
    def _keep(self, space: LabelSpace) -> None:
        """Remember what labels may be."""

    @abstractmethod
    def _knows(self, space: LabelSpace) -> bool:
        """Whether it is what was remembered."""

    def fit(self, X: Any, y: Release) -> Self:  # noqa: N803 (scikit-learn's name)
        """Descend over all rows of features of shape (n, d), dense or sparse, and a release of n rows."""
        release = released(y)
        passes = _checks.whole(self.passes, "passes", 1, 1 << 20)
        features = self._features(X, len(release), reset=True)
        self._end = self._end_of(features)
        rows, targets, loss = Rows.of(features, self._end), self._targets(release), self._loss()
        self._keep(release.space)
        self.region_ = self._region(loss, targets, features, rows)
        self._say(loss, targets.pull, len(release))
        self._descent = self._begun(loss, targets.pull, rows, self.region_, len(release) * passes)
        self._run(self._descent, targets, rows, np.arange(len(release)), passes)
        return self._finished()

    def partial_fit(self, X: Any, y: Release) -> Self:  # noqa: N803
        """Descend over the next rows of a stream; steps are those of a stream whose length is not known.

        Each row is seen once. The first batch fixes the region. Steps are made for the noise and the rows of the
        batches so far, of which the worst counts, unless ``norm`` says how long rows are.
        """
        release = released(y)
        first = not hasattr(self, "_descent")
        features = self._features(X, len(release), reset=first)
        if first:
            self._end = self._end_of(features)
        rows = Rows.of(features, self._end)
        targets, loss = self._targets(release), self._loss()
        if first:
            self._keep(release.space)
            scores = scores_of(loss, targets.pull)
            self.region_ = self._usual(rows, scores) if self.region == "auto" else self._declared(self.region)
            self._descent = self._begun(loss, targets.pull, rows, self.region_, None)
        else:
            self._check_goes_on(release, loss)
            self._descent.points = targets.pull.points
            self._descent.steps = self._steps(loss, targets.pull, rows, self.region_, None, least=self.moment_)
        self._run(self._descent, targets, rows, np.arange(len(release)), 1)
        return self._finished()

    def _check_goes_on(self, release: Release, loss: Loss) -> None:
        """Refuse a batch that does not go with earlier ones."""
        if not self._knows(release.space):
            raise InputError(
                "expected a release of the label space of earlier batches, found one of other labels; declare the same "
                "space for all, or fit another model"
            )
        if loss != self._descent.loss or self.region not in ("auto", self.region_):
            raise InputError("expected the loss and the region of earlier batches, found others; fit another model")

    def _features(self, X: Any, labels: int, *, reset: bool) -> Any:  # noqa: N803
        """Features, checked: as many rows as labels, and none longer than declared."""
        if labels == 0:
            raise InputError("expected at least one row to learn from, found none; an empty stream says nothing")
        features = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=reset)
        if features.shape[0] != labels:
            raise InputError(f"expected features of {labels} rows, as many as labels, found {features.shape[0]}")
        if issparse(features) and not features.has_canonical_format:
            features = features.copy()
            features.sum_duplicates()
        if not np.isfinite(squared_lengths(features)).all():
            raise InputError(
                "expected rows of features whose lengths are finite, found longer ones; scale the features"
            )
        if self.norm is not None:
            lengths = np.sqrt(squared_lengths(features))
            row = int(np.argmax(lengths))
            if not (isinstance(self.norm, int | float | np.number) and 0 < self.norm < math.inf):
                raise InputError(f"expected norm to be a length above 0, found {self.norm!r}")
            if lengths[row] > self.norm * (1 + 1e-9):
                raise InputError(
                    f"expected rows of features no longer than the declared norm, {self.norm:g}, found one of length "
                    f"{lengths[row]:g} (row {row}); scale the features, or declare a larger norm"
                )
        return features

    def _end_of(self, features: Any) -> float:
        """What rows end with, for intercepts; 0 without them."""
        return self._usual_end(features) if self.fit_intercept else 0.0

    def _usual_end(self, features: Any) -> float:
        """What rows end with for intercepts."""
        del features
        return 1.0

    def _declared(self, region: object) -> Region:
        if not isinstance(region, Region):
            raise InputError(
                f"expected region='auto' or a Ball, Box, Simplex or Everywhere, found {region!r}; write Ball(5.0)"
            )
        return region

    def _region(self, loss: Loss, targets: Targets, features: Any, rows: Rows) -> Region:
        """The declared region, or the ball that held-out released labels prefer, in doubt the usual one."""
        if self.region != "auto":
            return self._declared(self.region)
        usual, count = self._usual(rows, scores_of(loss, targets.pull)), len(rows.squares)
        if count < _FOLDS * 2:
            return usual
        balls = [Ball(usual.radius * share) for share in _SHARES]

        def judge(fit_on: np.ndarray, held: np.ndarray) -> np.ndarray:
            gains = np.empty((len(balls), len(held)))
            for i, ball in enumerate(balls):
                descent = self._begun(loss, targets.pull, rows, ball, len(fit_on) * self.passes)
                self._run(descent, targets, rows, fit_on, self.passes)
                gains[i] = self._judged(targets, self._scored(features[held], self._point(descent)), held)
            return gains

        radii = [ball.radius for ball in balls]
        return Ball(best_penalty(radii, usual.radius, count, _FOLDS, judge))

    def _usual(self, rows: Rows, scores: int) -> Ball:
        """The ball in which a row of usual length has scores of at most the usual size; larger for many scores."""
        length = math.sqrt(float(rows.squares.mean())) or 1.0
        return Ball(self._usual_score * math.sqrt(scores / 2) / length)

    def _begun(self, loss: Loss, pull: Pull, rows: Rows, region: Region, count: int | None) -> Descent:
        """A descent that has made no step."""
        return Descent(loss, region, rows.columns, pull.points, self._steps(loss, pull, rows, region, count))

    def _steps(
        self, loss: Loss, pull: Pull, rows: Rows, region: Region, count: int | None, least: float = 0.0
    ) -> Steps:
        """Steps for rows; the second moment of a move is that of its pull times the squared length, or the least."""
        k, shape = len(pull.points), (rows.columns, scores_of(loss, pull))
        squares = rows.squares if self.norm is None else np.array([float(self.norm) ** 2 + self._end**2])
        longest = math.sqrt(float(squares.max()))
        largest = (float(np.linalg.norm(region.start(shape))) + region.reach(shape)) * longest
        steepest = loss.lipschitz(k, largest)
        if isinstance(loss, CustomLoss):
            loss.check(k, largest)
        self.moment_ = max(least, float(squares.mean()) * (steepest**2 + pull.noise), _NOTHING)
        setting = Setting(
            reach=region.reach(shape),
            lipschitz=steepest * longest,
            moment=self.moment_,
            labels=pull.labels,
            epsilon=pull.epsilon,
            told=pull.told,
            l2=region.l2 if isinstance(region, Everywhere) else 0.0,
            rows=count,
        )
        return steps_of(self.steps, setting)

    def _say(self, loss: Loss, pull: Pull, rows: int) -> None:
        """Refuse, or warn of, too few rows."""
        told = check_rows(1.0 + pull.noise / loss.lipschitz(len(pull.points), 1.0) ** 2, rows)
        if told is not None:
            warnings.warn(told, FewRowsWarning, stacklevel=3)

    def _run(self, descent: Descent, targets: Targets, rows: Rows, part: Int[np.ndarray, "m"], passes: int) -> None:
        """Steps over rows, in an order that has nothing to do with labels."""
        random = np.random.default_rng(self.random_state)
        size = max(1, _ENTRIES_PER_BLOCK // len(targets.pull.points))
        for _ in range(passes):
            order = random.permutation(part) if self.shuffle else part
            for low in range(0, len(order), size):
                block = order[low : low + size]
                descent.run(rows, block, targets.of_rows(block))

    def _point(self, descent: Descent) -> Float[np.ndarray, "p s"]:
        return descent.mean if self.average else descent.last

    def _finished(self) -> Self:
        point = self._point(self._descent)
        if not np.isfinite(point).all():
            raise InputError(
                f"expected steps that stay finite, found parameters that are not, with steps={self.steps!r}; give "
                "smaller steps, a bounded region, or scaled features"
            )
        self.__dict__.pop("answer_", None)  # it is of another fit
        self.coef_ = (point[:-1] if self._end else point).T.copy()
        self.intercept_ = self._end * point[-1] if self._end else np.zeros(point.shape[1])
        self.steps_done_ = self._descent.done
        return self

    def _scored(self, features: Any, point: Float[np.ndarray, "p s"]) -> Float[np.ndarray, "n s"]:
        return np.asarray(features @ point[:-1] + self._end * point[-1] if self._end else features @ point)

    def _scores(self, X: Any) -> Float[np.ndarray, "n s"]:  # noqa: N803
        check_is_fitted(self, "coef_")
        features = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(features @ self.coef_.T + self.intercept_)

    def __sklearn_tags__(self) -> Any:
        """It takes sparse features."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _of_softmax(model: ConvexClassifier) -> bool:
    """Whether scores are logits, so that there are probabilities."""
    return isinstance(model._loss(), SoftmaxLoss)


class ConvexClassifier(ConvexLearner, ProbabilityClassifier):
    """A linear classifier by projected stochastic gradient descent on released labels, each by its unbiased vector.

    Args:
        loss: ``"softmax"``, ``"hinge"``, ``"linear"``, or a ``CustomLoss``.
        region: Where parameters stay: a ``Ball``, ``Box``, ``Simplex``, or ``Everywhere`` with a penalty. ``"auto"`` is
            the ball that held-out released labels prefer; in a stream, the usual one of those.
        steps: ``"bound"``: from a bound of the second moment of gradients that holds for the channel at hand;
            ``"adaptive"``: from the released gradients so far; ``"chua"``: Algorithm 1, line 7; ``"ghazi"``: Theorem 9;
            or a length.
        average: Whether the model is the mean of all points, or the last one.
        passes: How often each row is seen; the labels are the same released ones each time.
        norm: The length that no row of features exceeds, public; steps are made for rows of that length. By default
            they are made for the lengths that rows have.
        fit_intercept: Whether a 1 is put at the end of each row.
        project: Whether unbiased vectors are made to sum to one, which keeps them unbiased and has less variance; the
            papers do not.
        shuffle: Whether rows are taken in random order, which labels play no part in.
        random_state: The seed of that order.

    Attributes:
        classes_: The declared classes.
        coef_: Coefficients, shape (k, d).
        intercept_: Intercepts, shape (k,).
        region_: The region.
        moment_: The bound of the second moment of gradients that steps are made for.
        steps_done_: Steps that were made.

    Guarantee:
        Whatever is learned from a release is covered by the release's guarantee, at no further cost, however often its
        rows are seen. How good it is: with ``average``, ``steps="bound"``, a region and ``norm`` given, one pass over n
        independent rows leads on average to at most ``R G / sqrt(n)`` above the least expected loss in the region, R
        its radius and G^2 ``moment_``, if true classes are among the candidates where rows have some. Without ``norm``
        steps are made for the lengths that rows have, on average, and this is a guide.

    References:
        Chua et al. 2025, Algorithm 1 and Appendix A; Ghazi et al. 2021, Algorithm 5 and Corollary 10. The vectors of
        any randomizer will do: see ``labeldp.privacy.gradient_noise`` for G.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> from labeldp.learning.convex import Ball, ConvexClassifier
        >>> features, space = np.repeat([[-1.0], [1.0]], 1000, axis=0), Classes(["no", "yes"])
        >>> curator = Curator(["no"] * 1000 + ["yes"] * 1000, space)
        >>> release = curator.randomize(RandomizedResponse(space, epsilon=2.0))
        >>> model = ConvexClassifier(region=Ball(5.0)).fit(features, release)
        >>> model.predict([[-1.0], [1.0]]).tolist()
        ['no', 'yes']
    """

    _usual_score = 10.0

    def __init__(
        self,
        loss: str | Loss = "softmax",
        *,
        region: Region | Literal["auto"] = "auto",
        steps: str | float = "bound",
        average: bool = True,
        passes: int = 1,
        norm: float | None = None,
        fit_intercept: bool = True,
        project: bool = True,
        shuffle: bool = True,
        random_state: int | None = 0,
    ) -> None:
        self.loss = loss
        self.region = region
        self.steps = steps
        self.average = average
        self.passes = passes
        self.norm = norm
        self.fit_intercept = fit_intercept
        self.project = project
        self.shuffle = shuffle
        self.random_state = random_state

    def decision_function(self, X: Any) -> Float[np.ndarray, "n ..."]:  # noqa: N803
        """Scores of shape (n, k); with two classes that of the second over the first, of shape (n,)."""
        scores = self._scores(X)
        return np.asarray(scores[:, 1] - scores[:, 0]) if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The class of each row with the largest score."""
        best = np.argmax(self._scores(X), axis=1)
        return np.asarray(self.classes_[best])

    @available_if(_of_softmax)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k); with the softmax loss alone."""
        return softmax(self._scores(X))

    def score(self, X: Any, y: Release, sample_weight: Any = None) -> float:  # noqa: N803
        """The mean gain of released labels, as of ``SoftmaxRegression``; for other losses minus their unbiased mean."""
        if _of_softmax(self):
            return super().score(X, y, sample_weight)
        scores, targets = self._scores(X), self._targets(released(y))
        if not self._knows(targets.release.space):
            raise InputError("expected a release of the classes that the model was fitted on, found others")
        judged = self._judged(targets, scores, np.arange(len(targets.release)))
        return float(np.average(judged, weights=sample_weight))

    def _loss(self) -> Loss:
        return loss_of(self.loss, of_classes=True)

    def _targets(self, release: Release) -> Targets:
        of_classes(release.space)
        return class_targets(release, self._loss(), np.zeros(release.space.size), self.project)

    def _judged(self, targets: Targets, scores: Float[np.ndarray, "m s"], rows: Int[np.ndarray, "m"]) -> np.ndarray:
        if isinstance(self._loss(), SoftmaxLoss):
            return gain(targets.release[rows], softmax(scores))
        return _unbiased_loss(self._loss(), targets, scores, rows)

    def _keep(self, space: LabelSpace) -> None:
        self.classes_ = np.array(space.points)

    def _knows(self, space: LabelSpace) -> bool:
        return np.array_equal(np.array(space.points), self.classes_)


class ConvexRegressor(ConvexLearner, NumberRegressor):
    """A linear model of real labels by projected stochastic gradient descent on released labels, each without bias.

    Labels are put on a scale from -1 to 1, the ends of their declared range, on which the region is meant.

    Args:
        loss: ``"squared"``, from any release of real labels; ``"absolute"``, ``"huber"`` or a ``HuberLoss``, from
            releases of grid points and sets of them (``RandomizedResponse``, ``SubsetResponse``), since a number does
            not say of a label what these losses ask.
        region: As for ``ConvexClassifier``.
        steps: Likewise; adaptive ones by default, since the slope of the squared loss is mostly far below its bound.
        average: Likewise.
        passes: Likewise.
        norm: Likewise.
        fit_intercept: Whether a number is put at the end of each row, the same for all: ``norm``, or the root of the
            mean squared length of rows, so that the mean of labels is learned as fast as all the rest.
        project: Likewise; the squared loss takes released numbers as they are.
        shuffle: Likewise.
        random_state: Likewise.

    Attributes:
        coef_: Coefficients on the scale, shape (1, d).
        intercept_: The intercept on the scale, shape (1,).
        range_: The ends of the declared range, which predictions are cut to.
        region_: The region.
        moment_: The bound of the second moment of gradients that steps are made for.
        steps_done_: Steps that were made.

    Guarantee:
        As for ``ConvexClassifier``, with ``steps="bound"``, from releases whose numbers have labels as their means;
        from bins the mean label of a bin is learned.

    Example:
        >>> import numpy as np
        >>> from labeldp import Curator, Interval
        >>> from labeldp.mechanisms import best_number_response
        >>> from labeldp.learning.convex import Ball, ConvexRegressor
        >>> features, space = np.repeat([[-1.0], [1.0]], 4000, axis=0), Interval(0, 10, 1)
        >>> release = Curator([2] * 4000 + [8] * 4000, space).randomize(best_number_response(space, 2.0))
        >>> model = ConvexRegressor(region=Ball(2.0), passes=5).fit(features, release)
        >>> bool(abs(model.predict([[1.0]])[0] - 8) < 1.5)
        True
    """

    _usual_score = 1.0

    def __init__(
        self,
        loss: str | Loss = "squared",
        *,
        region: Region | Literal["auto"] = "auto",
        steps: str | float = "adaptive",
        average: bool = True,
        passes: int = 1,
        norm: float | None = None,
        fit_intercept: bool = True,
        project: bool = True,
        shuffle: bool = True,
        random_state: int | None = 0,
    ) -> None:
        self.loss = loss
        self.region = region
        self.steps = steps
        self.average = average
        self.passes = passes
        self.norm = norm
        self.fit_intercept = fit_intercept
        self.project = project
        self.shuffle = shuffle
        self.random_state = random_state

    def _usual_end(self, features: Any) -> float:
        """As much as rows have otherwise."""
        return float(self.norm) if self.norm is not None else math.sqrt(float(squared_lengths(features).mean())) or 1.0

    def predict(self, X: Any) -> Float[np.ndarray, "n"]:  # noqa: N803
        """The label of each row, within the declared range."""
        scores = self._scores(X)[:, 0]
        low, high = self.range_
        return np.asarray(low + (high - low) * (np.clip(scores, -1.0, 1.0) + 1.0) / 2.0)

    def _loss(self) -> Loss:
        return loss_of(self.loss, of_classes=False)

    def _targets(self, release: Release) -> Targets:
        loss, (low, high) = self._loss(), ends_of(real_labels(release))
        if not isinstance(loss, SquaredLoss):
            return class_targets(release, loss, np.linspace(-1.0, 1.0, release.space.size), self.project)
        if not tells_numbers(release):
            raise InputError(
                "expected released labels whose mean tells the label, found candidates or clusters; take the absolute "
                "or the Huber loss, which ask for unbiased vectors alone"
            )
        numbers = 2.0 * (decoded_numbers(release) - low) / (high - low) - 1.0
        return Targets(release, _pull_of(release, _ENDS, _number_noise(release, numbers)), numbers)

    def _judged(self, targets: Targets, scores: Float[np.ndarray, "m s"], rows: Int[np.ndarray, "m"]) -> np.ndarray:
        return _unbiased_loss(self._loss(), targets, scores, rows)

    def _keep(self, space: LabelSpace) -> None:
        self.range_ = (float(space.points[0]), float(space.points[-1]))

    def _knows(self, space: LabelSpace) -> bool:
        of_numbers = isinstance(self._loss(), SquaredLoss)
        sizes = {space.size, space.size if of_numbers else len(self._descent.points)}
        return len(sizes) == 1 and (float(space.points[0]), float(space.points[-1])) == self.range_


def of_classes(space: LabelSpace) -> None:
    """Refuse real labels, whose order a classifier would not know."""
    if isinstance(space, Interval):
        raise InputError("expected labels that are classes, found real ones on an Interval; use ConvexRegressor")


def class_targets(release: Release, loss: Loss, points: Float[np.ndarray, "k"], project: bool) -> Targets:
    """Unbiased vectors over all labels, and their noise for a loss.

    Raises:
        InputError: The release is one of numbers.
    """
    if not isinstance(release.channel, ClassChannel):
        raise InputError(
            "expected a release of classes or of sets of them, found one of numbers, which says the mean of labels "
            "alone; use the squared loss, or release by SubsetResponse"
        )
    if release.is_public:
        return Targets(release, _pull_of(release, points, 0.0), projected=project)
    steepest = loss.lipschitz(len(points), math.inf)
    own = loss.right_angled(len(points)) if project else None  # a common part adds nothing if vectors sum to one
    moment = gradient_noise(release.channel, projected=project).second_moment(steepest, own)
    return Targets(release, _pull_of(release, points, moment - steepest**2), projected=project)


def _pull_of(release: Release, points: Float[np.ndarray, "k"], noise: float) -> Pull:
    """What is known of the moves that released labels lead to."""
    sizes = candidate_sizes(release.channel)
    labels = release.space.size if sizes is None else int(sizes.max(initial=1))
    laws = getattr(release.channel, "channels", (release.channel,))  # of units, one for each of their sizes
    return Pull(points, noise, labels, math.inf if release.is_public else min(law.epsilon for law in laws))


def scores_of(loss: Loss, pull: Pull) -> int:
    """How many scores a row has."""
    return len(pull.points) if loss.of_classes else 1


def _unbiased_loss(loss: Loss, targets: Targets, scores: np.ndarray, rows: np.ndarray) -> Float[np.ndarray, "m"]:
    """Minus an estimate of each row's loss, whose mean is the loss of its true label."""
    return np.asarray(-(targets.of_rows(rows) * loss.values(scores, targets.pull.points)).sum(axis=1))


def _number_noise(release: Release, numbers: Float[np.ndarray, "n"]) -> float:
    """The variance of released numbers on the scale, given the worst label; of bins, all that they can be off by."""
    if release.is_public:
        return 0.0
    if isinstance(release.channel, BinChannel):
        return float(np.abs(numbers).max() + 1.0) ** 2
    steps = 2.0 / (release.space.size - 1)
    return max(float(law.variance.max()) for law in release.channel.number_laws()) * steps**2
