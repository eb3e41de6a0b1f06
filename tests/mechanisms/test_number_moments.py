"""Number moments: sums of features times labels, exact but for noise whose sensitivity neighbours show."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from labeldp import Answer, Classes, Curator, Interval, LabelMoments, NumberMoments, verify
from labeldp.errors import BudgetError, LabelError
from labeldp.mechanisms.queries import promise_of

SPACE = Interval(0.0, 10.0, 2.5)
FEATURES = np.array([[3.0, 4.0], [1.0, -2.0], [0.5, 0.25]])
FORMS = {"dense": np.asarray, "csr": csr_array}


@pytest.mark.parametrize("form", FORMS)
def test_sums_are_those_of_the_two_ends(form):
    """Each row counts for the ends by where its label is between them; dense and sparse alike, exactly."""
    query = NumberMoments(SPACE, 1.0, 1e-6, FORMS[form](FEATURES))
    codes = np.array([0, 1, 4])
    near = codes / 4
    found = np.ldexp(query._sums(codes).astype(float), -query.grid.bits) / query.parts
    np.testing.assert_allclose(found, FEATURES.T @ np.stack([1 - near, near], axis=1), atol=1e-7)
    steps = query.grid.steps if form == "dense" else query.grid.steps.toarray()
    shares = [[4 - code, code] for code in codes.tolist()]
    by_hand = sum(np.outer(row.astype(object), share) for row, share in zip(steps, shares, strict=True))
    assert (query._sums(codes) == by_hand).all()


@pytest.mark.parametrize("labels", [1, 2])
def test_the_sensitivity_is_what_neighbours_show(labels):
    """No labels of a unit move the sums by more than the law says, and some move them by as much."""
    query = NumberMoments(SPACE, 1.0, 1e-6, np.repeat(FEATURES[:1], 2, axis=0))
    law = query.law(labels)
    bound = int(law["sensitivity_squared"]) * labels**2
    moved = set()
    for one, two in itertools.product(itertools.product(range(5), repeat=labels), repeat=2):
        rest = [2] * (2 - labels)
        change = query._sums(np.array([*one, *rest])) - query._sums(np.array([*two, *rest]))
        moved.add(sum(int(x) ** 2 for x in change.ravel()))
    assert max(moved) == bound
    assert query.noise(labels).sensitivity_squared == bound
    assert promise_of(law, SPACE) == query.promise(labels)


def test_wide_ranges_leave_room_for_all_rows():
    """However many points the grid has, sums of many rows stay in 64 bits, and features keep many digits."""
    space = Interval(0, (1 << 20) - 1, 1)
    query = NumberMoments(space, 0.01, 1e-6, np.ones((1000, 1)))
    codes = np.full(1000, space.size - 1)
    assert int(query._sums(codes)[0, 1]) == 1000 * (space.size - 1) * int(query.grid.steps[0, 0])
    assert int(query.grid.steps[0, 0]) >= 1 << 18
    assert query.standard_error(query.law(1), query.space, None) < 1000


def test_an_answer_is_near_the_truth_and_is_kept(tmp_path):
    """Its noise is that of its law; it is verified from its folder, and a certificate of other parts is not.

    A sum is off by more than six deviations with a chance of 2e-9.
    """
    labels = [0.0, 2.5, 10.0] * 300
    curator = Curator(labels, SPACE, name="cost")
    answer = curator.answer(NumberMoments(SPACE, 1.0, 1e-6, np.tile(FEATURES, (300, 1))))
    near = np.array(labels) / 10
    truth = np.tile(FEATURES, (300, 1)).T @ np.stack([1 - near, near], axis=1)
    assert np.abs(answer.value - truth).max() < 6 * answer.standard_error.max()
    assert answer.guarantee.trust == "central"
    folder = answer.save(tmp_path / "shared")
    assert verify(folder).holds
    assert (Answer.load(folder).value == answer.value).all()
    (draw,) = answer.certificate.draws
    coarse = dataclasses.replace(draw, law={**draw.law, "bits": str(int(draw.law["bits"]) - 40)})
    forged = dataclasses.replace(answer, certificate=dataclasses.replace(answer.certificate, draws=(coarse,)))
    assert not verify(forged.save(tmp_path / "forged")).holds
    with pytest.raises(BudgetError):
        curator.answer(NumberMoments(SPACE, 0.1, 1e-6, np.tile(FEATURES, (300, 1))))
    for parts in ("1", "2", "8"):
        with pytest.raises(ValueError, match="expected the parts of an interval"):
            promise_of({**answer.law, "parts": parts}, SPACE)
    with pytest.raises(ValueError, match="expected the parts of an interval"):
        promise_of(answer.law, Classes(range(5)))


def test_noise_is_less_than_that_of_moments_of_all_points():
    """The two ends take the noise of two classes, whatever the grid; and classes are refused."""
    one = NumberMoments(SPACE, 1.0, 1e-6, FEATURES)
    two = LabelMoments(Classes(["low", "high"]), 1.0, 1e-6, FEATURES)
    first, second = (each.standard_error(each.law(1), each.space, None) for each in (one, two))
    assert math.isclose(first, second, rel_tol=1e-6)
    with pytest.raises(LabelError, match="expected a declared range with a grid"):
        NumberMoments(Classes(["a", "b"]), 1.0, 1e-6, FEATURES)
