"""What holds of every query in the registry: its law is read back, its answers are stored, and its noise is as stated.

A query without an example here fails. The statistical test has a false-alarm rate below 1e-9: its tolerance is at least
six standard errors.
"""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest

import labeldp as dp
from labeldp.bounds.planning import _noise_of_mechanisms
from labeldp.errors import InputError, VerificationError
from labeldp.mechanisms.queries import QUERIES, Choices, Counts, FeatureSums, FlippedLabels, Means
from labeldp.release.folder._columns import _READ
from labeldp.testing import check_query

ROWS = 240
TWO, SPACE, GRID = dp.Classes(["no", "yes"]), dp.Classes(["a", "b", "c"]), dp.Interval(0.0, 10.0, 0.5)
CELLS = np.arange(ROWS) % 4
FEATURES = np.random.default_rng(0).normal(size=(ROWS, 3))


class Still:
    """A client that proposes the same vectors for every row."""

    def ask(self, row):
        """The unit vectors."""
        del row
        return np.ones(3)

    def tell(self, row, vector):
        """Nothing is learned."""


PROMISE, FIELDS = dp.NoisyHistogram(SPACE, 1.0).promise(1), dp.NoisyHistogram.fields()
#: At least one for each query: all parameters that change its law or the form of its answer.
EXAMPLES = (
    dp.NoisyHistogram(SPACE, 1.0, CELLS, 5),
    dp.NoisyHistogram(GRID, 0.3),
    dp.NoisyArgmax(SPACE, 1.0, CELLS, 5),
    dp.NoisyArgmax(SPACE, 1.0, method="exponential"),
    dp.NoisyTopK(SPACE, 1.0, CELLS, 5, top=2),
    dp.NoisyTopK(SPACE, 1.0, top=1),
    dp.NoisyTopK(GRID, 1.0, top=21),
    dp.NoisyMean(GRID, 1.0, CELLS, 5),
    dp.NoisyMean(GRID, 1.0, clip=(1.0, 5.0)),
    dp.NoisyQuantile(GRID, 1.0, 0.5, CELLS, 5),
    dp.NoisyQuantile(GRID, 1.0, 0.9, around=4.0),
    dp.LabelMoments(SPACE, 1.0, 1e-6, FEATURES),
    dp.NumberMoments(GRID, 1.0, 1e-6, FEATURES),
    dp.NoisyGradients(SPACE, 1.0, client=Still(), rows=ROWS),
    dp.NoisyGradients(SPACE, 1.0, 1e-6, client=Still(), rows=ROWS),
    dp.ExchangedLabels(TWO, dp.PeerExchange(0.1), CELLS, 1e-4),
    dp.ExchangedLabels(TWO, dp.PeerExchange(0.1, 0.5), CELLS, 1e-4),
    dp.ShuffledLabels(TWO, dp.CellShuffle(1.0), CELLS, 1e-4),
    dp.ShuffledLabels(SPACE, dp.CellShuffle(2.0, 3), CELLS, 1e-4),
)
every_query = pytest.mark.parametrize("query", EXAMPLES, ids=lambda query: f"{query.name}-{EXAMPLES.index(query)}")


def labels_for(query):
    """Labels of the space of a query."""
    points, rows = query.space.points, ROWS if getattr(query, "cells", None) is None else len(query.cells)
    return np.asarray(points)[np.random.default_rng(1).integers(0, len(points), rows)]


def answered(query):
    """The answer to a query, by a curator of labels of its space."""
    return dp.Curator(labels_for(query), query.space, name="ill").answer(query)


def test_every_query_has_an_example():
    """A new file is enough to be held to everything below."""
    assert {query.name for query in EXAMPLES} == set(QUERIES.own)
    assert {type(query) for query in EXAMPLES} == set(QUERIES.own.values())


@every_query
def test_every_query_holds_the_laws_of_its_kind(query):
    """Its guarantee follows from its law, which has all fields, and its answer is stored, verified and read back."""
    check_query(query, labels_for(query))


@pytest.mark.parametrize(
    ("name", "broken", "law"),
    [
        ("promise", lambda *_: replace(PROMISE, epsilon=0.5), "follows"),
        (
            "fields",
            staticmethod(lambda: replace(FIELDS, required={**FIELDS.required, "nothing": str})),
            "all fields|nothing",
        ),
    ],
)
def test_a_query_that_breaks_a_law_is_found(monkeypatch, name, broken, law):
    """By the words of the law."""
    query = dp.NoisyHistogram(SPACE, 1.0)
    monkeypatch.setattr(dp.NoisyHistogram, name, broken)
    with pytest.raises((AssertionError, InputError, ValueError), match=law):
        check_query(query, labels_for(query))


@every_query
def test_an_answer_is_stored_in_the_columns_that_its_query_names(query):
    """One for each column of the answer; by row where there is one for each."""
    answer = answered(query)
    form = query.stored(answer.law, query.space)
    assert form.values in _READ
    assert len(set(form.names("ill"))) == len(form.columns) == (1 if answer.value.ndim == 1 else answer.value.shape[1])
    assert form.by_row == (len(answer.value) == ROWS)


