"""Generators: what a sampler gives is checked before it is used, and private rows are known again."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from labeldp import Classes, Form, Generator, Source
from labeldp.errors import InputError
from labeldp.mechanisms.resampling import form_from, seen_in
from labeldp.mechanisms.resampling._feature_law import row_digests

SPACE = Classes(["no", "yes"])
PUBLIC = Source("public", "made up")


def people(rows, seed=0):
    """Rows that are nearly all different."""
    rng = np.random.default_rng(seed)
    columns = {"age": np.round(rng.uniform(17, 90, rows), 2), "town": rng.choice(["Ulm", "Bonn"], rows)}
    gaps = np.where(rng.random(rows) < 0.2, np.nan, rng.integers(0, 300, rows))
    return pd.DataFrame({**columns, "visits": gaps})


ROWS = people(400)
FORM = Form.of(ROWS)


def generator(sampler, **more):
    """A generator of people."""
    return Generator(SPACE, FORM, PUBLIC, sampler, **more)


def test_rows_are_drawn_for_codes_in_order_and_in_the_form():
    """The sampler is given the codes as they are, and what it gives is shaped: range, decimals and all."""
    asked = []

    def sampler(codes):
        asked.append(codes)
        return {"visits": [None, 5.4, 1e9], "age": [17.123456, 0.0, 1e9], "town": ["Ulm", "ulm", "Bonn"]}

    drawn = generator(sampler).sample([1, 0, 1])
    assert [codes.tolist() for codes in asked] == [[1, 0, 1]]
    assert drawn.schema == FORM.schema
    ages, visits = (FORM.columns[place] for place in (0, 2))
    assert drawn["age"].to_pylist() == [max(17.12, ages.low), ages.low, ages.high]
    assert drawn["visits"].to_pylist() == [None, 5.0, visits.high]
    assert drawn["town"].to_pylist() == ["Ulm", FORM.columns[1].fallback, "Bonn"]
    assert generator(sampler).sample([]).num_rows == 0
    assert len(asked) == 1


HIDDEN = "zq-secret"
FAULTS = {
    "raises": lambda _: {}[HIDDEN],
    "nothing": lambda _: None,
    "text": lambda _: HIDDEN,
    "a row too few": lambda codes: ROWS[: len(codes) - 1],
    "a row too many": lambda codes: ROWS[: len(codes) + 1],
    "a column too few": lambda codes: ROWS[["age", "town"]][: len(codes)],
    "a column too many": lambda codes: ROWS[: len(codes)].assign(**{HIDDEN: 1}),
    "text for numbers": lambda codes: ROWS[: len(codes)].assign(age=HIDDEN),
    "numbers for text": lambda codes: ROWS[: len(codes)].assign(town=1),
    "mixed types": lambda codes: ROWS[: len(codes)].assign(age=[HIDDEN, *range(1, len(codes))]),
    "nan": lambda codes: ROWS[: len(codes)].assign(age=np.nan),
    "one nan in the middle": lambda codes: ROWS[: len(codes)].assign(
        age=np.where(np.arange(len(codes)) == 2, np.nan, 20)
    ),
    "missing text": lambda codes: ROWS[: len(codes)].assign(town=["Ulm", None, *["Ulm"] * (len(codes) - 2)]),
    "infinity": lambda codes: ROWS[: len(codes)].assign(age=np.inf),
    "infinity where values may be missing": lambda codes: ROWS[: len(codes)].assign(visits=-np.inf),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_sampler_is_refused_without_a_word_of_its_rows(fault):
    """Whatever is wrong, nothing is drawn: the message says what was expected, and holds no value and no cause."""
    with pytest.raises(InputError, match="expected") as told:
        generator(FAULTS[fault]).sample(np.zeros(5, dtype=int))
    assert HIDDEN not in str(told.value)
    assert told.value.__cause__ is None
    assert told.value.__context__ is None


@pytest.mark.parametrize("codes", [[2], [-1], [0.5], [[0]], ["no"]])
def test_codes_that_are_none_are_refused(codes):
    """Codes beyond the classes, or that are no whole numbers, never reach the sampler."""
    with pytest.raises(InputError, match="from 0 to 1"):
        generator(lambda _: pytest.fail("it was asked")).sample(codes)


def test_images_are_checked_as_tables_are():
    """Of images, another shape or number, and floats that are no numbers, are refused."""
    form = Form.of(np.random.default_rng(0).random((50, 4, 4)))
    for wrong in (np.zeros((2, 4, 5)), np.zeros((3, 4, 4)), np.full((2, 4, 4), np.nan), np.full((2, 4, 4), np.inf)):
        with pytest.raises(InputError, match="expected"):
            Generator(SPACE, form, PUBLIC, lambda _, wrong=wrong: wrong).sample([0, 1])
    drawn = Generator(SPACE, form, PUBLIC, lambda codes: np.full((len(codes), 4, 4), 7.0)).sample([0, 1])
    assert form.array(drawn).shape == (2, 4, 4)
    assert (form.array(drawn) == form.columns[0].high).all()


def test_a_source_says_where_knowledge_comes_from():
    """Public, auxiliary and paid sources are told apart; a paid split has a certificate, and no other has."""
    text = json.dumps({"guarantee": {"epsilon": 1.0}})
    assert Source("paid split", "clinic, first half", text).describe()["certificate"] == text
    assert "certificate" not in PUBLIC.describe()
    assert Source("auxiliary", "last year").sentence().startswith("auxiliary rows")
    for kind, words, certificate in (
        ("private", "rows", None),
        ("public", "", None),
        ("public", "rows", text),
        ("paid split", "rows", None),
        ("paid split", "rows", "epsilon 1"),
    ):
        with pytest.raises(InputError, match="expected"):
            Source(kind, words, certificate)
    with pytest.raises(InputError, match="Source"):
        Generator(SPACE, FORM, "public", lambda _: ROWS)


def test_a_generator_is_described_for_a_certificate():
    """Source and form are plain data that JSON holds, and the form can be read back."""
    plain = json.loads(json.dumps(generator(lambda _: ROWS).describe()))
    assert plain["source"] == {"kind": "public", "text": "made up"}
    assert form_from(plain["form"]) == FORM


def test_a_floor_needs_finitely_many_rows():
    """A floor is refused of a form with endlessly many rows, and one that more than all rows together would need."""
    few = Form.of(ROWS[["town"]])
    assert Generator(SPACE, few, PUBLIC, lambda _: ROWS, log_floor=np.log(0.5)).log_floor == np.log(0.5)
    for form, floor in ((FORM, -5.0), (few, -0.6), (few, -np.inf), (few, np.nan)):
        with pytest.raises(InputError, match="expected"):
            Generator(SPACE, form, PUBLIC, lambda _: ROWS, log_floor=floor)


def test_the_rows_that_it_was_fitted_on_are_refused():
    """More than a few of them, shaped or not and in any order, are refused; others, and a few of them, are not."""
    fitted = generator(lambda _: ROWS, seen=seen_in(FORM, FORM.table(ROWS)))
    assert len(fitted.seen) > 390
    for private in (
        ROWS,
        ROWS[::-1],
        ROWS[:30],
        pd.concat([ROWS[:20], people(180, 1)]),
        ROWS.assign(age=ROWS["age"] + 1e-9),
    ):
        with pytest.raises(InputError, match="not fitted on"):
            fitted.check_private(FORM.table(private))
    for private in (people(400, 1), pd.concat([ROWS[:10], people(90, 1)]), ROWS[:5]):
        fitted.check_private(FORM.table(private))


def test_of_many_rows_the_least_digests_are_enough():
    """Of more rows than are kept, a part of them is known again by the least digests."""
    rows = people(120_000, 2).assign(visits=np.arange(120_000.0))
    form = Form.of(rows)
    seen = seen_in(form, form.table(rows))
    assert len(seen) == 1 << 16
    fitted = Generator(SPACE, form, PUBLIC, lambda _: rows, seen=seen)
    with pytest.raises(InputError, match="not fitted on"):
        fitted.check_private(form.table(rows[5000:6000]))
    fitted.check_private(form.table(rows[5000:6000].assign(age=rows["age"] + 1)))


def test_rows_that_repeat_are_not_known_again():
    """Where many public rows are equal, so may private ones be: no digests are kept."""
    rows = ROWS[["town"]]
    form = Form.of(rows)
    assert seen_in(form, form.table(rows)) == frozenset()


def test_digests_differ_where_rows_do():
    """Rows of all kinds of columns have the digest of their values, whatever type and container they come in."""
    rows = pd.DataFrame({"n": np.arange(3000.0), "t": ["Ulm", "Bonn", None] * 1000, "f": [True, False] * 1500})
    form = Form.of(rows)
    found = row_digests(form, form.table(rows))
    assert len(set(found.tolist())) == 3000
    other = pa.table({"f": rows["f"], "t": pa.array(rows["t"]).dictionary_encode(), "n": rows["n"].astype(int)})
    np.testing.assert_array_equal(found, row_digests(form, form.table(other)))
    np.testing.assert_array_equal(found[::-1], row_digests(form, form.table(rows[::-1])))
    images = np.random.default_rng(0).integers(0, 2, (500, 3, 7)).astype(np.uint8)
    assert len(set(row_digests(Form.of(images), Form.of(images).table(images)).tolist())) == len(
        np.unique(images, axis=0)
    )
