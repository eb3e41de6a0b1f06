"""Regressors of numeric labels from released ones: any scikit-learn regressor on numbers whose mean is the label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Float, Int
from labeldp._threads import threads_to_fit
from labeldp.errors import InputError
from labeldp.learning.choice import Held, OneSetting, clearly_best, fit_in_units, folds_of
from labeldp.learning.features import indexable_rows, row_count, row_weights, take_rows
from labeldp.learning.heads import KernelSums
from labeldp.learning.losses import (
    Latent,
    clipped_mean,
    decoded_numbers,
    ends_of,
    expected_mean,
    is_decodable,
    is_unbiased,
    label_variance,
    plain_numbers,
    precisions,
    require_numeric_labels,
    unbiased_numbers,
)
from labeldp.learning.metrics import Units, gains_of
from labeldp.learning.sklearn._kernel import EvidenceRidge
from labeldp.learning.sklearn._soft_labels import MetaEstimator, check_released_rows, of_features, weight_keyword
from labeldp.release import Release, check_same_rows

NUMBER_METHODS = ("auto", "unbiased", "likelihood", "decoded", "plain")

#: Boosted trees: their number, their leaves, and the penalty of a leaf in effective rows.
_TREES, _LEAVES, _ROWS_OF_PENALTY = 60, 8, 100.0
#: Candidate standard deviations of labels around predictions, as shares of the range.
_DEVIATIONS = (0.01, 0.02, 0.04, 0.07, 0.11, 0.16, 0.22, 0.3, 0.4)
#: Candidate factors of shrinkage towards the mean under the likelihood.
_SHARES = np.linspace(0.0, 1.0, 11)
#: Standard errors beyond which the density of a factor is taken for 0, and nodes of the integral.
_FAR, _NODES = 8.0, 64
#: Rows from which standard deviations and shrinkage are chosen.
_ENOUGH_ROWS = 5_000
#: Folds of units in the place of those of a regressor of scikit-learn.
_FOLDS_OF_UNITS = 5


class NumberRegressor(OneSetting, RegressorMixin, BaseEstimator):
    """Base of learners of numeric labels: a score on released labels."""

    def _predict_held(self, held: Held) -> Float[np.ndarray, "m"]:
        return np.asarray(self.predict(held.features), dtype=np.float64)

    def score(self, X: Any, y: Release, sample_weight: Any = None) -> float:  # noqa: N803 (scikit-learn's name)
        """Reduction of the mean squared error against predicting the middle of the range: see ``squared_gain``."""
        release = require_numeric_labels(y)
        check_same_rows(X, release)
        return float(np.average(gains_of(release, np.asarray(self.predict(X))), weights=sample_weight))


@dataclass(frozen=True, eq=False)
class NumberRows:
    """Rows to fit regressors to.

    Attributes:
        features: Their features.
        numbers: A number of each, whose mean is the label.
        weights: Their weights.
        units: Their privacy units.
    """

    features: Any
    numbers: Float[np.ndarray, "n"]
    weights: Float[np.ndarray, "n"]
    units: Units

    def take(self, rows: Int[np.ndarray, "m"]) -> NumberRows:
        """Some of the rows."""
        return NumberRows(take_rows(self.features, rows), self.numbers[rows], self.weights[rows], self.units.take(rows))

    def gains(self, predicted: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """The gain of each row by predictions: see ``number_gains``."""
        return number_gains(self.numbers, self.weights, predicted)

    def fitted(self, estimator: Any) -> Any:
        """A fitted copy of a regressor, with weights if they differ, and with folds of units wherever it has folds."""
        model, units, keywords = clone(estimator), self.units, {}
        if not (self.weights == self.weights[0]).all():
            weight_keyword(model)  # or it takes none
            keywords = {"sample_weight": self.weights}
        given = {} if units.numbers is None else model.get_params()
        own = {name: each for name, each in given.items() if is_folds(name)}
        if own and units.count > 1:
            parts = folds_of(units, min(_FOLDS_OF_UNITS, units.count))
            model.set_params(**dict.fromkeys(own, parts))
        of_features(partial(fit_in_units, model), self.features, self.numbers, units, **keywords)
        return model.set_params(**own)

    def predicted(
        self, estimator: Any, folds: int, rival: Float[np.ndarray, "n"] | None = None
    ) -> Float[np.ndarray, "n"]:
        """Held-out predictions of each row; the rival's if they are no better on the first fold.

        A model that is better by z standard errors over five folds is given up with the probability that a normal
        number exceeds z / sqrt(5): a tenth for 3 standard errors, at which the difference just becomes visible.
        """
        centres = np.full(len(self.numbers), np.average(self.numbers, weights=self.weights))
        count = min(folds, self.units.count)
        for fit_on, rest in folds_of(self.units, count) if count > 1 else ():
            model, held = self.take(fit_on).fitted(estimator), self.take(rest)
            centres[rest] = of_features(model.predict, held.features)
            if rival is not None and float((held.gains(centres[rest]) - held.gains(rival[rest])).sum()) <= 0.0:
                return rival
            rival = None
        return centres

    def best_of(self, candidates: Sequence[Any], folds: int) -> tuple[Any, Float[np.ndarray, "n"]]:
        """The regressor of the clearly least held-out error, and its held-out predictions."""
        held = [self.predicted(candidates[0], folds)]
        held += [self.predicted(each, folds, held[0]) for each in candidates[1:]]
        place = clearly_best(np.stack(list(map(self.gains, held))), self.units)
        return candidates[place], held[place]


@documented_in("labeldp.learning.sklearn")
@dataclass(eq=False, repr=False)
class ReleasedLabelRegressor(MetaEstimator, NumberRegressor):
    """Any scikit-learn regressor on released numeric labels.

    A released number has the label as its mean, so a least-squares fit to numbers targets the same function as one to
    labels. Its noise has many times the variance of labels, though, so the default learner is chosen and regularised by
    the noise, rows with less noise weigh more, and predictions are shrunk towards their mean by a factor that held-out
    released labels choose.

    Args:
        estimator: A regressor, or a pipeline that ends in one. By default ridge regression on scaled features, or
            boosted trees with leaves penalised by the noise if held-out released labels clearly prefer them.
        method: ``"unbiased"`` (as in backward loss correction): least squares on numbers whose mean is the label.
            ``"likelihood"`` (as in forward loss correction): maximum likelihood of released labels, for labels that are
            normal around their predictions with one standard deviation, rounded and clipped to the declared grid. It is
            approached by Fisher scoring, each step of which is a fit to ``f + slope / information`` for held-out
            predictions f, with the slope of a row's log likelihood and the mean of squared slopes; the standard
            deviation is the likeliest of a few. ``"decoded"``: least squares on decoded bins, numbers whose mean is the
            mean label of the label's bin, whatever the distribution around predictions. ``"plain"``: released labels
            taken for true ones, as a baseline. ``"auto"``: unbiased, or likelihood for bins, candidates and clusters,
            under which numbers are not unbiased; decoded for bins if that is clearly better on held-out released
            labels, as for skewed labels.
        max_iter: Steps of Fisher scoring.
        folds: Folds for predictions of held-out rows.
        shrink: True to shrink predictions towards their mean by a factor that held-out rows choose: the one expected
            by squared error, or the likeliest.

    Attributes:
        estimator_: The regressor fitted on all rows.
        method_: The method used.
        share_: Factor of shrinkage, between 0 (the mean) and 1 (no shrinkage).
        centre_: The mean that predictions are shrunk towards.
        deviation_: Standard deviation of labels around predictions, with likelihood; otherwise 0.
        range_: Ends of the declared range, to which predictions are clipped.
        n_iter_: Steps of Fisher scoring, or 1.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost, including every choice made
        on released labels.

    References:
        Ghazi et al. 2023, for bins; Badanidiyuru et al. 2023, for unbiased numbers; Patrini et al. 2017, for forward
        and backward correction; Tobin 1958, for the likelihood of clipped normal numbers; Berndt, Hall, Hall and
        Hausman 1974, for the information.

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

    estimator: Any = None
    _: KW_ONLY
    method: Literal["auto", "unbiased", "likelihood", "decoded", "plain"] = "auto"
    max_iter: int = 3
    folds: int = 5
    shrink: bool = True

    def fit(self, X: Any, y: Release, sample_weight: Any = None, groups: Any = None) -> Self:  # noqa: N803
        """Fit on features of n rows, in any form that the regressor takes, and a release of n rows.

        Args:
            X: Features.
            y: A release.
            sample_weight: Weights of rows.
            groups: The privacy unit of each row, shape (n,), which is then on one side of every fold, of those of the
                regressor too if it has a ``cv``; ``"rows"`` if each row is its own.
        """
        release, features = require_numeric_labels(y), indexable_rows(X)
        check_released_rows(features, release)
        units = Units.of(groups, release)
        _checks.among(self.method, "a method", NUMBER_METHODS)
        weights = row_weights(sample_weight, len(release))
        with threadpool_limits(threads_to_fit(len(release))):
            self._fit(release, lambda numbers: NumberRows(features, numbers, weights, units))
        self._count_features()
        return self

    def fit_sums(self, sums: KernelSums, ends: tuple[float, float], share: float = 1.0) -> Self:
        """Fit ridge regression on sums over rows whose targets are numbers with labels as means, without shrinkage."""
        self.estimator_ = clone(self.estimator).fit_sums(sums, share)
        self.range_ = ends
        self.method_, self.deviation_, self.share_, self.centre_, self.n_iter_ = "decoded", 0.0, 1.0, 0.0, 1
        self._count_features()
        return self

    def setting(self) -> str:
        """The shrinkage towards the mean in words."""
        return shrinkage_setting(self.share_)

    def _fit(self, release: Release, rows: Callable[[np.ndarray], NumberRows]) -> None:
        self.range_ = ends_of(release)
        self.method_ = self._method(release)
        self.deviation_, self.share_, self.centre_ = 0.0, 1.0, 0.0
        self.n_iter_ = self.max_iter if self.method_ == "likelihood" else 1
        if self.method_ == "likelihood":
            self._fit_likelihood(release, rows(decoded_numbers(release)))
        elif self.method_ == "plain" or (release.is_public and self.estimator is not None):
            numbers = plain_numbers(release)
            self.estimator_ = rows(numbers).fitted(self._candidates(release, numbers)[0])
        else:
            numbers = unbiased_numbers(release) if self.method_ == "unbiased" else decoded_numbers(release)
            self._fit_squares(release, rows(numbers))

    def predict(self, X: Any) -> Float[np.ndarray, "n"]:  # noqa: N803
        """The estimated mean label of each row, within the declared range."""
        check_is_fitted(self)
        features = indexable_rows(X)
        with threadpool_limits(threads_to_fit(row_count(features))):
            centres = np.asarray(of_features(self.estimator_.predict, features), dtype=np.float64)
        return self._mean_labels(centres)

    def _method(self, release: Release) -> str:
        if self.method == "decoded" and not is_decodable(release):
            raise InputError(
                "expected bins or unbiased numbers to decode, found candidates or clusters; use method='likelihood'"
            )
        if self.method != "auto":
            return "unbiased" if self.method == "likelihood" and release.is_public else str(self.method)
        return "unbiased" if release.is_public or is_unbiased(release) else "likelihood"

    def _inner(self) -> Any:
        return usual_ridge() if self.estimator is None else self.estimator

    def _candidates(self, release: Release, numbers: np.ndarray) -> Sequence[Any]:
        """The regressor of the user, or the default candidates, which know the noise."""
        ratio = noise_ratio(release, numbers)
        if self.estimator is None:
            return [usual_ridge(1.0 / ratio), usual_boosting(ratio)]
        if isinstance(self.estimator, EvidenceRidge):
            return [clone(self.estimator).set_params(signal=1.0 / ratio)]
        return [self.estimator]

    def _fit_squares(self, release: Release, rows: NumberRows) -> None:
        """Least squares on unbiased or decoded numbers; held-out error decides the estimator and the shrinkage."""
        rows = replace(rows, weights=rows.weights * precisions(release, rows.numbers))
        candidates = self._candidates(release, rows.numbers)
        best = candidates[0]
        if len(candidates) > 1 or self.shrink:
            best, held = rows.best_of(candidates, self.folds)
            self._choose_shrinkage(held, rows, calibrated=is_bayesian(best))
        self.estimator_ = rows.fitted(best)

    def _fit_likelihood(self, release: Release, decoded: NumberRows) -> None:
        """Maximum likelihood by Fisher scoring from a fit to decoded numbers."""
        latent, weights = Latent.of(release), decoded.weights
        best, held = decoded.best_of(self._candidates(release, decoded.numbers), self.folds)
        rows, centres, few = decoded, held, slice(0, _ENOUGH_ROWS)
        some = latent.of_rows(few)
        for _ in range(self.max_iter):
            centres = np.clip(centres, *self.range_)
            self.deviation_ = self._likeliest_deviation(some, centres[few], weights[few])
            _, slopes = latent.at(centres, self.deviation_)
            information = float(np.average(slopes**2, weights=weights))
            rows = replace(rows, numbers=centres + slopes / max(information, np.finfo(float).tiny))
            centres = rows.predicted(best, self.folds)
        centres = np.clip(centres, *self.range_)
        self.deviation_ = self._likeliest_deviation(some, centres[few], weights[few])
        if self.shrink:
            self.centre_ = float(np.average(centres, weights=weights))
            offsets = centres[few] - self.centre_
            values = [some.at(self.centre_ + share * offsets, self.deviation_)[0] @ weights[few] for share in _SHARES]
            self.share_ = float(_SHARES[int(np.argmax(values))])
        decodes = self.method == "auto" and release.channel.bins is not None and self._decodes(centres, decoded, held)
        self.estimator_ = (decoded if decodes else rows).fitted(best)

    def _decodes(self, centres: np.ndarray, decoded: NumberRows, held: np.ndarray) -> bool:
        """True if decoded numbers have a clearly smaller held-out squared error than those of the likelihood."""
        likely, settings = self._mean_labels(centres), (self.deviation_, self.share_, self.centre_)
        self.deviation_, self.share_, self.centre_ = 0.0, 1.0, 0.0
        self._choose_shrinkage(held, decoded)
        rivals = (likely, self._mean_labels(held))
        if clearly_best(np.stack(list(map(decoded.gains, rivals))), decoded.units):
            self.method_, self.n_iter_ = "decoded", 1
            return True
        self.deviation_, self.share_, self.centre_ = settings
        return False

    def _choose_shrinkage(self, held: np.ndarray, rows: NumberRows, *, calibrated: bool = False) -> None:
        """Set the shrinkage of predictions towards the mean label, by the squared error on held-out rows."""
        if self.shrink:
            self.centre_ = expected_mean(rows.numbers, rows.weights, *self.range_)
            offsets, numbers = held - self.centre_, rows.numbers - self.centre_
            self.share_ = shrinkage(offsets, numbers, rows.weights, rows.units, calibrated=calibrated)

    def _mean_labels(self, centres: np.ndarray) -> np.ndarray:
        """The mean label of each row, from the regressor's predictions."""
        return clipped_mean(self.centre_ + self.share_ * (centres - self.centre_), self.deviation_, *self.range_)

    def _likeliest_deviation(self, latent: Latent, centres: np.ndarray, weights: np.ndarray) -> float:
        low, high = self.range_
        deviations = [share * (high - low) for share in _DEVIATIONS]
        return deviations[int(np.argmax([latent.at(centres, each)[0] @ weights for each in deviations]))]


