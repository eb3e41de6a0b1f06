"""Regression tables of the true label on public columns, from released labels.

Coefficients of classes solve the equations of true labels with unbiased vectors in their place (backward correction),
or have the largest likelihood of the released labels under their channel (forward correction). Those of numbers are of
least squares on unbiased numbers. Errors are sandwiches over independent units, so that they hold where rows of one are
dependent, where the noise of rows differs, and where the model does not hold.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.linalg import qr
from scipy.special import stdtr

from labeldp import _checks
from labeldp._extras import require_extra
from labeldp._notebook import Shown
from labeldp._progress import Progress, silent
from labeldp._shapes import Float, Int
from labeldp.columns import result_or_none
from labeldp.errors import InputError
from labeldp.learning.features import columns_of, frame_of, missing_values, without_calendar
from labeldp.learning.inference._likelihood import ClassMethod, Likelihood, profile_end
from labeldp.learning.inference._table import PublicColumns, require_original_features
from labeldp.learning.losses import unbiased_numbers
from labeldp.learning.metrics import Units, class_weights, may_share_units, quantile
from labeldp.privacy import Interval
from labeldp.release import Release

Family = Literal["logistic", "multinomial", "linear"]
#: Units beyond the number of coefficients, below which no errors are told.
_FEWEST = 10
#: Relative difference of the drop of likelihood at the ends of a Wald interval from which on it is not trusted.
_SKEWED = 0.2


@dataclass(frozen=True)
class Coefficient:
    """One coefficient of a regression, with its sandwich error.

    Attributes:
        outcome: The class whose odds it is of; ``"mean"`` for numeric labels.
        name: The regressor.
        coef: The estimate; NaN where no finite one is the most likely, as under separation.
        std_err: Its standard error.
        z: Their quotient.
        p: Two-sided p-value.
        low: Lower end of the Wald interval; of a coefficient without an estimate that of its profile interval.
        high: Upper end.
        profile: Ends of the profile-likelihood interval, where the likelihood is not that of a normal estimate.
    """

    outcome: str
    name: str
    coef: float
    std_err: float
    z: float
    p: float
    low: float
    high: float
    profile: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class Coefficients(Shown):
    """A regression table.

    Attributes:
        coefficients: The coefficients, by class and regressor.
        family: ``"logistic"``, ``"multinomial"`` or ``"linear"``.
        reference: The class that others are compared with; empty for numeric labels.
        rows: Number of rows.
        left_out: Number of rows with a gap in a column that was used, which are left out.
        units: Number of independent units.
        level: Coverage of each interval.
        mixed: True if several rows may be of one privacy unit, and nothing says which.
        method: How it was estimated: ``"unbiased"`` or ``"likelihood"``.
        common: The class that is the most common by the released labels; empty for numeric labels.
    """

    coefficients: tuple[Coefficient, ...]
    family: Family
    reference: str
    rows: int
    left_out: int
    units: int
    level: float
    mixed: bool = False
    method: ClassMethod = "unbiased"
    common: str = ""

    def frame(self) -> pd.DataFrame:
        """The table as a frame, with the names of statsmodels."""
        tail = (1.0 - self.level) / 2.0
        names = ("coef", "std err", "z", "P>|z|", f"[{tail:.5g}", f"{1.0 - tail:.5g}]")
        rows = [(each.coef, each.std_err, each.z, each.p, each.low, each.high) for each in self.coefficients]
        keys = [(each.outcome, each.name) for each in self.coefficients]
        index = pd.MultiIndex.from_tuples(keys) if self.family == "multinomial" else [name for _, name in keys]
        return pd.DataFrame(rows, columns=list(names), index=index)


def coefficients(
    release: Release,
    table: object,
    model: str | Sequence[str],
    *,
    family: str | None = None,
    reference: object = None,
    units: object = None,
    level: float = 0.95,
    method: str = "auto",
    progress: Progress | None = None,
) -> Coefficients:
    """Regress the true label on public columns, from released labels alone.

    By default the coefficients aim at those that the true labels of these rows give, whether the model holds or not.
    ``method="likelihood"`` is more precise where the model holds and rows differ much in their probabilities. Where it
    does not hold, it weighs rows differently from true labels, and aims at somewhat other coefficients.

    Args:
        release: Released labels of n rows.
        table: Their public columns, in any container. Rows with gaps are left out and counted.
        model: A formula, such as ``"age + C(ward)"``, with or without the label and a tilde before it. It is code, so
            take none from strangers. Or the names of columns: texts get an indicator for each value but the first.
        family: ``"logistic"`` for two classes, ``"multinomial"`` for several, ``"linear"`` for numeric labels; by
            default the one that fits the labels.
        reference: The class that others are compared with; by default the first one, whatever the labels are. If that
            is rare, nothing can be compared with it: name a common one.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        level: Coverage of each interval.
        method: ``"unbiased"``, ``"likelihood"``, or by default the first, and the second where labels are too few or
            too noisy for a finite estimate of each coefficient. Numeric labels have the first alone.
        progress: Called with the name of the work, the number of coefficients done, and the number of all.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    References:
        Natarajan et al. 2013, for losses on unbiased vectors; Patrini et al. 2017, for the likelihood; Huber 1967, for
        sandwich errors of maximum likelihood; Liang and Zeger 1986, by units; Chandler and Bate 2007,
        for the profiles of likelihoods of dependent rows.

    Example:
        >>> from labeldp import Classes, Release
        >>> table = {"drug": ["no"] * 40 + ["yes"] * 40}
        >>> release = Release.public(["no", "yes"] * 20 + ["no", "yes", "yes", "yes"] * 10, Classes(["no", "yes"]))
        >>> found = coefficients(release, table, ["drug"])
        >>> round(found.coefficients[1].coef, 3)  # the logarithm of the odds ratio 3
        1.099

    Raises:
        InputError: A column is not there, columns follow from one another, or rows are too few.
    """
    sample = Units.of(units, require_original_features(release))
    _checks.level(level)
    _checks.among(method, "a method", ("auto", "unbiased", "likelihood"))
    name = None if release.certificate is None else release.certificate.label
    design, family = design_of(PublicColumns.of(release, table), model, name), _family(release, family)
    release, sample, rows = release[design.rows], sample.take(design.rows), len(release)
    needed = len(design.names) * (1 if family == "linear" else release.space.size - 1) + _FEWEST
    if sample.count < needed:
        raise InputError(f"expected at least {needed} units for these coefficients, found {sample.count}; use fewer")
    used: ClassMethod = "unbiased"
    if family == "linear":
        found, first, common = _of_numbers(release, design, sample, level), "", ""
    else:
        report = progress or silent
        report("coefficients", 0, needed - _FEWEST)
        code = 0 if reference is None else int(release.space.encode([reference])[0])
        likelihood, best = _fitted(release, design, code, method)
        found = _of_classes(likelihood, best, design, sample, level, report)
        first, common = (str(release.space.points[each]) for each in (code, _commonest(release)))
        used = likelihood.method
    mixed = units is None and may_share_units(release)
    return Coefficients(
        tuple(found), family, first, len(design.rows), rows - len(design.rows), sample.count, level, mixed, used, common
    )


def _commonest(release: Release) -> int:
    """The code of the most common class, by the released labels."""
    sums = [class_weights(release, np.full(len(release), code)).sum() for code in range(release.space.size)]
    return int(np.argmax(sums))


def _fitted(release: Release, design: Design, reference: int, method: str) -> tuple[Likelihood, np.ndarray]:
    """The likelihood of a method, with the parameters at which it is largest."""
    if method != "likelihood":
        unbiased = Likelihood(release, design.matrix, reference, "unbiased")
        best = unbiased.fit()
        if not unbiased.curvature(best)[1].size:
            return unbiased, best
        if method == "unbiased":
            raise InputError(
                "expected labels that allow a finite estimate of each coefficient, found too few or too noisy ones; "
                "use fewer columns, or method='likelihood'"
            )
    likelihood = Likelihood(release, design.matrix, reference, "likelihood")
    return likelihood, likelihood.fit()


def _family(release: Release, family: str | None) -> Family:
    """The family of a regression, which must fit the labels."""
    numeric = isinstance(release.space, Interval)
    default: Family = "linear" if numeric else "logistic" if release.space.size == 2 else "multinomial"
    if family not in (None, default, "multinomial") or (family == "multinomial" and numeric):
        raise InputError(f"expected the family {default!r} for these labels, found {family!r}")
    return "multinomial" if family == "multinomial" else default


def _sandwich(
    curvature: Float[np.ndarray, "q q"], scores: Float[np.ndarray, "n q"], sample: Units
) -> Float[np.ndarray, "q q"]:
    """The covariance of estimates from the inverse of their information and what rows contribute to their equations."""
    free = max(sample.count - scores.shape[1], 1)
    return np.asarray(curvature @ sample.covariance(scores) @ curvature * (sample.count - 1) / free)


def _wald(outcome: str, name: str, coef: float, error: float, level: float, free: float) -> Coefficient:
    """A coefficient with its Wald interval."""
    z, half = coef / error if error > 0.0 else np.nan, float(quantile(level, free)) * error
    p = 2.0 * float(stdtr(free, -abs(z)))
    return Coefficient(outcome, name, coef, error, z, p, coef - half, coef + half)


def _of_numbers(release: Release, design: Design, sample: Units, level: float) -> Iterator[Coefficient]:
    """Least squares on unbiased numbers."""
    numbers = unbiased_numbers(release)
    found = np.linalg.lstsq(design.matrix, numbers, rcond=None)[0]
    scores = design.matrix * (numbers - design.matrix @ found)[:, None]
    errors = np.sqrt(np.diag(_sandwich(np.linalg.pinv(design.matrix.T @ design.matrix), scores, sample)))
    for name, coef, error in zip(design.names, found, errors, strict=True):
        yield _wald("mean", name, float(coef), float(error), level, sample.count - len(found))


def _of_classes(
    likelihood: Likelihood,
    best: Float[np.ndarray, "q"],
    design: Design,
    sample: Units,
    level: float,
    report: Progress,
) -> Iterator[Coefficient]:
    """The coefficients of largest likelihood, each with a profile where Wald's interval is not to be trusted."""
    turn, free = likelihood.to_coefficients, sample.count - likelihood.size
    curvature, flat = likelihood.curvature(best)
    covariance = _sandwich(curvature, likelihood.scores(best), sample)
    plain, robust = (np.sqrt(np.diag(turn @ each @ turn.T)) for each in (curvature, covariance))
    span = np.ptp(design.matrix, axis=0)
    reach = np.tile(np.where(span > 0.0, span, np.abs(design.matrix).max(axis=0)), len(likelihood.classes))
    told = (np.abs(turn @ flat) * reach[:, None] < 1.0).all(axis=1)
    effects = np.where(told, robust**2 / np.where(plain > 0.0, plain, 1.0) ** 2, 1.0)
    bars = float(quantile(level, free)) ** 2 * np.where(told, effects, max(1.0, float(effects.max())))
    names = [(str(likelihood.release.space.points[code]), name) for code in likelihood.classes for name in design.names]
    seen = 2.0 * math.log(sample.count)  # from one unit in all to all but one: no units show larger log odds
    for place, (outcome, name) in enumerate(names):
        report("coefficients", place, len(names))
        drop = likelihood.profile(best, place)
        coef, bar, far = float(turn[place] @ best), float(bars[place]), float(reach[place])
        if told[place]:
            yield _profiled(_wald(outcome, name, coef, float(robust[place]), level, free), drop, bar, seen / far)
        else:
            low, high = (profile_end(drop, coef, side / far, bar, seen / far) for side in (-1.0, 1.0))
            yield Coefficient(outcome, name, math.nan, math.inf, math.nan, math.nan, low, high)
    report("coefficients", len(names), len(names))


