"""Release the labels of a table on disk in stages, and learn a model from them.

No true label is visible here, only public columns and a curator, who releases labels stage by stage. Needs
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
from scipy.sparse import issparse

from labeldp import _checks
from labeldp._shapes import Float, Int
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

#: Models of columns whose fit never fails: an error after a stage would disclose something about released labels that
#: are not charged for in the end. Descent fails with too few rows for the noise.
_MODELS = ("softmax", "boosting")
_NETWORK = "torch:"
#: Training settings that write nothing to disk and do not let the length of training depend on labels.
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
    """Result of releasing the labels of a table in stages.

    Attributes:
        release: The release and its folder.
        model: The model of the last stage.
        model_file: File of the model.
        stages: Public facts of each stage.
        left_out: Public columns that were not used, with reasons.
        one_release: Effective sample size of a single release of all rows at the same epsilon.
    """

    release: TableRelease
    model: TableModel | NetworkModel
    model_file: Path
    stages: tuple[Stage, ...]
    left_out: Mapping[str, str]
    one_release: float


def model_path(output: Path, model: str, wanted: Path | None = None) -> Path:
    """The file of a model: the given one, or by default beside the folder of the release."""
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
    """Release the labels of a table in stages, each with a prior from those before; save release and model.

    Args:
        source: A CSV or Parquet file, a folder of either, or an IDX file of labels.
        label: The label column.
        space: The declared label space.
        epsilon: Total cost of each row's label.
        output: The folder of the release, which does not exist yet.
        stages: Number of stages; see ``MultiStage``.
        model: ``"softmax"``, ``"boosting"`` or a network such as ``"torch:convolutional"``.
        response: ``"subset"``: labels are sets of classes among a row's candidates, the most informative; ``"prior"``:
            single classes, as in the paper.
        prior: Prior of the first stage: ``"uniform"``; ``"clusters"``, from noisy counts of classes in clusters, which
            cost part of epsilon; or a public file with a column for each class, and one row, or one for each row of
            the table.
        clusters: Number of clusters of that prior; by default, or with ``"auto"``, a number that suits the rows and
            epsilon.
        images: Images of the rows, for a network of images.
        image_column: The kept column that names the image of each row; by default they are in the order of the rows.
        features: The columns to predict from; by default all useful kept ones.
        training: For a network: arguments of ``TorchClassifier`` that replace the defaults. Those by which training
            would write to disk, or depend visibly on labels, before the release is complete are refused.
        model_file: A file that does not exist yet; by default beside the folder.
        keep: The public columns, or None with ``drop``.
        drop: The columns that are not public; all others are declared public.
        budget: Total budget of this label of this data; by default the first release sets it.
        ledger: Path of the ledger; by default beside the source.
        progress: Called with the name of the work, the number of steps done, and the number of all steps.

    Returns:
        The release, and the model of the last stage, which was fitted on all rows.

    Guarantee:
        That of ``MultiStage`` and ``release_with``: epsilon for each row's label, for the release and the model
        together. The model is written after the release is complete.

    Raises:
        InputError: An argument is invalid; nothing was charged, unless the message says so.
        BudgetError: The budget does not allow it; nothing was drawn.
        OutputError: The folder or the model's file exists, or its parent folder does not.
    """
    file = check_model_path(model_path(Path(output), model, Path(model_file) if model_file else None))
    _check_arguments(model, response, prior, images, training or {})
    if clusters is not None and prior != CLUSTERS:
        raise InputError(f"expected a number of clusters only with the prior {CLUSTERS!r}, found the prior {prior!r}")
    probabilities = None if prior in (UNIFORM, CLUSTERS) else _read_prior(Path(prior), space)
    runs: list[tuple[_ColumnStudent | _NetworkStudent, MultiStage]] = []

    def ask(columns: pa.Table, curator: Curator) -> Release:
        if not columns.column_names and images is None:
            raise InputError("expected a public column to learn from, or images, found neither; name some with keep")
        table = columns if columns.column_names else pa.table({"": pa.nulls(len(curator))})  # so that it has rows
        if model.startswith(_NETWORK):
            student: _ColumnStudent | _NetworkStudent = _network(
                model, space.size, table, images, image_column, features, training, progress
            )
        else:
            student = _ColumnStudent.of(model, table, features)
        first = _prior(prior, probabilities, clusters or AUTO, student, len(curator), space, epsilon)
        staged = MultiStage(student.learner, epsilon, stages=stages, response=response, prior=first).fit(  # type: ignore[arg-type]
            student.features, curator
        )
        runs.append((student, staged))
        return staged.release_ if images is None else _with_public_images(staged.release_)

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
    student, staged = runs[0]
    learned = student.model(staged.learner_, done.certificate)
    effective_rows = done.certificate.rows * float(
        np.mean(pair_share(best_response(space, epsilon).channel().membership))
    )
    left_out = MappingProxyType(dict(student.left_out))
    return Staged(done, learned, learned.save(file), staged.stages_, left_out, effective_rows)


def _check_arguments(model: str, response: str, prior: str, images: Images | None, training: Mapping[str, Any]) -> None:
    """Refuse arguments that do not fit together, before a label is read."""
    if others := sorted(set(training) - set(_SETTINGS)):
        raise InputError(
            f"expected settings of training among {', '.join(_SETTINGS)}, found {others[0]!r}, which could disclose "
            "something about labels before their release is complete"
        )
    _checks.among(response, "response", RESPONSES)
    network = model.startswith(_NETWORK)
    if not network and model not in _MODELS:
        raise InputError(f"expected a model among {', '.join(_MODELS)}, or a network ({_NETWORK}...), found {model!r}")
    if images is not None and not network:
        raise InputError(f"expected images only for a network ({_NETWORK}...), found them with {model}; leave them out")
    if prior == CLUSTERS and model == f"{_NETWORK}ratings":
        raise InputError(f"expected another prior for ratings, whose rows cannot be clustered, found {prior!r}")


def _with_public_images(release: Release) -> Release:
    """The release with the assumption that the images are public."""
    if release.certificate is None:
        raise ValueError("expected a release that was charged for")
    assumptions = (*release.certificate.assumptions, "the images of the rows are public")
    return dataclasses.replace(release, certificate=dataclasses.replace(release.certificate, assumptions=assumptions))


@dataclass(frozen=True, eq=False)
class _ColumnStudent:
    """Student model of columns: a scikit-learn pipeline."""

    name: str
    learner: Any
    features: pd.DataFrame
    columns: Mapping[str, str]
    left_out: Mapping[str, str]

    @classmethod
    def of(cls, model: str, table: pa.Table, wanted: Sequence[str] | None) -> _ColumnStudent:
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
class _NetworkStudent:
    """Student model of columns, pairs or images: a network."""

    network: Any
    learner: Any
    features: np.ndarray
    left_out: Mapping[str, str]

    def numbers(self) -> Float[np.ndarray, "n d"]:
        """Inputs of the network, flattened to one vector per row."""
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
) -> _NetworkStudent:
    from labeldp.learning.tables._network import learner_of, network_of  # noqa: PLC0415 (PyTorch is an extra of its own)

    network, inputs, left_out = network_of(model, classes, table, images, image_column=image_column, features=features)
    learner = learner_of(network, training=training, report=progress)
    return _NetworkStudent(network, learner, inputs, left_out)


def _prior(
    prior: str,
    probabilities: np.ndarray | None,
    clusters: str,
    student: _ColumnStudent | _NetworkStudent,
    rows: int,
    space: LabelSpace,
    epsilon: float,
) -> Prior:
    """The prior of the first stage."""
    if probabilities is not None:
        return FixedPrior(probabilities)
    if prior == UNIFORM:
        return UniformPrior()
    return ClusterPrior(_clusters(student, clusters, rows, space, epsilon))


def _clusters(
    student: _ColumnStudent | _NetworkStudent, clusters: str, rows: int, space: LabelSpace, epsilon: float
) -> Int[np.ndarray, "n"]:
    """The cluster of each row, from its public inputs."""
    if clusters != AUTO and not clusters.isdecimal():
        raise InputError(f"expected a number of clusters or {AUTO!r}, found {clusters!r}")
    count = suggested_count(rows, space.size, epsilon) if clusters == AUTO else int(clusters)
    return cluster(student.numbers(), _checks.whole(count, "clusters", 1, rows)).numbers


def _read_prior(path: Path, space: LabelSpace) -> Float[np.ndarray, "*m k"]:
    """Read a prior from a public file with a column for each class, and one row, or one for each row of the table."""
    if not path.is_file():
        raise InputError(f"expected {UNIFORM}, {CLUSTERS} or a file of probabilities as the prior, found {path}")
    try:
        frame = pd.read_parquet(path) if path.suffix in (".parquet", ".pq") else pd.read_csv(path)
        wanted = [str(point) for point in space.points]
        if lacking := sum(name not in frame.columns for name in wanted):
            raise InputError(f"expected a column for each class in the prior {path}, found none for {lacking} of them")
        probabilities = frame[wanted].to_numpy(dtype=np.float64)
    except (OSError, ValueError, TypeError, pa.ArrowException) as problem:
        if isinstance(problem, InputError):
            raise
        raise TableError(f"expected a CSV or Parquet file of probabilities in {path}, found something else") from None
    return np.asarray(probabilities[0] if len(probabilities) == 1 else probabilities)


def _dense(points: Any) -> Float[np.ndarray, "n d"]:
    return np.asarray(points.toarray() if issparse(points) else points, dtype=np.float64)
