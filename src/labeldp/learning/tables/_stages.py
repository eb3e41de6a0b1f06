"""Release the labels of a table on disk in stages, and learn a model from them.

No true label is visible here, only public columns and a curator, who releases labels stage by stage. Needs
the extra ``learn``, and for networks the extra ``torch``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.pipeline import Pipeline

from labeldp import _checks
from labeldp._progress import Progress, silent
from labeldp.errors import InputError, TableError
from labeldp.learning.cells import cluster, suggested_count
from labeldp.learning.features import columns_of, frame_of, scaling_transformer
from labeldp.learning.files import ENDING, check_model_path
from labeldp.learning.ratings import FactorizationClassifier
from labeldp.learning.stages import (
    RESPONSES,
    ClusterPrior,
    FixedPrior,
    MultiStage,
    Prior,
    Stage,
    UniformPrior,
    resting_on,
)
from labeldp.learning.tables._families import CLASSES, RATINGS
from labeldp.learning.tables._learn import ModelChoice
from labeldp.learning.tables._network import learner_of, network_of, trained_model
from labeldp.learning.tables._network_model import PREFIX, NetworkModel, is_network, methods_of
from labeldp.learning.tables._table_model import TableModel
from labeldp.mechanisms.randomizers import best_response
from labeldp.privacy import ClassProbabilities, LabelSpace
from labeldp.privacy.channels import pair_share
from labeldp.release import Curator, Release, TableRelease, release_with
from labeldp.release.folder import Certificate
from labeldp.release.tables import Place, TableFile, disk_path, place_of

#: Assumption of a release whose stages learn from images.
_PUBLIC_IMAGES = "the images of the rows are public"
UNIFORM, CLUSTERS, AUTO = "uniform", "clusters", "auto"

#: Models of columns whose fit never fails: an error after a stage would disclose something about its labels, and lose
#: what they cost. Descent fails with too few rows for the noise.
_MODELS = ("softmax", "boosting", RATINGS)
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


@dataclass(frozen=True, eq=False)
class StagePlan:
    """The stages of a release, and what is learned after each.

    Attributes:
        choice: The model, ``"softmax"``, ``"boosting"``, ``"factorization"`` (ratings, whose first two columns are
            users and items) or a network such as ``"torch:convolutional"``, and its columns or images. Settings of a
            network by which training would write to disk, or depend visibly on labels, before the release is complete
            are refused.
        stages: Number of stages; see ``MultiStage``.
        response: ``"subset"``: labels are sets of classes among a row's candidates, the most informative; ``"prior"``:
            single classes, as in the paper; ``"groups"``: groups of adjacent classes, for ordered ones.
        prior: Prior of the first stage: ``"uniform"``; ``"clusters"``, from noisy counts of classes in clusters, which
            cost part of epsilon; or a public file with a column for each class, and one row, or one for each row of
            the table.
        clusters: Number of clusters of that prior; by default, or with ``"auto"``, a number that suits the rows and
            epsilon.
        model_file: A file that does not exist yet; by default beside the folder of the release, if that is on a disk.
    """

    choice: ModelChoice = ModelChoice("softmax")  # noqa: RUF009 (frozen)
    stages: int = 2
    response: str = "subset"
    prior: str = UNIFORM
    clusters: str | None = None
    model_file: Path | None = None

    def check(self) -> None:
        """Refuse parts that do not fit together, before a label is read."""
        name, network = self.choice.model, is_network(self.choice.model)
        if others := sorted(set(self.choice.training) - set(_SETTINGS)):
            raise InputError(
                f"expected settings of training among {', '.join(_SETTINGS)}, found {others[0]!r}, which could "
                "disclose something about labels before their release is complete"
            )
        _checks.among(self.response, "response", RESPONSES)
        if network:
            methods_of(name.removeprefix(PREFIX))  # PyTorch is missing before a label is read
        if not network and name not in _MODELS:
            raise InputError(f"expected a model among {', '.join(_MODELS)}, or a network ({PREFIX}...), found {name!r}")
        if self.choice.images is not None and not network:
            raise InputError(
                f"expected images only for a network ({PREFIX}...), found them with {name}; leave them out"
            )
        if name == RATINGS and self.choice.features is None:
            raise InputError(
                f"expected the columns of users and items as the first features with the model {RATINGS}, found none; "
                "name them (--features user,item,...)"
            )
        if self.prior == CLUSTERS and name in (RATINGS, f"{PREFIX}ratings"):
            raise InputError(f"expected another prior for ratings, whose rows cannot be clustered, found {CLUSTERS!r}")
        if self.clusters is not None and self.prior != CLUSTERS:
            raise InputError(
                f"expected a number of clusters only with the prior {CLUSTERS!r}, found the prior {self.prior!r}"
            )

    def file(self, output: Place) -> Path:
        """The file of the model, on a disk."""
        path = self.model_file or output.with_name(f"{output.name}{ENDING}")
        if not isinstance(path, Path):
            raise InputError(f"expected --model-file, a file on a disk, with an output at {output}, found none")
        return check_model_path(path)


_TWO_STAGES = StagePlan()


def learn_in_stages(
    source: str | Place | TableFile,
    label: str,
    space: LabelSpace,
    epsilon: float,
    output: str | Place,
    plan: StagePlan = _TWO_STAGES,
    progress: Progress | None = None,
    **declared: Any,
) -> Staged:
    """Release the labels of a table in stages, each with a prior from those before; save release and model.

    Args:
        source: A CSV or Parquet file, a folder of either, or an IDX file of labels; a path, or an address.
        label: The label column.
        space: The declared label space.
        epsilon: Total cost of each row's label.
        output: The folder of the release, which does not exist yet: a path, or an address.
        plan: The stages, and what is learned; by default two stages of softmax regression.
        progress: Called with the name of the work, the number of steps done, and the number of all steps.
        declared: The public columns (``keep`` or ``drop``), the ``budget``, the ``ledger``, ``unit``,
            ``other_people`` and ``only_new``, as ``release_with`` takes them.

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
    file = plan.file(place_of(output))
    plan.check()
    given = None if plan.prior in (UNIFORM, CLUSTERS) else _read_prior(disk_path(plan.prior), space)
    runs: list[tuple[_Student, MultiStage]] = []

    def ask(columns: pa.Table, curator: Curator) -> Release:
        public_images = plan.choice.images is not None
        if not columns.column_names and not public_images:
            raise InputError("expected a public column to learn from, or images, found neither; name some with keep")
        table = columns if columns.column_names else pa.table({"": pa.nulls(len(curator))})  # so that it has rows
        student = _student(plan.choice, table, space.size, progress)
        first = given or _first_prior(plan, student, curator, epsilon)
        staged = MultiStage(
            student.learner,
            epsilon,
            stages=plan.stages,
            response=plan.response,  # type: ignore[arg-type]
            prior=first,
        ).fit(student.features, curator, report=progress or silent)
        runs.append((student, staged))
        return resting_on(staged.release_, (_PUBLIC_IMAGES,)) if public_images else staged.release_

    done = release_with(source, label, space, epsilon, output, ask, progress=progress, **declared)
    student, staged = runs[0]
    learned = student.model(staged.learner_, done.certificate)
    effective_rows = done.certificate.rows * float(
        np.mean(pair_share(best_response(space, epsilon).channel().membership))
    )
    left_out = MappingProxyType(dict(student.left_out))
    return Staged(done, learned, learned.save(file), staged.stages_, left_out, effective_rows)


