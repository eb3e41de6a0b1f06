"""The planner, against laws written out and against closed forms."""

import itertools
import math

import numpy as np
import pytest

from labeldp import BitResponse, Classes, RandomizedResponse, SubsetResponse, best_response
from labeldp.bounds import plan
from labeldp.errors import EpsilonError, InputError
from labeldp.mechanisms.randomizers import ProjectiveResponse
from labeldp.privacy.channels import unpack


def size_of(option):
    """The size that an option of sets names."""
    return int(option.detail.split()[0])


def randomizer_of(option, classes):
    """The mechanism that an option describes, made anew."""
    space = Classes(range(classes))
    if option.mechanism == "subset":
        return SubsetResponse(space, option.epsilon, size_of(option))
    if option.mechanism == "projective":
        return ProjectiveResponse(space, option.epsilon, int(option.detail.removeprefix("1 in ").split()[0]))
    if option.mechanism == "bits":
        return BitResponse(space, option.epsilon, option.detail.split()[0])
    return RandomizedResponse(space, option.epsilon)


def law_of(option, classes):
    """Every outcome as a mask of classes, and its probability given each true class."""
    table = randomizer_of(option, classes).channel().table()
    if option.mechanism in ("subset", "bits"):
        return unpack(table.outcomes, classes), table.matrix
    return (table.matrix > table.matrix.min() * 1.00001).T, table.matrix


@pytest.mark.parametrize("classes", [2, 3, 5, 8])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
def test_numbers_are_those_of_the_law_written_out(classes, epsilon):
    """Truth probability, share, clean rows, variance and certified epsilon are sums over all outcomes."""
    found = plan(classes, 12_345, epsilon)
    assert len(found.options) == 4
    for option in found.options:
        mask, matrix = law_of(option, classes)
        np.testing.assert_allclose(matrix.sum(axis=1), 1)
        inside = matrix @ mask
        p, q = inside[0, 0], inside[0, 1]
        assert option.truth_probability == pytest.approx(p, rel=1e-9)
        one = matrix[0] @ (mask[:, 0] != mask[:, 1])
        assert option.most_share == pytest.approx((p - q) ** 2 / one, rel=1e-7)
        assert option.at_most == math.floor(12_345 * option.most_share)
        vectors = (mask - q) / (p - q)
        spread = matrix[0] @ ((vectors - np.eye(classes)[0]) ** 2).sum(axis=1)
        np.testing.assert_allclose(matrix[0] @ vectors, np.eye(classes)[0], atol=1e-7)
        assert option.variance == pytest.approx(spread, rel=1e-7)
        worst = max(np.log(matrix[a] / matrix[b]).max() for a, b in itertools.permutations(range(classes), 2))
        assert option.certified == pytest.approx(worst, rel=1e-6)
        assert 0.99 * epsilon <= option.certified <= epsilon


@pytest.mark.parametrize("classes", [2, 4, 10, 100])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0, 8.0])
def test_the_best_is_what_auto_takes(classes, epsilon):
    """The marked option has the kind and the size that auto takes, and no option has more effective rows."""
    found = plan(classes, 100, epsilon)
    chosen = best_response(Classes(range(classes)), epsilon)
    marked = [option for option in found.options if option.auto]
    assert marked
    for option in marked:
        again = randomizer_of(option, classes)
        assert type(again) is type(chosen)
        assert again.channel().epsilon == chosen.channel().epsilon
        assert getattr(again.channel(), "size", 1) == getattr(chosen.channel(), "size", 1)
        assert option.most_share >= max(other.most_share for other in found.options) * (1 - 1e-12)


@pytest.mark.parametrize("classes", [2, 10, 300])
def test_the_most_effective_comes_first(classes):
    """At every epsilon, options are in the order of their effective rows, and each has a name of its own."""
    found = plan(classes, 1000, 1.0)
    for options in (found.options, *found.sweep):
        shares = [option.most_share for option in options]
        assert shares == sorted(shares, reverse=True)
        assert len({option.mechanism for option in options}) == len(options)


def test_options_that_cannot_be_expressed_are_left_out():
    """At an epsilon too small for the integers of randomized response, the others are still there."""
    names = [option.mechanism for option in plan(10, 100, 1e-16).options]
    assert "randomized-response" not in names
    assert "bits" in names


def test_a_sweep_is_where_it_was_asked_for():
    """Other epsilons may be looked at; the plan says what it was made for."""
    found = plan(4, 77, 0.5, [0.3, 0.6])
    assert (found.classes, found.rows, found.epsilon) == (4, 77, 0.5)
    assert [{option.epsilon for option in row} for row in found.sweep] == [{0.3}, {0.6}]
    assert plan(4, 77, 0.5, []).sweep == ()


@pytest.mark.parametrize("classes", [1, 0, -1, (1 << 24) + 1, True])
def test_bad_classes(classes):
    """Fewer than two classes, or more than a space can have, are refused."""
    with pytest.raises(InputError, match="expected classes"):
        plan(classes, 10, 1.0)


@pytest.mark.parametrize("rows", [0, -1, (1 << 62) + 1, True])
def test_bad_rows(rows):
    """No rows, or more than can be, are refused."""
    with pytest.raises(InputError, match="expected rows"):
        plan(3, rows, 1.0)


@pytest.mark.parametrize("epsilon", [math.nan, math.inf, -math.inf, 0.0, -1.0, 1e-300, 800.0])
def test_bad_epsilons(epsilon):
    """An epsilon that is none, or that no mechanism can express, is refused."""
    with pytest.raises(EpsilonError):
        plan(3, 10, epsilon)


def test_effective_rows_are_those_at_the_class_shares():
    """For two classes the squared correlation of true and released label; never above the bound for any statistic."""
    e = math.exp(1.0)
    for shares in (None, (0.5, 0.5), (0.9, 0.1), (0.99, 0.01)):
        found = plan(2, 100_000, 1.0, shares=shares)
        (option,) = (each for each in found.options if each.mechanism == "randomized-response")
        p = 0.5 if shares is None else shares[1]
        q = (p * e + 1 - p) / (e + 1)
        expected = ((e - 1) / (e + 1)) ** 2 * p * (1 - p) / (q * (1 - q))
        assert option.share == pytest.approx(expected, rel=1e-6)
        assert option.effective_rows == math.floor(100_000 * option.share)
        assert found.shares == shares
        assert all(each.share <= each.most_share * (1 + 1e-12) for each in found.options)


@pytest.mark.parametrize("shares", [[1.0], [0.5, 0.4], [0.5, -0.5], [math.nan, 1.0], [0.2, 0.3, 0.5]])
def test_shares_that_are_no_distribution_are_refused(shares):
    """Of another number of classes, or no probabilities."""
    with pytest.raises(InputError, match="expected"):
        plan(2, 100, 1.0, shares=shares)
