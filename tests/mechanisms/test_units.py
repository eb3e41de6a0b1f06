"""Units of several rows: their epsilon is shared, and what is certified is a whole unit's."""

import math

import mpmath
import numpy as np
import pytest

from labeldp import BitResponse, Classes, PriorResponse, RandomizedResponse, SubsetResponse
from labeldp._random_words import TapeWords
from labeldp.errors import InputError
from labeldp.mechanisms import draw
from labeldp.mechanisms.randomizers import grouped, per_unit, unit_sizes

SPACE = Classes(range(6))
KINDS = {
    "response": lambda e: RandomizedResponse(SPACE, e),
    "subset": lambda e: SubsetResponse(SPACE, e, size=2),
    "bits": lambda e: BitResponse(SPACE, e),
    "symmetric": lambda e: BitResponse(SPACE, e, form="symmetric"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_units_epsilon_is_what_was_asked_for(kind):
    """The sum of a unit's row epsilons, in high precision, is certified and at most what was asked for."""
    for epsilon in (0.1, 0.3, 0.7, 1.0, 2.3, 8.0):
        for sizes in ((1,), (2,), (3,), (7,), (1, 2, 5, 64), (1000,)):
            law = per_unit(KINDS[kind](epsilon), sizes)
            with mpmath.workdps(80):
                for channel, rows in zip(law.channels, sizes, strict=True):
                    one = mpmath.log(mpmath.mpf(channel.odds.numerator) / channel.odds.denominator)
                    assert one * rows <= mpmath.mpf(law.epsilon) <= mpmath.mpf(epsilon)
                    assert one * rows >= 0.98 * epsilon


@pytest.mark.parametrize(
    "rows", [[1], [3, 3, 3], [1, 2, 2, 5, 5, 5, 5, 5], list(range(1, 200)), [1 << 20], list(range(1, 2000, 7))]
)
def test_no_row_has_more_than_its_units_share(rows):
    """Each row's group stands for at least as many rows as its unit has, whatever rounding there is."""
    sizes = unit_sizes(np.array(rows))
    assert len(sizes) <= 64
    assert list(sizes) == sorted(set(sizes))
    law = grouped(per_unit(RandomizedResponse(SPACE, 1.0), sizes), np.array(rows))
    declared = np.array(law.repeats)[law.groups]
    assert (declared >= rows).all()
    assert (declared < 2 * np.array(rows)).all()
    if len(set(rows)) <= 64:
        assert (declared == rows).all()


@pytest.mark.parametrize("bad", [[0, 1], [-1], [(1 << 20) + 1]])
def test_a_unit_has_at_least_one_row_and_not_very_many(bad):
    """Units without rows do not exist, and very large ones are refused."""
    with pytest.raises(InputError, match="expected units"):
        unit_sizes(np.array(bad))


def test_a_unit_larger_than_the_law_is_refused():
    """A row of a unit with more rows than any group stands for has no law."""
    with pytest.raises(ValueError, match="expected"):
        grouped(per_unit(RandomizedResponse(SPACE, 1.0), (1, 2)), np.array([1, 3]))


def test_a_law_by_row_cannot_be_shared():
    """A randomizer with candidates for each row is refused, not applied to other rows."""
    with pytest.raises(InputError, match="expected a randomizer whose channel is the same"):
        per_unit(PriorResponse(SPACE, 1.0, [[1 / 6] * 6]), (2,))


def test_rows_of_a_unit_are_drawn_by_their_own_share():
    """Each row's draw is that of its group's law, from its own words."""
    rows = np.array([1, 2, 2, 3, 3, 3, 1])
    law = grouped(per_unit(SubsetResponse(SPACE, 3.0, size=2), unit_sizes(rows)), rows)
    codes = np.arange(7, dtype=np.int32) % 6
    tape = TapeWords(np.random.default_rng(4).integers(0, 2**64, 997, dtype=np.uint64))
    released = draw(law, codes, tape)
    words = tape.block(0, 7 * law.usual_words).reshape(7, -1)
    for i, size in enumerate(rows.tolist()):
        alone = SubsetResponse(SPACE, 3.0 if size == 1 else math.nextafter(3.0 / size, 0.0), size=2).channel()
        assert (alone.draw(codes[i : i + 1], words[i : i + 1, : alone.usual_words]) == released[i]).all()
