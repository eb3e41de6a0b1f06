"""From the folder of a release, with or without images, to a network in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp.errors import InputError
from labeldp.learning.features import ColumnEncoder, Images, PairEncoder, PixelEncoder, columns_of, frame_of
from labeldp.learning.metrics import scores
from labeldp.learning.tables._evaluate import image_names
from labeldp.learning.tables._folds import Progress, enough_rows, one_part, unit_of, units_in
from labeldp.learning.tables._learn import Learned
from labeldp.learning.torch import ENCODERS, NETWORK_METHODS, PREFIX, Network, NetworkModel, TorchClassifier
from labeldp.release import Release, is_answer, public_columns
from labeldp.release.folder import Certificate

_JUDGED_BY = "released labels of a tenth of the rows, which it was not fitted on"
#: How each network is trained unless something else is asked for. The papers' are those of Ghazi et al. 2021, B.
_TRAINING: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "convolutional": {"epochs": 12, "learning_rate": 0.01, "optimizer": "adamw", "channels_last": True},
        "inception": {"epochs": 40, "optimizer": "sgd", "learning_rate": 0.02, "channels_last": True},
        "resnet18": {
            "epochs": 200,
            "batch_size": 512,
            "optimizer": "sgd",
            "learning_rate": 0.4,
            "schedule": "piecewise",
        },
        "ratings": {
            "epochs": 12,
            "batch_size": 512,
            "learning_rate": 0.01,
            "optimizer": "adam",
            "weight_decay": 3e-5,
        },
        "mlp": {"epochs": 20, "batch_size": 256, "learning_rate": 2e-3, "optimizer": "adamw"},
    }
)


def network_of(
    model: str,
    classes: int,
    table: pa.Table,
    images: Images | None = None,
    *,
    image_column: str | None = None,
    features: Sequence[str] | None = None,
    unit: str | None = None,
) -> tuple[Network, np.ndarray, dict[str, str]]:
    """A network for the rows of a table, what it takes of each row, and why columns are left out. No label is seen.

    Args:
        model: ``"torch:"`` and a name of ``NETWORKS``.
        classes: Number of classes.
        table: Public columns.
        images: For a model of images: those of the rows.
        image_column: The column that names the image of each row; by default they are in the order of the rows.
        features: The columns that a model of columns takes; for ratings, who and what.
        unit: The column that tells units apart, which is no feature unless it is named.

    Raises:
        InputError: There is no such model, it takes something else, or a column is missing.
    """
    takes = ENCODERS.get(model.removeprefix(PREFIX))
    if takes is None or not model.startswith(PREFIX):
        known = ", ".join(PREFIX + name for name in ENCODERS)
        raise InputError(f"expected a model among {known}, found {model!r}")
    if image_column is not None and images is None:
        raise InputError(f"expected images that the column {image_column!r} names, found none; name them (--images)")
    if (images is not None) != (takes is PixelEncoder):
        found = "images" if images is not None else "none"
        raise InputError(f"expected images for a model of images and for no other (--images), found {found}")
    if images is not None:
        if features is not None:
            raise InputError("expected no features besides images, found some; leave them out")
        pixels = images.of_rows(table.num_rows, image_names(table, image_column))
        encoder: Any = PixelEncoder.of(pixels)
        return Network(model.removeprefix(PREFIX), classes, encoder, {}), pixels, {}
    if takes is PairEncoder and features is None:
        raise InputError("expected two columns for ratings, who and what, found none; name both (--features user,item)")
    columns, left_out = columns_of(table, features, unit)
    frame = frame_of(table, columns)
    encoder = PairEncoder.of(frame, columns) if takes is PairEncoder else ColumnEncoder.of(frame, columns)
    return Network(model.removeprefix(PREFIX), classes, encoder, {}), encoder.features(frame, None), left_out


def learner_of(
    network: Network,
    method: str | None = None,
    training: Mapping[str, Any] | None = None,
    report: Progress | None = None,
) -> TorchClassifier:
    """A learner that trains a network in the way that suits it, unless something else is asked for.

    Args:
        network: What to train.
        method: By default the first of ``NETWORK_METHODS``.
        training: Arguments of ``TorchClassifier`` to use in place of the usual.
        report: PriorResult of each epoch.

    Raises:
        InputError: There is no such method.
    """
    if method is not None and method not in NETWORK_METHODS:
        raise InputError(f"expected a method of networks among {', '.join(NETWORK_METHODS)}, found {method!r}")
    return TorchClassifier(
        lambda: network.module(),  # noqa: PLW0108 (a function is copied as it is, a method with what it is of)
        method=method or NETWORK_METHODS[0],
        report=report,
        **{**_TRAINING[network.name], **(training or {})},
    )


def trained_model(network: Network, learner: TorchClassifier, certificate: Certificate) -> NetworkModel:
    """What a learner made of a network, and the certificate of what it learned from."""
    return NetworkModel(network, learner.module_.cpu(), learner.method, certificate)


def learn_network(
    directory: str | Path,
    *,
    model: str,
    images: Images | None = None,
    image_column: str | None = None,
    method: str | None = None,
    features: Sequence[str] | None = None,
    training: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Learned:
    """Train a network on a release, and say how good it is on a tenth of the rows, which it was not trained on.

    Args:
        directory: The folder of a release.
        model: ``"torch:convolutional"``, ``"torch:inception"`` or ``"torch:resnet18"`` for images,
            ``"torch:mlp"`` for columns, ``"torch:ratings"`` for pairs of two columns.
        images: For a model of images: those of the rows.
        image_column: The public column that names the image of each row; by default they are in the order of rows.
        method: ``"likelihood"`` by default; see ``TorchClassifier``.
        features: The columns to predict from; for ratings, who and what.
        training: Arguments of ``TorchClassifier`` to use in place of the usual, such as ``{"epochs": 5}``.
        progress: Called with the name of the work, the epochs done, and the epochs in all.

    Returns:
        The model, and its scores on released labels of rows that it did not see.

    Guarantee:
        Whatever is learned from a release is covered by the release's guarantee, at no further cost.

    Raises:
        VerificationError: The folder and its certificate do not agree.
        InputError: There is no such model, method or column, or there is not an image for each row.
    """
    if is_answer(directory):
        raise InputError("expected released labels for a network, found the answer to a query; learn with softmax")
    release, table = Release.load(directory), public_columns(directory)
    certificate = enough_rows(release)
    unit = unit_of(certificate)
    table = table if table.column_names else pa.table({"": pa.nulls(len(release))})  # so that it has rows
    network, given, left_out = network_of(
        model, release.space.size, table, images, image_column=image_column, features=features, unit=unit
    )
    fit, held = one_part(len(release), units_in(table, unit))
    learner = learner_of(network, method, training, progress).fit(given[fit], release[fit])
    judged = scores(release[held], learner.predict_proba(given[held]))
    return Learned(
        trained_model(network, learner, certificate),
        judged,
        MappingProxyType(left_out),
        f"{learner.n_iter_} epochs",
        _JUDGED_BY,
    )
