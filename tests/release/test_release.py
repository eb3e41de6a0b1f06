"""Releases: they slice and split like a target, never draw again, and refuse to be taken for true labels."""

import io
import json
import pickle
import warnings
from contextlib import contextmanager

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.metrics import accuracy_score, log_loss, r2_score
from sklearn.model_selection import KFold, cross_val_score, train_test_split
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import LabelBinarizer, LabelEncoder, TargetEncoder
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import labeldp as dp
from labeldp.errors import InputError, LabelDPError, NotTrueLabelsError, OutputError, RowsError
from labeldp.privacy.channels import ResponseChannel, row_arrays
from labeldp.release import UnitWarning


@pytest.fixture
def release(space, labels, randomizer_for):
    """A release by each mechanism."""
    return dp.Curator(labels, space).randomize(randomizer_for(space, 1.0, len(labels)))


@pytest.fixture
def plain(space, labels):
    """A release by randomized response."""
    return dp.Curator(labels, space).randomize(dp.RandomizedResponse(space, 1.0))


def same(one, other):
    """Whether two releases hold the same labels under the same law."""
    arrays, others = row_arrays(one.channel), row_arrays(other.channel)
    return (
        np.array_equal(one.codes, other.codes)
        and one.codes.dtype == other.codes.dtype
        and set(arrays) == set(others)
        and all(np.array_equal(values, others[name]) for name, values in arrays.items())
        and one.guarantee == other.guarantee
        and one.space == other.space
    )


@contextmanager
def quiet():
    """Warnings of other libraries do not end a test before the error does that it is about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# Slices


@pytest.mark.parametrize(
    "rows",
    [slice(3, 40, 2), [5, 1, 1, 9], np.arange(60) % 2 == 0, np.array([-1, 0]), slice(0, 0), [True, False] * 30],
    ids=["slice", "repeats", "mask", "negative", "none", "list-mask"],
)
def test_slices_keep_what_was_drawn(release, rows, monkeypatch):
    """A slice has the released labels and the law of its rows, names its parent, and draws nothing."""
    monkeypatch.setattr("labeldp.release.curator._drawing.draw", None)
    monkeypatch.setattr("labeldp._random_words.SecureWords.block", None)
    part, index = release[rows], rows if isinstance(rows, slice) else np.asarray(rows)
    assert np.array_equal(part.codes, release.codes[index])
    for name, values in row_arrays(part.channel).items():
        assert np.array_equal(values, row_arrays(release.channel)[name][index])
    assert np.array_equal(part.likelihood(), release.likelihood()[index])
    assert np.array_equal(part.unbiased(), release.unbiased()[index])
    assert (part.certificate.parent, part.certificate.rows) == (release.hash, len(part))
    assert part.guarantee == release.guarantee


def test_slices_of_slices_name_the_release_that_was_drawn(release):
    """However deep a slice is, its parent is what was charged for."""
    assert release[5:][::2][[1, 2]].certificate.parent == release.hash


def test_slices_hash_the_whole_release_once(plain, monkeypatch):
    """A loop that slices again and again reads all labels at the first slice, and not at the others."""
    hashed = []
    monkeypatch.setattr("labeldp.release.released._release.row_arrays", lambda channel: hashed.append(channel) or {})
    assert {plain[[i]].certificate.parent for i in range(5)} == {plain.hash}
    assert len(hashed) == 1


def test_the_hash_tells_releases_apart(release):
    """Another order of rows has another hash; the same rows have the same."""
    assert release[:].hash == release.hash
    assert release[::-1].hash != release.hash


@pytest.mark.parametrize("row", [60, -61, np.int64(1000)])
def test_a_row_that_does_not_exist_is_refused(plain, row):
    """A single row outside the release raises."""
    with pytest.raises(RowsError):
        plain[row]


@pytest.mark.parametrize("rows", [[60], [0.5], [], "0", None, np.ones(59, dtype=bool)], ids=str)
def test_strange_rows_are_no_release_of_something_else(plain, rows):
    """Rows that are none raise an index error, or give a release in one dimension with what was asked for."""
    try:
        part = plain[rows]
    except (IndexError, ValueError, TypeError):
        return
    assert rows == []
    assert len(part) == 0


def test_a_release_does_not_change(release):
    """Its labels can't be written, and the array that it was made from is not shared."""
    with pytest.raises(ValueError, match="read-only"):
        release.codes[0] = 0
    given = np.zeros(3, dtype=np.int32)
    held = dp.Release(given, release.channel.take(slice(0, 3)), release.space, release.certificate)
    given[:] = 1
    assert not held.codes.any()


