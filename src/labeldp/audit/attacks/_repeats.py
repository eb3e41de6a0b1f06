"""Repeated randomization: leakage of several releases of the same rows together.

Each draw of the same label multiplies its likelihood. At epsilon 1 and 10 classes one draw identifies 23.2 % of the
labels; 100 draws, such as a new one for each epoch of training, identify 97.77 % (failure mode 1).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TypeGuard

import numpy as np
from scipy.special import gammaln
from scipy.stats import binom, poisson

from labeldp import _checks
from labeldp._shapes import Float
from labeldp.audit.attacks._inference import (
    NO_KNOWLEDGE,
    Inference,
    Knowledge,
    Loss,
    checked_prior,
    make_attacker,
    normalised,
)
from labeldp.errors import InputError
from labeldp.privacy import Classes
from labeldp.privacy.channels import Channel, ClassChannel, row_arrays
from labeldp.release import Release

_MOST_TIMES = 500
_MOST_COUNTS = 2_000_000
_COUNTS_PER_BLOCK = 1 << 18
_COINCIDENCE = 1e-9  # equal releases less likely than this are taken for one draw


def infer_from_repeats(
    releases: Sequence[Release], knowledge: Knowledge = NO_KNOWLEDGE, *, loss: Loss = "wrong"
) -> Inference:
    """Compute the Bayes-optimal guess for each row from several independent releases of the same labels.

    The posterior is the prior belief times the product of the likelihoods, up to a factor. The channels may differ.

    Args:
        releases: Releases of the same n rows, in the same order; each draw once.
        knowledge: The attacker's knowledge; a prior is by default estimated from the first release.
        loss: As for ``infer_labels``.

    Guarantee:
        The guarantee of all of them together is the composition of their guarantees: at most the sum of epsilons.

    Example:
        >>> from labeldp import Classes, RandomizedResponse, Release
        >>> from labeldp.audit import Knowledge, infer_from_repeats
        >>> mechanism, by = RandomizedResponse(Classes(["no", "yes"]), 1.0), "three surveys"
        >>> answers = ["no", "yes"], ["no", "no"], ["yes", "no"]
        >>> releases = [Release.randomized(each, mechanism, declared_by=by) for each in answers]
        >>> infer_from_repeats(releases, Knowledge(prior=[0.5, 0.5])).labels().tolist()
        ['no', 'no']

    Raises:
        InputError: There are no releases, they differ in rows or label space, or one is there twice: a draw carries no
            information the second time.
    """
    draws = list(releases)
    _check_same_rows(draws)
    attacker = make_attacker(draws[0], knowledge, loss)
    guesses, expected = [], []
    for rows in attacker.blocks():
        posterior = attacker.posterior(rows, True)
        for release in draws[1:]:
            posterior = normalised(posterior, release.channel.take(rows).likelihood(release.codes[rows]))
        answers = attacker.best(posterior)
        guesses.append(answers[0])
        expected.append(answers[1])
    knows = f"{len(draws)} released labels of each row" + ("" if knowledge.probabilities is None else ", and features")
    return Inference(draws[0].space, knows, attacker.loss, np.concatenate(guesses), np.concatenate(expected))


def repeated_success(channel: Channel, times: int, prior: object = None) -> float:
    """Exact probability of a right best guess after some number of independent draws of the same label.

    For randomized response with equally likely classes the best guess is the most frequent class (ties are broken at
    random). The number of draws of the true class is binomial, and those of the others are independent Poisson numbers
    given their sum; so the probability is a sum over the leading count and the number of ties. Otherwise all possible
    counts of outcomes are enumerated.

    Args:
        channel: A channel that is the same for all rows.
        times: Number of draws, at most 500.
        prior: P(true label) in declared order, shape (k,); uniform by default.

    References:
        Failure mode 1 (``docs/failure-modes.md``); ``repeated_limit`` is the bound from composition.

    Example:
        >>> from labeldp.privacy.channels import ResponseChannel
        >>> channel = ResponseChannel.at(10, 1.0)
        >>> round(repeated_success(channel, 1), 3), round(repeated_success(channel, 100), 3)
        (0.232, 0.978)

    Raises:
        InputError: There are too many possible counts, or the channel differs by row.
    """
    count = _checks.whole(times, "times", 1, _MOST_TIMES)
    space = Classes(range(channel.classes))
    weights = np.full(channel.classes, 1 / channel.classes) if prior is None else checked_prior(prior, space)
    if _is_response(channel) and np.allclose(weights, weights[0], rtol=0, atol=1e-12):
        return _plurality_success(float(channel.membership.true), channel.classes, count)
    try:
        matrix = channel.table().matrix
    except ValueError:  # the table is too large
        raise InputError("expected a channel with few outcomes that is the same for all rows, found another") from None
    return _enumerated_success(matrix, count, weights)


def _check_same_rows(releases: list[Release]) -> None:
    if not releases or not all(isinstance(each, Release) for each in releases):
        raise InputError("expected at least one release, found none, or something other than releases")
    first = releases[0]
    for each in releases[1:]:
        if len(each) != len(first) or each.space.describe() != first.space.describe():
            raise InputError(
                f"expected releases of the same {len(first)} rows and label space, found one of {len(each)} rows or of "
                "another space"
            )
    if any(_same_draw(one, other) for one, other in itertools.combinations(releases, 2)):
        raise InputError("expected different draws, found one twice; the repeat carries no new information")


def _same_draw(one: Release, other: Release) -> bool:
    """True if two releases are one draw: the same object, or equal labels that two draws would hardly give.

    Two draws from one label agree with a probability of at most that of the likeliest outcome: of its class or of
    another.
    """
    if one is other:
        return True
    channel = one.channel
    if not isinstance(channel, ClassChannel) or not np.array_equal(one.codes, other.codes):
        return False
    true = np.broadcast_to(np.asarray(channel.membership.true), (len(one),))
    return float(np.log(np.maximum(true, 1 - true)).sum()) < math.log(_COINCIDENCE)


def _is_response(channel: Channel) -> TypeGuard[ClassChannel]:
    """True if a class is released, and all but the true one are equally likely in each row: randomized response."""
    return isinstance(channel, ClassChannel) and channel.form == "class" and channel.even and not row_arrays(channel)


def _plurality_success(keep: float, classes: int, times: int) -> float:
    """Probability that the true class is the most frequent, with ties shared evenly.

    Let it occur c times. The others share the ``m = times - c`` remaining draws evenly: their counts are Poisson
    numbers of mean ``m / (k-1)``, conditioned on summing to m. With j of them at c and the rest below, a tie is won
    with probability ``1 / (j + 1)``.
    """
    others, total = classes - 1, []
    for c in range(-(-times // classes), times + 1):
        rest = times - c
        binomial = float(binom.pmf(c, times, keep))
        if binomial == 0.0:
            continue
        if rest == 0:
            total.append(binomial)
            continue
        mean = rest / others
        chances = poisson.pmf(np.arange(min(c, rest) + 1), mean)
        whole = float(poisson.pmf(rest, others * mean))
        below, at = chances[:c], float(chances[c]) if c <= rest else 0.0
        sums = [np.ones(1)]  # distribution of the sum of so many counts below c
        for _ in range(others):
            sums.append(np.convolve(sums[-1], below)[: rest + 1])
        win_probability = 0.0
        for j in range(others + 1):
            remaining, distribution = rest - j * c, sums[others - j]
            if 0 <= remaining < len(distribution) and (at > 0 or j == 0):
                win_probability += math.comb(others, j) * at**j * float(distribution[remaining]) / (j + 1)
        total.append(binomial * min(1.0, win_probability / whole))
    return math.fsum(total)


def _enumerated_success(matrix: Float[np.ndarray, "k m"], times: int, prior: Float[np.ndarray, "k"]) -> float:
    """Sum over all counts of outcomes of the largest joint probability."""
    outcomes = matrix.shape[1]
    ways = math.comb(times + outcomes - 1, outcomes - 1)
    if ways > _MOST_COUNTS:
        raise InputError(
            f"expected at most {_MOST_COUNTS:,} possible counts of outcomes, found {ways:,}; use fewer draws, or "
            "simulate: infer made-up labels from releases of them"
        )
    with np.errstate(divide="ignore"):
        logarithms, log_prior = np.log(matrix), np.log(prior)
    bars = itertools.combinations(range(times + outcomes - 1), outcomes - 1)
    total = []
    while block := list(itertools.islice(bars, _COUNTS_PER_BLOCK)):
        places = np.array(block, dtype=np.int64).reshape(len(block), outcomes - 1)
        edges = np.concatenate(
            [np.full((len(block), 1), -1), places, np.full((len(block), 1), times + outcomes - 1)], axis=1
        )
        counts = np.diff(edges, axis=1) - 1
        ways_each = gammaln(times + 1) - gammaln(counts + 1).sum(axis=1)
        with np.errstate(invalid="ignore"):  # impossible outcomes, none of which occurred
            joint = np.where(counts[:, None, :] > 0, counts[:, None, :] * logarithms, 0.0).sum(axis=2) + log_prior
        total.append(float(np.exp(joint.max(axis=1) + ways_each).sum()))
    return math.fsum(total)
