"""Gradient boosting of the likelihood of released labels, by LightGBM."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._extras import require_extra
from labeldp._shapes import Float
from labeldp.learning.boosting import lightgbm_objective
from labeldp.learning.heads import softmax
from labeldp.learning.losses import Gains, gain, require_release, splits
from labeldp.learning.sklearn._calibrated import Calibrator
from labeldp.learning.sklearn._paths import Held, Path
from labeldp.learning.sklearn._soft_labels import ProbabilityClassifier, check_released_rows, checked_features
from labeldp.release import Release

#: Numbers of leaves that are tried.
LEAVES = (4, 15)
#: Rounds without improvement on held-out released labels after which a fit stops.
PATIENCE = 20
#: Fits to fewer rows than this take one thread: two would wait for each other longer than they work.
_FEW_ROWS = 100_000


@dataclass(eq=False, repr=False)
class TreeBoosting:
    """The parameters of boosting by LightGBM, and the same trees each time for the same rows."""

    _: KW_ONLY
    categorical: Sequence[int] = ()
    rounds: int = 300
    learning_rate: float = 0.1
    information: float = 1.0
    penalty: float = 1.0
    folds: int = 3

    def _checked(self, features: Any, *, reset: bool) -> Any:
        """Features as numbers, dense or sparse, with NaN for missing values."""
        if reset:
            require_extra("boosting", "lightgbm")
        kinds = (np.float64, np.float32)
        return checked_features(
            self, features, accept_sparse="csr", dtype=kinds, ensure_all_finite="allow-nan", reset=reset
        )

    def _settings(self, leaves: int, rows: int) -> dict[str, Any]:
        """Settings under which the same rows always give the same trees, of at most some leaves."""
        return {
            "num_leaves": leaves,
            "learning_rate": self.learning_rate,
            "min_data_in_leaf": 1,
            "min_data_in_bin": 1,
            "num_threads": 1 if rows < _FEW_ROWS else 0,
            "deterministic": True,
            "force_row_wise": True,
            "seed": 0,
            "verbose": -1,
        }

    def _data(self, features: Any, labels: Float[np.ndarray, "n"], reference: Any = None, **more: Any) -> Any:
        """A data set of LightGBM."""
        from lightgbm import Dataset  # noqa: PLC0415 (an extra)

        categorical = list(self.categorical)
        return Dataset(
            features, labels, categorical_feature=categorical, reference=reference, params={"verbose": -1}, **more
        )

    def _trees(self: Any) -> Any:
        """The fitted trees; None without any."""
        if not self.model_:
            return None
        from lightgbm import Booster  # noqa: PLC0415 (an extra)

        return Booster(model_str=self.model_)


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

    def fit(self, X: Any, y: Release) -> Self:  # noqa: N803 (scikit-learn's name)
        """Fit on features of shape (n, d), with NaN for missing values, and a release of n rows."""
        release, features = require_release(y), self._checked(X, reset=True)
        check_released_rows(X, release)
        judged = list[Gains]()
        for fit, held in splits(len(release), min(self.folds, len(release))):
            rest = Held(features[held], release[held], np.zeros(len(held), dtype=np.int64), 1)
            judged.append(self.path(features[fit], release[fit], rest).gains)
        return self._fit_setting(functools.reduce(operator.add, judged).best(), features, release)

    def path(self, X: Any, y: Release, held: Held) -> Path:  # noqa: N803
        """Fits to some rows with each number of leaves and of rounds, judged on other rows."""
        most, start = _checks.whole(self.rounds, "rounds", 1), Calibrator.of_shares(y).shifts
        curves, trees = np.zeros((len(LEAVES), most + 1, held.count)), list[Any]()
        curves[:] = _gains_by_group(held, softmax(np.tile(start, (len(held.groups), 1))))
        if any_varies(X):
            for curve, leaves in zip(curves, LEAVES, strict=True):
                trees.append(self._grow(X, y, start, leaves, most, (held, curve)))

        def predict(setting: int) -> Float[np.ndarray, "m k"]:
            place, rounds = divmod(setting, most + 1)
            return softmax(_scores(start, held.features, trees[place] if trees else None, rounds))

        rows = np.bincount(held.groups, minlength=held.count).astype(np.float64)
        return Path(Gains(rows, curves.reshape(-1, held.count)), predict)

    def fit_setting(self, setting: int, X: Any, y: Release) -> Self:  # noqa: N803
        """Fit with one of the numbers of leaves and of rounds of a path."""
        return self._fit_setting(setting, self._checked(X, reset=True), y)

    def _fit_setting(self, setting: int, features: Any, release: Release) -> Self:
        self._codes, self._start = self._set_classes(release.space), Calibrator.of_shares(release).shifts
        place, self.rounds_ = divmod(setting, self.rounds + 1)
        self.leaves_ = LEAVES[place]
        trees = self._grow(features, release, self._start, self.leaves_, self.rounds_) if self.rounds_ else None
        self.model_ = "" if trees is None else trees.model_to_string()
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        check_is_fitted(self)
        features = self._checked(X, reset=False)
        return softmax(_scores(self._start, features, self._trees(), self.rounds_))[:, self._codes]

    def _grow(
        self,
        features: Any,
        release: Release,
        start: Float[np.ndarray, "k"],
        leaves: int,
        rounds: int,
        judged: tuple[Held, Float[np.ndarray, "r g"]] | None = None,
    ) -> Any:
        """Trees fitted to released labels; the gains of held-out rows after each round are written to an array."""
        import lightgbm  # noqa: PLC0415 (an extra)

        single = release.space.size == 2
        first = start[1:] - start[:1] if single else start
        settings = {
            **self._settings(leaves, len(release)),
            "objective": lightgbm_objective(release),
            "num_class": 1 if single else release.space.size,
            "metric": "None",
            "min_sum_hessian_in_leaf": self.information,
            "lambda_l2": self.penalty,
        }
        data = self._start_from(first, features)
        if judged is None:
            return lightgbm.train(settings, data, rounds)
        held, curve = judged
        done = itertools.count(1)

        def judge(scores: Any, _: Any) -> tuple[str, float, bool]:
            chances = softmax(np.stack([np.zeros(len(scores)), scores], axis=1) if single else np.asarray(scores))
            curve[next(done) :] = _gains_by_group(held, chances)
            return "loss", -float(curve[-1].sum()) / len(held.groups), False

        return lightgbm.train(
            settings,
            data,
            rounds,
            valid_sets=[self._start_from(first, held.features, data)],
            feval=judge,
            callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
        )

    def _start_from(self, start: Float[np.ndarray, "s"], features: Any, reference: Any = None) -> Any:
        """A data set of LightGBM that starts from given scores."""
        rows = features.shape[0]
        scores = np.tile(start, (rows, 1))
        return self._data(features, np.zeros(rows), reference, init_score=scores[:, 0] if len(start) == 1 else scores)


def _gains_by_group(held: Held, chances: Float[np.ndarray, "m k"]) -> Float[np.ndarray, "g"]:
    """Gains of held-out rows with these probabilities, summed in their groups."""
    return np.bincount(held.groups, gain(held.release, chances), minlength=held.count)


def _scores(start: Float[np.ndarray, "k"], features: Any, trees: Any, rounds: int) -> Float[np.ndarray, "m k"]:
    """Scores of rows after a number of rounds; without trees, those of the class shares."""
    scores = np.tile(start, (features.shape[0], 1))
    if trees is not None and rounds:
        added = np.asarray(
            trees.predict(features, raw_score=True, num_iteration=min(rounds, trees.current_iteration()))
        )
        if added.ndim == 1:  # the score of the second declared class
            scores[:, 1] += added
        else:
            scores += added
    return scores


def any_varies(features: Any) -> bool:
    """True if there is a column with two values, as LightGBM requires."""
    if issparse(features):
        return bool((features.max(axis=0) != features.min(axis=0)).nnz)
    return not np.array_equal(features, np.broadcast_to(features[:1], features.shape), equal_nan=True)
