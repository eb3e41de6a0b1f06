"""Labels that were randomized again and again: what several releases of the same rows give away together.

Each draw of the same label multiplies its likelihood. At epsilon 1 and 10 classes one draw names 23.2 % of the labels;
100 draws, as a new one for each epoch of training would be, name 97.77 % (failure mode 1).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

from labeldp import _checks
from labeldp.audit.attacks._inference import Inference, Loss, attacker_of, checked_prior, normalised
from labeldp.errors import InputError
from labeldp.privacy import Classes
from labeldp.privacy.channels import Channel, ClassChannel, ResponseChannel
from labeldp.release import Release

_MOST_TIMES = 500
_MOST_COUNTS = 2_000_000
_COUNTS_PER_BLOCK = 1 << 18
_COINCIDENCE = 1e-9  # equal releases that are less likely are one draw


def infer_from_repeats(
    releases: Sequence[Release],
    probabilities: object = None,
    prior: object = None,
    *,
    features: object = None,
    loss: Loss = "wrong",
) -> Inference:
    """The Bayes-optimal answer for each row from several releases of the same labels, drawn independently.

    The posterior is what is believed beforehand times the product of the likelihoods. Their channels may differ.

    Args:
        releases: Releases of the same n rows, in the same order; each draw once.
        probabilities: As for ``infer_labels``.
        prior: As for ``infer_labels``; by default estimated from the first release.
        features: As for ``infer_labels``.
        loss: As for ``infer_labels``.

    Guarantee:
        What is promised of all of them together is the composition of their guarantees: at most the sum of epsilons.

    Example:
        >>> from labeldp import Classes, Release
        >>> from labeldp.privacy.channels import ResponseChannel
        >>> space, channel = Classes(["no", "yes"]), ResponseChannel.at(2, 1.0)
        >>> draws = [Release(codes, channel, space, None) for codes in ([0, 1], [0, 0], [1, 0])]
        >>> infer_from_repeats(draws, prior=[0.5, 0.5]).labels().tolist()
        ['no', 'no']

    Raises:
        InputError: There are no releases, they have other numbers of rows or label spaces, or one is there twice: the
            same draw tells nothing more.
    """
    found = list(releases)
    _check_alike(found)
    attacker = attacker_of(found[0], probabilities, prior, features, None, loss)
    said, expected = [], []
    for rows in attacker.blocks():
        posterior = attacker.posterior(rows, True)
        for release in found[1:]:
            posterior = normalised(posterior, release.channel.take(rows).likelihood(release.codes[rows]))
        answers = attacker.best(posterior)
        said.append(answers[0])
        expected.append(answers[1])
    knows = f"{len(found)} released labels of each row" + ("" if probabilities is None else ", and features")
    return Inference(found[0].space, knows, attacker.loss, np.concatenate(said), np.concatenate(expected))


def repeated_success(channel: Channel, times: int, prior: object = None) -> float:
    """The chance that the best guess is right after so many independent draws of the same label, exactly.

    Of randomized response with even classes the best guess is the class that came most often (a tie is broken by
    chance). The number of draws of the true class is binomial, and those of the others are independent Poisson numbers
    given their sum; so the chance is a sum over the leading count and the number of ties. Otherwise all ways in which
    outcomes may be counted are written out.

    Args:
        channel: A law of released labels that does not differ by row.
        times: How many draws, at most 500.
        prior: P(true label), shape (k,); by default even.

    References:
        Failure mode 1 (``docs/failure-modes.md``); ``repeated_limit`` is what composition promises of it.

    Example:
        >>> from labeldp.privacy.channels import ResponseChannel
        >>> channel = ResponseChannel.at(10, 1.0)
        >>> round(repeated_success(channel, 1), 3), round(repeated_success(channel, 100), 3)
        (0.232, 0.978)

    Raises:
        InputError: There are too many ways to count; or the law differs by row.
    """
    count = _checks.whole(times, "times", 1, _MOST_TIMES)
    space = Classes(range(channel.classes))
    weights = np.full(channel.classes, 1 / channel.classes) if prior is None else checked_prior(prior, space)
    if isinstance(channel, ResponseChannel) and np.allclose(weights, weights[0], rtol=0, atol=1e-12):
        return _plurality(float(channel.membership.true), channel.classes, count)
    try:
        law = channel.table().matrix
    except ValueError:  # it says that the law is too large
        raise InputError("expected a small law that is the same for all rows, found a larger one") from None
    return _counted(law, count, weights)


def repeated_limit(epsilon: float, classes: int, times: int) -> float:
    """The most that composition lets a best guess succeed with, for even classes: at ``times`` epsilons together.

    References:
        Ghazi et al. 2021, theorem 3: no mechanism with epsilon E tells one of k even classes with a chance above
        ``exp(E)/(exp(E) + k - 1)``. The sum of epsilons is what is promised of any mechanisms.
    """
    total = _checks.epsilon(epsilon) * _checks.whole(times, "times", 1, 1 << 30)
    return 1 / (1 + (_checks.whole(classes, "classes", 2, 1 << 24) - 1) * math.exp(-total))


def _check_alike(releases: list[Release]) -> None:
    if not releases or not all(isinstance(each, Release) for each in releases):
        raise InputError("expected one release or more, found none or something else")
    first = releases[0]
    for each in releases[1:]:
        if len(each) != len(first) or each.space.describe() != first.space.describe():
            raise InputError(
                f"expected releases of the same {len(first)} rows and label space, found one of {len(each)} rows or of "
                "another space"
            )
    if any(_same_draw(one, other) for one, other in itertools.combinations(releases, 2)):
        raise InputError("expected draws that are each given once, found one twice; it tells nothing more")


def _same_draw(one: Release, other: Release) -> bool:
    """Whether two releases are one draw: the same object, or equal labels that two draws would hardly give.

    Two draws from one label agree with a chance of at most that of the likeliest outcome: of its class or of another.
    """
    if one is other:
        return True
    channel = one.channel
    if not isinstance(channel, ClassChannel) or not np.array_equal(one.codes, other.codes):
        return False
    true = np.broadcast_to(np.asarray(channel.membership.true), (len(one),))
    return float(np.log(np.maximum(true, 1 - true)).sum()) < math.log(_COINCIDENCE)


def _plurality(keep: float, classes: int, times: int) -> float:
    """The chance that the true class comes most often, ties shared evenly.

    Let it come c times. The others share the ``m = times - c`` remaining draws evenly: their counts are Poisson numbers
    of mean ``m / (k-1)``, given that they sum to m. With j of them at c and the rest below, a tie is won once in j + 1.
    """
    others, total = classes - 1, []
    for c in range(-(-times // classes), times + 1):
        rest = times - c
        binomial = _binomial(times, c, keep)
        if binomial == 0.0:
            continue
        if rest == 0:
            total.append(binomial)
            continue
        mean = rest / others
        chances = np.exp(_log_poisson(np.arange(min(c, rest) + 1), mean))
        whole = math.exp(float(_log_poisson(np.array([rest]), others * mean)[0]))
        below, at = chances[:c], float(chances[c]) if c <= rest else 0.0
        sums = [np.ones(1)]  # the law of the sum of so many counts below c
        for _ in range(others):
            sums.append(np.convolve(sums[-1], below)[: rest + 1])
        won = 0.0
        for j in range(others + 1):
            left, law = rest - j * c, sums[others - j]
            if 0 <= left < len(law) and (at > 0 or j == 0):
                won += math.comb(others, j) * at**j * float(law[left]) / (j + 1)
        total.append(binomial * min(1.0, won / whole))
    return math.fsum(total)


def _binomial(trials: int, count: int, chance: float) -> float:
    """A binomial probability."""
    if chance >= 1.0:
        return float(count == trials)
    logarithm = gammaln(trials + 1) - gammaln(count + 1) - gammaln(trials - count + 1)
    return math.exp(float(logarithm) + count * math.log(chance) + (trials - count) * math.log1p(-chance))


def _log_poisson(counts: np.ndarray, mean: float) -> Float[np.ndarray, "m"]:
    return np.asarray(counts * math.log(mean) - mean - gammaln(counts + 1))


def _counted(law: Float[np.ndarray, "k m"], times: int, prior: Float[np.ndarray, "k"]) -> float:
    """The sum over all counts of outcomes of the largest joint probability."""
    outcomes = law.shape[1]
    ways = math.comb(times + outcomes - 1, outcomes - 1)
    if ways > _MOST_COUNTS:
        raise InputError(
            f"expected at most {_MOST_COUNTS:,} ways to count outcomes, found {ways:,}; ask for fewer draws, or infer "
            "labels that were made up from drawn releases"
        )
    with np.errstate(divide="ignore"):
        logarithms, beforehand = np.log(law), np.log(prior)
    bars = itertools.combinations(range(times + outcomes - 1), outcomes - 1)
    total = []
    while block := list(itertools.islice(bars, _COUNTS_PER_BLOCK)):
        places = np.array(block, dtype=np.int64).reshape(len(block), outcomes - 1)
        edges = np.concatenate(
            [np.full((len(block), 1), -1), places, np.full((len(block), 1), times + outcomes - 1)], axis=1
        )
        counts = np.diff(edges, axis=1) - 1
        ways_each = gammaln(times + 1) - gammaln(counts + 1).sum(axis=1)
        with np.errstate(invalid="ignore"):  # what cannot come, and did not
            joint = np.where(counts[:, None, :] > 0, counts[:, None, :] * logarithms, 0.0).sum(axis=2) + beforehand
        total.append(float(np.exp(joint.max(axis=1) + ways_each).sum()))
    return math.fsum(total)
