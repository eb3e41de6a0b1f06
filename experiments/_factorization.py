"""A Bayesian factorization of ratings that are known through a channel alone.

A rating is where ``s + noise`` falls between four or so cut points, with standard normal noise and
``s = b_user + b_item + <f_user, f_item>``. Users (a bias and factors each) are normal around a linear function of their
public features, and so are items; spreads and coefficients are sampled as well, so that nothing has to be tuned, and
how much is believed follows from how much released labels say. Of a rating the sampler sees the likelihoods of its
classes and nothing else.

References:
    Salakhutdinov and Mnih 2008 (the sampler), Simm et al. 2015 (features), Albert and Chib 1993 (cut points).
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import norm

LEAST = 1e-12
FIRST_SPREAD = 0.05  # what the prior takes for the variance of biases and factors, as much as a few rows say
CUT_SPREAD = 0.5  # how well cut points are known beforehand
ACCEPTED = 0.25  # the share of proposed cut points that a random walk should accept


@dataclass(frozen=True)
class Table:
    """Pairs of a user and an item, and what is public of both.

    Attributes:
        pairs: Users and items by their numbers, shape (n, 2).
        users: Standardized features of users.
        items: Those of items.
    """

    pairs: np.ndarray
    users: np.ndarray
    items: np.ndarray


@dataclass(frozen=True)
class Found:
    """Predictions for other pairs.

    Attributes:
        probabilities: Of each class, shape (m, k).
        scores: The mean of s.
        cuts: The mean cut points.
    """

    probabilities: np.ndarray
    scores: np.ndarray
    cuts: np.ndarray


@dataclass
class Side:
    """Users or items while they are sampled: a bias and factors each, around a function of features.

    Attributes:
        features: Public features, shape (count, f).
        own: Who of them each pair is about.
        values: Biases, then factors, shape (count, 1 + d).
        coefficients: Of the features, shape (f, 1 + d).
    """

    features: np.ndarray
    original: np.ndarray
    values: np.ndarray
    coefficients: np.ndarray

    def sample(self, latent: np.ndarray, others: np.ndarray, chance: np.random.Generator) -> None:
        """Draw all of them, given latent ratings and those on the other side of each pair."""
        count, d = self.values.shape
        mean, ridge = self.features @ self.coefficients, np.sqrt(self.features.shape[1])
        precision = wishart(np.concatenate([self.values - mean, ridge * self.coefficients]), chance)
        design = np.ascontiguousarray(others.T)
        aim, design[0] = latent - design[0], 1.0
        products, sums = np.empty((count, d, d)), mean @ precision
        for one in range(d):
            sums[:, one] += np.bincount(self.original, design[one] * aim, count)
            for other in range(one, d):
                products[:, one, other] = np.bincount(self.original, design[one] * design[other], count)
                products[:, other, one] = products[:, one, other]
        root = np.linalg.cholesky(products + precision)
        half = np.linalg.solve(root, sums[:, :, None]) + chance.normal(size=(count, d, 1))
        self.values = np.linalg.solve(np.swapaxes(root, 1, 2), half)[:, :, 0]
        self._explain(precision, chance)

    def _explain(self, precision: np.ndarray, chance: np.random.Generator) -> None:
        """Draw the coefficients of the features, with a ridge of as many rows as there are features."""
        f = self.features.shape[1]
        if not f:
            return
        gram = self.features.T @ self.features + f * np.eye(f)
        noise = chance.normal(size=self.coefficients.shape)
        spread = np.linalg.cholesky(np.linalg.inv(gram)) @ noise @ np.linalg.cholesky(np.linalg.inv(precision)).T
        self.coefficients = np.linalg.solve(gram, self.features.T @ self.values) + spread


def wishart(rests: np.ndarray, chance: np.random.Generator) -> np.ndarray:
    """A precision matrix given normal vectors of mean 0 (Bartlett's decomposition of a Wishart draw)."""
    count, d = rests.shape
    scatter = (d + 2) * FIRST_SPREAD * np.eye(d) + rests.T @ rests
    triangle = np.tril(chance.normal(size=(d, d)), -1)
    triangle[np.diag_indices(d)] = np.sqrt(chance.chisquare(d + 2 + count - np.arange(d)))
    root = np.linalg.cholesky(np.linalg.inv(scatter)) @ triangle
    return root @ root.T


def class_probabilities(scores: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """P(class | s), shape (n, k)."""
    below = ndtr(cuts - scores[:, None])
    edges = np.concatenate([np.zeros((len(scores), 1)), below, np.ones((len(scores), 1))], axis=1)
    return np.maximum(np.diff(edges, axis=1), LEAST)


def information(scores: np.ndarray, cuts: np.ndarray, groups: np.ndarray, epsilon: float) -> np.ndarray:
    """Fisher information about s of randomized response on groups of classes, in units of a normal observation."""
    edges = np.concatenate([[-np.inf], cuts, [np.inf]]) - scores[:, None]
    kinds = np.eye(groups.max() + 1)[groups]
    floor = 1.0 / (np.exp(epsilon) + kinds.shape[1] - 1)
    kept = np.expm1(epsilon) * floor
    chances = floor + kept * (np.diff(norm.cdf(edges)) @ kinds)
    slopes = kept * (-np.diff(norm.pdf(edges)) @ kinds)
    return (slopes**2 / chances).sum(axis=1)


def factorize(
    table: Table,
    likelihood: np.ndarray,
    others: np.ndarray,
    *,
    guess: np.ndarray,
    factors: int = 6,
    rounds: int = 200,
    unused: int = 60,
    seed: int = 0,
) -> Found:
    """Sample biases, factors and cut points given likelihoods, and predict other pairs by the mean over rounds.

    Args:
        table: Pairs that there are likelihoods of, and public features.
        likelihood: P(released | true = j) of each pair, up to a factor, shape (n, k).
        others: Pairs to predict, shape (m, 2).
        guess: Cut points as they are guessed beforehand, without a look at labels.
        factors: The number of factors.
        rounds: How often all are sampled.
        unused: After how many rounds predictions begin to count.
        seed: A public number.
    """
    chance = np.random.default_rng(seed)
    sides = []
    for column, features in enumerate((table.users, table.items)):
        values = 0.1 * chance.normal(size=(len(features), 1 + factors))
        sides.append(Side(features, table.pairs[:, column].copy(), values, np.zeros((features.shape[1], 1 + factors))))
    users, items = sides
    cuts, step = guess.astype(float), 0.03
    found, scores, places = np.zeros((len(others), len(guess) + 1)), np.zeros(len(others)), np.zeros(len(guess))

    def said(users_of: np.ndarray, items_of: np.ndarray) -> np.ndarray:
        return users_of[:, 0] + items_of[:, 0] + np.einsum("nd,nd->n", users_of[:, 1:], items_of[:, 1:])

    for number in range(rounds):
        score = said(users.values[users.original], items.values[items.original])
        present = class_probabilities(score, cuts) * likelihood
        moved = cuts + step * chance.normal(size=len(cuts))
        if (np.diff(moved) > 0).all():
            proposed = class_probabilities(score, moved) * likelihood
            gain = np.log(proposed.sum(axis=1) / present.sum(axis=1)).sum()
            gain += (((cuts - guess) ** 2).sum() - ((moved - guess) ** 2).sum()) / (2 * CUT_SPREAD**2)
            accepted = np.log(chance.random()) < gain
            step *= np.exp((accepted - ACCEPTED) / 10)
            if accepted:
                cuts, present = moved, proposed
        latent = drawn_latent(score, cuts, present, chance)
        users.sample(latent, items.values[items.original], chance)
        items.sample(latent, users.values[users.original], chance)
        if number >= unused:
            mean = said(users.values[others[:, 0]], items.values[others[:, 1]])
            found += class_probabilities(mean, cuts)
            scores += mean
            places += cuts
    used = rounds - unused
    return Found(found / found.sum(axis=1, keepdims=True), scores / used, places / used)


def drawn_latent(scores: np.ndarray, cuts: np.ndarray, weights: np.ndarray, chance: np.random.Generator) -> np.ndarray:
    """A class for each pair in shares of the weights, and a normal number around s between the cut points of it."""
    shares = np.cumsum(weights, axis=1)
    classes = (chance.random(len(scores)) * shares[:, -1])[:, None] >= shares[:, :-1]
    codes = classes.sum(axis=1)
    edges = np.concatenate([[-np.inf], cuts, [np.inf]])
    low, high = ndtr(edges[codes] - scores), ndtr(edges[codes + 1] - scores)
    place = np.clip(low + chance.random(len(scores)) * (high - low), LEAST, 1 - LEAST)
    return scores + ndtri(place)
