"""A trained model of a table in a skops file; opening one runs no foreign code."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp._arrow import Columns
from labeldp._new_files import write_new_file
from labeldp._shapes import Float
from labeldp.errors import InputError, VerificationError
from labeldp.learning.features import (
    FileFormat,
    OtherVersionError,
    SeenRanges,
    check_stored,
    frame_of,
    is_network,
    scaling_transformer,
)
from labeldp.learning.sklearn import AutoClassifier, Mixture
from labeldp.learning.tables._families import CLASSES, NUMBERS, OF_CLASSES, Rows, judged_model
from labeldp.learning.tables._folds import enough_rows, units_of
from labeldp.learning.tables._model_parts import categories_in, check_parts, check_prediction, types_of
from labeldp.learning.tables._resampled import check_generator
from labeldp.mechanisms.resampling import Generator
from labeldp.privacy import Interval, LabelSpace, columns_in_order, predicted_columns
from labeldp.release import Release
from labeldp.release.folder import Certificate, check_charges, group_column
from labeldp.release.tables import disk_path

if TYPE_CHECKING:  # PyTorch is an extra of its own
    import pandas as pd

    from labeldp.learning.torch import NetworkModel

_FORMAT = FileFormat(
    "labeldp/model/1",
    "model",
    "made by 'labeldp learn'",
    "make one with 'labeldp learn'",
    ("labeldp", "scikit-learn"),
)

#: Types that a model's file may hold besides those that skops trusts.
_TRUSTED = [
    "functools.partial",
    "labeldp.learning.cells.Centres",
    "labeldp.learning.cells.ClusterTree",
    "labeldp.learning.cells.Embedding",
    "labeldp.learning.cells.NearestLeaf",
    "labeldp.learning.convex.Ball",
    "labeldp.learning.convex.ConvexClassifier",
    "labeldp.learning.convex.ConvexRegressor",
    "labeldp.learning.convex.Descent",
    "labeldp.learning.convex.SoftmaxLoss",
    "labeldp.learning.convex.SquaredLoss",
    "labeldp.learning.convex.Steps",
    "labeldp.learning.features.UnitScaler",
    "labeldp.learning.ratings.Draw",
    "labeldp.learning.ratings.Entities",
    "labeldp.learning.ratings.FactorizationClassifier",
    "labeldp.learning.sklearn.AutoClassifier",
    "labeldp.learning.sklearn.AutoRegressor",
    "labeldp.learning.sklearn.BoostingClassifier",
    "labeldp.learning.sklearn.BoostingRegressor",
    "labeldp.learning.sklearn.ClusterLeaves",
    "labeldp.learning.sklearn.EvidenceRidge",
    "labeldp.learning.sklearn.KernelClassifier",
    "labeldp.learning.sklearn.Mixture",
    "labeldp.learning.sklearn.NeighborsRegressor",
    "labeldp.learning.sklearn.ReleasedLabelClassifier",
    "labeldp.learning.sklearn.ReleasedLabelRegressor",
    "labeldp.learning.sklearn.SoftLabelClassifier",
    "labeldp.learning.sklearn.SoftmaxRegression",
    "labeldp.learning.sklearn.TreeClassifier",
    "labeldp.learning.sklearn.TreeRegressor",
    "numpy.dtype",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.neighbors._kd_tree.KDTree",  # built anew before it is used
    "sklearn.utils.validation.check_array",
]

#: Such names in files of earlier versions.
_EARLIER = ["labeldp.learning.sklearn.NumberMixture"]

#: scikit-learn's adapter to arrays of PyTorch.
_TORCH_ADAPTER = "sklearn.externals.array_api_compat.torch"


@dataclass(frozen=True, eq=False)
class TableModel:
    """A classifier or regressor of table rows, with the certificate of its release.

    Attributes:
        estimator: A fitted scikit-learn pipeline; its classes are the declared ones, in an order of its own.
        columns: Kind of each input column: number, flag, day, instant or category. Of a day and of an instant the model
            takes the number of days since 1970, the month and the weekday, and of an instant the hour; older models
            have a date or a time, of which they take a number alone.
        model: ``"auto"``, ``"softmax"``, ``"boosting"``, ``"convex"`` or ``"factorization"``; of numeric labels
            ``"auto"``, ``"ridge"``, ``"boosting"``, ``"neighbours"`` or ``"convex"``.
        method: Training method.
        certificate: Certificate of the release that it was learned from, whose guarantee covers the model.
        corrected: Whether it was corrected, by means of the generator, to predict from true features although those of
            the release were resampled; else it predicts from features as they were released.
        calibrator: Calibration of its probabilities, or shrinkage of its numbers towards the mean label, by held-out
            released labels; None where it needs none.
        seen: The values that it learned from, beyond which it does not extrapolate.
    """

    estimator: Any
    columns: Mapping[str, str]
    model: str
    method: str
    certificate: Certificate
    corrected: bool = False
    calibrator: Mixture | None = None
    seen: SeenRanges = field(default_factory=SeenRanges)

    @property
    def space(self) -> LabelSpace:
        """The declared label space."""
        return self.certificate.space

    @property
    def classes_(self) -> np.ndarray:
        """The declared classes, sorted; of numeric labels the grid points."""
        return np.asarray(np.array(self.space.points)[self.space.sorted_codes])

    @property
    def of_numbers(self) -> bool:
        """True if it predicts numbers: labels of an interval, unless learned as classes by softmax."""
        return isinstance(self.space, Interval) and self.model != OF_CLASSES

    @property
    def ends(self) -> tuple[float, float] | None:
        """Ends of the range of numbers that it predicts; None if it predicts classes."""
        return (float(self.space.points[0]), float(self.space.points[-1])) if self.of_numbers else None

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs."""
        return list(self.columns)

    def predict_proba(self, table: object) -> Float[np.ndarray, "n k"]:
        """Probabilities of the true classes for an Arrow table or a frame of pandas or polars.

        Shape (n, k), in the order of ``classes_``.

        Raises:
            InputError: A column is missing, or is not of its kind; or the model predicts numbers.
        """
        if self.of_numbers:
            raise InputError("expected a model of classes for probabilities, found one of numbers; use predict")
        declared = predicted_columns(self.estimator, self._frame(table), self.space)
        if self.calibrator is not None:
            declared = self.calibrator(declared[None])
        return columns_in_order(declared, self.space.points, self.classes_)

    def predict(self, table: object) -> np.ndarray:
        """The most likely true class of each row of an Arrow table or a frame, or the mean of its numeric label."""
        if self.of_numbers:
            numbers = np.asarray(self.estimator.predict(self._frame(table)))
            return numbers if self.calibrator is None else self.calibrator(numbers[None])
        return np.asarray(self.classes_[np.argmax(self.predict_proba(table), axis=1)])

    def held_out_proba(
        self, release: Release, table: object, generator: Generator | None = None
    ) -> Float[np.ndarray, "n k"]:
        """Probabilities of the true classes by models of this kind that were not fitted on the row.

        They have shape (n, k), with classes in declared order. For each of five folds a model is chosen and fitted on
        the others, as ``learn`` does for its scores.

        Args:
            release: Released labels of the rows.
            table: Their public columns: an Arrow table, or a pandas or polars frame.
            generator: The generator of resampled features, if this model was corrected for them.

        Guarantee:
            Post-processing of a release: covered by the release's guarantee at no further cost.

        Raises:
            InputError: A column is missing, there are too few rows, the generator is missing or another one, or the
                model predicts numbers.
        """
        if self.of_numbers:
            raise InputError("expected a model of classes for probabilities, found one of numbers; use predict")
        unit = group_column(enough_rows(release))
        names = set(Columns(table).names)
        columns = Columns(table).table([*self.columns, *([unit] if unit in names else [])])
        frame = frame_of(columns, self.columns)
        units, _ = units_of(columns, release, lambda: scaling_transformer(self.columns).fit_transform(frame))
        if isinstance(self.estimator, AutoClassifier):
            again = AutoClassifier(every_row=True).fit(frame, release, units)
            return columns_in_order(again.held_out_, again.classes_, self.space.points)
        if self.corrected:
            if generator is None:
                raise InputError(
                    "expected the generator of the resampled features, to fit a corrected model on folds of the "
                    "release, found none; pass it (--generator)"
                )
            check_generator(generator, release)
        rows, drawn = Rows(CLASSES, release, self.columns, frame, units), generator if self.corrected else None
        beside = self.calibrator is not None
        return np.asarray(judged_model(rows, self.model, self.method, generator=drawn, beside=beside).held_out)

    def save(self, path: str | Path) -> Path:
        """Write the model to a file that does not exist yet, with skops: opening it loads only the types it needs.

        Raises:
            OutputError: The file exists, or its folder does not.
        """
        about = {
            "model": self.model,
            "method": self.method,
            "columns": [{"name": name, "kind": kind} for name, kind in self.columns.items()],
            "certificate": self.certificate.plain(),
            "corrected": self.corrected,
            "calibrator": None if self.calibrator is None else self.calibrator.plain(),
            "seen": self.seen.plain(),
        }
        held = {"about": _FORMAT.description(about), "estimator": self.estimator}
        return write_new_file(disk_path(path), lambda file: _skops_io().dump(held, file), private=True)

    @classmethod
    def load(cls, path: str | Path) -> TableModel:
        """Load a saved model.

        Args:
            path: A file that ``save`` wrote. Only types that such a file needs are loaded, and only in the pipeline
                that ``learn`` makes, so opening it runs no foreign code. A forged decision or search tree can still
                crash the process: open models only from people you trust.

        Raises:
            InputError: The file does not exist, or is not such a model.
        """
        with _FORMAT.reading(path) as file, file.open("rb") as opened:
            check_stored(opened)
            skops_io = _skops_io()
            try:
                held = skops_io.load(opened, trusted=[*_TRUSTED, *_EARLIER])
            except skops_io.exceptions.UntrustedTypesFoundException:
                raise VerificationError("other types in it") from None
            about = _FORMAT.read_description(held["about"])
            _check_version(about["made_with"]["scikit-learn"])
            columns = {column["name"]: column["kind"] for column in about["columns"]}
            certificate = Certificate.from_json(json.dumps(about["certificate"]))
            check_charges(certificate)
            parts = (about["model"], about["method"], certificate, about.get("corrected", False) is True)
            model = cls(held["estimator"], MappingProxyType(columns), *parts)
            seen = SeenRanges.from_plain(about.get("seen", {}))
            model = replace(
                model, calibrator=Mixture.from_plain(about.get("calibrator"), model.space.size, model.ends), seen=seen
            )
            kind = (columns, model.model, model.method)
            template = (NUMBERS if model.of_numbers else CLASSES).template(*kind)
            if types_of(model.estimator) != types_of(template):
                raise KeyError("estimator")  # learn makes no such pipeline
            check_parts(model.estimator, columns)
            check_prediction(model)
            return model

    def _frame(self, table: object) -> pd.DataFrame:
        """The features of rows, with categories as the model knows them."""
        frame = frame_of(Columns(table).table(self.columns), self.columns, categories_in(self.estimator))
        return self.seen.within(frame)