def _profiled(wald: Coefficient, drop: Callable[[float], float], bar: float, most: float) -> Coefficient:
    """A coefficient with its profile interval, if the likelihood is not nearly that of a normal estimate."""
    if all(abs(drop(end) / bar - 1.0) < _SKEWED for end in (wald.low, wald.high)):
        return wald
    low, high = (profile_end(drop, wald.coef, end - wald.coef, bar, most) for end in (wald.low, wald.high))
    return replace(wald, profile=(low, high))


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
    known = columns.columns.names
    names, make = _of_formula(model, label, known) if isinstance(model, str) else (list(model), _indicators)
    frame = pd.DataFrame(index=range(columns.rows))
    if names:
        table = columns.table(names)
        frame = frame_of(table, without_calendar(columns_of(table, names, None, texts=False)[0]))
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


#: A name in a formula that is neither called nor assigned to, outside of texts; and texts and quoted names.
_VARIABLE = re.compile(r"(?<![.\w])([^\W\d]\w*)(?!\w|\s*[(.]|\s*=[^=])")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")


def _of_formula(
    text: str, label: str | None, known: Sequence[str]
) -> tuple[list[str], Callable[[pd.DataFrame], pd.DataFrame]]:
    """The columns of a formula, among those that are known, and the function that makes its regressors."""
    require_extra("learn", "formulaic")
    from formulaic import Formula  # noqa: PLC0415 (a list of columns needs it not)

    left, _, right = text.rpartition("~")
    if left.strip() not in ("", label or left.strip()):
        raise InputError(f"expected the label {label!r} to the left of '~', found {left.strip()!r}")
    formula = result_or_none(lambda: Formula(right))
    needed = None if formula is None else result_or_none(lambda: set(map(str, formula.required_variables)))
    if formula is None or needed is None or hasattr(formula, "lhs"):
        raise InputError(f"expected a formula such as 'age + C(ward)', found {text!r}")
    needed |= {*_VARIABLE.findall(_QUOTED.sub("", right))} & {*known}  # formulaic 1.2 misses those of splines
    return sorted(needed), lambda frame: formula.get_model_matrix(frame, na_action="raise", context={})


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
