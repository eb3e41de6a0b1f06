"""Train a network on the folder of a release, with or without images."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp import _checks
from labeldp._progress import Progress
from labeldp.errors import InputError
from labeldp.learning.choice import Fitted, fit_in_units, folds_of
from labeldp.learning.features import ColumnEncoder, PairEncoder, PixelEncoder, columns_of, frame_of, without_calendar
from labeldp.learning.images import ImageEncoder, KernelHead, PatchClassifier, PatchFeatures, PatchScores
from labeldp.learning.inference import calibrated_sets
from labeldp.learning.sklearn import Mixture, UnguardedFitWarning, held_out_classes
from labeldp.learning.tables._learn import Learned, ModelChoice, merged_classes
from labeldp.learning.tables._model import FOLDS, chosen_rows, enough_rows, rows_apart, units_in, units_of
from labeldp.learning.tables._network_model import (
    ENCODER,
    ENCODERS,
    PATCHES,
    PREFIX,
    Network,
    NetworkModel,
    is_network,
    methods_of,
    model_of,
)
from labeldp.learning.tables._predict import image_names
from labeldp.learning.tables._scores import class_scores
from labeldp.privacy import ClassProbabilities
from labeldp.release import Release, is_answer, public_columns
from labeldp.release.folder import Certificate, group_column

_ENSEMBLE = "ensemble"
_TENTH = 10
_JUDGED_BY = "released labels of a tenth of the rows, for a model that was fitted on the others"


def network_of(
    choice: ModelChoice, classes: int, table: pa.Table, unit: str | None = None, report: Progress | None = None
) -> tuple[Network, np.ndarray, dict[str, str]]:
    """A network for the rows of a table, the inputs of each row, and the columns left out. No label is read.

    Args:
        choice: The model, whose name is ``"patches"``, or ``"torch:"`` and another one of ``ENCODERS``; and its inputs.
        classes: Number of classes.
        table: Public columns.
        unit: The column of privacy units, which is not an input unless named in ``features``.
        report: Called with the name of the work, the number of images done, and the number of all images.

    Raises:
        InputError: There is no such model, its inputs are others, or a column is missing.
    """
    model, images, features = choice.model, choice.images, choice.features
    name = model.removeprefix(PREFIX)
    if name not in ENCODERS or not is_network(model):
        raise InputError(f"expected a model among {', '.join(map(model_of, ENCODERS))}, found {model!r}")
    kind = ENCODERS[name]
    if choice.image_column is not None and images is None:
        raise InputError(
            f"expected images that the column {choice.image_column!r} names, found none; name them (--images)"
        )
    if (images is not None) != (kind is PixelEncoder):
        found = "images" if images is not None else "none"
        raise InputError(f"expected images for a model of images and for no other (--images), found {found}")
    if (choice.encoder is not None) != (name == ENCODER):
        raise InputError(
            f"expected an encoder (--encoder) with the model {ENCODER!r} and with no other, found {model!r}"
            f"{' with one' if choice.encoder is not None else ' without one'}"
        )
    if images is not None:
        if features is not None:
            raise InputError("expected no features besides images, found some; leave them out")
        pixels = images.of_rows(table.num_rows, image_names(table, choice.image_column, images))
        encoder: Any = PixelEncoder.of(pixels)
        if name in (PATCHES, ENCODER, _ENSEMBLE):  # their contrast is theirs to scale
            encoder = replace(encoder, mean=(0.0,) * len(encoder.mean), deviation=(1 / 255,) * len(encoder.mean))
        if choice.encoder is not None:
            encoder, pixels = replace(encoder, card=choice.encoder.card), choice.encoder(pixels, report)
        return Network(name, classes, encoder, {}), pixels, {}
    if kind is PairEncoder and features is None:
        raise InputError(
            "expected two columns for ratings, users and items, found none; name both (--features user,item)"
        )
    columns, left_out = columns_of(table, features, unit, texts=False)
    columns = without_calendar(columns)
    frame = frame_of(table, columns)
    encoder = PairEncoder.of(frame, columns) if kind is PairEncoder else ColumnEncoder.of(frame, columns)
    return Network(name, classes, encoder, {}), encoder.features(frame, None), left_out


def learner_of(network: Network, choice: ModelChoice, report: Progress | None = None) -> Any:
    """An unfitted learner of a network, by default with settings that suit it.

    Raises:
        InputError: There is no such method, or the network does not take a method, or settings of training.
    """
    known = methods_of(network.name)
    alone = network.name in (PATCHES, ENCODER)
    chosen = not alone and network.name != _ENSEMBLE
    if (choice.training and alone) or (not chosen and choice.method not in (None, *known)):
        options = "no method and no options of training" if alone else "no method"
        raise InputError(f"expected {options} with {choice.model}, found some; leave them out")
    if alone:
        return PatchClassifier(report=report)
    from labeldp.learning import torch as networks  # noqa: PLC0415 (PyTorch is an extra of its own)

    if chosen:
        name, encoder, sizes = network.name, network.encoder, network.arguments
        method: Any = _checks.among(choice.method or known[0], "a method of networks", known)
        return networks.TorchClassifier(
            lambda: networks.module_of(name, encoder, sizes),
            method=method,
            report=report,
            **{**networks.TRAINING[name], **choice.training},
        )
    return networks.ImageEnsemble(training=choice.training, report=report)


def trained_model(
    network: Network,
    learner: Any,
    certificate: Certificate,
    calibrator: Mixture | None = None,
    image_encoder: ImageEncoder | None = None,
) -> NetworkModel:
    """The trained network of a learner, with the certificate of its release."""
    order = np.argsort(certificate.space.sorted_codes)
    if not network.needs_torch:
        scores: Any = (PatchScores if network.name == PATCHES else KernelHead).of(learner, order)
    else:
        from labeldp.learning.torch import NetworkScores  # noqa: PLC0415 (PyTorch is an extra of its own)

        of_ensemble = network.name == _ENSEMBLE
        scores = NetworkScores.of_ensemble(learner, order) if of_ensemble else NetworkScores(learner.module_.cpu())
    method = getattr(learner, "method", "likelihood")
    network = replace(network, sizes=scores.sizes)
    return NetworkModel(network, scores, method, certificate, calibrator, image_encoder=image_encoder)


def learn_network(directory: str | Path, choice: ModelChoice, progress: Progress | None = None) -> Learned:
    """Train a network on a release, score it on a held-out tenth of the rows, and train it once more on all.

    Args:
        directory: The folder of a release.
        choice: The network, its inputs and its training.
        progress: Called with the name of the work, the number of epochs done, and the number of all epochs.

    Returns:
        The model, trained on all rows, with the calibration and the scores of one that was trained on nine tenths of
        them, by released labels of the others; where these labels do not show that it helps it predicts class shares.
        No row is scored by a calibration that was fitted on it.

    Guarantee:
        Whatever is learned from a release is covered by the release's guarantee, at no further cost.

    Raises:
        VerificationError: The folder does not agree with its certificate.
        InputError: There is no such model, method or column, or there is not an image for each row.
    """
    methods_of(choice.model.removeprefix(PREFIX))  # PyTorch is missing before anything is read
    if is_answer(directory):
        raise InputError("expected released labels for a network, found the answer to a query; learn with softmax")
    release = Release.load(directory)
    table = public_columns(directory, release.certificate)
    certificate = enough_rows(release)
    unit = group_column(certificate)
    table = table if table.column_names else pa.table({"": pa.nulls(len(release))})  # so that it has rows
    network, inputs, left_out = network_of(choice, release.space.size, table, unit, progress)
    some = np.arange(len(release))
    if choice.rows is not None:
        some = chosen_rows(certificate, units_in(table, unit), choice.rows)
        enough_rows(release[some])
    every, told = units_of(table, release, lambda: inputs.reshape(len(inputs), -1))
    limits = choice.coverage, choice.coverage_by
    kept, apart = (some[part] for part in rows_apart(release[some], every.take(some), told, *limits))
    fit, held = (kept[part] for part in folds_of(every.take(kept), _TENTH)[0])

    def trained(rows: np.ndarray) -> Any:
        with warnings.catch_warnings():  # the held-out tenth guards against noise
            warnings.simplefilter("ignore", UnguardedFitWarning)
            learner = learner_of(network, choice, progress)
            return fit_in_units(learner, inputs[rows], release[rows], every.take(rows))

    learner = trained(fit)
    judged, units, calibrator = release[held], every.take(held), None
    predicted = ClassProbabilities.of(learner, inputs[held]).in_order(release.space.points)
    if choice.method != "plain" and units.count >= FOLDS:
        fitted, parts = Fitted(learner, predicted, varies=True), folds_of(units, FOLDS)
        problem = held_out_classes(judged, [fitted], np.arange(len(held)), parts, units, doubt=True)
        calibrator, predicted = problem.best(), problem.cross_fitted(parts)
    if calibrator is None or not calibrator.is_constant:
        learner = trained(kept)
    model = trained_model(network, learner, certificate, calibrator, choice.encoder)
    if choice.coverage is not None:
        chances = ClassProbabilities.of(learner, inputs[apart]).in_order(release.space.points)
        chances = chances if calibrator is None else calibrator(chances[None])
        named = ClassProbabilities(chances, release.space.points)
        sets = calibrated_sets(
            release[apart], named, 1.0 - choice.coverage, by=choice.coverage_by, units=every.take(apart)
        )
        model = replace(model, sets=sets)
    return Learned(
        model,
        class_scores(judged, predicted, units=units) if told else None,
        MappingProxyType(left_out),
        "; ".join([_setting(learner), *([] if calibrator is None else [calibrator.setting()])]),
        _JUDGED_BY,
        rows=None if choice.rows is None and choice.coverage is None else len(kept),
        merged=merged_classes(release[some]),
        mixed=not told,
    )


def _setting(learner: Any) -> str:
    """The settings that were chosen in a fit, in words."""
    if isinstance(learner, PatchClassifier):
        return _named(learner)
    if hasattr(learner, "patches_"):
        return f"{_named(learner.patches_)}; {_beside(learner)}"
    return f"{learner.n_iter_} epochs"


def _named(learner: PatchClassifier) -> str:
    """The features, and heads by number of components with their weights."""
    kind = f"{learner.features_.components_.shape[1]} components of features"
    if isinstance(learner.features_, PatchFeatures):
        kind = "patches, of images and their mirror images" if learner.features_.mirrored else "patches"
    return f"{kind}; heads of components, with their weights: {_weights(learner.weights_)}"


def _beside(learner: Any) -> str:
    """The parts of an ensemble with their weights."""
    return f"a network of {learner.n_iter_} epochs beside them; weights: {_weights(learner.weights_)}"


def _weights(found: Mapping[Any, float]) -> str:
    return ", ".join(f"{name} ({weight:.2f})" for name, weight in found.items() if weight > 0.0)
