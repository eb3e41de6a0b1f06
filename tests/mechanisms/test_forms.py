"""Forms of rows: one type, range, precision and spelling for real and synthetic rows, and nothing told by failing."""

import datetime
import json
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.tree import DecisionTreeClassifier

from labeldp import Classes, Form, Generator, Source
from labeldp.errors import InputError
from labeldp.mechanisms.resampling import ColumnForm, form_from

ALARM = 1e-9
NAMES = ["age", "wage", "ratio", "visits", "town", "smokes", "born", "seen", "exact", "single", "level"]


def people(rows=1000, seed=0, gaps=0.1):
    """Public rows of every kind of column."""
    rng = np.random.default_rng(seed)
    half = np.datetime64("2020-01-01T00:00:00", "us") + rng.integers(0, 10**9, rows) * np.timedelta64(1000, "ms")
    return pd.DataFrame(
        {
            "age": np.round(rng.uniform(17, 90, rows), 1),
            "wage": np.where(rng.random(rows) < gaps, np.nan, np.round(np.exp(rng.normal(6, 1, rows)), 2)),
            "ratio": [float(f"{value:.3e}") for value in np.exp(rng.normal(0, 6, rows))],
            "visits": rng.integers(0, 400, rows),
            "town": rng.choice(["Ulm", "Bonn", None], rows),
            "smokes": rng.random(rows) < 0.3,
            "born": [
                datetime.date(1990, 1, 1) + datetime.timedelta(days=int(days)) for days in rng.integers(0, 9000, rows)
            ],
            "seen": half,
            "exact": rng.normal(size=rows),
            "single": rng.normal(size=rows).astype(np.float32).astype(np.float64),
            "level": rng.integers(1, 4, rows),
        }
    )


FORM = Form.of(people())


def test_a_form_is_read_off_public_rows():
    """Types, ranges, decimals, significant digits, precision, categories and gaps are those of the public rows."""
    rows = people()
    found = {column.name: column for column in FORM.columns}
    assert FORM.names == NAMES
    types = [*["double"] * 3, "int64", "string", "bool", "date32[day]", "timestamp[us]", "double", "double"]
    assert [found[name].type for name in NAMES] == [*types, "int64"]
    assert (found["age"].low, found["age"].high, found["age"].decimals) == (rows["age"].min(), rows["age"].max(), 1)
    assert (found["wage"].decimals, found["wage"].missing) == (2, True)
    assert (found["ratio"].digits, found["ratio"].decimals) == (4, None)
    assert (found["town"].values, found["town"].missing) == (("Bonn", "Ulm"), True)
    assert found["seen"].decimals == 0
    for name in ("exact", "single"):
        assert found[name].values == tuple(sorted(rows[name]))
    assert found["level"].values == (1, 2, 3)
    assert [name for name in NAMES if found[name].missing] == ["wage", "town"]


@pytest.mark.parametrize("rows", [300, 5000])
def test_no_true_row_is_known_by_the_gaps_between_values(rows):
    """Scaled whole numbers, rounded or not, and multiples: whatever a sampler gives lies where true values lie too."""
    rng = np.random.default_rng(0)
    whole = rng.integers(17, 90, rows)
    for values in ((whole - 41.7) / 13.3, np.round((whole - 41.7) / 13.3, 6), whole * 1000, np.float32(whole / 7)):
        form = Form.of({"x": values})
        drawn = values.min() + (values.max() - values.min()) * rng.random(2000)
        made, _ = form.shaped(form.table({"x": drawn}))
        assert set(made["x"].to_pylist()) <= set(values.tolist())
        assert len(set(made["x"].to_pylist())) > 30


