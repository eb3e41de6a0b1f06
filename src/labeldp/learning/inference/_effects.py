"""Effects of a public treatment on the true label, from released labels.

An unbiased entry U of a released label has the true outcome as its mean, whatever the features are. So the efficient
score of an effect on U is one of the effect on the outcome: with propensity e and outcome models m_1 and m_0,
``m_1 - m_0 + T (U - m_1) / e - (1 - T) (U - m_0) / (1 - e)`` (augmented inverse propensity weights). Its mean is right
if the propensities or the models are, and its spread over independent units gives the standard error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import BayesianRidge, LogisticRegression

from labeldp import _checks
from labeldp._notebook import Shown
from labeldp._shapes import Bool, Float
from labeldp.columns import floats
from labeldp.errors import InputError
from labeldp.learning.choice import Parts, folds_of, predict_others
from labeldp.learning.features import columns_of, frame_of, scaling_transformer
from labeldp.learning.inference._table import PublicColumns, TrueMean, in_order, require_original_features, texts_of
from labeldp.learning.losses import ends_of, require_identified, unbiased_numbers
from labeldp.learning.metrics import Estimate, Units, class_weights, may_share_units, mean_of_rows, missed_share
from labeldp.privacy import Interval
from labeldp.release import Release

#: Folds of units, and units with each treatment from which an interval is told.
_FOLDS, _FEWEST = 5, 10
#: Classes whose effects are told at once.
_MOST_CLASSES = 50
#: Groups whose effects are told at once.
_MOST_GROUPS = 200
#: Values that an error lists.
_MOST_SHOWN = 12
#: Names of two values of which the second is the treatment.
_PLAIN_PAIRS = (("0", "1"), ("False", "True"), ("false", "true"), ("no", "yes"))
#: The name of an outcome, a value for each row whose mean is the true one, and between what it lies.
_Outcome = tuple[str, np.ndarray, float, float]


@dataclass(frozen=True)
class OutcomeEffect:
    """The effect on one outcome in one group of rows.

    Attributes:
        group: The group; empty for all rows.
        outcome: The class whose probability is compared; of numeric labels ``"mean"``.
        rows: Number of rows.
        untreated: Estimated mean outcome had no row been treated.
        treated: Estimated mean outcome had every row been treated.
        difference: Their difference; NaN where fewer than ten units have one of the treatments.
    """

    group: str
    outcome: str
    rows: int
    untreated: Estimate
    treated: Estimate
    difference: Estimate


@dataclass(frozen=True, eq=False)
class Effects(Shown):
    """Effects of a treatment on the true label, with simultaneous confidence intervals.

    Attributes:
        effects: The effect in each group on each outcome.
        treatment: Name of the treatment.
        values: The value of the untreated and that of the treated rows; of several values the names of both groups.
        adjusted_for: Names of the features that were adjusted for.
        assignment: ``"known"`` where propensities were declared, ``"estimated"``, or ``"ignored"`` where groups were
            compared as they are.
        units: Number of independent units.
        level: Probability with which all intervals of the differences hold together (Bonferroni).
        numeric: True for numeric labels.
        overlap: The propensities; None where groups were compared as they are.
        mixed: True if several rows may be of one privacy unit, and nothing says which.
    """

    effects: tuple[OutcomeEffect, ...]
    treatment: str
    values: tuple[str, str]
    adjusted_for: tuple[str, ...]
    assignment: Literal["known", "estimated", "ignored"]
    units: int
    level: float
    numeric: bool
    overlap: Overlap | None = None
    mixed: bool = False


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of a comparison: outcomes, who was treated with which probability, and the privacy units."""

    outcomes: Sequence[_Outcome]
    treated: Bool[np.ndarray, "n"]
    propensity: Float[np.ndarray, "n"]
    units: Units


