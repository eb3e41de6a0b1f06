"""What released labels and a model together say of true labels."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from labeldp.release import Release


def posterior(release: Release, probabilities: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
    """P(true = j | released, features), for a model's P(true = j | features).

    References:
        Malek et al. 2021, section 3.2, for its use in training (ALIBI); by Fisher's identity it gives the gradient of
        the likelihood.
    """
    joint = release.likelihood() * np.maximum(probabilities, np.finfo(float).tiny)
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))
