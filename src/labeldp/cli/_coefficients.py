"""``labeldp coefficients``: a regression table of the label of a release."""

from __future__ import annotations

from labeldp import results
from labeldp.cli._command import ReleaseFolder
from labeldp.cli._effect import class_of, released_rows
from labeldp.cli._terminal import printed_warnings, result


def coefficients(
    directory: ReleaseFolder,
    formula: str,
    *,
    family: str | None = None,
    reference: str | None = None,
    level: float = 0.95,
    method: str = "auto",
    json_: bool = False,
) -> None:
    """Print a regression table of the label of a release on its public columns.

    Args:
        directory (DIR): The folder of a release: a path, or an address such as s3://bucket/shared.
        formula (FORMULA): A formula of public columns, such as 'age + C(ward)'. It is code: type your own.
        family: logistic, multinomial or linear; default: the one that fits the labels.
        reference (CLASS): The class that others are compared with; default: the first one.
        level: Coverage of each interval.
        method: unbiased, which aims at the coefficients of true labels; likelihood; or auto, the first if it can.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    from labeldp.learning import inference  # noqa: PLC0415 (commands load what they need)
    from labeldp.learning.metrics import UnitsWarning  # noqa: PLC0415

    release, table, units = released_rows(directory)
    with printed_warnings(UnitsWarning):
        found = inference.coefficients(
            release,
            table,
            formula,
            family=family,
            reference=class_of(release, reference),
            units=units,
            level=level,
            method=method,
        )
    shown = results.CoefficientsEstimated.of(release, regression=found)
    result(json_, lambda: shown, lambda: results.regression_part(shown))
