"""What a curator answers: charged before it is drawn, added to what was released, and marked with its law."""

import numpy as np
import pytest

from labeldp import Answer, Classes, Curator, LabelMoments, NoisyHistogram, PeerExchange, RandomizedResponse
from labeldp._random_words import TapeWords
from labeldp.errors import InputError, LabelError
from labeldp.mechanisms.queries import QUERIES, ExchangedLabels, _histogram
from labeldp.privacy.channels import nearest_distributions

SPACE = Classes(["no", "yes"])
LABELS = ["no", "yes", "yes", "no"] * 25


def test_a_unit_of_several_rows_has_the_epsilon():
    """The noise is as large as all labels of the largest unit can move."""
    curator = Curator(LABELS, SPACE, budget=2.0, units=np.arange(100) // 4)
    answer = curator.answer(NoisyHistogram(SPACE, 1.0))
    assert answer.law["labels_of_a_unit"] == "4"
    assert answer.law["rate"] == str(1 << 37)
    assert (answer.guarantee.unit, answer.guarantee.epsilon) == ("unit", 1.0)
    some = curator.answer(NoisyHistogram(SPACE, 1.0), rows=np.arange(0, 100, 2))
    assert some.law["labels_of_a_unit"] == "2"


def test_the_deviation_of_moments_grows_with_the_labels_of_a_unit():
    """Their rho stays about the same."""
    query = LabelMoments(SPACE, 1.0, 1e-6, np.random.default_rng(0).normal(size=(100, 3)))
    alone = Curator(LABELS, SPACE).answer(query)
    answer = Curator(LABELS, SPACE, units=np.arange(100) // 4).answer(query)
    assert (answer.law["labels_of_a_unit"], answer.guarantee.unit) == ("4", "unit")
    assert int(answer.law["deviation"]) == pytest.approx(4 * int(alone.law["deviation"]), rel=1e-6)
    assert answer.guarantee.rho == pytest.approx(alone.guarantee.rho, rel=1e-6)
    assert answer.standard_error == pytest.approx(4 * alone.standard_error, rel=1e-6)


def test_words_of_a_test_are_marked():
    """What they make is not private, and says so."""
    curator = Curator(LABELS, SPACE)
    words = TapeWords(np.random.default_rng(0).integers(0, 2**64, 4096, dtype=np.uint64))
    answer = curator._answer(NoisyHistogram(SPACE, 1.0), None, words)
    assert not answer.certificate.private
    assert "NOT PRIVATE" in repr(answer)


def test_noise_on_neighbouring_labels_differs_by_the_labels_alone():
    """With one tape, answers about neighbouring labels differ by what the label moved."""
    words = np.random.default_rng(0).integers(0, 2**64, 4096, dtype=np.uint64)
    one, other = (
        Curator(labels, SPACE)._answer(NoisyHistogram(SPACE, 1.0), None, TapeWords(words)).value
        for labels in (LABELS, ["yes", *LABELS[1:]])
    )
    assert (other - one).tolist() == [[-1, 1]]


def test_distributions_are_the_nearest():
    """No point of the simplex is nearer, among many, and proper ones stay."""
    random = np.random.default_rng(1)
    vectors = random.normal(size=(30, 4))
    found = nearest_distributions(vectors)
    assert np.allclose(found.sum(axis=1), 1)
    assert (found >= 0).all()
    others = random.dirichlet(np.full(4, 0.4), size=2000)
    distances = ((vectors[:, None] - others) ** 2).sum(axis=2).min(axis=1)
    assert (((vectors - found) ** 2).sum(axis=1) <= distances).all()
    assert np.allclose(nearest_distributions(others), others)


def test_counts_that_noise_drowns_still_give_distributions():
    """Also where all noisy counts are negative, and for cells without rows."""
    asked = Curator(LABELS, SPACE).answer(NoisyHistogram(SPACE, 1.0))
    answer = Answer(np.array([[-3, -9], [0, 0], [5, -1]]), asked.certificate)
    found = answer.distributions()
    assert np.allclose(found.sum(axis=1), 1)
    assert found[2].tolist() == [1.0, 0.0]
    with pytest.raises(InputError, match="NoisyArgmax"):
        answer.points()


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("query", "message"),
    [
        (RandomizedResponse(SPACE, 1.0), "a query such as NoisyHistogram"),
        (NoisyHistogram(Classes(["a", "b"]), 1.0), "the curator's label space"),
        (NoisyHistogram(SPACE, 1.0, np.zeros(3, dtype=int)), "each of the 100 rows, found 3"),
    ],
)
def test_what_cannot_be_asked_costs_nothing(query, message):
    """The refusal says what was expected."""
    curator = Curator(LABELS, SPACE)
    with pytest.raises(InputError, match=message):
        curator.answer(query)
    assert curator.spent == (0.0, 0.0)


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: ExchangedLabels(Classes(["a", "b", "c"]), PeerExchange(flip=0.2), np.arange(3), 1e-4), "two classes"),
        (lambda: Curator(LABELS, SPACE).answer(peers(np.arange(3))), "each of the 100 rows, found 3"),
        (lambda: Curator(LABELS, SPACE, units=np.arange(100) // 2).answer(peers(np.arange(100) % 2)), "one of 2 rows"),
    ],
)
def test_peers_that_cannot_exchange_are_refused(ask, message):
    """More classes, other rows, units of several rows."""
    with pytest.raises((InputError, LabelError), match=message):
        ask()


