"""The guarantee and its sentence."""

import math
import re

import pytest

from labeldp import Guarantee
from labeldp.errors import EpsilonError


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, -1e-300])
def test_an_epsilon_that_promises_nothing_is_refused(bad):
    """A guarantee has a finite epsilon of at least zero."""
    with pytest.raises(ValueError, match="expected a finite epsilon"):
        Guarantee(bad)


@pytest.mark.parametrize("bad", [math.nan, 1.0, -0.1, "0", None])
def test_a_bad_delta_is_refused(bad):
    """A guarantee has a failure probability in [0, 1)."""
    with pytest.raises(EpsilonError):
        Guarantee(1.0, bad)


def test_the_sentence_of_a_very_large_epsilon_can_be_said():
    """A group's epsilon may be beyond what a float's exponential holds, and zero is a factor of one."""
    assert "epsilon 5000" in Guarantee(5000.0).sentence()
    assert "factor of at most 1 (epsilon 0," in Guarantee(0.0).sentence()


@pytest.mark.parametrize("epsilon", [1.0, 0.1, 0.3333333333333333, 1.0000004, 2.0000001, 5.4321987, 8.0, 123.4567891])
def test_the_sentence_never_promises_more_than_the_guarantee(epsilon):
    """The printed factor and the printed epsilon are rounded up: words promise no more than the numbers."""
    sentence = Guarantee(epsilon).sentence()
    factor = float(re.search(r"factor of at most ([0-9.e+]+)", sentence)[1])
    printed = float(re.search(r"epsilon ([0-9.e+-]+)", sentence)[1])
    assert printed >= epsilon
    assert printed <= epsilon * 1.001
    assert factor >= math.exp(epsilon) * (1 - 1e-15)
    assert factor <= math.exp(epsilon) * 1.01


@pytest.mark.parametrize("delta", [1e-6, 1.2345678e-5, 0.3333333])
def test_the_sentence_never_promises_a_smaller_failure(delta):
    """The printed delta is rounded up too."""
    printed = float(re.search(r"delta ([0-9.e+-]+)\)", Guarantee(1.0, delta).sentence())[1])
    assert delta <= printed <= delta * 1.01


def test_the_sentence_names_trust_unit_and_failure():
    """Who saw the labels, what a unit is and the chance of failure are said in words."""
    assert str(Guarantee(1.0)) == Guarantee(1.0).sentence()
    assert Guarantee(1.0).sentence().startswith("Each label was randomized alone")
    assert "one row's label" in Guarantee(1.0).sentence()
    assert "plus" not in Guarantee(1.0).sentence()
    central = Guarantee(1.0, 1e-6, trust="central", unit="customer").sentence()
    assert "trusted curator" in central
    assert "all labels of one customer" in central
    assert re.search(r"(1e-06|0\.000001)", central)
    peers = Guarantee(1.0, trust="peer").sentence()
    assert peers.startswith("Peers")
    assert "but for who asked whom and what peers tell, replacing" in peers
    assert "not protected" in central
