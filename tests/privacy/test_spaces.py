"""Label spaces: encoding is total on what was declared, refuses everything else, and never shows a label."""

import datetime
import decimal
import json
import math
import re
import traceback

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp import Classes, Interval
from labeldp._spelling import canonical
from labeldp.errors import LabelError
from labeldp.privacy import space_from

HIDDEN = "hidden7731"
HIDDEN_NUMBER = 77317731

letters = Classes(["a", "b", "c"])
numbers = Classes([0, 1, 7])
truths = Classes([False, True])
days = Classes(["2025-02-01", "2026-01-31"])


def refusal(space, labels, first_row=0):
    """The text that a refused encoding would show to anybody, chained errors included."""
    with pytest.raises(LabelError) as caught:
        space.encode(labels, first_row)
    return "".join(traceback.format_exception(caught.value))


def containers(labels, arrow_type):
    """The same labels in every container that is accepted."""
    array = pa.array(labels, arrow_type)
    pieces = [array.slice(0, 1), array.slice(1)]
    yield labels
    yield tuple(labels)
    yield np.array(labels)
    yield np.array(labels, dtype=object)
    yield pd.Series(labels)
    yield pd.Series(labels, dtype=object, index=range(5, 5 + len(labels)))
    yield pd.Series(labels).astype("category")
    yield pd.Categorical(labels)
    yield pd.Series(array, dtype=pd.ArrowDtype(arrow_type))
    yield array
    yield array.dictionary_encode()
    yield pa.chunked_array(pieces)
    yield pa.chunked_array([piece.dictionary_encode() for piece in pieces])


@pytest.mark.parametrize(
    ("space", "labels", "arrow_type", "codes"),
    [
        (letters, ["c", "a", "c", "b"], pa.string(), [2, 0, 2, 1]),
        (letters, ["c", "a"], pa.large_string(), [2, 0]),
        (numbers, [7, 0, 1, 1], pa.int64(), [2, 0, 1, 1]),
        (numbers, [7, 0, 1, 1], pa.uint8(), [2, 0, 1, 1]),
        (numbers, [7.0, 0.0, 1.0], pa.float64(), [2, 0, 1]),
        (numbers, [7.0, 0.0, 1.0], pa.float32(), [2, 0, 1]),
        (truths, [True, False, True], pa.bool_(), [1, 0, 1]),
    ],
)
def test_labels_in_any_container_have_the_same_codes(space, labels, arrow_type, codes):
    """Codes count the declared order, in a wide integer type, whatever holds the labels and in whatever order."""
    for held in containers(labels, arrow_type):
        found = space.encode(held)
        assert found.dtype == np.int32
        assert found.tolist() == codes


@pytest.mark.parametrize(
    ("space", "labels", "row"),
    [
        (letters, ["a", HIDDEN, "b"], 1),
        (letters, ["a", "b", "A b"], 2),
        (letters, ["", "b"], 0),
        (numbers, [0, 1, HIDDEN_NUMBER], 2),
        (numbers, [0, 1, -1], 2),
        (numbers, [7, 263], 1),
        (numbers, np.array([7, 255], dtype=np.uint8), 1),
        (numbers, np.array([7, -1], dtype=np.int8), 1),
        (Classes([0, -1]), np.array([0, 255], dtype=np.uint8), 1),
        (numbers, pd.Series([0.0, 3.0]), 1),
        (letters, pd.Series(["a", HIDDEN]).astype("category"), 1),
        (letters, pa.array(["a", HIDDEN]).dictionary_encode(), 1),
    ],
)
def test_a_label_outside_is_refused_by_its_row(space, labels, row):
    """A label that was not declared is refused with its row and without its value, also in chained errors."""
    for first_row in (0, 1000):
        text = refusal(space, labels, first_row)
        assert f"row {first_row + row + 1:,} (the first is row 1)" in text
        for value in (HIDDEN, HIDDEN_NUMBER, 263, 255):
            assert str(value) not in text


@pytest.mark.parametrize(
    ("declared", "labels", "codes"),
    [
        (("gu\u00e9ri", "malade"), ["gue\u0301ri", " GU\u00c9RI", "Malade\u00a0", "malade"], [0, 0, 1, 1]),
        (("0", "1"), ["0.0", "1e0", "\uff11", "00"], [0, 1, 1, 0]),
        (("P 7", "P 8"), ["p\u20077", "P\u00a08", "p 7"], [0, 1, 0]),
    ],
)
def test_a_label_in_another_spelling_is_of_the_class_that_it_spells(declared, labels, codes):
    """Classes have one spelling, however a label was typed; a label that is two classes' in it is none's."""
    assert Classes(declared).encode(labels).tolist() == codes
    assert Classes(declared).encode(pa.array([*labels, *declared]).dictionary_encode()).tolist() == [*codes, 0, 1]


