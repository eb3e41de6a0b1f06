"""``labeldp evaluate``: scores of a model on another table."""

from __future__ import annotations

from pathlib import Path

from labeldp import results
from labeldp.cli._command import Place
from labeldp.cli._options import FileOptions, ImageOptions, check_one_of
from labeldp.cli._terminal import complain, printed_warnings, result


def evaluate(
    model: Path,
    table: Place,
    *,
    label: str | None = None,
    labels_are_public: bool = False,
    released: bool = False,
    images: ImageOptions,
    file: FileOptions,
    json_: bool = False,
) -> None:
    """Score a model on public labels, or on released ones.

    Args:
        model (MODEL): A model that 'labeldp learn' wrote.
        table (TABLE): CSV, Parquet, a folder of either, IDX labels; or a release folder with --released; a
            path or an address.
        label: Name of the label column; default: that of the release which the model was learned from.
        labels_are_public: Declare that the labels of TABLE are public.
        released: TABLE is the folder of a release.
        images: The images of the rows.
        file: How CSV files are written.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    from labeldp.learning import tables  # noqa: PLC0415 (first, as its extra has all of them)
    from labeldp.learning.features import UnseenValueWarning  # noqa: PLC0415
    from labeldp.learning.metrics import UnitsWarning  # noqa: PLC0415

    check_one_of(
        f"either --labels-are-public or --released to say what the labels of {table} are",
        labels_are_public or None,
        released or None,
        "; labels that are not public must be released first",
    )
    loaded = tables.open_model(model)
    label, source = label or loaded.certificate.label, file.of(table) if labels_are_public else table
    with printed_warnings(UnseenValueWarning, UnitsWarning) as warned:
        scores = tables.evaluate(loaded, source, label, public=labels_are_public, **images.read())
    if labels_are_public and scores.rows == loaded.certificate.rows:
        complain(
            f"note: the model was learned from as many rows ({scores.rows:,}): if from these, the scores are too good "
            "for others; evaluate it on other people's rows"
        )
    by = "labels that you declared public" if labels_are_public else "released labels"
    mixed = any(issubclass(each.category, UnitsWarning) for each in warned)
    found = results.Evaluated.of(scores, by, loaded.certificate.space, public=labels_are_public, mixed=mixed)
    result(json_, lambda: found, lambda: results.evaluation_part(found))