def mean_difference(
    release: Release,
    groups: object,
    *,
    treated: object = None,
    outcome: object = None,
    units: object = None,
    level: float = 0.95,
) -> Effects:
    """Difference of the mean true labels of two groups of rows, as they are.

    It is the effect of what the groups differ in only if chance put each row into its group.

    Args:
        release: Released labels of n rows.
        groups: The group of each row.
        treated: The value, or a list of values, of the group from whose mean that of all others is subtracted; by
            default the 1, yes or True of two.
        outcome: The class whose probabilities are compared; by default the last of two, or each of several.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        level: Probability with which the intervals of all differences hold together.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    Example:
        >>> from labeldp import Classes, Release
        >>> release = Release.public(["no", "yes"] * 20 + ["yes"] * 20, Classes(["no", "yes"]))
        >>> found = mean_difference(release, [0] * 40 + [1] * 20)
        >>> str(found.effects[0].difference)
        '0.5 (0.266 to 0.662)'

    Raises:
        InputError: There are not two groups of at least ten units, or the labels do not identify their mean.
    """
    sample = Units.of(units, _identified(release))
    inside, values = _arms(texts_of(groups, "groups", len(release)), "groups", treated)
    _require_units(inside, sample)
    codes = _codes(release, outcome)
    each = 1.0 - (1.0 - _checks.level(level)) / len(codes)
    effects = []
    for code in codes:
        one, other, difference = TrueMean(release, sample, code, each).difference(inside)
        effects.append(OutcomeEffect("", _outcome_name(release, code), len(release), other, one, difference))
    mixed = units is None and may_share_units(release)
    numeric = _is_numeric(release)
    return Effects(tuple(effects), "group", values, (), "ignored", sample.count, level, numeric, mixed=mixed)


def treatment_effect(
    release: Release,
    table: object,
    *,
    treatment: str,
    treated: object = None,
    outcome: object = None,
    features: Sequence[str] | None = None,
    propensity: object = None,
    by: str | None = None,
    trim: float | None = None,
    units: object = None,
    level: float = 0.95,
    model: Any = None,
) -> Effects:
    """Average effect of a treatment on the true label, by augmented inverse propensity weights with cross-fitting.

    Without known propensities it assumes that the features hold everything that decided both on the treatment and on
    the label (no unmeasured confounders), which no data show.

    Args:
        release: Released labels of n rows.
        table: Their public columns, in any container.
        treatment: The column of the treatment.
        treated: Its value for treated rows, or a list of some; rows with any other are untreated. By default the 1, yes
            or True of two.
        outcome: The class whose probability is compared; by default the last of two, or each of several.
        features: Columns to adjust for, all of which were settled before the treatment: one that the treatment changed
            hides a part of its effect. They may be left out only where the propensities are known.
        propensity: The known probability of the treatment, as in a trial: a number, one for each row, or the name of a
            column. By default logistic regression on the features estimates it.
        by: A public column: effects are estimated in each of its groups.
        trim: Estimate the effect in rows with a propensity from ``trim`` to ``1 - trim`` alone, such as 0.1. By default
            those below 0.01 or above 0.99 are left out if they are few, and the result says how many.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        level: Probability with which the intervals of all differences hold together (Bonferroni).
        model: The regressor in scikit-learn's form that predicts outcomes; by default ``BayesianRidge``.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    References:
        Robins, Rotnitzky and Zhao 1994, for the score; Chernozhukov et al. 2018, for cross-fitting; Crump et al. 2009,
        for trimming.

    Example:
        >>> from labeldp import Classes, Release
        >>> release = Release.public(["no", "no", "no", "yes"] * 20 + ["yes", "no"] * 40, Classes(["no", "yes"]))
        >>> table = {"drug": ["no"] * 80 + ["yes"] * 80}
        >>> found = treatment_effect(release, table, treatment="drug", propensity=0.5)
        >>> round(found.effects[0].difference.value, 2)
        0.25

    Raises:
        InputError: A column is not there, features are not named, propensities vanish, or fewer than ten units have
            one of the treatments.
    """
    sample = Units.of(units, _identified(release))
    columns = PublicColumns.of(release, table)
    is_treated, values = _arms(columns.texts(treatment), treatment, treated)
    names = _named_features(columns, features, propensity, treatment)
    encoded, folds = _encoded(columns, names), folds_of(sample, min(_FOLDS, sample.count))
    chance = _propensity(propensity, columns, encoded, is_treated, folds)
    kept = overlapping_rows(chance, trim)
    rows = _Rows(_outcomes(release, _codes(release, outcome)), is_treated, chance, sample)
    _require_units(is_treated, sample)
    models = [_predicted(each, encoded, is_treated, folds, model or BayesianRidge()) for _, each, _, _ in rows.outcomes]
    places = None if by is None else columns.texts(by)
    effects = tuple(_in_groups(rows, models, places, level, kept))
    overlap = Overlap.of(chance[kept], is_treated[kept], int((~kept).sum()))
    assignment: Literal["known", "estimated"] = "estimated" if propensity is None else "known"
    mixed = units is None and may_share_units(release)
    return Effects(
        effects, treatment, values, names, assignment, sample.count, level, _is_numeric(release), overlap, mixed
    )


