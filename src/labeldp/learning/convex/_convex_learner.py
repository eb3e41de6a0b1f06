"""Common base of the convex learners: step lengths from a release, the feasible set, and streams of batches."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._shapes import Float, Int
from labeldp._threads import blocks
from labeldp.errors import InputError
from labeldp.learning.choice import Gains, Held, chosen
from labeldp.learning.convex._descent import (
    Ball,
    Descent,
    DescentRows,
    FewRowsWarning,
    Region,
    Setting,
    Steps,
    check_rows,
    squared_lengths,
    steps_of,
)
from labeldp.learning.convex._losses import Loss
from labeldp.learning.losses import require_release
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn import SparseInput, checked_features
from labeldp.privacy import LabelSpace
from labeldp.release import Curator, Release, check_same_rows

#: Radii that ``"auto"`` chooses among, relative to the default one, ascending.
_SHARES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
#: Number of balls that are tried.
BALLS = len(_SHARES)
_FOLDS = 5

#: Lower bound on second moments, to avoid division by zero.
_NOTHING = 1e-200


@dataclass(frozen=True)
class GradientNoiseBound:
    """Bounds on the stochastic gradients: their noise and the number of candidate labels.

    Attributes:
        loss: The loss.
        points: Possible labels on the scale of the scores.
        noise: Worst-case mean squared distance of a stochastic gradient from the gradient of the true label.
        labels: Largest number of possible labels of a row.
        epsilon: Epsilon of each label; infinite for public labels.
        interactive: Whether a curator answers with gradients; else they are computed from released labels.
    """

    loss: Loss
    points: Float[np.ndarray, "k"]
    noise: float
    labels: int
    epsilon: float
    interactive: bool = False

    @property
    def scores(self) -> int:
        """The number of scores of a row."""
        return len(self.points) if self.loss.of_classes else 1


@dataclass(frozen=True)
class Targets:
    """The unbiased vectors of released labels, which weight the gradients of all labels.

    Attributes:
        release: The released labels.
        bound: Bounds on the stochastic gradients.
        numbers: Released number of each row, for the squared loss, whose vectors mix the two ends of the scale; None
            for vectors over all labels.
        projected: Whether vectors are projected so that their entries sum to one.
    """

    release: Release
    bound: GradientNoiseBound
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


@dataclass(eq=False, repr=False)
class ConvexLearner(SparseInput, BaseEstimator):
    """Linear learner by descent; base of the classifier and the regressor."""

    #: Largest score of a row of typical length in the default ball.
    _default_score: ClassVar[float]

    loss: str
    _: KW_ONLY
    region: Region | Literal["auto"] = "auto"
    steps: str | float
    average: bool = True
    passes: int = 1
    norm: float | None = None
    fit_intercept: bool = True
    project: bool = True
    shuffle: bool = True
    random_state: int | None = 0

    @abstractmethod
    def _loss(self) -> Loss:
        """The loss, checked."""

    @abstractmethod
    def _targets(self, release: Release) -> Targets:
        """The unbiased vectors of released labels, and bounds on their noise."""

    @abstractmethod
    def _gains(self, targets: Targets, scores: Float[np.ndarray, "m s"], rows: Int[np.ndarray, "m"]) -> np.ndarray:
        """The gain of the scores of rows on their released labels; more is better."""

    @abstractmethod
    def _set_space(self, space: LabelSpace) -> None:
        """Store the label space."""

    @abstractmethod
    def _has_space(self, space: LabelSpace) -> bool:
        """True for the label space of earlier batches."""

    def fit(self, X: Any, y: Release, groups: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Fit on features of shape (n, d), dense or sparse, and a release of n rows.

        Args:
            X: Features.
            y: A release.
            groups: The privacy unit of each row, shape (n,); ``"rows"`` if each row is its own.
        """
        release = require_release(y)
        units = Units.of(groups, release)
        passes = _checks.whole(self.passes, "passes", 1, 1 << 20)
        features, rows = self._rows(X, release)
        targets = self._targets(release)
        self._set_space(release.space)
        self.region_ = self._region(targets, features, rows, units)
        self._check_row_count(targets.bound, len(release))
        descent = self._new_descent(targets.bound, rows, self.region_, len(release) * passes)
        self._run(descent, targets, rows, np.arange(len(release)), passes)
        return self._set_parameters(descent)

    def setting(self) -> str:
        """The region in words."""
        return f"coefficients within {self.region_.radius:.3g} of zero, chosen among {BALLS} on released labels"

    def partial_fit(self, X: Any, y: Release) -> Self:  # noqa: N803
        """Continue on the next rows of a stream of unknown length.

        Each row is seen once. The first batch fixes the region. Step lengths suit the worst of the batches so far in
        noise and row length; ``norm``, if given, is the row length.
        """
        release = require_release(y)
        first = not hasattr(self, "_descent")
        _, rows = self._rows(X, release, reset=first)
        targets = self._targets(release)
        if first:
            self._set_space(release.space)
            self.region_ = self._fixed_region(targets.bound, rows)
            self._descent = self._new_descent(targets.bound, rows, self.region_, None)
        else:
            self._check_goes_on(release, targets.bound.loss)
            self._descent.points = targets.bound.points
            self._descent.steps = self._steps(targets.bound, rows, self.region_, None, least=self.moment_)
        self._run(self._descent, targets, rows, np.arange(len(release)), 1)
        return self._set_parameters(self._descent)

    def _check_goes_on(self, release: Release, loss: Loss) -> None:
        """Refuse a batch with another label space, loss or region."""
        if not self._has_space(release.space):
            raise InputError(
                "expected a release of the label space of earlier batches, found another; declare the same space for "
                "all, or fit another model"
            )
        if loss != self._descent.loss or self.region not in ("auto", self.region_):
            raise InputError("expected the loss and the region of earlier batches, found others; fit another model")

    def _rows(self, X: Any, labels: Release | Curator, *, reset: bool = True) -> tuple[Any, DescentRows]:  # noqa: N803
        """Features as rows of labels, checked, and as rows of a descent; the constant appended is set if ``reset``."""
        features = self._features(X, len(labels), reset=reset)
        check_same_rows(X, labels)
        if reset:
            self._end = self._default_end(features) if self.fit_intercept else 0.0
        return features, DescentRows.of(features, self._end)

    def _features(self, X: Any, labels: int, *, reset: bool) -> Any:  # noqa: N803
        """Check features: as many rows as labels, and none longer than declared."""
        if labels == 0:
            raise InputError("expected at least one row to learn from, found none; leave out empty batches")
        features = checked_features(self, X, accept_sparse="csr", dtype=np.float64, reset=reset)
        if features.shape[0] != labels:
            raise InputError(f"expected features of {labels} rows, as many as labels, found {features.shape[0]}")
        if issparse(features) and not features.has_canonical_format:
            features = features.copy()
            features.sum_duplicates()
        if not np.isfinite(squared_lengths(features)).all():
            raise InputError(
                "expected rows of features whose lengths are finite, found infinite ones; scale the features"
            )
        if self.norm is not None:
            lengths = np.sqrt(squared_lengths(features))
            row = int(np.argmax(lengths))
            if lengths[row] > _checks.positive(self.norm, "norm") * (1 + 1e-9):
                raise InputError(
                    f"expected rows of features no longer than the declared norm, {self.norm:g}, found one of length "
                    f"{lengths[row]:g} (position {row}); scale the features, or declare a larger norm"
                )
        return features

    def _default_end(self, features: Any) -> float:
        """The default constant appended to rows for the intercept."""
        return 1.0

    def _fixed_region(self, bound: GradientNoiseBound, rows: DescentRows) -> Region:
        """The given region, or the default ball."""
        if self.region == "auto":
            return self._default_ball(rows, bound.scores)
        if not isinstance(self.region, Region):
            raise InputError(
                f"expected region='auto', a Ball or an Unconstrained, found {self.region!r}; try Ball(5.0)"
            )
        return self.region

    def _region(self, targets: Targets, features: Any, rows: DescentRows, units: Units) -> Region:
        """The declared region, or the ball chosen on held-out released labels, in doubt the default one."""
        default = self._fixed_region(targets.bound, rows)
        if self.region != "auto" or not isinstance(default, Ball) or units.count < _FOLDS * 2:
            return default
        balls = [Ball(default.radius * share) for share in _SHARES]

        def judged(fit_on: np.ndarray, held: np.ndarray) -> Gains:
            gains = np.empty((len(balls), len(held)))
            for i, ball in enumerate(balls):
                descent = self._new_descent(targets.bound, rows, ball, len(fit_on) * self.passes)
                self._run(descent, targets, rows, fit_on, self.passes)
                gains[i] = self._gains(targets, self._scored(features[held], self._point(descent)), held)
            return Gains.of(gains, Held.of(features, targets.release, units, held), balls.index(default))

        return balls[chosen(units, _FOLDS, judged) or 0]

    def _default_ball(self, rows: DescentRows, scores: int) -> Ball:
        """The ball in which a row of typical length has scores of at most the default size; larger for many scores."""
        length = math.sqrt(float(rows.squares.mean())) or 1.0
        return Ball(self._default_score * math.sqrt(scores / 2) / length)

    def _new_descent(self, bound: GradientNoiseBound, rows: DescentRows, region: Region, count: int | None) -> Descent:
        """A descent before its first step."""
        return Descent(bound.loss, region, rows.columns, bound.points, self._steps(bound, rows, region, count))

    def _steps(
        self, bound: GradientNoiseBound, rows: DescentRows, region: Region, count: int | None, least: float = 0.0
    ) -> Steps:
        """Steps for rows, with G^2 the mean squared row length times the second moment in the scores, or ``least``."""
        loss, k = bound.loss, len(bound.points)
        squares = rows.squares if self.norm is None else np.array([float(self.norm) ** 2 + self._end**2])
        longest = math.sqrt(float(squares.max()))
        steepest = loss.lipschitz(k, region.radius * longest)
        self.moment_ = max(least, float(squares.mean()) * (steepest**2 + bound.noise), _NOTHING)
        setting = Setting(
            reach=region.radius,
            lipschitz=steepest * longest,
            moment=self.moment_,
            labels=bound.labels,
            epsilon=bound.epsilon,
            interactive=bound.interactive,
            l2=region.l2,
            rows=count,
        )
        return steps_of(self.steps, setting)

    def _check_row_count(self, bound: GradientNoiseBound, rows: int) -> None:
        """Refuse, or warn of, too few rows."""
        problem = check_rows(1.0 + bound.noise / bound.loss.lipschitz(len(bound.points), 1.0) ** 2, rows)
        if problem is not None:
            warnings.warn(problem, FewRowsWarning, stacklevel=3)

    def _run(
        self, descent: Descent, targets: Targets, rows: DescentRows, part: Int[np.ndarray, "m"], passes: int
    ) -> None:
        """Make a step for each row, in an order that does not depend on labels."""
        random = np.random.default_rng(self.random_state)
        for _ in range(passes):
            order = random.permutation(part) if self.shuffle else part
            for block in blocks(len(order), len(targets.bound.points)):
                descent.run(rows, order[block], targets.of_rows(order[block]))

    def _point(self, descent: Descent) -> Float[np.ndarray, "p s"]:
        return descent.mean if self.average else descent.last

    def _set_parameters(self, descent: Descent) -> Self:
        """Set the coefficients from a descent whose parameters are finite."""
        point = self._point(descent)
        if not np.isfinite(point).all():
            raise InputError(
                f"expected steps that stay finite, found infinite parameters with steps={self.steps!r}; give smaller "
                "steps, a bounded region, or scaled features"
            )
        self.__dict__.pop("answer_", None)  # it belongs to another fit
        self.coef_ = (point[:-1] if self._end else point).T.copy()
        self.intercept_ = self._end * point[-1] if self._end else np.zeros(point.shape[1])
        self._descent, self.steps_done_ = descent, descent.done
        return self

    def _scored(self, features: Any, point: Float[np.ndarray, "p s"]) -> Float[np.ndarray, "n s"]:
        return np.asarray(features @ point[:-1] + self._end * point[-1] if self._end else features @ point)

    def _scores(self, X: Any) -> Float[np.ndarray, "n s"]:  # noqa: N803
        check_is_fitted(self, "coef_")
        features = checked_features(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(features @ self.coef_.T + self.intercept_)
