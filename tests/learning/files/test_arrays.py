"""Arrays beside a text in a file: they are read again, by others too, and a file that contradicts itself is refused."""

import copy
import json
import struct
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neighbors import NearestNeighbors

from labeldp.learning.files import described, restored
from labeldp.learning.files._arrays import read_arrays, write_arrays

ARRAYS = {
    "double": np.linspace(0.0, 1.0, 6).reshape(2, 3),
    "single": np.float32([[1.5]]),
    "half": np.float16([2.0, 0.5]),
    "none": np.empty((0, 4)),
    "number": np.array(7, dtype=np.int64),
    "bytes": np.arange(5, dtype=np.uint8),
    "large": np.array([2**64 - 1], dtype=np.uint64),
    "flags": np.array([True, False]),
    "swapped": np.array([1, 2], dtype=">i4"),
    "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
}


def read(path):
    """The text and the arrays of a file."""
    with path.open("rb") as file:
        text, arrays = read_arrays(file)
        return text, dict(arrays)


def test_what_is_written_is_read(tmp_path):
    """Every type of numbers and every shape, with the text, by us and by the library of the layout."""
    path = tmp_path / "file"
    write_arrays(path, "text", ARRAYS)
    text, found = read(path)
    assert text == "text"
    assert list(found) == sorted(found, key=list(found).index)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array, strict=name != "swapped")
    with safe_open(path, framework="np") as opened:
        assert opened.metadata() == {"labeldp": "text"}
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(opened.get_tensor(name), array)


def test_objects_are_no_array(tmp_path):
    """Objects have no type in a file, so that none is written or made."""
    with pytest.raises(KeyError):
        write_arrays(tmp_path / "file", "", {"a": np.array([print])})


def header(**entries):
    """The bytes of a file with a header and sixteen bytes of arrays."""
    text = json.dumps({"__metadata__": {"labeldp": ""}, **entries}).encode()
    return struct.pack("<Q", len(text)) + text + bytes(16)


def entry(dtype="F64", shape=(2,), begin=0, end=16):
    """An entry of a header."""
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