# As a target


def test_a_release_has_the_form_of_a_target(release, labels):
    """Shape, dimensions, length and type are those of a column of objects."""
    assert (release.shape, release.ndim, len(release), release.dtype) == ((60,), 1, 60, np.dtype(object))
    assert np.asarray(release).shape == (60,)
    assert np.asarray(release).dtype == object
    assert not any(label in repr(np.asarray(release)) for label in set(labels))


REFUSED = {
    "float": float,
    "int": int,
    "str": str,
    "bool": bool,
    "hash": hash,
    "format": "{}".format,
    "equal": lambda x: x == 1,
    "less": lambda x: x < 1,
    "index": lambda x: [0, 1][x],
}


@pytest.mark.parametrize("use", REFUSED.values(), ids=REFUSED)
def test_a_single_label_is_opaque(plain, use):
    """A released label taken for a true one refuses, whether by index, in a loop or from the array."""
    for label in (plain[0], next(iter(plain)), np.asarray(plain)[0]):
        with pytest.raises(NotTrueLabelsError):
            use(label)


@pytest.mark.parametrize("dtype", [float, int, "U5", bool, np.float32])
def test_a_numeric_array_is_refused(plain, dtype):
    """A release turns into no array of numbers, texts or booleans."""
    with pytest.raises(NotTrueLabelsError):
        np.asarray(plain, dtype=dtype)
    with pytest.raises((TypeError, ValueError)):
        np.asarray(plain).astype(dtype)


FOREIGN = {
    "unique": np.unique,
    "sort": np.sort,
    "sum": np.sum,
    "isnan": np.isnan,
    "bincount": np.bincount,
    "set": set,
    "sorted": sorted,
    "json": json.dumps,
    "pandas unique": lambda y: pd.Series(np.asarray(y)).unique(),
    "pandas csv": lambda y: pd.DataFrame({"y": np.asarray(y)}).to_csv(io.StringIO()),
    "pandas dummies": lambda y: pd.get_dummies(np.asarray(y)),
    "arrow": lambda y: pa.array(np.asarray(y)),
}


@pytest.mark.parametrize("use", FOREIGN.values(), ids=FOREIGN)
def test_foreign_functions_refuse(plain, use):
    """What would count, sort or write labels raises instead."""
    with quiet(), pytest.raises((TypeError, ValueError)):
        use(plain)