@every_query
def test_an_answer_of_other_values_is_refused(query, tmp_path):
    """Fractions of a step, numbers beyond the labels, and classes that are named twice; if all are possible, none."""
    answer = answered(query)
    value = answer.value.copy()
    if value.dtype.kind == "f" or query.stored(answer.law, query.space).values == "numbers":
        value = value + 0.3 * np.pi * (1.0 if query.name != "noisy-mean" else 100.0)
    elif value.ndim == 2 and value.shape[1] > 1:
        value[:, 1] = value[:, 0]
    else:
        assert query.name in ("noisy-argmax", "noisy-top-k", "peer-exchange", "shuffled-labels")
        return
    folder = dataclasses.replace(answer, value=value).save(tmp_path / "shared")
    if query.name == "noisy-gradients":
        assert dp.verify(folder).holds
        return
    with pytest.raises(VerificationError):
        dp.Answer.load(folder)


NOISY = {
    dp.NoisyMean.name: lambda: dp.NoisyMean(GRID, 0.5, np.arange(20_000)),
    dp.NoisyHistogram.name: lambda: dp.NoisyHistogram(SPACE, 0.5, np.zeros(ROWS, int), 20_000),
    dp.LabelMoments.name: lambda: dp.LabelMoments(SPACE, 1.0, 1e-6, np.tile(FEATURES, 1000)),
    dp.NumberMoments.name: lambda: dp.NumberMoments(GRID, 1.0, 1e-6, np.tile(FEATURES, 1000)),
}


@pytest.mark.parametrize("name", QUERIES.own)
def test_the_noise_is_as_large_as_stated(name):
    """The differences of two answers have twice the stated variance, within 5 %; without a statement, there is none."""
    if name not in NOISY:
        (query, *_) = [each for each in EXAMPLES if each.name == name]
        with pytest.raises(InputError, match="plus noise of known size"):
            _ = answered(query).standard_error
        return
    query = NOISY[name]()
    one, two = answered(query), answered(query)
    found = np.std(one.value - two.value) / np.sqrt(2)
    assert one.standard_error.shape == one.value.shape
    assert found == pytest.approx(one.standard_error.max(), rel=0.05)
    assert one.reading.deviation == pytest.approx(one.standard_error.min(), rel=1e-12)


@every_query
def test_an_answer_says_how_far_off_it_may_be(query):
    """An error for each entry, which grows with the confidence; neither for vectors of clients nor flipped labels."""
    answer = answered(query)
    if query.name in ("noisy-gradients", "peer-exchange", "shuffled-labels"):
        assert not query.margin_text
        with pytest.raises(InputError, match="noise of known size"):
            answer.margin()
        return
    little, much = answer.margin(0.5), answer.margin(0.999)
    assert little.shape == much.shape == answer.value.shape
    known = np.isfinite(little)
    assert (known == (np.isfinite(answer.value.astype(float)))).all() or query.name == "noisy-quantile"
    assert (little[known] <= much[known]).all()
    assert query.margin_text.count("{}") == 1
    for wrong in (0.0, 1.0, np.nan):
        with pytest.raises(InputError, match="confidence"):
            answer.margin(wrong)


READINGS = {
    dp.NoisyHistogram.name: Counts,
    dp.NoisyArgmax.name: Choices,
    dp.NoisyTopK.name: Choices,
    dp.NoisyMean.name: Means,
    dp.NoisyQuantile.name: type(None),
    dp.LabelMoments.name: FeatureSums,
    dp.NumberMoments.name: FeatureSums,
    dp.NoisyGradients.name: type(None),
    dp.ExchangedLabels.name: FlippedLabels,
    dp.ShuffledLabels.name: FlippedLabels,
}


@every_query
def test_learners_read_answers_by_their_form(query):
    """Not by the name of their query."""
    reading = answered(query).reading
    assert isinstance(reading, READINGS[query.name])
    if isinstance(reading, Means):
        assert reading.deviation == dp.NoisyMean.sum_deviation(query.law(1), query.space)
        assert (reading.low, reading.high) == (query.clip or (0.0, 10.0))
    if isinstance(reading, Choices):
        assert reading.rate * query.sensitivity == pytest.approx(query.epsilon)


def test_plans_compare_every_query_that_forecasts_its_noise():
    """Each by its certified epsilon, for the labels that it is for."""
    assert [each.mechanism for each in _noise_of_mechanisms.mechanism_noises(SPACE, "central", 1.0)] == [
        "noisy-argmax",
        "noisy-histogram",
    ]
    assert {each.mechanism for each in _noise_of_mechanisms.mechanism_noises(GRID, "central", 1.0)} == {
        "noisy-histogram",
        "noisy-mean",
    }


def test_an_unregistered_query_is_refused_before_it_is_charged():
    """Not only where it is saved: nothing is drawn, and the curator has spent nothing."""

    class Another(dp.NoisyHistogram):
        name = "another"

    class Impostor(dp.NoisyHistogram):
        """A query under the name of a registered one."""

    for kind in (Another, Impostor):
        curator = dp.Curator(["no", "yes"] * 50, TWO, budget=1.0)
        with pytest.raises(ValueError, match=r"expected a registered query, found .*'labeldp\.mechanisms'"):
            curator.answer(kind(TWO, 1.0))
        assert curator.spent == (0.0, 0.0)
    assert not issubclass(dp.Query, QUERIES.own["noisy-histogram"])
