"""Rows are matched by the index of labels and features, where both have one; by position otherwise."""

import contextlib
import io
import pickle
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import labeldp as dp
from labeldp.audit import loss_profile
from labeldp.errors import RowsError
from labeldp.learning.cells import cluster, cluster_tree
from labeldp.learning.convex import Ball, ConvexClassifier, fit_interactively
from labeldp.learning.generators import fit_copula
from labeldp.learning.metrics import accuracy_scorer, log_likelihood_scorer, squared_scorer
from labeldp.learning.sklearn import (
    CellRegressor,
    NeighborsClassifier,
    NeighborsRegressor,
    ReleasedLabelClassifier,
    ReleasedLabelRegressor,
    ResampledClassifier,
    SoftmaxRegression,
    TreeClassifier,
)
from labeldp.learning.stages import ClusterPrior, ConsensusRetraining, FixedPrior, ModelPrior, MultiStage
from labeldp.learning.torch import TorchClassifier
from labeldp.mechanisms.queries import ExchangedLabels
from labeldp.release.released._row_identity import identity_of

ROWS = 60
SPACE = dp.Classes(["no", "yes"])
NUMBERS = dp.Interval(0, 1, 0.5)
ORDER, OTHERS = "the same rows in another order", "other rows"
#: What pandas gives, and what tables have: whole numbers, texts, times, floats, numbers with gaps.
INDEXES = {
    "default": pd.RangeIndex(ROWS),
    "from one": pd.RangeIndex(1, ROWS + 1),
    "permuted": pd.Index(np.random.default_rng(1).permutation(ROWS)),
    "part": pd.Index(np.random.default_rng(2).choice(10 * ROWS, ROWS, replace=False)),
    "texts": pd.Index([f"p{row}" for row in range(ROWS)]),
    "categories": pd.CategoricalIndex([f"p{row}" for row in range(ROWS)]),
    "times": pd.date_range("2026-01-01", periods=ROWS),
    "floats": pd.Index(np.arange(ROWS) * 0.5 + 0.25),
}
#: Other whole numbers than 0 .. n - 1, which may be those of other rows.
NUMBERED = ("from one", "part")
SHUFFLE = np.random.default_rng(0).permutation(ROWS)


def learned(features, release):
    """True if a learner takes the features for those of the rows."""
    try:
        SoftmaxRegression(l2=1.0).fit(features, release)
    except RowsError:
        return False
    return True


def warned(there=True):
    """A context in which there is a warning of rows that are paired by position, or none."""
    return pytest.warns(UserWarning, match="paired by position") if there else contextlib.nullcontext()


@pytest.fixture(params=INDEXES)
def frame(request):
    """A table of one feature and two labels, with an index of each kind."""
    return table(INDEXES[request.param])


def table(index=None):
    """A table of one feature and two labels."""
    values = np.arange(ROWS)
    columns = {"age": values / ROWS, "sick": np.array(["no", "yes"])[values % 2], "dose": values % 2 / 1.0}
    return pd.DataFrame(columns, index=index)


def released(frame):
    """A release of the labels of a table."""
    return dp.Curator(frame["sick"], SPACE).randomize(dp.RandomizedResponse(SPACE, 1.0))


def test_a_table_in_another_order_is_not_saved(frame, tmp_path):
    """A frame or Arrow table whose index is the labels' in another order is refused, and nothing is written."""
    release, shuffled = released(frame), frame.iloc[SHUFFLE]
    for given in (shuffled, pa.Table.from_pandas(shuffled)):
        with pytest.raises(RowsError, match=ORDER):
            release.save(tmp_path / "shared", given, keep=["age"])
        assert not (tmp_path / "shared").exists()
    plain = pa.table({"age": frame["age"].to_numpy()})
    for number, given in enumerate((frame, pa.Table.from_pandas(frame), plain)):
        assert dp.verify(release.save(tmp_path / str(number), given, keep=["age"])).holds


def test_features_in_another_order_are_not_learned_from(frame):
    """Learning, scoring and cross-validation on a shuffled frame are refused, and on the frame itself they are not."""
    release, features, model = released(frame), frame[["age"]], SoftmaxRegression(l2=1.0)
    model.fit(features, release).score(features, release)
    for act in (model.fit, model.score):
        with pytest.raises(RowsError, match=ORDER):
            act(features.iloc[SHUFFLE], release)
    with pytest.raises(RowsError, match=f"{ORDER}|{OTHERS}"):
        cross_val_score(model, features.iloc[SHUFFLE], release, error_score="raise")
    cross_val_score(model, features, release, error_score="raise")