@pytest.mark.parametrize(
    "alike", [("\u00e9", "e\u0301"), ("a", "A"), ("1", "1.0"), ("a", "a\0"), ("a", " a"), ("x", "x\u200b")]
)
def test_classes_that_differ_in_spelling_alone_are_refused_but_read(alike):
    """Nobody tells them apart on a page; a release that has them already is read as it is."""
    with pytest.raises(LabelError, match="differ in spelling alone"):
        Classes(["b", *alike])
    read = space_from({"kind": "classes", "values": ["b", *alike], "missing": "refuse"})
    assert read.points == ("b", *alike)
    assert read.encode(["b", *alike]).tolist() == [0, 1, 2]


def test_a_set_of_classes_is_refused():
    """A set has another order in each run, and the order of classes is part of a release."""
    with pytest.raises(LabelError, match="found a set"):
        Classes({"a", "b"})


@pytest.mark.parametrize(
    ("space", "labels"),
    [
        (letters, [1, 2]),
        (letters, [True, False]),
        (letters, [b"a", b"\xff"]),
        (letters, [["a"], ["b"]]),
        (letters, [["a"], ["a", HIDDEN]]),
        (letters, [{HIDDEN: 1}]),
        (letters, {"a"}),
        (letters, iter("ab")),
        (letters, "abc"),
        (letters, None),
        (letters, 5),
        (letters, [object()]),
        (letters, ["a", 1]),
        (letters, ["a", f"\ud800{HIDDEN}"]),
        (letters, np.array([["a", "b"]])),
        (letters, pd.DataFrame({"y": ["a", "b"], "z": ["a", "b"]})),
        (letters, [datetime.date(2020, 1, 1)]),
        (letters, np.array(["2020-01-01"], dtype="datetime64[D]")),
        (numbers, ["0", "1"]),
        (numbers, [True, False]),
        (numbers, np.array([True, False])),
        (numbers, [0, True]),
        (numbers, [0, "1"]),
        (numbers, [0, 0.5]),
        (numbers, [0, math.inf]),
        (numbers, [0, -math.inf]),
        (numbers, [0, 1e300]),
        (numbers, [0, 2**63]),
        (numbers, [0, HIDDEN_NUMBER * 10**20]),
        (numbers, np.array([0, HIDDEN_NUMBER * 10**20], dtype=object)),
        (numbers, np.array([2**64 - 1], dtype=np.uint64)),
        (numbers, [1j]),
        (numbers, [decimal.Decimal("77.31")]),
        (numbers, pa.array([0.0, float("nan")])),
        (truths, [0, 1]),
        (truths, ["True"]),
        (truths, [1.0]),
    ],
)
def test_labels_of_another_kind_are_refused_and_not_shown(space, labels):
    """Text is not read as a number, nor a boolean as an integer, nor anything rounded; no message holds a label."""
    text = refusal(space, labels)
    for value in (HIDDEN, str(HIDDEN_NUMBER), "77.31"):
        assert value not in text


def test_booleans_text_and_integers_are_not_each_other():
    """True is not 1, "1" is not 1, and 1 is neither."""
    for space, labels in ((numbers, [True]), (numbers, ["1"]), (truths, [1]), (truths, ["True"]), (letters, [1])):
        assert re.search(r"expected|is none of|there is no label", refusal(space, labels))


@pytest.mark.parametrize(
    ("space", "labels", "codes"),
    [
        (numbers, pa.array(list(map(decimal.Decimal, ("1.00", "0", "7.0"))), pa.decimal128(38, 2)), [1, 0, 2]),
        (numbers, [decimal.Decimal(7), None], [2, None]),
        *((letters, pa.array([b"c", b"a"], kind), [2, 0]) for kind in (pa.binary(), pa.binary_view(), pa.binary(1))),
        (days, [datetime.date(2026, 1, 31), datetime.date(2025, 2, 1)], [1, 0]),
        (days, pa.array([datetime.datetime(2026, 1, 31)], pa.timestamp("ns", "UTC")), None),
        (days, np.array(["2026-01-31", "2025-02-01"], "datetime64[s]"), [1, 0]),
    ],
)
def test_labels_of_databases_are_read_by_their_texts(space, labels, codes):
    """Whole decimals are whole numbers, bytes are UTF-8, and dates have their ISO text; a zone is part of it."""
    if codes is None or None in codes:
        assert re.search(r"expected|is none of|there is no label", refusal(space, labels))
    else:
        assert space.encode(labels).tolist() == codes


