"""Design matrices of regressions: from a list of columns, or from a formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import qr

from labeldp._extras import require_extra
from labeldp._shapes import Float, Int
from labeldp.columns import result_or_none
from labeldp.errors import InputError
from labeldp.learning.features import columns_of, frame_of, missing_values, without_calendar
from labeldp.learning.inference._table import PublicColumns

#: Share of a column that others must leave unexplained.
_LEAST_OWN = 1e-8
#: The most coefficients of an equation.
_MOST = 500


@dataclass(frozen=True, eq=False)
class Design:
    """The regressors of some rows.

    Attributes:
        names: The name of each column, as statsmodels has them.
        matrix: The regressors.
        rows: The rows without gaps, which are the ones used.
    """

    names: tuple[str, ...]
    matrix: Float[np.ndarray, "m p"]
    rows: Int[np.ndarray, "m"]


def design_of(columns: PublicColumns, model: str | Sequence[str], label: str | None) -> Design:
    """The regressors of a formula or of columns, of which those of categories get an indicator for all values but one.

    Args:
        columns: Public columns.
        model: A formula, such as ``"age + C(ward)"``; or names of columns.
        label: The name of the label, if it is known, which may stand to the left of a formula's tilde.

    Raises:
        InputError: A column is not there, the formula cannot be read, or columns follow from one another.
    """
    names, make = _of_formula(model, label) if isinstance(model, str) else (list(model), _indicators)
    frame = pd.DataFrame(index=range(columns.rows))
    if names:
        table = columns.table(names)
        frame = frame_of(table, without_calendar(columns_of(table, names, None)[0]))
    gaps = [missing_values(frame[name].to_numpy()) for name in names]
    rows = np.flatnonzero(~np.any(gaps, axis=0)) if gaps else np.arange(columns.rows)
    found = result_or_none(lambda: make(frame.iloc[rows]))
    matrix = None if found is None else np.asarray(found, dtype=np.float64)
    if found is None or matrix is None or matrix.shape[0] != len(rows) or not np.isfinite(matrix).all():
        raise InputError(
            f"expected regressors that are finite numbers in each row, found others in {model!r}; look for logarithms "
            "of numbers that are not positive, and for functions that are not known"
        )
    design = Design(tuple(map(str, found.columns)), matrix, rows)
    _require_independent(design)
    return design


def _of_formula(text: str, label: str | None) -> tuple[list[str], Callable[[pd.DataFrame], pd.DataFrame]]:
    """The columns of a formula, and the function that makes its regressors."""
    require_extra("learn", "formulaic")
    from formulaic import Formula  # noqa: PLC0415 (a list of columns needs it not)

    left, _, right = text.rpartition("~")
    if left.strip() not in ("", label or left.strip()):
        raise InputError(f"expected the label {label!r} to the left of '~', found {left.strip()!r}")
    formula = result_or_none(lambda: Formula(right))
    names = None if formula is None else result_or_none(lambda: sorted(map(str, formula.required_variables)))
    if formula is None or names is None or hasattr(formula, "lhs"):
        raise InputError(f"expected a formula such as 'age + C(ward)', found {text!r}")
    return names, lambda frame: formula.get_model_matrix(frame, na_action="raise", context={})


def _indicators(frame: pd.DataFrame) -> pd.DataFrame:
    """An intercept, numbers as they are, and an indicator for each text of a category but the first."""
    columns: dict[str, Any] = {"Intercept": np.ones(len(frame))}
    for name in frame.columns:
        values = frame[name].to_numpy()
        if values.dtype != object:
            columns[name] = values
            continue
        texts = values.astype(str)
        columns |= {f"{name}[T.{text}]": (texts == text).astype(np.float64) for text in np.unique(texts)[1:]}
    return pd.DataFrame(columns, index=frame.index)


def _require_independent(design: Design) -> None:
    """Refuse columns that follow from others, or that are too many."""
    if len(design.names) > _MOST:
        raise InputError(f"expected at most {_MOST} coefficients, found {len(design.names)}; leave out columns")
    sizes = np.linalg.norm(design.matrix, axis=0)
    _, own, order = qr(design.matrix / np.where(sizes > 0, sizes, 1.0), mode="economic", pivoting=True)
    rest = np.abs(np.diag(own))
    following = [design.names[place] for place in order[: len(rest)][rest < _LEAST_OWN]]
    following += [design.names[place] for place in order[len(rest) :]]
    if following:
        raise InputError(
            f"expected columns none of which follows from the others, found {', '.join(sorted(following))}; leave one "
            "out"
        )
