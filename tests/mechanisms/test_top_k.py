"""The most common classes of cells, chosen at once: their exact law, and the sensitivity that it shows.

The statistical tests compare exact binomial tails with a chance of a false alarm of at most 1e-9 each.
"""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from labeldp import Classes, NoisyTopK
from labeldp._random_words import SecureWords, TapeWords
from labeldp.errors import InputError
from labeldp.mechanisms.queries import promise_of
from labeldp.mechanisms.queries._noise import PARTS

ALARM = 1e-9
SPACE = Classes(["a", "b", "c"])
RATE = PARTS
#: Noise beyond this has a probability of about 1e-17.
BEYOND = 40


@functools.cache
def law_of_top(counts, top):
    """The probability of each ordered choice, over all geometric noise and all orders of equal sums."""
    k, q = len(counts), math.exp(-RATE / PARTS)
    noise = np.stack(np.meshgrid(*[np.arange(BEYOND)] * k, indexing="ij"), axis=-1).reshape(-1, k)
    chance = ((1 - q) * q**noise).prod(axis=1) / math.factorial(k)
    law = dict.fromkeys(itertools.permutations(range(k), top), 0.0)
    for ties in itertools.permutations(range(k)):
        order = np.lexsort((np.broadcast_to(ties, noise.shape), -(noise + counts)), axis=-1)[:, :top]
        places = (order * k ** np.arange(top)).sum(axis=1)
        sums = np.bincount(places, chance, minlength=k**top)
        for choice in law:
            law[choice] += sums[sum(entry * k**at for at, entry in enumerate(choice))]
    return law


def moved(counts, labels):
    """All counts after so many labels of one cell were replaced."""
    now = {tuple(counts)}
    for _ in range(labels):
        now |= {
            tuple(count - (j == a) + (j == b) for j, count in enumerate(each))
            for each in now
            for a, b in itertools.permutations(range(len(each)), 2)
            if each[a] > 0
        }
    return now


@pytest.mark.parametrize("labels", [1, 2])
@pytest.mark.parametrize("top", [1, 2, 3])
def test_the_sensitivity_is_what_the_exact_law_shows(top, labels):
    """Over all replacements of a unit's labels, the log-ratio of a choice stays within its bound, and comes near."""
    worst = 0.0
    for counts in ((6, 1, 1), (3, 3, 3), (1, 2, 6), (0, 1, 7)):
        law = law_of_top(counts, top)
        for other in moved(counts, labels):
            neighbour = law_of_top(other, top)
            worst = max(worst, *(abs(math.log(law[choice] / neighbour[choice])) for choice in law))
    sensitivity = NoisyTopK(SPACE, 1.0, top=top).sensitivity
    assert sensitivity == min(top, 2) + 1  # the last of three classes follows from the others
    assert worst <= sensitivity * labels * RATE / PARTS * (1 + 1e-6)
    assert worst > 0.9 * sensitivity * labels * RATE / PARTS


@pytest.mark.parametrize("top", [1, 2, 3])
@pytest.mark.parametrize("counts", [(5, 3, 4), (2, 2, 2), (6, 0, 0)])
def test_choices_follow_their_law(counts, top):
    """Every ordered choice, also among equal counts."""
    query = NoisyTopK(SPACE, 1.0, top=top)
    found = query.values(np.tile(counts, (100_000, 1)), RATE, SecureWords())
    choices, counted = np.unique(found, axis=0, return_counts=True)
    seen = dict(zip(map(tuple, choices.tolist()), counted.tolist(), strict=True))
    law = law_of_top(counts, top)
    for choice, chance in law.items():
        count = seen.get(choice, 0)
        assert min(binom.cdf(count, 100_000, chance), binom.sf(count - 1, 100_000, chance)) > ALARM / len(law)


def test_noise_does_not_depend_on_how_much_is_drawn_at_once():
    """With one tape, the noise on the first cells is the same however many cells follow."""
    tape = TapeWords(np.random.default_rng(3).integers(0, 2**64, 1 << 20, dtype=np.uint64))
    few, many = (NoisyTopK(SPACE, 0.2, top=3).values(np.zeros((n, 3), int), RATE, tape) for n in (40, 400))
    assert (few == many[:40]).all()


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("top", [0, 4, -1, 1.5, "2", None, True])
def test_a_number_of_classes_that_there_is_not_is_refused(top):
    """From 1 to k."""
    with pytest.raises(InputError, match="expected top"):
        NoisyTopK(SPACE, 1.0, top=top)


@pytest.mark.parametrize(
    "forged", [{"top": "1"}, {"top": "0"}, {"top": "4", "sensitivity": "5"}, {"top": "02"}, {"sensitivity": "2"}]
)
def test_a_law_of_other_integers_promises_nothing(forged):
    """The sensitivity follows from the number of classes, which the space must have."""
    law = NoisyTopK(SPACE, 1.0, top=2).law(1)
    assert promise_of(law, SPACE).epsilon <= 1.0
    with pytest.raises(ValueError, match="expected"):
        promise_of(law | forged, SPACE)
