"""Privacy-loss profile: share of rows by the leakage of features and released label together.

Its band is simultaneous (Dvoretzky, Kiefer and Wolfowitz).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from scipy.special import logit

from labeldp import _checks
from labeldp._arrays import freeze_arrays
from labeldp._confidence_intervals import clopper_pearson_lower
from labeldp._progress import Progress
from labeldp._shapes import Float, Int
from labeldp.audit._audit import check_confidence
from labeldp.audit.attacks._class_probability import Bracket, ClassIndicators
from labeldp.audit.attacks._instance_loss import InstanceLoss, feature_part, label_epsilon, turning_logit
from labeldp.audit.attacks._neighbours import check_features, neighbour_sums
from labeldp.errors import InputError
from labeldp.release import Release, RowRelease, check_same_rows

#: Ratio of the counts at which exact bounds are taken, from either end.
_RATIO = 1.1


def survival_band(rows: int, level: float) -> Float[np.ndarray, "rows_and_one"]:
    """Lower confidence band of P(value >= tau), for all tau at once, by the count of values of at least tau.

    Entry c is the bound for the tau at which c of the n independent values are at least tau. It holds for all tau at
    once, except with a probability of ``level``. One minus entry n - c is an upper bound, which fails with the same
    probability.

    Proof. Two bounds have half of the level each, and the larger one is taken. The first is that of Dvoretzky, Kiefer
    and Wolfowitz with Massart's constant, ``c/n - sqrt(ln(1/a) / (2n))`` with a the half level, at most 1/2. The second
    is exact at some counts m that are fixed beforehand. Let T be the m-th largest value and ``J(t) = P(value >= t)``.
    ``J(T)`` is at least as large as the m-th smallest of n independent uniform values, since ``P(J(value) <= u) <= u``.
    That order statistic has a beta distribution with parameters m and n - m + 1, whose quantile is Clopper and
    Pearson's bound at a count of m. So ``J(T)`` is below the bound with a probability of at most the level of the
    quantile; all quantiles share a evenly. Wherever m values or more are at least tau, ``tau <= T`` and so ``J(tau) >=
    J(T)``. For the other side take negative values and the counts that are below tau: ``P(value < tau)`` is at least
    entry n - c.

    Args:
        rows: n, at least 1.
        level: Error probability, above 0 and at most 1/2.

    Returns:
        Increasing bounds, for counts 0 to n.

    References:
        Massart 1990; Clopper and Pearson 1934.
    """
    counts = np.arange(rows + 1)
    even = counts / rows - math.sqrt(math.log(2.0 / level) / (2.0 * rows))
    some = _fixed_counts(rows)
    exact = np.zeros(rows + 1)
    exact[some] = clopper_pearson_lower(some, rows, level / 2.0 / len(some))
    return np.asarray(np.maximum(np.maximum.accumulate(exact), even).clip(0.0, 1.0))


def _fixed_counts(rows: int) -> Int[np.ndarray, "m"]:
    """Counts from 1 to all rows, dense at both ends."""
    near = np.unique(np.floor(_RATIO ** np.arange(math.log(rows) / math.log(_RATIO) + 1)).astype(np.int64))
    near = near[near <= rows]
    return np.unique(np.concatenate([near, rows + 1 - near]))


#: The label flipping probabilities of the paper's Figure 2, whose epsilons are those of half as many flips.
_FLIPS = (0.001, 0.01, 0.1)
#: Split of the error probability: bounds of rows, share of the second class, counting of rows.
_OF_ROWS, _OF_SHARE, _OF_COUNTS = 0.5, 0.1, 0.4
_MOST_NEIGHBOURS, _ROWS_FOR_A_NEIGHBOUR = 1000, 20
_EVALUATED = 20_000
_INDEPENDENT = (
    "rows are independent draws from one population, and those evaluated were chosen without looking at labels"
)
_TAUS = 201


@dataclass(frozen=True, eq=False)
class LossCurve:
    """J(tau): share of rows of which features and released label together leak at least tau on average.

    Attributes:
        flip: Probability that the other class is released.
        epsilon: Epsilon of such labels with static features, ``ln((1 - flip) / flip)``; the certified one of a release.
        least: The minimum of H: every row leaks at least this on average, whatever its features.
        taus: Losses in nats, shape (t,), at which the next three are given.
        lower: Lower bound of J, for all taus at once.
        estimate: Estimate of J by the mean labels of neighbours.
        upper: Upper bound of J, for all taus at once.
        rows: Lower bound, estimate and upper bound of the loss of each evaluated row, each sorted by itself, shape (3,
            m).
        band: Lower bound of J by the number of the m rows beyond tau, shape (m + 1,).
    """

    flip: float
    epsilon: float
    least: float
    taus: Float[np.ndarray, "t"]
    lower: Float[np.ndarray, "t"]
    estimate: Float[np.ndarray, "t"]
    upper: Float[np.ndarray, "t"]
    rows: Float[np.ndarray, "3 m"]
    band: Float[np.ndarray, "m_and_one"]

    def __post_init__(self) -> None:
        freeze_arrays(self, *(each.name for each in fields(self) if isinstance(getattr(self, each.name), np.ndarray)))

    def share(self, tau: float) -> Bracket:
        """J at any tau, with the confidence of the whole curve; exactly 1 up to the minimum of H.

        Args:
            tau: A loss in nats.
        """
        bounds = shares_at(np.array([_checks.number(tau, "tau")]), self.rows, self.band, self.least)
        return Bracket(*(float(part[0]) for part in bounds))

    @property
    def beyond(self) -> Bracket:
        """Share of rows that leak at least the static epsilon on average."""
        return self.share(self.epsilon)

    def loss(self, share: float) -> Bracket:
        """Loss of the most exposed rows: bounds and estimate of the largest tau that a share of rows reaches.

        Args:
            share: Share of all rows, above 0 and at most 1.

        Returns:
            Losses in nats; infinite if labels are practically revealed.
        """
        target = _checks.share(share, "a share of rows", "(]")
        count = self.rows.shape[1]
        even = np.arange(count + 1) / count
        ends = [
            _loss_at_share(losses, shares, target) for losses, shares in zip(self.rows, (self.band, even), strict=False)
        ]
        most = _loss_at_share(self.rows[2], 1.0 - self.band[::-1], target)
        return Bracket(max(ends[0], self.least), max(ends[1], self.least), max(most, self.least))


@dataclass(frozen=True, eq=False)
class LossProfile:
    """Loss curves of several flip probabilities, and their assumptions.

    Attributes:
        curves: One for each flip probability, smallest first.
        classes: The two declared classes.
        p_plus: Share of the second class: bounds and estimate.
        total: Rows among which neighbours were searched.
        evaluated: Rows whose loss was bounded.
        neighbours: k, the number of neighbours of each row.
        confidence: Probability, over rows and labels, that all bounds of a curve hold if the assumptions do; the same
            for all curves together, since they share all randomness.
        assumptions: Assumptions of the bounds, in sentences.
        public: True if the labels were declared public; otherwise they were released ones, and the profile costs
            nothing.
    """

    curves: tuple[LossCurve, ...]
    classes: tuple[object, object]
    p_plus: Bracket
    total: int
    evaluated: int
    neighbours: int
    confidence: float
    assumptions: tuple[str, ...]
    public: bool

    def of(self, flip: float) -> LossCurve:
        """The curve of one of the flip probabilities."""
        for curve in self.curves:
            if math.isclose(curve.flip, flip, rel_tol=1e-9):
                return curve
        known = ", ".join(f"{curve.flip:g}" for curve in self.curves)
        raise InputError(f"expected a flip probability among {known}, found {flip!r}; pass it to loss_profile")

    def chances_beyond(self, flip: float) -> tuple[float, float]:
        """Probabilities of the second class up to which, and from which on, rows leak at least the static epsilon.

        Computed with the estimated share of the second class.
        """
        loss = InstanceLoss(flip, self.p_plus.estimate)
        low, high = loss.chances_at(max(loss.epsilon, loss.least[1]))
        return float(low), float(high)


@dataclass(frozen=True)
class Neighbourhood:
    """The other rows by which a row is judged, and an assumption on how probabilities differ among them.

    Attributes:
        count: k, the number of nearest rows. None: 1000, or a twentieth of the rows if that is fewer. More neighbours
            narrow the bounds, and blur differences between small groups of rows.
        smoothness: C, at least 0. An assumption, listed in the result.
        exponent: beta, above 0 and at most 1.

    Raises:
        InputError: A number is out of range.
    """

    count: int | None = None
    smoothness: float = 0.0
    exponent: float = 1.0

    def __post_init__(self) -> None:
        _checks.not_negative(self.smoothness, "smoothness")
        _checks.share(self.exponent, "exponent", "(]")

    def size(self, rows: int) -> int:
        """The number of neighbours among so many rows."""
        if self.count is None:
            return max(1, min(_MOST_NEIGHBOURS, rows // _ROWS_FOR_A_NEIGHBOUR))
        return _checks.whole(self.count, "neighbours", 1, rows - 1)

    def blur(self, rows: int) -> float:
        """Largest difference between the probabilities of a row and its nearest rows, ``C (2k / (n - 1))^beta``."""
        return float(self.smoothness * (2.0 * self.size(rows) / (rows - 1)) ** self.exponent)

    def remaining_level(self, level: float, rows: int) -> float:
        """Error probability that remains for a row, less that of too large a ball of neighbours."""
        spent = math.exp(-self.size(rows) / 4.0) if self.smoothness else 0.0
        if spent > level / 2.0:
            raise InputError(
                f"expected at least {math.ceil(4.0 * math.log(2.0 / level))} neighbours for a smoothness above 0 at "
                f"this confidence, found {self.size(rows)}; take more, or evaluate fewer rows"
            )
        return level - spent

    def sentence(self, second: object, rows: int) -> str:
        """The assumption as a sentence."""
        what, k = f"for each row the probability of {second!r} given its features", self.size(rows)
        if not self.smoothness:
            return f"{what} is the mean of those of its {k:,} nearest rows (smoothness 0)"
        return (
            f"{what} differs by at most {self.blur(rows):.3g} from those of its {k:,} nearest rows (smoothness "
            f"{self.smoothness:g}, exponent {self.exponent:g})"
        )


#: Neighbours without an assumed difference.
EQUAL_NEIGHBOURS = Neighbourhood()


def loss_profile(
    features: object,
    release: Release | RowRelease,
    *,
    flips: Sequence[float] | None = None,
    p_plus: float | None = None,
    neighbourhood: Neighbourhood = EQUAL_NEIGHBOURS,
    rows: int | Sequence[int] | np.ndarray | None = None,
    confidence: float = 0.99,
    progress: Progress | None = None,
) -> LossProfile:
    """Bound, for all losses tau at once, the share of rows whose leakage is at least tau.

    If labels of two classes are flipped with probability pi and released beside their features, an observer's odds of a
    row's label change by the factor exp(nu). ``J(tau)`` is the share of rows whose nu, averaged over the row's label
    and its flip, is at least tau. Epsilon bounds the leakage of the released label; J also counts that of the features,
    which epsilon does not bound.

    The probability of the second class given a row's features is bounded by the labels of its k nearest other rows, and
    so is its loss; then rows are counted. Curves of several flip probabilities differ by a constant and are computed at
    once.

    Labels are given as a release. Those declared public (``Release.public``) are used as they are. For released ones,
    the rate at which neighbours' labels contain the second class is ``b + (a - b) m`` for the mean probability m, with
    a and b the channel's probabilities; the bounds are inverted accordingly, and get wider by ``1 / (a - b)``. Groups
    of rows with channels of their own, and candidates, are supported: a and b are then means over neighbours, and
    uninformative rows have no weight.

    Guarantee:
        This is not a release mechanism. From public or released labels it costs nothing. A curve from true labels
        discloses information about them and is itself a release: keep it on the curator's side, or charge for it, by
        requesting a release from a curator and passing that here.

        With probability at least ``confidence``, under the assumptions listed in the result, every J(tau) and every
        curve lies between its bounds, for all tau at once. Proof, with d = 1 - confidence and m evaluated rows.

        *Rows* (d / 2). Given all features, labels of different rows are independent. Neighbours are determined by
        features, with ties broken by a fresh random order, not by the order of the rows, which may follow labels. The
        count s of second classes among k neighbours is a sum of independent indicators of mean ``k r``, r the mean of
        their probabilities. Clopper and Pearson's bounds at level ``d / (4m)`` on each side hold for r: suppose r is
        below the bound that s gives. Then s is at least some s* with ``P(Bin(k, r) >= s*) < d/(4m)``. If ``k r > 1``,
        ``P(Bin(k, r) >= k r) > 1/4`` (Greenberg and Mohri 2014), so ``s* >= k r + 1``, and there the tail of s is at
        most the binomial one (Hoeffding 1956, theorem 4). The same holds if ``k r <= 1`` and ``s* >= 2``. If ``s* =
        1``, ``P(s >= 1) <= k r``, which is below the level since at a count of one the bound is taken to be at most
        ``d/(4mk)``. The other side follows by exchanging the classes. All rows together are missed with a probability
        of at most d / 2; they need not be independent, and evaluated rows may be neighbours of others.

        *Smoothness.* The probability of a row differs by at most ``C (2k/(n-1))^beta`` from those of its neighbours, if
        probabilities at two points differ by at most C times the beta-th power of the probability of the open ball
        around one that ends at the other, and this ball has at most ``2k/(n-1)`` of all probability. It has more with a
        probability of at most ``exp(-k/4)`` (a Chernoff bound), which is subtracted from the level of each row. C = 0
        is the assumption that probabilities are equal among k neighbours, and costs nothing.

        *Share of the second class* (d / 10, where ``p_plus`` is not given). Exact bounds from all rows.

        *Loss.* H decreases, then increases, in the probability, and is monotone in ``p_plus`` on either side of a
        probability of 1/2. So its smallest and its largest value over both intervals are found at their ends, at 1/2
        and at the minimum.

        *Counting* (2d / 5). Losses of evaluated rows are independent, as their features are. ``survival_band`` bounds J
        for all tau by the number of them that are at least tau. That number is at least as large as for their lower
        bounds, at most as large as for their upper bounds, and the band increases with it.

    Args:
        features: Public features as numbers, shape (n, d), on a common scale; distances are Euclidean.
        release: The labels of these rows, of two classes, declared public or released.
        flips: Probabilities that the other class is released, above 0 and at most 1/2. By default that of the release;
            for labels that were declared public 0.001, 0.01 and 0.1.
        p_plus: The share of the second declared class in the population. None: estimated, with bounds.
        neighbourhood: k, C and beta.
        rows: Number of rows to evaluate, drawn at random, or their row numbers, chosen without looking at labels. None:
            20 000, or all if there are fewer.
        confidence: Of all bounds together, at least 0.5 and below 1.
        progress: Called with the name of the work, the rows done, and the total number of rows.

    Returns:
        Curves with their bounds at evenly spaced losses, and their assumptions. ``LossCurve.share`` gives any other
        loss; at and below the minimum of H, J is exactly 1.

    Raises:
        InputError: Features are not finite numbers in as many rows as there are labels; there are not two classes; the
            labels do not determine the share of the second class; or k is too small for a smoothness above 0.

    References:
        Busa-Fekete et al. 2023, section 6 and appendix D. Equation (14) lacks a factor 1/n, and its second indicator
        must use the upper branch of H, which is symmetric only if ``p_plus`` is 1/2; their intervals are Hoeffding's.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Release
        >>> features = np.linspace(0.0, 1.0, 4000)[:, None]
        >>> labels = np.where(features[:, 0] > 0.5, "yes", "no")
        >>> profile = loss_profile(features, Release.public(labels, Classes(["no", "yes"])), flips=[0.2])
        >>> curve = profile.of(0.2)
        >>> round(curve.epsilon, 2), curve.beyond.lower > 0.8, curve.share(curve.least).upper
        (1.39, True, 1.0)
    """
    points = check_features(features, len(release))
    release = release.labels if isinstance(release, RowRelease) else release
    check_same_rows(features, release)
    indicators = ClassIndicators.of(release)
    level = check_confidence(confidence)
    k = neighbourhood.size(len(points))
    evaluated = _rows_to_evaluate(rows, len(points))
    instances = [InstanceLoss(flip, 0.5) for flip in _flip_probabilities(flips, indicators, public=release.is_public)]
    error = 1.0 - level
    row_level = neighbourhood.remaining_level(error * _OF_ROWS / len(evaluated), len(points))
    share = indicators.share(p_plus, error * _OF_SHARE)
    order = np.random.default_rng().permutation(len(points))  # breaks ties independently of the labels
    sums = neighbour_sums(points[order], np.argsort(order)[evaluated], indicators.values[order], k, progress)
    losses = _loss_bounds(indicators.probabilities(sums, k, row_level, neighbourhood.blur(len(points))), share)
    band = survival_band(len(evaluated), error * _OF_COUNTS / 2.0)
    centres = logit([share.lower, share.upper])
    least = 1.0 - math.cosh(max(abs(turning_logit(float(centre))) for centre in centres))
    first_class, second_class = release.space.points
    declared = () if p_plus is None else (f"the share of {second_class!r} is {share.estimate:g}, as declared",)
    return LossProfile(
        curves=tuple(
            _curve(chance, label_epsilon(chance.flip, release.channel), losses, least, band) for chance in instances
        ),
        classes=(first_class, second_class),
        p_plus=share,
        total=len(points),
        evaluated=len(evaluated),
        neighbours=k,
        confidence=level,
        assumptions=(_INDEPENDENT, neighbourhood.sentence(second_class, len(points)), *declared),
        public=release.is_public,
    )


def _rows_to_evaluate(rows: int | Sequence[int] | np.ndarray | None, total: int) -> Int[np.ndarray, "m"]:
    """Row numbers to evaluate, drawn at random unless given."""
    if rows is None or isinstance(rows, int):
        count = min(_EVALUATED, total) if rows is None else _checks.whole(rows, "rows", 1, total)
        return np.sort(np.random.default_rng().choice(total, count, replace=False))
    numbers = np.asarray(rows)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not len(numbers):
        raise InputError(f"expected numbers of rows to evaluate, found {numbers.dtype} of shape {numbers.shape}")
    if numbers.min() < 0 or numbers.max() >= total or len(np.unique(numbers)) < len(numbers):
        raise InputError(f"expected different row numbers between 0 and {total - 1}, found others")
    return numbers.astype(np.int64)


def _flip_probabilities(flips: Sequence[float] | None, indicators: ClassIndicators, *, public: bool) -> list[float]:
    """Distinct flip probabilities in increasing order."""
    if flips is None and public:
        return list(_FLIPS)
    if flips is None:
        if indicators.flip is None:
            raise InputError(
                "expected a release whose labels are all flipped with one probability, found several, as of people "
                "with several rows (in Python: pass flips=, for the profile of each)"
            )
        return [indicators.flip]
    probabilities = sorted({_checks.number(flip, "flip") for flip in flips})
    if not probabilities:
        raise InputError("expected at least one flip probability, found none")
    return probabilities


def _loss_bounds(
    chances: tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m"], Float[np.ndarray, "m"]], share: Bracket
) -> Float[np.ndarray, "3 m"]:
    """Bounds and estimate of the feature part of each row's loss, each sorted by itself.

    Below a probability of 1/2 the loss increases with the share of the second class, above it decreases. On either side
    the smallest value is at the minimum, clipped to the interval; the largest one is at an end, since the larger of two
    functions that decrease and then increase does so too.
    """
    low, middle, high = (logit(chance) for chance in chances)
    c_low, c_middle, c_high = (float(logit(each)) for each in (share.lower, share.estimate, share.upper))
    left = feature_part(np.clip(turning_logit(c_low), low, np.minimum(high, 0.0)), c_low)
    right = feature_part(np.clip(turning_logit(c_high), np.maximum(low, 0.0), high), c_high)
    least = np.minimum(np.where(low <= 0.0, left, np.inf), np.where(high >= 0.0, right, np.inf))
    most = np.maximum(_largest_loss(low, c_low, c_high), _largest_loss(high, c_low, c_high))
    return np.sort(np.stack([least, feature_part(middle, c_middle), most]), axis=1)


def _largest_loss(logits: Float[np.ndarray, "m"], low: float, high: float) -> Float[np.ndarray, "m"]:
    return np.where(logits < 0.0, feature_part(logits, high), feature_part(logits, low))


def shares_at(
    taus: Float[np.ndarray, "t"], rows: Float[np.ndarray, "3 m"], band: Float[np.ndarray, "m_and_one"], least: float
) -> tuple[Float[np.ndarray, "t"], Float[np.ndarray, "t"], Float[np.ndarray, "t"]]:
    """J at some losses: lower bound, estimate and upper bound."""
    count = rows.shape[1]
    low, middle, high = (count - np.searchsorted(losses, taus, side="left") for losses in rows)
    certain = taus <= least
    bounds = (band[low], middle / count, 1.0 - band[count - high])
    lower, estimate, upper = (np.where(certain, 1.0, each) for each in bounds)
    return lower, estimate, upper


def _loss_at_share(losses: Float[np.ndarray, "m"], shares: Float[np.ndarray, "m_and_one"], target: float) -> float:
    """The largest loss at which the share reaches the target; infinite if no row has to reach it."""
    needed = int(np.searchsorted(shares, target, side="left"))
    if needed == 0:
        return math.inf
    return -math.inf if needed > len(losses) else float(losses[len(losses) - needed])


def _curve(
    instance: InstanceLoss,
    epsilon: float,
    losses: Float[np.ndarray, "3 m"],
    least: float,
    band: Float[np.ndarray, "m_and_one"],
) -> LossCurve:
    rows, floor = losses + instance.of_label, least + instance.of_label
    top = max(epsilon, float(rows[np.isfinite(rows)].max(initial=epsilon)))
    taus = np.linspace(floor, top + 0.05 * (top - floor), _TAUS)
    return LossCurve(instance.flip, epsilon, floor, taus, *shares_at(taus, rows, band, floor), rows=rows, band=band)
