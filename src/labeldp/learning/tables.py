"""From the folder of a release to a model of its label: choose columns, fit, judge, keep and use.

Needs ``pip install 'labeldp[learn]'``.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float

from labeldp.errors import InputError, LabelError, MissingExtraError, VerificationError
from labeldp.learning._model_files import check_model_path, is_network, written
from labeldp.learning._scores import Scores, scores
from labeldp.learning._selection import gain
from labeldp.mechanisms import ExchangedLabels
from labeldp.privacy import ClusterChannel, Interval, LabelSpace
from labeldp.release import Answer, Certificate, Release, clusters_in, is_answer, public_columns, public_table

try:
    import skops.io
    from sklearn.base import clone
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold, KFold
    from sklearn.pipeline import Pipeline
    from skops.io.exceptions import UntrustedTypesFoundException

    from labeldp.learning._frames import KINDS, columns_of, for_trees, frame_of, scaled
    from labeldp.learning._number_learners import noise_ratio
    from labeldp.learning._number_tables import (
        NUMBER_METHODS,
        NumberScores,
        check_number_model,
        is_behind_first,
        judged_numbers,
        number_estimators,
        number_scores,
        number_setting,
    )
    from labeldp.learning._released_numbers import decoded_numbers, tells_numbers
    from labeldp.learning._table_clusters import cluster_table
    from labeldp.learning.sklearn import ReleasedLabelClassifier, SoftLabelClassifier, SoftmaxRegression
except ModuleNotFoundError as missing:
    raise MissingExtraError(f"expected {missing.name}, found none; pip install 'labeldp[learn]'") from None

if TYPE_CHECKING:  # PyTorch is an extra of its own
    from labeldp.learning._torch_models import NetworkModel
    from labeldp.learning.images import Images

__all__ = [
    "METHODS",
    "NUMBER_METHODS",
    "Learned",
    "NumberScores",
    "Scores",
    "TableModel",
    "check_model_path",
    "cluster_table",
    "estimators_of",
    "evaluate",
    "learn",
    "open_model",
    "scores",
]

#: The methods of each model; the first is the default.
METHODS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"softmax": ("likelihood", "unbiased", "plain", "clusters"), "boosting": ("em", "plain", "clusters")}
)

#: How models learn from what peers exchanged, where there is nothing to choose.
_EXCHANGED = "exchanged"
#: How they learn from labels that lean towards their clusters, if nothing else is asked for.
_CLUSTERS = "clusters"

SCHEMA = "labeldp/model/1"

#: What a file of a model may hold besides what skops trusts by itself.
_TRUSTED = [
    "functools.partial",
    "labeldp.learning._answer_learners.SoftLabelClassifier",
    "labeldp.learning._neighbors.NeighborsRegressor",
    "labeldp.learning._number_learners.ReleasedLabelRegressor",
    "labeldp.learning.sklearn.ReleasedLabelClassifier",
    "labeldp.learning.sklearn.SoftmaxRegression",
    "numpy.dtype",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.utils.validation.check_array",
]

#: The model of classes that is learned if none is asked for, and what chooses one of numbers.
_OF_CLASSES, _AUTO = "softmax", "auto"

_FOLDS, _TENTH = 5, 10
_SHOWN_CLASSES = 12
_TREES = 50
_LEAVES = (8, 31)

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class TableModel:
    """A classifier of the rows of a table, or a regressor of its real label, and what it was learned from.

    Attributes:
        estimator: A fitted scikit-learn pipeline; its classes are the declared ones.
        columns: The columns that it takes, each with its kind: number, flag, date, time or category.
        model: ``"softmax"`` or ``"boosting"``; of real labels ``"ridge"``, ``"boosting"`` or ``"neighbours"``.
        method: How it was learned.
        certificate: That of the release it was learned from, whose guarantee covers the model.
    """

    estimator: Any
    columns: Mapping[str, str]
    model: str
    method: str
    certificate: Certificate

    @property
    def space(self) -> LabelSpace:
        """The declared label space."""
        return self.certificate.space

    @property
    def of_numbers(self) -> bool:
        """Whether it predicts numbers: labels of an interval, unless they were learned as classes by softmax."""
        return isinstance(self.space, Interval) and self.model != _OF_CLASSES

    @property
    def inputs(self) -> list[str]:
        """What it takes, in words."""
        return list(self.columns)

    def predict_proba(self, table: object) -> Float[np.ndarray, "n k"]:
        """Probabilities of the true classes, shape (n, k), for an Arrow table or a pandas or polars frame.

        Raises:
            InputError: A column is missing, or is not of its kind; or the model predicts numbers.
        """
        if self.of_numbers:
            raise InputError("expected a model of classes for probabilities, found one of numbers; use predict")
        return np.asarray(self.estimator.predict_proba(frame_of(pa.table(table), self.columns)))

    def predict(self, table: object) -> np.ndarray:
        """The most likely true class of each row of an Arrow table or a frame, or the mean of its real label."""
        if self.of_numbers:
            return np.asarray(self.estimator.predict(frame_of(pa.table(table), self.columns)))
        return np.asarray(np.asarray(self.space.points)[np.argmax(self.predict_proba(table), axis=1)])

    def save(self, path: str | Path) -> Path:
        """Write the model to a file that does not exist yet, with skops: opening it loads only the types it needs.

        Raises:
            OutputError: The file exists, or there is no folder to put it in.
        """
        about = {
            "schema": SCHEMA,
            "made_with": {name: version(name) for name in ("labeldp", "scikit-learn")},
            "model": self.model,
            "method": self.method,
            "columns": [{"name": name, "kind": kind} for name, kind in self.columns.items()],
            "certificate": json.loads(self.certificate.to_json()),
        }
        held = {"about": json.dumps(about), "estimator": self.estimator}
        return written(Path(path), lambda file: skops.io.dump(held, file))

    @classmethod
    def load(cls, path: str | Path) -> TableModel:
        """A model that was saved.

        Args:
            path: A file that ``save`` wrote. Only types that such a file needs are loaded, and only in the pipeline
                that ``learn`` makes, so opening it runs no foreign code. A forged tree can still crash the process:
                take models of boosting from people you trust.

        Raises:
            InputError: There is no such file, or it holds something else.
        """
        file = Path(path)
        if not file.is_file():
            raise InputError(f"expected a model, found no file {file}; make one with 'labeldp learn'")
        try:
            held = skops.io.load(file, trusted=_TRUSTED)
            about = json.loads(held["about"])
            if about["schema"] != SCHEMA:
                raise InputError(f"expected a model of schema {SCHEMA}, found {about['schema']!r}; learn it anew")
            _check_version(about["made_with"]["scikit-learn"])
            columns = {column["name"]: column["kind"] for column in about["columns"]}
            certificate = Certificate.from_json(json.dumps(about["certificate"]))
            found = cls(held["estimator"], MappingProxyType(columns), about["model"], about["method"], certificate)
            make = _numbers_of if found.of_numbers else estimators_of
            if _types(found.estimator) != _types(make(columns, found.model, found.method)[0]):
                raise KeyError("estimator")  # such a pipeline was never written here
            return found
        except UntrustedTypesFoundException:
            raise InputError(f"expected a model made by 'labeldp learn' in {file}, found other types in it") from None
        except (zipfile.BadZipFile, KeyError, TypeError, ValueError, AttributeError, RecursionError) as problem:
            if isinstance(problem, InputError):
                raise
            why = str(problem) if isinstance(problem, VerificationError) else "something else"
            raise InputError(f"expected a model made by 'labeldp learn' in {file}, found {why}") from None


@dataclass(frozen=True, eq=False)
class Learned:
    """What came of learning from a release.

    Attributes:
        model: The model, fitted on all rows.
        scores: How good such a model is on rows it was not fitted on, by cross-validation on released labels; None
            where labels are not those of their rows, but of peers'.
        left_out: Public columns that were not used, and why.
        setting: What was chosen on released labels.
        judged_by: What the scores are from.
    """

    model: TableModel | NetworkModel
    scores: Scores | NumberScores | None
    left_out: Mapping[str, str]
    setting: str
    judged_by: str = "five-fold cross-validation on released labels"


def learn(
    directory: str | Path,
    *,
    model: str | None = None,
    method: str | None = None,
    features: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Learned:
    """Learn to predict the label of a release from its public columns, and say how well that works.

    Args:
        directory: The folder of a release.
        model: Of classes ``"softmax"`` (multinomial logistic regression, the default) or ``"boosting"`` (histogram
            gradient boosting). Of real labels ``"ridge"`` (linear), ``"boosting"``, ``"neighbours"``, or ``"auto"``,
            the default: ridge, or boosting where held-out released labels clearly prefer it.
        method: See ``METHODS`` and ``NUMBER_METHODS``; by default the first of the model, or ``"clusters"`` where
            labels lean towards the class distributions of clusters, which at most epsilons say more than the labels.
            What peers exchanged is learned from in one way: soft labels of their clusters.
        features: The columns to predict from; by default all public ones that can be of use.
        progress: Called with the name of the work, the fits done, and the fits in all.

    Returns:
        The model fitted on all rows, and its cross-validated scores. What was tuned was tuned on released labels; no
        row was judged by a model that was fitted on it, nor, where the unit's column was kept, on its unit.

    Guarantee:
        Whatever is learned from a release is covered by the release's guarantee, at no further cost.

    Raises:
        VerificationError: The folder and its certificate do not agree.
        InputError: There is no such model, method or column.
    """
    report = progress or (lambda *_: None)
    if model is not None and model not in METHODS and model not in NUMBER_METHODS:
        known = ", ".join(dict.fromkeys([*METHODS, *NUMBER_METHODS]))
        raise InputError(f"expected a model among {known}, found {model!r}")
    table = public_columns(directory)
    if is_answer(directory):
        model, method = _checked(model or _OF_CLASSES, method)
        return _learned_from_peers(Path(directory), table, model, method, features)
    release = Release.load(directory)
    of_numbers = isinstance(release.space, Interval) and (model is not None or tells_numbers(release))
    if of_numbers and model != _OF_CLASSES:
        return _learned_numbers(release, table, model or _AUTO, method, features, report)
    model, method = _checked(model or _OF_CLASSES, method)
    leaning = isinstance(release.channel, ClusterChannel)
    method = method or (_CLUSTERS if leaning else METHODS[model][0])
    certificate = enough_rows(release)
    unit = unit_of(certificate)
    columns, left_out = columns_of(table, features, unit)
    frame = frame_of(table, columns)
    estimators = estimators_of(columns, model, method)
    parts = list(_parts(len(release), units_in(table, unit)))
    probabilities, best = _judged(estimators, frame, release, parts, report)
    fitted = estimators[best].fit(frame, release)
    return Learned(
        TableModel(fitted, MappingProxyType(columns), model, method, certificate),
        scores(release, probabilities),
        MappingProxyType(left_out),
        _setting(fitted, model, best),
    )


def _checked(model: str, method: str | None) -> tuple[str, str | None]:
    """A model of classes and a method that it has."""
    if model not in METHODS:
        raise InputError(f"expected a model of classes among {', '.join(METHODS)}, found {model!r}")
    if method is not None and method not in METHODS[model]:
        raise InputError(f"expected a method of {model} among {', '.join(METHODS[model])}, found {method!r}")
    return model, method


def _learned_numbers(
    release: Release,
    table: pa.Table,
    model: str,
    method: str | None,
    features: Sequence[str] | None,
    report: Progress,
) -> Learned:
    """A regressor of real labels, the one of several that held-out released labels prefer."""
    method = check_number_model(model, method, release)
    certificate = enough_rows(release)
    unit = unit_of(certificate)
    columns, left_out = columns_of(table, features, unit)
    frame = frame_of(table, columns)
    candidates = number_estimators(columns, model, method, noise_ratio(release, decoded_numbers(release)))
    parts = list(_parts(len(release), units_in(table, unit)))
    predicted, best = _judged(list(candidates.values()), frame, release, parts, report, numbers=True)
    name = list(candidates)[best]
    fitted = candidates[name].fit(frame, release)
    return Learned(
        TableModel(fitted, MappingProxyType(columns), name, method, certificate),
        number_scores(release, predicted),
        MappingProxyType(left_out),
        number_setting(fitted),
    )


def _numbers_of(columns: Mapping[str, str], model: str, method: str) -> list[Pipeline]:
    """As ``estimators_of``, for real labels."""
    return list(number_estimators(columns, model, method).values())


def _learned_from_peers(
    folder: Path, table: pa.Table, model: str, method: str | None, features: Sequence[str] | None
) -> Learned:
    """A model from labels that peers exchanged inside clusters; how good it is, these labels do not say."""
    answer = Answer.load(folder)
    if answer.query != ExchangedLabels.name:
        raise InputError(
            f"expected released labels, or what peers exchanged, found the answer to {answer.query}; open it with "
            "Answer.load and learn with CellClassifier, SoftLabelClassifier or MomentClassifier"
        )
    if method is not None:
        raise InputError(f"expected no method for labels that peers exchanged, found {method!r}; leave it out")
    cells = clusters_in(folder)
    columns, left_out = columns_of(table, features, None)
    (estimator, *_) = estimators_of(columns, model, _EXCHANGED)
    fitted = estimator.fit(frame_of(table, columns), answer, model__cells=cells)
    made = TableModel(fitted, MappingProxyType(columns), model, _EXCHANGED, answer.certificate)
    return Learned(made, None, MappingProxyType(left_out), _setting(fitted, model, 0))


def _setting(fitted: Pipeline, model: str, best: int) -> str:
    """What was chosen, in words."""
    exchanged = isinstance(fitted.steps[-1][1], SoftLabelClassifier)
    chosen = ", chosen on released labels"
    if model == "boosting":
        return f"{_TREES} trees of {_LEAVES[best]} leaves" + ("" if exchanged else chosen)
    last = fitted.steps[-1][1]
    return f"l2 {last.l2_:.3g}{chosen}" if hasattr(last, "l2_") else "scikit-learn's usual penalty"


def open_model(path: str | Path) -> TableModel | NetworkModel:
    """A model that ``labeldp learn`` kept, whichever it is.

    Raises:
        InputError: There is no such file, or it holds something else.
        MissingExtraError: It is a network, and PyTorch is not installed.
    """
    file = Path(path)
    if not file.is_file() or not is_network(file):
        return TableModel.load(file)
    try:
        from labeldp.learning._torch_models import NetworkModel  # noqa: PLC0415 (PyTorch is an extra of its own)
    except ModuleNotFoundError as missing:
        raise MissingExtraError(f"expected {missing.name}, found none; pip install 'labeldp[torch]'") from None

    return NetworkModel.load(file)


def evaluate(
    model: TableModel | NetworkModel,
    source: str | Path,
    label: str,
    *,
    public: bool,
    images: Images | None = None,
    image_column: str | None = None,
) -> Scores | NumberScores:
    """Judge a model on a table.

    Args:
        model: The model.
        source: With ``public`` a CSV or Parquet file or a folder of either, else the folder of a release.
        label: The label column.
        public: Whether you declare the labels of this table public. Otherwise they are the labels of a release.
        images: For a model of images: those of the rows.
        image_column: The column that names the image of each row; by default they are in the order of the rows.

    Guarantee:
        On a release it costs nothing. On labels that were declared public nothing is promised of them.

    Raises:
        InputError: The table lacks a column, or has another label space.
        VerificationError: The folder of the release and its certificate do not agree.
    """
    if label in model.columns:
        raise InputError(f"expected a label column, found {label!r}, which the model predicts from")
    if public:
        if (Path(source) / "certificate.json").exists():
            raise InputError(
                f"expected a table with public labels in {source}, found the folder of a release; use --released"
            )
        named = {image_column: pa.string()} if image_column else {}
        types = named | {name: KINDS[kind] for name, kind in model.columns.items()}
        try:
            table, labels = public_table(source, label, model.space, types)
        except LabelError:
            shown = ", ".join(map(str, model.space.points[:_SHOWN_CLASSES]))
            wanted = "a number" if isinstance(model.space, Interval) else f"a class of the model ({shown})"
            raise InputError(
                f"expected {wanted} in every row of {label!r}, found another value or none; leave such rows out"
            ) from None
    else:
        labels, table = Release.load(source), public_columns(source)
        _check_other(model.certificate, labels.certificate, label)
    if images is None:
        if image_column is not None:
            raise InputError(f"expected images that the column {image_column!r} names, found none (--images)")
        if isinstance(model, TableModel) and model.of_numbers:
            return number_scores(labels, model.predict(table))
        return scores(labels, model.predict_proba(table))
    if isinstance(model, TableModel):
        raise InputError("expected no images for a model of columns, found some; leave them out")
    pixels = images.of_rows(len(labels), image_names(table, image_column))
    return scores(labels, model.predict_proba(table, pixels))


def image_names(table: pa.Table, column: str | None) -> list[object] | None:
    """The names of the rows' images, if a column holds them.

    Raises:
        InputError: There is no such column.
    """
    if column is None:
        return None
    if column not in table.column_names:
        found = ", ".join(table.column_names) or "none"
        raise InputError(f"expected the names of images in a public column {column!r}, found {found}")
    return list(table[column].to_pylist())


def enough_rows(release: Release) -> Certificate:
    """The certificate of a release that has rows enough to learn from and to judge by."""
    if release.certificate is None or len(release) < 2 * _FOLDS:
        raise InputError(f"expected at least {2 * _FOLDS} rows to learn from, found {len(release)}")
    return release.certificate


def unit_of(certificate: Certificate) -> str | None:
    """The column that tells units apart, where a unit is not a row."""
    return None if certificate.guarantee.unit == "row" else certificate.guarantee.unit


def units_in(table: pa.Table, unit: str | None) -> pa.ChunkedArray | None:
    """The unit of each row, where its column was kept."""
    return table[unit] if unit is not None and unit in table.column_names else None


def _types(estimator: Any) -> tuple[Any, ...]:
    """The types of an estimator and of all that it was made of, in order."""
    steps = getattr(estimator, "steps", None) or getattr(estimator, "transformers", None)
    inner = [step[1] for step in steps] if steps else [getattr(estimator, "estimator", None)]
    return type(estimator), *(_types(each) for each in inner if hasattr(each, "get_params"))


def _check_version(kept_with: str) -> None:
    """Refuse a model of another scikit-learn, which may read its parts differently without a word."""
    installed = version("scikit-learn")
    if kept_with.split(".")[:2] != installed.split(".")[:2]:
        raise InputError(
            f"expected a model kept with scikit-learn {installed}, found {kept_with}; install that version, or learn "
            "the model anew, which costs nothing"
        )


def _check_other(learned_from: Certificate, certificate: Certificate | None, label: str) -> None:
    """Refuse a release of something else than a model knows, and the release that it was fitted on."""
    if certificate is None or certificate.label != label:
        found = certificate.label if certificate else "public labels"
        raise InputError(f"expected a release of the label {label!r}, found {found!r}")
    if certificate.space != learned_from.space:
        raise InputError("expected a release of the label space that the model knows, found another")
    if certificate.files == learned_from.files:
        raise InputError(
            "expected rows that the model was not fitted on, found the release that it was learned from; "
            "'labeldp learn' printed how good it is on rows that it did not see"
        )


def estimators_of(columns: Mapping[str, str], model: str, method: str) -> list[Pipeline]:
    """What is to be chosen among, by released labels."""
    encoded: Any
    if model == _OF_CLASSES:
        linear: Any = SoftmaxRegression(method=method)  # type: ignore[arg-type]
        learner = _softly(LogisticRegression(max_iter=1000), method) if method in (_CLUSTERS, _EXCHANGED) else linear
        encoded, learners = scaled(columns), [learner]
    else:
        encoded, places = for_trees(columns)
        fixed = {"max_iter": _TREES, "early_stopping": False, "random_state": 0, "categorical_features": places}
        boosting = [HistGradientBoostingClassifier(max_leaf_nodes=leaves, **fixed) for leaves in _LEAVES]
        learners = [_softly(each, method) for each in boosting]
    return [Pipeline([("columns", clone(encoded)), ("model", learner)]) for learner in learners]


def _softly(estimator: Any, method: str) -> Any:
    """A learner that fits a classifier on soft labels."""
    if method == _EXCHANGED:
        return SoftLabelClassifier(estimator)
    return ReleasedLabelClassifier(estimator, method=method)  # type: ignore[arg-type]


def _parts(rows: int, units: pa.ChunkedArray | None, folds: int = _FOLDS) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows to fit on and rows to judge by: every row is judged once, and a unit is never on both sides."""
    if units is None:
        yield from KFold(folds, shuffle=True, random_state=0).split(np.zeros(rows))
        return
    groups = pc.rank(units, tiebreaker="dense").to_numpy()
    if len(np.unique(groups)) < folds:
        raise InputError(f"expected at least {folds} units to learn from, found {len(np.unique(groups))}")
    yield from GroupKFold(folds, shuffle=True, random_state=0).split(np.zeros(rows), groups=groups)


