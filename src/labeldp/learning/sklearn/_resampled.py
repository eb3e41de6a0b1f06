"""Learning from rows with randomized labels and features that were resampled with some probability.

A released row is ``(x~, z)``: its features are the original ones or those of a generator, and the release does not
disclose which. An ordinary learner of released labels minimises only the *first* term of an unbiased loss: it corrects
the labels, and learns partly from resampled features. Three methods correct for these as well; as post-processing of a
release they cost nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.choice import fit_in_units, folds_of
from labeldp.learning.features import indexable_rows, row_count, take_rows
from labeldp.learning.losses import (
    OriginalFeatures,
    SyntheticRows,
    class_shares,
    gain,
    mean_vector,
    require_release,
    resampling_probability,
    stack_rows,
    unbiased_rows,
)
from labeldp.learning.metrics import Estimate, Units, class_weights, normal_estimate
from labeldp.learning.sklearn._adapter import for_released_labels
from labeldp.learning.sklearn._soft_labels import (
    MetaEstimator,
    ProbabilityClassifier,
    check_released_rows,
    of_features,
)
from labeldp.learning.sklearn._softmax import ReleasedLabelClassifier
from labeldp.mechanisms.resampling import Generator
from labeldp.privacy import columns_in_order
from labeldp.release import Release, RowRelease, check_same_rows

__all__ = ["OriginalFeatures", "class_shares"]  # documented here, defined elsewhere

RowMethod: TypeAlias = Literal["likelihood", "weighted", "unbiased", "first"]

#: Methods of a learner of released labels that fit each method; the first is set unless it has another one of them.
_LEARNER_METHODS: dict[str, tuple[str, ...]] = {
    "likelihood": ("likelihood", "em", "posterior"),
    "weighted": ("unbiased",),
    "unbiased": ("unbiased",),
    "first": (),
}

#: Distance of a discriminator's probabilities from 0 and 1.
_LEAST_PROBABILITY = 1e-9
#: Rounds of expectation maximisation; more than for labels alone, since more of each row is missing.
_ROUNDS = 5
#: Most entries of sparse features that are made dense for a discriminator.
_MOST_DENSE = 1 << 25
#: Rows from which a discriminator stops early on a held-out tenth.
_ENOUGH_TO_STOP = 200


def original_share(
    features: Any, synthetic: Any, replaced: float, discriminator: Any = None, *, folds: int = 3, groups: Any = None
) -> Float[np.ndarray, "n"]:
    """Probability that the features of each released row are original, by a classifier against synthetic features.

    With released features of density ``f = (1-r) p + r qbar``, that probability is ``(1-r) p / f = 1 - r qbar / f``. A
    classifier of released rows against rows of the generator has odds ``f / qbar``, up to the ratio of their numbers.
    Each row is classified out of fold. Probabilities are clipped to [0, 1].

    Args:
        features: Released features of n rows: an array, a sparse matrix or a pandas frame.
        synthetic: Rows of the generator in the same form, as many for each class, as from ``synthetic_rows``.
        replaced: r, the probability that features were resampled.
        discriminator: A classifier with ``predict_proba``; by default histogram gradient boosting for numbers (images
            pixel by pixel), or logistic regression for many sparse features.
        folds: Folds of the released rows.
        groups: The privacy unit of each released row, shape (n,); by default each row is its own.

    Returns:
        Probabilities, shape (n,). They are estimates, as good as the classifier.

    Guarantee:
        Post-processing of a release and of a generator that saw no private rows: covered by the release's guarantee at
        no further cost.

    References:
        Sugiyama, Suzuki and Kanamori 2012, chapter 4, for density ratios by classifiers.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> generated = rng.normal(4.0, 1.0, (2000, 1))
        >>> original = np.arange(2000) % 2 == 0  # every other row keeps its features, which are around zero
        >>> features = np.where(original[:, None], rng.normal(0.0, 1.0, (2000, 1)), rng.normal(4.0, 1.0, (2000, 1)))
        >>> shares = original_share(features, generated, 0.5)
        >>> bool(shares[original].mean() > 0.9 > 0.2 > shares[~original].mean())
        True
    """
    probability, rows, fresh = resampling_probability(replaced), indexable_rows(features), indexable_rows(synthetic)
    count, drawn = row_count(rows), row_count(fresh)
    folds = _checks.whole(folds, "folds", 2)
    if count < folds or not drawn:
        raise InputError(f"expected at least {folds} released rows and one synthetic row, found {count} and {drawn}")
    if probability == 0:
        return np.ones(count)
    if discriminator is None and issparse(rows) and rows.shape[0] * rows.shape[1] <= _MOST_DENSE:
        rows, fresh = rows.toarray(), fresh.toarray() if issparse(fresh) else fresh
    if discriminator is None and isinstance(rows, np.ndarray):
        rows, fresh = rows.reshape(count, -1), np.asarray(fresh).reshape(drawn, -1)
    model = _default_discriminator(rows) if discriminator is None else discriminator
    if not hasattr(model, "predict_proba"):
        raise InputError(f"expected a discriminator with predict_proba, found {type(model).__name__}")
    quotient = np.empty(count)  # qbar / f
    for fit_on, held in folds_of(Units.of(groups, count), folds):
        both = stack_rows(take_rows(rows, fit_on), fresh)
        fitted = of_features(clone(model).fit, both, np.repeat([1, 0], [len(fit_on), drawn]))
        scores = np.asarray(of_features(fitted.predict_proba, take_rows(rows, held)))[:, 1]
        quotient[held] = (1 / np.clip(scores, _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY) - 1) * len(fit_on) / drawn
    return np.clip(1 - probability * quotient, 0.0, 1.0)


def synthetic_rows(generator: Any, rows: int, classes: int, like: Any = None) -> Any:
    """Features drawn by a generator, as many for each class: a sample of the distribution of resampled features.

    Args:
        generator: A ``Generator`` of a double release, or a function from class codes to as many rows.
        rows: Number of rows, rounded up to a multiple of the number of classes.
        classes: Number of classes.
        like: Features in the requested form, a pandas frame or an array; by default the generator's form.

    Example:
        >>> import numpy as np
        >>> synthetic_rows(lambda codes: np.eye(2)[codes], 3, 2).tolist()
        [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    """
    if not isinstance(generator, Generator) and not callable(generator):
        raise InputError(
            f"expected a Generator, or a function from class codes to rows, found {type(generator).__name__}; give the "
            "generator that the release was made with"
        )
    codes = np.arange(-(-_checks.whole(rows, "the number of synthetic rows", 1) // classes) * classes) % classes
    features = _draw_features(generator, codes, like)
    if row_count(features) != len(codes):
        raise InputError(f"expected a generator that draws {len(codes)} rows, found {row_count(features)}")
    return features


@dataclass(eq=False, repr=False)
class ResampledClassifier(MetaEstimator, ProbabilityClassifier):
    """Classifier of true features, learned from rows some of whose features were resampled.

    Args:
        estimator: A learner of released labels: ``SoftmaxRegression`` (by default), ``TorchClassifier``, or any
            scikit-learn classifier, which ``ReleasedLabelClassifier`` fits by five rounds of expectation maximisation;
            or a pipeline that ends in one.
        method: ``"likelihood"`` (forward correction): maximum likelihood of ``(z, x~)`` where x~ is original with
            probability s, see ``OriginalFeatures``. ``"weighted"``: a loss that is unbiased for original rows if s is
            right, in which each row counts for s. ``"unbiased"`` (backward correction): a loss that is unbiased for
            original rows for any generator, less the loss of synthetic rows, see ``SyntheticRows``. ``"first"``: its
            first term, which corrects the labels alone, by the estimator as it is; with
            ``SoftmaxRegression(method="unbiased")`` that is the paper's.
        generator: Source of synthetic rows: the ``Generator`` that the release was made with, or a function from class
            codes to rows. Required with ``"unbiased"``, and if ``original_share`` is estimated.
        synthetic: Number of synthetic rows, by default that of released rows.
        original_share: s: ``"constant"``, the probability that features were kept, correct if resampled features look
            like true ones; ``"estimated"`` from synthetic rows; or a classifier that estimates it from them. With
            ``"unbiased"`` it only serves the choice of a penalty.

    Attributes:
        classes_: The declared classes.
        estimator_: The fitted learner.
        own_: The shares s and the class shares used; None with ``"first"``.
        replaced_: Probability that features were resampled.

    Guarantee:
        Post-processing of a release and of a generator that saw no private rows: covered by the release's guarantee at
        no further cost.

    References:
        Busa-Fekete et al. 2023, Lemma G.1 (the first term; corrected in ``SyntheticRows``); Patrini et al. 2017, for
        forward and backward correction.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> rng, space = np.random.default_rng(0), Classes(["no", "yes"])
        >>> labels = np.arange(4000) % 2
        >>> original = rng.random(4000) < 0.5
        >>> true = rng.normal(2.0 * labels - 1.0, 1.0)[:, None]
        >>> def sampler(codes):
        ...     return rng.normal(3.0, 1.0, (len(codes), 1))
        >>> features = np.where(original[:, None], true, sampler(labels))
        >>> release = Curator(np.array(["no", "yes"])[labels], space).randomize(RandomizedResponse(space, 2.0))
        >>> learner = ResampledClassifier(generator=sampler, original_share="estimated")
        >>> learner.fit(features, release, replaced=0.5).predict([[-1.0], [1.5]]).tolist()
        ['no', 'yes']
    """

    estimator: Any = None
    _: KW_ONLY
    method: RowMethod = "likelihood"
    generator: Generator | Callable[..., Any] | None = None
    synthetic: int | None = None
    original_share: Any = "constant"

    def fit(self, X: Any, y: Any, replaced: float | None = None, groups: Any = None) -> Self:  # noqa: N803
        """Fit on released features of n rows and their released labels.

        Args:
            X: Released features, in the form that the estimator takes: an array, a sparse matrix or a frame.
            y: The released rows, or their labels.
            replaced: Probability that features were resampled; by default that in the certificate.
            groups: The privacy unit of each row, shape (n,); ``"rows"`` if each row is its own.
        """
        release, probability = _labels_and_probability(y, replaced)
        _checks.among(self.method, "a method", _LEARNER_METHODS)
        features = indexable_rows(X)
        check_released_rows(features, release)
        learner, units = self._learner(), Units.of(groups, release)
        self._set_classes(release.space)
        self.space_, self.replaced_, self.own_ = release.space, probability, None
        if self.method == "first":
            self.estimator_ = fit_in_units(learner, features, release, units)
            return self
        fresh = self._synthetic_features(features, release)
        before, last = _split_pipeline(learner)
        if before:
            features = learner[:-1].fit_transform(features)
            fresh = None if fresh is None else learner[:-1].transform(fresh)
        self.own_ = OriginalFeatures(self._shares(features, fresh, units), class_shares(release))
        extra = {"synthetic": SyntheticRows(fresh, self.own_.prior, probability)} if self.method == "unbiased" else {}
        fitted = fit_in_units(last, features, release, units, original=self.own_, **extra)
        self.estimator_ = Pipeline([*before, (learner.steps[-1][0], fitted)]) if before else fitted
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes given true features, shape (n, k)."""
        check_is_fitted(self)
        learner = self.estimator_
        classes = learner.classes_ if hasattr(learner, "classes_") else self.space_.points
        return columns_in_order(np.asarray(learner.predict_proba(X)), classes, self.classes_)

    def score(self, X: Any, y: RowRelease | Release, sample_weight: Any = None) -> float:  # noqa: N803
        """The mean log likelihood of released rows, in nats over the uniform model, for a constant s."""
        release, _ = _labels_and_probability(y, self.replaced_)
        check_same_rows(X, release)
        original = OriginalFeatures(np.full(len(release), 1 - self.replaced_), class_shares(release))
        probabilities = self._declared(self.predict_proba(X), release.space)
        return float(np.average(gain(release, probabilities, original), weights=sample_weight))

    def _learner(self) -> Any:
        """The learner of released labels with its method set."""
        learner = clone(self._inner(), safe=False)
        last, methods = _split_pipeline(learner)[1], _LEARNER_METHODS[self.method]
        if not methods:
            return learner
        if methods == ("unbiased",) and isinstance(last, ReleasedLabelClassifier):
            raise InputError(
                f"expected SoftmaxRegression or TorchClassifier with the method {self.method!r}, whose weights may be "
                "negative, found a classifier that takes no such weights; use 'likelihood'"
            )
        if "original" not in inspect.signature(last.fit).parameters:
            raise InputError(
                "expected SoftmaxRegression, ReleasedLabelClassifier, TorchClassifier or a classifier of scikit-learn, "
                f"found {type(last).__name__}; use the method 'first'"
            )
        if isinstance(last, ReleasedLabelClassifier) and not isinstance(self.estimator, ReleasedLabelClassifier):
            last.set_params(max_iter=_ROUNDS)
        if last.method not in methods:
            last.set_params(method="em" if isinstance(last, ReleasedLabelClassifier) else methods[0])
        return learner

    def _inner(self) -> Any:
        return for_released_labels(self.estimator)

    def _synthetic_features(self, features: Any, release: Release) -> Any:
        """Synthetic rows if they are needed, else None."""
        if self.method != "unbiased" and isinstance(self.original_share, str) and self.original_share == "constant":
            return None
        if self.generator is None:
            raise InputError(
                "expected the generator that the release was made with, found none; give generator=, or use "
                "original_share='constant' with the method 'likelihood' or 'weighted'"
            )
        rows = len(release) if self.synthetic is None else self.synthetic
        return synthetic_rows(self.generator, rows, release.space.size, features)

    def _shares(self, features: Any, fresh: Any, units: Units) -> Float[np.ndarray, "n"]:
        if isinstance(self.original_share, str):
            if self.original_share not in ("constant", "estimated"):
                raise InputError(
                    "expected original_share to be 'constant', 'estimated' or a classifier, found "
                    f"{self.original_share!r}"
                )
            if self.original_share == "constant":
                return np.full(row_count(features), 1 - self.replaced_)
        discriminator = None if isinstance(self.original_share, str) else self.original_share
        return original_share(features, fresh, self.replaced_, discriminator, groups=units)


def true_accuracy(
    release: RowRelease | Release,
    predicted: object,
    synthetic: object,
    *,
    replaced: float | None = None,
    level: float = 0.95,
) -> Estimate:
    """Unbiased estimate of a model's accuracy on original rows, from predictions on released and synthetic rows.

    The accuracy on released rows is ``1-r`` times that on original rows plus r times that on synthetic ones with any
    row's label, ``sum_j pi_j g_j`` for the share g_j of them that is predicted as j. So row i contributes
    ``(w_i[f_i] - r sum_j w_ij g_j) / (1-r)``, for its unbiased vector w_i and the prediction f_i. The model must not
    have been fitted on these rows.

    Args:
        release: The released rows, or their labels.
        predicted: Predicted classes of the released features, in any form that the label space reads.
        synthetic: Predicted classes of rows that the generator drew, as many for each class.
        replaced: r; by default that in the certificate.
        level: Coverage of the confidence interval, by a normal approximation.

    Guarantee:
        Post-processing of a release and of a generator that saw no private rows: covered by the release's guarantee at
        no further cost.

    Example:
        >>> from labeldp import Classes
        >>> labels = Release.public(["no", "yes", "yes", "yes"], Classes(["no", "yes"]))
        >>> round(true_accuracy(labels, ["no", "no", "yes", "yes"], ["no", "yes"], replaced=0.2).value, 3)
        0.812

    Raises:
        InputError: The predictions are not one for each row, no synthetic row has one, or rows have candidates.
        LabelError: A prediction is not in the label space.
    """
    labels, probability = _labels_and_probability(release, replaced)
    codes, drawn = labels.space.encode(predicted), labels.space.encode(synthetic)
    if len(codes) != len(labels) or not len(codes) or not len(drawn):
        raise InputError(
            f"expected a prediction for each of {len(labels)} released rows and at least one for a synthetic row, "
            f"found {len(codes)} and {len(drawn)}"
        )
    shares = mean_vector(labels)
    predicted_shares = np.bincount(drawn, minlength=labels.space.size) / len(drawn)
    vectors = unbiased_rows(labels, slice(0, len(labels)))
    rows = (class_weights(labels, codes) - probability * (vectors @ predicted_shares)) / (1 - probability)
    variance = np.var(rows, ddof=1) / len(rows) if len(rows) > 1 else np.inf
    synthetic_variance = (probability / (1 - probability)) ** 2 * np.var(shares[drawn]) / len(drawn)
    return normal_estimate(float(rows.mean()), float(np.sqrt(variance + synthetic_variance)), level, 0.0, 1.0)


def _labels_and_probability(y: object, replaced: float | None) -> tuple[Release, float]:
    """Released labels, and the probability that their features were resampled."""
    release = require_release(y.labels if isinstance(y, RowRelease) else y)
    law = None if release.certificate is None else release.certificate.features
    if replaced is None and law is None:
        raise InputError(
            "expected rows that Curator.randomize_rows released, found labels alone; give replaced=, the probability "
            "that their features were resampled"
        )
    return release, resampling_probability(float(law.chance) if replaced is None and law is not None else replaced)


def _split_pipeline(learner: Any) -> tuple[list[Any], Any]:
    """The steps of a pipeline before its last one, and the last estimator; no steps for other learners."""
    return (learner.steps[:-1], learner.steps[-1][1]) if isinstance(learner, Pipeline) else ([], learner)


def _default_discriminator(features: Any) -> Any:
    """Boosting of small trees; logistic regression for many sparse features, which boosting does not take.

    If resampled features look like true ones there is nothing to detect; in 2 000 rows large trees are off by a fifth
    in probability, and these, with early stopping, by a twentieth.
    """
    if issparse(features):
        return LogisticRegression(max_iter=1000)
    return HistGradientBoostingClassifier(
        learning_rate=0.05,
        max_iter=200,
        max_leaf_nodes=8,
        min_samples_leaf=50,
        early_stopping=row_count(features) >= _ENOUGH_TO_STOP,
        random_state=0,  # only decides which rows are held out
    )


def _draw_features(generator: Any, codes: Int[np.ndarray, "m"], like: Any) -> Any:
    """Features that a generator draws, in the requested form."""
    if not isinstance(generator, Generator):
        return indexable_rows(generator(codes))
    table = generator.sample(codes)
    if hasattr(like, "iloc"):
        return table.to_pandas()
    if isinstance(like, np.ndarray):
        if not generator.form.of_array:
            raise InputError("expected features as a frame for a generator of columns, found an array; use a DataFrame")
        return generator.form.array(table)
    return table
