"""Leading components of features of rows, whitened in part."""

from __future__ import annotations

import numpy as np
from sklearn.utils.extmath import randomized_svd

from labeldp._shapes import Float

#: Rows that components are found from, at most.
ROWS = 10_000


def leading_components(
    sample: Float[np.ndarray, "n r"], count: int, whitening: float
) -> tuple[Float[np.ndarray, "r"], Float[np.ndarray, "r d"]]:
    """The mean of some rows, which are overwritten, and their leading components.

    Args:
        sample: Rows; of many, at most ``ROWS`` that were drawn by public chance.
        count: Number of components; fewer if rows have fewer directions.
        whitening: The power of its variance that a component is divided by: 0 leaves lengths as they are, and 1/2 makes
            them equal, which raises those that say little.

    Returns:
        The mean, and the components, by which the squared length of a row is one on average.

    References:
        Halko, Martinsson and Tropp 2011, Finding structure with randomness.
    """
    mean = sample.mean(axis=0)
    sample -= mean
    _, lengths, directions = randomized_svd(sample, min(count, *sample.shape), n_iter=2, random_state=0)
    variances = lengths.astype(np.float64) ** 2 / len(sample)
    variances = np.maximum(variances, np.finfo(np.float32).eps * max(float(variances[0]), 1e-30))
    scaled = directions.T / variances**whitening
    return mean, np.asarray(scaled / np.sqrt((variances ** (1.0 - 2.0 * whitening)).sum()), np.float32)