def test_an_interval_takes_numbers_of_numpy_and_decimals():
    """As the Python numbers that they are; a decimal of an exact text keeps the grid."""
    assert Interval(np.int64(0), np.float32(10), np.int8(1)) == Interval(0, 10.0, 1)
    assert Interval(decimal.Decimal(0), decimal.Decimal("0.5"), decimal.Decimal("0.1")).points == (
        *(0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
    )
    assert Classes([decimal.Decimal(0), decimal.Decimal("1.0")]).values == (0, 1)


MISSING = {
    "none": ["a", None, "b"],
    "nan": ["a", math.nan, "b"],
    "numpy nan": np.array(["a", np.nan, "b"], dtype=object),
    "pandas": pd.Series(["a", None, "b"]),
    "pandas NA": pd.Series(["a", pd.NA, "b"], dtype="string"),
    "category": pd.Categorical(["a", None, "b"]),
    "arrow": pa.array(["a", None, "b"]),
    "dictionary": pa.array(["a", None, "b"]).dictionary_encode(),
    "chunks": pa.chunked_array([pa.array(["a"]), pa.array([None, "b"], pa.string())]),
}


@pytest.mark.parametrize(
    "wrap", [np.asarray, np.ma.asarray, torch.tensor, lambda codes: np.asarray(codes).astype(">i4")]
)
@pytest.mark.parametrize("column", [False, True])
def test_tensors_columns_and_other_byte_orders_are_taken(wrap, column):
    """Numbers as a tensor, as one column of two dimensions or in another byte order are the same labels."""
    labels = wrap([1, 0, 7])
    assert numbers.encode(labels[:, None] if column else labels).tolist() == [1, 0, 2]
    assert Interval(0, 9, 1).encode(labels[:, None] if column else labels).tolist() == [1, 0, 7]


@pytest.mark.parametrize("order", ["<i4", ">i4"])
@pytest.mark.parametrize("column", [False, True])
def test_a_masked_label_is_missing(order, column):
    """What a mask hides is not read, in whatever form the labels are."""
    labels = np.ma.masked_array(np.array([1, 0, 7], order), mask=[False, False, True])
    text = refusal(numbers, labels[:, None] if column else labels)
    assert "no label in row 3" in text
    assert Classes([0, 1, 7], missing=0).encode(labels[:, None] if column else labels).tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    "labels", [np.zeros((3, 2)), np.zeros((3, 1, 1)), torch.zeros(3, requires_grad=True), torch.zeros(3).bfloat16()]
)
def test_what_is_no_column_is_refused(labels):
    """More columns, more dimensions, and tensors without a NumPy form."""
    assert "expected labels" in refusal(numbers, labels)


@pytest.mark.parametrize("name", MISSING)
def test_missing_labels_are_refused_or_given_their_class(name):
    """A missing label is refused with its row, or is the class that was declared for it; never the first by chance."""
    assert "no label in row 12 (the first is row 1)" in refusal(letters, MISSING[name], 10)
    for position, missing in enumerate("abc"):
        space = Classes(["a", "b", "c"], missing=missing)
        assert space.encode(MISSING[name]).tolist() == [0, position, 1]


@pytest.mark.parametrize(
    "labels",
    [[0, math.nan], [0, None], np.array([0, np.nan]), pd.Series([0, None]), pd.Series([0, None], dtype="Int64")],
)
def test_missing_numbers_are_refused_or_given_their_class(labels):
    """NaN is missing, and neither 0 nor the smallest integer."""
    assert "no label in row 2 (the first is row 1)" in refusal(numbers, labels)
    assert Classes([0, 1, 7], missing=7).encode(labels).tolist() == [0, 2]


def test_a_missing_policy_does_not_let_other_labels_through():
    """With a class for missing labels, a label outside is still refused, at its own row."""
    space = Classes(["a", "b", "c"], missing="c")
    assert "row 3 (the first is row 1)" in refusal(space, ["a", None, HIDDEN])
    assert space.encode([None, None]).tolist() == [2, 2]
    assert space.encode(pa.nulls(2)).tolist() == [2, 2]


