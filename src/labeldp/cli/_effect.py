"""``labeldp effect``, ``coefficients`` and ``describe``: answers about true labels from released ones."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp import _checks, results
from labeldp.cli._command import ReleaseFolder
from labeldp.cli._terminal import complain, names, printed_warnings, progress, result
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.release import Release


def effect(
    directory: ReleaseFolder,
    *,
    treatment: str,
    treated: list[str] | None = None,
    outcome: str | None = None,
    features: list[str] | None = None,
    propensity: str | None = None,
    by: str | None = None,
    trim: float | None = None,
    level: float = 0.95,
    json_: bool = False,
) -> None:
    """Estimate the effect of a public treatment on the label of a release.

    Args:
        directory (DIR): The folder of a release: a path, or an address such as s3://bucket/shared.
        treatment (COLUMN): The public column of the treatment; rows without a value are left out, and counted.
        treated (VALUE,...): Its value for treated rows, or several; rows with any other value are untreated. Default:
            the 1, yes or true of two values.
        outcome (CLASS): The class whose probability is compared; default: the last of two, or each of several.
        features (COLUMN,...): Columns to adjust for, settled before the treatment. Needed unless the probability of
            the treatment is known.
        propensity (COLUMN|NUMBER): The known probability of the treatment, as in a trial.
        by (COLUMN): Estimate the effect in each group of a public column.
        trim: Leave out rows with a propensity below this or above its complement.
        level: Probability with which the intervals of all differences hold together.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    _checks.level(level)  # before what takes seconds to load
    if trim is not None:
        _checks.trim(trim)
    release, table, units = released_rows(directory)
    chance, adjusted = _number(propensity), names(features)
    check_columns(table, treatment, by, *(adjusted or ()), chance if isinstance(chance, str) else None)
    from labeldp.learning.inference import PublicColumns, treatment_effect  # noqa: PLC0415 (it loads much)
    from labeldp.learning.metrics import UnitsWarning  # noqa: PLC0415

    known = (PublicColumns.of(release, table).texts(treatment) != "").nonzero()[0]
    if left_out := len(release) - len(known):
        complain(
            f"note: {left_out:,} of {len(release):,} rows have no {treatment!r} and are left out, so the effect is "
            "that in the others: it may differ in all rows",
            "yellow",
        )
        table, units = table.take(known), None if units is None else units.take(known)
    with printed_warnings(UnitsWarning):
        found = treatment_effect(
            release[known] if left_out else release,
            table,
            treatment=treatment,
            treated=names(treated),
            outcome=class_of(release, outcome),
            features=adjusted,
            propensity=chance,
            by=by,
            trim=trim,
            units=units,
            level=level,
        )
    shown = results.EffectEstimated.of(release, effect=found)
    result(json_, lambda: shown, lambda: results.effect_part(shown))


def released_rows(directory: Path) -> tuple[Release, Any, Any]:
    """The released labels of a folder, its public columns, and the unit of each row where its column was kept."""
    from labeldp.release import Release, public_columns  # noqa: PLC0415 (it loads Arrow)
    from labeldp.release.folder import group_column  # noqa: PLC0415

    release = Release.load(directory)
    table = public_columns(directory, release.certificate)
    unit = group_column(release.certificate)
    return release, table, table[unit] if unit in table.column_names else None


def check_columns(table: Any, *named: str | None) -> None:
    """Refuse names that no public column has, before what reads the columns is loaded.

    Raises:
        InputError: There is no such column.
    """
    from labeldp.release.tables import no_such_column  # noqa: PLC0415 (it loads Arrow)

    if missing := [name for name in named if name is not None and name not in table.column_names]:
        raise InputError(no_such_column(missing[0], table.column_names))


def class_of(release: Release, text: str | None) -> object:
    """The class that a text names, as the declaration has it; the text itself where it names none."""
    return next((each for each in release.space.points if str(each) == text), text) if text is not None else None


def _number(text: str | None) -> float | str | None:
    """A number, or the name of a column."""
    with suppress(ValueError):
        return None if text is None else float(text)
    return text


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
        reference (CLASS): The class that others are compared with, which should be a common one; default: the first
            that was declared.
        level: Coverage of each interval.
        method: unbiased, which aims at the coefficients of true labels; likelihood; or auto, the first if it can.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    from labeldp.learning import inference  # noqa: PLC0415 (commands load what they need)
    from labeldp.learning.metrics import UnitsWarning  # noqa: PLC0415

    release, table, units = released_rows(directory)
    with printed_warnings(UnitsWarning), progress() as bar:
        found = inference.coefficients(
            release,
            table,
            formula,
            family=family,
            reference=class_of(release, reference),
            units=units,
            level=level,
            method=method,
            progress=bar,
        )
    shown = results.CoefficientsEstimated.of(release, regression=found)
    result(json_, lambda: shown, lambda: results.regression_part(shown))


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
    try:
        shares = [float(each) for each in names(quantiles) or ()]
    except ValueError:
        raise InputError(f"expected quantiles such as 0.5,0.9, found {','.join(quantiles or ())}") from None
    release, table, units = released_rows(directory)
    check_columns(table, by)
    from labeldp.learning.inference import PublicColumns, describe as described  # noqa: PLC0415, I001 (it loads much)
    from labeldp.learning.metrics import UnitsWarning  # noqa: PLC0415

    groups = None if by is None else PublicColumns.of(release, table).table([by])[by]
    with printed_warnings(UnitsWarning):
        found = described(release, groups, quantiles=shares, units=units)
    shown = results.Described.of(release, described=found, by=by or "")
    result(json_, lambda: shown, lambda: results.described_part(shown))