def usual_ridge(signal: float = 1.0) -> Pipeline:
    """Bayesian ridge regression on scaled features, for targets of which a share of the variance is not noise.

    Features are not centred, so that sparse ones stay sparse; the intercept compensates for it.
    """
    return make_pipeline(StandardScaler(with_mean=False), EvidenceRidge((), signal))


def is_bayesian(regressor: Any) -> bool:
    """True for a regressor whose predictions are means given the released labels, in a pipeline or alone."""
    return isinstance(regressor.steps[-1][1] if isinstance(regressor, Pipeline) else regressor, EvidenceRidge)


def usual_boosting(ratio: float) -> HistGradientBoostingRegressor:
    """Boosted trees with leaves penalised in proportion to the ratio of the variances of numbers and labels."""
    return HistGradientBoostingRegressor(
        max_iter=_TREES,
        max_leaf_nodes=_LEAVES,
        l2_regularization=_ROWS_OF_PENALTY * ratio,
        early_stopping=False,
        random_state=0,
    )


def noise_ratio(release: Release, numbers: Float[np.ndarray, "n"]) -> float:
    """Approximate ratio of the variances of released numbers and labels, at least 1; precise rows count for more."""
    weights = precisions(release, numbers)
    offsets = numbers - np.average(numbers, weights=weights)
    return max(1.0, float(np.mean(weights * offsets**2)) / label_variance(release, numbers))


