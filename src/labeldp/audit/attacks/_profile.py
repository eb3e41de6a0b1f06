"""The privacy-loss profile: for which share of rows features and released label together give away how much."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Float, Int
from scipy.special import logit

from labeldp import _checks
from labeldp.audit._audit import check_confidence
from labeldp.audit.attacks._class_probability import Bracket, Counted
from labeldp.audit.attacks._dkw_band import survival_band
from labeldp.audit.attacks._instance_loss import InstanceLoss, feature_part, turning_logit
from labeldp.audit.attacks._neighbours import check_features, neighbour_sums
from labeldp.errors import InputError
from labeldp.release import Release, RowRelease

#: What the paper's Figure 2 calls label flipping probabilities; the epsilons it names are those of half as many flips.
_FLIPS = (0.001, 0.01, 0.1)
#: How much of the chance to be wrong goes to the rows, to the share of the second class, and to counting rows.
_OF_ROWS, _OF_SHARE, _OF_COUNTS = 0.5, 0.1, 0.4
_MOST_NEIGHBOURS, _ROWS_FOR_A_NEIGHBOUR = 1000, 20
_EVALUATED = 20_000
_INDEPENDENT = (
    "rows are independent draws from one population, and those evaluated were chosen without a look at labels"
)
_TAUS = 201


@dataclass(frozen=True, eq=False)
class LossCurve:
    """J(tau), the share of rows of which features and released label together give away at least tau on average.

    Attributes:
        flip: The chance that the other class is released.
        epsilon: The static epsilon of such labels, ``ln((1 - flip) / flip)``.
        least: No row gives away less on average, whatever its features: the minimum of H.
        taus: Losses in nats, shape (t,), at which the three next are given.
        lower: J is at least this, for all taus at once.
        estimate: J by the mean labels of neighbours.
        upper: J is at most this, for all taus at once.
        rows: Bounds and estimate of the loss of each evaluated row, sorted for themselves, shape (3, m).
        band: What J is at least where so many of the m rows are beyond, shape (m + 1,).
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
        for field in fields(self):
            if isinstance(value := getattr(self, field.name), np.ndarray):
                object.__setattr__(self, field.name, kept := np.array(value))
                kept.flags.writeable = False

    def share(self, tau: float) -> Bracket:
        """J at any tau, under the same confidence as the whole curve; exactly 1 up to the minimum of H.

        Args:
            tau: A loss in nats.
        """
        found = shares_at(np.array([_checks.number(tau, "tau")]), self.rows, self.band, self.least)
        return Bracket(*(float(part[0]) for part in found))

    @property
    def beyond(self) -> Bracket:
        """The share of rows that give away at least the static epsilon on average."""
        return self.share(self.epsilon)

    def loss(self, share: float) -> Bracket:
        """What the most exposed rows give away: the largest tau that so many rows reach, at least, about and at most.

        Args:
            share: Of all rows, above 0 and at most 1.

        Returns:
            Losses in nats; infinite where labels are as good as told.
        """
        wanted = _checks.number(share, "share")
        if not 0.0 < wanted <= 1.0:
            raise InputError(f"expected a share of rows above 0 and at most 1, found {wanted!r}")
        count = self.rows.shape[1]
        even = np.arange(count + 1) / count
        ends = [_largest(losses, shares, wanted) for losses, shares in zip(self.rows, (self.band, even), strict=False)]
        most = _largest(self.rows[2], 1.0 - self.band[::-1], wanted)
        return Bracket(max(ends[0], self.least), max(ends[1], self.least), max(most, self.least))


