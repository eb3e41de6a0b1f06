"""Costs of decisions, estimated from released labels."""

import numpy as np
import pytest

from labeldp import Classes, Curator
from labeldp.errors import InputError
from labeldp.learning.metrics import accuracy, expected_cost
from labeldp.release import Release

SPACE = Classes(["no", "maybe", "yes"])
COSTS = [[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [9.0, 4.0, 0.0]]


def test_public_labels_have_the_mean_of_the_table():
    """Each pair of a true and a predicted class costs what the table says, in declared order."""
    release = Release.public(["no", "maybe", "yes", "yes"], SPACE)
    found = expected_cost(release, ["yes", "no", "no", "yes"], COSTS)
    assert found.value == pytest.approx((2.0 + 3.0 + 9.0 + 0.0) / 4)


def test_errors_that_cost_one_are_those_of_the_accuracy():
    """With a cost of one for each mistake, cost and accuracy sum to one for released labels too."""
    labels = np.array(SPACE.points)[np.random.default_rng(0).integers(0, 3, 400)]
    release = Curator(labels, SPACE).randomize(epsilon=2.0)
    found = expected_cost(release, labels, 1.0 - np.eye(3))
    assert found.value == pytest.approx(1.0 - accuracy(release, labels).value, abs=1e-9)
    assert found.low <= 0.0 <= found.high


@pytest.mark.parametrize("costs", [[[0.0, 1.0]], np.full((3, 3), np.nan), np.zeros((2, 2))])
def test_a_table_of_another_form_is_refused(costs):
    """Costs are a finite number for each pair of classes."""
    with pytest.raises(InputError, match="3 true and 3 predicted"):
        expected_cost(Release.public(["no"] * 5, SPACE), ["no"] * 5, costs)