def number_gains(
    numbers: Float[np.ndarray, "n"], weights: Float[np.ndarray, "n"], predicted: Float[np.ndarray, "n"]
) -> Float[np.ndarray, "n"]:
    """Reduction of the squared error by predictions, against numbers whose means are labels, beside predicting 0."""
    return np.asarray(weights * predicted * (2.0 * numbers - predicted))


def is_folds(name: str) -> bool:
    """True for the parameter of a scikit-learn estimator, or of one in it, that says how it divides rows in folds."""
    return name.rsplit("__", maxsplit=1)[-1] == "cv"


def shrinkage(
    offsets: Float[np.ndarray, "n"],
    numbers: Float[np.ndarray, "n"],
    weights: Float[np.ndarray, "n"],
    units: Units,
    *,
    calibrated: bool = False,
) -> float:
    """The expected factor on predictions' offsets from their mean, between 0 and 1.

    Its prior is even between two cases: features say nothing and the factor is 0, or any factor from 0 to 1 is equally
    likely. A third, for predictions that are means given the labels, is that the factor is 1. The slope b of numbers on
    offsets is nearly normal around the factor, with a variance ``s^2``, so the posterior mean is that of ``f`` with
    density ``exp(-(f - b)^2 / (2 s^2))`` on 0 to 1, and with a mass of ``exp(-b^2 / (2 s^2))`` at 0. Offsets that say
    nothing then add at most 0.3 of the squared error that the mean label has itself.

    Args:
        offsets: Predictions of held-out rows less their mean.
        numbers: Released numbers of these rows less their mean.
        weights: Weights of rows.
        units: The privacy units of rows, of which those of one are dependent.
        calibrated: True if predictions are means given the labels.

    References:
        Mitchell and Beauchamp 1988 (a mass at 0 beside a uniform prior), for one coefficient.
    """
    total = float((weights * offsets) @ offsets)
    if total == 0.0:
        return 0.0
    slope = float((weights * offsets) @ numbers) / total
    scores = weights * offsets * (numbers - slope * offsets)
    return expected_factor(slope, float(np.sqrt((units.totals(scores) ** 2).sum())) / total, calibrated=calibrated)


def shrinkage_setting(share: float) -> str:
    """The shrinkage of predictions towards the mean, in words, from the share of them that is left."""
    amount = f"{max(0.0, 1.0 - share):.0%}"
    return f"{'no' if amount == '0%' else amount} shrinkage towards the mean, chosen on released labels"


def expected_factor(slope: float, error: float, *, calibrated: bool = False) -> float:
    """Posterior mean of a factor that is 0 or uniform on 0 to 1, with even odds, by a slope with a standard error.

    Args:
        slope: The slope.
        error: Its standard error.
        calibrated: True if the factor may be 1 as well, with the same odds.
    """
    mode = float(np.clip(slope, 0.0, 1.0))
    first, last = np.clip([mode - _FAR * error, mode + _FAR * error], 0.0, 1.0)
    if first == last:
        return mode
    nodes, sizes = np.polynomial.legendre.leggauss(_NODES)
    single = [0.0, 1.0] if calibrated else [0.0]
    factors = np.append((first + last + (last - first) * nodes) / 2, single)
    logs = -0.5 * ((factors - slope) / error) ** 2
    odds = np.append(sizes * (last - first) / 2, np.ones(len(single)))
    return float(np.average(factors, weights=odds * np.exp(logs - logs.max())))