def one_part(rows: int, units: pa.ChunkedArray | None) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit on, and a tenth of the rows to judge by, without a unit on both sides."""
    return next(_parts(rows, units, _TENTH))


def _judged(
    estimators: Sequence[Pipeline],
    frame: Any,
    release: Release,
    parts: Sequence[tuple[np.ndarray, np.ndarray]],
    report: Progress,
    numbers: bool = False,
) -> tuple[Float[np.ndarray, "n ..."], int]:
    """Probabilities, or numbers, of each row by a model fitted on other rows, and which estimator is best on all rows.

    For each fold, the estimator is the one that is best on the other folds, so that its choice owes little to the
    rows that judge it. A regressor that is behind the first one on the first fold is not tried on others.
    """
    shape = (len(release),) if numbers else (len(release), release.space.size)
    found = np.empty((len(estimators), *shape))
    fits = 0
    for place, estimator in enumerate(estimators):
        for fit, held in parts:
            report("learn", fits, len(estimators) * len(parts) + 1)
            fitted = clone(estimator).fit(frame.iloc[fit], release[fit])
            say = fitted.predict if numbers else fitted.predict_proba
            found[place, held] = say(frame.iloc[held])
            fits += 1
            if numbers and place > 0 and fit is parts[0][0] and is_behind_first(release, found, place, held):
                found[place] = found[0]
                break
    report("learn", fits, fits + 1)
    if numbers:
        return judged_numbers(release, found, parts)
    gains = np.stack([gain(release, each) for each in found])
    chosen = np.empty(found.shape[1:])
    for fit, held in parts:
        chosen[held] = found[np.argmax(gains[:, fit].mean(axis=1)), held]
    return chosen, int(np.argmax(gains.mean(axis=1)))
