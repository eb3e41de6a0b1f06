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


def class_shares(release: Release, iterations: int = 200, tolerance: float = 1e-9) -> Float[np.ndarray, "k"]:
    """How often each true class occurs, by maximum likelihood: the fixed point of the mean posterior."""
    likelihood = release.likelihood()
    shares = np.full(likelihood.shape[1], 1.0 / likelihood.shape[1])
    for _ in range(iterations):
        joint = likelihood * shares
        found = (joint / joint.sum(axis=1, keepdims=True)).mean(axis=0)
        if np.abs(found - shares).max() < tolerance:
            return np.asarray(found)
        shares = found
    return shares
