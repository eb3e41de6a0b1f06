"""``labeldp stages``: release a table in stages, and learn a model."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from labeldp import results
from labeldp.cli._command import Place
from labeldp.cli._options import (
    ColumnOptions,
    EncoderOptions,
    FileOptions,
    ImageOptions,
    SpendingOptions,
    TrainingOptions,
    check_no_network_options,
    class_texts,
)
from labeldp.cli._terminal import names, notes_on_terminal, printed_warnings, progress, result
from labeldp.release import tables


@dataclass(frozen=True)
class LabelOptions:
    """Options that declare the label.

    Args:
        label: Name of the sensitive label column.
        classes: All classes that can occur: a,b,c (quote those with commas), @FILE with one per line, or
            @FILE.csv:COLUMN of a code book.
        missing: Missing labels: 'refuse', or the class or number to put in their place.
        unit: 'row' declares that epsilon is for each row, although a column repeats like a person's identifier: a
            person with 30 rows has 30 times that epsilon.
    """

    label: str
    classes: str
    missing: str = "refuse"
    unit: str | None = None


@dataclass(frozen=True)
class ScheduleOptions:
    """Options for the stages.

    Args:
        stages: Number of stages; the first has 60 % of the rows.
        response: subset: sets of classes among a row's candidates; prior: single classes (Ghazi et al. 2021);
            groups: groups of adjacent classes, for ordered ones.
        prior: Prior of the first stage: uniform; clusters, whose classes a trusted curator counts with part of epsilon;
            or a public file with a column for each class.
        clusters: For --prior clusters: number of clusters; default: chosen from the number of rows.
    """

    stages: int = 2
    response: str = "subset"
    prior: str = "uniform"
    clusters: str | None = None


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Options for the model.

    Args:
        model: softmax (default), boosting, factorization (ratings), or a network of 'labeldp learn'; with images
            patches (default), encoder (default with --encoder) or a network of images.
        model_file: File for the model; default: OUTPUT.safetensors.
        features: Kept columns to predict from, a,b,c; default: all useful ones. For factorization: user,item and
            columns about either.
        images: The images of the rows.
        encoders: What you state of an encoder.
        training: Settings of networks.
    """

    model: str | None = None
    model_file: Path | None = None
    features: list[str] | None = None
    images: ImageOptions
    encoders: EncoderOptions
    training: TrainingOptions

    def choice(self) -> ModelChoice:
        """The choice for ``labeldp.learning.tables``."""
        from labeldp.learning.tables import ModelChoice, is_network  # noqa: PLC0415 (the learners are an extra)

        model = self.model or self.images.model or "softmax"
        if not is_network(model):
            check_no_network_options(self.images, self.training)
        inputs = {**self.images.read(), **self.encoders.open(self.images)}
        return ModelChoice(model, features=names(self.features), training=self.training.settings(), **inputs)


def stages(
    source: Place,
    *,
    label: LabelOptions,
    epsilon: float,
    output: Place,
    columns: ColumnOptions,
    schedule: ScheduleOptions,
    model: ModelOptions,
    spending: SpendingOptions,
    file: FileOptions,
    json_: bool = False,
) -> None:
    """Randomize labels in stages, each with a prior learned from the stages before; write the release and the model.

    Every label is drawn once, so all stages together cost as much as one. The folder is a release like any other:
    'verify', 'account' and 'learn' accept it. The table is held in memory, and the ledger stays locked until the last
    model is fitted.

    Args:
        source (INPUT): CSV or Parquet, a folder of either, or IDX labels; a path, or an address such as
            s3://bucket/table or https://host/table.csv, with --ledger.
        label: The label column and its classes.
        epsilon: Privacy cost of each label, over all stages.
        output: A new folder for the release: a path, or an address such as s3://bucket/shared, with --model-file.
        columns: The public columns.
        schedule: The stages.
        model: The model.
        spending: The ledger and its budget.
        file: How CSV files are written.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    from labeldp.learning.tables import StagePlan, learn_in_stages  # noqa: PLC0415, I001 (first, as its extra has all of them)
    from labeldp.learning.sklearn import UnguardedFitWarning  # noqa: PLC0415

    choice = model.choice()
    given = file.of(source)
    table = tables.open_table(given, label.label)
    space = tables.declared_classes(table, class_texts(label.classes), label.missing)
    keep, drop = columns.of(table)
    with printed_warnings(UnguardedFitWarning), progress() as bar:
        staged = learn_in_stages(
            given,
            label.label,
            space,
            epsilon,
            output,
            StagePlan(choice, **asdict(schedule), model_file=model.model_file),
            bar,
            keep=keep,
            drop=drop,
            unit=label.unit,
            **spending.arguments(),
        )
    result(json_, lambda: results.StagesReleased.of_stages(staged), lambda: results.stages_part(staged))
    notes_on_terminal(staged.release.notes)