def open_model(path: str | Path) -> TableModel | NetworkModel:
    """Load a model that ``labeldp learn`` saved, of columns or a network.

    Raises:
        InputError: The file does not exist, or is not such a model.
        MissingExtraError: It is a network, and PyTorch is not installed.
    """
    if not is_network(disk_path(path)):
        return TableModel.load(path)
    from labeldp.learning.torch import NetworkModel  # noqa: PLC0415 (PyTorch is an extra of its own)

    return NetworkModel.load(path)


def _skops_io() -> Any:
    """The module ``skops.io``, loaded without PyTorch.

    skops lists all estimators of scikit-learn when it is imported; the walk over scikit-learn's packages also imports
    its adapter to PyTorch, and skips it where it is missing. No estimator is defined there.
    """
    hidden = _TORCH_ADAPTER not in sys.modules
    if hidden:
        sys.modules[_TORCH_ADAPTER] = None  # type: ignore[assignment]  # so that importing it is an ImportError
    try:
        return importlib.import_module("skops.io")
    finally:
        if hidden:
            del sys.modules[_TORCH_ADAPTER]


def _check_version(saved_with: str) -> None:
    """Refuse a model of another version of scikit-learn, which may silently interpret its parts differently."""
    installed = version("scikit-learn")
    if saved_with.split(".")[:2] != installed.split(".")[:2]:
        raise OtherVersionError(
            f"expected a model saved with scikit-learn {installed}, found {saved_with}; install that version, or learn "
            "the model again at no privacy cost"
        )
