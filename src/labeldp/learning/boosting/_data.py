"""Initial scores of boosting from class shares, which trees of a rare class take hundreds of rounds to find.

Beside them, the gradient, information and loss of scores under the channel, for LightGBM and XGBoost.

**Gradient.** The loss of a row is ``-log sum_j v_j p_j`` with the likelihood v of its released label and the softmax p
of its scores; its gradient is ``p - r`` with the posterior ``r_j = v_j p_j / sum_i v_i p_i``.

**Information.** Boosting divides the gradient of a leaf by its curvature. That of this loss is negative in places, and
its mean over released labels is the Fisher information ``E[(p_j - r_j)**2]``, which is small where noise is large. What
is returned is the information in one event alone, whether the released class or set contains class j. With the
probability h_i of that event if i is the true class, it has probability ``P = sum_i h_i p_i``, whose derivative with
respect to the score of class j is ``p_j (h_j - P)``, and so the information ``(p_j (h_j - P))**2 / (P (1 - P))`` about
that score. A function of the released label holds no more information than the label, so steps are at most too long
beside those of Fisher scoring, never too short; with one released class of two the event is the label, and the
information is exact. With public labels it is ``p_j (1 - p_j)``, the usual curvature.

References:
    Patrini et al. 2017, for the loss (forward correction); Friedman 2001, for boosting; Lehmann and Casella 1998,
    theorem 2.5.10, for information in functions of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, softmax

from labeldp._extras import require_extra
from labeldp._shapes import Float
from labeldp._threads import blocks
from labeldp.columns import floats
from labeldp.errors import InputError, RowsError
from labeldp.learning.losses import class_shares, gain, require_release, row_loss, shifts_to
from labeldp.privacy.channels import EvenChannel, candidate_sizes, row_arrays, unpack
from labeldp.release import Release

#: Name of the metric.
METRIC = "channel_log_loss"
#: Information of a row is at least this, so that a leaf of rows that say nothing has a curvature.
_LEAST = 1e-12
#: A variance of an event below this is one of rounding: the event is certain.
_ROUNDING = 1e-14
#: Rows at a time, few enough for their numbers to stay in the cache.
_IN_CACHE = 1 << 13

Objective = Callable[[Any, Any], tuple[np.ndarray, np.ndarray]]


def lightgbm_objective(release: Release) -> Objective:
    """Objective of LightGBM that fits the true classes: the negative log likelihood of a release.

    Pass it as ``objective`` in the parameters of ``lightgbm.train`` (version 4 or later), with ``num_class`` of 1 for
    two classes, where the score is that of the second declared class over the first, else the number of classes. The
    labels of the data set are ignored; its weights count. Scores become probabilities by a sigmoid or a softmax, and
    are zero at the start unless the data set has an ``init_score``. Of the folds of ``lightgbm.cv``, and of any other
    subset of a data set, the released labels of their rows are taken.

    Args:
        release: The released classes of the rows that are fitted, in their order.

    Returns:
        Function of scores and data set: gradient and information of each, of the shape of the scores, (n,) or (n, k).

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    Example:
        >>> import lightgbm, numpy as np
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.boosting import lightgbm_objective
        >>> features, space = np.repeat([[0.0], [1.0]], 500, axis=0), Classes(["no", "yes"])
        >>> release = Curator(["no"] * 500 + ["yes"] * 500, space).randomize(epsilon=2.0)
        >>> settings = {"objective": lightgbm_objective(release), "verbose": -1}
        >>> model = lightgbm.train(settings, lightgbm.Dataset(features, np.zeros(1000)), num_boost_round=20)
        >>> (model.predict([[0.0], [1.0]], raw_score=True) > 0).tolist()
        [False, True]

    Raises:
        NotTrueLabelsError: The labels are no release.
    """
    return _Likelihood.of(release).slopes


def lightgbm_metric(release: Release) -> Callable[[Any, Any], tuple[str, float, bool]]:
    """Metric of LightGBM for early stopping: the mean loss of released labels, less is better.

    Pass it as ``feval``, made from the released labels of the validation rows.

    Args:
        release: The released classes of the rows that are judged, in their order.

    Returns:
        Function of scores and data set: name, mean negative log likelihood over that of the uniform model in nats,
        False.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.
    """
    likelihood = _Likelihood.of(release)
    return lambda scores, data: (METRIC, likelihood.of_rows(data).mean_loss(scores), False)


def xgboost_objective(release: Release) -> Objective:
    """Objective of XGBoost that fits the true classes: the negative log likelihood of a release.

    Pass it as ``obj`` to ``xgboost.train`` (version 2.1 or later), with ``num_class`` in the parameters for more than
    two classes, and ``base_score`` 0. All else is as for ``lightgbm_objective``.

    Args:
        release: The released classes of the rows that are fitted, in their order.

    Returns:
        Function of scores and data: gradient and information of each, of the shape of the scores, (n,) or (n, k).

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    Raises:
        NotTrueLabelsError: The labels are no release.
    """
    return _Likelihood.of(release).slopes


def xgboost_metric(release: Release) -> Callable[[Any, Any], tuple[str, float]]:
    """Metric of XGBoost for early stopping: the mean loss of released labels, less is better.

    Pass it as ``custom_metric``, made from the released labels of the validation rows.

    Args:
        release: The released classes of the rows that are judged, in their order.

    Returns:
        Function of scores and data: name, mean negative log likelihood over that of the uniform model in nats.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.
    """
    likelihood = _Likelihood.of(release)
    return lambda scores, _: (METRIC, likelihood.mean_loss(scores))


@dataclass(frozen=True, eq=False)
class _Likelihood:
    """The likelihood of released classes as a function of scores.

    Attributes:
        release: Released classes of n rows.
        loss: Their loss of logits.
        parts: Those of some of the rows that were asked for, by their numbers.
    """

    release: Release
    loss: AnyLoss
    parts: dict[bytes, _Likelihood] = field(default_factory=dict)

    @classmethod
    def of(cls, release: Release) -> _Likelihood:
        """The likelihood of a release."""
        return cls(release, row_loss(require_release(release), "likelihood"))

    def of_rows(self, data: Any) -> _Likelihood:
        """The likelihood of the rows of a subset of a LightGBM data set; of all without one."""
        used = getattr(data, "used_indices", None)
        if used is None or len(used) == len(self.release):
            return self
        rows = np.asarray(used, dtype=np.int64)
        key = rows.tobytes()
        if key not in self.parts:
            self.parts[key] = self.of(self.release[rows])
        return self.parts[key]

    def slopes(self, scores: Any, data: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and information of each score, times the weights of rows if the data has any."""
        return self.of_rows(data)._slopes(scores, data)

    def _slopes(self, scores: Any, data: Any) -> tuple[np.ndarray, np.ndarray]:
        if np.shape(scores) == (len(self.release),) and self._two is not None:
            return self._slopes_of_two(np.asarray(scores, dtype=np.float64), data)
        logits = self._logits(scores)
        chances, weights = softmax(logits, axis=1), _weights(data, len(logits))
        self.loss(logits, weights)  # logits become the gradient
        information = self._information(chances) * weights[:, None]
        shape = np.shape(scores)
        if len(shape) == 1:
            return logits[:, 1].copy(), information[:, 1].copy()
        return logits, information

    @cached_property
    def _two(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
        """Of two classes: the likelihoods of each row, and the probabilities that the second is in its set."""
        if self.release.space.size != 2 or candidate_sizes(self.release.class_channel) is not None:
            return None
        likelihood = np.maximum(self.release.likelihood(), np.finfo(float).tiny)
        events = (np.broadcast_to(each, (len(likelihood), 2))[:, 1] for each in self._events[:2])
        first, second, true, other = map(np.ascontiguousarray, (*likelihood.T, *events))
        return first, second, true, other

    def _slopes_of_two(self, scores: Float[np.ndarray, "n"], data: Any) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and information of the score of the second class of two over the first."""
        weights, found = _weights(data, len(scores)), np.empty((2, len(scores)))
        for part in blocks(len(scores), entries=_IN_CACHE):
            first, second, true, other = (each[part] for each in self._two or ())
            chance = expit(scores[part])
            inside = other + (true - other) * chance
            slope, spread = chance * (true - inside), inside * (1.0 - inside)
            information = np.where(spread > _ROUNDING, slope**2 / np.maximum(spread, _ROUNDING), 0.0)
            hit = chance * second
            found[0, part] = chance - hit / (hit + (1.0 - chance) * first)
            found[1, part] = np.maximum(information, _LEAST)
        found *= weights
        return found[0], found[1]

    def mean_loss(self, scores: Any) -> float:
        """Mean negative log likelihood over that of the uniform model, in nats."""
        return -float(gain(self.release, softmax(self._logits(scores), axis=1)).mean())

    def _information(self, chances: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
        """Information in whether each class is in the released set."""
        true, other, outside, among = self._events
        inside = other + (true - other) * chances
        if among is not None:  # a true class that is no candidate is replaced by a random one that is
            inside += (outside - other) * (1.0 - (chances * among).sum(axis=1, keepdims=True))
        slope, spread = chances * (true - inside), inside * (1.0 - inside)
        ratio = np.divide(slope**2, spread, out=np.zeros_like(slope), where=spread > _ROUNDING)
        return np.asarray(np.maximum(ratio if among is None else ratio * among, _LEAST))

    @cached_property
    def _events(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
        """Probabilities that a class is in the released set, and the mask of candidates; shapes that fit (n, k).

        They are those for the class as the true one, for another candidate, and for a true class that is no candidate.
        """
        channel, rows = self.release.class_channel, len(self.release)
        if all(isinstance(each, EvenChannel) for each in getattr(channel, "channels", (channel,))):
            both = [np.reshape(each, (-1, 1)) for each in (channel.membership.true, channel.membership.other)]
        else:
            every = [channel.holding(np.full(rows, code, dtype=np.int32)) for code in range(channel.classes)]
            both = [np.stack([np.broadcast_to(each[place], rows) for each in every], axis=1) for place in (0, 1)]
        sizes = candidate_sizes(channel)
        if sizes is None:
            return both[0], both[1], both[1], None
        among = unpack(row_arrays(channel)["candidates"], channel.classes)
        count = sizes[:, None]
        return both[0], both[1], (both[0] + (count - 1) * both[1]) / count, among

    def _logits(self, scores: Any) -> Float[np.ndarray, "n k"]:
        """Logits of all classes as a new array; one score is that of the second class of two."""
        given, rows, classes = np.asarray(scores, dtype=np.float64), len(self.release), self.release.space.size
        if given.shape == (rows,) and classes == 2:
            return np.stack([np.zeros(rows), given], axis=1)
        if given.shape != (rows, classes):
            raise RowsError(
                f"expected scores of the {rows} rows of the release for {classes} classes, found shape {given.shape}; "
                "fit the rows of the release in their order, with num_class the number of classes (1 for two); where a "
                "tool splits rows, as xgboost.cv does, fit release[rows] of each fold"
            )
        return np.ascontiguousarray(given.copy())


def _weights(data: Any, rows: int) -> Float[np.ndarray, "n"]:
    """The weights of rows in a data set of either library; 1 without any."""
    given = data.get_weight() if hasattr(data, "get_weight") else None
    if given is None or len(given) == 0:
        return np.ones(rows)
    if len(given) != rows:
        raise InputError(f"expected a weight for each of {rows} rows, found {len(given)}")
    return np.asarray(given, dtype=np.float64)


#: The least information in a leaf where labels say much, and the leaves that rows of a rare class have enough for.
_USUAL, _MOST_LEAVES = 10.0, 16

if TYPE_CHECKING:  # an extra
    from lightgbm import Dataset


def start_scores(release: Release, scores: Any = None) -> Float[np.ndarray, "s"]:
    """Scores from which boosting starts, and those to add to its raw scores: the mean probability is the class share.

    Without raw scores they are those of the class shares: of the second declared class of two over the first, or of
    every class. XGBoost takes them as ``base_margin``. Trees that fit noise raise the mean probability of a rare class,
    so what is added to raw scores in the end is a little less.

    Args:
        release: A release of classes.
        scores: Raw scores of its rows by the fitted trees, without the start: shape (n,) for two classes, else (n, k).

    Returns:
        Scores, shape (1,) for two classes, else (k,).

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    Example:
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.boosting import start_scores
        >>> release = Curator(["no"] * 9000 + ["yes"] * 1000, Classes(["no", "yes"])).randomize(epsilon=4.0)
        >>> start_scores(release).round(0).tolist()
        [-2.0]

    Raises:
        InputError: Rows have candidates, so that their labels do not identify the shares.
        NotTrueLabelsError: The labels are no release.
    """
    shares = np.maximum(class_shares(require_release(release)), 0.5 / len(release))
    start = np.log(shares / shares.sum())
    if scores is not None:
        start += shifts_to(shares / shares.sum(), _of_classes(scores, len(shares)) + start)
    return np.asarray(np.diff(start) if len(start) == 2 else start)


def _of_classes(scores: Any, classes: int) -> Float[np.ndarray, "n k"]:
    """Scores of every class; of two those of the first are zero."""
    found = floats(scores, "scores")
    found = np.stack([np.zeros(len(found)), found], axis=1) if found.ndim == 1 else found
    if found.shape[1:] != (classes,):
        raise InputError(f"expected raw scores of {classes} classes, found shape {found.shape}; pass raw_score=True")
    return found


def lightgbm_dataset(
    features: Any, release: Release, *, start: Float[np.ndarray, "s"] | None = None, **options: Any
) -> Dataset:
    """Data set of LightGBM for ``lightgbm_objective``, whose scores start from the class shares.

    LightGBM leaves the start out of its predictions: add it to the raw scores.

    Args:
        features: Features of n rows.
        release: Their released classes.
        start: Initial scores: ``start_scores`` of these rows by default. Validation rows start where those did that
            trees are fitted to.
        **options: Further arguments of ``lightgbm.Dataset``, such as public weights (``weight=``) or ``reference=``.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.boosting import lightgbm_dataset
        >>> release = Curator(["no"] * 90 + ["yes"] * 10, Classes(["no", "yes"])).randomize(epsilon=2.0)
        >>> lightgbm_dataset(np.arange(100.0)[:, None], release).construct().num_data()
        100

    Raises:
        MissingExtraError: LightGBM is not installed.
    """
    require_extra("boosting", "lightgbm")
    import lightgbm  # noqa: PLC0415 (an extra)

    rows = len(require_release(release))
    first = start_scores(release) if start is None else np.asarray(start, dtype=np.float64)
    options["params"] = {"verbose": -1, "feature_pre_filter": False, **options.get("params", {})}
    return lightgbm.Dataset(features, np.zeros(rows), init_score=_of_rows(first, rows), **options)


def leaf_information(release: Release) -> float:
    """Least information in a leaf, and penalty of leaves, under which trees of a rare class can grow.

    It is 10 where labels say much. Noisy labels of a rare class have little information: a row has about the square of
    the share of its class. Where all rows together have less than 160, a sixteenth of that leaves room for several
    leaves. Give it to LightGBM as ``min_sum_hessian_in_leaf`` and ``lambda_l2``, to XGBoost as ``min_child_weight``
    and ``lambda``.

    Args:
        release: A release of classes.

    Returns:
        Information about the score of the class that has the least, at the class shares.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    Example:
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.boosting import leaf_information
        >>> space = Classes(["no", "yes"])
        >>> leaf_information(Curator(["no", "yes"] * 500, space).randomize(epsilon=4.0))
        10.0
        >>> leaf_information(Curator(["no"] * 990 + ["yes"] * 10, space).randomize(epsilon=1.0)) < 10.0
        True

    Raises:
        InputError: Rows have candidates, so that their labels do not identify the shares.
        NotTrueLabelsError: The labels are no release.
    """
    scores = _of_rows(start_scores(release), len(release))
    _, information = lightgbm_objective(release)(scores, None)
    return min(_USUAL, float(information.sum(axis=0).min()) / _MOST_LEAVES)


def _of_rows(start: Float[np.ndarray, "s"], rows: int) -> Float[np.ndarray, "n ..."]:
    """The start of every row, in the form of LightGBM."""
    scores = np.tile(start, (rows, 1))
    return np.asarray(scores[:, 0] if len(start) == 1 else scores)
