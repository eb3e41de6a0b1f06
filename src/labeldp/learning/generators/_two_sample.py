"""How well a classifier tells the rows of a generator from given ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_score

from labeldp.errors import InputError
from labeldp.learning.generators._columns import Columns
from labeldp.learning.losses import require_release

if TYPE_CHECKING:
    from labeldp.learning.generators._fit import FittedGenerator


def two_sample_accuracy(fitted: FittedGenerator, features: object, labels: object) -> float:
    """The share of rows of which boosting says rightly whether they are given ones or drawn ones of the same classes.

    An estimate, and no guarantee: a half is what a coin says, and another classifier may say more. A generator whose
    rows are told apart less redraws features better.

    Args:
        fitted: A generator.
        features: Rows in its form, best others than it was fitted on.
        labels: A ``Release`` of their labels, which were declared public.

    Returns:
        The share of right answers, by cross-validation in three parts.

    Raises:
        NotTrueLabelsError: The labels are no release.
        InputError: They were not declared public.
    """
    release = require_release(labels)
    if release.certificate is not None:
        raise InputError("expected labels that were declared public, to draw rows of the same classes, found others")
    columns, codes = Columns(fitted.form), np.asarray(release.codes)
    given = fitted.form.shaped(fitted.form.table(features))[0]
    both = [np.hstack([*columns.read(rows), codes[:, None]]) for rows in (given, fitted.generator().sample(codes))]
    which = np.repeat([0, 1], len(codes))
    order = np.random.default_rng(0).permutation(len(which))
    model = HistGradientBoostingClassifier(random_state=0)
    return float(np.mean(cross_val_score(model, np.vstack(both)[order], which[order], cv=3)))