def test_full_precision_is_never_read_off():
    """Of floats with all their digits a thousand public ones are listed, both ends among them, evenly by rank."""
    values = np.random.default_rng(0).normal(size=(5000, 3))
    for public in ({"x": values[:, 0]}, values, values.astype(np.float32)):
        (column,) = Form.of(public).columns
        given = np.sort(np.asarray(public["x"] if isinstance(public, dict) else public, dtype=np.float64).ravel())
        assert len(column.values) == 1000
        assert set(column.values) <= set(given)
        assert (column.values[0], column.values[-1]) == (given[0], given[-1])
        ranks = np.diff(np.searchsorted(given, column.values))
        assert ranks.max() <= ranks.min() + 1


def test_public_rows_have_their_own_form():
    """Shaping changes no public row, and gives the form's schema, without metadata."""
    made, changed = FORM.shaped(FORM.table(people()))
    assert not changed.any()
    assert made.schema == FORM.schema
    assert made.schema.metadata is None
    for name in NAMES:
        pd.testing.assert_series_equal(made[name].to_pandas(), pa.Table.from_pandas(people())[name].to_pandas())


@pytest.mark.parametrize(
    "given_as", ["pandas", "arrow", "mapping", "chunks", "dictionary", "other types", "string view"]
)
def test_every_container_gives_the_same_rows(given_as):
    """However rows are given, and in whatever type of numbers or texts, what they become is the same."""
    table = pa.Table.from_pandas(people(), preserve_index=False)
    wide = {"age": pa.decimal128(9, 1), "visits": pa.float64(), "level": pa.uint64(), "town": pa.large_string()}
    view = table.set_column(4, "town", pa.array(table["town"].to_pylist(), pa.string_view()))
    rows = {
        "pandas": people(),
        "string view": view,
        "arrow": table,
        "mapping": {name: table[name] for name in reversed(NAMES)},
        "chunks": pa.concat_tables([table[:300], table[300:300], table[300:]]),
        "dictionary": table.set_column(4, "town", table["town"].dictionary_encode()),
        "other types": pa.table({name: table[name].cast(wide.get(name, table[name].type)) for name in NAMES}),
    }[given_as]
    made, changed = FORM.shaped(FORM.table(rows))
    assert made.equals(FORM.shaped(FORM.table(people()))[0])
    assert not changed.any()


def strange(seed=0, rows=300):
    """Rows of the right types with the strangest values."""
    rng = np.random.default_rng(seed)
    odd = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, -1e308, 5e-324, 44.44444, 2**53 + 1.0]
    table = {
        name: pa.array(rng.choice(odd, rows), from_pandas=False) for name in ("age", "wage", "ratio", "exact", "single")
    }
    table["visits"] = pa.array(rng.choice(np.array([0, 1, 2**63, 2**64 - 1], dtype=np.uint64), rows))
    table["town"] = pa.array(rng.choice(["ulm", "Ulm ", "", "Bonn", "\x00", None], rows))
    table["smokes"] = pa.array(rng.choice([True, None], rows))
    table["born"] = pa.array(rng.choice(np.array([-(2**31), 0, 2**31 - 1]), rows).astype(np.int32)).cast(pa.date32())
    table["seen"] = pa.array(rng.choice(np.array([-(2**62), 0, 1, 2**62]), rows)).cast(pa.timestamp("s"))
    table["level"] = pa.array(rng.choice([-1.5, 2.5, np.nan, np.inf], rows), from_pandas=False)
    return pa.table(table)


def test_shaping_never_fails_and_leaves_what_it_gave():
    """Whatever the values are, rows come out in the form, each in the range; shaped again they stay as they are."""
    made, changed = FORM.shaped(FORM.table(strange()))
    assert changed.any()
    assert made.schema == FORM.schema
    again, changed = FORM.shaped(made)
    assert again.equals(made)
    assert not changed.any()
    for column in FORM.columns:
        values = made[column.name]
        assert column.missing or values.null_count == 0
        if column.type == "double":
            numbers = values.to_numpy()[values.is_valid().to_numpy()]
            assert ((numbers >= column.low) & (numbers <= column.high)).all()
            assert not np.signbit(numbers[numbers == 0]).any()
        elif column.values is not None:
            assert set(values.to_pylist()) - {None} <= set(column.values)
    empty, _ = FORM.shaped(FORM.table(strange(rows=0)))
    assert (empty.num_rows, empty.schema) == (0, FORM.schema)


