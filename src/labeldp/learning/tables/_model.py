"""The rows of a release that a model learns from or calibrates sets on, and a model in a file.

The file says what it was learned from; the model predicts the rows of a table, or images.
"""

from __future__ import annotations

import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, ClassVar, Self

import numpy as np
import pyarrow as pa

from labeldp import _checks
from labeldp._extras import require_extra
from labeldp._shapes import Float, Int
from labeldp._strict_json import strict_json
from labeldp.errors import InputError, VerificationError
from labeldp.learning.choice import folds_of, some_rows
from labeldp.learning.features import EncoderCard
from labeldp.learning.files import TYPES, Arrays, FileFormat, check_stored, described
from labeldp.learning.inference import PredictionSets
from labeldp.learning.metrics import ROWS, Units, may_share_units
from labeldp.learning.sklearn import Mixture
from labeldp.privacy import Interval, LabelSpace, columns_in_order
from labeldp.release import Release, unit_numbers
from labeldp.release.folder import Certificate, check_charges, group_column

FOLDS = 5
#: Rows of a unit, where a release does not say how many there are.
_USUAL_SIZE = 5


def enough_rows(release: Release) -> Certificate:
    """The certificate of a release, which must have enough rows for cross-validation."""
    if release.certificate is None or len(release) < 2 * FOLDS:
        raise InputError(f"expected at least {2 * FOLDS} rows to learn from, found {len(release)}")
    return release.certificate


def units_in(table: pa.Table, unit: str | None) -> Int[np.ndarray, "n"] | None:
    """The number of each row's privacy unit, as releases tell units apart, or None if its column was not kept."""
    if unit is None or unit not in table.column_names:
        return None
    return unit_numbers(table[unit], table.num_rows)


def chosen_rows(certificate: Certificate, units: Int[np.ndarray, "n"] | None, most: int) -> Int[np.ndarray, "m"]:
    """Numbers of at most so many rows, in whole units: by chance, without a look at labels, and equal for one release.

    Raises:
        InputError: So many rows do not suffice for cross-validation.
    """
    most = _checks.whole(most, "rows", 2 * FOLDS)
    of_rows = Units.of(ROWS if units is None else units, certificate.rows)
    return some_rows(of_rows, most, list(certificate.release.encode()))


def units_of(table: pa.Table, release: Release, points: Callable[[], Any]) -> tuple[Units, bool]:
    """The privacy units of rows, by the column of their unit, and whether a column tells them.

    Where rows may share a unit and no column tells which do, sets of similar rows stand for units: rows of one unit are
    often near-duplicates.
    """
    numbers, rows = units_in(table, group_column(release.certificate)), table.num_rows
    if numbers is not None or not may_share_units(release):
        return Units.of(ROWS if numbers is None else numbers, rows), True
    from labeldp.learning.sklearn import ClusterLeaves  # noqa: PLC0415 (not to predict)

    size = max(getattr(release.channel, "repeats", (_USUAL_SIZE,)))
    return Units.of(ClusterLeaves().similar(points(), size), rows), False


def rows_apart(
    release: Release, units: Units, told: bool, coverage: float | None, by: str | None
) -> tuple[Int[np.ndarray, "m"], Int[np.ndarray, "c"]]:
    """The rows to learn from, and a fifth of the rows, in whole units, to calibrate sets on; none without a coverage.

    Args:
        release: Released labels.
        units: Their privacy units.
        told: Whether a column tells them.
        coverage: The share of rows whose sets shall hold the true label; None for no sets.
        by: ``"class"`` for that share of the rows of each class.

    Raises:
        InputError: The coverage is none, or by class without classes, no column tells units apart, or features of rows
            were resampled.
    """
    if by is not None and (coverage is None or isinstance(release.space, Interval)):
        raise InputError("expected a coverage by class with a coverage of classes, found one without; leave it out")
    if coverage is None:
        return np.arange(len(release)), np.arange(0)
    _checks.share(coverage, "a coverage", "()", "; use for instance 0.9")
    _checks.among(by, "a coverage by", (None, "class"))
    certificate = release.certificate
    if certificate is not None and certificate.features is not None:
        raise InputError("expected the features of the rows themselves for a coverage, found resampled or no features")
    if not told:
        raise InputError(
            "expected a column that tells privacy units apart, since sets are calibrated on other units, found none; "
            "release with a made-up number of each (--renumber), or leave out --coverage"
        )
    return folds_of(units, FOLDS)[0]


_EARLIER, _NOW = "labeldp/model/1", "labeldp/model/2"
#: Types of parts of scikit-learn that skops does not trust by itself.
_TRUSTED = (
    "functools.partial",
    "labeldp.learning.sklearn.NumberMixture",  # an earlier name of a mixture
    "numpy.dtype",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.utils.validation.check_array",
    *(f"{module}.{name}" for name, module in TYPES.items() if module.startswith("labeldp.")),
)


