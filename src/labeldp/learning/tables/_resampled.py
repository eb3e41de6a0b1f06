"""Models of tables with resampled features, corrected by means of the generator."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.features import frame_of
from labeldp.learning.metrics import Estimate
from labeldp.learning.sklearn import ResampledClassifier, RowMethod, synthetic_rows, true_accuracy
from labeldp.mechanisms.resampling import Generator
from labeldp.release import Release

#: Method for resampled rows, for each method of released labels that can be corrected.
_ROW_METHODS: Mapping[str, RowMethod] = MappingProxyType(
    {"likelihood": "likelihood", "em": "likelihood", "unbiased": "weighted"}
)


def corrected(
    estimator: Pipeline, method: str, generator: Generator, columns: Mapping[str, str]
) -> ResampledClassifier:
    """Wrap a pipeline to learn with the probabilities that features are original, estimated from generated rows.

    Raises:
        InputError: The method cannot be corrected.
    """
    if method not in _ROW_METHODS:
        raise InputError(f"expected a method among {', '.join(_ROW_METHODS)} with a generator, found {method!r}")

    def drawn(codes: Int[np.ndarray, "m"]) -> pd.DataFrame:
        return frame_of(generator.sample(codes), columns)

    return ResampledClassifier(estimator, method=_ROW_METHODS[method], generator=drawn, original_share="estimated")


#: Fewest synthetic rows to evaluate a model on.
_FEWEST_SYNTHETIC = 10_000


def accuracy_of_true_rows(
    fitted: ResampledClassifier, release: Release, probabilities: Float[np.ndarray, "n k"]
) -> Estimate:
    """Approximate accuracy on true rows, from predictions of held-out released rows.

    The predictions are those of fold models; the correction for resampled rows uses predictions of the full model for
    synthetic rows. The interval does not cover the difference of these models, which vanishes if classes are equally
    common.
    """
    names = np.array(release.space.points)
    rows = synthetic_rows(fitted.generator, max(_FEWEST_SYNTHETIC, len(release)), len(names))
    return true_accuracy(release, names[np.argmax(probabilities, axis=1)], fitted.predict(rows))


def check_generator(generator: Generator, release: Release) -> None:
    """Refuse a generator other than that of a release."""
    law = None if release.certificate is None else release.certificate.features
    if law is None or law.generator is None:
        raise InputError("expected features resampled with a generator, found a release of labels alone")
    if generator.describe() != law.generator:
        raise InputError(
            "expected the generator that the release was made with, found one of another form or source; the "
            "certificate describes the right one"
        )
