"""The page on other libraries' tools: each line of its table does what it says, and so does what is named instead."""

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn.calibration
import sklearn.ensemble
import sklearn.experimental.enable_halving_search_cv
import sklearn.feature_selection
import sklearn.inspection
import sklearn.linear_model
import sklearn.metrics
import sklearn.model_selection
import sklearn.multiclass
import sklearn.neighbors
import sklearn.pipeline
import sklearn.preprocessing
import sklearn.semi_supervised

import labeldp.learning.metrics
import labeldp.learning.sklearn
from labeldp import Classes, Curator
from labeldp.errors import InputError, NotTrueLabelsError
from labeldp.learning.sklearn import CalibratedClassifier, ReleasedLabelClassifier, SoftmaxRegression

PAGE = Path(__file__).parents[1] / "docs/guide/tools.md"
SPACE = Classes(["no", "yes"])
_REFUSALS = (
    r"this tool needs true labels|Unknown label type|mix of unknown|unexpected keyword argument 'class_weight'"
    r"|use NeighborsClassifier"
)
_CODE = re.compile(r"`([^`]*)`")
pytestmark = pytest.mark.usefixtures("as_users_call")


def lines():
    """The lines of the table of tools: code, what is said of it, and the code of what to use instead."""
    section = PAGE.read_text(encoding="utf-8").partition("## scikit-learn\n")[2].partition("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("| `")
    ]
    assert len(cells) > 20
    return [(_CODE.fullmatch(code)[1], said, _CODE.findall(instead)) for code, said, instead in cells]


def places():
    """Names of scikit-learn and of this library, and rows of which the first feature tells the label."""
    chance = np.random.default_rng(0)
    codes = chance.integers(0, 2, 150)
    names = {}
    for module in (
        *(sklearn.calibration, sklearn.ensemble, sklearn.feature_selection, sklearn.inspection, sklearn.linear_model),
        *(
            sklearn.metrics,
            sklearn.model_selection,
            sklearn.multiclass,
            sklearn.neighbors,
            sklearn.pipeline,
            sklearn.preprocessing,
            sklearn.semi_supervised,
        ),
        *(labeldp.learning.metrics, labeldp.learning.sklearn),
    ):
        names |= {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    names["np"] = np
    names["X"] = np.column_stack([codes + chance.normal(0, 0.3, 150), chance.normal(size=150)])
    names["site"] = chance.integers(0, 3, 150)
    names["release"] = Curator(np.array(SPACE.points)[codes], SPACE).randomize(epsilon=3.0)
    names["model"] = SoftmaxRegression(l2=0.01)
    return names


@pytest.mark.parametrize(("code", "said", "instead"), lines())
def test_a_line_of_the_page_is_true(code, said, instead):
    """What works works; what refuses raises, and never a fit of released labels as true ones; the way out works."""
    names = places()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if said.startswith("works"):
            assert eval(code, names) is not None  # noqa: S307 (the project's own page)
            assert not instead
            return
        assert said == "refuses"
        with pytest.raises((NotTrueLabelsError, TypeError, ValueError), match=_REFUSALS):
            eval(code, names)  # noqa: S307
        (way_out,) = instead
        assert eval(way_out, names) is not None  # noqa: S307


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("accuracy_score(release, model.fit(X, release).predict(X))", "scoring=accuracy_scorer"),
        ("CalibrationDisplay.from_estimator(model.fit(X, release), X, release)", "metrics.calibration"),
        ("TunedThresholdClassifierCV(model).fit(X, release)", "choose by costs"),
        ("cross_val_predict(model, X, release, cv=3, method='predict_proba')", "in a loop over folds"),
        ("model.fit(X, release).score(X, site)", "accuracy_score"),
        ("model.fit(X, release).predict(X + np.array([0, np.inf]))", "infinity in the column 1"),
        ("model.fit(X, release).predict(X[:0])", "minimum of 1 is required"),
    ],
)
def test_a_refusal_says_what_to_use_instead(call, message):
    """Scores, displays, thresholds and held-out probabilities of scikit-learn have a way out in their messages."""
    with pytest.raises((NotTrueLabelsError, ValueError), match=message):
        eval(call, places())  # noqa: S307


MISSING, OTHERS = "found missing values in the column 'b'", "found values that are no real numbers in the column 'b'"
#: Columns that no learner of numbers takes, and what is said of them.
COLUMNS = {
    "whole numbers and none": (pd.array([1, None] * 75, dtype="Int64"), MISSING),
    "truth and none": (pd.array([True, None] * 75, dtype="boolean"), MISSING),
    "objects and none": (np.array([1.0, None] * 75, dtype=object), MISSING),
    "floats and none": ([0.5, np.nan] * 75, MISSING),
    "nothing": ([None] * 150, MISSING),
    "texts": (["u", "v"] * 75, OTHERS),
    "texts and none": (pd.array(["u", None] * 75, dtype="string"), OTHERS),
    "categories": (pd.Categorical(["u", "v"] * 75), OTHERS),
    "dates": (pd.date_range("2026-01-01", periods=150), OTHERS),
    "dates of a zone": (pd.date_range("2026-01-01", periods=150, tz="UTC"), OTHERS),
    "complex numbers": (np.ones(150) * 1j, OTHERS),
    "infinity": ([0.5, -np.inf] * 75, "found infinity in the column 'b'"),
}


@pytest.mark.parametrize("case", COLUMNS)
@pytest.mark.parametrize("learner", ["model", "ReleasedLabelClassifier(LogisticRegression())"])
def test_a_column_that_is_not_learned_from_is_named(learner, case):
    """It is refused for what it has, in a frame or an Arrow table, at a fit and at a prediction."""
    names, (values, message) = places(), COLUMNS[case]
    model, release = eval(learner, names), names["release"]  # noqa: S307
    frame = pd.DataFrame({"a": names["X"][:, 0], "b": names["X"][:, 1]})
    odd = frame.assign(b=values)
    with pytest.raises(InputError, match=message):
        model.fit(odd, release)
    model.fit(frame, release)
    with pytest.raises(InputError, match=message):
        model.predict(odd)
    if case in ("texts", "floats and none"):
        with pytest.raises(InputError, match=message):
            model.predict(pa.Table.from_pandas(odd))
    with pytest.raises(InputError, match="at least one column of features, found none"):
        model.fit(frame[[]], release)


def test_a_column_of_numbers_in_any_container_is_learned_from():
    """Whole numbers that may be missing and are not, and texts and categories of numbers, are numbers."""
    names = places()
    for values in (pd.array([1, 2] * 75, dtype="Int64"), pd.Categorical([1, 2] * 75), ["1", "2"] * 75):
        frame = pd.DataFrame({"a": names["X"][:, 0], "b": values})
        assert names["model"].fit(frame, names["release"]).predict(frame).shape == (150,)


def test_a_search_by_true_labels_says_which_scorer_to_pass():
    """scikit-learn goes on without scores, and its warning holds the way out."""
    names = places()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        eval('GridSearchCV(model, {"l2": [1000, 0.01]}, cv=3, scoring="accuracy").fit(X, release)', names)  # noqa: S307
    assert any("scoring=accuracy_scorer" in str(each.message) for each in told)


def test_one_row_is_predicted_as_among_many():
    """A single row gets the probabilities that it has among others."""
    names = places()
    model = names["model"].fit(names["X"], names["release"])
    np.testing.assert_allclose(model.predict_proba(names["X"][:1]), model.predict_proba(names["X"])[:1])


def test_an_encoder_of_unbiased_columns_estimates_shares():
    """A category's number is near its true share, though half of the labels were changed."""
    chance = np.random.default_rng(1)
    site = np.repeat([0, 1], 20_000)
    codes = (chance.random(40_000) < np.array([0.1, 0.6])[site]).astype(int)
    release = Curator(np.array(SPACE.points)[codes], SPACE).randomize(epsilon=1.0)
    encoder = sklearn.preprocessing.TargetEncoder(target_type="continuous")
    encoder.fit(site[:, None], release.unbiased()[:, 1])
    error = np.sqrt(release.unbiased()[:, 1].var() / 20_000)
    np.testing.assert_allclose(encoder.encodings_[0], [0.1, 0.6], atol=5 * error)


@pytest.mark.parametrize("learner", [ReleasedLabelClassifier, CalibratedClassifier, SoftmaxRegression])
def test_arrow_tables_and_polars_frames_are_features(learner):
    """They give what the frame of their values gives."""
    pa, names = pytest.importorskip("pyarrow"), places()
    frame = pd.DataFrame(names["X"], columns=["a", "b"])
    wanted = learner().fit(frame, names["release"]).predict_proba(frame)
    table = pa.Table.from_pandas(frame)
    np.testing.assert_allclose(learner().fit(table, names["release"]).predict_proba(table), wanted)


@pytest.mark.parametrize("learner", [ReleasedLabelClassifier, CalibratedClassifier, SoftmaxRegression])
def test_polars_frames_are_features(learner):
    """They give what the array of their values gives, and series of them are labels."""
    polars, names = pytest.importorskip("polars"), places()
    frame = polars.DataFrame(names["X"], schema=["a", "b"])
    wanted = learner().fit(names["X"], names["release"]).predict_proba(names["X"])
    np.testing.assert_allclose(learner().fit(frame, names["release"]).predict_proba(frame), wanted)
    assert len(Curator(polars.Series(["no", "yes"]), SPACE).randomize(epsilon=1.0)) == 2
    assert polars.from_arrow(names["release"].to_arrow()).len() == 150


def test_a_folder_is_a_data_set_of_hugging_face(tmp_path):
    """Its Parquet file is read as it is, and a column of a data set is labels."""
    datasets, names = pytest.importorskip("datasets"), places()
    frame = pd.DataFrame(names["X"], columns=["a", "b"])
    names["release"].save(tmp_path / "shared", frame, keep="all")
    found = datasets.Dataset.from_parquet(str(tmp_path / "shared" / "data.parquet"), cache_dir=str(tmp_path / "cache"))
    assert found.column_names == ["a", "b", "label_released"]
    assert list(found["label_released"]) == names["release"].to_arrow().to_pylist()
    assert len(Curator(found["label_released"], SPACE).randomize(epsilon=1.0)) == 150