@dataclass(frozen=True, eq=False)
class LossProfile:
    """The curves of several flip probabilities, and what they rest on.

    Attributes:
        curves: One for each flip probability, smallest first.
        classes: The two declared classes.
        p_plus: The share of the second class: at least, about, at most.
        total: Rows among which neighbours were looked for.
        evaluated: Rows whose loss was bounded.
        neighbours: k, how many of the other rows tell of one.
        confidence: Chance, over rows and labels, that all bounds of a curve hold, if the assumptions do; of all
            curves together, since what is random is the same in them.
        assumptions: What the bounds rest on, in sentences.
        public: Whether the labels were declared public; else they were released ones, and the profile costs nothing.
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
        raise InputError(f"expected a flip probability among {known}, found {flip!r}; ask for it in loss_profile")

    def chances_beyond(self, flip: float) -> tuple[float, float]:
        """Rows give away the static epsilon or more where the second class has at most, or at least, these chances.

        By the estimated share of the second class.
        """
        loss = InstanceLoss(flip, self.p_plus.estimate)
        low, high = loss.chances_at(max(loss.epsilon, loss.least[1]))
        return float(low), float(high)


def loss_profile(
    features: object,
    release: Release | RowRelease,
    *,
    flips: Sequence[float] | None = None,
    p_plus: float | None = None,
    neighbours: int | None = None,
    rows: int | Sequence[int] | np.ndarray | None = None,
    smoothness: float = 0.0,
    exponent: float = 1.0,
    confidence: float = 0.99,
    taus: object = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> LossProfile:
    """Bound, for all losses tau at once, the share of rows that give away tau or more with their released label.

    If labels of two classes are flipped with chance pi and released beside their features, an observer's odds of a
    row's label grow by the factor exp(nu). ``J(tau)`` is the share of rows whose nu, averaged over the row's label and
    its flip, is at least tau. Epsilon bounds what the released label adds; J says what features and label give away
    together, which epsilon does not bound.

    The chance of the second class given a row's features is bounded by the labels of its k nearest other rows, and so
    is its loss; then rows are counted. Several flip probabilities differ by a constant and are served at once.

    Labels come as a release. Those declared public (``Release.public``) are taken as they are. Of released ones, the
    rate at which neighbours' labels hold the second class is ``b + (a - b) m`` for the mean chance m, with a and b the
    chances that the channel gives; the bounds are turned back by it, and get wider by ``1 / (a - b)``. Groups of rows
    with laws of their own, and candidates, are served too: a and b are then means over neighbours, and rows that say
    nothing have no weight.

    Guarantee:
        This is no release mechanism. From public or released labels it costs nothing. A curve from true labels tells
        of them and is itself a release: keep it on the curator's side, or charge for it, by asking a curator for a
        release and giving that here.

        With probability at least ``confidence``, under the assumptions that the result lists, every J(tau) and every
        curve lies between its bounds, for all tau at once. Proof, with d = 1 - confidence and m evaluated rows.

        *Rows* (d / 2). Given all features, labels of different rows are independent. Which rows are neighbours is
        settled by features and, where rows are equally far, by a fresh random order, not by the order that rows are in,
        which may follow labels. The count s of second classes among k neighbours is a sum of independent indicators of
        mean ``k r``, r the mean of their chances. Clopper and Pearson's bounds at level ``d / (4m)`` on each side hold
        for r. For: say r is below the bound that s gives. Then s is at least some s* with ``P(Bin(k, r) >= s*) <
        d/(4m)``. If ``k r > 1``, ``P(Bin(k, r) >= k r) > 1/4`` (Greenberg and Mohri 2014), so ``s* >= k r + 1``, and
        there the tail of s is at most the binomial one (Hoeffding 1956, theorem 4). So it is if ``k r <= 1`` and ``s*
        >= 2``. If ``s* = 1``, ``P(s >= 1) <= k r``, which is below the level since at a count of one the bound is taken
        to be at most ``d/(4mk)``. The other side is the same with the classes exchanged. All rows together are missed
        with a chance of at most d / 2; they need not be independent, and evaluated rows may be neighbours of others.

        *Smoothness.* The chance of a row differs by at most ``C (2k/(n-1))^beta`` from those of its neighbours, if
        chances at two points differ by at most C times the beta-th power of the probability of the open ball around one
        that ends at the other, and this ball has at most ``2k/(n-1)`` of all probability. It has more with a chance of
        at most ``exp(-k/4)`` (a Chernoff bound), which is taken off the level of each row. C = 0 is the assumption that
        chances are the same among k neighbours, and costs nothing.

        *Share of the second class* (d / 10, where ``p_plus`` is not given). Exact bounds from all rows.

        *Loss.* H falls, then rises, in the chance, and is monotone in ``p_plus`` on either side of a chance of 1/2. So
        its least and its largest value over both intervals are found at their ends, at 1/2 and at the minimum.

        *Counting* (2d / 5). Losses of evaluated rows are independent, as their features are. ``survival_band`` bounds J
        for all tau by how many of them are at least tau. More of the true losses are than of their lower bounds, fewer
        than of their upper bounds, and the band rises with the count.

    Args:
        features: Public features as numbers, shape (n, d), on a common scale; distances are Euclidean.
        release: The labels of these rows, of two classes, declared public or released.
        flips: Chances that the other class is released, above 0 and at most 1/2. By default that of the release; for
            labels that were declared public 0.001, 0.01 and 0.1.
        p_plus: The share of the second declared class in the population. None: estimated, with bounds.
        neighbours: k. None: 1000, or a twentieth of the rows if that is fewer. Many neighbours make bounds narrow, and
            blur what only few rows share.
        rows: How many rows to evaluate, drawn at random, or their numbers, chosen without a look at labels. None: 20
            000, or all if there are fewer.
        smoothness: C, at least 0. An assumption, which is printed.
        exponent: beta, above 0 and at most 1.
        confidence: Of all bounds together, at least 0.5 and below 1.
        taus: At which losses curves are written out; by default evenly spaced. Any other can be asked for later. At
            and below the minimum of H, J is exactly 1.
        progress: Called with the name of the work, the rows done, and the rows in all.

    Returns:
        Curves with their bounds, and what they rest on.

    Raises:
        InputError: Features are not finite numbers in as many rows as there are labels; there are not two classes; the
            labels do not tell the share of the second class; or k is too small for a smoothness above 0.

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
    counted = Counted.of(release)
    sure = check_confidence(confidence)
    k = _neighbours(neighbours, len(points))
    places = _places(rows, len(points))
    asked = [InstanceLoss(flip, 0.5) for flip in _flips(flips, counted, public=release.is_public)]
    wrong = 1.0 - sure
    smooth = _Smoothness.of(smoothness, exponent, k, len(points))
    row_level = smooth.left_of(wrong * _OF_ROWS / len(places))
    share = counted.share(p_plus, wrong * _OF_SHARE)
    order = np.random.default_rng().permutation(len(points))  # so that no tie is settled by where labels put a row
    sums = neighbour_sums(points[order], np.argsort(order)[places], counted.values[order], k, progress)
    losses = _losses(counted.chances(sums, k, row_level, smooth.blur), share)
    band = survival_band(len(places), wrong * _OF_COUNTS / 2.0)
    centres = logit([share.lower, share.upper])
    least = 1.0 - math.cosh(max(abs(turning_logit(float(centre))) for centre in centres))
    first, second = release.space.points
    given = () if p_plus is None else (f"the share of {second!r} is {share.estimate:g}, as given",)
    return LossProfile(
        curves=tuple(_curve(chance, losses, least, band, taus) for chance in asked),
        classes=(first, second),
        p_plus=share,
        total=len(points),
        evaluated=len(places),
        neighbours=k,
        confidence=sure,
        assumptions=(_INDEPENDENT, smooth.sentence(second), *given),
        public=release.is_public,
    )


