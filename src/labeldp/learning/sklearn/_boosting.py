"""Gradient boosting on released labels by LightGBM: of the likelihood of classes, or the squared error of numbers."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._extras import require_extra
from labeldp._progress import Progress, silent
from labeldp._shapes import Float, UInt8
from labeldp._threads import threads_to_fit
from labeldp.learning.boosting import lightgbm_objective
from labeldp.learning.choice import Gains, Held, Path, best_setting
from labeldp.learning.features import Bins, row_weights
from labeldp.learning.heads import share_logits, softmax
from labeldp.learning.losses import (
    decoded_numbers,
    ends_of,
    expected_mean,
    judge,
    precisions,
    require_numeric_labels,
    require_release,
)
from labeldp.learning.metrics import ROWS, Units
from labeldp.learning.sklearn._regressor import NumberRegressor, noise_ratio, number_gains
from labeldp.learning.sklearn._soft_labels import ProbabilityClassifier, check_released_rows, checked_features
from labeldp.release import Release

#: Numbers of leaves that are tried.
LEAVES = (4, 15)
#: Rounds without improvement on held-out released labels after which a fit stops.
PATIENCE = 20
#: Factor of the penalty in splits by categories, and of that of each in their order: the best of all orders of many
#: categories fits noise.
_OF_CATEGORIES = 100.0
#: Columns of at most so many categories are split into one of them and the others, which leaves less to choose from.
_FEW_CATEGORIES = 32
#: Rows of bins that LightGBM reads at a time, and rows by which it chooses bins of its own.
_BATCH, _ROWS_OF_BINS = 1 << 16, 100_000


@dataclass(frozen=True, eq=False)
class _Task:
    """The objective of LightGBM on released labels of n rows.

    Attributes:
        start: Scores of every row before the first tree, those of the constant: one for each class, or one number.
        labels: What LightGBM takes for labels.
        weights: Weights of rows; None for even ones.
        settings: The objective, and the least information in a leaf.
    """

    start: Float[np.ndarray, "s"]
    labels: Float[np.ndarray, "n"]
    weights: Float[np.ndarray, "n"] | None
    settings: dict[str, Any]


@dataclass(eq=False, repr=False)
class TreeBoosting(ABC):
    """Boosting by LightGBM, whose trees are chosen on released labels; the same trees each time for the same rows."""

    _: KW_ONLY
    categorical: Sequence[int] = ()
    rounds: int = 300
    learning_rate: float = 0.1
    information: float = 1.0
    penalty: float = 1.0
    folds: int = 3

    @abstractmethod
    def _require(self, y: Any) -> Release:
        """The release, if its labels are of this kind."""

    @abstractmethod
    def _task(self, release: Release) -> _Task:
        """The objective on released labels."""

    @abstractmethod
    def _judge(self, release: Release) -> Callable[[Float[np.ndarray, "m s"]], Float[np.ndarray, "m"]]:
        """Function from scores of held-out rows to their gains."""

    @abstractmethod
    def _set_start(self, release: Release, task: _Task) -> None:
        """Keep what predictions start from."""

    @abstractmethod
    def _predicted(self, scores: Float[np.ndarray, "m s"]) -> Float[np.ndarray, "m ..."]:
        """Predictions by scores: probabilities in declared order, or numbers."""

    def fit(
        self,
        X: Any,  # noqa: N803 (scikit-learn's name)
        y: Release,
        groups: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Fit on features of shape (n, d), with NaN for missing values, and a release of n rows.

        Args:
            X: Features.
            y: A release.
            groups: The privacy unit of each row, shape (n,); ``"rows"`` if each row is its own.
            sample_weight: Public weights of rows.
        """
        release, features = self._require(y), self._checked(X, reset=True)
        check_released_rows(X, release)
        folds = _checks.whole(self.folds, "folds", 2)
        weights = {} if sample_weight is None else {"sample_weight": row_weights(sample_weight, len(release))}
        best = best_setting(self, features, release, Units.of(groups, release), folds, **weights)
        return self._fit_setting(best or 0, features, release, **weights)

    def path(
        self,
        X: Any,  # noqa: N803
        y: Release,
        held: Held,
        groups: Any = ROWS,  # noqa: ARG002
        **of_rows: Any,
    ) -> Path:
        """Fits to some rows with each number of leaves and of rounds, judged on other rows."""
        most, gains_of = _checks.whole(self.rounds, "rounds", 1), self._judge(held.release)
        task = self._weighted(y, **of_rows)
        curves, trees = np.empty((len(LEAVES), most + 1, held.count)), list[Any]()
        curves[:] = -np.inf
        curves[0, 0] = held.sums(gains_of(_scores(task.start, held.features, None, 0)))
        if any_varies(X):
            data = self._data(X, task.labels, task, weight=task.weights)
            rest = self._data(held.features, np.zeros(len(held.groups)), task, data)
            for curve, leaves in zip(curves, LEAVES, strict=True):
                trees.append(self._grow(data, task, leaves, most, (rest, held, gains_of, curve)))

        def predict(setting: int) -> Float[np.ndarray, "m ..."]:
            place, rounds = divmod(setting, most + 1)
            return self._predicted(_scores(task.start, held.features, trees[place] if trees else None, rounds))

        return Path(replace(Gains.of_sums(curves.reshape(-1, held.count), held), constant=0), predict)

    def fit_setting(self, setting: int, X: Any, y: Release, groups: Any = ROWS, **of_rows: Any) -> Self:  # noqa: ARG002, N803
        """Fit with one of the numbers of leaves and of rounds of a path."""
        return self._fit_setting(setting, self._checked(X, reset=True), y, **of_rows)

    def fit_bins(
        self, bins: Bins, codes: UInt8[np.ndarray, "n d"], y: Release, held: Held, report: Progress = silent
    ) -> Self:
        """Fit on bins of features, with as many trees of the most leaves as other rows favour by released labels.

        Args:
            bins: The bins.
            codes: The bin of each feature of n rows.
            y: A release of these rows.
            held: The other rows.
            report: Called with the name of the work, the number of rounds done, and the most rounds.
        """
        require_extra("boosting", "lightgbm")
        task, gains_of = self._weighted(y), self._judge(held.release)
        self._set_start(y, task)
        self.n_features_in_, self.leaves_, self.rounds_, self.model_ = codes.shape[1], LEAVES[-1], 0, ""
        curve = np.full((self.rounds + 1, held.count), -np.inf)
        curve[0] = held.sums(gains_of(_scores(task.start, held.features, None, 0)))
        done = itertools.count(1)

        def judge(scores: Float[np.ndarray, "m s"]) -> Float[np.ndarray, "m"]:
            report("trees", next(done), self.rounds)
            return gains_of(scores)

        data = self._data(_sequence(bins, codes), task.labels, task, weight=task.weights)
        rest = self._data(held.features, np.zeros(len(held.groups)), task, data)
        trees = self._grow(data, task, self.leaves_, self.rounds, (rest, held, judge, curve))
        self.rounds_ = int(np.argmax(curve.sum(axis=1)))
        if self.rounds_:
            self.model_ = trees.model_to_string(num_iteration=self.rounds_)
        return self

    def setting(self) -> str:
        """The number of trees and of their leaves in words."""
        each = " for a class" if hasattr(self, "classes_") else ""
        return f"{self.rounds_} trees{each}, of {self.leaves_} leaves, chosen on released labels"

    def _weighted(self, release: Release, sample_weight: Float[np.ndarray, "n"] | None = None) -> _Task:
        """The objective, with weights of rows."""
        task = self._task(release)
        if sample_weight is None:
            return task
        weights = row_weights(sample_weight, len(release))
        return replace(task, weights=weights if task.weights is None else task.weights * weights)

    def _fit_setting(
        self, setting: int, features: Any, release: Release, sample_weight: Float[np.ndarray, "n"] | None = None
    ) -> Self:
        task = self._weighted(release, sample_weight)
        self._set_start(release, task)
        place, self.rounds_ = divmod(setting, self.rounds + 1)
        self.leaves_ = LEAVES[place]
        self.model_ = ""
        if self.rounds_:
            data = self._data(features, task.labels, task, weight=task.weights)
            self.model_ = self._grow(data, task, self.leaves_, self.rounds_).model_to_string()
        return self

    def _scored(self: Any, start: Float[np.ndarray, "s"], X: Any) -> Float[np.ndarray, "n s"]:  # noqa: N803
        """Scores of rows by the fitted trees."""
        return _scores(start, self._checked(X, reset=False), self._trees(), self.rounds_)

    def _grow(
        self,
        data: Any,
        task: _Task,
        leaves: int,
        rounds: int,
        judged: tuple[Any, Held, Callable[..., np.ndarray], Float[np.ndarray, "r g"]] | None = None,
    ) -> Any:
        """Trees fitted to released labels; the gains of held-out rows after each round are written to an array."""
        import lightgbm  # noqa: PLC0415 (an extra)

        settings = {
            **task.settings,
            **dict.fromkeys(("cat_l2", "cat_smooth"), _OF_CATEGORIES * task.settings["lambda_l2"]),
            "max_cat_to_onehot": _FEW_CATEGORIES,
            "num_leaves": leaves,
            "learning_rate": self.learning_rate,
            "min_data_in_leaf": 1,
            "min_data_in_bin": 1,
            "num_threads": threads_to_fit(len(task.labels)),
            "deterministic": True,
            "force_row_wise": True,
            "seed": 0,
            "verbose": -1,
            "metric": "None",
        }
        if judged is None:
            return lightgbm.train(settings, data, rounds)
        rest, held, gains_of, curve = judged
        done = itertools.count(1)

        def judge(scores: Any, _: Any) -> tuple[str, float, bool]:
            curve[next(done) :] = held.sums(gains_of(_in_columns(np.asarray(scores), len(task.start))))
            return "loss", -float(curve[-1].sum()) / len(held.groups), False

        return lightgbm.train(
            settings,
            data,
            rounds,
            valid_sets=[rest],
            feval=judge,
            callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
        )

    def _data(
        self, features: Any, labels: Float[np.ndarray, "n"], task: _Task, reference: Any = None, **more: Any
    ) -> Any:
        """A data set of LightGBM that starts from the scores of the constant."""
        from lightgbm import Dataset  # noqa: PLC0415 (an extra)

        first = np.diff(task.start) if len(task.start) == 2 else task.start  # of two classes one score is fitted
        scores = np.tile(first, (len(labels), 1))
        return Dataset(
            features,
            labels,
            reference=reference,
            init_score=scores[:, 0] if len(first) == 1 else scores,
            categorical_feature=list(self.categorical),
            params={"verbose": -1, "bin_construct_sample_cnt": _ROWS_OF_BINS},
            **more,
        )

    def _checked(self, features: Any, *, reset: bool) -> Any:
        """Features as numbers, dense or sparse, with NaN for missing values."""
        if reset:
            require_extra("boosting", "lightgbm")
        kinds = (np.float64, np.float32)
        return checked_features(
            self, features, accept_sparse="csr", dtype=kinds, ensure_all_finite="allow-nan", reset=reset
        )

    def _trees(self: Any) -> Any:
        """The fitted trees; None without any."""
        if not self.model_:
            return None
        from lightgbm import Booster  # noqa: PLC0415 (an extra)

        return Booster(model_str=self.model_)