def _identified(release: Release) -> Release:
    """The release itself, if its labels identify their means and its features are the rows' own."""
    require_identified(release)
    return require_original_features(release)


def _is_numeric(release: Release) -> bool:
    return isinstance(release.space, Interval)


def _codes(release: Release, outcome: object) -> Sequence[int | None]:
    """The classes that are compared; None for the mean of numeric labels."""
    if _is_numeric(release):
        return [None]
    size = release.space.size
    codes = [int(release.space.encode([outcome])[0])] if outcome is not None else range(size)[1 if size == 2 else 0 :]
    if len(codes) > _MOST_CLASSES:
        raise InputError(
            f"expected the class to compare, found none and {size} classes; name it with --outcome (outcome=)"
        )
    return codes


def _outcome_name(release: Release, code: int | None) -> str:
    return "mean" if code is None else str(release.space.points[code])


def _outcomes(release: Release, codes: Sequence[int | None]) -> Sequence[_Outcome]:
    """The outcomes that are compared, each with an unbiased value for each row."""
    return [
        (_outcome_name(release, code), unbiased_numbers(release), *ends_of(release))
        if code is None
        else (_outcome_name(release, code), class_weights(release, np.full(len(release), code)), 0.0, 1.0)
        for code in codes
    ]


def _arms(texts: np.ndarray, name: str, treated: object) -> tuple[Bool[np.ndarray, "n"], tuple[str, str]]:
    """The treated rows, and what untreated and treated rows are called."""
    values = in_order(texts)
    shown = ", ".join(map(repr, values[:_MOST_SHOWN])) + (", ..." if len(values) > _MOST_SHOWN else "")
    if "" in values:
        raise InputError(
            f"expected a value of {name!r} in each row, found missing ones. In Python, estimate from rows that have "
            "one: release[rows], and the same rows of the table"
        )
    if len(values) < 2:
        raise InputError(f"expected at least two values of {name!r}, found {shown}; name another column")
    if treated is None and tuple(values) not in _PLAIN_PAIRS:
        raise InputError(
            f"which value of {name!r} is the treatment? Values: {shown}. Name one or more with --treated (treated=); "
            "all others are untreated"
        )
    several = treated if isinstance(treated, list | tuple | set | np.ndarray) else [treated]
    named = values[1:] if treated is None else texts_of(list(several), "treated", len(several)).tolist()
    chosen = [_checks.among(value, "a treated value", values) for value in dict.fromkeys(named)]
    others = [value for value in values if value not in chosen]
    if not chosen or not others:
        raise InputError(f"expected some values of {name!r} as treated, and others, found {shown}; name fewer or more")
    called = ", ".join(chosen)
    return np.isin(texts, chosen), (others[0] if len(others) == 1 else f"not {called}", called)


def _named_features(
    columns: PublicColumns, features: Sequence[str] | None, propensity: object, treatment: str
) -> tuple[str, ...]:
    """The columns to adjust for, which must be named unless chance decided on the treatment."""
    if features is None and propensity is None:
        others = ", ".join(name for name in columns.columns.names if name != treatment)
        raise InputError(
            "expected the columns to adjust for, --features (features=), or the known probability of the treatment, "
            "--propensity (propensity=), "
            f"found neither. Name all columns that were settled before the treatment. Columns: {others}"
        )
    if treatment in (features or ()):
        raise InputError(f"expected features beside the treatment, found {treatment!r} among them; leave it out")
    return tuple(features or ())


