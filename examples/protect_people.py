"""Protect people rather than rows: all rows of a person share one epsilon."""

import numpy as np

from labeldp import Classes, Curator, SubsetResponse

rng = np.random.default_rng(0)  # makes up visits to a clinic; labels are drawn from a cryptographic source below
patients = np.sort(rng.integers(0, 400, 1000))
labels = rng.choice(["no", "within 30 days", "later"], 1000)

space = Classes(["no", "within 30 days", "later"])
curator = Curator(labels, space, budget=2.0, units=patients)
release = curator.randomize(SubsetResponse(space, epsilon=2.0))

channel = release.channel
print("rows per patient: ", channel.repeats)
print("epsilon of one row:", [round(law.epsilon, 3) for law in channel.channels])
print(release.guarantee)
assert release.guarantee.epsilon <= 2.0
