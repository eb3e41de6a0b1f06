"""The Bayesian factorization of ratings, as a classifier of released labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._progress import Progress, silent
from labeldp._shapes import Float, Int
from labeldp.columns import floats
from labeldp.errors import InputError
from labeldp.learning.losses import class_numbers, require_release
from labeldp.learning.metrics import Units
from labeldp.learning.ratings._gibbs import Draw, Pairs, RowColumns, Schedule, described_by, draws
from labeldp.learning.ratings._kernels import add_probabilities, scores_of
from labeldp.learning.sklearn import ProbabilityClassifier, check_released_rows
from labeldp.privacy import LabelSpace
from labeldp.release import Release

#: Largest number of classes: each has a cut point, and all of these are drawn together.
_MOST_CLASSES = 64
#: Largest number of parameters that are kept, over all draws: 256 MiB.
_MOST_KEPT = 1 << 26
#: Standard deviation of latent numbers over all rows, in units of their noise, for the first guess of cut points.
_DEVIATION = 1.2
#: Rounds of expectation maximisation, rows that they see, and the least share, for that guess.
_ROUNDS, _ROWS, _LEAST = 200, 20_000, 1e-3


@documented_in("labeldp.learning.ratings")
@dataclass(eq=False, repr=False)
class FactorizationClassifier(ProbabilityClassifier):
    """Bayesian factorization of ordered classes of pairs, such as ratings of films by users.

    A class is where a latent number falls between cut points. Its mean is a bias of the user, one of the item, and the
    product of their factors; users and items are normal around a linear function of public features of theirs. Some
    users and items are harder to predict than others: each has a precision of the noise around the mean. All of it is
    sampled (Gibbs) from the posterior given the likelihoods of the classes, so it learns from any release of numeric
    classes, above all by ``GroupResponse``, and nothing has to be tuned: how far users differ follows from how much
    released labels disclose. A user or an item without rows is predicted from the features, with the usual noise.

    Features are the other columns of X, which must be numbers: a column that is the same in all rows of each user
    describes users, one that is the same in all rows of each item, items; any other both, by its means. To these come
    how often a user and an item occur, and factors of who occurs with what.

    Args:
        user: The column of users in X: its name in a frame, its place in an array.
        item: The column of items.
        factors: Number of factors.
        pair_factors: Number of factors of who occurs with what, fewer for small tables, more for large ones; with 0 no
            features come to the other columns.
        public_rows: Rows in the form of X from which all features are computed, with every user and item of X; by
            default the rows of ``fit``. Pass all public rows if ``fit`` gets a part of them, as in ``MultiStage``.
        shares: Public guess of the class shares, in increasing order of the classes, from which the first guess of the
            cut points starts; uniform by default.
        rounds: Number of rounds of sampling; time is proportional to rounds times rows. The less labels disclose, the
            more rounds matter.
        unused: Number of first rounds that are not used.
        kept: Largest number of draws that are kept for predictions, evenly spaced.
        seed: A public number; the same release and seed give the same model.
        report: Function called with ``("round", done, of)``.

    Attributes:
        classes_: The classes, increasing as numbers; texts that spell numbers, such as "0.5", are classes too.
        cuts_: Mean cut points.
        users_, items_: The known users and items, with their features.
        draws_: Draws of all parameters, in single precision: at most ``kept``, and as many as fit in 256 MiB.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost. Who rates what, and all
        columns of X, are public.

    References:
        Salakhutdinov and Mnih 2008; Simm et al. 2015; Albert and Chib 1993.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator, GroupResponse
        >>> from labeldp.learning.ratings import FactorizationClassifier
        >>> pairs = np.array([[user, item] for user in range(60) for item in range(40)])
        >>> stars = 1 + pairs[:, 0] % 3 + pairs[:, 1] % 3  # kind users, and good items
        >>> space = Classes([1, 2, 3, 4, 5])
        >>> release = Curator(stars, space).randomize(GroupResponse(space, 2.0, groups=[[1, 2], [3], [4, 5]]))
        >>> model = FactorizationClassifier(factors=1, rounds=60, unused=30).fit(pairs, release)
        >>> bad, good = model.predict_mean(np.array([[0, 0], [2, 2]]))
        >>> bool(bad < 2.5 < 3.5 < good)
        True

    Raises:
        InputError: A setting is invalid, a column is missing or has no numbers, ``public_rows`` lack a user or an item,
            or the classes are no numbers or more than 64.
        RowsError: The release has other rows than X, or none.
    """

    user: Any = 0
    item: Any = 1
    _: KW_ONLY
    factors: int = 12
    pair_factors: int = 12
    public_rows: Any = None
    shares: Sequence[float] | None = None
    rounds: int = 1000
    unused: int = 200
    kept: int = 1000
    seed: int = 0
    report: Progress | None = None

    def fit(self, X: Any, y: Release, groups: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Sample from the posterior.

        Args:
            X: Users, items and features of rows: an array or a frame.
            y: Released labels.
            groups: The privacy unit of each row, shape (n,); ``"rows"`` if each row is its own.
        """
        release = require_release(y)
        Units.of(groups, release)
        schedule, pair_factors = self._schedule(), _checks.whole(self.pair_factors, "pair_factors", 0, 1000)
        check_released_rows(X, release)
        order = self._ordered(release.space)
        rows = RowColumns.of(X, self.user, self.item)
        known = rows if self.public_rows is None else RowColumns.of(self.public_rows, self.user, self.item)
        self.users_, self.items_ = described_by(known, pair_factors)
        numbers = self.users_.numbers_of(rows.users), self.items_.numbers_of(rows.items)
        if min(part.min() for part in numbers) < 0:
            raise InputError("expected public_rows with every user and every item of X, found others in X; add them")
        pairs = Pairs(*numbers, np.ascontiguousarray(release.likelihood()[:, order]))
        self.draws_ = self._sampled(pairs, schedule)
        self.cuts_ = np.mean([draw.cuts for draw in self.draws_], axis=0)
        return self

    def setting(self) -> str:
        """The factors and draws in words."""
        return f"{self.factors} factors, the mean of {len(self.draws_)} draws from the posterior"

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k), by the posterior's mean."""
        check_is_fitted(self, "draws_")
        rows = RowColumns.of(X, self.user, self.item)
        users, new_users = self.users_.unseen(rows, rows.users)
        items, new_items = self.items_.unseen(rows, rows.items)
        total, scores = np.zeros((len(users), len(self.classes_))), np.empty(len(users))
        unknown = np.ones(len(new_users)), np.ones(len(new_items))
        for draw in self.draws_:
            draw.check(self.users_, self.items_, len(self.classes_))
            of_users = np.concatenate([draw.users, new_users @ draw.coefficients[0]])
            of_items = np.concatenate([draw.items, new_items @ draw.coefficients[1]])
            scores_of(users, items, of_users, of_items, scores)
            user_rates, item_rates = (np.append(known, new) for known, new in zip(draw.noise(), unknown, strict=True))
            add_probabilities(scores, user_rates[users] * item_rates[items], draw.cuts, total)
        return np.asarray(total / total.sum(axis=1, keepdims=True))

    def predict_mean(self, X: Any) -> Float[np.ndarray, "n"]:  # noqa: N803
        """The mean of the true class, which has the least squared error."""
        return np.asarray(self.predict_proba(X) @ self.classes_.astype(np.float64))

    def _schedule(self) -> Schedule:
        """The checked length of the run."""
        rounds = _checks.whole(self.rounds, "rounds", 1, 1 << 20)
        unused = _checks.whole(self.unused, "unused", 0, rounds - 1)
        factors = _checks.whole(self.factors, "factors", 0, 1000)
        return Schedule(factors, rounds, unused, _checks.whole(self.seed, "seed", 0, (1 << 63) - 1))

    def _ordered(self, space: LabelSpace) -> Int[np.ndarray, "k"]:
        """Set the classes, and return their codes in increasing order; texts count as the numbers that they spell."""
        numbers = class_numbers(space)
        if numbers is None or space.size > _MOST_CLASSES:
            raise InputError(
                f"expected at most {_MOST_CLASSES} numeric classes, such as Classes([1, 2, 3, 4, 5]), found "
                f"{space.size} of another kind; declare numbers"
            )
        order = np.argsort(numbers)
        self.classes_ = np.array(space.points)[order]
        return order

    def _sampled(self, pairs: Pairs, schedule: Schedule) -> tuple[Draw, ...]:
        """Evenly spaced draws of a run."""
        parameters = (len(self.users_.names) + len(self.items_.names)) * (2 + schedule.factors)
        used = schedule.rounds - schedule.unused
        kept = min(_checks.whole(self.kept, "kept", 1, 1 << 20), max(_MOST_KEPT // parameters, 1))
        step = math.ceil(used / kept)
        features = self.users_.features, self.items_.features
        guess = _first_cuts(pairs.likelihood, self._first_shares(pairs.likelihood.shape[1]))
        report = self.report or silent
        every = draws(pairs, features, guess, schedule, lambda done: report("round", done, schedule.rounds))
        return tuple(draw.single() for number, draw in enumerate(every) if (number + 1) % step == 0)

    def _first_shares(self, classes: int) -> Float[np.ndarray, "k"]:
        """The guess of class shares."""
        shares = np.full(classes, 1 / classes) if self.shares is None else floats(self.shares, "shares")
        if shares.shape != (classes,) or not (shares >= 0).all() or not shares.sum() > 0:
            raise InputError(f"expected a share for each of {classes} classes, found shape {shares.shape}")
        return np.asarray(np.maximum(shares / shares.sum(), _LEAST))


def _first_cuts(likelihood: Float[np.ndarray, "n k"], shares: Float[np.ndarray, "k"]) -> Float[np.ndarray, "cuts"]:
    """Cut points at which latent numbers have the class shares that released labels make likely."""
    chosen = likelihood[np.unique(np.linspace(0, len(likelihood) - 1, _ROWS).astype(np.int64))]
    for _ in range(_ROUNDS):
        shares = shares * (chosen / (chosen @ shares)[:, None]).mean(axis=0)
    shares = np.maximum(shares, _LEAST)
    return np.asarray(_DEVIATION * ndtri(np.cumsum(shares)[:-1] / shares.sum()))
