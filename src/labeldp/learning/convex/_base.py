"""What convex learners share: the steps that a release leads to, the region they stay in, and a stream of batches."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp import _checks
from labeldp.errors import InputError
from labeldp.learning.convex._descent import (
    Descent,
    FewRowsWarning,
    Rows,
    Setting,
    Steps,
    check_rows,
    squared_lengths,
    steps_of,
)
from labeldp.learning.convex._losses import CustomLoss, Loss
from labeldp.learning.convex._regions import Ball, Region, Unconstrained
from labeldp.learning.losses import best_penalty, require_release
from labeldp.privacy import LabelSpace
from labeldp.release import Release

#: Unbiased vectors of so many entries are written out at a time.
_ENTRIES_PER_BLOCK = 1 << 20

#: Balls of ``"auto"``, relative to the usual one, from the smallest.
_SHARES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_FOLDS = 5

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


def scores_of(loss: Loss, pull: Pull) -> int:
    """How many scores a row has."""
    return len(pull.points) if loss.of_classes else 1


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
        release = require_release(y)
        passes = _checks.whole(self.passes, "passes", 1, 1 << 20)
        features = self._features(X, len(release), reset=True)
        self._end = self._end_of(features)
        rows, targets, loss = Rows.of(features, self._end), self._targets(release), self._loss()
        self._keep(release.space)
        self.region_ = self._region(loss, targets, features, rows)
        self._say(loss, targets.pull, len(release))
        descent = self._begun(loss, targets.pull, rows, self.region_, len(release) * passes)
        self._run(descent, targets, rows, np.arange(len(release)), passes)
        return self._finished(descent)

    def partial_fit(self, X: Any, y: Release) -> Self:  # noqa: N803
        """Descend over the next rows of a stream; steps are those of a stream whose length is not known.

        Each row is seen once. The first batch fixes the region. Steps are made for the noise and the rows of the
        batches so far, of which the worst counts, unless ``norm`` says how long rows are.
        """
        release = require_release(y)
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
        return self._finished(self._descent)

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
                f"expected region='auto' or a Ball, Box, Simplex or Unconstrained, found {region!r}; write Ball(5.0)"
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
            l2=region.l2 if isinstance(region, Unconstrained) else 0.0,
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

    def _finished(self, descent: Descent) -> Self:
        """Keep a descent, if its parameters are numbers, and what it leads to."""
        point = self._point(descent)
        if not np.isfinite(point).all():
            raise InputError(
                f"expected steps that stay finite, found parameters that are not, with steps={self.steps!r}; give "
                "smaller steps, a bounded region, or scaled features"
            )
        self.__dict__.pop("answer_", None)  # it is of another fit
        self.coef_ = (point[:-1] if self._end else point).T.copy()
        self.intercept_ = self._end * point[-1] if self._end else np.zeros(point.shape[1])
        self._descent, self.steps_done_ = descent, descent.done
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
