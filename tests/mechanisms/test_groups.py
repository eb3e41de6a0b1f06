"""Groups of adjacent classes, against enumeration of all ways to cut the classes."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtri

from labeldp import Classes, ClassProbabilities, Curator, GroupResponse, Interval, RandomizedResponse
from labeldp.errors import InputError, PriorError
from labeldp.privacy.channels import CoarseningChannel, informative_groups, unpack

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
STARS = Classes([1, 2, 3, 4, 5])


def priors(k, count=8):
    """Flat and sharp priors, some classes impossible."""
    rng = np.random.default_rng(k)
    made = [rng.dirichlet(np.full(k, size), count) for size in (0.2, 1.0, 5.0)]
    return np.concatenate([*made, np.eye(k), np.full((1, k), 1 / k)])


def partitions(k):
    """Every way to cut k classes in order, as the number of the group of each class."""
    for count in range(k):
        for cuts in itertools.combinations(range(1, k), count):
            yield np.searchsorted(cuts, range(k), side="right")


def fisher(prior, groups, epsilon):
    """The Fisher information about a shift of a latent normal number, from the law of each outcome."""
    m, e = groups.max() + 1, math.exp(epsilon)
    edges = ndtri(np.clip(np.concatenate([[0.0], np.cumsum(prior)]), 0.0, 1.0))
    slopes = -np.diff(np.exp(-(edges**2) / 2) / math.sqrt(2 * math.pi))
    law = np.where(groups[:, None] == np.arange(m), e, 1.0) / (e + m - 1)
    return float(((slopes @ law) ** 2 / (prior @ law)).sum())


def mutual(prior, groups, epsilon):
    """The mutual information of class and released group, from the law of each outcome."""
    m, e = groups.max() + 1, math.exp(epsilon)
    law = np.where(groups[:, None] == np.arange(m), e, 1.0) / (e + m - 1)
    return float((prior[:, None] * law * np.log(law / (prior @ law))).sum())


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("k", [2, 3, 5, 7])
@pytest.mark.parametrize(("ordered", "value"), [(True, fisher), (False, mutual)])
def test_no_other_groups_are_more_informative(k, epsilon, ordered, value):
    """Of all ways to cut the classes, none has more information than the one that is chosen."""
    rows = priors(k)
    chosen = np.cumsum(unpack(informative_groups(rows, epsilon, ordered=ordered), k), axis=1) - 1
    for prior, groups in zip(rows, chosen, strict=True):
        best = max(value(prior, each, epsilon) for each in partitions(k))
        assert value(prior, groups, epsilon) == pytest.approx(best, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_sure_prior_asks_nothing(ordered):
    """Where the prior is sure, all classes are one group, and what is released is the same for every label."""
    channel = GroupResponse(STARS, 1.0, np.eye(5), ordered=ordered).channel()
    assert channel.sizes.tolist() == [1] * 5
    words = np.arange(5, dtype=np.uint64)[:, None] << np.uint64(61)
    drawn = [channel.draw(np.full(5, code, dtype=np.int32), words) for code in range(5)]
    assert all((each == 0b11111).all() for each in drawn)


def test_many_classes_are_cut_into_few_groups():
    """Above 32 classes at most 1024 / k groups are tried, and all classes alone; above 512 the choice is refused."""
    prior = np.full((1, 64), 1 / 64)
    few = GroupResponse(Classes(range(64)), 1.0, prior).channel()
    assert 2 <= few.sizes[0] <= 16
    assert GroupResponse(Classes(range(64)), 14.0, prior).channel().sizes[0] == 64
    assert GroupResponse(Classes(range(512)), 1.0, np.full((1, 512), 1 / 512)).channel().sizes[0] == 2
    with pytest.raises(InputError, match="expected at most 512 classes to choose groups of, found 513"):
        GroupResponse(Classes(range(513)), 1.0, np.full((1, 513), 1 / 513))
    groups = [range(300), range(300, 513)]
    assert GroupResponse(Classes(range(513)), 1.0, groups=groups).channel().sizes[0] == 2


def test_given_groups_are_those_of_the_channel():
    """One partition holds for every row; partitions may differ by row, in any order of groups and of classes."""
    one = GroupResponse(STARS, 1.0, groups=[[5, 4], [1, 2, 3]])
    assert one.channel().groups().tolist() == [[0, 0, 0, 1, 1]]
    assert one.for_rows(3).channel().groups().tolist() == [[0, 0, 0, 1, 1]] * 3
    each = GroupResponse(STARS, 1.0, groups=[[[1], [2, 3, 4, 5]], [[1, 2, 3, 4, 5]]])
    assert each.channel().groups().tolist() == [[0, 1, 1, 1, 1], [0, 0, 0, 0, 0]]
    assert each.for_rows(2) is each
    named = GroupResponse(Classes(["low", "middle", "high"]), 1.0, groups=[["low", "middle"], ["high"]])
    assert named.channel().groups().tolist() == [[0, 0, 1]]
    arrays = GroupResponse(Interval(0, 1, 0.5), 1.0, groups=[np.array([0.0]), np.array([0.5, 1.0])])
    assert arrays.channel().groups().tolist() == [[0, 1, 1]]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([[1, 2], [3, 4]], "expected each of the 5 declared classes in one group, found 4"),
        ([[1, 2], [2, 3, 4, 5]], "found a class in two groups"),
        ([[1, 2], [], [3, 4, 5]], "found an empty group; leave it out"),
        ([[1, 3], [2, 4, 5]], "adjacent in the declared order, found others; declare the classes in an order"),
        ([[1, 2, 3], [4, 5, 6]], "expected groups of declared classes, found 6, which is none"),
        ([[[1, 2, 3, 4, 5]], [[1, 2], [3, 4]]], "in one group, found 4"),
        ([[[1, 2, 3], [4, 5]], [1, 2, 3, 4, 5]], "expected a partition as lists of declared classes"),
        ([1, 2, 3], "expected a partition as lists of declared classes"),
        ([[{}]], "expected a partition as lists of declared classes"),
        ([], "in one group, found 0"),
        (7, "expected groups as lists of classes, found int"),
        ("abc", "expected groups as lists of classes, found str"),
    ],
)
def test_what_is_no_partition_is_refused(groups, message):
    """A partition has each declared class once, in groups of adjacent classes, none of them empty."""
    with pytest.raises(InputError, match=message):
        GroupResponse(STARS, 1.0, groups=groups)


def test_a_prior_or_groups_are_needed():
    """Exactly one of the two is given, and a prior is one of the declared classes."""
    for given in ({}, {"prior": np.eye(5), "groups": [[1, 2, 3, 4, 5]]}):
        with pytest.raises(InputError, match="expected a prior, or groups of classes"):
            GroupResponse(STARS, 1.0, **given)
    with pytest.raises(PriorError, match="found shape"):
        GroupResponse(STARS, 1.0, np.eye(4))
    mixed = Classes(["c", "a", "b"])
    with pytest.raises(InputError, match="expected the class of each column"):
        GroupResponse(mixed, 1.0, np.eye(3))
    named = ClassProbabilities([[0.5, 0.0, 0.5]], ["a", "b", "c"])
    assert GroupResponse(mixed, 1.0, named).channel().groups().tolist() == [[0, 1, 1]]


def test_rows_of_a_release_are_those_of_the_groups():
    """A curator repeats one partition for its rows, and refuses partitions or a prior of other rows."""
    curator = Curator([1, 5, 3], STARS)
    release = curator.randomize(GroupResponse(STARS, 1.0, groups=[[1, 2], [3, 4, 5]]))
    assert release.channel.groups().tolist() == [[0, 0, 1, 1, 1]] * 3
    assert "the prior or partition behind each row's groups is public" in " ".join(release.certificate.assumptions)
    for wrong in (GroupResponse(STARS, 1.0, np.eye(5)), GroupResponse(STARS, 1.0, groups=[[[1, 2, 3, 4, 5]]] * 2)):
        with pytest.raises(InputError, match="one row for each of the 3 rows"):
            curator.randomize(wrong)
    with pytest.raises(InputError, match="expected a randomizer whose channel is the same for all rows"):
        Curator([1, 5, 3], STARS, units=[0, 0, 1]).randomize(GroupResponse(STARS, 1.0, np.eye(5)[:3]))


def test_groups_of_single_classes_are_randomized_response():
    """With every class alone the integers, and so the guarantee, are those of randomized response."""
    alone = GroupResponse(STARS, 1.0, groups=[[star] for star in STARS.points]).channel()
    plain = RandomizedResponse(STARS, 1.0).channel()
    assert (alone.keep[5], alone.other[5]) == (plain.keep, plain.other)
    assert alone.matrix() == pytest.approx(plain.matrix(), rel=1e-15)
    assert isinstance(alone, CoarseningChannel)
    assert alone.alone(np.array([2])).tolist() == [True]
