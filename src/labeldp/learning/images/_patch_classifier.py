"""Classifier of images by features of patches: a sum of heads that released labels weigh."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._progress import Progress, silent
from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.cells import ClusterTree
from labeldp.learning.choice import Held, Path, all_gains, clearly_best, folds_of
from labeldp.learning.heads import SoftmaxFit, SoftmaxProblem
from labeldp.learning.heads import softmax as probabilities_of
from labeldp.learning.images._kernel_features import EncoderFeatures, KernelFeatures
from labeldp.learning.images._patch_features import PatchFeatures, moved_copies, pixels_of
from labeldp.learning.losses import TargetLoss, effective_share, gain, require_release, row_loss
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn import (
    POWER,
    ClusterLeaves,
    ScoreClassifier,
    SoftmaxRegression,
    TreeClassifier,
    check_released_rows,
)
from labeldp.privacy import columns_in_order
from labeldp.release import Release

#: Folds, of which one is held out to weigh heads.
_FOLDS = 5
#: Effective rows that suffice to weigh heads: where one fold has fewer, others are held out in turn.
_ENOUGH = 400
#: Standard deviation of the prior of weights around that of the head of clusters alone, which suffers least from noise:
#: few effective rows leave them near it.
_WEIGHT_DEVIATION = 0.5
#: Standard errors by which released labels are likelier under other features than the usual ones before these are left.
_CLEARLY = 2.0
#: Weights of heads below this are taken for none.
_LEAST = 0.02
#: Tolerance of fits, relative to the length of rows. A coarser one leaves out what trailing components say, whose
#: gradients are small; with three tenths of it fits to 60 000 images take longer and are no better.
_TOLERANCE = 7.5e-5
#: Leading components that clusters are found in.
_CLUSTERED = 50
#: Penalty of the head that learns from clusters, relative to the squared length of rows. It matters little, as its
#: targets have no noise of their own.
_PENALTY = 1e-5
#: Pulls towards the head of clusters when it goes on to learn from released labels, relative to the usual penalty; zero
#: is the usual centre of heads.
_PULLS = (math.inf, 30.0, 10.0, 3.0, 1.0, 0.3)
#: Prior variances of a logit and of an intercept.
_LOGIT_VARIANCE, _INTERCEPT_VARIANCE = 4.0, 2.0


@documented_in("labeldp.learning.images")
@dataclass(frozen=True, eq=False)
class ImageRows:
    """All that is learned from images alone: features of rows, and their clusters.

    Attributes:
        features: Features of rows, the leading ones first, and then those of the kernel, shape (n, d); below them those
            of each set of copies.
        leaves: The leaf of each row in each tree of clusters, shape (n, trees).
        trees: The trees.
        kernel: The kernel of the features as they were given; None if there are no others.

    Guarantee:
        A function of public features: no label is seen.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.images import ImageRows, PatchClassifier
        >>> own = np.repeat([[0.0, 1.0], [1.0, 0.0]], 500, axis=0)  # the features of your own public encoder
        >>> release = Curator(["no"] * 500 + ["yes"] * 500, Classes(["no", "yes"])).randomize(epsilon=2.0)
        >>> model = PatchClassifier().fit_head(ImageRows.of(own), release)
        >>> model.predict_features(own[[0, 999]]).tolist()
        ['no', 'yes']
    """

    features: Float[np.ndarray, "r d"]
    leaves: Int[np.ndarray, "n t"]
    trees: Sequence[ClusterTree]
    kernel: KernelFeatures | None = None

    @classmethod
    def of(
        cls,
        features: Float[np.ndarray, "n d"],
        *,
        kernel: KernelFeatures | None = None,
        copies: Sequence[Float[np.ndarray, "_ _"]] = (),
    ) -> ImageRows:
        """Features of rows, from ``PatchFeatures`` or any public encoder, with clusters of them.

        Args:
            features: Features of rows, shape (n, d).
            kernel: How linear models of the features are made curved, such as ``KernelFeatures()``; None: they stay
                linear, which suffices where an encoder was made for it.
            copies: Features of the same rows changed in ways that leave their class as it is, such as images that are
                moved a little, each of shape (n, d). Heads learn from these too.

        Raises:
            InputError: Copies have another shape than the features.
        """
        other = next((np.shape(each) for each in copies if np.shape(each) != np.shape(features)), None)
        if other is not None:
            raise InputError(
                f"expected copies of the shape of the features, {np.shape(features)}, found {other}; "
                "give one copy of each row, in the order of rows"
            )
        every = features if not copies else np.vstack([features, *copies])
        curved = every if kernel is None else kernel.fit(features).transform(every)
        clusters = ClusterLeaves()
        leaves = clusters.fit_transform(curved[: len(features), :_CLUSTERED])
        rows = every if kernel is None else np.hstack([every, curved])
        return cls(rows, leaves, clusters.trees_, kernel)

    def take(self, some: Int[np.ndarray, "m"]) -> ImageRows:
        """Some of the rows, with their copies."""
        return replace(self, features=self.features[self.with_copies(some)], leaves=self.leaves[some])

    def with_copies(self, some: Int[np.ndarray, "m"]) -> Int[np.ndarray, "_"]:
        """The places of the features of some rows and of their copies."""
        starts = np.arange(0, len(self.features), len(self.leaves))
        return np.asarray((starts[:, None] + some).ravel())

    @property
    def own(self) -> int:
        """Number of features beside those of the kernel."""
        return self.features.shape[1] if self.kernel is None else int(self.kernel.landmarks_.shape[1])

    @property
    def length(self) -> float:
        """Root of the mean squared length of rows."""
        return _length(self.features)

    @property
    def tolerance(self) -> float:
        """Largest entry of the gradient at convergence, for labels without noise.

        It is no larger than the sampling error of the gradient, ``1 / sqrt(n d)`` in the root mean square for n
        rows of length one with d features: else fits to many features would stop where they begin.
        """
        return self.length * min(_TOLERANCE, 1.0 / math.sqrt(len(self.leaves) * self.features.shape[1]))


@documented_in("labeldp.learning.images")
@dataclass(eq=False, repr=False)
class PatchClassifier(ScoreClassifier):
    """Classifier of images by ``PatchFeatures``, or by an encoder: a sum of heads that released labels weigh.

    Some heads are ``SoftmaxRegression`` of leading components. Another one, of ``KernelFeatures`` too, learns from all
    images the class distributions of public clusters of them (``TreeClassifier``), which labels of little information
    suffice for, and goes on from there to learn from the released labels, pulled back as much as is likeliest on
    held-out rows. Heads that are fitted to four fifths of the rows predict the rest, each fifth in turn where labels
    say little, and their weights are those under which the sum of their scores makes the released labels there
    likeliest, with a prior around the head of clusters alone, which suffers least from noise. The coefficients are the
    weighted sum of those of heads that are fitted to all rows.

    Args:
        components: Numbers of leading components, one for each head; those above the number of features mean all.
        filters: Number of filters of each scale. None: 256, and 512 in colour.
        mirrored: Whether features are those of an image and its mirror image; None: in colour, as most photographs, and
            not in gray, unless released labels of held-out rows are clearly likelier otherwise.
        copies: Number of copies of each image, turned, stretched and shifted by a little, that heads learn from too:
            few images say little of how images of a class differ. None: 2, or as many as make 60 000 images.
        report: Function called with ``("features", done, of)`` and ``("learn", done, of)``.

    Attributes:
        classes_: The declared classes.
        features_: The features of patches, learned from all images; or ``EncoderFeatures`` where the rows are features
            that an encoder made of images.
        kernel_: The kernel of these features; None for an encoder of one's own without a kernel.
        coef_: Coefficients of components and of the features of the kernel, shape (k, d).
        intercept_: Intercepts, shape (k,).
        weights_: Weights of heads by number of components, and of the one of ``"clusters"``. They exceed 1 together
            where heads are too cautious.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost, including the weights.

    References:
        See ``PatchFeatures``, ``KernelFeatures``, ``SoftmaxRegression`` and ``TreeClassifier``; Heskes 1998, Selecting
        weighting factors in logarithmic opinion pools; Hinton, Vinyals and Dean 2015, for a model that learns from the
        probabilities of another one.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.images import PatchClassifier
        >>> across = np.tile([[0], [250]], (300, 6, 12)).astype(np.uint8)
        >>> images = np.concatenate([across, np.moveaxis(across, 1, 2)])
        >>> space = Classes(["across", "upright"])
        >>> release = Curator(["across"] * 300 + ["upright"] * 300, space).randomize(epsilon=2.0)
        >>> PatchClassifier((1, 2), filters=4).fit(images, release).predict(images[[0, 300]]).tolist()
        ['across', 'upright']

    Raises:
        InputError: See ``PatchFeatures``.
    """

    components: Sequence[int] = (64, 256, 768)
    _: KW_ONLY
    filters: int | None = None
    mirrored: bool | None = None
    copies: int | None = None
    report: Progress | None = None

    def fit(self, X: Any, y: Release, groups: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Learn features from images, and fit the head.

        Args:
            X: The images, in a form that ``PatchFeatures`` takes; or features that an encoder made of them, such as an
                ``ImageEncoder``, shape (n, d).
            y: A release of n rows.
            groups: The privacy unit of each row, shape (n,); ``"rows"`` if each row is its own.
        """
        units = Units.of(groups, require_release(y))
        return self.fit_head(self.image_rows(X, y, units), y, units)

    def image_rows(self, X: Any, y: Release, groups: Any = None) -> ImageRows:  # noqa: N803
        """Learn features from images alone, and take those of all: the rows that ``fit_head`` takes.

        Args:
            X: As in ``fit``.
            y: A release of n rows, which decides on mirror images where ``mirrored`` is None.
            groups: As in ``fit``.
        """
        check_released_rows(X, require_release(y))
        kinds = self._kinds(X)
        steps, features = len(kinds) + 1, list[np.ndarray]()
        for done, each in enumerate(kinds):
            self._say("features", done, steps)
            features.append(each.fit(X).transform(X))
        self._say("features", len(kinds), steps)
        place = likeliest_features(features, y, groups)
        self.features_ = kinds[place]
        moved = [] if np.ndim(X) == 2 else moved_copies(X, self.copies)
        copies = [self.features_.transform(each) for each in moved]
        rows = ImageRows.of(features[place], kernel=KernelFeatures(), copies=copies)
        self._say("features", steps, steps)
        return rows

    def _kinds(self, X: Any) -> list[Any]:  # noqa: N803
        """The kinds of features to choose from, the usual ones first."""
        if np.ndim(X) == 2:
            return [EncoderFeatures()]
        colour = pixels_of(X).shape[1] > 1
        ways = (colour, not colour) if self.mirrored is None else (self.mirrored,)
        return [PatchFeatures(filters=self.filters, mirrored=each) for each in ways]

    def fit_head(self, rows: ImageRows, y: Release, groups: Any = None) -> Self:
        """Fit the head alone to n rows, whose features then serve several releases.

        Args:
            rows: Rows with features by ``PatchFeatures`` or your public encoder; ``predict_features`` predicts then.
            y: A release of n rows.
            groups: As in ``fit``.
        """
        release = require_release(y)
        self.kernel_: Any = rows.kernel
        check_released_rows(rows.leaves, release)
        counts = sorted({min(each, rows.own) for each in self._counts()})
        units = Units.of(groups, release)
        folds = folds_of(units, _FOLDS)[: _held_out(release)]
        judged = release[np.concatenate([held for _, held in folds])]
        linear, settings, steps = [], [], len(counts) + 2  # each head on four fifths of the rows, then all on all
        for done, count in enumerate(counts):
            self._say("learn", done, steps)
            some = rows.features[:, :count]
            paths = [_path(some, release, rows.with_copies(fit), held, rows.tolerance, units) for fit, held in folds]
            settings.append(_likeliest(paths))
            predicted = np.concatenate([path.predict(settings[-1]) for path in paths])
            linear.append(np.log(np.maximum(predicted, np.finfo(np.float64).tiny)))
        self._say("learn", len(counts), steps)
        curved = [
            [each.scores(rows.features[held]) for each in _of_clusters(rows, release, fit, _PULLS)]
            for fit, held in folds
        ]
        pooled = [likeliest_sum([*linear, np.concatenate(each)], judged) for each in zip(*curved, strict=True)]
        best = int(np.argmin([value for value, _ in pooled]))
        weights = np.where(pooled[best][1] < _LEAST, 0.0, pooled[best][1])
        self._say("learn", len(counts) + 1, steps)
        self._add(rows, release, dict(zip(counts, settings, strict=True)), _PULLS[best], weights)
        self.weights_ = dict(zip((*counts, "clusters"), weights.tolist(), strict=True))
        self._say("learn", steps, steps)
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803 (scikit-learn's name)
        """Probabilities of the true classes, shape (n, k), in the order of ``classes_``."""
        return probabilities_of(self._scores(X))

    def predict_features(self, features: Float[np.ndarray, "n d"]) -> np.ndarray:
        """The most likely true class of each row of features, as they were given to ``ImageRows.of``."""
        return np.asarray(self.classes_[self._feature_scores(features).argmax(axis=1)])

    def _add(
        self,
        rows: ImageRows,
        release: Release,
        settings: dict[int, int],
        pull: float,
        weights: Float[np.ndarray, "heads"],
    ) -> None:
        """Set coefficients to the weighted sum of those of heads that are fitted to all rows."""
        order = self._set_classes(release.space)
        self.coef_ = np.zeros((len(order), rows.features.shape[1]))
        self.intercept_ = np.zeros(len(order))
        repeated = release[rows.with_copies(np.arange(len(release))) % len(release)]
        for weight, (count, setting) in zip(weights, settings.items(), strict=False):
            if weight > 0.0:
                head = SoftmaxRegression(tol=rows.tolerance).fit_setting(setting, rows.features[:, :count], repeated)
                self.coef_[:, :count] += weight * head.coef_
                self.intercept_ += weight * head.intercept_
        if weights[-1] > 0.0:
            *_, named = _of_clusters(rows, release, np.arange(len(release)), (pull,))
            self.coef_ += weights[-1] * named.coefficients.T[order]
            self.intercept_ += weights[-1] * named.intercepts[order]

    def _scores(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        check_is_fitted(self)
        return self._feature_scores(self.features_.transform(X))

    def _feature_scores(self, features: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        rows = features if self.kernel_ is None else np.hstack([features, self.kernel_.transform(features)])
        return np.asarray(rows @ self.coef_.T + self.intercept_)

    def _say(self, name: str, done: int, of: int) -> None:
        (self.report or silent)(name, done, of)

    def _counts(self) -> list[int]:
        return [_checks.whole(each, "components", 1) for each in self.components]


def likeliest_features(candidates: Sequence[Float[np.ndarray, "n _"]], y: Release, groups: Any = None) -> int:
    """The place of the features of n rows under which a linear model makes released labels of held-out rows likeliest.

    It is the first unless they are likelier under others by more than two standard errors.

    Args:
        candidates: Several features of the same rows, each of shape (n, d), the usual ones first.
        y: A release of n rows.
        groups: The privacy unit of each row, shape (n,); ``"rows"`` if each row is its own.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.images import likeliest_features
        >>> release = Curator(["no"] * 500 + ["yes"] * 500, Classes(["no", "yes"])).randomize(epsilon=2.0)
        >>> noise, signal = np.random.default_rng(0).normal(size=(1000, 1)), np.repeat([[0.0], [1.0]], 500, axis=0)
        >>> likeliest_features([noise, signal], release)
        1
    """
    if len(candidates) == 1:
        return 0
    units = Units.of(groups, y)
    fit, held = folds_of(units, _FOLDS)[0]
    gains = []
    for features in candidates:
        path = _path(features, y, fit, held, _TOLERANCE * _length(features), units)
        gains.append(gain(y[held], path.predict(_likeliest([path]))))
    return clearly_best(np.stack(gains), units.take(held), _CLEARLY)


def _path(
    features: Float[np.ndarray, "n d"],
    release: Release,
    fit: Int[np.ndarray, "m"],
    held: Int[np.ndarray, "h"],
    tolerance: float,
    units: Units,
) -> Path:
    """Linear heads under each penalty, judged on held-out rows; copies of rows are below the rows."""
    part = Held.of(features, release, units, held)
    return SoftmaxRegression(tol=tolerance).path(features[fit], release[fit % len(release)], part)


def _likeliest(paths: Sequence[Path]) -> int:
    """The penalty under which released labels of all held-out rows are likeliest."""
    return replace(all_gains(path.gains for path in paths), constant=None).best()


def _held_out(release: Release) -> int:
    """Number of folds to hold out in turn: as many as have enough effective rows."""
    share = effective_share(release)
    return math.ceil(min(_FOLDS, _ENOUGH / max(share * len(release) / _FOLDS, 1.0)))


def likeliest_sum(
    scores: Sequence[Float[np.ndarray, "h k"]], release: Release
) -> tuple[float, Float[np.ndarray, "heads"]]:
    """The weights, at least 0, under which a sum of scores is likeliest, and its loss with the prior in nats.

    Args:
        scores: Scores of each of several models for rows that they were not fitted on, in declared order. The prior of
            weights is around the last model alone.
        release: Released labels of these rows.
    """
    every, ones, alone = np.stack(scores), np.ones(len(release)), np.eye(len(scores))[-1]
    loss = row_loss(release, "likelihood")

    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        logits = np.tensordot(weights, every, axes=1)
        value = loss(logits, ones)  # which puts the gradient in place of logits
        offsets = (weights - alone) / _WEIGHT_DEVIATION
        slopes = np.einsum("hnk,nk->h", every, logits) + offsets / _WEIGHT_DEVIATION
        return value + 0.5 * float(offsets @ offsets), slopes

    found = minimize(objective, alone, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(every))
    return float(found.fun), np.asarray(found.x)


def _length(features: Float[np.ndarray, "n d"]) -> float:
    """Root of the mean squared length of rows."""
    return float(np.linalg.norm(features)) / math.sqrt(len(features))


def _of_clusters(
    rows: ImageRows, release: Release, fit: Int[np.ndarray, "m"], pulls: Sequence[float]
) -> Iterator[SoftmaxFit]:
    """Linear heads of the class distributions that clusters of all rows have by the labels of some, in their order.

    Each goes on to learn from these labels, pulled towards where it began; an infinite pull leaves it there.
    """
    tree = TreeClassifier(rows.trees, power=POWER).fit(rows.leaves[fit], release[fit])
    targets = columns_in_order(tree.predict_proba(rows.leaves), tree.classes_, release.space.points)
    targets = np.tile(targets, (len(rows.features) // len(targets), 1))
    every, tolerance = np.ones(len(targets)), rows.tolerance
    problem = SoftmaxProblem(rows.features, TargetLoss(targets), every, release.space.size, _PENALTY * rows.length**2)
    centre = head = problem.fit(tolerance=tolerance)
    share = effective_share(release)
    places = rows.with_copies(fit)
    features, loss = rows.features[places], row_loss(release[places % len(release)], "likelihood")
    for pull in pulls:
        if math.isfinite(pull):
            l2 = pull * rows.length**2 / (_LOGIT_VARIANCE * len(fit))
            penalty = 1.0 / (_INTERCEPT_VARIANCE * len(fit))
            refined = SoftmaxProblem(features, loss, every[places], release.space.size, l2, True, penalty, centre)
            head = refined.fit(head, tolerance * math.sqrt(share))
        yield head
