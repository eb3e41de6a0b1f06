"""Lower bounds on what features and released labels disclose together, without assumptions on the features.

A *cell* is any group of rows by public columns. An observer who knows a row's columns knows its cell, and more; what
the cell alone discloses is therefore a lower bound on what all of it discloses. Nothing is assumed of how probabilities
change from row to row, and no distance between rows is used.

*The table's own law.* A row is picked from the table at random; X is what an observer knows of it: its columns, its
cell, and perhaps more. Y is its label, Z its released label, and ``chance(x)`` the probability of the second class
given x. The mean of the chances in a cell is the share s of the second class there, whatever else is in x. Released
labels bound s: the number of them that contain the second class is a sum of independent indicators, whose mean is
``b + (a - b) s`` of the rows and whose randomness is the mechanism's coins alone. So the bounds hold for the labels of
this table, whatever they are and however they depend on each other. If the labels of different rows are independent
given the columns, the same bounds hold for their probabilities too: the indicators are then still independent, and the
share is replaced by the mean probability. This is the only reading for labels that were declared public, which have no
coins.

*The least revealing law.* Let cells have weights w and shares within intervals ``[l, u]``. For every total share p
there is a t with ``sum_c w_c clip(t, l_c, u_c) = p``, and the shares ``r_c = clip(t, l_c, u_c)`` have the smallest
``sum_c w_c f(s_c)`` for *every* convex f. Proof: for any others, s, ``f(s_c) - f(r_c) >= f'(r_c) (s_c - r_c) >= f'(t)
(s_c - r_c)``, the first by convexity, the second since r_c is above t only where ``s_c >= l_c = r_c`` and below it only
where ``s_c <= u_c = r_c``; and the weighted sum of the last term is zero. So one family of laws, in the one number t,
is the least revealing for every measure below, and the smallest value over t is the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.special import logit, logsumexp, xlogy

from labeldp import _checks
from labeldp._arrays import freeze_arrays
from labeldp._shapes import Bool, Float, Int
from labeldp.audit._audit import check_confidence
from labeldp.audit.attacks._class_probability import Bracket, ClassIndicators, mean_lower_bound
from labeldp.audit.attacks._instance_loss import InstanceLoss, label_epsilon
from labeldp.errors import InputError
from labeldp.release import Release, RowRelease

#: Share of the error probability for the bounds of the second class's share among all rows.
_OF_SHARE = 0.1
_HALVINGS = 80
_POINTS = 512
#: Relative size by which computed bounds are lowered, for rounding.
_ROUNDING = 1e-10
_COINS = "labels were drawn as the certificate says"
_INDEPENDENT = "labels of different rows are independent given their cells"


@dataclass(frozen=True, eq=False)
class Exposure:
    """Lower bounds on the disclosure of a table's labels by cells of rows and released labels together.

    Attributes:
        classes: The two declared classes.
        flips: Probability that the other class is released of the rows of each cell, shape (c,).
        sizes: Rows of each cell, shape (c,); cells without rows are left out.
        lower: Lower bound of the share of the second class in each cell, shape (c,).
        upper: Upper bound.
        share: Share of the second class among all rows: bounds and estimate.
        confidence: Probability that all bounds of all cells hold, so that all results hold at once.
        assumptions: All that the bounds rest on, in sentences.
        public: True if the labels were declared public.
        epsilon: Largest epsilon of such labels with static features; the certified one of a release.

    Guarantee:
        None about privacy: these are lower bounds on a disclosure. More rows, and better cells, show more of it.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Release
        >>> from labeldp.audit import bound_exposure
        >>> cells = np.arange(4000) % 2
        >>> labels = np.where(cells == 1, "yes", "no")
        >>> exposure = bound_exposure(cells, Release.public(labels, Classes(["no", "yes"])), flip=0.2)
        >>> round(exposure.average, 1), round(exposure.known(0.95), 2)
        (6.6, 0.94)
    """

    classes: tuple[object, object]
    flips: Float[np.ndarray, "c"]
    sizes: Int[np.ndarray, "c"]
    lower: Float[np.ndarray, "c"]
    upper: Float[np.ndarray, "c"]
    share: Bracket
    confidence: float
    assumptions: tuple[str, ...]
    public: bool
    epsilon: float
    weights: Float[np.ndarray, "c"] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", self.sizes / self.sizes.sum())
        freeze_arrays(self, "flips", "sizes", "lower", "upper", "weights")

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.sizes.sum())

    @property
    def of_label(self) -> float:
        """Mean leakage of the released label alone, in nats: what ``average`` is if features disclose nothing."""
        return float(self.weights @ [InstanceLoss(flip, 0.5).of_label for flip in self.flips.tolist()])

    @property
    def needed(self) -> int:
        """About how many rows of one class a cell needs for its interval to exclude even shares, a power of 2."""
        flip, level = float(self.flips.max()), (1.0 - self.confidence) * (1.0 - _OF_SHARE) / len(self.sizes)
        rows = 1
        while 1.0 - mean_lower_bound(np.array([rows * (1.0 - flip)]), np.array([rows]), level / 2)[0] >= 0.5:
            rows *= 2
        return rows

    @property
    def average(self) -> float:
        """Lower bound of E[nu]: by how much the log odds of a row's true label grow on average, in nats.

        It bounds the conditional divergence too: averaged over the two labels, the Rényi divergence of every order
        above 1 between what is released of a row with the one label and with the other is at least E[nu].

        Proof. E[nu] is the mean of H(chance), H convex; by Jensen's inequality it is at least the mean of H over the
        shares of cells. With the total share p, that is ``mean f(s) - f(p)`` plus the label's part, for the convex
        ``f(s) = (2s - 1) logit(s)``. Among the least revealing laws (see the module) its derivative in t is ``m (f'(t)
        - f'(p))``, m the weight of the cells with ``s_c = t``. As ``t - p(t)`` never decreases in t, the smallest value
        is where ``p(t) = t``.

        References:
            Busa-Fekete et al. 2023, corollary 6.3: nu(y, Z, X) is the log likelihood ratio of the release of a row with
            label y, so its mean is the Kullback-Leibler divergence, the Rényi divergence of order 1, and these increase
            with the order (van Erven and Harremoes 2014, theorem 3).
        """
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._total(middle) > middle else (low, middle)
        shares = np.clip((low + high) / 2, self.lower, self.upper)
        total = self.weights @ shares
        gap = float(self.weights @ _signed_evidence(shares) - _signed_evidence(np.array([total]))[0])
        return max(0.0, gap - _ROUNDING * (1.0 + gap)) + self.of_label

    def divergence(self, alpha: float) -> float:
        """Lower bound on the Rényi divergence between what is released of rows with the two labels, in nats.

        No guarantee with conditional features of that order can have a smaller epsilon on this table's law.

        Proof. The released label is independent of the columns given the label, so divergences add up. That of the
        columns is at least that of the cells (data processing), and the label's part at least that of the largest flip
        probability. With ``g(s) = s^alpha (1-s)^(1-alpha)``, which is
        convex, and increases, the divergence of the second class's cells from the first's is ``ln(mean g(s) / g(p)) /
        (alpha - 1)``; the other direction exchanges the classes. For t between two neighbouring points of a grid it is
        at least ``mean g`` at the first over ``g(p)`` at the second.

        Args:
            alpha: The order, above 1 and finite.

        Returns:
            The larger of the bounds of both directions.

        References:
            Busa-Fekete et al. 2023, definition 4.3 and theorem 6.2; van Erven and Harremoes 2014, theorem 9.
        """
        order = _checks.number(alpha, "alpha")
        if not 1.0 < order < math.inf:
            raise InputError(f"expected an order above 1 and finite, found {order!r}; 2 is usual")
        both = ((self.lower, self.upper), (1.0 - self.upper, 1.0 - self.lower))
        columns = max(self._directed(order, low, high) for low, high in both)
        return columns * (1.0 - _ROUNDING) + _label_divergence(float(self.flips.max()), order)

    def beyond(self, tau: float | None = None) -> float:
        """Lower bound of J(tau): share of rows of which features and released label leak at least tau on average.

        Proof. A row leaks tau or more if its chance is at most t0 or at least t1 (``InstanceLoss.chances_at``). Chances
        are at most 1, so in a cell of share s the rows with a chance below t1 are at most ``(1 - s) / (1 - t1)`` of all
        (Markov), and at least ``(s - t1) / (1 - t1)`` reach t1; likewise ``(t0 - s) / t0`` are at or below t0. t0 and
        t1 depend on the total share p, and are extreme at an end of its interval, since at a chance above one half the
        loss decreases in p, and below one half it increases. If tau less the label's part is negative, every row leaks
        tau until p is far enough from one half, and from there on the two move apart with that distance.

        Args:
            tau: A loss in nats. None: for each row the epsilon of its label with static features.

        References:
            Busa-Fekete et al. 2023, section 6, after corollary 6.3, which names Markov's inequality.
        """
        loss = None if tau is None else _checks.number(tau, "tau")
        return sum(self._beyond(flip, loss) for flip in np.unique(self.flips).tolist()) * (1.0 - _ROUNDING)

    def known(self, certainty: float) -> float:
        """Lower bound on the share of rows whose label the columns alone reveal with some certainty.

        It is the share of rows with a chance of at least ``certainty``, or at most one minus it, by the proof of
        ``beyond``. No epsilon changes it.

        Args:
            certainty: Probability of the likelier class, above 1/2 and below 1.
        """
        sure = _checks.number(certainty, "certainty")
        if not 0.5 < sure < 1.0:
            raise InputError(f"expected a certainty above 0.5 and below 1, found {sure!r}; 0.95, for instance")
        return self._outside(1.0 - sure, sure, np.ones(len(self.sizes), dtype=bool)) * (1.0 - _ROUNDING)

    def _total(self, t: float) -> float:
        """Total share of the second class in the least revealing law."""
        return float(self.weights @ np.clip(t, self.lower, self.upper))

    def _total_ends(self) -> tuple[float, float]:
        """Bounds of the total share, by all rows together and by cells."""
        ends = max(self.share.lower, self._total(0.0)), min(self.share.upper, self._total(1.0))
        return max(ends[0], 1e-12), min(ends[1], 1.0 - 1e-12)

    def _beyond(self, flip: float, tau: float | None) -> float:
        """The part of ``beyond`` of the cells with one flip probability."""
        ends, cells = [InstanceLoss(flip, share) for share in self._total_ends()], self.flips == flip
        loss = ends[0].epsilon if tau is None else tau
        if all(loss <= each.least[1] for each in ends):
            return float(self.weights[cells].sum())
        turns = [each.chances_at(max(loss, each.least[1])) for each in ends]
        return self._outside(min(float(low) for low, _ in turns), max(float(high) for _, high in turns), cells)

    def _outside(self, low: float, high: float, cells: Bool[np.ndarray, "c"]) -> float:
        """Lower bound on the share of all rows that are in some cells with a chance of at most low or at least high."""
        above = np.maximum(0.0, self.lower - high) / max(1.0 - high, np.finfo(float).tiny)
        below = np.maximum(0.0, low - self.upper) / max(low, np.finfo(float).tiny)
        return float(self.weights[cells] @ (above + below)[cells])

    def _directed(self, order: float, lower: Float[np.ndarray, "c"], upper: Float[np.ndarray, "c"]) -> float:
        """Lower bound on the divergence of the cells of one class from those of the other."""
        ends = np.clip([lower.min(), upper.max()], 1e-15, 1.0 - 1e-15)
        grid = np.concatenate(
            [[0.0], 1.0 / (1.0 + np.exp(-np.linspace(float(logit(ends[0])), float(logit(ends[1])), _POINTS))), [1.0]]
        )
        shares = np.clip(grid[:, None], lower, upper)
        means = logsumexp(_log_power(shares, order), b=self.weights, axis=1)
        totals = _log_power(shares @ self.weights, order)
        with np.errstate(invalid="ignore"):  # of infinities, which compare nothing
            gaps = np.nan_to_num(means[:-1] - totals[1:], nan=0.0)
        return max(0.0, float(gaps.min())) / (order - 1.0)


def bound_exposure(
    cells: object,
    release: Release | RowRelease,
    *,
    count: int | None = None,
    flip: float | None = None,
    confidence: float = 0.99,
) -> Exposure:
    """Bound from below what cells of rows and their released labels disclose, without assumptions on features.

    If labels of two classes are flipped with probability pi and released beside public columns, the odds of a row's
    label change by the factor exp(nu) for someone who sees both. Epsilon bounds the released label's part; the columns'
    part has no bound, and is shown here from below, by shares of classes in cells.

    Guarantee:
        This is not a release mechanism. From public or released labels it costs nothing. A result from true labels that
        are not public discloses information about them: keep it on the curator's side.

        With probability at least ``confidence`` over the mechanism's coins, every bound holds at once for the rows of
        this table: see the module for the two readings and their proofs. Each of ``count`` cells gets the same part of
        nine tenths of the error probability, half on either side, and the total share the last tenth; the intervals are
        Clopper and Pearson's, lowered as sums of unequal indicators require (``loss_profile`` has the proof).

    Args:
        cells: Cell of each row, from 0, shape (n,), chosen by public columns without looking at the released labels of
            rows in it: ``labeldp.learning.cells.held_out_cells`` finds some from other rows' labels. Cells that were
            chosen with true labels, or an answer about them, are sound for the table's own shares alone.
        release: The labels of these rows, of two classes, declared public or released.
        count: Number of cells that were possible before the labels were seen. None: one more than the largest cell.
        flip: Probability that the other class is released, above 0 and at most 1/2. None: that of the release, row by
            row; cells are then cut by it, as with a privacy unit of several rows.
        confidence: Of all bounds together, at least 0.5 and below 1.

    Raises:
        InputError: Cells are not whole numbers in as many rows as there are labels, or are too many; there are not two
            classes, flipped with known probabilities.

    References:
        Busa-Fekete et al. 2023, section 6, whose estimator needs smooth probabilities and neighbours instead.
    """
    known = release.labels if isinstance(release, RowRelease) else release
    if not len(known):
        raise InputError("expected released labels to bound a disclosure from, found no rows")
    second, rates, groups = _flipped_labels(known, flip)
    numbers, possible = _checked_cells(cells, len(known), count)
    error = 1.0 - check_confidence(confidence)
    parts = len(rates)
    chances = np.tile(rates, (possible, 1))
    sizes, lower, upper = _share_bounds(
        second, numbers * parts + groups, chances, error * (1.0 - _OF_SHARE) / len(chances)
    )
    of_groups = _share_bounds(second, groups, rates, error * _OF_SHARE / parts)
    low, high = (float(of_groups[0] @ each / len(known)) for each in of_groups[1:])
    true, other = rates[groups].T
    about = float(np.mean((second - other) / (true - other)))
    first_class, second_class = known.space.points
    full = sizes > 0
    flips = (np.full(len(chances), InstanceLoss(flip, 0.5).flip) if flip is not None else chances[:, 1])[full]
    return Exposure(
        classes=(first_class, second_class),
        flips=flips,
        sizes=sizes[full],
        lower=lower[full],
        upper=upper[full],
        share=Bracket(low, min(max(about, low), high), high),
        confidence=1.0 - error,
        assumptions=(_INDEPENDENT if known.is_public else _COINS,),
        public=known.is_public,
        epsilon=label_epsilon(float(flips.min()), known.channel),
    )


def _flipped_labels(
    release: Release, flip: float | None
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "g 2"], Int[np.ndarray, "n"]]:
    """Indicators of the second class, their probabilities, and the place of each row among these.

    The probabilities are those given that the label is the second class, and given that it is the first.
    """
    indicators = ClassIndicators.of(release)
    second = indicators.values[:, 0]
    if indicators.true is not None and indicators.other is not None:
        rates, groups = np.array([[indicators.true, indicators.other]]), np.zeros(len(second), dtype=np.int64)
    else:
        rates, groups = np.unique(indicators.values[:, 1:], axis=0, return_inverse=True)
    flips_known = bool((np.abs(rates.sum(axis=1) - 1.0) <= _ROUNDING).all()) and not release.is_public
    if not (rates[:, 0] > rates[:, 1]).all() or (flip is None and not flips_known):
        raise InputError(
            "expected labels of two classes that were flipped with known probabilities, or flip= for public labels, "
            "found others; release by randomized response"
        )
    return second, rates, np.asarray(groups, dtype=np.int64).ravel()


def _checked_cells(cells: object, rows: int, count: int | None) -> tuple[Int[np.ndarray, "n"], int]:
    """Validate cells of rows, and their number."""
    numbers = np.asarray(cells)
    if numbers.shape != (rows,) or numbers.dtype.kind not in "iu" or numbers.min() < 0:
        raise InputError(
            f"expected a cell for each of {rows} rows, a whole number from 0, found {numbers.dtype} of shape "
            f"{numbers.shape}, or a number below 0"
        )
    needed = int(numbers.max()) + 1
    if count is not None and _checks.whole(count, "count", 1) < needed:
        raise InputError(f"expected cells below count, {count}, found {needed - 1}; count all cells that were possible")
    return numbers.astype(np.int64), needed if count is None else count


def _share_bounds(
    second: Float[np.ndarray, "n"], numbers: Int[np.ndarray, "n"], rates: Float[np.ndarray, "c 2"], level: float
) -> tuple[Int[np.ndarray, "c"], Float[np.ndarray, "c"], Float[np.ndarray, "c"]]:
    """Sizes of cells, and bounds of the share of the second class in each.

    An interval outside of 0 to 1 is known to be wrong, and says nothing; so does one without rows.
    """
    sizes = np.bincount(numbers, minlength=len(rates))
    ones, trials = np.bincount(numbers, weights=second, minlength=len(rates)), np.maximum(sizes, 1)
    true, other = rates.T
    low = (mean_lower_bound(ones, trials, level / 2) - other) / (true - other)
    high = (1.0 - mean_lower_bound(sizes - ones, trials, level / 2) - other) / (true - other)
    nothing = (low >= 1.0) | (high <= 0.0) | (sizes == 0)
    return sizes, np.where(nothing, 0.0, np.maximum(low, 0.0)), np.where(nothing, 1.0, np.minimum(high, 1.0))


def _signed_evidence(shares: Float[np.ndarray, "c"]) -> Float[np.ndarray, "c"]:
    """``(2s - 1) logit(s)``, convex, and infinite at 0 and 1."""
    return np.asarray((2.0 * shares - 1.0) * logit(shares))


def _log_power(shares: Float[np.ndarray, "*c"], order: float) -> Float[np.ndarray, "*c"]:
    """``ln(s^alpha (1-s)^(1-alpha))``."""
    with np.errstate(divide="ignore"):
        return np.asarray(xlogy(order, shares) + xlogy(1.0 - order, 1.0 - shares))


def _label_divergence(flip: float, order: float) -> float:
    """Rényi divergence of one label's flip from the other's."""
    keep, change = math.log1p(-flip), math.log(flip)
    forth, back = order * keep + (1 - order) * change, order * change + (1 - order) * keep
    return float(np.logaddexp(forth, back)) / (order - 1.0)
