"""Images that several tests learn from."""

import numpy as np
import pytest


def noisy_stripes(rows, seed=0, shape=(14, 12)):
    """Noisy stripes at random places, and which way they go."""
    random = np.random.default_rng(seed)
    across, shift = random.random(rows) < 0.5, random.integers(0, 6, rows)
    waves = [128 + 100 * np.sin((np.arange(length) + shift[:, None]) * np.pi / 3) for length in shape]
    images = np.where(across[:, None, None], waves[0][:, :, None], waves[1][:, None, :])
    noisy = np.clip(images + random.normal(0, 20, images.shape), 0, 255).astype(np.uint8)
    return noisy[:, None], np.where(across, "across", "upright")


@pytest.fixture(scope="session")
def stripes():
    """A function of the number of rows that makes noisy stripes, and says which way they go."""
    return noisy_stripes
