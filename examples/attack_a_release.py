"""Attack a release: a tiny epsilon does not hide labels that public features reveal."""

import math

import numpy as np

from labeldp import Classes, Curator, RandomizedResponse, Release
from labeldp.audit import (
    Knowledge,
    attack_release,
    canary_memorisation,
    infer_from_repeats,
    plant_canaries,
    repeated_success,
)
from labeldp.bounds import pure_attack_limit

rng = np.random.default_rng(0)  # makes up a table; labels are drawn from a cryptographic source below
space = Classes(["healthy", "ill"])
ill = rng.random(4000) < 0.3
dose = np.where(ill, 2.0, -2.0) + rng.normal(size=4000)  # public: the dose of a drug that is given to the ill
labels = np.array(space.points)[ill.astype(int)]

release = Curator(labels, space).randomize(RandomizedResponse(space, epsilon=0.1))

# An attacker who knows how doses depend on illness. Labels are made up here, so the attack may be checked on them.
odds = np.exp(4 * dose) * 0.3 / 0.7
beliefs = np.stack([1 / (1 + odds), odds / (1 + odds)], axis=1)
unknown = pure_attack_limit(epsilon=release.guarantee.epsilon, classes=2, commonest=0.7)
limits = [("features unknown", unknown.value)]
report = attack_release(
    release, Knowledge(beliefs, prior=[0.7, 0.3]), truth=Release.public(labels, space), limits=limits
)
for knowledge in ("nothing about the row", "the released label", "features", "features and the released label"):
    gain = report.utility(knowledge)
    print(f"{knowledge:32} identifies {gain.value:.1%} of the labels ({gain.low:.1%} to {gain.high:.1%})")
print(f"proven limit if features are unknown: {unknown.value:.1%}")
assert report.utility("features").low > unknown.value

# The same label randomized again at each of 101 epochs: together the draws reveal it, even without features.
epochs = [Curator(labels, space).randomize(RandomizedResponse(space, epsilon=0.5)) for _ in range(101)]
inference = infer_from_repeats(epochs, Knowledge(prior=[0.5, 0.5]))
share, expected = (inference.labels() == labels).mean(), repeated_success(epochs[0].channel, 101)
print(f"101 draws at epsilon 0.5 identify {share:.1%}; expected {expected:.1%}")
assert abs(share - expected) < 6 * math.sqrt(expected * (1 - expected) / len(labels))

# Labels planted at random: a model that memorises them refutes its claim.
canaries = plant_canaries(space, rows=4000, count=400)
print(canary_memorisation(canaries, np.eye(2)[canaries.codes], epsilon=1.0))