def test_a_row_is_shaped_by_itself():
    """What a row becomes does not depend on the others, nor on where it stands."""
    rows = FORM.table(strange())
    order = np.random.default_rng(1).permutation(rows.num_rows)
    whole, changed = FORM.shaped(rows)
    other, other_changed = FORM.shaped(rows.take(pa.array(order)))
    assert other.equals(whole.take(pa.array(order)))
    np.testing.assert_array_equal(other_changed, changed[order])
    alone = pa.concat_tables([FORM.shaped(rows.slice(row, 1))[0] for row in range(40)])
    assert alone.combine_chunks().equals(whole.slice(0, 40).combine_chunks())


@example(65536.708984375, 8, 1e6, None)  # half a unit between two decimals, of which neither is a double
@settings(deadline=None, max_examples=200)
@given(
    st.floats(allow_nan=False, width=64), st.integers(0, 8), st.floats(0, 1e6), st.one_of(st.none(), st.integers(1, 15))
)
def test_numbers_are_the_nearest_doubles_of_decimals(number, decimals, size, digits):
    """A number is moved no further than needed, into the range, to what its decimal reads as; there is one zero."""
    limit = round(size, 0)
    column = ColumnForm("x", "double", low=-limit, high=limit, decimals=decimals, digits=digits and max(digits, 7))
    (found,) = column.nearest(np.array([number]))
    inside = min(max(number, -limit), limit)
    assert -limit <= found <= limit
    assert found == float(f"{found:.{decimals}f}")
    assert column.nearest(np.array([found]))[0] == found
    zeros = column.nearest(np.array([-0.0, -1e-300, 0.0]))
    assert not np.signbit(zeros).any()
    if digits is None:
        assert abs(found - inside) <= 0.5 * 10.0**-decimals + 2.0 * np.spacing(abs(inside))


def test_few_numbers_become_the_closest_of_them():
    """Of listed numbers the closest is taken, the lower one of two, beyond the ends the last."""
    column = ColumnForm("x", "int64", values=(1, 4, 10))
    found = column.nearest(np.array([-(2**62), 2, 3, 7, 8, 2**62]))
    assert found.tolist() == [1, 1, 4, 4, 10, 10]


def test_images_keep_their_bytes_and_their_shape():
    """Images of bytes come back as they were; floats are taken to bytes, and lists of another length are refused."""
    images = np.random.default_rng(0).integers(0, 256, (200, 4, 5)).astype(np.uint8)
    form = Form.of(images)
    assert (form.of_array, form.columns[0].type, form.columns[0].shape) == (True, "list<uint8>[20]", (4, 5))
    made, changed = form.shaped(form.table(images))
    assert not changed.any()
    found = form.array(made)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, images)
    back, changed = form.shaped(form.table(np.full((2, 4, 5), [[[-3.0]], [[270.4]]])))
    assert changed.all()
    assert form.array(back)[:, 0, 0].tolist() == [0, 255]
    lists = pa.array([[1.6] * 20, None, [math.nan] * 20], pa.list_(pa.float32(), 20))
    holes, changed = form.shaped(form.table(pa.table({"features": lists})))
    fallback = form.columns[0].fallback
    assert form.array(holes)[:, 0, 0].tolist() == [2, fallback, fallback]
    assert changed.tolist() == [True, True, True]
    for wrong in (images[:, :, :4], images[0, 0], np.array([["a"]]), pa.table({"features": [[1] * 20]})):
        with pytest.raises(InputError, match="expected"):
            form.table(wrong)


