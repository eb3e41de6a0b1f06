"""Users and items of rows, and a sampler of an ordinal probit factorization, given the likelihoods of their classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import svds
from scipy.special import gammaln, ndtri, softmax

from labeldp._documented import documented_in
from labeldp._shapes import Float, Int
from labeldp.columns import floats_or_none
from labeldp.errors import InputError
from labeldp.learning.features import indexable_rows, missing_values
from labeldp.learning.ratings._kernels import (
    draw_places,
    log_likelihood,
    normal_equations,
    scores_of,
    slopes_of_cuts,
)

#: Rows that are added to the counts of a user and of an item before pairs are scaled by them.
_SMOOTHED = 5


@dataclass(frozen=True, eq=False)
class RowColumns:
    """Columns of rows: who, what, and numbers that describe either."""

    users: np.ndarray
    items: np.ndarray
    others: Float[np.ndarray, "n c"]

    @classmethod
    def of(cls, rows: Any, user: Any, item: Any) -> RowColumns:
        """The columns of an array, or of a frame by name.

        Raises:
            InputError: There is no such column, a user or an item is missing, or another column has no numbers.
        """
        rows = indexable_rows(rows)
        frame = hasattr(rows, "columns")
        names = list(rows.columns) if frame else list(range(rows.shape[1] if len(rows.shape) == 2 else 0))
        if lacking := [name for name in (user, item) if name not in names]:
            found = ", ".join(map(str, names)) or "none"
            raise InputError(f"expected a column {lacking[0]!r} of users or items, found the columns {found}")
        taken = {name: np.asarray(rows[name]) if frame else rows[:, name] for name in names}
        others = [_numbers(taken[name], name) for name in names if name not in (user, item)]
        table = np.column_stack(others) if others else np.zeros((rows.shape[0], 0))
        return cls(_complete(np.asarray(taken[user]), user), _complete(np.asarray(taken[item]), item), table)


@documented_in("labeldp.learning.ratings")
@dataclass(frozen=True, eq=False)
class Entities:
    """All users, or all items, with public features.

    Attributes:
        names: The users in increasing order.
        places: The columns that describe users.
        features: Standardized features: the described columns, and how often and with whom a user occurs, shape (c, f).
        centre: Means of the features before they were standardized.
        spread: Their standard deviations.
    """

    names: np.ndarray
    places: tuple[int, ...]
    features: Float[np.ndarray, "c f"]
    centre: Float[np.ndarray, "f"]
    spread: Float[np.ndarray, "f"]

    @classmethod
    def of(
        cls,
        names: np.ndarray,
        numbers: Int[np.ndarray, "n"],
        rows: RowColumns,
        places: Sequence[int],
        pairs: Float[np.ndarray, "c p"],
    ) -> Entities:
        """The users of rows, from the columns that describe them and features of who occurs with what."""
        raw = np.column_stack([_means(numbers, rows.others[:, list(places)], len(names)), pairs])
        centre, spread = raw.mean(axis=0), raw.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        return cls(names, tuple(places), (raw - centre) / spread, centre, spread)

    def numbers_of(self, names: np.ndarray) -> Int[np.ndarray, "n"]:
        """The number of each user, -1 for those that are not known."""
        place = np.clip(np.searchsorted(self.names, names), 0, len(self.names) - 1)
        return np.where(self.names[place] == names, place, -1)

    def unseen(self, rows: RowColumns, names: np.ndarray) -> tuple[Int[np.ndarray, "n"], Float[np.ndarray, "m f"]]:
        """Numbers of rows' users, with a new one for each row of an unknown user, and standardized features of these.

        An unknown user occurs with nobody, and is described by the columns of the row.
        """
        numbers = self.numbers_of(names)
        new = np.flatnonzero(numbers < 0)
        raw = np.zeros((len(new), len(self.centre)))
        raw[:, : len(self.places)] = rows.others[new][:, list(self.places)]
        numbers[new] = len(self.names) + np.arange(len(new))
        return numbers, (raw - self.centre) / self.spread


def described_by(rows: RowColumns, factors: int) -> tuple[Entities, Entities]:
    """Users and items of rows, with all that the rows disclose of them without any label.

    A column that is the same in all rows of each user describes users; one that is the same in all rows of each item,
    items; any other describes both, by its means.

    Args:
        rows: Public rows.
        factors: Number of factors of who occurs with what; 0 for none, and for no counts either.
    """
    (user_names, users), (item_names, items) = (
        np.unique(column, return_inverse=True) for column in (rows.users, rows.items)
    )
    every = range(rows.others.shape[1])
    of_user = {c for c in every if _is_function(users, rows.others[:, c])}
    of_item = {c for c in every if c not in of_user and _is_function(items, rows.others[:, c])}
    left, right = _pair_features(users, items, factors)
    return (
        Entities.of(user_names, users, rows, [c for c in every if c not in of_item], left),
        Entities.of(item_names, items, rows, [c for c in every if c not in of_user], right),
    )


def _pair_features(
    users: Int[np.ndarray, "n"], items: Int[np.ndarray, "n"], factors: int
) -> tuple[Float[np.ndarray, "u f"], Float[np.ndarray, "v f"]]:
    """Counts of rows, and the leading singular vectors of the scaled table of who occurs with what."""
    counts = np.bincount(users), np.bincount(items)
    if not factors:
        return np.zeros((len(counts[0]), 0)), np.zeros((len(counts[1]), 0))
    often = [np.log1p(count) for count in counts]
    features = [np.column_stack([each, (each - each.mean()) ** 2]) for each in often]
    shape = len(counts[0]), len(counts[1])
    if (rank := min(factors, min(shape) - 1)) > 0:
        table = csr_array((np.ones(len(users)), (users, items)), shape=shape)
        scaled = diags_array((counts[0] + _SMOOTHED) ** -0.5) @ table @ diags_array((counts[1] + _SMOOTHED) ** -0.5)
        start = np.random.default_rng(0).normal(size=min(shape))  # in no direction that symmetric tables leave out
        left, _, right = svds(scaled, rank, v0=start)
        features = [np.column_stack([features[0], left]), np.column_stack([features[1], right.T])]
    return features[0], features[1]


def _means(numbers: Int[np.ndarray, "n"], columns: Float[np.ndarray, "n c"], count: int) -> Float[np.ndarray, "m c"]:
    """The mean of each column over the rows of each number."""
    rows = np.maximum(np.bincount(numbers, minlength=count), 1)
    sums = [np.bincount(numbers, column, minlength=count) for column in columns.T]
    return np.column_stack(sums) / rows[:, None] if sums else np.zeros((count, 0))


def _is_function(numbers: Int[np.ndarray, "n"], column: Float[np.ndarray, "n"]) -> bool:
    """True if a column is the same in all rows of each number."""
    first = np.unique(numbers, return_index=True)[1]
    return bool((column[first][numbers] == column).all())


def _complete(column: np.ndarray, name: object) -> np.ndarray:
    """A column of users or items, none of which is missing."""
    if missing_values(column).any():
        raise InputError(
            f"expected a user or an item in each row of the column {name!r}, found missing values; leave such rows out "
            "before labels are drawn, or fill the gaps with a name of their own"
        )
    return column


def _numbers(column: np.ndarray, name: object) -> Float[np.ndarray, "n"]:
    """A column as finite numbers."""
    values = floats_or_none(column)
    if values is None or not np.isfinite(values).all():
        raise InputError(f"expected finite numbers in the column {name!r}, found others; encode it, or leave it out")
    return values


#: Prior variance of a bias and of a factor, of as much weight as two more rows than they have dimensions.
_VARIANCE = 0.05
#: Prior standard deviation of cut points around their first guess.
_CUT_DEVIATION = 0.5
#: Standard deviation of a proposal of cut points, in posterior standard deviations, over the root of their number.
_PROPOSAL = 2.4
#: Degrees of freedom of the precisions of noise, one of which is drawn: with the last all users are nearly alike. The
#: prior is even over numbers, not over these steps: where labels say little, users are alike.
_FREEDOM = np.geomspace(3.0, 1000.0, 25)
#: Users whose chances under all of these are computed together.
_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class Pairs:
    """Rows as pairs of a user and an item, with the likelihoods of their classes.

    Attributes:
        users: Number of each row's user.
        items: Number of each row's item.
        likelihood: P(released | class) up to a factor, classes in increasing order.
    """

    users: Int[np.ndarray, "n"]
    items: Int[np.ndarray, "n"]
    likelihood: Float[np.ndarray, "n k"]


class Noisy(NamedTuple):
    """Scores of rows, around which their latent numbers are, and the inverses of the standard deviations there."""

    scores: Float[np.ndarray, "n"]
    rates: Float[np.ndarray, "n"]


@dataclass(eq=False)
class Side:
    """Users or items while they are sampled: a bias and factors each, normal around a linear function of features.

    Attributes:
        features: Public features, shape (count, f).
        values: Biases, then factors, shape (count, 1 + d).
        coefficients: Of the features, shape (f, 1 + d).
        precisions: Of the noise in the rows of each, a factor beside the other side's, shape (count,).
    """

    features: Float[np.ndarray, "c f"]
    values: Float[np.ndarray, "c d"]
    coefficients: Float[np.ndarray, "f d"]
    precisions: Float[np.ndarray, "c"]

    @classmethod
    def start(cls, features: Float[np.ndarray, "c f"], factors: int, chance: np.random.Generator) -> Side:
        """Small random values, coefficients of zero, and noise of deviation 1."""
        count, f = features.shape
        values = 0.1 * chance.normal(size=(count, 1 + factors))
        return cls(features, values, np.zeros((f, 1 + factors)), np.ones(count))

    def draw(
        self,
        own: Int[np.ndarray, "n"],
        other: tuple[Int[np.ndarray, "n"], Float[np.ndarray, "c d"]],
        latent: Float[np.ndarray, "n"],
        weights: Float[np.ndarray, "n"],
        chance: np.random.Generator,
    ) -> None:
        """Draw all values given the latent numbers of their rows and the other side, then the coefficients.

        ``weights`` are the precisions of the latent numbers.
        """
        count, d = self.values.shape
        mean, ridge = self.features @ self.coefficients, np.sqrt(self.features.shape[1])
        precision = wishart(np.concatenate([self.values - mean, ridge * self.coefficients]), chance)
        products, sums = np.tile(precision, (count, 1, 1)), mean @ precision
        normal_equations(own, *other, latent, weights, products, sums)
        root = np.linalg.cholesky(products)  # reads the lower triangles, which the rows were added to
        half = np.linalg.solve(root, sums[:, :, None]) + chance.normal(size=(count, d, 1))
        self.values = np.ascontiguousarray(np.linalg.solve(np.swapaxes(root, 1, 2), half)[:, :, 0])
        self._draw_coefficients(precision, chance)

    def draw_precisions(
        self, own: Int[np.ndarray, "n"], squares: Float[np.ndarray, "n"], chance: np.random.Generator
    ) -> None:
        """Draw degrees of freedom with precisions integrated out, then each precision: a Gamma variable of mean 1.

        ``squares`` are those of noise, in units of its variance by the other side.
        """
        count = len(self.precisions)
        halves, sums = np.bincount(own, minlength=count) / 2, np.bincount(own, squares, count) / 2
        blocks = (slice(first, first + _BLOCK) for first in range(0, count, _BLOCK))
        chances = softmax(np.log(_FREEDOM) + sum(_log_chances(halves[block], sums[block]) for block in blocks))
        freedom = chance.choice(_FREEDOM, p=chances) / 2
        self.precisions = chance.gamma(freedom + halves) / (freedom + sums)

    def _draw_coefficients(self, precision: Float[np.ndarray, "d d"], chance: np.random.Generator) -> None:
        """Draw the coefficients, whose prior has the weight of as many rows as there are features."""
        f = self.features.shape[1]
        if not f:
            return
        gram = self.features.T @ self.features + f * np.eye(f)
        noise = chance.normal(size=self.coefficients.shape)
        spread = np.linalg.cholesky(np.linalg.inv(gram)) @ noise @ np.linalg.cholesky(np.linalg.inv(precision)).T
        self.coefficients = np.linalg.solve(gram, self.features.T @ self.values) + spread


@dataclass(eq=False)
class Cuts:
    """Cut points of the latent numbers, normal around their first guess.

    Attributes:
        guess: The first guess, increasing.
        values: The present cut points.
        root: Cholesky factor of the covariance of proposals; None as long as Newton's method moves the cut points.
    """

    guess: Float[np.ndarray, "cuts"]
    values: Float[np.ndarray, "cuts"]
    root: Float[np.ndarray, "cuts cuts"] | None = None

    def climb(self, rows: Noisy, likelihood: Float[np.ndarray, "n k"]) -> None:
        """Take a step of Newton's method (Fisher scoring) towards the mode, halved while cut points would cross."""
        gradient, information = self._slopes(rows, likelihood)
        step = np.linalg.solve(information, gradient)
        while (np.diff(self.values + step) <= 0).any():
            step /= 2
        self.values = self.values + step

    def draw(self, rows: Noisy, likelihood: Float[np.ndarray, "n k"], chance: np.random.Generator) -> None:
        """Propose other cut points, and accept them by their likelihood (Metropolis)."""
        if self.root is None:  # fixed from here on
            covariance = np.linalg.inv(self._slopes(rows, likelihood)[1])
            self.root = np.linalg.cholesky(covariance) * _PROPOSAL / np.sqrt(len(self.guess))
        moved = self.values + self.root @ chance.normal(size=len(self.values))
        barrier = np.log(chance.random())
        if (np.diff(moved) <= 0).any():
            return
        gain = log_likelihood(*rows, moved, likelihood) - log_likelihood(*rows, self.values, likelihood)
        gain += (((self.values - self.guess) ** 2).sum() - ((moved - self.guess) ** 2).sum()) / (2 * _CUT_DEVIATION**2)
        if barrier < gain:
            self.values = moved

    def _slopes(
        self, rows: Noisy, likelihood: Float[np.ndarray, "n k"]
    ) -> tuple[Float[np.ndarray, "cuts"], Float[np.ndarray, "cuts cuts"]]:
        """Gradient and information of the log posterior."""
        count = len(self.guess)
        gradient = (self.guess - self.values) / _CUT_DEVIATION**2
        information = np.eye(count) / _CUT_DEVIATION**2
        slopes_of_cuts(*rows, self.values, likelihood, np.empty(count), gradient, information)
        return gradient, information