@pytest.mark.parametrize(
    "empty",
    [[], (), np.array([], dtype=object), np.array([], dtype=np.str_), pd.Series([], dtype=object), pa.array([]),
     pa.chunked_array([], type=pa.string()), pd.Categorical([])],
)  # fmt: skip
def test_no_labels_have_no_codes(empty):
    """Empty data is no error."""
    found = letters.encode(empty)
    assert found.shape == (0,)
    assert found.dtype == np.int32


@pytest.mark.parametrize("count", [2, 255, 256, 257, 65535, 65536, 65537])
def test_codes_do_not_wrap(count):
    """Around 2**8 and 2**16 classes, every class has its own code."""
    space = Classes(range(count))
    order = np.random.default_rng(0).permutation(count)
    assert (space.encode(order) == order).all()
    assert f"row {count + 1:,} (the first is row 1)" in refusal(space, np.append(order, count))


@given(st.data())
@settings(derandomize=True, max_examples=150, deadline=None)
def test_encoding_is_the_index_in_the_declaration(data):
    """For any declaration and any labels out of it, codes are positions; one foreign label refuses all."""
    elements = data.draw(
        st.sampled_from([st.text(st.characters(codec="utf-8"), max_size=5), st.integers(-(2**63), 2**63 - 1)])
    )
    values = data.draw(
        st.lists(elements, min_size=2, max_size=20, unique_by=lambda each: canonical(f"{each}".rstrip("\0")))
    )
    space = Classes(values)
    labels = data.draw(st.lists(st.sampled_from(values), max_size=30))
    assert space.encode(labels).tolist() == [values.index(label) for label in labels]
    foreign = data.draw(elements.filter(lambda each: canonical(f"{each}") not in map(canonical, map(str, values))))
    place = data.draw(st.integers(0, len(labels)))
    assert f"row {place + 1:,} (the first is row 1)" in refusal(space, [*labels[:place], foreign, *labels[place:]])


@given(st.lists(st.one_of(st.none(), st.floats(), st.integers(), st.booleans(), st.text(max_size=3)), max_size=6))
@settings(derandomize=True, max_examples=400, deadline=None)
def test_anything_is_encoded_or_refused(labels):
    """Whatever is in a list, it is encoded inside the space or raises LabelError; nothing else happens."""
    for space in (letters, numbers, truths, Interval(0, 1, 0.25)):
        try:
            codes = space.encode(labels)
        except LabelError:
            continue
        assert len(codes) == len(labels)
        assert ((codes >= 0) & (codes < space.size)).all()


@pytest.mark.parametrize(
    "bad",
    [[], ["a"], ["a", "a"], [1, 1], ["a", 1], [1, True], [1, 1.5], [0.1, 0.2], [None, "a"], [b"a", b"b"], "ab", b"ab",
     5, None, [2**63, 0], [-(2**63) - 1, 0], [("a",), ("b",)], [math.nan, math.inf], ["a", "\ud800"]],
)  # fmt: skip
def test_a_declaration_that_hides_nothing_is_refused(bad):
    """Classes are two or more different strings, whole numbers or booleans of one kind that can be written."""
    with pytest.raises(LabelError, match=r"expected|is declared twice"):
        Classes(bad)


@pytest.mark.parametrize("bad", ["d", None, 1, math.nan])
def test_the_class_for_missing_labels_is_a_declared_one(bad):
    """Missing labels can only be given a class that exists."""
    with pytest.raises(LabelError, match="missing"):
        Classes(["a", "b"], missing=bad)


@pytest.mark.parametrize("bad", [True, 1.0])
def test_the_class_for_missing_labels_has_the_kind_of_the_classes(bad):
    """``True`` and 1.0 equal 1 in Python and are not the class 1."""
    with pytest.raises(LabelError, match="missing"):
        Classes([0, 1], missing=bad)


@pytest.mark.parametrize(
    "space",
    [letters, numbers, truths, Classes(np.array([3, 1])), Classes(np.array(["x", "y"])), Interval(-1, 1, 0.5),
     Classes([0, 1, 7], missing=np.int64(7)), Classes(["a", "b"], missing="b"), Interval(0.0, 2.0, 0.1, missing=0.3)],
    ids=repr,
)  # fmt: skip
def test_a_space_comes_back_from_its_description(space):
    """A declaration survives JSON, and its points are of the stated Arrow type."""
    again = space_from(json.loads(json.dumps(space.describe())))
    assert again == space
    assert again.points == space.points
    assert len(pa.array(space.points, space.arrow_type())) == space.size
    assert space.encode(list(space.points)).tolist() == list(range(space.size))