#: Files that contradict themselves.
LIES = {
    "a header longer than the file": struct.pack("<Q", 1 << 40) + b"{}",
    "less than a length": b"abc",
    "no JSON": struct.pack("<Q", 2) + b"xx",
    "no text": struct.pack("<Q", 2) + b"{}",
    "an array larger than the file": header(a=entry(shape=(1 << 40,), end=1 << 43)),
    "a shape larger than its bytes": header(a=entry(shape=(1 << 40,))),
    "a negative size": header(a=entry(shape=(-2,))),
    "a size that is a truth value": header(a=entry(shape=(True, 2))),
    "a size that is no number": header(a=entry(shape=("2",))),
    "too many dimensions": header(a=entry(shape=(1,) * 40 + (2,))),
    "overlapping arrays": header(a=entry(), b=entry()),
    "a gap": header(a=entry(shape=(1,), begin=8)),
    "bytes that are no array": header(a=entry(shape=(1,), end=8)),
    "objects": header(a=entry(dtype="O")),
    "types of Python": header(a=entry(dtype="|O")),
    "a number of another library": header(a=entry(dtype="BF16", shape=(8,))),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_file_that_contradicts_itself_is_refused(lie, tmp_path):
    """Before any array is made, however large it says that it is."""
    (tmp_path / "file").write_bytes(LIES[lie])
    with pytest.raises((ValueError, LookupError, TypeError)):
        read(tmp_path / "file")


def test_truth_values_are_zero_or_one(tmp_path):
    """Other bytes would be read as a third one."""
    (tmp_path / "file").write_bytes(header(a=entry(dtype="BOOL", shape=(16,)))[:-1] + b"\x02")
    with pytest.raises(ValueError, match="neither 0 nor 1"):
        read(tmp_path / "file")


def test_damaged_headers_are_refused_or_say_the_same(tmp_path):
    """A changed byte of a header never gives an array of another size than its part of the file."""
    write_arrays(tmp_path / "file", "text", ARRAYS)
    whole, random = (tmp_path / "file").read_bytes(), np.random.default_rng(0)
    (size,) = struct.unpack("<Q", whole[:8])
    for place in random.integers(0, size + 8, 300):
        damaged = bytearray(whole)
        damaged[place] ^= int(random.integers(1, 256))
        (tmp_path / "bad").write_bytes(damaged)
        try:
            _, found = read(tmp_path / "bad")
        except (ValueError, LookupError, TypeError):
            continue
        assert sum(each.nbytes for each in found.values()) == len(whole) - size - 8


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_values_are_restored(value):
    """Nested lists, tuples and dictionaries come back as they were, by way of JSON."""
    body, arrays = described(value)
    assert restored(json.loads(json.dumps(body)), arrays) == value


def test_arrays_and_numbers_are_restored():
    """Texts, missing values, numbers of NumPy, types and slices too, in their types; shared arrays are there once."""
    shared = np.arange(3.0)
    value = {
        "texts": np.array(["a", "bc"]),
        "objects": np.array([["a", None], [float("nan"), 2]], dtype=object),
        "number": np.float32(0.1),
        "infinite": float("-inf"),
        "type": np.float64,
        "dtype": np.dtype("i4"),
        "slice": slice(1, None, 2),
        "columns": np.asfortranarray(np.eye(3)[:2]),
        "shared": [shared, shared],
    }
    body, arrays = described(value)
    found = restored(json.loads(json.dumps(body)), arrays)
    assert len(arrays) == 2
    assert found["shared"][0] is found["shared"][1]
    assert found["columns"].flags.f_contiguous
    np.testing.assert_array_equal(found["columns"], value["columns"])
    np.testing.assert_array_equal(found["texts"], value["texts"], strict=True)
    assert found["objects"][0].tolist() == ["a", None]
    assert np.isnan(found["objects"][1, 0])
    for name in ("number", "infinite", "type", "dtype", "slice"):
        assert (found[name], type(found[name])) == (value[name], type(value[name]))


def grown():
    """Boosted trees with a category, whose classes no single split tells apart."""
    random = np.random.default_rng(0)
    rows = np.column_stack([random.normal(size=400), random.integers(0, 9, 400)])
    labels = (rows[:, 0] > 0) ^ (rows[:, 1] % 2 == 1)
    return HistGradientBoostingClassifier(max_iter=2, categorical_features=[1]).fit(rows, labels), rows


def with_field(name, value):
    """A change of a field of all inner nodes of a tree."""

    def change(model):
        nodes = model._predictors[1][0].nodes
        nodes[name][nodes["is_leaf"] == 0] = value

    return change


def without_category(model):
    """A feature that is no category, though nodes take it for one."""
    model._bin_mapper.is_categorical_ = np.zeros(2, dtype=np.uint8)


def without_categories(model):
    """A tree without the sets of categories that its nodes name."""
    model._predictors[1][0].raw_left_cat_bitsets = np.zeros((0, 8), dtype=np.uint32)


def with_narrow_rows(model):
    """Rows that lose a feature before trees read it."""
    model._preprocessor.transformers_ = model._preprocessor.transformers_[:1]


@pytest.mark.parametrize(
    "change",
    [
        with_field("left", 1 << 31),
        with_field("right", 0),
        with_field("feature_idx", 1 << 20),
        with_field("feature_idx", -1),
        with_field("bitset_idx", 1 << 20),
        without_categories,
        without_category,
        with_narrow_rows,
        lambda model: setattr(model, "_bin_mapper", SimpleNamespace(is_categorical_=np.zeros(1, dtype=bool))),
    ],
)
def test_trees_that_read_outside_their_rows_are_refused(change):
    """Compiled code of trees looks at no bounds: a forged file would end the process, or show its memory."""
    model, rows = grown()
    np.testing.assert_array_equal(restored(*described(model)).predict_proba(rows), model.predict_proba(rows))
    change(model)
    with pytest.raises((ValueError, TypeError)):
        restored(*described(model))


def test_centres_of_other_features_are_refused():
    """Nearest centres are found by compiled code, too."""
    model = KMeans(3, n_init=1).fit(np.random.default_rng(0).normal(size=(50, 2)))
    assert restored(*described(model)).n_features_in_ == 2
    model.cluster_centers_ = model.cluster_centers_[:, :1].copy()
    with pytest.raises(ValueError, match="KMeans whose parts fit together"):
        restored(*described(model))


@pytest.mark.parametrize(
    ("estimator", "setting"),
    [
        (ColumnTransformer([("all", "passthrough", [0])]), "n_jobs"),
        (NearestNeighbors(n_neighbors=1), "n_jobs"),
        (KMeans(2, n_init=1), "_n_threads"),
    ],
)
@pytest.mark.parametrize("number", [24, -1])
def test_a_file_does_not_say_how_many_processes_start(number, estimator, setting):
    """Whoever opens a model of a few kilobytes would start as many as it likes."""
    model = copy.deepcopy(estimator).fit(np.eye(4))
    setattr(model, setting, 1)
    assert getattr(restored(*described(model)), setting) == 1
    setattr(model, setting, number)
    with pytest.raises(ValueError, match="of one process"):
        restored(*described(model))


def test_texts_take_no_more_room_than_their_file_allows():
    """Each text of an array takes the room of the longest, so one long text among many short ones is refused."""
    texts = {"items": ["x"] * 10_000 + ["x" * 10_000], "shape": [10_001], "kind": "U"}
    with pytest.raises(ValueError, match="more room than their file"):
        restored({"objects": [], "value": texts}, {})
    assert restored({"objects": [], "value": {"items": ["a", "bc"], "shape": [2], "kind": "U"}}, {}).tolist() == [
        "a",
        "bc",
    ]
