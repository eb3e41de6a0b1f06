"""Gradient boosting of the likelihood of released labels, by LightGBM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._extras import require_extra
from labeldp._shapes import Float
from labeldp.learning.boosting import lightgbm_metric, lightgbm_objective
from labeldp.learning.losses import gain, require_release, splits
from labeldp.learning.sklearn._calibrated import Calibrator
from labeldp.learning.sklearn._lbfgs import softmax
from labeldp.learning.sklearn._soft_labels import ProbabilityClassifier, check_released_rows
from labeldp.release import Release

#: Numbers of leaves that are tried.
LEAVES = (4, 15)
#: Rounds without improvement on held-out released labels after which a fit stops.
PATIENCE = 20
#: Fits to fewer rows than this take one thread: two would wait for each other longer than they work.
_FEW_ROWS = 20_000


@documented_in("labeldp.learning.sklearn")
@dataclass(eq=False, repr=False)
class BoostingClassifier(ProbabilityClassifier):
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

    _: KW_ONLY
    categorical: Sequence[int] = ()
    rounds: int = 300
    learning_rate: float = 0.1
    information: float = 1.0
    penalty: float = 1.0
    folds: int = 3

    def fit(self, X: Any, y: Release) -> Self:  # noqa: N803 (scikit-learn's name)
        """Fit on features of shape (n, d), with NaN for missing values, and a release of n rows."""
        require_extra("boosting", "lightgbm")
        release = require_release(y)
        features = validate_data(
            self, X, accept_sparse="csr", dtype=(np.float64, np.float32), ensure_all_finite="allow-nan"
        )
        check_released_rows(X, release)
        most = _checks.whole(self.rounds, "rounds", 1)
        self._codes = self._set_classes(release.space)
        self._start = Calibrator.of_shares(release).shifts
        self.leaves_, self.rounds_ = self._best(features, release, most)
        trees = self._grow(features, release, self.leaves_, self.rounds_) if self.rounds_ else None
        self.model_ = "" if trees is None else trees.model_to_string()
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        check_is_fitted(self)
        features = validate_data(
            self,
            X,
            accept_sparse="csr",
            dtype=(np.float64, np.float32),
            ensure_all_finite="allow-nan",
            reset=False,
        )
        scores = np.tile(self._start, (features.shape[0], 1))
        if self.model_:
            from lightgbm import Booster  # noqa: PLC0415 (an extra)

            added = np.asarray(Booster(model_str=self.model_).predict(features, raw_score=True))
            if added.ndim == 1:  # the score of the second declared class
                scores[:, 1] += added
            else:
                scores += added
        return softmax(scores)[:, self._codes]

    def _best(self, features: Any, release: Release, most: int) -> tuple[int, int]:
        """The number of leaves and of rounds with the largest likelihood of held-out released labels."""
        gains = np.zeros((len(LEAVES), most + 1))
        for fit, held in splits(len(release), min(self.folds, len(release))):
            if not any_varies(features[fit]):
                continue
            before = float(gain(release[held], softmax(np.tile(self._start, (len(held), 1)))).mean())
            for place, leaves in enumerate(LEAVES):
                curve: list[float] = []
                self._grow(features[fit], release[fit], leaves, most, (features[held], release[held], curve))
                curve = [before, *curve, *[curve[-1]] * (most - len(curve))]
                gains[place] += len(held) * np.array(curve)
        place, best = divmod(int(np.argmax(gains)), most + 1)
        return LEAVES[place], best

    def _grow(
        self,
        features: Any,
        release: Release,
        leaves: int,
        rounds: int,
        held: tuple[Any, Release, list[float]] | None = None,
    ) -> Any:
        """Trees fitted to released labels; the gain of held-out rows after each round is appended to a list."""
        import lightgbm  # noqa: PLC0415 (an extra)

        single = release.space.size == 2
        start = self._start[1:] - self._start[:1] if single else self._start
        settings = {
            **tree_settings(self, leaves, len(release)),
            "objective": lightgbm_objective(release),
            "num_class": 1 if single else release.space.size,
            "metric": "None",
            "min_sum_hessian_in_leaf": self.information,
            "lambda_l2": self.penalty,
        }
        data = _data(features, start, self.categorical)
        if held is None:
            return lightgbm.train(settings, data, rounds)
        others, labels, curve = held
        metric = lightgbm_metric(labels)

        def judge(scores: Any, _: Any) -> tuple[str, float, bool]:
            name, loss, more = metric(scores, None)
            curve.append(-loss)
            return name, loss, more

        return lightgbm.train(
            settings,
            data,
            rounds,
            valid_sets=[_data(others, start, self.categorical, data)],
            feval=judge,
            callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
        )


def tree_settings(learner: Any, leaves: int, rows: int) -> dict[str, Any]:
    """Settings of LightGBM under which the same rows always give the same trees, of at most some leaves."""
    return {
        "num_leaves": leaves,
        "learning_rate": learner.learning_rate,
        "min_data_in_leaf": 1,
        "min_data_in_bin": 1,
        "num_threads": 1 if rows < _FEW_ROWS else 0,
        "deterministic": True,
        "force_row_wise": True,
        "seed": 0,
        "verbose": -1,
    }


def any_varies(features: Any) -> bool:
    """True if there is a column with two values, as LightGBM requires."""
    if issparse(features):
        return bool((features.max(axis=0) != features.min(axis=0)).nnz)
    return not np.array_equal(features, np.broadcast_to(features[:1], features.shape), equal_nan=True)


def _data(features: Any, start: Float[np.ndarray, "s"], categorical: Sequence[int], reference: Any = None) -> Any:
    """A data set of LightGBM that starts from given scores."""
    from lightgbm import Dataset  # noqa: PLC0415 (an extra)

    rows = features.shape[0]
    scores = np.tile(start, (rows, 1))
    return Dataset(
        features,
        np.zeros(rows),
        init_score=scores[:, 0] if len(start) == 1 else scores,
        categorical_feature=list(categorical),
        reference=reference,
        params={"verbose": -1},
    )