def test_parts_of_a_split_stay_matched(frame):
    """Parts of rows keep their index through slices and splits; other parts are refused."""
    features, other, release, rest = train_test_split(frame[["age"]], released(frame), test_size=0.5, random_state=0)
    for copy in (release, release[::-1][::-1]):
        SoftmaxRegression(l2=1.0).fit(features, copy)
        with pytest.raises(RowsError, match=OTHERS):
            SoftmaxRegression(l2=1.0).fit(other, copy)
        with pytest.raises(RowsError, match=ORDER):
            SoftmaxRegression(l2=1.0).fit(features[::-1], copy)
    SoftmaxRegression(l2=1.0).fit(other, rest)


@pytest.mark.parametrize("name", INDEXES)
def test_rows_without_an_index_go_by_position(name):
    """Arrays, lists, plain Arrow tables, an index that repeats, and the labels of a file have no index to compare."""
    frame = table(INDEXES[name])
    release, shuffled = released(frame), frame[["age"]].iloc[SHUFFLE]
    repeating = shuffled.set_axis([0] * ROWS)
    for given in (
        shuffled.to_numpy(),
        shuffled.to_numpy().tolist(),
        pa.table({"age": shuffled["age"].to_numpy()}),
        repeating,
    ):
        assert learned(given, release)
    for labels in (frame["sick"].tolist(), frame["sick"].to_numpy(), frame["sick"].set_axis([0] * ROWS)):
        assert learned(shuffled, dp.Curator(labels, SPACE).randomize(dp.RandomizedResponse(SPACE, 1.0)))


def test_a_pickle_holds_no_index():
    """What is stored or sent elsewhere is known by position: an index may be private."""
    release = released(table(INDEXES["texts"]))
    stored = io.BytesIO()
    joblib.dump(release, stored)
    copies = (pickle.loads(pickle.dumps(release)), joblib.load(stored))  # noqa: S301
    assert release.identity is not None
    assert [copy.identity for copy in copies] == [None, None]