def _sequence(bins: Bins, codes: UInt8[np.ndarray, "n d"]) -> Any:
    """Rows as LightGBM reads them in batches: the values that stand for bins."""
    import lightgbm  # noqa: PLC0415 (an extra)

    class Rows(lightgbm.Sequence):
        """Rows of bins."""

        batch_size = _BATCH

        def __getitem__(self, rows: Any) -> np.ndarray:
            return bins.points(codes[rows])

        def __len__(self) -> int:
            return len(codes)

    return Rows()


@documented_in("labeldp.learning.sklearn")
@dataclass(eq=False, repr=False)
class BoostingClassifier(TreeBoosting, ProbabilityClassifier):
    """Gradient-boosted trees that maximise the likelihood of released labels, by LightGBM.

    Starts from the class shares. The number of trees and of their leaves are chosen on released labels; with no tree,
    the class shares are predicted. Every leaf holds a least amount of information on the true label rather than a
    number of rows, so that trees are as fine as the noise allows.

    Args:
        categorical: Columns of category codes.
        rounds: Most rounds of boosting.
        learning_rate: Factor of each tree's contribution.
        information: Least Fisher information on a class's score in a leaf: its contribution has a standard error of at
            most the inverse root of this, in logits.
        penalty: Weight of half the squared value of a leaf beside the loss of its rows.
        folds: Folds for the choice of trees; with 20 000 rows or more only one of them is held out.

    Attributes:
        classes_: The declared classes.
        rounds_: Number of rounds; 0 where class shares are predicted.
        leaves_: Most leaves of a tree.
        model_: The trees in LightGBM's text form; empty without any.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost, including the choice of
        trees.

    References:
        Friedman 2001; Ke et al. 2017 (LightGBM); Patrini et al. 2017, for the likelihood under the channel.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.sklearn import BoostingClassifier
        >>> features, space = np.repeat([[0.0], [1.0]], 500, axis=0), Classes(["no", "yes"])
        >>> release = Curator(["no"] * 500 + ["yes"] * 500, space).randomize(epsilon=2.0)
        >>> BoostingClassifier().fit(features, release).predict([[0.0], [1.0]]).tolist()
        ['no', 'yes']

    Raises:
        MissingExtraError: LightGBM is not installed.
    """

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        check_is_fitted(self)
        return softmax(self._scored(self._start, X))[:, self._codes]

    def _require(self, y: Any) -> Release:
        return require_release(y)

    def _task(self, release: Release) -> _Task:
        settings = {
            "objective": lightgbm_objective(release),
            "num_class": 1 if release.space.size == 2 else release.space.size,
            "min_sum_hessian_in_leaf": self.information,
            "lambda_l2": self.penalty,
        }
        return _Task(share_logits(release), np.zeros(len(release)), None, settings)

    def _judge(self, release: Release) -> Callable[[Float[np.ndarray, "m s"]], Float[np.ndarray, "m"]]:
        gains = judge(release)
        return lambda scores: gains(softmax(scores))

    def _set_start(self, release: Release, task: _Task) -> None:
        self._codes, self._start = self._set_classes(release.space), task.start

    def _predicted(self, scores: Float[np.ndarray, "m s"]) -> Float[np.ndarray, "m k"]:
        return softmax(scores)


