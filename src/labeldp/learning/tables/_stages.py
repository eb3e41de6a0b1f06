"""From a table on disk to a release that was drawn in stages, and the model that came of it.

It sees no label: it is given public columns and a curator, who is asked stage by stage. Needs
``pip install 'labeldp[learn]'``, and for networks ``pip install 'labeldp[torch]'``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int
from scipy.sparse import issparse

from labeldp import _checks
from labeldp.errors import InputError, MissingExtraError, TableError
from labeldp.learning.features import check_model_path
from labeldp.mechanisms.randomizers import best_response
from labeldp.privacy import LabelSpace
from labeldp.privacy.channels import pair_share
from labeldp.release import Curator, Release, TableRelease, release_with
from labeldp.release.folder import Certificate

try:
    import pandas as pd

    from labeldp.learning.cells import cluster, suggested_count
    from labeldp.learning.features import Images, columns_of, frame_of, scaling_transformer
    from labeldp.learning.stages import RESPONSES, ClusterPrior, FixedPrior, MultiStage, Prior, Stage, UniformPrior
    from labeldp.learning.tables._classifiers import METHODS, estimators_of
    from labeldp.learning.tables._files import TableModel
except ModuleNotFoundError as missing:
    raise MissingExtraError(f"expected {missing.name}, found none; pip install 'labeldp[learn]'") from None

if TYPE_CHECKING:  # PyTorch is an extra of its own
    from labeldp.learning.torch import NetworkModel

Progress = Callable[[str, int, int], None]

UNIFORM, CLUSTERS, AUTO = "uniform", "clusters", "auto"

#: Models of columns that never refuse to be fitted: one that did, after a stage, would say something of released labels
#: that are not charged for in the end. Descent refuses too few rows for the noise.
_MODELS = ("softmax", "boosting")
_NETWORK = "torch:"
#: Settings of training that keep nothing on disk, and by which no length of it depends on labels.
_SETTINGS = (
    "augment",
    "averaging",
    "batch_size",
    "channels_last",
    "correction",
    "device",
    "epochs",
    "learning_rate",
    "mixup",
    "momentum",
    "optimizer",
    "precision",
    "schedule",
    "seed",
    "weight_decay",
)
_ENDINGS: Mapping[bool, str] = {False: ".skops", True: ".safetensors"}


@dataclass(frozen=True, eq=False)
class Staged:
    """What came of a table whose labels were asked for in stages.

    Attributes:
        release: What was released, and where it is.
        model: The model of the last stage.
        model_file: Where it is kept.
        stages: What is known of each stage.
        left_out: Public columns that were not used, and why.
        one_release: What one release of all rows would have been worth, in clean rows, at the same epsilon.
    """

    release: TableRelease
    model: TableModel | NetworkModel
    model_file: Path
    stages: tuple[Stage, ...]
    left_out: Mapping[str, str]
    one_release: float


def model_path(output: Path, model: str, wanted: Path | None = None) -> Path:
    """Where a model goes: beside the folder of the release, unless another place is wanted."""
    return wanted or output.with_name(f"{output.name}{_ENDINGS[model.startswith(_NETWORK)]}")


def learn_in_stages(
    source: str | Path,
    label: str,
    space: LabelSpace,
    epsilon: float,
    output: str | Path,
    *,
    stages: int = 2,
    model: str = "softmax",
    response: str = "subset",
    prior: str = UNIFORM,
    clusters: str | None = None,
    images: Images | None = None,
    image_column: str | None = None,
    features: Sequence[str] | None = None,
    training: Mapping[str, Any] | None = None,
    model_file: str | Path | None = None,
    keep: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    budget: float | tuple[float, float] | None = None,
    ledger: str | Path | None = None,
    progress: Progress | None = None,
) -> Staged:
    """Ask for the labels of a table in stages, each with the prior that was learned from those before; keep both.

    Args:
        source: A CSV or Parquet file, a folder of either, or an IDX file of labels.
        label: The label column.
        space: The declared label space.
        epsilon: What the whole costs each row's label.
        output: The folder of the release, which does not exist yet.
        stages: How many stages; see ``MultiStage``.
        model: ``"softmax"``, ``"boosting"`` or a network such as ``"torch:convolutional"``.
        response: ``"subset"``: labels are sets of classes among a row's candidates, which teach most; ``"prior"``:
            single classes, as the authors of stages have them.
        prior: Of the first stage: ``"uniform"``; ``"clusters"``, from noisy counts of classes in clusters, which a
            trusted curator is asked for with part of epsilon; or a public file with a column for each class, and one
            row, or one for each of the table.
        clusters: How many, with that prior; by default, or ``"auto"``, as many as go with the rows and epsilon.
        images: For a network of images: those of the rows.
        image_column: The kept column that names the image of each row; by default they are in the order of the rows.
        features: The columns to predict from; by default all kept ones that can be of use.
        training: For a network: arguments of ``TorchClassifier`` to use in place of the usual. Those by which something
            of the training would be on disk or be told before the release stands are refused.
        model_file: A file that does not exist yet; by default beside the folder.
        keep: The public columns, or None with ``drop``.
        drop: The columns that are not public; all others are declared public.
        budget: The most that may be spent on this label of this data; by default the first release sets it.
        ledger: Where charges are kept; by default beside the source.
        progress: Called with the name of the work, what is done, and what there is in all.

    Returns:
        The release, and the model of the last stage, which was fitted on all rows.

    Guarantee:
        That of ``MultiStage`` and ``release_with``: epsilon for each row's label, for the release and the model
        together. The model is written after the release stands.

    Raises:
        InputError: Something does not fit; nothing was charged, unless it says so.
        BudgetError: The budget does not allow it; nothing was drawn.
        OutputError: The folder or the model's file exists, or there is no folder to put it in.
    """
    file = check_model_path(model_path(Path(output), model, Path(model_file) if model_file else None))
    _check(model, response, prior, images, training or {})
    if clusters is not None and prior != CLUSTERS:
        raise InputError(f"expected a number of clusters with the prior {CLUSTERS!r} alone, found the prior {prior!r}")
    given = None if prior in (UNIFORM, CLUSTERS) else _probabilities(Path(prior), space)
    made: list[tuple[_Columns | _Network, MultiStage]] = []

    def ask(columns: pa.Table, curator: Curator) -> Release:
        if not columns.column_names and images is None:
            raise InputError("expected a public column to learn from, or images, found neither; name some with keep")
        table = columns if columns.column_names else pa.table({"": pa.nulls(len(curator))})  # so that it has rows
        if model.startswith(_NETWORK):
            student: _Columns | _Network = _network(
                model, space.size, table, images, image_column, features, training, progress
            )
        else:
            student = _Columns.of(model, table, features)
        first = _prior(prior, given, clusters or AUTO, student, len(curator), space, epsilon)
        staged = MultiStage(student.learner, epsilon, stages=stages, response=response, prior=first).fit(  # type: ignore[arg-type]
            student.features, curator
        )
        made.append((student, staged))
        return staged.release_ if images is None else _of_images(staged.release_)

    done = release_with(
        source,
        label,
        space,
        epsilon,
        output,
        ask,
        keep=keep,
        drop=drop,
        budget=budget,
        ledger=ledger,
        progress=progress,
    )
    student, staged = made[0]
    kept = student.model(staged.learner_, done.certificate)
    worth = done.certificate.rows * float(np.mean(pair_share(best_response(space, epsilon).channel().membership)))
    left_out = MappingProxyType(dict(student.left_out))
    return Staged(done, kept, kept.save(file), staged.stages_, left_out, worth)


def _check(model: str, response: str, prior: str, images: Images | None, training: Mapping[str, Any]) -> None:
    """Refuse what does not fit together before a label is read."""
    if others := sorted(set(training) - set(_SETTINGS)):
        raise InputError(
            f"expected settings of training among {', '.join(_SETTINGS)}, found {others[0]!r}: what is learned from "
            "labels must not be kept, or be told, before their release stands"
        )
    if response not in RESPONSES:
        raise InputError(f"expected response among {', '.join(RESPONSES)}, found {response!r}")
    network = model.startswith(_NETWORK)
    if not network and model not in _MODELS:
        raise InputError(f"expected a model among {', '.join(_MODELS)}, or a network ({_NETWORK}...), found {model!r}")
    if images is not None and not network:
        raise InputError(
            f"expected images for a network ({_NETWORK}...) alone, found them with {model}; leave them out"
        )
    if prior == CLUSTERS and model == f"{_NETWORK}ratings":
        raise InputError(
            f"expected another prior for ratings, whose rows lie in no space to find clusters in, found {prior!r}"
        )


def _of_images(release: Release) -> Release:
    """The release with what candidates of rows were found in."""
    if release.certificate is None:
        raise ValueError("expected a release that was charged for")
    assumptions = (*release.certificate.assumptions, "the images of the rows are public")
    return dataclasses.replace(release, certificate=dataclasses.replace(release.certificate, assumptions=assumptions))


@dataclass(frozen=True, eq=False)
class _Columns:
    """A scikit-learn pipeline on columns."""

    name: str
    learner: Any
    features: pd.DataFrame
    columns: Mapping[str, str]
    left_out: Mapping[str, str]

    @classmethod
    def of(cls, model: str, table: pa.Table, wanted: Sequence[str] | None) -> _Columns:
        columns, left_out = columns_of(table, wanted, None)
        estimator = estimators_of(columns, model, METHODS[model][0])[0]
        return cls(model, estimator, frame_of(table, columns), MappingProxyType(columns), left_out)

    def numbers(self) -> Float[np.ndarray, "n d"]:
        """Columns as scaled numbers."""
        return _dense(scaling_transformer(self.columns).fit_transform(self.features))

    def model(self, learner: Any, certificate: Certificate) -> TableModel:
        """The model of a fitted pipeline."""
        return TableModel(learner, self.columns, self.name, METHODS[self.name][0], certificate)


@dataclass(frozen=True, eq=False)
class _Network:
    """A network on columns, pairs or images."""

    network: Any
    learner: Any
    features: np.ndarray
    left_out: Mapping[str, str]

    def numbers(self) -> Float[np.ndarray, "n d"]:
        """What the network takes, each row as one line."""
        white = 255.0 if self.features.dtype == np.uint8 else 1.0
        return np.asarray(self.features.reshape(len(self.features), -1) / white)

    def model(self, learner: Any, certificate: Certificate) -> NetworkModel:
        """The model of a trained network."""
        from labeldp.learning.tables._network import trained_model  # noqa: PLC0415 (PyTorch is an extra of its own)

        return trained_model(self.network, learner, certificate)


def _network(
    model: str,
    classes: int,
    table: pa.Table,
    images: Images | None,
    image_column: str | None,
    features: Sequence[str] | None,
    training: Mapping[str, Any] | None,
    progress: Progress | None,
) -> _Network:
    from labeldp.learning.tables._network import learner_of, network_of  # noqa: PLC0415 (PyTorch is an extra of its own)

    network, given, left_out = network_of(model, classes, table, images, image_column=image_column, features=features)
    learner = learner_of(network, training=training, report=progress)
    return _Network(network, learner, given, left_out)


def _prior(
    prior: str,
    given: np.ndarray | None,
    clusters: str,
    student: _Columns | _Network,
    rows: int,
    space: LabelSpace,
    epsilon: float,
) -> Prior:
    """What is known before the first stage."""
    if given is not None:
        return FixedPrior(given)
    if prior == UNIFORM:
        return UniformPrior()
    return ClusterPrior(_clusters(student, clusters, rows, space, epsilon))


def _clusters(
    student: _Columns | _Network, clusters: str, rows: int, space: LabelSpace, epsilon: float
) -> Int[np.ndarray, "n"]:
    """The cluster of each row, found in what is public of it."""
    if clusters != AUTO and not clusters.isdecimal():
        raise InputError(f"expected a number of clusters or {AUTO!r}, found {clusters!r}")
    count = suggested_count(rows, space.size, epsilon) if clusters == AUTO else int(clusters)
    return cluster(student.numbers(), _checks.whole(count, "clusters", 1, rows)).numbers


def _probabilities(path: Path, space: LabelSpace) -> Float[np.ndarray, "*m k"]:
    """The prior in a public file: a column for each class; one row, or one for each of the table."""
    if not path.is_file():
        raise InputError(f"expected {UNIFORM}, {CLUSTERS} or a file of probabilities as the prior, found {path}")
    try:
        frame = pd.read_parquet(path) if path.suffix in (".parquet", ".pq") else pd.read_csv(path)
        wanted = [str(point) for point in space.points]
        if lacking := sum(name not in frame.columns for name in wanted):
            raise InputError(f"expected a column for each class in the prior {path}, found none for {lacking} of them")
        found = frame[wanted].to_numpy(dtype=np.float64)
    except (OSError, ValueError, TypeError, pa.ArrowException) as problem:
        if isinstance(problem, InputError):
            raise
        raise TableError(f"expected a CSV or Parquet file of probabilities in {path}, found something else") from None
    return np.asarray(found[0] if len(found) == 1 else found)


def _dense(points: Any) -> Float[np.ndarray, "n d"]:
    return np.asarray(points.toarray() if issparse(points) else points, dtype=np.float64)
