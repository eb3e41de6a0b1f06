"""Learners of real labels from released ones: any regressor of scikit-learn on numbers whose mean is the label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from labeldp._documented import documented_in
from labeldp.errors import InputError
from labeldp.learning.features import indexable_rows, row_count, row_weights, take_rows
from labeldp.learning.losses import (
    Latent,
    clipped_mean,
    decoded_numbers,
    ends_of,
    is_unbiased,
    label_variance,
    noise_of,
    plain_numbers,
    real_labels,
    tells_numbers,
    unbiased_numbers,
)
from labeldp.learning.metrics import gains_of
from labeldp.learning.sklearn._soft_labels import weight_keyword
from labeldp.privacy.channels import BinChannel
from labeldp.release import Release

NUMBER_METHODS = ("auto", "unbiased", "likelihood", "decoded", "plain")

#: Penalties of ridge regression on scaled features, beside the sum of squared errors.
_PENALTIES = tuple(float(10.0**power) for power in np.arange(-1.0, 6.5, 0.5))
#: Fits to fewer rows than this take one thread: two wait for each other longer than they work.
_FEW_ROWS = 200_000
#: Of boosted trees: how many, their leaves, and what a leaf is penalised by, in rows of clean labels.
_TREES, _LEAVES, _ROWS_OF_PENALTY = 60, 8, 100.0
#: Deviations of labels around predictions that are tried, as shares of the range.
_DEVIATIONS = (0.01, 0.02, 0.04, 0.07, 0.11, 0.16, 0.22, 0.3, 0.4)
#: Shares of the way from the mean to a prediction that are tried where likelihood decides.
_SHARES = np.linspace(0.0, 1.0, 11)
#: Rows that deviations and shares are chosen by.
_ENOUGH_ROWS = 5_000


class NumberRegressor(RegressorMixin, BaseEstimator):
    """What learners of real labels share: a score on released labels."""

    def score(self, X: Any, y: Release, sample_weight: Any = None) -> float:  # noqa: N803 (scikit-learn's name)
        """How far the mean squared error is below that of saying the middle of the range: see ``squared_gain``."""
        release = real_labels(y)
        return float(np.average(gains_of(release, np.asarray(self.predict(X))), weights=sample_weight))


@documented_in("labeldp.learning.sklearn")
class ReleasedLabelRegressor(MetaEstimatorMixin, NumberRegressor):
    """Any scikit-learn regressor on released real labels.

    A released number has the label as its mean, whatever the noise, so a least-squares fit to numbers targets the same
    function as one to labels. Noise is many times what labels vary by, though, so the default learner is chosen and
    regularised by it, rows with less noise count more, and predictions are drawn towards their mean as far as held-out
    released labels say.

    Args:
        estimator: A regressor, or a pipeline that ends in one. By default ridge regression on scaled features, or
            boosted trees whose leaves are penalised by the noise where held-out released labels clearly prefer them.
        method: ``"unbiased"``: on numbers whose mean is the label. ``"likelihood"``: the likelihood of released labels,
            if a label is a normal number around its prediction with one deviation for all rows, rounded and cut to
            the declared grid; its maximum is approached by Fisher's scoring, each step of which is a fit to
            ``f + slope / information`` for held-out predictions f, with the slope of a row's log likelihood and the
            mean of squared slopes; the deviation is, of a few, the likeliest one. ``"decoded"``: of bins, on numbers
            whose mean is that of the labels in the label's bin, whatever their distribution around predictions.
            ``"plain"``: released labels as if they were true, as a baseline. ``"auto"``: unbiased, or likelihood for
            bins, candidates and clusters, under which numbers are not unbiased; decoded for bins where that is clearly
            better on held-out released labels, as it is where labels are skewed.
        max_iter: Steps of scoring.
        folds: Parts of the rows for predictions of rows that were not fitted on.
        shrink: Whether to draw predictions towards their mean by the share that is best on rows that were not fitted
            on: by squared error, or by likelihood.

    Attributes:
        estimator_: The regressor that was fitted on all rows.
        method_: The method that was used.
        share_: How far predictions are away from their mean, between 0 and 1 of what the regressor says.
        centre_: That mean.
        deviation_: The deviation of labels around predictions, with likelihood; otherwise 0.
        range_: The ends of the declared range, which predictions are cut to.
        n_iter_: Steps of scoring, or 1.

    Guarantee:
        Whatever is learned from a release is covered by the release's guarantee, at no further cost; so is every choice
        that is made on released labels.

    References:
        Ghazi et al. 2023, for bins; Badanidiyuru et al. 2023, for unbiased numbers; Tobin 1958, for the likelihood of
        normal numbers that are cut; Berndt, Hall, Hall and Hausman 1974, for the information.

    Example:
        >>> import numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> from labeldp import Curator, Interval, RandomizedResponse
        >>> from labeldp.learning.sklearn import ReleasedLabelRegressor
        >>> features, space = np.repeat([[0.0], [1.0]], 2000, axis=0), Interval(0, 1, 0.2)
        >>> curator = Curator([0.2] * 2000 + [0.8] * 2000, space)
        >>> release = curator.randomize(RandomizedResponse(space, epsilon=4.0))
        >>> model = ReleasedLabelRegressor(LinearRegression()).fit(features, release)
        >>> model.predict([[0.0], [1.0]]).round(1).tolist()
        [0.2, 0.8]
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: Literal["auto", "unbiased", "likelihood", "decoded", "plain"] = "auto",
        max_iter: int = 3,
        folds: int = 5,
        shrink: bool = True,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.max_iter = max_iter
        self.folds = folds
        self.shrink = shrink

    def fit(self, X: Any, y: Release, sample_weight: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Fit on features of n rows, in any form that the regressor takes, and a release of n rows."""
        release, features = real_labels(y), indexable_rows(X)
        if row_count(features) != len(release) or len(release) == 0:
            raise InputError(f"expected a released label for each of {row_count(features)} rows, found {len(release)}")
        if self.method not in NUMBER_METHODS:
            raise InputError(f"expected a method among {', '.join(NUMBER_METHODS)}, found {self.method!r}")
        with few_threads(len(release)):
            self._fit(features, release, row_weights(sample_weight, len(release)))
        if hasattr(self.estimator_, "n_features_in_"):
            self.n_features_in_ = self.estimator_.n_features_in_
        return self

    def _fit(self, features: Any, release: Release, weights: np.ndarray) -> None:
        self.range_ = ends_of(release)
        self.method_ = self._method(release)
        self.deviation_, self.share_, self.centre_ = 0.0, 1.0, 0.0
        self.n_iter_ = self.max_iter if self.method_ == "likelihood" else 1
        if self.method_ == "likelihood":
            self._fit_likelihood(features, release, weights)
        elif self.method_ == "plain" or (release.is_public and self.estimator is not None):
            numbers = plain_numbers(release)
            self.estimator_ = fitted(self._candidates(release, numbers)[0], features, numbers, weights)
        else:
            self._fit_squares(features, release, weights)

    def predict(self, X: Any) -> Float[np.ndarray, "n"]:  # noqa: N803
        """The mean of the true label of each row, between the ends of the declared range."""
        check_is_fitted(self)
        features = indexable_rows(X)
        with few_threads(row_count(features)):
            found = np.asarray(self.estimator_.predict(features), dtype=np.float64)
        return self._said(found)

    def _method(self, release: Release) -> str:
        if self.method == "decoded" and not tells_numbers(release):
            raise InputError(
                "expected bins or unbiased numbers to decode, found candidates or clusters; use likelihood"
            )
        if self.method != "auto":
            return "unbiased" if self.method == "likelihood" and release.is_public else str(self.method)
        return "unbiased" if release.is_public or is_unbiased(release) else "likelihood"

    def _candidates(self, release: Release, numbers: np.ndarray) -> Sequence[Any]:
        """The regressor that was given, or those that the default is chosen among."""
        return usual_regressors(noise_ratio(release, numbers)) if self.estimator is None else [self.estimator]

    def _fit_squares(self, features: Any, release: Release, weights: np.ndarray) -> None:
        """Least squares on decoded numbers; the estimator and the share are those of the least held-out error."""
        numbers = unbiased_numbers(release) if self.method_ == "unbiased" else decoded_numbers(release)
        weights = weights * precisions(release, numbers)
        candidates = self._candidates(release, numbers)
        best = candidates[0]
        if len(candidates) > 1 or self.shrink:
            best, held = self._best_of(candidates, features, numbers, weights)
            self._draw_in(held, numbers, weights)
        self.estimator_ = fitted(best, features, numbers, weights)

    def _fit_likelihood(self, features: Any, release: Release, weights: np.ndarray) -> None:
        """Fisher's scoring from a fit to decoded numbers."""
        numbers, latent = decoded_numbers(release), Latent.of(release)
        decoded, (best, centres) = (
            numbers,
            self._best_of(self._candidates(release, numbers), features, numbers, weights),
        )
        held = centres
        few = slice(0, _ENOUGH_ROWS)
        some = latent.of_rows(few)
        for _ in range(self.max_iter):
            centres = np.clip(centres, *self.range_)
            self.deviation_ = self._likeliest_deviation(some, centres[few], weights[few])
            _, slopes = latent.at(centres, self.deviation_)
            information = float(np.average(slopes**2, weights=weights))
            numbers = centres + slopes / max(information, np.finfo(float).tiny)
            centres = self._held_out(best, features, numbers, weights)
        centres = np.clip(centres, *self.range_)
        self.deviation_ = self._likeliest_deviation(some, centres[few], weights[few])
        if self.shrink:
            self.centre_ = float(np.average(centres, weights=weights))
            away = centres[few] - self.centre_
            tried = [some.at(self.centre_ + share * away, self.deviation_)[0] @ weights[few] for share in _SHARES]
            self.share_ = float(_SHARES[int(np.argmax(tried))])
        if self.method == "auto" and isinstance(release.channel, BinChannel):
            numbers = self._better_numbers(numbers, centres, decoded, held, weights)
        self.estimator_ = fitted(best, features, numbers, weights)

    def _better_numbers(
        self, numbers: np.ndarray, centres: np.ndarray, decoded: np.ndarray, held: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """Those of the likelihood, or decoded ones if held-out predictions by these have clearly less squared error."""
        likely, found = self._said(centres), (self.deviation_, self.share_, self.centre_)
        self.deviation_, self.share_, self.centre_ = 0.0, 1.0, 0.0
        self._draw_in(held, decoded, weights)
        if clearly_best(np.stack([weights * each * (2.0 * decoded - each) for each in (likely, self._said(held))])):
            self.method_, self.n_iter_ = "decoded", 1
            return decoded
        self.deviation_, self.share_, self.centre_ = found
        return numbers

    def _draw_in(self, held: np.ndarray, numbers: np.ndarray, weights: np.ndarray) -> None:
        """Find how far to draw predictions towards their mean, by squared error on rows that were not fitted on."""
        if self.shrink:
            self.centre_ = float(np.average(held, weights=weights))
            self.share_ = _share(held - self.centre_, numbers - self.centre_, weights)

    def _said(self, found: np.ndarray) -> np.ndarray:
        """The mean label of each row, from what a regressor finds."""
        return clipped_mean(self.centre_ + self.share_ * (found - self.centre_), self.deviation_, *self.range_)

    def _likeliest_deviation(self, latent: Latent, centres: np.ndarray, weights: np.ndarray) -> float:
        low, high = self.range_
        tried = [share * (high - low) for share in _DEVIATIONS]
        return tried[int(np.argmax([latent.at(centres, each)[0] @ weights for each in tried]))]

    def _best_of(
        self, candidates: Sequence[Any], features: Any, numbers: np.ndarray, weights: np.ndarray
    ) -> tuple[Any, np.ndarray]:
        """The regressor of the clearly least held-out error, and what it says of rows that were not fitted on."""
        held: list[np.ndarray] = []
        for each in candidates:
            rival = held[0] if held else None
            held.append(self._held_out(each, features, numbers, weights, rival))
        place = clearly_best(np.stack([weights * each * (2.0 * numbers - each) for each in held]))
        return candidates[place], held[place]

    def _held_out(
        self, estimator: Any, features: Any, numbers: np.ndarray, weights: np.ndarray, rival: np.ndarray | None = None
    ) -> np.ndarray:
        """Predictions of each row by a regressor that was fitted on others; the rival's if that is ahead at once."""
        found = np.full(len(numbers), np.average(numbers, weights=weights))
        for fit_on, rest in parts_of(len(numbers), self.folds):
            model = fitted(estimator, take_rows(features, fit_on), numbers[fit_on], weights[fit_on])
            found[rest] = model.predict(take_rows(features, rest))
            if rival is not None and is_behind(found[rest], rival[rest], numbers[rest], weights[rest]):
                return rival
            rival = None
        return found

    def __sklearn_tags__(self) -> Any:
        """It takes the features that the regressor takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(usual_ridge() if self.estimator is None else self.estimator).input_tags
        return tags


def usual_ridge() -> Pipeline:
    """Ridge regression on scaled features, whose penalty is chosen by the error on rows left out.

    Features are not centred, which the intercept makes up for, so that sparse ones stay sparse.
    """
    return make_pipeline(StandardScaler(with_mean=False), RidgeCV(_PENALTIES))


def usual_boosting(ratio: float) -> HistGradientBoostingRegressor:
    """Boosted trees for numbers that vary so many times as much as labels: that much more is asked of a leaf."""
    return HistGradientBoostingRegressor(
        max_iter=_TREES,
        max_leaf_nodes=_LEAVES,
        l2_regularization=_ROWS_OF_PENALTY * ratio,
        early_stopping=False,
        random_state=0,
    )


def usual_regressors(ratio: float) -> list[Any]:
    """What the default is chosen among."""
    return [usual_ridge(), usual_boosting(ratio)]


def noise_ratio(release: Release, numbers: Float[np.ndarray, "n"]) -> float:
    """How many times as much as labels released numbers vary, about."""
    return max(1.0, float(np.var(numbers)) / label_variance(release, numbers))


def precisions(release: Release, numbers: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Weights of rows by one over what their numbers vary by; of mean 1."""
    found = 1.0 / (noise_of(release) + label_variance(release, numbers))
    return np.asarray(found / found.mean())


def parts_of(rows: int, folds: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows to fit on and the rest, so that each row is once among the rest."""
    return KFold(min(folds, rows), shuffle=True, random_state=0).split(np.zeros(rows)) if rows > 1 else iter(())


def fitted(estimator: Any, features: Any, numbers: Float[np.ndarray, "n"], weights: Float[np.ndarray, "n"]) -> Any:
    """A copy of a regressor, fitted; weights are given where they differ."""
    model = clone(estimator)
    given = {} if (weights == weights[0]).all() else {weight_keyword(model): weights}
    return model.fit(features, numbers, **given)


def few_threads(rows: int) -> Any:
    """One thread for few rows, for which threads cost more than they do."""
    return threadpool_limits(1 if rows < _FEW_ROWS else None)


def is_behind(
    found: Float[np.ndarray, "n"],
    rival: Float[np.ndarray, "n"],
    numbers: Float[np.ndarray, "n"],
    weights: Float[np.ndarray, "n"],
) -> bool:
    """Whether predictions of the first rows held out are no better than a rival's, so that no more are tried.

    A model that is better by z standard errors over five parts of the rows is given up so with the probability that a
    normal number exceeds z / sqrt(5): a tenth for 3 standard errors, where the difference can just be seen.
    """
    return float(weights @ ((found - rival) * (2.0 * numbers - found - rival))) <= 0.0


def clearly_best(gains: Float[np.ndarray, "m n"]) -> int:
    """The model with the largest mean gain, if it exceeds that of the first by more than its standard error."""
    best = int(np.argmax(gains.mean(axis=1)))
    over = gains[best] - gains[0]
    return best if float(over.mean()) > float(np.std(over)) / np.sqrt(len(over)) else 0


def _share(away: np.ndarray, numbers: np.ndarray, weights: np.ndarray) -> float:
    """The share of a prediction's way from the mean for which the squared error is least, between 0 and 1.

    It is the slope of numbers on predictions, less its variance over itself: what is not known from noise counts less,
    as in the estimate of Efron and Morris 1973, so that a model whose predictions noise explains says the mean.
    """
    total = float((weights * away) @ away)
    if total == 0.0:
        return 0.0
    slope = float((weights * away) @ numbers) / total
    variance = float(((weights * away * (numbers - slope * away)) ** 2).sum()) / total**2
    return float(np.clip(slope - variance / slope, 0.0, 1.0)) if slope > 0.0 else 0.0
