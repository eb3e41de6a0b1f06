"""Randomize with a prior: what is publicly known of each row makes its released label more often the true one."""

import numpy as np

from labeldp import Classes, Curator, PriorResponse, RandomizedResponse

rng = np.random.default_rng(0)  # makes up a table; labels are drawn with secure words below
space = Classes(range(20))
ages = rng.integers(0, 20, 5000)
labels = np.clip(ages + rng.integers(-1, 2, 5000), 0, 19)

# Public knowledge: the label lies near the age group. It was not computed from these labels.
distance = np.abs(np.arange(20) - ages[:, None])
prior = np.exp(-2.0 * distance)
prior /= prior.sum(axis=1, keepdims=True)

plain = RandomizedResponse(space, epsilon=1.0)
informed = PriorResponse(space, epsilon=1.0, prior=prior)
print(f"true label kept without the prior: {plain.expectation.truth_probability:.1%}")
print(f"true label kept with the prior:    {informed.expectation.truth_probability:.1%}")

release = Curator(labels, space).randomize(informed)
assert release.guarantee.epsilon <= 1.0
print(release.guarantee)
