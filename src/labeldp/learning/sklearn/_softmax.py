"""Softmax regression and expectation maximisation on released labels, as scikit-learn estimators.

They take a ``Release`` where scikit-learn takes labels, and refuse anything else: a bare array could hold true labels,
or released ones that would be taken for true ones.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Float, Int
from labeldp.columns import kind_of, result_or_none
from labeldp.errors import InputError
from labeldp.learning.choice import NO_HELP, SHARES, Gains, Held, Path, chosen, folds_of, predict_others
from labeldp.learning.features import indexable_rows, row_weights, take_rows
from labeldp.learning.heads import INTERCEPT_VARIANCE, SoftmaxFit, SoftmaxProblem, softmax
from labeldp.learning.losses import (
    METHODS,
    Method,
    OriginalFeatures,
    SyntheticRows,
    effective_share,
    gain,
    posterior,
    require_release,
    row_loss,
)
from labeldp.learning.metrics import ROWS, Units
from labeldp.learning.sklearn._soft_labels import (
    MetaEstimator,
    ProbabilityClassifier,
    ScoreClassifier,
    SparseInput,
    check_released_rows,
    checked_features,
    fit_on_soft_labels,
    soft_probabilities,
)
from labeldp.privacy.channels import ClusterChannel
from labeldp.release import Release

#: Prior variance of a logit under the default penalty, from all features together. It was best, or close to it, for
#: digits, breast cancer, Adult and MNIST at epsilons from 0.25 to 4.
_LOGIT_VARIANCE = 4.0

#: Prior variance of intercepts with the unbiased loss, in which it counts for more.
_UNBIASED_INTERCEPT_VARIANCE = 100.0

#: Penalties relative to the default one, from the largest to the smallest.
_PENALTIES = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4)
#: Number of penalties that are tried, besides that of class shares.
PENALTIES = len(_PENALTIES)
_PATIENCE = 2

#: Smallest probability of a class in the initial guess, relative to the average over classes.
_LEAST_GUESS = 0.1
#: Floor for P(features are the original ones) in the initial guess, so that its inverse stays bounded.
_LEAST_ORIGINAL = 0.2


@dataclass(frozen=True, eq=False)
class _TrainingRows:
    """Training data of a softmax model: features, released labels, weights, and the handling of resampled features."""

    features: Any
    release: Release
    weights: Float[np.ndarray, "n"]
    original: OriginalFeatures | None
    synthetic: SyntheticRows | None

    @classmethod
    def of(cls, features: Any, release: Release, sample_weight: Any = None) -> _TrainingRows:
        """Rows with their own features."""
        return cls(features, release, row_weights(sample_weight, len(release)), None, None)

    def take(self, rows: Int[np.ndarray, "m"]) -> _TrainingRows:
        """Selected rows, and all synthetic ones."""
        original = None if self.original is None else self.original.take(rows)
        return _TrainingRows(self.features[rows], self.release[rows], self.weights[rows], original, self.synthetic)

    def losses(self, method: Method, correction: float) -> tuple[Any, AnyLoss, Float[np.ndarray, "n"]]:
        """Features, their losses and their weights."""
        if self.synthetic is None:
            return self.features, row_loss(self.release, method, correction, self.original), self.weights
        loss = row_loss(self.release, method, correction)
        return self.synthetic.append_to(self.features, loss, self.weights)


@documented_in("labeldp.learning.sklearn")
@dataclass(eq=False, repr=False)
class SoftmaxRegression(SparseInput, ScoreClassifier):
    """Multinomial logistic regression on released labels, by L-BFGS.

    Args:
        method: ``"likelihood"``: maximum likelihood under the channel (*forward* loss correction); ``"unbiased"``: an
            unbiased estimate of the cross entropy on true labels (*backward* loss correction); ``"plain"``: released
            labels taken for true ones, as a baseline.
        correction: With ``"unbiased"``: the share of the correction, from 0 to 1; less has less variance and more bias.
            If labels are resampled with probability lambda (cluster response), the paper's beta is
            ``beta / (1 - beta) = correction * lambda / (1 - lambda)``; 0 is no correction.
        l2: Weight of half the squared coefficients beside the mean loss of a row; ``inf`` predicts class shares alone;
            or ``"auto"``: chosen by the log likelihood of held-out released labels (with ``"plain"`` as if they were
            true), over a range scaled to the features, the rows and the channel. Class shares stay unless the
            gain of features is above zero there: without signal a fit of noise is worse than they are.
        fit_intercept: True to fit intercepts. Unless labels are public they have a normal prior with variance
            2 (100 effective with ``"unbiased"``), which few effective rows need and more do not feel.
        tol: Largest entry of the gradient at convergence, for labels without noise. The likelihood of released labels
            is flatter, so its tolerance is multiplied by the root of the effective rows per row, as the sampling error
            of the gradient is.
        max_iter: Maximum number of iterations.
        folds: Folds for ``l2="auto"``; with 20 000 rows or more only one of them is held out.

    Attributes:
        classes_: The declared classes.
        coef_: Coefficients, shape (k, d).
        intercept_: Intercepts, shape (k,).
        l2_: The penalty used; infinite where class shares are predicted.
        n_iter_: Iterations of the last fit.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost, including the choice of
        ``l2``.

    References:
        Patrini et al. 2017 (forward), Natarajan et al. 2013 (backward), Ghazi et al. 2021, equations (7) and (17),
        Esfandiari et al. 2022, Algorithm 1, line 30 (``correction``).

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> from labeldp.learning.sklearn import SoftmaxRegression
        >>> features = np.repeat([[0.0], [1.0]], 500, axis=0)
        >>> space = Classes(["no", "yes"])
        >>> curator = Curator(["no"] * 500 + ["yes"] * 500, space)
        >>> release = curator.randomize(RandomizedResponse(space, epsilon=2.0))
        >>> SoftmaxRegression().fit(features, release).predict([[0.0], [1.0]]).tolist()
        ['no', 'yes']
    """

    _: KW_ONLY
    method: Method = "likelihood"
    correction: float = 1.0
    l2: float | Literal["auto"] = "auto"
    fit_intercept: bool = True
    tol: float = 1e-4
    max_iter: int = 500
    folds: int = 5

    def fit(
        self,
        X: Any,  # noqa: N803 (scikit-learn's name)
        y: Release,
        sample_weight: Any = None,
        original: OriginalFeatures | None = None,
        synthetic: SyntheticRows | None = None,
        groups: Any = None,
    ) -> Self:
        """Fit on features of shape (n, d), dense or sparse, and a release of n rows.

        Args:
            X: Features.
            y: A release.
            sample_weight: Weights of rows.
            original: Probabilities that the features are the original ones, where some were resampled.
            synthetic: With ``"unbiased"``: rows of the generator whose loss is subtracted; ``original`` then only
                serves the choice of ``l2``.
            groups: The privacy unit of each row, shape (n,); ``"rows"`` if each row is its own.
        """
        release = require_release(y)
        units = Units.of(groups, release)
        features = checked_features(self, X, accept_sparse="csr", dtype=(np.float64, np.float32))
        check_released_rows(X, release)
        _checks.among(self.method, "a method", METHODS)
        weights = row_weights(sample_weight, len(release))
        codes = self._set_classes(release.space)
        if synthetic is not None:
            synthetic = synthetic.of(release, self.method)
        original = None if original is None else original.of(release)
        rows = _TrainingRows(features, release, weights, original, synthetic)
        self.l2_ = self._penalty(rows, units) if self.l2 == "auto" else float(self.l2)
        fit = self._fit(rows, self.l2_, None)
        if fit.iterations >= self.max_iter:
            least = self._tolerance(release)
            message = (
                f"expected convergence in {self.max_iter} iterations, found a gradient above {least:.2g}; scale the "
                "features, or raise max_iter or tol"
            )
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        self.coef_, self.intercept_ = fit.coefficients.T[codes], fit.intercepts[codes]
        self.n_iter_ = fit.iterations
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        return softmax(self._scores(X))

    def _scores(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        check_is_fitted(self)
        features = checked_features(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        return np.asarray(features @ self.coef_.T + self.intercept_)

    def path(self, X: Any, y: Release, held: Held, groups: Any = ROWS, **of_rows: Any) -> Path:  # noqa: ARG002, N803
        """Fits to some rows under each penalty, relative to the usual one, judged on other rows."""
        self._set_classes(y.space)
        rows, rest = _TrainingRows.of(X, y, **of_rows), _TrainingRows.of(held.features, held.release)
        penalties, usual = self._penalties(rows)
        gains, models = self._judged(rows, rest, penalties, usual)
        return Path(
            Gains.of(gains, held, penalties.index(usual), 0),  # below: given up here, not elsewhere
            lambda setting: softmax(models[min(setting, len(models) - 1)].scores(held.features)),
        )

    def fit_setting(self, setting: int, X: Any, y: Release, groups: Any = ROWS, **of_rows: Any) -> Self:  # noqa: N803
        """Fit under one of the penalties of a path."""
        self.set_params(l2=self._penalties(_TrainingRows.of(X, y))[0][setting])
        return self.fit(X, y, groups=groups, **of_rows)

    def setting(self) -> str:
        """The penalty in words."""
        if math.isinf(self.l2_):
            return f"{SHARES}, {NO_HELP}"
        return f"l2 {self.l2_:.3g}, chosen among {PENALTIES} and {SHARES} on released labels"

    def _penalties(self, rows: _TrainingRows) -> tuple[list[float], float]:
        """Penalties to choose from, beginning with that of class shares, and the usual one."""
        usual = total_variance(rows.features) / (_LOGIT_VARIANCE * len(rows.release))
        if self.method != "likelihood":  # its curvature is the effective rows per row; that of the others is one
            usual /= effective_share(rows.release)
        return [math.inf, *(usual * share for share in _PENALTIES)], usual

    def _penalty(self, rows: _TrainingRows, units: Units) -> float:
        """The penalty with the largest likelihood of held-out released labels; that of class shares for one unit."""
        penalties, usual = self._penalties(rows)

        def judged(fit_on: np.ndarray, held: np.ndarray) -> Gains:
            gains = self._judged(rows.take(fit_on), rows.take(held), penalties, usual)[0]
            judges = Held.of(rows.features, rows.release, units, held, rows.weights / rows.weights.mean())
            return Gains.of(gains, judges, penalties.index(usual), 0)

        best = chosen(units, self.folds, judged)
        return math.inf if best is None else penalties[best]

    def _judged(
        self, part: _TrainingRows, rest: _TrainingRows, penalties: Sequence[float], usual: float
    ) -> tuple[Float[np.ndarray, "s m"], list[SoftmaxFit]]:
        """Gains of rows under each penalty by fits to others, each of which starts from the last, and these fits."""
        gains, models = np.full((len(penalties), len(rest.release)), -np.inf), list[SoftmaxFit]()
        for place, penalty in enumerate(penalties):
            models.append(self._fit(part, penalty, models[-1] if models else None))
            gains[place] = self._gain(rest, softmax(models[-1].scores(rest.features)))
            means = gains[: place + 1].mean(axis=1)
            if penalty < usual and max(means[-_PATIENCE:]) < max(means):
                break  # no improvement by the last penalties
        return gains, models

    def _gain(self, rows: _TrainingRows, probabilities: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n"]:
        """Log likelihood of held-out released labels; with ``"plain"`` as if they were true."""
        if self.method == "plain":
            return plain_gain(rows.release, probabilities)
        return gain(rows.release, probabilities, rows.original)

    def _tolerance(self, release: Release) -> float:
        """Largest entry of the gradient at convergence, relative to the sampling error of these labels."""
        flat = self.method == "likelihood" and not release.is_public
        return self.tol * math.sqrt(effective_share(release)) if flat else self.tol

    def _intercept_penalty(self, rows: _TrainingRows) -> float:
        """Penalty of intercepts: that of their prior, and none for public labels."""
        if rows.release.is_public:
            return 0.0
        share = effective_share(rows.release)
        variance = _UNBIASED_INTERCEPT_VARIANCE * share if self.method == "unbiased" else INTERCEPT_VARIANCE
        return 1.0 / (variance * float(rows.weights.sum()))

    def _fit(self, rows: _TrainingRows, l2: float, start: SoftmaxFit | None) -> SoftmaxFit:
        features, loss, weights = rows.losses(self.method, self.correction)
        penalty, (_, columns) = self._intercept_penalty(rows), features.shape
        if math.isinf(l2):
            features, l2 = np.empty((len(weights), 0)), 0.0
        problem = SoftmaxProblem(features, loss, weights, len(self.classes_), l2, self.fit_intercept, penalty)
        fit = problem.fit(start, self._tolerance(rows.release), self.max_iter)
        if len(fit.coefficients) == columns:
            return fit
        return SoftmaxFit(np.zeros((columns, len(self.classes_))), fit.intercepts, fit.iterations)


@documented_in("labeldp.learning.sklearn")
@dataclass(eq=False, repr=False)
class ReleasedLabelClassifier(MetaEstimator, ProbabilityClassifier):
    """Any scikit-learn classifier on released labels, by expectation maximisation.

    Each round predicts class probabilities of each row by the classifier fitted on the other folds, combines them with
    the likelihood of the released label, and fits on the resulting soft labels: every row is used once for each class,
    weighted by its posterior. Folds keep a flexible learner from confirming labels that it has memorised. The rounds
    increase the likelihood that forward loss correction maximises.

    Args:
        estimator: A classifier with ``predict_proba`` that takes ``sample_weight``, or a pipeline that ends in one;
            by default logistic regression.
        method: ``"em"``; ``"clusters"``: one fit on soft labels from the cluster distributions of a
            ``ClusterResponse`` and the released label, enough at a small epsilon, at which clusters hold nearly all the
            information; or ``"plain"``: released labels taken for true ones, as a baseline.
        max_iter: Rounds of expectation maximisation.
        folds: Folds for the expectation; with 1 the classifier predicts the rows that it was fitted on.
        smallest_weight: Class probabilities below this are dropped.

    Attributes:
        classes_: The declared classes.
        estimator_: The classifier after the last round, fitted on all rows.
        n_iter_: Number of rounds, including the last fit on all rows.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    References:
        Dempster et al. 1977; Malek et al. 2021, section 3.2 (ALIBI), for the posterior; Patrini et al. 2017, for
        forward correction.

    Example:
        >>> import numpy as np
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> from labeldp.learning.sklearn import ReleasedLabelClassifier
        >>> features = np.repeat([[0.0], [1.0]], 500, axis=0)
        >>> space = Classes(["no", "yes"])
        >>> curator = Curator(["no"] * 500 + ["yes"] * 500, space)
        >>> release = curator.randomize(RandomizedResponse(space, epsilon=2.0))
        >>> model = ReleasedLabelClassifier(DecisionTreeClassifier(max_depth=2)).fit(features, release)
        >>> model.predict([[0.0], [1.0]]).tolist()
        ['no', 'yes']
    """

    estimator: Any = None
    _: KW_ONLY
    method: Literal["em", "clusters", "plain"] = "em"
    max_iter: int = 2
    folds: int = 3
    smallest_weight: float = 1e-3

    def fit(
        self,
        X: Any,  # noqa: N803 (scikit-learn's name)
        y: Release,
        sample_weight: Any = None,
        original: OriginalFeatures | None = None,
        groups: Any = None,
    ) -> Self:
        """Fit on features of n rows, in any form that the classifier takes, and a release of n rows.

        Args:
            X: Features.
            y: A release.
            sample_weight: Weights of rows.
            original: Probabilities that the features are the original ones, where some were resampled; rows are then
                weighted by their posterior.
            groups: The privacy unit of each row, shape (n,); ``"rows"`` if each row is its own.
        """
        release = require_release(y)
        units = Units.of(groups, release)
        _checks.among(self.method, "a method", ("em", "clusters", "plain"))
        features = indexable_rows(X)
        check_released_rows(features, release)
        weights = row_weights(sample_weight, len(release))
        codes = self._set_classes(release.space)
        rounds = 0
        if original is not None and self.method != "em":
            raise InputError(f"expected the method 'em' for resampled features, found {self.method!r}")
        if self.method == "plain" or (release.is_public and original is None):
            soft = plain_labels(release)
        elif self.method == "clusters":
            soft = posterior(release, _cluster_shares(release))
        else:
            guess = self._first_guess(features, release, weights, units, original)
            soft, rounds = posterior(release, guess, original), self.max_iter
        for _ in range(rounds):
            soft = posterior(release, self._expected(features, soft, weights, units), original)
        self.estimator_ = self._fitted(features, soft[:, codes], weights)
        self.n_iter_ = 1 + rounds
        self._count_features()
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        check_is_fitted(self)
        return self._probabilities(self.estimator_, X)

    def _first_guess(
        self, features: Any, release: Release, weights: np.ndarray, units: Units, original: OriginalFeatures | None
    ) -> Float[np.ndarray, "n k"]:
        """Initial P(true class | features) of expectation maximisation, which only decides its speed.

        A classifier fitted on released labels taken for true ones predicts about ``floor + (1 - k floor) p``, where the
        floor is the share of a released label that goes to a given wrong class; it is subtracted. A start from
        posteriors without features needs many more rounds, since each removes only part of the noise. If features were
        resampled, that p is ``s h + (1 - s) pi``, which is solved for h unless s is small.
        """
        chance, k = release.class_channel.membership, len(self.classes_)
        floor = float(np.mean(chance.other / (chance.true + (k - 1) * chance.other)))
        predicted = self._expected(features, plain_labels(release), weights, units)
        if original is not None:
            shares = np.maximum(original.of(release).shares, _LEAST_ORIGINAL)[:, None]
            predicted = predicted + (1 / shares - 1) * (predicted - floor - (1 - k * floor) * original.prior)
        guess = np.maximum(predicted - floor, _LEAST_GUESS * (1 - k * floor) / k)
        return np.asarray(guess / guess.sum(axis=1, keepdims=True))

    def _expected(self, features: Any, soft: np.ndarray, weights: np.ndarray, units: Units) -> Float[np.ndarray, "n k"]:
        """P(true class | features) of each row, by a classifier fitted on the other folds."""
        if self.folds == 1:
            return self._probabilities(self._fitted(features, soft, weights), features)

        def others(fit_on: np.ndarray, held: np.ndarray) -> np.ndarray:
            model = self._fitted(take_rows(features, fit_on), soft[fit_on], weights[fit_on])
            return self._probabilities(model, take_rows(features, held))

        return predict_others(folds_of(units, self.folds), len(soft), others)

    def _fitted(self, features: Any, soft: np.ndarray, weights: np.ndarray) -> Any:
        """The classifier, fitted on every row once for each likely class."""
        return fit_on_soft_labels(self.estimator, features, soft, weights, self.smallest_weight)

    def _probabilities(self, model: Any, features: Any) -> Float[np.ndarray, "n k"]:
        """Probabilities of all classes, in the order of the soft labels that the model was fitted on."""
        return soft_probabilities(model, features, len(self.classes_))


def _cluster_shares(release: Release) -> Float[np.ndarray, "n k"]:
    """The public class distribution of each row's cluster."""
    channel = release.channel
    if not isinstance(channel, ClusterChannel):
        raise InputError("expected a release by cluster response for the method 'clusters', found another; use 'em'")
    return channel.shares


def plain_labels(release: Release) -> Float[np.ndarray, "n k"]:
    """Released labels taken for true ones: a class, or a set of classes in equal shares."""
    mask = release.class_channel.levels(release.codes).mask.astype(np.float64)
    size = mask.sum(axis=1, keepdims=True)
    return np.asarray(np.where(size > 0, mask / np.maximum(size, 1), 1.0 / mask.shape[1]))


def plain_gain(release: Release, probabilities: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n"]:
    """Log likelihood of released labels taken for true ones."""
    logarithms = np.log(np.maximum(probabilities, np.finfo(float).tiny))
    return np.asarray((plain_labels(release) * logarithms).sum(axis=1))


def total_variance(features: Any) -> float:
    """The sum of the variances of all features; 1 if none varies."""
    if issparse(features):
        mean = np.asarray(features.mean(axis=0), np.float64)
        variance = np.asarray(features.multiply(features).mean(axis=0), np.float64) - mean**2
    else:
        found = result_or_none(lambda: np.asarray(features.var(axis=0, dtype=np.float64)))
        if found is None:
            raise InputError(f"expected features as a matrix of numbers, found others ({kind_of(features)})")
        variance = found
    total = float(np.sum(variance))
    return total if total > 0 else 1.0