def peers(clusters):
    """An exchange in these clusters."""
    return ExchangedLabels(SPACE, PeerExchange(flip=0.2), clusters, delta=1e-4)


@pytest.mark.parametrize(
    ("rows", "ranges"),
    [
        (None, ((0, 60),)),
        (slice(None), ((0, 60),)),
        (slice(10, 25), ((10, 25),)),
        (slice(-5, None), ((55, 60),)),
        (slice(50, 900), ((50, 60),)),
        (slice(20, 10), ()),
        (slice(3, 9, 3), ((3, 4), (6, 7))),
        (slice(5, 2, -1), ((3, 6),)),
    ],
    ids=str,
)
def test_slices_are_the_rows_that_they_name(rows, ranges, monkeypatch):
    """A slice is answered and charged like the numbers of its rows, in their order."""
    labels = np.random.default_rng(0).integers(0, 3, 60)
    space, numbers = Classes(range(3)), np.arange(60)[slice(None) if rows is None else rows]
    monkeypatch.setattr(_histogram, "discrete_laplace", lambda count, *_: np.zeros(count, dtype=np.int64))
    cells = np.arange(numbers.size) // 4
    for asked in (rows, numbers):
        curator = Curator(labels, space)
        query = NoisyHistogram(space, 1.0, cells) if numbers.size else NoisyHistogram(space, 1.0)
        answer = curator.answer(query, rows=asked)
        assert answer.certificate.draws[0].rows.ranges == ranges
        assert answer.rows == numbers.size
        expected = np.zeros(answer.value.shape, dtype=np.int64)
        np.add.at(expected, (cells, labels[numbers]), 1)
        assert (answer.value == expected).all()


def test_a_query_cannot_write_to_what_a_curator_holds(monkeypatch):
    """Queries are given the curator's own codes, not a copy, and cannot change them."""

    class Careless(NoisyHistogram):
        def answer(self, codes, labels_of_a_unit, words):
            codes[:] = 0
            return super().answer(codes, labels_of_a_unit, words)

    monkeypatch.setitem(QUERIES.__dict__, "own", {Careless.name: Careless})
    space = Classes(["no", "yes"])
    curator = Curator(["yes"] * 50, space)
    with pytest.raises(ValueError, match="read-only"):
        curator.answer(Careless(space, 40.0))
    assert curator.spent == (0.0, 0.0)
    monkeypatch.undo()
    assert (curator.answer(NoisyHistogram(space, 40.0)).value == [[0, 50]]).all()