@documented_in("labeldp.learning.ratings")
@dataclass(frozen=True, eq=False)
class Draw:
    """One draw of all parameters.

    Attributes:
        users: Biases and factors of users.
        items: Those of items.
        coefficients: Of the features of users, and of items.
        cuts: Cut points.
        rates: Factors of the inverse standard deviation of noise: of users, and of items. None in models that an
            earlier version saved, in which noise is the same for all.
    """

    users: Float[np.ndarray, "u d"]
    items: Float[np.ndarray, "v d"]
    coefficients: tuple[Float[np.ndarray, "f d"], Float[np.ndarray, "g d"]]
    cuts: Float[np.ndarray, "cuts"]
    rates: tuple[Float[np.ndarray, "u"], Float[np.ndarray, "v"]] | None = None

    def check(self, users: Entities, items: Entities, classes: int) -> None:
        """Refuse parameters of another form, as in a forged file: compiled loops would read beyond them."""
        d = self.users.shape[-1]
        shapes = [(len(users.names), d), (len(items.names), d), *((e.features.shape[1], d) for e in (users, items))]
        found = [each.shape for each in (self.users, self.items, *self.coefficients, self.cuts, *self.noise())]
        if d < 1 or found != [*shapes, (classes - 1,), (len(users.names),), (len(items.names),)]:
            raise ValueError("expected parameters of these users, items and classes")

    def single(self) -> Draw:
        """The draw in single precision, but for the coefficients and cut points, which are few."""
        users, items, *rates = (each.astype(np.float32) for each in (self.users, self.items, *self.noise()))
        return Draw(users, items, self.coefficients, self.cuts, (rates[0], rates[1]))

    def noise(self) -> tuple[Float[np.ndarray, "u"], Float[np.ndarray, "v"]]:
        """The rates, of 1 where there are none."""
        return self.rates or (np.ones(len(self.users)), np.ones(len(self.items)))


