"""Models of tables whose rows were redrawn with some chance, corrected by the generator that drew them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from sklearn.pipeline import Pipeline

from labeldp.errors import InputError
from labeldp.learning.features import frame_of
from labeldp.learning.metrics import Estimate
from labeldp.learning.sklearn import ResampledClassifier, RowMethod, classes_of, synthetic_rows, true_accuracy
from labeldp.mechanisms.features import Generator
from labeldp.release import Release

#: How rows that may be redrawn are learned from, for each method of released labels that can be corrected.
_WAYS: Mapping[str, RowMethod] = MappingProxyType(
    {"likelihood": "likelihood", "em": "likelihood", "unbiased": "weighted"}
)


def corrected(
    estimator: Pipeline, method: str, generator: Generator, columns: Mapping[str, str]
) -> ResampledClassifier:
    """What learns as a pipeline does, with the chances that features are own, estimated from the generator's rows.

    Raises:
        InputError: The method takes released labels for true ones, or clusters for all there is.
    """
    if method not in _WAYS:
        raise InputError(f"expected a method among {', '.join(_WAYS)} with a generator, found {method!r}")

    def drawn(codes: Int[np.ndarray, "m"]) -> pd.DataFrame:
        return frame_of(generator.sample(codes), columns)

    return ResampledClassifier(estimator, method=_WAYS[method], generator=drawn, original_share="estimated")


#: Synthetic rows that a model is judged by at the least.
_JUDGED_BY = 10_000


def accuracy_of_true_rows(
    fitted: ResampledClassifier, release: Release, probabilities: Float[np.ndarray, "n k"]
) -> Estimate:
    """About how often such a model is right on true rows, from its predictions of held-out released ones.

    Models of folds predicted these; what is taken off for redrawn rows is what the model of all rows predicts of
    synthetic ones. That these models differ a little is not in the interval, and adds up to nothing where classes are
    as common.
    """
    names = classes_of(release)
    rows = synthetic_rows(fitted.generator, max(_JUDGED_BY, len(release)), len(names))
    return true_accuracy(release, names[np.argmax(probabilities, axis=1)], fitted.predict(rows))


def check_generator(generator: Generator, release: Release) -> None:
    """Refuse a generator that is not the one whose rows are in a release.

    Raises:
        InputError: The release has the rows of another one, or of none.
    """
    law = None if release.certificate is None else release.certificate.features
    if law is None or law.generator is None:
        raise InputError("expected rows whose features were redrawn with a generator, found a release of labels alone")
    if generator.describe() != law.generator:
        raise InputError(
            "expected the generator that the release was made with, found one of another form or source; the "
            "certificate says which it was"
        )
