"""Learning from rows whose labels were randomized and whose features were redrawn with some chance.

A released row is ``(x~, z)``: the features are the row's own or those of a generator, and nothing tells which. What any
learner of released labels does with them is the *first* term of an unbiased loss: it corrects the labels alone, and
learns partly from features that are no row's. Three ways correct for these, and cost nothing, as all that is learned
from a release.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import issparse
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from labeldp.errors import InputError
from labeldp.learning.features import indexable_rows, row_count, take_rows
from labeldp.learning.losses import (
    OriginalFeatures,
    SyntheticRows,
    class_shares,
    gain,
    mean_vector,
    released,
    resampling_probability,
    stack_rows,
    unbiased_rows,
)
from labeldp.learning.metrics import Estimate, class_weights, normal_estimate
from labeldp.learning.sklearn._adapter import for_released_labels
from labeldp.learning.sklearn._soft_labels import ProbabilityClassifier
from labeldp.learning.sklearn._softmax import ReleasedLabelClassifier, classes_of, matching
from labeldp.mechanisms.features import Generator
from labeldp.release import Release, RowRelease

__all__ = ["OriginalFeatures", "class_shares"]  # documented here, defined elsewhere

RowMethod: TypeAlias = Literal["likelihood", "weighted", "unbiased", "first"]

#: What a learner of released labels is told for each method; the first of these, unless it is another one already.
_TOLD: dict[str, tuple[str, ...]] = {
    "likelihood": ("likelihood", "em", "posterior"),
    "weighted": ("unbiased",),
    "unbiased": ("unbiased",),
    "first": (),
}

#: The share of rows that a discriminator is never surer of than this.
_SUREST = 1e-9
#: Rounds of expectation maximisation: more is missing of a row than its label alone, so more than there.
_ROUNDS = 5
#: Sparse features of so many entries are written out for a discriminator.
_DENSE = 1 << 25
#: From so many rows on a tenth of them says when a discriminator is good enough.
_ENOUGH_TO_STOP = 200


def original_share(
    features: Any, synthetic: Any, replaced: float, discriminator: Any = None, *, folds: int = 3
) -> Float[np.ndarray, "n"]:
    """How likely it is that the features of each released row are its own, by telling them from synthetic ones.

    With released features of density ``f = (1-r) p + r qbar``, that chance is ``(1-r) p / f = 1 - r qbar / f``. A
    classifier that tells released rows from rows of the generator has odds ``f / qbar``, up to how many there are of
    each. No row is judged by a classifier that was fitted on it. Chances are cut to [0, 1].

    Args:
        features: Released features of n rows: an array, a sparse matrix or a pandas frame.
        synthetic: Rows of the generator of the same form, evenly over the classes, such as ``synthetic_rows`` draws.
        replaced: r, the chance that features were redrawn.
        discriminator: A classifier with ``predict_proba``; by default histogram gradient boosting of numbers (images
            pixel by pixel), or logistic regression of many sparse ones.
        folds: Parts of the released rows.

    Returns:
        Chances, shape (n,). They are estimates: what they are used for is as good as the classifier.

    Guarantee:
        It is computed from a release and from a generator that saw no private rows, so the release's guarantee covers
        it at no further cost.

    References:
        Sugiyama, Suzuki and Kanamori 2012, chapter 4, for quotients of densities by classifiers.

    Example:
        >>> import numpy as np
        >>> chance = np.random.default_rng(0)
        >>> generated = chance.normal(4.0, 1.0, (2000, 1))
        >>> own = np.arange(2000) % 2 == 0  # every other row keeps its features, which are around zero
        >>> features = np.where(own[:, None], chance.normal(0.0, 1.0, (2000, 1)), chance.normal(4.0, 1.0, (2000, 1)))
        >>> shares = original_share(features, generated, 0.5)
        >>> bool(shares[own].mean() > 0.9 > 0.2 > shares[~own].mean())
        True

    Raises:
        InputError: There are too few rows, or the classifier has no ``predict_proba``.
    """
    chance, rows, fresh = resampling_probability(replaced), indexable_rows(features), indexable_rows(synthetic)
    count, drawn = row_count(rows), row_count(fresh)
    if isinstance(folds, bool) or not isinstance(folds, int) or folds < 2:
        raise InputError(f"expected a whole number of folds of at least 2, found {folds!r}")
    if count < folds or not drawn:
        raise InputError(f"expected at least {folds} released rows and one synthetic row, found {count} and {drawn}")
    if chance == 0:
        return np.ones(count)
    if discriminator is None and issparse(rows) and rows.shape[0] * rows.shape[1] <= _DENSE:
        rows, fresh = rows.toarray(), fresh.toarray() if issparse(fresh) else fresh
    if discriminator is None and isinstance(rows, np.ndarray):
        rows, fresh = rows.reshape(count, -1), np.asarray(fresh).reshape(drawn, -1)
    model = _discriminator(rows) if discriminator is None else discriminator
    if not hasattr(model, "predict_proba"):
        raise InputError(f"expected a discriminator with predict_proba, found {type(model).__name__}")
    quotient = np.empty(count)  # qbar / f
    for fit_on, held in KFold(folds, shuffle=True, random_state=0).split(np.empty(count)):
        both = stack_rows(take_rows(rows, fit_on), fresh)
        fitted = clone(model).fit(both, np.repeat([1, 0], [len(fit_on), drawn]))
        real = np.clip(np.asarray(fitted.predict_proba(take_rows(rows, held)))[:, 1], _SUREST, 1 - _SUREST)
        quotient[held] = (1 / real - 1) * len(fit_on) / drawn
    return np.clip(1 - chance * quotient, 0.0, 1.0)


def synthetic_rows(generator: Any, rows: int, classes: int, like: Any = None) -> Any:
    """Features that a generator draws, as many of each class: a sample of what redrawn features are drawn from.

    Args:
        generator: A ``Generator`` of a double release, or a function from class codes to as many rows.
        rows: How many are wanted; there are a few more where it is no multiple of the classes.
        classes: Number of classes.
        like: Features in the form that is wanted, a pandas frame or an array; by default as the generator draws them.

    Example:
        >>> import numpy as np
        >>> synthetic_rows(lambda codes: np.eye(2)[codes], 3, 2).tolist()
        [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]

    Raises:
        InputError: It is no generator, or it drew another number of rows.
    """
    if not isinstance(generator, Generator) and not callable(generator):
        raise InputError(
            f"expected a Generator, or a function from class codes to rows, found {type(generator).__name__}; give the "
            "generator that the release was made with"
        )
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
        raise InputError(f"expected a whole number of synthetic rows of at least 1, found {rows!r}")
    codes = np.arange(-(-int(rows) // classes) * classes) % classes
    found = _drawn(generator, codes, like)
    if row_count(found) != len(codes):
        raise InputError(f"expected a generator that draws {len(codes)} rows, found {row_count(found)}")
    return found


class ResampledClassifier(MetaEstimatorMixin, ProbabilityClassifier):
    """A classifier of true features, learned from rows some of whose features were redrawn.

    Args:
        estimator: A learner of released labels: ``SoftmaxRegression`` (by default), ``TorchClassifier``, or any
            scikit-learn classifier, which is fitted by five rounds of expectation maximisation (others by
            ``ReleasedLabelClassifier``); or a pipeline that ends in one.
        method: ``"likelihood"``: maximum likelihood of ``(z, x~)`` where x~ is the row's own with chance s, see
            ``OriginalFeatures``; ``"weighted"``: a loss whose mean is that of true rows if s is right, in which
            rows stand for a share s of a row; ``"unbiased"``: a loss whose mean is that of true rows whatever the
            generator is, less the loss of synthetic rows, see ``SyntheticRows``; ``"first"``: its first term,
            which corrects the labels alone, by the estimator as it is. With ``SoftmaxRegression(method="unbiased")``
            that is the paper's.
        generator: What draws synthetic rows: the ``Generator`` that the release was made with, or a function from class
            codes to rows. With ``"unbiased"``, and where ``original_share`` is estimated.
        synthetic: How many rows it draws, by default as many as were released.
        original_share: s: ``"constant"``, the chance that features were kept, right where resampled features look like
            true ones, or ``"estimated"`` from synthetic rows, or a classifier that estimates it from them. With
            ``"unbiased"`` it serves the choice of a penalty alone.

    Attributes:
        classes_: The declared classes.
        estimator_: The fitted learner.
        own_: What was taken for the shares s and the shares of classes; None with ``"first"``.
        replaced_: The chance that features were redrawn.

    Guarantee:
        Whatever is learned from a release, and from a generator that saw no private rows, is covered by the release's
        guarantee, at no further cost.

    References:
        Busa-Fekete et al. 2023, Lemma G.1 (the first term; mended in ``SyntheticRows``).

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> chance, space = np.random.default_rng(0), Classes(["no", "yes"])
        >>> labels = np.arange(4000) % 2
        >>> own = chance.random(4000) < 0.5
        >>> true = chance.normal(2.0 * labels - 1.0, 1.0)[:, None]
        >>> def sampler(codes):
        ...     return chance.normal(3.0, 1.0, (len(codes), 1))
        >>> features = np.where(own[:, None], true, sampler(labels))
        >>> release = Curator(np.array(["no", "yes"])[labels], space).randomize(RandomizedResponse(space, 2.0))
        >>> learner = ResampledClassifier(generator=sampler, original_share="estimated")
        >>> learner.fit(features, release, replaced=0.5).predict([[-1.0], [1.5]]).tolist()
        ['no', 'yes']
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: RowMethod = "likelihood",
        generator: Generator | Callable[[Int[np.ndarray, "m"]], Any] | None = None,
        synthetic: int | None = None,
        original_share: Any = "constant",
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.generator = generator
        self.synthetic = synthetic
        self.original_share = original_share

    def fit(self, X: Any, y: Any, replaced: float | None = None) -> Self:  # noqa: N803
        """Fit on released features of n rows and their released labels.

        Args:
            X: Released features, in the form that the estimator takes: an array, a sparse matrix or a frame.
            y: The released rows, or their labels.
            replaced: The chance that features were redrawn; by default what the certificate says.
        """
        release, chance = _told(y, replaced)
        if self.method not in _TOLD:
            raise InputError(f"expected a method among {', '.join(_TOLD)}, found {self.method!r}")
        features = indexable_rows(X)
        matching(features, release)
        learner = self._learner()
        self.classes_, self.replaced_, self.own_ = classes_of(release), chance, None
        if self.method == "first":
            self.estimator_ = learner.fit(features, release)
            return self
        fresh = self._fresh(features, release)
        before, last = _parted(learner)
        if before:
            features = learner[:-1].fit_transform(features)
            fresh = None if fresh is None else learner[:-1].transform(fresh)
        self.own_ = OriginalFeatures(self._shares(features, fresh), class_shares(release))
        extra = {"synthetic": SyntheticRows(fresh, self.own_.prior, chance)} if self.method == "unbiased" else {}
        fitted = last.fit(features, release, original=self.own_, **extra)
        self.estimator_ = Pipeline([*before, (learner.steps[-1][0], fitted)]) if before else fitted
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes given true features, shape (n, k)."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_proba(X))

    def score(self, X: Any, y: RowRelease | Release, sample_weight: Any = None) -> float:  # noqa: N803
        """The mean log likelihood of released rows, over a model that knows nothing, for the chance s kept constant."""
        release, _ = _told(y, self.replaced_)
        original = OriginalFeatures(np.full(len(release), 1 - self.replaced_), class_shares(release))
        return float(np.average(gain(release, self.predict_proba(X), original), weights=sample_weight))

    def _learner(self) -> Any:
        """The learner of released labels, told the method."""
        learner = clone(for_released_labels(self.estimator), safe=False)
        last, told = _parted(learner)[1], _TOLD[self.method]
        if not told:
            return learner
        if told == ("unbiased",) and isinstance(last, ReleasedLabelClassifier):
            raise InputError(
                f"expected SoftmaxRegression or TorchClassifier with the method {self.method!r}, whose weights may be "
                "negative, found a classifier that takes none; use 'likelihood'"
            )
        if "original" not in inspect.signature(last.fit).parameters:
            raise InputError(
                "expected SoftmaxRegression, ReleasedLabelClassifier, TorchClassifier or a classifier of scikit-learn, "
                f"found {type(last).__name__}; use the method 'first'"
            )
        if isinstance(last, ReleasedLabelClassifier) and not isinstance(self.estimator, ReleasedLabelClassifier):
            last.set_params(max_iter=_ROUNDS)
        if last.method not in told:
            last.set_params(method="em" if isinstance(last, ReleasedLabelClassifier) else told[0])
        return learner

    def _fresh(self, features: Any, release: Release) -> Any:
        """Synthetic rows, where they are needed."""
        if self.method != "unbiased" and isinstance(self.original_share, str) and self.original_share == "constant":
            return None
        if self.generator is None:
            raise InputError(
                "expected the generator that the release was made with, found none; give generator=, or take "
                "original_share='constant' with the method 'likelihood' or 'weighted'"
            )
        rows = len(release) if self.synthetic is None else self.synthetic
        return synthetic_rows(self.generator, rows, release.space.size, features)

    def _shares(self, features: Any, fresh: Any) -> Float[np.ndarray, "n"]:
        if isinstance(self.original_share, str):
            if self.original_share not in ("constant", "estimated"):
                raise InputError(
                    "expected an original_share among constant, estimated, or a classifier, found "
                    f"{self.original_share!r}"
                )
            if self.original_share == "constant":
                return np.full(row_count(features), 1 - self.replaced_)
        return original_share(
            features, fresh, self.replaced_, None if self.original_share == "estimated" else self.original_share
        )

    def __sklearn_tags__(self) -> Any:
        """It takes the features that the learner takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(for_released_labels(self.estimator)).input_tags
        return tags


def true_accuracy(
    release: RowRelease | Release,
    predicted: object,
    synthetic: object,
    *,
    replaced: float | None = None,
    level: float = 0.95,
) -> Estimate:
    """Unbiased estimate of a model's accuracy on true rows, from its predictions on released and on synthetic rows.

    On released rows the accuracy is ``1-r`` times that on true rows and r times that on synthetic ones with any row's
    label, ``sum_j pi_j g_j`` for the share g_j of them that is predicted as j. So row i says ``(w_i[f_i] - r sum_j w_ij
    g_j) / (1-r)``, for its unbiased vector w_i and the prediction f_i. The model must not have been fitted on these.

    Args:
        release: The released rows, or their labels.
        predicted: Predicted classes of the released features, in any form that the label space reads.
        synthetic: Predicted classes of rows that the generator drew, evenly over the classes.
        replaced: r; by default what the certificate says.
        level: Chance that the interval holds the accuracy, by a normal approximation.

    Guarantee:
        It is computed from a release and from a generator that saw no private rows, so the release's guarantee covers
        it at no further cost.

    Example:
        >>> from labeldp import Classes
        >>> labels = Release.public(["no", "yes", "yes", "yes"], Classes(["no", "yes"]))
        >>> round(true_accuracy(labels, ["no", "no", "yes", "yes"], ["no", "yes"], replaced=0.2).value, 3)
        0.812

    Raises:
        InputError: There is not one prediction for each row, or no synthetic one, or rows have candidates.
        LabelError: A prediction is not in the label space.
    """
    labels, chance = _told(release, replaced)
    codes, drawn = labels.space.encode(predicted), labels.space.encode(synthetic)
    if len(codes) != len(labels) or not len(codes) or not len(drawn):
        raise InputError(
            f"expected a prediction for each of {len(labels)} released rows and at least one for a synthetic row, "
            f"found {len(codes)} and {len(drawn)}"
        )
    shares = mean_vector(labels)
    guessed = np.bincount(drawn, minlength=labels.space.size) / len(drawn)
    rows = (class_weights(labels, codes) - chance * (_unbiased(labels) @ guessed)) / (1 - chance)
    spread = np.var(rows, ddof=1) / len(rows) if len(rows) > 1 else np.inf
    apart = (chance / (1 - chance)) ** 2 * np.var(shares[drawn]) / len(drawn)
    return normal_estimate(float(rows.mean()), float(np.sqrt(spread + apart)), level, 0.0, 1.0)


def _unbiased(release: Release) -> Float[np.ndarray, "n k"]:
    return unbiased_rows(release, slice(0, len(release)))


def _told(y: object, replaced: float | None) -> tuple[Release, float]:
    """Released labels, and the chance that their features were redrawn."""
    release = released(y.labels if isinstance(y, RowRelease) else y)
    law = None if release.certificate is None else release.certificate.features
    if replaced is None and law is None:
        raise InputError(
            "expected rows that Curator.randomize_rows released, found labels alone; give replaced=, the chance that "
            "their features were redrawn"
        )
    return release, resampling_probability(float(law.chance) if replaced is None and law is not None else replaced)


def _parted(learner: Any) -> tuple[list[Any], Any]:
    """The steps of a pipeline before its last one, and that; a learner that is no pipeline has none before it."""
    return (learner.steps[:-1], learner.steps[-1][1]) if isinstance(learner, Pipeline) else ([], learner)


def _discriminator(features: Any) -> Any:
    """Boosting of small trees; for many sparse features, which it does not take, logistic regression.

    Where redrawn features look like true ones there is nothing to find; in 2 000 rows large trees find a fifth of a
    chance, and these, stopped by rows that are held out, a twentieth.
    """
    if issparse(features):
        return LogisticRegression(max_iter=1000)
    return HistGradientBoostingClassifier(
        learning_rate=0.05,
        max_iter=200,
        max_leaf_nodes=8,
        min_samples_leaf=50,
        early_stopping=row_count(features) >= _ENOUGH_TO_STOP,
        random_state=0,  # decides which rows are held out alone
    )


def _drawn(generator: Any, codes: Int[np.ndarray, "m"], like: Any) -> Any:
    """What a generator draws, in the form that is wanted."""
    if not isinstance(generator, Generator):
        return indexable_rows(generator(codes))
    table = generator.sample(codes)
    if hasattr(like, "iloc"):
        return table.to_pandas()
    if isinstance(like, np.ndarray):
        if not generator.form.of_array:
            raise InputError("expected features as a frame, since the generator draws columns, found an array")
        return generator.form.array(table)
    return table
