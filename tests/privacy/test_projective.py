"""Projective-geometry response: its cost and its efficiency against subsets, and its stored form."""

import itertools
import json
import math
from fractions import Fraction

import mpmath
import numpy as np
import pyarrow.parquet as pq
import pytest

from labeldp import Classes, Curator, Release, SubsetResponse, best_response, gradient_response, verify
from labeldp.audit import audit_folder
from labeldp.errors import EpsilonError, InputError, VerificationError
from labeldp.learning.losses import row_loss
from labeldp.learning.metrics import accuracy
from labeldp.mechanisms.randomizers import ProjectiveResponse
from labeldp.privacy.channels import (
    ClusterChannel,
    ProjectiveChannel,
    ResponseChannel,
    channel_of,
    gradient_noise,
    law_of,
    members,
    pack,
    pair_share,
    total_variance,
    unpack,
)
from labeldp.privacy.channels import projective_order as best_order
from labeldp.privacy.channels._bitsets import sizes

HALF = 1 << 32


def test_points_are_numbered_once():
    """Every number is a point of its own, with a leading 1, and its set has the classes that are orthogonal to it."""
    for classes, order in ((2, 2), (7, 2), (9, 2), (13, 3), (14, 3), (31, 5), (58, 7)):
        channel = ProjectiveChannel.at(classes, order, 1.0)
        vectors = channel._vectors(np.arange(channel.points))
        assert len({tuple(vector) for vector in vectors.tolist()}) == channel.points
        assert all(next(filter(None, vector)) == 1 for vector in vectors.tolist())
        mask = channel.mask(np.arange(channel.points, dtype=np.int32))
        assert (mask == (vectors @ vectors[:classes].T % order == 0)).all()


def test_any_two_hyperplanes_share_as_many_points():
    """Sets have one size, two classes are together equally often, and three of them either 1 or 4 times."""
    channel = ProjectiveChannel.at(40, 3, 1.0)
    mask = channel.mask(np.arange(channel.points, dtype=np.int32))
    assert set(mask.sum(axis=1)) == set(mask.sum(axis=0)) == {channel.favoured} == {13}
    assert {int((mask[:, a] & mask[:, b]).sum()) for a, b in itertools.combinations(range(40), 2)} == {4}
    assert {int(mask[:, [0, a, b]].all(axis=1).sum()) for a, b in itertools.combinations(range(1, 40), 2)} == {1, 4}