def test_levels_of_images_are_kept():
    """Floats that are bytes over 255 stay so: other floats become the closest level."""
    images = (np.random.default_rng(0).integers(0, 256, (400, 4, 5)) / 255).astype(np.float32)
    form = Form.of(images)
    assert len(form.columns[0].values) == 256
    found = form.array(form.shaped(form.table(np.full((1, 4, 5), 0.5001)))[0])
    assert set(found.ravel() * np.float32(255)) <= {np.float32(127.5), np.float32(128), np.float32(127)}
    assert set(found.ravel().tolist()) <= set(images.ravel().tolist())


def test_a_form_is_plain_data():
    """Written as JSON and read back, a form is the same; what describes none is refused."""
    for form in (FORM, Form.of(np.zeros((100, 3)) + np.arange(3))):
        assert form_from(json.loads(json.dumps(form.describe()))) == form
    for plain in (
        None,
        [],
        {},
        {"columns": [{}], "of_array": False},
        {"columns": [{"name": 1, "type": "x"}], "of_array": 0},
    ):
        with pytest.raises(InputError):
            form_from(plain)
    twice = {"columns": [FORM.columns[0].describe()] * 2, "of_array": False}
    with pytest.raises(InputError, match="name twice"):
        form_from(twice)


@pytest.mark.parametrize(
    "change",
    [
        {"age": "17"},
        {"town": 3},
        {"smokes": 1},
        {"born": datetime.datetime(2020, 1, 1)},
        {"seen": pd.Timestamp("2020-01-01", tz="UTC")},
        {"visits": [[1]] * 1000},
        {"more": 1},
    ],
)
def test_wrong_columns_are_refused_by_name_and_type(change):
    """Text for numbers and the like, lists, times with a zone, and a column too many are refused."""
    with pytest.raises(InputError, match=rf"{next(iter(change))}"):
        FORM.table(people().assign(**change))
    with pytest.raises(InputError, match="select them"):
        FORM.table(people().drop(columns="age"))


def test_public_columns_without_a_form_are_refused():
    """Names of rows, times with a zone, numbers of 64 bits, empty columns and infinity: each with what to do."""
    for values, told in (
        ([f"person {row}" for row in range(1001)], "at most 1000 different texts.*group its texts"),
        (pa.array([2**63], pa.uint64()), "63 bits"),
        (pa.array([None], pa.float64()), "found none; leave it out"),
        ([1.0, math.inf], "finite"),
        (pa.array([0], pa.timestamp("us", tz="UTC")), "without a zone"),
        ([[1, 2]], "another type"),
        ([], "found none"),
    ):
        with pytest.raises(InputError, match=told):
            Form.of({"x": values})
    for numbers in (np.zeros(3), np.zeros((3, 0)), np.array([["a"]])):
        with pytest.raises(InputError, match="shape"):
            Form.of(numbers)


@pytest.mark.parametrize(
    "parts",
    [
        {"type": "int65"},
        {"type": "double"},
        {"type": "double", "low": 2.0, "high": 1.0},
        {"type": "double", "low": 0.0, "high": math.inf},
        {"type": "double", "low": 0.25, "high": 1.0, "decimals": 1},
        {"type": "double", "low": 0.0, "high": 1e9, "decimals": 9},
        {"type": "double", "low": 0.0, "high": 1.0, "fallback": 2.0},
        {"type": "double", "values": (1.0, 2.0), "decimals": 1},
        {"type": "uint8", "high": 256},
        {"type": "int64", "decimals": 1},
        {"type": "string"},
        {"type": "string", "values": ("a",), "fallback": "b"},
        {"type": "string", "values": ("a",), "low": 0},
        {"type": "list<string>[3]", "values": ("a",)},
        {"type": "list<uint8>[6]", "shape": (2, 2)},
    ],
)
def test_parts_that_contradict_each_other_are_refused(parts):
    """A form cannot be declared that its own fallback or range does not have."""
    with pytest.raises(InputError, match="expected"):
        ColumnForm("x", **parts)


