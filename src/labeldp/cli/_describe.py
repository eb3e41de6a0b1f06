"""``labeldp describe``: shares, means and quantiles of true labels, from released ones."""

from __future__ import annotations

from labeldp import results
from labeldp.cli._command import ReleaseFolder
from labeldp.cli._effect import released_rows
from labeldp.cli._terminal import names, printed_warnings, result
from labeldp.errors import InputError


def describe(
    directory: ReleaseFolder,
    *,
    by: str | None = None,
    quantiles: list[str] | None = None,
    json_: bool = False,
) -> None:
    """Estimate shares of classes, or means and quantiles of numbers, overall and by public group.

    Intervals of all estimates hold together, and take rows of one privacy unit as dependent. No privacy is spent.

    Args:
        directory (DIR): A release folder: a path, or an address such as s3://bucket/shared.
        by: The public column whose values are the groups.
        quantiles: Of a numeric label: shares below the quantiles, such as 0.5,0.9; 0.5 is the median.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    from labeldp.learning.inference import PublicColumns, describe as described  # noqa: PLC0415, I001 (it loads much)
    from labeldp.learning.metrics import UnitsWarning  # noqa: PLC0415

    try:
        shares = [float(each) for each in names(quantiles) or ()]
    except ValueError:
        raise InputError(f"expected quantiles such as 0.5,0.9, found {','.join(quantiles or ())}") from None
    release, table, units = released_rows(directory)
    groups = None if by is None else PublicColumns.of(release, table).table([by])[by]
    with printed_warnings(UnitsWarning):
        found = described(release, groups, quantiles=shares, units=units)
    shown = results.Described.of(release, described=found, by=by or "")
    result(json_, lambda: shown, lambda: results.described_part(shown))
