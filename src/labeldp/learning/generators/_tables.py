"""Generators fitted on tables on disk: a public table, or the folder of a release (a paid split)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, VotingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer, StandardScaler

from labeldp import _checks
from labeldp._confidence_intervals import clopper_pearson_lower, clopper_pearson_upper
from labeldp._shapes import Float
from labeldp.errors import InputError
from labeldp.learning.generators._columns import FormEncoder
from labeldp.learning.generators._fit import FittedGenerator, fit_cells, fit_copula
from labeldp.learning.losses import require_release
from labeldp.privacy import Classes
from labeldp.release import Release, is_answer, kept_columns, public_columns, public_table, refuse_public_labels
from labeldp.release.folder import local_copy
from labeldp.release.tables import Place, TableFile, open_table, typed

FITS: Mapping[str, Callable[..., FittedGenerator]] = {"copula": fit_copula, "cells": fit_cells}
#: Most rows that a generator is tested on.
_MOST_TRIED = 10_000
#: Fewest rows of each class to fit a second generator, and to test draws of a class.
_FEWEST_FITTED, _FEWEST_TESTED = 4, 100
#: Fewest draws in a test.
_FEWEST_DRAWN = 4_000
#: Most values of a category that boosting splits as one; longer categories are treated as numbers.
_MOST_SPLIT = 255


def two_sample_accuracy(fitted: FittedGenerator, features: object, labels: object) -> float:
    """Accuracy of boosting in telling given rows from draws of the same classes.

    An estimate, not a guarantee: a half is chance level, and another classifier may reach more. The lower the accuracy,
    the better the generator.

    Args:
        fitted: A generator.
        features: Rows in its form, preferably not those that it was fitted on.
        labels: A ``Release`` of their labels, which were declared public.

    Returns:
        The accuracy, by cross-validation in three parts.

    Raises:
        NotTrueLabelsError: The labels are not a release.
        InputError: The labels were not declared public.
    """
    release = require_release(labels)
    if release.certificate is not None:
        raise InputError(
            "expected labels that were declared public, to draw rows of the same classes, found a private release"
        )
    columns, codes = FormEncoder(fitted.form), np.asarray(release.codes)
    real = fitted.form.shaped(fitted.form.table(features))[0]
    both = [np.hstack([*columns.read(rows), codes[:, None]]) for rows in (real, fitted.generator().sample(codes))]
    which = np.repeat([0, 1], len(codes))
    order = np.random.default_rng(0).permutation(len(which))
    model = HistGradientBoostingClassifier(random_state=0)
    return float(np.mean(cross_val_score(model, np.vstack(both)[order], which[order], cv=3)))


@dataclass(frozen=True, eq=False)
class Trial:
    """A generator fitted on one part of a table with public labels, and the held-out rows."""

    fitted: FittedGenerator
    table: pa.Table
    labels: Release

    def two_sample_accuracy(self) -> tuple[float, float, float]:
        """Accuracy of a classifier that tells the held-out rows from as many draws, and its 95 % interval."""
        share, trials = two_sample_accuracy(self.fitted, self.table, self.labels), 2 * self.table.num_rows
        correct = round(share * trials)
        low, high = (bound(correct, trials, 0.025) for bound in (clopper_pearson_lower, clopper_pearson_upper))
        return share, float(low), float(high)

    def drawn(self) -> Float[np.ndarray, "m p"]:
        """Draws, evenly over the classes: as many as there are held-out rows, but no fewer than a minimum."""
        classes = self.fitted.space.size
        count = max(_FEWEST_DRAWN, self.table.num_rows)
        return self._read(self.fitted.generator().sample(np.arange(-(-count // classes) * classes) % classes))

    def by_class(self) -> Iterator[tuple[str, Float[np.ndarray, "n p"]]]:
        """Iterate over the classes with enough held-out rows: the name and the rows of each."""
        form, codes = self.fitted.form, np.asarray(self.labels.codes)
        rows = self._read(form.shaped(form.table(self.table))[0])
        for code, point in enumerate(self.fitted.space.points):
            members = rows[codes == code]
            if 2 * len(members) >= _FEWEST_TESTED:
                yield str(point), members

    def discriminator(self) -> Any:
        """Classifier of class members against draws: the mean of a smooth additive model and of boosting."""
        columns = FormEncoder(self.fitted.form)
        numbers = len(columns.of_numbers)
        categories = list(range(numbers, numbers + len(columns.of_categories)))
        small = [place for place, size in zip(categories, columns.sizes, strict=True) if size <= _MOST_SPLIT]
        smooth = make_pipeline(
            SimpleImputer(keep_empty_features=True), StandardScaler(), SplineTransformer(4, extrapolation="linear")
        )
        parts = [(smooth, list(range(numbers)))] * bool(numbers)
        parts += [(OneHotEncoder(handle_unknown="ignore"), categories)] * bool(categories)
        trees = HistGradientBoostingClassifier(
            learning_rate=0.05, max_iter=100, max_leaf_nodes=8, categorical_features=small or None, random_state=0
        )
        additive = make_pipeline(make_column_transformer(*parts), LogisticRegression(max_iter=1000))
        return VotingClassifier([("additive", additive), ("trees", trees)], voting="soft")

    def _read(self, rows: pa.Table) -> Float[np.ndarray, "n p"]:
        return np.hstack(FormEncoder(self.fitted.form).read(rows))


def fit_of(model: str) -> Callable[..., FittedGenerator]:
    """The function that fits a model of this name.

    Raises:
        InputError: There is no such model.
    """
    return FITS[_checks.among(model, "a model", FITS)]


def from_public_table(
    source: Place | TableFile,
    label: str,
    space: Classes,
    columns: tuple[Sequence[str] | None, Sequence[str] | None],
    model: str,
    text: str,
    kind: str,
    **settings: Any,
) -> tuple[FittedGenerator, Trial | None]:
    """Fit a generator on a table whose labels were declared public, and a second one to test on held-out rows.

    Args:
        source: A CSV or Parquet file, or a folder of either; a path, or an address.
        label: The label column.
        space: The declared classes.
        columns: The columns to keep, and those to drop; one of the two is None.
        model: A name in ``FITS``.
        text: Description of the data.
        kind: ``"public"`` or ``"auxiliary"``.
        **settings: Settings of the model.

    Returns:
        The generator of all rows; and a trial of one fitted without a random half of the rows of each class, at most
        10 000 of all. None instead of the trial if a class has too few rows.
    """
    fit = fit_of(model)
    opened = open_table(source, label)
    names = kept_columns(opened.schema, opened.label, *columns)
    refuse_public_labels(source, label, names)
    schema = typed(opened, names).schema
    table, labels = public_table(source, label, space, {name: schema.field(name).type for name in names})
    fitted = fit(table, labels, text, kind, **settings)
    codes = np.asarray(labels.codes)
    counts = np.bincount(codes, minlength=space.size)
    if counts.min() < _FEWEST_FITTED:
        return fitted, None
    held = _halves(codes, counts, min(1.0, 2 * _MOST_TRIED / len(codes)))
    rest = np.setdiff1d(np.arange(len(codes)), held)
    other = fit(table.take(rest), labels[rest], text, kind, form=fitted.form, **settings)
    return fitted, Trial(other, table.take(held), labels[held])


def _halves(codes: np.ndarray, counts: np.ndarray, share: float) -> np.ndarray:
    """A random half of the rows of each class, times a share."""
    chance = np.random.default_rng(0)
    shuffled = chance.permutation(len(codes))
    return np.sort(
        np.concatenate(
            [shuffled[codes[shuffled] == code][: max(1, int(count * share / 2))] for code, count in enumerate(counts)]
        )
    )


def from_release(
    directory: Place,
    columns: tuple[Sequence[str] | None, Sequence[str] | None],
    model: str,
    text: str,
    **settings: Any,
) -> FittedGenerator:
    """Fit a generator on the rows of a release, whose guarantee then covers it.

    Args:
        directory: The folder of a release: a path, or an address.
        columns: The columns to keep, and those to drop; both None for all.
        model: A name in ``FITS``.
        text: Description of the data.
        **settings: Settings of the model.

    Raises:
        VerificationError: The folder and its certificate do not agree.
        InputError: The folder holds an answer, or a column does not exist.
    """
    fit = fit_of(model)
    with local_copy(directory) as folder:
        if is_answer(folder):
            raise InputError(f"expected released labels in {directory}, found an answer; release labels of these rows")
        release = Release.load(folder)
        table: pa.Table = public_columns(folder, release.certificate)
        if columns != (None, None):
            table = table.select(kept_columns(table.schema, None, *columns))
        return fit(table, release, text, **settings)
