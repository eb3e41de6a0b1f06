"""The bound on label association, by enumeration, and its experiment, which runs and goes on where it stopped."""

import importlib.util
import itertools
import math
import sys
from fractions import Fraction
from pathlib import Path
from unittest import mock

import pytest

SCRIPT = Path(__file__).parent.parent / "experiments" / "association.py"


@pytest.fixture(scope="module")
def association():
    """The script, imported."""
    spec = importlib.util.spec_from_file_location("association_experiment", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with mock.patch.object(sys, "dont_write_bytecode", True):  # nothing is left beside the script
        spec.loader.exec_module(module)
    return module


def precision(classes, copies, law, labels):
    """Precision and recall of what is named in a cluster, exactly, over all clusters of so many labels.

    Args:
        classes: The number of labels.
        copies: The rows of each label.
        law: A function from the labels of a cluster's rows to the probability of each label to be named.
        labels: The labels of a cluster.
    """
    right = named = Fraction(0)
    worlds = list(itertools.combinations(range(classes), labels))
    for there in worlds:
        chances = law([label for label in there for _ in range(copies)])
        right += sum(chances[label] for label in there)
        named += sum(chances)
    return right / named, right / (len(worlds) * labels)


def one_name(classes, odds):
    """Name one label, with odds for those that occur: the mechanism that attains the bound."""

    def law(rows):
        weights = [odds if label in rows else Fraction(1) for label in range(classes)]
        return [weight / sum(weights) for weight in weights]

    return law


def some_response(classes, odds):
    """Name what randomized response releases of any row."""

    def law(rows):
        total = odds + classes - 1
        missing = [math.prod(1 - (odds if row == label else 1) / total for row in rows) for label in range(classes)]
        return [1 - chance for chance in missing]

    return law


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_one_name_with_odds_attains_the_bound_and_keeps_epsilon(association, epsilon):
    """It is epsilon-label-DP over all labels of a cluster, those that occur twice included, and has that precision."""
    odds, classes = Fraction(math.exp(epsilon)), 4
    law = one_name(classes, odds)
    for rows in (1, 2, 3):
        for labels in itertools.product(range(classes), repeat=rows):
            for place, other in itertools.product(range(rows), range(classes)):
                changed = [*labels[:place], other, *labels[place + 1 :]]
                assert all(a <= odds * b for a, b in zip(law(labels), law(changed), strict=True))
        if rows < classes:
            found, recall = precision(classes, 1, law, rows)
            assert float(found) == pytest.approx(association.bound(rows, 1, epsilon, classes), rel=1e-12)
            assert recall == found / rows


@pytest.mark.parametrize(("labels", "copies"), [(1, 1), (1, 3), (2, 1), (2, 2), (3, 1)])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_randomized_response_is_within_the_bound(association, labels, copies, epsilon):
    """Its precision is at most the bound, and equal to it for a row alone; the paper's bound follows and is looser."""
    classes = 5
    found, recall = precision(classes, copies, some_response(classes, Fraction(math.exp(epsilon))), labels)
    bound = association.bound(labels, copies, epsilon, classes)
    assert float(found) <= bound * (1 + 1e-12)
    assert (labels * copies == 1) == (float(found) == pytest.approx(bound, rel=1e-9))
    assert float(found * recall) * math.exp(-copies * epsilon) < labels / (classes - labels)
    assert bound * math.exp(-copies * epsilon) < labels / (classes - labels)


def test_too_precise_a_mechanism_is_seen(association):
    """At twice the epsilon that is claimed, one name with odds breaks the bound: it is no bound on everything."""
    found, _ = precision(5, 1, one_name(5, Fraction(math.exp(2.0))), 2)
    assert float(found) > association.bound(2, 1, 1.0, 5)
