"""Generators from tables on disk: a public table, or the folder of a release, whose rows are then a paid split."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp.errors import InputError
from labeldp.learning.generators import FittedGenerator, fit_cells, fit_copula, fit_mixture, told_apart
from labeldp.privacy import Classes
from labeldp.release import Release, is_answer, kept_columns, open_table, public_columns, public_table, typed

FITS: Mapping[str, Callable[..., FittedGenerator]] = {
    "copula": fit_copula,
    "mixture": fit_mixture,
    "cells": fit_cells,
}
_HELD_OUT = 5


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
    *,
    judged: bool = False,
    **settings: Any,
) -> tuple[FittedGenerator, float | None]:
    """A generator of the rows of a table whose labels were declared public, and how well its rows are told apart.

    Args:
        source: A CSV or Parquet file, or a folder of either.
        label: The label column.
        space: The declared classes.
        columns: The columns to keep, and those to drop, of which one is None.
        model: A law in ``FITS``.
        text: Which data, in words.
        kind: ``"public"`` or ``"auxiliary"``.
        judged: Whether to fit another one to all but a fifth of the rows, at random, and judge it on that fifth.
        **settings: Of the law.
    """
    fit = fit_of(model)
    opened = open_table(source, label)
    names = kept_columns(opened.schema, label, *columns)
    schema = typed(opened, names).schema
    table, labels = public_table(source, label, space, {name: schema.field(name).type for name in names})
    fitted = fit(table, labels, text, kind, **settings)
    if not judged:
        return fitted, None
    order = np.random.default_rng(0).permutation(len(labels))
    held, rest = np.split(order, [len(labels) // _HELD_OUT])
    other = fit(table.take(rest), labels[rest], text, kind, form=fitted.form, **settings)
    return fitted, told_apart(other, table.take(held), labels[held])


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