@pytest.mark.parametrize("inside", [True, False])
def test_a_pick_is_exactly_uniform(inside):
    """Each pick has floor(2**32 / bound) halves, and the draw keeps and rejects at exactly their two ends."""
    channel = ProjectiveChannel.at(121, 3, 1.0)
    bound, first = (40, channel.member - 1) if inside else (81, 2**64 - 1)  # words that are left over
    rejected = HALF % bound

    def drawn(*halves):
        line = [first, halves[0] | halves[1] << 32, *[HALF - 1 | (HALF - 1) << 32] * (channel.words_per_row - 2)]
        return int(channel.draw(np.array([17], np.int32), np.array([line], np.uint64))[0])

    ends = [(-(-(pick * HALF + rejected) // bound), -(-((pick + 1) * HALF) // bound) - 1) for pick in range(bound)]
    assert all(high - low + 1 == HALF // bound for low, high in ends)
    points = [drawn(low, 0) for low, _ in ends]
    assert len(set(points)) == bound
    assert [drawn(high, 0) for _, high in ends] == points
    for pick in (1, bound // 2):  # a half between two picks is rejected, and the next one decides
        low = ends[pick][0]
        if ends[pick - 1][1] < low - 1:
            assert drawn(low - 1, ends[3][0]) == points[3]


@pytest.mark.parametrize("broken", [(13, 4, 1 << 63), (13, 1, 1 << 63), (1, 3, 1 << 63), (13, 3, 0), (13, 3, 1 << 64)])
def test_integers_that_form_no_law_are_refused(broken):
    """Orders that are no primes, a single class, and weights that favour nothing are refused."""
    with pytest.raises(ValueError, match="expected"):
        ProjectiveChannel(*broken)
    with pytest.raises(ValueError, match="expected a weight"):
        ProjectiveChannel(13, 3, 1 << 60)


@pytest.mark.parametrize("order", [0, 1, 4, -3, 9, 5000, 2.0])
def test_orders_that_are_no_primes_are_refused(order):
    """The randomizer says what it expects."""
    with pytest.raises(InputError, match="expected"):
        ProjectiveResponse(Classes(range(20)), 1.0, order)
    with pytest.raises(EpsilonError):
        ProjectiveResponse(Classes(range(20)), 1e-30)


@pytest.mark.parametrize("classes", [1000, 10_000])
@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_it_is_nearly_as_good_as_the_best_subsets(classes, epsilon):
    """Effective rows are at least 98 % of those of subsets, 99 % at epsilon 1 and 4, and variance at most 3 % more."""
    space = Classes(range(classes))
    one, subset = ProjectiveResponse(space, epsilon).channel(), SubsetResponse(space, epsilon).channel()
    share = float(pair_share(one.membership)) / float(pair_share(subset.membership))
    assert share >= (0.98 if epsilon == 2.0 else 0.99)
    assert share <= 1.0
    counting = ProjectiveResponse(space, epsilon, best_order(classes, epsilon, counting=True)).channel()
    least = total_variance(gradient_response(space, epsilon).channel().membership, classes)
    assert 1.0 <= total_variance(counting.membership, classes) / least <= 1.03
    assert gradient_noise(one).right_angled == pytest.approx(total_variance(one.membership, classes))


@pytest.mark.parametrize("classes", [2, 100, 256, 257, 1000, 5000])
def test_auto_takes_it_where_it_is_as_good_and_cheaper(classes):
    """It has at least 99 % of the effective rows of subsets and fewer words; with few classes subsets stay."""
    for epsilon in (0.1, 0.5, 1.0, 1.5, 2.0, 4.0, 6.0, 12.0):
        space = Classes(range(classes))
        chosen, subset = best_response(space, epsilon), SubsetResponse(space, epsilon)
        assert chosen.expectation.clean_share >= 0.99 * subset.expectation.clean_share
        if chosen.name == "projective":
            assert classes > 256
            assert chosen.channel().words_per_row < subset.channel().words_per_row
        assert chosen.name == "projective" or classes <= 257 or epsilon in (0.5, 2.0, 12.0)


def test_the_words_of_a_row_do_not_grow_with_the_classes():
    """A few words, where subsets take hundreds; and four bytes are stored, where a set takes a bit for each class."""
    words = {k: ProjectiveResponse(Classes(range(k)), 1.0).channel().words_per_row for k in (10, 1000, 10_000)}
    assert words == {10: 4, 1000: 5, 10_000: 6}
    assert SubsetResponse(Classes(range(1000)), 1.0).channel().words_per_row == 195
    assert ProjectiveChannel.at(1 << 22, 3, 1.0).words_per_row < 12


def test_a_release_is_saved_verified_audited_and_read_back(tmp_path):
    """The folder holds one integer for each row, and every package understands it."""
    space, rng = Classes([f"c{i}" for i in range(50)]), np.random.default_rng(1)
    labels = [f"c{i}" for i in rng.integers(0, 50, 4000)]
    release = Curator(labels, space).randomize(ProjectiveResponse(space, 2.0))
    folder = release.save(tmp_path / "shared")
    assert verify(folder).holds
    assert audit_folder(folder).holds
    (file,) = folder.glob("*.parquet")
    assert str(pq.read_schema(file).field("label_released").type) == "int32"
    again = Release.load(folder)
    assert (again.codes == release.codes).all()
    assert law_of(again.channel) == law_of(release.channel)
    assert (again.channel.mask(again.codes) == release.channel.mask(release.codes)).all()
    loss = row_loss(again, "likelihood")
    assert (np.unpackbits(loss.mask, axis=1, count=50, bitorder="little") == again.channel.mask(again.codes)).all()
    found = accuracy(again, np.array(labels))
    assert found.low <= 1.0 <= found.high + 0.2


def test_a_number_of_no_point_is_refused(tmp_path):
    """A stored number beyond the points is impossible under the law."""
    space = Classes(range(20))
    release = Curator([3] * 100, space).randomize(ProjectiveResponse(space, 1.0))
    codes = release.codes.copy()
    codes[7] = release.channel.points
    with pytest.raises(VerificationError):
        Release.load(Release(codes, release.channel, space, release.certificate).save(tmp_path / "shared"))


def test_the_law_comes_back_without_its_dimension():
    """The number of dimensions follows from the classes and the order, so a law has one form."""
    law = json.loads(json.dumps(law_of(ProjectiveChannel.at(1000, 3, 1.0))))
    assert sorted(law) == ["bits", "by_row", "classes", "kind", "member", "order"]
    assert channel_of(law).dimension == 7


# Packed sets, against sets of Python.


@pytest.mark.parametrize("classes", [1, 2, 7, 8, 9, 16, 17, 300])
def test_packing_comes_back_and_is_in_class_order(classes):
    """Packed bits hold class j in bit j % 8 of byte j // 8, unpack to the same mask, and count alike."""
    mask = np.random.default_rng(classes).random((50, classes)) < 0.4
    packed = pack(mask)
    assert packed.dtype == np.uint8
    assert packed.shape == (50, (classes + 7) // 8)
    for line, row in zip(packed.tolist(), mask, strict=True):
        assert {j for j in range(classes) if line[j // 8] >> (j % 8) & 1} == set(np.flatnonzero(row).tolist())
        assert not any(byte >> bit & 1 for j in range(classes, 8 * len(line)) for byte, bit in [(line[j // 8], j % 8)])
    again = unpack(packed, classes)
    assert again.dtype == np.bool_
    assert (again == mask).all()
    assert (sizes(packed) == mask.sum(axis=1)).all()
    offsets, places = members(packed)
    assert offsets.tolist() == [0, *np.cumsum(mask.sum(axis=1))]
    assert (places == np.nonzero(mask)[1]).all()


def test_no_rows_have_no_sets():
    """Nothing packs to nothing."""
    assert pack(np.zeros((0, 9), dtype=np.bool_)).shape == (0, 2)
    assert [each.tolist() for each in members(np.zeros((0, 2), dtype=np.uint8))] == [[0], []]
    assert unpack(np.zeros((0, 2), dtype=np.uint8), 9).shape == (0, 9)


# The channel of cluster response: its integers, its exact cost, and cheap slices of it.


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
