"""The channel of cluster response: its integers, its exact cost, and cheap slices of it."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from labeldp.privacy.channels import ClusterChannel, ResponseChannel, channel_of, law_of

ROWS = np.array([0, 1, 1, 0, 2], dtype=np.int32)
DISTRIBUTIONS = np.array([[0.9, 0.05, 0.05], [0.2, 0.3, 0.5], [1 / 3, 1 / 3, 1 / 3]])


def worst_of(channel, row):
    """The largest ratio of an outcome's words under two true classes, from every word of a row drawn."""
    words = np.arange(1 << channel.bits, dtype=np.uint64)[:, None]
    part = channel.take(np.full(len(words), row))
    counts = [
        np.bincount(part.draw(np.full(len(words), code, dtype=np.int32), words), minlength=channel.classes)
        for code in range(channel.classes)
    ]
    return max(Fraction(int(a), int(b)) for one in counts for other in counts for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("floor", [0.05, 0.2, 1 / 3])
@pytest.mark.parametrize("redrawn", [0.1, 0.5, 0.99])
def test_redrawing_costs_what_counting_every_word_gives(floor, redrawn):
    """Each cluster costs the ratio of its counted law, and none more than the cluster that no row is in."""
    distributions = floor + (1 - 3 * floor) * DISTRIBUTIONS
    channel = ClusterChannel.redrawing(distributions, floor, redrawn, np.arange(4, dtype=np.int32), bits=16)
    counted = [worst_of(channel, row) for row in range(4)]
    assert max(counted) == counted[-1] == channel.odds
    with mpmath.workdps(50):
        for ratio, epsilon in zip(counted, channel.epsilons, strict=True):
            exact = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
            assert exact <= epsilon <= exact + mpmath.mpf(2) ** -50


@pytest.mark.parametrize("redrawn", [1e-6, 0.3, 0.999999])
@pytest.mark.parametrize("floor", [1e-9, 0.01, 1 / 3, 0.1, 1 / 7])
def test_the_worst_cluster_is_known_before_any_distribution(floor, redrawn):
    """At 64 bits the odds do not depend on the distributions, and are those of the formula at the floor."""
    rng = np.random.default_rng(1)
    found = {
        ClusterChannel.redrawing(floor + (1 - 3 * floor) * rng.dirichlet([0.1] * 3, 20), floor, redrawn, ROWS).odds
        for _ in range(10)
    }
    assert len(found) == 1
    assert math.log(found.pop()) == pytest.approx(math.log1p((1 - redrawn) / (redrawn * floor)), rel=1e-6)


@pytest.mark.parametrize("classes", [2, 3, 7, 10])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_an_even_cluster_has_the_words_of_randomized_response(classes, epsilon):
    """Corollary 1: word for word the law of randomized response at the same epsilon."""
    response = ResponseChannel.at(classes, epsilon)
    channel = ClusterChannel.at(np.full((1, classes), 1 / classes), epsilon, np.zeros(1, dtype=np.int32))
    assert set(channel.weights[0]) == {response.other}
    assert channel.keep[0] + response.other == response.keep


def test_a_slice_is_the_channel_of_its_rows():
    """Whatever was asked of the whole before, a slice answers for its own rows."""
    channel = ClusterChannel.at(DISTRIBUTIONS, 1.0, ROWS)
    whole = channel.membership
    for rows in (slice(1, 4), np.array([4, 0]), slice(0, 0)):
        part, fresh = channel.take(rows), ClusterChannel(3, channel.keep, channel.weights, ROWS[rows])
        assert np.array_equal(part.clusters, ROWS[rows])
        assert np.array_equal(part.membership.true, whole.true[rows])
        assert np.array_equal(part.membership.true, fresh.membership.true)
        assert np.array_equal(part.levels(ROWS[rows]).high, fresh.levels(ROWS[rows]).high)
        assert (part.odds, law_of(part)) == (fresh.odds, law_of(fresh))
    assert np.array_equal(channel.clusters, ROWS)


def test_slices_do_not_check_clusters_again(monkeypatch):
    """A draw in chunks asks each channel for its rows, and none of them looks at all clusters again."""
    channel = ClusterChannel.at(DISTRIBUTIONS, 1.0, ROWS)
    monkeypatch.setattr(ClusterChannel, "__post_init__", None)
    assert channel.take(slice(0, 2))._numbers is channel._numbers


QUARTER = 1 << 62
WRONG = {
    "one word too many": ((QUARTER + 1,), ((QUARTER, QUARTER, QUARTER),)),
    "one too few": ((QUARTER - 1,), ((QUARTER, QUARTER, QUARTER),)),
    "all words twice": ((1 << 63,), ((1 << 63, 1 << 63, 1 << 63),)),
    "a sum that passes 2**64": ((2,), ((2**64 - 1, 2**64 - 1, 2**64 - 1),)),
    "a class without words": ((QUARTER,), ((0, 2 * QUARTER, QUARTER),)),
    "a last class without words": ((QUARTER,), ((2 * QUARTER, QUARTER, 0),)),
    "nothing kept": ((0,), ((2 * QUARTER, QUARTER, QUARTER),)),
    "less than nothing": ((-1,), ((2 * QUARTER, QUARTER, QUARTER + 1),)),
    "more than a word holds": ((QUARTER,), ((1 << 64, QUARTER, QUARTER),)),
    "another number of classes": ((QUARTER,), ((2 * QUARTER, QUARTER),)),
    "clusters of other classes": ((QUARTER, QUARTER), ((QUARTER,) * 3, (QUARTER,) * 2)),
    "another number of clusters": ((QUARTER, QUARTER), ((QUARTER,) * 3,)),
    "no cluster": ((), ()),
}


@pytest.mark.parametrize("case", WRONG)
def test_integers_that_are_no_law_are_refused(case):
    """Every word is used once, in every cluster, also where sums run over what 64 bits hold."""
    keep, weights = WRONG[case]
    with pytest.raises(ValueError, match="expected"):
        ClusterChannel(3, keep, weights, np.zeros(1, dtype=np.int32))
    with pytest.raises(ValueError, match="expected"):
        channel_of(
            {
                "kind": "cluster", "classes": "3", "bits": "64", "by_row": ["clusters"],
                "keep": [str(each) for each in keep], "weights": [[str(each) for each in line] for line in weights],
            }
        )  # fmt: skip


def test_sixteen_bits_are_checked_too():
    """A law of short words that sums to a multiple of its word is none."""
    ClusterChannel(2, (1 << 15,), ((1 << 14, 1 << 14),), np.zeros(1, dtype=np.int32), bits=16)
    for keep, weights in (((1 << 15,), ((1 << 15, 1 << 16),)), ((1 << 16,), ((1 << 15, 1 << 15),))):
        with pytest.raises(ValueError, match="every word once"):
            ClusterChannel(2, keep, weights, np.zeros(1, dtype=np.int32), bits=16)
