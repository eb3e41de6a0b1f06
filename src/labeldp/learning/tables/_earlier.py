"""Models that earlier versions wrote with skops, as files hold them now."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import BinaryIO

import numpy as np

from labeldp._extras import require_extra
from labeldp._strict_json import strict_json
from labeldp.errors import VerificationError
from labeldp.learning.files import TYPES, check_stored, described

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