@dataclass(frozen=True)
class Schedule:
    """The length of a run.

    Attributes:
        factors: Number of factors.
        rounds: Number of rounds; in each everything is drawn once.
        unused: Number of first rounds that are not used.
        seed: A public number.
    """

    factors: int
    rounds: int
    unused: int
    seed: int


def draws(
    pairs: Pairs,
    features: tuple[Float[np.ndarray, "u f"], Float[np.ndarray, "v g"]],
    guess: Float[np.ndarray, "cuts"],
    schedule: Schedule,
    progress: Callable[[int], None],
) -> Iterator[Draw]:
    """Sample biases, factors, coefficients and cut points; yield a draw after each round that is used.

    A class is where ``s + noise`` falls between cut points, with ``s = b_user + b_item + <f_user, f_item>`` and normal
    noise, whose precision is the product of one of the user and one of the item. Users (a bias and factors each) are
    normal around a linear function of their features, and so are items; all that these laws depend on is sampled as
    well, so that nothing has to be tuned.

    References:
        Salakhutdinov and Mnih 2008, for the sampler; Simm et al. 2015, for features; Albert and Chib 1993, for latent
        numbers and precisions of noise; Cowles 1996, for cut points without latent numbers.
    """
    chance = np.random.default_rng(schedule.seed)
    users, items = (Side.start(part, schedule.factors, chance) for part in features)
    cuts, scores = Cuts(guess, guess.copy()), np.empty(len(pairs.users))
    places, room = np.empty_like(scores), np.empty(2 * pairs.likelihood.shape[1] + 1)
    for number in range(schedule.rounds):
        scores_of(pairs.users, pairs.items, users.values, items.values, scores)
        rows = Noisy(scores, np.sqrt(users.precisions[pairs.users] * items.precisions[pairs.items]))
        if number < schedule.unused:
            cuts.climb(rows, pairs.likelihood)
        else:
            cuts.draw(rows, pairs.likelihood, chance)
        draw_places(*rows, cuts.values, pairs.likelihood, chance.random((len(scores), 2)), room, places)
        noise = ndtri(places) / rows.rates
        latent, squares = scores + noise, noise**2
        if number >= schedule.unused // 2:  # before, users whose biases are not known yet would pass for noisy ones
            users.draw_precisions(pairs.users, squares * items.precisions[pairs.items], chance)
            items.draw_precisions(pairs.items, squares * users.precisions[pairs.users], chance)
        weights = users.precisions[pairs.users] * items.precisions[pairs.items]
        users.draw(pairs.users, (pairs.items, items.values), latent, weights, chance)
        items.draw(pairs.items, (pairs.users, users.values), latent, weights, chance)
        progress(number + 1)
        if number >= schedule.unused:
            rates = np.sqrt(users.precisions), np.sqrt(items.precisions)
            yield Draw(users.values, items.values, (users.coefficients, items.coefficients), cuts.values, rates)


def _log_chances(halves: Float[np.ndarray, "c"], sums: Float[np.ndarray, "c"]) -> Float[np.ndarray, "f"]:
    """Log density of noise of users up to a constant, at each number of degrees of freedom of their precisions.

    Args:
        halves: Half the number of each user's rows.
        sums: Half the sum of squares of their noise.
    """
    half = _FREEDOM[:, None] / 2
    shapes = half + halves
    logs = gammaln(shapes) - gammaln(half) + half * np.log(half) - shapes * np.log(half + sums)
    return np.asarray(logs.sum(axis=1))


def wishart(rests: Float[np.ndarray, "n d"], chance: np.random.Generator) -> Float[np.ndarray, "d d"]:
    """A precision matrix given normal vectors of mean 0 (Bartlett's decomposition of a Wishart draw)."""
    count, d = rests.shape
    scatter = (d + 2) * _VARIANCE * np.eye(d) + rests.T @ rests
    triangle = np.tril(chance.normal(size=(d, d)), -1)
    triangle[np.diag_indices(d)] = np.sqrt(chance.chisquare(d + 2 + count - np.arange(d)))
    root = np.linalg.cholesky(np.linalg.inv(scatter)) @ triangle
    return np.asarray(root @ root.T)