@dataclass(frozen=True, eq=False)
class _Student:
    """The model of each stage.

    Attributes:
        features: What it is fitted on.
        learner: The unfitted learner.
        left_out: Public columns that are not used, with reasons.
        points: The features as numbers, one vector per row.
        model: The model to save, from the fitted learner and the certificate.
    """

    features: Any
    learner: Any
    left_out: Mapping[str, str]
    points: Callable[[], np.ndarray]
    model: Callable[[Any, Certificate], TableModel | NetworkModel]


def _student(choice: ModelChoice, table: pa.Table, classes: int, progress: Progress | None) -> _Student:
    if is_network(choice.model):
        network, inputs, left_out = network_of(choice, classes, table, report=progress)
        white = 255.0 if inputs.dtype == np.uint8 else 1.0
        learner = learner_of(network, choice, progress)
        fitted = partial(trained_model, network, image_encoder=choice.encoder)
        return _Student(inputs, learner, left_out, lambda: inputs.reshape(len(inputs), -1) / white, fitted)
    columns, left_out = columns_of(table, choice.features, None)
    frame, method = frame_of(table, columns), CLASSES.methods[choice.model][0]

    def model(fitted: Any, certificate: Certificate) -> TableModel:
        return TableModel(fitted, MappingProxyType(columns), choice.model, method, certificate)

    learner, points = CLASSES.template(columns, choice.model, method), scaling_transformer(columns, dense=True)
    student = _Student(frame, learner, left_out, lambda: np.asarray(points.fit_transform(frame)), model)
    return _of_all_pairs(student) if choice.model == RATINGS else student


def _of_all_pairs(student: _Student) -> _Student:
    """A factorization whose every stage knows the users and items of all rows, and who occurs with whom in them."""
    encoder, learner = (step for _, step in student.learner.steps)
    rows = encoder.fit_transform(student.features)

    def model(fitted: FactorizationClassifier, certificate: Certificate) -> TableModel | NetworkModel:
        fitted.set_params(public_rows=None)  # the users and items are in the model; its file needs no rows
        return student.model(Pipeline([("columns", encoder), ("model", fitted)]), certificate)

    return dataclasses.replace(student, features=rows, learner=learner.set_params(public_rows=rows), model=model)


def _first_prior(plan: StagePlan, student: _Student, curator: Curator, epsilon: float) -> Prior:
    """The uniform prior, or that of clusters of rows by their public inputs."""
    if plan.prior == UNIFORM:
        return UniformPrior()
    clusters, rows = plan.clusters or AUTO, len(curator)
    if clusters != AUTO and not clusters.isdecimal():
        raise InputError(f"expected a number of clusters or {AUTO!r}, found {clusters!r}")
    count = suggested_count(rows, curator.space.size, epsilon) if clusters == AUTO else int(clusters)
    return ClusterPrior(cluster(student.points(), _checks.whole(count, "clusters", 1, rows)).numbers)


def _read_prior(path: Path, space: LabelSpace) -> FixedPrior:
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
    one = len(probabilities) == 1
    return FixedPrior(probabilities[0] if one else ClassProbabilities(probabilities, space.points))