@documented_in("labeldp.learning.sklearn")
@dataclass(eq=False, repr=False)
class BoostingRegressor(TreeBoosting, NumberRegressor):
    """Gradient-boosted trees that minimise the squared error against released numbers, by LightGBM.

    A released number has the label as its mean, so a least-squares fit to numbers targets the same function as one to
    labels. Starts from the mean. The number of trees and of their leaves are chosen on released labels; with no tree,
    the mean is predicted. Every leaf holds so many rows that the mean of their numbers is about as certain as one
    label, so that trees are as fine as the noise allows. Bins are decoded.

    Args:
        categorical: Columns of category codes.
        rounds: Most rounds of boosting.
        learning_rate: Factor of each tree's contribution.
        information: Least effective rows in a leaf: rows over the ratio of the variances of numbers and labels.
        penalty: Effective rows at the mean that are added to each leaf.
        folds: Folds for the choice of trees; with 20 000 rows or more only one of them is held out.

    Attributes:
        rounds_: Number of rounds; 0 where the mean is predicted.
        leaves_: Most leaves of a tree.
        centre_: The mean label, from which boosting starts.
        model_: The trees in LightGBM's text form; empty without any.
        range_: Ends of the declared range, to which predictions are clipped.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost, including the choice of
        trees.

    References:
        Friedman 2001; Ke et al. 2017 (LightGBM); Badanidiyuru et al. 2023, for unbiased numbers.

    Example:
        >>> import numpy as np
        >>> from labeldp import Curator, Interval
        >>> from labeldp.learning.sklearn import BoostingRegressor
        >>> features = np.repeat([[0.0], [1.0]], 1000, axis=0)
        >>> release = Curator([2.0] * 1000 + [8.0] * 1000, Interval(0.0, 10.0, 1.0)).randomize(epsilon=4.0)
        >>> BoostingRegressor().fit(features, release).predict([[0.0], [1.0]]).round(0).tolist()
        [2.0, 8.0]

    Raises:
        MissingExtraError: LightGBM is not installed.
    """

    def predict(self, X: Any) -> Float[np.ndarray, "n"]:  # noqa: N803
        """The estimated mean label of each row, within the declared range."""
        check_is_fitted(self)
        return np.asarray(np.clip(self._scored(np.array([self.centre_]), X)[:, 0], *self.range_))

    def _require(self, y: Any) -> Release:
        return require_numeric_labels(y)

    def _task(self, release: Release) -> _Task:
        numbers = decoded_numbers(release)
        weights, ratio = precisions(release, numbers), noise_ratio(release, numbers)
        settings = {
            "objective": "regression",
            "boost_from_average": False,
            "min_sum_hessian_in_leaf": self.information * ratio,
            "lambda_l2": self.penalty * ratio,
        }
        return _Task(np.array([expected_mean(numbers, weights, *ends_of(release))]), numbers, weights, settings)

    def _judge(self, release: Release) -> Callable[[Float[np.ndarray, "m s"]], Float[np.ndarray, "m"]]:
        numbers = decoded_numbers(release)
        weights = precisions(release, numbers)
        return lambda scores: number_gains(numbers, weights, scores[:, 0])

    def _set_start(self, release: Release, task: _Task) -> None:
        self.range_, self.centre_ = ends_of(release), float(task.start[0])

    def _predicted(self, scores: Float[np.ndarray, "m s"]) -> Float[np.ndarray, "m"]:
        return scores[:, 0]


def _in_columns(scores: Float[np.ndarray, "m ..."], count: int) -> Float[np.ndarray, "m s"]:
    """Scores of LightGBM in columns: of two classes it has that of the second alone, over the first."""
    if scores.ndim == 2:
        return scores
    return np.stack([np.zeros(len(scores)), scores], axis=1)[:, -count:]


def _scores(start: Float[np.ndarray, "s"], features: Any, trees: Any, rounds: int) -> Float[np.ndarray, "m s"]:
    """Scores of rows after a number of rounds; without trees, those of the constant."""
    scores = np.tile(start, (features.shape[0], 1))
    if trees is not None and rounds:
        most = min(rounds, trees.current_iteration())
        added = np.asarray(trees.predict(features, raw_score=True, num_iteration=most))
        scores += _in_columns(added, len(start))
    return scores


def any_varies(features: Any) -> bool:
    """True if there is a column with two values, as LightGBM requires."""
    if issparse(features):
        return bool((features.max(axis=0) != features.min(axis=0)).nnz)
    return not np.array_equal(features, np.broadcast_to(features[:1], features.shape), equal_nan=True)
