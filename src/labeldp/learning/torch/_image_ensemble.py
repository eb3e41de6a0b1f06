"""A network beside the classifier of patches: it learns from what that one believes, and the scores of both add up."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from torch import nn

from labeldp._documented import documented_in
from labeldp._progress import Progress, silent
from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.choice import folds_of
from labeldp.learning.heads import softmax
from labeldp.learning.images import ImageRows, PatchClassifier, likeliest_sum, pixels_of
from labeldp.learning.losses import require_release
from labeldp.learning.metrics import ROWS, Units
from labeldp.learning.sklearn import ScoreClassifier, check_released_rows
from labeldp.learning.torch._augmentation import augmentation
from labeldp.learning.torch._classifier import TorchClassifier
from labeldp.learning.torch._networks import residual
from labeldp.privacy import ClassProbabilities
from labeldp.release import Release

_FOLDS = 5
#: Images that the network sees, up to bounds of the number of epochs: few images need many epochs.
_SEEN, _FEWEST, _MOST = 300_000, 10, 40


@documented_in("labeldp.learning.torch")
@dataclass(eq=False, repr=False)
class ImageEnsemble(ScoreClassifier):
    """Classifier of images: the sum of ``PatchClassifier`` and of a network that learns from its predictions.

    Few or noisy labels teach a network little. Here its targets are posteriors: for each image what ``PatchClassifier``
    predicts by the labels of other images, as a prior, and the released label of the image. Only whether mirror images
    count is decided by all labels. A fifth of the rows is kept from both; there the weights of the two are those under
    which the sum of their scores makes released labels likeliest, with a prior around patches alone. In the end
    ``PatchClassifier`` is fitted to all rows, and the network goes on with all rows for half as many epochs.

    It takes several times as long as ``PatchClassifier``, and was more accurate in each draw of three tables
    (``experiments/ensemble.md``).

    Args:
        patches: The classifier of patches; None for one with its defaults.
        training: Arguments of ``TorchClassifier`` that replace the defaults of the network, such as
            ``{"epochs": 20}``, but not ``held_out`` and ``patience``: it is judged as said. By default as many epochs
            as make 300 000 images, from 10 to 40, with images that are moved, turned and partly covered, and mirrored
            if the classifier of patches mirrors them.
        report: Function called with ``("features", done, of)``, ``("learn", done, of)`` and ``("epoch", done, of)``.

    Attributes:
        classes_: The declared classes.
        patches_: The fitted classifier of patches.
        network_: The fitted network, a ``TorchClassifier``.
        weights_: Weights of ``"patches"`` and ``"network"``.
        n_iter_: Number of epochs of the network, of both of its fits.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost, including the weights.

    References:
        Ghazi et al. 2021, for the posterior of a prior and a released label; Hinton, Vinyals and Dean 2015, for a
        network that learns from probabilities; Heskes 1998, for the weights.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.images import PatchClassifier
        >>> from labeldp.learning.torch import ImageEnsemble
        >>> across = np.tile([[0], [250]], (300, 6, 12)).astype(np.uint8)
        >>> images = np.concatenate([across, np.moveaxis(across, 1, 2)])
        >>> release = Curator(["across"] * 300 + ["upright"] * 300, Classes(["across", "upright"])).randomize(epsilon=2)
        >>> model = ImageEnsemble(PatchClassifier((2,), filters=4, copies=0), training={"epochs": 1})
        >>> model.fit(images, release).predict(images[[0, 300]]).tolist()
        ['across', 'upright']

    Raises:
        InputError: See ``PatchClassifier`` and ``TorchClassifier``; or ``training`` holds rows out.
    """

    patches: PatchClassifier | None = None
    _: KW_ONLY
    training: Mapping[str, Any] | None = None
    report: Progress | None = None

    def fit(self, X: Any, y: Release, groups: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Fit both, and weigh them.

        Args:
            X: n images in a form that ``PatchFeatures`` takes.
            y: A release of n rows.
            groups: The privacy unit of each row, shape (n,); ``"rows"`` if each row is its own.
        """
        release = require_release(y)
        check_released_rows(X, release)
        if found := sorted({"held_out", "patience"} & set(self.training or {})):
            raise InputError(
                f"expected training without {' and '.join(found)}, as a fifth of the rows judges the network, found "
                "it; leave it out"
            )
        pixels, units = pixels_of(X), Units.of(groups, release)
        head = clone(PatchClassifier() if self.patches is None else self.patches).set_params(report=self.report)
        fit, held = folds_of(units, _FOLDS)[0]
        rows, order = head.image_rows(pixels, release, units), self._set_classes(release.space)
        head.set_params(report=None)  # several fits are one piece of work here
        scores = self._by_others(head, rows, release, units, fit, held)
        network = self._network(pixels, mirrored=head.features_.mirrored)
        self._learn(network, pixels, release, scores, fit)
        both = logarithms(network.predict_proba(pixels[held])), scores[held]
        _, weights = likeliest_sum([each[:, np.argsort(order)] for each in both], release[held])
        self.weights_ = dict(zip(("network", "patches"), weights.tolist(), strict=True))
        self.patches_ = head.fit_head(rows, release, units)
        self.network_ = _further(network)
        self.network_.report = self._epochs(network.epochs, network.n_iter_)
        self._learn(self.network_, pixels, release, scores, np.arange(len(release)))
        self.n_iter_ = network.n_iter_ + self.network_.n_iter_
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803 (scikit-learn's name)
        """Probabilities of the true classes, shape (n, k), in the order of ``classes_``."""
        return softmax(self._scores(X))

    def _scores(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        check_is_fitted(self, "weights_")
        both = (("patches", self.patches_), ("network", self.network_))
        pixels = pixels_of(X)
        return np.asarray(sum(self.weights_[name] * logarithms(model.predict_proba(pixels)) for name, model in both))

    def _by_others(
        self,
        head: PatchClassifier,
        rows: ImageRows,
        release: Release,
        units: Units,
        fit: Int[np.ndarray, "m"],
        held: Int[np.ndarray, "h"],
    ) -> Float[np.ndarray, "n k"]:
        """Scores of each row by heads that were fitted to others: of a row to fit on, to others of these alone."""
        report, scores = self.report or silent, np.empty((len(release), release.space.size))
        for done, (some, rest) in enumerate(_splits(fit, held, units)):
            report("learn", done, _FOLDS + 1)
            head.fit_head(rows.take(some), release[some], units.take(some))
            scores[rest] = rows.features[rest] @ head.coef_.T + head.intercept_
        report("learn", _FOLDS + 1, _FOLDS + 1)
        return scores

    def _network(self, pixels: np.ndarray, *, mirrored: bool) -> TorchClassifier:
        """The network before its first step."""
        channels, side = pixels.shape[1], min(pixels.shape[2:])
        usual = {
            "epochs": min(_MOST, max(_FEWEST, _SEEN // len(pixels))),
            "batch_size": 128,
            "weight_decay": 0.02,
            "augment": augmentation(side // 14, flip=mirrored, cutout=side // 5, turn=10.0, stretch=0.08),
            "channels_last": True,
        }
        network = TorchClassifier(lambda classes: residual(classes, channels), **{**usual, **(self.training or {})})
        network.report = self._epochs(network.epochs, 0)
        return network

    def _epochs(self, epochs: int, before: int) -> Progress | None:
        """Progress of the network over both of its fits, of which the first has so many epochs."""
        report, of = self.report, epochs + _half(epochs)
        return None if report is None else lambda name, done, _: report(name, before + done, of)

    def _learn(
        self,
        network: TorchClassifier,
        pixels: np.ndarray,
        release: Release,
        scores: Float[np.ndarray, "n k"],
        places: Int[np.ndarray, "m"],
    ) -> None:
        """Fit a network to posteriors of some rows."""
        prior = ClassProbabilities(softmax(scores[places]), self.classes_)
        network.fit(pixels[places], release[places], prior=prior, groups=ROWS)


def _further(network: TorchClassifier) -> TorchClassifier:
    """A fitted network that goes on for half as many epochs when it is fitted again."""
    further: TorchClassifier = clone(network)
    folder = None if network.checkpoint is None else Path(network.checkpoint) / "all"
    further.set_params(module=network.module_, epochs=_half(network.epochs), checkpoint=folder)
    return further


def _half(epochs: int) -> int:
    return -(-epochs // 2)


def _splits(
    fit: Int[np.ndarray, "m"], held: Int[np.ndarray, "h"], units: Units
) -> Iterator[tuple[Int[np.ndarray, "_"], Int[np.ndarray, "_"]]]:
    """Rows to fit on and others, which are each of the rows to fit on once, and then those that are held out."""
    for some, rest in folds_of(units.take(fit), _FOLDS):
        yield fit[some], fit[rest]
    yield fit, held


def logarithms(probabilities: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
    """Logarithms of the probabilities of classes, which are scores."""
    return np.asarray(np.log(np.maximum(probabilities, np.finfo(np.float64).tiny)))


def folded_network(model: ImageEnsemble) -> nn.Module:
    """The network of a fitted ensemble, whose outputs are times its weight."""
    module = copy.deepcopy(model.network_.module_).cpu().eval()
    linear: Any = module[-1]
    linear.load_state_dict({name: model.weights_["network"] * each for name, each in linear.state_dict().items()})
    return module
