"""The registry of randomizers, by the name that the command line uses."""

from __future__ import annotations

from labeldp.mechanisms.randomizers._randomizer import ClassRandomizer, NumberRandomizer, Randomizer
from labeldp.privacy import Kinds

#: The final randomizers by name: those of this package's files, and those of other distributions.
RANDOMIZERS: Kinds[Randomizer] = Kinds(
    *(Randomizer, "name", "labeldp.mechanisms.randomizers", "randomizer"),
    reserved=("auto", "double", "dummy", "noisy-histogram", "noisy-quantile", "optimal-counts", "peer"),
)


def class_randomizers() -> tuple[type[ClassRandomizer], ...]:
    """The randomizers of classes and of sets of classes that a label space and an epsilon determine."""
    return tuple(kind for kind in RANDOMIZERS.every() if issubclass(kind, ClassRandomizer) and not kind.needs())


def number_randomizers() -> tuple[type[NumberRandomizer], ...]:
    """The randomizers of numbers that a label space and an epsilon determine."""
    return tuple(kind for kind in RANDOMIZERS.every() if issubclass(kind, NumberRandomizer) and not kind.needs())