@dataclass(frozen=True)
class _Smoothness:
    """How much the chances of a row and of its k nearest rows may differ: ``C (2k / (n - 1))^beta``."""

    constant: float
    exponent: float
    neighbours: int
    rows: int

    @classmethod
    def of(cls, constant: float, exponent: float, neighbours: int, rows: int) -> _Smoothness:
        """With checked numbers."""
        c, beta = _checks.number(constant, "smoothness"), _checks.number(exponent, "exponent")
        if not 0.0 <= c < math.inf:
            raise InputError(f"expected smoothness to be a finite number of at least 0, found {c!r}")
        if not 0.0 < beta <= 1.0:
            raise InputError(f"expected exponent above 0 and at most 1, found {beta!r}")
        return cls(c, beta, neighbours, rows)

    @property
    def blur(self) -> float:
        """By how much chances may differ."""
        return float(self.constant * (2.0 * self.neighbours / (self.rows - 1)) ** self.exponent)

    def left_of(self, level: float) -> float:
        """What is left of a row's chance to be wrong when that of a ball of too much probability is taken off."""
        spent = math.exp(-self.neighbours / 4.0) if self.constant else 0.0
        if spent > level / 2.0:
            raise InputError(
                f"expected at least {math.ceil(4.0 * math.log(2.0 / level))} neighbours for a smoothness above 0 at "
                f"this confidence, found {self.neighbours}; take more, or evaluate fewer rows"
            )
        return level - spent

    def sentence(self, second: object) -> str:
        """What is assumed, in words."""
        what = f"for each row the chance of {second!r} given its features"
        if not self.constant:
            return f"{what} is the mean of those of its {self.neighbours:,} nearest rows (smoothness 0)"
        return (
            f"{what} differs by at most {self.blur:.3g} from those of its {self.neighbours:,} nearest rows (smoothness "
            f"{self.constant:g}, exponent {self.exponent:g})"
        )