def test_spaces_of_different_kinds_differ():
    """Booleans and the integers 0 and 1 are different declarations, though Python calls them equal."""
    assert Classes([False, True]) != Classes([0, 1])
    assert Classes(["a", "b"]) != Classes(["b", "a"])


@pytest.mark.parametrize(
    ("low", "high", "step"), [(0, 1, 0.1), (-1, 1, 0.01), (0.1, 0.7, 0.2), (-3, 1e5, 0.5), (5, 6, 1)]
)
def test_every_grid_point_is_its_own(low, high, step):
    """Grid points are the decimals of the declaration and encode to themselves, inside and just beside them."""
    space = Interval(low, high, step)
    wanted = [float(decimal.Decimal(str(low)) + decimal.Decimal(str(step)) * i) for i in range(space.size)]
    assert list(space.points) == wanted
    assert (wanted[0], wanted[-1]) == (low, high)
    places = np.arange(space.size)
    for offset in (0, -0.49 * step, 0.49 * step):
        assert (space.encode(np.array(wanted) + offset) == places).all()


def test_an_interval_puts_labels_on_the_nearest_point_and_the_ends():
    """Labels outside, infinities too, are put on the nearer end; halves go up; integers and decimals are numbers."""
    space = Interval(0, 1, 0.25)
    assert space.encode([-5.0, 0.124, 0.125, 0.9, math.inf, -math.inf, 1e300]).tolist() == [0, 0, 1, 4, 4, 0, 4]
    assert space.encode([0, 1, 2]).tolist() == [0, 4, 4]
    assert space.encode(np.array([255], dtype=np.uint8)).tolist() == [4]
    assert space.encode([decimal.Decimal("0.5")]).tolist() == [2]
    assert space.encode(pd.Series([0.5]).astype("category")).tolist() == [2]
    assert space.encode([]).tolist() == []


@pytest.mark.parametrize("labels", [[0.5, math.nan], [0.5, None], pa.array([0.5, math.nan]), pd.Series([0.5, None])])
def test_a_missing_real_label_is_refused_or_given_its_number(labels):
    """NaN is not a number on the grid: it is refused by its row, or is the declared number."""
    assert "no label in row 9 (the first is row 1)" in refusal(Interval(0, 1, 0.25), labels, 7)
    assert Interval(0, 1, 0.25, missing=0.75).encode(labels).tolist() == [2, 3]


@pytest.mark.parametrize("labels", [["0.5"], [True], [HIDDEN], [[0.5]], [1j], [datetime.date(2020, 1, 1)]])
def test_labels_that_are_no_numbers_are_refused(labels):
    """Text and booleans are not read as numbers, and are not shown."""
    assert HIDDEN not in refusal(Interval(0, 1, 0.25), labels)


@pytest.mark.parametrize(
    "bad",
    [(0, 0, 1), (1, 0, 0.5), (0, 1, 0), (0, 1, -0.5), (0, 1, 0.3), (0, 1, 2), (0, math.inf, 1), (math.nan, 1, 1),
     (0, 1, 1e-30), (0, 1, "0.5"), (False, True, 1), (None, 1, 1), (0, 1e9, 1),
     (0, 10**400, 1), (-(17 * 10**307), 17 * 10**307, 10**307)],
)  # fmt: skip
def test_an_interval_that_is_no_grid_is_refused(bad):
    """The range is finite and not empty, and the step divides it into not too many parts."""
    with pytest.raises(LabelError, match=r"expected|is declared twice"):
        Interval(*bad)


@pytest.mark.parametrize("bad", [True, "0.5", None, math.nan, math.inf, 10**400])
def test_the_number_for_missing_labels_is_finite(bad):
    """Missing real labels can only be given a finite number; the error is about the label space."""
    with pytest.raises(LabelError, match="missing"):
        Interval(0, 1, 0.5, missing=bad)


def test_the_text_of_a_space_is_short():
    """A space of many classes does not print them all."""
    assert repr(letters) == "Classes(['a', 'b', 'c'], missing='refuse')"
    assert len(repr(Classes(range(10_000)))) < 80


@pytest.mark.parametrize("labels", [np.array([1 + 2j, 3.0]), [1 + 0j], np.array([1 + 2j], dtype=object)])
def test_numbers_with_an_imaginary_part_are_refused(labels):
    """Nothing of a label is dropped without a word; the message shows none of it."""
    with pytest.raises(LabelError, match="expected numbers as labels") as caught:
        Interval(0, 10, 1).encode(labels)
    assert "2j" not in str(caught.value)