ESTIMATORS = [
    LogisticRegression(),
    SGDClassifier(),
    LinearRegression(),
    SVC(),
    DecisionTreeClassifier(),
    DecisionTreeRegressor(),
    RandomForestClassifier(2),
    GradientBoostingClassifier(n_estimators=2),
    HistGradientBoostingClassifier(max_iter=2),
    KNeighborsClassifier(),
    GaussianNB(),
    MultinomialNB(),
    MLPClassifier(),
    DummyClassifier(),
    DummyClassifier(strategy="stratified"),
    DummyRegressor(),
    LabelEncoder(),
    LabelBinarizer(),
    TargetEncoder(),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_foreign_estimators_refuse(plain, estimator):
    """An estimator that would train on released labels as if they were true raises, given two classes or five."""
    features = np.abs(np.random.default_rng(0).normal(size=(60, 3)))
    two = dp.Classes(["a", "b"])
    for release in (plain, dp.Curator(["a", "b"] * 30, two).randomize(dp.RandomizedResponse(two, 1.0))):
        arguments = (release,) if isinstance(estimator, LabelEncoder | LabelBinarizer) else (features, release)
        with pytest.raises((TypeError, ValueError)):
            estimator.fit(*arguments)


def test_a_foreign_estimator_refuses_a_release_of_numbers():
    """Regression on released numbers raises too: numbers are where silence would be easiest."""
    space = dp.Interval(0, 1, 0.25)
    release = dp.Curator([0.0, 0.5, 1.0] * 20, space).randomize(dp.RandomizedResponse(space, 1.0))
    with pytest.raises((TypeError, ValueError)):
        LinearRegression().fit(np.ones((60, 1)), release)
    with pytest.raises((TypeError, ValueError)):
        DecisionTreeRegressor().fit(np.ones((60, 1)), release)


@pytest.mark.parametrize("score", [accuracy_score, log_loss, r2_score])
def test_foreign_metrics_refuse(plain, score):
    """A metric that would take released labels for the truth raises, on either side."""
    for pair in ((plain, np.zeros(60)), (np.zeros(60), plain), (plain, plain)):
        with pytest.raises((TypeError, ValueError)):
            score(*pair)


def test_foreign_cross_validation_refuses(plain):
    """Scoring a foreign estimator fails as a whole, with no score."""
    with quiet(), pytest.raises((TypeError, ValueError)):
        cross_val_score(LogisticRegression(), np.ones((60, 2)), plain, cv=3)


def test_splits_keep_rows_together(release):
    """``train_test_split`` and ``KFold`` give releases whose rows belong to the features beside them."""
    rows = np.arange(60)
    train, test, y_train, y_test = train_test_split(rows, release, test_size=0.25, random_state=0)
    assert isinstance(y_train, dp.Release)
    assert np.array_equal(y_train.codes, release.codes[train])
    assert np.array_equal(y_test.codes, release.codes[test])
    for inside, outside in KFold(4, shuffle=True, random_state=1).split(rows[:, None], release):
        assert np.array_equal(release[inside].codes, release.codes[inside])
        assert len(release[outside]) == 15


@pytest.mark.parametrize("jobs", [1, 2])
def test_releases_travel_to_workers(release, jobs):
    """Pickled and sent to processes, a release comes back as it was and names the same hash."""
    assert same(pickle.loads(pickle.dumps(release)), release)  # noqa: S301 (its own pickle)
    hashes = joblib.Parallel(jobs, backend="loky" if jobs > 1 else "sequential")(
        joblib.delayed(_hash)(part) for part in (release, release[:5])
    )
    assert hashes == [release.hash, release[:5].hash]


def _hash(release):
    return release.hash


# Saving and loading


@pytest.mark.parametrize("space", [dp.Classes([3, 1, 2]), dp.Classes([True, False]), dp.Interval(0, 1, 0.25)], ids=repr)
@pytest.mark.parametrize("make", [dp.RandomizedResponse, dp.BitResponse, lambda s, e: dp.SubsetResponse(s, e, 1)])
def test_every_kind_of_label_comes_back(space, make, tmp_path):
    """Whole numbers, booleans and an interval's numbers keep their type and their order."""
    release = dp.Curator(list(space.points) * 5, space).randomize(make(space, 1.0))
    back = dp.Release.load(release.save(tmp_path / "out"))
    assert same(back, release)
    assert back.to_arrow().equals(release.to_arrow())


def test_units_come_back(space, labels, tmp_path):
    """The group of each row travels with the labels."""
    curator = dp.Curator(labels, space, units=np.arange(60) // 7)
    release = curator.randomize(dp.SubsetResponse(space, 1.0, 2))
    back = dp.Release.load(release.save(tmp_path / "out"))
    assert same(back, release)
    assert set(pq.read_schema(tmp_path / "out" / "data.parquet").names) == {"label_released", "label_groups"}


def test_slices_come_back(release, tmp_path):
    """A slice keeps its parent through a file, and so does a slice of no rows."""
    for name, rows in (("some", [4, 2, 2]), ("none", slice(0, 0))):
        part = release[rows]
        back = dp.Release.load(part.save(tmp_path / name))
        assert np.array_equal(back.codes, part.codes)
        assert back.certificate.parent == release.hash


class PolarsLike:
    """A frame that is known by Arrow's stream interface alone, as polars' frames are."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        """The table as a stream."""
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "make",
    [
        pd.DataFrame,
        pa.table,
        lambda columns: PolarsLike(pa.table(columns)),
        lambda columns: pyarrow.dataset.dataset(pa.table(columns)),
    ],
)
def test_public_columns_of_every_kind(plain, tmp_path, make):
    """Frames and tables are written with their values, types and order."""
    public = {"n": list(range(60)), "x": [0.5] * 60, "t": ["ü,\n"] * 60}
    folder = plain.save(tmp_path / "out", make(public), label="colour", keep="all")
    written = pq.read_table(folder / "data.parquet")
    assert written.drop(["colour_released"]).to_pydict() == public
    assert written.column_names == ["n", "x", "t", "colour_released"]
    assert dp.verify(folder).holds


@pytest.mark.parametrize(
    ("keep", "written"),
    [([], []), ((), []), ("none", []), (["none"], ["none"]), (pd.Index(["x", "none"]), ["x", "none"])],
)
def test_public_columns_are_a_list_or_a_word(plain, tmp_path, keep, written):
    """No column may be public, a frame names its columns, and a column that is called "none" is meant by a list."""
    table = pd.DataFrame({"x": range(60), "none": range(60)})
    folder = plain.save(tmp_path / "out", table, keep=keep)
    assert pq.read_schema(folder / "data.parquet").names == [*written, "label_released"]
    assert dp.verify(folder).holds


def test_an_index_is_no_public_column(plain, tmp_path):
    """A frame's index, which often holds the order of labels, is not written unless it is made a column."""
    frame = pd.DataFrame({"x": range(60)}, index=np.random.default_rng(0).permutation(60))
    folder = plain.save(tmp_path / "out", frame, keep="all")
    assert pq.read_schema(folder / "data.parquet").names == ["x", "label_released"]


TWICE = pa.Table.from_arrays([pa.array(range(60))] * 2, names=["x", "x"])
NO_TABLE, NO_LIST = (
    "expected the table of the columns to keep, found none; pass it",
    r"'all', found 'ab'; write keep=\['ab'\]",
)
#: What is passed to ``save`` beside a release called colour, and what is said of it.
UNSAVED = {
    "no rows": ({"table": pa.table({"x": np.arange(0)}), "keep": "all"}, "60 rows|one row for each"),
    "too few rows": ({"table": pa.table({"x": range(59)}), "keep": "all"}, "rows"),
    "too many rows": ({"table": pa.table({"x": range(61)}), "keep": "all"}, "rows"),
    "the label": ({"table": pa.table({"colour": range(60)}), "keep": "all"}, "'colour'"),
    "released labels": ({"table": pa.table({"colour_released": range(60)}), "keep": "all"}, "colour_released"),
    "groups of units": ({"table": pa.table({"colour_groups": range(60)}), "keep": "all"}, "colour_groups"),
    "a column twice": ({"table": TWICE, "keep": "all"}, "x"),
    "columns of no table": ({"keep": ["x"]}, NO_TABLE),
    "all of no table": ({"keep": "all"}, NO_TABLE),
    "nothing of no table": ({"keep": []}, NO_TABLE),
    "letters of no table": ({"keep": "ab"}, NO_LIST),
    "letters that are columns": (
        {"table": pa.table(dict.fromkeys(("a", "ab"), range(60))), "keep": "ab"},
        NO_LIST,
    ),
}


@pytest.mark.parametrize("case", UNSAVED)
def test_what_cannot_stand_beside_released_labels_is_refused(space, labels, tmp_path, case):
    """Other rows, names that are taken, and columns without a table; nothing is written."""
    given, message = UNSAVED[case]
    curator = dp.Curator(labels, space, units=np.arange(60) // 2)
    with pytest.raises(LabelDPError, match=message):
        curator.randomize(dp.RandomizedResponse(space, 1.0)).save(tmp_path / "out", label="colour", **given)
    assert not any(tmp_path.iterdir())


def test_an_existing_output_is_refused(plain, tmp_path):
    """A file, a folder or a dangling link at the target stays as it is."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("folder", "file", "link", "no/parent"):
        with pytest.raises(OutputError):
            plain.save(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "link"]
    assert (tmp_path / "file").read_text() == "mine"


def test_hidden_content_does_not_travel(plain, tmp_path):
    """Unused categories, and metadata of the table, of columns and of what is inside them, are not written."""
    category = pd.Categorical(["u", "v"] * 30, categories=["u", "v", "unusedsecret"])
    inner = pa.StructArray.from_arrays([pa.array(range(60))], fields=[pa.field("i", pa.int64(), metadata={"m": "s"})])
    table = pa.Table.from_arrays(
        [pa.array(category), inner],
        schema=pa.schema(
            [
                pa.field("c", pa.dictionary(pa.int8(), pa.string()), metadata={"m": "secretfield"}),
                pa.field("s", inner.type),
            ],
            metadata={"pandas": "secrettable"},
        ),
    )
    folder = plain.save(tmp_path / "out", table, keep="all")
    data = (folder / "data.parquet").read_bytes()
    assert not [word for word in (b"unusedsecret", b"secretfield", b"secrettable") if word in data]
    schema = pq.read_schema(folder / "data.parquet")
    assert schema.field("c").type == pa.string()
    assert not schema.field("s").type.field(0).metadata


def test_a_loaded_release_knows_the_order_of_its_rows(plain, tmp_path):
    """Features that were read from the folder and shuffled are refused; numbers of their own are warned of."""
    folder = plain.save(tmp_path / "out", pa.table({"x": np.arange(60.0)}), keep=["x"])
    release, features = dp.Release.load(folder), pd.read_parquet(folder, columns=["x"])
    release.targets(features)
    release[:20].targets(features[:20])
    with pytest.warns(UserWarning, match="paired by position"):
        release.targets(features.set_index(features["x"] + 1_000))
    release.targets(features.set_index("p" + features["x"].astype(str)))
    for others in (features[::-1], features.sample(frac=1.0, random_state=0)):
        with pytest.raises(RowsError, match="found the same rows in another order"):
            release.targets(others)


@pytest.mark.parametrize("epsilon", [0.1, 3.0])
def test_a_column_that_may_be_the_label_is_not_kept_with_all_others(epsilon, tmp_path):
    """Under another name it is known by the released labels; other columns of the same classes are not taken for it."""
    chance, space = np.random.default_rng(0), dp.Classes(["no", "yes"])
    codes, other = chance.integers(0, 2, (2, 20_000))
    truth, housing = (np.array(space.points)[each] for each in (codes, other))
    release = dp.Curator(truth, space).randomize(epsilon=epsilon)
    release.save(tmp_path / "shared", pa.table({"housing": housing}), keep="all")
    with pytest.raises(InputError, match="no column that may be the true label, found 'churn'"):
        release.save(tmp_path / "other", pa.table({"churn": truth, "housing": housing}), keep="all")
    assert not (tmp_path / "other").exists()


def test_a_label_outside_the_candidates_of_most_rows_is_known_by_the_others(tmp_path):
    """Rows whose true class is no candidate say nothing of it; where none says anything, the column is in doubt."""
    chance, space = np.random.default_rng(0), dp.Classes(["a", "b", "c", "d"])
    codes = chance.integers(0, 4, 20_000)
    truth, other = (np.array(space.points)[each] for each in (codes, chance.permutation(codes)))
    prior = np.eye(4)[(codes + (chance.random(len(codes)) < 0.8)) % 4] * 0.8 + 0.05  # the true class first in a fifth
    release = dp.Curator(truth, space, budget=2.0).randomize(dp.TopKResponse(space, 1.0, prior, k=2))
    release.save(tmp_path / "shared", pa.table({"other": other}), keep="all")
    with pytest.raises(InputError, match="no column that may be the true label, found 'truth'"):
        release.save(tmp_path / "label", pa.table({"truth": truth}), keep="all")


def test_the_label_of_many_rows_is_known_by_some_of_them(tmp_path):
    """Of more rows than are looked at the label is recognized too."""
    space = dp.Classes([str(place) for place in range(500)])
    truth = np.array(space.points)[np.random.default_rng(0).integers(0, 500, 20_000)]
    release = dp.Curator(truth, space).randomize(epsilon=4.0)
    with pytest.raises(InputError, match="no column that may be the true label, found 'truth'"):
        release.save(tmp_path / "label", pa.table({"truth": truth}), keep="all")


def test_a_label_that_was_released_is_not_kept(tmp_path):
    """Its true values would leave beside another label of the same ledger; in a ledger of its own nothing is known."""
    labels, ledger = {"ill": ["no", "yes"] * 40, "cost": ["low", "high"] * 40}, tmp_path / "both.ledger"
    spaces = {"ill": dp.Classes(["no", "yes"]), "cost": dp.Classes(["low", "high"])}
    table = pd.DataFrame({"age": range(80), **labels})

    def released(name, ledger):
        return dp.Curator(labels[name], spaces[name], name=name, ledger=ledger).randomize(epsilon=1.0)

    assert dp.verify(released("ill", ledger).save(tmp_path / "one", table, keep=["age"])).holds
    second = released("cost", ledger)
    for part, rows, keep in ((second, table, ["age", "ill"]), (second[:40], table[:40], ["ill"])):
        with pytest.raises(InputError, match="'ill' was already released with noise, and keep= would publish its true"):
            part.save(tmp_path / "two", rows, keep=keep)
    assert dp.verify(second.save(tmp_path / "two", table, keep=["age"])).holds
    assert dp.verify(released("cost", tmp_path / "own").save(tmp_path / "three", table, keep=["age", "ill"])).holds


@pytest.mark.parametrize(
    ("column", "prefix"), [("ILL", None), ("ill ", None), ("ill", "disease"), ("Disease", "disease")]
)
@pytest.mark.parametrize("mixed", [False, True], ids=["release", "answer"])
def test_the_label_is_not_kept_by_any_name_of_its_own(column, prefix, mixed, tmp_path):
    """Its true values would leave beside released ones: in another spelling, and whatever the columns are called."""
    labels = pd.Series(["no", "yes"] * 40, name="ill")
    curator, table = dp.Curator(labels, dp.Classes(["no", "yes"])), pd.DataFrame({"x": range(80), column: labels})
    shuffled = dp.ShuffledLabels(curator.space, dp.CellShuffle(1.0), np.zeros(80, dtype=int), 1e-4)
    released = curator.answer(shuffled) if mixed else curator.randomize(epsilon=1.0)
    with pytest.raises(
        InputError, match=r"is the label( in another spelling, '\w+')?, which is released with noise alo"
    ):
        released.save(tmp_path / "out", table, keep=["x", column], label=prefix)
    assert dp.verify(released.save(tmp_path / "out", table, keep=["x"], label=prefix)).holds


def test_answers_with_a_row_for_each_label_pass_the_gate(tmp_path):
    """What leaves beside mixed labels is no label that was released before, and no column that may be the label."""
    labels, space = pd.Series(["no", "yes"] * 40, name="ill"), dp.Classes(["no", "yes"])
    ledger, table = dp.Ledger(), pd.DataFrame({"x": range(80), "copy": labels, "smoker": ["yes", "no"] * 40})
    dp.Curator(table["smoker"], space, ledger=ledger).randomize(epsilon=1.0)
    query = dp.ShuffledLabels(space, dp.CellShuffle(1.0), np.zeros(80, dtype=int), 1e-4)
    answer = dp.Curator(labels, space, ledger=ledger, budget=(3.0, 1e-3)).answer(query)
    with pytest.raises(InputError, match="'smoker' was already released with noise, and keep= would publish its true"):
        answer.save(tmp_path / "out", table, keep=["x", "smoker"])
    with pytest.raises(InputError, match="may be the true label, found 'copy', whose values are the declared classes;"):
        answer.save(tmp_path / "out", table[["x", "copy"]], keep="all")
    with pytest.raises(
        RowsError, match="expected a table with the index of the labels, found the same rows in another"
    ):
        answer.save(tmp_path / "out", table[::-1], keep=["x"])
    assert dp.verify(answer.save(tmp_path / "out", table[["x"]], keep="all")).holds
    assert answer.__reduce__()[1] == (answer.value, answer.certificate)  # no pickle holds what is known in memory


def test_the_label_is_no_feature_in_another_spelling():
    """A feature that is the label would leave in the rows whose features are their own."""
    labels = pd.Series(["no", "yes"] * 40, name="ill")
    space, rows = dp.Classes(["no", "yes"]), pd.DataFrame({"ILL": labels})
    source = dp.Source("public", "a published table")
    generator = dp.Generator(space, dp.Form.of(rows), source, lambda codes: rows.iloc[: len(codes)])
    with pytest.raises(InputError, match="expected feature names that the release does not use, found 'ILL'"):
        dp.Curator(labels, space).randomize_rows(dp.DoubleResponse(space, 1.0, generator), rows)


def test_the_label_is_no_unit():
    """Sizes of units leave, so the label's own column is refused by its name, in any spelling."""
    labels = pd.Series(["no", "yes", "yes"] * 40, name="ill")
    with pytest.raises(InputError, match="expected units, which are public, found a series with the name of the label"):
        dp.Curator(labels, dp.Classes(["no", "yes"]), units=labels.rename("ILL"))


def test_a_column_that_repeats_like_a_person_is_warned_of(tmp_path):
    """Epsilon covers one row, whether the column is kept or not; with units, nothing is said."""
    table = pd.DataFrame({"patient_id": [f"p{row // 3}" for row in range(90)], "age": range(90)})
    labels, space = ["no", "yes"] * 45, dp.Classes(["no", "yes"])
    with pytest.warns(UnitWarning, match="'patient_id' has .* a person, the epsilons"):
        dp.Curator(labels, space).randomize(epsilon=1.0).save(tmp_path / "one", table, keep=["age"])
    people = dp.Curator(labels, space, units=table["patient_id"]).randomize(epsilon=1.0)
    people.save(tmp_path / "two", table, keep=["age"])
    dp.Curator(labels, space).randomize(epsilon=1.0).save(tmp_path / "three", table[["age"]], keep=["age"])


def check_kept_label_is_found(release, values, folder):
    """All columns are refused if one is the true label, and kept if none is."""
    with pytest.raises(InputError, match="seen"):
        release.save(folder / "one", {"seen": values}, keep="all")
    release.save(folder / "two", {"seen": [(value + 2) % 4 for value in values]}, keep="all")


def test_a_kept_label_is_found_beside_groups(tmp_path):
    """All columns are refused if one is the true label, and kept if none is, though groups have no unbiased vectors."""
    space, values = dp.Classes(range(4)), [row % 4 for row in range(4000)]
    grouped = dp.Curator(values, space).randomize(dp.GroupResponse(space, 4.0, groups=[[0, 1], [2, 3]]))
    check_kept_label_is_found(grouped, values, tmp_path)


def test_a_kept_label_is_found_without_unbiased_vectors(tmp_path, monkeypatch):
    """A channel of another distribution may have none; the label is found by how often it is released."""

    def unbiased(*_):
        raise InputError("expected a channel with unbiased vectors, found one without")

    monkeypatch.setattr(ResponseChannel, "identifies", False)
    monkeypatch.setattr(ResponseChannel, "unbiased", unbiased)
    space, values = dp.Classes(range(4)), [row % 4 for row in range(4000)]
    released = dp.Curator(values, space).randomize(dp.RandomizedResponse(space, 2.0))
    check_kept_label_is_found(released, values, tmp_path)