def _neighbours(value: int | None, rows: int) -> int:
    if value is None:
        return max(1, min(_MOST_NEIGHBOURS, rows // _ROWS_FOR_A_NEIGHBOUR))
    return _checks.whole(value, "neighbours", 1, rows - 1)


def _places(rows: int | Sequence[int] | np.ndarray | None, total: int) -> Int[np.ndarray, "m"]:
    """The rows to evaluate, drawn at random if not given."""
    if rows is None or isinstance(rows, int):
        count = min(_EVALUATED, total) if rows is None else _checks.whole(rows, "rows", 1, total)
        return np.sort(np.random.default_rng().choice(total, count, replace=False))
    found = np.asarray(rows)
    if found.ndim != 1 or found.dtype.kind not in "iu" or not len(found):
        raise InputError(f"expected numbers of rows to evaluate, found {found.dtype} of shape {found.shape}")
    if found.min() < 0 or found.max() >= total or len(np.unique(found)) < len(found):
        raise InputError(f"expected different row numbers between 0 and {total - 1}, found others")
    return found.astype(np.int64)


def _flips(flips: Sequence[float] | None, counted: Counted, *, public: bool) -> list[float]:
    """Flip probabilities that rise, without repetition."""
    if flips is None and public:
        return list(_FLIPS)
    if flips is None:
        if counted.flip is None:
            raise InputError("expected flips for a release whose law is not one flip probability, found None")
        return [counted.flip]
    found = sorted({_checks.number(flip, "flip") for flip in flips})
    if not found:
        raise InputError("expected at least one flip probability, found none")
    return found


def _losses(
    chances: tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m"], Float[np.ndarray, "m"]], share: Bracket
) -> Float[np.ndarray, "3 m"]:
    """Bounds and estimate of each row's part of the features, each sorted for itself.

    Below a chance of 1/2 the loss rises with the share of the second class, above it falls. Either side has its least
    value at its minimum, moved into the interval; the largest one is at an end, as the larger of two functions that
    fall and then rise does so too.
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
    """J at some losses: at least, about and at most."""
    count = rows.shape[1]
    low, middle, high = (count - np.searchsorted(losses, taus, side="left") for losses in rows)
    sure = taus <= least
    found = (band[low], middle / count, 1.0 - band[count - high])
    lower, estimate, upper = (np.where(sure, 1.0, each) for each in found)
    return lower, estimate, upper


def _largest(losses: Float[np.ndarray, "m"], shares: Float[np.ndarray, "m_and_one"], wanted: float) -> float:
    """The largest loss at which the share is as large as is wanted; infinite if no row need reach it."""
    needed = int(np.searchsorted(shares, wanted, side="left"))
    if needed == 0:
        return math.inf
    return -math.inf if needed > len(losses) else float(losses[len(losses) - needed])


def _curve(
    chance: InstanceLoss,
    losses: Float[np.ndarray, "3 m"],
    least: float,
    band: Float[np.ndarray, "m_and_one"],
    taus: object,
) -> LossCurve:
    rows, floor = losses + chance.of_label, least + chance.of_label
    if taus is None:
        top = max(chance.epsilon, float(rows[np.isfinite(rows)].max(initial=chance.epsilon)))
        at = np.linspace(floor, top + 0.05 * (top - floor), _TAUS)
    else:
        at = np.array(taus, dtype=np.float64).reshape(-1)
        if np.isnan(at).any():
            raise InputError("expected losses as taus, found NaN")
    lower, estimate, upper = shares_at(at, rows, band, floor)
    return LossCurve(chance.flip, chance.epsilon, floor, at, lower, estimate, upper, rows, band)
