"""Classifier two-sample test of a generator: real rows against draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_score

from labeldp.errors import InputError
from labeldp.learning.generators._columns import FormEncoder
from labeldp.learning.losses import require_release

if TYPE_CHECKING:
    from labeldp.learning.generators._fit import FittedGenerator


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
