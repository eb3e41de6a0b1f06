"""A trained model of a table: an estimator, the kinds of its columns, and the ranges that it learned from."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator

from labeldp._shapes import Float
from labeldp.columns import KINDS, Columns
from labeldp.errors import InputError
from labeldp.learning import sklearn as learners
from labeldp.learning.features import SeenRanges, frame_of, scaling_transformer
from labeldp.learning.files import Arrays, OtherVersionError, described, restored
from labeldp.learning.inference import PredictionSets
from labeldp.learning.tables._model import OF_CLASSES, Model, enough_rows, units_of
from labeldp.mechanisms.resampling import Generator
from labeldp.privacy import Interval, columns_in_order, predicted_columns
from labeldp.release import Release
from labeldp.release.folder import Certificate, group_column

#: Days of a step that no month is longer than, so that twelve of them from January meet each month and weekday.
_MONTH, _MONTHS = 31, 12


@dataclass(frozen=True, eq=False)
class TableModel(Model):
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
        sets: Sets that hold the true label of most rows; None if none were calibrated.
    """

    estimator: Any
    columns: Mapping[str, str]
    model: str
    method: str
    certificate: Certificate
    corrected: bool = False
    calibrator: learners.Mixture | None = None
    seen: SeenRanges = field(default_factory=SeenRanges)
    sets: PredictionSets | None = None

    schema: ClassVar[str] = "labeldp/model/2"

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

    @property
    def merged_categories(self) -> dict[str, tuple[int, int]]:
        """Columns whose rarest categories count as one: how many do, at most, and how many there are."""
        found = dict[str, tuple[int, int]]()
        for name, known, rare in _categories_of(self.estimator):
            if rare is not None:
                found[name] = max(found.get(name, (0, 0)), (len(rare), sum(isinstance(each, str) for each in known)))
        return found

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
        from labeldp.learning.tables._families import (  # noqa: PLC0415 (not to predict)
            CLASSES,
            Rows,
            check_generator,
            judged_model,
        )

        unit = group_column(enough_rows(release))
        names = set(Columns(table).names)
        columns = Columns(table).table([*self.columns, *([unit] if unit in names else [])])
        frame = frame_of(columns, self.columns)
        units, _ = units_of(columns, release, lambda: scaling_transformer(self.columns).fit_transform(frame))
        if self.model == "auto":
            again = learners.AutoClassifier(every_row=True).fit(frame, release, units)
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

    def _alone(self, table: object, images: object) -> np.ndarray:
        if images is not None:
            raise InputError("expected no images for a model of columns, found some; leave them out")
        known = categories_in(self.estimator)
        frame = self.seen.within(frame_of(Columns(table).table(self.columns), self.columns, known))
        if self.of_numbers:
            return np.asarray(self.estimator.predict(frame))
        return predicted_columns(self.estimator, frame, self.space)

    def _described(self) -> tuple[dict[str, Any], dict[str, np.ndarray], tuple[str, ...]]:
        estimator, arrays = described(self.estimator)
        about = {
            "model": self.model,
            "columns": [{"name": name, "kind": kind} for name, kind in self.columns.items()],
            "corrected": self.corrected,
            "seen": self.seen.plain(),
            "estimator": estimator,
        }
        return about, arrays, ("scikit-learn",)

    @classmethod
    def _restored(cls, about: dict[str, Any], arrays: Arrays, certificate: Certificate) -> Self:
        _check_version(about["made_with"]["scikit-learn"])
        name, method = about["model"], about["method"]
        if not (name.isidentifier() and method.isidentifier()):
            raise ValueError("names of no model and method")
        columns = MappingProxyType({column["name"]: column["kind"] for column in about["columns"]})
        estimator, seen = restored(about["estimator"], arrays), SeenRanges.from_plain(about.get("seen", {}), columns)
        corrected = about.get("corrected", False) is True
        model = cls(estimator, columns, name, method, certificate, corrected, None, seen)
        calibrator = learners.Mixture.from_plain(about.get("calibrator"), model.space.size, model.ends)
        model = replace(model, calibrator=calibrator)
        _check_prediction(model)
        return model


def categories_in(estimator: Any) -> dict[str, frozenset[str]]:
    """The texts that a fitted estimator knows of each column of categories."""
    every = _categories_of(estimator)
    return {name: frozenset(text for text in known if isinstance(text, str)) for name, known, _ in every}


def _categories_of(estimator: Any) -> Iterator[tuple[str, np.ndarray, np.ndarray | None]]:
    """For each column of categories in each encoder: its name, those known, and those that count as one, if any do."""
    for part in _estimators_in(estimator, set()):
        for _, encoder, columns in getattr(part, "transformers_", ()):
            known = getattr(encoder, "categories_", ())
            rare = getattr(encoder, "infrequent_categories_", [None] * len(known))
            yield from zip(columns, known, rare, strict=False)


def _estimators_in(value: Any, seen: set[int]) -> Iterator[BaseEstimator]:
    """All estimators that can be reached from a value, each once."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, BaseEstimator):
        yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    for each in inner or getattr(value, "__dict__", {}).values():
        yield from _estimators_in(each, seen)


def _check_prediction(model: TableModel) -> None:
    """Refuse a model that cannot predict rows without values, or of each category: its parts do not fit together.

    Raises:
        ValueError: It predicts something else than it should. Whatever else fails raises its own error.
    """
    empty = pa.table({name: pa.nulls(1, KINDS[kind]) for name, kind in model.columns.items()})
    for rows in (empty, _ordinary_rows(model)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a missing category may be a new one
            found = model.predict(rows) if model.of_numbers else model.predict_proba(rows)
        shape = (len(rows),) if model.of_numbers else (len(rows), model.space.size)
        if found.shape != shape or not np.isfinite(found).all():
            raise ValueError("predictions of another form")


def _ordinary_rows(model: TableModel) -> pa.Table:
    """Rows of different numbers and months, and of each category that the model knows."""
    known = categories_in(model.estimator)
    count = max([_MONTHS, *(len(texts) for texts in known.values())])
    days = pa.array(_MONTH * np.arange(count), pa.int32())

    def values(name: str, kind: str) -> pa.Array:
        if pa.types.is_string(KINDS[kind]):
            texts = sorted(known.get(name, ())) or ["text"]
            return pa.array([texts[n % len(texts)] for n in range(count)])
        return (days.cast(pa.date32()) if pa.types.is_temporal(KINDS[kind]) else days).cast(KINDS[kind])

    return pa.table({name: values(name, kind) for name, kind in model.columns.items()})


def _check_version(saved_with: str) -> None:
    """Refuse a model of another version of scikit-learn, which may silently interpret its parts differently."""
    installed = version("scikit-learn")
    if saved_with.split(".")[:2] != installed.split(".")[:2]:
        raise OtherVersionError(
            f"expected a model saved with scikit-learn {installed}, found {saved_with}; install that version, or learn "
            "the model again at no privacy cost"
        )