def _encoded(columns: PublicColumns, names: Sequence[str]) -> Float[np.ndarray, "n d"]:
    """Features as numbers, standardised; no columns without features."""
    if not names:
        return np.empty((columns.rows, 0))
    table = columns.table(names)
    kinds, _ = columns_of(table, names, None)
    return np.asarray(scaling_transformer(kinds, dense=True).fit_transform(frame_of(table, kinds)), np.float64)


def _propensity(
    known: object, columns: PublicColumns, encoded: np.ndarray, treated: Bool[np.ndarray, "n"], folds: Parts
) -> Float[np.ndarray, "n"]:
    """The probability of the treatment for each row: the known one, or one that other folds estimate."""
    if known is None:
        return predict_others(folds, len(treated), lambda fit, held: _estimated(encoded, treated, fit, held))
    if isinstance(known, str):
        known = columns.table([known])[known].to_numpy()
    chance = np.array(np.broadcast_to(floats(known, "propensities"), len(treated)))
    if not ((chance > 0.0) & (chance < 1.0)).all():
        raise InputError("expected propensities above 0 and below 1, found others; give probabilities of the treatment")
    return chance


def _estimated(encoded: np.ndarray, treated: np.ndarray, fit: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Propensities of held-out rows by logistic regression."""
    if not 0.0 < treated[fit].mean() < 1.0 or not encoded.shape[1]:
        return np.full(len(held), treated[fit].mean())
    return np.asarray(LogisticRegression(max_iter=1000).fit(encoded[fit], treated[fit]).predict_proba(encoded[held]))[
        :, 1
    ]


def _predicted(
    values: np.ndarray, encoded: np.ndarray, treated: Bool[np.ndarray, "n"], folds: Parts, model: Any
) -> Float[np.ndarray, "n 2"]:
    """Predicted outcomes of each row without and with the treatment, by models of other folds."""

    def of_fold(fit: np.ndarray, held: np.ndarray) -> np.ndarray:
        arms = (fit[treated[fit] == arm] for arm in (False, True))
        return np.stack([_of_arm(values, encoded, rows, held, model) for rows in arms], axis=1)

    return predict_others(folds, len(values), of_fold)


def _of_arm(values: np.ndarray, encoded: np.ndarray, rows: np.ndarray, held: np.ndarray, model: Any) -> np.ndarray:
    """Predicted outcomes of held-out rows by a model of the rows with one treatment; their mean without features."""
    if len(rows) == 0 or not encoded.shape[1]:
        return np.full(len(held), values[rows].mean() if len(rows) else values.mean())
    return np.asarray(clone(model).fit(encoded[rows], values[rows]).predict(encoded[held]))


def _require_units(treated: Bool[np.ndarray, "n"], units: Units) -> None:
    """Refuse too few units for an interval."""
    counts = _counts(treated, units)
    if min(counts) < _FEWEST:
        raise InputError(
            f"expected at least {_FEWEST} units with each treatment, found {counts[0]} and {counts[1]}: nothing shows "
            "how far such an effect may be off"
        )


def _counts(treated: Bool[np.ndarray, "n"], units: Units) -> tuple[int, int]:
    """Numbers of units with an untreated and with a treated row."""
    untreated, some = (units.take(np.flatnonzero(treated == arm)).count for arm in (False, True))
    return untreated, some


def _in_groups(
    rows: _Rows,
    models: Sequence[Float[np.ndarray, "n 2"]],
    places: np.ndarray | None,
    level: float,
    kept: Bool[np.ndarray, "n"],
) -> Iterator[OutcomeEffect]:
    """The effect on each outcome in each group of the rows that are kept."""
    groups = {"": kept} if places is None else {name: kept & (places == name) for name in in_order(places[kept])}
    if len(groups) > _MOST_GROUPS:
        raise InputError(f"expected at most {_MOST_GROUPS} groups, found {len(groups)}; make fewer of them")
    each = 1.0 - (1.0 - _checks.level(level)) / (len(groups) * len(rows.outcomes))
    for name, inside in groups.items():
        for outcome, model in zip(rows.outcomes, models, strict=True):
            shown = "missing" if places is not None and not name else name
            yield _effect(rows, outcome, model, shown, np.flatnonzero(inside), each)


def _effect(
    rows: _Rows, outcome: _Outcome, model: Float[np.ndarray, "n 2"], group: str, where: np.ndarray, level: float
) -> OutcomeEffect:
    """The effect on one outcome in some rows."""
    name, values, low, high = outcome
    treated, chance, units = rows.treated[where], rows.propensity[where], rows.units.take(where)
    weights = np.stack([~treated / (1.0 - chance), treated / chance])
    parts = model[where].T + weights * (values[where] - model[where].T)
    bounds = ((parts[0], low, high), (parts[1], low, high), (parts[1] - parts[0], low - high, high - low))
    arms = [units.take(np.flatnonzero(treated == arm)) for arm in (False, True)]
    if min(arm.count for arm in arms) < _FEWEST:
        found = [Estimate(math.nan, math.inf, least, most) for _, least, most in bounds]
    else:
        found = [mean_of_rows(part, level, least, most, units) for part, least, most in bounds]
        missed = [missed_share(arm, level) for arm in arms]
        below, above = (
            [share * abs(mean.shown - end) for share, mean in zip(missed, found, strict=False)] for end in (low, high)
        )
        pairs = ((below[0], above[0]), (below[1], above[1]), (max(below[1], above[0]), max(above[1], below[0])))
        found = [_widened(*each) for each in zip(found, pairs, bounds, strict=True)]
    return OutcomeEffect(group, name, len(where), *found)


def _widened(found: Estimate, margins: tuple[float, float], bounds: tuple[np.ndarray, float, float]) -> Estimate:
    """A mean whose interval also holds what units of one treatment may not show."""
    low, high = found.value - margins[0], found.value + margins[1]
    return replace(found, low=max(min(found.low, low), bounds[1]), high=min(max(found.high, high), bounds[2]))


#: Weights are the inverse of propensities: beyond this one row counts as a hundred.
_VANISHING = 0.01
#: The largest share of rows with such propensities that are left out without a word from who asks.
_FEW = 0.005
#: Propensities outside of this and its complement are counted.
_RARE = 0.05


@dataclass(frozen=True)
class Overlap:
    """The propensities of rows, the probabilities of the treatment given the features.

    Attributes:
        low: The least propensity.
        high: The largest one.
        outside: Number of rows with a propensity below 0.05 or above 0.95.
        effective_untreated: Effective sample size of the weighted untreated rows (Kish 1965).
        effective_treated: That of the treated rows.
        left_out: Number of rows that were left out, since their propensity is outside of the range that was asked for.
    """

    low: float
    high: float
    outside: int
    effective_untreated: float
    effective_treated: float
    left_out: int = 0

    @classmethod
    def of(cls, propensity: Float[np.ndarray, "n"], treated: Bool[np.ndarray, "n"], left_out: int) -> Overlap:
        """The overlap of rows with these propensities."""
        outside = int(((propensity < _RARE) | (propensity > 1.0 - _RARE)).sum())
        sizes = (_effective_size(1.0 - propensity[~treated]), _effective_size(propensity[treated]))
        return cls(float(propensity.min()), float(propensity.max()), outside, *sizes, left_out)


def _effective_size(chance: Float[np.ndarray, "m"]) -> float:
    """Effective number of rows whose weights are the inverse of probabilities."""
    return float((1.0 / chance).sum() ** 2 / (1.0 / chance**2).sum())


def overlapping_rows(propensity: Float[np.ndarray, "n"], trim: float | None) -> Bool[np.ndarray, "n"]:
    """The rows whose effect is estimated: those with a propensity from ``trim`` to ``1 - trim``, by default 0.01.

    Raises:
        InputError: By default more than one row in 200 is beyond that: its treatment is nearly certain.
    """
    least = _VANISHING if trim is None else _checks.trim(trim)
    kept = np.asarray((propensity >= least) & (propensity <= 1.0 - least))
    if trim is None and (~kept).mean() > _FEW:
        raise InputError(
            f"expected rows that could have had either treatment, found {int((~kept).sum()):,} of {len(kept):,} with a "
            f"propensity below {_VANISHING} or above {1.0 - _VANISHING}. Nothing is comparable to them: use fewer "
            "features, or estimate the effect in the other rows alone with --trim 0.1 (trim=0.1)"
        )
    return kept
