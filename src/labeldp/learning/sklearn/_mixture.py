"""Combination of models' predictions and of the constant, by released labels of rows that no model was fitted on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize, minimize_scalar, nnls

from labeldp._arrays import freeze_arrays
from labeldp._documented import documented_in
from labeldp._shapes import Bool, Float, Int
from labeldp.learning.choice import (
    NO_HELP,
    SHARES,
    Fitted,
    Parts,
    differ_by_row,
    is_clearly_better,
    predict_others,
    shares_of_rows,
    towards_all,
)
from labeldp.learning.heads import share_logits, softmax
from labeldp.learning.losses import (
    decoded_numbers,
    effective_share,
    ends_of,
    expected_mean,
    gain,
    label_variance,
    precisions,
    row_loss,
    shifts_to,
)
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn._regressor import shrinkage, shrinkage_setting
from labeldp.release import Release

#: Probabilities below this are raised to it, so that a few certain mistakes do not decide a slope.
_LEAST = 1e-6
_FLATTEST, _STEEPEST, _TOLERANCE = 0.02, 20.0, 1e-3
#: Scale of the Cauchy prior of the logarithm of a slope: most slopes are near 1, and data can say otherwise.
_SPREAD = 0.25
#: Prior variance of shifts of log probabilities: little beside a hundred effective rows.
_SHIFT_VARIANCE = 0.03
#: The same for a model of its own, which may be biased in any way.
_WIDE_VARIANCE = 1.0
#: Effective rows by which models themselves tell how common classes are: of fewer, class shares say less.
_OWN_ROWS = 100.0
#: Dirichlet prior of weights: each model begins as if it alone had predicted this many rows.
_PRIOR_ROWS = 3.0
#: Rounds of expectation maximisation: their target is concave in the weights, and changes little after fewer.
_ROUNDS, _WEIGHT_TOLERANCE = 500, 1e-5
#: Prior variance of each weight of numbers.
_WEIGHT_VARIANCE = 0.03


@documented_in("labeldp.learning.sklearn")
@dataclass(frozen=True, eq=False)
class Mixture:
    """Weighted mean of models' predictions and of the constant, each model moved away from the constant or towards it.

    Class probabilities move by their logarithms, and numbers by themselves, within the declared range.

    Attributes:
        constant: What is predicted without features: class shares, shape (k,), in the order of predictions; or the
            mean label.
        weights: Weight of each of m models, at least 0; that of the constant is what they lack to 1. Weights of numbers
            may exceed 1 together, where models are too cautious.
        slopes: Factor of the distance of each model from the constant: 0 gives the constant, 1 leaves the model as it
            is. None for ones.
        slope: The same factor of their mean.
        shifts: Added to the log probabilities of the mean, so that classes are as common as released labels say, or to
            numbers, so that their mean is that of all rows; None for no shifts.
        ends: Ends of the declared range of numbers; None for classes.
    """

    constant: Float[np.ndarray, "..."]
    weights: Float[np.ndarray, "m"]
    slopes: Float[np.ndarray, "m"] | None = None
    slope: float = 1.0
    shifts: Float[np.ndarray, "..."] | None = None
    ends: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.slopes is None:
            object.__setattr__(self, "slopes", np.ones(len(self.weights)))
        freeze_arrays(self, constant=np.float64, weights=np.float64, slopes=np.float64)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a saved mixture; in those of earlier versions classes and numbers had names of their own."""
        if "constant" not in state:
            constant = np.asarray(state.get("shares", state.get("centre")))
            ends = (state["low"], state["high"]) if "low" in state else None
            usual = {"slopes": np.ones(len(state["weights"])), "slope": 1.0, "shifts": None}
            state = {**usual, **state, "constant": constant, "ends": ends}
        self.__dict__.update(state)

    def __call__(self, predictions: Float[np.ndarray, "m n ..."]) -> Float[np.ndarray, "n ..."]:
        """The mixture of predictions; without models of some weight, the constant."""
        moved = [self.moved(*each) for each in zip(predictions, self.slopes, strict=True)]  # type: ignore[arg-type]
        models = np.tensordot(self.weights, np.reshape(moved, np.shape(predictions)), axes=1)
        mean = (1.0 - self.weights.sum()) * self.constant + models
        return self.moved(mean, self.slope, 0.0 if self.shifts is None else self.shifts)

    @property
    def is_constant(self) -> bool:
        """True if the constant is predicted for every row."""
        return self.slope == 0.0 or not self.weights.any()

    def setting(self) -> str:
        """The combination of one model and the constant, in words."""
        if self.ends is not None:
            return shrinkage_setting(float(self.weights.sum()))
        if self.is_constant:
            return f"replaced by {SHARES}, {NO_HELP}"
        return f"calibrated on released labels (slope {self.slope:.2g}), {SHARES} being the alternative"

    def of_one(self) -> Mixture:
        """The same of a single model, moved from even shares: as files hold it.

        So slope and shifts are those of the logarithms of probabilities, and the slope is 0 for class shares.
        """
        slope = 0.0 if self.is_constant else self.slope
        shifts = 0.0 if self.shifts is None else self.shifts
        logits = (1.0 - slope) * np.log(np.maximum(self.constant, _LEAST)) + shifts
        return Mixture(_even(len(logits)), np.ones(1), slope=slope, shifts=logits)

    def plain(self) -> dict[str, Any]:
        """The combination of one model and the constant, as plain data for a file."""
        if self.ends is not None:
            shift = {} if self.shifts is None else {"shift": float(self.shifts)}
            return {"weights": self.weights.tolist(), "centre": float(self.constant), **shift}
        return {"slope": self.slope, "shifts": np.asarray(self.shifts).tolist()}

    @classmethod
    def from_plain(
        cls, body: dict[str, Any] | None, classes: int, ends: tuple[float, float] | None = None
    ) -> Mixture | None:
        """The combination of one model and the constant from plain data; None if a model has none.

        Args:
            body: Plain data.
            classes: Number of classes.
            ends: Ends of the declared range of numbers; None for classes.

        Raises:
            ValueError: It is of several models or of other classes, or not of finite numbers.
        """
        if body is None:
            return None
        if ends is None:
            numbers, expected = np.array([body["slope"], *body["shifts"]], np.float64), 1 + classes
            found = cls(_even(classes), np.ones(1), slope=float(numbers[0]), shifts=numbers[1:])
        else:
            numbers, expected = np.array([body["centre"], body.get("shift", 0.0), *body["weights"]], np.float64), 3
            found = cls(numbers[0], numbers[2:], shifts=numbers[1] if "shift" in body else None, ends=ends)
        if len(numbers) != expected or found.slope < 0.0 or not np.isfinite(numbers).all():
            raise ValueError("a combination of other models or classes, or of numbers that are not finite")
        return found

    def moved(
        self, predicted: Float[np.ndarray, "n ..."], slope: float, shifts: Float[np.ndarray, "k"] | float = 0.0
    ) -> Float[np.ndarray, "n ..."]:
        """Predictions whose distance from the constant is multiplied by a slope."""
        if self.ends is None:
            start = np.log(np.maximum(self.constant, _LEAST))
            return softmax(start + slope * (np.log(np.maximum(predicted, _LEAST)) - start) + shifts)
        offsets = np.clip(predicted, *self.ends) - self.constant
        return np.asarray(np.clip(self.constant + slope * offsets + shifts, *self.ends))