def earlier_model(file: BinaryIO) -> tuple[str, Mapping[str, np.ndarray]]:
    """The description and the arrays of a model in a file of skops.

    Types that files do not hold are refused before any of them is made.

    Raises:
        VerificationError: It holds other types.
        ValueError: A part is larger than the file.
    """
    require_extra("earlier", "skops")
    from skops import io  # noqa: PLC0415 (an extra, of earlier files alone)

    check_stored(file)
    file.seek(0)
    try:
        held = io.load(file, trusted=list(_TRUSTED))
    except io.exceptions.UntrustedTypesFoundException:
        raise VerificationError("other types in it") from None
    about = strict_json(held["about"])
    if about["schema"] == _EARLIER:
        about["schema"] = _NOW
    about["estimator"], arrays = described(held["estimator"])
    return json.dumps(about), arrays


#: The linear model of classes, which takes numbers for classes too.
OF_CLASSES = "softmax"
#: How models of tables that fit in memory are learned, in words.
IN_MEMORY = "all rows in memory"
#: The module and the name of the model of each schema.
_KINDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "labeldp/model/2": ("_table_model", "TableModel"),
        "labeldp/network/1": ("_network_model", "NetworkModel"),
    }
)
_FILES = FileFormat(tuple(_KINDS), "model", "labeldp learn", earlier_model)


class Model(ABC):
    """A trained model, with the certificate of the release that it was learned from.

    Attributes:
        method: Training method.
        certificate: Certificate of the release, whose guarantee covers the model.
        calibrator: Combination of its predictions with the constant, by held-out released labels; None without one.
        sets: Sets that hold the true label of most rows; None if none were calibrated.
        schema: Name and version of its description in a file.
    """

    method: str
    certificate: Certificate
    calibrator: Mixture | None
    sets: PredictionSets | None
    schema: ClassVar[str]

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
        """True if it predicts numbers."""
        return False

    @property
    def card(self) -> EncoderCard | None:
        """The encoder of its images; None without one."""
        return None

    def predict_proba(self, table: object, images: object = None) -> Float[np.ndarray, "n k"]:
        """Probabilities of the true classes, shape (n, k), in the order of ``classes_``.

        Args:
            table: An Arrow table or a pandas or polars frame; for a model of images these, or None.
            images: The image of each row, for a model of images with a table: what ``read_images`` read from one file,
                or an array of shape (n, channels, height, width).

        Raises:
            InputError: A column is missing or not of its kind, or images are missing or of another size, or the model
                predicts numbers.
        """
        if self.of_numbers:
            raise InputError("expected a model of classes for probabilities, found one of numbers; use predict")
        return columns_in_order(self._predicted(table, images), self.space.points, self.classes_)

    def predict(self, table: object, images: object = None) -> np.ndarray:
        """The most likely true class of each row, or the mean of its numeric label."""
        if self.of_numbers:
            return self._predicted(table, images)
        return np.asarray(self.classes_[np.argmax(self.predict_proba(table, images), axis=1)])

    def sets_of(self, plain: Any) -> PredictionSets:
        """Sets of this model from their description.

        Raises:
            ValueError: It is none.
        """
        points = self.space.points
        ends = (float(points[0]), float(points[-1])) if self.of_numbers else None
        return PredictionSets.from_plain(plain, None if self.of_numbers else tuple(points), ends)

    def save(self, path: str | Path) -> Path:
        """Write the model to a file that does not exist yet, as arrays and a description in JSON.

        Raises:
            OutputError: The file exists, or its folder does not.
        """
        about, arrays, libraries = self._described()
        shared = {
            "method": self.method,
            "certificate": self.certificate.plain(),
            "calibrator": None if self.calibrator is None else self.calibrator.plain(),
        }
        shared |= {} if self.sets is None else {"sets": self.sets.plain()}
        return _FILES.save(path, self.schema, shared | about, arrays, libraries)

    def _predicted(self, table: object, images: object) -> np.ndarray:
        """Predictions, combined with the constant: probabilities in declared order, or numbers."""
        predicted = self._alone(table, images)
        return predicted if self.calibrator is None else self.calibrator(predicted[None])

    @abstractmethod
    def _alone(self, table: object, images: object) -> np.ndarray:
        """Predictions of the model alone."""

    @abstractmethod
    def _described(self) -> tuple[dict[str, Any], dict[str, np.ndarray], tuple[str, ...]]:
        """The description of this kind of model, its arrays, and the libraries whose versions it names."""

    @classmethod
    @abstractmethod
    def _restored(cls, about: dict[str, Any], arrays: Arrays, certificate: Certificate) -> Self:
        """The model of a description and arrays."""


def open_model(path: str | Path) -> Any:
    """Load a model that ``labeldp learn`` saved, of columns or of images.

    Args:
        path: A file that ``save`` wrote, or one of an earlier version. It holds numbers and text: nothing in it is run,
            only types that models need are made, and what compiled code trusts is checked. Files of earlier versions
            are read by skops before that: open them only from people you trust.

    Raises:
        InputError: The file does not exist, or is not such a model.
        MissingExtraError: It needs a library that is not installed, such as PyTorch for a network.
    """
    with _FILES.opened(path) as (about, arrays):
        certificate = Certificate.from_json(json.dumps(about["certificate"]))
        check_charges(certificate)
        module, name = _KINDS[about["schema"]]
        kind = getattr(importlib.import_module(f"labeldp.learning.tables.{module}"), name)
        model = kind._restored(about, arrays, certificate)
        return replace(model, sets=model.sets_of(about["sets"])) if "sets" in about else model
