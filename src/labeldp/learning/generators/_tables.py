"""Generators from tables on disk: a public table, or the folder of a release, whose rows are then a paid split."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, VotingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer, StandardScaler

from labeldp._intervals import clopper_pearson_lower, clopper_pearson_upper
from labeldp.errors import InputError
from labeldp.learning.generators._columns import Columns
from labeldp.learning.generators._fit import FittedGenerator, fit_cells, fit_copula, fit_mixture
from labeldp.learning.generators._two_sample import two_sample_accuracy
from labeldp.privacy import Classes
from labeldp.release import Release, is_answer, kept_columns, public_columns, public_table
from labeldp.release.tables import open_table, typed

FITS: Mapping[str, Callable[..., FittedGenerator]] = {
    "copula": fit_copula,
    "mixture": fit_mixture,
    "cells": fit_cells,
}
#: Rows that a generator is tried on at the most.
_MOST_TRIED = 10_000
#: Rows of each class that are needed to fit another generator, and to tell a class from draws.
_FEWEST_FITTED, _FEWEST_TOLD = 4, 100
#: Draws that classes are told from at the least.
_FEWEST_DRAWN = 4_000
#: Boosting splits categories of so many values as such; of others it takes their places for numbers.
_MOST_SPLIT = 255


@dataclass(frozen=True, eq=False)
class Trial:
    """A generator that was fitted to one part of a table whose labels are public, and the rows of the other part.

    Attributes:
        fitted: The generator.
        table: Rows that it was not fitted on.
        labels: Their labels.
    """

    fitted: FittedGenerator
    table: pa.Table
    labels: Release

    def two_sample_accuracy(self) -> tuple[float, float, float]:
        """The share of these rows and as many draws that are told apart correctly, and its 95 % confidence interval."""
        share, trials = two_sample_accuracy(self.fitted, self.table, self.labels), 2 * self.table.num_rows
        correct = round(share * trials)
        return share, float(clopper_pearson_lower(correct, trials, 0.025)), float(clopper_pearson_upper(correct, trials, 0.025))

    def drawn(self) -> Float[np.ndarray, "m p"]:
        """As many rows of the generator as were held out, and more where these are few, evenly over the classes."""
        classes = self.fitted.space.size
        count = max(_FEWEST_DRAWN, self.table.num_rows)
        return self._read(self.fitted.generator().sample(np.arange(-(-count // classes) * classes) % classes))

    def by_class(self) -> Iterator[tuple[str, Float[np.ndarray, "n p"]]]:
        """The name of each class of which there are rows enough, and these rows."""
        form, codes = self.fitted.form, np.asarray(self.labels.codes)
        rows = self._read(form.shaped(form.table(self.table))[0])
        for code, point in enumerate(self.fitted.space.points):
            original = rows[codes == code]
            if 2 * len(original) >= _FEWEST_TOLD:
                yield str(point), original

    def discriminator(self) -> Any:
        """What tells a class from draws: the mean of a classifier that is smooth in each column, and of boosting."""
        columns = Columns(self.fitted.form)
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
        return np.hstack(Columns(self.fitted.form).read(rows))


def fit_of(model: str) -> Callable[..., FittedGenerator]:
    """What fits a law of that name.

    Raises:
        InputError: There is none.
    """
    if model not in FITS:
        raise InputError(f"expected a model among {', '.join(FITS)}, found {model!r}")
    return FITS[model]


def from_public_table(
    source: Path,
    label: str,
    space: Classes,
    columns: tuple[Sequence[str] | None, Sequence[str] | None],
    model: str,
    text: str,
    kind: str,
    **settings: Any,
) -> tuple[FittedGenerator, Trial | None]:
    """A generator of the rows of a table whose labels were declared public, and another to be tried on held-out rows.

    Args:
        source: A CSV or Parquet file, or a folder of either.
        label: The label column.
        space: The declared classes.
        columns: The columns to keep, and those to drop, of which one is None.
        model: A law in ``FITS``.
        text: Which data, in words.
        kind: ``"public"`` or ``"auxiliary"``.
        **settings: Of the law.

    Returns:
        The generator of all rows; and one that was fitted without half of the rows of each class, at random, and
        without 10 000 of all at the most, with these. None where a class has too few.
    """
    fit = fit_of(model)
    opened = open_table(source, label)
    names = kept_columns(opened.schema, label, *columns)
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
    """Half of the rows of each class, times a share, at random."""
    chance = np.random.default_rng(0)
    shuffled = chance.permutation(len(codes))
    return np.sort(
        np.concatenate(
            [shuffled[codes[shuffled] == code][: max(1, int(count * share / 2))] for code, count in enumerate(counts)]
        )
    )


def from_release(
    directory: Path,
    columns: tuple[Sequence[str] | None, Sequence[str] | None],
    model: str,
    text: str,
    **settings: Any,
) -> FittedGenerator:
    """A generator of the rows of a release, whose guarantee then covers it.

    Args:
        directory: The folder of a release.
        columns: The columns to keep, and those to drop; both None for all.
        model: A law in ``FITS``.
        text: Which data, in words.
        **settings: Of the law.

    Raises:
        VerificationError: The folder and its certificate do not agree.
        InputError: It holds an answer, or a column does not exist.
    """
    fit = fit_of(model)
    if is_answer(directory):
        raise InputError(f"expected released labels in {directory}, found an answer; release labels of these rows")
    table: pa.Table = public_columns(directory)
    if columns != (None, None):
        table = table.select(kept_columns(table.schema, "", *columns))
    return fit(table, Release.load(directory), text, **settings)
