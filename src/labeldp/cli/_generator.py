"""``labeldp generator``: fit a generator of features by class, to rows with public or released labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp import results
from labeldp._own_files import check_new_file
from labeldp.audit import pipelines
from labeldp.cli._command import Place
from labeldp.cli._options import ColumnOptions, FileOptions, class_texts
from labeldp.cli._terminal import names, result
from labeldp.errors import InputError
from labeldp.release import folder, tables

if TYPE_CHECKING:
    from labeldp.audit.pipelines import DivergenceEstimate
    from labeldp.learning.generators import Trial

#: Orders at which divergences are estimated.
_ORDERS = (2.0, 8.0)
#: The number of classes times columns above which estimates take long and need --judge.
_QUICK = 200


@dataclass(frozen=True)
class LabelOptions:
    """Options that declare the labels of a table.

    Args:
        label: Name of the label column of TABLE; not needed with a release.
        classes: All classes that can occur: a,b,c or @FILE with one per line.
        labels_are_public: Declare that the labels of TABLE may be seen.
        auxiliary: Declare that the rows are private rows of yours that you will not release.
    """

    label: str | None = None
    classes: str | None = None
    labels_are_public: bool = False
    auxiliary: bool = False


def generator(
    table: Place,
    *,
    output: Path,
    source: str,
    labels: LabelOptions,
    columns: ColumnOptions,
    file: FileOptions,
    model: str = "copula",
    smoothing: float | None = None,
    judge: bool = False,
    json_: bool = False,
) -> None:
    """Fit a generator of features, for 'labeldp release --mechanism double --generator FILE'.

    Never fit it to the rows that you will release: the features that it draws would disclose their labels. Fit it to a
    public table, to rows of yours that you will not release, or to the release of other rows, whose guarantee then
    covers it.

    Args:
        table (TABLE): CSV, Parquet, a folder of either; or a release folder; a path, or an address such as
            s3://bucket/people or https://host/people.csv.
        output: A new file for the generator, such as people.generator.
        source: A description of the data, which certificates print.
        labels: The labels of TABLE.
        columns: The columns to draw.
        file: How CSV files are written.
        model: copula: marginals and correlations; cells: frequencies of all combinations of a few categories, with
            known probabilities.
        smoothing: Share of rows drawn uniformly; default 0, or 0.01 for cells.
        judge: Estimate how well drawn rows can be distinguished from held-out rows of TABLE; slower.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    from labeldp.learning import generators  # noqa: PLC0415 (the learners are an extra)

    check_new_file(output)
    settings: dict[str, Any] = {} if smoothing is None else {"smoothing": smoothing}
    if folder.is_release(table):
        if judge or labels != LabelOptions():
            raise InputError(
                "expected no --label, --classes, --labels-are-public, --auxiliary or --judge with a release, "
                "found some; leave them out: the certificate states them"
            )
        public = (names(columns.keep), names(columns.drop))
        fitted, trial = generators.from_release(table, public, model, source, **settings), None
    elif labels.labels_are_public:
        if labels.label is None or labels.classes is None:
            raise InputError(
                "expected --label and --classes with a table, found one missing; declare the label column and its "
                "classes"
            )
        given = file.of(table)
        opened = tables.open_table(given, labels.label)
        space = tables.declared_classes(opened, class_texts(labels.classes))
        settings["kind"] = "auxiliary" if labels.auxiliary else "public"
        fitted, trial = generators.from_public_table(
            given, labels.label, space, columns.of(opened), model, source, **settings
        )
    else:
        raise InputError(
            f"expected --labels-are-public to declare that the labels of {table} may be seen, or a release folder, "
            "found neither; labels that are not public must be released first"
        )
    path, two_sample, divergences = str(fitted.save(output)), None, None
    if trial is not None:
        quick = fitted.space.size * len(fitted.form.columns) <= _QUICK
        divergences = _estimated_divergences(trial) if judge or quick else {}
        two_sample = (*trial.two_sample_accuracy(), trial.table.num_rows) if judge else None
    found = (fitted, path, two_sample, divergences)
    result(json_, lambda: results.Generated.of(*found), lambda: results.generator_part(*found))


def _estimated_divergences(trial: Trial) -> dict[str, list[DivergenceEstimate]]:
    """Estimate the divergence of each class's features from the generator's, all classes mixed, at several orders.

    Classes with few rows are left out.
    """
    drawn, estimates = trial.drawn(), {}
    for name, rows in trial.by_class():
        odds = pipelines.held_out_log_odds(rows, drawn, trial.discriminator())
        estimates[name] = [pipelines.divergence_of_log_odds(*odds, order) for order in _ORDERS]
    return estimates