def test_cells_are_counted():
    """The rows that a form allows are counted where all columns list their values, gaps among them."""
    rows = people()[["town", "smokes", "level"]]
    assert Form.of(rows).cells == (2 + 1) * 2 * 3
    assert FORM.cells is None


# How rows look, whatever they say: what a sampler that knows the law, and no form, gets wrong.


def betrayed(rows, rng):
    """The same rows as a careless sampler gives them: full precision, other types, spellings, ranges and gaps."""
    count = len(rows)
    found = rows.copy()
    found["age"] = rows["age"] + rng.uniform(-0.04, 0.04, count)
    found["wage"] = rows["wage"] + rng.uniform(-0.004, 0.004, count)
    found["visits"] = rows["visits"] + rng.uniform(-0.4, 0.4, count)
    found["single"] = rows["single"] * (1 + rng.uniform(-1e-9, 1e-9, count))
    found["level"] = rows["level"].astype(float) + rng.uniform(-0.4, 0.4, count)
    found["seen"] = rows["seen"] + pd.to_timedelta(rng.integers(0, 10**6, count), unit="us")
    return found


def looks(rows):
    """Numbers that say how values look and not what they say: types, digits, signs of zero, lengths, cases, gaps."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pandas(rows, preserve_index=False)
    columns = []
    for column in FORM.columns:
        values = table[column.name]
        kind, wide = values.type, values.to_pylist()
        texts = [repr(value) for value in wide]
        columns.append([float(pa.types.is_floating(kind)) + 2 * float(pa.types.is_integer(kind))] * len(wide))
        columns.append([float(value is None) for value in wide])
        if pa.types.is_floating(kind) or pa.types.is_integer(kind):
            columns.append([len(text.partition(".")[2]) for text in texts])
            columns.append([float(len(text) > 12) for text in texts])
            columns.append([float(value is not None and not column.low <= value <= column.high) for value in wide])
            columns.append([math.copysign(1, value) if value == 0 else 0 for value in wide])
        elif pa.types.is_timestamp(kind):
            columns.append([float(value.microsecond > 0) for value in wide])
        else:
            columns.append([float(text != text.strip()) + 2 * float(text.islower()) for text in map(str, wide)])
    return np.array(columns).T


def two_sample_accuracy(kept, made):
    """How many of the held-out half of some rows a classifier takes for what they are, and how many there are."""
    features = np.vstack([looks(kept), looks(made)])
    classes = np.repeat([0, 1], [len(features) // 2, len(features) - len(features) // 2])
    order = np.random.default_rng(0).permutation(len(features))
    train, test = order[: len(order) // 2], order[len(order) // 2 :]
    model = DecisionTreeClassifier(max_depth=8, random_state=0).fit(features[train], classes[train])
    return int((model.predict(features[test]) == classes[test]).sum()), len(test)


def test_form_tells_nothing_of_which_rows_are_real():
    """Of kept and synthetic rows of one law, after both are shaped, form says no more than a coin.

    Kept and synthetic rows are independent and of one law, if shaping undoes what the sampler does to it; then each
    guess is right with chance 1/2 on average, and the test fails once in 1e9 runs (binomial, one-sided; rows are held
    out without replacement, which varies less). Unshaped, nearly all are told apart, so that the test can fail.
    """
    rng = np.random.default_rng(5)
    real = people(1500, seed=11)
    synthetic = people(1500, seed=12)
    for careless in (real, synthetic):
        careless["wage"] = careless["wage"].clip(upper=FORM.columns[1].high)
    space = Classes(["no", "yes"])
    generator = Generator(
        space, FORM, Source("public", "made up"), lambda codes: betrayed(synthetic, rng)[: len(codes)]
    )
    kept, made = FORM.shaped(FORM.table(real))[0], generator.sample(np.zeros(1500, dtype=int))
    right, of = two_sample_accuracy(kept, made)
    assert binom.sf(right - 1, of, 0.5) > ALARM
    right, of = two_sample_accuracy(real, betrayed(synthetic, rng))
    assert right > 0.95 * of