def test_a_level_of_an_index_may_be_the_label():
    """A release keeps no digests of an index of several levels, as tables that are joined by class have."""
    frame = table().set_axis(pd.MultiIndex.from_product([["no", "yes"], range(ROWS // 2)]))
    assert released(frame).identity is None
    assert identity_of(pa.Table.from_pandas(frame)) is None


def test_a_folder_holds_no_index(tmp_path):
    """What is loaded from a folder has its places as an index: the labels' own is not written, not even its digests."""
    release = released(table(INDEXES["texts"]))
    loaded = dp.Release.load(release.save(tmp_path / "shared"))
    assert release.identity is not None
    assert loaded.identity.kind == "numbers"
    assert not set(loaded.identity.digests.tolist()) & set(release.identity.digests.tolist())
    assert pq.read_schema(tmp_path / "shared/data.parquet").names == ["sick_released"]


@pytest.mark.parametrize("name", [each for each in INDEXES if each not in ("default", "permuted")])
def test_an_index_that_was_reset_says_nothing(name):
    """0 .. n - 1 on one side, as of a transformer's output, refuses no other index, and warns of whole numbers."""
    frame = table(INDEXES[name])
    fresh = pd.DataFrame(StandardScaler().fit_transform(frame[["age"]]), columns=["age"])
    numbered = released(frame.reset_index(drop=True))
    with warned(name in NUMBERED):
        assert learned(fresh, released(frame))
    with warned(name in NUMBERED):
        assert learned(frame[["age"]], numbered)
    train = np.sort(SHUFFLE[:40])
    with warned():
        assert learned(frame[["age"]].iloc[train].reset_index(drop=True), numbered[train])
    transformer = ColumnTransformer([("age", StandardScaler(), ["age"])])
    assert learned(transformer.fit_transform(frame[["age"]].iloc[train]), released(frame)[train])


@pytest.mark.parametrize("rows", [(slice(1, None), slice(-1)), (slice(-1), slice(1, None)), (SHUFFLE[:30], slice(30))])
def test_labels_and_features_of_other_rows_are_warned_of(rows, tmp_path):
    """Rows that are off by one, or a sample beside the first ones, look like an index that was reset on one side."""
    labels, features = (table().iloc[each] for each in rows)
    release = released(labels)
    with warned() as caught:
        SoftmaxRegression(l2=1.0).fit(features[["age"]], release)
    with warned() as saved:
        release.save(tmp_path / "shared", features, keep=["age"])
    assert not any(Path(dp.__file__).parent in Path(each.filename).parents for each in (*caught, *saved))
    assert learned(features[["age"]].reset_index(drop=True), released(labels.reset_index(drop=True)))


def test_parts_of_numbered_rows_are_compared_with_numbers_alone():
    """Parts of 0 .. n - 1 match their own numbers, refuse others below n, warn above, and say nothing about names."""
    release, frame = released(table()), table()[["age"]]
    part = release[10:30]
    assert learned(frame[10:30], part)
    assert learned(frame.set_axis(INDEXES["texts"])[10:30], part)
    with warned():
        assert learned(frame.set_axis(np.arange(ROWS) + 1000)[10:30], part)
    with pytest.raises(RowsError, match=OTHERS):
        SoftmaxRegression(l2=1.0).fit(frame[11:31], part)


def test_equal_values_of_other_types_are_equal():
    """The type in which an index is stored does not matter."""
    whole = INDEXES["part"]
    pairs = (
        *((whole, whole.astype(kind)) for kind in ("int32", "uint16", "float64", "Int64")),
        (INDEXES["texts"], INDEXES["categories"]),
        (INDEXES["texts"], INDEXES["texts"].astype(object)),
        (INDEXES["times"], INDEXES["times"].as_unit("s")),
    )
    for one, other in pairs:
        assert learned(table(other)[["age"]], released(table(one)))


def test_masks_have_the_index_of_the_labels(frame):
    """A mask whose rows are in another order is refused, of a release and of a curator; in order it selects."""
    release, mask = released(frame), frame["age"] > 0.5
    curator = dp.Curator(frame["sick"], SPACE)
    assert len(release[mask]) == len(curator.randomize(dp.RandomizedResponse(SPACE, 1.0), mask)) == mask.sum()
    with pytest.raises(RowsError, match=ORDER):
        release[mask.iloc[SHUFFLE]]
    with pytest.raises(RowsError, match=ORDER):
        curator.randomize(dp.RandomizedResponse(SPACE, 1.0), mask.iloc[SHUFFLE])


def test_numbers_in_pandas_may_be_names():
    """Whole numbers in a series or an index select rows only where names and places are the same."""
    assert len(released(table())[pd.Series([3, 1])]) == len(released(table())[pd.Index([3, 1])]) == 2
    named = released(table(INDEXES["permuted"]))
    assert len(named[np.array([3, 1])]) == 2
    for rows in (pd.Series([3, 1]), pd.Index([3, 1])):
        with pytest.raises(RowsError, match="may be in the index"):
            named[rows]


def test_identities_stand_for_a_missing_index():
    """Declared identities are compared with an index of the same values, and with no other."""
    names, plain = INDEXES["texts"], table()
    curator = dp.Curator(plain["sick"].to_numpy(), SPACE, identity=names)
    release = curator.randomize(dp.RandomizedResponse(SPACE, 1.0))
    features = plain[["age"]].set_axis(names)
    SoftmaxRegression(l2=1.0).fit(features, release)
    SoftmaxRegression(l2=1.0).fit(plain[["age"]][10:30], release[10:30])
    with pytest.raises(RowsError, match=ORDER):
        SoftmaxRegression(l2=1.0).fit(features.iloc[SHUFFLE], release)


@pytest.mark.parametrize("what", ["units", "identity"])
def test_what_is_said_of_rows_has_their_index(what):
    """Units and identities in another order than the labels are refused."""
    frame = table(INDEXES["texts"]).assign(visit=np.arange(ROWS))
    dp.Curator(frame["sick"], SPACE, **{what: frame["visit"]})
    with pytest.raises(RowsError, match=ORDER):
        dp.Curator(frame["sick"], SPACE, **{what: frame["visit"].iloc[SHUFFLE]})


def numeric(frame):
    """A release of the numeric labels of a table."""
    return dp.Curator(frame["dose"], NUMBERS).randomize(dp.RandomizedResponse(NUMBERS, 1.0))


def double():
    """A mechanism of rows whose one feature is an age."""
    public = pd.DataFrame({"age": np.linspace(0.0, 1.0, 200)})
    draw = dp.Generator(
        SPACE, dp.Form.of(public), dp.Source("public", "made up"), lambda codes: public.sample(len(codes))
    )
    return dp.DoubleResponse(SPACE, 1.0, draw)


def fitted():
    """A classifier and a regressor that were fitted on arrays."""
    values = table()[["age"]].to_numpy()
    return (
        SoftmaxRegression(l2=1.0).fit(values, released(table())),
        ReleasedLabelRegressor(Ridge()).fit(values, numeric(table())),
    )


def resampled():
    """A classifier of rows some of whose features were resampled."""
    return ResampledClassifier(SoftmaxRegression(l2=1.0), method="first")


def prior_of(features):
    """A prior of rows, with their index."""
    return pd.DataFrame({"no": features["age"], "yes": 1 - features["age"]})


def cells_of(features):
    """The number of each row's cell, with their index."""
    return (features["age"] > 0.5).astype(int)


def named_model():
    """A classifier that was fitted on a frame."""
    return SoftmaxRegression(l2=1.0).fit(table()[["age"]], released(table()))


#: Mechanisms with public parameters for each row, as functions of features.
MECHANISMS = {
    "moments": lambda x: dp.LabelMoments(SPACE, 1.0, 1e-6, x),
    "moments of an Arrow table": lambda x: dp.LabelMoments(
        SPACE, 1.0, 1e-6, pa.Table.from_pandas(x, preserve_index=True)
    ),
    "number moments": lambda x: dp.NumberMoments(NUMBERS, 1.0, 1e-6, x),
    "cells": lambda x: dp.NoisyHistogram(SPACE, 1.0, cells_of(x)),
    "peers": lambda x: ExchangedLabels(SPACE, dp.PeerExchange(flip=0.1), cells_of(x), delta=1e-6),
    "shuffle": lambda x: dp.ShuffledLabels(SPACE, dp.CellShuffle(1.0), cells_of(x), delta=1e-6),
    "prior response": lambda x: dp.PriorResponse(SPACE, 1.0, prior_of(x)),
    "response at another epsilon": lambda x: dp.PriorResponse(SPACE, 1.0, prior_of(x)).at(0.5),
    "group response": lambda x: dp.GroupResponse(SPACE, 1.0, prior_of(x)),
    "class probabilities": lambda x: dp.PriorResponse(SPACE, 1.0, dp.ClassProbabilities(prior_of(x), SPACE.points)),
    "predictions": lambda x: dp.PriorResponse(SPACE, 1.0, dp.ClassProbabilities.of(named_model(), x)),
    "cluster response": lambda x: dp.ClusterResponse(SPACE, 1.0, [[0.5, 0.5]] * 2, cells_of(x)),
}


def requested(mechanism, frame, rows=None):
    """The curator after a request, and the error of a refusal."""
    curator = dp.Curator(frame["dose" if mechanism.space == NUMBERS else "sick"], mechanism.space, budget=(9.0, 1e-3))
    try:
        curator.randomize(mechanism, rows) if hasattr(mechanism, "channel") else curator.answer(mechanism, rows)
    except RowsError as error:
        return curator, str(error)
    return curator, ""


@pytest.mark.parametrize("name", MECHANISMS)
def test_parameters_of_rows_in_another_order_cost_nothing(name):
    """What a mechanism was given for each row is compared by its index, before anything is charged or drawn."""
    frame = table(INDEXES["part"] if "Arrow" in name else INDEXES["texts"])
    features = frame[["age"]]
    curator, error = requested(MECHANISMS[name](features.iloc[SHUFFLE]), frame)
    assert ORDER in error
    assert (curator.spent, curator.charges) == ((0.0, 0.0), ())
    for given in (features, features.reset_index(drop=True)):
        with warned("Arrow" in name and given is not features):
            curator, error = requested(MECHANISMS[name](given), frame)
        assert not error
        assert curator.spent[0] > 0


def test_parameters_of_some_rows_have_their_index():
    """A prior for some rows is compared with the index of those."""
    frame = table(INDEXES["texts"])
    some = np.arange(10, 40)
    prior = prior_of(frame.iloc[some])
    assert not requested(dp.PriorResponse(SPACE, 1.0, prior), frame, some)[1]
    assert ORDER in requested(dp.PriorResponse(SPACE, 1.0, prior), frame, some[::-1])[1]
    assert OTHERS in requested(dp.PriorResponse(SPACE, 1.0, prior), frame, some + 1)[1]


AGES = table()[["age"]].to_numpy()
LEARNERS = (
    SoftmaxRegression(l2=1.0),
    ReleasedLabelClassifier(LogisticRegression()),
    make_pipeline(StandardScaler().set_output(transform="pandas"), SoftmaxRegression(l2=1.0)),
    NeighborsClassifier(3),
    ConsensusRetraining(SoftmaxRegression(l2=1.0)),
    ConvexClassifier(region=Ball(1.0)),
    TorchClassifier(lambda classes: nn.Linear(1, classes), epochs=1),
)
NUMERIC = (ReleasedLabelRegressor(Ridge()), NeighborsRegressor(3), CellRegressor(cluster(AGES, 3)))
#: Everything that takes features beside labels, as a function of features and a table of labels.
DOORS = {
    **{type(each).__name__: lambda x, f, each=each: each.fit(x, released(f)) for each in LEARNERS},
    **{type(each).__name__: lambda x, f, each=each: each.fit(x, numeric(f)) for each in NUMERIC},
    "resampled": lambda x, f: resampled().fit(x, released(f), replaced=0.5),
    "resampled score": lambda x, f: resampled().fit(AGES, released(f), replaced=0.5).score(x, released(f)),
    "partial_fit": lambda x, f: ConvexClassifier(region=Ball(1.0)).partial_fit(x, released(f)),
    "torch rows": lambda x, f: released(f).targets((np.zeros((ROWS, 1)), x)),
    "trees": lambda x, f: TreeClassifier([cluster_tree(AGES, leaves=4)]).fit((x["age"] > 0.5).astype(int), released(f)),
    "score": lambda x, f: fitted()[0].score(x, released(f)),
    "numeric score": lambda x, f: fitted()[1].score(x, numeric(f)),
    "accuracy_scorer": lambda x, f: accuracy_scorer(fitted()[0], x, released(f)),
    "log_likelihood_scorer": lambda x, f: log_likelihood_scorer(fitted()[0], x, released(f)),
    "squared_scorer": lambda x, f: squared_scorer(fitted()[1], x, numeric(f)),
    "loss_profile": lambda x, f: loss_profile(x, dp.Release.public(f["sick"], SPACE), flips=[0.2]),
    "fit_copula": lambda x, f: fit_copula(x, dp.Release.public(f["sick"], SPACE), "made up"),
    "stages": lambda x, f: MultiStage(SoftmaxRegression(l2=1.0)).fit(x, dp.Curator(f["sick"], SPACE)),
    "prior": lambda x, f: ModelPrior(fitted()[0]).ask(dp.Curator(f["sick"], SPACE), x),
    "fixed prior": lambda x, f: FixedPrior(prior_of(x)).ask(dp.Curator(f["sick"], SPACE)),
    "cluster prior": lambda x, f: ClusterPrior(cells_of(x)).ask(dp.Curator(f["sick"], SPACE), epsilon=1.0),
    "clusters": lambda x, f: dp.cluster_response(dp.Curator(f["sick"], SPACE), cells_of(x), epsilon=1.0),
    "moments": lambda x, f: dp.Curator(f["sick"], SPACE).answer(dp.LabelMoments(SPACE, 1.0, 1e-6, x)),
    "prior response": lambda x, f: dp.Curator(f["sick"], SPACE).randomize(dp.PriorResponse(SPACE, 1.0, prior_of(x))),
    "interactive": lambda x, f: fit_interactively(
        ConvexClassifier(region=Ball(1.0)), x, dp.Curator(f["sick"], SPACE), epsilon=2.0
    ),
    "rows": lambda x, f: dp.Curator(f["sick"], SPACE).randomize_rows(double(), x),
}


@pytest.mark.parametrize("door", DOORS)
def test_no_door_takes_other_rows(door):
    """Whatever takes features beside labels refuses rows in another order by their index."""
    frame = table(INDEXES["texts"])
    with pytest.raises(RowsError, match=ORDER):
        DOORS[door](frame[["age"]].iloc[SHUFFLE], frame)