#: The names that files of earlier versions have.
NumberMixture = Mixture


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions of rows by models that were fitted on others, beside the released labels of these rows.

    Attributes:
        labels: Released labels of h rows; of numbers, numbers whose means are the labels.
        predictions: Predictions by m models: probabilities in declared order, shape (m, h, k), or numbers (m, h).
        weights: Weights of rows; of numbers in inverse proportion to their variances too.
        units: The privacy units of the rows.
        varies: False for a model that predicts the same for every row.
        posterior: True for a model whose predictions are means given the released labels.
        start: The mixture of no models: the constant of all rows.
        solve: Function of these that returns the best mixture.
        constants: Of numbers, for each row the constant of the rows that models were fitted on; None of classes.
        counts: Of numbers some of which say more than others, weights that do not depend on that; else None.
        spread: Of numbers, the variance of labels.
    """

    labels: Any
    predictions: Float[np.ndarray, "m h ..."]
    weights: Float[np.ndarray, "h"]
    units: Units
    varies: Bool[np.ndarray, "m"]
    posterior: Bool[np.ndarray, "m"]
    start: Mixture
    solve: Callable[[HeldOut], Mixture]
    constants: Float[np.ndarray, "h"] | None = None
    counts: Float[np.ndarray, "h"] | None = None
    spread: float = 0.0

    def take(self, rows: np.ndarray) -> Self:
        """The problem of some of the rows; of classes with the shares of these rows alone."""
        labels, units = self.labels[rows], self.units.take(rows)
        own = self.start if self.constants is not None else replace(self.start, constant=shares_of_rows(labels, units))
        return replace(
            self,
            start=own,
            labels=labels,
            predictions=self.predictions[:, rows],
            weights=self.weights[rows],
            units=units,
            constants=None if self.constants is None else self.constants[rows],
            counts=None if self.counts is None else self.counts[rows],
        )

    def best(self) -> Mixture:
        """The best mixture."""
        return self.solve(self)

    def mixed(self, mixture: Mixture) -> Float[np.ndarray, "h ..."]:
        """Predictions of the rows by a mixture, of numbers around the constants of other rows."""
        own = mixture if self.constants is None else replace(mixture, constant=self.constants)
        return own(self.predictions)

    def cross_fitted(self, parts: Parts) -> Float[np.ndarray, "h ..."]:
        """Predictions for rows that neither the models nor their combination were fitted on.

        The combination is fitted on the rows of other folds. Their predictions are by models that saw these rows, so a
        held-out label has a small influence on the weights that it is judged by, as in any stacking without nested
        folds.
        """

        def others(fit: np.ndarray, held: np.ndarray) -> Float[np.ndarray, "m ..."]:
            return self.take(held).mixed(self.take(fit).best())

        return predict_others(parts, len(self.weights), others)


def held_out_classes(
    release: Release,
    fitted: Sequence[Fitted],
    rows: Int[np.ndarray, "h"],
    _: Parts,
    units: Units,
    sample_weight: Float[np.ndarray, "n"] | None = None,
    *,
    doubt: bool = False,
) -> HeldOut:
    """The problem of class probabilities of rows that were held out from models.

    Args:
        release: Released labels of n rows.
        fitted: The models.
        rows: The rows that were held out.
        units: The privacy units of the n rows.
        sample_weight: Weights of the n rows.
        doubt: True for class shares unless the mixture of a single model is clearly better.
    """
    weights = np.ones(len(release)) if sample_weight is None else sample_weight
    solve = _likeliest_or_shares if doubt else _likeliest
    start = Mixture(shares_of_rows(release, units), np.empty(0))  # all rows tell it better than those held out
    return _held_out(release[rows], fitted, weights[rows], units.take(rows), start, solve)


def held_out_numbers(
    release: Release,
    fitted: Sequence[Fitted],
    rows: Int[np.ndarray, "h"],
    parts: Parts,
    units: Units,
    sample_weight: Float[np.ndarray, "n"] | float = 1.0,
) -> HeldOut:
    """The problem of predicted numbers of rows that were held out from models in some folds.

    Args:
        release: Released numbers of n rows; bins are decoded.
        fitted: The models.
        rows: The rows that were held out.
        parts: Rows to fit on and held-out rows of each fold.
        units: The privacy units of the n rows.
        sample_weight: Weights of the n rows.
    """
    numbers, ends = decoded_numbers(release), ends_of(release)
    counts, spread = np.broadcast_to(sample_weight, numbers.shape), label_variance(release, numbers)
    weights, constants, differ = counts * precisions(release, numbers), np.empty(len(numbers)), differ_by_row(release)

    def constant(some: Int[np.ndarray, "m"]) -> float:
        precise = expected_mean(numbers[some], weights[some], *ends)
        if not differ:
            return precise
        more = towards_all(precise, numbers[some], spread, units.take(some), counts[some])
        return float(np.clip(precise + more, *ends))

    for fit, held in parts:
        constants[held] = constant(fit)
    start = Mixture(np.asarray(constant(np.arange(len(numbers)))), np.empty(0), ends=ends)
    found = _held_out(numbers[rows], fitted, weights[rows], units.take(rows), start, _least_squares)
    found = replace(found, predictions=np.clip(found.predictions, *ends), constants=constants[rows], spread=spread)
    return replace(found, counts=counts[rows]) if differ else found


def _held_out(
    labels: Any, fitted: Sequence[Fitted], weights: np.ndarray, units: Units, start: Mixture, solve: Any
) -> HeldOut:
    predictions = np.reshape([each.held_out for each in fitted], (len(fitted), len(weights), *start.constant.shape))
    varies = np.array([each.varies for each in fitted], dtype=bool)
    posterior = np.array([each.posterior for each in fitted], dtype=bool)
    return HeldOut(labels, predictions, weights, units, varies, posterior, start, solve)


def _likeliest(problem: HeldOut) -> Mixture:
    """The mixture of largest likelihood for rows that the models were not fitted on.

    Released labels decide in three steps: the slope of each model, the weights, and the slope and the shifts of the
    mean. The logarithm of a slope has a Cauchy prior around 0, weights have a Dirichlet prior around even ones, and
    shifts a normal prior around those under which classes are as common as they are, or less of these where fewer
    effective rows tell it. At last classes become as common as all rows say (``_to_all``). The likelihood is
    that of the released labels under the channel, so this is exact for every channel. A model that predicts the same
    for every row has no weight: it tells nothing of rows, and in the mean would move others' predictions towards the
    most common class.

    References:
        Wolpert 1992 (stacking); Breiman 1996 and van der Laan, Polley and Hubbard 2007, for weights on the simplex
        and why they do nearly as well as the best model in hindsight; Guo et al. 2017 (slopes); Platt 1999 and
        Alexandari, Kundaje and Shrikumar 2020 (shifts).
    """
    release, rows, used = problem.labels, problem.weights, problem.varies
    likelihood = release.likelihood()
    likelihood = likelihood / likelihood.max(axis=1, keepdims=True)
    models = len(used)
    found = Mixture(_shares(release), np.zeros(models))
    slopes = np.array([_likeliest_slope(likelihood, each, found, rows) for each in problem.predictions])
    if not used.any():
        return replace(problem.start, weights=np.zeros(models), slopes=slopes)
    moved = [found.moved(each, slope) for each, slope in zip(problem.predictions, slopes, strict=True)]
    weights = np.zeros(models)
    weights[used] = _likeliest_weights(np.stack([(likelihood * each).sum(axis=1) for each in moved])[used], rows)
    mean = np.tensordot(weights, np.stack(moved), axes=1)
    effective = effective_share(release) * float(rows.sum())
    usual = shifts_to(found.constant, np.log(np.maximum(mean, _LEAST)), rows) * effective / (effective + _OWN_ROWS)
    slope, shifts = _likeliest_line(release, mean, found, rows, _SHIFT_VARIANCE, usual)
    return _to_all(problem, replace(found, weights=weights, slopes=slopes, slope=slope, shifts=shifts))


def _likeliest_or_shares(problem: HeldOut) -> Mixture:
    """The likeliest slope and shifts of one model, or class shares in doubt.

    It is the shares unless the likelihood of the model so moved exceeds theirs by more than the standard error of the
    difference. As both were fitted on these rows, that is where the slope is about two standard errors above zero:
    without signal, in one case of forty.
    """
    shares = Mixture(_shares(problem.labels), np.zeros(1))
    slope, shifts = _likeliest_line(problem.labels, problem.predictions[0], shares, problem.weights, _WIDE_VARIANCE)
    mixture = replace(shares, weights=np.ones(1), slope=slope, shifts=shifts)
    own, constant = (gain(problem.labels, each(problem.predictions)) for each in (mixture, shares))
    return _to_all(problem, mixture if is_clearly_better(own, constant, problem.units) else shares).of_one()


def _to_all(problem: HeldOut, found: Mixture) -> Mixture:
    """A mixture with classes as common as all rows say: it was fitted where labels say most, or to some rows alone."""
    if found.is_constant:
        return replace(found, constant=problem.start.constant)
    of_all, of_held_out = (np.maximum(each.constant, _LEAST) for each in (problem.start, found))
    more = np.log(of_all / of_held_out)  # zero where all rows were held out
    if differ_by_row(problem.labels):
        more = shifts_to(of_all, np.log(np.maximum(found(problem.predictions), _LEAST)), problem.weights)
    return replace(found, shifts=more if found.shifts is None else found.shifts + more)


def _even(classes: int) -> Float[np.ndarray, "k"]:
    """Even class shares."""
    return np.full(classes, 1.0 / classes)


def _shares(release: Release) -> Float[np.ndarray, "k"]:
    """The likeliest class shares."""
    return np.asarray(softmax(share_logits(release)[None])[0])


def _likeliest_slope(
    likelihood: Float[np.ndarray, "n k"], predicted: Float[np.ndarray, "n k"], shares: Mixture, rows: np.ndarray
) -> float:
    """The slope of largest likelihood times its prior, of predictions over class shares."""
    start = np.log(np.maximum(shares.constant, _LEAST))
    likelihood, offsets = map(np.asfortranarray, (likelihood, np.log(np.maximum(predicted, _LEAST)) - start))

    def loss(power: float) -> float:
        hit = (likelihood * softmax(start + math.exp(power) * offsets)).sum(axis=1)
        return math.log1p((power / _SPREAD) ** 2) - float((rows * np.log(hit)).sum())

    bounds = (math.log(_FLATTEST), math.log(_STEEPEST))
    return math.exp(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": _TOLERANCE}).x)


def _likeliest_line(
    release: Release,
    predicted: Float[np.ndarray, "n k"],
    shares: Mixture,
    rows: np.ndarray,
    variance: float,
    usual: Float[np.ndarray, "k"] | float = 0.0,
) -> tuple[float, Float[np.ndarray, "k"]]:
    """The slope of predictions over class shares, and shifts of their logarithms, of largest likelihood times prior.

    The prior of shifts is normal around usual ones.
    """
    start, loss = np.log(np.maximum(shares.constant, _LEAST)), row_loss(release, "likelihood")
    offsets = np.log(np.maximum(predicted, _LEAST)) - start

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        power, shifts = point[0], point[1:]
        steep = math.exp(power) * offsets
        logits = start + steep + shifts
        moves = shifts - usual
        value = loss(logits, rows) + math.log1p((power / _SPREAD) ** 2) + 0.5 * float(moves @ moves) / variance
        of_power = float(np.vdot(logits, steep)) + 2.0 * power / (_SPREAD**2 + power**2)  # logits became the gradient
        return value, np.array([of_power, *(logits.sum(axis=0) + moves / variance)])

    bounds = [(math.log(_FLATTEST), math.log(_STEEPEST)), *[(None, None)] * len(start)]
    first = np.append(0.0, np.broadcast_to(usual, start.shape))
    found = minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds).x
    return math.exp(found[0]), np.asarray(found[1:])


def _likeliest_weights(chances: Float[np.ndarray, "m n"], rows: Float[np.ndarray, "n"]) -> Float[np.ndarray, "m"]:
    """Weights of largest likelihood times their prior, by expectation maximisation from even ones.

    Args:
        chances: P(released label) of each row by each model, up to a factor for each row.
        rows: Weights of rows.
    """
    weights = np.full(len(chances), 1.0 / len(chances))
    for _ in range(_ROUNDS):
        before, sums = weights, chances @ (rows / (weights @ chances))
        weights = weights * sums + _PRIOR_ROWS
        weights = weights / weights.sum()
        if np.abs(weights - before).max() < _WEIGHT_TOLERANCE:
            break
    return np.asarray(weights)


def _least_squares(problem: HeldOut) -> Mixture:
    """The mixture of least squared error against released numbers, in doubt near the mean label.

    Released numbers have labels as their means, so the squared error against them targets the one against labels. Two
    steps decide. First weights of at least 0 with a normal prior: they minimise
    ``sum_i p_i (z_i - c_i - sum_j a_j d_ij)^2 / (2 s^2) + sum_j (a_j - b_j)^2 / (2 v)`` for the numbers z with
    precisions p, means c of other folds, predictions ``c + d``, variance ``s^2`` of weighted residuals, and prior
    variance v: few effective rows move weights little. The prior means b are equal and sum to one for models whose
    predictions are posterior means, and 0 for others, unless there are others alone. Then the expected factor towards
    the mean label (``shrinkage``). Where labels of some rows say more, at last the mean is that of all rows.

    References:
        Wolpert 1992 and Breiman 1996 (stacking with weights of at least 0).
    """
    models, posterior = len(problem.predictions), problem.posterior
    if not models:
        return problem.start
    scale = np.sqrt(problem.weights)
    offsets, targets = problem.predictions - problem.constants, problem.labels - problem.constants
    matrix, goal = (offsets * scale).T, targets * scale
    residual = goal - matrix @ nnls(matrix, goal)[0]
    prior = np.sqrt(max(float((residual**2).mean()), np.finfo(float).tiny) / _WEIGHT_VARIANCE)
    rows, usual = np.concatenate([matrix, prior * np.eye(models)]), bool(posterior.any())
    before = posterior / posterior.sum() if usual else np.full(models, 1.0 / models)
    weights = nnls(rows, np.append(goal, prior * before))[0]
    factor = shrinkage(weights @ offsets, targets, problem.weights, problem.units, calibrated=usual)
    found = replace(problem.start, weights=factor * weights, slopes=None)
    if problem.counts is None:
        return found
    left = problem.labels - problem.mixed(found)
    return replace(found, shifts=towards_all(0.0, left, problem.spread, problem.units, problem.counts))
