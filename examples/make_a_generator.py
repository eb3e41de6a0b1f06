"""Fit a generator of features to auxiliary rows, and release other rows with resampled features."""

import numpy as np

from labeldp import Classes, Curator, DoubleResponse, Release
from labeldp.errors import InputError
from labeldp.learning.generators import fit_cells, fit_copula

rng = np.random.default_rng(0)  # makes up patients; labels and features are drawn from a cryptographic source below
space = Classes(["healthy", "ill"])


def patients(count: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Features of patients, and which of them are ill."""
    ill = rng.random(count) < 0.3
    age = np.round(rng.normal(45 + 15 * ill, 10), 1)
    pulse = np.round(rng.normal(70, 9, count), 1)
    smokes = np.where(rng.random(count) < 0.2 + 0.3 * ill, "yes", "no")
    return {"age": age, "pulse": pulse, "smokes": smokes}, np.where(ill, "ill", "healthy")


# Last year's patients consented to the use of their labels. This year's are other people, and have not.
features, labels = patients(2000)
fitted = fit_copula(features, Release.public(labels, space), "patients of last year, who agreed", "auxiliary")
print(fitted.source.sentence())

features, labels = patients(1000)
released = Curator(labels, space).randomize_rows(DoubleResponse(space, 1.0, fitted.generator()), features)
print(released.features.slice(0, 3).to_pylist())
print(released.labels.guarantee)

# A generator fitted to the private rows themselves would disclose labels through its samples.
original = fit_copula(features, Release.public(labels, space), "this year's, by mistake").generator()
try:
    Curator(labels, space).randomize_rows(DoubleResponse(space, 1.0, original), features)
    raise AssertionError("private rows were accepted")
except InputError as problem:
    print(f"refused: {problem}")

# For few categories all probabilities are known, which bounds the divergence from any features.
habits, labels = patients(2000)
cells = fit_cells({"smokes": habits["smokes"]}, Release.public(labels, space), "agreed", smoothing=0.1)
print(f"at most {-cells.log_floor:.3f} nats, and {cells.divergence_bound(cells.density, 2.0):.3f} if it is right")
