"""Randomize with a prior: public knowledge about each row makes its released label more often the true one."""

import numpy as np

from labeldp import Classes, Curator, PriorResponse, RandomizedResponse

rng = np.random.default_rng(0)  # makes up a table; labels are drawn from a cryptographic source below
space = Classes(range(20))
ages = rng.integers(0, 20, 5000)
labels = np.clip(ages + rng.integers(-1, 2, 5000), 0, 19)

# Public knowledge: the label lies near the age group. It must not be computed from these labels.
distance = np.abs(np.arange(20) - ages[:, None])
prior = np.exp(-2.0 * distance)
prior /= prior.sum(axis=1, keepdims=True)

plain = RandomizedResponse(space, epsilon=1.0)
informed = PriorResponse(space, epsilon=1.0, prior=prior)
print(f"P(released label is true) without the prior: {plain.expectation.truth_probability:.1%}")
print(f"P(released label is true) with the prior:    {informed.expectation.truth_probability:.1%}")

release = Curator(labels, space).randomize(informed)
assert release.guarantee.epsilon <= 1.0
print(release.guarantee)
